//! Errors as JSON-RPC tells them.

use serde_json::{Map, Value, json};

/// The line is not JSON.
pub(super) const PARSE_ERROR: i64 = -32700;
/// The JSON is no request.
pub(super) const INVALID_REQUEST: i64 = -32600;
/// No such method, or a method of a capability that is not declared.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters do not fit the method.
pub(super) const INVALID_PARAMS: i64 = -32602;
/// The server failed.
pub(super) const INTERNAL_ERROR: i64 = -32603;
/// No such resource, until 2025-11-25; later [`INVALID_PARAMS`].
pub(super) const RESOURCE_NOT_FOUND: i64 = -32002;
/// The client did not declare what the request needs, from 2026-07-28.
pub(super) const MISSING_CLIENT_CAPABILITY: i64 = -32021;
/// The version that the request names is not spoken here, from 2026-07-28.
pub(super) const UNSUPPORTED_VERSION: i64 = -32022;

/// Longer messages are cut: an error message is one short sentence.
const MAX_MESSAGE: usize = 280;

/// Why a request is not answered with a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// One of the codes of this module.
    pub code: i64,
    /// One sentence for the person or model that reads it.
    pub message: String,
    /// What a program may want to know besides.
    pub data: Option<Value>,
}

impl Refusal {
    /// A refusal without data. Line breaks in the message become spaces; a long one is cut.
    pub fn new(code: i64, message: impl AsRef<str>) -> Self {
        Self {
            code,
            message: clip(message.as_ref(), MAX_MESSAGE),
            data: None,
        }
    }

    /// The same refusal with `data`.
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    pub(super) fn invalid_request(message: impl AsRef<str>) -> Self {
        Self::new(INVALID_REQUEST, message)
    }

    pub(super) fn invalid_params(message: impl AsRef<str>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    pub(super) fn internal(message: impl AsRef<str>) -> Self {
        Self::new(INTERNAL_ERROR, message)
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        Self::new(
            METHOD_NOT_FOUND,
            format!("Method not found: {}", clip(method, 100)),
        )
    }

    pub(super) fn unsupported_version(requested: &str, supported: &[&str]) -> Self {
        Self::new(
            UNSUPPORTED_VERSION,
            format!(
                "Unsupported protocol version; this server speaks {}",
                supported.join(", ")
            ),
        )
        .with_data(json!({"supported": supported, "requested": requested}))
    }

    /// The `error` member.
    pub(super) fn to_json(&self) -> Value {
        let mut error = Map::new();
        error.insert("code".into(), self.code.into());
        error.insert("message".into(), self.message.clone().into());
        if let Some(data) = &self.data {
            error.insert("data".into(), data.clone());
        }
        Value::Object(error)
    }
}

/// At most `max` characters of `text`, on one line.
pub(super) fn clip(text: &str, max: usize) -> String {
    let mut clipped: String = text
        .chars()
        .take(max)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(max).is_some() {
        clipped.push('…');
    }
    clipped
}
