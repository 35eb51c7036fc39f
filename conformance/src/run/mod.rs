//! A run: find out what the server claims, plan, share processes, run side by side, settle.

mod coverage;
mod detect;
mod first_steps;
mod hints;
mod judge;
mod opening;
pub mod replay;
mod session;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::checks::{self, Session};
use crate::client::Client;
use crate::spec::{Requirement, Revision, requirement};
use crate::verdict::{Judgement, Report, Verdict};
use crate::wire::{Ended, EndedBy, Launch, Limits};

pub use coverage::{Coverage, coverage};
pub use hints::{Does, Hints, Occasion, wanted};
pub use judge::{Judge, level_name};

use detect::Found;

/// What the user asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// How to start the server.
    pub launch: Launch,
    /// The command, for the report.
    pub command: Vec<String>,
    /// How long things may take.
    pub limits: Limits,
    /// How long the whole run may take.
    pub total: Option<Duration>,
    /// The revisions to judge; `None` finds out which ones the server claims.
    pub revisions: Option<Vec<Revision>>,
    /// Which profiles to run.
    pub profiles: ProfileChoice,
    /// Requirement ids to judge; empty for all.
    pub only: Vec<String>,
    /// Requirement ids to leave out.
    pub skip: Vec<String>,
    /// Which tools may be called.
    pub call: CallPolicy,
    /// How many processes of the server may run at once.
    pub jobs: usize,
    /// Generated cases: requests and broken lines; of calls a quarter as many for each tool.
    pub cases: u32,
    /// Seed of the generated cases; `None` is [`checks::generated::SEED`].
    pub seed: Option<u64>,
    /// A folder with source packs for the profiles.
    pub pack: Option<PathBuf>,
    /// What the user tells about the server.
    pub hints: Hints,
}

/// Which tools of somebody's server may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallPolicy {
    /// Those that say that they only read.
    ReadOnly,
    /// Those, and the named ones.
    Named(Vec<String>),
    /// All of them.
    All,
}

/// Which profiles to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileChoice {
    /// None; the report says what the server looks like.
    None,
    /// Those that the server looks like.
    Auto,
    /// The named ones.
    Named(Vec<String>),
}

/// Who is told how far the run is.
pub trait Progress: Sync {
    /// `done` of `of` steps are done; `what` is the one that begins.
    fn step(&self, what: &str, done: usize, of: usize);

    /// Whether the user wants an end. The processes are killed then, so what is judged after
    /// this turned true is thrown away; what was judged before is reported.
    fn interrupted(&self) -> bool {
        false
    }
}

/// What all parts of a run share.
struct Run<'a> {
    options: &'a Options,
    progress: &'a dyn Progress,
    processes: AtomicUsize,
    /// How many of them did not end with their input within the limit.
    outstayed: AtomicUsize,
    done: AtomicUsize,
    steps: AtomicUsize,
    deadline: Option<Instant>,
}

impl<'a> Run<'a> {
    fn new(options: &'a Options, progress: &'a dyn Progress) -> Self {
        Self {
            options,
            progress,
            processes: AtomicUsize::new(0),
            outstayed: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            steps: AtomicUsize::new(0),
            deadline: options.total.map(|total| Instant::now() + total),
        }
    }

