//! `touchstone check`: judge a server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::PossibleValuesParser;

use super::deliver::Delivery;
use super::server::{Server, seconds};
use super::{Problem, select};
use crate::checks::generated::CASES;
use crate::profiles;
use crate::report::Again;
use crate::run::{self, CallPolicy, Hints, Options, ProfileChoice};
use crate::spec::Revision;

/// Hints are read from here when no other file is named.
const HINTS: &str = "touchstone.toml";

const EXAMPLES: &str = "\
Examples:
  touchstone check -- node dist/server.js
  touchstone check --call search --call fetch -- python3 -m my_server
  touchstone check --only tools --skip 'tools.list.*' -v -- ./my-server
  touchstone check --strict --report junit=target/mcp.xml --report json=- -- ./my-server

Exit codes: 0 nothing fails, 1 something fails, 2 wrong arguments, 3 the server could not be
started or spoken to, 4 nothing, or not everything, could be judged, 130 interrupted.";

/// Judge a server
///
/// Starts the server that stands after `--`, finds the revisions of the protocol that it claims,
/// and judges it in each. The report comes on standard output, failures first.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Judge this revision only (repeat for more), as one that the server claims; `auto` finds
    /// those that it claims
    #[arg(long, value_name = "R|auto", default_value = "auto", value_parser = revision_names(), help_heading = "What to judge")]
    revision: Vec<String>,

    /// Judge these requirements only: ids, areas, or globs such as 'tools.*' (repeatable)
    #[arg(long, value_name = "ID", help_heading = "What to judge")]
    only: Vec<String>,

    /// Leave these requirements out: ids, areas, or globs (repeatable)
    #[arg(long, value_name = "ID", help_heading = "What to judge")]
    skip: Vec<String>,

    /// Also judge this profile (repeatable); `auto` takes the one that the server looks like.
    /// A profile calls tools that may run code or write
    #[arg(long, value_name = "NAME|auto", value_parser = profile_names(), help_heading = "What to judge")]
    profile: Vec<String>,

    /// Allow calls of this tool, even though it is not marked read-only (repeatable)
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "call_all",
        help_heading = "What to judge"
    )]
    call: Vec<String>,

    /// Allow calls of every tool
    #[arg(long, help_heading = "What to judge")]
    call_all: bool,

    /// End the run after this time; what was not judged by then is an error
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "How to run")]
    total_timeout: Option<Duration>,

    /// Server processes side by side [default: twice the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "How to run")]
    jobs: Option<u16>,

    /// Generated requests and broken lines; a quarter as many valid calls of each tool
    #[arg(long, value_name = "N", default_value_t = CASES, value_parser = clap::value_parser!(u32).range(1..), help_heading = "How to run")]
    cases: u32,

    /// Seed of the generated cases; the same seed gives the same cases [default: 0]
    #[arg(long, value_name = "N", help_heading = "How to run")]
    seed: Option<u64>,

    /// What tools do with which arguments, for rules that cannot be seen otherwise
    /// [default: touchstone.toml in the current folder, if it is there]
    #[arg(long, value_name = "FILE", help_heading = "How to run")]
    hints: Option<PathBuf>,

    /// Sources for the toolchain profile, instead of the built-in ones
    #[arg(long, value_name = "DIR", help_heading = "How to run")]
    pack: Option<PathBuf>,

    #[command(flatten)]
    delivery: Delivery,

    #[command(flatten)]
    server: Server,
}

/// Runs it and gives the exit code.
pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let options = options(args)?;
    let again = Again::Check { flags: flags(args) };
    args.delivery
        .run(&again, move |bar| run::check(&options, bar))
}

fn options(args: &Args) -> Result<Options, Problem> {
    let (only, skip) = requirements(&args.only, &args.skip)?;
    Ok(Options {
        launch: args.server.launch()?,
        command: args.server.command(),
        limits: args.server.limits(),
        total: args.total_timeout,
        revisions: revisions(&args.revision)?,
        profiles: profiles(&args.profile)?,
        only,
        skip,
        call: call_policy(args.call_all, &args.call),
        jobs: args.jobs.map_or_else(side_by_side, usize::from),
        cases: args.cases,
        seed: args.seed,
        pack: existing("--pack", &args.pack, Path::is_dir)?,
        hints: hints(&args.hints)?,
    })
}

/// Which tools may be called.
pub(super) fn call_policy(all: bool, named: &[String]) -> CallPolicy {
    match (all, named.is_empty()) {
        (true, _) => CallPolicy::All,
        (false, true) => CallPolicy::ReadOnly,
        (false, false) => CallPolicy::Named(named.to_vec()),
    }
}

