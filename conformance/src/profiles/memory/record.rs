//! `record`: the forms of a turn, what is refused, and where facts come from.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::edn::Edn;
use super::pack::PACK;
use super::server::{Said, Server};
use super::{Done, Profile, is_nothing, number};

/// A step that only asks.
const NO_TURN: &str = "";

const AGE_OF: &str = "[:find ?age . :where [?e :person/name \"NAME\"] [?e :person/age ?age]]";

/// How far the server's clock may be from ours, in milliseconds.
const CLOCKS: i64 = 300_000;

fn age_of(name: &str) -> String {
    AGE_OF.replace("NAME", name)
}

/// Records a turn that has to be taken; the rule is broken if it is not.
fn takes(profile: &mut Profile<'_>, id: &str, server: &mut Server, tx: &str) -> bool {
    let arguments = json!({"tx": tx});
    profile.answer(id, server, "record", &arguments).is_some()
}

pub(super) fn forms(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    profile.populate(server)?;
    // Each: the rule, the turn, a query, what it finds then.
    let steps = [
        (
            "record.add",
            "[[:db/add \"m\" :person/name \"Mary\"] [:db/add \"m\" :person/age 30] [:db/add \"m\" :person/motto \"to go\"]]",
            "[:find ?age ?motto :where [?e :person/name \"Mary\"] [?e :person/age ?age] [?e :person/motto ?motto]]",
            "[[30 \"to go\"]]",
        ),
        (
            "record.lookup-ref",
            "[{:db/id [:person/name \"Mary\"] :person/friend [:person/name \"Ada\"]}]",
            "[:find ?name . :where [?e :person/name \"Mary\"] [?e :person/friend ?f] [?f :person/name ?name]]",
            "\"Ada\"",
        ),
        (
            "record.retract",
            "[[:db/retract [:person/name \"Mary\"] :person/motto \"to go\"]]",
            "[:find ?motto :where [?e :person/name \"Mary\"] [?e :person/motto ?motto]]",
            "[]",
        ),
        (
            "record.retract",
            NO_TURN,
            "[:find ?age . :where [?e :person/name \"Mary\"] [?e :person/age ?age]]",
            "30",
        ),
        (
            "record.replace",
            "[{:db/id [:person/name \"Grace\"] :person/age 46}]",
            "[:find ?age :where [?e :person/name \"Grace\"] [?e :person/age ?age]]",
            "[[46]]",
        ),
        (
            "record.upsert",
            "[{:person/name \"Ada\" :person/motto \"found again\"}]",
            "[:find ?name ?email :where [?e :person/motto \"found again\"] [?e :person/name ?name] [?e :person/email ?email]]",
            "[[\"Ada\" \"ada@example.org\"]]",
        ),
        (
            "record.retract-entity",
            "[[:db/retractEntity [:person/name \"Mary\"]]]",
            "[:find ?e :where [?e :person/name \"Mary\"]]",
            "[]",
        ),
        (
            "record.retract-entity",
            NO_TURN,
            "[:find ?e :where [?e :person/age 30]]",
            "[]",
        ),
    ];
    for (id, tx, query, wanted) in steps {
        if tx == NO_TURN || takes(profile, id, server, tx) {
            profile.finds(id, server, query, wanted);
        }
    }
    many(profile, server);
    source(profile, server)
}

/// The contract shows cardinality one only; a server that takes many has to keep them all.
fn many(profile: &mut Profile<'_>, server: &mut Server) {
    const RULE: &str = "record.many";
    let register = "[{:db/ident :person/alias :db/valueType :db.type/string :db/cardinality :db.cardinality/many}]";
    if !matches!(
        server.call("record", &json!({"tx": register})),
        Said::Answer(_)
    ) {
        let why = "The server has no attributes with many values.";
        profile.judge.not_applicable("memory.record.many", why);
        return;
    }
    let alias = |name: &str| format!("[[:db/add [:person/name \"Ada\"] :person/alias \"{name}\"]]");
    if takes(profile, RULE, server, &alias("Augusta"))
        && takes(profile, RULE, server, &alias("Countess"))
    {
        profile.finds(
            RULE,
            server,
            "[:find [?alias ...] :where [_ :person/alias ?alias]]",
            "[\"Augusta\" \"Countess\"]",
        );
    }
}

