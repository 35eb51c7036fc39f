//! Lines made from the grammar of the wire: requests and notifications that are odd but legal,
//! and lines that no client may send.

use std::collections::HashSet;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::string::string_regex;
use serde_json::{Map, Value, json};

/// The largest integer that every JSON reader keeps.
const SAFE: i64 = (1 << 53) - 1;

/// Positive ids up to this one are the client's own.
const OWN_IDS: i64 = 1_000_000;

/// A request that the server is known to answer.
#[derive(Debug, Clone)]
pub struct Known {
    /// Its method.
    pub method: &'static str,
    /// The params that it needs in the revision, `_meta` included.
    pub params: Map<String, Value>,
}

/// A few lines that are sent together, and where the bytes are cut into pieces.
#[derive(Debug, Clone)]
pub struct Case {
    /// The lines.
    pub lines: Vec<Line>,
    cuts: Vec<Index>,
}

/// A legal message as it is sent.
#[derive(Debug, Clone)]
pub struct Line {
    /// The text, without the newline.
    pub text: String,
    /// What the server owes for it.
    pub owed: Owed,
}

/// What the server owes for a line.
#[derive(Debug, Clone, PartialEq)]
pub enum Owed {
    /// A response with this id.
    Reply {
        /// The id.
        id: Value,
        /// What is asked.
        asks: Asks,
    },
    /// Nothing: it is a notification.
    Nothing,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// The known request, with nothing unknown in it.
    Known,
    /// The known request with unknown keys in `_meta`.
    KnownWithMeta,
    /// The known request with unknown members in `params`.
    KnownWithMembers,
    /// A method that no server has.
    Unknown,
}

impl Case {
    /// The bytes, newlines included, in the pieces in which they are sent.
    pub fn pieces(&self) -> Vec<Vec<u8>> {
        let bytes: Vec<u8> = self
            .lines
            .iter()
            .flat_map(|line| line.text.bytes().chain([b'\n']))
            .collect();
        let mut cuts: Vec<usize> = self.cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.push(bytes.len());
        cuts.sort_unstable();
        let mut from = 0;
        let mut pieces = Vec::new();
        for cut in cuts {
            if cut > from {
                pieces.push(bytes[from..cut].to_vec());
                from = cut;
            }
        }
        pieces
    }

    /// The ids that it uses.
    pub fn ids(&self) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter_map(|line| match &line.owed {
            Owed::Reply { id, .. } => Some(id),
            Owed::Nothing => None,
        })
    }
}

/// Cases of legal lines.
pub fn case(known: &Known) -> BoxedStrategy<Case> {
    let distinct = |case: &Case| {
        let mut seen = HashSet::new();
        case.ids().all(|id| seen.insert(id.to_string()))
    };
    (vec(line(known), 1..5), vec(any::<Index>(), 0..4))
        .prop_map(|(lines, cuts)| Case { lines, cuts })
        .prop_filter("ids are used once", distinct)
        .boxed()
}

/// One legal line.
pub fn line(known: &Known) -> BoxedStrategy<Line> {
    let request = (id(), asked(known)).prop_map(|(id, (asks, method, params))| {
        let mut members = vec![("jsonrpc", json!("2.0")), ("id", id.clone())];
        members.push(("method", method.into()));
        members.extend(params.map(|params| ("params", params)));
        (members, Owed::Reply { id, asks })
    });
    let notification = (name(), option::of(members())).prop_map(|(method, params)| {
        let method = format!("notifications/{method}");
        let mut members = vec![("jsonrpc", json!("2.0")), ("method", method.into())];
        members.extend(params.map(|params| ("params", params.into())));
        (members, Owed::Nothing)
    });
    let message = prop_oneof![4 => request, 1 => notification];
    let order = Just(vec![0_usize, 1, 2, 3]).prop_shuffle();
    (message, order, vec(any::<u8>(), 0..24))
        .prop_map(|((members, owed), order, style)| {
            let ordered = order.iter().filter_map(|at| members.get(*at));
            let mut writer = Writer::new(&style);
            writer.object(ordered.map(|(name, value)| (*name, value)));
            Line {
                text: writer.out,
                owed,
            }
        })
        .boxed()
}

