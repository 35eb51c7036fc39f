//! `cargo xtask conformance`: the whole suite on the reference server.

use std::process::Command;

use clap::Args;

use crate::workspace::{self, SERVER, SUITE};

/// What `cargo xtask conformance` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// More arguments for `touchstone check`, after `--`
    #[arg(last = true)]
    check: Vec<String>,
}

/// Builds both programs and judges the reference server in every revision and with every profile.
/// All its tools may be called: it is ours, and the suite gives it a temporary home.
pub(crate) fn run(options: &Options) -> Result<u8, String> {
    workspace::build_release(&[SUITE, SERVER])?;
    let mut check = Command::new(workspace::program(SUITE));
    check.args(["check", "--profile", "auto", "--call-all"]);
    check.args(&options.check);
    check.arg("--").arg(workspace::program(SERVER));
    workspace::run(&mut check)
}
