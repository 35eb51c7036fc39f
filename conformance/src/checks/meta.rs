//! `basic/index#_meta`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::Observer;
use super::exchange::{Exchange, Received};
use super::messages::{answers_modern, kind_of};
use crate::client::{META_CAPABILITIES, META_INFO, META_VERSION};
use crate::run::Judge;
use crate::spec::Revision;

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "meta.keys",
    requirements: &[
        "meta.object",
        "meta.key-format",
        "meta.reserved-prefix.2025-06-18",
        "meta.reserved-prefix",
        "meta.reverse-dns",
        "meta.trace-context",
        "meta.server-info",
        "extensions.identifier",
        "result.type-value",
    ],
    read: keys,
}];

/// Keys with a reserved prefix that the specification itself defines.
const KNOWN: [&str; 9] = [
    "io.modelcontextprotocol/related-task",
    "io.modelcontextprotocol/model-immediate-response",
    "io.modelcontextprotocol/serverInfo",
    "io.modelcontextprotocol/subscriptionId",
    META_VERSION,
    META_INFO,
    META_CAPABILITIES,
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/progressToken",
];

fn keys(exchange: &Exchange<'_>, judge: &mut Judge) {
    let mut seen = HashSet::new();
    for message in &exchange.received {
        server_info(exchange, message, judge);
        result_type(exchange, message, judge);
        let mut found = Vec::new();
        collect(message.value, &mut found);
        for meta in found {
            let Value::Object(members) = meta else {
                judge.broken(
                    "meta.object",
                    format!("`_meta` is {}; it must be an object.", kind_of(meta)),
                    exchange.evidence(message),
                );
                continue;
            };
            judge.holds("meta.object");
            for (key, value) in members {
                if seen.insert(key.as_str()) {
                    judge_key(exchange, message, key, value, judge);
                }
            }
        }
        extensions(exchange, message, judge);
    }
}

