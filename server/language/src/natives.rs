//! The functions of the machine: what the standard library declares without a body.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;

use crate::env::{Env, Shape};
use crate::host::{FaultKind, Host, HttpRequest, Refusal};
use crate::machine::Meter;
use crate::names::full;
use crate::value::{self, Layout, List, Map, Value, show_float};

/// The number of a function in the table.
pub(crate) type Native = usize;

/// What a running function of the machine can use.
pub(crate) struct Context<'a> {
    /// The world.
    pub host: &'a mut dyn Host,
    /// Shapes of the standard library's types.
    pub layouts: &'a Layouts,
    /// The budget.
    pub meter: &'a mut Meter,
}

/// Why an operation did not give a value.
#[derive(Debug)]
pub enum Trouble {
    /// The program failed with this failure; it may recover.
    Fail(Value),
    /// The machine cannot go on.
    Fault(FaultKind, String),
}

type Outcome = Result<Value, Trouble>;
type Function = fn(&mut Context, &mut [Value]) -> Outcome;

/// Shapes of the standard library's types that the machine makes values of.
#[derive(Debug, Default)]
pub struct Layouts {
    none: Arc<Layout>,
    some: Arc<Layout>,
    entry: Arc<Layout>,
    response: Arc<Layout>,
    http_error: Arc<Layout>,
    decode_error: Arc<Layout>,
    json: Vec<Arc<Layout>>,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            sym: Arc::from(""),
            name: Arc::from(""),
            number: 0,
            fields: Vec::new(),
        }
    }
}

impl Layouts {
    /// The shapes as the standard library declares them.
    pub fn new(env: &Env) -> Self {
        let variants = |module: &str, name: &str| -> Vec<Arc<Layout>> {
            let sym = full(module, name);
            let info = env.info(&sym);
            let Some(Shape::Union(variants)) = info.as_deref().map(|i| &i.shape) else {
                return Vec::new();
            };
            let make = |(number, (name, _)): (usize, &(Arc<str>, _))| {
                Arc::new(Layout {
                    sym: sym.clone(),
                    name: name.clone(),
                    number,
                    fields: Vec::new(),
                })
            };
            variants.iter().enumerate().map(make).collect()
        };
        let record = |module: &str, name: &str| {
            let sym = full(module, name);
            let info = env.info(&sym);
            let fields = match info.as_deref().map(|i| &i.shape) {
                Some(Shape::Record(fields)) => fields.iter().map(|(n, _)| n.clone()).collect(),
                _ => Vec::new(),
            };
            Arc::new(Layout {
                sym,
                name: Arc::from(name),
                number: 0,
                fields,
            })
        };
        let error = |module: &str, name: &str| {
            let sym = full(module, name);
            let fields = env.error_fields(&sym).unwrap_or_default();
            let fields = fields.iter().map(|(n, _)| n.clone()).collect();
            Arc::new(Layout {
                sym,
                name: Arc::from(name),
                number: usize::MAX,
                fields,
            })
        };
        let options = variants("std/core", "Option");
        Self {
            none: options.first().cloned().unwrap_or_default(),
            some: options.get(1).cloned().unwrap_or_default(),
            entry: record("std/core", "Entry"),
            response: record("std/http", "Response"),
            http_error: error("std/http", "HttpError"),
            decode_error: error("std/json", "DecodeError"),
            json: variants("std/json", "Json"),
        }
    }

    /// `Some(value)` or `None`.
    pub fn option(&self, value: Option<Value>) -> Value {
        match value {
            Some(value) => Value::data(&self.some, vec![value]),
            None => Value::data(&self.none, Vec::new()),
        }
    }
}

