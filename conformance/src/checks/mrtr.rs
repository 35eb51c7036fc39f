//! `basic/patterns/mrtr` (2026-07-28): results that ask for input.

use serde_json::{Map, Value, json};

use super::asking::{Play, Question, input_requests, is_interim, questions, retry};
use super::exchange::Exchange;
use super::{Answer, Check, Context, Observer, Run, Session};
use crate::client::Reply;
use crate::run::{Does, Judge, Occasion};
use crate::spec::{Era, Revision, Span};
use crate::wire::{Body, Event};

const STATELESS: Span = Span {
    first: Revision::V2026_07_28,
    last: Revision::V2026_07_28,
};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "mrtr.allowed-methods",
        requirements: &["mrtr.allowed-methods"],
        span: STATELESS,
        session: Session::Rough,
        run: Run::Code(allowed_methods),
    },
    Check {
        name: "mrtr.rounds",
        requirements: RULES,
        span: STATELESS,
        session: Session::Able,
        run: Run::Occasion(Does::ASKS, rounds),
    },
    Check {
        name: "mrtr.capabilities",
        requirements: &[
            "mrtr.capability-respected",
            "versioning.missing-capability.code",
            "versioning.missing-capability.data",
        ],
        span: STATELESS,
        session: Session::Able,
        run: Run::Occasion(Does::ASKS, capabilities),
    },
];

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "mrtr.questions",
    requirements: &["mrtr.input-request-keys", "mrtr.capability-respected"],
    read: read_questions,
}];

const KEYS: &str = "mrtr.input-request-keys";
const RESPECTED: &str = "mrtr.capability-respected";
const INTEGRITY: &str = "mrtr.state-integrity";
const BINDING: &str = "mrtr.state-binding";
const COMPLETES: &str = "mrtr.completes-after-retry";
const MISSING: &str = "mrtr.missing-response";
const EXTRA: &str = "mrtr.extra-response-ignored";
const VALIDATES: &str = "mrtr.validates-responses";
const NO_WAITING: &str = "mrtr.no-waiting";
const RULES: &[&str] = &[
    KEYS, INTEGRITY, BINDING, COMPLETES, MISSING, EXTRA, VALIDATES, NO_WAITING,
];

/// With every client capability declared, methods other than the three never ask for input.
fn allowed_methods(ctx: &mut Context<'_>) {
    const RULE: &str = "mrtr.allowed-methods";
    let mut methods = vec!["server/discover"];
    for (method, _, capability) in super::LISTS {
        if ctx.facts.declares(capability) {
            methods.push(method);
        }
    }
    for method in methods {
        let from = ctx.client.log().len();
        match ctx.ask(&[RULE], method, Some(json!({}))) {
            Answer::Result(result)
                if result.get("resultType").and_then(Value::as_str) == Some("input_required") =>
            {
                let evidence = ctx.evidence_from(from);
                ctx.judge.broken(
                    RULE,
                    format!("`{method}` asks for input, which it may not."),
                    evidence,
                );
            }
            Answer::None => return,
            _ => ctx.judge.holds(RULE),
        }
    }
}

/// A result that asks, and the answers that a willing client has for it.
struct Asked {
    result: Value,
    answers: Map<String, Value>,
    from: usize,
}

impl Asked {
    fn state(&self) -> Option<&str> {
        self.result.get("requestState").and_then(Value::as_str)
    }

    fn retry(&self, occasion: &Occasion, answers: Map<String, Value>) -> Value {
        retry(occasion, &self.result, answers)
    }

    /// The retry with another state.
    fn with_state(&self, occasion: &Occasion, state: &str) -> Value {
        let mut params = self.retry(occasion, self.answers.clone());
        params["requestState"] = state.into();
        params
    }
}

