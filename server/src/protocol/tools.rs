//! `tools/list` and `tools/call`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::family::{Family, TaskSupport, Tool};
use super::job::{Answer, Keep, Work};
use super::pages::{self, cursor};
use super::refusal::{METHOD_NOT_FOUND, Refusal};
use super::request::Request;
use super::revision::Revision;
use super::schema::Schema;
use super::{Reply, Server, shape};

/// A tool, the family that has it, and the means to check its arguments.
pub(super) struct Listed {
    pub(super) tool: Tool,
    pub(super) family: Arc<dyn Family>,
    pub(super) task_support: TaskSupport,
    input: Schema,
}

impl Listed {
    pub(super) fn all(families: &[Arc<dyn Family>]) -> Vec<Arc<Listed>> {
        let tools = families.iter().flat_map(|family| {
            let listed = |tool: Tool| {
                Arc::new(Listed {
                    input: Schema::new(tool.input_schema.clone()),
                    task_support: family.task_support(tool.name),
                    family: family.clone(),
                    tool,
                })
            };
            family.tools().into_iter().map(listed).collect::<Vec<_>>()
        });
        tools.collect()
    }

    pub(super) fn check(&self, arguments: &Map<String, Value>) -> Result<(), String> {
        self.input.check(&Value::Object(arguments.clone()))
    }

    /// The tool as a list shows it in this revision.
    fn to_json(&self, revision: Revision) -> Value {
        let tool = &self.tool;
        let mut item = Map::new();
        item.insert("name".into(), tool.name.into());
        item.insert("title".into(), tool.title.into());
        item.insert("description".into(), tool.description.clone().into());
        item.insert("inputSchema".into(), tool.input_schema.clone());
        // Until 2025-11-25 a structured result is an object, and so is its schema.
        let output = tool.output_schema.as_ref().filter(|schema| {
            revision.is_stateless() || schema.get("type") == Some(&Value::from("object"))
        });
        if let Some(schema) = output {
            item.insert("outputSchema".into(), schema.clone());
        }
        if revision >= Revision::V2025_03_26 && tool.annotations.is_object() {
            item.insert("annotations".into(), tool.annotations.clone());
        }
        let support = match self.task_support {
            TaskSupport::Forbidden => None,
            TaskSupport::Optional => Some("optional"),
            TaskSupport::Required => Some("required"),
        };
        if let Some(support) = support {
            item.insert("execution".into(), json!({"taskSupport": support}));
        }
        Value::Object(item)
    }
}

pub(super) fn list(server: &mut Server, request: &Request) -> Result<Reply, Refusal> {
    let revision = request.revision;
    let items = server
        .tools
        .iter()
        .map(|tool| tool.to_json(revision))
        .collect::<Vec<_>>();
    let list = &pages::TOOLS;
    let mut page = list.page(&items, cursor(&request.params)?, server.options.page_size)?;
    shape::list_items(&mut page, list.member, revision);
    Ok(Reply::Now(Answer::Cacheable(
        page,
        Keep::list(server.offers.tools_change),
    )))
}

pub(super) fn call(server: &mut Server, request: &Request) -> Result<Reply, Refusal> {
    let name = request.string("name")?;
    let arguments = request.object("arguments")?;
    let tool = server
        .tools
        .iter()
        .find(|listed| listed.tool.name == name)
        .ok_or_else(|| Refusal::invalid_params(format!("Unknown tool: {name}")))?
        .clone();
    let as_task = server.wants_task(request, &tool)?;
    let work = Work::Tool { tool, arguments };
    Ok(match as_task {
        Some(ttl) => Reply::Task(work, ttl),
        None => Reply::Job(work),
    })
}

/// Why a call cannot run, or only, as a task.
pub(super) fn task_mismatch(tool: &Listed) -> Refusal {
    let message = match tool.task_support {
        TaskSupport::Required => format!("{} runs only as a task", tool.tool.name),
        _ => format!("{} cannot run as a task", tool.tool.name),
    };
    Refusal::new(METHOD_NOT_FOUND, message)
}
