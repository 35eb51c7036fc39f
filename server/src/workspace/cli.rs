//! `touchstone-server sakura …`: the workspace tools on files, for people and scripts.
//!
//! Exit codes: 0 nothing wrong, 1 something is, 2 the command line or a file cannot be used.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde_json::{Value, json};
use touchstone_language::analysis::{Analyzer, Checked};
use touchstone_language::codes;
use touchstone_language::delta::{Frozen, delta, frozen_breaches};
use touchstone_language::diagnostic::{Diagnostic, Severity};
use touchstone_language::env::Env;
use touchstone_language::format::format;
use touchstone_language::snapshot::Snapshot;
use touchstone_language::testing::TestOptions;

use super::{folder, tools};

/// The first argument of the server that makes it this program.
pub const SUBCOMMAND: &str = "sakura";

const FOUND: u8 = 1;
const UNUSABLE: u8 = 2;

/// Checks, formats, tests and explains Sakura code.
#[derive(Debug, Parser)]
#[command(name = "touchstone-server sakura", max_term_width = 90)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tell what is wrong.
    Check {
        /// Files, or one folder; the current folder without any.
        paths: Vec<PathBuf>,
        /// The folder that module paths count from.
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Refuse changes of the specification of these symbols (or `all`) against --base.
        #[arg(long, value_name = "SYMBOLS", requires = "base")]
        frozen_specs: Option<String>,
        /// The folder as it was before.
        #[arg(long, value_name = "DIR")]
        base: Option<PathBuf>,
    },
    /// Lay files out canonically, in place.
    Format {
        /// Files, or one folder; the current folder without any.
        paths: Vec<PathBuf>,
        /// Change nothing; fail when a file is not canonical.
        #[arg(long)]
        check: bool,
    },
    /// Run tests and properties.
    Test {
        /// Files, or one folder; the current folder without any.
        paths: Vec<PathBuf>,
        /// The folder that module paths count from.
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
        /// Only tests of this name, file, or `path#name`; may be given again.
        #[arg(long, value_name = "SELECTOR")]
        only: Vec<String>,
        /// What made-up values follow from.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say what a diagnostic's code means.
    Explain {
        /// Like V3001.
        code: String,
    },
}

/// Runs the program with the arguments that follow [`SUBCOMMAND`].
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments =
        match Arguments::try_parse_from([OsString::from(SUBCOMMAND)].into_iter().chain(args)) {
            Ok(arguments) => arguments,
            Err(error) => {
                let _ = error.print();
                return ExitCode::from(if error.use_stderr() { UNUSABLE } else { 0 });
            }
        };
    let done = match arguments.command {
        Command::Check {
            paths,
            root,
            json,
            frozen_specs,
            base,
        } => check(
            &paths,
            root.as_deref(),
            json,
            frozen_specs.as_deref().zip(base.as_deref()),
        ),
        Command::Format { paths, check } => format_files(&paths, check),
        Command::Test {
            paths,
            root,
            only,
            seed,
            json,
        } => test(&paths, root.as_deref(), &only, seed, json),
        Command::Explain { code } => explain(&code),
    };
    match done {
        Ok(fine) => ExitCode::from(if fine { 0 } else { FOUND }),
        Err(message) => {
            eprintln!("touchstone-server: {message}");
            ExitCode::from(UNUSABLE)
        }
    }
}

