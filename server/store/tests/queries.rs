//! What queries say, and what they refuse. The answers themselves are compared with a model in
//! `model.rs`; here stand the parts of the language one by one.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use touchstone_store::edn::Edn;
use touchstone_store::query::{Limits, Query};
use touchstone_store::{Kind, Store, View};

fn family() -> Store {
    let mut store = people();
    record(
        &mut store,
        "[{:db/id \"a\" :person/name \"Ada\" :person/age 36 :person/friend [\"b\"] :person/colour :colour/red}
          {:db/id \"b\" :person/name \"Bob\" :person/age 20 :person/friend [\"c\"]}
          {:db/id \"c\" :person/name \"Cy\" :person/age 20 :person/friend [\"d\"]}
          {:db/id \"d\" :person/name \"Di\" :person/alias [\"Diana\" \"D\"] :person/friend [\"a\"]}]",
    );
    store
}

#[test]
fn answers() {
    let mut store = family();
    for (query, args, expected) in [
        // The four shapes.
        (
            "[:find ?n ?a :where [?e :person/name ?n] [?e :person/age ?a]]",
            "[]",
            "[[\"Ada\" 36] [\"Bob\" 20] [\"Cy\" 20]]",
        ),
        (
            "[:find [?n ...] :where [?e :person/name ?n]]",
            "[]",
            "[\"Ada\" \"Bob\" \"Cy\" \"Di\"]",
        ),
        (
            "[:find [?n ?a] :where [?e :person/name ?n] [?e :person/age ?a]]",
            "[]",
            "[\"Ada\" 36]",
        ),
        (
            "[:find ?a . :where [_ :person/age ?a] [(> ?a 30)]]",
            "[]",
            "36",
        ),
        (
            "[:find ?a . :where [_ :person/age ?a] [(> ?a 99)]]",
            "[]",
            "nil",
        ),
        (
            "{:find [[?n ...]] :where [[?e :person/age 20] [?e :person/name ?n]]}",
            "[]",
            "[\"Bob\" \"Cy\"]",
        ),
        // Sets of rows, bags under :with.
        (
            "[:find [?a ...] :where [_ :person/age ?a]]",
            "[]",
            "[20 36]",
        ),
        ("[:find (sum ?a) . :where [_ :person/age ?a]]", "[]", "56"),
        (
            "[:find (sum ?a) . :with ?e :where [?e :person/age ?a]]",
            "[]",
            "76",
        ),
        // Inputs.
        (
            "[:find ?n . :in $ ?a :where [?e :person/age ?a] [?e :person/name ?n]]",
            "[36]",
            "\"Ada\"",
        ),
        (
            "[:find [?n ...] :in [?a ...] :where [?e :person/age ?a] [?e :person/name ?n]]",
            "[[20 36 1]]",
            "[\"Ada\" \"Bob\" \"Cy\"]",
        ),
        (
            "[:find ?n . :in [?a ?n] :where [?e :person/age ?a] [?e :person/name ?n]]",
            "[[20 \"Cy\"]]",
            "\"Cy\"",
        ),
        (
            "[:find ?n ?x :in [[?n ?x]] :where [_ :person/name ?n]]",
            "[[[\"Ada\" 1] [\"Nobody\" 2]]]",
            "[[\"Ada\" 1]]",
        ),
        (
            "[:find ?n . :in ?e :where [?e :person/name ?n]]",
            "[[:person/name \"Di\"]]",
            "\"Di\"",
        ),
        // Lookup refs, idents, reverse attributes, entity positions.
        (
            "[:find ?a . :where [[:person/name \"Ada\"] :person/age ?a]]",
            "[]",
            "36",
        ),
        (
            "[:find ?n . :where [?e :person/colour :colour/red] [?e :person/name ?n]]",
            "[]",
            "\"Ada\"",
        ),
        (
            "[:find ?n . :where [?x :person/name \"Bob\"] [?x :person/_friend ?e] [?e :person/name ?n]]",
            "[]",
            "\"Ada\"",
        ),
        (
            "[:find ?i . :where [?e :person/name \"Ada\"] [?e ?a 36] [?a :db/ident ?i]]",
            "[]",
            ":person/age",
        ),
        (
            "[:find [?i ...] :where [_ ?a \"Ada\"] [?a :db/ident ?i]]",
            "[]",
            "[:person/name]",
        ),
        // Functions.
        (
            "[:find ?s . :where [?e :person/name \"Ada\"] [?e :person/age ?a] [(str \"age \" ?a) ?s]]",
            "[]",
            "\"age 36\"",
        ),
        (
            "[:find [?x ...] :where [(ground [1 2 3]) [?x ...]] [(* ?x ?x) ?y] [(< 3 ?y)]]",
            "[]",
            "[2 3]",
        ),
        (
            "[:find [?a ?b ?c ?d ?e ?f] :where [(/ 6 3) ?a] [(/ 7 2) ?b] [(quot -7 2) ?c] [(rem -7 2) ?d] [(mod -7 2) ?e] [(- 5) ?f]]",
            "[]",
            "[2 3.5 -3 -1 1 -5]",
        ),
        (
            "[:find ?x . :where [(+ 9223372036854775807 1) ?x]]",
            "[]",
            "9223372036854775808N",
        ),
        ("[:find ?x . :where [(count \"héé\") ?x]]", "[]", "3"),
        (
            "[:find ?n ?a :where [?e :person/name ?n] [(get-else $ ?e :person/age 0) ?a]]",
            "[]",
            "[[\"Ada\" 36] [\"Bob\" 20] [\"Cy\" 20] [\"Di\" 0]]",
        ),
        (
            "[:find ?n . :where [?e :person/name ?n] [(missing? $ ?e :person/age)]]",
            "[]",
            "\"Di\"",
        ),
        (
            "[:find ?x . :where [(= 1 1N)] [(not= 1 1.0)] [(< 1 1.5 2N)] [(ground true) ?x]]",
            "[]",
            "true",
        ),
        (
            "[:find ?x . :where [(< 1 \"a\" :a)] [(ground 1) ?x]]",
            "[]",
            "1",
        ),
        (
            "[:find [?n ...] :where [?e :person/name ?n] [(clojure.string/starts-with? ?n \"A\")]]",
            "[]",
            "[\"Ada\"]",
        ),
        // not, or and their joins.
        (
            "[:find [?n ...] :where [?e :person/name ?n] (not [?e :person/age 20])]",
            "[]",
            "[\"Ada\" \"Di\"]",
        ),
        (
            "[:find [?n ...] :where [?e :person/name ?n] (not-join [?e] [?e :person/friend ?f] [?f :person/age ?a])]",
            "[]",
            "[\"Cy\"]",
        ),
        (
            "[:find [?n ...] :where [?e :person/name ?n] (or [?e :person/age 36] (and [?e :person/alias \"D\"] [?e :person/name \"Di\"]))]",
            "[]",
            "[\"Ada\" \"Di\"]",
        ),
        (
            "[:find [?n ...] :where [?e :person/name ?n] (or-join [?e] [?e :person/alias] (and [?e :person/friend ?f] [?f :person/age 36]))]",
            "[]",
            "[\"Di\"]",
        ),
        (
            "[:find [?n ...] :where (not [?e :person/age 20]) [?e :person/name ?n]]",
            "[]",
            "[\"Ada\" \"Di\"]",
        ),
        // Rules.
        (
            "[:find [?n ...] :in % ?s :where [?x :person/name ?s] (knows ?x ?y) [?y :person/name ?n]]",
            "[[[(knows ?a ?b) [?a :person/friend ?b]] [(knows ?a ?b) (knows ?a ?c) [?c :person/friend ?b]]] \"Ada\"]",
            "[\"Ada\" \"Bob\" \"Cy\" \"Di\"]",
        ),
        (
            "[:find [?n ...] :in $ % :where (old ?e 30) [?e :person/name ?n]]",
            "[[[(old [?e ?min]) [?e :person/age ?a] [(> ?a ?min)]]]]",
            "[\"Ada\"]",
        ),
        (
            "[:find [?n ...] :in $ % :where [?e :person/name ?n] (not (young ?e))]",
            "[[[(young ?e) [?e :person/age ?a] [(< ?a 30)]]]]",
            "[\"Ada\" \"Di\"]",
        ),
        (
            "[:find ?x . :in % :where (pair ?x ?x)]",
            "[[[(pair ?a ?b) [(ground [[1 2] [3 3]]) [[?a ?b]]]]]]",
            "3",
        ),
        // Aggregates.
        (
            "[:find ?a (count ?e) :where [?e :person/age ?a]]",
            "[]",
            "[[20 2] [36 1]]",
        ),
        (
            "[:find [(min ?a) (max ?a) (avg ?a) (count-distinct ?a) (count ?e)] :with ?e :where [?e :person/age ?a]]",
            "[]",
            "[20 36 25.333333333333332 2 3]",
        ),
        (
            "[:find [(min 2 ?n) (max 2 ?n) (sample 2 ?n) (distinct ?n)] :where [_ :person/name ?n]]",
            "[]",
            "[[\"Ada\" \"Bob\"] [\"Di\" \"Cy\"] [\"Ada\" \"Cy\"] #{\"Ada\" \"Bob\" \"Cy\" \"Di\"}]",
        ),
        (
            "[:find (count ?e) . :where [?e :person/age 99]]",
            "[]",
            "nil",
        ),
        // Pull.
        (
            "[:find [(pull ?e [:person/name {:person/friend [:person/name]}]) ...] :where [?e :person/age 36]]",
            "[]",
            "[{:person/name \"Ada\" :person/friend [{:person/name \"Bob\"}]}]",
        ),
        // The transaction, and facts on it.
        (
            "[:find (count ?t) . :where [?e :person/name \"Ada\" ?tx true] [?tx :db/txInstant ?t]]",
            "[]",
            "1",
        ),
    ] {
        let found = try_ask(&mut store, query, args).unwrap_or_else(|e| panic!("{query}: {e}"));
        // `old` is called with a vector-headed rule of two; `[?e ?min]` means both must be given.
        assert_eq!(found, expected, "{query}");
    }
}

#[test]
fn refusals_say_what_and_where() {
    let mut store = family();
    let mut wrong = Vec::new();
    for (query, args, kind, column, message) in [
        ("5", "[]", "memory/bad-query", 1, "a query is a vector"),
        ("[?e]", "[]", "memory/bad-query", 2, "starts with :find"),
        ("[:find]", "[]", "memory/bad-query", 1, "needs :find"),
        (
            "[:find ?e :were [?e :person/name]]",
            "[]",
            "memory/bad-query",
            11,
            "no part of a query",
        ),
        (
            "[:find e :where [e :person/name]]",
            "[]",
            "memory/bad-query",
            8,
            "a variable such as ?e",
        ),
        (
            "[:find ?x :where [?e :person/name]]",
            "[]",
            "memory/bad-query",
            1,
            "?x is to be found",
        ),
        (
            "[:find ?e :where [?e :person/nmae]]",
            "[]",
            "memory/unknown-attribute",
            22,
            "did you mean :person/name?",
        ),
        (
            "[:find ?e :where [?e :person/age \"36\"]]",
            "[]",
            "memory/wrong-type",
            34,
            "takes a long",
        ),
        (
            "[:find ?e :where (or [?e :person/age 1] (and [?e :person/age :x]))]",
            "[]",
            "memory/wrong-type",
            62,
            "takes a long",
        ),
        (
            "[:find ?e :where [?e :person/name] (not-join [?e] [?e :person/aeg])]",
            "[]",
            "memory/unknown-attribute",
            55,
            "did you mean :person/age?",
        ),
        (
            "[:find ?e :where [?e :person/age ?a] [(< ?a ?b)]]",
            "[]",
            "memory/bad-query",
            38,
            "?b has no value",
        ),
        (
            "[:find ?e :where [?e :person/age] [(frob ?e)]]",
            "[]",
            "memory/bad-query",
            36,
            "no function `frob`",
        ),
        (
            "[:find ?e :where [?e :person/age ?a] [(+ ?a 1)]]",
            "[]",
            "memory/bad-query",
            38,
            "needs a variable to go to",
        ),
        (
            "[:find ?e :where [?e :person/name ?n] [(+ ?n 1) ?m]]",
            "[]",
            "memory/bad-query",
            39,
            "takes numbers",
        ),
        (
            "[:find ?m :where [?e :person/age ?n] [(/ ?n 0) ?m]]",
            "[]",
            "memory/bad-query",
            38,
            "by zero",
        ),
        (
            "[:find ?e :where (or [?e :person/age ?a] [?e :person/name])]",
            "[]",
            "memory/bad-query",
            18,
            "the same variables",
        ),
        (
            "[:find ?e :where (knows ?e ?f)]",
            "[]",
            "memory/bad-query",
            18,
            "no rule `knows`",
        ),
        (
            "[:find ?e :in $ ?a :where [?e :person/age ?a]]",
            "[]",
            "memory/bad-query",
            1,
            "takes 1 arguments",
        ),
        (
            "[:find (median ?a) :where [_ :person/age ?a]]",
            "[]",
            "memory/bad-query",
            8,
            "no aggregate",
        ),
        (
            "[:find (sum ?n) :where [_ :person/name ?n]]",
            "[]",
            "memory/bad-query",
            1,
            "takes numbers",
        ),
        (
            "[:find (pull ?e [:person/nmae]) :where [?e :person/age]]",
            "[]",
            "memory/unknown-attribute",
            18,
            "did you mean",
        ),
        (
            "[:find ?v :where [(fulltext $ :person/name \"x\") [[?e ?v]]]]",
            "[]",
            "memory/bad-query",
            18,
            "no :db/fulltext",
        ),
        (
            "[:find ?e :where [?e :person/name ?n ?t ?a ?x]]",
            "[]",
            "memory/bad-query",
            18,
            "one to five parts",
        ),
        (
            "[:find ?e :in % :where (p ?e)]",
            "[[[(p ?e) (q ?e)] [(q ?e) [?e :person/name] (not (p ?e))]]]",
            "memory/bad-query",
            45,
            "own `not`",
        ),
        (
            "[:find ?e :in % :where (p ?e)]",
            "[[[(p ?e) [?e :person/naem]]]]",
            "memory/unknown-attribute",
            15,
            "did you mean",
        ),
        (
            "[:find ?e :in % :where (p ?e ?x)]",
            "[[[(p ?e) [?e :person/name]]]]",
            "memory/bad-query",
            24,
            "takes 1 arguments",
        ),
        (
            "[:find ?e ?f :in % :where (p ?e ?f)]",
            "[[[(p ?e ?f) [?e :person/name]]]]",
            "memory/bad-query",
            1,
            "gives it no value",
        ),
    ] {
        let error = try_ask(&mut store, query, args).expect_err(query);
        if place(&error) != (kind.to_owned(), 1, column) || !error.message().contains(message) {
            wrong.push(format!("{query}\n  {} {error}", error.kind().keyword()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_takes_too_long_is_stopped() {
    let mut store = family();
    let run = |store: &mut Store, query: &str, limits: &Limits| {
        Query::parse(&edn(query))
            .unwrap()
            .run(&store.db(View::Current).unwrap(), &[], limits, None)
            .map(|a| a.total)
    };
    let cross = "[:find ?a ?b ?c :where [?a] [?b] [?c]]";
    let few = Limits {
        rows: 1000,
        ..Limits::default()
    };
    assert_eq!(
        run(&mut store, cross, &few).unwrap_err().kind(),
        Kind::QueryLimit
    );
    let short = Limits {
        steps: 1000,
        ..Limits::default()
    };
    assert_eq!(
        run(&mut store, cross, &short).unwrap_err().kind(),
        Kind::QueryLimit
    );
    let counting = "[:find ?y :in % :where (n ?y)]";
    let rules = edn("[[(n ?y) [(ground 0) ?y]] [(n ?y) (n ?x) [(inc ?x) ?y]]]");
    let endless = Query::parse(&edn(counting)).unwrap().run(
        &store.db(View::Current).unwrap(),
        &[rules],
        &short,
        None,
    );
    assert_eq!(
        endless.unwrap_err().kind(),
        Kind::QueryLimit,
        "a rule that never ends"
    );
    let stopped = Limits {
        cancel: Some(std::sync::Arc::new(true.into())),
        ..Limits::default()
    };
    assert_eq!(
        run(&mut store, cross, &stopped).unwrap_err().kind(),
        Kind::Cancelled
    );
}

#[test]
fn a_long_chain_is_followed_without_a_deep_stack() {
    let mut store = memory();
    record(&mut store, "[{:db/ident :n/id :db/valueType :db.type/long :db/cardinality :db.cardinality/one :db/unique :db.unique/identity}
                         {:db/ident :n/next :db/valueType :db.type/ref :db/cardinality :db.cardinality/one}]");
    let nodes: String = (0..1000)
        .map(|i| {
            format!(
                "{{:db/id \"{i}\" :n/id {i} :n/next \"{}\"}}",
                (i + 1) % 1000
            )
        })
        .collect();
    record(&mut store, &format!("[{nodes}]"));
    // From the one node: every answer is the start of the next.
    let rules = "[[[(reach ?a ?b) [?a :n/next ?b]] [(reach ?a ?b) (reach ?a ?c) [?c :n/next ?b]]]]";
    let query = "[:find (count ?y) . :in % :where [?x :n/id 0] (reach ?x ?y)]";
    assert_eq!(try_ask(&mut store, query, rules).as_deref(), Ok("1000"));
    // The other way round every node asks a question of its own, and all pairs are too many.
    let rules = "[[[(reach ?a ?b) [?a :n/next ?b]] [(reach ?a ?b) [?a :n/next ?c] (reach ?c ?b)]]]";
    let Edn::Vector(args) = edn(rules) else {
        panic!()
    };
    let short = Limits {
        steps: 20_000,
        ..Limits::default()
    };
    let found = Query::parse(&edn(query)).unwrap().run(
        &store.db(View::Current).unwrap(),
        &args,
        &short,
        None,
    );
    assert_eq!(found.unwrap_err().kind(), Kind::QueryLimit);
    // A chain without an end that closes it has answers that come back all the way.
    record(&mut store, "[[:db/retract [:n/id 40] :n/next]]");
    let query = "[:find (count ?y) . :in % :where [?x :n/id 0] (reach ?x ?y)]";
    assert_eq!(try_ask(&mut store, query, rules).as_deref(), Ok("40"));
}

#[test]
fn the_order_of_clauses_does_not_matter_for_the_cost() {
    let mut store = people();
    let many: String = (0..3000)
        .map(|i| format!("{{:person/name \"p{i}\" :person/age {}}}", i % 50))
        .collect();
    record(&mut store, &format!("[{many} {{:person/name \"the one\" :person/age 7 :person/friend [:person/name \"p1\"]}}]").replace(" :person/friend [:person/name \"p1\"]", ""));
    let limits = Limits {
        steps: 100,
        ..Limits::default()
    };
    for query in [
        "[:find ?a . :where [?e :person/age ?a] [?e :person/name \"the one\"]]",
        "[:find ?a . :where [?e :person/name \"the one\"] [?e :person/age ?a]]",
        "[:find ?n . :where [?e :person/age ?a] [?e :person/name ?n] [(= ?n \"p1\")] [?e :person/name \"p1\"]]",
    ] {
        let answer = Query::parse(&edn(query)).unwrap().run(
            &store.db(View::Current).unwrap(),
            &[],
            &limits,
            None,
        );
        assert_ne!(answer.unwrap().result, Edn::Nil, "{query}");
    }
}

#[test]
fn what_a_turn_recorded_is_found_without_reading_all_facts() {
    let mut store = people();
    for turn in 0..20 {
        let facts: String = (0..50)
            .map(|i| format!("{{:person/name \"p{turn}-{i}\"}}"))
            .collect();
        record(&mut store, &format!("[{facts}]"));
    }
    let last = record(&mut store, "[{:person/name \"the last\"}]");
    let limits = Limits {
        steps: 100,
        ..Limits::default()
    };
    let query = "[:find [?n ...] :in ?tx :where [?e :person/name ?n ?tx]]";
    let db = store.db(View::Current).unwrap();
    let answer = Query::parse(&edn(query))
        .unwrap()
        .run(&db, &[Edn::Int(last.tx)], &limits, None);
    assert_eq!(answer.unwrap().result, edn("[\"the last\"]"));
}
