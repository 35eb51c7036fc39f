//! Generated traffic against a small server that is healthy, or has one fault that no other check
//! brings to light.

use std::io::{BufRead, Write, stdin, stdout};
use std::time::Duration;

use serde_json::{Value, json};
use touchstone::run::{self, CallPolicy, Options, ProfileChoice, Progress};
use touchstone::spec::Revision;
use touchstone::verdict::{Judgement, Report, Verdict};
use touchstone::wire::Limits;

use crate::act::launch;

pub(crate) fn all() -> Vec<libtest_mimic::Trial> {
    crate::trials![
        a_healthy_server_is_left_in_peace,
        a_request_that_is_dropped_is_told,
        an_id_that_comes_back_changed_is_told,
        a_second_answer_is_told,
        an_answered_notification_is_told,
        a_crash_on_legal_white_space_is_told,
        unknown_meta_must_not_make_a_request_fail,
        a_server_that_refuses_the_plain_request_is_not_blamed_for_meta,
        an_unknown_method_must_not_be_served,
        a_crash_on_a_broken_line_is_told,
        noise_on_stdout_is_told,
        missing_arguments_must_not_pass,
        wrong_types_must_not_pass,
        forbidden_members_must_not_pass,
        output_must_fit_its_schema,
        a_crash_in_a_tool_is_told,
        a_slow_tool_is_no_fault,
        other_tools_are_not_called,
        the_same_seed_gives_the_same_report,
    ]
}

struct Quiet;

impl Progress for Quiet {
    fn step(&self, _: &str, _: usize, _: usize) {}
}

pub(crate) fn options(fault: &str, cases: u32, only: &[&str]) -> Options {
    Options {
        launch: launch(&format!("generated-{fault}")),
        command: vec!["act".into()],
        limits: Limits {
            startup: Duration::from_secs(60),
            request: Duration::from_secs(20),
            quiet: Duration::from_millis(100),
            stop: Duration::from_secs(10),
        },
        total: None,
        revisions: Some(vec![Revision::V2025_06_18]),
        profiles: ProfileChoice::None,
        only: only.iter().map(|id| (*id).to_owned()).collect(),
        skip: Vec::new(),
        call: CallPolicy::ReadOnly,
        jobs: 1,
        cases,
        seed: None,
        pack: None,
        hints: touchstone::run::Hints::default(),
    }
}

/// The judgement of one rule; with few cases unless more are needed.
fn judge(options: &Options) -> Judgement {
    let report = run::check(options, &Quiet);
    assert!(report.fatal.is_none(), "{:?}", report.fatal);
    let mut judgements = report.judgements;
    assert_eq!(judgements.len(), 1);
    judgements.remove(0)
}

/// The fault breaks the rule so, as one of the generated checks tells, with a transcript that
/// sends so many lines.
fn breaks(fault: &str, rule: &str, verdict: Verdict, check: &str, lines: usize) -> Judgement {
    shown(&judge(&options(fault, 96, &[rule])), verdict, check, lines)
}

fn shown(judgement: &Judgement, verdict: Verdict, check: &str, lines: usize) -> Judgement {
    assert_eq!(judgement.verdict, verdict, "{judgement:#?}");
    assert_eq!(judgement.check, check, "{judgement:#?}");
    let text = judgement.transcript.as_ref().expect("a transcript");
    touchstone::transcript::parse("recorded", text).expect("a transcript that can be played");
    let sent = text.lines().filter(|line| line.starts_with("-->"));
    assert!(sent.count() <= lines, "not simple: {text}");
    assert!(!judgement.evidence.exchange.is_empty());
    judgement.clone()
}

/// Silence is waited for; so it is not long here, and healthy answers come well within it.
fn silent(fault: &str, rule: &str, cases: u32) -> Judgement {
    let mut options = options(fault, cases, &[rule]);
    options.limits.request = Duration::from_secs(3);
    judge(&options)
}

fn troubles(report: &Report) -> Vec<&Judgement> {
    let trouble = |j: &&Judgement| !matches!(j.verdict, Verdict::Pass | Verdict::NotApplicable);
    report.judgements.iter().filter(trouble).collect()
}

fn a_healthy_server_is_left_in_peace() {
    let report = run::fuzz(&options("healthy", 8, &[]), Duration::from_secs(3), &Quiet);
    assert!(report.fatal.is_none(), "{:?}", report.fatal);
    assert!(troubles(&report).is_empty(), "{:#?}", troubles(&report));
    let passed = |rule: &str| {
        let of_rule = |j: &&Judgement| j.requirement == rule;
        report.judgements.iter().find(of_rule).unwrap().verdict
    };
    assert_eq!(passed("jsonrpc.response.exactly-one"), Verdict::Pass);
    assert_eq!(report.target.seed, Some(0));
}

