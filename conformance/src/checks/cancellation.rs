//! `basic/utilities/cancellation`.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::asking::{Play, questions, task};
use super::client_features::{late_answer, withdraws};
use super::exchange::{Exchange, Kind, SentKind};
use super::{Answer, Check, Context, Observer, Run, Session};
use crate::client::Reply;
use crate::run::{Does, Judge, Occasion};
use crate::spec::{Era, Revision, Span};
use crate::wire::{Body, Event, Received};

/// What is already on its way when a cancellation arrives may still come for so long.
const RACE: Duration = Duration::from_millis(250);
/// How long something slow takes, unless the hint says.
const SLOW: Duration = Duration::from_secs(1);

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "cancellation.race",
        requirements: &["cancellation.race-graceful"],
        span: Span::ALL,
        session: Session::Rough,
        run: Run::Code(race),
    },
    Check {
        name: "cancellation.slow",
        requirements: &[
            "ping.while-busy",
            "stdio.not-blocked-while-busy",
            "cancellation.stop-work",
            "cancellation.no-response",
            "cancellation.no-further-messages",
        ],
        span: Span::ALL,
        session: Session::Able,
        run: Run::Occasion(&[Does::Slow], slow),
    },
    Check {
        name: "cancellation.questions",
        requirements: &[
            "cancellation.server-sent.late-response",
            "cancellation.tasks",
        ],
        span: Span {
            first: Revision::V2024_11_05,
            last: Revision::V2025_11_25,
        },
        session: Session::Able,
        run: Run::Occasion(Does::ASKS, questions_of_the_cancelled),
    },
    Check {
        name: "cancellation.teardown",
        requirements: &["cancellation.server-teardown-notifies"],
        span: Span {
            first: Revision::V2026_07_28,
            last: Revision::V2026_07_28,
        },
        session: Session::Own,
        run: Run::Code(teardown),
    },
];

pub(super) const OBSERVERS: &[Observer] = &[
    Observer {
        name: "cancellation.from-server",
        requirements: &[
            "cancellation.server-sent.valid-target",
            "cancellation.server-sent.only-listen",
        ],
        read: from_server,
    },
    Observer {
        name: "cancellation.of-tasks",
        requirements: &["cancellation.tasks"],
        read: of_tasks,
    },
];

/// Bursts of requests that are cancelled at once, and how many a burst has: a server that loses
/// the race loses it now and then.
const BURSTS: usize = 3;
const BURST: usize = 20;
/// Bytes of a list that is not asked for in bursts.
const LARGE_LIST: usize = 256 << 10;

/// A request and its cancellation back to back, many times.
fn race(ctx: &mut Context<'_>) {
    const RULE: &str = "cancellation.race-graceful";
    // Dozens of long lists would be more output than the suite reads.
    let small = |method: &str| {
        let items = ctx.facts.items(method).iter();
        items.map(|item| item.to_string().len()).sum::<usize>() < LARGE_LIST
    };
    let method = super::LISTS
        .iter()
        .find(|(method, _, capability)| ctx.facts.declares(capability) && small(method))
        .map_or(ctx.client.cheap_method(), |(method, _, _)| *method);
    let from = ctx.client.log().len();
    let survived = (0..BURSTS).all(|_| {
        for _ in 0..BURST {
            let id = ctx.client.fresh_id();
            ctx.client.post(id.clone(), method, None);
            ctx.client
                .notify("notifications/cancelled", Some(json!({"requestId": id})));
        }
        ctx.patient_barrier()
    });
    if survived {
        ctx.judge.holds(RULE);
    } else {
        ctx.doubtful = true;
        let evidence = ctx.evidence_from(from);
        let message =
            "After requests that were cancelled at once, the next request is not answered.";
        ctx.judge.broken(RULE, message, evidence);
    }
}

fn from_server(exchange: &Exchange<'_>, judge: &mut Judge) {
    let stateless = exchange.revision.era() == Era::Stateless;
    if stateless {
        judge.holds("cancellation.server-sent.only-listen");
    }
    for message in &exchange.received {
        if message.kind != Kind::Notification("notifications/cancelled") {
            continue;
        }
        let target = message
            .value
            .pointer("/params/requestId")
            .cloned()
            .unwrap_or(Value::Null);
        if stateless {
            let listen = exchange.sent.iter().any(|sent| {
                sent.at < message.at
                    && matches!(&sent.kind, SentKind::Request { id, method, .. }
                        if *id == target && method == "subscriptions/listen")
            });
            if !listen {
                judge.broken(
                    "cancellation.server-sent.only-listen",
                    format!("The server cancelled {target}, which is no listen request."),
                    exchange.evidence(message),
                );
            }
            continue;
        }
        let own = exchange.received.iter().any(|request| {
            request.at < message.at
                && matches!(request.kind, Kind::Request(_))
                && request.value.get("id") == Some(&target)
        });
        if own {
            judge.holds("cancellation.server-sent.valid-target");
        } else {
            judge.broken(
                "cancellation.server-sent.valid-target",
                format!("The server cancelled {target}, which is no request of its own."),
                exchange.evidence(message),
            );
        }
    }
}