/// How many processes run side by side unless the user says otherwise: two for each processor,
/// because a run waits more than it works.
pub(super) fn side_by_side() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// The ids to judge and to leave out.
pub(super) fn requirements(
    only: &[String],
    skip: &[String],
) -> Result<(Vec<String>, Vec<String>), Problem> {
    if only.is_empty() && skip.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let known = select::known_ids();
    let (only, skip) = (select::select(only, &known)?, select::select(skip, &known)?);
    let pool = if only.is_empty() { &known } else { &only };
    if pool.iter().all(|id| skip.contains(id)) {
        return Err(Problem("--skip leaves nothing to judge".into()));
    }
    Ok((only, skip))
}

pub(super) fn revision_names() -> PossibleValuesParser {
    PossibleValuesParser::new(
        ["auto"]
            .into_iter()
            .chain(Revision::ALL.map(Revision::as_str)),
    )
}

fn profile_names() -> PossibleValuesParser {
    PossibleValuesParser::new(["auto"].into_iter().chain(profiles::names()))
}

/// `None` is `auto`. Oldest first, each once.
pub(super) fn revisions(names: &[String]) -> Result<Option<Vec<Revision>>, Problem> {
    if names.iter().any(|name| name == "auto") {
        return match names.len() {
            1 => Ok(None),
            _ => Err(Problem(
                "--revision is `auto` or revisions, not both".into(),
            )),
        };
    }
    let mut chosen: Vec<Revision> = names.iter().filter_map(|n| Revision::parse(n)).collect();
    chosen.sort_unstable();
    chosen.dedup();
    Ok(Some(chosen))
}

fn profiles(names: &[String]) -> Result<ProfileChoice, Problem> {
    let auto = names.iter().any(|name| name == "auto");
    match (names.len(), auto) {
        (0, _) => Ok(ProfileChoice::None),
        (1, true) => Ok(ProfileChoice::Auto),
        (_, true) => Err(Problem("--profile is `auto` or names, not both".into())),
        (_, false) => Ok(ProfileChoice::Named(names.to_vec())),
    }
}

pub(super) fn hints(given: &Option<PathBuf>) -> Result<Hints, Problem> {
    let usual = PathBuf::from(HINTS);
    let path = match given {
        None => usual.is_file().then_some(usual),
        given => existing("--hints", given, Path::is_file)?,
    };
    match path {
        Some(path) => Ok(Hints::load(&path)?),
        None => Ok(Hints::default()),
    }
}

fn existing(
    flag: &str,
    path: &Option<PathBuf>,
    is_right: fn(&Path) -> bool,
) -> Result<Option<PathBuf>, Problem> {
    match path {
        Some(path) if !is_right(path) => {
            let what = if path.exists() {
                "is of the wrong kind"
            } else {
                "is not there"
            };
            Err(Problem(format!("{flag} `{}` {what}", path.display())))
        }
        path => Ok(path.clone()),
    }
}

/// The flags of this run that matter to the outcome, to do it again.
fn flags(args: &Args) -> Vec<String> {
    let mut flags = Vec::new();
    for name in &args.profile {
        flags.extend(["--profile".into(), name.clone()]);
    }
    for name in &args.call {
        flags.extend(["--call".into(), name.clone()]);
    }
    if args.call_all {
        flags.push("--call-all".into());
    }
    if args.cases != CASES {
        flags.extend(["--cases".into(), args.cases.to_string()]);
    }
    if let Some(seed) = args.seed {
        flags.extend(["--seed".into(), seed.to_string()]);
    }
    for (name, path) in [("--hints", &args.hints), ("--pack", &args.pack)] {
        if let Some(path) = path {
            flags.extend([name.into(), path.display().to_string()]);
        }
    }
    flags.extend(args.server.flags());
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| n.to_string()).collect()
    }

    #[test]
    fn revisions_are_sorted_and_auto_stands_alone() {
        let chosen = revisions(&names(&["2025-11-25", "2024-11-05", "2025-11-25"])).unwrap();
        assert_eq!(
            chosen,
            Some(vec![Revision::V2024_11_05, Revision::V2025_11_25])
        );
        assert_eq!(revisions(&names(&["auto"])).unwrap(), None);
        assert!(revisions(&names(&["auto", "2024-11-05"])).is_err());
    }

    #[test]
    fn a_profile_runs_only_when_asked_for() {
        assert_eq!(profiles(&[]).unwrap(), ProfileChoice::None);
        assert_eq!(profiles(&names(&["auto"])).unwrap(), ProfileChoice::Auto);
        assert!(profiles(&names(&["auto", "toolchain"])).is_err());
    }
}
