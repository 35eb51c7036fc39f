//! An agent's memory: the operations behind the memory tools in the setting of a session.
//!
//! [`Memory::answer`] takes the name of an operation and its arguments as an EDN map, whose EDN
//! arguments are texts, so that errors can point into them. The answer is one EDN form, and a note
//! where the form alone does not tell that there is more.

use crate::edn::{Edn, read};
use crate::error::{Error, Kind, Result, nearest};
use crate::pull::{Pattern, pull};
use crate::query::{Limits, Query};
use crate::schema::{self, Attribute, TX_BASE, ValueType};
use crate::storage::{Datom, Db, Known, Storage, Store, View, fresh_id};
use crate::transact::Provenance;
use crate::transactor::{Client, Remote};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rows that `recall` gives when no limit is asked for.
pub const DEFAULT_ROWS: usize = 100;

/// Turns that `turns` gives when no limit is asked for.
pub const DEFAULT_TURNS: usize = 20;

/// The most that one answer holds, in bytes of its text.
pub const MAX_ANSWER: usize = 60_000;

/// The share of `context` for the vocabulary, and for the recent turns.
const CONTEXT_PART: usize = 8_000;

/// The operations, and their arguments, the required ones first.
pub const OPERATIONS: &[(&str, &[&str], &[&str])] = &[
    ("context", &[], &[]),
    ("record", &["tx"], &["source"]),
    ("recall", &[], &["query", "args", "as-of", "limit", "text"]),
    ("read", &["entity"], &["pattern", "as-of"]),
    ("history", &["entity"], &["attribute"]),
    ("turns", &[], &["session", "limit", "before"]),
    ("turn", &["t"], &[]),
];

/// Where the memory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this process.
    Here(Storage),
    /// At a transactor.
    Remote(Remote),
}

/// What a memory is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where it is.
    pub place: Place,
    /// The session to resume or to open; a fresh one when there is none.
    pub session: Option<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            place: Place::Here(Storage::Memory),
            session: None,
        }
    }
}

impl Settings {
    /// Reads a configuration: `{:conn {:storage :file :path "…"} :session "id"}`, all optional.
    ///
    /// # Errors
    /// `BadEdn` or `BadArgument`, for the person who wrote the file; never with the token.
    pub fn parse(text: &str) -> Result<Settings> {
        let form = read(text)?;
        let Edn::Map(_) = &form else {
            return Err(bad(
                "a configuration is a map, {:conn {:storage :memory} :session \"id\"}",
            ));
        };
        only_keys(&form, &["conn", "session"])?;
        let session = text_of(&form, "session")?;
        let place = match form.get("conn") {
            None => Place::Here(Storage::Memory),
            Some(conn @ Edn::Map(_))
                if conn.get("host").is_some() || conn.get("port").is_some() =>
            {
                only_keys(conn, &["host", "port", "token"])?;
                Place::Remote(Remote::from_edn(conn)?)
            }
            Some(conn @ Edn::Map(_)) => {
                only_keys(conn, &["storage", "path", "host", "port", "token"])?;
                Place::Here(storage_of(conn)?)
            }
            Some(_) => {
                return Err(bad(
                    ":conn is a map: {:storage :memory}, {:storage :file :path \"…\"} or {:host \"…\" :port 4334 :token \"…\"}",
                ));
            }
        };
        Ok(Settings { place, session })
    }
}

/// `:storage` and `:path`.
pub(crate) fn storage_of(form: &Edn) -> Result<Storage> {
    let path = text_of(form, "path")?;
    match (form.get("storage").map(|s| (s.as_keyword(), s)), path) {
        (Some((Some("memory"), _)) | None, None) => Ok(Storage::Memory),
        (Some((Some("file"), _)), Some(path)) if !path.is_empty() => Ok(Storage::File(path.into())),
        (Some((Some("file"), _)), _) => Err(bad("{:storage :file} needs a :path")),
        (Some((Some("memory"), _)) | None, Some(_)) => Err(bad("a :path is for {:storage :file}")),
        (Some((_, other)), _) => Err(bad(format!(
            ":storage is :memory or :file, not {}",
            other.brief(40)
        ))),
    }
}

pub(crate) fn text_of(form: &Edn, key: &str) -> Result<Option<String>> {
    match form.get(key) {
        None | Some(Edn::Nil) => Ok(None),
        Some(Edn::Str(text)) => Ok(Some(text.to_string())),
        // The value may be a token, so it is not shown.
        Some(other) => Err(bad(format!(":{key} is a string, not {}", other.kind()))),
    }
}

