//! EDN printed so that reading it gives an equal value, on one line.

use super::{Decimal, Edn, base64_text};
use std::fmt::{self, Display, Formatter, Write as _};

impl Display for Edn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Edn::Nil => f.write_str("nil"),
            Edn::Bool(v) => write!(f, "{v}"),
            Edn::Int(v) => write!(f, "{v}"),
            Edn::BigInt(v) => write!(f, "{v}N"),
            Edn::Double(v) => double(*v, f),
            Edn::Decimal(v) => decimal(v, f),
            Edn::Char(v) => character(*v, f),
            Edn::Str(v) => string(v, f),
            Edn::Keyword(v) => write!(f, ":{v}"),
            Edn::Symbol(v) => f.write_str(v),
            Edn::Inst(v) => write!(f, "#inst \"{v}\""),
            Edn::Uuid(v) => uuid(v, f),
            Edn::Bytes(v) => write!(f, "#base64 \"{}\"", base64_text(v)),
            Edn::List(items) => sequence("(", items, ")", f),
            Edn::Vector(items) => sequence("[", items, "]", f),
            Edn::Set(items) => sequence("#{", items, "}", f),
            Edn::Map(members) => {
                f.write_char('{')?;
                for (i, (key, value)) in members.iter().enumerate() {
                    let gap = if i == 0 { "" } else { " " };
                    write!(f, "{gap}{key} {value}")?;
                }
                f.write_char('}')
            }
            Edn::Tagged(tag, value) => write!(f, "#{tag} {value}"),
        }
    }
}

fn sequence(open: &str, items: &[Edn], close: &str, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(open)?;
    for (i, item) in items.iter().enumerate() {
        let gap = if i == 0 { "" } else { " " };
        write!(f, "{gap}{item}")?;
    }
    f.write_str(close)
}

fn double(v: f64, f: &mut Formatter<'_>) -> fmt::Result {
    if v.is_nan() {
        f.write_str("##NaN")
    } else if v.is_infinite() {
        f.write_str(if v > 0.0 { "##Inf" } else { "##-Inf" })
    } else {
        // Rust's debug form keeps a point or an exponent, so it never reads back as an integer.
        write!(f, "{v:?}")
    }
}

fn decimal(v: &Decimal, f: &mut Formatter<'_>) -> fmt::Result {
    let digits = v.unscaled.magnitude().to_string();
    let sign = if v.unscaled.sign() == num_bigint::Sign::Minus {
        "-"
    } else {
        ""
    };
    let scale = v.scale as usize;
    if scale == 0 {
        return write!(f, "{sign}{digits}M");
    }
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    write!(f, "{sign}{whole}.{fraction}M")
}

fn character(v: char, f: &mut Formatter<'_>) -> fmt::Result {
    match v {
        '\n' => f.write_str("\\newline"),
        '\r' => f.write_str("\\return"),
        ' ' => f.write_str("\\space"),
        '\t' => f.write_str("\\tab"),
        c if (c.is_control() || c.is_whitespace()) && (c as u32) < 0x1_0000 => {
            write!(f, "\\u{:04x}", c as u32)
        }
        c => write!(f, "\\{c}"),
    }
}

fn string(text: &str, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                write!(f, "\\u{:04x}", c as u32)?
            }
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

fn uuid(bytes: &[u8; 16], f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str("#uuid \"")?;
    for (i, byte) in bytes.iter().enumerate() {
        let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
        write!(f, "{dash}{byte:02x}")?;
    }
    f.write_char('"')
}
