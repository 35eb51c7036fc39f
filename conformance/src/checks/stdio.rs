//! `basic/transports#stdio`: framing, what may stand on standard output, the end of input.

use serde_json::{Value, json};

use super::exchange::{self, Exchange, Kind};
use super::{Check, Context, Observer, Run, Session};
use crate::client::Reply;
use crate::run::Judge;
use crate::spec::requirement::Breach;
use crate::spec::{Era, Span};
use crate::wire::{Body, Entry, Event, Line};

pub(super) const CHECKS: &[Check] = &[Check {
    name: "stdio.large-messages",
    requirements: &["stdio.large-messages"],
    span: Span::ALL,
    session: Session::Rough,
    run: Run::Code(large_messages),
}];

pub(super) const OBSERVERS: &[Observer] = &[
    Observer {
        name: "stdio.output",
        requirements: &[
            "stdio.stdout-only-messages",
            "stdio.no-embedded-newlines",
            "stdio.newline-terminated",
            "transport.utf8-output",
            "stdio.stderr-logging",
        ],
        read: output,
    },
    Observer {
        name: "stdio.no-server-requests",
        requirements: &["stdio.no-server-requests"],
        read: server_requests,
    },
];

/// A request of 70 kB and one of 1 MiB are read whole. A bound that is answered with an error is
/// a note.
fn large_messages(ctx: &mut Context<'_>) {
    const RULE: &str = "stdio.large-messages";
    for size in [70_000_usize, 1 << 20] {
        let from = ctx.client.log().len();
        let id = json!("x".repeat(size));
        let method = ctx.client.cheap_method();
        ctx.client.post(id.clone(), method, None);
        let until = std::time::Instant::now() + ctx.client.limits().request;
        let reply = ctx.client.reply(&id, until);
        let what = format!("A request of {size} bytes");
        match reply {
            Reply::Result { .. } => ctx.judge.holds(RULE),
            Reply::Error { error, .. } => {
                ctx.judge.note(RULE, format!("{what} is refused: {error}"));
            }
            Reply::Silence if refused(ctx, from) => {
                ctx.judge
                    .note(RULE, format!("{what} is refused with an error."));
            }
            Reply::Silence | Reply::Gone => {
                ctx.doubtful = true;
                let evidence = ctx.evidence_from(from);
                let gone = if reply == Reply::Gone {
                    "ended the server"
                } else {
                    "was not answered"
                };
                ctx.judge.broken(RULE, format!("{what} {gone}."), evidence);
                return;
            }
        }
    }
}

/// Whether an error without an id came since.
fn refused(ctx: &Context<'_>, from: usize) -> bool {
    let log = ctx.client.log();
    log.iter().skip(from).any(|entry| {
        matches!(&entry.event, Event::Received(line)
            if matches!(&line.body, Body::Json(json) if json.value.get("error").is_some()))
    })
}

fn output(exchange: &Exchange<'_>, judge: &mut Judge) {
    const MESSAGES: &str = "stdio.stdout-only-messages";
    judge.holds("stdio.stderr-logging");
    let mut skip_to = 0;
    for (at, entry) in exchange.log.iter().enumerate() {
        let Event::Received(line) = &entry.event else {
            continue;
        };
        let evidence = || exchange::evidence(exchange.log, [at]);
        if is_cut_off(exchange, at, line) {
            let note = "The server's exit at the end of input cuts a reply short.";
            judge.note("stdio.newline-terminated", note);
            continue;
        }
        if line.terminated {
            judge.holds("stdio.newline-terminated");
        } else if !line.bytes.is_empty() {
            judge.broken(
                "stdio.newline-terminated",
                "The last line has no newline at its end.",
                evidence(),
            );
        }
        if matches!(line.body, Body::NotUtf8(_)) {
            let text = "A line of output is not UTF-8.";
            judge.broken("transport.utf8-output", text, evidence());
        } else {
            judge.holds("transport.utf8-output");
        }
        if at < skip_to {
            continue;
        }
        match &line.body {
            Body::Json(json) => {
                judge.holds("stdio.no-embedded-newlines");
                json_line(exchange, at, &json.value, judge);
            }
            Body::Blank => judge.broken_as(
                MESSAGES,
                Breach::Warn,
                "A blank line on standard output.",
                evidence(),
            ),
            Body::NotUtf8(_) => judge.broken(
                MESSAGES,
                "Bytes that are no text on standard output.",
                evidence(),
            ),
            Body::TooLong(length) => {
                judge.error(
                    MESSAGES,
                    format!("A line of {length} bytes is more than the suite reads."),
                );
            }
            Body::NotJson(why) => match spread_over(exchange, at) {
                Some(end) => {
                    skip_to = end + 1;
                    judge.broken(
                        "stdio.no-embedded-newlines",
                        "One message is spread over several lines (pretty-printed).",
                        exchange::evidence(exchange.log, at..=end),
                    );
                }
                None => judge.broken(
                    MESSAGES,
                    format!("A line on standard output is no message: {why}."),
                    evidence(),
                ),
            },
        }
    }
}

