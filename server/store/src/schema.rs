//! The vocabulary: which attributes there are, of which type, and what holds for them.
//!
//! The schema is data: facts about attribute entities, read back from the store. The attributes
//! below describe themselves, so the first ids and names are fixed here.

use crate::edn::Edn;
use crate::error::{Error, Kind, Result, nearest};
use std::collections::HashMap;
use std::sync::Arc;

/// Transaction `t` is the entity `TX_BASE + t`; every other entity is below.
pub const TX_BASE: i64 = 1 << 40;

/// The first id given to an entity that is not built in.
pub const FIRST_ID: i64 = 1000;

pub(crate) const IDENT: i64 = 1;
pub(crate) const VALUE_TYPE: i64 = 2;
pub(crate) const CARDINALITY: i64 = 3;
pub(crate) const UNIQUE: i64 = 4;
pub(crate) const DOC: i64 = 5;
pub(crate) const FULLTEXT: i64 = 6;
pub(crate) const IS_COMPONENT: i64 = 7;
pub(crate) const INDEX: i64 = 8;
pub(crate) const TX_INSTANT: i64 = 10;
pub(crate) const SESSION: i64 = 11;
pub(crate) const SESSION_ID: i64 = 12;
pub(crate) const SOURCE: i64 = 13;

const MANY: i64 = 31;
const ONE: i64 = 30;
const IDENTITY: i64 = 40;
const VALUE: i64 = 41;

/// The type of an attribute's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// Text.
    String,
    /// A 64-bit integer.
    Long,
    /// A 64-bit float, but no NaN: it equals nothing, so it could not be found or retracted.
    Double,
    /// True or false.
    Boolean,
    /// A moment, to the millisecond.
    Instant,
    /// A keyword.
    Keyword,
    /// A UUID.
    Uuid,
    /// Another entity.
    Ref,
    /// An integer of any size.
    BigInt,
    /// Bytes.
    Bytes,
}

/// Name, entity id and type of the ten types.
const TYPES: &[(&str, i64, ValueType)] = &[
    ("db.type/string", 20, ValueType::String),
    ("db.type/long", 21, ValueType::Long),
    ("db.type/double", 22, ValueType::Double),
    ("db.type/boolean", 23, ValueType::Boolean),
    ("db.type/instant", 24, ValueType::Instant),
    ("db.type/keyword", 25, ValueType::Keyword),
    ("db.type/uuid", 26, ValueType::Uuid),
    ("db.type/ref", 27, ValueType::Ref),
    ("db.type/bigint", 28, ValueType::BigInt),
    ("db.type/bytes", 29, ValueType::Bytes),
];

impl ValueType {
    /// The ident of the type, without the colon: `db.type/string`.
    pub fn ident(self) -> &'static str {
        TYPES
            .iter()
            .find(|(_, _, t)| *t == self)
            .map_or("", |(name, _, _)| name)
    }

    /// All types, for messages.
    pub(crate) fn idents() -> String {
        TYPES
            .iter()
            .map(|(name, _, _)| format!(":{name}"))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// How a value of this type is written, for messages.
    pub(crate) fn example(self) -> &'static str {
        match self {
            ValueType::String => "a string, \"Ada\"",
            ValueType::Long => "a long, 36",
            ValueType::Double => "a double with a point, 36.0",
            ValueType::Boolean => "true or false",
            ValueType::Instant => "an instant, #inst \"2026-01-31T12:00:00Z\"",
            ValueType::Keyword => "a keyword, :red",
            ValueType::Uuid => "a uuid, #uuid \"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\"",
            ValueType::Ref => {
                "an entity: an id, a \"tempid\", an :ident, a lookup ref [:person/name \"Ada\"] or a map"
            }
            ValueType::BigInt => "a bigint, 36N",
            ValueType::Bytes => "bytes, #base64 \"AAEC\"",
        }
    }
}

