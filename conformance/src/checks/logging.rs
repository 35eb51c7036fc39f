//! `server/utilities/logging`.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::exchange::{Exchange, Kind, SentKind};
use super::{Answer, Check, Context, Observer, Run, Session};
use crate::run::{Does, Judge, Occasion};
use crate::spec::{Era, Revision, Span};

const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];
const HANDSHAKE: Span = Span {
    first: Revision::V2024_11_05,
    last: Revision::V2025_11_25,
};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "logging.set-level",
        requirements: &["logging.set-level.ack"],
        span: HANDSHAKE,
        session: Session::Shared,
        run: Run::Code(set_level),
    },
    Check {
        name: "logging.from-a-level",
        requirements: &[
            "logging.level-filter",
            "logging.opt-in.level",
            "logging.request-scoped",
        ],
        span: Span::ALL,
        session: Session::Able,
        run: Run::Occasion(&[Does::Logs], from_a_level),
    },
];

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "logging.messages",
    requirements: &[
        "logging.capability-declared",
        "logging.opt-in",
        "logging.opt-in.level",
        "logging.request-scoped",
        "logging.level-filter",
    ],
    read: messages,
}];

fn set_level(ctx: &mut Context<'_>) {
    const ACK: &str = "logging.set-level.ack";
    const INVALID: &str = "logging.set-level.invalid";
    if !ctx.needs("logging", &[ACK, INVALID]) {
        return;
    }
    // The last level that is set is the one in force for the rest of the session.
    for level in LEVELS {
        let from = ctx.client.log().len();
        match ctx.ask(&[ACK], "logging/setLevel", Some(json!({"level": level}))) {
            Answer::Result(result) => {
                super::ping::empty_result(ctx, ACK, "logging/setLevel", &result, from)
            }
            Answer::Error { error, .. } => {
                let evidence = ctx.evidence_from(from);
                ctx.judge.broken(
                    ACK,
                    format!("The level `{level}` is refused: {error}"),
                    evidence,
                );
            }
            Answer::None => return,
        }
    }
}

fn rank(level: &str) -> Option<usize> {
    LEVELS.iter().position(|name| *name == level)
}

fn messages(exchange: &Exchange<'_>, judge: &mut Judge) {
    let stateless = exchange.revision.era() == Era::Stateless;
    if stateless {
        judge.holds("logging.opt-in");
    }
    // Looked up once: a flood has hundreds of thousands of messages.
    let answered = exchange.first_replies();
    let set = levels_set(exchange);
    for message in &exchange.received {
        if message.kind != Kind::Notification("notifications/message") {
            continue;
        }
        if let Some(server) = &exchange.server {
            if server.contains_key("logging") {
                judge.holds("logging.capability-declared");
            } else {
                judge.broken(
                    "logging.capability-declared",
                    "The server sends log messages but does not declare `logging`.",
                    exchange.evidence(message),
                );
            }
        }
        let level = message
            .value
            .pointer("/params/level")
            .and_then(Value::as_str)
            .and_then(rank);
        if stateless {
            opted_in(exchange, &answered, message, level, judge);
        } else {
            filtered(exchange, &set, message, level, judge);
        }
    }
}

/// The levels that the server acknowledged, each with the place of its reply, in their order.
fn levels_set(exchange: &Exchange<'_>) -> Vec<(usize, usize)> {
    let results = exchange.results("logging/setLevel");
    let set = results.filter_map(|(reply, _)| match reply.kind {
        Kind::Response {
            request: Some(index),
        } => match &exchange.sent[index].kind {
            SentKind::Request { params, .. } => {
                Some((reply.at, rank(params.get("level")?.as_str()?)?))
            }
            _ => None,
        },
        _ => None,
    });
    set.collect()
}

/// The level asked for by each request that was in flight when the message came; the second part
/// tells the ones that were already answered.
fn opted_in(
    exchange: &Exchange<'_>,
    answered: &HashMap<usize, usize>,
    message: &super::exchange::Received<'_>,
    level: Option<usize>,
    judge: &mut Judge,
) {
    let mut open = Vec::new();
    let mut closed = false;
    for (index, sent) in exchange.sent.iter().enumerate() {
        let SentKind::Request { params, .. } = &sent.kind else {
            continue;
        };
        let asked = params
            .pointer("/_meta/io.modelcontextprotocol~1logLevel")
            .and_then(Value::as_str)
            .and_then(rank);
        let Some(asked) = asked.filter(|_| sent.at < message.at) else {
            continue;
        };
        if answered.get(&index).is_some_and(|at| *at < message.at) {
            closed = true;
        } else {
            open.push(asked);
        }
    }
    let evidence = || exchange.evidence(message);
    if message
        .value
        .pointer("/params/_meta/io.modelcontextprotocol~1subscriptionId")
        .is_some()
    {
        judge.broken(
            "logging.request-scoped",
            "A log message was sent on a subscription.",
            evidence(),
        );
    }
    match (open.iter().min(), closed) {
        (Some(least), _) => {
            judge.holds("logging.request-scoped");
            if level.is_some_and(|level| level < *least) {
                judge.broken(
                    "logging.opt-in.level",
                    "A log message lies below the level that was asked for.",
                    evidence(),
                );
            } else {
                judge.holds("logging.opt-in.level");
            }
        }
        (None, true) => judge.broken(
            "logging.request-scoped",
            "A log message came after the reply of its request.",
            evidence(),
        ),
        (None, false) => judge.broken(
            "logging.opt-in",
            "A log message was sent though no request asked for any.",
            evidence(),
        ),
    }
}

fn filtered(
    exchange: &Exchange<'_>,
    set: &[(usize, usize)],
    message: &super::exchange::Received<'_>,
    level: Option<usize>,
    judge: &mut Judge,
) {
    // The level that the server had acknowledged when it wrote the message.
    let before = set.iter().rev().find(|(at, _)| *at < message.at);
    let Some(&(_, set)) = before else {
        return;
    };
    if level.is_some_and(|level| level < set) {
        judge.broken(
            "logging.level-filter",
            format!(
                "A log message lies below the level `{}` that was set.",
                LEVELS[set]
            ),
            exchange.evidence(message),
        );
    } else {
        judge.holds("logging.level-filter");
    }
}

/// Asks for grave messages, then for all; the observer judges what comes.
fn from_a_level(ctx: &mut Context<'_>, occasion: &Occasion) {
    const RULES: &[&str] = &[
        "logging.level-filter",
        "logging.opt-in.level",
        "logging.request-scoped",
    ];
    if !ctx.needs("logging", RULES) {
        return;
    }
    for level in ["error", "debug"] {
        let params = if ctx.handshake() {
            let set = Some(json!({"level": level}));
            if matches!(ctx.ask(&[], "logging/setLevel", set), Answer::None) {
                return;
            }
            occasion.params.clone()
        } else {
            occasion.with("_meta", json!({"io.modelcontextprotocol/logLevel": level}))
        };
        if matches!(ctx.ask(&[], occasion.method, Some(params)), Answer::None) {
            return;
        }
    }
    ctx.client.barrier();
}
