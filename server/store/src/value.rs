//! Values on their way into SQLite and back, so that SQLite's order is the order of the type.
//!
//! Within one attribute all values have one type, so a column without affinity holds them all:
//! text for strings and keywords (UTF-8 sorts by code point), integers for longs, booleans, instants
//! and refs, reals for doubles, blobs for the rest.

use crate::edn::{Edn, Instant};
use crate::error::{Error, Kind, Result};
use crate::schema::ValueType;
use num_bigint::{BigInt, Sign};
use rusqlite::types::{ToSqlOutput, Value as Owned, ValueRef};
use std::borrow::Cow;

/// The value as the type wants it, or None when it is of another type. A long is taken for a
/// bigint, which loses nothing; there is no other conversion.
pub(crate) fn fit(value_type: ValueType, value: &Edn) -> Option<Cow<'_, Edn>> {
    let fits = match (value_type, value) {
        (ValueType::BigInt, Edn::Int(n)) => return Some(Cow::Owned(Edn::big(BigInt::from(*n)))),
        // One zero: SQLite's indices do not tell them apart.
        (ValueType::Double, Edn::Double(d)) if *d == 0.0 => {
            return Some(Cow::Owned(Edn::Double(0.0)));
        }
        (ValueType::Double, Edn::Double(d)) => !d.is_nan(),
        (ValueType::Ref, Edn::Int(n)) => *n >= 0,
        (ValueType::String, Edn::Str(_))
        | (ValueType::Long, Edn::Int(_))
        | (ValueType::Boolean, Edn::Bool(_))
        | (ValueType::Instant, Edn::Inst(_))
        | (ValueType::Keyword, Edn::Keyword(_))
        | (ValueType::Uuid, Edn::Uuid(_))
        | (ValueType::BigInt, Edn::BigInt(_))
        | (ValueType::Bytes, Edn::Bytes(_)) => true,
        _ => false,
    };
    fits.then_some(Cow::Borrowed(value))
}

/// A value that [`fit`] let through, for SQLite.
pub(crate) fn encode(value: &Edn) -> ToSqlOutput<'_> {
    match value {
        Edn::Str(text) | Edn::Keyword(text) => {
            ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()))
        }
        Edn::Int(n) => ToSqlOutput::Owned(Owned::Integer(*n)),
        Edn::Bool(b) => ToSqlOutput::Owned(Owned::Integer(i64::from(*b))),
        Edn::Inst(i) => ToSqlOutput::Owned(Owned::Integer(i.millis())),
        Edn::Double(d) => ToSqlOutput::Owned(Owned::Real(*d)),
        Edn::Uuid(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        Edn::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        Edn::BigInt(n) => ToSqlOutput::Owned(Owned::Blob(encode_big(n))),
        _ => ToSqlOutput::Owned(Owned::Null),
    }
}

/// What [`encode`] wrote.
pub(crate) fn decode(value_type: ValueType, stored: ValueRef<'_>) -> Result<Edn> {
    let text = |bytes: &[u8]| {
        std::str::from_utf8(bytes)
            .ok()
            .map(std::sync::Arc::<str>::from)
    };
    let value = match (value_type, stored) {
        (ValueType::String, ValueRef::Text(bytes)) => text(bytes).map(Edn::Str),
        (ValueType::Keyword, ValueRef::Text(bytes)) => text(bytes).map(Edn::Keyword),
        (ValueType::Long | ValueType::Ref, ValueRef::Integer(n)) => Some(Edn::Int(n)),
        (ValueType::Boolean, ValueRef::Integer(n)) => Some(Edn::Bool(n != 0)),
        (ValueType::Instant, ValueRef::Integer(n)) => Instant::from_millis(n).map(Edn::Inst),
        (ValueType::Double, ValueRef::Real(d)) => Some(Edn::Double(d)),
        (ValueType::Uuid, ValueRef::Blob(bytes)) => bytes.try_into().ok().map(Edn::Uuid),
        (ValueType::Bytes, ValueRef::Blob(bytes)) => Some(Edn::Bytes(bytes.into())),
        (ValueType::BigInt, ValueRef::Blob(bytes)) => decode_big(bytes).map(Edn::big),
        _ => None,
    };
    value.ok_or_else(|| {
        Error::new(
            Kind::BadFile,
            format!(
                "the memory file is damaged: a value is not of its type {}",
                value_type.ident()
            ),
        )
    })
}

/// Sign, length, digits; for negative numbers all bits turned round: blobs sort as the numbers do.
fn encode_big(number: &BigInt) -> Vec<u8> {
    let (sign, digits) = number.to_bytes_be();
    let digits: &[u8] = if sign == Sign::NoSign { &[] } else { &digits };
    let mut bytes = vec![1];
    bytes.extend((digits.len() as u32).to_be_bytes());
    bytes.extend(digits);
    if sign == Sign::Minus {
        for byte in &mut bytes[1..] {
            *byte = !*byte;
        }
        bytes[0] = 0;
    }
    bytes
}

fn decode_big(bytes: &[u8]) -> Option<BigInt> {
    let (sign, digits) = (bytes.first()?, bytes.get(5..)?);
    Some(match sign {
        1 => BigInt::from_bytes_be(Sign::Plus, digits),
        0 => BigInt::from_bytes_be(Sign::Minus, &digits.iter().map(|b| !b).collect::<Vec<_>>()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn big_integers_sort_as_blobs(a in any::<i128>(), b in any::<i128>(), shift in 0u32..200) {
            let (a, b) = (BigInt::from(a) << shift, BigInt::from(b));
            prop_assert_eq!(encode_big(&a).cmp(&encode_big(&b)), a.cmp(&b));
            prop_assert_eq!(decode_big(&encode_big(&a)), Some(a));
        }
    }

    #[test]
    fn a_value_of_another_type_does_not_fit() {
        assert!(fit(ValueType::Double, &Edn::Int(1)).is_none());
        assert!(fit(ValueType::Keyword, &Edn::str("a")).is_none());
        assert!(fit(ValueType::Double, &Edn::Double(f64::NAN)).is_none());
        assert_eq!(
            fit(ValueType::BigInt, &Edn::Int(7)).as_deref(),
            Some(&Edn::big(7.into()))
        );
    }
}
