//! `cargo xtask zoo`: every defect that the saboteur knows, each seen by the suite, and nothing
//! else with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Deserialize;

use crate::workspace::{self, SERVER, SUITE};

const SABOTEUR: &str = "saboteur";
const COMPILER: &str = "scripted-toolchain";
/// The profile whose tools need a compiler. Every other family of tools has the profile's name.
const COMPILED: &str = "toolchain";
/// The flags of the reference server when a row names none: everything that the protocol has, and
/// lists of more than one page.
const FLAGS: [&str; 6] = [
    "--tools",
    "demo",
    "--page-size",
    "2",
    "--client-timeout",
    "1",
];
/// Rules that take much of a run's work to judge: the healthy servers and the rows that break them
/// show them, the other rows leave them out.
const COSTLY: [&str; 5] = [
    "stdio.large-messages",
    "toolchain.run.tree-ended",
    "toolchain.cache.timeout",
    "workspace.test.budget-steps",
    "workspace.test.budget-memory",
];
/// What the demo tools do: without it some rules have no occasion, and no defect of them shows.
const HINTS: &str = "fixtures/hints/touchstone-server.toml";
/// The revision of a row that names none: the newest that has a handshake.
const REVISION: &str = "2025-11-25";

/// What `cargo xtask zoo` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Run these defects only (repeatable); a `*` at the end matches any rest
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Defects that run side by side, and again as many of those that leave the suite waiting
    /// [default: sixteen for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Judge each defect of a profile on the whole profile, and not only on the rules beside those
    /// that it breaks
    #[arg(long)]
    whole: bool,
    /// Take the programs from this folder and build nothing
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Keep the reports in this folder
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// What `saboteur --table` prints.
#[derive(Deserialize)]
struct Table {
    defects: Vec<Defect>,
    /// Rules that no defect can break, and why.
    unbreakable: BTreeMap<String, String>,
}

/// One row of the table.
#[derive(Deserialize)]
struct Defect {
    name: String,
    spoils: String,
    breaks: BTreeSet<String>,
    may: BTreeSet<String>,
    notes: BTreeSet<String>,
    fatal: bool,
    server: Option<Vec<String>>,
    revisions: Option<Vec<String>>,
    profile: Option<String>,
    check: Vec<String>,
}

impl Defect {
    /// Whether its row says for how long the suite is to wait, or makes the process outstay its
    /// input: then its run takes longest.
    fn waits(&self) -> bool {
        self.check.iter().any(|argument| argument == "--timeout")
            || self.name.starts_with("eof-")
            || COSTLY.iter().any(|id| self.breaks.contains(*id))
    }

    /// What its profile is to judge: all, or the rules beside the ones that it breaks. Most parts of
    /// a profile start servers of their own, so that takes a third of the time.
    fn rules(&self, whole: bool) -> BTreeSet<String> {
        let mut broken = self.breaks.iter().chain(&self.notes).peekable();
        if whole || broken.peek().is_none() {
            return self.profile.iter().cloned().collect();
        }
        broken.map(|id| beside(id)).collect()
    }
}

/// The pattern of the rules that stand beside one: `memory.recall.*`, or itself if it stands alone.
fn beside(id: &str) -> String {
    match id.rsplit_once('.') {
        Some((group, _)) if group.contains('.') => format!("{group}.*"),
        _ => id.to_owned(),
    }
}

/// A rule as `touchstone list --format json` prints it.
#[derive(Deserialize)]
struct Rule {
    requirement: String,
    coverage: Vec<Covered>,
}

#[derive(Deserialize)]
struct Covered {
    #[serde(default)]
    checks: Vec<String>,
}

/// The part of a report that the zoo reads.
#[derive(Deserialize)]
struct Report {
    verdicts: Vec<Verdict>,
    fatal: Option<Fatal>,
}

#[derive(Deserialize)]
struct Fatal {
    message: String,
}

#[derive(Deserialize)]
struct Verdict {
    requirement: String,
    check: String,
    verdict: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    notes: Vec<String>,
}

/// What the suite said of one server.
#[derive(Default)]
struct Seen {
    /// Requirements that fail or warn, with the check that said so and its message.
    broken: BTreeMap<String, (String, String)>,
    /// Requirements that could not be judged.
    errors: BTreeSet<String>,
    /// Requirements with a note.
    noted: BTreeSet<String>,
    /// Why nothing could be judged.
    fatal: Option<String>,
}

