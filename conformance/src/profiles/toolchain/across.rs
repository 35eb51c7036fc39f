//! The execution cache across processes: two at once, one after a failure, one in another
//! environment.

use std::fs;

use serde_json::{Map, Value};

use super::cache::{describe_whole, hit, known_compiler};
use super::server::{Said, Server};
use super::{Profile, Program, describe, temporary};

type Done = Result<(), String>;

/// How many requests two servers get at the same time, one after the other.
const KEYS: usize = 6;
/// Variables that are no settings, as build tools set them anew for each run.
const NOISE: [(&str, &str); 2] = [
    ("MAKEFLAGS", " -j --jobserver-auth=5,6"),
    ("TOUCHSTONE_NOISE", "1"),
];

/// Two servers on one folder get the same requests at once. Their results are those of a server
/// that has a folder to itself, and what they leave is whole.
pub(super) fn shared(profile: &mut Profile<'_>) -> Done {
    const RULE: &str = "cache.shared";
    let alone = {
        let folder = temporary()?;
        let program = profile.fresh("prints")?;
        let mut server = profile.start(&folder, &[])?;
        let said = server.call("jit_execute", &program.arguments());
        server.stop(profile.options);
        said
    };
    let due = outcome(&alone)?;
    let folder = temporary()?;
    let programs: Vec<Program> = (0..KEYS)
        .map(|_| profile.fresh("prints"))
        .collect::<Result<_, _>>()?;
    let mut servers = [profile.start(&folder, &[])?, profile.start(&folder, &[])?];
    // For each program, what either server gave.
    let mut given: Vec<Vec<Said>> = Vec::new();
    for program in &programs {
        let arguments = program.arguments();
        let ids = servers
            .each_mut()
            .map(|server| server.post("jit_execute", &arguments));
        let mut both = Vec::new();
        for (server, id) in servers.iter_mut().zip(&ids) {
            let said = server.said("jit_execute", id);
            profile.rule(RULE, outcome(&said).as_ref() == Ok(&due), server, || {
                format!(
                    "Two servers on one folder got the same request at once. One gave {}; a server alone gives {}.",
                    describe_whole(&said),
                    describe_whole(&alone)
                )
            });
            both.push(said);
        }
        given.push(both);
    }
    for server in servers {
        server.stop(profile.options);
    }
    kept(profile, &folder, &programs, &given)
}

/// What lies in the folder is a hit for another server, with a result that was given.
fn kept(
    profile: &mut Profile<'_>,
    folder: &tempfile::TempDir,
    programs: &[Program],
    given: &[Vec<Said>],
) -> Done {
    const RULE: &str = "cache.shared";
    for root in ["toolchain.cache.hit", "toolchain.cache.restart"] {
        if profile.judge.is_broken(root) {
            return Ok(());
        }
    }
    let mut server = profile.start(folder, &[])?;
    for (program, given) in programs.iter().zip(given) {
        let again = server.call("jit_execute", &program.arguments());
        let was_hit = matches!(&again, Said::Fields(f) if f.get("cacheHit") == Some(&true.into()));
        let known = given.iter().any(|said| members(said) == members(&again));
        profile.rule(RULE, was_hit && known, &server, || {
            format!(
                "Two servers on one folder got the same request at once and gave {}. A third is due to give one of these results as a hit; it gave {}.",
                given.iter().map(describe_whole).collect::<Vec<_>>().join(" and "),
                describe_whole(&again)
            )
        });
    }
    server.stop(profile.options);
    Ok(())
}

/// A result's members without `cacheHit`.
fn members(said: &Said) -> Option<Map<String, Value>> {
    let Said::Fields(fields) = said else {
        return None;
    };
    let mut fields = fields.clone();
    fields.remove("cacheHit");
    Some(fields)
}

