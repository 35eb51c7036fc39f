//! `basic/index#messages`: requests, responses, notifications, ids, errors.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::exchange::{Exchange, Kind, Received, Sent, SentKind};
use super::{Answer, Check, Context, Observer, Run, Session};
use crate::client::Reply;
use crate::run::Judge;
use crate::spec::requirement::Breach;
use crate::spec::{Era, Revision, Span};
use crate::wire::{Body, Event};

pub(super) const CHECKS: &[Check] = &[Check {
    name: "messages.ids",
    requirements: &[
        "jsonrpc.response.id-type",
        "jsonrpc.response.id-echo",
        "transport.utf8-input",
    ],
    span: Span::ALL,
    session: Session::Shared,
    run: Run::Code(ids),
}];

pub(super) const OBSERVERS: &[Observer] = &[
    Observer {
        name: "messages.envelope",
        requirements: &[
            "jsonrpc.version-member",
            "jsonrpc.params-object",
            "jsonrpc.notification.no-id",
            "jsonrpc.no-batch-output",
        ],
        read: envelope,
    },
    Observer {
        name: "messages.responses",
        requirements: &[
            "jsonrpc.response.exactly-one",
            "jsonrpc.response.id-echo",
            "jsonrpc.response.result-xor-error",
            "jsonrpc.response.result-object",
            "jsonrpc.error.unreadable-id",
            "jsonrpc.notification.no-response",
            "jsonrpc.notification.idless-request",
            "cancellation.race-graceful",
        ],
        read: responses,
    },
    Observer {
        name: "messages.errors",
        requirements: &[
            "jsonrpc.error.shape",
            "jsonrpc.error.code-integer",
            "jsonrpc.error.message-concise",
            "jsonrpc.error.reserved-range",
            "errors.reserved-mcp-range",
            "errors.retired-codes",
            "errors.application-codes",
        ],
        read: errors,
    },
];

/// Ids that every client may use: they must come back as they were, type and value.
fn ids(ctx: &mut Context<'_>) {
    const RULES: &[&str] = &["jsonrpc.response.id-type", "jsonrpc.response.id-echo"];
    let method = ctx.client.cheap_method();
    let long = "x".repeat(300);
    let probes = [
        json!(0),
        json!(-1),
        json!(2_147_483_648_i64),
        json!(9_007_199_254_740_991_i64),
        json!("700000007"),
        json!(""),
        json!("é-✓-🦀"),
        json!(long),
    ];
    for id in probes {
        let from = ctx.client.log().len();
        ctx.client.post(id.clone(), method, None);
        let until = std::time::Instant::now() + ctx.client.limits().request;
        let reply = ctx.client.reply(&id, until);
        if reply == Reply::Silence {
            // Perhaps it answered under another id: that is the fault, then.
            if let Some(other) = stray_response(ctx, from) {
                let rule = if same_text(&other, &id) {
                    "jsonrpc.response.id-type"
                } else {
                    "jsonrpc.response.id-echo"
                };
                let message = format!("A request with id {id} was answered with id {other}.");
                let evidence = ctx.evidence_from(from);
                ctx.judge.broken(rule, message, evidence);
                if !id.to_string().is_ascii() {
                    let evidence = ctx.evidence_from(from);
                    ctx.judge.broken(
                        "transport.utf8-input",
                        "Non-ASCII characters of an id did not come back.",
                        evidence,
                    );
                }
                continue;
            }
        }
        match ctx.settle(RULES, method, from, reply) {
            Answer::None => return,
            _ => {
                ctx.judge.holds("jsonrpc.response.id-type");
                ctx.judge.holds("jsonrpc.response.id-echo");
                if !id.to_string().is_ascii() {
                    ctx.judge.holds("transport.utf8-input");
                }
            }
        }
    }
}

/// The id of a response since `from` that answers no request of ours.
fn stray_response(ctx: &Context<'_>, from: usize) -> Option<Value> {
    let exchange = Exchange::read(
        ctx.revision(),
        ctx.client.log(),
        None,
        serde_json::Map::new(),
    );
    exchange
        .received
        .iter()
        .find(|m| m.at >= from && m.kind == Kind::Response { request: None })
        .map(|m| m.value.get("id").cloned().unwrap_or(Value::Null))
}

