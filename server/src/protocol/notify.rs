//! What passes between the client and a running job besides its answer: progress, logs, changes,
//! cancellation, and questions to the client.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::ask::Question;
use super::family::Change;
use super::job::JobId;
use super::level::Level;
use super::message::{self, Id, read_params};
use super::revision::Revision;
use super::tools::Listed;
use super::{Open, Output, Server};

pub(super) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
pub(super) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Takes the client's answer to a question. Dropped when there will be none.
pub type Reply = Box<dyn FnOnce(Result<Value, String>) + Send>;

/// What a running job has to say.
pub enum Report {
    /// How far it is.
    Progress {
        /// Rises with every report.
        progress: f64,
        /// Where it ends, if that is known.
        total: Option<f64>,
        /// For people.
        message: String,
    },
    /// A log message.
    Log {
        /// How grave it is.
        level: Level,
        /// Which part of the server speaks.
        logger: String,
        /// What it says.
        data: Value,
    },
    /// A list or a resource changed.
    Changed(Change),
    /// A question to the client of the job.
    Ask {
        /// The question.
        question: Question,
        /// Where the answer goes.
        reply: Reply,
    },
    /// The job does not wait for its question any longer.
    GiveUp,
}

/// A question that is out.
pub(super) struct Asked {
    id: Id,
    job: JobId,
    reply: Reply,
}

impl Server {
    /// Takes what a job says while it runs.
    pub fn report(&mut self, job: JobId, report: Report) -> Vec<Output> {
        let mut out = Vec::new();
        match report {
            Report::Progress {
                progress,
                total,
                message,
            } => self.progress(job, progress, total, &message, &mut out),
            Report::Log {
                level,
                logger,
                data,
            } => self.log(job, level, &logger, data, &mut out),
            Report::Changed(change) => self.changed(&change, &mut out),
            Report::Ask { question, reply } => self.ask(job, &question, reply, &mut out),
            Report::GiveUp => self.withdraw_questions(job, "no answer in time", &mut out),
        }
        out
    }

    pub(super) fn handle_notification(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        out: &mut Vec<Output>,
    ) {
        // A notification that cannot be read is ignored like an unknown one.
        let Ok(params) = read_params(params) else {
            return;
        };
        match method {
            "notifications/initialized" => {
                if let Some(session) = &mut self.session {
                    session.initialized = true;
                }
            }
            "notifications/cancelled" => {
                if let Some(id) = params.get("requestId").and_then(Id::from_value) {
                    self.cancelled(&id.key(), out);
                }
            }
            _ => {}
        }
    }

    fn cancelled(&mut self, key: &str, out: &mut Vec<Output>) {
        if let Some(job) = self.open_ids.get(key).copied() {
            self.abandon(job, out);
        }
        self.listens.retain(|listen| listen.key != key);
        self.stop_waiting(key, out);
    }

    fn progress(
        &mut self,
        job: JobId,
        progress: f64,
        total: Option<f64>,
        message: &str,
        out: &mut Vec<Output>,
    ) {
        let Some(open) = self.open.get_mut(&job) else {
            return;
        };
        let (Some(token), true) = (&open.token, progress > open.progress) else {
            return;
        };
        let Some(value) = number(progress) else {
            return;
        };
        open.progress = progress;
        let mut params = Map::new();
        params.insert("progressToken".into(), token.clone());
        params.insert("progress".into(), value);
        if let Some(total) = total.and_then(number) {
            params.insert("total".into(), total);
        }
        if open.revision >= Revision::V2025_03_26 && !message.is_empty() {
            params.insert("message".into(), message.into());
        }
        relate(&mut params, open);
        notify("notifications/progress", params, out);
    }

    fn log(&mut self, job: JobId, level: Level, logger: &str, data: Value, out: &mut Vec<Output>) {
        let Some(open) = self.open.get(&job).filter(|_| self.offers.logging) else {
            return;
        };
        let wanted = match (&self.session, open.revision.is_stateless()) {
            (_, true) => open.level,
            (session, false) => session.as_ref().map(|session| session.level),
        };
        if wanted.is_none_or(|wanted| level < wanted) {
            return;
        }
        let mut params = Map::new();
        params.insert("level".into(), level.as_str().into());
        params.insert("logger".into(), logger.into());
        params.insert("data".into(), data);
        relate(&mut params, open);
        notify("notifications/message", params, out);
    }

