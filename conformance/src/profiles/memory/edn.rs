//! EDN as a server prints it: read whole or refused, and compared as values.
//!
//! A reader of the suite's own, so that a mistake of the server's reader cannot hide here. Beyond
//! the notation's text it takes what Clojure prints: `##Inf`, and maps with a namespace before them.

use std::fmt::{self, Display, Formatter, Write as _};
use std::time::{Duration, UNIX_EPOCH};

/// How deep forms may nest.
const MOST_DEEP: usize = 200;

/// A form.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Edn {
    Nil,
    Bool(bool),
    /// Its digits, with a minus if it is negative; of any size.
    Int(String),
    Float(f64),
    /// As it was written, without the `M`.
    Decimal(String),
    Char(char),
    Str(String),
    /// Without the colon.
    Keyword(String),
    Symbol(String),
    List(Vec<Edn>),
    Vector(Vec<Edn>),
    Set(Vec<Edn>),
    Map(Vec<(Edn, Edn)>),
    Tagged(String, Box<Edn>),
}

/// Reads a text that holds exactly one form. The error says what is wrong, and where.
pub(super) fn read(text: &str) -> Result<Edn, String> {
    let mut reader = Reader {
        text,
        at: 0,
        depth: 0,
    };
    let form = reader.form()?;
    reader.skip()?;
    match reader.peek() {
        None => Ok(form),
        Some(_) => reader.fail("something follows the form"),
    }
}

impl Edn {
    /// The value of a key of a map: its name without the colon.
    pub(super) fn get(&self, key: &str) -> Option<&Edn> {
        self.members()?
            .iter()
            .find(|(name, _)| name.keyword() == Some(key))
            .map(|(_, value)| value)
    }

    pub(super) fn members(&self) -> Option<&[(Edn, Edn)]> {
        match self {
            Edn::Map(members) => Some(members),
            _ => None,
        }
    }

    /// The elements of a list, vector or set.
    pub(super) fn items(&self) -> Option<&[Edn]> {
        match self {
            Edn::List(items) | Edn::Vector(items) | Edn::Set(items) => Some(items),
            _ => None,
        }
    }

