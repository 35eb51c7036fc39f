//! `client/*`: what the server asks of a client.

use std::collections::HashSet;

use std::time::Instant;

use serde_json::{Value, json};

use super::asking::{Course, Play, Question};
use super::exchange::{Exchange, Kind};
use super::{Check, Context, Observer, Run, Session};
use crate::client::Reply;
use crate::run::{Does, Judge, Occasion};
use crate::spec::{Era, Revision, Span};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "client-features.deprecated",
        requirements: &["client-features.deprecated"],
        span: Span {
            first: Revision::V2026_07_28,
            last: Revision::V2026_07_28,
        },
        session: Session::Shared,
        run: Run::Code(deprecated),
    },
    Check {
        name: "roots.list-changed",
        requirements: &["roots.list-changed-handled"],
        span: Span {
            first: Revision::V2024_11_05,
            last: Revision::V2025_11_25,
        },
        session: Session::Rough,
        run: Run::Code(roots_list_changed),
    },
    Check {
        name: "client-features.explore",
        requirements: &[],
        span: Span::ALL,
        session: Session::Rough,
        run: Run::Code(explore),
    },
    Check {
        name: "client-features.errors",
        requirements: &["client-features.error-tolerated"],
        span: HANDSHAKE,
        session: Session::Able,
        run: Run::Occasion(Does::ASKS, errors),
    },
    Check {
        name: "client-features.timeouts",
        requirements: &[
            "lifecycle.timeouts",
            "cancellation.server-sent.late-response",
        ],
        span: HANDSHAKE,
        session: Session::Able,
        run: Run::Occasion(Does::ASKS, timeouts),
    },
    Check {
        name: "roots.vanished",
        requirements: &["roots.boundaries"],
        span: Span::ALL,
        session: Session::Able,
        run: Run::Occasion(&[Does::AsksRoots], vanished_roots),
    },
    Check {
        name: "roots.outside",
        requirements: &["roots.boundaries"],
        span: Span::ALL,
        session: Session::Able,
        run: Run::Occasion(&[Does::LeavesRoots], outside_roots),
    },
];

const HANDSHAKE: Span = Span {
    first: Revision::V2024_11_05,
    last: Revision::V2025_11_25,
};

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "client-features.requests",
    requirements: &["jsonrpc.request.id-valid", "jsonrpc.request.id-unique"],
    read: requests,
}];

fn deprecated(ctx: &mut Context<'_>) {
    const RULE: &str = "client-features.deprecated";
    if ctx.facts.declares("logging") {
        // Advice for new servers; one that serves older clients too has no choice.
        ctx.judge.note(
            RULE,
            "`logging` is declared; it is deprecated in 2026-07-28.",
        );
    } else {
        ctx.judge.holds(RULE);
    }
}

fn roots_list_changed(ctx: &mut Context<'_>) {
    const RULE: &str = "roots.list-changed-handled";
    let from = ctx.client.log().len();
    ctx.client.notify("notifications/roots/list_changed", None);
    if ctx.client.barrier() {
        ctx.judge.holds(RULE);
    } else {
        ctx.doubtful = true;
        let evidence = ctx.evidence_from(from);
        let message = "After `notifications/roots/list_changed` the next request is not answered.";
        ctx.judge.broken(RULE, message, evidence);
    }
}

fn requests(exchange: &Exchange<'_>, judge: &mut Judge) {
    const VALID: &str = "jsonrpc.request.id-valid";
    const UNIQUE: &str = "jsonrpc.request.id-unique";
    if exchange.revision.era() == Era::Stateless {
        return;
    }
    let mut seen = HashSet::new();
    for message in &exchange.received {
        // Ids are unique in a session; another `initialize` may begin a new one.
        let session = exchange.greetings_before(message.at);
        let Kind::Request(method) = message.kind else {
            continue;
        };
        let id = message.value.get("id").cloned().unwrap_or(Value::Null);
        let valid = match &id {
            Value::String(_) => true,
            Value::Number(number) => number.as_i64().is_some() || number.as_u64().is_some(),
            _ => false,
        };
        if valid {
            judge.holds(VALID);
        } else {
            let text = format!(
                "The server's `{method}` has the id {id}; it must be a string or an integer."
            );
            judge.broken(VALID, text, exchange.evidence(message));
        }
        if seen.insert((session, id.to_string())) {
            judge.holds(UNIQUE);
        } else {
            let text = format!("The server used the request id {id} twice.");
            judge.broken(UNIQUE, text, exchange.evidence(message));
        }
    }
}

/// Calls again what answered soon, now as a client that can be asked, and keeps in mind what
/// asks something.
fn explore(ctx: &mut Context<'_>) {
    for (tool, arguments) in ctx.facts.quick.clone() {
        let mut occasion = Occasion::seen(&tool, arguments, Does::AsksRoots);
        let mut willing = ctx.willing();
        let course = ctx.converse(&occasion, &mut willing);
        if matches!(course.reply, Reply::Silence | Reply::Gone) {
            ctx.doubtful = true;
            return;
        }
        occasion.does = course.asked.iter().filter_map(what_asks).collect();
        if !occasion.does.is_empty() {
            ctx.facts.occasions.push(occasion);
        }
    }
}

fn what_asks(question: &Question) -> Option<Does> {
    match question.method.as_str() {
        "roots/list" => Some(Does::AsksRoots),
        "sampling/createMessage" => Some(Does::AsksSampling),
        "elicitation/create" if question.mode() == Some("url") => Some(Does::AsksUrlElicitation),
        "elicitation/create" => Some(Does::AsksElicitation),
        _ => None,
    }
}

