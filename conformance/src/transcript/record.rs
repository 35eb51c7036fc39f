//! Writes a log as a transcript: the reverse of playing one.

use serde_json::{Map, Value};

use super::cut;
use super::template::escape;
use crate::spec::{Era, Revision};
use crate::wire::{Body, Entry, Event};

/// What stands at the head of a recorded transcript.
#[derive(Debug, Clone)]
pub struct Header {
    /// The requirements that it shows a breach of.
    pub checks: Vec<String>,
    /// The revision in which it was recorded.
    pub revision: Revision,
    /// What it shows.
    pub about: String,
}

/// Writes a log, or a part of one, as a transcript that sends the same bytes to a new process.
/// What the server said stands in comments, and each answer is waited for by its id. Whether that
/// is a breach no script can tell: `@rejudge` has `touchstone replay` put the rules of the header
/// to the test again.
pub fn record(log: &[Entry], header: &Header) -> String {
    let mut recorder = Recorder {
        lines: vec![],
        asked: vec![],
        requested: vec![],
        answers: vec![],
    };
    for entry in log {
        recorder.entry(&entry.event);
    }
    let about = header.about.lines().map(|line| format!("# {line}"));
    let mut lines: Vec<String> = about.collect();
    if !header.checks.is_empty() {
        lines.push(format!("@check {}", header.checks.join(" ")));
    }
    lines.push(format!("@revision {}", header.revision));
    lines.push("@rejudge".into());
    lines.push("@session fresh".into());
    // In the stateless era the lines have their `_meta` already, or are to go without.
    if header.revision.era() == Era::Stateless || greets(log) {
        lines.push("@handshake none".into());
    }
    lines.push("@allow anything".into());
    lines.extend(recorder.answering());
    lines.push(String::new());
    lines.extend(recorder.lines);
    lines.join("\n") + "\n"
}

/// Whether the handshake itself is in the log.
fn greets(log: &[Entry]) -> bool {
    log.iter().any(|entry| match &entry.event {
        Event::Sent(bytes) => serde_json::from_slice::<Value>(bytes)
            .is_ok_and(|message| message["method"] == "initialize"),
        _ => false,
    })
}

struct Recorder {
    lines: Vec<String>,
    /// Ids of requests that are not yet answered.
    asked: Vec<Value>,
    /// Requests from the server that are not yet answered: id and method.
    requested: Vec<(Value, String)>,
    /// How they were answered: the client does it again by itself.
    answers: Vec<(String, Value)>,
}

impl Recorder {
    /// Directives that make the client answer the server's requests as it did.
    fn answering(&self) -> Vec<String> {
        let mut declared = Map::new();
        let mut lines = vec![];
        for (method, result) in &self.answers {
            let capability = method.split('/').next().unwrap_or_default();
            if matches!(capability, "roots" | "sampling" | "elicitation") {
                declared.insert(capability.into(), Value::Object(Map::new()));
            }
            let line = format!("@answer {method} {}", escape(&result.to_string()));
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        if !declared.is_empty() {
            lines.insert(0, format!("@declare {}", Value::Object(declared)));
        }
        lines
    }

    fn entry(&mut self, event: &Event) {
        match event {
            Event::Sent(bytes) => {
                let message = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
                if !self.answers_server(&message) {
                    self.sent(bytes, &message);
                }
            }
            Event::Received(line) => {
                let text = String::from_utf8_lossy(&line.bytes);
                let seen = |c: char| if c.is_control() { ' ' } else { c };
                let text: String = text.chars().take(2000).map(seen).collect();
                self.lines.push(format!("# <-- {}", cut(&text, 2000)));
                if let Body::Json(json) = &line.body {
                    messages(&json.value).iter().for_each(|m| self.received(m));
                }
            }
            Event::InputClosed => self.lines.push("@close-stdin".into()),
            Event::Exited(status) => self.lines.push(format!("# The server ended ({status}).")),
            Event::OutputClosed | Event::Flooded => {}
        }
    }

    /// Whether it answers a request from the server.
    fn answers_server(&mut self, message: &Value) -> bool {
        let id = message.get("id");
        let found = match message.get("method") {
            Some(_) => None,
            None => self.requested.iter().position(|(own, _)| Some(own) == id),
        };
        let Some(at) = found else { return false };
        let (_, method) = self.requested.remove(at);
        if let Some(result) = message.get("result") {
            self.answers.push((method, result.clone()));
        }
        true
    }

    fn sent(&mut self, bytes: &[u8], message: &Value) {
        let body = bytes.strip_suffix(b"\n");
        let text = std::str::from_utf8(body.unwrap_or(bytes)).ok();
        let plain = |text: &&str| !text.contains(['\n', '\r']) && text.trim_end() == *text;
        match text.filter(plain) {
            Some(text) => {
                if body.is_none() {
                    self.lines.push("@no-newline".into());
                }
                self.lines.push(format!("--> {}", escape(text)));
            }
            None => {
                let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                self.lines.push(format!("-->hex {}", hex.join(" ")));
            }
        }
        let requests = messages(message).iter().filter(|m| m["method"].is_string());
        self.asked
            .extend(requests.filter_map(|m| m.get("id")).cloned());
    }

    fn received(&mut self, message: &Value) {
        let Some(id) = message.get("id") else { return };
        if let Some(method) = message["method"].as_str() {
            self.requested.push((id.clone(), method.into()));
        } else if let Some(at) = self.asked.iter().position(|asked| asked == id) {
            self.asked.remove(at);
            let id = super::pattern::Pattern::exactly(id);
            self.lines.push(format!("<-- {{\"id\":{id}}}"));
        }
    }
}

/// The members of a batch, or the one message.
fn messages(value: &Value) -> &[Value] {
    match value {
        Value::Array(batch) => batch,
        single => std::slice::from_ref(single),
    }
}
