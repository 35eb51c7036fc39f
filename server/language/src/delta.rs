//! What a change does to interfaces, and what frozen specifications forbid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::analysis::{is_library, place_of};
use crate::ast::*;
use crate::diagnostic::{Diagnostic, Lines, Range, Related, Severity};
use crate::env::{Env, Shape, TypeContext, type_params};
use crate::names::{Module, Scope, full};
use crate::syntax::lex;
use crate::types::{Label, Solution, Ty, TyKind};

/// The parts of an interface, as text that is equal exactly when the parts are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Interface {
    kind: &'static str,
    parts: BTreeMap<&'static str, String>,
}

/// The parts of interfaces, in the order they are told.
pub const PARTS: [&str; 7] = [
    "signature",
    "effect_row",
    "error_union",
    "requires",
    "ensures",
    "where",
    "body",
];

/// How a symbol changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `module::name`; a test is `module::test "name"`.
    pub symbol: String,
    /// `function`, `type`, `error`, `test` or `property`.
    pub kind: &'static str,
    /// `added`, `removed` or `changed`.
    pub change: &'static str,
    /// Which parts changed, with their text before and after.
    pub parts: Vec<(&'static str, String, String)>,
}

impl Change {
    /// The JSON of the contract. `requires`, `ensures` and `where` count as `contracts`.
    pub fn to_json(&self) -> Json {
        let group = |part: &str| match part {
            "requires" | "ensures" | "where" => "contracts".to_owned(),
            other => other.to_owned(),
        };
        let changed: BTreeSet<String> = self.parts.iter().map(|(part, ..)| group(part)).collect();
        let details: Vec<Json> = self
            .parts
            .iter()
            .map(|(part, old, new)| json!({"part": part, "before": old, "after": new}))
            .collect();
        json!({"symbol": self.symbol, "kind": self.kind, "change": self.change, "changed": changed, "details": details})
    }
}

/// A text without its white space and comments.
fn words(text: &str) -> String {
    let mut out = String::new();
    for token in lex(text) {
        if token.kind.is_trivia() {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&text[token.start as usize..token.end as usize]);
    }
    out
}

/// A type with the full names of all it mentions.
fn spell(ty: &Ty) -> String {
    match &**ty {
        TyKind::Con { name, args, .. } if args.is_empty() => name.to_string(),
        TyKind::Con { name, args, .. } => format!(
            "{name}<{}>",
            args.iter().map(spell).collect::<Vec<_>>().join(", ")
        ),
        TyKind::Fn {
            params, ret, row, ..
        } => {
            let params = params.iter().map(spell).collect::<Vec<_>>().join(", ");
            format!(
                "({params}) -> {} ! {}",
                spell(ret),
                spell_row(&row.labels, |_| true)
            )
        }
        TyKind::Param(name) => name.to_string(),
        _ => Solution::new().show(ty),
    }
}

