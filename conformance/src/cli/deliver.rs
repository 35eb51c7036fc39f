//! Where the report goes: for the reader, as documents, as transcripts of breaches.

use std::fs;
use std::io::{stderr, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::interrupt::{Outcome, watch};
use super::progress::Bar;
use super::{Problem, print, print_error, width};
use crate::report::output::{Format, Request, Sink};
use crate::report::{Again, Context, exit_code, json, junit, terminal, text};
use crate::spec;
use crate::verdict::{Report, Verdict};

/// Where the report goes.
#[derive(Debug, clap::Args)]
pub(super) struct Delivery {
    /// Count a warning as a failure
    #[arg(long, help_heading = "The report")]
    strict: bool,

    /// Also write a report (repeatable): FORMAT is json or junit, PATH `-` is standard output,
    /// which then holds that document alone
    #[arg(long, value_name = "FORMAT=PATH", value_parser = Request::parse, help_heading = "The report")]
    report: Vec<Request>,

    /// Write a transcript of each breach into this folder, for `touchstone replay`
    #[arg(long, value_name = "DIR", help_heading = "The report")]
    save: Option<PathBuf>,

    /// Also show notes, what is blocked or not applicable and why, and whole exchanges
    #[arg(long, short, help_heading = "The report")]
    verbose: bool,
}

impl Delivery {
    /// Does the work, with a line that tells how far it is, tells of it, and gives the exit code.
    pub(super) fn run(
        &self,
        again: &Again,
        work: impl FnOnce(&Bar) -> Report + Send + 'static,
    ) -> Result<u8, Problem> {
        let sinks = open_sinks(&self.report)?;
        if let Some(folder) = &self.save {
            fs::create_dir_all(folder)
                .map_err(|e| Problem(format!("cannot save into `{}`: {e}", folder.display())))?;
        }
        let bar = Arc::new(Bar::new());
        let (report, interrupted) = match watch(&bar, work)? {
            Outcome::Done(report) => (report, None),
            Outcome::Interrupted(Some(mut report), code) if !report.judgements.is_empty() => {
                let remark = "The run was interrupted: this is what was judged until then.";
                report.target.remarks.push(remark.into());
                report.fatal = None;
                (report, Some(code))
            }
            Outcome::Interrupted(_, code) => {
                print_error("interrupted; nothing was judged until then\n")?;
                return Ok(code);
            }
        };
        deliver(&report, again, self.strict, self.verbose, sinks)?;
        if let Some(folder) = &self.save {
            let saved = save(&report, folder)?;
            let number = text::count(saved, "transcript", "transcripts");
            print_error(&format!("{number} saved in {}\n", folder.display()))?;
        }
        Ok(interrupted.unwrap_or_else(|| exit_code(&report, self.strict)))
    }
}

/// Prints the report for the reader and writes the documents. The reader's report goes to
/// standard error when a document has standard output.
pub(super) fn deliver(
    report: &Report,
    again: &Again,
    strict: bool,
    verbose: bool,
    sinks: Vec<Sink>,
) -> Result<(), Problem> {
    let context = Context {
        rules: &spec::requirement::get,
        strict,
        again,
    };
    let to_stderr = sinks.iter().any(Sink::is_stdout);
    let width = if to_stderr {
        width(stderr())
    } else {
        width(stdout())
    };
    let page = terminal::render(report, &context, terminal::Layout { width, verbose });
    let printed = if to_stderr {
        print_error(&page)
    } else {
        print(&page)
    };
    // A reader who is gone must not cost the documents.
    for sink in sinks {
        let document = match sink.format {
            Format::Json => json::render(report, &context).map_err(|e| e.to_string()),
            Format::Junit => junit::render(report, &context).map_err(|e| e.to_string()),
        };
        let document = document.map_err(|e| format!("cannot render the report: {e}"))?;
        sink.write(&document, &mut stdout())?;
    }
    Ok(printed?)
}

/// Finds every place for a report writable, before the run.
fn open_sinks(requests: &[Request]) -> Result<Vec<Sink>, Problem> {
    let to_stdout = requests.iter().filter(|r| r.path.is_none()).count();
    if to_stdout > 1 {
        return Err(Problem(
            "only one report can go to standard output (`-`)".into(),
        ));
    }
    for (at, request) in requests.iter().enumerate() {
        if let Some(path) = &request.path
            && requests[..at].iter().any(|r| r.path.as_ref() == Some(path))
        {
            let path = path.display();
            return Err(Problem(format!(
                "two reports cannot go to the same file, `{path}`"
            )));
        }
    }
    let sinks: Result<Vec<Sink>, String> = requests.iter().map(Sink::open).collect();
    Ok(sinks?)
}

/// Writes the transcript of each breach into the folder. Gives their number.
fn save(report: &Report, folder: &Path) -> Result<usize, Problem> {
    let mut names: Vec<String> = Vec::new();
    for j in &report.judgements {
        let (Verdict::Fail | Verdict::Warn, Some(transcript)) = (j.verdict, &j.transcript) else {
            continue;
        };
        let stem = match &j.revision {
            Some(revision) => file_name(&format!("{}.{revision}", j.requirement)),
            None => file_name(&j.requirement),
        };
        let mut name = format!("{stem}.txt");
        for number in 2.. {
            if !names.contains(&name) {
                break;
            }
            name = format!("{stem}-{number}.txt");
        }
        let path = folder.join(&name);
        fs::write(&path, transcript)
            .map_err(|e| Problem(format!("cannot save `{}`: {e}", path.display())))?;
        names.push(name);
    }
    Ok(names.len())
}

/// The text with everything that does not belong into a file name replaced.
fn file_name(text: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = text
        .chars()
        .map(|c| if keep(c) { c } else { '_' })
        .collect();
    name.trim_start_matches('.').chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn transcripts_of_breaches_are_saved_under_safe_names() {
        let folder = tempfile::tempdir().unwrap();
        let breach = |id: &str, verdict| {
            let mut j = samples::judgement(id, Some("2025-06-18"), verdict);
            j.transcript = Some(format!("# {id}\n"));
            j
        };
        let report = samples::report(vec![
            breach("tools.a", Verdict::Fail),
            breach("tools.a", Verdict::Fail),
            breach("../../etc/x", Verdict::Warn),
            breach("tools.b", Verdict::Pass),
        ]);
        assert_eq!(save(&report, folder.path()).unwrap(), 3);
        let mut found: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert_eq!(
            found,
            [
                "_.._etc_x.2025-06-18.txt",
                "tools.a.2025-06-18-2.txt",
                "tools.a.2025-06-18.txt"
            ]
        );
    }
}
