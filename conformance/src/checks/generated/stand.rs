//! Puts cases to processes of its own, and makes what fails as simple as it can be.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value};

use super::super::exchange::{Exchange, evidence_since};
use super::super::{Context, observers};
use super::Plan;
use crate::client::{Client, Reply};
use crate::property;
use crate::run::Judge;
use crate::spec::Revision;
use crate::spec::requirement::{self, Breach};
use crate::transcript::{self, Header};
use crate::wire::{Body, Entry, Event, Limits};

/// The most candidates that are tried for one failure.
const MOST_CANDIDATES: usize = 500;

/// The shortest patience while a silence is made simpler.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);

const NO_RESPONSE: &str = "jsonrpc.notification.no-response";

/// Lines of an exchange that a verdict shows.
const EVIDENCE_LINES: usize = 12;

/// Something that is said to a server, and how to tell whether the server takes it well.
pub(super) trait Case: Clone + std::fmt::Debug {
    /// Rules of the observers that hold for it, whatever the server makes of it.
    const OBSERVED: &'static [&'static str];

    /// Says it and waits.
    fn put(&self, client: &mut Client) -> Heard;

    /// The ids that it brings along; no process may see one twice.
    fn ids(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What came of a case.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) fault: Option<Fault>,
    pub(super) holds: Vec<&'static str>,
    pub(super) notes: Vec<(&'static str, String)>,
    /// The process is busy, or gone: the next case needs another one.
    pub(super) spent: bool,
}

/// A rule that is broken.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) rule: &'static str,
    pub(super) breach: Breach,
    pub(super) message: String,
    /// Whether it rests on nothing having come: it must be seen again in a new process.
    pub(super) silence: bool,
}

impl Fault {
    /// As the catalogue has it.
    pub(super) fn new(rule: &'static str, message: impl Into<String>) -> Fault {
        let breach = requirement::get(rule).map_or(Breach::Warn, |rule| rule.breach);
        Fault {
            rule,
            breach,
            message: message.into(),
            silence: false,
        }
    }

    /// One that rests on nothing having come.
    pub(super) fn silence(rule: &'static str, message: impl Into<String>) -> Fault {
        Fault {
            silence: true,
            ..Fault::new(rule, message)
        }
    }
}

/// What to do after a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Go on.
    Go,
    /// Leave this kind of case: it ties the server up, or no more can be made.
    Leave,
    /// Stop: the server does not start, or the time is up.
    Stop,
}

/// A process after its handshake.
struct Live<C> {
    client: Client,
    /// Where the log stood after the handshake.
    greeted: usize,
    history: Vec<C>,
    ids: HashSet<String>,
}

/// A failure as it is told.
struct Shown {
    fault: Fault,
    log: Vec<Entry>,
    greeted: usize,
}

/// Where cases are put to the server.
pub(super) struct Stand<'a, C> {
    plan: &'a Plan<'a>,
    limits: Limits,
    revision: Revision,
    until: Instant,
    live: Option<Live<C>>,
    /// The slowest answer to a case so far.
    slowest: Duration,
}

impl<'a, C: Case> Stand<'a, C> {
    pub(super) fn new(plan: &'a Plan<'a>, limits: Limits, revision: Revision) -> Self {
        Stand {
            plan,
            limits,
            revision,
            until: Instant::now() + plan.time,
            live: None,
            slowest: Duration::ZERO,
        }
    }

    /// Puts so many cases to the server, or as many as the time allows.
    pub(super) fn put_all(
        &mut self,
        ctx: &mut Context<'_>,
        runner: &mut TestRunner,
        cases: &BoxedStrategy<C>,
        count: u32,
    ) {
        for _ in 0..count {
            if self.put_one(ctx, runner, cases) == Next::Stop {
                return;
            }
        }
    }

