//! From the checked program to the machine's code.
//!
//! Code is a list of small operations on a stack; a function's locals are slots at the foot of
//! its frame. Only what an entry reaches is compiled.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::ast::*;
use crate::env::{Env, Shape};
use crate::names::{CORE, DeclRef, Module, Scope, full};
use crate::natives::{self, Native};
use crate::types::{Sym, short};
use crate::value::{Layout, Value};

/// One operation. Slots count from the frame's foot; jumps go forward only.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub enum Op {
    Const(u32),
    Int(i64),
    Load(u32),
    /// Load that empties the slot: nobody reads it afterwards.
    Take(u32),
    Store(u32),
    Pop,
    List(u32),
    Make {
        layout: u32,
        size: u32,
    },
    Field(u32),
    /// A copy of a record (below) with some fields (above, named by a constant list) replaced.
    With {
        names: u32,
        size: u32,
    },
    TestVariant {
        slot: u32,
        number: u32,
        otherwise: u32,
    },
    TestError {
        slot: u32,
        layout: u32,
        otherwise: u32,
    },
    TestConst {
        slot: u32,
        value: u32,
        otherwise: u32,
    },
    TestLength {
        slot: u32,
        length: u32,
        exact: bool,
        otherwise: u32,
    },
    Part {
        slot: u32,
        index: u32,
    },
    PartNamed {
        slot: u32,
        name: u32,
    },
    Element {
        slot: u32,
        index: u32,
    },
    Rest {
        slot: u32,
        from: u32,
    },
    Jump(u32),
    JumpUnless(u32),
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Concat,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Not,
    Neg,
    /// Joins the shown forms of values.
    Text(u32),
    Call {
        code: u32,
        size: u32,
    },
    TailCall {
        code: u32,
        size: u32,
    },
    CallValue(u32),
    TailCallValue(u32),
    Native {
        native: u32,
        size: u32,
    },
    Closure {
        code: u32,
        captured: u32,
    },
    Fail,
    PushHandler(u32),
    PopHandler(u32),
    /// Raises the failure in the slot again.
    Reraise(u32),
    /// Pops a Bool; false is a failed condition. `slot` holds the value it is about, if any.
    Check {
        kind: CheckKind,
        text: u32,
        slot: u32,
    },
    /// Two operands above: the failed assertion shows both.
    AssertOp {
        op: BinOp,
        text: u32,
    },
    Hole(u32),
    Return,
    /// A match without an arm for the value; checking rules it out.
    NoArm,
}

/// What kind of condition failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CheckKind {
    Refinement,
    Requires,
    Ensures,
    Assert,
}

/// No slot.
pub const NONE: u32 = u32::MAX;

/// A compiled function.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Code {
    pub name: Arc<str>,
    pub path: Arc<str>,
    /// Where the chunk begins in the file, in bytes.
    pub offset: u32,
    pub arity: u32,
    pub slots: u32,
    pub ops: Vec<Op>,
    pub spans: Vec<Span>,
}

/// A program, ready to run.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Program {
    pub codes: Vec<Code>,
    pub constants: Vec<Value>,
    pub layouts: Vec<Arc<Layout>>,
    /// The number of the code of each entry asked for.
    pub entries: Vec<u32>,
    /// Layouts that the machine itself makes values of.
    pub known: natives::Layouts,
}

/// What to start from.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum Entry {
    Function(Sym),
    Test {
        module: Arc<str>,
        at: DeclRef,
    },
    /// A function of one value that checks it against the refinements of a type written in
    /// `module`; it stops like a call with such a value would.
    Condition {
        module: Arc<str>,
        ty: TypeExpr,
        what: String,
    },
}

/// Compiles what the entries reach. Errors: an entry that does not exist, or a function too
/// large for the machine.
pub fn compile(env: &Env, entries: &[Entry]) -> Result<Program, String> {
    let mut linker = Linker {
        env,
        codes: Vec::new(),
        constants: Vec::new(),
        texts: HashMap::new(),
        layouts: Vec::new(),
        layout_of: HashMap::new(),
        by_sym: HashMap::new(),
        todo: Vec::new(),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        numbers.push(linker.entry(entry)?);
    }
    while let Some((number, sym)) = linker.todo.pop() {
        linker.function(number, &sym)?;
    }
    let known = natives::Layouts::new(env);
    let codes = linker
        .codes
        .into_iter()
        .map(|code| code.unwrap_or_else(empty))
        .collect();
    Ok(Program {
        codes,
        constants: linker.constants,
        layouts: linker.layouts,
        entries: numbers,
        known,
    })
}

fn empty() -> Code {
    let none: Arc<str> = Arc::from("");
    Code {
        name: none.clone(),
        path: none,
        offset: 0,
        arity: 0,
        slots: 0,
        ops: vec![Op::NoArm],
        spans: vec![Span::default()],
    }
}

struct Linker<'e> {
    env: &'e Env,
    codes: Vec<Option<Code>>,
    constants: Vec<Value>,
    texts: HashMap<Arc<str>, u32>,
    layouts: Vec<Arc<Layout>>,
    layout_of: HashMap<(Sym, usize), u32>,
    by_sym: HashMap<Sym, u32>,
    todo: Vec<(u32, Sym)>,
}

impl<'e> Linker<'e> {
    fn reserve(&mut self) -> u32 {
        self.codes.push(None);
        self.codes.len() as u32 - 1
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(found) = self.texts.get(text) {
            return *found;
        }
        let text: Arc<str> = Arc::from(text);
        let number = self.constant(Value::Str(text.clone()));
        self.texts.insert(text, number);
        number
    }

    fn constant(&mut self, value: Value) -> u32 {
        self.constants.push(value);
        self.constants.len() as u32 - 1
    }

