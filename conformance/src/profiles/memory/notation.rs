//! EDN in and out: values of every type, texts that are none, and what is printed reads back.

use serde_json::json;

use super::edn::{self, Edn};
use super::pack::{PACK, ValueType};
use super::server::{Said, Server};
use super::{Done, Profile, items};

/// The map that registers an attribute of a type.
pub(super) fn registration(name: &str) -> String {
    format!(
        "{{:db/ident :value/{name} :db/valueType :db.type/{name} :db/cardinality :db.cardinality/one}}"
    )
}

pub(super) fn values(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    profile.register(server)?;
    for value in &PACK.value {
        let register = json!({"tx": format!("[{}]", registration(&value.name))});
        if profile
            .answer("schema.types", server, "record", &register)
            .is_some()
        {
            profile.rule("schema.types", true, server, String::new);
            round_trip(profile, server, value);
        }
    }
    refs(profile, server);
    bytes(profile, server);
    Ok(())
}

/// Every good value goes in, and comes back as it was.
fn round_trip(profile: &mut Profile<'_>, server: &mut Server, value: &ValueType) {
    const RULE: &str = "values.round-trip";
    let name = &value.name;
    let people: Vec<String> = value
        .good
        .iter()
        .enumerate()
        .map(|(index, good)| format!("{{:person/name \"{name} {index}\" :value/{name} {good}}}"))
        .collect();
    let tx = json!({"tx": format!("[{}]", people.join(" "))});
    if profile.answer(RULE, server, "record", &tx).is_none() {
        return;
    }
    let query = format!("[:find ?name ?v :where [?e :person/name ?name] [?e :value/{name} ?v]]");
    let rows = value.good.iter().enumerate();
    let rows: Vec<String> = rows
        .map(|(index, good)| format!("[\"{name} {index}\" {good}]"))
        .collect();
    profile.finds(RULE, server, &query, &format!("[{}]", rows.join(" ")));
}

fn refs(profile: &mut Profile<'_>, server: &mut Server) {
    const RULE: &str = "schema.types";
    let tx = "[{:db/id \"a\" :person/name \"Ada\" :person/friend \"b\"} {:db/id \"b\" :person/name \"Bob\"}]";
    if profile
        .answer(RULE, server, "record", &json!({"tx": tx}))
        .is_some()
    {
        let query = "[:find ?name . :where [?e :person/name \"Ada\"] [?e :person/friend ?f] [?f :person/name ?name]]";
        profile.finds("values.round-trip", server, query, "\"Bob\"");
    }
}

/// The contract has no notation for bytes. Who takes `#base64` has to print what reads back.
fn bytes(profile: &mut Profile<'_>, server: &mut Server) {
    let register = json!({"tx": format!("[{}]", registration("bytes"))});
    if profile
        .answer("schema.types", server, "record", &register)
        .is_none()
    {
        return;
    }
    let tx = |name: &str, value: &str| json!({"tx": format!("[{{:person/name \"{name}\" :value/bytes {value}}}]")});
    let query = |name: &str| {
        format!("[:find ?v . :where [?e :person/name \"{name}\"] [?e :value/bytes ?v]]")
    };
    if !matches!(
        server.call("record", &tx("bytes 0", "#base64 \"AAEC/w==\"")),
        Said::Answer(_)
    ) {
        profile.judge.note_only(
            "memory.values.round-trip",
            "Bytes were not judged: the server does not take `#base64`.",
        );
        return;
    }
    const RULE: &str = "values.round-trip";
    let Some(printed) = profile.recall(RULE, server, &query("bytes 0"), &json!({})) else {
        return;
    };
    let again = tx("bytes 1", &printed.to_string());
    if profile.answer(RULE, server, "record", &again).is_some() {
        profile.finds(RULE, server, &query("bytes 1"), &printed.to_string());
    }
}

