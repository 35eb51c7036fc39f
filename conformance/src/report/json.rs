//! The report as one versioned JSON document. `docs/report.md` is its manual.

use serde::Serialize;

use super::{Context, Counts, SUITE, exit_code};
use crate::verdict::{Fatal, Judgement, Report, Target, Verdict};

/// The version of the document. A member may be added without a new version; none is removed
/// and none changes its meaning.
pub const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    suite: Suite,
    target: TargetObject<'a>,
    verdicts: &'a [Judgement],
    summary: Summary,
    fatal: &'a Option<Fatal>,
}

#[derive(Serialize)]
struct Suite {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct TargetObject<'a> {
    transport: &'static str,
    #[serde(flatten)]
    target: &'a Target,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    pass: usize,
    fail: usize,
    warn: usize,
    #[serde(rename = "n/a")]
    not_applicable: usize,
    blocked: usize,
    error: usize,
    seconds: f64,
    processes: usize,
    strict: bool,
    exit_code: u8,
}

/// The document, with a newline at its end.
pub fn render(report: &Report, context: &Context<'_>) -> Result<String, serde_json::Error> {
    let counts = Counts::of(&report.judgements);
    let (name, version) = SUITE;
    let document = Document {
        schema: SCHEMA,
        suite: Suite { name, version },
        target: TargetObject {
            transport: "stdio",
            target: &report.target,
        },
        verdicts: &report.judgements,
        summary: Summary {
            pass: counts.get(Verdict::Pass),
            fail: counts.get(Verdict::Fail),
            warn: counts.get(Verdict::Warn),
            not_applicable: counts.get(Verdict::NotApplicable),
            blocked: counts.get(Verdict::Blocked),
            error: counts.get(Verdict::Error),
            seconds: report.seconds,
            processes: report.processes,
            strict: context.strict,
            exit_code: exit_code(report, context.strict),
        },
        fatal: &report.fatal,
    };
    let text = serde_json::to_string_pretty(&document)?;
    Ok(escape_controls(&text) + "\n")
}

/// JSON lets DEL and the C1 controls stand in strings, but a terminal obeys them.
fn escape_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{7f}'..='\u{9f}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::samples::*;
    use super::*;
    use serde_json::{Value, json};

    fn document(report: &Report) -> Value {
        let text = with_context(|context| render(report, context)).unwrap();
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn documents_fit_the_published_schema() {
        let schema = include_str!("../../../docs/report.schema.json");
        let schema: Value = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for report in [every_verdict(), hostile(), not_started(), report(vec![])] {
            let document = document(&report);
            let faults: Vec<_> = validator
                .iter_errors(&document)
                .map(|e| e.to_string())
                .collect();
            assert!(faults.is_empty(), "{faults:?}");
        }
        let mut broken = document(&every_verdict());
        broken["verdicts"][0]["verdict"] = json!("maybe");
        assert!(
            !validator.is_valid(&broken),
            "the schema would let anything pass"
        );
    }

    #[test]
    fn nothing_that_was_judged_is_lost() {
        for report in [every_verdict(), hostile(), not_started()] {
            let document = document(&report);
            let judgements: Vec<Judgement> =
                serde_json::from_value(document["verdicts"].clone()).unwrap();
            assert_eq!(judgements, report.judgements);
            let target: Target = serde_json::from_value(document["target"].clone()).unwrap();
            assert_eq!(target, report.target);
            let fatal: Option<Fatal> = serde_json::from_value(document["fatal"].clone()).unwrap();
            assert_eq!(fatal, report.fatal);
        }
    }

    #[test]
    fn the_summary_counts_every_kind() {
        let summary = document(&every_verdict())["summary"].clone();
        let total: u64 = Verdict::ALL
            .iter()
            .map(|v| summary[v.as_str()].as_u64().unwrap())
            .sum();
        assert_eq!(total as usize, every_verdict().judgements.len());
        assert_eq!(summary["exitCode"], 1);
        assert_eq!(document(&not_started())["summary"]["exitCode"], 3);
    }
}
