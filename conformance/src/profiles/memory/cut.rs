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

pub(super) fn never_silent(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    profile.register(server)?;
    let small = small(profile, server)?;
    let people: Vec<String> = (0..ROWS)
        .map(|index| format!("{{:person/name \"Person {index}\"}}"))
        .collect();
    profile.record(server, &format!("[{}]", people.join(" ")))?;
    for change in 0..CHANGES {
        let letter = char::from(b'a' + u8::try_from(change).unwrap_or_default());
        let motto = letter.to_string().repeat(LONG);
        let tx = format!("[{{:person/name \"Ada\" :person/motto \"{motto}\"}}]");
        profile.record(server, &tx)?;
    }
    let last = char::from(b'a' + u8::try_from(CHANGES - 1).unwrap_or_default());
    let whole: [(&str, &dyn Fn(&Edn) -> bool); 3] = [
        ("cut.recall", &|form| {
            items(result_of(form)).len() == ROWS + 1
        }),
        ("cut.history", &|form| items(form).len() == 2 * CHANGES + 1),
        ("cut.read", &|form| {
            let motto = form.get("person/motto").and_then(Edn::str);
            motto == Some(last.to_string().repeat(LONG).as_str())
        }),
    ];
    for ((id, is_whole), beside) in whole.into_iter().zip(small) {
        let (tool, arguments) = call(id);
        let Some(answer) = profile.answer(id, server, tool, &arguments) else {
            continue;
        };
        let told = answer.beside != beside;
        profile.rule(id, told || is_whole(&answer.form), server, || {
            format!("`{tool}` with {arguments} gave a part of the answer, and does not say so.")
        });
    }
    Ok(())
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
    for id in ["cut.recall", "cut.history", "cut.read"] {
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
