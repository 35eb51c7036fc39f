//! `server/tools`.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::exchange::{Exchange, SentKind};
use super::jsonschema::each_subschema;
use super::{Answer, Check, Context, Observer, Run, Session};
use crate::client::Reply;
use crate::property::example;
use crate::run::{CallPolicy, Does, Judge, Occasion};
use crate::spec::requirement::Breach;
use crate::spec::{Revision, Span};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "tools.names",
        requirements: &[
            "tools.list.name-unique",
            "tools.name.length",
            "tools.name.charset",
        ],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(names),
    },
    Check {
        name: "tools.hints",
        requirements: &["tools.list.annotations-shape"],
        span: Span {
            first: Revision::V2025_03_26,
            last: Revision::V2026_07_28,
        },
        session: Session::Shared,
        run: Run::Code(hints),
    },
    Check {
        name: "tools.x-mcp-header",
        requirements: &["tools.x-mcp-header.syntax", "tools.x-mcp-header.placement"],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(header_annotations),
    },
    Check {
        name: "tools.malformed-call",
        requirements: &["tools.call.malformed-request"],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(malformed_call),
    },
    Check {
        name: "tools.validates-input",
        requirements: &[
            "tools.call.validates-input",
            "tools.call.invalid-arguments.protocol-error",
            "tools.call.invalid-arguments.tool-error",
        ],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(validates_input),
    },
    Check {
        name: "tools.call",
        requirements: &["tools.call.result-shape"],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(call),
    },
    Check {
        name: "tools.parallel-calls",
        requirements: &["tools.call.execution-error", "jsonrpc.response.exactly-one"],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(parallel_calls),
    },
    Check {
        name: "tools.null-arguments",
        requirements: &["tools.call.malformed-request"],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(null_arguments),
    },
    Check {
        name: "tools.call-without-id",
        requirements: &["jsonrpc.notification.idless-request"],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(call_without_id),
    },
    Check {
        name: "tools.order",
        requirements: &["tools.list.deterministic-order"],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(order),
    },
    Check {
        name: "lists.second-process",
        requirements: &[
            "tools.list.deterministic-order",
            "tools.list.not-per-connection",
            "resources.list.not-per-connection",
            "prompts.list.not-per-connection",
        ],
        span: Span {
            first: Revision::V2026_07_28,
            last: Revision::V2026_07_28,
        },
        session: Session::Rough,
        run: Run::Code(second_process),
    },
    Check {
        name: "tools.case",
        requirements: &["tools.name.case-sensitive"],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(case),
    },
    Check {
        name: "tools.fails",
        requirements: &["tools.call.execution-error", "jsonrpc.internal-error"],
        span: Span::ALL,
        session: Session::Able,
        run: Run::Occasion(&[Does::Fails], fails),
    },
    Check {
        name: "tools.hinted-call",
        requirements: &["tools.call.result-shape"],
        span: Span::ALL,
        session: Session::Able,
        run: Run::Code(hinted_call),
    },
];

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "tools.results",
    requirements: &[
        "tools.call.structured.conforms",
        "tools.call.structured.text-copy",
        "tools.call.structured.any-json",
        "tools.call.embedded-needs-resources",
    ],
    read: results,
}];

