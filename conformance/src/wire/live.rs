//! The process groups that are alive, so that an interrupted suite leaves nothing behind.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

/// The live groups, by the id of their leader, with the temporary folder of each.
pub(super) struct Live {
    groups: BTreeMap<i32, Option<PathBuf>>,
    closed: bool,
}

static LIVE: Mutex<Live> = Mutex::new(Live {
    groups: BTreeMap::new(),
    closed: false,
});

/// The register, locked. A process is spawned under the lock, so that [`kill_all`] misses none.
pub(super) fn lock() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// Whether the suite was interrupted: nothing may start any more.
    pub(super) fn closed(&self) -> bool {
        self.closed
    }

    pub(super) fn add(&mut self, group: Pid, folder: Option<PathBuf>) {
        self.groups.insert(group.as_raw_nonzero().get(), folder);
    }

    pub(super) fn remove(&mut self, group: Pid) {
        self.groups.remove(&group.as_raw_nonzero().get());
    }
}

/// Kills every process group that was started and is not yet reaped, removes their temporary
/// folders, and lets nothing start from here on. For the handler of an interrupt, just before
/// the suite exits; it waits for nothing.
pub fn kill_all() {
    let mut live = lock();
    live.closed = true;
    for (group, folder) in std::mem::take(&mut live.groups) {
        if let Some(group) = Pid::from_raw(group) {
            // It may have ended meanwhile; then there is nothing to do.
            let _ = kill_process_group(group, Signal::KILL);
        }
        if let Some(folder) = folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
