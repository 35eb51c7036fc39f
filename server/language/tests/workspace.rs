//! Deltas, frozen specifications, queries, holes and exported tools.

mod common;

use serde_json::json;
use touchstone_language::analysis::Analyzer;
use touchstone_language::delta::{Change, Frozen, delta, frozen_breaches};
use touchstone_language::host::{Nothing, TestHost};
use touchstone_language::machine::Budget;
use touchstone_language::names::full;
use touchstone_language::query;
use touchstone_language::tool::{Called, Tool};

const BASE: &str = "error Down\n\n/// Doubles.\nfn twice(n: Int where value > 0) -> Int\n  requires n < 9\n  ensures result > n\n{\n  n * 2\n}\n\nfn shout(text: String) -> Unit ! {Print} { print(text) }\n\ntest \"twice\" { assert twice(2) == 4 }\n";

fn change(from: &str, to: &str) -> (Vec<Change>, Vec<String>) {
    assert!(BASE.contains(from), "{from}");
    let mut analyzer = Analyzer::new();
    let old = analyzer.env(&common::snapshot(&[("main.sakura", BASE)]));
    let new = analyzer.env(&common::snapshot(&[(
        "main.sakura",
        &BASE.replace(from, to),
    )]));
    let changes = delta(&old, &new);
    let breaches = frozen_breaches(&Frozen::All, &old, &new, &changes);
    assert!(breaches.iter().all(|d| d.code == "V8020"));
    (changes, breaches.into_iter().map(|d| d.message).collect())
}

fn parts(from: &str, to: &str) -> Vec<&'static str> {
    let (changes, breaches) = change(from, to);
    assert_eq!(changes.len(), 1, "{changes:#?}");
    assert_eq!(breaches.len(), changes[0].parts.len());
    changes[0].parts.iter().map(|(part, ..)| *part).collect()
}

#[test]
fn each_kind_of_clause_is_told_and_frozen() {
    assert_eq!(parts("(n: Int where", "(m: Int where"), ["signature"]);
    assert_eq!(parts("-> Unit !", "-> Int !"), ["signature"]);
    assert_eq!(parts("! {Print}", "! {Print, Clock}"), ["effect_row"]);
    assert_eq!(parts("! {Print}", "! {Print, Fail<Down>}"), ["error_union"]);
    assert_eq!(parts("requires n < 9", "requires n < 10"), ["requires"]);
    assert_eq!(parts("ensures result > n", "ensures true"), ["ensures"]);
    assert_eq!(parts("where value > 0", "where value > 1"), ["where"]);
    assert_eq!(parts("== 4", "!= 4"), ["body"]);
}

#[test]
fn bodies_layout_and_comments_are_free() {
    for (from, to) in [
        ("n * 2\n", "n + n\n"),
        ("requires n < 9", "requires n  <  9 // nine"),
        ("/// Doubles.", "/// Twice."),
    ] {
        let (changes, breaches) = change(from, to);
        assert_eq!((changes.len(), breaches.len()), (0, 0), "{from}");
    }
}

#[test]
fn removing_is_refused_and_adding_is_not() {
    let (changes, breaches) = change(
        "test \"twice\" { assert twice(2) == 4 }\n",
        "fn other() -> Int { 1 }\n",
    );
    let kinds: Vec<&str> = changes.iter().map(|c| c.change).collect();
    assert_eq!(kinds, ["added", "removed"]);
    assert_eq!(breaches.len(), 1);
}

#[test]
fn a_refinement_behind_an_alias_counts() {
    let mut analyzer = Analyzer::new();
    let text = "type Small = Int where value < 9\n\nfn f(n: Small) -> Int { n }\n";
    let old = analyzer.env(&common::snapshot(&[("main.sakura", text)]));
    let new = analyzer.env(&common::snapshot(&[(
        "main.sakura",
        &text.replace("< 9", "< 99"),
    )]));
    let changes = delta(&old, &new);
    let frozen = Frozen::parse("main::f");
    let breaches = frozen_breaches(&frozen, &old, &new, &changes);
    assert_eq!(breaches.len(), 1);
    assert!(
        breaches[0].message.contains("where"),
        "{}",
        breaches[0].message
    );
}