/// The table: the symbol that declares a function, and what it does.
const TABLE: &[(&str, Function)] = &[
    ("std/core::print", |c, a| {
        let text = string(&a[0])?;
        c.meter.work(text.len() / 16)?;
        c.host.print(&text).map_err(refused)?;
        Ok(Value::Unit)
    }),
    ("std/core::debug", |c, a| text(c, value::show(&a[0]))),
    ("std/core::String.length", |c, a| {
        let s = string(&a[0])?;
        c.meter.work(s.len() / 64)?;
        Ok(Value::Int(s.chars().count() as i64))
    }),
    ("std/core::String.is_empty", |_, a| {
        Ok(Value::Bool(string(&a[0])?.is_empty()))
    }),
    ("std/core::String.slice", |c, a| {
        let s = string(&a[0])?;
        let (from, to) = (size(&a[1])?, size(&a[2])?);
        c.meter.charge(s.len())?;
        text(
            c,
            s.chars().skip(from).take(to.saturating_sub(from)).collect(),
        )
    }),
    ("std/core::String.split", |c, a| {
        let (s, by) = (string(&a[0])?, string(&a[1])?);
        if by.is_empty() {
            return chars(c, &s);
        }
        strings(c, s.len(), s.split(&*by))
    }),
    ("std/core::String.lines", |c, a| {
        let s = string(&a[0])?;
        strings(c, s.len(), s.lines())
    }),
    ("std/core::String.chars", |c, a| chars(c, &string(&a[0])?)),
    ("std/core::String.join", |c, a| {
        let by = string(&a[1])?;
        let parts: Vec<Arc<str>> = items(&a[0])?.iter().map(string).collect::<Result<_, _>>()?;
        c.meter
            .charge(parts.iter().map(|p| p.len() + by.len()).sum())?;
        text(c, parts.join(&*by))
    }),
    ("std/core::String.contains", |c, a| {
        let (s, part) = (string(&a[0])?, string(&a[1])?);
        c.meter.work(s.len() / 16)?;
        Ok(Value::Bool(s.contains(&*part)))
    }),
    ("std/core::String.starts_with", |_, a| {
        Ok(Value::Bool(string(&a[0])?.starts_with(&*string(&a[1])?)))
    }),
    ("std/core::String.ends_with", |_, a| {
        Ok(Value::Bool(string(&a[0])?.ends_with(&*string(&a[1])?)))
    }),
    ("std/core::String.index_of", |c, a| {
        let (s, part) = (string(&a[0])?, string(&a[1])?);
        c.meter.work(s.len() / 16)?;
        let found = s
            .find(&*part)
            .map(|at| Value::Int(s[..at].chars().count() as i64));
        Ok(c.layouts.option(found))
    }),
    ("std/core::String.trim", |c, a| {
        text(c, string(&a[0])?.trim().to_owned())
    }),
    ("std/core::String.to_upper", |c, a| {
        let s = string(&a[0])?;
        c.meter.charge(s.len() * 3)?;
        text(c, s.to_uppercase())
    }),
    ("std/core::String.to_lower", |c, a| {
        let s = string(&a[0])?;
        c.meter.charge(s.len() * 3)?;
        text(c, s.to_lowercase())
    }),
    ("std/core::String.replace", |c, a| {
        let (s, old, new) = (string(&a[0])?, string(&a[1])?, string(&a[2])?);
        let times = if old.is_empty() {
            s.len() + 1
        } else {
            s.len() / old.len()
        };
        c.meter
            .charge(times.saturating_mul(new.len()).saturating_add(s.len()))?;
        text(c, s.replace(&*old, &new))
    }),
    ("std/core::String.repeat", |c, a| {
        let (s, times) = (string(&a[0])?, size(&a[1])?);
        c.meter.charge(s.len().saturating_mul(times))?;
        text(c, s.repeat(times))
    }),
    ("std/core::String.reverse", |c, a| {
        let s = string(&a[0])?;
        c.meter.charge(s.len())?;
        text(c, s.chars().rev().collect())
    }),
    ("std/core::String.to_int", |c, a| {
        let found = string(&a[0])?.trim().parse().ok().map(Value::Int);
        Ok(c.layouts.option(found))
    }),
    ("std/core::String.to_float", |c, a| {
        let found = string(&a[0])?
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|x| x.is_finite())
            .map(Value::Float);
        Ok(c.layouts.option(found))
    }),
    ("std/core::Int.to_string", |c, a| {
        text(c, int(&a[0])?.to_string())
    }),
    ("std/core::Int.to_float", |_, a| {
        Ok(Value::Float(int(&a[0])? as f64))
    }),
    ("std/core::Float.to_string", |c, a| {
        text(c, show_float(float(&a[0])?))
    }),
    ("std/core::Float.to_int", |c, a| {
        let x = float(&a[0])?.trunc();
        // The bounds are exact powers of two; the upper one is just outside of Int.
        let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&x);
        Ok(c.layouts.option(fits.then_some(Value::Int(x as i64))))
    }),
    ("std/core::Float.floor", |_, a| {
        Ok(Value::Float(float(&a[0])?.floor()))
    }),
    ("std/core::Float.ceil", |_, a| {
        Ok(Value::Float(float(&a[0])?.ceil()))
    }),
    ("std/core::Float.round", |_, a| {
        Ok(Value::Float(float(&a[0])?.round()))
    }),
    ("std/core::Float.sqrt", |_, a| {
        Ok(Value::Float(float(&a[0])?.sqrt()))
    }),
    ("std/core::Float.is_nan", |_, a| {
        Ok(Value::Bool(float(&a[0])?.is_nan()))
    }),
    ("std/core::List.length", |_, a| {
        Ok(Value::Int(items(&a[0])?.len() as i64))
    }),
    ("std/core::List.is_empty", |_, a| {
        Ok(Value::Bool(items(&a[0])?.is_empty()))
    }),
    ("std/core::List.get", |c, a| {
        let index = int(&a[1])?;
        let found = usize::try_from(index)
            .ok()
            .and_then(|i| items(&a[0]).ok()?.get(i).cloned());
        Ok(c.layouts.option(found))
    }),
    ("std/core::List.append", |c, a| {
        let item = std::mem::replace(&mut a[1], Value::Unit);
        let mut list = take_list(&mut a[0])?;
        own_list(c, &mut list, 1)?;
        Arc::make_mut(&mut list).0.push(item);
        Ok(Value::List(list))
    }),
    ("std/core::List.prepend", |c, a| {
        let item = std::mem::replace(&mut a[1], Value::Unit);
        let mut list = take_list(&mut a[0])?;
        c.meter.charge(16 + list.0.len() * size_of::<Value>())?;
        Arc::make_mut(&mut list).0.insert(0, item);
        Ok(Value::List(list))
    }),
    ("std/core::List.take", |c, a| {
        let keep = size(&a[1])?;
        let mut list = take_list(&mut a[0])?;
        if keep < list.0.len() {
            own_list(c, &mut list, 0)?;
            Arc::make_mut(&mut list).0.truncate(keep);
        }
        Ok(Value::List(list))
    }),
    ("std/core::List.drop", |c, a| {
        let list = items(&a[0])?;
        let from = size(&a[1])?.min(list.len());
        c.meter
            .charge(48 + (list.len() - from) * size_of::<Value>())?;
        Ok(Value::list(list[from..].to_vec()))
    }),
    ("std/core::List.reverse", |c, a| {
        let mut list = take_list(&mut a[0])?;
        own_list(c, &mut list, 0)?;
        c.meter.work(list.0.len() / 8)?;
        Arc::make_mut(&mut list).0.reverse();
        Ok(Value::List(list))
    }),
    ("std/core::List.set", |c, a| {
        let (index, item) = (int(&a[1])?, std::mem::replace(&mut a[2], Value::Unit));
        let mut list = take_list(&mut a[0])?;
        if let Some(index) = usize::try_from(index).ok().filter(|i| *i < list.0.len()) {
            own_list(c, &mut list, 0)?;
            Arc::make_mut(&mut list).0[index] = item;
        }
        Ok(Value::List(list))
    }),
    ("std/core::List.range", |c, a| {
        let (from, to) = (int(&a[0])?, int(&a[1])?);
        let length = usize::try_from(i128::from(to) - i128::from(from)).unwrap_or(0);
        c.meter
            .charge(48usize.saturating_add(length.saturating_mul(size_of::<Value>())))?;
        Ok(Value::list((from..to).map(Value::Int).collect()))
    }),
    ("std/core::List.sort", |c, a| {
        let mut list = take_list(&mut a[0])?;
        let length = list.0.len();
        let mut parts = 0;
        for item in &list.0 {
            parts += small(c, item)?;
        }
        c.meter
            .work(parts.saturating_mul(length.max(2).ilog2() as usize))?;
        own_list(c, &mut list, 0)?;
        Arc::make_mut(&mut list).0.sort();
        Ok(Value::List(list))
    }),
    ("std/core::Map.empty", |_, _| Ok(Value::Map(Arc::default()))),
    ("std/core::Map.insert", |c, a| {
        let cost = small(c, &a[1])?;
        let key = std::mem::replace(&mut a[1], Value::Unit);
        let item = std::mem::replace(&mut a[2], Value::Unit);
        let mut map = take_map(&mut a[0])?;
        own_map(c, &mut map)?;
        c.meter.work(cost)?;
        Arc::make_mut(&mut map).0.insert(key, item);
        Ok(Value::Map(map))
    }),
    ("std/core::Map.remove", |c, a| {
        small(c, &a[1])?;
        let key = std::mem::replace(&mut a[1], Value::Unit);
        let mut map = take_map(&mut a[0])?;
        if map.0.contains_key(&key) {
            own_map(c, &mut map)?;
            Arc::make_mut(&mut map).0.remove(&key);
        }
        Ok(Value::Map(map))
    }),
    ("std/core::Map.get", |c, a| {
        let cost = small(c, &a[1])?;
        c.meter.work(cost)?;
        Ok(c.layouts.option(map(&a[0])?.0.get(&a[1]).cloned()))
    }),
    ("std/core::Map.size", |_, a| {
        Ok(Value::Int(map(&a[0])?.0.len() as i64))
    }),
    ("std/core::Map.keys", |c, a| {
        let map = map(&a[0])?;
        c.meter.charge(48 + map.0.len() * size_of::<Value>())?;
        Ok(Value::list(map.0.keys().cloned().collect()))
    }),
    ("std/core::Map.values", |c, a| {
        let map = map(&a[0])?;
        c.meter.charge(48 + map.0.len() * size_of::<Value>())?;
        Ok(Value::list(map.0.values().cloned().collect()))
    }),
    ("std/core::Map.entries", |c, a| {
        let map = map(&a[0])?;
        c.meter.charge(48 + map.0.len() * 5 * size_of::<Value>())?;
        let entry =
            |(k, v): (&Value, &Value)| Value::data(&c.layouts.entry, vec![k.clone(), v.clone()]);
        Ok(Value::list(map.0.iter().map(entry).collect()))
    }),
    ("std/core::Url.encode", |c, a| {
        let mut shown = String::new();
        push_text(&mut shown, &a[0]).ok_or_else(|| broken("a value that a string cannot show"))?;
        c.meter.charge(shown.len() * 3)?;
        text(c, percent_encode(&shown))
    }),
    ("std/core::Url.to_string", |_, a| Ok(a[0].clone())),
    ("std/core::Url.from", |_, a| Ok(a[0].clone())),
    ("std/clock::Clock.now", |c, _| {
        Ok(Value::Int(c.host.now().map_err(refused)?))
    }),
    ("std/random::Random.bits", |c, _| {
        Ok(Value::Int(c.host.random().map_err(refused)? as i64))
    }),
    ("std/random::Random.int", |c, a| {
        let (low, high) = (int(&a[0])?, int(&a[1])?);
        let bits = c.host.random().map_err(refused)?;
        // `low..=high` may hold 2^64 numbers, so it is counted in 128 bits.
        let span = (i128::from(high) - i128::from(low)).max(0) as u128 + 1;
        let offset = (u128::from(bits) * span) >> 64;
        Ok(Value::Int((i128::from(low) + offset as i128) as i64))
    }),
    ("std/random::Random.float", |c, _| {
        let bits = c.host.random().map_err(refused)?;
        Ok(Value::Float((bits >> 11) as f64 / (1u64 << 53) as f64))
    }),
    ("std/http::Http.get", |c, a| {
        let request = HttpRequest {
            method: "GET",
            url: string(&a[0])?.to_string(),
            body: None,
        };
        http(c, &request)
    }),
    ("std/http::Http.post", |c, a| {
        let body = Some(string(&a[1])?.to_string());
        let request = HttpRequest {
            method: "POST",
            url: string(&a[0])?.to_string(),
            body,
        };
        http(c, &request)
    }),
    ("std/json::Json.parse", |c, a| {
        let source = string(&a[0])?;
        c.meter.charge(source.len() * 4)?;
        match serde_json::from_str::<Json>(&source) {
            Ok(json) => json_value(c, &json),
            Err(error) => Err(Trouble::Fail(decode_error(c, &error.to_string()))),
        }
    }),
    ("std/json::Json.text", |c, a| {
        let mut out = String::new();
        json_text(c, &a[0], &mut out, 0)?;
        text(c, out)
    }),
];

