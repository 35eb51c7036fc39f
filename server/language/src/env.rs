//! Declarations as types: what a signature, a record, a union or an error says.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::ast::*;
use crate::diagnostic::{Draft, nearest};
use crate::names::{CORE, EFFECTS, Modules, Scope, full};
use crate::types::{self, Instance, Label, Row, Solution, Sym, Ty, TyKind};

/// A function as its callers see it.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Signature {
    pub sym: Sym,
    pub types: Vec<Arc<str>>,
    pub effects: Vec<Arc<str>>,
    pub params: Vec<(Arc<str>, Ty)>,
    pub ret: Ty,
    pub row: Row,
}

impl Signature {
    /// Fresh variables for its parameters.
    pub fn instance(&self, solution: &mut Solution) -> Instance {
        Instance {
            types: self
                .types
                .iter()
                .map(|name| (name.clone(), solution.fresh()))
                .collect(),
            rows: self
                .effects
                .iter()
                .map(|name| (name.clone(), solution.fresh_row()))
                .collect(),
        }
    }

    /// Its type as a function value.
    pub fn ty(&self) -> Ty {
        let params = self.params.iter().map(|(_, ty)| ty.clone()).collect();
        types::function(params, self.ret.clone(), self.row.clone())
    }
}

/// A type declaration as its users see it.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct TypeInfo {
    pub sym: Sym,
    pub generics: Vec<Arc<str>>,
    pub shape: Shape,
}

/// What a declared type is.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Shape {
    Record(Vec<(Arc<str>, Ty)>),
    Union(Vec<(Arc<str>, Vec<Ty>)>),
    Alias(Ty),
    Builtin,
}

/// The symbols of the machine's own types.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Core {
    pub int: Ty,
    pub float: Ty,
    pub bool: Ty,
    pub string: Ty,
    pub unit: Ty,
    pub url: Ty,
    pub list: Sym,
    pub option: Sym,
    pub map: Sym,
}

impl Core {
    fn new() -> Self {
        let ty = |name: &str| types::con(&full(CORE, name), Vec::new());
        Self {
            int: ty("Int"),
            float: ty("Float"),
            bool: ty("Bool"),
            string: ty("String"),
            unit: ty("Unit"),
            url: ty("Url"),
            list: full(CORE, "List"),
            option: full(CORE, "Option"),
            map: full(CORE, "Map"),
        }
    }
}

/// Everything that is declared, looked at lazily.
pub struct Env {
    /// The modules.
    pub modules: Modules,
    /// The machine's own types.
    pub core: Core,
    scopes: RefCell<HashMap<Arc<str>, Arc<Scope>>>,
    signatures: RefCell<HashMap<Sym, Arc<Signature>>>,
    infos: RefCell<HashMap<Sym, Arc<TypeInfo>>>,
    errors: RefCell<HashMap<Sym, Arc<ErrorFields>>>,
    expanding: RefCell<BTreeSet<Sym>>,
}

/// The fields of an error.
pub type ErrorFields = Vec<(Arc<str>, Ty)>;

/// Where a type expression stands, and who hears about mistakes in it.
pub struct TypeContext<'a> {
    /// What names mean.
    pub scope: &'a Scope,
    /// The type parameters in scope.
    pub generics: &'a [Name],
    /// Mistakes, if anyone wants to know.
    pub report: Option<&'a mut Vec<Draft>>,
    /// Every name that was looked up.
    pub used: Option<&'a mut BTreeSet<Arc<str>>>,
    /// Whether a refinement can be checked where this type stands.
    pub refinable: bool,
}

impl TypeContext<'_> {
    fn say(&mut self, draft: impl FnOnce() -> Draft) {
        if let Some(report) = self.report.as_deref_mut() {
            report.push(draft());
        }
    }

    fn uses(&mut self, name: &Arc<str>) {
        if let Some(used) = self.used.as_deref_mut() {
            used.insert(name.clone());
        }
    }
}

