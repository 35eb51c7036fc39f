//! The compiler's command line for trees of `.sakura` files, so that `compile` and `jit_execute`
//! work with nothing installed: `touchstone-server toolchain --emit=cja demo.main.run SRC OUT`.
//!
//! The entry `demo.main.run` is the function `run` of `demo/main.sakura`. It takes no parameters
//! and gives Int, which becomes the exit code, or Unit. It may print, and look at the clock and
//! at random numbers; the network is denied.
//!
//! The archive `<SimpleClass>.cja` is one JSON object with the members `format` (`sakura-cja/1`),
//! `language`, `entry`, `snapshot`, `sources` (path to text), `interface` (the symbols, as
//! `symbol_query` shows them) and `code` (for each function that the entry reaches its name and
//! its operations in words). The same sources and entry give the same bytes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use touchstone_language::analysis::Analyzer;
use touchstone_language::compile::{Entry, Program, compile};
use touchstone_language::env::Env;
use touchstone_language::host::{Host, Refusal};
use touchstone_language::machine::{Budget, Machine};
use touchstone_language::names::full;
use touchstone_language::query;
use touchstone_language::snapshot::Snapshot;
use touchstone_language::types::{Label, Sym};
use touchstone_language::value::Value as Sakura;

use super::exported::{milliseconds, random_bits};
use super::folder;

/// The first argument of the server that makes it this toolchain.
pub const SUBCOMMAND: &str = "toolchain";

/// A part of the toolchain's identity: raise it when the same sources give another result.
pub const REVISION: &str = "touchstone sakura 1";

const USAGE: &str = "usage: toolchain COMMAND
  --emit=cja <pkg.module.function> <srcRoot> <outDir>   compile to <outDir>/<module>.cja
  jit-run <srcRoot> <pkg.module.function>               run, exit with what it returned
  search-skill <name> --json | list-skills --json | get-skills <uri,uri,...> --json";

const USAGE_CODE: u8 = 2;
const FAILED_CODE: u8 = 1;
/// The tools around a run bound its time; these bounds only keep the machine alive.
const BUDGET: Budget = Budget {
    steps: 1_000_000_000_000,
    memory: 1 << 30,
};

/// Runs the toolchain with the arguments that follow [`SUBCOMMAND`].
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let words: Vec<&OsStr> = args.iter().map(OsString::as_os_str).collect();
    let done = match words.as_slice() {
        [emit, entry, src, out] if *emit == "--emit=cja" => {
            emit_cja(entry, Path::new(src), Path::new(out))
        }
        [command, src, entry] if *command == "jit-run" => jit_run(Path::new(src), entry),
        [command, name, flag] if *command == "search-skill" && *flag == "--json" => {
            print(&search(&name.to_string_lossy()))
        }
        [command, flag] if *command == "list-skills" && *flag == "--json" => print(&search("")),
        [command, uris, flag] if *command == "get-skills" && *flag == "--json" => {
            print(&get(&uris.to_string_lossy()))
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(USAGE_CODE);
        }
    };
    done.unwrap_or_else(|message| {
        eprintln!("{message}");
        ExitCode::from(FAILED_CODE)
    })
}

