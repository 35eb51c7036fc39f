//! Which revisions a server claims: asked in processes of their own, which are then used to
//! judge those revisions.
//!
//! Only `server/discover` shows the stateless era: many servers of the handshake era answer
//! modern requests of other methods. A revision of the handshake is claimed when a process that
//! is offered it answers with it.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::session::{after, last_lines};
use super::{Judge, Run};
use crate::checks::Facts;
use crate::checks::exchange::{Exchange, Kind, Received, evidence_since, shorten};
use crate::client::{Client, Reply, initialize_params};
use crate::spec::{Era, Revision};
use crate::verdict::{Evidence, Fatal};
use crate::wire::{Body, Entry, Event, SpawnError};

/// A revision that the server claims, with the process that was greeted in it.
pub(super) struct Claim {
    pub revision: Revision,
    pub client: Client,
    pub hello: Value,
    pub dual_era: bool,
}

impl Claim {
    /// What the greeting told.
    pub(super) fn facts(&self) -> Facts {
        let capabilities = self.hello.get("capabilities").and_then(Value::as_object);
        Facts {
            hello: self.hello.clone(),
            capabilities: capabilities.cloned().unwrap_or_default(),
            dual_era: self.dual_era,
            ..Facts::default()
        }
    }
}

/// What was found out.
#[derive(Default)]
pub(super) struct Found {
    /// Set when the server broke a rule in its very greeting; nothing is claimed then.
    pub hopeless: Option<Hopeless>,
    /// Revisions that the user names and the server does not speak.
    pub refused: Vec<Hopeless>,
    /// The claimed revisions to be judged, oldest first.
    pub claimed: Vec<Claim>,
    /// Versions that the server names and the suite does not know.
    pub unknown: Vec<String>,
    /// Remarks for the report.
    pub remarks: Vec<String>,
    /// How long the slowest greeting took.
    pub startup: Duration,
    /// Whether the server answers `initialize` at all, judged or not.
    pub handshake: bool,
    /// The versions that `server/discover` lists.
    pub discovered: Vec<String>,
    /// The id of a response to `server/discover` that is not the request's.
    pub stray: Option<(Value, Evidence)>,
}

/// What the opening checks need to know.
pub(super) struct Opening {
    pub revisions: Vec<Revision>,
    pub startup: Duration,
    pub handshake: bool,
    pub discovered: Vec<String>,
    pub stray: Option<(Value, Evidence)>,
}

impl Opening {
    /// One judge for each revision.
    pub(super) fn judges(&self, check: &str) -> Vec<Judge> {
        let mut judges: Vec<Judge> = self.revisions.iter().map(|r| Judge::new(*r)).collect();
        judges.iter_mut().for_each(|judge| judge.enter(check));
        judges
    }

    /// A revision that the server speaks.
    pub(super) fn revision(&self) -> Revision {
        let first = self.revisions.first().copied();
        first.unwrap_or(Revision::V2025_11_25)
    }
}

impl Found {
    pub(super) fn server_info(&self) -> Option<Value> {
        self.claimed.iter().rev().find_map(|claim| {
            let hello = &claim.hello;
            hello
                .get("serverInfo")
                .or_else(|| hello.pointer("/_meta/io.modelcontextprotocol~1serverInfo"))
                .cloned()
        })
    }

    pub(super) fn opening(&self) -> Opening {
        Opening {
            revisions: self.claimed.iter().map(|claim| claim.revision).collect(),
            startup: self.startup,
            handshake: self.handshake,
            stray: self.stray.clone(),
            discovered: self.discovered.clone(),
        }
    }
}

/// The answer of one process to its greeting.
struct Greeted {
    client: Client,
    reply: Reply,
    took: Duration,
}

/// Greets a new process.
fn greet(run: &Run<'_>, revision: Revision) -> Result<Greeted, SpawnError> {
    let options = run.options;
    let mut client = Client::start(&options.launch, options.limits, revision)?;
    run.started_process();
    let began = Instant::now();
    let reply = client.hello();
    Ok(Greeted {
        client,
        reply,
        took: began.elapsed(),
    })
}

