//! A finished conversation, read for judging: what was sent, what came back, what belongs together.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::spec::Revision;
use crate::verdict::{self, Evidence};
use crate::wire::{Body, Entry, Event, json};

/// The longest text of a line that evidence keeps, in characters.
const EVIDENCE_LINE: usize = 2_000;

/// One conversation with one process.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// The revision that was spoken.
    pub revision: Revision,
    /// Everything that happened.
    pub log: &'a [Entry],
    /// What we sent, line by line.
    pub sent: Vec<Sent>,
    /// Every message that came, members of batches included.
    pub received: Vec<Received<'a>>,
    /// Indices of lines that are no message.
    pub strange: Vec<usize>,
    /// Capabilities that the server declared, if it got as far.
    pub server: Option<Map<String, Value>>,
    /// Capabilities that we declared.
    pub client: Map<String, Value>,
    /// How long an answer may take.
    pub patience: Duration,
}

/// A line that we sent.
#[derive(Debug)]
pub struct Sent {
    /// Where it ended in the log.
    pub at: usize,
    /// What it is.
    pub kind: SentKind,
}

/// What a line that we sent is.
#[derive(Debug, Clone)]
pub enum SentKind {
    /// A well-formed request.
    Request {
        /// Its id.
        id: Value,
        /// Its method.
        method: String,
        /// Its params, or null.
        params: Value,
    },
    /// A well-formed notification.
    Notification {
        /// Its method.
        method: String,
        /// Its params, or null.
        params: Value,
    },
    /// Our answer to a request of the server, or one that it never asked for.
    Response {
        /// Its id.
        id: Value,
    },
    /// A JSON array: its elements follow as lines of their own.
    Batch,
    /// Anything else: the server owes it nothing. Ids that stand in it may come back.
    Odd {
        /// The `id` member, if there is one to be read.
        id: Option<Value>,
    },
}

/// A message from the server.
#[derive(Debug)]
pub struct Received<'a> {
    /// Where it stands in the log.
    pub at: usize,
    /// The whole message.
    pub value: &'a Value,
    /// What it is.
    pub kind: Kind<'a>,
}

