//! The protocol as a pure seam: a line in, lines and jobs out. No I/O, no threads, no clock that
//! matters.
//!
//! Five revisions live on one stream. A request that names its version in `_meta` stands alone
//! (2026-07-28); every other one belongs to the session that `initialize` opened. Each answer has
//! the shape of its own request's revision, never one that is inferred from the connection.

mod ask;
mod batch;
mod completion;
pub mod family;
mod handshake;
mod job;
mod level;
mod logging;
mod message;
mod methods;
mod notify;
mod pages;
mod prompts;
mod refusal;
mod request;
mod resources;
mod revision;
mod schema;
mod seal;
mod shape;
mod stateless;
mod subscriptions;
mod tasks;
mod tools;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub use ask::{Question, Stop};
pub use family::{
    Call, Cancellation, Change, Completed, Family, Found, Offers, Outcome, TaskSupport, Tool,
    Upstream,
};
pub use job::{Finished, Job, JobId};
pub use level::Level;
pub use notify::{Reply as AskReply, Report};
pub use refusal::Refusal;
pub(crate) use resources::is_uri;
pub use revision::Revision;

use batch::Batch;
use handshake::Session;
use job::{Answer, Work};
use message::{Id, Incoming};
use notify::Asked;
use request::Request;
use seal::Sealer;
use subscriptions::Listen;
use tasks::Tasks;
use tools::Listed;

/// Calls that may be open at once; more are refused, so that memory stays bounded.
const MAX_OPEN: usize = 10_000;

/// Bytes of requests that may be open at once, beside one that is larger by itself. Parsed, a
/// dense array of numbers takes fifty times its text.
const MAX_OPEN_BYTES: usize = 32 << 20;

/// What the server is told when it starts.
#[derive(Debug, Clone)]
pub struct Options {
    /// `serverInfo.name`.
    pub name: &'static str,
    /// `serverInfo.title`.
    pub title: &'static str,
    /// `serverInfo.version`.
    pub version: &'static str,
    /// Items on a page of a list; all on one without.
    pub page_size: Option<usize>,
    /// 32 random bytes, for seals and for ids that nobody should guess.
    pub secret: [u8; 32],
}

/// What is to be done after a line, or after a job said something.
pub enum Output {
    /// Write this line; it has no line break in it.
    Message(String),
    /// Run this job beside the loop and give its end to [`Server::finished`].
    Run(Box<Job>),
}

/// How a method goes on.
enum Reply {
    /// The result is here.
    Now(Answer),
    /// It takes a job.
    Job(Work),
    /// It takes a job that is a task, with the time to live that was asked for.
    Task(Work, Option<u64>),
    /// The result comes when something else is done.
    Later,
}

impl Reply {
    fn empty() -> Self {
        Reply::Now(Answer::Plain(Map::new()))
    }
}

/// A request whose job runs.
struct Open {
    id: Id,
    revision: Revision,
    batch: Option<u64>,
    token: Option<Value>,
    /// The last progress that was told.
    progress: f64,
    /// The lightest level that is logged.
    level: Option<Level>,
    cancellation: Cancellation,
    bytes: usize,
    /// Set when the request has been answered with a task already.
    task: Option<String>,
}

/// The server's whole state.
pub struct Server {
    options: Options,
    families: Vec<Arc<dyn Family>>,
    offers: Offers,
    tools: Vec<Arc<Listed>>,
    sealer: Arc<Sealer>,
    session: Option<Session>,
    open: HashMap<JobId, Open>,
    open_ids: HashMap<String, JobId>,
    open_bytes: usize,
    batches: HashMap<u64, Batch>,
    asked: HashMap<String, Asked>,
    listens: Vec<Listen>,
    tasks: Tasks,
    last_number: u64,
    /// Length of the line in hand.
    line_bytes: usize,
}

