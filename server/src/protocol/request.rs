//! A request once its revision is known, and the checks that all methods share.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::Server;
use super::ask::Input;
use super::level::Level;
use super::message::{Id, read_params};
use super::refusal::Refusal;
use super::revision::Revision;
use super::seal::Sealer;
use super::stateless;

pub(super) struct Request {
    pub(super) id: Id,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
    pub(super) revision: Revision,
    pub(super) batch: Option<u64>,
    /// `progressToken`, if the client wants progress.
    pub(super) token: Option<Value>,
    /// The lightest log level that the client wants for this request.
    pub(super) level: Option<Level>,
    /// What the client declared, for this request or in the handshake.
    pub(super) capabilities: Arc<Value>,
}

impl Server {
    /// Finds the revision of a request: its own, or that of the session.
    pub(super) fn request(
        &mut self,
        id: &Id,
        method: &str,
        params: Option<&RawValue>,
        batch: Option<u64>,
    ) -> Result<Request, Refusal> {
        let params = read_params(params)?;
        let meta = match params.get("_meta") {
            None => None,
            Some(Value::Object(meta)) => Some(meta),
            Some(_) => return Err(Refusal::invalid_params("\"_meta\" must be an object")),
        };
        let token = meta.and_then(|meta| meta.get("progressToken")).cloned();
        if token.as_ref().is_some_and(|t| Id::from_value(t).is_none()) {
            return Err(Refusal::invalid_params(
                "\"progressToken\" must be a string or an integer",
            ));
        }
        let mut request = Request {
            id: id.clone(),
            method: method.to_owned(),
            revision: Revision::LATEST_WITH_HANDSHAKE,
            batch,
            token,
            level: None,
            capabilities: Arc::default(),
            params: Map::new(),
        };
        match meta.filter(|meta| meta.contains_key(stateless::PROTOCOL_VERSION)) {
            Some(_) if batch.is_some() => {
                return Err(Refusal::invalid_request(
                    "Invalid request: batches belong to 2025-03-26",
                ));
            }
            Some(meta) => stateless::read_meta(meta, &mut request)?,
            None => self.join_session(&mut request)?,
        }
        request.params = params;
        Ok(request)
    }
}

impl Request {
    /// A required parameter that is a string.
    pub(super) fn string(&self, name: &str) -> Result<&str, Refusal> {
        string(&self.params, name)
    }

    /// An optional parameter that is an object; absent, an empty one.
    pub(super) fn object(&self, name: &str) -> Result<Map<String, Value>, Refusal> {
        match self.params.get(name) {
            None => Ok(Map::new()),
            Some(Value::Object(object)) => Ok(object.clone()),
            Some(_) => Err(Refusal::invalid_params(format!(
                "\"{name}\" must be an object"
            ))),
        }
    }

    /// What the call may know of its client, and the purpose that seals its state: the same
    /// method with the same parameters.
    pub(super) fn input(&self, sealer: &Sealer) -> Result<(String, Input), Refusal> {
        let mut input = Input {
            revision: Some(self.revision),
            capabilities: self.capabilities.clone(),
            answers: Map::new(),
        };
        if !self.revision.is_stateless() {
            return Ok((String::new(), input));
        }
        let purpose = self.purpose();
        match self.params.get("requestState") {
            None => {}
            Some(Value::String(state)) => {
                input.answers = sealer
                    .open(&purpose, state)
                    .map_err(Refusal::invalid_params)?;
            }
            Some(_) => return Err(Refusal::invalid_params("\"requestState\" must be a string")),
        }
        input.answers.extend(self.object("inputResponses")?);
        Ok((purpose, input))
    }

    fn purpose(&self) -> String {
        let mut params = self.params.clone();
        for name in ["_meta", "requestState", "inputResponses"] {
            params.shift_remove(name);
        }
        let mut params = Value::Object(params);
        params.sort_all_objects();
        let digest = Sha256::digest(params.to_string());
        format!("{} {}", self.method, BASE64.encode(digest))
    }
}

/// A required member that is a string.
pub(super) fn string<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a str, Refusal> {
    match object.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Refusal::invalid_params(format!(
            "\"{name}\" must be a string"
        ))),
        None => Err(Refusal::invalid_params(format!("\"{name}\" is missing"))),
    }
}
