//! The ten tools, and the functions exported as tools.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use touchstone_language::analysis::{Checked, is_library};
use touchstone_language::codes;
use touchstone_language::delta::{delta, frozen_breaches};
use touchstone_language::diagnostic::{Lines, Position, Severity};
use touchstone_language::env::Env;
use touchstone_language::format::format;
use touchstone_language::machine::Budget;
use touchstone_language::query;
use touchstone_language::snapshot::{Edit, EditRange, MAX_FILE_BYTES, MAX_FILES, Snapshot};
use touchstone_language::testing::{self, TestOptions, TestResult};

use super::config::{Export, Settings};
use super::exported::{self, Exported};
use super::pages;
use super::state::{self, State};
use crate::protocol::{Call, Completed, Family as ToolFamily, Found, Offers, Outcome, Tool};

/// The version of the language.
pub(super) const LANGUAGE_VERSION: &str = "0.1";
/// How long a check may take when the call does not say.
const CHECK_TIME: Duration = Duration::from_secs(20);
/// The most steps a call may ask for.
const MAX_STEPS: u64 = 2_000_000_000;
/// The most cases a call may ask for.
const MAX_CASES: u64 = 10_000;

/// The workspace tools.
pub struct Family {
    settings: Settings,
    state: Mutex<State>,
    exported: Vec<Exported>,
}

