//! Tests and properties: seeded, repeatable, shrinking, within a budget.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::ast::{Item, TestDecl};
use crate::compile::{Entry, Program, compile};
use crate::env::{Env, Shape, con_of};
use crate::host::{FaultKind, Random, Stop, TestHost};
use crate::machine::{Budget, Machine};
use crate::names::{DeclRef, Module};
use crate::reflect::{Bounds, Conditions, Form, Opened, bounds, layout};
use crate::types::{Sym, Ty, TyKind};
use crate::value::{Value, show};

/// How tests are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestOptions {
    /// Everything made up follows from this.
    pub seed: u64,
    /// Cases for each property.
    pub cases: u32,
    /// For each test, or for all cases of a property together.
    pub budget: Budget,
}

impl Default for TestOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            cases: 100,
            budget: Budget::default(),
        }
    }
}

/// How a test went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Status {
    Passed,
    Failed,
    /// It could not be judged: out of budget, a hole, no values that fit.
    Error,
}

impl Status {
    /// As JSON shows it.
    pub fn text(self) -> &'static str {
        match self {
            Status::Passed => "passed",
            Status::Failed => "failed",
            Status::Error => "error",
        }
    }
}

/// The result of one test.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct TestResult {
    pub path: Arc<str>,
    pub name: Arc<str>,
    pub property: bool,
    pub status: Status,
    pub stop: Option<Stop>,
    pub message: Option<String>,
    /// The values that a property failed for, by parameter, made small.
    pub counterexample: Vec<(Arc<str>, String)>,
    pub cases: u32,
    pub shrinks: u32,
    pub steps: u64,
    pub log: Vec<String>,
}

