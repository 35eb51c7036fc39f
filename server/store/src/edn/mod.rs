//! EDN, the notation that facts, queries and answers are written in.
//!
//! Why a reader of our own: the two kept crates were tried on the same inputs first.
//! `clojure-reader` 0.7 refuses big integers (`1N`), `\u` escapes and characters, reads `1e400` as
//! infinity and `#:ns{}` as a tagged map, and prints 1e22 as an integer. `edn-format` 3.3 overflows
//! the stack on deep nesting, reads `a#` as `a`, refuses surrogate pairs and integers beyond 64
//! bits, and prints `-0.0` and `1e22` as integers, so that they do not read back equal.

mod instant;
mod print;
mod read;

use base64::Engine as _;
use num_bigint::BigInt;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub use instant::Instant;
pub use read::{MAX_DEPTH, Position, ReadError, locate, read};

/// One EDN value.
///
/// Equality is by type and content (`1` and `1.0` and `1N` differ, `0.0` and `-0.0` differ, a NaN
/// equals itself); the order of a map's members does not matter. The order is total: by type
/// first, save that the three kinds of number are compared as numbers.
#[derive(Clone)]
pub enum Edn {
    /// `nil`
    Nil,
    /// `true` or `false`
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// An integer of any size: `12N`, or one that does not fit 64 bits.
    BigInt(Arc<BigInt>),
    /// A 64-bit float, `##Inf`, `##-Inf` and `##NaN` included.
    Double(f64),
    /// An exact decimal, `1.50M`.
    Decimal(Arc<Decimal>),
    /// A character, `\a`.
    Char(char),
    /// A string.
    Str(Arc<str>),
    /// A keyword, without its colon: `person/name`.
    Keyword(Arc<str>),
    /// A symbol.
    Symbol(Arc<str>),
    /// `#inst "…"`, to the millisecond.
    Inst(Instant),
    /// `#uuid "…"`
    Uuid([u8; 16]),
    /// `#base64 "…"`: bytes, for which EDN has no notation of its own.
    Bytes(Arc<[u8]>),
    /// `(…)`
    List(Vec<Edn>),
    /// `[…]`
    Vector(Vec<Edn>),
    /// `{…}`, members in the order they were written.
    Map(Vec<(Edn, Edn)>),
    /// `#{…}`, sorted and without duplicates: made by [`Edn::set`].
    Set(Vec<Edn>),
    /// Any other tagged literal.
    Tagged(Arc<str>, Box<Edn>),
}

/// An exact decimal: `unscaled * 10^-scale`. `1.50M` and `1.5M` differ, as they do when read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal {
    /// All digits, with the sign.
    pub unscaled: BigInt,
    /// How many of the digits stand behind the point.
    pub scale: u32,
}

impl Edn {
    /// A keyword from its text without the colon.
    pub fn keyword(name: &str) -> Edn {
        Edn::Keyword(name.into())
    }

    /// A string.
    pub fn str(text: &str) -> Edn {
        Edn::Str(text.into())
    }

    /// A symbol.
    pub fn symbol(name: &str) -> Edn {
        Edn::Symbol(name.into())
    }

    /// A big integer.
    pub fn big(number: BigInt) -> Edn {
        Edn::BigInt(Arc::new(number))
    }

    /// A set: sorted, duplicates dropped.
    pub fn set(mut items: Vec<Edn>) -> Edn {
        items.sort();
        items.dedup();
        Edn::Set(items)
    }

    /// A map with keyword keys, in the order given.
    pub fn map<const N: usize>(members: [(&str, Edn); N]) -> Edn {
        Edn::Map(
            members
                .into_iter()
                .map(|(key, value)| (Edn::keyword(key), value))
                .collect(),
        )
    }

    /// The member of a map under a keyword.
    pub fn get(&self, key: &str) -> Option<&Edn> {
        match self {
            Edn::Map(members) => members
                .iter()
                .find(|(k, _)| k.as_keyword() == Some(key))
                .map(|(_, v)| v),
            _ => None,
        }
    }

    /// The text of a keyword, without the colon.
    pub fn as_keyword(&self) -> Option<&str> {
        match self {
            Edn::Keyword(name) => Some(name),
            _ => None,
        }
    }