fn a_request_that_is_dropped_is_told() {
    let judgement = silent("drops", "jsonrpc.response.exactly-one", 48);
    // How simple it gets depends on how long silence is waited for.
    shown(&judgement, Verdict::Fail, "generated.requests", usize::MAX);
}

fn an_id_that_comes_back_changed_is_told() {
    let rule = "jsonrpc.response.id-echo";
    breaks("trims", rule, Verdict::Fail, "generated.requests", 3);
}

fn a_second_answer_is_told() {
    let rule = "jsonrpc.response.exactly-one";
    breaks("twice", rule, Verdict::Fail, "generated.requests", 3);
}

fn an_answered_notification_is_told() {
    let rule = "jsonrpc.notification.no-response";
    breaks("replies", rule, Verdict::Fail, "generated.requests", 3);
}

fn a_crash_on_legal_white_space_is_told() {
    let rule = "stdio.survives-valid-traffic";
    breaks("dies-on-tab", rule, Verdict::Fail, "generated.requests", 3);
}

fn unknown_meta_must_not_make_a_request_fail() {
    let rule = "meta.request-extra-keys";
    breaks("refuses-meta", rule, Verdict::Warn, "generated.requests", 3);
}

fn a_server_that_refuses_the_plain_request_is_not_blamed_for_meta() {
    let judgement = judge(&options("refuses-ping", 96, &["meta.request-extra-keys"]));
    assert_ne!(judgement.verdict, Verdict::Warn, "{judgement:#?}");
}

fn an_unknown_method_must_not_be_served() {
    let rule = "jsonrpc.method-not-found";
    breaks("serves", rule, Verdict::Fail, "generated.requests", 3);
}

fn a_crash_on_a_broken_line_is_told() {
    let rule = "jsonrpc.parse-error.survive";
    let check = "generated.broken-lines";
    breaks("dies-on-brackets", rule, Verdict::Warn, check, 3);
}

fn noise_on_stdout_is_told() {
    let rule = "stdio.stdout-only-messages";
    breaks("prints", rule, Verdict::Fail, "generated.requests", 3);
}

fn missing_arguments_must_not_pass() {
    let rule = "tools.call.validates-input";
    let judgement = breaks("lacks", rule, Verdict::Fail, "generated.calls", 1);
    assert!(
        judgement.message.contains("required `mode`"),
        "{judgement:?}"
    );
}

fn wrong_types_must_not_pass() {
    let rule = "tools.call.validates-input";
    let judgement = breaks("coerces", rule, Verdict::Warn, "generated.calls", 1);
    assert!(judgement.message.contains("as `limit`"), "{judgement:?}");
}

fn forbidden_members_must_not_pass() {
    let rule = "tools.call.validates-input";
    let judgement = breaks("extra", rule, Verdict::Warn, "generated.calls", 1);
    assert!(judgement.message.contains("forbids"), "{judgement:?}");
}

fn output_must_fit_its_schema() {
    let rule = "tools.call.structured.conforms";
    let judgement = breaks("output", rule, Verdict::Fail, "generated.calls", 1);
    // The smallest limit that shows it.
    let text = judgement.transcript.unwrap();
    assert!(text.contains("\"limit\":4"), "{text}");
}

fn a_crash_in_a_tool_is_told() {
    let rule = "stdio.survives-valid-traffic";
    breaks("tool-dies", rule, Verdict::Fail, "generated.calls", 2);
}

fn a_slow_tool_is_no_fault() {
    let mut options = options("slow", 48, &["tools.call.result-shape"]);
    options.limits.request = Duration::from_secs(2);
    let judgement = judge(&options);
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:#?}");
    let slow = |note: &String| note.contains("did not answer");
    assert!(judgement.notes.iter().any(slow), "{judgement:#?}");
}

fn other_tools_are_not_called() {
    // It ends when `erase` is called.
    let rule = "stdio.survives-valid-traffic";
    let judgement = judge(&options("healthy", 16, &[rule]));
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:#?}");
    let mut options = options("healthy", 16, &[rule]);
    options.call = CallPolicy::Named(vec!["erase".into()]);
    assert_eq!(judge(&options).verdict, Verdict::Fail);
}

fn the_same_seed_gives_the_same_report() {
    let seen = |seed| {
        let mut options = options("trims", 48, &["jsonrpc.response.id-echo"]);
        options.seed = Some(seed);
        let judgement = judge(&options);
        (judgement.message, judgement.transcript)
    };
    assert_eq!(seen(3), seen(3));
}

