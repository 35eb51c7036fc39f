//! Transactions: forms in, datoms out, all or nothing.
//!
//! In order: the forms become single assertions and retractions ([`Parser`]); names for new
//! entities are resolved, against what is stored (upsert) and against each other ([`Names`]); the
//! changes are worked out and checked against what is stored ([`Changes`]); then they are written.

use crate::edn::{Edn, Instant};
use crate::error::{Error, Kind, Result};
use crate::schema::{self, Attribute, FIRST_ID, Schema, TX_BASE, Unique, ValueType};
use crate::storage::{Datom, Db, Known, Store, View, Writer, schema_after};
use crate::value::fit;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The most datoms in one transaction.
const MAX_DATOMS: usize = 1_000_000;

/// The longest text or bytes in one fact, in bytes.
const MAX_VALUE: usize = 1 << 20;

/// The tempid that stands for the transaction itself.
const THIS_TX: &str = "datomic.tx";

/// Where the facts of a transaction come from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Provenance {
    /// The entity of the session, noted as `:memory/session`.
    pub session: Option<i64>,
    /// The transaction that the facts were derived from, noted as `:memory/source`.
    pub source: Option<i64>,
}

/// Tempids and the entities they stand for.
pub type Tempids = Vec<(Arc<str>, i64)>;

/// What a transaction did.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its number.
    pub t: i64,
    /// Its entity.
    pub tx: i64,
    /// The ids that the tempids stand for, in the order of their appearance.
    pub tempids: Tempids,
    /// Every change, its own facts included.
    pub datoms: Vec<Datom>,
}

impl Store {
    /// Records a transaction: `[{…} [:db/add e a v] [:db/retract e a v] [:db/retractEntity e]]`.
    /// When it returns, the facts are on disk.
    ///
    /// # Errors
    /// Nothing is recorded; the error says which form was wrong.
    pub fn transact(&mut self, tx: &Edn, provenance: Provenance) -> Result<Report> {
        let db = self.write()?;
        let t = db.t + 1;
        let tx_entity = TX_BASE + t;
        let parsed = Parser::parse(&db, tx, tx_entity)?;
        let (ops, tempids) = parsed.resolve(&db)?;
        let mut changes = Changes::new(&db);
        for op in &ops {
            changes.apply(op).map_err(|e| e.at(&op.path))?;
        }
        changes.check()?;
        changes.note_provenance(tx_entity, provenance)?;
        let datoms = changes.write(t, &ops)?;
        db.commit()?;
        Ok(Report {
            t,
            tx: tx_entity,
            tempids,
            datoms,
        })
    }

    /// The entity of the session with an id. It is made when there is none, in a transaction of the
    /// store's own, which is no turn.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn open_session(&mut self, id: &str) -> Result<i64> {
        if id.is_empty() || id.len() > 256 {
            return Err(Error::new(
                Kind::BadArgument,
                "a session's id is a text of 1 to 256 bytes",
            ));
        }
        if let Some(session) = self.db(View::Current)?.session(id)? {
            return Ok(session);
        }
        let db = self.write()?;
        if let Some(session) = db.session(id)? {
            return Ok(session);
        }
        let (t, session) = (db.t + 1, next_id(&db)?);
        let mut writer = Writer::new(db.connection(), t);
        writer.assert(session, schema::SESSION_ID, &Edn::str(id), false)?;
        writer.assert(
            TX_BASE + t,
            schema::TX_INSTANT,
            &Edn::Inst(db.next_instant()?),
            false,
        )?;
        writer.assert(TX_BASE + t, schema::SESSION, &Edn::Int(session), false)?;
        writer.finish()?;
        db.commit()?;
        Ok(session)
    }
}

