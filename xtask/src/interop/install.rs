//! Installs what the set pins, below `target/interop`: one folder for each set of pins.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::set::{self, Server};

/// Written last into an installation: the pins it was made from. Equal pins need no new one.
const STAMP: &str = ".installed-from";

/// Why an installation is not there, by the name of its pins.
pub(crate) type Missing = BTreeMap<String, String>;

/// Installs everything that `servers` need and that is not there yet.
///
/// # Errors
/// Only when our own folders cannot be read or written; a missing tool or network is no error.
pub(crate) fn all(servers: &[Server], folder: &Path) -> Result<Missing, String> {
    let names: BTreeSet<_> = servers
        .iter()
        .filter_map(|server| server.install.as_deref())
        .collect();
    let mut missing = Missing::new();
    for name in names {
        if let Some(why) = one(&set::fixtures(), name, folder)? {
            missing.insert(name.to_owned(), why);
        }
    }
    Ok(missing)
}

/// Installs the pins called `name` of `fixtures` below `folder`, unless they are there. Gives the
/// reason when they cannot be.
///
/// # Errors
/// As [`all`].
pub(crate) fn one(fixtures: &Path, name: &str, folder: &Path) -> Result<Option<String>, String> {
    let pins = Pins::read(fixtures, name)?;
    let place = folder.join(name);
    if fs::read_to_string(place.join(STAMP)).is_ok_and(|stamp| stamp == pins.text) {
        return Ok(None);
    }
    println!("installing {name} into {}", place.display());
    if let Err(why) = pins.install(&place) {
        return Ok(Some(why));
    }
    fs::write(place.join(STAMP), &pins.text)
        .map_err(|error| format!("cannot write into {}: {error}", place.display()))?;
    Ok(None)
}

/// What one installation is made from.
struct Pins {
    kind: Kind,
    /// The folder or file with the pins.
    source: PathBuf,
    /// All that decides what gets installed.
    text: String,
}

enum Kind {
    Npm,
    Python,
    Cargo,
}

impl Pins {
    fn read(fixtures: &Path, name: &str) -> Result<Pins, String> {
        let (kind, source, pinned) = match name.split('/').next() {
            Some("npm") => (Kind::Npm, fixtures.join(name), "package-lock.json"),
            Some("python") => (Kind::Python, fixtures.join(format!("{name}.txt")), ""),
            Some("cargo") => (Kind::Cargo, fixtures.join(name).join("crates.txt"), ""),
            _ => return Err(format!("{name}: neither npm, python nor cargo")),
        };
        let file = match pinned {
            "" => source.clone(),
            pinned => source.join(pinned),
        };
        let text = fs::read_to_string(&file)
            .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        Ok(Pins { kind, source, text })
    }

    /// Installs into `place`, or says why that did not work, in words for the person at the desk.
    fn install(&self, place: &Path) -> Result<(), String> {
        // What an interrupted installation left behind would only confuse the next one.
        let _ = fs::remove_dir_all(place);
        fs::create_dir_all(place)
            .map_err(|error| format!("cannot make {}: {error}", place.display()))?;
        match self.kind {
            Kind::Npm => self.npm(place),
            Kind::Python => self.python(place),
            Kind::Cargo => self.cargo(place),
        }
    }

    fn npm(&self, place: &Path) -> Result<(), String> {
        for file in ["package.json", "package-lock.json", ".npmrc"] {
            fs::copy(self.source.join(file), place.join(file))
                .map_err(|error| format!("cannot copy {file}: {error}"))?;
        }
        let mut npm = Command::new("npm");
        // Not `npm ci`: it refuses a lock file without the optional binaries of other platforms.
        // npm waits for minutes on a network that is not there, unless told otherwise.
        npm.args([
            "install",
            "--fetch-retries=1",
            "--fetch-retry-mintimeout=1000",
        ]);
        run(npm.current_dir(place), "node with npm")
    }

