//! `basic/index#json-schema-usage`: schemas that the server publishes.

use serde_json::Value;

use super::{Check, Context, Run, Session};
use crate::spec::{Revision, Span};

pub(super) const CHECKS: &[Check] = &[Check {
    name: "jsonschema.valid",
    requirements: &["jsonschema.valid"],
    span: Span {
        first: Revision::V2025_11_25,
        last: Revision::V2026_07_28,
    },
    session: Session::Shared,
    run: Run::Code(valid),
}];

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
