//! Checks one chunk: types, effects, failures, contracts.
//!
//! Types are inferred by making them equal ([`crate::types`]). Effects flow: every use of an
//! effect is noted with the region (body, lambda, `recover`) it happens in, and at the end of a
//! function the regions are filled until nothing changes. Only then are declared rows compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ast::*;
use crate::constant::{self, Const};
use crate::diagnostic::{Draft, Fix, nearest};
use crate::env::{Env, Shape, Signature, TypeContext, con_of, count, effect_params, type_params};
use crate::names::{CORE, Module, Scope, full};
use crate::patterns;
use crate::types::{self, Clash, Instance, Label, Row, Solution, Sym, Ty, TyKind, short, show_row};

/// What checking a chunk gives.
#[derive(Debug, Default)]
pub struct Report {
    /// Mistakes, spans counted from the chunk's start.
    pub drafts: Vec<Draft>,
    /// Holes.
    pub holes: Vec<Hole>,
    /// Conditions that are left to run time.
    pub obligations: Vec<Obligation>,
    /// Names that were looked up outside the chunk.
    pub used: BTreeSet<Arc<str>>,
}

/// A typed hole.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Hole {
    pub name: Name,
    /// The function or test around it.
    pub owner: Arc<str>,
    pub expected: Ty,
    /// Labels that the function may use; None where anything goes (tests).
    pub allowed: Option<BTreeSet<Label>>,
    pub bindings: Vec<(Arc<str>, Ty)>,
    /// Spans of `requires` and `ensures`.
    pub contracts: Vec<Span>,
}

/// A condition that only running can settle.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Obligation {
    pub kind: &'static str,
    pub owner: Arc<str>,
    pub span: Span,
    /// The condition's text.
    pub condition: Arc<str>,
    /// Whose condition it is.
    pub symbol: Sym,
}

/// Checks a chunk of `module`.
pub fn check_chunk(env: &Env, module: &Module, chunk: usize) -> Report {
    let scope = env.scope(&module.name);
    let found = &module.chunks[chunk];
    let mut report = Report::default();
    for item in &found.parsed.items {
        let mut checker = Checker::new(env, &scope, &found.text);
        match item {
            Item::Import(import) => checker.import(import),
            Item::Type(decl) => checker.type_decl(decl),
            Item::Error(decl) => checker.error_decl(decl),
            Item::Fn(decl) => checker.function(decl),
            Item::Test(decl) => checker.test(decl),
        }
        report.drafts.append(&mut checker.report.drafts);
        report.holes.append(&mut checker.report.holes);
        report.obligations.append(&mut checker.report.obligations);
        report.used.append(&mut checker.report.used);
    }
    report
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Class {
    Number,
    Ordered,
    Shown,
    Joined,
}

#[derive(Debug)]
enum Region {
    /// A body: what it does is what its function does.
    Body,
    /// A condition: may do nothing.
    Condition,
    /// A lambda, with the row of its type.
    Lambda(u32),
    /// A `recover`: failures handled, and where the rest goes.
    Recover {
        parent: usize,
        handled: BTreeSet<Sym>,
        all: bool,
    },
}

struct Use {
    region: usize,
    row: Row,
    span: Span,
    what: Arc<str>,
}

struct Local {
    name: Arc<str>,
    ty: Ty,
    /// The text of its type, if that carries a refinement.
    refined: Option<Arc<str>>,
}

/// Names in scope with their types.
type Bindings = Vec<(Arc<str>, Ty)>;

struct Exhaustive<'a> {
    ty: Ty,
    arms: &'a [Arm],
    span: Span,
}

/// Where a name came from, and with how much of an effect it was used in a region.
type Filled = BTreeMap<Label, (Span, Arc<str>)>;

struct Checker<'a> {
    env: &'a Env,
    scope: &'a Scope,
    text: &'a str,
    report: Report,
    generics: &'a [Name],
    owner: Arc<str>,
    solution: Solution,
    locals: Vec<Local>,
    regions: Vec<Region>,
    region: usize,
    uses: Vec<Use>,
    classes: Vec<(Class, Ty, Span, &'static str)>,
    unused: Vec<(Ty, Span)>,
    matches: Vec<Exhaustive<'a>>,
    recovers: Vec<(usize, Sym, Span)>,
    holes: Vec<(Name, Ty, Bindings)>,
    complex: bool,
}

impl<'a> Checker<'a> {
    fn new(env: &'a Env, scope: &'a Scope, text: &'a str) -> Self {
        Self {
            env,
            scope,
            text,
            report: Report::default(),
            generics: &[],
            owner: Arc::from(""),
            solution: Solution::new(),
            locals: Vec::new(),
            regions: vec![Region::Body],
            region: 0,
            uses: Vec::new(),
            classes: Vec::new(),
            unused: Vec::new(),
            matches: Vec::new(),
            recovers: Vec::new(),
            holes: Vec::new(),
            complex: false,
        }
    }

    fn say(&mut self, draft: Draft) {
        self.report.drafts.push(draft);
    }

    fn uses_name(&mut self, name: &Arc<str>) {
        self.report.used.insert(name.clone());
    }

