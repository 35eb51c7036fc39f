//! What holds before a revision is chosen: silence until the first message, and the answer to
//! versions that nobody has. A few processes, whatever the number of revisions; their verdicts count
//! in each of them.

use std::time::Duration;

use serde_json::{Map, Value};

use super::detect::Opening;
use super::session::after;
use super::{Judge, Run};
use crate::checks::exchange::{Exchange, Kind, evidence_since};
use crate::client::{Client, Reply, initialize_params};
use crate::spec::requirement::Breach;
use crate::spec::{Era, Revision};
use crate::verdict::Evidence;
use crate::wire::Event;

/// A version that no server has.
const BOGUS: &str = "1999-01-01";
/// One that may come: a client that is newer than the server asks so.
const FUTURE: &str = "2099-01-01";
const SILENT: &str = "stdio.silent-until-addressed";
const ECHO: &str = "lifecycle.version.echo-supported";
const COUNTER: &str = "lifecycle.version.counter-offer";
const LATEST: &str = "lifecycle.version.counter-offer-latest";
const REJECTED: &str = "versioning.initialize-rejected";
const NAMES: &str = "versioning.initialize-names-versions";
const ID: &str = "jsonrpc.response.id-echo";
const RULES: &[&str] = &[SILENT, ECHO, COUNTER, LATEST, REJECTED, NAMES, ID];

/// Judges the opening; one judge for each revision.
pub(super) fn judge(run: &Run<'_>, opening: &Opening) -> Vec<Judge> {
    run.step("opening");
    let mut judges = opening.judges("opening");
    if judges.is_empty() || !run.wants(RULES) {
        return judges;
    }
    let options = run.options;
    let revision = opening.revision();
    let Ok(mut client) = Client::start(&options.launch, options.limits, revision) else {
        for judge in &mut judges {
            judge.error(SILENT, "A new process could not be started.");
        }
        return judges;
    };
    run.started_process();
    // Three times as long as the server took to answer when it was greeted: what it writes at its
    // start it has written by then, also when more processes start beside it than did then.
    let patience = options
        .limits
        .quiet
        .max(opening.startup * 3)
        .min(Duration::from_secs(2));
    client.listen(patience);
    silence(&client, revision, &mut judges);
    let (reply, evidence) = initialize(&mut client, &BOGUS.into(), options.limits.startup);
    for judge in &mut judges {
        let era = judge.revision().era();
        if era == Era::Handshake {
            counter_offer(judge, BOGUS, &reply, &evidence, opening);
        } else if opening.handshake {
            for rule in [REJECTED, NAMES] {
                judge.not_applicable(rule, "The server speaks the handshake era too.");
            }
        } else {
            initialize_rejected(judge, &reply, &evidence, opening);
        }
    }
    run.put_away(client);
    offers_are_kept(run, &reply, opening, &mut judges);
    if opening.handshake {
        other_versions(run, revision, opening, &mut judges);
    }
    if let Some((id, evidence)) = &opening.stray {
        stray(id, evidence, &mut judges);
    }
    judges
}

/// A server that knows no `server/discover` can read its id all the same. It is nothing that such
/// a server need expect: a warning.
fn stray(id: &Value, evidence: &Evidence, judges: &mut [Judge]) {
    let text = format!("`server/discover` is answered with the id {id}, which it did not have.");
    for judge in judges {
        judge.broken_as(ID, Breach::Warn, text.as_str(), evidence.clone());
    }
}

/// Sends `initialize` with that version, or without one if it is null.
fn initialize(client: &mut Client, version: &Value, patience: Duration) -> (Reply, Evidence) {
    let from = client.log().len();
    let id = client.fresh_id();
    let mut params = initialize_params(BOGUS, &Map::new());
    params["protocolVersion"] = version.clone();
    if let (true, Some(params)) = (version.is_null(), params.as_object_mut()) {
        params.remove("protocolVersion");
    }
    let request = serde_json::json!({
        "jsonrpc": "2.0", "id": id, "method": "initialize", "params": params,
    });
    client.send(format!("{request}\n").as_bytes());
    let reply = client.reply(&id, after(patience));
    (reply, evidence_since(client.log(), from, 6))
}

