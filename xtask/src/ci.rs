//! `cargo xtask ci`: everything that must hold before a change is taken.

use crate::workspace;

/// One step: what it is called and what cargo is asked to do.
struct Step {
    name: &'static str,
    cargo: &'static [&'static str],
}

/// The steps, quickest first. `--locked` everywhere: a check must not change `Cargo.lock`.
const STEPS: &[Step] = &[
    Step {
        name: "format",
        cargo: &["fmt", "--all", "--check"],
    },
    Step {
        name: "lints",
        cargo: &[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "--deny",
            "warnings",
        ],
    },
    Step {
        name: "tests",
        cargo: &["test", "--locked", "--workspace"],
    },
    Step {
        name: "zoo",
        cargo: &["xtask", "zoo"],
    },
];

/// Runs the steps in their order; the exit code is that of the first one that fails.
pub(crate) fn run() -> Result<u8, String> {
    for (at, step) in STEPS.iter().enumerate() {
        let command = step.cargo.join(" ");
        println!(
            "[{}/{}] {}: cargo {command}",
            at + 1,
            STEPS.len(),
            step.name
        );
        let code = workspace::run(workspace::cargo().args(step.cargo))?;
        if code != 0 {
            eprintln!("ci: {} failed: cargo {command}", step.name);
            return Ok(code);
        }
    }
    println!("ci: all {} steps passed", STEPS.len());
    Ok(0)
}
