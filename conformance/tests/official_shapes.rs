//! Our shapes against the official schemas: thousands of valid and broken messages, one answer.
//!
//! The official schemas are not part of this repository. Set `MCP_SCHEMA_DIR` to a folder that
//! holds them as `<revision>.json` (the `schema.json` of each revision); without it the test says
//! that it was skipped. `-- --nocapture` shows the counts.
//!
//! Messages are not written by hand: they are read off the official schemas, with all members
//! and with the required ones only, each kind of each union once. Then every member of every
//! message is dropped, replaced by a value of each other type, and given a stranger as neighbour.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use jsonschema::{Draft, Registry, Validator};
use serde_json::{Map, Value, json};
use touchstone::spec::Revision;
use touchstone::spec::shape::{Fault, Subject, faults};

/// Places where we are stricter than the official schemas, on purpose: the requirement, and why.
/// The text of the specification asks for it, or JSON Schema does not check it by default.
const STRICTER: &[(&str, &str)] = &[
    ("annotations.last-modified", "the text asks for ISO 8601"),
    (
        "caching.no-hints-on-input-required",
        "the text gives interim results no hints",
    ),
    ("completion.max-100", "a comment until 2025-11-25"),
    (
        "content.media",
        "`format: byte` is not asserted; media types are not checked",
    ),
    (
        "discover.result-shape",
        "no version at all is a server for nobody",
    ),
    (
        "elicitation.flat-schema",
        "a broken kind passes there as another kind with unknown members",
    ),
    ("elicitation.url.fields", "`format: uri` is not asserted"),
    (
        "elicitation.url.fields.2025-11-25",
        "`format: uri` is not asserted",
    ),
    (
        "extensions.identifier",
        "the grammar of identifiers is text",
    ),
    ("icons.src-scheme", "the text names the schemes"),
    (
        "jsonrpc.error.code-integer",
        "1.0 is an integer to JSON Schema",
    ),
    (
        "jsonrpc.notification.no-id",
        "a stranger is allowed there, `id` included",
    ),
    (
        "jsonrpc.request.id-valid",
        "a request with a null id passes there as a notification",
    ),
    (
        "jsonrpc.response.id-type",
        "passes there as something else with strangers",
    ),
    (
        "jsonrpc.response.result-xor-error",
        "a stranger is allowed there, `error` included",
    ),
    ("meta.key-format", "the grammar of keys is text"),
    ("meta.object", "not typed everywhere"),
    ("mrtr.allowed-methods", "text"),
    ("mrtr.input-or-state", "text"),
    ("ping.empty-result", "text"),
    ("progress.server-token", "not typed everywhere"),
    (
        "prompts.embedded-resource.fields",
        "the text asks for a media type",
    ),
    (
        "resources.read.blob-base64",
        "`format: byte` is not asserted",
    ),
    (
        "resources.templates.rfc6570",
        "`format: uri-template` is not asserted",
    ),
    ("resources.uri-valid", "`format: uri` is not asserted"),
    ("stdio.no-server-requests", "text"),
    ("tasks.create", "the text asks for ISO 8601"),
    ("tasks.get-shape", "the text asks for ISO 8601"),
    ("tasks.list", "the text asks for ISO 8601"),
];

/// Why we accept what the official schema refuses, if that is on purpose.
fn laxer(
    revision: Revision,
    subject: Subject<'_>,
    value: &Value,
    path: &[Step],
) -> Option<&'static str> {
    let names: Vec<&str> = path
        .iter()
        .filter_map(|step| match step {
            Step::Member(name) => Some(name.as_str()),
            Step::Item(_) => None,
        })
        .collect();
    let at = |name: &str| names.contains(&name);
    if subject == Subject::Message && value["result"].is_object() {
        return Some("what a result holds is asked of the result");
    }
    if value.is_array() && revision <= Revision::V2025_03_26 {
        return Some("what holds of a batch is asked of each of its messages");
    }
    if at("outputSchema") && (at("properties") || at("type")) {
        return Some("unusual but valid output schemas: boolean subschemas, `type` as a list");
    }
    if at("inputSchema") && at("type") && revision == Revision::V2026_07_28 {
        return Some("`type` of an input schema as a list is free in 2026-07-28");
    }
    if revision == Revision::V2026_07_28
        && (at("capabilities") || at("requiredCapabilities") || at("metadata"))
    {
        return Some("the generated JSON value type forgets null and fractions");
    }
    if let Some(kind) = value["resultType"].as_str()
        && kind != "complete"
        && kind != "input_required"
    {
        return Some("a result of an extension has its own shape");
    }
    None
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Member(String),
    Item(usize),
}

