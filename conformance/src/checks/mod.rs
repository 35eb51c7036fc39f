//! The checks: one file a page of the specification. What a script can say stands in
//! `fixtures/transcripts`; here is the rest.
//!
//! Two kinds. A [`Check`] says something to a server and judges what comes back. An [`Observer`]
//! says nothing: it reads every conversation of the run, whatever was said and why.

pub mod exchange;

mod asking;
mod batch;
mod caching;
mod cancellation;
mod client_features;
mod completion;
mod content;
mod discover;
mod elicitation;
pub mod generated;
mod jsonschema;
mod lifecycle;
mod logging;
mod messages;
mod meta;
mod mrtr;
mod pagination;
mod ping;
mod progress;
mod prompts;
mod resources;
mod robustness;
mod sampling;
mod scripts;
mod shapes;
mod stdio;
mod subscriptions;
mod tasks;
mod tools;
mod versioning;

pub(crate) use discover::supported_versions;
pub(crate) use lifecycle::negotiated;
pub(crate) use pagination::GATHER;
pub(crate) use tasks::offered as offered_tasks;
pub(crate) use tools::may_call;

use serde_json::{Map, Value, json};

use crate::client::{Client, Reply};
use crate::run::{CallPolicy, Does, Judge, Occasion};
use crate::spec::requirement::Breach;
use crate::spec::{Era, Revision, Span};
use crate::transcript::Transcript;
use crate::verdict::Evidence;
use crate::wire::Launch;
use exchange::{Exchange, evidence_since};

/// How many lines of an exchange a verdict shows.
const EVIDENCE_LINES: usize = 12;

/// In which process a check runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// In the one that all share: after the handshake, the client declares nothing, all that is
    /// sent is valid.
    Shared,
    /// In the one that is handled roughly: the client declares everything it can, and what is
    /// sent may be broken. Runs after the shared ones.
    Rough,
    /// In the one whose client can do everything that the revision knows, every mode included. It
    /// is for what the server does on the occasions that it shows or that hints name; where there
    /// is none, no process is started.
    Able,
    /// In a process of its own, after the handshake; the client declares nothing.
    Own,
}

/// Something to say to a server, and how to judge what comes back.
pub struct Check {
    /// Its name in reports.
    pub name: &'static str,
    /// The requirements that it can judge. When it cannot run, they are blocked.
    pub requirements: &'static [&'static str],
    /// The revisions in which it runs.
    pub span: Span,
    /// Where it runs.
    pub session: Session,
    /// How it is run.
    pub run: Run,
}

impl Check {
    /// Runs it.
    pub(crate) fn put_to(&self, launch: &Launch, ctx: &mut Context<'_>) {
        match self.run {
            Run::Code(run) => run(ctx),
            Run::Script(transcript) => scripts::play(transcript, launch, ctx),
            Run::Occasion(any, run) => {
                if let Some(occasion) = ctx.occasions(any).first() {
                    run(ctx, occasion);
                }
            }
        }
    }
}

/// How a check is run.
#[derive(Clone, Copy)]
pub enum Run {
    /// By a function.
    Code(fn(&mut Context<'_>)),
    /// By playing a transcript.
    Script(&'static Transcript),
    /// By a function, on the first occasion that does one of these. Where nothing is known to, the
    /// requirements are not applicable.
    Occasion(&'static [Does], fn(&mut Context<'_>, &Occasion)),
}

/// A reader of whole conversations.
pub struct Observer {
    /// Its name in reports.
    pub name: &'static str,
    /// The requirements that it can judge.
    pub requirements: &'static [&'static str],
    /// Reads one conversation.
    pub read: fn(&Exchange<'_>, &mut Judge),
}

/// Every check, in the order in which they run.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    [
        lifecycle::CHECKS,
        discover::CHECKS,
        ping::CHECKS,
        messages::CHECKS,
        versioning::CHECKS,
        tools::CHECKS,
        jsonschema::CHECKS,
        resources::CHECKS,
        prompts::CHECKS,
        completion::CHECKS,
        logging::CHECKS,
        pagination::CHECKS,
        cancellation::CHECKS,
        subscriptions::CHECKS,
        tasks::CHECKS,
        mrtr::CHECKS,
        client_features::CHECKS,
        elicitation::CHECKS,
        sampling::CHECKS,
        progress::CHECKS,
        stdio::CHECKS,
        batch::CHECKS,
        robustness::CHECKS,
        generated::CHECKS,
        scripts::checks(),
    ]
    .into_iter()
    .flatten()
}

/// Every observer.
pub fn observers() -> impl Iterator<Item = &'static Observer> {
    [
        messages::OBSERVERS,
        stdio::OBSERVERS,
        shapes::OBSERVERS,
        lifecycle::OBSERVERS,
        meta::OBSERVERS,
        content::OBSERVERS,
        caching::OBSERVERS,
        logging::OBSERVERS,
        progress::OBSERVERS,
        cancellation::OBSERVERS,
        subscriptions::OBSERVERS,
        resources::OBSERVERS,
        client_features::OBSERVERS,
        elicitation::OBSERVERS,
        sampling::OBSERVERS,
        mrtr::OBSERVERS,
        versioning::OBSERVERS,
        ping::OBSERVERS,
        tools::OBSERVERS,
    ]
    .into_iter()
    .flatten()
}

