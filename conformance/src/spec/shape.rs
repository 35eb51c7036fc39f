//! The shape of every message that a server may send, in every revision.
//!
//! The shapes are JSON Schema files of ours, `fixtures/shapes/<revision>.json`. Beside the
//! keywords of JSON Schema they use four of our own:
//!
//! * `x-subjects`, at the root: which definition judges which subject.
//! * `x-requirement`: the rule that a subschema stands for. Of those on the way to a fault,
//!   through `$ref`s, the nearest counts.
//! * `x-expected`: what should stand there, in words, where the keywords do not tell it.
//! * `x-integer-token`: the number is written without fraction and exponent.
//!
//! Unions are written as `if`/`then` on what tells their kinds apart, so that a fault names the
//! member at fault, and not merely that no kind fits.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{LazyLock, OnceLock};

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::Location;
use jsonschema::{Draft, Keyword, Registry, ValidationError, Validator};
use serde_json::{Value, json};

use super::{Revision, requirement};

/// What is being judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    /// The envelope of a whole message of any kind: `jsonrpc`, the id, `params` and its `_meta`,
    /// `result` or `error`. What `result` and `error` hold is left to the subjects below. A
    /// server's requests and notifications of unknown methods are judged by it, too.
    Message,
    /// The `result` member of the response to a request of this method.
    Result {
        /// The method of the request.
        method: &'a str,
    },
    /// The `error` member of a response.
    Error,
    /// A whole notification from the server, its envelope included.
    Notification {
        /// Its method.
        method: &'a str,
    },
    /// A whole request from the server, its envelope included.
    Request {
        /// Its method.
        method: &'a str,
    },
}

/// One place where a message does not have its shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The requirement that is broken.
    pub requirement: String,
    /// JSON Pointer into the judged value; for a missing member, to where it should stand.
    pub pointer: String,
    /// What stands there, shortened.
    pub found: String,
    /// What should stand there, in words.
    pub expected: String,
}

/// Every place where the value breaks the shape that the revision gives its subject. A method
/// that the revision does not know has no shape: nothing is reported.
pub fn faults(revision: Revision, subject: Subject<'_>, value: &Value) -> Vec<Fault> {
    let shapes = shapes(revision);
    let Some(name) = shapes.definition_of(subject) else {
        return Vec::new();
    };
    let Some(validator) = shapes.validator(name) else {
        return Vec::new();
    };
    if validator.is_valid(value) {
        return Vec::new();
    }
    let mut seen = HashSet::new();
    validator
        .iter_errors(value)
        .flat_map(|error| shapes.explain(name, &error))
        .filter(|fault| seen.insert(fault.clone()))
        .collect()
}

/// The requirements of the revision's shapes that the value puts to the test, whether it holds
/// or not.
pub fn exercised(revision: Revision, subject: Subject<'_>, value: &Value) -> HashSet<&'static str> {
    let shapes = shapes(revision);
    match shapes.definition_of(subject) {
        Some(name) => super::exercise::requirements(&shapes.document, name, value),
        None => HashSet::new(),
    }
}

/// Whether the revision gives this subject a shape.
pub fn known(revision: Revision, subject: Subject<'_>) -> bool {
    shapes(revision).definition_of(subject).is_some()
}

/// The requirements that shapes of this revision can report, for the list of what is covered, in
/// the order of the catalogue.
pub fn covered(revision: Revision) -> Vec<String> {
    let mut named = HashSet::new();
    collect_requirements(&shapes(revision).document, &mut named);
    requirement::catalogue()
        .iter()
        .map(|r| r.id.clone())
        .filter(|id| named.contains(id.as_str()))
        .collect()
}

fn collect_requirements<'a>(value: &'a Value, into: &mut HashSet<&'a str>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(id) if name == "x-requirement" => {
                        into.insert(id);
                    }
                    _ => collect_requirements(member, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|i| collect_requirements(i, into)),
        _ => {}
    }
}

/// The schema document of one revision, and what was compiled of it so far.
struct Shapes {
    document: Value,
    /// The document, indexed once for all validators.
    registry: Option<Registry<'static>>,
    compiled: HashMap<String, OnceLock<Option<Validator>>>,
}

