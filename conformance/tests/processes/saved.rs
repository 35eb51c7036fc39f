//! A breach that is saved as a transcript shows again when the transcript is replayed.

use std::fs;
use std::time::Duration;

use touchstone::run;
use touchstone::run::replay::{self, replay};
use touchstone::spec::Revision;
use touchstone::verdict::Verdict;

use crate::hints::{Quiet, judge, options};

const REVISION: Revision = Revision::V2025_11_25;
const PATIENCE: Duration = Duration::from_secs(2);

/// A fault of the wayward server, and the rule that it breaks.
const FAULTS: &[(&str, &str)] = &[
    // Silence: nothing in the conversation says how long it was waited for.
    ("deaf-to-unknown", "jsonrpc.response.exactly-one"),
    // The end of the process.
    ("dies-of-get", "stdio.survives-valid-traffic"),
    ("dies-of-garbage", "jsonrpc.parse-error.survive"),
    ("dies-of-cancel", "cancellation.race-graceful"),
    ("dies-of-cancel", "cancellation.unknown-id-ignored"),
    // What is read from the conversation.
    ("answers-twice", "cancellation.race-graceful"),
    // What hints bring about.
    ("answers-cancel", "cancellation.no-response"),
];

pub(crate) fn all() -> Vec<libtest_mimic::Trial> {
    let trials = FAULTS.iter().map(|(fault, rule)| {
        let name = format!("saved::{rule} of {fault} shows again");
        libtest_mimic::Trial::test(name, || {
            shows_again(fault, rule);
            Ok(())
        })
    });
    trials.collect()
}

fn shows_again(fault: &str, rule: &str) {
    // A rule that is broken in passing needs the traffic of all the checks.
    let passing = [
        "stdio.survives-valid-traffic",
        "jsonrpc.response.exactly-one",
    ];
    let everything = passing.contains(&rule);
    let rules = if everything { vec![] } else { vec![rule] };
    let report = judge(fault, REVISION, &rules, PATIENCE);
    let first = report.judgements.iter().find(|j| j.requirement == rule);
    let first = first.expect("a judgement");
    let broken = matches!(first.verdict, Verdict::Fail | Verdict::Warn);
    assert!(broken, "{:?}: {}", first.verdict, first.message);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("saved.txt");
    fs::write(&file, first.transcript.as_ref().expect("a transcript")).unwrap();

    let options: run::Options = options(fault, REVISION, &[], PATIENCE);
    let options = replay::Options {
        launch: options.launch,
        command: options.command,
        limits: options.limits,
        files: vec![file],
        revision: None,
        update: false,
        hints: options.hints,
    };
    let again = replay(&options, &Quiet).unwrap();
    let again = again.judgements.iter().find(|j| j.requirement == rule);
    let again = again.expect("a judgement of the replay");
    assert_eq!(again.verdict, first.verdict, "{}", again.message);
}
