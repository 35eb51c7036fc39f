//! `client/sampling`: what the server asks the client's model.

use serde_json::{Value, json};

use super::asking::{Play, Question, questions};
use super::exchange::Exchange;
use super::{Check, Context, Observer, Run, Session};
use crate::run::{Does, Judge, Occasion};
use crate::spec::{Revision, Span};

const WITH_TOOLS: Span = Span {
    first: Revision::V2025_11_25,
    last: Revision::V2026_07_28,
};
const SAMPLING: &[Does] = &[Does::AsksSampling, Does::AsksSamplingWithTools];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "sampling.plain-client",
        requirements: &["sampling.tools-capability", "sampling.include-context"],
        span: WITH_TOOLS,
        session: Session::Rough,
        run: Run::Occasion(SAMPLING, ask_each),
    },
    Check {
        name: "sampling.odd-answer",
        requirements: &["sampling.prudence"],
        span: Span::ALL,
        session: Session::Able,
        run: Run::Occasion(SAMPLING, odd_answer),
    },
    Check {
        name: "sampling.tool-loop",
        requirements: &["sampling.tool-results", "sampling.prudence"],
        span: WITH_TOOLS,
        session: Session::Able,
        run: Run::Occasion(&[Does::AsksSamplingWithTools], tool_loop),
    },
];

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "sampling.questions",
    requirements: &[
        "sampling.tools-capability",
        "sampling.include-context",
        "sampling.tool-results",
    ],
    read: read_questions,
}];

/// Lets every question be put to a client with plain sampling; the observer judges them.
fn ask_each(ctx: &mut Context<'_>, _: &Occasion) {
    for occasion in ctx.occasions(SAMPLING) {
        let mut willing = ctx.willing();
        ctx.converse(&occasion, &mut willing);
    }
}

/// The model answers with an image where a text was expected.
fn odd_answer(ctx: &mut Context<'_>, occasion: &Occasion) {
    const RULE: &str = "sampling.prudence";
    const PIXEL: &str = "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs=";
    let mut willing = ctx.willing();
    let mut play = |question: &Question| match question.method.as_str() {
        "sampling/createMessage" => Play::Result(json!({
            "role": "assistant",
            "content": {"type": "image", "data": PIXEL, "mimeType": "image/gif"},
            "model": "touchstone",
        })),
        _ => willing(question),
    };
    let course = ctx.converse(occasion, &mut play);
    if course.asked_for("sampling/createMessage") {
        ctx.must_be_answered(RULE, &course, "After a sample that is an image");
    } else {
        let why = format!("{occasion} asked the client's model nothing.");
        ctx.not_applicable(&[RULE], &why);
    }
}

/// The model never has enough of the tools: two calls at a time, on and on.
fn tool_loop(ctx: &mut Context<'_>, occasion: &Occasion) {
    const PRUDENCE: &str = "sampling.prudence";
    const RESULTS: &str = "sampling.tool-results";
    let mut willing = ctx.willing();
    let mut rounds = 0;
    let mut play = |question: &Question| {
        let tool = question.params.pointer("/tools/0/name");
        let (true, Some(tool)) = (question.method == "sampling/createMessage", tool) else {
            return willing(question);
        };
        rounds += 1;
        let call = |part: &str| {
            json!({"type": "tool_use", "id": format!("touchstone-{rounds}{part}"),
                "name": tool, "input": {}})
        };
        Play::Result(json!({
            "role": "assistant",
            "content": [call("a"), call("b")],
            "model": "touchstone",
            "stopReason": "toolUse",
        }))
    };
    let course = ctx.converse(occasion, &mut play);
    if rounds == 0 {
        let why = format!("{occasion} gave the client's model no tools.");
        ctx.not_applicable(&[RESULTS, PRUDENCE], &why);
    } else if course.asked.len() > super::asking::MOST_QUESTIONS {
        let evidence = ctx.evidence_from(course.from);
        let text = format!("The tool loop has no end: still going after {rounds} rounds.");
        ctx.judge.broken(PRUDENCE, text, evidence);
    } else {
        ctx.must_be_answered(PRUDENCE, &course, "In a loop of tool calls");
    }
}

