//! `cargo xtask bench`: how quick the suite and the reference server are, side by side.
//!
//! All subjects take turns in each round, so that a busy machine slows them all alike and the
//! ratios stay honest. Numbers are printed and never asserted.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use clap::Args;

use crate::interop::{Server, set};
use crate::suite::{self, Subject};
use crate::timing::{Samples, Shown};
use crate::workspace::{self, SERVER, SUITE};

/// What `cargo xtask bench` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Rounds; in each of them everything is measured once
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Small requests to send down one pipe
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
}

/// The public servers to compare with, one node and one python; see `fixtures/interop`.
const COMPARED: &[&str] = &["ts-memory", "py-time"];

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A whole run of the suite on one server, round after round.
struct Judged {
    name: String,
    command: Vec<String>,
    env: BTreeMap<String, String>,
    seconds: Samples,
    processes: Samples,
}

/// Measures everything and prints a table.
pub(crate) fn run(options: &Options) -> Result<u8, String> {
    workspace::build_release(&[SUITE, SERVER])?;
    let folder = workspace::target().join("bench");
    let reports = suite::reports(&folder)?;
    let home = folder.join("home");
    fs::create_dir_all(&home)
        .map_err(|error| format!("cannot make {}: {error}", home.display()))?;

    let reference = workspace::program(SERVER);
    let mut judged = subjects(&reference)?;
    let mut first_reply = Samples::default();
    let mut per_second = Samples::default();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for subject in &mut judged {
            let run = suite::check(
                &Subject {
                    command: &subject.command,
                    env: &subject.env,
                    cwd: None,
                    home: &home,
                },
                &reports.join(format!("{}.json", subject.name)),
            )?;
            subject.seconds.push(run.wall.as_secs_f64());
            subject.processes.push(run.report.summary.processes as f64);
        }
        first_reply.push(measure_first_reply(&reference)?);
        per_second.push(measure_requests(&reference, options.requests)?);
    }
    print(&judged, &first_reply, &per_second, options);
    Ok(0)
}

/// The reference server, and those public ones that `cargo xtask interop` has installed.
fn subjects(reference: &Path) -> Result<Vec<Judged>, String> {
    let mut subjects = vec![Judged::new(
        SERVER,
        vec![reference.display().to_string()],
        BTreeMap::new(),
    )];
    let servers = set::pinned()?;
    for name in COMPARED {
        match servers.iter().find(|server| server.name == *name) {
            Some(server) if installed(server) => subjects.push(Judged::new(
                name,
                server.command.clone(),
                server.env.clone(),
            )),
            _ => println!("{name}: skipped, not installed (cargo xtask interop --only {name})"),
        }
    }
    Ok(subjects)
}

fn installed(server: &Server) -> bool {
    server
        .command
        .first()
        .is_some_and(|program| Path::new(program).exists())
}

impl Judged {
    fn new(name: &str, command: Vec<String>, env: BTreeMap<String, String>) -> Judged {
        Judged {
            name: name.to_owned(),
            command,
            env,
            seconds: Samples::default(),
            processes: Samples::default(),
        }
    }
}

/// Milliseconds from the start of the process to its answer to `initialize`.
fn measure_first_reply(program: &Path) -> Result<f64, String> {
    let start = Instant::now();
    let mut server = Piped::start(program)?;
    server.send(INITIALIZE)?;
    server.reply()?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    server.stop()?;
    Ok(milliseconds)
}

/// Pings answered a second, all of them written as fast as the pipe takes them.
fn measure_requests(program: &Path, requests: u32) -> Result<f64, String> {
    let mut server = Piped::start(program)?;
    server.send(INITIALIZE)?;
    server.reply()?;
    server.send(INITIALIZED)?;
    let lines: String = (1..=requests)
        .map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n"))
        .collect();

    let start = Instant::now();
    let mut stdin = server.child.stdin.take().ok_or("the server has no stdin")?;
    // A thread of its own: with one thread both pipes would fill up and neither side go on.
    let writer = thread::spawn(move || stdin.write_all(lines.as_bytes()).map(|()| stdin));
    for _ in 0..requests {
        server.reply()?;
    }
    let seconds = start.elapsed().as_secs_f64();
    match writer.join() {
        Ok(Ok(stdin)) => drop(stdin),
        _ => return Err("the server stopped reading its stdin".to_owned()),
    }
    server.stop()?;
    Ok(f64::from(requests) / seconds)
}

/// A server on two pipes.
struct Piped {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    line: String,
}

impl Piped {
    fn start(program: &Path) -> Result<Piped, String> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let stdout = child.stdout.take().ok_or("the server has no stdout")?;
        Ok(Piped {
            child,
            stdout: BufReader::new(stdout),
            line: String::new(),
        })
    }

    fn send(&mut self, line: &str) -> Result<(), String> {
        let stdin = self.child.stdin.as_mut().ok_or("stdin is closed")?;
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|error| format!("cannot write to the server: {error}"))
    }

    fn reply(&mut self) -> Result<(), String> {
        self.line.clear();
        match self.stdout.read_line(&mut self.line) {
            Ok(0) => Err("the server ended before it had answered".to_owned()),
            Ok(_) if self.line.contains("\"result\"") => Ok(()),
            Ok(_) => Err(format!("unexpected line: {}", self.line.trim_end())),
            Err(error) => Err(format!("cannot read from the server: {error}")),
        }
    }

    fn stop(mut self) -> Result<(), String> {
        drop(self.child.stdin.take());
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

fn print(judged: &[Judged], first_reply: &Samples, per_second: &Samples, options: &Options) {
    println!(
        "median (least to most) of {} alternating rounds",
        options.rounds
    );
    let base = judged.first().and_then(|first| first.seconds.median());
    for subject in judged {
        let ratio = match (subject.seconds.median(), base) {
            (Some(seconds), Some(base)) => format!("{:.1} x", seconds / base),
            _ => "-".to_owned(),
        };
        println!(
            "touchstone check, {:<18} {:<26} {:>7}  {}",
            subject.name,
            show(&subject.seconds, "s", 2),
            ratio,
            show(&subject.processes, "processes", 0),
        );
    }
    println!(
        "{SERVER}: start to first reply   {}",
        show(first_reply, "ms", 1)
    );
    println!(
        "{SERVER}: pings over one pipe    {}",
        show(per_second, "a second", 0)
    );
}

fn show(samples: &Samples, unit: &str, digits: usize) -> String {
    Shown {
        samples,
        unit,
        digits,
    }
    .to_string()
}