/// The function that a symbol of the standard library declares, if it is one of the machine's.
pub(crate) fn find(sym: &str) -> Option<Native> {
    static INDEX: OnceLock<HashMap<&'static str, usize>> = OnceLock::new();
    let index = INDEX.get_or_init(|| {
        TABLE
            .iter()
            .enumerate()
            .map(|(i, (name, _))| (*name, i))
            .collect()
    });
    index.get(sym).copied()
}

/// All symbols of the table.
pub(crate) fn symbols() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

/// Runs a function of the machine on its arguments.
pub(crate) fn run(native: Native, context: &mut Context, args: &mut [Value]) -> Outcome {
    let (_, function) = TABLE
        .get(native)
        .ok_or_else(|| broken("no such function"))?;
    function(context, args)
}

fn broken(what: &str) -> Trouble {
    Trouble::Fault(FaultKind::Broken, format!("the machine met {what}"))
}

fn refused(refusal: Refusal) -> Trouble {
    match refusal {
        Refusal::Denied(message) | Refusal::Failed(message) => {
            Trouble::Fault(FaultKind::Denied, message)
        }
    }
}

fn string(value: &Value) -> Result<Arc<str>, Trouble> {
    match value {
        Value::Str(s) => Ok(s.clone()),
        _ => Err(broken("no String")),
    }
}

