//! A running server, for the tests that need a process.
#![allow(dead_code, unreachable_pub, missing_docs)] // Each test file uses its part.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longer than anything takes on a busy machine; a test that waits this long has failed.
pub const LONG: Duration = Duration::from_secs(60);

pub struct Running {
    pub child: Child,
    stdin: Option<ChildStdin>,
    pub lines: Receiver<String>,
}

impl Running {
    pub fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("touchstone-server"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8(line).unwrap()).is_err() {
                    break;
                }
            }
        });
        let stdin = child.stdin.take();
        Self {
            child,
            stdin,
            lines,
        }
    }

    /// After a handshake of the latest revision, by a client that can do nothing.
    pub fn session(arguments: &[&str]) -> Self {
        Self::session_of("2025-11-25", json!({}), arguments)
    }

    /// After the handshake of a client with these capabilities.
    pub fn session_of(version: &str, capabilities: Value, arguments: &[&str]) -> Self {
        let mut running = Self::start(arguments);
        running.send(
            &json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
                "protocolVersion": version, "capabilities": capabilities,
                "clientInfo": {"name": "test", "version": "0"}}})
            .to_string(),
        );
        let answer = running.message();
        assert_eq!(answer["result"]["protocolVersion"], version);
        running.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        running
    }

    pub fn send(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    pub fn request(&mut self, id: u32, method: &str, params: Value) {
        self.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
    }

    pub fn call(&mut self, id: u32, tool: &str, arguments: Value) {
        self.request(
            id,
            "tools/call",
            json!({"name": tool, "arguments": arguments}),
        );
    }

    pub fn message(&self) -> Value {
        let line = self.lines.recv_timeout(LONG).expect("a line in time");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Closes stdin; gives what was still said, the exit code and the time it took.
    pub fn end(mut self) -> (Vec<Value>, Option<i32>, Duration) {
        let start = Instant::now();
        drop(self.stdin.take());
        let rest = self
            .lines
            .iter()
            .map(|line| serde_json::from_str(&line).unwrap());
        let rest = rest.collect();
        let status = self.child.wait().unwrap();
        (rest, status.code(), start.elapsed())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
