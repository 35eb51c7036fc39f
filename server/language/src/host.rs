//! What a program may ask of the world, and worlds that answer.

use crate::value::Value;

/// An HTTP request, as a program makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct HttpRequest {
    pub method: &'static str,
    pub url: String,
    pub body: Option<String>,
}

/// The answer to one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// Why an effect did not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The host does not grant the effect. The program stops; it cannot recover from that.
    Denied(String),
    /// The effect was tried and went wrong. Http turns it into a failure of the program.
    Failed(String),
}

/// Handlers of effects. Authority comes from here and from nowhere else: the defaults deny.
pub trait Host {
    /// `Print`: one line of output.
    fn print(&mut self, _text: &str) -> Result<(), Refusal> {
        Err(denied("Print"))
    }

    /// `Clock`: milliseconds since 1970.
    fn now(&mut self) -> Result<i64, Refusal> {
        Err(denied("Clock"))
    }

    /// `Random`: 64 random bits.
    fn random(&mut self) -> Result<u64, Refusal> {
        Err(denied("Random"))
    }

    /// `Http`: one request.
    fn http(&mut self, _request: &HttpRequest) -> Result<HttpResponse, Refusal> {
        Err(denied("Http"))
    }

    /// Asked now and then while a program runs; true stops it.
    fn interrupted(&mut self) -> bool {
        false
    }
}

fn denied(effect: &str) -> Refusal {
    Refusal::Denied(format!("{effect} is not granted here"))
}

/// A host that grants nothing.
#[derive(Debug, Default)]
pub struct Nothing;

impl Host for Nothing {}

/// The host of tests: output is kept, the clock ticks one millisecond a look, random numbers
/// follow from the seed, and the network is denied.
#[derive(Debug)]
pub struct TestHost {
    /// What was printed.
    pub log: Vec<String>,
    log_bytes: usize,
    clock: i64,
    random: Random,
}

/// A test's clock begins on 1 January 2026, 00:00 UTC.
const TEST_EPOCH_MS: i64 = 1_767_225_600_000;
/// What is printed beyond this is dropped.
const LOG_BYTES: usize = 64 * 1024;

impl TestHost {
    /// A host whose random numbers follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            log: Vec::new(),
            log_bytes: 0,
            clock: TEST_EPOCH_MS,
            random: Random::new(seed),
        }
    }
}

impl Host for TestHost {
    fn print(&mut self, text: &str) -> Result<(), Refusal> {
        self.log_bytes += text.len() + 1;
        if self.log_bytes <= LOG_BYTES {
            self.log.push(text.to_owned());
        }
        Ok(())
    }

    fn now(&mut self) -> Result<i64, Refusal> {
        self.clock += 1;
        Ok(self.clock)
    }

    fn random(&mut self) -> Result<u64, Refusal> {
        Ok(self.random.bits())
    }
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators"): small, and
/// the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (0 when that is 0).
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        // The top half of a 128-bit product is even enough for tests.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}

/// A failure that nobody recovered, or a fault that nobody can.
#[derive(Debug, Clone)]
pub enum Stop {
    /// `fail`: the failure and where it was raised.
    Failure(Value, Vec<Place>),
    /// The machine cannot go on.
    Fault(Fault),
}

/// Why a program cannot go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The kind, one word or two; the machine's table is [`FaultKind`].
    pub kind: FaultKind,
    /// What happened.
    pub message: String,
    /// Where, innermost first.
    pub stack: Vec<Place>,
}

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FaultKind {
    Overflow,
    DivisionByZero,
    Refinement,
    Requires,
    Ensures,
    Assert,
    Hole,
    Steps,
    Memory,
    Stack,
    Denied,
    Interrupted,
    /// The machine met what checking rules out. A clean program never gets here.
    Broken,
}

impl FaultKind {
    /// As JSON and messages show it.
    pub fn text(self) -> &'static str {
        match self {
            FaultKind::Overflow => "overflow",
            FaultKind::DivisionByZero => "division_by_zero",
            FaultKind::Refinement => "refinement",
            FaultKind::Requires => "requires",
            FaultKind::Ensures => "ensures",
            FaultKind::Assert => "assert",
            FaultKind::Hole => "hole",
            FaultKind::Steps => "out_of_steps",
            FaultKind::Memory => "out_of_memory",
            FaultKind::Stack => "stack_overflow",
            FaultKind::Denied => "denied",
            FaultKind::Interrupted => "interrupted",
            FaultKind::Broken => "broken",
        }
    }
}

/// A place in a running program.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Place {
    pub function: String,
    pub path: String,
    /// Bytes of the file.
    pub start: u32,
    pub end: u32,
}

impl Stop {
    /// What happened, in a line.
    pub fn message(&self) -> String {
        match self {
            Stop::Failure(value, _) => format!("failed with {}", crate::value::show(value)),
            Stop::Fault(fault) => fault.message.clone(),
        }
    }

    /// One word for it.
    pub fn kind(&self) -> &'static str {
        match self {
            Stop::Failure(..) => "failure",
            Stop::Fault(fault) => fault.kind.text(),
        }
    }

    /// Where it happened, innermost first.
    pub fn stack(&self) -> &[Place] {
        match self {
            Stop::Failure(_, stack) => stack,
            Stop::Fault(fault) => &fault.stack,
        }
    }
}
