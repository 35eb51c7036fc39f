//! Snapshots: their names, that nothing changes them, and the head.

use std::fs::{self, File};
use std::path::Path;

use serde_json::{Value, json};

use super::look;
use super::server::{Host, Said, Server};
use super::{Done, Profile, TOOLS, folder_of, temporary, write};

pub(super) fn tools(profile: &mut Profile<'_>) -> Done {
    let mut server = profile.start(Host::default())?;
    let listed = server.tools();
    let missing = TOOLS.iter().find(|name| !listed.contains_key(**name));
    profile.rule("tools", missing.is_none(), &server, || {
        format!("The tool `{}` is not listed.", missing.unwrap_or(&""))
    });
    server.stop(profile.options);
    Ok(())
}

/// The head of a process on this folder.
fn head_of(profile: &Profile<'_>, folder: &Path) -> Result<(String, Server), String> {
    let mut server = profile.start(Host {
        folder: Some(folder),
        ..Host::default()
    })?;
    let head = server.head()?;
    Ok((head, server))
}

/// Equal content has an equal id: whatever the order of files or edits, in every process.
pub(super) fn identity(profile: &mut Profile<'_>) -> Done {
    let pack = profile.pack.clone();
    let files = || pack.files.iter().map(|(p, t)| (p.as_str(), t.as_str()));
    let forward = folder_of(files())?;
    let backward = folder_of(files().rev())?;
    let (id, mut server) = head_of(profile, forward.path())?;
    let hex = id.strip_prefix("s_").unwrap_or_default();
    let form = hex.len() == 64 && hex.chars().all(|c| c.is_ascii_hexdigit());
    profile.rule("snapshot.form", form, &server, || {
        format!("The id `{id}` is not `s_` and the 64 hexadecimal digits of a SHA-256.")
    });
    let (again, other) = head_of(profile, backward.path())?;
    profile.rule("snapshot.same-content", id == again, &other, || {
        format!("Two processes name the same files `{id}` and `{again}`.")
    });
    other.stop(profile.options);

    let one = json!({"path": "order_one.sakura", "text": pack.described.text});
    let two = json!({"path": "order_two.sakura", "text": pack.layout.again});
    let first = server.edited(&id, &json!([one, two]))?;
    let second = server.edited(&id, &json!([two, one]))?;
    profile.rule("snapshot.order", first == second, &server, || {
        format!("The same edits in another order give `{second}`, not `{first}`.")
    });
    let renamed = json!([{"path": "renamed.sakura", "text": pack.described.text}]);
    let renamed = server.edited(&id, &renamed)?;
    let kept = server.with_file(&id, "order_one.sakura", &pack.described.text)?;
    let text = server.with_file(&id, "order_one.sakura", &pack.layout.again)?;
    let ids = [&id, &first, &renamed, &kept, &text];
    let distinct = (0..ids.len()).all(|a| (0..a).all(|b| ids[a] != ids[b]));
    profile.rule("snapshot.different-content", distinct, &server, || {
        "Files that differ in text or path alone have the same snapshot id.".to_owned()
    });
    server.stop(profile.options);
    Ok(())
}

/// What an existing snapshot says, for comparing.
fn seen(server: &mut Server, snapshot: &str, symbol: &str) -> Result<Value, String> {
    let symbols = server.good(
        "symbol_query",
        &json!({"snapshot": snapshot, "name": symbol}),
    )?;
    let checked = server.good("check", &json!({"snapshot": snapshot}))?;
    Ok(look::timeless(&json!([symbols, checked])))
}

/// Patches and changes of the folder leave a snapshot as it was.
pub(super) fn immutable(profile: &mut Profile<'_>) -> Done {
    let (folder, mut server) = profile.on_folder()?;
    let base = server.head()?;
    let change = profile.pack.change("removed")?.clone();
    let before = seen(&mut server, &base, &change.symbol)?;
    let edits = profile.pack.edits(&change)?;
    server.edited(&base, &edits)?;
    let mistake = profile.pack.change("mistake")?;
    let broken = profile.pack.files_after(mistake)?;
    write(folder.path(), &mistake.path, &broken[&mistake.path])?;
    server.head()?;
    let after = seen(&mut server, &base, &change.symbol)?;
    profile.rule("snapshot.immutable", before == after, &server, || {
        format!("After a patch and a change of the folder `symbol_query` and `check` say something else of {base}.")
    });
    server.stop(profile.options);
    Ok(())
}