impl Seen {
    fn nothing(why: String) -> Self {
        Self {
            fatal: Some(why),
            ..Self::default()
        }
    }
}

/// One row after its run.
struct Outcome {
    seen: Seen,
    /// What is wrong with it; empty when the row holds.
    faults: Vec<String>,
    took: Duration,
}

/// Where the programs and files of a run are.
struct Place {
    programs: PathBuf,
    reports: PathBuf,
    /// Every row is judged on its whole profile.
    whole: bool,
}

/// Runs the healthy servers and every defect, and prints how they fared.
///
/// # Errors
/// When a program does not build or cannot be run, or `--only` names nothing.
pub(crate) fn run(options: &Options) -> Result<u8, String> {
    let place = place(options)?;
    let began = Instant::now();
    let table: Table = json_of(place.command(SABOTEUR).arg("--table"))?;
    let rules: Vec<Rule> = json_of(place.command(SUITE).args(["list", "--format", "json"]))?;
    let chosen: Vec<&Defect> = table
        .defects
        .iter()
        .filter(|defect| options.only.is_empty() || named(&options.only, &defect.name))
        .collect();
    if chosen.is_empty() {
        return Err("no defect has such a name; `saboteur --table` has them all".to_owned());
    }
    let jobs = options.jobs.unwrap_or_else(|| {
        thread::available_parallelism().map_or(16, |processors| 16 * processors.get())
    });

    let healthy: Healthy = chosen
        .iter()
        .map(|defect| (Settings::of(defect), OnceLock::new()))
        .collect();
    let (waiting, busy): (Vec<&Defect>, Vec<&Defect>) = chosen.iter().partition(|d| d.waits());
    // The healthy servers first, as the rows need to know what is broken without a defect.
    let busy: Vec<Subject<'_>> = (healthy.keys().map(Subject::Healthy))
        .chain(busy.into_iter().map(Subject::Spoilt))
        .collect();
    let waiting: Vec<Subject<'_>> = waiting.into_iter().map(Subject::Spoilt).collect();
    let work = |subject: &Subject<'_>| {
        let outcome = judge(&place, subject, &healthy);
        print!("{}", row(subject, &outcome));
        outcome
    };
    let outcomes = thread::scope(|scope| {
        // Beside the others: they need time, and no processor.
        let waiting = scope.spawn(|| side_by_side(&waiting, jobs, work));
        let mut outcomes = side_by_side(&busy, jobs, work);
        outcomes.extend(waiting.join().unwrap_or_else(|panic| resume_unwind(panic)));
        outcomes
    });
    let mut failed = outcomes.iter().filter(|o| !o.faults.is_empty()).count();
    if options.only.is_empty() {
        failed += untripped(&rules, &table.unbreakable, &outcomes);
    }
    println!(
        "zoo: {} defects, {} healthy servers, {failed} wrong; {:.1} s",
        chosen.len(),
        healthy.len(),
        began.elapsed().as_secs_f32()
    );
    Ok(u8::from(failed > 0))
}

fn named(patterns: &[String], name: &str) -> bool {
    patterns
        .iter()
        .any(|pattern| match pattern.strip_suffix('*') {
            Some(front) => name.starts_with(front),
            None => pattern == name,
        })
}

fn place(options: &Options) -> Result<Place, String> {
    let programs = match &options.programs {
        Some(folder) => {
            fs::canonicalize(folder).map_err(|error| format!("{}: {error}", folder.display()))?
        }
        None => {
            workspace::build_release(&[SUITE, SERVER, SABOTEUR, COMPILER])?;
            workspace::target().join("release")
        }
    };
    let reports = options
        .keep
        .clone()
        .unwrap_or_else(|| workspace::target().join("zoo"));
    fs::create_dir_all(&reports).map_err(|error| format!("{}: {error}", reports.display()))?;
    Ok(Place {
        programs,
        reports,
        whole: options.whole,
    })
}

impl Place {
    fn program(&self, name: &str) -> PathBuf {
        self.programs
            .join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    }

    fn command(&self, name: &str) -> Command {
        Command::new(self.program(name))
    }
}

/// Runs a program and reads the JSON that it prints.
fn json_of<T: for<'a> Deserialize<'a>>(command: &mut Command) -> Result<T, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{program} printed no JSON that is understood: {error}"))
}

