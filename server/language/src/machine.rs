//! Runs code: a stack, frames, and a budget of steps and memory.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::ast::BinOp;
use crate::compile::{CheckKind, NONE, Op, Program};
use crate::host::{Fault, FaultKind, Host, Place, Stop};
use crate::natives::{self, Context, Trouble};
use crate::value::{self, Closure, List, Value};

/// What a run may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Operations; work inside the machine's own functions counts by its size.
    pub steps: u64,
    /// Bytes of live values, about.
    pub memory: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            steps: 50_000_000,
            memory: 256 * 1024 * 1024,
        }
    }
}

/// How deep calls may nest.
const MAX_FRAMES: usize = 100_000;
/// How many places of a stack are told.
const TOLD_FRAMES: usize = 32;
/// How many steps pass between two looks at the clock of whoever waits.
const LOOK_EVERY: u64 = 16_384;

/// What is left of a budget.
#[derive(Debug)]
pub struct Meter {
    /// Steps left.
    pub steps: u64,
    /// Bytes made since the live values were last measured, and those measured.
    pub made: usize,
    /// Bytes that may live.
    pub limit: usize,
}

impl Meter {
    /// Accounts for bytes about to be made.
    pub fn charge(&mut self, bytes: usize) -> Result<(), Trouble> {
        if bytes > self.limit {
            return Err(Trouble::Fault(
                FaultKind::Memory,
                format!("this needs {bytes} bytes of memory at once"),
            ));
        }
        self.made += bytes;
        self.work(bytes / 64)
    }

    /// Accounts for work inside the machine.
    pub fn work(&mut self, steps: usize) -> Result<(), Trouble> {
        match self.steps.checked_sub(steps as u64) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => {
                self.steps = 0;
                Err(Trouble::Fault(
                    FaultKind::Steps,
                    "the steps granted are used up".to_owned(),
                ))
            }
        }
    }
}

struct Frame {
    code: u32,
    pc: usize,
    /// Where its slots begin on the stack.
    base: usize,
}

struct Handler {
    frames: usize,
    stack: usize,
    target: usize,
}

/// A run of a program.
pub struct Machine<'p, 'h> {
    program: &'p Program,
    host: &'h mut dyn Host,
    stack: Vec<Value>,
    frames: Vec<Frame>,
    handlers: Vec<Handler>,
    meter: Meter,
    granted: u64,
}

impl<'p, 'h> Machine<'p, 'h> {
    /// A machine for `program` with a budget.
    pub fn new(program: &'p Program, host: &'h mut dyn Host, budget: Budget) -> Self {
        let meter = Meter {
            steps: budget.steps,
            made: 0,
            limit: budget.memory,
        };
        Self {
            program,
            host,
            stack: Vec::new(),
            frames: Vec::new(),
            handlers: Vec::new(),
            meter,
            granted: budget.steps,
        }
    }

    /// Steps used so far.
    pub fn steps_used(&self) -> u64 {
        self.granted - self.meter.steps
    }

    /// Calls an entry (by its place in [`Program::entries`]).
    pub fn call(&mut self, entry: usize, args: Vec<Value>) -> Result<Value, Stop> {
        self.stack.clear();
        self.frames.clear();
        self.handlers.clear();
        let code = self.program.entries[entry];
        if self.program.codes[code as usize].arity as usize != args.len() {
            return Err(self.stop(
                FaultKind::Broken,
                "called with a wrong number of arguments".to_owned(),
            ));
        }
        let size = args.len();
        self.stack.extend(args);
        let entered = self.enter(code, size);
        let result = entered.and_then(|()| self.run());
        match result {
            Ok(value) => Ok(value),
            Err(Trouble::Fault(kind, message)) => Err(self.stop(kind, message)),
            Err(Trouble::Fail(value)) => {
                let places = self.places();
                Err(Stop::Failure(value, places))
            }
        }
    }

    fn stop(&self, kind: FaultKind, message: String) -> Stop {
        Stop::Fault(Fault {
            kind,
            message,
            stack: self.places(),
        })
    }

