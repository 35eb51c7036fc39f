//! Plays a transcript against a server.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::pattern::{Mismatch, Pattern, shorten};
use super::template::{Template, Vars};
use super::{Action, Allow, Step, Transcript, cut};
use crate::client::{Client, Reply};
use crate::spec::{Era, Revision};
use crate::wire::{Body, Ended, EndedBy, Event, Launch, Limits, Line, Received};

/// How long the output of a process that has ended is still read, if somebody holds it open.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// How a play went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The server said what it should.
    Passed,
    /// It did not.
    Failed {
        /// The line of the transcript, from 1.
        line: usize,
        /// What was seen, in a sentence.
        message: String,
        /// What kind of failure it is.
        kind: Failure,
        /// The entries of the log that show it: of the last of [`Player::ended`] if the
        /// transcript had a process of its own, otherwise of the shared client.
        log: Range<usize>,
    },
    /// The transcript is not for this server or revision; why.
    NotApplicable(String),
    /// The suite could not judge; why.
    Error(String),
}

/// Kinds of failure: what one transcript shows of its own rules, and what any would show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Failure {
    /// The answer is not the one that the line asks for, or something came where nothing may.
    #[default]
    Answer,
    /// No answer came in time.
    Silence,
    /// The server ended, or closed its output.
    Gone,
    /// In place of the answer came one that nobody asked for.
    Stray,
    /// The answer has a `result` that is no object.
    NoObject,
    /// A line that is no message.
    NoMessage,
}

/// Whom a transcript is played against, and what is known of the server.
#[derive(Debug)]
pub struct Player<'a> {
    /// How a process of its own is started.
    pub launch: &'a Launch,
    /// The limits that are kept.
    pub limits: Limits,
    /// The revision that is spoken.
    pub revision: Revision,
    /// The server's capabilities, for `@requires`.
    pub capabilities: Map<String, Value>,
    /// The names of the server's tools, for `@requires`.
    pub tools: Vec<String>,
    /// A client after the handshake, for transcripts that may share a process. Without it every
    /// transcript has a process of its own.
    pub shared: Option<&'a mut Client>,
    /// The processes that were started and ended for transcripts, in order.
    pub ended: Vec<Ended>,
}

impl<'a> Player<'a> {
    /// A player without a shared client, that knows nothing of the server yet.
    pub fn new(launch: &'a Launch, limits: Limits, revision: Revision) -> Player<'a> {
        Player {
            launch,
            limits,
            revision,
            capabilities: Map::new(),
            tools: vec![],
            shared: None,
            ended: vec![],
        }
    }
}

/// Plays a transcript. A process of its own is started for it, and stopped after it, unless the
/// player has a shared client and the transcript may use it.
pub fn play(transcript: &Transcript, player: &mut Player<'_>) -> Outcome {
    Run::new(transcript, player).play()
}

/// Plays a transcript to learn what the server really says; nothing it says is a failure.
pub(super) fn learn(transcript: &Transcript, player: &mut Player<'_>) -> Result<Learnt, Outcome> {
    let mut run = Run::new(transcript, player);
    run.learnt = Some(Learnt::default());
    match run.play_on() {
        Outcome::Passed => {}
        other => return Err(other),
    }
    let mut learnt = run.learnt.take().unwrap_or_default();
    learnt.vars = std::mem::take(&mut run.vars);
    Ok(learnt)
}

/// What the server really said.
#[derive(Default)]
pub(super) struct Learnt {
    /// By the index of the step that expected something else, or anything.
    pub(super) said: HashMap<usize, Value>,
    /// Steps that expected what did not come.
    pub(super) missing: Vec<usize>,
    /// What nothing expected, after that step.
    pub(super) extra: Vec<(usize, Result<Value, String>)>,
    pub(super) vars: Vars,
}

type Played<T = ()> = Result<T, Outcome>;

/// A line that the server sent and that is not yet accounted for.
struct Message {
    /// Its index in the log.
    at: usize,
    value: Value,
}

/// A `<--` line that waits for its message.
struct Open {
    step: usize,
    /// Why the message that comes nearest does not fit.
    near: Option<Mismatch>,
}

struct Run<'r, 'a> {
    transcript: &'r Transcript,
    player: &'r mut Player<'a>,
    own: Option<Client>,
    launch: Launch,
    /// What `@args` adds to the launch.
    args: Vec<std::ffi::OsString>,
    folder: Option<TempDir>,
    vars: Vars,
    capabilities: Map<String, Value>,
    answers: Vec<(String, Value)>,
    answer_none: bool,
    strict: bool,
    allowed: Vec<Allow>,
    /// Steps whose patterns may not come.
    forbidden: Vec<usize>,
    timeout: Option<Duration>,
    kind: Failure,
    pending: Vec<Message>,
    /// The first entry of the log that was not looked at.
    seen: usize,
    /// Where the exchange that is under way begins in the log.
    exchange: usize,
    answered: bool,
    exited: bool,
    /// The step that is being played.
    step: usize,
    learnt: Option<Learnt>,
}

impl<'r, 'a> Run<'r, 'a> {
    fn new(transcript: &'r Transcript, player: &'r mut Player<'a>) -> Run<'r, 'a> {
        Run {
            transcript,
            own: None,
            launch: player.launch.clone(),
            args: vec![],
            folder: None,
            vars: Vars::new(),
            capabilities: Map::new(),
            answers: vec![],
            answer_none: false,
            strict: false,
            allowed: vec![],
            forbidden: vec![],
            timeout: None,
            kind: Failure::default(),
            pending: vec![],
            seen: 0,
            exchange: 0,
            answered: true,
            exited: false,
            step: 0,
            learnt: None,
            player,
        }
    }