/// What a validator calls the document of its revision.
const BASE: &str = "touchstone:shapes";

static SHAPES: [LazyLock<Shapes>; Revision::ALL.len()] = [
    LazyLock::new(|| Shapes::read(include_str!("../../../fixtures/shapes/2024-11-05.json"))),
    LazyLock::new(|| Shapes::read(include_str!("../../../fixtures/shapes/2025-03-26.json"))),
    LazyLock::new(|| Shapes::read(include_str!("../../../fixtures/shapes/2025-06-18.json"))),
    LazyLock::new(|| Shapes::read(include_str!("../../../fixtures/shapes/2025-11-25.json"))),
    LazyLock::new(|| Shapes::read(include_str!("../../../fixtures/shapes/2026-07-28.json"))),
];

fn shapes(revision: Revision) -> &'static Shapes {
    &SHAPES[match revision {
        Revision::V2024_11_05 => 0,
        Revision::V2025_03_26 => 1,
        Revision::V2025_06_18 => 2,
        Revision::V2025_11_25 => 3,
        Revision::V2026_07_28 => 4,
    }]
}

impl Shapes {
    fn read(text: &str) -> Shapes {
        // The embedded documents are read and compiled without a fault: the tests prove it.
        let document: Value = serde_json::from_str(text).unwrap_or_default();
        let compiled = document["$defs"]
            .as_object()
            .map(|defs| defs.keys().map(|k| (k.clone(), OnceLock::new())).collect())
            .unwrap_or_default();
        let registry = Registry::new()
            .add(BASE, document.clone())
            .and_then(|builder| builder.prepare())
            .ok();
        Shapes {
            document,
            registry,
            compiled,
        }
    }

    fn definition_of(&self, subject: Subject<'_>) -> Option<&str> {
        let subjects = &self.document["x-subjects"];
        match subject {
            Subject::Message => &subjects["message"],
            Subject::Error => &subjects["error"],
            Subject::Result { method } => &subjects["results"][method],
            Subject::Notification { method } => &subjects["notifications"][method],
            Subject::Request { method } => &subjects["requests"][method],
        }
        .as_str()
    }

    fn validator(&self, name: &str) -> Option<&Validator> {
        let compile = || self.compile(name).ok();
        self.compiled.get(name)?.get_or_init(compile).as_ref()
    }

    fn compile(&self, name: &str) -> Result<Validator, String> {
        let registry = self.registry.as_ref().ok_or("no registry of schemas")?;
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_registry(registry)
            .with_keyword("x-integer-token", |_, _, _| Ok(Box::new(IntegerToken)))
            .should_validate_formats(true)
            .build(&json!({ "$ref": format!("{BASE}#/$defs/{name}") }))
            .map_err(|error| error.to_string())
    }

