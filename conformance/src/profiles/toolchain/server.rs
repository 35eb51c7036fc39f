//! A server of the toolchain contract, started with the flags of the contract, and its calls.

use std::ffi::OsString;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::client::Reply;
use crate::profiles::process::Process;
use crate::run::Options;
use crate::spec::Revision;

/// A compiler may take longer than a request of the protocol.
pub(super) const COMPILE: Duration = Duration::from_secs(120);

/// The variables of the contract; each process starts with none of them unless told so.
pub(super) const VARIABLES: [&str; 5] = [
    "CAJETA_MCP_CACHE_ENABLED",
    "CAJETA_MCP_CACHE_DIR",
    "CAJETA_MCP_CACHE_TTL",
    "CAJETA_MCP_CACHE_MAX_BYTES",
    "CAJETA_MCP_CACHE_MAX_ENTRIES",
];

/// One process.
pub(super) struct Server(Process);

impl Deref for Server {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.0
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.0
    }
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
    /// Starts a process with these flags and variables: those of the contract, and any others. The
    /// error says what went wrong.
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
        // What is set last holds.
        launch
            .env
            .extend(VARIABLES.map(|name| (OsString::from(name), None)));
        launch.env.extend(
            variables
                .iter()
                .map(|(name, value)| (OsString::from(name), Some(OsString::from(value)))),
        );
        let how = format!("`{}`", flags.join(" "));
        Process::start(options, &launch, revision, &how, processes).map(Server)
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
        let id = self.0.post(tool, arguments);
        self.said(tool, &id)
    }

    /// Whether a call is answered, with whatever.
    pub(super) fn answers(&mut self, tool: &str, arguments: &Value) -> bool {
        let reply = self.0.call(tool, arguments, COMPILE);
        !matches!(reply, Reply::Silence | Reply::Gone)
    }

    /// What a call gives that was sent under this id.
    pub(super) fn said(&mut self, tool: &str, id: &Value) -> Said {
        match self.0.client.reply(id, Instant::now() + COMPILE) {
            Reply::Result { result, .. } => fields(&result),
            Reply::Error { error, .. } => Said::Refused(error.get("code").and_then(Value::as_i64)),
            Reply::Silence => Said::Nothing(format!("`{tool}` was not answered")),
            Reply::Gone => Said::Nothing(format!("the server ended during `{tool}`")),
        }
    }

    /// Ends the process.
    pub(super) fn stop(self, options: &Options) {
        self.0.stop(options);
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