    fn play(mut self) -> Outcome {
        self.play_on()
    }

    fn play_on(&mut self) -> Outcome {
        let (span, revision) = (self.transcript.span, self.player.revision);
        if !span.contains(revision) {
            let why = format!("it is for {span}, and {revision} is spoken");
            return Outcome::NotApplicable(why);
        }
        let player = &self.player;
        if let Some(why) = self.transcript.missing(&player.capabilities, &player.tools) {
            return Outcome::NotApplicable(why);
        }
        let played = self.prepare().and_then(|()| self.steps());
        let outcome = match played.and_then(|()| self.finish()) {
            Ok(()) => Outcome::Passed,
            Err(outcome) => outcome,
        };
        self.end();
        if let Some(shared) = self.player.shared.as_deref_mut() {
            shared.forget();
        }
        outcome
    }

    /// The variables, the temporary folder, and what a shared client still had to say.
    fn prepare(&mut self) -> Played {
        let revision = self.player.revision.as_str();
        self.vars.insert("REVISION".into(), revision.into());
        let steps = &self.transcript.steps;
        let file = |step: &Step| matches!(step.action, Action::File { .. });
        let files = steps.iter().any(file);
        if files || self.transcript.source.contains("$TMP") {
            let folder = TempDir::with_prefix("touchstone-")
                .map_err(|error| Outcome::Error(format!("no temporary folder: {error}")))?;
            let path = folder.path().to_string_lossy().into_owned();
            self.vars.insert("TMP".into(), path.into());
            if files && self.launch.cwd.is_none() {
                // The server finds the files in its working folder.
                let absolute = self.launch.absolute();
                self.launch = absolute.map_err(|error| Outcome::Error(error.message))?;
                self.launch.cwd = Some(folder.path().to_owned());
            }
            self.folder = Some(folder);
        }
        if self.shares() {
            let client = self.client()?;
            while let Received::Line(_) = client.next(Instant::now()) {}
            client.forget();
            self.seen = client.log().len();
            self.exchange = self.seen;
        }
        Ok(())
    }

    fn shares(&self) -> bool {
        self.player.shared.is_some() && !self.transcript.fresh
    }

    /// The client, started if it is the transcript's own and not running.
    fn client(&mut self) -> Played<&mut Client> {
        if !self.shares() && self.own.is_none() {
            let client = self.start()?;
            self.own = Some(client);
        }
        let shared = self.player.shared.as_deref_mut();
        let client = self.own.as_mut().or(shared);
        client.ok_or_else(|| Outcome::Error("there is no process to speak to".into()))
    }