/// Why a call gave no result: a word and a sentence.
struct Refused(&'static str, String);

type Answer = Result<Outcome, Refused>;

impl Family {
    /// Opens the workspace.
    ///
    /// # Errors
    /// One line: what cannot be read, or which function cannot be exported.
    pub fn open(settings: Settings) -> Result<Self, String> {
        let mut state = State::open(settings.root.clone())?;
        let exported = match &settings.export {
            Export::Nothing => Vec::new(),
            export => exported::find(&mut state, export)?,
        };
        Ok(Self {
            settings,
            state: Mutex::new(state),
            exported,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a panic left behind is no worse than it was: the tables are keyed by content.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, name: &str, arguments: &Map<String, Value>, call: &Call) -> Answer {
        match name {
            "compiler_info" => self.compiler_info(),
            "check" => self.check(arguments, call),
            "symbol_query" => self.symbol_query(arguments),
            "hole_context" => self.hole_context(arguments, call),
            "docs_query" => self.docs_query(arguments),
            "explain_diagnostic" => {
                let head = self.state().head.id().clone();
                explain(arguments, &head)
            }
            "format" => self.format(arguments),
            "check_patch" => self.check_patch(arguments, call),
            "apply_patch" => self.apply_patch(arguments),
            "test" => self.test(arguments, call),
            _ => match self.exported.iter().find(|tool| tool.name == name) {
                Some(tool) => Ok(tool.call(arguments, call, self.settings.permissions)),
                None => Err(Refused(
                    "unknown_tool",
                    format!("there is no tool `{name}`"),
                )),
            },
        }
    }

    /// The snapshot that the arguments name.
    fn snapshot(&self, arguments: &Map<String, Value>) -> Result<Snapshot, Refused> {
        let id = text(arguments, "snapshot")?.ok_or_else(|| missing("snapshot"))?;
        self.state().snapshot(id).ok_or_else(|| {
            Refused(
                "unknown_snapshot",
                format!("there is no snapshot `{id}`, or it was forgotten; compiler_info gives the current one"),
            )
        })
    }

    fn env(&self, snapshot: &Snapshot) -> Env {
        self.state().analyzer.env(snapshot)
    }

    fn checked(
        &self,
        env: &Env,
        paths: Option<&BTreeSet<String>>,
        until: Instant,
        call: &Call,
    ) -> Checked {
        let stopped = || call.cancelled() || Instant::now() >= until;
        self.state().analyzer.check(env, paths, &stopped)
    }

    fn compiler_info(&self) -> Answer {
        let mut state = self.state();
        state
            .refresh()
            .map_err(|why| Refused("workspace", format!("the workspace cannot be read: {why}")))?;
        Ok(done(json!({
            "name": "touchstone-sakura",
            "version": env!("CARGO_PKG_VERSION"),
            "language_version": LANGUAGE_VERSION,
            "features": [
                "snapshots", "patches", "interface_delta", "frozen_specs", "typed_holes", "effects",
                "failures", "contracts", "refinements", "properties", "tool_export"
            ],
            "snapshot": &**state.head.id(),
            "write_back": self.settings.write_back,
            "limits": {
                "files": MAX_FILES,
                "file_bytes": MAX_FILE_BYTES,
                "snapshots": state::MAX_SNAPSHOTS,
                "snapshot_bytes": state::MAX_BYTES,
                "patches": state::MAX_PATCHES,
                "test_steps": MAX_STEPS,
                "test_cases": MAX_CASES,
                "check_ms": CHECK_TIME.as_millis() as u64,
            },
        })))
    }

    fn check(&self, arguments: &Map<String, Value>, call: &Call) -> Answer {
        let snapshot = self.snapshot(arguments)?;
        let paths = paths(arguments, &snapshot)?;
        let budget = number(arguments, "budget_ms")?.map_or(CHECK_TIME, Duration::from_millis);
        let until = Instant::now() + budget.min(CHECK_TIME);
        let env = self.env(&snapshot);
        let checked = self.checked(&env, paths.as_ref(), until, call);
        let mut out = checked_json(&checked);
        out["snapshot"] = json!(&**snapshot.id());
        Ok(done(out))
    }

    fn symbol_query(&self, arguments: &Map<String, Value>) -> Answer {
        let snapshot = match arguments.contains_key("snapshot") {
            true => self.snapshot(arguments)?,
            false => self.state().head.clone(),
        };
        let env = self.env(&snapshot);
        let given: Vec<(&str, &str)> = ["name", "id", "type_pattern"]
            .into_iter()
            .filter_map(|key| {
                text(arguments, key)
                    .transpose()
                    .map(|found| found.map(|value| (key, value)))
            })
            .collect::<Result<_, _>>()?;
        let [(key, wanted)] = given.as_slice() else {
            return Err(Refused(
                "bad_argument",
                "give exactly one of `name`, `id`, `type_pattern`".to_owned(),
            ));
        };
        let symbols = match *key {
            "name" => query::find_by_name(&env, wanted),
            "type_pattern" => {
                query::find_by_type(&env, wanted).map_err(|why| Refused("bad_argument", why))?
            }
            _ => {
                let sym = std::sync::Arc::from(*wanted);
                if query::symbol_json(&env, &sym).is_none() {
                    let message = format!(
                        "there is no symbol `{wanted}`; ids look like `module::name`, and `name` finds them"
                    );
                    return Err(Refused("unknown_symbol", message));
                }
                vec![sym]
            }
        };
        let total = symbols.len();
        let shown: Vec<Value> = symbols
            .iter()
            .take(100)
            .filter_map(|sym| query::symbol_json(&env, sym))
            .collect();
        Ok(done(
            json!({"snapshot": &**snapshot.id(), "symbols": shown, "total": total}),
        ))
    }

    fn hole_context(&self, arguments: &Map<String, Value>, call: &Call) -> Answer {
        let snapshot = self.snapshot(arguments)?;
        let id = text(arguments, "hole_id")?.ok_or_else(|| missing("hole_id"))?;
        let env = self.env(&snapshot);
        let checked = self.checked(&env, None, Instant::now() + CHECK_TIME, call);
        let Some(hole) = checked.holes.iter().find(|hole| hole.id == id) else {
            let known: Vec<&str> = checked
                .holes
                .iter()
                .map(|hole| hole.id.as_str())
                .take(20)
                .collect();
            let known = if known.is_empty() {
                "this snapshot has none".to_owned()
            } else {
                format!("there are {}", known.join(", "))
            };
            return Err(Refused(
                "unknown_hole",
                format!("there is no hole `{id}`; {known}"),
            ));
        };
        Ok(done(
            json!({"snapshot": &**snapshot.id(), "hole": query::hole_json(&env, hole)}),
        ))
    }

    fn docs_query(&self, arguments: &Map<String, Value>) -> Answer {
        let head = self.state().head.clone();
        let env = self.env(&head);
        let budget = number(arguments, "budget_tokens")?;
        let pieces = match (text(arguments, "topic")?, text(arguments, "symbol")?) {
            (Some(topic), None) => query::topic(&env, topic),
            (None, Some(symbol)) => {
                let found = query::find_by_name(&env, symbol);
                found
                    .iter()
                    .filter_map(|sym| query::symbol_docs(&env, sym))
                    .collect()
            }
            _ => {
                return Err(Refused(
                    "bad_argument",
                    "give exactly one of `topic` and `symbol`".to_owned(),
                ));
            }
        };
        if pieces.is_empty() {
            let topics: Vec<String> = query::sections()
                .into_iter()
                .map(|piece| piece.title)
                .collect();
            let message = format!(
                "nothing is documented under that; topics are List, String, std/http, …, and: {}",
                topics.join(", ")
            );
            return Err(Refused("unknown_topic", message));
        }
        let (text, omitted) = query::within(pieces, budget);
        Ok(done(
            json!({"snapshot": &**head.id(), "text": text, "omitted": omitted}),
        ))
    }

    fn format(&self, arguments: &Map<String, Value>) -> Answer {
        let snapshot = self.snapshot(arguments)?;
        let paths = paths(arguments, &snapshot)?;
        let env = self.env(&snapshot);
        let mut edits = Vec::new();
        let mut skipped = Vec::new();
        for module in env.modules.by_name.values().filter(|m| !is_library(m)) {
            if paths
                .as_ref()
                .is_some_and(|paths| !paths.contains(&*module.path))
            {
                continue;
            }
            match format(module) {
                None => skipped.push(json!({"path": &*module.path, "reason": "it has syntax errors; check tells them"})),
                Some(text) if text == *module.text => {}
                Some(text) => edits.push(Edit { path: module.path.to_string(), range: None, text: Some(text) }),
            }
        }
        let shown: Vec<Value> = edits
            .iter()
            .map(|edit| json!({"path": edit.path, "text": edit.text}))
            .collect();
        let result = edited(&snapshot, &edits)?;
        let patch_id = self.state().keep_patch(&snapshot, &edits, result);
        Ok(done(
            json!({"snapshot": &**snapshot.id(), "patch_id": patch_id, "edits": shown, "skipped": skipped}),
        ))
    }

    fn check_patch(&self, arguments: &Map<String, Value>, call: &Call) -> Answer {
        let snapshot = self.snapshot(arguments)?;
        let edits = edits(arguments)?;
        let result = edited(&snapshot, &edits)?;
        let (old, new) = (self.env(&snapshot), self.env(&result));
        let checked = self.checked(&new, None, Instant::now() + CHECK_TIME, call);
        let changes = delta(&old, &new);
        let breaches = frozen_breaches(&self.settings.frozen, &old, &new, &changes);
        let mut out = checked_json(&checked);
        if let Some(list) = out["diagnostics"].as_array_mut() {
            list.extend(breaches.iter().map(|d| d.to_json()));
        }
        out["snapshot"] = json!(&**snapshot.id());
        out["interface_delta"] = changes.iter().map(|c| c.to_json()).collect();
        out["would_apply"] = json!(breaches.is_empty());
        out["patch_id"] = json!(self.state().keep_patch(&snapshot, &edits, result));
        Ok(done(out))
    }

    fn apply_patch(&self, arguments: &Map<String, Value>) -> Answer {
        let given = text(arguments, "snapshot")?.ok_or_else(|| missing("snapshot"))?;
        let id = text(arguments, "patch_id")?.ok_or_else(|| missing("patch_id"))?;
        let patch = self.state().patch(id).ok_or_else(|| {
            Refused(
                "unknown_patch",
                format!("there is no patch `{id}`, or it was forgotten; check_patch makes one"),
            )
        })?;
        if **patch.base.id() != *given {
            let current = self.snapshot(arguments)?;
            let paths: Vec<String> = state::differing(&patch.base, &current);
            let message = format!(
                "the patch was made against {}; make it again with check_patch",
                patch.base.id()
            );
            return Ok(failed(json!({
                "snapshot": given,
                "applied": false,
                "conflict": {"made_against": &**patch.base.id(), "paths": paths, "message": message},
            })));
        }
        let (old, new) = (self.env(&patch.base), self.env(&patch.result));
        let breaches = frozen_breaches(&self.settings.frozen, &old, &new, &delta(&old, &new));
        if !breaches.is_empty() {
            let diagnostics: Vec<Value> = breaches.iter().map(|d| d.to_json()).collect();
            return Ok(failed(
                json!({"snapshot": given, "applied": false, "diagnostics": diagnostics}),
            ));
        }
        let mut state = self.state();
        let of_head = state.head.id() == patch.base.id();
        let mut written = false;
        if self.settings.write_back {
            if !of_head {
                let message =
                    "only a patch of the head can be written back; compiler_info gives the head"
                        .to_owned();
                return Err(Refused("not_head", message));
            }
            let done = state.write_back(&patch.base, &patch.result);
            done.map_err(|why| Refused("write_back", format!("not written: {why}")))?;
            written = true;
        }
        state.remember(&patch.result);
        if of_head {
            state.head = patch.result.clone();
        }
        Ok(done(json!({
            "snapshot": &**patch.result.id(),
            "applied": true,
            "changed": state::differing(&patch.base, &patch.result),
            "written": written,
        })))
    }

    fn test(&self, arguments: &Map<String, Value>, call: &Call) -> Answer {
        let snapshot = self.snapshot(arguments)?;
        let selectors = strings(arguments, "selectors")?;
        let options = test_options(arguments)?;
        let env = self.env(&snapshot);
        let checked = self.checked(&env, None, Instant::now() + CHECK_TIME, call);
        let results = run_tests(&env, &checked, selectors.as_deref(), options, &|| {
            call.cancelled()
        });
        if let (Some(selectors), true) = (&selectors, results.is_empty()) {
            let message = format!(
                "no test is selected by {}; a selector is a test's name, a file's path, or `path#name`",
                selectors.join(", ")
            );
            return Err(Refused("unknown_test", message));
        }
        let count = |word: &str| results.iter().filter(|r| r["status"] == word).count();
        let (passed, failed, errors) = (count("passed"), count("failed"), count("error"));
        Ok(done(json!({
            "snapshot": &**snapshot.id(),
            "seed": options.seed,
            "results": results,
            "passed": passed,
            "failed": failed,
            "errors": errors,
        })))
    }
}

impl ToolFamily for Family {
    fn name(&self) -> &'static str {
        "workspace"
    }

    fn tools(&self) -> Vec<Tool> {
        let mut tools = table();
        tools.extend(self.exported.iter().map(Exported::tool));
        tools
    }

    fn call(&self, name: &str, arguments: &Map<String, Value>, call: &Call) -> Outcome {
        self.run(name, arguments, call)
            .unwrap_or_else(|Refused(kind, message)| error(kind, &message))
    }

    fn instructions(&self) -> Option<String> {
        Some(
            "The workspace tools check, query, patch, format and test Sakura code on immutable snapshots: \
             compiler_info gives the current snapshot, check_patch tries an edit, apply_patch gives the next snapshot. \
             docs_query with topic `language` teaches the language."
                .to_owned(),
        )
    }

    fn argument_error(&self, tool: &str, message: &str) -> Option<Outcome> {
        let kind = if self.exported.iter().any(|t| t.name == tool) {
            "invalid_arguments"
        } else {
            "bad_argument"
        };
        Some(error(kind, message))
    }

    fn argument_errors_are_results(&self) -> bool {
        true
    }

    fn offers(&self) -> Offers {
        Offers {
            resources: true,
            completions: true,
            ..Offers::default()
        }
    }

    fn resources(&self, _call: &Call) -> Result<Vec<Value>, String> {
        Ok(pages::list(&self.env(&Snapshot::empty())))
    }

    fn resource_templates(&self) -> Vec<Value> {
        pages::templates()
    }

    fn read(&self, uri: &str, _call: &Call) -> Found {
        pages::read(&self.env(&Snapshot::empty()), uri)
    }

    fn complete(
        &self,
        what: Completed<'_>,
        argument: &str,
        typed: &str,
        _context: &Map<String, Value>,
        _call: &Call,
    ) -> Option<Vec<String>> {
        pages::complete(what, argument, typed)
    }
}

// ---- results ----

pub(super) fn done(structured: Value) -> Outcome {
    outcome(structured, false)
}

pub(super) fn failed(structured: Value) -> Outcome {
    outcome(structured, true)
}

fn outcome(structured: Value, is_error: bool) -> Outcome {
    Outcome::Done {
        content: vec![json!({"type": "text", "text": structured.to_string()})],
        structured: Some(structured),
        is_error,
    }
}

pub(super) fn error(kind: &str, message: &str) -> Outcome {
    failed(json!({"error": {"kind": kind, "message": message}}))
}

/// The result of a check, but for the snapshot.
pub(super) fn checked_json(checked: &Checked) -> Value {
    let holes = checked.holes.iter().map(|hole| {
        let found = &hole.report.holes[hole.index];
        json!({
            "id": hole.id,
            "name": &*found.name.text,
            "path": hole.path,
            "range": hole.range.to_json(),
            "function": &*found.owner,
            "expected": touchstone_language::types::Solution::new().show(&found.expected),
        })
    });
    let obligations = checked.obligations.iter().map(|o| {
        json!({
            "kind": o.kind,
            "condition": o.condition,
            "path": o.path,
            "range": o.range.to_json(),
            "symbol": o.symbol,
            "in": o.owner,
            "settled": "at run time",
        })
    });
    json!({
        "diagnostics": checked.diagnostics.iter().map(|d| d.to_json()).collect::<Vec<_>>(),
        "holes": holes.collect::<Vec<_>>(),
        "obligations": obligations.collect::<Vec<_>>(),
        "complete": checked.complete,
    })
}

/// Runs the tests that are selected; those of files with errors are told and not run.
pub(super) fn run_tests(
    env: &Env,
    checked: &Checked,
    selectors: Option<&[String]>,
    options: TestOptions,
    stopped: &dyn Fn() -> bool,
) -> Vec<Value> {
    let broken: BTreeSet<&str> = checked
        .diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .map(|d| touchstone_language::names::module_name(&d.path))
        .collect();
    let mut out = Vec::new();
    for module in env.modules.by_name.values().filter(|m| !is_library(m)) {
        let reach = env.modules.reachable(module);
        let bad = reach.iter().find(|name| broken.contains(&***name));
        for (at, decl) in testing::tests(module) {
            let selected = selectors.is_none_or(|selectors| {
                let full = format!("{}#{}", module.path, decl.name.text);
                selectors.iter().any(|s| {
                    **s == *decl.name.text
                        || **s == *module.path
                        || **s == *module.name
                        || *s == full
                })
            });
            if !selected {
                continue;
            }
            let offset = module.offsets[at.chunk];
            let range = Lines::new(module.text.clone())
                .range(offset + decl.name.span.start, offset + decl.name.span.end);
            let mut shown = match bad {
                Some(name) => json!({
                    "status": "error",
                    "message": format!("`{name}` has errors; check tells them"),
                    "steps": 0,
                    "cases": 0,
                }),
                None => result_json(
                    env,
                    &testing::run_test(env, module, at, decl, options, stopped),
                ),
            };
            shown["name"] = json!(&*decl.name.text);
            shown["kind"] = json!(if decl.property { "property" } else { "test" });
            shown["path"] = json!(&*module.path);
            shown["range"] = range.to_json();
            out.push(shown);
        }
    }
    out
}

fn result_json(env: &Env, result: &TestResult) -> Value {
    let mut out = json!({
        "status": result.status.text(),
        "steps": result.steps,
        "cases": result.cases,
        "shrinks": result.shrinks,
        "log": result.log,
    });
    if let Some(message) = &result.message {
        out["message"] = json!(message);
    }
    if !result.counterexample.is_empty() {
        let values = result
            .counterexample
            .iter()
            .map(|(name, value)| (name.to_string(), json!(value)));
        out["counterexample"] = Value::Object(values.collect());
    }
    if let Some(stop) = &result.stop {
        out["kind_of_stop"] = json!(stop.kind());
        out["stack"] = stop
            .stack()
            .iter()
            .map(|place| place_json(env, place))
            .collect();
    }
    out
}

/// A place of a stack.
pub(super) fn place_json(env: &Env, place: &touchstone_language::host::Place) -> Value {
    let module = env
        .modules
        .by_name
        .get(touchstone_language::names::module_name(&place.path));
    let range = module.map(|m| {
        Lines::new(m.text.clone())
            .range(place.start, place.end)
            .to_json()
    });
    json!({"function": place.function, "path": place.path, "range": range})
}

fn explain(arguments: &Map<String, Value>, head: &str) -> Answer {
    let wanted = match (text(arguments, "code")?, text(arguments, "id")?) {
        (Some(wanted), None) | (None, Some(wanted)) => wanted,
        _ => {
            return Err(Refused(
                "bad_argument",
                "give exactly one of `code` and `id`".to_owned(),
            ));
        }
    };
    let Some(page) = codes::find(wanted.trim()) else {
        let message =
            format!("there is no code `{wanted}`; codes are `V` and four digits, like V3001");
        return Err(Refused("unknown_code", message));
    };
    Ok(done(json!({
        "snapshot": head,
        "code": page.code,
        "name": page.name,
        "severity": page.severity.text(),
        "meaning": page.meaning,
        "why": page.why,
        "wrong": page.wrong,
        "right": page.right,
        "text": page.text(),
    })))
}

// ---- arguments ----

fn missing(name: &str) -> Refused {
    Refused("bad_argument", format!("`{name}` is missing"))
}

fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Refused> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Refused(
            "bad_argument",
            format!("`{name}` must be a string"),
        )),
    }
}