pub(super) fn tool_name(tool: &Value) -> &str {
    tool.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn names(ctx: &mut Context<'_>) {
    const UNIQUE: &str = "tools.list.name-unique";
    const LENGTH: &str = "tools.name.length";
    const CHARSET: &str = "tools.name.charset";
    if !ctx.needs_list("tools/list", &[UNIQUE, LENGTH, CHARSET]) {
        return;
    }
    let names: Vec<String> = ctx
        .facts
        .items("tools/list")
        .iter()
        .map(|tool| tool_name(tool).to_owned())
        .collect();
    let mut seen = HashSet::new();
    let evidence = ctx.list_evidence("tools/list");
    for name in &names {
        if seen.insert(name) {
            ctx.judge.holds(UNIQUE);
        } else {
            let message = format!("More than one tool is named `{name}`.");
            ctx.judge.broken(UNIQUE, message, evidence.clone());
        }
        let length = name.chars().count();
        if (1..=128).contains(&length) {
            ctx.judge.holds(LENGTH);
        } else {
            let message =
                format!("The name of a tool has {length} characters; 1 to 128 are allowed.");
            ctx.judge.broken(LENGTH, message, evidence.clone());
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.chars().all(legal) {
            ctx.judge.holds(CHARSET);
        } else {
            let message = format!(
                "The tool name `{name}` has characters other than letters, digits, `_`, `-` and `.`."
            );
            ctx.judge.broken(CHARSET, message, evidence.clone());
        }
    }
    if names.is_empty() {
        ctx.not_applicable(&[UNIQUE, LENGTH, CHARSET], "The server lists no tool.");
    }
}

/// Hints that contradict each other, and hints that are the same for all.
fn hints(ctx: &mut Context<'_>) {
    const RULE: &str = "tools.list.annotations-shape";
    /// With fewer tools it is no wonder that all do the same.
    const MANY: usize = 4;
    let tools = ctx.facts.items("tools/list");
    let hints_of = |tool: &Value| {
        let mut hints = tool.get("annotations")?.as_object()?.clone();
        hints.retain(|name, _| name.ends_with("Hint"));
        Some(hints)
    };
    let is = |hints: &Map<String, Value>, name: &str| hints.get(name) == Some(&json!(true));
    let all: Vec<Option<Map<String, Value>>> = tools.iter().map(hints_of).collect();
    let both =
        |hints: &Map<String, Value>| is(hints, "readOnlyHint") && is(hints, "destructiveHint");
    let contradict = |hints: &Option<_>| hints.as_ref().is_some_and(both);
    let named = tools
        .iter()
        .zip(&all)
        .filter(|(_, hints)| contradict(hints));
    let named: Vec<&str> = named.map(|(tool, _)| tool_name(tool)).collect();
    if !named.is_empty() {
        let text = format!(
            "{}: `readOnlyHint` and `destructiveHint` are both true; what only reads destroys \
             nothing.",
            first_of(&named)
        );
        ctx.judge.note_only(RULE, text);
    }
    let same = all.windows(2).all(|pair| pair[0] == pair[1]);
    let writes = |h: &Map<String, Value>| {
        is(h, "destructiveHint") || h.get("readOnlyHint") == Some(&json!(false))
    };
    if let Some(Some(hints)) = all.first()
        && (same && all.len() >= MANY && writes(hints) && !is(hints, "readOnlyHint"))
    {
        let count = all.len();
        let text = format!(
            "All {count} tools have the same hints, and none says `readOnlyHint`: many clients ask \
             their users before each call then."
        );
        ctx.judge.note_only(RULE, text);
    }
}

/// The first name, and how many more there are.
pub(super) fn first_of(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => format!("`{one}`"),
        [first, more @ ..] => format!("`{first}` and {} more", more.len()),
    }
}

/// `x-mcp-header` annotations in input schemas.
fn header_annotations(ctx: &mut Context<'_>) {
    const SYNTAX: &str = "tools.x-mcp-header.syntax";
    const PLACEMENT: &str = "tools.x-mcp-header.placement";
    if !ctx.needs_list("tools/list", &[SYNTAX, PLACEMENT]) {
        return;
    }
    let tools = ctx.facts.items("tools/list").to_vec();
    let evidence = ctx.list_evidence("tools/list");
    let mut any = false;
    for tool in &tools {
        let mut found = Vec::new();
        let schema = tool.get("inputSchema").unwrap_or(&Value::Null);
        each_subschema(schema, true, &mut |schema, placed| {
            let header = schema.get("x-mcp-header");
            found.extend(header.map(|value| (schema, value, placed)));
        });
        let mut names = HashSet::new();
        for (schema, value, placed) in found {
            any = true;
            let name = value.as_str().unwrap_or_default();
            let tool = tool_name(tool);
            let token = !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
            if !token {
                let message =
                    format!("Tool `{tool}`: the `x-mcp-header` {value} is no header name.");
                ctx.judge.broken(SYNTAX, message, evidence.clone());
            } else if !names.insert(name.to_ascii_lowercase()) {
                let message = format!("Tool `{tool}`: the `x-mcp-header` {value} stands twice.");
                ctx.judge.broken(SYNTAX, message, evidence.clone());
            } else {
                ctx.judge.holds(SYNTAX);
            }
            let plain = matches!(
                schema.get("type").and_then(Value::as_str),
                Some("string" | "integer" | "boolean")
            );
            if placed && plain {
                ctx.judge.holds(PLACEMENT);
            } else {
                let message = format!(
                    "Tool `{tool}`: `x-mcp-header` {value} stands where it is not allowed."
                );
                ctx.judge.broken(PLACEMENT, message, evidence.clone());
            }
        }
    }
    if !any {
        ctx.not_applicable(&[SYNTAX, PLACEMENT], "No input schema has `x-mcp-header`.");
    }
}

pub(super) fn is_error(result: &Value) -> bool {
    result.get("isError") == Some(&Value::Bool(true))
}

fn malformed_call(ctx: &mut Context<'_>) {
    const RULE: &str = "tools.call.malformed-request";
    if !ctx.needs("tools", &[RULE]) {
        return;
    }
    let Some(tool) = ctx.callable_tools().into_iter().next() else {
        return;
    };
    for (arguments, what) in [
        (json!("x"), "a string"),
        (json!([1]), "an array"),
        (json!(1), "a number"),
    ] {
        let what = format!("`tools/call` with {what} as `arguments`");
        let from = ctx.client.log().len();
        match ctx.call_tool(&[RULE], tool_name(&tool), arguments) {
            Answer::Error {
                code: Some(-32602), ..
            } => ctx.judge.holds(RULE),
            Answer::Error { code, .. } => {
                let code = code.map_or("no integer code".to_owned(), |code| format!("code {code}"));
                ctx.judge
                    .note(RULE, format!("{what}: {code} instead of -32602."));
            }
            Answer::Result(result) if is_error(&result) => {
                ctx.judge.note(
                    RULE,
                    format!("{what}: a result with `isError` instead of an error."),
                );
            }
            Answer::Result(_) => {
                let evidence = ctx.evidence_from(from);
                ctx.judge
                    .broken(RULE, format!("{what} succeeds."), evidence);
            }
            Answer::None => return,
        }
    }
}

/// Many readers take null for a member that is not there.
fn null_arguments(ctx: &mut Context<'_>) {
    const RULE: &str = "tools.call.malformed-request";
    let Some((name, _)) = quick_success(ctx) else {
        return;
    };
    if let Answer::Result(result) = ctx.call_tool(&[RULE], &name, Value::Null)
        && !is_error(&result)
    {
        let text = "`tools/call` with null as `arguments` succeeds.";
        ctx.judge.note(RULE, text);
    }
}

impl Context<'_> {
    /// The tools that may be called with any arguments: those that say that they only read, and
    /// those that the user allows. What the hints name is called as they say, and not otherwise.
    pub(super) fn callable_tools(&self) -> Vec<Value> {
        self.facts
            .items("tools/list")
            .iter()
            .filter(|tool| may_call(self.call, tool))
            .filter(|tool| !self.facts.hinted.contains(tool_name(tool)))
            .cloned()
            .collect()
    }

    /// The exchange that gave a list.
    pub(super) fn list_evidence(&self, method: &str) -> crate::verdict::Evidence {
        let exchange = Exchange::read(self.revision(), self.client.log(), None, Map::new());
        exchange
            .results(method)
            .next()
            .map(|(message, _)| exchange.evidence(message))
            .unwrap_or_default()
    }
}

