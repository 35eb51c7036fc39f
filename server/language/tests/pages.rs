//! The examples on the language's page and in the explanations of codes are as they say.

mod common;

use touchstone_language::codes::PAGES;
use touchstone_language::diagnostic::Severity;
use touchstone_language::format::format;
use touchstone_language::natives_symbols;
use touchstone_language::query::LANGUAGE_PAGE;
use touchstone_language::testing::{Status, TestOptions};

/// The examples of the page: what they are marked with, and their text.
fn examples() -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut lines = LANGUAGE_PAGE.lines();
    while let Some(line) = lines.next() {
        if let Some(mark) = line.strip_prefix("```sakura") {
            let text: Vec<&str> = lines.by_ref().take_while(|l| *l != "```").collect();
            out.push((mark.trim().to_owned(), text.join("\n") + "\n"));
        }
    }
    out
}

#[test]
fn every_example_of_the_page_is_as_it_is_marked() {
    let examples = examples();
    assert!(examples.len() > 15);
    for (mark, text) in examples {
        let wanted: Vec<String> = mark.split_whitespace().map(str::to_owned).collect();
        let (env, checked) = common::analyse(&[("main.sakura", &text)]);
        let mut codes: Vec<String> = checked.diagnostics.iter().map(|d| d.code.clone()).collect();
        codes.dedup();
        assert_eq!(codes, wanted, "{text}\n{:#?}", common::shown(&checked));
        if !wanted.is_empty() {
            continue;
        }
        for result in common::run_tests(&env, TestOptions::default()) {
            assert_eq!(
                result.status,
                Status::Passed,
                "{}: {:?}\n{text}",
                result.name,
                result.message
            );
        }
        let formatted = format(&common::module(&text)).unwrap();
        common::same_text(&formatted, &text);
    }
}

#[test]
fn every_code_has_a_wrong_example_that_trips_it_and_a_right_one_that_is_clean() {
    for page in PAGES.iter().filter(|p| !p.wrong.is_empty()) {
        let wrong = common::codes(page.wrong);
        assert!(
            wrong.contains(&page.code.to_owned()),
            "{}: the wrong example gives {wrong:?}",
            page.code
        );
        let (_, checked) = common::analyse(&[("main.sakura", page.right)]);
        assert_eq!(
            common::shown(&checked),
            Vec::<String>::new(),
            "{}",
            page.code
        );
        let (_, checked) = common::analyse(&[("main.sakura", page.wrong)]);
        let found = checked
            .diagnostics
            .iter()
            .find(|d| d.code == page.code)
            .unwrap();
        assert_eq!(
            found.severity == Severity::Error,
            page.severity == Severity::Error
        );
    }
}

#[test]
fn every_machine_function_is_declared_in_the_library_and_the_other_way_round() {
    let (env, _) = common::analyse(&[]);
    let mut declared: Vec<String> = Vec::new();
    for module in env.modules.by_name.values() {
        for name in module.functions.keys() {
            let sym = format!("{}::{name}", module.name);
            let (_, _, decl) = env.modules.function(&sym).unwrap();
            if decl.body.is_none() {
                declared.push(sym);
            }
        }
    }
    let mut table: Vec<String> = natives_symbols().map(str::to_owned).collect();
    table.sort();
    declared.sort();
    assert_eq!(declared, table);
}
