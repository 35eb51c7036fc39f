//! One rule, told in full to the author of a server who broke it.

use super::requirement::{self, Breach, Requirement};

/// Everything known of a rule, as plain text, no line longer than `width` characters where words
/// allow it (at least 40). `None` for an unknown id: see [`near_misses`].
pub fn explain(id: &str, width: usize) -> Option<String> {
    let rule = requirement::get(id)?;
    let width = width.max(40);
    let mut text = format!("{}\n\n", rule.id);
    paragraph(&mut text, "  ", "  ", &rule.statement, width);
    text.push('\n');
    for (label, lines) in fields(rule) {
        for (index, line) in lines.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            let first = format!("{label:<LABEL$}");
            paragraph(&mut text, &first, &" ".repeat(LABEL), line, width);
        }
    }
    Some(text)
}

/// Width of the column of labels.
const LABEL: usize = 11;

fn fields(rule: &Requirement) -> Vec<(&'static str, Vec<String>)> {
    let sources = rule
        .source
        .strip_prefix("derived: ")
        .unwrap_or(&rule.source);
    let sources: Vec<String> = sources.split(" | ").map(source).collect();
    let origin = if rule.derived { "Derived" } else { "Source" };
    let mut fields = vec![
        (
            "Level",
            vec![format!("{}; {}", rule.level, consequence(rule))],
        ),
        ("Revisions", vec![revisions(rule)]),
    ];
    if rule.transport != "any" {
        fields.push(("Transport", vec![rule.transport.clone()]));
    }
    fields.push(("Applies", vec![rule.condition.clone()]));
    fields.push((origin, sources));
    fields.push(("Tested", vec![tested(rule)]));
    fields.push(("To mend", vec![rule.mend.clone()]));
    fields
}

fn consequence(rule: &Requirement) -> &'static str {
    match (rule.breach, rule.derived) {
        (Breach::Fail, _) => "a breach is a failure",
        (Breach::Warn, true) => {
            "derived from the text rather than stated, so a breach is a warning"
        }
        (Breach::Warn, false) => "a breach is a warning",
        (Breach::Note, _) => "a breach is told as a note and changes no verdict",
    }
}

fn revisions(rule: &Requirement) -> String {
    let span = rule.span;
    if span == super::Span::ALL {
        "all".to_owned()
    } else if span.first == span.last {
        format!("{} only", span.first)
    } else if span.last == super::Span::ALL.last {
        format!("{} and later", span.first)
    } else {
        format!("{} to {}", span.first, span.last)
    }
}

/// `2025-06-18:basic/lifecycle#operation` as words.
fn source(place: &str) -> String {
    let place = place.trim();
    let place = place.strip_prefix("derived: ").unwrap_or(place);
    match place.split_once(':') {
        Some((revision, page)) => format!("{revision}, {page}"),
        None => place.to_owned(),
    }
}

fn tested(rule: &Requirement) -> String {
    let how = &rule.how;
    if rule.transport == "http" {
        return format!("not here: this suite speaks stdio. By hand: {how}");
    }
    match rule.testable.as_str() {
        "needs-fixture" => format!("{how}. Only with a tool, prompt or resource that can show it."),
        "needs-cooperating-client" => {
            format!("{how}. Only when the server asks something of the client.")
        }
        "not-testable" => format!("not at all, since nothing on the wire shows it: {how}"),
        _ => format!("{how}."),
    }
}

fn paragraph(text: &mut String, first: &str, rest: &str, words: &str, width: usize) {
    let mut line = first.to_owned();
    let mut empty = true;
    for word in words.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            text.push_str(line.trim_end());
            text.push('\n');
            line = rest.to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

/// Ids that resemble an unknown one, the nearest first, five at most: what the user may have
/// meant.
pub fn near_misses(id: &str) -> Vec<&'static str> {
    const LIKE: f64 = 0.7;
    let wanted = id.trim().to_lowercase();
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut near: Vec<(f64, &'static str)> = requirement::catalogue()
        .iter()
        .map(|rule| (likeness(&wanted, &rule.id), rule.id.as_str()))
        .filter(|(likeness, _)| *likeness >= LIKE)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter().map(|(_, id)| id).take(5).collect()
}

/// From 0 (nothing in common) to 1 (equal).
fn likeness(wanted: &str, id: &str) -> f64 {
    let whole = strsim::normalized_damerau_levenshtein(wanted, id);
    // A part of the id, or the id without its area, is most likely what was meant.
    let tail = id.split_once('.').map_or(id, |(_, tail)| tail);
    let part = if wanted.len() >= 3 && id.contains(wanted) {
        0.8
    } else {
        0.0
    };
    whole
        .max(strsim::normalized_damerau_levenshtein(wanted, tail) * 0.95)
        .max(part + whole * 0.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_told_in_full() {
        let text = explain("tools.list.input-schema-object", 72).expect("a rule");
        assert_eq!(
            text,
            "\
tools.list.input-schema-object

  Each tool has an `inputSchema` object, never null or absent, with
  `type` equal to \"object\".

Level      MUST; a breach is a failure
Revisions  all
Applies    capability tools
Source     2026-07-28, schema#Tool
           2024-11-05, schema#Tool
           2025-11-25, server/tools#tool
Tested     check every tool from tools/list.
To mend    Give every tool an `inputSchema` with `\"type\":\"object\"` at
           its root; a tool without parameters has `{\"type\":\"object\"}`.
"
        );
    }

    #[test]
    fn every_rule_is_told_within_the_width() {
        for rule in requirement::catalogue() {
            for width in [40, 80] {
                let text = explain(&rule.id, width).expect("a rule");
                for line in text.lines() {
                    // A single word may be longer than the line.
                    let words = line.split_whitespace().count();
                    assert!(line.chars().count() <= width || words <= 2, "{line}");
                    assert_eq!(line.trim_end(), line);
                }
                for part in [&rule.statement, &rule.mend, &rule.condition] {
                    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                    assert!(flat(&text).contains(&flat(part)), "{}", rule.id);
                }
            }
        }
    }

    #[test]
    fn a_derived_rule_says_so() {
        let text = explain("jsonrpc.error.reserved-range", 100).expect("a rule");
        assert!(
            text.contains("MUST NOT; derived from the text rather than stated"),
            "{text}"
        );
        assert!(text.contains("Derived    JSON-RPC-2.0 §5.1\n"), "{text}");
    }

    #[test]
    fn an_unknown_id_has_no_explanation_but_near_misses() {
        assert_eq!(explain("tools.list.shap", 80), None);
        assert_eq!(
            near_misses("tools.list.shap").first(),
            Some(&"tools.list.shape")
        );
        assert_eq!(
            near_misses("Tools.List.Shape").first(),
            Some(&"tools.list.shape")
        );
        assert_eq!(
            near_misses("tool.name.lenght").first(),
            Some(&"tools.name.length")
        );
        assert_eq!(
            near_misses("exit-on-eof").first(),
            Some(&"stdio.exit-on-eof")
        );
        assert_eq!(near_misses("zzzzzzzzzzzz"), Vec::<&str>::new());
        assert_eq!(near_misses(""), Vec::<&str>::new());
        assert!(near_misses("tools").len() <= 5);
    }
}