/// Whether a tool may be called.
pub(crate) fn may_call(policy: &CallPolicy, tool: &Value) -> bool {
    let read_only = tool.pointer("/annotations/readOnlyHint") == Some(&Value::Bool(true));
    match policy {
        CallPolicy::All => true,
        CallPolicy::Named(names) => read_only || names.iter().any(|name| name == tool_name(tool)),
        CallPolicy::ReadOnly => read_only,
    }
}

pub(super) const UNCALLED: &str =
    "No tool may be called: none says `readOnlyHint: true`; allow some with `--call`.";

/// At most this many tools are called by a check: they may be slow.
const MOST_TOOLS: usize = 12;

fn validates_input(ctx: &mut Context<'_>) {
    const VALIDATES: &str = "tools.call.validates-input";
    const KIND: &str = "tools.call.invalid-arguments.tool-error";
    const OLD_KIND: &str = "tools.call.invalid-arguments.protocol-error";
    const RULES: &[&str] = &[VALIDATES, KIND, OLD_KIND];
    if !ctx.needs_list("tools/list", RULES) {
        return;
    }
    let tools = ctx.callable_tools();
    if tools.is_empty() {
        ctx.not_applicable(RULES, UNCALLED);
        return;
    }
    let mut tested = false;
    for tool in tools.iter().take(MOST_TOOLS) {
        let Some(required) = first_required(tool) else {
            continue;
        };
        tested = true;
        let name = tool_name(tool);
        let mut arguments = example::arguments(tool).unwrap_or_default();
        let given = arguments.remove(&required);
        let missing = Value::Object(arguments.clone());
        let what = format!("`{name}` without its required `{required}`");
        if !invalid_call(ctx, name, missing, &what, Breach::Fail) {
            return;
        }
        // Strings are what everything else can be coerced to: a number where a string belongs
        // says less than an object where a scalar belongs.
        let wrong = match given {
            Some(Value::Object(_)) => json!("touchstone"),
            Some(_) => json!({"touchstone": [1]}),
            None => continue,
        };
        arguments.insert(required.clone(), wrong);
        let what = format!("`{name}` with a wrong type as `{required}`");
        if !invalid_call(ctx, name, Value::Object(arguments), &what, Breach::Warn) {
            return;
        }
    }
    if !tested {
        ctx.not_applicable(
            RULES,
            "No tool that may be called has a required parameter.",
        );
    }
}

