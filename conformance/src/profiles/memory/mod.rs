//! The `memory` contract: six tools over facts, sessions and turns.
//!
//! Every check starts the server with a configuration of its own, whose memory file lies in a
//! temporary folder. Before anything is recorded the server must show that it took that
//! configuration; a server that may be writing elsewhere is not judged.

mod cut;
mod durable;
mod edn;
mod files;
mod notation;
mod pack;
mod recall;
mod record;
mod server;
mod sessions;
mod time;
mod tools;

use std::path::Path;
use std::sync::atomic::AtomicUsize;

use serde_json::{Value, json};

use super::process::Process;
use super::{is_wanted, newest_with_handshake, settle, temporary};
use crate::run::{Judge, Options};
use crate::spec::Revision;
use crate::verdict::{Judgement, Report};
use edn::Edn;
use pack::PACK;
use server::{Answer, Said, Server};

const AREA: &str = "memory";

/// The tools of the contract.
pub(super) const TOOLS: [&str; 6] = ["context", "record", "recall", "read", "history", "turns"];

/// Without it hardly anything can be judged.
const ROOT: &str = "memory.schema.register";

/// Whether a part could be judged; the error says why not.
type Done = Result<(), String>;

/// One part of the contract.
enum Part {
    /// With one server, on a memory file and in a session of the part's name.
    OneServer(fn(&mut Profile<'_>, &mut Server) -> Done),
    /// With servers that it starts itself.
    Own(fn(&mut Profile<'_>) -> Done),
}
use Part::{OneServer, Own};

/// The part that all others stand on.
const FIRST: &str = "tools";

/// The parts: a name, how the ids of the rules begin that it judges, what it does. That the output
/// is clean and texts are EDN is seen in each.
const PARTS: [(&str, &[&str], Part); 19] = [
    (
        FIRST,
        &[
            "tools", "schema", "context", "record", "read", "history", "turns",
        ],
        OneServer(tools::answers),
    ),
    ("forms", &["record"], OneServer(record::forms)),
    (
        "refusals",
        &["record", "error", "edn.unclosed"],
        OneServer(record::refusals),
    ),
    ("provenance", &["provenance"], OneServer(record::provenance)),
    (
        "queries",
        &["recall", "edn.prints"],
        OneServer(recall::queries),
    ),
    ("bounds", &["recall"], OneServer(recall::bounds)),
    ("time", &["as-of", "history"], OneServer(time::past)),
    ("turns", &["turns"], OneServer(time::turns)),
    ("values", &["schema", "values"], OneServer(notation::values)),
    ("texts", &["edn"], OneServer(notation::texts)),
    ("cut", &["cut"], OneServer(cut::never_silent)),
    (
        "resumed",
        &["session", "turns.session", "history.session", "durable"],
        Own(sessions::resumed),
    ),
    ("fresh", &["session"], Own(sessions::fresh)),
    ("shared", &["shared"], Own(sessions::shared)),
    ("killed", &["durable"], Own(durable::killed)),
    ("on-the-way", &["durable"], Own(durable::on_the_way)),
    ("foreign", &["files"], Own(files::foreign)),
    ("damaged", &["files"], Own(files::damaged)),
    ("apart", &["files.apart"], Own(files::apart)),
];

/// What all checks of the profile share.
struct Profile<'a> {
    options: &'a Options,
    revision: Revision,
    processes: &'a AtomicUsize,
    judge: Judge,
}

/// Judges a server. The error says why nothing could be judged.
pub(super) fn judge(
    options: &Options,
    report: &Report,
    processes: &AtomicUsize,
) -> Result<Vec<Judgement>, String> {
    let revision = newest_with_handshake(report)?;
    let mut profile = Profile {
        options,
        revision,
        processes,
        judge: Judge::new(revision),
    };
    profile.judge.enter("memory.start");
    profile.takes_configuration()?;
    let mut problems = Vec::new();
    for (name, prefixes, part) in &PARTS {
        if *name != FIRST && !is_wanted(AREA, options, prefixes) {
            continue;
        }
        profile.judge.enter(&format!("{AREA}.{name}"));
        let done = match part {
            OneServer(part) => profile.with_server(name, *part),
            Own(part) => part(&mut profile),
        };
        if let Err(why) = done {
            problems.push(format!("{AREA}.{name}: {why}."));
        }
    }
    Ok(settle(AREA, profile.judge, options, &problems, Some(ROOT)))
}

impl Profile<'_> {
    /// Starts a server on that file in the folder, in that session.
    fn open(&self, folder: &Path, name: &str, session: &str) -> Result<Server, String> {
        let memory = folder.join(format!("{name}.db"));
        let launch = server::configured(self.options, folder, &memory, session)?;
        let how = format!("the configuration of session {session}");
        let process = Process::start(self.options, &launch, self.revision, &how, self.processes)?;
        Ok(Server { process, memory })
    }

    /// Does a part with a server of its own.
    fn with_server(&mut self, name: &str, part: fn(&mut Profile<'_>, &mut Server) -> Done) -> Done {
        let folder = temporary()?;
        let mut server = self.open(folder.path(), name, name)?;
        let done = part(self, &mut server);
        self.stop(server);
        done
    }

    /// A server that shows another session, or a vocabulary, does not use our new memory.
    fn takes_configuration(&mut self) -> Done {
        let folder = temporary()?;
        let session = format!("touchstone-{}", std::process::id());
        let mut server = self.open(folder.path(), "start", &session)?;
        let said = server.call("context", &json!({}));
        let ours = match &said {
            Said::Answer(answer) => {
                session_id(&answer.form) == Some(session.as_str()) && !has_vocabulary(&answer.form)
            }
            // A text that is no EDN is for the checks to judge.
            Said::Unreadable(why) => why.contains(&session),
            _ => false,
        };
        server.process.stop(self.options);
        match ours {
            true => Ok(()),
            false => Err(format!(
                "The server does not show that it took the configuration: `context` of a new \
                 memory in session {session} gave {}. Nothing was recorded. The configuration is \
                 an EDN file, given as the last argument; if the server takes it otherwise, say \
                 so in touchstone.toml: [memory] arguments = [\"--config\", \"{{config}}\"].",
                said.describe()
            )),
        }
    }

    /// Ends a server; its output is judged.
    fn stop(&mut self, server: Server) {
        self.output(&server);
        server.process.stop(self.options);
    }

    /// Kills a server at once.
    fn kill(&mut self, server: Server) {
        self.output(&server);
        server.process.client.into_child().kill();
    }

    fn output(&mut self, server: &Server) {
        let strange = server.process.strange_lines();
        self.rule("output-clean", strange == 0, server, || {
            format!("{strange} lines of the server's output are no messages.")
        });
    }

    /// The rule holds, or is broken with this message.
    fn rule(&mut self, id: &str, holds: bool, server: &Server, message: impl FnOnce() -> String) {
        let id = format!("{AREA}.{id}");
        if holds {
            self.judge.holds(&id);
        } else {
            self.judge.broken(&id, message(), server.process.evidence());
        }
    }

    /// Calls a tool that has to answer; without an answer the rule is broken.
    fn answer(
        &mut self,
        id: &str,
        server: &mut Server,
        tool: &str,
        arguments: &Value,
    ) -> Option<Answer> {
        match server.call(tool, arguments) {
            Said::Answer(answer) => {
                self.judge.holds("memory.edn.prints");
                Some(answer)
            }
            Said::Unreadable(why) => {
                self.rule("edn.prints", false, server, || {
                    format!(
                        "The first text of `{tool}` with {arguments} is not one EDN form: {why}."
                    )
                });
                self.judge
                    .blocked(&format!("{AREA}.{id}"), "memory.edn.prints");
                None
            }
            said => {
                self.rule(id, false, server, || {
                    format!("`{tool}` with {arguments} gave {}.", said.describe())
                });
                None
            }
        }
    }

    /// Calls a tool on the way to something else. The error says what came instead.
    fn must(&mut self, server: &mut Server, tool: &str, arguments: &Value) -> Result<Edn, String> {
        match server.call(tool, arguments) {
            Said::Answer(answer) => Ok(answer.form),
            Said::Unreadable(why) => {
                self.rule("edn.prints", false, server, || {
                    format!(
                        "The first text of `{tool}` with {arguments} is not one EDN form: {why}."
                    )
                });
                Err(format!("`{tool}` gave a text that is not EDN"))
            }
            said => Err(format!(
                "`{tool}` with {arguments} gave {}",
                said.describe()
            )),
        }
    }

    /// Records a turn on the way to something else, and gives its `t`.
    fn record(&mut self, server: &mut Server, tx: &str) -> Result<i64, String> {
        let form = self.must(server, "record", &json!({"tx": tx}))?;
        number(&form, "t")
    }

    /// Registers the vocabulary of the pack.
    fn register(&mut self, server: &mut Server) -> Result<i64, String> {
        self.record(server, &PACK.vocabulary)
    }

    /// Registers the vocabulary and records the facts of the pack; gives the `t` of the facts.
    fn populate(&mut self, server: &mut Server) -> Result<i64, String> {
        self.register(server)?;
        self.record(server, &PACK.facts)
    }

    /// The `t` that `context` shows.
    fn moment(&mut self, server: &mut Server) -> Result<i64, String> {
        let form = self.must(server, "context", &json!({}))?;
        number(&form, "t")
    }

    /// What a query gives; without a result the rule is broken.
    fn recall(&mut self, id: &str, server: &mut Server, query: &str, more: &Value) -> Option<Edn> {
        let arguments = with(&json!({"query": query}), more);
        let answer = self.answer(id, server, "recall", &arguments)?;
        Some(result_of(&answer.form).clone())
    }

    /// The rule holds if the query finds these rows, in whichever order.
    fn finds(&mut self, id: &str, server: &mut Server, query: &str, wanted: &str) {
        self.finds_with(id, server, query, &json!({}), wanted);
    }

    fn finds_with(
        &mut self,
        id: &str,
        server: &mut Server,
        query: &str,
        more: &Value,
        wanted: &str,
    ) {
        let Some(got) = self.recall(id, server, query, more) else {
            return;
        };
        let holds = match edn::read(wanted) {
            Ok(wanted) if is_nothing(&wanted) => is_nothing(&got),
            Ok(wanted) => got.same_rows(&wanted),
            Err(_) => false,
        };
        self.rule(id, holds, server, || {
            format!("{query} with {more} gave {got}, not {wanted}.")
        });
    }

    /// The call must fail, under `isError` and with a map. Gives the map.
    fn refused(
        &mut self,
        id: &str,
        server: &mut Server,
        tool: &str,
        arguments: &Value,
    ) -> Option<Edn> {
        let said = server.call(tool, arguments);
        let refused = matches!(said, Said::ToolError(_) | Said::Refused(_));
        self.rule(id, refused, server, || {
            format!(
                "`{tool}` with {arguments} gave {}; an error is due.",
                said.describe()
            )
        });
        if !refused {
            return None;
        }
        self.rule(
            "error.is-error",
            matches!(said, Said::ToolError(_)),
            server,
            || {
                format!(
                    "`{tool}` with {arguments} gave {}; a result with `isError` is due.",
                    said.describe()
                )
            },
        );
        let Said::ToolError(text) = &said else {
            return None;
        };
        let map = edn::read(text).ok();
        let said_what = |map: &Edn| {
            map.get("kala/error")
                .is_some_and(|kind| kind.keyword().is_some())
                && map
                    .get("message")
                    .and_then(Edn::str)
                    .is_some_and(|m| !m.trim().is_empty())
        };
        self.rule("error.map", map.as_ref().is_some_and(said_what), server, || {
            format!(
                "The error of `{tool}` is no EDN map with a keyword `:kala/error` and a text `:message`: {}",
                crate::checks::exchange::shorten(text, 240)
            )
        });
        map
    }

    /// The turn must be refused and leave no trace.
    fn refused_whole(
        &mut self,
        id: &str,
        server: &mut Server,
        tx: &str,
    ) -> Result<Option<Edn>, String> {
        let before = self.moment(server)?;
        let error = self.refused(id, server, "record", &json!({"tx": tx}));
        let after = self.moment(server)?;
        if error.is_some() {
            self.rule(id, before == after, server, || {
                format!("The refused turn {tx} moved `:t` from {before} to {after}.")
            });
        }
        Ok(error)
    }
}

/// The id of the session that `context` shows. The contract leaves open what else its map holds.
fn session_id(context: &Edn) -> Option<&str> {
    let session = context.get("session")?;
    let id = session.get("memory.session/id").and_then(Edn::str);
    id.or_else(|| session.members()?.iter().find_map(|(_, value)| value.str()))
}

/// The attributes that `context` shows, but for those that the server brings.
fn vocabulary(context: &Edn) -> impl Iterator<Item = &Edn> {
    let shown = context.get("vocabulary").and_then(Edn::items);
    shown.unwrap_or_default().iter().filter(|attribute| {
        let ident = attribute.get("db/ident").and_then(Edn::keyword);
        let namespace = ident.unwrap_or_default().split('/').next();
        !namespace.is_some_and(|name| name.starts_with("db") || name.starts_with("memory"))
    })
}

fn has_vocabulary(context: &Edn) -> bool {
    vocabulary(context).next().is_some()
}

/// A number under that key. The error says what stands there.
fn number(form: &Edn, key: &str) -> Result<i64, String> {
    form.get(key)
        .and_then(Edn::int)
        .ok_or_else(|| format!("there is no number `:{key}` in {form}"))
}

/// The rows of `recall`. The contract leaves open whether they stand alone or in a map that also
/// says whether they were cut.
fn result_of(form: &Edn) -> &Edn {
    ["result", "rows", "results"]
        .iter()
        .find_map(|key| form.get(key))
        .unwrap_or(form)
}

/// How an empty result may be printed.
fn is_nothing(form: &Edn) -> bool {
    *form == Edn::Nil || form.items().is_some_and(<[Edn]>::is_empty)
}

/// Arguments with more of them.
fn with(arguments: &Value, more: &Value) -> Value {
    let mut all = arguments.clone();
    if let (Some(all), Some(more)) = (all.as_object_mut(), more.as_object()) {
        all.extend(more.clone());
    }
    all
}

/// The elements of a form; none if it has no elements.
fn items(form: &Edn) -> &[Edn] {
    form.items().unwrap_or_default()
}

/// The numbers under that key in each element.
fn numbers(form: &Edn, key: &str) -> Vec<i64> {
    items(form)
        .iter()
        .filter_map(|item| item.get(key).and_then(Edn::int))
        .collect()
}
