//! What programs do when they run.

mod common;

use touchstone_language::host::{FaultKind, Nothing, Stop, TestHost};
use touchstone_language::machine::Budget;
use touchstone_language::testing::{Status, TestOptions};
use touchstone_language::value::{Value, show};

fn result(text: &str) -> String {
    match common::run(text, "main", Vec::new(), &mut TestHost::new(1)) {
        Ok(value) => show(&value),
        Err(stop) => format!("{}: {}", stop.kind(), stop.message()),
    }
}

fn expr(ty: &str, body: &str) -> String {
    result(&format!("fn main() -> {ty} {{\n  {body}\n}}\n"))
}

#[test]
fn arithmetic_stops_where_it_does_not_fit() {
    assert_eq!(expr("Int", "7 / 2 * 2 + 7 % 2"), "7");
    assert_eq!(
        expr("Int", "9223372036854775807 + 1"),
        "overflow: 9223372036854775807 + 1 does not fit into Int"
    );
    assert_eq!(
        expr("Int", "-9223372036854775808 / -1"),
        "overflow: -9223372036854775808 / -1 does not fit into Int"
    );
    assert_eq!(
        expr("Int", "1 / 0"),
        "division_by_zero: 1 is divided by zero"
    );
    assert_eq!(expr("Float", "1.0 / 0.0"), "inf");
    assert_eq!(expr("Bool", "0.0 / 0.0 == 0.0 / 0.0"), "false");
    assert_eq!(expr("Bool", "false && 1 / 0 == 0"), "false");
}

