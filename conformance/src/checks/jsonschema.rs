//! `basic/index#json-schema-usage`: schemas that the server publishes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Check, Context, Run, Session};
use crate::spec::{Revision, Span};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "jsonschema.valid",
        requirements: &["jsonschema.valid"],
        span: Span {
            first: Revision::V2025_11_25,
            last: Revision::V2026_07_28,
        },
        session: Session::Shared,
        run: Run::Code(valid),
    },
    Check {
        name: "jsonschema.portable",
        requirements: &["tools.list.input-schema-object"],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(portable),
    },
];

fn valid(ctx: &mut Context<'_>) {
    const RULE: &str = "jsonschema.valid";
    if !ctx.needs_list("tools/list", &[RULE]) {
        return;
    }
    let tools = ctx.facts.items("tools/list").to_vec();
    for tool in &tools {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        for member in ["inputSchema", "outputSchema"] {
            let Some(schema) = tool.get(member).filter(|schema| schema.is_object()) else {
                continue;
            };
            match fault(schema) {
                None => ctx.judge.holds(RULE),
                Some(Fault::Invalid(why)) => {
                    let evidence = ctx.list_evidence("tools/list");
                    let message =
                        format!("`{member}` of the tool `{name}` is not a valid schema: {why}.");
                    ctx.judge.broken(RULE, message, evidence);
                }
                Some(Fault::UnknownDialect(dialect)) => {
                    ctx.judge.note(RULE, format!("`{member}` of `{name}` is in the dialect {dialect}, which is not judged."));
                }
            }
        }
    }
    if tools.is_empty() {
        ctx.judge.not_applicable(RULE, "The server lists no tool.");
    }
}

enum Fault {
    Invalid(String),
    UnknownDialect(String),
}

/// Judges a schema under its own `$schema`, or under 2020-12.
fn fault(schema: &Value) -> Option<Fault> {
    let dialect = schema.get("$schema").and_then(Value::as_str);
    let known = ["draft-04", "draft-06", "draft-07", "2019-09", "2020-12"];
    if let Some(dialect) = dialect
        && !known.iter().any(|name| dialect.contains(name))
    {
        return Some(Fault::UnknownDialect(dialect.to_owned()));
    }
    let result = if dialect.is_some() {
        jsonschema::meta::validate(schema)
    } else {
        jsonschema::draft202012::meta::validate(schema)
    };
    result
        .err()
        .map(|error| Fault::Invalid(format!("{error} at {}", error.instance_path())))
}

/// Every subschema, itself among them, and whether it was reached through `properties` alone.
pub(super) fn each_subschema<'a>(
    schema: &'a Value,
    placed: bool,
    visit: &mut dyn FnMut(&'a Map<String, Value>, bool),
) {
    let Value::Object(members) = schema else {
        return;
    };
    visit(members, placed);
    for (keyword, value) in members {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties
                    .values()
                    .for_each(|s| each_subschema(s, placed, visit));
            }
            (
                "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                Value::Object(map),
            ) => {
                map.values().for_each(|s| each_subschema(s, false, visit));
            }
            (
                "items"
                | "additionalProperties"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames",
                schema,
            ) => {
                each_subschema(schema, false, visit);
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(list)) => {
                list.iter().for_each(|s| each_subschema(s, false, visit));
            }
            _ => {}
        }
    }
}

/// Words that OpenAPI has and JSON Schema has not.
const OF_OPENAPI: [&str; 3] = ["nullable", "example", "discriminator"];
/// Words that many clients do not take at the root of a tool's input.
const COMBINATORS: [&str; 5] = ["oneOf", "anyOf", "allOf", "not", "if"];

/// Schemas that are right, and with which clients and the models behind them have trouble all the
/// same: they leave the tool out, or the whole list.
fn portable(ctx: &mut Context<'_>) {
    const RULE: &str = "tools.list.input-schema-object";
    let mut troubles: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for tool in ctx.facts.items("tools/list") {
        let name = super::tools::tool_name(tool);
        for member in ["inputSchema", "outputSchema"] {
            let schema = tool.get(member).unwrap_or(&Value::Null);
            for trouble in troubles_of(schema, member == "inputSchema") {
                let tools = troubles.entry(trouble).or_default();
                if tools.last().is_none_or(|last| *last != name) {
                    tools.push(name);
                }
            }
        }
    }
    for (trouble, tools) in troubles {
        let text = format!("{}: {trouble}.", super::tools::first_of(&tools));
        ctx.judge.note_only(RULE, text);
    }
}

/// What clients may stumble over in one schema.
fn troubles_of(schema: &Value, is_input: bool) -> Vec<String> {
    let mut found = Vec::new();
    let dialect = schema.get("$schema").and_then(Value::as_str);
    if let Some(dialect) = dialect.filter(|dialect| !dialect.contains("2020-12")) {
        found.push(format!(
            "the dialect is {dialect}; clients that know 2020-12 alone refuse it"
        ));
    }
    if let Some(word) = COMBINATORS.iter().find(|word| schema.get(word).is_some())
        && is_input
    {
        found.push(format!(
            "`{word}` at the root of the input; some clients leave such tools out"
        ));
    }
    each_subschema(schema, false, &mut |schema, _| {
        let word = OF_OPENAPI.iter().find(|word| schema.contains_key(**word));
        found.extend(word.map(|word| {
            format!("`{word}` is a word of OpenAPI, and none of JSON Schema; some models refuse it")
        }));
    });
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_clients_stumble_over_is_found_where_it_is_a_word_of_the_schema() {
        let count = |schema: &Value| troubles_of(schema, true).len();
        let dialect = "http://json-schema.org/draft-07/schema#";
        assert_eq!(count(&json!({"$schema": dialect, "type": "object"})), 1);
        assert_eq!(count(&json!({"type": "object", "anyOf": [{}]})), 1);
        let nullable = json!({"type": "string", "nullable": true});
        assert_eq!(
            count(&json!({"properties": {"a": nullable, "b": nullable}})),
            1
        );
        // Names of properties are no words, and below the root all is well.
        let names = json!({"example": {"anyOf": [{}]}, "nullable": {}, "not": {}});
        assert_eq!(count(&json!({"type": "object", "properties": names})), 0);
        let newest = "https://json-schema.org/draft/2020-12/schema";
        assert_eq!(count(&json!({"$schema": newest, "type": "object"})), 0);
    }
}
