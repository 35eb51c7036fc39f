//! The command line as a user meets it: exit codes, messages, what goes to which stream.

#![allow(clippy::unwrap_used)]

use std::fs;

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::{contains, is_empty, starts_with};

/// In a folder of its own, so that no hints file is found.
fn touchstone(args: &[&str]) -> (tempfile::TempDir, Command) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::cargo_bin("touchstone").unwrap();
    command.current_dir(folder.path()).args(args);
    (folder, command)
}

/// Exit code 2, the message on stderr, nothing on stdout.
fn refuses(args: &[&str], message: &str) {
    let (_folder, mut command) = touchstone(args);
    command
        .assert()
        .code(2)
        .stdout(is_empty())
        .stderr(contains(message));
}

#[test]
fn wrong_arguments_are_named() {
    let refused = [
        (
            &["check", "--revision", "2025-01-01", "--", "x"][..],
            "2024-11-05",
        ),
        (
            &[
                "check",
                "--revision",
                "auto",
                "--revision",
                "2025-06-18",
                "--",
                "x",
            ],
            "not both",
        ),
        (
            &["check", "--profile", "nosuch", "--", "x"],
            "toolchain, memory",
        ),
        (&["check", "--timeout", "0", "--", "x"], "more than 0"),
        (&["check", "--timeout", "5s", "--", "x"], "in seconds"),
        (&["check", "--jobs", "0", "--", "x"], "--jobs"),
        (
            &["check", "--call", "a", "--call-all", "--", "x"],
            "cannot be used with",
        ),
        (&["check", "--report", "xml=a", "--", "x"], "json and junit"),
        (
            &[
                "check", "--report", "json=-", "--report", "junit=-", "--", "x",
            ],
            "only one report",
        ),
        (
            &[
                "check", "--report", "json=a", "--report", "junit=a", "--", "x",
            ],
            "same file",
        ),
        (
            &["check", "--report", "json=no/such/folder/a", "--", "x"],
            "no/such/folder/a",
        ),
        (
            &["check", "--cwd", "no-such-folder", "--", "x"],
            "no-such-folder",
        ),
        (
            &["check", "--hints", "no-such.toml", "--", "x"],
            "no-such.toml",
        ),
        (
            &["check", "--pack", "no-such-pack", "--", "x"],
            "no-such-pack",
        ),
        (
            &["check", "--only", "jsonrpc.version-membre", "--", "x"],
            "jsonrpc.version-member",
        ),
        (
            &["check", "--skip", "tools.nosuch", "--", "x"],
            "matches no requirement",
        ),
        (
            &["check", "--only", "ping", "--skip", "ping.*", "--", "x"],
            "nothing to judge",
        ),
        (&["replay", "no-such.txt", "--", "x"], "no-such.txt"),
        (&["fuzz", "--time", "0s", "--", "x"], "more than 0"),
        (&["fuzz", "--time", "soon", "--", "x"], "5m"),
        (&["explain", "tools.nosuch"], "matches no requirement"),
        (&["list", "--revision", "2025-01-01"], "2024-11-05"),
    ];
    for (args, message) in refused {
        refuses(args, message);
    }
}

#[test]
fn a_missing_separator_is_explained() {
    refuses(
        &["check", "node", "my server.js"],
        "touchstone check -- node 'my server.js'",
    );
    refuses(&["check"], "touchstone check -- node");
    refuses(&["fuzz"], "touchstone fuzz -- node");
}

#[test]
fn the_examples_in_the_help_name_rules_that_exist() {
    for args in [&["--help"][..], &["explain", "--help"]] {
        let (_folder, mut command) = touchstone(args);
        let output = command.assert().code(0).get_output().clone();
        let help = String::from_utf8(output.stdout).unwrap();
        let (_, rest) = help.rsplit_once("touchstone explain ").unwrap();
        let id = rest.split_whitespace().next().unwrap();
        touchstone(&["explain", id]).1.assert().code(0);
    }
}

#[test]
fn help_goes_to_stdout() {
    for args in [
        &["--help"][..],
        &["check", "--help"],
        &["list", "--help"],
        &["replay", "--help"],
        &["fuzz", "--help"],
    ] {
        let (_folder, mut command) = touchstone(args);
        command
            .assert()
            .code(0)
            .stdout(contains("Examples:"))
            .stderr(is_empty());
    }
}