/// Sends the request for the first time. `None` if it asks nothing.
fn first_round(ctx: &mut Context<'_>, occasion: &Occasion) -> Option<Asked> {
    let from = ctx.client.log().len();
    let answer = ctx.ask(RULES, occasion.method, Some(occasion.params.clone()));
    let Answer::Result(result) = answer else {
        return None;
    };
    let questions = input_requests(&result);
    if !is_interim(&result) || questions.is_empty() {
        return None;
    }
    let mut willing = ctx.willing();
    let mut answers = Map::new();
    for question in &questions {
        if let (Play::Result(answer), Some(key)) = (willing(question), question.id.as_str()) {
            answers.insert(key.to_owned(), answer);
        }
    }
    Some(Asked {
        result,
        answers,
        from,
    })
}

/// What a retry came to.
#[derive(Debug, PartialEq)]
enum Outcome {
    Complete,
    AsksAgain,
    Refused,
}

fn try_again(ctx: &mut Context<'_>, rule: &str, method: &str, params: Value) -> Option<Outcome> {
    match ctx.ask(&[rule], method, Some(params)) {
        Answer::Result(result) if is_interim(&result) => Some(Outcome::AsksAgain),
        Answer::Result(_) => Some(Outcome::Complete),
        Answer::Error { .. } => Some(Outcome::Refused),
        Answer::None => None,
    }
}

fn rounds(ctx: &mut Context<'_>, _: &Occasion) {
    let known = ctx.occasions(Does::ASKS);
    let first = known
        .iter()
        .find_map(|occasion| Some((occasion, first_round(ctx, occasion)?)));
    let Some((occasion, asked)) = first else {
        ctx.not_applicable(
            RULES,
            "No request was answered by a question to the client.",
        );
        return;
    };
    // The question is left as it is: everybody else is served.
    if ctx.client.barrier() {
        ctx.judge.holds(NO_WAITING);
    } else {
        ctx.doubtful = true;
        let evidence = ctx.evidence_from(asked.from);
        let text = "While a question to the client is open, the next request is not answered.";
        ctx.judge.broken(NO_WAITING, text, evidence);
        return;
    }
    if completes(ctx, &known) {
        missing_and_extra(ctx, occasion, &asked);
        validates(ctx, occasion, &asked);
        state_integrity(ctx, occasion, &asked);
        state_binding(ctx, &known, occasion, &asked);
    } else {
        for rule in [MISSING, EXTRA, VALIDATES, INTEGRITY, BINDING] {
            ctx.judge.blocked(rule, COMPLETES);
        }
    }
}

/// Each request comes to its end when its questions are answered.
fn completes(ctx: &mut Context<'_>, known: &[Occasion]) -> bool {
    let mut good = true;
    for occasion in known {
        let mut willing = ctx.willing();
        let course = ctx.converse(occasion, &mut willing);
        if course.asked.is_empty() {
            continue;
        }
        let fault = match &course.reply {
            Reply::Result { result, .. } if !is_interim(result) => {
                ctx.judge.holds(COMPLETES);
                continue;
            }
            // What the client cannot answer is another rule's fault.
            Reply::Result { .. } if course.asked.iter().any(is_no_question) => {
                good = false;
                ctx.judge.blocked(COMPLETES, "mrtr.input-request-kind");
                continue;
            }
            Reply::Result { .. } => "asks again and again, whatever is answered".to_owned(),
            Reply::Error { error, .. } => format!("gives an error for good answers: {error}"),
            Reply::Silence | Reply::Gone => {
                ctx.doubtful = true;
                "is not answered any more once its questions are".to_owned()
            }
        };
        good = false;
        let evidence = ctx.evidence_from(course.from);
        ctx.judge
            .broken(COMPLETES, format!("{occasion} {fault}."), evidence);
    }
    good
}

/// Whether it is of a method by which a client can be asked nothing.
fn is_no_question(question: &Question) -> bool {
    const KINDS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];
    !KINDS.contains(&question.method.as_str())
}

