//! The memory tools through the family's trait: what an agent sends and gets.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value, json};
use touchstone_server::memory::Family as Memory;
use touchstone_server::protocol::Family as _;
use touchstone_server::protocol::family::{Call, Found, Outcome};
use touchstone_store::Storage;
use touchstone_store::edn::{Edn, read};
use touchstone_store::memory::{Place, Settings};

fn open(place: Place, session: &str) -> Memory {
    Memory::open(&Settings {
        place,
        session: Some(session.to_owned()),
    })
    .unwrap()
}

fn in_ram() -> Memory {
    open(Place::Here(Storage::Memory), "s")
}

fn at(path: &Path, session: &str) -> Memory {
    open(Place::Here(Storage::File(path.to_owned())), session)
}

fn a_call() -> Call {
    Call::new(Arc::new(AtomicBool::new(false)), Arc::new(|_, _, _| {}))
}

fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// The texts of an answer, and whether it is an error.
fn ask(memory: &Memory, tool: &str, value: Value) -> (Vec<String>, bool) {
    match memory.call(tool, &arguments(value), &a_call()) {
        Outcome::Done {
            content, is_error, ..
        } => {
            let texts = content
                .iter()
                .map(|block| block["text"].as_str().unwrap().to_owned());
            (texts.collect(), is_error)
        }
        other => panic!("{tool}: {other:?}"),
    }
}

fn form(memory: &Memory, tool: &str, value: Value) -> Edn {
    let (texts, is_error) = ask(memory, tool, value);
    assert!(!is_error, "{tool}: {texts:?}");
    read(&texts[0]).unwrap()
}

fn error(memory: &Memory, tool: &str, value: Value) -> Edn {
    let (texts, is_error) = ask(memory, tool, value);
    assert!(is_error, "{tool}: {texts:?}");
    assert_eq!(texts.len(), 1);
    read(&texts[0]).unwrap()
}

fn int(form: &Edn, key: &str) -> i64 {
    form.get(key)
        .and_then(Edn::as_int)
        .unwrap_or_else(|| panic!("{key} in {form}"))
}

const REGISTER: &str = "[{:db/ident :person/name :db/valueType :db.type/string :db/cardinality :db.cardinality/one
      :db/unique :db.unique/identity :db/doc \"A person's full name.\"}
     {:db/ident :person/age :db/valueType :db.type/long :db/cardinality :db.cardinality/one}
     {:db/ident :note/text :db/valueType :db.type/string :db/cardinality :db.cardinality/many :db/fulltext true}]";

#[test]
fn a_first_conversation() {
    let memory = in_ram();
    let context = form(&memory, "context", json!({}));
    assert_eq!(
        context.get("session").unwrap().get("memory.session/id"),
        Some(&Edn::str("s"))
    );
    assert_eq!(context.get("vocabulary"), Some(&Edn::Vector(vec![])));
    assert_eq!(int(&context, "turns"), 0);

    let registered = form(&memory, "record", json!({"tx": REGISTER}));
    let turn = form(
        &memory,
        "record",
        json!({"tx": "[{:db/id \"ada\" :person/name \"Ada\" :person/age 36}]"}),
    );
    assert_eq!(int(&turn, "t"), int(&registered, "t") + 1);
    assert_eq!(
        int(&turn, "datoms"),
        4,
        "two facts, the time and the session"
    );
    let context = form(&memory, "context", json!({}));
    assert_eq!(int(&context, "turns"), 2);
    let Some(Edn::Vector(vocabulary)) = context.get("vocabulary") else {
        panic!("{context}")
    };
    assert_eq!(vocabulary.len(), 3);
    assert_eq!(
        vocabulary[2].get("db/doc"),
        Some(&Edn::str("A person's full name."))
    );
}

#[test]
fn tempids_are_keyed_by_their_text() {
    let memory = in_ram();
    form(&memory, "record", json!({"tx": REGISTER}));
    let turn = form(
        &memory,
        "record",
        json!({"tx": "[{:db/id \"ada\" :person/name \"Ada\"} {:person/name \"Bob\"}]"}),
    );
    let Some(Edn::Map(tempids)) = turn.get("tempids") else {
        panic!("{turn}")
    };
    assert_eq!(tempids.len(), 1);
    let (name, id) = &tempids[0];
    assert_eq!(name, &Edn::str("ada"));
    let read = form(&memory, "read", json!({"entity": id.as_int().unwrap()}));
    assert_eq!(read.get("person/name"), Some(&Edn::str("Ada")));
    assert_eq!(read.get("db/id"), Some(id));
}

