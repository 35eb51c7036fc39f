//! Ctrl-C: the server processes are killed, and what was judged so far is still told.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Problem;
use super::progress::Bar;
use crate::wire::kill_all;

/// How long the runner may take to come to its end after a signal.
const PATIENCE: Duration = Duration::from_secs(2);

/// What came of the work.
pub(super) enum Outcome<T> {
    /// It was done.
    Done(T),
    /// A signal came; what was done till then, if it could be had, and the exit code.
    Interrupted(Option<T>, u8),
}

enum Event<T> {
    Done(T),
    Signal(i32),
    Broken,
}

/// Does the work on a thread and watches for signals meanwhile. A second signal ends the wait
/// for what was done. The error is a crash of the work.
pub(super) fn watch<T: Send + 'static>(
    bar: &Arc<Bar>,
    work: impl FnOnce(&Bar) -> T + Send + 'static,
) -> Result<Outcome<T>, Problem> {
    let (sender, events) = channel();
    watch_signals(sender.clone())?;
    let inner = Arc::clone(bar);
    thread::spawn(move || {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&inner)));
        let _ = sender.send(done.map_or(Event::Broken, Event::Done));
    });
    let outcome = follow(&events, bar);
    bar.clear();
    outcome
}

fn follow<T>(events: &Receiver<Event<T>>, bar: &Bar) -> Result<Outcome<T>, Problem> {
    let broken = || Problem("the suite itself broke down; this is a fault of Touchstone".into());
    let signal = match events.recv() {
        Ok(Event::Done(done)) => return Ok(Outcome::Done(done)),
        Ok(Event::Signal(signal)) => signal,
        Ok(Event::Broken) | Err(_) => {
            kill_all();
            return Err(broken());
        }
    };
    bar.interrupt();
    kill_all();
    let partial = match events.recv_timeout(PATIENCE) {
        Ok(Event::Done(done)) => Some(done),
        _ => None,
    };
    // What was started between the first call and the end of the runner.
    kill_all();
    Ok(Outcome::Interrupted(partial, exit_code(signal)))
}

/// Sends each signal as an event. Once nobody listens, the work is over: a signal then has its
/// usual effect.
fn watch_signals<T: Send + 'static>(sender: Sender<Event<T>>) -> Result<(), Problem> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|e| Problem(format!("cannot watch for signals: {e}")))?;
    thread::spawn(move || {
        for signal in signals.forever() {
            if sender.send(Event::Signal(signal)).is_err() {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    });
    Ok(())
}

/// 130 for Ctrl-C, as shells have it.
fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(130)
}