const BUSY: [&str; 2] = ["ping.while-busy", "stdio.not-blocked-while-busy"];
const STOP: &str = "cancellation.stop-work";
const SILENT: [&str; 2] = [
    "cancellation.no-response",
    "cancellation.no-further-messages",
];

/// Something slow is begun; meanwhile another request is answered; then the slow one is cancelled.
fn slow(ctx: &mut Context<'_>, occasion: &Occasion) {
    let takes = occasion.takes.unwrap_or(SLOW);
    let began = Instant::now();
    let from = ctx.client.log().len();
    let id = ctx.client.fresh_id();
    let token = json!(format!("slow-{id}"));
    let params = occasion.with_token(&token);
    ctx.client.post(id.clone(), occasion.method, Some(params));
    let before = occasion.resource.as_ref().map(|uri| reading(ctx, uri));
    // It has begun for certain once it reports something.
    let begun = |message: &Value| message.pointer("/params/progressToken") == Some(&token);
    let soon = Instant::now() + (takes / 5).min(Duration::from_millis(150));
    let reports = ctx.client.find(from, soon, &mut |m| begun(m)).is_some();
    if !answered_meanwhile(ctx, occasion, &id, takes, from) {
        return;
    }
    let during = occasion.resource.as_ref().map(|uri| {
        ctx.client
            .listen((takes / 5).min(Duration::from_millis(100)));
        reading(ctx, uri)
    });
    let cancelled = ctx.client.log().len();
    ctx.client
        .notify("notifications/cancelled", Some(json!({"requestId": id})));
    if !ctx.client.barrier() {
        ctx.doubtful = true;
        for rule in SILENT.iter().chain([&STOP]) {
            ctx.judge.blocked(rule, "jsonrpc.response.exactly-one");
        }
        return;
    }
    ctx.client.listen(RACE);
    if let (Some(before), Some(during), Some(uri)) = (before, during, &occasion.resource) {
        if before == during || during.is_none() {
            let why = format!("`{uri}` does not show that {occasion} works.");
            ctx.judge.not_applicable(STOP, why);
        } else {
            stands_still(ctx, uri, cancelled);
        }
    } else if reports {
        no_more_reports(ctx, cancelled, &token);
    } else {
        let why = format!(
            "Whether {occasion} stops cannot be seen: it reports no progress; a hint would help: \
             `resource`, the URI of one that shows it."
        );
        ctx.judge.not_applicable(STOP, why);
    }
    // The reply that would come if it were left alone.
    let end = began + takes + RACE;
    ctx.client
        .listen(end.saturating_duration_since(Instant::now()));
    ctx.client.barrier();
    stays_silent(ctx, cancelled, &id, &token);
}

/// What a resource holds now.
fn reading(ctx: &mut Context<'_>, uri: &str) -> Option<Value> {
    match ctx.ask(&[], "resources/read", Some(json!({"uri": uri}))) {
        Answer::Result(result) => result.get("contents").cloned(),
        _ => None,
    }
}