fn number(arguments: &Map<String, Value>, name: &str) -> Result<Option<u64>, Refused> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) => Ok(Some(number)),
            None => Err(Refused(
                "bad_argument",
                format!("`{name}` must be a whole number, not below 0"),
            )),
        },
    }
}

fn strings(arguments: &Map<String, Value>, name: &str) -> Result<Option<Vec<String>>, Refused> {
    let wrong = || {
        Refused(
            "bad_argument",
            format!("`{name}` must be an array of strings"),
        )
    };
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => {
            let texts: Option<Vec<String>> = items
                .iter()
                .map(|v| v.as_str().map(str::to_owned))
                .collect();
            Ok(Some(texts.ok_or_else(wrong)?))
        }
        Some(_) => Err(wrong()),
    }
}

fn paths(
    arguments: &Map<String, Value>,
    snapshot: &Snapshot,
) -> Result<Option<BTreeSet<String>>, Refused> {
    let Some(paths) = strings(arguments, "paths")? else {
        return Ok(None);
    };
    if let Some(path) = paths.iter().find(|path| snapshot.text(path).is_none()) {
        return Err(Refused(
            "unknown_path",
            format!("the snapshot has no file `{path}`"),
        ));
    }
    Ok(Some(paths.into_iter().collect()))
}

