//! The suite on whole servers, and the reference server by itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Instant;

use serde_json::json;

use super::piped::Piped;
use super::table::show;
use super::{Options, installed, timed};
use crate::suite::{self, Subject};
use crate::timing::Samples;
use crate::workspace::{SERVER, program};

/// The public servers to compare with, one node and one python; see `fixtures/interop`.
const COMPARED: &[&str] = &["ts-memory", "py-time"];

/// A whole run of the suite on one server, round after round.
struct Judged {
    name: String,
    command: Vec<String>,
    env: BTreeMap<String, String>,
    seconds: Samples,
    processes: Samples,
}

/// Measures the suite and prints its table.
pub(super) fn run(options: &Options, folder: &Path) -> Result<(), String> {
    let reports = suite::reports(folder)?;
    let home = folder.join("home");
    fs::create_dir_all(&home)
        .map_err(|error| format!("cannot make {}: {error}", home.display()))?;

    let reference = program(SERVER);
    let mut judged = subjects(&reference)?;
    let mut first_reply = Samples::default();
    let mut per_second = Samples::default();
    for round in 1..=options.rounds {
        eprintln!("suite: round {round} of {}", options.rounds);
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
    print(&judged, &first_reply, &per_second);
    Ok(())
}

/// The reference server, and those public ones that `cargo xtask interop` has installed.
fn subjects(reference: &Path) -> Result<Vec<Judged>, String> {
    let mut subjects = vec![Judged::new(
        SERVER,
        vec![reference.display().to_string()],
        BTreeMap::new(),
    )];
    for name in COMPARED {
        if let Some(server) = installed(name)? {
            subjects.push(Judged::new(name, server.command, server.env));
        }
    }
    Ok(subjects)
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
    let (time, server) = timed(|| Piped::greeted(program, &[], &BTreeMap::new()))?;
    server.stop()?;
    Ok(time)
}

/// Pings answered a second, all of them written as fast as the pipe takes them.
fn measure_requests(program: &Path, requests: u32) -> Result<f64, String> {
    let mut server = Piped::greeted(program, &[], &BTreeMap::new())?;
    let lines: String = (1..=requests)
        .map(|id| {
            format!(
                "{}\n",
                json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
            )
        })
        .collect();
    let mut stdin = server.take_stdin()?;
    let start = Instant::now();
    // A thread of its own: with one thread both pipes would fill up and neither side go on.
    let writer = thread::spawn(move || stdin.write_all(lines.as_bytes()).map(|()| stdin));
    for _ in 0..requests {
        let line = server.read()?;
        if !line.contains("\"result\"") {
            return Err(format!("unexpected line: {}", line.trim_end()));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    match writer.join() {
        Ok(Ok(stdin)) => drop(stdin),
        _ => return Err("the server stopped reading its stdin".to_owned()),
    }
    server.stop()?;
    Ok(f64::from(requests) / seconds)
}

fn print(judged: &[Judged], first_reply: &Samples, per_second: &Samples) {
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