/// Whether values of a type can be made up; the reason if not.
pub fn not_generated(env: &Env, ty: &Ty) -> Option<&'static str> {
    let mut todo = vec![ty.clone()];
    let mut seen: Vec<Sym> = Vec::new();
    while let Some(ty) = todo.pop() {
        match &*ty {
            TyKind::Fn { .. } => return Some("it holds functions"),
            TyKind::TooDeep => return Some("it nests too deeply"),
            _ => {}
        }
        let Some((sym, args)) = con_of(&ty) else {
            continue;
        };
        todo.extend(args.iter().cloned());
        if seen.contains(sym) {
            continue;
        }
        seen.push(sym.clone());
        match env.info(sym).as_deref().map(|i| &i.shape) {
            Some(Shape::Record(fields)) => {
                todo.extend(fields.iter().map(|(_, ty)| ty.clone()));
                if holds_itself(env, sym) {
                    return Some("it holds itself without end");
                }
            }
            Some(Shape::Union(variants)) => {
                todo.extend(
                    variants
                        .iter()
                        .flat_map(|(_, payload)| payload.iter().cloned()),
                );
                if holds_itself(env, sym) {
                    return Some("it holds itself without end");
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether every value of a type would hold another value of it, so that there is none.
fn holds_itself(env: &Env, sym: &Sym) -> bool {
    // Types are made finite one by one, from those whose parts are finite, until nothing changes.
    fn finite(ty: &Ty, known: &[Sym]) -> bool {
        match con_of(ty) {
            Some((name, _)) if name.starts_with("std/core::") => true,
            Some((name, args)) => known.contains(name) && args.iter().all(|a| finite(a, known)),
            None => true,
        }
    }
    let mut all = vec![sym.clone()];
    let mut index = 0;
    while index < all.len() {
        let mut parts: Vec<Ty> = match env.info(&all[index]).as_deref().map(|i| &i.shape) {
            Some(Shape::Record(fields)) => fields.iter().map(|(_, ty)| ty.clone()).collect(),
            Some(Shape::Union(variants)) => variants
                .iter()
                .flat_map(|(_, p)| p.iter().cloned())
                .collect(),
            _ => Vec::new(),
        };
        while let Some(part) = parts.pop() {
            if let Some((name, args)) = con_of(&part) {
                parts.extend(args.iter().cloned());
                if !all.contains(name) {
                    all.push(name.clone());
                }
            }
        }
        index += 1;
    }
    let mut known: Vec<Sym> = Vec::new();
    loop {
        let before = known.len();
        for name in &all {
            if known.contains(name) {
                continue;
            }
            let fine = match env.info(name).as_deref().map(|i| &i.shape) {
                Some(Shape::Record(fields)) => fields.iter().all(|(_, ty)| finite(ty, &known)),
                Some(Shape::Union(variants)) => variants
                    .iter()
                    .any(|(_, payload)| payload.iter().all(|ty| finite(ty, &known))),
                _ => true,
            };
            if fine {
                known.push(name.clone());
            }
        }
        if known.contains(sym) {
            return false;
        }
        if known.len() == before {
            return true;
        }
    }
}

/// The tests of a module, in order.
pub fn tests(module: &Module) -> Vec<(DeclRef, &TestDecl)> {
    let mut found = Vec::new();
    for (chunk, parsed) in module.chunks.iter().enumerate() {
        for (item, decl) in parsed.parsed.items.iter().enumerate() {
            if let Item::Test(decl) = decl {
                found.push((DeclRef { chunk, item }, decl));
            }
        }
    }
    found
}

/// Runs one test. The result depends on the program, the options and the test's path and name.
pub fn run_test(
    env: &Env,
    module: &Module,
    at: DeclRef,
    decl: &TestDecl,
    options: TestOptions,
    stopped: &dyn Fn() -> bool,
) -> TestResult {
    let mut result = TestResult {
        path: module.path.clone(),
        name: decl.name.text.clone(),
        property: decl.property,
        status: Status::Passed,
        stop: None,
        message: None,
        counterexample: Vec::new(),
        cases: 0,
        shrinks: 0,
        steps: 0,
        log: Vec::new(),
    };
    let scope = env.scope(&module.name);
    let forms: Vec<Form> = decl
        .params
        .iter()
        .map(|p| Form::new(&p.ty, scope.clone()))
        .collect();
    let mut conditions = Conditions::default();
    for (form, param) in forms.iter().zip(&decl.params) {
        conditions.collect(env, form, &format!("`{}`", param.name.text));
    }
    let mut entries = vec![Entry::Test {
        module: module.name.clone(),
        at,
    }];
    entries.append(&mut conditions.entries);
    let program = match compile(env, &entries) {
        Ok(program) => program,
        Err(message) => {
            result.status = Status::Error;
            result.message = Some(message);
            return result;
        }
    };
    let mut runner = Runner {
        env,
        program: &program,
        conditions: &conditions,
        seed: test_seed(options.seed, &module.path, &decl.name.text),
        left: options.budget,
        random: Random::new(0),
        stopped,
    };
    runner.random = Random::new(runner.seed);
    if decl.property {
        runner.property(decl, &forms, options, &mut result);
    } else {
        let (outcome, log) = runner.run(Vec::new());
        result.cases = 1;
        result.log = log;
        if let Err(stop) = outcome {
            result.fail(stop);
        }
    }
    result.steps = options.budget.steps - runner.left.steps;
    result
}

/// The seed of one test: no test's luck depends on another's.
fn test_seed(seed: u64, path: &str, name: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    hash.update((path.len() as u64).to_le_bytes());
    hash.update(path);
    hash.update(name);
    let bytes: [u8; 32] = hash.finalize().into();
    u64::from_le_bytes([
        bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
    ])
}

impl TestResult {
    fn fail(&mut self, stop: Stop) {
        self.status = if unjudged(&stop) {
            Status::Error
        } else {
            Status::Failed
        };
        self.message = Some(stop.message());
        self.stop = Some(stop);
    }
}

/// Whether a stop says nothing about the test: it could not be run to its end.
fn unjudged(stop: &Stop) -> bool {
    matches!(stop, Stop::Fault(fault) if matches!(
        fault.kind,
        FaultKind::Steps | FaultKind::Memory | FaultKind::Hole | FaultKind::Interrupted | FaultKind::Denied
    ))
}

struct Runner<'a> {
    env: &'a Env,
    program: &'a Program,
    conditions: &'a Conditions,
    seed: u64,
    left: Budget,
    random: Random,
    stopped: &'a dyn Fn() -> bool,
}

/// A host that also looks at whether anyone still waits.
struct Watched<'a> {
    inner: TestHost,
    stopped: &'a dyn Fn() -> bool,
}

impl crate::host::Host for Watched<'_> {
    fn print(&mut self, text: &str) -> Result<(), crate::host::Refusal> {
        self.inner.print(text)
    }
    fn now(&mut self) -> Result<i64, crate::host::Refusal> {
        self.inner.now()
    }
    fn random(&mut self) -> Result<u64, crate::host::Refusal> {
        self.inner.random()
    }
    fn interrupted(&mut self) -> bool {
        (self.stopped)()
    }
}

/// How often a value may be made up anew to fit its refinements.
const TRIES: u32 = 200;
/// How many smaller values are tried in all.
const MAX_SHRINKS: u32 = 500;

impl<'a> Runner<'a> {
    fn call(&mut self, entry: usize, args: Vec<Value>) -> (Result<Value, Stop>, Vec<String>) {
        let mut host = Watched {
            inner: TestHost::new(self.seed),
            stopped: self.stopped,
        };
        let mut machine = Machine::new(self.program, &mut host, self.left);
        let outcome = machine.call(entry, args);
        self.left.steps -= machine.steps_used().min(self.left.steps);
        (outcome, host.inner.log)
    }

    fn run(&mut self, args: Vec<Value>) -> (Result<Value, Stop>, Vec<String>) {
        self.call(0, args)
    }

    fn property(
        &mut self,
        decl: &TestDecl,
        forms: &[Form<'a>],
        options: TestOptions,
        result: &mut TestResult,
    ) {
        for case in 0..options.cases {
            let mut args = Vec::new();
            for (form, param) in forms.iter().zip(&decl.params) {
                match self.fitting(form, case) {
                    Some(value) => args.push(value),
                    None => {
                        result.status = Status::Error;
                        result.message = Some(format!(
                            "after {TRIES} tries no value for `{}` satisfies its refinement",
                            param.name.text
                        ));
                        return;
                    }
                }
            }
            result.cases = case + 1;
            let (outcome, log) = self.run(args.clone());
            if let Err(stop) = outcome {
                result.log = log;
                let stop = if unjudged(&stop) {
                    stop
                } else {
                    self.shrink(forms, &mut args, stop, result)
                };
                result.fail(stop);
                let names = decl.params.iter().map(|p| p.name.text.clone());
                result.counterexample = names.zip(args.iter().map(show)).collect();
                return;
            }
        }
    }

    /// A value of the form that satisfies all refinements.
    fn fitting(&mut self, form: &Form<'a>, case: u32) -> Option<Value> {
        // Values begin small and grow with the cases.
        let size = 2 + case.min(60) / 2;
        for attempt in 0..TRIES {
            if (self.stopped)() || self.left.steps == 0 {
                return None;
            }
            let value = self.make(form, Hints::default(), size + attempt / 20, 0);
            if self.fits(form, &value, 0) {
                return Some(value);
            }
        }
        None
    }

    fn make(&mut self, form: &Form<'a>, hints: Hints, size: u32, depth: u32) -> Value {
        match form.open(self.env) {
            Opened::Where {
                base,
                condition,
                scope,
                ..
            } => {
                let (value, length, _) = bounds(condition, &scope);
                self.make(&base, hints.and(value, length), size, depth)
            }
            Opened::Int => Value::Int(self.int(hints.value, size)),
            Opened::Float => Value::Float(self.float(hints.value, size)),
            Opened::Bool => Value::Bool(self.random.below(2) == 1),
            Opened::Unit | Opened::Other => Value::Unit,
            Opened::String => Value::text(&self.string(hints.length, size)),
            Opened::Url => Value::text(&format!("https://host.example/{}", self.random.below(100))),
            Opened::List(item) => {
                let length = self.length(hints.length, if depth > 3 { 1 } else { size });
                Value::list(
                    (0..length)
                        .map(|_| self.make(&item, Hints::default(), size / 2, depth + 1))
                        .collect(),
                )
            }
            Opened::Map(key, item) => {
                let length = self.length(hints.length, if depth > 3 { 1 } else { size / 2 });
                let mut map = crate::value::Map::default();
                for _ in 0..length {
                    let key = self.make(&key, Hints::default(), size / 2, depth + 1);
                    let item = self.make(&item, Hints::default(), size / 2, depth + 1);
                    map.0.insert(key, item);
                }
                Value::Map(Arc::new(map))
            }
            Opened::Option(item) => {
                let some = depth <= 8 && self.random.below(4) > 0;
                let item = some.then(|| self.make(&item, Hints::default(), size, depth + 1));
                self.program.known.option(item)
            }
            Opened::Record { sym, fields } => {
                let names = fields.iter().map(|(n, _)| n.clone()).collect();
                let values = fields
                    .iter()
                    .map(|(_, f)| self.make(f, Hints::default(), size / 2, depth + 1))
                    .collect();
                Value::data(&layout(&sym, None, names), values)
            }
            Opened::Union { sym, variants } => {
                if variants.is_empty() {
                    return Value::Unit;
                }
                let number = self.variant(&sym, &variants, depth);
                let (name, payload) = &variants[number];
                let values = payload
                    .iter()
                    .map(|f| self.make(f, Hints::default(), size / 2, depth + 1))
                    .collect();
                Value::data(&layout(&sym, Some((number, name)), Vec::new()), values)
            }
        }
    }

    /// Any variant near the top; further down one that ends soon.
    fn variant(&mut self, sym: &Sym, variants: &[(Arc<str>, Vec<Form<'a>>)], depth: u32) -> usize {
        let any = self.random.below(variants.len() as u64) as usize;
        if depth <= 3 {
            return any;
        }
        let info = self.env.info(sym);
        let Some(Shape::Union(declared)) = info.as_deref().map(|i| &i.shape) else {
            return any;
        };
        let cost = |index: usize| {
            declared.get(index).map_or(u32::MAX, |(_, payload)| {
                payload.iter().map(|ty| self.cost(ty, 0)).max().unwrap_or(0)
            })
        };
        (0..variants.len())
            .min_by_key(|index| cost(*index))
            .unwrap_or(any)
    }

    /// How deep the shallowest value of a type is, about.
    fn cost(&self, ty: &Ty, level: u32) -> u32 {
        if level > 6 {
            return 100;
        }
        let Some((sym, _)) = con_of(ty) else { return 1 };
        if sym.starts_with("std/core::") {
            return 1;
        }
        let worst = |parts: &[Ty]| {
            parts
                .iter()
                .map(|ty| self.cost(ty, level + 1))
                .max()
                .unwrap_or(0)
        };
        match self.env.info(sym).as_deref().map(|i| &i.shape) {
            Some(Shape::Record(fields)) => {
                1 + worst(&fields.iter().map(|(_, ty)| ty.clone()).collect::<Vec<_>>())
            }
            Some(Shape::Union(variants)) => {
                1 + variants.iter().map(|(_, p)| worst(p)).min().unwrap_or(0)
            }
            _ => 1,
        }
    }

    fn length(&mut self, hint: Bounds, size: u32) -> u64 {
        let low = hint
            .low
            .map_or(0.0, |l| if hint.low_open { l + 1.0 } else { l })
            .clamp(0.0, 1000.0) as u64;
        let high = hint
            .high
            .map(|h| (if hint.high_open { h - 1.0 } else { h }).clamp(0.0, 1000.0) as u64);
        let high = high
            .unwrap_or(low + u64::from(size))
            .min(low + u64::from(size))
            .max(low);
        low + self.random.below(high - low + 1)
    }

    fn int(&mut self, hint: Bounds, size: u32) -> i64 {
        // Bounds beyond what a float holds exactly are only hints: the check decides.
        let low = hint.low.map(|l| if hint.low_open { l.floor() + 1.0 } else { l.ceil() } as i64);
        let high = hint.high.map(|h| if hint.high_open { h.ceil() - 1.0 } else { h.floor() } as i64);
        let width = match self.random.below(10) {
            0 => return low.or(high).unwrap_or(0),
            1 => return high.or(low).unwrap_or(0),
            2 if low.is_none() && high.is_none() => {
                return [i64::MIN, i64::MAX, -1, 1, 0, i64::from(i32::MAX)]
                    [self.random.below(6) as usize];
            }
            3 => 10_000,
            4 => 1_000_000_000,
            _ => i64::from(size) * 2 + 4,
        };
        let (from, to) = match (low, high) {
            (Some(low), Some(high)) => {
                (low, high.max(low).min(low.saturating_add(width.max(1_000))))
            }
            (Some(low), None) => (low, low.saturating_add(width)),
            (None, Some(high)) => (high.saturating_sub(width), high),
            (None, None) => (-width, width),
        };
        let span = to.abs_diff(from).saturating_add(1);
        from.wrapping_add(self.random.below(span) as i64)
    }

    fn float(&mut self, hint: Bounds, size: u32) -> f64 {
        if hint.low.is_none() && hint.high.is_none() && self.random.below(12) == 0 {
            return [
                0.0,
                -0.0,
                1.0,
                -1.0,
                1e300,
                -1e-300,
                f64::MAX,
                f64::MIN_POSITIVE,
            ][self.random.below(8) as usize];
        }
        let (low, high) = match (hint.low, hint.high) {
            (Some(low), Some(high)) => (low, high),
            (Some(low), None) => (low, low + f64::from(size) * 4.0),
            (None, Some(high)) => (high - f64::from(size) * 4.0, high),
            (None, None) => (-f64::from(size) * 4.0, f64::from(size) * 4.0),
        };
        let part = self.random.below(1025) as f64 / 1024.0;
        low + (high - low) * part
    }

    fn string(&mut self, hint: Bounds, size: u32) -> String {
        const SOME: [char; 12] = ['a', 'b', 'z', 'A', '0', '9', ' ', '-', '"', '\n', 'ß', '雪'];
        let length = self.length(hint, size);
        (0..length)
            .map(|_| SOME[self.random.below(SOME.len() as u64) as usize])
            .collect()
    }

    /// Whether a value satisfies all refinements of its form.
    fn fits(&mut self, form: &Form<'a>, value: &Value, level: u32) -> bool {
        if level > 200 {
            return false;
        }
        match (form.open(self.env), value) {
            (
                Opened::Where {
                    base, condition, ..
                },
                _,
            ) => {
                if !self.fits(&base, value, level + 1) {
                    return false;
                }
                match self.conditions.of(condition) {
                    Some(entry) => self.call(entry + 1, vec![value.clone()]).0.is_ok(),
                    None => true,
                }
            }
            (Opened::List(item), Value::List(list)) => {
                list.0.iter().all(|v| self.fits(&item, v, level + 1))
            }
            (Opened::Map(key, item), Value::Map(map)) => map
                .0
                .iter()
                .all(|(k, v)| self.fits(&key, k, level + 1) && self.fits(&item, v, level + 1)),
            (Opened::Option(item), Value::Data(data)) => {
                data.fields.iter().all(|v| self.fits(&item, v, level + 1))
            }
            (Opened::Record { fields, .. }, Value::Data(data)) => fields
                .iter()
                .zip(&data.fields)
                .all(|((_, form), v)| self.fits(form, v, level + 1)),
            (Opened::Union { variants, .. }, Value::Data(data)) => {
                match variants.get(data.layout.number) {
                    Some((_, payload)) => payload
                        .iter()
                        .zip(&data.fields)
                        .all(|(form, v)| self.fits(form, v, level + 1)),
                    None => false,
                }
            }
            _ => true,
        }
    }

    /// Tries smaller values as long as they fail too; gives the last stop.
    fn shrink(
        &mut self,
        forms: &[Form<'a>],
        args: &mut [Value],
        stop: Stop,
        result: &mut TestResult,
    ) -> Stop {
        let mut last = stop;
        let mut tried = 0;
        'again: loop {
            for index in 0..args.len() {
                for smaller in smaller(&args[index]) {
                    tried += 1;
                    if tried > MAX_SHRINKS || self.left.steps == 0 || (self.stopped)() {
                        return last;
                    }
                    if !self.fits(&forms[index], &smaller, 0) {
                        continue;
                    }
                    let mut next = args.to_vec();
                    next[index] = smaller;
                    if let (Err(stop), log) = self.run(next.clone())
                        && !unjudged(&stop)
                    {
                        args.clone_from_slice(&next);
                        last = stop;
                        result.log = log;
                        result.shrinks += 1;
                        continue 'again;
                    }
                }
            }
            return last;
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Hints {
    value: Bounds,
    length: Bounds,
}

impl Hints {
    /// The outer condition and what the inner one adds.
    fn and(self, value: Bounds, length: Bounds) -> Self {
        let join = |a: Bounds, b: Bounds| Bounds {
            low: match (a.low, b.low) {
                (Some(x), Some(y)) => Some(x.max(y)),
                (x, y) => x.or(y),
            },
            high: match (a.high, b.high) {
                (Some(x), Some(y)) => Some(x.min(y)),
                (x, y) => x.or(y),
            },
            low_open: a.low_open || b.low_open,
            high_open: a.high_open || b.high_open,
        };
        Self {
            value: join(self.value, value),
            length: join(self.length, length),
        }
    }
}

/// Values a step smaller than `value`, the smallest first.
fn smaller(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(true) => vec![Value::Bool(false)],
        Value::Int(n) => {
            let mut out = Vec::new();
            let mut step = *n;
            // 0, then half way, then ever nearer: `n - n/2^k`.
            while step != 0 {
                out.push(Value::Int(n - step));
                step /= 2;
            }
            if *n < 0 && *n != i64::MIN {
                out.insert(1, Value::Int(-n));
            }
            out
        }
        Value::Float(x) => {
            let candidates = [0.0, 1.0, -1.0, x.trunc(), x / 2.0];
            let less = |c: &f64| c.abs() < x.abs() || (c.abs() == x.abs() && *c > *x) || x.is_nan();
            candidates
                .into_iter()
                .filter(less)
                .map(Value::Float)
                .collect()
        }
        Value::Str(s) => {
            let chars: Vec<char> = s.chars().collect();
            let mut out: Vec<Value> = pieces(&chars)
                .into_iter()
                .map(|p| Value::text(&p.into_iter().collect::<String>()))
                .collect();
            for (index, c) in chars.iter().enumerate().take(8) {
                if *c != 'a' {
                    let mut next = chars.clone();
                    next[index] = 'a';
                    out.push(Value::text(&next.into_iter().collect::<String>()));
                }
            }
            out
        }
        Value::List(list) => {
            let mut out: Vec<Value> = pieces(&list.0).into_iter().map(Value::list).collect();
            for (index, item) in list.0.iter().enumerate().take(16) {
                for small in smaller(item).into_iter().take(6) {
                    let mut next = list.0.clone();
                    next[index] = small;
                    out.push(Value::list(next));
                }
            }
            out
        }
        Value::Map(map) => {
            let entries: Vec<(Value, Value)> =
                map.0.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
            let make = |entries: Vec<(Value, Value)>| {
                Value::Map(Arc::new(crate::value::Map(entries.into_iter().collect())))
            };
            pieces(&entries).into_iter().map(make).collect()
        }
        Value::Data(data) => {
            let mut out = Vec::new();
            // A part of the same type is a smaller value of it.
            for field in &data.fields {
                if let Value::Data(inner) = field
                    && inner.layout.sym == data.layout.sym
                {
                    out.push(field.clone());
                }
            }
            for (index, field) in data.fields.iter().enumerate() {
                for small in smaller(field).into_iter().take(8) {
                    let mut fields = data.fields.clone();
                    fields[index] = small;
                    out.push(Value::data(&data.layout, fields));
                }
            }
            out
        }
        _ => Vec::new(),
    }
}

/// A sequence with parts left out: all, halves, quarters, …, single elements.
fn pieces<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    let mut out = Vec::new();
    let mut width = items.len();
    while width > 0 && out.len() < 64 {
        for start in (0..items.len()).step_by(width).take(32) {
            let end = (start + width).min(items.len());
            out.push(
                items[..start]
                    .iter()
                    .chain(&items[end..])
                    .cloned()
                    .collect(),
            );
        }
        width /= 2;
    }
    out
}
