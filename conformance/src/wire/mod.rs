//! One child process: spawn, frame, time, stop. The only place that touches pipes. Knows no MCP.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use serde_json::Value;

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

/// A line of standard output.
#[derive(Debug, Clone)]
pub struct Line {
    /// The bytes without the newline. At most [`MAX_LINE`] are kept.
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

/// A JSON value as it was written: numbers keep their text, members their order.
#[derive(Debug, Clone)]
pub struct Json {
    /// The value.
    pub value: Value,
    /// JSON Pointers of members whose name stands twice in its object.
    pub duplicates: Vec<String>,
}

/// The longest line that is kept, in bytes.
pub const MAX_LINE: usize = 64 << 20;

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

/// A running server. Dropping it stops it (without patience) and reaps it.
#[derive(Debug)]
pub struct Child {}

#[allow(unused_variables, missing_docs)]
impl Child {
    /// Starts the process in a group of its own, with pipes, a temporary `HOME` and folder
    /// unless told otherwise. The error says what to do.
    pub fn spawn(launch: &Launch) -> Result<Child, SpawnError> {
        unimplemented!()
    }

    /// Hands bytes to the writer, as they are. Never blocks: a server that does not read its
    /// input does not stop the suite (queued bytes are bounded; past the bound they are dropped
    /// and [`Child::input_stuck`] turns true).
    pub fn send(&mut self, bytes: &[u8]) {
        unimplemented!()
    }

    /// Waits until everything queued is written, at most until then. False if it is not.
    pub fn flush(&mut self, until: Instant) -> bool {
        unimplemented!()
    }

    /// Whether the server stopped reading its input.
    pub fn input_stuck(&self) -> bool {
        unimplemented!()
    }

    /// The next line of output that was not yet given, at most until then.
    pub fn receive(&mut self, until: Instant) -> Received {
        unimplemented!()
    }

    /// Everything that happened so far, oldest first.
    pub fn log(&self) -> &[Entry] {
        unimplemented!()
    }

    /// When it was spawned.
    pub fn started(&self) -> Instant {
        unimplemented!()
    }

    /// The last 64 KiB of standard error, lossily decoded.
    pub fn stderr(&self) -> String {
        unimplemented!()
    }

    /// The exit status if the process has ended; does not wait.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        unimplemented!()
    }

    /// Waits for the exit, at most until then.
    pub fn wait(&mut self, until: Instant) -> Option<ExitStatus> {
        unimplemented!()
    }

    /// Closes standard input, after what is queued was written.
    pub fn close_input(&mut self) {
        unimplemented!()
    }

    /// Closes standard input, waits, TERM to the group, waits, KILL; reaps; drains the pipes.
    /// `patience` is the time for each step.
    pub fn stop(self, patience: Duration) -> Ended {
        unimplemented!()
    }

    /// KILL to the group at once, and reap.
    pub fn kill(self) -> Ended {
        unimplemented!()
    }
}
