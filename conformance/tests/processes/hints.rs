//! The checks that need hints, and a client that answers: each is quiet on a healthy server, and sees
//! the fault that it is there for.

use std::io::Write;
use std::time::Duration;

use touchstone::run::{self, CallPolicy, Hints, Options, ProfileChoice, Progress};
use touchstone::spec::Revision;
use touchstone::verdict::{Report, Verdict};
use touchstone::wire::Limits;

use crate::act::launch;

const OLD: Revision = Revision::V2025_11_25;
const NEW: Revision = Revision::V2026_07_28;

/// What the wayward server does.
const HINTS: &str = r#"
[[tool]]
name = "form"
does = ["asks-elicitation"]
gives-up-ms = 700
[[tool]]
name = "url"
does = ["asks-url-elicitation"]
[[tool]]
name = "model"
does = ["asks-sampling"]
[[tool]]
name = "loop"
does = ["asks-sampling-with-tools"]
[[tool]]
name = "roots"
does = ["asks-roots"]
[[prompt]]
name = "asked"
does = ["asks-elicitation"]
[[tool]]
name = "outside"
does = ["leaves-roots"]
[[tool]]
name = "slow"
does = ["slow"]
takes-ms = 1500
resource = "w:steps"
[[tool]]
name = "fail"
does = ["fails"]
[[resource]]
uri = "w:broken"
does = ["fails"]
[[tool]]
name = "change"
arguments = { what = "tools" }
does = ["changes-tools"]
[[tool]]
name = "change"
arguments = { what = "prompts" }
does = ["changes-prompts"]
[[tool]]
name = "change"
arguments = { what = "resources" }
does = ["changes-resources"]
[[tool]]
name = "change"
arguments = { what = "resource" }
does = ["changes-resource"]
resource = "w:steps"
[[tool]]
name = "later"
does = ["task"]
[[tool]]
name = "extended"
does = ["uses-extension"]
"#;

