//! `recall`: queries, limits, and search by words.

use serde_json::{Value, json};

use super::edn::Edn;
use super::pack::PACK;
use super::server::{Said, Server};
use super::{Done, Profile, items, result_of, with};
use crate::checks::exchange::shorten;

const NAMES: &str = "[:find [?name ...] :where [_ :person/name ?name]]";

pub(super) fn queries(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    profile.populate(server)?;
    for case in &PACK.query {
        let id = format!("recall.{}", case.rule);
        let Some(args) = &case.args else {
            profile.finds(&id, server, &case.query, &case.finds);
            continue;
        };
        let args = json!({"args": args});
        let query = inputs_as_taken(server, &case.query, &args);
        profile.finds_with(&id, server, &query, &args, &case.finds);
    }
    Ok(())
}

/// The contract leaves open whether `:in` names the memory itself, `$`, which has no value in
/// `args`.
fn inputs_as_taken(server: &mut Server, query: &str, args: &Value) -> String {
    let arguments = with(&json!({"query": query}), args);
    match server.call("recall", &arguments) {
        Said::ToolError(_) => query.replace(":in $ ", ":in "),
        _ => query.to_owned(),
    }
}

pub(super) fn bounds(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    profile.populate(server)?;
    let mut limited = |profile: &mut Profile<'_>, limit: usize| {
        let arguments = json!({"query": NAMES, "limit": limit});
        profile.answer("recall.limit", server, "recall", &arguments)
    };
    let cut = limited(profile, 2);
    let whole = limited(profile, 3);
    if let (Some(cut), Some(whole)) = (cut, whole) {
        let (few, all) = (items(result_of(&cut.form)), items(result_of(&whole.form)));
        let part = few
            .iter()
            .all(|row| all.iter().any(|other| other.same(row)));
        profile.rule(
            "recall.limit",
            few.len() == 2 && all.len() == 3 && part,
            server,
            || {
                format!(
                    "Of three rows `limit` 2 gave {}, and `limit` 3 {}.",
                    cut.form, whole.form
                )
            },
        );
        profile.rule("recall.cut", cut.beside != whole.beside, server, || {
            format!(
                "A result that was cut says no more than one that was not: beside the rows stands {} each time.",
                cut.beside
            )
        });
    }
    words(profile, server);
    odd_texts(profile, server);
    Ok(())
}

/// Search by words. The contract leaves open what a hit looks like, but not what it says.
fn words(profile: &mut Profile<'_>, server: &mut Server) {
    const RULE: &str = "recall.text";
    let mut found = |profile: &mut Profile<'_>, text: &str| {
        let arguments: Value = json!({"text": text});
        let form = profile.answer(RULE, server, "recall", &arguments)?.form;
        Some(result_of(&form).clone())
    };
    let tea = found(profile, "tea");
    let coffee = found(profile, "coffee");
    // `:person/motto` holds the word, but is not searched.
    let simple = found(profile, "simple");
    if let (Some(tea), Some(coffee), Some(simple)) = (tea, coffee, simple) {
        let hit = tea.to_string().contains("prefers green tea");
        let quiet = |form: &Edn| !form.to_string().contains("things") && items(form).is_empty();
        profile.rule(RULE, hit && quiet(&coffee) && quiet(&simple), server, || {
            format!(
                "\"tea\" gave {tea}, \"coffee\", which stands nowhere, gave {coffee}, \"simple\", which stands where no words are searched, gave {simple}."
            )
        });
    }
}

/// Texts that mean something in the query language of a search engine, or nothing at all. What
/// they find is left open, but a text is not code: whatever an agent writes is answered.
fn odd_texts(profile: &mut Profile<'_>, server: &mut Server) {
    let long = "tea ".repeat(2_500);
    for text in ["a\"b", "x:y", "(z", "AND", "*", "''", "", &long] {
        let said = server.call("recall", &json!({"text": text}));
        let answered = matches!(said, Said::Answer(_) | Said::ToolError(_));
        profile.rule("recall.text", answered, server, || {
            format!(
                "`recall` with the text {:?} gave {}; a result or an error of the tool is due.",
                shorten(text, 60),
                said.describe()
            )
        });
        // After a text that ends the server, the others would only say so again.
        if !answered {
            return;
        }
    }
}
