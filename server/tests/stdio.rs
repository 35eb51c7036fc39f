//! The binary over real pipes: what only a process can show.
#![allow(clippy::unwrap_used)] // A test may.

mod common;

use std::io::{Cursor, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::{LONG, Running};
use serde_json::{Value, json};
use touchstone_server::demo::Demo;
use touchstone_server::protocol::{Options, Server};
use touchstone_server::stdio::{End, Limits, Loop};

#[test]
fn nothing_is_said_unasked_and_the_end_of_input_ends_the_process() {
    let running = Running::start(&["--tools", "demo"]);
    assert!(
        running
            .lines
            .recv_timeout(Duration::from_millis(200))
            .is_err()
    );
    let (rest, code, _) = running.end();
    assert_eq!((rest, code), (Vec::new(), Some(0)));
}

#[test]
fn a_ping_is_answered_during_a_slow_call() {
    let mut running = Running::session(&["--tools", "demo"]);
    running.call(1, "slow", json!({"ms": 60_000}));
    running.request(2, "ping", json!({}));
    assert_eq!(running.message()["id"], 2);
    let (rest, code, _) = running.end();
    assert!(
        rest.is_empty(),
        "the call was stopped, not answered: {rest:?}"
    );
    assert_eq!(code, Some(0));
}

#[test]
fn a_cancelled_call_stops_and_is_not_answered() {
    let mut running = Running::session(&["--tools", "demo"]);
    running.call(1, "slow", json!({"ms": 60_000}));
    running
        .send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    let steps = |running: &mut Running, id: u32| {
        running.request(id, "resources/read", json!({"uri": "demo://steps"}));
        let answer = running.message();
        assert_eq!(answer["id"], id);
        answer["result"]["contents"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    // The steps stand still once the tool has seen the cancellation.
    let until = Instant::now() + LONG;
    let mut id = 2;
    loop {
        let before = steps(&mut running, id);
        thread::sleep(Duration::from_millis(100));
        let after = steps(&mut running, id + 1);
        if before == after {
            break;
        }
        assert!(Instant::now() < until, "the tool goes on");
        id += 2;
    }
    let (rest, ..) = running.end();
    assert!(rest.is_empty(), "{rest:?}");
}

#[test]
fn quick_work_in_flight_at_the_end_of_input_is_finished() {
    // In this process, with more grace than a busy machine needs.
    let options = Options {
        name: "test",
        title: "Test",
        version: "0",
        page_size: None,
        secret: [0; 32],
    };
    let limits = Limits {
        max_line: 1 << 20,
        client_timeout: LONG,
        grace: LONG,
    };
    let call = |id: u32| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "add", "arguments": {"a": id, "b": 1}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}}}})
    };
    let input: String = (1..=20).map(|id| format!("{}\n", call(id))).collect();
    let mut output = Vec::new();
    let server = Server::new(options, vec![Arc::new(Demo::default())]);
    let end = Loop::new(server, limits).run(Cursor::new(input), &mut output);
    assert_eq!(end, End::Input);
    let lines = output
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let ids = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()["id"].as_u64());
    let mut ids = ids.collect::<Vec<_>>();
    ids.sort_unstable();
    assert_eq!(ids, (1..=20).map(Some).collect::<Vec<_>>());
}

#[test]
fn a_line_without_a_line_break_at_the_end_is_served() {
    let mut running = Running::start(&[]);
    running.send_bytes(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let (rest, ..) = running.end();
    assert_eq!(rest, [json!({"jsonrpc": "2.0", "id": 1, "result": {}})]);
}

#[test]
fn progress_is_told_before_the_answer() {
    let mut running = Running::session(&["--tools", "demo"]);
    let params = json!({"name": "progress", "arguments": {"steps": 3},
        "_meta": {"progressToken": "p"}});
    running.request(1, "tools/call", params);
    for step in 1..=3 {
        let message = running.message();
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(message["params"]["progress"], step);
        assert_eq!(message["params"]["progressToken"], "p");
    }
    assert_eq!(running.message()["id"], 1);
}

#[test]
fn a_line_over_the_bound_is_refused_and_the_next_is_served() {
    let mut running = Running::start(&["--max-line", "64K"]);
    let mut long = vec![b'x'; 4 << 20];
    long.push(b'\n');
    running.send_bytes(&long);
    let refused = running.message();
    assert_eq!(refused["error"]["code"], -32600);
    assert_eq!(refused["id"], Value::Null);
    running.request(1, "ping", json!({}));
    assert_eq!(running.message()["result"], json!({}));
}

#[test]
fn requests_of_a_megabyte_are_read_in_one_piece_or_many() {
    let mut running = Running::session(&["--tools", "demo"]);
    let params = json!({"_meta": {"com.example/pad": "x".repeat(1 << 20)}});
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": params}).to_string();
    running.send(&line);
    assert_eq!(running.message()["result"], json!({}));
    for byte in br#"{"jsonrpc":"2.0","id":2,"method":"ping"}"# {
        running.send_bytes(&[*byte]);
    }
    running.send_bytes(b"\r\n");
    assert_eq!(running.message()["id"], 2);
}

