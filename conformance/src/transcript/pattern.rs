//! What a message must look like: JSON with placeholders.

use std::fmt;

use base64::Engine as _;
use regex::Regex;
use serde_json::{Map, Value};

use super::template::{Piece, Template, Vars, escape};

/// JSON with placeholders.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    /// This very value: null, a boolean, a number as written.
    Literal(Value),
    /// A string, perhaps with variables; a whole `$name` is any value.
    Text(Template),
    /// A placeholder.
    Hole {
        /// What fits.
        kind: Kind,
        /// The variable that takes the value.
        capture: Option<String>,
    },
    /// An array, whole; [`Kind::Rest`] stands for any number of elements.
    Array(Vec<Pattern>),
    /// An object, by the members named.
    Object {
        /// The members named.
        members: Vec<(String, Pattern)>,
        /// Whether it may have no others.
        closed: bool,
    },
}

/// What a placeholder stands for.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    String,
    Integer,
    Number,
    Boolean,
    Object,
    Array,
    Any,
    Absent,
    Base64,
    Re(Regex),
    OneOf(Vec<Pattern>),
    Rest,
}

const NAMED: [(&str, Kind); 9] = [
    ("string", Kind::String),
    ("integer", Kind::Integer),
    ("number", Kind::Number),
    ("boolean", Kind::Boolean),
    ("object", Kind::Object),
    ("array", Kind::Array),
    ("any", Kind::Any),
    ("absent", Kind::Absent),
    ("base64", Kind::Base64),
];

/// The placeholder for "any others": elements of an array; as a member with `<absent>`: none.
const REST: &str = "<...>";

/// What is wrong with a pattern, and the text near which it stands.
pub(super) struct Fault {
    pub(super) near: String,
    pub(super) message: String,
}

/// Where a message does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mismatch {
    pointer: String,
    expected: String,
    found: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.pointer.as_str() {
            "" => "the message",
            pointer => pointer,
        };
        write!(f, "{place} is {}, not {}", self.found, self.expected)
    }
}

/// The names that a pattern may use, and those that it makes known.
pub(super) struct Names<'a> {
    pub(super) known: &'a dyn Fn(&str) -> bool,
    pub(super) captured: Vec<String>,
}

impl Pattern {
    pub(super) fn read(value: &Value, names: &mut Names<'_>) -> Result<Pattern, Fault> {
        match value {
            Value::String(text) => match Pattern::text(text, names)? {
                Pattern::Hole {
                    kind: Kind::Rest, ..
                } => Err(fault(text, "`<...>` stands only in arrays and objects")),
                pattern => Ok(pattern),
            },
            Value::Array(items) => {
                let mut patterns = Vec::new();
                for item in items {
                    let pattern = match item {
                        Value::String(text) => Pattern::text(text, names)?,
                        other => Pattern::read(other, names)?,
                    };
                    if pattern.is(|kind| matches!(kind, Kind::Absent)) {
                        let message = "`<absent>` stands only for a member of an object";
                        return Err(fault("<absent>", message));
                    }
                    // Two in a row say no more than one.
                    let rest = |p: &Pattern| p.is(|kind| matches!(kind, Kind::Rest));
                    if !(rest(&pattern) && patterns.last().is_some_and(rest)) {
                        patterns.push(pattern);
                    }
                }
                Ok(Pattern::Array(patterns))
            }
            Value::Object(object) => {
                let mut members = Vec::new();
                let mut closed = false;
                for (name, value) in object {
                    if name != REST {
                        members.push((name.clone(), Pattern::read(value, names)?));
                    } else if value == "<absent>" {
                        closed = true;
                    } else {
                        let message = "the member `<...>` can only be `\"<absent>\"`: no others";
                        return Err(fault(REST, message));
                    }
                }
                Ok(Pattern::Object { members, closed })
            }
            scalar => Ok(Pattern::Literal(scalar.clone())),
        }
    }

    fn text(text: &str, names: &mut Names<'_>) -> Result<Pattern, Fault> {
        let literal = match text.strip_prefix('<') {
            Some(rest) if rest.starts_with('<') => rest,
            Some(rest) if rest.ends_with('>') => {
                return Pattern::hole(&rest[..rest.len() - 1], names);
            }
            _ => text,
        };
        let template = Template::plain(literal, names.known).map_err(|f| fault(text, f.message))?;
        Ok(Pattern::Text(template))
    }

