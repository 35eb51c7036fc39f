//! The packs of the suite's toolchain profile say the truth about their toolchains.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use touchstone_server::toolchain::config::Settings;

use crate::bench::Bench;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pack {
    schema: u32,
    language: String,
    extension: String,
    probe: String,
    comment: String,
    program: Vec<Program>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    name: String,
    summary: String,
    entry: String,
    compile: Compile,
    run: Run,
    files: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compile {
    success: bool,
    #[serde(default)]
    diagnostics: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    exit_status: Option<i32>,
    stdout: Option<String>,
    #[serde(default)]
    stdout_contains: Vec<String>,
    #[serde(default)]
    stderr_contains: Vec<String>,
}

fn read(language: &str) -> Pack {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/packs");
    let text = std::fs::read_to_string(root.join(language).join("pack.toml")).unwrap();
    toml::from_str(&text).unwrap()
}

/// Compiles and runs every program of a pack.
fn check(language: &str, compiler: impl Fn(&mut Settings)) {
    let pack = read(language);
    assert_eq!((pack.schema, pack.language.as_str()), (1, language));
    assert!(
        pack.program
            .iter()
            .any(|program| program.name == pack.probe)
    );
    for program in &pack.program {
        let bench = Bench::with(|settings| {
            compiler(settings);
            if ["beyond-hangs", "beyond-leaves-child"].contains(&program.name.as_str()) {
                // Long enough to compile on a slow machine; it is spent in full.
                settings.limits.timeout = Duration::from_secs(5);
            }
        });
        check_program(&bench, &pack, program);
    }
}

fn check_program(bench: &Bench, pack: &Pack, program: &Program) {
    let name = format!("{} {}", pack.language, program.name);
    assert!(!program.summary.is_empty());
    let source = |path: &String| path.ends_with(&format!(".{}", pack.extension));
    assert!(program.files.keys().all(source), "{name}");
    let compiled = bench.compile(json!(program.files), &program.entry);
    assert_eq!(
        compiled["exitStatus"] == 0,
        program.compile.success,
        "{name} {compiled}"
    );
    for text in &program.compile.diagnostics {
        let lines = compiled["diagnostics"].as_array().unwrap();
        let there = lines
            .iter()
            .any(|line| line.as_str().unwrap().contains(text));
        assert!(there, "{name} {text} {compiled}");
    }
    let ran = bench.run(json!(program.files), &program.entry);
    match program.run.exit_status {
        Some(status) => assert_eq!(ran["exitStatus"], status, "{name} {ran}"),
        None => assert_ne!(ran["exitStatus"], 0, "{name} {ran}"),
    }
    if let Some(stdout) = &program.run.stdout {
        assert_eq!(ran["stdout"], *stdout, "{name}");
    }
    let contains = |stream: &Value, texts: &[String]| {
        for text in texts {
            assert!(
                stream.as_str().unwrap().contains(text),
                "{name} {text} {ran}"
            );
        }
    };
    contains(&ran["stdout"], &program.run.stdout_contains);
    contains(&ran["stderr"], &program.run.stderr_contains);
    if program.name == pack.probe {
        let mut files = program.files.clone();
        for text in files.values_mut() {
            text.push_str(&format!("\n{} {{ \" fresh\n", pack.comment));
        }
        let changed = bench.run(json!(files), &program.entry);
        assert_eq!(
            (&changed["exitStatus"], &changed["cacheHit"]),
            (&json!(0), &json!(false))
        );
    }
}

#[test]
fn the_scripted_pack_holds_on_the_scripted_toolchain() {
    check("scripted", |_| {});
}

#[test]
fn the_rust_pack_holds_on_rustc() {
    check("rust", |settings| settings.compiler = None);
}

#[test]
fn all_packs_have_the_same_programs() {
    let names = |language| {
        let names = read(language)
            .program
            .into_iter()
            .map(|program| program.name);
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("rust"), names("scripted"));
}

#[test]
fn a_pack_does_not_fit_another_toolchain() {
    for (language, bench) in [("rust", Bench::new()), ("scripted", Bench::rust())] {
        let pack = read(language);
        let probe = pack
            .program
            .iter()
            .find(|program| program.name == pack.probe)
            .unwrap();
        assert_ne!(
            bench.compile(json!(probe.files), &probe.entry)["exitStatus"],
            0
        );
    }
}
