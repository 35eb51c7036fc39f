//! Reports: one file per format. They render what was judged and judge nothing themselves.

pub mod json;
pub mod junit;
pub mod output;
pub mod terminal;
pub(crate) mod text;

use std::collections::HashMap;

use crate::spec::Requirement;
use crate::verdict::{Judgement, Report, Verdict};

/// The program's name and version, as reports give them.
pub const SUITE: (&str, &str) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));

/// What a report needs besides what was judged.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Finds a rule by its id. Ids of the user's own transcripts and of profiles may have none.
    pub rules: &'a dyn Fn(&str) -> Option<&'static Requirement>,
    /// Whether a `warn` counts as a failure.
    pub strict: bool,
    /// The command that judges something again.
    pub again: &'a Again,
}

/// The command that judges something again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Again {
    /// `touchstone check --only ID --revision R FLAGS -- COMMAND`
    Check {
        /// The flags of this run that matter to the outcome.
        flags: Vec<String>,
    },
    /// `touchstone replay FILE --revision R FLAGS -- COMMAND`
    Replay {
        /// The flags of this run that matter to the outcome.
        flags: Vec<String>,
    },
}

impl Again {
    /// The words of the command for this judgement.
    pub fn words(&self, judgement: &Judgement, command: &[String]) -> Vec<String> {
        let mut words = vec![SUITE.0.to_owned()];
        let flags = match self {
            Again::Check { flags } => {
                words.extend([
                    "check".into(),
                    "--only".into(),
                    judgement.requirement.clone(),
                ]);
                flags
            }
            Again::Replay { flags } => {
                words.extend(["replay".into(), judgement.check.clone()]);
                flags
            }
        };
        if let Some(revision) = &judgement.revision {
            words.extend(["--revision".into(), revision.clone()]);
        }
        words.extend(flags.iter().cloned());
        words.push("--".into());
        words.extend(command.iter().cloned());
        words
    }
}

/// How many verdicts there are of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts([usize; Verdict::ALL.len()]);

impl Counts {
    /// Counts the verdicts of these judgements.
    pub fn of<'a>(judgements: impl IntoIterator<Item = &'a Judgement>) -> Counts {
        let mut counts = Counts::default();
        for judgement in judgements {
            counts.add(judgement.verdict);
        }
        counts
    }

    /// Counts one more.
    pub fn add(&mut self, verdict: Verdict) {
        self.0[verdict as usize] += 1;
    }

    /// The number of that verdict.
    pub fn get(&self, verdict: Verdict) -> usize {
        self.0[verdict as usize]
    }

    /// The number of all.
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }
}

/// The exit code that a report stands for: 0 all judged and no fail; 1 fail (with `strict` also
/// warn); 3 the server could not be started or spoken to; 4 nothing was judged, or no rule fails
/// but of some the suite cannot say whether they hold. What a warning blocks is no reason for 4.
pub fn exit_code(report: &Report, strict: bool) -> u8 {
    let counts = Counts::of(&report.judgements);
    let has = |verdict| counts.get(verdict) > 0;
    if report.fatal.is_some() {
        3
    } else if has(Verdict::Fail) || (strict && has(Verdict::Warn)) {
        1
    } else if has(Verdict::Error) || !(has(Verdict::Pass) || has(Verdict::Warn)) {
        4
    } else {
        0
    }
}

/// The name and the version in `serverInfo`, where they are strings.
fn server_name(report: &Report) -> (Option<&str>, Option<&str>) {
    let member = |name| report.target.server_info.as_ref()?.get(name)?.as_str();
    (member("name"), member("version"))
}

/// The area of a requirement: what stands before the first dot.
fn area(requirement: &str) -> &str {
    requirement.split('.').next().unwrap_or(requirement)
}

/// For each blocked judgement (by its place in the report) the requirement at the root: what
/// blocks it, or what blocks that, in the same revision.
fn roots(judgements: &[Judgement]) -> HashMap<usize, &str> {
    let blocked: HashMap<(&str, Option<&str>), &str> = judgements
        .iter()
        .filter(|j| j.verdict == Verdict::Blocked)
        .filter_map(|j| {
            Some((
                (j.requirement.as_str(), j.revision.as_deref()),
                j.blocked_by.as_deref()?,
            ))
        })
        .collect();
    let root = |j: &Judgement| -> Option<&str> {
        let mut by = blocked.get(&(j.requirement.as_str(), j.revision.as_deref()))?;
        // A circle would be a fault of the runner; it must not hang the report.
        for _ in 0..judgements.len() {
            match blocked.get(&(*by, j.revision.as_deref())) {
                Some(next) => by = next,
                None => break,
            }
        }
        Some(*by)
    };
    judgements
        .iter()
        .enumerate()
        .filter(|(_, j)| j.verdict == Verdict::Blocked)
        .filter_map(|(at, j)| Some((at, root(j)?)))
        .collect()
}

#[cfg(test)]
pub(crate) mod samples;

#[cfg(test)]
mod tests {
    use super::samples::*;
    use super::*;
    use crate::verdict::{Evidence, Fatal};

    fn code(verdicts: &[Verdict], strict: bool) -> u8 {
        let judgements = verdicts
            .iter()
            .map(|v| judgement("a.b", None, *v))
            .collect();
        exit_code(&report(judgements), strict)
    }

    #[test]
    fn exit_codes_are_those_of_the_manual() {
        use Verdict::*;
        assert_eq!(code(&[Pass, NotApplicable, Warn], false), 0);
        assert_eq!(code(&[Pass, NotApplicable, Warn], true), 1);
        assert_eq!(code(&[Pass, Fail, Blocked, Error], false), 1);
        assert_eq!(code(&[Pass, Error], false), 4, "an error is no pass");
        assert_eq!(code(&[Pass, Warn, Blocked], false), 0);
        assert_eq!(code(&[Blocked], false), 4);
        assert_eq!(code(&[NotApplicable], false), 4, "nothing was judged");
        assert_eq!(code(&[], false), 4);
        let mut dead = report(vec![judgement("a.b", None, Fail)]);
        dead.fatal = Some(Fatal {
            message: "gone".into(),
            evidence: Evidence::default(),
            ended: false,
        });
        assert_eq!(exit_code(&dead, false), 3);
    }

    #[test]
    fn the_root_of_a_chain_is_found_and_a_circle_ends() {
        let blocked = |id: &str, by: &str| Judgement {
            blocked_by: Some(by.into()),
            ..judgement(id, Some("2025-06-18"), Verdict::Blocked)
        };
        let chain = [
            judgement("a", Some("2025-06-18"), Verdict::Fail),
            blocked("b", "a"),
            blocked("c", "b"),
        ];
        assert_eq!(roots(&chain), HashMap::from([(1, "a"), (2, "a")]));
        assert_eq!(roots(&[blocked("a", "b"), blocked("b", "a")]).len(), 2);
    }
}
