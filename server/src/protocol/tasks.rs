//! Tasks (2025-11-25): a call that is answered at once with a ticket for its result.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::family::TaskSupport;
use super::job::{Answer, Finished, JobId, Work};
use super::message::{self, Id};
use super::notify::RELATED_TASK;
use super::pages::{self, cursor};
use super::refusal::Refusal;
use super::request::Request;
use super::revision::Revision;
use super::tools::{Listed, task_mismatch};
use super::{Output, Reply, Server};

/// How long a result is kept when the client does not say.
const DEFAULT_TTL: Duration = Duration::from_secs(10 * 60);
/// The longest time that a client may ask for.
const MAX_TTL: Duration = Duration::from_secs(60 * 60);
/// Tasks kept at once, done or not.
const MAX_TASKS: usize = 1_000;
/// Requests that may wait for the result of one task.
const MAX_WAITING: usize = 100;
/// How often a client should look.
const POLL_MS: u64 = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Status::Working => "working",
            Status::InputRequired => "input_required",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    fn is_final(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }
}

struct Task {
    id: String,
    job: JobId,
    status: Status,
    created: SystemTime,
    updated: SystemTime,
    ttl: Duration,
    end: Option<Finished>,
    /// Requests for the result that came before it was there.
    waiting: Vec<Waiting>,
}

struct Waiting {
    id: Id,
    batch: Option<u64>,
}

impl Task {
    fn to_json(&self) -> Map<String, Value> {
        let mut task = Map::new();
        task.insert("taskId".into(), self.id.clone().into());
        task.insert("status".into(), self.status.as_str().into());
        task.insert("createdAt".into(), timestamp(self.created).into());
        task.insert("lastUpdatedAt".into(), timestamp(self.updated).into());
        task.insert("ttl".into(), (self.ttl.as_millis() as u64).into());
        task.insert("pollInterval".into(), POLL_MS.into());
        task
    }

    fn turn(&mut self, status: Status) {
        if !self.status.is_final() && self.status != status {
            self.status = status;
            self.updated = SystemTime::now();
        }
    }

    /// The line that answers a request for the result.
    fn result_line(&self, id: &Id) -> String {
        match &self.end {
            Some(Finished(Ok(answer))) => {
                let mut members = answer.members().clone();
                members.insert("_meta".into(), json!({ RELATED_TASK: {"taskId": self.id} }));
                message::result_line(id, &Value::Object(members).to_string())
            }
            Some(Finished(Err(refusal))) => message::error_line(Some(id), refusal),
            None => {
                let refusal = Refusal::internal("The task was cancelled: it has no result");
                message::error_line(Some(id), &refusal)
            }
        }
    }
}

/// The tasks that are remembered, oldest first.
pub(super) struct Tasks {
    secret: [u8; 32],
    all: Vec<Task>,
}

impl Tasks {
    pub(super) fn new(secret: [u8; 32]) -> Self {
        let all = Vec::new();
        Self { secret, all }
    }

