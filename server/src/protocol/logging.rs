//! `logging/setLevel`.

use super::level::Level;
use super::refusal::Refusal;
use super::request::Request;
use super::{Reply, Server};

pub(super) fn set_level(server: &mut Server, request: &Request) -> Result<Reply, Refusal> {
    let name = request.string("level")?;
    let level = Level::parse(name)
        .ok_or_else(|| Refusal::invalid_params(format!("Unknown log level: {name}")))?;
    if let Some(session) = &mut server.session {
        session.level = level;
    }
    Ok(Reply::empty())
}