    fn layout(&mut self, layout: Layout) -> u32 {
        let key = (layout.sym.clone(), layout.number);
        if let Some(found) = self.layout_of.get(&key) {
            return *found;
        }
        self.layouts.push(Arc::new(layout));
        let number = self.layouts.len() as u32 - 1;
        self.layout_of.insert(key, number);
        number
    }

    fn error_layout(&mut self, sym: &Sym) -> u32 {
        let fields = self.env.error_fields(sym).unwrap_or_default();
        let fields = fields.iter().map(|(n, _)| n.clone()).collect();
        // Errors and types have names of their own, so the number keeps them apart.
        self.layout(Layout {
            sym: sym.clone(),
            name: Arc::from(short(sym)),
            number: usize::MAX,
            fields,
        })
    }

    /// The number of a function's code; it is compiled later.
    fn number(&mut self, sym: &Sym) -> u32 {
        if let Some(found) = self.by_sym.get(sym) {
            return *found;
        }
        let number = self.reserve();
        self.by_sym.insert(sym.clone(), number);
        self.todo.push((number, sym.clone()));
        number
    }

    fn entry(&mut self, entry: &Entry) -> Result<u32, String> {
        match entry {
            Entry::Function(sym) => {
                if self.env.modules.function(sym).is_none() {
                    return Err(format!(
                        "there is no function `{}` in module `{}`",
                        short(sym),
                        crate::types::split(sym).0
                    ));
                }
                Ok(self.number(sym))
            }
            Entry::Test { module, at } => {
                let env = self.env;
                let Some(found) = env.modules.by_name.get(module) else {
                    return Err(format!("there is no module `{module}`"));
                };
                let Item::Test(decl) = found.item(*at) else {
                    return Err("no test stands there".to_owned());
                };
                let number = self.reserve();
                let mut builder = Builder::new(self, found, at.chunk, &decl.name.text);
                for param in &decl.params {
                    builder.declare(&param.name.text);
                }
                let arity = decl.params.len() as u32;
                builder.param_checks(&decl.params);
                builder.expr(&decl.body, true);
                builder.op(Op::Return, decl.span);
                let code = builder.finish(arity)?;
                self.codes[number as usize] = Some(code);
                Ok(number)
            }
            Entry::Condition { module, ty, what } => {
                let env = self.env;
                let Some(found) = env.modules.by_name.get(module) else {
                    return Err(format!("there is no module `{module}`"));
                };
                let number = self.reserve();
                let mut builder = Builder::new(self, found, 0, &Arc::from(what.as_str()));
                let slot = builder.declare(&Arc::from("value"));
                let scope = builder.scope.clone();
                builder.refinement(ty, &scope, slot, what, ty.span, 0);
                builder.unit(ty.span);
                builder.op(Op::Return, ty.span);
                let code = builder.finish(1)?;
                self.codes[number as usize] = Some(code);
                Ok(number)
            }
        }
    }

    fn function(&mut self, number: u32, sym: &Sym) -> Result<(), String> {
        let env = self.env;
        let Some((module, at, decl)) = env.modules.function(sym) else {
            return Ok(());
        };
        let arity = decl.params.len() as u32;
        let mut builder = Builder::new(self, module, at.chunk, &decl.name.text);
        for param in &decl.params {
            builder.declare(&param.name.text);
        }
        match &decl.body {
            None => {
                for slot in 0..arity {
                    builder.op(Op::Load(slot), decl.span);
                }
                let native = natives::find(sym).ok_or_else(|| format!("`{sym}` has no body"))?;
                builder.op(
                    Op::Native {
                        native: native as u32,
                        size: arity,
                    },
                    decl.span,
                );
            }
            Some(body) => builder.body(decl, body),
        }
        builder.op(Op::Return, decl.span);
        let code = builder.finish(arity)?;
        self.codes[number as usize] = Some(code);
        Ok(())
    }
}

struct Builder<'l, 'e> {
    linker: &'l mut Linker<'e>,
    scope: Arc<Scope>,
    name: Arc<str>,
    path: Arc<str>,
    offset: u32,
    text: Arc<str>,
    locals: Vec<(Arc<str>, u32)>,
    slots: u32,
    ops: Vec<Op>,
    spans: Vec<Span>,
    /// Where code from elsewhere (a condition of another declaration) counts as standing.
    borrowed: Option<Span>,
    too_large: bool,
}

impl<'l, 'e> Builder<'l, 'e> {
    fn new(linker: &'l mut Linker<'e>, module: &Module, chunk: usize, name: &Arc<str>) -> Self {
        let scope = linker.env.scope(&module.name);
        Self {
            linker,
            scope,
            name: name.clone(),
            path: module.path.clone(),
            offset: module.offsets[chunk],
            text: module.chunks[chunk].text.clone(),
            locals: Vec::new(),
            slots: 0,
            ops: Vec::new(),
            spans: Vec::new(),
            borrowed: None,
            too_large: false,
        }
    }

    fn finish(mut self, arity: u32) -> Result<Code, String> {
        if self.too_large || self.slots > 60_000 || self.ops.len() > 4_000_000 {
            return Err(format!("`{}` is too large to run", self.name));
        }
        take_last(&mut self.ops, self.slots as usize);
        Ok(Code {
            name: self.name,
            path: self.path,
            offset: self.offset,
            arity,
            slots: self.slots.max(arity),
            ops: self.ops,
            spans: self.spans,
        })
    }

    fn op(&mut self, op: Op, span: Span) {
        self.ops.push(op);
        self.spans.push(self.borrowed.unwrap_or(span));
    }

    fn here(&self) -> u32 {
        self.ops.len() as u32
    }

