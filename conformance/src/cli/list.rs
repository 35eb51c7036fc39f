//! `touchstone list`: the requirements, and which check covers each.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::stdout;

use anstyle::Style;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::{Problem, print, select, width};
use crate::report::terminal::field;
use crate::report::text::wrap;
use crate::run::{self, Coverage};
use crate::spec::requirement::{Requirement, catalogue};
use crate::spec::{Revision, Span};

const EXAMPLES: &str = "\
Examples:
  touchstone list                          every requirement, with its checks
  touchstone list tools --revision 2025-06-18
  touchstone list --coverage               how many are tested, and why the others are not
  touchstone list --format json            the same for a program";

/// List the requirements, and which check covers each
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Only these: ids, areas, or globs such as 'tools.*'
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// Only what holds in this revision (repeatable)
    #[arg(long, value_name = "R", value_parser = clap::builder::PossibleValuesParser::new(Revision::ALL.map(Revision::as_str)))]
    revision: Vec<String>,

    /// Count instead, per revision and area: rules, rules checked, why the others are not
    #[arg(long)]
    coverage: bool,

    /// The form of the list
    #[arg(long, value_enum, default_value_t = Form::Text)]
    format: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For a reader
    Text,
    /// For a program
    Json,
}

/// Prints the list and gives the exit code.
pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let revisions: Vec<Revision> = match args.revision.is_empty() {
        true => Revision::ALL.to_vec(),
        false => args
            .revision
            .iter()
            .filter_map(|r| Revision::parse(r))
            .collect(),
    };
    let chosen = select::select(&args.ids, &select::known_ids())?;
    let holds = |rule: &Requirement| revisions.iter().any(|r| rule.span.contains(*r));
    let rules: Vec<&Requirement> = catalogue()
        .iter()
        .filter(|rule| args.ids.is_empty() || chosen.contains(&rule.id))
        .filter(|rule| holds(rule))
        .collect();
    let coverage = run::coverage();
    let list = List {
        rules,
        revisions,
        coverage: Index::new(&coverage),
    };
    let text = match (args.coverage, args.format) {
        (false, Form::Text) => list.text(width(stdout()).max(40)),
        (true, Form::Text) => list.coverage_text(width(stdout()).max(40)),
        (false, Form::Json) => document(list.json())?,
        (true, Form::Json) => document(list.coverage_json())?,
    };
    print(&text)?;
    Ok(0)
}

fn document(value: Value) -> Result<String, Problem> {
    let text = serde_json::to_string_pretty(&value).map_err(|e| Problem(e.to_string()))?;
    Ok(text + "\n")
}

/// Coverage, found by requirement.
struct Index<'a>(HashMap<&'a str, Vec<&'a Coverage>>);

impl<'a> Index<'a> {
    fn new(coverage: &'a [Coverage]) -> Index<'a> {
        let mut index: HashMap<&str, Vec<&Coverage>> = HashMap::new();
        for c in coverage {
            index.entry(&c.requirement).or_default().push(c);
        }
        Index(index)
    }

    fn of(&self, rule: &Requirement) -> &[&'a Coverage] {
        self.0.get(rule.id.as_str()).map_or(&[], Vec::as_slice)
    }
}

/// By what a rule is checked in a revision, or why it is not.
fn checked(coverage: &[&Coverage], revision: Revision) -> Result<Vec<String>, String> {
    match coverage.iter().find(|c| c.revision == revision) {
        Some(c) if !c.checks.is_empty() => Ok(c.checks.clone()),
        Some(Coverage {
            why_not: Some(why), ..
        }) => Err(why.clone()),
        _ => Err("no check yet".into()),
    }
}

/// The spans of revisions in which a rule is checked in the same way, and how.
pub(super) fn spans(rule: &Requirement, coverage: &[&Coverage]) -> Vec<(Span, String)> {
    let mut spans: Vec<(Span, String)> = Vec::new();
    for revision in Revision::ALL {
        if !rule.span.contains(revision) {
            continue;
        }
        let by = match checked(coverage, revision) {
            Ok(checks) => checks.join(", "),
            Err(why) => format!("not checked: {why}"),
        };
        match spans.last_mut() {
            Some((span, known)) if *known == by => span.last = revision,
            _ => {
                let span = Span {
                    first: revision,
                    last: revision,
                };
                spans.push((span, by));
            }
        }
    }
    spans
}

struct List<'a> {
    rules: Vec<&'a Requirement>,
    revisions: Vec<Revision>,
    coverage: Index<'a>,
}