/// Whether two ids read the same though their types differ: 7 and "7".
fn same_text(a: &Value, b: &Value) -> bool {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number
            .as_f64()
            .map_or_else(|| number.to_string(), |n| n.to_string()),
        other => other.to_string(),
    };
    text(a) == text(b)
}

fn envelope(exchange: &Exchange<'_>, judge: &mut Judge) {
    for message in &exchange.received {
        if message.value.get("jsonrpc").and_then(Value::as_str) == Some("2.0") {
            judge.holds("jsonrpc.version-member");
        } else {
            let found = message
                .value
                .get("jsonrpc")
                .map_or("is missing".to_owned(), |v| format!("is {v}"));
            judge.broken(
                "jsonrpc.version-member",
                format!("`jsonrpc` {found}; it must be \"2.0\"."),
                exchange.evidence(message),
            );
        }
        if let Kind::Notification(method) = message.kind {
            if message.value.get("id").is_some() {
                let message_text = format!("The notification `{method}` has an `id`.");
                judge.broken(
                    "jsonrpc.notification.no-id",
                    message_text,
                    exchange.evidence(message),
                );
            } else {
                judge.holds("jsonrpc.notification.no-id");
            }
        }
        match message.value.get("params") {
            Some(Value::Object(_)) => judge.holds("jsonrpc.params-object"),
            Some(other) => judge.broken(
                "jsonrpc.params-object",
                format!("`params` is {}; it must be an object.", kind_of(other)),
                exchange.evidence(message),
            ),
            None => {}
        }
    }
    no_batch_output(exchange, judge);
}

fn no_batch_output(exchange: &Exchange<'_>, judge: &mut Judge) {
    // An array that answers an array of ours is told by `batch.removed`.
    let sent_array = exchange.log.iter().any(|entry| {
        matches!(&entry.event, Event::Sent(bytes) if bytes.trim_ascii_start().starts_with(b"["))
    });
    if sent_array {
        return;
    }
    let array = exchange.log.iter().position(|entry| {
        matches!(&entry.event, Event::Received(line)
            if matches!(&line.body, Body::Json(json) if json.value.is_array()))
    });
    match array {
        Some(at) => judge.broken(
            "jsonrpc.no-batch-output",
            "The server wrote a JSON array; batches were removed in 2025-06-18.",
            super::exchange::evidence(exchange.log, [at]),
        ),
        None => judge.holds("jsonrpc.no-batch-output"),
    }
}

/// The JSON type of a value, in words.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn responses(exchange: &Exchange<'_>, judge: &mut Judge) {
    let mut count: HashMap<usize, Vec<&Received<'_>>> = HashMap::new();
    // How often each id was asked for: a client may use an id again once it was answered.
    let mut asked: HashMap<String, usize> = HashMap::new();
    for sent in &exchange.sent {
        if let SentKind::Request { id, .. } = &sent.kind {
            *asked.entry(id.to_string()).or_default() += 1;
        }
    }
    let odd = unreadable(exchange);
    let lost = lost_requests(exchange);
    let mut found = 0;
    for message in &exchange.received {
        let Kind::Response { request } = message.kind else {
            continue;
        };
        result_xor_error(exchange, message, judge);
        match request {
            Some(index) => {
                count.entry(index).or_default().push(message);
                judge.holds("jsonrpc.response.id-echo");
            }
            None => {
                // A reply without an id may be that of a request that was sent before it.
                let before = lost.iter().filter(|at| **at < message.at).count();
                found += usize::from(stray(exchange, message, &odd, before > found, judge));
            }
        }
    }
    unanswered(exchange, &count, &asked, judge);
    let cancelled = cancelled(exchange);
    for (index, messages) in count {
        let SentKind::Request { id, .. } = &exchange.sent[index].kind else {
            continue;
        };
        if messages.len() > asked.get(&id.to_string()).copied().unwrap_or(1) {
            let mut lines = vec![exchange.sent[index].at];
            lines.extend(messages.iter().map(|m| m.at));
            let rule = if cancelled.contains(&id.to_string()) {
                "cancellation.race-graceful"
            } else {
                "jsonrpc.response.exactly-one"
            };
            judge.broken(
                rule,
                format!(
                    "The request with id {id} was answered {} times.",
                    messages.len()
                ),
                super::exchange::evidence(exchange.log, lines),
            );
        } else {
            judge.holds("jsonrpc.response.exactly-one");
        }
    }
}