fn spell_row(labels: &BTreeSet<Label>, keep: impl Fn(&Label) -> bool) -> String {
    let shown = labels.iter().filter(|l| keep(l)).map(|label| match label {
        Label::Effect(name) | Label::Param(name) => name.to_string(),
        Label::Fail(sym) => sym.to_string(),
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(", "))
}

/// The interfaces of a snapshot, but for modules that are as they are in `other`.
fn interfaces(env: &Env, other: &Env) -> BTreeMap<String, Interface> {
    let mut out = BTreeMap::new();
    let modules = env.modules.by_name.values();
    for module in modules.filter(|m| !is_library(m) && !unchanged(m, env, other)) {
        for chunk in &module.chunks {
            for item in &chunk.parsed.items {
                if let Some((name, interface)) = interface(env, module, &chunk.text, item) {
                    out.entry(name).or_insert(interface);
                }
            }
        }
    }
    out
}

/// Whether a module has the same text in both, and the same interfaces in its reach: then it has
/// the same interface.
fn unchanged(module: &Module, here: &Env, there: &Env) -> bool {
    there
        .modules
        .by_name
        .get(&module.name)
        .is_some_and(|other| {
            other.text == module.text && here.modules.reach(module) == there.modules.reach(other)
        })
}

fn interface(env: &Env, module: &Module, text: &str, item: &Item) -> Option<(String, Interface)> {
    let slice = |span: Span| {
        words(
            text.get(span.start as usize..span.end as usize)
                .unwrap_or(""),
        )
    };
    let scope = env.scope(&module.name);
    let mut parts: BTreeMap<&'static str, String> = BTreeMap::new();
    let mut conditions = Conditions {
        env,
        found: Vec::new(),
    };
    let mut context = TypeContext {
        scope: &scope,
        generics: &[],
        report: None,
        used: None,
        refinable: true,
    };
    let (name, kind) = match item {
        Item::Import(_) => return None,
        Item::Fn(decl) => {
            context.generics = &decl.generics;
            let sym = full(&module.name, &decl.name.text);
            let signature = env.signature_of(&sym, decl, &mut context);
            let params: Vec<String> = signature
                .params
                .iter()
                .map(|(n, ty)| format!("{n}: {}", spell(ty)))
                .collect();
            let generics: Vec<&str> = decl.generics.iter().map(|g| &*g.text).collect();
            let tool = decl
                .tool
                .as_ref()
                .map(|t| format!("@tool {:?} ", t.text))
                .unwrap_or_default();
            parts.insert(
                "signature",
                format!(
                    "{tool}<{}>({}) -> {}",
                    generics.join(", "),
                    params.join(", "),
                    spell(&signature.ret)
                ),
            );
            parts.insert(
                "effect_row",
                spell_row(&signature.row.labels, |l| !matches!(l, Label::Fail(_))),
            );
            parts.insert(
                "error_union",
                spell_row(&signature.row.labels, |l| matches!(l, Label::Fail(_))),
            );
            parts.insert(
                "requires",
                decl.requires
                    .iter()
                    .map(|e| slice(e.span))
                    .collect::<Vec<_>>()
                    .join("; "),
            );
            parts.insert(
                "ensures",
                decl.ensures
                    .iter()
                    .map(|e| slice(e.span))
                    .collect::<Vec<_>>()
                    .join("; "),
            );
            // By place: another name for a parameter weakens no refinement.
            for (place, param) in decl.params.iter().enumerate() {
                let name = format!("parameter {}", place + 1);
                conditions.collect(&name, &param.ty, &scope, 0);
            }
            conditions.collect("result", &decl.ret, &scope, 0);
            (decl.name.text.to_string(), "function")
        }
        Item::Type(decl) => {
            context.generics = &decl.generics;
            let generics = type_params(&decl.generics).join(", ");
            let field = |f: &Field, context: &mut TypeContext| {
                format!("{}: {}", f.name.text, spell(&env.ty(&f.ty, context)))
            };
            let shape = match &decl.body {
                TypeBody::Record(fields) => {
                    fields
                        .iter()
                        .for_each(|f| conditions.collect(&f.name.text, &f.ty, &scope, 0));
                    fields
                        .iter()
                        .map(|f| field(f, &mut context))
                        .collect::<Vec<_>>()
                        .join(", ")
                }
                TypeBody::Union(variants) => {
                    let one = |v: &Variant| {
                        let payload: Vec<String> = v
                            .payload
                            .iter()
                            .map(|ty| spell(&env.ty(ty, &mut context)))
                            .collect();
                        format!("{}({})", v.name.text, payload.join(", "))
                    };
                    let shown = variants.iter().map(one).collect::<Vec<_>>().join(" | ");
                    for v in variants {
                        v.payload
                            .iter()
                            .for_each(|ty| conditions.collect(&v.name.text, ty, &scope, 0));
                    }
                    shown
                }
                TypeBody::Alias(ty) => {
                    conditions.collect("value", ty, &scope, 0);
                    // An alias is looked through, so that it does not mean itself.
                    match env
                        .info(&full(&module.name, &decl.name.text))
                        .as_deref()
                        .map(|i| &i.shape)
                    {
                        Some(Shape::Alias(ty)) => spell(ty),
                        _ => String::new(),
                    }
                }
                TypeBody::Builtin => String::new(),
            };
            parts.insert("signature", format!("<{generics}> {shape}"));
            (decl.name.text.to_string(), "type")
        }
        Item::Error(decl) => {
            let one =
                |f: &Field| format!("{}: {}", f.name.text, spell(&env.ty(&f.ty, &mut context)));
            parts.insert(
                "signature",
                decl.fields.iter().map(one).collect::<Vec<_>>().join(", "),
            );
            decl.fields
                .iter()
                .for_each(|f| conditions.collect(&f.name.text, &f.ty, &scope, 0));
            (decl.name.text.to_string(), "error")
        }
        Item::Test(decl) => {
            let params: Vec<String> = decl
                .params
                .iter()
                .map(|p| format!("{}: {}", p.name.text, slice(p.ty.span)))
                .collect();
            parts.insert(
                "body",
                format!("({}) {}", params.join(", "), slice(decl.body.span)),
            );
            let kind = if decl.property { "property" } else { "test" };
            (format!("{kind} {:?}", &*decl.name.text), kind)
        }
    };
    if !conditions.found.is_empty() {
        parts.insert("where", conditions.found.join("; "));
    }
    if name.is_empty() {
        return None;
    }
    Some((
        format!("{}::{name}", module.name),
        Interface { kind, parts },
    ))
}

/// The refinements on `name`, aliases followed: who weakens an alias weakens all that use it.
struct Conditions<'a> {
    env: &'a Env,
    found: Vec<String>,
}

impl Conditions<'_> {
    fn collect(&mut self, name: &str, ty: &TypeExpr, scope: &Scope, level: u32) {
        if level > 60 {
            return;
        }
        match &ty.kind {
            TypeKind::Where(base, _, text) => {
                self.collect(name, base, scope, level + 1);
                self.found.push(format!("{name} where {}", words(text)));
            }
            TypeKind::Name(alias, args) => {
                let sym = scope.ty(&alias.text);
                if let Some((
                    module,
                    TypeDecl {
                        body: TypeBody::Alias(inner),
                        ..
                    },
                )) = sym.as_ref().and_then(|sym| self.env.modules.type_decl(sym))
                    && self.found.len() < 1_000
                {
                    let home = self.env.scope(&module.name);
                    self.collect(name, inner, &home, level + 1);
                }
                args.iter()
                    .for_each(|arg| self.collect(name, arg, scope, level + 1));
            }
            _ => {}
        }
    }
}

