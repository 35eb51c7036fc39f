//! The tools that ask the client.

use serde_json::{Map, Value, json};

use crate::protocol::{Call, Outcome, Question, Stop};

pub(super) fn form(call: &Call) -> Outcome {
    match ask_name(call) {
        Ok(Some(name)) => Outcome::text(format!("Hello {name}.")),
        Ok(None) => Outcome::text("The person did not say."),
        Err(stop) => stop.into(),
    }
}

pub(super) fn twice(call: &Call) -> Outcome {
    let both = || -> Result<String, Stop> {
        let name = ask_name(call)?.unwrap_or_else(|| "somebody".to_owned());
        let question = Question::Form {
            message: format!("{name}, which colour do you like?"),
            schema: json!({"type": "object",
                "properties": {"colour": {"type": "string", "enum": ["red", "green", "blue"],
                    "title": "Colour"}},
                "required": ["colour"]}),
        };
        let colour = accepted(&call.ask("colour", question)?, "colour");
        let colour = colour.unwrap_or_else(|| "no colour".to_owned());
        Ok(format!("{name} likes {colour}."))
    };
    match both() {
        Ok(text) => Outcome::text(text),
        Err(stop) => stop.into(),
    }
}

/// The person's name, or `None` if the person declines.
pub(super) fn ask_name(call: &Call) -> Result<Option<String>, Stop> {
    let question = Question::Form {
        message: "What is your name?".to_owned(),
        schema: json!({"type": "object",
            "properties": {"name": {"type": "string", "title": "Name", "maxLength": 100}},
            "required": ["name"]}),
    };
    Ok(accepted(&call.ask("name", question)?, "name"))
}

/// A member of the form, if the person sent it off.
fn accepted(answer: &Value, member: &str) -> Option<String> {
    let accepted = answer.get("action").and_then(Value::as_str) == Some("accept");
    let content = answer.get("content").filter(|_| accepted)?;
    content.get(member)?.as_str().map(str::to_owned)
}

pub(super) fn url(call: &Call) -> Outcome {
    let question = Question::Url {
        message: "Please read this page.".to_owned(),
        url: "https://example.com/touchstone/terms".to_owned(),
    };
    match call.ask("page", question) {
        Ok(answer) => {
            let action = answer.get("action").and_then(Value::as_str);
            Outcome::text(format!(
                "The person chose: {}.",
                action.unwrap_or("nothing")
            ))
        }
        Err(stop) => stop.into(),
    }
}

pub(super) fn model(arguments: &Map<String, Value>, call: &Call) -> Outcome {
    let text = arguments.get("question").and_then(Value::as_str);
    let text = text.unwrap_or("Name a colour, in one word.");
    let question = Question::Sample {
        params: json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
            "maxTokens": 100,
        }),
    };
    match call.ask("sample", question) {
        Ok(answer) => {
            let said = answer.pointer("/content/text").and_then(Value::as_str);
            Outcome::text(format!(
                "The model said: {}",
                said.unwrap_or("(not in text)")
            ))
        }
        Err(stop) => stop.into(),
    }
}

/// The model may add numbers by a tool, this many times.
const ROUNDS: usize = 3;

/// Gives the model a tool, runs what it calls, and asks again with the results.
pub(super) fn model_with_tools(call: &Call) -> Outcome {
    let text = |text: &str| json!({"type": "text", "text": text});
    let question = text("What is 2 + 3? Use the tool.");
    let mut messages = vec![json!({"role": "user", "content": question})];
    for round in 1..=ROUNDS {
        let question = Question::Sample {
            params: json!({"messages": messages, "maxTokens": 100, "tools": [sum_tool()]}),
        };
        let answer = match call.ask(&format!("round-{round}"), question) {
            Ok(answer) => answer,
            Err(stop) => return stop.into(),
        };
        let blocks = match &answer["content"] {
            Value::Array(blocks) => blocks.clone(),
            block => vec![block.clone()],
        };
        let results: Vec<Value> = blocks.iter().filter_map(sum_of).collect();
        if results.is_empty() {
            let said = blocks.iter().find_map(|block| block["text"].as_str());
            return Outcome::text(format!(
                "The model said: {}",
                said.unwrap_or("(not in text)")
            ));
        }
        messages.push(json!({"role": "assistant", "content": blocks}));
        messages.push(json!({"role": "user", "content": results}));
    }
    Outcome::failure(format!("The model did not answer in {ROUNDS} rounds."))
}

fn sum_tool() -> Value {
    json!({"name": "sum", "description": "Adds two numbers",
        "inputSchema": {"type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"]}})
}

/// The result for a call of the tool; `None` for any other block.
fn sum_of(block: &Value) -> Option<Value> {
    if block["type"] != "tool_use" {
        return None;
    }
    let number = |name: &str| block["input"][name].as_f64();
    let (said, failed) = match (number("a"), number("b")) {
        (Some(a), Some(b)) => ((a + b).to_string(), false),
        _ => ("The tool needs the numbers a and b.".to_owned(), true),
    };
    Some(
        json!({"type": "tool_result", "toolUseId": block["id"], "isError": failed,
        "content": [{"type": "text", "text": said}]}),
    )
}

pub(super) fn roots(call: &Call) -> Outcome {
    match call.ask("roots", Question::Roots) {
        Ok(answer) => {
            let roots = answer.get("roots").and_then(Value::as_array);
            let uris = roots
                .into_iter()
                .flatten()
                .filter_map(|root| root.get("uri"));
            let uris = uris.filter_map(Value::as_str).collect::<Vec<_>>();
            Outcome::text(format!("{} roots: {}", uris.len(), uris.join(", ")))
        }
        Err(stop) => stop.into(),
    }
}
