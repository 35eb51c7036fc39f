//! The thread that moves bytes between a process's pipes and the suite.

use std::collections::VecDeque;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::frame::{Cut, Framer};
use super::{Body, Entry, Event, Line, MAX_LINE, MAX_LINES, MAX_LOG, MAX_QUEUED, MAX_STDERR, json};

/// Output that nobody asked for yet is read up to here; then the process has to wait.
const MAX_UNREAD_LINES: usize = 100_000;
const MAX_UNREAD_BYTES: usize = 64 << 20;

/// What is read or written at once.
const BLOCK: usize = 64 << 10;

/// How often standard error is read after the end: more than a pipe holds.
const MAX_LAST_READS: usize = 64;

/// What a line takes in memory besides its bytes, and each JSON value in it: a fair guess.
const LINE_COST: usize = 200;
const VALUE_COST: usize = 100;

/// What the pump and the owner of the process share.
pub(super) struct Shared {
    started: Instant,
    state: Mutex<State>,
    changed: Condvar,
    wake: PipeWriter,
}

pub(super) struct State {
    /// What happened and was not yet moved to the owner's log.
    pub(super) inbox: Vec<Entry>,
    unread: Size,
    kept: Size,
    pub(super) flooded: bool,
    pub(super) output_open: bool,
    /// Bytes that are to be written.
    outbox: VecDeque<Vec<u8>>,
    pub(super) queued: usize,
    pub(super) closing: bool,
    pub(super) input_open: bool,
    /// Bytes were dropped, since the process reads too little or closed its input.
    pub(super) dropped: bool,
    pub(super) stderr: Vec<u8>,
    pub(super) exit: Option<(ExitStatus, Duration)>,
    /// Bytes read so far, to see whether anything still comes.
    pub(super) read: u64,
    pub(super) stopping: bool,
    cancelled: bool,
}

#[derive(Default)]
struct Size {
    lines: usize,
    bytes: usize,
}

impl Shared {
    pub(super) fn new(started: Instant, wake: PipeWriter) -> Shared {
        // A full pipe has enough in it to wake the pump: never wait for it.
        let _ = rustix::io::ioctl_fionbio(&wake, true);
        let state = State {
            inbox: Vec::new(),
            unread: Size::default(),
            kept: Size::default(),
            flooded: false,
            output_open: true,
            outbox: VecDeque::new(),
            queued: 0,
            closing: false,
            input_open: true,
            dropped: false,
            stderr: Vec::new(),
            exit: None,
            read: 0,
            stopping: false,
            cancelled: false,
        };
        Shared {
            started,
            state: Mutex::new(state),
            changed: Condvar::new(),
            wake,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, at most until then, for `ready` to hold. False if it does not.
    pub(super) fn wait(&self, until: Instant, ready: impl Fn(&State) -> bool) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let state = self.lock();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, left, |state| !ready(state))
            .unwrap_or_else(PoisonError::into_inner);
        ready(&state)
    }

    /// Moves what happened to the log.
    pub(super) fn pull(&self, log: &mut Vec<Entry>) {
        let mut state = self.lock();
        log.append(&mut state.inbox);
        let was_full = state.unread.full();
        state.unread = Size::default();
        drop(state);
        if was_full {
            self.wake();
        }
    }

    /// Queues bytes. Past the bound, or when the input is closed, they are dropped: false.
    pub(super) fn send(&self, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        if state.closing {
            return false;
        }
        if !state.input_open || state.queued + bytes.len() > MAX_QUEUED {
            state.dropped = true;
            return false;
        }
        state.queued += bytes.len();
        state.outbox.push_back(bytes.to_vec());
        drop(state);
        self.wake();
        true
    }

    /// Changes the state and lets the pump see it.
    pub(super) fn tell(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.wake();
    }

    /// Ends the pump, whatever the pipes do.
    pub(super) fn cancel(&self) {
        self.tell(|state| state.cancelled = true);
    }

    fn wake(&self) {
        let _ = (&self.wake).write(&[0]);
    }

    fn change(&self, change: impl FnOnce(&mut State, Duration)) {
        let at = self.started.elapsed();
        change(&mut self.lock(), at);
        self.changed.notify_all();
    }

