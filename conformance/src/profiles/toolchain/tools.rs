//! The five tools: results, refusals, and what a run may leave behind.

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::server::{Said, Server};
use super::{Profile, Program, TOOLS, describe, temporary};

type Done = Result<(), String>;

pub(super) fn skills(profile: &mut Profile<'_>) -> Done {
    let folder = temporary()?;
    let mut server = profile.start(&folder, &[])?;
    let missing = server.missing_tool(&TOOLS);
    profile.rule("tools", missing.is_none(), &server, || {
        format!("The tool `{}` is not listed.", missing.unwrap_or(""))
    });
    let said = server.call("listSkills", &json!({}));
    let listed = array(profile, &server, "skills.list", said, "skills");
    let uris: Vec<Value> = listed
        .iter()
        .filter_map(|skill| skill.get("uri").or_else(|| skill.get("id")).cloned())
        .take(2)
        .collect();
    let said = server.call("searchSkills", &json!({"name": "touchstone-no-such-skill"}));
    array(profile, &server, "skills.search", said, "results");
    let said = server.call("searchSkills", &json!({"name": "a"}));
    array(profile, &server, "skills.search", said, "results");
    let said = server.call("getSkills", &json!({"uris": uris}));
    array(profile, &server, "skills.get", said, "skills");
    let bad = [
        ("searchSkills", json!({})),
        ("searchSkills", json!({"name": 5})),
        ("getSkills", json!({})),
        ("getSkills", json!({"uris": "cja-skill://x"})),
    ];
    for (tool, arguments) in bad {
        refused(profile, &mut server, "skills.invalid", tool, &arguments);
    }
    let entries = std::fs::read_dir(folder.path()).map_or(0, Iterator::count);
    profile.rule("skills.not-cached", entries == 0, &server, || {
        format!("After skill calls alone the cache folder has {entries} entries.")
    });
    server.stop(profile.options);
    Ok(())
}

/// The array under that member; without one the rule is broken.
fn array(
    profile: &mut Profile<'_>,
    server: &Server,
    rule: &str,
    said: Said,
    member: &str,
) -> Vec<Value> {
    let Some(fields) = profile.fields(rule, server, said, "A skill call") else {
        return Vec::new();
    };
    let list = fields.get(member).and_then(Value::as_array).cloned();
    profile.rule(rule, list.is_some(), server, || {
        format!("The result has no array `{member}`.")
    });
    list.unwrap_or_default()
}

/// The call must be refused with -32602. A modern server may say it with `isError`.
fn refused(
    profile: &mut Profile<'_>,
    server: &mut Server,
    rule: &str,
    tool: &str,
    arguments: &Value,
) {
    let said = server.call(tool, arguments);
    let holds = matches!(said, Said::Refused(Some(-32602)));
    profile.rule(rule, holds, server, || {
        format!(
            "`{tool}` with {arguments} gave {}; error -32602 is required.",
            describe(&said)
        )
    });
}

pub(super) fn compile(profile: &mut Profile<'_>) -> Done {
    let folder = temporary()?;
    let mut server = profile.start(&folder, &[])?;
    for name in ["ok", "two-files", "non-ascii", "compile-error"] {
        let program = profile.program(name)?;
        let said = server.call("compile", &program.arguments());
        let rule = if program.compile.success {
            "compile.result"
        } else {
            "run.failure-is-result"
        };
        let Some(fields) = profile.fields(rule, &server, said, &format!("`compile` of `{name}`"))
        else {
            continue;
        };
        profile.rule(rule, true, &server, String::new);
        compile_result(profile, &server, &program, &fields);
    }
    server.stop(profile.options);
    Ok(())
}

fn compile_result(
    profile: &mut Profile<'_>,
    server: &Server,
    program: &Program,
    fields: &Map<String, Value>,
) {
    let name = &program.name;
    let status = fields.get("exitStatus").and_then(Value::as_i64);
    let lines: Option<Vec<&str>> = fields
        .get("diagnostics")
        .and_then(Value::as_array)
        .and_then(|list| list.iter().map(Value::as_str).collect());
    let shape = status.is_some()
        && lines.is_some()
        && fields.get("cacheHit").is_some_and(Value::is_boolean);
    profile.rule("compile.result", shape, server, || {
        format!("`compile` of `{name}`: `exitStatus`, `diagnostics` or `cacheHit` is missing or of another type.")
    });
    let good = program.compile.success;
    profile.rule(
        "compile.exit-status",
        status.is_some_and(|s| (s == 0) == good),
        server,
        || format!("`compile` of `{name}` gave exitStatus {status:?}."),
    );
    let artifact = fields.get("artifact").and_then(Value::as_str);
    let decodes = artifact.is_some_and(|text| {
        base64::engine::general_purpose::STANDARD
            .decode(text)
            .is_ok_and(|bytes| !bytes.is_empty())
    });
    let holds = if status == Some(0) {
        decodes
    } else {
        !fields.contains_key("artifact")
    };
    profile.rule("compile.artifact", holds, server, || match status {
        Some(0) => format!("`compile` of `{name}` succeeded, but `artifact` is no base64."),
        _ => format!("`compile` of `{name}` failed, but there is an `artifact`."),
    });
    let lines = lines.unwrap_or_default();
    let missing = program
        .compile
        .diagnostics
        .iter()
        .find(|text| !lines.iter().any(|line| line.contains(text.as_str())));
    let empty = lines.iter().any(|line| line.trim().is_empty());
    profile.rule(
        "compile.diagnostics",
        missing.is_none() && !empty,
        server,
        || match missing {
            Some(text) => format!("No line of `diagnostics` of `{name}` holds `{text}`."),
            None => format!("`diagnostics` of `{name}` has an empty line."),
        },
    );
}

