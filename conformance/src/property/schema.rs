//! Arguments made from a tool's `inputSchema`: some that fit it, and some that break it in one
//! known place. Each is put to the schema before it is given out.

use std::fmt;
use std::sync::Arc;

use jsonschema::Validator;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use proptest::string::string_regex;
use serde_json::{Map, Value, json};

/// Deeper schemas than this are given up.
const DEEPEST: usize = 8;

/// Bounds beyond this are taken as none: a generator of code writes the whole range of a type,
/// and a tool that is asked for 2^53 of something is busy for long.
const FAR: f64 = 1e6;

/// How far from a bound values go where there is no other.
const REACH: i64 = 100;

/// The longest text that is made, unless the schema wants more.
const TEXT: usize = 24;

/// The longest text that is made at all.
const LONGEST: usize = 10_000;

/// The name of a member that no schema has.
const UNKNOWN: &str = "touchstone_unknown";

/// Values, and how to make them simpler.
pub type Values = BoxedStrategy<Value>;

/// Where and how arguments break a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// What is wrong.
    pub kind: Kind,
    /// JSON Pointer to the member that is wrong, or missing.
    pub pointer: String,
    /// Whether the schema requires that member.
    pub required: bool,
    /// Whether the schema names a default for it.
    pub default: bool,
}

/// What is wrong with arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A required member is missing.
    Missing,
    /// A value of a type that nothing turns into the right one.
    WrongType,
    /// `null` where it is not allowed.
    Null,
    /// A text that the `enum` does not list.
    NotListed,
    /// A number, text or array outside its bounds.
    OutOfBounds,
    /// A member that the schema forbids.
    Extra,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.pointer.trim_start_matches('/');
        match self.kind {
            Kind::Missing => write!(f, "without its required `{place}`"),
            Kind::WrongType => write!(f, "with a wrong type as `{place}`"),
            Kind::Null => write!(f, "with null as `{place}`"),
            Kind::NotListed => write!(f, "with a `{place}` that its `enum` does not list"),
            Kind::OutOfBounds => write!(f, "with a `{place}` out of bounds"),
            Kind::Extra => write!(f, "with the member `{place}`, which its schema forbids"),
        }
    }
}

/// Arguments that fit the schema; `None` when it is not understood.
pub fn valid(schema: &Value) -> Option<Values> {
    let validator = Arc::new(jsonschema::validator_for(schema).ok()?);
    fitting(schema, &validator)
}

fn fitting(schema: &Value, validator: &Arc<Validator>) -> Option<Values> {
    let validator = Arc::clone(validator);
    let fits = move |value: &Value| value.is_object() && validator.is_valid(value);
    let values = Maker { root: schema }.values(schema, 0)?;
    Some(values.prop_filter("fits the schema", fits).boxed())
}

/// Every way to break the schema that is known, with arguments that break it so and fit it
/// otherwise.
pub fn broken(schema: &Value) -> Vec<(Fault, Values)> {
    let Some(validator) = jsonschema::validator_for(schema).ok().map(Arc::new) else {
        return Vec::new();
    };
    let Some(fitting) = fitting(schema, &validator) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    Maker { root: schema }.faults(schema, &[], 0, &mut found);
    let breaking = |(fault, change): (Fault, Change)| {
        let validator = Arc::clone(&validator);
        let values = fitting
            .clone()
            .prop_filter_map("breaks the schema", move |mut value| {
                change.apply(&mut value)?;
                (!validator.is_valid(&value)).then_some(value)
            });
        (fault, values.boxed())
    };
    found.into_iter().map(breaking).collect()
}

/// What is done to arguments that fit.
#[derive(Debug, Clone)]
struct Change {
    /// The names that lead to the object that is changed.
    parents: Vec<String>,
    name: String,
    /// The new value, or none.
    value: Option<Value>,
}

impl Change {
    /// `None` where it has no place.
    fn apply(&self, value: &mut Value) -> Option<()> {
        let mut at = value;
        for name in &self.parents {
            at = at.get_mut(name)?;
        }
        let members = at.as_object_mut()?;
        match &self.value {
            Some(value) => {
                members.insert(self.name.clone(), value.clone());
            }
            None => {
                members.remove(&self.name)?;
            }
        }
        Some(())
    }
}