    /// A number that fits into 64 bits.
    pub(super) fn int(&self) -> Option<i64> {
        match self {
            Edn::Int(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    pub(super) fn str(&self) -> Option<&str> {
        match self {
            Edn::Str(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn keyword(&self) -> Option<&str> {
        match self {
            Edn::Keyword(name) => Some(name),
            _ => None,
        }
    }

    /// An instant in milliseconds since 1970.
    pub(super) fn instant(&self) -> Option<i64> {
        match self {
            Edn::Tagged(tag, value) if tag == "inst" => milliseconds(value.str()?),
            _ => None,
        }
    }

    /// Whether both are the same value: a list is the vector with its elements, the order in maps
    /// and sets is none, and an instant is the same in every zone.
    pub(super) fn same(&self, other: &Edn) -> bool {
        match (self, other) {
            (Edn::List(a) | Edn::Vector(a), Edn::List(b) | Edn::Vector(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
            }
            (Edn::Set(a), Edn::Set(b)) => same_members(a, b, Edn::same),
            (Edn::Map(a), Edn::Map(b)) => {
                same_members(a, b, |a, b| a.0.same(&b.0) && a.1.same(&b.1))
            }
            (Edn::Tagged(a, x), Edn::Tagged(b, y)) => {
                a == b
                    && match (self.instant(), other.instant()) {
                        (Some(a), Some(b)) => a == b,
                        _ if a == "uuid" => same_text(x, y),
                        _ => x.same(y),
                    }
            }
            _ => self == other,
        }
    }

    /// Whether both hold the same elements, in whichever order: how rows are compared.
    pub(super) fn same_rows(&self, other: &Edn) -> bool {
        match (self.items(), other.items()) {
            (Some(a), Some(b)) => same_members(a, b, Edn::same),
            _ => self.same(other),
        }
    }
}

fn same_text(a: &Edn, b: &Edn) -> bool {
    match (a.str(), b.str()) {
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        _ => false,
    }
}

fn same_members<T>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    let mut free: Vec<&T> = b.iter().collect();
    a.len() == b.len()
        && a.iter().all(|a| {
            let at = free.iter().position(|b| same(a, b));
            at.map(|at| free.swap_remove(at)).is_some()
        })
}

/// `2026-11-30T12:00:00.5+01:00` in milliseconds since 1970.
fn milliseconds(text: &str) -> Option<i64> {
    let signed = |time: Duration| i64::try_from(time.as_millis()).ok();
    let (moment, zone) = match text.strip_suffix('Z') {
        Some(moment) => (moment, 0),
        None => {
            let (moment, zone) = text.split_at_checked(text.len().checked_sub(6)?)?;
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            let sign = match zone.get(..1)? {
                "+" => 1,
                "-" => -1,
                _ => return None,
            };
            let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
            (moment, sign * minutes)
        }
    };
    let time = humantime::parse_rfc3339(&format!("{moment}Z")).ok()?;
    Some(signed(time.duration_since(UNIX_EPOCH).ok()?)? - zone * 60_000)
}

// ---- Printing: for messages, and for arguments that a check makes

impl Display for Edn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Edn::Nil => f.write_str("nil"),
            Edn::Bool(value) => write!(f, "{value}"),
            Edn::Int(digits) => f.write_str(digits),
            Edn::Float(value) => write!(f, "{value:?}"),
            Edn::Decimal(digits) => write!(f, "{digits}M"),
            Edn::Char(c) => write!(f, "\\{c}"),
            Edn::Str(text) => {
                let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
                write!(f, "\"{escaped}\"")
            }
            Edn::Keyword(name) => write!(f, ":{name}"),
            Edn::Symbol(name) => f.write_str(name),
            Edn::List(items) => sequence(f, "(", items, ")"),
            Edn::Vector(items) => sequence(f, "[", items, "]"),
            Edn::Set(items) => sequence(f, "#{", items, "}"),
            Edn::Map(members) => {
                f.write_char('{')?;
                for (index, (key, value)) in members.iter().enumerate() {
                    let gap = if index == 0 { "" } else { " " };
                    write!(f, "{gap}{key} {value}")?;
                }
                f.write_char('}')
            }
            Edn::Tagged(tag, value) => write!(f, "#{tag} {value}"),
        }
    }
}

fn sequence(f: &mut Formatter<'_>, open: &str, items: &[Edn], close: &str) -> fmt::Result {
    f.write_str(open)?;
    for (index, item) in items.iter().enumerate() {
        let gap = if index == 0 { "" } else { " " };
        write!(f, "{gap}{item}")?;
    }
    f.write_str(close)
}

// ---- Reading

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || c == ','
}

fn ends_token(c: char) -> bool {
    is_space(c) || "()[]{}\";".contains(c)
}

impl<'a> Reader<'a> {
    fn fail<T>(&self, what: &str) -> Result<T, String> {
        let before = self.text.get(..self.at).unwrap_or_default();
        Err(format!(
            "{what}, at character {}",
            before.chars().count() + 1
        ))
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Passes over space, comments and discarded forms.
    fn skip(&mut self) -> Result<(), String> {
        loop {
            let rest = &self.text[self.at..];
            match rest.chars().next() {
                Some(c) if is_space(c) => self.at += c.len_utf8(),
                Some(';') => self.at += rest.find('\n').unwrap_or(rest.len()),
                Some('#') if rest.starts_with("#_") => {
                    self.at += 2;
                    self.form()?;
                }
                _ => return Ok(()),
            }
        }
    }

    fn form(&mut self) -> Result<Edn, String> {
        self.depth += 1;
        if self.depth > MOST_DEEP {
            return self.fail("forms nest too deep");
        }
        self.skip()?;
        let form = match self.peek() {
            None => self.fail("the text ends where a form is due"),
            Some('(') => Ok(Edn::List(self.items(')')?)),
            Some('[') => Ok(Edn::Vector(self.items(']')?)),
            Some('{') => self.map(None),
            Some('"') => self.string().map(Edn::Str),
            Some('\\') => self.character(),
            Some('#') => self.dispatch(),
            Some(')' | ']' | '}') => self.fail("a bracket closes nothing"),
            Some(_) => self.token(),
        };
        self.depth -= 1;
        form
    }

    fn items(&mut self, close: char) -> Result<Vec<Edn>, String> {
        self.bump();
        let mut items = Vec::new();
        loop {
            self.skip()?;
            match self.peek() {
                None => return self.fail(&format!("`{close}` is missing")),
                Some(c) if c == close => {
                    self.bump();
                    return Ok(items);
                }
                Some(_) => items.push(self.form()?),
            }
        }
    }

    fn map(&mut self, namespace: Option<&str>) -> Result<Edn, String> {
        let items = self.items('}')?;
        if items.len() % 2 == 1 {
            return self.fail("a map has a key without a value");
        }
        let mut members: Vec<(Edn, Edn)> = Vec::new();
        let mut items = items.into_iter();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            let key = qualified(key, namespace);
            if members.iter().any(|(known, _)| known.same(&key)) {
                return self.fail(&format!("the key {key} stands twice in a map"));
            }
            members.push((key, value));
        }
        Ok(Edn::Map(members))
    }

    fn string(&mut self) -> Result<String, String> {
        self.bump();
        let mut text = String::new();
        loop {
            match self.bump() {
                None => return self.fail("a string is never closed"),
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape()?),
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        match self.bump() {
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some('r') => Ok('\r'),
            Some('b') => Ok('\u{8}'),
            Some('f') => Ok('\u{c}'),
            Some(c @ ('\\' | '"')) => Ok(c),
            Some('u') => {
                let high = self.hex()?;
                let low = self.text[self.at..].starts_with("\\u");
                if !((0xd800..0xdc00).contains(&high) && low) {
                    return self.scalar(high);
                }
                self.at += 2;
                let low = self.hex()?;
                self.scalar(0x1_0000 + ((high - 0xd800) << 10) + low.wrapping_sub(0xdc00))
            }
            _ => self.fail("a string has an escape that is none"),
        }
    }

    fn hex(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4);
        let code = digits
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.fail("`\\u` lacks its four digits"),
        }
    }

    fn scalar(&self, code: u32) -> Result<char, String> {
        match char::from_u32(code) {
            Some(c) => Ok(c),
            None => self.fail("`\\u` names half a character"),
        }
    }

    /// The text up to the next space, bracket, quote or comment.
    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.find(ends_token).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn character(&mut self) -> Result<Edn, String> {
        self.bump();
        let start = self.at;
        let Some(first) = self.bump().filter(|c| *c == ',' || !is_space(*c)) else {
            return self.fail("`\\` names no character");
        };
        if !ends_token(first) {
            self.word();
        }
        let name = &self.text[start..self.at];
        let c = match name {
            "newline" => Some('\n'),
            "return" => Some('\r'),
            "space" => Some(' '),
            "tab" => Some('\t'),
            "formfeed" => Some('\u{c}'),
            "backspace" => Some('\u{8}'),
            _ if name.chars().count() == 1 => Some(first),
            _ => name
                .strip_prefix('u')
                .filter(|hex| hex.len() == 4)
                .and_then(|hex| u32::from_str_radix(hex, 16).ok())
                .and_then(char::from_u32),
        };
        match c {
            Some(c) => Ok(Edn::Char(c)),
            None => self.fail("`\\` names no character"),
        }
    }

    /// What begins with `#`: a set, a map with a namespace, a number that is none, or a tag.
    fn dispatch(&mut self) -> Result<Edn, String> {
        self.bump();
        match self.peek() {
            Some('{') => {
                let items = self.items('}')?;
                let twice = |at: usize| items[..at].iter().any(|known| known.same(&items[at]));
                match (0..items.len()).any(twice) {
                    true => self.fail("an element stands twice in a set"),
                    false => Ok(Edn::Set(items)),
                }
            }
            Some(':') => {
                self.bump();
                let namespace = self.word();
                self.skip()?;
                match (namespace.is_empty(), self.peek()) {
                    (false, Some('{')) => self.map(Some(namespace)),
                    _ => self.fail("`#:` begins no map"),
                }
            }
            Some('#') => {
                self.bump();
                match self.word() {
                    "Inf" => Ok(Edn::Float(f64::INFINITY)),
                    "-Inf" => Ok(Edn::Float(f64::NEG_INFINITY)),
                    "NaN" => Ok(Edn::Float(f64::NAN)),
                    _ => self.fail("`##` begins no number"),
                }
            }
            Some(c) if c.is_alphabetic() => {
                let tag = self.word();
                if !is_name(tag) {
                    return self.fail("`#` begins no tag");
                }
                let value = self.form()?;
                Ok(Edn::Tagged(tag.to_owned(), Box::new(value)))
            }
            _ => self.fail("`#` begins nothing that EDN knows"),
        }
    }

    fn token(&mut self) -> Result<Edn, String> {
        let word = self.word();
        let unsigned = word.strip_prefix(['+', '-']).unwrap_or(word);
        if unsigned.starts_with(|c: char| c.is_ascii_digit()) {
            return match number(word, unsigned) {
                Some(number) => Ok(number),
                None => self.fail(&format!("`{word}` is no number")),
            };
        }
        match word {
            "nil" => Ok(Edn::Nil),
            "true" => Ok(Edn::Bool(true)),
            "false" => Ok(Edn::Bool(false)),
            _ => match word.strip_prefix(':') {
                Some(name) if is_name(name) => Ok(Edn::Keyword(name.to_owned())),
                None if is_name(word) => Ok(Edn::Symbol(word.to_owned())),
                _ => self.fail(&format!("`{word}` is neither a name nor a value")),
            },
        }
    }
}

fn qualified(key: Edn, namespace: Option<&str>) -> Edn {
    match (key, namespace) {
        (Edn::Keyword(name), Some(namespace)) => match name.strip_prefix("_/") {
            Some(plain) => Edn::Keyword(plain.to_owned()),
            None if name.contains('/') => Edn::Keyword(name),
            None => Edn::Keyword(format!("{namespace}/{name}")),
        },
        (key, _) => key,
    }
}

/// Whether it can be a symbol, a keyword or a tag.
fn is_name(word: &str) -> bool {
    let known = |c: char| c.is_alphanumeric() || ".*+!-_?$%&=<>/:#'|".contains(c);
    let first = |c: char| !":#'".contains(c);
    word == "/" || {
        let mut parts = word.split('/');
        let well = |part: &str| !part.is_empty() && part.starts_with(first);
        word.chars().all(known) && parts.by_ref().take(2).all(well) && parts.next().is_none()
    }
}

/// The number that a word is, if it is one.
fn number(word: &str, unsigned: &str) -> Option<Edn> {
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = unsigned.split_at(digits);
    if whole.len() > 1 && whole.starts_with('0') {
        return None;
    }
    match rest {
        "" | "N" => {
            let minus = word.starts_with('-') && whole != "0";
            Some(Edn::Int(format!("{}{whole}", if minus { "-" } else { "" })))
        }
        "M" => Some(Edn::Decimal(word.trim_end_matches('M').to_owned())),
        _ => {
            let exact = rest.ends_with('M');
            let plain = word.strip_suffix('M').unwrap_or(word);
            let value = rest
                .starts_with(['.', 'e', 'E'])
                .then(|| plain.parse::<f64>().ok())??;
            Some(match exact {
                true => Edn::Decimal(plain.to_owned()),
                false => Edn::Float(value),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_may_print_is_read() {
        for text in [
            "nil",
            "[1 -2 +3 0 36N 1.5 -1e300 2.50M ##Inf]",
            "{:a 1, :b/c [\"x\\n\\u00e9\\\"\" \\a \\newline \\u0041 \\,]}",
            "#{1 2} ; a comment",
            "(a b/c . / .. -x +)",
            "#inst \"2026-11-30T12:00:00.000-00:00\"",
            "#_ gone [#_ #_ a b]",
            "#my/tag {:x #uuid \"0f0e0d0c-0b0a-0908-0706-050403020100\"}",
        ] {
            assert!(read(text).is_ok(), "{text}: {:?}", read(text));
        }
        assert_eq!(
            read("#:p{:a 1 :q/b 2 :_/c 3}"),
            read("{:p/a 1 :q/b 2 :c 3}")
        );
    }

    #[test]
    fn what_is_no_edn_is_refused() {
        for text in [
            "",
            "[",
            "[1 2",
            "{:a}",
            "{:a 1 :a 2}",
            "#{1 1}",
            "]",
            "1 2",
            "1/2",
            "0x1f",
            "012",
            "\"open",
            "\"\\q\"",
            "\"\\ud800\"",
            "\\",
            "\\nonsense",
            ":",
            "::a",
            ":a/",
            "'x",
            "@x",
            "#<Object>",
            "#object[java.lang.Object 0x1]",
            "#\"re\"",
            "#_",
            "1.2.3",
            "5x",
            "^m x",
            "#:p[1]",
            "##Nix",
        ] {
            assert!(read(text).is_err(), "{text}: {:?}", read(text));
        }
    }

    #[test]
    fn values_are_compared_not_texts() {
        for (a, b) in [
            ("[1 2]", "(1 2)"),
            ("{:a 1 :b 2}", "{:b 2 :a 1N}"),
            ("#{[1] [2]}", "#{[2] [1]}"),
            (
                "#inst \"2026-11-30T12:00:00.000Z\"",
                "#inst \"2026-11-30T13:00:00+01:00\"",
            ),
            ("#uuid \"AB\"", "#uuid \"ab\""),
        ] {
            assert!(read(a).unwrap().same(&read(b).unwrap()), "{a} {b}");
        }
        for (a, b) in [
            ("1", "1.0"),
            ("\"a\"", ":a"),
            ("[1 2]", "[2 1]"),
            ("{:a 1}", "{:a 1 :b 2}"),
        ] {
            assert!(!read(a).unwrap().same(&read(b).unwrap()), "{a} {b}");
        }
        let rows = |text| read(text).unwrap();
        assert!(rows("[[1] [2]]").same_rows(&rows("#{[2] [1]}")));
        assert!(!rows("[[1] [1]]").same_rows(&rows("[[1] [2]]")));
    }

    #[test]
    fn deep_nesting_is_an_error_not_a_crash() {
        assert!(read(&"[".repeat(100_000)).is_err());
        assert!(read(&"#_".repeat(100_000)).is_err());
    }
}
