//! `basic/patterns/mrtr` (2026-07-28): results that ask for input.

use serde_json::{Value, json};

use super::{Answer, Check, Context, Run, Session};
use crate::spec::{Revision, Span};

pub(super) const CHECKS: &[Check] = &[Check {
    name: "mrtr.allowed-methods",
    requirements: &["mrtr.allowed-methods"],
    span: Span {
        first: Revision::V2026_07_28,
        last: Revision::V2026_07_28,
    },
    session: Session::Rough,
    run: Run::Code(allowed_methods),
}];

/// With every client capability declared, methods other than the three never ask for input.
fn allowed_methods(ctx: &mut Context<'_>) {
    const RULE: &str = "mrtr.allowed-methods";
    let mut methods = vec!["server/discover"];
    for (method, _, capability) in super::LISTS {
        if ctx.facts.declares(capability) {
            methods.push(method);
        }
    }
    for method in methods {
        let from = ctx.client.log().len();
        match ctx.ask(&[RULE], method, Some(json!({}))) {
            Answer::Result(result)
                if result.get("resultType").and_then(Value::as_str) == Some("input_required") =>
            {
                let evidence = ctx.evidence_from(from);
                ctx.judge.broken(
                    RULE,
                    format!("`{method}` asks for input, which it may not."),
                    evidence,
                );
            }
            Answer::None => return,
            _ => ctx.judge.holds(RULE),
        }
    }
}
