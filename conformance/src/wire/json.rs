//! Reads a line as JSON without loss: number text, member order, duplicate names.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{Body, Json};

/// The most values that are read in one line; it keeps a hostile line from taking a hundred
/// times its own size in memory.
const MAX_VALUES: usize = 1_000_000;

/// How `serde_json` hands a number to a visitor when it keeps the number's text.
const NUMBER: &str = "$serde_json::private::Number";

/// What the bytes of a line are, and how many JSON values they hold.
pub(crate) fn read(bytes: &[u8]) -> (Body, usize) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return (Body::NotUtf8(error.valid_up_to()), 0),
    };
    if text.trim_matches([' ', '\t', '\r']).is_empty() {
        return (Body::Blank, 0);
    }
    if text.starts_with('\u{feff}') {
        let reason = "it starts with a byte order mark (EF BB BF)";
        return (Body::NotJson(reason.into()), 0);
    }
    let mut found = Found::default();
    let mut from = serde_json::Deserializer::from_str(text);
    let value = Seed(&mut found)
        .deserialize(&mut from)
        .and_then(|value| from.end().map(|()| value));
    match value {
        Ok(value) => {
            let duplicates = found.duplicates;
            (Body::Json(Json { value, duplicates }), found.values)
        }
        // Half a surrogate pair is legal by the grammar of JSON, though no string can hold it.
        Err(error) => match without_lone_surrogates(text) {
            Some(mended) => read(mended.as_bytes()),
            None => (Body::NotJson(reason(&error, text)), 0),
        },
    }
}

/// The text with each escape of half a surrogate pair replaced by the one for U+FFFD; `None` if
/// there is none.
fn without_lone_surrogates(text: &str) -> Option<String> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut mended = String::with_capacity(text.len());
    let mut changed = false;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let step = match (unit(at), unit(at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                mended.push_str("\\ufffd");
                changed = true;
                at += 6;
                continue;
            }
            _ if rest.starts_with('\\') => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        mended.push_str(&rest[..step]);
        at += step;
    }
    changed.then_some(mended)
}

fn reason(error: &serde_json::Error, text: &str) -> String {
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or(&said);
    let column = error.column();
    match said {
        "recursion limit exceeded" => {
            "it is nested deeper than 127 levels, more than this suite reads".into()
        }
        "trailing characters" => format!(
            "a JSON value ends before column {column} and is followed by `{}`",
            excerpt(text, column)
        ),
        "expected value" | "expected ident" => format!(
            "a JSON value should stand at column {column}, not `{}`",
            excerpt(text, column)
        ),
        _ if error.is_data() => said.to_owned(),
        _ => format!("{said} at column {column}"),
    }
}

/// A few characters from that column on (1-based, in bytes).
fn excerpt(text: &str, column: usize) -> String {
    let mut from = column.saturating_sub(1).min(text.len());
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    let mut piece: String = text[from..].chars().take(24).collect();
    if from + piece.len() < text.len() {
        piece.push('…');
    }
    piece
}

#[derive(Default)]
struct Found {
    values: usize,
    duplicates: Vec<String>,
}

impl Found {
    /// The duplicates found since `known` lie below this step of the path.
    fn nest(&mut self, known: usize, step: &str) {
        for pointer in &mut self.duplicates[known..] {
            pointer.insert_str(0, step);
        }
    }
}

