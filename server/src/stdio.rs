//! The only loop that reads stdin and writes stdout.
//!
//! One thread reads, this loop serves, and jobs run on threads beside it, so that a slow call
//! never stands before a ping. The loop alone owns the server: no lock, no order to get wrong.

mod framer;
mod pool;
mod upstream;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use crate::protocol::{Finished, JobId, Output, Report, Server};
use framer::{Frame, Framer};
use pool::Pool;

/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// Chunks that may wait for the loop; then the reader waits.
const CHUNKS: usize = 4;
/// Bytes of answers that are gathered before they are written.
const GATHERED: usize = 256 << 10;
/// How long cancelled work has to stop.
const STOPPING: Duration = Duration::from_millis(300);

/// Bounds of the loop.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest line that is read, in bytes without its line break.
    pub max_line: usize,
    /// How long a client may take to answer a question.
    pub client_timeout: Duration,
    /// How long work in flight may go on after the end of input.
    pub grace: Duration,
}

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client closed stdin, and what it had asked for is done or stopped.
    Input,
    /// The client no longer reads stdout.
    Output,
    /// [`Stopper::stop`] was called with this signal.
    Signal(i32),
}

enum Event {
    Input(Vec<u8>),
    InputEnded,
    Report(JobId, Report),
    Finished(JobId, Finished),
    Stop(i32),
}

/// Stops the loop from another thread.
#[derive(Clone)]
pub struct Stopper {
    events: Sender<Event>,
    pool: Arc<Pool>,
    beats: Arc<AtomicU64>,
}

impl Stopper {
    /// Asks the loop to cancel all work and end with [`End::Signal`].
    pub fn stop(&self, signal: i32) {
        // The loop may have ended already.
        let _ = self.events.send(Event::Stop(signal));
    }

    /// Grows while the loop gets on; stands still while it waits or hangs.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Cancels all work from here: for a loop that hangs in a write nobody reads.
    pub fn cancel_all(&self) {
        self.pool.cancel_all();
    }
}

/// The loop, before it runs.
pub struct Loop {
    server: Server,
    limits: Limits,
    events: Receiver<Event>,
    stopper: Stopper,
    /// Jobs that run or wait for a thread, cancelled ones included.
    running: usize,
    gathered: Vec<u8>,
}

/// The client no longer reads.
struct NobodyReads;

impl Loop {
    /// A loop around `server`.
    pub fn new(server: Server, limits: Limits) -> Self {
        let (events, receiver) = mpsc::channel();
        let pool = Pool::new(events.clone(), limits.client_timeout);
        Self {
            server,
            limits,
            events: receiver,
            stopper: Stopper {
                events,
                pool,
                beats: Arc::default(),
            },
            running: 0,
            gathered: Vec::with_capacity(CHUNK),
        }
    }

    /// The means to stop it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until the input ends, the output closes or the stopper is used.
    pub fn run(mut self, input: impl Read + Send + 'static, mut output: impl Write) -> End {
        let empty = read_beside(input, self.stopper.events.clone());
        let mut framer = Framer::new(self.limits.max_line);
        let end = loop {
            let event = match self.next_event(&mut output) {
                Ok(event) => event,
                Err(NobodyReads) => break End::Output,
            };
            match event {
                Event::Input(chunk) => {
                    let served = framer.feed(&chunk, |frame| self.serve(frame, &mut output));
                    // The reader may be gone.
                    let _ = empty.send(chunk);
                    if served.is_err() {
                        break End::Output;
                    }
                }
                Event::InputEnded => {
                    let served = framer.finish(|frame| self.serve(frame, &mut output));
                    let ended = self.server.input_ended();
                    if served.and_then(|()| self.take(ended, &mut output)).is_err() {
                        break End::Output;
                    }
                    self.wind_down(self.limits.grace, &mut output);
                    break End::Input;
                }
                Event::Stop(signal) => break End::Signal(signal),
                Event::Report(job, report) => {
                    let outputs = self.server.report(job, report);
                    if self.take(outputs, &mut output).is_err() {
                        break End::Output;
                    }
                }
                Event::Finished(job, finished) => {
                    self.running -= 1;
                    let outputs = self.server.finished(job, finished);
                    if self.take(outputs, &mut output).is_err() {
                        break End::Output;
                    }
                }
            }
        };
        self.server.cancel_all();
        self.stopper.pool.cancel_all();
        self.wind_down(STOPPING, &mut output);
        self.server.stop();
        end
    }

