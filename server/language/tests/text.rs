//! What holds for any text: the tree prints back, nothing panics, layout is canonical and loses
//! nothing, and analysis in steps is analysis from scratch.

mod common;

use common::programs::Maker;
use proptest::prelude::*;
use touchstone_language::analysis::{Analyzer, Checked};
use touchstone_language::format;
use touchstone_language::host::Random;
use touchstone_language::snapshot::Snapshot;
use touchstone_language::syntax::{SyntaxNode, chunk_starts, lex, parse_chunk};

/// Pieces that texts are made of: words of the language in any order.
const PIECES: &[&str] = &[
    "fn",
    "type",
    "error",
    "test",
    "property",
    "import",
    "let",
    "if",
    "else",
    "match",
    "recover",
    "fail",
    "assert",
    "where",
    "requires",
    "ensures",
    "true",
    "false",
    "x",
    "y",
    "List.map",
    "Some",
    "None",
    "Point",
    "Int",
    "List",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    ",",
    ":",
    ".",
    "..",
    "->",
    "=",
    "==",
    "!",
    "|",
    "|>",
    "+",
    "-",
    "*",
    "/",
    "++",
    "&&",
    "@tool(\"d\")",
    "\"text\"",
    "\"a{x}b\"",
    "\"",
    "url\"",
    "\\",
    "1",
    "2.5",
    "9223372036854775808",
    "?hole",
    "// note\n",
    "/// doc\n",
    "\n",
    "\n",
    " ",
    " ",
    "\u{e4}",
    "€",
    "\t",
    "#",
    "\r\n",
    "value",
    "result",
];

fn soup() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::collection::vec(prop::sample::select(PIECES), 0..120)
            .prop_map(|pieces| pieces.join(" ")),
        prop::collection::vec(prop::sample::select(PIECES), 0..120)
            .prop_map(|pieces| pieces.concat()),
        any::<String>(),
    ]
}

/// A made-up program with some of its tokens lost, doubled or replaced.
fn damaged(seed: u64) -> String {
    let mut random = Random::new(seed);
    let text = Maker::new(seed, 30).program(2);
    let mut out = String::new();
    for token in lex(&text) {
        let word = &text[token.start as usize..token.end as usize];
        match random.below(60) {
            0 => {}
            1 => out.extend([word, word]),
            2 => out.push_str(PIECES[random.below(PIECES.len() as u64) as usize]),
            _ => out.push_str(word),
        }
    }
    out
}

fn prints_back(text: &str) {
    let mut printed = String::new();
    let starts = chunk_starts(text);
    for (index, start) in starts.iter().enumerate() {
        let end = starts
            .get(index + 1)
            .map_or(text.len(), |next| *next as usize);
        let parsed = parse_chunk(&text[*start as usize..end]);
        printed.push_str(&SyntaxNode::new_root(parsed.green).text().to_string());
        for error in &parsed.errors {
            assert!(
                error.span.start <= error.span.end
                    && error.span.end as usize <= end - *start as usize
            );
        }
    }
    assert_eq!(printed, text);
}

/// The program without places, for comparing.
fn meaning(text: &str) -> String {
    let module = common::module(text);
    let mut out = String::new();
    for chunk in &module.chunks {
        for item in &chunk.parsed.items {
            out.push_str(&format!("{item:?}\n"));
        }
    }
    // Spans and heights are the only numbers that follow these words.
    let mut clean = String::new();
    for (index, part) in out.split("Span { start: ").enumerate() {
        clean.push_str(if index == 0 {
            part
        } else {
            part.split_once('}').map_or("", |(_, rest)| rest)
        });
    }
    clean
}

fn all(checked: &Checked) -> String {
    let mut out = common::shown(checked).join("\n");
    for diagnostic in &checked.diagnostics {
        out.push_str(&diagnostic.to_json().to_string());
    }
    for hole in &checked.holes {
        out.push_str(&format!(
            "{} {:?} {:?}\n",
            hole.id, hole.range, hole.report.holes[hole.index].expected
        ));
    }
    for obligation in &checked.obligations {
        out.push_str(&format!("{obligation:?}\n"));
    }
    out
}

/// A program with comments and white space put between its tokens.
fn scattered(seed: u64) -> String {
    let mut random = Random::new(seed);
    let text = Maker::new(seed, 0).program(2);
    let mut out = String::new();
    for token in lex(&text) {
        out.push_str(&text[token.start as usize..token.end as usize]);
        match random.below(40) {
            0 => out.push_str(" // note\n"),
            1 => out.push_str("\n\n\n"),
            2 => out.push_str("   "),
            3 => out.push_str("\n// line\n"),
            _ => {}
        }
    }
    out
}

fn layout_is_canonical(text: &str) -> Result<bool, TestCaseError> {
    let Some(once) = format::layout(&common::module(text)) else {
        return Ok(false);
    };
    prop_assert!(
        format::same_words(text, &once),
        "words lost:\n{text}\n---\n{once}"
    );
    let again = format::layout(&common::module(&once));
    prop_assert_eq!(again.as_deref(), Some(&*once), "not canonical:\n{}", text);
    prop_assert_eq!(meaning(text), meaning(&once));
    prop_assert!(
        once.lines().all(|l| l.trim_end() == l),
        "white space at a line's end"
    );
    Ok(true)
}

proptest! {
    #![proptest_config(common::cases(40))]

    #[test]
    fn any_text_prints_back_and_is_checked_without_panic(text in soup()) {
        prints_back(&text);
        common::codes(&text);
    }

    #[test]
    fn a_damaged_program_prints_back_and_is_checked_without_panic(seed in any::<u64>()) {
        let text = damaged(seed);
        prints_back(&text);
        common::codes(&text);
    }

    #[test]
    fn layout_is_idempotent_and_keeps_words_comments_and_meaning(seed in any::<u64>()) {
        prop_assert!(layout_is_canonical(&Maker::new(seed, 0).program(2))?);
        layout_is_canonical(&scattered(seed))?;
    }

}