pub(super) fn texts(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    profile.populate(server)?;
    for bad in &PACK.bad {
        for text in &bad.texts {
            profile.refused_whole(&format!("edn.{}", bad.rule), server, text)?;
        }
    }
    for case in &PACK.argument {
        profile.refused("edn.arguments", server, &case.tool, &case.arguments);
    }
    taken(profile, server);
    namespaced(profile, server);
    printed(profile, server);
    Ok(())
}

/// Commas, comments, discarded forms, escapes and signs.
fn taken(profile: &mut Profile<'_>, server: &mut Server) {
    const RULE: &str = "edn.reads";
    let tx = "; a turn\n[{:person/name, \"Zöe \\\"Z\\\"\",, #_:person/age #_ #_ 1 2 :person/age +7\n :person/motto \"a\\tb\\\\\\u0041\"}\n #_{:person/name \"Nobody\"}] ; its end";
    if profile
        .answer(RULE, server, "record", &json!({"tx": tx}))
        .is_some()
    {
        let query = "[:find ?name ?motto :where [?e :person/age 7] [?e :person/name ?name] [?e :person/motto ?motto]]";
        profile.finds(RULE, server, query, "[[\"Zöe \\\"Z\\\"\" \"a\\tb\\\\A\"]]");
        let query = "[:find ?e :where [?e :person/name \"Nobody\"]]";
        profile.finds(RULE, server, query, "[]");
    }
}

/// A map with a namespace before it is Clojure's, not EDN's. Who takes it has to read on behind
/// it; who does not has to refuse the turn.
fn namespaced(profile: &mut Profile<'_>, server: &mut Server) {
    const RULE: &str = "edn.reads";
    let tx = "[#:person{:name \"Mona\" :age 51} {:person/name \"Nora\"}]";
    let said = server.call("record", &json!({"tx": tx}));
    let taken = matches!(said, Said::Answer(_));
    profile.rule(
        RULE,
        taken || matches!(said, Said::ToolError(_)),
        server,
        || format!("`record` of {tx} gave {}.", said.describe()),
    );
    for name in ["Mona", "Nora"] {
        let query = format!(
            "[:find [?name ...] :where [?e :person/name \"{name}\"] [?e :person/name ?name]]"
        );
        let wanted = if taken {
            format!("[\"{name}\"]")
        } else {
            "[]".to_owned()
        };
        profile.finds(RULE, server, &query, &wanted);
    }
}

/// The text of an answer is taken as an argument, and means the same.
fn printed(profile: &mut Profile<'_>, server: &mut Server) {
    const RULE: &str = "edn.reads-back";
    let motto = "\"quotes \\\" and \\\\ and\\n lines ; #_ ] Zürich \u{2028}\u{feff}\u{85}\u{1d11e}\u{1b}\\u0007\"";
    let tx = format!("[{{:person/name \"Grace\" :person/motto {motto}}}]");
    if profile
        .answer(RULE, server, "record", &json!({"tx": tx}))
        .is_none()
    {
        return;
    }
    let arguments =
        json!({"entity": "[:person/name \"Grace\"]", "pattern": "[:person/name :person/motto]"});
    let Some(answer) = profile.answer(RULE, server, "read", &arguments) else {
        return;
    };
    let same = edn::read(motto).is_ok_and(|motto| {
        answer
            .form
            .get("person/motto")
            .is_some_and(|got: &Edn| got.same(&motto))
    });
    profile.rule(RULE, same, server, || {
        format!("The motto {motto} is printed as {}.", answer.text)
    });
    let again = json!({"tx": format!("[{}]", answer.text)});
    if profile.answer(RULE, server, "record", &again).is_some() {
        let args = json!({"args": format!("[{motto}]")});
        let query = "[:find [?name ...] :in $ ?motto :where [?e :person/motto ?motto] [?e :person/name ?name]]";
        let Some(found) = profile.recall(RULE, server, query, &args) else {
            return;
        };
        profile.rule(RULE, items(&found).len() == 1, server, || {
            format!("What `read` printed was recorded again; the motto is now that of {found}.")
        });
    }
}