struct Maker<'a> {
    root: &'a Value,
}

impl Maker<'_> {
    /// The schema with what it refers to and what it joins put in its place.
    fn flat(&self, schema: &Value, depth: usize) -> Option<Value> {
        let Value::Object(members) = schema else {
            return Some(schema.clone());
        };
        if depth > DEEPEST {
            return None;
        }
        let mut own = members.clone();
        let mut parts = Vec::new();
        if let Some(reference) = own.shift_remove("$ref") {
            let pointer = reference.as_str()?.strip_prefix('#')?;
            parts.push(self.flat(self.root.pointer(pointer)?, depth + 1)?);
        }
        if let Some(Value::Array(joined)) = own.shift_remove("allOf") {
            for part in &joined {
                parts.push(self.flat(part, depth + 1)?);
            }
        }
        parts.into_iter().try_fold(Value::Object(own), join)
    }

    fn values(&self, schema: &Value, depth: usize) -> Option<Values> {
        if depth > DEEPEST {
            return None;
        }
        let schema = self.flat(schema, depth)?;
        let members = match &schema {
            Value::Bool(true) => return Some(plain()),
            Value::Object(members) => members,
            _ => return None,
        };
        if let Some(value) = members.get("const") {
            return Some(Just(value.clone()).boxed());
        }
        if let Some(Value::Array(listed)) = members.get("enum") {
            return (!listed.is_empty()).then(|| select(listed.clone()).boxed());
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = members.get(keyword) {
                let mut rest = members.clone();
                rest.shift_remove(keyword);
                let made: Vec<Values> = branches
                    .iter()
                    .filter_map(|branch| {
                        let branch = self.flat(branch, depth + 1)?;
                        let both = join(Value::Object(rest.clone()), branch)?;
                        self.values(&both, depth + 1)
                    })
                    .collect();
                return union(made);
            }
        }
        let made = types(members)
            .into_iter()
            .filter_map(|kind| self.of_type(kind, members, depth))
            .collect();
        with_ready(union(made), &schema)
    }

    fn of_type(&self, kind: &str, schema: &Map<String, Value>, depth: usize) -> Option<Values> {
        match kind {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, depth),
            "string" => string(schema),
            "integer" => number(schema, true),
            "number" => number(schema, false),
            "boolean" => Some(any::<bool>().prop_map(Value::Bool).boxed()),
            "null" => Some(Just(Value::Null).boxed()),
            _ => Some(plain()),
        }
    }

    fn object(&self, schema: &Map<String, Value>, depth: usize) -> Option<Values> {
        let mut members: Vec<(String, BoxedStrategy<Option<Value>>)> = Vec::new();
        let required = required(schema);
        let none = Map::new();
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&none);
        for (name, property) in properties {
            let must = required.contains(&name.as_str());
            match self.values(property, depth + 1) {
                Some(values) if must => {
                    members.push((name.clone(), values.prop_map(Some).boxed()));
                }
                Some(values) => members.push((name.clone(), option::of(values).boxed())),
                None if must => return None,
                None => {}
            }
        }
        for name in required {
            if !properties.contains_key(name) {
                members.push((name.to_owned(), plain().prop_map(Some).boxed()));
            }
        }
        let (names, values): (Vec<String>, Vec<_>) = members.into_iter().unzip();
        let object = move |values: Vec<Option<Value>>| {
            let given = names.iter().cloned().zip(values);
            Value::Object(
                given
                    .filter_map(|(name, value)| Some((name, value?)))
                    .collect(),
            )
        };
        Some(values.prop_map(object).boxed())
    }

    fn array(&self, schema: &Map<String, Value>, depth: usize) -> Option<Values> {
        let bound = |name: &str| {
            let bound = schema.get(name).and_then(Value::as_u64)?;
            usize::try_from(bound).ok()
        };
        let least = bound("minItems").unwrap_or(0);
        let most = bound("maxItems").unwrap_or(usize::MAX).min(least + 3);
        if least > LONGEST || least > most {
            return None;
        }
        let anything = Value::Bool(true);
        let item = schema.get("items").unwrap_or(&anything);
        let items = match self.values(item, depth + 1) {
            Some(items) => vec(items, least..=most).boxed(),
            None if least == 0 => Just(Vec::new()).boxed(),
            None => return None,
        };
        Some(items.prop_map(Value::Array).boxed())
    }

    /// The places where objects that fit can be broken, reached through `properties` alone: what
    /// stands in a choice (`anyOf`) may fit another branch.
    fn faults(
        &self,
        schema: &Value,
        parents: &[String],
        depth: usize,
        found: &mut Vec<(Fault, Change)>,
    ) {
        let Some(Value::Object(schema)) = self.flat(schema, depth) else {
            return;
        };
        if depth > 3 || !types(&schema).contains(&"object") {
            return;
        }
        let required = required(&schema);
        let mut put = |kind, name: &str, value: Option<Value>, property: Option<&Value>| {
            let path: Vec<&str> = parents.iter().map(String::as_str).chain([name]).collect();
            let fault = Fault {
                kind,
                pointer: format!("/{}", path.join("/")),
                required: required.contains(&name),
                default: property.is_some_and(|p| p.get("default").is_some()),
            };
            let change = Change {
                parents: parents.to_vec(),
                name: name.to_owned(),
                value,
            };
            found.push((fault, change));
        };
        let none = Map::new();
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&none);
        for name in &required {
            put(Kind::Missing, name, None, properties.get(*name));
        }
        let mut inner = Vec::new();
        for (name, property) in properties {
            let Some(Value::Object(flat)) = self.flat(property, depth) else {
                continue;
            };
            for (kind, value) in wrong_values(&flat) {
                put(kind, name, Some(value), Some(property));
            }
            inner.push((name, Value::Object(flat)));
        }
        let closed = |keyword| schema.get(keyword) == Some(&Value::Bool(false));
        if closed("additionalProperties") || closed("unevaluatedProperties") {
            put(Kind::Extra, UNKNOWN, Some(json!(1)), None);
        }
        for (name, flat) in inner {
            let parents: Vec<String> = parents.iter().cloned().chain([name.clone()]).collect();
            self.faults(&flat, &parents, depth + 1, found);
        }
    }
}

