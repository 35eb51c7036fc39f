use proptest::prelude::*;
use serde_json::{Value, json};

use super::pattern::{Names, Pattern};
use super::template::Vars;
use super::*;

fn read(text: &str) -> Transcript {
    parse("test", text).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> (usize, usize, String) {
    let error = parse("a.txt", text).unwrap_err();
    (error.line, error.column, error.message)
}

#[test]
fn the_header_is_read() {
    let t = read(
        "# An unknown method is refused,\n# and the server goes on.\n@check a.b c.d\n\
         @revision 2024-11-05..2025-11-25\n@requires capability tools.listChanged\n\
         @requires not tool compile\n@level warn\n@note See the page on errors.\n\n# inside\n--> {}\n",
    );
    assert_eq!(
        t.about,
        "An unknown method is refused,\nand the server goes on."
    );
    assert_eq!(t.checks, ["a.b", "c.d"]);
    assert_eq!(t.span.to_string(), "2024-11-05..2025-11-25");
    assert_eq!(t.breach, Some(Breach::Warn));
    assert_eq!(t.notes, ["See the page on errors."]);
    assert!(!t.fresh());
    let none = Map::new();
    assert!(
        t.missing(&none, &[])
            .unwrap()
            .contains("capability `tools.listChanged`")
    );
    let tools = json!({"tools": {"listChanged": true}});
    let tools = tools.as_object().unwrap();
    assert_eq!(t.missing(tools, &[]), None);
    assert!(
        t.missing(tools, &["compile".into()])
            .unwrap()
            .contains("has the tool")
    );
    let off = json!({"tools": {"listChanged": false}});
    assert!(t.missing(off.as_object().unwrap(), &[]).is_some());
}

#[test]
fn what_needs_a_process_of_its_own_says_so() {
    let own = [
        "@session fresh",
        "@handshake none",
        "@restart",
        "@restart kill",
        "@close-stdin",
        "@exit 0 within 5s",
        "@args a",
        "@env A=b",
        "@unset A",
        "@file a/b\n| c",
        "@declare {}",
        "@answer none",
        "@answer roots/list {\"roots\":[]}",
    ];
    for text in own {
        assert!(read(text).fresh(), "{text}");
    }
    assert!(!read("@session shared\n@wait 1s\n@silence 300ms\n@allow text").fresh());
}

#[test]
fn a_failure_counts_against_the_last_check_above_it() {
    let t = read("@check a\n--> {\"id\":\"$a\"}\n<--\n@check b\n--> {\"id\":\"$b\"}\n<--\n");
    assert_eq!(t.checks, ["a", "b"]);
    assert_eq!(t.blamed(3), ["a"]);
    assert_eq!(t.blamed(6), ["b"]);
}

#[test]
fn errors_name_the_place() {
    let cases = [
        ("--> {}\nhello\n", 2, 1, "a line begins with"),
        ("<-- {\"a\":1,}\n", 1, 12, "not JSON"),
        (
            "<-- {\"a\":\"<strin>\"}\n",
            1,
            11,
            "`<strin>` is no placeholder",
        ),
        ("<-- {\"a\":1,\n     \"b\":tru}\n", 2, 13, "not JSON"),
        ("<-- {\"ü\":\"<strin>\"}\n", 1, 11, "no placeholder"),
        ("<-- {\"a\":\"<re:(>\"}\n", 1, 11, "unclosed group"),
        ("<-- [\"<absent>\"]\n", 1, 7, "only for a member"),
        ("<-- {\"a\":1,\"a\":2}\n", 1, 5, "twice"),
        ("--> {\"a\":\"$nope\"}\n", 1, 11, "$nope is not known"),
        ("<-- {\"a\":\"$nope\"}\n", 1, 11, "$nope is not known"),
        ("\n@nonsense\n", 2, 1, "no directive `@nonsense`"),
        ("@revision 2020-01-01\n", 1, 11, "not a published revision"),
        ("@silence soon\n", 1, 10, "written as `300ms`"),
        ("@wait 5000s\n", 1, 7, "at most an hour"),
        ("@exit 0\n", 1, 7, "within"),
        ("@exit zero within 5s\n", 1, 7, "within"),
        ("@chunks 0\n--> {}\n", 1, 9, "at least 1"),
        ("@chunks 5\n", 1, 1, "belong to a `-->`"),
        ("-->hex 7b 7x\n", 1, 12, "0-9 and a-f"),
        ("-->hex 7b 7\n", 1, 12, "odd"),
        ("@file ../x\n| a\n", 1, 7, "may not lead out"),
        ("| a\n", 1, 1, "belongs below an `@file`"),
        ("  x\n", 1, 1, "there is none"),
        ("<or {}\n", 1, 1, "belongs below a `<--`"),
        ("@args \"a b\n", 1, 7, "not closed"),
        ("@env =x\n", 1, 6, "the form is"),
        ("@allow everything\n", 1, 8, "allowed can be"),
        ("@check\n", 1, 7, "needs one or more"),
        ("@close-stdin now\n", 1, 14, "takes nothing"),
        ("@handshake\n", 1, 11, "only form"),
        ("@level must\n", 1, 8, "a level is"),
    ];
    for (text, line, column, message) in cases {
        let (l, c, m) = error(text);
        assert_eq!((l, c), (line, column), "{text}: {m}");
        assert!(m.contains(message), "{text}: {m}");
    }
}

#[test]
fn an_error_shows_the_line_with_a_caret() {
    let error = parse("a.txt", "--> {}\n<-- {\"a\":\"<strin>\"}\n").unwrap_err();
    let shown = error.to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("a.txt:2:11: `<strin>` is no placeholder"));
    assert_eq!(lines[1], "  2 | <-- {\"a\":\"<strin>\"}");
    assert_eq!(lines[2], "    |           ^");
}