/// What a message from the server is, told by its members.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind<'a> {
    /// `method` and `id`.
    Request(&'a str),
    /// `method` alone.
    Notification(&'a str),
    /// A response; `request` points into [`Exchange::sent`] when its id is one we used.
    Response {
        /// The request that it answers.
        request: Option<usize>,
    },
    /// An object that is none of these.
    Unknown,
}

impl<'a> Exchange<'a> {
    /// How many `initialize` requests the client had sent by then.
    pub fn greetings_before(&self, at: usize) -> usize {
        let greeting = |sent: &&Sent| {
            sent.at < at
                && matches!(&sent.kind, SentKind::Request { method, .. } if method == "initialize")
        };
        self.sent.iter().filter(greeting).count()
    }

    /// Reads a log.
    pub fn read(
        revision: Revision,
        log: &'a [Entry],
        server: Option<Map<String, Value>>,
        client: Map<String, Value>,
    ) -> Self {
        let sent = read_sent(revision, log);
        let by_id: HashMap<String, usize> = sent
            .iter()
            .enumerate()
            .filter_map(|(index, sent)| match &sent.kind {
                SentKind::Request { id, .. } => Some((id.to_string(), index)),
                _ => None,
            })
            .collect();
        let mut received = Vec::new();
        let mut strange = Vec::new();
        for (at, entry) in log.iter().enumerate() {
            let Event::Received(line) = &entry.event else {
                continue;
            };
            let Body::Json(json) = &line.body else {
                strange.push(at);
                continue;
            };
            let messages = match &json.value {
                Value::Array(elements) if !elements.is_empty() => elements.as_slice(),
                other => std::slice::from_ref(other),
            };
            for value in messages {
                if value.is_object() {
                    let kind = classify(value, &by_id);
                    received.push(Received { at, value, kind });
                } else {
                    strange.push(at);
                }
            }
        }
        strange.dedup();
        Self {
            revision,
            log,
            sent,
            received,
            strange,
            server,
            client,
            patience: Duration::MAX,
        }
    }

    /// The method of the request that a message answers.
    pub fn method_of(&self, message: &Received<'_>) -> Option<&str> {
        let Kind::Response {
            request: Some(index),
        } = message.kind
        else {
            return None;
        };
        match &self.sent[index].kind {
            SentKind::Request { method, .. } => Some(method),
            _ => None,
        }
    }

    /// Where each request was answered first, by its place among what was sent.
    pub fn first_replies(&self) -> HashMap<usize, usize> {
        let mut replies = HashMap::new();
        for message in &self.received {
            if let Kind::Response {
                request: Some(index),
            } = message.kind
            {
                replies.entry(index).or_insert(message.at);
            }
        }
        replies
    }

    /// Results of requests of a method, with the message.
    pub fn results<'b>(
        &'b self,
        method: &'b str,
    ) -> impl Iterator<Item = (&'b Received<'a>, &'a Value)> + 'b {
        self.received.iter().filter_map(move |message| {
            let result = message.value.get("result")?;
            (self.method_of(message) == Some(method)).then_some((message, result))
        })
    }

    /// The message and the request that it answers, as evidence.
    pub fn evidence(&self, message: &Received<'_>) -> Evidence {
        let mut indices = Vec::new();
        if let Kind::Response {
            request: Some(index),
        } = message.kind
        {
            indices.push(self.sent[index].at);
        }
        indices.push(message.at);
        evidence(self.log, indices)
    }
}

/// These lines of a log as evidence.
pub fn evidence(log: &[Entry], indices: impl IntoIterator<Item = usize>) -> Evidence {
    let at: Vec<usize> = indices.into_iter().collect();
    Evidence {
        exchange: at
            .iter()
            .filter_map(|index| log.get(*index))
            .flat_map(show)
            .collect(),
        at,
        ..Evidence::default()
    }
}

/// The entries of a log from an index on, at most `most` of them: the first and the last ones.
pub fn evidence_since(log: &[Entry], from: usize, most: usize) -> Evidence {
    let entries = log.get(from..).unwrap_or_default();
    if entries.len() <= most {
        return evidence(log, from..log.len());
    }
    let (head, tail) = (from + most / 2, log.len() - (most - most / 2));
    let mut shown = evidence(log, from..head);
    let after = evidence(log, tail..log.len());
    let at_ms = shown.exchange.last().map_or(0, |line| line.at_ms);
    shown.exchange.push(verdict::Line {
        at_ms,
        from: verdict::From::Event,
        text: format!("({} lines left out)", tail - head),
    });
    shown.exchange.extend(after.exchange);
    shown.at.extend(after.at);
    shown
}

/// An entry of a log as lines for people.
fn show(entry: &Entry) -> Vec<verdict::Line> {
    let at_ms = u64::try_from(entry.at.as_millis()).unwrap_or(u64::MAX);
    let line = |from, text| verdict::Line { at_ms, from, text };
    match &entry.event {
        Event::Sent(bytes) => {
            let text = show_bytes(bytes.strip_suffix(b"\n").unwrap_or(bytes));
            text.split('\n')
                .map(|part| line(verdict::From::Client, shorten(part, EVIDENCE_LINE)))
                .collect()
        }
        Event::Received(received) => {
            let text = match &received.body {
                Body::TooLong(length) => format!("(a line of {length} bytes)"),
                _ => shorten(&show_bytes(&received.bytes), EVIDENCE_LINE),
            };
            let mut lines = vec![line(verdict::From::Server, text)];
            if !received.terminated {
                lines.push(line(
                    verdict::From::Event,
                    "no newline after this".to_owned(),
                ));
            }
            lines
        }
        Event::InputClosed => vec![line(verdict::From::Event, "end of input".to_owned())],
        Event::OutputClosed => vec![line(verdict::From::Event, "end of output".to_owned())],
        Event::Exited(status) => {
            vec![line(verdict::From::Event, format!("ended: {status}"))]
        }
        #[allow(unreachable_patterns)]
        _ => Vec::new(),
    }
}

/// Bytes as text; what is not UTF-8 as `\xNN`.
fn show_bytes(bytes: &[u8]) -> String {
    bytes
        .utf8_chunks()
        .flat_map(|chunk| {
            let bad = chunk.invalid().iter().map(|byte| format!("\\x{byte:02X}"));
            std::iter::once(chunk.valid().to_owned()).chain(bad)
        })
        .collect()
}

/// A text of at most `most` characters, cut in the middle.
pub fn shorten(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most / 2).collect();
    let tail: String = text.chars().skip(count - most / 2).collect();
    format!("{head} … ({} characters) … {tail}", count - 2 * (most / 2))
}

fn classify<'a>(value: &'a Value, by_id: &HashMap<String, usize>) -> Kind<'a> {
    let method = value.get("method").and_then(Value::as_str);
    let has = |name| value.get(name).is_some();
    match method {
        Some(method) if has("id") && !has("result") && !has("error") => {
            // An id on what is plainly a notification is a fault of its own, not a request.
            if method.starts_with("notifications/") {
                Kind::Notification(method)
            } else {
                Kind::Request(method)
            }
        }
        Some(method) if !has("result") && !has("error") => Kind::Notification(method),
        _ if has("result") || has("error") || has("id") => Kind::Response {
            request: value
                .get("id")
                .and_then(|id| by_id.get(&id.to_string()).copied()),
        },
        _ => Kind::Unknown,
    }
}