/// A cheap request is answered before the slow one. False when there is nothing more to see.
fn answered_meanwhile(
    ctx: &mut Context<'_>,
    occasion: &Occasion,
    id: &Value,
    takes: Duration,
    from: usize,
) -> bool {
    let cheap = ctx.client.cheap_method();
    let quick = ctx.client.request(cheap, None);
    let at = |reply: &Reply| match reply {
        Reply::Result { at, .. } | Reply::Error { at, .. } => Some(*at),
        _ => None,
    };
    let slow = at(&ctx.client.reply(id, Instant::now()));
    let (quick_at, slow_at) = (at(&quick), slow);
    match (quick_at, slow_at) {
        (Some(_), None) => {
            BUSY.iter().for_each(|rule| ctx.judge.holds(rule));
            return none_is_lost(ctx);
        }
        (None, _) => {
            ctx.settle(&BUSY, cheap, from, quick);
        }
        (Some(_), Some(slow_at)) => {
            let log = ctx.client.log();
            let took = log[slow_at].at.saturating_sub(log[from].at);
            if took * 2 >= takes {
                // Both are there, and the cheap one had to wait.
                ctx.doubtful = true;
                let text = format!(
                    "`{cheap}` was answered only after {occasion}, which took {:.1} s.",
                    took.as_secs_f32()
                );
                for rule in BUSY {
                    let evidence = ctx.evidence_from(from);
                    ctx.judge.broken(rule, text.as_str(), evidence);
                }
            } else {
                let why = format!(
                    "{occasion} was over after {} ms: too soon to see anything.",
                    took.as_millis()
                );
                ctx.not_applicable(&BUSY, &why);
            }
        }
    }
    let why = format!("{occasion} was over before it could be cancelled.");
    ctx.not_applicable(&[STOP, SILENT[0], SILENT[1]], &why);
    false
}

/// Many cheap requests beside something slow: a server that lends its output to what it runs loses
/// replies meanwhile. False when one is not answered.
fn none_is_lost(ctx: &mut Context<'_>) -> bool {
    const MANY: usize = 10;
    let cheap = ctx.client.cheap_method();
    let from = ctx.client.log().len();
    let ids = ctx.client.post_many(MANY, cheap, None);
    ids.iter().all(|id| {
        let until = ctx.client.deadline();
        let reply = ctx.client.reply(id, until);
        let blocked = [STOP, SILENT[0], SILENT[1]];
        !matches!(ctx.settle(&blocked, cheap, from, reply), Answer::None)
    })
}

/// What shows the work does not change any more.
fn stands_still(ctx: &mut Context<'_>, uri: &str, cancelled: usize) {
    let first = reading(ctx, uri);
    let quiet = ctx.client.limits().quiet;
    ctx.client.listen(quiet);
    if first == reading(ctx, uri) {
        ctx.judge.holds(STOP);
    } else {
        ctx.doubtful = true;
        let evidence = ctx.evidence_from(cancelled);
        let text = format!("After the cancellation the work goes on: `{uri}` still changes.");
        ctx.judge.broken(STOP, text, evidence);
    }
}

fn no_more_reports(ctx: &mut Context<'_>, cancelled: usize, token: &Value) {
    let quiet = ctx.client.limits().quiet;
    ctx.client.listen(quiet);
    let late = late_messages(ctx, cancelled, &|message| {
        message.pointer("/params/progressToken") == Some(token)
    });
    if late.iter().all(|late| *late <= RACE) {
        ctx.judge.holds(STOP);
    } else {
        ctx.doubtful = true;
        let evidence = ctx.evidence_from(cancelled);
        let text = "After the cancellation the work goes on: it still reports progress.";
        ctx.judge.broken(STOP, text, evidence);
    }
}

/// How long after the cancellation each message came that fits.
fn late_messages(
    ctx: &Context<'_>,
    cancelled: usize,
    fits: &dyn Fn(&Value) -> bool,
) -> Vec<Duration> {
    let log = ctx.client.log();
    let start = log.get(cancelled).map_or(Duration::ZERO, |entry| entry.at);
    log.iter()
        .skip(cancelled)
        .filter(|entry| match &entry.event {
            Event::Received(line) => {
                matches!(&line.body, Body::Json(json) if fits(&json.value))
            }
            _ => false,
        })
        .map(|entry| entry.at.saturating_sub(start))
        .collect()
}

fn stays_silent(ctx: &mut Context<'_>, cancelled: usize, id: &Value, token: &Value) {
    let is_reply =
        |message: &Value| message.get("id") == Some(id) && message.get("method").is_none();
    let replies = late_messages(ctx, cancelled, &is_reply);
    let ours = |message: &Value| {
        is_reply(message) || message.pointer("/params/progressToken") == Some(token)
    };
    let further = late_messages(ctx, cancelled, &ours);
    match replies.first() {
        None => ctx.judge.holds(SILENT[0]),
        Some(late) => {
            ctx.doubtful = true;
            let evidence = ctx.evidence_from(cancelled);
            let text = format!(
                "A cancelled request was answered, {} ms after the cancellation.",
                late.as_millis()
            );
            ctx.judge.broken(SILENT[0], text, evidence);
        }
    }
    match further.iter().find(|late| **late > RACE) {
        None => ctx.judge.holds(SILENT[1]),
        Some(late) => {
            ctx.doubtful = true;
            let evidence = ctx.evidence_from(cancelled);
            let text = format!(
                "A message for a cancelled request came {} ms after the cancellation.",
                late.as_millis()
            );
            ctx.judge.broken(SILENT[1], text, evidence);
        }
    }
}

