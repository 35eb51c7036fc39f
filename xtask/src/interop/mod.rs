//! `cargo xtask interop`: the suite on public servers, against the verdicts that were checked by
//! hand and stored in `fixtures/interop/expected`.

pub(crate) mod expected;
mod install;
pub(crate) mod set;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::suite::{self, Run, Subject};
use crate::workspace::{self, SUITE};
use expected::Outcome;
pub(crate) use install::one as install;
pub(crate) use set::Server;

/// What `cargo xtask interop` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Every server of the set, not only those that install quickly
    #[arg(long)]
    all: bool,
    /// Only these servers
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
    /// Store what was found as the new expectation
    #[arg(long)]
    update: bool,
    /// Another set of servers, which are already installed: a JSON file like
    /// fixtures/interop/servers.json, without "install"
    #[arg(long, value_name = "FILE")]
    servers: Option<PathBuf>,
}

/// Exit code when not one server could be judged.
const NOTHING_JUDGED: u8 = 3;

/// How many servers ended how.
#[derive(Default)]
struct Tally {
    as_expected: usize,
    differ: usize,
    skipped: usize,
}

/// Installs, judges and compares. Exit code 0 when all that could be installed is as expected,
/// 1 when something differs, 3 when nothing could be judged.
pub(crate) fn run(options: &Options) -> Result<u8, String> {
    let servers = choose(options)?;
    let folder = set::folder();
    let missing = install::all(&servers, &folder)?;
    workspace::build_release(&[SUITE])?;
    let reports = suite::reports(&folder)?;

    let mut tally = Tally::default();
    for server in &servers {
        if let Some(why) = server.install.as_ref().and_then(|name| missing.get(name)) {
            println!("{:<20} skipped: {why}", server.name);
            tally.skipped += 1;
            continue;
        }
        let file = reports.join(format!("{}.json", server.name));
        if judge(server, &folder, &file, options.update)? {
            tally.as_expected += 1;
        } else {
            tally.differ += 1;
        }
    }
    println!(
        "{} as expected, {} differ, {} skipped; reports are in {}",
        tally.as_expected,
        tally.differ,
        tally.skipped,
        reports.display()
    );
    Ok(tally.code())
}

impl Tally {
    fn code(&self) -> u8 {
        match self {
            Tally { differ: 1.., .. } => 1,
            Tally { as_expected: 0, .. } => NOTHING_JUDGED,
            _ => 0,
        }
    }
}

/// The servers to judge: those named, or all, or the quick ones.
fn choose(options: &Options) -> Result<Vec<Server>, String> {
    let servers = match &options.servers {
        Some(file) => set::read(file)?,
        None => set::pinned()?,
    };
    for name in &options.only {
        if !servers.iter().any(|server| server.name == *name) {
            let names: Vec<_> = servers.iter().map(|server| server.name.as_str()).collect();
            return Err(format!("no server {name}; there are: {}", names.join(", ")));
        }
    }
    let everything = options.all || options.servers.is_some();
    Ok(servers
        .into_iter()
        .filter(|server| match options.only.as_slice() {
            [] => everything || server.quick,
            only => only.contains(&server.name),
        })
        .collect())
}

/// Judges one server, prints a line for it and one for each difference. Whether it is as expected.
fn judge(server: &Server, folder: &Path, file: &Path, update: bool) -> Result<bool, String> {
    let home = sandbox(folder)?;
    let subject = Subject {
        command: &server.command,
        env: &server.env,
        cwd: server.cwd.as_deref(),
        home: &home,
    };
    let run = match suite::check(&subject, file) {
        Ok(run) => run,
        Err(message) => {
            println!("{:<20} ERROR: {message}", server.name);
            return Ok(false);
        }
    };
    if let Some(fatal) = &run.report.fatal {
        println!("{:<20} ERROR: {}", server.name, fatal.message);
        return Ok(false);
    }
    let found = Outcome::of(&server.version, &run, &server.unsteady);
    let store = expected::file(&server.name);
    if update {
        found.write(&store)?;
        println!("{:<20} stored: {}", server.name, summary(&found, &run));
        return Ok(true);
    }
    let Some(expected) = Outcome::read(&store)? else {
        println!(
            "{:<20} NEW: {}; no expectation is stored, `--update` stores this one",
            server.name,
            summary(&found, &run)
        );
        return Ok(false);
    };
    let differences = found.differences(&expected, &run.report);
    let word = if differences.is_empty() {
        "as expected"
    } else {
        "DIFFERS"
    };
    println!("{:<20} {word}: {}", server.name, summary(&found, &run));
    for difference in &differences {
        println!("    {difference}");
    }
    Ok(differences.is_empty())
}

/// `4 revisions, 2 fail, 3 warn, 3.1 s`.
fn summary(found: &Outcome, run: &Run) -> String {
    let mut parts = vec![format!("{} revisions", found.revisions.len())];
    let mut counts = BTreeMap::new();
    for verdict in found.verdicts.values().flat_map(BTreeMap::values) {
        *counts.entry(verdict).or_insert(0) += 1;
    }
    parts.extend(
        counts
            .iter()
            .map(|(verdict, count)| format!("{count} {verdict}")),
    );
    parts.push(format!("{:.1} s", run.wall.as_secs_f64()));
    parts.join(", ")
}

/// A fresh folder for what servers read and write, so that no verdict depends on an earlier run.
/// Gives the home folder inside it.
fn sandbox(folder: &Path) -> Result<PathBuf, String> {
    let sandbox = folder.join("sandbox");
    let home = sandbox.join("home");
    let make = || -> std::io::Result<()> {
        if sandbox.exists() {
            fs::remove_dir_all(&sandbox)?;
        }
        fs::create_dir_all(&home)?;
        fs::write(sandbox.join("a.txt"), "a file to look at\n")?;
        for file in fs::read_dir(set::fixtures().join("files"))? {
            let file = file?;
            fs::copy(file.path(), sandbox.join(file.file_name()))?;
        }
        Ok(())
    };
    make().map_err(|error| format!("cannot make {}: {error}", sandbox.display()))?;
    Ok(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(as_expected: usize, differ: usize, skipped: usize) -> Tally {
        Tally {
            as_expected,
            differ,
            skipped,
        }
    }

    #[test]
    fn skipped_servers_do_not_fail_a_run_that_judged_some() {
        assert_eq!(tally(2, 0, 5).code(), 0);
    }

    #[test]
    fn a_difference_fails_the_run() {
        assert_eq!(tally(2, 1, 0).code(), 1);
        assert_eq!(tally(0, 1, 0).code(), 1);
    }

    #[test]
    fn a_run_that_judged_nothing_does_not_pass() {
        assert_eq!(tally(0, 0, 7).code(), NOTHING_JUDGED);
        assert_eq!(tally(0, 0, 0).code(), NOTHING_JUDGED);
    }
}