    pub(super) fn exited(&self, status: ExitStatus) {
        self.change(|state, at| {
            state.exit = Some((status, at));
            state.log(at, Event::Exited(status));
        });
    }
}

impl Size {
    fn add(&mut self, bytes: usize) {
        self.lines += 1;
        self.bytes += bytes;
    }

    fn full(&self) -> bool {
        self.lines >= MAX_UNREAD_LINES || self.bytes >= MAX_UNREAD_BYTES
    }
}

impl State {
    fn log(&mut self, at: Duration, event: Event) {
        self.inbox.push(Entry { at, event });
    }

    fn line(&mut self, at: Duration, line: Line, cost: usize) {
        if self.flooded {
            return;
        }
        self.unread.add(cost);
        self.kept.add(cost);
        self.log(at, Event::Received(line));
        if self.kept.lines >= MAX_LINES || self.kept.bytes >= MAX_LOG {
            self.flooded = true;
            self.log(at, Event::Flooded);
        }
    }

    /// Whether output is to be read now. A process that is being stopped is not kept waiting.
    fn reads(&self) -> bool {
        self.output_open && !self.flooded && (self.stopping || !self.unread.full())
    }

    fn writes(&self) -> bool {
        self.input_open && (self.closing || !self.outbox.is_empty())
    }
}

/// Our ends of the pipes.
pub(super) struct Pipes {
    pub(super) wake: PipeReader,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// Moves bytes until every pipe is closed or the pump is cancelled.
pub(super) fn run(shared: &Shared, pipes: Pipes) {
    let mut pump = Pump {
        shared,
        framer: Framer::new(MAX_LINE),
        stdin: Some(pipes.stdin),
        stdout: Some(pipes.stdout),
        stderr: Some(pipes.stderr),
        writing: (Vec::new(), 0),
        block: vec![0; BLOCK],
    };
    if let Some(stdin) = &pump.stdin {
        // Without it a process that does not read would stop the pump.
        let _ = rustix::io::ioctl_fionbio(stdin, true);
    }
    let wake = pipes.wake;
    while pump.open() && pump.turn(&wake) {}
    pump.finish();
}

struct Pump<'a> {
    shared: &'a Shared,
    framer: Framer,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// The bytes being written and how many of them are.
    writing: (Vec<u8>, usize),
    block: Vec<u8>,
}

