//! Work that may take long: it is bound to a request and runs beside the loop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::ask::{Input, Stop};
use super::completion::Completion;
use super::family::{Call, Cancellation, Family, Found, Outcome, Upstream};
use super::pages;
use super::refusal::{RESOURCE_NOT_FOUND, Refusal, clip};
use super::revision::Revision;
use super::seal::Sealer;
use super::shape;
use super::tools::Listed;

/// Names a job for as long as the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub(super) u64);

/// A tool call, a read or the like. [`Job::run`] does it; the result goes to
/// [`Server::finished`](super::Server::finished).
pub struct Job {
    pub(super) id: JobId,
    pub(super) work: Work,
    pub(super) revision: Revision,
    pub(super) cancellation: Cancellation,
    pub(super) input: Arc<Input>,
    pub(super) sealer: Arc<Sealer>,
    /// The request that a sealed state belongs to.
    pub(super) purpose: String,
}

pub(super) enum Work {
    Tool {
        tool: Arc<Listed>,
        arguments: Map<String, Value>,
    },
    Resources {
        families: Vec<Arc<dyn Family>>,
        cursor: Option<String>,
        page_size: Option<usize>,
    },
    Read {
        families: Vec<Arc<dyn Family>>,
        uri: String,
    },
    Complete {
        families: Vec<Arc<dyn Family>>,
        completion: Completion,
    },
    Prompt {
        family: Arc<dyn Family>,
        name: String,
        description: Option<Value>,
        arguments: Map<String, Value>,
    },
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished(pub(super) Result<Answer, Refusal>);

impl Finished {
    /// The end of a job that could not be run.
    pub fn failed(message: &str) -> Self {
        Self(Err(Refusal::internal(message)))
    }
}

/// The members of a result, before the revision adds its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// Just that.
    Plain(Map<String, Value>),
    /// One that clients may keep for a while.
    Cacheable(Map<String, Value>, Keep),
    /// A question to the client instead of a result.
    InputRequired(Map<String, Value>),
}

/// How long, and for whom, a result may be kept (from 2026-07-28).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Keep {
    pub(super) ttl_ms: u64,
    /// `public` or `private`: whether another user may see it too.
    pub(super) scope: &'static str,
}

impl Keep {
    /// What changes only with the server's flags.
    pub(super) const LONG: Keep = Keep {
        ttl_ms: 300_000,
        scope: "public",
    };
    /// What may change while the server runs.
    pub(super) const SHORT: Keep = Keep {
        ttl_ms: 1_000,
        scope: "public",
    };
    /// What belongs to the user: always asked for again.
    pub(super) const OWN: Keep = Keep {
        ttl_ms: 0,
        scope: "private",
    };

    pub(super) fn list(changes: bool) -> Self {
        if changes { Self::SHORT } else { Self::LONG }
    }
}

impl Job {
    /// The job's name.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// What cancels it.
    pub fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    /// Does the work on this thread. A panic of a family becomes an internal error.
    pub fn run(self, upstream: Arc<dyn Upstream>) -> Finished {
        let call = Call::with(self.cancellation.clone(), upstream, self.input.clone());
        if call.cancelled() {
            // Taken back while it waited for a thread: nobody will see this.
            return Finished::failed("The request was cancelled");
        }
        let answer = catch_unwind(AssertUnwindSafe(|| self.work(&call)));
        Finished(answer.unwrap_or_else(|_| {
            Err(Refusal::internal(
                "Internal error: the server's own code failed on this request",
            ))
        }))
    }

    fn work(&self, call: &Call) -> Result<Answer, Refusal> {
        match &self.work {
            Work::Tool { tool, arguments } => self.call_tool(tool, arguments, call),
            Work::Resources {
                families,
                cursor,
                page_size,
            } => {
                let mut resources = Vec::new();
                for family in families {
                    resources.extend(family.resources(call).map_err(Refusal::internal)?);
                }
                let list = &pages::RESOURCES;
                let mut page = list.page(&resources, cursor.as_deref(), *page_size)?;
                shape::list_items(&mut page, list.member, self.revision);
                Ok(Answer::Cacheable(page, Keep::OWN))
            }
            Work::Read { families, uri } => self.read(families, uri, call),
            Work::Complete {
                families,
                completion,
            } => Ok(completion.run(families, call)),
            Work::Prompt {
                family,
                name,
                description,
                arguments,
            } => {
                let found = family.prompt(name, arguments, call);
                let messages = self.items(found, || {
                    Refusal::invalid_params(format!("Unknown prompt: {name}"))
                })?;
                let mut messages = match messages {
                    Ok(messages) => messages,
                    Err(question) => return Ok(question),
                };
                for message in &mut messages {
                    if let Some(content) = message.get_mut("content") {
                        shape::content_block(content, self.revision);
                    }
                }
                let mut result = Map::new();
                if let Some(description) = description {
                    result.insert("description".into(), description.clone());
                }
                result.insert("messages".into(), messages.into());
                Ok(Answer::Plain(result))
            }
        }
    }

