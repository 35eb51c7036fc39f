//! `check`: diagnostics, what they carry, and the budget.

use serde_json::{Value, json};

use super::look;
use super::pack::Mistake;
use super::server::{Host, Server};
use super::{Done, Profile};

pub(super) fn diagnostics(profile: &mut Profile<'_>) -> Done {
    let pack = profile.pack.clone();
    let (_folder, mut server) = profile.on_folder()?;
    let base = server.head()?;
    let clean = server.good("check", &json!({"snapshot": base}))?;
    let errors = look::errors(&clean);
    profile.rule("check.clean", errors.is_empty(), &server, || {
        format!("Code without a mistake has the error {}.", errors[0])
    });
    let complete = clean.get("complete");
    let done = complete == Some(&Value::Bool(true));
    profile.rule("check.complete", done, &server, || {
        format!("`complete` of a check without a budget is {complete:?}, not true.")
    });

    let path = "mistaken.sakura";
    let mut codes: Vec<String> = Vec::new();
    for mistake in &pack.mistakes {
        let snapshot = server.with_file(&base, path, &mistake.text)?;
        let checked = server.good("check", &json!({"snapshot": snapshot}))?;
        codes.extend(look::codes(&checked).into_iter().map(str::to_owned));
        one_mistake(profile, &server, mistake, &checked);
        for diagnostic in look::array(&checked, "diagnostics") {
            shape(profile, &server, diagnostic, path, &mistake.text);
        }
        let again = server.good("check", &json!({"snapshot": snapshot}))?;
        let mut other = profile.start(Host::default())?;
        let nothing = other.head()?;
        let alone = other.with_file(&nothing, path, &mistake.text)?;
        let elsewhere = other.good("check", &json!({"snapshot": alone}))?;
        other.stop(profile.options);
        let of = |result: &Value| result.get("diagnostics").cloned();
        let same = of(&checked) == of(&again) && of(&checked) == of(&elsewhere);
        profile.rule("check.repeatable", same, &server, || {
            format!(
                "The same mistake ({}) has other diagnostics the second time, or in another process.",
                mistake.name
            )
        });
    }
    codes.sort();
    codes.dedup();
    explain(profile, &mut server, &codes);
    server.stop(profile.options);
    Ok(())
}

/// The mistake is found, under a code of its class, on its line.
fn one_mistake(profile: &mut Profile<'_>, server: &Server, mistake: &Mistake, checked: &Value) {
    let of_class = |d: &&&Value| {
        let code = d.get("code").and_then(Value::as_str);
        code.is_some_and(|code| code.starts_with(&mistake.code))
    };
    let errors = look::errors(checked);
    let found = errors.iter().find(of_class);
    profile.rule("check.codes", found.is_some(), server, || {
        let codes = look::codes(checked).join(", ");
        format!(
            "A mistake ({}) has no error {}xxx; the codes are: {codes}.",
            mistake.name, mistake.code
        )
    });
    let Some(found) = found else { return };
    let line = found.pointer("/range/start/line").and_then(Value::as_u64);
    let at = usize::try_from(line.unwrap_or_default()).unwrap_or_default();
    let text = mistake.text.lines().nth(at.wrapping_sub(1));
    let right = text.is_some_and(|text| text.contains(&mistake.line));
    profile.rule("check.line", right, server, || {
        format!(
            "The range of a mistake ({}) begins on line {at}; it is where `{}` stands.",
            mistake.name, mistake.line
        )
    });
}

