//! The snapshots and patches that are remembered, and the head.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use touchstone_language::analysis::Analyzer;
use touchstone_language::snapshot::{Edit, EditRange, Snapshot};

use super::folder;

/// How many snapshots are remembered.
pub(super) const MAX_SNAPSHOTS: usize = 256;
/// How many bytes they may hold together.
pub(super) const MAX_BYTES: usize = 256 * 1024 * 1024;
/// How many patches are remembered.
pub(super) const MAX_PATCHES: usize = 1_024;

/// An edit of a snapshot that may be applied.
#[derive(Debug, Clone)]
pub(super) struct Patch {
    /// What it is made against.
    pub base: Snapshot,
    /// What it leads to.
    pub result: Snapshot,
}

/// Everything that lasts from call to call.
pub(super) struct State {
    pub analyzer: Analyzer,
    snapshots: HashMap<Arc<str>, Snapshot>,
    /// The remembered ids, the least recently used first.
    order: VecDeque<Arc<str>>,
    patches: HashMap<String, Patch>,
    patch_order: VecDeque<String>,
    pub head: Snapshot,
    root: Option<PathBuf>,
    /// The folder's content when it was last looked at.
    seen: Option<Snapshot>,
}

impl State {
    pub(super) fn open(root: Option<PathBuf>) -> Result<Self, String> {
        let head = match &root {
            Some(root) => folder::load(root)?,
            None => Snapshot::empty(),
        };
        let mut state = Self {
            analyzer: Analyzer::new(),
            snapshots: HashMap::new(),
            order: VecDeque::new(),
            patches: HashMap::new(),
            patch_order: VecDeque::new(),
            seen: root.as_ref().map(|_| head.clone()),
            head: head.clone(),
            root,
        };
        state.remember(&head);
        state.remember(&Snapshot::empty());
        Ok(state)
    }

    /// Looks at the folder again; the head moves when the folder changed.
    pub(super) fn refresh(&mut self) -> Result<(), String> {
        let Some(root) = &self.root else {
            return Ok(());
        };
        let now = folder::load(root)?;
        if self.seen.as_ref().map(|s| s.id().clone()) != Some(now.id().clone()) {
            self.seen = Some(now.clone());
            self.head = now.clone();
            self.remember(&now);
        }
        Ok(())
    }

    /// Keeps a snapshot, and forgets the least recently used ones beyond the bounds.
    pub(super) fn remember(&mut self, snapshot: &Snapshot) {
        let id = snapshot.id().clone();
        self.order.retain(|other| *other != id);
        self.order.push_back(id.clone());
        self.snapshots.insert(id, snapshot.clone());
        let mut bytes: usize = self.snapshots.values().map(Snapshot::bytes).sum();
        while self.order.len() > MAX_SNAPSHOTS || (bytes > MAX_BYTES && self.order.len() > 2) {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            if oldest == *self.head.id() {
                self.order.push_back(oldest);
                continue;
            }
            bytes -= self.snapshots.remove(&oldest).map_or(0, |s| s.bytes());
        }
    }

    /// A remembered snapshot.
    pub(super) fn snapshot(&mut self, id: &str) -> Option<Snapshot> {
        let found = self.snapshots.get(id)?.clone();
        self.remember(&found);
        Some(found)
    }

    /// Keeps a patch; its id follows from its base and its edits.
    pub(super) fn keep_patch(
        &mut self,
        base: &Snapshot,
        edits: &[Edit],
        result: Snapshot,
    ) -> String {
        let id = patch_id(base, edits);
        if self
            .patches
            .insert(
                id.clone(),
                Patch {
                    base: base.clone(),
                    result,
                },
            )
            .is_none()
        {
            self.patch_order.push_back(id.clone());
        }
        while self.patch_order.len() > MAX_PATCHES {
            if let Some(oldest) = self.patch_order.pop_front() {
                self.patches.remove(&oldest);
            }
        }
        id
    }

    pub(super) fn patch(&self, id: &str) -> Option<Patch> {
        self.patches.get(id).cloned()
    }

    /// Writes a patch of the head into the folder.
    pub(super) fn write_back(&mut self, base: &Snapshot, result: &Snapshot) -> Result<(), String> {
        let Some(root) = self.root.clone() else {
            return Ok(());
        };
        let now = folder::load(&root)?;
        if now.id() != base.id() {
            return Err("the folder is not what the patch was made against; compiler_info gives its snapshot".to_owned());
        }
        folder::write(&root, base, result)?;
        self.seen = Some(result.clone());
        Ok(())
    }
}

fn patch_id(base: &Snapshot, edits: &[Edit]) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    part(base.id().as_bytes());
    for edit in edits {
        part(edit.path.as_bytes());
        part(
            match edit.range {
                None => "all".to_owned(),
                Some(EditRange::Bytes(start, end)) => format!("b{start}-{end}"),
                Some(EditRange::Positions(start, end)) => {
                    format!(
                        "p{}:{}-{}:{}",
                        start.line, start.column, end.line, end.column
                    )
                }
            }
            .as_bytes(),
        );
        match &edit.text {
            Some(text) => part(text.as_bytes()),
            None => part(b"\0deleted"),
        }
    }
    let mut id = String::from("p_");
    for byte in hash.finalize() {
        let _ = write!(id, "{byte:02x}");
    }
    id
}

/// The files that differ between two snapshots.
pub(super) fn differing(a: &Snapshot, b: &Snapshot) -> Vec<String> {
    let all: BTreeMap<&Arc<str>, ()> = a
        .files()
        .keys()
        .chain(b.files().keys())
        .map(|path| (path, ()))
        .collect();
    all.into_keys()
        .filter(|path| a.text(path) != b.text(path))
        .map(|path| path.to_string())
        .collect()
}
