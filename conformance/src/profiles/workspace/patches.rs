//! Edits, patches and what they change in interfaces.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::look;
use super::server::{Host, Said, Server, snapshot_of};
use super::{Done, Profile, folder_of};

/// The snapshot id of these files, from a process of its own.
fn id_of(profile: &Profile<'_>, files: &BTreeMap<String, String>) -> Result<String, String> {
    let folder = folder_of(files.iter().map(|(p, t)| (p.as_str(), t.as_str())))?;
    let mut server = profile.start(Host {
        folder: Some(folder.path()),
        ..Host::default()
    })?;
    let id = server.head()?;
    server.stop(profile.options);
    Ok(id)
}

/// Whole files, ranges, and deletions lead to the text that they say.
pub(super) fn edits(profile: &mut Profile<'_>) -> Done {
    let pack = profile.pack.clone();
    let (_folder, mut server) = profile.on_folder()?;
    let base = server.head()?;
    let mistake = pack.mistakes.iter().find(|m| !m.text.is_ascii());
    let mistake = mistake.ok_or("the pack has no mistake behind letters beyond ASCII")?;
    let path = "edited.sakura";
    let mut files = pack.files.clone();

    files.insert(path.to_owned(), mistake.text.clone());
    let wanted = id_of(profile, &files)?;
    let whole = server.edited(&base, &json!([{"path": path, "text": mistake.text}]));
    came_to(profile, &server, "edits.whole", &wanted, &whole);
    let whole = whole?;

    // The range is one that the server gave itself.
    let checked = server.good("check", &json!({"snapshot": whole}))?;
    let found = look::errors(&checked);
    let of_path = |d: &&&Value| d.get("path").and_then(Value::as_str) == Some(path);
    let range = found
        .iter()
        .find(of_path)
        .and_then(|d| d.get("range"))
        .ok_or("`check` gives no range for a mistake")?;
    let edit = json!({"path": path, "range": range, "text": "\"x\""});
    let text = look::edited(&mistake.text, path, std::slice::from_ref(&edit))?;
    files.insert(path.to_owned(), text);
    let wanted = id_of(profile, &files)?;
    let ranged = server.edited(&whole, &json!([edit]));
    came_to(profile, &server, "edits.range", &wanted, &ranged);

    let deleted = server.edited(&whole, &json!([{"path": path, "text": null}]));
    came_to(profile, &server, "edits.delete", &base, &deleted);
    server.stop(profile.options);
    Ok(())
}

fn came_to(
    profile: &mut Profile<'_>,
    server: &Server,
    rule: &str,
    wanted: &str,
    came: &Result<String, String>,
) {
    let holds = came.as_deref() == Ok(wanted);
    profile.rule(rule, holds, server, || match came {
        Ok(id) => {
            format!("The edits lead to {id}; a folder with the text that they say is {wanted}.")
        }
        Err(why) => format!("The edits were not applied: {why}."),
    });
}

/// The files of a folder, by path.
fn contents(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut files = BTreeMap::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(at) = todo.pop() {
        let error = |error: std::io::Error| format!("{}: {error}", at.display());
        for entry in fs::read_dir(&at).map_err(error)? {
            let path = entry.map_err(error)?.path();
            if path.is_dir() {
                todo.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap_or(&path);
                files.insert(name.display().to_string(), fs::read(&path).map_err(error)?);
            }
        }
    }
    Ok(files)
}

/// A patch leads from its own snapshot to the patched text, and conflicts with any other.
pub(super) fn apply(profile: &mut Profile<'_>) -> Done {
    let pack = profile.pack.clone();
    let (folder, mut server) = profile.on_folder()?;
    let on_disk = contents(folder.path())?;
    let base = server.head()?;
    let change = pack.change("effect-row")?;
    let other = server.edited(&base, &pack.edits(pack.change("body")?)?)?;
    let patch = server.try_patch(&base, &pack.edits(change)?)?;

    let stale = server.apply_patch(&other, &patch);
    conflicts(profile, &server, &stale, "a snapshot of other text");
    let said = server.apply_patch(&base, &patch);
    let wanted = id_of(profile, &pack.files_after(change)?)?;
    let came = match &said {
        Said::Result(value) => snapshot_of(value, "apply_patch"),
        other => Err(other.describe()),
    };
    came_to(profile, &server, "patch.applies", &wanted, &came);
    let stale = server.apply_patch(&wanted, &patch);
    conflicts(profile, &server, &stale, "the snapshot that it led to");

    let now = contents(folder.path())?;
    profile.rule("patch.no-write", now == on_disk, &server, || {
        "Without `--write-back` a patch changed the folder.".to_owned()
    });
    server.stop(profile.options);
    Ok(())
}

fn conflicts(profile: &mut Profile<'_>, server: &Server, said: &Said, what: &str) {
    let conflict = said.content().and_then(|content| content.get("conflict"));
    let holds = conflict.is_some_and(|conflict| !conflict.is_null());
    profile.rule("patch.conflict", holds, server, || {
        format!(
            "A patch applied to {what} gave {}; `conflict` is required.",
            said.describe()
        )
    });
}

/// With `--write-back` a patch of the head is written.
pub(super) fn write_back(profile: &mut Profile<'_>) -> Done {
    let folder = profile.folder()?;
    let mut server = profile.start(Host {
        folder: Some(folder.path()),
        write_back: true,
        ..Host::default()
    })?;
    let base = server.head()?;
    let change = profile.pack.change("body")?;
    let wanted = profile.pack.files_after(change)?;
    let edits = profile.pack.edits(change)?;
    server.edited(&base, &edits)?;
    let now = contents(folder.path())?;
    let same = now.len() == wanted.len()
        && wanted
            .iter()
            .all(|(path, text)| now.get(path).is_some_and(|found| found == text.as_bytes()));
    profile.rule("patch.write-back", same, &server, || {
        "With `--write-back` the folder does not hold what the patch says.".to_owned()
    });
    server.stop(profile.options);
    Ok(())
}

