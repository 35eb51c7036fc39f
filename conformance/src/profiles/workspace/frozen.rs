//! Frozen specifications: what a patch may not change, and what it may.

use serde_json::{Value, json};

use super::server::{Host, Said, Server};
use super::{Done, Profile};

const CODE: &str = "V8020";

/// The changes of the pack that are refused, and words of which the message has one.
const CLAUSES: &[(&str, &[&str])] = &[
    ("signature", &["signature"]),
    ("effect-row", &["effect"]),
    ("error-union", &["error", "fail"]),
    ("requires", &["requires"]),
    ("ensures", &["ensures"]),
    ("where", &["where", "refine"]),
    ("test", &["test", "body", "doubles"]),
    ("property", &["property", "body", "doubling"]),
];

/// What is not a clause may change: bodies, layout, new symbols.
const FREE: [&str; 3] = ["body", "layout", "added"];

/// `--frozen-specs all`: each clause.
pub(super) fn all(profile: &mut Profile<'_>) -> Done {
    let folder = profile.folder()?;
    let mut server = profile.start(Host {
        folder: Some(folder.path()),
        frozen: Some("all"),
        ..Host::default()
    })?;
    let base = server.head()?;
    for (name, words) in CLAUSES {
        refused(profile, &mut server, &base, name, words)?;
    }
    for name in FREE {
        passes(profile, &mut server, &base, name)?;
    }
    server.stop(profile.options);
    Ok(())
}

/// The messages of the V8020 diagnostics in a value.
fn messages(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().flat_map(messages).collect(),
        Value::Object(members) => {
            let own = (members.get("code").and_then(Value::as_str) == Some(CODE))
                .then(|| members.get("message").and_then(Value::as_str))
                .flatten();
            let inner = members.values().flat_map(messages);
            own.into_iter().chain(inner).collect()
        }
        _ => Vec::new(),
    }
}

fn refused(
    profile: &mut Profile<'_>,
    server: &mut Server,
    base: &str,
    name: &str,
    words: &[&str],
) -> Done {
    let change = profile.pack.change(name)?.clone();
    let patch = server.try_patch(base, &profile.pack.edits(&change)?)?;
    let told = messages(&patch);
    profile.rule("frozen.check-patch", !told.is_empty(), server, || {
        format!("`check_patch` does not report {CODE} for a patch that changes a frozen clause ({name}).")
    });
    let said = server.apply_patch(base, &patch);
    let content = said.content().cloned().unwrap_or_default();
    let why = messages(&content);
    // With `isError` or without: what counts is that no snapshot was made, and why.
    let same = |id: &Value| id.as_str() == Some(base);
    let made_none = content.get("snapshot").is_none_or(same);
    let holds = !why.is_empty() && made_none;
    profile.rule(&format!("frozen.{name}"), holds, server, || {
        format!("`apply_patch` of a patch that changes a frozen clause ({name}) gave {}; a refusal with {CODE} is required.", said.describe())
    });
    if let Some(message) = why.first() {
        let message = message.to_lowercase();
        let names = words.iter().any(|word| message.contains(word));
        profile.rule("frozen.names-clause", names, server, || {
            format!("{CODE} for a frozen clause ({name}) does not name it: {message}")
        });
    }
    let head = server.head()?;
    profile.rule("frozen.lands-nowhere", head == base, server, || {
        format!("After a refused patch ({name}) the head is {head}, not {base}.")
    });
    Ok(())
}

fn passes(profile: &mut Profile<'_>, server: &mut Server, base: &str, name: &str) -> Done {
    let edits = profile.pack.edits(profile.pack.change(name)?)?;
    let patch = server.try_patch(base, &edits)?;
    let said = server.apply_patch(base, &patch);
    let holds = matches!(said, Said::Result(_)) && messages(&patch).is_empty();
    profile.rule("frozen.free", holds, server, || {
        format!(
            "A patch that changes no frozen clause ({name}) is refused: {}.",
            said.describe()
        )
    });
    Ok(())
}

/// `--frozen-specs SYMBOL`: that symbol, and no other.
pub(super) fn symbol(profile: &mut Profile<'_>) -> Done {
    const RULE: &str = "frozen.symbol";
    let (folder, mut server) = profile.on_folder()?;
    let base = server.head()?;
    let change = profile.pack.change("ensures")?.clone();
    let query = json!({"snapshot": base, "name": change.symbol});
    let found = server.good("symbol_query", &query)?;
    server.stop(profile.options);
    let id = found.pointer("/symbols/0/id").and_then(Value::as_str);
    let id = id.ok_or("`symbol_query` gives no id")?.to_owned();

    let mut server = profile.start(Host {
        folder: Some(folder.path()),
        frozen: Some(&id),
        ..Host::default()
    })?;
    let base = server.head()?;
    let patch = server.try_patch(&base, &profile.pack.edits(&change)?)?;
    let said = server.apply_patch(&base, &patch);
    let refused = said.content().is_some_and(|c| !messages(c).is_empty());
    profile.rule(RULE, refused, &server, || {
        format!(
            "With `--frozen-specs {id}` a patch of its `ensures` gave {}.",
            said.describe()
        )
    });
    let other = profile.pack.change("removed")?;
    let patch = server.try_patch(&base, &profile.pack.edits(other)?)?;
    let said = server.apply_patch(&base, &patch);
    profile.rule(RULE, matches!(said, Said::Result(_)), &server, || {
        format!(
            "With `--frozen-specs {id}` a patch of another symbol is refused: {}.",
            said.describe()
        )
    });
    server.stop(profile.options);
    Ok(())
}
