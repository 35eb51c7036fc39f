//! Gathers what checks say of each requirement in one revision, and settles the verdicts.

use std::collections::BTreeMap;

use crate::spec::requirement::{self, Breach, Requirement};
use crate::spec::{Level, Revision};
use crate::verdict::{Evidence, Judgement, Verdict};

/// How many breaches of one rule are kept as they are told.
const MOST_BREACHES: usize = 8;

/// What was said of one requirement so far.
#[derive(Debug, Clone, Default)]
struct Entry {
    check: String,
    holds: bool,
    /// The first breaches; of a flood only so many are kept.
    broken: Vec<Broken>,
    /// How many there were.
    seen: usize,
    notes: Vec<String>,
    error: Option<String>,
    blocked: Option<String>,
    not_applicable: Option<String>,
}

/// A breach of a requirement.
#[derive(Debug, Clone)]
pub(super) struct Broken {
    /// What was seen, in a sentence.
    pub message: String,
    /// What it rests on.
    pub evidence: Evidence,
    /// What it counts as.
    pub breach: Breach,
    /// A transcript that reproduces it.
    pub transcript: Option<String>,
    check: String,
}

/// The judge of one revision. Requirements that do not bind in its revision are passed over, so a
/// check may name all the requirements of its subject whatever the revision.
#[derive(Debug, Clone)]
pub struct Judge {
    revision: Revision,
    check: String,
    entries: BTreeMap<&'static str, Entry>,
}

impl Judge {
    /// A judge that has heard nothing.
    pub fn new(revision: Revision) -> Self {
        Self {
            revision,
            check: String::new(),
            entries: BTreeMap::new(),
        }
    }

    /// The revision it judges.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Names the check whose findings follow.
    pub fn enter(&mut self, check: &str) {
        check.clone_into(&mut self.check);
    }

    fn entry(&mut self, id: &str) -> Option<(&'static Requirement, &mut Entry)> {
        let found = requirement::get(id);
        debug_assert!(found.is_some(), "no such requirement: {id}");
        let requirement = found?;
        if !requirement.span.contains(self.revision) {
            return None;
        }
        let entry = self.entries.entry(&requirement.id).or_default();
        if entry.check.is_empty() {
            entry.check.clone_from(&self.check);
        }
        Some((requirement, entry))
    }

    /// The rule was put to the test and held.
    pub fn holds(&mut self, id: &str) {
        if let Some((_, entry)) = self.entry(id) {
            entry.holds = true;
        }
    }

    /// Worth telling, no breach.
    pub fn note(&mut self, id: &str, note: impl Into<String>) {
        if let Some((_, entry)) = self.entry(id) {
            let note = note.into();
            entry.holds = true;
            if !entry.notes.contains(&note) {
                entry.notes.push(note);
            }
        }
    }

    /// Worth telling though the rule was not put to the test.
    pub fn note_only(&mut self, id: &str, note: impl Into<String>) {
        if let Some((_, entry)) = self.entry(id) {
            entry.notes.push(note.into());
        }
    }

    /// The rule is broken; the catalogue says what that counts as.
    pub fn broken(&mut self, id: &str, message: impl Into<String>, evidence: Evidence) {
        let Some(breach) = requirement::get(id).map(|r| r.breach) else {
            return;
        };
        self.broken_as(id, breach, message, evidence);
    }

    /// The rule is broken, and here it counts as `breach` whatever the catalogue says of the rule.
    pub fn broken_as(
        &mut self,
        id: &str,
        breach: Breach,
        message: impl Into<String>,
        evidence: Evidence,
    ) {
        let message = message.into();
        if breach == Breach::Note {
            self.note(id, message);
            return;
        }
        let check = self.check.clone();
        if let Some((_, entry)) = self.entry(id) {
            entry.seen += 1;
            let first_failure =
                breach == Breach::Fail && entry.broken.iter().all(|b| b.breach != Breach::Fail);
            if entry.broken.len() >= MOST_BREACHES && !first_failure {
                return;
            }
            entry.broken.push(Broken {
                message,
                evidence,
                breach,
                transcript: None,
                check,
            });
        }
    }

    /// The last breach told of that rule gets the transcript that reproduces it.
    pub fn attach_transcript(&mut self, id: &str, text: String) {
        if let Some((_, entry)) = self.entry(id)
            && let Some(last) = entry.broken.last_mut()
        {
            last.transcript = Some(text);
        }
    }

    /// Breaches told that have no transcript yet get what this makes of their evidence.
    pub fn transcribe(&mut self, make: impl Fn(&str, &Evidence) -> String) {
        for (id, entry) in &mut self.entries {
            for broken in &mut entry.broken {
                if broken.transcript.is_none() {
                    broken.transcript = Some(make(id, &broken.evidence));
                }
            }
        }
    }

    /// What the rule speaks of is not there.
    pub fn not_applicable(&mut self, id: &str, why: impl Into<String>) {
        if let Some((_, entry)) = self.entry(id) {
            entry.not_applicable.get_or_insert(why.into());
        }
    }

    /// The failure of another rule stands in the way.
    pub fn blocked(&mut self, id: &str, by: &str) {
        if let Some((_, entry)) = self.entry(id) {
            entry.blocked.get_or_insert(by.to_owned());
        }
    }