/// Where requests were sent that got no reply under their id.
fn lost_requests(exchange: &Exchange<'_>) -> Vec<usize> {
    let id_of = |sent: &Sent| match &sent.kind {
        SentKind::Request { id, .. } => Some(id.to_string()),
        _ => None,
    };
    let answered: HashSet<String> = exchange
        .received
        .iter()
        .filter_map(|message| match message.kind {
            Kind::Response { request } => id_of(&exchange.sent[request?]),
            _ => None,
        })
        .collect();
    // What was cancelled may stay without one.
    let cancelled = cancelled(exchange);
    // The reply to the last one may still be on its way.
    let last = exchange.sent.last().map_or(0, |sent| sent.at);
    let requests = exchange.sent.iter().filter(|sent| {
        let SentKind::Request { id, method, .. } = &sent.kind else {
            return false;
        };
        let id = id.to_string();
        method != "subscriptions/listen"
            && !cancelled.contains(&id)
            && !answered.contains(&id)
            && sent.at < last
    });
    requests.map(|sent| sent.at).collect()
}

/// Shorter lines than this every server reads; longer ones have a rule of their own.
const SHORT: usize = 64 << 10;

/// Where lines were sent that a server may refuse without reading their id: what is no message,
/// batches, and lines longer than its bound may be.
fn unreadable(exchange: &Exchange<'_>) -> Vec<usize> {
    let odd = exchange
        .sent
        .iter()
        .filter(|sent| matches!(sent.kind, SentKind::Odd { .. } | SentKind::Batch))
        .map(|sent| sent.at);
    let long = exchange
        .log
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| match &entry.event {
            Event::Sent(bytes) if bytes.len() > SHORT => Some(at),
            _ => None,
        });
    odd.chain(long).collect()
}

/// The ids of requests that we cancelled.
fn cancelled(exchange: &Exchange<'_>) -> HashSet<String> {
    let ids = exchange.sent.iter().filter_map(|sent| match &sent.kind {
        SentKind::Notification { method, params } if method == "notifications/cancelled" => {
            params.get("requestId").map(Value::to_string)
        }
        _ => None,
    });
    ids.collect()
}

/// Requests that were waited for and never answered: not those that were cancelled, nor those that
/// stay open by their nature.
fn unanswered(
    exchange: &Exchange<'_>,
    answered: &HashMap<usize, Vec<&Received<'_>>>,
    asked: &HashMap<String, usize>,
    judge: &mut Judge,
) {
    let cancelled = cancelled(exchange);
    let Some(end) = exchange.log.last().map(|entry| entry.at) else {
        return;
    };
    for (index, sent) in exchange.sent.iter().enumerate() {
        let SentKind::Request { id, method, .. } = &sent.kind else {
            continue;
        };
        let long =
            matches!(&exchange.log[sent.at].event, Event::Sent(bytes) if bytes.len() > SHORT);
        let waited = end.saturating_sub(exchange.log[sent.at].at) >= exchange.patience;
        let open = method == "subscriptions/listen" || cancelled.contains(&id.to_string());
        // What stands in a batch, the rules of batches tell of.
        let batched = exchange
            .sent
            .iter()
            .any(|other| other.at == sent.at && matches!(other.kind, SentKind::Batch));
        // Which of two requests under one id a reply belongs to nobody can say.
        let twice = asked.get(&id.to_string()).is_some_and(|times| *times > 1);
        if waited && !open && !long && !batched && !twice && !answered.contains_key(&index) {
            judge.broken(
                "jsonrpc.response.exactly-one",
                format!("`{method}` with id {id} was never answered."),
                super::exchange::evidence(exchange.log, [sent.at]),
            );
        }
    }
}