fn int(value: &Value) -> Result<i64, Trouble> {
    match value {
        Value::Int(n) => Ok(*n),
        _ => Err(broken("no Int")),
    }
}

/// A count; below zero is zero.
fn size(value: &Value) -> Result<usize, Trouble> {
    Ok(usize::try_from(int(value)?.max(0)).unwrap_or(usize::MAX))
}

fn float(value: &Value) -> Result<f64, Trouble> {
    match value {
        Value::Float(x) => Ok(*x),
        _ => Err(broken("no Float")),
    }
}

fn items(value: &Value) -> Result<&[Value], Trouble> {
    match value {
        Value::List(list) => Ok(&list.0),
        _ => Err(broken("no List")),
    }
}

fn map(value: &Value) -> Result<&Map, Trouble> {
    match value {
        Value::Map(map) => Ok(map),
        _ => Err(broken("no Map")),
    }
}

/// Takes the list out of its place, so that it may be the only one who holds it.
fn take_list(value: &mut Value) -> Result<Arc<List>, Trouble> {
    match std::mem::replace(value, Value::Unit) {
        Value::List(list) => Ok(list),
        _ => Err(broken("no List")),
    }
}

fn take_map(value: &mut Value) -> Result<Arc<Map>, Trouble> {
    match std::mem::replace(value, Value::Unit) {
        Value::Map(map) => Ok(map),
        _ => Err(broken("no Map")),
    }
}

