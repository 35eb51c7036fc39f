//! Runs the user's own transcripts against a server.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::detect::{self, Claim};
use super::{CallPolicy, Judge, ProfileChoice, Progress, Run, level_name, session};
use crate::checks;
use crate::checks::exchange::{self, Kind, SentKind};
use crate::spec::Revision;
use crate::spec::requirement::{self, Breach};
use crate::transcript::{self, Outcome, Player, Transcript};
use crate::verdict::{Evidence, Judgement, Report, Verdict};
use crate::wire::{Ended, EndedBy, Launch, Limits};

/// Lines of an exchange that are kept as evidence.
const LINES: usize = 40;

/// Pages of `tools/list` that are read to learn which tools there are.
const PAGES: usize = 100;

/// What to replay on which server.
#[derive(Debug, Clone)]
pub struct Options {
    /// How to start the server.
    pub launch: Launch,
    /// The command, for the report.
    pub command: Vec<String>,
    /// How long things may take.
    pub limits: Limits,
    /// The transcripts.
    pub files: Vec<PathBuf>,
    /// The revision to speak; `None` means the newest that both the transcript and the server
    /// know.
    pub revision: Option<Revision>,
    /// Whether to write what the server said into the files.
    pub update: bool,
    /// What the user tells about the server, for rules that are put to the test again.
    pub hints: super::Hints,
}

/// What is known of the server in one revision.
#[derive(Debug, Default)]
struct Known {
    capabilities: Map<String, Value>,
    tools: Vec<String>,
}

/// Judges the server by each transcript: `check` is the file's path as it was given,
/// `requirement` what its `@check` names, or the file's name. The error is a transcript that
/// cannot be read or updated, told with file, line and column.
pub fn replay(options: &Options, progress: &dyn Progress) -> Result<Report, String> {
    let began = Instant::now();
    // All are read before any is played, so that a slip of the pen is told at once.
    let files: Result<Vec<_>, String> = options.files.iter().map(|path| read(path)).collect();
    let files = files?;
    let check = check_options(options);
    let run = Run::new(&check, progress);
    run.plan(files.len());
    let mut report = Report::empty(&options.command);
    match detect::detect(&run) {
        Err(fatal) => report.fatal = Some(*fatal),
        Ok(found) => {
            report.target.server_info = found.server_info();
            report.target.unknown_revisions.clone_from(&found.unknown);
            report.target.remarks.clone_from(&found.remarks);
            let claimed = found
                .claimed
                .into_iter()
                .map(|claim| (claim.revision, know(claim)));
            let claimed: HashMap<Revision, Known> = claimed.collect();
            let mut revisions: Vec<Revision> = claimed.keys().copied().collect();
            revisions.sort_unstable();
            report.target.revisions = revisions.iter().map(Revision::to_string).collect();
            for file in &files {
                if progress.interrupted() {
                    break;
                }
                run.step(&file.name);
                let played = one(&run, options, file, &claimed, &mut report)?;
                if !progress.interrupted() {
                    report.judgements.extend(played);
                }
            }
        }
    }
    report.seconds = began.elapsed().as_secs_f64();
    report.processes += run.processes.load(Ordering::Relaxed);
    Ok(report)
}

fn read(path: &Path) -> Result<Transcript, String> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|e| format!("cannot read `{name}`: {e}"))?;
    transcript::parse(&name, &text).map_err(|e| e.to_string())
}

/// The options of a run that finds out what the server claims, and judges rules again.
fn check_options(options: &Options) -> super::Options {
    super::Options {
        launch: options.launch.clone(),
        command: options.command.clone(),
        limits: options.limits,
        total: None,
        revisions: options.revision.map(|revision| vec![revision]),
        profiles: ProfileChoice::None,
        only: Vec::new(),
        skip: Vec::new(),
        call: CallPolicy::ReadOnly,
        jobs: 1,
        cases: checks::generated::CASES,
        seed: None,
        pack: None,
        hints: options.hints.clone(),
    }
}

