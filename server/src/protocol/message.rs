//! One line in, one message out of it; and the lines that answer.
//!
//! Only the envelope is read here. `params` stay text until somebody needs them, so that a small
//! request costs little and one nested 100,000 deep costs no stack.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::refusal::{PARSE_ERROR, Refusal};

/// A request id, kept as the client wrote it: `7`, `"7"` and `"\u0037"` come back as they went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Id(String);

impl Id {
    /// Reads a JSON token; `None` if it is neither a string nor an integer.
    fn from_token(token: &str) -> Option<Self> {
        let digits = token.strip_prefix('-').unwrap_or(token);
        let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        (is_integer || token.starts_with('"')).then(|| Self(token.to_owned()))
    }

    /// The id of a parsed value, for members that name a request (`requestId`).
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(_) | Value::Number(_) => Self::from_token(&value.to_string()),
            _ => None,
        }
    }

    /// A number of the server's own choosing.
    pub(super) fn number(number: u64) -> Self {
        Self(number.to_string())
    }

    /// The JSON token.
    pub(super) fn token(&self) -> &str {
        &self.0
    }

    /// The same for any two spellings of one id, different for 7 and "7".
    pub(super) fn key(&self) -> String {
        match serde_json::from_str::<String>(&self.0) {
            Ok(text) => format!("s{text}"),
            Err(_) => format!("t{}", self.0),
        }
    }

    /// The id as a JSON value. A string with a lone surrogate has none and becomes its spelling.
    pub(super) fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_else(|_| Value::String(self.0.clone()))
    }
}

/// What a line holds.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    Request {
        id: Id,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    /// The answer to a request of the server.
    Response {
        id: Option<Id>,
        answer: Result<&'a RawValue, &'a RawValue>,
    },
    Batch(Vec<&'a RawValue>),
    /// Nothing that can be served. The id is there if it could be read.
    Invalid {
        id: Option<Id>,
        refusal: Refusal,
    },
    /// White space only.
    Blank,
}

fn invalid<'a>(id: Option<Id>, message: impl AsRef<str>) -> Incoming<'a> {
    let refusal = Refusal::invalid_request(message);
    Incoming::Invalid { id, refusal }
}

fn unreadable<'a>(message: impl AsRef<str>) -> Incoming<'a> {
    let refusal = Refusal::new(PARSE_ERROR, message);
    Incoming::Invalid { id: None, refusal }
}

/// Reads a line. A byte order mark and white space around the message are dropped.
pub(super) fn read_line(line: &[u8]) -> Incoming<'_> {
    let Ok(text) = std::str::from_utf8(line) else {
        return unreadable("Parse error: the line is not UTF-8");
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    if text.is_empty() {
        return Incoming::Blank;
    }
    if !text.starts_with('[') {
        return read_message(text);
    }
    match serde_json::from_str::<Vec<&RawValue>>(text) {
        Ok(elements) => Incoming::Batch(elements),
        Err(error) => unreadable(format!("Parse error: {error}")),
    }
}

/// Reads what is, or should be, one message.
pub(super) fn read_message(text: &str) -> Incoming<'_> {
    if !text.starts_with('{') {
        // Scalars and nested arrays are JSON, but no message. The check must not recurse.
        return match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => invalid(None, "Invalid request: a message is a JSON object"),
            Err(error) => unreadable(format!("Parse error: {error}")),
        };
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let envelope = (&mut deserializer)
        .deserialize_map(EnvelopeVisitor)
        .and_then(|envelope| deserializer.end().map(|()| envelope));
    match envelope {
        Ok(envelope) => envelope.classify(),
        Err(error) => unreadable(format!("Parse error: {error}")),
    }
}

#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// A member that stands there twice: what was meant cannot be known.
    repeated: Option<&'static str>,
}

impl<'a> Envelope<'a> {
    fn classify(self) -> Incoming<'a> {
        let id = self.id.and_then(|token| Id::from_token(token.get()));
        if let Some(name) = self.repeated {
            let id = id.filter(|_| name != "id");
            return invalid(
                id,
                format!("Invalid request: the member \"{name}\" is there twice"),
            );
        }
        if self.jsonrpc.and_then(string).as_deref() != Some("2.0") {
            return invalid(id, "Invalid request: \"jsonrpc\" must be \"2.0\"");
        }
        let Some(method) = self.method else {
            return match (self.result, self.error) {
                (Some(result), None) => Incoming::Response {
                    id,
                    answer: Ok(result),
                },
                (_, Some(error)) => Incoming::Response {
                    id,
                    answer: Err(error),
                },
                (None, None) => invalid(id, "Invalid request: \"method\" is missing"),
            };
        };
        let Some(method) = string(method) else {
            return invalid(id, "Invalid request: \"method\" must be a string");
        };
        let params = self.params;
        match (self.id, id) {
            (None, _) => Incoming::Notification { method, params },
            (Some(_), Some(id)) => Incoming::Request { id, method, params },
            (Some(_), None) => invalid(
                None,
                "Invalid request: \"id\" must be a string or an integer",
            ),
        }
    }
}

/// The text of a JSON string token, without a copy where it has no escapes.
fn string(token: &RawValue) -> Option<Cow<'_, str>> {
    let text = token.get();
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(text).ok().map(Cow::Owned)
}

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Member {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    #[serde(other)]
    Other,
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(member) = map.next_key::<Member>()? {
            let (name, slot) = match member {
                Member::Jsonrpc => ("jsonrpc", &mut envelope.jsonrpc),
                Member::Id => ("id", &mut envelope.id),
                Member::Method => ("method", &mut envelope.method),
                Member::Params => ("params", &mut envelope.params),
                Member::Result => ("result", &mut envelope.result),
                Member::Error => ("error", &mut envelope.error),
                Member::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if slot.replace(map.next_value()?).is_some() {
                envelope.repeated = Some(name);
            }
        }
        Ok(envelope)
    }
}

/// `params` as an object; absent ones are an empty one.
pub(super) fn read_params(params: Option<&RawValue>) -> Result<Map<String, Value>, Refusal> {
    let Some(params) = params else {
        return Ok(Map::new());
    };
    if !params.get().starts_with('{') {
        return Err(Refusal::invalid_params("\"params\" must be an object"));
    }
    serde_json::from_str(params.get())
        .map_err(|error| Refusal::invalid_params(format!("\"params\" cannot be read: {error}")))
}

/// The line that answers `id` with a result, given as JSON text.
pub(super) fn result_line(id: &Id, result: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
        id.token()
    )
}

/// The line that refuses `id`. Without a readable id it is null, as JSON-RPC says.
pub(super) fn error_line(id: Option<&Id>, refusal: &Refusal) -> String {
    let id = id.map_or("null", Id::token);
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#,
        refusal.to_json()
    )
}

/// A line that needs no answer.
pub(super) fn notification_line(method: &str, params: Option<&Value>) -> String {
    let method = Value::from(method);
    match params {
        Some(params) => format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{params}}}"#),
        None => format!(r#"{{"jsonrpc":"2.0","method":{method}}}"#),
    }
}

/// A line that asks the client.
pub(super) fn request_line(id: &Id, method: &str, params: Option<&Value>) -> String {
    let id = id.token();
    let method = Value::from(method);
    match params {
        Some(params) => {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#)
        }
        None => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method}}}"#),
    }
}
