//! The settings of the memory tools and where each comes from: a flag, else the environment, else
//! the configuration file, else the default, which is memory in RAM and a fresh session.
//!
//! An environment variable that is set to nothing counts as not set.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use touchstone_store::Storage;
use touchstone_store::memory::{Place, Settings};

const CONFIG: &str = "TOUCHSTONE_MEMORY_CONFIG";
const PATH: &str = "TOUCHSTONE_MEMORY_PATH";
const SESSION: &str = "TOUCHSTONE_MEMORY_SESSION";

/// The longest configuration file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The flags of the memory tools.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Memory tools")]
pub struct MemoryArgs {
    /// The same as --memory
    #[arg(value_name = "CONFIG.edn")]
    pub memory_config: Option<PathBuf>,

    /// An EDN file: {:conn {:storage :file :path "…"} :session "id"}, or a transactor in :conn
    /// [env: TOUCHSTONE_MEMORY_CONFIG]
    #[arg(long, value_name = "CONFIG.edn", conflicts_with = "memory_config")]
    pub memory: Option<PathBuf>,

    /// The file that holds the memory; made when there is none [default: in RAM]
    /// [env: TOUCHSTONE_MEMORY_PATH]
    #[arg(long, value_name = "PATH")]
    pub memory_path: Option<PathBuf>,

    /// The id of the session to resume, or to open [default: a fresh one]
    /// [env: TOUCHSTONE_MEMORY_SESSION]
    #[arg(long, value_name = "ID")]
    pub session: Option<OsString>,
}

/// Finds the settings for this process.
///
/// # Errors
/// One line for the person who starts the server.
pub fn from_process(args: &MemoryArgs) -> Result<Settings, String> {
    resolve(args, &|name| std::env::var_os(name))
}

/// Finds the settings; `environment` looks up a variable.
///
/// # Errors
/// One line for the person who starts the server.
pub fn resolve(
    args: &MemoryArgs,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Settings, String> {
    let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
    let file = args.memory.clone().or_else(|| args.memory_config.clone());
    let mut settings = match file.or_else(|| variable(CONFIG).map(PathBuf::from)) {
        Some(file) => read(&file, Settings::parse)?,
        None => Settings::default(),
    };
    let path = args.memory_path.clone();
    if let Some(path) = path.or_else(|| variable(PATH).map(PathBuf::from)) {
        if path.as_os_str().is_empty() {
            return Err("--memory-path: the path is empty".to_owned());
        }
        settings.place = Place::Here(Storage::File(path));
    }
    if let Some(session) = args.session.clone().or_else(|| variable(SESSION)) {
        settings.session = Some(text(&session, "--session")?);
    }
    if settings
        .session
        .as_deref()
        .is_some_and(|id| id.is_empty() || id.len() > 256)
    {
        return Err("the id of a session is a text of 1 to 256 bytes".to_owned());
    }
    Ok(settings)
}

fn text(value: &OsStr, flag: &str) -> Result<String, String> {
    let text = value.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("{flag}: the value is not UTF-8"))
}

/// Reads a configuration file; errors name it, and never hold its token.
pub(super) fn read<T>(
    file: &Path,
    parse: fn(&str) -> touchstone_store::Result<T>,
) -> Result<T, String> {
    let name = file.display();
    let size = std::fs::metadata(file).map_err(|error| format!("{name}: {error}"))?;
    if size.len() > MAX_FILE {
        return Err(format!(
            "{name}: a configuration has at most {MAX_FILE} bytes"
        ));
    }
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    parse(&text).map_err(|error| match error.position() {
        Some(at) => format!("{name}:{}:{}: {}", at.line, at.column, error.message()),
        None => format!("{name}: {}", error.message()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.edn");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    fn none(_: &str) -> Option<OsString> {
        None
    }

    #[test]
    fn without_anything_memory_is_in_ram_and_the_session_fresh() {
        assert_eq!(
            resolve(&MemoryArgs::default(), &none),
            Ok(Settings::default())
        );
    }

    #[test]
    fn a_flag_goes_before_the_environment_and_the_file() {
        let (_folder, path) = file("{:conn {:storage :file :path \"/a\"} :session \"from file\"}");
        let environment = |name: &str| (name == PATH).then(|| "/b".into());
        let args = MemoryArgs {
            memory: Some(path.clone()),
            ..MemoryArgs::default()
        };
        let from_file = resolve(&args, &none).unwrap();
        assert_eq!(from_file.place, Place::Here(Storage::File("/a".into())));
        assert_eq!(from_file.session.as_deref(), Some("from file"));
        let from_environment = resolve(&args, &environment).unwrap();
        assert_eq!(
            from_environment.place,
            Place::Here(Storage::File("/b".into()))
        );
        let args = MemoryArgs {
            memory_path: Some("/c".into()),
            session: Some("mine".into()),
            memory_config: Some(path),
            ..MemoryArgs::default()
        };
        let from_flags = resolve(&args, &environment).unwrap();
        assert_eq!(from_flags.place, Place::Here(Storage::File("/c".into())));
        assert_eq!(from_flags.session.as_deref(), Some("mine"));
    }

    #[test]
    fn a_file_that_is_wrong_is_named_with_the_place() {
        for (text, message) in [
            (
                "{:conn {:storage :file}",
                "memory.edn:1:1: `{` is never closed",
            ),
            ("{:conn {:storage :file}}", "needs a :path"),
            ("{:conn {:storage :disk}}", ":storage is :memory or :file"),
            ("{:con {}}", "did you mean :conn?"),
            (
                "{:conn {:host \"h\" :port 70000 :token \"secret\"}}",
                "a :port from 1 to 65535",
            ),
            (
                "{:conn {:host \"h\" :port 1 :token secret}}",
                ":token is a string",
            ),
            ("[]", "a configuration is a map"),
        ] {
            let (_folder, path) = file(text);
            let args = MemoryArgs {
                memory: Some(path),
                ..MemoryArgs::default()
            };
            let error = resolve(&args, &none).expect_err(text);
            assert!(
                error.contains(message) && error.contains("memory.edn"),
                "{error}"
            );
            assert!(!error.contains("secret"), "{error}");
        }
        let missing = MemoryArgs {
            memory: Some("/no/such.edn".into()),
            ..MemoryArgs::default()
        };
        assert!(
            resolve(&missing, &none)
                .unwrap_err()
                .starts_with("/no/such.edn: ")
        );
    }
}
