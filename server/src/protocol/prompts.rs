//! `prompts/list` and `prompts/get`.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::family::Family;
use super::job::{Answer, Keep, Work};
use super::pages::{self, cursor};
use super::refusal::Refusal;
use super::request::Request;
use super::{Reply, Server, shape};

/// `prompts/list`.
pub(super) fn list(server: &Server, request: &Request) -> Result<Reply, Refusal> {
    let all = server.families.iter().flat_map(|f| f.prompts());
    let all = all.collect::<Vec<_>>();
    let list = &pages::PROMPTS;
    let mut page = list.page(&all, cursor(&request.params)?, server.options.page_size)?;
    shape::list_items(&mut page, list.member, request.revision);
    let keep = Keep::list(server.offers.prompts_change);
    Ok(Reply::Now(Answer::Cacheable(page, keep)))
}

/// `prompts/get`.
pub(super) fn get(server: &Server, request: &Request) -> Result<Reply, Refusal> {
    let name = request.string("name")?;
    let arguments = request.object("arguments")?;
    let (family, prompt) = server
        .prompt(name)
        .ok_or_else(|| Refusal::invalid_params(format!("Unknown prompt: {name}")))?;
    for (argument, value) in &arguments {
        if !value.is_string() {
            return Err(Refusal::invalid_params(format!(
                "The argument \"{argument}\" must be a string"
            )));
        }
    }
    for argument in declared(&prompt) {
        let required = argument.get("required") == Some(&Value::Bool(true));
        let name = argument.get("name").and_then(Value::as_str).unwrap_or("");
        if required && !arguments.contains_key(name) {
            return Err(Refusal::invalid_params(format!(
                "The argument \"{name}\" is missing"
            )));
        }
    }
    Ok(Reply::Job(Work::Prompt {
        family,
        name: name.to_owned(),
        description: prompt.get("description").cloned(),
        arguments,
    }))
}

fn declared(prompt: &Map<String, Value>) -> &[Value] {
    let arguments = prompt.get("arguments").and_then(Value::as_array);
    arguments.map_or(&[], Vec::as_slice)
}

impl Server {
    /// The prompt with this name, and who has it.
    pub(super) fn prompt(&self, name: &str) -> Option<(Arc<dyn Family>, Map<String, Value>)> {
        self.families.iter().find_map(|family| {
            let prompts = family.prompts();
            let named = |prompt: &Value| prompt.get("name").and_then(Value::as_str) == Some(name);
            match prompts.into_iter().find(named)? {
                Value::Object(prompt) => Some((family.clone(), prompt)),
                _ => None,
            }
        })
    }
}