/// Values that a property's schema does not take, where it says so plainly.
fn wrong_values(schema: &Map<String, Value>) -> Vec<(Kind, Value)> {
    let mut wrong = Vec::new();
    let listed = schema.get("enum").and_then(Value::as_array);
    if listed.is_some_and(|listed| listed.iter().all(Value::is_string)) {
        wrong.push((Kind::NotListed, json!("touchstone-not-listed")));
    }
    let Some(kind) = schema.get("type").and_then(Value::as_str) else {
        return wrong;
    };
    // Nothing that a lenient reader turns into the right type: no number for a string, no "7" for
    // a number, no single value for an array of them.
    let types = match kind {
        "string" => vec![json!({"touchstone": 1}), json!([1])],
        "integer" | "number" => vec![json!("touchstone"), json!({"touchstone": 1})],
        "boolean" => vec![json!({"touchstone": 1})],
        "array" => vec![json!({"touchstone": 1})],
        "object" => vec![json!("touchstone"), json!([1])],
        _ => vec![],
    };
    wrong.extend(types.into_iter().map(|value| (Kind::WrongType, value)));
    if kind != "null" {
        wrong.push((Kind::Null, Value::Null));
    }
    wrong.extend(beyond(schema).into_iter().map(|v| (Kind::OutOfBounds, v)));
    wrong
}

/// Values just outside the bounds of a property.
fn beyond(schema: &Map<String, Value>) -> Vec<Value> {
    let mut values = Vec::new();
    let number = |name: &str| schema.get(name).and_then(Value::as_f64);
    let length = |name: &str| schema.get(name).and_then(Value::as_u64);
    for (bound, step) in [("minimum", -1.0), ("maximum", 1.0)] {
        if let Some(bound) = number(bound).filter(|bound| bound.abs() <= FAR) {
            values.push(whole_or_not(bound + step));
        }
    }
    for bound in ["exclusiveMinimum", "exclusiveMaximum"] {
        if let Some(bound) = number(bound).filter(|bound| bound.abs() <= FAR) {
            values.push(whole_or_not(bound));
        }
    }
    if length("minLength").is_some_and(|least| least > 0) {
        values.push(json!(""));
    }
    if let Some(most) = length("maxLength").and_then(|most| usize::try_from(most).ok())
        && most < LONGEST
    {
        values.push(json!("x".repeat(most + 1)));
    }
    if length("minItems").is_some_and(|least| least > 0) {
        values.push(json!([]));
    }
    values
}

