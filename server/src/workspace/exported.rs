//! Functions marked `@tool`, offered as tools of the server.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value, json};
use touchstone_language::analysis::is_library;
use touchstone_language::diagnostic::Severity;
use touchstone_language::env::Env;
use touchstone_language::host::{Host, Refusal, Stop};
use touchstone_language::machine::Budget;
use touchstone_language::names::{full, module_name};
use touchstone_language::snapshot::Snapshot;
use touchstone_language::tool::{self, Called};
use touchstone_language::types::{Label, Sym};

use super::config::{Export, Permissions};
use super::state::State;
use super::tools::{done, failed, place_json};
use crate::protocol::{Call, Outcome, Tool};

/// How long an exported function may run.
const TIME: Duration = Duration::from_secs(30);
/// What is printed beyond this is dropped.
const PRINTED_BYTES: usize = 64 * 1024;

/// An exported function, bound to the snapshot that the server started with: what a tool does
/// changes only when the host starts the server again.
pub(super) struct Exported {
    pub name: &'static str,
    sym: Sym,
    snapshot: Snapshot,
    description: String,
    input_schema: Value,
    output_schema: Value,
    read_only: bool,
}

/// The functions that are asked for.
pub(super) fn find(state: &mut State, export: &Export) -> Result<Vec<Exported>, String> {
    let snapshot = state.head.clone();
    let env = state.analyzer.env(&snapshot);
    let checked = state.analyzer.check(&env, None, &|| false);
    let mut marked: Vec<(Sym, Arc<str>, Arc<str>)> = Vec::new();
    for module in env.modules.by_name.values().filter(|m| !is_library(m)) {
        for name in tool::tools(module) {
            marked.push((full(&module.name, &name), module.name.clone(), name));
        }
    }
    let wanted: Vec<(Sym, Arc<str>, Arc<str>)> = match export {
        Export::Nothing => Vec::new(),
        Export::All => marked,
        Export::Names(names) => {
            let mut out = Vec::new();
            for wanted in names {
                let fits = |(sym, _, name): &&(Sym, Arc<str>, Arc<str>)| {
                    **sym == **wanted || **name == **wanted
                };
                let found: Vec<_> = marked.iter().filter(fits).cloned().collect();
                match found.as_slice() {
                    [one] => out.push(one.clone()),
                    [] => {
                        return Err(format!(
                            "exported tools: no function `{wanted}` is marked @tool"
                        ));
                    }
                    _ => {
                        return Err(format!(
                            "exported tools: `{wanted}` is in several modules; write module::{wanted}"
                        ));
                    }
                }
            }
            out
        }
    };
    let mut out: Vec<Exported> = Vec::new();
    for (sym, module, name) in wanted {
        let error = checked
            .diagnostics
            .iter()
            .find(|d| d.severity == Severity::Error && module_name(&d.path) == &*module);
        if let Some(error) = error {
            let at = error.range.start;
            return Err(format!(
                "exported tools: {}:{}:{}: {} {}",
                error.path, at.line, at.column, error.code, error.message
            ));
        }
        let public = name.replace('.', "_");
        if out.iter().any(|tool| tool.name == public) {
            return Err(format!(
                "exported tools: two functions are called `{public}`"
            ));
        }
        out.extend(Exported::new(&env, &sym, public, &snapshot));
    }
    Ok(out)
}

impl Exported {
    fn new(env: &Env, sym: &Sym, name: String, snapshot: &Snapshot) -> Option<Self> {
        let found = tool::Tool::new(env, sym)?;
        let row = &env.signature(sym)?.row;
        let pure = !row
            .labels
            .iter()
            .any(|label| matches!(label, Label::Effect(effect) if &**effect == "Http"));
        Some(Self {
            // Names of tools live as long as the server; there are as many as were exported.
            name: Box::leak(name.into_boxed_str()),
            sym: sym.clone(),
            snapshot: snapshot.clone(),
            description: found.description(),
            input_schema: found.input_schema(),
            output_schema: open(found.output_schema()),
            read_only: pure,
        })
    }