    fn started_process(&self) {
        self.processes.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a process. Once two have outstayed their input for the whole limit, the others cost a
    /// second.
    fn put_away(&self, client: Client) -> Ended {
        let limit = self.options.limits.stop;
        let patience = match self.outstayed.load(Ordering::Relaxed) {
            0 | 1 => limit,
            _ => limit.min(Duration::from_secs(1)),
        };
        let ended = client.into_child().stop(patience);
        let outstayed = matches!(ended.by, EndedBy::Term | EndedBy::Kill);
        self.outstayed
            .fetch_add(usize::from(outstayed), Ordering::Relaxed);
        ended
    }

    fn out_of_time(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn plan(&self, steps: usize) {
        self.steps.fetch_add(steps, Ordering::Relaxed);
    }

    fn step(&self, what: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed);
        self.progress
            .step(what, done, self.steps.load(Ordering::Relaxed).max(done));
    }

    /// Whether any of these is asked for.
    fn wants(&self, requirements: &[&str]) -> bool {
        requirements.is_empty() || requirements.iter().any(|id| self.wants_one(id))
    }

    fn wants_one(&self, id: &str) -> bool {
        let listed = |list: &[String]| list.iter().any(|other| other == id);
        (self.options.only.is_empty() || listed(&self.options.only)) && !listed(&self.options.skip)
    }
}

/// What is done to a server.
#[derive(Debug, Clone, Copy)]
enum How {
    /// Every check, once.
    Check,
    /// Generated traffic alone, for that long.
    Fuzz(Duration),
}

/// Judges a server.
pub fn check(options: &Options, progress: &dyn Progress) -> Report {
    judge(options, progress, How::Check)
}

/// Judges a server by generated traffic alone, for about that long: `options.cases` cases of each
/// kind a round, the first one with `options.seed`, each further one with the next seed.
pub fn fuzz(options: &Options, time: Duration, progress: &dyn Progress) -> Report {
    let mut options = options.clone();
    if options.only.is_empty() {
        let rules = checks::generated::CHECKS
            .iter()
            .flat_map(|c| c.requirements);
        options.only = rules.map(|id| (*id).to_owned()).collect();
    }
    judge(&options, progress, How::Fuzz(time))
}

fn judge(options: &Options, progress: &dyn Progress, how: How) -> Report {
    let began = Instant::now();
    let run = Run::new(options, progress);
    let mut report = Report::empty(&options.command);
    match detect::detect(&run) {
        Ok(found) => judge_all(&run, found, how, &mut report),
        Err(fatal) => report.fatal = Some(*fatal),
    }
    report.seconds = began.elapsed().as_secs_f64();
    report.processes = run.processes.load(Ordering::Relaxed);
    // `npm start`, `python -m package` and the like need the user's own folder or home.
    let ended = report.fatal.as_ref().is_some_and(|fatal| fatal.ended);
    if ended
        && let Some(own) = in_the_users_place(options)
        && !progress.interrupted()
    {
        let mut again = judge(&own, progress, how);
        if again.fatal.is_none() {
            again.target.remarks.push(
                "The server does not start with a temporary home and working folder, so it ran in yours."
                    .to_owned(),
            );
            return again;
        }
    }
    report
}

/// The same run in the user's own home and working folder, if that is not where it was.
fn in_the_users_place(options: &Options) -> Option<Options> {
    if options.launch.inherit_home && options.launch.cwd.is_some() {
        return None;
    }
    let mut own = options.clone();
    own.launch.inherit_home = true;
    if own.launch.cwd.is_none() {
        own.launch.cwd = Some(std::env::current_dir().ok()?);
    }
    Some(own)
}

fn judge_all(run: &Run<'_>, found: Found, how: How, report: &mut Report) {
    if let Some(hopeless) = found.hopeless {
        report.judgements = settle(run, vec![hopeless.judged()]);
        return;
    }
    report.target.server_info = found.server_info();
    report.target.unknown_revisions.clone_from(&found.unknown);
    report.target.remarks.clone_from(&found.remarks);
    report.target.revisions = found
        .claimed
        .iter()
        .map(|c| c.revision.to_string())
        .collect();
    report.target.seed = Some(run.options.seed.unwrap_or(checks::generated::SEED));
    let opening = found.opening();
    let refused: Vec<Judge> = found.refused.into_iter().map(|r| r.judged()).collect();
    let claims = found.claimed.len();
    let per_revision = checks::checks().count() + 2;
    if let How::Check = how {
        run.plan(claims * per_revision + 2);
    }
    // Revisions that have to wait for others must have their share.
    let share = |time: Duration| {
        let side_by_side = run.options.jobs.clamp(1, claims.max(1));
        time.mul_f64(side_by_side as f64 / claims.max(1) as f64)
    };
    let began = Instant::now();
    let judges: Mutex<Vec<Judge>> = Mutex::new(refused);
    let facts = Mutex::new(Vec::new());
    let mut tasks: VecDeque<Box<dyn FnOnce() + Send + '_>> = VecDeque::new();
    // The opening waits most, so it begins first.
    let beginnings = match how {
        How::Check => [opening::judge, first_steps::judge].as_slice(),
        How::Fuzz(_) => &[],
    };
    for judge in beginnings {
        tasks.push_back(Box::new(|| {
            let heard = judge(run, &opening);
            if !run.progress.interrupted() {
                lock(&judges).extend(heard);
            }
        }));
    }
    for claim in found.claimed {
        let (judges, facts) = (&judges, &facts);
        tasks.push_back(Box::new(move || {
            if run.progress.interrupted() {
                return;
            }
            let (judge, seen) = match how {
                How::Check => session::judge_revision(run, claim),
                How::Fuzz(time) => {
                    let tell = |revision: Revision, rounds: u64, broken: usize| {
                        let of = usize::try_from(time.as_secs()).unwrap_or(usize::MAX);
                        let done = usize::try_from(began.elapsed().as_secs()).unwrap_or(of);
                        let what = format!("{revision}: {rounds} rounds, {broken} rules broken");
                        run.progress.step(&what, done.min(of), of);
                    };
                    session::fuzz_revision(run, claim, share(time), &tell)
                }
            };
            // A round that was interrupted is not in what the fuzzing gives back.
            if !run.progress.interrupted() || matches!(how, How::Fuzz(_)) {
                lock(judges).push(judge);
                lock(facts).push(seen);
            }
        }));
    }
    run_side_by_side(run.options.jobs, tasks);
    let judges = judges
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    report.judgements = settle(run, judges);
    let facts = facts
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    report.target.uncalled_tools = uncalled(run.options, &facts);
    // Where nothing was judged, nothing is known of the lists.
    let unlisted = match facts.is_empty() {
        true => Vec::new(),
        false => run.options.hints.unlisted(&facts),
    };
    report.target.remarks.extend(
        unlisted
            .iter()
            .map(|name| format!("The hints name `{name}`, which the server does not list.")),
    );
    if matches!(how, How::Check) && !run.progress.interrupted() {
        crate::profiles::judge(run.options, &facts, report, &run.processes);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn run_side_by_side(jobs: usize, tasks: VecDeque<Box<dyn FnOnce() + Send + '_>>) {
    let workers = jobs.clamp(1, tasks.len().max(1));
    let queue = Mutex::new(tasks);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let task = lock(&queue).pop_front();
                    match task {
                        Some(task) => task(),
                        None => break,
                    }
                }
            });
        }
    });
}