type Asked = (Asks, String, Option<Value>);

fn asked(known: &Known) -> BoxedStrategy<Asked> {
    let Known { method, params } = known.clone();
    let plain = (!params.is_empty()).then(|| Value::Object(params.clone()));
    let with_meta = {
        let params = params.clone();
        btree_map(meta_key(), anything(), 1..4).prop_map(move |extra| {
            let mut params = params.clone();
            let meta = params.entry("_meta").or_insert_with(|| json!({}));
            if let Some(meta) = meta.as_object_mut() {
                meta.extend(extra);
            }
            (Asks::KnownWithMeta, method.to_owned(), Some(params.into()))
        })
    };
    let with_members = members().prop_map(move |extra| {
        let mut params = params.clone();
        params.extend(extra);
        (
            Asks::KnownWithMembers,
            method.to_owned(),
            Some(params.into()),
        )
    });
    let known_meta = known.params.get("_meta").cloned();
    let unknown = (name(), option::of(members())).prop_map(move |(method, extra)| {
        let mut params = extra;
        if let Some(meta) = &known_meta {
            let params = params.get_or_insert_with(Map::new);
            params.insert("_meta".into(), meta.clone());
        }
        let params = params.map(Value::Object);
        (Asks::Unknown, method, params)
    });
    prop_oneof![
        3 => Just((Asks::Known, method.to_owned(), plain)),
        2 => with_meta,
        1 => with_members,
        2 => unknown,
    ]
    .boxed()
}

/// Ids that a client may use: integers that every reader keeps, and strings of all kinds.
pub fn id() -> BoxedStrategy<Value> {
    let not_ours = |n: i64| if (1..=OWN_IDS).contains(&n) { -n } else { n };
    let numbers = prop_oneof![
        -SAFE..=SAFE,
        -100_i64..=0,
        select(vec![
            SAFE,
            -SAFE,
            1 << 31,
            1 << 32,
            (1 << 31) - 1 + (1 << 31),
            -(1 << 31) - 1
        ]),
    ];
    let words = select(vec![
        "",
        " ",
        "0",
        "00",
        "7",
        "-1",
        "1.0",
        "1e3",
        "null",
        "true",
        "{}",
        "[]",
        "\"",
        "\\",
        "/",
        "\n",
        "\r\n",
        "\u{0}",
        "__proto__",
        "constructor",
        "toString",
        "id",
        "\u{2028}",
    ]);
    prop_oneof![
        2 => numbers.prop_map(move |n| json!(not_ours(n))),
        2 => text(12).prop_map(Value::from),
        1 => words.prop_map(Value::from),
        1 => text(2).prop_map(|text| Value::from((text + "x").repeat(100))),
    ]
    .boxed()
}

/// Texts of all kinds.
fn text(longest: usize) -> BoxedStrategy<String> {
    let odd = vec![
        '"',
        '\\',
        '/',
        '\u{0}',
        '\u{1}',
        '\u{8}',
        '\t',
        '\n',
        '\r',
        '\u{1f}',
        '\u{7f}',
        '\u{85}',
        'é',
        'ß',
        'İ',
        '漢',
        '\u{301}',
        '\u{202e}',
        '\u{2028}',
        '\u{2029}',
        '\u{feff}',
        '\u{fffd}',
        '\u{ffff}',
        '🦀',
        '\u{10ffff}',
    ];
    let character = prop_oneof![
        4 => proptest::char::range(' ', '~'),
        3 => select(odd),
        1 => any::<char>(),
    ];
    vec(character, 0..=longest)
        .prop_map(|text| text.into_iter().collect())
        .boxed()
}

/// The name of a method that no server has. An error may quote it, so it is short and plain.
fn name() -> BoxedStrategy<String> {
    let rest = vec(
        prop_oneof![
            6 => proptest::char::range('a', 'z'),
            1 => select(vec!['A', '0', '/', '.', '_', '-', ' ', '"', '\\', 'é', '漢', '🦀']),
        ],
        0..12,
    );
    rest.prop_map(|rest| format!("touchstone/{}", rest.into_iter().collect::<String>()))
        .boxed()
}