    /// Tells a change to the session, if there is one, and to the subscriptions that asked.
    fn changed(&mut self, change: &Change, out: &mut Vec<Output>) {
        let (method, offered) = match change {
            Change::Tools => {
                self.tools = Listed::all(&self.families);
                ("tools/list_changed", self.offers.tools_change)
            }
            Change::Prompts => ("prompts/list_changed", self.offers.prompts_change),
            Change::Resources => ("resources/list_changed", self.offers.resources_change),
            Change::Resource(_) => ("resources/updated", self.offers.resource_updates),
        };
        if !offered {
            return;
        }
        let method = format!("notifications/{method}");
        let mut params = Map::new();
        if let Change::Resource(uri) = change {
            params.insert("uri".into(), uri.clone().into());
        }
        let in_session = self.session.as_ref().is_some_and(|session| {
            session.initialized
                && match change {
                    Change::Resource(uri) => session.subscribed.contains(uri),
                    _ => true,
                }
        });
        if in_session {
            notify(&method, params.clone(), out);
        }
        for listen in self.listens.iter().filter(|listen| listen.wants(change)) {
            let mut tagged = Map::new();
            tagged.insert(
                "_meta".into(),
                json!({ SUBSCRIPTION_ID: listen.id.to_value() }),
            );
            tagged.extend(params.clone());
            notify(&method, tagged, out);
        }
    }

    /// Asks the client of the session. Nothing is asked on behalf of a stateless request: there
    /// the question is the result.
    fn ask(&mut self, job: JobId, question: &Question, reply: Reply, out: &mut Vec<Output>) {
        let number = self.number();
        let Some(open) = self.open.get(&job).filter(|o| !o.revision.is_stateless()) else {
            return reply(Err("the request is not open any more".to_owned()));
        };
        if !self.session.as_ref().is_some_and(|s| s.initialized) {
            let problem = "the client has not sent notifications/initialized yet";
            return reply(Err(problem.to_owned()));
        }
        let unique = self.tasks.secret_name("elicitation", number);
        let mut params = question.params(open.revision, &unique);
        let task = open.task.clone();
        if let Some(task) = &task {
            let params = params.get_or_insert_with(|| json!({}));
            params["_meta"] = json!({ RELATED_TASK: {"taskId": task} });
            self.tasks.waits_for_input(task, true);
        }
        let id = Id::number(number);
        let line = message::request_line(&id, question.method(), params.as_ref());
        out.push(Output::Message(line));
        self.asked.insert(id.key(), Asked { id, job, reply });
    }

    /// Takes the answer to a question. One to nothing, or too late, is ignored.
    pub(super) fn answered(&mut self, id: &Id, answer: Result<&RawValue, &RawValue>) {
        let Some(asked) = self.asked.remove(&id.key()) else {
            return;
        };
        if let Some(task) = self.open.get(&asked.job).and_then(|o| o.task.clone()) {
            self.tasks.waits_for_input(&task, false);
        }
        let parse = |raw: &RawValue| serde_json::from_str::<Value>(raw.get());
        (asked.reply)(match answer {
            Ok(result) => parse(result).map_err(|e| format!("the answer cannot be read: {e}")),
            Err(error) => {
                let error = parse(error).unwrap_or_default();
                let message = error.get("message").and_then(Value::as_str);
                let message = message.unwrap_or("without a message");
                Err(format!("the client answered with an error: {message}"))
            }
        });
    }

    /// Takes the questions of a job back.
    pub(super) fn withdraw_questions(&mut self, job: JobId, why: &str, out: &mut Vec<Output>) {
        for (_, asked) in self.asked.extract_if(|_, asked| asked.job == job) {
            let mut params = Map::new();
            params.insert("requestId".into(), asked.id.to_value());
            params.insert("reason".into(), why.into());
            notify("notifications/cancelled", params, out);
            (asked.reply)(Err(why.to_owned()));
        }
        if let Some(task) = self.open.get(&job).and_then(|open| open.task.clone()) {
            self.tasks.waits_for_input(&task, false);
        }
    }
}

/// What belongs to a task says so.
fn relate(params: &mut Map<String, Value>, open: &Open) {
    if let Some(task) = &open.task {
        params.insert("_meta".into(), json!({ RELATED_TASK: {"taskId": task} }));
    }
}

pub(super) fn notify(method: &str, params: Map<String, Value>, out: &mut Vec<Output>) {
    let params = (!params.is_empty()).then_some(Value::Object(params));
    let line = message::notification_line(method, params.as_ref());
    out.push(Output::Message(line));
}

/// Whole numbers without a fraction; nothing for what JSON cannot say.
fn number(value: f64) -> Option<Value> {
    let whole = value.fract() == 0.0 && value.abs() < 9e15;
    match whole {
        true => Some(Value::from(value as i64)),
        false => serde_json::Number::from_f64(value).map(Value::Number),
    }
}
