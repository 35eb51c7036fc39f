//! `cargo xtask conformance`: the whole suite on the reference server.

use std::process::Command;

use clap::{Args, ValueEnum};

use crate::workspace::{self, SERVER, SUITE};

/// Plays a compiler that obeys its source text; see its `main.rs`.
const SCRIPTED: &str = "scripted-toolchain";

/// What the demo tools do, so that rules about asking, logging and tasks have an occasion.
const HINTS: &str = "fixtures/hints/touchstone-server.toml";

/// What `cargo xtask conformance` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Only this way to start the server, not all of them
    #[arg(long)]
    only: Option<Way>,
    /// More arguments for `touchstone check`, after `--`
    #[arg(last = true)]
    check: Vec<String>,
}

/// A way to start the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// As an agent starts it, with the toolchain that it finds: `rustc`, as a rule
    Found,
    /// With the scripted toolchain of the tests, which reaches every corner of the contract
    Scripted,
    /// With the demo tools and hints, which show the rest of the protocol
    Demo,
}

/// Builds the programs and judges the reference server in every revision and with every profile,
/// once for each way to start it. All its tools may be called: it is ours, and the suite gives it
/// a temporary home. The exit code is the first one that is not 0.
pub(crate) fn run(options: &Options) -> Result<u8, String> {
    workspace::build_release(&[SUITE, SERVER, SCRIPTED])?;
    let mut worst = 0;
    for way in Way::value_variants() {
        if options.only.is_some_and(|only| only != *way) {
            continue;
        }
        let code = workspace::run(&mut check(*way, &options.check))?;
        if worst == 0 {
            worst = code;
        }
    }
    Ok(worst)
}

/// The suite's command line for the reference server, started this way.
fn check(way: Way, more: &[String]) -> Command {
    let mut check = Command::new(workspace::program(SUITE));
    check.arg("check");
    match way {
        // Of the demo tools the hints say which to call, and how.
        Way::Demo => check.arg("--hints").arg(workspace::root().join(HINTS)),
        Way::Found | Way::Scripted => check.args(["--profile", "auto", "--call-all"]),
    };
    check.args(more);
    check.arg("--").arg(workspace::program(SERVER));
    match way {
        Way::Found => {}
        Way::Scripted => {
            let mut flag = std::ffi::OsString::from("--cajeta=");
            flag.push(workspace::program(SCRIPTED));
            check.arg(flag);
        }
        Way::Demo => {
            let flags = [
                "--tools",
                "demo",
                "--page-size",
                "2",
                "--client-timeout",
                "1",
            ];
            check.args(flags);
        }
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(way: Way) -> Vec<String> {
        let more = ["--strict".to_owned()];
        let command = check(way, &more);
        command
            .get_args()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn more_arguments_go_to_the_suite_and_not_to_the_server() {
        let arguments = arguments(Way::Found);
        let divide = arguments.iter().position(|a| a == "--").unwrap();
        assert!(arguments[..divide].contains(&"--strict".to_owned()));
        assert_eq!(arguments.len(), divide + 2, "{arguments:?}");
    }

    #[test]
    fn the_scripted_toolchain_is_named_to_the_server() {
        let arguments = arguments(Way::Scripted);
        let last = arguments.last().unwrap();
        assert!(
            last.starts_with("--cajeta=") && last.contains(SCRIPTED),
            "{last}"
        );
    }
}
