//! `server/resources`.

use std::collections::HashSet;

use base64::Engine as _;
use serde_json::{Value, json};

use super::exchange::{Exchange, Kind, SentKind};
use super::{Answer, Check, Context, Observer, Run, Session};
use crate::run::Judge;
use crate::spec::requirement::Breach;
use crate::spec::{Era, Revision, Span};

/// How many listed resources are read.
const MOST_READS: usize = 3;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "resources.uris",
        requirements: &[
            "resources.uri-valid",
            "resources.uri-unique",
            "resources.templates.rfc6570",
        ],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(uris),
    },
    Check {
        name: "resources.read",
        requirements: &["resources.read.listed-readable"],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(read),
    },
    Check {
        name: "resources.unknown",
        requirements: &[
            "resources.read.not-found.code-32002",
            "resources.read.not-found.code-32602",
            "resources.read.not-found.no-empty",
        ],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(unknown),
    },
    Check {
        name: "resources.path-traversal",
        requirements: &["resources.path-traversal"],
        span: Span::ALL,
        session: Session::Shared,
        run: Run::Code(traversal),
    },
    Check {
        name: "resources.subscribe",
        requirements: &["resources.subscribe.ack", "resources.unsubscribe.ack"],
        span: Span {
            first: Revision::V2024_11_05,
            last: Revision::V2025_11_25,
        },
        session: Session::Shared,
        run: Run::Code(subscribe),
    },
];

pub(super) const OBSERVERS: &[Observer] = &[
    Observer {
        name: "resources.updated",
        requirements: &["resources.updated.only-subscribed"],
        read: only_subscribed,
    },
    Observer {
        name: "resources.blobs",
        requirements: &["resources.read.blob-base64"],
        read: blobs,
    },
];

fn uri_of(resource: &Value) -> &str {
    resource
        .get("uri")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn uris(ctx: &mut Context<'_>) {
    const VALID: &str = "resources.uri-valid";
    const UNIQUE: &str = "resources.uri-unique";
    const TEMPLATE: &str = "resources.templates.rfc6570";
    if ctx.needs_list("resources/list", &[VALID, UNIQUE]) {
        let resources = ctx.facts.items("resources/list").to_vec();
        let mut seen = HashSet::new();
        for resource in &resources {
            let uri = uri_of(resource);
            if is_uri(uri) {
                ctx.judge.holds(VALID);
            } else {
                let evidence = ctx.list_evidence("resources/list");
                ctx.judge
                    .broken(VALID, format!("`{uri}` is no URI (RFC 3986)."), evidence);
            }
            if seen.insert(uri) {
                ctx.judge.holds(UNIQUE);
            } else {
                let evidence = ctx.list_evidence("resources/list");
                ctx.judge.broken(
                    UNIQUE,
                    format!("`{uri}` is listed more than once."),
                    evidence,
                );
            }
        }
        if resources.is_empty() {
            ctx.not_applicable(&[VALID, UNIQUE], "The server lists no resource.");
        }
    }
    if ctx.needs_list("resources/templates/list", &[TEMPLATE]) {
        let templates = ctx.facts.items("resources/templates/list").to_vec();
        for template in &templates {
            let text = template
                .get("uriTemplate")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if is_template(text) {
                ctx.judge.holds(TEMPLATE);
            } else {
                let evidence = ctx.list_evidence("resources/templates/list");
                ctx.judge.broken(
                    TEMPLATE,
                    format!("`{text}` is no URI template (RFC 6570)."),
                    evidence,
                );
            }
        }
        if templates.is_empty() {
            ctx.judge
                .not_applicable(TEMPLATE, "The server lists no template.");
        }
    }
}

/// Whether a text is an absolute URI with legal characters. Characters beyond ASCII are let pass:
/// the text speaks of URIs, but IRIs are what servers of non-English files write.
pub(super) fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let scheme_ok = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let legal = |c: char| {
        !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c)
    };
    scheme_ok && rest.chars().all(legal) && percent_ok(rest)
}

fn percent_ok(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| {
        let mut digits = rest.bytes().take(2);
        digits.next().is_some_and(|b| b.is_ascii_hexdigit())
            && digits.next().is_some_and(|b| b.is_ascii_hexdigit())
    })
}

/// Whether a text is a URI template: literals and well-formed expressions.
fn is_template(text: &str) -> bool {
    let mut rest = text;
    while let Some(open) = rest.find(['{', '}']) {
        if rest.as_bytes()[open] == b'}' {
            return false;
        }
        let after = &rest[open + 1..];
        let Some(close) = after.find('}') else {
            return false;
        };
        if !is_expression(&after[..close]) {
            return false;
        }
        rest = &after[close + 1..];
    }
    let legal =
        |c: char| !c.is_control() && !matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '|');
    !text.is_empty() && text.chars().all(legal)
}

