//! `rustc` behind the compiler's command line, so that the tools work on a machine that has Rust
//! and no `cajeta`. The server runs it as a child, like any toolchain:
//! `touchstone-server rustc-toolchain --emit=cja demo.main.run SRC OUT`.
//!
//! A tree of `.rs` files is one crate of the 2024 edition: the file `demo/main.rs` is the module
//! `crate::demo::main`. Folders are modules by themselves; a folder with a file of its own
//! (`demo.rs` or `demo/mod.rs`) declares its modules itself, as in any crate. The crate's root
//! comes to `rustc` on stdin, so nothing is written beside the sources.
//!
//! The artifact is the crate as an `.rlib` named `<SimpleClass>.cja`; the same sources give the
//! same bytes. An entry is a `pub fn() -> i32`; its return becomes the exit code, of which Unix
//! keeps the low 8 bits.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use rustix::process::{Signal, getpid, kill_process};

use super::skills;

/// The first argument of the server that makes it this toolchain.
pub const SUBCOMMAND: &str = "rustc-toolchain";

/// A part of the toolchain's identity: raise it when the same sources give another result.
pub(super) const REVISION: &str = "touchstone rustc adapter 1";

const USAGE: &str = "usage: rustc-toolchain [--rustc=PATH] COMMAND
  --emit=cja <pkg.module.function> <srcRoot> <outDir>   compile to <outDir>/<module>.cja
  jit-run <srcRoot> <pkg.module.function>               compile, run, exit with what it returned
  search-skill <name> --json | list-skills --json | get-skills <uri,uri,...> --json";

/// Exit code for a command line that is not understood.
const USAGE_CODE: u8 = 2;
/// Exit code when the sources do not compile.
const FAILED_CODE: u8 = 1;

/// Runs the toolchain with the arguments that follow [`SUBCOMMAND`].
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut args: Vec<OsString> = args.collect();
    let rustc = args
        .first()
        .and_then(|first| first.to_str())
        .and_then(|first| first.strip_prefix("--rustc="))
        .map(PathBuf::from);
    if rustc.is_some() {
        args.remove(0);
    }
    let rustc = rustc.unwrap_or_else(|| PathBuf::from("rustc"));
    let text: Vec<&OsStr> = args.iter().map(OsString::as_os_str).collect();
    let done = match text.as_slice() {
        [emit, entry, src, out] if *emit == "--emit=cja" => {
            compile(&rustc, entry, Path::new(src), Path::new(out))
        }
        [command, src, entry] if *command == "jit-run" => jit_run(&rustc, Path::new(src), entry),
        [command, name, json] if *command == "search-skill" && *json == "--json" => {
            print(&skills::search(&name.to_string_lossy()))
        }
        [command, json] if *command == "list-skills" && *json == "--json" => print(&skills::list()),
        [command, uris, json] if *command == "get-skills" && *json == "--json" => {
            print(&skills::get(&uris.to_string_lossy()))
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(USAGE_CODE);
        }
    };
    done.unwrap_or_else(|message| {
        eprintln!("error: {message}");
        ExitCode::from(FAILED_CODE)
    })
}