/// Whether the line is a reply, or half of one, that the end of input overtook. Nothing says that a
/// request which is under way then is still answered.
fn is_cut_off(exchange: &Exchange<'_>, at: usize, line: &Line) -> bool {
    let whole_reply = |value: &Value| value.get("id").is_some() && value.get("method").is_none();
    let of_a_reply = match &line.body {
        Body::Json(json) => whole_reply(&json.value),
        Body::NotJson(_) => line.bytes.starts_with(b"{"),
        _ => false,
    };
    let before = exchange.log.iter().take(at);
    let closed = |entry: &Entry| matches!(entry.event, Event::InputClosed);
    !line.terminated && of_a_reply && before.rev().any(closed)
}

/// A line that is JSON: is it a message, or an array of them?
fn json_line(exchange: &Exchange<'_>, at: usize, value: &Value, judge: &mut Judge) {
    const MESSAGES: &str = "stdio.stdout-only-messages";
    let is_message = match value {
        Value::Object(_) => {
            // In the order of their lines; a flood has hundreds of thousands.
            let first = exchange.received.partition_point(|m| m.at < at);
            let mut of_line = exchange.received[first..].iter().take_while(|m| m.at == at);
            of_line.any(|message| message.kind != Kind::Unknown)
        }
        // Whether arrays may be written is a rule of its own.
        Value::Array(_) => true,
        _ => false,
    };
    if is_message {
        judge.holds(MESSAGES);
    } else {
        judge.broken(
            MESSAGES,
            "A line on standard output is JSON, but no JSON-RPC message.",
            exchange::evidence(exchange.log, [at]),
        );
    }
}

/// The last line of a message that begins on this line and goes on over the next ones.
fn spread_over(exchange: &Exchange<'_>, at: usize) -> Option<usize> {
    /// Bounds on what is put together: lines and bytes.
    const MOST: (usize, usize) = (5_000, 1 << 20);
    let mut text = Vec::new();
    for (index, entry) in exchange.log.iter().enumerate().skip(at).take(MOST.0) {
        let Event::Received(line) = &entry.event else {
            continue;
        };
        let trimmed = line.bytes.trim_ascii();
        if index == at && !trimmed.starts_with(b"{") || text.len() > MOST.1 {
            return None;
        }
        text.extend_from_slice(&line.bytes);
        text.push(b'\n');
        // Only a line that closes something can be the last one.
        if index > at
            && trimmed.ends_with(b"}")
            && serde_json::from_slice::<Value>(&text).is_ok_and(|value| value.is_object())
        {
            return Some(index);
        }
    }
    None
}

fn server_requests(exchange: &Exchange<'_>, judge: &mut Judge) {
    if exchange.revision.era() != Era::Stateless {
        return;
    }
    judge.holds("stdio.no-server-requests");
    for message in &exchange.received {
        if let Kind::Request(method) = message.kind {
            judge.broken(
                "stdio.no-server-requests",
                format!("The server sent the request `{method}`."),
                exchange.evidence(message),
            );
        }
    }
}
