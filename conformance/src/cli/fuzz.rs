//! `touchstone fuzz`: generated traffic for longer.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use super::Problem;
use super::check::{call_policy, requirements, revision_names, revisions, side_by_side};
use super::deliver::Delivery;
use super::server::{Server, seconds};
use crate::report::Again;
use crate::run::{self, Options, ProfileChoice};

/// Cases of each kind in a round.
const ROUND: u32 = 64;

const EXAMPLES: &str = "\
Examples:
  touchstone fuzz -- node dist/server.js
  touchstone fuzz --time 1h --save found -- ./my-server
  touchstone fuzz --time 30s --seed 7 --only tools -- ./my-server

Cases are made in rounds: the first one with the seed, each further one with the next seed. The
report names the seed, a saved transcript the one of its round.
Exit codes: as for `touchstone check`.";

/// Look for breaches with generated traffic
///
/// Starts the server that stands after `--`, and puts to it, until the time is up: requests that
/// are odd but legal, lines that are broken, and calls of tools with arguments made from their
/// schemas. Only tools that say that they only read are called, and those that you allow. What
/// fails is made as simple as it can be.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// How long: 90s, 5m, 1h
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = time, help_heading = "How to run")]
    time: Duration,

    /// Seed of the generated cases; the same seed gives the same cases [default: another each time]
    #[arg(long, value_name = "N", help_heading = "How to run")]
    seed: Option<u64>,

    /// Server processes side by side [default: twice the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "How to run")]
    jobs: Option<u16>,

    /// Judge this revision only (repeat for more); `auto` finds those that the server claims
    #[arg(long, value_name = "R|auto", default_value = "auto", value_parser = revision_names(), help_heading = "What to judge")]
    revision: Vec<String>,

    /// Judge these requirements only: ids, areas, or globs such as 'tools.*' (repeatable)
    #[arg(long, value_name = "ID", help_heading = "What to judge")]
    only: Vec<String>,

    /// Leave these requirements out: ids, areas, or globs (repeatable)
    #[arg(long, value_name = "ID", help_heading = "What to judge")]
    skip: Vec<String>,

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

    #[command(flatten)]
    delivery: Delivery,

    #[command(flatten)]
    server: Server,
}

/// Runs it and gives the exit code.
pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let (only, skip) = requirements(&args.only, &args.skip)?;
    // Short, so that it is easily typed again.
    let seed = args
        .seed
        .unwrap_or_else(|| RandomState::new().hash_one(()) % 1_000_000_000);
    let options = Options {
        launch: args.server.launch()?,
        command: args.server.command(),
        limits: args.server.limits(),
        total: None,
        revisions: revisions(&args.revision)?,
        profiles: ProfileChoice::None,
        only,
        skip,
        call: call_policy(args.call_all, &args.call),
        jobs: args.jobs.map_or_else(side_by_side, usize::from),
        cases: ROUND,
        seed: Some(seed),
        pack: None,
        hints: crate::run::Hints::default(),
    };
    let again = Again::Fuzz {
        flags: flags(args, seed),
    };
    let time = args.time;
    args.delivery
        .run(&again, move |bar| run::fuzz(&options, time, bar))
}

/// The flags of this run that matter to the outcome, to do it again.
fn flags(args: &Args, seed: u64) -> Vec<String> {
    let mut flags = vec!["--seed".to_owned(), seed.to_string()];
    let time = humantime::format_duration(args.time).to_string();
    flags.extend(["--time".into(), time.replace(' ', "")]);
    for name in &args.call {
        flags.extend(["--call".into(), name.clone()]);
    }
    if args.call_all {
        flags.push("--call-all".into());
    }
    flags.extend(args.server.flags());
    flags
}

/// Reads `90s`, `5m`, `1h30m`, or a number of seconds.
fn time(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);
    let time = match text.parse::<f64>() {
        Ok(_) => seconds(text)?,
        Err(_) => humantime::parse_duration(text)
            .map_err(|_| "write it as 90s, 5m or 1h30m".to_owned())?,
    };
    match time {
        Duration::ZERO => Err("it must be more than 0".into()),
        time if time > LONGEST => Err("that is more than 30 days".into()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(time("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(time("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(time("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "0", "0s", "-1", "5 parsecs", "NaN", "1000000h"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