    /// What an error of the validator says of the message.
    fn explain(&self, definition: &str, error: &ValidationError<'_>) -> Vec<Fault> {
        let place = self.place(definition, error.evaluation_path());
        let at = error.instance_path().as_str();
        let fault = |pointer: String, found: String, expected: Option<String>| Fault {
            requirement: place.requirement.to_owned(),
            pointer,
            found,
            expected: expected.unwrap_or_else(|| error.to_string()),
        };
        let words = place.expected.map(str::to_owned);
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let expected = self
                    .words_for(&place.schema["properties"][name])
                    .or(words)
                    .unwrap_or_else(|| format!("a member `{name}`"));
                vec![fault(child(at, name), "nothing".to_owned(), Some(expected))]
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => unexpected
                .iter()
                .map(|name| {
                    fault(
                        child(at, name),
                        shown(&error.instance()[name]),
                        words.clone(),
                    )
                })
                .collect(),
            ValidationErrorKind::PropertyNames { error: name } => {
                let key = name.instance().as_str().unwrap_or_default();
                vec![fault(
                    child(at, key),
                    format!("the key {}", shown(name.instance())),
                    words,
                )]
            }
            ValidationErrorKind::MaxItems { limit } => {
                let found = format!("{} items", error.instance().as_array().map_or(0, Vec::len));
                vec![fault(
                    at.to_owned(),
                    found,
                    Some(format!("at most {limit} items")),
                )]
            }
            ValidationErrorKind::MinItems { limit } => {
                let found = shown(error.instance());
                vec![fault(
                    at.to_owned(),
                    found,
                    Some(format!("at least {limit} item")),
                )]
            }
            _ => {
                let expected = words
                    .or_else(|| self.words_for(place.schema))
                    .or_else(|| range(place.schema));
                vec![fault(at.to_owned(), shown(error.instance()), expected)]
            }
        }
    }

    /// Follows the path of an evaluation through the document.
    fn place(&self, definition: &str, path: &Location) -> Place<'_> {
        static NOWHERE: Value = Value::Null;
        let mut place = Place {
            requirement: "stdio.stdout-only-messages",
            expected: None,
            schema: &NOWHERE,
        };
        let mut node = &self.document["$defs"][definition];
        place.enter(node);
        // The path begins with the `$ref` of the compiled wrapper, and ends with a keyword.
        let segments = path.as_str().split('/').skip(1).collect::<Vec<_>>();
        let mut within = segments.as_slice();
        if let [first, rest @ ..] = within
            && *first == "$ref"
        {
            within = rest;
        } else if let [defs, name, rest @ ..] = within
            && *defs == "$defs"
        {
            // A keyword of ours reports the place in the document instead of the way to it.
            node = &self.document["$defs"][*name];
            place.enter(node);
            within = rest;
        }
        for (index, segment) in within.iter().enumerate() {
            let deeper = index + 1 < within.len();
            node = match (segment, node) {
                (&"$ref", Value::Object(members)) => self.resolve(members.get("$ref")),
                (index, Value::Array(items)) => index
                    .parse()
                    .ok()
                    .and_then(|index: usize| items.get(index))
                    .unwrap_or(&NOWHERE),
                (name, _) => {
                    // Words for a value do not hold for what stands within it.
                    if deeper && matches!(*name, "properties" | "items" | "additionalProperties") {
                        place.expected = None;
                    }
                    &node[name.replace("~1", "/").replace("~0", "~")]
                }
            };
            place.enter(node);
        }
        place
    }

    fn resolve(&self, reference: Option<&Value>) -> &Value {
        let name = reference
            .and_then(Value::as_str)
            .and_then(|r| r.strip_prefix("#/$defs/"))
            .unwrap_or_default();
        &self.document["$defs"][name]
    }

    /// What a schema asks for, in words, if its own keywords tell it.
    fn words_for(&self, schema: &Value) -> Option<String> {
        if let Some(words) = schema["x-expected"].as_str() {
            return Some(words.to_owned());
        }
        if let Some(value) = schema.get("const") {
            return Some(value.to_string());
        }
        if let Some(values) = schema["enum"].as_array() {
            let list: Vec<String> = values.iter().map(Value::to_string).collect();
            return Some(format!("one of {}", list.join(", ")));
        }
        match &schema["type"] {
            Value::String(kind) => Some(article(kind)),
            Value::Array(kinds) => {
                let list: Vec<String> = kinds
                    .iter()
                    .filter_map(Value::as_str)
                    .map(article)
                    .collect();
                Some(list.join(" or "))
            }
            _ => schema
                .get("$ref")
                .and_then(|reference| self.words_for(self.resolve(Some(reference)))),
        }
    }
}

/// Where in the document a fault was found.
struct Place<'a> {
    requirement: &'a str,
    expected: Option<&'a str>,
    /// The schema whose keyword failed.
    schema: &'a Value,
}

impl<'a> Place<'a> {
    fn enter(&mut self, node: &'a Value) {
        if !node.is_object() {
            return;
        }
        self.schema = node;
        if let Some(id) = node["x-requirement"].as_str() {
            self.requirement = id;
        }
        if let Some(words) = node["x-expected"].as_str() {
            self.expected = Some(words);
        }
    }
}

