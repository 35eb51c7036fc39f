//! Long answers: whole, or said to be cut.

use serde_json::{Value, json};

use super::edn::Edn;
use super::server::Server;
use super::{Done, Profile, items, result_of};

/// More rows than an agent wants at once.
const ROWS: usize = 1_200;
/// The length of a long text, and how often it changes.
const LONG: usize = 30_000;
const CHANGES: usize = 6;

const RULES: [&str; 3] = ["cut.recall", "cut.history", "cut.read"];

pub(super) fn never_silent(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    profile.register(server)?;
    let small = small(profile, server)?;
    let people: Vec<String> = (0..ROWS)
        .map(|index| format!("{{:person/name \"Person {index}\"}}"))
        .collect();
    profile.record(server, &format!("[{}]", people.join(" ")))?;
    for change in 0..CHANGES {
        let motto = motto(change);
        let tx = format!("[{{:person/name \"Ada\" :person/motto \"{motto}\"}}]");
        profile.record(server, &tx)?;
    }
    limited(profile, server);
    for (id, beside) in RULES.into_iter().zip(small) {
        let (tool, arguments) = call(id);
        let Some(answer) = profile.answer(id, server, tool, &arguments) else {
            continue;
        };
        if id == "cut.recall" && is_whole(id, &answer.form) {
            let size = answer.text.len();
            let note = format!(
                "Without `limit` all {} rows come at once, {size} bytes: nothing keeps an answer small.",
                ROWS + 1
            );
            profile.judge.note("memory.cut.recall", note);
        }
        let told = answer.beside != beside;
        profile.rule(id, told || is_whole(id, &answer.form), server, || {
            format!("`{tool}` with {arguments} gave a part of the answer, and does not say so.")
        });
    }
    Ok(())
}

/// A long result with a limit.
fn limited(profile: &mut Profile<'_>, server: &mut Server) {
    const RULE: &str = "cut.limit";
    let (tool, mut arguments) = call("cut.recall");
    arguments["limit"] = json!(10);
    if let Some(answer) = profile.answer(RULE, server, tool, &arguments) {
        let rows = items(result_of(&answer.form)).len();
        profile.rule(RULE, rows == 10, server, || {
            format!("Of {} rows `limit` 10 gave {rows}.", ROWS + 1)
        });
    }
}

/// Whether the answer to that rule's call holds all that was recorded.
fn is_whole(id: &str, form: &Edn) -> bool {
    match id {
        "cut.recall" => items(result_of(form)).len() == ROWS + 1,
        // The name, each text, and the retraction of all but the last.
        "cut.history" => items(form).len() == 1 + CHANGES + (CHANGES - 1),
        _ => form.get("person/motto").and_then(Edn::str) == Some(motto(CHANGES - 1).as_str()),
    }
}

/// A long text, another one for each change.
fn motto(change: usize) -> String {
    const LETTERS: [&str; CHANGES] = ["a", "b", "c", "d", "e", "f"];
    LETTERS.get(change).unwrap_or(&"z").repeat(LONG)
}

fn call(id: &str) -> (&'static str, Value) {
    match id {
        "cut.recall" => (
            "recall",
            json!({"query": "[:find ?name :where [_ :person/name ?name]]"}),
        ),
        "cut.history" => ("history", json!({"entity": "[:person/name \"Ada\"]"})),
        _ => ("read", json!({"entity": "[:person/name \"Ada\"]"})),
    }
}

/// What stands beside each answer as long as it is short.
fn small(profile: &mut Profile<'_>, server: &mut Server) -> Result<Vec<Value>, String> {
    profile.record(server, "[{:person/name \"Ada\"}]")?;
    let mut beside = Vec::new();
    for id in RULES {
        let (tool, arguments) = call(id);
        let answer = profile.answer(id, server, tool, &arguments);
        beside.push(
            answer
                .ok_or_else(|| format!("`{tool}` did not answer"))?
                .beside,
        );
    }
    Ok(beside)
}
