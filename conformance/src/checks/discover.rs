//! `server/discover` (2026-07-28).

use serde_json::Value;

use super::{Check, Context, Run, Session};
use crate::spec::requirement::Breach;
use crate::spec::{Revision, Span};

pub(super) const CHECKS: &[Check] = &[Check {
    name: "discover.versions",
    requirements: &["discover.lists-used-version", "discover.result-shape"],
    span: Span {
        first: Revision::V2026_07_28,
        last: Revision::V2026_07_28,
    },
    session: Session::Shared,
    run: Run::Code(versions),
}];

/// The versions that a discover result lists.
pub(crate) fn supported_versions(hello: &Value) -> Vec<&str> {
    hello
        .get("supportedVersions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn versions(ctx: &mut Context<'_>) {
    let from = 0;
    let versions: Vec<String> = supported_versions(&ctx.facts.hello)
        .into_iter()
        .map(str::to_owned)
        .collect();
    if versions.is_empty() {
        let evidence = ctx.evidence_from(from);
        let message = "`supportedVersions` names no version.";
        ctx.judge.broken("discover.result-shape", message, evidence);
        ctx.judge
            .blocked("discover.lists-used-version", "discover.result-shape");
    } else if versions
        .iter()
        .any(|version| version == ctx.revision().as_str())
    {
        ctx.judge.holds("discover.lists-used-version");
    } else {
        let evidence = ctx.evidence_from(from);
        let message = format!(
            "A request in {} was served, but `supportedVersions` lists only {}.",
            ctx.revision(),
            versions.join(", ")
        );
        ctx.judge.broken_as(
            "discover.lists-used-version",
            Breach::Warn,
            message,
            evidence,
        );
    }
}
