//! A line on standard error that tells how far the run is, when a person may be watching.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::report::text::{shorten, visible};
use crate::run::Progress;

/// The line, and whether the user wants an end.
pub(super) struct Bar {
    bar: ProgressBar,
    interrupted: AtomicBool,
}

impl Bar {
    /// A line that is drawn only when standard error is a terminal.
    pub(super) fn new() -> Bar {
        let target = match stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if let Ok(style) = ProgressStyle::with_template("{pos}/{len} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        Bar {
            bar,
            interrupted: AtomicBool::new(false),
        }
    }

    /// Tells the runner to come to an end.
    pub(super) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
    }

    /// Takes the line away, so that the report stands alone.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn step(&self, what: &str, done: usize, of: usize) {
        self.bar.set_length(of as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(shorten(&visible(what), 200));
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }
}
