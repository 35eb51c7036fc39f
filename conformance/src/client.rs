//! A plain MCP client on the wire, in one revision: handshake, ids, replies found by their id.
//!
//! It repairs nothing. What it does not expect stays in the log for the checks to judge. Requests
//! from the server are answered (ping always; roots, sampling and elicitation when the client
//! declared them; -32601 otherwise), since a server may hold its answer until it has ours.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::spec::{Era, Revision};
use crate::wire::{Body, Child, Entry, Event, Launch, Limits, Line, Received};

/// The key in `_meta` that names the revision of a stateless request.
pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The key in `_meta` that holds the capabilities of the client.
pub(crate) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The key in `_meta` that names the client.
pub(crate) const META_INFO: &str = "io.modelcontextprotocol/clientInfo";

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
pub struct Client {
    child: Child,
    limits: Limits,
    revision: Revision,
    capabilities: Map<String, Value>,
    next_id: i64,
    /// Replies that nobody asked for yet: the id as written, and where they stand in the log.
    waiting: HashMap<String, VecDeque<usize>>,
    /// Results for requests from the server that are to be answered otherwise than by default.
    answers: HashMap<String, Value>,
    /// Whether requests from the server are left for the caller to answer.
    answers_none: bool,
    /// Whether the server has answered anything yet.
    answered: bool,
    /// Whether the server did not answer the usual request of [`Client::barrier`].
    deaf_to_barrier: bool,
    /// The ids of those requests, loosely.
    barriers: Vec<String>,
}

impl Client {
    /// Starts a process and says nothing to it yet.
    pub fn start(
        launch: &Launch,
        limits: Limits,
        revision: Revision,
    ) -> Result<Client, crate::wire::SpawnError> {
        Ok(Client {
            child: Child::spawn(launch)?,
            limits,
            revision,
            capabilities: Map::new(),
            next_id: 1,
            waiting: HashMap::new(),
            answers: HashMap::new(),
            answers_none: false,
            answered: false,
            deaf_to_barrier: false,
            barriers: Vec::new(),
        })
    }

    /// Declares client capabilities for the handshake, or for the `_meta` of each request from
    /// here on. Default: none.
    pub fn declare(&mut self, capabilities: Map<String, Value>) {
        self.capabilities = capabilities;
    }

    /// Answers requests of this method from the server with that result from here on.
    pub fn answer(&mut self, method: &str, result: Value) {
        self.answers.insert(method.to_owned(), result);
    }

    /// Leaves requests from the server unanswered from here on, for the caller to answer.
    pub fn answer_none(&mut self) {
        self.answers_none = true;
    }

    /// Answers requests from the server again, after [`Client::answer_none`].
    pub fn answer_as_usual(&mut self) {
        self.answers_none = false;
    }

    /// Drops the replies that nobody asked for, so that their ids may be used again.
    pub fn forget(&mut self) {
        self.waiting.clear();
    }

    /// The revision that is spoken.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Sends `initialize` and waits for the reply (start-up limit). In the stateless era:
    /// `server/discover`. Does not send `notifications/initialized`.
    pub fn hello(&mut self) -> Reply {
        match self.revision.era() {
            Era::Handshake => {
                let params = initialize_params(self.revision.as_str(), &self.capabilities);
                self.request("initialize", Some(params))
            }
            Era::Stateless => self.request("server/discover", None),
        }
    }

    /// Sends `notifications/initialized` (nothing in the stateless era).
    pub fn initialized(&mut self) {
        if self.revision.era() == Era::Handshake {
            self.notify("notifications/initialized", None);
        }
    }

    /// A request with an id of the client's own; `params` gets `_meta` in the stateless era
    /// (members given by the caller win). Waits for the reply, within the request limit.
    pub fn request(&mut self, method: &str, params: Option<Value>) -> Reply {
        let id = self.fresh_id();
        self.post(id.clone(), method, params);
        let until = self.deadline();
        self.reply(&id, until)
    }

    /// Until when an answer to what is sent now may take: the request limit, or the start-up
    /// limit as long as the server has answered nothing.
    pub fn deadline(&self) -> Instant {
        let request = Instant::now() + self.limits.request;
        match self.answered {
            true => request,
            false => request.max(self.child.started() + self.limits.startup),
        }
    }

    /// As [`Client::request`], but with that id and without waiting.
    pub fn post(&mut self, id: Value, method: &str, params: Option<Value>) {
        let line = self.line(Some(id), method, params);
        self.send_line(line);
    }

    /// As [`Client::post`], so many times in one go, each with a fresh id; gives the ids.
    pub fn post_many(&mut self, count: usize, method: &str, params: Option<&Value>) -> Vec<Value> {
        let ids: Vec<Value> = (0..count).map(|_| self.fresh_id()).collect();
        for id in &ids {
            self.post(id.clone(), method, params.cloned());
        }
        ids
    }

