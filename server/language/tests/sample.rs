//! The sample program checks, is laid out canonically, and runs; so does the standard library.

mod common;

use touchstone_language::analysis::{Analyzer, STD};
use touchstone_language::format::format;
use touchstone_language::host::{Host, HttpRequest, HttpResponse, Refusal};
use touchstone_language::snapshot::Snapshot;
use touchstone_language::testing::{Status, TestOptions};
use touchstone_language::value::{Value, show};

const SAMPLE: &str = include_str!("../examples/knowledge.sakura");

#[test]
fn the_sample_has_no_diagnostics_one_hole_and_its_tests_pass() {
    let (env, checked) = common::analyse(&[("knowledge.sakura", SAMPLE)]);
    assert_eq!(common::shown(&checked), Vec::<String>::new());
    assert_eq!(checked.holes.len(), 1);
    let kinds: Vec<&str> = checked.obligations.iter().map(|o| o.kind).collect();
    assert_eq!(kinds, ["ensures"]);
    let results = common::run_tests(&env, TestOptions::default());
    assert!(
        results.len() == 2 && results.iter().all(|r| r.status == Status::Passed),
        "{results:?}"
    );
}

#[test]
fn the_sample_is_formatted_with_its_functions_set_apart() {
    let text = format(&common::module(SAMPLE)).unwrap();
    common::same_text(&text, SAMPLE);
}

struct Web(Vec<String>);

impl Host for Web {
    fn http(&mut self, request: &HttpRequest) -> Result<HttpResponse, Refusal> {
        self.0.push(request.url.clone());
        let status = if request.url.ends_with("gone") {
            404
        } else {
            200
        };
        Ok(HttpResponse {
            status,
            headers: Vec::new(),
            body: "1\n2\n3\n4\n5\n6".to_owned(),
        })
    }
}

#[test]
fn the_sample_runs_where_the_host_grants_the_web() {
    let mut web = Web(Vec::new());
    let found = common::run(SAMPLE, "kb_search", vec![Value::text("a b")], &mut web).unwrap();
    assert_eq!(show(&found), r#"["1", "2", "3", "4", "5"]"#);
    assert_eq!(web.0, ["https://kb.example/search?q=a%20b"]);
    let stop = common::run(SAMPLE, "kb_search", vec![Value::text("gone")], &mut web).unwrap_err();
    assert_eq!(stop.message(), "failed with SearchDown");
}

#[test]
fn the_standard_library_has_no_diagnostics_and_is_laid_out_canonically() {
    let mut analyzer = Analyzer::new();
    let env = analyzer.env(&Snapshot::empty());
    let paths = STD.iter().map(|(path, _)| (*path).to_owned()).collect();
    let checked = analyzer.check(&env, Some(&paths), &|| false);
    assert_eq!(common::shown(&checked), Vec::<String>::new());
    for (path, text) in STD {
        println!("{path}");
        common::same_text(&format(&common::module(text)).unwrap(), text);
    }
}