#[test]
fn whatever_comes_in_only_messages_go_out() {
    let mut running = Running::start(&["--tools", "demo"]);
    let deep = format!("{}\n", "[".repeat(100_000));
    for bytes in [
        b"\n\r\n  \n".as_slice(),
        b"\xef\xbb\xbf{}\n",
        b"\xff\xfe\x00\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\n",
        deep.as_bytes(),
        b"null\n1\n\"x\"\n[]\n{}\n",
    ] {
        running.send_bytes(bytes);
    }
    running.request(7, "ping", json!({}));
    loop {
        let message = running.message();
        assert_eq!(message["jsonrpc"], "2.0");
        if message["id"] == 7 {
            break;
        }
        assert!(message["error"]["code"].is_i64(), "{message}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_server_quietly() {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("touchstone-server"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    // The server may be gone before all of it is written.
    let _ = stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    let status = child.wait().unwrap();
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    drop(stdin);
}

#[cfg(unix)]
#[test]
fn a_signal_stops_the_work_and_the_process() {
    let mut running = Running::session(&["--tools", "demo"]);
    running.call(1, "slow", json!({"ms": 60_000}));
    running.request(2, "ping", json!({}));
    assert_eq!(running.message()["id"], 2);
    let killed = Command::new("kill")
        .args(["-TERM", &running.child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    let status = running.child.wait().unwrap();
    assert_eq!(status.code(), Some(128 + 15));
    assert!(
        running.lines.recv_timeout(LONG).is_err(),
        "nothing more is said"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_does_not_outlive_a_server_that_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    let source = format!(
        "pub fn run() -> i32 {{\n    let file = std::fs::File::create({lock:?}).unwrap();\n    file.lock().unwrap();\n    std::thread::sleep(std::time::Duration::from_secs(600));\n    0\n}}\n"
    );
    let held = || std::fs::File::open(&lock).is_ok_and(|file| file.try_lock().is_err());
    let mut running = Running::session(&["--tools", "toolchain", "--no-cache"]);
    running.send(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "jit_execute",
            "arguments": {"files": {"demo/main.rs": source}, "entry": "demo.main.run"}}})
        .to_string(),
    );
    await_that("the program runs", held);
    running.child.kill().unwrap();
    await_that("the program is gone", || !held());
}

fn await_that(what: &str, condition: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LONG, "never: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_client_that_does_not_read_cannot_keep_the_server_alive() {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("touchstone-server"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        // Far more answers than the pipe and all buffers hold.
        let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\"}\n";
        let lines = line.repeat(1000);
        for _ in 0..3 {
            let _ = stdin.write_all(&lines);
        }
    });
    writer.join().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_bad_command_line_is_told_in_one_line_with_exit_code_2() {
    for arguments in [
        ["--no-such-flag", ""].as_slice(),
        &["--max-line", "ten"],
        &["--max-line", "-5"],
        &["--page-size", "0"],
        &["--tools", "demo,nothing"],
        &["--client-timeout", "never"],
    ] {
        let output = Command::new(assert_cmd::cargo::cargo_bin!("touchstone-server"))
            .args(arguments)
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("touchstone-server: "), "{stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn help_and_version_are_printed() {
    for (flag, text) in [
        ("--help", "--max-line"),
        ("--version", "touchstone-server 0"),
    ] {
        let output = Command::new(assert_cmd::cargo::cargo_bin!("touchstone-server"))
            .arg(flag)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8(output.stdout).unwrap().contains(text));
    }
}

#[test]
fn a_name_that_is_no_family_is_a_function_to_export() {
    let folder = tempfile::tempdir().unwrap();
    let text = "@tool(\"Doubles\")\nfn twice(n: Int where value >= 0) -> Int {\n  n * 2\n}\n";
    std::fs::write(folder.path().join("main.sakura"), text).unwrap();
    let flags = [
        "--tools",
        "demo,twice",
        "--workspace",
        folder.path().to_str().unwrap(),
    ];
    // Also before 2025-11-25 what does not fit is told in the result: the contract says so.
    let mut running = Running::session_of("2024-11-05", json!({}), &flags);
    running.call(1, "twice", json!({"n": 4}));
    assert_eq!(
        running.message()["result"]["content"][0]["text"],
        r#"{"result":8}"#
    );
    running.call(2, "twice", json!({"n": -4}));
    let refused = running.message()["result"].clone();
    assert_eq!(refused["isError"], true, "{refused}");
    running.call(3, "slow", json!({"ms": 0}));
    assert!(
        running.message()["result"].is_object(),
        "the family is there too"
    );
    running.end();
}

#[test]
fn a_name_that_is_neither_family_nor_function_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    for (flags, said) in [
        (vec!["--tools", "nosuch"], "no family \"nosuch\""),
        (
            vec!["--tools", "nosuch", "--workspace", folder],
            "no function `nosuch`",
        ),
    ] {
        let ended = Command::new(assert_cmd::cargo::cargo_bin!("touchstone-server"))
            .args(&flags)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(2));
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(stderr.contains(said), "{stderr}");
    }
}
