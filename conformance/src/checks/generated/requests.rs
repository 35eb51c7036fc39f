//! Requests and notifications that are odd but legal: each request is answered once, under its
//! own id; no notification is answered.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::super::Context;
use super::stand::{Case, Fault, Heard, Stand, alive, key};
use crate::client::{Client, Reply};
use crate::property;
use crate::property::wire::{self, Asks, Known, Owed};

const EXACTLY_ONE: &str = "jsonrpc.response.exactly-one";
const SURVIVES: &str = "stdio.survives-valid-traffic";

/// Between the pieces of a line: long enough for a reader that waits to take the first one alone.
const PAUSE: Duration = Duration::from_millis(1);

pub(super) fn requests(ctx: &mut Context<'_>) {
    let plan = ctx.generated;
    let cases = wire::case(&known(ctx));
    let mut runner = property::runner(plan.seed, "requests");
    let mut stand = Stand::new(plan, ctx.client.limits(), ctx.revision());
    stand.put_all(ctx, &mut runner, &cases, plan.cases);
}

/// The request that every server of the revision answers.
pub(super) fn known(ctx: &Context<'_>) -> Known {
    let params = match ctx.handshake() {
        true => Value::Null,
        false => ctx.client.with_meta(None),
    };
    Known {
        method: ctx.client.cheap_method(),
        params: params.as_object().cloned().unwrap_or_else(Map::new),
    }
}

impl Case for wire::Case {
    const OBSERVED: &'static [&'static str] = &[
        "stdio.stdout-only-messages",
        "jsonrpc.notification.no-response",
        "jsonrpc.response.id-type",
        "jsonrpc.response.id-echo",
        "jsonrpc.response.result-xor-error",
        "jsonrpc.response.exactly-one",
    ];

    fn ids(&self) -> Vec<String> {
        wire::Case::ids(self).map(key).collect()
    }

    fn put(&self, client: &mut Client) -> Heard {
        let mut heard = Heard::default();
        let pieces = self.pieces();
        for (at, piece) in pieces.iter().enumerate() {
            if at > 0 {
                client.child().flush(Instant::now() + PAUSE);
                std::thread::sleep(PAUSE);
            }
            client.send(piece);
        }
        let until = Instant::now() + client.limits().request;
        for line in &self.lines {
            if let Owed::Reply { id, asks } = &line.owed {
                answer(client, id, *asks, until, &mut heard);
            }
            if heard.spent {
                return heard;
            }
        }
        let gone = alive(client, SURVIVES, "legal messages");
        heard.spent = gone.is_some();
        if gone.is_none() {
            heard.holds.push(SURVIVES);
            let all = Self::OBSERVED
                .iter()
                .filter(|_| !Case::ids(self).is_empty());
            heard.holds.extend(all);
        }
        heard.fault = gone.or(heard.fault);
        heard
    }
}

/// Waits for what is owed for a request.
fn answer(client: &mut Client, id: &Value, asks: Asks, until: Instant, heard: &mut Heard) {
    const EXTRA: &str = "meta.request-extra-keys";
    const UNKNOWN: &str = "jsonrpc.method-not-found";
    match (client.reply(id, until), asks) {
        (Reply::Gone, _) => {
            heard.fault = alive(client, SURVIVES, "legal messages");
            heard.spent = true;
        }
        (Reply::Silence, _) => {
            let message = "A legal request is not answered.";
            heard.fault = Some(Fault::silence(EXACTLY_ONE, message));
            heard.spent = true;
        }
        (Reply::Result { .. }, Asks::Unknown) => {
            let message = "A method that no server has gives a result.";
            heard.fault.get_or_insert(Fault::new(UNKNOWN, message));
        }
        (Reply::Error { .. }, Asks::Unknown) => heard.holds.push(UNKNOWN),
        // A server that refuses the plain request too has another reason.
        (Reply::Error { .. }, Asks::KnownWithMeta) if !serves_plain(client) => {}
        (Reply::Error { .. }, Asks::KnownWithMeta) => {
            let message = "A request with unknown keys in `_meta` gives an error.";
            heard.fault.get_or_insert(Fault::new(EXTRA, message));
        }
        (Reply::Result { .. }, Asks::KnownWithMeta) => heard.holds.push(EXTRA),
        (Reply::Error { error, .. }, Asks::Known | Asks::KnownWithMembers) => {
            let code = error.get("code").cloned().unwrap_or(Value::Null);
            let what = match asks {
                Asks::Known => "an odd but legal id",
                _ => "unknown members in `params`",
            };
            let note = format!("A request with {what} gives error {code}.");
            heard.notes.push((EXACTLY_ONE, note));
        }
        (Reply::Result { .. }, Asks::Known | Asks::KnownWithMembers) => {}
    }
}

/// Whether the same request without anything odd gives a result in this process.
fn serves_plain(client: &mut Client) -> bool {
    let reply = client.request(client.cheap_method(), None);
    matches!(reply, Reply::Result { .. })
}