/// The official schema of one revision.
struct Official {
    defs: Map<String, Value>,
    key: &'static str,
    registry: Registry<'static>,
    validators: HashMap<String, Validator>,
    draft: Draft,
}

impl Official {
    fn read(text: &str) -> Official {
        let mut document: Value = serde_json::from_str(text).expect("an official schema");
        let key = if document.get("$defs").is_some() {
            "$defs"
        } else {
            "definitions"
        };
        // An error that answers an unreadable request has no id, or a null one.
        for name in ["JSONRPCError", "JSONRPCErrorResponse"] {
            if document[key].get(name).is_some() {
                let error = &mut document[key][name];
                error["required"] = json!(["error", "jsonrpc"]);
                error["properties"]["id"] = json!({ "type": ["string", "integer", "null"] });
            }
        }
        let draft = if key == "$defs" {
            Draft::Draft202012
        } else {
            Draft::Draft7
        };
        let registry = Registry::new()
            .draft(draft)
            .add("official:schema", document.clone())
            .expect("a schema")
            .prepare()
            .expect("a registry");
        let defs = document[key].as_object().expect("definitions").clone();
        Official {
            defs,
            key,
            registry,
            validators: HashMap::new(),
            draft,
        }
    }

    fn accepts(&mut self, name: &str, value: &Value) -> bool {
        if !self.validators.contains_key(name) {
            let validator = jsonschema::options()
                .with_draft(self.draft)
                .with_registry(&self.registry)
                .build(&json!({ "$ref": format!("official:schema#/{}/{name}", self.key) }))
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            self.validators.insert(name.to_owned(), validator);
        }
        self.validators[name].is_valid(value)
    }

    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str().and_then(|r| r.rsplit('/').next()) {
            Some(name) => self.resolve(&self.defs[name]),
            None => schema,
        }
    }

    /// Valid values of a schema: the fullest first, then one for each other kind of each union in
    /// it, then the barest.
    fn examples(&self, schema: &Value, name: &str, depth: usize) -> Vec<Value> {
        // The type of any JSON value refers to itself without end.
        if schema["$ref"].as_str().is_some_and(|r| r.contains("/JSON")) {
            return vec![json!({"a": {"b": [1]}})];
        }
        let schema = self.resolve(schema);
        if let Some(value) = schema.get("const") {
            return vec![value.clone()];
        }
        if let Some(values) = schema["enum"].as_array() {
            return values.clone();
        }
        if let Some(kinds) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            return kinds
                .iter()
                .flat_map(|k| self.examples(k, name, depth))
                .collect();
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let mut merged = Map::new();
            for part in parts {
                if let Some(Value::Object(members)) =
                    self.examples(part, name, depth).into_iter().next()
                {
                    merged.extend(members);
                }
            }
            return vec![Value::Object(merged)];
        }
        match &schema["type"] {
            Value::Array(kinds) => kinds
                .iter()
                .map(|k| plain(k.as_str().unwrap_or(""), name, schema))
                .collect(),
            Value::String(kind) if kind == "array" => {
                if depth == 0 {
                    return vec![json!([])];
                }
                let items = self.examples(&schema["items"], name, depth - 1);
                items
                    .into_iter()
                    .map(|item| json!([item]))
                    .chain([json!([])])
                    .collect()
            }
            Value::String(kind) if kind == "object" => self.objects(schema, depth),
            Value::String(kind) => vec![plain(kind, name, schema)],
            _ => vec![json!({"any": [1, null]})],
        }
    }

    fn objects(&self, schema: &Value, depth: usize) -> Vec<Value> {
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut full = Map::new();
        let mut bare = Map::new();
        let mut others = Vec::new();
        for (name, member) in properties {
            if depth == 0 && !required.contains(&name.as_str()) {
                continue;
            }
            let mut kinds = self
                .examples(member, name, depth.saturating_sub(1))
                .into_iter();
            let Some(first) = kinds.next() else { continue };
            if required.contains(&name.as_str()) {
                bare.insert(name.clone(), first.clone());
            }
            full.insert(name.clone(), first);
            others.extend(kinds.map(|kind| (name.clone(), kind)));
        }
        if let Some(more) = schema.get("additionalProperties")
            && more.as_object().is_some_and(|m| !m.is_empty())
            && depth > 0
        {
            let kinds = self.examples(more, "", depth - 1);
            for (index, kind) in kinds.into_iter().enumerate() {
                full.insert(format!("k{index}"), kind);
            }
        }
        let mut all = vec![Value::Object(full.clone())];
        for (name, kind) in others {
            let mut other = full.clone();
            other.insert(name, kind);
            all.push(Value::Object(other));
        }
        all.push(Value::Object(bare));
        all
    }
}