/// Finds out which revisions the server claims. The error is what the user is told when it is
/// none.
pub(super) fn detect(run: &Run<'_>) -> Result<Found, Box<Fatal>> {
    run.plan(2);
    run.step("which revisions the server claims");
    let (modern, legacy) = std::thread::scope(|scope| {
        let modern = scope.spawn(|| greet_modern(run));
        let legacy = greet(run, Revision::V2025_11_25);
        let modern = modern
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (modern, legacy)
    });
    let (modern, legacy) = match (modern, legacy) {
        (Ok(modern), Ok(legacy)) => (modern, legacy),
        (Err(error), _) | (_, Err(error)) => {
            return Err(Box::new(Fatal {
                message: error.message,
                evidence: Evidence::default(),
                ended: false,
            }));
        }
    };
    let modern_named = named(run, Revision::V2026_07_28);
    // Who names the revision says that the server speaks it: any result is to be judged as one.
    let is_modern = speaks_modern(&modern.reply)
        || modern_named && matches!(modern.reply, Reply::Result { .. });
    let is_legacy = matches!(legacy.reply, Reply::Result { .. });
    if names_no_handshake(run) && matches!(modern.reply, Reply::Error { .. }) && !is_modern {
        return Ok(Found {
            refused: vec![no_discover(run, modern)],
            handshake: is_legacy,
            ..Found::default()
        });
    }
    if !is_modern && !is_legacy && !refuses_only_the_version(&legacy.reply) {
        let hopeless = nobody_there(run, modern, legacy)?;
        return Ok(Found {
            hopeless: Some(hopeless),
            ..Found::default()
        });
    }
    let mut found = Found {
        startup: modern.took.max(legacy.took),
        handshake: is_legacy,
        ..Found::default()
    };
    if !is_modern {
        found.startup = legacy.took;
    }
    legacy_claims(run, legacy, &mut found)?;
    if is_modern && matches!(modern.reply, Reply::Result { .. }) {
        modern_claim(modern, &mut found);
    } else if modern_named {
        found.refused.push(no_discover(run, modern));
    } else if is_modern {
        let text = "The server knows the stateless era, but not 2026-07-28.";
        found.remarks.push(text.to_owned());
    } else {
        found.stray = stray(&modern);
        let answered = found.stray.is_some();
        let remark = to_the_probe(&modern.reply).filter(|_| !answered);
        found.remarks.extend(remark);
    }
    for claim in &mut found.claimed {
        claim.dual_era = is_modern && is_legacy;
    }
    found.claimed.retain(|claim| wanted(run, claim.revision));
    found.claimed.sort_by_key(|claim| claim.revision);
    Ok(found)
}

/// What a server of the handshake era does to clients that ask for the newer protocol first.
fn to_the_probe(reply: &Reply) -> Option<String> {
    let what = match reply {
        Reply::Silence => "is not answered: a client that asks so first waits for its whole limit",
        Reply::Gone => "ends the server: a client that asks so first has to start it anew",
        _ => return None,
    };
    Some(format!(
        "`server/discover` {what}. The error -32601 tells it at once."
    ))
}

/// A response to the probe under an id that it did not have.
fn stray(greeted: &Greeted) -> Option<(Value, Evidence)> {
    let log = greeted.client.log();
    let exchange = Exchange::read(greeted.client.revision(), log, None, Map::new());
    let is_stray = |m: &&Received<'_>| m.kind == Kind::Response { request: None };
    let message = exchange.received.iter().find(is_stray)?;
    let id = message.value.get("id").cloned().unwrap_or_default();
    Some((id, evidence_since(log, 0, 6)))
}