/// Whether the pattern fits the value; the variable $a is 1, $s is "x".
fn fits(pattern: Value, value: Value) -> bool {
    take(pattern, value).is_ok()
}

fn take(pattern: Value, value: Value) -> Result<Vec<(String, Value)>, String> {
    let vars = Vars::from([("a".into(), json!(1)), ("s".into(), json!("x"))]);
    let mut names = Names {
        known: &|name| vars.contains_key(name),
        captured: vec![],
    };
    let pattern = Pattern::read(&pattern, &mut names);
    let pattern = pattern.unwrap_or_else(|fault| panic!("{}", fault.message));
    let taken = pattern.fit(&value, &vars);
    taken.map_err(|mismatch| mismatch.to_string())
}

#[test]
fn placeholders_fit_what_they_name() {
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let cases = [
        ("<string>", vec![json!("")], vec![json!(1), json!(null)]),
        (
            "<integer>",
            vec![json!(1), json!(-5)],
            vec![number("1.0"), number("1e3"), json!("1")],
        ),
        ("<number>", vec![json!(1), json!(1.5)], vec![json!("1")]),
        ("<boolean>", vec![json!(true)], vec![json!(0)]),
        ("<object>", vec![json!({})], vec![json!([])]),
        ("<array>", vec![json!([1])], vec![json!({})]),
        ("<any>", vec![json!(null), json!({})], vec![]),
        (
            "<base64>",
            vec![json!("aGk="), json!("")],
            vec![json!("aGk"), json!("?"), json!(1)],
        ),
        (
            "<re:^a.c$>",
            vec![json!("abc")],
            vec![json!("abcd"), json!(1)],
        ),
        ("<re:a>b>", vec![json!("xa>b")], vec![json!("ab")]),
        (
            "<one of: info, -32600, \"a, b\", null, <boolean>>",
            vec![
                json!("info"),
                json!(-32600),
                json!("a, b"),
                json!(null),
                json!(true),
            ],
            vec![json!("a"), json!(-32601), json!("-32600"), json!({})],
        ),
        ("<<string>", vec![json!("<string>")], vec![json!("x")]),
        ("<b", vec![json!("<b")], vec![json!("b")]),
        ("$a", vec![json!(1)], vec![json!("1"), number("1.0")]),
        ("$s-$a", vec![json!("x-1")], vec![json!("$s-$a")]),
        ("$$a", vec![json!("$a")], vec![json!(1)]),
    ];
    for (pattern, good, bad) in cases {
        for value in good {
            assert!(fits(json!(pattern), value.clone()), "{pattern} {value}");
        }
        for value in bad {
            assert!(!fits(json!(pattern), value.clone()), "{pattern} {value}");
        }
    }
}

