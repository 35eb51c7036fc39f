//! What the suite is expected to say of a server: every verdict that is not `pass` or `n/a`.
//!
//! Each of them was read against the raw lines and the text before it was stored; the reasons are
//! in `docs/interop.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::set;
use crate::suite::{Report, Run};

/// Rule, then revision, then verdict.
type Verdicts = BTreeMap<String, BTreeMap<String, String>>;

/// What was said of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outcome {
    /// The server's version.
    pub(crate) version: String,
    /// The suite's exit code.
    pub(crate) exit: u8,
    /// The revisions that the server claims.
    pub(crate) revisions: Vec<String>,
    /// By rule and revision (`-` before one is chosen), worst verdict where a rule has several checks.
    pub(crate) verdicts: Verdicts,
}

/// Where the expectation of a server is stored.
pub(crate) fn file(server: &str) -> PathBuf {
    set::fixtures()
        .join("expected")
        .join(format!("{server}.json"))
}

/// Worse verdicts rank higher.
fn rank(verdict: &str) -> usize {
    const ORDER: [&str; 4] = ["blocked", "warn", "error", "fail"];
    ORDER
        .iter()
        .position(|known| *known == verdict)
        .unwrap_or(ORDER.len())
}

/// Of a rule with several checks each has a line of its own.
fn rule(requirement: &str, check: &str) -> String {
    if check == requirement {
        requirement.to_owned()
    } else {
        format!("{requirement} ({check})")
    }
}

impl Outcome {
    /// What a run of the suite said, apart from these rules.
    pub(crate) fn of(version: &str, run: &Run, unsteady: &[String]) -> Outcome {
        let mut verdicts = Verdicts::new();
        for verdict in &run.report.verdicts {
            let quiet = matches!(verdict.verdict.as_str(), "pass" | "n/a");
            if quiet || unsteady.contains(&verdict.requirement) {
                continue;
            }
            let revision = verdict.revision.as_deref().unwrap_or("-").to_owned();
            let worst = verdicts
                .entry(rule(&verdict.requirement, &verdict.check))
                .or_default()
                .entry(revision)
                .or_default();
            if worst.is_empty() || rank(&verdict.verdict) > rank(worst) {
                worst.clone_from(&verdict.verdict);
            }
        }
        Outcome {
            version: version.to_owned(),
            exit: run.code,
            revisions: run.report.target.revisions.clone(),
            verdicts,
        }
    }

    /// Reads an expectation; `None` when none is stored.
    ///
    /// # Errors
    /// When the file cannot be read or is not an expectation.
    pub(crate) fn read(file: &Path) -> Result<Option<Outcome>, String> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| format!("{} is no expectation: {error}", file.display()))
    }

    /// Stores an expectation.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&self, file: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)
                .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        }
        fs::write(file, text + "\n")
            .map_err(|error| format!("cannot write {}: {error}", file.display()))
    }

    /// What is not as expected, in the order of the rules. `report` gives the reasons.
    pub(crate) fn differences(&self, expected: &Outcome, report: &Report) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, expected: String, found: String| {
            if expected != found {
                differences.push(Difference {
                    what: what.to_owned(),
                    expected,
                    found,
                    message: String::new(),
                });
            }
        };
        compare("version", expected.version.clone(), self.version.clone());
        compare(
            "exit code",
            expected.exit.to_string(),
            self.exit.to_string(),
        );
        compare(
            "revisions",
            expected.revisions.join(" "),
            self.revisions.join(" "),
        );

        let (before, now) = (flat(&expected.verdicts), flat(&self.verdicts));
        let keys: std::collections::BTreeSet<_> = before.keys().chain(now.keys()).collect();
        for key in keys {
            let (expected, found) = (before.get(key), now.get(key));
            if expected == found {
                continue;
            }
            let (rule, revision) = key;
            let quiet = || "pass or n/a".to_owned();
            differences.push(Difference {
                what: format!("{rule} {revision}"),
                expected: expected.map_or_else(quiet, |verdict| (*verdict).to_owned()),
                found: found.map_or_else(quiet, |verdict| (*verdict).to_owned()),
                message: message(report, rule, revision),
            });
        }
        differences
    }
}

/// Verdicts by rule and revision.
fn flat(verdicts: &Verdicts) -> BTreeMap<(&str, &str), &str> {
    verdicts
        .iter()
        .flat_map(|(rule, revisions)| {
            revisions
                .iter()
                .map(|(revision, verdict)| ((rule.as_str(), revision.as_str()), verdict.as_str()))
        })
        .collect()
}