#[test]
fn the_library_does_what_it_says() {
    for (ty, body, wanted) in [
        (
            "List<String>",
            "String.split(\"a,b,,c\", \",\")",
            r#"["a", "b", "", "c"]"#,
        ),
        ("String", "String.join([\"a\", \"b\"], \"-\")", r#""a-b""#),
        ("String", "String.slice(\"häus\", 1, 3)", r#""äu""#),
        ("Option<Int>", "String.index_of(\"häus\", \"u\")", "Some(2)"),
        ("Option<Int>", "String.to_int(\"x\")", "None"),
        ("Option<Int>", "Float.to_int(1.0e300)", "None"),
        ("List<Int>", "List.sort([3, 1, 2])", "[1, 2, 3]"),
        (
            "List<String>",
            "List.sort_by([\"ccc\", \"a\", \"bb\", \"d\"], String.length)",
            r#"["a", "d", "bb", "ccc"]"#,
        ),
        (
            "List<Int>",
            "List.flat_map([1, 2], n -> [n, n * 10])",
            "[1, 10, 2, 20]",
        ),
        ("Int", "List.sum(List.range(0, 101))", "5050"),
        ("Option<Int>", "List.find([1, 5, 9], n -> n > 3)", "Some(5)"),
        ("List<Int>", "List.set([1, 2, 3], 1, 9)", "[1, 9, 3]"),
        (
            "Map<String, Int>",
            "Map.empty() |> Map.insert(\"b\", 1) |> Map.insert(\"a\", 2)",
            r#"Map { "a": 2, "b": 1 }"#,
        ),
        (
            "Int",
            "Option.with_default(Map.get(Map.insert(Map.empty(), [1], 5), [1]), 0)",
            "5",
        ),
        ("Bool", "(n -> n + 1) == (n -> n + 1)", "false"),
        (
            "String",
            "debug([Some(\"a\\n\")])",
            r#""[Some(\\\"a\\\\n\\\")]""#,
        ),
    ] {
        let found = expr(ty, body);
        if body.starts_with("debug") {
            assert_eq!(found, show(&Value::text("[Some(\"a\\n\")]")));
        } else {
            assert_eq!(found, wanted, "{body}");
        }
    }
}

#[test]
fn a_loop_in_constant_stack_and_a_list_built_in_linear_time() {
    let text = "fn count(n: Int, done: List<Int>) -> List<Int> {\n  if n == 0 { done } else { count(n - 1, List.append(done, n)) }\n}\n\nfn main() -> Int { List.length(count(100000, [])) }\n";
    assert_eq!(result(text), "100000");
}

#[test]
fn endless_work_ends_with_the_budget() {
    let forever = "fn main() -> Int { main() }\n";
    assert!(result(forever).starts_with("out_of_steps"));
    let deep = "fn main() -> Int { 1 + main() }\n";
    assert!(result(deep).starts_with("stack_overflow") || result(deep).starts_with("out_of"));
    let large = "fn grow(list: List<Int>) -> List<Int> { grow(list ++ list) }\n\nfn main() -> Int { List.length(grow([1])) }\n";
    assert!(result(large).starts_with("out_of_memory"));
    let text = "fn main() -> Int { String.length(String.repeat(\"ab\", 9000000000000)) }\n";
    assert!(result(text).starts_with("out_of_memory"));
    // A value that is shared over and over is small in memory and endless to walk.
    let shared = "type Tree = Leaf | Node(Tree, Tree)\n\nfn grow(tree: Tree, n: Int) -> Tree {\n  if n == 0 { tree } else { grow(Node(tree, tree), n - 1) }\n}\n\nfn main() -> Bool { grow(Leaf, 200) == grow(Leaf, 200) }\n";
    assert!(result(shared).starts_with("out_of_steps"));
}

#[test]
fn failures_are_raised_recovered_and_raised_again() {
    let text = "error A { n: Int }\nerror B\n\nfn risky(n: Int) -> Int ! Fail<A | B> {\n  if n > 2 { fail A { n: n } }\n  if n == 2 { fail B }\n  n\n}\n\nfn inner(n: Int) -> Int ! Fail<B> {\n  recover risky(n) {\n    A { n } -> n * 100\n  }\n}\n\nfn main() -> List<Int> {\n  List.map([1, 2, 3], n -> recover inner(n) { B -> -1 })\n}\n";
    assert_eq!(result(text), "[1, -1, 300]");
    let text = "error A { n: Int }\n\nfn main() -> Int ! Fail<A> { 1 + fail A { n: 4 } }\n";
    assert_eq!(result(text), "failure: failed with A { n: 4 }");
}

#[test]
fn contracts_and_refinements_are_checked_at_the_edges() {
    let text = "fn half(n: Int where value % 2 == 0) -> Int\n  requires n < 100\n  ensures result * 2 == n\n{\n  if n == 42 { 0 } else { n / 2 }\n}\n\nfn main() -> Int { half(List.sum([ARG])) }\n";
    let with = |arg: &str| result(&text.replace("ARG", arg));
    assert_eq!(with("8"), "4");
    assert_eq!(
        with("7"),
        "refinement: `n` must satisfy `value % 2 == 0`, found 7"
    );
    assert!(with("100").starts_with("requires: `half` requires `n < 100`"));
    assert!(with("42").starts_with("ensures: `half` ensures `result * 2 == n`"));
    let text = "type Marks = List<(Int where value >= 0)>\n\nfn count(marks: Marks) -> Int { List.length(marks) }\n\nfn main() -> Int { count(List.map([1, -1], n -> n)) }\n";
    assert!(
        result(text).starts_with("refinement: each of `marks` must satisfy `value >= 0`, found -1")
    );
    let text = "type P = { n: Int where value > 0 }\n\nfn main() -> P {\n  let p = P { n: List.sum([1]) }\n  P { ..p, n: List.sum([-1]) }\n}\n";
    assert!(result(text).starts_with("refinement: the field `n` of `P`"));
}

#[test]
fn a_stop_tells_where_it_happened() {
    let text = "fn inner(n: Int) -> Int { 10 / n }\n\nfn main() -> Int { inner(0) + 1 }\n";
    let stop = common::run(text, "main", Vec::new(), &mut Nothing).unwrap_err();
    let names: Vec<&str> = stop.stack().iter().map(|p| &*p.function).collect();
    assert_eq!(names, ["inner", "main"]);
    assert_eq!(
        &text[stop.stack()[0].start as usize..stop.stack()[0].end as usize],
        "10 / n"
    );
}

#[test]
fn effects_are_the_hosts_to_grant() {
    let text = "import std/http.{Http, HttpError}\n\nfn main() -> Int ! {Http, Print, Fail<HttpError>} {\n  print(\"a\")\n  Http.get(url\"https://a.example\").status\n}\n";
    let mut host = TestHost::new(1);
    let stop = common::run(text, "main", Vec::new(), &mut host).unwrap_err();
    assert!(matches!(stop, Stop::Fault(f) if f.kind == FaultKind::Denied));
    assert_eq!(host.log, ["a"]);
    let stop = common::run(text, "main", Vec::new(), &mut Nothing).unwrap_err();
    assert_eq!(stop.message(), "Print is not granted here");
}

#[test]
fn json_goes_both_ways() {
    let text = "import std/json.{DecodeError, Json}\n\nfn main() -> String ! Fail<DecodeError> {\n  Json.text(Json.parse(\"\\{\\\"a\\\": [1, 2.5, null, true, \\\"x\\\"]\\}\"))\n}\n";
    assert_eq!(
        result(text),
        show(&Value::text(r#"{"a":[1,2.5,null,true,"x"]}"#))
    );
    let text = text.replace("null", "nul");
    assert!(result(&text).starts_with("failure: failed with DecodeError"));
}

#[test]
fn tests_are_repeatable_and_counterexamples_small() {
    let text = "property \"no list holds 9 or more\" (list: List<(Int where value >= 0)>) {\n  assert List.all(list, n -> n < 9)\n}\n\nproperty \"fine\" (a: Int, b: String) { assert debug(a) ++ b != \"\" }\n\ntest \"fails\" { assert 1 + 1 == 3 }\n\ntest \"hole\" { ?todo }\n";
    let (env, checked) = common::analyse(&[("main.sakura", text)]);
    assert_eq!(common::shown(&checked), Vec::<String>::new());
    let options = TestOptions {
        seed: 5,
        ..TestOptions::default()
    };
    let results = common::run_tests(&env, options);
    assert_eq!(
        results.iter().map(|r| r.status).collect::<Vec<_>>(),
        [
            Status::Failed,
            Status::Passed,
            Status::Failed,
            Status::Error
        ]
    );
    assert_eq!(results[0].counterexample[0].1, "[9]");
    assert_eq!(
        results[2].message.as_deref(),
        Some("`1 + 1 == 3` does not hold: left is 2, right is 3")
    );
    let again = common::run_tests(&env, options);
    assert_eq!(format!("{results:?}"), format!("{again:?}"));
    let small = TestOptions {
        budget: Budget {
            steps: 40,
            memory: 1 << 20,
        },
        ..options
    };
    assert_eq!(common::run_tests(&env, small)[1].status, Status::Error);
}
