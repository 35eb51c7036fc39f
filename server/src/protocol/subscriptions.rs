//! `subscriptions/listen`: a request that stays open and tells what changes (2026-07-28).

use serde_json::{Map, Value, json};

use super::family::Change;
use super::message::{self, Id};
use super::notify::{SUBSCRIPTION_ID, notify};
use super::refusal::{INTERNAL_ERROR, Refusal};
use super::request::Request;
use super::revision::Revision;
use super::{Output, Reply, Server, resources};

/// More than any client needs; a bound on what one process keeps.
const MAX_LISTENS: usize = 100;

/// An open subscription and what it asked for.
pub(super) struct Listen {
    pub(super) id: Id,
    pub(super) key: String,
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: Option<Vec<String>>,
}

impl Listen {
    pub(super) fn wants(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resources => self.resources,
            Change::Resource(uri) => self.uris.as_ref().is_some_and(|uris| uris.contains(uri)),
        }
    }

    /// The filter that is honoured, as the acknowledgment tells it.
    fn honoured(&self) -> Map<String, Value> {
        let mut filter = Map::new();
        for (name, wanted) in [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ] {
            if wanted {
                filter.insert(name.into(), true.into());
            }
        }
        if let Some(uris) = &self.uris {
            filter.insert("resourceSubscriptions".into(), json!(uris));
        }
        filter
    }
}

pub(super) fn listen(
    server: &mut Server,
    request: &Request,
    out: &mut Vec<Output>,
) -> Result<Reply, Refusal> {
    if server.listens.len() >= MAX_LISTENS {
        return Err(Refusal::new(
            INTERNAL_ERROR,
            "Too many subscriptions are open",
        ));
    }
    let Some(Value::Object(filter)) = request.params.get("notifications") else {
        return Err(Refusal::invalid_params(
            "\"notifications\" must be an object",
        ));
    };
    let asked = |name: &str| match filter.get(name) {
        None => Ok(false),
        Some(Value::Bool(asked)) => Ok(*asked),
        Some(_) => Err(Refusal::invalid_params(format!(
            "\"{name}\" must be a boolean"
        ))),
    };
    let offers = server.offers;
    let uris = filter.get("resourceSubscriptions").map(resources::uris);
    let listen = Listen {
        id: request.id.clone(),
        key: request.id.key(),
        tools: asked("toolsListChanged")? && offers.tools_change,
        prompts: asked("promptsListChanged")? && offers.prompts_change,
        resources: asked("resourcesListChanged")? && offers.resources_change,
        uris: uris.transpose()?.filter(|_| offers.resource_updates),
    };
    let mut params = Map::new();
    params.insert(
        "_meta".into(),
        json!({ SUBSCRIPTION_ID: listen.id.to_value() }),
    );
    params.insert("notifications".into(), listen.honoured().into());
    notify("notifications/subscriptions/acknowledged", params, out);
    server.listens.push(listen);
    Ok(Reply::Later)
}

impl Server {
    /// The line that closes a subscription from this side.
    pub(super) fn end_of_listen(&self, listen: &Listen) -> String {
        let info = self.server_info(Revision::V2026_07_28);
        let result = json!({
            "resultType": "complete",
            "_meta": {
                SUBSCRIPTION_ID: listen.id.to_value(),
                "io.modelcontextprotocol/serverInfo": info,
            },
        });
        message::result_line(&listen.id, &result.to_string())
    }
}
