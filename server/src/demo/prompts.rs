//! The prompts.

use serde_json::{Map, Value, json};

use super::{ask, resources};
use crate::protocol::{Call, Found, Stop};

pub(super) fn list(with_extra: bool) -> Vec<Value> {
    let mut all = vec![
        json!({"name": "greet", "title": "Greet", "description": "Greets somebody",
            "arguments": [
                {"name": "name", "title": "Name", "description": "Who is greeted",
                    "required": true},
                {"name": "style", "title": "Style", "description": "formal or casual",
                    "required": false}]}),
        json!({"name": "show", "title": "Show",
            "description": "Shows a text resource and an image"}),
        json!({"name": "asked", "title": "Asked",
            "description": "Asks for a name first, if the client can be asked"}),
    ];
    if with_extra {
        all.push(json!({"name": "extra", "title": "Extra",
            "description": "Comes and goes with change"}));
    }
    all
}

pub(super) fn get(name: &str, arguments: &Map<String, Value>, call: &Call) -> Found {
    let user = |content: Value| json!({"role": "user", "content": content});
    let text = |text: String| json!({"type": "text", "text": text});
    match name {
        "greet" => {
            let given = |name: &str| arguments.get(name).and_then(Value::as_str);
            let word = match given("style") {
                Some("formal") => "Good day",
                Some("casual") | None => "Hi",
                Some(other) => {
                    return Found::InvalidParams(format!(
                        "The argument \"style\" is formal or casual, not {other:?}"
                    ));
                }
            };
            let whom = given("name").unwrap_or("you");
            Found::Items(vec![
                user(text(format!("Say {word:?} to {whom}."))),
                json!({"role": "assistant", "content": text(format!("{word}, {whom}."))}),
            ])
        }
        "show" => Found::Items(vec![
            user(
                json!({"type": "resource", "resource": {"uri": resources::TEXT,
                "mimeType": "text/plain", "text": resources::TEXT_CONTENT}}),
            ),
            user(json!({"type": "image", "data": resources::PNG, "mimeType": "image/png"})),
        ]),
        "asked" => match ask::ask_name(call) {
            Ok(name) => {
                let name = name.unwrap_or_else(|| "somebody".to_owned());
                Found::Items(vec![user(text(format!("{name} asks for nothing.")))])
            }
            // A client that cannot be asked still gets its prompt.
            Err(Stop::MissingCapability(_)) => {
                Found::Items(vec![user(text("Somebody asks for nothing.".to_owned()))])
            }
            Err(stop) => Found::Stopped(stop),
        },
        "extra" => Found::Items(vec![user(text("Here for now.".to_owned()))]),
        _ => Found::Unknown,
    }
}

/// What an argument may be. The greeting that suits a name comes first.
pub(super) fn values(
    prompt: &str,
    argument: &str,
    context: &Map<String, Value>,
) -> Option<Vec<String>> {
    let all: &[&str] = match (prompt, argument) {
        ("greet", "name") => &["Ada", "Alan", "Barbara", "Edsger", "Grace", "Tony"],
        ("greet", "style") if context.get("name") == Some(&Value::from("Grace")) => {
            &["formal", "casual"]
        }
        ("greet", "style") => &["casual", "formal"],
        ("greet" | "show" | "asked" | "extra", _) => &[],
        _ => return None,
    };
    Some(all.iter().map(|&value| value.to_owned()).collect())
}
