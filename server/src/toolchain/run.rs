//! One child process: its limits, its output, and the end of everything it started.
//!
//! A child leads a process group of its own. Whatever is left of that group is killed when the
//! child has ended, ran out of time, was cancelled, or the server stops.

use std::collections::HashSet;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::config::Limits;
use crate::protocol::family::Call;

/// How often a running child's call is asked whether it was cancelled.
const TICK: Duration = Duration::from_millis(20);
/// How long output is read after the group is gone: a process that left the group may hold the
/// pipe open, and go on writing.
const DRAIN: Duration = Duration::from_millis(200);

/// The process groups that live, so that all can be ended when the server stops.
#[derive(Debug, Default)]
pub(super) struct Groups {
    state: Mutex<State>,
    idle: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stopping: bool,
    live: HashSet<Pid>,
    calls: usize,
}

/// A call at work; [`Groups::stop`] waits until all are dropped.
#[derive(Debug)]
pub(super) struct Work<'a>(&'a Groups);

impl Groups {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces a call; `None` when the server is stopping.
    pub(super) fn begin(&self) -> Option<Work<'_>> {
        let mut state = self.state();
        if state.stopping {
            return None;
        }
        state.calls += 1;
        Some(Work(self))
    }

    /// Kills every group, lets no other start, and waits up to `limit` until the calls have
    /// removed what they made. Returns whether they had.
    pub(super) fn stop(&self, limit: Duration) -> bool {
        let mut state = self.state();
        state.stopping = true;
        for pid in &state.live {
            kill_group(*pid);
        }
        let waited = self
            .idle
            .wait_timeout_while(state, limit, |state| state.calls > 0);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.calls == 0
    }

    /// Starts a child and notes its group, both at once as seen by [`Groups::stop`].
    fn spawn(&self, command: &mut Command) -> io::Result<Option<Child>> {
        for attempt in 0.. {
            let mut state = self.state();
            if state.stopping {
                return Ok(None);
            }
            match command.spawn() {
                Ok(child) => {
                    state.live.insert(Pid::from_child(&child));
                    return Ok(Some(child));
                }
                // A program that is being replaced just now, or was a moment ago.
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && attempt < 20 => {
                    drop(state);
                    thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Kills what is left of a child's group and reaps the child. The group's number is ours
    /// until then, so nobody else can be hit.
    fn finish(&self, child: &mut Child) -> io::Result<ExitStatus> {
        self.state().live.remove(&Pid::from_child(child));
        child.wait()
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.calls -= 1;
        if state.calls == 0 {
            self.0.idle.notify_all();
        }
    }
}

fn kill_group(pid: Pid) {
    // It fails only when nothing is left of the group.
    let _ = kill_process_group(pid, Signal::KILL);
}

/// Who waits for a child.
#[derive(Clone, Copy)]
pub(super) struct Watch<'a> {
    /// The call that it works for.
    pub(super) call: &'a Call,
    /// When the call began; its progress counts from then.
    pub(super) since: Instant,
}

/// Why a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// By itself, with an exit code or a signal.
    Itself,
    /// Killed: it ran longer than it may.
    TimedOut,
    /// Killed: the client took the request back, or the server stops.
    Cancelled,
}

/// What a child wrote to one stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Captured {
    /// The first bytes, up to the limit.
    pub(super) bytes: Vec<u8>,
    /// How many came after these.
    pub(super) dropped: u64,
}

/// A child that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    /// Why.
    pub(super) end: End,
    status: ExitStatus,
    /// Its standard output.
    pub(super) stdout: Captured,
    /// Its standard error.
    pub(super) stderr: Captured,
}

impl Finished {
    /// The exit code; 128 + n after signal n, as a shell says it.
    pub(super) fn exit_status(&self) -> i32 {
        let signal = self.status.signal().map_or(-1, |signal| 128 + signal);
        self.status.code().unwrap_or(signal)
    }

    /// Whether the same request would give the same again: nothing was killed, cut or crashed.
    pub(super) fn repeatable(&self) -> bool {
        self.end == End::Itself
            && self.status.code().is_some()
            && self.stdout.dropped == 0
            && self.stderr.dropped == 0
    }

    /// What happened to the child from outside, in sentences for the caller.
    pub(super) fn notes(&self, limits: &Limits) -> Vec<String> {
        let mut notes = Vec::new();
        match (self.end, self.status.signal()) {
            (End::TimedOut, _) => notes.push(format!(
                "Killed after {} s, the time limit (--exec-timeout).",
                limits.timeout.as_secs_f64()
            )),
            (End::Itself, Some(signal)) => notes.push(format!("Died by signal {signal}.")),
            _ => {}
        }
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if stream.dropped > 0 {
                notes.push(format!(
                    "{name} was cut after {} bytes (--max-output); {} more were dropped.",
                    stream.bytes.len(),
                    stream.dropped
                ));
            }
        }
        notes
    }
}

