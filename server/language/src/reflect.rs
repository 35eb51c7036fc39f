//! Declared types as data: what values of a type look like, refinements included. The generator
//! of test values and the JSON of exported tools both read types here.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::ast::*;
use crate::compile::Entry;
use crate::constant::{self, Const};
use crate::env::{Env, type_params};
use crate::names::Scope;
use crate::types::{Sym, short};
use crate::value::Layout;

/// A type where it is written, with what its type parameters stand for.
#[derive(Clone)]
pub(crate) struct Form<'e> {
    /// The type.
    pub ty: &'e TypeExpr,
    /// What names in it mean.
    pub scope: Arc<Scope>,
    args: Rc<BTreeMap<Arc<str>, Form<'e>>>,
}

/// What a type is, aliases followed.
#[allow(missing_docs)]
pub(crate) enum Opened<'e> {
    Int,
    Float,
    Bool,
    String,
    Unit,
    Url,
    List(Form<'e>),
    Map(Form<'e>, Form<'e>),
    Option(Form<'e>),
    Record {
        sym: Sym,
        fields: Vec<(Arc<str>, Form<'e>)>,
    },
    Union {
        sym: Sym,
        variants: Vec<(Arc<str>, Vec<Form<'e>>)>,
    },
    /// A base with a condition on it. `form` is the refined type itself.
    Where {
        base: Form<'e>,
        condition: &'e Expr,
        text: Arc<str>,
        scope: Arc<Scope>,
    },
    /// Function values and what is unknown.
    Other,
}

impl<'e> Form<'e> {
    /// A type as a parameter or a result of a declaration in the scope's module writes it.
    pub(crate) fn new(ty: &'e TypeExpr, scope: Arc<Scope>) -> Self {
        Self {
            ty,
            scope,
            args: Rc::default(),
        }
    }

    fn inside(&self, ty: &'e TypeExpr) -> Self {
        Self {
            ty,
            scope: self.scope.clone(),
            args: self.args.clone(),
        }
    }

    /// What the type is.
    pub(crate) fn open(&self, env: &'e Env) -> Opened<'e> {
        self.open_at(env, 0)
    }

    fn open_at(&self, env: &'e Env, level: u32) -> Opened<'e> {
        if level > 60 {
            return Opened::Other;
        }
        match &self.ty.kind {
            TypeKind::Where(base, condition, text) => Opened::Where {
                base: self.inside(base),
                condition,
                text: text.clone(),
                scope: self.scope.clone(),
            },
            TypeKind::Name(name, args) => {
                if let Some(bound) = self.args.get(&name.text) {
                    return bound.open_at(env, level + 1);
                }
                let Some(sym) = self.scope.ty(&name.text) else {
                    return Opened::Other;
                };
                self.named(env, &sym, args, level)
            }
            _ => Opened::Other,
        }
    }

    fn named(&self, env: &'e Env, sym: &Sym, args: &'e [TypeExpr], level: u32) -> Opened<'e> {
        let arg = |index: usize| args.get(index).map(|ty| self.inside(ty));
        match (&**sym, arg(0), arg(1)) {
            ("std/core::Int", ..) => return Opened::Int,
            ("std/core::Float", ..) => return Opened::Float,
            ("std/core::Bool", ..) => return Opened::Bool,
            ("std/core::String", ..) => return Opened::String,
            ("std/core::Unit", ..) => return Opened::Unit,
            ("std/core::Url", ..) => return Opened::Url,
            ("std/core::List", Some(item), _) => return Opened::List(item),
            ("std/core::Option", Some(item), _) => return Opened::Option(item),
            ("std/core::Map", Some(key), Some(value)) => return Opened::Map(key, value),
            _ => {}
        }
        let Some((module, decl)) = env.modules.type_decl(sym) else {
            return Opened::Other;
        };
        let scope = env.scope(&module.name);
        let generics = type_params(&decl.generics);
        let bound: BTreeMap<Arc<str>, Form<'e>> = generics
            .into_iter()
            .zip(args.iter().map(|ty| self.inside(ty)))
            .collect();
        let home = Form {
            ty: self.ty,
            scope,
            args: Rc::new(bound),
        };
        match &decl.body {
            TypeBody::Alias(ty) => home.inside(ty).open_at(env, level + 1),
            TypeBody::Record(fields) => Opened::Record {
                sym: sym.clone(),
                fields: fields
                    .iter()
                    .map(|f| (f.name.text.clone(), home.inside(&f.ty)))
                    .collect(),
            },
            TypeBody::Union(variants) => Opened::Union {
                sym: sym.clone(),
                variants: variants
                    .iter()
                    .map(|v| {
                        (
                            v.name.text.clone(),
                            v.payload.iter().map(|ty| home.inside(ty)).collect(),
                        )
                    })
                    .collect(),
            },
            TypeBody::Builtin => Opened::Other,
        }
    }

    /// Whether the type is written without type arguments, so that its name says all.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(&self.ty.kind, TypeKind::Name(_, args) if args.is_empty()) && self.args.is_empty()
    }
}

/// The layout of a record or of a variant.
pub(crate) fn layout(
    sym: &Sym,
    variant: Option<(usize, &Arc<str>)>,
    fields: Vec<Arc<str>>,
) -> Arc<Layout> {
    let (number, name) = match variant {
        Some((number, name)) => (number, name.clone()),
        None => (0, Arc::from(short(sym))),
    };
    Arc::new(Layout {
        sym: sym.clone(),
        name,
        number,
        fields,
    })
}

/// The conditions of all refined types that forms reach, each an entry for the compiler, found
/// again by the address of the condition.
#[derive(Default)]
pub(crate) struct Conditions {
    /// What to compile.
    pub entries: Vec<Entry>,
    places: BTreeMap<usize, usize>,
    seen: BTreeSet<(usize, Sym)>,
}

fn address(ty: &TypeExpr) -> usize {
    &raw const *ty as usize
}

impl Conditions {
    /// Collects the conditions that a form reaches.
    pub(crate) fn collect<'e>(&mut self, env: &'e Env, form: &Form<'e>, what: &str) {
        let mut todo = vec![form.clone()];
        while let Some(form) = todo.pop() {
            match form.open(env) {
                Opened::Where {
                    base,
                    condition,
                    text,
                    scope,
                } => {
                    // An alias leads to the refined type it names: that one is the key.
                    let key = &raw const *condition as usize;
                    if !self.places.contains_key(&key) {
                        let ty = TypeExpr {
                            span: form.ty.span,
                            kind: TypeKind::Where(
                                Box::new(TypeExpr {
                                    span: form.ty.span,
                                    kind: TypeKind::Error,
                                }),
                                Box::new(condition.clone()),
                                text,
                            ),
                        };
                        self.places.insert(key, self.entries.len());
                        self.entries.push(Entry::Condition {
                            module: scope.module.clone(),
                            ty,
                            what: what.to_owned(),
                        });
                    }
                    todo.push(base);
                }
                Opened::List(item) | Opened::Option(item) => todo.push(item),
                Opened::Map(key, value) => todo.extend([key, value]),
                Opened::Record { sym, fields }
                    if self.seen.insert((address(form.ty), sym.clone())) =>
                {
                    todo.extend(fields.into_iter().map(|(_, form)| form));
                }
                Opened::Union { sym, variants }
                    if self.seen.insert((address(form.ty), sym.clone())) =>
                {
                    todo.extend(variants.into_iter().flat_map(|(_, payload)| payload));
                }
                _ => {}
            }
        }
    }

    /// The number of the entry that checks `condition`.
    pub(crate) fn of(&self, condition: &Expr) -> Option<usize> {
        self.places.get(&(&raw const *condition as usize)).copied()
    }
}

/// Bounds on a number, or on the length of a text or list, that a condition states.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[allow(missing_docs)]
pub(crate) struct Bounds {
    pub low: Option<f64>,
    pub low_open: bool,
    pub high: Option<f64>,
    pub high_open: bool,
}

impl Bounds {
    fn add(&mut self, op: BinOp, limit: f64) {
        let lower = |b: &mut Self, open| {
            if b.low
                .is_none_or(|old| limit > old || (limit == old && open))
            {
                (b.low, b.low_open) = (Some(limit), open);
            }
        };
        let upper = |b: &mut Self, open| {
            if b.high
                .is_none_or(|old| limit < old || (limit == old && open))
            {
                (b.high, b.high_open) = (Some(limit), open);
            }
        };
        match op {
            BinOp::Ge => lower(self, false),
            BinOp::Gt => lower(self, true),
            BinOp::Le => upper(self, false),
            BinOp::Lt => upper(self, true),
            BinOp::Eq => {
                lower(self, false);
                upper(self, false);
            }
            _ => {}
        }
    }
}

/// What a condition says in bounds: of the value, and of its length. The last part tells whether
/// the bounds say all that the condition does.
pub(crate) fn bounds(condition: &Expr, scope: &Scope) -> (Bounds, Bounds, bool) {
    let (mut value, mut length) = (Bounds::default(), Bounds::default());
    let mut whole = true;
    let mut todo = vec![condition];
    while let Some(expr) = todo.pop() {
        let ExprKind::Binary(op, left, right) = &expr.kind else {
            whole = false;
            continue;
        };
        if *op == BinOp::And {
            todo.extend([&**left, &**right]);
            continue;
        }
        let flipped = match op {
            BinOp::Lt => BinOp::Gt,
            BinOp::Le => BinOp::Ge,
            BinOp::Gt => BinOp::Lt,
            BinOp::Ge => BinOp::Le,
            other => *other,
        };
        let known = [(*op, left, right), (flipped, right, left)]
            .into_iter()
            .find_map(|(op, subject, limit)| {
                let limit = match constant::value(limit, &[], scope)? {
                    Const::Int(n) => n as f64,
                    Const::Float(x) => x,
                    _ => return None,
                };
                Some((op, is_length(subject, scope)?, limit))
            });
        match known {
            Some((op, of_length, limit)) if op != BinOp::Ne => {
                if of_length {
                    length.add(op, limit)
                } else {
                    value.add(op, limit)
                }
            }
            _ => whole = false,
        }
    }
    (value, length, whole)
}

/// Some(false) for `value`, Some(true) for its length.
fn is_length(expr: &Expr, scope: &Scope) -> Option<bool> {
    match &expr.kind {
        ExprKind::Name(name) if &*name.text == "value" => Some(false),
        ExprKind::Call(callee, args) => {
            let ExprKind::Name(name) = &callee.kind else {
                return None;
            };
            let sym = scope.function(&name.text)?;
            let lengths = matches!(&*sym, "std/core::String.length" | "std/core::List.length");
            let [arg] = args.as_slice() else { return None };
            (lengths && is_length(arg, scope) == Some(false)).then_some(true)
        }
        _ => None,
    }
}