impl Pump<'_> {
    fn open(&self) -> bool {
        self.stdin.is_some() || self.stdout.is_some() || self.stderr.is_some()
    }

    /// Waits until a pipe is ready and serves it. False when cancelled.
    fn turn(&mut self, wake: &PipeReader) -> bool {
        let state = self.shared.lock();
        if state.cancelled {
            return false;
        }
        let (reads, writes) = (state.reads(), state.writes() || self.unwritten());
        drop(state);
        let ready = |of: bool, fd: Option<usize>, fds: &[PollFd<'_>]| {
            of && fd.is_some_and(|at| !fds[at].revents().is_empty())
        };
        let (to_read, to_drain, to_write);
        {
            let mut fds = vec![PollFd::new(wake, PollFlags::IN)];
            let mut add = |fd, flags| {
                fds.push(PollFd::from_borrowed_fd(fd, flags));
                fds.len() - 1
            };
            let stdout = self.stdout.as_ref().filter(|_| reads);
            let stdout = stdout.map(|fd| add(fd.as_fd(), PollFlags::IN));
            let stderr = self
                .stderr
                .as_ref()
                .map(|fd| add(fd.as_fd(), PollFlags::IN));
            let stdin = self.stdin.as_ref().filter(|_| writes);
            let stdin = stdin.map(|fd| add(fd.as_fd(), PollFlags::OUT));
            // Only a signal interrupts it; then the next turn asks again.
            let of = poll(&mut fds, None).is_ok();
            if ready(of, Some(0), &fds) {
                let mut drained = [0; 256];
                let mut wake = wake;
                let _ = wake.read(&mut drained);
            }
            to_read = ready(of, stdout, &fds);
            to_drain = ready(of, stderr, &fds);
            to_write = ready(of, stdin, &fds);
        }
        if to_drain {
            self.drain();
        }
        if to_read {
            self.read();
        }
        if to_write {
            self.write();
        }
        true
    }

    fn unwritten(&self) -> bool {
        self.writing.1 < self.writing.0.len()
    }

    fn read(&mut self) {
        let Some(stdout) = &mut self.stdout else {
            return;
        };
        match stdout.read(&mut self.block) {
            Ok(0) => self.output_closed(),
            Ok(size) => {
                let (shared, block) = (self.shared, &self.block[..size]);
                shared.lock().read += size as u64;
                let mut flooded = false;
                self.framer.push(block, |cut| {
                    // What a flood leaves in the block is not worth reading.
                    if !flooded {
                        flooded = line(shared, cut);
                    }
                });
            }
            Err(error) if passes(&error) => {}
            Err(_) => self.output_closed(),
        }
    }

    fn output_closed(&mut self) {
        self.stdout = None;
        if let Some(rest) = self.framer.finish() {
            line(self.shared, rest);
        }
        self.shared.change(|state, at| {
            state.output_open = false;
            state.log(at, Event::OutputClosed);
        });
    }

    /// Reads standard error and keeps the end of it.
    fn drain(&mut self) {
        let Some(stderr) = &mut self.stderr else {
            return;
        };
        match stderr.read(&mut self.block) {
            Ok(size) if size > 0 => {
                let mut state = self.shared.lock();
                state.stderr.extend_from_slice(&self.block[..size]);
                let excess = state.stderr.len().saturating_sub(MAX_STDERR);
                state.stderr.drain(..excess);
                state.read += size as u64;
            }
            Err(error) if passes(&error) => {}
            _ => self.stderr = None,
        }
    }

    fn write(&mut self) {
        if !self.unwritten() {
            let next = self.shared.lock().outbox.pop_front();
            match next {
                Some(bytes) => self.writing = (bytes, 0),
                None => return self.input_closed(Some(Event::InputClosed)),
            }
        }
        let Some(stdin) = &mut self.stdin else { return };
        let (bytes, done) = &mut self.writing;
        let end = bytes.len().min(*done + BLOCK);
        match stdin.write(&bytes[*done..end]) {
            Ok(size) => {
                *done += size;
                self.shared.change(|state, _| state.queued -= size);
            }
            Err(error) if passes(&error) => {}
            // The process closed its input or ended.
            Err(_) => self.input_closed(None),
        }
    }

    fn input_closed(&mut self, event: Option<Event>) {
        self.stdin = None;
        self.writing = (Vec::new(), 0);
        self.shared.change(|state, at| {
            state.dropped |= event.is_none();
            state.input_open = false;
            state.outbox.clear();
            state.queued = 0;
            if let Some(event) = event {
                state.log(at, event);
            }
        });
    }

    /// Cancelled or done: what still stands in standard error is kept, and what was read of a
    /// last line is told.
    fn finish(mut self) {
        let now = rustix::event::Timespec::default();
        for _ in 0..MAX_LAST_READS {
            let Some(stderr) = &self.stderr else { break };
            let mut fds = [PollFd::new(stderr, PollFlags::IN)];
            if !poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0) {
                break;
            }
            self.drain();
        }
        if let Some(rest) = self.framer.finish() {
            line(self.shared, rest);
        }
        self.shared.change(|state, _| {
            state.output_open = false;
            state.input_open = false;
            state.queued = 0;
        });
    }
}

fn passes(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
}

/// Reads a line as JSON and puts it in the inbox. True when there are too many.
fn line(shared: &Shared, cut: Cut) -> bool {
    let at = shared.started.elapsed();
    let (body, values) = match cut.length > MAX_LINE as u64 {
        true => (Body::TooLong(cut.length), 0),
        false => json::read(&cut.bytes),
    };
    let cost = LINE_COST + 2 * cut.bytes.len() + VALUE_COST * values;
    let line = Line {
        bytes: cut.bytes,
        terminated: cut.terminated,
        body,
    };
    let mut flooded = false;
    shared.change(|state, _| {
        state.line(at, line, cost);
        flooded = state.flooded;
    });
    flooded
}
