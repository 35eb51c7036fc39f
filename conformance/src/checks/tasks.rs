//! `basic/utilities/tasks` (2025-11-25).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Answer, Check, Context, Run, Session};
use crate::client::Reply;
use crate::property::example;
use crate::run::{Does, Occasion};
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
    Check {
        name: "tasks.undeclared",
        requirements: &["tasks.undeclared-ignored", "tasks.tool-forbidden"],
        span: TASKS,
        session: Session::Shared,
        run: Run::Code(unasked),
    },
    Check {
        name: "tasks.course",
        requirements: &[
            "tasks.create",
            "tasks.get-shape",
            "tasks.status-lifecycle",
            "tasks.result",
            "tasks.related-meta",
            "tasks.related-meta-precedence",
            "tasks.progress-token",
            "tasks.isolation",
        ],
        span: TASKS,
        session: Session::Able,
        run: Run::Occasion(&[Does::Task], course),
    },
    Check {
        name: "tasks.cancel",
        requirements: &["tasks.cancel", "tasks.status-lifecycle"],
        span: TASKS,
        session: Session::Able,
        run: Run::Occasion(&[Does::Task], cancel),
    },
];

const CREATE: &str = "tasks.create";
const GET: &str = "tasks.get-shape";
const STATUS: &str = "tasks.status-lifecycle";
const RESULT: &str = "tasks.result";
const RELATED: &str = "tasks.related-meta";
const PRECEDENCE: &str = "tasks.related-meta-precedence";
const TOKEN: &str = "tasks.progress-token";
const ISOLATION: &str = "tasks.isolation";
const COURSE: &[&str] = &[
    CREATE, GET, STATUS, RESULT, RELATED, PRECEDENCE, TOKEN, ISOLATION,
];
/// Where messages of a task name it.
const RELATED_TASK: &str = "/_meta/io.modelcontextprotocol~1related-task/taskId";

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
    // A plain call of such a tool must not run it, so it is safe to try; one that hints name gets
    // their arguments.
    let listed = ctx.facts.items("tools/list").iter();
    let mut required = listed.filter(|tool| task_support(tool) == Some("required"));
    let params = required.find_map(|tool| {
        let name = tool.get("name")?.as_str()?;
        let hinted = ctx.facts.occasions.iter();
        let hinted = hinted.filter(|o| o.method == "tools/call" && o.target() == name);
        match hinted.map(|o| o.params.clone()).next() {
            Some(params) => Some(params),
            None => super::may_call(ctx.call, tool).then(|| json!({"name": name, "arguments": {}})),
        }
    });
    match params {
        Some(params) => {
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

/// Whether calls of tools may be tasks.
fn takes_tasks(ctx: &Context<'_>) -> bool {
    ctx.facts.declares("tasks.requests.tools.call")
}

/// Tools that may be called and offer tasks, for servers without hints.
pub(crate) fn offered(facts: &super::Facts, call: &crate::run::CallPolicy) -> Vec<Occasion> {
    if !facts.declares("tasks.requests.tools.call") {
        return Vec::new();
    }
    facts
        .items("tools/list")
        .iter()
        .filter(|tool| super::may_call(call, tool))
        .filter(|tool| matches!(task_support(tool), Some("optional" | "required")))
        .filter_map(|tool| {
            let name = tool.get("name")?.as_str()?;
            Some(Occasion::seen(name, example::arguments(tool)?, Does::Task))
        })
        .collect()
}

/// The member `task` where the server, or the tool, does not take tasks.
fn unasked(ctx: &mut Context<'_>) {
    const IGNORED: &str = "tasks.undeclared-ignored";
    const FORBIDDEN: &str = "tasks.tool-forbidden";
    let tool = ctx.callable_tools().into_iter().find_map(|tool| {
        let forbidden = matches!(task_support(&tool), None | Some("forbidden"));
        let name = tool.get("name")?.as_str()?.to_owned();
        Some((name, example::arguments(&tool).filter(|_| forbidden)?))
    });
    let Some((name, arguments)) = tool else {
        let why = "No tool without tasks may be called; allow one with `--call`.";
        ctx.not_applicable(&[IGNORED, FORBIDDEN], why);
        return;
    };
    let with_task = json!({"name": name, "arguments": arguments, "task": {"ttl": 60_000}});
    if takes_tasks(ctx) {
        ctx.judge.not_applicable(IGNORED, "The server takes tasks.");
        let what = format!("A task of `{name}`, which offers none,");
        ctx.expect_error(
            FORBIDDEN,
            -32601,
            Breach::Warn,
            "tools/call",
            Some(with_task),
            &what,
        );
        return;
    }
    ctx.judge
        .not_applicable(FORBIDDEN, "The server does not take tasks.");
    // A tool that fails without a task as well says nothing.
    let Answer::Result(_) = ctx.call_tool(&[IGNORED], &name, json!(arguments)) else {
        let why = format!("`{name}` fails with made-up arguments.");
        ctx.judge.not_applicable(IGNORED, why);
        return;
    };
    let from = ctx.client.log().len();
    let fault = match ctx.ask(&[IGNORED], "tools/call", Some(with_task)) {
        Answer::Result(result) if result.get("task").is_some() => "makes a task of it",
        Answer::Result(_) => return ctx.judge.holds(IGNORED),
        Answer::Error { .. } => "refuses it",
        Answer::None => return,
    };
    let evidence = ctx.evidence_from(from);
    let text =
        format!("The server does not declare tasks, yet `task` in a call of `{name}` {fault}.");
    ctx.judge.broken(IGNORED, text, evidence);
}

/// Creates a task; `None` after telling what is wrong.
fn create(ctx: &mut Context<'_>, rules: &[&str], params: Value) -> Option<Value> {
    let from = ctx.client.log().len();
    let text = match ctx.ask(rules, "tools/call", Some(params)) {
        Answer::Result(result) => match result.get("task") {
            Some(task) if task.get("taskId").is_some_and(Value::is_string) => {
                return Some(task.clone());
            }
            _ => "A call with `task` is answered without a task that has a `taskId`.".to_owned(),
        },
        Answer::Error { error, .. } => format!("A call with `task` gives an error: {error}"),
        Answer::None => return None,
    };
    let evidence = ctx.evidence_from(from);
    ctx.judge.broken(CREATE, text, evidence);
    rules
        .iter()
        .for_each(|rule| ctx.judge.blocked(rule, CREATE));
    None
}

/// What is wrong with a task.
fn fault_of(task: &Value) -> Option<String> {
    const STATUSES: [&str; 5] = [
        "working",
        "input_required",
        "completed",
        "failed",
        "cancelled",
    ];
    let text = |name: &str| task.get(name).and_then(Value::as_str);
    if text("taskId").is_none_or(str::is_empty) {
        return Some("the `taskId` is no text".to_owned());
    }
    if !text("status").is_some_and(|status| STATUSES.contains(&status)) {
        return Some(format!("the `status` is {}", task["status"]));
    }
    for name in ["createdAt", "lastUpdatedAt"] {
        if !text(name).is_some_and(is_timestamp) {
            return Some(format!("`{name}` is {}, no ISO 8601 time", task[name]));
        }
    }
    match task.get("ttl") {
        Some(Value::Null | Value::Number(_)) => None,
        Some(other) => Some(format!("the `ttl` is {other}, neither a number nor null")),
        None => Some("there is no `ttl`".to_owned()),
    }
}

/// A date and a time of day, as in `2026-01-02T03:04:05.6Z`.
fn is_timestamp(text: &str) -> bool {
    static SHAPE: std::sync::LazyLock<Option<regex::Regex>> = std::sync::LazyLock::new(|| {
        regex::Regex::new(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?$")
            .ok()
    });
    SHAPE.as_ref().is_some_and(|shape| shape.is_match(text))
}

fn status_of(task: &Value) -> &str {
    task.get("status")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn is_final(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled")
}

/// Reads a task and judges its shape.
fn get(ctx: &mut Context<'_>, id: &Value, rules: &[&str]) -> Option<Value> {
    let from = ctx.client.log().len();
    match ctx.ask(rules, "tasks/get", Some(json!({"taskId": id}))) {
        Answer::Result(task) => {
            let fault = match fault_of(&task) {
                None if task["taskId"] != *id => Some("it is another task".to_owned()),
                other => other,
            };
            let Some(fault) = fault else {
                ctx.judge.holds(GET);
                return Some(task);
            };
            let evidence = ctx.evidence_from(from);
            let text = format!("`tasks/get` does not give the task: {fault}.");
            ctx.judge.broken(GET, text, evidence);
            rules.iter().for_each(|rule| ctx.judge.blocked(rule, GET));
            None
        }
        Answer::Error { error, .. } => {
            let evidence = ctx.evidence_from(from);
            let text = format!("`tasks/get` of a task just made gives an error: {error}");
            ctx.judge.broken(GET, text, evidence);
            rules.iter().for_each(|rule| ctx.judge.blocked(rule, GET));
            None
        }
        Answer::None => None,
    }
}

/// Two tasks, from the making to the result.
fn course(ctx: &mut Context<'_>, occasion: &Occasion) {
    if !ctx.needs("tasks.requests.tools.call", COURSE) {
        return;
    }
    let from = ctx.client.log().len();
    let token = json!("task-progress");
    let mut params = occasion.with_token(&token);
    params["task"] = json!({"ttl": 60_000});
    let Some(first) = create(ctx, COURSE, params.clone()) else {
        return;
    };
    params["_meta"] = json!({"progressToken": "task-progress-2"});
    let Some(second) = create(ctx, COURSE, params) else {
        return;
    };
    created(ctx, &first, &second, from);
    precedence(ctx, &first, &second);
    let ids = [first["taskId"].clone(), second["taskId"].clone()];
    result(ctx, occasion, &ids[0]);
    for id in &ids {
        lifecycle(ctx, id);
    }
    progress(ctx, from, &token);
}

fn created(ctx: &mut Context<'_>, first: &Value, second: &Value, from: usize) {
    let fault = [first, second].into_iter().find_map(|task| {
        let status = status_of(task);
        fault_of(task).or((status != "working")
            .then(|| format!("a new task has the status `{status}`; it begins as `working`")))
    });
    let same = first["taskId"] == second["taskId"];
    let fault = fault.or(same.then(|| "two tasks have the same id".to_owned()));
    match fault {
        None => ctx.judge.holds(CREATE),
        Some(fault) => {
            let evidence = ctx.evidence_from(from);
            let text = format!("What was made is no proper task: {fault}.");
            ctx.judge.broken(CREATE, text, evidence);
        }
    }
    let ids = [first, second].map(|task| task["taskId"].as_str().unwrap_or_default().to_owned());
    if is_guessable(&ids[0], &ids[1]) {
        // Over stdio the process has one client: nobody else is there to guess.
        let evidence = ctx.evidence_from(from);
        let text = format!(
            "The ids of tasks can be guessed: `{}`, `{}`.",
            ids[0], ids[1]
        );
        ctx.judge.broken_as(ISOLATION, Breach::Warn, text, evidence);
    } else {
        ctx.judge.holds(ISOLATION);
    }
}

/// Whether two ids, one after the other, look counted or are too short.
fn is_guessable(first: &str, second: &str) -> bool {
    let parts = |id: &str| {
        let stem = id.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        (id[..stem].to_owned(), id[stem..].parse::<u128>().ok())
    };
    let ((stem, number), (other_stem, other)) = (parts(first), parts(second));
    let counted = stem == other_stem
        && number
            .zip(other)
            .is_some_and(|(a, b)| a.abs_diff(b) < 100_000);
    counted || first.len() < 8
}

/// The parameter names the task, whatever the metadata say.
fn precedence(ctx: &mut Context<'_>, first: &Value, second: &Value) {
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": second["taskId"]}});
    let params = json!({"taskId": first["taskId"], "_meta": related});
    let from = ctx.client.log().len();
    match ctx.ask(&[PRECEDENCE], "tasks/get", Some(params)) {
        Answer::Result(task) if task["taskId"] == first["taskId"] => ctx.judge.holds(PRECEDENCE),
        Answer::None => {}
        _ => {
            let evidence = ctx.evidence_from(from);
            let text = "`tasks/get` with other metadata does not give the task of its `taskId`.";
            ctx.judge.broken(PRECEDENCE, text, evidence);
        }
    }
}

/// `tasks/result` waits for the end and gives what a plain call gives.
fn result(ctx: &mut Context<'_>, occasion: &Occasion, id: &Value) {
    let from = ctx.client.log().len();
    let request = ctx.client.fresh_id();
    let params = Some(json!({"taskId": id}));
    ctx.client.post(request.clone(), "tasks/result", params);
    let patience = ctx.client.limits().request + occasion.takes.unwrap_or_default();
    let reply = ctx.client.reply(&request, Instant::now() + patience);
    let (given, at) = match &reply {
        Reply::Result { result, at } => (result.clone(), *at),
        Reply::Error { error, at } => (error.clone(), *at),
        _ => {
            ctx.settle(&[RESULT, RELATED], "tasks/result", from, reply);
            return;
        }
    };
    let Some(task) = get(ctx, id, &[RESULT]) else {
        return;
    };
    if !is_final(status_of(&task)) {
        let evidence = ctx.evidence_from(from);
        let text = format!(
            "`tasks/result` was answered while the task is `{}`; it waits for the end.",
            status_of(&task)
        );
        ctx.judge.broken(RESULT, text, evidence);
        ctx.judge.blocked(RELATED, RESULT);
        return;
    }
    if reply.result().is_some() {
        if given.pointer(RELATED_TASK) == Some(id) {
            ctx.judge.holds(RELATED);
        } else {
            let evidence = super::exchange::evidence(ctx.client.log(), [from, at]);
            let text = "The result of a task does not name it in `_meta`.";
            ctx.judge.broken(RELATED, text, evidence);
        }
    }
    as_plain(ctx, occasion, &reply, given, from);
}

/// Compares with plain calls, as far as these agree among themselves.
fn as_plain(
    ctx: &mut Context<'_>,
    occasion: &Occasion,
    reply: &Reply,
    mut given: Value,
    from: usize,
) {
    let required = ctx.facts.items("tools/list").iter().any(|tool| {
        tool.get("name").and_then(Value::as_str) == Some(occasion.target())
            && task_support(tool) == Some("required")
    });
    let strip = |value: &mut Value| {
        if let Some(members) = value.as_object_mut() {
            members.remove("_meta");
        }
    };
    strip(&mut given);
    let looks_right = match reply {
        Reply::Result { result, .. } => result.get("content").is_some_and(Value::is_array),
        _ => given.get("code").is_some(),
    };
    let mut fault = (!looks_right).then_some("is not the result of a tool");
    if fault.is_none() && !required {
        let mut plain = || {
            let reply = ctx
                .client
                .request(occasion.method, Some(occasion.params.clone()));
            let mut said = match reply {
                Reply::Result { result, .. } => result,
                Reply::Error { error, .. } => error,
                _ => return None,
            };
            strip(&mut said);
            Some(said)
        };
        // A tool that says something else each time cannot be compared.
        let once = plain();
        if once.as_ref() != Some(&given) && once.is_some() && once == plain() {
            fault = Some("is not what the plain call gives");
        }
    }
    match fault {
        None => ctx.judge.holds(RESULT),
        Some(fault) => {
            let evidence = ctx.evidence_from(from);
            let text = format!("What `tasks/result` gives {fault}.");
            ctx.judge.broken(RESULT, text, evidence);
        }
    }
}

/// Follows a task to its end and a little further.
fn lifecycle(ctx: &mut Context<'_>, id: &Value) {
    const LOOK: Duration = Duration::from_millis(50);
    let from = ctx.client.log().len();
    let until = Instant::now() + ctx.client.limits().request;
    let mut last: Option<String> = None;
    let mut looks_after_end = 0;
    while looks_after_end < 2 {
        let Some(task) = get(ctx, id, &[STATUS]) else {
            return;
        };
        let status = status_of(&task).to_owned();
        if let Some(before) = last.filter(|before| is_final(before) && *before != status) {
            let evidence = ctx.evidence_from(from);
            let text = format!("A task went from `{before}`, which is final, to `{status}`.");
            ctx.judge.broken(STATUS, text, evidence);
            return;
        }
        if is_final(&status) {
            looks_after_end += 1;
        } else if Instant::now() > until {
            let why = "The task did not come to its end in time.";
            ctx.judge.not_applicable(STATUS, why);
            return;
        } else {
            ctx.client.listen(LOOK);
        }
        last = Some(status);
    }
    ctx.judge.holds(STATUS);
}

/// Progress of a task comes under its token, and ends with it.
fn progress(ctx: &mut Context<'_>, from: usize, token: &Value) {
    let is_progress = |message: &Value| message["method"] == "notifications/progress";
    let ours =
        |message: &Value| is_progress(message) && message["params"]["progressToken"] == *token;
    let seen = ctx
        .client
        .find(from, Instant::now(), &mut |m| ours(m))
        .is_some();
    // The tasks are at their end, and the server has said so.
    let end = ctx.client.log().len();
    ctx.client.barrier();
    let until = Instant::now() + ctx.client.limits().quiet;
    let late = ctx.client.find(end, until, &mut |m| ours(m));
    if late.is_some() {
        let evidence = ctx.evidence_from(end);
        let text = "Progress of a task came after its end.";
        ctx.judge.broken(TOKEN, text, evidence);
    } else if seen {
        ctx.judge.holds(TOKEN);
    } else {
        ctx.judge
            .not_applicable(TOKEN, "The task reported no progress.");
    }
}

/// Cancels a task that runs, looks again, cancels again.
fn cancel(ctx: &mut Context<'_>, occasion: &Occasion) {
    const RULE: &str = "tasks.cancel";
    if !ctx.needs("tasks.requests.tools.call", &[RULE]) || !ctx.needs("tasks.cancel", &[RULE]) {
        return;
    }
    // The slower the better.
    let all = ctx.occasions(&[Does::Task]);
    let slowest = all.iter().max_by_key(|o| o.takes.unwrap_or_default());
    let occasion = slowest.unwrap_or(occasion);
    let mut params = occasion.params.clone();
    params["task"] = json!({"ttl": 60_000});
    let Some(task) = create(ctx, &[RULE], params) else {
        return;
    };
    let id = json!({"taskId": task["taskId"]});
    let from = ctx.client.log().len();
    match ctx.ask(&[RULE], "tasks/cancel", Some(id.clone())) {
        Answer::Result(task) if status_of(&task) == "cancelled" => {}
        Answer::Result(task) => {
            let evidence = ctx.evidence_from(from);
            let text = format!("A cancelled task has the status {}.", task["status"]);
            ctx.judge.broken(RULE, text, evidence);
            return;
        }
        Answer::Error { error, .. } => {
            let ended =
                get(ctx, &task["taskId"], &[RULE]).is_some_and(|task| is_final(status_of(&task)));
            if ended {
                let why = format!("{occasion} was over before it could be cancelled.");
                ctx.judge.not_applicable(RULE, why);
            } else {
                let evidence = ctx.evidence_from(from);
                let text = format!("`tasks/cancel` of a running task gives an error: {error}");
                ctx.judge.broken(RULE, text, evidence);
            }
            return;
        }
        Answer::None => return,
    }
    for pause in [0, 1] {
        let quiet = ctx.client.limits().quiet * pause;
        ctx.client.listen(quiet);
        let Some(again) = get(ctx, &task["taskId"], &[RULE]) else {
            return;
        };
        if status_of(&again) != "cancelled" {
            let evidence = ctx.evidence_from(from);
            let text = format!("A cancelled task became {}.", again["status"]);
            ctx.judge.broken(RULE, text.as_str(), evidence.clone());
            ctx.judge.broken(STATUS, text, evidence);
            return;
        }
    }
    let what = "Cancelling a task that is cancelled already";
    ctx.expect_error(RULE, -32602, Breach::Fail, "tasks/cancel", Some(id), what);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_and_short_ids_can_be_guessed() {
        for (first, second) in [("1", "2"), ("task-00000041", "task-00000042"), ("ab", "xy")] {
            assert!(is_guessable(first, second), "{first} {second}");
        }
        for (first, second) in [
            (
                "786512e2-9e0d-44bd-8f29-789f320fe840",
                "0b9fdf5e-7a0c-4d21-9c68-111111111111",
            ),
            ("f00dfeed1234", "c0ffee991235"),
        ] {
            assert!(!is_guessable(first, second), "{first} {second}");
        }
    }

    #[test]
    fn a_task_needs_its_members() {
        let task = super::super::asking::task(1, "working");
        assert_eq!(fault_of(&task), None);
        for (name, wrong) in [
            ("taskId", json!(1)),
            ("status", json!("done")),
            ("createdAt", json!("yesterday")),
            ("lastUpdatedAt", json!(1_700_000_000)),
            ("ttl", json!("1")),
        ] {
            let mut bad = task.clone();
            bad[name] = wrong;
            assert!(fault_of(&bad).is_some(), "{name}");
            bad.as_object_mut().unwrap().remove(name);
            assert!(fault_of(&bad).is_some(), "{name}");
        }
    }
}
