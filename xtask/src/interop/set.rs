//! The set of public servers: `fixtures/interop/servers.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::workspace;

/// One server of the set.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Server {
    /// Short name, and the name of its expectation.
    pub(crate) name: String,
    /// The version that is installed.
    #[serde(default)]
    pub(crate) version: String,
    /// The folder below `fixtures/interop` that pins it; absent when it is installed already.
    #[serde(default)]
    pub(crate) install: Option<String>,
    /// Judged without `--all` too: its installation takes seconds.
    #[serde(default)]
    pub(crate) quick: bool,
    /// How it is started; `$INTEROP` stands for the folder of installations.
    pub(crate) command: Vec<String>,
    /// What it needs in its environment.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Rules whose verdict depends on a race in the server: they are not compared.
    #[serde(default)]
    pub(crate) unsteady: Vec<String>,
    /// Where it must be started, if not in a temporary folder.
    #[serde(default)]
    pub(crate) cwd: Option<PathBuf>,
}

/// The pinned data: servers, lock files, expectations.
pub(crate) fn fixtures() -> PathBuf {
    workspace::root().join("fixtures/interop")
}

/// Where servers are installed and run.
pub(crate) fn folder() -> PathBuf {
    workspace::target().join("interop")
}

/// The project's own set.
///
/// # Errors
/// As [`read`].
pub(crate) fn pinned() -> Result<Vec<Server>, String> {
    read(&fixtures().join("servers.json"))
}

/// Reads a set and puts the folder of installations in for `$INTEROP`.
///
/// # Errors
/// When the file cannot be read, is no such JSON, or a server has no command.
pub(crate) fn read(file: &Path) -> Result<Vec<Server>, String> {
    let text = fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let mut servers: Vec<Server> = serde_json::from_str(&text)
        .map_err(|error| format!("{} is no list of servers: {error}", file.display()))?;
    let folder = folder().display().to_string();
    for server in &mut servers {
        if server.command.is_empty() {
            return Err(format!(
                "{}: {} has no command",
                file.display(),
                server.name
            ));
        }
        let words = server.command.iter_mut().chain(server.env.values_mut());
        words.for_each(|word| *word = word.replace("$INTEROP", &folder));
    }
    Ok(servers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The part of an entry that only people and this test read.
    #[derive(Deserialize)]
    struct Pinned {
        name: String,
        package: String,
        version: String,
        sdk: String,
        install: String,
        quick: bool,
    }

    fn entries() -> Vec<Pinned> {
        let text = fs::read_to_string(fixtures().join("servers.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Every file below `folder`, with its text.
    fn texts(folder: &Path) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(texts(&path));
            } else {
                found.push((path.clone(), fs::read_to_string(&path).unwrap()));
            }
        }
        found
    }

    #[test]
    fn the_quick_set_has_eight_servers_of_several_sdks() {
        let entries = entries();
        let quick: Vec<_> = entries.iter().filter(|entry| entry.quick).collect();
        let sdks: BTreeSet<_> = quick.iter().map(|entry| entry.sdk.as_str()).collect();
        assert!(quick.len() >= 8, "{} quick servers", quick.len());
        assert!(sdks.len() >= 5, "{sdks:?}");
    }

    #[test]
    fn names_are_unique() {
        let mut seen = BTreeSet::new();
        for server in pinned().unwrap() {
            assert!(seen.insert(server.name.clone()), "{} twice", server.name);
        }
    }

    #[test]
    fn the_version_of_every_server_is_the_one_that_is_pinned() {
        for entry in entries() {
            let (registry, package) = entry.package.split_once(':').unwrap();
            let (file, line) = match registry {
                "npm" => (
                    format!("{}/package.json", entry.install),
                    format!("\"{package}\": \"{}\"", entry.version),
                ),
                "pypi" => (
                    format!("{}.txt", entry.install),
                    format!("{package}=={}\n", entry.version),
                ),
                "crate" => (
                    format!("{}/crates.txt", entry.install),
                    format!("{package}@{}\n", entry.version),
                ),
                other => panic!("{}: unknown registry {other}", entry.name),
            };
            let text = fs::read_to_string(fixtures().join(&file)).unwrap();
            assert!(text.contains(&line), "{}: {file} lacks {line}", entry.name);
        }
    }

    #[test]
    fn a_server_is_started_from_its_own_installation() {
        for server in pinned().unwrap() {
            let install = server.install.unwrap();
            let folder = folder().join(install);
            assert!(
                Path::new(&server.command[0]).starts_with(&folder),
                "{}: {} is not in {}",
                server.name,
                server.command[0],
                folder.display()
            );
        }
    }

    /// A registry's host in a lock file would bind every user to that registry.
    #[test]
    fn no_lock_file_names_a_registry() {
        for (path, text) in texts(&fixtures()) {
            assert!(
                !text.contains("\"resolved\""),
                "{} names a registry",
                path.display()
            );
        }
    }

    #[test]
    fn a_set_without_a_command_is_refused_with_the_name_of_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("servers.json");
        fs::write(&file, r#"[{"name":"lost","command":[]}]"#).unwrap();
        let message = read(&file).unwrap_err();
        assert!(message.contains("lost has no command"), "{message}");
    }
}
