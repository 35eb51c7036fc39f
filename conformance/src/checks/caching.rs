//! `server/utilities/caching` (2026-07-28). The hints themselves are in the shapes.

use super::Observer;
use super::exchange::Exchange;
use crate::run::Judge;
use crate::spec::Era;

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "caching.interim",
    requirements: &["caching.no-hints-on-input-required"],
    read: interim,
}];

fn interim(exchange: &Exchange<'_>, judge: &mut Judge) {
    const RULE: &str = "caching.no-hints-on-input-required";
    if exchange.revision.era() != Era::Stateless {
        return;
    }
    for message in &exchange.received {
        let Some(result) = message.value.get("result") else {
            continue;
        };
        if result.get("resultType").and_then(serde_json::Value::as_str) != Some("input_required") {
            continue;
        }
        if result.get("ttlMs").is_some() || result.get("cacheScope").is_some() {
            judge.broken(
                RULE,
                "An interim result carries caching hints.",
                exchange.evidence(message),
            );
        } else {
            judge.holds(RULE);
        }
    }
}