    /// Writes what was gathered as soon as there is nothing else to do.
    fn next_event(&mut self, output: &mut impl Write) -> Result<Event, NobodyReads> {
        match self.events.try_recv() {
            Ok(event) => Ok(event),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                self.flush(output)?;
                // This loop holds a sender itself: the channel cannot be closed.
                self.events.recv().map_err(|_| NobodyReads)
            }
        }
    }

    fn serve(&mut self, frame: Frame<'_>, output: &mut impl Write) -> Result<(), NobodyReads> {
        let outputs = match frame {
            Frame::Line(line) => self.server.handle_line(line),
            Frame::TooLong => self.server.line_too_long(self.limits.max_line),
        };
        self.take(outputs, output)
    }

    fn take(&mut self, outputs: Vec<Output>, output: &mut impl Write) -> Result<(), NobodyReads> {
        self.stopper.beats.fetch_add(1, Ordering::Relaxed);
        for one in outputs {
            match one {
                Output::Message(line) => {
                    self.gathered.extend_from_slice(line.as_bytes());
                    self.gathered.push(b'\n');
                }
                Output::Run(job) => {
                    self.running += 1;
                    self.stopper.pool.submit(*job);
                }
            }
        }
        match self.gathered.len() >= GATHERED {
            true => self.flush(output),
            false => Ok(()),
        }
    }

    fn flush(&mut self, output: &mut impl Write) -> Result<(), NobodyReads> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let written = output
            .write_all(&self.gathered)
            .and_then(|()| output.flush());
        self.gathered.clear();
        if self.gathered.capacity() > 4 * GATHERED {
            self.gathered.shrink_to(GATHERED);
        }
        written.map_err(|_| NobodyReads)
    }

    /// Lets running jobs end, for at most `time`, and writes what they still have to say.
    fn wind_down(&mut self, time: Duration, output: &mut impl Write) {
        let until = Instant::now() + time;
        while self.running > 0 {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(event) = self.events.recv_timeout(left) else {
                break;
            };
            let outputs = match event {
                Event::Finished(job, finished) => {
                    self.running -= 1;
                    self.server.finished(job, finished)
                }
                Event::Report(job, report) => self.server.report(job, report),
                Event::Stop(_) => break,
                Event::Input(_) | Event::InputEnded => Vec::new(),
            };
            if self.take(outputs, output).is_err() {
                return;
            }
        }
        // Nobody may be there to read it.
        let _ = self.flush(output);
    }
}

/// Reads on a thread of its own. The sender gives chunks back to be filled again; without one
/// the reader waits, so a client that writes faster than it reads is held back.
fn read_beside(mut input: impl Read + Send + 'static, events: Sender<Event>) -> Sender<Vec<u8>> {
    let (empty, chunks) = mpsc::channel::<Vec<u8>>();
    for _ in 0..CHUNKS {
        let _ = empty.send(Vec::new());
    }
    thread::spawn(move || {
        while let Ok(mut chunk) = chunks.recv() {
            chunk.resize(CHUNK, 0);
            match input.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => chunk.truncate(length),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                    chunk.clear();
                }
                Err(_) => break,
            }
            if events.send(Event::Input(chunk)).is_err() {
                return;
            }
        }
        let _ = events.send(Event::InputEnded);
    });
    empty
}
