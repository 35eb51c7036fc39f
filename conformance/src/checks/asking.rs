//! A client that answers: what the server asks while it serves a request, in both eras. With a
//! handshake the questions are requests of the server; in the stateless protocol the result asks,
//! and the request is sent again with the answers.

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::Context;
use super::exchange::{Exchange, Kind, Received as Message, SentKind};
use crate::client::Reply;
use crate::property::example;
use crate::run::{Does, Occasion};
use crate::spec::Era;
use crate::wire::{Body, Event, Received};

/// More questions than this for one request are no conversation any more.
pub(super) const MOST_QUESTIONS: usize = 64;

/// Something that the server wants to know.
#[derive(Debug, Clone)]
pub(super) struct Question {
    /// The method.
    pub method: String,
    /// The params, or null.
    pub params: Value,
    /// The id of the request, or the key of the input request.
    pub id: Value,
}

impl Question {
    /// `form` or `url`, if it asks the person.
    pub(super) fn mode(&self) -> Option<&str> {
        (self.method == "elicitation/create").then(|| mode_of(&self.params))
    }
}

/// The mode of an elicitation.
pub(super) fn mode_of(params: &Value) -> &str {
    params.get("mode").and_then(Value::as_str).unwrap_or("form")
}

/// What a question is answered with.
#[derive(Debug, Clone)]
pub(super) enum Play {
    /// A result.
    Result(Value),
    /// An error of the client. There is none in the stateless protocol: the answer is left out.
    Error(i64),
}

/// How a request went.
#[derive(Debug)]
pub(super) struct Course {
    /// Where it began in the log.
    pub from: usize,
    /// What was asked, in order.
    pub asked: Vec<Question>,
    /// The last reply.
    pub reply: Reply,
    /// What questions came to that the server put as tasks.
    tasks: Vec<Value>,
}

impl Course {
    /// Whether that was asked.
    pub(super) fn asked_for(&self, method: &str) -> bool {
        self.asked.iter().any(|question| question.method == method)
    }
}

/// Whether a result asks for input.
pub(super) fn is_interim(result: &Value) -> bool {
    result.get("resultType").and_then(Value::as_str) == Some("input_required")
}