/// Runs a command to its end: no input, both streams captured up to the limit, progress told
/// once a second. `None` when the server is stopping.
///
/// # Errors
/// When it cannot be started.
pub(super) fn run(
    command: &mut Command,
    limits: &Limits,
    groups: &Groups,
    watch: Watch<'_>,
) -> io::Result<Option<Finished>> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let (exited, exit_writer) = io::pipe()?;
    let Some(mut child) = groups.spawn(command)? else {
        return Ok(None);
    };
    let pid = Pid::from_child(&child);
    let waiter = thread::Builder::new()
        .name("await-child".to_owned())
        .spawn(move || {
            // The child stays a zombie: its number is not given away before we have killed the rest.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
            drop(exit_writer);
        });
    let mut streams = Streams::new(&mut child, limits.max_output);
    let end = match &waiter {
        Ok(_) => streams.until_end(&exited, limits.timeout, watch),
        Err(_) => Err(io::Error::other("cannot start a thread")),
    };
    kill_group(pid);
    if let Ok(waiter) = waiter {
        // It cannot panic, and ends with the child.
        let _ = waiter.join();
    }
    streams.drain();
    let status = groups.finish(&mut child)?;
    let end = end?;
    let end = if end == End::Itself && groups.state().stopping {
        End::Cancelled
    } else {
        end
    };
    let Streams { stdout, stderr, .. } = streams;
    Ok(Some(Finished {
        end,
        status,
        stdout: stdout.captured,
        stderr: stderr.captured,
    }))
}

/// Both streams of a child.
struct Streams {
    stdout: Stream,
    stderr: Stream,
    buffer: Vec<u8>,
}

struct Stream {
    pipe: Option<Pipe>,
    captured: Captured,
    limit: usize,
}

enum Pipe {
    Out(std::process::ChildStdout),
    Err(std::process::ChildStderr),
}

impl Streams {
    fn new(child: &mut Child, limit: usize) -> Self {
        let stream = |pipe| Stream {
            pipe,
            captured: Captured::default(),
            limit,
        };
        Self {
            stdout: stream(child.stdout.take().map(Pipe::Out)),
            stderr: stream(child.stderr.take().map(Pipe::Err)),
            buffer: vec![0; 64 * 1024],
        }
    }

    /// Reads until the child has ended, its time is over, or the call is cancelled.
    fn until_end(
        &mut self,
        exited: &io::PipeReader,
        timeout: Duration,
        watch: Watch<'_>,
    ) -> io::Result<End> {
        let start = Instant::now();
        let mut told = watch.since.elapsed().as_secs();
        loop {
            let elapsed = start.elapsed();
            let left = timeout.saturating_sub(elapsed);
            if left.is_zero() {
                return Ok(End::TimedOut);
            }
            if watch.call.cancelled() {
                return Ok(End::Cancelled);
            }
            let seconds = watch.since.elapsed().as_secs();
            if seconds > told {
                told = seconds;
                watch
                    .call
                    .progress(told as f64, None, &format!("running for {told} s"));
            }
            if self.wait(Some(exited), left.min(TICK))? {
                return Ok(End::Itself);
            }
        }
    }

    /// Reads what is left when nobody of the group can write any more.
    fn drain(&mut self) {
        let start = Instant::now();
        while start.elapsed() < DRAIN && (self.stdout.pipe.is_some() || self.stderr.pipe.is_some())
        {
            let before = (self.stdout.total(), self.stderr.total());
            let failed = self.wait(None, Duration::ZERO).is_err();
            let after = (self.stdout.total(), self.stderr.total());
            let open = self.stdout.pipe.is_some() || self.stderr.pipe.is_some();
            if failed || (before == after && open) {
                return;
            }
        }
    }

    /// Waits until something can be read, reads once from each stream that has something, and
    /// says whether the child has ended.
    fn wait(&mut self, exited: Option<&io::PipeReader>, limit: Duration) -> io::Result<bool> {
        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        let pipes = [&self.stdout.pipe, &self.stderr.pipe];
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(3);
        let mut places = [None; 2];
        for (place, pipe) in places.iter_mut().zip(pipes) {
            if let Some(pipe) = pipe {
                *place = Some(fds.len());
                fds.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN));
            }
        }
        let exit_place = exited.map(|exited| {
            fds.push(PollFd::new(exited, PollFlags::IN));
            fds.len() - 1
        });
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&limit)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let ready =
            |place: Option<usize>| place.is_some_and(|at| fds[at].revents().intersects(readable));
        let (out, err, ended) = (ready(places[0]), ready(places[1]), ready(exit_place));
        if out {
            self.stdout.read(&mut self.buffer);
        }
        if err {
            self.stderr.read(&mut self.buffer);
        }
        Ok(ended)
    }
}

impl Stream {
    /// Bytes seen so far.
    fn total(&self) -> u64 {
        self.captured.bytes.len() as u64 + self.captured.dropped
    }

    /// Reads once; the pipe is closed at its end or when it cannot be read.
    fn read(&mut self, buffer: &mut [u8]) {
        let read = match &mut self.pipe {
            Some(Pipe::Out(pipe)) => pipe.read(buffer),
            Some(Pipe::Err(pipe)) => pipe.read(buffer),
            None => return,
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => self.pipe = None,
            Ok(size) => {
                let room = self
                    .limit
                    .saturating_sub(self.captured.bytes.len())
                    .min(size);
                self.captured.bytes.extend_from_slice(&buffer[..room]);
                self.captured.dropped += (size - room) as u64;
            }
        }
    }
}

impl Pipe {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::Out(pipe) => pipe.as_fd(),
            Self::Err(pipe) => pipe.as_fd(),
        }
    }
}
