//! Questions to the client: a form, a visit to a URL, a sample of its model, its roots.
//!
//! With a handshake they are requests of the server. In the stateless protocol the call ends with
//! the question and starts again with the answer; what was answered before travels in the
//! sealed `requestState`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::family::Upstream;
use super::refusal::Refusal;
use super::revision::Revision;
use super::schema;

/// Something that only the client can answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// Shows a form and gives `{"action": …, "content": {…}}`.
    Form {
        /// What the person is asked.
        message: String,
        /// A flat JSON Schema: an object of primitive properties.
        schema: Value,
    },
    /// Sends the person to a URL and gives `{"action": …}`.
    Url {
        /// Why the person should go there.
        message: String,
        /// An `https` URL without secrets.
        url: String,
    },
    /// Lets the client's model speak and gives `{"role": …, "content": …, "model": …}`.
    Sample {
        /// `params` of `sampling/createMessage`: `messages`, `maxTokens`, perhaps `tools`.
        params: Value,
    },
    /// Gives `{"roots": [{"uri": …}]}`.
    Roots,
}

/// Why a call cannot go on.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// Stateless protocol: the client answers and sends the request again.
    NeedsInput {
        /// The name of the question.
        key: String,
        /// `{"method": …, "params": …}`.
        request: Value,
    },
    /// The client did not declare the capability: an object shaped like its capabilities.
    MissingCapability(Value),
    /// The answer that came with the request is not one to the question.
    BadAnswer(String),
    /// The client refused, or did not answer in time; for the model to read.
    Failed(String),
}

impl Question {
    /// The method that asks it.
    pub fn method(&self) -> &'static str {
        match self {
            Question::Form { .. } | Question::Url { .. } => "elicitation/create",
            Question::Sample { .. } => "sampling/createMessage",
            Question::Roots => "roots/list",
        }
    }

    /// `params` in the shape of a revision. `unique` becomes the id that 2025-11-25 gives a visit.
    pub(super) fn params(&self, revision: Revision, unique: &str) -> Option<Value> {
        match self {
            Question::Form { message, schema } => {
                let mut params = json!({"message": message, "requestedSchema": schema});
                if revision >= Revision::V2025_11_25 {
                    params["mode"] = "form".into();
                }
                Some(params)
            }
            Question::Url { message, url } => {
                let mut params = json!({"mode": "url", "message": message, "url": url});
                if revision == Revision::V2025_11_25 {
                    params["elicitationId"] = unique.into();
                }
                Some(params)
            }
            Question::Sample { params } => Some(params.clone()),
            Question::Roots => None,
        }
    }

    /// What the client must declare, shaped like its capabilities.
    fn required(&self) -> Value {
        match self {
            Question::Form { .. } => json!({"elicitation": {"form": {}}}),
            Question::Url { .. } => json!({"elicitation": {"url": {}}}),
            Question::Sample { params } if gives_tools(params) => {
                json!({"sampling": {"tools": {}}})
            }
            Question::Sample { .. } => json!({"sampling": {}}),
            Question::Roots => json!({"roots": {}}),
        }
    }

    /// Whether a client with these capabilities can be asked in this revision.
    fn is_allowed(&self, capabilities: &Value, revision: Revision) -> bool {
        let elicitation = capabilities.get("elicitation").and_then(Value::as_object);
        match self {
            // Before there were modes a form was all there was; an empty object still means that.
            Question::Form { .. } if revision <= Revision::V2025_06_18 => {
                revision == Revision::V2025_06_18 && elicitation.is_some()
            }
            Question::Form { .. } => {
                elicitation.is_some_and(|modes| modes.is_empty() || modes.contains_key("form"))
            }
            Question::Url { .. } => {
                revision >= Revision::V2025_11_25
                    && elicitation.is_some_and(|modes| modes.contains_key("url"))
            }
            Question::Sample { params } if gives_tools(params) => {
                let tools = capabilities.pointer("/sampling/tools");
                revision >= Revision::V2025_11_25 && tools.is_some_and(Value::is_object)
            }
            Question::Sample { .. } => capabilities.get("sampling").is_some_and(Value::is_object),
            Question::Roots => capabilities.get("roots").is_some_and(Value::is_object),
        }
    }

    /// Whether `answer` has the shape that the question asks for.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn check(&self, answer: &Value) -> Result<(), String> {
        match self {
            Question::Form { schema, .. } => check_action(answer, |content| {
                schema::check_once(schema, content.unwrap_or(&json!({})))
            }),
            Question::Url { .. } => check_action(answer, |_| Ok(())),
            Question::Sample { .. } => {
                let role = answer.get("role").and_then(Value::as_str);
                let content = answer.get("content");
                let model = answer.get("model").and_then(Value::as_str);
                let has_content = content.is_some_and(|c| c.is_object() || c.is_array());
                if role.is_none() || model.is_none() || !has_content {
                    return Err("a sample has \"role\", \"content\" and \"model\"".to_owned());
                }
                Ok(())
            }
            Question::Roots => {
                let roots = answer.get("roots").and_then(Value::as_array);
                let named = |root: &Value| root.get("uri").is_some_and(Value::is_string);
                if !roots.is_some_and(|roots| roots.iter().all(named)) {
                    return Err("\"roots\" is a list of objects with a \"uri\"".to_owned());
                }
                Ok(())
            }
        }
    }
}