impl Db<'_> {
    /// The entity of a session.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn session(&self, id: &str) -> Result<Option<i64>> {
        self.lookup(self.schema.attribute("memory.session/id")?, &Edn::str(id))
    }

    /// The entity that an id, an ident or a lookup ref names, or None when nothing has that name.
    ///
    /// # Errors
    /// When the form cannot name an entity, or a lookup ref's attribute is unknown or not unique.
    pub fn entity(&self, form: &Edn) -> Result<Option<i64>> {
        match form {
            Edn::Int(id) => Ok((*id >= 0 && self.was_known(*id)?).then_some(*id)),
            Edn::Keyword(name) => Ok(self.schema.ident(name)),
            Edn::Vector(items) | Edn::List(items) => {
                let [Edn::Keyword(name), value] = &items[..] else {
                    return Err(bad_entity(form));
                };
                let attribute = self
                    .schema
                    .attribute(name)
                    .map_err(|e| e.within(0))?
                    .clone();
                if attribute.unique.is_none() {
                    let message = format!(
                        "a lookup ref needs a unique attribute, and :{name} is not; register it with :db/unique :db.unique/identity"
                    );
                    return Err(Error::new(Kind::BadArgument, message)
                        .attribute(name)
                        .within(0));
                }
                let value = match (attribute.value_type, value) {
                    (ValueType::Ref, Edn::Int(_)) => value.clone(),
                    (ValueType::Ref, _) => match self.entity(value).map_err(|e| e.within(1))? {
                        Some(id) => Edn::Int(id),
                        None => return Ok(None),
                    },
                    _ => value.clone(),
                };
                let Some(value) = fit(attribute.value_type, &value) else {
                    return Err(wrong_type(&attribute, &value).within(1));
                };
                self.lookup(&attribute, &value)
            }
            _ => Err(bad_entity(form)),
        }
    }

    /// As [`Db::entity`], but an entity that is not there is an error.
    ///
    /// # Errors
    /// Also `NoSuchEntity`.
    pub fn must_be_entity(&self, form: &Edn) -> Result<i64> {
        self.entity(form)?.ok_or_else(|| self.no_such_entity(form))
    }

    pub(crate) fn no_such_entity(&self, form: &Edn) -> Error {
        let hint = match form {
            Edn::Keyword(name) => self
                .schema
                .nearest_ident(name)
                .map(|near| (format!("; did you mean :{near}?"), near)),
            _ => None,
        };
        let (hint, near) = hint.map_or((String::new(), None), |(hint, near)| (hint, Some(near)));
        Error::new(
            Kind::NoSuchEntity,
            format!("there is no entity {}{hint}", form.brief(120)),
        )
        .nearest(near)
        .value(form)
    }

    /// The clock, but never before the last transaction.
    fn next_instant(&self) -> Result<Instant> {
        let attribute = self.schema.attribute("db/txInstant")?;
        let last = self.values(TX_BASE + self.t, attribute)?;
        Ok(match last.first() {
            Some(Edn::Inst(last)) => Instant::now().max(*last),
            _ => Instant::now(),
        })
    }
}

fn next_id(db: &Db<'_>) -> Result<i64> {
    Ok((db.last_id()? + 1).max(FIRST_ID))
}

fn bad_entity(form: &Edn) -> Error {
    let message = format!(
        "{} cannot name an entity; write an id 1001, an ident :color/red or a lookup ref [:person/name \"Ada\"]",
        form.brief(80)
    );
    Error::new(Kind::BadArgument, message).value(form)
}

fn wrong_type(attribute: &Attribute, value: &Edn) -> Error {
    let message = match value {
        Edn::Double(d) if d.is_nan() => format!(":{} cannot hold a NaN", attribute.ident),
        _ => format!(
            ":{} takes {}, and {} is {}",
            attribute.ident,
            attribute.value_type.example(),
            value.brief(80),
            value.kind()
        ),
    };
    Error::new(Kind::WrongType, message)
        .attribute(&attribute.ident)
        .value(value)
}

fn bad_tx(message: impl Into<String>) -> Error {
    Error::new(Kind::BadTx, message)
}

// ------------------------------------------------------------------------------ forms to single operations

/// An entity in a form: known, or a name whose entity is found later.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Subject {
    Id(i64),
    Name(usize),
}

#[derive(Clone, Debug)]
enum Object {
    Value(Edn),
    Name(usize),
}

#[derive(Clone, Debug)]
enum Action {
    Add(Arc<Attribute>, Object),
    Retract(Arc<Attribute>, Option<Object>),
    RetractEntity,
}

#[derive(Clone, Debug)]
struct Op {
    path: Vec<usize>,
    subject: Subject,
    action: Action,
}

/// A name for an entity: a tempid, or a nested or nameless map.
#[derive(Debug)]
struct Name {
    text: Option<Arc<str>>,
    path: Vec<usize>,
    /// Another name for the same entity; the chain ends at a name that points to itself.
    same_as: usize,
    id: Option<i64>,
    /// Whether some fact is about it, and it is not only referred to.
    is_subject: bool,
}

struct Parser<'d, 's> {
    db: &'d Db<'s>,
    names: Vec<Name>,
    by_text: HashMap<Arc<str>, usize>,
    ops: Vec<Op>,
    path: Vec<usize>,
    /// The attributes that this very transaction registers, for a better message.
    registers: BTreeSet<Arc<str>>,
    tx_entity: i64,
}