fn is_effect_parameter(name: &Name) -> bool {
    name.text
        .starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
}

/// The type parameters among generic parameters.
pub fn type_params(generics: &[Name]) -> Vec<Arc<str>> {
    generics
        .iter()
        .filter(|n| !is_effect_parameter(n))
        .map(|n| n.text.clone())
        .collect()
}

/// The effect parameters among generic parameters.
pub fn effect_params(generics: &[Name]) -> Vec<Arc<str>> {
    generics
        .iter()
        .filter(|n| is_effect_parameter(n))
        .map(|n| n.text.clone())
        .collect()
}

impl Env {
    /// The declarations of `modules`, which hold the standard library.
    pub fn new(modules: Modules) -> Self {
        Self {
            modules,
            core: Core::new(),
            scopes: RefCell::default(),
            signatures: RefCell::default(),
            infos: RefCell::default(),
            errors: RefCell::default(),
            expanding: RefCell::default(),
        }
    }

    /// What names mean inside a module.
    pub fn scope(&self, module: &str) -> Arc<Scope> {
        if let Some(scope) = self.scopes.borrow().get(module) {
            return scope.clone();
        }
        let prelude = (module != CORE).then(|| self.prelude());
        let scope = match self.modules.by_name.get(module) {
            Some(found) => Arc::new(Scope::new(found, &self.modules, prelude)),
            None => Arc::new(Scope {
                module: Arc::from(module),
                prelude,
                ..Scope::default()
            }),
        };
        self.scopes
            .borrow_mut()
            .insert(Arc::from(module), scope.clone());
        scope
    }

    /// The names that are in scope everywhere: the documented ones of the core module.
    fn prelude(&self) -> Arc<Scope> {
        const KEY: &str = "(prelude)";
        if let Some(found) = self.scopes.borrow().get(KEY) {
            return found.clone();
        }
        let core = self.scope(CORE);
        let documented = |sym: &Sym| match self.modules.function(sym) {
            Some((_, _, decl)) => !decl.doc.is_empty(),
            None => self
                .modules
                .type_decl(sym)
                .is_some_and(|(_, decl)| !decl.doc.is_empty()),
        };
        let keep = |table: &HashMap<Arc<str>, Sym>| -> HashMap<Arc<str>, Sym> {
            table
                .iter()
                .filter(|(_, sym)| documented(sym))
                .map(|(n, s)| (n.clone(), s.clone()))
                .collect()
        };
        let prelude = Arc::new(Scope {
            module: core.module.clone(),
            types: keep(&core.types),
            functions: keep(&core.functions),
            constructors: core.constructors.clone(),
            ..Scope::default()
        });
        self.scopes
            .borrow_mut()
            .insert(Arc::from(KEY), prelude.clone());
        prelude
    }

    /// The signature of a function.
    pub fn signature(&self, sym: &Sym) -> Option<Arc<Signature>> {
        if let Some(found) = self.signatures.borrow().get(sym) {
            return Some(found.clone());
        }
        let (module, _, decl) = self.modules.function(sym)?;
        let scope = self.scope(&module.name);
        let mut context = TypeContext {
            scope: &scope,
            generics: &decl.generics,
            report: None,
            used: None,
            refinable: true,
        };
        let signature = Arc::new(self.signature_of(sym, decl, &mut context));
        self.signatures
            .borrow_mut()
            .insert(sym.clone(), signature.clone());
        Some(signature)
    }

    /// The signature of `decl`, telling `context` about mistakes.
    pub fn signature_of(&self, sym: &Sym, decl: &FnDecl, context: &mut TypeContext) -> Signature {
        let params = decl
            .params
            .iter()
            .map(|p| (p.name.text.clone(), self.ty(&p.ty, context)))
            .collect();
        let ret = self.ty(&decl.ret, context);
        let row = self.row(decl.row.as_ref(), context);
        Signature {
            sym: sym.clone(),
            types: type_params(&decl.generics),
            effects: effect_params(&decl.generics),
            params,
            ret,
            row,
        }
    }

