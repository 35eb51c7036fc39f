//! Sessions: resumed by their id, kept apart, fresh without a configuration; and two processes on
//! one file.

use serde_json::json;

use super::edn::Edn;
use super::server::{self, Said, Server, said};
use super::{Done, Profile, has_vocabulary, number, numbers, session_id, temporary};
use crate::profiles::process::Process;

/// How many turns each of two processes posts without waiting.
const AT_ONCE: usize = 12;

const NAMES: &str = "[:find [?name ...] :where [_ :person/name ?name]]";

/// A session over a restart, and another one beside it.
pub(super) fn resumed(profile: &mut Profile<'_>) -> Done {
    let folder = temporary()?;
    let mut server = profile.open(folder.path(), "sessions", "monday")?;
    let mut recorded = vec![profile.register(&mut server)?];
    recorded.push(profile.record(&mut server, "[{:person/name \"Ada\" :person/age 36}]")?);
    let before = profile.must(&mut server, "context", &json!({}))?;
    profile.stop(server);

    let mut server = profile.open(folder.path(), "sessions", "monday")?;
    resumes(profile, &mut server, &before, &mut recorded)?;
    profile.stop(server);

    let mut server = profile.open(folder.path(), "sessions", "tuesday")?;
    apart(profile, &mut server, &recorded)?;
    profile.stop(server);
    Ok(())
}

/// After a restart with the same id the session goes on.
fn resumes(
    profile: &mut Profile<'_>,
    server: &mut Server,
    before: &Edn,
    recorded: &mut Vec<i64>,
) -> Done {
    const RULE: &str = "session.resume";
    let query = "[:find ?name ?age :where [?e :person/name ?name] [?e :person/age ?age]]";
    profile.finds("durable.restart", server, query, "[[\"Ada\" 36]]");
    let Some(answer) = profile.answer(RULE, server, "context", &json!({})) else {
        return Ok(());
    };
    let after = answer.form;
    let same = session_id(&after) == session_id(before)
        && number(&after, "turns").ok() == number(before, "turns").ok();
    profile.rule(RULE, same, server, || {
        format!("Before the restart `context` gave {before}, after it {after}.")
    });
    let query = "[:find [?s ...] :where [?s :memory.session/id \"monday\"]]";
    if let Some(found) = profile.recall(RULE, server, query, &json!({})) {
        profile.rule(RULE, super::items(&found).len() == 1, server, || {
            format!("The entities with the session's id are {found}: one is due.")
        });
    }
    recorded.push(profile.record(server, "[{:person/name \"Grace\" :person/age 45}]")?);
    let Some(answer) = profile.answer(RULE, server, "turns", &json!({"limit": 50})) else {
        return Ok(());
    };
    let times = numbers(&answer.form, "t");
    let all = recorded.iter().all(|t| times.contains(t));
    profile.rule(RULE, all, server, || {
        format!("The session recorded turns at {recorded:?}, before and after a restart; `turns` shows {times:?}.")
    });
    Ok(())
}

/// Another session on the same memory.
fn apart(profile: &mut Profile<'_>, server: &mut Server, recorded: &[i64]) -> Done {
    let own = profile.record(server, "[{:person/name \"Ada\" :person/age 37}]")?;
    if let Some(answer) = profile.answer("session.own", server, "turns", &json!({"limit": 50})) {
        let times = numbers(&answer.form, "t");
        let apart = times.contains(&own) && !recorded.iter().any(|t| times.contains(t));
        profile.rule("session.own", apart, server, || {
            format!(
                "This session recorded at {own}, another at {recorded:?}; `turns` shows {times:?}."
            )
        });
    }
    let arguments = json!({"session": "monday", "limit": 50});
    if let Some(answer) = profile.answer("turns.session", server, "turns", &arguments) {
        let times = numbers(&answer.form, "t");
        let other = recorded.iter().all(|t| times.contains(t)) && !times.contains(&own);
        profile.rule("turns.session", other, server, || {
            format!("Session \"monday\" recorded at {recorded:?}, this one at {own}; `turns` of \"monday\" shows {times:?}.")
        });
    }
    let arguments = json!({"entity": "[:person/name \"Ada\"]", "attribute": ":person/age"});
    if let Some(answer) = profile.answer("history.session", server, "history", &arguments) {
        let from = |t: i64, session: &str| {
            super::items(&answer.form).iter().any(|entry| {
                number(entry, "t").ok() == Some(t)
                    && entry.get("session").and_then(Edn::str) == Some(session)
            })
        };
        let holds = from(recorded[1], "monday") && from(own, "tuesday");
        profile.rule("history.session", holds, server, || {
            format!(
                "\"monday\" recorded at {}, \"tuesday\" at {own}; `history` gave {}.",
                recorded[1], answer.form
            )
        });
    }
    Ok(())
}