/// A value of a plain type, with the syntax that its name calls for.
fn plain(kind: &str, name: &str, schema: &Value) -> Value {
    match (kind, schema["format"].as_str(), name) {
        ("string", Some("byte"), _) => json!("QUJD"),
        ("string", Some("uri"), "src") => json!("https://example.com/a.png"),
        ("string", Some("uri"), _) => json!("file:///tmp/a"),
        ("string", Some("uri-template"), _) => json!("file:///{path}"),
        ("string", _, "mimeType") => json!("text/plain"),
        ("string", _, "createdAt" | "lastUpdatedAt" | "lastModified") => {
            json!("2026-01-02T03:04:05Z")
        }
        ("string", _, _) => json!("text"),
        ("integer", _, _) => json!(1),
        ("number", _, _) => json!(0.5),
        ("boolean", _, _) => json!(true),
        ("null", _, _) => Value::Null,
        _ => json!({}),
    }
}

/// Every place in a value, the root first.
fn places(value: &Value, path: &mut Vec<Step>, into: &mut Vec<Vec<Step>>) {
    into.push(path.clone());
    let children: Vec<(Step, &Value)> = match value {
        Value::Object(members) => members
            .iter()
            .map(|(n, v)| (Step::Member(n.clone()), v))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, v)| (Step::Item(i), v))
            .collect(),
        _ => Vec::new(),
    };
    for (step, child) in children {
        path.push(step);
        places(child, path, into);
        path.pop();
    }
}

fn at<'a>(value: &'a mut Value, path: &[Step]) -> &'a mut Value {
    path.iter().fold(value, |value, step| match step {
        Step::Member(name) => &mut value[name.as_str()],
        Step::Item(index) => &mut value[*index],
    })
}

/// What is put in place of a value.
fn strangers() -> Vec<Value> {
    let mut all = vec![
        json!(null),
        json!(true),
        json!("bogus"),
        json!(""),
        json!(7),
        json!(1.5),
        json!(-1),
        json!([]),
        json!({}),
        json!([null]),
        json!(["object"]),
        json!({"type": "bogus"}),
    ];
    for text in ["1.0", "1e3", "12345678901234567890123"] {
        all.push(serde_json::from_str(text).expect("a number"));
    }
    all
}

/// Changes of one place: a stranger instead, the place dropped, something added to it.
struct Changes<'a> {
    strangers: &'a [Value],
}

impl Changes<'_> {
    fn len(&self) -> usize {
        self.strangers.len() + 2
    }

    /// The change of that number, if it changes anything.
    fn make(&self, value: &Value, path: &[Step], number: usize) -> Option<Value> {
        let mut changed = value.clone();
        if let Some(stranger) = self.strangers.get(number) {
            *at(&mut changed, path) = stranger.clone();
        } else if number == self.strangers.len() {
            let (Step::Member(name), parent) = path.split_last()? else {
                return None;
            };
            at(&mut changed, parent)
                .as_object_mut()?
                .shift_remove(name.as_str());
        } else {
            match at(&mut changed, path) {
                Value::Object(members) => {
                    members.insert("x-stranger".to_owned(), json!({"a": null}));
                }
                Value::Array(items) => items.push(json!({})),
                _ => return None,
            }
        }
        Some(changed)
    }
}

/// What is compared with what.
struct Pair {
    subject: Subject<'static>,
    /// The official definitions that must all accept the value.
    official: Vec<String>,
    examples: Vec<Value>,
}