pub(crate) fn only_keys(form: &Edn, known: &[&str]) -> Result<()> {
    let Edn::Map(members) = form else {
        return Ok(());
    };
    for (key, _) in members {
        if !key.as_keyword().is_some_and(|k| known.contains(&k)) {
            let near = key
                .as_keyword()
                .and_then(|k| nearest(k, known.iter().copied()));
            let hint = near.map_or(format!("known are :{}", known.join(" :")), |near| {
                format!("did you mean :{near}?")
            });
            return Err(bad(format!(
                "the configuration has no {}; {hint}",
                key.brief(40)
            )));
        }
    }
    Ok(())
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(Kind::BadArgument, message)
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The form that was asked for.
    pub form: Edn,
    /// Whether it was cut, and how to get the rest.
    pub note: Option<Edn>,
}

impl From<Edn> for Answer {
    fn from(form: Edn) -> Answer {
        Answer { form, note: None }
    }
}

/// A memory, here or at a transactor.
#[derive(Debug)]
pub enum Memory {
    /// In this process.
    Here(Session),
    /// At a transactor.
    Remote(Client),
}

impl Memory {
    /// Opens a memory and its session.
    ///
    /// # Errors
    /// When the file is refused or the transactor cannot be reached.
    pub fn open(settings: &Settings) -> Result<Memory> {
        let session = match &settings.session {
            Some(session) => session.clone(),
            None => fresh_id()?,
        };
        match &settings.place {
            Place::Here(storage) => {
                let store = Arc::new(Mutex::new(Store::open(storage)?));
                Ok(Memory::Here(Session::open(store, &session)?))
            }
            Place::Remote(remote) => Ok(Memory::Remote(Client::connect(remote.clone(), &session)?)),
        }
    }

    /// The id of the session.
    pub fn session(&self) -> &str {
        match self {
            Memory::Here(session) => &session.id,
            Memory::Remote(client) => client.session(),
        }
    }

    /// Does one of the [`OPERATIONS`].
    ///
    /// # Errors
    /// What was wrong with the arguments, or with the memory.
    pub fn answer(&mut self, operation: &str, arguments: &Edn, limits: &Limits) -> Result<Answer> {
        match self {
            Memory::Here(session) => session.answer(operation, arguments, limits),
            Memory::Remote(client) => client.answer(operation, arguments),
        }
    }
}

/// A store and the session in which an agent writes to it.
#[derive(Debug)]
pub struct Session {
    store: Arc<Mutex<Store>>,
    id: String,
    entity: i64,
}

/// The arguments of an operation.
struct Arguments<'a>(&'a Edn);

impl<'a> Arguments<'a> {
    /// An argument that is a text; None when it is not given.
    fn text(&self, name: &str) -> Result<Option<&'a str>> {
        match self.0.get(name) {
            None | Some(Edn::Nil) => Ok(None),
            Some(Edn::Str(text)) => Ok(Some(text)),
            Some(other) => Err(bad(format!("`{name}` is a string, not {}", other.kind()))),
        }
    }

    /// An argument that is EDN in a text; a bare number is taken too.
    fn form(&self, name: &str) -> Result<Option<(Edn, String)>> {
        if let Some(number @ Edn::Int(_)) = self.0.get(name) {
            return Ok(Some((number.clone(), number.to_string())));
        }
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let form = read(text).map_err(|e| Error::from(e).in_text(name, text))?;
        Ok(Some((form, text.to_owned())))
    }

    fn number(&self, name: &str) -> Result<Option<i64>> {
        match self.form(name)? {
            None => Ok(None),
            Some((Edn::Int(number), _)) if number >= 0 => Ok(Some(number)),
            Some((other, _)) => Err(bad(format!(
                "`{name}` is a number from 0 on, not {}",
                other.brief(40)
            ))),
        }
    }

    fn count(&self, name: &str, usual: usize) -> Result<usize> {
        match self.number(name)? {
            None => Ok(usual),
            Some(0) => Err(bad(format!("`{name}` is at least 1"))),
            Some(number) => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
        }
    }

    /// A moment: a `t`, or the entity of a turn.
    fn moment(&self, name: &str) -> Result<Option<i64>> {
        Ok(self
            .number(name)?
            .map(|t| if t >= TX_BASE { t - TX_BASE } else { t }))
    }
}

