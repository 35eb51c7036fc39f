//! A running server process.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};
use tempfile::TempDir;

use super::pump::{self, Pipes, Shared};
use super::{Ended, EndedBy, Entry, Event, Launch, Received, SpawnError, live};

/// How long a process may take to die of KILL before the suite goes on without it.
const KILLED: Duration = Duration::from_secs(5);

/// How long the pipes of a dead process are still listened to when somebody holds them open.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// How long members of the group may outlive their leader before they count as left behind.
const GRACE: Duration = Duration::from_millis(200);

/// A running server. Dropping it stops it (without patience) and reaps it.
pub struct Child {
    process: std::process::Child,
    group: Pid,
    started: Instant,
    shared: Arc<Shared>,
    log: Vec<Entry>,
    /// The first entry of the log that [`Child::receive`] has not yet looked at.
    next: usize,
    /// When the end of input was asked for.
    close_asked: Option<Duration>,
    pump: Option<JoinHandle<()>>,
    reaped: bool,
    folder: TempDir,
}

impl std::fmt::Debug for Child {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = self.process.id();
        write!(f, "Child {{ id: {id}, log: {} entries }}", self.log.len())
    }
}

impl Child {
    /// Starts the process in a group of its own, with pipes, a temporary `HOME` and folder
    /// unless told otherwise. The error says what to do.
    pub fn spawn(launch: &Launch) -> Result<Child, SpawnError> {
        let folder = temporary_folder().map_err(|error| SpawnError {
            message: format!(
                "no temporary folder could be made in {}: {error}",
                std::env::temp_dir().display()
            ),
        })?;
        let (wake, waker) = std::io::pipe().map_err(|error| launch.refusal(&error))?;
        let mut command = launch.command(folder.path())?;
        command.process_group(0);

        let mut live = live::lock();
        if live.closed() {
            let message = "the run was interrupted".into();
            return Err(SpawnError { message });
        }
        let started = Instant::now();
        let mut process = command.spawn().map_err(|error| launch.refusal(&error))?;
        let group = Pid::from_child(&process);
        live.add(group, Some(folder.path().to_owned()));
        drop(live);

        let shared = Arc::new(Shared::new(started, waker));
        let pipes = process.stdin.take().zip(process.stdout.take());
        let pipes = pipes.zip(process.stderr.take());
        let pump = pipes.map(|((stdin, stdout), stderr)| {
            let pipes = Pipes {
                wake,
                stdin,
                stdout,
                stderr,
            };
            let shared = Arc::clone(&shared);
            thread::spawn(move || pump::run(&shared, pipes))
        });
        let watcher = Arc::clone(&shared);
        thread::spawn(move || watch(group, &watcher));
        Ok(Child {
            process,
            group,
            started,
            shared,
            log: Vec::new(),
            next: 0,
            close_asked: None,
            pump,
            reaped: false,
            folder,
        })
    }

    /// Hands bytes to the writer, as they are. Never blocks: a server that does not read its
    /// input does not stop the suite (queued bytes are bounded; past the bound they are dropped
    /// and [`Child::input_stuck`] turns true). Nothing is sent after [`Child::close_input`].
    pub fn send(&mut self, bytes: &[u8]) {
        self.shared.pull(&mut self.log);
        let at = self.started.elapsed();
        if self.shared.send(bytes) {
            let event = Event::Sent(bytes.to_vec());
            self.log.push(Entry { at, event });
        }
    }

    /// Waits until everything queued is written, at most until then. False if it is not.
    pub fn flush(&mut self, until: Instant) -> bool {
        self.shared.wait(until, |state| state.queued == 0) && !self.input_stuck()
    }

    /// Whether the server stopped reading its input: it closed it, or left so much unread that
    /// bytes were dropped.
    pub fn input_stuck(&self) -> bool {
        self.shared.lock().dropped
    }

