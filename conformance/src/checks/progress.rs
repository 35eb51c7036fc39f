//! `basic/utilities/progress`.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::exchange::{Exchange, Kind, SentKind};
use super::{Answer, Check, Context, Observer, Run, Session};
use crate::run::{Does, Judge, Occasion};
use crate::spec::Span;
use crate::spec::requirement::Breach;

pub(super) const CHECKS: &[Check] = &[Check {
    name: "progress.tokens",
    requirements: &[
        "progress.token-echo",
        "progress.increasing",
        "progress.stop-after-completion",
        "progress.shape",
    ],
    span: Span::ALL,
    session: Session::Able,
    run: Run::Occasion(&[Does::Progress], tokens),
}];

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "progress.notifications",
    requirements: &[
        "progress.only-known-token",
        "progress.token-echo",
        "progress.increasing",
        "progress.stop-after-completion",
        "progress.hygiene",
        "progress.server-token",
    ],
    read: notifications,
}];

/// Where a token was given, and where its request was answered.
struct Token {
    given: usize,
    answered: Option<usize>,
    last: Option<f64>,
    count: usize,
}

fn notifications(exchange: &Exchange<'_>, judge: &mut Judge) {
    judge.holds("progress.only-known-token");
    let mut tokens: HashMap<String, Token> = HashMap::new();
    let replies = exchange.first_replies();
    for (index, sent) in exchange.sent.iter().enumerate() {
        let SentKind::Request { params, .. } = &sent.kind else {
            continue;
        };
        let Some(token) = params.pointer("/_meta/progressToken") else {
            continue;
        };
        // A task goes on after its first answer, and keeps its token.
        let is_task = params.get("task").is_some();
        tokens.insert(
            token.to_string(),
            Token {
                given: sent.at,
                answered: replies.get(&index).copied().filter(|_| !is_task),
                last: None,
                count: 0,
            },
        );
    }
    server_tokens(exchange, judge);
    for message in &exchange.received {
        if message.kind == Kind::Notification("notifications/progress") {
            one(exchange, message, &mut tokens, judge);
        }
    }
}

fn one(
    exchange: &Exchange<'_>,
    message: &super::exchange::Received<'_>,
    tokens: &mut HashMap<String, Token>,
    judge: &mut Judge,
) {
    let token = message
        .value
        .pointer("/params/progressToken")
        .cloned()
        .unwrap_or(Value::Null);
    let evidence = || exchange.evidence(message);
    let Some(known) = tokens
        .get_mut(&token.to_string())
        .filter(|t| t.given < message.at)
    else {
        let text = token
            .as_str()
            .map_or_else(|| token.to_string(), str::to_owned);
        let retyped = tokens.keys().any(|key| key.trim_matches('"') == text);
        if retyped {
            let message =
                format!("The progress token {token} has another JSON type than the one given.");
            judge.broken("progress.token-echo", message, evidence());
        } else {
            let message = format!("Progress for the token {token}, which no request gave.");
            judge.broken("progress.only-known-token", message, evidence());
        }
        return;
    };
    judge.holds("progress.token-echo");
    known.count += 1;
    if known.answered.is_some_and(|at| at < message.at) {
        judge.broken(
            "progress.stop-after-completion",
            "Progress was sent after the reply of its request.",
            evidence(),
        );
    } else {
        judge.holds("progress.stop-after-completion");
    }
    if let Some(value) = message
        .value
        .pointer("/params/progress")
        .and_then(Value::as_f64)
    {
        match known.last {
            Some(last) if value <= last => judge.broken(
                "progress.increasing",
                format!("`progress` went from {last} to {value}; it must rise."),
                evidence(),
            ),
            _ => judge.holds("progress.increasing"),
        }
        known.last = Some(value);
    }
    if known.count > 1_000 {
        let text = "More than 1,000 progress notifications for one request.";
        judge.broken_as("progress.hygiene", Breach::Warn, text, evidence());
    } else {
        judge.holds("progress.hygiene");
    }
}

/// Tokens that the server attaches to its own requests.
fn server_tokens(exchange: &Exchange<'_>, judge: &mut Judge) {
    const RULE: &str = "progress.server-token";
    for message in &exchange.received {
        if !matches!(message.kind, Kind::Request(_)) {
            continue;
        }
        match message.value.pointer("/params/_meta/progressToken") {
            Some(Value::String(_)) => judge.holds(RULE),
            Some(Value::Number(n)) if n.as_i64().is_some() => judge.holds(RULE),
            Some(other) => judge.broken(
                RULE,
                format!(
                    "The server's progress token is {other}; it must be a string or an integer."
                ),
                exchange.evidence(message),
            ),
            None => {}
        }
    }
}

/// Tokens that differ by their JSON type alone; the observer judges what comes.
fn tokens(ctx: &mut Context<'_>, occasion: &Occasion) {
    for token in [json!(7), json!("7")] {
        let params = occasion.with_token(&token);
        if matches!(ctx.ask(&[], occasion.method, Some(params)), Answer::None) {
            return;
        }
    }
    ctx.client.barrier();
}
