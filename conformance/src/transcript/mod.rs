//! The transcript language: parse, send, match, rewrite. The page for users is
//! `docs/transcripts.md`.

mod parse;
mod pattern;
mod play;
mod record;
mod template;
#[cfg(test)]
mod tests;
mod update;

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::spec::Span;
use crate::spec::requirement::Breach;
use pattern::Pattern;
use template::Template;

pub use parse::parse;
pub use play::{Failure, Outcome, Player, play};
pub use record::{Header, record};
pub use update::update;

/// One scripted exchange.
#[derive(Debug, Clone)]
pub struct Transcript {
    /// The file it came from, for messages.
    pub name: String,
    /// The requirements that it checks (`@check a b`), in the order of their first mention.
    pub checks: Vec<String>,
    /// The revisions that it is for (`@revision`); default all.
    pub span: Span,
    /// The leading comment: what it shows.
    pub about: String,
    /// What a breach counts as, if it is to count otherwise than its requirement says (`@level`).
    pub breach: Option<Breach>,
    /// What else to tell when it fails (`@note`).
    pub notes: Vec<String>,
    /// Whether the rules that it names are to be put to the test again (`@rejudge`): the exchange
    /// alone does not tell.
    pub rejudge: bool,
    /// Whether what it names is that the server lives on (`@survive`): one that ends, or answers no
    /// more, breaks that rule, and not the one on valid traffic.
    pub survive: bool,
    /// The text it was read from.
    pub source: String,
    requires: Vec<Requires>,
    /// `@session fresh`, or something in it needs a process of its own.
    fresh: bool,
    handshake: bool,
    /// Variables that are fresh ids.
    ids: Vec<String>,
    steps: Vec<Step>,
}

/// What the server must claim for the transcript to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requires {
    /// `not`: must not claim.
    not: bool,
    /// A tool's name, otherwise the path of a capability: `resources.subscribe`.
    tool: bool,
    name: String,
}

/// One step of the exchange.
#[derive(Debug, Clone)]
struct Step {
    /// The first and the last line in the source, from 1.
    lines: (usize, usize),
    action: Action,
}

#[derive(Debug, Clone)]
enum Action {
    Send {
        line: Template,
        newline: bool,
        chunks: Option<usize>,
    },
    SendHex {
        bytes: Vec<u8>,
        chunks: Option<usize>,
    },
    /// One message that fits one of the patterns; none: any message.
    Expect(Vec<Pattern>),
    Silence(Duration),
    Wait(Duration),
    Restart {
        kill: bool,
    },
    CloseStdin,
    Exit {
        /// `None`: any.
        code: Option<i32>,
        within: Duration,
    },
    Args(Vec<Template>),
    Env(String, Option<Template>),
    File {
        path: String,
        body: String,
    },
    Allow(Allow),
    Forbid(Pattern),
    Declare(Map<String, Value>),
    /// A request from the server is answered so; no method: none is answered.
    Answer(Option<(String, Template)>),
    Timeout(Duration),
    /// What follows counts against these requirements.
    Check(Vec<String>),
}

/// What the server may send although no line expects it.
#[derive(Debug, Clone)]
enum Allow {
    /// Not even notifications.
    Nothing,
    /// Anything at all.
    Anything,
    /// Lines that are no JSON.
    Text,
    /// Error responses without the id of a request.
    Errors,
    /// Requests.
    Requests,
    /// Notifications of this method.
    Method(String),
    /// Messages that fit.
    Fits(Pattern),
}

impl Transcript {
    /// Whether it needs a process of its own.
    pub fn fresh(&self) -> bool {
        self.fresh
    }

    /// The requirements that a failure at this line of the source counts against: those of the
    /// last `@check` above it.
    pub fn blamed(&self, line: usize) -> &[String] {
        let above = self.steps.iter().rev().filter(|step| step.lines.0 <= line);
        let mut checks = above.filter_map(|step| match &step.action {
            Action::Check(ids) => Some(ids.as_slice()),
            _ => None,
        });
        checks.next().unwrap_or(&self.checks)
    }

    /// Why it does not apply to a server with these capabilities and tools, if so.
    pub fn missing(&self, capabilities: &Map<String, Value>, tools: &[String]) -> Option<String> {
        self.requires.iter().find_map(|r| {
            let (kind, has) = match r.tool {
                true => ("tool", tools.contains(&r.name)),
                false => ("capability", claims(capabilities, &r.name)),
            };
            match (has, r.not) {
                (false, false) => Some(format!("the server has no {kind} `{}`", r.name)),
                (true, true) => Some(format!("the server has the {kind} `{}`", r.name)),
                _ => None,
            }
        })
    }
}

/// Whether a capability is claimed: there, and neither null nor false.
fn claims(capabilities: &Map<String, Value>, path: &str) -> bool {
    let mut steps = path.split('.');
    let first = steps.next().and_then(|name| capabilities.get(name));
    let found = steps.fold(first, |value, name| value?.get(name));
    found.is_some_and(|value| !value.is_null() && value != &Value::Bool(false))
}