    /// Lets the jumps at these places lead here.
    fn land(&mut self, jumps: &[usize]) {
        let here = self.here();
        for jump in jumps {
            match &mut self.ops[*jump] {
                Op::Jump(to) | Op::JumpUnless(to) | Op::PushHandler(to) | Op::PopHandler(to) => {
                    *to = here
                }
                Op::TestVariant { otherwise, .. }
                | Op::TestError { otherwise, .. }
                | Op::TestConst { otherwise, .. }
                | Op::TestLength { otherwise, .. } => *otherwise = here,
                _ => {}
            }
        }
    }

    fn jump(&mut self, op: Op, span: Span) -> usize {
        self.op(op, span);
        self.ops.len() - 1
    }

    fn slot(&mut self) -> u32 {
        self.slots += 1;
        self.slots - 1
    }

    fn declare(&mut self, name: &Arc<str>) -> u32 {
        let slot = self.slot();
        self.locals.push((name.clone(), slot));
        slot
    }

    fn unit(&mut self, span: Span) {
        let unit = self.linker.constant(Value::Unit);
        self.op(Op::Const(unit), span);
    }

    fn string(&mut self, text: &str, span: Span) {
        let text = self.linker.text(text);
        self.op(Op::Const(text), span);
    }

    fn slice(&self, span: Span) -> String {
        self.text
            .get(span.start as usize..span.end as usize)
            .unwrap_or("")
            .to_owned()
    }

    // ---- functions ----

    fn body(&mut self, decl: &FnDecl, body: &Expr) {
        self.param_checks(&decl.params);
        for clause in &decl.requires {
            self.expr(clause, false);
            let words = format!(
                "`{}` requires `{}`",
                decl.name.text,
                self.slice(clause.span)
            );
            let text = self.linker.text(&words);
            self.op(
                Op::Check {
                    kind: CheckKind::Requires,
                    text,
                    slot: NONE,
                },
                clause.span,
            );
        }
        let scope = self.scope.clone();
        let refined = self
            .linker
            .env
            .has_refinement(&decl.ret, &scope, &mut BTreeSet::new());
        if decl.ensures.is_empty() && !refined {
            return self.expr(body, true);
        }
        self.expr(body, false);
        // The result is bound after the body, whose names it must not catch.
        let result = self.declare(&Arc::from("result"));
        self.op(Op::Store(result), body.span);
        if refined {
            let what = format!("the result of `{}`", decl.name.text);
            self.refinement(&decl.ret, &scope, result, &what, decl.ret.span, 0);
        }
        for clause in &decl.ensures {
            self.expr(clause, false);
            let words = format!("`{}` ensures `{}`", decl.name.text, self.slice(clause.span));
            let text = self.linker.text(&words);
            self.op(
                Op::Check {
                    kind: CheckKind::Ensures,
                    text,
                    slot: result,
                },
                clause.span,
            );
        }
        self.op(Op::Load(result), body.span);
    }

    fn param_checks(&mut self, params: &[Param]) {
        let scope = self.scope.clone();
        for (slot, param) in params.iter().enumerate() {
            let what = format!("`{}`", param.name.text);
            self.refinement(&param.ty, &scope, slot as u32, &what, param.ty.span, 0);
        }
    }

    /// Checks the value in `slot` against the refinements of `ty`, written where `scope` is.
    fn refinement(
        &mut self,
        ty: &TypeExpr,
        scope: &Arc<Scope>,
        slot: u32,
        what: &str,
        span: Span,
        level: u32,
    ) {
        let env = self.linker.env;
        if level > 60 || !env.has_refinement(ty, scope, &mut BTreeSet::new()) {
            return;
        }
        match &ty.kind {
            TypeKind::Where(base, condition, words) => {
                self.refinement(base, scope, slot, what, span, level + 1);
                let locals = std::mem::replace(&mut self.locals, vec![(Arc::from("value"), slot)]);
                let home = std::mem::replace(&mut self.scope, scope.clone());
                let borrowed = self.borrowed.replace(span);
                self.expr(condition, false);
                let text = self.linker.text(&format!("{what} must satisfy `{words}`"));
                self.op(
                    Op::Check {
                        kind: CheckKind::Refinement,
                        text,
                        slot,
                    },
                    span,
                );
                self.borrowed = borrowed;
                self.scope = home;
                self.locals = locals;
            }
            TypeKind::Name(name, args) => {
                let Some(sym) = scope.ty(&name.text) else {
                    return;
                };
                if let Some((
                    module,
                    TypeDecl {
                        body: TypeBody::Alias(alias),
                        ..
                    },
                )) = env.modules.type_decl(&sym)
                {
                    let home = env.scope(&module.name);
                    self.refinement(alias, &home, slot, what, span, level + 1);
                }
                let walks: &[&str] = match &*sym {
                    "std/core::List" => &["List.each"],
                    "std/core::Option" => &["Option.each"],
                    "std/core::Map" => &["Map.each_key", "Map.each_value"],
                    _ => &[],
                };
                for (arg, walk) in args.iter().zip(walks) {
                    if env.has_refinement(arg, scope, &mut BTreeSet::new()) {
                        self.each(arg, scope, slot, what, span, walk, level);
                    }
                }
            }
            _ => {}
        }
    }

    /// Checks every element of the value in `slot`, by way of a function of the standard library.
    #[allow(clippy::too_many_arguments)]
    fn each(
        &mut self,
        ty: &TypeExpr,
        scope: &Arc<Scope>,
        slot: u32,
        what: &str,
        span: Span,
        walk: &str,
        level: u32,
    ) {
        let number = self.linker.reserve();
        let mut inner = Builder {
            linker: &mut *self.linker,
            scope: self.scope.clone(),
            name: self.name.clone(),
            path: self.path.clone(),
            offset: self.offset,
            text: self.text.clone(),
            locals: Vec::new(),
            slots: 0,
            ops: Vec::new(),
            spans: Vec::new(),
            borrowed: Some(span),
            too_large: false,
        };
        let element = inner.declare(&Arc::from("value"));
        inner.refinement(
            ty,
            scope,
            element,
            &format!("each of {what}"),
            span,
            level + 1,
        );
        inner.unit(span);
        inner.op(Op::Return, span);
        match inner.finish(1) {
            Ok(code) => self.linker.codes[number as usize] = Some(code),
            Err(_) => self.too_large = true,
        }
        self.op(Op::Load(slot), span);
        self.op(
            Op::Closure {
                code: number,
                captured: 0,
            },
            span,
        );
        let code = self.linker.number(&full(CORE, walk));
        self.op(Op::Call { code, size: 2 }, span);
        self.op(Op::Pop, span);
    }

