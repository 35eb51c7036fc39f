//! `basic/utilities/cancellation`.

use std::time::Instant;

use serde_json::{Value, json};

use super::exchange::{Exchange, Kind, SentKind};
use super::{Check, Context, Observer, Session};
use crate::run::Judge;
use crate::spec::{Era, Span};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "cancellation.ignored",
        requirements: &[
            "cancellation.unknown-id-ignored",
            "cancellation.completed-id-ignored",
            "cancellation.malformed-ignored",
        ],
        span: Span::ALL,
        session: Session::Shared,
        run: ignored,
    },
    Check {
        name: "cancellation.race",
        requirements: &["cancellation.race-graceful"],
        span: Span::ALL,
        session: Session::Rough,
        run: race,
    },
];

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "cancellation.from-server",
    requirements: &[
        "cancellation.server-sent.valid-target",
        "cancellation.server-sent.only-listen",
    ],
    read: from_server,
}];

/// Cancellations that name nothing in flight: nothing comes back, and the server goes on.
fn ignored(ctx: &mut Context<'_>) {
    let method = ctx.cheap_method();
    let done = ctx.client.fresh_id();
    ctx.client.post(done.clone(), method, None);
    let until = Instant::now() + ctx.client.limits().request;
    let _ = ctx.client.reply(&done, until);
    let cases = [
        (
            "cancellation.unknown-id-ignored",
            json!({"requestId": "touchstone-never-used"}),
        ),
        (
            "cancellation.completed-id-ignored",
            json!({"requestId": done}),
        ),
        ("cancellation.malformed-ignored", json!({})),
        ("cancellation.malformed-ignored", json!({"requestId": {}})),
    ];
    for (rule, params) in cases {
        let from = ctx.client.log().len();
        ctx.client.notify("notifications/cancelled", Some(params));
        if !ctx.client.barrier() {
            ctx.doubtful = true;
            let evidence = ctx.evidence_from(from);
            let message = "After this cancellation the next request is not answered.";
            ctx.judge.broken(rule, message, evidence);
            return;
        }
        let exchange = Exchange::read(
            ctx.revision(),
            ctx.client.log(),
            None,
            serde_json::Map::new(),
        );
        let stray = exchange
            .received
            .iter()
            .any(|m| m.at >= from && m.kind == Kind::Response { request: None });
        if stray {
            let evidence = ctx.evidence_from(from);
            ctx.judge
                .broken(rule, "The cancellation was answered.", evidence);
        } else {
            ctx.judge.holds(rule);
        }
    }
}

/// A request and its cancellation back to back, many times.
fn race(ctx: &mut Context<'_>) {
    const RULE: &str = "cancellation.race-graceful";
    let method = super::LISTS
        .iter()
        .find(|(_, _, capability)| ctx.facts.declares(capability))
        .map_or(ctx.cheap_method(), |(method, _, _)| *method);
    let from = ctx.client.log().len();
    for _ in 0..20 {
        let id = ctx.client.fresh_id();
        ctx.client.post(id.clone(), method, None);
        ctx.client
            .notify("notifications/cancelled", Some(json!({"requestId": id})));
    }
    if ctx.client.barrier() {
        ctx.judge.holds(RULE);
    } else {
        ctx.doubtful = true;
        let evidence = ctx.evidence_from(from);
        let message =
            "After requests that were cancelled at once, the next request is not answered.";
        ctx.judge.broken(RULE, message, evidence);
    }
}

fn from_server(exchange: &Exchange<'_>, judge: &mut Judge) {
    let stateless = exchange.revision.era() == Era::Stateless;
    if stateless {
        judge.holds("cancellation.server-sent.only-listen");
    }
    for message in &exchange.received {
        if message.kind != Kind::Notification("notifications/cancelled") {
            continue;
        }
        let target = message
            .value
            .pointer("/params/requestId")
            .cloned()
            .unwrap_or(Value::Null);
        if stateless {
            let listen = exchange.sent.iter().any(|sent| {
                sent.at < message.at
                    && matches!(&sent.kind, SentKind::Request { id, method, .. }
                        if *id == target && method == "subscriptions/listen")
            });
            if !listen {
                judge.broken(
                    "cancellation.server-sent.only-listen",
                    format!("The server cancelled {target}, which is no listen request."),
                    exchange.evidence(message),
                );
            }
            continue;
        }
        let own = exchange.received.iter().any(|request| {
            request.at < message.at
                && matches!(request.kind, Kind::Request(_))
                && request.value.get("id") == Some(&target)
        });
        if own {
            judge.holds("cancellation.server-sent.valid-target");
        } else {
            judge.broken(
                "cancellation.server-sent.valid-target",
                format!("The server cancelled {target}, which is no request of its own."),
                exchange.evidence(message),
            );
        }
    }
}