    /// The text of a request as [`Client::post`] would send it, without the newline. Without an
    /// id: of a notification.
    pub fn line(&self, id: Option<Value>, method: &str, params: Option<Value>) -> String {
        let mut message = Map::new();
        message.insert("jsonrpc".into(), "2.0".into());
        let request = id.is_some();
        if let Some(id) = id {
            message.insert("id".into(), id);
        }
        message.insert("method".into(), method.into());
        let params = match (request, self.revision.era()) {
            (true, Era::Stateless) => Some(self.with_meta(params)),
            _ => params,
        };
        if let Some(params) = params {
            message.insert("params".into(), params);
        }
        Value::Object(message).to_string()
    }

    /// The params with the `_meta` that a stateless request carries. Members that are there win;
    /// params that are no object stay as they are.
    pub fn with_meta(&self, params: Option<Value>) -> Value {
        let mut params = params.unwrap_or_else(|| json!({}));
        let Some(members) = params.as_object_mut() else {
            return params;
        };
        let meta = members.entry("_meta").or_insert_with(|| json!({}));
        if let Some(meta) = meta.as_object_mut() {
            for (name, value) in [
                (META_VERSION, self.revision.as_str().into()),
                (META_CAPABILITIES, self.capabilities.clone().into()),
                (META_INFO, client_info()),
            ] {
                meta.entry(name).or_insert(value);
            }
        }
        params
    }

    /// A notification.
    pub fn notify(&mut self, method: &str, params: Option<Value>) {
        let line = self.line(None, method, params);
        self.send_line(line);
    }

    /// These bytes, as they stand.
    pub fn send(&mut self, bytes: &[u8]) {
        self.child.send(bytes);
    }

    fn send_line(&mut self, mut line: String) {
        line.push('\n');
        self.child.send(line.as_bytes());
    }