proptest! {
    #![proptest_config(common::cases(12))]

    #[test]
    fn analysis_in_steps_is_analysis_from_scratch(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let mut analyzer = Analyzer::new();
        let mut maker = Maker::new(seed, 40);
        let mut main: Vec<String> = vec![common::programs::PRELUDE.to_owned()];
        main.extend((0..3).map(|i| maker.function(&format!("f{i}"))));
        let mut other = "import main.{f0, Small, Empty}\n\nfn use_it() -> Int { ?later }\n\nfn more(n: Small) -> Int ! Fail<Empty> { fail Empty }\n".to_owned();
        for step in 0..6 {
            match random.below(6) {
                0 => { let at = 1 + random.below(3) as usize; main[at] = maker.function(&format!("f{}", at - 1)); }
                1 => { let at = random.below(main.len() as u64) as usize; main[at] = format!("\n// moved\n{}", main[at]); }
                2 => main[0] = main[0].replace("value <= 9", &format!("value <= {}", step + 1)),
                3 => other = other.replace("Int {", "String {"),
                4 => { let at = 1 + random.below(3) as usize; let text = main[at].clone(); let cut = text.char_indices().map(|(i, _)| i).nth(random.below(text.len().max(1) as u64) as usize); if let Some(cut) = cut { main[at] = text[..cut].to_owned() + "\n"; } }
                _ => main[0] = main[0].replace("error Empty\n", "error Empty { why: String }\n"),
            }
            let files = [("main.sakura".to_owned(), main.concat()), ("other.sakura".to_owned(), other.clone())];
            let snapshot = Snapshot::new(files).unwrap();
            let env = analyzer.env(&snapshot);
            let stepped = analyzer.check(&env, None, &|| false);
            let mut fresh = Analyzer::new();
            let env = fresh.env(&snapshot);
            let scratch = fresh.check(&env, None, &|| false);
            prop_assert_eq!(all(&stepped), all(&scratch));
        }
    }
}

#[test]
fn depth_and_length_never_overflow_the_stack() {
    let deep = 20_000;
    let cases = [
        format!(
            "fn f() -> Int {{ {}1{} }}",
            "(".repeat(deep),
            ")".repeat(deep)
        ),
        format!("fn f() -> Int {{ {} }}", "[".repeat(deep)),
        format!("fn f() -> Int {{ {}1 }}", "-".repeat(deep)),
        format!("fn f() -> Int {{ 1{} }}", " + 1".repeat(deep)),
        format!("fn f() -> Int {{ x{} }}", ".y".repeat(deep)),
        format!("fn f() -> Int {{ x{} }}", "()".repeat(deep)),
        format!(
            "fn f(x: {}Int{}) -> Int {{ 1 }}",
            "List<".repeat(deep),
            ">".repeat(deep)
        ),
        format!("fn f() -> Int {{ {} }}", "if x { ".repeat(deep)),
        format!("fn f() -> Int {{ {} 1 }}", "x -> ".repeat(deep)),
        format!("fn f() -> Int {{ match x {{ {} }} }}", "Some(".repeat(deep)),
        format!("fn f() -> String {{ {} }}", "\"{".repeat(deep)),
        format!("type A = {}", "A | ".repeat(deep)),
        format!("fn f() -> Int {{ {} }}", "else if x { } ".repeat(deep)),
        format!(
            "fn f() -> Int {{ if x {{ 1 }} {} }}",
            "else if x { 1 } ".repeat(deep)
        ),
        "}".repeat(deep),
        "fn f(".repeat(deep),
        "@tool(\n".repeat(deep),
        format!("fn f() -> Int {{\n{}}}", "let a = [a]\n".repeat(deep / 10)),
    ];
    for text in cases {
        prints_back(&text);
        let codes = common::codes(&text);
        assert!(!codes.is_empty(), "{}", &text[..40.min(text.len())]);
        format::layout(&common::module(&text));
    }
}

#[test]
fn each_separate_mistake_is_told() {
    let text = "fn a() -> Int { 1 + }\n\nfn b(x: Strin) -> Int {\n  let y = [1, 2\n  cuont\n}\n\ntype T = { a Int, b: }\n\nfn c() -> Int { \"x\" }\n";
    let (_, checked) = common::analyse(&[("main.sakura", text)]);
    let lines: std::collections::BTreeSet<u32> = checked
        .diagnostics
        .iter()
        .map(|d| d.range.start.line)
        .collect();
    for line in [1, 3, 4, 5, 8, 10] {
        assert!(
            lines.contains(&line),
            "line {line}: {:#?}",
            common::shown(&checked)
        );
    }
}

#[test]
fn after_an_edit_in_a_body_one_declaration_is_checked_again() {
    let text: String = (0..50)
        .map(|i| format!("fn f{i}(n: Int) -> Int {{\n  n + {i}\n}}\n\n"))
        .collect();
    let mut analyzer = Analyzer::new();
    let mut check = |text: &str| {
        let before = analyzer.checked;
        let env = analyzer.env(&common::snapshot(&[("main.sakura", text)]));
        analyzer.check(&env, None, &|| false);
        analyzer.checked - before
    };
    assert!(check(&text) >= 50);
    assert_eq!(check(&text.replace("n + 7\n", "n + 8\n")), 1);
    assert_eq!(
        check(&text.replace("n + 7\n", "n +\n\n 7 // more lines\n")),
        1
    );
    assert!(check(&text.replace("fn f7(n: Int)", "fn f7(n: Int, m: Int)")) >= 50);
}
