//! The language's page, the documentation of the standard library and the explanations of
//! diagnostics, as resources.

use serde_json::{Value, json};
use touchstone_language::analysis::is_library;
use touchstone_language::codes::{self, PAGES};
use touchstone_language::env::Env;
use touchstone_language::query;

use crate::protocol::{Completed, Found};

const LANGUAGE: &str = "sakura://language";
/// What comes before the name of a module of the library: `sakura://std/http`.
const SCHEME: &str = "sakura://";
const DIAGNOSTIC: &str = "sakura://diagnostic/";
const TEMPLATE: &str = "sakura://diagnostic/{code}";
const MARKDOWN: &str = "text/markdown";

/// The pages that are listed; `env` is one without files.
pub(super) fn list(env: &Env) -> Vec<Value> {
    let mut pages = vec![json!({
        "uri": LANGUAGE,
        "name": "language",
        "title": "The Sakura language",
        "description": "What the language is, section by section, with examples.",
        "mimeType": MARKDOWN,
    })];
    let modules = env.modules.by_name.values().filter(|m| is_library(m));
    pages.extend(modules.map(|module| {
        json!({
            "uri": format!("{SCHEME}{}", module.name),
            "name": &*module.name,
            "title": format!("The module {}", module.name),
            "description": "Its types and functions, with their documentation.",
            "mimeType": MARKDOWN,
        })
    }));
    pages
}

/// The explanations, by code.
pub(super) fn templates() -> Vec<Value> {
    vec![json!({
        "uriTemplate": TEMPLATE,
        "name": "diagnostic",
        "title": "A diagnostic",
        "description": "What a code such as V3001 means and why, with a wrong and a right example.",
        "mimeType": MARKDOWN,
    })]
}

/// The page with this URI.
pub(super) fn read(env: &Env, uri: &str) -> Found {
    let text = match uri.strip_prefix(DIAGNOSTIC) {
        // A code has one name as a resource, though it may be asked for in small letters.
        Some(code) => codes::find(code)
            .filter(|page| page.code == code)
            .map(codes::Page::text),
        None => topic(env, uri).map(|topic| query::within(query::topic(env, topic), None).0),
    };
    match text {
        Some(text) => Found::Items(vec![
            json!({"uri": uri, "mimeType": MARKDOWN, "text": text}),
        ]),
        None => Found::Unknown,
    }
}

/// What a listed page is about.
fn topic<'a>(env: &Env, uri: &'a str) -> Option<&'a str> {
    let name = uri.strip_prefix(SCHEME)?;
    let is_module = || {
        let module = env.modules.by_name.get(name);
        module.is_some_and(|module| is_library(module))
    };
    (uri == LANGUAGE || is_module()).then_some(name)
}

/// Codes that begin so.
pub(super) fn complete(what: Completed<'_>, argument: &str, typed: &str) -> Option<Vec<String>> {
    if what != Completed::Template(TEMPLATE) {
        return None;
    }
    let typed = typed.to_uppercase();
    let fits = |code: &&str| argument == "code" && code.starts_with(&typed);
    let codes = PAGES.iter().map(|page| page.code).filter(fits);
    Some(codes.map(str::to_owned).collect())
}