/// Whether one value identifies its entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unique {
    /// A new fact with a value already known is about the entity that has it (upsert).
    Identity,
    /// A second entity with the same value is refused.
    Value,
}

/// A registered attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its entity.
    pub id: i64,
    /// Its name, without the colon.
    pub ident: Arc<str>,
    /// The type of its values.
    pub value_type: ValueType,
    /// Whether an entity may have several values.
    pub many: bool,
    /// Whether a value identifies its entity.
    pub unique: Option<Unique>,
    /// Whether its texts can be searched.
    pub fulltext: bool,
    /// Whether the entities it refers to are parts: retracted and pulled with their owner.
    pub component: bool,
    /// What it means.
    pub doc: Option<Arc<str>>,
}

impl Attribute {
    /// Written by the store alone: the provenance of facts.
    pub(crate) fn is_reserved(&self) -> bool {
        matches!(self.id, TX_INSTANT | SESSION | SESSION_ID)
    }

    /// Describes an attribute, so that changing it changes the schema.
    pub(crate) fn is_schema(&self) -> bool {
        self.id < TX_INSTANT
    }

    /// Part of what every memory has.
    pub fn is_built_in(&self) -> bool {
        self.id < FIRST_ID
    }

    /// The attribute as the map that registers it.
    pub fn to_edn(&self) -> Edn {
        let cardinality = if self.many {
            "db.cardinality/many"
        } else {
            "db.cardinality/one"
        };
        let mut members = vec![
            ("db/ident", Edn::Keyword(self.ident.clone())),
            ("db/valueType", Edn::keyword(self.value_type.ident())),
            ("db/cardinality", Edn::keyword(cardinality)),
        ];
        match self.unique {
            Some(Unique::Identity) => {
                members.push(("db/unique", Edn::keyword("db.unique/identity")))
            }
            Some(Unique::Value) => members.push(("db/unique", Edn::keyword("db.unique/value"))),
            None => {}
        }
        if self.component {
            members.push(("db/isComponent", Edn::Bool(true)));
        }
        if self.fulltext {
            members.push(("db/fulltext", Edn::Bool(true)));
        }
        if let Some(doc) = &self.doc {
            members.push(("db/doc", Edn::Str(doc.clone())));
        }
        Edn::Map(
            members
                .into_iter()
                .map(|(key, value)| (Edn::keyword(key), value))
                .collect(),
        )
    }
}

/// All attributes and idents at one time.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    by_id: HashMap<i64, Arc<Attribute>>,
    by_name: HashMap<Arc<str>, Arc<Attribute>>,
    idents: HashMap<Arc<str>, i64>,
    names: HashMap<i64, Arc<str>>,
}

impl Schema {
    /// The attribute with a name.
    ///
    /// # Errors
    /// `UnknownAttribute`, with the nearest registered name.
    pub fn attribute(&self, name: &str) -> Result<&Arc<Attribute>> {
        self.by_name.get(name).ok_or_else(|| {
            let near = nearest(name, self.by_name.values().map(|a| &*a.ident));
            let hint = match near {
                Some(near) => format!("did you mean :{near}?"),
                None => format!(
                    "register it in a turn of its own: {{:db/ident :{name} :db/valueType :db.type/string :db/cardinality :db.cardinality/one}}"
                ),
            };
            Error::new(Kind::UnknownAttribute, format!("the attribute :{name} is not registered; {hint}"))
                .attribute(name)
                .nearest(near)
        })
    }

    /// The attribute with an id.
    pub fn by_id(&self, id: i64) -> Option<&Arc<Attribute>> {
        self.by_id.get(&id)
    }

    /// The entity that an ident names.
    pub fn ident(&self, name: &str) -> Option<i64> {
        self.idents.get(name).copied()
    }

    /// The ident of an entity.
    pub fn name(&self, id: i64) -> Option<&Arc<str>> {
        self.names.get(&id)
    }

