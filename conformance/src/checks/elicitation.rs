//! `client/elicitation`: what the server asks the person, and what it makes of the answer.

use serde_json::{Map, Value, json};

use super::asking::{Play, Question, accept, mode_of, questions};
use super::exchange::Exchange;
use super::{Check, Context, Observer, Run, Session};
use crate::client::Reply;
use crate::run::{Does, Judge, Occasion};
use crate::spec::requirement::Breach;
use crate::spec::{Revision, Span};

const ELICITATION: Span = Span {
    first: Revision::V2025_06_18,
    last: Revision::V2026_07_28,
};
const MODES: Span = Span {
    first: Revision::V2025_11_25,
    last: Revision::V2026_07_28,
};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "elicitation.undeclared-mode",
        requirements: &["elicitation.mode-supported"],
        span: MODES,
        session: Session::Rough,
        run: Run::Occasion(&[Does::AsksUrlElicitation], undeclared_mode),
    },
    Check {
        name: "elicitation.ask",
        requirements: &[
            "elicitation.mode-supported",
            "elicitation.no-secrets-by-form",
            "elicitation.url.safe",
        ],
        span: ELICITATION,
        session: Session::Able,
        run: Run::Occasion(&[Does::AsksElicitation, Does::AsksUrlElicitation], ask_each),
    },
    Check {
        name: "elicitation.answers",
        requirements: &["elicitation.actions", "elicitation.decline-handled"],
        span: ELICITATION,
        session: Session::Able,
        run: Run::Occasion(&[Does::AsksElicitation], answers),
    },
];

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "elicitation.questions",
    requirements: &[
        "elicitation.mode-supported",
        "elicitation.no-secrets-by-form",
        "elicitation.url.safe",
    ],
    read: read_questions,
}];

/// The client of this session declares no mode, which means forms only.
fn undeclared_mode(ctx: &mut Context<'_>, occasion: &Occasion) {
    const RULE: &str = "elicitation.mode-supported";
    let mut willing = ctx.willing();
    let course = ctx.converse(occasion, &mut willing);
    // A URL that is asked for all the same is told by the observer.
    let url = course.asked.iter().any(|q| q.mode() == Some("url"));
    if !url && !matches!(course.reply, Reply::Silence | Reply::Gone) {
        ctx.judge.holds(RULE);
    }
}

/// Lets every question be put once; the observers judge them.
fn ask_each(ctx: &mut Context<'_>, _: &Occasion) {
    for occasion in ctx.occasions(&[Does::AsksElicitation, Does::AsksUrlElicitation]) {
        let mut willing = ctx.willing();
        ctx.converse(&occasion, &mut willing);
    }
}

/// Yes, no, away, and a form filled in wrongly: each time the call comes to an end.
fn answers(ctx: &mut Context<'_>, occasion: &Occasion) {
    const ACTIONS: &str = "elicitation.actions";
    const DECLINE: &str = "elicitation.decline-handled";
    let rule = if ctx.handshake() { ACTIONS } else { DECLINE };
    for action in ["accept", "decline", "cancel"] {
        let mut willing = ctx.willing();
        let mut play = |question: &Question| match (question.mode(), action) {
            (None, _) => willing(question),
            (Some(_), "accept") => Play::Result(accept(&question.params)),
            (Some(_), action) => Play::Result(json!({ "action": action })),
        };
        let course = ctx.converse(occasion, &mut play);
        if !course.asked_for("elicitation/create") {
            let why = format!("{occasion} asked the person nothing.");
            ctx.not_applicable(&[ACTIONS, DECLINE], &why);
            return;
        }
        let when = format!("After the answer `{action}`");
        if !ctx.must_be_answered(rule, &course, &when) {
            return;
        }
        if course.reply.result().is_some_and(super::asking::is_interim) {
            let evidence = ctx.evidence_from(course.from);
            let text = format!("The server asks again and again, whatever `{action}` says.");
            ctx.judge.broken(rule, text, evidence);
        }
    }
    if ctx.handshake() {
        wrong_content(ctx, occasion);
    }
}

/// A value that no reply holds by chance.
const MARK: i64 = 982_451_653;

/// Content that breaks the schema must not be taken for good.
fn wrong_content(ctx: &mut Context<'_>, occasion: &Occasion) {
    const RULE: &str = "elicitation.actions";
    let mut willing = ctx.willing();
    let mut wrong = false;
    let mut play = |question: &Question| {
        let content = misfit(&question.params);
        if question.mode() != Some("form") || content.is_empty() {
            return willing(question);
        }
        // Asked again after the refusal, the person gives up.
        if std::mem::replace(&mut wrong, true) {
            return Play::Result(json!({"action": "cancel"}));
        }
        Play::Result(json!({"action": "accept", "content": content}))
    };
    let course = ctx.converse(occasion, &mut play);
    if !wrong || !ctx.must_be_answered(RULE, &course, "After a form filled in wrongly") {
        return;
    }
    let used = course
        .reply
        .result()
        .is_some_and(|result| !super::tools::is_error(result) && holds_mark(result));
    if used {
        let evidence = ctx.evidence_from(course.from);
        let text = "Content that breaks the requested schema is taken for good.";
        ctx.judge.broken_as(RULE, Breach::Warn, text, evidence);
    }
}

