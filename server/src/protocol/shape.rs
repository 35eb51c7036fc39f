//! Trims what families give, always in the newest shape, to the revision of the request.

use serde_json::{Map, Value, json};

use super::revision::Revision;

/// Members that lists gained over time.
const SINCE: [(&str, Revision); 5] = [
    ("title", Revision::V2025_06_18),
    ("_meta", Revision::V2025_06_18),
    ("outputSchema", Revision::V2025_06_18),
    ("icons", Revision::V2025_11_25),
    ("execution", Revision::V2025_11_25),
];

/// Trims the items of `result[member]`: tools, resources, templates or prompts.
pub(super) fn list_items(result: &mut Map<String, Value>, member: &str, revision: Revision) {
    let Some(Value::Array(items)) = result.get_mut(member) else {
        return;
    };
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        list_item(item, revision);
        if let Some(Value::Array(arguments)) = item.get_mut("arguments") {
            for argument in arguments.iter_mut().filter_map(Value::as_object_mut) {
                list_item(argument, revision);
            }
        }
        trim_annotations(item, revision);
    }
}

fn list_item(item: &mut Map<String, Value>, revision: Revision) {
    for (name, since) in SINCE {
        if revision < since {
            item.shift_remove(name);
        }
    }
    if revision > Revision::V2025_11_25 {
        item.shift_remove("execution");
    }
}

fn trim_annotations(item: &mut Map<String, Value>, revision: Revision) {
    if let Some(Value::Object(annotations)) = item.get_mut("annotations")
        && revision < Revision::V2025_06_18
    {
        annotations.shift_remove("lastModified");
    }
}

/// The result of a tool call.
pub(super) fn tool_result(
    mut content: Vec<Value>,
    structured: Option<Value>,
    is_error: bool,
    revision: Revision,
) -> Map<String, Value> {
    for block in &mut content {
        content_block(block, revision);
    }
    let structured = structured.filter(|value| match revision {
        Revision::V2024_11_05 | Revision::V2025_03_26 => false,
        Revision::V2025_06_18 | Revision::V2025_11_25 => value.is_object(),
        Revision::V2026_07_28 => true,
    });
    let mut result = Map::new();
    result.insert("content".into(), content.into());
    if let Some(structured) = structured {
        result.insert("structuredContent".into(), structured);
    }
    result.insert("isError".into(), is_error.into());
    result
}

/// A block of a kind that the revision does not know becomes text that names it.
pub(super) fn content_block(block: &mut Value, revision: Revision) {
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or("");
    match text("type") {
        "audio" if revision < Revision::V2025_03_26 => {
            let text = format!("(audio, {})", text("mimeType"));
            *block = json!({"type": "text", "text": text});
        }
        "resource_link" if revision < Revision::V2025_06_18 => {
            let text = format!("{}: {}", text("name"), text("uri"));
            *block = json!({"type": "text", "text": text});
        }
        _ => {}
    }
    let Some(block) = block.as_object_mut() else {
        return;
    };
    if revision < Revision::V2025_06_18 {
        block.shift_remove("_meta");
        if let Some(Value::Object(resource)) = block.get_mut("resource") {
            resource.shift_remove("_meta");
        }
    }
    if revision < Revision::V2025_11_25 {
        block.shift_remove("icons");
    }
    trim_annotations(block, revision);
}