#[test]
fn as_of_and_history_show_what_was_believed_when() {
    let memory = in_ram();
    form(&memory, "record", json!({"tx": REGISTER}));
    let first = form(
        &memory,
        "record",
        json!({"tx": "[{:person/name \"Ada\" :person/age 36}]"}),
    );
    form(
        &memory,
        "record",
        json!({"tx": "[{:person/name \"Ada\" :person/age 37}]"}),
    );
    form(
        &memory,
        "record",
        json!({"tx": "[[:db/retract [:person/name \"Ada\"] :person/age 37]]"}),
    );
    let ada = "[:person/name \"Ada\"]";
    let now = form(&memory, "read", json!({"entity": ada}));
    assert_eq!(now.get("person/age"), None);
    let then = form(
        &memory,
        "read",
        json!({"entity": ada, "as-of": int(&first, "t")}),
    );
    assert_eq!(then.get("person/age"), Some(&Edn::Int(36)));
    let query = "[:find ?a . :where [_ :person/age ?a]]";
    let recalled = form(
        &memory,
        "recall",
        json!({"query": query, "as-of": int(&first, "turn")}),
    );
    assert_eq!(
        recalled,
        Edn::Int(36),
        "the turn's entity will do for its t"
    );
    let history = form(
        &memory,
        "history",
        json!({"entity": ada, "attribute": ":person/age"}),
    );
    let seen: Vec<(i64, bool)> = history
        .as_sequence()
        .unwrap()
        .iter()
        .map(|d| (int(d, "v"), d.get("added") == Some(&Edn::Bool(true))))
        .collect();
    assert_eq!(seen, [(36, true), (36, false), (37, true), (37, false)]);
    let oldest = &history.as_sequence().unwrap()[0];
    assert_eq!(oldest.get("a"), Some(&Edn::keyword("person/age")));
    assert_eq!(oldest.get("session"), Some(&Edn::str("s")));
    assert!(matches!(oldest.get("inst"), Some(Edn::Inst(_))));
}

#[test]
fn a_session_is_resumed_by_its_id_and_others_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.db");
    let first = at(&path, "monday");
    form(&first, "record", json!({"tx": REGISTER}));
    let other = at(&path, "tuesday");
    form(&other, "record", json!({"tx": "[{:person/name \"Ada\"}]"}));
    assert_eq!(
        int(&form(&first, "context", json!({})), "turns"),
        1,
        "a session counts its own turns"
    );
    drop(first);
    let again = at(&path, "monday");
    form(
        &again,
        "record",
        json!({"tx": "[{:person/name \"Bob\"}]", "source": 3}),
    );
    let context = form(&again, "context", json!({}));
    assert_eq!(int(&context, "turns"), 2);
    let recent = context.get("recent").unwrap().as_sequence().unwrap();
    let sessions: Vec<&str> = recent
        .iter()
        .map(|t| t.get("session").unwrap().as_str().unwrap())
        .collect();
    assert_eq!(
        sessions,
        ["monday", "tuesday", "monday"],
        "newest first, of all sessions"
    );
    let turns = form(&other, "turns", json!({"session": "monday"}));
    assert_eq!(turns.as_sequence().unwrap().len(), 2);
    let error = error(&again, "turns", json!({"session": "mondya"}));
    assert_eq!(
        error.get("kala/error"),
        Some(&Edn::keyword("memory/no-such-session"))
    );
    assert!(
        error
            .get("message")
            .unwrap()
            .as_str()
            .unwrap()
            .contains("did you mean \"monday\"?")
    );
    let from = "[:find ?s . :where [?e :person/name \"Bob\" ?tx] [?tx :memory/source ?s]]";
    assert!(matches!(
        form(&again, "recall", json!({"query": from})),
        Edn::Int(_)
    ));
}

#[test]
fn turns_are_listed_newest_first_and_go_on_with_before() {
    let memory = in_ram();
    form(&memory, "record", json!({"tx": REGISTER}));
    for i in 0..5 {
        form(
            &memory,
            "record",
            json!({"tx": format!("[{{:person/name \"p{i}\"}}]")}),
        );
    }
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let mut arguments = json!({"limit": 2});
        if let Some(before) = before {
            arguments["before"] = json!(before);
        }
        let (texts, _) = ask(&memory, "turns", arguments);
        let page = read(&texts[0]).unwrap();
        seen.extend(
            page.as_sequence()
                .unwrap()
                .iter()
                .map(|turn| int(turn, "t")),
        );
        match texts.get(1) {
            None => break,
            Some(note) => before = Some(int(&read(note).unwrap(), "before")),
        }
    }
    assert_eq!(seen.len(), 6);
    assert!(seen.windows(2).all(|pair| pair[0] > pair[1]), "{seen:?}");
}

