//! Snapshots in, diagnostics out; work is shared between snapshots.
//!
//! Two tables keyed by content do that, and no dependency graph: a chunk (one declaration) is
//! parsed once for each text, and checked once for each text, module and reach. The reach is a
//! hash of the interfaces that the module can see, its own included. After an edit inside a body
//! one chunk is checked again; after an edit of a signature those that can see it are. The results
//! hold nothing but spans within the chunk and names of symbols, so they stay right when lines
//! move. `salsa` would track single lookups, at the price of a framework around every query; the
//! reach is coarser, needs no framework, and cannot go stale.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use crate::ast::{Item, Span};
use crate::check::{self, Report};
use crate::diagnostic::{
    Diagnostic, Draft, FixEdit, Lines, Place, Range, Related, Severity, severity_of,
};
use crate::env::Env;
use crate::names::{ChunkCache, Module, Modules, full};
use crate::snapshot::Snapshot;
use crate::types::Sym;

/// The sources of the standard library.
pub const STD: [(&str, &str); 5] = [
    ("std/core.sakura", include_str!("../std/core.sakura")),
    ("std/http.sakura", include_str!("../std/http.sakura")),
    ("std/json.sakura", include_str!("../std/json.sakura")),
    ("std/clock.sakura", include_str!("../std/clock.sakura")),
    ("std/random.sakura", include_str!("../std/random.sakura")),
];

/// The modules of the standard library, parsed once.
fn library() -> &'static [Arc<Module>] {
    static LIBRARY: OnceLock<Vec<Arc<Module>>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let mut chunks = ChunkCache::default();
        STD.iter()
            .map(|(path, text)| Arc::new(Module::new(path, Arc::from(*text), &mut chunks)))
            .collect()
    })
}

type ReportKey = (Arc<str>, [u8; 32], [u8; 32]);

/// The shared work.
#[derive(Debug)]
pub struct Analyzer {
    chunks: ChunkCache,
    modules: HashMap<(Arc<str>, Arc<str>), Arc<Module>>,
    reports: HashMap<ReportKey, Arc<Report>>,
    /// How many chunks were checked, not found: for tests and measurements.
    pub checked: u64,
}

impl Default for Analyzer {
    fn default() -> Self {
        Self::new()
    }
}

impl Analyzer {
    const MAX_REPORTS: usize = 200_000;
    const MAX_MODULES: usize = 20_000;

    /// An analyzer that knows the standard library.
    pub fn new() -> Self {
        Self {
            chunks: ChunkCache::default(),
            modules: HashMap::new(),
            reports: HashMap::new(),
            checked: 0,
        }
    }

    /// The declarations of a snapshot, the standard library included.
    pub fn env(&mut self, snapshot: &Snapshot) -> Env {
        let mut modules = Modules::default();
        for module in library() {
            modules.by_name.insert(module.name.clone(), module.clone());
        }
        for (path, text) in snapshot.files() {
            let key = (path.clone(), text.clone());
            let module = match self.modules.get(&key) {
                Some(found) => found.clone(),
                None => {
                    if self.modules.len() >= Self::MAX_MODULES {
                        self.modules.clear();
                    }
                    let made = Arc::new(Module::new(path, text.clone(), &mut self.chunks));
                    self.modules.insert(key, made.clone());
                    made
                }
            };
            modules.by_name.insert(module.name.clone(), module);
        }
        Env::new(modules)
    }

    /// The report of every chunk of a module; None when `stopped` said so.
    fn module_reports(
        &mut self,
        env: &Env,
        module: &Module,
        stopped: &dyn Fn() -> bool,
    ) -> Option<Vec<Arc<Report>>> {
        let reach = env.modules.reach(module);
        let mut out = Vec::with_capacity(module.chunks.len());
        for (index, chunk) in module.chunks.iter().enumerate() {
            let key = (module.name.clone(), chunk.hash, reach);
            if let Some(found) = self.reports.get(&key) {
                out.push(found.clone());
                continue;
            }
            if stopped() {
                return None;
            }
            if self.reports.len() >= Self::MAX_REPORTS {
                self.reports.clear();
            }
            self.checked += 1;
            let report = Arc::new(check::check_chunk(env, module, index));
            self.reports.insert(key, report.clone());
            out.push(report);
        }
        Some(out)
    }