fn edited(snapshot: &Snapshot, edits: &[Edit]) -> Result<Snapshot, Refused> {
    snapshot
        .edited(edits)
        .map_err(|why| Refused("bad_edit", why))
}

fn edits(arguments: &Map<String, Value>) -> Result<Vec<Edit>, Refused> {
    let Some(Value::Array(items)) = arguments.get("edits") else {
        return Err(Refused(
            "bad_argument",
            "`edits` must be an array of {path, range?, text}".to_owned(),
        ));
    };
    items
        .iter()
        .enumerate()
        .map(|(index, item)| edit(index, item))
        .collect()
}

fn edit(index: usize, item: &Value) -> Result<Edit, Refused> {
    let wrong = |why: &str| Refused("bad_edit", format!("edit {index}: {why}"));
    let path = item["path"]
        .as_str()
        .ok_or_else(|| wrong("`path` must be a string"))?
        .to_owned();
    let text = match item.get("text") {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Null) => None,
        _ => return Err(wrong("`text` must be a string, or null to delete the file")),
    };
    let range = match item.get("range") {
        None | Some(Value::Null) => None,
        Some(range) => Some(edit_range(range).ok_or_else(|| {
            wrong("`range` must be {start: {line, column}, end: {line, column}} or {start_byte, end_byte}")
        })?),
    };
    Ok(Edit { path, range, text })
}