#[test]
fn objects_fit_by_the_members_named_and_arrays_whole() {
    assert!(fits(json!({"a": 1}), json!({"a": 1, "b": 2})));
    assert!(fits(json!({}), json!({"b": 2})));
    assert!(!fits(json!({"a": null}), json!({})));
    assert!(fits(json!({"a": "<absent>"}), json!({})));
    assert!(!fits(json!({"a": "<absent>"}), json!({"a": null})));
    assert!(!fits(json!({"a": "<any>"}), json!({})));
    assert!(fits(json!({"a": 1, "<...>": "<absent>"}), json!({"a": 1})));
    assert!(!fits(
        json!({"a": 1, "<...>": "<absent>"}),
        json!({"a": 1, "b": 1})
    ));
    assert!(fits(json!([1, "<any>"]), json!([1, 2])));
    assert!(!fits(json!([1]), json!([1, 2])));
    assert!(!fits(json!([2, 1]), json!([1, 2])));
    assert!(fits(json!(["<...>", 3, "<...>"]), json!([1, 2, 3])));
    assert!(fits(json!(["<...>"]), json!([])));
    assert!(!fits(json!(["<...>", 4, "<...>"]), json!([1, 2, 3])));
    assert!(fits(
        json!(["<...>", {"n": "b"}]),
        json!([{"n": "b"}, {"n": "b"}])
    ));
}

#[test]
fn values_are_taken_and_a_mismatch_says_where() {
    let taken = take(
        json!({"r": ["<...>", {"id": "<integer as $x>", "n": "b"}]}),
        json!({"r": [{"id": 1, "n": "a"}, {"id": 2, "n": "b"}]}),
    );
    assert_eq!(taken.unwrap(), [("x".to_owned(), json!(2))]);
    let wrong = take(
        json!({"error": {"code": -32601}}),
        json!({"error": {"code": -32602}}),
    );
    assert_eq!(wrong.unwrap_err(), "/error/code is -32602, not -32601");
    let wrong = take(json!({"a/b": "<string>"}), json!({}));
    assert_eq!(wrong.unwrap_err(), "/a~1b is absent, not <string>");
    let wrong = take(json!([1]), json!("x"));
    assert_eq!(wrong.unwrap_err(), "the message is \"x\", not [1]");
}

/// The page for users, as far as it can be checked: its examples read, and it has everything.
#[test]
fn the_page_is_right() {
    let page = include_str!("../../../docs/transcripts.md");
    let blocks: Vec<&str> = page.split("\n```\n").skip(1).step_by(2).collect();
    let example = |block: &&&str| !block.starts_with("touchstone ") && !block.contains("-- | ");
    let mut examples = 0;
    for block in blocks.iter().filter(example) {
        if block.starts_with("tests/list.txt") {
            continue;
        }
        let known = "--> {\"id\":\"$a\"}\n";
        if let Err(error) = parse("page", &format!("{known}{block}")) {
            panic!("{error}");
        }
        examples += 1;
    }
    assert!(examples >= 15, "{examples}");
    let directives = [
        "check",
        "revision",
        "requires",
        "session",
        "handshake",
        "level",
        "note",
        "rejudge",
        "survive",
        "chunks",
        "no-newline",
        "silence",
        "wait",
        "timeout",
        "restart",
        "close-stdin",
        "exit",
        "args",
        "env",
        "unset",
        "file",
        "allow",
        "forbid",
        "declare",
        "answer",
    ];
    for word in directives {
        assert!(
            page.contains(&format!("`@{word}")),
            "@{word} is not explained"
        );
        let unknown = parse("t", &format!("@{word}\n"))
            .err()
            .map(|error| error.message);
        assert!(
            !unknown.unwrap_or_default().contains("no directive"),
            "@{word}"
        );
    }
}

