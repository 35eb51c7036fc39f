//! The resources and templates.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::ask;
use crate::protocol::{Call, Found};

pub(super) const TEXT: &str = "demo://text";
pub(super) const TEXT_CONTENT: &str = "A text that never changes.\n";
const IMAGE: &str = "demo://image";
pub(super) const COUNTER: &str = "demo://counter";
pub(super) const STEPS: &str = "demo://steps";
pub(super) const EXTRA: &str = "demo://extra";
/// Not listed, since reading it fails.
const BROKEN: &str = "demo://broken";
const NUMBER: &str = "demo://number/";
const ASKED: &str = "demo://asked/";

/// One pixel.
pub(super) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/// Numbers that `demo://number/{n}` knows.
const NUMBERS: std::ops::RangeInclusive<u32> = 1..=150;

pub(super) fn list(with_extra: bool) -> Vec<Value> {
    let mut all = vec![
        json!({"uri": TEXT, "name": "text", "title": "A text", "mimeType": "text/plain",
            "description": "Never changes", "size": TEXT_CONTENT.len(),
            "annotations": {"audience": ["user", "assistant"], "priority": 0.1,
                "lastModified": "2026-01-02T03:04:05Z"}}),
        json!({"uri": IMAGE, "name": "image", "title": "An image", "mimeType": "image/png",
            "description": "One pixel"}),
        json!({"uri": COUNTER, "name": "counter", "title": "A counter", "mimeType": "text/plain",
            "description": "Counts up with the tool change"}),
        json!({"uri": STEPS, "name": "steps", "title": "Steps", "mimeType": "text/plain",
            "description": "How many steps the tool slow has done"}),
    ];
    if with_extra {
        all.push(json!({"uri": EXTRA, "name": "extra", "title": "Extra",
            "mimeType": "text/plain", "description": "Comes and goes with change"}));
    }
    all
}

pub(super) fn templates() -> Vec<Value> {
    vec![
        json!({"uriTemplate": format!("{NUMBER}{{n}}"), "name": "number", "title": "A number",
            "description": "A number from 1 to 150 and its square", "mimeType": "text/plain"}),
        json!({"uriTemplate": format!("{ASKED}{{topic}}"), "name": "asked", "title": "Asked",
            "description": "Reading it asks for a name first", "mimeType": "text/plain"}),
    ]
}

pub(super) fn values(template: &str, variable: &str) -> Option<Vec<String>> {
    let template = template.split('{').next()?;
    match (template, variable) {
        (NUMBER, "n") => Some(NUMBERS.map(|number| number.to_string()).collect()),
        (ASKED, "topic") => Some(vec!["weather".to_owned(), "work".to_owned()]),
        (NUMBER | ASKED, _) => Some(Vec::new()),
        _ => None,
    }
}

pub(super) fn number(uri: &str, number: &AtomicU64) -> Found {
    text(uri, number.load(Ordering::SeqCst).to_string())
}

pub(super) fn read(uri: &str, call: &Call) -> Found {
    match uri {
        TEXT => return text(uri, TEXT_CONTENT.to_owned()),
        EXTRA => return text(uri, "Here for now.\n".to_owned()),
        BROKEN => return Found::Internal("The demo failed inside, as it always does here".into()),
        IMAGE => {
            let contents = json!({"uri": uri, "mimeType": "image/png", "blob": PNG});
            return Found::Items(vec![contents]);
        }
        _ => {}
    }
    if let Some(number) = uri.strip_prefix(NUMBER) {
        // Only as `values` writes it: neither "+1" nor "01".
        let known = number.parse::<u32>().ok();
        let known = known.filter(|n| NUMBERS.contains(n) && n.to_string() == number);
        return match known {
            Some(number) => text(uri, format!("{number} squared is {}\n", number * number)),
            None => Found::Unknown,
        };
    }
    match uri.strip_prefix(ASKED) {
        Some("weather" | "work") => match ask::ask_name(call) {
            Ok(name) => {
                let name = name.unwrap_or_else(|| "somebody".to_owned());
                text(uri, format!("{name} asked.\n"))
            }
            Err(stop) => Found::Stopped(stop),
        },
        _ => Found::Unknown,
    }
}

fn text(uri: &str, text: String) -> Found {
    Found::Items(vec![
        json!({"uri": uri, "mimeType": "text/plain", "text": text}),
    ])
}