impl List<'_> {
    fn text(&self, width: usize) -> String {
        let bold = Style::new().bold();
        let mut out = String::new();
        for rule in &self.rules {
            let _ = writeln!(
                out,
                "{bold}{}{bold:#} {} {}",
                rule.id, rule.level, rule.span
            );
            for (span, by) in spans(rule, self.coverage.of(rule)) {
                let listed = self.revisions.iter().any(|r| span.contains(*r));
                if !listed {
                    continue;
                }
                for (at, line) in wrap(&format!("{span}  {by}"), width - 6).iter().enumerate() {
                    let indent = if at == 0 { "    " } else { "      " };
                    let _ = writeln!(out, "{indent}{line}");
                }
            }
        }
        out
    }

    fn json(&self) -> Value {
        let rows = self.rules.iter().map(|rule| {
            let coverage: Vec<Value> = self
                .revisions
                .iter()
                .filter(|r| rule.span.contains(**r))
                .map(|r| match checked(self.coverage.of(rule), *r) {
                    Ok(checks) => json!({"revision": r.as_str(), "checks": checks}),
                    Err(why) => json!({"revision": r.as_str(), "checks": [], "whyNot": why}),
                })
                .collect();
            json!({
                "requirement": rule.id,
                "area": rule.area,
                "level": rule.level.to_string(),
                "breach": rule.breach.to_string(),
                "revisions": rule.span.to_string(),
                "transport": rule.transport,
                "condition": rule.condition,
                "statement": rule.statement,
                "source": rule.source,
                "derived": rule.derived,
                "testable": rule.testable,
                "how": rule.how,
                "mend": rule.mend,
                "coverage": coverage,
            })
        });
        rows.collect()
    }

    /// Areas of a revision in the order of the catalogue, with their rules.
    fn areas(&self, revision: Revision) -> Vec<Area<'_>> {
        let mut areas: Vec<Area<'_>> = Vec::new();
        for rule in self.rules.iter().filter(|r| r.span.contains(revision)) {
            let at = areas
                .iter()
                .position(|a| a.name == rule.area)
                .unwrap_or_else(|| {
                    areas.push(Area {
                        name: &rule.area,
                        ..Area::default()
                    });
                    areas.len() - 1
                });
            areas[at].rows += 1;
            match checked(self.coverage.of(rule), revision) {
                Ok(_) => areas[at].checked += 1,
                Err(why) => areas[at].unchecked.push((&rule.id, why)),
            }
        }
        areas
    }

    fn coverage_text(&self, width: usize) -> String {
        let bold = Style::new().bold();
        let mut out = String::new();
        for revision in &self.revisions {
            let areas = self.areas(*revision);
            let rows: usize = areas.iter().map(|a| a.rows).sum();
            let done: usize = areas.iter().map(|a| a.checked).sum();
            if !out.is_empty() {
                out.push('\n');
            }
            let _ = writeln!(
                out,
                "{bold}{revision}: {done} of {rows} rules checked{bold:#}"
            );
            for (kind, testable) in KINDS {
                let (done, rows) = self.of_kind(*revision, testable);
                let _ = writeln!(out, "  {kind:<44} {done:>4} of {rows:>4}");
            }
            for area in &areas {
                let _ = writeln!(
                    out,
                    "{:<20} {:>4} of {:>4}",
                    area.name, area.checked, area.rows
                );
                for (why, ids) in area.reasons() {
                    field(&mut out, "", &format!("{} not: {why}", ids.len()), width);
                }
            }
        }
        out
    }

    /// Rules over stdio that are tested in one way: how many are checked, and how many there are.
    fn of_kind(&self, revision: Revision, testable: &str) -> (usize, usize) {
        let rules = self.rules.iter().filter(|rule| {
            rule.span.contains(revision) && rule.transport != "http" && rule.testable == testable
        });
        let (mut done, mut rows) = (0, 0);
        for rule in rules {
            rows += 1;
            done += usize::from(checked(self.coverage.of(rule), revision).is_ok());
        }
        (done, rows)
    }

    fn coverage_json(&self) -> Value {
        let mut rows = Vec::new();
        for revision in &self.revisions {
            for area in self.areas(*revision) {
                let unchecked: Vec<Value> = area
                    .unchecked
                    .iter()
                    .map(|(id, why)| json!({"requirement": id, "whyNot": why}))
                    .collect();
                rows.push(json!({
                    "revision": revision.as_str(),
                    "area": area.name,
                    "rows": area.rows,
                    "checked": area.checked,
                    "unchecked": unchecked,
                }));
            }
        }
        Value::Array(rows)
    }
}

