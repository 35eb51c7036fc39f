//! Calls of the tools that may be called, with arguments that fit their schema and arguments that
//! break it in one place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use serde_json::{Value, json};

use super::super::Context;
use super::super::tools::{UNCALLED, is_error, is_interim, output_fault, tool_name};
use super::stand::{Case, Fault, Heard, Next, Stand, alive};
use crate::client::{Client, Reply};
use crate::property::{self, schema};
use crate::spec::requirement::Breach;

const VALIDATES: &str = "tools.call.validates-input";
const SHAPE: &str = "tools.call.result-shape";
const CONFORMS: &str = "tools.call.structured.conforms";
const EXACTLY_ONE: &str = "jsonrpc.response.exactly-one";
const SURVIVES: &str = "stdio.survives-valid-traffic";

/// A tool that takes longer than this for its cases is left: it may be at work on something.
const SLOW: Duration = Duration::from_secs(1);

pub(super) fn calls(ctx: &mut Context<'_>) {
    const RULES: &[&str] = &[VALIDATES, SHAPE];
    if !ctx.needs_list("tools/list", RULES) {
        return;
    }
    let tools = ctx.callable_tools();
    if tools.is_empty() {
        ctx.not_applicable(RULES, UNCALLED);
        return;
    }
    let plan = ctx.generated;
    let mut stand = Stand::new(plan, ctx.client.limits(), ctx.revision());
    for tool in tools.iter().take(plan.tools) {
        let support = tool.pointer("/execution/taskSupport");
        if support.and_then(Value::as_str) == Some("required") {
            continue;
        }
        if !call(ctx, &mut stand, tool) {
            return;
        }
    }
}

/// One tool. False when there is no use in going on.
fn call(ctx: &mut Context<'_>, stand: &mut Stand<'_, Call>, tool: &Value) -> bool {
    let plan = ctx.generated;
    let Some(input) = tool.get("inputSchema") else {
        return true;
    };
    let name = tool_name(tool).to_owned();
    let tool = Arc::new(Tool {
        name: name.clone(),
        output: tool.get("outputSchema").cloned(),
    });
    let of = |breaks: Option<(String, Breach)>| {
        let tool = Arc::clone(&tool);
        move |arguments| Call {
            tool: Arc::clone(&tool),
            arguments,
            breaks: breaks.clone(),
        }
    };
    let each = plan.cases.div_ceil(4);
    let began = Instant::now();
    if let Some(values) = schema::valid(input) {
        let mut runner = property::runner(plan.seed, &name);
        let cases = values.prop_map(of(None)).boxed();
        for _ in 0..each {
            match stand.put_one(ctx, &mut runner, &cases) {
                Next::Stop => return false,
                Next::Leave => break,
                Next::Go if began.elapsed() > SLOW => break,
                Next::Go => {}
            }
        }
    }
    let mut faults = schema::broken(input);
    // Another seed begins elsewhere, so that over time all have their turn.
    if !faults.is_empty() {
        let begin = plan.seed % faults.len() as u64;
        faults.rotate_left(usize::try_from(begin).unwrap_or_default());
    }
    let most = usize::try_from(each.saturating_mul(2)).unwrap_or(usize::MAX);
    let began = Instant::now();
    for (fault, values) in faults.into_iter().take(most) {
        let what = format!("`{name}` {fault}");
        let mut runner = property::runner(plan.seed, &what);
        let cases = values.prop_map(of(Some((what, weight(&fault))))).boxed();
        match stand.put_one(ctx, &mut runner, &cases) {
            Next::Stop => return false,
            _ if began.elapsed() > SLOW => break,
            _ => {}
        }
    }
    true
}

/// What it counts as when a call succeeds though its arguments are broken so. Only a parameter
/// that is missing leaves no room for a kind reading.
fn weight(fault: &schema::Fault) -> Breach {
    use schema::Kind;
    let nested = fault.pointer.matches('/').count() > 1;
    match fault.kind {
        Kind::Missing if nested || fault.default => Breach::Warn,
        Kind::Missing => Breach::Fail,
        Kind::WrongType | Kind::NotListed | Kind::Extra => Breach::Warn,
        // Many a client writes null for what it leaves out.
        Kind::Null if fault.required => Breach::Warn,
        Kind::Null | Kind::OutOfBounds => Breach::Note,
    }
}

#[derive(Debug)]
struct Tool {
    name: String,
    output: Option<Value>,
}

#[derive(Debug, Clone)]
struct Call {
    tool: Arc<Tool>,
    arguments: Value,
    /// How the arguments break the schema, and what it counts as when that goes unseen.
    breaks: Option<(String, Breach)>,
}

impl Case for Call {
    const OBSERVED: &'static [&'static str] = &[
        "stdio.stdout-only-messages",
        "jsonrpc.response.result-xor-error",
        "jsonrpc.response.exactly-one",
        "tools.call.result-shape",
    ];

    fn put(&self, client: &mut Client) -> Heard {
        let params = json!({"name": self.tool.name, "arguments": self.arguments});
        let reply = client.request("tools/call", Some(params));
        let mut heard = Heard::default();
        match (&self.breaks, reply) {
            (_, Reply::Gone) => {
                let what = format!("a call of `{}`", self.tool.name);
                heard.fault = alive(client, SURVIVES, &what);
                heard.spent = true;
            }
            (_, Reply::Silence) => self.unanswered(client, &mut heard),
            (None, Reply::Error { error, .. }) => {
                // The values were made up; a server may refuse them for reasons of its own.
                let code = error.get("code").cloned().unwrap_or(Value::Null);
                let name = &self.tool.name;
                let note = format!("`{name}` with made-up arguments gives error {code}.");
                heard.notes.push((SHAPE, note));
            }
            (None, Reply::Result { result, .. }) => {
                heard.holds.push(SHAPE);
                let output = self.tool.output.as_ref();
                heard.fault = output_fault(output, &result).map(|(breach, message)| Fault {
                    breach,
                    ..Fault::new(CONFORMS, message)
                });
            }
            (Some(_), Reply::Error { .. }) => heard.holds.push(VALIDATES),
            (Some(_), Reply::Result { result, .. }) if is_error(&result) => {
                heard.holds.push(VALIDATES);
            }
            // Not done yet: nothing has succeeded.
            (Some(_), Reply::Result { result, .. }) if is_interim(&result) => {}
            (Some((what, breach)), Reply::Result { .. }) => {
                heard.fault = Some(Fault {
                    breach: *breach,
                    ..Fault::new(VALIDATES, format!("Calling {what} succeeds."))
                });
            }
        }
        heard
    }
}

impl Call {
    /// A tool may take its time over arguments that fit; over broken ones it has no reason to.
    fn unanswered(&self, client: &mut Client, heard: &mut Heard) {
        heard.spent = true;
        let limit = client.limits().request.as_secs_f32();
        match &self.breaks {
            Some((what, _)) if client.barrier() => {
                let message = format!("Calling {what} is not answered.");
                heard.fault = Some(Fault::silence(EXACTLY_ONE, message));
            }
            _ => {
                let name = &self.tool.name;
                let note =
                    format!("`{name}` with made-up arguments did not answer within {limit} s.");
                heard.notes.push((SHAPE, note));
            }
        }
    }
}
