//! The functions and predicates that a query can call.

use crate::edn::{Edn, compare_numbers};
use crate::error::{Error, Kind, Result, nearest};
use crate::query::parse::Term;
use num_bigint::BigInt;
use std::cmp::Ordering;

/// A function by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Quotient,
    Remainder,
    Modulo,
    Increment,
    Decrement,
    Str,
    Count,
    Ground,
    Identity,
    LowerCase,
    StartsWith,
    EndsWith,
    Includes,
    GetElse,
    Missing,
    Fulltext,
}

/// Name, function, fewest and most arguments.
const FUNCTIONS: &[(&str, Function, usize, usize)] = &[
    ("<", Function::Less, 2, 64),
    ("<=", Function::LessOrEqual, 2, 64),
    (">", Function::Greater, 2, 64),
    (">=", Function::GreaterOrEqual, 2, 64),
    ("=", Function::Equal, 2, 64),
    ("==", Function::Equal, 2, 64),
    ("not=", Function::NotEqual, 2, 64),
    ("!=", Function::NotEqual, 2, 64),
    ("+", Function::Add, 1, 64),
    ("-", Function::Subtract, 1, 64),
    ("*", Function::Multiply, 1, 64),
    ("/", Function::Divide, 2, 64),
    ("quot", Function::Quotient, 2, 2),
    ("rem", Function::Remainder, 2, 2),
    ("mod", Function::Modulo, 2, 2),
    ("inc", Function::Increment, 1, 1),
    ("dec", Function::Decrement, 1, 1),
    ("str", Function::Str, 0, 64),
    ("count", Function::Count, 1, 1),
    ("ground", Function::Ground, 1, 1),
    ("identity", Function::Identity, 1, 1),
    ("clojure.string/lower-case", Function::LowerCase, 1, 1),
    ("clojure.string/starts-with?", Function::StartsWith, 2, 2),
    ("clojure.string/ends-with?", Function::EndsWith, 2, 2),
    ("clojure.string/includes?", Function::Includes, 2, 2),
    ("get-else", Function::GetElse, 3, 3),
    ("missing?", Function::Missing, 2, 2),
    ("fulltext", Function::Fulltext, 2, 2),
];

fn bad(message: impl Into<String>) -> Error {
    Error::new(Kind::BadQuery, message)
}

impl Function {
    pub(crate) fn named(name: &str) -> Result<Function> {
        if let Some((_, function, ..)) = FUNCTIONS.iter().find(|(n, ..)| *n == name) {
            return Ok(*function);
        }
        let names = FUNCTIONS.iter().map(|(n, ..)| *n);
        let hint = match nearest(name, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are {}", names.collect::<Vec<_>>().join(" ")),
        };
        Err(bad(format!("there is no function `{name}`; {hint}")))
    }

