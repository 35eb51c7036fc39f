//! A server of the workspace contract, started with the flags of the contract, and its calls.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::process::Process;
use super::Profile;
use crate::checks::exchange::shorten;
use crate::client::Reply;
use crate::run::Options;
use crate::verdict::Evidence;

/// A program that never ends may take its whole budget.
pub(super) const CALL: Duration = Duration::from_secs(120);

/// Flags of the user's own that are left out: what they name is not to be touched, or not there.
const OURS: [&str; 3] = ["--workspace", "--frozen-specs", "--export-tools"];
const WRITES: &str = "--write-back";

/// What a process is started with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Host<'a> {
    /// `--workspace`
    pub folder: Option<&'a Path>,
    /// `--frozen-specs`
    pub frozen: Option<&'a str>,
    /// `--write-back`
    pub write_back: bool,
    /// `--tools`: functions to export.
    pub tools: Option<&'a str>,
}

impl Host<'_> {
    fn flags(&self) -> Vec<OsString> {
        let mut flags: Vec<OsString> = Vec::new();
        if let Some(folder) = self.folder {
            flags.extend(["--workspace".into(), folder.into()]);
        }
        for (flag, value) in [("--frozen-specs", self.frozen), ("--tools", self.tools)] {
            if let Some(value) = value {
                flags.extend([flag.into(), value.into()]);
            }
        }
        if self.write_back {
            flags.push(WRITES.into());
        }
        flags
    }
}

/// The user's arguments without the flags that a check gives itself, or must not give.
fn without_ours(args: &[OsString]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy();
        let name = text.split_once('=').map_or(&*text, |(name, _)| name);
        if OURS.contains(&name) {
            if name == text {
                args.next();
            }
        } else if text != WRITES {
            kept.push(arg.clone());
        }
    }
    kept
}

/// One process.
pub(super) struct Server {
    process: Process,
    /// A call was not answered.
    silent: bool,
    /// How long a request may take, as the user said.
    request: Duration,
}

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    /// A result: its structured content, or its first text as JSON.
    Result(Value),
    /// A result with `isError`, and the same of it.
    ToolError(Value),
    /// A JSON-RPC error with this code.
    Refused(Option<i64>),
    /// No answer.
    Nothing(String),
}

impl Said {
    /// What was said, in a few words.
    pub(super) fn describe(&self) -> String {
        match self {
            Said::Result(value) => format!("the result {}", shorten(&value.to_string(), 200)),
            Said::ToolError(value) => {
                format!("the tool error {}", shorten(&value.to_string(), 200))
            }
            Said::Refused(code) => match code {
                Some(code) => format!("the JSON-RPC error {code}"),
                None => "a JSON-RPC error without a code".to_owned(),
            },
            Said::Nothing(why) => why.clone(),
        }
    }

    /// The content of a result, with `isError` or without.
    pub(super) fn content(&self) -> Option<&Value> {
        match self {
            Said::Result(value) | Said::ToolError(value) => Some(value),
            _ => None,
        }
    }
}

impl Server {
    /// Starts a process. The error says what went wrong.
    pub(super) fn start(profile: &Profile<'_>, host: Host<'_>) -> Result<Server, String> {
        let options = profile.options;
        let mut launch = options.launch.clone();
        launch.args = without_ours(&launch.args);
        let flags = host.flags();
        launch.args.extend(flags.iter().cloned());
        let shown: Vec<_> = flags.iter().map(|flag| flag.to_string_lossy()).collect();
        let how = format!("`{}`", shown.join(" "));
        let process = Process::start(options, &launch, profile.revision, &how, profile.processes)?;
        Ok(Server {
            process,
            silent: false,
            request: options.limits.request,
        })
    }