impl<'d, 's> Parser<'d, 's> {
    fn parse(db: &'d Db<'s>, tx: &Edn, tx_entity: i64) -> Result<Parser<'d, 's>> {
        let Some(forms) = tx.as_sequence() else {
            return Err(bad_tx(format!(
                "a transaction is a vector of maps and lists, [{{:person/name \"Ada\"}} [:db/add 1001 :person/age 36]], not {}",
                tx.kind()
            )));
        };
        let registers = forms.iter().filter_map(|form| {
            match (form.get("db/ident"), form.get("db/valueType")) {
                (Some(Edn::Keyword(name)), Some(_)) => Some(name.clone()),
                _ => None,
            }
        });
        let registers = registers.collect();
        let mut parser = Parser {
            db,
            names: Vec::new(),
            by_text: HashMap::new(),
            ops: Vec::new(),
            path: Vec::new(),
            registers,
            tx_entity,
        };
        for (i, form) in forms.iter().enumerate() {
            parser.inside(i, |p| p.form(form))?;
        }
        Ok(parser)
    }

    /// Works on a child form, so that an error knows where it is.
    fn inside<T>(&mut self, index: usize, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.path.push(index);
        let result = work(self);
        self.path.pop();
        result.map_err(|e| e.within(index))
    }

    fn form(&mut self, form: &Edn) -> Result<()> {
        match form {
            Edn::Map(members) => self.map(members).map(|_| ()),
            Edn::Vector(items) | Edn::List(items) => self.list(items),
            _ => Err(bad_tx(format!(
                "a map or a list such as [:db/add e a v] is expected, not {}",
                form.kind()
            ))),
        }
    }

    fn op(&mut self, subject: Subject, action: Action) -> Result<()> {
        if let (Subject::Name(name), Action::Add(..)) = (subject, &action) {
            self.names[name].is_subject = true;
        }
        self.ops.push(Op {
            path: self.path.clone(),
            subject,
            action,
        });
        if self.ops.len() > MAX_DATOMS {
            return Err(Error::new(
                Kind::TooLarge,
                format!("a transaction holds at most {MAX_DATOMS} facts; split it"),
            ));
        }
        Ok(())
    }

    fn list(&mut self, items: &[Edn]) -> Result<()> {
        let op = items.first().and_then(Edn::as_keyword).unwrap_or("");
        match (op, items.len()) {
            ("db/add", 4) => {
                let subject = self.inside(1, |p| p.subject(&items[1]))?;
                let attribute = self.inside(2, |p| p.attribute(&items[2]))?;
                let object = self.inside(3, |p| p.object(&attribute, &items[3]))?;
                self.op(subject, Action::Add(attribute, object))
            }
            ("db/retract", 3 | 4) => {
                let subject = self.inside(1, |p| p.subject(&items[1]))?;
                let attribute = self.inside(2, |p| p.attribute(&items[2]))?;
                let object = match items.get(3) {
                    Some(value) => Some(self.inside(3, |p| p.object(&attribute, value))?),
                    None => None,
                };
                self.op(subject, Action::Retract(attribute, object))
            }
            ("db/retractEntity" | "db.fn/retractEntity", 2) => {
                let subject = self.inside(1, |p| p.subject(&items[1]))?;
                self.op(subject, Action::RetractEntity)
            }
            ("db/add", _) => Err(bad_tx("[:db/add entity attribute value] has four parts")),
            ("db/retract", _) => Err(bad_tx(
                "[:db/retract entity attribute value] has four parts, or three to retract all values",
            )),
            ("db/retractEntity", _) => Err(bad_tx("[:db/retractEntity entity] has two parts")),
            _ => {
                let first = items.first().map_or("nothing".to_owned(), |f| f.brief(40));
                Err(bad_tx(format!(
                    "a list starts with :db/add, :db/retract or :db/retractEntity, not {first}"
                )))
            }
        }
    }

    /// An entity map; gives the entity.
    fn map(&mut self, members: &[(Edn, Edn)]) -> Result<Subject> {
        let subject = match members
            .iter()
            .position(|(key, _)| key.as_keyword() == Some("db/id"))
        {
            Some(i) => self.inside(2 * i + 1, |p| p.subject(&members[i].1))?,
            None if members.is_empty() => return Err(bad_tx("an empty map says nothing")),
            None => self.new_name(None),
        };
        for (i, (key, value)) in members.iter().enumerate() {
            let Some(name) = key.as_keyword() else {
                return Err(bad_tx(format!(
                    "the keys of an entity map are keywords, and {} is {}",
                    key.brief(60),
                    key.kind()
                ))
                .within(2 * i));
            };
            if name == "db/id" {
                continue;
            }
            if let Some(forward) = reverse(name) {
                self.reverse_member(i, &forward, value, subject)?;
                continue;
            }
            let attribute = self.inside(2 * i, |p| p.attribute(key))?;
            self.inside(2 * i + 1, |p| p.member(subject, &attribute, value))?;
        }
        Ok(subject)
    }