/// A turn that says what it is derived from.
fn source(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    const RULE: &str = "record.source";
    let first = json!({"tx": "[{:person/name \"Grace\" :person/motto \"heard\"}]"});
    let first = number(&profile.must(server, "record", &first)?, "turn")?;
    // The schema says whether it is EDN text or a number.
    let tools = server.process.tools();
    let record = tools
        .iter()
        .find(|tool| tool.get("name") == Some(&json!("record")));
    let kind = record.and_then(|tool| tool.pointer("/inputSchema/properties/source/type"));
    let text = kind.is_none_or(|kind| kind.to_string().contains("string"));
    let source = if text {
        json!(first.to_string())
    } else {
        json!(first)
    };
    let tx = "[{:person/name \"Edsger\" :person/motto \"derived\"}]";
    let arguments = json!({"tx": tx, "source": source});
    if profile.answer(RULE, server, "record", &arguments).is_some() {
        let query = "[:find ?source . :where [_ :memory/source ?source]]";
        profile.finds(RULE, server, query, &first.to_string());
    }
    Ok(())
}

pub(super) fn refusals(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    profile.populate(server)?;
    for tx in [
        "[{:person/name \"Half\" :person/age 1} {:person/name \"Other\" :person/shoe-size 40}]",
        "[{:person/name \"Half\" :person/age 1} {:person/name \"Other\" :person/age \"forty\"}]",
        "[[:db/add \"h\" :person/name \"Half\"] [:db/add \"h\" :person/age 1] [:db/add [:person/name \"Nobody\"] :person/age 2]]",
    ] {
        if profile
            .refused_whole("record.all-or-nothing", server, tx)?
            .is_some()
        {
            profile.finds("record.all-or-nothing", server, &age_of("Half"), "nil");
        }
    }
    for tx in [
        "[{:person/name \"Mary\" :person/shoe-size 40}]",
        "[[:db/add [:person/name \"Ada\"] :shoe/size 40]]",
    ] {
        let error = profile.refused_whole("record.unknown-attribute", server, tx)?;
        if let Some(error) = error {
            kind(profile, server, &error, "memory/unknown-attribute");
            let named = ["shoe-size", "shoe/size"];
            let named = named.iter().any(|name| error.to_string().contains(name));
            profile.rule("error.says-what", named, server, || {
                format!("The error does not name the attribute that is not registered: {error}")
            });
        }
    }
    wrong_types(profile, server)?;
    let conflict = "[{:person/name \"Eve\" :person/email \"ada@example.org\"}]";
    profile.refused_whole("record.unique-value", server, conflict)?;
    for tx in [
        "42",
        "[42]",
        "[[:db/frobnicate [:person/name \"Ada\"] :person/age 1]]",
    ] {
        profile.refused_whole("record.bad-form", server, tx)?;
    }
    other_errors(profile, server)
}

/// Values of another type than the attribute's.
fn wrong_types(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    let mut attributes: Vec<String> = Vec::new();
    let mut wrong: Vec<String> = vec![
        "[[:db/add [:person/name \"Ada\"] :person/friend true]]".to_owned(),
        "[[:db/add [:person/name \"Ada\"] :person/friend 1.5]]".to_owned(),
    ];
    for value in &PACK.value {
        let name = &value.name;
        attributes.push(super::notation::registration(name));
        wrong.extend(
            value
                .bad
                .iter()
                .map(|bad| format!("[[:db/add [:person/name \"Ada\"] :value/{name} {bad}]]")),
        );
    }
    profile.record(server, &format!("[{}]", attributes.join(" ")))?;
    for tx in wrong {
        if let Some(error) = profile.refused_whole("record.wrong-type", server, &tx)?
            && tx.contains(":value/long \"36\"")
        {
            kind(profile, server, &error, "memory/wrong-type");
        }
    }
    Ok(())
}

