//! The command line.

use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;

use crate::memory::config::MemoryArgs;
use crate::toolchain::config::ToolchainArgs;
use crate::workspace::config::WorkspaceArgs;

/// An MCP server over stdio, for agents: it reads messages on stdin and answers on stdout.
#[derive(Debug, Parser)]
#[command(name = "touchstone-server", version, max_term_width = 90)]
pub struct Arguments {
    /// Families of tools to offer, separated by commas: toolchain, memory, workspace (all three
    /// unless one is named), and demo, which exists only to exercise the protocol. Any other name
    /// is a function of --workspace marked `@tool` to offer as a tool; `all` is all of them.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub tools: Option<Vec<String>>,

    /// The longest line that is read, in bytes; K and M may follow the number.
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = bytes)]
    pub max_line: usize,

    /// Items on one page of a list; without it a list is one page.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub page_size: Option<u32>,

    /// How long the client may take to answer a question of a tool, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub client_timeout: Duration,

    /// What the toolchain tools need.
    #[command(flatten)]
    pub toolchain: ToolchainArgs,

    /// What the memory tools need.
    #[command(flatten)]
    pub memory: MemoryArgs,

    /// What the workspace tools need.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

/// Why the server does not start.
#[derive(Debug, PartialEq, Eq)]
pub enum Problem {
    /// What was asked for instead: `--help` or `--version`.
    Text(String),
    /// One line that says what is wrong.
    Usage(String),
}

/// Reads the command line, the program's name first.
///
/// # Errors
/// A [`Problem`] to print instead of serving.
pub fn parse(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<Arguments, Problem> {
    Arguments::try_parse_from(arguments).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Problem::Text(error.to_string()),
        _ => Problem::Usage(one_line(&error.to_string())),
    })
}

/// The paragraph that clap begins with, without its heading.
fn one_line(message: &str) -> String {
    let lines = message.lines().take_while(|line| !line.trim().is_empty());
    let text = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

fn bytes(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    let number = digits.parse::<usize>().ok();
    let bytes = number.and_then(|number| number.checked_mul(unit));
    bytes
        .filter(|bytes| *bytes >= 1024)
        .ok_or_else(|| "a number of bytes, at least 1024, is needed (like 65536 or 16M)".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "a number of seconds above 0 is needed".to_owned())
}