/// Runs `work` on a form that came as a text, and places its errors in the text.
fn in_text<T>(name: &str, text: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    work().map_err(|e| e.in_text(name, text))
}

impl Session {
    /// Resumes the session with an id, or opens it.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn open(store: Arc<Mutex<Store>>, id: &str) -> Result<Session> {
        let entity = lock(&store).open_session(id)?;
        Ok(Session {
            store,
            id: id.to_owned(),
            entity,
        })
    }

    /// Does one of the [`OPERATIONS`].
    ///
    /// # Errors
    /// What was wrong with the arguments, or with the store.
    pub fn answer(&mut self, operation: &str, arguments: &Edn, limits: &Limits) -> Result<Answer> {
        check_arguments(operation, arguments)?;
        let arguments = Arguments(arguments);
        match operation {
            "context" => self.context(),
            "record" => self.record(&arguments),
            "recall" => self.recall(&arguments, limits),
            "read" => self.read(&arguments),
            "history" => self.history(&arguments),
            "turn" => self.turn(&arguments),
            _ => self.turns(&arguments),
        }
    }

    // -------------------------------------------------------------------------- context

    fn context(&self) -> Result<Answer> {
        let mut store = lock(&self.store);
        let db = store.db(View::Current)?;
        let attributes: Vec<_> = db
            .schema()
            .attributes()
            .into_iter()
            .filter(|a| !a.is_built_in())
            .cloned()
            .collect();
        let vocabulary = within(attributes.iter().map(|a| a.to_edn()), CONTEXT_PART);
        let t = db.t;
        let turns = db.count_transactions_of(self.entity)? - 1;
        let db = db.with_view(View::History);
        let mut recent = Vec::new();
        let mut size = 0;
        // Transactions that only opened a session are no turns; there may be many in a row.
        for t in (1..=t).rev().take(500) {
            let Some(turn) = recent_turn(&db, t)? else {
                continue;
            };
            size += turn.to_string().len();
            if recent.len() == 10 || size > CONTEXT_PART {
                break;
            }
            recent.push(turn);
        }
        let session = Edn::map([
            ("db/id", Edn::Int(self.entity)),
            ("memory.session/id", Edn::str(&self.id)),
        ]);
        let form = Edn::map([
            ("session", session),
            ("t", Edn::Int(t)),
            ("vocabulary", Edn::Vector(vocabulary.clone())),
            ("turns", Edn::Int(turns)),
            ("recent", Edn::Vector(recent)),
        ]);
        let note = (vocabulary.len() < attributes.len()).then(|| {
            let more = "recall with query [:find [?ident ...] :where [?a :db/valueType] [?a :db/ident ?ident]], and read with entity :an/ident";
            cut_note(vocabulary.len(), attributes.len(), more)
        });
        Ok(Answer { form, note })
    }

    // -------------------------------------------------------------------------- record

    fn record(&self, arguments: &Arguments<'_>) -> Result<Answer> {
        let source = match arguments.form("source")? {
            None => None,
            // A turn is named by its entity or by its t.
            Some((Edn::Int(t), _)) => Some(if t < TX_BASE {
                t.saturating_add(TX_BASE)
            } else {
                t
            }),
            Some((form, text)) => Some(in_text("source", &text, || {
                lock(&self.store).db(View::Current)?.must_be_entity(&form)
            })?),
        };
        let (tx, text) = arguments.form("tx")?.unwrap_or((Edn::Nil, String::new()));
        let provenance = Provenance {
            session: Some(self.entity),
            source,
        };
        let report = in_text("tx", &text, || lock(&self.store).transact(&tx, provenance))?;
        let tempids = report
            .tempids
            .into_iter()
            .map(|(name, id)| (Edn::Str(name), Edn::Int(id)))
            .collect();
        let form = Edn::map([
            ("turn", Edn::Int(report.tx)),
            ("t", Edn::Int(report.t)),
            ("tempids", Edn::Map(tempids)),
            ("datoms", Edn::Int(report.datoms.len() as i64)),
        ]);
        Ok(form.into())
    }

    // -------------------------------------------------------------------------- recall

    fn recall(&self, arguments: &Arguments<'_>, limits: &Limits) -> Result<Answer> {
        let view = arguments.moment("as-of")?.map_or(View::Current, View::AsOf);
        let limit = arguments.count("limit", DEFAULT_ROWS)?;
        let mut store = lock(&self.store);
        let db = store.db(view)?;
        let (result, total) = match (arguments.form("query")?, arguments.text("text")?) {
            (Some(_), Some(_)) => {
                return Err(bad(
                    "give `query` or `text`, not both; in a query stands [(fulltext $ :note/text \"words\") [[?e ?v]]]",
                ));
            }
            (None, None) => {
                return Err(bad(
                    "give a `query`, [:find ?e :where [?e :person/name \"Ada\"]], or a `text` to search for",
                ));
            }
            (None, Some(text)) => {
                if arguments.0.get("args").is_some() {
                    return Err(bad("`args` go with a `query`"));
                }
                search(&db, text, limit)?
            }
            (Some((query, text)), None) => {
                let query = in_text("query", &text, || Query::parse(&query))?;
                let (args, args_text) = arguments
                    .form("args")?
                    .unwrap_or((Edn::Vector(Vec::new()), String::new()));
                let Edn::Vector(args) = args else {
                    return Err(bad("`args` is a vector with a value for each of :in"));
                };
                let answer = query.run(&db, &args, limits, Some(limit));
                let answer =
                    answer.map_err(|e| e.in_text("query", &text).in_text("args", &args_text))?;
                (answer.result, answer.total)
            }
        };
        Ok(bounded(result, total))
    }

    // -------------------------------------------------------------------------- read

    fn read(&self, arguments: &Arguments<'_>) -> Result<Answer> {
        let view = arguments.moment("as-of")?.map_or(View::Current, View::AsOf);
        let mut store = lock(&self.store);
        let db = store.db(view)?;
        let entity = entity(&db, arguments)?;
        let form = match arguments.form("pattern")? {
            None => pull(&db, &Pattern::everything(), entity)?,
            Some((form, text)) => in_text("pattern", &text, || {
                pull(&db, &Pattern::parse(&form)?, entity)
            })?,
        };
        Ok(bounded_map(form))
    }

    // -------------------------------------------------------------------------- history

    fn history(&self, arguments: &Arguments<'_>) -> Result<Answer> {
        let mut store = lock(&self.store);
        let db = store.db(View::Current)?;
        let e = entity(&db, arguments)?;
        let a = match arguments.text("attribute")? {
            None => None,
            Some(text) => Some(in_text("attribute", text, || match read(text)? {
                Edn::Keyword(name) => Ok(db.schema().attribute(&name)?.id),
                other => Err(bad(format!(
                    "`attribute` is a keyword such as :person/name, not {}",
                    other.brief(40)
                ))),
            })?),
        };
        let db = db.with_view(View::History);
        let mut datoms = db.find(Known {
            e: Some(e),
            a,
            ..Known::default()
        })?;
        datoms.sort_unstable_by(|x, y| (x.t, x.added, x.a, &x.v).cmp(&(y.t, y.added, y.a, &y.v)));
        let mut provenance = HashMap::new();
        let total = datoms.len();
        // The newest are kept when there are too many, and shown oldest first.
        let (mut shown, mut size) = (Vec::new(), 0);
        for datom in datoms.into_iter().rev() {
            let entry = history_entry(&db, &datom, &mut provenance)?;
            size += entry.to_string().len();
            if size > MAX_ANSWER && !shown.is_empty() {
                break;
            }
            shown.push(entry);
        }
        shown.reverse();
        let more = "these are the newest; name an `attribute`, or read the entity with `as-of` for an older state";
        let note = (shown.len() < total).then(|| cut_note(shown.len(), total, more));
        Ok(Answer {
            form: Edn::Vector(shown),
            note,
        })
    }

    // -------------------------------------------------------------------------- turn

    /// One turn with all that it asserted and retracted.
    fn turn(&self, arguments: &Arguments<'_>) -> Result<Answer> {
        let t = arguments.moment("t")?.unwrap_or_default();
        let mut store = lock(&self.store);
        let db = store.db(View::History)?;
        let Some(datoms) = db.size_of(t)?.filter(|_| t > 0) else {
            return Err(
                Error::new(Kind::NoSuchEntity, format!("there is no turn {t}")).value(&Edn::Int(t)),
            );
        };
        let mut facts = db.find(Known {
            t: Some(t),
            ..Known::default()
        })?;
        facts.sort_unstable_by(|x, y| (x.e, x.a, x.added, &x.v).cmp(&(y.e, y.a, y.added, &y.v)));
        let total = facts.len();
        let facts = facts.into_iter().map(|d| {
            Edn::Vector(vec![
                Edn::Int(d.e),
                name_of(&db, d.a),
                d.v,
                Edn::Int(TX_BASE + d.t),
                Edn::Bool(d.added),
            ])
        });
        let facts = within(facts, MAX_ANSWER);
        let more =
            "recall with query [:find ?e ?a ?v :in ?tx :where [?e ?a ?v ?tx]] and the turn in args";
        let note = (facts.len() < total).then(|| cut_note(facts.len(), total, more));
        let form = Edn::map([
            ("turn", Edn::Int(TX_BASE + t)),
            ("t", Edn::Int(t)),
            ("inst", instant(&db, t)?),
            ("session", session_of(&db, t)?.0),
            ("datoms", Edn::Int(datoms)),
            ("facts", Edn::Vector(facts)),
        ]);
        Ok(Answer { form, note })
    }

    // -------------------------------------------------------------------------- turns

    fn turns(&self, arguments: &Arguments<'_>) -> Result<Answer> {
        let limit = arguments.count("limit", DEFAULT_TURNS)?.min(1000);
        let mut store = lock(&self.store);
        let db = store.db(View::Current)?;
        let session = match arguments.text("session")? {
            None => self.entity,
            Some(id) => db.session(id)?.ok_or_else(|| no_such_session(&db, id))?,
        };
        let before = arguments.moment("before")?.unwrap_or(db.t + 1);
        let opened = opening(&db, session)?;
        let mut found = db.transactions_of(session, before, limit + 2)?;
        found.retain(|t| *t != opened);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().copied().unwrap_or(0);
        let turns = found.iter().map(|t| {
            Ok(Edn::map([
                ("turn", Edn::Int(TX_BASE + t)),
                ("t", Edn::Int(*t)),
                ("inst", instant(&db, *t)?),
                ("datoms", Edn::Int(db.size_of(*t)?.unwrap_or(0))),
            ]))
        });
        let form = Edn::Vector(turns.collect::<Result<_>>()?);
        let note = more.then(|| {
            Edn::map([
                ("cut", Edn::Bool(true)),
                ("before", Edn::Int(next)),
                (
                    "more",
                    Edn::str(&format!("for older turns call turns with `before` {next}")),
                ),
            ])
        });
        Ok(Answer { form, note })
    }
}

fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    // A panic inside leaves SQLite's transaction rolled back, so the store is sound.
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_arguments(operation: &str, arguments: &Edn) -> Result<()> {
    let Some((_, required, optional)) = OPERATIONS.iter().find(|(name, _, _)| *name == operation)
    else {
        let near = nearest(operation, OPERATIONS.iter().map(|(name, _, _)| *name));
        let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return Err(bad(format!("there is no operation `{operation}`{hint}")));
    };
    let Edn::Map(members) = arguments else {
        return Err(bad("arguments are a map"));
    };
    for (key, _) in members {
        let known = required.iter().chain(*optional);
        if !key
            .as_keyword()
            .is_some_and(|key| known.clone().any(|k| *k == key))
        {
            let near = key
                .as_keyword()
                .and_then(|k| nearest(k, known.clone().copied()));
            let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            let name = key.as_keyword().unwrap_or("that");
            return Err(bad(format!("`{operation}` has no argument `{name}`{hint}")));
        }
    }
    match required
        .iter()
        .find(|name| arguments.get(name).is_none_or(|v| *v == Edn::Nil))
    {
        Some(missing) => Err(bad(format!("`{operation}` needs the argument `{missing}`"))),
        None => Ok(()),
    }
}

fn entity(db: &Db<'_>, arguments: &Arguments<'_>) -> Result<i64> {
    let (form, text) = arguments
        .form("entity")?
        .unwrap_or((Edn::Nil, String::new()));
    in_text("entity", &text, || db.must_be_entity(&form))
}