/// What is wrong in a transcript, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong and what to do.
    pub message: String,
    /// The line as it stands.
    pub source: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = (self.line, self.column);
        writeln!(f, "{}:{line}:{column}: {}", self.file, self.message)?;
        // A window of the line around the column, for long lines.
        let from = column.saturating_sub(60);
        let part = |c: char| if c.is_control() { ' ' } else { c };
        let shown: String = self.source.chars().skip(from).take(100).map(part).collect();
        let margin = line.to_string().len();
        writeln!(f, "  {line} | {shown}")?;
        write!(f, "  {:margin$} | {:>2$}", "", "^", column - from)
    }
}

impl std::error::Error for ParseError {}

/// The text, cut if it is longer than that many bytes.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

/// Prints it in a plain form that reads back the same, without comments inside.
impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.about.lines() {
            writeln!(f, "{}", format!("# {line}").trim_end())?;
        }
        if self.span != Span::ALL {
            writeln!(f, "@revision {}", self.span)?;
        }
        for Requires { not, tool, name } in &self.requires {
            let not = if *not { "not " } else { "" };
            let kind = if *tool { "tool" } else { "capability" };
            writeln!(f, "@requires {not}{kind} {name}")?;
        }
        if let Some(breach) = self.breach {
            writeln!(f, "@level {}", parse::level(breach))?;
        }
        for note in &self.notes {
            writeln!(f, "@note {note}")?;
        }
        if self.rejudge {
            writeln!(f, "@rejudge")?;
        }
        if self.survive {
            writeln!(f, "@survive")?;
        }
        if self.fresh {
            writeln!(f, "@session fresh")?;
        }
        if !self.handshake {
            writeln!(f, "@handshake none")?;
        }
        for step in &self.steps {
            writeln!(f, "{}", step.action)?;
        }
        Ok(())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunked = |f: &mut fmt::Formatter<'_>, chunks: &Option<usize>| match chunks {
            Some(size) => writeln!(f, "@chunks {size}"),
            None => Ok(()),
        };
        match self {
            Action::Send {
                line,
                newline,
                chunks,
            } => {
                chunked(f, chunks)?;
                if !newline {
                    writeln!(f, "@no-newline")?;
                }
                write!(f, "--> {line}")
            }
            Action::SendHex { bytes, chunks } => {
                chunked(f, chunks)?;
                f.write_str("-->hex")?;
                bytes.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
            }
            Action::Expect(patterns) => {
                f.write_str("<--")?;
                for (number, pattern) in patterns.iter().enumerate() {
                    let mark = if number == 0 { "" } else { "\n<or" };
                    write!(f, "{mark} {pattern}")?;
                }
                Ok(())
            }
            Action::Silence(time) => write!(f, "@silence {}ms", time.as_millis()),
            Action::Wait(time) => write!(f, "@wait {}ms", time.as_millis()),
            Action::Restart { kill: false } => f.write_str("@restart"),
            Action::Restart { kill: true } => f.write_str("@restart kill"),
            Action::CloseStdin => f.write_str("@close-stdin"),
            Action::Exit { code, within } => {
                let code = code.map_or("any".into(), |code| code.to_string());
                write!(f, "@exit {code} within {}ms", within.as_millis())
            }
            Action::Args(args) => {
                f.write_str("@args")?;
                args.iter().try_for_each(|arg| {
                    let arg = arg.to_string().replace('\\', "\\\\").replace('"', "\\\"");
                    write!(f, " \"{arg}\"")
                })
            }
            Action::Env(name, Some(value)) => write!(f, "@env {name}={value}"),
            Action::Env(name, None) => write!(f, "@unset {name}"),
            Action::File { path, body } => {
                write!(f, "@file {path}")?;
                body.lines().try_for_each(|line| write!(f, "\n| {line}"))
            }
            Action::Allow(allow) => write!(f, "@allow {allow}"),
            Action::Forbid(pattern) => write!(f, "@forbid {pattern}"),
            Action::Declare(capabilities) => {
                write!(f, "@declare {}", Value::Object(capabilities.clone()))
            }
            Action::Answer(None) => f.write_str("@answer none"),
            Action::Answer(Some((method, result))) => write!(f, "@answer {method} {result}"),
            Action::Timeout(time) => write!(f, "@timeout {}ms", time.as_millis()),
            Action::Check(ids) => write!(f, "@check {}", ids.join(" ")),
        }
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allow::Nothing => f.write_str("nothing"),
            Allow::Anything => f.write_str("anything"),
            Allow::Text => f.write_str("text"),
            Allow::Errors => f.write_str("errors"),
            Allow::Requests => f.write_str("requests"),
            Allow::Method(method) => f.write_str(method),
            Allow::Fits(pattern) => write!(f, "{pattern}"),
        }
    }
}