    /// Makes one case and puts it to the server.
    pub(super) fn put_one(
        &mut self,
        ctx: &mut Context<'_>,
        runner: &mut TestRunner,
        cases: &BoxedStrategy<C>,
    ) -> Next {
        if Instant::now() >= self.until {
            return Next::Stop;
        }
        // Too much had to be thrown away: what was made until then must do.
        let Ok(mut tree) = cases.new_tree(runner) else {
            return Next::Leave;
        };
        let before = Instant::now();
        let Some((heard, shown)) = self.put(&tree.current()) else {
            return Next::Stop;
        };
        heard.holds.iter().for_each(|rule| ctx.judge.holds(rule));
        for (rule, note) in &heard.notes {
            ctx.judge.note(rule, note.clone());
        }
        match shown {
            Some(shown) if shown.fault.breach == Breach::Note => {
                ctx.judge.note(shown.fault.rule, shown.fault.message);
            }
            Some(shown) if self.is_news(ctx, &shown.fault) => self.tell(ctx, &mut tree, shown),
            None if !heard.spent => self.slowest = self.slowest.max(before.elapsed()),
            _ => {}
        }
        if heard.spent {
            self.live = None;
            return Next::Leave;
        }
        Next::Go
    }

    fn is_news(&self, ctx: &Context<'_>, fault: &Fault) -> bool {
        let known = self
            .plan
            .known
            .iter()
            .find(|(rule, _)| *rule == fault.rule)
            .map(|(_, breach)| *breach);
        let told = ctx.judge.worst(fault.rule);
        [known, told]
            .into_iter()
            .flatten()
            .all(|breach| breach != Breach::Fail && breach != fault.breach)
    }

    /// Puts a case to the live process, or a new one. `None` when none can be had.
    fn put(&mut self, case: &C) -> Option<(Heard, Option<Shown>)> {
        let seen = |live: &Live<C>| case.ids().iter().any(|id| live.ids.contains(id));
        if self.live.as_ref().is_none_or(seen) {
            self.live = self.start(self.limits);
        }
        let live = self.live.as_mut()?;
        let (heard, fault) = put_to(live, case, self.revision);
        let shown = fault.map(|fault| Shown {
            fault,
            log: live.client.log().to_vec(),
            greeted: live.greeted,
        });
        Some((heard, shown))
    }

    fn start(&self, limits: Limits) -> Option<Live<C>> {
        let mut client = Client::start(self.plan.launch, limits, self.revision).ok()?;
        self.plan.processes.fetch_add(1, Ordering::Relaxed);
        if !matches!(client.hello(), Reply::Result { .. }) {
            return None;
        }
        client.initialized();
        // What comes of the handshake comes before the first case.
        client.barrier().then(|| Live {
            greeted: client.log().len(),
            client,
            history: Vec::new(),
            ids: HashSet::new(),
        })
    }

    /// Makes the case simpler and tells of it with its exchange.
    fn tell<T: ValueTree<Value = C>>(&mut self, ctx: &mut Context<'_>, tree: &mut T, seen: Shown) {
        let live = self.live.take();
        let case = tree.current();
        let simplest = self.simplify(tree, &seen.fault);
        let mut again = self.confirm(&[simplest], &seen.fault);
        if again.is_none() {
            again = self.confirm(&[case], &seen.fault);
        }
        // Perhaps it takes all that was said before.
        if again.is_none()
            && let Some(live) = &live
        {
            again = self.confirm(&live.history, &seen.fault);
        }
        let shown = match again {
            Some(again) => again,
            None if seen.fault.silence => {
                let note = format!(
                    "Seen once, but not in a new process: {}",
                    seen.fault.message
                );
                ctx.judge.note(seen.fault.rule, note);
                return;
            }
            None => seen,
        };
        let Shown {
            fault,
            log,
            greeted,
        } = shown;
        let header = Header {
            checks: vec![fault.rule.to_owned()],
            revision: self.revision,
            about: format!(
                "Recorded by Touchstone; generated with seed {}.",
                self.plan.seed
            ),
        };
        let said = log.get(greeted..).unwrap_or_default();
        let text = transcript::record(said, &header);
        let evidence = evidence_since(&log, greeted, EVIDENCE_LINES);
        ctx.judge
            .broken_as(fault.rule, fault.breach, fault.message, evidence);
        ctx.judge.attach_transcript(fault.rule, text);
    }

    /// The simplest case that fails in the same way.
    fn simplify<T: ValueTree<Value = C>>(&self, tree: &mut T, fault: &Fault) -> C {
        let until = Instant::now() + self.plan.shrink;
        let limits = match fault.silence {
            true => Limits {
                request: (self.slowest * 4)
                    .clamp(LEAST_PATIENCE.min(self.limits.request), self.limits.request),
                ..self.limits
            },
            false => self.limits,
        };
        let mut live: Option<Live<C>> = None;
        property::shrink(tree, MOST_CANDIDATES, |candidate| {
            if Instant::now() >= until {
                return None;
            }
            let seen = |live: &Live<C>| candidate.ids().iter().any(|id| live.ids.contains(id));
            if live.as_ref().is_none_or(seen) {
                live = self.start(limits);
            }
            let (heard, found) = put_to(live.as_mut()?, candidate, self.revision);
            if found.is_some() || heard.spent {
                live = None;
            }
            Some(found.is_some_and(|found| same(&found, fault)))
        })
    }