fn missing_and_extra(ctx: &mut Context<'_>, occasion: &Occasion, asked: &Asked) {
    let from = ctx.client.log().len();
    let params = asked.retry(occasion, Map::new());
    match try_again(ctx, MISSING, occasion.method, params) {
        Some(Outcome::AsksAgain) => ctx.judge.holds(MISSING),
        Some(Outcome::Complete) => ctx
            .judge
            .note(MISSING, format!("{occasion} goes on without the answer.")),
        Some(Outcome::Refused) => {
            let evidence = ctx.evidence_from(from);
            let text = "A retry without an answer gives an error; the question is to be put again.";
            ctx.judge.broken(MISSING, text, evidence);
        }
        None => return,
    }
    let from = ctx.client.log().len();
    let mut answers = asked.answers.clone();
    answers.insert(
        "touchstone-unasked".to_owned(),
        json!({"action": "decline"}),
    );
    let params = asked.retry(occasion, answers);
    match try_again(ctx, EXTRA, occasion.method, params) {
        Some(Outcome::Refused) => {
            let evidence = ctx.evidence_from(from);
            let text = "An answer that nobody asked for, beside the right one, gives an error.";
            ctx.judge.broken(EXTRA, text, evidence);
        }
        Some(_) => ctx.judge.holds(EXTRA),
        None => {}
    }
}

fn validates(ctx: &mut Context<'_>, occasion: &Occasion, asked: &Asked) {
    let mut whole = asked.retry(occasion, Map::new());
    whole["inputResponses"] = json!("touchstone");
    let broken: Map<String, Value> = asked
        .answers
        .keys()
        .map(|key| (key.clone(), json!(7)))
        .collect();
    let cases = [
        (whole, "`inputResponses` that is a string"),
        (asked.retry(occasion, broken), "an answer that is a number"),
    ];
    for (params, what) in cases {
        let from = ctx.client.log().len();
        match try_again(ctx, VALIDATES, occasion.method, params) {
            Some(Outcome::Complete) => {
                let evidence = ctx.evidence_from(from);
                let text = format!("{occasion} is completed with {what}.");
                ctx.judge.broken(VALIDATES, text, evidence);
            }
            Some(_) => ctx.judge.holds(VALIDATES),
            None => return,
        }
    }
}

/// A state with one character changed, and one cut short.
fn state_integrity(ctx: &mut Context<'_>, occasion: &Occasion, asked: &Asked) {
    let Some(state) = asked.state().filter(|state| !state.is_empty()) else {
        let why = "The server puts no `requestState` beside its questions.";
        ctx.not_applicable(&[INTEGRITY, BINDING], why);
        return;
    };
    let characters: Vec<char> = state.chars().collect();
    let middle = characters.len() / 2;
    let mut changed = characters.clone();
    changed[middle] = if changed[middle] == 'A' { 'B' } else { 'A' };
    let cases = [
        changed.into_iter().collect::<String>(),
        characters[..middle].iter().collect(),
    ];
    for state in cases {
        let from = ctx.client.log().len();
        let params = asked.with_state(occasion, &state);
        match try_again(ctx, INTEGRITY, occasion.method, params) {
            Some(Outcome::Complete) => {
                let evidence = ctx.evidence_from(from);
                let text = format!("{occasion} is completed with an altered `requestState`.");
                ctx.judge.broken(INTEGRITY, text, evidence);
            }
            Some(_) => ctx.judge.holds(INTEGRITY),
            None => return,
        }
    }
}