    /// A fresh integer id.
    pub fn fresh_id(&mut self) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        id.into()
    }

    /// Waits for the reply to that id (compared as written: type and value), until then. A reply
    /// that came earlier and was not yet asked for counts.
    pub fn reply(&mut self, id: &Value, until: Instant) -> Reply {
        let key = id.to_string();
        loop {
            if let Some(at) = self.waiting.get_mut(&key).and_then(VecDeque::pop_front) {
                return self.read_reply(at, id);
            }
            match self.next(until) {
                Received::Line(_) => {}
                Received::End => return Reply::Gone,
                Received::Timeout => return Reply::Silence,
            }
        }
    }

    fn read_reply(&self, at: usize, id: &Value) -> Reply {
        let fits = |message: &&Value| is_reply(message) && message.get("id") == Some(id);
        let message = self.message(at).and_then(|message| match message {
            Value::Array(batch) => batch.iter().find(fits),
            single => Some(single),
        });
        let member = |name| message.and_then(|message| message.get(name)).cloned();
        match (member("result"), member("error")) {
            (Some(result), _) => Reply::Result { at, result },
            (None, error) => Reply::Error {
                at,
                error: error.unwrap_or_default(),
            },
        }
    }

    /// Waits for a line of the log at or after `from` that fits, until then.
    pub fn find(
        &mut self,
        from: usize,
        until: Instant,
        fits: &mut dyn FnMut(&Value) -> bool,
    ) -> Option<usize> {
        let mut at = from;
        loop {
            while at < self.log().len() {
                if self.message(at).is_some_and(&mut *fits) {
                    return Some(at);
                }
                at += 1;
            }
            // Lines that the log had already are handed out first; only the end is the end.
            match self.next(until) {
                Received::Line(_) => {}
                Received::End if self.log().len() > at => {}
                Received::End | Received::Timeout => return None,
            }
        }
    }

    /// A cheap method that every server of the revision answers.
    pub fn cheap_method(&self) -> &'static str {
        match self.revision.era() {
            Era::Handshake => "ping",
            Era::Stateless => "server/discover",
        }
    }

    /// Sends a request of [`Client::cheap_method`] and waits for its
    /// reply: what was sent before it had its chance. False if no reply came.
    ///
    /// A reply with a wrong id counts, and a server that is deaf to that request is asked
    /// `tools/list` from then on: it is alive, and other rules can still be judged.
    pub fn barrier(&mut self) -> bool {
        if !self.deaf_to_barrier {
            if self.is_answered(self.cheap_method()) {
                return true;
            }
            if self.gone() {
                return false;
            }
            self.deaf_to_barrier = true;
        }
        self.is_answered("tools/list")
    }

    /// Sends a request and tells whether anything came that may be the reply to it.
    fn is_answered(&mut self, method: &str) -> bool {
        let id = self.fresh_id();
        let from = self.log().len();
        self.post(id.clone(), method, None);
        let key = loosely(&id);
        let until = self.deadline();
        self.barriers.push(key.clone());
        let mut fits = |message: &Value| {
            is_reply(message)
                && message
                    .get("id")
                    .is_none_or(|id| id.is_null() || loosely(id) == key)
        };
        let found = self.find(from, until, &mut fits).is_some();
        self.waiting.remove(&id.to_string());
        found
    }

    /// Whether this message answers a request of [`Client::barrier`].
    pub fn is_barrier_reply(&self, message: &Value) -> bool {
        let id = message.get("id").map(loosely);
        is_reply(message) && id.is_some_and(|id| self.barriers.contains(&id))
    }

    /// Whether nothing more will come: the output is closed, or a flood is not read any more.
    pub fn gone(&self) -> bool {
        let end = |e: &Entry| matches!(e.event, Event::OutputClosed | Event::Flooded);
        self.log().iter().rev().any(end)
    }

    /// Reads whatever comes for that long.
    pub fn listen(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Received::Line(_) = self.next(until) {}
        // Silence is watched to its end, also when the output was closed.
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        self.child.exited();
    }

    /// The next line of output, at most until then: takes note of replies and answers requests
    /// from the server.
    pub fn next(&mut self, until: Instant) -> Received {
        let received = self.child.receive(until);
        if let Received::Line(at) = received {
            let (replies, requests) = self.sort(at);
            self.answered |= !replies.is_empty();
            for id in replies {
                self.waiting.entry(id).or_default().push_back(at);
            }
            let requests = if self.answers_none { vec![] } else { requests };
            for request in &requests {
                let answer = self.answer_to(request);
                self.send_line(answer.to_string());
            }
        }
        received
    }

    /// The ids of the replies and the requests in a line.
    fn sort(&self, at: usize) -> (Vec<String>, Vec<Value>) {
        let messages = match self.message(at) {
            Some(Value::Array(batch)) => batch.as_slice(),
            Some(single) => std::slice::from_ref(single),
            None => &[],
        };
        let with_id = messages.iter().filter(|m| m.get("id").is_some());
        let (replies, others): (Vec<&Value>, Vec<&Value>) = with_id.partition(|m| is_reply(m));
        let replies = replies.iter().map(|m| m["id"].to_string()).collect();
        let requests = others.into_iter().filter(|m| m.get("method").is_some());
        (replies, requests.cloned().collect())
    }

    fn answer_to(&self, request: &Value) -> Value {
        let id = &request["id"];
        let method = request["method"].as_str().unwrap_or_default();
        match self.result_for(method) {
            Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            None => json!({
                "jsonrpc": "2.0",
                "id": id,
                "error": {"code": -32601, "message": "Method not found"},
            }),
        }
    }

    /// What a request of this method from the server is answered with; none if the server has no
    /// business to send it.
    pub fn result_for(&self, method: &str) -> Option<Value> {
        let declared = |capability| self.capabilities.contains_key(capability);
        let handshake = self.revision.era() == Era::Handshake;
        match method {
            _ if self.answers.contains_key(method) => self.answers.get(method).cloned(),
            "ping" if handshake => Some(json!({})),
            "roots/list" if handshake && declared("roots") => {
                let uri = format!("file://{}", self.child.folder().display());
                Some(json!({"roots": [{"uri": uri, "name": "work"}]}))
            }
            "sampling/createMessage" if handshake && declared("sampling") => Some(json!({
                "role": "assistant",
                "content": {"type": "text", "text": "An answer from touchstone."},
                "model": "touchstone",
                "stopReason": "endTurn",
            })),
            "elicitation/create" if handshake && declared("elicitation") => {
                Some(json!({"action": "decline"}))
            }
            _ => None,
        }
    }

    /// The JSON value of a line of the log.
    fn message(&self, at: usize) -> Option<&Value> {
        match &self.received(at)?.body {
            Body::Json(json) => Some(&json.value),
            _ => None,
        }
    }

    /// The messages that came at or after that place of the log.
    pub fn messages_since(&self, from: usize) -> impl Iterator<Item = &Value> {
        (from..self.log().len()).filter_map(|at| self.message(at))
    }

    /// Everything that happened so far.
    pub fn log(&self) -> &[Entry] {
        self.child.log()
    }

    /// The process, for what is not MCP.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The limits that it keeps.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The line of output at this index of the log, if one stands there.
    pub fn received(&self, at: usize) -> Option<&Line> {
        match &self.log().get(at)?.event {
            Event::Received(line) => Some(line),
            _ => None,
        }
    }

    /// Gives the process back, to stop it.
    pub fn into_child(self) -> Child {
        self.child
    }
}

/// Whether it answers a request: a `result` or `error` member and no method.
fn is_reply(message: &Value) -> bool {
    let has = |name| message.get(name).is_some();
    !has("method") && (has("result") || has("error"))
}

/// The id without its type: what a server that mistakes the type still gives back.
fn loosely(id: &Value) -> String {
    let text = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// The params of an `initialize` request for a version, which need not be one that there is.
pub(crate) fn initialize_params(version: &str, capabilities: &Map<String, Value>) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": capabilities,
        "clientInfo": client_info(),
    })
}

fn client_info() -> Value {
    json!({"name": "touchstone", "version": env!("CARGO_PKG_VERSION")})
}