impl Server {
    /// A server with these families; their tools are listed in this order.
    pub fn new(options: Options, families: Vec<Arc<dyn Family>>) -> Self {
        let offers = families
            .iter()
            .map(|family| family.offers())
            .fold(Offers::default(), Offers::or);
        Self {
            offers,
            tools: Listed::all(&families),
            sealer: Arc::new(Sealer::new(options.secret)),
            tasks: Tasks::new(options.secret),
            families,
            options,
            session: None,
            open: HashMap::new(),
            open_ids: HashMap::new(),
            open_bytes: 0,
            batches: HashMap::new(),
            asked: HashMap::new(),
            listens: Vec::new(),
            last_number: 0,
            line_bytes: 0,
        }
    }

    /// Serves one line, without its line break. Any bytes will do.
    pub fn handle_line(&mut self, line: &[u8]) -> Vec<Output> {
        let mut out = Vec::new();
        self.line_bytes = line.len();
        match message::read_line(line) {
            Incoming::Batch(elements) => self.handle_batch(&elements, &mut out),
            message => self.handle_message(message, None, &mut out),
        }
        out
    }

    /// Refuses a line that is longer than the server reads.
    pub fn line_too_long(&mut self, limit: usize) -> Vec<Output> {
        let refusal = Refusal::invalid_request(format!(
            "Invalid request: the line is longer than {limit} bytes (--max-line)"
        ));
        vec![Output::Message(message::error_line(None, &refusal))]
    }

    /// Takes the end of a job. A request that was cancelled is not answered.
    pub fn finished(&mut self, job: JobId, finished: Finished) -> Vec<Output> {
        let mut out = Vec::new();
        let Some(open) = self.close(job) else {
            return out;
        };
        if let Some(task) = &open.task {
            self.task_finished(task, finished, &mut out);
            return out;
        }
        let line = match finished.0 {
            Ok(answer) => self.result_line(&open.id, answer, open.revision),
            Err(refusal) => message::error_line(Some(&open.id), &refusal),
        };
        self.respond(open.batch, line, &mut out);
        out
    }

    /// The client will say nothing more: ends subscriptions and questions to it.
    pub fn input_ended(&mut self) -> Vec<Output> {
        self.asked.clear(); // Dropping the replies wakes those who wait.
        let listens = std::mem::take(&mut self.listens);
        let lines = listens.iter().map(|listen| self.end_of_listen(listen));
        lines.map(Output::Message).collect()
    }

    /// Takes every open request back. Nothing is answered any more.
    pub fn cancel_all(&mut self) {
        self.asked.clear();
        self.open_ids.clear();
        for (_, open) in self.open.drain() {
            open.cancellation.cancel();
        }
    }

    /// Tells every family that the process ends.
    pub fn stop(&self) {
        for family in &self.families {
            family.stop();
        }
    }

    fn handle_message(
        &mut self,
        incoming: Incoming<'_>,
        batch: Option<u64>,
        out: &mut Vec<Output>,
    ) {
        match incoming {
            Incoming::Request { id, method, params } => {
                self.handle_request(id, &method, params, batch, out);
            }
            Incoming::Notification { method, params } => {
                self.handle_notification(&method, params, out);
            }
            Incoming::Response { id, answer } => {
                if let Some(id) = id {
                    self.answered(&id, answer);
                }
            }
            Incoming::Invalid { id, refusal } => {
                self.respond(batch, message::error_line(id.as_ref(), &refusal), out);
            }
            Incoming::Batch(_) | Incoming::Blank => {}
        }
    }

    fn handle_request(
        &mut self,
        id: Id,
        method: &str,
        params: Option<&RawValue>,
        batch: Option<u64>,
        out: &mut Vec<Output>,
    ) {
        if method == "ping" && params.is_none() {
            let line = message::result_line(&id, "{}");
            return self.respond(batch, line, out);
        }
        let key = id.key();
        let in_use =
            self.open_ids.contains_key(&key) || self.listens.iter().any(|listen| listen.key == key);
        let reply = if in_use {
            Err(Refusal::invalid_request(
                "Invalid request: a request with this id is still open",
            ))
        } else {
            self.request(&id, method, params, batch)
                .and_then(|request| {
                    let reply = self.dispatch(&request, out)?;
                    Ok((request, reply))
                })
        };
        let line = match reply {
            Err(refusal) => message::error_line(Some(&id), &refusal),
            Ok((_, Reply::Later)) => return,
            Ok((request, Reply::Now(answer))) => self.result_line(&id, answer, request.revision),
            Ok((request, Reply::Job(work))) => match self.start(&request, work, None) {
                Ok(job) => return out.push(job),
                Err(refusal) => message::error_line(Some(&id), &refusal),
            },
            Ok((request, Reply::Task(work, ttl))) => match self.start_task(&request, work, ttl) {
                Ok((line, job)) => {
                    self.respond(batch, line, out);
                    return out.push(job);
                }
                Err(refusal) => message::error_line(Some(&id), &refusal),
            },
        };
        self.respond(batch, line, out);
    }