#[test]
fn what_is_cut_says_so() {
    let memory = in_ram();
    form(&memory, "record", json!({"tx": REGISTER}));
    let notes: String = (0..300)
        .map(|i| format!("\"note {i} about tea, {}\" ", "long ".repeat(100)))
        .collect();
    form(
        &memory,
        "record",
        json!({"tx": format!("[{{:person/name \"Ada\" :note/text [{notes}]}}]")}),
    );
    let query = "[:find [?n ...] :where [_ :note/text ?n]]";
    let cut = |value: Value, tool: &str| {
        let (texts, _) = ask(&memory, tool, value);
        let note = read(texts.get(1).expect("a note")).unwrap();
        let shown = read(&texts[0]).unwrap();
        assert!(texts[0].len() < 70_000);
        (shown.as_sequence().map_or(0, <[Edn]>::len), note)
    };
    let (shown, note) = cut(json!({"query": query, "limit": 7}), "recall");
    assert_eq!((shown, int(&note, "total")), (7, 300));
    assert_eq!(note.get("cut"), Some(&Edn::Bool(true)));
    let (shown, note) = cut(json!({"query": query, "limit": 300}), "recall");
    assert!(
        shown < 300 && int(&note, "shown") == shown as i64,
        "cut to what an answer holds"
    );
    let (shown, note) = cut(json!({"text": "tea", "limit": 300}), "recall");
    assert!(shown < 300 && int(&note, "total") == 300);
    let (_, note) = cut(json!({"entity": "[:person/name \"Ada\"]"}), "read");
    assert_eq!(
        int(
            note.get("attributes").unwrap().get("note/text").unwrap(),
            "total"
        ),
        300
    );
    let (shown, note) = cut(json!({"entity": "[:person/name \"Ada\"]"}), "history");
    assert!(shown < 301 && int(&note, "total") == 301);
    let (texts, _) = ask(
        &memory,
        "recall",
        json!({"query": "[:find ?n . :where [_ :person/name ?n]]"}),
    );
    assert_eq!(texts[1], "{:cut false}");
    let (texts, _) = ask(&memory, "context", json!({}));
    assert!(texts[0].len() < 20_000);
}

#[test]
fn errors_are_maps_that_say_what_and_where() {
    let memory = in_ram();
    form(&memory, "record", json!({"tx": REGISTER}));
    let before = form(&memory, "context", json!({}));
    for (tool, value, kind, message, place) in [
        (
            "record",
            json!({"tx": "[{:person/name \"A\"}\n {:person/agee 1}]"}),
            "memory/unknown-attribute",
            "did you mean :person/age?",
            Some((2, 3)),
        ),
        (
            "record",
            json!({"tx": "[{:person/age \"1\"}]"}),
            "memory/wrong-type",
            "takes a long",
            Some((1, 15)),
        ),
        (
            "record",
            json!({"tx": "[{:person/age 1}"}),
            "memory/bad-edn",
            "never closed",
            Some((1, 1)),
        ),
        (
            "record",
            json!({"tx": "[] []"}),
            "memory/bad-edn",
            "only one form",
            Some((1, 4)),
        ),
        (
            "record",
            json!({"tx": "[]", "source": 99}),
            "memory/no-such-entity",
            "there is no turn 99",
            None,
        ),
        (
            "record",
            json!({}),
            "memory/bad-argument",
            "needs the argument `tx`",
            None,
        ),
        (
            "record",
            json!({"tx": "[]", "session": "x"}),
            "memory/bad-argument",
            "no argument `session`",
            None,
        ),
        (
            "recall",
            json!({}),
            "memory/bad-argument",
            "give a `query`",
            None,
        ),
        (
            "recall",
            json!({"query": "[:find ?e]", "text": "x"}),
            "memory/bad-argument",
            "not both",
            None,
        ),
        (
            "recall",
            json!({"query": "[:find ?e :where [?e :person/nam]]"}),
            "memory/unknown-attribute",
            "did you mean :person/name?",
            Some((1, 22)),
        ),
        (
            "recall",
            json!({"query": "[:find ?e :where (?e)]"}),
            "memory/bad-query",
            "",
            Some((1, 18)),
        ),
        (
            "recall",
            json!({"query": "[:find ?e :in ?e]", "args": "{}"}),
            "memory/bad-argument",
            "`args` is a vector",
            None,
        ),
        (
            "recall",
            json!({"query": "[:find ?e :in [?e]]", "args": "[1]"}),
            "memory/bad-query",
            "taken apart",
            Some((1, 2)),
        ),
        (
            "recall",
            json!({"text": "…"}),
            "memory/bad-argument",
            "holds no word",
            None,
        ),
        (
            "recall",
            json!({"query": "[:find ?e :in ?e]", "args": "[1]", "limit": 0}),
            "memory/bad-argument",
            "at least 1",
            None,
        ),
        (
            "read",
            json!({"entity": "[:person/name \"Zoe\"]"}),
            "memory/no-such-entity",
            "there is no entity",
            Some((1, 1)),
        ),
        (
            "read",
            json!({"entity": 77777}),
            "memory/no-such-entity",
            "77777",
            Some((1, 1)),
        ),
        (
            "read",
            json!({"entity": "\"Ada\""}),
            "memory/bad-argument",
            "cannot name an entity",
            Some((1, 1)),
        ),
        (
            "read",
            json!({"entity": ":person/name", "pattern": "[:person/naem]"}),
            "memory/unknown-attribute",
            "did you mean",
            Some((1, 2)),
        ),
        (
            "history",
            json!({"entity": ":person/name", "attribute": "name"}),
            "memory/bad-argument",
            "is a keyword",
            Some((1, 1)),
        ),
        (
            "turns",
            json!({"session": "other"}),
            "memory/no-such-session",
            "there is no session",
            None,
        ),
        (
            "turns",
            json!({"before": -1}),
            "memory/bad-argument",
            "from 0 on",
            None,
        ),
    ] {
        let error = error(&memory, tool, value.clone());
        assert_eq!(
            error.get("kala/error"),
            Some(&Edn::keyword(kind)),
            "{value}: {error}"
        );
        assert!(
            error
                .get("message")
                .unwrap()
                .as_str()
                .unwrap()
                .contains(message),
            "{value}: {error}"
        );
        let at = error
            .get("line")
            .map(|_| (int(&error, "line"), int(&error, "column")));
        assert_eq!(at, place, "{value}: {error}");
    }
    assert_eq!(
        form(&memory, "context", json!({})),
        before,
        "nothing was recorded"
    );
    let unknown = error(&memory, "record", json!({"tx": "[{:person/agee 1}]"}));
    assert_eq!(unknown.get("attribute"), Some(&Edn::keyword("person/agee")));
    assert_eq!(unknown.get("nearest"), Some(&Edn::keyword("person/age")));
}

