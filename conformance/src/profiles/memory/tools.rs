//! The six tools: what their answers hold.

use serde_json::{Value, json};

use super::edn::Edn;
use super::pack::PACK;
use super::server::Server;
use super::{Done, Profile, TOOLS, items, number, session_id, vocabulary};

const ADA: &str = "[:person/name \"Ada\"]";

pub(super) fn answers(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    let missing = server.process.missing_tool(&TOOLS);
    profile.rule("tools", missing.is_none(), server, || {
        format!("The tool `{}` is not listed.", missing.unwrap_or(""))
    });
    let before = context(profile, server)?;
    let registered = json!({"tx": PACK.vocabulary});
    let registered = profile.answer("schema.register", server, "record", &registered);
    let facts = json!({"tx": PACK.facts});
    let facts = profile.answer("schema.register", server, "record", &facts);
    let (Some(registered), Some(facts)) = (registered, facts) else {
        return Err("the vocabulary or the facts were not recorded".to_owned());
    };
    profile.rule("schema.register", true, server, String::new);
    recorded(profile, server, &registered.form, &facts.form);
    let after = context(profile, server)?;
    context_follows(profile, server, &before, &after, &facts.form);
    read(profile, server, &facts.form);
    history(profile, server, &facts.form);
    turns(profile, server);
    Ok(())
}

fn context(profile: &mut Profile<'_>, server: &mut Server) -> Result<Edn, String> {
    let Some(answer) = profile.answer("context.result", server, "context", &json!({})) else {
        return Err("`context` did not answer".to_owned());
    };
    let form = answer.form;
    let list = |key: &str| form.get(key).is_some_and(|list| list.items().is_some());
    let shape = session_id(&form).is_some()
        && number(&form, "t").is_ok()
        && number(&form, "turns").is_ok()
        && list("vocabulary")
        && list("recent");
    profile.rule("context.result", shape, server, || {
        format!(
            "`:session`, `:t`, `:vocabulary`, `:turns` or `:recent` is missing or no such thing: {form}"
        )
    });
    Ok(form)
}

/// What `context` shows after two turns.
fn context_follows(
    profile: &mut Profile<'_>,
    server: &Server,
    before: &Edn,
    after: &Edn,
    facts: &Edn,
) {
    let registered = |ident: &str, value_type: &str| {
        vocabulary(after).any(|attribute| {
            let is =
                |key: &str, wanted: &str| attribute.get(key).and_then(Edn::keyword) == Some(wanted);
            is("db/ident", ident) && is("db/valueType", value_type)
        })
    };
    let all = registered("person/name", "db.type/string")
        && registered("person/age", "db.type/long")
        && registered("person/friend", "db.type/ref");
    profile.rule("context.vocabulary", all, server, || {
        format!(
            "An attribute that was registered, or its `:db/valueType`, is not in `:vocabulary`: {after}"
        )
    });
    let turns = |form: &Edn| number(form, "turns").unwrap_or_default();
    let follows =
        turns(after) == turns(before) + 2 && number(after, "t").ok() == number(facts, "t").ok();
    profile.rule("context.counts", follows, server, || {
        format!(
            "After two turns `:turns` went from {} to {}, and `:t` is {:?}; the last turn has {:?}.",
            turns(before),
            turns(after),
            number(after, "t").ok(),
            number(facts, "t").ok()
        )
    });
    if let Some(recent) = after.get("recent").and_then(Edn::items) {
        profile.rule("context.recent", !recent.is_empty(), server, || {
            "After two turns `:recent` is empty.".to_owned()
        });
    }
}

/// What `record` answered to the two turns.
fn recorded(profile: &mut Profile<'_>, server: &Server, registered: &Edn, facts: &Edn) {
    for form in [registered, facts] {
        let shape = ["turn", "t", "datoms"]
            .iter()
            .all(|key| number(form, key).is_ok())
            && form
                .get("tempids")
                .is_some_and(|ids| ids.members().is_some());
        profile.rule("record.result", shape, server, || {
            format!("`:turn`, `:t`, `:tempids` or `:datoms` is missing or no such thing: {form}")
        });
    }
    let t = |form: &Edn| number(form, "t").unwrap_or_default();
    profile.rule("record.t", t(facts) > t(registered), server, || {
        format!(
            "A turn at `:t` {} was followed by one at {}.",
            t(registered),
            t(facts)
        )
    });
    // Eleven facts; a server may count the turn's own too.
    if let Ok(datoms) = number(facts, "datoms") {
        profile.rule("record.datoms", datoms >= 11, server, || {
            format!("A turn of eleven facts has `:datoms` {datoms}.")
        });
    }
    let named = ["ada", "grace", "edsger"].map(|name| tempid(facts, name));
    let distinct = matches!(named, [Some(a), Some(b), Some(c)] if a != b && b != c && a != c);
    profile.rule("record.tempids", distinct, server, || {
        format!(
            "The tempids \"ada\", \"grace\" and \"edsger\" do not lead to three entities: {facts}"
        )
    });
}