    fn member(&mut self, subject: Subject, attribute: &Arc<Attribute>, value: &Edn) -> Result<()> {
        let several = match value {
            Edn::Vector(items) | Edn::List(items)
                if attribute.many && !self.is_lookup_ref(attribute, value) =>
            {
                Some((items, true))
            }
            Edn::Set(items) if attribute.many => Some((items, false)),
            _ => None,
        };
        match several {
            // A set is sorted when it is read, so its parts have no place in the text.
            Some((items, false)) => items.iter().try_for_each(|item| {
                let object = self.object(attribute, item)?;
                self.op(subject, Action::Add(attribute.clone(), object))
            }),
            Some((items, true)) => items.iter().enumerate().try_for_each(|(i, item)| {
                self.inside(i, |p| {
                    let object = p.object(attribute, item)?;
                    p.op(subject, Action::Add(attribute.clone(), object))
                })
            }),
            None => {
                let object = self.object(attribute, value)?;
                self.op(subject, Action::Add(attribute.clone(), object))
            }
        }
    }

    fn reverse_member(
        &mut self,
        i: usize,
        forward: &str,
        value: &Edn,
        object: Subject,
    ) -> Result<()> {
        let attribute = self.inside(2 * i, |p| p.attribute(&Edn::keyword(forward)))?;
        if attribute.value_type != ValueType::Ref {
            let message = format!(":{forward} is no reference, so it has no reverse");
            return Err(Error::new(Kind::WrongType, message)
                .attribute(forward)
                .within(2 * i));
        }
        let object = match object {
            Subject::Id(id) => Object::Value(Edn::Int(id)),
            Subject::Name(name) => Object::Name(name),
        };
        let many = match value {
            Edn::Vector(items) | Edn::List(items) if !self.is_lookup_ref(&attribute, value) => {
                items.clone()
            }
            Edn::Set(items) => items.clone(),
            one => vec![one.clone()],
        };
        self.inside(2 * i + 1, |p| {
            for item in &many {
                let subject = match item {
                    Edn::Map(members) => p.map(members)?,
                    other => p.subject(other)?,
                };
                p.op(subject, Action::Add(attribute.clone(), object.clone()))?;
            }
            Ok(())
        })
    }

    /// `[:person/name "Ada"]` as the value of a reference is one entity and not two values.
    fn is_lookup_ref(&self, attribute: &Attribute, value: &Edn) -> bool {
        attribute.value_type == ValueType::Ref
            && matches!(value.as_sequence(), Some([Edn::Keyword(name), _])
                if self.db.schema.attribute(name).is_ok_and(|a| a.unique.is_some()))
    }

    fn attribute(&mut self, form: &Edn) -> Result<Arc<Attribute>> {
        let attribute = match form {
            Edn::Keyword(name) => self.db.schema.attribute(name).map_err(|e| {
                if self.registers.contains(name) {
                    let message = format!(
                        "the attribute :{name} is registered in this same turn; it can be used from the next turn on, so record the registration first"
                    );
                    return Error::new(Kind::UnknownAttribute, message).attribute(name);
                }
                e
            })?,
            Edn::Int(id) => self.db.schema.by_id(*id).ok_or_else(|| {
                Error::new(Kind::UnknownAttribute, format!("the entity {id} is no attribute")).value(form)
            })?,
            _ => return Err(bad_tx(format!("an attribute is a keyword such as :person/name, not {}", form.kind()))),
        };
        if attribute.is_reserved() {
            return Err(Error::new(
                Kind::Reserved,
                format!(":{} is written by the memory itself: every turn carries its time and its session", attribute.ident),
            )
            .attribute(&attribute.ident));
        }
        Ok(attribute.clone())
    }

    fn subject(&mut self, form: &Edn) -> Result<Subject> {
        match form {
            Edn::Str(text) => Ok(self.new_name(Some(text))),
            _ => Ok(Subject::Id(self.entity_before(form)?)),
        }
    }

    /// An entity that is there before the transaction, or the transaction itself.
    fn entity_before(&self, form: &Edn) -> Result<i64> {
        match self.db.entity(form)? {
            Some(id) => Ok(id),
            None => {
                let error = self.db.no_such_entity(form);
                if matches!(form, Edn::Vector(_) | Edn::List(_)) {
                    let message = format!(
                        "{}; for one that this turn makes, use a tempid, \"x\"",
                        error.message()
                    );
                    return Err(Error::new(Kind::NoSuchEntity, message).value(form));
                }
                Err(error)
            }
        }
    }

    fn new_name(&mut self, text: Option<&Arc<str>>) -> Subject {
        if let Some(known) = text.and_then(|t| self.by_text.get(t)) {
            return Subject::Name(*known);
        }
        let index = self.names.len();
        let id = text
            .is_some_and(|t| &**t == THIS_TX)
            .then_some(self.tx_entity);
        self.names.push(Name {
            text: text.cloned(),
            path: self.path.clone(),
            same_as: index,
            id,
            is_subject: false,
        });
        if let Some(text) = text {
            self.by_text.insert(text.clone(), index);
        }
        Subject::Name(index)
    }