/// What the greeting told, and the names of the tools.
fn know(claim: Claim) -> Known {
    let capabilities = claim.facts().capabilities;
    let mut client = claim.client;
    let mut tools = Vec::new();
    if capabilities.contains_key("tools") {
        client.initialized();
        let mut params = json!({});
        for _ in 0..PAGES {
            let reply = client.request("tools/list", Some(params));
            let Some(page) = reply.result() else { break };
            let listed = page.get("tools").and_then(Value::as_array);
            let names = listed
                .into_iter()
                .flatten()
                .filter_map(|tool| tool.get("name")?.as_str());
            tools.extend(names.map(str::to_owned));
            let Some(cursor) = page.get("nextCursor").filter(|c| c.is_string()) else {
                break;
            };
            params = json!({ "cursor": cursor });
        }
    }
    Known {
        capabilities,
        tools,
    }
}

/// Plays one transcript, in the newest revision that it and the server have in common.
fn one(
    run: &Run<'_>,
    options: &Options,
    file: &Transcript,
    claimed: &HashMap<Revision, Known>,
    report: &mut Report,
) -> Result<Vec<Judgement>, String> {
    let shared = claimed
        .keys()
        .copied()
        .filter(|r| file.span.contains(*r))
        .max();
    let Some(revision) = shared else {
        let why = format!("It is for {}, which the server does not claim.", file.span);
        return Ok(told(
            file,
            None,
            &file.checks,
            Verdict::NotApplicable,
            &why,
            &Evidence::default(),
        ));
    };
    let mut player = Player::new(&options.launch, options.limits, revision);
    if let Some(known) = claimed.get(&revision) {
        player.capabilities.clone_from(&known.capabilities);
        player.tools.clone_from(&known.tools);
    }
    let outcome = match options.update {
        false => transcript::play(file, &mut player),
        true => match transcript::update(file, &mut player) {
            Ok(text) => {
                report.target.remarks.push(write(file, &text)?);
                Outcome::Passed
            }
            Err(outcome) => outcome,
        },
    };
    report.processes += player.ended.len();
    if file.rejudge && !options.update && matches!(outcome, Outcome::Passed) {
        return Ok(rejudge(run, file, &player));
    }
    Ok(judge(file, &player, outcome))
}

/// What the outcome means for the requirements that the transcript names.
fn judge(file: &Transcript, player: &Player<'_>, outcome: Outcome) -> Vec<Judgement> {
    let revision = Some(player.revision);
    let none = Evidence::default();
    match outcome {
        Outcome::Passed => told(file, revision, &file.checks, Verdict::Pass, "", &none),
        Outcome::NotApplicable(why) => told(
            file,
            revision,
            &file.checks,
            Verdict::NotApplicable,
            &why,
            &none,
        ),
        Outcome::Error(why) => told(file, revision, &file.checks, Verdict::Error, &why, &none),
        Outcome::Failed {
            line, message, log, ..
        } => {
            let mut evidence = none;
            if let Some(ended) = player.ended.last() {
                let seen = ended.log.get(..log.end).unwrap_or(&ended.log);
                evidence = exchange::evidence_since(seen, log.start, LINES);
                evidence.stderr = session::last_lines(&ended.stderr, 10);
            }
            let message = format!("{}:{line}: {message}", file.name);
            told(
                file,
                revision,
                file.blamed(line),
                Verdict::Fail,
                &message,
                &evidence,
            )
        }
    }
}

