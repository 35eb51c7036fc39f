//! A server of the memory contract: its configuration, its start, and its calls.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::edn::{self, Edn};
use crate::checks::exchange::shorten;
use crate::client::Reply;
use crate::profiles::process::Process;
use crate::run::Options;
use crate::wire::Launch;

/// Flags of the contract's settings. Those of the user's own command are left out: the checks
/// write to memories that they made, and to no other.
const FLAGS: [&str; 3] = ["--memory", "--memory-path", "--session"];
/// Variables with the same meaning.
const VARIABLES: [&str; 3] = [
    "TOUCHSTONE_MEMORY_CONFIG",
    "TOUCHSTONE_MEMORY_PATH",
    "TOUCHSTONE_MEMORY_SESSION",
];
/// Stands for the configuration file in the arguments of a hint.
const CONFIG: &str = "{config}";

/// The server's command without any memory settings.
pub(super) fn bare(options: &Options) -> Launch {
    let mut launch = options.launch.clone();
    launch.args = without_settings(&launch.args);
    launch
        .env
        .extend(VARIABLES.map(|name| (OsString::from(name), None)));
    launch
}

fn without_settings(args: &[OsString]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy();
        let name = text.split_once('=').map_or(&*text, |(name, _)| name);
        if FLAGS.contains(&name) {
            if !text.contains('=') {
                args.next();
            }
        } else if !text.ends_with(".edn") {
            kept.push(arg.clone());
        }
    }
    kept
}

/// The command for this memory file and session: the configuration file stands last, or where a
/// hint says.
pub(super) fn configured(
    options: &Options,
    folder: &Path,
    memory: &Path,
    session: &str,
) -> Result<Launch, String> {
    let config = folder.join(format!("{session}.edn"));
    let text = Edn::Map(vec![
        (
            keyword("conn"),
            Edn::Map(vec![
                (keyword("storage"), keyword("file")),
                (keyword("path"), Edn::Str(memory.display().to_string())),
            ]),
        ),
        (keyword("session"), Edn::Str(session.to_owned())),
    ]);
    std::fs::write(&config, text.to_string())
        .map_err(|error| format!("{}: {error}", config.display()))?;
    let mut launch = bare(options);
    launch
        .args
        .extend(arguments(&options.hints.memory, &config));
    Ok(launch)
}

fn arguments(hint: &[String], config: &Path) -> Vec<OsString> {
    let config = config.display().to_string();
    match hint {
        [] => vec![config.into()],
        hint => hint
            .iter()
            .map(|argument| argument.replace(CONFIG, &config).into())
            .collect(),
    }
}

fn keyword(name: &str) -> Edn {
    Edn::Keyword(name.to_owned())
}

/// One process with a memory.
pub(super) struct Server {
    pub(super) process: Process,
    /// The file of its memory.
    pub(super) memory: PathBuf,
}

/// What a call gave.
#[derive(Debug)]
pub(super) enum Said {
    Answer(Answer),
    /// A result whose first text is not one form, and why.
    Unreadable(String),
    /// A result with `isError`, and its text.
    ToolError(String),
    /// A JSON-RPC error, as text.
    Refused(String),
    /// No answer, or one that is no result of a tool.
    Nothing(String),
}

/// A result.
#[derive(Debug)]
pub(super) struct Answer {
    /// What the first text block holds.
    pub form: Edn,
    /// That text.
    pub text: String,
    /// What stands beside it.
    pub beside: Value,
}

impl Server {
    /// Calls a tool.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Said {
        let patience = self.process.client.limits().request;
        let reply = self.process.call(tool, arguments, patience);
        said(tool, reply)
    }
}

/// Reads a reply to a call.
pub(super) fn said(tool: &str, reply: Reply) -> Said {
    match reply {
        Reply::Result { result, .. } => answer(&result),
        Reply::Error { error, .. } => Said::Refused(error.to_string()),
        Reply::Silence => Said::Nothing(format!("`{tool}` was not answered")),
        Reply::Gone => Said::Nothing(format!("the server ended during `{tool}`")),
    }
}

fn answer(result: &Value) -> Said {
    let content = result.get("content").and_then(Value::as_array);
    let is_text = |block: &&Value| block.get("type") == Some(&json!("text"));
    let blocks = content.map_or(&[][..], Vec::as_slice);
    let Some(at) = blocks.iter().position(|block| is_text(&block)) else {
        return Said::Unreadable("the result has no text block".to_owned());
    };
    let text = blocks[at].get("text").and_then(Value::as_str);
    let text = text.unwrap_or_default().to_owned();
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Said::ToolError(text);
    }
    match edn::read(&text) {
        Ok(form) => Said::Answer(Answer {
            form,
            text,
            beside: json!([
                blocks.get(at + 1..),
                result.get("structuredContent"),
                result.get("_meta")
            ]),
        }),
        Err(why) => Said::Unreadable(format!("{why}; it begins {:?}", shorten(&text, 120))),
    }
}

impl Said {
    /// What it is, in a few words.
    pub(super) fn describe(&self) -> String {
        match self {
            Said::Answer(answer) => format!("the answer {}", shorten(&answer.text, 160)),
            Said::Unreadable(why) => format!("a text that is not EDN ({why})"),
            Said::ToolError(text) => format!("the error {}", shorten(text, 240)),
            Said::Refused(error) => format!("the JSON-RPC error {}", shorten(error, 240)),
            Said::Nothing(why) => why.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn the_users_own_memory_is_left_out_of_the_command() {
        let given = words(&[
            "--tools",
            "memory",
            "--memory",
            "mine.edn",
            "--memory-path=mine.db",
            "--session",
            "mine",
            "other.edn",
            "--cajeta=c",
        ]);
        assert_eq!(
            without_settings(&given),
            words(&["--tools", "memory", "--cajeta=c"])
        );
    }

    #[test]
    fn the_configuration_stands_last_or_where_the_hint_says() {
        let config = Path::new("/x/a.edn");
        assert_eq!(arguments(&[], config), words(&["/x/a.edn"]));
        let hint = ["--config={config}".to_owned(), "--quiet".to_owned()];
        assert_eq!(
            arguments(&hint, config),
            words(&["--config=/x/a.edn", "--quiet"])
        );
    }

    #[test]
    fn only_what_stands_beside_the_first_text_is_beside_it() {
        let whole = json!({"content": [{"type": "text", "text": "[1]"}]});
        let cut = json!({"content": [{"type": "text", "text": "[1]"}, {"type": "text", "text": "{:cut true}"}]});
        let (Said::Answer(whole), Said::Answer(cut)) = (answer(&whole), answer(&cut)) else {
            panic!("answers");
        };
        assert!(whole.form.same(&cut.form));
        assert_ne!(whole.beside, cut.beside);
    }

    #[test]
    fn a_text_that_is_no_edn_is_told_with_its_place() {
        let result = json!({"content": [{"type": "text", "text": "[#<Object>]"}]});
        assert!(answer(&result).describe().contains("character"));
        let error = json!({"isError": true, "content": [{"type": "text", "text": "no"}]});
        assert!(matches!(answer(&error), Said::ToolError(_)));
    }
}