/// Two schemas that both hold, as one; `None` when they cannot be put together.
fn join(left: Value, right: Value) -> Option<Value> {
    let (mut left, right) = match (left, right) {
        (Value::Bool(true), other) | (other, Value::Bool(true)) => return Some(other),
        (Value::Object(left), Value::Object(right)) => (left, right),
        _ => return None,
    };
    for (name, value) in right {
        match (name.as_str(), left.get_mut(&name)) {
            ("properties", Some(Value::Object(ours))) => {
                ours.extend(value.as_object()?.clone());
            }
            ("required", Some(Value::Array(ours))) => {
                ours.extend(value.as_array()?.iter().cloned());
            }
            (_, None) => {
                left.insert(name, value);
            }
            // What both say differently is left to the final look at the value.
            _ => {}
        }
    }
    Some(Value::Object(left))
}

fn required(schema: &Map<String, Value>) -> Vec<&str> {
    let required = schema.get("required").and_then(Value::as_array);
    let mut names: Vec<&str> = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    names.dedup();
    names
}

/// The types that a schema names, or the one that its keywords speak of.
fn types(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => return vec![kind],
        Some(Value::Array(kinds)) => return kinds.iter().filter_map(Value::as_str).collect(),
        _ => {}
    }
    let speaks_of = [
        ("properties", "object"),
        ("required", "object"),
        ("items", "array"),
        ("pattern", "string"),
        ("minLength", "string"),
        ("minimum", "number"),
        ("maximum", "number"),
    ];
    let found = speaks_of
        .iter()
        .find(|(keyword, _)| schema.contains_key(*keyword));
    vec![found.map_or("any", |(_, kind)| *kind)]
}

fn union(made: Vec<Values>) -> Option<Values> {
    match made.len() {
        0 => None,
        1 => made.into_iter().next(),
        _ => Some(Union::new(made).boxed()),
    }
}

/// The values that the schema itself offers are the most sensible ones: half of all.
fn with_ready(made: Option<Values>, schema: &Value) -> Option<Values> {
    let examples = schema.get("examples").and_then(Value::as_array);
    let offered = examples.into_iter().flatten().chain(schema.get("default"));
    let validator = jsonschema::validator_for(schema).ok();
    let fits = |value: &&Value| validator.as_ref().is_some_and(|v| v.is_valid(value));
    let offered: Vec<Value> = offered.filter(fits).cloned().collect();
    if offered.is_empty() {
        return made;
    }
    let offered = select(offered).boxed();
    match made {
        Some(made) => union(vec![made, offered]),
        None => Some(offered),
    }
}

/// Anything, where the schema does not care.
fn plain() -> Values {
    prop_oneof![
        Just(json!("touchstone")),
        (0..REACH).prop_map(Value::from),
        any::<bool>().prop_map(Value::Bool),
    ]
    .boxed()
}

fn string(schema: &Map<String, Value>) -> Option<Values> {
    let ready: &[&str] = match schema.get("format").and_then(Value::as_str) {
        Some("date") => &["2025-01-01", "2024-02-29"],
        Some("date-time") => &["2025-01-01T00:00:00Z", "2024-02-29T23:59:59.5+02:00"],
        Some("time") => &["00:00:00Z"],
        Some("duration") => &["PT1S"],
        Some("email") => &["a@example.com"],
        Some("uri" | "url" | "uri-reference") => &["https://example.com/", "urn:touchstone:a"],
        Some("uuid") => &["00000000-0000-4000-8000-000000000000"],
        Some("ipv4") => &["127.0.0.1"],
        Some("ipv6") => &["::1"],
        Some("hostname") => &["example.com"],
        Some("regex") => &["a+"],
        _ => &[],
    };
    if !ready.is_empty() {
        return Some(select(ready).prop_map(Value::from).boxed());
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        return matching(pattern);
    }
    let bound = |name: &str| {
        let bound = schema.get(name).and_then(Value::as_u64)?;
        usize::try_from(bound).ok()
    };
    let least = bound("minLength").unwrap_or(0);
    let most = bound("maxLength").unwrap_or(usize::MAX).min(least + TEXT);
    if least > LONGEST || least > most {
        return None;
    }
    let text = vec(character(), least..=most)
        .prop_map(|text| Value::from(text.into_iter().collect::<String>()));
    let words = ["touchstone", "a b", "é-✓-🦀", "null", "\"quoted\" \\ back"];
    let words: Vec<&str> = words
        .into_iter()
        .filter(|word| (least..=most).contains(&word.chars().count()))
        .collect();
    match words.is_empty() {
        true => Some(text.boxed()),
        false => Some(prop_oneof![text, select(words).prop_map(Value::from)].boxed()),
    }
}