/// Without a configuration every process has a fresh session, and an empty memory. Nothing is
/// recorded: who knows where a server that breaks this would put it.
pub(super) fn fresh(profile: &mut Profile<'_>) -> Done {
    let launch = server::bare(profile.options);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let how = "no memory configuration";
        let process = Process::start(
            profile.options,
            &launch,
            profile.revision,
            how,
            profile.processes,
        )?;
        let mut server = Server {
            process,
            memory: std::path::PathBuf::new(),
        };
        if let Some(answer) = profile.answer("session.fresh", &mut server, "context", &json!({})) {
            let form = answer.form;
            let id = session_id(&form).map(str::to_owned);
            let fresh = id
                .as_ref()
                .is_some_and(|id| !id.is_empty() && !ids.contains(id))
                && !has_vocabulary(&form);
            profile.rule("session.fresh", fresh, &server, || {
                format!("Started without a configuration, after sessions {ids:?}, `context` gave {form}.")
            });
            ids.extend(id);
        }
        profile.stop(server);
    }
    Ok(())
}

/// Two processes on one file.
pub(super) fn shared(profile: &mut Profile<'_>) -> Done {
    let folder = temporary()?;
    let mut left = profile.open(folder.path(), "shared", "left")?;
    let mut right = profile.open(folder.path(), "shared", "right")?;
    profile.register(&mut left)?;
    let done = exchange(profile, &mut left, &mut right);
    profile.stop(left);
    profile.stop(right);
    done
}

fn exchange(profile: &mut Profile<'_>, left: &mut Server, right: &mut Server) -> Done {
    const SEES: &str = "shared.sees";
    let tx = |name: String| json!({"tx": format!("[{{:person/name \"{name}\"}}]")});
    // Registered by one, used by the other.
    if profile
        .answer(SEES, right, "record", &tx("from the right".into()))
        .is_some()
    {
        profile.finds(SEES, left, NAMES, "[\"from the right\"]");
    }
    if profile
        .answer(SEES, left, "record", &tx("from the left".into()))
        .is_some()
    {
        profile.finds(SEES, right, NAMES, "[\"from the right\" \"from the left\"]");
    }
    if profile.judge.is_broken("memory.shared.sees") {
        profile
            .judge
            .blocked("memory.shared.loses-none", "memory.shared.sees");
        return Ok(());
    }
    let mut posted = Vec::new();
    for index in 0..AT_ONCE {
        posted.push((
            true,
            index,
            left.process.post("record", &tx(format!("left {index}"))),
        ));
        posted.push((
            false,
            index,
            right.process.post("record", &tx(format!("right {index}"))),
        ));
    }
    let mut acknowledged = Vec::new();
    for (is_left, index, id) in posted {
        let (server, side) = if is_left {
            (&mut *left, "left")
        } else {
            (&mut *right, "right")
        };
        let until = std::time::Instant::now() + server.process.client.limits().request;
        let reply = server.process.client.reply(&id, until);
        if let Said::Answer(answer) = said("record", reply) {
            acknowledged.push((format!("{side} {index}"), number(&answer.form, "t").ok()));
        }
    }
    let mut times: Vec<_> = acknowledged.iter().map(|(_, t)| t).collect();
    times.sort_unstable();
    times.dedup();
    let distinct = times.len() == acknowledged.len();
    profile.rule("shared.loses-none", distinct, left, || {
        format!("Two turns of two processes have the same `:t`: {acknowledged:?}")
    });
    for server in [left, right] {
        let Some(found) =
            profile.recall("shared.loses-none", server, NAMES, &json!({"limit": 100}))
        else {
            continue;
        };
        let lost: Vec<&String> = acknowledged
            .iter()
            .map(|(name, _)| name)
            .filter(|name| !super::items(&found).contains(&Edn::Str((*name).clone())))
            .collect();
        profile.rule("shared.loses-none", lost.is_empty(), server, || {
            format!(
                "Two processes recorded at once; acknowledged, but not found afterwards: {lost:?}"
            )
        });
    }
    Ok(())
}