    /// Reads what stands between `<` and `>`.
    fn hole(inner: &str, names: &mut Names<'_>) -> Result<Pattern, Fault> {
        let whole = format!("<{inner}>");
        let (what, capture) = match inner.rsplit_once(" as $") {
            Some((what, name)) if super::template::name(name) == name && !name.is_empty() => {
                (what, Some(name.to_owned()))
            }
            _ => (inner, None),
        };
        let kind = if let Some((_, kind)) = NAMED.iter().find(|(name, _)| *name == what) {
            kind.clone()
        } else if what == "..." {
            Kind::Rest
        } else if let Some(source) = what.strip_prefix("re:") {
            let regex = Regex::new(source);
            Kind::Re(regex.map_err(|error| fault(&whole, last_line(&error.to_string())))?)
        } else if let Some(list) = what.strip_prefix("one of:") {
            let choices = choices(list).map(|choice| Pattern::choice(choice, names));
            Kind::OneOf(choices.collect::<Result<_, _>>()?)
        } else {
            let known: Vec<String> = NAMED.iter().map(|(name, _)| format!("<{name}>")).collect();
            let message = format!(
                "`{whole}` is no placeholder; there are {} <re:…> <one of: …> <...>, each also \
                 with ` as $name`; a string that begins with `<` is written with `<<`",
                known.join(" ")
            );
            return Err(fault(&whole, message));
        };
        if capture.is_some() && matches!(kind, Kind::Absent | Kind::Rest) {
            return Err(fault(&whole, "there is no value to take"));
        }
        names.captured.extend(capture.clone());
        Ok(Pattern::Hole { kind, capture })
    }

    fn choice(text: &str, names: &mut Names<'_>) -> Result<Pattern, Fault> {
        match serde_json::from_str::<Value>(text) {
            Ok(value) => Pattern::read(&value, names),
            Err(_) => Pattern::read(&Value::from(text), names),
        }
    }

    fn is(&self, test: impl Fn(&Kind) -> bool) -> bool {
        matches!(self, Pattern::Hole { kind, .. } if test(kind))
    }

    /// The pattern of a member.
    pub(super) fn member(&self, name: &str) -> Option<&Pattern> {
        match self {
            Pattern::Object { members, .. } => members
                .iter()
                .find_map(|(own, pattern)| (own == name).then_some(pattern)),
            _ => None,
        }
    }

    /// Whether the value fits; gives what the placeholders took.
    pub(super) fn fit(&self, value: &Value, vars: &Vars) -> Result<Vec<(String, Value)>, Mismatch> {
        let mut fitting = Fitting {
            vars,
            lenient: None,
            taken: Vec::new(),
        };
        fitting.fit(self, Some(value), "")?;
        Ok(fitting.taken)
    }

    /// Whether the value could fit once the variables that have no value yet have one; but for
    /// `ids`, which no message can have before they are made.
    pub(super) fn could_fit(&self, value: &Value, vars: &Vars, ids: &[String]) -> bool {
        let mut fitting = Fitting {
            vars,
            lenient: Some(ids),
            taken: Vec::new(),
        };
        fitting.fit(self, Some(value), "").is_ok()
    }

    /// The pattern with what does not fit replaced by what is there; see `docs/transcripts.md`.
    pub(super) fn update(&self, value: &Value, vars: &Vars) -> Pattern {
        if self.fit(value, vars).is_ok() {
            return self.clone();
        }
        match (self, value) {
            (Pattern::Object { members, closed }, Value::Object(object)) => {
                let mut updated = Vec::new();
                for (name, pattern) in members {
                    match object.get(name) {
                        Some(value) => updated.push((name.clone(), pattern.update(value, vars))),
                        None if pattern.is(|kind| matches!(kind, Kind::Absent)) => {
                            updated.push((name.clone(), pattern.clone()));
                        }
                        None => {}
                    }
                }
                let news = object
                    .iter()
                    .filter(|(name, _)| *closed && !members.iter().any(|(own, _)| own == *name));
                updated.extend(news.map(|(name, value)| (name.clone(), Pattern::exactly(value))));
                Pattern::Object {
                    members: updated,
                    closed: *closed,
                }
            }
            (Pattern::Array(patterns), Value::Array(items)) if patterns.len() == items.len() => {
                let pairs = patterns.iter().zip(items);
                Pattern::Array(pairs.map(|(p, item)| p.update(item, vars)).collect())
            }
            _ => Pattern::exactly(value),
        }
    }

