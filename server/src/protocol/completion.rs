//! `completion/complete`.

use serde_json::{Map, Value, json};

use super::family::Completed;
use super::job::Answer;
use super::refusal::Refusal;
use super::request::{Request, string};
use super::{Reply, Server};

/// More values than these are only counted.
const MAX_VALUES: usize = 100;

pub(super) fn complete(server: &Server, request: &Request) -> Result<Reply, Refusal> {
    let reference = member(&request.params, "ref")?;
    let argument = member(&request.params, "argument")?;
    let name = string(argument, "name")?;
    let typed = string(argument, "value")?;
    let chosen = chosen(request)?;
    let what = match string(reference, "type")? {
        "ref/prompt" => Completed::Prompt(string(reference, "name")?),
        "ref/resource" => Completed::Template(string(reference, "uri")?),
        other => {
            return Err(Refusal::invalid_params(format!(
                "Unknown kind of reference: {other}"
            )));
        }
    };
    let mut families = server.families.iter();
    let found = families.find_map(|family| family.complete(what, name, typed, &chosen));
    let values = match found {
        Some(values) => values,
        None => unknown(server, what)?,
    };
    let shown = &values[..values.len().min(MAX_VALUES)];
    let mut result = Map::new();
    result.insert(
        "completion".into(),
        json!({"values": shown, "total": values.len(), "hasMore": shown.len() < values.len()}),
    );
    Ok(Reply::Now(Answer::Plain(result)))
}

/// A prompt or template without completion gives no values; one that is not there, an error.
fn unknown(server: &Server, what: Completed<'_>) -> Result<Vec<String>, Refusal> {
    let message = match what {
        Completed::Prompt(name) if server.prompt(name).is_none() => {
            format!("Unknown prompt: {name}")
        }
        Completed::Template(uri) if !server.has_template(uri) => {
            format!("Unknown resource template: {uri}")
        }
        _ => return Ok(Vec::new()),
    };
    Err(Refusal::invalid_params(message))
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