/// A response whose id is none of ours. True when it stands for a request that got no reply.
fn stray(
    exchange: &Exchange<'_>,
    message: &Received<'_>,
    odd: &[usize],
    request_lost: bool,
    judge: &mut Judge,
) -> bool {
    let id = message.value.get("id").cloned().unwrap_or(Value::Null);
    let after_odd = odd.iter().any(|at| *at < message.at);
    if id.is_null() {
        if after_odd {
            judge.holds("jsonrpc.error.unreadable-id");
        } else if request_lost {
            judge.broken(
                "jsonrpc.response.id-echo",
                "A response without a usable id, though every request was readable.",
                exchange.evidence(message),
            );
        } else {
            let before = exchange.sent.iter().rev().find(|sent| {
                sent.at < message.at && matches!(sent.kind, SentKind::Notification { .. })
            });
            let lines = before.map(|sent| sent.at).into_iter().chain([message.at]);
            let known = |sent: &Sent| matches!(&sent.kind, SentKind::Notification { method, .. } if !method.starts_with("notifications/"));
            let rule = match before {
                Some(sent) if known(sent) => "jsonrpc.notification.idless-request",
                _ => "jsonrpc.notification.no-response",
            };
            judge.broken(
                rule,
                "A response without an id: something that is no request was answered.",
                super::exchange::evidence(exchange.log, lines),
            );
        }
        return !after_odd && request_lost;
    }
    let same_value = exchange.sent.iter().any(|sent| match &sent.kind {
        SentKind::Request { id: ours, .. } => same_text(ours, &id),
        _ => false,
    });
    let from_odd = exchange.sent.iter().any(|sent| {
        matches!(&sent.kind, SentKind::Odd { id: Some(theirs) } | SentKind::Response { id: theirs }
            if same_text(theirs, &id) || *theirs == id)
    });
    if from_odd {
        // It read the id of a broken message: fair.
        judge.holds("jsonrpc.error.unreadable-id");
    } else if after_odd {
        judge.broken(
            "jsonrpc.error.unreadable-id",
            format!("A message that could not be read was answered with the invented id {id}."),
            exchange.evidence(message),
        );
    } else if same_value {
        judge.broken(
            "jsonrpc.response.id-type",
            format!("A response has id {id}; the request had it with another JSON type."),
            exchange.evidence(message),
        );
    } else {
        judge.broken(
            "jsonrpc.response.id-echo",
            format!("A response has id {id}, which no request had."),
            exchange.evidence(message),
        );
    }
    false
}

fn result_xor_error(exchange: &Exchange<'_>, message: &Received<'_>, judge: &mut Judge) {
    let result = message.value.get("result");
    let error = message.value.get("error");
    match (result, error) {
        (Some(_), Some(_)) => judge.broken(
            "jsonrpc.response.result-xor-error",
            "A response has both `result` and `error`.",
            exchange.evidence(message),
        ),
        (None, None) => judge.broken(
            "jsonrpc.response.result-xor-error",
            "A response has neither `result` nor `error`.",
            exchange.evidence(message),
        ),
        _ => judge.holds("jsonrpc.response.result-xor-error"),
    }
    match result {
        Some(Value::Object(_)) => judge.holds("jsonrpc.response.result-object"),
        Some(other) => judge.broken(
            "jsonrpc.response.result-object",
            format!("`result` is {}; it must be an object.", kind_of(other)),
            exchange.evidence(message),
        ),
        None => {}
    }
}

fn errors(exchange: &Exchange<'_>, judge: &mut Judge) {
    let mut seen = HashSet::new();
    for message in &exchange.received {
        let Some(error) = message.value.get("error").filter(|error| !error.is_null()) else {
            continue;
        };
        if matches!(message.kind, Kind::Response { .. }) {
            error_shape(exchange, message, error, judge);
            if let Some(code) = error.get("code").and_then(Value::as_i64)
                && seen.insert((code, exchange.method_of(message).map(str::to_owned)))
            {
                error_code(exchange, message, code, judge);
            }
        }
    }
}