#[test]
fn a_server_that_is_not_there_is_exit_code_3() {
    let (_folder, mut command) = touchstone(&["check", "--", "/no/such/server"]);
    command.assert().code(3).stdout(contains("could not go on"));
}

#[test]
fn a_document_has_stdout_to_itself() {
    let args = [
        "check",
        "--report",
        "json=-",
        "--report",
        "junit=x.xml",
        "--",
        "/no/such/server",
    ];
    let (folder, mut command) = touchstone(&args);
    let output = command
        .assert()
        .code(3)
        .stderr(contains("could not go on"))
        .get_output()
        .clone();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["summary"]["exitCode"], 3);
    assert_eq!(document["target"]["command"][0], "/no/such/server");
    let junit = fs::read_to_string(folder.path().join("x.xml")).unwrap();
    assert!(junit.starts_with("<?xml"), "{junit}");
}

#[test]
fn colours_come_when_forced_and_not_otherwise() {
    let coloured = |set: &[(&str, &str)]| {
        let (_folder, mut command) = touchstone(&["explain", "jsonrpc.version-member"]);
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        let output = command
            .envs(set.iter().copied())
            .assert()
            .code(0)
            .get_output()
            .clone();
        output.stdout.contains(&0x1b)
    };
    assert!(!coloured(&[]));
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

#[test]
fn a_rule_is_explained() {
    let (_folder, mut command) = touchstone(&["explain", "jsonrpc.version-member"]);
    command.assert().code(0).stdout(
        starts_with("jsonrpc.version-member\n")
            .and(contains("  mend  "))
            .and(contains("MUST")),
    );
}

#[test]
fn the_list_holds_what_was_asked_for() {
    let (_folder, mut command) = touchstone(&[
        "list",
        "ping",
        "--revision",
        "2025-06-18",
        "--format",
        "json",
    ]);
    let output = command.assert().code(0).get_output().clone();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!(row["area"], "ping");
        assert_eq!(row["coverage"].as_array().unwrap().len(), 1);
    }
    let (_folder, mut command) = touchstone(&["list", "--coverage"]);
    command
        .assert()
        .code(0)
        .stdout(contains("2026-07-28: ").and(contains("rules checked")));
}

