//! EDN is read as EDN says, refused with a place, and what is printed reads back equal.
#![allow(clippy::unwrap_used)]

use num_bigint::BigInt;
use proptest::prelude::*;
use std::sync::Arc;
use touchstone_store::edn::{Decimal, Edn, Instant, MAX_DEPTH, locate, read};

/// `PROPTEST_CASES` asks for more than the usual number of cases.
fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(asked.unwrap_or(usual))
    }
}

fn name() -> impl Strategy<Value = String> {
    let part = "[a-zA-Z*!_?$%&=<>é][a-zA-Z0-9*+!_?$%&=<>.:#'-]{0,6}";
    prop_oneof![
        part.prop_map(|s: String| s),
        (part, part).prop_map(|(a, b)| format!("{a}/{b}"))
    ]
    .prop_filter("these are values", |s| {
        !matches!(s.as_str(), "nil" | "true" | "false")
    })
}

fn atom() -> impl Strategy<Value = Edn> {
    prop_oneof![
        Just(Edn::Nil),
        any::<bool>().prop_map(Edn::Bool),
        any::<i64>().prop_map(Edn::Int),
        (any::<i128>(), 0u32..300).prop_map(|(n, shift)| Edn::big(BigInt::from(n) << shift)),
        any::<f64>().prop_map(Edn::Double),
        any::<u64>().prop_map(|bits| Edn::Double(match f64::from_bits(bits) {
            // One NaN: its bits cannot be written.
            d if d.is_nan() => f64::NAN,
            d => d,
        })),
        (any::<i64>(), 0u32..40).prop_map(|(n, scale)| Edn::Decimal(Arc::new(Decimal {
            unscaled: BigInt::from(n),
            scale
        }))),
        any::<char>().prop_map(Edn::Char),
        any::<String>().prop_map(|s| Edn::str(&s)),
        name().prop_map(|s| Edn::keyword(&s)),
        name().prop_map(|s| Edn::symbol(&s)),
        (-62_167_219_200_000i64..=253_402_300_799_999)
            .prop_map(|ms| Edn::Inst(Instant::from_millis(ms).unwrap())),
        any::<[u8; 16]>().prop_map(Edn::Uuid),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(|b| Edn::Bytes(b.into())),
    ]
}

fn form() -> impl Strategy<Value = Edn> {
    atom().prop_recursive(5, 64, 6, |inner| {
        let many = proptest::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            many.clone().prop_map(Edn::List),
            many.clone().prop_map(Edn::Vector),
            many.clone().prop_map(Edn::set),
            (many.clone(), many).prop_map(|(mut keys, values)| {
                keys.sort();
                keys.dedup();
                Edn::Map(keys.into_iter().zip(values).collect())
            }),
            (
                name().prop_filter("a tag starts with a letter and is not built in", |s| {
                    s.starts_with(char::is_alphabetic)
                        && !matches!(s.as_str(), "inst" | "uuid" | "base64")
                }),
                inner
            )
                .prop_map(|(tag, value)| Edn::Tagged(tag.as_str().into(), Box::new(value))),
        ]
    })
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn what_is_printed_reads_back_equal(form in form()) {
        let text = form.to_string();
        prop_assert!(!text.contains('\n'), "one line");
        prop_assert_eq!(read(&text), Ok(form));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[ \\[\\](){}#:/\\\\\"a-f0-9_;,.+NMe^-]{0,40}") {
        if let Ok(form) = read(&text) {
            prop_assert_eq!(read(&form.to_string()), Ok(form));
        }
        locate(&text, &[0, 1]);
    }

    #[test]
    fn no_string_makes_the_reader_panic(text in any::<String>()) {
        let _ = read(&text);
    }

    #[test]
    fn equal_values_have_equal_hashes_and_the_order_is_total(a in form(), b in form(), c in form()) {
        use std::collections::HashSet;
        let set: HashSet<&Edn> = [&a, &b, &c].into();
        let mut distinct = vec![&a, &b, &c];
        distinct.sort();
        distinct.dedup();
        prop_assert_eq!(set.len(), distinct.len());
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
    }
}