/// How a server is started and judged: two rows with the same settings have the same healthy
/// server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Settings {
    server: Vec<String>,
    revisions: Vec<String>,
    profile: Option<String>,
}

impl Settings {
    fn of(defect: &Defect) -> Self {
        let flags = || FLAGS.map(str::to_owned).to_vec();
        Self {
            server: match (&defect.server, &defect.profile) {
                (Some(flags), _) => flags.clone(),
                (None, Some(profile)) if profile == COMPILED => Vec::new(),
                (None, Some(profile)) => vec!["--tools".to_owned(), profile.clone()],
                (None, None) => flags(),
            },
            revisions: defect
                .revisions
                .clone()
                .unwrap_or_else(|| vec![REVISION.to_owned()]),
            profile: defect.profile.clone(),
        }
    }
}

/// What the suite said of each healthy server that rows stand before, once it is known.
type Healthy = BTreeMap<Settings, OnceLock<Seen>>;

/// What is judged.
enum Subject<'a> {
    Healthy(&'a Settings),
    Spoilt(&'a Defect),
}

/// Runs the suite on a server, behind the defect if one is given, and reads its report.
fn check(
    place: &Place,
    settings: &Settings,
    defect: Option<&Defect>,
    report: &Path,
) -> Result<Seen, String> {
    // A report that is there already is one of an earlier run.
    let _ = fs::remove_file(report);
    let mut command = place.command(SUITE);
    // The rows spoil what any case shows: few will do.
    command.args(["check", "--cases", "5", "--seed", "1"]);
    command
        .arg("--report")
        .arg(format!("json={}", report.display()));
    for revision in &settings.revisions {
        command.args(["--revision", revision]);
    }
    match &settings.profile {
        Some(profile) => {
            command.args(["--profile", profile]);
            let rules = match defect {
                Some(defect) => defect.rules(place.whole),
                None => BTreeSet::from([profile.clone()]),
            };
            for rule in rules {
                command.args(["--only", &rule]);
            }
            if profile == COMPILED {
                let pack = workspace::root().join("fixtures/packs/scripted");
                command.arg("--pack").arg(pack);
            }
        }
        None => {
            command.arg("--hints").arg(workspace::root().join(HINTS));
        }
    }
    if let Some(defect) = defect {
        command.args(&defect.check);
        for rule in COSTLY.into_iter().filter(|id| !defect.breaks.contains(*id)) {
            command.args(["--skip", rule]);
        }
        command.arg("--").arg(place.program(SABOTEUR));
        command.args(["--defect", &defect.name]);
    }
    command.arg("--");
    command.arg(place.program(SERVER)).args(&settings.server);
    if settings.profile.as_deref() == Some(COMPILED) {
        command.arg(format!("--cajeta={}", place.program(COMPILER).display()));
    }
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("the suite cannot be started: {error}"))?;
    let text = fs::read(report).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("the suite left no report: {}", said.trim())
    })?;
    let report: Report = serde_json::from_slice(&text)
        .map_err(|error| format!("the report is not understood: {error}"))?;
    Ok(seen(report))
}

fn seen(report: Report) -> Seen {
    let mut seen = Seen {
        fatal: report.fatal.map(|fatal| fatal.message),
        ..Seen::default()
    };
    for verdict in report.verdicts {
        if !verdict.notes.is_empty() {
            seen.noted.insert(verdict.requirement.clone());
        }
        match verdict.verdict.as_str() {
            "fail" | "warn" => {
                seen.broken
                    .insert(verdict.requirement, (verdict.check, verdict.message));
            }
            "error" => {
                seen.errors.insert(verdict.requirement);
            }
            _ => {}
        }
    }
    seen
}

fn judge(place: &Place, subject: &Subject<'_>, healthy: &Healthy) -> Outcome {
    let began = Instant::now();
    let (seen, faults) = match subject {
        Subject::Healthy(settings) => {
            let at = healthy.keys().position(|other| other == *settings);
            let report = place
                .reports
                .join(format!("healthy-{}.json", at.unwrap_or_default()));
            let seen = check(place, settings, None, &report).unwrap_or_else(Seen::nothing);
            let faults = faults_of_healthy(&seen);
            healthy[*settings].get_or_init(|| seen);
            // What it says without a defect is no defect's doing.
            (Seen::default(), faults)
        }
        Subject::Spoilt(defect) => {
            let settings = Settings::of(defect);
            let report = place.reports.join(format!("{}.json", defect.name));
            let seen = check(place, &settings, Some(defect), &report).unwrap_or_else(Seen::nothing);
            let faults = faults(defect, &seen, healthy[&settings].wait());
            (seen, faults)
        }
    };
    Outcome {
        seen,
        faults,
        took: began.elapsed(),
    }
}

