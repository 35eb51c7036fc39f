//! `basic/index#batching`: received in 2025-03-26, gone from 2025-06-18 on.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Check, Context, Run, Session};
use crate::client::Reply;
use crate::spec::requirement::Breach;
use crate::spec::{Revision, Span};

const BATCHES: Span = Span {
    first: Revision::V2025_03_26,
    last: Revision::V2025_03_26,
};

const fn batch(
    name: &'static str,
    requirements: &'static [&'static str],
    run: fn(&mut Context<'_>),
) -> Check {
    Check {
        name,
        requirements,
        span: BATCHES,
        session: Session::Own,
        run: Run::Code(run),
    }
}

/// Each in a process of its own: some servers end at one of them.
pub(super) const CHECKS: &[Check] = &[
    batch(
        "batch.receive",
        &["batch.receive", "batch.response-array"],
        receive,
    ),
    batch(
        "batch.notifications",
        &["batch.notifications-silent"],
        notifications_silent,
    ),
    batch("batch.empty-array", &["batch.empty-array"], empty_array),
    batch(
        "batch.invalid-element",
        &["batch.invalid-element"],
        invalid_element,
    ),
    Check {
        name: "batch.removed",
        requirements: &["batch.removed"],
        span: Span {
            first: Revision::V2025_06_18,
            last: Revision::V2026_07_28,
        },
        session: Session::Own,
        run: Run::Code(removed),
    },
];

/// Whether the server takes batches; if not, the rule does not apply.
fn takes_batches(ctx: &mut Context<'_>, rule: &str) -> bool {
    if !ctx.facts.batches {
        ctx.judge
            .not_applicable(rule, "The server takes no batches.");
    }
    ctx.facts.batches
}

/// The next request was not answered.
fn not_survived(ctx: &mut Context<'_>, rule: &str, from: usize, what: &str) {
    ctx.doubtful = true;
    let evidence = ctx.evidence_from(from);
    let message = format!("After {what} the next request is not answered.");
    ctx.judge.broken_as(rule, Breach::Warn, message, evidence);
}

fn send(ctx: &mut Context<'_>, batch: &Value) -> usize {
    let from = ctx.client.log().len();
    ctx.client.send(format!("{batch}\n").as_bytes());
    from
}

/// A server may answer what came after a batch before the batch: its reply gets this long behind
/// the answer to the next request.
const BEHIND: Duration = Duration::from_millis(100);

/// Whether the server answers the next request; what it has to say of the batch has come then.
fn settled(ctx: &mut Context<'_>) -> bool {
    let alive = ctx.client.barrier();
    if alive {
        ctx.client.listen(BEHIND);
    }
    alive
}

fn receive(ctx: &mut Context<'_>) {
    const RECEIVE: &str = "batch.receive";
    let (a, b) = (ctx.client.fresh_id(), ctx.client.fresh_id());
    let batch = json!([
        {"jsonrpc": "2.0", "id": a, "method": "ping"},
        {"jsonrpc": "2.0", "id": b, "method": "ping"},
    ]);
    let from = send(ctx, &batch);
    // A server that takes no batches says nothing, or refuses it; what follows must be answered.
    let alive = settled(ctx);
    let now = Instant::now();
    let replies = [ctx.client.reply(&a, now), ctx.client.reply(&b, now)];
    if !replies
        .iter()
        .all(|reply| matches!(reply, Reply::Result { .. }))
    {
        let evidence = ctx.evidence_from(from);
        let gone = if alive {
            ""
        } else {
            " The server does not answer any more."
        };
        let message = format!(
            "A batch of two requests was not served. Hardly any server does it, and 2025-06-18 removed batches.{gone}"
        );
        ctx.judge
            .broken_as(RECEIVE, Breach::Warn, message, evidence);
        ctx.judge
            .not_applicable("batch.response-array", "The server takes no batches.");
        return;
    }
    ctx.judge.holds(RECEIVE);
    ctx.facts.batches = true;
    let as_array = ctx
        .client
        .messages_since(from)
        .any(|message| message.as_array().is_some_and(|list| list.len() == 2));
    if as_array {
        ctx.judge.holds("batch.response-array");
    } else {
        let evidence = ctx.evidence_from(from);
        let message = "The replies to a batch did not come as one array.";
        ctx.judge
            .broken_as("batch.response-array", Breach::Warn, message, evidence);
    }
}