#[test]
fn what_changes_through_two_imports_is_told() {
    let limits = "type Limit = Int where value < 9\n";
    let sizes = "import limits.{Limit}\n\ntype Small = Limit\n";
    let user = "import sizes.{Small}\n\nfn f(n: Small) -> Int { n }\n";
    let other = "fn g(n: Int) -> Int { n }\n";
    let mut analyzer = Analyzer::new();
    let mut with = |limits: &str| {
        analyzer.env(&common::snapshot(&[
            ("limits.sakura", limits),
            ("sizes.sakura", sizes),
            ("user.sakura", user),
            ("other.sakura", other),
        ]))
    };
    let (old, new) = (with(limits), with(&limits.replace("< 9", "< 99")));
    let changes = delta(&old, &new);
    let symbols: Vec<&str> = changes.iter().map(|c| &*c.symbol).collect();
    assert_eq!(symbols, ["limits::Limit", "sizes::Small", "user::f"]);
}

#[test]
fn symbols_are_found_by_name_and_by_type() {
    let (env, _) = common::analyse(&[("main.sakura", BASE)]);
    let found = query::symbol_json(&env, &query::find_by_name(&env, "twice")[0]).unwrap();
    assert_eq!(found["id"], "main::twice");
    assert_eq!(
        found["signature"],
        "fn twice(n: Int where value > 0) -> Int"
    );
    assert_eq!(found["doc"], "Doubles.");
    assert_eq!(
        found["contracts"],
        json!({"requires": ["n < 9"], "ensures": ["result > n"]})
    );
    let shout = query::symbol_json(&env, &full("main", "shout")).unwrap();
    assert_eq!(
        (&shout["effect_row"], &shout["error_union"]),
        (&json!(["Print"]), &json!([]))
    );
    let by_type = query::find_by_type(&env, "(Int) -> Int").unwrap();
    assert!(
        by_type.contains(&full("main", "twice")) && by_type.contains(&full("std/core", "Int.abs"))
    );
    let by_type = query::find_by_type(&env, "(List<A>, _) -> List<A>").unwrap();
    assert!(
        by_type.contains(&full("std/core", "List.take"))
            && !by_type.contains(&full("std/core", "List.length"))
    );
    assert!(query::find_by_type(&env, "(List<").is_err());
}

#[test]
fn a_hole_tells_what_is_known_around_it() {
    let text = "error Down\n\nfn f(width: Float, names: List<String>) -> Float ! {Print, Fail<Down>}\n  requires width > 0.0\n{\n  let first = List.first(names)\n  ?size\n}\n\nfn unit() -> Float { 1.0 }\n";
    let (env, checked) = common::analyse(&[("main.sakura", text)]);
    assert_eq!(common::shown(&checked), Vec::<String>::new());
    let hole = query::hole_json(&env, &checked.holes[0]);
    assert_eq!(hole["id"], "main.sakura#f?size");
    assert_eq!(hole["expected"], "Float");
    assert_eq!(hole["allowed_effects"], json!(["Print"]));
    assert_eq!(hole["allowed_failures"], json!(["main::Down"]));
    assert_eq!(
        hole["bindings"][0],
        json!({"name": "width", "type": "Float", "fits": true})
    );
    assert_eq!(
        hole["bindings"][2],
        json!({"name": "first", "type": "Option<String>", "fits": false})
    );
    assert_eq!(hole["contracts"], json!(["width > 0.0"]));
    let ids: Vec<&str> = hole["symbols"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["id"].as_str().unwrap())
        .collect();
    assert!(
        ids.contains(&"main::unit")
            && ids.contains(&"std/core::Float.sqrt")
            && !ids.contains(&"std/core::Int.abs"),
        "{ids:?}"
    );
}

