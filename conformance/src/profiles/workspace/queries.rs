//! What is asked about code: symbols, holes, obligations, documentation.

use serde_json::{Value, json};

use super::look;
use super::server::{Host, Said, Server};
use super::{Done, Profile, folder_of};

pub(super) fn described(profile: &mut Profile<'_>) -> Done {
    let described = profile.pack.described.clone();
    // Documentation is asked of the head.
    let folder = folder_of([(&*described.path, &*described.text)])?;
    let mut server = profile.start(Host {
        folder: Some(folder.path()),
        ..Host::default()
    })?;
    let snapshot = server.head()?;
    let checked = server.good("check", &json!({"snapshot": snapshot}))?;
    holes(profile, &mut server, &snapshot, &checked);
    symbols(profile, &mut server, &snapshot)?;
    docs(profile, &mut server)?;
    server.stop(profile.options);
    Ok(())
}

fn holes(profile: &mut Profile<'_>, server: &mut Server, snapshot: &str, checked: &Value) {
    let described = profile.pack.described.clone();
    let errors = look::errors(checked).len();
    let hole = look::array(checked, "holes")
        .iter()
        .find(|hole| look::mentions(hole, &described.hole));
    profile.rule("check.holes", hole.is_some() && errors == 0, server, || {
        format!(
            "`check` of code with the hole `{}` does not list it, or has errors ({errors}).",
            described.hole
        )
    });
    let obligations = look::array(checked, "obligations");
    profile.rule("check.obligations", !obligations.is_empty(), server, || {
        "`check` lists no obligation for a contract that only a run can settle.".to_owned()
    });
    let id = hole
        .and_then(|hole| hole.get("id"))
        .cloned()
        .unwrap_or_default();
    let said = server.call(
        "hole_context",
        &json!({"snapshot": snapshot, "hole_id": id}),
    );
    let content = match &said {
        Said::Result(content) => content.clone(),
        _ => Value::Null,
    };
    let missing = look::unmentioned(&content, &described.hole_mentions);
    profile.rule("hole.context", missing.is_none(), server, || {
        format!(
            "The context of the hole `{}` does not mention `{}`: {}.",
            described.hole,
            missing.unwrap_or_default(),
            said.describe()
        )
    });
}

fn symbols(profile: &mut Profile<'_>, server: &mut Server, snapshot: &str) -> Done {
    let described = profile.pack.described.clone();
    let by_name = json!({"snapshot": snapshot, "name": described.symbol});
    let said = server.call("symbol_query", &by_name);
    let content = said.content().cloned().unwrap_or_default();
    let found = look::array(&content, "symbols")
        .iter()
        .find(|symbol| look::is_about(symbol, &described.symbol))
        .cloned();
    let members = ["id", "kind", "path", "range"];
    let missing = members.iter().find(|name| {
        found
            .as_ref()
            .is_none_or(|symbol| symbol.get(**name).is_none())
    });
    profile.rule("symbol.found", missing.is_none(), server, || {
        format!(
            "`symbol_query` of `{}`: no symbol, or one without `{}`.",
            described.symbol,
            missing.unwrap_or(&"")
        )
    });
    let symbol = found.unwrap_or_default();
    let mut wanted = described.mentions.clone();
    wanted.push(described.doc.clone());
    let missing = look::unmentioned(&symbol, &wanted);
    profile.rule("symbol.full", missing.is_none(), server, || {
        format!(
            "What `symbol_query` says of `{}` does not mention `{}`.",
            described.symbol,
            missing.unwrap_or_default()
        )
    });
    let id = symbol.get("id").cloned().unwrap_or_default();
    let said = server.call("symbol_query", &json!({"snapshot": snapshot, "id": id}));
    let content = said.content().cloned().unwrap_or_default();
    let symbols = look::array(&content, "symbols");
    let same = symbols.len() == 1 && symbols[0].get("id") == Some(&id);
    profile.rule("symbol.by-id", same, server, || {
        format!(
            "`symbol_query` of the id {id} that it gave itself: {}.",
            said.describe()
        )
    });
    Ok(())
}

/// The longest text of a result.
fn longest(content: &Value) -> &str {
    let is_text = |member: &&Value| member.is_string();
    let members = content.as_object().into_iter().flat_map(|m| m.values());
    let texts = members.filter(is_text).filter_map(Value::as_str);
    texts.max_by_key(|text| text.len()).unwrap_or_default()
}

/// Documentation comes, within its budget, and says what was left out.
fn docs(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    let described = profile.pack.described.clone();
    let said = server.call("docs_query", &json!({"symbol": described.symbol}));
    let content = said.content().cloned().unwrap_or_default();
    let there = matches!(said, Said::Result(_)) && look::mentions(&content, &described.doc);
    profile.rule("docs.text", there, server, || {
        format!(
            "`docs_query` of `{}` does not give its documentation: {}.",
            described.symbol,
            said.describe()
        )
    });
    let text = text_of(&content).to_owned();
    // No token holds more than a word.
    let budget = text.split_whitespace().count() / 4 + 1;
    let limited = json!({"symbol": described.symbol, "budget_tokens": budget});
    let said = server.call("docs_query", &limited);
    let Said::Result(content) = &said else {
        profile.rule("docs.budget", false, server, || {
            format!(
                "`docs_query` with a budget of {budget} tokens gave {}.",
                said.describe()
            )
        });
        return Ok(());
    };
    let words = text_of(content).split_whitespace().count();
    let left_out = content.as_object().is_some_and(|members| {
        members.iter().any(|(name, value)| {
            !["snapshot", "text"].contains(&name.as_str()) && !look::texts(value).is_empty()
                || look::numbers(value).iter().any(|n| *n > 0)
        })
    });
    profile.rule("docs.budget", words <= budget && left_out, server, || {
        format!("With a budget of {budget} tokens `docs_query` gives {words} words, or does not say what was left out.")
    });
    Ok(())
}

/// The documentation in a result.
fn text_of(content: &Value) -> &str {
    let text = content.get("text").and_then(Value::as_str);
    text.unwrap_or_else(|| longest(content))
}