fn notifications_silent(ctx: &mut Context<'_>) {
    const RULE: &str = "batch.notifications-silent";
    if !takes_batches(ctx, RULE) {
        return;
    }
    let batch = json!([
        {"jsonrpc": "2.0", "method": "notifications/touchstone/a"},
        {"jsonrpc": "2.0", "method": "notifications/touchstone/b"},
    ]);
    let from = send(ctx, &batch);
    if !settled(ctx) {
        return not_survived(ctx, RULE, from, "a batch of notifications");
    }
    let answered = ctx
        .client
        .messages_since(from)
        .any(|message| message.is_array() || message.get("error").is_some());
    if answered {
        let evidence = ctx.evidence_from(from);
        ctx.judge.broken(
            RULE,
            "A batch of notifications alone was answered.",
            evidence,
        );
    } else {
        ctx.judge.holds(RULE);
    }
}

fn empty_array(ctx: &mut Context<'_>) {
    const RULE: &str = "batch.empty-array";
    if !takes_batches(ctx, RULE) {
        return;
    }
    let from = send(ctx, &json!([]));
    if !settled(ctx) {
        return not_survived(ctx, RULE, from, "an empty batch");
    }
    let refused = ctx
        .client
        .messages_since(from)
        .any(|message| message.pointer("/error/code") == Some(&json!(-32600)));
    if refused {
        ctx.judge.holds(RULE);
    } else {
        let evidence = ctx.evidence_from(from);
        let message = "An empty batch was not answered with one error -32600.";
        ctx.judge.broken_as(RULE, Breach::Warn, message, evidence);
    }
}

fn invalid_element(ctx: &mut Context<'_>) {
    const RULE: &str = "batch.invalid-element";
    if !takes_batches(ctx, RULE) {
        return;
    }
    let id = ctx.client.fresh_id();
    let from = send(
        ctx,
        &json!([1, {"jsonrpc": "2.0", "id": id, "method": "ping"}]),
    );
    let until = Instant::now() + ctx.client.limits().request;
    let served = matches!(ctx.client.reply(&id, until), Reply::Result { .. });
    settled(ctx);
    let refused = ctx
        .client
        .messages_since(from)
        .flat_map(|message| {
            message
                .as_array()
                .cloned()
                .unwrap_or_else(|| vec![message.clone()])
        })
        .any(|message| message.pointer("/error/code") == Some(&json!(-32600)));
    if served && refused {
        ctx.judge.holds(RULE);
    } else {
        let evidence = ctx.evidence_from(from);
        let message =
            "A batch with one invalid member: the member needs an error -32600, the rest a reply.";
        ctx.judge.broken_as(RULE, Breach::Warn, message, evidence);
    }
}

/// From 2025-06-18 on an array is no message. Silence and errors are fair; a reply is a warning.
fn removed(ctx: &mut Context<'_>) {
    const RULE: &str = "batch.removed";
    let id = ctx.client.fresh_id();
    let method = ctx.client.cheap_method();
    let request = ctx.client.line(Some(id.clone()), method, None);
    let from = ctx.client.log().len();
    ctx.client.send(format!("[{request}]\n").as_bytes());
    let alive = settled(ctx);
    let reply = ctx.client.reply(&id, Instant::now());
    let evidence = ctx.evidence_from(from);
    if let Reply::Result { .. } = reply {
        let message = "A batch is served, though this revision has none.";
        ctx.judge.broken_as(RULE, Breach::Warn, message, evidence);
    } else if alive {
        ctx.judge.holds(RULE);
        let refused = |message: &Value| message.get("error").is_some();
        if reply == Reply::Silence && !ctx.client.messages_since(from).any(refused) {
            let note = "A batch is passed over in silence: its sender waits. An error says why.";
            ctx.judge.note(RULE, note);
        }
    } else {
        ctx.doubtful = true;
        let message = "After a JSON array the next request is not answered.";
        ctx.judge.broken_as(RULE, Breach::Warn, message, evidence);
    }
}
