//! The command line: one file per command, nothing but arguments and exit codes.

mod check;
mod deliver;
mod explain;
mod fuzz;
mod interrupt;
mod list;
mod progress;
mod replay;
mod select;
mod server;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};

use crate::report::output::write_all;
use crate::report::text;

/// The exit code for wrong arguments, and for a report that could not be written.
const USAGE: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  touchstone check -- node dist/server.js          judge a server in every revision it claims
  touchstone check --revision 2025-06-18 -- ./srv  judge it in one revision
  touchstone fuzz --time 5m -- ./srv               look for breaches with generated traffic
  touchstone explain jsonrpc.response.id-echo     what a rule says and how to mend a breach
  touchstone list --coverage                       what is tested, and what is not

Exit codes:
  0  everything was judged, and nothing fails
  1  something fails (with --strict: or warns)
  2  wrong arguments, or a report could not be written
  3  the server could not be started or spoken to
  4  nothing fails, but nothing, or not everything, could be judged";

/// Tells the author of an MCP server what the server gets wrong, with evidence.
///
/// Touchstone starts the server, speaks to it over stdio, and checks it against every revision
/// of the protocol that it claims. Nothing has to be built into the server. Tools are called
/// only when the server marks them read-only, or when you allow it.
#[derive(Debug, Parser)]
#[command(name = "touchstone", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Box<check::Args>),
    List(list::Args),
    Explain(explain::Args),
    Fuzz(Box<fuzz::Args>),
    Replay(replay::Args),
}

/// Why a command could not do its work: told on stderr, exit code 2.
#[derive(Debug)]
struct Problem(String);

impl From<String> for Problem {
    fn from(message: String) -> Problem {
        Problem(message)
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        Problem(format!("cannot write the output: {error}"))
    }
}

/// Runs the command that the arguments name (the first one is the program's own name) and gives
/// the exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return refuse(&args, &error),
    };
    let result = match cli.command {
        Command::Check(args) => check::run(&args),
        Command::List(args) => list::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Replay(args) => replay::run(&args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(Problem(message)) => {
            let _ = print_error(&format!("error: {message}\n"));
            ExitCode::from(USAGE)
        }
    }
}

/// Prints what clap has to say (help too), or a better hint where the `--` is missing.
fn refuse(args: &[OsString], error: &clap::Error) -> ExitCode {
    match missing_separator(args, error) {
        Some(hint) => {
            let _ = print_error(&hint);
        }
        None => {
            let _ = error.print();
        }
    }
    ExitCode::from(if error.use_stderr() { USAGE } else { 0 })
}

/// What to say when the server's command stands without `--` before it, or not at all.
fn missing_separator(args: &[OsString], error: &clap::Error) -> Option<String> {
    if args.iter().any(|arg| arg == "--") {
        return None;
    }
    let words: Vec<String> = args
        .iter()
        .skip(1)
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    let subcommand = words
        .iter()
        .find(|w| ["check", "fuzz", "replay"].contains(&w.as_str()));
    let stray = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(arg))) if !arg.starts_with('-') => {
            words.iter().position(|word| word == arg)
        }
        _ => None,
    };
    let example = match (error.kind(), subcommand, stray) {
        (ErrorKind::UnknownArgument, Some(_), Some(at)) => {
            let mut fixed = vec!["touchstone".to_owned()];
            fixed.extend_from_slice(&words[..at]);
            fixed.push("--".into());
            fixed.extend_from_slice(&words[at..]);
            text::shell(&fixed, usize::MAX).join(" ")
        }
        (ErrorKind::MissingRequiredArgument, Some(name), _) if name != "replay" => {
            format!("touchstone {name} -- node dist/server.js")
        }
        (ErrorKind::MissingRequiredArgument, Some(_), _) => {
            "touchstone replay FILE… -- node dist/server.js".into()
        }
        _ => return None,
    };
    let subcommand = subcommand.map_or("", String::as_str);
    Some(format!(
        "error: the command that starts the server goes after `--`\n\n  {example}\n\n\
         For more, see `touchstone {subcommand} --help`.\n"
    ))
}

/// Prints text with colours in it to standard output; they are left out where they are not
/// wanted.
fn print(text: &str) -> io::Result<()> {
    write_all(&mut anstream::stdout().lock() as &mut dyn Write, text)
}

/// As [`print`], to standard error.
fn print_error(text: &str) -> io::Result<()> {
    write_all(&mut anstream::stderr().lock() as &mut dyn Write, text)
}

/// Columns to lay text out in.
fn width(stream: impl std::os::fd::AsFd) -> usize {
    match terminal_size::terminal_size_of(stream) {
        Some((terminal_size::Width(columns), _)) if columns > 0 => usize::from(columns),
        _ => 80,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn hint(line: &str) -> Option<String> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        missing_separator(&args, &Cli::try_parse_from(&args).unwrap_err())
    }

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_missing_separator_is_put_where_it_belongs() {
        let hint = |line| hint(line).unwrap();
        assert!(hint("touchstone check node a.js").contains("touchstone check -- node a.js\n"));
        assert!(
            hint("touchstone check --jobs 2 node --inspect a.js")
                .contains("touchstone check --jobs 2 -- node --inspect a.js\n")
        );
        assert!(hint("touchstone check").contains("touchstone check -- node"));
        assert!(hint("touchstone replay a.txt node").contains("touchstone replay FILE"));
    }

    #[test]
    fn other_errors_are_left_to_clap() {
        assert_eq!(hint("touchstone check --no-such-flag"), None);
        assert_eq!(hint("touchstone check --"), None);
        assert_eq!(hint("touchstone explain"), None);
    }
}