/// A version newer than all gives a counter-offer as one older than all does. What is no version
/// has any answer.
fn other_versions(run: &Run<'_>, revision: Revision, opening: &Opening, judges: &mut [Judge]) {
    let options = run.options;
    let start = || {
        let client = Client::start(&options.launch, options.limits, revision).ok();
        client.inspect(|_| run.started_process())
    };
    let patience = options.limits.startup;
    let of_handshake = |judge: &&mut Judge| judge.revision().era() == Era::Handshake;
    let Some(mut client) = start() else { return };
    let (reply, evidence) = initialize(&mut client, &FUTURE.into(), patience);
    run.put_away(client);
    for judge in judges.iter_mut().filter(of_handshake) {
        counter_offer(judge, FUTURE, &reply, &evidence, opening);
    }
    let Some(mut client) = start() else { return };
    for version in [Value::Null, 20251125.into(), "".into()] {
        let (reply, _) = initialize(&mut client, &version, options.limits.request);
        let how = match reply {
            Reply::Error { .. } => continue,
            // The next would be a second `initialize` of one session.
            Reply::Result { .. } => break,
            Reply::Silence => "is not answered",
            Reply::Gone => "ends the server",
        };
        for judge in judges.iter_mut().filter(of_handshake) {
            let note = format!("`initialize` with `protocolVersion` {version} {how}.");
            judge.note(COUNTER, note);
        }
        break;
    }
    run.put_away(client);
}

/// What the server offers in place of another version, or lists as supported, it must accept when
/// it is offered.
fn offers_are_kept(run: &Run<'_>, reply: &Reply, opening: &Opening, judges: &mut [Judge]) {
    let offered = reply.result().and_then(crate::checks::negotiated);
    let refusal = match reply {
        Reply::Error { error, .. } => error.pointer("/data/supported").and_then(Value::as_array),
        _ => None,
    };
    let in_refusal = refusal.into_iter().flatten().filter_map(Value::as_str);
    let discovered = opening.discovered.iter().map(String::as_str);
    let named = (offered.into_iter().map(|v| (v, "The counter-offer")))
        .chain(in_refusal.map(|v| (v, "`data.supported` of the refusal")))
        .chain(discovered.map(|v| (v, "`server/discover`")));
    let mut seen = Vec::new();
    for (version, place) in named {
        let Some(version) = Revision::parse(version) else {
            continue;
        };
        // Those that it speaks it has accepted already.
        let is_new = !opening.revisions.contains(&version) && !seen.contains(&version);
        if opening.handshake && is_new && version.era() == Era::Handshake {
            seen.push(version);
            is_kept(run, version, place, judges);
        }
    }
}

fn is_kept(run: &Run<'_>, version: Revision, place: &str, judges: &mut [Judge]) {
    let options = run.options;
    let Ok(mut client) = Client::start(&options.launch, options.limits, version) else {
        return;
    };
    run.started_process();
    let reply = client.hello();
    let evidence = evidence_since(client.log(), 0, 6);
    run.put_away(client);
    let accepts = reply.result().and_then(crate::checks::negotiated) == Some(version.as_str());
    let handshake = |judge: &&mut Judge| judge.revision().era() == Era::Handshake;
    for judge in judges.iter_mut().filter(handshake) {
        if accepts {
            judge.holds(ECHO);
        } else {
            let text = format!(
                "{place} names version {version}, but `initialize` does not give it to who asks for it."
            );
            judge.broken(ECHO, text, evidence.clone());
        }
    }
}

