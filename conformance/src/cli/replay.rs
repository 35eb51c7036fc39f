//! `touchstone replay`: run transcripts against a server.

use std::path::PathBuf;
use std::sync::Arc;

use super::deliver::deliver;
use super::interrupt::{Outcome, watch};
use super::progress::Bar;
use super::server::Server;
use super::{Problem, print_error};
use crate::report::{Again, exit_code};
use crate::run::replay;
use crate::spec::Revision;

const EXAMPLES: &str = "\
Examples:
  touchstone replay tests/*.txt -- node dist/server.js
  touchstone replay --update tests/list.txt -- node dist/server.js

A transcript is a script of lines to send (`-->`) and lines to expect (`<--`). `check --save DIR`
writes one for each breach. With --update the expected lines become what the server says now;
placeholders stay.";

/// Run transcripts against a server
///
/// Starts the server that stands after `--`, sends it what each transcript says, and compares
/// what comes back.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The transcripts
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Write what the server says into the transcripts, keeping their placeholders
    #[arg(long)]
    update: bool,

    /// Speak this revision [default: the newest that the transcript and the server share]
    #[arg(long, value_name = "R", value_parser = revision)]
    revision: Option<Revision>,

    /// What tools do with which arguments, for rules of saved breaches that are put to the test
    /// again [default: touchstone.toml in the current folder, if it is there]
    #[arg(long, value_name = "FILE")]
    hints: Option<PathBuf>,

    /// Also show notes and whole exchanges
    #[arg(long, short)]
    verbose: bool,

    #[command(flatten)]
    server: Server,
}

/// Runs it and gives the exit code.
pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    for file in &args.files {
        if !file.is_file() {
            return Err(Problem(format!("there is no file `{}`", file.display())));
        }
    }
    let options = replay::Options {
        launch: args.server.launch()?,
        command: args.server.command(),
        limits: args.server.limits(),
        files: args.files.clone(),
        revision: args.revision,
        update: args.update,
        hints: super::check::hints(&args.hints)?,
    };
    let bar = Arc::new(Bar::new());
    let (report, interrupted) = match watch(&bar, move |bar| replay::replay(&options, bar))? {
        Outcome::Done(report) => (report?, None),
        Outcome::Interrupted(Some(report), code) => (report?, Some(code)),
        Outcome::Interrupted(None, code) => {
            print_error("interrupted\n")?;
            return Ok(code);
        }
    };
    let again = Again::Replay {
        flags: args.server.flags(),
    };
    deliver(&report, &again, false, args.verbose, Vec::new())?;
    Ok(interrupted.unwrap_or_else(|| exit_code(&report, false)))
}

fn revision(name: &str) -> Result<Revision, String> {
    Revision::parse(name).ok_or_else(|| {
        let known = Revision::ALL.map(Revision::as_str).join(", ");
        format!("there are {known}")
    })
}
