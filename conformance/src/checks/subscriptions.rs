//! `basic/patterns/subscriptions` (2026-07-28).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::exchange::{Exchange, Kind, SentKind};
use super::{Check, Context, Observer, Run, Session};
use crate::client::Reply;
use crate::run::{Does, Judge, Occasion};
use crate::spec::requirement::Breach;
use crate::spec::{Era, Revision, Span};

const ID_KEY: &str = "/params/_meta/io.modelcontextprotocol~1subscriptionId";
const ACK: &str = "notifications/subscriptions/acknowledged";
const STATELESS: Span = Span {
    first: Revision::V2026_07_28,
    last: Revision::V2026_07_28,
};
/// What is already on its way when a cancellation arrives may still come for so long.
const RACE: Duration = Duration::from_millis(250);

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "subscriptions.listen",
        requirements: &[
            "subscriptions.ack-first",
            "subscriptions.ack-filter",
            "subscriptions.id-tag",
            "subscriptions.id-value",
            "subscriptions.concurrent",
            "subscriptions.stays-open",
            "subscriptions.cancel",
            "subscriptions.graceful-close",
        ],
        span: STATELESS,
        session: Session::Own,
        run: Run::Code(listen),
    },
    Check {
        name: "subscriptions.tools-change",
        requirements: &[
            "tools.list-changed.notify",
            "tools.list-changed.notify-listeners",
        ],
        span: Span::ALL,
        session: Session::Able,
        run: Run::Occasion(&[Does::ChangesTools], tools_change),
    },
    Check {
        name: "subscriptions.prompts-change",
        requirements: &["prompts.list-changed.notify"],
        span: Span::ALL,
        session: Session::Able,
        run: Run::Occasion(&[Does::ChangesPrompts], prompts_change),
    },
    Check {
        name: "subscriptions.resources-change",
        requirements: &["resources.list-changed.notify"],
        span: Span::ALL,
        session: Session::Able,
        run: Run::Occasion(&[Does::ChangesResources], resources_change),
    },
    Check {
        name: "subscriptions.resource-change",
        requirements: &["resources.updated.on-change"],
        span: Span::ALL,
        session: Session::Able,
        run: Run::Occasion(&[Does::ChangesResource], resource_change),
    },
];

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "subscriptions.unsolicited",
    requirements: &[
        "subscriptions.no-unsolicited",
        "subscriptions.filter-respected",
    ],
    read: unsolicited,
}];

const RULES: &[&str] = &[
    "subscriptions.ack-first",
    "subscriptions.ack-filter",
    "subscriptions.id-tag",
    "subscriptions.id-value",
    "subscriptions.concurrent",
    "subscriptions.stays-open",
    "subscriptions.cancel",
    "subscriptions.graceful-close",
];

fn listen(ctx: &mut Context<'_>) {
    let streams = [
        "tools.listChanged",
        "prompts.listChanged",
        "resources.listChanged",
        "resources.subscribe",
    ];
    if !streams.iter().any(|stream| ctx.facts.declares(stream)) {
        ctx.not_applicable(
            RULES,
            "The server declares neither `listChanged` nor `subscribe`.",
        );
        return;
    }
    let uris: Vec<Value> = ctx
        .facts
        .items("resources/list")
        .iter()
        .take(1)
        .filter_map(|resource| resource.get("uri").cloned())
        .collect();
    let filter = json!({
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": true,
        "resourceSubscriptions": uris,
    });
    let from = ctx.client.log().len();
    let ids = [json!(0), json!("s-1"), json!(5)];
    for (index, id) in ids.iter().enumerate() {
        ctx.client.post(
            id.clone(),
            "subscriptions/listen",
            Some(json!({"notifications": filter})),
        );
        let until = Instant::now() + ctx.client.limits().request;
        let acknowledged = ctx.client.find(from, until, &mut |message| {
            let ours = message
                .pointer(ID_KEY)
                .is_some_and(|tag| loosely_equal(tag, id));
            let untagged_ack =
                message.get("method") == Some(&json!(ACK)) && message.pointer(ID_KEY).is_none();
            ours || untagged_ack || message.get("id") == Some(id)
        });
        let Some(at) = acknowledged else {
            ctx.doubtful = true;
            let evidence = ctx.evidence_from(from);
            let message = format!("`subscriptions/listen` with id {id} was not acknowledged.");
            let rule = if index == 0 {
                "subscriptions.ack-first"
            } else {
                "subscriptions.concurrent"
            };
            ctx.judge.broken(rule, message, evidence);
            RULES
                .iter()
                .for_each(|other| ctx.judge.blocked(other, rule));
            return;
        };
        let Some(message) = message_at(ctx, at) else {
            return;
        };
        if message.get("error").is_some() {
            refused(ctx, &message, from);
            return;
        }
        acknowledgment(ctx, id, &message, &filter, from);
        if index > 0 {
            ctx.judge.holds("subscriptions.concurrent");
        }
    }
    stays_open_then_cancelled(ctx, &ids, &filter, from);
}