/// The kinds that the contract names, where they are sure.
fn other_errors(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    let nobody = json!({"entity": "[:person/name \"Nobody\"]"});
    let cases = [
        (
            "read",
            nobody.clone(),
            "error.no-such-entity",
            "memory/no-such-entity",
        ),
        (
            "history",
            nobody,
            "error.no-such-entity",
            "memory/no-such-entity",
        ),
        (
            "recall",
            json!({"query": "[:where [?e :person/name]]"}),
            "error.bad-query",
            "memory/bad-query",
        ),
        (
            "recall",
            json!({"query": "[:find ?e :where [?e :person/name] (?e)]"}),
            "error.bad-query",
            "memory/bad-query",
        ),
        (
            "record",
            json!({"tx": "[{:person/name \"Mary\"}"}),
            "edn.unclosed",
            "memory/bad-edn",
        ),
    ];
    for (tool, arguments, id, wanted) in cases {
        let error = profile.refused(id, server, tool, &arguments);
        if let Some(error) = &error {
            kind(profile, server, error, wanted);
        }
        if let (Some(error), "memory/bad-edn") = (error, wanted) {
            profile.rule("error.says-where", says_where(&error), server, || {
                format!("The error of an unclosed form says no place in the text: {error}")
            });
        }
    }
    Ok(())
}

/// A number in a member, or in the message.
fn says_where(error: &Edn) -> bool {
    let numbers = |(_, value): &(Edn, Edn)| value.int().is_some() || value.members().is_some();
    error
        .members()
        .is_some_and(|members| members.iter().any(numbers))
        || error
            .get("message")
            .and_then(Edn::str)
            .is_some_and(|message| message.contains(|c: char| c.is_ascii_digit()))
}

fn kind(profile: &mut Profile<'_>, server: &Server, error: &Edn, wanted: &str) {
    let kind = error.get("kala/error").and_then(Edn::keyword);
    profile.rule("error.kind", kind == Some(wanted), server, || {
        format!("The error is of the kind {kind:?}; the contract calls it :{wanted}.")
    });
}

pub(super) fn provenance(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    profile.populate(server)?;
    let clock = || {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    };
    let before = clock();
    let mary = json!({"tx": "[{:person/name \"Mary\" :person/age 30}]"});
    let mary = profile.must(server, "record", &mary)?;
    let after = clock();
    let turn = number(&mary, "turn")?;
    let of_mary = "[:find ?turn . :where [_ :person/name \"Mary\" ?turn]]";
    profile.finds("provenance.turn", server, of_mary, &turn.to_string());
    let query = session_of("Mary");
    profile.finds("provenance.session", server, &query, "\"provenance\"");
    let query =
        "[:find ?when . :where [_ :person/name \"Mary\" ?turn] [?turn :db/txInstant ?when]]";
    if let Some(when) = profile.recall("provenance.instant", server, query, &json!({})) {
        let instant = when.instant();
        let near = instant.is_some_and(|at| (before - CLOCKS..=after + CLOCKS).contains(&at));
        profile.rule("provenance.instant", near, server, || {
            format!("`:db/txInstant` of a turn of this moment is {when}.")
        });
    }
    forged(profile, server);
    Ok(())
}

fn session_of(name: &str) -> String {
    format!(
        "[:find ?id . :where [_ :person/name \"{name}\" ?turn] [?turn :memory/session ?s] [?s :memory.session/id ?id]]"
    )
}

/// An agent that names a session when it writes is refused, or not listened to.
fn forged(profile: &mut Profile<'_>, server: &mut Server) {
    let tx = "[{:person/name \"Anne\" :person/age 31}]";
    let arguments = json!({"tx": tx, "session": "someone-else"});
    server.call("record", &arguments);
    let Some(session) = profile.recall(
        "provenance.construction",
        server,
        &session_of("Anne"),
        &json!({}),
    ) else {
        return;
    };
    let ours = is_nothing(&session) || session == Edn::Str("provenance".to_owned());
    profile.rule("provenance.construction", ours, server, || {
        format!("`record` with `session` gave the fact to the session {session}.")
    });
}
