//! `cargo xtask zoo`: every defect that the saboteur knows, each seen by the suite, and nothing
//! else with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
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
/// Rules that take a second of work to judge: the healthy servers and the rows that break them show
/// them, the other rows leave them out.
const COSTLY: [&str; 2] = [
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
    /// Defects that run side by side [default: sixteen for each processor: most of a run is waiting]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
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
}

/// Runs the healthy servers and every defect, and prints how they fared.
///
/// # Errors
/// When a program does not build or cannot be run, or `--only` names nothing.
pub(crate) fn run(options: &Options) -> Result<u8, String> {
    let began = Instant::now();
    let place = place(options)?;
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

    let healthy = healthy(&place, &chosen, jobs);
    let mut failed = 0;
    for (settings, seen) in &healthy {
        failed += usize::from(!report_healthy(settings, seen));
    }
    // The rows whose defects leave the suite waiting begin first.
    let mut chosen = chosen;
    chosen.sort_by_key(|defect| !defect.waits());
    let outcomes = side_by_side(&chosen, jobs, |defect| {
        let outcome = judge(&place, defect, &healthy);
        print_row(defect, &outcome);
        outcome
    });
    failed += outcomes.iter().filter(|o| !o.faults.is_empty()).count();
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
    Ok(Place { programs, reports })
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

/// Every healthy server that the rows stand before, judged.
fn healthy(place: &Place, defects: &[&Defect], jobs: usize) -> BTreeMap<Settings, Seen> {
    let settings: BTreeSet<Settings> = defects.iter().map(|defect| Settings::of(defect)).collect();
    let settings: Vec<(usize, &Settings)> = settings.iter().enumerate().collect();
    let seen = side_by_side(&settings, jobs, |(index, settings)| {
        let report = place.reports.join(format!("healthy-{index}.json"));
        check(place, settings, None, &[], &report).unwrap_or_else(|why| Seen {
            fatal: Some(why),
            ..Seen::default()
        })
    });
    settings
        .into_iter()
        .map(|(_, settings)| settings.clone())
        .zip(seen)
        .collect()
}

fn report_healthy(settings: &Settings, seen: &Seen) -> bool {
    let mut faults: Vec<String> = seen
        .broken
        .iter()
        .map(|(id, (_, message))| format!("{id} is broken: {message}"))
        .collect();
    faults.extend(seen.errors.iter().map(|id| format!("{id} was not judged")));
    faults.extend(seen.fatal.clone());
    let what = settings.profile.as_deref().map_or_else(
        || settings.server.join(" "),
        |profile| format!("profile {profile}"),
    );
    let mark = if faults.is_empty() { "ok   " } else { "WRONG" };
    println!(
        "{mark} healthy server, {}, {what}",
        settings.revisions.join(" ")
    );
    for fault in &faults {
        println!("        {fault}");
    }
    faults.is_empty()
}

/// Runs the suite on a server, behind the defect if one is given, and reads its report.
fn check(
    place: &Place,
    settings: &Settings,
    defect: Option<&str>,
    more: &[String],
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
            command.args(["--profile", profile, "--only", profile]);
            if profile == COMPILED {
                let pack = workspace::root().join("fixtures/packs/scripted");
                command.arg("--pack").arg(pack);
            }
        }
        None => {
            command.arg("--hints").arg(workspace::root().join(HINTS));
        }
    }
    command.args(more).arg("--");
    if let Some(name) = defect {
        command.arg(place.program(SABOTEUR));
        command.args(["--defect", name, "--"]);
    }
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

fn judge(place: &Place, defect: &Defect, healthy: &BTreeMap<Settings, Seen>) -> Outcome {
    let began = Instant::now();
    let settings = Settings::of(defect);
    let report = place.reports.join(format!("{}.json", defect.name));
    let mut more = defect.check.clone();
    for rule in COSTLY.into_iter().filter(|id| !defect.breaks.contains(*id)) {
        more.extend(["--skip".to_owned(), rule.to_owned()]);
    }
    let result = check(place, &settings, Some(&defect.name), &more, &report);
    let took = began.elapsed();
    match result {
        Ok(seen) => Outcome {
            faults: faults(defect, &seen, healthy.get(&settings)),
            seen,
            took,
        },
        Err(why) => Outcome {
            seen: Seen::default(),
            faults: vec![why],
            took,
        },
    }
}

/// What differs from what the row says. What is broken in the healthy server too is told there.
fn faults(defect: &Defect, seen: &Seen, healthy: Option<&Seen>) -> Vec<String> {
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
        let known = healthy.is_some_and(|healthy| healthy.broken.contains_key(id));
        if !known && !defect.breaks.contains(id) && !defect.may.contains(id) {
            faults.push(format!("{id} is broken too: {message}"));
        }
    }
    faults
}

fn print_row(defect: &Defect, outcome: &Outcome) {
    let mark = if outcome.faults.is_empty() {
        "ok   "
    } else {
        "WRONG"
    };
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
    let mut text = format!(
        "{mark} {:<34} {:>5.1} s  {ids}\n",
        defect.name,
        outcome.took.as_secs_f32()
    );
    if !outcome.faults.is_empty() {
        text.push_str(&format!("        {}\n", defect.spoils));
    }
    for fault in &outcome.faults {
        text.push_str(&format!("        {fault}\n"));
    }
    // In one go: others print too.
    print!("{text}");
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
        assert!(faults(&row, &broken(&["a"]), None).is_empty());
        assert!(faults(&row, &broken(&["a", "b"]), None).is_empty());
        assert_eq!(
            faults(&row, &broken(&["b"]), None),
            ["a is not seen to be broken"]
        );
        assert_eq!(
            faults(&row, &broken(&["a", "c"]), None),
            ["c is broken too: why"]
        );
    }

    #[test]
    fn what_is_broken_in_the_healthy_server_is_not_the_defects_fault() {
        let row = defect(&["a"], &[]);
        let healthy = broken(&["c"]);
        assert!(faults(&row, &broken(&["a", "c"]), Some(&healthy)).is_empty());
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
