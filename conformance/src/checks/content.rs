//! Content blocks of tools and prompts: media.

use serde_json::Value;

use super::Observer;
use super::exchange::Exchange;
use super::resources::is_base64;
use crate::run::Judge;

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "content.media",
    requirements: &["content.media"],
    read: media,
}];

fn media(exchange: &Exchange<'_>, judge: &mut Judge) {
    const RULE: &str = "content.media";
    for method in ["tools/call", "prompts/get"] {
        for (message, result) in exchange.results(method) {
            for block in blocks(result) {
                let kind = block.get("type").and_then(Value::as_str);
                if !matches!(kind, Some("image" | "audio")) {
                    continue;
                }
                let data = block.get("data").and_then(Value::as_str);
                let mime = block.get("mimeType").and_then(Value::as_str);
                let fault = if !data.is_some_and(is_base64) {
                    Some("`data` is not base64")
                } else if !mime.is_some_and(is_mime_type) {
                    Some("`mimeType` is no media type")
                } else {
                    None
                };
                match fault {
                    None => judge.holds(RULE),
                    Some(fault) => judge.broken(
                        RULE,
                        format!("An {} block: {fault}.", kind.unwrap_or_default()),
                        exchange.evidence(message),
                    ),
                }
            }
        }
    }
}

/// The content blocks of a tool's result or of a prompt's messages.
fn blocks(result: &Value) -> Vec<&Value> {
    let list = |name: &str| {
        result
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    list("content")
        .chain(list("messages").filter_map(|message| message.get("content")))
        .collect()
}

fn is_mime_type(text: &str) -> bool {
    let essence = text.split(';').next().unwrap_or_default().trim();
    let token = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    essence
        .split_once('/')
        .is_some_and(|(kind, sub)| token(kind) && token(sub))
}