fn is_expression(text: &str) -> bool {
    let list = text
        .strip_prefix(['+', '#', '.', '/', ';', '?', '&'])
        .unwrap_or(text);
    list.split(',').all(|variable| {
        let name = match variable.split_once(':') {
            Some((name, length)) => {
                let digits = !length.is_empty()
                    && length.len() <= 4
                    && length.bytes().all(|b| b.is_ascii_digit());
                if !digits {
                    return false;
                }
                name
            }
            None => variable.strip_suffix('*').unwrap_or(variable),
        };
        !name.is_empty()
            && percent_ok(name)
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '%'))
    })
}

fn read(ctx: &mut Context<'_>) {
    const RULE: &str = "resources.read.listed-readable";
    if !ctx.needs_list("resources/list", &[RULE]) {
        return;
    }
    let resources = ctx.facts.items("resources/list").to_vec();
    for resource in resources.iter().take(MOST_READS) {
        let uri = uri_of(resource);
        let from = ctx.client.log().len();
        match ctx.ask(&[RULE], "resources/read", Some(json!({"uri": uri}))) {
            Answer::Result(_) => ctx.judge.holds(RULE),
            Answer::Error { error, .. } => {
                let evidence = ctx.evidence_from(from);
                ctx.judge.broken(
                    RULE,
                    format!("`{uri}` is listed, but reading it fails: {error}"),
                    evidence,
                );
            }
            Answer::None => return,
        }
    }
    if resources.is_empty() {
        ctx.judge
            .not_applicable(RULE, "The server lists no resource.");
    }
}

/// A resource in a scheme that no server has. A template may match anything, so success counts
/// only where no template does.
fn unknown(ctx: &mut Context<'_>) {
    const OLD: &str = "resources.read.not-found.code-32002";
    const NEW: &str = "resources.read.not-found.code-32602";
    const EMPTY: &str = "resources.read.not-found.no-empty";
    if !ctx.needs("resources", &[OLD, NEW, EMPTY]) {
        return;
    }
    let from = ctx.client.log().len();
    let params = json!({"uri": "touchstone-none:///no/such/resource/8f14e45f"});
    match ctx.ask(&[OLD, NEW, EMPTY], "resources/read", Some(params)) {
        Answer::Error { code, error } => {
            ctx.judge.holds(EMPTY);
            if code == Some(-32002) {
                ctx.judge.holds(OLD);
            }
            if code == Some(-32602) {
                ctx.judge.holds(NEW);
            }
            let got = error.get("code").cloned().unwrap_or(Value::Null);
            let evidence = ctx.evidence_from(from);
            if code != Some(-32002) {
                let message =
                    format!("An unknown resource gives error code {got}; -32002 is asked for.");
                ctx.judge.broken(OLD, message, evidence.clone());
            }
            if code != Some(-32602) {
                let message =
                    format!("An unknown resource gives error code {got}; -32602 is required.");
                ctx.judge.broken(NEW, message, evidence);
            }
        }
        Answer::Result(result) => {
            let evidence = ctx.evidence_from(from);
            let empty = result
                .get("contents")
                .and_then(Value::as_array)
                .is_some_and(Vec::is_empty);
            if empty {
                ctx.judge.broken(
                    EMPTY,
                    "An unknown resource gives an empty `contents`.",
                    evidence.clone(),
                );
                ctx.judge.broken_as(
                    OLD,
                    Breach::Warn,
                    "An unknown resource gives an empty `contents`.",
                    evidence,
                );
                ctx.judge.blocked(NEW, EMPTY);
            } else if ctx.facts.items("resources/templates/list").is_empty() {
                let message = "A resource that cannot exist is served.";
                for rule in [OLD, NEW] {
                    ctx.judge
                        .broken_as(rule, Breach::Fail, message, evidence.clone());
                }
            } else {
                ctx.not_applicable(&[OLD, NEW, EMPTY], "A template may match any URI.");
            }
        }
        Answer::None => {}
    }
}

