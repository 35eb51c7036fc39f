//! The five tools: what they say of themselves, how they read arguments, what they answer.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::cache::{self, Cache};
use super::config::Settings;
use super::find::{self, Finder, Purpose};
use super::once::{Once, Turn};
use super::run::{End, Finished, Groups, Watch, run};
use super::tree::{Sources, Workshop};
use crate::protocol::family::{Call, Family, Outcome, Tool};

/// Environment variables that a child sees as the server does; it sees no others, apart from
/// `TMPDIR`, which is a folder of its call.
const ENVIRONMENT: [&str; 6] = ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ"];
/// How long a stop may take.
const STOP: Duration = Duration::from_millis(800);

/// The members of a result, without `cacheHit`.
type Members = Map<String, Value>;

/// The toolchain tools over one set of settings.
#[derive(Debug)]
pub struct Toolchain {
    settings: Settings,
    finder: Finder,
    groups: Groups,
    cache: Cache,
    once: Once<Members>,
}

/// A call that did not come to a result.
enum Stop {
    /// The arguments do not fit.
    Invalid(String),
    /// The work could not be done.
    Failed(String),
    /// The client took it back, or the server stops.
    Cancelled,
    /// The toolchain did not keep to its command line; the model may read it.
    Tool(String),
}

/// The two tools that build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Build {
    Compile,
    JitExecute,
}

/// The result of a build, and whether it may be kept.
struct Built {
    members: Members,
    repeatable: bool,
}

impl Toolchain {
    /// The tools with these settings. Nothing is started or written before a call.
    pub fn new(settings: Settings) -> Self {
        Self {
            finder: Finder::new(&settings),
            groups: Groups::default(),
            cache: Cache::new(settings.cache.clone()),
            once: Once::default(),
            settings,
        }
    }

    /// Ends all children with their groups, refuses further work, and waits a moment until
    /// running calls have removed their folders. Returns whether they had.
    pub fn stop(&self) -> bool {
        self.groups.stop(STOP)
    }

    fn dispatch(&self, name: &str, arguments: &Members, call: &Call) -> Result<Outcome, Stop> {
        let _work = self.groups.begin().ok_or(Stop::Cancelled)?;
        let watch = Watch {
            call,
            since: Instant::now(),
        };
        match name {
            "searchSkills" => {
                let name = text(arguments, "name")?;
                self.skills("results", &["search-skill", name, "--json"], watch)
            }
            "listSkills" => self.skills("skills", &["list-skills", "--json"], watch),
            "getSkills" => {
                let uris = uris(arguments)?;
                self.skills("skills", &["get-skills", &uris, "--json"], watch)
            }
            "compile" => self.build(Build::Compile, arguments, watch),
            "jit_execute" => self.build(Build::JitExecute, arguments, watch),
            other => Err(Stop::Invalid(format!("there is no tool `{other}`"))),
        }
    }

    /// Runs a skill command and passes its array on.
    fn skills(&self, member: &str, args: &[&str], watch: Watch<'_>) -> Result<Outcome, Stop> {
        let toolchain = self.find(Purpose::Skills, watch)?;
        let workshop = self.workshop()?;
        let child = self.child(&toolchain, &workshop, watch, |command| {
            command.args(args);
        })?;
        let notes = child.notes(&self.settings.limits);
        let output = String::from_utf8_lossy(&child.stdout.bytes);
        let mut members = Map::new();
        if !child.repeatable() {
            return Err(Stop::Tool(format!(
                "`{}` did not finish: {}",
                args[0],
                notes.join(" ")
            )));
        } else if output.trim().is_empty() {
            members.insert(member.to_owned(), json!([]));
        } else {
            let array: Vec<Value> = serde_json::from_str(&output).map_err(|error| {
                let code = child.exit_status();
                let said = lines(&child.stderr.bytes).join("\n");
                Stop::Tool(format!(
                    "`{}` printed no JSON array ({error}) and exited with {code}\n{said}",
                    args[0]
                ))
            })?;
            members.insert(member.to_owned(), Value::Array(array));
        }
        if child.exit_status() != 0 {
            let said = lines(&child.stderr.bytes).join("\n");
            let note = format!("The toolchain exited with {}: {said}", child.exit_status());
            members.insert("notes".to_owned(), json!([note]));
        }
        Ok(done(members))
    }