    fn slice(&self, span: Span) -> &'a str {
        self.text
            .get(span.start as usize..span.end as usize)
            .unwrap_or("")
    }

    fn is_std(&self) -> bool {
        self.scope.module.starts_with("std/")
    }

    // ---- declarations ----

    fn import(&mut self, import: &Import) {
        let modules = &self.env.modules.by_name;
        let Some(module) = modules.get(&import.module.text) else {
            if !import.module.text.is_empty() {
                let near = nearest(
                    &import.module.text,
                    modules.keys().map(|m| &**m).filter(|m| *m != CORE),
                );
                let span = import.module.span;
                self.say(
                    Draft::new(
                        "V2004",
                        span,
                        format!("there is no module `{}`", import.module.text),
                    )
                    .suggest(&import.module.text, span, near),
                );
            }
            return;
        };
        let mut groups: BTreeSet<&str> = BTreeSet::new();
        groups.extend(
            module
                .functions
                .keys()
                .map(|f| f.split('.').next().unwrap_or(f)),
        );
        groups.extend(
            module
                .types
                .keys()
                .chain(module.errors.keys())
                .map(|n| &**n),
        );
        for name in &import.names {
            if !groups.contains(&*name.text) {
                let near = nearest(&name.text, groups.iter().copied());
                self.say(
                    Draft::new(
                        "V2007",
                        name.span,
                        format!("`{}` declares no `{}`", module.name, name.text),
                    )
                    .suggest(&name.text, name.span, near),
                );
            }
        }
    }

    fn resolve(&mut self, expr: &'a TypeExpr, refinable: bool) -> Ty {
        let (env, scope, generics) = (self.env, self.scope, self.generics);
        let mut context = TypeContext {
            scope,
            generics,
            report: Some(&mut self.report.drafts),
            used: Some(&mut self.report.used),
            refinable,
        };
        env.ty(expr, &mut context)
    }

    /// Checks the refinements inside a type expression.
    fn refinements(&mut self, expr: &'a TypeExpr) {
        match &expr.kind {
            TypeKind::Where(base, condition, _) => {
                self.refinements(base);
                let ty = {
                    let mut context = TypeContext {
                        scope: self.scope,
                        generics: self.generics,
                        report: None,
                        used: None,
                        refinable: true,
                    };
                    self.env.ty(base, &mut context)
                };
                let mark = self.locals.len();
                let hidden = std::mem::take(&mut self.locals);
                self.bind(&Arc::from("value"), ty);
                self.condition(condition);
                self.locals = hidden;
                self.locals.truncate(mark);
            }
            TypeKind::Name(_, args) => args.iter().for_each(|arg| self.refinements(arg)),
            TypeKind::Fn(params, ret, _) => {
                params.iter().for_each(|p| self.refinements(p));
                self.refinements(ret);
            }
            TypeKind::Error => {}
        }
    }

    /// A condition: a Bool that does nothing.
    fn condition(&mut self, condition: &'a Expr) {
        let before = self.region;
        self.regions.push(Region::Condition);
        self.region = self.regions.len() - 1;
        let bool = self.env.core.bool.clone();
        self.check(condition, &bool);
        self.region = before;
    }

    fn unique<'n>(&mut self, names: impl Iterator<Item = &'n Name>, what: &str) {
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        for name in names.filter(|n| !n.text.is_empty() && &*n.text != "_") {
            match seen.get(&*name.text) {
                Some(first) => {
                    let draft = Draft::new(
                        "V2010",
                        name.span,
                        format!("the {what} `{}` is here twice", name.text),
                    );
                    self.say(draft.related(*first, "first here"));
                }
                None => drop(seen.insert(&name.text, name.span)),
            }
        }
    }

    fn type_decl(&mut self, decl: &'a TypeDecl) {
        self.generics = &decl.generics;
        self.owner = decl.name.text.clone();
        self.unique(decl.generics.iter(), "type parameter");
        for name in effect_params(&decl.generics) {
            let message =
                format!("types take no effect parameters: `{name}` begins with a small letter");
            self.say(Draft::new("V4003", decl.name.span, message));
        }
        let sym = full(&self.scope.module, &decl.name.text);
        let parts: Vec<&'a TypeExpr> = match &decl.body {
            TypeBody::Record(fields) => {
                self.unique(fields.iter().map(|f| &f.name), "field");
                fields.iter().map(|f| &f.ty).collect()
            }
            TypeBody::Union(variants) => variants.iter().flat_map(|v| &v.payload).collect(),
            TypeBody::Alias(ty) => {
                if self.env.alias_cycle(&sym) {
                    let message = format!(
                        "`{}` means itself; put a record or a union in between",
                        decl.name.text
                    );
                    self.say(Draft::new("V2008", decl.name.span, message));
                    return;
                }
                vec![ty]
            }
            TypeBody::Builtin => {
                if !self.is_std() {
                    let message = format!("say what `{0}` is: `type {0} = …`", decl.name.text);
                    self.say(Draft::new("V1015", decl.name.span, message));
                }
                Vec::new()
            }
        };
        for part in parts {
            self.resolve(part, true);
            self.refinements(part);
        }
        self.settle(None);
    }

    fn error_decl(&mut self, decl: &'a ErrorDecl) {
        self.owner = decl.name.text.clone();
        self.unique(decl.fields.iter().map(|f| &f.name), "field");
        for field in &decl.fields {
            self.resolve(&field.ty, true);
            self.refinements(&field.ty);
        }
        self.settle(None);
    }

    fn function(&mut self, decl: &'a FnDecl) {
        self.generics = &decl.generics;
        self.owner = decl.name.text.clone();
        self.unique(decl.generics.iter(), "type parameter");
        self.unique(decl.params.iter().map(|p| &p.name), "parameter");
        let sym = full(&self.scope.module, &decl.name.text);
        let signature = {
            let (env, scope) = (self.env, self.scope);
            let mut context = TypeContext {
                scope,
                generics: &decl.generics,
                report: Some(&mut self.report.drafts),
                used: Some(&mut self.report.used),
                refinable: true,
            };
            env.signature_of(&sym, decl, &mut context)
        };
        if decl.tool.is_some() {
            self.tool(decl, &signature);
        }
        decl.params.iter().for_each(|p| self.refinements(&p.ty));
        self.refinements(&decl.ret);
        for ((name, ty), param) in signature.params.iter().zip(&decl.params) {
            let refined = self.refined_text(&param.ty);
            self.locals.push(Local {
                name: name.clone(),
                ty: ty.clone(),
                refined,
            });
        }
        decl.requires.iter().for_each(|c| self.condition(c));
        let mark = self.locals.len();
        self.bind(&Arc::from("result"), signature.ret.clone());
        decl.ensures.iter().for_each(|c| self.condition(c));
        self.locals.truncate(mark);
        let contracts = |list: &[Expr]| list.iter().map(|e| e.span).collect::<Vec<_>>();
        for span in contracts(&decl.ensures) {
            self.oblige("ensures", span, self.slice(span), &sym);
        }
        if self.refined_text(&decl.ret).is_some() {
            self.oblige("refinement", decl.ret.span, self.slice(decl.ret.span), &sym);
        }
        match &decl.body {
            Some(body) => {
                self.check(body, &signature.ret);
                self.settle(Some((decl, &signature)));
            }
            None => {
                if !self.is_std() {
                    let message = format!(
                        "`{}` has no body; a hole will do: `{{ ?todo }}`",
                        decl.name.text
                    );
                    let end = Span::new(decl.head.end, decl.head.end);
                    self.say(
                        Draft::new("V1015", decl.name.span, message).fix(Fix::replace(
                            "give it a hole for a body",
                            end,
                            " {\n  ?todo\n}".to_owned(),
                        )),
                    );
                }
                self.settle(None);
            }
        }
    }

    fn tool(&mut self, decl: &'a FnDecl, signature: &Signature) {
        if !decl.generics.is_empty() {
            let message = format!(
                "the tool `{}` takes type parameters; a schema needs plain types",
                decl.name.text
            );
            self.say(Draft::new("V9002", decl.name.span, message));
            return;
        }
        if decl.tool.as_ref().is_some_and(|t| t.text.trim().is_empty()) {
            self.say(Draft::new(
                "V9003",
                decl.name.span,
                "a tool says what it does in its description".to_owned(),
            ));
        }
        let parts = signature
            .params
            .iter()
            .map(|(_, ty)| ty)
            .zip(decl.params.iter().map(|p| p.ty.span));
        for (ty, span) in parts.chain([(&signature.ret, decl.ret.span)]) {
            if let Some(why) = crate::tool::not_exportable(self.env, ty) {
                self.say(Draft::new(
                    "V9001",
                    span,
                    format!("`{}` cannot cross JSON: {why}", self.solution.show(ty)),
                ));
            }
        }
        for label in &signature.row.labels {
            let Label::Fail(sym) = label else { continue };
            let fields = self.env.error_fields(sym);
            let bad = fields
                .iter()
                .flat_map(|f| f.iter())
                .find_map(|(_, ty)| crate::tool::not_exportable(self.env, ty));
            if let Some(why) = bad {
                let span = decl.row.as_ref().map_or(decl.name.span, |r| r.span);
                self.say(Draft::new(
                    "V9001",
                    span,
                    format!("the error `{}` cannot cross JSON: {why}", short(sym)),
                ));
            }
        }
    }

    fn test(&mut self, decl: &'a TestDecl) {
        self.owner = decl.name.text.clone();
        self.unique(decl.params.iter().map(|p| &p.name), "parameter");
        for param in &decl.params {
            let ty = self.resolve(&param.ty, true);
            self.refinements(&param.ty);
            if let Some(why) = crate::testing::not_generated(self.env, &ty) {
                let message = format!(
                    "no values of `{}` can be made up: {why}",
                    self.solution.show(&ty)
                );
                self.say(Draft::new("V7002", param.ty.span, message));
            }
            let refined = self.refined_text(&param.ty);
            self.locals.push(Local {
                name: param.name.text.clone(),
                ty,
                refined,
            });
        }
        let unit = self.env.core.unit.clone();
        self.check(&decl.body, &unit);
        self.settle(None);
    }

    /// The text of a type that carries a refinement.
    fn refined_text(&self, ty: &TypeExpr) -> Option<Arc<str>> {
        let refined = self
            .env
            .has_refinement(ty, self.scope, &mut BTreeSet::new());
        refined.then(|| Arc::from(format!("{}:{}", self.scope.module, self.slice(ty.span))))
    }

    fn oblige(&mut self, kind: &'static str, span: Span, condition: &str, symbol: &Sym) {
        self.report.obligations.push(Obligation {
            kind,
            owner: self.owner.clone(),
            span,
            condition: Arc::from(condition),
            symbol: symbol.clone(),
        });
    }

    // ---- the end of a function ----

    /// Solves what was left open and compares the rows.
    fn settle(&mut self, declared: Option<(&'a FnDecl, &Signature)>) {
        let filled = self.flow();
        self.judge_classes();
        self.judge_matches();
        self.judge_regions(&filled);
        for (ty, span) in std::mem::take(&mut self.unused) {
            let head = self.solution.head(&ty);
            let fine =
                matches!(&*head, TyKind::Var(_) | TyKind::Error) || head == self.env.core.unit;
            if !fine {
                let message = format!(
                    "this value of type `{}` is not used; bind it with `let _ =`",
                    self.solution.show(&head)
                );
                let at = Span::new(span.start, span.start);
                self.say(Draft::new("V3012", span, message).fix(Fix::replace(
                    "say that it is not used",
                    at,
                    "let _ = ".to_owned(),
                )));
            }
        }
        if let Some((decl, signature)) = declared {
            self.compare_rows(decl, signature, &filled[0]);
        }
        let allowed = declared.map(|(_, s)| s.row.labels.clone());
        let contracts: Vec<Span> = declared
            .map(|(d, _)| {
                d.requires
                    .iter()
                    .chain(&d.ensures)
                    .map(|e| e.span)
                    .collect()
            })
            .unwrap_or_default();
        for (name, ty, bindings) in std::mem::take(&mut self.holes) {
            let mut known = |ty: &Ty| self.solution.resolve(ty).unwrap_or_else(types::error);
            let expected = known(&ty);
            let bindings = bindings
                .iter()
                .map(|(n, ty)| (n.clone(), known(ty)))
                .collect();
            self.report.holes.push(Hole {
                name,
                owner: self.owner.clone(),
                expected,
                allowed: allowed.clone(),
                bindings,
                contracts: contracts.clone(),
            });
        }
    }

    /// Fills the regions until nothing changes.
    fn flow(&mut self) -> Vec<Filled> {
        let uses = std::mem::take(&mut self.uses);
        let mut filled: Vec<Filled> = self.regions.iter().map(|_| Filled::new()).collect();
        // Every turn adds a label somewhere or is the last.
        loop {
            let mut changed = false;
            for used in &uses {
                for label in self.solution.row(&used.row).labels {
                    let entry = filled[used.region].entry(label);
                    changed |= matches!(entry, std::collections::btree_map::Entry::Vacant(_));
                    entry.or_insert_with(|| (used.span, used.what.clone()));
                }
            }
            for index in (0..self.regions.len()).rev() {
                match &self.regions[index] {
                    Region::Recover {
                        parent,
                        handled,
                        all,
                    } => {
                        let (parent, all) = (*parent, *all);
                        for (label, why) in filled[index].clone() {
                            let caught =
                                matches!(&label, Label::Fail(sym) if all || handled.contains(sym));
                            if !caught && !filled[parent].contains_key(&label) {
                                filled[parent].insert(label, why);
                                changed = true;
                            }
                        }
                    }
                    Region::Lambda(var) => {
                        let row = self.solution.row(&Row {
                            labels: BTreeSet::new(),
                            tail: Some(*var),
                        });
                        let lacks: BTreeSet<Label> = filled[index]
                            .keys()
                            .filter(|l| !row.labels.contains(*l))
                            .cloned()
                            .collect();
                        if let (Some(tail), false) = (row.tail, lacks.is_empty()) {
                            self.solution.extend(tail, lacks);
                            changed = true;
                        }
                    }
                    _ => {}
                }
            }
            if !changed {
                return filled;
            }
        }
    }

    fn judge_classes(&mut self) {
        let core = &self.env.core;
        for (class, ty, span, what) in std::mem::take(&mut self.classes) {
            let head = self.solution.head(&ty);
            let fits = match class {
                Class::Number => head == core.int || head == core.float,
                Class::Ordered => head == core.int || head == core.float || head == core.string,
                Class::Shown => {
                    [&core.int, &core.float, &core.string, &core.bool, &core.url].contains(&&head)
                }
                Class::Joined => {
                    head == core.string || con_of(&head).is_some_and(|(name, _)| *name == core.list)
                }
            };
            match &*head {
                TyKind::Error => {}
                TyKind::Var(_)
                    if matches!(class, Class::Number | Class::Ordered | Class::Shown) =>
                {
                    // Nothing decides it, so it is Int.
                    let _ = self.solution.unify(&head, &core.int.clone());
                }
                _ if fits => {}
                _ => {
                    let takes = match class {
                        Class::Number => "Int or Float",
                        Class::Ordered => "Int, Float or String",
                        Class::Shown => "String, Int, Float, Bool or Url",
                        Class::Joined => "String or List",
                    };
                    let message = format!(
                        "{what} takes {takes}, found `{}`",
                        self.solution.show(&head)
                    );
                    self.say(Draft::new("V3008", span, message));
                }
            }
        }
    }

    fn judge_matches(&mut self) {
        for found in std::mem::take(&mut self.matches) {
            let Some(ty) = self.solution.resolve(&found.ty) else {
                self.too_complex(found.span);
                continue;
            };
            match patterns::judge(self.env, self.scope, &ty, found.arms) {
                patterns::Verdict::Fine { unreachable } => {
                    for index in unreachable {
                        let span = found.arms[index].pattern.span;
                        self.say(Draft::new(
                            "V3005",
                            span,
                            "no value comes here; the arms above take them all".to_owned(),
                        ));
                    }
                }
                patterns::Verdict::Missing(missing) => {
                    let arms = missing
                        .iter()
                        .map(|m| format!("\n  {m} -> ?todo"))
                        .collect::<String>();
                    let list = missing
                        .iter()
                        .map(|m| format!("`{m}`"))
                        .collect::<Vec<_>>()
                        .join(", ");
                    let end = found.span.end.saturating_sub(1).max(found.span.start);
                    let fix = Fix::replace(
                        "add the missing arms",
                        Span::new(end, end),
                        format!("{arms}\n"),
                    );
                    self.say(
                        Draft::new("V3004", head_of(found.span), format!("no arm takes {list}"))
                            .fix(fix),
                    );
                }
                patterns::Verdict::Unknown => {
                    let message = "these patterns are too many to see whether they take everything; split the match".to_owned();
                    self.say(Draft::new("V3011", head_of(found.span), message));
                }
            }
        }
    }

    fn judge_regions(&mut self, filled: &[Filled]) {
        for (region, filled) in self.regions.iter().zip(filled) {
            match region {
                Region::Condition => {
                    for (label, (span, what)) in filled {
                        let set = BTreeSet::from([label.clone()]);
                        let message =
                            format!("a condition only looks: `{what}` needs {}", show_row(&set));
                        self.report.drafts.push(Draft::new("V4004", *span, message));
                    }
                }
                Region::Lambda(var) => {
                    let row = self.solution.row(&Row {
                        labels: BTreeSet::new(),
                        tail: Some(*var),
                    });
                    for (label, (span, what)) in filled {
                        if row.labels.contains(label) {
                            continue;
                        }
                        let set = BTreeSet::from([label.clone()]);
                        let code = if matches!(label, Label::Fail(_)) {
                            "V5001"
                        } else {
                            "V4001"
                        };
                        let message = format!(
                            "`{what}` needs {}, but the function asked for here may do only {}",
                            show_row(&set),
                            show_row(&row.labels)
                        );
                        self.report.drafts.push(Draft::new(code, *span, message));
                    }
                }
                _ => {}
            }
        }
        for (region, sym, span) in std::mem::take(&mut self.recovers) {
            let open = filled[region].keys().any(|l| matches!(l, Label::Param(_)));
            if !open
                && !filled[region].contains_key(&Label::Fail(sym.clone()))
                && self.holes.is_empty()
            {
                let message = format!("nothing here fails with `{}`", short(&sym));
                self.say(Draft::new("V5003", span, message));
            }
        }
    }

    fn compare_rows(&mut self, decl: &'a FnDecl, signature: &Signature, body: &Filled) {
        let declared = &signature.row.labels;
        let mut wanted: BTreeSet<Label> = declared.clone();
        wanted.extend(body.keys().cloned());
        let needed = |keep: &BTreeSet<Label>| match (&decl.row, keep.is_empty()) {
            (Some(row), true) => {
                // The row goes with the blank before it.
                let start = row.span.start as usize;
                let blank = self.text[..start].len() - self.text[..start].trim_end().len();
                Fix::replace(
                    "declare no row",
                    Span::new(row.span.start - blank as u32, row.span.end),
                    String::new(),
                )
            }
            (Some(row), false) => Fix::replace(
                "declare what is used",
                row.span,
                format!("! {}", show_row(keep)),
            ),
            (None, _) => {
                let end = Span::new(decl.ret.span.end, decl.ret.span.end);
                Fix::replace(
                    "declare what is used",
                    end,
                    format!(" ! {}", show_row(keep)),
                )
            }
        };
        let nameable = |label: &Label| match label {
            Label::Fail(sym) => self.scope.error(short(sym)).as_ref() == Some(sym),
            _ => true,
        };
        let all_nameable = wanted.iter().all(nameable);
        let mut drafts = Vec::new();
        for (label, (span, what)) in body.iter().filter(|(l, _)| !declared.contains(*l)) {
            let set = BTreeSet::from([label.clone()]);
            let (code, message) = match label {
                Label::Fail(sym) => (
                    "V5001",
                    format!(
                        "`{what}` may fail with `{}`, which `{}` does not declare",
                        short(sym),
                        decl.name.text
                    ),
                ),
                _ => (
                    "V4001",
                    format!(
                        "`{what}` needs {}, which `{}` does not declare",
                        show_row(&set),
                        decl.name.text
                    ),
                ),
            };
            let mut draft =
                Draft::new(code, *span, message).related(decl.name.span, "the declaration");
            if all_nameable {
                draft = draft.fix(needed(&wanted));
            }
            drafts.push(draft);
        }
        let used: BTreeSet<Label> = body.keys().cloned().collect();
        // A hole may come to use what is declared.
        if drafts.is_empty() && self.holes.is_empty() {
            for label in declared.difference(&used) {
                let span = decl.row.as_ref().map_or(decl.name.span, |r| r.span);
                let (code, message) = match label {
                    Label::Fail(sym) => (
                        "V5002",
                        format!("`{}` never fails with `{}`", decl.name.text, short(sym)),
                    ),
                    _ => {
                        let set = BTreeSet::from([label.clone()]);
                        (
                            "V4002",
                            format!(
                                "`{}` declares {} and does not use it",
                                decl.name.text,
                                show_row(&set)
                            ),
                        )
                    }
                };
                drafts.push(Draft::new(code, span, message).fix(needed(&used)));
            }
        }
        drafts.into_iter().for_each(|draft| self.say(draft));
    }

    fn too_complex(&mut self, span: Span) {
        if !std::mem::replace(&mut self.complex, true) {
            let message =
                "the types here grow too large to follow; write some of them down".to_owned();
            self.say(Draft::new("V3011", span, message));
        }
    }

    // ---- expressions ----

    fn bind(&mut self, name: &Arc<str>, ty: Ty) {
        self.locals.push(Local {
            name: name.clone(),
            ty,
            refined: None,
        });
    }

    fn notes(&mut self, row: Row, span: Span, what: &Arc<str>) {
        if row.labels.is_empty() && row.tail.is_none() {
            return;
        }
        self.uses.push(Use {
            region: self.region,
            row,
            span,
            what: what.clone(),
        });
    }

    /// Infers `expr` and demands that it has the type `want`.
    fn check(&mut self, expr: &'a Expr, want: &Ty) {
        let got = self.expr(expr, Some(want));
        self.demand(&got, want, result_span(expr));
    }

    /// Demands that `got` is `want`.
    fn demand(&mut self, got: &Ty, want: &Ty, span: Span) -> bool {
        let mut got = self.solution.head(got);
        // A function may always be taken for one that does more.
        if let TyKind::Fn {
            params, ret, row, ..
        } = &*got
        {
            let row = self.solution.row(row);
            if row.tail.is_none() {
                let row = self.solution.open(row);
                got = types::function(params.clone(), ret.clone(), row);
            }
        }
        let Err(clash) = self.solution.unify(&got, want) else {
            return true;
        };
        let (shown_got, shown_want) = (self.solution.show(&got), self.solution.show(want));
        let draft = match clash {
            Clash::Complex => {
                self.too_complex(span);
                return false;
            }
            Clash::Infinite => Draft::new(
                "V3010",
                span,
                format!("this type would hold itself: `{shown_want}` in `{shown_got}`"),
            ),
            Clash::Rows(a, b) => {
                let message = format!(
                    "expected a function that may do {}, found one that may do {}",
                    show_row(&b.labels),
                    show_row(&a.labels)
                );
                Draft::new("V4005", span, message)
            }
            Clash::Differ => self.mismatch(&got, want, span, &shown_got, &shown_want),
        };
        self.say(draft);
        false
    }

    fn mismatch(
        &self,
        got: &Ty,
        want: &Ty,
        span: Span,
        shown_got: &str,
        shown_want: &str,
    ) -> Draft {
        let core = &self.env.core;
        let want = self.solution.head(want);
        let mut draft = Draft::new(
            "V3001",
            span,
            format!("expected `{shown_want}`, found `{shown_got}`"),
        );
        let text = self.slice(span);
        if *got == core.int && want == core.float {
            let whole = text
                .bytes()
                .all(|b| b.is_ascii_digit() || b == b'_' || b == b'-');
            let new = if whole {
                format!("{text}.0")
            } else {
                format!("Int.to_float({text})")
            };
            draft = draft.fix(Fix::replace("make it a Float", span, new));
        } else if want == core.string
            && (*got == core.int || *got == core.float || *got == core.bool)
        {
            if !text.contains(['"', '\n']) {
                draft = draft.fix(Fix::replace(
                    "make it a String",
                    span,
                    format!("\"{{{text}}}\""),
                ));
            }
        } else if con_of(&want).is_some_and(|(name, args)| {
            *name == core.option && args.first().is_some_and(|a| self.solution.head(a) == *got)
        }) {
            draft = draft.fix(Fix::replace(
                "wrap it in `Some`",
                span,
                format!("Some({text})"),
            ));
        }
        draft
    }

    fn expr(&mut self, expr: &'a Expr, want: Option<&Ty>) -> Ty {
        let core = &self.env.core;
        match &expr.kind {
            ExprKind::Int(_) => core.int.clone(),
            ExprKind::Float(_) => core.float.clone(),
            ExprKind::Bool(_) => core.bool.clone(),
            ExprKind::Unit => core.unit.clone(),
            ExprKind::Error => types::error(),
            ExprKind::Str(parts) => {
                self.parts(parts);
                core.string.clone()
            }
            ExprKind::Tagged(tag, parts) => {
                self.parts(parts);
                if &*tag.text == "url" {
                    return core.url.clone();
                }
                let near = nearest(&tag.text, ["url"].into_iter());
                self.say(
                    Draft::new(
                        "V3013",
                        tag.span,
                        format!("no literal is tagged `{}`; there is `url\"…\"`", tag.text),
                    )
                    .suggest(&tag.text, tag.span, near),
                );
                types::error()
            }
            ExprKind::Name(name) => self.name(name),
            ExprKind::Ctor(name) => self.constructor(name),
            ExprKind::Call(callee, args) => self.call(expr, callee, args, want),
            ExprKind::Field(base, field) => self.field(base, field),
            ExprKind::Record {
                name,
                spread,
                fields,
            } => self.record(expr, name, spread.as_deref(), fields, want),
            ExprKind::List(items) => {
                let list = core.list.clone();
                let element = self.solution.fresh();
                let ty = types::con(&list, vec![element.clone()]);
                if let Some(want) = want {
                    // A hint only: a clash is told where the list is used.
                    let hint = self.solution.head(want);
                    if con_of(&hint).is_some_and(|(name, _)| *name == list) {
                        let _ = self.solution.unify(&ty, want);
                    }
                }
                items.iter().for_each(|item| self.check(item, &element));
                types::con(&list, vec![element])
            }
            ExprKind::Not(inner) => {
                let bool = core.bool.clone();
                self.check(inner, &bool);
                bool
            }
            ExprKind::Neg(inner) => {
                let ty = self.expr(inner, want);
                self.classes
                    .push((Class::Number, ty.clone(), inner.span, "`-`"));
                ty
            }
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right),
            ExprKind::If(condition, then, otherwise) => {
                let bool = core.bool.clone();
                self.check(condition, &bool);
                match otherwise {
                    None => {
                        let unit = core.unit.clone();
                        self.check(then, &unit);
                        unit
                    }
                    Some(otherwise) => {
                        let ty = want.cloned().unwrap_or_else(|| self.solution.fresh());
                        self.check(then, &ty);
                        self.check(otherwise, &ty);
                        ty
                    }
                }
            }
            ExprKind::Match(head, arms) => self.match_expr(expr, head, arms, want),
            ExprKind::Block(stmts) => self.block(stmts, want),
            ExprKind::Lambda(params, body) => self.lambda(params, body, want),
            ExprKind::Fail(name, fields) => self.fail(expr, name, fields),
            ExprKind::Recover(body, arms) => self.recover(body, arms, want),
            ExprKind::Assert(inner) => {
                let bool = core.bool.clone();
                self.check(inner, &bool);
                core.unit.clone()
            }
            ExprKind::Hole(name) => {
                let ty = want.cloned().unwrap_or_else(|| self.solution.fresh());
                let mut seen = BTreeSet::new();
                let visible = self
                    .locals
                    .iter()
                    .rev()
                    .filter(|l| seen.insert(l.name.clone()));
                let bindings: Vec<_> = visible.map(|l| (l.name.clone(), l.ty.clone())).collect();
                self.holes.push((
                    name.clone(),
                    ty.clone(),
                    bindings.into_iter().rev().collect(),
                ));
                ty
            }
        }
    }

    fn parts(&mut self, parts: &'a [Part]) {
        for part in parts {
            if let Part::Expr(expr) = part {
                let ty = self.expr(expr, None);
                self.classes
                    .push((Class::Shown, ty, expr.span, "a string's `{…}`"));
            }
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|l| &*l.name == name)
    }

    fn name(&mut self, name: &Name) -> Ty {
        if let Some(local) = self.local(&name.text) {
            return local.ty.clone();
        }
        self.uses_name(&name.text);
        let Some(sym) = self.scope.function(&name.text) else {
            return self.unknown(name);
        };
        let Some(signature) = self.env.signature(&sym) else {
            return types::error();
        };
        let instance = signature.instance(&mut self.solution);
        instance.apply(&signature.ty())
    }

    fn unknown(&mut self, name: &Name) -> Ty {
        if name.text.is_empty() {
            return types::error();
        }
        let locals = self.locals.iter().map(|l| &*l.name);
        let near = nearest(&name.text, locals.chain(self.scope.names(|s| &s.functions)));
        let mut draft = Draft::new(
            "V2001",
            name.span,
            format!("nothing is called `{}` here", name.text),
        );
        let lookup = |m: &&Arc<Module>| {
            m.functions.contains_key(&name.text) && m.name != self.scope.module && &*m.name != CORE
        };
        match self
            .env
            .modules
            .by_name
            .values()
            .filter(|m| m.name.starts_with("std/"))
            .find(lookup)
        {
            Some(module) => {
                let group = name.text.split('.').next().unwrap_or(&name.text);
                let line = format!("import {}.{{{group}}}\n\n", module.name);
                draft
                    .message
                    .push_str(&format!("; `{}` has it", module.name));
                draft = draft.fix(Fix::replace("import it", Span::new(0, 0), line));
            }
            None => draft = draft.suggest(&name.text, name.span, near),
        }
        self.say(draft);
        types::error()
    }

    /// A constructor's payload and type, or a word about why there is none.
    fn variant(&mut self, name: &Name) -> Option<(Vec<Ty>, Ty, Sym, usize)> {
        self.uses_name(&name.text);
        let Some((sym, number)) = self.scope.constructor(&name.text) else {
            if name.text.is_empty() {
                return None;
            }
            let near = nearest(
                &name.text,
                self.scope.names(|s| &s.constructors).into_iter(),
            );
            let draft = if self.scope.ty(&name.text).is_some() {
                let message = format!(
                    "`{0}` is a type; a record is made like `{0} {{ field: … }}`",
                    name.text
                );
                Draft::new("V2006", name.span, message)
            } else if self.scope.error(&name.text).is_some() {
                let message = format!(
                    "`{0}` is an error; `fail {0}` raises it, `recover` takes it",
                    name.text
                );
                Draft::new("V2006", name.span, message)
            } else {
                Draft::new(
                    "V2006",
                    name.span,
                    format!("no constructor is called `{}`", name.text),
                )
                .suggest(&name.text, name.span, near)
            };
            self.say(draft);
            return None;
        };
        let info = self.env.info(&sym)?;
        // The union counts as used when one of its constructors is.
        self.uses_name(&Arc::from(short(&sym)));
        let Shape::Union(variants) = &info.shape else {
            return None;
        };
        let (_, payload) = variants.get(number)?;
        let args: Vec<Ty> = info
            .generics
            .iter()
            .map(|_| self.solution.fresh())
            .collect();
        let types = info
            .generics
            .iter()
            .cloned()
            .zip(args.iter().cloned())
            .collect();
        let instance = Instance {
            types,
            rows: BTreeMap::new(),
        };
        let payload = payload.iter().map(|ty| instance.apply(ty)).collect();
        Some((payload, types::con(&sym, args), sym, number))
    }

    fn constructor(&mut self, name: &Name) -> Ty {
        let Some((payload, ty, ..)) = self.variant(name) else {
            return types::error();
        };
        if payload.is_empty() {
            ty
        } else {
            types::function(payload, ty, Row::default())
        }
    }

    fn call(
        &mut self,
        expr: &'a Expr,
        callee: &'a Expr,
        args: &'a [Expr],
        want: Option<&Ty>,
    ) -> Ty {
        match &callee.kind {
            ExprKind::Name(name) if self.local(&name.text).is_none() => {
                self.uses_name(&name.text);
                let Some(sym) = self.scope.function(&name.text) else {
                    args.iter().for_each(|arg| drop(self.expr(arg, None)));
                    return self.unknown(name);
                };
                let Some(signature) = self.env.signature(&sym) else {
                    return types::error();
                };
                let instance = signature.instance(&mut self.solution);
                let params: Vec<Ty> = signature
                    .params
                    .iter()
                    .map(|(_, ty)| instance.apply(ty))
                    .collect();
                let ret = instance.apply(&signature.ret);
                self.hint(&ret, want);
                self.args(expr, callee, args, &params, Some(&sym));
                self.notes(instance.apply_row(&signature.row), callee.span, &name.text);
                self.obligations(&sym, args, expr.span);
                ret
            }
            ExprKind::Ctor(name) => {
                let Some((payload, ty, sym, number)) = self.variant(name) else {
                    args.iter().for_each(|arg| drop(self.expr(arg, None)));
                    return types::error();
                };
                self.hint(&ty, want);
                self.args(expr, callee, args, &payload, Some(&sym));
                if let Some((
                    module,
                    TypeDecl {
                        body: TypeBody::Union(variants),
                        ..
                    },
                )) = self.env.modules.type_decl(&sym)
                    && let Some(variant) = variants.get(number)
                {
                    let scope = self.env.scope(&module.name);
                    for (arg, ty) in args.iter().zip(&variant.payload) {
                        self.refinement_of(arg, ty, module, &scope, &sym);
                    }
                }
                ty
            }
            _ => {
                let ty = self.expr(callee, None);
                self.call_value(expr, callee, args, &ty)
            }
        }
    }

    /// Lets what is wanted of a call tell its arguments' types. Says nothing: a clash is told later.
    fn hint(&mut self, ret: &Ty, want: Option<&Ty>) {
        let Some(want) = want else { return };
        let (ret, want) = (self.solution.head(ret), self.solution.head(want));
        if let (Some((a, _)), Some((b, _))) = (con_of(&ret), con_of(&want))
            && a == b
        {
            let _ = self.solution.unify(&ret, &want);
        }
    }

    fn args(
        &mut self,
        expr: &'a Expr,
        callee: &'a Expr,
        args: &'a [Expr],
        params: &[Ty],
        sym: Option<&Sym>,
    ) {
        if args.len() != params.len() {
            let message = format!(
                "`{}` takes {}, found {}",
                self.slice(callee.span),
                count(params.len(), "argument"),
                args.len()
            );
            let mut draft = Draft::new("V3002", expr.span, message);
            if let Some(sym) = sym {
                draft = draft.declared(sym, "declared here");
            }
            self.say(draft);
        }
        // Lambdas last: the other arguments tell their parameters' types.
        for lambdas in [false, true] {
            for (index, arg) in args.iter().enumerate() {
                if matches!(arg.kind, ExprKind::Lambda(..)) != lambdas {
                    continue;
                }
                match params.get(index) {
                    Some(param) => self.check(arg, param),
                    None => drop(self.expr(arg, None)),
                }
            }
        }
    }

    fn call_value(&mut self, expr: &'a Expr, callee: &'a Expr, args: &'a [Expr], ty: &Ty) -> Ty {
        let what: Arc<str> = Arc::from(self.slice(callee.span));
        let head = self.solution.head(ty);
        match &*head {
            TyKind::Fn {
                params, ret, row, ..
            } => {
                self.args(expr, callee, args, params, None);
                self.notes(row.clone(), callee.span, &what);
                ret.clone()
            }
            TyKind::Var(_) => {
                let params: Vec<Ty> = args.iter().map(|arg| self.expr(arg, None)).collect();
                let ret = self.solution.fresh();
                let row = self.solution.open(Row::default());
                let made = types::function(params, ret.clone(), row.clone());
                self.demand(&made, ty, callee.span);
                self.notes(row, callee.span, &what);
                ret
            }
            TyKind::Error => {
                args.iter().for_each(|arg| drop(self.expr(arg, None)));
                types::error()
            }
            _ => {
                args.iter().for_each(|arg| drop(self.expr(arg, None)));
                let message = format!("this is no function but `{}`", self.solution.show(&head));
                self.say(Draft::new("V3003", callee.span, message));
                types::error()
            }
        }
    }

    /// What a call owes to the callee's refinements and `requires`.
    fn obligations(&mut self, sym: &Sym, args: &'a [Expr], span: Span) {
        let env = self.env;
        let Some((module, at, decl)) = env.modules.function(sym) else {
            return;
        };
        if decl.params.len() != args.len() {
            return;
        }
        let scope = env.scope(&module.name);
        for (arg, param) in args.iter().zip(&decl.params) {
            self.refinement_of(arg, &param.ty, module, &scope, sym);
        }
        if decl.requires.is_empty() {
            return;
        }
        let known: Vec<(&str, Const)> = args
            .iter()
            .zip(&decl.params)
            .filter_map(|(arg, param)| {
                Some((&*param.name.text, constant::value(arg, &[], self.scope)?))
            })
            .collect();
        let text = &module.chunks[at.chunk].text;
        for clause in &decl.requires {
            let words = text
                .get(clause.span.start as usize..clause.span.end as usize)
                .unwrap_or("");
            match constant::value(clause, &known, &scope) {
                Some(Const::Bool(true)) => {}
                Some(Const::Bool(false)) => {
                    let message = format!(
                        "`{}` requires `{words}`, which does not hold here",
                        decl.name.text
                    );
                    self.say(Draft::new("V6002", span, message).declared(sym, "required by"));
                }
                _ => self.oblige("requires", span, words, sym),
            }
        }
    }

    /// What `value` owes to the refinements of `ty`, a type written in `module`.
    fn refinement_of(
        &mut self,
        value: &Expr,
        ty: &TypeExpr,
        module: &Module,
        scope: &Scope,
        sym: &Sym,
    ) {
        if !self.env.has_refinement(ty, scope, &mut BTreeSet::new()) {
            return;
        }
        let mut conditions = Vec::new();
        let settled = collect_conditions(self.env, ty, module, scope, &mut conditions, 0);
        let known = constant::value(value, &[], self.scope);
        if let ExprKind::Name(name) = &value.kind
            && let Some(Local {
                refined: Some(key), ..
            }) = self.local(&name.text)
            && conditions_key(ty, scope, self.scope).is_some_and(|k| k == **key)
        {
            return;
        }
        let mut open = !settled;
        let mut words = String::new();
        for (condition, text, home) in conditions {
            words = text.to_string();
            let verdict = known
                .clone()
                .and_then(|v| constant::value(&condition, &[("value", v)], &home));
            match verdict {
                Some(Const::Bool(true)) => {}
                Some(Const::Bool(false)) => {
                    let message = format!("`{}` is not `{text}`", self.slice(value.span));
                    self.say(
                        Draft::new("V6001", value.span, message).declared(sym, "asked for here"),
                    );
                    return;
                }
                _ => {
                    open = true;
                    break;
                }
            }
        }
        if open {
            self.oblige("refinement", value.span, &words, sym);
        }
    }

    fn field(&mut self, base: &'a Expr, field: &Name) -> Ty {
        let ty = self.expr(base, None);
        if field.text.is_empty() {
            return types::error();
        }
        let head = self.solution.head(&ty);
        match &*head {
            TyKind::Error => types::error(),
            TyKind::Con { name, args, .. } => {
                let Some(info) = self.env.info(name) else {
                    return types::error();
                };
                let Shape::Record(fields) = &info.shape else {
                    let message = format!(
                        "`{}` is no record, so it has no field `{}`",
                        self.solution.show(&head),
                        field.text
                    );
                    self.say(Draft::new("V2009", field.span, message));
                    return types::error();
                };
                let Some((_, ty)) = fields.iter().find(|(n, _)| *n == field.text) else {
                    let near = nearest(&field.text, fields.iter().map(|(n, _)| &**n));
                    let message = format!(
                        "`{}` has no field `{}`",
                        self.solution.show(&head),
                        field.text
                    );
                    self.say(
                        Draft::new("V2009", field.span, message)
                            .declared(name, "declared here")
                            .suggest(&field.text, field.span, near),
                    );
                    return types::error();
                };
                let types = info
                    .generics
                    .iter()
                    .cloned()
                    .zip(args.iter().cloned())
                    .collect();
                Instance {
                    types,
                    rows: BTreeMap::new(),
                }
                .apply(ty)
            }
            TyKind::Var(_) => self.guess_record(base, field, &ty),
            _ => {
                let message = format!(
                    "`{}` is no record, so it has no field `{}`",
                    self.solution.show(&head),
                    field.text
                );
                self.say(Draft::new("V2009", field.span, message));
                types::error()
            }
        }
    }

    /// Nothing tells the record's type yet: take the only visible record with such a field.
    fn guess_record(&mut self, base: &'a Expr, field: &Name, ty: &Ty) -> Ty {
        let mut found = Vec::new();
        for sym in self.scope.types.values() {
            let Some(info) = self.env.info(sym) else {
                continue;
            };
            if let Shape::Record(fields) = &info.shape
                && let Some((_, field)) = fields.iter().find(|(n, _)| *n == field.text)
            {
                found.push((info.clone(), field.clone()));
            }
        }
        let [(info, field_ty)] = found.as_slice() else {
            let message = format!(
                "the type of `{}` is not known here; write it down where it is bound",
                self.slice(base.span)
            );
            self.say(Draft::new("V3007", base.span, message));
            return types::error();
        };
        let args: Vec<Ty> = info
            .generics
            .iter()
            .map(|_| self.solution.fresh())
            .collect();
        let record = types::con(&info.sym, args.clone());
        self.demand(&record, ty, base.span);
        let types = info.generics.iter().cloned().zip(args).collect();
        Instance {
            types,
            rows: BTreeMap::new(),
        }
        .apply(field_ty)
    }

    fn record(
        &mut self,
        expr: &'a Expr,
        name: &'a Name,
        spread: Option<&'a Expr>,
        fields: &'a [FieldInit],
        want: Option<&Ty>,
    ) -> Ty {
        self.uses_name(&name.text);
        let info = self
            .scope
            .ty(&name.text)
            .and_then(|sym| self.env.info(&sym));
        let declared = match info.as_ref().map(|i| (&i.shape, i)) {
            Some((Shape::Record(declared), info)) => Some((declared, info)),
            _ => None,
        };
        let Some((declared, info)) = declared else {
            let draft = match &info {
                Some(_) => Draft::new("V2006", name.span, format!("`{}` is no record", name.text)),
                None => {
                    let near = nearest(&name.text, self.scope.names(|s| &s.types).into_iter());
                    Draft::new(
                        "V2002",
                        name.span,
                        format!("no record is called `{}`", name.text),
                    )
                    .suggest(&name.text, name.span, near)
                }
            };
            self.say(draft);
            spread
                .into_iter()
                .chain(fields.iter().map(|f| &f.value))
                .for_each(|e| drop(self.expr(e, None)));
            return types::error();
        };
        let args: Vec<Ty> = info
            .generics
            .iter()
            .map(|_| self.solution.fresh())
            .collect();
        let ty = types::con(&info.sym, args.clone());
        self.hint(&ty, want);
        if let Some(spread) = spread {
            self.check(spread, &ty);
        }
        let types = info.generics.iter().cloned().zip(args).collect();
        let instance = Instance {
            types,
            rows: BTreeMap::new(),
        };
        self.field_inits(
            expr,
            &info.sym,
            declared,
            &instance,
            fields,
            spread.is_some(),
        );
        if let Some((
            module,
            TypeDecl {
                body: TypeBody::Record(decls),
                ..
            },
        )) = self.env.modules.type_decl(&info.sym)
        {
            self.field_refinements(fields, decls, module, &info.sym);
        }
        ty
    }

    fn field_refinements(
        &mut self,
        fields: &'a [FieldInit],
        decls: &[Field],
        module: &Module,
        sym: &Sym,
    ) {
        let scope = self.env.scope(&module.name);
        for init in fields {
            if let Some(decl) = decls.iter().find(|d| d.name.text == init.name.text) {
                self.refinement_of(&init.value, &decl.ty, module, &scope, sym);
            }
        }
    }

    fn field_inits(
        &mut self,
        expr: &Expr,
        sym: &Sym,
        declared: &[(Arc<str>, Ty)],
        instance: &Instance,
        fields: &'a [FieldInit],
        partial: bool,
    ) {
        self.unique(fields.iter().map(|f| &f.name), "field");
        for init in fields {
            match declared.iter().find(|(n, _)| *n == init.name.text) {
                Some((_, ty)) => {
                    let ty = instance.apply(ty);
                    self.check(&init.value, &ty);
                }
                None => {
                    let near = nearest(&init.name.text, declared.iter().map(|(n, _)| &**n));
                    let message = format!("`{}` has no field `{}`", short(sym), init.name.text);
                    self.say(
                        Draft::new("V2009", init.name.span, message)
                            .declared(sym, "declared here")
                            .suggest(&init.name.text, init.name.span, near),
                    );
                    self.expr(&init.value, None);
                }
            }
        }
        let missing: Vec<&str> = declared
            .iter()
            .map(|(n, _)| &**n)
            .filter(|n| !fields.iter().any(|f| &*f.name.text == *n))
            .collect();
        if !partial && !missing.is_empty() {
            let message = format!(
                "`{}` also needs {}",
                short(sym),
                missing
                    .iter()
                    .map(|n| format!("`{n}`"))
                    .collect::<Vec<_>>()
                    .join(", ")
            );
            self.say(Draft::new("V3006", expr.span, message).declared(sym, "declared here"));
        }
    }

    fn binary(&mut self, op: BinOp, left: &'a Expr, right: &'a Expr) -> Ty {
        let bool = self.env.core.bool.clone();
        let class = match op {
            BinOp::And | BinOp::Or => {
                self.check(left, &bool);
                self.check(right, &bool);
                return bool;
            }
            BinOp::Eq | BinOp::Ne => None,
            BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => Some(Class::Ordered),
            BinOp::Concat => Some(Class::Joined),
            _ => Some(Class::Number),
        };
        let ty = self.expr(left, None);
        self.check(right, &ty);
        if let Some(class) = class {
            let what = match op {
                BinOp::Concat => "`++`",
                BinOp::Add => "`+`",
                BinOp::Sub => "`-`",
                BinOp::Mul => "`*`",
                BinOp::Div => "`/`",
                BinOp::Rem => "`%`",
                _ => "a comparison",
            };
            self.classes
                .push((class, ty.clone(), left.span.to(right.span), what));
        }
        match class {
            None | Some(Class::Ordered) => bool,
            _ => ty,
        }
    }

    fn match_expr(
        &mut self,
        expr: &'a Expr,
        head: &'a Expr,
        arms: &'a [Arm],
        want: Option<&Ty>,
    ) -> Ty {
        let scrutinee = self.expr(head, None);
        let ty = want.cloned().unwrap_or_else(|| self.solution.fresh());
        for arm in arms {
            let mark = self.locals.len();
            self.pattern(&arm.pattern, &scrutinee);
            self.guard(arm);
            self.check(&arm.body, &ty);
            self.locals.truncate(mark);
        }
        self.matches.push(Exhaustive {
            ty: scrutinee,
            arms,
            span: expr.span,
        });
        ty
    }

    fn guard(&mut self, arm: &'a Arm) {
        if let Some(guard) = &arm.guard {
            let bool = self.env.core.bool.clone();
            self.check(guard, &bool);
        }
    }

    fn block(&mut self, stmts: &'a [Stmt], want: Option<&Ty>) -> Ty {
        let mark = self.locals.len();
        let mut ty = self.env.core.unit.clone();
        for (index, stmt) in stmts.iter().enumerate() {
            let last = index + 1 == stmts.len();
            ty = self.env.core.unit.clone();
            match stmt {
                Stmt::Expr(expr) if last => match want {
                    Some(want) => {
                        self.check(expr, want);
                        ty = want.clone();
                    }
                    None => ty = self.expr(expr, None),
                },
                Stmt::Expr(expr) => {
                    let found = self.expr(expr, None);
                    self.unused.push((found, expr.span));
                }
                Stmt::Let {
                    pattern, ty, value, ..
                } => self.let_stmt(pattern, ty.as_ref(), value),
            }
        }
        self.locals.truncate(mark);
        ty
    }

    fn let_stmt(
        &mut self,
        pattern: &'a Pattern,
        annotation: Option<&'a TypeExpr>,
        value: &'a Expr,
    ) {
        let ty = match annotation {
            Some(annotation) => {
                let ty = self.resolve(annotation, true);
                self.refinements(annotation);
                self.check(value, &ty);
                let owner = full(&self.scope.module, &self.owner);
                if let Some(module) = self.env.modules.by_name.get(&self.scope.module) {
                    let scope = self.scope;
                    self.refinement_of(value, annotation, &module.clone(), scope, &owner);
                }
                ty
            }
            None => self.expr(value, None),
        };
        self.pattern(pattern, &ty);
        if !patterns::irrefutable_head(pattern) {
            let arm = Arm {
                pattern: pattern.clone(),
                guard: None,
                body: value.clone(),
            };
            if let Some(ty) = self.solution.resolve(&ty)
                && let patterns::Verdict::Missing(missing) =
                    patterns::judge(self.env, self.scope, &ty, &[arm])
            {
                let list = missing
                    .iter()
                    .map(|m| format!("`{m}`"))
                    .collect::<Vec<_>>()
                    .join(", ");
                self.say(Draft::new(
                    "V3004",
                    pattern.span,
                    format!("this pattern does not take {list}; use `match`"),
                ));
            }
        }
    }

    fn lambda(&mut self, params: &'a [LambdaParam], body: &'a Expr, want: Option<&Ty>) -> Ty {
        let hint = want.map(|w| self.solution.head(w));
        let (hint_params, hint_ret) = match hint.as_deref() {
            Some(TyKind::Fn { params, ret, .. }) => (params.clone(), Some(ret.clone())),
            _ => (Vec::new(), None),
        };
        self.unique(params.iter().map(|p| &p.name), "parameter");
        let mark = self.locals.len();
        let mut types_of = Vec::new();
        for (index, param) in params.iter().enumerate() {
            let ty = match (&param.ty, hint_params.get(index)) {
                (Some(annotation), _) => self.resolve(annotation, false),
                (None, Some(hint)) => hint.clone(),
                (None, None) => self.solution.fresh(),
            };
            self.bind(&param.name.text, ty.clone());
            types_of.push(ty);
        }
        let row = self.solution.fresh_row();
        let before = self.region;
        self.regions.push(Region::Lambda(row));
        self.region = self.regions.len() - 1;
        let ret = hint_ret.unwrap_or_else(|| self.solution.fresh());
        self.check(body, &ret);
        self.region = before;
        self.locals.truncate(mark);
        types::function(
            types_of,
            ret,
            Row {
                labels: BTreeSet::new(),
                tail: Some(row),
            },
        )
    }

    fn find_error(&mut self, name: &Name) -> Option<Sym> {
        self.uses_name(&name.text);
        let found = self.scope.error(&name.text);
        if found.is_none() && !name.text.is_empty() {
            let near = nearest(&name.text, self.scope.names(|s| &s.errors).into_iter());
            self.say(
                Draft::new(
                    "V2006",
                    name.span,
                    format!("no error is called `{}`", name.text),
                )
                .suggest(&name.text, name.span, near),
            );
        }
        found
    }

    fn fail(&mut self, expr: &'a Expr, name: &'a Name, fields: &'a [FieldInit]) -> Ty {
        let Some(sym) = self.find_error(name) else {
            fields.iter().for_each(|f| drop(self.expr(&f.value, None)));
            return self.solution.fresh();
        };
        if let Some(declared) = self.env.error_fields(&sym) {
            let instance = Instance {
                types: BTreeMap::new(),
                rows: BTreeMap::new(),
            };
            self.field_inits(expr, &sym, &declared, &instance, fields, false);
        }
        if let Some((module, decl)) = self.env.modules.error_decl(&sym) {
            self.field_refinements(fields, &decl.fields, module, &sym);
        }
        let row = Row {
            labels: BTreeSet::from([Label::Fail(sym)]),
            tail: None,
        };
        let what: Arc<str> = Arc::from(format!("fail {}", name.text));
        self.notes(row, expr.span, &what);
        self.solution.fresh()
    }

    fn recover(&mut self, body: &'a Expr, arms: &'a [Arm], want: Option<&Ty>) -> Ty {
        let ty = want.cloned().unwrap_or_else(|| self.solution.fresh());
        let parent = self.region;
        self.regions.push(Region::Recover {
            parent,
            handled: BTreeSet::new(),
            all: false,
        });
        let region = self.regions.len() - 1;
        self.region = region;
        self.check(body, &ty);
        self.region = parent;
        let mut caught = BTreeSet::new();
        let mut everything = false;
        for arm in arms {
            let mark = self.locals.len();
            let sure = arm.guard.is_none();
            if everything {
                let message = "no failure comes here; the arms above take them all".to_owned();
                self.say(Draft::new("V3005", arm.pattern.span, message));
            }
            let (name, fields): (&'a Name, &'a [(Name, Option<Pattern>)]) = match &arm.pattern.kind
            {
                PatternKind::Wild => {
                    everything |= sure;
                    self.guard(arm);
                    self.check(&arm.body, &ty);
                    continue;
                }
                PatternKind::Record(name, fields) => (name, fields),
                PatternKind::Ctor(name, payload) if payload.is_empty() => (name, &[]),
                _ => {
                    if !matches!(arm.pattern.kind, PatternKind::Error) {
                        let message =
                            "an arm of `recover` takes an error, `TooMany { limit }`, or `_`"
                                .to_owned();
                        self.say(Draft::new("V5004", arm.pattern.span, message));
                    }
                    continue;
                }
            };
            if let Some(sym) = self.find_error(name) {
                let refutable = self.error_pattern(&sym, fields);
                self.recovers.push((region, sym.clone(), arm.pattern.span));
                if caught.contains(&sym) {
                    self.say(Draft::new(
                        "V3005",
                        arm.pattern.span,
                        "an arm above takes this failure already".to_owned(),
                    ));
                }
                if sure && !refutable {
                    caught.insert(sym);
                }
            }
            self.guard(arm);
            self.check(&arm.body, &ty);
            self.locals.truncate(mark);
        }
        if let Region::Recover { handled, all, .. } = &mut self.regions[region] {
            *handled = caught;
            *all = everything;
        }
        ty
    }

    /// Binds the fields of a failure; true when not every such failure matches.
    fn error_pattern(&mut self, sym: &Sym, fields: &'a [(Name, Option<Pattern>)]) -> bool {
        let declared = self.env.error_fields(sym).unwrap_or_default();
        self.unique(fields.iter().map(|(n, _)| n), "field");
        self.pattern_fields(
            sym,
            &declared,
            &Instance {
                types: BTreeMap::new(),
                rows: BTreeMap::new(),
            },
            fields,
        );
        fields.iter().any(|(_, p)| {
            p.as_ref()
                .is_some_and(|p| !matches!(p.kind, PatternKind::Wild | PatternKind::Bind(_)))
        })
    }

    // ---- patterns ----

    fn pattern(&mut self, pattern: &'a Pattern, ty: &Ty) {
        let mark = self.locals.len();
        self.bind_pattern(pattern, ty);
        let mut seen = BTreeSet::new();
        let twice = self.locals[mark..]
            .iter()
            .find(|l| !seen.insert(l.name.clone()))
            .map(|l| l.name.clone());
        if let Some(name) = twice {
            self.say(Draft::new(
                "V2010",
                pattern.span,
                format!("the pattern binds `{name}` twice"),
            ));
        }
    }

    fn bind_pattern(&mut self, pattern: &'a Pattern, ty: &Ty) {
        let core = &self.env.core;
        match &pattern.kind {
            PatternKind::Wild | PatternKind::Error => {}
            PatternKind::Bind(name) => self.bind(&name.text, ty.clone()),
            PatternKind::Int(_) => drop(self.demand(&core.int.clone(), ty, pattern.span)),
            PatternKind::Float(_) => drop(self.demand(&core.float.clone(), ty, pattern.span)),
            PatternKind::Bool(_) => drop(self.demand(&core.bool.clone(), ty, pattern.span)),
            PatternKind::Unit => drop(self.demand(&core.unit.clone(), ty, pattern.span)),
            PatternKind::Str(_) => drop(self.demand(&core.string.clone(), ty, pattern.span)),
            PatternKind::Ctor(name, inner) => {
                let Some((payload, made, sym, _)) = self.variant(name) else {
                    inner
                        .iter()
                        .for_each(|p| self.bind_pattern(p, &types::error()));
                    return;
                };
                self.demand(&made, ty, pattern.span);
                if payload.len() != inner.len() {
                    let message = format!(
                        "`{}` holds {}, found {}",
                        name.text,
                        count(payload.len(), "value"),
                        inner.len()
                    );
                    self.say(
                        Draft::new("V3002", pattern.span, message).declared(&sym, "declared here"),
                    );
                }
                for (index, inner) in inner.iter().enumerate() {
                    let ty = payload.get(index).cloned().unwrap_or_else(types::error);
                    self.bind_pattern(inner, &ty);
                }
            }
            PatternKind::Record(name, fields) => self.record_pattern(pattern, name, fields, ty),
            PatternKind::List(inner, rest) => {
                let element = self.solution.fresh();
                let list = types::con(&core.list.clone(), vec![element.clone()]);
                self.demand(&list, ty, pattern.span);
                inner.iter().for_each(|p| self.bind_pattern(p, &element));
                if let Some(Some(rest)) = rest {
                    self.bind(&rest.text, list);
                }
            }
        }
    }

    fn record_pattern(
        &mut self,
        pattern: &'a Pattern,
        name: &'a Name,
        fields: &'a [(Name, Option<Pattern>)],
        ty: &Ty,
    ) {
        self.uses_name(&name.text);
        let info = self
            .scope
            .ty(&name.text)
            .and_then(|sym| self.env.info(&sym));
        let Some(info) = info else {
            let near = nearest(&name.text, self.scope.names(|s| &s.types).into_iter());
            self.say(
                Draft::new(
                    "V2002",
                    name.span,
                    format!("no record is called `{}`", name.text),
                )
                .suggest(&name.text, name.span, near),
            );
            fields.iter().for_each(|(n, p)| match p {
                Some(p) => self.bind_pattern(p, &types::error()),
                None => self.bind(&n.text, types::error()),
            });
            return;
        };
        let Shape::Record(declared) = &info.shape else {
            self.say(Draft::new(
                "V2006",
                name.span,
                format!("`{}` is no record", name.text),
            ));
            return;
        };
        let args: Vec<Ty> = info
            .generics
            .iter()
            .map(|_| self.solution.fresh())
            .collect();
        self.demand(&types::con(&info.sym, args.clone()), ty, pattern.span);
        let types = info.generics.iter().cloned().zip(args).collect();
        self.pattern_fields(
            &info.sym,
            declared,
            &Instance {
                types,
                rows: BTreeMap::new(),
            },
            fields,
        );
    }

    fn pattern_fields(
        &mut self,
        sym: &Sym,
        declared: &[(Arc<str>, Ty)],
        instance: &Instance,
        fields: &'a [(Name, Option<Pattern>)],
    ) {
        for (name, inner) in fields {
            let ty = match declared.iter().find(|(n, _)| *n == name.text) {
                Some((_, ty)) => instance.apply(ty),
                None => {
                    let near = nearest(&name.text, declared.iter().map(|(n, _)| &**n));
                    let message = format!("`{}` has no field `{}`", short(sym), name.text);
                    self.say(
                        Draft::new("V2009", name.span, message)
                            .declared(sym, "declared here")
                            .suggest(&name.text, name.span, near),
                    );
                    types::error()
                }
            };
            match inner {
                Some(inner) => self.bind_pattern(inner, &ty),
                None => self.bind(&name.text, ty),
            }
        }
    }
}