    fn name(self) -> &'static str {
        FUNCTIONS
            .iter()
            .find(|(_, f, ..)| *f == self)
            .map_or("", |(name, ..)| name)
    }

    pub(crate) fn check(self, args: &[Term]) -> Result<()> {
        let Some((name, _, fewest, most)) = FUNCTIONS.iter().find(|(_, f, ..)| *f == self) else {
            return Ok(());
        };
        if !(*fewest..=*most).contains(&args.len()) {
            return Err(bad(format!(
                "`{name}` takes {fewest} to {most} arguments and got {}",
                args.len()
            )));
        }
        let attribute = match self {
            Function::GetElse | Function::Missing => 1,
            Function::Fulltext => 0,
            _ => return Ok(()),
        };
        match args[attribute] {
            Term::Const(Edn::Keyword(_)) => Ok(()),
            _ => Err(bad(format!(
                "`{name}` needs the attribute as a keyword, such as :person/name"
            ))),
        }
    }

    /// May stand without a binding: it says yes or no.
    pub(crate) fn is_predicate(self) -> bool {
        matches!(
            self,
            Function::Less
                | Function::LessOrEqual
                | Function::Greater
                | Function::GreaterOrEqual
                | Function::Equal
                | Function::NotEqual
                | Function::StartsWith
                | Function::EndsWith
                | Function::Includes
                | Function::Missing
        )
    }

    /// Needs the facts, so `$` may be its first argument.
    pub(crate) fn reads_database(self) -> bool {
        matches!(
            self,
            Function::GetElse | Function::Missing | Function::Fulltext
        )
    }

    /// The result for functions that do not read the database.
    pub(crate) fn apply(self, args: &[&Edn]) -> Result<Edn> {
        let chain = |holds: fn(Ordering) -> bool| {
            Ok(Edn::Bool(
                args.windows(2).all(|p| holds(compare(p[0], p[1]))),
            ))
        };
        match self {
            Function::Less => chain(Ordering::is_lt),
            Function::LessOrEqual => chain(Ordering::is_le),
            Function::Greater => chain(Ordering::is_gt),
            Function::GreaterOrEqual => chain(Ordering::is_ge),
            Function::Equal => Ok(Edn::Bool(args.windows(2).all(|p| same(p[0], p[1])))),
            Function::NotEqual => Ok(Edn::Bool(!args.windows(2).all(|p| same(p[0], p[1])))),
            Function::Add => self.fold(args, Edn::Int(0)),
            Function::Multiply => self.fold(args, Edn::Int(1)),
            Function::Subtract if args.len() == 1 => self.arithmetic(&Edn::Int(0), args[0]),
            Function::Subtract | Function::Divide => self.fold(&args[1..], args[0].clone()),
            Function::Quotient | Function::Remainder | Function::Modulo => {
                self.arithmetic(args[0], args[1])
            }
            Function::Increment => Function::Add.arithmetic(args[0], &Edn::Int(1)),
            Function::Decrement => Function::Subtract.arithmetic(args[0], &Edn::Int(1)),
            Function::Str => Ok(Edn::Str(
                args.iter()
                    .map(|v| plain_text(v))
                    .collect::<String>()
                    .into(),
            )),
            Function::Count => count(args[0]),
            Function::Ground | Function::Identity => Ok(args[0].clone()),
            Function::LowerCase => Ok(Edn::str(&self.text(args[0])?.to_lowercase())),
            Function::StartsWith => Ok(Edn::Bool(
                self.text(args[0])?.starts_with(self.text(args[1])?),
            )),
            Function::EndsWith => Ok(Edn::Bool(
                self.text(args[0])?.ends_with(self.text(args[1])?),
            )),
            Function::Includes => Ok(Edn::Bool(self.text(args[0])?.contains(self.text(args[1])?))),
            Function::GetElse | Function::Missing | Function::Fulltext => {
                Err(bad("this function reads the database"))
            }
        }
    }

    fn text(self, value: &Edn) -> Result<&str> {
        value.as_str().ok_or_else(|| {
            bad(format!(
                "`{}` takes strings, and {} is {}",
                self.name(),
                value.brief(60),
                value.kind()
            ))
        })
    }

    fn fold(self, args: &[&Edn], start: Edn) -> Result<Edn> {
        args.iter()
            .try_fold(start, |sum, next| self.arithmetic(&sum, next))
    }

    pub(crate) fn arithmetic(self, left: &Edn, right: &Edn) -> Result<Edn> {
        for value in [left, right] {
            if !matches!(value, Edn::Int(_) | Edn::BigInt(_) | Edn::Double(_)) {
                return Err(bad(format!(
                    "`{}` takes numbers, and {} is {}",
                    self.name(),
                    value.brief(60),
                    value.kind()
                )));
            }
        }
        match (left, right) {
            (Edn::Double(_), _) | (_, Edn::Double(_)) => {
                self.doubles(to_double(left), to_double(right))
            }
            (Edn::Int(a), Edn::Int(b)) => match self.longs(*a, *b) {
                Some(result) => Ok(result),
                None => self.bigs(&BigInt::from(*a), &BigInt::from(*b), false),
            },
            _ => self.bigs(&to_big(left), &to_big(right), true),
        }
    }

    /// None when a long is too small for the result, or the case is one for big integers.
    fn longs(self, a: i64, b: i64) -> Option<Edn> {
        match self {
            Function::Add => a.checked_add(b).map(Edn::Int),
            Function::Subtract => a.checked_sub(b).map(Edn::Int),
            Function::Multiply => a.checked_mul(b).map(Edn::Int),
            _ => None,
        }
    }

    fn bigs(self, a: &BigInt, b: &BigInt, stay_big: bool) -> Result<Edn> {
        let zero = BigInt::from(0);
        let divides = !matches!(
            self,
            Function::Add | Function::Subtract | Function::Multiply
        );
        if divides && *b == zero {
            return Err(bad(format!("`{}` divides {a} by zero", self.name())));
        }
        let result = match self {
            Function::Add => a + b,
            Function::Subtract => a - b,
            Function::Multiply => a * b,
            Function::Divide if a % b != zero => {
                return self.doubles(big_to_double(a), big_to_double(b));
            }
            Function::Divide | Function::Quotient => a / b,
            Function::Remainder => a % b,
            _ => ((a % b) + b) % b,
        };
        if result.bits() > 100_000 {
            return Err(bad(format!(
                "`{}` gives a number of more than 100000 bits",
                self.name()
            )));
        }
        Ok(match i64::try_from(&result) {
            Ok(small) if !stay_big => Edn::Int(small),
            _ => Edn::big(result),
        })
    }

    fn doubles(self, a: f64, b: f64) -> Result<Edn> {
        if b == 0.0
            && matches!(
                self,
                Function::Divide | Function::Quotient | Function::Remainder | Function::Modulo
            )
        {
            return Err(bad(format!("`{}` divides {a} by zero", self.name())));
        }
        Ok(Edn::Double(match self {
            Function::Add => a + b,
            Function::Subtract => a - b,
            Function::Multiply => a * b,
            Function::Divide => a / b,
            Function::Quotient => (a / b).trunc(),
            Function::Remainder => a % b,
            _ => ((a % b) + b) % b,
        }))
    }
}