    /// The text of a symbol.
    pub fn as_symbol(&self) -> Option<&str> {
        match self {
            Edn::Symbol(name) => Some(name),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Edn::Str(text) => Some(text),
            _ => None,
        }
    }

    /// A 64-bit integer.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Edn::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The items of a vector or a list.
    pub fn as_sequence(&self) -> Option<&[Edn]> {
        match self {
            Edn::List(items) | Edn::Vector(items) => Some(items),
            _ => None,
        }
    }

    /// What a person would call this kind of value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Edn::Nil => "nil",
            Edn::Bool(_) => "a boolean",
            Edn::Int(_) => "a long",
            Edn::BigInt(_) => "a bigint",
            Edn::Double(_) => "a double",
            Edn::Decimal(_) => "a decimal",
            Edn::Char(_) => "a character",
            Edn::Str(_) => "a string",
            Edn::Keyword(_) => "a keyword",
            Edn::Symbol(_) => "a symbol",
            Edn::Inst(_) => "an instant",
            Edn::Uuid(_) => "a uuid",
            Edn::Bytes(_) => "bytes",
            Edn::List(_) => "a list",
            Edn::Vector(_) => "a vector",
            Edn::Map(_) => "a map",
            Edn::Set(_) => "a set",
            Edn::Tagged(..) => "a tagged literal",
        }
    }

    /// The value printed and cut to about `limit` characters, for messages.
    pub fn brief(&self, limit: usize) -> String {
        let text = self.to_string();
        if text.chars().count() <= limit {
            return text;
        }
        let cut: String = text.chars().take(limit).collect();
        format!("{cut}…")
    }

    fn rank(&self) -> u8 {
        match self {
            Edn::Nil => 0,
            Edn::Bool(_) => 1,
            Edn::Int(_) | Edn::BigInt(_) | Edn::Double(_) => 2,
            Edn::Decimal(_) => 3,
            Edn::Char(_) => 4,
            Edn::Str(_) => 5,
            Edn::Keyword(_) => 6,
            Edn::Symbol(_) => 7,
            Edn::Inst(_) => 8,
            Edn::Uuid(_) => 9,
            Edn::Bytes(_) => 10,
            Edn::List(_) => 11,
            Edn::Vector(_) => 12,
            Edn::Map(_) => 13,
            Edn::Set(_) => 14,
            Edn::Tagged(..) => 15,
        }
    }
}

/// Compares numbers by their value: `Some(Equal)` for `1`, `1N` and `1.0`. None unless both are
/// a long, a bigint or a double. A NaN is greater than every other number.
pub fn compare_numbers(left: &Edn, right: &Edn) -> Option<Ordering> {
    Some(match (left, right) {
        (Edn::Int(a), Edn::Int(b)) => a.cmp(b),
        (Edn::BigInt(a), Edn::BigInt(b)) => a.cmp(b),
        (Edn::Double(a), Edn::Double(b)) => match a.partial_cmp(b) {
            Some(order) => order,
            None => a.is_nan().cmp(&b.is_nan()),
        },
        (Edn::Int(a), Edn::BigInt(b)) => BigInt::from(*a).cmp(b),
        (Edn::BigInt(a), Edn::Int(b)) => a.as_ref().cmp(&BigInt::from(*b)),
        (Edn::Int(a), Edn::Double(b)) => compare_with_double(&BigInt::from(*a), *b),
        (Edn::Double(a), Edn::Int(b)) => compare_with_double(&BigInt::from(*b), *a).reverse(),
        (Edn::BigInt(a), Edn::Double(b)) => compare_with_double(a, *b),
        (Edn::Double(a), Edn::BigInt(b)) => compare_with_double(b, *a).reverse(),
        _ => return None,
    })
}

/// Exact: a double is a whole part, which a big integer holds, and a rest.
fn compare_with_double(whole: &BigInt, double: f64) -> Ordering {
    if double.is_nan() || double == f64::INFINITY {
        return Ordering::Less;
    }
    if double == f64::NEG_INFINITY {
        return Ordering::Greater;
    }
    let truncated = double_to_big(double.trunc());
    whole.cmp(&truncated).then_with(|| {
        0.0f64
            .partial_cmp(&double.fract())
            .unwrap_or(Ordering::Equal)
    })
}

