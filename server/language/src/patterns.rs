//! Whether the arms of a `match` take every value, and which arms no value reaches.
//!
//! Luc Maranget's algorithm ("Warnings for pattern matching"), with a bound on its work.

use std::sync::Arc;

use crate::ast::{Arm, Pattern, PatternKind};
use crate::env::{Env, Shape};
use crate::names::Scope;
use crate::types::{self, Instance, Ty, TyKind, short};

/// What is known about the arms.
#[derive(Debug, PartialEq)]
#[allow(missing_docs)]
pub(crate) enum Verdict {
    /// Every value has an arm; these arms (by number) are never reached.
    Fine { unreachable: Vec<usize> },
    /// Examples of values without an arm, as patterns.
    Missing(Vec<String>),
    /// Too many to tell.
    Unknown,
}

/// Whether a pattern takes every value of its type, judged by its form alone.
pub(crate) fn irrefutable_head(pattern: &Pattern) -> bool {
    matches!(
        pattern.kind,
        PatternKind::Wild | PatternKind::Bind(_) | PatternKind::Unit | PatternKind::Error
    )
}

#[derive(Debug, Clone, PartialEq)]
enum Key {
    Variant(usize),
    Bool(bool),
    Unit,
    Int(i64),
    Float(u64),
    Str(String),
    Nil,
    Cons,
    Record,
}

#[derive(Debug, Clone)]
enum P {
    Wild,
    Con(Key, Vec<P>),
}

struct TooMuch;

const STEPS: u32 = 50_000;
const DEPTH: u32 = 300;
const LONGEST_LIST: usize = 100;

struct Judge<'a> {
    env: &'a Env,
    scope: &'a Scope,
    steps: u32,
}

/// Judges the arms of a match on a value of type `ty`.
pub(crate) fn judge(env: &Env, scope: &Scope, ty: &Ty, arms: &[Arm]) -> Verdict {
    let mut judge = Judge {
        env,
        scope,
        steps: STEPS,
    };
    judge.run(ty, arms).unwrap_or(Verdict::Unknown)
}