/// Characters of texts. No line ends: an error that quotes one is no fault.
fn character() -> BoxedStrategy<char> {
    prop_oneof![
        6 => proptest::char::range('a', 'z'),
        3 => proptest::char::range(' ', '~'),
        1 => select(vec!['é', 'ß', '漢', '🦀', '\u{301}', '\u{202e}', '\u{2028}', '\u{feff}', '\t']),
    ]
    .boxed()
}

/// Texts that match a pattern, if it is one that can be turned around. Its classes are those of
/// ECMAScript: ASCII.
fn matching(pattern: &str) -> Option<Values> {
    let body = pattern.strip_prefix('^').unwrap_or(pattern);
    let body = match body.strip_suffix('$') {
        Some(inner) if !inner.ends_with('\\') => inner,
        _ => body,
    };
    let body = body
        .replace(r"\d", "[0-9]")
        .replace(r"\w", "[A-Za-z0-9_]")
        .replace(r"\s", "[ ]");
    let texts = string_regex(&body).ok()?;
    Some(texts.prop_map(Value::from).boxed())
}

fn number(schema: &Map<String, Value>, integer: bool) -> Option<Values> {
    let bound = |name: &str| {
        let bound = schema.get(name).and_then(Value::as_f64);
        bound.filter(|bound| bound.abs() <= FAR)
    };
    let step = schema.get("multipleOf").and_then(Value::as_f64);
    // In units: whole numbers, quarters, or what they have to be multiples of.
    let unit = match (step, integer) {
        (Some(step), _) if step > 0.0 && (!integer || step.fract() == 0.0) => step,
        (Some(_), _) => return None,
        (None, true) => 1.0,
        (None, false) => 0.25,
    };
    let low = match (bound("minimum"), bound("exclusiveMinimum")) {
        (_, Some(above)) => Some((above / unit).floor() + 1.0),
        (low, None) => low.map(|low| (low / unit).ceil()),
    };
    let high = match (bound("maximum"), bound("exclusiveMaximum")) {
        (_, Some(below)) => Some((below / unit).ceil() - 1.0),
        (high, None) => high.map(|high| (high / unit).floor()),
    };
    // Within 2^53 by the bound above, or a unit so small that nothing useful comes of it.
    let units = |bound: f64| (bound.abs() < 9e15).then_some(bound as i64);
    let (low, high) = match (low, high) {
        (Some(low), Some(high)) => (units(low)?, units(high)?),
        (Some(low), None) => (units(low)?, units(low)? + REACH),
        (None, Some(high)) => (units(high)? - REACH, units(high)?),
        (None, None) => (-3, REACH),
    };
    if low > high {
        return None;
    }
    let counts = prop_oneof![4 => low..=high, 1 => Just(low), 1 => Just(high)];
    Some(
        counts
            .prop_map(move |n| whole_or_not(n as f64 * unit))
            .boxed(),
    )
}