/// A finite double without a fraction as an integer.
fn double_to_big(whole: f64) -> BigInt {
    let bits = whole.abs().to_bits();
    let exponent = (bits >> 52) as i64 - 1075;
    let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
    let magnitude = if whole == 0.0 {
        BigInt::from(0)
    } else if exponent >= 0 {
        BigInt::from(mantissa) << exponent as u64
    } else {
        BigInt::from(mantissa >> (-exponent).min(63) as u32)
    };
    if whole < 0.0 { -magnitude } else { magnitude }
}

fn sorted(members: &[(Edn, Edn)]) -> Vec<&(Edn, Edn)> {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by(|a, b| a.0.cmp(&b.0));
    members
}

impl Ord for Edn {
    fn cmp(&self, other: &Edn) -> Ordering {
        let by_rank = self.rank().cmp(&other.rank());
        if by_rank != Ordering::Equal {
            return by_rank;
        }
        match (self, other) {
            (Edn::Bool(a), Edn::Bool(b)) => a.cmp(b),
            (Edn::Int(a), Edn::Int(b)) => a.cmp(b),
            (Edn::Double(a), Edn::Double(b)) if a.to_bits() == b.to_bits() => Ordering::Equal,
            (Edn::Int(_) | Edn::BigInt(_) | Edn::Double(_), _) => {
                // Numbers that are worth the same still differ by type; -0.0 and 0.0 by their sign.
                let by_type = |v: &Edn| match v {
                    Edn::Int(_) => 0,
                    Edn::BigInt(_) => 1,
                    _ => 2,
                };
                compare_numbers(self, other)
                    .unwrap_or(Ordering::Equal)
                    .then_with(|| by_type(self).cmp(&by_type(other)))
                    .then_with(|| match (self, other) {
                        (Edn::Double(a), Edn::Double(b)) => a.total_cmp(b),
                        _ => Ordering::Equal,
                    })
            }
            (Edn::Decimal(a), Edn::Decimal(b)) => a.cmp(b),
            (Edn::Char(a), Edn::Char(b)) => a.cmp(b),
            (Edn::Str(a), Edn::Str(b))
            | (Edn::Keyword(a), Edn::Keyword(b))
            | (Edn::Symbol(a), Edn::Symbol(b)) => a.cmp(b),
            (Edn::Inst(a), Edn::Inst(b)) => a.cmp(b),
            (Edn::Uuid(a), Edn::Uuid(b)) => a.cmp(b),
            (Edn::Bytes(a), Edn::Bytes(b)) => a.cmp(b),
            (Edn::List(a), Edn::List(b))
            | (Edn::Vector(a), Edn::Vector(b))
            | (Edn::Set(a), Edn::Set(b)) => a.cmp(b),
            (Edn::Map(a), Edn::Map(b)) => sorted(a).cmp(&sorted(b)),
            (Edn::Tagged(a, x), Edn::Tagged(b, y)) => a.cmp(b).then_with(|| x.cmp(y)),
            _ => Ordering::Equal,
        }
    }
}

impl PartialOrd for Edn {
    fn partial_cmp(&self, other: &Edn) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Edn {
    fn eq(&self, other: &Edn) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Edn {}

impl Hash for Edn {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Edn::Nil => {}
            Edn::Bool(v) => v.hash(state),
            Edn::Int(v) => v.hash(state),
            Edn::BigInt(v) => v.hash(state),
            Edn::Double(v) => v.to_bits().hash(state),
            Edn::Decimal(v) => v.hash(state),
            Edn::Char(v) => v.hash(state),
            Edn::Str(v) | Edn::Keyword(v) | Edn::Symbol(v) => v.hash(state),
            Edn::Inst(v) => v.hash(state),
            Edn::Uuid(v) => v.hash(state),
            Edn::Bytes(v) => v.hash(state),
            Edn::List(v) | Edn::Vector(v) | Edn::Set(v) => v.hash(state),
            Edn::Map(v) => sorted(v).hash(state),
            Edn::Tagged(tag, v) => {
                tag.hash(state);
                v.hash(state);
            }
        }
    }
}

impl std::fmt::Debug for Edn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl From<i64> for Edn {
    fn from(number: i64) -> Edn {
        Edn::Int(number)
    }
}

impl From<bool> for Edn {
    fn from(value: bool) -> Edn {
        Edn::Bool(value)
    }
}

fn base64_text(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn base64_bytes(text: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}
