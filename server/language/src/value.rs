//! Values of a running program.
//!
//! Values are trees of shared parts and may be as deep as the memory budget allows, so nothing
//! here walks them by recursion: comparing, measuring and freeing keep a list of their own.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

use crate::types::Sym;

/// A value.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum Value {
    Unit,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Arc<str>),
    List(Arc<List>),
    Map(Arc<Map>),
    Data(Arc<Data>),
    Closure(Arc<Closure>),
}

/// The elements of a list.
#[derive(Debug, Clone, Default)]
pub struct List(pub Vec<Value>);

/// The entries of a map, in the order of their keys.
#[derive(Debug, Clone, Default)]
pub struct Map(pub BTreeMap<Value, Value>);

/// A record, a variant of a union, or a failure.
#[derive(Debug, Clone)]
pub struct Data {
    /// What it is.
    pub layout: Arc<Layout>,
    /// Its fields in declared order.
    pub fields: Vec<Value>,
}

/// A function value with what it captured.
#[derive(Debug, Clone)]
pub struct Closure {
    /// The number of the code.
    pub code: u32,
    /// Captured values; they come before the arguments.
    pub captured: Vec<Value>,
}

/// The shape of records, variants and failures.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The type or the error.
    pub sym: Sym,
    /// The record's, variant's or error's name.
    pub name: Arc<str>,
    /// The variant's number; 0 otherwise.
    pub number: usize,
    /// Names of the fields; empty for variants.
    pub fields: Vec<Arc<str>>,
}

impl Value {
    /// A text.
    pub fn text(text: &str) -> Value {
        Value::Str(Arc::from(text))
    }

    /// A list.
    pub fn list(items: Vec<Value>) -> Value {
        Value::List(Arc::new(List(items)))
    }

    /// A record, variant or failure.
    pub fn data(layout: &Arc<Layout>, fields: Vec<Value>) -> Value {
        Value::Data(Arc::new(Data {
            layout: layout.clone(),
            fields,
        }))
    }

    fn is_leaf(&self) -> bool {
        !matches!(
            self,
            Value::List(_) | Value::Map(_) | Value::Data(_) | Value::Closure(_)
        )
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Unit => 0,
            Value::Bool(_) => 1,
            Value::Int(_) => 2,
            Value::Float(_) => 3,
            Value::Str(_) => 4,
            Value::List(_) => 5,
            Value::Map(_) => 6,
            Value::Data(_) => 7,
            Value::Closure(_) => 8,
        }
    }
}

/// Frees what only `pending` holds, level by level.
fn free(mut pending: Vec<Value>) {
    while let Some(value) = pending.pop() {
        match value {
            Value::List(list) => {
                if let Some(mut list) = Arc::into_inner(list) {
                    pending.append(&mut list.0);
                }
            }
            Value::Map(map) => {
                if let Some(mut map) = Arc::into_inner(map) {
                    pending.extend(
                        std::mem::take(&mut map.0)
                            .into_iter()
                            .flat_map(|(k, v)| [k, v]),
                    );
                }
            }
            Value::Data(data) => {
                if let Some(mut data) = Arc::into_inner(data) {
                    pending.append(&mut data.fields);
                }
            }
            Value::Closure(closure) => {
                if let Some(mut closure) = Arc::into_inner(closure) {
                    pending.append(&mut closure.captured);
                }
            }
            _ => {}
        }
    }
}

fn free_all(values: &mut Vec<Value>) {
    if values.iter().any(|v| !v.is_leaf()) {
        free(std::mem::take(values));
    }
}

impl Drop for List {
    fn drop(&mut self) {
        free_all(&mut self.0);
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        free_all(&mut self.fields);
    }
}

impl Drop for Closure {
    fn drop(&mut self) {
        free_all(&mut self.captured);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.0.iter().any(|(k, v)| !k.is_leaf() || !v.is_leaf()) {
            free(
                std::mem::take(&mut self.0)
                    .into_iter()
                    .flat_map(|(k, v)| [k, v])
                    .collect(),
            );
        }
    }
}