fn print(skills: &serde_json::Value) -> Result<ExitCode, String> {
    writeln!(io::stdout(), "{skills}").map_err(|error| format!("cannot write: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

fn compile(rustc: &Path, entry: &OsStr, src: &Path, out: &Path) -> Result<ExitCode, String> {
    let program = Program::read(src, entry)?;
    let artifact = out.join(format!("{}.cja", program.simple_class()));
    let check = format!("const _: fn() -> i32 = {};\n", program.path());
    let status = build(rustc, src, "rlib", &artifact, &(program.root() + &check))?;
    Ok(pass_on(status))
}

fn jit_run(rustc: &Path, src: &Path, entry: &OsStr) -> Result<ExitCode, String> {
    let program = Program::read(src, entry)?;
    let folder = tempfile::Builder::new()
        .prefix("rustc-toolchain-")
        .tempdir()
        .map_err(|error| format!("cannot make a temporary folder: {error}"))?;
    let binary = folder.path().join("program");
    let main = format!(
        "fn main() {{\n    let entry: fn() -> i32 = {};\n    ::std::process::exit(entry())\n}}\n",
        program.path()
    );
    let status = build(rustc, src, "bin", &binary, &(program.root() + &main))?;
    if !status.success() {
        return Ok(pass_on(status));
    }
    eprintln!("[jit-run] compiled, running {}", entry.to_string_lossy());
    let status = Command::new(&binary).status();
    drop(folder);
    Ok(pass_on(status.map_err(|error| {
        format!("cannot run the program: {error}")
    })?))
}

/// Compiles a crate whose root is `root` and whose modules lie below `src`.
fn build(
    rustc: &Path,
    src: &Path,
    kind: &str,
    output: &Path,
    root: &str,
) -> Result<ExitStatus, String> {
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let mut remap = OsString::from("--remap-path-prefix=");
    remap.push(absolute(src)?);
    remap.push("=.");
    let failed = |error: io::Error| format!("cannot start {}: {error}", rustc.display());
    let mut child = Command::new(rustc)
        .args(["--edition=2024", "--crate-name=program", "--color=never"])
        .args(["-Cdebuginfo=0", "-Ccodegen-units=1"])
        .arg(format!("--crate-type={kind}"))
        .arg(remap)
        .arg("-o")
        .arg(absolute(output)?)
        .arg("-")
        .current_dir(src)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // When it fails, rustc has ended early and its own message says why.
        let _ = stdin.write_all(root.as_bytes());
    }
    child.wait().map_err(failed)
}

/// Ends as the child ended: with its exit code, or by its signal.
fn pass_on(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        if let Some(named) = Signal::from_named_raw(signal) {
            // Rust's own handler of SIGSEGV and SIGBUS takes the first and lets go.
            for _ in 0..2 {
                let _ = kill_process(getpid(), named);
            }
        }
        return ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX));
    }
    let code = status.code().unwrap_or(i32::from(FAILED_CODE));
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(FAILED_CODE))
}

/// A tree of sources as a crate, and the entry in it.
#[derive(Debug)]
struct Program {
    tree: Module,
    /// The parts of the entry, at least two.
    entry: Vec<String>,
}

/// A module of the crate: a file, or a folder without a file of its own.
#[derive(Debug, Default)]
struct Module {
    has_file: bool,
    children: BTreeMap<String, Module>,
}

impl Program {
    fn read(src: &Path, entry: &OsStr) -> Result<Self, String> {
        let entry = entry.to_string_lossy();
        let parts: Vec<String> = entry.split('.').map(str::to_owned).collect();
        if parts.len() < 2 || !parts.iter().all(|part| is_identifier(part)) {
            return Err(format!(
                "entry `{}` is not of the form `pkg.module.function`",
                entry.escape_debug()
            ));
        }
        let mut tree = Module::default();
        let mut files = Vec::new();
        tree.read_folder(src, "", &mut files)
            .map_err(|error| format!("cannot read {}: {error}", src.display()))?;
        let program = Self { tree, entry: parts };
        program.check_entry(&files)?;
        Ok(program)
    }

    /// Tells of a missing module better than `rustc` can, which knows no entry.
    fn check_entry(&self, files: &[String]) -> Result<(), String> {
        let mut module = &self.tree;
        let modules = &self.entry[..self.entry.len() - 1];
        for part in modules {
            match module.children.get(part) {
                Some(child) if child.has_file => return Ok(()),
                Some(child) => module = child,
                None => break,
            }
        }
        let there = match files {
            [] => "the tree has no .rs file that can be a module".to_owned(),
            files => format!("the tree has {}", files.join(", ")),
        };
        let entry = self.entry.join(".");
        Err(format!(
            "entry `{entry}`: there is no file {}.rs; {there}",
            modules.join("/")
        ))
    }

    fn simple_class(&self) -> &str {
        &self.entry[self.entry.len() - 2]
    }

    /// The entry as a path in Rust.
    fn path(&self) -> String {
        let parts: Vec<String> = self.entry.iter().map(|part| spelled(part)).collect();
        format!("crate::{}", parts.join("::"))
    }

    /// The root of the crate: the modules of the tree.
    fn root(&self) -> String {
        let mut text = String::from("#![allow(dead_code, special_module_name)]\n");
        self.tree.declare(&mut text);
        text
    }
}

