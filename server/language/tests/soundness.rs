//! A program that checks without errors and has no holes never meets, when it runs, what checking
//! is there to rule out: a value of a wrong type, an effect or a failure that is not declared.

mod common;

use common::programs::{Function, LABELS, Maker, T};
use proptest::prelude::*;
use touchstone_language::analysis::Analyzer;
use touchstone_language::compile::{Entry, compile};
use touchstone_language::host::{FaultKind, Host, Random, Refusal, Stop};
use touchstone_language::machine::{Budget, Machine};
use touchstone_language::names::full;
use touchstone_language::value::Value;

/// A host that grants everything and remembers what was used.
#[derive(Default)]
struct Witness {
    used: [bool; 5],
    ticks: i64,
}

impl Host for Witness {
    fn print(&mut self, _: &str) -> Result<(), Refusal> {
        self.used[0] = true;
        Ok(())
    }
    fn now(&mut self) -> Result<i64, Refusal> {
        self.used[1] = true;
        self.ticks += 1;
        Ok(self.ticks)
    }
    fn random(&mut self) -> Result<u64, Refusal> {
        self.used[2] = true;
        Ok(u64::MAX / 3)
    }
}

/// A value of a type, made by the language itself: functions that return literals.
fn argument(ty: T) -> &'static str {
    match ty {
        T::Int => "7",
        T::Float => "-2.5",
        T::Bool => "true",
        T::Str => "\"word\"",
        T::Unit => "()",
        T::Ints => "[5, -1, 0]",
        T::Strs => "[\"a\"]",
        T::Opt => "Some(3)",
        T::Point => "Point { x: -4, y: 0.5 }",
        T::Shape => "Group([Dot, Circle(1.5)], Point { x: 1, y: 1.0 })",
        T::Fun => "n -> n - 1",
        T::Pair => "Pair { first: 2, second: \"b\" }",
    }
}

/// Calls the function and gives what went wrong with soundness, if anything did.
fn violation(text: &str, function: &Function) -> Option<String> {
    let args: Vec<&str> = function.params.iter().map(|ty| argument(*ty)).collect();
    let declared = text
        .lines()
        .find(|l| l.starts_with(&format!("fn {}(", function.name)))?;
    let row = declared.rfind(" ! ").map_or("", |at| &declared[at..]);
    // The caller declares everything, so only the callee can be wrong.
    let entry = format!(
        "{text}\nfn entry() -> {} ! {{Print, Clock, Random, Fail<Empty | TooBig>}} {{ {}({}) }}\n",
        function.ret.text(),
        function.name,
        args.join(", ")
    );
    let mut analyzer = Analyzer::new();
    let env = analyzer.env(&common::snapshot(&[("main.sakura", &entry)]));
    let checked = analyzer.check(&env, None, &|| false);
    if checked.has_errors() {
        return None;
    }
    let program = compile(&env, &[Entry::Function(full("main", "entry"))]).ok()?;
    let mut host = Witness::default();
    let budget = Budget {
        steps: 200_000,
        memory: 8 << 20,
    };
    let result = Machine::new(&program, &mut host, budget).call(0, Vec::new());
    match &result {
        Err(Stop::Fault(fault)) if fault.kind == FaultKind::Broken => {
            return Some(fault.message.clone());
        }
        Err(Stop::Failure(Value::Data(data), _)) if !row.contains(&*data.layout.name) => {
            return Some(format!("undeclared failure {}", data.layout.name));
        }
        _ => {}
    }
    (0..3)
        .find(|i| host.used[*i] && !row.contains(LABELS[*i]))
        .map(|i| format!("undeclared effect {}", LABELS[i]))
}

fn check_seed(seed: u64, noise: u64) -> Result<bool, TestCaseError> {
    let mut maker = Maker::new(seed, noise);
    let text = maker.program(3);
    let (_, checked) = common::analyse(&[("main.sakura", &text)]);
    if checked.has_errors() || !checked.holes.is_empty() {
        if noise == 0 {
            let errors: Vec<String> = common::shown(&checked);
            return Err(TestCaseError::fail(format!(
                "the maker means well, but: {errors:#?}\n{text}"
            )));
        }
        return Ok(false);
    }
    for function in maker.functions.clone() {
        if let Some(what) = violation(&text, &function) {
            return Err(TestCaseError::fail(format!(
                "{what} in {}\n{text}",
                function.name
            )));
        }
    }
    Ok(true)
}

proptest! {
    #![proptest_config(common::cases(60))]

    #[test]
    fn well_typed_programs_are_accepted_and_run_soundly(seed in any::<u64>()) {
        check_seed(seed, 0)?;
    }

    #[test]
    fn programs_with_mistakes_that_are_accepted_run_soundly(seed in any::<u64>()) {
        check_seed(seed, 60)?;
    }
}

#[test]
fn the_mistakes_are_few_enough_that_some_programs_are_accepted_and_many_enough_that_some_are_not() {
    let mut random = Random::new(7);
    let accepted = (0..60)
        .filter(|_| check_seed(random.bits(), 60).unwrap())
        .count();
    assert!((5..55).contains(&accepted), "{accepted} of 60");
}