fn edit_range(range: &Value) -> Option<EditRange> {
    let small = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
    let position = |value: &Value| {
        Some(Position {
            line: small(&value["line"])?,
            column: small(&value["column"])?,
        })
    };
    if range.get("start").is_some() {
        return Some(EditRange::Positions(
            position(&range["start"])?,
            position(&range["end"])?,
        ));
    }
    Some(EditRange::Bytes(
        small(&range["start_byte"])?,
        small(&range["end_byte"])?,
    ))
}

fn test_options(arguments: &Map<String, Value>) -> Result<TestOptions, Refused> {
    let mut options = TestOptions {
        seed: number(arguments, "seed")?.unwrap_or(0),
        ..TestOptions::default()
    };
    let none = Map::new();
    let budget = match arguments.get("budget") {
        None | Some(Value::Null) => &none,
        Some(Value::Object(budget)) => budget,
        Some(_) => {
            return Err(Refused(
                "bad_argument",
                "`budget` must be an object {steps?, memory_bytes?, cases?}".to_owned(),
            ));
        }
    };
    let default = Budget::default();
    options.budget.steps = number(budget, "steps")?
        .unwrap_or(default.steps)
        .min(MAX_STEPS);
    let memory = number(budget, "memory_bytes")?.unwrap_or(default.memory as u64);
    options.budget.memory = usize::try_from(memory)
        .unwrap_or(usize::MAX)
        .min(default.memory);
    let cases = number(budget, "cases")?
        .unwrap_or(u64::from(options.cases))
        .min(MAX_CASES);
    options.cases = u32::try_from(cases).unwrap_or(u32::MAX);
    Ok(options)
}

