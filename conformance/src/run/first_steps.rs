//! The first lines of a process, two things at once: a request comes before the handshake, and the
//! locale knows ASCII alone. Whatever a server makes of the first, it answers the handshake; and
//! MCP is UTF-8 whatever the locale says.
//!
//! What goes wrong is tried again in the usual locale: that tells which of the two it was.

use std::time::Instant;

use serde_json::json;

use super::detect::Opening;
use super::session::last_lines;
use super::{Judge, Run};
use crate::checks::exchange::evidence_since;
use crate::client::{Client, Reply};
use crate::spec::requirement::Breach;
use crate::spec::{Era, Revision};
use crate::verdict::Evidence;
use crate::wire::Launch;

const UTF8: &str = "transport.utf8-input";
const HELLO: &str = "lifecycle.initialize-response";

/// Variables of a locale that knows ASCII alone. Python leaves that locale for UTF-8 unless told
/// not to.
const ASCII: [(&str, Option<&str>); 4] = [
    ("LC_ALL", Some("C")),
    ("PYTHONCOERCECLOCALE", Some("0")),
    ("PYTHONIOENCODING", None),
    ("PYTHONUTF8", Some("0")),
];

/// What one process answered.
struct Steps {
    /// To `tools/list` before the handshake; the stateless era has no handshake.
    early: Option<Reply>,
    hello: Reply,
    /// To a request whose id goes beyond ASCII; after the handshake only.
    echo: Option<Reply>,
    evidence: Evidence,
    /// Its last words on standard error, in brackets.
    said: String,
}

impl Steps {
    fn take(run: &Run<'_>, launch: &Launch, revision: Revision) -> Option<Steps> {
        let limits = run.options.limits;
        let mut client = Client::start(launch, limits, revision).ok()?;
        run.started_process();
        let early = (revision.era() == Era::Handshake).then(|| client.fresh_id());
        if let Some(id) = &early {
            client.post(id.clone(), "tools/list", None);
        }
        let hello = client.hello();
        let early = early.map(|id| client.reply(&id, Instant::now()));
        let mut from = 0;
        let echo = hello.result().is_some().then(|| {
            from = client.log().len();
            client.initialized();
            let id = json!("é-✓-🦀");
            client.post(id.clone(), client.cheap_method(), None);
            let until = client.deadline();
            client.reply(&id, until)
        });
        let evidence = evidence_since(client.log(), from, 8);
        let ended = run.put_away(client);
        let said = last_lines(&ended.stderr, 1).concat();
        Some(Steps {
            early,
            hello,
            echo,
            evidence,
            said: match said.is_empty() {
                true => said,
                false => format!(" ({said})"),
            },
        })
    }

    fn echoes(&self) -> bool {
        let answered = |reply: &Reply| matches!(reply, Reply::Result { .. } | Reply::Error { .. });
        self.echo.as_ref().is_some_and(answered)
    }
}

/// Judges the first steps; one judge for each revision.
pub(super) fn judge(run: &Run<'_>, opening: &Opening) -> Vec<Judge> {
    run.step("first steps");
    let mut judges = opening.judges("first-steps");
    if run.wants(&[UTF8, HELLO]) && !judges.is_empty() {
        judge_steps(run, opening.revision(), &mut judges);
    }
    judges
}

fn judge_steps(run: &Run<'_>, revision: Revision, judges: &mut [Judge]) {
    let usual = &run.options.launch;
    let mut launch = usual.clone();
    for (name, value) in ASCII {
        // What the user says of a variable holds.
        if !usual.env.iter().any(|(own, _)| own == name) {
            launch.env.push((name.into(), value.map(Into::into)));
        }
    }
    let Some(steps) = Steps::take(run, &launch, revision) else {
        return;
    };
    if steps.echoes() {
        judges.iter_mut().for_each(|judge| judge.holds(UTF8));
        return served_early(&steps, judges);
    }
    let Some(usual) = Steps::take(run, usual, revision) else {
        return;
    };
    if usual.echoes() {
        in_that_locale(&steps, judges);
    }
    if usual.hello.result().is_none() {
        after_the_early_request(&usual, judges);
    }
    served_early(&usual, judges);
}

/// Only the locale makes the difference.
fn in_that_locale(steps: &Steps, judges: &mut [Judge]) {
    let locale = "Where the locale is not UTF-8 (LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0)";
    for judge in judges {
        if steps.hello.result().is_some() {
            let text = format!(
                "{locale} characters beyond ASCII in an id do not come back; in the usual locale \
                 they do."
            );
            judge.broken(UTF8, text, steps.evidence.clone());
        } else {
            let said = &steps.said;
            let text = format!("{locale} the greeting is not answered with a result{said}.");
            judge.note(UTF8, text);
        }
    }
}

fn after_the_early_request(steps: &Steps, judges: &mut [Judge]) {
    let early = match &steps.early {
        Some(Reply::Error { error, .. }) => format!("is refused ({error})"),
        Some(Reply::Result { .. }) => "is served".to_owned(),
        Some(Reply::Silence | Reply::Gone) => "is not answered".to_owned(),
        // Without a handshake nothing comes before it.
        None => return,
    };
    let how = match &steps.hello {
        Reply::Error { error, .. } => {
            let note =
                format!("`tools/list` before `initialize` {early}, `initialize` too: {error}");
            return judges
                .iter_mut()
                .for_each(|judge| judge.note(HELLO, note.as_str()));
        }
        Reply::Gone => "the server has ended",
        Reply::Silence | Reply::Result { .. } => "`initialize` behind it is not answered",
    };
    for judge in judges {
        let text = format!(
            "`tools/list` before `initialize` {early}, and then {how}: a client that probes first \
             has to start the server anew."
        );
        judge.broken_as(HELLO, Breach::Warn, text, steps.evidence.clone());
    }
}

/// What servers do with a request that comes too early is up to them, and told.
fn served_early(steps: &Steps, judges: &mut [Judge]) {
    if steps.early.as_ref().and_then(Reply::result).is_some() {
        for judge in judges {
            judge.note(HELLO, "`tools/list` before `initialize` is served.");
        }
    }
}