/// Every `_meta` of a message, but not those inside free JSON, which is the server's own.
fn collect<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    const FREE: [&str; 8] = [
        "structuredContent",
        "inputSchema",
        "outputSchema",
        "data",
        "requestedSchema",
        "experimental",
        "arguments",
        "metadata",
    ];
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if name == "_meta" {
                    found.push(value);
                } else if !FREE.contains(&name.as_str()) {
                    collect(value, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

fn judge_key(
    exchange: &Exchange<'_>,
    message: &Received<'_>,
    key: &str,
    value: &Value,
    judge: &mut Judge,
) {
    if well_formed(key) {
        judge.holds("meta.key-format");
    } else {
        judge.broken(
            "meta.key-format",
            format!(
                "The `_meta` key `{key}` is not an optional dotted prefix, a slash and a name."
            ),
            exchange.evidence(message),
        );
    }
    if let Some((prefix, _)) = key.split_once('/') {
        prefix_rules(exchange, message, key, prefix, judge);
    }
    trace_context(exchange, message, key, value, judge);
}

/// `label.label/name`: labels begin with a letter and end with a letter or digit; the name begins
/// and ends with a letter or digit and may be empty after a prefix.
pub(super) fn well_formed(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let alnum = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let label_ok = |label: &str| {
        label.starts_with(|c: char| c.is_ascii_alphabetic())
            && alnum(label.chars().last())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let name_ok = (prefix.is_some() && name.is_empty())
        || (alnum(name.chars().next())
            && alnum(name.chars().last())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')));
    prefix.is_none_or(|prefix| prefix.split('.').all(label_ok)) && name_ok
}

fn prefix_rules(
    exchange: &Exchange<'_>,
    message: &Received<'_>,
    key: &str,
    prefix: &str,
    judge: &mut Judge,
) {
    let labels: Vec<&str> = prefix.split('.').collect();
    let reserved_name = |label: &&str| matches!(*label, "modelcontextprotocol" | "mcp");
    let reserved = if exchange.revision >= Revision::V2025_11_25 {
        labels.get(1).is_some_and(reserved_name)
    } else {
        labels.iter().rev().skip(1).any(reserved_name)
    };
    let rules = ["meta.reserved-prefix", "meta.reserved-prefix.2025-06-18"];
    if reserved && !KNOWN.contains(&key) {
        for rule in rules {
            judge.broken(
                rule,
                format!("The `_meta` key `{key}` has a prefix reserved for the protocol."),
                exchange.evidence(message),
            );
        }
    } else {
        rules.iter().for_each(|rule| judge.holds(rule));
    }
    const TOP: [&str; 10] = [
        "com", "org", "net", "dev", "io", "app", "ai", "co", "edu", "gov",
    ];
    let last = labels.last().copied().unwrap_or_default();
    let first = labels.first().copied().unwrap_or_default();
    if labels.len() > 1 && TOP.contains(&last) && !TOP.contains(&first) {
        judge.broken(
            "meta.reverse-dns",
            format!("The prefix of the `_meta` key `{key}` is not in reverse DNS order."),
            exchange.evidence(message),
        );
    } else {
        judge.holds("meta.reverse-dns");
    }
}

fn trace_context(
    exchange: &Exchange<'_>,
    message: &Received<'_>,
    key: &str,
    value: &Value,
    judge: &mut Judge,
) {
    let text = value.as_str();
    let valid = match key {
        "traceparent" => text.is_some_and(is_traceparent),
        // Lists of `key=value`, comma separated.
        "tracestate" | "baggage" => {
            text.is_some_and(|text| text.split(',').all(|member| member.contains('=')))
        }
        _ => return,
    };
    if valid {
        judge.holds("meta.trace-context");
    } else {
        judge.broken(
            "meta.trace-context",
            format!("`{key}` is {value}, which is not in the W3C format."),
            exchange.evidence(message),
        );
    }
}

fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    parts.len() >= 4
        && hex(parts[0], 2)
        && hex(parts[1], 32)
        && hex(parts[2], 16)
        && hex(parts[3], 2)
        && parts[1].bytes().any(|b| b != b'0')
        && parts[2].bytes().any(|b| b != b'0')
}

fn server_info(exchange: &Exchange<'_>, message: &Received<'_>, judge: &mut Judge) {
    let Some(result) = message.value.get("result").and_then(Value::as_object) else {
        return;
    };
    if !answers_modern(exchange, message) {
        return;
    }
    if result
        .get("_meta")
        .and_then(|meta| meta.get("io.modelcontextprotocol/serverInfo"))
        .is_some()
    {
        judge.holds("meta.server-info");
    } else {
        judge.broken(
            "meta.server-info",
            "A result does not name the server in `_meta`.",
            exchange.evidence(message),
        );
    }
}

/// Two values are the protocol's own; others come from extensions that the server advertises.
fn result_type(exchange: &Exchange<'_>, message: &Received<'_>, judge: &mut Judge) {
    const RULE: &str = "result.type-value";
    let kind = message
        .value
        .pointer("/result/resultType")
        .and_then(Value::as_str);
    let Some(kind) = kind.filter(|_| answers_modern(exchange, message)) else {
        return;
    };
    let extended = exchange
        .server
        .as_ref()
        .and_then(|server| server.get("extensions")?.as_object())
        .is_some_and(|extensions| !extensions.is_empty());
    if matches!(kind, "complete" | "input_required") || extended {
        judge.holds(RULE);
    } else {
        judge.broken(
            RULE,
            format!("`resultType` is `{kind}`; without an extension it is `complete` or `input_required`."),
            exchange.evidence(message),
        );
    }
}

fn extensions(exchange: &Exchange<'_>, message: &Received<'_>, judge: &mut Judge) {
    let Some(Value::Object(extensions)) = message.value.pointer("/result/capabilities/extensions")
    else {
        return;
    };
    for fault in extension_faults(extensions) {
        judge.broken("extensions.identifier", fault, exchange.evidence(message));
    }
    judge.holds("extensions.identifier");
}

fn extension_faults(extensions: &Map<String, Value>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, value) in extensions {
        if !name.contains('/') || !well_formed(name) {
            faults.push(format!(
                "The extension `{name}` has no well-formed prefix and name."
            ));
        }
        if !value.is_object() {
            faults.push(format!(
                "The extension `{name}` is {}, not an object.",
                kind_of(value)
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::well_formed;

    #[test]
    fn keys_are_an_optional_prefix_and_a_name() {
        for good in [
            "foo",
            "progressToken",
            "com.example/x",
            "io.a-b/c.d_e-f",
            "com.example/",
        ] {
            assert!(well_formed(good), "{good}");
        }
        for bad in [
            "",
            "a b",
            "-a",
            "a-",
            "1com/x",
            "com..x/y",
            "/x",
            "com.example/-x",
        ] {
            assert!(!well_formed(bad), "{bad}");
        }
    }
}