/// How two values are ordered. `total` orders floats by their bits (for keys and sorting);
/// otherwise as IEEE 754 does, and a NaN makes the answer None.
///
/// Shared parts are compared as often as they are met, so the work is bounded by `steps`; None
/// around the answer when they run out.
pub fn compare_within(
    a: &Value,
    b: &Value,
    total: bool,
    steps: &mut u64,
) -> Option<Option<Ordering>> {
    let mut pending: Vec<(&Value, &Value)> = vec![(a, b)];
    let sizes = |x: usize, y: usize| x.cmp(&y);
    while let Some((a, b)) = pending.pop() {
        *steps = steps.checked_sub(1)?;
        let order = match (a, b) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) if total => a.total_cmp(b),
            (Value::Float(a), Value::Float(b)) => match a.partial_cmp(b) {
                Some(order) => order,
                None => return Some(None),
            },
            (Value::Str(a), Value::Str(b)) => a.cmp(b),
            (Value::List(a), Value::List(b)) => {
                if total && Arc::ptr_eq(a, b) {
                    continue;
                }
                let order = sizes(a.0.len(), b.0.len());
                if order == Ordering::Equal {
                    pending.extend(a.0.iter().zip(&b.0).rev());
                }
                order
            }
            (Value::Map(a), Value::Map(b)) => {
                let order = sizes(a.0.len(), b.0.len());
                if order == Ordering::Equal {
                    let pairs =
                        a.0.iter()
                            .zip(&b.0)
                            .flat_map(|((k, v), (l, w))| [(v, w), (k, l)]);
                    let at = pending.len();
                    pending.extend(pairs);
                    pending[at..].reverse();
                }
                order
            }
            (Value::Data(a), Value::Data(b)) => {
                if total && Arc::ptr_eq(a, b) {
                    continue;
                }
                let order = (a.layout.number, &a.layout.sym, a.fields.len()).cmp(&(
                    b.layout.number,
                    &b.layout.sym,
                    b.fields.len(),
                ));
                if order == Ordering::Equal {
                    pending.extend(a.fields.iter().zip(&b.fields).rev());
                }
                order
            }
            (Value::Closure(a), Value::Closure(b)) => {
                let order = (a.code, a.captured.len()).cmp(&(b.code, b.captured.len()));
                if order == Ordering::Equal {
                    pending.extend(a.captured.iter().zip(&b.captured).rev());
                }
                order
            }
            _ => a.rank().cmp(&b.rank()),
        };
        if order != Ordering::Equal {
            return Some(Some(order));
        }
    }
    Some(Some(Ordering::Equal))
}

/// How two values are ordered, however long it takes: for values whose size is known to be small.
pub fn compare(a: &Value, b: &Value, total: bool) -> Option<Ordering> {
    let mut steps = u64::MAX;
    compare_within(a, b, total, &mut steps).flatten()
}

/// How many parts a value has, shared ones counted as often as they are met; counting stops
/// above `limit`.
pub fn tree_size(value: &Value, limit: usize) -> usize {
    let mut size = 0;
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        size += 1;
        if size > limit {
            break;
        }
        match value {
            Value::List(l) => pending.extend(l.0.iter().take(limit)),
            Value::Map(m) => pending.extend(m.0.iter().take(limit).flat_map(|(k, v)| [k, v])),
            Value::Data(d) => pending.extend(&d.fields),
            Value::Closure(c) => pending.extend(&c.captured),
            _ => {}
        }
    }
    size
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self, other, true).unwrap_or(Ordering::Equal)
    }
}