/// Members of `params` that nobody knows.
fn members() -> BoxedStrategy<Map<String, Value>> {
    let name = text(6).prop_map(|text| format!("x{text}"));
    btree_map(name, anything(), 0..4)
        .prop_map(|members| members.into_iter().collect())
        .boxed()
}

/// Keys of `_meta` that nobody knows.
fn meta_key() -> BoxedStrategy<String> {
    match string_regex("(com\\.example/)?x[a-z0-9]{1,6}") {
        Ok(keys) => keys.boxed(),
        Err(_) => Just("com.example/x".to_owned()).boxed(),
    }
}

/// Any JSON value; the numbers keep their text.
fn anything() -> BoxedStrategy<Value> {
    let number = |text: &'static str| serde_json::from_str(text).unwrap_or(Value::Null);
    let numbers = select(vec![
        "0",
        "-0",
        "-0.0",
        "1e3",
        "1E+2",
        "0.1e-7",
        "1.0",
        "9007199254740993",
        "18446744073709551616",
        "123456789012345678901234567890",
        "1e300",
        "0.1000000000000000055511151231257827021181583404541015625",
    ])
    .prop_map(number);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        numbers,
        text(12).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(text(6), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
    .boxed()
}

/// Writes JSON in a style: white space and escapes as the bytes have it, over and over; no bytes
/// are the plain style.
struct Writer<'a> {
    out: String,
    style: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl<'a> Writer<'a> {
    fn new(style: &'a [u8]) -> Self {
        Writer {
            out: String::new(),
            style: style.iter().cycle(),
        }
    }

    fn choice(&mut self) -> u8 {
        self.style.next().copied().unwrap_or_default()
    }

    /// No carriage return: some readers take it for the end of the line, and the text does not
    /// say that they may not.
    fn gap(&mut self) {
        let space = match self.choice() % 8 {
            5 => " ",
            6 => "\t",
            7 => "  ",
            _ => "",
        };
        self.out.push_str(space);
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.string(text),
            Value::Object(members) => {
                self.object(members.iter().map(|(name, value)| (name.as_str(), value)));
            }
            Value::Array(items) => {
                self.out.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.separator(at);
                    self.value(item);
                }
                self.gap();
                self.out.push(']');
            }
            other => self.out.push_str(&other.to_string()),
        }
    }

    fn object<'v>(&mut self, members: impl Iterator<Item = (&'v str, &'v Value)>) {
        self.out.push('{');
        for (at, (name, value)) in members.enumerate() {
            self.separator(at);
            self.string(name);
            self.gap();
            self.out.push(':');
            self.gap();
            self.value(value);
        }
        self.gap();
        self.out.push('}');
    }

    fn separator(&mut self, at: usize) {
        self.gap();
        if at > 0 {
            self.out.push(',');
            self.gap();
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            let choice = self.choice();
            let short = match character {
                '"' => Some("\\\""),
                '\\' => Some("\\\\"),
                '\n' => Some("\\n"),
                '\r' => Some("\\r"),
                '\t' => Some("\\t"),
                '/' if choice % 4 == 1 => Some("\\/"),
                _ => None,
            };
            match short {
                _ if choice % 16 == 15 => self.escaped(character, choice),
                Some(short) => self.out.push_str(short),
                None if (character as u32) < 0x20 => self.escaped(character, choice),
                None => self.out.push(character),
            }
        }
        self.out.push('"');
    }

    /// As `\uXXXX`, a pair of them beyond the first plane.
    fn escaped(&mut self, character: char, choice: u8) {
        for unit in character.encode_utf16(&mut [0; 2]) {
            let text = match choice & 16 {
                0 => format!("\\u{unit:04x}"),
                _ => format!("\\u{unit:04X}"),
            };
            self.out.push_str(&text);
        }
    }
}

