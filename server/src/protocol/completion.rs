//! `completion/complete`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::family::{Call, Completed, Family};
use super::job::{Answer, Work};
use super::refusal::Refusal;
use super::request::{Request, string};
use super::{Reply, Server};

/// More values than these are only counted.
const MAX_VALUES: usize = 100;

/// What is completed, until the job asks the families.
pub(super) enum Reference {
    Prompt(String),
    Template(String),
}

/// What a client gave to be completed.
pub(super) struct Completion {
    reference: Reference,
    argument: String,
    typed: String,
    chosen: Map<String, Value>,
}

/// `completion/complete`: a job, since a family may have to look first.
pub(super) fn complete(server: &Server, request: &Request) -> Result<Reply, Refusal> {
    let reference = member(&request.params, "ref")?;
    let argument = member(&request.params, "argument")?;
    let completion = Completion {
        argument: string(argument, "name")?.to_owned(),
        typed: string(argument, "value")?.to_owned(),
        chosen: chosen(request)?,
        reference: known(server, reference)?,
    };
    Ok(Reply::Job(Work::Complete {
        families: server.families.clone(),
        completion,
    }))
}

/// A prompt or template without completion gives no values; one that is not there, an error.
fn known(server: &Server, reference: &Map<String, Value>) -> Result<Reference, Refusal> {
    let unknown =
        |what: &str, name: &str| Err(Refusal::invalid_params(format!("Unknown {what}: {name}")));
    match string(reference, "type")? {
        "ref/prompt" => match string(reference, "name")? {
            name if server.prompt(name).is_some() => Ok(Reference::Prompt(name.to_owned())),
            name => unknown("prompt", name),
        },
        "ref/resource" => match string(reference, "uri")? {
            uri if server.has_template(uri) => Ok(Reference::Template(uri.to_owned())),
            uri => unknown("resource template", uri),
        },
        other => unknown("kind of reference", other),
    }
}

impl Completion {
    /// Asks each family in turn.
    pub(super) fn run(&self, families: &[Arc<dyn Family>], call: &Call) -> Answer {
        let what = match &self.reference {
            Reference::Prompt(name) => Completed::Prompt(name),
            Reference::Template(uri) => Completed::Template(uri),
        };
        let found = families.iter().find_map(|family| {
            family.complete(what, &self.argument, &self.typed, &self.chosen, call)
        });
        let values = found.unwrap_or_default();
        let shown = &values[..values.len().min(MAX_VALUES)];
        let mut result = Map::new();
        result.insert(
            "completion".into(),
            json!({"values": shown, "total": values.len(), "hasMore": shown.len() < values.len()}),
        );
        Answer::Plain(result)
    }
}

impl Server {
    fn has_template(&self, uri: &str) -> bool {
        let mut all = self.families.iter().flat_map(|f| f.resource_templates());
        all.any(|template| template.get("uriTemplate").and_then(Value::as_str) == Some(uri))
    }
}

fn member<'a>(
    params: &'a Map<String, Value>,
    name: &str,
) -> Result<&'a Map<String, Value>, Refusal> {
    let object = params.get(name).and_then(Value::as_object);
    object.ok_or_else(|| Refusal::invalid_params(format!("\"{name}\" must be an object")))
}

/// `context.arguments`: what was chosen before.
fn chosen(request: &Request) -> Result<Map<String, Value>, Refusal> {
    let context = request.object("context")?;
    match context.get("arguments") {
        None => Ok(Map::new()),
        Some(Value::Object(chosen)) if chosen.values().all(Value::is_string) => Ok(chosen.clone()),
        Some(_) => Err(Refusal::invalid_params(
            "\"context.arguments\" must be an object of strings",
        )),
    }
}