fn pairs(revision: Revision, official: &Official) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let definition = |name: &str| json!({ "$ref": format!("#/{}/{name}", official.key) });
    let results = [
        ("initialize", "InitializeResult"),
        ("ping", "EmptyResult"),
        ("logging/setLevel", "EmptyResult"),
        ("resources/subscribe", "EmptyResult"),
        ("resources/unsubscribe", "EmptyResult"),
        ("server/discover", "DiscoverResult"),
        ("subscriptions/listen", "SubscriptionsListenResult"),
        ("tools/list", "ListToolsResult"),
        ("tools/call", "CallToolResult"),
        ("resources/list", "ListResourcesResult"),
        ("resources/templates/list", "ListResourceTemplatesResult"),
        ("resources/read", "ReadResourceResult"),
        ("prompts/list", "ListPromptsResult"),
        ("prompts/get", "GetPromptResult"),
        ("completion/complete", "CompleteResult"),
        ("tasks/get", "GetTaskResult"),
        ("tasks/cancel", "CancelTaskResult"),
        ("tasks/result", "GetTaskPayloadResult"),
        ("tasks/list", "ListTasksResult"),
    ];
    for (method, name) in results {
        let subject = Subject::Result { method };
        if !official.defs.contains_key(name) || !touchstone::spec::shape::known(revision, subject) {
            continue;
        }
        let mut examples = official.examples(&definition(name), "", 7);
        if revision == Revision::V2026_07_28 {
            for example in &mut examples {
                example["resultType"] = json!("complete");
            }
        }
        pairs.push(Pair {
            subject,
            official: vec![name.to_owned()],
            examples,
        });
    }
    if revision == Revision::V2026_07_28 {
        for method in ["tools/call", "prompts/get", "resources/read"] {
            let mut examples = official.examples(&definition("InputRequiredResult"), "", 9);
            for example in &mut examples {
                example["resultType"] = json!("input_required");
                example["requestState"] = json!("s");
            }
            pairs.push(Pair {
                subject: Subject::Result { method },
                official: vec!["InputRequiredResult".into()],
                examples,
            });
        }
    }
    if revision == Revision::V2025_11_25 {
        let examples = official.examples(&definition("CreateTaskResult"), "", 7);
        pairs.push(Pair {
            subject: Subject::Result {
                method: "tools/call",
            },
            official: vec!["CreateTaskResult".into()],
            examples,
        });
    }
    let notifications = [
        ("notifications/cancelled", "CancelledNotification"),
        ("notifications/progress", "ProgressNotification"),
        ("notifications/message", "LoggingMessageNotification"),
        (
            "notifications/resources/updated",
            "ResourceUpdatedNotification",
        ),
        (
            "notifications/resources/list_changed",
            "ResourceListChangedNotification",
        ),
        (
            "notifications/tools/list_changed",
            "ToolListChangedNotification",
        ),
        (
            "notifications/prompts/list_changed",
            "PromptListChangedNotification",
        ),
        (
            "notifications/elicitation/complete",
            "ElicitationCompleteNotification",
        ),
        ("notifications/tasks/status", "TaskStatusNotification"),
        (
            "notifications/subscriptions/acknowledged",
            "SubscriptionsAcknowledgedNotification",
        ),
    ];
    for (method, name) in notifications {
        if official.defs.contains_key(name) {
            let mut examples = official.examples(&definition(name), "", 7);
            for example in &mut examples {
                example["jsonrpc"] = json!("2.0");
            }
            pairs.push(Pair {
                subject: Subject::Notification { method },
                official: vec!["JSONRPCNotification".into(), name.into()],
                examples,
            });
        }
    }
    let requests = [
        ("ping", "PingRequest"),
        ("roots/list", "ListRootsRequest"),
        ("sampling/createMessage", "CreateMessageRequest"),
        ("elicitation/create", "ElicitRequest"),
        ("tasks/get", "GetTaskRequest"),
        ("tasks/result", "GetTaskPayloadRequest"),
        ("tasks/cancel", "CancelTaskRequest"),
        ("tasks/list", "ListTasksRequest"),
    ];
    for (method, name) in requests {
        if official.defs.contains_key(name) && revision != Revision::V2026_07_28 {
            let mut examples = official.examples(&definition(name), "", 9);
            for (index, example) in examples.iter_mut().enumerate() {
                example["jsonrpc"] = json!("2.0");
                example["id"] = if index % 2 == 0 { json!(3) } else { json!("s") };
            }
            pairs.push(Pair {
                subject: Subject::Request { method },
                official: vec!["JSONRPCRequest".into(), name.into()],
                examples,
            });
        }
    }
    let mut messages = vec![
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "a", "result": {"resultType": "complete"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": {"a": 1}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/x"}),
    ];
    if revision != Revision::V2026_07_28 {
        messages.push(json!({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"_meta": {"progressToken": 1}}}));
    } else {
        messages[0]["result"]["resultType"] = json!("complete");
    }
    pairs.push(Pair {
        subject: Subject::Message,
        official: vec!["JSONRPCMessage".into()],
        examples: messages,
    });
    let mut errors = vec![(
        json!({"code": -32600, "message": "m", "data": {"x": 1}}),
        None,
    )];
    for (code, name) in [
        (-32042, "URLElicitationRequiredError"),
        (-32021, "MissingRequiredClientCapabilityError"),
        (-32022, "UnsupportedProtocolVersionError"),
    ] {
        if official.defs.contains_key(name) {
            for mut example in official.examples(&definition(name), "", 9) {
                let mut error = example["error"].take();
                error["code"] = json!(code);
                error["message"] = json!("m");
                errors.push((error, Some(name)));
            }
        }
    }
    for (error, name) in errors {
        let general = if official.defs.contains_key("JSONRPCErrorResponse") {
            "JSONRPCErrorResponse"
        } else {
            "JSONRPCError"
        };
        let official = vec![general.to_owned()]
            .into_iter()
            .chain(name.map(str::to_owned))
            .collect();
        pairs.push(Pair {
            subject: Subject::Error,
            official,
            examples: vec![error],
        });
    }
    pairs
}

