//! The `touchstone` command.

fn main() -> std::process::ExitCode {
    touchstone::cli::main(std::env::args_os())
}