fn error_shape(exchange: &Exchange<'_>, message: &Received<'_>, error: &Value, judge: &mut Judge) {
    let mut faults = Vec::new();
    match error.get("code") {
        None => faults.push("`code` is missing".to_owned()),
        Some(Value::Number(code)) if code.as_i64().is_some() => {
            judge.holds("jsonrpc.error.code-integer");
        }
        Some(code) => {
            judge.broken(
                "jsonrpc.error.code-integer",
                format!("The error code is {code}; it must be an integer."),
                exchange.evidence(message),
            );
        }
    }
    match error.get("message") {
        Some(Value::String(text)) => concise(exchange, message, text, judge),
        None => faults.push("`message` is missing".to_owned()),
        Some(other) => faults.push(format!("`message` is {}", kind_of(other))),
    }
    if !error.is_object() {
        faults = vec![format!("`error` is {}", kind_of(error))];
    }
    if faults.is_empty() {
        judge.holds("jsonrpc.error.shape");
    } else {
        judge.broken(
            "jsonrpc.error.shape",
            format!(
                "An error is an object with an integer `code` and a string `message`: {}.",
                faults.join(", ")
            ),
            exchange.evidence(message),
        );
    }
}

fn concise(exchange: &Exchange<'_>, message: &Received<'_>, text: &str, judge: &mut Judge) {
    const RULE: &str = "jsonrpc.error.message-concise";
    let length = text.chars().count();
    if text.trim_end().contains('\n') || length > 300 {
        let text = format!(
            "An error message of {length} characters, {} lines.",
            text.lines().count()
        );
        judge.broken(RULE, text, exchange.evidence(message));
    } else {
        judge.holds(RULE);
    }
}

fn error_code(exchange: &Exchange<'_>, message: &Received<'_>, code: i64, judge: &mut Judge) {
    const STANDARD: [i64; 5] = [-32700, -32600, -32601, -32602, -32603];
    let evidence = || exchange.evidence(message);
    if (-32768..=-32100).contains(&code) && !STANDARD.contains(&code) {
        let text = format!("Error code {code} lies in the range that JSON-RPC reserves.");
        judge.broken("jsonrpc.error.reserved-range", text, evidence());
    } else {
        judge.holds("jsonrpc.error.reserved-range");
    }
    // The codes of this revision bind replies to modern requests only.
    if exchange.revision.era() != Era::Stateless || !answers_modern(exchange, message) {
        return;
    }
    if (-32099..=-32020).contains(&code) && !(-32022..=-32021).contains(&code) {
        let text =
            format!("Error code {code} is reserved for the protocol and has no meaning here.");
        judge.broken("errors.reserved-mcp-range", text, evidence());
    } else {
        judge.holds("errors.reserved-mcp-range");
    }
    if matches!(code, -32002 | -32042) {
        let text = format!("Error code {code} was retired.");
        judge.broken("errors.retired-codes", text, evidence());
    } else {
        judge.holds("errors.retired-codes");
    }
    let in_reserved = (-32768..=-32000).contains(&code);
    if in_reserved && (-32019..=-32000).contains(&code) && code != -32002 {
        let text =
            format!("Error code {code}: codes of a server's own lie outside -32768 to -32000.");
        judge.broken_as("errors.application-codes", Breach::Warn, text, evidence());
    } else {
        judge.holds("errors.application-codes");
    }
}

/// Whether a response answers a request that was made in the revision of the stateless era.
pub(super) fn answers_modern(exchange: &Exchange<'_>, message: &Received<'_>) -> bool {
    let Kind::Response {
        request: Some(index),
    } = message.kind
    else {
        return false;
    };
    match &exchange.sent[index].kind {
        SentKind::Request { params, .. } => {
            exchange.revision >= Revision::V2026_07_28
                && params
                    .pointer("/_meta/io.modelcontextprotocol~1protocolVersion")
                    .and_then(Value::as_str)
                    == Some(exchange.revision.as_str())
        }
        _ => false,
    }
}