    /// A declared type.
    pub fn info(&self, sym: &Sym) -> Option<Arc<TypeInfo>> {
        if let Some(found) = self.infos.borrow().get(sym) {
            return Some(found.clone());
        }
        let (module, decl) = self.modules.type_decl(sym)?;
        if !self.expanding.borrow_mut().insert(sym.clone()) {
            return None;
        }
        let scope = self.scope(&module.name);
        let mut context = TypeContext {
            scope: &scope,
            generics: &decl.generics,
            report: None,
            used: None,
            refinable: true,
        };
        let shape = match &decl.body {
            TypeBody::Record(fields) => Shape::Record(self.fields(fields, &mut context)),
            TypeBody::Union(variants) => Shape::Union(
                variants
                    .iter()
                    .map(|v| {
                        let payload = v.payload.iter().map(|ty| self.ty(ty, &mut context));
                        (v.name.text.clone(), payload.collect())
                    })
                    .collect(),
            ),
            TypeBody::Alias(ty) => Shape::Alias(self.ty(ty, &mut context)),
            TypeBody::Builtin => Shape::Builtin,
        };
        self.expanding.borrow_mut().remove(sym);
        let info = Arc::new(TypeInfo {
            sym: sym.clone(),
            generics: type_params(&decl.generics),
            shape,
        });
        self.infos.borrow_mut().insert(sym.clone(), info.clone());
        Some(info)
    }

    fn fields(&self, fields: &[Field], context: &mut TypeContext) -> Vec<(Arc<str>, Ty)> {
        fields
            .iter()
            .map(|f| (f.name.text.clone(), self.ty(&f.ty, context)))
            .collect()
    }

    /// The fields of an error.
    pub fn error_fields(&self, sym: &Sym) -> Option<Arc<ErrorFields>> {
        if let Some(found) = self.errors.borrow().get(sym) {
            return Some(found.clone());
        }
        let (module, decl) = self.modules.error_decl(sym)?;
        let scope = self.scope(&module.name);
        let mut context = TypeContext {
            scope: &scope,
            generics: &[],
            report: None,
            used: None,
            refinable: true,
        };
        let fields = Arc::new(self.fields(&decl.fields, &mut context));
        self.errors.borrow_mut().insert(sym.clone(), fields.clone());
        Some(fields)
    }

    /// The type that a type expression means, refinements left out.
    pub fn ty(&self, expr: &TypeExpr, context: &mut TypeContext) -> Ty {
        match &expr.kind {
            TypeKind::Error => types::error(),
            TypeKind::Where(base, ..) => {
                if !context.refinable {
                    context.say(|| unrefinable(expr.span));
                }
                self.ty(base, context)
            }
            TypeKind::Fn(params, ret, row) => {
                let before = std::mem::replace(&mut context.refinable, false);
                let params = params.iter().map(|p| self.ty(p, context)).collect();
                let ret = self.ty(ret, context);
                context.refinable = before;
                let row = self.row(row.as_ref(), context);
                types::function(params, ret, row)
            }
            TypeKind::Name(name, args) => self.named(expr.span, name, args, context),
        }
    }

