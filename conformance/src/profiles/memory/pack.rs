//! What the checks record, ask and expect, as data: `fixtures/memory/pack.toml`.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

const TEXT: &str = include_str!("../../../../fixtures/memory/pack.toml");

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pack {
    /// One turn: the attributes that the checks use.
    pub vocabulary: String,
    /// One turn: what is known of three people.
    pub facts: String,
    pub query: Vec<Query>,
    pub value: Vec<ValueType>,
    pub bad: Vec<Bad>,
    pub argument: Vec<Argument>,
}

/// A query over the facts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    /// The rule, without its `memory.recall.`.
    pub rule: String,
    pub query: String,
    pub args: Option<String>,
    pub finds: String,
}

/// A value type, with values of it and of others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ValueType {
    #[serde(rename = "type")]
    pub name: String,
    pub good: Vec<String>,
    pub bad: Vec<String>,
}

/// Texts that no `tx` may be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bad {
    /// The rule, without its `memory.edn.`.
    pub rule: String,
    pub texts: Vec<String>,
}

/// A call with an argument that is no EDN.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Argument {
    pub tool: String,
    pub arguments: Value,
}

/// The file that is built in.
pub(super) static PACK: LazyLock<Pack> = LazyLock::new(|| {
    // The embedded data is read without a fault: the test below proves it.
    toml::from_str(TEXT).unwrap_or_default()
});

#[cfg(test)]
mod tests {
    use super::super::edn::read;
    use super::*;
    use crate::spec::requirement;

    #[test]
    fn the_pack_is_read_and_names_rules_of_the_catalogue() {
        let pack: Pack = toml::from_str(TEXT).unwrap();
        for query in &pack.query {
            let id = format!("memory.recall.{}", query.rule);
            assert!(requirement::get(&id).is_some(), "{id}");
        }
        for bad in &pack.bad {
            let id = format!("memory.edn.{}", bad.rule);
            assert!(requirement::get(&id).is_some(), "{id}");
        }
    }

    #[test]
    fn what_is_expected_is_edn() {
        read(&PACK.vocabulary).unwrap();
        read(&PACK.facts).unwrap();
        for query in &PACK.query {
            read(&query.query).unwrap();
            read(&query.finds).unwrap();
            query.args.iter().for_each(|args| {
                read(args).unwrap();
            });
        }
        for value in &PACK.value {
            for text in value.good.iter().chain(&value.bad) {
                read(text).unwrap();
            }
        }
    }

    #[test]
    fn what_is_called_malformed_is_so() {
        // A tag and a literal may be known to a reader; that they mean nothing is for a server to say.
        let lexical = |rule: &str| !["unknown-tag", "bad-literal"].contains(&rule);
        for bad in PACK.bad.iter().filter(|bad| lexical(&bad.rule)) {
            for text in &bad.texts {
                assert!(read(text).is_err(), "{text}");
            }
        }
    }
}
