//! `client/*`: what the server asks of a client.

use std::collections::HashSet;

use serde_json::Value;

use super::exchange::{Exchange, Kind};
use super::{Check, Context, Observer, Run, Session};
use crate::run::Judge;
use crate::spec::{Era, Revision, Span};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "client-features.deprecated",
        requirements: &["client-features.deprecated"],
        span: Span {
            first: Revision::V2026_07_28,
            last: Revision::V2026_07_28,
        },
        session: Session::Shared,
        run: Run::Code(deprecated),
    },
    Check {
        name: "roots.list-changed",
        requirements: &["roots.list-changed-handled"],
        span: Span {
            first: Revision::V2024_11_05,
            last: Revision::V2025_11_25,
        },
        session: Session::Rough,
        run: Run::Code(roots_list_changed),
    },
];

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "client-features.requests",
    requirements: &["jsonrpc.request.id-valid", "jsonrpc.request.id-unique"],
    read: requests,
}];

fn deprecated(ctx: &mut Context<'_>) {
    const RULE: &str = "client-features.deprecated";
    if ctx.facts.declares("logging") {
        // Advice for new servers; one that serves older clients too has no choice.
        ctx.judge.note(
            RULE,
            "`logging` is declared; it is deprecated in 2026-07-28.",
        );
    } else {
        ctx.judge.holds(RULE);
    }
}

fn roots_list_changed(ctx: &mut Context<'_>) {
    const RULE: &str = "roots.list-changed-handled";
    let from = ctx.client.log().len();
    ctx.client.notify("notifications/roots/list_changed", None);
    if ctx.client.barrier() {
        ctx.judge.holds(RULE);
    } else {
        ctx.doubtful = true;
        let evidence = ctx.evidence_from(from);
        let message = "After `notifications/roots/list_changed` the next request is not answered.";
        ctx.judge.broken(RULE, message, evidence);
    }
}

fn requests(exchange: &Exchange<'_>, judge: &mut Judge) {
    const VALID: &str = "jsonrpc.request.id-valid";
    const UNIQUE: &str = "jsonrpc.request.id-unique";
    if exchange.revision.era() == Era::Stateless {
        return;
    }
    let mut seen = HashSet::new();
    for message in &exchange.received {
        let Kind::Request(method) = message.kind else {
            continue;
        };
        let id = message.value.get("id").cloned().unwrap_or(Value::Null);
        let valid = match &id {
            Value::String(_) => true,
            Value::Number(number) => number.as_i64().is_some() || number.as_u64().is_some(),
            _ => false,
        };
        if valid {
            judge.holds(VALID);
        } else {
            let text = format!(
                "The server's `{method}` has the id {id}; it must be a string or an integer."
            );
            judge.broken(VALID, text, exchange.evidence(message));
        }
        if seen.insert(id.to_string()) {
            judge.holds(UNIQUE);
        } else {
            let text = format!("The server used the request id {id} twice.");
            judge.broken(UNIQUE, text, exchange.evidence(message));
        }
    }
}