    /// All attributes, by name.
    pub fn attributes(&self) -> Vec<&Arc<Attribute>> {
        let mut all: Vec<_> = self.by_id.values().collect();
        all.sort_by(|a, b| a.ident.cmp(&b.ident));
        all
    }

    /// The nearest name to one that is no ident.
    pub(crate) fn nearest_ident(&self, name: &str) -> Option<&str> {
        nearest(name, self.idents.keys().map(|n| &**n))
    }

    /// Reads the schema from the current facts about attributes and idents.
    ///
    /// # Errors
    /// `BadSchema` when an attribute's facts are not complete or do not go together.
    pub(crate) fn from_facts(facts: impl Iterator<Item = (i64, i64, Edn)>) -> Result<Schema> {
        let mut entities: HashMap<i64, HashMap<i64, Edn>> = HashMap::new();
        for (e, a, v) in facts {
            entities.entry(e).or_default().insert(a, v);
        }
        let mut schema = Schema::default();
        for (id, facts) in entities {
            let ident = match facts.get(&IDENT) {
                Some(Edn::Keyword(name)) => Some(name.clone()),
                _ => None,
            };
            if let Some(name) = &ident {
                schema.idents.insert(name.clone(), id);
                schema.names.insert(id, name.clone());
            }
            if let Some(attribute) = attribute_from_facts(id, ident, &facts)? {
                let attribute = Arc::new(attribute);
                schema
                    .by_name
                    .insert(attribute.ident.clone(), attribute.clone());
                schema.by_id.insert(id, attribute);
            }
        }
        Ok(schema)
    }
}

fn attribute_from_facts(
    id: i64,
    ident: Option<Arc<str>>,
    facts: &HashMap<i64, Edn>,
) -> Result<Option<Attribute>> {
    let describes = [
        VALUE_TYPE,
        CARDINALITY,
        UNIQUE,
        FULLTEXT,
        IS_COMPONENT,
        INDEX,
    ];
    if !describes.iter().any(|a| facts.contains_key(a)) {
        return Ok(None);
    }
    let bad = |message: String| Error::new(Kind::BadSchema, message);
    let Some(ident) = ident else {
        return Err(bad(
            "an attribute needs a :db/ident, its name: a keyword such as :person/name".to_owned(),
        ));
    };
    let with_name = |message: String| Err(bad(message).attribute(&ident));
    let refers = |a: i64| facts.get(&a).and_then(Edn::as_int);
    let Some((_, _, value_type)) = TYPES
        .iter()
        .find(|(_, type_id, _)| Some(*type_id) == refers(VALUE_TYPE))
    else {
        return with_name(format!(
            ":{ident} needs a :db/valueType, one of {}",
            ValueType::idents()
        ));
    };
    let many = match refers(CARDINALITY) {
        Some(ONE) => false,
        Some(MANY) => true,
        _ => {
            return with_name(format!(
                ":{ident} needs a :db/cardinality: :db.cardinality/one or :db.cardinality/many"
            ));
        }
    };
    let unique = match facts.get(&UNIQUE).map(|v| v.as_int()) {
        None => None,
        Some(Some(IDENTITY)) => Some(Unique::Identity),
        Some(Some(VALUE)) => Some(Unique::Value),
        Some(_) => {
            return with_name(format!(
                ":db/unique of :{ident} is :db.unique/identity or :db.unique/value"
            ));
        }
    };
    let flag = |a: i64| facts.get(&a) == Some(&Edn::Bool(true));
    if unique.is_some() && many {
        return with_name(format!(
            ":{ident} is unique, so its cardinality must be :db.cardinality/one"
        ));
    }
    if flag(FULLTEXT) && *value_type != ValueType::String {
        return with_name(format!(
            ":{ident} has :db/fulltext, so its type must be :db.type/string"
        ));
    }
    if flag(IS_COMPONENT) && *value_type != ValueType::Ref {
        return with_name(format!(
            ":{ident} has :db/isComponent, so its type must be :db.type/ref"
        ));
    }
    if ident
        .rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with('_'))
    {
        return with_name(format!(
            ":{ident} starts with `_`, which marks a reverse reference; choose another name"
        ));
    }
    let doc = match facts.get(&DOC) {
        Some(Edn::Str(text)) => Some(text.clone()),
        _ => None,
    };
    Ok(Some(Attribute {
        id,
        ident,
        value_type: *value_type,
        many,
        unique,
        fulltext: flag(FULLTEXT),
        component: flag(IS_COMPONENT),
        doc,
    }))
}

