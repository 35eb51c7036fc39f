//! The processes in which one revision is judged: one that all checks of valid traffic share, one
//! that is handled roughly, and one each for the checks that want it so.
//!
//! A check after which the server does not answer any more is run once more, alone in a new
//! process, and only that run counts; the others go on in yet another process.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::detect::Claim;
use super::{Does, Judge, Run, runs_in};
use crate::checks::exchange::{Exchange, Kind, evidence_since};
use crate::checks::generated::{self, Plan};
use crate::checks::{self, Check, Context, Facts, Session};
use crate::client::{Client, Reply};
use crate::spec::requirement::{self, Breach};
use crate::spec::{Era, Revision};
use crate::verdict::Evidence;
use crate::wire::{Ended, EndedBy, Entry, Event};

/// The rule that `ping` is answered.
const PING: &str = "ping.responds";
/// The rule that a server outlives what it is rightly sent.
const SURVIVES: &str = "stdio.survives-valid-traffic";
/// The rules for the time between the handshake's answer and `initialized`.
const EARLY_PING: &str = "ping.before-initialized";
const EARLY_REQUESTS: &str = "lifecycle.no-requests-before-initialized";

/// A process that has ended, with what was declared to it.
struct Finished {
    ended: Ended,
    client: Map<String, Value>,
}

/// A place for one live process of the server at a time.
pub(super) struct Slot<'a> {
    run: &'a Run<'a>,
    revision: Revision,
    declare: Map<String, Value>,
    live: Option<Client>,
    finished: Vec<Finished>,
    /// A new process did not answer the first cheap request: nothing more is asked of any.
    deaf: bool,
}

impl<'a> Slot<'a> {
    fn new(run: &'a Run<'a>, revision: Revision, declare: Map<String, Value>) -> Self {
        Self {
            run,
            revision,
            declare,
            live: None,
            finished: Vec::new(),
            deaf: false,
        }
    }

    /// A process after its handshake: the live one, or a new one. `None` when it cannot be had.
    fn client(&mut self) -> Option<&mut Client> {
        if self.live.is_none() {
            let mut client = self.start()?;
            if !matches!(client.hello(), Reply::Result { .. }) {
                self.retire_one(client);
                return None;
            }
            client.initialized();
            self.live = Some(client);
        }
        self.live.as_mut()
    }

    fn start(&self) -> Option<Client> {
        let options = self.run.options;
        let mut client = Client::start(&options.launch, options.limits, self.revision).ok()?;
        self.run.started_process();
        client.declare(self.declare.clone());
        Some(client)
    }

    /// After a check that was not answered: does a new process answer anything at all? One that
    /// does not would cost a limit for every check to come.
    fn listen_for_life(&mut self, judge: &mut Judge) {
        let Some(client) = self.client() else {
            return;
        };
        let from = client.log().len();
        if client.barrier() {
            return;
        }
        let evidence = evidence_since(client.log(), from, 6);
        let message = "After the greeting a plain request is not answered; no more was asked.";
        judge.broken("jsonrpc.response.exactly-one", message, evidence);
        self.deaf = true;
    }

    fn retire(&mut self) {
        if let Some(client) = self.live.take() {
            self.retire_one(client);
        }
    }

    /// The live process has the whole limit to end, whatever others did.
    fn retire_patiently(&mut self) {
        if let Some(client) = self.live.take() {
            let patience = self.run.options.limits.stop;
            self.finish(client.into_child().stop(patience));
        }
    }

    fn retire_one(&mut self, client: Client) {
        self.finish(self.run.put_away(client));
    }

    fn finish(&mut self, ended: Ended) {
        self.finished.push(Finished {
            ended,
            client: self.declare.clone(),
        });
    }
}