    /// A name that nobody can guess who does not know the secret of this process.
    pub(super) fn secret_name(&self, kind: &str, number: u64) -> String {
        let digest = Sha256::new()
            .chain_update(self.secret)
            .chain_update(kind)
            .chain_update(number.to_be_bytes())
            .finalize();
        digest[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    pub(super) fn waits_for_input(&mut self, id: &str, waits: bool) {
        if let Some(task) = self.all.iter_mut().find(|task| task.id == id) {
            task.turn(match waits {
                true => Status::InputRequired,
                false => Status::Working,
            });
        }
    }

    fn find(&mut self, request: &Request) -> Result<&mut Task, Refusal> {
        let id = request.string("taskId")?;
        self.forget_expired();
        let task = self.all.iter_mut().find(|task| task.id == id);
        task.ok_or_else(|| Refusal::invalid_params("Unknown task: it never was, or its time is up"))
    }

    fn forget_expired(&mut self) {
        self.all.retain(|task| {
            let age = task.created.elapsed().unwrap_or_default();
            age < task.ttl || !task.status.is_final()
        });
    }

    /// Makes room for one more by forgetting the oldest that is done.
    fn make_room(&mut self) -> Result<(), Refusal> {
        self.forget_expired();
        if self.all.len() < MAX_TASKS {
            return Ok(());
        }
        let oldest = self.all.iter().position(|task| task.status.is_final());
        let oldest = oldest.ok_or_else(|| Refusal::internal("Too many tasks are running"))?;
        self.all.remove(oldest);
        Ok(())
    }
}

impl Server {
    /// Whether any tool may run as a task.
    pub(super) fn takes_tasks(&self) -> bool {
        let supports = |tool: &std::sync::Arc<Listed>| tool.task_support != TaskSupport::Forbidden;
        self.tools.iter().any(supports)
    }

    /// Whether this call is to be a task, and the time to live asked for.
    ///
    /// Where tasks are not declared, in another revision or without a tool that takes them, the
    /// member `task` means nothing.
    pub(super) fn wants_task(
        &self,
        request: &Request,
        tool: &Listed,
    ) -> Result<Option<Option<u64>>, Refusal> {
        if request.revision != Revision::V2025_11_25 || !self.takes_tasks() {
            return Ok(None);
        }
        let Some(task) = request.params.get("task") else {
            return match tool.task_support {
                TaskSupport::Required => Err(task_mismatch(tool)),
                _ => Ok(None),
            };
        };
        let Value::Object(task) = task else {
            return Err(Refusal::invalid_params("\"task\" must be an object"));
        };
        if tool.task_support == TaskSupport::Forbidden {
            return Err(task_mismatch(tool));
        }
        match task.get("ttl") {
            None => Ok(Some(None)),
            Some(ttl) => match ttl.as_f64().filter(|ttl| *ttl >= 0.0) {
                Some(ttl) => Ok(Some(Some(ttl as u64))),
                None => Err(Refusal::invalid_params(
                    "\"task.ttl\" must be a number of milliseconds",
                )),
            },
        }
    }

    /// Starts a task: the answer with its ticket, and its job.
    pub(super) fn start_task(
        &mut self,
        request: &Request,
        work: Work,
        ttl: Option<u64>,
    ) -> Result<(String, Output), Refusal> {
        self.tasks.make_room()?;
        let number = self.number();
        let id = self.tasks.secret_name("task", number);
        let output = self.start(request, work, Some(id.clone()))?;
        let Output::Run(job) = &output else {
            return Err(Refusal::internal("The task did not start"));
        };
        let now = SystemTime::now();
        let task = Task {
            id,
            job: job.id(),
            status: Status::Working,
            created: now,
            updated: now,
            ttl: ttl.map_or(DEFAULT_TTL, Duration::from_millis).min(MAX_TTL),
            end: None,
            waiting: Vec::new(),
        };
        let result = json!({"task": task.to_json()});
        self.tasks.all.push(task);
        Ok((
            message::result_line(&request.id, &result.to_string()),
            output,
        ))
    }

    /// Keeps the end of a task and answers who waits for it.
    pub(super) fn task_finished(&mut self, id: &str, end: Finished, out: &mut Vec<Output>) {
        let Some(task) = self.tasks.all.iter_mut().find(|task| task.id == id) else {
            return;
        };
        let failed = match &end {
            Finished(Err(_)) => true,
            Finished(Ok(answer)) => answer.members().get("isError") == Some(&Value::Bool(true)),
        };
        task.turn(match failed {
            true => Status::Failed,
            false => Status::Completed,
        });
        task.end = Some(end);
        let waiting = std::mem::take(&mut task.waiting);
        let lines = waiting.iter().map(|waiting| task.result_line(&waiting.id));
        let lines = lines.collect::<Vec<_>>();
        for (waiting, line) in waiting.into_iter().zip(lines) {
            self.respond(waiting.batch, line, out);
        }
    }

    /// A request for a result was cancelled; the task itself goes on.
    pub(super) fn stop_waiting(&mut self, key: &str, out: &mut Vec<Output>) {
        let mut batches = Vec::new();
        for task in &mut self.tasks.all {
            task.waiting.retain(|waiting| {
                let gone = waiting.id.key() == key;
                batches.extend(waiting.batch.filter(|_| gone));
                !gone
            });
        }
        for batch in batches {
            self.batch_shrinks(batch, out);
        }
    }
}

/// `tasks/get`.
pub(super) fn get(server: &mut Server, request: &Request) -> Result<Reply, Refusal> {
    let task = server.tasks.find(request)?;
    Ok(Reply::Now(Answer::Plain(task.to_json())))
}

/// `tasks/result`: waits until the task is done, then answers as the call would have.
pub(super) fn result(
    server: &mut Server,
    request: &Request,
    out: &mut Vec<Output>,
) -> Result<Reply, Refusal> {
    let task = server.tasks.find(request)?;
    if task.status.is_final() {
        let line = task.result_line(&request.id);
        server.respond(request.batch, line, out);
    } else if task.waiting.len() >= MAX_WAITING {
        return Err(Refusal::internal("Too many requests wait for this task"));
    } else {
        task.waiting.push(Waiting {
            id: request.id.clone(),
            batch: request.batch,
        });
    }
    Ok(Reply::Later)
}

/// `tasks/list`.
pub(super) fn list(server: &mut Server, request: &Request) -> Result<Reply, Refusal> {
    server.tasks.forget_expired();
    let all = server
        .tasks
        .all
        .iter()
        .map(|task| Value::Object(task.to_json()));
    let all = all.collect::<Vec<_>>();
    let page = pages::TASKS.page(&all, cursor(&request.params)?, server.options.page_size)?;
    Ok(Reply::Now(Answer::Plain(page)))
}

/// `tasks/cancel`.
pub(super) fn cancel(
    server: &mut Server,
    request: &Request,
    out: &mut Vec<Output>,
) -> Result<Reply, Refusal> {
    let task = server.tasks.find(request)?;
    if task.status.is_final() {
        return Err(Refusal::invalid_params(format!(
            "The task is {} already",
            task.status.as_str()
        )));
    }
    task.turn(Status::Cancelled);
    let answer = task.to_json();
    let waiting = std::mem::take(&mut task.waiting);
    let lines = waiting.iter().map(|waiting| task.result_line(&waiting.id));
    let lines = lines.collect::<Vec<_>>();
    let job = task.job;
    server.abandon(job, out);
    for (waiting, line) in waiting.into_iter().zip(lines) {
        server.respond(waiting.batch, line, out);
    }
    Ok(Reply::Now(Answer::Plain(answer)))
}

/// RFC 3339 in UTC, to the millisecond.
fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}
