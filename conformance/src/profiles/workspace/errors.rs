//! Errors that say what was wrong, and requests that do not disturb each other.

use serde_json::{Value, json};

use super::look;
use super::server::{Host, Said, Server};
use super::{Done, Profile};

/// Ids of the right form that name nothing.
const NO_SNAPSHOT: &str = "s_0000000000000000000000000000000000000000000000000000000000000000";

pub(super) fn errors(profile: &mut Profile<'_>) -> Done {
    let described = profile.pack.described.clone();
    let (_folder, mut server) = profile.on_folder()?;
    let base = server.head()?;
    let edits = json!([{"path": described.path, "text": described.text}]);
    for (tool, arguments) in [
        ("check", json!({"snapshot": NO_SNAPSHOT})),
        (
            "symbol_query",
            json!({"snapshot": NO_SNAPSHOT, "name": described.symbol}),
        ),
        (
            "hole_context",
            json!({"snapshot": NO_SNAPSHOT, "hole_id": described.hole}),
        ),
        ("format", json!({"snapshot": NO_SNAPSHOT})),
        (
            "check_patch",
            json!({"snapshot": NO_SNAPSHOT, "edits": edits}),
        ),
        ("test", json!({"snapshot": NO_SNAPSHOT})),
    ] {
        told(profile, &mut server, "errors.snapshot", tool, &arguments);
    }
    let unknown = [
        (
            "errors.hole",
            "hole_context",
            json!({"snapshot": base, "hole_id": "no-such-hole"}),
        ),
        (
            "errors.patch",
            "apply_patch",
            json!({"snapshot": base, "patch_id": "no-such-patch"}),
        ),
        (
            "errors.symbol",
            "symbol_query",
            json!({"snapshot": base, "id": "no::such_symbol"}),
        ),
        (
            "errors.code",
            "explain_diagnostic",
            json!({"code": "V0000"}),
        ),
        (
            "errors.path",
            "check",
            json!({"snapshot": base, "paths": ["no/such.sakura"]}),
        ),
    ];
    for (rule, tool, arguments) in unknown {
        told(profile, &mut server, rule, tool, &arguments);
    }
    for (tool, arguments) in [
        ("check", json!({})),
        ("check", json!({"snapshot": 5})),
        ("hole_context", json!({"snapshot": base})),
        ("check_patch", json!({"snapshot": base})),
        ("check_patch", json!({"snapshot": base, "edits": "none"})),
        ("format", json!({"snapshot": base, "paths": "all"})),
        ("test", json!({"snapshot": base, "seed": "seven"})),
    ] {
        told(profile, &mut server, "errors.argument", tool, &arguments);
    }
    server.stop(profile.options);
    Ok(())
}

/// The call must give a tool error with `{error: {kind, message}}`.
fn told(profile: &mut Profile<'_>, server: &mut Server, rule: &str, tool: &str, arguments: &Value) {
    let said = server.call(tool, arguments);
    let word = |at: &str| {
        let content = said.content()?;
        content
            .pointer(at)
            .and_then(Value::as_str)
            .map(|text| !text.trim().is_empty())
    };
    let holds = matches!(said, Said::ToolError(_))
        && word("/error/kind") == Some(true)
        && word("/error/message") == Some(true);
    profile.rule(rule, holds, server, || {
        format!("`{tool}` with {arguments} gave {}; a tool error with `{{error: {{kind, message}}}}` is required.", said.describe())
    });
}

/// Calls on many snapshots at once give what each gives alone.
pub(super) fn parallel(profile: &mut Profile<'_>) -> Done {
    let pack = profile.pack.clone();
    let mut server = profile.start(Host::default())?;
    let base = server.head()?;
    let mut calls: Vec<(&str, Value)> = Vec::new();
    for (n, mistake) in pack.mistakes.iter().enumerate() {
        let path = format!("side{n}.sakura");
        let snapshot = server.with_file(&base, &path, &mistake.text)?;
        let edits = json!([{"path": path, "text": pack.layout.text}]);
        calls.extend([
            ("check", json!({"snapshot": snapshot})),
            ("check_patch", json!({"snapshot": snapshot, "edits": edits})),
        ]);
    }
    let tests = server.with_file(&base, &pack.tests.path, &pack.tests.text)?;
    for seed in 1..4 {
        calls.push(("test", json!({"snapshot": tests, "seed": seed})));
        calls.push(("format", json!({"snapshot": tests})));
    }
    let alone: Vec<Said> = calls
        .iter()
        .map(|(tool, arguments)| server.call(tool, arguments))
        .collect();
    let together = server.call_all(&calls);
    let plain = |said: &Said| said.content().map(look::timeless);
    let differs = (0..calls.len()).find(|n| plain(&alone[*n]) != plain(&together[*n]));
    profile.rule("parallel", differs.is_none(), &server, || {
        let (tool, arguments) = differs.map_or(("", Value::Null), |n| calls[n].clone());
        let said = differs.map_or_else(String::new, |n| together[n].describe());
        format!("`{tool}` with {arguments}, called with others at once, gave something else than alone: {said}.")
    });
    server.stop(profile.options);
    Ok(())
}
