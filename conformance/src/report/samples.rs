//! Hand-made reports for the tests of every format.

use std::sync::OnceLock;

use serde_json::json;

use super::{Again, Context};
use crate::spec::requirement::Breach;
use crate::spec::{Level, Requirement, Span};
use crate::verdict::{Evidence, Fatal, From, Judgement, Line, Report, Target, Verdict};

pub(crate) const VERSION: &str = "jsonrpc.version-member";
const INITIALIZE: &str = "lifecycle.initialize";
const UNKNOWN: &str = "tools.call.unknown-tool";

/// A catalogue of three rules.
pub(crate) fn rules() -> &'static [Requirement] {
    static RULES: OnceLock<Vec<Requirement>> = OnceLock::new();
    RULES.get_or_init(|| {
        let rule = |id: &str, breach, statement: &str, mend: &str| Requirement {
            id: id.into(),
            area: super::area(id).into(),
            level: Level::Must,
            breach,
            span: Span::ALL,
            transport: "any".into(),
            condition: "always".into(),
            statement: statement.into(),
            source: "2026-07-28:basic/index#messages | JSON-RPC-2.0 §5".into(),
            derived: false,
            testable: "black-box".into(),
            how: "look at every message".into(),
            mend: mend.into(),
        };
        vec![
            rule(
                VERSION,
                Breach::Fail,
                "Every message has a `jsonrpc` member whose value is exactly the string \"2.0\".",
                "Write \"jsonrpc\":\"2.0\" into every message, as a string.",
            ),
            rule(
                INITIALIZE,
                Breach::Fail,
                "The server answers `initialize` with its protocol version, its capabilities and its name.",
                "Answer `initialize` before anything else.",
            ),
            rule(
                UNKNOWN,
                Breach::Warn,
                "A call of a tool that the server does not list is refused with error -32602.",
                "Look the name up before the call and answer -32602 with a message that names the tool.",
            ),
        ]
    })
}

