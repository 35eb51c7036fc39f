//! A foreign or damaged file stops the server at its start, and stays as it was; another file is
//! another memory.

use std::path::Path;
use std::time::Instant;

use serde_json::json;

use crate::checks::exchange::evidence_since;
use crate::client::Reply;
use crate::profiles::process::{Process, spawn};
use crate::verdict::Evidence;

use super::server::{Said, Server};
use super::{Done, Profile, has_vocabulary, items, result_of, server, temporary};

/// A file of somebody else.
pub(super) fn foreign(profile: &mut Profile<'_>) -> Done {
    let folder = temporary()?;
    let foreign = folder.path().join("foreign.db");
    let text = "Dear diary,\nthis is no memory.\n".repeat(200);
    std::fs::write(&foreign, &text).map_err(|error| error.to_string())?;
    refuses(
        profile,
        folder.path(),
        &foreign,
        "files.foreign",
        "a text of somebody else",
    )
}

/// Two memories of one user, the second one new: it shows nothing of the first.
pub(super) fn apart(profile: &mut Profile<'_>) -> Done {
    const RULE: &str = "files.apart";
    let folder = temporary()?;
    let mut old = at_home(profile, folder.path(), "apart-old")?;
    profile.populate(&mut old)?;
    profile.stop(old);
    let mut new = at_home(profile, folder.path(), "apart-new")?;
    if let Some(answer) = profile.answer(RULE, &mut new, "context", &json!({})) {
        profile.rule(RULE, !has_vocabulary(&answer.form), &new, || {
            format!("`context` of a new memory gave {}.", answer.form)
        });
    }
    profile.register(&mut new)?;
    let calls = [
        (
            "recall",
            json!({"query": "[:find ?name ?age :where [?e :person/name ?name] [?e :person/age ?age]]"}),
        ),
        ("recall", json!({"text": "tea"})),
        ("read", json!({"entity": "[:person/name \"Ada\"]"})),
        ("history", json!({"entity": "[:person/name \"Ada\"]"})),
    ];
    for (tool, arguments) in calls {
        // Nothing, or that there is no such thing.
        let said = new.call(tool, &arguments);
        let shown = match &said {
            Said::Answer(answer) if tool == "read" => answer.form.get("person/age").is_some(),
            Said::Answer(answer) => !items(result_of(&answer.form)).is_empty(),
            _ => false,
        };
        profile.rule(RULE, !shown, &new, || {
            format!("Nothing was recorded in this memory. `{tool}` with {arguments} gave {}, as another file has it.", said.describe())
        });
    }
    profile.stop(new);
    Ok(())
}

/// A server on a memory file of that name, whose user's home is the folder.
fn at_home(profile: &Profile<'_>, folder: &Path, name: &str) -> Result<Server, String> {
    let (options, processes) = (profile.options, profile.processes);
    let memory = folder.join(format!("{name}.db"));
    let mut launch = server::configured(options, folder, &memory, name)?;
    if !launch.inherit_home {
        launch.env.push(("HOME".into(), Some(folder.into())));
    }
    let process = Process::start(options, &launch, profile.revision, name, processes)?;
    Ok(Server { process, memory })
}

/// A memory that was cut short, and one whose start was written over.
pub(super) fn damaged(profile: &mut Profile<'_>) -> Done {
    const RULE: &str = "files.damaged";
    let folder = temporary()?;
    let mut server = profile.open(folder.path(), "whole", "whole")?;
    profile.populate(&mut server)?;
    let whole = server.memory.clone();
    profile.stop(server);
    if !whole.is_file() {
        let why = "The memory is not one file, so that the suite cannot damage it.";
        profile.judge.not_applicable("memory.files.damaged", why);
        return Ok(());
    }
    let bytes = std::fs::read(&whole).map_err(|error| error.to_string())?;
    let mut overwritten = bytes.clone();
    overwritten
        .iter_mut()
        .take(200)
        .for_each(|byte| *byte = 0x5a);
    let cases = [
        (
            "damaged-cut",
            &bytes[..bytes.len() / 2],
            "a memory without its second half",
        ),
        (
            "damaged-start",
            &overwritten[..],
            "a memory whose first bytes were written over",
        ),
    ];
    for (name, bytes, what) in cases {
        let file = folder.path().join(format!("{name}.db"));
        std::fs::write(&file, bytes).map_err(|error| error.to_string())?;
        refuses(profile, folder.path(), &file, RULE, what)?;
    }
    Ok(())
}

/// The server must end before it answers, say why on stderr, and leave the file as it is.
fn refuses(profile: &mut Profile<'_>, folder: &Path, file: &Path, id: &str, what: &str) -> Done {
    let before = std::fs::read(file).map_err(|error| error.to_string())?;
    let session = file
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let launch = server::configured(profile.options, folder, file, &session)?;
    let client = spawn(
        profile.options,
        &launch,
        profile.revision,
        profile.processes,
    );
    let mut client = client.map_err(|error| error.message)?;
    let answered = matches!(client.hello(), Reply::Result { .. });
    let until = Instant::now() + profile.options.limits.stop;
    let ended = client.child().wait(until).is_some();
    let stderr = client.child().stderr();
    let evidence = Evidence {
        stderr: stderr.lines().map(str::to_owned).collect(),
        ..evidence_since(client.log(), 0, 8)
    };
    client.into_child().kill();

    let mut judge = |id: &str, holds: bool, what_then: &str| {
        if holds {
            profile.judge.holds(id);
        } else {
            let message = format!("The memory file is {what}; {what_then}.");
            profile.judge.broken(id, message, evidence.clone());
        }
    };
    let stopped = !answered && ended;
    let starts = match answered {
        true => "the server starts all the same",
        false => "the server neither answers nor ends",
    };
    judge(&format!("memory.{id}"), stopped, starts);
    if stopped {
        let says = !stderr.trim().is_empty();
        judge(
            "memory.files.message",
            says,
            "the server ends and says nothing on stderr",
        );
    }
    let untouched = std::fs::read(file).is_ok_and(|after| after == before);
    judge(
        "memory.files.untouched",
        untouched,
        "it is another after the start",
    );
    Ok(())
}
