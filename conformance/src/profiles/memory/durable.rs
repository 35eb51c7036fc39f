//! What was answered is there after `kill -9`, and no turn is there by half.

use std::time::Instant;

use serde_json::json;

use super::server::{Said, said};
use super::{Done, Edn, Profile, items, temporary};
use crate::client::Reply;

/// How often a server is killed straight after an answer.
const KILLS: usize = 4;
/// How many turns are on their way when it is killed, and after how many answers.
const ON_THE_WAY: usize = 24;
const ANSWERED: usize = 8;

/// Killed straight after the answer, again and again; then in the middle of many turns.
pub(super) fn killed(profile: &mut Profile<'_>) -> Done {
    const RULE: &str = "durable.kill";
    let folder = temporary()?;
    let mut server = profile.open(folder.path(), "kill", "kill")?;
    profile.register(&mut server)?;
    let mut wanted = Vec::new();
    for index in 0..KILLS {
        profile.record(
            &mut server,
            &format!("[{{:person/name \"Survivor {index}\"}}]"),
        )?;
        profile.kill(server);
        wanted.push(format!("\"Survivor {index}\""));
        server = profile.open(folder.path(), "kill", "kill")?;
        let query = "[:find [?name ...] :where [_ :person/name ?name]]";
        profile.finds(RULE, &mut server, query, &format!("[{}]", wanted.join(" ")));
    }
    profile.stop(server);
    Ok(())
}

/// Each turn on its way has two facts, one on each side.
pub(super) fn on_the_way(profile: &mut Profile<'_>) -> Done {
    let folder = temporary()?;
    let mut server = profile.open(folder.path(), "on-the-way", "on-the-way")?;
    profile.register(&mut server)?;
    let mut posted = Vec::new();
    for index in 0..ON_THE_WAY {
        let tx = format!("[{{:person/name \"One {index}\"}} {{:person/name \"Two {index}\"}}]");
        posted.push(server.process.post("record", &json!({"tx": tx})));
    }
    let until = Instant::now() + server.process.client.limits().request;
    let (mut acknowledged, mut lines) = (Vec::new(), Vec::new());
    for (index, id) in posted.iter().enumerate().take(ANSWERED) {
        let reply = server.process.client.reply(id, until);
        if let Reply::Result { at, .. } = reply {
            lines.push(at);
        }
        if matches!(said("record", reply), Said::Answer(_)) {
            acknowledged.push(index);
        }
    }
    profile.kill(server);
    let mut server = profile.open(folder.path(), "on-the-way", "on-the-way")?;
    let query = "[:find [?name ...] :where [_ :person/name ?name]]";
    let limit = json!({"limit": 100});
    if let Some(found) = profile.recall("durable.kill", &mut server, query, &limit) {
        let has =
            |side: &str, index: usize| items(&found).contains(&Edn::Str(format!("{side} {index}")));
        let lost = acknowledged
            .iter()
            .find(|index| !has("One", **index) && !has("Two", **index));
        profile.rule("durable.kill", lost.is_none(), &server, || {
            format!("The turn of \"One {0}\" and \"Two {0}\" was answered before the kill, and is not there after it: {found}", lost.unwrap_or(&0))
        });
        let half = (0..ON_THE_WAY).find(|index| has("One", *index) != has("Two", *index));
        // Calls may be worked on side by side: only who answers in order is expected to keep it.
        let hole = (0..ON_THE_WAY).find(|index| !has("One", *index));
        let later = (0..ON_THE_WAY).rev().find(|index| has("One", *index));
        if let (true, None, Some(hole), Some(later)) = (lines.is_sorted(), lost, hole, later)
            && hole < later
        {
            let note = format!(
                "The turn of \"One {hole}\" is not there after the kill; that of \"One {later}\", which was sent later, is."
            );
            profile.judge.note("memory.durable.kill", note);
        }
        profile.rule("durable.no-half-turn", half.is_none(), &server, || {
            format!("One turn recorded \"One {0}\" and \"Two {0}\"; after the kill one is there without the other: {found}", half.unwrap_or(0))
        });
    }
    profile.stop(server);
    Ok(())
}
