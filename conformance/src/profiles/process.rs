//! One process of a server that a profile judges: started, greeted, called, stopped.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::checks::exchange::{Exchange, Kind, Received, evidence_since};
use crate::client::{Client, Reply};
use crate::run::Options;
use crate::spec::Revision;
use crate::verdict::Evidence;
use crate::wire::{Launch, SpawnError};

/// A process that has been greeted.
pub(super) struct Process {
    pub(super) client: Client,
    /// The `initialize` or `server/discover` result.
    pub(super) hello: Value,
    /// Where the log stood at the last call.
    from: usize,
}

impl Process {
    /// Starts a process and greets it; `how` says what is special about it, for the error.
    pub(super) fn start(
        options: &Options,
        launch: &Launch,
        revision: Revision,
        how: &str,
        processes: &AtomicUsize,
    ) -> Result<Process, String> {
        let mut client = spawn(options, launch, revision, processes).map_err(|e| e.message)?;
        let Reply::Result { result, .. } = client.hello() else {
            let stderr = client.child().stderr();
            let said = stderr.lines().last().unwrap_or_default().to_owned();
            client.into_child().kill();
            return Err(format!(
                "started with {how} it did not answer the greeting ({said})"
            ));
        };
        client.initialized();
        Ok(Process {
            client,
            hello: result,
            from: 0,
        })
    }

    /// Sends a call and gives its id.
    pub(super) fn post(&mut self, tool: &str, arguments: &Value) -> Value {
        self.from = self.client.log().len();
        let id = self.client.fresh_id();
        let params = json!({"name": tool, "arguments": arguments});
        self.client.post(id.clone(), "tools/call", Some(params));
        id
    }

    /// Calls a tool and waits so long for the answer.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value, patience: Duration) -> Reply {
        let id = self.post(tool, arguments);
        self.client.reply(&id, Instant::now() + patience)
    }

    /// The exchange of the last call.
    pub(super) fn evidence(&self) -> Evidence {
        evidence_since(self.client.log(), self.from, 8)
    }

    /// Every tool that is listed, page after page.
    pub(super) fn tools(&mut self) -> Vec<Value> {
        let mut tools = Vec::new();
        let mut cursor: Option<Value> = None;
        for _ in 0..100 {
            let params = cursor.map(|cursor| json!({"cursor": cursor}));
            let Reply::Result { result, .. } = self.client.request("tools/list", params) else {
                break;
            };
            let page = result.get("tools").and_then(Value::as_array);
            tools.extend(page.into_iter().flatten().cloned());
            cursor = result.get("nextCursor").filter(|c| c.is_string()).cloned();
            if cursor.is_none() {
                break;
            }
        }
        tools
    }

    /// The first of these names that no tool has.
    pub(super) fn missing_tool(&mut self, names: &[&'static str]) -> Option<&'static str> {
        let tools = self.tools();
        let named = |name: &str| {
            tools
                .iter()
                .any(|tool| tool.get("name") == Some(&name.into()))
        };
        names.iter().find(|name| !named(name)).copied()
    }

    /// What came so far and is no message of the server's: lines that are none, objects that are
    /// none, and responses to what was never asked or is answered already. A program that prints
    /// JSON, or fakes a message, shows so.
    pub(super) fn strange_lines(&self) -> usize {
        let (revision, log) = (self.client.revision(), self.client.log());
        let exchange = Exchange::read(revision, log, None, Map::new());
        let mut answered = HashSet::new();
        let mut strange = |message: &&Received<'_>| match message.kind {
            Kind::Unknown => true,
            Kind::Response { request: None } => {
                // An error without an id answers a line that could not be read.
                message.value.get("id").is_some_and(|id| !id.is_null())
            }
            Kind::Response {
                request: Some(request),
            } => !answered.insert(request),
            Kind::Request(_) | Kind::Notification(_) => false,
        };
        let messages = exchange.received.iter().filter(|m| strange(m)).count();
        exchange.strange.len() + messages
    }

    /// Ends the process.
    pub(super) fn stop(self, options: &Options) {
        self.client.into_child().stop(options.limits.stop);
    }
}

/// Starts a process that is not greeted yet.
pub(super) fn spawn(
    options: &Options,
    launch: &Launch,
    revision: Revision,
    processes: &AtomicUsize,
) -> Result<Client, SpawnError> {
    let client = Client::start(launch, options.limits, revision)?;
    processes.fetch_add(1, Ordering::Relaxed);
    Ok(client)
}