fn read_questions(exchange: &Exchange<'_>, judge: &mut Judge) {
    const TOOLS: &str = "sampling.tools-capability";
    const CONTEXT: &str = "sampling.include-context";
    const RESULTS: &str = "sampling.tool-results";
    for put in questions(exchange) {
        let sampling = put.client.get("sampling");
        let (true, Some(sampling)) = (put.method == "sampling/createMessage", sampling) else {
            continue;
        };
        let evidence = || exchange.evidence(put.message);
        if sampling.get("tools").is_none() {
            let used = ["tools", "toolChoice"]
                .into_iter()
                .find(|name| put.params.get(name).is_some());
            match used {
                Some(name) => {
                    let text = format!(
                        "`{name}` is used, but the client does not declare `sampling.tools`."
                    );
                    judge.broken(TOOLS, text, evidence());
                }
                None => judge.holds(TOOLS),
            }
        }
        if sampling.get("context").is_none() {
            let wanted = put.params.get("includeContext").and_then(Value::as_str);
            match wanted.filter(|wanted| *wanted != "none") {
                Some(wanted) => {
                    let text = format!(
                        "`includeContext` is `{wanted}`, but the client does not declare `sampling.context`."
                    );
                    judge.broken(CONTEXT, text, evidence());
                }
                None => judge.holds(CONTEXT),
            }
        }
        match unbalanced(put.params) {
            Some(Some(fault)) => judge.broken(RESULTS, fault, evidence()),
            Some(None) => judge.holds(RESULTS),
            None => {}
        }
    }
}

/// What is wrong with the tool results in these messages; `None` if no tool was used.
fn unbalanced(params: &Value) -> Option<Option<String>> {
    let messages = params.get("messages")?.as_array()?;
    let ids = |message: &Value, kind: &str, member: &str| -> Vec<String> {
        let mut ids: Vec<String> = blocks(message)
            .iter()
            .filter(|block| block["type"] == kind)
            .map(|block| block[member].to_string())
            .collect();
        ids.sort();
        ids
    };
    let mut used = false;
    for (index, message) in messages.iter().enumerate() {
        let calls = ids(message, "tool_use", "id");
        if message["role"] != "assistant" || calls.is_empty() {
            continue;
        }
        used = true;
        let next = messages.get(index + 1).unwrap_or(&Value::Null);
        let results = ids(next, "tool_result", "toolUseId");
        let fault = if next["role"] != "user" || results.is_empty() {
            "Tool calls of the model are not followed by a message of the user with their results."
        } else if results.len() != blocks(next).len() {
            "The message with the results of tool calls holds something else as well."
        } else if results != calls {
            "The results do not match the tool calls of the model, one for one."
        } else {
            continue;
        };
        return Some(Some(fault.to_owned()));
    }
    used.then_some(None)
}

/// The content of a message: one block or several.
fn blocks(message: &Value) -> &[Value] {
    match &message["content"] {
        Value::Array(blocks) => blocks,
        Value::Null => &[],
        one => std::slice::from_ref(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_call_needs_its_result_and_nothing_else() {
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "t", "input": {}});
        let done = |id: &str| json!({"type": "tool_result", "toolUseId": id, "content": []});
        let said = |blocks: Value| {
            json!({"messages": [
                {"role": "user", "content": {"type": "text", "text": "go"}},
                {"role": "assistant", "content": [call("1"), call("2")]},
                {"role": "user", "content": blocks},
            ]})
        };
        assert_eq!(unbalanced(&said(json!([done("2"), done("1")]))), Some(None));
        let text = json!({"type": "text", "text": "x"});
        for bad in [
            json!([done("1")]),
            json!([done("1"), done("2"), text]),
            json!([done("1"), done("3")]),
            json!([text]),
            json!([]),
        ] {
            assert!(matches!(unbalanced(&said(bad)), Some(Some(_))));
        }
        let plain = json!({"messages": [{"role": "user", "content": text}]});
        assert_eq!(unbalanced(&plain), None);
    }
}