/// Where a block's value comes from: its last expression.
fn result_span(expr: &Expr) -> Span {
    match &expr.kind {
        ExprKind::Block(stmts) => match stmts.last() {
            Some(Stmt::Expr(last)) => result_span(last),
            _ => Span::new(expr.span.end.saturating_sub(1), expr.span.end),
        },
        _ => expr.span,
    }
}

/// The first word of a long expression: enough to point at.
fn head_of(span: Span) -> Span {
    Span::new(span.start, (span.start + 5).min(span.end))
}

/// The conditions on the value itself, aliases followed. False when some are deeper inside.
fn collect_conditions(
    env: &Env,
    ty: &TypeExpr,
    module: &Module,
    scope: &Scope,
    out: &mut Vec<(Expr, Arc<str>, Arc<Scope>)>,
    level: u32,
) -> bool {
    if level > 50 {
        return false;
    }
    match &ty.kind {
        TypeKind::Where(base, condition, text) => {
            let whole = collect_conditions(env, base, module, scope, out, level + 1);
            let home = env.scope(&module.name);
            out.push(((**condition).clone(), text.clone(), home));
            whole
        }
        TypeKind::Name(name, args) => {
            let inner = args
                .iter()
                .any(|a| env.has_refinement(a, scope, &mut BTreeSet::new()));
            match scope
                .ty(&name.text)
                .as_ref()
                .and_then(|sym| env.modules.type_decl(sym))
            {
                Some((
                    module,
                    TypeDecl {
                        body: TypeBody::Alias(ty),
                        ..
                    },
                )) => {
                    let scope = env.scope(&module.name);
                    collect_conditions(env, ty, module, &scope, out, level + 1) && !inner
                }
                _ => !inner,
            }
        }
        _ => true,
    }
}

/// The key under which a parameter of the same refined type is known, if the type is an alias
/// that means the same here and there.
fn conditions_key(ty: &TypeExpr, theirs: &Scope, ours: &Scope) -> Option<String> {
    let TypeKind::Name(name, args) = &ty.kind else {
        return None;
    };
    if !args.is_empty() || theirs.ty(&name.text) != ours.ty(&name.text) {
        return None;
    }
    Some(format!("{}:{}", ours.module, name.text))
}

/// The type parameters of a declaration that is generic in types.
pub fn generic_types(decl: &FnDecl) -> Vec<Arc<str>> {
    type_params(&decl.generics)
}