/// What is known of the server in one revision.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The `initialize` or `server/discover` result.
    pub hello: Value,
    /// The declared capabilities.
    pub capabilities: Map<String, Value>,
    /// All pages of each list that the server gave, by method.
    pub lists: std::collections::BTreeMap<&'static str, Listing>,
    /// Whether batches are served, once that was tried.
    pub batches: bool,
    /// Whether the server also serves the other era.
    pub dual_era: bool,
    /// Requests that are known to bring something about: by hints, or because it was seen.
    pub occasions: Vec<Occasion>,
    /// The tools that hints name: they are called as the hints say, and not otherwise.
    pub hinted: std::collections::BTreeSet<String>,
    /// Whether tools were called to see which answer soon.
    pub called: bool,
    /// Of them one that succeeds, if there is one; `None` until it was looked for.
    pub quick_success: Option<Option<(String, Map<String, Value>)>>,
    /// The calls of tools that were answered soon, with their arguments.
    pub quick: Vec<(String, Map<String, Value>)>,
    /// Names that are listed to a client that can do everything.
    pub for_able: std::collections::BTreeSet<String>,
}

/// A whole list, all pages put together.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The items.
    pub items: Vec<Value>,
    /// The result of each page.
    pub pages: Vec<Value>,
    /// The cursor that led to each page after the first.
    pub cursors: Vec<Value>,
}

/// The four list methods: method, member that holds the items, capability.
pub const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "tools"),
    ("resources/list", "resources", "resources"),
    ("resources/templates/list", "resourceTemplates", "resources"),
    ("prompts/list", "prompts", "prompts"),
];

impl Facts {
    /// Whether the capability is declared: `tools`, or `resources.subscribe` for a true flag (an
    /// object counts as true).
    pub fn declares(&self, capability: &str) -> bool {
        let mut parts = capability.split('.');
        let first = parts.next().unwrap_or_default();
        let mut at = self.capabilities.get(first);
        for part in parts {
            at = at.and_then(|value| value.get(part));
        }
        at.is_some_and(|value| value.is_object() || *value == Value::Bool(true))
    }

    /// Whether the server lists what the occasion calls or gets, to any of our clients. Of
    /// resources nothing is known: not all that can be read are listed.
    pub fn lists_target(&self, occasion: &Occasion) -> bool {
        let method = match occasion.method {
            "tools/call" => "tools/list",
            "prompts/get" => "prompts/list",
            _ => return true,
        };
        let name = occasion.target();
        let named = |item: &Value| item.get("name").and_then(Value::as_str) == Some(name);
        self.for_able.contains(name) || self.items(method).iter().any(named)
    }

    /// The items of a list, if the server gave it.
    pub fn items(&self, method: &str) -> &[Value] {
        self.lists
            .get(method)
            .map_or(&[], |listing| listing.items.as_slice())
    }
}

/// What came back, once what can go wrong on the way is dealt with.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A result.
    Result(Value),
    /// An error.
    Error {
        /// Its code, when it is an integer.
        code: Option<i64>,
        /// The whole error.
        error: Value,
    },
    /// Nothing; it has been reported.
    None,
}

/// What a check works with.
pub struct Context<'a> {
    /// The client of the process it runs in.
    pub client: &'a mut Client,
    /// What is known of the server.
    pub facts: &'a mut Facts,
    /// Who is told.
    pub judge: &'a mut Judge,
    /// Which tools may be called.
    pub call: &'a CallPolicy,
    /// What generated traffic may cost.
    pub generated: &'a generated::Plan<'a>,
    /// Where the log stood when the check began.
    pub start: usize,
    /// Set when the server did not answer, or was gone: the check is then judged once more, alone.
    pub doubtful: bool,
}