    fn object(&mut self, attribute: &Arc<Attribute>, value: &Edn) -> Result<Object> {
        if attribute.value_type == ValueType::Ref {
            let subject = match value {
                Edn::Map(members) => self.map(members)?,
                Edn::Keyword(name)
                    if attribute.id == schema::VALUE_TYPE
                        && self.db.schema.ident(name).is_none() =>
                {
                    let message = format!(
                        "there is no type {value}; known are {}",
                        ValueType::idents()
                    );
                    return Err(Error::new(Kind::NoSuchEntity, message).value(value));
                }
                Edn::Int(_) | Edn::Keyword(_) | Edn::Str(_) => self.subject(value)?,
                Edn::Vector(_) | Edn::List(_)
                    if matches!(value.as_sequence(), Some([Edn::Keyword(_), _])) =>
                {
                    self.subject(value)?
                }
                _ => return Err(wrong_type(attribute, value)),
            };
            return Ok(match subject {
                Subject::Id(id) => Object::Value(Edn::Int(id)),
                Subject::Name(name) => Object::Name(name),
            });
        }
        let Some(fitted) = fit(attribute.value_type, value) else {
            return Err(wrong_type(attribute, value));
        };
        let size = match &*fitted {
            Edn::Str(text) => text.len(),
            Edn::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        if size > MAX_VALUE {
            let message = format!(
                "the value of :{} has {size} bytes; a fact holds at most {MAX_VALUE}",
                attribute.ident
            );
            return Err(Error::new(Kind::TooLarge, message).attribute(&attribute.ident));
        }
        Ok(Object::Value(fitted.into_owned()))
    }

    // ------------------------------------------------------------------------------ names to entities

    fn root(&self, mut name: usize) -> usize {
        while self.names[name].same_as != name {
            name = self.names[name].same_as;
        }
        name
    }

    /// Finds the entity of every name: the one stored with the same unique identity, or a new one.
    fn resolve(mut self, db: &Db<'_>) -> Result<(Vec<ResolvedOp>, Tempids)> {
        while self.unify(db)? {}
        let mut next = next_id(db)?;
        for i in 0..self.names.len() {
            if self.names[i].is_subject {
                let root = self.root(i);
                self.names[root].is_subject = true;
            }
        }
        for i in 0..self.names.len() {
            let root = self.root(i);
            if self.names[root].id.is_none() {
                if !self.names[root].is_subject {
                    let text = self.names[i].text.clone().unwrap_or_default();
                    let message = format!(
                        "the tempid \"{text}\" is only referred to: no fact of this turn is about it"
                    );
                    let path = self.names[i].path.clone();
                    return Err(bad_tx(message).at(&path));
                }
                self.names[root].id = Some(next);
                next += 1;
            }
        }
        let id_of = |name: usize| self.names[self.root(name)].id.unwrap_or_default();
        let tempids = self
            .names
            .iter()
            .enumerate()
            .filter_map(|(i, n)| Some((n.text.clone()?, id_of(i))))
            .collect();
        let object = |object: &Object| match object {
            Object::Value(value) => value.clone(),
            Object::Name(name) => Edn::Int(id_of(*name)),
        };
        let ops = self.ops.iter().map(|op| ResolvedOp {
            path: op.path.clone(),
            e: match op.subject {
                Subject::Id(id) => id,
                Subject::Name(name) => id_of(name),
            },
            change: match &op.action {
                Action::Add(attribute, value) => Change::Add(attribute.clone(), object(value)),
                Action::Retract(attribute, value) => {
                    Change::Retract(attribute.clone(), value.as_ref().map(object))
                }
                Action::RetractEntity => Change::RetractEntity,
            },
        });
        Ok((ops.collect(), tempids))
    }

    /// One round: names with the same value of a unique identity are the same. True if any was found.
    fn unify(&mut self, db: &Db<'_>) -> Result<bool> {
        let mut found = false;
        let mut by_value: HashMap<(i64, Edn), usize> = HashMap::new();
        for i in 0..self.ops.len() {
            let op = &self.ops[i];
            let (Subject::Name(name), Action::Add(attribute, object)) = (op.subject, &op.action)
            else {
                continue;
            };
            if attribute.unique != Some(Unique::Identity) {
                continue;
            }
            let value = match object {
                Object::Value(value) => value.clone(),
                Object::Name(name) => match self.names[self.root(*name)].id {
                    Some(id) => Edn::Int(id),
                    None => continue,
                },
            };
            let root = self.root(name);
            let path = op.path.clone();
            if let Some(stored) = db.lookup(attribute, &value)? {
                match self.names[root].id {
                    None => {
                        self.names[root].id = Some(stored);
                        found = true;
                    }
                    Some(id) if id == stored => {}
                    Some(id) => return Err(two_entities(attribute, &value, id, stored).at(&path)),
                }
            }
            let key = (attribute.id, value.clone());
            let Some(other) = by_value.get(&key).map(|n| self.root(*n)) else {
                by_value.insert(key, root);
                continue;
            };
            if other != root {
                match (self.names[other].id, self.names[root].id) {
                    (Some(a), Some(b)) if a != b => {
                        return Err(two_entities(attribute, &value, a, b).at(&path));
                    }
                    (id, other_id) => self.names[other].id = id.or(other_id),
                }
                self.names[root].same_as = other;
                found = true;
            }
        }
        Ok(found)
    }
}

fn two_entities(attribute: &Attribute, value: &Edn, one: i64, other: i64) -> Error {
    let message = format!(
        "one name stands for two entities, {one} and {other}: :{} {} belongs to {other}",
        attribute.ident,
        value.brief(80)
    );
    Error::new(Kind::Conflict, message)
        .attribute(&attribute.ident)
        .value(value)
}

/// `person/_friend` is the reverse of `person/friend`.
pub(crate) fn reverse(name: &str) -> Option<String> {
    let (namespace, bare) = match name.rsplit_once('/') {
        Some((namespace, bare)) => (Some(namespace), bare),
        None => (None, name),
    };
    let forward = bare.strip_prefix('_').filter(|f| !f.is_empty())?;
    Some(match namespace {
        Some(namespace) => format!("{namespace}/{forward}"),
        None => forward.to_owned(),
    })
}

// ------------------------------------------------------------------------------ operations to changes

#[derive(Clone, Debug)]
enum Change {
    Add(Arc<Attribute>, Edn),
    Retract(Arc<Attribute>, Option<Edn>),
    RetractEntity,
}

#[derive(Clone, Debug)]
struct ResolvedOp {
    path: Vec<usize>,
    e: i64,
    change: Change,
}

type Fact = (i64, i64, Edn);

/// What a transaction changes, against the facts before it.
struct Changes<'d, 's> {
    db: &'d Db<'s>,
    /// Each with the place it came from. Ordered, so that equal transactions write equal files.
    added: BTreeMap<Fact, Vec<usize>>,
    retracted: BTreeMap<Fact, Vec<usize>>,
    attributes: HashMap<i64, Arc<Attribute>>,
    gone: BTreeSet<i64>,
}

impl<'d, 's> Changes<'d, 's> {
    fn new(db: &'d Db<'s>) -> Changes<'d, 's> {
        Changes {
            db,
            added: BTreeMap::new(),
            retracted: BTreeMap::new(),
            attributes: HashMap::new(),
            gone: BTreeSet::new(),
        }
    }

