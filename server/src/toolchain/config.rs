//! The settings of the toolchain tools and where each comes from: a flag, else the environment,
//! else the `--config` file, else the default.
//!
//! An environment variable that is set to nothing counts as not set.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The environment variable that names the compiler.
pub const COMPILER_VARIABLE: &str = "CAJETA_BIN";

const ENABLED: &str = "CAJETA_MCP_CACHE_ENABLED";
const DIR: &str = "CAJETA_MCP_CACHE_DIR";
const TTL: &str = "CAJETA_MCP_CACHE_TTL";
const MAX_BYTES: &str = "CAJETA_MCP_CACHE_MAX_BYTES";
const MAX_ENTRIES: &str = "CAJETA_MCP_CACHE_MAX_ENTRIES";

/// The flags of the toolchain tools, as text: [`Settings::resolve`] reads them, so that a bad
/// value is told in one line whether it came from a flag, a variable or a file.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Toolchain tools")]
pub struct ToolchainArgs {
    /// The compiler to wrap [else $CAJETA_BIN, else `cajeta` on PATH, else rustc]
    #[arg(long, value_name = "PATH")]
    pub cajeta: Option<OsString>,

    /// Keep results of compile and jit_execute [default: on] [env: CAJETA_MCP_CACHE_ENABLED]
    #[arg(long, value_name = "on|off")]
    pub cache: Option<OsString>,

    /// The same as --cache=off
    #[arg(long)]
    pub no_cache: bool,

    /// Where results are kept [default: /tmp/cajeta-mcp-cache] [env: CAJETA_MCP_CACHE_DIR]
    #[arg(long, value_name = "PATH")]
    pub cache_dir: Option<OsString>,

    /// Seconds that a result is good for [default: 3600] [env: CAJETA_MCP_CACHE_TTL]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub cache_ttl: Option<OsString>,

    /// Bytes that all results may take [default: 104857600] [env: CAJETA_MCP_CACHE_MAX_BYTES]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub cache_max_bytes: Option<OsString>,

    /// How many results are kept [default: 256] [env: CAJETA_MCP_CACHE_MAX_ENTRIES]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub cache_max_entries: Option<OsString>,

    /// A JSON file with a `cache` block: enabled, dir, ttl, maxBytes, maxEntries
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Seconds that one compilation or run may take [default: 60]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub exec_timeout: Option<OsString>,

    /// Bytes kept of each of stdout and stderr of a run [default: 1048576]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_output: Option<OsString>,
}

/// A setting that cannot be used: one line for the person who starts the server. The program
/// ends with exit code 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// The settings of the execution cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// Whether results are kept at all.
    pub enabled: bool,
    /// The folder that holds one file for each result.
    pub dir: PathBuf,
    /// Seconds after which a result is a miss.
    pub ttl: u64,
    /// What all results may take together, in bytes.
    pub max_bytes: u64,
    /// How many results may be kept.
    pub max_entries: u64,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            dir: PathBuf::from("/tmp/cajeta-mcp-cache"),
            ttl: 3600,
            max_bytes: 100 * 1024 * 1024,
            max_entries: 256,
        }
    }
}

impl CacheSettings {
    /// The `cacheConfig` member of the `initialize` result.
    pub fn echo(&self) -> Map<String, Value> {
        let mut members = Map::new();
        members.insert(
            "cacheConfig".to_owned(),
            json!({
                "enabled": self.enabled,
                "dir": self.dir.to_string_lossy(),
                "ttl": self.ttl,
                "maxBytes": self.max_bytes,
                "maxEntries": self.max_entries,
            }),
        );
        members
    }
}

/// What a child process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long it may run.
    pub timeout: Duration,
    /// How many bytes are kept of each of its two streams; the rest is read and dropped.
    pub max_output: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            max_output: 1024 * 1024,
        }
    }
}

/// Everything the toolchain tools need to know, resolved.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The compiler that was asked for by flag or environment.
    pub compiler: Option<PathBuf>,
    /// Where programs are looked for: the value of `PATH`.
    pub search_path: OsString,
    /// Where the folders of calls are made.
    pub temp: PathBuf,
    /// The program that serves as the `rustc` toolchain (this very server).
    pub adapter: PathBuf,
    /// The execution cache.
    pub cache: CacheSettings,
    /// Limits of each child.
    pub limits: Limits,
}