/// Judges a server in one revision. The claim brings the process that was greeted already.
pub(super) fn judge_revision(run: &Run<'_>, claim: Claim) -> (Judge, Facts) {
    let revision = claim.revision;
    let mut judge = Judge::new(revision);
    let mut facts = claim.facts();
    hello(&mut judge, revision);

    let mut rough = Slot::new(run, revision, checks::full_client(revision));
    let early = greet_early(run, &rough);
    let mut shared = Slot::new(run, revision, Map::new());
    let mut client = claim.client;
    client.initialized();
    shared.live = Some(client);
    run_check(run, &mut shared, &checks::GATHER, &mut facts, &mut judge);
    facts.occasions = run.options.hints.occasions.clone();
    let calls = facts.occasions.iter().filter(|o| o.method == "tools/call");
    facts.hinted = calls.map(|o| o.target().to_owned()).collect();
    if !facts.occasions.iter().any(|o| o.does_any(&[Does::Task])) {
        let offered = checks::offered_tasks(&facts, &run.options.call);
        facts.occasions.extend(offered);
    }
    for check in checks::checks().filter(|c| runs_in(c, revision, Session::Shared)) {
        run_check(run, &mut shared, check, &mut facts, &mut judge);
    }
    let survived = shared.live.is_some();
    let due = shared.live.as_mut().map(due_at_the_end);
    let last = shared.finished.len();
    shared.retire();
    if survived {
        judge.holds(SURVIVES);
    }
    exit_at_end_of_input(run, &mut shared, &mut judge);
    if let (Some(due), Some(last)) = (due, shared.finished.get(last)) {
        answered_at_the_end(last, &due, &mut judge);
    }

    rough.deaf = shared.deaf;
    if let Some(early) = early.filter(|_| !rough.deaf) {
        before_initialized(early, &mut rough, &mut judge);
    }
    for check in checks::checks().filter(|c| runs_in(c, revision, Session::Rough)) {
        run_check(run, &mut rough, check, &mut facts, &mut judge);
    }
    rough.retire();

    let mut able = Slot::new(run, revision, checks::able_client(revision));
    able.deaf = shared.deaf;
    if !able.deaf && !facts.occasions.is_empty() {
        leave_out_unlisted(&mut able, &mut facts);
    }
    let nothing_known = facts.occasions.is_empty();
    for check in checks::checks().filter(|c| runs_in(c, revision, Session::Able)) {
        if nothing_known && matches!(check.run, checks::Run::Code(_)) {
            continue;
        }
        run_check(run, &mut able, check, &mut facts, &mut judge);
    }
    able.retire();

    let mut own = Slot::new(run, revision, Map::new());
    own.deaf = shared.deaf;
    for check in checks::checks().filter(|c| runs_in(c, revision, Session::Own)) {
        run_check(run, &mut own, check, &mut facts, &mut judge);
        own.retire();
    }
    blocked_by_lists(&mut judge);
    for slot in [shared, rough, able, own] {
        observe(
            &slot.finished,
            revision,
            &facts,
            run.options.limits.request,
            &mut judge,
        );
    }
    (judge, facts)
}

/// Hints of tools and prompts that the server does not list are left out: they are about another
/// revision, or about another server. What it lists may depend on what the client can do.
fn leave_out_unlisted(able: &mut Slot<'_>, facts: &mut Facts) {
    let Some(client) = able.client() else {
        return;
    };
    for (method, items, capability) in checks::LISTS {
        if facts.declares(capability) {
            let names = names_of(client, method, items);
            facts.for_able.extend(names);
        }
    }
    let all = std::mem::take(&mut facts.occasions);
    facts.occasions = all.into_iter().filter(|o| facts.lists_target(o)).collect();
}

/// The names in all pages of a list, within reason.
fn names_of(client: &mut Client, method: &str, items: &str) -> Vec<String> {
    const MOST_PAGES: usize = 100;
    let mut names = Vec::new();
    let mut params = json!({});
    for _ in 0..MOST_PAGES {
        let reply = client.request(method, Some(params));
        let Some(page) = reply.result() else { break };
        let listed = page.get(items).and_then(Value::as_array);
        let named = listed.into_iter().flatten();
        names.extend(named.filter_map(|item| item.get("name")?.as_str().map(str::to_owned)));
        let Some(cursor) = page.get("nextCursor").filter(|c| c.is_string()) else {
            break;
        };
        params = json!({ "cursor": cursor });
    }
    names
}

/// The greeting was answered, else nobody would be here.
fn hello(judge: &mut Judge, revision: Revision) {
    judge.enter("hello");
    match revision.era() {
        Era::Handshake => {
            judge.holds("lifecycle.initialize-response");
            judge.holds("lifecycle.version.echo-supported");
        }
        Era::Stateless => judge.holds("discover.implemented"),
    }
}