/// The same said of each of the requirements; of the file itself if there is none.
fn told(
    file: &Transcript,
    revision: Option<Revision>,
    requirements: &[String],
    verdict: Verdict,
    message: &str,
    evidence: &Evidence,
) -> Vec<Judgement> {
    let path = Path::new(&file.name);
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    let ids = match (requirements, stem) {
        ([], Some(stem)) => vec![stem],
        (ids, _) => ids.to_vec(),
    };
    let judgement = |id: String| {
        let rule = requirement::get(&id);
        let breach = file
            .breach
            .or(rule.map(|rule| rule.breach))
            .unwrap_or(Breach::Fail);
        let mut notes = Vec::new();
        let mut message = message.to_owned();
        let verdict = match (verdict, breach) {
            (Verdict::Fail, Breach::Warn) => Verdict::Warn,
            (Verdict::Fail, Breach::Note) => {
                notes.push(std::mem::take(&mut message));
                Verdict::Pass
            }
            (verdict, _) => verdict,
        };
        if matches!(verdict, Verdict::Fail | Verdict::Warn) {
            notes.extend(file.notes.iter().cloned());
        }
        Judgement {
            level: rule
                .map_or("MUST", |rule| level_name(rule.level))
                .to_owned(),
            requirement: id,
            check: file.name.clone(),
            revision: revision.map(|r| r.to_string()),
            verdict,
            message,
            notes,
            blocked_by: None,
            evidence: evidence.clone(),
            transcript: None,
        }
    };
    ids.into_iter().map(judgement).collect()
}

/// The exchange alone does not tell (`@rejudge`): what it broke is read from the conversation;
/// the rules that this does not show broken are put to the test again.
fn rejudge(run: &Run<'_>, file: &Transcript, player: &Player<'_>) -> Vec<Judgement> {
    let mut heard = Judge::new(player.revision);
    for ended in &player.ended {
        let mut conversation = exchange::Exchange::read(
            player.revision,
            &ended.log,
            Some(player.capabilities.clone()),
            Map::new(),
        );
        // The player has waited that long for what is still due.
        conversation.patience = run.options.limits.request;
        session::observe_log(&conversation, &mut heard);
        survives(&conversation, ended, &mut heard);
    }
    let (broken, rest): (Vec<&String>, Vec<&String>) =
        file.checks.iter().partition(|id| heard.is_broken(id));
    let wanted: Vec<_> = broken
        .iter()
        .filter_map(|id| requirement::get(id))
        .collect();
    let mut judgements = heard.settle(wanted.into_iter());
    if !rest.is_empty() {
        let options = super::Options {
            revisions: Some(vec![player.revision]),
            only: rest.into_iter().cloned().collect(),
            ..run.options.clone()
        };
        let again = super::check(&options, run.progress);
        run.processes.fetch_add(again.processes, Ordering::Relaxed);
        judgements.extend(again.judgements);
    }
    for judgement in &mut judgements {
        judgement.check.clone_from(&file.name);
    }
    judgements
}

/// A server that ended, or left the last request without its answer, has not lived on.
fn survives(conversation: &exchange::Exchange<'_>, ended: &Ended, heard: &mut Judge) {
    const RULE: &str = "stdio.survives-valid-traffic";
    let last = conversation.sent.iter().enumerate().rev();
    let mut requests = last.filter(|(_, sent)| matches!(sent.kind, SentKind::Request { .. }));
    let silent = requests.next().is_some_and(|(index, _)| {
        let answers = |m: &exchange::Received<'_>| {
            m.kind
                == Kind::Response {
                    request: Some(index),
                }
        };
        !conversation.received.iter().any(answers)
    });
    let how = match ended.by {
        EndedBy::Itself => "the server ended",
        _ if silent => "the server does not answer any more",
        _ => return,
    };
    heard.enter("session");
    let mut evidence = exchange::evidence_since(&ended.log, 0, LINES);
    evidence.stderr = session::last_lines(&ended.stderr, 10);
    heard.broken(RULE, format!("After these lines {how}."), evidence);
}

/// Puts the text in the place of the file, whole or not at all. Tells what was done.
fn write(file: &Transcript, text: &str) -> Result<String, String> {
    let name = &file.name;
    if text == file.source {
        return Ok(format!("{name} is up to date."));
    }
    let path = fs::canonicalize(name).unwrap_or_else(|_| PathBuf::from(name));
    let put = || -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        temporary.write_all(text.as_bytes())?;
        temporary
            .as_file()
            .set_permissions(fs::metadata(&path)?.permissions())?;
        temporary.persist(&path)?;
        Ok(())
    };
    put().map_err(|e| format!("cannot update `{name}`: {e}"))?;
    Ok(format!("{name} was updated."))
}
