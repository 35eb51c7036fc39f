//! Questions about a program: its symbols, what fits a hole, documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::analysis::{FoundHole, is_library, place_of};
use crate::ast::*;
use crate::codes;
use crate::env::{Env, Shape, show_signature};
use crate::names::{CORE, EFFECTS, Module, full};
use crate::syntax::parse_chunk;
use crate::types::{Label, Solution, Sym, Ty, TyKind, short};

/// A symbol as the JSON of the contract shows it; None for an unknown one.
pub fn symbol_json(env: &Env, sym: &Sym) -> Option<Json> {
    let (module, name) = env.modules.split(sym)?;
    let (path, range) = place_of(env, sym, None)?;
    let mut out = json!({"id": &**sym, "name": name, "module": &*module.name, "path": path, "range": range.to_json()});
    let (at, _) = module.declaration(name)?;
    let text = &module.chunks[at.chunk].text;
    let slice = |span: Span| {
        text.get(span.start as usize..span.end as usize)
            .unwrap_or("")
            .to_owned()
    };
    match module.item(at) {
        Item::Fn(decl) => {
            let signature = env.signature(sym)?;
            let solution = Solution::new();
            out["kind"] = json!("function");
            out["doc"] = json!(decl.doc);
            out["signature"] = json!(show_signature(name, decl, text));
            out["type_parameters"] =
                json!(signature.types.iter().map(|t| &**t).collect::<Vec<_>>());
            out["effect_parameters"] =
                json!(signature.effects.iter().map(|t| &**t).collect::<Vec<_>>());
            let params = signature.params.iter().zip(&decl.params).map(|((name, ty), param)| {
                json!({"name": &**name, "type": solution.show(ty), "written": slice(param.ty.span)})
            });
            out["parameters"] = params.collect();
            out["result"] = json!(solution.show(&signature.ret));
            out["effect_row"] = json!(effects(&signature.row.labels));
            out["error_union"] = json!(errors(&signature.row.labels));
            out["contracts"] = json!({
                "requires": decl.requires.iter().map(|e| slice(e.span)).collect::<Vec<_>>(),
                "ensures": decl.ensures.iter().map(|e| slice(e.span)).collect::<Vec<_>>(),
            });
            if let Some(tool) = &decl.tool {
                out["tool"] = json!(&*tool.text);
            }
        }
        Item::Type(decl) => {
            out["kind"] = json!(if *decl.name.text == *name {
                "type"
            } else {
                "constructor"
            });
            out["doc"] = json!(decl.doc);
            out["signature"] = json!(
                slice(decl.span)
                    .lines()
                    .filter(|l| !l.starts_with("///"))
                    .collect::<Vec<_>>()
                    .join("\n")
                    .trim()
            );
            out["type_parameters"] =
                json!(decl.generics.iter().map(|g| &*g.text).collect::<Vec<_>>());
        }
        Item::Error(decl) => {
            out["kind"] = json!("error");
            out["doc"] = json!(decl.doc);
            out["signature"] = json!(
                slice(decl.span)
                    .lines()
                    .filter(|l| !l.starts_with("///"))
                    .collect::<Vec<_>>()
                    .join("\n")
                    .trim()
            );
        }
        _ => return None,
    }
    Some(out)
}

fn effects(labels: &BTreeSet<Label>) -> Vec<&str> {
    let shown = labels.iter().filter_map(|label| match label {
        Label::Effect(name) | Label::Param(name) => Some(&**name),
        Label::Fail(_) => None,
    });
    shown.collect()
}

fn errors(labels: &BTreeSet<Label>) -> Vec<&str> {
    let shown = labels.iter().filter_map(|label| match label {
        Label::Fail(sym) => Some(&**sym),
        _ => None,
    });
    shown.collect()
}

/// Every symbol that has a name of its own, the user's modules first.
pub fn all_symbols(env: &Env) -> Vec<Sym> {
    let mut own = Vec::new();
    let mut library = Vec::new();
    for module in env.modules.by_name.values() {
        let out = if is_library(module) {
            &mut library
        } else {
            &mut own
        };
        for name in module
            .functions
            .keys()
            .chain(module.types.keys())
            .chain(module.errors.keys())
        {
            let sym = full(&module.name, name);
            // What the library keeps to itself has no documentation.
            if is_library(module) && doc_of(env, &sym).is_empty() {
                continue;
            }
            out.push(sym);
        }
    }
    own.extend(library);
    own
}

