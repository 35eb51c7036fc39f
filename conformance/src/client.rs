//! A plain MCP client on the wire, in one revision: handshake, ids, replies found by their id.
//!
//! It repairs nothing. What it does not expect stays in the log for the checks to judge. Requests
//! from the server are answered (ping always; roots, sampling and elicitation when the client
//! declared them; -32601 otherwise), since a server may hold its answer until it has ours.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::spec::Revision;
use crate::wire::{Child, Entry, Launch, Limits};

/// What came back for a request. Indices point into the log of the child.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A response with a `result` member.
    Result {
        /// The line in the log.
        at: usize,
        /// The `result` member.
        result: Value,
    },
    /// A response with an `error` member (and no `result`).
    Error {
        /// The line in the log.
        at: usize,
        /// The `error` member.
        error: Value,
    },
    /// Nothing within the limit.
    Silence,
    /// The server closed its output, or ended, before it answered.
    Gone,
}

impl Reply {
    /// The result, if it is one.
    pub fn result(&self) -> Option<&Value> {
        match self {
            Reply::Result { result, .. } => Some(result),
            _ => None,
        }
    }

    /// The code of the error, if it is one and has an integer code.
    pub fn code(&self) -> Option<i64> {
        match self {
            Reply::Error { error, .. } => error.get("code").and_then(Value::as_i64),
            _ => None,
        }
    }
}

/// A client of one process of the server.
#[derive(Debug)]
pub struct Client {}

#[allow(unused_variables)]
impl Client {
    /// Starts a process and says nothing to it yet.
    pub fn start(
        launch: &Launch,
        limits: Limits,
        revision: Revision,
    ) -> Result<Client, crate::wire::SpawnError> {
        unimplemented!()
    }

    /// Declares client capabilities for the handshake, or for the `_meta` of each request from
    /// here on. Default: none.
    pub fn declare(&mut self, capabilities: Map<String, Value>) {
        unimplemented!()
    }

    /// The revision that is spoken.
    pub fn revision(&self) -> Revision {
        unimplemented!()
    }

    /// Sends `initialize` and waits for the reply (start-up limit). In the stateless era:
    /// `server/discover`. Does not send `notifications/initialized`.
    pub fn hello(&mut self) -> Reply {
        unimplemented!()
    }

    /// Sends `notifications/initialized` (nothing in the stateless era).
    pub fn initialized(&mut self) {
        unimplemented!()
    }

    /// A request with an id of the client's own; `params` gets `_meta` in the stateless era
    /// (members given by the caller win). Waits for the reply, within the request limit.
    pub fn request(&mut self, method: &str, params: Option<Value>) -> Reply {
        unimplemented!()
    }

    /// As [`Client::request`], but with that id and without waiting.
    pub fn post(&mut self, id: Value, method: &str, params: Option<Value>) {
        unimplemented!()
    }

    /// The text of a request as [`Client::post`] would send it, without the newline.
    pub fn line(&self, id: Option<Value>, method: &str, params: Option<Value>) -> String {
        unimplemented!()
    }

    /// A notification.
    pub fn notify(&mut self, method: &str, params: Option<Value>) {
        unimplemented!()
    }

    /// These bytes, as they stand.
    pub fn send(&mut self, bytes: &[u8]) {
        unimplemented!()
    }

    /// A fresh integer id.
    pub fn fresh_id(&mut self) -> Value {
        unimplemented!()
    }

    /// Waits for the reply to that id (compared as written: type and value), until then. A reply
    /// that came earlier and was not yet asked for counts.
    pub fn reply(&mut self, id: &Value, until: Instant) -> Reply {
        unimplemented!()
    }

    /// Waits for a line of the log at or after `from` that fits, until then.
    pub fn find(
        &mut self,
        from: usize,
        until: Instant,
        fits: &mut dyn FnMut(&Value) -> bool,
    ) -> Option<usize> {
        unimplemented!()
    }

    /// Sends a cheap request (`ping`; `server/discover` in the stateless era) and waits for its
    /// reply: what was sent before it had its chance. False if no reply came.
    pub fn barrier(&mut self) -> bool {
        unimplemented!()
    }

    /// Reads whatever comes for that long.
    pub fn listen(&mut self, time: Duration) {
        unimplemented!()
    }

    /// Everything that happened so far.
    pub fn log(&self) -> &[Entry] {
        unimplemented!()
    }

    /// The process, for what is not MCP.
    pub fn child(&mut self) -> &mut Child {
        unimplemented!()
    }

    /// The limits that it keeps.
    pub fn limits(&self) -> Limits {
        unimplemented!()
    }

    /// Gives the process back, to stop it.
    pub fn into_child(self) -> Child {
        unimplemented!()
    }
}