// ---- the table of tools ----

fn table() -> Vec<Tool> {
    let snapshot = json!({"type": "string", "description": "The id of a snapshot, `s_…`."});
    let paths =
        json!({"type": "array", "items": {"type": "string"}, "description": "Only these files."});
    let position = json!({
        "type": "object",
        "properties": {"line": {"type": "integer", "minimum": 1}, "column": {"type": "integer", "minimum": 1}},
        "required": ["line", "column"]
    });
    let edits = json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "range": {
                    "type": "object",
                    "description": "What is replaced; without it the whole file.",
                    "properties": {
                        "start": position, "end": position,
                        "start_byte": {"type": "integer", "minimum": 0},
                        "end_byte": {"type": "integer", "minimum": 0}
                    }
                },
                "text": {"type": ["string", "null"], "description": "The new text; null deletes the file."}
            },
            "required": ["path", "text"]
        }
    });
    let tool =
        |name, title, description: &str, properties: Value, required: &[&str], read_only: bool| {
            Tool {
                name,
                title,
                description: description.to_owned(),
                input_schema: json!({
                    "type": "object",
                    "properties": properties,
                    "required": required,
                    "additionalProperties": false
                }),
                output_schema: Some(output_schema(name)),
                annotations: json!({
                    "readOnlyHint": read_only,
                    "destructiveHint": false,
                    "idempotentHint": true,
                    "openWorldHint": false
                }),
            }
        };
    vec![
        tool(
            "compiler_info",
            "Compiler",
            "Name, version, features and limits of the Sakura compiler, and the current snapshot of the workspace. Call it first.",
            json!({}),
            &[],
            true,
        ),
        tool(
            "check",
            "Check",
            "Checks the files of a snapshot: diagnostics with fixes, typed holes, and the conditions left to run time.",
            json!({"snapshot": snapshot, "paths": paths, "budget_ms": {"type": "integer", "minimum": 0, "description": "Stop after so many milliseconds; `complete` is then false."}}),
            &["snapshot"],
            true,
        ),
        tool(
            "symbol_query",
            "Find symbols",
            "Finds functions, types and errors by name, by id, or functions by the pattern of their type, such as `(List<A>, _) -> List<A>`. Gives full signatures with effects, failures and contracts.",
            json!({"snapshot": snapshot, "name": {"type": "string"}, "id": {"type": "string"}, "type_pattern": {"type": "string"}}),
            &[],
            true,
        ),
        tool(
            "hole_context",
            "Around a hole",
            "What is known around a typed hole `?name`: expected type, allowed effects and failures, names in scope, functions that fit, contracts.",
            json!({"snapshot": snapshot, "hole_id": {"type": "string", "description": "As `check` gives it."}}),
            &["snapshot", "hole_id"],
            true,
        ),
        tool(
            "docs_query",
            "Documentation",
            "Documentation of the language (topic `language` or a section of it), of the standard library (`List`, `std/http`), or of a symbol, within a budget of tokens.",
            json!({"topic": {"type": "string"}, "symbol": {"type": "string"}, "budget_tokens": {"type": "integer", "minimum": 0}}),
            &[],
            true,
        ),
        tool(
            "explain_diagnostic",
            "Explain",
            "What a diagnostic's code means and why, with a wrong and a right example.",
            json!({"code": {"type": "string", "description": "Like V3001."}, "id": {"type": "string", "description": "The code, or its name."}}),
            &[],
            true,
        ),
        tool(
            "format",
            "Format",
            "Lays out files canonically: a patch, with no edits for what is canonical already.",
            json!({"snapshot": snapshot, "paths": paths}),
            &["snapshot"],
            true,
        ),
        tool(
            "check_patch",
            "Try a patch",
            "Tries edits on a snapshot without changing anything: diagnostics of the result, and what changes in signatures, effects, failures and contracts. Gives a patch_id for apply_patch.",
            json!({"snapshot": snapshot, "edits": edits}),
            &["snapshot", "edits"],
            true,
        ),
        tool(
            "apply_patch",
            "Apply a patch",
            "Applies a patch to the snapshot it was made against and gives the next snapshot; conflicts with any other, and is refused where it changes a frozen specification.",
            json!({"snapshot": snapshot, "patch_id": {"type": "string"}}),
            &["snapshot", "patch_id"],
            false,
        ),
        tool(
            "test",
            "Run tests",
            "Runs tests and properties of a snapshot: repeatable by seed, with the network denied, within a budget. Counterexamples are made small.",
            json!({
                "snapshot": snapshot,
                "selectors": {"type": "array", "items": {"type": "string"}, "description": "Names of tests, paths of files, or `path#name`."},
                "seed": {"type": "integer", "minimum": 0},
                "budget": {
                    "type": "object",
                    "properties": {
                        "steps": {"type": "integer", "minimum": 0},
                        "memory_bytes": {"type": "integer", "minimum": 0},
                        "cases": {"type": "integer", "minimum": 0}
                    },
                    "additionalProperties": false
                }
            }),
            &["snapshot"],
            true,
        ),
    ]
}