impl Judge<'_> {
    fn run(&mut self, ty: &Ty, arms: &[Arm]) -> Result<Verdict, TooMuch> {
        let tys = [ty.clone()];
        let mut rows: Vec<Vec<P>> = Vec::new();
        let mut unreachable = Vec::new();
        for (index, arm) in arms.iter().enumerate() {
            let row = vec![self.lower(&arm.pattern)?];
            if self.useful(&rows, &row, &tys, 0)?.is_none() {
                unreachable.push(index);
            }
            if arm.guard.is_none() {
                rows.push(row);
            }
        }
        let mut missing = Vec::new();
        while missing.len() < 5 {
            let Some(witness) = self.useful(&rows, &[P::Wild], &tys, 0)? else {
                break;
            };
            missing.push(
                witness
                    .first()
                    .map_or("_".to_owned(), |p| self.show(p, ty, 0)),
            );
            rows.push(witness);
        }
        Ok(if missing.is_empty() {
            Verdict::Fine { unreachable }
        } else {
            Verdict::Missing(missing)
        })
    }

    fn lower(&self, pattern: &Pattern) -> Result<P, TooMuch> {
        let simple = |key| Ok(P::Con(key, Vec::new()));
        match &pattern.kind {
            PatternKind::Wild | PatternKind::Bind(_) | PatternKind::Error => Ok(P::Wild),
            PatternKind::Int(n) => simple(Key::Int(*n)),
            PatternKind::Float(x) => simple(Key::Float(x.to_bits())),
            PatternKind::Bool(b) => simple(Key::Bool(*b)),
            PatternKind::Unit => simple(Key::Unit),
            PatternKind::Str(s) => simple(Key::Str(s.clone())),
            PatternKind::Ctor(name, inner) => {
                // What is unknown has been told; it takes everything here.
                let Some((_, number)) = self.scope.constructor(&name.text) else {
                    return Ok(P::Wild);
                };
                let inner: Result<Vec<P>, TooMuch> = inner.iter().map(|p| self.lower(p)).collect();
                Ok(P::Con(Key::Variant(number), inner?))
            }
            PatternKind::Record(name, fields) => {
                let info = self
                    .scope
                    .ty(&name.text)
                    .and_then(|sym| self.env.info(&sym));
                let Some(info) = info else { return Ok(P::Wild) };
                let Shape::Record(declared) = &info.shape else {
                    return Ok(P::Wild);
                };
                let mut inner = Vec::new();
                for (field, _) in declared {
                    let found = fields
                        .iter()
                        .find(|(n, _)| n.text == *field)
                        .and_then(|(_, p)| p.as_ref());
                    inner.push(found.map_or(Ok(P::Wild), |p| self.lower(p))?);
                }
                Ok(P::Con(Key::Record, inner))
            }
            PatternKind::List(items, rest) => {
                if items.len() > LONGEST_LIST {
                    return Err(TooMuch);
                }
                let end = if rest.is_some() {
                    P::Wild
                } else {
                    P::Con(Key::Nil, Vec::new())
                };
                items.iter().rev().try_fold(end, |tail, item| {
                    Ok(P::Con(Key::Cons, vec![self.lower(item)?, tail]))
                })
            }
        }
    }

    /// The payload types of `key` in `ty`, `size` of them.
    fn parts(&self, ty: &Ty, key: &Key, size: usize) -> Vec<Ty> {
        let TyKind::Con { name, args, .. } = &**ty else {
            return vec![types::error(); size];
        };
        match key {
            Key::Cons => vec![
                args.first().cloned().unwrap_or_else(types::error),
                ty.clone(),
            ],
            Key::Variant(_) | Key::Record => {
                let Some(info) = self.env.info(name) else {
                    return vec![types::error(); size];
                };
                let map = info
                    .generics
                    .iter()
                    .cloned()
                    .zip(args.iter().cloned())
                    .collect();
                let instance = Instance {
                    types: map,
                    rows: Default::default(),
                };
                let mut parts: Vec<Ty> = match (&info.shape, key) {
                    (Shape::Union(variants), Key::Variant(number)) => variants
                        .get(*number)
                        .map(|(_, payload)| payload.iter().map(|ty| instance.apply(ty)).collect())
                        .unwrap_or_default(),
                    (Shape::Record(fields), _) => {
                        fields.iter().map(|(_, ty)| instance.apply(ty)).collect()
                    }
                    _ => Vec::new(),
                };
                parts.resize_with(size, types::error);
                parts
            }
            _ => Vec::new(),
        }
    }

    /// All constructors of a type with their sizes; None when there is no end of them.
    fn all(&self, ty: &Ty) -> Option<Vec<(Key, usize)>> {
        let TyKind::Con { name, .. } = &**ty else {
            return None;
        };
        match &**name {
            "std/core::Bool" => return Some(vec![(Key::Bool(true), 0), (Key::Bool(false), 0)]),
            "std/core::Unit" => return Some(vec![(Key::Unit, 0)]),
            "std/core::List" => return Some(vec![(Key::Nil, 0), (Key::Cons, 2)]),
            _ => {}
        }
        match &self.env.info(name)?.shape {
            Shape::Union(variants) => Some(
                variants
                    .iter()
                    .enumerate()
                    .map(|(i, (_, p))| (Key::Variant(i), p.len()))
                    .collect(),
            ),
            Shape::Record(fields) => Some(vec![(Key::Record, fields.len())]),
            _ => None,
        }
    }

    /// A vector of values that `query` takes and no row does.
    fn useful(
        &mut self,
        rows: &[Vec<P>],
        query: &[P],
        tys: &[Ty],
        depth: u32,
    ) -> Result<Option<Vec<P>>, TooMuch> {
        self.steps = self.steps.saturating_sub(1 + rows.len() as u32 / 8);
        if self.steps == 0 || depth > DEPTH {
            return Err(TooMuch);
        }
        let Some((first, rest)) = query.split_first() else {
            return Ok(rows.is_empty().then(Vec::new));
        };
        let ty = tys[0].clone();
        match first {
            P::Con(key, inner) => self.with_key(rows, key, inner, rest, &ty, &tys[1..], depth),
            P::Wild => {
                let present: Vec<&Key> = rows
                    .iter()
                    .filter_map(|row| match &row[0] {
                        P::Con(key, _) => Some(key),
                        P::Wild => None,
                    })
                    .collect();
                let all = self.all(&ty);
                let absent = all
                    .as_ref()
                    .and_then(|all| all.iter().find(|(k, _)| !present.contains(&k)).cloned());
                if let (Some(all), None) = (&all, &absent) {
                    for (key, size) in all {
                        let wild = vec![P::Wild; *size];
                        let found = self.with_key(rows, key, &wild, rest, &ty, &tys[1..], depth)?;
                        if found.is_some() {
                            return Ok(found);
                        }
                    }
                    return Ok(None);
                }
                let default: Vec<Vec<P>> = rows
                    .iter()
                    .filter(|row| matches!(row[0], P::Wild))
                    .map(|row| row[1..].to_vec())
                    .collect();
                let found = self.useful(&default, rest, &tys[1..], depth + 1)?;
                Ok(found.map(|mut tail| {
                    let head = match absent {
                        Some((key, size)) if !present.is_empty() => {
                            P::Con(key, vec![P::Wild; size])
                        }
                        _ => P::Wild,
                    };
                    tail.insert(0, head);
                    tail
                }))
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn with_key(
        &mut self,
        rows: &[Vec<P>],
        key: &Key,
        inner: &[P],
        rest: &[P],
        ty: &Ty,
        tys: &[Ty],
        depth: u32,
    ) -> Result<Option<Vec<P>>, TooMuch> {
        let size = inner.len();
        let mut next = Vec::new();
        for row in rows {
            let head = match &row[0] {
                P::Wild => vec![P::Wild; size],
                P::Con(k, parts) if k == key => {
                    let mut parts = parts.clone();
                    parts.resize(size, P::Wild);
                    parts
                }
                P::Con(..) => continue,
            };
            next.push(head.into_iter().chain(row[1..].iter().cloned()).collect());
        }
        let query: Vec<P> = inner.iter().chain(rest).cloned().collect();
        let tys: Vec<Ty> = self
            .parts(ty, key, size)
            .into_iter()
            .chain(tys.iter().cloned())
            .collect();
        let found = self.useful(&next, &query, &tys, depth + 1)?;
        Ok(found.map(|witness| {
            let tail = witness[size..].to_vec();
            let mut all = vec![P::Con(key.clone(), witness[..size].to_vec())];
            all.extend(tail);
            all
        }))
    }

    fn show(&self, p: &P, ty: &Ty, depth: u32) -> String {
        let P::Con(key, inner) = p else {
            return "_".to_owned();
        };
        if depth > 6 {
            return "_".to_owned();
        }
        let parts = self.parts(ty, key, inner.len());
        let shown = |p: &P, i: usize| self.show(p, &parts[i], depth + 1);
        match key {
            Key::Bool(b) => b.to_string(),
            Key::Unit => "()".to_owned(),
            Key::Int(n) => n.to_string(),
            Key::Float(bits) => format!("{:?}", f64::from_bits(*bits)),
            Key::Str(s) => format!("{s:?}"),
            Key::Nil => "[]".to_owned(),
            Key::Cons => format!("[{}, ..]", shown(&inner[0], 0)),
            Key::Variant(number) => {
                let name: Arc<str> = match &**ty {
                    TyKind::Con { name, .. } => {
                        match self.env.info(name).as_deref().map(|i| &i.shape) {
                            Some(Shape::Union(variants)) => variants[*number].0.clone(),
                            _ => Arc::from("_"),
                        }
                    }
                    _ => Arc::from("_"),
                };
                if inner.is_empty() {
                    return name.to_string();
                }
                let list: Vec<String> =
                    inner.iter().enumerate().map(|(i, p)| shown(p, i)).collect();
                format!("{name}({})", list.join(", "))
            }
            Key::Record => {
                let TyKind::Con { name, .. } = &**ty else {
                    return "_".to_owned();
                };
                let info = self.env.info(name);
                let Some(Shape::Record(fields)) = info.as_deref().map(|i| &i.shape) else {
                    return "_".to_owned();
                };
                let list: Vec<String> = inner
                    .iter()
                    .zip(fields)
                    .enumerate()
                    .filter(|(_, (p, _))| matches!(p, P::Con(..)))
                    .map(|(i, (p, (field, _)))| format!("{field}: {}", shown(p, i)))
                    .collect();
                format!("{} {{ {} }}", short(name), list.join(", "))
            }
        }
    }
}
