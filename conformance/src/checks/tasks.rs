//! `basic/utilities/tasks` (2025-11-25).

use serde_json::{Value, json};

use super::{Answer, Check, Context, Session};
use crate::spec::requirement::Breach;
use crate::spec::{Revision, Span};

const TASKS: Span = Span {
    first: Revision::V2025_11_25,
    last: Revision::V2025_11_25,
};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "tasks.capability",
        requirements: &["tasks.capability"],
        span: TASKS,
        session: Session::Shared,
        run: capability,
    },
    Check {
        name: "tasks.errors",
        requirements: &["tasks.unknown-id", "tasks.list", "tasks.tool-required"],
        span: TASKS,
        session: Session::Shared,
        run: errors,
    },
];

fn task_support(tool: &Value) -> Option<&str> {
    tool.pointer("/execution/taskSupport")
        .and_then(Value::as_str)
}

/// A tool that offers tasks without the capability is a declaration that is missing.
fn capability(ctx: &mut Context<'_>) {
    const RULE: &str = "tasks.capability";
    let offered = ctx
        .facts
        .items("tools/list")
        .iter()
        .find(|tool| matches!(task_support(tool), Some("optional" | "required")))
        .and_then(|tool| tool.get("name").cloned());
    match (ctx.facts.declares("tasks"), offered) {
        (true, _) => ctx.judge.holds(RULE),
        (false, Some(name)) => {
            let evidence = ctx.list_evidence("tools/list");
            let message =
                format!("The tool {name} offers tasks, but the server does not declare `tasks`.");
            ctx.judge.broken(RULE, message, evidence);
        }
        (false, None) => ctx
            .judge
            .not_applicable(RULE, "The server offers no tasks."),
    }
}

fn errors(ctx: &mut Context<'_>) {
    const UNKNOWN: &str = "tasks.unknown-id";
    const LIST: &str = "tasks.list";
    const REQUIRED: &str = "tasks.tool-required";
    if !ctx.needs("tasks", &[UNKNOWN, LIST, REQUIRED]) {
        return;
    }
    let mut methods = vec!["tasks/get", "tasks/result"];
    if ctx.facts.declares("tasks.cancel") {
        methods.push("tasks/cancel");
    }
    for method in methods {
        let params = json!({"taskId": "touchstone-no-such-task"});
        let what = format!("`{method}` of an unknown task");
        ctx.expect_error(UNKNOWN, -32602, Breach::Fail, method, Some(params), &what);
    }
    if ctx.needs("tasks.list", &[LIST]) {
        let from = ctx.client.log().len();
        match ctx.ask(&[LIST], "tasks/list", None) {
            Answer::Result(result) if result.get("tasks").is_some_and(Value::is_array) => {
                ctx.judge.holds(LIST);
                let params = json!({"cursor": "touchstone-bogus"});
                ctx.expect_error(
                    LIST,
                    -32602,
                    Breach::Warn,
                    "tasks/list",
                    Some(params),
                    "`tasks/list` with a bogus cursor",
                );
            }
            Answer::Result(_) => {
                let evidence = ctx.evidence_from(from);
                ctx.judge
                    .broken(LIST, "`tasks/list` gives no `tasks` array.", evidence);
            }
            Answer::Error { error, .. } => {
                let evidence = ctx.evidence_from(from);
                ctx.judge.broken(
                    LIST,
                    format!("`tasks.list` is declared, but fails: {error}"),
                    evidence,
                );
            }
            Answer::None => return,
        }
    }
    // A plain call of such a tool must not run it, so it is safe to try.
    let required = ctx
        .callable_tools()
        .into_iter()
        .find(|tool| task_support(tool) == Some("required"));
    match required {
        Some(tool) => {
            let params = json!({"name": tool["name"], "arguments": {}});
            ctx.expect_error(
                REQUIRED,
                -32601,
                Breach::Fail,
                "tools/call",
                Some(params),
                "A plain call of a tool that requires tasks",
            );
        }
        None => ctx
            .judge
            .not_applicable(REQUIRED, "No tool that may be called requires tasks."),
    }
}
