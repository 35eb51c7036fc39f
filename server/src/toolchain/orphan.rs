//! A toolchain that the server runs itself as does not outlive the server, however that ended.

use std::thread;

use rustix::process::{Signal, getpgrp, getpid, kill_process_group};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

/// Ends this process and all that it started when its parent dies: one that was killed could not
/// end them. Only for the leader of a group, as the server starts it; in a shell it does nothing.
pub fn end_with_parent() {
    if getpgrp() != getpid() {
        return;
    }
    let Ok(mut signals) = Signals::new([SIGHUP]) else {
        return;
    };
    #[cfg(target_os = "linux")]
    if rustix::process::set_parent_process_death_signal(Some(Signal::HUP)).is_err() {
        return;
    }
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _ = kill_process_group(getpid(), Signal::KILL);
        }
    });
}