    fn apply(&mut self, op: &ResolvedOp) -> Result<()> {
        if op.e < FIRST_ID {
            let name = self
                .db
                .schema
                .name(op.e)
                .map_or(op.e.to_string(), |n| format!(":{n}"));
            return Err(Error::new(
                Kind::Reserved,
                format!("{name} is built in and cannot be changed"),
            ));
        }
        match &op.change {
            Change::Add(attribute, value) => {
                self.attributes.insert(attribute.id, attribute.clone());
                self.added
                    .entry((op.e, attribute.id, value.clone()))
                    .or_insert_with(|| op.path.clone());
            }
            Change::Retract(attribute, value) => {
                self.attributes.insert(attribute.id, attribute.clone());
                for current in self.db.values(op.e, attribute)? {
                    if value.as_ref().is_none_or(|v| *v == current) {
                        self.retracted
                            .entry((op.e, attribute.id, current))
                            .or_insert_with(|| op.path.clone());
                    }
                }
            }
            Change::RetractEntity => self.retract_entity(op.e, &op.path)?,
        }
        Ok(())
    }

    /// Retracts all facts about an entity, all references to it, and the entities that are its parts.
    fn retract_entity(&mut self, e: i64, path: &[usize]) -> Result<()> {
        let mut waiting = vec![e];
        while let Some(e) = waiting.pop() {
            if !self.gone.insert(e) {
                continue;
            }
            if self.db.schema.by_id(e).is_some() {
                let name = self
                    .db
                    .schema
                    .name(e)
                    .map_or(e.to_string(), |n| format!(":{n}"));
                return Err(Error::new(
                    Kind::BadSchema,
                    format!("{name} is an attribute; an attribute cannot be retracted"),
                ));
            }
            for datom in self.db.find(Known {
                e: Some(e),
                ..Known::default()
            })? {
                let attribute = self.db.schema.by_id(datom.a);
                if attribute.is_some_and(|a| a.is_reserved()) {
                    let what = if e >= TX_BASE { "a turn" } else { "a session" };
                    return Err(Error::new(
                        Kind::Reserved,
                        format!("{e} is {what}; it cannot be retracted"),
                    ));
                }
                if let (true, Some(part)) =
                    (attribute.is_some_and(|a| a.component), datom.v.as_int())
                {
                    waiting.push(part);
                }
                self.retract(datom, path);
            }
            for attribute in self.db.schema.attributes() {
                if attribute.value_type == ValueType::Ref && !attribute.is_reserved() {
                    let known = Known {
                        a: Some(attribute.id),
                        v: Some(&Edn::Int(e)),
                        ..Known::default()
                    };
                    for datom in self.db.find(known)? {
                        self.retract(datom, path);
                    }
                }
            }
        }
        Ok(())
    }

