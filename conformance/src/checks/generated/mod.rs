//! Generated traffic: requests that are odd but legal, lines that are broken, calls of tools with
//! made-up arguments. What fails is made as simple as it can be and shown with its exchange.
//!
//! Each check has processes of its own, so that what the other checks read is not mixed with it.

mod calls;
mod lines;
mod requests;
mod stand;

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::{Check, Run, Session};
use crate::spec::Span;
use crate::spec::requirement::Breach;
use crate::wire::{Launch, Limits};

/// The seed when the user names none: the same cases, and verdicts, every time.
pub const SEED: u64 = 0;

/// Cases of requests and of lines, unless the user says otherwise. Each tool gets a quarter.
pub const CASES: u32 = 16;

/// What generated traffic may cost.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    /// How to start the server.
    pub launch: &'a Launch,
    /// Counts the processes that are started.
    pub processes: &'a AtomicUsize,
    /// The seed.
    pub seed: u64,
    /// Cases of requests and of lines. Each tool gets a quarter as many valid ones, and twice as
    /// many broken ones.
    pub cases: u32,
    /// The most tools that are called.
    pub tools: usize,
    /// When a check comes to its end, whatever is left.
    pub time: Duration,
    /// How long what failed may be made simpler.
    pub shrink: Duration,
    /// Breaches that are known already: they are not looked into again.
    pub known: Vec<(&'static str, Breach)>,
}

impl<'a> Plan<'a> {
    /// The plan of an ordinary run: no check takes much longer than one request may.
    pub(crate) fn quick(
        launch: &'a Launch,
        limits: Limits,
        processes: &'a AtomicUsize,
        seed: u64,
    ) -> Self {
        Plan {
            launch,
            processes,
            seed,
            cases: CASES,
            tools: 12,
            time: limits.request,
            shrink: limits.request,
            known: Vec::new(),
        }
    }
}

pub(crate) const CHECKS: &[Check] = &[
    Check {
        name: "generated.requests",
        requirements: &[
            "jsonrpc.response.exactly-one",
            "jsonrpc.response.id-echo",
            "jsonrpc.response.id-type",
            "jsonrpc.response.result-xor-error",
            "jsonrpc.notification.no-response",
            "jsonrpc.method-not-found",
            "meta.request-extra-keys",
            "stdio.survives-valid-traffic",
            "stdio.stdout-only-messages",
        ],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(requests::requests),
    },
    Check {
        name: "generated.calls",
        requirements: &[
            "tools.call.validates-input",
            "tools.call.result-shape",
            "tools.call.structured.conforms",
            "jsonrpc.response.exactly-one",
            "stdio.survives-valid-traffic",
            "stdio.stdout-only-messages",
        ],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(calls::calls),
    },
    Check {
        name: "generated.broken-lines",
        requirements: &["jsonrpc.parse-error.survive", "stdio.stdout-only-messages"],
        span: Span::ALL,
        session: Session::Rough,
        run: Run::Code(lines::broken_lines),
    },
];