/// Whether a sample is asked for with tools for the model.
fn gives_tools(params: &Value) -> bool {
    params.get("tools").is_some()
}

fn check_action(
    answer: &Value,
    accepted: impl Fn(Option<&Value>) -> Result<(), String>,
) -> Result<(), String> {
    match answer.get("action").and_then(Value::as_str) {
        Some("accept") => accepted(answer.get("content")),
        Some("decline" | "cancel") => Ok(()),
        _ => Err("\"action\" is one of accept, decline, cancel".to_owned()),
    }
}

/// What a call knows of its client.
#[derive(Debug, Clone, Default)]
pub(super) struct Input {
    /// `None`: a call outside a request of a client.
    pub(super) revision: Option<Revision>,
    /// What the client declared.
    pub(super) capabilities: Arc<Value>,
    /// Answers that came with the request, in this round or an earlier one.
    pub(super) answers: Map<String, Value>,
}

impl Input {
    pub(super) fn ask(
        &self,
        key: &str,
        question: Question,
        upstream: &dyn Upstream,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Value, Stop> {
        let Some(revision) = self.revision else {
            return Err(Stop::Failed("there is no client to ask".to_owned()));
        };
        if !question.is_allowed(&self.capabilities, revision) {
            return Err(Stop::MissingCapability(question.required()));
        }
        if !revision.is_stateless() {
            let answer = upstream.ask(&question, cancelled).map_err(Stop::Failed)?;
            question.check(&answer).map_err(|problem| {
                Stop::Failed(format!("the client's answer is not valid: {problem}"))
            })?;
            return Ok(answer);
        }
        let Some(answer) = self.answers.get(key) else {
            let mut request = json!({"method": question.method()});
            if let Some(params) = question.params(revision, key) {
                request["params"] = params;
            }
            let key = key.to_owned();
            return Err(Stop::NeedsInput { key, request });
        };
        question.check(answer).map_err(|problem| {
            Stop::BadAnswer(format!("inputResponses: \"{key}\" is not valid: {problem}"))
        })?;
        Ok(answer.clone())
    }
}

impl Stop {
    /// The refusal that tells a client of the stateless protocol what it left out.
    pub(super) fn missing(required: &Value) -> Refusal {
        Refusal::new(
            super::refusal::MISSING_CLIENT_CAPABILITY,
            format!(
                "This needs a client capability that the request does not declare: {}",
                names(required)
            ),
        )
        .with_data(json!({"requiredCapabilities": required}))
    }

    /// The same for a model, in the older revisions.
    pub(super) fn missing_text(required: &Value) -> String {
        format!(
            "This needs a client capability that the client does not declare: {}",
            names(required)
        )
    }
}

/// `{"elicitation": {"url": {}}}` as `elicitation.url`.
fn names(required: &Value) -> String {
    let Some((name, inner)) = required.as_object().and_then(|object| object.iter().next()) else {
        return String::new();
    };
    match names(inner) {
        inner if inner.is_empty() => name.clone(),
        inner => format!("{name}.{inner}"),
    }
}