#[derive(Default)]
struct Counts {
    compared: usize,
    valid: usize,
    broken: usize,
    /// Faults of a single change that point at, below or above the place that was changed.
    pointed: usize,
    allowed: BTreeMap<String, usize>,
    samples: BTreeMap<String, String>,
    differences: Vec<String>,
}

fn compare(
    revision: Revision,
    official: &mut Official,
    pair: &Pair,
    path: &[Step],
    value: &Value,
    counts: &mut Counts,
) {
    if let Subject::Notification { method } | Subject::Request { method } = pair.subject
        && value.get("method").is_some_and(|m| *m != method)
    {
        // By its method it is another message; whoever asks for the shape has read the method.
        return;
    }
    let wrapped;
    let theirs_of = if pair.subject == Subject::Error {
        wrapped = json!({"jsonrpc": "2.0", "id": 1, "error": value});
        &wrapped
    } else {
        value
    };
    // What a change of the discriminator makes of a message is judged by what it then is.
    let theirs = pair.official.iter().all(|name| match name.as_str() {
        "CallToolResult" | "GetPromptResult" | "ReadResourceResult"
            if value["resultType"] == "input_required" =>
        {
            official.accepts("InputRequiredResult", theirs_of)
        }
        "CreateTaskResult" if value.get("content").is_some() || value.get("task").is_none() => {
            official.accepts("CallToolResult", theirs_of)
        }
        "InputRequiredResult" if value["resultType"] != "input_required" => {
            let name = match pair.subject {
                Subject::Result {
                    method: "tools/call",
                } => "CallToolResult",
                Subject::Result {
                    method: "prompts/get",
                } => "GetPromptResult",
                _ => "ReadResourceResult",
            };
            official.accepts(name, theirs_of)
        }
        specific
            if pair.subject == Subject::Error
                && specific != pair.official[0]
                && value["code"] != code_of(specific) =>
        {
            true
        }
        name => official.accepts(name, theirs_of),
    });
    let found = faults(revision, pair.subject, value);
    counts.compared += 1;
    if theirs {
        counts.valid += 1;
    } else {
        counts.broken += 1;
    }
    match (theirs, found.is_empty()) {
        (true, true) => {}
        (false, false) => {
            if found.iter().any(|fault| related(&fault.pointer, path)) {
                counts.pointed += 1;
            }
        }
        (true, false) => {
            for fault in &found {
                match STRICTER.iter().find(|(id, _)| *id == fault.requirement) {
                    Some((id, why)) => note(
                        counts,
                        format!("stricter: {id}: {why}"),
                        revision,
                        pair,
                        path,
                        fault,
                        value,
                    ),
                    None => counts.differences.push(format!(
                        "{revision} {:?} at {path:?}: only we refuse: {fault:?}\n    {value}",
                        pair.subject
                    )),
                }
            }
        }
        (false, true) => match laxer(revision, pair.subject, value, path) {
            Some(why) => {
                *counts.allowed.entry(format!("laxer: {why}")).or_default() += 1;
                counts
                    .samples
                    .entry(format!("laxer: {why}"))
                    .or_insert_with(|| format!("{revision} {path:?} {value}"));
            }
            None => counts.differences.push(format!(
                "{revision} {:?} at {path:?}: only the official schema refuses\n    {value}",
                pair.subject
            )),
        },
    }
}