impl Context<'_> {
    /// The revision that is spoken.
    pub fn revision(&self) -> Revision {
        self.judge.revision()
    }

    /// Whether this is the handshake era.
    pub fn handshake(&self) -> bool {
        self.revision().era() == Era::Handshake
    }

    /// What was exchanged since the check began.
    pub fn evidence(&self) -> Evidence {
        evidence_since(self.client.log(), self.start, EVIDENCE_LINES)
    }

    /// What was exchanged from there on.
    pub fn evidence_from(&self, from: usize) -> Evidence {
        evidence_since(self.client.log(), from, EVIDENCE_LINES)
    }

    /// Sends a request and deals with what can go wrong on the way: no answer is a breach of
    /// `jsonrpc.response.exactly-one`, a dead server of `stdio.survives-valid-traffic`; either
    /// blocks `requirements`.
    pub fn ask(&mut self, requirements: &[&str], method: &str, params: Option<Value>) -> Answer {
        let from = self.client.log().len();
        let reply = self.client.request(method, params);
        self.settle(requirements, method, from, reply)
    }

    /// As [`Context::ask`], for a reply that was already waited for.
    pub fn settle(
        &mut self,
        requirements: &[&str],
        what: &str,
        from: usize,
        reply: Reply,
    ) -> Answer {
        match reply {
            Reply::Result { result, .. } => Answer::Result(result),
            Reply::Error { error, .. } => Answer::Error {
                code: error.get("code").and_then(Value::as_i64),
                error,
            },
            Reply::Silence => {
                self.doubtful = true;
                let limit = self.client.limits().request.as_secs_f32();
                let evidence = self.evidence_from(from);
                let message = format!("`{what}` was not answered within {limit} s.");
                self.judge
                    .broken("jsonrpc.response.exactly-one", message, evidence);
                for id in requirements {
                    self.judge.blocked(id, "jsonrpc.response.exactly-one");
                }
                Answer::None
            }
            Reply::Gone => {
                self.doubtful = true;
                for id in requirements {
                    self.judge.blocked(id, "stdio.survives-valid-traffic");
                }
                Answer::None
            }
        }
    }

    /// Calls a tool. One that takes longer than a request may is not at fault for that: it is told
    /// in a note and cancelled.
    pub fn call_tool(&mut self, requirements: &[&str], name: &str, arguments: Value) -> Answer {
        let from = self.client.log().len();
        let id = self.client.fresh_id();
        let token = json!({"progressToken": format!("call-{id}")});
        let params = json!({"name": name, "arguments": arguments, "_meta": token});
        self.client.post(id.clone(), "tools/call", Some(params));
        let until = std::time::Instant::now() + self.client.limits().request;
        let reply = self.client.reply(&id, until);
        if reply == Reply::Silence {
            let params = json!({"requestId": id, "reason": "the suite's time for it was up"});
            self.client.notify("notifications/cancelled", Some(params));
            for rule in requirements {
                let note =
                    format!("`{name}` was not done within the limit of a request; not judged.");
                self.judge.note_only(rule, note);
            }
            return Answer::None;
        }
        self.settle(requirements, "tools/call", from, reply)
    }

    /// As a barrier, for a server that has much to answer first: as long as it goes on writing it
    /// is waited for.
    pub fn patient_barrier(&mut self) -> bool {
        for _ in 0..20 {
            let before = self.client.log().len();
            if self.client.barrier() {
                return true;
            }
            // The barrier's own line does not count.
            if self.client.log().len() <= before + 1 {
                return false;
            }
        }
        false
    }

    /// Marks all of these as not applicable.
    pub fn not_applicable(&mut self, requirements: &[&str], why: &str) {
        for id in requirements {
            self.judge.not_applicable(id, why);
        }
    }

    /// Whether the capability is declared; if not, the requirements are not applicable.
    pub fn needs(&mut self, capability: &str, requirements: &[&str]) -> bool {
        let declared = self.facts.declares(capability);
        if !declared {
            self.not_applicable(
                requirements,
                &format!("The server does not declare `{capability}`."),
            );
        }
        declared
    }

    /// The answer must be an error. A result breaks `rule` as the catalogue has it; the wrong
    /// code is what `code_breach` says.
    pub fn expect_error(
        &mut self,
        rule: &str,
        code: i64,
        code_breach: Breach,
        method: &str,
        params: Option<Value>,
        what: &str,
    ) {
        let from = self.client.log().len();
        match self.ask(&[rule], method, params) {
            Answer::Error {
                code: Some(got), ..
            } if got == code => self.judge.holds(rule),
            Answer::Error { error, .. } => {
                let got = error.get("code").cloned().unwrap_or(Value::Null);
                let evidence = self.evidence_from(from);
                let message = format!("{what} gave error code {got}; {code} is expected.");
                self.judge.broken_as(rule, code_breach, message, evidence);
            }
            Answer::Result(_) => {
                let evidence = self.evidence_from(from);
                let message = format!("{what} gave a result; an error is expected.");
                self.judge.broken(rule, message, evidence);
            }
            Answer::None => {}
        }
    }
}

/// Capabilities of a client that can do everything the revision knows, in the plainest way.
pub fn full_client(revision: Revision) -> Map<String, Value> {
    let mut capabilities = Map::new();
    let mut put = |name: &str, value: Value| {
        capabilities.insert(name.to_owned(), value);
    };
    put("roots", json!({"listChanged": true}));
    put("sampling", json!({}));
    if revision >= Revision::V2025_06_18 {
        put("elicitation", json!({}));
    }
    if revision == Revision::V2026_07_28 {
        put("roots", json!({}));
    }
    capabilities
}

/// Capabilities of a client that can do everything the revision knows, every mode included.
pub fn able_client(revision: Revision) -> Map<String, Value> {
    let mut capabilities = full_client(revision);
    if revision >= Revision::V2025_11_25 {
        capabilities.insert("elicitation".to_owned(), json!({"form": {}, "url": {}}));
        capabilities.insert("sampling".to_owned(), json!({"tools": {}, "context": {}}));
    }
    if revision == Revision::V2025_11_25 {
        let requests = json!({"sampling": {"createMessage": {}}, "elicitation": {"create": {}}});
        capabilities.insert("tasks".to_owned(), json!({"requests": requests}));
    }
    capabilities
}
