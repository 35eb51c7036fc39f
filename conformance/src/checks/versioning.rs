//! `basic/versioning` (2026-07-28): every request states its version and capabilities.

use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use super::exchange::{Exchange, evidence_since};
use super::{Answer, Check, Context, Observer, Run, Session};
use crate::client::{Client, META_CAPABILITIES, META_INFO, META_VERSION, Reply, initialize_params};
use crate::property::example;
use crate::run::{Does, Judge, Occasion};
use crate::spec::requirement::Breach;
use crate::spec::{Era, Revision, Span};

const STATELESS: Span = Span {
    first: Revision::V2026_07_28,
    last: Revision::V2026_07_28,
};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "versioning.unsupported",
        requirements: &[
            "versioning.unsupported.code",
            "versioning.unsupported.supported",
            "versioning.unsupported.requested",
            "versioning.unsupported.every-method",
        ],
        span: STATELESS,
        session: Session::Shared,
        run: Run::Code(unsupported),
    },
    Check {
        name: "versioning.meta",
        requirements: &[
            "versioning.meta.missing-capabilities",
            "versioning.meta.client-info-optional",
            "versioning.no-connection-memory",
        ],
        span: STATELESS,
        session: Session::Own,
        run: Run::Code(meta),
    },
    Check {
        name: "versioning.no-version",
        requirements: &["versioning.meta.missing", "versioning.meta.missing-version"],
        span: STATELESS,
        session: Session::Own,
        run: Run::Code(no_version),
    },
    Check {
        name: "versioning.any-connection",
        requirements: &["versioning.any-connection"],
        span: STATELESS,
        session: Session::Rough,
        run: Run::Code(any_connection),
    },
    Check {
        name: "versioning.dual-era",
        requirements: &[MODERN, LEGACY],
        span: STATELESS,
        session: Session::Shared,
        run: Run::Code(both_eras),
    },
    Check {
        name: "versioning.concurrent-eras",
        requirements: &["versioning.dual-era.concurrent"],
        span: STATELESS,
        session: Session::Own,
        run: Run::Code(concurrent_eras),
    },
    Check {
        name: "extensions.fallback",
        requirements: &["extensions.fallback"],
        span: STATELESS,
        session: Session::Shared,
        run: Run::Code(fallback),
    },
];

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "versioning.missing-capability",
    requirements: &[
        "versioning.missing-capability.code",
        "versioning.missing-capability.data",
    ],
    read: missing_capability,
}];

/// A cursor that one process gave works in another. Nothing else that the server hands out can be
/// told to be a handle.
fn any_connection(ctx: &mut Context<'_>) {
    const RULE: &str = "versioning.any-connection";
    let given = super::LISTS.iter().find_map(|(method, items, _)| {
        let listing = ctx.facts.lists.get(method)?;
        let page = listing.pages.get(1)?.get(items).cloned();
        Some((*method, *items, listing.cursors.first()?.clone(), page))
    });
    let Some((method, items, cursor, page)) = given else {
        ctx.judge.not_applicable(
            RULE,
            "Every list is one page: there is no cursor to carry over.",
        );
        return;
    };
    let from = ctx.client.log().len();
    match ctx.ask(&[RULE], method, Some(json!({"cursor": cursor}))) {
        Answer::Result(again) if again.get(items).cloned() == page => ctx.judge.holds(RULE),
        Answer::None => {}
        _ => {
            let evidence = ctx.evidence_from(from);
            let message =
                format!("A cursor of `{method}` from one process does not work in another.");
            ctx.judge.broken(RULE, message, evidence);
        }
    }
}

const MODERN: &str = "versioning.dual-era.modern";
const LEGACY: &str = "versioning.dual-era.legacy";

/// A server that also knows the handshake: without one it serves stateless requests, as in this
/// process, and after one, in another process, requests that have no `_meta`.
fn both_eras(ctx: &mut Context<'_>) {
    if !ctx.facts.dual_era {
        let why = "The server speaks the stateless era alone.";
        ctx.not_applicable(&[MODERN, LEGACY], why);
        return;
    }
    let method = methods(ctx).pop().unwrap_or("server/discover");
    let from = ctx.client.log().len();
    match ctx.ask(&[MODERN], method, None) {
        Answer::Result(_) => ctx.judge.holds(MODERN),
        Answer::Error { error, .. } => {
            let evidence = ctx.evidence_from(from);
            let text =
                format!("`{method}` with `_meta`, without a handshake, gives an error: {error}");
            ctx.judge.broken(MODERN, text, evidence);
        }
        Answer::None => {}
    }
    after_handshake(ctx);
}