/// Lines that no client may send: not JSON, not UTF-8, or not a message. No newline stands in them.
pub fn broken_line(known: &Known) -> BoxedStrategy<Vec<u8>> {
    let good = || line(known).prop_map(|line| line.text.into_bytes());
    let cut = (good(), any::<Index>()).prop_map(|(mut line, at)| {
        line.truncate(at.index(line.len()).max(1));
        line
    });
    let lost = (good(), any::<Index>()).prop_map(|(mut line, at)| {
        line.remove(at.index(line.len()));
        line
    });
    let inserts = select(vec![
        &b"\xff"[..],
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\0",
        b"\x01",
        b"\"",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"'",
        b"0",
        b"//",
        b"\xef\xbb\xbf",
    ]);
    let inserted = (good(), any::<Index>(), inserts).prop_map(|(mut line, at, insert)| {
        let at = at.index(line.len() + 1);
        line.splice(at..at, insert.iter().copied());
        line
    });
    let byte = any::<u8>().prop_map(|byte| if byte == b'\n' { b' ' } else { byte });
    prop_oneof![
        2 => cut,
        1 => lost,
        2 => inserted,
        1 => vec(byte, 1..40),
        3 => odd_message(known).prop_map(String::into_bytes),
        1 => nested().prop_map(String::into_bytes),
    ]
    .prop_filter("is no message", |line| {
        !line.trim_ascii().is_empty() && !line.contains(&b'\n') && !is_message(line)
    })
    .boxed()
}

/// JSON that is no message, with the method of the known request in it.
fn odd_message(known: &Known) -> BoxedStrategy<String> {
    let method = known.method;
    let params = Value::Object(known.params.clone());
    let ids = [
        "null",
        "true",
        "1.5",
        "-0.5",
        "1e400",
        "9007199254740993",
        "[]",
        "{}",
        "[1]",
        "\"\\ud800\"",
        "\"\\udc00\\ud800\"",
    ];
    let mut lines: Vec<String> = ids
        .iter()
        .map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#))
        .collect();
    for params in ["null", "[]", "[1,2]", "\"x\"", "7", "false"] {
        lines.push(format!(
            r#"{{"jsonrpc":"2.0","id":"touchstone-p","method":"{method}","params":{params}}}"#
        ));
    }
    for method in ["null", "7", "[]", "{}", "\"\\ud800\""] {
        lines.push(format!(
            r#"{{"jsonrpc":"2.0","id":"touchstone-m","method":{method}}}"#
        ));
    }
    for version in ["\"1.0\"", "2.0", "2", "null", "\"\""] {
        lines.push(format!(
            r#"{{"jsonrpc":{version},"id":"touchstone-v","method":"{method}","params":{params}}}"#
        ));
    }
    lines.extend(
        [
            "{}",
            "7",
            "null",
            "\"x\"",
            "true",
            "{\"jsonrpc\":\"2.0\"}",
            "nul",
            "{'a':1}",
            "[,]",
        ]
        .map(str::to_owned),
    );
    let number = "9".repeat(400);
    lines.push(format!(
        r#"{{"jsonrpc":"2.0","id":{number},"method":"{method}","params":{params}}}"#
    ));
    lines.push(format!(
        r#"{{"jsonrpc":"2.0","id":"touchstone-u","method":"{method}","params":{params},"unknown":1}}"#
    ));
    select(lines).boxed()
}

