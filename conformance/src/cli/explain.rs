//! `touchstone explain`: what a rule says, how it is tested, how to mend a breach.

use std::fmt::Write as _;
use std::io::stdout;

use anstyle::Style;

use super::{Problem, list, print, select, width};
use crate::report::terminal::field;
use crate::run::{self, Coverage};
use crate::spec::requirement::{Breach, Requirement, get};

/// Explain rules: what they say, where they stand, how they are tested, how to mend a breach
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  touchstone explain jsonrpc.response.id-echo")]
pub(super) struct Args {
    /// Ids of requirements, areas, or globs such as 'tools.*'
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

/// Prints the pages and gives the exit code.
pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let ids = select::select(&args.ids, &select::known_ids())?;
    let coverage = run::coverage();
    let width = width(stdout()).max(40);
    let mut out = String::new();
    for id in &ids {
        if !out.is_empty() {
            out.push('\n');
        }
        let covered: Vec<&Coverage> = coverage.iter().filter(|c| c.requirement == *id).collect();
        match get(id) {
            Some(rule) => page(&mut out, rule, &covered, width),
            None => profile_page(&mut out, id, &covered, width),
        }
    }
    print(&out)?;
    Ok(0)
}

fn page(out: &mut String, rule: &Requirement, coverage: &[&Coverage], width: usize) {
    title(out, &rule.id);
    let mut put = |label: &str, text: &str| field(out, label, text, width);
    put("rule", &rule.statement);
    let how = if rule.derived {
        "derived from other rules"
    } else {
        "stated"
    };
    let breach = match rule.breach {
        Breach::Fail => "a breach is a fail",
        Breach::Warn => "a breach is a warning",
        Breach::Note => "a breach is only noted",
    };
    put("level", &format!("{} ({how}); {breach}", rule.level));
    put("revisions", &rule.span.to_string());
    put(
        "applies",
        &format!("{}; transport: {}", rule.condition, rule.transport),
    );
    for (at, source) in rule.source.split(" | ").enumerate() {
        put(if at == 0 { "source" } else { "" }, source);
    }
    put("tested", &rule.how);
    checks(&mut put, rule, coverage);
    put("mend", &rule.mend);
}

fn checks(put: &mut dyn FnMut(&str, &str), rule: &Requirement, coverage: &[&Coverage]) {
    for (at, (span, by)) in list::spans(rule, coverage).iter().enumerate() {
        put(
            if at == 0 { "checks" } else { "" },
            &format!("{span}: {by}"),
        );
    }
}

/// A rule of a profile, which the catalogue does not have.
fn profile_page(out: &mut String, id: &str, coverage: &[&Coverage], width: usize) {
    title(out, id);
    field(
        out,
        "rule",
        "one of a profile's own; it is no part of the protocol",
        width,
    );
    for c in coverage {
        field(
            out,
            "checks",
            &format!("{}: {}", c.revision, c.checks.join(", ")),
            width,
        );
    }
}

fn title(out: &mut String, id: &str) {
    let bold = Style::new().bold();
    let _ = writeln!(out, "{bold}{id}{bold:#}");
}
