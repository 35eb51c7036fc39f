//! `basic/lifecycle`: the handshake, version negotiation, capabilities.

use serde_json::{Map, Value, json};

use super::exchange::{Exchange, Kind};
use super::{Answer, Check, Context, LISTS, Observer, Run, Session};
use crate::client::initialize_params;
use crate::run::Judge;
use crate::spec::requirement::Breach;
use crate::spec::{Era, Revision, Span};

const HANDSHAKE: Span = Span {
    first: Revision::V2024_11_05,
    last: Revision::V2025_11_25,
};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "lifecycle.undeclared-methods",
        requirements: &[
            "lifecycle.capability.undeclared-method",
            "tools.capability-declared",
            "resources.capability-declared",
            "prompts.capability-declared",
            "completion.capability-declared",
        ],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(undeclared_methods),
    },
    Check {
        name: "lifecycle.second-initialize",
        requirements: &["stdio.survives-valid-traffic"],
        span: HANDSHAKE,
        session: Session::Rough,
        run: Run::Code(second_initialize),
    },
];

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "lifecycle.only-negotiated",
    requirements: &[
        "lifecycle.capabilities.only-negotiated",
        "lifecycle.capabilities.only-negotiated.should",
        "lifecycle.version.respect",
        "lifecycle.version.respect.should",
        "lifecycle.no-requests-before-initialized",
        "roots.capability-checked",
    ],
    read: only_negotiated,
}];

/// For each undeclared feature its method is called. A list with something in it is a missing
/// declaration; an empty one is a note; -32601 is what the text asks for.
fn undeclared_methods(ctx: &mut Context<'_>) {
    const CODE: &str = "lifecycle.capability.undeclared-method";
    let mut asked = false;
    for (method, items, capability) in LISTS {
        let rule = match capability {
            "tools" => "tools.capability-declared",
            "resources" => "resources.capability-declared",
            _ => "prompts.capability-declared",
        };
        if ctx.facts.declares(capability) {
            ctx.judge.holds(rule);
            continue;
        }
        asked = true;
        undeclared(ctx, rule, capability, method, None, Some(items));
    }
    let rule = "completion.capability-declared";
    if ctx.facts.declares("completions") {
        ctx.judge.holds(rule);
    } else if ctx.revision() >= Revision::V2025_03_26 {
        asked = true;
        let params = json!({"ref": {"type": "ref/prompt", "name": "touchstone-none"},
            "argument": {"name": "a", "value": ""}});
        undeclared(
            ctx,
            rule,
            "completions",
            "completion/complete",
            Some(params),
            None,
        );
    }
    if ctx.handshake() && !ctx.facts.declares("logging") {
        asked = true;
        // Nothing else is judged: a server that accepts a level and never logs breaks no rule.
        let params = json!({"level": "emergency"});
        match ctx.ask(&[CODE], "logging/setLevel", Some(params)) {
            Answer::Error { code, .. } => undeclared_code(ctx, "logging", "logging/setLevel", code),
            Answer::Result(_) => ctx.judge.note(
                CODE,
                "`logging/setLevel` is answered though `logging` is not declared.",
            ),
            Answer::None => {}
        }
    }
    if !asked {
        ctx.judge
            .not_applicable(CODE, "The server declares every capability.");
    }
}

fn undeclared(
    ctx: &mut Context<'_>,
    rule: &str,
    capability: &str,
    method: &str,
    params: Option<Value>,
    items: Option<&str>,
) {
    const CODE: &str = "lifecycle.capability.undeclared-method";
    let from = ctx.client.log().len();
    match ctx.ask(&[rule, CODE], method, params) {
        Answer::Error { code, .. } => {
            ctx.judge.holds(rule);
            undeclared_code(ctx, capability, method, code);
        }
        Answer::Result(result) => {
            let empty = match items {
                Some(items) => result
                    .get(items)
                    .and_then(Value::as_array)
                    .is_none_or(Vec::is_empty),
                None => result
                    .pointer("/completion/values")
                    .and_then(Value::as_array)
                    .is_none_or(Vec::is_empty),
            };
            if empty {
                let note = format!(
                    "`{method}` gives an empty list though `{capability}` is not declared."
                );
                ctx.judge.note(CODE, note.clone());
                ctx.judge.note(rule, note);
            } else {
                let evidence = ctx.evidence_from(from);
                let message = format!(
                    "`{method}` is served, but the server does not declare `{capability}`."
                );
                ctx.judge.broken(rule, message, evidence);
            }
        }
        Answer::None => {}
    }
}

fn undeclared_code(ctx: &mut Context<'_>, capability: &str, method: &str, code: Option<i64>) {
    const CODE: &str = "lifecycle.capability.undeclared-method";
    if code == Some(-32601) {
        ctx.judge.holds(CODE);
    } else {
        let code = code.map_or("no integer code".to_owned(), |code| format!("code {code}"));
        let note = format!("`{method}` without `{capability}`: {code} instead of -32601.");
        ctx.judge.note(CODE, note);
    }
}