    // ---- expressions ----

    fn local(&self, name: &str) -> Option<u32> {
        self.locals
            .iter()
            .rev()
            .find(|(n, _)| &**n == name)
            .map(|(_, slot)| *slot)
    }

    /// Puts the value of `expr` on the stack. `tail`: nothing but `Return` follows.
    fn expr(&mut self, expr: &Expr, tail: bool) {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Int(n) => self.op(Op::Int(*n), span),
            ExprKind::Float(x) => {
                let value = self.linker.constant(Value::Float(*x));
                self.op(Op::Const(value), span);
            }
            ExprKind::Bool(b) => {
                let value = self.linker.constant(Value::Bool(*b));
                self.op(Op::Const(value), span);
            }
            ExprKind::Unit => self.unit(span),
            ExprKind::Str(parts) => self.parts(parts, None, span),
            ExprKind::Tagged(_, parts) => {
                self.parts(parts, natives::find(&full(CORE, "Url.encode")), span)
            }
            ExprKind::Name(name) => self.name(name),
            ExprKind::Ctor(name) => self.constructor(name),
            ExprKind::Call(callee, args) => self.call(callee, args, span, tail),
            ExprKind::Field(base, field) => {
                self.expr(base, false);
                let name = self.linker.text(&field.text);
                self.op(Op::Field(name), field.span);
            }
            ExprKind::Record {
                name,
                spread,
                fields,
            } => self.record(name, spread.as_deref(), fields, span),
            ExprKind::List(items) => {
                items.iter().for_each(|item| self.expr(item, false));
                self.op(Op::List(items.len() as u32), span);
            }
            ExprKind::Not(inner) => {
                self.expr(inner, false);
                self.op(Op::Not, span);
            }
            ExprKind::Neg(inner) => {
                self.expr(inner, false);
                self.op(Op::Neg, span);
            }
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, span),
            ExprKind::If(condition, then, otherwise) => {
                self.expr(condition, false);
                let skip = self.jump(Op::JumpUnless(0), span);
                self.expr(then, tail);
                let end = self.jump(Op::Jump(0), span);
                self.land(&[skip]);
                match otherwise {
                    Some(otherwise) => self.expr(otherwise, tail),
                    None => self.unit(span),
                }
                self.land(&[end]);
            }
            ExprKind::Match(head, arms) => {
                self.expr(head, false);
                let slot = self.slot();
                self.op(Op::Store(slot), head.span);
                self.arms(arms, slot, tail, span);
                // `arms` leaves the fall-through here.
            }
            ExprKind::Block(stmts) => self.block(stmts, span, tail),
            ExprKind::Lambda(params, body) => self.lambda(params, body, span),
            ExprKind::Fail(name, fields) => self.fail(name, fields, span),
            ExprKind::Recover(body, arms) => self.recover(body, arms, span, tail),
            ExprKind::Assert(inner) => self.assert(inner, span),
            ExprKind::Hole(name) => {
                let name = self.linker.text(&name.text);
                self.op(Op::Hole(name), span);
            }
            ExprKind::Error => self.op(Op::NoArm, span),
        }
    }

    fn parts(&mut self, parts: &[Part], encode: Option<Native>, span: Span) {
        if let ([] | [Part::Text(_)], text) = (parts, parts.first()) {
            let text = match text {
                Some(Part::Text(text)) => text.as_str(),
                _ => "",
            };
            return self.string(text, span);
        }
        for part in parts {
            match part {
                Part::Text(text) => self.string(text, span),
                Part::Expr(expr) => {
                    self.expr(expr, false);
                    if let Some(native) = encode {
                        self.op(
                            Op::Native {
                                native: native as u32,
                                size: 1,
                            },
                            expr.span,
                        );
                    }
                }
            }
        }
        self.op(Op::Text(parts.len() as u32), span);
    }

    fn name(&mut self, name: &Name) {
        if let Some(slot) = self.local(&name.text) {
            return self.op(Op::Load(slot), name.span);
        }
        match self.scope.function(&name.text) {
            Some(sym) => {
                let code = self.linker.number(&sym);
                self.op(Op::Closure { code, captured: 0 }, name.span);
            }
            None => self.op(Op::NoArm, name.span),
        }
    }

    fn variant_layout(&mut self, name: &Name) -> Option<(u32, usize)> {
        let (sym, number) = self.scope.constructor(&name.text)?;
        let info = self.linker.env.info(&sym)?;
        let Shape::Union(variants) = &info.shape else {
            return None;
        };
        let (variant, payload) = variants.get(number)?;
        let layout = Layout {
            sym: sym.clone(),
            name: variant.clone(),
            number,
            fields: Vec::new(),
        };
        Some((self.linker.layout(layout), payload.len()))
    }

    fn payload_types(&self, name: &Name) -> Option<(Vec<TypeExpr>, Arc<Scope>)> {
        let (sym, number) = self.scope.constructor(&name.text)?;
        let env = self.linker.env;
        let (module, decl) = env.modules.type_decl(&sym)?;
        let TypeBody::Union(variants) = &decl.body else {
            return None;
        };
        Some((
            variants.get(number)?.payload.clone(),
            env.scope(&module.name),
        ))
    }

    /// A constructor used as a value: itself, or a function that makes it.
    fn constructor(&mut self, name: &Name) {
        let Some((layout, size)) = self.variant_layout(name) else {
            return self.op(Op::NoArm, name.span);
        };
        if size == 0 {
            let value = Value::data(&self.linker.layouts[layout as usize].clone(), Vec::new());
            let value = self.linker.constant(value);
            return self.op(Op::Const(value), name.span);
        }
        let params = (0..size)
            .map(|i| Arc::from(format!("{i}")))
            .collect::<Vec<Arc<str>>>();
        let number = self.function_value(&params, &[], name.span, |inner| {
            for slot in 0..size as u32 {
                inner.op(Op::Load(slot), name.span);
            }
            inner.make_variant(name, layout, size, name.span);
        });
        self.op(
            Op::Closure {
                code: number,
                captured: 0,
            },
            name.span,
        );
    }

    /// Makes a variant of the values on the stack, checking refined payloads first.
    fn make_variant(&mut self, name: &Name, layout: u32, size: usize, span: Span) {
        let Some((types, scope)) = self.payload_types(name) else {
            return;
        };
        let what = format!("a value of `{}`", name.text);
        let refs: Vec<&TypeExpr> = types.iter().collect();
        self.check_on_stack(&refs, &scope, &what, span);
        self.op(
            Op::Make {
                layout,
                size: size as u32,
            },
            span,
        );
    }

    /// Checks the values on top of the stack against the refinements of their types.
    fn check_on_stack(&mut self, types: &[&TypeExpr], scope: &Arc<Scope>, what: &str, span: Span) {
        let env = self.linker.env;
        if !types
            .iter()
            .any(|ty| env.has_refinement(ty, scope, &mut BTreeSet::new()))
        {
            return;
        }
        let slots: Vec<u32> = types.iter().map(|_| self.slot()).collect();
        for slot in slots.iter().rev() {
            self.op(Op::Store(*slot), span);
        }
        for (ty, slot) in types.iter().zip(&slots) {
            self.refinement(ty, scope, *slot, what, span, 0);
        }
        for slot in slots {
            self.op(Op::Load(slot), span);
        }
    }

    fn call(&mut self, callee: &Expr, args: &[Expr], span: Span, tail: bool) {
        let size = args.len() as u32;
        match &callee.kind {
            ExprKind::Ctor(name) => {
                args.iter().for_each(|arg| self.expr(arg, false));
                match self.variant_layout(name) {
                    Some((layout, size)) => self.make_variant(name, layout, size, span),
                    None => self.op(Op::NoArm, span),
                }
            }
            ExprKind::Name(name) if self.local(&name.text).is_none() => {
                args.iter().for_each(|arg| self.expr(arg, false));
                let Some(sym) = self.scope.function(&name.text) else {
                    return self.op(Op::NoArm, span);
                };
                // A function of the machine that owes nothing is called without a frame.
                if let Some(native) = natives::find(&sym) {
                    return self.op(
                        Op::Native {
                            native: native as u32,
                            size,
                        },
                        span,
                    );
                }
                let code = self.linker.number(&sym);
                self.op(
                    if tail {
                        Op::TailCall { code, size }
                    } else {
                        Op::Call { code, size }
                    },
                    span,
                );
            }
            _ => {
                self.expr(callee, false);
                args.iter().for_each(|arg| self.expr(arg, false));
                self.op(
                    if tail {
                        Op::TailCallValue(size)
                    } else {
                        Op::CallValue(size)
                    },
                    span,
                );
            }
        }
    }

    fn record(&mut self, name: &Name, spread: Option<&Expr>, fields: &[FieldInit], span: Span) {
        let env = self.linker.env;
        let Some(sym) = self.scope.ty(&name.text) else {
            return self.op(Op::NoArm, span);
        };
        let Some((
            module,
            TypeDecl {
                body: TypeBody::Record(declared),
                ..
            },
        )) = env.modules.type_decl(&sym)
        else {
            return self.op(Op::NoArm, span);
        };
        let scope = env.scope(&module.name);
        let what = |field: &Name| format!("the field `{}` of `{}`", field.text, name.text);
        if let Some(spread) = spread {
            self.expr(spread, false);
            let mut names = Vec::new();
            for init in fields {
                self.expr(&init.value, false);
                if let Some(decl) = declared.iter().find(|d| d.name.text == init.name.text) {
                    self.check_on_stack(&[&decl.ty], &scope, &what(&decl.name), init.name.span);
                }
                names.push(Value::Str(init.name.text.clone()));
            }
            let size = names.len() as u32;
            let names = self.linker.constant(Value::list(names));
            return self.op(Op::With { names, size }, span);
        }
        let layout = Layout {
            sym: sym.clone(),
            name: name.text.clone(),
            number: 0,
            fields: declared.iter().map(|d| d.name.text.clone()).collect(),
        };
        let layout = self.linker.layout(Layout {
            name: Arc::from(short(&sym)),
            ..layout
        });
        self.fields(fields, declared, &scope, &what);
        self.op(
            Op::Make {
                layout,
                size: declared.len() as u32,
            },
            span,
        );
    }

    /// The fields' values, evaluated as written, left on the stack as declared.
    fn fields(
        &mut self,
        fields: &[FieldInit],
        declared: &[Field],
        scope: &Arc<Scope>,
        what: &impl Fn(&Name) -> String,
    ) {
        let in_order = fields.len() == declared.len()
            && fields
                .iter()
                .zip(declared)
                .all(|(f, d)| f.name.text == d.name.text);
        let mut slots: HashMap<Arc<str>, u32> = HashMap::new();
        for init in fields {
            self.expr(&init.value, false);
            if let Some(decl) = declared.iter().find(|d| d.name.text == init.name.text) {
                self.check_on_stack(&[&decl.ty], scope, &what(&decl.name), init.name.span);
            }
            if !in_order {
                let slot = self.slot();
                slots.insert(init.name.text.clone(), slot);
                self.op(Op::Store(slot), init.name.span);
            }
        }
        if !in_order {
            for decl in declared {
                match slots.get(&decl.name.text) {
                    Some(slot) => self.op(Op::Load(*slot), decl.name.span),
                    None => self.op(Op::NoArm, decl.name.span),
                }
            }
        }
    }

    fn fail(&mut self, name: &Name, fields: &[FieldInit], span: Span) {
        let env = self.linker.env;
        let Some(sym) = self.scope.error(&name.text) else {
            return self.op(Op::NoArm, span);
        };
        let Some((module, decl)) = env.modules.error_decl(&sym) else {
            return self.op(Op::NoArm, span);
        };
        let scope = env.scope(&module.name);
        let layout = self.linker.error_layout(&sym);
        self.fields(fields, &decl.fields, &scope, &|field| {
            format!("the field `{}` of `{}`", field.text, name.text)
        });
        self.op(
            Op::Make {
                layout,
                size: decl.fields.len() as u32,
            },
            span,
        );
        self.op(Op::Fail, span);
    }

    fn binary(&mut self, op: BinOp, left: &Expr, right: &Expr, span: Span) {
        self.expr(left, false);
        if matches!(op, BinOp::And | BinOp::Or) {
            if op == BinOp::Or {
                self.op(Op::Not, span);
            }
            let skip = self.jump(Op::JumpUnless(0), span);
            self.expr(right, false);
            let end = self.jump(Op::Jump(0), span);
            self.land(&[skip]);
            let value = self.linker.constant(Value::Bool(op == BinOp::Or));
            self.op(Op::Const(value), span);
            return self.land(&[end]);
        }
        self.expr(right, false);
        self.op(operator(op), span);
    }

    fn block(&mut self, stmts: &[Stmt], span: Span, tail: bool) {
        let mark = self.locals.len();
        let last = stmts.len().wrapping_sub(1);
        for (index, stmt) in stmts.iter().enumerate() {
            match stmt {
                Stmt::Expr(expr) => {
                    self.expr(expr, tail && index == last);
                    if index != last {
                        self.op(Op::Pop, expr.span);
                    }
                }
                Stmt::Let {
                    pattern,
                    ty,
                    value,
                    span,
                } => {
                    self.expr(value, false);
                    let slot = self.slot();
                    self.op(Op::Store(slot), *span);
                    if let Some(ty) = ty {
                        let scope = self.scope.clone();
                        self.refinement(ty, &scope, slot, "the value", ty.span, 0);
                    }
                    let misses = self.pattern(pattern, slot);
                    if !misses.is_empty() {
                        let end = self.jump(Op::Jump(0), *span);
                        self.land(&misses);
                        self.op(Op::NoArm, *span);
                        self.land(&[end]);
                    }
                }
            }
        }
        if !matches!(stmts.last(), Some(Stmt::Expr(_))) {
            self.unit(span);
        }
        self.locals.truncate(mark);
    }

    fn arms(&mut self, arms: &[Arm], slot: u32, tail: bool, span: Span) {
        let mut ends = Vec::new();
        for arm in arms {
            let mark = self.locals.len();
            let mut misses = self.pattern(&arm.pattern, slot);
            if let Some(guard) = &arm.guard {
                self.expr(guard, false);
                misses.push(self.jump(Op::JumpUnless(0), guard.span));
            }
            self.expr(&arm.body, tail);
            ends.push(self.jump(Op::Jump(0), arm.body.span));
            self.locals.truncate(mark);
            self.land(&misses);
        }
        self.op(Op::NoArm, span);
        self.land(&ends);
    }

    /// Tests the value in `slot` and binds names; gives the jumps to take when it does not match.
    fn pattern(&mut self, pattern: &Pattern, slot: u32) -> Vec<usize> {
        let span = pattern.span;
        let mut misses = Vec::new();
        let constant = match &pattern.kind {
            PatternKind::Wild | PatternKind::Unit | PatternKind::Error => return misses,
            PatternKind::Bind(name) => {
                self.locals.push((name.text.clone(), slot));
                return misses;
            }
            PatternKind::Int(n) => Some(Value::Int(*n)),
            PatternKind::Float(x) => Some(Value::Float(*x)),
            PatternKind::Bool(b) => Some(Value::Bool(*b)),
            PatternKind::Str(s) => Some(Value::text(s)),
            _ => None,
        };
        if let Some(value) = constant {
            let value = self.linker.constant(value);
            return vec![self.jump(
                Op::TestConst {
                    slot,
                    value,
                    otherwise: 0,
                },
                span,
            )];
        }
        match &pattern.kind {
            PatternKind::Ctor(name, inner) => {
                let number = self
                    .scope
                    .constructor(&name.text)
                    .map_or(0, |(_, n)| n as u32);
                misses.push(self.jump(
                    Op::TestVariant {
                        slot,
                        number,
                        otherwise: 0,
                    },
                    span,
                ));
                for (index, inner) in inner.iter().enumerate() {
                    self.sub_pattern(
                        inner,
                        Op::Part {
                            slot,
                            index: index as u32,
                        },
                        &mut misses,
                    );
                }
            }
            PatternKind::Record(_, fields) => self.pattern_fields(fields, slot, &mut misses),
            PatternKind::List(inner, rest) => {
                let length = inner.len() as u32;
                misses.push(self.jump(
                    Op::TestLength {
                        slot,
                        length,
                        exact: rest.is_none(),
                        otherwise: 0,
                    },
                    span,
                ));
                for (index, inner) in inner.iter().enumerate() {
                    self.sub_pattern(
                        inner,
                        Op::Element {
                            slot,
                            index: index as u32,
                        },
                        &mut misses,
                    );
                }
                if let Some(Some(name)) = rest {
                    self.op(Op::Rest { slot, from: length }, name.span);
                    let rest = self.declare(&name.text);
                    self.op(Op::Store(rest), name.span);
                }
            }
            _ => {}
        }
        misses
    }

    fn sub_pattern(&mut self, inner: &Pattern, get: Op, misses: &mut Vec<usize>) {
        if matches!(inner.kind, PatternKind::Wild) {
            return;
        }
        self.op(get, inner.span);
        let slot = self.slot();
        self.op(Op::Store(slot), inner.span);
        misses.extend(self.pattern(inner, slot));
    }

    fn pattern_fields(
        &mut self,
        fields: &[(Name, Option<Pattern>)],
        slot: u32,
        misses: &mut Vec<usize>,
    ) {
        for (name, inner) in fields {
            let text = self.linker.text(&name.text);
            let get = Op::PartNamed { slot, name: text };
            match inner {
                Some(inner) => self.sub_pattern(inner, get, misses),
                None => {
                    self.op(get, name.span);
                    let slot = self.declare(&name.text);
                    self.op(Op::Store(slot), name.span);
                }
            }
        }
    }

    /// Compiles a function of its own: captured names first, then parameters.
    fn function_value(
        &mut self,
        params: &[Arc<str>],
        captured: &[Arc<str>],
        span: Span,
        fill: impl FnOnce(&mut Builder<'_, 'e>),
    ) -> u32 {
        let number = self.linker.reserve();
        let mut inner = Builder {
            linker: &mut *self.linker,
            scope: self.scope.clone(),
            name: Arc::from(format!(
                "{} (lambda)",
                self.name.trim_end_matches(" (lambda)")
            )),
            path: self.path.clone(),
            offset: self.offset,
            text: self.text.clone(),
            locals: Vec::new(),
            slots: 0,
            ops: Vec::new(),
            spans: Vec::new(),
            borrowed: self.borrowed,
            too_large: false,
        };
        for name in captured.iter().chain(params) {
            inner.declare(name);
        }
        fill(&mut inner);
        inner.op(Op::Return, span);
        match inner.finish((captured.len() + params.len()) as u32) {
            Ok(code) => self.linker.codes[number as usize] = Some(code),
            Err(_) => self.too_large = true,
        }
        number
    }

    fn lambda(&mut self, params: &[LambdaParam], body: &Expr, span: Span) {
        let mut mentioned = BTreeSet::new();
        mentions(body, &mut mentioned);
        let params: Vec<Arc<str>> = params.iter().map(|p| p.name.text.clone()).collect();
        let mut captured: Vec<Arc<str>> = Vec::new();
        for name in mentioned {
            if self.local(&name).is_some() && !params.contains(&name) {
                captured.push(name);
            }
        }
        for name in &captured {
            if let Some(slot) = self.local(name) {
                self.op(Op::Load(slot), span);
            }
        }
        let code = self.function_value(&params, &captured, span, |inner| inner.expr(body, true));
        self.op(
            Op::Closure {
                code,
                captured: captured.len() as u32,
            },
            span,
        );
    }

    fn recover(&mut self, body: &Expr, arms: &[Arm], span: Span, tail: bool) {
        let push = self.jump(Op::PushHandler(0), span);
        self.expr(body, false);
        let pop = self.jump(Op::PopHandler(0), span);
        let done = self.jump(Op::Jump(0), span);
        self.land(&[push, pop]);
        let slot = self.slot();
        self.op(Op::Store(slot), span);
        let mut ends = vec![done];
        for arm in arms {
            let mark = self.locals.len();
            let mut misses = Vec::new();
            let (name, fields): (Option<&Name>, &[(Name, Option<Pattern>)]) =
                match &arm.pattern.kind {
                    PatternKind::Record(name, fields) => (Some(name), fields),
                    PatternKind::Ctor(name, _) => (Some(name), &[]),
                    _ => (None, &[]),
                };
            if let Some(name) = name {
                let Some(sym) = self.scope.error(&name.text) else {
                    continue;
                };
                let layout = self.linker.error_layout(&sym);
                misses.push(self.jump(
                    Op::TestError {
                        slot,
                        layout,
                        otherwise: 0,
                    },
                    name.span,
                ));
            }
            self.pattern_fields(fields, slot, &mut misses);
            if let Some(guard) = &arm.guard {
                self.expr(guard, false);
                misses.push(self.jump(Op::JumpUnless(0), guard.span));
            }
            self.expr(&arm.body, tail);
            ends.push(self.jump(Op::Jump(0), arm.body.span));
            self.locals.truncate(mark);
            self.land(&misses);
        }
        self.op(Op::Reraise(slot), span);
        self.land(&ends);
    }

    fn assert(&mut self, inner: &Expr, span: Span) {
        let text = self.slice(inner.span);
        let text = self.linker.text(&text);
        match &inner.kind {
            ExprKind::Binary(op, left, right)
                if !matches!(op, BinOp::And | BinOp::Or) && is_test(*op) =>
            {
                self.expr(left, false);
                self.expr(right, false);
                self.op(Op::AssertOp { op: *op, text }, span);
            }
            _ => {
                self.expr(inner, false);
                self.op(
                    Op::Check {
                        kind: CheckKind::Assert,
                        text,
                        slot: NONE,
                    },
                    span,
                );
            }
        }
        self.unit(span);
    }
}