/// `server/discover` to a new process. A server of the handshake era may say nothing at all: then
/// an `initialize` behind it tells that it was passed over, without waiting for the whole limit.
fn greet_modern(run: &Run<'_>) -> Result<Greeted, SpawnError> {
    let options = run.options;
    let mut client = Client::start(&options.launch, options.limits, Revision::V2026_07_28)?;
    run.started_process();
    let began = Instant::now();
    let id = client.fresh_id();
    client.post(id.clone(), "server/discover", None);
    let mut reply = client.reply(
        &id,
        after(Duration::from_millis(1_500).min(options.limits.startup)),
    );
    if reply == Reply::Silence {
        let behind = client.fresh_id();
        let params = initialize_params(Revision::V2025_11_25.as_str(), &Map::new());
        client.post(behind.clone(), "initialize", Some(params));
        let until = began + options.limits.startup;
        if matches!(
            client.reply(&behind, until),
            Reply::Result { .. } | Reply::Error { .. }
        ) {
            reply = client.reply(&id, after(options.limits.quiet));
        } else {
            reply = client.reply(&id, Instant::now());
        }
        // A process that heard both eras says nothing of either: the modern one starts anew.
        if speaks_modern(&reply) {
            client.into_child().kill();
            return greet(run, Revision::V2026_07_28);
        }
    }
    Ok(Greeted {
        client,
        reply,
        took: began.elapsed(),
    })
}

/// A discover result, or an error that only a modern server gives.
fn speaks_modern(reply: &Reply) -> bool {
    match reply {
        Reply::Result { result, .. } => result.get("supportedVersions").is_some(),
        _ => matches!(reply.code(), Some(-32022 | -32021)),
    }
}

/// An error in place of a counter-offer: older versions may still be spoken.
fn refuses_only_the_version(reply: &Reply) -> bool {
    match reply {
        Reply::Error { error, .. } => {
            let text = error.to_string().to_lowercase();
            text.contains("version")
        }
        _ => false,
    }
}

fn wanted(run: &Run<'_>, revision: Revision) -> bool {
    match &run.options.revisions {
        None => true,
        Some(list) => list.contains(&revision),
    }
}

/// Whether the user names the revision: then the server is judged as claiming it.
fn named(run: &Run<'_>, revision: Revision) -> bool {
    run.options.revisions.is_some() && wanted(run, revision)
}

/// Whether the user names revisions, and none with a handshake.
fn names_no_handshake(run: &Run<'_>) -> bool {
    let named = run.options.revisions.as_deref().unwrap_or_default();
    !named.is_empty() && named.iter().all(|r| r.era() == Era::Stateless)
}

fn modern_claim(greeted: Greeted, found: &mut Found) {
    let Reply::Result { result, .. } = greeted.reply else {
        return;
    };
    for version in crate::checks::supported_versions(&result) {
        found.discovered.push(version.to_owned());
        if Revision::parse(version).is_none() {
            found.unknown.push(version.to_owned());
        }
    }
    found.claimed.push(Claim {
        revision: Revision::V2026_07_28,
        client: greeted.client,
        hello: result,
        dual_era: false,
    });
}

/// Offers each revision of the handshake to a process of its own.
fn legacy_claims(run: &Run<'_>, first: Greeted, found: &mut Found) -> Result<(), Box<Fatal>> {
    let more = found_handshake(&first);
    let mut greeted = vec![(Revision::V2025_11_25, first)];
    for revision in Revision::ALL {
        let other = revision.era() == Era::Handshake && revision != Revision::V2025_11_25;
        if other && (more && wanted(run, revision) || named(run, revision)) {
            match greet(run, revision) {
                Ok(answer) => greeted.push((revision, answer)),
                Err(error) => {
                    return Err(Box::new(Fatal {
                        message: error.message,
                        evidence: Evidence::default(),
                        ended: false,
                    }));
                }
            }
        }
    }
    for (revision, answer) in greeted {
        let version = match &answer.reply {
            Reply::Result { result, .. } => {
                found.handshake = true;
                found.startup = found.startup.max(answer.took);
                crate::checks::negotiated(result).map(str::to_owned)
            }
            _ if named(run, revision) => {
                found.refused.push(no_handshake(run, revision, answer));
                continue;
            }
            _ => continue,
        };
        // An answer without any version is judged as what was offered; of several, once.
        let claims = match &version {
            Some(version) => version == revision.as_str(),
            None => revision == Revision::V2025_11_25 || named(run, revision),
        };
        if claims {
            if let Reply::Result { result, .. } = answer.reply {
                found.claimed.push(Claim {
                    revision,
                    client: answer.client,
                    hello: result,
                    dual_era: false,
                });
            }
            continue;
        }
        // A counter-offer: it is judged where it is offered.
        if let Some(version) = version
            && Revision::parse(&version).is_none()
            && !found.unknown.contains(&version)
        {
            found.unknown.push(version);
        }
        if named(run, revision) {
            found.refused.push(no_handshake(run, revision, answer));
        }
    }
    Ok(())
}