impl Settings {
    /// Resolves the settings of this process.
    ///
    /// # Errors
    /// When a flag, a variable or the file holds a value that cannot be used.
    pub fn from_process(args: &ToolchainArgs) -> Result<Self, ConfigError> {
        let mut settings = Self::resolve(args, &|name| std::env::var_os(name))?;
        settings.adapter = std::env::current_exe().unwrap_or_default();
        Ok(settings)
    }

    /// Resolves settings from flags, an environment and the file that a flag names.
    ///
    /// # Errors
    /// When a flag, a variable or the file holds a value that cannot be used.
    pub fn resolve(
        args: &ToolchainArgs,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, ConfigError> {
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
        let file = match &args.config {
            Some(path) => read_file(path)?,
            None => CacheBlock::default(),
        };
        let defaults = CacheSettings::default();
        let count = |flag: &'static str, given: &Option<OsString>, name: &'static str| {
            choose(flag, given, name, variable(name), count)
        };
        let cache = CacheSettings {
            enabled: enabled_flag(args)?
                .map_or_else(
                    || choose("--cache", &None, ENABLED, variable(ENABLED), on_or_off),
                    |on| Ok(Some(on)),
                )?
                .or(file.enabled)
                .unwrap_or(defaults.enabled),
            dir: choose("--cache-dir", &args.cache_dir, DIR, variable(DIR), folder)?
                .or(file.dir)
                .unwrap_or(defaults.dir),
            ttl: count("--cache-ttl", &args.cache_ttl, TTL)?
                .or(file.ttl)
                .unwrap_or(defaults.ttl),
            max_bytes: count("--cache-max-bytes", &args.cache_max_bytes, MAX_BYTES)?
                .or(file.max_bytes)
                .unwrap_or(defaults.max_bytes),
            max_entries: count("--cache-max-entries", &args.cache_max_entries, MAX_ENTRIES)?
                .or(file.max_entries)
                .unwrap_or(defaults.max_entries),
        };
        Ok(Self {
            compiler: choose(
                "--cajeta",
                &args.cajeta,
                COMPILER_VARIABLE,
                variable(COMPILER_VARIABLE),
                program,
            )?,
            search_path: variable("PATH").unwrap_or_default(),
            temp: variable("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from),
            adapter: PathBuf::new(),
            cache,
            limits: limits(args)?,
        })
    }
}

/// The value of a flag, else of a variable, read by `read`; an error names where it stood.
fn choose<T>(
    flag: &str,
    given: &Option<OsString>,
    variable_name: &str,
    variable: Option<OsString>,
    read: fn(&OsStr) -> Result<T, String>,
) -> Result<Option<T>, ConfigError> {
    let (place, text) = match (given, variable) {
        (Some(text), _) => (flag.to_owned(), text.clone()),
        (None, Some(text)) => (format!("environment variable {variable_name}"), text),
        (None, None) => return Ok(None),
    };
    read(&text)
        .map(Some)
        .map_err(|problem| ConfigError(format!("{place}: {problem}")))
}

fn enabled_flag(args: &ToolchainArgs) -> Result<Option<bool>, ConfigError> {
    let wrong = |problem: String| ConfigError(format!("--cache: {problem}"));
    let flag = match args.cache.as_deref() {
        None => None,
        Some(text) if text == "on" => Some(true),
        Some(text) if text == "off" => Some(false),
        Some(text) => {
            return Err(wrong(format!("{} is neither `on` nor `off`", quoted(text))));
        }
    };
    match (flag, args.no_cache) {
        (Some(true), true) => Err(wrong("`on` contradicts --no-cache; give one".to_owned())),
        (flag, false) => Ok(flag),
        (_, true) => Ok(Some(false)),
    }
}

fn limits(args: &ToolchainArgs) -> Result<Limits, ConfigError> {
    let defaults = Limits::default();
    let timeout = choose("--exec-timeout", &args.exec_timeout, "", None, seconds)?;
    let max_output = choose("--max-output", &args.max_output, "", None, count)?;
    Ok(Limits {
        timeout: timeout.unwrap_or(defaults.timeout),
        max_output: max_output.map_or(defaults.max_output, |bytes| {
            usize::try_from(bytes).unwrap_or(usize::MAX)
        }),
    })
}

fn quoted(text: &OsStr) -> String {
    format!("`{}`", text.to_string_lossy().escape_debug())
}

fn count(text: &OsStr) -> Result<u64, String> {
    let digits = text
        .to_str()
        .filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    digits.and_then(|text| text.parse().ok()).ok_or_else(|| {
        format!(
            "{} is not a whole number from 0 to {}",
            quoted(text),
            u64::MAX
        )
    })
}

fn seconds(text: &OsStr) -> Result<Duration, String> {
    text.to_str()
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("{} is not a number of seconds above 0", quoted(text)))
}

fn on_or_off(text: &OsStr) -> Result<bool, String> {
    match text.to_string_lossy().to_ascii_lowercase().as_str() {
        "on" | "true" | "1" | "yes" => Ok(true),
        "off" | "false" | "0" | "no" => Ok(false),
        _ => Err(format!("{} is neither `on` nor `off`", quoted(text))),
    }
}

fn folder(text: &OsStr) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("the path of a folder is missing".to_owned());
    }
    Ok(PathBuf::from(text))
}