/// A number as JSON: an integer if it is one.
fn whole_or_not(number: f64) -> Value {
    match number.fract() == 0.0 && number.abs() < 9e15 {
        true => json!(number as i64),
        false => json!(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::runner;
    use proptest::strategy::ValueTree;

    /// Schemas as tools have them.
    fn schemas() -> Vec<Value> {
        vec![
            json!({"type": "object"}),
            json!({"type": "object", "additionalProperties": false, "required": ["path", "depth", "mode"],
            "properties": {
                "path": {"type": "string", "minLength": 1, "maxLength": 60},
                "depth": {"type": "integer", "minimum": 1, "maximum": 5},
                "mode": {"type": "string", "enum": ["fast", "slow"]},
                "ratio": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                "tags": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                "deep": {"type": "object", "required": ["x"], "properties": {"x": {"type": "boolean"}}},
                "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}
            }}),
            json!({"type": "object", "required": ["id", "when", "any", "code", "either"],
                "properties": {
                    "id": {"$ref": "#/$defs/id"},
                    "when": {"type": "string", "format": "date-time"},
                    "any": true,
                    "code": {"type": "string", "pattern": "^[A-Z]{3}-\\d{2,4}$"},
                    "either": {"oneOf": [{"type": "integer"}, {"type": "object", "required": ["a"], "properties": {"a": {"const": 1}}}]},
                    "wide": {"type": "integer", "minimum": -9007199254740991_i64, "maximum": 9007199254740991_i64},
                    "tens": {"type": "integer", "multipleOf": 10, "minimum": 15, "maximum": 95}
                },
                "$defs": {"id": {"allOf": [{"type": "integer"}, {"minimum": 7}]}}}),
        ]
    }

    #[test]
    fn what_is_called_valid_validates() {
        for schema in schemas() {
            let validator = jsonschema::validator_for(&schema).unwrap();
            let values = valid(&schema).expect("a schema that can be met");
            let mut runner = runner(11, "valid");
            for _ in 0..200 {
                let mut tree = values.new_tree(&mut runner).expect("a value");
                assert!(validator.is_valid(&tree.current()), "{}", tree.current());
                // And so does everything simpler.
                for _ in 0..20 {
                    if !tree.simplify() {
                        break;
                    }
                    assert!(validator.is_valid(&tree.current()), "{}", tree.current());
                }
            }
        }
    }

    #[test]
    fn what_is_called_broken_does_not_validate_and_is_broken_where_it_says() {
        for schema in schemas() {
            let validator = jsonschema::validator_for(&schema).unwrap();
            for (fault, values) in broken(&schema) {
                let mut runner = runner(12, &fault.pointer);
                for _ in 0..20 {
                    let value = values.new_tree(&mut runner).expect("a value").current();
                    let faults: Vec<_> = validator.iter_errors(&value).collect();
                    assert!(!faults.is_empty(), "{fault}: {value}");
                    for found in faults {
                        let place = found.instance_path().to_string();
                        assert!(fault.pointer.starts_with(&place), "{fault}: {place}");
                    }
                    let there = value.pointer(&fault.pointer).is_some();
                    assert_eq!(there, fault.kind != Kind::Missing, "{fault}: {value}");
                }
            }
        }
    }

    #[test]
    fn every_kind_of_fault_is_found() {
        let schema = &schemas()[1];
        let found = broken(schema);
        let has = |kind, pointer: &str| {
            let place =
                |(fault, _): &(Fault, Values)| fault.kind == kind && fault.pointer == pointer;
            assert!(found.iter().any(place), "{kind:?} {pointer}");
        };
        has(Kind::Missing, "/path");
        has(Kind::Missing, "/deep/x");
        has(Kind::WrongType, "/depth");
        has(Kind::Null, "/tags");
        has(Kind::NotListed, "/mode");
        has(Kind::OutOfBounds, "/depth");
        has(Kind::OutOfBounds, "/ratio");
        has(Kind::Extra, "/touchstone_unknown");
        let null_is_fine = |(fault, _): &(Fault, Values)| fault.pointer == "/maybe";
        assert!(!found.iter().any(null_is_fine), "null fits `maybe`");
    }

    #[test]
    fn a_schema_that_is_not_understood_gives_nothing() {
        for schema in [
            json!({"type": "object", "required": ["x"], "properties": {"x": false}}),
            json!({"type": "object", "required": ["x"], "properties": {"x": {"type": "string", "pattern": "(?=a)b"}}}),
            json!({"type": "nonsense"}),
            json!({"$ref": "#"}),
        ] {
            assert!(valid(&schema).is_none(), "{schema}");
            assert!(broken(&schema).is_empty(), "{schema}");
        }
    }
}
