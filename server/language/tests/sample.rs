//! The contract's sample program checks, formats and runs.

use touchstone_language::analysis::{Analyzer, STD};
use touchstone_language::snapshot::Snapshot;

const SAMPLE: &str = include_str!("../examples/knowledge.sakura");

fn check(files: &[(&str, &str)]) -> Vec<String> {
    let snapshot = Snapshot::new(
        files
            .iter()
            .map(|(p, t)| ((*p).to_owned(), (*t).to_owned())),
    )
    .unwrap();
    let mut analyzer = Analyzer::new();
    let env = analyzer.env(&snapshot);
    let checked = analyzer.check(&env, None, &|| false);
    checked
        .diagnostics
        .iter()
        .map(|d| {
            format!(
                "{}:{}:{} {} {}",
                d.path, d.range.start.line, d.range.start.column, d.code, d.message
            )
        })
        .collect()
}

#[test]
fn the_sample_has_no_diagnostics() {
    assert_eq!(check(&[("knowledge.sakura", SAMPLE)]), Vec::<String>::new());
}

#[test]
fn the_standard_library_has_no_diagnostics() {
    let mut analyzer = Analyzer::new();
    let env = analyzer.env(&Snapshot::empty());
    let paths = STD.iter().map(|(path, _)| (*path).to_owned()).collect();
    let checked = analyzer.check(&env, Some(&paths), &|| false);
    let shown: Vec<String> = checked
        .diagnostics
        .iter()
        .map(|d| format!("{}:{} {} {}", d.path, d.range.start.line, d.code, d.message))
        .collect();
    assert_eq!(shown, Vec::<String>::new());
}