    fn retract(&mut self, datom: Datom, path: &[usize]) {
        if let Some(attribute) = self.db.schema.by_id(datom.a) {
            self.attributes.insert(datom.a, attribute.clone());
        }
        self.retracted
            .entry((datom.e, datom.a, datom.v))
            .or_insert_with(|| path.to_vec());
    }

    fn attribute(&self, id: i64) -> Result<Arc<Attribute>> {
        let found = self
            .attributes
            .get(&id)
            .or_else(|| self.db.schema.by_id(id));
        found.cloned().ok_or_else(|| {
            Error::new(
                Kind::UnknownAttribute,
                format!("the entity {id} is no attribute"),
            )
        })
    }

    /// Drops what changes nothing, adds the retractions that new values imply, finds contradictions.
    fn check(&mut self) -> Result<()> {
        let added = std::mem::take(&mut self.added);
        let mut last: Option<(i64, i64, Edn)> = None;
        for ((e, a, v), path) in added {
            let attribute = self.attribute(a)?;
            if self.retracted.contains_key(&(e, a, v.clone())) {
                let message = format!(
                    "the turn asserts and retracts the same fact: {e} :{} {}",
                    attribute.ident,
                    v.brief(80)
                );
                return Err(Error::new(Kind::Conflict, message)
                    .attribute(&attribute.ident)
                    .value(&v)
                    .at(&path));
            }
            if let (false, Some((_, _, other))) =
                (attribute.many, last.filter(|l| l.0 == e && l.1 == a))
            {
                let message = format!(
                    ":{} has one value, and the turn gives the entity {e} two: {} and {}",
                    attribute.ident,
                    other.brief(60),
                    v.brief(60)
                );
                return Err(Error::new(Kind::Conflict, message)
                    .attribute(&attribute.ident)
                    .value(&v)
                    .at(&path));
            }
            last = Some((e, a, v.clone()));
            if self.is_current(e, a, &v)? {
                continue;
            }
            if !attribute.many {
                for old in self.db.values(e, &attribute)? {
                    self.retracted
                        .entry((e, a, old))
                        .or_insert_with(|| path.clone());
                }
            }
            self.added.insert((e, a, v), path);
        }
        self.check_unique()
    }

    fn is_current(&self, e: i64, a: i64, v: &Edn) -> Result<bool> {
        Ok(self.db.count_up_to(
            Known {
                e: Some(e),
                a: Some(a),
                v: Some(v),
                t: None,
            },
            1,
        )? > 0)
    }

    fn check_unique(&self) -> Result<()> {
        let mut holders: HashMap<(i64, &Edn), i64> = HashMap::new();
        for ((e, a, v), path) in &self.added {
            let attribute = self.attribute(*a)?;
            if attribute.unique.is_none() {
                continue;
            }
            let stored = self
                .db
                .lookup(&attribute, v)?
                .filter(|holder| !self.retracted.contains_key(&(*holder, *a, v.clone())));
            let other = stored.or_else(|| holders.insert((*a, v), *e));
            if let Some(other) = other.filter(|other| other != e) {
                let message = format!(
                    ":{} is unique, and {} already belongs to the entity {other}",
                    attribute.ident,
                    v.brief(80)
                );
                return Err(Error::new(Kind::UniqueConflict, message)
                    .attribute(&attribute.ident)
                    .value(v)
                    .at(path));
            }
        }
        Ok(())
    }