    /// Answers from the cache, from an equal call that is running, or by doing the work.
    fn build(&self, tool: Build, arguments: &Members, watch: Watch<'_>) -> Result<Outcome, Stop> {
        let (sources, entry) = tree(arguments)?;
        let sakura = sources.iter().all(|(path, _)| path.ends_with(".sakura"));
        let purpose = if sakura {
            Purpose::Sakura
        } else {
            Purpose::Build
        };
        let toolchain = self.find(purpose, watch)?;
        if !self.cache.is_on() {
            let built = self.work(tool, &toolchain, &sources, entry, watch)?;
            return Ok(answer(built.members, false));
        }
        let identity = self.finder.identity(&toolchain).map_err(|error| {
            let program = toolchain.program.display();
            Stop::Failed(format!("cannot read the compiler {program}: {error}"))
        })?;
        let key = cache::key(&identity, tool.name(), entry, &sources);
        let kept = || self.cache.get(&key).and_then(|content| tool.read(&content));
        loop {
            if let Some(members) = kept() {
                return Ok(answer(members, true));
            }
            let lead = match self.once.turn(key, || watch.call.cancelled()) {
                Turn::Lead(lead) => lead,
                Turn::Shared(members) => return Ok(answer(members, true)),
                Turn::Again => continue,
                Turn::Cancelled => return Err(Stop::Cancelled),
            };
            // Another may have ended between the look and the lead.
            if let Some(members) = kept() {
                lead.finish(members.clone());
                return Ok(answer(members, true));
            }
            let built = self.work(tool, &toolchain, &sources, entry, watch)?;
            if built.repeatable {
                self.cache.put(
                    &key,
                    Value::Object(built.members.clone()).to_string().as_bytes(),
                );
            }
            lead.finish(built.members.clone());
            return Ok(answer(built.members, false));
        }
    }

    /// Compiles or runs a tree in new folders.
    fn work(
        &self,
        tool: Build,
        toolchain: &find::Toolchain,
        sources: &Sources,
        entry: &str,
        watch: Watch<'_>,
    ) -> Result<Built, Stop> {
        let workshop = self.workshop()?;
        workshop.write(sources).map_err(no_tree)?;
        watch.call.progress(0.0, None, tool.beginning());
        let child = self.child(toolchain, &workshop, watch, |command| match tool {
            Build::Compile => {
                command
                    .args(["--emit=cja", entry])
                    .arg(workshop.src())
                    .arg(workshop.out());
            }
            Build::JitExecute => {
                command.arg("jit-run").arg(workshop.src()).arg(entry);
            }
        })?;
        let mut members = match tool {
            Build::Compile => compiled(&child, &workshop, entry)?,
            Build::JitExecute => executed(&child),
        };
        let notes = child.notes(&self.settings.limits);
        if !notes.is_empty() {
            members.insert("notes".to_owned(), json!(notes));
        }
        Ok(Built {
            members,
            repeatable: child.repeatable(),
        })
    }

    fn find(&self, purpose: Purpose, watch: Watch<'_>) -> Result<find::Toolchain, Stop> {
        self.finder
            .find(purpose, &self.settings, &self.groups, watch)
            .map_err(|message| {
                if watch.call.cancelled() {
                    Stop::Cancelled
                } else {
                    Stop::Failed(message)
                }
            })
    }

    fn workshop(&self) -> Result<Workshop, Stop> {
        Workshop::new(&self.settings.temp).map_err(no_tree)
    }

    /// Runs the toolchain in the folders of a call, with a scrubbed environment.
    fn child(
        &self,
        toolchain: &find::Toolchain,
        workshop: &Workshop,
        watch: Watch<'_>,
        arguments: impl FnOnce(&mut Command),
    ) -> Result<Finished, Stop> {
        let mut command = Command::new(&toolchain.program);
        command
            .args(&toolchain.prefix)
            .current_dir(workshop.run())
            .env_clear();
        command.envs(
            ENVIRONMENT
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        );
        command.env("TMPDIR", workshop.tmp());
        arguments(&mut command);
        let ended = run(&mut command, &self.settings.limits, &self.groups, watch);
        let ended = ended.map_err(|error| cannot_start(&toolchain.program, &error))?;
        ended
            .filter(|child| child.end != End::Cancelled)
            .ok_or(Stop::Cancelled)
    }
}