/// What changes from one snapshot's declarations to another's, by symbol.
pub fn delta(old: &Env, new: &Env) -> Vec<Change> {
    let (old, new) = (interfaces(old, new), interfaces(new, old));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut out = Vec::new();
    for name in names {
        let (before, after) = (old.get(name), new.get(name));
        let change = match (before, after) {
            (Some(_), None) => "removed",
            (None, Some(_)) => "added",
            _ if before == after => continue,
            _ => "changed",
        };
        let none = Interface::default();
        let (a, b) = (before.unwrap_or(&none), after.unwrap_or(&none));
        let part = |part: &&'static str| {
            let (x, y) = (a.parts.get(part), b.parts.get(part));
            (x != y).then(|| {
                (
                    *part,
                    x.cloned().unwrap_or_default(),
                    y.cloned().unwrap_or_default(),
                )
            })
        };
        let parts = if change == "changed" {
            PARTS.iter().filter_map(part).collect()
        } else {
            Vec::new()
        };
        let kind = after.or(before).map_or("", |i| i.kind);
        out.push(Change {
            symbol: name.clone(),
            kind,
            change,
            parts,
        });
    }
    out
}

/// The symbols that may not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frozen {
    /// None.
    Nothing,
    /// These, as `module::name` or, in any module, `name`; and every test and property.
    Symbols(BTreeSet<String>),
    /// All, and every test and property.
    All,
}

impl Frozen {
    /// Reads `all`, or symbols with commas between them.
    pub fn parse(text: &str) -> Self {
        let names: BTreeSet<String> = text
            .split(',')
            .map(str::trim)
            .filter(|n| !n.is_empty())
            .map(str::to_owned)
            .collect();
        if names.contains("all") {
            Frozen::All
        } else if names.is_empty() {
            Frozen::Nothing
        } else {
            Frozen::Symbols(names)
        }
    }

    fn holds(&self, change: &Change) -> bool {
        match self {
            Frozen::Nothing => false,
            Frozen::All => true,
            Frozen::Symbols(_) if matches!(change.kind, "test" | "property") => true,
            Frozen::Symbols(names) => {
                let (_, name) = crate::types::split(&change.symbol);
                names.contains(&change.symbol) || names.contains(name)
            }
        }
    }
}

/// The V8020 diagnostics of a change under frozen specifications: one for each clause.
pub fn frozen_breaches(frozen: &Frozen, old: &Env, new: &Env, delta: &[Change]) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    for change in delta
        .iter()
        .filter(|c| c.change != "added" && frozen.holds(c))
    {
        let clauses: Vec<(&str, String)> = if change.change == "removed" {
            vec![(
                "signature",
                format!("`{}` is frozen and may not be removed", change.symbol),
            )]
        } else {
            change
                .parts
                .iter()
                .map(|(part, before, after)| (*part, breach(&change.symbol, part, before, after)))
                .collect()
        };
        let before = symbol_place(old, &change.symbol);
        let now = symbol_place(new, &change.symbol).or_else(|| before.clone());
        for (_, message) in clauses {
            let Some((path, range)) = now.clone() else {
                continue;
            };
            let related = before.iter().map(|(path, range)| Related {
                path: path.clone(),
                range: *range,
                message: "frozen here".to_owned(),
            });
            out.push(Diagnostic {
                path,
                range,
                code: "V8020".to_owned(),
                severity: Severity::Error,
                message,
                related: related.collect(),
                fixes: Vec::new(),
            });
        }
    }
    out
}

fn breach(symbol: &str, part: &str, before: &str, after: &str) -> String {
    let clause = match part {
        "effect_row" => "effect row",
        "error_union" => "error union",
        other => other,
    };
    let (before, after) = (
        if before.is_empty() { "nothing" } else { before },
        if after.is_empty() { "nothing" } else { after },
    );
    match part {
        "body" => format!("the body of `{symbol}` is frozen"),
        _ => format!(
            "the {clause} of `{symbol}` is frozen: it was `{before}`, the patch makes it `{after}`"
        ),
    }
}

/// Where a symbol of [`delta`] stands: tests are found by their name.
pub fn symbol_place(env: &Env, symbol: &str) -> Option<(String, Range)> {
    let (module, name) = env.modules.split(symbol)?;
    let quoted = name
        .strip_prefix("test ")
        .or_else(|| name.strip_prefix("property "));
    let Some(quoted) = quoted else {
        return place_of(env, &Arc::from(symbol), None);
    };
    for (at, decl) in crate::testing::tests(module) {
        if format!("{:?}", &*decl.name.text) == quoted {
            let offset = module.offsets[at.chunk];
            let lines = Lines::new(module.text.clone());
            let span = decl.name.span;
            return Some((
                module.path.to_string(),
                lines.range(offset + span.start, offset + span.end),
            ));
        }
    }
    None
}