/// Calls with arguments that break the schema. False when the server did not answer.
fn invalid_call(
    ctx: &mut Context<'_>,
    name: &str,
    arguments: Value,
    what: &str,
    breach: Breach,
) -> bool {
    const VALIDATES: &str = "tools.call.validates-input";
    const KIND: &str = "tools.call.invalid-arguments.tool-error";
    const OLD_KIND: &str = "tools.call.invalid-arguments.protocol-error";
    let from = ctx.client.log().len();
    match ctx.call_tool(&[VALIDATES, KIND, OLD_KIND], name, arguments) {
        Answer::Error { code, .. } => {
            ctx.judge.holds(VALIDATES);
            ctx.judge.holds(OLD_KIND);
            let code = code.map_or("no integer code".to_owned(), |code| format!("code {code}"));
            ctx.judge.note(KIND, format!("{what}: a JSON-RPC error ({code}); a result with `isError` lets a model correct itself."));
        }
        Answer::Result(result) if is_error(&result) => {
            ctx.judge.holds(VALIDATES);
            ctx.judge.holds(KIND);
            ctx.judge.holds(OLD_KIND);
        }
        Answer::Result(_) => {
            let evidence = ctx.evidence_from(from);
            ctx.judge.broken_as(
                VALIDATES,
                breach,
                format!("Calling {what} succeeds."),
                evidence,
            );
        }
        Answer::None => return false,
    }
    true
}

/// A required parameter whose type the schema fixes.
fn first_required(tool: &Value) -> Option<String> {
    let schema = tool.get("inputSchema")?;
    let required = schema.get("required")?.as_array()?;
    required
        .iter()
        .filter_map(Value::as_str)
        .find(|name| {
            schema
                .pointer(&format!(
                    "/properties/{}",
                    name.replace('~', "~0").replace('/', "~1")
                ))
                .and_then(|s| s.get("type"))
                .is_some_and(Value::is_string)
        })
        .map(str::to_owned)
}

/// Calls what may be called with arguments that fit; the observers judge the results.
fn call(ctx: &mut Context<'_>) {
    const RULE: &str = "tools.call.result-shape";
    if !ctx.needs_list("tools/list", &[RULE]) {
        return;
    }
    let tools = ctx.callable_tools();
    if tools.is_empty() {
        ctx.not_applicable(&[RULE], UNCALLED);
    }
    ctx.facts.called = true;
    for tool in tools.iter().take(MOST_TOOLS) {
        let task = tool
            .pointer("/execution/taskSupport")
            .and_then(Value::as_str);
        if task == Some("required") {
            continue;
        }
        let Some(arguments) = example::arguments(tool) else {
            continue;
        };
        let name = tool_name(tool);
        let (from, began) = (ctx.client.log().len(), Instant::now());
        let answer = ctx.call_tool(&[RULE], name, Value::Object(arguments.clone()));
        if !matches!(answer, Answer::None) {
            remember(ctx, name, arguments, from, began.elapsed());
        }
        match answer {
            Answer::Result(_) => ctx.judge.holds(RULE),
            Answer::Error { code, .. } => {
                // The values were made up; a server may refuse them for reasons of its own.
                let code = code.map_or("no code".to_owned(), |code| code.to_string());
                ctx.judge.note(
                    RULE,
                    format!("`{name}` with made-up arguments gives error {code}."),
                );
            }
            Answer::None if ctx.doubtful || ctx.judge.is_broken(RULE) => return,
            Answer::None => {}
        }
    }
}

