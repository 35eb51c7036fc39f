//! Which methods there are, since when, and what they need.

use serde_json::{Map, Value, json};

use super::family::Offers;
use super::refusal::Refusal;
use super::request::Request;
use super::revision::Revision::{self, *};
use super::{Output, Reply, Server};
use super::{completion, handshake, logging, prompts, resources, stateless, subscriptions};
use super::{tasks, tools};

struct Method {
    name: &'static str,
    since: Revision,
    until: Revision,
    /// Whether the capability that the method belongs to is declared.
    declared: fn(&Server) -> bool,
    serve: fn(&mut Server, &Request, &mut Vec<Output>) -> Result<Reply, Refusal>,
}

const fn method(
    name: &'static str,
    (since, until): (Revision, Revision),
    declared: fn(&Server) -> bool,
    serve: fn(&mut Server, &Request, &mut Vec<Output>) -> Result<Reply, Refusal>,
) -> Method {
    Method {
        name,
        since,
        until,
        declared,
        serve,
    }
}

const ALL: (Revision, Revision) = (V2024_11_05, V2026_07_28);
const HANDSHAKE: (Revision, Revision) = (V2024_11_05, V2025_11_25);
const TASKS: (Revision, Revision) = (V2025_11_25, V2025_11_25);
const STATELESS: (Revision, Revision) = (V2026_07_28, V2026_07_28);

#[rustfmt::skip]
static METHODS: [Method; 19] = [
    method("initialize",               HANDSHAKE, always,       |server, request, _| handshake::initialize(server, request)),
    method("ping",                     HANDSHAKE, always,       |_, _, _| Ok(Reply::empty())),
    method("tools/list",               ALL,       has_tools,    |server, request, _| tools::list(server, request)),
    method("tools/call",               ALL,       has_tools,    |server, request, _| tools::call(server, request)),
    method("resources/list",           ALL,       resources,    |server, request, _| resources::list(server, request)),
    method("resources/templates/list", ALL,       resources,    |server, request, _| resources::templates(server, request)),
    method("resources/read",           ALL,       resources,    |server, request, _| resources::read(server, request)),
    method("resources/subscribe",      HANDSHAKE, subscribable, |server, request, _| resources::subscribe(server, request)),
    method("resources/unsubscribe",    HANDSHAKE, subscribable, |server, request, _| resources::unsubscribe(server, request)),
    method("prompts/list",             ALL,       has_prompts,  |server, request, _| prompts::list(server, request)),
    method("prompts/get",              ALL,       has_prompts,  |server, request, _| prompts::get(server, request)),
    method("completion/complete",      ALL,       completable,  |server, request, _| completion::complete(server, request)),
    method("logging/setLevel",         HANDSHAKE, logs,         |server, request, _| logging::set_level(server, request)),
    method("tasks/get",                TASKS,     has_tasks,    |server, request, _| tasks::get(server, request)),
    method("tasks/result",             TASKS,     has_tasks,    tasks::result),
    method("tasks/list",               TASKS,     has_tasks,    |server, request, _| tasks::list(server, request)),
    method("tasks/cancel",             TASKS,     has_tasks,    tasks::cancel),
    method("server/discover",          STATELESS, always,       |server, _, _| stateless::discover(server)),
    method("subscriptions/listen",     STATELESS, changes,      subscriptions::listen),
];

fn always(_: &Server) -> bool {
    true
}

fn has_tools(server: &Server) -> bool {
    !server.tools.is_empty() || server.offers.tools_change
}

fn resources(server: &Server) -> bool {
    server.offers.resources
}

fn subscribable(server: &Server) -> bool {
    server.offers.resources && server.offers.resource_updates
}

fn has_prompts(server: &Server) -> bool {
    server.offers.prompts
}

fn completable(server: &Server) -> bool {
    server.offers.completions
}

fn logs(server: &Server) -> bool {
    server.offers.logging
}

fn has_tasks(server: &Server) -> bool {
    server.takes_tasks()
}

fn changes(server: &Server) -> bool {
    let offers = server.offers;
    offers.tools_change || offers.prompts_change || offers.resources_change || subscribable(server)
}

impl Server {
    /// Serves a request whose revision is known.
    pub(super) fn dispatch(
        &mut self,
        request: &Request,
        out: &mut Vec<Output>,
    ) -> Result<Reply, Refusal> {
        let method = METHODS
            .iter()
            .find(|method| method.name == request.method)
            .filter(|method| (method.since..=method.until).contains(&request.revision))
            .filter(|method| (method.declared)(self))
            .ok_or_else(|| Refusal::unknown_method(&request.method))?;
        (method.serve)(self, request, out)
    }

    /// The capabilities that go with the methods above.
    pub(super) fn capabilities(&self, revision: Revision) -> Value {
        let offers = self.offers;
        let mut all = Map::new();
        let mut declare = |name: &str, value: Value| all.insert(name.to_owned(), value);
        if has_tools(self) {
            declare("tools", flags([("listChanged", offers.tools_change)]));
        }
        if resources(self) {
            declare(
                "resources",
                flags([
                    ("subscribe", offers.resource_updates),
                    ("listChanged", offers.resources_change),
                ]),
            );
        }
        if has_prompts(self) {
            declare("prompts", flags([("listChanged", offers.prompts_change)]));
        }
        if completable(self) && revision >= V2025_03_26 {
            declare("completions", json!({}));
        }
        if logs(self) {
            declare("logging", json!({}));
        }
        if has_tasks(self) && revision == V2025_11_25 {
            declare(
                "tasks",
                json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}),
            );
        }
        Value::Object(all)
    }
}

/// The flags that are set; what is not there is false.
fn flags<const N: usize>(flags: [(&str, bool); N]) -> Value {
    let set = flags.into_iter().filter(|(_, set)| *set);
    set.map(|(name, set)| (name.to_owned(), Value::from(set)))
        .collect::<Map<_, _>>()
        .into()
}

impl Offers {
    /// What either has.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            tools_change: self.tools_change | other.tools_change,
            resources: self.resources | other.resources,
            resources_change: self.resources_change | other.resources_change,
            resource_updates: self.resource_updates | other.resource_updates,
            prompts: self.prompts | other.prompts,
            prompts_change: self.prompts_change | other.prompts_change,
            completions: self.completions | other.completions,
            logging: self.logging | other.logging,
        }
    }
}
