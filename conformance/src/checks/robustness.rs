//! Lines that no client may send. Only a server that no longer answers the next valid request is
//! warned of; what it says to the line itself is a note (JSON-RPC 2.0, section 5.1).

use serde_json::{Value, json};

use super::{Check, Context, Run, Session};
use crate::spec::Span;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "robustness.malformed-lines",
        requirements: &["jsonrpc.parse-error.reply", "jsonrpc.parse-error.survive"],
        span: Span::ALL,
        session: Session::Rough,
        run: Run::Code(malformed_lines),
    },
    Check {
        name: "robustness.invalid-requests",
        requirements: &["jsonrpc.invalid-request.reply"],
        span: Span::ALL,
        session: Session::Rough,
        run: Run::Code(invalid_requests),
    },
    Check {
        name: "robustness.null-id",
        requirements: &["jsonrpc.invalid-request.null-id"],
        span: Span::ALL,
        session: Session::Rough,
        run: Run::Code(null_id),
    },
];

/// Sends a line, then a valid request. False when that one is not answered.
fn survives(ctx: &mut Context<'_>, line: &[u8], what: &str) -> bool {
    const RULE: &str = "jsonrpc.parse-error.survive";
    let from = ctx.client.log().len();
    let mut whole = line.to_vec();
    whole.push(b'\n');
    ctx.client.send(&whole);
    if ctx.client.barrier() {
        ctx.judge.holds(RULE);
        return true;
    }
    ctx.doubtful = true;
    let evidence = ctx.evidence_from(from);
    let message = format!("After {what} the next valid request is not answered.");
    ctx.judge.broken(RULE, message, evidence);
    false
}

/// The codes of errors since, ids left aside.
fn error_codes(ctx: &Context<'_>, from: usize) -> Vec<i64> {
    let code = |message: &Value| message.pointer("/error/code")?.as_i64();
    ctx.client.messages_since(from).filter_map(code).collect()
}

fn malformed_lines(ctx: &mut Context<'_>) {
    const RULE: &str = "jsonrpc.parse-error.reply";
    let lines: [(&[u8], &str); 5] = [
        (
            br#"{"jsonrpc":"2.0","id":"touchstone-m1","#,
            "an unfinished object",
        ),
        (b"touchstone: this is not JSON", "a line that is not JSON"),
        (
            br#"{"jsonrpc":"2.0","id":"touchstone-m2","method":"ping"}}"#,
            "a bracket too many",
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":\"touchstone-m3\",\"method\":\"\xff\xfe\"}",
            "bytes that are not UTF-8",
        ),
        (br#"{"jsonrpc":"2.0","id":NaN,"method":"ping"}"#, "NaN"),
    ];
    for (line, what) in lines {
        let from = ctx.client.log().len();
        if !survives(ctx, line, what) {
            ctx.judge.blocked(RULE, "jsonrpc.parse-error.survive");
            return;
        }
        let codes = error_codes(ctx, from);
        if codes.contains(&-32700) {
            ctx.judge.holds(RULE);
        } else if codes.is_empty() {
            ctx.judge.note(
                RULE,
                format!("No answer to {what}; JSON-RPC has -32700 for it."),
            );
        } else {
            ctx.judge.note(
                RULE,
                format!("{what}: error {} instead of -32700.", codes[0]),
            );
        }
    }
}

fn invalid_requests(ctx: &mut Context<'_>) {
    const RULE: &str = "jsonrpc.invalid-request.reply";
    let lines = [
        (
            json!({"jsonrpc": "2.0", "id": "touchstone-i1"}),
            "a request without a method",
        ),
        (
            json!({"jsonrpc": "2.0", "id": "touchstone-i2", "method": 7}),
            "a method that is a number",
        ),
        (
            json!({"id": "touchstone-i3", "method": "ping"}),
            "a request without `jsonrpc`",
        ),
        (
            json!({"jsonrpc": "2.0", "id": "touchstone-i4", "method": "ping", "params": "x"}),
            "`params` that is a string",
        ),
        (json!(42), "a number"),
        (json!({}), "an empty object"),
        (
            json!({"jsonrpc": "2.0", "id": "touchstone-i5", "result": {}}),
            "a response that nobody asked for",
        ),
    ];
    for (line, what) in lines {
        let from = ctx.client.log().len();
        if !survives(ctx, line.to_string().as_bytes(), what) {
            ctx.judge.blocked(RULE, "jsonrpc.parse-error.survive");
            return;
        }
        // To a stray response nothing need be said.
        if line.get("result").is_some() {
            continue;
        }
        let codes = error_codes(ctx, from);
        if codes.iter().any(|code| matches!(code, -32600 | -32602)) {
            ctx.judge.holds(RULE);
        } else {
            let said = codes
                .first()
                .map_or("no error".to_owned(), |code| format!("error {code}"));
            ctx.judge
                .note(RULE, format!("{what}: {said}; JSON-RPC has -32600 for it."));
        }
    }
}

/// A request whose id is null is none that MCP knows.
fn null_id(ctx: &mut Context<'_>) {
    const RULE: &str = "jsonrpc.invalid-request.null-id";
    let line = ctx
        .client
        .line(Some(Value::Null), ctx.client.cheap_method(), None);
    let from = ctx.client.log().len();
    if !survives(ctx, line.as_bytes(), "a request with id null") {
        ctx.judge.blocked(RULE, "jsonrpc.parse-error.survive");
        return;
    }
    let served = ctx
        .client
        .messages_since(from)
        .any(|message| message.get("result").is_some() && message.get("id") == Some(&Value::Null));
    if served {
        let evidence = ctx.evidence_from(from);
        ctx.judge.broken(
            RULE,
            "A request with id null is served as if it were an ordinary one.",
            evidence,
        );
    } else {
        ctx.judge.holds(RULE);
    }
}