/// Calls that are made at once: as many as clients make. Some tools take no more in one go.
const AT_ONCE: usize = 5;

/// A call that succeeds alone succeeds beside others of its kind, and each is answered: the
/// observers count the replies.
fn parallel_calls(ctx: &mut Context<'_>) {
    const RULE: &str = "tools.call.execution-error";
    let Some((name, arguments)) = quick_success(ctx) else {
        return;
    };
    let params = json!({"name": name, "arguments": arguments});
    let from = ctx.client.log().len();
    let ids = ctx.client.post_many(AT_ONCE, "tools/call", Some(&params));
    let mut replies = Vec::new();
    for id in &ids {
        // A tool may hold calls back so as not to be a burden to others: each has its time.
        let until = Instant::now() + ctx.client.limits().request;
        let reply = ctx.client.reply(id, until);
        if matches!(reply, Reply::Silence | Reply::Gone) {
            // Counted by the observers; once more in a new process before it is believed.
            ctx.doubtful = true;
            return;
        }
        replies.push(reply);
    }
    let evidence = ctx.evidence_from(from);
    // No error of the call itself, as it succeeds alone. Others say that the server has enough to do.
    let of_the_call = |reply: &&Reply| matches!(reply.code(), Some(-32602 | -32601));
    let lost = replies.iter().filter(of_the_call).count();
    let failed = |reply: &&Reply| reply.result().is_none_or(is_error);
    let failed = replies.iter().filter(failed).count();
    let text = format!("`{name}` succeeds alone; of {AT_ONCE} calls at once {failed} failed.");
    if lost > 0 && succeeds(ctx, &name, &arguments).is_some() {
        ctx.judge.broken_as(RULE, Breach::Warn, text, evidence);
    } else if failed > 0 {
        ctx.judge.note_only(RULE, text);
    }
}

/// A call without an id is a notification, though it would succeed as a request: the observers see
/// whether it is answered.
fn call_without_id(ctx: &mut Context<'_>) {
    const RULE: &str = "jsonrpc.notification.idless-request";
    let Some((name, arguments)) = quick_success(ctx) else {
        return;
    };
    let params = json!({"name": name, "arguments": arguments});
    ctx.client.notify("tools/call", Some(params));
    if ctx.client.barrier() {
        ctx.judge.holds(RULE);
    } else {
        ctx.doubtful = true;
    }
}

/// A call that succeeds, so quickly that many of them take no time that counts. It is looked for
/// once.
fn quick_success(ctx: &mut Context<'_>) -> Option<(String, Map<String, Value>)> {
    /// Tools that are tried when no check has called any yet.
    const TRIED: usize = 3;
    if let Some(known) = &ctx.facts.quick_success {
        return known.clone();
    }
    let most = ctx.client.limits().request / 2 / u32::try_from(AT_ONCE).ok()?;
    let mut calls = ctx.facts.quick.clone();
    if !ctx.facts.called {
        let tools = ctx.callable_tools();
        let call = |tool: &Value| Some((tool_name(tool).to_owned(), example::arguments(tool)?));
        calls = tools.iter().filter_map(call).take(TRIED).collect();
    }
    let found = calls
        .into_iter()
        .find(|(name, arguments)| succeeds(ctx, name, arguments).is_some_and(|took| took < most));
    ctx.facts.quick_success.insert(found).clone()
}

/// How long a call takes, if it succeeds.
fn succeeds(ctx: &mut Context<'_>, name: &str, arguments: &Map<String, Value>) -> Option<Duration> {
    let began = Instant::now();
    match ctx.call_tool(&[], name, Value::Object(arguments.clone())) {
        Answer::Result(result) if !is_error(&result) => Some(began.elapsed()),
        _ => None,
    }
}