    /// The pattern that only fits values with all these members.
    pub(super) fn exactly(value: &Value) -> Pattern {
        match value {
            Value::String(text) => Pattern::Text(Template(match text.as_str() {
                "" => vec![],
                text => vec![Piece::Text(text.into())],
            })),
            Value::Array(items) => Pattern::Array(items.iter().map(Pattern::exactly).collect()),
            Value::Object(object) => Pattern::Object {
                members: object
                    .iter()
                    .map(|(name, value)| (name.clone(), Pattern::exactly(value)))
                    .collect(),
                closed: false,
            },
            scalar => Pattern::Literal(scalar.clone()),
        }
    }

    /// The JSON that it is written as.
    fn to_value(&self) -> Value {
        match self {
            Pattern::Literal(value) => value.clone(),
            Pattern::Text(template) => {
                let text: String = template
                    .0
                    .iter()
                    .map(|piece| match piece {
                        Piece::Text(text) => escape(text),
                        Piece::Var(name) | Piece::Whole(name) => format!("${name}"),
                    })
                    .collect();
                match text.strip_prefix('<') {
                    Some(rest) if rest.starts_with('<') || rest.ends_with('>') => {
                        format!("<{text}").into()
                    }
                    _ => text.into(),
                }
            }
            Pattern::Hole { kind, capture } => {
                let capture = capture.iter().map(|name| format!(" as ${name}"));
                format!("<{kind}{}>", capture.collect::<String>()).into()
            }
            Pattern::Array(items) => items.iter().map(Pattern::to_value).collect(),
            Pattern::Object { members, closed } => {
                let members = members.iter().map(|(n, p)| (n.clone(), p.to_value()));
                let mut object: Map<String, Value> = members.collect();
                if *closed {
                    object.insert(REST.into(), "<absent>".into());
                }
                object.into()
            }
        }
    }
}

fn fault(near: &str, message: impl Into<String>) -> Fault {
    Fault {
        near: near.into(),
        message: message.into(),
    }
}

fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or_default().trim().to_owned()
}

/// Splits at the commas that stand in no string, placeholder or bracket.
fn choices(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    let mut string = false;
    let mut escaped = false;
    list.split(move |c: char| {
        match c {
            _ if escaped => escaped = false,
            '\\' if string => escaped = true,
            '"' => string = !string,
            '<' | '[' | '{' if !string => depth += 1,
            '>' | ']' | '}' if !string => depth -= 1,
            _ => {}
        }
        c == ',' && !string && depth == 0
    })
    .map(str::trim)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_value())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Re(regex) => write!(f, "re:{regex}"),
            Kind::OneOf(choices) => {
                let choices: Vec<String> = choices.iter().map(Pattern::to_string).collect();
                write!(f, "one of: {}", choices.join(", "))
            }
            Kind::Rest => f.write_str("..."),
            Kind::String => f.write_str("string"),
            Kind::Integer => f.write_str("integer"),
            Kind::Number => f.write_str("number"),
            Kind::Boolean => f.write_str("boolean"),
            Kind::Object => f.write_str("object"),
            Kind::Array => f.write_str("array"),
            Kind::Any => f.write_str("any"),
            Kind::Absent => f.write_str("absent"),
            Kind::Base64 => f.write_str("base64"),
        }
    }
}

struct Fitting<'a> {
    vars: &'a Vars,
    /// Variables without a value fit anything, except these.
    lenient: Option<&'a [String]>,
    taken: Vec<(String, Value)>,
}

