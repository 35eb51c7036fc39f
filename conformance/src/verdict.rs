//! What the suite says of a server: verdicts with their evidence, and the report that holds them.

use serde::{Deserialize, Serialize};

/// The judgement of one requirement in one revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// The rule was tested and holds.
    #[serde(rename = "pass")]
    Pass,
    /// A stated MUST, or the schema, is broken.
    #[serde(rename = "fail")]
    Fail,
    /// A SHOULD, a derived or a contested rule is broken.
    #[serde(rename = "warn")]
    Warn,
    /// The capability, tool or revision is not claimed.
    #[serde(rename = "n/a")]
    NotApplicable,
    /// Another failure stands in the way; it is named.
    #[serde(rename = "blocked")]
    Blocked,
    /// The suite could not judge. Never counted as a pass.
    #[serde(rename = "error")]
    Error,
}

/// One line of an exchange, as evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Milliseconds since the process was started.
    pub at_ms: u64,
    /// Who wrote it.
    pub from: From,
    /// The line as it stood, without its newline, shortened in the middle if very long; bytes
    /// that are no UTF-8 are shown as `\xNN`.
    pub text: String,
}

/// Who wrote a line, or what happened between lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum From {
    /// `-->`
    Client,
    /// `<--`
    Server,
    /// Something that happened: end of output, exit, silence.
    Event,
}

/// What a verdict rests on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The lines that matter, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub exchange: Vec<Line>,
    /// The last lines of stderr, when they matter.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub stderr: Vec<String>,
    /// JSON Pointer to the place, for faults of shape.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pointer: Option<String>,
    /// What should stand there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected: Option<String>,
    /// What stands there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub found: Option<String>,
    /// Where the lines stand in the log they are from; only the run itself uses it.
    #[serde(skip)]
    pub at: Vec<usize>,
}

/// The judgement of one requirement by one check in one revision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Judgement {
    /// The requirement's id.
    pub requirement: String,
    /// The check's id: the requirement's own, or `name` of a transcript or profile check.
    pub check: String,
    /// The revision's date; absent for what holds before a revision is chosen.
    pub revision: Option<String>,
    /// `MUST`, `SHOULD NOT`, … as the text has it.
    pub level: String,
    /// The verdict.
    pub verdict: Verdict,
    /// One sentence: what was seen. Empty for a plain pass.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub message: String,
    /// Things worth telling that are no breach.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
    /// For `blocked`: the requirement whose failure stands in the way.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub blocked_by: Option<String>,
    /// What it rests on.
    #[serde(skip_serializing_if = "Evidence::is_empty", default)]
    pub evidence: Evidence,
    /// A transcript that reproduces a breach, for `--save`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub transcript: Option<String>,
}

impl Evidence {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self == &Evidence::default()
    }
}

/// What was judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// `serverInfo` as the server gave it, if it did.
    pub server_info: Option<serde_json::Value>,
    /// The revisions that the server claims and that were judged, oldest first.
    pub revisions: Vec<String>,
    /// Versions that the server named and the suite does not know.
    pub unknown_revisions: Vec<String>,
    /// Profiles that were run.
    pub profiles: Vec<String>,
    /// Profiles that the server looks like but that were not asked for.
    pub looks_like: Vec<String>,
    /// Tools that were not called, since nothing allowed it.
    pub uncalled_tools: Vec<String>,
    /// The seed of generated traffic, if there was any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seed: Option<u64>,
    /// Remarks on the run as a whole (started in the user's folder after all, …).
    pub remarks: Vec<String>,
}

/// The whole result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What was judged.
    pub target: Target,
    /// Every judgement, in the order of the catalogue, revisions oldest first.
    pub judgements: Vec<Judgement>,
    /// Whole run, seconds.
    pub seconds: f64,
    /// Processes of the server that were started.
    pub processes: usize,
    /// Why the run could not go on at all, if so (exit code 3).
    pub fatal: Option<Fatal>,
}

/// Why nothing, or nothing more, could be judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fatal {
    /// What happened, in a sentence or two, with what to do.
    pub message: String,
    /// What it rests on.
    pub evidence: Evidence,
    /// Whether the program ended by itself.
    #[serde(skip)]
    pub ended: bool,
}

impl Report {
    /// A report on that command in which nothing was judged yet.
    pub fn empty(command: &[String]) -> Report {
        Report {
            target: Target {
                command: command.to_vec(),
                server_info: None,
                revisions: Vec::new(),
                unknown_revisions: Vec::new(),
                profiles: Vec::new(),
                looks_like: Vec::new(),
                uncalled_tools: Vec::new(),
                seed: None,
                remarks: Vec::new(),
            },
            judgements: Vec::new(),
            seconds: 0.0,
            processes: 0,
            fatal: None,
        }
    }
}

impl Verdict {
    /// Every verdict, in the order of tables.
    pub const ALL: [Verdict; 6] = [
        Verdict::Pass,
        Verdict::Fail,
        Verdict::Warn,
        Verdict::NotApplicable,
        Verdict::Blocked,
        Verdict::Error,
    ];

    /// The verdict's name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Warn => "warn",
            Verdict::NotApplicable => "n/a",
            Verdict::Blocked => "blocked",
            Verdict::Error => "error",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