/// Calls with a context on these rules.
pub(crate) fn with_context<T>(call: impl FnOnce(&Context<'_>) -> T) -> T {
    let again = Again::Check {
        flags: vec!["--call-all".into()],
    };
    call(&Context {
        rules: &|id| rules().iter().find(|r| r.id == id),
        strict: false,
        again: &again,
    })
}

pub(crate) fn judgement(id: &str, revision: Option<&str>, verdict: Verdict) -> Judgement {
    Judgement {
        requirement: id.into(),
        check: id.into(),
        revision: revision.map(String::from),
        level: "MUST".into(),
        verdict,
        message: String::new(),
        notes: Vec::new(),
        blocked_by: None,
        evidence: Evidence::default(),
        transcript: None,
    }
}

pub(crate) fn report(judgements: Vec<Judgement>) -> Report {
    Report {
        target: Target {
            command: ["node", "my server.js", "--name", "it's"]
                .map(String::from)
                .into(),
            server_info: Some(json!({"name": "example-server", "version": "1.2.3"})),
            revisions: vec!["2025-06-18".into(), "2025-11-25".into()],
            unknown_revisions: Vec::new(),
            profiles: Vec::new(),
            looks_like: Vec::new(),
            uncalled_tools: Vec::new(),
            remarks: Vec::new(),
        },
        judgements,
        seconds: 0.8249,
        processes: 7,
        fatal: None,
    }
}

fn line(at_ms: u64, from: From, text: &str) -> Line {
    Line {
        at_ms,
        from,
        text: text.into(),
    }
}

/// All kinds of verdict, in two revisions, with everything a judgement can carry.
pub(crate) fn every_verdict() -> Report {
    let mut judgements = Vec::new();
    for revision in ["2025-06-18", "2025-11-25"] {
        let make = |id: &str, verdict| judgement(id, Some(revision), verdict);
        judgements.push(Judgement {
            message: "The `jsonrpc` member of a response is the number 2.0.".into(),
            evidence: Evidence {
                exchange: vec![
                    line(
                        3,
                        From::Client,
                        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
                    ),
                    line(1204, From::Server, r#"{"jsonrpc":2.0,"id":1,"result":{}}"#),
                    line(1204, From::Event, "the server closed its output"),
                ],
                pointer: Some("/jsonrpc".into()),
                expected: Some("the string \"2.0\"".into()),
                found: Some("2.0".into()),
                ..Evidence::default()
            },
            transcript: Some("--> {}\n".into()),
            ..make(VERSION, Verdict::Fail)
        });
        judgements.push(Judgement {
            notes: vec!["The answer came before the request was complete.".into()],
            ..make("ping.result", Verdict::Pass)
        });
        judgements.push(Judgement {
            level: "SHOULD".into(),
            message: "no tools capability".into(),
            ..make("tools.list", Verdict::NotApplicable)
        });
    }
    judgements.insert(
        3,
        Judgement {
            check: "lifecycle.handshake".into(),
            message: "No answer to `initialize` within 10 s.".into(),
            evidence: Evidence {
                stderr: (1..=12).map(|n| format!("Traceback line {n}")).collect(),
                ..Evidence::default()
            },
            ..judgement(INITIALIZE, Some("2025-06-18"), Verdict::Fail)
        },
    );
    for (id, by) in [
        ("ping.a", INITIALIZE),
        ("ping.b", "ping.a"),
        ("tools.c", "not.told"),
    ] {
        judgements.push(Judgement {
            message: "The handshake failed.".into(),
            blocked_by: Some(by.into()),
            ..judgement(id, Some("2025-06-18"), Verdict::Blocked)
        });
    }
    judgements.sort_by_key(|j| j.revision.clone());
    let last = judgements.len();
    judgements.insert(
        last,
        Judgement {
            level: "SHOULD".into(),
            message: "The unknown tool was answered with a result.".into(),
            ..judgement(UNKNOWN, Some("2025-11-25"), Verdict::Warn)
        },
    );
    judgements.push(Judgement {
        message: "The run ended before it.".into(),
        ..judgement("progress.shape", Some("2025-11-25"), Verdict::Error)
    });
    judgements.push(Judgement {
        message: "The reply came too late to be told from silence.".into(),
        evidence: Evidence {
            exchange: vec![line(9000, From::Event, "silence")],
            ..Evidence::default()
        },
        ..judgement("progress.rate", Some("2025-11-25"), Verdict::Error)
    });
    let mut report = report(judgements);
    report.target.unknown_revisions = vec!["2099-01-01".into()];
    report.target.profiles = vec!["toolchain".into()];
    report.target.looks_like = vec!["memory".into()];
    report.target.uncalled_tools = vec!["delete_all".into(), "drop_table".into()];
    report.target.remarks =
        vec!["Started in the current folder, since the command names a file in it.".into()];
    report
}

/// Text of a server that means harm, or does not know what it writes.
pub(crate) fn hostile() -> Report {
    let escape = "\x1b[2J\x1b]0;title\x07\u{9b}31m\u{202e}evil\r\n\u{7f}\u{ffff}";
    let huge = format!("{{\"text\":\"{}\"}}", "x".repeat(100_000));
    let wide = "漢字かな交じり文".repeat(40);
    let accents = format!("e{}", "\u{301}".repeat(5_000));
    let exchange = (0..40)
        .map(|n| line(n, From::Server, &format!("line {n}")))
        .chain([
            line(40, From::Client, ""),
            line(41, From::Server, escape),
            line(42, From::Server, &huge),
            line(43, From::Server, &wide),
            line(4_000_000, From::Server, &accents),
        ])
        .collect();
    let fail = Judgement {
        message: format!("The server wrote {escape} {wide}"),
        notes: vec![escape.into()],
        evidence: Evidence {
            at: Vec::new(),
            exchange,
            stderr: vec![
                escape.into(),
                huge.clone(),
                "👩\u{200d}💻 done ✔\u{fe0f}".into(),
            ],
            pointer: Some(String::new()),
            expected: Some("an object".into()),
            found: Some(huge),
        },
        ..judgement(VERSION, None, Verdict::Fail)
    };
    let mine = Judgement {
        check: format!("tests/{escape}.txt"),
        message: wide,
        ..judgement(&format!("mine.{escape}"), Some("2025-06-18"), Verdict::Fail)
    };
    let mut report = report(vec![fail, mine]);
    report.target.server_info = Some(json!({"name": escape, "version": 7}));
    report.target.unknown_revisions = vec![escape.repeat(50)];
    report.target.uncalled_tools = vec![escape.into()];
    report
}

/// A program that is not there.
pub(crate) fn not_started() -> Report {
    let mut report = report(Vec::new());
    report.target.server_info = None;
    report.target.revisions = Vec::new();
    report.processes = 1;
    report.fatal = Some(Fatal {
        message: "The server ended before it answered (exit code 1).\nRun the command by hand to see why.".into(),
        evidence: Evidence {
            stderr: vec!["Error: Cannot find module 'express'".into()],
            ..Evidence::default()
        },
        ended: false,
    });
    report
}