impl Fitting<'_> {
    fn fit(&mut self, pattern: &Pattern, value: Option<&Value>, at: &str) -> Result<(), Mismatch> {
        let differs = |expected: String| Mismatch {
            pointer: at.to_owned(),
            expected,
            found: value.map_or("absent".into(), shorten),
        };
        if let Pattern::Hole { kind, capture } = pattern {
            if !self.kind(kind, value, at) {
                return Err(differs(format!("<{kind}>")));
            }
            if let (Some(name), Some(value)) = (capture, value) {
                self.taken.push((name.clone(), value.clone()));
            }
            return Ok(());
        }
        let Some(value) = value else {
            return Err(differs(shorten(&pattern.to_value())));
        };
        match (pattern, value) {
            (Pattern::Object { members, closed }, Value::Object(object)) => {
                for (name, pattern) in members {
                    let step = name.replace('~', "~0").replace('/', "~1");
                    self.fit(pattern, object.get(name), &format!("{at}/{step}"))?;
                }
                let other = |name: &&String| !members.iter().any(|(own, _)| own == *name);
                match object.keys().find(other) {
                    Some(name) if *closed => Err(Mismatch {
                        pointer: format!("{at}/{name}"),
                        expected: "absent".into(),
                        found: object.get(name).map(shorten).unwrap_or_default(),
                    }),
                    _ => Ok(()),
                }
            }
            (Pattern::Array(patterns), Value::Array(items)) => {
                self.array(patterns, items, at, 0).map_err(|found| {
                    found.unwrap_or_else(|| {
                        let expected = shorten(&pattern.to_value());
                        differs(format!("{expected} in number and order"))
                    })
                })
            }
            (Pattern::Literal(literal), value) if literal == value => Ok(()),
            (Pattern::Text(template), value) => match self.text(template) {
                Some(expected) if expected == *value => Ok(()),
                Some(expected) => Err(differs(shorten(&expected))),
                None if self.excuses(template) => Ok(()),
                None => Err(differs(format!("{pattern}, which has no value"))),
            },
            _ => Err(differs(shorten(&pattern.to_value()))),
        }
    }

    /// `Err(None)` when the number of elements does not fit.
    fn array(
        &mut self,
        patterns: &[Pattern],
        items: &[Value],
        at: &str,
        index: usize,
    ) -> Result<(), Option<Mismatch>> {
        let Some((first, others)) = patterns.split_first() else {
            return if items.is_empty() { Ok(()) } else { Err(None) };
        };
        if !first.is(|kind| matches!(kind, Kind::Rest)) {
            let (item, items) = items.split_first().ok_or(None)?;
            self.fit(first, Some(item), &format!("{at}/{index}"))
                .map_err(Some)?;
            return self.array(others, items, at, index + 1);
        }
        let taken = self.taken.len();
        for skipped in 0..=items.len() {
            if self
                .array(others, &items[skipped..], at, index + skipped)
                .is_ok()
            {
                return Ok(());
            }
            self.taken.truncate(taken);
        }
        Err(None)
    }

    fn kind(&mut self, kind: &Kind, value: Option<&Value>, at: &str) -> bool {
        match (kind, value) {
            (Kind::Absent, value) => value.is_none(),
            (Kind::OneOf(choices), value) => choices
                .iter()
                .any(|choice| self.fit(choice, value, at).is_ok()),
            (Kind::Any, Some(_))
            | (Kind::String, Some(Value::String(_)))
            | (Kind::Number, Some(Value::Number(_)))
            | (Kind::Boolean, Some(Value::Bool(_)))
            | (Kind::Object, Some(Value::Object(_)))
            | (Kind::Array, Some(Value::Array(_))) => true,
            (Kind::Integer, Some(Value::Number(number))) => {
                !number.to_string().contains(['.', 'e', 'E'])
            }
            (Kind::Base64, Some(Value::String(text))) => base64::engine::general_purpose::STANDARD
                .decode(text)
                .is_ok(),
            (Kind::Re(regex), Some(Value::String(text))) => regex.is_match(text),
            _ => false,
        }
    }

    fn excuses(&self, template: &Template) -> bool {
        let made = |ids: &[String]| template.names().any(|name| ids.iter().any(|id| id == name));
        self.lenient.is_some_and(|ids| !made(ids))
    }

    fn text(&self, template: &Template) -> Option<Value> {
        if let [Piece::Var(name) | Piece::Whole(name)] = template.0.as_slice() {
            return self.vars.get(name).cloned();
        }
        template.fill(self.vars, false).ok().map(Value::from)
    }
}

/// The JSON text, cut if it is long.
pub(super) fn shorten(value: &Value) -> String {
    super::cut(&value.to_string(), 120)
}