fn is_test(op: BinOp) -> bool {
    matches!(
        op,
        BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge
    )
}

/// The operation of an operator that evaluates both sides.
pub fn operator(op: BinOp) -> Op {
    match op {
        BinOp::Add => Op::Add,
        BinOp::Sub => Op::Sub,
        BinOp::Mul => Op::Mul,
        BinOp::Div => Op::Div,
        BinOp::Rem => Op::Rem,
        BinOp::Concat => Op::Concat,
        BinOp::Eq => Op::Eq,
        BinOp::Ne => Op::Ne,
        BinOp::Lt => Op::Lt,
        BinOp::Le => Op::Le,
        BinOp::Gt => Op::Gt,
        BinOp::Ge => Op::Ge,
        BinOp::And | BinOp::Or => Op::NoArm,
    }
}

/// Every name that an expression mentions.
fn mentions(expr: &Expr, out: &mut BTreeSet<Arc<str>>) {
    match &expr.kind {
        ExprKind::Name(name) => drop(out.insert(name.text.clone())),
        ExprKind::Str(parts) | ExprKind::Tagged(_, parts) => {
            for part in parts {
                if let Part::Expr(expr) = part {
                    mentions(expr, out);
                }
            }
        }
        ExprKind::Call(callee, args) => {
            mentions(callee, out);
            args.iter().for_each(|arg| mentions(arg, out));
        }
        ExprKind::Field(inner, _)
        | ExprKind::Not(inner)
        | ExprKind::Neg(inner)
        | ExprKind::Assert(inner) => {
            mentions(inner, out);
        }
        ExprKind::Record { spread, fields, .. } => {
            spread.iter().for_each(|e| mentions(e, out));
            fields.iter().for_each(|f| mentions(&f.value, out));
        }
        ExprKind::Fail(_, fields) => fields.iter().for_each(|f| mentions(&f.value, out)),
        ExprKind::List(items) => items.iter().for_each(|item| mentions(item, out)),
        ExprKind::Binary(_, left, right) => {
            mentions(left, out);
            mentions(right, out);
        }
        ExprKind::If(condition, then, otherwise) => {
            mentions(condition, out);
            mentions(then, out);
            otherwise.iter().for_each(|e| mentions(e, out));
        }
        ExprKind::Match(head, arms) | ExprKind::Recover(head, arms) => {
            mentions(head, out);
            for arm in arms {
                arm.guard.iter().for_each(|g| mentions(g, out));
                mentions(&arm.body, out);
            }
        }
        ExprKind::Block(stmts) => {
            for stmt in stmts {
                match stmt {
                    Stmt::Let { value, ty, .. } => {
                        mentions(value, out);
                        if let Some(ty) = ty {
                            type_mentions(ty, out);
                        }
                    }
                    Stmt::Expr(expr) => mentions(expr, out),
                }
            }
        }
        ExprKind::Lambda(_, body) => mentions(body, out),
        _ => {}
    }
}