impl Build {
    fn name(self) -> &'static str {
        match self {
            Self::Compile => "compile",
            Self::JitExecute => "jit_execute",
        }
    }

    fn beginning(self) -> &'static str {
        match self {
            Self::Compile => "compiling",
            Self::JitExecute => "compiling and running",
        }
    }

    /// Reads a kept result; `None` when it is damaged.
    fn read(self, content: &[u8]) -> Option<Members> {
        let members: Members = serde_json::from_slice(content).ok()?;
        let integer = |name: &str| members.get(name).and_then(Value::as_i64);
        let string = |name: &str| members.get(name).and_then(Value::as_str);
        let status = integer("exitStatus")?;
        let whole = match self {
            Self::Compile => {
                let lines = members.get("diagnostics")?.as_array()?;
                let artifact = match string("artifact") {
                    Some(text) => status == 0 && BASE64.decode(text).is_ok(),
                    None => status != 0 && !members.contains_key("artifact"),
                };
                artifact && lines.iter().all(Value::is_string)
            }
            Self::JitExecute => {
                let streams = string("stdout").and(string("stderr"));
                streams.is_some() && integer("returnValue") == Some(status)
            }
        };
        let size = if self == Self::Compile {
            2 + usize::from(status == 0)
        } else {
            4
        };
        (whole && members.len() == size).then_some(members)
    }
}

fn compiled(child: &Finished, workshop: &Workshop, entry: &str) -> Result<Members, Stop> {
    let mut members = Map::new();
    let status = child.exit_status();
    members.insert("exitStatus".to_owned(), json!(status));
    members.insert("diagnostics".to_owned(), json!(lines(&child.stderr.bytes)));
    if status == 0 {
        let class = entry.rsplit('.').nth(1).unwrap_or(entry);
        let name = format!("{class}.cja");
        let artifact = workshop
            .artifact(&name)
            .map_err(|error| Stop::Failed(format!("cannot read the artifact {name}: {error}")))?
            .ok_or_else(|| {
                Stop::Failed(format!(
                    "the compiler exited with 0 but wrote no file {name}"
                ))
            })?;
        members.insert("artifact".to_owned(), json!(BASE64.encode(artifact)));
    }
    Ok(members)
}

fn executed(child: &Finished) -> Members {
    let status = child.exit_status();
    let text = |bytes: &[u8]| json!(String::from_utf8_lossy(bytes));
    Map::from_iter([
        ("returnValue".to_owned(), json!(status)),
        ("exitStatus".to_owned(), json!(status)),
        ("stdout".to_owned(), text(&child.stdout.bytes)),
        ("stderr".to_owned(), text(&child.stderr.bytes)),
    ])
}

fn no_tree(error: std::io::Error) -> Stop {
    Stop::Failed(format!("cannot make the temporary source tree: {error}"))
}

fn cannot_start(program: &Path, error: &std::io::Error) -> Stop {
    Stop::Failed(format!(
        "cannot start the compiler {}: {error}",
        program.display()
    ))
}

/// The lines of a stream that hold more than white space.
fn lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(str::to_owned)
        .collect()
}

/// A string that can be passed to a program.
fn text<'a>(arguments: &'a Members, name: &str) -> Result<&'a str, Stop> {
    let text = match arguments.get(name) {
        None => Err(format!("`{name}` is missing; it is a string")),
        Some(Value::String(text)) if text.contains('\0') => Err(format!("`{name}` contains a NUL")),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(format!("`{name}` is {}; it must be a string", kind(other))),
    };
    text.map_err(Stop::Invalid)
}