fn no_such_session(db: &Db<'_>, id: &str) -> Error {
    let mut ids = Vec::new();
    let listed = db.scan(
        Known {
            a: Some(schema::SESSION_ID),
            ..Known::default()
        },
        &mut |datom| {
            ids.extend(datom.v.as_str().map(str::to_owned));
            Ok(ids.len() < 1000)
        },
    );
    let near = listed
        .ok()
        .and_then(|()| nearest(id, ids.iter().map(String::as_str)));
    let hint = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    Error::new(
        Kind::NoSuchSession,
        format!("there is no session {}{hint}", Edn::str(id).brief(80)),
    )
}

/// The transaction that made a session: not a turn.
fn opening(db: &Db<'_>, session: i64) -> Result<i64> {
    let found = db.find(Known {
        e: Some(session),
        a: Some(schema::SESSION_ID),
        ..Known::default()
    })?;
    Ok(found.first().map_or(0, |datom| datom.t))
}

fn instant(db: &Db<'_>, t: i64) -> Result<Edn> {
    let found = db.find(Known {
        e: Some(TX_BASE + t),
        a: Some(schema::TX_INSTANT),
        ..Known::default()
    })?;
    Ok(found.into_iter().next().map_or(Edn::Nil, |datom| datom.v))
}

/// The id of the session that a transaction belongs to; nil for one made without a session.
fn session_of(db: &Db<'_>, t: i64) -> Result<(Edn, i64)> {
    let found = db.find(Known {
        e: Some(TX_BASE + t),
        a: Some(schema::SESSION),
        ..Known::default()
    })?;
    let Some(session) = found.first().and_then(|datom| datom.v.as_int()) else {
        return Ok((Edn::Nil, 0));
    };
    let ids = db.find(Known {
        e: Some(session),
        a: Some(schema::SESSION_ID),
        ..Known::default()
    })?;
    Ok((
        ids.into_iter().next().map_or(Edn::Nil, |datom| datom.v),
        session,
    ))
}