/// A diagnostic has all members of the contract, and a range that agrees with itself.
fn shape(profile: &mut Profile<'_>, server: &Server, found: &Value, path: &str, text: &str) {
    let is = |name: &str, fits: fn(&Value) -> bool| found.get(name).is_some_and(fits);
    let code = found.get("code").and_then(Value::as_str);
    let is_code = code.is_some_and(|code| {
        let digits = code.strip_prefix('V').unwrap_or_default();
        digits.len() == 4 && digits.chars().all(|c| c.is_ascii_digit())
    });
    let missing = [
        ("code", is_code),
        ("severity", is("severity", Value::is_string)),
        ("message", is("message", Value::is_string)),
        ("path", is("path", Value::is_string)),
        ("range", is("range", Value::is_object)),
        ("related", is("related", Value::is_array)),
        ("fixes", is("fixes", Value::is_array)),
    ];
    let wrong = missing.iter().find(|(_, fits)| !fits);
    profile.rule("check.shape", wrong.is_none(), server, || {
        let name = wrong.map_or("", |(name, _)| name);
        format!("`{name}` of the diagnostic {found} is missing or of another type.")
    });
    if found.get("path").and_then(Value::as_str) != Some(path) {
        return;
    }
    let Some(range) = found.get("range") else {
        return;
    };
    let (places, offsets) = (
        look::span(text, range),
        look::offset(range, "start").zip(look::offset(range, "end")),
    );
    let agree = places
        .is_some_and(|(start, end)| start <= end && offsets == Some((start as u64, end as u64)));
    profile.rule("check.range", agree, server, || {
        format!("The range {range} is, by lines and columns, the bytes {places:?} of the text.")
    });
}

/// Each code that was seen has an explanation with examples.
fn explain(profile: &mut Profile<'_>, server: &mut Server, codes: &[String]) {
    for code in codes {
        let said = server.call("explain_diagnostic", &json!({"code": code}));
        let content = said.content().cloned().unwrap_or_default();
        // Meaning, why, a wrong and a right example, whatever they are called.
        let texts = content.as_object().map_or(0, |members| {
            let other = |(name, value): &(&String, &Value)| {
                !["snapshot", "code", "id"].contains(&name.as_str())
                    && value.as_str().is_some_and(|text| !text.trim().is_empty())
            };
            members.iter().filter(other).count()
        });
        let holds = matches!(said, super::server::Said::Result(_)) && texts >= 4;
        profile.rule("explain", holds, server, || {
            format!(
                "`explain_diagnostic` of {code}: {}; meaning, why, a wrong and a right example are required.",
                said.describe()
            )
        });
    }
}

/// So many files with a mistake take longer than the least budget.
const FILES: usize = 300;

/// A check whose budget runs out says so; one that says it is complete has found everything.
pub(super) fn budget(profile: &mut Profile<'_>) -> Done {
    let mistake = profile.pack.mistakes.iter().find(|m| m.name == "types");
    let text = mistake
        .ok_or("the pack has no mistake `types`")?
        .text
        .clone();
    let mut server = profile.start(Host::default())?;
    let base = server.head()?;
    let paths: Vec<String> = (0..FILES).map(|n| format!("many/f{n:03}.sakura")).collect();
    let edits: Vec<Value> = paths
        .iter()
        .map(|path| json!({"path": path, "text": text}))
        .collect();
    let snapshot = server.edited(&base, &json!(edits))?;
    // An answer with a mark of its own: `paths` is looked at on the way.
    let few = &paths[..2];
    let some = server.good("check", &json!({"snapshot": snapshot, "paths": few}))?;
    let path_of = |d: &Value| d.get("path").and_then(Value::as_str).map(str::to_owned);
    let other = look::array(&some, "diagnostics")
        .iter()
        .filter_map(path_of)
        .find(|path| !few.contains(path));
    profile.rule("check.paths", other.is_none(), &server, || {
        format!(
            "A check of {} tells of {}.",
            few.join(" and "),
            other.unwrap_or_default()
        )
    });

    let limited = json!({"snapshot": snapshot, "budget_ms": 1});
    let checked = server.good("check", &limited)?;
    let told: Vec<String> = look::array(&checked, "diagnostics")
        .iter()
        .filter_map(path_of)
        .collect();
    let missed = paths.iter().find(|path| !told.contains(path));
    let honest = match checked.get("complete") {
        Some(Value::Bool(true)) => missed.is_none(),
        Some(Value::Bool(false)) => true,
        _ => false,
    };
    profile.rule("check.budget", honest, &server, || {
        format!(
            "With a budget of 1 ms `complete` is {:?}, but the mistake of {} is not told.",
            checked.get("complete"),
            missed.map_or("no file", String::as_str)
        )
    });
    server.stop(profile.options);
    Ok(())
}