    fn call_tool(
        &self,
        tool: &Listed,
        arguments: &Map<String, Value>,
        call: &Call,
    ) -> Result<Answer, Refusal> {
        let outcome = match tool.check(arguments) {
            Ok(()) => tool.family.call(tool.tool.name, arguments, call),
            Err(problem) => Outcome::InvalidParams(problem),
        };
        let outcome = match outcome {
            Outcome::InvalidParams(problem) => self.invalid_arguments(tool, &problem)?,
            other => other,
        };
        match outcome {
            Outcome::Done {
                content,
                structured,
                is_error,
            } => Ok(Answer::Plain(shape::tool_result(
                content,
                structured,
                is_error,
                self.revision,
            ))),
            Outcome::InvalidParams(problem) => Err(Refusal::invalid_params(problem)),
            Outcome::Internal(problem) => Err(Refusal::internal(problem)),
            Outcome::Stopped(stop) => self.stopped(stop),
        }
    }

    /// What to say of arguments that do not fit.
    ///
    /// Up to 2025-06-18 the text lists them among the protocol errors: -32602. From 2025-11-25
    /// it wants them in the result, where the model sees them; a protocol error is still allowed.
    /// A family whose published contract says one or the other keeps to it in every revision,
    /// since that is what its clients wait for. Both readings pass the rules on the wire.
    fn invalid_arguments(&self, tool: &Listed, problem: &str) -> Result<Outcome, Refusal> {
        let message = format!("Invalid arguments for {}: {problem}", tool.tool.name);
        let in_result =
            self.revision >= Revision::V2025_11_25 || tool.family.argument_errors_are_results();
        let for_the_model = in_result.then(|| tool.family.argument_error(tool.tool.name, &message));
        for_the_model
            .flatten()
            .ok_or_else(|| Refusal::invalid_params(message))
    }

    fn read(
        &self,
        families: &[Arc<dyn Family>],
        uri: &str,
        call: &Call,
    ) -> Result<Answer, Refusal> {
        let mut found = Found::Unknown;
        for family in families {
            found = family.read(uri, call);
            if !matches!(found, Found::Unknown) {
                break;
            }
        }
        let unknown = || unknown_resource(uri, self.revision);
        match self.items(found, unknown)? {
            Ok(contents) => {
                let mut result = Map::new();
                result.insert("contents".into(), contents.into());
                Ok(Answer::Cacheable(result, Keep::OWN))
            }
            Err(question) => Ok(question),
        }
    }

    /// The items that were found, or the question that stands before them.
    fn items(
        &self,
        found: Found,
        unknown: impl Fn() -> Refusal,
    ) -> Result<Result<Vec<Value>, Answer>, Refusal> {
        match found {
            Found::Items(items) => Ok(Ok(items)),
            Found::Unknown => Err(unknown()),
            Found::InvalidParams(problem) => Err(Refusal::invalid_params(problem)),
            Found::Internal(problem) => Err(Refusal::internal(problem)),
            Found::Stopped(Stop::Failed(problem)) => Err(Refusal::internal(problem)),
            Found::Stopped(Stop::MissingCapability(required)) if !self.revision.is_stateless() => {
                Err(Refusal::internal(Stop::missing_text(&required)))
            }
            Found::Stopped(stop) => self.stopped(stop).map(Err),
        }
    }

    fn stopped(&self, stop: Stop) -> Result<Answer, Refusal> {
        let told = |text: String| {
            let content = vec![json!({"type": "text", "text": text})];
            Ok(Answer::Plain(shape::tool_result(
                content,
                None,
                true,
                self.revision,
            )))
        };
        match stop {
            Stop::NeedsInput { key, request } => {
                let state = self.sealer.seal(&self.purpose, &self.input.answers);
                let mut result = Map::new();
                result.insert("inputRequests".into(), json!({ key: request }));
                result.insert("requestState".into(), state.into());
                Ok(Answer::InputRequired(result))
            }
            Stop::MissingCapability(required) if self.revision.is_stateless() => {
                Err(Stop::missing(&required))
            }
            Stop::MissingCapability(required) => told(Stop::missing_text(&required)),
            Stop::BadAnswer(problem) => Err(Refusal::invalid_params(problem)),
            Stop::Failed(problem) => told(problem),
        }
    }
}

/// The code moved: -32002 is not to be sent any more from 2026-07-28 on.
pub(super) fn unknown_resource(uri: &str, revision: Revision) -> Refusal {
    let code = match revision.is_stateless() {
        true => super::refusal::INVALID_PARAMS,
        false => RESOURCE_NOT_FOUND,
    };
    Refusal::new(code, format!("Resource not found: {}", clip(uri, 160)))
        .with_data(json!({"uri": uri}))
}