/// The members of a result. None is required: a failure has `error` alone.
fn output_schema(tool: &str) -> Value {
    let (object, array, string, boolean) = (
        json!({"type": "object"}),
        json!({"type": "array"}),
        json!({"type": "string"}),
        json!({"type": "boolean"}),
    );
    let integer = json!({"type": "integer"});
    let diagnostics = [
        ("diagnostics", &array),
        ("holes", &array),
        ("obligations", &array),
        ("complete", &boolean),
    ];
    let own: Vec<(&str, &Value)> = match tool {
        "compiler_info" => vec![
            ("name", &string),
            ("version", &string),
            ("language_version", &string),
            ("features", &array),
            ("limits", &object),
            ("write_back", &boolean),
        ],
        "check" => diagnostics.to_vec(),
        "symbol_query" => vec![("symbols", &array), ("total", &integer)],
        "hole_context" => vec![("hole", &object)],
        "docs_query" => vec![("text", &string), ("omitted", &array)],
        "explain_diagnostic" => vec![
            ("code", &string),
            ("name", &string),
            ("severity", &string),
            ("meaning", &string),
            ("why", &string),
            ("wrong", &string),
            ("right", &string),
            ("text", &string),
        ],
        "format" => vec![
            ("patch_id", &string),
            ("edits", &array),
            ("skipped", &array),
        ],
        "check_patch" => diagnostics
            .into_iter()
            .chain([
                ("patch_id", &string),
                ("interface_delta", &array),
                ("would_apply", &boolean),
            ])
            .collect(),
        "apply_patch" => vec![
            ("applied", &boolean),
            ("conflict", &object),
            ("diagnostics", &array),
            ("changed", &array),
            ("written", &boolean),
        ],
        _ => vec![
            ("seed", &integer),
            ("results", &array),
            ("passed", &integer),
            ("failed", &integer),
            ("errors", &integer),
        ],
    };
    let mut properties: Map<String, Value> = own
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), schema.clone()))
        .collect();
    properties.insert("snapshot".to_owned(), string.clone());
    properties.insert(
        "error".to_owned(),
        json!({"type": "object", "properties": {"kind": string, "message": string}}),
    );
    json!({"type": "object", "properties": properties})
}
