//! The execution cache: what is a hit, what is a miss, and what goes when it is full.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

use super::server::{Said, Server};
use super::{Profile, Program, describe, temporary};

type Done = Result<(), String>;

/// Calls and says whether it was a hit. The error says what came instead.
pub(super) fn hit(server: &mut Server, tool: &str, program: &Program) -> Result<bool, String> {
    hit_of(server, tool, &program.arguments())
}

fn hit_of(server: &mut Server, tool: &str, arguments: &Value) -> Result<bool, String> {
    match server.call(tool, arguments) {
        Said::Fields(fields) => fields
            .get("cacheHit")
            .and_then(Value::as_bool)
            .ok_or_else(|| format!("the result of `{tool}` has no `cacheHit`")),
        other => Err(format!("`{tool}` gave {}", describe(&other))),
    }
}

/// The entries of a cache folder: files of 64 hex digits, with their sizes; and what else is there.
fn entries(folder: &Path) -> (BTreeMap<PathBuf, u64>, Vec<String>) {
    let mut found = BTreeMap::new();
    let mut others = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let stem = name.split('.').next().unwrap_or_default();
        let key = stem.len() == 64 && stem.bytes().all(|b| b.is_ascii_hexdigit());
        match entry.metadata() {
            Ok(data) if key && data.is_file() => {
                found.insert(entry.path(), data.len());
            }
            _ => others.push(name),
        }
    }
    (found, others)
}

/// What makes a request another one.
pub(super) fn key(profile: &mut Profile<'_>) -> Done {
    let folder = temporary()?;
    let mut server = profile.start(&folder, &[])?;
    let program = profile.fresh("ok")?;
    let first = server.call("jit_execute", &program.arguments());
    let second = server.call("jit_execute", &program.arguments());
    let (Said::Fields(mut first), Said::Fields(mut second)) = (first.clone(), second) else {
        return Err(format!("`jit_execute` gave {}", describe(&first)));
    };
    let missed = first.remove("cacheHit") == Some(Value::Bool(false));
    let was_hit = second.remove("cacheHit") == Some(Value::Bool(true));
    profile.rule(
        "cache.hit",
        missed && was_hit && first == second,
        &server,
        || "The same request twice: a miss, then a hit with the same result is due.".to_owned(),
    );

    let mut changed = program.clone();
    if let Some(text) = changed.files.values_mut().next() {
        text.push_str(&format!("{} changed\n", profile.pack.comment));
    }
    let again = hit(&mut server, "jit_execute", &changed)?;
    profile.rule("cache.files", !again, &server, || {
        "A changed file is still a hit.".to_owned()
    });
    let mut moved = program.clone();
    moved.files = program
        .files
        .iter()
        .map(|(path, text)| (format!("moved/{path}"), text.clone()))
        .collect();
    let again = hit(&mut server, "jit_execute", &moved)?;
    profile.rule("cache.files", !again, &server, || {
        "A file in another folder is still a hit.".to_owned()
    });

    let again = hit(&mut server, "compile", &program)?;
    profile.rule("cache.tool", !again, &server, || {
        "`compile` of what `jit_execute` ran before is a hit.".to_owned()
    });

    let (one, other) = (
        profile.program("two-entries")?,
        profile.program("two-entries-other")?,
    );
    hit(&mut server, "jit_execute", &one)?;
    let again = hit(&mut server, "jit_execute", &other)?;
    profile.rule("cache.entry", !again, &server, || {
        "Another entry of the same tree is a hit.".to_owned()
    });

    each_file(profile, &mut server)?;
    lengths(profile, &mut server)?;
    server.stop(profile.options);
    Ok(())
}

/// Of a program of several files each one counts, not the one with the entry alone.
fn each_file(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    let program = profile.fresh("two-files")?;
    hit(server, "compile", &program)?;
    for path in program.files.keys() {
        let mut changed = program.clone();
        if let Some(text) = changed.files.get_mut(path) {
            text.push_str(&format!("{} changed\n", profile.pack.comment));
        }
        let again = hit(server, "compile", &changed)?;
        profile.rule("cache.files", !again, server, || {
            format!("Of two files only `{path}` was changed, and the request is still a hit.")
        });
    }
    Ok(())
}

