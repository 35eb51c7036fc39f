//! Which rules of a shape a message puts to the test: a list of tools without annotations says
//! nothing of the rule on annotations, and must not count as a pass of it.

use std::collections::HashSet;

use serde_json::Value;

/// The requirements whose subschemas apply to the value, in a document of shapes.
pub(super) fn requirements<'a>(
    document: &'a Value,
    definition: &str,
    value: &Value,
) -> HashSet<&'a str> {
    let mut walk = Walk {
        document,
        found: HashSet::new(),
    };
    walk.enter(&document["$defs"][definition], value);
    walk.found
}

struct Walk<'a> {
    document: &'a Value,
    found: HashSet<&'a str>,
}

impl<'a> Walk<'a> {
    fn enter(&mut self, schema: &'a Value, value: &Value) {
        if let Some(id) = schema["x-requirement"].as_str()
            && speaks_of(schema, value)
        {
            self.found.insert(id);
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.trim_start_matches("#/$defs/");
            self.enter(&self.document["$defs"][name], value);
        }
        for branch in schema["allOf"].as_array().into_iter().flatten() {
            self.enter(branch, value);
        }
        if let Some(condition) = schema.get("if") {
            let branch = if holds(condition, value) {
                "then"
            } else {
                "else"
            };
            self.enter(&schema[branch], value);
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match schema["properties"].get(name) {
                        Some(property) => self.enter(property, member),
                        None => self.enter(&schema["additionalProperties"], member),
                    }
                }
            }
            Value::Array(items) => items
                .iter()
                .for_each(|item| self.enter(&schema["items"], item)),
            _ => {}
        }
    }
}

/// A subschema that only describes optional members says nothing where none of them stands.
fn speaks_of(schema: &Value, value: &Value) -> bool {
    let Some(properties) = schema["properties"].as_object() else {
        return true;
    };
    schema.get("required").is_some()
        || schema.get("type").is_some()
        || properties.keys().any(|name| value.get(name).is_some())
}

/// The conditions that the shapes use: `required`, `properties`, `const`, `enum`, `type`,
/// `pattern` (a prefix), `not`, `anyOf`.
fn holds(condition: &Value, value: &Value) -> bool {
    let Value::Object(keywords) = condition else {
        return true;
    };
    keywords
        .iter()
        .all(|(keyword, argument)| match keyword.as_str() {
            "required" => {
                let names = argument
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str);
                !value.is_object() || names.into_iter().all(|name| value.get(name).is_some())
            }
            "properties" => argument
                .as_object()
                .into_iter()
                .flatten()
                .all(|(name, schema)| value.get(name).is_none_or(|member| holds(schema, member))),
            "const" => value == argument,
            "enum" => argument.as_array().is_some_and(|list| list.contains(value)),
            "type" => is_of_type(value, argument.as_str().unwrap_or_default()),
            "pattern" => {
                let prefix = argument
                    .as_str()
                    .unwrap_or_default()
                    .trim_start_matches('^');
                value.as_str().is_none_or(|text| text.starts_with(prefix))
            }
            "not" => !holds(argument, value),
            "anyOf" => argument
                .as_array()
                .is_some_and(|list| list.iter().any(|schema| holds(schema, value))),
            _ => true,
        })
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => value.is_number(),
    }
}