    /// Checks files of a snapshot (all of them when `paths` is None). `stopped` is asked between
    /// chunks; once it is true the rest is left out and the result is not complete.
    pub fn check(
        &mut self,
        env: &Env,
        paths: Option<&BTreeSet<String>>,
        stopped: &dyn Fn() -> bool,
    ) -> Checked {
        let mut out = Checked {
            complete: true,
            ..Checked::default()
        };
        for module in env.modules.by_name.values() {
            let wanted = match paths {
                Some(paths) => paths.contains(&*module.path),
                None => !is_library(module),
            };
            if !wanted {
                continue;
            }
            match self.module_reports(env, module, stopped) {
                Some(reports) => Assembly {
                    env,
                    module,
                    lines: Lines::new(module.text.clone()),
                }
                .assemble(&reports, &mut out),
                None => out.complete = false,
            }
        }
        out.diagnostics.sort();
        out.diagnostics.dedup();
        out
    }
}

/// Whether a module belongs to the standard library.
pub fn is_library(module: &Module) -> bool {
    module.name.starts_with("std/")
}

/// What checking gave.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Checked {
    pub diagnostics: Vec<Diagnostic>,
    pub holes: Vec<FoundHole>,
    pub obligations: Vec<FoundObligation>,
    /// False when it was stopped before the end.
    pub complete: bool,
}

impl Checked {
    /// Whether nothing is wrong enough to keep the program from running.
    pub fn has_errors(&self) -> bool {
        self.diagnostics
            .iter()
            .any(|d| d.severity == Severity::Error)
    }
}

/// A hole in its file.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct FoundHole {
    /// `path#function?name`, with `~2`, `~3`, … where that is taken.
    pub id: String,
    pub path: String,
    pub range: Range,
    pub report: Arc<Report>,
    /// Its place in the report.
    pub index: usize,
    /// The module and the chunk it stands in.
    pub module: Arc<str>,
    pub chunk: usize,
}

/// A condition left to run time, in its file.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct FoundObligation {
    pub kind: &'static str,
    pub path: String,
    pub range: Range,
    pub condition: String,
    /// Whose condition it is.
    pub symbol: String,
    /// Where it arises.
    pub owner: String,
}

/// Puts the reports of a module's chunks into its file.
struct Assembly<'a> {
    env: &'a Env,
    module: &'a Module,
    lines: Lines,
}