    fn start(&mut self) -> Played<Client> {
        let (limits, revision) = (self.player.limits, self.player.revision);
        let mut launch = self.launch.clone();
        launch.args.extend(self.args.iter().cloned());
        let client = Client::start(&launch, limits, revision);
        let mut client = client.map_err(|error| Outcome::Error(error.message))?;
        client.declare(self.capabilities.clone());
        for (method, result) in &self.answers {
            client.answer(method, result.clone());
        }
        if self.answer_none {
            client.answer_none();
        }
        if self.transcript.handshake && revision.era() == Era::Handshake {
            if !matches!(client.hello(), Reply::Result { .. }) {
                let stderr = client.child().stderr();
                let ended = client.into_child().stop(limits.stop);
                let why = format!(
                    "the handshake did not succeed{}{}",
                    exit_words(ended.status),
                    last_words(&stderr)
                );
                self.player.ended.push(ended);
                return Err(Outcome::Error(why));
            }
            client.initialized();
        }
        let meta = client.with_meta(None)["_meta"].clone();
        self.vars.insert("META".into(), meta);
        self.seen = client.log().len();
        self.exchange = self.seen;
        self.exited = false;
        Ok(client)
    }

    fn steps(&mut self) -> Played {
        let steps = &self.transcript.steps;
        while self.step < steps.len() {
            let group = steps[self.step..]
                .iter()
                .take_while(|step| matches!(step.action, Action::Expect(_)))
                .count();
            if group > 0 {
                self.expect(self.step..self.step + group)?;
                self.step += group;
            } else {
                self.act(&steps[self.step].action)?;
                self.step += 1;
            }
        }
        self.step = steps.len().saturating_sub(1);
        Ok(())
    }

    fn act(&mut self, action: &Action) -> Played {
        match action {
            Action::Send {
                line,
                newline,
                chunks,
            } => {
                let mut text = self.line(line)?;
                if *newline {
                    text.push('\n');
                }
                self.send(text.as_bytes(), *chunks)
            }
            Action::SendHex { bytes, chunks } => self.send(bytes, *chunks),
            // A group of its own.
            Action::Expect(_) | Action::Check(_) => Ok(()),
            Action::Silence(time) => {
                self.judge()?;
                self.listen(*time)?;
                self.judge()
            }
            Action::Wait(time) => self.listen(*time),
            Action::Restart { kill } => {
                self.client()?;
                self.stop(*kill)?;
                self.client().map(|_| ())
            }
            Action::CloseStdin => {
                self.client()?.child().close_input();
                Ok(())
            }
            Action::Exit { code, within } => self.exit(*code, *within),
            Action::Args(args) => {
                let args = args.iter().map(|arg| self.fill(arg));
                let args = args.map(|arg| arg.map(Into::into));
                self.args = args.collect::<Played<_>>()?;
                Ok(())
            }
            Action::Env(name, value) => {
                let value = value.as_ref().map(|value| self.fill(value)).transpose()?;
                self.launch.env.push((name.into(), value.map(Into::into)));
                Ok(())
            }
            Action::File { path, body } => self.file(path, body),
            Action::Allow(Allow::Nothing) => {
                self.allowed.clear();
                self.strict = true;
                Ok(())
            }
            Action::Allow(allow) => {
                self.allowed.push(allow.clone());
                Ok(())
            }
            Action::Forbid(_) => {
                self.forbidden.push(self.step);
                Ok(())
            }
            Action::Declare(capabilities) => {
                self.capabilities = capabilities.clone();
                if let Some(client) = &mut self.own {
                    client.declare(capabilities.clone());
                }
                Ok(())
            }
            Action::Answer(None) => {
                self.answer_none = true;
                if let Some(client) = &mut self.own {
                    client.answer_none();
                }
                Ok(())
            }
            Action::Answer(Some((method, result))) => self.answer(method, result),
            Action::Timeout(time) => {
                self.timeout = Some(*time);
                Ok(())
            }
        }
    }

