//! Types, effect rows, and making two of them equal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The full name of a declaration: `module::name`.
pub type Sym = Arc<str>;

/// A type. Cheap to clone.
pub type Ty = Arc<TyKind>;

/// How deep a type may nest.
pub const MAX_TYPE_DEPTH: u16 = 60;

/// The forms of types.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum TyKind {
    /// Known to be wrong; fits everything, so one mistake is told once.
    Error,
    /// Nests deeper than is allowed; fits nothing, so that it is told where it is used.
    TooDeep,
    /// To be found.
    Var(u32),
    /// A type parameter of the function in hand.
    Param(Arc<str>),
    Con {
        name: Sym,
        args: Vec<Ty>,
        measure: Measure,
    },
    Fn {
        params: Vec<Ty>,
        ret: Ty,
        row: Row,
        measure: Measure,
    },
}

/// One thing that running may do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// `Print`, `Http`, …
    Effect(Arc<str>),
    /// Failing with an error.
    Fail(Sym),
    /// Whatever the effect parameter stands for.
    Param(Arc<str>),
}

/// What running may do: some labels, and what a variable still stands for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Row {
    pub labels: BTreeSet<Label>,
    pub tail: Option<u32>,
}

/// How deep and how large a type is, as a tree.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Measure {
    depth: u16,
    size: u32,
}

/// How large a type may be.
const MAX_TYPE_SIZE: u32 = 4_000;

/// The measure of a type made of `parts`; None when it would nest too deeply or be too large.
fn measure<'a>(parts: impl Iterator<Item = &'a Ty>) -> Option<Measure> {
    let mut all = Measure { depth: 1, size: 1 };
    for part in parts {
        if let TyKind::Con { measure, .. } | TyKind::Fn { measure, .. } = &**part {
            all.depth = all.depth.max(measure.depth + 1);
            all.size = all.size.saturating_add(measure.size);
        }
    }
    (all.depth <= MAX_TYPE_DEPTH && all.size <= MAX_TYPE_SIZE).then_some(all)
}

/// A named type, unless it would nest too deeply.
pub fn con(name: &Sym, args: Vec<Ty>) -> Ty {
    match measure(args.iter()) {
        Some(measure) => Arc::new(TyKind::Con {
            name: name.clone(),
            args,
            measure,
        }),
        None => Arc::new(TyKind::TooDeep),
    }
}

/// A function type, unless it would nest too deeply.
pub fn function(params: Vec<Ty>, ret: Ty, row: Row) -> Ty {
    match measure(params.iter().chain([&ret])) {
        Some(measure) => Arc::new(TyKind::Fn {
            params,
            ret,
            row,
            measure,
        }),
        None => Arc::new(TyKind::TooDeep),
    }
}

/// The type that fits everything.
pub fn error() -> Ty {
    Arc::new(TyKind::Error)
}

/// A type parameter.
pub fn param(name: &Arc<str>) -> Ty {
    Arc::new(TyKind::Param(name.clone()))
}

/// The module and the name of a symbol.
pub fn split(sym: &str) -> (&str, &str) {
    sym.split_once("::").unwrap_or(("", sym))
}

/// The name of a symbol within its module.
pub fn short(sym: &str) -> &str {
    split(sym).1
}

/// Why two types are not equal.
#[derive(Debug, Clone, PartialEq)]
pub enum Clash {
    /// They differ.
    Differ,
    /// A type would contain itself.
    Infinite,
    /// Too much work or nesting.
    Complex,
    /// Function types whose effects differ.
    Rows(Row, Row),
}

/// What is known so far about type and row variables.
#[derive(Debug, Default, Clone)]
pub struct Solution {
    types: Vec<Option<Ty>>,
    rows: Vec<Option<Row>>,
    /// Steps left before the work is called too complex.
    pub fuel: u32,
}

impl Solution {
    /// Nothing known, and a bound on the work.
    pub fn new() -> Self {
        Self {
            fuel: 2_000_000,
            ..Self::default()
        }
    }

    /// A new unknown type.
    pub fn fresh(&mut self) -> Ty {
        self.types.push(None);
        Arc::new(TyKind::Var(self.types.len() as u32 - 1))
    }

    /// A new unknown row.
    pub fn fresh_row(&mut self) -> u32 {
        self.rows.push(None);
        self.rows.len() as u32 - 1
    }

    /// The row of just `labels`, open at its end.
    pub fn open(&mut self, mut row: Row) -> Row {
        if row.tail.is_none() {
            row.tail = Some(self.fresh_row());
        }
        row
    }

    /// What stands at the head of `ty`, variables looked up.
    pub fn head(&self, ty: &Ty) -> Ty {
        let mut ty = ty;
        while let TyKind::Var(var) = &**ty {
            match &self.types[*var as usize] {
                Some(bound) => ty = bound,
                None => break,
            }
        }
        ty.clone()
    }

