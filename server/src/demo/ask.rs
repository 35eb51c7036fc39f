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