/// Where a list is not given, what is to be seen in it cannot be judged.
fn blocked_by_lists(judge: &mut Judge) {
    for area in ["tools", "resources", "prompts"] {
        let list = format!("{area}.list.responds");
        if !judge.is_broken(&list) {
            continue;
        }
        for rule in requirement::catalogue().iter().filter(|r| r.area == area) {
            if !judge.heard_of(&rule.id) {
                judge.blocked(&rule.id, &list);
            }
        }
    }
}

fn run_check(
    run: &Run<'_>,
    slot: &mut Slot<'_>,
    check: &Check,
    facts: &mut Facts,
    judge: &mut Judge,
) {
    // The lists and `ping` are what the other checks stand on: seen whatever is asked for.
    let stood_on = check.name == checks::GATHER.name || check.requirements.contains(&PING);
    if !stood_on && !run.wants(check.requirements) {
        return;
    }
    run.step(check.name);
    // The cheap request of the handshake era is `ping`: without it, what a script shows by means
    // of it cannot be seen.
    if matches!(check.run, checks::Run::Script(script) if script.source.contains("\"ping\""))
        && judge.is_broken(PING)
    {
        judge.enter(check.name);
        check
            .requirements
            .iter()
            .for_each(|id| judge.blocked(id, PING));
        return;
    }
    if let checks::Run::Occasion(any, _) = check.run
        && !facts.occasions.iter().any(|o| o.does_any(any))
    {
        judge.enter(check.name);
        let why = super::hints::wanted(any);
        check
            .requirements
            .iter()
            .for_each(|id| judge.not_applicable(id, why.as_str()));
        return;
    }
    let mut died = None;
    for alone in [false, true] {
        if run.out_of_time() {
            return unjudged(judge, check, "The time for the whole run was up.");
        }
        if alone {
            slot.retire();
            slot.listen_for_life(judge);
        }
        if slot.deaf {
            judge.enter(check.name);
            for id in check.requirements {
                judge.blocked(id, "jsonrpc.response.exactly-one");
            }
            return;
        }
        let Some(client) = slot.client() else {
            return unjudged(
                judge,
                check,
                "A new process of the server did not answer the greeting.",
            );
        };
        let start = client.log().len();
        let plan = plan(run);
        let mut heard = Judge::new(judge.revision());
        heard.enter(check.name);
        let mut ctx = Context {
            client,
            facts,
            judge: &mut heard,
            call: &run.options.call,
            generated: &plan,
            start,
            doubtful: false,
        };
        check.put_to(&run.options.launch, &mut ctx);
        let doubtful = ctx.doubtful;
        let fit = check.session == Session::Own || client.barrier();
        if fit && !doubtful {
            if let Some((message, evidence)) = died {
                heard.broken_as(SURVIVES, Breach::Warn, message, evidence);
            }
            keep(client, start, heard, judge);
            return;
        }
        if !alone && nothing_new(&heard, judge, fit) {
            keep(client, start, heard, judge);
            if !fit {
                slot.retire();
            }
            return;
        }
        if !alone && check.session == Session::Shared {
            died = death(client, check);
        }
        if alone {
            if !fit && check.session == Session::Shared {
                not_survived(client, start, check, &mut heard);
            }
            keep(client, start, heard, judge);
            slot.retire();
            return;
        }
    }
}

/// Whether all that a check saw broken was seen before, and judged twice then: it need not be run
/// again to be believed. That the server lives on is such a rule where it did not.
fn nothing_new(heard: &Judge, judge: &Judge, fit: bool) -> bool {
    let mut broken = heard.broken_ids().peekable();
    let any = broken.peek().is_some();
    let lives = fit || judge.is_broken("stdio.survives-valid-traffic");
    any && lives && broken.all(|id| judge.is_broken(id))
}

/// The plan of generated traffic in an ordinary run.
fn plan<'a>(run: &'a Run<'_>) -> Plan<'a> {
    let seed = run.options.seed.unwrap_or(generated::SEED);
    Plan {
        cases: run.options.cases,
        ..Plan::quick(
            &run.options.launch,
            run.options.limits,
            &run.processes,
            seed,
        )
    }
}