/// Every result says which snapshot it is about.
pub(super) fn named(profile: &mut Profile<'_>) -> Done {
    let described = profile.pack.described.clone();
    let code = profile.pack.mistakes.first().map(|m| m.text.clone());
    let (_folder, mut server) = profile.on_folder()?;
    let base = server.head()?;
    let snapshot = server.with_file(&base, &described.path, &described.text)?;
    let wrong = server.with_file(&base, "wrong.sakura", &code.unwrap_or_default())?;
    let checked = server.good("check", &json!({"snapshot": wrong}))?;
    let code = look::codes(&checked)
        .first()
        .copied()
        .unwrap_or_default()
        .to_owned();
    let checked = server.good("check", &json!({"snapshot": snapshot}))?;
    let hole = look::array(&checked, "holes")
        .first()
        .and_then(|hole| hole.get("id"))
        .cloned()
        .unwrap_or_default();
    let edits = json!([{"path": described.path, "text": null}]);
    let patch = server.try_patch(&snapshot, &edits)?;
    let calls = [
        ("compiler_info", json!({})),
        ("check", json!({"snapshot": snapshot})),
        (
            "symbol_query",
            json!({"snapshot": snapshot, "name": described.symbol}),
        ),
        (
            "hole_context",
            json!({"snapshot": snapshot, "hole_id": hole}),
        ),
        ("docs_query", json!({"symbol": described.symbol})),
        ("explain_diagnostic", json!({"code": code})),
        ("format", json!({"snapshot": snapshot})),
        ("check_patch", json!({"snapshot": snapshot, "edits": edits})),
        ("test", json!({"snapshot": snapshot})),
        (
            "apply_patch",
            json!({"snapshot": snapshot, "patch_id": patch.get("patch_id")}),
        ),
    ];
    for (tool, arguments) in calls {
        // A call that fails is judged by the rules of its tool.
        let Said::Result(result) = server.call(tool, &arguments) else {
            continue;
        };
        let names = result.get("snapshot").is_some_and(Value::is_string);
        profile.rule("snapshot.named", names, &server, || {
            format!("The result of `{tool}` has no `snapshot`.")
        });
    }
    server.stop(profile.options);
    Ok(())
}

/// The head is the folder, or empty, and follows the folder.
pub(super) fn head(profile: &mut Profile<'_>) -> Done {
    let pack = profile.pack.clone();
    let (folder, mut server) = profile.on_folder()?;
    let head = server.head()?;
    for (path, function) in &pack.functions {
        let found = server.call("symbol_query", &json!({"name": function, "snapshot": head}));
        let holds = matches!(&found, Said::Result(v) if look::mentions(v, path));
        profile.rule("head.folder", holds, &server, || {
            format!(
                "`{function}` of {path} is not found in the head: {}.",
                found.describe()
            )
        });
    }
    write(folder.path(), "notes.txt", "not a source")?;
    let same = server.head()?;
    profile.rule("head.folder", same == head, &server, || {
        format!("With a file that is no source the head is {same}, not {head}.")
    });
    let later = folder.path().join("later/moved.sakura");
    write(
        folder.path(),
        "later/moved.sakura",
        &format!("{}\n\n", pack.described.text),
    )?;
    let moved = server.head()?;
    let symbol = &pack.described.symbol;
    let found = server.call("symbol_query", &json!({"snapshot": moved, "name": symbol}));
    let holds =
        moved != head && matches!(&found, Said::Result(v) if look::mentions(v, "moved.sakura"));
    profile.rule("head.moves", holds, &server, || {
        format!("After a file was added to the folder `compiler_info` gives {moved}; a symbol of that file: {}.", found.describe())
    });
    replace(&later, &format!("{} \n", pack.described.text))?;
    let edited = server.head()?;
    profile.rule("head.moves", edited != moved, &server, || {
        format!("After a file was replaced by one of the same size and modification time `compiler_info` still gives {moved}.")
    });
    names(profile, &mut server, folder.path(), &edited)?;
    server.stop(profile.options);

    let nothing = temporary()?;
    let (of_folder, other) = head_of(profile, nothing.path())?;
    other.stop(profile.options);
    let mut server = profile.start(Host::default())?;
    let head = server.head()?;
    profile.rule("head.empty", head == of_folder, &server, || {
        format!("Without a folder the head is {head}; of an empty folder it is {of_folder}.")
    });
    let function = pack.functions.values().next().cloned().unwrap_or_default();
    let found = server.call("symbol_query", &json!({"snapshot": head, "name": function}));
    let empty = match &found {
        Said::Result(value) => look::array(value, "symbols").is_empty(),
        other => matches!(other, Said::ToolError(_)),
    };
    profile.rule("head.empty", empty, &server, || {
        format!("The empty snapshot has `{function}`.")
    });
    server.stop(profile.options);
    Ok(())
}

/// Puts another text in the place of a file, with the modification time of before.
fn replace(file: &Path, text: &str) -> Done {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let new = file.with_extension("new");
    let modified = fs::metadata(file).and_then(|data| data.modified());
    let modified = modified.map_err(failed)?;
    fs::write(&new, text).map_err(failed)?;
    let written = File::options().write(true).open(&new).map_err(failed)?;
    written.set_modified(modified).map_err(failed)?;
    fs::rename(&new, file).map_err(failed)
}

/// Two files whose names look the same: composed letters, and letters with marks of their own.
fn names(profile: &mut Profile<'_>, server: &mut Server, folder: &Path, before: &str) -> Done {
    const RULE: &str = "head.names";
    let text = &profile.pack.described.text.clone();
    let mut last = before.to_owned();
    for (count, name) in ["caf\u{e9}.sakura", "cafe\u{301}.sakura"]
        .iter()
        .enumerate()
    {
        write(folder, &format!("names/{name}"), text)?;
        let files = fs::read_dir(folder.join("names")).map_or(0, Iterator::count);
        if files <= count {
            let why = "The file system takes two such names for one.";
            profile.judge.not_applicable("workspace.head.names", why);
            return Ok(());
        }
        let head = server.head()?;
        profile.rule(RULE, head != last, server, || {
            format!("After the file {name:?} was added to the folder `compiler_info` still gives {head}.")
        });
        last = head;
    }
    Ok(())
}