    pub(super) fn tool(&self) -> Tool {
        Tool {
            name: self.name,
            title: self.name,
            description: self.description.clone(),
            input_schema: self.input_schema.clone(),
            output_schema: Some(self.output_schema.clone()),
            annotations: json!({
                "readOnlyHint": self.read_only,
                "destructiveHint": false,
                "idempotentHint": false,
                "openWorldHint": !self.read_only
            }),
        }
    }

    /// Calls the function. What it may do is what `permissions` grants, whatever the arguments say.
    pub(super) fn call(
        &self,
        arguments: &Map<String, Value>,
        call: &Call,
        permissions: Permissions,
    ) -> Outcome {
        let mut analyzer = touchstone_language::analysis::Analyzer::new();
        let env = analyzer.env(&self.snapshot);
        let Some(found) = tool::Tool::new(&env, &self.sym) else {
            return super::tools::error("unknown_tool", "the function is not there any more");
        };
        let mut host = Granted {
            permissions,
            call: call.clone(),
            until: Instant::now() + TIME,
            printed: Vec::new(),
            bytes: 0,
        };
        let budget = Budget {
            steps: 1_000_000_000,
            ..Budget::default()
        };
        let called = found.call(arguments, &mut host, budget);
        let mut out = match called {
            Called::Value(value) => done(json!({"result": value})),
            Called::Invalid(message) => super::tools::error("invalid_arguments", &message),
            Called::Failure { tag, payload } => failed(json!({"error": {
                "kind": "failure", "tag": tag, "payload": payload, "message": format!("{} failed with {tag}", self.name)
            }})),
            Called::Broken(message) => super::tools::error("broken", &message),
            Called::Stopped(stop) => stopped(&env, &stop),
        };
        if let (Outcome::Done { content, .. }, false) = (&mut out, host.printed.is_empty()) {
            content.push(json!({"type": "text", "text": host.printed.join("\n")}));
        }
        out
    }
}

fn stopped(env: &Env, stop: &Stop) -> Outcome {
    let stack: Vec<Value> = stop
        .stack()
        .iter()
        .map(|place| place_json(env, place))
        .collect();
    failed(json!({"error": {"kind": stop.kind(), "message": stop.message(), "stack": stack}}))
}

/// The schema without its demand for a result: a failure has `error` instead.
fn open(mut schema: Value) -> Value {
    if let Value::Object(members) = &mut schema {
        members.remove("required");
    }
    schema
}

/// The host of exported functions.
struct Granted {
    permissions: Permissions,
    call: Call,
    until: Instant,
    printed: Vec<String>,
    bytes: usize,
}

fn grant(granted: bool, effect: &str) -> Result<(), Refusal> {
    match granted {
        true => Ok(()),
        false => Err(Refusal::Denied(format!(
            "{effect} is not granted by this server's [permissions]"
        ))),
    }
}

impl Host for Granted {
    fn print(&mut self, text: &str) -> Result<(), Refusal> {
        grant(self.permissions.print, "Print")?;
        self.bytes += text.len() + 1;
        if self.bytes <= PRINTED_BYTES {
            self.printed.push(text.to_owned());
        }
        Ok(())
    }

    fn now(&mut self) -> Result<i64, Refusal> {
        grant(self.permissions.clock, "Clock")?;
        Ok(milliseconds())
    }

    fn random(&mut self) -> Result<u64, Refusal> {
        grant(self.permissions.random, "Random")?;
        random_bits()
    }

    fn interrupted(&mut self) -> bool {
        self.call.cancelled() || Instant::now() >= self.until
    }
}

/// Milliseconds since 1970.
pub(super) fn milliseconds() -> i64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Random bits of the system.
pub(super) fn random_bits() -> Result<u64, Refusal> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| Refusal::Denied(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}