pub(super) fn run(profile: &mut Profile<'_>) -> Done {
    let folder = temporary()?;
    let mut server = profile.start(&folder, &[])?;
    let names = [
        "ok",
        "returns-7",
        "prints",
        "prints-stderr",
        "two-files",
        "non-ascii",
        "runtime-failure",
        "compile-error",
        "missing-entry",
        "missing-class",
    ];
    for name in names {
        let program = profile.program(name)?;
        run_one(profile, &mut server, &program);
    }
    for (rule, name) in [
        ("run.fresh-process", "counts"),
        ("run.leaves-nothing", "leaves-file"),
    ] {
        for _ in 0..2 {
            let program = profile.fresh(name)?;
            let said = server.call("jit_execute", &program.arguments());
            let Some(fields) = profile.fields(rule, &server, said, "`jit_execute`") else {
                continue;
            };
            let (got, wanted) = (
                fields.get("exitStatus").and_then(Value::as_i64),
                program.run.exit_status,
            );
            profile.rule(rule, got == wanted, &server, || {
                format!("`{name}` gave exitStatus {got:?}, not {wanted:?}: something is kept from an earlier run.")
            });
        }
    }
    let program = profile.program("reads-stdin")?;
    let said = server.call("jit_execute", &program.arguments());
    let ended =
        matches!(&said, Said::Fields(f) if f.get("exitStatus").and_then(Value::as_i64) == Some(0));
    profile.rule("run.no-stdin", ended, &server, || {
        format!("A program that reads its stdin: {}.", describe(&said))
    });
    let strange = server.strange_lines();
    profile.rule("output-clean", strange == 0, &server, || {
        format!("{strange} lines of the server's output are no messages.")
    });
    server.stop(profile.options);
    Ok(())
}

fn run_one(profile: &mut Profile<'_>, server: &mut Server, program: &Program) {
    let name = &program.name;
    let said = server.call("jit_execute", &program.arguments());
    let failing = program.run.exit_status != Some(0);
    let rule = if failing {
        "run.failure-is-result"
    } else {
        "run.result"
    };
    let Some(fields) = profile.fields(rule, server, said, &format!("`jit_execute` of `{name}`"))
    else {
        return;
    };
    profile.rule(rule, true, server, String::new);
    let int = |member: &str| fields.get(member).and_then(Value::as_i64);
    let text = |member: &str| fields.get(member).and_then(Value::as_str);
    let status = int("exitStatus");
    let shape = status.is_some()
        && int("returnValue") == status
        && text("stdout").is_some()
        && text("stderr").is_some()
        && fields.get("cacheHit").is_some_and(Value::is_boolean);
    profile.rule("run.result", shape, server, || {
        format!("`jit_execute` of `{name}`: a member is missing or of another type, or `returnValue` is not `exitStatus`.")
    });
    let right = match program.run.exit_status {
        Some(wanted) => status == Some(wanted),
        None => status.is_some_and(|status| status != 0),
    };
    profile.rule("run.exit-status", right, server, || {
        format!("`jit_execute` of `{name}` gave exitStatus {status:?}.")
    });
    let stdout = text("stdout").unwrap_or_default();
    let stderr = text("stderr").unwrap_or_default();
    let exact = program
        .run
        .stdout
        .as_deref()
        .is_none_or(|wanted| wanted == stdout);
    let holds =
        |whole: &str, parts: &[String]| parts.iter().all(|part| whole.contains(part.as_str()));
    profile.rule(
        "run.stdout",
        exact && holds(stdout, &program.run.stdout_contains),
        server,
        || format!("`stdout` of `{name}` is {stdout:?}."),
    );
    if !program.run.stderr_contains.is_empty() {
        profile.rule(
            "run.stderr",
            holds(stderr, &program.run.stderr_contains),
            server,
            || format!("`stderr` of `{name}` lacks what the program wrote: {stderr:?}."),
        );
    }
}

pub(super) fn invalid(profile: &mut Profile<'_>) -> Done {
    let folder = temporary()?;
    let mut server = profile.start(&folder, &[])?;
    let good = profile.program("ok")?;
    let bad = [
        json!({"entry": good.entry}),
        json!({"files": good.files}),
        json!({"files": {}, "entry": good.entry}),
        json!({"files": [], "entry": good.entry}),
        json!({"files": "x", "entry": good.entry}),
        json!({"files": good.files, "entry": 5}),
    ];
    for (rule, tool) in [
        ("compile.invalid", "compile"),
        ("run.invalid", "jit_execute"),
    ] {
        for arguments in &bad {
            refused(profile, &mut server, rule, tool, arguments);
        }
    }
    server.stop(profile.options);
    Ok(())
}

/// A compiler that is not there. A server that does not even start with it says so too.
pub(super) fn internal_error(profile: &mut Profile<'_>) -> Done {
    const RULE: &str = "internal-error";
    let folder = temporary()?;
    let program = profile.program("ok")?;
    let nowhere = format!(
        "--cajeta={}",
        folder.path().join("no-such-compiler").display()
    );
    let mut server = match profile.start(&folder, &[&nowhere]) {
        Ok(server) => server,
        Err(why) => {
            profile.judge.note(
                "toolchain.internal-error",
                format!("With a compiler that is not there the server does not start: {why}."),
            );
            return Ok(());
        }
    };
    let said = server.call("compile", &program.arguments());
    profile.rule(
        RULE,
        matches!(said, Said::Refused(Some(-32603))),
        &server,
        || {
            format!(
                "`compile` without a compiler gave {}; error -32603 is required.",
                describe(&said)
            )
        },
    );
    server.stop(profile.options);
    Ok(())
}
