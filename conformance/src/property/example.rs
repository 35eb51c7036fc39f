//! Plain arguments that fit a tool's input schema.

use serde_json::{Map, Value, json};

/// Deeper schemas than this are given up.
const DEEPEST: usize = 12;

/// Arguments with every required member, in the simplest values that the schema allows; `None`
/// when no such value could be made.
pub fn arguments(tool: &Value) -> Option<Map<String, Value>> {
    let schema = tool.get("inputSchema")?;
    let value = example(schema, schema, 0)?;
    let fits = jsonschema::validator_for(schema).is_ok_and(|validator| validator.is_valid(&value));
    match value {
        Value::Object(arguments) if fits => Some(arguments),
        _ => None,
    }
}

fn example(schema: &Value, root: &Value, depth: usize) -> Option<Value> {
    if depth > DEEPEST {
        return None;
    }
    let Value::Object(members) = schema else {
        return (*schema == Value::Bool(true)).then(|| json!("touchstone"));
    };
    for ready in ["const", "default"] {
        if let Some(value) = members.get(ready) {
            return Some(value.clone());
        }
    }
    for list in ["examples", "enum"] {
        if let Some(value) = members.get(list).and_then(|list| list.get(0)) {
            return Some(value.clone());
        }
    }
    if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
        let pointer = reference.strip_prefix('#')?;
        return example(root.pointer(pointer)?, root, depth + 1);
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = members.get(choice).and_then(|list| list.get(0)) {
            return example(first, root, depth + 1);
        }
    }
    let kind = match members.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str)?,
        _ if members.contains_key("properties") => "object",
        _ => "string",
    };
    match kind {
        "object" => object(members, root, depth),
        "array" => array(members, root, depth),
        "string" => string(members),
        "integer" | "number" => number(members, kind == "integer"),
        "boolean" => Some(json!(false)),
        "null" => Some(Value::Null),
        _ => None,
    }
}

fn object(schema: &Map<String, Value>, root: &Value, depth: usize) -> Option<Value> {
    let mut value = Map::new();
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        let anything = Value::Bool(true);
        let property = schema
            .get("properties")
            .and_then(|properties| properties.get(name))
            .unwrap_or(&anything);
        value.insert(name.to_owned(), example(property, root, depth + 1)?);
    }
    Some(Value::Object(value))
}

fn array(schema: &Map<String, Value>, root: &Value, depth: usize) -> Option<Value> {
    let least = schema
        .get("minItems")
        .and_then(Value::as_u64)
        .unwrap_or(0)
        .min(50);
    let anything = Value::Bool(true);
    let item = schema.get("items").unwrap_or(&anything);
    let items: Option<Vec<Value>> = (0..least).map(|_| example(item, root, depth + 1)).collect();
    items.map(Value::Array)
}

fn string(schema: &Map<String, Value>) -> Option<Value> {
    let ready = match schema.get("format").and_then(Value::as_str) {
        Some("date") => "2025-01-01",
        Some("date-time") => "2025-01-01T00:00:00Z",
        Some("time") => "00:00:00Z",
        Some("email") => "a@example.com",
        Some("uri" | "url") => "https://example.com/",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        Some("ipv4") => "127.0.0.1",
        Some("ipv6") => "::1",
        Some("hostname") => "example.com",
        _ => "touchstone",
    };
    let least = schema
        .get("minLength")
        .and_then(Value::as_u64)
        .unwrap_or(0)
        .min(10_000);
    let most = schema
        .get("maxLength")
        .and_then(Value::as_u64)
        .unwrap_or(u64::MAX);
    let mut text: String = ready.to_owned();
    while (text.chars().count() as u64) < least {
        text.push('x');
    }
    if text.chars().count() as u64 > most {
        text = text.chars().take(usize::try_from(most).ok()?).collect();
    }
    Some(Value::String(text))
}

fn number(schema: &Map<String, Value>, integer: bool) -> Option<Value> {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let step = bound("multipleOf").filter(|step| *step > 0.0);
    let least = match (bound("minimum"), bound("exclusiveMinimum")) {
        (_, Some(above)) => Some(if integer {
            above.floor() + 1.0
        } else {
            above + 0.5
        }),
        (least, None) => least,
    };
    let most = match (bound("maximum"), bound("exclusiveMaximum")) {
        (_, Some(below)) => Some(if integer {
            below.ceil() - 1.0
        } else {
            below - 0.5
        }),
        (most, None) => most,
    };
    let mut value = 1.0_f64;
    if let Some(least) = least {
        value = value.max(least);
    }
    if let Some(most) = most {
        value = value.min(most);
    }
    if let Some(step) = step {
        value = (value / step).ceil() * step;
    }
    if integer {
        let whole = value.ceil();
        return (whole.abs() < 9e15).then(|| json!(whole as i64));
    }
    serde_json::Number::from_f64(value).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use super::arguments;
    use serde_json::json;

    #[test]
    fn every_required_member_is_given_within_its_bounds() {
        let tool = json!({"inputSchema": {
            "type": "object",
            "required": ["path", "depth", "mode", "tags", "nested", "anything"],
            "properties": {
                "path": {"type": "string", "minLength": 12},
                "depth": {"type": "integer", "minimum": 3, "maximum": 9},
                "mode": {"enum": ["fast", "slow"]},
                "tags": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/tag"}},
                "nested": {"type": "object", "required": ["n"], "properties": {"n": {"type": "number", "exclusiveMinimum": 1}}},
                "optional": {"type": "string"}
            },
            "$defs": {"tag": {"type": "string", "maxLength": 3}}
        }});
        let value = arguments(&tool).expect("the schema can be met");
        assert_eq!(value["mode"], "fast");
        assert_eq!(value["tags"], json!(["tou", "tou"]));
        assert!(!value.contains_key("optional"));
    }

    #[test]
    fn a_schema_that_cannot_be_met_gives_nothing() {
        let tool = json!({"inputSchema": {"type": "object", "required": ["x"],
            "properties": {"x": {"type": "string", "pattern": "^[0-9]{40}$"}}}});
        assert!(arguments(&tool).is_none());
    }
}
