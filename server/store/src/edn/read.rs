//! The reader: one form from a text, whole, or an error that says where it went wrong.

use super::{Decimal, Edn, Instant, base64_bytes};
use num_bigint::BigInt;
use std::fmt;
use std::sync::Arc;

/// How deep forms may nest. Everything that walks a value recurses, so this bounds the stack.
pub const MAX_DEPTH: usize = 200;

/// How many digits a number may have: reading and printing a big integer costs more than its length.
const MAX_DIGITS: usize = 10_000;

/// A place in a text. Lines and columns start at 1; a column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Bytes from the start.
    pub offset: usize,
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl Position {
    fn of(text: &str, offset: usize) -> Position {
        let before = &text[..offset.min(text.len())];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        Position {
            offset,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// Why a text is not one EDN form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// What was wrong, for a reader of the text.
    pub message: String,
    /// Where.
    pub position: Position,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (line {}, column {})",
            self.message, self.position.line, self.position.column
        )
    }
}

impl std::error::Error for ReadError {}

/// Reads a text that holds exactly one form.
///
/// # Errors
/// When it holds none, more than one, or is not EDN.
pub fn read(text: &str) -> Result<Edn, ReadError> {
    Reader::new(text, None).whole()
}

/// Where a part of the form in `text` begins. A path names children from the outside in: the index
/// in a list, vector or set as written; in a map `2n` for the n-th key and `2n + 1` for its value;
/// 0 below a tag. The nearest part that exists is taken.
pub fn locate(text: &str, path: &[usize]) -> Position {
    let mut reader = Reader::new(text, Some(path));
    // The text was read before; if it was not, the best guess so far still helps.
    let _ = reader.whole();
    Position::of(text, reader.found)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// What `locate` looks for, where the reader is, and the best place so far.
    wanted: Option<&'a [usize]>,
    matched: usize,
    found: usize,
}

type Result2<T> = Result<T, (usize, String)>;

fn fail<T>(at: usize, message: impl Into<String>) -> Result2<T> {
    Err((at, message.into()))
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | ',' | '\t'..='\r' | '\u{1c}'..='\u{1f}') || c.is_whitespace()
}

