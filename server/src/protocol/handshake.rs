//! The session that `initialize` opens: 2024-11-05 to 2025-11-25.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::job::Answer;
use super::level::Level;
use super::refusal::Refusal;
use super::request::{Request, string};
use super::revision::Revision;
use super::{Reply, Server};

pub(super) struct Session {
    pub(super) revision: Revision,
    pub(super) capabilities: Arc<Value>,
    /// Whether `notifications/initialized` came: before it the server asks nothing.
    pub(super) initialized: bool,
    /// The lightest level that is logged; until the client sets one, the server chooses.
    pub(super) level: Level,
    pub(super) subscribed: HashSet<String>,
}

impl Server {
    /// Gives a request without a version of its own the revision of the session.
    pub(super) fn join_session(&self, request: &mut Request) -> Result<(), Refusal> {
        match &self.session {
            Some(session) => {
                request.revision = session.revision;
                request.capabilities = session.capabilities.clone();
                // The level is looked up when something is logged: it may be set meanwhile.
                Ok(())
            }
            None if matches!(request.method.as_str(), "initialize" | "ping") => Ok(()),
            None => Err(Refusal::invalid_params(format!(
                "Not initialized: send initialize first, or name the version {} in \"_meta\"",
                Revision::stateless().join(" or ")
            ))),
        }
    }
}

/// `initialize`.
pub(super) fn initialize(server: &mut Server, request: &Request) -> Result<Reply, Refusal> {
    if server.session.is_some() {
        return Err(Refusal::invalid_request(
            "Invalid request: the session is initialized already",
        ));
    }
    if request.batch.is_some() {
        return Err(Refusal::invalid_request(
            "Invalid request: initialize cannot be part of a batch",
        ));
    }
    let requested = request.string("protocolVersion")?;
    let capabilities = required_object(request, "capabilities")?;
    let client = required_object(request, "clientInfo")?;
    string(client, "name")?;
    string(client, "version")?;
    let revision = Revision::parse(requested)
        .filter(|revision| !revision.is_stateless())
        .unwrap_or(Revision::LATEST_WITH_HANDSHAKE);
    server.session = Some(Session {
        revision,
        capabilities: Arc::new(Value::Object(capabilities.clone())),
        initialized: false,
        level: Level::Info,
        subscribed: HashSet::new(),
    });
    let mut result = Map::new();
    result.insert("protocolVersion".into(), revision.as_str().into());
    result.insert("capabilities".into(), server.capabilities(revision));
    result.insert("serverInfo".into(), server.server_info(revision));
    if let Some(instructions) = server.instructions() {
        result.insert("instructions".into(), instructions.into());
    }
    result.extend(server.initialize_members());
    Ok(Reply::Now(Answer::Plain(result)))
}

fn required_object<'a>(
    request: &'a Request,
    name: &str,
) -> Result<&'a Map<String, Value>, Refusal> {
    match request.params.get(name) {
        Some(Value::Object(object)) => Ok(object),
        Some(_) => Err(Refusal::invalid_params(format!(
            "\"{name}\" must be an object"
        ))),
        None => Err(Refusal::invalid_params(format!("\"{name}\" is missing"))),
    }
}