/// Brackets within brackets, closed or not.
fn nested() -> BoxedStrategy<String> {
    (
        prop_oneof![1..300_usize, Just(5_000), Just(50_000)],
        any::<bool>(),
    )
        .prop_map(|(depth, closed)| {
            let closing = if closed { depth } else { 0 };
            let (open, close) = ("[".repeat(depth), "]".repeat(closing));
            format!(r#"{{"jsonrpc":"2.0","id":"touchstone-n","method":7,"params":{open}{close}"#)
        })
        .boxed()
}

/// Whether a line is a request, a notification or a response as the protocol has them.
fn is_message(line: &[u8]) -> bool {
    let Ok(Value::Object(message)) = serde_json::from_slice::<Value>(line) else {
        return false;
    };
    let known = ["jsonrpc", "id", "method", "params", "result", "error"];
    let id = match message.get("id") {
        None | Some(Value::String(_)) => true,
        Some(id) => id.as_i64().is_some_and(|id| id.abs() <= SAFE),
    };
    let asks = message.get("method").is_some_and(Value::is_string);
    let answers = message.contains_key("id")
        && (message.contains_key("result") || message.contains_key("error"));
    message.get("jsonrpc") == Some(&json!("2.0"))
        && message.keys().all(|name| known.contains(&name.as_str()))
        && message.get("params").is_none_or(Value::is_object)
        && id
        && (asks || answers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::runner;
    use proptest::strategy::ValueTree;

    fn known() -> Known {
        let params = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
        Known {
            method: "server/discover",
            params: params.as_object().unwrap().clone(),
        }
    }

    fn each<T: std::fmt::Debug>(values: &BoxedStrategy<T>, count: usize, mut look: impl FnMut(T)) {
        let mut runner = runner(3, "wire");
        for _ in 0..count {
            let mut tree = values.new_tree(&mut runner).expect("a value");
            look(tree.current());
            for _ in 0..10 {
                if !tree.simplify() {
                    break;
                }
                look(tree.current());
            }
        }
    }

    #[test]
    fn every_line_is_the_message_that_it_is_said_to_be() {
        for known in [
            known(),
            Known {
                method: "ping",
                params: Map::new(),
            },
        ] {
            each(&line(&known), 500, |line| {
                assert!(is_message(line.text.as_bytes()), "{}", line.text);
                assert!(!line.text.contains(['\n', '\r']), "{}", line.text);
                assert_eq!(line.text.trim(), line.text);
                let value: Value = serde_json::from_str(&line.text).unwrap();
                let method = value["method"].as_str().unwrap();
                match &line.owed {
                    Owed::Nothing => assert!(value.get("id").is_none()),
                    Owed::Reply { id, asks } => {
                        assert_eq!(&value["id"], id);
                        assert_eq!(method == known.method, *asks != Asks::Unknown);
                        let version = |meta: Option<&Value>| {
                            meta?
                                .get("io.modelcontextprotocol/protocolVersion")
                                .cloned()
                        };
                        let given = value.get("params").and_then(|params| params.get("_meta"));
                        assert_eq!(version(given), version(known.params.get("_meta")));
                    }
                }
            });
        }
    }

    #[test]
    fn ids_are_what_a_client_may_use_and_not_its_own() {
        each(&id(), 1000, |id| match id {
            Value::String(_) => {}
            id => {
                let id = id.as_i64().expect("an integer");
                assert!(id.abs() <= SAFE && !(1..=OWN_IDS).contains(&id), "{id}");
            }
        });
    }

    #[test]
    fn the_pieces_are_the_lines_and_ids_stand_once() {
        each(&case(&known()), 200, |case| {
            let whole: Vec<u8> = case.pieces().concat();
            let lines: Vec<&str> = case.lines.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(String::from_utf8(whole).unwrap(), lines.join("\n") + "\n");
            assert!(case.pieces().iter().all(|piece| !piece.is_empty()));
            let ids: Vec<String> = case.ids().map(Value::to_string).collect();
            let distinct: HashSet<&String> = ids.iter().collect();
            assert_eq!(distinct.len(), ids.len());
        });
    }

    #[test]
    fn broken_lines_are_no_messages_and_one_line() {
        each(&broken_line(&known()), 500, |line| {
            assert!(!is_message(&line));
            assert!(!line.contains(&b'\n') && !line.trim_ascii().is_empty());
        });
    }

    #[test]
    fn a_style_changes_no_value() {
        let values = (anything(), vec(any::<u8>(), 0..24)).boxed();
        each(&values, 500, |(value, style)| {
            let mut writer = Writer::new(&style);
            writer.value(&value);
            let read: Value = serde_json::from_str(&writer.out).unwrap();
            assert_eq!(read, value, "{}", writer.out);
        });
    }
}