    fn python(&self, place: &Path) -> Result<(), String> {
        let mut venv = Command::new("python3");
        run(venv.args(["-m", "venv"]).arg(place), "python3 with venv")?;
        let mut pip = Command::new(place.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--no-deps"]);
        pip.args(["--disable-pip-version-check", "--retries=1", "--timeout=10"]);
        // The file names every package with its version, so nothing needs resolving.
        run(pip.arg("--requirement").arg(&self.source), "pip")
    }

    fn cargo(&self, place: &Path) -> Result<(), String> {
        for package in self.text.lines() {
            let mut cargo = crate::workspace::cargo();
            cargo.args(["install", "--quiet", "--locked", "--root"]);
            // Servers are judged, not measured: a quick build will do.
            cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
            cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
            cargo.env("CARGO_TARGET_DIR", place.join("build"));
            run(cargo.arg(place).arg(package), "cargo")?;
        }
        Ok(())
    }
}

/// Runs one step of an installation; `tool` is what to install when the program is not there.
fn run(command: &mut Command, tool: &str) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("{tool} is not installed"));
        }
        Err(error) => return Err(format!("cannot start {program}: {error}")),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stderr, output.stdout].concat();
    Err(explain(tool, &String::from_utf8_lossy(&said)))
}

/// Words that package managers use for a network that is not there.
const NO_NETWORK: &[&str] = &[
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ENETUNREACH",
    "ETIMEDOUT",
    "name resolution",
    "NewConnectionError",
    "Connection refused",
    "Could not resolve host",
    "Couldn't resolve host",
    "Network is unreachable",
    "ConnectTimeoutError",
];

/// What to tell of an installation that failed.
fn explain(tool: &str, said: &str) -> String {
    if NO_NETWORK.iter().any(|word| said.contains(word)) {
        return format!("no network: {tool} cannot reach its package registry");
    }
    let lines: Vec<_> = said.lines().filter(|l| !l.trim().is_empty()).collect();
    // npm tells the cause first and then a page of usage; the others tell it last.
    let first_error = lines
        .iter()
        .position(|line| line.to_lowercase().contains("error"));
    let from = first_error.unwrap_or(lines.len().saturating_sub(5));
    let told: Vec<_> = lines[from..].iter().take(5).copied().collect();
    format!("{tool} failed:\n    {}", told.join("\n    "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named() {
        let mut command = Command::new("no-such-program-on-any-machine");
        assert_eq!(
            run(&mut command, "node with npm"),
            Err("node with npm is not installed".to_owned())
        );
    }

    #[test]
    fn a_missing_network_is_told_as_such() {
        for said in [
            "npm error code EAI_AGAIN\nnpm error request failed",
            "WARNING: Retrying after NewConnectionError(...)\nERROR: No matching distribution",
        ] {
            assert!(explain("pip", said).starts_with("no network"), "{said}");
        }
    }

    #[test]
    fn any_other_failure_shows_what_was_said_from_the_first_error_on() {
        let said = "npm warn old\n\nnpm error code EUSAGE\nnpm error out of sync\n";
        assert_eq!(
            explain("npm", said),
            "npm failed:\n    npm error code EUSAGE\n    npm error out of sync"
        );
    }

    #[test]
    fn a_failure_without_an_error_shows_the_last_lines() {
        let said = "1\n\n2\n3\n4\n5\n6\n";
        assert_eq!(
            explain("pip", said),
            "pip failed:\n    2\n    3\n    4\n    5\n    6"
        );
        assert_eq!(explain("pip", ""), "pip failed:\n    ");
    }

    #[test]
    fn every_pin_of_the_set_is_there() {
        for server in set::pinned().unwrap() {
            let pins = Pins::read(&set::fixtures(), &server.install.unwrap()).unwrap();
            assert!(!pins.text.trim().is_empty(), "{}", pins.source.display());
        }
    }
}
