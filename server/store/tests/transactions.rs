//! What a transaction does, and what it refuses.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use touchstone_store::edn::Edn;
use touchstone_store::pull::{Pattern, pull};
use touchstone_store::{Storage, Store, View};

fn read_entity(store: &mut Store, entity: &str, pattern: &str) -> String {
    let db = store.db(View::Current).unwrap();
    let id = db.must_be_entity(&edn(entity)).unwrap();
    pull(&db, &Pattern::parse(&edn(pattern)).unwrap(), id)
        .unwrap()
        .to_string()
}

#[test]
fn a_tempid_is_one_entity_throughout_the_transaction() {
    let mut store = people();
    let report = record(
        &mut store,
        "[{:db/id \"ada\" :person/name \"Ada\"} [:db/add \"ada\" :person/age 36]
          {:person/name \"Grace\" :person/friend [\"ada\" {:person/name \"Edsger\"}]}]",
    );
    assert_eq!(report.tempids.len(), 1);
    let query =
        "[:find ?n ?f :where [?e :person/name ?n] [?e :person/friend ?x] [?x :person/name ?f]]";
    assert_eq!(
        ask(&mut store, query),
        "[[\"Grace\" \"Ada\"] [\"Grace\" \"Edsger\"]]"
    );
}

#[test]
fn a_unique_identity_upserts() {
    let mut store = people();
    let first = record(
        &mut store,
        "[{:db/id \"x\" :person/name \"Ada\" :person/age 36}]",
    );
    let second = record(
        &mut store,
        "[{:db/id \"y\" :person/name \"Ada\" :person/age 37}]",
    );
    assert_eq!(first.tempids[0].1, second.tempids[0].1);
    assert_eq!(
        ask(&mut store, "[:find [?a ...] :where [_ :person/age ?a]]"),
        "[37]"
    );
    assert_eq!(
        ask(&mut store, "[:find (count ?e) . :where [?e :person/name]]"),
        "1"
    );
}

#[test]
fn what_is_already_so_changes_nothing() {
    let mut store = people();
    record(&mut store, "[{:person/name \"Ada\" :person/age 36}]");
    let again = record(&mut store, "[{:person/name \"Ada\" :person/age 36}]");
    // Only the transaction's own time.
    assert_eq!(again.datoms.len(), 1);
}

#[test]
fn retracting_an_entity_takes_its_parts_and_the_references_to_it() {
    let mut store = people();
    let report = record(
        &mut store,
        "[{:db/id \"o\" :person/name \"order\" :order/line [{:line/product \"tea\"} {:line/product \"milk\"}]}
          {:person/name \"Ada\" :person/friend \"o\"}]",
    );
    let order = report.tempids[0].1;
    let retraction = record(&mut store, &format!("[[:db/retractEntity {order}]]"));
    assert_eq!(
        retraction.datoms.iter().filter(|d| !d.added).count(),
        6,
        "name, two lines, two products, a friend"
    );
    assert_eq!(
        ask(&mut store, "[:find [?p ...] :where [_ :line/product ?p]]"),
        "[]"
    );
    assert_eq!(
        ask(&mut store, "[:find ?f . :where [_ :person/friend ?f]]"),
        "nil"
    );
    let then = ask_view(
        &mut store,
        View::AsOf(report.t),
        "[:find [?p ...] :where [_ :line/product ?p]]",
        "[]",
    );
    assert_eq!(then.unwrap(), "[\"milk\" \"tea\"]");
}

#[test]
fn values_of_every_type_are_stored_and_ordered() {
    let mut store = memory();
    let types = [
        ("string", "[\"\" \"a\" \"b\" \"é\" \"😀\"]"),
        ("long", "[-9223372036854775808 -1 0 1 9223372036854775807]"),
        ("double", "[##-Inf -1.5 0.0 1.0E-300 2.0 1.0E22 ##Inf]"),
        ("boolean", "[false true]"),
        (
            "instant",
            "[#inst \"1969\" #inst \"1970-01-01T00:00:00.001Z\" #inst \"2026\"]",
        ),
        ("keyword", "[:a :a/b :b]"),
        (
            "uuid",
            "[#uuid \"00000000-0000-0000-0000-000000000001\" #uuid \"f0000000-0000-0000-0000-000000000000\"]",
        ),
        (
            "bigint",
            "[-340282366920938463463374607431768211456N -1N 0N 7N 340282366920938463463374607431768211456N]",
        ),
        (
            "bytes",
            "[#base64 \"\" #base64 \"AA==\" #base64 \"AAE=\" #base64 \"/w==\"]",
        ),
    ];
    for (name, _) in types {
        record(
            &mut store,
            &format!(
                "[{{:db/ident :v/{name} :db/valueType :db.type/{name} :db/cardinality :db.cardinality/many}}]"
            ),
        );
    }
    for (name, values) in types {
        record(&mut store, &format!("[{{:v/{name} {values}}}]"));
        let found = ask(
            &mut store,
            &format!("[:find [?v ...] :where [_ :v/{name} ?v]]"),
        );
        assert_eq!(edn(&found), edn(values), "{name}");
        let Edn::Vector(values) = edn(values) else {
            panic!()
        };
        for value in &values {
            let query = format!(
                "[:find ?v . :where [_ :v/{name} ?v] [?e :v/{name} {value}] [(= ?v {value})]]"
            );
            assert_eq!(edn(&ask(&mut store, &query)), *value, "by the index");
        }
    }
}

#[test]
fn refusals_say_what_and_where_and_change_nothing() {
    let mut store = people();
    record(
        &mut store,
        "[{:person/name \"Ada\" :person/email \"a@x\"} {:person/name \"Bob\" :person/email \"b@x\"}]",
    );
    let before = ask(&mut store, "[:find ?e ?a ?v :where [?e ?a ?v]]");
    let cases = [
        (
            "{:person/name 1}",
            "memory/bad-tx",
            1,
            1,
            "a transaction is a vector",
        ),
        (
            "[{:person/nmae \"Ada\"}]",
            "memory/unknown-attribute",
            1,
            3,
            "did you mean :person/name?",
        ),
        (
            "[{:person/name \"C\"}\n {:person/age \"36\"}]",
            "memory/wrong-type",
            2,
            15,
            "takes a long, 36",
        ),
        (
            "[{:person/age 36.0}]",
            "memory/wrong-type",
            1,
            15,
            "is a double",
        ),
        ("[{:person/age nil}]", "memory/wrong-type", 1, 15, "is nil"),
        (
            "[{:person/alias [\"a\" :b]}]",
            "memory/wrong-type",
            1,
            22,
            "is a keyword",
        ),
        (
            "[[:db/add 99999 :person/age 1]]",
            "memory/no-such-entity",
            1,
            11,
            "there is no entity 99999",
        ),
        (
            "[[:db/add [:person/name \"Zoe\"] :person/age 1]]",
            "memory/no-such-entity",
            1,
            11,
            "use a tempid",
        ),
        (
            "[[:db/add [:person/age 3] :person/age 1]]",
            "memory/bad-argument",
            1,
            12,
            "needs a unique attribute",
        ),
        (
            "[{:person/friend \"nobody\" :person/name \"N\"}]",
            "memory/bad-tx",
            1,
            18,
            "only referred to",
        ),
        (
            "[{:person/friend [{:person/nick \"x\"}] :person/name \"N\"}]",
            "memory/unknown-attribute",
            1,
            20,
            "not registered",
        ),
        (
            "[[:db/add \"x\" :person/age 1] [:db/add \"x\" :person/age 2]]",
            "memory/conflict",
            1,
            30,
            "has one value",
        ),
        (
            "[[:db/retract [:person/name \"Ada\"] :person/name \"Ada\"] [:db/add [:person/name \"Ada\"] :person/name \"Ada\"]]",
            "memory/conflict",
            1,
            56,
            "asserts and retracts",
        ),
        (
            "[{:person/name \"C\" :person/email \"a@x\"}]",
            "memory/unique-conflict",
            1,
            34,
            "already belongs",
        ),
        (
            "[{:db/id \"x\" :person/name \"C\" :person/email \"c\"} {:db/id \"y\" :person/name \"D\" :person/email \"c\"}]",
            "memory/unique-conflict",
            1,
            93,
            "already belongs",
        ),
        (
            "[[:db/add [:person/name \"Ada\"] :person/name \"Bob\"]]",
            "memory/unique-conflict",
            1,
            2,
            "already belongs",
        ),
        (
            "[{:db/id \"x\" :person/name \"Ada\"} [:db/add \"x\" :person/name \"Bob\"]]",
            "memory/conflict",
            1,
            34,
            "two entities",
        ),
        (
            "[[:db/ad 1 2 3]]",
            "memory/bad-tx",
            1,
            2,
            "starts with :db/add",
        ),
        (
            "[[:db/add 1000 :person/age]]",
            "memory/bad-tx",
            1,
            2,
            "four parts",
        ),
        ("[{}]", "memory/bad-tx", 1, 2, "empty map"),
        ("[5]", "memory/bad-tx", 1, 2, "a map or a list"),
        (
            "[{:db/id \"datomic.tx\" :memory/session 1000}]",
            "memory/reserved",
            1,
            23,
            "written by the memory itself",
        ),
        (
            "[{:memory.session/id \"x\"}]",
            "memory/reserved",
            1,
            3,
            "written by the memory itself",
        ),
        (
            "[[:db/add :db/ident :db/doc \"mine\"]]",
            "memory/reserved",
            1,
            2,
            "built in",
        ),
        (
            "[{:db/ident :x/y :db/valueType :db.type/text :db/cardinality :db.cardinality/one}]",
            "memory/no-such-entity",
            1,
            32,
            "known are :db.type/string",
        ),
        (
            "[{:db/ident :x/y :db/valueType :db.type/string}]",
            "memory/bad-schema",
            1,
            2,
            "needs a :db/cardinality",
        ),
        (
            "[{:db/valueType :db.type/string :db/cardinality :db.cardinality/one}]",
            "memory/bad-schema",
            1,
            2,
            "needs a :db/ident",
        ),
        (
            "[{:db/ident :person/age :db/valueType :db.type/string :db/cardinality :db.cardinality/one}]",
            "memory/bad-schema",
            1,
            2,
            "cannot change",
        ),
        (
            "[[:db/retractEntity :person/age]]",
            "memory/bad-schema",
            1,
            2,
            "cannot be retracted",
        ),
        (
            "[[:db/retract :person/age :db/ident :person/age]]",
            "memory/bad-schema",
            1,
            2,
            "needs a :db/ident",
        ),
        (
            "[{:db/ident :x/_y :db/valueType :db.type/ref :db/cardinality :db.cardinality/one}]",
            "memory/bad-schema",
            1,
            2,
            "reverse reference",
        ),
        (
            "[{:db/ident :x/z :db/valueType :db.type/string :db/cardinality :db.cardinality/one} {:x/z \"a\"}]",
            "memory/unknown-attribute",
            1,
            86,
            "in this same turn",
        ),
    ];
    let mut wrong = Vec::new();
    for (tx, kind, line, column, message) in cases {
        let error = try_record(&mut store, tx).expect_err(tx);
        if place(&error) != (kind.to_owned(), line, column) || !error.message().contains(message) {
            wrong.push(format!("{tx}\n  {} {error}", error.kind().keyword()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(
        ask(&mut store, "[:find ?e ?a ?v :where [?e ?a ?v]]"),
        before
    );
}

#[test]
fn the_vocabulary_can_change_where_the_facts_allow_it() {
    let mut store = people();
    record(
        &mut store,
        "[{:person/name \"Ada\" :person/alias [\"a\" \"b\"] :person/age 1} {:person/name \"Bob\" :person/age 1}]",
    );
    let refused = [
        "[[:db/add :person/alias :db/cardinality :db.cardinality/one]]",
        "[[:db/add :person/age :db/unique :db.unique/value]]",
        "[[:db/add :person/alias :db/unique :db.unique/value]]",
        "[[:db/add :person/age :db/fulltext true]]",
    ];
    for tx in refused {
        assert_eq!(
            try_record(&mut store, tx).unwrap_err().kind().keyword(),
            "memory/bad-schema",
            "{tx}"
        );
    }
    record(
        &mut store,
        "[[:db/add :person/age :db/cardinality :db.cardinality/many]]",
    );
    record(
        &mut store,
        "[[:db/add [:person/name \"Ada\"] :person/age 2]]",
    );
    assert_eq!(
        ask(
            &mut store,
            "[:find [?a ...] :where [?e :person/name \"Ada\"] [?e :person/age ?a]]"
        ),
        "[1 2]"
    );
    // Texts that were there before the attribute was searched are found too.
    record(&mut store, "[[:db/add :person/alias :db/fulltext true]]");
    let found = ask(
        &mut store,
        "[:find ?v . :where [(fulltext $ :person/alias \"B\") [[_ ?v]]]]",
    );
    assert_eq!(found, "\"b\"");
}

#[test]
fn the_transaction_itself_can_be_spoken_of() {
    let mut store = people();
    let report = record(
        &mut store,
        "[{:db/id \"datomic.tx\" :db/doc \"from the mail\"} {:person/name \"Ada\"}]",
    );
    let found = ask(
        &mut store,
        "[:find [?d ?t] :where [?e :person/name \"Ada\" ?tx] [?tx :db/doc ?d] [?tx :db/txInstant ?t]]",
    );
    assert!(found.starts_with("[\"from the mail\" #inst"), "{found}");
    assert_eq!(report.tempids[0].1, report.tx);
}

#[test]
fn pull_takes_what_the_pattern_says() {
    let mut store = people();
    record(
        &mut store,
        "[{:db/id \"a\" :person/name \"Ada\" :person/age 36 :person/friend [\"b\" \"c\"] :person/colour :colour/red}
          {:db/id \"b\" :person/name \"Bob\" :person/friend \"a\" :person/alias [\"Bobby\" \"Rob\"]}
          {:db/id \"c\" :person/name \"Cy\" :order/line {:line/product \"tea\"}}]",
    );
    let id = |store: &mut Store, name: &str| {
        ask(
            store,
            &format!("[:find ?e . :where [?e :person/name \"{name}\"]]"),
        )
    };
    let (a, b, c) = (
        id(&mut store, "Ada"),
        id(&mut store, "Bob"),
        id(&mut store, "Cy"),
    );
    let red = ask(&mut store, "[:find ?e . :where [?e :db/ident :colour/red]]");
    let line = ask(&mut store, "[:find ?e . :where [?e :line/product]]");
    for (entity, pattern, expected) in [
        (
            "Ada",
            "[:person/name :person/alias]",
            "{:person/name \"Ada\"}".to_owned(),
        ),
        (
            "Ada",
            "[:db/id :person/age]",
            format!("{{:db/id {a} :person/age 36}}"),
        ),
        (
            "Ada",
            "[*]",
            format!(
                "{{:db/id {a} :person/age 36 :person/colour {{:db/id {red} :db/ident :colour/red}} :person/friend [{{:db/id {b}}} {{:db/id {c}}}] :person/name \"Ada\"}}"
            ),
        ),
        (
            "Cy",
            "[*]",
            format!(
                "{{:db/id {c} :order/line [{{:db/id {line} :line/product \"tea\"}}] :person/name \"Cy\"}}"
            ),
        ),
        (
            "Ada",
            "[{:person/friend [:person/name]}]",
            "{:person/friend [{:person/name \"Bob\"} {:person/name \"Cy\"}]}".into(),
        ),
        (
            "Ada",
            "[{(:person/friend :limit 1 :as :friends) [:person/name]}]",
            "{:friends [{:person/name \"Bob\"}]}".into(),
        ),
        (
            "Ada",
            "[(:person/alias :default [])]",
            "{:person/alias []}".into(),
        ),
        (
            "Ada",
            "[(default :person/email \"none\") (limit :person/friend 1)]",
            format!("{{:person/email \"none\" :person/friend [{{:db/id {b}}}]}}"),
        ),
        (
            "Bob",
            "[:person/_friend]",
            format!("{{:person/_friend [{{:db/id {a}}}]}}"),
        ),
        (
            "Bob",
            "[{:person/_friend [:person/name]}]",
            "{:person/_friend [{:person/name \"Ada\"}]}".into(),
        ),
        (
            "Bob",
            "[:person/name {:person/friend 1}]",
            "{:person/name \"Bob\" :person/friend [{:person/name \"Ada\"}]}".into(),
        ),
        (
            "Bob",
            "[:person/name {:person/friend ...}]",
            format!(
                "{{:person/name \"Bob\" :person/friend [{{:person/name \"Ada\" :person/friend [{{:db/id {b}}} {{:person/name \"Cy\"}}]}}]}}"
            ),
        ),
        ("Ada", "[:person/email]", "{}".into()),
    ] {
        assert_eq!(
            read_entity(&mut store, &format!("[:person/name \"{entity}\"]"), pattern),
            expected,
            "{pattern}"
        );
    }
    assert_eq!(
        read_entity(&mut store, &line, "[{:order/_line [:person/name]}]"),
        "{:order/_line {:person/name \"Cy\"}}",
        "a part has one owner"
    );
}

#[test]
fn a_pattern_that_is_wrong_is_refused_with_its_place() {
    let mut store = people();
    record(
        &mut store,
        "[{:person/name \"Ada\" :person/friend {:person/name \"Bob\"}}]",
    );
    for (pattern, kind, column) in [
        ("{:a 1}", "memory/bad-pattern", 1),
        ("[]", "memory/bad-pattern", 1),
        ("[:person/nmae]", "memory/unknown-attribute", 2),
        (
            "[:person/name {:person/friend [:person/nmae]}]",
            "memory/unknown-attribute",
            32,
        ),
        ("[{:person/age [*]}]", "memory/bad-pattern", 3),
        ("[(:person/age :limit 0)]", "memory/bad-pattern", 15),
        ("[{:person/friend 1000}]", "memory/bad-pattern", 18),
        ("[5]", "memory/bad-pattern", 2),
    ] {
        let db = store.db(View::Current).unwrap();
        let id = db.must_be_entity(&edn("[:person/name \"Ada\"]")).unwrap();
        let error = Pattern::parse(&edn(pattern))
            .and_then(|p| pull(&db, &p, id))
            .expect_err(pattern);
        assert_eq!(
            place(&error.in_text("pattern", pattern)),
            (kind.to_owned(), 1, column),
            "{pattern}"
        );
    }
}

#[test]
fn text_is_searched_by_words_phrases_and_beginnings_as_it_was_then() {
    let mut store = people();
    let first = record(
        &mut store,
        "[{:db/id \"n\" :note/text \"The quick brown fox\"} {:note/text \"A brown bear\"}]",
    );
    let note = first.tempids[0].1;
    record(
        &mut store,
        &format!("[[:db/add {note} :note/text \"The slow fox\"]]"),
    );
    let mut find = |view, text: &str| {
        let query = "[:find [?v ...] :in ?text :where [(fulltext $ :note/text ?text) [[_ ?v]]]]";
        ask_view(&mut store, view, query, &format!("[{}]", Edn::str(text))).unwrap()
    };
    assert_eq!(find(View::Current, "BROWN"), "[\"A brown bear\"]");
    assert_eq!(
        find(View::AsOf(first.t), "brown"),
        "[\"A brown bear\" \"The quick brown fox\"]"
    );
    assert_eq!(
        find(View::AsOf(first.t), "\"brown fox\""),
        "[\"The quick brown fox\"]"
    );
    assert_eq!(find(View::Current, "slo* fox"), "[\"The slow fox\"]");
    assert_eq!(
        find(View::Current, "fox OR bear"),
        "[]",
        "no language of its own"
    );
    assert_eq!(find(View::Current, "x\" NEAR( -"), "[]");
}

#[test]
fn two_stores_on_one_file_see_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::File(folder.path().join("m.db"));
    let (mut one, mut two) = (
        Store::open(&storage).unwrap(),
        Store::open(&storage).unwrap(),
    );
    record(
        &mut one,
        "[{:db/ident :x/n :db/valueType :db.type/long :db/cardinality :db.cardinality/many}]",
    );
    record(&mut two, "[{:x/n 1}]");
    record(&mut one, "[{:x/n 2}]");
    for store in [&mut one, &mut two] {
        assert_eq!(ask(store, "[:find [?n ...] :where [_ :x/n ?n]]"), "[1 2]");
    }
}

#[test]
fn a_database_value_does_not_change_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::File(folder.path().join("m.db"));
    let (mut one, mut two) = (
        Store::open(&storage).unwrap(),
        Store::open(&storage).unwrap(),
    );
    let db = one.db(View::Current).unwrap();
    record(
        &mut two,
        "[{:db/ident :x/n :db/valueType :db.type/long :db/cardinality :db.cardinality/many}]",
    );
    assert_eq!(
        db.must_be_entity(&edn(":x/n"))
            .unwrap_err()
            .kind()
            .keyword(),
        "memory/no-such-entity"
    );
    drop(db);
    assert!(
        one.db(View::Current)
            .unwrap()
            .must_be_entity(&edn(":x/n"))
            .is_ok()
    );
}