fn message_at(ctx: &Context<'_>, at: usize) -> Option<Value> {
    match &ctx.client.log().get(at)?.event {
        crate::wire::Event::Received(line) => match &line.body {
            crate::wire::Body::Json(json) => Some(json.value.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The same id, whatever its JSON type: a wrong type is told as such.
fn loosely_equal(a: &Value, b: &Value) -> bool {
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    text(a) == text(b)
}

/// A server that declares a stream and refuses to listen.
fn refused(ctx: &mut Context<'_>, message: &Value, from: usize) {
    let evidence = ctx.evidence_from(from);
    let error = message.get("error").cloned().unwrap_or_default();
    ctx.judge.broken_as(
        "subscriptions.ack-first",
        Breach::Warn,
        format!("A stream is declared, but `subscriptions/listen` is refused: {error}"),
        evidence,
    );
    RULES
        .iter()
        .for_each(|rule| ctx.judge.blocked(rule, "subscriptions.ack-first"));
}

fn acknowledgment(ctx: &mut Context<'_>, id: &Value, message: &Value, filter: &Value, from: usize) {
    let evidence = ctx.evidence_from(from);
    if message.get("method") == Some(&json!(ACK)) {
        ctx.judge.holds("subscriptions.ack-first");
    } else {
        let text = format!("The first message of the subscription {id} is no acknowledgment.");
        ctx.judge.broken("subscriptions.ack-first", text, evidence);
        return;
    }
    match message.pointer(ID_KEY) {
        Some(tag) => {
            ctx.judge.holds("subscriptions.id-tag");
            if tag == id {
                ctx.judge.holds("subscriptions.id-value");
            } else {
                let text =
                    format!("The subscription id is {tag}; the listen request had the id {id}.");
                ctx.judge
                    .broken("subscriptions.id-value", text, evidence.clone());
            }
        }
        None => {
            let text = "The acknowledgment carries no subscription id.";
            ctx.judge
                .broken("subscriptions.id-tag", text, evidence.clone());
            ctx.judge
                .blocked("subscriptions.id-value", "subscriptions.id-tag");
        }
    }
    ack_filter(ctx, message, filter, evidence);
}

fn ack_filter(
    ctx: &mut Context<'_>,
    message: &Value,
    filter: &Value,
    evidence: crate::verdict::Evidence,
) {
    const RULE: &str = "subscriptions.ack-filter";
    let Some(granted) = message
        .pointer("/params/notifications")
        .and_then(Value::as_object)
    else {
        ctx.judge.broken(
            RULE,
            "The acknowledgment has no `notifications` object.",
            evidence,
        );
        return;
    };
    for (name, value) in granted {
        let known = filter.get(name);
        let on =
            *value == Value::Bool(true) || value.as_array().is_some_and(|list| !list.is_empty());
        if on && known.is_none() {
            let text = format!("The acknowledgment grants `{name}`, which was not asked for.");
            ctx.judge
                .broken_as(RULE, Breach::Fail, text, evidence.clone());
        }
        let capability = match name.as_str() {
            "toolsListChanged" => "tools.listChanged",
            "promptsListChanged" => "prompts.listChanged",
            "resourcesListChanged" => "resources.listChanged",
            "resourceSubscriptions" => "resources.subscribe",
            _ => continue,
        };
        if on && !ctx.facts.declares(capability) {
            let text =
                format!("The acknowledgment grants `{name}`, but `{capability}` is not declared.");
            ctx.judge
                .broken_as(RULE, Breach::Warn, text, evidence.clone());
        }
    }
    ctx.judge.holds(RULE);
}

fn stays_open_then_cancelled(ctx: &mut Context<'_>, ids: &[Value], filter: &Value, from: usize) {
    const OPEN: &str = "subscriptions.stays-open";
    const CANCEL: &str = "subscriptions.cancel";
    // The next request is answered while the streams are open.
    let served = ctx.client.barrier();
    let answered = ids.iter().find(|id| {
        !matches!(
            ctx.client.reply(id, Instant::now()),
            Reply::Silence | Reply::Gone
        )
    });
    if let Some(id) = answered {
        let evidence = ctx.evidence_from(from);
        let text = format!("The listen request {id} was answered though nothing ended it.");
        ctx.judge.broken(OPEN, text, evidence);
    } else {
        ctx.judge.holds(OPEN);
    }
    if !served {
        ctx.doubtful = true;
        let evidence = ctx.evidence_from(from);
        let text = "With subscriptions open, another request is not answered.";
        ctx.judge.broken("subscriptions.concurrent", text, evidence);
        ctx.judge.blocked(CANCEL, "subscriptions.concurrent");
        return;
    }
    for id in ids {
        ctx.client
            .notify("notifications/cancelled", Some(json!({"requestId": id})));
    }
    ctx.client.barrier();
    let heard = ctx.client.log().last().map_or(Duration::ZERO, |e| e.at);
    // Beyond what may be on its way, as long as silence is listened to elsewhere.
    let quiet = ctx.client.limits().quiet;
    ctx.client.listen(RACE + quiet);
    let late = ctx
        .client
        .log()
        .iter()
        .enumerate()
        .skip(from)
        .any(|(at, entry)| {
            let message = message_at(ctx, at);
            let ours = message.is_some_and(|m| ids.iter().any(|id| m.get("id") == Some(id)));
            ours && entry.at > heard + RACE
        });
    if late {
        let evidence = ctx.evidence_from(from);
        ctx.judge
            .broken(CANCEL, "A cancelled subscription was answered.", evidence);
    } else {
        ctx.judge.holds(CANCEL);
    }
    graceful_close(ctx, filter);
}

/// The end of input ends a subscription: a result before the exit is good, none is a note.
fn graceful_close(ctx: &mut Context<'_>, filter: &Value) {
    const RULE: &str = "subscriptions.graceful-close";
    let id = json!("s-last");
    let from = ctx.client.log().len();
    let params = json!({"notifications": filter});
    ctx.client
        .post(id.clone(), "subscriptions/listen", Some(params));
    let until = Instant::now() + ctx.client.limits().request;
    let open = ctx
        .client
        .find(from, until, &mut |m| m.pointer(ID_KEY) == Some(&id));
    if open.is_none() {
        ctx.judge.blocked(RULE, "subscriptions.ack-first");
        return;
    }
    ctx.client.child().close_input();
    let until = Instant::now() + ctx.client.limits().stop;
    match ctx.client.reply(&id, until) {
        Reply::Result { .. } => ctx.judge.holds(RULE),
        _ => ctx.judge.note(
            RULE,
            "At the end of input an open subscription gets no result.",
        ),
    }
}

fn unsolicited(exchange: &Exchange<'_>, judge: &mut Judge) {
    const RULE: &str = "subscriptions.no-unsolicited";
    const FILTER: &str = "subscriptions.filter-respected";
    if exchange.revision.era() != Era::Stateless {
        return;
    }
    judge.holds(RULE);
    for message in &exchange.received {
        let Kind::Notification(method) = message.kind else {
            continue;
        };
        let field = match method {
            "notifications/tools/list_changed" => "toolsListChanged",
            "notifications/prompts/list_changed" => "promptsListChanged",
            "notifications/resources/list_changed" => "resourcesListChanged",
            "notifications/resources/updated" => "resourceSubscriptions",
            _ => continue,
        };
        let tag = message.value.pointer(ID_KEY);
        let listens: Vec<(&Value, &Value)> = exchange
            .sent
            .iter()
            .filter(|sent| sent.at < message.at)
            .filter_map(|sent| match &sent.kind {
                SentKind::Request { id, method, params } if method == "subscriptions/listen" => {
                    Some((id, params.get("notifications")?))
                }
                _ => None,
            })
            .collect();
        if listens.is_empty() {
            let text = format!("`{method}` was sent though no listen request asked for it.");
            judge.broken(RULE, text, exchange.evidence(message));
            continue;
        }
        let stream = listens.iter().find(|(id, _)| Some(*id) == tag);
        match stream {
            Some((_, filter)) if filter.get(field).is_some_and(|v| *v != Value::Bool(false)) => {
                judge.holds(FILTER);
            }
            Some(_) => {
                let text = format!("`{method}` was sent on a stream that did not ask for it.");
                judge.broken(FILTER, text, exchange.evidence(message));
            }
            None => {
                let text = format!("`{method}` carries no id of a subscription.");
                judge.broken("subscriptions.id-tag", text, exchange.evidence(message));
            }
        }
    }
}

/// An open subscription.
pub(super) struct Watch {
    /// The id of the listen request.
    pub id: Value,
    /// Where it began in the log.
    pub from: usize,
}

/// Opens a subscription and waits for its acknowledgment. Without one the rules are blocked.
pub(super) fn watch(ctx: &mut Context<'_>, rules: &[&str], filter: Value) -> Option<Watch> {
    let from = ctx.client.log().len();
    let id = ctx.client.fresh_id();
    let params = json!({"notifications": filter});
    ctx.client
        .post(id.clone(), "subscriptions/listen", Some(params));
    let until = ctx.client.deadline();
    let acknowledged = ctx.client.find(from, until, &mut |message| {
        message.get("method") == Some(&json!(ACK)) && message.pointer(ID_KEY) == Some(&id)
            || message.get("id") == Some(&id)
    });
    let message = acknowledged.and_then(|at| message_at(ctx, at));
    if message.is_some_and(|message| message.get("method").is_some()) {
        return Some(Watch { id, from });
    }
    rules
        .iter()
        .for_each(|rule| ctx.judge.blocked(rule, "subscriptions.ack-first"));
    None
}

/// A change that a client can watch.
struct Change<'a> {
    rules: &'static [&'static str],
    /// What must be declared for it.
    capability: &'static str,
    /// The member of a filter, and what it is set to.
    filter: (&'static str, Value),
    notification: &'static str,
    uri: Option<&'a str>,
}

fn tools_change(ctx: &mut Context<'_>, occasion: &Occasion) {
    let change = Change {
        rules: &[
            "tools.list-changed.notify",
            "tools.list-changed.notify-listeners",
        ],
        capability: "tools.listChanged",
        filter: ("toolsListChanged", json!(true)),
        notification: "notifications/tools/list_changed",
        uri: None,
    };
    change_is_told(ctx, occasion, &change);
}

fn prompts_change(ctx: &mut Context<'_>, occasion: &Occasion) {
    let change = Change {
        rules: &["prompts.list-changed.notify"],
        capability: "prompts.listChanged",
        filter: ("promptsListChanged", json!(true)),
        notification: "notifications/prompts/list_changed",
        uri: None,
    };
    change_is_told(ctx, occasion, &change);
}

fn resources_change(ctx: &mut Context<'_>, occasion: &Occasion) {
    let change = Change {
        rules: &["resources.list-changed.notify"],
        capability: "resources.listChanged",
        filter: ("resourcesListChanged", json!(true)),
        notification: "notifications/resources/list_changed",
        uri: None,
    };
    change_is_told(ctx, occasion, &change);
}

fn resource_change(ctx: &mut Context<'_>, occasion: &Occasion) {
    let uri = occasion.resource.as_deref().unwrap_or_default();
    let change = Change {
        rules: &["resources.updated.on-change"],
        capability: "resources.subscribe",
        filter: ("resourceSubscriptions", json!([uri])),
        notification: "notifications/resources/updated",
        uri: Some(uri),
    };
    change_is_told(ctx, occasion, &change);
}

/// Watches, brings the change about, and waits for the notification.
fn change_is_told(ctx: &mut Context<'_>, occasion: &Occasion, change: &Change<'_>) {
    /// A notification may come after the reply of the call that caused it.
    const PATIENCE: Duration = Duration::from_secs(2);
    if !ctx.needs(change.capability, change.rules) {
        return;
    }
    let mut stream = None;
    if !ctx.handshake() {
        let (name, on) = &change.filter;
        stream = watch(ctx, change.rules, json!({ *name: on }));
        if stream.is_none() {
            return;
        }
    } else if let Some(uri) = change.uri {
        let params = Some(json!({"uri": uri}));
        match ctx.ask(change.rules, "resources/subscribe", params) {
            super::Answer::Result(_) => {}
            super::Answer::Error { error, .. } => {
                let why = format!("`resources/subscribe` to `{uri}` is refused: {error}");
                ctx.not_applicable(change.rules, &why);
                return;
            }
            super::Answer::None => return,
        }
    }
    let from = ctx.client.log().len();
    let answer = ctx.ask(change.rules, occasion.method, Some(occasion.params.clone()));
    let worked = match answer {
        super::Answer::None => return,
        super::Answer::Error { .. } => false,
        super::Answer::Result(result) => !super::tools::is_error(&result),
    };
    if !worked {
        let why = format!("{occasion} fails, so nothing changed; look at the hint.");
        ctx.not_applicable(change.rules, &why);
        return;
    }
    let until = Instant::now() + PATIENCE.min(ctx.client.limits().request);
    let tag = stream.as_ref().map(|watch| watch.id.clone());
    let told = ctx.client.find(from, until, &mut |message| {
        let uri = message.pointer("/params/uri").and_then(Value::as_str);
        message.get("method") == Some(&json!(change.notification))
            && message.pointer(ID_KEY) == tag.as_ref()
            // Of a part of the resource as well.
            && change.uri.is_none_or(|wanted| uri.is_some_and(|uri| uri.starts_with(wanted)))
    });
    for rule in change.rules {
        if told.is_some() {
            ctx.judge.holds(rule);
        } else {
            ctx.doubtful = true;
            let evidence = ctx.evidence_from(from);
            let text = format!("After {occasion} no `{}` came.", change.notification);
            ctx.judge.broken(rule, text, evidence);
        }
    }
    if let Some(watch) = stream {
        let params = Some(json!({"requestId": watch.id}));
        ctx.client.notify("notifications/cancelled", params);
    } else if let Some(uri) = change.uri {
        ctx.ask(&[], "resources/unsubscribe", Some(json!({"uri": uri})));
    }
}
