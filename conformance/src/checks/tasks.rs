//! `basic/utilities/tasks` (2025-11-25).

use serde_json::{Value, json};

use super::{Check, Context, Run, Session};
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
        run: Run::Code(capability),
    },
    Check {
        name: "tasks.plain-call",
        requirements: &["tasks.tool-required"],
        span: TASKS,
        session: Session::Shared,
        run: Run::Code(plain_call),
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

fn plain_call(ctx: &mut Context<'_>) {
    const REQUIRED: &str = "tasks.tool-required";
    if !ctx.needs("tasks", &[REQUIRED]) {
        return;
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