/// Pays for a list about to be changed: a copy of it, if others hold it too, and growth.
fn own_list(c: &mut Context, list: &mut Arc<List>, grows: usize) -> Result<(), Trouble> {
    let copied = if Arc::get_mut(list).is_some() {
        0
    } else {
        48 + list.0.len() * size_of::<Value>()
    };
    c.meter.charge(copied + grows * size_of::<Value>())
}

fn own_map(c: &mut Context, map: &mut Arc<Map>) -> Result<(), Trouble> {
    let copied = if Arc::get_mut(map).is_some() {
        0
    } else {
        48 + map.0.len() * 3 * size_of::<Value>()
    };
    c.meter.charge(copied + 3 * size_of::<Value>())
}

/// The largest key of a map or element to sort, in parts.
const LARGEST_KEY: usize = 10_000;

/// Demands that a value is small enough to be compared again and again; gives its size.
fn small(c: &mut Context, value: &Value) -> Result<usize, Trouble> {
    let size = value::tree_size(value, LARGEST_KEY);
    c.meter.work(size)?;
    if size > LARGEST_KEY {
        let message = format!("a key, or an element to sort, has more than {LARGEST_KEY} parts");
        return Err(Trouble::Fault(FaultKind::Memory, message));
    }
    Ok(size)
}