/// Keeps in mind what a call showed: that it is slow, or reports progress.
fn remember(
    ctx: &mut Context<'_>,
    name: &str,
    arguments: Map<String, Value>,
    from: usize,
    took: Duration,
) {
    /// A call that takes so long can be cancelled meanwhile.
    const SLOW: Duration = Duration::from_millis(500);
    let hinted =
        |o: &Occasion| o.method == "tools/call" && o.target() == name && !o.does_any(&[Does::Task]);
    if ctx.facts.occasions.iter().any(hinted) {
        return;
    }
    let mut does = Vec::new();
    let reports = |message: &Value| message["method"] == "notifications/progress";
    let mut takes = None;
    if ctx
        .client
        .find(from, Instant::now(), &mut |m| reports(m))
        .is_some()
    {
        does.push(Does::Progress);
    }
    if took >= SLOW && ctx.occasions(&[Does::Slow]).is_empty() {
        // Only what is slow twice is slow: the machine may have been busy.
        let began = Instant::now();
        let again = ctx.call_tool(&[], name, Value::Object(arguments.clone()));
        takes = Some(took.min(began.elapsed()));
        if matches!(again, Answer::Result(_)) && takes >= Some(SLOW) {
            does.push(Does::Slow);
        }
    }
    if took < ctx.client.limits().request / 2 {
        ctx.facts.quick.push((name.to_owned(), arguments.clone()));
    }
    if !does.is_empty() {
        let mut occasion = Occasion::seen(name, arguments, Does::Slow);
        occasion.does = does;
        occasion.takes = takes;
        ctx.facts.occasions.push(occasion);
    }
}

/// A tool under its name in the other case.
fn case(ctx: &mut Context<'_>) {
    const RULE: &str = "tools.name.case-sensitive";
    if !ctx.needs_list("tools/list", &[RULE]) {
        return;
    }
    let names: HashSet<String> = ctx
        .facts
        .items("tools/list")
        .iter()
        .map(|tool| tool_name(tool).to_owned())
        .collect();
    let candidate = ctx.callable_tools().into_iter().find_map(|tool| {
        let name = tool_name(&tool);
        let upper = name.to_uppercase();
        let other = if upper == name {
            name.to_lowercase()
        } else {
            upper
        };
        let task = tool.pointer("/execution/taskSupport") == Some(&json!("required"));
        let free = !names.contains(&other) && !task;
        Some((other, example::arguments(&tool).filter(|_| free)?))
    });
    let Some((name, arguments)) = candidate else {
        ctx.not_applicable(&[RULE], UNCALLED);
        return;
    };
    // Where any name will do, this one says nothing of its letters.
    const UNKNOWN: &str = "tools.call.unknown-tool.protocol-error";
    let nobody = json!({"name": "touchstone-nobody", "arguments": {}});
    if let Answer::Result(result) = ctx.ask(&[RULE], "tools/call", Some(nobody))
        && !is_error(&result)
    {
        ctx.judge.blocked(RULE, UNKNOWN);
        return;
    }
    let from = ctx.client.log().len();
    let params = json!({"name": name, "arguments": arguments});
    match ctx.ask(&[RULE], "tools/call", Some(params)) {
        Answer::Result(result) if !is_error(&result) => {
            let evidence = ctx.evidence_from(from);
            let text =
                format!("A tool is called by `{name}`, though its name is written otherwise.");
            ctx.judge.broken(RULE, text, evidence);
        }
        Answer::None => {}
        _ => ctx.judge.holds(RULE),
    }
}