/// Numbers by their value, everything else by type and then value, so that no comparison fails.
pub(crate) fn compare(left: &Edn, right: &Edn) -> Ordering {
    compare_numbers(left, right).unwrap_or_else(|| left.cmp(right))
}

/// As Clojure's `=`: a long is equal to a bigint, but not to a double.
fn same(left: &Edn, right: &Edn) -> bool {
    match (left, right) {
        (Edn::Double(a), Edn::Double(b)) => a == b,
        (Edn::Double(_), _) | (_, Edn::Double(_)) => false,
        _ => compare(left, right).is_eq(),
    }
}

fn to_big(value: &Edn) -> BigInt {
    match value {
        Edn::Int(n) => BigInt::from(*n),
        Edn::BigInt(n) => (**n).clone(),
        _ => BigInt::default(),
    }
}

pub(crate) fn to_double(value: &Edn) -> f64 {
    match value {
        Edn::Double(d) => *d,
        Edn::Int(n) => *n as f64,
        Edn::BigInt(n) => big_to_double(n),
        _ => f64::NAN,
    }
}

fn big_to_double(number: &BigInt) -> f64 {
    // Decimal text is the one exact road to the nearest double that needs no further crate.
    number.to_string().parse().unwrap_or(f64::NAN)
}

fn plain_text(value: &Edn) -> String {
    match value {
        Edn::Nil => String::new(),
        Edn::Str(text) => text.to_string(),
        Edn::Char(c) => c.to_string(),
        other => other.to_string(),
    }
}

fn count(value: &Edn) -> Result<Edn> {
    let count = match value {
        Edn::Nil => 0,
        Edn::Str(text) => text.chars().count(),
        Edn::Bytes(bytes) => bytes.len(),
        Edn::List(items) | Edn::Vector(items) | Edn::Set(items) => items.len(),
        Edn::Map(members) => members.len(),
        other => {
            return Err(bad(format!(
                "`count` takes a string or a collection, and {} is {}",
                other.brief(60),
                other.kind()
            )));
        }
    };
    Ok(Edn::Int(count as i64))
}