/// Puts generated traffic alone to a server in one revision, round after round, each with a seed
/// of its own, until the time is up or the user wants an end. `tell` hears of each round: how
/// many there were, and how many rules are broken.
pub(super) fn fuzz_revision(
    run: &Run<'_>,
    claim: Claim,
    time: Duration,
    tell: &dyn Fn(Revision, u64, usize),
) -> (Judge, Facts) {
    /// The most that one check may take of the time.
    const LONGEST: Duration = Duration::from_secs(60);
    let until = after(time);
    let revision = claim.revision;
    let mut judge = Judge::new(revision);
    let mut facts = claim.facts();
    let mut slot = Slot::new(run, revision, Map::new());
    let mut client = claim.client;
    client.initialized();
    slot.live = Some(client);
    run_check(run, &mut slot, &checks::GATHER, &mut facts, &mut judge);
    let checks = || {
        checks::generated::CHECKS
            .iter()
            .filter(|c| run.wants(c.requirements))
    };
    for round in 0.. {
        for check in checks() {
            let now = Instant::now();
            let Some(client) = slot.client().filter(|_| now < until) else {
                slot.retire();
                return (judge, facts);
            };
            let mut heard = Judge::new(revision);
            heard.enter(check.name);
            let plan = Plan {
                seed: plan(run).seed.wrapping_add(round),
                tools: usize::MAX,
                time: (until - now).min(LONGEST),
                shrink: Duration::from_secs(20),
                known: judge
                    .broken_ids()
                    .filter_map(|id| Some((id, judge.worst(id)?)))
                    .collect(),
                ..plan(run)
            };
            let start = client.log().len();
            let mut ctx = Context {
                client,
                facts: &mut facts,
                judge: &mut heard,
                call: &run.options.call,
                generated: &plan,
                start,
                doubtful: false,
            };
            check.put_to(&run.options.launch, &mut ctx);
            // What was heard of processes that were killed says nothing.
            if run.progress.interrupted() {
                return (judge, facts);
            }
            judge.merge(heard);
        }
        tell(revision, round + 1, judge.broken_ids().count());
    }
    (judge, facts)
}

fn unjudged(judge: &mut Judge, check: &Check, why: &str) {
    judge.enter(check.name);
    for id in check.requirements {
        judge.error(id, why);
    }
}

/// Takes over what a check said; breaches get the exchange as a transcript.
fn keep(client: &Client, start: usize, mut heard: Judge, judge: &mut Judge) {
    if heard.broken_ids().next().is_some() {
        let log = client.log().get(start..).unwrap_or_default();
        let header = crate::transcript::Header {
            checks: heard.broken_ids().map(str::to_owned).collect(),
            revision: heard.revision(),
            about: "Recorded by `touchstone check`.".to_owned(),
        };
        let text = crate::transcript::record(log, &header);
        heard.transcribe(|_, _| text.clone());
    }
    judge.merge(heard);
}

/// A process that ended by itself amid valid traffic. That the same check goes well in a new one
/// does not undo it.
fn death(client: &mut Client, check: &Check) -> Option<(String, Evidence)> {
    let status = client.child().wait(after(Duration::from_millis(200)))?;
    let mut evidence = evidence_since(client.log(), client.log().len().saturating_sub(12), 12);
    evidence.stderr = last_lines(&client.child().stderr(), 10);
    let message = format!(
        "The server ended ({status}) before or during the valid requests of `{}`; in a new process it answered them.",
        check.name
    );
    Some((message, evidence))
}

/// Valid traffic, and the server answers no more. A script whose very rule is that the server lives
/// on tells of that rule.
fn not_survived(client: &mut Client, start: usize, check: &Check, judge: &mut Judge) {
    let rules: &[&str] = match check.run {
        checks::Run::Script(script) if script.survive => check.requirements,
        _ => &[SURVIVES],
    };
    let how = match client.child().exited() {
        Some(status) => format!("the server ended ({status})"),
        None => "the server does not answer any more".to_owned(),
    };
    let mut evidence = evidence_since(client.log(), start, 12);
    evidence.stderr = last_lines(&client.child().stderr(), 10);
    let message = format!("After what `{}` sends {how}.", check.name);
    for rule in rules {
        judge.broken(rule, message.as_str(), evidence.clone());
    }
}