/// What the program did: its exit status and its output. The error says what came instead.
fn outcome(said: &Said) -> Result<(Option<i64>, Option<String>), String> {
    let fields = members(said).ok_or_else(|| format!("`jit_execute` gave {}", describe(said)))?;
    let output = fields.get("stdout").and_then(Value::as_str);
    let status = fields.get("exitStatus").and_then(Value::as_i64);
    Ok((status, output.map(str::to_owned)))
}

/// The compiler is not there, a call fails, the compiler is put in its place: the same call works.
pub(super) fn failure(profile: &mut Profile<'_>) -> Done {
    const RULE: &str = "toolchain.cache.failure";
    let Some(compiler) = known_compiler(profile, RULE) else {
        return Ok(());
    };
    let (folder, copies) = (temporary()?, temporary()?);
    let copy = copies.path().join("compiler");
    let flag = format!("--cajeta={}", copy.display());
    let program = profile.fresh("ok")?;
    let Ok(mut first) = profile.start(&folder, &[&flag]) else {
        let why = "With a compiler that is not there the server does not start.";
        profile.judge.not_applicable(RULE, why);
        return Ok(());
    };
    first.call("compile", &program.arguments());
    fs::copy(&compiler, &copy).map_err(|error| format!("{}: {error}", compiler.display()))?;
    let works = |server: &mut Server| compiles(server, &program);
    let same_process = works(&mut first);
    first.stop(profile.options);
    if same_process {
        profile.judge.holds(RULE);
        return Ok(());
    }
    // The server may look for its compiler at the start only, or the copy may be no compiler.
    let mut next = profile.start(&folder, &[&flag])?;
    if works(&mut next) {
        let note = "A compiler that was missing is found by the next process only.";
        profile.judge.note(RULE, note);
        next.stop(profile.options);
        return Ok(());
    }
    let elsewhere = temporary()?;
    let mut other = profile.start(&elsewhere, &[&flag])?;
    let elsewhere_works = works(&mut other);
    other.stop(profile.options);
    if !elsewhere_works {
        next.stop(profile.options);
        let why = "A copy of the compiler does not work.";
        profile.judge.not_applicable(RULE, why);
        return Ok(());
    }
    profile.rule("cache.failure", false, &next, || {
        "A call failed as the compiler was missing. The compiler is there now, and on the same cache folder the call still fails; on another one it works.".to_owned()
    });
    next.stop(profile.options);
    Ok(())
}

fn compiles(server: &mut Server, program: &Program) -> bool {
    let said = server.call("compile", &program.arguments());
    matches!(said, Said::Fields(f) if f.get("exitStatus").and_then(Value::as_i64) == Some(0))
}

/// The key is made of the request and the toolchain: a variable that is no setting is not in it.
pub(super) fn environment(profile: &mut Profile<'_>) -> Done {
    const RULE: &str = "toolchain.cache.environment";
    let folder = temporary()?;
    let program = profile.fresh("ok")?;
    let start = |variables: &[(&str, &str)]| {
        let flags = [format!("--cache-dir={}", folder.path().display())];
        let (options, processes) = (profile.options, profile.processes);
        Server::start(options, profile.revision, &flags, variables, processes)
    };
    let mut first = start(&[])?;
    hit(&mut first, "jit_execute", &program)?;
    first.stop(profile.options);
    let mut noisy = start(&NOISE)?;
    let again = hit(&mut noisy, "jit_execute", &program)?;
    if !again {
        let mut quiet = start(&[])?;
        let kept = hit(&mut quiet, "jit_execute", &program)?;
        quiet.stop(profile.options);
        if !kept {
            noisy.stop(profile.options);
            profile.judge.blocked(RULE, "toolchain.cache.restart");
            return Ok(());
        }
    }
    profile.rule("cache.environment", again, &noisy, || {
        format!(
            "With {} in the environment the request is a miss; without, it is a hit.",
            NOISE.map(|(name, _)| name).join(" and ")
        )
    });
    noisy.stop(profile.options);
    Ok(())
}
