//! 2026-07-28: each request says which version it speaks and what its client can do.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::job::{Answer, Keep};
use super::level::Level;
use super::refusal::Refusal;
use super::request::{Request, string};
use super::revision::Revision;
use super::{Reply, Server};

pub(super) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Fills in what the request says of itself. Nothing is remembered for the next one.
pub(super) fn read_meta(meta: &Map<String, Value>, request: &mut Request) -> Result<(), Refusal> {
    let version = string(meta, PROTOCOL_VERSION)?;
    let capabilities = match meta.get(CLIENT_CAPABILITIES) {
        Some(capabilities @ Value::Object(_)) => capabilities.clone(),
        Some(_) => return Err(wrong(CLIENT_CAPABILITIES, "must be an object")),
        None => return Err(wrong(CLIENT_CAPABILITIES, "is missing")),
    };
    request.revision = Revision::parse(version)
        .filter(|revision| revision.is_stateless())
        .ok_or_else(|| Refusal::unsupported_version(version, &Revision::stateless()))?;
    request.capabilities = Arc::new(capabilities);
    match meta.get(CLIENT_INFO) {
        None => {}
        Some(Value::Object(info)) => {
            string(info, "name")?;
            string(info, "version")?;
        }
        Some(_) => return Err(wrong(CLIENT_INFO, "must be an object")),
    }
    request.level = match meta.get(LOG_LEVEL) {
        None => None,
        Some(level) => Some(
            level
                .as_str()
                .and_then(Level::parse)
                .ok_or_else(|| wrong(LOG_LEVEL, "is none of the eight levels"))?,
        ),
    };
    Ok(())
}

fn wrong(key: &str, problem: &str) -> Refusal {
    Refusal::invalid_params(format!("_meta: \"{key}\" {problem}"))
}

/// `server/discover`.
pub(super) fn discover(server: &Server) -> Result<Reply, Refusal> {
    let mut result = Map::new();
    result.insert("supportedVersions".into(), json!(Revision::stateless()));
    let capabilities = server.capabilities(Revision::V2026_07_28);
    result.insert("capabilities".into(), capabilities);
    if let Some(instructions) = server.instructions() {
        result.insert("instructions".into(), instructions.into());
    }
    result.extend(server.initialize_members());
    Ok(Reply::Now(Answer::Cacheable(result, Keep::LONG)))
}

impl Server {
    /// A result as this revision wants it: its type first, hints for caches, and who answers.
    pub(super) fn stateless_result(&self, answer: Answer) -> Map<String, Value> {
        let (kind, keep) = match &answer {
            Answer::InputRequired(_) => ("input_required", None),
            Answer::Cacheable(_, keep) => ("complete", Some(*keep)),
            Answer::Plain(_) => ("complete", None),
        };
        let mut result = Map::new();
        result.insert("resultType".into(), kind.into());
        result.extend(answer.into_members());
        if let Some(keep) = keep {
            result.insert("ttlMs".into(), keep.ttl_ms.into());
            result.insert("cacheScope".into(), keep.scope.into());
        }
        let info = self.server_info(Revision::V2026_07_28);
        let meta = result.entry("_meta").or_insert_with(|| json!({}));
        meta[SERVER_INFO] = info;
        result
    }
}
