//! One child process: spawn, frame, time, stop. The only place that touches pipes. Knows no MCP.

mod child;
mod frame;
pub(crate) mod json;
mod launch;
mod live;
mod pump;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::Value;

pub use child::Child;
pub use live::kill_all;

/// How to start the server.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, as the user named it.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables to set over the inherited environment; `None` removes one.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// The working folder; `None` is a temporary one of the process's own.
    pub cwd: Option<PathBuf>,
    /// Whether `HOME` and its kin stay the user's, instead of a temporary folder.
    pub inherit_home: bool,
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From the spawn to the first answer.
    pub startup: Duration,
    /// From a request to its answer.
    pub request: Duration,
    /// How long silence is watched where silence is the rule.
    pub quiet: Duration,
    /// Each step of stopping: after end of input, after TERM.
    pub stop: Duration,
}

/// Why a process could not be started.
#[derive(Debug)]
pub struct SpawnError {
    /// What went wrong and what to do, for the user.
    pub message: String,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SpawnError {}

/// A line of standard output.
#[derive(Debug, Clone)]
pub struct Line {
    /// The bytes without the newline. Of a line longer than [`MAX_LINE`] only the first few KiB.
    pub bytes: Vec<u8>,
    /// Whether a newline ended it; false for what stands after the last one at the end of output.
    pub terminated: bool,
    /// What the bytes are.
    pub body: Body,
}

/// What a line of output is.
#[derive(Debug, Clone)]
pub enum Body {
    /// One JSON value, read without loss.
    Json(Json),
    /// Nothing but white space.
    Blank,
    /// Not UTF-8, from this byte on.
    NotUtf8(usize),
    /// UTF-8, but not one JSON value; the reason.
    NotJson(String),
    /// Longer than [`MAX_LINE`]: the number of bytes it had.
    TooLong(u64),
}

/// A JSON value as it was written: numbers keep their text (but for an exponent, which is read
/// as `e+N` or `e-N`), members their order.
#[derive(Debug, Clone)]
pub struct Json {
    /// The value.
    pub value: Value,
    /// JSON Pointers of members whose name stands twice in its object.
    pub duplicates: Vec<String>,
}

/// The longest line that is kept, in bytes.
pub const MAX_LINE: usize = 64 << 20;

/// The most that is kept of one process's output: bytes, with an allowance for what they parse to.
pub const MAX_LOG: usize = 256 << 20;

/// The most lines of one process's output that are kept.
pub const MAX_LINES: usize = 250_000;

/// The most that waits to be written to a process, in bytes.
pub const MAX_QUEUED: usize = 128 << 20;

/// The most of standard error that is kept, in bytes.
pub const MAX_STDERR: usize = 64 << 10;

/// One thing that happened on the wire.
#[derive(Debug, Clone)]
pub struct Entry {
    /// When, since the spawn.
    pub at: Duration,
    /// What.
    pub event: Event,
}

/// What can happen on the wire.
#[derive(Debug, Clone)]
pub enum Event {
    /// We wrote these bytes (newline included, if there was one).
    Sent(Vec<u8>),
    /// The server wrote a line.
    Received(Line),
    /// We closed the server's standard input.
    InputClosed,
    /// The server closed its standard output.
    OutputClosed,
    /// The server wrote more than [`MAX_LOG`] or [`MAX_LINES`]: from here on its output is not
    /// read any more, and [`Child::receive`] gives [`Received::End`].
    Flooded,
    /// The process ended.
    Exited(ExitStatus),
}

/// What waiting gave. Indices point into [`Child::log`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A line stands at this index of the log.
    Line(usize),
    /// Standard output is at its end; nothing more will come.
    End,
    /// Nothing came in time.
    Timeout,
}

/// How a process came to its end.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Everything that happened.
    pub log: Vec<Entry>,
    /// The last 64 KiB of standard error, lossily decoded.
    pub stderr: String,
    /// The status, if it could be had.
    pub status: Option<ExitStatus>,
    /// What it took.
    pub by: EndedBy,
    /// From the closing of standard input to the exit.
    pub took: Duration,
    /// The processor time that it used in the second half of the wait for its end, which did not
    /// come. Zero where that cannot be seen: Linux alone tells.
    pub busy: Duration,
    /// Whether processes of its group were still alive after it and had to be killed.
    pub left_behind: bool,
}

/// What it took to end a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// It had ended before anything was asked.
    Itself,
    /// The end of its input.
    EndOfInput,
    /// TERM.
    Term,
    /// KILL.
    Kill,
}