/// A turn in `context`: where it came from, and the first of its facts. None for what is no turn.
fn recent_turn(db: &Db<'_>, t: i64) -> Result<Option<Edn>> {
    let (session, entity) = session_of(db, t)?;
    if entity == 0 || opening(db, entity)? == t {
        return Ok(None);
    }
    let (mut facts, mut count) = (Vec::new(), 0usize);
    db.scan(
        Known {
            t: Some(t),
            ..Known::default()
        },
        &mut |datom| {
            let provenance =
                datom.e == TX_BASE + t && matches!(datom.a, schema::TX_INSTANT | schema::SESSION);
            if !provenance && datom.added {
                count += 1;
                if facts.len() < 5 {
                    let value = match known_name(db, &datom) {
                        Some(name) => name,
                        None => brief(&datom.v),
                    };
                    facts.push(Edn::Vector(vec![
                        Edn::Int(datom.e),
                        name_of(db, datom.a),
                        value,
                    ]));
                }
            }
            Ok(true)
        },
    )?;
    let mut members = vec![
        (Edn::keyword("t"), Edn::Int(t)),
        (Edn::keyword("inst"), instant(db, t)?),
        (Edn::keyword("session"), session),
        (
            Edn::keyword("datoms"),
            Edn::Int(db.size_of(t)?.unwrap_or(0)),
        ),
    ];
    let shown = facts.len();
    members.push((Edn::keyword("facts"), Edn::Vector(facts)));
    if shown < count {
        members.push((
            Edn::keyword("facts-left-out"),
            Edn::Int((count - shown) as i64),
        ));
    }
    Ok(Some(Edn::Map(members)))
}

fn name_of(db: &Db<'_>, a: i64) -> Edn {
    db.schema()
        .by_id(a)
        .map_or(Edn::Int(a), |attribute: &Arc<Attribute>| {
            Edn::Keyword(attribute.ident.clone())
        })
}

/// The ident of the entity that a reference leads to.
fn known_name(db: &Db<'_>, datom: &Datom) -> Option<Edn> {
    let is_ref = db.schema().by_id(datom.a)?.value_type == ValueType::Ref;
    let name = db.schema().name(datom.v.as_int().filter(|_| is_ref)?)?;
    Some(Edn::Keyword(name.clone()))
}

/// A long text shown by its start.
fn brief(value: &Edn) -> Edn {
    match value {
        Edn::Str(text) if text.chars().count() > 120 => {
            Edn::str(&format!("{}…", text.chars().take(120).collect::<String>()))
        }
        Edn::Bytes(bytes) if bytes.len() > 60 => Edn::str(&format!("{} bytes", bytes.len())),
        other => other.clone(),
    }
}