fn print(json: &Value) -> Result<ExitCode, String> {
    writeln!(io::stdout(), "{json}").map_err(|error| format!("error: cannot write: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// A tree that checks, and its entry.
struct Loaded {
    snapshot: Snapshot,
    env: Env,
    sym: Sym,
    module: String,
}

/// Loads and checks a tree. Errors: the diagnostics, one a line.
fn load(src: &Path, entry: &OsStr) -> Result<Loaded, String> {
    let entry = entry.to_str().ok_or("error: the entry is not UTF-8")?;
    let Some((path, function)) = entry.rsplit_once('.') else {
        return Err(format!(
            "error: the entry `{entry}` is not like pkg.module.function"
        ));
    };
    let snapshot = folder::load(src).map_err(|why| format!("error: {why}"))?;
    let mut analyzer = Analyzer::new();
    let env = analyzer.env(&snapshot);
    let checked = analyzer.check(&env, None, &|| false);
    let lines: Vec<String> = checked
        .diagnostics
        .iter()
        .map(|d| {
            let at = d.range.start;
            format!(
                "{}:{}:{}: {} {}: {}",
                d.path,
                at.line,
                at.column,
                d.severity.text(),
                d.code,
                d.message
            )
        })
        .collect();
    if checked.has_errors() {
        return Err(lines.join("\n"));
    }
    for line in lines {
        eprintln!("{line}");
    }
    let module = path.replace('.', "/");
    let sym = full(&module, function);
    let Some(signature) = env.signature(&sym) else {
        return Err(format!(
            "error: there is no function `{function}` in `{module}.sakura`"
        ));
    };
    let gives = [&env.core.int, &env.core.unit].contains(&&signature.ret);
    if !signature.params.is_empty() || !signature.types.is_empty() || !gives {
        return Err(format!(
            "error: the entry `{entry}` must take no parameters and give Int or Unit"
        ));
    }
    if signature
        .row
        .labels
        .iter()
        .any(|l| matches!(l, Label::Param(_)))
    {
        return Err(format!(
            "error: the entry `{entry}` must not have effect parameters"
        ));
    }
    Ok(Loaded {
        snapshot,
        env,
        sym,
        module,
    })
}

fn emit_cja(entry: &OsStr, src: &Path, out: &Path) -> Result<ExitCode, String> {
    let loaded = load(src, entry)?;
    let program = compile(&loaded.env, &[Entry::Function(loaded.sym.clone())])
        .map_err(|why| format!("error: {why}"))?;
    let archive = archive(&loaded, &program);
    let class = loaded.module.rsplit('/').next().unwrap_or(&loaded.module);
    let target = out.join(format!("{class}.cja"));
    std::fs::create_dir_all(out).map_err(|error| format!("error: {}: {error}", out.display()))?;
    std::fs::write(&target, format!("{archive}\n"))
        .map_err(|error| format!("error: {}: {error}", target.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn archive(loaded: &Loaded, program: &Program) -> Value {
    let sources: BTreeMap<&str, &str> = loaded
        .snapshot
        .files()
        .iter()
        .map(|(p, t)| (&**p, &**t))
        .collect();
    let own = |sym: &Sym| !sym.starts_with("std/");
    let symbols = query::all_symbols(&loaded.env).into_iter().filter(own);
    let interface: Vec<Value> = symbols
        .filter_map(|sym| query::symbol_json(&loaded.env, &sym))
        .collect();
    let code: Vec<Value> = program
        .codes
        .iter()
        .map(|code| {
            let ops: Vec<String> = code.ops.iter().map(|op| format!("{op:?}")).collect();
            json!({"function": &*code.name, "path": &*code.path, "arity": code.arity, "slots": code.slots, "operations": ops})
        })
        .collect();
    json!({
        "format": "sakura-cja/1",
        "language": super::tools::LANGUAGE_VERSION,
        "entry": &*loaded.sym,
        "snapshot": &**loaded.snapshot.id(),
        "sources": sources,
        "interface": interface,
        "code": code,
    })
}

fn jit_run(src: &Path, entry: &OsStr) -> Result<ExitCode, String> {
    let loaded = load(src, entry)?;
    let program = compile(&loaded.env, &[Entry::Function(loaded.sym.clone())])
        .map_err(|why| format!("error: {why}"))?;
    let mut host = Process {
        out: BufWriter::new(io::stdout()),
    };
    let result = Machine::new(&program, &mut host, BUDGET).call(0, Vec::new());
    host.out
        .flush()
        .map_err(|error| format!("error: cannot write: {error}"))?;
    match result {
        // The exit code is what the system keeps of the number: its low 8 bits.
        Ok(Sakura::Int(code)) => Ok(ExitCode::from(code.rem_euclid(256) as u8)),
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(stop) => {
            let mut lines = vec![format!("[jit-run] {}: {}", stop.kind(), stop.message())];
            for place in stop.stack() {
                let module = loaded
                    .env
                    .modules
                    .by_name
                    .get(touchstone_language::names::module_name(&place.path));
                let lines_of =
                    module.map(|m| touchstone_language::diagnostic::Lines::new(m.text.clone()));
                let at = lines_of.map(|l| l.position(place.start));
                let at = at.map_or(String::new(), |p| format!(":{}:{}", p.line, p.column));
                lines.push(format!(
                    "[jit-run]   in {} ({}{at})",
                    place.function, place.path
                ));
            }
            Err(lines.join("\n"))
        }
    }
}

/// The host of a program that runs as a process.
struct Process {
    out: BufWriter<io::Stdout>,
}

impl Host for Process {
    fn print(&mut self, text: &str) -> Result<(), Refusal> {
        writeln!(self.out, "{text}")
            .map_err(|error| Refusal::Denied(format!("cannot write: {error}")))
    }

    fn now(&mut self) -> Result<i64, Refusal> {
        Ok(milliseconds())
    }

    fn random(&mut self) -> Result<u64, Refusal> {
        random_bits()
    }
}

// ---- skills ----

struct Skill {
    uri: &'static str,
    name: &'static str,
    description: &'static str,
    content: &'static str,
}

const SKILLS: [Skill; 3] = [
    Skill {
        uri: "cja-skill://sakura/write-a-program",
        name: "write-a-program",
        description: "Write and run a Sakura program with jit_execute: files, entry, output, return value.",
        content: include_str!("skills/write-a-program.md"),
    },
    Skill {
        uri: "cja-skill://sakura/effects-and-failures",
        name: "effects-and-failures",
        description: "Effect rows, failures and recover, contracts and refinements in Sakura.",
        content: include_str!("skills/effects-and-failures.md"),
    },
    Skill {
        uri: "cja-skill://sakura/language",
        name: "language",
        description: "The page that specifies the Sakura language, with examples of every construct.",
        content: query::LANGUAGE_PAGE,
    },
];

impl Skill {
    fn summary(&self) -> Value {
        json!({"uri": self.uri, "name": self.name, "description": self.description})
    }
}

/// The skills that mention every word.
fn search(words: &str) -> Value {
    let words = words.to_lowercase();
    let mentions = |skill: &Skill, word: &str| {
        [skill.uri, skill.name, skill.description, skill.content]
            .iter()
            .any(|text| text.to_lowercase().contains(word))
    };
    let found = SKILLS
        .iter()
        .filter(|skill| words.split_whitespace().all(|word| mentions(skill, word)));
    found.map(Skill::summary).collect()
}

fn get(uris: &str) -> Value {
    let found = uris
        .split(',')
        .filter_map(|uri| SKILLS.iter().find(|skill| skill.uri == uri.trim()));
    found
        .map(|skill| {
            let mut whole = skill.summary();
            whole["content"] = json!(skill.content);
            whole
        })
        .collect()
}