    fn note_provenance(&mut self, tx_entity: i64, provenance: Provenance) -> Result<()> {
        self.added.insert(
            (
                tx_entity,
                schema::TX_INSTANT,
                Edn::Inst(self.db.next_instant()?),
            ),
            Vec::new(),
        );
        if let Some(session) = provenance.session {
            self.added
                .insert((tx_entity, schema::SESSION, Edn::Int(session)), Vec::new());
        }
        if let Some(source) = provenance.source {
            if !(TX_BASE..=TX_BASE + self.db.t).contains(&source) {
                let t = source.saturating_sub(TX_BASE);
                let message = format!("there is no turn {t}; give the :turn or the :t of one");
                return Err(Error::new(Kind::NoSuchEntity, message).of_argument("source"));
            }
            let given = self
                .added
                .keys()
                .find(|(e, a, _)| (*e, *a) == (tx_entity, schema::SOURCE));
            if given.is_some_and(|(_, _, v)| *v != Edn::Int(source)) {
                return Err(Error::new(
                    Kind::Conflict,
                    "the turn has two different values of :memory/source",
                ));
            }
            self.added
                .insert((tx_entity, schema::SOURCE, Edn::Int(source)), Vec::new());
        }
        Ok(())
    }

    // -------------------------------------------------------------------------- changes to the file

    fn write(self, t: i64, ops: &[ResolvedOp]) -> Result<Vec<Datom>> {
        let mut writer = Writer::new(self.db.connection(), t);
        let mut datoms = Vec::with_capacity(self.added.len() + self.retracted.len());
        let mut changes_schema = false;
        let retracted = self.retracted.keys().map(|fact| (fact, false));
        for ((e, a, v), added) in retracted.chain(self.added.keys().map(|fact| (fact, true))) {
            let attribute = self.attribute(*a)?;
            changes_schema |= attribute.is_schema();
            if added {
                writer.assert(*e, *a, v, attribute.fulltext)?;
            } else {
                writer.retract(*e, *a, v)?;
            }
            datoms.push(Datom {
                e: *e,
                a: *a,
                v: v.clone(),
                t,
                added,
            });
        }
        if changes_schema {
            writer.schema_changed()?;
            self.check_schema().map_err(|e| e.at(schema_path(ops)))?;
        }
        writer.finish()?;
        Ok(datoms)
    }

    /// The vocabulary after the change must be whole, and hold for the facts that are there.
    fn check_schema(&self) -> Result<()> {
        let connection = self.db.connection();
        let after: Schema = schema_after(connection)?;
        for old in self.db.schema.attributes() {
            let Some(new) = after.by_id(old.id) else {
                let message = format!(
                    ":{} is an attribute; an attribute cannot be retracted",
                    old.ident
                );
                return Err(Error::new(Kind::BadSchema, message).attribute(&old.ident));
            };
            let refuse = |why: String| Err(Error::new(Kind::BadSchema, why).attribute(&old.ident));
            if new.value_type != old.value_type {
                return refuse(format!(
                    "the type of :{} is :{} and cannot change; register another attribute",
                    old.ident,
                    old.value_type.ident()
                ));
            }
            if old.many && !new.many {
                let sql = "SELECT e FROM datom INDEXED BY datom_avet WHERE a = ?1 AND gone IS NULL GROUP BY e HAVING count(*) > 1 LIMIT 1";
                if let Some(e) = first(connection, sql, old.id)? {
                    return refuse(format!(
                        ":{} cannot become :db.cardinality/one: the entity {e} has several values",
                        old.ident
                    ));
                }
            }
            if old.unique.is_none() && new.unique.is_some() {
                let sql = "SELECT min(e) FROM datom INDEXED BY datom_avet WHERE a = ?1 AND gone IS NULL GROUP BY v HAVING count(*) > 1 LIMIT 1";
                if let Some(e) = first(connection, sql, old.id)? {
                    return refuse(format!(
                        ":{} cannot become unique: the entity {e} shares its value",
                        old.ident
                    ));
                }
            }
            if !old.fulltext && new.fulltext {
                connection.execute("DELETE FROM fulltext WHERE a = ?1", [old.id])?;
                connection.execute(
                    "INSERT INTO fulltext (v, e, a, t) SELECT v, e, a, t FROM datom WHERE a = ?1",
                    [old.id],
                )?;
            }
        }
        Ok(())
    }
}

fn first(connection: &rusqlite::Connection, sql: &str, a: i64) -> Result<Option<i64>> {
    use rusqlite::OptionalExtension as _;
    Ok(connection
        .prepare(sql)?
        .query_row([a], |row| row.get(0))
        .optional()?)
}

/// Where a transaction first speaks of the vocabulary.
fn schema_path(ops: &[ResolvedOp]) -> &[usize] {
    let speaks = |op: &&ResolvedOp| match &op.change {
        Change::Add(attribute, _) | Change::Retract(attribute, _) => {
            attribute.is_schema() && attribute.id != schema::DOC
        }
        Change::RetractEntity => false,
    };
    // The whole map, not its first member.
    ops.iter()
        .find(speaks)
        .and_then(|op| op.path.get(..1))
        .unwrap_or(&[])
}