#[cfg(unix)]
#[test]
fn a_reader_who_leaves_early_is_no_error() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .arg("list")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_kills_the_server_and_ends_with_130() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};

    let deadline = Instant::now() + Duration::from_secs(60);
    let wait_for = |what: &str, is_there: &mut dyn FnMut() -> bool| {
        while !is_there() {
            assert!(Instant::now() < deadline, "{what} did not happen");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("pid");
    // Silent, deaf to everything but KILL.
    let script = format!(
        "trap '' INT TERM HUP; echo $$ > '{0}.tmp'; mv '{0}.tmp' '{0}'; while :; do sleep 1; done",
        note.display()
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args([
            "check",
            "--startup-timeout",
            "600",
            "--",
            "sh",
            "-c",
            &script,
        ])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("the start of the server", &mut || note.exists());
    let server = fs::read_to_string(&note).unwrap().trim().to_owned();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut status = None;
    wait_for("the end of the suite", &mut || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(130));
    // Gone, or a zombie that nobody reaped yet.
    wait_for("the end of the server", &mut || {
        let stat = fs::read_to_string(format!("/proc/{server}/stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .is_none_or(|rest| rest.is_empty() || rest.trim_start().starts_with('Z'))
    });
}

/// A small, healthy server of the handshake era, in sed.
#[cfg(target_os = "linux")]
const SED: [&str; 9] = [
    "--",
    "sed",
    "-u",
    "-n",
    "-e",
    r#"/"method":"initialize"/{s/.*"id":\([0-9]*\).*/{"jsonrpc":"2.0","id":\1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sed","version":"4"}}}/p;d}"#,
    "-e",
    r#"/"method":"ping"/{s/.*"id":\([0-9]*\).*/{"jsonrpc":"2.0","id":\1,"result":{}}/p;d}"#,
    r#"-es/.*"id":\([0-9]*\).*/{"jsonrpc":"2.0","id":\1,"error":{"code":-32601,"message":"no such method"}}/p"#,
];

#[cfg(target_os = "linux")]
const TRANSCRIPT: &str = r#"# An unknown method is refused.
--> {"jsonrpc":"2.0","id":"$a","method":"nosuch"}
<-- {"jsonrpc":"2.0","id":"$a","error":{"code":-32000,"message":"<string>"}}
"#;

#[cfg(target_os = "linux")]
#[test]
fn a_transcript_fails_is_updated_and_passes() {
    let run = |folder: &std::path::Path, flags: &[&str]| {
        let mut command = Command::cargo_bin("touchstone").unwrap();
        command
            .current_dir(folder)
            .arg("replay")
            .args(flags)
            .arg("mine.txt")
            .args(SED);
        command.assert()
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.txt");
    fs::write(&file, TRANSCRIPT).unwrap();
    run(folder.path(), &[]).code(1).stdout(
        contains("FAIL mine")
            .and(contains("mine.txt:3: "))
            .and(contains("touchstone replay mine.txt")),
    );
    run(folder.path(), &["--update"])
        .code(0)
        .stdout(contains("mine.txt was updated"));
    let updated = fs::read_to_string(&file).unwrap();
    assert_eq!(updated, TRANSCRIPT.replace("-32000", "-32601"));
    run(folder.path(), &[]).code(0);
    fs::write(&file, "nonsense\n").unwrap();
    run(folder.path(), &[])
        .code(2)
        .stderr(contains("mine.txt:1:1: "));
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_is_judged_and_the_document_fits_its_schema() {
    let args = [
        "check",
        "--revision",
        "2025-11-25",
        "--only",
        "ping",
        "--report",
        "json=-",
    ];
    let (_folder, mut command) = touchstone(&args);
    let output = command.args(SED).assert().get_output().clone();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let schema = include_str!("../../docs/report.schema.json");
    let schema = serde_json::from_str(schema).unwrap();
    let faults: Vec<String> = jsonschema::validator_for(&schema)
        .unwrap()
        .iter_errors(&document)
        .map(|fault| fault.to_string())
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(document["target"]["serverInfo"]["name"], "sed");
    assert_eq!(
        document["summary"]["exitCode"],
        output.status.code().unwrap()
    );
    let verdicts = document["verdicts"].as_array().unwrap();
    assert!(
        verdicts.iter().any(|v| v["verdict"] == "pass"),
        "{verdicts:?}"
    );
    let is_asked_for =
        |v: &serde_json::Value| v["requirement"].as_str().unwrap().starts_with("ping.");
    assert!(verdicts.iter().all(is_asked_for), "{verdicts:?}");
}

/// It knows no ids but numbers, so a text as an id is never answered.
#[cfg(target_os = "linux")]
#[test]
fn fuzzing_finds_a_breach_and_saves_it_for_replay() {
    let args = [
        "fuzz",
        "--time",
        "2s",
        "--timeout",
        "1",
        "--seed",
        "7",
        "--save",
        "found",
        "--revision",
        "2025-11-25",
    ];
    let (folder, mut command) = touchstone(&args);
    command.args(SED).assert().code(1).stdout(
        contains("FAIL jsonrpc.response.")
            .and(contains("  seed      7"))
            .and(contains("touchstone fuzz --only jsonrpc.response."))
            .and(contains("--seed 7 --time 2s")),
    );
    let saved: Vec<String> = fs::read_dir(folder.path().join("found"))
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert!(
        saved
            .iter()
            .any(|text| text.contains("@check jsonrpc.response."))
    );
}

/// A server that speaks one revision is not blamed for the others, unless the user names them.
#[cfg(target_os = "linux")]
#[test]
fn a_revision_that_the_user_names_is_judged_as_claimed() {
    let judge = |more: &[&str]| {
        let mut args = vec!["check", "--cases", "1", "--report", "json=-"];
        args.extend(["--only", "lifecycle.version.*", "--only", "discover"]);
        args.extend(more);
        let (_folder, mut command) = touchstone(&args);
        let output = command.args(SED).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let verdicts = report["verdicts"].as_array().unwrap().iter();
        let failed = verdicts.filter(|v| v["verdict"] == "fail");
        let named = failed.map(|v| {
            let text = |name: &str| v[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}", text("requirement"), text("revision"))
        });
        named.collect::<Vec<_>>()
    };
    assert_eq!(judge(&[]), Vec::<String>::new());
    assert_eq!(
        judge(&["--revision", "2026-07-28"]),
        ["discover.implemented 2026-07-28"]
    );
    assert_eq!(
        judge(&["--revision", "2025-11-25", "--revision", "2025-06-18"]),
        ["lifecycle.version.echo-supported 2025-06-18"]
    );
}
