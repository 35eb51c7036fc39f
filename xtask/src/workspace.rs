//! Where the workspace lies, and how its programs are built and run.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// The suite's package; its program has the same name.
pub(crate) const SUITE: &str = "touchstone";
/// The reference server's package; its program has the same name.
pub(crate) const SERVER: &str = "touchstone-server";

/// The folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// A release build of one of the workspace's programs, whether it is there or not.
pub(crate) fn program(name: &str) -> PathBuf {
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    target().join("release").join(file)
}

/// The cargo that runs this task, in the workspace's folder.
pub(crate) fn cargo() -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root());
    command
}

/// Builds `packages` for release.
///
/// # Errors
/// Says which packages did not build; cargo has told why on stderr.
pub(crate) fn build_release(packages: &[&str]) -> Result<(), String> {
    let mut command = cargo();
    command.args(["build", "--release", "--locked"]);
    for package in packages {
        command.args(["--package", package]);
    }
    match run(&mut command)? {
        0 => Ok(()),
        code => Err(format!(
            "cargo could not build {} (exit code {code})",
            packages.join(" and ")
        )),
    }
}

/// Runs a command to its end, on our own terminal, and gives its exit code.
///
/// # Errors
/// When the program cannot be started.
pub(crate) fn run(command: &mut Command) -> Result<u8, String> {
    let status = command.status().map_err(|error| {
        format!(
            "cannot start {}: {error}",
            command.get_program().to_string_lossy()
        )
    })?;
    Ok(code(status))
}

/// The exit code, as a shell gives it: 128 and the signal's number after a signal.
pub(crate) fn code(status: ExitStatus) -> u8 {
    if let Some(code) = status.code() {
        return u8::try_from(code).unwrap_or(1);
    }
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(1);
    }
    1
}
