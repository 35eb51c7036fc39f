//! What a run says that the user ended.

use std::sync::atomic::{AtomicBool, Ordering};

use touchstone::run::{self, Progress};
use touchstone::verdict::Verdict;

use crate::generated::options;

pub(crate) fn all() -> Vec<libtest_mimic::Trial> {
    crate::trials![what_was_not_judged_is_not_called_not_applicable]
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
    let of = |rule: &str| {
        let judgements = &report.judgements;
        let found = judgements.iter().find(|j| j.requirement == rule);
        found.unwrap_or_else(|| panic!("no verdict of {rule}"))
    };
    // The opening was over by then; the session was not.
    assert_eq!(of("stdio.silent-until-addressed").verdict, Verdict::Pass);
    let unjudged = of("jsonrpc.response.exactly-one");
    assert_eq!(unjudged.verdict, Verdict::Error, "{unjudged:#?}");
    assert!(unjudged.message.contains("interrupted"), "{unjudged:#?}");
}