fn doc_of(env: &Env, sym: &str) -> String {
    if let Some((_, _, decl)) = env.modules.function(sym) {
        return decl.doc.clone();
    }
    if let Some((_, decl)) = env.modules.type_decl(sym) {
        return decl.doc.clone();
    }
    env.modules
        .error_decl(sym)
        .map(|(_, decl)| decl.doc.clone())
        .unwrap_or_default()
}

/// Symbols by name: exact ones first, then those whose last part, then any part, matches.
pub fn find_by_name(env: &Env, name: &str) -> Vec<Sym> {
    let wanted = name.to_lowercase();
    let mut found: Vec<(u8, Sym)> = Vec::new();
    for sym in all_symbols(env) {
        let own = short(&sym);
        let low = own.to_lowercase();
        let rank = if own == name || *sym == *name {
            0
        } else if low == wanted {
            1
        } else if low.rsplit('.').next() == Some(&wanted) {
            2
        } else if low.contains(&wanted) {
            3
        } else {
            continue;
        };
        found.push((rank, sym));
    }
    found.sort();
    if found.iter().any(|(rank, _)| *rank < 3) {
        found.retain(|(rank, _)| *rank < 3);
    }
    found.into_iter().map(|(_, sym)| sym).collect()
}

/// Functions whose type fits a pattern: `(List<A>) -> Int`, or a result type alone. Capital
/// letters that name no type stand for any type; so does `_`. Errors: not a type.
pub fn find_by_type(env: &Env, pattern: &str) -> Result<Vec<Sym>, String> {
    let mut numbered = String::new();
    let mut holes = 0;
    for (index, part) in pattern.split('_').enumerate() {
        if index > 0 {
            numbered.push_str(&format!("Any{holes}"));
            holes += 1;
        }
        numbered.push_str(part);
    }
    let text = format!("type Pattern = {numbered}");
    let parsed = parse_chunk(&text);
    if let Some(error) = parsed.errors.first() {
        return Err(format!("`{pattern}` is no type: {}", error.message));
    }
    let Some(Item::Type(TypeDecl { body, .. })) = parsed.items.first() else {
        return Err(format!("`{pattern}` is no type"));
    };
    let TypeBody::Alias(expr) = body else {
        return Err(format!("`{pattern}` is no type of values"));
    };
    let mut free = BTreeMap::new();
    let mut solution = Solution::new();
    let wanted = pattern_type(env, expr, &mut solution, &mut free);
    let mut found = Vec::new();
    for sym in all_symbols(env) {
        let Some(signature) = env.signature(&sym) else {
            continue;
        };
        let mut trial = solution.clone();
        let instance = signature.instance(&mut trial);
        let ret = instance.apply(&signature.ret);
        let fits = match &*wanted {
            TyKind::Fn {
                params,
                ret: wanted_ret,
                ..
            } => {
                params.len() == signature.params.len()
                    && params
                        .iter()
                        .zip(&signature.params)
                        .all(|(p, (_, q))| trial.unify(p, &instance.apply(q)).is_ok())
                    && trial.unify(wanted_ret, &ret).is_ok()
            }
            _ => trial.unify(&wanted, &ret).is_ok() && !matches!(&*signature.ret, TyKind::Param(_)),
        };
        if fits {
            found.push(sym);
        }
    }
    Ok(found)
}

fn pattern_type(
    env: &Env,
    expr: &TypeExpr,
    solution: &mut Solution,
    free: &mut BTreeMap<Arc<str>, Ty>,
) -> Ty {
    match &expr.kind {
        TypeKind::Name(name, args) => {
            let args: Vec<Ty> = args
                .iter()
                .map(|a| pattern_type(env, a, solution, free))
                .collect();
            let declares = |m: &&Arc<Module>| m.types.contains_key(&name.text);
            // The prelude's types come before those of that name elsewhere.
            let core = env.modules.by_name.get(CORE).filter(declares);
            match core.or_else(|| env.modules.by_name.values().find(declares)) {
                Some(module) => {
                    let sym = full(&module.name, &name.text);
                    match env.info(&sym).as_deref().map(|i| &i.shape) {
                        Some(Shape::Alias(ty)) => ty.clone(),
                        _ => crate::types::con(&sym, args),
                    }
                }
                None => free
                    .entry(name.text.clone())
                    .or_insert_with(|| solution.fresh())
                    .clone(),
            }
        }
        TypeKind::Fn(params, ret, _) => {
            let params = params
                .iter()
                .map(|p| pattern_type(env, p, solution, free))
                .collect();
            let ret = pattern_type(env, ret, solution, free);
            let row = solution.open(Default::default());
            crate::types::function(params, ret, row)
        }
        TypeKind::Where(base, ..) => pattern_type(env, base, solution, free),
        TypeKind::Error => solution.fresh(),
    }
}

