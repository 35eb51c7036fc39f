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
    Check {
        name: "robustness.one-id-twice",
        requirements: &["jsonrpc.parse-error.survive"],
        span: Span::ALL,
        session: Session::Rough,
        run: Run::Code(one_id_twice),
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

/// The codes of errors since, ids left aside; what is said to the valid request is not among them.
fn error_codes(ctx: &Context<'_>, from: usize) -> Vec<i64> {
    let code = |message: &Value| message.pointer("/error/code")?.as_i64();
    let since = ctx.client.messages_since(from);
    let to_the_line = since.filter(|message| !ctx.client.is_barrier_reply(message));
    to_the_line.filter_map(code).collect()
}

fn malformed_lines(ctx: &mut Context<'_>) {
    const RULE: &str = "jsonrpc.parse-error.reply";
    if !(blank_lines(ctx) && lenient_json(ctx) && lone_surrogate(ctx)) {
        ctx.judge.blocked(RULE, "jsonrpc.parse-error.survive");
        return;
    }
    let lines: [(&[u8], &str); 6] = [
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
        (b"\xff\xfe", "two bytes that are no text"),
    ];
    for (line, what) in lines {
        let from = ctx.client.log().len();
        if !survives(ctx, line, what) {
            ctx.judge.blocked(RULE, "jsonrpc.parse-error.survive");
            return;
        }
        let codes = error_codes(ctx, from);
        if codes.len() > 1 {
            // Two peers that answer each other's lines so never come to an end.
            let count = codes.len();
            ctx.judge.note(
                RULE,
                format!("{what} is answered with {count} errors; one is due."),
            );
        }
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

/// Lines that are empty say nothing, and nothing is to be said to them. False, here and below, when
/// the server is not there any more.
fn blank_lines(ctx: &mut Context<'_>) -> bool {
    const RULE: &str = "jsonrpc.parse-error.reply";
    for (line, what) in [
        (&b""[..], "an empty line"),
        (b"\r", "an empty line of CR LF"),
    ] {
        let from = ctx.client.log().len();
        if !survives(ctx, line, what) {
            return false;
        }
        if let Some(code) = error_codes(ctx, from).first() {
            ctx.judge
                .note(RULE, format!("{what} is answered with error {code}."));
        }
    }
    true
}

/// Values that many readers take for JSON, which they are not. None of them is to be served.
fn lenient_json(ctx: &mut Context<'_>) -> bool {
    const RULE: &str = "jsonrpc.parse-error.reply";
    for word in ["NaN", "Infinity", "01"] {
        let id = json!(format!("touchstone-{word}"));
        let params = Some(json!({"touchstone": "$"}));
        let method = ctx.client.cheap_method();
        let line = ctx.client.line(Some(id.clone()), method, params);
        let from = ctx.client.log().len();
        let what = format!("{word} as a value");
        if !survives(ctx, line.replace("\"$\"", word).as_bytes(), &what) {
            return false;
        }
        let served =
            |message: &Value| message.get("id") == Some(&id) && message.get("result").is_some();
        if ctx.client.messages_since(from).any(served) {
            ctx.judge.note(
                RULE,
                format!("A request with {what} is served, though it is not JSON."),
            );
        }
    }
    true
}

/// Half a surrogate pair is JSON by its grammar, though no text can hold it: whatever is made of a
/// tool's argument with one, the next request is answered.
fn lone_surrogate(ctx: &mut Context<'_>) -> bool {
    let takes_text = |tool: &Value| {
        let properties = tool.pointer("/inputSchema/properties")?.as_object()?;
        let (name, _) = properties.iter().find(|(_, p)| p["type"] == "string")?;
        Some((tool["name"].clone(), name.clone()))
    };
    let Some((tool, property)) = ctx.callable_tools().iter().find_map(takes_text) else {
        return true;
    };
    let id = json!("touchstone-surrogate");
    let params = json!({"name": tool, "arguments": {property: "$"}});
    let line = ctx
        .client
        .line(Some(id.clone()), "tools/call", Some(params));
    let line = line.replace("\"$\"", "\"\\ud83d\"");
    survives(
        ctx,
        line.as_bytes(),
        "a tool's argument of half a surrogate pair",
    )
}

fn invalid_requests(ctx: &mut Context<'_>) {
    const RULE: &str = "jsonrpc.invalid-request.reply";
    if !double_members(ctx) {
        ctx.judge.blocked(RULE, "jsonrpc.parse-error.survive");
        return;
    }
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
        (
            json!({"jsonrpc": "2.0", "id": "touchstone-i6", "error": {"code": -32603, "message": "of nobody"}}),
            "an error that nobody asked for",
        ),
        (
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "of nobody"}}),
            "an error without an id",
        ),
    ];
    for (line, what) in lines {
        let from = ctx.client.log().len();
        if !survives(ctx, line.to_string().as_bytes(), what) {
            ctx.judge.blocked(RULE, "jsonrpc.parse-error.survive");
            return;
        }
        let codes = error_codes(ctx, from);
        // To a stray response nothing need be said; two peers that do never come to an end.
        if line.get("result").is_some() || line.get("error").is_some() {
            if let Some(code) = codes.first() {
                ctx.judge
                    .note(RULE, format!("{what} is answered with error {code}."));
            }
            continue;
        }
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

/// Which of two members of one name counts is nobody's to say: whatever is made of it, the next
/// request is answered.
fn double_members(ctx: &mut Context<'_>) -> bool {
    let method = ctx.client.cheap_method();
    let line = ctx
        .client
        .line(Some(json!("touchstone-double")), method, None);
    let double = line.replacen('{', "{\"method\":\"touchstone/none\",", 1);
    survives(
        ctx,
        double.as_bytes(),
        "a request with two members `method`",
    )
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

/// Two requests at once under one id: no client may send them, and which reply belongs to which is
/// nobody's to say. A client that waits for both is told if one is lost.
fn one_id_twice(ctx: &mut Context<'_>) {
    let id = json!("touchstone-twice");
    let (method, params) = match ctx.facts.quick.first() {
        Some((name, arguments)) => (
            "tools/call",
            Some(json!({"name": name, "arguments": arguments})),
        ),
        None => (ctx.client.cheap_method(), None),
    };
    let line = ctx.client.line(Some(id.clone()), method, params);
    let from = ctx.client.log().len();
    let both = format!("{line}\n{line}");
    if !survives(ctx, both.as_bytes(), "two requests at once under one id") {
        return;
    }
    let mut replies = 0;
    // A refusal may leave the id open: it is that of another request.
    let mut both_came = |message: &Value| {
        let of_both = message
            .get("id")
            .is_none_or(|own| own.is_null() || *own == id);
        replies += usize::from(of_both && message.get("method").is_none());
        replies == 2
    };
    let until = ctx.client.deadline();
    if ctx.client.find(from, until, &mut both_came).is_none() {
        let which = ["none", "only one"][replies.min(1)];
        let text = format!("Of two requests at once under one id {which} is answered.");
        ctx.judge.note("jsonrpc.response.exactly-one", text);
    }
}
