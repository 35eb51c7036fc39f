//! `server/prompts`.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{Answer, Check, Context, Run, Session};
use crate::spec::Span;
use crate::spec::requirement::Breach;

/// How many listed prompts are got.
const MOST_PROMPTS: usize = 5;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "prompts.names",
        requirements: &["prompts.list.name-unique"],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(names),
    },
    Check {
        name: "prompts.get",
        requirements: &["prompts.get.shape", "prompts.embedded-resource.fields"],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(get),
    },
    Check {
        name: "prompts.arguments",
        requirements: &[
            "prompts.get.missing-argument",
            "prompts.get.validates-arguments",
        ],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(arguments),
    },
];

fn name_of(prompt: &Value) -> &str {
    prompt
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The names of a prompt's arguments, with whether each is required.
fn arguments_of(prompt: &Value) -> Vec<(String, bool)> {
    prompt
        .get("arguments")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|argument| {
            let name = argument.get("name")?.as_str()?.to_owned();
            Some((name, argument.get("required") == Some(&Value::Bool(true))))
        })
        .collect()
}

fn names(ctx: &mut Context<'_>) {
    const RULE: &str = "prompts.list.name-unique";
    if !ctx.needs_list("prompts/list", &[RULE]) {
        return;
    }
    let mut seen = HashSet::new();
    let prompts = ctx.facts.items("prompts/list").to_vec();
    for prompt in &prompts {
        if seen.insert(name_of(prompt)) {
            ctx.judge.holds(RULE);
        } else {
            let evidence = ctx.list_evidence("prompts/list");
            let message = format!("More than one prompt is named `{}`.", name_of(prompt));
            ctx.judge.broken(RULE, message, evidence);
        }
    }
    if prompts.is_empty() {
        ctx.judge
            .not_applicable(RULE, "The server lists no prompt.");
    }
}

/// Gets prompts with a word for each required argument. What comes is judged by its shape; a
/// server may refuse a made-up word.
fn get(ctx: &mut Context<'_>) {
    const RULE: &str = "prompts.get.shape";
    const EMBEDDED: &str = "prompts.embedded-resource.fields";
    if !ctx.needs_list("prompts/list", &[RULE, EMBEDDED]) {
        return;
    }
    let prompts = ctx.facts.items("prompts/list").to_vec();
    for prompt in prompts.iter().take(MOST_PROMPTS) {
        let required: Map<String, Value> = arguments_of(prompt)
            .into_iter()
            .filter(|(_, required)| *required)
            .map(|(name, _)| (name, json!("1")))
            .collect();
        let mut params = json!({"name": name_of(prompt)});
        if !required.is_empty() {
            params["arguments"] = Value::Object(required.clone());
        }
        let from = ctx.client.log().len();
        match ctx.ask(&[RULE], "prompts/get", Some(params)) {
            Answer::Result(result) => {
                ctx.judge.holds(RULE);
                embedded(ctx, &result, from);
            }
            Answer::Error {
                code: Some(-32602),
                error,
            } if required.is_empty() => {
                let evidence = ctx.evidence_from(from);
                let message = format!(
                    "`{}` needs no argument, but `prompts/get` fails: {error}",
                    name_of(prompt)
                );
                ctx.judge.broken_as(RULE, Breach::Warn, message, evidence);
            }
            Answer::Error { error, .. } => {
                // Made-up words, or something of the client's that is not there.
                let note = format!("`{}` could not be got: {error}", name_of(prompt));
                ctx.judge.note(RULE, note);
            }
            Answer::None => return,
        }
    }
    if prompts.is_empty() {
        ctx.not_applicable(&[RULE, EMBEDDED], "The server lists no prompt.");
    }
}

fn embedded(ctx: &mut Context<'_>, result: &Value, from: usize) {
    const RULE: &str = "prompts.embedded-resource.fields";
    let resources: Vec<&Value> = result
        .get("messages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|message| message.pointer("/content/resource"))
        .collect();
    for resource in resources {
        let text = |name: &str| resource.get(name).and_then(Value::as_str);
        let fault = if !text("uri").is_some_and(super::resources::is_uri) {
            Some("has no valid `uri`")
        } else if text("mimeType").is_none() {
            Some("has no `mimeType`")
        } else if text("text").is_none() && !text("blob").is_some_and(super::resources::is_base64) {
            Some("has neither `text` nor a base64 `blob`")
        } else {
            None
        };
        match fault {
            None => ctx.judge.holds(RULE),
            Some(fault) => {
                let evidence = ctx.evidence_from(from);
                let message = format!("A resource embedded in a prompt {fault}.");
                ctx.judge.broken_as(RULE, Breach::Warn, message, evidence);
            }
        }
    }
}

fn arguments(ctx: &mut Context<'_>) {
    const MISSING: &str = "prompts.get.missing-argument";
    const VALIDATES: &str = "prompts.get.validates-arguments";
    if !ctx.needs_list("prompts/list", &[MISSING, VALIDATES]) {
        return;
    }
    let prompts = ctx.facts.items("prompts/list").to_vec();
    let with_required = prompts
        .iter()
        .find(|prompt| arguments_of(prompt).iter().any(|(_, required)| *required));
    match with_required {
        Some(prompt) => {
            let params = json!({"name": name_of(prompt), "arguments": {}});
            let what = format!(
                "`prompts/get` of `{}` without its required argument",
                name_of(prompt)
            );
            ctx.expect_error(
                MISSING,
                -32602,
                Breach::Note,
                "prompts/get",
                Some(params),
                &what,
            );
        }
        None => ctx
            .judge
            .not_applicable(MISSING, "No prompt has a required argument."),
    }
    let with_any = prompts.iter().find_map(|prompt| {
        let arguments = arguments_of(prompt);
        (!arguments.is_empty()).then_some((prompt, arguments))
    });
    let Some((prompt, arguments)) = with_any else {
        ctx.judge
            .not_applicable(VALIDATES, "No prompt has an argument.");
        return;
    };
    let values: Map<String, Value> = arguments
        .into_iter()
        .map(|(name, _)| (name, json!([5])))
        .collect();
    let from = ctx.client.log().len();
    let params = json!({"name": name_of(prompt), "arguments": values});
    match ctx.ask(&[VALIDATES], "prompts/get", Some(params)) {
        Answer::Error { .. } => ctx.judge.holds(VALIDATES),
        Answer::Result(_) => {
            let evidence = ctx.evidence_from(from);
            let message =
                "`prompts/get` takes an array as the value of an argument; values are strings.";
            ctx.judge
                .broken_as(VALIDATES, Breach::Warn, message, evidence);
        }
        Answer::None => {}
    }
}