/// What is known around a hole.
pub fn hole_json(env: &Env, hole: &FoundHole) -> Json {
    let found = &hole.report.holes[hole.index];
    let solution = Solution::new();
    let fits_type = |ty: &Ty| {
        // The types are resolved: variables left in them stand for anything.
        Solution::new()
            .unify(&anything(ty), &anything(&found.expected))
            .is_ok()
    };
    let bindings: Vec<Json> = found
        .bindings
        .iter()
        .map(
            |(name, ty)| json!({"name": &**name, "type": solution.show(ty), "fits": fits_type(ty)}),
        )
        .collect();
    let text = env
        .modules
        .by_name
        .get(&hole.module)
        .map(|m| m.chunks[hole.chunk].text.clone());
    let clause = |span: &Span| {
        text.as_ref()
            .and_then(|t| t.get(span.start as usize..span.end as usize))
            .unwrap_or("")
            .to_owned()
    };
    let symbols: Vec<Json> = fitting_symbols(env, &hole.module, &found.expected, found.allowed.as_ref())
        .iter()
        .filter_map(|sym| {
            let (module, at, decl) = env.modules.function(sym)?;
            Some(json!({"id": &**sym, "signature": show_signature(short(sym), decl, &module.chunks[at.chunk].text)}))
        })
        .take(40)
        .collect();
    let (allowed_effects, allowed_failures) = match &found.allowed {
        Some(labels) => (json!(effects(labels)), json!(errors(labels))),
        None => (json!(EFFECTS), json!("any")),
    };
    json!({
        "id": hole.id,
        "name": &*found.name.text,
        "path": hole.path,
        "range": hole.range.to_json(),
        "function": &*found.owner,
        "expected": solution.show(&found.expected),
        "allowed_effects": allowed_effects,
        "allowed_failures": allowed_failures,
        "bindings": bindings,
        "symbols": symbols,
        "contracts": found.contracts.iter().map(clause).collect::<Vec<_>>(),
    })
}

/// A type whose unsolved variables fit everything, and whose effects do not matter.
fn anything(ty: &Ty) -> Ty {
    match &**ty {
        TyKind::Var(_) => Arc::new(TyKind::Error),
        TyKind::Con { name, args, .. } => {
            crate::types::con(name, args.iter().map(anything).collect())
        }
        TyKind::Fn { params, ret, .. } => crate::types::function(
            params.iter().map(anything).collect(),
            anything(ret),
            Default::default(),
        ),
        _ => ty.clone(),
    }
}

/// Functions in scope whose result fits a type, and whose effects and failures are allowed.
fn fitting_symbols(
    env: &Env,
    module: &str,
    expected: &Ty,
    allowed: Option<&BTreeSet<Label>>,
) -> Vec<Sym> {
    let scope = env.scope(module);
    let mut own: BTreeSet<Sym> = BTreeSet::new();
    let mut prelude: BTreeSet<Sym> = BTreeSet::new();
    for name in scope.names(|s| &s.functions) {
        let Some(sym) = scope.function(name) else {
            continue;
        };
        if sym.starts_with(CORE) {
            prelude.insert(sym)
        } else {
            own.insert(sym)
        };
    }
    let unknown = matches!(&**expected, TyKind::Var(_) | TyKind::Error);
    let fits = |sym: &Sym| {
        let Some(signature) = env.signature(sym) else {
            return false;
        };
        let mut solution = Solution::new();
        let instance = signature.instance(&mut solution);
        // A result of any type at all says nothing about the hole.
        let says_something = !matches!(&*signature.ret, TyKind::Param(_));
        let effects_fit = allowed.is_none_or(|allowed| {
            signature
                .row
                .labels
                .iter()
                .all(|l| matches!(l, Label::Param(_)) || allowed.contains(l))
        });
        let wanted = anything(expected);
        !unknown
            && says_something
            && effects_fit
            && solution
                .unify(&instance.apply(&signature.ret), &wanted)
                .is_ok()
    };
    own.into_iter().chain(prelude).filter(fits).collect()
}

