//! The arguments that say how to start a server and how patient to be.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::Problem;
use crate::wire::{Launch, Limits};

const STARTUP: Duration = Duration::from_secs(10);
const REQUEST: Duration = Duration::from_secs(5);
/// How long silence is watched where silence is the rule.
const QUIET: Duration = Duration::from_millis(300);
/// Each step of stopping a process: a server that takes longer to exit is told.
const STOP: Duration = Duration::from_secs(5);

/// How to start the server.
#[derive(Debug, clap::Args)]
pub(super) struct Server {
    /// How long the server may take from its start to its first answer [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "The server")]
    startup_timeout: Option<Duration>,

    /// How long the server may take to answer a request [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "The server")]
    timeout: Option<Duration>,

    /// Start the server in this folder, not in an empty temporary one
    #[arg(long, value_name = "DIR", help_heading = "The server")]
    cwd: Option<PathBuf>,

    /// Let the server see your HOME, not an empty temporary one
    #[arg(long, help_heading = "The server")]
    inherit_home: bool,

    /// The command that starts the server, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Server {
    /// How to start it. The error says what is wrong with the folder.
    pub(super) fn launch(&self) -> Result<Launch, Problem> {
        let Some((program, args)) = self.command.split_first() else {
            return Err(Problem("there is no command after `--`".into()));
        };
        if program.is_empty() {
            return Err(Problem("the command after `--` is empty".into()));
        }
        let cwd = match &self.cwd {
            Some(path) => Some(
                std::path::absolute(path)
                    .ok()
                    .filter(|path| path.is_dir())
                    .ok_or_else(|| Problem(format!("--cwd `{}` is no folder", path.display())))?,
            ),
            None => None,
        };
        Ok(Launch {
            program: program.clone(),
            args: args.to_vec(),
            env: Vec::new(),
            cwd,
            inherit_home: self.inherit_home,
        })
    }

    /// How patient to be.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            startup: self.startup_timeout.unwrap_or(STARTUP),
            request: self.timeout.unwrap_or(REQUEST),
            quiet: QUIET,
            stop: STOP,
        }
    }

    /// The command, for reports.
    pub(super) fn command(&self) -> Vec<String> {
        let lossy = |word: &OsString| word.to_string_lossy().into_owned();
        self.command.iter().map(lossy).collect()
    }

    /// The flags that were given, to do the same again.
    pub(super) fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        let times = [
            ("--startup-timeout", self.startup_timeout),
            ("--timeout", self.timeout),
        ];
        for (name, time) in times {
            if let Some(time) = time {
                flags.extend([name.into(), time.as_secs_f64().to_string()]);
            }
        }
        if let Some(cwd) = &self.cwd {
            flags.extend(["--cwd".into(), cwd.display().to_string()]);
        }
        if self.inherit_home {
            flags.push("--inherit-home".into());
        }
        flags
    }
}

/// Reads a time in seconds, such as `2` or `0.5`. A day is more than any run needs.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    const DAY: f64 = 86_400.0;
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= DAY => Ok(Duration::from_secs_f64(number)),
        Ok(number) if number > DAY => Err("that is more than a day".into()),
        Ok(_) => Err("it must be more than 0".into()),
        Err(_) => Err("write it in seconds, such as 2 or 0.5".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_positive_numbers() {
        assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        for wrong in ["0", "-1", "", "5s", "NaN", "inf", "1e300"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
