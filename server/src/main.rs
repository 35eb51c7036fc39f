//! `touchstone-server`.

use std::process::ExitCode;

use touchstone_server::toolchain::rustc;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == rustc::SUBCOMMAND) {
        return rustc::main(args);
    }
    ExitCode::from(2)
}
