//! The workspace tools on programs of two sizes, and a loop and recursion next to python3 and node.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::piped::Piped;
use super::table::{self, Row};
use super::{Options, repeated, timed};
use crate::timing::Samples;
use crate::workspace::{SERVER, program, root};

/// Lines of the programs that are checked.
const LINES: [u32; 2] = [1_000, 10_000];
/// Lines of one of their modules.
const MODULE: u32 = 200;
/// Lines of one function.
const FUNCTION: u32 = 5;

/// One program and what it took.
struct Checked {
    lines: u32,
    rows: [Row; 4],
}

/// Measures and prints.
pub(super) fn run(options: &Options, folder: &Path) -> Result<(), String> {
    let mut checked = Vec::new();
    for lines in LINES {
        write_program(lines, &folder.join(format!("workspace-{lines}")))?;
        checked.push(Checked {
            lines,
            rows: [
                Row::new("check, first time in a new process", "ms", 1),
                Row::new("check_patch of one line", "ms", 1),
                Row::new("apply_patch and check", "ms", 1),
                Row::new("memory of the process after it", "MiB", 1),
            ],
        });
    }
    let mut run = Executed::new();
    for round in 1..=options.rounds {
        eprintln!("workspace: round {round} of {}", options.rounds);
        for program in &mut checked {
            program.measure(&folder.join(format!("workspace-{}", program.lines)))?;
        }
        run.measure()?;
    }
    for program in checked {
        let title = format!("a program of {} lines", program.lines);
        table::print(&title, &[SERVER], &program.rows);
    }
    table::print(
        "one program, compiled and run in a process of its own",
        &["jit_execute", "python3", "node"],
        &run.rows,
    );
    Ok(())
}

/// Writes a program: modules, each of which uses the one before it.
fn write_program(lines: u32, folder: &Path) -> Result<(), String> {
    let write = || -> std::io::Result<()> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        for module in 0..lines / MODULE {
            fs::write(folder.join(format!("m{module}.sakura")), source(module))?;
        }
        Ok(())
    };
    write().map_err(|error| format!("cannot write {}: {error}", folder.display()))
}

fn source(module: u32) -> String {
    let functions = MODULE / FUNCTION;
    let mut text = String::new();
    let before = module.checked_sub(1).map(|before| format!("m{before}_f0"));
    if let (Some(before), Some(name)) = (module.checked_sub(1), &before) {
        text.push_str(&format!("import m{before}.{{{name}}}\n\n"));
    }
    for function in 0..functions {
        let called = match function {
            0 => before.clone().unwrap_or_else(|| "Int.abs".to_owned()),
            _ => format!("m{module}_f{}", function - 1),
        };
        text.push_str(&format!(
            "fn m{module}_f{function}(n: Int) -> Int {{\n  let a = n + {function}\n  if a > 10 {{ {called}(a - 10) }} else {{ a * 2 }}\n}}\n\n"
        ));
    }
    text
}

impl Checked {
    fn measure(&mut self, folder: &Path) -> Result<(), String> {
        let arguments = ["--tools", "workspace", "--workspace"].map(str::to_owned);
        let mut arguments = arguments.to_vec();
        arguments.push(folder.display().to_string());
        let mut server = Piped::greeted(&program(SERVER), &arguments, &BTreeMap::new())?;
        let info = server.call("compiler_info", &json!({}))?;
        let mut snapshot = text(&info, "snapshot")?;
        self.rows[0].push(0, server.timed("check", &json!({"snapshot": snapshot}))?);
        let path = format!("m{}.sakura", self.lines / MODULE / 2);
        let original = fs::read_to_string(folder.join(&path))
            .map_err(|error| format!("cannot read {path}: {error}"))?;
        let mut tried = Samples::default();
        let applied = repeated(|i| {
            let changed = original.replacen("a * 2", &format!("a * {}", i + 3), 1);
            let edits = json!({"snapshot": snapshot, "edits": [{"path": path, "text": changed}]});
            let (time, patch) = timed(|| server.call("check_patch", &edits))?;
            tried.push(time);
            let patch = text(&patch, "patch_id")?;
            let apply_and_check = timed(|| {
                let apply = json!({"snapshot": snapshot, "patch_id": patch});
                snapshot = text(&server.call("apply_patch", &apply)?, "snapshot")?;
                server
                    .call("check", &json!({"snapshot": snapshot}))
                    .map(drop)
            });
            apply_and_check.map(|(time, ())| time)
        })?;
        if let Some(tried) = tried.median() {
            self.rows[1].push(0, tried);
        }
        self.rows[2].push(0, applied);
        if let Some(memory) = server.peak_memory() {
            self.rows[3].push(0, memory);
        }
        server.stop()
    }
}

/// A text in a tool's structured result.
fn text(result: &Value, member: &str) -> Result<String, String> {
    let found = result["structuredContent"][member].as_str();
    found
        .map(str::to_owned)
        .ok_or_else(|| format!("no `{member}` in {result}"))
}

/// The same work in three languages: `fixtures/bench/{loop,recursion}.*`.
struct Executed {
    rows: Vec<Row>,
}

const WORK: [(&str, &str); 2] = [
    (
        "loop",
        "a loop: sum of squares modulo a prime, 2,000,000 times",
    ),
    ("recursion", "recursion: the 27th Fibonacci number"),
];

impl Executed {
    fn new() -> Executed {
        let rows = WORK.iter().map(|(_, what)| Row::new(*what, "ms", 3));
        Executed {
            rows: rows.collect(),
        }
    }

    fn measure(&mut self) -> Result<(), String> {
        let fixtures = root().join("fixtures/bench");
        let arguments = ["--tools", "toolchain", "--no-cache"].map(str::to_owned);
        let mut server = Piped::greeted(&program(SERVER), &arguments, &BTreeMap::new())?;
        for ((name, _), row) in WORK.iter().zip(&mut self.rows) {
            let file = format!("{name}.sakura");
            let source = fs::read_to_string(fixtures.join(&file))
                .map_err(|error| format!("cannot read {file}: {error}"))?;
            let call = json!({"files": {&file: source}, "entry": format!("{name}.main")});
            let (time, result) = timed(|| server.call("jit_execute", &call))?;
            row.push(0, time);
            if result["structuredContent"]["exitStatus"] != 0 {
                return Err(format!("{file}: {result}"));
            }
            for (at, interpreter, extension) in [(1, "python3", "py"), (2, "node", "cjs")] {
                let script = fixtures.join(format!("{name}.{extension}"));
                if let Some(time) = interpreted(interpreter, &script)? {
                    row.push(at, time);
                }
            }
        }
        server.stop()
    }
}

/// Milliseconds of a script; `None` when there is no such interpreter.
fn interpreted(interpreter: &str, script: &Path) -> Result<Option<f64>, String> {
    let (time, found) = timed(|| {
        let mut command = Command::new(interpreter);
        match command.arg(script).stdout(Stdio::null()).status() {
            Ok(status) if status.success() => Ok(true),
            Ok(status) => Err(format!("{}: {status}", script.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(format!("cannot start {interpreter}: {error}")),
        }
    })?;
    Ok(found.then_some(time))
}
