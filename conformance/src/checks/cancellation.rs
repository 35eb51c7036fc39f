//! `basic/utilities/cancellation`.

use serde_json::{Value, json};

use super::exchange::{Exchange, Kind, SentKind};
use super::{Check, Context, Observer, Run, Session};
use crate::run::Judge;
use crate::spec::{Era, Span};

pub(super) const CHECKS: &[Check] = &[Check {
    name: "cancellation.race",
    requirements: &["cancellation.race-graceful"],
    span: Span::ALL,
    session: Session::Rough,
    run: Run::Code(race),
}];

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "cancellation.from-server",
    requirements: &[
        "cancellation.server-sent.valid-target",
        "cancellation.server-sent.only-listen",
    ],
    read: from_server,
}];

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
    if ctx.patient_barrier() {
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