/// One judgement for each requirement that was asked for, catalogue order, oldest revision first.
fn settle(run: &Run<'_>, judges: Vec<Judge>) -> Vec<Judgement> {
    let mut by_revision: Vec<Judge> = Vec::new();
    for judge in judges {
        match by_revision
            .iter_mut()
            .find(|j| j.revision() == judge.revision())
        {
            Some(known) => known.merge(judge),
            None => by_revision.push(judge),
        }
    }
    by_revision.sort_by_key(Judge::revision);
    let mut judgements = Vec::new();
    for judge in by_revision {
        let revision = judge.revision();
        let covered = coverage::covered(revision);
        let wanted: Vec<&Requirement> = requirement::catalogue()
            .iter()
            .filter(|r| covered.contains(r.id.as_str()) && run.wants_one(&r.id))
            .collect();
        judgements.extend(judge.settle(wanted.into_iter()));
    }
    if run.progress.interrupted() {
        judgements.iter_mut().for_each(cut_short);
    }
    let order: std::collections::HashMap<&str, usize> = requirement::catalogue()
        .iter()
        .enumerate()
        .map(|(index, requirement)| (requirement.id.as_str(), index))
        .collect();
    judgements.sort_by_key(|j| order.get(j.requirement.as_str()).copied());
    judgements
}

/// Of a rule that an interrupted run heard nothing of, nobody knows whether it applies.
fn cut_short(judgement: &mut Judgement) {
    if judgement.message == judge::NO_OCCASION {
        judgement.verdict = Verdict::Error;
        judgement.message = "The run was interrupted before this was judged.".to_owned();
    }
}

fn uncalled(options: &Options, facts: &[checks::Facts]) -> Vec<String> {
    let mut names: Vec<String> = facts
        .iter()
        .flat_map(|facts| facts.items("tools/list"))
        .filter(|tool| !checks::may_call(&options.call, tool))
        .filter_map(|tool| tool.get("name")?.as_str().map(str::to_owned))
        .filter(|name| !options.hints.name_tool(name))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Whether a check runs in a session.
fn runs_in(check: &checks::Check, revision: Revision, session: Session) -> bool {
    check.session == session && check.span.contains(revision)
}