    fn fill(&self, template: &Template) -> Played<String> {
        template.fill(&self.vars, false).map_err(Outcome::Error)
    }

    fn answer(&mut self, method: &str, result: &Template) -> Played {
        let text = result.fill(&self.vars, true).map_err(Outcome::Error)?;
        let result = serde_json::from_str::<Value>(&text)
            .map_err(|error| Outcome::Error(format!("the answer to {method}: {error}")))?;
        if let Some(client) = &mut self.own {
            client.answer(method, result.clone());
        }
        self.answers.push((method.into(), result));
        Ok(())
    }

    fn file(&mut self, path: &str, body: &str) -> Played {
        let Some(folder) = &self.folder else {
            return Err(Outcome::Error("there is no temporary folder".into()));
        };
        let path = folder.path().join(path);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&path, body))
            .map_err(|error| Outcome::Error(format!("{}: {error}", path.display())))
    }

    /// The text of a line that is sent.
    fn line(&mut self, template: &Template) -> Played<String> {
        for name in template.names() {
            let id = self.transcript.ids.iter().any(|id| id == name);
            if id && !self.vars.contains_key(name) {
                let fresh = self.client()?.fresh_id();
                self.vars.insert(name.into(), fresh);
            }
        }
        // `$META` has its value from the start of the process.
        self.client()?;
        let text = template.fill(&self.vars, true).map_err(Outcome::Error)?;
        let stateless = self.player.revision.era() == Era::Stateless;
        match stateless && self.transcript.handshake {
            true => Ok(self.with_meta(text)),
            false => Ok(text),
        }
    }

    /// A request with the `_meta` of the stateless era; anything else as it stands.
    fn with_meta(&mut self, text: String) -> String {
        let Ok(Value::Object(mut message)) = serde_json::from_str(&text) else {
            return text;
        };
        if !message.contains_key("id") || !message.contains_key("method") {
            return text;
        }
        let Ok(client) = self.client() else {
            return text;
        };
        let params = client.with_meta(message.get("params").cloned());
        message.insert("params".into(), params);
        Value::Object(message).to_string()
    }

    fn send(&mut self, bytes: &[u8], chunks: Option<usize>) -> Played {
        let client = self.client()?;
        let from = client.log().len();
        let until = client.deadline();
        match chunks {
            None => client.send(bytes),
            Some(size) => {
                for piece in bytes.chunks(size) {
                    client.send(piece);
                    client.child().flush(until);
                    // So that the server has a chance to see the pieces apart.
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        if std::mem::take(&mut self.answered) {
            self.exchange = from;
        }
        Ok(())
    }

    /// Waits for the messages of a group of `<--` lines, in any order.
    fn expect(&mut self, group: Range<usize>) -> Played {
        let limit = self.timeout;
        let until = match limit {
            Some(limit) => Instant::now() + limit,
            None => self.client()?.deadline(),
        };
        let asked = Instant::now();
        let last = group.end - 1;
        let open = |step| Open { step, near: None };
        let mut open: Vec<Open> = group.map(open).collect();
        loop {
            self.place(&mut open, last)?;
            if open.is_empty() {
                break;
            }
            match self.pull(until)? {
                Received::Line(_) => {}
                end => {
                    self.missed(&open, end, asked.elapsed())?;
                    break;
                }
            }
        }
        self.answered = true;
        Ok(())
    }

    /// Expected messages did not come.
    fn missed(&mut self, open: &[Open], end: Received, waited: Duration) -> Played {
        if let Some(learnt) = &mut self.learnt {
            learnt.missing.extend(open.iter().map(|open| open.step));
            return Ok(());
        }
        let Some(first) = open.first() else {
            return Ok(());
        };
        let flooded = |entry: &crate::wire::Entry| matches!(entry.event, Event::Flooded);
        self.kind = match end {
            Received::Timeout => Failure::Silence,
            _ => Failure::Gone,
        };
        let client = self.client()?;
        let mut message = if end == Received::Timeout {
            format!(
                "no message that fits this line came within {:.1} s",
                waited.as_secs_f64()
            )
        } else if client.log().iter().any(flooded) {
            "the server writes without end".into()
        } else {
            // The exit follows the end of output at once, if it does.
            let status = client.child().wait(Instant::now() + LAST_WORDS);
            format!(
                "the server closed its output{} before a message that fits this line came",
                exit_words(status)
            )
        };
        if let Some(near) = &first.near {
            message.push_str(&format!("; of the nearest, {near}"));
        }
        Err(self.fail(first.step, message))
    }

    /// Finds a place for each message that came: a line that expects it now or later, or a
    /// permission. The rest is a failure.
    fn place(&mut self, open: &mut Vec<Open>, last: usize) -> Played {
        let mut kept = Vec::new();
        for message in std::mem::take(&mut self.pending) {
            if self.take(&message.value, open)? {
                continue;
            }
            if self.expected_later(&message.value, last + 1) {
                kept.push(message);
            } else {
                self.unexpected(&message, open)?;
            }
        }
        self.pending = kept;
        Ok(())
    }

    /// Gives the message to the first open line that it fits.
    fn take(&mut self, value: &Value, open: &mut Vec<Open>) -> Played<bool> {
        let steps = &self.transcript.steps;
        for (number, line) in open.iter_mut().enumerate() {
            let patterns = steps[line.step].action.patterns();
            let anything = patterns.is_empty() && !is_notification(value);
            let fitting = patterns.iter().find_map(|p| p.fit(value, &self.vars).ok());
            if let Some(taken) = fitting.or(anything.then(Vec::new)) {
                self.vars.extend(taken);
                if let Some(learnt) = self.learnt.as_mut().filter(|_| anything) {
                    learnt.said.insert(line.step, value.clone());
                }
                open.remove(number);
                return Ok(true);
            }
        }
        // The answer, but a wrong one: no use to wait on.
        for number in 0..open.len() {
            let patterns = steps[open[number].step].action.patterns();
            let Some(pattern) = patterns.iter().find(|p| self.about(p, "id", value)) else {
                continue;
            };
            if let Some(learnt) = &mut self.learnt {
                learnt.said.insert(open[number].step, value.clone());
                open.remove(number);
                return Ok(true);
            }
            let Err(mismatch) = pattern.fit(value, &self.vars) else {
                continue;
            };
            let message = match patterns.len() {
                1 => mismatch.to_string(),
                _ => format!("the answer fits no alternative: {}", shorten(value)),
            };
            let result = value.get("result");
            if result.is_some_and(|result| !result.is_object()) {
                self.kind = Failure::NoObject;
            }
            return Err(self.fail(open[number].step, message));
        }
        for line in open.iter_mut() {
            let patterns = steps[line.step].action.patterns();
            if let Some(pattern) = patterns.iter().find(|p| self.about(p, "method", value)) {
                line.near = pattern.fit(value, &self.vars).err();
            }
        }
        Ok(false)
    }

    /// Whether the pattern names this member as the message has it; a response's id, or a method.
    fn about(&self, pattern: &Pattern, member: &str, value: &Value) -> bool {
        if (member == "id") == value.get("method").is_some() {
            return false;
        }
        let named = pattern.member(member).zip(value.get(member));
        let method = pattern.member("method").is_some();
        named.is_some_and(|(pattern, value)| {
            (member == "id") != method && pattern.fit(value, &self.vars).is_ok()
        })
    }

    fn expected_later(&self, value: &Value, from: usize) -> bool {
        let steps = self.transcript.steps.get(from..).unwrap_or_default();
        steps.iter().any(|step| {
            let patterns = step.action.patterns();
            let anything = matches!(step.action, Action::Expect(_)) && patterns.is_empty();
            let ids = &self.transcript.ids;
            let fits = patterns.iter().any(|p| p.could_fit(value, &self.vars, ids));
            fits || (anything && !is_notification(value))
        })
    }

    /// A message that no line expects.
    fn unexpected(&mut self, message: &Message, open: &[Open]) -> Played {
        let value = &message.value;
        let forbidden = self.forbidden.iter().copied().find(|&step| {
            let action = &self.transcript.steps[step].action;
            matches!(action, Action::Forbid(p) if p.fit(value, &self.vars).is_ok())
        });
        if let Some(step) = forbidden.filter(|_| self.learnt.is_none()) {
            let message = format!("the server sent what is forbidden: {}", shorten(value));
            return Err(self.fail(step, message));
        }
        if self.allows(value)? {
            return Ok(());
        }
        if let Some(learnt) = &mut self.learnt {
            learnt.extra.push((self.step, Ok(value.clone())));
            return Ok(());
        }
        if !open.is_empty() {
            self.kind = Failure::Stray;
        }
        let step = open.first().map_or(self.step, |open| open.step);
        let mut text = format!(
            "the server sent a message that no line expects: {}",
            shorten(value)
        );
        if let ([line], [pattern]) = (open, self.patterns(open))
            && let Err(mismatch) = pattern.fit(value, &self.vars)
        {
            let number = self.number(line.step);
            text.push_str(&format!(" (against line {number}: {mismatch})"));
        }
        Err(self.fail(step, text))
    }

    /// The patterns of the first open line.
    fn patterns(&self, open: &[Open]) -> &'r [Pattern] {
        let steps = &self.transcript.steps;
        open.first()
            .map_or(&[], |open| steps[open.step].action.patterns())
    }

    /// Whether the server may send it although no line expects it.
    fn allows(&mut self, value: &Value) -> Played<bool> {
        let method = value.get("method").and_then(Value::as_str);
        let has_id = value.get("id").is_some();
        let no_id = value.get("id").is_none_or(Value::is_null);
        let allowed = self.allowed.iter().any(|allow| match allow {
            Allow::Anything => true,
            Allow::Nothing | Allow::Text => false,
            Allow::Errors => value.get("error").is_some() && no_id,
            Allow::Requests => method.is_some() && has_id,
            Allow::Method(name) => method == Some(name) && !has_id,
            Allow::Fits(pattern) => pattern.fit(value, &self.vars).is_ok(),
        });
        if allowed || self.strict {
            return Ok(allowed);
        }
        match method {
            Some(method) if has_id => Ok(self.client()?.result_for(method).is_some()),
            Some(_) => Ok(true),
            None => Ok(false),
        }
    }

    /// Takes the next line of output, at most until then.
    fn pull(&mut self, until: Instant) -> Played<Received> {
        let client = self.client()?;
        let received = client.next(until);
        if let Received::Line(at) = received {
            let line = client.received(at).cloned();
            self.seen = at + 1;
            if let Some(line) = line {
                self.read(at, line)?;
            }
        }
        Ok(received)
    }

    /// Puts what a line says among the pending messages.
    fn read(&mut self, at: usize, line: Line) -> Played {
        let Some(fault) = fault(&line) else {
            let Body::Json(json) = line.body else {
                return Ok(());
            };
            let array = |p: &Pattern| matches!(p, Pattern::Array(_));
            let steps = &self.transcript.steps;
            let whole = steps.iter().any(|s| s.action.patterns().iter().any(array));
            match json.value {
                // The members of a batch are messages of their own.
                Value::Array(batch) if !whole => {
                    let messages = batch.into_iter().map(|value| Message { at, value });
                    self.pending.extend(messages);
                }
                value => self.pending.push(Message { at, value }),
            }
            return Ok(());
        };
        let allow = |a: &Allow| matches!(a, Allow::Text | Allow::Anything);
        if self.allowed.iter().any(allow) {
            return Ok(());
        }
        if let Some(learnt) = &mut self.learnt {
            learnt.extra.push((self.step, Err(fault)));
            return Ok(());
        }
        self.kind = Failure::NoMessage;
        Err(self.fail(self.step, fault))
    }

    /// Reads for that long; what comes is pending.
    fn listen(&mut self, time: Duration) -> Played {
        let until = Instant::now() + time;
        while let Received::Line(_) = self.pull(until)? {}
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        Ok(())
    }

    /// Fails if anything came that no line expects, now or later.
    fn judge(&mut self) -> Played {
        self.place(&mut Vec::new(), self.step)
    }

    fn exit(&mut self, code: Option<i32>, within: Duration) -> Played {
        let until = Instant::now() + within;
        // Reads on meanwhile: a process that cannot write cannot end.
        while let Received::Line(_) = self.pull(until)? {}
        let status = self.client()?.child().wait(until);
        let Some(status) = status else {
            let message = format!("the server still runs after {within:?}");
            return Err(self.fail(self.step, message));
        };
        let rest = Instant::now() + LAST_WORDS;
        while let Received::Line(_) = self.pull(rest)? {}
        self.exited = true;
        if code.is_some_and(|code| status.code() != Some(code)) {
            let code = code.unwrap_or_default();
            let message = format!("the server ended with {status}, not with {code}");
            return Err(self.fail(self.step, message));
        }
        self.judge()
    }

    /// Stops the transcript's own process and judges what it still said.
    fn stop(&mut self, kill: bool) -> Played {
        let Some(mut client) = self.own.take() else {
            return Ok(());
        };
        let asked = client.child().started().elapsed();
        let patience = self.player.limits.stop;
        let ended = match kill {
            true => client.into_child().kill(),
            false => client.into_child().stop(patience),
        };
        // What a signal makes it write is not held against it.
        let until = match ended.by {
            EndedBy::Term | EndedBy::Kill => asked + patience,
            EndedBy::Itself | EndedBy::EndOfInput => Duration::MAX,
        };
        let late: Vec<(usize, Line)> = ended.log[self.seen.min(ended.log.len())..]
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.at <= until)
            .filter_map(|(number, entry)| match &entry.event {
                Event::Received(line) => Some((self.seen + number, line.clone())),
                _ => None,
            })
            .collect();
        let (by, status) = (ended.by, ended.status);
        let log = ended.log.len();
        self.player.ended.push(ended);
        if by == EndedBy::Itself && !self.exited && !kill {
            let message = format!("the server ended by itself{}", exit_words(status));
            return Err(self.failed(self.step, message, log));
        }
        for (at, line) in late {
            // What a process wrote that was killed at once may be half a line.
            if line.terminated || !kill {
                self.read(at, line)?;
            }
        }
        self.judge_last(log)
    }

    /// As [`Run::judge`], after the process is gone.
    fn judge_last(&mut self, log: usize) -> Played {
        for message in std::mem::take(&mut self.pending) {
            let value = &message.value;
            // A request needs no answer any more.
            if value.get("method").is_some() && !self.strict {
                continue;
            }
            if self.expected_later(value, self.step + 1) || self.allows_now(value) {
                continue;
            }
            if let Some(learnt) = &mut self.learnt {
                learnt.extra.push((self.step, Ok(value.clone())));
                continue;
            }
            let text = format!(
                "the server sent a message that no line expects: {}",
                shorten(value)
            );
            return Err(self.failed(self.step, text, log.max(message.at + 1)));
        }
        Ok(())
    }

    fn allows_now(&self, value: &Value) -> bool {
        let no_id = value.get("id").is_none_or(Value::is_null);
        self.allowed.iter().any(|allow| match allow {
            Allow::Anything => true,
            Allow::Errors => value.get("error").is_some() && no_id,
            Allow::Fits(pattern) => pattern.fit(value, &self.vars).is_ok(),
            _ => false,
        })
    }

    /// What came after the last step must be expected too.
    fn finish(&mut self) -> Played {
        if !self.shares() {
            if self.transcript.rejudge {
                self.await_answers()?;
            }
            return self.stop(false);
        }
        // What was sent last had its chance once a later request is answered. Whether it is
        // answered rightly is for another check to say.
        let from = self.seen;
        let client = self.client()?;
        client.barrier();
        let gone = client.gone();
        let lines: Vec<(usize, Line)> = (from..client.log().len())
            .filter_map(|at| Some((at, client.received(at)?.clone())))
            .filter(|(_, line)| match &line.body {
                Body::Json(json) => !client.is_barrier_reply(&json.value),
                _ => true,
            })
            .collect();
        for (at, line) in lines {
            self.seen = at + 1;
            self.read(at, line)?;
        }
        if gone {
            let status = self.client()?.child().wait(Instant::now() + LAST_WORDS);
            let message = format!(
                "the server closed its output{} after this exchange",
                exit_words(status)
            );
            self.kind = Failure::Gone;
            return Err(self.fail(self.step, message));
        }
        self.judge()
    }

    /// Whether a request is answered is judged afterwards: each has the time that it may take.
    fn await_answers(&mut self) -> Played {
        let until = Instant::now() + self.player.limits.request;
        loop {
            let client = self.client()?;
            if due(client.log()).is_empty() || !matches!(client.next(until), Received::Line(_)) {
                return Ok(());
            }
        }
    }

    /// Stops the transcript's own process if it still runs, however the play went.
    fn end(&mut self) {
        if let Some(client) = self.own.take() {
            let patience = self.player.limits.stop;
            self.player.ended.push(client.into_child().stop(patience));
        }
    }

    fn number(&self, step: usize) -> usize {
        self.transcript.steps.get(step).map_or(1, |s| s.lines.0)
    }

    fn fail(&mut self, step: usize, message: String) -> Outcome {
        let log = self.client().map_or(0, |client| client.log().len());
        self.failed(step, message, log)
    }

    fn failed(&self, step: usize, message: String, log: usize) -> Outcome {
        Outcome::Failed {
            line: self.number(step),
            message,
            kind: self.kind,
            log: self.exchange.min(log)..log,
        }
    }
}

