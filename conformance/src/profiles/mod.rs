//! The contracts of tool families: detect, launch, judge.
//!
//! A profile calls tools that run code or write, so it runs only when it is asked for.

mod toolchain;

use std::sync::atomic::AtomicUsize;

use crate::checks::Facts;
use crate::run::{Options, ProfileChoice};
use crate::spec::requirement;
use crate::verdict::Report;

/// A contract that a server may hold.
struct Profile {
    name: &'static str,
    /// The tools that a server of this kind has.
    tools: &'static [&'static str],
    judge: fn(&Options, &Report, &AtomicUsize) -> Result<Vec<crate::verdict::Judgement>, String>,
}

const PROFILES: &[Profile] = &[Profile {
    name: "toolchain",
    tools: &[
        "searchSkills",
        "listSkills",
        "getSkills",
        "compile",
        "jit_execute",
    ],
    judge: toolchain::judge,
}];

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
fn unjudged(area: &str, why: &str) -> Vec<crate::verdict::Judgement> {
    let mut judge = crate::run::Judge::new(crate::spec::Span::ALL.last);
    judge.enter(area);
    let rules = || requirement::catalogue().iter().filter(|r| r.area == area);
    for rule in rules() {
        judge.error(&rule.id, why);
    }
    let mut judgements = judge.settle(rules());
    for judgement in &mut judgements {
        judgement.revision = None;
    }
    judgements
}