    fn places(&self) -> Vec<Place> {
        self.frames
            .iter()
            .rev()
            .take(TOLD_FRAMES)
            .map(|frame| {
                let code = &self.program.codes[frame.code as usize];
                let at = frame
                    .pc
                    .saturating_sub(1)
                    .min(code.spans.len().saturating_sub(1));
                let span = code.spans.get(at).copied().unwrap_or_default();
                Place {
                    function: code.name.to_string(),
                    path: code.path.to_string(),
                    start: code.offset + span.start,
                    end: code.offset + span.end,
                }
            })
            .collect()
    }

    /// Makes a frame for the `size` arguments on top of the stack.
    fn enter(&mut self, code: u32, size: usize) -> Result<(), Trouble> {
        let slots = self.program.codes[code as usize].slots as usize;
        if self.frames.len() >= MAX_FRAMES {
            return Err(Trouble::Fault(
                FaultKind::Stack,
                format!("calls nest deeper than {MAX_FRAMES} levels"),
            ));
        }
        if self.program.codes[code as usize].arity as usize != size {
            return Err(broken("a call with a wrong number of arguments"));
        }
        let base = self.stack.len() - size;
        self.stack.resize(base + slots, Value::Unit);
        if self.stack.len() * size_of::<Value>() > self.meter.limit {
            return Err(out_of_memory());
        }
        self.frames.push(Frame { code, pc: 0, base });
        Ok(())
    }

    fn pop(&mut self) -> Result<Value, Trouble> {
        self.stack.pop().ok_or_else(|| broken("an empty stack"))
    }

    fn pop_n(&mut self, size: u32) -> Result<Vec<Value>, Trouble> {
        let at = self
            .stack
            .len()
            .checked_sub(size as usize)
            .ok_or_else(|| broken("an empty stack"))?;
        Ok(self.stack.split_off(at))
    }