/// The stateless revision is named, but `server/discover` does not answer.
fn no_discover(run: &Run<'_>, greeted: Greeted) -> Hopeless {
    let said = match &greeted.reply {
        Reply::Error { error, .. } => format!("gives an error: {error}"),
        Reply::Gone => "ends the server".to_owned(),
        _ => "is not answered".to_owned(),
    };
    let message = format!("`server/discover` {said}.");
    refusal(
        run,
        Revision::V2026_07_28,
        "discover.implemented",
        message,
        greeted.client,
    )
}

/// A revision with a handshake is named, but `initialize` does not give it.
fn no_handshake(run: &Run<'_>, revision: Revision, greeted: Greeted) -> Hopeless {
    const ECHO: &str = "lifecycle.version.echo-supported";
    const RESPONSE: &str = "lifecycle.initialize-response";
    let refuses_version = refuses_only_the_version(&greeted.reply);
    let (rule, said) = match &greeted.reply {
        Reply::Result { result, .. } => {
            let version = result.get("protocolVersion").unwrap_or(&Value::Null);
            (ECHO, format!("is answered with version {version}"))
        }
        Reply::Error { error, .. } if refuses_version => (ECHO, format!("is refused: {error}")),
        Reply::Error { error, .. } => (RESPONSE, format!("gives an error: {error}")),
        Reply::Gone => (RESPONSE, "ends the server".to_owned()),
        Reply::Silence => (RESPONSE, "is not answered".to_owned()),
    };
    let message = format!("`initialize` with version {revision} {said}.");
    refusal(run, revision, rule, message, greeted.client)
}

/// What is said of a revision that the user names and the server does not speak.
fn refusal(
    run: &Run<'_>,
    revision: Revision,
    rule: &'static str,
    message: String,
    client: Client,
) -> Hopeless {
    let patience = run.options.limits.stop.min(Duration::from_secs(1));
    let ended = client.into_child().stop(patience);
    let mut evidence = evidence_since(&ended.log, 0, 12);
    evidence.stderr = last_lines(&ended.stderr, 12);
    let mut judge = Judge::new(revision);
    judge.enter("hello");
    judge.broken(rule, message, evidence);
    judge.note(
        rule,
        "The revision is judged because `--revision` names it.",
    );
    Hopeless { judge, by: rule }
}

/// Whether the first answer leaves room for other revisions of the handshake.
fn found_handshake(greeted: &Greeted) -> bool {
    matches!(greeted.reply, Reply::Result { .. }) || refuses_only_the_version(&greeted.reply)
}

/// What the greeting of a server came to, when no revision can be judged: it speaks JSON-RPC, but
/// breaks a rule at its first word.
pub(super) struct Hopeless {
    /// What was heard; at least one rule is broken.
    pub(super) judge: Judge,
    /// The rule that everything else waits for.
    pub(super) by: &'static str,
}

impl Hopeless {
    /// The judge, once all other rules of the revision are said to wait.
    pub(super) fn judged(mut self) -> Judge {
        for id in super::coverage::covered(self.judge.revision()) {
            self.judge.blocked(&id, self.by);
        }
        self.judge
    }
}

