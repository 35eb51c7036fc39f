//! The `workspace` contract: ten tools of a compiler over immutable snapshots.
//!
//! The checks take their sources from a pack. Each works in temporary folders of its own: the
//! user's `--workspace` and `--write-back` are never handed on.

mod checks;
mod errors;
mod export;
mod format;
mod frozen;
mod look;
mod pack;
mod patches;
mod queries;
mod server;
mod snapshots;
mod tests;

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use tempfile::TempDir;

use super::{is_wanted, newest_with_handshake, settle, temporary};
use crate::run::{Judge, Options};
use crate::spec::Revision;
use crate::verdict::{Judgement, Report};
use pack::Pack;
use server::{Host, Server};

const AREA: &str = "workspace";

/// The tools of the contract.
pub(super) const TOOLS: [&str; 10] = [
    "compiler_info",
    "check",
    "symbol_query",
    "hole_context",
    "docs_query",
    "explain_diagnostic",
    "format",
    "check_patch",
    "apply_patch",
    "test",
];

/// What a part comes to: the error says why it could not be judged.
type Done = Result<(), String>;

/// The part, and the rule, that all others stand on.
const ROOT: &str = "tools";

/// One part of the contract.
type Part = fn(&mut Profile<'_>) -> Done;

/// The parts: a name, how the ids of the rules begin that it judges, what it does.
const PARTS: &[(&str, &[&str], Part)] = &[
    (ROOT, &["tools"], snapshots::tools),
    ("snapshot.named", &["snapshot.named"], snapshots::named),
    (
        "snapshot.immutable",
        &["snapshot.immutable"],
        snapshots::immutable,
    ),
    ("snapshot", &["snapshot"], snapshots::identity),
    ("head", &["head"], snapshots::head),
    ("edits", &["edit"], patches::edits),
    (
        "patch.write-back",
        &["patch.write-back"],
        patches::write_back,
    ),
    ("patch", &["patch"], patches::apply),
    ("check-patch", &["check-patch"], patches::check_patch),
    ("delta", &["delta"], patches::delta),
    ("frozen.symbol", &["frozen.symbol"], frozen::symbol),
    ("frozen", &["frozen"], frozen::all),
    ("format", &["format"], format::format),
    ("test.budget", &["test.budget"], tests::budgets),
    (
        "test.network",
        &["test.network", "authority"],
        tests::network,
    ),
    ("test", &["test"], tests::run),
    (
        "check.budget",
        &["check.budget", "check.paths"],
        checks::budget,
    ),
    ("check", &["check", "explain"], checks::diagnostics),
    (
        "described",
        &["check.holes", "check.obligations", "hole", "symbol", "docs"],
        queries::described,
    ),
    ("errors", &["errors"], errors::errors),
    ("parallel", &["parallel"], errors::parallel),
    ("export", &["export"], export::export),
];

/// What all checks of the profile share.
struct Profile<'a> {
    options: &'a Options,
    revision: Revision,
    processes: &'a AtomicUsize,
    pack: Pack,
    judge: Judge,
}

/// Judges a server. The error says why nothing could be judged.
pub(super) fn judge(
    options: &Options,
    report: &Report,
    processes: &AtomicUsize,
) -> Result<Vec<Judgement>, String> {
    let revision = newest_with_handshake(report)?;
    let mut profile = Profile {
        options,
        revision,
        processes,
        pack: Pack::load(options.pack.as_deref())?,
        judge: Judge::new(revision),
    };
    let mut problems = Vec::new();
    for (name, prefixes, part) in PARTS {
        // Everything else stands on the first one.
        if *name != ROOT && !is_wanted(AREA, options, prefixes) {
            continue;
        }
        let name = format!("{AREA}.{name}");
        profile.judge.enter(&name);
        let began = Instant::now();
        if let Err(why) = part(&mut profile) {
            problems.push(format!("{name}: {why}."));
        }
        // A tool that hangs would cost as much in each part to come.
        if began.elapsed() >= server::CALL {
            problems.push("The rest: a call took too long, so no more were made.".to_owned());
            break;
        }
    }
    Ok(settle(AREA, profile.judge, options, &problems, Some(ROOT)))
}

impl Profile<'_> {
    /// A process, started so.
    fn start(&self, host: Host<'_>) -> Result<Server, String> {
        Server::start(self, host)
    }

    /// A process on the folder of the pack.
    fn on_folder(&self) -> Result<(TempDir, Server), String> {
        let folder = self.folder()?;
        let server = self.start(Host {
            folder: Some(folder.path()),
            ..Host::default()
        })?;
        Ok((folder, server))
    }

    /// The folder of the pack.
    fn folder(&self) -> Result<TempDir, String> {
        folder_of(self.pack.files.iter().map(|(p, t)| (p.as_str(), &**t)))
    }

    /// The rule holds, or is broken with this message.
    fn rule(&mut self, id: &str, holds: bool, server: &Server, message: impl FnOnce() -> String) {
        let id = format!("{AREA}.{id}");
        if holds {
            self.judge.holds(&id);
        } else {
            self.judge.broken(&id, message(), server.evidence());
        }
    }
}

/// A temporary folder that holds these files, written in this order.
fn folder_of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<TempDir, String> {
    let folder = temporary()?;
    for (path, text) in files {
        write(folder.path(), path, text)?;
    }
    Ok(folder)
}

fn write(folder: &Path, path: &str, text: &str) -> Done {
    let file = folder.join(path);
    let parent = file.parent().unwrap_or(folder);
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(&file, text))
        .map_err(|error| format!("{}: {error}", file.display()))
}
