//! `cargo xtask bench`: how quick the suite, the reference server and its tools are, side by side
//! with others.
//!
//! All subjects take turns in each round, so that a busy machine slows them all alike and the
//! ratios stay honest. Numbers are printed and never asserted.
//!
//! `suite` whole checks, first reply, small requests · `memory` the memory tools ·
//! `workspace` the language · `piped` a server on two pipes · `table` what is printed.

mod memory;
mod piped;
mod suite;
mod table;
mod workspace;

use std::path::Path;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::interop::{Server, set};
use crate::timing::Samples;
use crate::workspace::{SERVER, SUITE, build_release, target};

/// What `cargo xtask bench` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Rounds; in each of them everything is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measure these parts only
    #[arg(long, value_enum, value_name = "PART", num_args = 1..)]
    only: Vec<Part>,
    /// Small requests to send down one pipe
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Facts in the larger memory
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(10_000..))]
    facts: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The whole suite, the first reply, small requests
    Suite,
    /// The memory tools, next to the public memory server and to DataScript
    Memory,
    /// The workspace tools, and a loop and recursion next to python3 and node
    Workspace,
}

/// Measures what was asked for and prints a table for each part.
pub(crate) fn run(options: &Options) -> Result<u8, String> {
    build_release(&[SUITE, SERVER])?;
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    println!(
        "median (least to most) of {} alternating rounds",
        options.rounds
    );
    let wanted = |part| options.only.is_empty() || options.only.contains(&part);
    if wanted(Part::Suite) {
        suite::run(options, &folder)?;
    }
    if wanted(Part::Memory) {
        memory::run(options, &folder)?;
    }
    if wanted(Part::Workspace) {
        workspace::run(options, &folder)?;
    }
    Ok(0)
}

/// A pinned public server that `cargo xtask interop` has installed; says so when it has not.
fn installed(name: &str) -> Result<Option<Server>, String> {
    let found = set::pinned()?
        .into_iter()
        .find(|server| server.name == name && Path::new(&server.command[0]).exists());
    if found.is_none() {
        println!("{name}: skipped, not installed (cargo xtask interop --only {name})");
    }
    Ok(found)
}

/// The milliseconds that a piece of work takes, and what it gives.
fn timed<T>(work: impl FnOnce() -> Result<T, String>) -> Result<(f64, T), String> {
    let start = Instant::now();
    let done = work()?;
    Ok((start.elapsed().as_secs_f64() * 1e3, done))
}

/// The median time of one of many, in milliseconds: twenty, or as many as fit into a second.
fn repeated(mut work: impl FnMut(usize) -> Result<f64, String>) -> Result<f64, String> {
    const MOST: usize = 20;
    let until = Instant::now() + Duration::from_secs(1);
    let mut times = Samples::default();
    for at in 0..MOST {
        if at > 0 && Instant::now() >= until {
            break;
        }
        times.push(work(at)?);
    }
    times.median().ok_or("nothing was measured".to_owned())
}
