//! What a whole run says: of a server that dies now and then, of its sessions, when the user ends it.

use std::sync::atomic::{AtomicBool, Ordering};

use touchstone::run::{self, Progress};
use touchstone::verdict::Verdict;

use crate::generated::options;
use touchstone::verdict::{Judgement, Report};

pub(crate) fn all() -> Vec<libtest_mimic::Trial> {
    crate::trials![
        what_was_not_judged_is_not_called_not_applicable,
        a_death_that_is_not_seen_again_is_told,
        another_initialize_may_begin_the_ids_anew,
        an_id_that_is_used_twice_in_a_session_is_told,
        what_the_probe_of_newer_clients_does_is_told,
    ]
}

/// Ends the run when a revision is being judged.
struct Ends(AtomicBool);

impl Progress for Ends {
    fn step(&self, what: &str, _: usize, _: usize) {
        if what == "ping" {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    fn interrupted(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

fn what_was_not_judged_is_not_called_not_applicable() {
    let report = run::check(&options("healthy", 1, &[]), &Ends(AtomicBool::new(false)));
    // The opening was over by then; the session was not.
    assert_eq!(
        of(&report, "stdio.silent-until-addressed").verdict,
        Verdict::Pass
    );
    let unjudged = of(&report, "jsonrpc.response.exactly-one");
    assert_eq!(unjudged.verdict, Verdict::Error, "{unjudged:#?}");
    assert!(unjudged.message.contains("interrupted"), "{unjudged:#?}");
}

struct Quiet;

impl Progress for Quiet {
    fn step(&self, _: &str, _: usize, _: usize) {}
}

fn of<'a>(report: &'a Report, rule: &str) -> &'a Judgement {
    let found = report.judgements.iter().find(|j| j.requirement == rule);
    found.unwrap_or_else(|| panic!("no verdict of {rule}"))
}

fn a_death_that_is_not_seen_again_is_told() {
    let report = run::check(&options("dies-later", 1, &[]), &Quiet);
    let judgement = of(&report, "stdio.survives-valid-traffic");
    assert_eq!(judgement.verdict, Verdict::Warn, "{judgement:#?}");
    assert!(
        judgement.message.contains("exit status: 1"),
        "{judgement:#?}"
    );
}

fn another_initialize_may_begin_the_ids_anew() {
    let report = run::check(&options("asks-anew", 1, &[]), &Quiet);
    let judgement = of(&report, "jsonrpc.request.id-unique");
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:#?}");
}

fn an_id_that_is_used_twice_in_a_session_is_told() {
    let report = run::check(&options("asks-twice", 1, &[]), &Quiet);
    let judgement = of(&report, "jsonrpc.request.id-unique");
    assert_eq!(judgement.verdict, Verdict::Fail, "{judgement:#?}");
}

fn what_the_probe_of_newer_clients_does_is_told() {
    let told = |fault| {
        let remarks = run::check(&options(fault, 1, &["ping.responds"]), &Quiet)
            .target
            .remarks;
        remarks
            .iter()
            .any(|remark| remark.contains("ends the server"))
    };
    assert!(told("dies-at-discover"));
    assert!(!told("healthy"));
}