fn type_mentions(ty: &TypeExpr, out: &mut BTreeSet<Arc<str>>) {
    if let TypeKind::Where(base, condition, _) = &ty.kind {
        type_mentions(base, out);
        mentions(condition, out);
    }
}

/// Turns the last load of a slot into a take, so that lists built in a loop are changed in place.
/// Jumps go forward only, so one pass from the end knows everything.
fn take_last(ops: &mut [Op], slots: usize) {
    if ops.len().saturating_mul(slots) > 20_000_000 || slots == 0 {
        return;
    }
    let words = slots.div_ceil(64);
    let mut live = vec![0u64; words];
    let mut live_at: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut targets: BTreeSet<u32> = BTreeSet::new();
    for op in ops.iter() {
        targets.extend(target(op));
    }
    let mut handlers: Vec<Vec<u64>> = Vec::new();
    let has = |set: &[u64], slot: u32| set[slot as usize / 64] & (1 << (slot % 64)) != 0;
    for index in (0..ops.len()).rev() {
        let op = ops[index];
        match op {
            Op::Return
            | Op::TailCall { .. }
            | Op::TailCallValue(_)
            | Op::NoArm
            | Op::Fail
            | Op::Hole(_) => live.fill(0),
            Op::Reraise(_) => live.fill(0),
            Op::Jump(to) => live = live_at.get(&to).cloned().unwrap_or_else(|| vec![0; words]),
            _ => {
                if let Some(other) = target(&op).and_then(|to| live_at.get(&to)) {
                    live.iter_mut().zip(other).for_each(|(a, b)| *a |= b);
                }
            }
        }
        match op {
            Op::PopHandler(to) => {
                handlers.push(live_at.get(&to).cloned().unwrap_or_else(|| vec![0; words]))
            }
            Op::PushHandler(_) => drop(handlers.pop()),
            Op::Store(slot) => live[slot as usize / 64] &= !(1 << (slot % 64)),
            _ => {}
        }
        if let Some(slot) = reads(&op) {
            if matches!(op, Op::Load(_))
                && !has(&live, slot)
                && !handlers.iter().any(|set| has(set, slot))
            {
                ops[index] = Op::Take(slot);
            }
            live[slot as usize / 64] |= 1 << (slot % 64);
        }
        if targets.contains(&(index as u32)) {
            live_at.insert(index as u32, live.clone());
        }
    }
}

fn target(op: &Op) -> Option<u32> {
    match op {
        Op::Jump(to) | Op::JumpUnless(to) | Op::PushHandler(to) | Op::PopHandler(to) => Some(*to),
        Op::TestVariant { otherwise, .. }
        | Op::TestError { otherwise, .. }
        | Op::TestConst { otherwise, .. }
        | Op::TestLength { otherwise, .. } => Some(*otherwise),
        _ => None,
    }
}

fn reads(op: &Op) -> Option<u32> {
    match op {
        Op::Load(slot)
        | Op::TestVariant { slot, .. }
        | Op::TestError { slot, .. }
        | Op::TestConst { slot, .. }
        | Op::TestLength { slot, .. }
        | Op::Part { slot, .. }
        | Op::PartNamed { slot, .. }
        | Op::Element { slot, .. }
        | Op::Rest { slot, .. }
        | Op::Reraise(slot) => Some(*slot),
        Op::Check { slot, .. } if *slot != NONE => Some(*slot),
        _ => None,
    }
}