/// The reason that the report gives for a verdict.
fn message(report: &Report, searched: &str, revision: &str) -> String {
    report
        .verdicts
        .iter()
        .filter(|verdict| verdict.revision.as_deref().unwrap_or("-") == revision)
        .find(|verdict| rule(&verdict.requirement, &verdict.check) == searched)
        .map(|verdict| verdict.message.clone())
        .unwrap_or_default()
}

/// One thing that is not as expected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    what: String,
    expected: String,
    found: String,
    message: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            what,
            expected,
            found,
            message,
        } = self;
        write!(out, "{what}: expected {expected}, found {found}")?;
        match message.as_str() {
            "" => Ok(()),
            message => write!(out, ": {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    /// A run that judged one revision; each verdict is `(requirement, check, verdict)`.
    fn run(verdicts: &[(&str, &str, &str)]) -> Run {
        let verdicts: Vec<_> = verdicts
            .iter()
            .map(|(requirement, check, verdict)| {
                json!({"requirement": requirement, "check": check, "revision": "2025-06-18",
                       "level": "MUST", "verdict": verdict, "message": format!("saw {verdict}")})
            })
            .collect();
        let report = json!({"schema": 1, "target": {"revisions": ["2025-06-18"]},
                            "verdicts": verdicts, "summary": {"processes": 3}});
        Run {
            code: 1,
            report: serde_json::from_value(report).unwrap(),
            wall: Duration::ZERO,
        }
    }

    fn differences(before: &Run, now: &Run) -> Vec<String> {
        Outcome::of("1", now, &[])
            .differences(&Outcome::of("1", before, &[]), &now.report)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn pass_and_not_applicable_are_not_stored() {
        let outcome = Outcome::of("1", &run(&[("a", "a", "pass"), ("b", "b", "n/a")]), &[]);
        assert_eq!(outcome.verdicts, Verdicts::new());
    }

    #[test]
    fn what_depends_on_a_race_is_left_out() {
        let run = run(&[("a", "a", "fail"), ("b", "b", "warn")]);
        let outcome = Outcome::of("1", &run, &["a".to_owned()]);
        assert_eq!(outcome.verdicts.keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn the_worst_verdict_of_one_check_stands() {
        for order in [["warn", "fail"], ["fail", "warn"]] {
            let outcome = Outcome::of(
                "1",
                &run(&[("a", "a", order[0]), ("a", "a", order[1])]),
                &[],
            );
            assert_eq!(outcome.verdicts["a"]["2025-06-18"], "fail");
        }
    }

    #[test]
    fn equal_verdicts_do_not_differ() {
        let run = run(&[("a", "a", "fail"), ("a", "other", "warn")]);
        assert_eq!(differences(&run, &run), Vec::<String>::new());
    }

    #[test]
    fn a_new_verdict_is_told_with_its_reason() {
        let before = run(&[("a", "a", "pass")]);
        let now = run(&[("a", "a", "fail")]);
        assert_eq!(
            differences(&before, &now),
            ["a 2025-06-18: expected pass or n/a, found fail: saw fail"]
        );
    }

    #[test]
    fn a_verdict_that_went_away_is_told() {
        let before = run(&[("a", "a", "warn")]);
        let now = run(&[("a", "a", "pass")]);
        assert_eq!(
            differences(&before, &now),
            ["a 2025-06-18: expected warn, found pass or n/a: saw pass"]
        );
    }

    #[test]
    fn another_check_of_the_same_rule_is_another_line() {
        let before = run(&[("a", "first", "warn")]);
        let now = run(&[("a", "second", "warn")]);
        assert_eq!(differences(&before, &now).len(), 2);
    }

    #[test]
    fn what_is_written_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/one.json");
        let outcome = Outcome::of("1", &run(&[("a", "a", "fail")]), &[]);
        assert_eq!(Outcome::read(&file), Ok(None));
        outcome.write(&file).unwrap();
        assert_eq!(Outcome::read(&file), Ok(Some(outcome)));
    }

    #[test]
    fn every_stored_expectation_belongs_to_a_server_of_the_set() {
        let names: Vec<_> = set::pinned().unwrap().into_iter().map(|s| s.name).collect();
        let folder = set::fixtures().join("expected");
        let files = fs::read_dir(folder).into_iter().flatten();
        for file in files.map(Result::unwrap) {
            let name = file.path().file_stem().unwrap().to_owned();
            let name = name.to_string_lossy().into_owned();
            assert!(names.contains(&name), "{name} is in no set");
            Outcome::read(&file.path()).unwrap();
        }
    }
}