fn faults_of_healthy(seen: &Seen) -> Vec<String> {
    let mut faults: Vec<String> = seen
        .broken
        .iter()
        .map(|(id, (_, message))| format!("{id} is broken: {message}"))
        .collect();
    faults.extend(seen.errors.iter().map(|id| format!("{id} was not judged")));
    faults.extend(seen.fatal.clone());
    faults
}

/// What differs from what the row says. What is broken in the healthy server too is told there.
fn faults(defect: &Defect, seen: &Seen, healthy: &Seen) -> Vec<String> {
    let mut faults = Vec::new();
    match (&seen.fatal, defect.fatal) {
        (Some(why), false) => faults.push(format!("nothing could be judged: {why}")),
        (None, true) => faults.push("the server could be judged".to_owned()),
        _ => {}
    }
    for id in &defect.breaks {
        if !seen.broken.contains_key(id) {
            faults.push(format!("{id} is not seen to be broken"));
        }
    }
    for id in &defect.notes {
        if !seen.noted.contains(id) {
            faults.push(format!("{id} has no note"));
        }
    }
    for (id, (_, message)) in &seen.broken {
        let known = healthy.broken.contains_key(id);
        if !known && !defect.breaks.contains(id) && !defect.may.contains(id) {
            faults.push(format!("{id} is broken too: {message}"));
        }
    }
    faults
}

/// The lines of the table about one subject: in one text, as others print too.
fn row(subject: &Subject<'_>, outcome: &Outcome) -> String {
    let (name, spoils, ids) = match subject {
        Subject::Healthy(settings) => {
            let what = settings.profile.as_deref().map_or_else(
                || settings.server.join(" "),
                |profile| format!("profile {profile}"),
            );
            let what = format!("{} {what}", settings.revisions.join(" "));
            ("healthy server", None, what)
        }
        Subject::Spoilt(defect) => {
            let ids: Vec<&str> = defect
                .breaks
                .iter()
                .chain(&defect.notes)
                .map(String::as_str)
                .collect();
            let ids = match ids.as_slice() {
                [] => "nothing, as it should".to_owned(),
                ids => ids.join(" "),
            };
            (defect.name.as_str(), Some(&defect.spoils), ids)
        }
    };
    let right = outcome.faults.is_empty();
    let mark = if right { "ok   " } else { "WRONG" };
    let took = outcome.took.as_secs_f32();
    let mut text = format!("{mark} {name:<34} {took:>5.1} s  {ids}\n");
    for line in spoils.filter(|_| !right).into_iter().chain(&outcome.faults) {
        text.push_str(&format!("        {line}\n"));
    }
    text
}

/// Rules that the suite claims to check and that no defect broke; checks that never spoke up.
fn untripped(
    rules: &[Rule],
    unbreakable: &BTreeMap<String, String>,
    outcomes: &[Outcome],
) -> usize {
    let mut tripped = BTreeSet::new();
    let mut spoke = BTreeSet::new();
    for outcome in outcomes {
        tripped.extend(outcome.seen.noted.iter().map(String::as_str));
        for (id, (check, _)) in &outcome.seen.broken {
            tripped.insert(id.as_str());
            spoke.insert(check.as_str());
        }
    }
    let mut count = 0;
    for rule in rules {
        let covered = rule.coverage.iter().any(|at| !at.checks.is_empty());
        let id = rule.requirement.as_str();
        if covered && !tripped.contains(id) && !unbreakable.contains_key(id) {
            println!("WRONG no defect breaks {id}");
            count += 1;
        }
    }
    let checks: BTreeSet<&str> = rules
        .iter()
        .filter(|rule| !unbreakable.contains_key(&rule.requirement))
        .flat_map(|rule| &rule.coverage)
        .flat_map(|at| at.checks.iter().map(String::as_str))
        .collect();
    for check in checks.difference(&spoke) {
        // A check of a rule whose breach is a note has nothing louder to say.
        let noted = rules.iter().any(|rule| {
            tripped.contains(rule.requirement.as_str())
                && rule
                    .coverage
                    .iter()
                    .any(|at| at.checks.iter().any(|name| name == check))
        });
        if !noted {
            println!("WRONG no defect trips the check {check}");
            count += 1;
        }
    }
    count
}