fn ends_token(c: char) -> bool {
    is_space(c) || matches!(c, '(' | ')' | '[' | ']' | '{' | '}' | '"' | ';')
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, wanted: Option<&'a [usize]>) -> Reader<'a> {
        Reader {
            text,
            at: 0,
            depth: 0,
            wanted,
            matched: 0,
            found: 0,
        }
    }

    fn whole(&mut self) -> Result<Edn, ReadError> {
        self.only_form().map_err(|(at, message)| ReadError {
            message,
            position: Position::of(self.text, at),
        })
    }

    fn only_form(&mut self) -> Result2<Edn> {
        self.skip()?;
        if self.peek().is_none() {
            return fail(self.at, "there is nothing to read: an EDN form is expected");
        }
        self.found = self.at;
        let form = self.form()?;
        self.skip()?;
        match self.peek() {
            None => Ok(form),
            Some(c @ (')' | ']' | '}')) => fail(self.at, format!("`{c}` closes nothing")),
            Some(_) => fail(
                self.at,
                "only one form is expected, and another one follows",
            ),
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Skips space, comments and discarded forms.
    fn skip(&mut self) -> Result2<()> {
        loop {
            let rest = &self.text[self.at..];
            match rest.chars().next() {
                Some(c) if is_space(c) => self.at += c.len_utf8(),
                Some(';') => self.at += rest.find('\n').unwrap_or(rest.len()),
                Some('#') if rest.starts_with("#_") => self.discard()?,
                _ => return Ok(()),
            }
        }
    }

    fn discard(&mut self) -> Result2<()> {
        let start = self.at;
        self.at += 2;
        self.enter(start)?;
        self.skip()?;
        if matches!(self.peek(), None | Some(')' | ']' | '}')) {
            return fail(start, "`#_` discards the next form, and there is none");
        }
        let wanted = self.wanted.take();
        self.form()?;
        self.wanted = wanted;
        self.depth -= 1;
        Ok(())
    }

    fn enter(&mut self, start: usize) -> Result2<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fail(start, format!("forms nest more than {MAX_DEPTH} deep"));
        }
        Ok(())
    }

    /// Reads a child form, noting its place when it is on the path that `locate` follows.
    fn child(&mut self, index: usize) -> Result2<Edn> {
        let Some(path) = self.wanted else {
            return self.form();
        };
        if path.get(self.matched) != Some(&index) {
            let wanted = self.wanted.take();
            let form = self.form();
            self.wanted = wanted;
            return form;
        }
        self.found = self.at;
        self.matched += 1;
        let form = self.form()?;
        // Past it: nothing after may move the place.
        self.wanted = None;
        Ok(form)
    }

    fn form(&mut self) -> Result2<Edn> {
        let start = self.at;
        let Some(c) = self.peek() else {
            return fail(start, "the text ends where a form is expected");
        };
        match c {
            '(' => Ok(Edn::List(self.items(')')?)),
            '[' => Ok(Edn::Vector(self.items(']')?)),
            '{' => self.map(None),
            '"' => Ok(Edn::Str(self.string()?.into())),
            '\\' => self.character(),
            ':' => self.keyword(),
            '#' => self.dispatch(),
            ')' | ']' | '}' => fail(start, format!("`{c}` closes nothing")),
            '0'..='9' => self.number(),
            '+' | '-' if self.text[start + 1..].starts_with(|d: char| d.is_ascii_digit()) => {
                self.number()
            }
            '\'' | '`' | '~' | '@' | '^' => {
                fail(start, format!("`{c}` is Clojure's reader, not EDN"))
            }
            _ => self.symbol(),
        }
    }

    /// What stands between an opening bracket, at the reader, and `close`.
    fn items(&mut self, close: char) -> Result2<Vec<Edn>> {
        let start = self.at;
        self.enter(start)?;
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip()?;
            match self.peek() {
                None => {
                    let open = &self.text[start..=start];
                    return fail(
                        start,
                        format!("`{open}` is never closed: `{close}` is missing"),
                    );
                }
                Some(c) if c == close => {
                    self.at += 1;
                    self.depth -= 1;
                    return Ok(items);
                }
                Some(c @ (')' | ']' | '}')) => {
                    return fail(self.at, format!("`{c}` stands where `{close}` is expected"));
                }
                Some(_) => {
                    let index = items.len();
                    items.push(self.child(index)?);
                }
            }
        }
    }

    fn map(&mut self, namespace: Option<&str>) -> Result2<Edn> {
        let start = self.at;
        let items = self.items('}')?;
        if items.len() % 2 == 1 {
            return fail(
                start,
                "a map needs a value for each key, and the last key has none",
            );
        }
        let mut members: Vec<(Edn, Edn)> = Vec::with_capacity(items.len() / 2);
        let mut items = items.into_iter();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            members.push((qualify(key, namespace), value));
        }
        let sorted = super::sorted(&members);
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return fail(
                start,
                format!("the key {} is in the map twice", pair[0].0.brief(60)),
            );
        }
        Ok(Edn::Map(members))
    }

    fn set(&mut self) -> Result2<Edn> {
        let start = self.at - 1;
        let mut items = self.items('}')?;
        items.sort();
        if let Some(pair) = items.windows(2).find(|pair| pair[0] == pair[1]) {
            return fail(start, format!("{} is in the set twice", pair[0].brief(60)));
        }
        Ok(Edn::Set(items))
    }

    fn string(&mut self) -> Result2<String> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let at = self.at;
            match self.bump() {
                None => return fail(start, "the string is never closed: `\"` is missing"),
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape(at)?),
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self, at: usize) -> Result2<char> {
        Ok(match self.bump() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('\\') => '\\',
            Some('"') => '"',
            Some('u') => {
                let high = self.hex4(at)?;
                if (0xd800..0xdc00).contains(&high) && self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    let low = self.hex4(at)?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return fail(at, "`\\u` starts a surrogate pair that is not completed");
                    }
                    let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    return char::from_u32(code).ok_or((at, "not a character".to_owned()));
                }
                match char::from_u32(high) {
                    Some(c) => c,
                    None => return fail(at, "`\\u` names half of a surrogate pair"),
                }
            }
            Some(c) => {
                return fail(
                    at,
                    format!(
                        "`\\{c}` is no escape; known are \\n \\t \\r \\b \\f \\\\ \\\" \\uXXXX"
                    ),
                );
            }
            None => return fail(at, "the text ends inside an escape"),
        })
    }

    fn hex4(&mut self, start: usize) -> Result2<u32> {
        match self.text.get(self.at..self.at + 4) {
            Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
                self.at += 4;
                u32::from_str_radix(hex, 16).or_else(|_| fail(start, "not a number"))
            }
            _ => fail(start, "`\\u` needs four hexadecimal digits"),
        }
    }

    /// The text up to the next space, bracket, quote or comment.
    fn token(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let token = &rest[..rest.find(ends_token).unwrap_or(rest.len())];
        self.at += token.len();
        token
    }

    fn character(&mut self) -> Result2<Edn> {
        let start = self.at;
        self.at += 1;
        let Some(first) = self.peek() else {
            return fail(start, "the text ends after `\\`");
        };
        if is_space(first) && first != ',' {
            return fail(
                start,
                "`\\` names a character, and a space follows; write \\space, \\newline or \\tab",
            );
        }
        self.at += first.len_utf8();
        let rest = if ends_token(first) { "" } else { self.token() };
        if rest.is_empty() {
            return Ok(Edn::Char(first));
        }
        let name = &self.text[start + 1..self.at];
        let c = match name {
            "newline" => '\n',
            "return" => '\r',
            "space" => ' ',
            "tab" => '\t',
            "formfeed" => '\u{c}',
            "backspace" => '\u{8}',
            _ => {
                let hex = name
                    .strip_prefix('u')
                    .filter(|h| h.len() == 4 && h.bytes().all(|b| b.is_ascii_hexdigit()));
                let code = hex
                    .and_then(|h| u32::from_str_radix(h, 16).ok())
                    .and_then(char::from_u32);
                match code {
                    Some(c) => c,
                    None => return fail(start, format!("`\\{name}` names no character")),
                }
            }
        };
        Ok(Edn::Char(c))
    }

    fn keyword(&mut self) -> Result2<Edn> {
        let start = self.at;
        self.at += 1;
        let name = self.token();
        if name.is_empty() {
            return fail(start, "`:` starts a keyword, and its name is missing");
        }
        if name.starts_with(':') {
            return fail(
                start,
                format!("`:{name}` is Clojure's notation; write the namespace out, `:ns/name`"),
            );
        }
        check_name(name, start, true)?;
        Ok(Edn::Keyword(name.into()))
    }

    fn symbol(&mut self) -> Result2<Edn> {
        let start = self.at;
        let name = self.token();
        Ok(match name {
            "nil" => Edn::Nil,
            "true" => Edn::Bool(true),
            "false" => Edn::Bool(false),
            _ => {
                check_name(name, start, false)?;
                Edn::Symbol(name.into())
            }
        })
    }

    fn dispatch(&mut self) -> Result2<Edn> {
        let start = self.at;
        self.at += 1;
        match self.peek() {
            Some('{') => self.set(),
            Some('#') => {
                self.at += 1;
                match self.token() {
                    "Inf" => Ok(Edn::Double(f64::INFINITY)),
                    "-Inf" => Ok(Edn::Double(f64::NEG_INFINITY)),
                    "NaN" => Ok(Edn::Double(f64::NAN)),
                    other => fail(
                        start,
                        format!("`##{other}` is unknown; known are ##Inf ##-Inf ##NaN"),
                    ),
                }
            }
            Some(':') => {
                self.at += 1;
                let name = self.token();
                check_name(name, start, true)?;
                if name.contains('/') || self.peek() != Some('{') {
                    return fail(
                        start,
                        "`#:` is followed by a namespace and a map: `#:person{:name \"Ada\"}`",
                    );
                }
                self.map(Some(name))
            }
            Some(c) if c.is_alphabetic() => {
                let tag = self.token();
                check_name(tag, start, false)?;
                self.tagged(tag, start)
            }
            _ => fail(
                start,
                "`#` starts a set `#{}`, a tag, `#_`, `#:ns{}` or `##Inf`, and none of them follows",
            ),
        }
    }

    fn tagged(&mut self, tag: &str, start: usize) -> Result2<Edn> {
        self.enter(start)?;
        self.skip()?;
        if matches!(self.peek(), None | Some(')' | ']' | '}')) {
            return fail(start, format!("the tag `#{tag}` is followed by no form"));
        }
        let value = self.child(0)?;
        self.depth -= 1;
        match (tag, &value) {
            ("inst", Edn::Str(text)) => match Instant::parse(text) {
                Some(instant) => Ok(Edn::Inst(instant)),
                None => fail(
                    start,
                    format!(
                        "{} is no instant; write #inst \"2026-01-31T12:00:00.000Z\"",
                        value.brief(60)
                    ),
                ),
            },
            ("uuid", Edn::Str(text)) => match uuid(text) {
                Some(bytes) => Ok(Edn::Uuid(bytes)),
                None => fail(
                    start,
                    format!(
                        "{} is no uuid: 8-4-4-4-12 hexadecimal digits",
                        value.brief(60)
                    ),
                ),
            },
            ("base64", Edn::Str(text)) => match base64_bytes(text) {
                Some(bytes) => Ok(Edn::Bytes(bytes.into())),
                None => fail(start, format!("{} is not base64", value.brief(60))),
            },
            ("inst" | "uuid" | "base64", _) => fail(
                start,
                format!("`#{tag}` is followed by a string, not {}", value.kind()),
            ),
            _ => Ok(Edn::Tagged(tag.into(), Box::new(value))),
        }
    }

    fn number(&mut self) -> Result2<Edn> {
        let start = self.at;
        let token = self.token();
        let unsigned = token.strip_prefix(['+', '-']).unwrap_or(token);
        if token.len() > MAX_DIGITS {
            return fail(start, format!("a number of more than {MAX_DIGITS} digits"));
        }
        if let Some((top, bottom)) = unsigned.split_once('/')
            && all_digits(top)
            && all_digits(bottom)
        {
            return fail(
                start,
                format!(
                    "`{token}` is a ratio, which EDN does not have; write a double or an integer"
                ),
            );
        }
        let whole = &unsigned[..unsigned
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(unsigned.len())];
        if whole.len() > 1 && whole.starts_with('0') {
            return fail(
                start,
                format!("`{}` starts with a zero", Edn::symbol(token).brief(40)),
            );
        }
        let rest = &unsigned[whole.len()..];
        match rest {
            "" => Ok(integer(token)),
            "N" => Ok(Edn::BigInt(Arc::new(big(&token[..token.len() - 1])))),
            "M" => Ok(Edn::Decimal(Arc::new(Decimal {
                unscaled: big(&token[..token.len() - 1]),
                scale: 0,
            }))),
            _ => match fraction_and_exponent(rest) {
                Some((fraction, exponent, exact)) => {
                    float(token, whole, fraction, exponent, exact).or_else(|m| fail(start, m))
                }
                None => fail(
                    start,
                    format!("`{}` is not a number", Edn::symbol(token).brief(40)),
                ),
            },
        }
    }
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn big(text: &str) -> BigInt {
    // Digits with an optional sign, checked by the caller.
    text.parse().unwrap_or_default()
}