/// The last lines of a text.
pub(super) fn last_lines(text: &str, most: usize) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    lines
        .iter()
        .skip(lines.len().saturating_sub(most))
        .map(|line| crate::checks::exchange::shorten(line, 500))
        .collect()
}

/// How the shared process ended when its input did; a bad end must show twice.
fn exit_at_end_of_input(run: &Run<'_>, slot: &mut Slot<'_>, judge: &mut Judge) {
    const RULES: [&str; 2] = ["stdio.exit-on-eof", "stdio.exit-on-eof-legacy"];
    if !run.wants(&RULES) {
        return;
    }
    judge.enter("stdio.end-of-input");
    let good = |slot: &Slot<'_>| {
        slot.finished
            .last()
            .is_some_and(|f| f.ended.by == EndedBy::EndOfInput)
    };
    if !good(slot) {
        if slot.client().is_none() {
            RULES
                .iter()
                .for_each(|rule| judge.error(rule, "A new process did not answer the greeting."));
            return;
        }
        slot.retire_patiently();
    }
    let Some(last) = slot.finished.last() else {
        return;
    };
    if last.ended.by == EndedBy::EndOfInput {
        for rule in RULES {
            if last.ended.left_behind {
                judge.note(
                    rule,
                    "The process exits, but leaves another of its group behind.",
                );
            } else {
                judge.holds(rule);
            }
        }
        return;
    }
    let limit = run.options.limits.stop.as_secs_f32();
    let message = match last.ended.by {
        EndedBy::Kill => format!(
            "Neither the end of input nor TERM ends the server within {limit} s; it had to be killed."
        ),
        EndedBy::Itself => "The server ended before its input did.".to_owned(),
        _ => format!(
            "The server does not exit within {limit} s of the end of its input; TERM ended it."
        ),
    };
    let (busy, half) = (last.ended.busy, run.options.limits.stop / 2);
    let message = match busy >= half / 10 {
        true => format!(
            "{message} It spent {:.1} s of the last {:.1} s working.",
            busy.as_secs_f32(),
            half.as_secs_f32()
        ),
        false => message,
    };
    let evidence = evidence_since(&last.ended.log, last.ended.log.len().saturating_sub(4), 6);
    for rule in RULES {
        judge.broken_as(rule, Breach::Warn, message.clone(), evidence.clone());
    }
}

/// Requests right before the end of input: a server that drops what is under way then has hardly
/// answered all of so many.
const LAST_REQUESTS: usize = 20;

/// Asks cheap things right before the end of input; gives the ids.
fn due_at_the_end(client: &mut Client) -> Vec<Value> {
    client.post_many(LAST_REQUESTS, client.cheap_method(), None)
}

/// Nothing says whether a request that is under way at the end of input is still answered: a note.
fn answered_at_the_end(last: &Finished, due: &[Value], judge: &mut Judge) {
    let is_reply_to = |id: &Value, entry: &Entry| {
        matches!(&entry.event, Event::Received(line)
            if matches!(&line.body, crate::wire::Body::Json(json) if json.value.get("id") == Some(id)))
    };
    let answered = |id: &&Value| last.ended.log.iter().any(|entry| is_reply_to(id, entry));
    let lost = due.len() - due.iter().filter(answered).count();
    if last.ended.by != EndedBy::EndOfInput || lost == 0 {
        return;
    }
    judge.enter("stdio.end-of-input");
    for rule in ["stdio.exit-on-eof", "stdio.exit-on-eof-legacy"] {
        let sent = due.len();
        judge.note(
            rule,
            format!(
                "Of {sent} requests sent right before the end of input {lost} are not answered."
            ),
        );
    }
}

/// A process between the handshake's answer and `initialized`.
struct Early {
    client: Client,
    /// What `ping` gave; `None` when the greeting was not answered.
    ping: Option<Reply>,
    /// Where the log stood before `ping`.
    from: usize,
    /// Until when the server may speak up of itself.
    until: Instant,
}