fn history_entry(
    db: &Db<'_>,
    datom: &Datom,
    provenance: &mut HashMap<i64, (Edn, Edn)>,
) -> Result<Edn> {
    let (inst, session) = match provenance.get(&datom.t) {
        Some(known) => known.clone(),
        None => {
            let known = (instant(db, datom.t)?, session_of(db, datom.t)?.0);
            provenance.insert(datom.t, known.clone());
            known
        }
    };
    Ok(Edn::map([
        ("a", name_of(db, datom.a)),
        ("v", datom.v.clone()),
        ("added", Edn::Bool(datom.added)),
        ("t", Edn::Int(datom.t)),
        ("inst", inst),
        ("session", session),
    ]))
}

fn search(db: &Db<'_>, text: &str, limit: usize) -> Result<(Edn, usize)> {
    let (mut found, mut total) = (Vec::new(), 0);
    db.search(text, None, &mut |datom, _| {
        total += 1;
        if found.len() < limit {
            found.push(Edn::map([
                ("e", Edn::Int(datom.e)),
                ("a", name_of(db, datom.a)),
                ("v", datom.v),
                ("t", Edn::Int(datom.t)),
            ]));
        }
        Ok(total < 100_000)
    })?;
    Ok((Edn::Vector(found), total))
}

// ---------------------------------------------------------------------------------- cutting

fn cut_note(shown: usize, total: usize, more: &str) -> Edn {
    Edn::map([
        ("cut", Edn::Bool(true)),
        ("shown", Edn::Int(shown as i64)),
        ("total", Edn::Int(total as i64)),
        ("more", Edn::str(more)),
    ])
}

/// As many forms as fit into so many bytes of text.
fn within(forms: impl Iterator<Item = Edn>, limit: usize) -> Vec<Edn> {
    let mut size = 0;
    forms
        .take_while(|form| {
            size += form.to_string().len() + 1;
            size <= limit
        })
        .collect()
}

/// The result of `recall`, cut to what an answer holds; the note says whether it was cut.
fn bounded(result: Edn, total: usize) -> Answer {
    let Edn::Vector(rows) = result else {
        return Answer {
            form: result,
            note: Some(Edn::map([("cut", Edn::Bool(false))])),
        };
    };
    let asked = rows.len();
    let mut kept = within(rows.iter().cloned(), MAX_ANSWER);
    if kept.is_empty() {
        // One row may be larger than all bounds; it is the least that answers.
        kept.extend(rows.into_iter().next());
    }
    let note = if kept.len() < asked {
        cut_note(
            kept.len(),
            total,
            "the rows are long; find fewer variables, or a narrower pattern",
        )
    } else if total > asked && asked > 0 {
        cut_note(
            kept.len(),
            total,
            "ask again with a larger `limit`, or with a narrower query",
        )
    } else {
        Edn::map([("cut", Edn::Bool(false))])
    };
    Answer {
        form: Edn::Vector(kept),
        note: Some(note),
    }
}

/// The result of `read`: of an attribute with very many values the first, of a very long text the start.
fn bounded_map(form: Edn) -> Answer {
    let Edn::Map(mut members) = form else {
        return form.into();
    };
    let size: usize = members
        .iter()
        .map(|(_, value)| value.to_string().len())
        .sum();
    if size <= MAX_ANSWER {
        return Edn::Map(members).into();
    }
    let share = (MAX_ANSWER / members.len()).max(500);
    let mut cut = Vec::new();
    for (key, value) in &mut members {
        let length = value.to_string().len();
        if length <= share {
            continue;
        }
        match value {
            Edn::Vector(values) => {
                let kept = within(values.iter().cloned(), share);
                cut.push((
                    key.clone(),
                    Edn::map([
                        ("shown", Edn::Int(kept.len() as i64)),
                        ("total", Edn::Int(values.len() as i64)),
                    ]),
                ));
                *values = kept;
            }
            Edn::Str(text) => {
                let kept: String = text.chars().take(share / 4).collect();
                let total = text.chars().count() as i64;
                cut.push((
                    key.clone(),
                    Edn::map([
                        ("shown", Edn::Int((share / 4) as i64)),
                        ("total", Edn::Int(total)),
                    ]),
                ));
                *text = kept.into();
            }
            _ => {}
        }
    }
    let note = Edn::map([
        ("cut", Edn::Bool(!cut.is_empty())),
        ("attributes", Edn::Map(cut)),
        (
            "more",
            Edn::str(
                "read one attribute with `pattern` [:the/attribute], or its values with recall and `limit`",
            ),
        ),
    ]);
    Answer {
        form: Edn::Map(members),
        note: Some(note),
    }
}