/// Trees whose paths and texts join to the same characters, cut in different places.
fn lengths(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    let entry = profile.program("ok")?.entry;
    let trees = [
        [("a/b", "c"), ("d/e", "f")],
        [("a/bc", ""), ("d/e", "f")],
        [("a/b", "cd/ef"), ("g", "")],
    ];
    let mut again = false;
    for tree in trees {
        let files: serde_json::Map<String, Value> = tree
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Value::from(*text)))
            .collect();
        let arguments = serde_json::json!({"files": files, "entry": entry});
        // A tree that is no program may be refused; then it cannot be a hit either.
        again |= hit_of(server, "compile", &arguments).unwrap_or(false);
    }
    profile.rule("cache.key-lengths", !again, server, || {
        "A tree that differs only in where one part ends and the next begins is a hit.".to_owned()
    });
    Ok(())
}

/// The compiler's path as the user gave it. Without one the rule cannot be judged.
pub(super) fn known_compiler(profile: &mut Profile<'_>, rule: &str) -> Option<PathBuf> {
    let args = &profile.options.launch.args;
    let flag = args
        .iter()
        .filter_map(|arg| arg.to_str()?.strip_prefix("--cajeta="))
        .next_back()
        .map(PathBuf::from);
    let given = flag.or_else(|| std::env::var_os("CAJETA_BIN").map(PathBuf::from));
    let path = given.filter(|path| path.is_file());
    if path.is_none() {
        profile.judge.not_applicable(
            rule,
            "The compiler's path is not known: give `--cajeta=PATH` in the command, or CAJETA_BIN.",
        );
    }
    path
}

/// A compiler that changes under the same path.
pub(super) fn toolchain(profile: &mut Profile<'_>) -> Done {
    const RULE: &str = "toolchain.cache.toolchain";
    let Some(compiler) = known_compiler(profile, RULE) else {
        return Ok(());
    };
    let (folder, copies) = (temporary()?, temporary()?);
    let copy = copies.path().join("compiler");
    std::fs::copy(&compiler, &copy).map_err(|error| format!("{}: {error}", compiler.display()))?;
    let flag = format!("--cajeta={}", copy.display());
    let program = profile.fresh("ok")?;
    let mut server = profile.start(&folder, &[&flag])?;
    hit(&mut server, "compile", &program)?;
    let before = hit(&mut server, "compile", &program)?;
    server.stop(profile.options);
    if !before {
        profile.judge.blocked(RULE, "toolchain.cache.hit");
        return Ok(());
    }
    // A byte at the end changes neither a script nor an executable.
    let changed = |end: u8| -> std::io::Result<Vec<u8>> {
        let mut bytes = std::fs::read(&compiler)?;
        bytes.push(end);
        Ok(bytes)
    };
    let failed = |error: std::io::Error| error.to_string();
    let stamp = std::fs::metadata(&copy).and_then(|data| data.modified());
    let stamp = stamp.map_err(failed)?;
    replace(&copy, &changed(b'\n').map_err(failed)?, stamp).map_err(failed)?;
    let mut server = profile.start(&folder, &[&flag])?;
    let after = hit(&mut server, "compile", &program)?;
    profile.rule("cache.toolchain", !after, &server, || {
        "The compiler was changed, and the request is still a hit.".to_owned()
    });
    replace(&copy, &changed(b' ').map_err(failed)?, stamp).map_err(failed)?;
    let after = hit(&mut server, "compile", &program)?;
    profile.rule("cache.toolchain", !after, &server, || {
        "While the server ran, the compiler was replaced by one of the same size and modification time, and the request is still a hit.".to_owned()
    });
    server.stop(profile.options);
    Ok(())
}

/// Puts another content in the place of a file, with this modification time and the same rights.
fn replace(file: &Path, bytes: &[u8], modified: SystemTime) -> std::io::Result<()> {
    let new = file.with_extension("new");
    std::fs::copy(file, &new)?;
    std::fs::write(&new, bytes)?;
    let new_file = std::fs::File::options().write(true).open(&new)?;
    new_file.set_modified(modified)?;
    drop(new_file);
    std::fs::rename(&new, file)
}