fn tempid(form: &Edn, name: &str) -> Option<i64> {
    let ids = form.get("tempids")?.members()?;
    let (_, id) = ids.iter().find(|(key, _)| key.str() == Some(name))?;
    id.int()
}

fn read(profile: &mut Profile<'_>, server: &mut Server, facts: &Edn) {
    let value = |form: &Edn, key: &str| form.get(key).map(ToString::to_string);
    let mut map = |profile: &mut Profile<'_>, id: &str, arguments: Value| {
        let form = profile.answer(id, server, "read", &arguments)?.form;
        profile.rule("read.map", form.members().is_some(), server, || {
            format!("`read` with {arguments} gave no map: {form}")
        });
        form.members().is_some().then_some(form)
    };
    let by_ref = map(profile, "read.entity", json!({"entity": ADA}));
    let id = tempid(facts, "ada").unwrap_or_default().to_string();
    let by_id = map(profile, "read.entity", json!({"entity": id}));
    let by_ident = map(profile, "read.entity", json!({"entity": ":person/age"}));
    let pattern = "[:person/name {:person/friend [:person/name]}]";
    let pulled = map(
        profile,
        "read.pattern",
        json!({"entity": ADA, "pattern": pattern}),
    );

    if let Some(all) = &by_ref {
        let whole = value(all, "person/name").as_deref() == Some("\"Ada\"")
            && value(all, "person/age").as_deref() == Some("36")
            && all.get("note/text").is_some()
            && all.get("person/friend").is_some();
        profile.rule("read.all", whole, server, || {
            format!("`read` without a pattern does not give every attribute of the entity: {all}")
        });
    }
    if let (Some(by_ref), Some(by_id), Some(by_ident)) = (by_ref, by_id, by_ident) {
        let same = value(&by_ref, "person/name") == value(&by_id, "person/name")
            && value(&by_id, "person/name").is_some();
        let attribute = value(&by_ident, "db/ident").as_deref() == Some(":person/age");
        profile.rule("read.entity", same && attribute, server, || {
            format!(
                "Lookup ref, id and ident do not lead to their entities: {by_ref}, {by_id}, {by_ident}"
            )
        });
    }
    if let Some(pulled) = pulled {
        let friend = pulled.get("person/friend");
        let holds = value(&pulled, "person/name").as_deref() == Some("\"Ada\"")
            && pulled.get("person/age").is_none()
            && friend.and_then(|f| f.get("person/name")).and_then(Edn::str) == Some("Grace");
        profile.rule("read.pattern", holds, server, || {
            format!("`read` with the pattern {pattern} gave {pulled}.")
        });
    }
}

fn history(profile: &mut Profile<'_>, server: &mut Server, facts: &Edn) {
    let arguments = json!({"entity": ADA});
    let Some(answer) = profile.answer("history.result", server, "history", &arguments) else {
        return;
    };
    let form = answer.form;
    let well = |entry: &Edn| {
        entry.get("a").and_then(Edn::keyword).is_some()
            && entry.get("v").is_some()
            && matches!(entry.get("added"), Some(Edn::Bool(_)))
            && number(entry, "t").is_ok()
            && entry.get("inst").and_then(Edn::instant).is_some()
            && entry.get("session").and_then(Edn::str).is_some()
    };
    let holds = !items(&form).is_empty() && items(&form).iter().all(well);
    profile.rule("history.result", holds, server, || {
        format!(
            "An entry lacks `:a`, `:v`, `:added`, `:t`, `:inst` or `:session`, or has another type there: {form}"
        )
    });
    let (t, session) = (number(facts, "t").ok(), Some("tools"));
    let from = items(&form).iter().all(|entry| {
        number(entry, "t").ok() == t && entry.get("session").and_then(Edn::str) == session
    });
    profile.rule("history.provenance", from, server, || {
        format!("The facts of the turn {t:?} in session \"tools\" are said to come from elsewhere: {form}")
    });
}

fn turns(profile: &mut Profile<'_>, server: &mut Server) {
    let Some(answer) = profile.answer("turns.result", server, "turns", &json!({})) else {
        return;
    };
    let form = answer.form;
    let well = |turn: &Edn| {
        ["turn", "t", "datoms"]
            .iter()
            .all(|key| number(turn, key).is_ok())
            && turn.get("inst").and_then(Edn::instant).is_some()
    };
    let holds = !items(&form).is_empty() && items(&form).iter().all(well);
    profile.rule("turns.result", holds, server, || {
        format!(
            "A turn lacks `:turn`, `:t`, `:inst` or `:datoms`, or has another type there: {form}"
        )
    });
}