/// Texts that look like transcripts, with slips.
fn texts() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("{\"id\":\"$a\"}".to_owned()),
        Just("{\"id\":\"$a\",\"x\":\"<string as $b>\"}".to_owned()),
        Just("[\"<...>\",{\"a\":\"<one of: 1, x, <any>>\"},\"<re:^[$]$>\"]".to_owned()),
        Just("$b $$ \"$schema\": \"$b\" <<".to_owned()),
        Just("300ms".to_owned()),
        Just("0 within 5s".to_owned()),
        Just("capability tools".to_owned()),
        Just("A=b $TMP".to_owned()),
        Just("\"a \\\" b\" c\\\\ \"\"".to_owned()),
        Just("roots/list {\"roots\":[\"$TMP\"]}".to_owned()),
        ".{0,12}",
    ];
    let mark = prop_oneof![
        Just("-->"),
        Just("<--"),
        Just("<or"),
        Just("-->hex"),
        Just("#"),
        Just("| "),
        Just("  "),
        Just("@check"),
        Just("@revision"),
        Just("@requires"),
        Just("@session"),
        Just("@level"),
        Just("@handshake none"),
        Just("@chunks 3"),
        Just("@no-newline"),
        Just("@silence"),
        Just("@wait"),
        Just("@restart"),
        Just("@close-stdin"),
        Just("@exit"),
        Just("@args"),
        Just("@env"),
        Just("@file a/b"),
        Just("@allow"),
        Just("@forbid"),
        Just("@declare"),
        Just("@answer"),
        Just("@timeout"),
        Just("@note"),
        Just("@rejudge"),
        Just("@survive"),
        Just(""),
    ];
    let line = (mark, word, any::<bool>())
        .prop_map(|(mark, word, space)| format!("{mark}{}{word}\n", if space { " " } else { "" }));
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.concat())
}

/// Transcripts without slips: lines that do not read are left out.
fn sound(text: &str) -> Transcript {
    let mut sound = String::new();
    for line in text.lines() {
        let longer = format!("{sound}{line}\n");
        // A prefix is no fault when a line to send follows.
        if parse("p", &format!("{longer}--> x\n")).is_ok() {
            sound = longer;
        }
    }
    read(&format!("{sound}--> x\n"))
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[<>$a-z:. ]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-c]{1,2}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_survived(text in ".{0,200}") {
        let _ = parse("t", &text).map_err(|error| error.to_string());
    }

    #[test]
    fn any_likely_text_is_survived(text in texts()) {
        match parse("t", &text) {
            Ok(transcript) => drop(transcript.to_string()),
            Err(error) => {
                let lines = text.split('\n').count();
                prop_assert!(error.line >= 1 && error.line <= lines);
                prop_assert!(error.to_string().contains('^'));
            }
        }
    }

    /// Printed and read again, it prints the same, and says the same of itself.
    #[test]
    fn print_keeps_the_meaning(text in texts()) {
        let first = sound(&text);
        let printed = first.to_string();
        let again = parse("p", &printed).map_err(|e| TestCaseError::fail(format!("{e}\nof {text:?}\nprinted\n{printed}")))?;
        prop_assert_eq!(&printed, &again.to_string());
        prop_assert_eq!(first.checks, again.checks);
        prop_assert_eq!(first.fresh, again.fresh);
        prop_assert_eq!(first.ids, again.ids);
        prop_assert_eq!(first.steps.len(), again.steps.len());
    }

    /// A value fits the pattern that it makes, also when that was printed and read again, and
    /// with fewer members named.
    #[test]
    fn a_value_fits_its_own_pattern(value in any_json()) {
        let vars = Vars::new();
        let pattern = Pattern::exactly(&value);
        prop_assert!(pattern.fit(&value, &vars).is_ok());
        let printed: Value = serde_json::from_str(&pattern.to_string()).unwrap();
        let mut names = Names { known: &|_| false, captured: vec![] };
        let again = Pattern::read(&printed, &mut names).map_err(|f| TestCaseError::fail(f.message))?;
        prop_assert!(again.fit(&value, &vars).is_ok());
        if let Value::Object(object) = &value {
            let mut more = object.clone();
            more.insert("other".into(), json!(1));
            prop_assert!(again.fit(&more.into(), &vars).is_ok());
        }
    }

    /// After an update a pattern fits, and one that fitted is left alone.
    #[test]
    fn an_updated_pattern_fits(old in any_json(), new in any_json()) {
        let vars = Vars::new();
        let pattern = Pattern::exactly(&old);
        let updated = pattern.update(&new, &vars);
        prop_assert!(updated.fit(&new, &vars).is_ok());
        prop_assert_eq!(updated.update(&new, &vars).to_string(), updated.to_string());
    }
}
