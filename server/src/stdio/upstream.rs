//! From a running job to the loop: progress, logs, changes and questions.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Event;
use crate::protocol::{Change, JobId, Level, Question, Report, Upstream};

/// How often a waiting job looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// One job's way to the loop.
pub(super) struct Line {
    job: JobId,
    events: Sender<Event>,
    client_timeout: Duration,
    progress: Mutex<Allowance>,
    logs: Mutex<Allowance>,
}

impl Line {
    pub(super) fn new(job: JobId, events: Sender<Event>, client_timeout: Duration) -> Self {
        Self {
            job,
            events,
            client_timeout,
            progress: Mutex::new(Allowance::new(100, 20)),
            logs: Mutex::new(Allowance::new(1_000, 100)),
        }
    }

    fn report(&self, report: Report) {
        // A loop that has ended wants to know nothing.
        let _ = self.events.send(Event::Report(self.job, report));
    }
}

impl Upstream for Line {
    fn progress(&self, progress: f64, total: Option<f64>, message: &str) {
        if take(&self.progress) {
            self.report(Report::Progress {
                progress,
                total,
                message: message.to_owned(),
            });
        }
    }

    fn log(&self, level: Level, logger: &str, data: Value) {
        if take(&self.logs) {
            self.report(Report::Log {
                level,
                logger: logger.to_owned(),
                data,
            });
        }
    }

    fn changed(&self, change: Change) {
        self.report(Report::Changed(change));
    }

    fn ask(&self, question: &Question, cancelled: &dyn Fn() -> bool) -> Result<Value, String> {
        let (sender, answer) = mpsc::channel();
        self.report(Report::Ask {
            question: question.clone(),
            reply: Box::new(move |answer| {
                // The job may have given up.
                let _ = sender.send(answer);
            }),
        });
        let until = Instant::now() + self.client_timeout;
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("the client is gone".to_owned());
                }
                Err(RecvTimeoutError::Timeout) if cancelled() => {
                    return Err("the request was cancelled".to_owned());
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= until => {
                    self.report(Report::GiveUp);
                    let seconds = self.client_timeout.as_secs();
                    return Err(format!("the client did not answer within {seconds} s"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

fn take(allowance: &Mutex<Allowance>) -> bool {
    let mut allowance = allowance.lock().unwrap_or_else(PoisonError::into_inner);
    allowance.take(Instant::now())
}

/// So many at once, and so many a second: a job in a tight loop floods nobody.
struct Allowance {
    left: f64,
    most: f64,
    per_second: f64,
    last: Option<Instant>,
}

impl Allowance {
    fn new(most: u32, per_second: u32) -> Self {
        Self {
            left: most.into(),
            most: most.into(),
            per_second: per_second.into(),
            last: None,
        }
    }

    fn take(&mut self, now: Instant) -> bool {
        let passed = self.last.map_or(0.0, |last| (now - last).as_secs_f64());
        self.last = Some(now);
        self.left = (self.left + passed * self.per_second).min(self.most);
        let allowed = self.left >= 1.0;
        if allowed {
            self.left -= 1.0;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_so_many_a_second() {
        let mut allowance = Allowance::new(3, 2);
        let start = Instant::now();
        let passed =
            |allowance: &mut Allowance, at: Instant| (0..10).filter(|_| allowance.take(at)).count();
        assert_eq!(passed(&mut allowance, start), 3);
        assert_eq!(passed(&mut allowance, start + Duration::from_secs(1)), 2);
        assert_eq!(passed(&mut allowance, start + Duration::from_secs(60)), 3);
    }
}