    /// The next line of output that was not yet given, at most until then.
    pub fn receive(&mut self, until: Instant) -> Received {
        loop {
            self.shared.pull(&mut self.log);
            while self.next < self.log.len() {
                let at = self.next;
                self.next += 1;
                match self.log[at].event {
                    Event::Received(_) => return Received::Line(at),
                    Event::Flooded => return Received::End,
                    _ => {}
                }
            }
            let state = self.shared.lock();
            if state.inbox.is_empty() && (!state.output_open || state.flooded) {
                return Received::End;
            }
            drop(state);
            let news = self.shared.wait(until, |state| {
                !state.inbox.is_empty() || !state.output_open || state.flooded
            });
            if !news {
                return Received::Timeout;
            }
        }
    }

    /// Everything that happened so far, oldest first.
    pub fn log(&self) -> &[Entry] {
        &self.log
    }

    /// When it was spawned.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The last 64 KiB of standard error, lossily decoded.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.shared.lock().stderr).into_owned()
    }

    /// The folder in which the process works, if it is a temporary one.
    pub fn folder(&self) -> std::path::PathBuf {
        self.folder.path().join("work")
    }

    /// The exit status if the process has ended; does not wait.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.shared.pull(&mut self.log);
        self.shared.lock().exit.map(|(status, _)| status)
    }

    /// Waits for the exit, at most until then.
    pub fn wait(&mut self, until: Instant) -> Option<ExitStatus> {
        self.shared.wait(until, |state| state.exit.is_some());
        self.exited()
    }

    /// Closes standard input, after what is queued was written.
    pub fn close_input(&mut self) {
        self.close_asked.get_or_insert(self.started.elapsed());
        self.shared.tell(|state| state.closing = true);
    }

    /// Closes standard input, waits, TERM to the group, waits, KILL; reaps; drains the pipes.
    /// `patience` is the time for each step.
    pub fn stop(mut self, patience: Duration) -> Ended {
        let before = self.exited().is_some();
        let asked = self.close_asked.is_some();
        self.close_input();
        self.shared.tell(|state| state.stopping = true);
        let mut busy = Duration::ZERO;
        let by = match (before, asked) {
            (true, false) => EndedBy::Itself,
            (true, true) => EndedBy::EndOfInput,
            _ if self.ends(patience / 2) => EndedBy::EndOfInput,
            _ if self.ends_or_is_busy(patience / 2, &mut busy) => EndedBy::EndOfInput,
            _ if self.signalled(Signal::TERM, patience) => EndedBy::Term,
            _ => {
                self.signalled(Signal::KILL, KILLED);
                EndedBy::Kill
            }
        };
        self.end(by, busy)
    }

    /// KILL to the group at once, and reap.
    pub fn kill(mut self) -> Ended {
        let by = match self.exited() {
            Some(_) => EndedBy::Itself,
            None => EndedBy::Kill,
        };
        self.signalled(Signal::KILL, KILLED);
        self.end(by, Duration::ZERO)
    }

    fn ends(&mut self, patience: Duration) -> bool {
        self.wait(Instant::now() + patience).is_some()
    }

    /// As [`Child::ends`]; if it does not, `busy` is the processor time that the group used.
    fn ends_or_is_busy(&mut self, patience: Duration, busy: &mut Duration) -> bool {
        let before = processor_time(self.group);
        let ends = self.ends(patience);
        if !ends {
            *busy = processor_time(self.group).saturating_sub(before);
        }
        ends
    }

    fn signalled(&mut self, signal: Signal, patience: Duration) -> bool {
        // Refused only when nobody is left in the group.
        let _ = kill_process_group(self.group, signal);
        self.ends(patience)
    }

    fn end(mut self, by: EndedBy, busy: Duration) -> Ended {
        let left_behind = self.reap();
        let exit = self.shared.lock().exit;
        let asked = self.close_asked.unwrap_or_default();
        Ended {
            log: std::mem::take(&mut self.log),
            stderr: self.stderr(),
            status: exit.map(|(status, _)| status),
            by,
            took: match (by, exit) {
                (EndedBy::Itself, _) => Duration::ZERO,
                (_, Some((_, at))) => at.saturating_sub(asked),
                (_, None) => self.started.elapsed().saturating_sub(asked),
            },
            busy,
            left_behind,
        }
    }

    /// Reaps the leader, kills what is left of its group, and ends the pump. Tells whether
    /// anything was left.
    ///
    /// Until the leader is reaped its number cannot be given to another process, and after that
    /// not as long as the group has members: the signals hit nobody else.
    fn reap(&mut self) -> bool {
        if std::mem::replace(&mut self.reaped, true) {
            return false;
        }
        let mut left = false;
        if self.shared.lock().exit.is_some() {
            let _ = self.process.wait();
            left = outlived(self.group);
            if left {
                let _ = kill_process_group(self.group, Signal::KILL);
            }
        }
        live::lock().remove(self.group);
        self.hang_up();
        left
    }

    /// Reads what still stands in the pipes and ends the pump. A process that left the group may
    /// hold them open for ever.
    fn hang_up(&mut self) {
        loop {
            let read = self.shared.lock().read;
            let until = Instant::now() + LAST_WORDS;
            let closed = |state: &pump::State| !state.output_open || state.flooded;
            if self.shared.wait(until, closed) || self.shared.lock().read == read {
                break;
            }
        }
        self.shared.cancel();
        if let Some(pump) = self.pump.take() {
            // A panic in it is nothing that can be mended here.
            let _ = pump.join();
        }
        self.shared.pull(&mut self.log);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            self.shared.tell(|state| state.stopping = true);
            self.signalled(Signal::KILL, KILLED);
            self.reap();
        }
    }
}

