//! What was believed when: `as-of`, `history`, and the order of turns.

use serde_json::json;

use super::edn::Edn;
use super::server::Server;
use super::{Done, Profile, items, number, numbers};

const AGE: &str = "[:find ?age . :where [?e :person/name \"Ada\"] [?e :person/age ?age]]";
const ADA: &str = "[:person/name \"Ada\"]";

pub(super) fn past(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    let start = profile.register(server)?;
    let facts = json!({"tx": super::PACK.facts});
    let facts = profile.must(server, "record", &facts)?;
    let first = number(&facts, "t")?;
    let edsger = facts.get("tempids").and_then(|ids| {
        let (_, id) = ids
            .members()?
            .iter()
            .find(|(name, _)| name.str() == Some("edsger"))?;
        id.int()
    });
    let changed = profile.record(server, "[{:person/name \"Ada\" :person/age 37}]")?;
    let retracted = profile.record(
        server,
        "[[:db/retract [:person/name \"Ada\"] :person/age 37]]",
    )?;
    let removed = profile.record(server, "[[:db/retractEntity [:person/name \"Edsger\"]]]")?;

    let states = [
        (start, "nil"),
        (first, "36"),
        (changed, "37"),
        (retracted, "nil"),
    ];
    for (t, wanted) in states {
        profile.finds_with("as-of.recall", server, AGE, &json!({"as-of": t}), wanted);
    }
    let query = "[:find ?age . :where [?e :person/name \"Edsger\"] [?e :person/age ?age]]";
    profile.finds_with(
        "as-of.recall",
        server,
        query,
        &json!({"as-of": retracted}),
        "28",
    );
    for (t, wanted) in &states[1..] {
        let arguments = json!({"entity": ADA, "pattern": "[:person/name :person/age]", "as-of": t});
        let Some(answer) = profile.answer("as-of.read", server, "read", &arguments) else {
            continue;
        };
        let age = answer
            .form
            .get("person/age")
            .unwrap_or(&Edn::Nil)
            .to_string();
        profile.rule("as-of.read", age == *wanted, server, || {
            format!("`read` with `as-of` {t} gave the age {age}, not {wanted}.")
        });
    }
    changes(profile, server, [first, changed, retracted]);
    of_removed(profile, server, edsger, removed);
    Ok(())
}

/// The history of one attribute that was asserted, changed and retracted.
fn changes(profile: &mut Profile<'_>, server: &mut Server, [first, changed, retracted]: [i64; 3]) {
    let arguments = json!({"entity": ADA, "attribute": ":person/age"});
    let Some(answer) = profile.answer("history.changes", server, "history", &arguments) else {
        return;
    };
    let form = answer.form;
    let only = items(&form)
        .iter()
        .all(|entry| entry.get("a").and_then(Edn::keyword) == Some("person/age"));
    profile.rule("history.attribute", only, server, || {
        format!("`history` of `:person/age` gave {form}.")
    });
    let times = numbers(&form, "t");
    profile.rule("history.order", times.is_sorted(), server, || {
        format!("The entries are not oldest first: their `:t` are {times:?}.")
    });
    let entry = |entry: &Edn| {
        let value = entry.get("v").and_then(Edn::int);
        (
            value,
            entry.get("added") == Some(&Edn::Bool(true)),
            number(entry, "t").ok(),
        )
    };
    let of_age = items(&form)
        .iter()
        .filter(|e| e.get("a").and_then(Edn::keyword) == Some("person/age"));
    let mut seen: Vec<_> = of_age.map(entry).collect();
    seen.sort_unstable();
    let mut wanted = vec![
        (Some(36), true, Some(first)),
        (Some(36), false, Some(changed)),
        (Some(37), true, Some(changed)),
        (Some(37), false, Some(retracted)),
    ];
    wanted.sort_unstable();
    profile.rule("history.changes", seen == wanted, server, || {
        format!("36 was asserted, replaced by 37, and that retracted, at {first}, {changed} and {retracted}; `history` gave {form}.")
    });
}

/// What was removed stays in the history.
fn of_removed(profile: &mut Profile<'_>, server: &mut Server, entity: Option<i64>, removed: i64) {
    const RULE: &str = "history.removed";
    let Some(entity) = entity else { return };
    let arguments = json!({"entity": entity.to_string()});
    let Some(answer) = profile.answer(RULE, server, "history", &arguments) else {
        return;
    };
    let form = answer.form;
    let name = |added: bool| {
        items(&form).iter().any(|entry| {
            entry.get("a").and_then(Edn::keyword) == Some("person/name")
                && entry.get("added") == Some(&Edn::Bool(added))
                && (added || number(entry, "t").ok() == Some(removed))
        })
    };
    profile.rule(RULE, name(true) && name(false), server, || {
        format!("The history of an entity that was retracted at {removed} lacks its facts or their retraction: {form}")
    });
}

pub(super) fn turns(profile: &mut Profile<'_>, server: &mut Server) -> Done {
    profile.register(server)?;
    let mut recorded = Vec::new();
    let mut entities = Vec::new();
    for index in 0..6 {
        let tx = json!({"tx": format!("[{{:person/name \"Turn {index}\"}}]")});
        let form = profile.must(server, "record", &tx)?;
        recorded.push(number(&form, "t")?);
        entities.push(number(&form, "turn")?);
    }
    recorded.reverse();
    entities.reverse();
    let Some(whole) = profile.answer("turns.complete", server, "turns", &json!({"limit": 50}))
    else {
        return Ok(());
    };
    let times = numbers(&whole.form, "t");
    profile.rule(
        "turns.order",
        times.is_sorted_by(|a, b| a > b),
        server,
        || format!("The turns are not newest first: their `:t` are {times:?}."),
    );
    let known = numbers(&whole.form, "turn");
    let all =
        recorded.iter().all(|t| times.contains(t)) && entities.iter().all(|e| known.contains(e));
    profile.rule("turns.complete", all, server, || {
        format!("Of the turns at {recorded:?} `turns` shows {}.", whole.form)
    });
    paging(profile, server, &recorded, &whole.beside);
    Ok(())
}

/// `limit`, `before`, and what is said of the rest.
fn paging(
    profile: &mut Profile<'_>,
    server: &mut Server,
    recorded: &[i64],
    beside: &serde_json::Value,
) {
    if let Some(page) = profile.answer("turns.limit", server, "turns", &json!({"limit": 2})) {
        let mut times = numbers(&page.form, "t");
        times.sort_unstable_by(|a, b| b.cmp(a));
        profile.rule("turns.limit", times == recorded[..2], server, || {
            format!("`limit` 2 of the turns at {recorded:?} gave those at {times:?}.")
        });
        profile.rule("turns.cut", page.beside != *beside, server, || {
            "A page of two turns does not say that there are more.".to_owned()
        });
    }
    let arguments = json!({"before": recorded[1], "limit": 2});
    if let Some(page) = profile.answer("turns.before", server, "turns", &arguments) {
        let mut times = numbers(&page.form, "t");
        times.sort_unstable_by(|a, b| b.cmp(a));
        profile.rule("turns.before", times == recorded[2..4], server, || {
            format!(
                "`before` {} with `limit` 2 gave the turns at {times:?}, not {:?}.",
                recorded[1],
                &recorded[2..4]
            )
        });
    }
}