/// Where files are served, dot segments must not lead out of the tree.
fn traversal(ctx: &mut Context<'_>) {
    const RULE: &str = "resources.path-traversal";
    if !ctx.needs("resources", &[RULE]) {
        return;
    }
    let files: Vec<String> = ctx
        .facts
        .items("resources/list")
        .iter()
        .map(|resource| uri_of(resource).to_owned())
        .filter(|uri| uri.starts_with("file://"))
        .collect();
    let Some(file) = files.first() else {
        ctx.judge
            .not_applicable(RULE, "The server lists no `file:` resource.");
        return;
    };
    let folder = file
        .rsplit_once('/')
        .map_or(file.as_str(), |(folder, _)| folder);
    for dots in ["../", "%2e%2e/", "..%2f"] {
        let uri = format!("{folder}/{}etc/passwd", dots.repeat(24));
        let from = ctx.client.log().len();
        match ctx.ask(&[RULE], "resources/read", Some(json!({"uri": uri}))) {
            Answer::Error { .. } => ctx.judge.holds(RULE),
            Answer::Result(result) => {
                let text = result.to_string();
                if text.contains("root:") {
                    let evidence = ctx.evidence_from(from);
                    ctx.judge.broken(
                        RULE,
                        format!("`{uri}` leads out of the served tree."),
                        evidence,
                    );
                } else {
                    ctx.judge.holds(RULE);
                }
            }
            Answer::None => return,
        }
    }
}

fn subscribe(ctx: &mut Context<'_>) {
    const ACK: &str = "resources.subscribe.ack";
    const UNACK: &str = "resources.unsubscribe.ack";
    if !ctx.needs("resources.subscribe", &[ACK, UNACK]) {
        return;
    }
    let Some(uri) = ctx
        .facts
        .items("resources/list")
        .first()
        .map(|r| uri_of(r).to_owned())
    else {
        ctx.not_applicable(&[ACK, UNACK], "The server lists no resource.");
        return;
    };
    for (rule, method) in [
        (ACK, "resources/subscribe"),
        (UNACK, "resources/unsubscribe"),
    ] {
        let from = ctx.client.log().len();
        match ctx.ask(&[rule], method, Some(json!({"uri": uri}))) {
            Answer::Result(result) => super::ping::empty_result(ctx, rule, method, &result, from),
            Answer::Error { error, .. } => {
                let evidence = ctx.evidence_from(from);
                ctx.judge.broken(
                    rule,
                    format!("`{method}` of a listed resource fails: {error}"),
                    evidence,
                );
            }
            Answer::None => return,
        }
    }
}

fn only_subscribed(exchange: &Exchange<'_>, judge: &mut Judge) {
    const RULE: &str = "resources.updated.only-subscribed";
    if exchange.revision.era() == Era::Stateless {
        return;
    }
    judge.holds(RULE);
    for message in &exchange.received {
        if message.kind != Kind::Notification("notifications/resources/updated") {
            continue;
        }
        // An update of a sub-resource is fair, so the uris need not be equal.
        let subscribed = exchange.sent.iter().any(|sent| {
            sent.at < message.at
                && matches!(&sent.kind, SentKind::Request { method, .. } if method == "resources/subscribe")
        });
        if !subscribed {
            judge.broken(
                RULE,
                "An update of a resource was sent though the client subscribed to none.",
                exchange.evidence(message),
            );
        }
    }
}

fn blobs(exchange: &Exchange<'_>, judge: &mut Judge) {
    const RULE: &str = "resources.read.blob-base64";
    for (message, result) in exchange.results("resources/read") {
        let blobs = result
            .get("contents")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|content| content.get("blob")?.as_str());
        for blob in blobs {
            if is_base64(blob) {
                judge.holds(RULE);
            } else {
                judge.broken(RULE, "A `blob` is not base64.", exchange.evidence(message));
            }
        }
    }
}

pub(super) fn is_base64(text: &str) -> bool {
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::{is_template, is_uri};

    #[test]
    fn uris_have_a_scheme_and_legal_characters() {
        for good in [
            "file:///a/b.txt",
            "demo://x",
            "urn:a:b",
            "mem:x%20y",
            "note://日本",
        ] {
            assert!(is_uri(good), "{good}");
        }
        for bad in ["", "a b", "/no/scheme", "1x:y", "a:b c", "a:%zz", "a:<b>"] {
            assert!(!is_uri(bad), "{bad}");
        }
    }

    #[test]
    fn templates_are_literals_and_expressions() {
        for good in [
            "a://{x}",
            "a://{+path}/{?q,r}",
            "a://{x*}",
            "a://{x:3}",
            "plain",
        ] {
            assert!(is_template(good), "{good}");
        }
        for bad in [
            "",
            "a://{",
            "a://}",
            "a://{}",
            "a://{x y}",
            "a://{x:}",
            "a b",
        ] {
            assert!(!is_template(bad), "{bad}");
        }
    }
}