    fn named(&self, span: Span, name: &Name, args: &[TypeExpr], context: &mut TypeContext) -> Ty {
        if context.generics.iter().any(|g| g.text == name.text) {
            if !args.is_empty() {
                context.say(|| {
                    Draft::new(
                        "V3009",
                        span,
                        format!("the type parameter `{}` takes no types", name.text),
                    )
                });
            }
            return types::param(&name.text);
        }
        context.uses(&name.text);
        let Some(sym) = context.scope.ty(&name.text) else {
            let near = nearest(&name.text, context.scope.names(|s| &s.types).into_iter());
            context.say(|| {
                Draft::new(
                    "V2002",
                    name.span,
                    format!("no type is called `{}`", name.text),
                )
                .suggest(&name.text, name.span, near)
            });
            args.iter().for_each(|arg| drop(self.ty(arg, context)));
            return types::error();
        };
        let before = context.refinable;
        context.refinable &= [&self.core.list, &self.core.option, &self.core.map].contains(&&sym);
        let args: Vec<Ty> = args.iter().map(|arg| self.ty(arg, context)).collect();
        context.refinable = before;
        let Some((_, decl)) = self.modules.type_decl(&sym) else {
            return types::error();
        };
        let generics = type_params(&decl.generics);
        if generics.len() != args.len() {
            let (wanted, found) = (generics.len(), args.len());
            context.say(|| {
                let message = format!(
                    "`{}` takes {}, found {found}",
                    name.text,
                    count(wanted, "type")
                );
                Draft::new("V3009", span, message).declared(&sym, "declared here")
            });
            return types::error();
        }
        if let TypeBody::Alias(_) = &decl.body {
            if !context.refinable && self.is_refined(&sym, &mut BTreeSet::new()) {
                context.say(|| unrefinable(span));
            }
            let Some(info) = self.info(&sym) else {
                // An alias that is being expanded means itself; its declaration says so.
                return types::error();
            };
            let Shape::Alias(ty) = &info.shape else {
                return types::error();
            };
            let types = info.generics.iter().cloned().zip(args).collect();
            return Instance {
                types,
                rows: BTreeMap::new(),
            }
            .apply(ty);
        }
        types::con(&sym, args)
    }

    /// Whether an alias carries a refinement.
    pub fn is_refined(&self, sym: &Sym, seen: &mut BTreeSet<Sym>) -> bool {
        if !seen.insert(sym.clone()) {
            return false;
        }
        match self.modules.type_decl(sym) {
            Some((
                module,
                TypeDecl {
                    body: TypeBody::Alias(ty),
                    ..
                },
            )) => {
                let scope = self.scope(&module.name);
                self.has_refinement(ty, &scope, seen)
            }
            _ => false,
        }
    }

    /// Whether a type expression carries a refinement that has to be checked.
    pub fn has_refinement(&self, ty: &TypeExpr, scope: &Scope, seen: &mut BTreeSet<Sym>) -> bool {
        match &ty.kind {
            TypeKind::Where(..) => true,
            TypeKind::Name(name, args) => {
                args.iter().any(|arg| self.has_refinement(arg, scope, seen))
                    || scope
                        .ty(&name.text)
                        .is_some_and(|sym| self.is_refined(&sym, seen))
            }
            TypeKind::Fn(..) | TypeKind::Error => false,
        }
    }

    /// Whether the alias `sym` means itself.
    pub fn alias_cycle(&self, sym: &Sym) -> bool {
        let mut todo = vec![sym.clone()];
        let mut seen = BTreeSet::new();
        while let Some(next) = todo.pop() {
            let Some((
                module,
                TypeDecl {
                    body: TypeBody::Alias(ty),
                    ..
                },
            )) = self.modules.type_decl(&next)
            else {
                continue;
            };
            let scope = self.scope(&module.name);
            let mut found = Vec::new();
            alias_names(ty, &scope, &mut found);
            for name in found {
                if name == *sym {
                    return true;
                }
                if seen.insert(name.clone()) {
                    todo.push(name);
                }
            }
        }
        false
    }