#[test]
fn documentation_keeps_to_its_budget() {
    let (env, _) = common::analyse(&[]);
    let (text, omitted) = query::within(query::topic(&env, "List"), None);
    assert!(text.contains("List.map") && omitted.is_empty());
    let (text, omitted) = query::within(query::topic(&env, "List"), Some(100));
    assert!(text.len() <= 400 && !omitted.is_empty());
    assert!(!query::topic(&env, "Effects").is_empty());
    assert!(!query::topic(&env, "V3001").is_empty());
    assert!(query::topic(&env, "no such thing at all").is_empty());
}

const TOOLS: &str = "error Closed { until: Int }\n\ntype Size = Small | Large\ntype Shape = Dot | Circle(Float where value > 0.0)\ntype Order = { size: Size, count: Int where value >= 1 && value <= 9, note: Option<String> }\n\n/// More.\n@tool(\"Orders coffee\")\nfn order(what: Order, shapes: List<Shape>, name: String where String.length(value) > 0) -> Map<String, Int> ! Fail<Closed> {\n  if name == \"late\" { fail Closed { until: 8 } }\n  if name == \"zero\" { let _ = 1 / (what.count - what.count) }\n  Map.insert(Map.empty(), name, what.count + List.length(shapes))\n}\n";

#[test]
fn a_tool_has_a_schema_and_is_called_with_json() {
    let (env, checked) = common::analyse(&[("main.sakura", TOOLS)]);
    assert_eq!(common::shown(&checked), Vec::<String>::new());
    let tool = Tool::new(&env, &full("main", "order")).unwrap();
    assert_eq!(tool.description(), "Orders coffee\n\nMore.");
    let schema = tool.input_schema();
    assert_eq!(
        schema["properties"]["name"],
        json!({"type": "string", "minLength": 1})
    );
    assert_eq!(
        schema["$defs"]["Order"]["properties"]["count"],
        json!({"type": "integer", "minimum": 1, "maximum": 9})
    );
    assert_eq!(
        schema["$defs"]["Order"]["required"],
        json!(["size", "count"])
    );
    assert_eq!(
        schema["$defs"]["Size"],
        json!({"type": "string", "enum": ["Small", "Large"]})
    );
    let call = |arguments: serde_json::Value| {
        tool.call(
            arguments.as_object().unwrap(),
            &mut Nothing,
            Budget::default(),
        )
    };
    let good = json!({"what": {"size": "Large", "count": 2}, "shapes": [{"tag": "Circle", "values": [1.5]}], "name": "x"});
    assert!(matches!(call(good.clone()), Called::Value(v) if v == json!({"x": 3})));
    let with = |path: &str, value: serde_json::Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(path).unwrap() = value;
        call(changed)
    };
    for (path, value, word) in [
        ("/name", json!(""), "name"),
        ("/what/count", json!(10), "count"),
        ("/what/count", json!(1.5), "count"),
        ("/what/size", json!("Huge"), "Huge"),
        ("/shapes/0/values/0", json!(-1.0), "value"),
        ("/shapes/0/tag", json!("Square"), "Square"),
        (
            "/what",
            json!({"size": "Small", "count": 1, "more": 1}),
            "more",
        ),
    ] {
        let Called::Invalid(message) = with(path, value) else {
            panic!("{path} was taken")
        };
        assert!(message.contains(word), "{message}");
    }
    assert!(matches!(call(json!({"name": "x"})), Called::Invalid(m) if m.contains("missing")));
    assert!(
        matches!(with("/name", json!("late")), Called::Failure { tag, payload } if tag == "Closed" && payload == json!({"until": 8}))
    );
    assert!(matches!(with("/name", json!("zero")), Called::Stopped(_)));
    let _ = TestHost::new(1);
}