fn read_sent(revision: Revision, log: &[Entry]) -> Vec<Sent> {
    let mut sent = Vec::new();
    let mut pending: Vec<u8> = Vec::new();
    for (at, entry) in log.iter().enumerate() {
        let Event::Sent(bytes) = &entry.event else {
            continue;
        };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            pending.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                read_sent_line(revision, at, &pending, &mut sent);
                pending.clear();
            }
        }
    }
    if !pending.is_empty() {
        // An unfinished line is owed nothing.
        sent.push(Sent {
            at: log.len().saturating_sub(1),
            kind: SentKind::Odd { id: None },
        });
    }
    sent
}

/// The id in a line that is not JSON: it stands there whole, whatever is wrong with the rest.
fn id_in(line: &str) -> Option<Value> {
    let (_, rest) = line.split_once("\"id\":")?;
    serde_json::Deserializer::from_str(rest)
        .into_iter()
        .next()?
        .ok()
}

fn read_sent_line(revision: Revision, at: usize, line: &[u8], sent: &mut Vec<Sent>) {
    match serde_json::from_slice::<Value>(line) {
        // Only one revision has batches; elsewhere an array is no message, and owed nothing.
        Ok(Value::Array(elements)) if revision != Revision::V2025_03_26 => {
            let ids = elements.iter().map(|element| element.get("id").cloned());
            sent.extend(ids.map(|id| Sent {
                at,
                kind: SentKind::Odd { id },
            }));
        }
        Ok(Value::Array(elements)) if !elements.is_empty() => {
            sent.push(Sent {
                at,
                kind: SentKind::Batch,
            });
            sent.extend(elements.iter().map(|element| Sent {
                at,
                kind: sent_kind(element),
            }));
        }
        Ok(value) if has_twice(line) => sent.push(Sent {
            at,
            kind: SentKind::Odd {
                id: value.get("id").cloned(),
            },
        }),
        Ok(value) => sent.push(Sent {
            at,
            kind: sent_kind(&value),
        }),
        // A reader that mends what is no UTF-8 can read the id all the same.
        Err(_) => {
            let id = id_in(&String::from_utf8_lossy(line));
            sent.push(Sent {
                at,
                kind: SentKind::Odd { id },
            });
        }
    }
}

/// Whether an object has two members of one name: what it says is nobody's to say.
fn has_twice(line: &[u8]) -> bool {
    matches!(json::read(line).0, Body::Json(json) if !json.duplicates.is_empty())
}

fn sent_kind(value: &Value) -> SentKind {
    let odd = || SentKind::Odd {
        id: value.get("id").cloned(),
    };
    let Some(object) = value.as_object() else {
        return odd();
    };
    let proper = object.get("jsonrpc").and_then(Value::as_str) == Some("2.0")
        && object.get("params").is_none_or(Value::is_object)
        && object.keys().all(|name| {
            matches!(
                name.as_str(),
                "jsonrpc" | "id" | "method" | "params" | "result" | "error"
            )
        });
    if !proper {
        return odd();
    }
    let params = object.get("params").cloned().unwrap_or(Value::Null);
    let has = |name| object.contains_key(name);
    match (object.get("method"), object.get("id")) {
        (Some(Value::String(method)), Some(id))
            if is_legal_id(id) && !has("result") && !has("error") =>
        {
            SentKind::Request {
                id: id.clone(),
                method: method.clone(),
                params,
            }
        }
        (Some(Value::String(method)), None) => SentKind::Notification {
            method: method.clone(),
            params,
        },
        (None, Some(id)) if has("result") || has("error") => SentKind::Response { id: id.clone() },
        _ => odd(),
    }
}

/// Whether a client may use this as an id: a string, or an integer that every JSON reader keeps.
fn is_legal_id(id: &Value) -> bool {
    match id {
        Value::String(_) => true,
        Value::Number(number) => number
            .as_i64()
            .is_some_and(|n| n.unsigned_abs() < (1 << 53)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(line: &str) -> Vec<SentKind> {
        let event = Event::Sent(format!("{line}\n").into_bytes());
        let at = Duration::ZERO;
        let sent = read_sent(Revision::V2025_11_25, &[Entry { at, event }]);
        sent.into_iter().map(|sent| sent.kind).collect()
    }

    #[test]
    fn a_line_that_every_reader_understands_is_owed_a_reply_and_no_other() {
        let request = r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#;
        assert!(matches!(sent(request)[..], [SentKind::Request { .. }]));
        for odd in [
            r#"{"method":"x","jsonrpc":"2.0","id":"a","method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":{"a":"\ud83d"}}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":{"a":NaN}}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":7}"#,
        ] {
            assert!(matches!(&sent(odd)[..], [SentKind::Odd { id: Some(id) }] if id == "a"));
        }
    }
}