    /// Puts the cases to a new process, with full patience: does the last one, or one before it,
    /// fail in the same way?
    fn confirm(&self, cases: &[C], fault: &Fault) -> Option<Shown> {
        let mut live = self.start(self.limits)?;
        for case in cases {
            let (heard, found) = put_to(&mut live, case, self.revision);
            if let Some(found) = found
                && same(&found, fault)
            {
                return Some(Shown {
                    fault: found,
                    log: live.client.log().to_vec(),
                    greeted: live.greeted,
                });
            }
            if heard.spent {
                return None;
            }
        }
        None
    }
}

fn same(found: &Fault, fault: &Fault) -> bool {
    found.rule == fault.rule && found.breach == fault.breach
}

/// What the observers make of the exchange comes first: it says more than that the answer that
/// was waited for did not come.
fn put_to<C: Case>(live: &mut Live<C>, case: &C, revision: Revision) -> (Heard, Option<Fault>) {
    let from = live.client.log().len();
    live.ids.extend(case.ids());
    live.history.push(case.clone());
    let mut heard = case.put(&mut live.client);
    let (before, said) = live.client.log().split_at(from);
    // Replies to what was asked earlier may come only now; they are no part of this case.
    let earlier = ids_asked(before);
    let late = |entry: &&Entry| {
        matches!(&entry.event, Event::Received(line)
        if matches!(&line.body, Body::Json(json)
            if json.value["method"].is_null() && earlier.contains(&json.value["id"].to_string())))
    };
    let said: Vec<Entry> = said.iter().filter(|e| !late(e)).cloned().collect();
    let fault = match (observed(&said, revision, C::OBSERVED), heard.fault.take()) {
        // An error without an id, and a request without an answer: that is the answer.
        (Some(seen), Some(own)) if own.silence && seen.rule == NO_RESPONSE => Some(own),
        (seen, own) => seen.or(own),
    };
    let binds = |fault: &Fault| {
        requirement::get(fault.rule).is_some_and(|rule| rule.span.contains(revision))
    };
    let fault = fault.filter(binds);
    heard.spent |= fault.as_ref().is_some_and(|fault| fault.silence);
    (heard, fault)
}

/// The ids of the requests that were sent.
fn ids_asked(log: &[Entry]) -> HashSet<String> {
    let ids = log.iter().filter_map(|entry| match &entry.event {
        Event::Sent(bytes) => serde_json::from_slice::<Value>(bytes).ok(),
        _ => None,
    });
    ids.filter_map(|message| message.get("id").map(Value::to_string))
        .collect()
}

/// The first of these rules that a part of a log shows broken.
fn observed(log: &[Entry], revision: Revision, rules: &[&'static str]) -> Option<Fault> {
    let mut exchange = Exchange::read(revision, log, Some(Map::new()), Map::new());
    // Silence is judged by who waited.
    exchange.patience = Duration::MAX;
    let mut judge = Judge::new(revision);
    for observer in observers() {
        // The shapes name theirs in data of their own.
        let names = observer.requirements;
        if names.is_empty() || names.iter().any(|rule| rules.contains(rule)) {
            (observer.read)(&exchange, &mut judge);
        }
    }
    let rule = rules.iter().find(|rule| judge.is_broken(rule))?;
    let (breach, message) = judge.first_breach(rule)?;
    Some(Fault {
        rule,
        breach,
        message,
        silence: false,
    })
}

/// Whether the server answers the next request; if not, how that is told.
pub(super) fn alive(client: &mut Client, rule: &'static str, what: &str) -> Option<Fault> {
    if client.barrier() {
        return None;
    }
    let how = match client.child().exited() {
        Some(status) => format!("the server ends ({status})"),
        None => "the next request is not answered".to_owned(),
    };
    Some(Fault::silence(rule, format!("After {what} {how}.")))
}

/// An id as it is compared.
pub(super) fn key(id: &Value) -> String {
    id.to_string()
}
