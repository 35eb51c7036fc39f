//! The checks that are transcripts: `fixtures/transcripts`, one folder an area.

use std::sync::LazyLock;

use include_dir::{Dir, DirEntry, include_dir};

use super::exchange::evidence_since;
use super::{Check, Context, Run, Session};
use crate::transcript::{self, Failure, Outcome, Player, Transcript};
use crate::wire::Launch;

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../fixtures/transcripts");

static CHECKS: LazyLock<Vec<Check>> = LazyLock::new(|| {
    // The embedded transcripts are read without a fault: the test below proves it.
    let mut checks: Vec<Check> = texts()
        .into_iter()
        .filter_map(|(name, text)| transcript::parse(&name, text).ok())
        .map(check)
        .collect();
    checks.sort_by_key(|check| check.name);
    checks
});

/// Every transcript as a check, by name.
pub(super) fn checks() -> &'static [Check] {
    &CHECKS
}

/// The names, without their ending, and the texts.
fn texts() -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    let mut folders = vec![&EMBEDDED];
    while let Some(folder) = folders.pop() {
        for entry in folder.entries() {
            match entry {
                DirEntry::Dir(inner) => folders.push(inner),
                DirEntry::File(file) => {
                    let name = file.path().with_extension("").display().to_string();
                    found.push((name, file.contents_utf8().unwrap_or_default()));
                }
            }
        }
    }
    found
}

/// Made once and kept for the whole run, so what it leaks is bounded by the embedded files.
fn check(transcript: Transcript) -> Check {
    let transcript: &'static Transcript = Box::leak(Box::new(transcript));
    let ids: Vec<&'static str> = transcript.checks.iter().map(String::as_str).collect();
    Check {
        name: &transcript.name,
        requirements: Box::leak(ids.into_boxed_slice()),
        span: transcript.span,
        session: if transcript.fresh() {
            Session::Own
        } else {
            Session::Shared
        },
        run: Run::Script(transcript),
    }
}

const UTF8: &str = "transport.utf8-input";

/// Plays a transcript against the server of the check.
pub(super) fn play(transcript: &Transcript, launch: &Launch, ctx: &mut Context<'_>) {
    let mut player = Player::new(launch, ctx.client.limits(), ctx.judge.revision());
    player.capabilities.clone_from(&ctx.facts.capabilities);
    player.tools = ctx
        .facts
        .items("tools/list")
        .iter()
        .filter_map(|tool| tool.get("name")?.as_str().map(str::to_owned))
        .collect();
    player.shared = Some(ctx.client);
    let outcome = transcript::play(transcript, &mut player);
    let ended = player.ended.pop();
    match outcome {
        Outcome::Passed => transcript.checks.iter().for_each(|id| ctx.judge.holds(id)),
        Outcome::NotApplicable(why) => {
            let why = sentence(&why);
            transcript
                .checks
                .iter()
                .for_each(|id| ctx.judge.not_applicable(id, &why));
        }
        Outcome::Error(why) => transcript
            .checks
            .iter()
            .for_each(|id| ctx.judge.error(id, &why)),
        Outcome::Failed {
            line,
            message,
            kind,
            log,
        } => {
            if transcript.survive && kind == Failure::Gone {
                // It is played again, alone; the run tells then what the server does afterwards.
                ctx.doubtful = true;
                return;
            }
            let entries = ended.as_ref().map_or(ctx.client.log(), |ended| &ended.log);
            let shown = entries.get(..log.end).unwrap_or(entries);
            let evidence = evidence_since(shown, log.start, 12);
            // An id of many characters that comes back as another is what this rule is about.
            let own = kind == Failure::Stray && transcript.checks.iter().any(|id| id == UTF8);
            if let Some(by) = general(kind).filter(|_| !own) {
                ctx.doubtful |= matches!(kind, Failure::Silence | Failure::Gone);
                if kind == Failure::Silence {
                    ctx.judge.broken(by, sentence(&message), evidence);
                }
                transcript
                    .checks
                    .iter()
                    .for_each(|id| ctx.judge.blocked(id, by));
                return;
            }
            let blamed = transcript.blamed(line);
            for id in &transcript.checks {
                if !blamed.contains(id) {
                    ctx.judge.blocked(id, blamed.first().unwrap_or(id));
                }
            }
            for id in blamed {
                let message = sentence(&message);
                match transcript.breach {
                    Some(breach) => ctx.judge.broken_as(id, breach, message, evidence.clone()),
                    None => ctx.judge.broken(id, message, evidence.clone()),
                }
                ctx.judge
                    .attach_transcript(id, pinned(transcript, ctx.judge.revision()));
                transcript
                    .notes
                    .iter()
                    .for_each(|note| ctx.judge.note(id, note.as_str()));
            }
        }
    }
}

/// The rule that is broken when the failure has nothing to do with what the transcript is about.
/// All but silence the observers tell of.
fn general(kind: Failure) -> Option<&'static str> {
    Some(match kind {
        Failure::Answer => return None,
        Failure::Silence => "jsonrpc.response.exactly-one",
        Failure::Gone => "stdio.survives-valid-traffic",
        Failure::Stray => "jsonrpc.response.id-echo",
        Failure::NoObject => "jsonrpc.response.result-object",
        Failure::NoMessage => "stdio.stdout-only-messages",
    })
}

/// The transcript's text, bound to one revision.
fn pinned(transcript: &Transcript, revision: crate::spec::Revision) -> String {
    let lines = transcript
        .source
        .lines()
        .filter(|line| !line.starts_with("@revision"));
    let mut text = String::new();
    let mut bound = false;
    for line in lines {
        text.push_str(line);
        text.push('\n');
        if line.starts_with("@check") && !bound {
            text.push_str(&format!("@revision {revision}\n"));
            bound = true;
        }
    }
    text
}

fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|c| c.to_uppercase().to_string());
    let rest = characters.as_str();
    let stop = if text.ends_with(['.', '!', '?']) {
        ""
    } else {
        "."
    };
    format!("{}{rest}{stop}", first.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use crate::spec::requirement;

    #[test]
    fn every_embedded_transcript_is_read_and_checks_a_requirement_of_its_revisions() {
        let texts = super::texts();
        assert!(!texts.is_empty());
        for (name, text) in texts {
            let transcript = crate::transcript::parse(&name, text).expect("an embedded transcript");
            assert!(!transcript.about.is_empty(), "{name} says what it shows");
            assert!(!transcript.checks.is_empty(), "{name} checks something");
            for id in &transcript.checks {
                let rule = requirement::get(id).unwrap_or_else(|| panic!("{name}: no rule {id}"));
                assert!(
                    transcript.span.contains(rule.span.first)
                        || rule.span.contains(transcript.span.first),
                    "{name}: {id} is not of its revisions"
                );
            }
        }
    }
}