fn uris(arguments: &Members) -> Result<String, Stop> {
    let invalid = |problem: String| Err(Stop::Invalid(format!("`uris` {problem}")));
    let Some(value) = arguments.get("uris") else {
        return invalid("is missing; it is an array of strings".to_owned());
    };
    let Value::Array(items) = value else {
        return invalid(format!(
            "is {}; it must be an array of strings",
            kind(value)
        ));
    };
    let mut uris = Vec::new();
    for (at, item) in items.iter().enumerate() {
        match item {
            Value::String(uri) if !uri.contains('\0') => uris.push(uri.as_str()),
            other => return invalid(format!("[{at}] is {}; it must be a URI", kind(other))),
        }
    }
    Ok(uris.join(","))
}

fn tree(arguments: &Members) -> Result<(Sources, &str), Stop> {
    let invalid = |problem: String| Err(Stop::Invalid(problem));
    let files = match arguments.get("files") {
        Some(Value::Object(files)) if files.is_empty() => {
            return invalid("`files` is empty; it must hold at least one source file".to_owned());
        }
        Some(Value::Object(files)) => files,
        Some(other) => {
            let kind = kind(other);
            return invalid(format!(
                "`files` is {kind}; it must be an object: path to content"
            ));
        }
        None => return invalid("`files` is missing; it is an object: path to content".to_owned()),
    };
    let entry = text(arguments, "entry")?;
    Ok((Sources::from_argument(files).map_err(Stop::Invalid)?, entry))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn answer(mut members: Members, cache_hit: bool) -> Outcome {
    members.insert("cacheHit".to_owned(), json!(cache_hit));
    done(members)
}

fn done(members: Members) -> Outcome {
    let structured = Value::Object(members);
    Outcome::Done {
        content: vec![json!({"type": "text", "text": structured.to_string()})],
        structured: Some(structured),
        is_error: false,
    }
}

impl Family for Toolchain {
    fn name(&self) -> &'static str {
        "toolchain"
    }

    fn tools(&self) -> Vec<Tool> {
        vec![
            search_skills(),
            list_skills(),
            get_skills(),
            compile(),
            jit_execute(),
        ]
    }

    fn call(&self, name: &str, arguments: &Members, call: &Call) -> Outcome {
        self.dispatch(name, arguments, call)
            .unwrap_or_else(|stop| match stop {
                Stop::Invalid(message) => Outcome::InvalidParams(message),
                Stop::Failed(message) => Outcome::Internal(message),
                Stop::Cancelled => Outcome::Internal("the call was cancelled".to_owned()),
                Stop::Tool(message) => Outcome::Done {
                    content: vec![json!({"type": "text", "text": message})],
                    structured: None,
                    is_error: true,
                },
            })
    }

    fn initialize_members(&self) -> Members {
        self.settings.cache.echo()
    }

    fn instructions(&self) -> Option<String> {
        Some(
            "compile and jit_execute take a whole source tree and build or run it in a fresh \
             process; without a `cajeta` compiler they take Rust (`.rs`) files. listSkills and \
             getSkills give short guides: read one before the first call."
                .to_owned(),
        )
    }
}

fn search_skills() -> Tool {
    Tool {
        name: "searchSkills",
        title: "Search skills",
        description: "Find guides on using this toolchain by a name or word, such as `files` or \
                      `artifact`. Gives each guide's URI and summary; read the text with \
                      getSkills. Nothing found is an empty array."
            .to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "A name or word to look for."}
            },
            "required": ["name"]
        }),
        output_schema: Some(skills_schema("results", "The guides found.")),
        annotations: reading(),
    }
}

fn list_skills() -> Tool {
    Tool {
        name: "listSkills",
        title: "List skills",
        description: "List all guides on using this toolchain, with URI and summary. Read the \
                      text with getSkills."
            .to_owned(),
        input_schema: json!({"type": "object", "properties": {}}),
        output_schema: Some(skills_schema("skills", "All guides.")),
        annotations: reading(),
    }
}

fn get_skills() -> Tool {
    Tool {
        name: "getSkills",
        title: "Read skills",
        description: "Read the full text of guides by the URIs that listSkills or searchSkills \
                      gave."
            .to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "uris": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "URIs of guides, such as `cja-skill://rust/run-a-program`."
                }
            },
            "required": ["uris"]
        }),
        output_schema: Some(skills_schema("skills", "The guides with their text.")),
        annotations: reading(),
    }
}

