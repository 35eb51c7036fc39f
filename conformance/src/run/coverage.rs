//! Which checks cover which requirements, in each revision, and why the others are not covered.

use std::collections::{BTreeMap, BTreeSet};

use crate::checks;
use crate::spec::{Era, Requirement, Revision, requirement, shape};

/// One requirement in one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// The requirement's id.
    pub requirement: String,
    /// The revision.
    pub revision: Revision,
    /// The checks that judge it.
    pub checks: Vec<String>,
    /// Why there is none.
    pub why_not: Option<String>,
}

/// Rules that the run itself judges, around the checks.
fn of_the_run(revision: Revision) -> Vec<(&'static str, &'static str)> {
    let mut rules = vec![
        ("opening", "stdio.silent-until-addressed"),
        ("first-steps", "transport.utf8-input"),
        ("stdio.end-of-input", "stdio.exit-on-eof"),
        ("stdio.end-of-input", "stdio.exit-on-eof-legacy"),
        ("session", "stdio.survives-valid-traffic"),
    ];
    match revision.era() {
        Era::Handshake => rules.extend([
            ("hello", "lifecycle.initialize-response"),
            ("hello", "lifecycle.version.echo-supported"),
            ("opening", "lifecycle.version.echo-supported"),
            ("opening", "lifecycle.version.counter-offer"),
            ("opening", "lifecycle.version.counter-offer-latest"),
            ("opening", "jsonrpc.response.id-echo"),
            ("first-steps", "lifecycle.initialize-response"),
            (
                "lifecycle.before-initialized",
                "lifecycle.no-requests-before-initialized",
            ),
            ("lifecycle.before-initialized", "ping.before-initialized"),
        ]),
        Era::Stateless => rules.extend([
            ("hello", "discover.implemented"),
            ("opening", "versioning.initialize-rejected"),
            ("opening", "versioning.initialize-names-versions"),
        ]),
    }
    rules
}

/// The checks of each requirement in a revision.
fn checks_of(revision: Revision) -> BTreeMap<String, BTreeSet<String>> {
    let mut map: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut put = |id: &str, check: &str| {
        let binds = requirement::get(id).is_some_and(|r| r.span.contains(revision));
        if binds {
            map.entry(id.to_owned())
                .or_default()
                .insert(check.to_owned());
        }
    };
    for (check, id) in of_the_run(revision) {
        put(id, check);
    }
    for check in std::iter::once(&checks::GATHER).chain(checks::checks()) {
        if check.span.contains(revision) {
            check.requirements.iter().for_each(|id| put(id, check.name));
        }
    }
    for observer in checks::observers() {
        observer
            .requirements
            .iter()
            .for_each(|id| put(id, observer.name));
    }
    for id in shape::covered(revision) {
        put(&id, "shapes");
    }
    map
}

/// The requirements that are judged in a revision.
pub(super) fn covered(revision: Revision) -> BTreeSet<String> {
    checks_of(revision).into_keys().collect()
}

/// Every requirement in every revision that it binds in.
pub fn coverage() -> Vec<Coverage> {
    let mut rows = Vec::new();
    for revision in Revision::ALL {
        let mut covered = checks_of(revision);
        for requirement in requirement::catalogue() {
            if !requirement.span.contains(revision) {
                continue;
            }
            let mut checks: Vec<String> = covered
                .remove(&requirement.id)
                .map(|checks| checks.into_iter().collect())
                .unwrap_or_default();
            if requirement.is_of_profile() {
                checks.push(format!("profile {}", requirement.area));
            }
            let why_not = checks.is_empty().then(|| why_not(requirement));
            rows.push(Coverage {
                requirement: requirement.id.clone(),
                revision,
                checks,
                why_not,
            });
        }
    }
    rows
}

fn why_not(requirement: &Requirement) -> String {
    if requirement.transport == "http" {
        return "about HTTP; the suite speaks stdio".to_owned();
    }
    match requirement.testable.as_str() {
        "not-testable" => "cannot be seen from outside",
        "needs-fixture" => "needs something of the server that no check brings about",
        "needs-cooperating-client" => "needs a client that answers in a way no check plays yet",
        _ => "no check yet",
    }
    .to_owned()
}
