//! Tests that need a server process. The test binary plays that server itself: it starts itself
//! again with `--act NAME`, so nothing but Rust is needed on the machine.

// A test may unwrap; without the usual harness clippy cannot see that this is one.
#![allow(clippy::unwrap_used)]

mod act;
mod client;
mod generated;
mod hints;
mod runs;
mod saved;
mod transcript;
mod wayward;
mod wire;

use libtest_mimic::{Arguments, Trial};

/// A test for each function named.
macro_rules! trials {
    ($($name:ident),* $(,)?) => {
        vec![$(libtest_mimic::Trial::test(
            concat!(module_path!(), "::", stringify!($name)),
            || { $name(); Ok(()) },
        )),*]
    };
}
pub(crate) use trials;

fn main() {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("--act") {
        return act::act(&args.next().expect("the name of an act"));
    }
    let trials: Vec<Trial> = [
        wire::all(),
        client::all(),
        transcript::all(),
        generated::all(),
        hints::all(),
        runs::all(),
        saved::all(),
    ]
    .into_iter()
    .flatten()
    .collect();
    // They wait for time limits far more than they compute.
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(8);
    libtest_mimic::run(&arguments, trials).exit();
}
