//! The codes of diagnostics, each with what it means, why, a wrong and a right example.

use crate::diagnostic::Severity;

/// What there is to say about a code.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    /// `V` and four digits.
    pub code: &'static str,
    /// A word for it.
    pub name: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What was found.
    pub meaning: &'static str,
    /// Why the language has the rule.
    pub why: &'static str,
    /// A file that has the diagnostic; empty where none is small.
    pub wrong: &'static str,
    /// The file without it.
    pub right: &'static str,
}

impl Page {
    /// The page as text in Markdown.
    pub fn text(&self) -> String {
        let mut out = format!(
            "# {} {} ({})\n\n{}\n\n{}\n",
            self.code,
            self.name,
            self.severity.text(),
            self.meaning,
            self.why
        );
        for (title, example) in [("Wrong", self.wrong), ("Right", self.right)] {
            if !example.is_empty() {
                out.push_str(&format!("\n{title}:\n\n```sakura\n{example}\n```\n"));
            }
        }
        out
    }
}

/// The page of a code.
pub fn find(code: &str) -> Option<&'static Page> {
    PAGES
        .iter()
        .find(|page| page.code.eq_ignore_ascii_case(code) || page.name.eq_ignore_ascii_case(code))
}

/// All codes in order.
pub const PAGES: &[Page] = &[
    Page {
        code: "V1001",
        name: "syntax",
        severity: Severity::Error,
        meaning: r#"Something is missing or stands in the wrong place."#,
        why: r#"The parser reports each mistake where it is and goes on behind it."#,
        wrong: r#"fn f() -> Int { 1 +
}"#,
        right: r#"fn f() -> Int { 1 + 2 }"#,
    },
    Page {
        code: "V1002",
        name: "open_string",
        severity: Severity::Error,
        meaning: r#"A string has no closing quote on its line."#,
        why: r#"Strings do not span lines; write `\n` for a line break inside one."#,
        wrong: r#"fn f() -> String { "abc }"#,
        right: r#"fn f() -> String { "abc" }"#,
    },
    Page {
        code: "V1003",
        name: "unknown_character",
        severity: Severity::Error,
        meaning: r#"A character means nothing in the language."#,
        why: r#"Names are made of letters, digits and `_` of ASCII; any character may stand in strings and comments."#,
        wrong: r#"fn f() -> Int { 1 # 2 }"#,
        right: r#"fn f() -> Int { 1 + 2 }"#,
    },
    Page {
        code: "V1004",
        name: "too_deep",
        severity: Severity::Error,
        meaning: r#"Code nests too deeply."#,
        why: r#"The depth of programs is bounded, so that no tool that reads them can run out of stack. Name a part of it with `let`."#,
        wrong: r#"fn f() -> Int { ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1)))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))) }"#,
        right: r#"fn f() -> Int { ((1)) }"#,
    },
    Page {
        code: "V1005",
        name: "int_out_of_range",
        severity: Severity::Error,
        meaning: r#"A whole number does not fit into 64 bits."#,
        why: r#"Int goes from -9223372036854775808 to 9223372036854775807."#,
        wrong: r#"fn f() -> Int { 9223372036854775808 }"#,
        right: r#"fn f() -> Int { 9223372036854775807 }"#,
    },
    Page {
        code: "V1006",
        name: "letter_case",
        severity: Severity::Error,
        meaning: r#"A name begins with a letter of the wrong case."#,
        why: r#"Types, constructors and errors begin with a capital, all other names with a small letter; so a reader and the parser can tell them apart."#,
        wrong: r#"type page = Int"#,
        right: r#"type Page = Int"#,
    },
    Page {
        code: "V1007",
        name: "unknown_attribute",
        severity: Severity::Error,
        meaning: r#"There is no such attribute."#,
        why: r#"`@tool("description")` marks a function that can be exported as a tool. There are no others."#,
        wrong: r#"@inline("yes")
fn f() -> Int { 1 }"#,
        right: r#"@tool("Gives one")
fn f() -> Int { 1 }"#,
    },
    Page {
        code: "V1008",
        name: "bad_escape",
        severity: Severity::Error,
        meaning: r#"A string holds something it cannot."#,
        why: r#"The escapes are `\n \t \r \\ \" \{ \} \u{…}`. Names of tests and descriptions are plain text without `{…}`."#,
        wrong: r#"fn f() -> String { "\q" }"#,
        right: r#"fn f() -> String { "\n" }"#,
    },
    Page {
        code: "V1009",
        name: "bare_refinement",
        severity: Severity::Error,
        meaning: r#"A refinement stands bare between `<` and `>`."#,
        why: r#"The `>` of a condition could be the end of the type arguments; parentheses say which."#,
        wrong: r#"fn f(xs: List<Int where value != 0>) -> Int { List.length(xs) }"#,
        right: r#"fn f(xs: List<(Int where value > 0)>) -> Int { List.length(xs) }"#,
    },
    Page {
        code: "V1010",
        name: "no_tuples",
        severity: Severity::Error,
        meaning: r#"Several values stand in parentheses."#,
        why: r#"There are no tuples: a record names its parts."#,
        wrong: r#"fn f() -> Int { (1, 2) }"#,
        right: r#"fn f() -> List<Int> { [1, 2] }"#,
    },
    Page {
        code: "V1011",
        name: "chained_comparison",
        severity: Severity::Error,
        meaning: r#"A comparison is compared again."#,
        why: r#"`a < b < c` would compare a Bool with a number."#,
        wrong: r#"fn f(a: Int) -> Bool { 0 < a < 9 }"#,
        right: r#"fn f(a: Int) -> Bool { 0 < a && a < 9 }"#,
    },
    Page {
        code: "V1012",
        name: "pipe_target",
        severity: Severity::Error,
        meaning: r#"The right side of `|>` is no function."#,
        why: r#"`x |> f(y)` is `f(x, y)`, and `x |> f` is `f(x)`."#,
        wrong: r#"fn f(a: Int) -> Int { a |> 1 }"#,
        right: r#"fn g(a: Int) -> Int { a }

fn f(a: Int) -> Int { a |> g }"#,
    },
    Page {
        code: "V1013",
        name: "misplaced_spread",
        severity: Severity::Error,
        meaning: r#"`..` stands where it cannot."#,
        why: r#"`Page { ..old, size: 3 }` copies a record with some fields changed. `..` comes first and once; failures are made from their fields."#,
        wrong: r#"type P = { a: Int }

fn f(p: P) -> P { P { a: 1, ..p } }"#,
        right: r#"type P = { a: Int }

fn f(p: P) -> P { P { ..p, a: 1 } }"#,
    },
    Page {
        code: "V1014",
        name: "assignment",
        severity: Severity::Error,
        meaning: r#"Something is assigned to."#,
        why: r#"Values do not change. `let` binds a new name, which may be the old one again."#,
        wrong: r#"fn f(a: Int) -> Int {
  a = 1
  a
}"#,
        right: r#"fn f(a: Int) -> Int {
  let a = a + 1
  a
}"#,
    },
    Page {
        code: "V1015",
        name: "missing_body",
        severity: Severity::Error,
        meaning: r#"A declaration does not say what it is."#,
        why: r#"Only the standard library declares things without a body."#,
        wrong: r#"fn f() -> Int"#,
        right: r#"fn f() -> Int { ?todo }"#,
    },
    Page {
        code: "V2001",
        name: "unknown_name",
        severity: Severity::Error,
        meaning: r#"Nothing has this name here."#,
        why: r#"A name is a parameter, a `let`, a function of this file, an import, or one of the prelude's."#,
        wrong: r#"fn f(count: Int) -> Int { cuont }"#,
        right: r#"fn f(count: Int) -> Int { count }"#,
    },
    Page {
        code: "V2002",
        name: "unknown_type",
        severity: Severity::Error,
        meaning: r#"No type has this name here."#,
        why: r#"Types come from this file, from imports, or from the prelude."#,
        wrong: r#"fn f(a: Strin) -> Int { 1 }"#,
        right: r#"fn f(a: String) -> Int { 1 }"#,
    },
    Page {
        code: "V2003",
        name: "duplicate",
        severity: Severity::Error,
        meaning: r#"A name is declared twice, or an import clashes with another name."#,
        why: r#"A name means one thing."#,
        wrong: r#"fn f() -> Int { 1 }

fn f() -> Int { 2 }"#,
        right: r#"fn f() -> Int { 1 }

fn g() -> Int { 2 }"#,
    },
    Page {
        code: "V2004",
        name: "unknown_module",
        severity: Severity::Error,
        meaning: r#"There is no such module."#,
        why: r#"A module is a file, named by its path without `.sakura`; the library's begin with `std/`."#,
        wrong: r#"import std/htp.{Http}"#,
        right: r#"import std/http.{HttpError}

fn f() -> Int ! Fail<HttpError> { fail HttpError { message: "no" } }"#,
    },
    Page {
        code: "V2005",
        name: "unused_import",
        severity: Severity::Warning,
        meaning: r#"An import is not used."#,
        why: r#"What a file imports tells what it depends on."#,
        wrong: r#"import std/json.{Json}"#,
        right: r#"import std/json.{Json}

fn f(a: Json) -> Json { a }"#,
    },
    Page {
        code: "V2006",
        name: "unknown_constructor",
        severity: Severity::Error,
        meaning: r#"No constructor, record or error has this name, or it is none of that kind."#,
        why: r#"Unions are made with constructors, records with `Name { field: … }`, and failures with `fail`."#,
        wrong: r#"fn f() -> Option<Int> { Sme(1) }"#,
        right: r#"fn f() -> Option<Int> { Some(1) }"#,
    },
    Page {
        code: "V2007",
        name: "not_in_module",
        severity: Severity::Error,
        meaning: r#"The module declares nothing of this name."#,
        why: r#"Importing `N` brings the type, error or function `N` and the functions `N.…`."#,
        wrong: r#"import std/json.{Jsno}"#,
        right: r#"import std/json.{Json}

fn f(a: Json) -> Json { a }"#,
    },
    Page {
        code: "V2008",
        name: "alias_cycle",
        severity: Severity::Error,
        meaning: r#"A type means itself."#,
        why: r#"An alias is another name for a type, so it must lead to one. A record or a union may hold itself."#,
        wrong: r#"type A = B

type B = A"#,
        right: r#"type A = Leaf | Node(A, A)"#,
    },
    Page {
        code: "V2009",
        name: "unknown_field",
        severity: Severity::Error,
        meaning: r#"The value has no such field."#,
        why: r#"Fields belong to records; the declaration lists them."#,
        wrong: r#"type P = { size: Int }

fn f(p: P) -> Int { p.sise }"#,
        right: r#"type P = { size: Int }

fn f(p: P) -> Int { p.size }"#,
    },
    Page {
        code: "V2010",
        name: "bound_twice",
        severity: Severity::Error,
        meaning: r#"One list binds a name twice."#,
        why: r#"Of two parameters, fields or pattern variables with one name, one could never be reached."#,
        wrong: r#"fn f(a: Int, a: Int) -> Int { a }"#,
        right: r#"fn f(a: Int, b: Int) -> Int { a + b }"#,
    },
    Page {
        code: "V3001",
        name: "type_mismatch",
        severity: Severity::Error,
        meaning: r#"A value has another type than is asked for."#,
        why: r#"Types are inferred inside a function and checked at its edges. Nothing is converted silently."#,
        wrong: r#"fn f() -> String { 1 }"#,
        right: r#"fn f() -> String { "{1}" }"#,
    },
    Page {
        code: "V3002",
        name: "wrong_count",
        severity: Severity::Error,
        meaning: r#"The number of arguments, or of values in a pattern, is wrong."#,
        why: r#"A function takes as many arguments as it has parameters; a constructor holds what it declares."#,
        wrong: r#"fn f() -> Int { List.sum() }"#,
        right: r#"fn f() -> Int { List.sum([1]) }"#,
    },
    Page {
        code: "V3003",
        name: "not_a_function",
        severity: Severity::Error,
        meaning: r#"Something is called that is no function."#,
        why: r#"Only functions, constructors and function values can be called."#,
        wrong: r#"fn f(a: Int) -> Int { a(1) }"#,
        right: r#"fn f(a: (Int) -> Int) -> Int { a(1) }"#,
    },
    Page {
        code: "V3004",
        name: "missing_arms",
        severity: Severity::Error,
        meaning: r#"Some value has no arm."#,
        why: r#"A `match` takes every value; so does the pattern of a `let`. The message shows examples."#,
        wrong: r#"fn f(a: Option<Int>) -> Int {
  match a {
    Some(n) -> n
  }
}"#,
        right: r#"fn f(a: Option<Int>) -> Int {
  match a {
    Some(n) -> n
    None -> 0
  }
}"#,
    },
    Page {
        code: "V3005",
        name: "unreachable_arm",
        severity: Severity::Warning,
        meaning: r#"No value comes to this arm."#,
        why: r#"Arms are tried from the top."#,
        wrong: r#"fn f(a: Bool) -> Int {
  match a {
    _ -> 1
    true -> 2
  }
}"#,
        right: r#"fn f(a: Bool) -> Int {
  match a {
    true -> 2
    _ -> 1
  }
}"#,
    },
    Page {
        code: "V3006",
        name: "missing_fields",
        severity: Severity::Error,
        meaning: r#"A record or a failure lacks fields."#,
        why: r#"All fields are given, or the rest is copied with `..`."#,
        wrong: r#"type P = { a: Int, b: Int }

fn f() -> P { P { a: 1 } }"#,
        right: r#"type P = { a: Int, b: Int }

fn f() -> P { P { a: 1, b: 2 } }"#,
    },
    Page {
        code: "V3007",
        name: "unknown_record",
        severity: Severity::Error,
        meaning: r#"The record's type is not known where its field is read."#,
        why: r#"Types flow from the left to the right. Write the type where the name is bound."#,
        wrong: r#"type P = { a: Int }

type Q = { a: Int }

fn f() -> Int {
  let g = x -> x.a
  g(P { a: 1 })
}"#,
        right: r#"type P = { a: Int }

type Q = { a: Int }

fn f() -> Int {
  let g = (x: P) -> x.a
  g(P { a: 1 })
}"#,
    },
    Page {
        code: "V3008",
        name: "operator",
        severity: Severity::Error,
        meaning: r#"An operator does not work on values of this type."#,
        why: r#"`+ - * / %` take Int or Float, `< <= > >=` also String, `++` String or List, `{…}` in a string what has a plain text."#,
        wrong: r#"fn f() -> Bool { true < false }"#,
        right: r#"fn f() -> Bool { 1 < 2 }"#,
    },
    Page {
        code: "V3009",
        name: "type_arguments",
        severity: Severity::Error,
        meaning: r#"A type has the wrong number of type arguments."#,
        why: r#"`List` takes one, `Map` two; a declared type takes what it declares."#,
        wrong: r#"fn f(a: List) -> Int { 1 }"#,
        right: r#"fn f(a: List<Int>) -> Int { 1 }"#,
    },
    Page {
        code: "V3010",
        name: "infinite_type",
        severity: Severity::Error,
        meaning: r#"A type would hold itself."#,
        why: r#"Usually a function is given itself, or a list is put into itself."#,
        wrong: r#"fn f() -> Int {
  let g = x -> x(x)
  1
}"#,
        right: r#"fn f() -> Int {
  let g = x -> x + 1
  g(1)
}"#,
    },
    Page {
        code: "V3011",
        name: "too_complex",
        severity: Severity::Error,
        meaning: r#"Types or patterns grow too large to follow."#,
        why: r#"The work of checking is bounded. Split the function, or write some types down."#,
        wrong: r#""#,
        right: r#""#,
    },
    Page {
        code: "V3012",
        name: "unused_value",
        severity: Severity::Warning,
        meaning: r#"A value is made and not used."#,
        why: r#"Only the last expression of a block is its value. `let _ =` says that it is meant."#,
        wrong: r#"fn f() -> Int {
  List.length([1])
  2
}"#,
        right: r#"fn f() -> Int {
  let _ = List.length([1])
  2
}"#,
    },
    Page {
        code: "V3013",
        name: "unknown_tag",
        severity: Severity::Error,
        meaning: r#"A tagged literal has an unknown tag."#,
        why: r#"There is `url"…"`, which escapes what is put in."#,
        wrong: r#"fn f() -> Url { uri"https://a.example" }"#,
        right: r#"fn f() -> Url { url"https://a.example" }"#,
    },
    Page {
        code: "V4001",
        name: "undeclared_effect",
        severity: Severity::Error,
        meaning: r#"A function does more than it declares."#,
        why: r#"The row after `!` tells callers all that may happen. It is inferred for the body and compared."#,
        wrong: r#"fn f() -> Unit { print("a") }"#,
        right: r#"fn f() -> Unit ! {Print} { print("a") }"#,
    },
    Page {
        code: "V4002",
        name: "unused_effect",
        severity: Severity::Warning,
        meaning: r#"A function declares an effect that it does not use."#,
        why: r#"A row that says too much spreads to all callers."#,
        wrong: r#"fn f() -> Int ! {Print} { 1 }"#,
        right: r#"fn f() -> Int { 1 }"#,
    },
    Page {
        code: "V4003",
        name: "unknown_effect",
        severity: Severity::Error,
        meaning: r#"A row names something that is no effect."#,
        why: r#"The effects are Clock, Http, Print and Random; failures stand in `Fail<…>`; effect parameters begin with a small letter and are declared."#,
        wrong: r#"fn f() -> Int ! {Network} { 1 }"#,
        right: r#"fn f() -> Unit ! {Print} { print("a") }"#,
    },
    Page {
        code: "V4004",
        name: "effect_in_condition",
        severity: Severity::Error,
        meaning: r#"A condition does something."#,
        why: r#"`requires`, `ensures` and `where` may be checked at any time and as often as wanted, so they only look."#,
        wrong: r#"import std/clock.{Clock}

fn f() -> Int
  requires Clock.now() > 0
{
  1
}"#,
        right: r#"fn f(a: Int) -> Int
  requires a > 0
{
  a
}"#,
    },
    Page {
        code: "V4005",
        name: "row_mismatch",
        severity: Severity::Error,
        meaning: r#"A function value may do something else than is asked for."#,
        why: r#"The rows of function types are part of them. A row holds one effect parameter."#,
        wrong: r#"fn f(g: (Int) -> Int ! {Print}) -> List<(Int) -> Int> { [g] }"#,
        right: r#"fn f(g: (Int) -> Int) -> List<(Int) -> Int> { [g] }"#,
    },
    Page {
        code: "V5001",
        name: "undeclared_failure",
        severity: Severity::Error,
        meaning: r#"A body may fail with an error that is not declared."#,
        why: r#"Failures are part of the row: `! Fail<A | B>`. Declare it or take it with `recover`."#,
        wrong: r#"error Down

fn f() -> Int { fail Down }"#,
        right: r#"error Down

fn f() -> Int ! Fail<Down> { fail Down }"#,
    },
    Page {
        code: "V5002",
        name: "unused_failure",
        severity: Severity::Warning,
        meaning: r#"A declared failure never happens."#,
        why: r#"Callers would recover from what cannot be."#,
        wrong: r#"error Down

fn f() -> Int ! Fail<Down> { 1 }"#,
        right: r#"error Down

fn f() -> Int ! Fail<Down> { fail Down }"#,
    },
    Page {
        code: "V5003",
        name: "unused_recover",
        severity: Severity::Warning,
        meaning: r#"An arm of `recover` takes a failure that cannot come."#,
        why: r#"The arms tell a reader what may go wrong."#,
        wrong: r#"error Down

fn f() -> Int {
  recover 1 {
    Down -> 2
  }
}"#,
        right: r#"error Down

fn g() -> Int ! Fail<Down> { fail Down }

fn f() -> Int {
  recover g() {
    Down -> 2
  }
}"#,
    },
    Page {
        code: "V5004",
        name: "recover_pattern",
        severity: Severity::Error,
        meaning: r#"An arm of `recover` has a pattern that is no error."#,
        why: r#"It takes an error, with its fields if wanted, or `_` for all failures."#,
        wrong: r#"error Down

fn g() -> Int ! Fail<Down> { fail Down }

fn f() -> Int {
  recover g() {
    1 -> 2
    _ -> 3
  }
}"#,
        right: r#"error Down

fn g() -> Int ! Fail<Down> { fail Down }

fn f() -> Int {
  recover g() {
    _ -> 3
  }
}"#,
    },
    Page {
        code: "V6001",
        name: "refinement_broken",
        severity: Severity::Error,
        meaning: r#"A value known from the text does not satisfy a refinement."#,
        why: r#"What can be settled without running is settled; the rest is listed as obligations and checked when the program runs."#,
        wrong: r#"fn f(n: Int where value > 0) -> Int { n }

fn g() -> Int { f(0) }"#,
        right: r#"fn f(n: Int where value > 0) -> Int { n }

fn g() -> Int { f(1) }"#,
    },
    Page {
        code: "V6002",
        name: "requirement_broken",
        severity: Severity::Error,
        meaning: r#"A call breaks a `requires` of the function called."#,
        why: r#"What can be settled without running is settled."#,
        wrong: r#"fn f(n: Int) -> Int
  requires n > 0
{
  n
}

fn g() -> Int { f(0) }"#,
        right: r#"fn f(n: Int) -> Int
  requires n > 0
{
  n
}

fn g() -> Int { f(1) }"#,
    },
    Page {
        code: "V6003",
        name: "refinement_place",
        severity: Severity::Error,
        meaning: r#"A refinement stands where nobody could check it."#,
        why: r#"Refinements are checked when a value crosses an edge: a parameter, a result, a field, a payload, an annotated `let`, and inside List, Option and Map there. Function types and type arguments of other types have no such edge."#,
        wrong: r#"fn f(g: ((Int where value > 0)) -> Int) -> Int { g(1) }"#,
        right: r#"fn f(g: (Int) -> Int) -> Int { g(1) }"#,
    },
    Page {
        code: "V7002",
        name: "not_generated",
        severity: Severity::Error,
        meaning: r#"No values can be made up for a property's parameter."#,
        why: r#"Functions are not made up, nor values of a type that has none."#,
        wrong: r#"property "p" (f: (Int) -> Int) { assert f(1) == f(1) }"#,
        right: r#"property "p" (n: Int) { assert n == n }"#,
    },
    Page {
        code: "V7003",
        name: "duplicate_test",
        severity: Severity::Error,
        meaning: r#"Two tests of a file have one name."#,
        why: r#"A test is found by its name."#,
        wrong: r#"test "a" { assert true }

test "a" { assert true }"#,
        right: r#"test "a" { assert true }

test "b" { assert true }"#,
    },
    Page {
        code: "V8020",
        name: "spec_frozen",
        severity: Severity::Error,
        meaning: r#"A patch changes a frozen specification."#,
        why: r#"The host froze signatures, effect rows, error unions, contracts, and the bodies of tests. Change the implementation, or ask for the specification to be changed."#,
        wrong: r#""#,
        right: r#""#,
    },
    Page {
        code: "V9001",
        name: "not_exportable",
        severity: Severity::Error,
        meaning: r#"A tool's parameter, result or failure has no JSON form."#,
        why: r#"A tool is called with JSON. Functions have no JSON form; the keys of a Map must be Strings."#,
        wrong: r#"@tool("Calls it")
fn f(g: (Int) -> Int) -> Int { g(1) }"#,
        right: r#"@tool("Doubles it")
fn f(n: Int) -> Int { n * 2 }"#,
    },
    Page {
        code: "V9002",
        name: "generic_tool",
        severity: Severity::Error,
        meaning: r#"A tool takes type parameters."#,
        why: r#"Its JSON Schema is written for plain types."#,
        wrong: r#"@tool("Gives it back")
fn f<A>(a: A) -> A { a }"#,
        right: r#"@tool("Gives it back")
fn f(a: Int) -> Int { a }"#,
    },
    Page {
        code: "V9003",
        name: "silent_tool",
        severity: Severity::Error,
        meaning: r#"A tool has no description."#,
        why: r#"The description is what a model chooses the tool by."#,
        wrong: r#"@tool("")
fn f(a: Int) -> Int { a }"#,
        right: r#"@tool("Gives it back")
fn f(a: Int) -> Int { a }"#,
    },
];