/// Content with a number wherever a text belongs.
fn misfit(params: &Value) -> Map<String, Value> {
    let properties = params.pointer("/requestedSchema/properties");
    properties
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(_, schema)| schema.get("type").and_then(Value::as_str) == Some("string"))
        .map(|(name, _)| (name.clone(), MARK.into()))
        .collect()
}

fn holds_mark(value: &Value) -> bool {
    value.to_string().contains(&MARK.to_string())
}

fn read_questions(exchange: &Exchange<'_>, judge: &mut Judge) {
    for put in questions(exchange) {
        if put.method != "elicitation/create" {
            continue;
        }
        let mode = mode_of(put.params);
        if let Some(modes) = put.client.get("elicitation").and_then(Value::as_object) {
            const RULE: &str = "elicitation.mode-supported";
            if modes.contains_key(mode) || (modes.is_empty() && mode == "form") {
                judge.holds(RULE);
            } else {
                let text = format!("The mode `{mode}` is used, which the client does not declare.");
                judge.broken(RULE, text, exchange.evidence(put.message));
            }
        }
        let (rule, fault) = match mode {
            "url" => ("elicitation.url.safe", unsafe_url(put.params)),
            _ => ("elicitation.no-secrets-by-form", secret(put.params)),
        };
        match fault {
            Some(fault) => judge.broken(rule, fault, exchange.evidence(put.message)),
            None => judge.holds(rule),
        }
    }
}

/// A text without its case and its punctuation.
fn plain(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// A property by which a secret is asked for.
fn secret(params: &Value) -> Option<String> {
    const PARTS: [&str; 12] = [
        "password",
        "passwd",
        "passphrase",
        "apikey",
        "secretkey",
        "privatekey",
        "accesstoken",
        "refreshtoken",
        "clientsecret",
        "creditcard",
        "cardnumber",
        "cvv",
    ];
    const WHOLE: [&str; 4] = ["secret", "token", "pin", "ssn"];
    let properties = params.pointer("/requestedSchema/properties")?.as_object()?;
    properties.iter().find_map(|(name, schema)| {
        let title = schema.get("title").and_then(Value::as_str);
        let names = [Some(name.as_str()), title]
            .into_iter()
            .flatten()
            .map(plain);
        let secret = names
            .into_iter()
            .any(|n| PARTS.iter().any(|part| n.contains(part)) || WHOLE.contains(&n.as_str()));
        secret.then(|| format!("The form asks for `{name}`, which looks like a secret."))
    })
}

/// What is not safe about the URL of an elicitation.
fn unsafe_url(params: &Value) -> Option<String> {
    const NAMES: [&str; 12] = [
        "token",
        "accesstoken",
        "idtoken",
        "refreshtoken",
        "session",
        "sessionid",
        "sid",
        "password",
        "apikey",
        "secret",
        "clientsecret",
        "email",
    ];
    let url = params.get("url")?.as_str()?;
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Some("The URL holds the name of a user, and may hold a password.".to_owned());
    }
    let host = authority.trim_start_matches('[');
    let local = ["localhost", "127.", "::1"]
        .iter()
        .any(|h| host.starts_with(h));
    if scheme.eq_ignore_ascii_case("http") && !local {
        return Some("The URL is http; it should be https.".to_owned());
    }
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let query = query.split('#').next().unwrap_or_default();
    query.split('&').find_map(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        NAMES
            .contains(&plain(name).as_str())
            .then(|| format!("The URL carries `{name}`, which looks private."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_names() {
        let form =
            |name: &str| json!({"requestedSchema": {"properties": {name: {"type": "string"}}}});
        for name in [
            "password",
            "API_Key",
            "userPassword",
            "token",
            "Credit card",
        ] {
            assert!(secret(&form(name)).is_some(), "{name}");
        }
        for name in ["name", "colour", "tokens_wanted", "secretary", "pinned"] {
            assert_eq!(secret(&form(name)), None, "{name}");
        }
    }

    #[test]
    fn a_url_is_safe_if_it_is_https_and_holds_nothing_private() {
        let fault = |url: &str| unsafe_url(&json!({ "url": url }));
        for good in [
            "https://example.com/terms?id=7#token=",
            "http://localhost:8080/a",
            "http://127.0.0.1/a",
            "http://[::1]:80/",
            "https://example.com?state=a&code=b",
        ] {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in [
            "http://example.com/",
            "https://ann:pw@example.com/",
            "https://example.com/?access_token=1",
            "https://example.com/a?x=1&Session-Id=2",
        ] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }
}