/// Nothing says what a second `initialize` gives; but the server must live on.
fn second_initialize(ctx: &mut Context<'_>) {
    const RULE: &str = "stdio.survives-valid-traffic";
    let from = ctx.client.log().len();
    let params = initialize_params(ctx.revision().as_str(), &Map::new());
    // The client is in the wrong here: what the server says is its own business.
    let _ = ctx.client.request("initialize", Some(params));
    if ctx.client.barrier() {
        return;
    }
    ctx.doubtful = true;
    let evidence = ctx.evidence_from(from);
    ctx.judge.broken_as(
        RULE,
        Breach::Warn,
        "A second `initialize` leaves the server without an answer to the next request.",
        evidence,
    );
}

/// The first revision that knows a request or notification of the server.
fn known_since(method: &str) -> Option<(Revision, Revision)> {
    use Revision::{V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28};
    Some(match method {
        "ping" | "roots/list" | "sampling/createMessage" => (V2024_11_05, V2025_11_25),
        "elicitation/create" => (V2025_06_18, V2025_11_25),
        "notifications/elicitation/complete"
        | "notifications/tasks/status"
        | "tasks/get"
        | "tasks/result"
        | "tasks/cancel"
        | "tasks/list" => (V2025_11_25, V2025_11_25),
        "notifications/subscriptions/acknowledged" => (V2026_07_28, V2026_07_28),
        "notifications/progress"
        | "notifications/message"
        | "notifications/cancelled"
        | "notifications/tools/list_changed"
        | "notifications/prompts/list_changed"
        | "notifications/resources/list_changed"
        | "notifications/resources/updated" => (V2024_11_05, V2026_07_28),
        _ => return None,
    })
}

fn only_negotiated(exchange: &Exchange<'_>, judge: &mut Judge) {
    const RULES: [&str; 2] = [
        "lifecycle.capabilities.only-negotiated",
        "lifecycle.capabilities.only-negotiated.should",
    ];
    if exchange.revision.era() == Era::Stateless {
        judge.holds("roots.capability-checked");
        return;
    }
    let Some(server) = &exchange.server else {
        return;
    };
    for rule in RULES {
        judge.holds(rule);
    }
    judge.holds("roots.capability-checked");
    judge.holds("lifecycle.version.respect");
    judge.holds("lifecycle.version.respect.should");
    for message in &exchange.received {
        let (Kind::Request(method) | Kind::Notification(method)) = message.kind else {
            continue;
        };
        version_respected(exchange, message, method, judge);
        let need = match method {
            "roots/list" => "roots",
            "sampling/createMessage" => "sampling",
            "elicitation/create" => "elicitation",
            "notifications/tools/list_changed" => "tools.listChanged",
            "notifications/prompts/list_changed" => "prompts.listChanged",
            "notifications/resources/list_changed" => "resources.listChanged",
            "notifications/resources/updated" => "resources.subscribe",
            _ => continue,
        };
        let (side, capabilities) = if need.contains('.') {
            ("server", server)
        } else {
            ("client", &exchange.client)
        };
        let mut parts = need.split('.');
        let declared = parts
            .next()
            .and_then(|name| capabilities.get(name))
            .is_some_and(|value| {
                parts
                    .next()
                    .is_none_or(|flag| value.get(flag) == Some(&json!(true)))
            });
        if declared {
            continue;
        }
        let text =
            format!("The server sent `{method}` though the {side} did not declare `{need}`.");
        for rule in RULES {
            judge.broken(rule, text.clone(), exchange.evidence(message));
        }
        if method == "roots/list" {
            judge.broken("roots.capability-checked", text, exchange.evidence(message));
        }
    }
}

fn version_respected(
    exchange: &Exchange<'_>,
    message: &super::exchange::Received<'_>,
    method: &str,
    judge: &mut Judge,
) {
    let Some((first, last)) = known_since(method) else {
        judge.note(
            "lifecycle.version.respect",
            format!("The server sent `{method}`, which no revision knows."),
        );
        return;
    };
    if (Span { first, last }).contains(exchange.revision) {
        return;
    }
    let text = format!(
        "The server sent `{method}`, which {} does not have.",
        exchange.revision
    );
    for rule in [
        "lifecycle.version.respect",
        "lifecycle.version.respect.should",
    ] {
        judge.broken(rule, text.clone(), exchange.evidence(message));
    }
}

/// Judges an `initialize` or `server/discover` result as far as shapes do not.
pub(crate) fn negotiated(hello: &Value) -> Option<&str> {
    hello.get("protocolVersion").and_then(Value::as_str)
}