    /// All labels known of a row, and its open end.
    pub fn row(&self, row: &Row) -> Row {
        let mut all = row.clone();
        while let Some(tail) = all.tail {
            let Some(bound) = &self.rows[tail as usize] else {
                break;
            };
            all.labels.extend(bound.labels.iter().cloned());
            all.tail = bound.tail;
        }
        all
    }

    /// Adds labels to an open row variable.
    pub fn extend(&mut self, var: u32, labels: BTreeSet<Label>) {
        let tail = Some(self.fresh_row());
        self.rows[var as usize] = Some(Row { labels, tail });
    }

    fn spend(&mut self) -> bool {
        self.fuel = self.fuel.saturating_sub(1);
        self.fuel > 0
    }

    /// Makes two types equal, or says why that cannot be.
    pub fn unify(&mut self, a: &Ty, b: &Ty) -> Result<(), Clash> {
        self.unify_at(a, b, 0)
    }

    fn unify_at(&mut self, a: &Ty, b: &Ty, level: u16) -> Result<(), Clash> {
        if level > MAX_TYPE_DEPTH || !self.spend() {
            return Err(Clash::Complex);
        }
        let (a, b) = (self.head(a), self.head(b));
        if Arc::ptr_eq(&a, &b) && !matches!(*a, TyKind::TooDeep) {
            return Ok(());
        }
        match (&*a, &*b) {
            (TyKind::TooDeep, _) | (_, TyKind::TooDeep) => Err(Clash::Complex),
            (TyKind::Error, _) | (_, TyKind::Error) => Ok(()),
            (TyKind::Var(x), TyKind::Var(y)) if x == y => Ok(()),
            (TyKind::Var(x), _) => self.bind(*x, &b),
            (_, TyKind::Var(y)) => self.bind(*y, &a),
            (TyKind::Param(x), TyKind::Param(y)) if x == y => Ok(()),
            (
                TyKind::Con {
                    name: x, args: xs, ..
                },
                TyKind::Con {
                    name: y, args: ys, ..
                },
            ) if x == y && xs.len() == ys.len() => xs
                .iter()
                .zip(ys)
                .try_for_each(|(x, y)| self.unify_at(x, y, level + 1)),
            (
                TyKind::Fn {
                    params: ps,
                    ret: r,
                    row: e,
                    ..
                },
                TyKind::Fn {
                    params: qs,
                    ret: s,
                    row: f,
                    ..
                },
            ) if ps.len() == qs.len() => {
                ps.iter()
                    .zip(qs)
                    .try_for_each(|(p, q)| self.unify_at(p, q, level + 1))?;
                self.unify_at(r, s, level + 1)?;
                self.unify_rows(e, f)
            }
            _ => Err(Clash::Differ),
        }
    }

    /// Makes two rows equal. Rows are sets, so an open one may take in what it lacks.
    pub fn unify_rows(&mut self, a: &Row, b: &Row) -> Result<(), Clash> {
        let (a, b) = (self.row(a), self.row(b));
        if a == b {
            return Ok(());
        }
        let lacks = |x: &Row, y: &Row| !y.labels.is_subset(&x.labels);
        if (a.tail.is_none() && lacks(&a, &b)) || (b.tail.is_none() && lacks(&b, &a)) {
            return Err(Clash::Rows(a, b));
        }
        match (a.tail, b.tail) {
            (Some(x), Some(y)) if x == y => {
                let labels = a.labels.union(&b.labels).cloned().collect();
                self.extend(x, labels);
            }
            (Some(x), Some(y)) => {
                let tail = Some(self.fresh_row());
                self.rows[x as usize] = Some(Row {
                    labels: b.labels,
                    tail,
                });
                self.rows[y as usize] = Some(Row {
                    labels: a.labels,
                    tail,
                });
            }
            (Some(x), None) => self.rows[x as usize] = Some(b),
            (None, Some(y)) => self.rows[y as usize] = Some(a),
            (None, None) => {}
        }
        Ok(())
    }

    fn bind(&mut self, var: u32, ty: &Ty) -> Result<(), Clash> {
        self.occurs(var, ty, 0)?;
        self.types[var as usize] = Some(ty.clone());
        Ok(())
    }

    fn occurs(&mut self, var: u32, ty: &Ty, level: u16) -> Result<(), Clash> {
        if level > MAX_TYPE_DEPTH || !self.spend() {
            return Err(Clash::Complex);
        }
        let ty = self.head(ty);
        match &*ty {
            TyKind::TooDeep => Err(Clash::Complex),
            TyKind::Var(other) if *other == var => Err(Clash::Infinite),
            TyKind::Con { args, .. } => args
                .iter()
                .try_for_each(|arg| self.occurs(var, arg, level + 1)),
            TyKind::Fn { params, ret, .. } => params
                .iter()
                .chain([ret])
                .try_for_each(|ty| self.occurs(var, ty, level + 1)),
            _ => Ok(()),
        }
    }