/// `check_patch` tells of the patched text and changes nothing.
pub(super) fn check_patch(profile: &mut Profile<'_>) -> Done {
    let pack = profile.pack.clone();
    let (folder, mut server) = profile.on_folder()?;
    let on_disk = contents(folder.path())?;
    let base = server.head()?;
    let mistake = pack.change("mistake")?;
    let tried = server.try_patch(&base, &pack.edits(mistake)?)?;
    let told = look::errors(&tried)
        .iter()
        .any(|d| d.get("path").and_then(Value::as_str) == Some(&*mistake.path));
    profile.rule("check-patch.diagnoses", told, &server, || {
        "`check_patch` has no error for a patch that does not check.".to_owned()
    });
    let clean = server.try_patch(&base, &pack.edits(pack.change("body")?)?)?;
    let errors = look::errors(&clean).len();
    profile.rule("check-patch.diagnoses", errors == 0, &server, || {
        format!("`check_patch` has {errors} errors for a patch that checks.")
    });

    let added = pack.change("added")?;
    server.try_patch(&base, &pack.edits(added)?)?;
    // Without `snapshot` the head is asked.
    let found = server.good("symbol_query", &json!({"name": added.symbol}))?;
    let unmoved = look::array(&found, "symbols").is_empty();
    profile.rule("check-patch.changes-nothing", unmoved, &server, || {
        format!("After `check_patch` the head has `{}`.", added.symbol)
    });
    let head = server.head()?;
    let kept = head == base && contents(folder.path())? == on_disk;
    profile.rule("check-patch.changes-nothing", kept, &server, || {
        format!("After `check_patch` the head is {head}, not {base}, or the folder has changed.")
    });
    server.stop(profile.options);
    Ok(())
}

/// Which rule a change of the pack is for, and what the delta may call it.
const DELTAS: &[(&str, &str, &[&str])] = &[
    ("signature", "delta.signature", &["signature"]),
    ("effect-row", "delta.effect-row", EFFECTS),
    ("error-union", "delta.error-union", ERRORS),
    ("requires", "delta.contracts", CONTRACTS),
    ("ensures", "delta.contracts", CONTRACTS),
    // A refinement is a contract, and it stands in the signature.
    (
        "where",
        "delta.contracts",
        &["contracts", "contract", "where", "refinements", "signature"],
    ),
    ("added", "delta.added", &["added"]),
    ("removed", "delta.removed", &["removed"]),
];
const EFFECTS: &[&str] = &["effect_row", "effects", "effect"];
const ERRORS: &[&str] = &["error_union", "errors", "error", "failures"];
const CONTRACTS: &[&str] = &["contracts", "contract", "requires", "ensures"];
/// All of them: what the delta must not say of a symbol whose interface is the same.
const ANY: &[&str] = &[
    "signature",
    "effect_row",
    "error_union",
    "contracts",
    "requires",
    "ensures",
    "where",
    "added",
    "removed",
];

/// The interface delta names what changed, and nothing else.
pub(super) fn delta(profile: &mut Profile<'_>) -> Done {
    let pack = profile.pack.clone();
    let (_folder, mut server) = profile.on_folder()?;
    let base = server.head()?;
    for (name, rule, words) in DELTAS {
        let change = pack.change(name)?;
        let tried = server.try_patch(&base, &pack.edits(change)?)?;
        let said = about(&tried, &change.symbol);
        let holds = said.as_ref().is_some_and(|entry| look::says(entry, words));
        profile.rule(rule, holds, &server, || {
            format!(
                "A patch that changes `{}` ({name}): the interface delta says {} of it, not `{}`.",
                change.symbol,
                said.map_or("nothing".to_owned(), |entry| entry.to_string()),
                words.first().unwrap_or(&"")
            )
        });
        let spare = if change.symbol == "spare" {
            "quote"
        } else {
            "spare"
        };
        quiet(profile, &server, &tried, spare, name);
    }
    for name in ["body", "layout"] {
        let change = pack.change(name)?;
        let tried = server.try_patch(&base, &pack.edits(change)?)?;
        quiet(profile, &server, &tried, &change.symbol, name);
    }
    server.stop(profile.options);
    Ok(())
}

fn quiet(profile: &mut Profile<'_>, server: &Server, tried: &Value, symbol: &str, name: &str) {
    let said = about(tried, symbol).filter(|entry| look::says(entry, ANY));
    profile.rule("delta.quiet", said.is_none(), server, || {
        format!("A patch ({name}) that leaves the interface of `{symbol}` as it was: the interface delta tells of it.")
    });
}

/// What the delta says of a symbol: an array of entries, or a member for each symbol.
pub(super) fn about(tried: &Value, symbol: &str) -> Option<Value> {
    match tried.get("interface_delta")? {
        Value::Array(entries) => entries
            .iter()
            .find(|entry| look::is_about(entry, symbol))
            .cloned(),
        Value::Object(members) => {
            let name = |text: &str| look::is_about(&Value::from(text), symbol);
            // By symbol, or by kind of change with symbols in it.
            let own = members.iter().find(|(key, _)| name(key));
            let grouped = || {
                members.iter().find_map(|(key, entries)| {
                    let inner = entries.as_array()?.iter();
                    let found = inner.into_iter().find(|e| look::is_about(e, symbol))?;
                    Some(json!([key, found]))
                })
            };
            own.map(|(_, entry)| entry.clone()).or_else(grouped)
        }
        _ => None,
    }
}