/// Does `work` on every item, so many at once; the results are in the order of the items.
fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                while let Some((index, item)) = take(items, &next) {
                    let result = work(item);
                    results
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push((index, result));
                }
            });
        }
    });
    let mut results = results
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn take<'a, T>(items: &'a [T], next: &AtomicUsize) -> Option<(usize, &'a T)> {
    let index = next.fetch_add(1, Ordering::SeqCst);
    items.get(index).map(|item| (index, item))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defect(breaks: &[&str], may: &[&str]) -> Defect {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        Defect {
            name: "d".to_owned(),
            spoils: String::new(),
            breaks: ids(breaks),
            may: ids(may),
            notes: BTreeSet::new(),
            fatal: false,
            server: None,
            revisions: None,
            profile: None,
            check: Vec::new(),
        }
    }

    fn broken(ids: &[&str]) -> Seen {
        Seen {
            broken: ids
                .iter()
                .map(|id| ((*id).to_owned(), ("check".to_owned(), "why".to_owned())))
                .collect(),
            ..Seen::default()
        }
    }

    #[test]
    fn a_row_holds_when_exactly_its_rules_are_broken() {
        let row = defect(&["a"], &["b"]);
        let healthy = Seen::default();
        assert!(faults(&row, &broken(&["a"]), &healthy).is_empty());
        assert!(faults(&row, &broken(&["a", "b"]), &healthy).is_empty());
        assert_eq!(
            faults(&row, &broken(&["b"]), &healthy),
            ["a is not seen to be broken"]
        );
        assert_eq!(
            faults(&row, &broken(&["a", "c"]), &healthy),
            ["c is broken too: why"]
        );
    }

    #[test]
    fn what_is_broken_in_the_healthy_server_is_not_the_defects_fault() {
        let row = defect(&["a"], &[]);
        let healthy = broken(&["c"]);
        assert!(faults(&row, &broken(&["a", "c"]), &healthy).is_empty());
    }

    #[test]
    fn a_rule_that_is_checked_and_never_broken_is_told() {
        let rule = |id: &str| Rule {
            requirement: id.to_owned(),
            coverage: vec![Covered {
                checks: vec!["check".to_owned()],
            }],
        };
        let outcome = Outcome {
            seen: broken(&["a"]),
            faults: Vec::new(),
            took: Duration::ZERO,
        };
        let none = BTreeMap::new();
        let outcomes = [outcome];
        assert_eq!(untripped(&[rule("a")], &none, &outcomes), 0);
        assert_eq!(untripped(&[rule("a"), rule("b")], &none, &outcomes), 1);
        let excused = BTreeMap::from([("b".to_owned(), "why".to_owned())]);
        assert_eq!(untripped(&[rule("a"), rule("b")], &excused, &outcomes), 0);
    }

    #[test]
    fn a_row_of_a_profile_is_judged_on_the_rules_beside_its_own() {
        let mut row = defect(&["memory.recall.find", "memory.output-clean"], &[]);
        let rules = |row: &Defect, whole| row.rules(whole).into_iter().collect::<Vec<_>>();
        row.profile = Some("memory".to_owned());
        assert_eq!(
            rules(&row, false),
            ["memory.output-clean", "memory.recall.*"]
        );
        assert_eq!(rules(&row, true), ["memory"]);
        row.breaks.clear();
        assert_eq!(rules(&row, false), ["memory"]);
        row.breaks.insert("toolchain.cache.ttl".to_owned());
        row.profile = Some("toolchain".to_owned());
        assert_eq!(rules(&row, false), ["toolchain.cache.*"]);
    }

    #[test]
    fn a_profile_is_judged_on_the_tools_of_its_name() {
        let of = |profile: &str| {
            let mut row = defect(&[], &[]);
            row.profile = Some(profile.to_owned());
            Settings::of(&row).server
        };
        assert_eq!(of("memory"), ["--tools", "memory"]);
        assert!(of(COMPILED).is_empty());
    }

    #[test]
    fn results_keep_the_order_of_their_items() {
        let items: Vec<usize> = (0..50).collect();
        let doubled = side_by_side(&items, 7, |item| item * 2);
        assert_eq!(
            doubled,
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
    }
}