/// A bare name stays one, to be looked up on `PATH`; a path is made absolute, since children run
/// in folders of their own.
fn program(text: &OsStr) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("the path of a compiler is missing".to_owned());
    }
    let path = Path::new(text);
    if path.components().count() == 1 && !path.exists() {
        return Ok(path.to_owned());
    }
    std::path::absolute(path).map_err(|error| format!("{}: {error}", quoted(text)))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    #[serde(default)]
    cache: CacheBlock,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CacheBlock {
    enabled: Option<bool>,
    dir: Option<PathBuf>,
    ttl: Option<u64>,
    max_bytes: Option<u64>,
    max_entries: Option<u64>,
}

fn read_file(path: &Path) -> Result<CacheBlock, ConfigError> {
    let wrong = |problem: String| ConfigError(format!("--config {}: {problem}", path.display()));
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    // The derived reader would take an array for the members in their order.
    let value: Value = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if !value.is_object() || value.get("cache").is_some_and(|cache| !cache.is_object()) {
        return Err(wrong("it is not of the form {\"cache\": {…}}".to_owned()));
    }
    let file: ConfigFile =
        serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    Ok(file.cache)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn resolve(args: ToolchainArgs, environment: &[(&str, &str)]) -> Result<Settings, ConfigError> {
        let environment: HashMap<_, _> = environment.iter().copied().collect();
        Settings::resolve(&args, &|name| environment.get(name).map(OsString::from))
    }

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    fn text(text: &str) -> Option<OsString> {
        Some(OsString::from(text))
    }

    #[test]
    fn without_anything_the_defaults_hold() {
        let settings = resolve(ToolchainArgs::default(), &[]).unwrap();
        assert_eq!(settings.compiler, None);
        assert_eq!(settings.limits, Limits::default());
        assert_eq!(
            Value::Object(settings.cache.echo()),
            json!({"cacheConfig": {"enabled": true, "dir": "/tmp/cajeta-mcp-cache", "ttl": 3600,
                                   "maxBytes": 104857600, "maxEntries": 256}})
        );
    }

    #[test]
    fn flag_beats_environment_beats_file_beats_default_for_each_setting() {
        let all = r#"{"cache":{"enabled":false,"dir":"/f","ttl":1,"maxBytes":2,"maxEntries":3}}"#;
        let (_dir, path) = file(all);
        let config = Some(path);
        let environment = [
            (ENABLED, "on"),
            (DIR, "/e"),
            (TTL, "11"),
            (MAX_BYTES, "12"),
            (MAX_ENTRIES, "13"),
            (COMPILER_VARIABLE, "/e/cajeta"),
        ];
        let flags = ToolchainArgs {
            cajeta: text("/c/cajeta"),
            cache: text("off"),
            cache_dir: text("/c"),
            cache_ttl: text("21"),
            cache_max_bytes: text("22"),
            cache_max_entries: text("23"),
            config: config.clone(),
            ..ToolchainArgs::default()
        };
        let from = |args: ToolchainArgs, env: &[(&str, &str)]| {
            let settings = resolve(args, env).unwrap();
            let c = settings.cache;
            (
                settings.compiler,
                c.enabled,
                c.dir,
                c.ttl,
                c.max_bytes,
                c.max_entries,
            )
        };
        let only_file = ToolchainArgs {
            config,
            ..ToolchainArgs::default()
        };
        assert_eq!(
            from(only_file.clone(), &[]),
            (None, false, "/f".into(), 1, 2, 3)
        );
        assert_eq!(
            from(only_file, &environment),
            (Some("/e/cajeta".into()), true, "/e".into(), 11, 12, 13)
        );
        assert_eq!(
            from(flags, &environment),
            (Some("/c/cajeta".into()), false, "/c".into(), 21, 22, 23)
        );
    }

    #[test]
    fn no_cache_is_off_and_contradicts_on() {
        let no_cache = ToolchainArgs {
            no_cache: true,
            ..ToolchainArgs::default()
        };
        assert!(
            !resolve(no_cache.clone(), &[(ENABLED, "on")])
                .unwrap()
                .cache
                .enabled
        );
        let both = ToolchainArgs {
            cache: text("on"),
            ..no_cache.clone()
        };
        assert!(
            resolve(both, &[])
                .unwrap_err()
                .to_string()
                .contains("--no-cache")
        );
        let same = ToolchainArgs {
            cache: text("off"),
            ..no_cache
        };
        assert!(!resolve(same, &[]).unwrap().cache.enabled);
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        let settings = resolve(ToolchainArgs::default(), &[(TTL, ""), (DIR, "")]).unwrap();
        assert_eq!(settings.cache, CacheSettings::default());
    }

    #[test]
    fn a_value_that_cannot_be_used_is_one_line_that_names_its_place() {
        for bad in ["-1", "ten", "1.5", "", " 1", "+1", "99999999999999999999"] {
            let args = ToolchainArgs {
                cache_ttl: text(bad),
                ..ToolchainArgs::default()
            };
            let message = resolve(args, &[]).unwrap_err().to_string();
            assert!(message.starts_with("--cache-ttl: `"), "{message}");
            assert_eq!(message.lines().count(), 1);
        }
        for bad in ["-1", "ten"] {
            let message = resolve(ToolchainArgs::default(), &[(MAX_BYTES, bad)])
                .unwrap_err()
                .to_string();
            assert!(message.contains(MAX_BYTES), "{message}");
        }
        for bad in ["0", "-1", "NaN", "inf", "soon"] {
            let args = ToolchainArgs {
                exec_timeout: text(bad),
                ..ToolchainArgs::default()
            };
            assert!(resolve(args, &[]).is_err(), "{bad}");
        }
        assert!(resolve(ToolchainArgs::default(), &[(ENABLED, "perhaps")]).is_err());
        let args = ToolchainArgs {
            cache: text("perhaps"),
            ..ToolchainArgs::default()
        };
        assert!(resolve(args, &[]).is_err());
    }

    #[test]
    fn a_bad_file_is_one_line_that_names_the_file() {
        let bad = [
            "",
            "{",
            "[]",
            r#"{"cache":{"ttl":-1}}"#,
            r#"{"cache":{"ttl":"1"}}"#,
            r#"{"cache":{"ttl":1.5}}"#,
            r#"{"cache":{"tll":1}}"#,
            r#"{"cash":{}}"#,
            r#"{"cache":{"enabled":1}}"#,
            r#"{"cache":7}"#,
            r#"{"cache":[true]}"#,
            r#"{"cache":{}} x"#,
        ];
        for bad in bad {
            let (_dir, path) = file(bad);
            let args = ToolchainArgs {
                config: Some(path),
                ..ToolchainArgs::default()
            };
            let message = resolve(args, &[]).unwrap_err().to_string();
            assert!(message.contains("config.json"), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
        let args = ToolchainArgs {
            config: Some("/no/such".into()),
            ..ToolchainArgs::default()
        };
        assert!(
            resolve(args, &[])
                .unwrap_err()
                .to_string()
                .contains("/no/such")
        );
    }

    #[test]
    fn part_of_a_file_leaves_the_rest_as_it_was() {
        let (_dir, path) = file(r#"{ "cache": { "ttl": 86400, "maxEntries": 1024 } }"#);
        let args = ToolchainArgs {
            config: Some(path),
            ..ToolchainArgs::default()
        };
        let cache = resolve(args, &[]).unwrap().cache;
        let expected = CacheSettings {
            ttl: 86400,
            max_entries: 1024,
            ..CacheSettings::default()
        };
        assert_eq!(cache, expected);
    }
}