fn after_handshake(ctx: &mut Context<'_>) {
    let (launch, limits) = (ctx.generated.launch, ctx.client.limits());
    let Ok(mut client) = Client::start(launch, limits, Revision::V2025_11_25) else {
        ctx.judge
            .error(LEGACY, "A new process could not be started.");
        return;
    };
    ctx.generated.processes.fetch_add(1, Ordering::Relaxed);
    if let Reply::Result { result, .. } = client.hello() {
        client.initialized();
        let declares = |capability: &str| result["capabilities"].get(capability).is_some();
        let listed = super::LISTS
            .iter()
            .find(|(_, _, capability)| declares(capability));
        let method = listed.map_or("ping", |(method, _, _)| *method);
        let from = client.log().len();
        match client.request(method, None) {
            Reply::Result { .. } => ctx.judge.holds(LEGACY),
            reply => {
                let said = match reply {
                    Reply::Error { error, .. } => format!("gives an error: {error}"),
                    Reply::Gone => "ends the server".to_owned(),
                    _ => "is not answered".to_owned(),
                };
                let evidence = evidence_since(client.log(), from, 6);
                let text = format!("After a handshake `{method}` {said}");
                ctx.judge.broken(LEGACY, text, evidence);
            }
        }
    } else {
        ctx.judge
            .error(LEGACY, "A new process did not answer `initialize`.");
    }
    client.into_child().stop(limits.stop);
}

/// Whether the handshake works beside the stateless era in one process: a server may do as it
/// likes, so this only tells.
fn concurrent_eras(ctx: &mut Context<'_>) {
    const RULE: &str = "versioning.dual-era.concurrent";
    if !ctx.facts.dual_era {
        ctx.judge
            .not_applicable(RULE, "The server speaks the stateless era alone.");
        return;
    }
    let id = ctx.client.fresh_id();
    let params = initialize_params(Revision::V2025_11_25.as_str(), &Map::new());
    let request = json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params});
    ctx.client.send(format!("{request}\n").as_bytes());
    let until = std::time::Instant::now() + ctx.client.limits().request;
    let said = match ctx.client.reply(&id, until) {
        Reply::Result { .. } => "is served",
        Reply::Error { .. } => "is refused",
        Reply::Silence => "is not answered",
        Reply::Gone => "ends the server",
    };
    ctx.judge
        .note(RULE, format!("`initialize` after a modern request {said}."));
}