    /// The type with everything known written in. None when it is too large.
    pub fn resolve(&mut self, ty: &Ty) -> Option<Ty> {
        let mut size = 0;
        self.resolve_at(ty, 0, &mut size)
    }

    fn resolve_at(&mut self, ty: &Ty, level: u16, size: &mut u32) -> Option<Ty> {
        *size += 1;
        if level > MAX_TYPE_DEPTH || *size > 2_000 {
            return None;
        }
        let ty = self.head(ty);
        Some(match &*ty {
            TyKind::Con { name, args, .. } if !args.is_empty() => {
                let args: Option<Vec<Ty>> = args
                    .iter()
                    .map(|arg| self.resolve_at(arg, level + 1, size))
                    .collect();
                con(name, args?)
            }
            TyKind::Fn {
                params, ret, row, ..
            } => {
                let params: Option<Vec<Ty>> = params
                    .iter()
                    .map(|p| self.resolve_at(p, level + 1, size))
                    .collect();
                let ret = self.resolve_at(ret, level + 1, size)?;
                function(params?, ret, self.row(row))
            }
            _ => ty,
        })
    }

    /// The type as a person writes it.
    pub fn show(&self, ty: &Ty) -> String {
        let mut out = String::new();
        self.show_at(ty, 0, &mut out);
        out
    }

    fn show_at(&self, ty: &Ty, level: u16, out: &mut String) {
        if level > 12 || out.len() > 400 {
            out.push('…');
            return;
        }
        match &*self.head(ty) {
            TyKind::Error => out.push_str("(error)"),
            TyKind::TooDeep => out.push_str("(a type that nests too deeply)"),
            TyKind::Var(_) => out.push('_'),
            TyKind::Param(name) => out.push_str(name),
            TyKind::Con { name, args, .. } => {
                out.push_str(short(name));
                if !args.is_empty() {
                    out.push('<');
                    for (i, arg) in args.iter().enumerate() {
                        if i > 0 {
                            out.push_str(", ");
                        }
                        self.show_at(arg, level + 1, out);
                    }
                    out.push('>');
                }
            }
            TyKind::Fn {
                params, ret, row, ..
            } => {
                out.push('(');
                for (i, p) in params.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    self.show_at(p, level + 1, out);
                }
                out.push_str(") -> ");
                self.show_at(ret, level + 1, out);
                let row = self.row(row);
                if !row.labels.is_empty() {
                    out.push_str(" ! ");
                    out.push_str(&show_row(&row.labels));
                }
            }
        }
    }
}

/// A row as a person writes it: `{Http, Fail<A | B>}`.
pub fn show_row(labels: &BTreeSet<Label>) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut fails: Vec<&str> = Vec::new();
    for label in labels {
        match label {
            Label::Effect(name) => parts.push(name.to_string()),
            Label::Fail(sym) => fails.push(short(sym)),
            Label::Param(_) => {}
        }
    }
    if !fails.is_empty() {
        parts.push(format!("Fail<{}>", fails.join(" | ")));
    }
    for label in labels {
        if let Label::Param(name) = label {
            parts.push(name.to_string());
        }
    }
    format!("{{{}}}", parts.join(", "))
}

/// Puts types for type parameters and row variables for effect parameters.
pub struct Instance {
    /// What each type parameter stands for.
    pub types: BTreeMap<Arc<str>, Ty>,
    /// What each effect parameter stands for.
    pub rows: BTreeMap<Arc<str>, u32>,
}

impl Instance {
    /// `ty` with the parameters replaced.
    pub fn apply(&self, ty: &Ty) -> Ty {
        match &**ty {
            TyKind::Param(name) => self.types.get(name).cloned().unwrap_or_else(|| ty.clone()),
            TyKind::Con { name, args, .. } if !args.is_empty() => {
                con(name, args.iter().map(|arg| self.apply(arg)).collect())
            }
            TyKind::Fn {
                params, ret, row, ..
            } => function(
                params.iter().map(|p| self.apply(p)).collect(),
                self.apply(ret),
                self.apply_row(row),
            ),
            _ => ty.clone(),
        }
    }

    /// `row` with the effect parameters replaced.
    pub fn apply_row(&self, row: &Row) -> Row {
        let mut out = Row {
            labels: BTreeSet::new(),
            tail: row.tail,
        };
        for label in &row.labels {
            match label {
                Label::Param(name) if self.rows.contains_key(name) => {
                    out.tail = self.rows.get(name).copied();
                }
                other => {
                    out.labels.insert(other.clone());
                }
            }
        }
        out
    }
}