fn silence(client: &Client, revision: Revision, judges: &mut [Judge]) {
    let exchange = Exchange::read(revision, client.log(), None, Map::new());
    let evidence = evidence_since(client.log(), 0, 4);
    let request = exchange
        .received
        .iter()
        .any(|m| matches!(m.kind, Kind::Request(_)));
    let wrote = client
        .log()
        .iter()
        .any(|e| matches!(e.event, Event::Received(_)));
    let fault = if !exchange.strange.is_empty() {
        Some("The server writes something that is no message before it was spoken to.")
    } else if request {
        Some("The server sends a request before it was spoken to.")
    } else if wrote {
        Some("The server sends a message before it was spoken to.")
    } else {
        None
    };
    for judge in judges {
        match fault {
            None => judge.holds(SILENT),
            Some(text) => judge.broken(SILENT, text, evidence.clone()),
        }
    }
}

fn counter_offer(
    judge: &mut Judge,
    asked: &str,
    reply: &Reply,
    evidence: &Evidence,
    opening: &Opening,
) {
    let mut broken = |rule: &str, breach, text: String| {
        judge.broken_as(rule, breach, text, evidence.clone());
    };
    match reply {
        Reply::Result { result, .. } => {
            let version = result.get("protocolVersion").and_then(Value::as_str);
            match version {
                Some(version) if version == asked => broken(
                    COUNTER,
                    Breach::Fail,
                    format!("The server accepts the version {asked}, which does not exist."),
                ),
                Some(version) if Revision::parse(version).is_some() => {
                    judge.holds(COUNTER);
                    latest(judge, version, evidence, opening);
                    return;
                }
                Some(version) if looks_like_version(version) => {
                    judge.note(
                        COUNTER,
                        format!("The counter-offer {version} is no published revision."),
                    );
                }
                _ => broken(
                    COUNTER,
                    Breach::Fail,
                    format!("The answer to version {asked} names no version."),
                ),
            }
        }
        Reply::Error { error, .. } => {
            let listed = error
                .pointer("/data/supported")
                .is_some_and(Value::is_array);
            let breach = if listed { Breach::Warn } else { Breach::Fail };
            broken(
                COUNTER,
                breach,
                format!("An unknown version gives an error, not a counter-offer: {error}"),
            );
        }
        Reply::Silence => broken(
            COUNTER,
            Breach::Fail,
            format!("`initialize` with version {asked} is not answered."),
        ),
        Reply::Gone => broken(
            COUNTER,
            Breach::Fail,
            format!("`initialize` with version {asked} ends the server."),
        ),
    }
    judge.blocked(LATEST, COUNTER);
}

/// Dates, `DRAFT-…` and the like: something that could be a version.
fn looks_like_version(text: &str) -> bool {
    text.chars().any(|c| c.is_ascii_digit()) && text.len() <= 40
}

fn latest(judge: &mut Judge, offered: &str, evidence: &Evidence, opening: &Opening) {
    let newest = opening
        .revisions
        .iter()
        .filter(|revision| revision.era() == Era::Handshake)
        .max();
    match newest {
        Some(newest) if offered < newest.as_str() => judge.broken(
            LATEST,
            format!("The server offers {offered}, though it speaks {newest}."),
            evidence.clone(),
        ),
        _ => judge.holds(LATEST),
    }
}

fn initialize_rejected(judge: &mut Judge, reply: &Reply, evidence: &Evidence, opening: &Opening) {
    match reply {
        Reply::Error { error, .. } => {
            judge.holds(REJECTED);
            let text = error.to_string();
            if opening
                .discovered
                .iter()
                .any(|version| text.contains(version.as_str()))
            {
                judge.holds(NAMES);
            } else {
                let message = "The error for `initialize` names no version that the server speaks.";
                judge.broken(NAMES, message, evidence.clone());
            }
        }
        Reply::Result { .. } => {
            for rule in [REJECTED, NAMES] {
                judge.not_applicable(rule, "The server answers `initialize`.");
            }
        }
        Reply::Silence | Reply::Gone => {
            let message = "`initialize` is not answered; an error of any code is due.";
            judge.broken(REJECTED, message, evidence.clone());
            judge.blocked(NAMES, REJECTED);
        }
    }
}
