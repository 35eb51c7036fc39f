//! What a family of tools is to the protocol: it names its tools and answers calls.
//!
//! The protocol knows no tool; a family knows no wire. A call runs on a thread of its own, so it
//! may block; it looks at [`Call::cancelled`] or registers what must be killed on cancellation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};

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
}

/// What a running call may ask of the protocol. Cheap to clone.
#[derive(Clone)]
pub struct Call {
    cancelled: Arc<AtomicBool>,
    progress: Arc<dyn Fn(f64, Option<f64>, &str) + Send + Sync>,
}

impl Call {
    /// A call with a flag that turns true on cancellation and a receiver of progress.
    pub fn new(
        cancelled: Arc<AtomicBool>,
        progress: Arc<dyn Fn(f64, Option<f64>, &str) + Send + Sync>,
    ) -> Self {
        Self { cancelled, progress }
    }

    /// Whether the client took the request back, or the server is stopping.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Tells the client how far the work is (`progress`, `total`, message), if it gave a token.
    /// Values must rise.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: &str) {
        (self.progress)(progress, total, message);
    }
}

/// A family of tools: the toolchain, the memory, the workspace.
pub trait Family: Send + Sync {
    /// The name used by `--tools` and in messages: `toolchain`, `memory`, …
    fn name(&self) -> &'static str;

    /// The tools on offer, in a fixed order.
    fn tools(&self) -> Vec<Tool>;

    /// Runs one tool. `name` is one of [`Family::tools`]. Blocks until the work is done, or
    /// stopped because `call` was cancelled.
    fn call(&self, name: &str, arguments: &Map<String, Value>, call: &Call) -> Outcome;

    /// Members that the family adds to the `initialize` result (`cacheConfig`).
    fn initialize_members(&self) -> Map<String, Value> {
        Map::new()
    }

    /// One or two sentences for `instructions`: what the tools are for.
    fn instructions(&self) -> Option<String> {
        None
    }
}