/// A run that the time limit ends is no result to keep.
pub(super) fn timeout(profile: &mut Profile<'_>) -> Done {
    const RULE: &str = "toolchain.cache.timeout";
    if profile.pack.program("beyond-hangs").is_none() {
        let why = "The pack has no program `beyond-hangs`, one that never ends.";
        profile.judge.not_applicable(RULE, why);
        return Ok(());
    }
    let folder = temporary()?;
    let program = profile.fresh("beyond-hangs")?;
    let mut server = profile.start(&folder, &["--exec-timeout=1"])?;
    let first = hit(&mut server, "jit_execute", &program)?;
    let again = hit(&mut server, "jit_execute", &program)?;
    profile.rule("cache.timeout", !first && !again, &server, || {
        "A run that was ended by `--exec-timeout` is a hit the next time.".to_owned()
    });
    server.stop(profile.options);
    Ok(())
}

/// Files on disk, and a restart.
pub(super) fn store(profile: &mut Profile<'_>) -> Done {
    let folder = temporary()?;
    let program = profile.fresh("ok")?;
    let mut server = profile.start(&folder, &[])?;
    hit(&mut server, "jit_execute", &program)?;
    let (found, others) = entries(folder.path());
    profile.rule("cache.one-file", found.len() == 1, &server, || {
        format!(
            "After one request the cache folder holds {} files named by a key of 64 hex digits, and: {}.",
            found.len(),
            others.join(", ")
        )
    });
    server.stop(profile.options);
    let mut server = profile.start(&folder, &[])?;
    let again = hit(&mut server, "jit_execute", &program)?;
    profile.rule("cache.restart", again, &server, || {
        "After a restart the request is a miss.".to_owned()
    });
    server.stop(profile.options);
    Ok(())
}

/// Entries that were cut short on disk, as a full disk or a crash leaves them.
pub(super) fn damaged(profile: &mut Profile<'_>) -> Done {
    const RULE: &str = "cache.damaged";
    let program = profile.fresh("prints")?;
    for part in [2, 0] {
        let folder = temporary()?;
        let mut server = profile.start(&folder, &[])?;
        let whole = server.call("jit_execute", &program.arguments());
        server.stop(profile.options);
        if !cut_entries(folder.path(), part)? {
            let rule = format!("toolchain.{RULE}");
            profile.judge.blocked(&rule, "toolchain.cache.one-file");
            return Ok(());
        }
        // Another process: the first may remember what it wrote.
        let mut server = profile.start(&folder, &[])?;
        let again = server.call("jit_execute", &program.arguments());
        let same = matches!((&whole, &again), (Said::Fields(a), Said::Fields(b)) if a == b);
        profile.rule(RULE, same, &server, || {
            format!(
                "The entry was cut short; a miss with the result of before is due. Before: {}; now: {}.",
                describe_whole(&whole),
                describe_whole(&again)
            )
        });
        server.stop(profile.options);
    }
    Ok(())
}