fn integer(token: &str) -> Edn {
    match token.parse::<i64>() {
        Ok(number) => Edn::Int(number),
        Err(_) => Edn::big(big(token)),
    }
}

/// Splits `.5e-3M` into the fraction's digits, the exponent, and whether it is exact.
fn fraction_and_exponent(rest: &str) -> Option<(&str, i64, bool)> {
    let (rest, exact) = match rest.strip_suffix('M') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let (fraction, exponent) = match rest.split_once(['e', 'E']) {
        Some((fraction, exponent)) => {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if !all_digits(digits) || digits.len() > 9 {
                return None;
            }
            (fraction, exponent.parse::<i64>().ok()?)
        }
        None => (rest, 0),
    };
    if fraction.is_empty() {
        return Some(("", exponent, exact));
    }
    let digits = fraction.strip_prefix('.')?;
    all_digits(digits).then_some((digits, exponent, exact))
}

fn float(
    token: &str,
    whole: &str,
    fraction: &str,
    exponent: i64,
    exact: bool,
) -> Result<Edn, String> {
    if !exact {
        let number: f64 = token
            .parse()
            .map_err(|_| format!("`{token}` is not a number"))?;
        return if number.is_finite() {
            Ok(Edn::Double(number))
        } else {
            Err(format!(
                "`{token}` is too large for a double; write ##Inf if that is meant"
            ))
        };
    }
    let scale = fraction.len() as i64 - exponent;
    if scale.unsigned_abs() as usize > MAX_DIGITS {
        return Err(format!("`{token}` has more than {MAX_DIGITS} digits"));
    }
    let sign = if token.starts_with('-') { "-" } else { "" };
    let zeros = "0".repeat(usize::try_from(-scale).unwrap_or(0));
    let unscaled = big(&format!("{sign}{whole}{fraction}{zeros}"));
    Ok(Edn::Decimal(Arc::new(Decimal {
        unscaled,
        scale: u32::try_from(scale).unwrap_or(0),
    })))
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|p| p.len()).collect();
    if lengths != [8, 4, 4, 4, 12] || !text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit()) {
        return None;
    }
    Some(
        u128::from_str_radix(&parts.concat(), 16)
            .ok()?
            .to_be_bytes(),
    )
}