/// A tool that fails says so in its result; what else fails inside gives error -32603.
fn fails(ctx: &mut Context<'_>, _: &Occasion) {
    const TOOL: &str = "tools.call.execution-error";
    const OTHER: &str = "jsonrpc.internal-error";
    for occasion in ctx.occasions(&[Does::Fails]) {
        let rule = match occasion.method {
            "tools/call" => TOOL,
            _ => OTHER,
        };
        let feature = occasion.method.split('/').next().unwrap_or_default();
        if !ctx.needs(feature, &[rule]) {
            continue;
        }
        let from = ctx.client.log().len();
        let answer = ctx.ask(&[rule], occasion.method, Some(occasion.params.clone()));
        let text = match answer {
            Answer::None => return,
            Answer::Result(result) if rule == TOOL && is_error(&result) => None,
            Answer::Error {
                code: Some(-32603), ..
            } if rule == OTHER => None,
            Answer::Result(_) => {
                let why = format!("{occasion} does not fail; look at the hint.");
                ctx.judge.not_applicable(rule, why);
                continue;
            }
            Answer::Error { code: None, .. } if rule == OTHER => {
                ctx.judge.blocked(rule, "jsonrpc.error.shape");
                continue;
            }
            Answer::Error { error, .. } if rule == TOOL => Some(format!(
                "{occasion} fails with a JSON-RPC error, not with `isError` in a result: {error}"
            )),
            Answer::Error { error, .. } => Some(format!(
                "{occasion} fails with another error than -32603: {error}"
            )),
        };
        match text {
            None => ctx.judge.holds(rule),
            Some(text) => {
                let evidence = ctx.evidence_from(from);
                ctx.judge.broken(rule, text, evidence);
            }
        }
    }
    for (rule, table) in [(TOOL, "[[tool]]"), (OTHER, "[[resource]] or [[prompt]]")] {
        let why = format!(
            "Nothing is known to fail while it runs; a hint would help: {table} with `fails` in \
             touchstone.toml."
        );
        ctx.judge.not_applicable(rule, why);
    }
}

/// Hints that say nothing but with which arguments a tool answers.
fn hinted_call(ctx: &mut Context<'_>) {
    const RULE: &str = "tools.call.result-shape";
    for occasion in ctx.facts.occasions.clone() {
        if !occasion.does.is_empty() {
            continue;
        }
        match ctx.ask(&[RULE], occasion.method, Some(occasion.params.clone())) {
            Answer::Result(_) if occasion.method == "tools/call" => ctx.judge.holds(RULE),
            Answer::Error { error, .. } => {
                let text = format!("{occasion} with the arguments of the hint fails: {error}");
                ctx.judge.note(RULE, text);
            }
            Answer::Result(_) => {}
            Answer::None => return,
        }
    }
}

fn order(ctx: &mut Context<'_>) {
    const RULE: &str = "tools.list.deterministic-order";
    if !ctx.needs_list("tools/list", &[RULE]) {
        return;
    }
    let from = ctx.client.log().len();
    let first = ctx
        .facts
        .lists
        .get("tools/list")
        .and_then(|l| l.pages.first())
        .cloned();
    if let Answer::Result(again) = ctx.ask(&[RULE], "tools/list", None) {
        let names = |page: &Value| -> Vec<String> {
            page.get("tools")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .map(|tool| tool_name(tool).to_owned())
                .collect()
        };
        let (before, after) = (first.as_ref().map(names).unwrap_or_default(), names(&again));
        let same_set =
            before.iter().collect::<HashSet<_>>() == after.iter().collect::<HashSet<_>>();
        if before == after {
            ctx.judge.holds(RULE);
        } else if same_set {
            let evidence = ctx.evidence_from(from);
            ctx.judge.broken(
                RULE,
                "`tools/list` gives the same tools in another order.",
                evidence,
            );
        } else {
            ctx.judge
                .note(RULE, "The set of tools changed between two requests.");
        }
    }
}

/// A second process must list the same things.
fn second_process(ctx: &mut Context<'_>) {
    for (method, items, _) in super::LISTS {
        let rule = match method {
            "tools/list" => "tools.list.not-per-connection",
            "resources/list" => "resources.list.not-per-connection",
            "prompts/list" => "prompts.list.not-per-connection",
            _ => continue,
        };
        if !ctx.needs_list(method, &[rule]) {
            continue;
        }
        let first: Vec<String> = keys(
            ctx.facts.lists.get(method).and_then(|l| l.pages.first()),
            items,
        );
        let from = ctx.client.log().len();
        let Answer::Result(page) = ctx.ask(&[rule], method, None) else {
            continue;
        };
        let second = keys(Some(&page), items);
        if first == second {
            ctx.judge.holds(rule);
            if method == "tools/list" {
                ctx.judge.holds("tools.list.deterministic-order");
            }
            continue;
        }
        let as_set = |list: &[String]| list.iter().cloned().collect::<HashSet<_>>();
        let evidence = ctx.evidence_from(from);
        if as_set(&first) != as_set(&second) {
            // Two processes of a live system may differ for reasons of its own.
            let message = format!("`{method}` differs between two processes.");
            ctx.judge.broken_as(rule, Breach::Warn, message, evidence);
        } else {
            ctx.judge.holds(rule);
            if method == "tools/list" {
                let message = "`tools/list` of a second process has another order.";
                ctx.judge
                    .broken("tools.list.deterministic-order", message, evidence);
            }
        }
    }
}