/// A client that refuses every question: the calls come to an end all the same.
fn errors(ctx: &mut Context<'_>, _: &Occasion) {
    const RULE: &str = "client-features.error-tolerated";
    let mut seen = Vec::new();
    for occasion in ctx.occasions(Does::ASKS) {
        for code in [-1, -32601] {
            let course = ctx.converse(&occasion, &mut |_| Play::Error(code));
            let Some(question) = course.asked.first() else {
                // A request that leads to no question and no answer says nothing of errors.
                let answer = ctx.settle(&[RULE], occasion.method, course.from, course.reply);
                if matches!(answer, super::Answer::None) {
                    return;
                }
                continue;
            };
            // Each kind of question once is enough.
            let kind = (question.method.clone(), code);
            if seen.contains(&kind) {
                continue;
            }
            let when = format!("After the error {code} for `{}`", question.method);
            seen.push(kind);
            if !ctx.must_be_answered(RULE, &course, &when) {
                return;
            }
        }
    }
    if seen.is_empty() {
        ctx.not_applicable(&[RULE], "The server asked the client nothing.");
    } else if !ctx.client.barrier() {
        ctx.doubtful = true;
        let evidence = ctx.evidence();
        let text = "After errors of the client for its questions, the server answers no more.";
        ctx.judge.broken(RULE, text, evidence);
    }
}

/// A question that nobody answers: after its time the server takes it back and answers the call;
/// an answer that comes then is too late and does no harm.
fn timeouts(ctx: &mut Context<'_>, _: &Occasion) {
    let known = ctx.occasions(Does::ASKS);
    for occasion in known.iter().filter(|o| o.gives_up.is_some()) {
        if left_unanswered(ctx, occasion) {
            return;
        }
    }
    let why = "Nothing is known to give up a question after a time; a hint would help: \
        `gives-up-ms` beside `asks-…` in touchstone.toml.";
    ctx.judge.not_applicable("lifecycle.timeouts", why);
}

/// False if the server asked nothing.
fn left_unanswered(ctx: &mut Context<'_>, occasion: &Occasion) -> bool {
    const RULE: &str = "lifecycle.timeouts";
    let patience = occasion.gives_up.unwrap_or_default() + ctx.client.limits().request;
    let from = ctx.client.log().len();
    let id = ctx.client.fresh_id();
    ctx.client.answer_none();
    ctx.client
        .post(id.clone(), occasion.method, Some(occasion.params.clone()));
    let reply = ctx.client.reply(&id, Instant::now() + patience);
    ctx.client.answer_as_usual();
    let mut read = from;
    let Some(question) = ctx.next_question(&mut read) else {
        return false;
    };
    let mut is_withdrawal = |message: &Value| withdraws(message, &question.id);
    let withdrawn = ctx.client.find(from, Instant::now(), &mut is_withdrawal);
    let answered = matches!(reply, Reply::Result { .. } | Reply::Error { .. });
    // The first revision asks for the time limit alone.
    let cancels = ctx.revision() >= Revision::V2025_03_26;
    if answered && (withdrawn.is_some() || !cancels) {
        ctx.judge.holds(RULE);
    } else {
        ctx.doubtful = true;
        let text = match answered {
            true => {
                "The server gives up its question, but sends no `notifications/cancelled` for it."
            }
            false => "A question that the client does not answer holds the call up for ever.",
        };
        let evidence = ctx.evidence_from(from);
        ctx.judge.broken(RULE, text, evidence);
    }
    if withdrawn.is_some() {
        late_answer(ctx, &question, from);
    }
    true
}

/// Whether the message takes back a question.
pub(super) fn withdraws(message: &Value, id: &Value) -> bool {
    message["method"] == "notifications/cancelled" && message["params"]["requestId"] == *id
}

/// Answers a question that the server has taken back.
pub(super) fn late_answer(ctx: &mut Context<'_>, question: &Question, from: usize) {
    const LATE: &str = "cancellation.server-sent.late-response";
    let mut willing = ctx.willing();
    ctx.answer_question(&question.id, willing(question));
    if ctx.client.barrier() {
        ctx.judge.holds(LATE);
    } else {
        ctx.doubtful = true;
        let evidence = ctx.evidence_from(from);
        let text = "After an answer to a question that it took back, the server answers no more.";
        ctx.judge.broken(LATE, text, evidence);
    }
}

/// A root that is not there.
fn vanished_roots(ctx: &mut Context<'_>, occasion: &Occasion) {
    const RULE: &str = "roots.boundaries";
    let gone = format!("file://{}/gone", ctx.client.child().folder().display());
    let mut willing = ctx.willing();
    let course: Course = ctx.converse(occasion, &mut |question| match question.method.as_str() {
        "roots/list" => Play::Result(json!({"roots": [{"uri": gone, "name": "gone"}]})),
        _ => willing(question),
    });
    if course.asked_for("roots/list") {
        ctx.must_be_answered(RULE, &course, "With a root that is not there");
    } else {
        let why = format!("{occasion} asked for no roots.");
        ctx.not_applicable(&[RULE], &why);
    }
}

/// What lies outside every root is refused.
fn outside_roots(ctx: &mut Context<'_>, occasion: &Occasion) {
    const RULE: &str = "roots.boundaries";
    let mut willing = ctx.willing();
    let course = ctx.converse(occasion, &mut willing);
    match &course.reply {
        Reply::Result { result, .. } if !super::tools::is_error(result) => {
            let evidence = ctx.evidence_from(course.from);
            let text = format!("{occasion} succeeds, though it points outside the client's roots.");
            ctx.judge.broken(RULE, text, evidence);
        }
        Reply::Result { .. } | Reply::Error { .. } => ctx.judge.holds(RULE),
        _ => {
            ctx.must_be_answered(RULE, &course, "Pointed outside the client's roots");
        }
    }
}