/// The state of one request comes back with another.
fn state_binding(ctx: &mut Context<'_>, known: &[Occasion], occasion: &Occasion, asked: &Asked) {
    let Some(state) = asked.state().filter(|state| !state.is_empty()) else {
        return;
    };
    let other = known.iter().find_map(|other| {
        let differs = other.method != occasion.method || other.params != occasion.params;
        Some((other, differs.then(|| first_round(ctx, other)).flatten()?))
    });
    let Some((other, its)) = other else {
        let why = "Only one request is known that asks the client; a second hint would help.";
        ctx.not_applicable(&[BINDING], why);
        return;
    };
    let from = ctx.client.log().len();
    let params = its.with_state(other, state);
    match try_again(ctx, BINDING, other.method, params) {
        Some(Outcome::Complete) => {
            let evidence = ctx.evidence_from(from);
            let text = format!("{other} is completed with the `requestState` of {occasion}.");
            ctx.judge.broken(BINDING, text, evidence);
        }
        Some(_) => ctx.judge.holds(BINDING),
        None => {}
    }
}

/// A client that can be asked nothing gets error -32021, if the answer cannot be done without.
fn capabilities(ctx: &mut Context<'_>, _: &Occasion) {
    const CODE: &str = "versioning.missing-capability.code";
    const DATA: &str = "versioning.missing-capability.data";
    const META: &str = "io.modelcontextprotocol/clientCapabilities";
    for occasion in ctx.occasions(Does::ASKS) {
        let from = ctx.client.log().len();
        let params = occasion.with("_meta", json!({ META: {} }));
        match ctx.ask(&[CODE, DATA, RESPECTED], occasion.method, Some(params)) {
            // Told by the observers.
            Answer::Result(result) if is_interim(&result) => {}
            Answer::Error {
                code: Some(-32021), ..
            } => ctx.judge.holds(RESPECTED),
            Answer::Result(_) => {
                ctx.judge.holds(RESPECTED);
                ctx.judge.note(
                    CODE,
                    format!("{occasion} does without the client's answer."),
                );
            }
            Answer::Error { error, .. } => {
                ctx.judge.holds(RESPECTED);
                let code = error.get("code").cloned().unwrap_or(Value::Null);
                let evidence = ctx.evidence_from(from);
                let text = format!(
                    "{occasion} needs a capability that the client does not declare, and gives \
                     error {code}; -32021 is expected."
                );
                ctx.judge.broken(CODE, text, evidence);
            }
            Answer::None => return,
        }
        // With one capability alone, nothing else is asked for.
        for alone in [
            json!({"roots": {}}),
            json!({"sampling": {}}),
            json!({"elicitation": {}}),
            json!({"elicitation": {"url": {}}}),
        ] {
            let params = occasion.with("_meta", json!({ META: alone }));
            if matches!(
                ctx.ask(&[RESPECTED], occasion.method, Some(params)),
                Answer::None
            ) {
                return;
            }
        }
    }
}

fn read_questions(exchange: &Exchange<'_>, judge: &mut Judge) {
    if exchange.revision.era() != Era::Stateless {
        return;
    }
    for put in questions(exchange) {
        let capability = match put.method {
            "elicitation/create" => "elicitation",
            "sampling/createMessage" => "sampling",
            "roots/list" => "roots",
            _ => continue,
        };
        if put.client.contains_key(capability) {
            judge.holds(RESPECTED);
        } else {
            let text = format!(
                "The result asks for `{}`, but the request does not declare `{capability}`.",
                put.method
            );
            judge.broken(RESPECTED, text, exchange.evidence(put.message));
        }
    }
    for message in &exchange.received {
        let Some(requests) = message.value.pointer("/result/inputRequests") else {
            continue;
        };
        let twice = match &exchange.log[message.at].event {
            Event::Received(line) => match &line.body {
                Body::Json(json) => json.duplicates.iter().find(|pointer| {
                    let parent = pointer.rsplit_once('/').map(|(parent, _)| parent);
                    parent.is_some_and(|parent| parent.ends_with("/result/inputRequests"))
                }),
                _ => None,
            },
            _ => None,
        };
        if let Some(twice) = twice {
            let text = format!("A key of `inputRequests` stands twice: `{twice}`.");
            judge.broken(KEYS, text, exchange.evidence(message));
        } else if requests.is_object() {
            judge.holds(KEYS);
        }
    }
}
