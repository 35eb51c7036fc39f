//! The threads that jobs run on: made when needed, kept, and bounded.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::Event;
use super::upstream::Line;
use crate::protocol::{Cancellation, Finished, Job, JobId};

/// Jobs that run at once; others wait. Most of them wait for a child process or the client, so
/// there are more than the machine has cores.
const MAX_THREADS: usize = 64;

pub(super) struct Pool {
    state: Mutex<State>,
    work: Condvar,
    events: Sender<Event>,
    client_timeout: Duration,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    idle: usize,
    threads: usize,
    /// Everything submitted and not yet done.
    cancellations: HashMap<JobId, Cancellation>,
}

impl Pool {
    pub(super) fn new(events: Sender<Event>, client_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            work: Condvar::new(),
            events,
            client_timeout,
        })
    }

    /// Runs the job as soon as a thread is free. Its end is always told.
    pub(super) fn submit(self: &Arc<Self>, job: Job) {
        let id = job.id();
        let mut state = self.lock();
        state.cancellations.insert(id, job.cancellation());
        state.queue.push_back(job);
        if state.idle >= state.queue.len() || state.threads >= MAX_THREADS {
            self.work.notify_one();
            return;
        }
        let pool = self.clone();
        let spawned = thread::Builder::new()
            .name("job".to_owned())
            .spawn(move || pool.work());
        match spawned {
            Ok(_) => state.threads += 1,
            // The threads that there are will come to it.
            Err(_) if state.threads > 0 => self.work.notify_one(),
            Err(error) => {
                state.queue.pop_back();
                state.cancellations.remove(&id);
                let failed = Finished::failed(&format!("no thread could be started: {error}"));
                let _ = self.events.send(Event::Finished(id, failed));
            }
        }
    }

    /// Cancels everything, running or waiting.
    pub(super) fn cancel_all(&self) {
        let all = self
            .lock()
            .cancellations
            .values()
            .cloned()
            .collect::<Vec<_>>();
        for cancellation in all {
            cancellation.cancel();
        }
    }

    fn work(&self) {
        loop {
            let job = self.next();
            let id = job.id();
            let line = Line::new(id, self.events.clone(), self.client_timeout);
            let finished = job.run(Arc::new(line));
            self.lock().cancellations.remove(&id);
            if self.events.send(Event::Finished(id, finished)).is_err() {
                return;
            }
        }
    }

    fn next(&self) -> Job {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                return job;
            }
            state.idle += 1;
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
