//! Rewrites a transcript with what the server really says.

use serde_json::Value;

use super::pattern::Pattern;
use super::play::{Learnt, Outcome, Player, learn};
use super::template::{Piece, Template, Vars};
use super::{Action, Transcript, cut};

/// Plays the transcript and gives its text with what the server really said in the `<--` lines.
/// Lines that fit stay as they are; in the others only what does not fit is replaced. The error
/// tells why it could not be played.
pub fn update(transcript: &Transcript, player: &mut Player<'_>) -> Result<String, Outcome> {
    let learnt = learn(transcript, player)?;
    let mut lines: Vec<String> = transcript.source.lines().map(str::to_owned).collect();
    for (index, step) in transcript.steps.iter().enumerate().rev() {
        let (first, last) = step.lines;
        let news = news(&learnt, index);
        if let Action::Expect(patterns) = &step.action {
            if let Some(said) = learnt.said.get(&index) {
                let pattern = match patterns.first() {
                    Some(pattern) => pattern.update(said, &learnt.vars),
                    None => snapshot(said, &learnt.vars),
                };
                lines.splice(first - 1..last, [format!("<-- {pattern}")]);
                lines.splice(first..first, news);
                continue;
            }
            if learnt.missing.contains(&index) {
                lines.splice(first - 1..last, news);
                continue;
            }
        }
        lines.splice(last..last, news);
    }
    let mut text = lines.join("\n");
    text.push('\n');
    Ok(text)
}

/// Lines for what came after this step and nothing expected.
fn news(learnt: &Learnt, step: usize) -> Vec<String> {
    let extra = learnt.extra.iter().filter(|(after, _)| *after == step);
    extra
        .map(|(_, said)| match said {
            Ok(value) => format!("<-- {}", snapshot(value, &learnt.vars)),
            Err(fault) => format!("# {}", cut(fault, 200)),
        })
        .collect()
}

/// The whole message; an id that is a variable's value is written as the variable.
fn snapshot(said: &Value, vars: &Vars) -> Pattern {
    let mut pattern = Pattern::exactly(said);
    if let (Pattern::Object { members, .. }, Some(id)) = (&mut pattern, said.get("id")) {
        let mut names: Vec<&String> = vars
            .iter()
            .filter(|(_, v)| *v == id)
            .map(|(n, _)| n)
            .collect();
        names.sort();
        if let Some(name) = names.first() {
            let variable = Pattern::Text(Template(vec![Piece::Var(name.to_string())]));
            for (member, pattern) in members {
                if member == "id" {
                    *pattern = variable.clone();
                }
            }
        }
    }
    pattern
}