fn text(c: &mut Context, text: String) -> Outcome {
    c.meter.charge(text.len() + 16)?;
    Ok(Value::text(&text))
}

fn strings<'s>(c: &mut Context, length: usize, parts: impl Iterator<Item = &'s str>) -> Outcome {
    c.meter.charge(length)?;
    let mut out = Vec::new();
    for part in parts {
        c.meter.charge(part.len() + 32)?;
        out.push(Value::text(part));
    }
    Ok(Value::list(out))
}

fn chars(c: &mut Context, s: &str) -> Outcome {
    c.meter.charge(s.len().saturating_mul(40))?;
    let mut buffer = [0; 4];
    Ok(Value::list(
        s.chars()
            .map(|ch| Value::text(ch.encode_utf8(&mut buffer)))
            .collect(),
    ))
}

/// Adds the form in which a string shows a value; None if it shows no such values.
pub(crate) fn push_text(out: &mut String, value: &Value) -> Option<()> {
    match value {
        Value::Str(s) => out.push_str(s),
        Value::Int(n) => drop(write!(out, "{n}")),
        Value::Float(x) => out.push_str(&show_float(*x)),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        _ => return None,
    }
    Some(())
}

/// All but RFC 3986's unreserved characters as `%XX`.
fn percent_encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte as char);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn http(c: &mut Context, request: &HttpRequest) -> Outcome {
    match c.host.http(request) {
        Ok(response) => {
            c.meter.charge(response.body.len() + 256)?;
            let headers = response
                .headers
                .iter()
                .map(|(k, v)| (Value::text(&k.to_ascii_lowercase()), Value::text(v)));
            let headers = Value::Map(Arc::new(Map(headers.collect())));
            let fields = vec![
                Value::Int(i64::from(response.status)),
                headers,
                Value::text(&response.body),
            ];
            Ok(Value::data(&c.layouts.response, fields))
        }
        Err(Refusal::Failed(message)) => Err(Trouble::Fail(Value::data(
            &c.layouts.http_error,
            vec![Value::text(&message)],
        ))),
        Err(denied) => Err(refused(denied)),
    }
}