/// Greets a process and leaves it there: what it does before `initialized` takes a while to show,
/// and other processes are judged meanwhile.
fn greet_early(run: &Run<'_>, slot: &Slot<'_>) -> Option<Early> {
    if slot.revision.era() == Era::Stateless || !run.wants(&[EARLY_REQUESTS, EARLY_PING]) {
        return None;
    }
    let mut client = slot.start()?;
    let greeted = matches!(client.hello(), Reply::Result { .. });
    let from = client.log().len();
    let ping = greeted.then(|| client.request("ping", None));
    Some(Early {
        client,
        ping,
        from,
        until: after(run.options.limits.quiet),
    })
}

/// Between the handshake's answer and `initialized` the server sends no request but ping, and
/// answers ours.
fn before_initialized(early: Early, slot: &mut Slot<'_>, judge: &mut Judge) {
    judge.enter("lifecycle.before-initialized");
    let mut client = early.client;
    let Some(ping) = early.ping else {
        for rule in [EARLY_REQUESTS, EARLY_PING] {
            judge.error(rule, "A new process did not answer the greeting.");
        }
        slot.retire_one(client);
        return;
    };
    match ping {
        Reply::Result { .. } => judge.holds(EARLY_PING),
        _ if judge.is_broken(PING) => judge.blocked(EARLY_PING, PING),
        reply => {
            let said = match reply {
                Reply::Error { error, .. } => format!("an error: {error}"),
                _ => "no answer".to_owned(),
            };
            let evidence = evidence_since(client.log(), early.from, 6);
            judge.broken_as(
                EARLY_PING,
                Breach::Warn,
                format!("`ping` before `initialized` gave {said}."),
                evidence,
            );
        }
    }
    client.listen(early.until.saturating_duration_since(Instant::now()));
    let exchange = Exchange::read(slot.revision, client.log(), None, Map::new());
    let request = exchange
        .received
        .iter()
        .find(|message| matches!(message.kind, Kind::Request(method) if method != "ping"));
    match request {
        Some(message) => {
            let text = "The server sent a request before `initialized`.";
            judge.broken(EARLY_REQUESTS, text, exchange.evidence(message));
        }
        None => judge.holds(EARLY_REQUESTS),
    }
    client.initialized();
    slot.live = Some(client);
}

/// Every conversation is read by every observer.
fn observe(
    finished: &[Finished],
    revision: Revision,
    facts: &Facts,
    patience: Duration,
    judge: &mut Judge,
) {
    for one in finished {
        let mut exchange = Exchange::read(
            revision,
            &one.ended.log,
            Some(facts.capabilities.clone()),
            one.client.clone(),
        );
        exchange.patience = patience;
        observe_log(&exchange, judge);
    }
}

/// One conversation is read by every observer; breaches get the lines that show them as a
/// transcript.
pub(super) fn observe_log(exchange: &Exchange<'_>, judge: &mut Judge) {
    let mut heard = Judge::new(exchange.revision);
    for observer in checks::observers() {
        heard.enter(observer.name);
        (observer.read)(exchange, &mut heard);
    }
    heard.transcribe(|id, evidence| excerpt(id, exchange.revision, exchange.log, &evidence.at));
    judge.merge(heard);
}

/// The lines that show a breach as a transcript: the requests among them, or, where there is none,
/// all that was sent before.
fn excerpt(id: &str, revision: Revision, log: &[Entry], at: &[usize]) -> String {
    /// Longer lines are about their length, and not what shows something else.
    const LONGEST: usize = 64 << 10;
    let sent = |index: &usize| matches!(&log.get(*index).map(|e| &e.event), Some(Event::Sent(_)));
    let last = at.iter().copied().max().unwrap_or_default();
    let requests = at.iter().any(sent);
    let part: Vec<Entry> = log
        .iter()
        .enumerate()
        .filter(|(index, entry)| match &entry.event {
            Event::Sent(bytes) if !requests => *index < last && bytes.len() < LONGEST,
            _ => at.contains(index),
        })
        .map(|(_, entry)| entry.clone())
        .collect();
    let header = crate::transcript::Header {
        checks: vec![id.to_owned()],
        revision,
        about: "Recorded by `touchstone check`.".to_owned(),
    };
    crate::transcript::record(&part, &header)
}

/// A moment that far from now.
pub(super) fn after(time: Duration) -> Instant {
    Instant::now() + time
}