/// The server. Each fault is one line of it.
pub(crate) fn serve(fault: &str) {
    for (count, line) in stdin().lock().split(b'\n').enumerate() {
        let line = line.unwrap();
        // More than any check says, less than all of them.
        if fault == "dies-later" && count == 60 {
            std::process::exit(1);
        }
        if fault == "dies-on-tab" && line.contains(&b'\t') {
            std::process::exit(1);
        }
        if fault == "dies-at-discover" && line.windows(8).any(|part| part == b"discover") {
            std::process::exit(1);
        }
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            if fault == "dies-on-brackets" && line.starts_with(b"{") && line.contains(&b'[') {
                std::process::exit(1);
            }
            continue;
        };
        // An answer to a request of ours.
        if message.get("method").is_none() && message.get("result").is_some() {
            continue;
        }
        let id = message.get("id").filter(|id| id.is_string() || id.is_i64());
        let Some(id) = id else {
            if fault == "replies" && message.get("params").is_some_and(|p| p != &json!({})) {
                say(
                    &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "no"}}),
                );
            }
            continue;
        };
        let Some(mut answer) = answer(fault, &message) else {
            continue;
        };
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = id.clone();
        let text = id.as_str().unwrap_or_default();
        match fault {
            "drops" if text.contains('"') => continue,
            "trims" if text.len() < 100 => {
                if let Some(id) = id.as_str() {
                    answer["id"] = json!(id.trim_end_matches('\\'));
                }
            }
            "twice" if text.contains('/') => say(&answer),
            "prints" if text.contains('\\') => println!("debug: {text:?}"),
            _ => {}
        }
        say(&answer);
        let asks = match fault {
            "asks-anew" => 1,
            "asks-twice" => 2,
            _ => 0,
        };
        if message["method"] == "initialize" {
            for _ in 0..asks {
                say(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
            }
        }
    }
}

fn say(message: &Value) {
    let mut out = stdout().lock();
    writeln!(out, "{message}").unwrap();
    out.flush().unwrap();
}

fn answer(fault: &str, message: &Value) -> Option<Value> {
    let params = &message["params"];
    let meta = params.get("_meta").and_then(Value::as_object);
    if fault == "refuses-meta" && meta.is_some_and(|meta| meta.values().any(Value::is_null)) {
        return Some(error(-32602, "no such key"));
    }
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "generated", "version": "1.0"},
        }),
        "ping" if fault == "refuses-ping" => return Some(error(-32601, "no such method")),
        "ping" => json!({}),
        "tools/list" => json!({"tools": tools()}),
        "tools/call" => return call(fault, params),
        method if fault == "serves" && method.contains('/') && method.ends_with('s') => json!({}),
        _ => return Some(error(-32601, "no such method")),
    };
    Some(json!({ "result": result }))
}

fn error(code: i64, message: &str) -> Value {
    json!({"error": {"code": code, "message": message}})
}

fn tools() -> Value {
    json!([
        {
            "name": "search",
            "annotations": {"readOnlyHint": true},
            "inputSchema": {
                "type": "object",
                "additionalProperties": false,
                "required": ["query", "mode"],
                "properties": {
                    "query": {"type": "string"},
                    "mode": {"type": "string", "enum": ["fast", "slow"]},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 50},
                },
            },
            "outputSchema": {
                "type": "object",
                "required": ["count"],
                "properties": {"count": {"type": "integer"}},
            },
        },
        {"name": "erase", "inputSchema": {"type": "object"}},
    ])
}

fn call(fault: &str, params: &Value) -> Option<Value> {
    let tools = tools();
    let tool = match params["name"].as_str() {
        Some("search") => &tools[0],
        Some("erase") => std::process::exit(1),
        _ => return Some(error(-32602, "no such tool")),
    };
    let arguments = &params["arguments"];
    let schema = &tool["inputSchema"];
    let limit = arguments["limit"].as_i64().unwrap_or(1);
    let seen = match fault {
        "lacks" => arguments.get("query").is_some() && arguments.get("mode").is_none(),
        "coerces" => arguments["limit"].is_string(),
        "extra" => arguments.get("touchstone_unknown").is_some(),
        _ => false,
    };
    if !seen
        && !jsonschema::validator_for(schema)
            .unwrap()
            .is_valid(arguments)
    {
        let content = json!([{"type": "text", "text": "these arguments do not fit"}]);
        return Some(json!({"result": {"isError": true, "content": content}}));
    }
    match fault {
        "slow" if arguments.get("limit").is_some() => return None,
        "tool-dies" if limit > 7 => std::process::exit(1),
        _ => {}
    }
    let count = match fault {
        "output" if limit > 3 => json!("many"),
        _ => json!(limit),
    };
    let structured = json!({ "count": count });
    let text = structured.to_string();
    Some(json!({"result": {
        "content": [{"type": "text", "text": text}],
        "structuredContent": structured,
    }}))
}
