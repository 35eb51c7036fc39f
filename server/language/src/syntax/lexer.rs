//! Text to tokens. Every byte of the text is in exactly one token.

use logos::Logos;

use super::kind::Kind;

/// One token: its kind and the bytes it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// Cuts `text` into tokens. A string is cut into its quote, text, escapes and interpolations;
/// it ends at the end of its line at the latest, with whatever is open inside it.
pub fn lex(text: &str) -> Vec<Token> {
    let mut lexer = Lexer {
        text,
        at: 0,
        tokens: Vec::new(),
        open: Vec::new(),
    };
    lexer.run();
    lexer.tokens
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    /// One entry per open interpolation: how many braces are open inside it.
    open: Vec<u32>,
}

impl Lexer<'_> {
    fn push(&mut self, kind: Kind, end: usize) {
        self.tokens.push(Token {
            kind,
            start: self.at as u32,
            end: end as u32,
        });
        self.at = end;
    }

    fn run(&mut self) {
        let text = self.text;
        let mut logos = Kind::lexer(text);
        while self.at < text.len() {
            // `logos` and `self.at` part ways inside strings only.
            let behind = self.at - logos.span().end;
            logos.bump(behind);
            let Some(found) = logos.next() else { break };
            let mut end = logos.span().end;
            while !text.is_char_boundary(end) {
                end += 1;
            }
            let kind = found.unwrap_or(Kind::Unknown);
            match kind {
                Kind::Quote | Kind::TagQuote => {
                    self.push(kind, end);
                    self.string();
                }
                Kind::LBrace => {
                    if let Some(depth) = self.open.last_mut() {
                        *depth += 1;
                    }
                    self.push(kind, end);
                }
                Kind::RBrace => match self.open.last_mut() {
                    Some(0) => {
                        self.open.pop();
                        self.push(Kind::InterpClose, end);
                        self.string();
                    }
                    Some(depth) => {
                        *depth -= 1;
                        self.push(kind, end);
                    }
                    None => self.push(kind, end),
                },
                Kind::Newline => {
                    self.open.clear();
                    self.push(kind, end);
                }
                _ => self.push(kind, end),
            }
        }
    }

    /// The inside of a string, from after its quote or after an interpolation.
    fn string(&mut self) {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut at = start;
        loop {
            let here = bytes.get(at).copied();
            if !matches!(here, None | Some(b'\n' | b'"' | b'{' | b'\\')) {
                at += 1;
                continue;
            }
            if at > self.at {
                self.push(Kind::StrText, at);
            }
            match here {
                Some(b'"') => return self.push(Kind::StrEnd, at + 1),
                Some(b'{') => {
                    self.push(Kind::InterpOpen, at + 1);
                    return self.open.push(0);
                }
                Some(b'\\') => {
                    let end = escape_end(self.text, at);
                    self.push(Kind::Escape, end);
                    at = end;
                }
                // Unterminated: the parser says so, since there is no closing quote.
                _ => return,
            }
        }
    }
}

/// Where the escape that starts at `at` ends: after `\n`, `\u{…}`, or the character after `\`.
fn escape_end(text: &str, at: usize) -> usize {
    let rest = &text[at + 1..];
    if let Some(hex) = rest.strip_prefix("u{") {
        let digits = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        if hex.as_bytes().get(digits) == Some(&b'}') {
            return at + 1 + 2 + digits + 1;
        }
    }
    match rest.chars().next() {
        Some(c) if c != '\n' => at + 1 + c.len_utf8(),
        _ => at + 1,
    }
}

/// What an escape stands for, if it is one.
pub(super) fn unescape(escape: &str) -> Option<char> {
    match escape {
        r"\n" => Some('\n'),
        r"\t" => Some('\t'),
        r"\r" => Some('\r'),
        r"\\" => Some('\\'),
        r#"\""# => Some('"'),
        r"\{" => Some('{'),
        r"\}" => Some('}'),
        _ => {
            let hex = escape.strip_prefix(r"\u{")?.strip_suffix('}')?;
            char::from_u32(u32::from_str_radix(hex, 16).ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        lex(text).into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn a_string_is_cut_into_text_escapes_and_interpolations() {
        use Kind::*;
        assert_eq!(
            kinds(r#""a\n{x}b""#),
            [
                Quote,
                StrText,
                Escape,
                InterpOpen,
                Lower,
                InterpClose,
                StrText,
                StrEnd
            ]
        );
        assert_eq!(
            kinds("url\"{ {1} }\""),
            [
                TagQuote,
                InterpOpen,
                Space,
                LBrace,
                Int,
                RBrace,
                Space,
                InterpClose,
                StrEnd
            ]
        );
    }

    #[test]
    fn an_open_string_ends_with_its_line() {
        use Kind::*;
        assert_eq!(
            kinds("\"a{b\n}"),
            [Quote, StrText, InterpOpen, Lower, Newline, RBrace]
        );
    }

    #[test]
    fn docs_comments_and_holes() {
        use Kind::*;
        assert_eq!(kinds("/// a"), [Doc]);
        assert_eq!(kinds("// a"), [Comment]);
        assert_eq!(kinds("?x €"), [HoleName, Space, Unknown]);
    }
}