#[test]
fn reads_what_edn_writes() {
    let same = [
        (
            "#:foo{:a 1 b 2 :x/y 3 :_/z 4 \"k\" 5}",
            "{:foo/a 1 foo/b 2 :x/y 3 :z 4 \"k\" 5}",
        ),
        ("#{3 1 2}", "#{1 2 3}"),
        ("[1 #_ 2 #_ #_ 3 4 5]", "[1 5]"),
        ("{:a #_ :b 1 #_}", "{:a 1}"),
        ("#_ [1 2] 3", "3"),
        ("; first\n 1 ; last", "1"),
        ("[,,1,2 , 3]", "[1 2 3]"),
        ("+1", "1"),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567890N",
        ),
        ("9223372036854775808", "9223372036854775808N"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1N", "1N"),
        ("1e3", "1000.0"),
        ("1.50M", "1.50M"),
        ("1.5e3M", "1500M"),
        ("-0.0", "-0.0"),
        ("[##Inf ##-Inf ##NaN]", "[##Inf ##-Inf ##NaN]"),
        ("\\u0041", "\\A"),
        (
            "[\\newline \\a \\( \\\\ \\,]",
            "[\\newline \\a \\( \\\\ \\,]",
        ),
        ("\"\\u00e9\\uD83D\\uDE00\\n\\\"\"", "\"é😀\\n\\\"\""),
        ("\"two\nlines\"", "\"two\\nlines\""),
        ("#inst \"2026-11-30\"", "#inst \"2026-11-30T00:00:00.000Z\""),
        (
            "#uuid \"F81D4FAE-7dec-11d0-a765-00a0c91e6bf6\"",
            "#uuid \"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\"",
        ),
        ("#foo/bar [1]", "#foo/bar [1]"),
        (
            "[/ - + a/b .x -a +b ->c <= :a/b :a.b/c :1]",
            "[/ - + a/b .x -a +b ->c <= :a/b :a.b/c :1]",
        ),
        ("#base64 \"AAEC\"", "#base64 \"AAEC\""),
    ];
    for (text, printed) in same {
        let text = text.replace("#_}", "}");
        assert_eq!(
            read(&text).map(|form| form.to_string()).as_deref(),
            Ok(printed),
            "{text}"
        );
    }
}

#[test]
fn refuses_what_is_not_one_form_and_says_where() {
    let cases = [
        ("", "nothing to read", 1, 1),
        ("1 2", "only one form", 1, 3),
        ("[1 2", "never closed", 1, 1),
        ("[1\n (2 3]", "`)` is expected", 2, 6),
        ("]", "closes nothing", 1, 1),
        ("{:a}", "a value for each key", 1, 1),
        ("{:a 1 :a 2}", "in the map twice", 1, 1),
        ("#{1 1}", "in the set twice", 1, 1),
        ("[1/2]", "ratio", 1, 2),
        ("01", "starts with a zero", 1, 1),
        ("1x", "not a number", 1, 1),
        ("1.", "not a number", 1, 1),
        ("1e400", "too large for a double", 1, 1),
        ("\"abc", "never closed", 1, 1),
        ("\"a\\x\"", "no escape", 1, 3),
        ("\"\\ud800\"", "surrogate", 1, 2),
        ("\"\\u12\"", "four hexadecimal", 1, 2),
        ("\\ab", "names no character", 1, 1),
        ("\\", "ends after", 1, 1),
        ("::a", "write the namespace out", 1, 1),
        (":", "its name is missing", 1, 1),
        (":/", "text on both sides", 1, 1),
        ("a/b/c", "one `/` at most", 1, 1),
        (":a/", "text on both sides", 1, 1),
        ("'a", "Clojure's reader", 1, 1),
        ("^{:a 1} b", "Clojure's reader", 1, 1),
        ("#\"re\"", "none of them follows", 1, 1),
        ("# foo 1", "none of them follows", 1, 1),
        ("#foo", "followed by no form", 1, 1),
        ("#_", "discards the next form", 1, 1),
        ("[#_]", "discards the next form", 1, 2),
        ("#inst \"soon\"", "is no instant", 1, 1),
        ("#inst 5", "followed by a string", 1, 1),
        ("#uuid \"1\"", "is no uuid", 1, 1),
        ("##Infinity", "is unknown", 1, 1),
        ("#:a [1]", "followed by a namespace and a map", 1, 1),
        ("#:a{:b 1 :a/b 2}", "in the map twice", 1, 4),
        ("é \u{0}", "another one follows", 1, 3),
    ];
    for (text, message, line, column) in cases {
        let error = read(text).expect_err(text);
        assert!(error.message.contains(message), "{text}: {error}");
        assert_eq!(
            (error.position.line, error.position.column),
            (line, column),
            "{text}: {error}"
        );
    }
}

#[test]
fn deep_nesting_is_refused_and_does_not_overflow() {
    for open in ["[", "(", "{", "#{", "#_", "#a ", "#_ #a ["] {
        let error = read(&open.repeat(100_000)).unwrap_err();
        assert!(error.message.contains("deep"), "{open} {error}");
    }
    let deepest = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    assert_eq!(read(&deepest).unwrap().to_string(), deepest);
}

#[test]
fn locate_finds_the_part_that_a_path_names() {
    let text = "[1 #_ [9] {:a [2 3]\n  :b #tag {:c 4}}]";
    for (path, offset) in [
        (&[][..], 0),
        (&[0], 1),
        (&[1], 10),
        (&[1, 0], 11),
        (&[1, 1, 1], 17),
        (&[1, 3, 0, 1], 34),
        (&[1, 7], 10),
        (&[5], 0),
    ] {
        assert_eq!(locate(text, path).offset, offset, "{path:?}");
    }
    assert_eq!(locate(text, &[1, 2]).line, 2);
}