/// Neither greeting was answered as an MCP server would. A server that answers in JSON-RPC is told
/// the rule it breaks; of anything else is said, as exactly as can be seen, what it does.
fn nobody_there(run: &Run<'_>, modern: Greeted, legacy: Greeted) -> Result<Hopeless, Box<Fatal>> {
    let limits = run.options.limits;
    modern.client.into_child().kill();
    let mut client = legacy.client;
    // A process that is about to end says more when it has ended.
    if legacy.reply == Reply::Gone {
        client.child().wait(after(Duration::from_millis(500)));
    }
    let ended_itself = client.child().exited();
    let ended = client
        .into_child()
        .stop(limits.stop.min(Duration::from_secs(1)));
    if let Some(hopeless) = broken_greeting(&legacy.reply, &ended.log, limits.request) {
        return Ok(hopeless);
    }
    let mut evidence = evidence_since(&ended.log, 0, 12);
    evidence.stderr = last_lines(&ended.stderr, 12);
    Err(Box::new(Fatal {
        message: describe(run, &ended.log, &legacy.reply, ended_itself),
        evidence,
        ended: ended_itself.is_some(),
    }))
}

/// Reads the conversation with the observers if the server answered in JSON-RPC at all.
fn broken_greeting(reply: &Reply, log: &[Entry], patience: Duration) -> Option<Hopeless> {
    let revision = Revision::V2025_11_25;
    let mut exchange = Exchange::read(revision, log, None, Map::new());
    exchange.patience = patience;
    let mut judge = Judge::new(revision);
    super::session::observe_log(&exchange, &mut judge);
    let answered = exchange
        .received
        .iter()
        .any(|m| matches!(m.kind, Kind::Response { .. }) && m.value.get("id").is_some());
    let spread = judge.is_broken("stdio.no-embedded-newlines");
    let echo = exchange
        .received
        .iter()
        .any(|m| m.value.get("method").and_then(Value::as_str) == Some("initialize"));
    if echo || !(answered || spread) {
        return None;
    }
    if let Reply::Error { error, .. } = reply {
        judge.enter("hello");
        let evidence = evidence_since(log, 0, 6);
        let message = format!("`initialize` gives an error: {error}");
        judge.broken("lifecycle.initialize-response", message, evidence);
    }
    let by = judge.broken_ids().next()?;
    Some(Hopeless { judge, by })
}

fn describe(
    run: &Run<'_>,
    log: &[Entry],
    reply: &Reply,
    status: Option<std::process::ExitStatus>,
) -> String {
    let sent: Vec<&[u8]> = log
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::Sent(bytes) => Some(bytes.strip_suffix(b"\n").unwrap_or(bytes)),
            _ => None,
        })
        .collect();
    let mut strange = None;
    let mut echo = false;
    let mut lines = 0_usize;
    for entry in log {
        if let Event::Received(line) = &entry.event {
            lines += 1;
            echo |= sent.contains(&line.bytes.as_slice());
            if !matches!(line.body, Body::Json(_)) && strange.is_none() {
                strange = Some(shorten(&String::from_utf8_lossy(&line.bytes), 60));
            }
        }
    }
    if echo {
        return "The program sends back what it is sent: it is no MCP server.".to_owned();
    }
    let limit = run.options.limits.startup.as_secs_f32();
    let ended = status.map(|status| format!("ended ({status})"));
    match (reply, strange) {
        (_, Some(text)) if lines > 1_000 => format!(
            "The program floods its standard output with lines that are no messages (`{text}`, {lines} lines read) and does not answer. Is it an MCP server over stdio?"
        ),
        (Reply::Gone, Some(text)) => format!(
            "The program wrote `{text}`, which is no message, and {} before it answered `initialize` or `server/discover`. Is it an MCP server over stdio?",
            ended.unwrap_or_else(|| "closed its output".to_owned())
        ),
        (Reply::Gone, None) => format!(
            "The program {} before it answered `initialize` or `server/discover`. Does it need arguments or environment variables?",
            ended.unwrap_or_else(|| "closed its output".to_owned())
        ),
        (Reply::Error { error, .. }, _) => {
            format!("The server refuses both greetings; to `initialize` it says: {error}")
        }
        (_, Some(text)) => format!(
            "The program wrote `{text}`, which is no message, and did not answer `initialize` or `server/discover` within {limit} s."
        ),
        _ => format!(
            "The program did not answer `initialize` or `server/discover` within {limit} s. Does it speak MCP over stdio? A slow start needs `--startup-timeout`."
        ),
    }
}