fn code_of(definition: &str) -> i64 {
    match definition {
        "URLElicitationRequiredError" => -32042,
        "MissingRequiredClientCapabilityError" => -32021,
        _ => -32022,
    }
}

fn note(
    counts: &mut Counts,
    key: String,
    revision: Revision,
    pair: &Pair,
    path: &[Step],
    fault: &Fault,
    value: &Value,
) {
    *counts.allowed.entry(key.clone()).or_default() += 1;
    let text = value.to_string();
    let text: String = text.chars().take(300).collect();
    let subject = pair.subject;
    counts.samples.entry(key).or_insert_with(|| {
        format!(
            "{revision} {subject:?} {path:?}\n      {} found {} expected {}\n      {text}",
            fault.pointer, fault.found, fault.expected
        )
    });
}

/// Whether one of pointer and path lies within the other.
fn related(pointer: &str, path: &[Step]) -> bool {
    let path: Vec<String> = path
        .iter()
        .map(|step| match step {
            Step::Member(name) => name.replace('~', "~0").replace('/', "~1"),
            Step::Item(index) => index.to_string(),
        })
        .collect();
    pointer.split('/').skip(1).zip(&path).all(|(a, b)| a == b)
}

/// Most changed messages of one subject in one revision.
const ENOUGH: usize = 300;

#[test]
fn our_shapes_answer_as_the_official_schemas_do() {
    let Some(folder) = std::env::var_os("MCP_SCHEMA_DIR").map(PathBuf::from) else {
        eprintln!("skipped: MCP_SCHEMA_DIR does not name a folder of official schemas");
        return;
    };
    let mut all = Counts::default();
    let strangers = strangers();
    let changes = Changes {
        strangers: &strangers,
    };
    for revision in Revision::ALL {
        let text =
            std::fs::read_to_string(folder.join(format!("{revision}.json"))).expect("schema");
        let mut official = Official::read(&text);
        let mut counts = Counts::default();
        for pair in pairs(revision, &official) {
            for example in &pair.examples {
                compare(revision, &mut official, &pair, &[], example, &mut counts);
            }
            let mut todo = Vec::new();
            for example in &pair.examples {
                let mut paths = Vec::new();
                places(example, &mut Vec::new(), &mut paths);
                todo.extend(paths.into_iter().map(|path| (example, path)));
            }
            let total = todo.len() * changes.len();
            let stride = total.div_ceil(ENOUGH) | 1;
            for number in (0..total).step_by(stride) {
                let (example, path) = &todo[number / changes.len()];
                if let Some(value) = changes.make(example, path, number % changes.len()) {
                    compare(revision, &mut official, &pair, path, &value, &mut counts);
                }
            }
        }
        eprintln!(
            "{revision}: {} messages, {} valid and {} broken to the official schema; {} of our refusals point at the change",
            counts.compared, counts.valid, counts.broken, counts.pointed
        );
        all.compared += counts.compared;
        all.valid += counts.valid;
        all.broken += counts.broken;
        all.pointed += counts.pointed;
        for (key, count) in counts.allowed {
            *all.allowed.entry(key).or_default() += count;
        }
        for (key, sample) in counts.samples {
            all.samples.entry(key).or_insert(sample);
        }
        all.differences.extend(counts.differences);
    }
    eprintln!(
        "all: {} messages, {} valid, {} broken, {} pointed at",
        all.compared, all.valid, all.broken, all.pointed
    );
    for (key, count) in &all.allowed {
        eprintln!("{count:6} {key}");
        if std::env::var_os("MCP_SCHEMA_SAMPLES").is_some() {
            eprintln!("    {}", all.samples[key]);
        }
    }
    for difference in all.differences.iter().take(40) {
        eprintln!("DIFFERENCE {difference}");
    }
    assert_eq!(
        all.differences.len(),
        0,
        "differences from the official schemas"
    );
    assert!(
        all.compared > 10_000,
        "only {} messages were compared",
        all.compared
    );
}
