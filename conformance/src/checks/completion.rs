//! `server/utilities/completion`.

use serde_json::{Value, json};

use super::{Answer, Check, Context, Run, Session};
use crate::spec::requirement::Breach;
use crate::spec::{Revision, Span};

pub(super) const CHECKS: &[Check] = &[Check {
    name: "completion.complete",
    requirements: &[
        "completion.result-shape",
        "completion.max-100",
        "completion.context-accepted",
    ],
    span: Span::ALL,
    session: Session::Shared,
    run: Run::Code(complete),
}];

/// A reference and the name of an argument that can be completed.
fn reference(ctx: &Context<'_>) -> Option<(Value, String)> {
    for prompt in ctx.facts.items("prompts/list") {
        let argument = prompt.pointer("/arguments/0/name").and_then(Value::as_str);
        if let (Some(name), Some(argument)) = (prompt.get("name"), argument) {
            return Some((
                json!({"type": "ref/prompt", "name": name}),
                argument.to_owned(),
            ));
        }
    }
    ctx.facts
        .items("resources/templates/list")
        .iter()
        .find_map(|template| {
            let uri = template.get("uriTemplate").and_then(Value::as_str)?;
            let variable: String = uri
                .split_once('{')?
                .1
                .trim_start_matches(['+', '#', '.', '/', ';', '?', '&'])
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect();
            Some((json!({"type": "ref/resource", "uri": uri}), variable))
        })
}

/// Before 2025-03-26 there was no capability to declare; nothing can be asked of a server then.
fn applies(ctx: &mut Context<'_>, rules: &[&str]) -> bool {
    if ctx.revision() == Revision::V2024_11_05 {
        ctx.not_applicable(
            rules,
            "2024-11-05 has no capability that says whether a server completes.",
        );
        return false;
    }
    ctx.needs("completions", rules)
}

fn complete(ctx: &mut Context<'_>) {
    const SHAPE: &str = "completion.result-shape";
    const MOST: &str = "completion.max-100";
    const CONTEXT: &str = "completion.context-accepted";
    if !applies(ctx, &[SHAPE, MOST, CONTEXT]) {
        return;
    }
    let Some((reference, argument)) = reference(ctx) else {
        ctx.not_applicable(
            &[SHAPE, MOST, CONTEXT],
            "No prompt has arguments and no template is listed.",
        );
        return;
    };
    let params = json!({"ref": reference, "argument": {"name": argument, "value": ""}});
    let from = ctx.client.log().len();
    match ctx.ask(&[SHAPE, MOST], "completion/complete", Some(params.clone())) {
        Answer::Result(result) => {
            let count = result
                .pointer("/completion/values")
                .and_then(Value::as_array)
                .map_or(0, Vec::len);
            if count <= 100 {
                ctx.judge.holds(MOST);
            } else {
                let evidence = ctx.evidence_from(from);
                ctx.judge.broken(
                    MOST,
                    format!("A completion holds {count} values; 100 are the most."),
                    evidence,
                );
            }
            let total = result.pointer("/completion/total").and_then(Value::as_u64);
            let has_more = result.pointer("/completion/hasMore") == Some(&Value::Bool(true));
            if let Some(total) = total.filter(|total| *total > count as u64 && !has_more) {
                let text = format!(
                    "A completion holds {count} of {total} values, and `hasMore` is not true."
                );
                ctx.judge.note(SHAPE, text);
            }
        }
        Answer::Error { error, .. } => {
            let evidence = ctx.evidence_from(from);
            let message = format!(
                "`completions` is declared, but completing a listed argument fails: {error}"
            );
            ctx.judge.broken_as(SHAPE, Breach::Warn, message, evidence);
        }
        Answer::None => return,
    }
    if ctx.revision() < Revision::V2025_06_18 {
        return;
    }
    let mut with_context = params;
    with_context["context"] = json!({"arguments": {"touchstone": "x"}});
    let from = ctx.client.log().len();
    match ctx.ask(&[CONTEXT], "completion/complete", Some(with_context)) {
        Answer::Result(_) => ctx.judge.holds(CONTEXT),
        Answer::Error { error, .. } => {
            let evidence = ctx.evidence_from(from);
            ctx.judge.broken(
                CONTEXT,
                format!("`context.arguments` makes a completion fail: {error}"),
                evidence,
            );
        }
        Answer::None => {}
    }
}
