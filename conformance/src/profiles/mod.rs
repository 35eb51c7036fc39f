//! The contracts of tool families: detect, launch, judge.
//!
//! A profile calls tools that run code or write, so it runs only when it is asked for.

mod memory;
mod process;
mod toolchain;
mod workspace;

use std::sync::atomic::AtomicUsize;

use tempfile::TempDir;

use crate::checks::Facts;
use crate::run::{Judge, Options, ProfileChoice};
use crate::spec::{Era, Revision, requirement};
use crate::verdict::{Judgement, Report};

/// A contract that a server may hold.
struct Profile {
    name: &'static str,
    /// The tools that a server of this kind has.
    tools: &'static [&'static str],
    judge: fn(&Options, &Report, &AtomicUsize) -> Result<Vec<Judgement>, String>,
}

const PROFILES: &[Profile] = &[
    Profile {
        name: "toolchain",
        tools: &toolchain::TOOLS,
        judge: toolchain::judge,
    },
    Profile {
        name: "memory",
        tools: &memory::TOOLS,
        judge: memory::judge,
    },
    Profile {
        name: "workspace",
        tools: &workspace::TOOLS,
        judge: workspace::judge,
    },
];

/// The names of all profiles.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|profile| profile.name)
}

/// Runs the profiles that were asked for, and tells which ones the server looks like.
pub fn judge(options: &Options, facts: &[Facts], report: &mut Report, processes: &AtomicUsize) {
    for profile in PROFILES {
        let has = |name: &&str| {
            facts.iter().any(|facts| {
                facts
                    .items("tools/list")
                    .iter()
                    .any(|tool| tool.get("name").and_then(|n| n.as_str()) == Some(*name))
            })
        };
        let looks_like = profile.tools.iter().all(has);
        let asked = match &options.profiles {
            ProfileChoice::None => false,
            ProfileChoice::Auto => looks_like,
            ProfileChoice::Named(names) => names.iter().any(|name| name == profile.name),
        };
        if !asked {
            if looks_like {
                report.target.looks_like.push(profile.name.to_owned());
            }
            continue;
        }
        report.target.profiles.push(profile.name.to_owned());
        match (profile.judge)(options, report, processes) {
            Ok(judgements) => report.judgements.extend(judgements),
            Err(why) => report.judgements.extend(unjudged(profile.name, &why)),
        }
    }
}

/// Every rule of a profile that could not be judged at all.
fn unjudged(area: &str, why: &str) -> Vec<Judgement> {
    let mut judge = Judge::new(crate::spec::Span::ALL.last);
    judge.enter(area);
    for rule in rules(area) {
        judge.error(&rule.id, why);
    }
    without_revision(judge.settle(rules(area)))
}

fn rules(area: &str) -> impl Iterator<Item = &'static requirement::Requirement> {
    requirement::catalogue()
        .iter()
        .filter(move |rule| rule.area == area)
}

/// A contract holds whatever revision is spoken.
fn without_revision(mut judgements: Vec<Judgement>) -> Vec<Judgement> {
    for judgement in &mut judgements {
        judgement.revision = None;
    }
    judgements
}

/// The newest revision with a handshake that the server claims; one without, if it has no other.
fn newest_with_handshake(report: &Report) -> Result<Revision, String> {
    let claimed: Vec<Revision> = report
        .target
        .revisions
        .iter()
        .filter_map(|name| Revision::parse(name))
        .collect();
    claimed
        .iter()
        .rev()
        .find(|revision| revision.era() == Era::Handshake)
        .or(claimed.last())
        .copied()
        .ok_or_else(|| "The server claims no revision.".to_owned())
}

/// The judgements of a profile. A rule of which nothing was said could not be judged: the rule
/// `root` stands in the way if it is broken, else the problem of its own check (`area.part: why`), or the
/// first one, says why.
fn settle(
    area: &str,
    mut judge: Judge,
    options: &Options,
    problems: &[String],
    root: Option<&str>,
) -> Vec<Judgement> {
    let root = root.filter(|root| judge.is_broken(root));
    let why = |id: &str| {
        let own = |problem: &&String| {
            let part = problem.split(':').next();
            part.is_some_and(|part| id.starts_with(part))
        };
        let found = problems.iter().find(own).or(problems.first());
        found.map_or("No check came to this rule.", String::as_str)
    };
    for rule in rules(area) {
        if judge.heard_of(&rule.id) {
            continue;
        }
        match root {
            Some(root) => judge.blocked(&rule.id, root),
            None => judge.error(&rule.id, why(&rule.id)),
        }
    }
    let wanted = rules(area).filter(|rule| wanted(options, &rule.id));
    without_revision(judge.settle(wanted))
}

/// Whether a rule of the area was asked for whose name begins in one of these ways.
fn is_wanted(area: &str, options: &Options, prefixes: &[&str]) -> bool {
    let asked = rules(area).filter(|rule| wanted(options, &rule.id));
    let mut names = asked.filter_map(|rule| rule.id.strip_prefix(area)?.strip_prefix('.'));
    names.any(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
}

/// Whether the user asked for this rule.
fn wanted(options: &Options, id: &str) -> bool {
    let listed = |list: &[String]| list.iter().any(|other| other == id);
    (options.only.is_empty() || listed(&options.only)) && !listed(&options.skip)
}

fn temporary() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))
}