#[test]
fn words_are_searched() {
    let memory = in_ram();
    form(&memory, "record", json!({"tx": REGISTER}));
    form(
        &memory,
        "record",
        json!({"tx": "[{:person/name \"Ada\" :note/text [\"likes green tea\" \"plays chess\"]}]"}),
    );
    let found = form(&memory, "recall", json!({"text": "green TEA"}));
    let rows = found.as_sequence().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].get("v"), Some(&Edn::str("likes green tea")));
    assert_eq!(rows[0].get("a"), Some(&Edn::keyword("note/text")));
}

#[test]
fn turns_are_resources() {
    let memory = in_ram();
    form(&memory, "record", json!({"tx": REGISTER}));
    form(&memory, "record", json!({"tx": "[{:person/name \"Ada\"}]"}));
    let listed = memory.resources(&a_call()).unwrap();
    assert_eq!(listed.len(), 2);
    let uri = listed[0]["uri"].as_str().unwrap();
    let Found::Items(contents) = memory.read(uri, &a_call()) else {
        panic!("{uri}")
    };
    let turn = read(contents[0]["text"].as_str().unwrap()).unwrap();
    let facts = turn.get("facts").unwrap().as_sequence().unwrap();
    assert!(
        facts
            .iter()
            .any(|f| f.to_string().contains(":person/name \"Ada\"")),
        "{turn}"
    );
    for unknown in [
        "memory://turn/99",
        "memory://turn/0",
        "memory://turn/01",
        "memory://turn/x",
        "memory://",
        "demo://text",
    ] {
        assert!(
            matches!(memory.read(unknown, &a_call()), Found::Unknown),
            "{unknown}"
        );
    }
}

#[test]
fn a_cancelled_call_does_nothing() {
    let memory = in_ram();
    let cancelled = Call::new(Arc::new(AtomicBool::new(true)), Arc::new(|_, _, _| {}));
    let outcome = memory.call("record", &arguments(json!({"tx": REGISTER})), &cancelled);
    assert!(matches!(outcome, Outcome::Done { is_error: true, .. }));
    assert_eq!(int(&form(&memory, "context", json!({})), "turns"), 0);
}

#[test]
fn a_file_that_is_not_ours_stops_the_family_and_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.txt");
    std::fs::write(&path, "my notes").unwrap();
    let settings = Settings {
        place: Place::Here(Storage::File(path.clone())),
        session: None,
    };
    let error = Memory::open(&settings).unwrap_err();
    assert!(
        error.contains("not a memory file") && error.contains("mine.txt"),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"my notes");
}

#[test]
fn every_tool_teaches_with_schemas_that_are_closed() {
    let tools = in_ram().tools();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
    assert_eq!(
        names,
        ["context", "record", "recall", "read", "history", "turns"]
    );
    for tool in tools {
        assert_eq!(
            tool.input_schema["additionalProperties"], false,
            "{}",
            tool.name
        );
        assert_eq!(
            tool.annotations["readOnlyHint"],
            tool.name != "record",
            "{}",
            tool.name
        );
    }
}
