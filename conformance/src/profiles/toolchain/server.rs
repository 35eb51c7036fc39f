//! A server of the toolchain contract, started with the flags of the contract, and its calls.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::checks::exchange::evidence_since;
use crate::client::{Client, Reply};
use crate::run::Options;
use crate::spec::Revision;
use crate::verdict::Evidence;

/// A compiler may take longer than a request of the protocol.
const COMPILE: Duration = Duration::from_secs(120);

/// The variables of the contract; each process starts with none of them unless told so.
pub(super) const VARIABLES: [&str; 5] = [
    "CAJETA_MCP_CACHE_ENABLED",
    "CAJETA_MCP_CACHE_DIR",
    "CAJETA_MCP_CACHE_TTL",
    "CAJETA_MCP_CACHE_MAX_BYTES",
    "CAJETA_MCP_CACHE_MAX_ENTRIES",
];

/// One process.
pub(super) struct Server {
    client: Client,
    /// The `initialize` or `server/discover` result.
    pub hello: Value,
    /// Where the log stood at the last call.
    from: usize,
}

/// What a call gave.
#[derive(Debug, Clone)]
pub(super) enum Said {
    /// The result's fields, in whichever form they came.
    Fields(Map<String, Value>),
    /// A JSON-RPC error with this code.
    Refused(Option<i64>),
    /// A result with `isError`, and its text.
    ToolError(String),
    /// No answer, or no result that could be read.
    Nothing(String),
}

impl Server {
    /// Starts a process with these flags and variables. The error says what went wrong.
    pub(super) fn start(
        options: &Options,
        revision: Revision,
        flags: &[String],
        variables: &[(&str, &str)],
        processes: &AtomicUsize,
    ) -> Result<Server, String> {
        let mut launch = options.launch.clone();
        // A flag of the check takes the place of the user's own: few servers take one twice.
        let replaced = |arg: &OsString| {
            let name = arg
                .to_str()
                .and_then(|arg| arg.split_once('='))
                .map(|(name, _)| name);
            flags
                .iter()
                .filter_map(|flag| flag.split_once('='))
                .any(|(own, _)| Some(own) == name)
        };
        launch.args.retain(|arg| !replaced(arg));
        launch.args.extend(flags.iter().map(OsString::from));
        for name in VARIABLES {
            let value = variables.iter().find(|(other, _)| *other == name);
            launch
                .env
                .push((name.into(), value.map(|(_, value)| value.into())));
        }
        let mut client = Client::start(&launch, options.limits, revision).map_err(|e| e.message)?;
        processes.fetch_add(1, Ordering::Relaxed);
        let reply = client.hello();
        let Reply::Result { result, .. } = reply else {
            let stderr = client.child().stderr();
            let said = stderr.lines().last().unwrap_or_default().to_owned();
            client.into_child().kill();
            return Err(format!(
                "started with `{}` it did not answer the greeting ({said})",
                flags.join(" ")
            ));
        };
        client.initialized();
        Ok(Server {
            client,
            hello: result,
            from: 0,
        })
    }

    /// Starts a process whose cache is this folder, with more flags.
    pub(super) fn with_cache(
        options: &Options,
        revision: Revision,
        folder: &Path,
        more: &[&str],
        processes: &AtomicUsize,
    ) -> Result<Server, String> {
        let mut flags = vec![format!("--cache-dir={}", folder.display())];
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
        Server::start(options, revision, &flags, &[], processes)
    }

    /// Calls a tool.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Said {
        self.from = self.client.log().len();
        let id = self.client.fresh_id();
        let params = json!({"name": tool, "arguments": arguments});
        self.client.post(id.clone(), "tools/call", Some(params));
        let until = std::time::Instant::now() + COMPILE;
        match self.client.reply(&id, until) {
            Reply::Result { result, .. } => fields(&result),
            Reply::Error { error, .. } => Said::Refused(error.get("code").and_then(Value::as_i64)),
            Reply::Silence => Said::Nothing(format!("`{tool}` was not answered")),
            Reply::Gone => Said::Nothing(format!("the server ended during `{tool}`")),
        }
    }

    /// The exchange of the last call.
    pub(super) fn evidence(&self) -> Evidence {
        evidence_since(self.client.log(), self.from, 8)
    }

    /// Every list of tools, page after page.
    pub(super) fn tools(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        let mut cursor: Option<Value> = None;
        for _ in 0..100 {
            let params = cursor.map(|cursor| json!({"cursor": cursor}));
            let Reply::Result { result, .. } = self.client.request("tools/list", params) else {
                break;
            };
            let page = result.get("tools").and_then(Value::as_array);
            names.extend(
                page.into_iter()
                    .flatten()
                    .filter_map(|tool| tool.get("name")?.as_str().map(str::to_owned)),
            );
            cursor = result.get("nextCursor").filter(|c| c.is_string()).cloned();
            if cursor.is_none() {
                break;
            }
        }
        names
    }

    /// Lines of output so far that are no JSON.
    pub(super) fn strange_lines(&self) -> usize {
        use crate::wire::{Body, Event};
        self.client
            .log()
            .iter()
            .filter(|entry| {
                matches!(&entry.event, Event::Received(line) if !matches!(line.body, Body::Json(_)))
            })
            .count()
    }

    /// Ends the process.
    pub(super) fn stop(self, options: &Options) {
        self.client.into_child().stop(options.limits.stop);
    }
}

/// The result's fields: straight in the result, in `structuredContent`, or as JSON in the first
/// text block.
fn fields(result: &Value) -> Said {
    let text = result.pointer("/content/0/text").and_then(Value::as_str);
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Said::ToolError(text.unwrap_or_default().to_owned());
    }
    if let Some(Value::Object(fields)) = result.get("structuredContent") {
        return Said::Fields(fields.clone());
    }
    if let Some(text) = text {
        return match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Said::Fields(fields),
            _ => Said::Nothing("the result's first text block is no JSON object".to_owned()),
        };
    }
    match result {
        Value::Object(fields) => Said::Fields(fields.clone()),
        _ => Said::Nothing("the result is no object".to_owned()),
    }
}
