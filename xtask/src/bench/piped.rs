//! A server on two pipes, as a client has it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::timed;

/// A server on two pipes.
pub(super) struct Piped {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    line: String,
    next: u64,
}

impl Piped {
    /// Starts a server and greets it.
    pub(super) fn greeted(
        program: &Path,
        arguments: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<Piped, String> {
        let mut server = Piped::start(program, arguments, env)?;
        server.request(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            }),
        )?;
        server
            .write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())?;
        Ok(server)
    }

    fn start(
        program: &Path,
        arguments: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<Piped, String> {
        let mut child = Command::new(program)
            .args(arguments)
            .envs(env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let stdout = child.stdout.take().ok_or("the server has no stdout")?;
        Ok(Piped {
            stdin: child.stdin.take(),
            child,
            stdout: BufReader::new(stdout),
            line: String::new(),
            next: 0,
        })
    }

    /// Sends a request and gives its result; what comes before the answer is passed over.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.next += 1;
        let id = self.next;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(&request.to_string())?;
        loop {
            let line = self.read()?;
            let mut answer: Value = serde_json::from_str(line)
                .map_err(|error| format!("`{}` is no message: {error}", line.trim_end()))?;
            if answer["id"] == id {
                return match answer.get("error") {
                    Some(error) => Err(format!("{method}: {error}")),
                    None => Ok(answer["result"].take()),
                };
            }
        }
    }

    /// Calls a tool and gives its result.
    ///
    /// # Errors
    /// Also when the tool reports a failure: what is measured must have been done.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        let params = json!({"name": tool, "arguments": arguments});
        let result = self.request("tools/call", &params)?;
        match result["isError"] == true {
            true => Err(format!("{tool}: {}", result["content"][0]["text"])),
            false => Ok(result),
        }
    }

    /// Calls a tool and gives the milliseconds until its answer.
    pub(super) fn timed(&mut self, tool: &str, arguments: &Value) -> Result<f64, String> {
        timed(|| self.call(tool, arguments)).map(|(time, _)| time)
    }

    /// The most memory that the server took so far, in MiB, where the system tells.
    pub(super) fn peak_memory(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib / 1024.0)
    }

    /// The end of the pipe to write to; what is written from then on is not the caller's.
    pub(super) fn take_stdin(&mut self) -> Result<ChildStdin, String> {
        self.stdin.take().ok_or("stdin is closed".to_owned())
    }

    fn write(&mut self, line: &str) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("stdin is closed")?;
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|error| format!("cannot write to the server: {error}"))
    }

    /// The next line.
    pub(super) fn read(&mut self) -> Result<&str, String> {
        self.line.clear();
        match self.stdout.read_line(&mut self.line) {
            Ok(0) => Err("the server ended before it had answered".to_owned()),
            Ok(_) => Ok(&self.line),
            Err(error) => Err(format!("cannot read from the server: {error}")),
        }
    }

    /// Ends the input and waits for the server to exit.
    pub(super) fn stop(mut self) -> Result<(), String> {
        drop(self.stdin.take());
        self.child
            .wait()
            .map(drop)
            .map_err(|error| format!("the server cannot be waited for: {error}"))
    }
}

impl Drop for Piped {
    /// After an error nothing may be left running.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
