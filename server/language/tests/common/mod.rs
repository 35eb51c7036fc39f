//! What the tests share.
#![allow(dead_code)]

use std::sync::Arc;

use touchstone_language::analysis::{Analyzer, Checked};
use touchstone_language::compile::{Entry, compile};
use touchstone_language::env::Env;
use touchstone_language::host::{Host, Stop};
use touchstone_language::machine::{Budget, Machine};
use touchstone_language::names::{ChunkCache, Module, full};
use touchstone_language::snapshot::Snapshot;
use touchstone_language::testing::{TestOptions, TestResult, run_test, tests};
use touchstone_language::value::Value;

pub mod programs;

pub fn snapshot(files: &[(&str, &str)]) -> Snapshot {
    Snapshot::new(
        files
            .iter()
            .map(|(p, t)| ((*p).to_owned(), (*t).to_owned())),
    )
    .unwrap()
}

pub fn analyse(files: &[(&str, &str)]) -> (Env, Checked) {
    let mut analyzer = Analyzer::new();
    let env = analyzer.env(&snapshot(files));
    let checked = analyzer.check(&env, None, &|| false);
    (env, checked)
}

/// The codes of a file's diagnostics, each once.
pub fn codes(text: &str) -> Vec<String> {
    let (_, checked) = analyse(&[("main.sakura", text)]);
    let mut codes: Vec<String> = checked.diagnostics.into_iter().map(|d| d.code).collect();
    codes.sort();
    codes.dedup();
    codes
}

pub fn shown(checked: &Checked) -> Vec<String> {
    let line = |d: &touchstone_language::diagnostic::Diagnostic| {
        format!(
            "{}:{}:{} {} {}",
            d.path, d.range.start.line, d.range.start.column, d.code, d.message
        )
    };
    checked.diagnostics.iter().map(line).collect()
}

pub fn module(text: &str) -> Module {
    Module::new("main.sakura", Arc::from(text), &mut ChunkCache::default())
}

/// Runs `main::name` of a file that must be clean.
pub fn run(text: &str, name: &str, args: Vec<Value>, host: &mut dyn Host) -> Result<Value, Stop> {
    let (env, checked) = analyse(&[("main.sakura", text)]);
    assert_eq!(shown(&checked), Vec::<String>::new());
    call(
        &env,
        name,
        args,
        host,
        Budget {
            steps: 2_000_000,
            memory: 16 << 20,
        },
    )
}

pub fn call(
    env: &Env,
    name: &str,
    args: Vec<Value>,
    host: &mut dyn Host,
    budget: Budget,
) -> Result<Value, Stop> {
    let program = compile(env, &[Entry::Function(full("main", name))]).unwrap();
    Machine::new(&program, host, budget).call(0, args)
}

pub fn run_tests(env: &Env, options: TestOptions) -> Vec<TestResult> {
    let mut out = Vec::new();
    for module in env
        .modules
        .by_name
        .values()
        .filter(|m| !m.name.starts_with("std/"))
    {
        for (at, decl) in tests(module) {
            out.push(run_test(env, module, at, decl, options, &|| false));
        }
    }
    out
}

/// The lines at which two texts part ways.
pub fn same_text(found: &str, wanted: &str) {
    for (index, (a, b)) in found.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(a, b, "line {}", index + 1);
    }
    assert_eq!(found, wanted);
}

/// How many cases a property gets: `few`, or what `PROPTEST_CASES` says.
pub fn cases(few: u32) -> proptest::test_runner::Config {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(few);
    proptest::test_runner::Config {
        cases,
        failure_persistence: None,
        ..Default::default()
    }
}
