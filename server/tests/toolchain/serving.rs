//! The tools in the server itself: its flags, its streams, its end.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::bench::{Bench, ENTRY, await_that, is_held, script_tree, scripted};

/// A server in its own process, after the handshake.
struct Serving {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// The result of `initialize`.
    greeting: Value,
}

fn command(bench: &Bench) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_touchstone-server"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CAJETA_") {
            command.env_remove(name);
        }
    }
    command
        .env("CAJETA_BIN", scripted())
        .env("TMPDIR", &bench.settings.temp);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Serving {
    fn start(bench: &Bench, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = command(bench);
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut serving = Self {
            child,
            stdin,
            stdout,
            greeting: Value::Null,
        };
        serving.send(
            &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "test", "version": "0"},
            }}),
        );
        serving.greeting = serving.receive()["result"].clone();
        serving.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        serving
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn call(&mut self, id: u32, tool: &str, arguments: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                          "params": {"name": tool, "arguments": arguments}}));
    }

    /// Every line is JSON: nothing of a child is on stdout.
    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn run(&mut self, script: &str) -> Value {
        self.call(
            1,
            "jit_execute",
            &json!({"files": script_tree(script), "entry": ENTRY}),
        );
        self.receive()["result"]["structuredContent"].clone()
    }

    /// Starts a program that holds a lock and never ends.
    fn hang(&mut self, lock: &Path) {
        let script = format!("lock {}\nhang", lock.display());
        self.call(
            2,
            "jit_execute",
            &json!({"files": script_tree(&script), "entry": ENTRY}),
        );
        await_that("the program runs", || is_held(lock));
    }

    /// Closes stdin and gives what the server wrote to stderr.
    fn end(mut self) -> String {
        drop(self.stdin.take());
        let output = self.child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn flag_beats_variable_beats_file_beats_default_in_what_initialize_echoes() {
    let bench = Bench::new();
    let file = bench.path("config.json");
    fs::write(
        &file,
        r#"{"cache": {"ttl": 1, "maxBytes": 2, "maxEntries": 3}}"#,
    )
    .unwrap();
    let serving = Serving::start(&bench, |command| {
        command
            .arg("--config")
            .arg(&file)
            .args(["--cache-ttl", "21", "--no-cache"]);
        command
            .env("CAJETA_MCP_CACHE_TTL", "11")
            .env("CAJETA_MCP_CACHE_MAX_BYTES", "12");
    });
    assert_eq!(
        serving.greeting["cacheConfig"],
        json!({"enabled": false, "dir": "/tmp/cajeta-mcp-cache", "ttl": 21, "maxBytes": 12,
               "maxEntries": 3})
    );
    assert_eq!(serving.end(), "");
}

#[test]
fn a_setting_that_cannot_be_used_is_one_line_and_exit_code_2() {
    let bench = Bench::new();
    let file = bench.path("config.json");
    fs::write(&file, r#"{"cache": {"tll": 1}}"#).unwrap();
    let config = format!("--config={}", file.display());
    let none = ("X", "");
    for (arguments, (name, value), told) in [
        ("--cache-ttl=-1", none, "--cache-ttl"),
        ("--cache-max-bytes=many", none, "--cache-max-bytes"),
        ("--cache=perhaps", none, "--cache"),
        ("--exec-timeout=0", none, "--exec-timeout"),
        ("--no-such-flag", none, "--no-such-flag"),
        (config.as_str(), none, "tll"),
        (
            "--no-cache",
            ("CAJETA_MCP_CACHE_TTL", "-5"),
            "CAJETA_MCP_CACHE_TTL",
        ),
    ] {
        let output: Output = command(&bench)
            .arg(arguments)
            .env(name, value)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(output.stdout.is_empty());
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.contains(told), "{line}");
    }
}

#[test]
fn results_and_errors_travel_as_mcp_and_json_rpc_say() {
    let bench = Bench::new();
    let cache = bench.settings.cache.dir.clone();
    let mut serving = Serving::start(&bench, |command| {
        command.arg("--cache-dir").arg(&cache);
    });
    let result = serving.run("print {\"jsonrpc\":\"2.0\"}\neprint noise\nexit 7");
    assert_eq!(
        (&result["returnValue"], &result["cacheHit"]),
        (&json!(7), &json!(false))
    );
    assert_eq!(result["stdout"], "{\"jsonrpc\":\"2.0\"}\n");
    for (tool, arguments) in [
        ("searchSkills", json!({})),
        ("searchSkills", json!({"name": 1})),
        ("getSkills", json!({"uris": "a"})),
        ("compile", json!({"files": {}, "entry": ENTRY})),
        ("compile", json!({"files": {"../a": ""}, "entry": ENTRY})),
        ("jit_execute", json!({"files": {"a": ""}})),
    ] {
        serving.call(3, tool, &arguments);
        assert_eq!(
            serving.receive()["error"]["code"],
            -32602,
            "{tool} {arguments}"
        );
    }
    assert_eq!(serving.end(), "");
    let mut next = Serving::start(&bench, |command| {
        command.arg("--cache-dir").arg(&cache);
    });
    let again = next.run("print {\"jsonrpc\":\"2.0\"}\neprint noise\nexit 7");
    assert_eq!(again["cacheHit"], true, "after a restart");
    assert_eq!(bench.left_behind().len(), 0);
    next.end();
}

#[test]
fn a_compiler_that_is_not_there_is_32603() {
    let bench = Bench::new();
    let mut serving = Serving::start(&bench, |command| {
        command.arg("--cajeta=/no/such/cajeta");
    });
    serving.call(1, "listSkills", &json!({}));
    assert_eq!(serving.receive()["error"]["code"], -32603);
    serving.call(
        2,
        "compile",
        &json!({"files": script_tree(""), "entry": ENTRY}),
    );
    assert_eq!(serving.receive()["error"]["code"], -32603);
    serving.end();
}

#[test]
fn a_cache_folder_that_cannot_be_written_is_a_warning() {
    let bench = Bench::new();
    fs::write(bench.path("file"), "").unwrap();
    let mut serving = Serving::start(&bench, |command| {
        command.arg("--cache-dir").arg(bench.path("file/cache"));
    });
    for _ in 0..2 {
        assert_eq!(serving.run("exit 7")["cacheHit"], false);
    }
    let warning = serving.end();
    assert_eq!(warning.lines().count(), 1, "{warning}");
    assert!(
        warning.contains("the cache is off") && warning.contains("file/cache"),
        "{warning}"
    );
}

#[test]
fn a_cancelled_call_is_not_answered_and_its_program_is_gone() {
    let bench = Bench::new();
    let lock = bench.path("lock");
    let mut serving = Serving::start(&bench, |command| {
        command.arg("--no-cache");
    });
    serving.hang(&lock);
    serving.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                         "params": {"requestId": 2}}),
    );
    await_that("the program is gone", || !is_held(&lock));
    serving.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
    assert_eq!(
        serving.receive(),
        json!({"jsonrpc": "2.0", "id": 9, "result": {}})
    );
    serving.end();
    assert_eq!(bench.left_behind().len(), 0);
}

#[test]
fn at_the_end_of_stdin_nothing_is_left() {
    let bench = Bench::new();
    let lock = bench.path("lock");
    let mut serving = Serving::start(&bench, |command| {
        command.arg("--no-cache");
    });
    serving.hang(&lock);
    serving.end();
    await_that("the program is gone", || !is_held(&lock));
    assert_eq!(bench.left_behind().len(), 0);
}

#[test]
fn on_term_nothing_is_left() {
    let bench = Bench::new();
    let lock = bench.path("lock");
    let mut serving = Serving::start(&bench, |command| {
        command.arg("--no-cache");
    });
    serving.hang(&lock);
    kill_process(Pid::from_child(&serving.child), Signal::TERM).unwrap();
    assert!(!serving.child.wait().unwrap().success());
    await_that("the program is gone", || !is_held(&lock));
    assert_eq!(bench.left_behind().len(), 0);
}