    /// The suite could not judge.
    pub fn error(&mut self, id: &str, why: impl Into<String>) {
        if let Some((_, entry)) = self.entry(id) {
            entry.error.get_or_insert(why.into());
        }
    }

    /// Whether anything at all was said of the rule.
    pub fn heard_of(&self, id: &str) -> bool {
        self.entries.contains_key(id)
    }

    /// Whether a breach of the rule was told.
    pub fn is_broken(&self, id: &str) -> bool {
        self.entries.get(id).is_some_and(|e| !e.broken.is_empty())
    }

    /// What the worst breach of the rule that was told counts as.
    pub fn worst(&self, id: &str) -> Option<Breach> {
        let broken = &self.entries.get(id)?.broken;
        let worst = broken.iter().min_by_key(|b| b.breach != Breach::Fail);
        worst.map(|broken| broken.breach)
    }

    /// The first breach of the rule that was told: what it counts as, and what was seen.
    pub fn first_breach(&self, id: &str) -> Option<(Breach, String)> {
        let first = self.entries.get(id)?.broken.first()?;
        Some((first.breach, first.message.clone()))
    }

    /// The rules of which a breach was told.
    pub fn broken_ids(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.entries
            .iter()
            .filter(|(_, entry)| !entry.broken.is_empty())
            .map(|(id, _)| *id)
    }

    /// Takes over all that another judge of the same revision heard.
    pub fn merge(&mut self, other: Judge) {
        for (id, theirs) in other.entries {
            let ours = self.entries.entry(id).or_default();
            if ours.check.is_empty() || (ours.broken.is_empty() && !theirs.broken.is_empty()) {
                ours.check = theirs.check;
            }
            ours.holds |= theirs.holds;
            ours.broken.extend(theirs.broken);
            ours.seen += theirs.seen;
            for note in theirs.notes {
                if !ours.notes.contains(&note) {
                    ours.notes.push(note);
                }
            }
            ours.error = ours.error.take().or(theirs.error);
            ours.blocked = ours.blocked.take().or(theirs.blocked);
            ours.not_applicable = ours.not_applicable.take().or(theirs.not_applicable);
        }
    }

    /// One judgement for each rule in `wanted` that binds in the revision, in that order. A rule
    /// of which nothing was said had no occasion: not applicable, never a pass.
    pub fn settle<'a>(mut self, wanted: impl Iterator<Item = &'a Requirement>) -> Vec<Judgement> {
        let revision = self.revision;
        wanted
            .filter(|requirement| requirement.span.contains(revision))
            .map(|requirement| {
                let entry = self.entries.remove(requirement.id.as_str());
                settle_one(requirement, revision, entry)
            })
            .collect()
    }
}

fn settle_one(requirement: &Requirement, revision: Revision, entry: Option<Entry>) -> Judgement {
    let mut judgement = Judgement {
        requirement: requirement.id.clone(),
        check: requirement.id.clone(),
        revision: Some(revision.to_string()),
        level: level_name(requirement.level).to_owned(),
        verdict: Verdict::Error,
        message: String::new(),
        notes: Vec::new(),
        blocked_by: None,
        evidence: Evidence::default(),
        transcript: None,
    };
    // A rule of which nothing was said had no occasion.
    let entry = entry.unwrap_or_default();
    if !entry.check.is_empty() {
        judgement.check = entry.check;
    }
    judgement.notes = entry.notes;
    let total = entry.seen;
    // A failure weighs more than a warning, else the first one told counts.
    let worst = entry
        .broken
        .into_iter()
        .min_by_key(|broken| broken.breach != Breach::Fail);
    if let Some(broken) = worst {
        judgement.check = broken.check;
        judgement.verdict = match broken.breach {
            Breach::Fail => Verdict::Fail,
            Breach::Warn | Breach::Note => Verdict::Warn,
        };
        judgement.message = broken.message;
        if total > 1 {
            judgement
                .notes
                .push(format!("Seen {total} times; the first one is shown."));
        }
        judgement.evidence = broken.evidence;
        judgement.transcript = broken.transcript;
    } else if let Some(why) = entry.error {
        judgement.message = why;
    } else if entry.holds {
        judgement.verdict = Verdict::Pass;
    } else if let Some(by) = entry.blocked {
        judgement.verdict = Verdict::Blocked;
        judgement.message = format!("Not judged: `{by}` stands in the way.");
        judgement.blocked_by = Some(by);
    } else {
        judgement.verdict = Verdict::NotApplicable;
        judgement.message = entry
            .not_applicable
            .unwrap_or_else(|| NO_OCCASION.to_owned());
    }
    judgement
}

/// Said of a rule of which nothing was heard.
pub(super) const NO_OCCASION: &str = "The server gave no occasion for it.";

/// The keyword as the text has it.
pub fn level_name(level: Level) -> &'static str {
    match level {
        Level::Must => "MUST",
        Level::MustNot => "MUST NOT",
        Level::Should => "SHOULD",
        Level::ShouldNot => "SHOULD NOT",
        Level::May => "MAY",
    }
}