// ---- documentation ----

/// The page that specifies the language.
pub const LANGUAGE_PAGE: &str = include_str!("../LANGUAGE.md");

/// A piece of documentation that goes in whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Piece {
    pub title: String,
    pub text: String,
}

/// What documentation there is about a topic: a section of the language's page, a module or a
/// group of the standard library (`List`, `std/http`), a diagnostic's code. Empty: nothing.
pub fn topic(env: &Env, topic: &str) -> Vec<Piece> {
    let wanted = topic.trim().to_lowercase();
    let sections = sections();
    if wanted == "language" || wanted == "sakura" {
        return sections;
    }
    if let Some(page) = codes::find(topic.trim()) {
        return vec![Piece {
            title: page.code.to_owned(),
            text: page.text(),
        }];
    }
    let mut pieces: Vec<Piece> = sections
        .iter()
        .filter(|s| s.title.to_lowercase() == wanted)
        .cloned()
        .collect();
    for module in env.modules.by_name.values() {
        if module.name.to_lowercase() == wanted || *module.path == *topic {
            pieces.extend(module_pieces(env, module, |_| true));
        }
    }
    if pieces.is_empty() {
        for module in env.modules.by_name.values().filter(|m| is_library(m)) {
            pieces.extend(module_pieces(env, module, |name| {
                let low = name.to_lowercase();
                low == wanted || low.split('.').next() == Some(wanted.as_str())
            }));
        }
        pieces.extend(
            sections
                .iter()
                .filter(|s| s.title.to_lowercase().contains(&wanted))
                .cloned(),
        );
    }
    if pieces.is_empty() {
        pieces = sections
            .into_iter()
            .filter(|s| s.text.to_lowercase().contains(&wanted))
            .collect();
    }
    pieces
}

/// The documentation of one symbol.
pub fn symbol_docs(env: &Env, sym: &Sym) -> Option<Piece> {
    let json = symbol_json(env, sym)?;
    let signature = json["signature"].as_str().unwrap_or("").to_owned();
    let doc = json["doc"].as_str().unwrap_or("");
    let mut text = format!("```sakura\n{signature}\n```\n");
    if !doc.is_empty() {
        text.push_str(&format!("\n{doc}\n"));
    }
    Some(Piece {
        title: sym.to_string(),
        text,
    })
}

fn module_pieces(env: &Env, module: &Module, keep: impl Fn(&str) -> bool) -> Vec<Piece> {
    let mut names: Vec<&Arc<str>> = module
        .types
        .keys()
        .chain(module.errors.keys())
        .chain(module.functions.keys())
        .collect();
    names.dedup();
    let documented = |sym: &Sym| !is_library(module) || !doc_of(env, sym).is_empty();
    let syms = names
        .into_iter()
        .filter(|n| keep(n))
        .map(|n| full(&module.name, n))
        .filter(documented);
    syms.filter_map(|sym| symbol_docs(env, &sym)).collect()
}

/// The sections of the language's page.
pub fn sections() -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    let mut in_code = false;
    for line in LANGUAGE_PAGE.lines() {
        in_code ^= line.starts_with("```");
        match line.strip_prefix("## ").filter(|_| !in_code) {
            Some(title) => out.push(Piece {
                title: title.to_owned(),
                text: String::new(),
            }),
            None => {
                if let Some(piece) = out.last_mut() {
                    piece.text.push_str(line);
                    piece.text.push('\n');
                }
            }
        }
    }
    out
}

/// The pieces that a budget of tokens (about four bytes each) holds, and the titles left out.
pub fn within(pieces: Vec<Piece>, budget_tokens: Option<u64>) -> (String, Vec<String>) {
    let mut left = budget_tokens.map(|tokens| tokens.saturating_mul(4) as usize);
    let mut text = String::new();
    let mut omitted = Vec::new();
    for piece in pieces {
        let block = format!("## {}\n\n{}\n\n", piece.title, piece.text.trim());
        match &mut left {
            Some(bytes) if block.len() > *bytes => omitted.push(piece.title),
            Some(bytes) => {
                *bytes -= block.len();
                text.push_str(&block);
            }
            None => text.push_str(&block),
        }
    }
    (text.trim_end().to_owned(), omitted)
}
