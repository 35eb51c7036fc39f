//! `cargo xtask conformance`: the whole suite on the reference server.

use std::process::Command;

use clap::{Args, ValueEnum};

use crate::workspace::{self, SERVER, SUITE};

/// Plays a compiler that obeys its source text; see its `main.rs`.
const SCRIPTED: &str = "scripted-toolchain";

/// What `cargo xtask conformance` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Only with this toolchain behind the server's toolchain tools, not with both
    #[arg(long)]
    toolchain: Option<Toolchain>,
    /// More arguments for `touchstone check`, after `--`
    #[arg(last = true)]
    check: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Toolchain {
    /// The one that the server finds by itself: `rustc`, as a rule
    Found,
    /// The scripted one of the tests, which reaches every corner of the contract
    Scripted,
}

/// Builds the programs and judges the reference server in every revision and with every profile,
/// once for each toolchain. All its tools may be called: it is ours, and the suite gives it a
/// temporary home. The exit code is the first one that is not 0.
pub(crate) fn run(options: &Options) -> Result<u8, String> {
    workspace::build_release(&[SUITE, SERVER, SCRIPTED])?;
    let mut worst = 0;
    for toolchain in [Toolchain::Found, Toolchain::Scripted] {
        if options.toolchain.is_some_and(|only| only != toolchain) {
            continue;
        }
        let code = workspace::run(&mut check(toolchain, &options.check))?;
        if worst == 0 {
            worst = code;
        }
    }
    Ok(worst)
}

/// The suite's command line for the reference server with this toolchain.
fn check(toolchain: Toolchain, more: &[String]) -> Command {
    let mut check = Command::new(workspace::program(SUITE));
    check.args(["check", "--profile", "auto", "--call-all"]);
    check.args(more);
    check.arg("--").arg(workspace::program(SERVER));
    if toolchain == Toolchain::Scripted {
        let mut flag = std::ffi::OsString::from("--cajeta=");
        flag.push(workspace::program(SCRIPTED));
        check.arg(flag);
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(toolchain: Toolchain) -> Vec<String> {
        let more = ["--strict".to_owned()];
        let command = check(toolchain, &more);
        command
            .get_args()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn more_arguments_go_to_the_suite_and_not_to_the_server() {
        let arguments = arguments(Toolchain::Found);
        let divide = arguments.iter().position(|a| a == "--").unwrap();
        assert!(arguments[..divide].contains(&"--strict".to_owned()));
        assert_eq!(arguments.len(), divide + 2, "{arguments:?}");
    }

    #[test]
    fn the_scripted_toolchain_is_named_to_the_server() {
        let arguments = arguments(Toolchain::Scripted);
        let last = arguments.last().unwrap();
        assert!(
            last.starts_with("--cajeta=") && last.contains(SCRIPTED),
            "{last}"
        );
    }
}