/// A fault, the revision in which it is looked for, and the rules that it breaks.
type Row = (&'static str, Revision, &'static [&'static str]);

#[rustfmt::skip]
const FAULTS: &[Row] = &[
    ("undeclared-mode", OLD, &["elicitation.mode-supported"]),
    ("undeclared-mode", NEW, &["elicitation.mode-supported"]),
    ("secret-form", OLD, &["elicitation.no-secrets-by-form"]),
    ("secret-form", NEW, &["elicitation.no-secrets-by-form"]),
    ("http-url", OLD, &["elicitation.url.safe"]),
    ("http-url", NEW, &["elicitation.url.safe"]),
    ("hangs-on-decline", OLD, &["elicitation.actions"]),
    ("takes-bad-content", OLD, &["elicitation.actions"]),
    ("asks-on-after-decline", NEW, &["elicitation.decline-handled"]),
    ("undeclared-tools", OLD, &["sampling.tools-capability"]),
    ("undeclared-tools", NEW, &["sampling.tools-capability"]),
    ("undeclared-context", OLD, &["sampling.include-context"]),
    ("drops-result", OLD, &["sampling.tool-results"]),
    ("drops-result", NEW, &["sampling.tool-results"]),
    ("endless-loop", OLD, &["sampling.prudence"]),
    ("endless-loop", NEW, &["sampling.prudence"]),
    ("dies-of-errors", OLD, &["client-features.error-tolerated"]),
    ("never-gives-up", OLD, &["lifecycle.timeouts"]),
    ("gives-up-silently", OLD, &["lifecycle.timeouts"]),
    ("dies-of-late-answers", OLD, &["cancellation.server-sent.late-response"]),
    ("notifies-of-task", OLD, &["cancellation.tasks"]),
    ("leaves-roots", OLD, &["roots.boundaries"]),
    ("leaves-roots", NEW, &["roots.boundaries"]),
    ("blocks", OLD, &["ping.while-busy"]),
    ("blocks", NEW, &["stdio.not-blocked-while-busy"]),
    ("ignores-cancel", OLD, &["cancellation.stop-work", "cancellation.no-response"]),
    ("ignores-cancel", NEW, &["cancellation.stop-work", "cancellation.no-response",
        "cancellation.no-further-messages"]),
    ("answers-cancel", OLD, &["cancellation.no-response"]),
    ("silent-changes", OLD, &["tools.list-changed.notify", "resources.updated.on-change",
        "resources.list-changed.notify", "prompts.list-changed.notify"]),
    ("silent-changes", NEW, &["tools.list-changed.notify-listeners",
        "resources.updated.on-change", "resources.list-changed.notify",
        "prompts.list-changed.notify"]),
    ("protocol-error", OLD, &["tools.call.execution-error"]),
    ("odd-internal-code", OLD, &["jsonrpc.internal-error"]),
    ("any-case", OLD, &["tools.name.case-sensitive"]),
    ("odd-capability-code", NEW, &["versioning.missing-capability.code"]),
    ("no-required", NEW, &["versioning.missing-capability.data"]),
    ("asks-undeclared", NEW, &["mrtr.capability-respected"]),
    ("duplicate-keys", NEW, &["mrtr.input-request-keys"]),
    ("unsealed-state", NEW, &["mrtr.state-integrity"]),
    ("unbound-state", NEW, &["mrtr.state-binding"]),
    ("never-done", NEW, &["mrtr.completes-after-retry"]),
    ("refuses-missing", NEW, &["mrtr.missing-response"]),
    ("refuses-extra", NEW, &["mrtr.extra-response-ignored"]),
    ("takes-anything", NEW, &["mrtr.validates-responses"]),
    ("waits", NEW, &["mrtr.no-waiting"]),
    ("extension-result", NEW, &["extensions.fallback"]),
    ("task-undeclared", OLD, &["tasks.undeclared-ignored"]),
    ("task-anyway", OLD, &["tasks.tool-forbidden"]),
    ("task-without-ttl", OLD, &["tasks.create", "tasks.get-shape"]),
    ("task-begins-done", OLD, &["tasks.create"]),
    ("task-revives", OLD, &["tasks.status-lifecycle"]),
    ("task-uncancels", OLD, &["tasks.cancel", "tasks.status-lifecycle"]),
    ("cancels-twice", OLD, &["tasks.cancel"]),
    ("early-result", OLD, &["tasks.result"]),
    ("other-task-result", OLD, &["tasks.result"]),
    ("unrelated-result", OLD, &["tasks.related-meta"]),
    ("metadata-win", OLD, &["tasks.related-meta-precedence"]),
    ("late-task-progress", OLD, &["tasks.progress-token"]),
    ("counted-tasks", OLD, &["tasks.isolation"]),
];

pub(crate) fn all() -> Vec<libtest_mimic::Trial> {
    let mut trials = crate::trials![
        a_healthy_server_passes_what_the_faults_break_with_a_handshake,
        a_healthy_server_passes_what_the_faults_break_without_one,
    ];
    trials.extend(FAULTS.iter().map(|row| {
        let name = format!("hints::{} is seen in {}", row.0, row.1);
        libtest_mimic::Trial::test(name, || {
            is_seen(row);
            Ok(())
        })
    }));
    trials
}

pub(crate) struct Quiet;

impl Progress for Quiet {
    fn step(&self, _: &str, _: usize, _: usize) {}
}

pub(crate) fn judge(fault: &str, revision: Revision, rules: &[&str], patience: Duration) -> Report {
    run::check(&options(fault, revision, rules, patience), &Quiet)
}

/// How the wayward server is judged by these rules.
pub(crate) fn options(
    fault: &str,
    revision: Revision,
    rules: &[&str],
    patience: Duration,
) -> Options {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(HINTS.as_bytes()).unwrap();
    let mut launch = launch("wayward");
    launch.args.push(fault.into());
    Options {
        launch,
        command: vec!["wayward".into(), fault.into()],
        limits: Limits {
            startup: Duration::from_secs(60),
            request: patience,
            quiet: Duration::from_millis(300),
            stop: Duration::from_secs(10),
        },
        total: None,
        revisions: Some(vec![revision]),
        profiles: ProfileChoice::None,
        only: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        skip: vec![],
        call: CallPolicy::ReadOnly,
        jobs: 1,
        cases: 1,
        seed: None,
        pack: None,
        hints: Hints::load(file.path()).unwrap(),
    }
}

/// All rules that a fault of this revision breaks.
fn rules(revision: Revision) -> Vec<&'static str> {
    let mut rules: Vec<&str> = FAULTS
        .iter()
        .filter(|row| row.1 == revision)
        .flat_map(|row| row.2)
        .copied()
        .collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

fn healthy(revision: Revision) {
    let rules = rules(revision);
    let report = judge("none", revision, &rules, Duration::from_secs(30));
    assert!(report.fatal.is_none(), "{:?}", report.fatal);
    let not_passed: Vec<String> = report
        .judgements
        .iter()
        .filter(|j| j.verdict != Verdict::Pass)
        .map(|j| format!("{} {:?}: {}", j.requirement, j.verdict, j.message))
        // The healthy server takes tasks, and puts none of its questions as a task.
        .filter(|line| {
            !line.starts_with("tasks.undeclared-ignored NotApplicable")
                && !line.starts_with("cancellation.tasks NotApplicable")
        })
        .collect();
    assert!(not_passed.is_empty(), "{not_passed:#?}");
    assert_eq!(report.judgements.len(), rules.len());
}

fn a_healthy_server_passes_what_the_faults_break_with_a_handshake() {
    healthy(OLD);
}

fn a_healthy_server_passes_what_the_faults_break_without_one() {
    healthy(NEW);
}

fn is_seen((fault, revision, rules): &Row) {
    // Silence is what some of the faults are made of: it must not cost half a minute each time.
    let report = judge(fault, *revision, rules, Duration::from_secs(4));
    for rule in *rules {
        let judgement = report.judgements.iter().find(|j| j.requirement == *rule);
        let judgement =
            judgement.unwrap_or_else(|| panic!("{rule} is not judged: {:?}", report.fatal));
        assert!(
            matches!(judgement.verdict, Verdict::Fail | Verdict::Warn),
            "{rule}: {:?}: {}",
            judgement.verdict,
            judgement.message
        );
        assert!(!judgement.evidence.exchange.is_empty(), "{rule}");
    }
}