/// The facts every memory starts with, at t = 0: the names of what is built in and the spine.
pub(crate) fn built_in_facts() -> Vec<(i64, i64, Edn)> {
    let mut facts = Vec::new();
    for (name, id, _) in TYPES {
        facts.push((*id, IDENT, Edn::keyword(name)));
    }
    for (name, id) in [
        ("db.cardinality/one", ONE),
        ("db.cardinality/many", MANY),
        ("db.unique/identity", IDENTITY),
        ("db.unique/value", VALUE),
    ] {
        facts.push((id, IDENT, Edn::keyword(name)));
    }
    let attributes = [
        (
            IDENT,
            "db/ident",
            "db.type/keyword",
            true,
            "The name of an attribute or of another entity.",
        ),
        (
            VALUE_TYPE,
            "db/valueType",
            "db.type/ref",
            false,
            "The type of an attribute's values.",
        ),
        (
            CARDINALITY,
            "db/cardinality",
            "db.type/ref",
            false,
            "Whether an entity has one value or many.",
        ),
        (
            UNIQUE,
            "db/unique",
            "db.type/ref",
            false,
            "Whether a value belongs to one entity alone.",
        ),
        (
            DOC,
            "db/doc",
            "db.type/string",
            false,
            "What an attribute or an entity means.",
        ),
        (
            FULLTEXT,
            "db/fulltext",
            "db.type/boolean",
            false,
            "Whether the texts can be searched.",
        ),
        (
            IS_COMPONENT,
            "db/isComponent",
            "db.type/boolean",
            false,
            "Whether the entities referred to are parts.",
        ),
        (
            INDEX,
            "db/index",
            "db.type/boolean",
            false,
            "Accepted for likeness; every attribute is indexed.",
        ),
        (
            TX_INSTANT,
            "db/txInstant",
            "db.type/instant",
            false,
            "When a turn was recorded.",
        ),
        (
            SESSION,
            "memory/session",
            "db.type/ref",
            false,
            "The session that a turn belongs to.",
        ),
        (
            SESSION_ID,
            "memory.session/id",
            "db.type/string",
            true,
            "The id by which a session is resumed.",
        ),
        (
            SOURCE,
            "memory/source",
            "db.type/ref",
            false,
            "The turn that a derived fact came from.",
        ),
    ];
    let type_id = |name: &str| {
        TYPES
            .iter()
            .find(|(n, _, _)| *n == name)
            .map_or(0, |(_, id, _)| *id)
    };
    for (id, name, value_type, identity, doc) in attributes {
        facts.push((id, IDENT, Edn::keyword(name)));
        facts.push((id, VALUE_TYPE, Edn::Int(type_id(value_type))));
        facts.push((id, CARDINALITY, Edn::Int(ONE)));
        facts.push((id, DOC, Edn::str(doc)));
        if identity {
            facts.push((id, UNIQUE, Edn::Int(IDENTITY)));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_facts_describe_themselves() {
        let schema = Schema::from_facts(built_in_facts().into_iter()).unwrap();
        assert_eq!(schema.attributes().len(), 12);
        let ident = schema.attribute("db/ident").unwrap();
        assert_eq!(
            (ident.id, ident.value_type, ident.unique),
            (IDENT, ValueType::Keyword, Some(Unique::Identity))
        );
        assert_eq!(schema.ident("db.type/ref"), Some(27));
    }
}
