//! The report as JUnit XML: a test suite per revision, a test case per requirement.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, SerializeError, TestCase, TestCaseStatus, TestSuite};

use super::text::{visible, visible_lines};
use super::{Context, SUITE, area, server_name};
use crate::verdict::{Evidence, From, Judgement, Report, Verdict};

/// The suite of what holds before a revision is chosen.
const BEFORE: &str = "before a revision is chosen";

/// The document.
pub fn render(report: &Report, context: &Context<'_>) -> Result<String, SerializeError> {
    let mut junit = quick_junit::Report::new(SUITE.0);
    junit.set_time(Duration::try_from_secs_f64(report.seconds).unwrap_or_default());
    if let Some(fatal) = &report.fatal {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(visible(&fatal.message));
        status.set_description(evidence(&fatal.evidence));
        let mut suite = TestSuite::new("the run");
        suite.add_test_case(TestCase::new("server can be started and spoken to", status));
        junit.add_test_suite(suite);
    }
    for (revision, judgements) in by_revision(&report.judgements) {
        let mut suite = TestSuite::new(visible(revision.unwrap_or(BEFORE)));
        if let (Some(name), version) = server_name(report) {
            suite.add_property(Property::new("server", visible(name)));
            suite.add_property(Property::new("version", visible(version.unwrap_or(""))));
        }
        for group in by_requirement(judgements) {
            suite.add_test_case(case(&group, context));
        }
        junit.add_test_suite(suite);
    }
    junit.to_string()
}

/// In the order in which they come first.
fn by_revision(judgements: &[Judgement]) -> Vec<(Option<&str>, Vec<&Judgement>)> {
    let mut groups: Vec<(Option<&str>, Vec<&Judgement>)> = Vec::new();
    for j in judgements {
        let revision = j.revision.as_deref();
        match groups.iter_mut().find(|(known, _)| *known == revision) {
            Some((_, group)) => group.push(j),
            None => groups.push((revision, vec![j])),
        }
    }
    groups
}

fn by_requirement(judgements: Vec<&Judgement>) -> Vec<Vec<&Judgement>> {
    let mut places = std::collections::HashMap::new();
    let mut groups: Vec<Vec<&Judgement>> = Vec::new();
    for j in judgements {
        let at = *places.entry(&j.requirement).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[at].push(j);
    }
    groups
}

/// One requirement: the worst of its judgements is the status, all of them are told.
fn case(group: &[&Judgement], context: &Context<'_>) -> TestCase {
    let worst = group.iter().max_by_key(|j| badness(j.verdict));
    let Some(worst) = worst else {
        return TestCase::new("", TestCaseStatus::success());
    };
    let mut status = match worst.verdict {
        Verdict::Fail => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Verdict::Warn if context.strict => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Verdict::Error => TestCaseStatus::non_success(NonSuccessKind::Error),
        Verdict::NotApplicable | Verdict::Blocked => TestCaseStatus::skipped(),
        Verdict::Pass | Verdict::Warn => TestCaseStatus::success(),
    };
    if !matches!(status, TestCaseStatus::Success { .. }) {
        status.set_message(reason(worst));
        status.set_type(worst.verdict.as_str());
    }
    if matches!(status, TestCaseStatus::NonSuccess { .. }) {
        status.set_description(describe(group, context));
    }
    let mut case = TestCase::new(visible(&worst.requirement), status);
    case.set_classname(visible(area(&worst.requirement)));
    if worst.verdict == Verdict::Warn && !context.strict {
        // JUnit knows no warning, so it stands with the output of a test case that passed.
        case.set_system_out(describe(group, context));
    }
    case
}

fn badness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::NotApplicable => 0,
        Verdict::Pass => 1,
        Verdict::Blocked => 2,
        Verdict::Warn => 3,
        Verdict::Error => 4,
        Verdict::Fail => 5,
    }
}

fn reason(j: &Judgement) -> String {
    let message = visible(&j.message);
    match &j.blocked_by {
        Some(by) => format!("blocked by {}: {message}", visible(by)),
        None => message,
    }
}

fn describe(group: &[&Judgement], context: &Context<'_>) -> String {
    let mut text = String::new();
    for j in group {
        if matches!(j.verdict, Verdict::Pass | Verdict::NotApplicable) {
            continue;
        }
        let level = visible(&j.level);
        let check = visible(&j.check);
        text += &format!("{} ({level}, by {check}): {}\n", j.verdict, reason(j));
        if let Some(rule) = (context.rules)(&j.requirement) {
            text += &format!("rule: {}\nmend: {}\n", rule.statement, rule.mend);
        }
        text += &evidence(&j.evidence);
    }
    text
}

fn evidence(evidence: &Evidence) -> String {
    let mut text = String::new();
    let facts = [
        ("at", &evidence.pointer),
        ("expected", &evidence.expected),
        ("found", &evidence.found),
    ];
    for (label, fact) in facts {
        if let Some(fact) = fact {
            text += &format!("{label}: {}\n", visible(fact));
        }
    }
    for line in &evidence.exchange {
        let arrow = match line.from {
            From::Client => "-->",
            From::Server => "<--",
            From::Event => "***",
        };
        text += &format!("{arrow} {} ms {}\n", line.at_ms, visible(&line.text));
    }
    if !evidence.stderr.is_empty() {
        let lines = visible_lines(&evidence.stderr.join("\n"));
        text += &format!("stderr:\n{lines}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::samples::*;
    use super::*;

    fn parsed(report: &Report, strict: bool) -> quick_junit::Report {
        let text = with_context(|context| render(report, &Context { strict, ..*context })).unwrap();
        let forbidden =
            |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}');
        assert!(!text.contains(forbidden), "{text}");
        quick_junit::Report::deserialize_from_str(&text).unwrap()
    }

    #[test]
    fn every_report_is_xml_with_the_right_counts() {
        let junit = parsed(&every_verdict(), false);
        assert_eq!((junit.failures, junit.errors), (3, 2));
        assert_eq!((junit.tests, junit.test_suites.len()), (13, 2));
        assert_eq!(
            parsed(&every_verdict(), true).failures,
            4,
            "a warning is one in strict mode"
        );
        parsed(&hostile(), false);
    }

    #[test]
    fn a_server_that_did_not_start_is_an_error_case() {
        let junit = parsed(&not_started(), false);
        assert_eq!((junit.tests, junit.errors), (1, 1));
    }

    #[test]
    fn what_is_skipped_says_why() {
        let text = with_context(|context| render(&every_verdict(), context)).unwrap();
        assert!(
            text.contains(r#"<skipped message="blocked by lifecycle.initialize"#),
            "{text}"
        );
        assert!(
            text.contains(r#"<skipped message="no tools capability" type="n/a"/>"#),
            "{text}"
        );
    }
}
