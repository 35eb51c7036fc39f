//! Runs `touchstone check` for its JSON report, and reads the part that the tasks need.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::workspace::{self, SUITE};

/// What a report says, as far as the tasks use it.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    pub(crate) target: Target,
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) summary: Summary,
    /// Why nothing could be judged.
    pub(crate) fatal: Option<Fatal>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Fatal {
    pub(crate) message: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) revisions: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) requirement: String,
    pub(crate) check: String,
    pub(crate) revision: Option<String>,
    pub(crate) verdict: String,
    #[serde(default)]
    pub(crate) message: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Summary {
    /// Processes of the server that the suite started.
    pub(crate) processes: usize,
}

/// One finished run of the suite.
pub(crate) struct Run {
    pub(crate) code: u8,
    pub(crate) report: Report,
    pub(crate) wall: Duration,
}

/// A server to judge: its command line and what it finds in its environment.
pub(crate) struct Subject<'a> {
    pub(crate) command: &'a [String],
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) cwd: Option<&'a Path>,
    /// Its home, and where temporary files go.
    pub(crate) home: &'a Path,
}

/// Judges `subject` and leaves the JSON report in `file`.
///
/// The server sees `PATH`, a home of its own and what its entry names, and nothing else of our
/// environment: a public server has no business with the tokens that may lie there.
///
/// # Errors
/// When the suite cannot be started, or ends without a report that can be read.
pub(crate) fn check(subject: &Subject<'_>, file: &Path) -> Result<Run, String> {
    // A report of an earlier run must never be taken for one of this run.
    let _ = fs::remove_file(file);
    let mut command = Command::new(workspace::program(SUITE));
    command.arg("check");
    if let Some(cwd) = subject.cwd {
        command.arg("--cwd").arg(cwd);
    }
    command.arg("--report").arg(report_argument(file));
    command.arg("--").args(subject.command);
    command.env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("LANG", "C.UTF-8").env("HOME", subject.home);
    command.env("TMPDIR", std::env::temp_dir());
    command.envs(subject.env);
    command.stdin(Stdio::null()).stdout(Stdio::null());

    let start = Instant::now();
    let output = command
        .output()
        .map_err(|error| format!("cannot start touchstone: {error}"))?;
    let wall = start.elapsed();
    let report = read(file).map_err(|error| {
        format!(
            "touchstone ended with {} and {error} {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        )
    })?;
    Ok(Run {
        code: workspace::code(output.status),
        report,
        wall,
    })
}

fn report_argument(file: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from("json=");
    argument.push(file);
    argument
}

fn read(file: &Path) -> Result<Report, String> {
    let text = fs::read_to_string(file)
        .map_err(|error| format!("left no report in {}: {error}", file.display()))?;
    serde_json::from_str(&text)
        .map_err(|error| format!("its report {} is not readable: {error}", file.display()))
}

/// A folder for reports, made if need be.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn reports(folder: &Path) -> Result<PathBuf, String> {
    let reports = folder.join("reports");
    fs::create_dir_all(&reports)
        .map_err(|error| format!("cannot make {}: {error}", reports.display()))?;
    Ok(reports)
}