/// The client cancels a call whose question it has not answered: the server takes the question
/// back, and an answer that comes later does no harm.
fn questions_of_the_cancelled(ctx: &mut Context<'_>, _: &Occasion) {
    const LATE: &str = "cancellation.server-sent.late-response";
    const TASKS: &str = "cancellation.tasks";
    for occasion in ctx.occasions(Does::ASKS) {
        let from = ctx.client.log().len();
        let id = ctx.client.fresh_id();
        ctx.client.answer_none();
        ctx.client
            .post(id.clone(), occasion.method, Some(occasion.params.clone()));
        let until = ctx.client.deadline();
        let is_question =
            |message: &Value| message.get("method").is_some() && message.get("id").is_some();
        let asked = ctx.client.find(from, until, &mut |message| {
            is_question(message) || message.get("id") == Some(&id)
        });
        let mut read = from;
        let question = asked.and_then(|_| ctx.next_question(&mut read));
        ctx.client.answer_as_usual();
        let Some(question) = question else {
            continue;
        };
        if question.params.get("task").is_some() {
            let ticket = json!({"task": task(0, "working")});
            ctx.answer_question(&question.id, Play::Result(ticket));
            ctx.client.barrier();
        }
        ctx.client
            .notify("notifications/cancelled", Some(json!({"requestId": id})));
        ctx.client.barrier();
        let until = Instant::now() + ctx.client.limits().quiet;
        let withdrawn = ctx.client.find(from, until, &mut |message| {
            withdraws(message, &question.id) || message["method"] == "tasks/cancel"
        });
        if withdrawn.is_some() && question.params.get("task").is_none() {
            late_answer(ctx, &question, from);
        } else {
            // The server may still wait for it.
            let mut willing = ctx.willing();
            ctx.answer_question(&question.id, willing(&question));
            ctx.client.barrier();
        }
    }
    ctx.judge
        .not_applicable(LATE, "The server took no question back.");
    ctx.judge
        .not_applicable(TASKS, "The server put no question as a task.");
}

/// The client stops a task of the server by `tasks/cancel`; so does the server with one of the
/// client.
fn of_tasks(exchange: &Exchange<'_>, judge: &mut Judge) {
    const RULE: &str = "cancellation.tasks";
    if exchange.revision != Revision::V2025_11_25 {
        return;
    }
    let ids: HashSet<String> = questions(exchange)
        .iter()
        .filter(|put| put.params.get("task").is_some())
        .map(|put| put.message.value["id"].to_string())
        .collect();
    for message in &exchange.received {
        match message.kind {
            Kind::Request("tasks/cancel") => judge.holds(RULE),
            Kind::Notification("notifications/cancelled")
                if ids.contains(&message.value["params"]["requestId"].to_string()) =>
            {
                let text = "A question that was put as a task is taken back by \
                    `notifications/cancelled`, not by `tasks/cancel`.";
                judge.broken(RULE, text, exchange.evidence(message));
            }
            _ => {}
        }
    }
}

/// A subscription is open when the input ends: the server closes it, if there is time.
fn teardown(ctx: &mut Context<'_>) {
    const RULE: &str = "cancellation.server-teardown-notifies";
    let streams = [
        "tools.listChanged",
        "prompts.listChanged",
        "resources.listChanged",
    ];
    if !streams.iter().any(|stream| ctx.facts.declares(stream)) {
        let why = "The server declares no `listChanged`.";
        ctx.not_applicable(&[RULE], why);
        return;
    }
    let Some(watch) = super::subscriptions::watch(
        ctx,
        &[RULE],
        json!({
            "toolsListChanged": true,
            "promptsListChanged": true,
            "resourcesListChanged": true,
        }),
    ) else {
        return;
    };
    ctx.client.child().close_input();
    let until = Instant::now() + ctx.client.limits().stop;
    while matches!(ctx.client.next(until), Received::Line(_)) {}
    let closed = ctx.client.find(watch.from, Instant::now(), &mut |message| {
        withdraws(message, &watch.id)
            || (message.get("id") == Some(&watch.id) && message.get("result").is_some())
    });
    match closed {
        Some(_) => ctx.judge.holds(RULE),
        None => ctx.judge.note(
            RULE,
            "At the end of its input the server leaves without a word on the open subscription.",
        ),
    }
}
