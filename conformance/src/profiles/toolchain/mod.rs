//! The `toolchain` contract: five tools over a compiler, and an execution cache.
//!
//! The checks know no language: they take sources from a pack. Each starts the server with the
//! flags of the contract and a cache folder of its own.

mod across;
mod cache;
mod children;
mod config;
mod pack;
mod server;
mod tools;

use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use tempfile::TempDir;

use super::{is_wanted, newest_with_handshake, settle, temporary};
use crate::run::{Judge, Options};
use crate::spec::Revision;
use crate::verdict::{Judgement, Report};
use pack::{Pack, Program};
use server::{Said, Server};

const AREA: &str = "toolchain";

/// The tools of the contract.
pub(super) const TOOLS: [&str; 5] = [
    "searchSkills",
    "listSkills",
    "getSkills",
    "compile",
    "jit_execute",
];

/// One part of the contract; the error says why it could not be judged.
type Part = fn(&mut Profile<'_>) -> Result<(), String>;

/// The parts: a name, how the ids of the rules begin that it judges, what it does.
const PARTS: &[(&str, &[&str], Part)] = &[
    ("skills", &["tools", "skills"], tools::skills),
    (
        "compile",
        &["compile", "run.failure-is-result"],
        tools::compile,
    ),
    ("run", &["run", "output-clean"], tools::run),
    ("run.tree", &["run.tree-ended"], children::tree),
    (
        "invalid",
        &["compile.invalid", "run.invalid"],
        tools::invalid,
    ),
    ("no-shell", &["no-shell"], children::no_shell),
    ("internal-error", &["internal-error"], tools::internal_error),
    (
        "cache.key",
        &[
            "cache.hit",
            "cache.files",
            "cache.entry",
            "cache.tool",
            "cache.key-lengths",
        ],
        cache::key,
    ),
    ("cache.toolchain", &["cache.toolchain"], cache::toolchain),
    (
        "cache.store",
        &["cache.one-file", "cache.restart"],
        cache::store,
    ),
    ("cache.damaged", &["cache.damaged"], cache::damaged),
    ("cache.ttl", &["cache.ttl"], cache::ttl),
    (
        "cache.bounds",
        &["cache.max-entries", "cache.lru", "cache.max-bytes"],
        cache::bounds,
    ),
    ("cache.off", &["cache.off"], cache::off),
    ("cache.shared", &["cache.shared"], across::shared),
    ("cache.failure", &["cache.failure"], across::failure),
    (
        "cache.environment",
        &["cache.environment"],
        across::environment,
    ),
    ("cache.timeout", &["cache.timeout"], cache::timeout),
    ("config", &["config"], config::precedence),
];

/// What all checks of the profile share.
struct Profile<'a> {
    options: &'a Options,
    revision: Revision,
    processes: &'a AtomicUsize,
    pack: Pack,
    judge: Judge,
    /// For marks that make a program new to every cache.
    marks: u64,
}

/// Judges a server. The error says why nothing could be judged.
pub(super) fn judge(
    options: &Options,
    report: &Report,
    processes: &AtomicUsize,
) -> Result<Vec<Judgement>, String> {
    // `cacheConfig` is an answer to `initialize`, so the newest revision of that era is best.
    let revision = newest_with_handshake(report)?;
    let packs = pack::all(options.pack.as_deref())?;
    let mut judge = Judge::new(revision);
    judge.enter("toolchain.start");
    let pack = choose(options, revision, processes, packs)?;
    let mut profile = Profile {
        options,
        revision,
        processes,
        pack,
        judge,
        marks: 0,
    };
    let mut problems = Vec::new();
    for (name, prefixes, part) in PARTS {
        if !is_wanted(AREA, options, prefixes) {
            continue;
        }
        let name = format!("{AREA}.{name}");
        profile.judge.enter(&name);
        if let Err(why) = part(&mut profile) {
            problems.push(format!("{name}: {why}."));
        }
    }
    Ok(settle(AREA, profile.judge, options, &problems, None))
}

/// The first pack whose probe the server compiles.
fn choose(
    options: &Options,
    revision: Revision,
    processes: &AtomicUsize,
    packs: Vec<Pack>,
) -> Result<Pack, String> {
    let folder = temporary()?;
    let mut server = Server::with_cache(options, revision, folder.path(), &[], processes)?;
    let mut said = String::new();
    let mut chosen = None;
    let began = Instant::now();
    for pack in packs {
        let Some(program) = pack.program(&pack.probe) else {
            continue;
        };
        match server.call("compile", &program.arguments()) {
            Said::Fields(fields)
                if fields.get("exitStatus").and_then(serde_json::Value::as_i64) == Some(0) =>
            {
                chosen = Some(pack);
                break;
            }
            other => said.push_str(&format!(" {}: {}.", pack.language, describe(&other))),
        }
        // A tool that hangs would hang on every pack.
        if began.elapsed() >= server::COMPILE {
            break;
        }
    }
    server.stop(options);
    chosen.ok_or_else(|| {
        format!("No pack fits: the server compiles none of their probes;{said} Give sources of its language with `--pack DIR`.")
    })
}

/// What a call gave, in a few words.
fn describe(said: &Said) -> String {
    match said {
        Said::Fields(fields) => {
            let status = fields
                .get("exitStatus")
                .map_or("none".to_owned(), ToString::to_string);
            format!("a result with exitStatus {status}")
        }
        Said::Refused(code) => {
            format!(
                "error {}",
                code.map_or("without a code".to_owned(), |code| code.to_string())
            )
        }
        Said::ToolError(text) => {
            format!(
                "a result with `isError` ({})",
                crate::checks::exchange::shorten(text, 120)
            )
        }
        Said::Nothing(why) => why.clone(),
    }
}

impl Profile<'_> {
    fn start(&self, folder: &TempDir, more: &[&str]) -> Result<Server, String> {
        Server::with_cache(
            self.options,
            self.revision,
            folder.path(),
            more,
            self.processes,
        )
    }

    /// The program of the pack; one that lacks it cannot be judged by it.
    fn program(&self, name: &str) -> Result<Program, String> {
        self.pack
            .program(name)
            .cloned()
            .ok_or_else(|| format!("the pack `{}` has no program `{name}`", self.pack.language))
    }

    /// The program of the pack, changed so that no cache can know it.
    fn fresh(&mut self, name: &str) -> Result<Program, String> {
        self.marks += 1;
        let mark = format!("{}-{}", std::process::id(), self.marks);
        self.pack
            .fresh(name, &mark)
            .ok_or_else(|| format!("the pack `{}` has no program `{name}`", self.pack.language))
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

    /// The result's fields; without any, the rule is broken.
    fn fields(
        &mut self,
        id: &str,
        server: &Server,
        said: Said,
        what: &str,
    ) -> Option<serde_json::Map<String, serde_json::Value>> {
        match said {
            Said::Fields(fields) => Some(fields),
            other => {
                self.rule(id, false, server, || {
                    format!("{what}: {}.", describe(&other))
                });
                None
            }
        }
    }
}