fn compile() -> Tool {
    Tool {
        name: "compile",
        title: "Compile a source tree",
        description: "Compile source files to a library archive without running them: to check \
                      code and read the compiler's messages, or to get the archive. Code that \
                      does not compile is a normal result: `exitStatus` is not 0 and \
                      `diagnostics` says why. With the built-in Rust toolchain, \
                      {\"files\": {\"demo/main.rs\": \"pub fn run() -> i32 { 0 }\"}, \"entry\": \
                      \"demo.main.run\"} compiles. An equal call is answered from a cache."
            .to_owned(),
        input_schema: build_schema(),
        output_schema: Some(json!({
            "type": "object",
            "properties": {
                "exitStatus": {
                    "type": "integer",
                    "description": "The compiler's exit code: 0 when it compiled; 128 + n when \
                                    it was ended by signal n."
                },
                "diagnostics": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "The lines of the compiler's messages."
                },
                "artifact": {
                    "type": "string",
                    "contentEncoding": "base64",
                    "description": "The archive in base64; there exactly when exitStatus is 0."
                },
                "notes": notes_schema(),
                "cacheHit": cache_hit_schema()
            },
            "required": ["exitStatus", "diagnostics", "cacheHit"],
            "additionalProperties": false
        })),
        annotations: json!({
            "readOnlyHint": false,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": false
        }),
    }
}

fn jit_execute() -> Tool {
    Tool {
        name: "jit_execute",
        title: "Run a source tree",
        description: "Compile source files and run one function in a fresh process, with no \
                      input and nothing left from earlier calls. The function's return value is \
                      the exit code. Code that does not compile, fails or runs too long is a \
                      normal result: `exitStatus` is not 0, `stderr` and `notes` say why. With \
                      the built-in Rust toolchain, {\"files\": {\"demo/main.rs\": \"pub fn run() \
                      -> i32 { println!(\\\"hello\\\"); 0 }\"}, \"entry\": \"demo.main.run\"} \
                      prints hello. An equal call is answered from a cache and runs nothing; \
                      change a comment to run again."
            .to_owned(),
        input_schema: build_schema(),
        output_schema: Some(json!({
            "type": "object",
            "properties": {
                "returnValue": {
                    "type": "integer",
                    "description": "What the entry returned; the same as exitStatus."
                },
                "exitStatus": {
                    "type": "integer",
                    "description": "The exit code of the process; 128 + n when it was ended by \
                                    signal n."
                },
                "stdout": {"type": "string", "description": "What the program printed."},
                "stderr": {
                    "type": "string",
                    "description": "What the program and the compiler wrote to stderr; lines \
                                    that begin [jit-run] are the toolchain's own."
                },
                "notes": notes_schema(),
                "cacheHit": cache_hit_schema()
            },
            "required": ["returnValue", "exitStatus", "stdout", "stderr", "cacheHit"],
            "additionalProperties": false
        })),
        annotations: json!({
            "readOnlyHint": false,
            "destructiveHint": true,
            "idempotentHint": false,
            "openWorldHint": true
        }),
    }
}

fn build_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "files": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "minProperties": 1,
                "description": "The whole source tree: relative path (with `/`, never `..`) to \
                                the file's content. Folders are made as needed."
            },
            "entry": {
                "type": "string",
                "description": "The function to build for or run, as `pkg.Class.method`; for \
                                Rust `pkg.module.function`, a `pub fn() -> i32` in \
                                `pkg/module.rs`."
            }
        },
        "required": ["files", "entry"]
    })
}

fn skills_schema(member: &str, description: &str) -> Value {
    json!({
        "type": "object",
        "properties": {
            member: {"type": "array", "description": description},
            "notes": notes_schema()
        },
        "required": [member],
        "additionalProperties": false
    })
}

fn notes_schema() -> Value {
    json!({
        "type": "array",
        "items": {"type": "string"},
        "description": "What happened to the process from outside, if anything did: killed by a \
                        limit, output cut, died by a signal."
    })
}

fn cache_hit_schema() -> Value {
    json!({
        "type": "boolean",
        "description": "Whether the result was taken from an equal call instead of done anew."
    })
}

fn reading() -> Value {
    json!({
        "readOnlyHint": true,
        "destructiveHint": false,
        "idempotentHint": true,
        "openWorldHint": false
    })
}
