//! `basic/utilities/ping`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::exchange::{Exchange, Kind};
use super::{Answer, Check, Context, Observer, Run, Session};
use crate::run::Judge;
use crate::spec::requirement::Breach;
use crate::spec::{Revision, Span};

/// An answer later than this is not prompt.
const PROMPT: Duration = Duration::from_secs(2);

pub(super) const CHECKS: &[Check] = &[Check {
    name: "ping",
    requirements: &["ping.responds", "ping.empty-result"],
    span: Span {
        first: Revision::V2024_11_05,
        last: Revision::V2025_11_25,
    },
    session: Session::Shared,
    run: Run::Code(ping),
}];

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "ping.server-side-rate",
    requirements: &["ping.server-side-rate"],
    read: server_side_rate,
}];

fn ping(ctx: &mut Context<'_>) {
    for params in [None, Some(json!({}))] {
        let from = ctx.client.log().len();
        let sent = Instant::now();
        match ctx.ask(&["ping.responds", "ping.empty-result"], "ping", params) {
            Answer::Result(result) => {
                let took = sent.elapsed();
                if took > PROMPT {
                    ctx.doubtful = true;
                    let evidence = ctx.evidence_from(from);
                    let message = format!("`ping` was answered after {:.1} s.", took.as_secs_f32());
                    ctx.judge
                        .broken_as("ping.responds", Breach::Warn, message, evidence);
                } else {
                    ctx.judge.holds("ping.responds");
                }
                empty_result(ctx, "ping.empty-result", "ping", &result, from);
            }
            Answer::Error { error, .. } => {
                let evidence = ctx.evidence_from(from);
                let message = format!("`ping` gave an error: {error}");
                ctx.judge.broken("ping.responds", message, evidence);
                ctx.judge.blocked("ping.empty-result", "ping.responds");
            }
            Answer::None => return,
        }
    }
}

/// An empty result holds nothing but `_meta`; a dual-era server may add `resultType`.
pub(super) fn empty_result(
    ctx: &mut Context<'_>,
    rule: &str,
    method: &str,
    result: &Value,
    from: usize,
) {
    let members: Vec<&str> = result
        .as_object()
        .into_iter()
        .flat_map(|object| object.keys())
        .map(String::as_str)
        .filter(|name| !matches!(*name, "_meta" | "resultType"))
        .collect();
    if members.is_empty() {
        ctx.judge.holds(rule);
    } else {
        let evidence = ctx.evidence_from(from);
        let message = format!(
            "The result of `{method}` is to be empty; it has `{}`.",
            members.join("`, `")
        );
        ctx.judge.broken_as(rule, Breach::Warn, message, evidence);
    }
}

fn server_side_rate(exchange: &Exchange<'_>, judge: &mut Judge) {
    const RULE: &str = "ping.server-side-rate";
    let pings: Vec<_> = exchange
        .received
        .iter()
        .filter(|message| message.kind == Kind::Request("ping"))
        .collect();
    let (Some(first), Some(last)) = (pings.first(), pings.last()) else {
        judge.not_applicable(RULE, "The server sent no ping.");
        return;
    };
    let span = exchange.log[last.at]
        .at
        .saturating_sub(exchange.log[first.at].at);
    // More than one a second over the time in which they came, with room for a burst of two in
    // each session.
    let room = 2 * exchange.greetings_before(last.at).max(1);
    if pings.len() > room && pings.len() as f64 > span.as_secs_f64() + room as f64 {
        let text = format!("{} pings within {:.1} s.", pings.len(), span.as_secs_f64());
        judge.broken(RULE, text, exchange.evidence(last));
    } else {
        judge.holds(RULE);
    }
}
