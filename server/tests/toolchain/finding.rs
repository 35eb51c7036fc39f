//! Which compiler is used.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use touchstone_server::protocol::family::Outcome;

use crate::bench::{Bench, ENTRY, script_tree, scripted};

fn arguments() -> Value {
    json!({"files": script_tree("exit 9"), "entry": ENTRY})
}

fn internal(bench: &Bench, tool: &str, arguments: Value) -> String {
    match bench.outcome(tool, arguments) {
        Outcome::Internal(message) => message,
        other => panic!("{tool} gave {other:?}"),
    }
}

#[test]
fn cajeta_on_path_comes_before_rustc() {
    let bench = Bench::with(|settings| {
        let bin = settings.temp.with_file_name("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(scripted(), bin.join("cajeta")).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let folders = std::iter::once(bin).chain(std::env::split_paths(&path));
        settings.search_path = std::env::join_paths(folders).unwrap();
        settings.compiler = None;
    });
    assert_eq!(bench.result("jit_execute", arguments())["exitStatus"], 9);
    assert_eq!(
        bench.result("listSkills", json!({}))["skills"][0]["name"],
        "first"
    );
}

#[test]
fn a_bare_name_is_looked_up_on_path() {
    let bench = Bench::with(|settings| {
        settings.compiler = Some("scripted-toolchain".into());
        settings.search_path = scripted().parent().unwrap().into();
    });
    assert_eq!(bench.result("jit_execute", arguments())["exitStatus"], 9);
}

#[test]
fn a_compiler_that_cannot_be_started_is_an_internal_error() {
    let dir = tempfile::tempdir().unwrap();
    let not_executable = dir.path().join("plain");
    fs::write(&not_executable, "#!/bin/sh\n").unwrap();
    let not_a_program = dir.path().join("garbage");
    fs::write(&not_a_program, [0x7f, b'E', b'L', b'F', 0, 1, 2]).unwrap();
    fs::set_permissions(&not_a_program, fs::Permissions::from_mode(0o755)).unwrap();
    let no_interpreter = dir.path().join("script");
    fs::write(&no_interpreter, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&no_interpreter, fs::Permissions::from_mode(0o755)).unwrap();
    let missing = Path::new("/no/such/cajeta");
    for path in [
        missing,
        &not_executable,
        &not_a_program,
        &no_interpreter,
        dir.path(),
    ] {
        let bench = Bench::with(|settings| settings.compiler = Some(path.into()));
        let tools = [
            ("compile", arguments()),
            ("jit_execute", arguments()),
            ("searchSkills", json!({"name": "a"})),
            ("listSkills", json!({})),
            ("getSkills", json!({"uris": ["a"]})),
        ];
        for (tool, arguments) in tools {
            let message = internal(&bench, tool, arguments);
            assert!(message.contains("cannot start the compiler"), "{message}");
            assert!(message.contains(&*path.to_string_lossy()), "{message}");
        }
        assert!(bench.entries().is_empty());
    }
}

#[test]
fn with_nothing_on_path_the_message_says_what_to_do() {
    let bench = Bench::with(|settings| {
        settings.compiler = None;
        settings.search_path = "/no/such/folder".into();
    });
    let message = internal(&bench, "compile", arguments());
    assert!(
        message.contains("--cajeta=PATH") && message.contains("rustc"),
        "{message}"
    );
    // The guides need no compiler.
    assert_eq!(
        bench.result("listSkills", json!({}))["skills"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

#[test]
fn the_rust_toolchain_teaches_its_own_use() {
    let bench = Bench::rust();
    let list = bench.result("listSkills", json!({}));
    let uris: Vec<_> = list["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skill| &skill["uri"])
        .collect();
    let read = bench.result("getSkills", json!({"uris": uris}));
    for skill in read["skills"].as_array().unwrap() {
        assert!(skill["content"].as_str().unwrap().starts_with("# "));
    }
    let found = bench.result("searchSkills", json!({"name": "run-a-program"}));
    assert_eq!(found["results"][0]["uri"], "cja-skill://rust/run-a-program");
    assert_eq!(
        bench.result("searchSkills", json!({"name": "zzz"})),
        json!({"results": []})
    );
    assert_eq!(
        bench.result("searchSkills", json!({"name": "--json"})),
        json!({"results": []})
    );
}

#[test]
fn a_tree_in_no_known_language_is_a_result_that_says_so() {
    let bench = Bench::rust();
    let result = bench.compile(script_tree(""), ENTRY);
    assert_eq!(result["exitStatus"], 1);
    let said = result["diagnostics"][0].as_str().unwrap();
    assert!(said.contains("no .rs file"), "{said}");
}

#[test]
fn the_same_rust_sources_give_the_same_artifact() {
    let bench = Bench::with(|settings| {
        settings.compiler = None;
        settings.cache.enabled = false;
    });
    let files = json!({"demo/main.rs": "pub fn run() -> i32 { std::line!() as i32 }"});
    let artifact = || bench.compile(files.clone(), "demo.main.run")["artifact"].clone();
    let one = artifact();
    assert!(one.is_string());
    assert_eq!(one, artifact());
}

#[test]
fn a_rust_entry_must_be_public_and_give_an_i32() {
    let bench = Bench::rust();
    for source in [
        "fn run() -> i32 { 0 }",
        "pub fn run() {}",
        "pub fn run() -> i64 { 0 }",
        "pub fn run(a: i32) -> i32 { a }",
        "pub struct run;",
    ] {
        let files = json!({"demo/main.rs": source});
        for tool in ["compile", "jit_execute"] {
            let result = bench.result(tool, json!({"files": files, "entry": "demo.main.run"}));
            assert_eq!(result["exitStatus"], 1, "{tool} {source}");
        }
    }
}