/// Prints; a reader who has gone away is no reason to fail.
fn say(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

/// What was asked for: the snapshot around it, and the files that are meant (None: all).
struct Input {
    snapshot: Snapshot,
    wanted: Option<BTreeSet<String>>,
}

fn input(paths: &[PathBuf], root: Option<&Path>) -> Result<Input, String> {
    match (paths, root) {
        ([], root) => Ok(Input {
            snapshot: folder::load(root.unwrap_or(Path::new(".")))?,
            wanted: None,
        }),
        ([one], None) if one.is_dir() => Ok(Input {
            snapshot: folder::load(one)?,
            wanted: None,
        }),
        (files, root) => {
            let root = root.unwrap_or(Path::new("."));
            let mut wanted = BTreeSet::new();
            let mut texts = match root {
                // Without a root the files stand for themselves, wherever they lie.
                _ if files
                    .iter()
                    .any(|file| file.is_absolute() || file.starts_with("..")) =>
                {
                    Vec::new()
                }
                root => folder::load(root)?
                    .files()
                    .iter()
                    .map(|(p, t)| (p.to_string(), t.to_string()))
                    .collect(),
            };
            let whole = !texts.is_empty();
            for file in files {
                let text = folder::read(file)?;
                let path = match whole {
                    true => folder::relative(root, file)?,
                    false => file
                        .file_name()
                        .and_then(|n| n.to_str())
                        .unwrap_or_default()
                        .to_owned(),
                };
                texts.retain(|(other, _)| *other != path);
                texts.push((path.clone(), text));
                wanted.insert(path);
            }
            Ok(Input {
                snapshot: Snapshot::new(texts)?,
                wanted: Some(wanted),
            })
        }
    }
}

fn checked(input: &Input) -> (Env, Checked) {
    let mut analyzer = Analyzer::new();
    let env = analyzer.env(&input.snapshot);
    let checked = analyzer.check(&env, input.wanted.as_ref(), &|| false);
    (env, checked)
}

fn check(
    paths: &[PathBuf],
    root: Option<&Path>,
    as_json: bool,
    frozen: Option<(&str, &Path)>,
) -> Result<bool, String> {
    let input = input(paths, root)?;
    let (env, mut checked) = checked(&input);
    if let Some((symbols, base)) = frozen {
        let base = folder::load(base)?;
        let old = Analyzer::new().env(&base);
        checked.diagnostics.extend(frozen_breaches(
            &Frozen::parse(symbols),
            &old,
            &env,
            &delta(&old, &env),
        ));
    }
    if as_json {
        let mut out = tools::checked_json(&checked);
        out["snapshot"] = json!(&**input.snapshot.id());
        say(&format!("{out}\n"));
    } else {
        for diagnostic in &checked.diagnostics {
            say(&shown(diagnostic, &input.snapshot));
        }
        for hole in &checked.holes {
            let at = hole.range.start;
            let found = &hole.report.holes[hole.index];
            let expected = touchstone_language::types::Solution::new().show(&found.expected);
            say(&format!(
                "hole: ?{} is a `{expected}`\n  --> {}:{}:{}\n",
                found.name.text, hole.path, at.line, at.column
            ));
        }
        let errors = checked
            .diagnostics
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .count();
        let warnings = checked.diagnostics.len() - errors;
        say(&format!(
            "{errors} errors, {warnings} warnings, {} holes, {} obligations\n",
            checked.holes.len(),
            checked.obligations.len()
        ));
    }
    Ok(!checked.has_errors())
}

/// A diagnostic with the lines it is about.
fn shown(diagnostic: &Diagnostic, snapshot: &Snapshot) -> String {
    let at = diagnostic.range.start;
    let mut out = format!(
        "{}[{}]: {}\n  --> {}:{}:{}\n",
        diagnostic.severity.text(),
        diagnostic.code,
        diagnostic.message,
        diagnostic.path,
        at.line,
        at.column
    );
    let line = snapshot
        .text(&diagnostic.path)
        .and_then(|text| text.lines().nth(at.line as usize - 1));
    if let Some(line) = line {
        let margin = at.line.to_string().len();
        let end = match diagnostic.range.end.line == at.line {
            true => diagnostic.range.end.column,
            false => line.chars().count() as u32 + 1,
        };
        let width = end.saturating_sub(at.column).max(1) as usize;
        // Tabs stay tabs, so that the marks stand under what they mark.
        let lead: String = line
            .chars()
            .take(at.column as usize - 1)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        out.push_str(&format!(
            "{0:margin$} |\n{1} | {line}\n{0:margin$} | {lead}{2}\n",
            "",
            at.line,
            "^".repeat(width)
        ));
    }
    for related in &diagnostic.related {
        let at = related.range.start;
        out.push_str(&format!(
            "  note: {} ({}:{}:{})\n",
            related.message, related.path, at.line, at.column
        ));
    }
    for fix in &diagnostic.fixes {
        out.push_str(&format!("  fix: {}\n", fix.title));
    }
    out
}

fn format_files(paths: &[PathBuf], only_check: bool) -> Result<bool, String> {
    let mut files = Vec::new();
    let folders: Vec<PathBuf> = if paths.is_empty() {
        vec![PathBuf::from(".")]
    } else {
        paths.to_vec()
    };
    for path in folders {
        if path.is_dir() {
            files.extend(
                folder::load(&path)?
                    .files()
                    .keys()
                    .map(|file| path.join(&**file)),
            );
        } else {
            files.push(path);
        }
    }
    let mut fine = true;
    for file in files {
        let text = folder::read(&file)?;
        let snapshot = Snapshot::new([("main.sakura".to_owned(), text.clone())])?;
        let env = Analyzer::new().env(&snapshot);
        let formatted = env
            .modules
            .by_name
            .get("main")
            .and_then(|module| format(module));
        match formatted {
            None => {
                say(&format!(
                    "{}: left as it is, it has syntax errors\n",
                    file.display()
                ));
                fine = false;
            }
            Some(new) if new == text => {}
            Some(_) if only_check => {
                say(&format!("{}: not canonical\n", file.display()));
                fine = false;
            }
            Some(new) => {
                std::fs::write(&file, new)
                    .map_err(|error| format!("{}: {error}", file.display()))?;
                say(&format!("{}: formatted\n", file.display()));
            }
        }
    }
    Ok(fine)
}

fn test(
    paths: &[PathBuf],
    root: Option<&Path>,
    only: &[String],
    seed: u64,
    as_json: bool,
) -> Result<bool, String> {
    let input = input(paths, root)?;
    let mut analyzer = Analyzer::new();
    let env = analyzer.env(&input.snapshot);
    let all = analyzer.check(&env, None, &|| false);
    let mut selectors: Vec<String> = only.to_vec();
    if let (Some(wanted), true) = (&input.wanted, selectors.is_empty()) {
        selectors.extend(wanted.iter().cloned());
    }
    let selected = (!selectors.is_empty()).then_some(selectors.as_slice());
    let options = TestOptions {
        seed,
        ..TestOptions::default()
    };
    let results = tools::run_tests(&env, &all, selected, options, &|| false);
    if as_json {
        say(&format!(
            "{}\n",
            json!({"snapshot": &**input.snapshot.id(), "seed": seed, "results": results})
        ));
    } else {
        results.iter().for_each(|result| say(&result_line(result)));
        let passed = results.iter().filter(|r| r["status"] == "passed").count();
        say(&format!(
            "{passed} of {} passed, seed {seed}\n",
            results.len()
        ));
    }
    Ok(results.iter().all(|r| r["status"] == "passed"))
}

fn result_line(result: &Value) -> String {
    let word = |name: &str| result[name].as_str().unwrap_or("").to_owned();
    let mut out = format!("{:6} {}: {}\n", word("status"), word("path"), word("name"));
    if result["message"].is_string() {
        out.push_str(&format!("       {}\n", word("message")));
    }
    if let Some(values) = result["counterexample"].as_object() {
        for (name, value) in values {
            out.push_str(&format!(
                "       {name} = {}\n",
                value.as_str().unwrap_or("")
            ));
        }
    }
    out
}

fn explain(code: &str) -> Result<bool, String> {
    let page = codes::find(code)
        .ok_or_else(|| format!("there is no code {code}; codes are like V3001"))?;
    say(&page.text());
    Ok(true)
}