    /// Unwinds to the innermost handler; gives the failure back when there is none.
    fn unwind(&mut self, failure: Value) -> Result<(), Trouble> {
        let Some(handler) = self.handlers.pop() else {
            return Err(Trouble::Fail(failure));
        };
        self.frames.truncate(handler.frames);
        self.stack.truncate(handler.stack);
        self.stack.push(failure);
        if let Some(frame) = self.frames.last_mut() {
            frame.pc = handler.target;
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), Trouble> {
        if self.host.interrupted() {
            return Err(Trouble::Fault(
                FaultKind::Interrupted,
                "the run was stopped from outside".to_owned(),
            ));
        }
        Ok(())
    }

    /// Measures what lives when much was made since the last time.
    fn tidy(&mut self) -> Result<(), Trouble> {
        if self.meter.made <= 2 * self.meter.limit {
            return Ok(());
        }
        let live = value::measure(self.stack.iter());
        self.meter.work(live / 64)?;
        if live > self.meter.limit {
            return Err(out_of_memory());
        }
        self.meter.made = live;
        Ok(())
    }

    fn run(&mut self) -> Result<Value, Trouble> {
        let mut until_look = 0;
        loop {
            let Some(frame) = self.frames.last_mut() else {
                return Err(broken("no frame"));
            };
            let code = &self.program.codes[frame.code as usize];
            let Some(op) = code.ops.get(frame.pc).copied() else {
                return Err(broken("the end of the code"));
            };
            frame.pc += 1;
            let base = frame.base;
            if self.meter.steps == 0 {
                return Err(Trouble::Fault(
                    FaultKind::Steps,
                    "the steps granted are used up".to_owned(),
                ));
            }
            self.meter.steps -= 1;
            until_look += 1;
            if until_look == LOOK_EVERY {
                until_look = 0;
                self.look()?;
            }
            match self.step(op, base) {
                Ok(None) => {}
                Ok(Some(value)) => return Ok(value),
                Err(Trouble::Fail(failure)) => self.unwind(failure)?,
                Err(fault) => return Err(fault),
            }
        }
    }

    fn jump(&mut self, to: u32) {
        if let Some(frame) = self.frames.last_mut() {
            frame.pc = to as usize;
        }
    }

    #[inline(always)]
    fn step(&mut self, op: Op, base: usize) -> Result<Option<Value>, Trouble> {
        match op {
            Op::Const(number) => self
                .stack
                .push(self.program.constants[number as usize].clone()),
            Op::Int(n) => self.stack.push(Value::Int(n)),
            Op::Load(slot) => {
                let value = self.stack[base + slot as usize].clone();
                self.stack.push(value);
            }
            Op::Take(slot) => {
                let value = std::mem::replace(&mut self.stack[base + slot as usize], Value::Unit);
                self.stack.push(value);
            }
            Op::Store(slot) => {
                let value = self.pop()?;
                self.stack[base + slot as usize] = value;
            }
            Op::Pop => drop(self.pop()?),
            Op::Jump(to) => self.jump(to),
            Op::JumpUnless(to) => match self.pop()? {
                Value::Bool(true) => {}
                Value::Bool(false) => self.jump(to),
                _ => return Err(broken("a condition that is no Bool")),
            },
            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem => self.arithmetic(op)?,
            Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => {
                let right = self.pop()?;
                let left = self.pop()?;
                let holds = self.test(op, &left, &right)?;
                self.stack.push(Value::Bool(holds));
            }
            Op::Call { code, size } => self.enter(code, size as usize)?,
            Op::TailCall { code, size } => self.tail(code, size as usize, base)?,
            Op::Return => {
                let value = self.pop()?;
                self.stack.truncate(base);
                self.frames.pop();
                if self.frames.is_empty() {
                    return Ok(Some(value));
                }
                self.stack.push(value);
            }
            other => self.rare(other, base)?,
        }
        Ok(None)
    }

    fn rare(&mut self, op: Op, base: usize) -> Result<(), Trouble> {
        match op {
            Op::List(size) => {
                let items = self.pop_n(size)?;
                self.made(items.len())?;
                self.stack.push(Value::list(items));
            }
            Op::Make { layout, size } => {
                let fields = self.pop_n(size)?;
                self.made(fields.len())?;
                let value = Value::data(&self.program.layouts[layout as usize], fields);
                self.stack.push(value);
            }
            Op::Field(name) => {
                let record = self.pop()?;
                let value = self.named(&record, name)?;
                self.stack.push(value);
            }
            Op::With { names, size } => self.with(names, size)?,
            Op::TestVariant { .. }
            | Op::TestError { .. }
            | Op::TestConst { .. }
            | Op::TestLength { .. } => self.test_pattern(op, base)?,
            Op::Part { slot, index } => {
                let Value::Data(data) = &self.stack[base + slot as usize] else {
                    return Err(broken("no variant"));
                };
                let value = data
                    .fields
                    .get(index as usize)
                    .cloned()
                    .ok_or_else(|| broken("no such payload"))?;
                self.stack.push(value);
            }
            Op::PartNamed { slot, name } => {
                let record = self.stack[base + slot as usize].clone();
                let value = self.named(&record, name)?;
                self.stack.push(value);
            }
            Op::Element { slot, index } => {
                let Value::List(list) = &self.stack[base + slot as usize] else {
                    return Err(broken("no list"));
                };
                let value = list
                    .0
                    .get(index as usize)
                    .cloned()
                    .ok_or_else(|| broken("no such element"))?;
                self.stack.push(value);
            }
            Op::Rest { slot, from } => {
                let Value::List(list) = &self.stack[base + slot as usize] else {
                    return Err(broken("no list"));
                };
                let rest = list
                    .0
                    .get(from as usize..)
                    .ok_or_else(|| broken("no rest"))?
                    .to_vec();
                self.made(rest.len())?;
                self.meter.work(rest.len() / 4)?;
                self.stack.push(Value::list(rest));
            }
            Op::Concat => self.concat()?,
            Op::Not => match self.pop()? {
                Value::Bool(b) => self.stack.push(Value::Bool(!b)),
                _ => return Err(broken("`!` of no Bool")),
            },
            Op::Neg => match self.pop()? {
                Value::Int(n) => {
                    let value = n
                        .checked_neg()
                        .ok_or_else(|| overflow(&format!("-({n})")))?;
                    self.stack.push(Value::Int(value));
                }
                Value::Float(x) => self.stack.push(Value::Float(-x)),
                _ => return Err(broken("`-` of no number")),
            },
            Op::Text(size) => {
                let parts = self.pop_n(size)?;
                let length = |part: &Value| {
                    if let Value::Str(s) = part {
                        s.len()
                    } else {
                        24
                    }
                };
                self.meter.charge(parts.iter().map(length).sum())?;
                let mut text = String::new();
                for part in &parts {
                    natives::push_text(&mut text, part)
                        .ok_or_else(|| broken("a value that a string cannot show"))?;
                }
                self.stack.push(Value::text(&text));
                self.tidy()?;
            }
            Op::CallValue(size) => {
                let (code, size) = self.callee(size as usize)?;
                self.enter(code, size)?;
            }
            Op::TailCallValue(size) => {
                let (code, size) = self.callee(size as usize)?;
                self.tail(code, size, base)?;
            }
            Op::Native { native, size } => self.native(native, size)?,
            Op::Closure { code, captured } => {
                let captured = self.pop_n(captured)?;
                self.made(captured.len())?;
                self.stack
                    .push(Value::Closure(Arc::new(Closure { code, captured })));
            }
            Op::Fail => {
                let failure = self.pop()?;
                return Err(Trouble::Fail(failure));
            }
            Op::Reraise(slot) => {
                return Err(Trouble::Fail(self.stack[base + slot as usize].clone()));
            }
            Op::PushHandler(target) => {
                let (frames, stack) = (self.frames.len(), self.stack.len());
                self.handlers.push(Handler {
                    frames,
                    stack,
                    target: target as usize,
                });
            }
            Op::PopHandler(_) => drop(self.handlers.pop()),
            Op::Check { kind, text, slot } => self.check(kind, text, slot, base)?,
            Op::AssertOp { op, text } => self.assert(op, text)?,
            Op::Hole(name) => {
                let message = format!("the hole `?{}` is not filled", self.constant_text(name));
                return Err(Trouble::Fault(FaultKind::Hole, message));
            }
            _ => return Err(broken("a value that no arm takes")),
        }
        Ok(())
    }

    fn made(&mut self, values: usize) -> Result<(), Trouble> {
        self.meter.charge(48 + values * size_of::<Value>())?;
        self.tidy()
    }

    fn constant_text(&self, number: u32) -> &str {
        match &self.program.constants[number as usize] {
            Value::Str(text) => text,
            _ => "",
        }
    }

    fn tail(&mut self, code: u32, size: usize, base: usize) -> Result<(), Trouble> {
        let from = self
            .stack
            .len()
            .checked_sub(size)
            .ok_or_else(|| broken("an empty stack"))?;
        self.frames.pop();
        // The old slots go, the arguments take their place.
        self.stack.drain(base..from);
        self.enter(code, size)
    }

    /// Unpacks a function value under `size` arguments: its captured values go before them.
    fn callee(&mut self, size: usize) -> Result<(u32, usize), Trouble> {
        let at = self
            .stack
            .len()
            .checked_sub(size + 1)
            .ok_or_else(|| broken("an empty stack"))?;
        let Value::Closure(closure) = self.stack[at].clone() else {
            return Err(broken("a call of no function"));
        };
        self.stack.splice(at..=at, closure.captured.iter().cloned());
        Ok((closure.code, size + closure.captured.len()))
    }

    fn named(&self, record: &Value, name: u32) -> Result<Value, Trouble> {
        let Value::Data(data) = record else {
            return Err(broken("a field of no record"));
        };
        let name = self.constant_text(name);
        let index = data.layout.fields.iter().position(|f| &**f == name);
        let found = index.and_then(|i| data.fields.get(i)).cloned();
        found.ok_or_else(|| broken("no such field"))
    }

    fn with(&mut self, names: u32, size: u32) -> Result<(), Trouble> {
        let values = self.pop_n(size)?;
        let Value::Data(mut data) = self.pop()? else {
            return Err(broken("`..` of no record"));
        };
        let Value::List(names) = &self.program.constants[names as usize] else {
            return Err(broken("no names"));
        };
        self.made(data.fields.len())?;
        let record = Arc::make_mut(&mut data);
        for (name, value) in names.0.iter().zip(values) {
            let Value::Str(name) = name else {
                return Err(broken("no name"));
            };
            let index = record
                .layout
                .fields
                .iter()
                .position(|f| f == name)
                .ok_or_else(|| broken("no such field"))?;
            record.fields[index] = value;
        }
        self.stack.push(Value::Data(data));
        Ok(())
    }

    fn test_pattern(&mut self, op: Op, base: usize) -> Result<(), Trouble> {
        let (fits, otherwise) = match op {
            Op::TestVariant {
                slot,
                number,
                otherwise,
            } => {
                let Value::Data(data) = &self.stack[base + slot as usize] else {
                    return Err(broken("no variant"));
                };
                (data.layout.number == number as usize, otherwise)
            }
            Op::TestError {
                slot,
                layout,
                otherwise,
            } => {
                let Value::Data(data) = &self.stack[base + slot as usize] else {
                    return Err(broken("no failure"));
                };
                (
                    data.layout.sym == self.program.layouts[layout as usize].sym,
                    otherwise,
                )
            }
            Op::TestConst {
                slot,
                value,
                otherwise,
            } => {
                let constant = &self.program.constants[value as usize];
                let found = &self.stack[base + slot as usize];
                (
                    value::compare(found, constant, false) == Some(Ordering::Equal),
                    otherwise,
                )
            }
            Op::TestLength {
                slot,
                length,
                exact,
                otherwise,
            } => {
                let Value::List(list) = &self.stack[base + slot as usize] else {
                    return Err(broken("no list"));
                };
                let found = list.0.len();
                (
                    if exact {
                        found == length as usize
                    } else {
                        found >= length as usize
                    },
                    otherwise,
                )
            }
            _ => (true, 0),
        };
        if !fits {
            self.jump(otherwise);
        }
        Ok(())
    }

    #[inline(always)]
    fn arithmetic(&mut self, op: Op) -> Result<(), Trouble> {
        let right = self.pop()?;
        let left = self.pop()?;
        let value = match (&left, &right) {
            (Value::Int(a), Value::Int(b)) => Value::Int(int(op, *a, *b)?),
            (Value::Float(a), Value::Float(b)) => Value::Float(match op {
                Op::Add => a + b,
                Op::Sub => a - b,
                Op::Mul => a * b,
                Op::Div => a / b,
                _ => a % b,
            }),
            _ => return Err(broken("arithmetic on no numbers")),
        };
        self.stack.push(value);
        Ok(())
    }

    #[inline(always)]
    fn test(&mut self, op: Op, left: &Value, right: &Value) -> Result<bool, Trouble> {
        let order = match (left, right) {
            (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
            (Value::Str(a), Value::Str(b)) => {
                self.meter.work(a.len().min(b.len()) / 64)?;
                Some(a.cmp(b))
            }
            _ if matches!(op, Op::Eq | Op::Ne) => {
                match value::compare_within(left, right, false, &mut self.meter.steps) {
                    Some(order) => order,
                    None => return self.meter.work(usize::MAX).map(|()| false),
                }
            }
            _ => return Err(broken("a comparison of what has no order")),
        };
        Ok(match op {
            Op::Eq => order == Some(Ordering::Equal),
            Op::Ne => order != Some(Ordering::Equal),
            Op::Lt => order == Some(Ordering::Less),
            Op::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Op::Gt => order == Some(Ordering::Greater),
            _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        })
    }

    fn concat(&mut self) -> Result<(), Trouble> {
        let right = self.pop()?;
        let left = self.pop()?;
        let value = match (left, right) {
            (Value::Str(a), Value::Str(b)) => {
                self.meter.charge(a.len() + b.len() + 16)?;
                Value::text(&[&*a, &*b].concat())
            }
            (Value::List(mut a), Value::List(b)) => {
                let unique = Arc::get_mut(&mut a).is_some();
                let size = if unique {
                    b.0.len()
                } else {
                    a.0.len() + b.0.len()
                };
                self.meter.charge(48 + size * size_of::<Value>())?;
                Arc::make_mut(&mut a).0.extend(b.0.iter().cloned());
                Value::List(a)
            }
            _ => return Err(broken("`++` of what cannot be joined")),
        };
        self.stack.push(value);
        self.tidy()
    }

    fn native(&mut self, native: u32, size: u32) -> Result<(), Trouble> {
        let at = self
            .stack
            .len()
            .checked_sub(size as usize)
            .ok_or_else(|| broken("an empty stack"))?;
        let mut context = Context {
            host: &mut *self.host,
            layouts: &self.program.known,
            meter: &mut self.meter,
        };
        let value = natives::run(native as usize, &mut context, &mut self.stack[at..])?;
        self.stack.truncate(at);
        self.stack.push(value);
        self.tidy()
    }

    fn check(&mut self, kind: CheckKind, text: u32, slot: u32, base: usize) -> Result<(), Trouble> {
        match self.pop()? {
            Value::Bool(true) => return Ok(()),
            Value::Bool(false) => {}
            _ => return Err(broken("a condition that is no Bool")),
        }
        let text = self.constant_text(text);
        let found = match slot {
            NONE => String::new(),
            slot => format!(", found {}", value::show(&self.stack[base + slot as usize])),
        };
        let (kind, message) = match kind {
            CheckKind::Refinement => (FaultKind::Refinement, format!("{text}{found}")),
            CheckKind::Requires => (FaultKind::Requires, format!("{text}, which does not hold")),
            CheckKind::Ensures => (
                FaultKind::Ensures,
                format!("{text}, which does not hold{found}"),
            ),
            CheckKind::Assert => (FaultKind::Assert, format!("`{text}` does not hold")),
        };
        Err(Trouble::Fault(kind, message))
    }

    fn assert(&mut self, op: BinOp, text: u32) -> Result<(), Trouble> {
        let right = self.pop()?;
        let left = self.pop()?;
        if self.test(crate::compile::operator(op), &left, &right)? {
            return Ok(());
        }
        let (left, right) = (value::show(&left), value::show(&right));
        let message = format!(
            "`{}` does not hold: left is {left}, right is {right}",
            self.constant_text(text)
        );
        Err(Trouble::Fault(FaultKind::Assert, message))
    }
}

#[inline(always)]
fn int(op: Op, a: i64, b: i64) -> Result<i64, Trouble> {
    let (result, sign) = match op {
        Op::Add => (a.checked_add(b), '+'),
        Op::Sub => (a.checked_sub(b), '-'),
        Op::Mul => (a.checked_mul(b), '*'),
        _ if b == 0 => {
            let message = format!("{a} is divided by zero");
            return Err(Trouble::Fault(FaultKind::DivisionByZero, message));
        }
        Op::Div => (a.checked_div(b), '/'),
        _ => (a.checked_rem(b), '%'),
    };
    result.ok_or_else(|| overflow(&format!("{a} {sign} {b}")))
}

#[cold]
fn overflow(what: &str) -> Trouble {
    Trouble::Fault(FaultKind::Overflow, format!("{what} does not fit into Int"))
}

#[cold]
fn out_of_memory() -> Trouble {
    Trouble::Fault(
        FaultKind::Memory,
        "the memory granted is used up".to_owned(),
    )
}

#[cold]
fn broken(what: &str) -> Trouble {
    Trouble::Fault(FaultKind::Broken, format!("the machine met {what}"))
}

/// A list's items, for those who hold a value.
pub fn items(value: &Value) -> Option<&[Value]> {
    match value {
        Value::List(list) => {
            let List(items) = &**list;
            Some(items)
        }
        _ => None,
    }
}
