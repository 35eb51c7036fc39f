//! What a family of tools is to the protocol: it names its tools and answers calls.
//!
//! The protocol knows no tool; a family knows no wire. A call runs on a thread of its own, so it
//! may block; it looks at [`Call::cancelled`] or registers what must be killed on cancellation
//! with [`Call::on_cancel`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::ask::{Input, Question, Stop};
use super::level::Level;

/// One tool as `tools/list` shows it, before the protocol trims it to a revision.
#[derive(Debug, Clone)]
pub struct Tool {
    /// The name that `tools/call` uses.
    pub name: &'static str,
    /// A short name for people.
    pub title: &'static str,
    /// What it does and how to use it, for a model.
    pub description: String,
    /// JSON Schema of the arguments; its root has `"type": "object"`.
    pub input_schema: Value,
    /// JSON Schema of the structured result, if there is one; root `"type": "object"`.
    pub output_schema: Option<Value>,
    /// The four hints (`readOnlyHint`, …) as an object.
    pub annotations: Value,
}

/// What a call gave.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// A result of the tool, failures of its own included (`is_error`).
    Done {
        /// Content blocks in the newest shape; the protocol trims them to the revision.
        content: Vec<Value>,
        /// `structuredContent`, if the tool has an output schema.
        structured: Option<Value>,
        /// The tool's own failure, for the model to read.
        is_error: bool,
    },
    /// The arguments do not fit: a JSON-RPC error with code -32602.
    InvalidParams(String),
    /// The server could not do its part: a JSON-RPC error with code -32603.
    Internal(String),
    /// The call stopped because of the client: [`Call::ask`] says why. Return it as it is.
    Stopped(Stop),
}

impl Outcome {
    /// A result that is one block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Outcome::Done {
            content: vec![json!({"type": "text", "text": text.into()})],
            structured: None,
            is_error: false,
        }
    }

    /// A failure of the tool, told to the model.
    pub fn failure(text: impl Into<String>) -> Self {
        Outcome::Done {
            content: vec![json!({"type": "text", "text": text.into()})],
            structured: None,
            is_error: true,
        }
    }
}

impl From<Stop> for Outcome {
    fn from(stop: Stop) -> Self {
        Outcome::Stopped(stop)
    }
}

/// A list or a resource that is no longer what the client saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The tools on offer.
    Tools,
    /// The prompts on offer.
    Prompts,
    /// The resources on offer.
    Resources,
    /// The content of the resource with this URI.
    Resource(String),
}

/// The way from a running call to the client. The protocol's side of [`Call`].
pub trait Upstream: Send + Sync {
    /// Progress: value, total, message.
    fn progress(&self, progress: f64, total: Option<f64>, message: &str);

    /// A log message of the call.
    fn log(&self, _level: Level, _logger: &str, _data: Value) {}

    /// Something changed.
    fn changed(&self, _change: Change) {}

    /// Asks the client and waits. Errors are for the model to read.
    fn ask(&self, _question: &Question, _cancelled: &dyn Fn() -> bool) -> Result<Value, String> {
        Err("this client cannot be asked".to_owned())
    }
}

/// A receiver of progress: value, total, message.
pub type ProgressSink = dyn Fn(f64, Option<f64>, &str) + Send + Sync;

struct OnlyProgress(Arc<ProgressSink>);

impl Upstream for OnlyProgress {
    fn progress(&self, progress: f64, total: Option<f64>, message: &str) {
        (self.0)(progress, total, message);
    }
}

type Hook = Box<dyn FnOnce() + Send>;

/// Turns true once, and runs what was registered for that moment.
#[derive(Clone, Default)]
pub struct Cancellation {
    flag: Arc<AtomicBool>,
    hooks: Arc<Mutex<Vec<Hook>>>,
}

impl Cancellation {
    /// Cancels; the hooks run on this thread.
    pub fn cancel(&self) {
        let hooks = {
            let mut hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
            self.flag.store(true, Ordering::Relaxed);
            std::mem::take(&mut *hooks)
        };
        for hook in hooks {
            hook();
        }
    }

    fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    fn on_cancel(&self, hook: Hook) {
        let mut hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_set() {
            drop(hooks);
            hook();
        } else {
            hooks.push(hook);
        }
    }
}

/// What a running call may ask of the protocol. Cheap to clone.
#[derive(Clone)]
pub struct Call {
    cancellation: Cancellation,
    upstream: Arc<dyn Upstream>,
    input: Arc<Input>,
}

impl Call {
    /// A call with a flag that turns true on cancellation and a receiver of progress.
    pub fn new(cancelled: Arc<AtomicBool>, progress: Arc<ProgressSink>) -> Self {
        let cancellation = Cancellation {
            flag: cancelled,
            hooks: Arc::default(),
        };
        let upstream = Arc::new(OnlyProgress(progress));
        Self::with(cancellation, upstream, Arc::default())
    }

    /// A call as the protocol makes it.
    pub(super) fn with(
        cancellation: Cancellation,
        upstream: Arc<dyn Upstream>,
        input: Arc<Input>,
    ) -> Self {
        Self {
            cancellation,
            upstream,
            input,
        }
    }

    /// Whether the client took the request back, or the server is stopping.
    pub fn cancelled(&self) -> bool {
        self.cancellation.is_set()
    }