fn article(kind: &str) -> String {
    match kind {
        "null" => "null".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" | "integer" | "object" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

fn range(schema: &Value) -> Option<String> {
    match (&schema["minimum"], &schema["maximum"]) {
        (Value::Number(low), Value::Number(high)) => Some(format!("a number from {low} to {high}")),
        (Value::Number(low), _) => Some(format!("a number of {low} or more")),
        _ => None,
    }
}

fn child(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Longest text of a found value, in bytes.
const SHOWN: usize = 80;

/// The value as JSON, cut when it is long. A huge value is not written out first.
fn shown(value: &Value) -> String {
    struct Bounded(Vec<u8>);
    impl io::Write for Bounded {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.len() > SHOWN {
                return Err(io::ErrorKind::WriteZero.into());
            }
            let taken = bytes.len().min(SHOWN + 1 - self.0.len());
            self.0.extend_from_slice(&bytes[..taken]);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut bounded = Bounded(Vec::new());
    let whole = serde_json::to_writer(&mut bounded, value).is_ok() && bounded.0.len() <= SHOWN;
    let text = String::from_utf8_lossy(&bounded.0);
    if whole {
        return text.into_owned();
    }
    let kept: String = text.chars().take(SHOWN - 3).collect();
    format!("{}…", kept.trim_end_matches('\u{fffd}'))
}

/// A number that is written as an integer: no fraction, no exponent.
struct IntegerToken;

impl<'i> Keyword<'i> for IntegerToken {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if Keyword::is_valid(self, instance) {
            Ok(())
        } else {
            Err(ValidationError::custom("not written as an integer"))
        }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        let Value::Number(number) = instance else {
            return true;
        };
        let text = number.to_string();
        let digits = text.strip_prefix('-').unwrap_or(&text);
        digits.bytes().all(|b| b.is_ascii_digit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Revision::*;

    fn result(revision: Revision, method: &str, text: &str) -> Vec<(String, String)> {
        let value: Value = serde_json::from_str(text).expect("JSON");
        brief(faults(revision, Subject::Result { method }, &value))
    }

    fn brief(faults: Vec<Fault>) -> Vec<(String, String)> {
        faults
            .into_iter()
            .map(|f| (f.requirement, f.pointer))
            .collect()
    }

    fn message(revision: Revision, text: &str) -> Vec<(String, String)> {
        let value: Value = serde_json::from_str(text).expect("JSON");
        brief(faults(revision, Subject::Message, &value))
    }

    fn one(requirement: &str, pointer: &str) -> Vec<(String, String)> {
        vec![(requirement.to_owned(), pointer.to_owned())]
    }

    #[test]
    fn every_definition_compiles() {
        for revision in Revision::ALL {
            let shapes = shapes(revision);
            assert!(shapes.compiled.len() > 30, "{revision}");
            for name in shapes.compiled.keys() {
                shapes
                    .compile(name)
                    .unwrap_or_else(|e| panic!("{revision} {name}: {e}"));
            }
        }
    }

    #[test]
    fn every_subject_names_a_definition() {
        for revision in Revision::ALL {
            let shapes = shapes(revision);
            let subjects = &shapes.document["x-subjects"];
            let mut names: Vec<&Value> = vec![&subjects["message"], &subjects["error"]];
            for group in ["results", "notifications", "requests"] {
                names.extend(subjects[group].as_object().expect(group).values());
            }
            for name in names {
                let name = name.as_str().expect("a name");
                assert!(shapes.compiled.contains_key(name), "{revision} {name}");
            }
        }
    }

    #[test]
    fn every_requirement_named_is_in_force_in_that_revision() {
        for revision in Revision::ALL {
            let mut named = HashSet::new();
            collect_requirements(&shapes(revision).document, &mut named);
            for id in &named {
                let rule = requirement::get(id).unwrap_or_else(|| panic!("{id} is not a rule"));
                assert!(
                    rule.span.contains(revision),
                    "{id} does not hold in {revision}"
                );
            }
            assert_eq!(covered(revision).len(), named.len());
        }
    }

    #[test]
    fn a_good_tool_list_has_no_fault() {
        let tools = r#"{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"x":{}}},"extra":1}],"more":null}"#;
        for revision in Revision::ALL.into_iter().take(4) {
            assert_eq!(result(revision, "tools/list", tools), []);
        }
    }

    #[test]
    fn a_fault_says_what_stands_there_and_what_should() {
        let list = json!({"tools": [{"name": "a", "inputSchema": {"type": "object"}},
            {"name": 5, "inputSchema": null, "description": null}]});
        let found = faults(
            V2025_06_18,
            Subject::Result {
                method: "tools/list",
            },
            &list,
        );
        let told: Vec<String> = found
            .iter()
            .map(|f| {
                format!(
                    "{} {}: {} instead of {}",
                    f.requirement, f.pointer, f.found, f.expected
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                "tools.list.shape /tools/1/name: 5 instead of a string",
                "tools.list.input-schema-object /tools/1/inputSchema: null instead of an object with `\"type\":\"object\"`",
                "tools.list.optional-types /tools/1/description: null instead of a string",
            ]
        );
    }

    #[test]
    fn a_missing_member_is_pointed_at_where_it_should_stand() {
        let list = json!({"tools": [{}]});
        let found = faults(
            V2025_06_18,
            Subject::Result {
                method: "tools/list",
            },
            &list,
        );
        assert_eq!(
            found,
            [
                Fault {
                    requirement: "tools.list.shape".into(),
                    pointer: "/tools/0/name".into(),
                    found: "nothing".into(),
                    expected: "a string".into(),
                },
                Fault {
                    requirement: "tools.list.input-schema-object".into(),
                    pointer: "/tools/0/inputSchema".into(),
                    found: "nothing".into(),
                    expected: "an object with `\"type\":\"object\"`".into(),
                }
            ]
        );
    }

    #[test]
    fn a_block_is_judged_by_its_type() {
        let call = |block: &str| format!(r#"{{"content":[{block}]}}"#);
        let audio = call(r#"{"type":"audio","data":"AAAA","mimeType":"audio/wav"}"#);
        assert_eq!(
            result(V2024_11_05, "tools/call", &audio),
            one("content.types-by-revision", "/content/0/type")
        );
        assert_eq!(result(V2025_03_26, "tools/call", &audio), []);
        assert_eq!(
            result(
                V2025_06_18,
                "tools/call",
                &call(r#"{"type":"text","text":5}"#)
            ),
            one("content.block-members", "/content/0/text")
        );
        assert_eq!(
            result(
                V2025_06_18,
                "tools/call",
                &call(r#"{"type":"image","data":"=","mimeType":"image/png"}"#)
            ),
            one("content.media", "/content/0/data")
        );
        assert_eq!(
            result(V2025_06_18, "tools/call", &call(r#""text""#)),
            one("tools.call.result-shape", "/content/0")
        );
        assert_eq!(
            result(
                V2025_06_18,
                "tools/call",
                &call(r#"{"type":"resource","resource":{"uri":"a:b"}}"#)
            ),
            one("content.block-members", "/content/0/resource")
        );
    }

    #[test]
    fn a_prompt_has_one_block_a_message_and_its_resources_name_their_type() {
        let get =
            |content: &str| format!(r#"{{"messages":[{{"role":"user","content":{content}}}]}}"#);
        assert_eq!(
            result(
                V2025_06_18,
                "prompts/get",
                &get(r#"[{"type":"text","text":"a"}]"#)
            ),
            one("prompts.get.message-shape", "/messages/0/content")
        );
        let embedded = get(r#"{"type":"resource","resource":{"uri":"a:b","text":""}}"#);
        assert_eq!(
            result(V2025_06_18, "prompts/get", &embedded),
            one(
                "prompts.embedded-resource.fields",
                "/messages/0/content/resource/mimeType"
            )
        );
    }

    #[test]
    fn unusual_but_valid_schemas_of_tools_only_warn() {
        let list = |schema: &str| {
            format!(
                r#"{{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{{"name":"a","inputSchema":{schema}}}]}}"#
            )
        };
        for (schema, pointer) in [
            (
                r#"{"type":"object","properties":{"x":true}}"#,
                "/tools/0/inputSchema/properties/x",
            ),
            (r#"{"type":["object"]}"#, "/tools/0/inputSchema/type"),
        ] {
            let rule = "tools.list.input-schema-members";
            assert_eq!(
                result(V2025_11_25, "tools/list", &list(schema)),
                one(rule, pointer)
            );
            assert_eq!(
                requirement::get(rule).map(|r| r.breach),
                Some(requirement::Breach::Warn)
            );
            assert_eq!(result(V2026_07_28, "tools/list", &list(schema)), []);
        }
        let untyped = list("{}");
        for revision in [V2025_11_25, V2026_07_28] {
            assert_eq!(
                result(revision, "tools/list", &untyped),
                one(
                    "tools.list.input-schema-object",
                    "/tools/0/inputSchema/type"
                )
            );
        }
    }

    #[test]
    fn times_to_live_are_whole_numbers_however_they_are_written() {
        let read = |ttl: &str| {
            let text = format!(
                r#"{{"resultType":"complete","contents":[],"cacheScope":"public","ttlMs":{ttl}}}"#
            );
            result(V2026_07_28, "resources/read", &text)
        };
        for whole in [
            "0",
            "1.0",
            "1e3",
            "1E+3",
            "9007199254740993",
            "123456789012345678901234567890",
        ] {
            assert_eq!(read(whole), [], "{whole}");
        }
        for other in ["1.5", "-1", "null", "\"5\"", "15e-1"] {
            assert_eq!(read(other), one("caching.ttl", "/ttlMs"), "{other}");
        }
    }

    #[test]
    fn hints_are_asked_for_by_the_rule_of_their_method() {
        let list = r#"{"resultType":"complete","tools":[],"ttlMs":1}"#;
        assert_eq!(
            result(V2026_07_28, "tools/list", list),
            one("caching.hints.lists", "/cacheScope")
        );
        let discover = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"cacheScope":"public"}"#;
        assert_eq!(
            result(V2026_07_28, "server/discover", discover),
            one("caching.hints.discover", "/ttlMs")
        );
    }

    #[test]
    fn interim_results_stand_only_where_they_may() {
        let interim = r#"{"resultType":"input_required","requestState":"s"}"#;
        for method in ["tools/call", "prompts/get", "resources/read"] {
            assert_eq!(result(V2026_07_28, method, interim), []);
        }
        assert_eq!(
            result(V2026_07_28, "tools/list", interim),
            one("mrtr.allowed-methods", "/resultType")
        );
        assert_eq!(
            result(
                V2026_07_28,
                "tools/call",
                r#"{"resultType":"input_required"}"#
            ),
            one("mrtr.input-or-state", "")
        );
        let asks = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"m"}},"b":{"method":"ping"}}}"#;
        assert_eq!(
            result(V2026_07_28, "tools/call", asks),
            [
                (
                    "elicitation.request-shape".to_owned(),
                    "/inputRequests/a/params/requestedSchema".to_owned()
                ),
                (
                    "mrtr.input-request-kind".to_owned(),
                    "/inputRequests/b/method".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn error_codes_are_bare_integers() {
        let error = |code: &str| {
            let text = format!(r#"{{"code":{code},"message":"m"}}"#);
            let value: Value = serde_json::from_str(&text).expect("JSON");
            brief(faults(V2025_06_18, Subject::Error, &value))
        };
        assert_eq!(error("-32601"), []);
        assert_eq!(error("0"), []);
        for code in ["-32601.0", "-3.2601e4", "1.5", "\"-32601\"", "null"] {
            let found: HashSet<_> = error(code).into_iter().collect();
            let code_rule = one("jsonrpc.error.code-integer", "/code")
                .into_iter()
                .collect();
            assert_eq!(found, code_rule, "{code}");
        }
    }

    #[test]
    fn an_error_may_lack_its_id_and_a_result_may_not() {
        let error = r#""error":{"code":-32700,"message":"m"}"#;
        for revision in Revision::ALL {
            for id in ["", r#","id":null"#, r#","id":"a""#, r#","id":7"#] {
                assert_eq!(
                    message(revision, &format!(r#"{{"jsonrpc":"2.0",{error}{id}}}"#)),
                    []
                );
            }
            let missing = message(revision, r#"{"jsonrpc":"2.0","result":{}}"#);
            assert_eq!(missing, one("jsonrpc.response.id-echo", "/id"));
            let null = message(revision, r#"{"jsonrpc":"2.0","id":null,"result":{}}"#);
            assert_eq!(null, one("jsonrpc.response.id-type", "/id"));
        }
    }

    #[test]
    fn the_envelope_is_judged_in_every_revision() {
        for revision in Revision::ALL {
            for (text, rule, pointer) in [
                (
                    r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
                    "jsonrpc.version-member",
                    "/jsonrpc",
                ),
                (
                    r#"{"id":1,"result":{}}"#,
                    "jsonrpc.version-member",
                    "/jsonrpc",
                ),
                (
                    r#"{"jsonrpc":"2.0","id":1,"result":[]}"#,
                    "jsonrpc.response.result-object",
                    "/result",
                ),
                (
                    r#"{"jsonrpc":"2.0","id":1}"#,
                    "jsonrpc.response.result-xor-error",
                    "",
                ),
                (
                    r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#,
                    "jsonrpc.response.result-xor-error",
                    "",
                ),
                (
                    r#"{"jsonrpc":"2.0","method":"notifications/x","params":[]}"#,
                    "jsonrpc.params-object",
                    "/params",
                ),
                (
                    r#"{"jsonrpc":"2.0","method":"notifications/x","id":null}"#,
                    "jsonrpc.notification.no-id",
                    "/id",
                ),
                (
                    r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":1}}"#,
                    "meta.object",
                    "/params/_meta",
                ),
                (
                    r#"{"level":"info","msg":"started"}"#,
                    "stdio.stdout-only-messages",
                    "",
                ),
                ("42", "stdio.stdout-only-messages", ""),
            ] {
                assert_eq!(
                    message(revision, text),
                    one(rule, pointer),
                    "{revision} {text}"
                );
            }
        }
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert_eq!(message(V2025_11_25, request), []);
        assert_eq!(
            message(V2026_07_28, request),
            one("stdio.no-server-requests", "/id")
        );
        let null_id = r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#;
        assert_eq!(
            message(V2025_11_25, null_id),
            one("jsonrpc.request.id-valid", "/id")
        );
        assert_eq!(message(V2025_03_26, "[]"), []);
        assert_eq!(
            message(V2025_06_18, "[]"),
            one("jsonrpc.no-batch-output", "")
        );
    }

    #[test]
    fn keys_of_meta_are_checked_wherever_it_stands() {
        let bad =
            r#"{"contents":[{"uri":"a:b","text":"","_meta":{"-x":1,"com.example/x":1,"foo":2}}]}"#;
        assert_eq!(
            result(V2025_06_18, "resources/read", bad),
            one("meta.key-format", "/contents/0/_meta/-x")
        );
    }

    #[test]
    fn unknown_methods_have_no_shape() {
        let nonsense = json!(5);
        for subject in [
            Subject::Result {
                method: "server/discover",
            },
            Subject::Notification {
                method: "notifications/x",
            },
            Subject::Request {
                method: "elicitation/create",
            },
        ] {
            assert!(!known(V2025_03_26, subject));
            assert_eq!(faults(V2025_03_26, subject, &nonsense), []);
        }
    }

    #[test]
    fn a_pong_is_empty() {
        let pong = json!({"_meta": {}, "time": 5});
        let found = faults(V2025_06_18, Subject::Result { method: "ping" }, &pong);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].requirement, "ping.empty-result");
        assert_eq!(found[0].pointer, "/time");
        assert_eq!(found[0].expected, "no members besides `_meta`");
    }

    #[test]
    fn a_long_value_is_cut() {
        let long = "é".repeat(10_000_000);
        let list = json!({ "tools": long });
        let found = faults(
            V2025_06_18,
            Subject::Result {
                method: "tools/list",
            },
            &list,
        );
        assert_eq!(found.len(), 1);
        assert!(found[0].found.len() <= SHOWN + 4 && found[0].found.ends_with('…'));
    }
}