impl Context<'_> {
    /// What is known to do one of these.
    pub(super) fn occasions(&self, any: &[Does]) -> Vec<Occasion> {
        let fits = |occasion: &&Occasion| occasion.does_any(any);
        self.facts.occasions.iter().filter(fits).cloned().collect()
    }

    /// Sends the request of an occasion and plays the client until it is answered.
    pub(super) fn converse(
        &mut self,
        occasion: &Occasion,
        play: &mut dyn FnMut(&Question) -> Play,
    ) -> Course {
        match self.revision().era() {
            Era::Handshake => self.converse_by_requests(occasion, play),
            Era::Stateless => self.converse_by_retries(occasion, play),
        }
    }

    fn converse_by_requests(
        &mut self,
        occasion: &Occasion,
        play: &mut dyn FnMut(&Question) -> Play,
    ) -> Course {
        let id = self.client.fresh_id();
        let from = self.client.log().len();
        self.client.answer_none();
        self.client
            .post(id.clone(), occasion.method, Some(occasion.params.clone()));
        let mut course = Course {
            from,
            asked: Vec::new(),
            reply: Reply::Silence,
            tasks: Vec::new(),
        };
        let mut read = from;
        let mut until = self.client.deadline();
        loop {
            while let Some(question) = self.next_question(&mut read) {
                let answer = answer_of(&question, &mut course.tasks, play);
                self.answer_question(&question.id, answer);
                course.asked.push(question);
                until = self.client.deadline();
            }
            match self.client.reply(&id, Instant::now()) {
                Reply::Silence => {}
                reply => {
                    course.reply = reply;
                    break;
                }
            }
            if read < self.client.log().len() {
                continue;
            }
            if course.asked.len() > MOST_QUESTIONS || self.client.next(until) == Received::Timeout {
                break;
            }
        }
        self.client.answer_as_usual();
        course
    }

    /// The next request of the server in the log from there on.
    pub(super) fn next_question(&mut self, read: &mut usize) -> Option<Question> {
        while let Some(entry) = self.client.log().get(*read) {
            *read += 1;
            let Event::Received(line) = &entry.event else {
                continue;
            };
            let Body::Json(json) = &line.body else {
                continue;
            };
            let (method, id) = (json.value.get("method"), json.value.get("id"));
            if let (Some(Value::String(method)), Some(id)) = (method, id) {
                return Some(Question {
                    method: method.clone(),
                    params: json.value.get("params").cloned().unwrap_or(Value::Null),
                    id: id.clone(),
                });
            }
        }
        None
    }

    /// Answers a request of the server.
    pub(super) fn answer_question(&mut self, id: &Value, answer: Play) {
        let message = match answer {
            Play::Result(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Play::Error(code) => {
                let error = json!({"code": code, "message": "The client cannot do that"});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        self.client.send(format!("{message}\n").as_bytes());
    }

    fn converse_by_retries(
        &mut self,
        occasion: &Occasion,
        play: &mut dyn FnMut(&Question) -> Play,
    ) -> Course {
        let mut course = Course {
            from: self.client.log().len(),
            asked: Vec::new(),
            reply: Reply::Silence,
            tasks: Vec::new(),
        };
        let mut params = occasion.params.clone();
        for _ in 0..=MOST_QUESTIONS {
            course.reply = self.client.request(occasion.method, Some(params));
            let Reply::Result { result, .. } = &course.reply else {
                return course;
            };
            if !is_interim(result) || course.asked.len() > MOST_QUESTIONS {
                return course;
            }
            let questions = input_requests(result);
            let mut answers = Map::new();
            for question in &questions {
                if let (Play::Result(answer), Some(key)) = (play(question), question.id.as_str()) {
                    answers.insert(key.to_owned(), answer);
                }
            }
            let stuck = answers.is_empty() && !questions.is_empty();
            course.asked.extend(questions);
            if stuck {
                return course;
            }
            params = retry(occasion, result, answers);
        }
        course
    }

    /// The answer that a well-disposed client gives: yes to everything.
    pub(super) fn willing(&mut self) -> impl FnMut(&Question) -> Play + use<> {
        let root = format!("file://{}", self.client.child().folder().display());
        move |question| match question.method.as_str() {
            "roots/list" => Play::Result(json!({"roots": [{"uri": root, "name": "work"}]})),
            "sampling/createMessage" => Play::Result(sample("An answer from touchstone.")),
            "elicitation/create" => Play::Result(accept(&question.params)),
            _ => Play::Error(-32601),
        }
    }

    /// The request must have been answered, whatever with. If not, `rule` is broken.
    pub(super) fn must_be_answered(&mut self, rule: &str, course: &Course, when: &str) -> bool {
        let answered = matches!(course.reply, Reply::Result { .. } | Reply::Error { .. });
        if answered {
            self.judge.holds(rule);
        } else {
            self.doubtful = true;
            let evidence = self.evidence_from(course.from);
            let text = format!("{when}, the request that led to the question is not answered.");
            self.judge.broken(rule, text, evidence);
        }
        answered
    }
}

/// The answer to a request of the server. One that is put as a task is answered with a ticket;
/// the task is done when the server looks.
fn answer_of(
    question: &Question,
    tasks: &mut Vec<Value>,
    play: &mut dyn FnMut(&Question) -> Play,
) -> Play {
    let known = |tasks: &[Value]| {
        let id = question.params.get("taskId")?.as_str()?;
        let number: usize = id.strip_prefix(TASK)?.parse().ok()?;
        Some((number, tasks.get(number)?.clone()))
    };
    match question.method.as_str() {
        "ping" => Play::Result(json!({})),
        "tasks/get" | "tasks/cancel" | "tasks/result" => match known(tasks) {
            Some((_, mut result)) if question.method == "tasks/result" => {
                let related = json!({"taskId": question.params["taskId"]});
                result["_meta"] = json!({"io.modelcontextprotocol/related-task": related});
                Play::Result(result)
            }
            Some((number, _)) if question.method == "tasks/get" => {
                Play::Result(task(number, "completed"))
            }
            _ => Play::Error(-32602),
        },
        _ => match play(question) {
            Play::Result(result) if question.params.get("task").is_some() => {
                tasks.push(result);
                Play::Result(json!({"task": task(tasks.len() - 1, "working")}))
            }
            answer => answer,
        },
    }
}

const TASK: &str = "touchstone-task-";

/// A task of the client.
pub(super) fn task(number: usize, status: &str) -> Value {
    json!({
        "taskId": format!("{TASK}{number}"),
        "status": status,
        "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z",
        "ttl": 60_000,
        "pollInterval": 50,
    })
}

/// The questions in a result that asks for input.
pub(super) fn input_requests(result: &Value) -> Vec<Question> {
    let requests = result.get("inputRequests").and_then(Value::as_object);
    requests
        .into_iter()
        .flatten()
        .map(|(key, request)| Question {
            method: request["method"].as_str().unwrap_or_default().to_owned(),
            params: request["params"].clone(),
            id: key.as_str().into(),
        })
        .collect()
}

/// The params of the request that is sent again, with answers and the state of the server.
pub(super) fn retry(occasion: &Occasion, result: &Value, answers: Map<String, Value>) -> Value {
    let mut params = occasion.with("inputResponses", answers.into());
    if let (Some(state), Some(members)) = (result.get("requestState"), params.as_object_mut()) {
        members.insert("requestState".to_owned(), state.clone());
    }
    params
}

/// A sample of a model that says this.
pub(super) fn sample(text: &str) -> Value {
    json!({
        "role": "assistant",
        "content": {"type": "text", "text": text},
        "model": "touchstone",
        "stopReason": "endTurn",
    })
}

/// The person agrees; a form gets content that fits it.
pub(super) fn accept(params: &Value) -> Value {
    match mode_of(params) {
        "form" => {
            let form = json!({"inputSchema": params.get("requestedSchema")});
            let content = example::arguments(&form).unwrap_or_default();
            json!({"action": "accept", "content": content})
        }
        _ => json!({"action": "accept"}),
    }
}

/// A question as it was put, whoever put it and when.
pub(super) struct Put<'a, 'b> {
    /// The message that asks.
    pub message: &'b Message<'a>,
    /// The method.
    pub method: &'a str,
    /// The params, or null.
    pub params: &'a Value,
    /// What the client had declared.
    pub client: &'b Map<String, Value>,
}

/// All questions of a conversation.
pub(super) fn questions<'a, 'b>(exchange: &'b Exchange<'a>) -> Vec<Put<'a, 'b>> {
    const META: &str = "/_meta/io.modelcontextprotocol~1clientCapabilities";
    static NONE: Value = Value::Null;
    let mut all = Vec::new();
    for message in &exchange.received {
        match (exchange.revision.era(), message.kind) {
            (Era::Handshake, Kind::Request(method)) => all.push(Put {
                message,
                method,
                params: message.value.get("params").unwrap_or(&NONE),
                client: &exchange.client,
            }),
            (
                Era::Stateless,
                Kind::Response {
                    request: Some(index),
                },
            ) => {
                let SentKind::Request { params, .. } = &exchange.sent[index].kind else {
                    continue;
                };
                let requests = message.value.pointer("/result/inputRequests");
                let Some(client) = params.pointer(META).and_then(Value::as_object) else {
                    continue;
                };
                for request in requests.and_then(Value::as_object).into_iter().flatten() {
                    all.push(Put {
                        message,
                        method: request.1["method"].as_str().unwrap_or_default(),
                        params: &request.1["params"],
                        client,
                    });
                }
            }
            _ => {}
        }
    }
    all
}
