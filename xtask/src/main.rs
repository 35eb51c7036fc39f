//! The project's own tasks: `cargo xtask --help`.
//!
//! Depends on no other member: it builds the two programs with cargo and runs them as a user would.

mod bench;
mod ci;
mod conformance;
mod interop;
mod suite;
mod timing;
mod workspace;
mod zoo;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks for working on Touchstone.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 90)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format, lints and all tests; stops at the first step that fails
    Ci,
    /// Run the whole suite on the reference server
    Conformance(conformance::Options),
    /// Run the suite on public servers and compare the verdicts with the stored ones
    Interop(interop::Options),
    /// Measure the suite and the reference server; nothing is asserted
    Bench(bench::Options),
    /// Run the suite on every defect of the saboteur: each must be seen, and nothing else
    Zoo(zoo::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Ci => ci::run(),
        Task::Conformance(options) => conformance::run(&options),
        Task::Interop(options) => interop::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Zoo(options) => zoo::run(&options),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