impl Action {
    fn patterns(&self) -> &[Pattern] {
        match self {
            Action::Expect(patterns) => patterns,
            _ => &[],
        }
    }
}

fn is_notification(value: &Value) -> bool {
    value.get("method").is_some() && value.get("id").is_none()
}

/// Why a line is no message, if so.
fn fault(line: &Line) -> Option<String> {
    let text = || {
        let text = cut(&String::from_utf8_lossy(&line.bytes), 120);
        json!(text).to_string()
    };
    Some(match &line.body {
        Body::Json(_) if line.terminated => return None,
        _ if !line.terminated => format!("the server's last line has no newline: {}", text()),
        Body::Blank => "the server wrote a blank line".into(),
        Body::NotUtf8(at) => format!("the server wrote bytes that are not UTF-8, from byte {at}"),
        Body::TooLong(length) => format!("the server wrote a line of {length} bytes"),
        Body::NotJson(why) => format!(
            "the server wrote a line that is not JSON ({why}): {}",
            text()
        ),
        Body::Json(_) => return None,
    })
}

fn exit_words(status: Option<std::process::ExitStatus>) -> String {
    status.map_or(String::new(), |status| format!(" and ended ({status})"))
}

fn last_words(stderr: &str) -> String {
    let last = stderr.lines().rfind(|line| !line.trim().is_empty());
    last.map_or(String::new(), |line| {
        format!("; its last words on stderr: {}", cut(line, 200))
    })
}

/// The ids of requests in a log that are not answered, without those that may stay so.
fn due(log: &[crate::wire::Entry]) -> Vec<String> {
    let mut due = Vec::new();
    for entry in log {
        match &entry.event {
            Event::Sent(bytes) => {
                let message: Value = serde_json::from_slice(bytes).unwrap_or_default();
                match (message["method"].as_str(), message.get("id")) {
                    (Some("notifications/cancelled"), _) => {
                        let id = message["params"]["requestId"].to_string();
                        due.retain(|other| *other != id);
                    }
                    (Some("subscriptions/listen") | None, _) | (_, None) => {}
                    (Some(_), Some(id)) => due.push(id.to_string()),
                }
            }
            Event::Received(line) => {
                if let Body::Json(json) = &line.body {
                    let id = json.value["id"].to_string();
                    due.retain(|other| *other != id);
                }
            }
            _ => {}
        }
    }
    due
}