/// What a rule over stdio needs to be seen, and the word of the catalogue for it.
const KINDS: [(&str, &str); 3] = [
    ("over stdio, with no help", "black-box"),
    ("with a client that answers", "needs-cooperating-client"),
    (
        "when the server shows it, or a hint names it",
        "needs-fixture",
    ),
];

#[derive(Default)]
struct Area<'a> {
    name: &'a str,
    rows: usize,
    checked: usize,
    /// Ids, and why not.
    unchecked: Vec<(&'a str, String)>,
}

impl Area<'_> {
    /// Why rules are not checked, with their ids, in the order in which they come.
    fn reasons(&self) -> Vec<(&str, Vec<&str>)> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for (id, why) in &self.unchecked {
            match reasons.iter_mut().find(|(known, _)| known == why) {
                Some((_, ids)) => ids.push(id),
                None => reasons.push((why, vec![id])),
            }
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{VERSION, rules};

    fn coverage() -> Vec<Coverage> {
        Revision::ALL
            .iter()
            .map(|revision| {
                let new = *revision == Revision::V2026_07_28;
                Coverage {
                    requirement: VERSION.into(),
                    revision: *revision,
                    checks: if new {
                        vec![]
                    } else {
                        vec!["shape".into(), "ids".into()]
                    },
                    why_not: new.then(|| "needs a fixture".into()),
                }
            })
            .collect()
    }

    fn list(coverage: &[Coverage]) -> List<'_> {
        List {
            rules: rules().iter().collect(),
            revisions: vec![Revision::V2025_11_25, Revision::V2026_07_28],
            coverage: Index::new(coverage),
        }
    }

    #[test]
    fn revisions_checked_alike_stand_together() {
        let coverage = coverage();
        let text = list(&coverage).text(80);
        let text = anstream::adapter::strip_str(&text).to_string();
        let wanted = "\
jsonrpc.version-member MUST 2024-11-05..
    2024-11-05..2025-11-25  shape, ids
    2026-07-28  not checked: needs a fixture
";
        assert!(text.starts_with(wanted), "{text}");
    }

    #[test]
    fn coverage_counts_rows_and_reasons() {
        let coverage = coverage();
        let list = list(&coverage);
        let json = list.coverage_json();
        assert_eq!(
            json[0],
            json!({"revision": "2025-11-25", "area": "jsonrpc", "rows": 1, "checked": 1, "unchecked": []})
        );
        assert_eq!(json[3]["unchecked"][0]["whyNot"], "needs a fixture");
        let text = list.coverage_text(80);
        assert!(text.contains("2025-11-25: 1 of 3 rules checked"), "{text}");
        assert!(text.contains("1 not: no check yet"), "{text}");
        assert!(text.contains("over stdio, with no help"), "{text}");
        assert_eq!(list.json()[0]["coverage"][1]["checks"], json!([]));
    }
}