fn temporary_folder() -> std::io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("touchstone-").tempdir()?;
    std::fs::create_dir(folder.path().join("home"))?;
    std::fs::create_dir(folder.path().join("work"))?;
    Ok(folder)
}

/// Waits for the leader's end and tells it, without reaping: its number stays taken until the
/// group is dealt with.
fn watch(leader: Pid, shared: &Shared) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(leader), options) {
            Ok(Some(status)) => {
                // The form in which the system gives it to a plain `wait`.
                let raw = match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => (code & 0xff) << 8,
                    (None, signal) => signal.unwrap_or_default(),
                };
                return shared.exited(ExitStatus::from_raw(raw));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            // Reaped by the owner, who gave up waiting.
            Err(_) => return,
        }
    }
}

/// Whether members of the group are still alive, a moment after its leader was reaped.
fn outlived(group: Pid) -> bool {
    let until = Instant::now() + GRACE;
    let mut pause = Duration::from_millis(1);
    while test_kill_process_group(group).is_ok() {
        // Most are gone in a moment, and to look at every process of the machine is dear.
        if pause >= Duration::from_millis(16) && only_zombies(group) {
            return false;
        }
        if Instant::now() >= until {
            return true;
        }
        thread::sleep(pause);
        pause *= 2;
    }
    false
}

/// Whether the group has only members that are dead and wait for their parent: in a container
/// nobody may ever reap them.
fn only_zombies(group: Pid) -> bool {
    let dead = |fields: &Vec<String>| matches!(fields[0].as_str(), "Z" | "X");
    members(group).is_some_and(|members| members.iter().all(dead))
}

/// The processor time that the group's members have used so far; zero where it cannot be seen.
fn processor_time(group: Pid) -> Duration {
    /// User and system time: fields 14 and 15 of the line, of which two are not among ours.
    const TIMES: std::ops::RangeInclusive<usize> = 11..=12;
    let members = members(group).unwrap_or_default();
    let times = members.iter().filter_map(|fields| fields.get(TIMES));
    let ticks: u64 = times.flatten().filter_map(|t| t.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// What `/proc` says of each process of the group, from its state on; nothing where there is no
/// `/proc`.
fn members(group: Pid) -> Option<Vec<Vec<String>>> {
    let group = group.as_raw_nonzero().to_string();
    let processes = Path::new("/proc").read_dir().ok()?.flatten();
    let stats = processes.filter_map(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        // `pid (name) state ppid pgrp …`; the name may hold anything.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<String> = rest.split(' ').map(str::to_owned).collect();
        (fields.get(2) == Some(&group)).then_some(fields)
    });
    Some(stats.collect())
}