    /// Calls a tool.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Said {
        let mut said = self.call_all(&[(tool, arguments.clone())]);
        said.pop()
            .unwrap_or_else(|| Said::Nothing(format!("`{tool}` was not called")))
    }

    /// Calls tools at once: all requests are written before an answer is read.
    pub(super) fn call_all(&mut self, calls: &[(&str, Value)]) -> Vec<Said> {
        let ids: Vec<Value> = calls
            .iter()
            .map(|(tool, arguments)| self.process.post(tool, arguments))
            .collect();
        // A process that left a call unanswered is not waited for so long again.
        let patience = match self.silent {
            true => self.request,
            false => CALL,
        };
        let until = Instant::now() + patience;
        let answers = ids.iter().zip(calls);
        answers
            .map(
                |(id, (tool, _))| match self.process.client.reply(id, until) {
                    Reply::Result { result, .. } => read(&result),
                    Reply::Error { error, .. } => {
                        Said::Refused(error.get("code").and_then(Value::as_i64))
                    }
                    Reply::Silence => {
                        self.silent = true;
                        Said::Nothing(format!("`{tool}` was not answered"))
                    }
                    Reply::Gone => Said::Nothing(format!("the server ended during `{tool}`")),
                },
            )
            .collect()
    }

    /// A call that other rules rest on.
    pub(super) fn good(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        match self.call(tool, arguments) {
            Said::Result(value) => Ok(value),
            other => Err(format!("`{tool}` gave {}", other.describe())),
        }
    }

    /// The id of the head.
    pub(super) fn head(&mut self) -> Result<String, String> {
        let info = self.good("compiler_info", &json!({}))?;
        snapshot_of(&info, "compiler_info")
    }

    /// Makes a patch of these edits: what `check_patch` says.
    pub(super) fn try_patch(&mut self, snapshot: &str, edits: &Value) -> Result<Value, String> {
        self.good(
            "check_patch",
            &json!({"snapshot": snapshot, "edits": edits}),
        )
    }

    /// Applies a patch that `check_patch` or `format` made.
    pub(super) fn apply_patch(&mut self, snapshot: &str, patch: &Value) -> Said {
        let id = patch.get("patch_id").cloned().unwrap_or_default();
        self.call(
            "apply_patch",
            &json!({"snapshot": snapshot, "patch_id": id}),
        )
    }

    /// The snapshot that these edits lead to.
    pub(super) fn edited(&mut self, snapshot: &str, edits: &Value) -> Result<String, String> {
        let patch = self.try_patch(snapshot, edits)?;
        match self.apply_patch(snapshot, &patch) {
            Said::Result(value) => snapshot_of(&value, "apply_patch"),
            other => Err(format!("`apply_patch` gave {}", other.describe())),
        }
    }

    /// The snapshot with one more file.
    pub(super) fn with_file(
        &mut self,
        snapshot: &str,
        path: &str,
        text: &str,
    ) -> Result<String, String> {
        self.edited(snapshot, &json!([{"path": path, "text": text}]))
    }

    /// Every tool that is listed, by name.
    pub(super) fn tools(&mut self) -> BTreeMap<String, Value> {
        let tools = self.process.tools().into_iter();
        tools
            .filter_map(|tool| Some((tool.get("name")?.as_str()?.to_owned(), tool)))
            .collect()
    }

    /// The exchange of the last call.
    pub(super) fn evidence(&self) -> Evidence {
        self.process.evidence()
    }

    /// Ends the process.
    pub(super) fn stop(self, options: &Options) {
        self.process.stop(options);
    }
}

/// The id of the snapshot in a result.
pub(super) fn snapshot_of(result: &Value, tool: &str) -> Result<String, String> {
    let id = result.get("snapshot").and_then(Value::as_str);
    id.map(str::to_owned)
        .ok_or_else(|| format!("the result of `{tool}` has no `snapshot`"))
}

fn read(result: &Value) -> Said {
    let text = || {
        let text = result.pointer("/content/0/text").and_then(Value::as_str)?;
        serde_json::from_str(text).ok()
    };
    let structured = result.get("structuredContent").cloned();
    let content = structured.or_else(text).unwrap_or(Value::Null);
    match result.get("isError") {
        Some(Value::Bool(true)) => Said::ToolError(content),
        _ => Said::Result(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_folder_is_never_handed_on() {
        let args: Vec<OsString> = [
            "--tools",
            "workspace",
            "--workspace",
            "mine",
            "--write-back",
            "--frozen-specs=all",
            "--workspace=mine",
            "--page-size",
            "2",
        ]
        .map(OsString::from)
        .to_vec();
        assert_eq!(
            without_ours(&args),
            ["--tools", "workspace", "--page-size", "2"]
        );
    }

    #[test]
    fn a_result_is_read_from_either_form() {
        let structured = json!({"structuredContent": {"a": 1}, "content": []});
        assert_eq!(read(&structured), Said::Result(json!({"a": 1})));
        let text =
            json!({"content": [{"type": "text", "text": "{\"error\": {}}"}], "isError": true});
        assert_eq!(read(&text), Said::ToolError(json!({"error": {}})));
    }
}