impl Module {
    /// Takes in a folder. No symlink is followed; what cannot be a module is passed over.
    fn read_folder(
        &mut self,
        folder: &Path,
        prefix: &str,
        files: &mut Vec<String>,
    ) -> io::Result<()> {
        let mut entries = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() && is_identifier(&name) {
                let child = self.children.entry(name.clone()).or_default();
                child.read_folder(&entry.path(), &format!("{prefix}{name}/"), files)?;
                continue;
            }
            let Some(stem) = name.strip_suffix(".rs").filter(|stem| is_identifier(stem)) else {
                continue;
            };
            if !kind.is_file() {
                continue;
            }
            if stem != "mod" {
                self.children.entry(stem.to_owned()).or_default().has_file = true;
            } else if prefix.is_empty() {
                continue;
            } else {
                self.has_file = true;
            }
            files.push(format!("{prefix}{name}"));
        }
        Ok(())
    }

    fn declare(&self, text: &mut String) {
        for (name, child) in &self.children {
            let spelled = spelled(name);
            if child.has_file {
                if !name.is_ascii() {
                    // rustc looks for such a file only when told its name.
                    let _ = write!(text, "#[path = \"{name}.rs\"] ");
                }
                let _ = writeln!(text, "pub mod {spelled};");
            } else if child.has_any_file() {
                let _ = writeln!(text, "pub mod {spelled} {{");
                child.declare(text);
                text.push_str("}\n");
            }
        }
    }

    fn has_any_file(&self) -> bool {
        self.has_file || self.children.values().any(Self::has_any_file)
    }
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|first| first.is_alphabetic() || first == '_')
        && chars.all(|char| char.is_alphanumeric() || char == '_')
        && !["_", "self", "Self", "super", "crate"].contains(&name)
}

/// A name as Rust wants it written where it may be a keyword.
fn spelled(name: &str) -> String {
    const KEYWORDS: &str = " abstract as async await become box break const continue do dyn else \
        enum extern false final fn for gen if impl in let loop macro match mod move mut override \
        priv pub ref return static struct trait true try type typeof unsafe unsized use virtual \
        where while yield ";
    if KEYWORDS.contains(&format!(" {name} ")) {
        format!("r#{name}")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        dir
    }

    #[test]
    fn folders_are_modules_unless_they_have_a_file_of_their_own() {
        let dir = tree(&[
            "a/b.rs",
            "a/c/d.rs",
            "e.rs",
            "e/f.rs",
            "g/mod.rs",
            "g/h.rs",
            "type.rs",
            "not-a.rs",
            "notes.txt",
            "empty/x.txt",
            "mod.rs",
        ]);
        let program = Program::read(dir.path(), OsStr::new("a.b.run")).unwrap();
        assert_eq!(
            program.root().lines().skip(1).collect::<Vec<_>>().join(" "),
            "pub mod a { pub mod b; pub mod c { pub mod d; } } pub mod e; pub mod g; \
             pub mod r#type;"
        );
        assert_eq!(program.path(), "crate::a::b::run");
        assert_eq!(program.simple_class(), "b");
    }

    #[test]
    fn a_symlink_is_no_part_of_the_tree() {
        let dir = tree(&["a/b.rs"]);
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("x.rs")).unwrap();
        let program = Program::read(dir.path(), OsStr::new("a.b.run")).unwrap();
        assert!(!program.root().contains("link") && !program.root().contains("pub mod x"));
    }

    #[test]
    fn an_entry_without_a_file_says_what_is_missing_and_what_is_there() {
        let dir = tree(&["a/b.rs", "c.rs"]);
        let error = |entry: &str| Program::read(dir.path(), OsStr::new(entry)).unwrap_err();
        assert!(error("a.x.run").contains("no file a/x.rs; the tree has a/b.rs, c.rs"));
        assert!(error("a.run").contains("no file a.rs"));
        for entry in [
            "",
            "run",
            "a..run",
            "a.b.",
            "a/b.run",
            "../x.run",
            "a.b.run()",
            "self.run",
        ] {
            assert!(error(entry).contains("pkg.module.function"), "{entry}");
        }
        // Modules inside a file are for rustc to find.
        assert!(Program::read(dir.path(), OsStr::new("c.inner.run")).is_ok());
    }
}