/// The rules for symbols; a keyword's name may start with a digit, as Clojure allows.
fn check_name(name: &str, at: usize, keyword: bool) -> Result2<()> {
    let shown = Edn::symbol(name).brief(60);
    let colon = if keyword { ":" } else { "" };
    if let Some(c) = name.chars().find(|c| !is_name_char(*c)) {
        return fail(at, format!("`{c}` cannot stand in `{colon}{shown}`"));
    }
    if name == "/" && !keyword {
        return Ok(());
    }
    let mut parts = name.split('/');
    let (first, second, third) = (parts.next().unwrap_or(""), parts.next(), parts.next());
    if first.is_empty() || second == Some("") || third.is_some() {
        return fail(
            at,
            format!("`{colon}{shown}`: a name has one `/` at most, with text on both sides"),
        );
    }
    for part in std::iter::once(first).chain(second) {
        let mut chars = part.chars();
        let start = chars.next().unwrap_or(' ');
        let next = chars.next().unwrap_or(' ');
        let numeric =
            start.is_ascii_digit() || (matches!(start, '+' | '-' | '.') && next.is_ascii_digit());
        if matches!(start, ':' | '#' | '\'') || (numeric && !keyword) {
            return fail(
                at,
                format!("`{colon}{shown}` is not a name: it cannot start like that"),
            );
        }
    }
    Ok(())
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || ".*+!-_?$%&=<>|/:#'".contains(c)
}

/// Gives the keys of `#:ns{…}` their namespace: plain names get it, `_/name` loses its mark.
fn qualify(key: Edn, namespace: Option<&str>) -> Edn {
    let Some(namespace) = namespace else {
        return key;
    };
    let full = |name: &str| -> Arc<str> {
        match name.strip_prefix("_/") {
            Some(bare) => bare.into(),
            None if name.contains('/') => name.into(),
            None => format!("{namespace}/{name}").into(),
        }
    };
    match key {
        Edn::Keyword(name) => Edn::Keyword(full(&name)),
        Edn::Symbol(name) => Edn::Symbol(full(&name)),
        other => other,
    }
}