/// Bytes that the values hold, what is shared counted once.
pub fn measure<'a>(roots: impl Iterator<Item = &'a Value>) -> usize {
    let mut seen: HashSet<usize> = HashSet::new();
    let mut bytes = 0;
    let mut pending: Vec<&Value> = Vec::new();
    for root in roots {
        pending.push(root);
        while let Some(value) = pending.pop() {
            bytes += size_of::<Value>();
            let address = match value {
                Value::Str(s) => s.as_ptr() as usize,
                Value::List(l) => Arc::as_ptr(l) as usize,
                Value::Map(m) => Arc::as_ptr(m) as usize,
                Value::Data(d) => Arc::as_ptr(d) as usize,
                Value::Closure(c) => Arc::as_ptr(c) as usize,
                _ => continue,
            };
            if !seen.insert(address) {
                continue;
            }
            bytes += 48;
            match value {
                Value::Str(s) => bytes += s.len(),
                Value::List(l) => pending.extend(&l.0),
                Value::Map(m) => {
                    bytes += m.0.len() * 16;
                    pending.extend(m.0.iter().flat_map(|(k, v)| [k, v]));
                }
                Value::Data(d) => pending.extend(&d.fields),
                Value::Closure(c) => pending.extend(&c.captured),
                _ => {}
            }
        }
    }
    bytes
}

/// A float as the language writes it: always with a point or an exponent.
pub fn show_float(x: f64) -> String {
    if x.is_finite() {
        format!("{x:?}")
    } else {
        x.to_string()
    }
}

/// The value as the language would write it, cut where it gets too long or too deep.
pub fn show(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out, 0);
    out
}

const LONGEST: usize = 2_000;

fn write(value: &Value, out: &mut String, depth: u32) {
    if out.len() > LONGEST || depth > 40 {
        if !out.ends_with('…') {
            out.push('…');
        }
        return;
    }
    match value {
        Value::Unit => out.push_str("()"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(n) => drop(write!(out, "{n}")),
        Value::Float(x) => out.push_str(&show_float(*x)),
        Value::Str(s) => quote(s, out),
        Value::List(l) => list("[", l.0.iter(), "]", out, depth),
        Value::Map(m) => {
            out.push_str("Map {");
            for (i, (k, v)) in m.0.iter().enumerate() {
                out.push_str(if i == 0 { " " } else { ", " });
                write(k, out, depth + 1);
                out.push_str(": ");
                write(v, out, depth + 1);
                if out.len() > LONGEST {
                    break;
                }
            }
            out.push_str(if m.0.is_empty() { "}" } else { " }" });
        }
        Value::Data(d) => {
            out.push_str(&d.layout.name);
            if d.fields.is_empty() {
                return;
            }
            if d.layout.fields.is_empty() {
                return list("(", d.fields.iter(), ")", out, depth);
            }
            for (i, (name, field)) in d.layout.fields.iter().zip(&d.fields).enumerate() {
                out.push_str(if i == 0 { " { " } else { ", " });
                out.push_str(name);
                out.push_str(": ");
                write(field, out, depth + 1);
            }
            out.push_str(" }");
        }
        Value::Closure(_) => out.push_str("<function>"),
    }
}

fn list<'a>(
    open: &str,
    items: impl Iterator<Item = &'a Value>,
    close: &str,
    out: &mut String,
    depth: u32,
) {
    out.push_str(open);
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write(item, out, depth + 1);
        if out.len() > LONGEST {
            break;
        }
    }
    out.push_str(close);
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '"' | '\\' | '{' | '}' => out.extend(['\\', c]),
            c if c.is_control() => drop(write!(out, "\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
        if out.len() > LONGEST {
            out.push('…');
            break;
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deep(levels: usize) -> Value {
        (0..levels).fold(Value::Unit, |inner, _| Value::list(vec![inner]))
    }

    #[test]
    fn a_value_of_any_depth_is_compared_measured_shown_and_freed() {
        let (a, b) = (deep(1_000_000), deep(1_000_000));
        assert_eq!(compare(&a, &b, false), Some(Ordering::Equal));
        assert!(measure([&a].into_iter()) > 1_000_000);
        assert!(show(&a).len() < 100);
    }

    #[test]
    fn floats_compare_by_ieee_and_by_total_order() {
        let nan = Value::Float(f64::NAN);
        assert_eq!(compare(&nan, &nan, false), None);
        assert_eq!(compare(&nan, &nan, true), Some(Ordering::Equal));
    }
}