impl Assembly<'_> {
    fn range(&self, chunk: usize, span: Span) -> Range {
        let offset = self.module.offsets[chunk];
        self.lines.range(offset + span.start, offset + span.end)
    }

    fn assemble(&self, reports: &[Arc<Report>], out: &mut Checked) {
        let mut used: BTreeSet<&Arc<str>> = BTreeSet::new();
        let mut hole_ids: BTreeMap<String, u32> = BTreeMap::new();
        for (chunk, report) in reports.iter().enumerate() {
            used.extend(&report.used);
            for draft in self.module.chunks[chunk]
                .parsed
                .errors
                .iter()
                .chain(&report.drafts)
            {
                out.diagnostics.push(self.diagnostic(chunk, draft));
            }
            for (index, hole) in report.holes.iter().enumerate() {
                let base = format!("{}#{}?{}", self.module.path, hole.owner, hole.name.text);
                let count = hole_ids.entry(base.clone()).or_insert(0);
                *count += 1;
                out.holes.push(FoundHole {
                    id: if *count == 1 {
                        base
                    } else {
                        format!("{base}~{count}")
                    },
                    path: self.module.path.to_string(),
                    range: self.range(chunk, hole.name.span),
                    report: report.clone(),
                    index,
                    module: self.module.name.clone(),
                    chunk,
                });
            }
            for obligation in &report.obligations {
                out.obligations.push(FoundObligation {
                    kind: obligation.kind,
                    path: self.module.path.to_string(),
                    range: self.range(chunk, obligation.span),
                    condition: obligation.condition.to_string(),
                    symbol: obligation.symbol.to_string(),
                    owner: full(&self.module.name, &obligation.owner).to_string(),
                });
            }
        }
        for (chunk, draft) in self.module_drafts(&used) {
            out.diagnostics.push(self.diagnostic(chunk, &draft));
        }
    }

    /// What only the whole file tells: names declared twice, imports that clash or are not used.
    fn module_drafts(&self, used: &BTreeSet<&Arc<str>>) -> Vec<(usize, Draft)> {
        let mut out = Vec::new();
        for (at, name, kind) in &self.module.duplicates {
            let code = if *kind == "test" { "V7003" } else { "V2003" };
            let mut draft = Draft::new(
                code,
                name.span,
                format!(
                    "there is another {kind} called `{}` in this file",
                    name.text
                ),
            );
            if *kind != "test" {
                draft = draft.declared(&full(&self.module.name, &name.text), "declared here first");
            }
            out.push((at.chunk, draft));
        }
        let scope = self.env.scope(&self.module.name);
        for (at, name) in &scope.clashes {
            let message = format!(
                "importing `{}` clashes with what has a name of it here already",
                name.text
            );
            out.push((at.chunk, Draft::new("V2003", name.span, message)));
        }
        for (chunk, parsed) in self.module.chunks.iter().enumerate() {
            for item in &parsed.parsed.items {
                let Item::Import(import) = item else { continue };
                let Some(from) = self.env.modules.by_name.get(&import.module.text) else {
                    continue;
                };
                for name in &import.names {
                    let known = from.declaration(&name.text).is_some()
                        || !crate::names::members(from, &name.text).is_empty();
                    let prefix = format!("{}.", name.text);
                    let is_used = used
                        .iter()
                        .any(|u| **u == name.text || u.starts_with(&prefix));
                    if known && !is_used {
                        let message = format!("`{}` is imported and not used", name.text);
                        let draft = Draft::new("V2005", name.span, message);
                        let fix = crate::diagnostic::Fix::replace(
                            "import the rest",
                            import.span,
                            without(import, &name.text),
                        );
                        out.push((chunk, draft.fix(fix)));
                    }
                }
            }
        }
        out
    }

    fn diagnostic(&self, chunk: usize, draft: &Draft) -> Diagnostic {
        let related = draft.related.iter().filter_map(|(place, message)| {
            let (path, range) = match place {
                Place::Here(span) => (self.module.path.to_string(), self.range(chunk, *span)),
                Place::Symbol(sym) => place_of(self.env, sym, Some((self.module, &self.lines)))?,
            };
            Some(Related {
                path,
                range,
                message: message.clone(),
            })
        });
        let fixes = draft.fixes.iter().map(|fix| FixEdit {
            title: fix.title.clone(),
            path: self.module.path.to_string(),
            range: self.range(chunk, fix.span),
            text: fix.text.clone(),
        });
        Diagnostic {
            path: self.module.path.to_string(),
            range: self.range(chunk, draft.span),
            code: draft.code.to_owned(),
            severity: severity_of(draft.code),
            message: draft.message.clone(),
            related: related.collect(),
            fixes: fixes.collect(),
        }
    }
}

/// An import without one of its names.
fn without(import: &crate::ast::Import, name: &str) -> String {
    let rest: Vec<&str> = import
        .names
        .iter()
        .map(|n| &*n.text)
        .filter(|n| *n != name)
        .collect();
    if rest.is_empty() {
        String::new()
    } else {
        format!("import {}.{{{}}}", import.module.text, rest.join(", "))
    }
}

/// Where a symbol's name is declared. `known`: a module whose lines are at hand.
pub fn place_of(env: &Env, sym: &Sym, known: Option<(&Module, &Lines)>) -> Option<(String, Range)> {
    let (module, name) = env.modules.split(sym)?;
    let (at, found) = module.declaration(name)?;
    let offset = module.offsets[at.chunk];
    let (start, end) = (offset + found.span.start, offset + found.span.end);
    let range = match known {
        Some((here, lines)) if here.name == module.name => lines.range(start, end),
        _ => Lines::new(module.text.clone()).range(start, end),
    };
    Some((module.path.to_string(), range))
}