    /// Notes the request as open and gives the job that serves it.
    fn start(
        &mut self,
        request: &Request,
        work: Work,
        task: Option<String>,
    ) -> Result<Output, Refusal> {
        let bytes = self.line_bytes;
        let too_much = self.open_bytes > 0 && self.open_bytes + bytes > MAX_OPEN_BYTES;
        if self.open.len() >= MAX_OPEN || too_much {
            return Err(Refusal::internal(
                "Too many requests are open: wait for answers before sending more",
            ));
        }
        let (purpose, input) = request.input(&self.sealer)?;
        let job = JobId(self.number());
        let cancellation = Cancellation::default();
        if task.is_none() {
            self.open_ids.insert(request.id.key(), job);
        }
        self.open_bytes += bytes;
        self.open.insert(
            job,
            Open {
                id: request.id.clone(),
                revision: request.revision,
                batch: request.batch,
                token: request.token.clone(),
                progress: f64::NEG_INFINITY,
                level: request.level,
                cancellation: cancellation.clone(),
                bytes,
                task,
            },
        );
        Ok(Output::Run(Box::new(Job {
            id: job,
            work,
            revision: request.revision,
            cancellation,
            input: Arc::new(input),
            sealer: self.sealer.clone(),
            purpose,
        })))
    }

    fn close(&mut self, job: JobId) -> Option<Open> {
        let open = self.open.remove(&job)?;
        self.open_ids.remove(&open.id.key());
        self.open_bytes -= open.bytes;
        Some(open)
    }

    /// Ends the open request of `job` without an answer.
    fn abandon(&mut self, job: JobId, out: &mut Vec<Output>) {
        let Some(open) = self.close(job) else {
            return;
        };
        self.withdraw_questions(job, "the request was cancelled", out);
        open.cancellation.cancel();
        if let Some(batch) = open.batch {
            self.batch_shrinks(batch, out);
        }
    }

    /// Writes an answer, alone or with the others of its batch.
    fn respond(&mut self, batch: Option<u64>, line: String, out: &mut Vec<Output>) {
        match batch {
            None => out.push(Output::Message(line)),
            Some(batch) => self.batch_answer(batch, line, out),
        }
    }

    fn result_line(&self, id: &Id, answer: Answer, revision: Revision) -> String {
        let members = match revision.is_stateless() {
            true => self.stateless_result(answer),
            false => answer.into_members(),
        };
        message::result_line(id, &Value::Object(members).to_string())
    }

    /// A number that was not used before.
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn server_info(&self, revision: Revision) -> Value {
        let mut info = Map::new();
        info.insert("name".into(), self.options.name.into());
        if revision >= Revision::V2025_06_18 {
            info.insert("title".into(), self.options.title.into());
        }
        info.insert("version".into(), self.options.version.into());
        Value::Object(info)
    }

    fn instructions(&self) -> Option<String> {
        let parts = self.families.iter().filter_map(|f| f.instructions());
        let text = parts.collect::<Vec<_>>().join("\n\n");
        (!text.is_empty()).then_some(text)
    }

    fn initialize_members(&self) -> Map<String, Value> {
        let members = self.families.iter().map(|f| f.initialize_members());
        members.flatten().collect()
    }
}

impl Answer {
    fn into_members(self) -> Map<String, Value> {
        match self {
            Answer::Plain(members) | Answer::InputRequired(members) => members,
            Answer::Cacheable(members, _) => members,
        }
    }

    fn members(&self) -> &Map<String, Value> {
        match self {
            Answer::Plain(members) | Answer::InputRequired(members) => members,
            Answer::Cacheable(members, _) => members,
        }
    }
}