    /// The row that a row expression means.
    pub fn row(&self, row: Option<&RowExpr>, context: &mut TypeContext) -> Row {
        let mut out = Row::default();
        for label in row.map(|r| r.labels.as_slice()).unwrap_or_default() {
            match label {
                RowLabel::Effect(name) => {
                    if EFFECTS.contains(&&*name.text) {
                        out.labels.insert(Label::Effect(name.text.clone()));
                        context.uses(&name.text);
                    } else {
                        let is_error = context.scope.error(&name.text).is_some();
                        let near = nearest(&name.text, EFFECTS.into_iter());
                        context.say(|| unknown_effect(name, is_error, near));
                    }
                }
                RowLabel::Fail(names) => {
                    for name in names {
                        context.uses(&name.text);
                        match context.scope.error(&name.text) {
                            Some(sym) => drop(out.labels.insert(Label::Fail(sym))),
                            None => {
                                let near = nearest(
                                    &name.text,
                                    context.scope.names(|s| &s.errors).into_iter(),
                                );
                                context.say(|| {
                                    Draft::new(
                                        "V2006",
                                        name.span,
                                        format!("no error is called `{}`", name.text),
                                    )
                                    .suggest(&name.text, name.span, near)
                                });
                            }
                        }
                    }
                }
                RowLabel::Var(name) => {
                    if !context.generics.iter().any(|g| g.text == name.text) {
                        context.say(|| {
                            let message = format!("no effect parameter is called `{0}`; declare it: `fn name<{0}>(…)`", name.text);
                            Draft::new("V4003", name.span, message)
                        });
                    } else if out
                        .labels
                        .iter()
                        .any(|l| matches!(l, Label::Param(p) if *p != name.text))
                    {
                        context.say(|| {
                            let message = "a row holds one effect parameter; use the same one for all functions".to_owned();
                            Draft::new("V4005", name.span, message)
                        });
                    } else {
                        out.labels.insert(Label::Param(name.text.clone()));
                    }
                }
            }
        }
        out
    }
}

fn alias_names(ty: &TypeExpr, scope: &Scope, out: &mut Vec<Sym>) {
    match &ty.kind {
        TypeKind::Name(name, args) => {
            out.extend(scope.ty(&name.text));
            args.iter().for_each(|arg| alias_names(arg, scope, out));
        }
        TypeKind::Where(base, ..) => alias_names(base, scope, out),
        TypeKind::Fn(params, ret, _) => {
            params.iter().for_each(|p| alias_names(p, scope, out));
            alias_names(ret, scope, out);
        }
        TypeKind::Error => {}
    }
}

fn unrefinable(span: Span) -> Draft {
    let message = "nobody could check a refinement here; refinements stand on parameters, results, fields, payloads, and inside List, Option and Map there";
    Draft::new("V6003", span, message.to_owned())
}

fn unknown_effect(name: &Name, is_error: bool, near: Option<String>) -> Draft {
    let message = if is_error {
        format!(
            "`{0}` is an error, not an effect; write `Fail<{0}>`",
            name.text
        )
    } else {
        format!(
            "no effect is called `{}`; there are {}",
            name.text,
            EFFECTS.join(", ")
        )
    };
    Draft::new("V4003", name.span, message).suggest(&name.text, name.span, near)
}

/// `1 type`, `2 types`.
pub fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// The declared parameters with types and effects as a person reads them.
pub fn show_signature(name: &str, decl: &FnDecl, text: &str) -> String {
    let end = decl
        .requires
        .iter()
        .chain(&decl.ensures)
        .map(|e| e.span.start)
        .min();
    let end = end.unwrap_or(decl.head.end).min(decl.head.end);
    let head = text
        .get(decl.head.start as usize..end as usize)
        .unwrap_or(name);
    let head = head.trim_end_matches(|c: char| c.is_whitespace());
    let head = head
        .strip_suffix("requires")
        .or_else(|| head.strip_suffix("ensures"))
        .unwrap_or(head);
    let mut words = format!(
        "fn {}",
        head.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    for (from, to) in [("( ", "("), (", )", ")"), (" )", ")")] {
        words = words.replace(from, to);
    }
    words
}

/// The head of a type, for callers that only look.
pub fn con_of(ty: &Ty) -> Option<(&Sym, &[Ty])> {
    match &**ty {
        TyKind::Con { name, args, .. } => Some((name, args)),
        _ => None,
    }
}