/// Cuts every entry to that part of its length, 0 to nothing. False if there is none.
fn cut_entries(folder: &Path, part: u64) -> Result<bool, String> {
    let found = entries(folder).0;
    for (path, size) in &found {
        std::fs::File::options()
            .write(true)
            .open(path)
            .and_then(|file| file.set_len(size.checked_div(part).unwrap_or(0)))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(!found.is_empty())
}

/// A result with all its fields, anything else in a few words.
pub(super) fn describe_whole(said: &Said) -> String {
    match said {
        Said::Fields(fields) => Value::Object(fields.clone()).to_string(),
        other => describe(other),
    }
}

fn age(folder: &Path, by: Duration) -> Result<(), String> {
    for path in entries(folder).0.into_keys() {
        let then = SystemTime::now() - by;
        std::fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(then))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

pub(super) fn ttl(profile: &mut Profile<'_>) -> Done {
    let folder = temporary()?;
    let program = profile.fresh("ok")?;
    let mut server = profile.start(&folder, &["--cache-ttl=600"])?;
    hit(&mut server, "jit_execute", &program)?;
    age(folder.path(), Duration::from_secs(300))?;
    let young = hit(&mut server, "jit_execute", &program)?;
    profile.rule("cache.ttl", young, &server, || {
        "An entry of half the TTL's age is a miss.".to_owned()
    });
    age(folder.path(), Duration::from_secs(1_200))?;
    let old = hit(&mut server, "jit_execute", &program)?;
    profile.rule("cache.ttl", !old, &server, || {
        "An entry of twice the TTL's age is still a hit.".to_owned()
    });
    server.stop(profile.options);
    Ok(())
}

pub(super) fn bounds(profile: &mut Profile<'_>) -> Done {
    // Where mtimes are coarse, uses close together cannot be told apart: a breach must show with
    // a pause between them too.
    for pause in [Duration::from_millis(20), Duration::from_millis(1_100)] {
        if least_recent(profile, pause)? {
            break;
        }
    }
    max_bytes(profile)
}

/// Requests a, b, a, c in a cache of two: b has to go. False when it is to be tried again.
fn least_recent(profile: &mut Profile<'_>, pause: Duration) -> Result<bool, String> {
    let folder = temporary()?;
    let mut server = profile.start(&folder, &["--cache-max-entries=2"])?;
    let [a, b, c] = three(profile)?;
    for program in [&a, &b, &a, &c] {
        hit(&mut server, "jit_execute", program)?;
        std::thread::sleep(pause);
    }
    let count = entries(folder.path()).0.len();
    let kept = hit(&mut server, "jit_execute", &a)?;
    let gone = !hit(&mut server, "jit_execute", &b)?;
    let fine = count <= 2 && kept && gone;
    if !fine && pause < Duration::from_secs(1) {
        server.stop(profile.options);
        return Ok(false);
    }
    profile.rule("cache.max-entries", count <= 2, &server, || {
        format!("With `--cache-max-entries=2` the cache holds {count} entries.")
    });
    profile.rule("cache.lru", kept && gone, &server, || {
        let what = if kept {
            "the one used least recently is still there"
        } else {
            "the one used last but one is gone"
        };
        format!("After the requests a, b, a, c in a cache of two, {what}.")
    });
    server.stop(profile.options);
    Ok(true)
}

fn three(profile: &mut Profile<'_>) -> Result<[Program; 3], String> {
    Ok([
        profile.fresh("ok")?,
        profile.fresh("ok")?,
        profile.fresh("ok")?,
    ])
}

fn max_bytes(profile: &mut Profile<'_>) -> Done {
    let folder = temporary()?;
    let [a, b, c] = three(profile)?;
    let mut server = profile.start(&folder, &[])?;
    hit(&mut server, "jit_execute", &a)?;
    let size: u64 = entries(folder.path()).0.values().sum();
    server.stop(profile.options);
    if size == 0 {
        profile
            .judge
            .blocked("toolchain.cache.max-bytes", "toolchain.cache.one-file");
        return Ok(());
    }
    let folder: TempDir = temporary()?;
    let most = size * 5 / 2;
    let mut server = profile.start(&folder, &[&format!("--cache-max-bytes={most}")])?;
    for program in [&a, &b, &c] {
        hit(&mut server, "jit_execute", program)?;
        std::thread::sleep(Duration::from_millis(20));
    }
    let held: u64 = entries(folder.path()).0.values().sum();
    profile.rule("cache.max-bytes", held <= most && held > 0, &server, || {
        format!("With `--cache-max-bytes={most}` the cache holds {held} bytes.")
    });
    server.stop(profile.options);
    Ok(())
}

pub(super) fn off(profile: &mut Profile<'_>) -> Done {
    let folder = temporary()?;
    let program = profile.fresh("ok")?;
    for flag in ["--no-cache", "--cache=off"] {
        let mut server = profile.start(&folder, &[flag])?;
        hit(&mut server, "jit_execute", &program)?;
        let again = hit(&mut server, "jit_execute", &program)?;
        let count = entries(folder.path()).0.len();
        profile.rule("cache.off", !again && count == 0, &server, || {
            format!("With `{flag}` a request is a hit, or one of {count} entries was written.")
        });
        server.stop(profile.options);
    }
    Ok(())
}