/// A method that every modern server has, and one of a declared capability besides.
fn methods(ctx: &Context<'_>) -> Vec<&'static str> {
    let mut methods = vec!["server/discover"];
    methods.extend(
        super::LISTS
            .iter()
            .find(|(_, _, capability)| ctx.facts.declares(capability))
            .map(|(method, _, _)| *method),
    );
    methods
}

fn unsupported(ctx: &mut Context<'_>) {
    const CODE: &str = "versioning.unsupported.code";
    const EVERY: &str = "versioning.unsupported.every-method";
    const SUPPORTED: &str = "versioning.unsupported.supported";
    const REQUESTED: &str = "versioning.unsupported.requested";
    let bogus = "1900-01-01";
    let methods = methods(ctx);
    if methods.len() == 1 {
        ctx.judge
            .not_applicable(EVERY, "The server has no method besides `server/discover`.");
    }
    for (index, method) in methods.into_iter().enumerate() {
        let rule = if index == 0 { CODE } else { EVERY };
        let from = ctx.client.log().len();
        let params = json!({"_meta": {META_VERSION: bogus, META_CAPABILITIES: {}}});
        match ctx.ask(&[rule], method, Some(params)) {
            Answer::Error {
                code: Some(-32022),
                error,
            } => {
                ctx.judge.holds(rule);
                unsupported_data(ctx, &error, bogus, from);
            }
            Answer::Error { error, .. } => {
                let evidence = ctx.evidence_from(from);
                let got = error.get("code").cloned().unwrap_or(Value::Null);
                let message =
                    format!("`{method}` in version {bogus} gave error code {got}, not -32022.");
                ctx.judge.broken(rule, message, evidence);
                ctx.judge.blocked(SUPPORTED, rule);
                ctx.judge.blocked(REQUESTED, rule);
            }
            Answer::Result(_) => {
                let evidence = ctx.evidence_from(from);
                let message = format!("`{method}` in version {bogus} was served.");
                ctx.judge.broken(rule, message, evidence);
                ctx.judge.blocked(SUPPORTED, rule);
                ctx.judge.blocked(REQUESTED, rule);
            }
            Answer::None => return,
        }
    }
}

fn unsupported_data(ctx: &mut Context<'_>, error: &Value, bogus: &str, from: usize) {
    const SUPPORTED: &str = "versioning.unsupported.supported";
    const REQUESTED: &str = "versioning.unsupported.requested";
    let supported: Option<Vec<&str>> = error
        .pointer("/data/supported")
        .and_then(Value::as_array)
        .and_then(|list| list.iter().map(Value::as_str).collect());
    let discovered = super::discover::supported_versions(&ctx.facts.hello);
    let fault = match supported.as_deref() {
        None => Some("`data.supported` is no array of strings.".to_owned()),
        Some([]) => Some("`data.supported` is empty.".to_owned()),
        Some(list) => list
            .iter()
            .find(|version| !discovered.contains(version))
            .map(|version| {
                format!("`data.supported` names {version}, which `server/discover` does not list.")
            }),
    };
    match fault {
        None => ctx.judge.holds(SUPPORTED),
        Some(message) => {
            let evidence = ctx.evidence_from(from);
            ctx.judge.broken(SUPPORTED, message, evidence);
        }
    }
    if error.pointer("/data/requested").and_then(Value::as_str) == Some(bogus) {
        ctx.judge.holds(REQUESTED);
    } else {
        let evidence = ctx.evidence_from(from);
        let message = format!("`data.requested` does not repeat {bogus}.");
        ctx.judge.broken(REQUESTED, message, evidence);
    }
}

/// Sends a request with exactly this `_meta` (or no params at all) and waits for the reply.
fn with_meta(ctx: &mut Context<'_>, method: &str, meta: Option<Value>) -> (usize, Reply) {
    let from = ctx.client.log().len();
    let id = ctx.client.fresh_id();
    let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
    if let Some(meta) = meta {
        request["params"] = match meta {
            Value::Null => json!({}),
            meta => json!({"_meta": meta}),
        };
    }
    ctx.client.send(format!("{request}\n").as_bytes());
    let until = std::time::Instant::now() + ctx.client.limits().request;
    (from, ctx.client.reply(&id, until))
}

/// What the metadata must hold. Every request here says its version, so it is a modern one.
fn meta(ctx: &mut Context<'_>) {
    for method in methods(ctx) {
        served(ctx, "versioning.meta.client-info-optional", method);
        let only_version = json!({META_VERSION: ctx.revision().as_str()});
        for (rule, what) in [
            (
                "versioning.meta.missing-capabilities",
                "without the client's capabilities in `_meta`",
            ),
            (
                "versioning.no-connection-memory",
                "without the client's capabilities, after one that had them,",
            ),
        ] {
            rejected(ctx, rule, method, Some(only_version.clone()), false, what);
            // The next one must be judged on its own, whatever this one held.
            served(ctx, "versioning.meta.client-info-optional", method);
        }
    }
}

/// Requests that do not say their version. A dual-era server may take them for ones of the
/// handshake era, and the whole process with them, so they have a process of their own: any error
/// will do there, and a result is a warning.
fn no_version(ctx: &mut Context<'_>) {
    let lax = ctx.facts.dual_era;
    for method in methods(ctx) {
        for missing in [None, Some(Value::Null)] {
            rejected(
                ctx,
                "versioning.meta.missing",
                method,
                missing,
                lax,
                "without `_meta`",
            );
        }
        let only_capabilities = json!({META_CAPABILITIES: {}});
        rejected(
            ctx,
            "versioning.meta.missing-version",
            method,
            Some(only_capabilities),
            lax,
            "without the protocol version in `_meta`",
        );
    }
}

fn rejected(
    ctx: &mut Context<'_>,
    rule: &str,
    method: &str,
    meta: Option<Value>,
    lax: bool,
    what: &str,
) {
    let (from, reply) = with_meta(ctx, method, meta);
    let breach = if lax { Breach::Warn } else { Breach::Fail };
    let outcome = match &reply {
        Reply::Error { error, .. } if lax || reply.code() == Some(-32602) => {
            ctx.judge.holds(rule);
            if let Some(version) = refused_though_supported(error) {
                let text = format!(
                    "`{method}` {what} is refused as in version {version}, which the same error \
                     names as supported; what is missing is not said."
                );
                ctx.judge.note(rule, text);
            }
            return;
        }
        Reply::Error { error, .. } => {
            let got = error.get("code").cloned().unwrap_or(Value::Null);
            format!("gave error code {got}, not -32602")
        }
        Reply::Result { .. } => "was served; -32602 is required".to_owned(),
        Reply::Silence => "was not answered; -32602 is required".to_owned(),
        Reply::Gone => "ended the server; -32602 is required".to_owned(),
    };
    ctx.doubtful |= matches!(reply, Reply::Silence | Reply::Gone);
    let evidence = ctx.evidence_from(from);
    let message = format!("`{method}` {what} {outcome}.");
    ctx.judge.broken_as(rule, breach, message, evidence);
}

/// The version that the error says is not supported, if it names it as supported too.
fn refused_though_supported(error: &Value) -> Option<&str> {
    let requested = error.pointer("/data/requested")?.as_str()?;
    let supported = error.pointer("/data/supported")?.as_array()?;
    let is_named = supported.iter().any(|version| version == requested);
    (error["code"] == -32022 && is_named).then_some(requested)
}

fn served(ctx: &mut Context<'_>, rule: &str, method: &str) {
    let meta = json!({META_VERSION: ctx.revision().as_str(), META_CAPABILITIES: {}});
    let (from, reply) = with_meta(ctx, method, Some(meta));
    match ctx.settle(&[rule], method, from, reply) {
        Answer::Result(_) => ctx.judge.holds(rule),
        Answer::Error { error, .. } => {
            let evidence = ctx.evidence_from(from);
            let message = format!("`{method}` without `{META_INFO}` gave an error: {error}");
            ctx.judge.broken(rule, message, evidence);
        }
        Answer::None => {}
    }
}

fn missing_capability(exchange: &Exchange<'_>, judge: &mut Judge) {
    const CODE: &str = "versioning.missing-capability.code";
    const DATA: &str = "versioning.missing-capability.data";
    if exchange.revision.era() != Era::Stateless {
        return;
    }
    for message in &exchange.received {
        let error = &message.value["error"];
        if error["code"] != -32021 {
            continue;
        }
        judge.holds(CODE);
        let required = &error["data"]["requiredCapabilities"];
        let named = required
            .as_object()
            .is_some_and(|r| !r.is_empty() && r.values().all(Value::is_object));
        if named {
            judge.holds(DATA);
        } else {
            let text = format!(
                "Error -32021 names no capability in `data.requiredCapabilities`: {required}."
            );
            judge.broken(DATA, text, exchange.evidence(message));
        }
    }
}

/// A client without extensions gets results and errors of the core.
fn fallback(ctx: &mut Context<'_>) {
    const RULE: &str = "extensions.fallback";
    /// More calls than this show nothing new.
    const MOST: usize = 12;
    let extensions = ctx.facts.capabilities.get("extensions");
    if extensions
        .and_then(Value::as_object)
        .is_none_or(|e| e.is_empty())
    {
        ctx.not_applicable(&[RULE], "The server declares no extension.");
        return;
    }
    let mut occasions = ctx.occasions(&[Does::UsesExtension]);
    if occasions.is_empty() {
        for tool in ctx.callable_tools().iter().take(MOST) {
            if let (Some(name), Some(arguments)) = (
                tool.get("name").and_then(Value::as_str),
                example::arguments(tool),
            ) {
                occasions.push(Occasion::seen(name, arguments, Does::UsesExtension));
            }
        }
    }
    for occasion in &occasions {
        let from = ctx.client.log().len();
        match ctx.ask(&[RULE], occasion.method, Some(occasion.params.clone())) {
            Answer::Result(result) => {
                let kind = result.get("resultType").and_then(Value::as_str);
                match kind.filter(|kind| !["complete", "input_required"].contains(kind)) {
                    Some(kind) => {
                        let evidence = ctx.evidence_from(from);
                        let text = format!(
                            "{occasion} gives a `{kind}` result to a client without extensions."
                        );
                        ctx.judge.broken(RULE, text, evidence);
                    }
                    None => ctx.judge.holds(RULE),
                }
            }
            Answer::Error { .. } => ctx.judge.holds(RULE),
            Answer::None => return,
        }
    }
    if occasions.is_empty() {
        let why = crate::run::wanted(&[Does::UsesExtension]);
        ctx.judge.not_applicable(RULE, why);
    }
}