/// A step of a JSON Pointer (RFC 6901).
fn step(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

struct Seed<'a>(&'a mut Found);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        self.0.values += 1;
        if self.0.values > MAX_VALUES {
            return Err(D::Error::custom(format_args!(
                "it holds more than {MAX_VALUES} values, more than this suite reads"
            )));
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        let mut known = self.0.duplicates.len();
        while let Some(value) = items.next_element_seed(Seed(self.0))? {
            if self.0.duplicates.len() > known {
                self.0.nest(known, &format!("/{}", array.len()));
                known = self.0.duplicates.len();
            }
            array.push(value);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        let mut known = self.0.duplicates.len();
        while let Some(name) = members.next_key::<String>()? {
            if object.is_empty() && name == NUMBER {
                let text: String = members.next_value()?;
                let number = text.parse::<Number>().map_err(A::Error::custom)?;
                return Ok(Value::Number(number));
            }
            let value = members.next_value_seed(Seed(self.0))?;
            if self.0.duplicates.len() > known {
                self.0.nest(known, &step(&name));
            }
            let pointer = object.contains_key(&name).then(|| step(&name));
            object.insert(name, value);
            self.0.duplicates.extend(pointer);
            known = self.0.duplicates.len();
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(text: &str) -> Json {
        match read(text.as_bytes()).0 {
            Body::Json(json) => json,
            other => panic!("{text} is {other:?}"),
        }
    }

    fn not_json(text: &str) -> String {
        match read(text.as_bytes()).0 {
            Body::NotJson(reason) => reason,
            other => panic!("{text} is {other:?}"),
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_json_all_the_same() {
        for text in [
            r#"{"a":"\ud83d"}"#,
            r#"{"a":"x\udc80\ud83d\ude00"}"#,
            r#"{"a":"\\\udfff"}"#,
        ] {
            assert!(matches!(read(text.as_bytes()).0, Body::Json(_)), "{text}");
        }
        let pair = r#"{"a":"\ud83d\ude00"}"#;
        let Body::Json(json) = read(pair.as_bytes()).0 else {
            panic!("a whole pair is JSON");
        };
        assert_eq!(json.value["a"], "\u{1F600}");
    }

    #[test]
    fn numbers_keep_their_text() {
        for text in ["1", "1.0", "-0", "9007199254740993", "1e+400", "0.10"] {
            assert_eq!(json(text).value.to_string(), text);
            let inside = format!("{{\"id\":[{text}]}}");
            assert_eq!(json(&inside).value.to_string(), inside);
        }
        assert_ne!(json("1").value, json("1.0").value);
    }

    #[test]
    fn members_keep_their_order() {
        let text = r#"{"z":1,"a":{"y":2,"b":3}}"#;
        assert_eq!(json(text).value.to_string(), text);
    }

    #[test]
    fn duplicate_names_are_found_wherever_they_stand() {
        assert_eq!(json(r#"{"a":1,"b":2}"#).duplicates, [""; 0]);
        assert_eq!(json(r#"{"a":1,"a":2}"#).duplicates, ["/a"]);
        assert_eq!(json(r#"{"a":1,"\u0061":2}"#).duplicates, ["/a"]);
        let deep = r#"[{}, {"x/y": {"k": 1, "k": 2}, "~": [0, {"m": 1, "m": {"n": 1, "n": 1}}]}]"#;
        assert_eq!(
            json(deep).duplicates,
            ["/1/x~1y/k", "/1/~0/1/m/n", "/1/~0/1/m"]
        );
    }

    #[test]
    fn what_is_no_json_says_why() {
        assert!(matches!(read(b"").0, Body::Blank));
        assert!(matches!(read(b" \t\r").0, Body::Blank));
        assert!(matches!(read(b"ab\xff").0, Body::NotUtf8(2)));
        assert!(not_json("hello").contains("not `hello`"));
        assert!(not_json("{} {\"a\":1}").contains("followed by `{\"a\":1}`"));
        assert!(not_json("\u{feff}{}").contains("byte order mark"));
        assert!(not_json("{\"a\":").contains("EOF"));
        assert!(not_json(&"[".repeat(100_000)).contains("nested deeper"));
        let many = format!("[{}0]", "0,".repeat(MAX_VALUES));
        assert!(not_json(&many).contains("more than 1000000 values"));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((".{0,4}", inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_was_written_is_what_is_read(value in any_json()) {
            let read = json(&value.to_string());
            prop_assert_eq!(read.value.to_string(), value.to_string());
            prop_assert!(read.duplicates.is_empty());
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            read(&bytes);
        }

        /// The same texts are JSON to us and to the library.
        #[test]
        fn we_agree_with_the_library(text in r#"[\[\]{}",:0-9a\\u. -]{0,12}"#) {
            let ours = matches!(read(text.as_bytes()).0, Body::Json(_));
            prop_assert_eq!(ours, serde_json::from_str::<Value>(&text).is_ok());
        }
    }
}