fn keys(page: Option<&Value>, items: &str) -> Vec<String> {
    page.and_then(|page| page.get(items))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(super::pagination::key_of)
        .map(str::to_owned)
        .collect()
}

/// Every result of a tool, whoever called it.
fn results(exchange: &Exchange<'_>, judge: &mut Judge) {
    let tools: Vec<&Value> = exchange
        .results("tools/list")
        .filter_map(|(_, result)| result.get("tools")?.as_array())
        .flatten()
        .collect();
    for (message, result) in exchange.results("tools/call") {
        let super::exchange::Kind::Response {
            request: Some(index),
        } = message.kind
        else {
            continue;
        };
        let SentKind::Request { params, .. } = &exchange.sent[index].kind else {
            continue;
        };
        let name = params
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let tool = tools.iter().find(|tool| tool_name(tool) == name);
        let schema = tool.and_then(|tool| tool.get("outputSchema"));
        structured(exchange, message, result, schema, judge);
        embedded(exchange, message, result, judge);
    }
}

fn structured(
    exchange: &Exchange<'_>,
    message: &super::exchange::Received<'_>,
    result: &Value,
    schema: Option<&Value>,
    judge: &mut Judge,
) {
    const CONFORMS: &str = "tools.call.structured.conforms";
    const COPY: &str = "tools.call.structured.text-copy";
    if is_interim(result) {
        return;
    }
    let value = result.get("structuredContent");
    match output_fault(schema, result) {
        Some((breach, text)) => {
            judge.broken_as(CONFORMS, breach, text, exchange.evidence(message));
        }
        None if schema.is_some() && value.is_some() => judge.holds(CONFORMS),
        None => {}
    }
    let Some(value) = value else {
        return;
    };
    if !value.is_object() {
        judge.holds("tools.call.structured.any-json");
    }
    let copied = result
        .get("content")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|block| block.get("text").and_then(Value::as_str))
        .any(|text| serde_json::from_str::<Value>(text).is_ok_and(|copy| copy == *value));
    if copied {
        judge.holds(COPY);
    } else {
        judge.broken(
            COPY,
            "No text block holds `structuredContent` as JSON.",
            exchange.evidence(message),
        );
    }
}

/// Whether the tool is not done yet: it asks for something, or has become a task.
pub(super) fn is_interim(result: &Value) -> bool {
    let kind = result.get("resultType").and_then(Value::as_str);
    kind.is_some_and(|kind| kind != "complete") || result.get("task").is_some()
}

/// How a result breaks the tool's `outputSchema`, and what that counts as.
pub(super) fn output_fault(schema: Option<&Value>, result: &Value) -> Option<(Breach, String)> {
    let schema = schema.filter(|_| !is_interim(result))?;
    let Some(value) = result.get("structuredContent") else {
        let text =
            "The tool declares an `outputSchema`, but its result has no `structuredContent`.";
        return (!is_error(result)).then(|| (Breach::Fail, text.to_owned()));
    };
    let validator = jsonschema::validator_for(schema).ok()?;
    let fault = validator.validate(value).err()?;
    let breach = match is_error(result) {
        true => Breach::Warn,
        false => Breach::Fail,
    };
    let text = format!("`structuredContent` breaks the tool's `outputSchema`: {fault}.");
    Some((breach, text))
}

fn embedded(
    exchange: &Exchange<'_>,
    message: &super::exchange::Received<'_>,
    result: &Value,
    judge: &mut Judge,
) {
    const RULE: &str = "tools.call.embedded-needs-resources";
    let embeds = result
        .get("content")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|block| block.get("type").and_then(Value::as_str) == Some("resource"));
    if !embeds {
        return;
    }
    if exchange
        .server
        .as_ref()
        .is_some_and(|server| server.contains_key("resources"))
    {
        judge.holds(RULE);
    } else {
        judge.broken(
            RULE,
            "A tool gives an embedded resource, but the server does not declare `resources`.",
            exchange.evidence(message),
        );
    }
}