fn decode_error(c: &Context, message: &str) -> Value {
    Value::data(&c.layouts.decode_error, vec![Value::text(message)])
}

/// The variants of `Json`, in the order the standard library declares them.
#[derive(Clone, Copy)]
enum JsonKind {
    Null,
    Bool,
    Int,
    Float,
    String,
    List,
    Object,
}

fn json_value(c: &mut Context, json: &Json) -> Outcome {
    c.meter.charge(96)?;
    let layout = |c: &Context, kind: JsonKind| {
        c.layouts
            .json
            .get(kind as usize)
            .cloned()
            .ok_or_else(|| broken("no Json"))
    };
    // serde_json bounds the nesting of what it reads.
    let (kind, fields) = match json {
        Json::Null => (JsonKind::Null, vec![]),
        Json::Bool(b) => (JsonKind::Bool, vec![Value::Bool(*b)]),
        Json::Number(n) => match n.as_i64() {
            Some(n) => (JsonKind::Int, vec![Value::Int(n)]),
            None => match n.as_f64().filter(|x| x.is_finite()) {
                Some(x) => (JsonKind::Float, vec![Value::Float(x)]),
                None => {
                    return Err(Trouble::Fail(decode_error(
                        c,
                        &format!("the number {n} is too large"),
                    )));
                }
            },
        },
        Json::String(s) => (JsonKind::String, vec![Value::text(s)]),
        Json::Array(items) => {
            let items = items
                .iter()
                .map(|item| json_value(c, item))
                .collect::<Result<Vec<_>, _>>()?;
            (JsonKind::List, vec![Value::list(items)])
        }
        Json::Object(members) => {
            let mut out = Map::default();
            for (name, member) in members {
                out.0.insert(Value::text(name), json_value(c, member)?);
            }
            (JsonKind::Object, vec![Value::Map(Arc::new(out))])
        }
    };
    Ok(Value::data(&layout(c, kind)?, fields))
}

/// How deep JSON may nest that a program writes.
const JSON_DEPTH: u32 = 128;

fn json_text(c: &mut Context, value: &Value, out: &mut String, depth: u32) -> Result<(), Trouble> {
    c.meter.charge(16)?;
    c.meter.work(2)?;
    if depth > JSON_DEPTH {
        return Err(Trouble::Fault(
            FaultKind::Memory,
            format!("this Json nests deeper than {JSON_DEPTH} levels"),
        ));
    }
    let Value::Data(data) = value else {
        return Err(broken("no Json"));
    };
    match data.fields.first() {
        None => out.push_str("null"),
        Some(Value::Bool(b)) => out.push_str(if *b { "true" } else { "false" }),
        Some(Value::Int(n)) => drop(write!(out, "{n}")),
        // JSON has no word for what is not a number.
        Some(Value::Float(x)) if !x.is_finite() => out.push_str("null"),
        Some(Value::Float(x)) => out.push_str(&show_float(*x)),
        Some(Value::Str(s)) => json_string(c, s, out)?,
        Some(Value::List(list)) => {
            out.push('[');
            for (i, item) in list.0.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                json_text(c, item, out, depth + 1)?;
            }
            out.push(']');
        }
        Some(Value::Map(map)) => {
            out.push('{');
            for (i, (name, member)) in map.0.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                json_string(c, &string(name)?, out)?;
                out.push(':');
                json_text(c, member, out, depth + 1)?;
            }
            out.push('}');
        }
        Some(_) => return Err(broken("no Json")),
    }
    Ok(())
}

fn json_string(c: &mut Context, s: &str, out: &mut String) -> Result<(), Trouble> {
    c.meter.charge(s.len())?;
    out.push_str(&Json::from(s).to_string());
    Ok(())
}