    /// Runs `hook` when the call is cancelled, at once if it already is. The hook must be quick:
    /// it kills a process or wakes a thread.
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        self.cancellation.on_cancel(Box::new(hook));
    }

    /// Tells the client how far the work is (`progress`, `total`, message), if it gave a token.
    /// Values must rise.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: &str) {
        self.upstream.progress(progress, total, message);
    }

    /// Sends a log message, if the client wants its level. Only for families whose
    /// [`Offers::logging`] is set.
    pub fn log(&self, level: Level, logger: &str, data: impl Into<Value>) {
        self.upstream.log(level, logger, data.into());
    }

    /// Says that a list or a resource changed, so that clients who care are told.
    pub fn changed(&self, change: Change) {
        self.upstream.changed(change);
    }

    /// Asks the person or the model behind the client. `key` names the question within the call.
    ///
    /// With a handshake this waits for the answer. In the stateless protocol the call ends with
    /// [`Stop::NeedsInput`] and starts again from the top once the client has answered, so
    /// nothing may happen before the last question that must not happen twice.
    ///
    /// # Errors
    /// A [`Stop`], to be returned as `Outcome::from(stop)`.
    pub fn ask(&self, key: &str, question: Question) -> Result<Value, Stop> {
        self.input
            .ask(key, question, &*self.upstream, &|| self.cancelled())
    }
}

/// Whether a tool may run as a task (2025-11-25).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskSupport {
    /// Only as a plain call.
    #[default]
    Forbidden,
    /// Either way.
    Optional,
    /// Only as a task.
    Required,
}

/// What a family has besides tools, and which of its lists may change while the server runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offers {
    /// The tools may change.
    pub tools_change: bool,
    /// There are resources or templates.
    pub resources: bool,
    /// The list of resources may change.
    pub resources_change: bool,
    /// A resource may change, and says so.
    pub resource_updates: bool,
    /// There are prompts.
    pub prompts: bool,
    /// The prompts may change.
    pub prompts_change: bool,
    /// Arguments of prompts or templates can be completed.
    pub completions: bool,
    /// Calls send log messages.
    pub logging: bool,
}

/// What reading a resource or getting a prompt gave.
#[derive(Debug, Clone)]
pub enum Found {
    /// For a resource its `contents`, for a prompt its `messages`, in the newest shape.
    Items(Vec<Value>),
    /// Nothing here has that URI or name.
    Unknown,
    /// The arguments of the prompt do not fit.
    InvalidParams(String),
    /// The server could not do its part.
    Internal(String),
    /// As in [`Outcome::Stopped`].
    Stopped(Stop),
}

/// What `completion/complete` completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completed<'a> {
    /// An argument of the prompt with this name.
    Prompt(&'a str),
    /// A variable of the resource template with this `uriTemplate`.
    Template(&'a str),
}

/// A family of tools: the toolchain, the memory, the workspace.
pub trait Family: Send + Sync {
    /// The name used by `--tools` and in messages: `toolchain`, `memory`, …
    fn name(&self) -> &'static str;

    /// The tools on offer, in a fixed order.
    fn tools(&self) -> Vec<Tool>;

    /// Runs one tool. `name` is one of [`Family::tools`]. Blocks until the work is done, or
    /// stopped because `call` was cancelled. The arguments fit the tool's input schema.
    fn call(&self, name: &str, arguments: &Map<String, Value>, call: &Call) -> Outcome;

    /// Members that the family adds to the `initialize` result (`cacheConfig`).
    fn initialize_members(&self) -> Map<String, Value> {
        Map::new()
    }

    /// One or two sentences for `instructions`: what the tools are for.
    fn instructions(&self) -> Option<String> {
        None
    }

    /// How the model is told, from 2025-11-25 on, that arguments do not fit; `None` if the
    /// contract of the family demands a JSON-RPC error with code -32602 in every revision.
    fn argument_error(&self, _tool: &str, _message: &str) -> Option<Outcome> {
        None
    }

    /// Whether the contract of the family demands [`Family::argument_error`] in every revision.
    fn argument_errors_are_results(&self) -> bool {
        false
    }

    /// Whether the tool may run as a task.
    fn task_support(&self, _tool: &str) -> TaskSupport {
        TaskSupport::Forbidden
    }

    /// What there is besides tools.
    fn offers(&self) -> Offers {
        Offers::default()
    }

    /// The resources, as objects in the newest shape (`uri`, `name`, …). May block.
    ///
    /// # Errors
    /// What kept the server from listing them.
    fn resources(&self, _call: &Call) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }

    /// The resource templates, as objects in the newest shape (`uriTemplate`, `name`, …).
    fn resource_templates(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Reads a resource, listed or not. May block.
    fn read(&self, _uri: &str, _call: &Call) -> Found {
        Found::Unknown
    }

    /// The prompts, as objects in the newest shape (`name`, `arguments`, …).
    fn prompts(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Makes the messages of a prompt. All required arguments are there. May block.
    fn prompt(&self, _name: &str, _arguments: &Map<String, Value>, _call: &Call) -> Found {
        Found::Unknown
    }

    /// Values for an argument that start with, or are like, what was typed; the best first.
    /// `context` holds the arguments already chosen. `None` if the prompt or template is not of
    /// this family. May block.
    fn complete(
        &self,
        _what: Completed<'_>,
        _argument: &str,
        _typed: &str,
        _context: &Map<String, Value>,
        _call: &Call,
    ) -> Option<Vec<String>> {
        None
    }

    /// The server ends now: kills what still runs.
    fn stop(&self) {}
}
