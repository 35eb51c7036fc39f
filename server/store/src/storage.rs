//! Facts in SQLite: one file, or memory.
//!
//! A row of `datom` is a fact with the time it holds: from transaction `t` until `gone` (null while
//! it holds). So any past state is a filter on an index, and a change touches three trees only: the
//! table (by entity), `datom_avet` (by attribute and value), and `turn`, the list of what each
//! transaction touched. Every process opens the file for itself; SQLite orders the writers.

use crate::edn::{Edn, Instant};
use crate::error::{Error, Kind, Result};
use crate::schema::{self, Attribute, Schema, TX_BASE, ValueType};
use crate::value::{decode, encode, fit};
use rusqlite::config::DbConfig;
use rusqlite::{
    CachedStatement, Connection, OpenFlags, OptionalExtension, Row, ToSql, Transaction,
    TransactionBehavior,
};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where facts are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In RAM, gone with the process.
    Memory,
    /// In one file.
    File(PathBuf),
}

/// `TSmf`, in the header of every memory file (SQLite's application id).
const APPLICATION_ID: i32 = 0x5453_6d66;

/// The version of the tables below. A file with a higher one is refused.
const FORMAT: i32 = 1;

/// Up to this size a file is checked whole when it is opened; beyond it, page by page as it is read.
const CHECKED_WHOLE: u64 = 4 << 20;

/// How often, and how long each time, a writer waits for another process's transaction: 20 seconds
/// in all. SQLite's own waiting grows to 100 ms, with which a busy neighbour is hardly ever overtaken.
const BUSY_WAITS: i32 = 10_000;
const BUSY_WAIT: Duration = Duration::from_millis(2);

fn wait_for_others(waited: i32) -> bool {
    std::thread::sleep(BUSY_WAIT);
    waited < BUSY_WAITS
}

const TABLES: &str = "
    CREATE TABLE datom (e INTEGER NOT NULL, a INTEGER NOT NULL, v NOT NULL, t INTEGER NOT NULL, gone INTEGER,
                        PRIMARY KEY (e, a, v, t)) WITHOUT ROWID;
    CREATE INDEX datom_avet ON datom (a, v, e, t, gone);
    CREATE TABLE turn (t INTEGER PRIMARY KEY, datoms INTEGER NOT NULL, touched BLOB NOT NULL);
    CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
    CREATE VIRTUAL TABLE fulltext USING fts5
        (v, e UNINDEXED, a UNINDEXED, t UNINDEXED, tokenize = \"unicode61 remove_diacritics 2\");
    INSERT INTO meta VALUES ('schema', 0);
";

/// A fact, or its retraction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Datom {
    /// The entity.
    pub e: i64,
    /// The attribute's entity.
    pub a: i64,
    /// The value; a ref is a long.
    pub v: Edn,
    /// The transaction, counted from 1.
    pub t: i64,
    /// False for a retraction.
    pub added: bool,
}

/// Which facts are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Those that hold now.
    Current,
    /// Those that held after transaction t.
    AsOf(i64),
    /// Those that hold now and were asserted after transaction t.
    Since(i64),
    /// All that were ever asserted or retracted.
    History,
}

/// What of a fact is known when it is looked up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known<'v> {
    pub(crate) e: Option<i64>,
    pub(crate) a: Option<i64>,
    pub(crate) v: Option<&'v Edn>,
    pub(crate) t: Option<i64>,
}

/// A store of facts: one connection to one file.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    schema: Arc<Schema>,
    schema_t: i64,
}

/// The facts as they were at one moment, whatever others write meanwhile.
#[derive(Debug)]
pub struct Db<'s> {
    transaction: Transaction<'s>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) view: View,
    /// The last transaction.
    pub t: i64,
}

impl Store {
    /// Opens a store, and makes it when there is none.
    ///
    /// # Errors
    /// `BadFile` for a file that is not a memory, is damaged or is newer; it is left as it was.
    /// `Storage` when the file cannot be read or made.
    pub fn open(storage: &Storage) -> Result<Store> {
        match storage {
            Storage::Memory => {
                let mut connection = Connection::open_in_memory()?;
                make_tables(&mut connection)?;
                Store::from_connection(connection)
            }
            Storage::File(path) => open_file(path).map_err(|e| match e.kind() {
                Kind::BadFile | Kind::Storage => {
                    Error::new(e.kind(), format!("{}: {}", path.display(), e.message()))
                }
                _ => e,
            }),
        }
    }

    fn from_connection(mut connection: Connection) -> Result<Store> {
        connection.busy_handler(Some(wait_for_others))?;
        connection.set_prepared_statement_cache_capacity(128);
        let mut store = Store {
            connection,
            schema: Arc::default(),
            schema_t: -1,
        };
        let schema = store.db(View::Current)?.schema.clone();
        if schema.by_id(schema::SESSION_ID).is_none() {
            return Err(damaged("the built-in attributes are missing"));
        }
        Ok(store)
    }

    /// The facts of now, as the view shows them.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn db(&mut self, view: View) -> Result<Db<'_>> {
        self.begin(view, TransactionBehavior::Deferred)
    }

    /// Starts a transaction that may write; no other process writes until it ends.
    pub(crate) fn write(&mut self) -> Result<Db<'_>> {
        self.begin(View::Current, TransactionBehavior::Immediate)
    }

    fn begin(&mut self, view: View, behavior: TransactionBehavior) -> Result<Db<'_>> {
        let transaction = Transaction::new_unchecked(&self.connection, behavior)?;
        let schema_t = transaction
            .prepare_cached("SELECT value FROM meta WHERE key = 'schema'")?
            .query_row([], |row| row.get::<_, i64>(0))?;
        if schema_t != self.schema_t {
            // Another process may have registered an attribute.
            self.schema = Arc::new(load_schema(&transaction)?);
            self.schema_t = schema_t;
        }
        let t = transaction
            .prepare_cached("SELECT max(t) FROM turn")?
            .query_row([], |row| row.get::<_, Option<i64>>(0))?;
        let t = t.ok_or_else(|| damaged("it holds no transaction"))?;
        Ok(Db {
            transaction,
            schema: self.schema.clone(),
            view,
            t,
        })
    }
}

fn damaged(what: &str) -> Error {
    Error::new(
        Kind::BadFile,
        format!("the memory file is damaged: {what}; restore it from a copy"),
    )
}

// ---------------------------------------------------------------------------------- the file

fn open_file(path: &Path) -> Result<Store> {
    let cannot = |e: std::io::Error| {
        Error::new(
            Kind::Storage,
            format!("the memory file cannot be opened: {e}"),
        )
    };
    match std::fs::metadata(path) {
        Ok(meta) if !meta.is_file() => return Err(Error::new(Kind::BadFile, "this is not a file")),
        Ok(meta) if meta.len() > 0 => check_header(path, meta.len())?,
        Ok(_) => create(path, true)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => create(path, false)?,
        Err(e) => return Err(cannot(e)),
    }
    let mut connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    // Until the file is known to be sound, closing it must not write the log into it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_handler(Some(wait_for_others))?;
    check_content(path, &connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -32_000)?;
    let store = Store::from_connection(connection)?;
    store
        .connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(store)
}

/// Looks at the first bytes before SQLite does: opening alone may change a file.
fn check_header(path: &Path, length: u64) -> Result<()> {
    let cannot = |e: std::io::Error| {
        Error::new(
            Kind::Storage,
            format!("the memory file cannot be read: {e}"),
        )
    };
    let mut header = [0u8; 100];
    let mut file = File::open(path).map_err(cannot)?;
    let foreign = |what: &str| {
        Err(Error::new(
            Kind::BadFile,
            format!("{what}; it is left as it is, choose another path"),
        ))
    };
    if length < 100 {
        return foreign("this is not a memory file");
    }
    file.read_exact(&mut header).map_err(cannot)?;
    if &header[..16] != b"SQLite format 3\0" {
        return foreign("this is not a memory file, or its head is damaged");
    }
    let number = |at: usize| {
        i32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    if number(68) != APPLICATION_ID {
        return foreign("this is a SQLite database, but not a memory file");
    }
    check_format(number(60))?;
    let page = match u64::from(u16::from_be_bytes([header[16], header[17]])) {
        1 => 65_536,
        size => size,
    };
    let pages = u64::from(number(28).unsigned_abs());
    let has_log = std::fs::metadata(log_of(path)).is_ok_and(|m| m.len() > 0);
    if page < 512 || (!has_log && length < pages * page) {
        return Err(damaged(&format!(
            "it holds {length} bytes, and {} are expected",
            pages * page
        )));
    }
    Ok(())
}

fn check_format(format: i32) -> Result<()> {
    if format > FORMAT {
        return Err(Error::new(
            Kind::BadFile,
            format!(
                "the memory file has format {format}, and this program knows up to {FORMAT}; use a newer program"
            ),
        ));
    }
    if format < 1 {
        return Err(damaged("its format version is missing"));
    }
    Ok(())
}

fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

fn check_content(path: &Path, connection: &Connection) -> Result<()> {
    // The log may hold a later version of the header than the file does.
    check_format(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)?;
    let tables: i64 = connection.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE name IN ('datom', 'datom_avet', 'turn', 'meta', 'fulltext')",
        [],
        |row| row.get(0),
    )?;
    if tables != 5 {
        return Err(damaged("tables are missing"));
    }
    if std::fs::metadata(path).is_ok_and(|m| m.len() <= CHECKED_WHOLE) {
        let verdict: String =
            connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if verdict != "ok" {
            return Err(damaged(&verdict));
        }
    }
    Ok(())
}

/// Makes a new file beside the path and links it into place, so that no one sees half a file and
/// of two processes that start at once one wins and both use the winner's file.
fn create(path: &Path, replace_empty: bool) -> Result<()> {
    let cannot = |e: std::io::Error| {
        Error::new(
            Kind::Storage,
            format!("the memory file cannot be made: {e}"),
        )
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path
        .file_name()
        .ok_or_else(|| Error::new(Kind::BadFile, "this is not a path to a file"))?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.new", fresh_id()?));
    let temporary = folder.join(temporary);
    let made = make_file(&temporary).and_then(|()| {
        if replace_empty {
            return std::fs::rename(&temporary, path).map_err(cannot);
        }
        match std::fs::hard_link(&temporary, path) {
            Ok(()) => Ok(()),
            Err(_) if path.exists() => Ok(()),
            // A file system without links.
            Err(_) => std::fs::rename(&temporary, path).map_err(cannot),
        }
    });
    // What is left is either a second name of the file or a failure's rest.
    let _ = std::fs::remove_file(&temporary);
    made?;
    File::open(folder)
        .and_then(|f| f.sync_all())
        .map_err(cannot)
}

fn make_file(path: &Path) -> Result<()> {
    let mut connection = Connection::open(path)?;
    make_tables(&mut connection)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.close().map_err(|(_, e)| e.into())
}

fn make_tables(connection: &mut Connection) -> Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    let mut writer = Writer::new(&transaction, 0);
    for (e, a, v) in schema::built_in_facts() {
        writer.assert(e, a, &v, false)?;
    }
    writer.assert(
        TX_BASE,
        schema::TX_INSTANT,
        &Edn::Inst(Instant::now()),
        false,
    )?;
    writer.finish()?;
    transaction.commit()?;
    Ok(())
}

/// A random UUID as text: ids of sessions, names of temporary files.
///
/// # Errors
/// When the system gives no random bytes.
pub fn fresh_id() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| {
        Error::new(
            Kind::Storage,
            format!("the system gives no random bytes: {e}"),
        )
    })?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = Edn::Uuid(bytes).to_string();
    Ok(text[7..text.len() - 1].to_owned())
}

fn load_schema(connection: &Connection) -> Result<Schema> {
    let mut statement = connection
        .prepare_cached("SELECT e, a, v FROM datom WHERE a BETWEEN 1 AND 8 AND gone IS NULL")?;
    let mut rows = statement.query([])?;
    let mut facts = Vec::new();
    while let Some(row) = rows.next()? {
        let a: i64 = row.get(1)?;
        let value_type = match a {
            schema::IDENT => ValueType::Keyword,
            schema::DOC => ValueType::String,
            schema::FULLTEXT | schema::IS_COMPONENT | schema::INDEX => ValueType::Boolean,
            _ => ValueType::Ref,
        };
        facts.push((row.get(0)?, a, decode(value_type, row.get_ref(2)?)?));
    }
    Schema::from_facts(facts.into_iter())
}

// --------------------------------------------------------------------------------- the reader

/// The columns and the order of a scan, by what is known.
fn scan_sql(known: &Known<'_>, view: View) -> String {
    let mut conditions = Vec::new();
    if known.e.is_some() {
        conditions.push("e = ?1");
    }
    if known.a.is_some() {
        conditions.push("a = ?2");
    }
    if known.v.is_some() {
        conditions.push("v = ?3");
    }
    match view {
        View::Current => conditions.push("gone IS NULL"),
        View::AsOf(_) => conditions.push("t <= ?4 AND (gone IS NULL OR gone > ?4)"),
        View::Since(_) => conditions.push("gone IS NULL AND t > ?4"),
        View::History => {}
    }
    let filter = if conditions.is_empty() {
        "1".to_owned()
    } else {
        conditions.join(" AND ")
    };
    // Without statistics SQLite would guess; the choice is ours.
    let index = if known.e.is_none() && known.a.is_some() {
        "INDEXED BY datom_avet"
    } else {
        "NOT INDEXED"
    };
    format!("SELECT e, a, v, t, gone FROM datom {index} WHERE {filter}")
}

impl<'s> Db<'s> {
    pub(crate) fn connection(&self) -> &Connection {
        &self.transaction
    }

    pub(crate) fn commit(self) -> Result<()> {
        Ok(self.transaction.commit()?)
    }

    /// The same moment, seen in another way.
    pub(crate) fn with_view(mut self, view: View) -> Db<'s> {
        self.view = view;
        self
    }

    /// The vocabulary of now.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    fn run<T>(
        &self,
        known: &Known<'_>,
        sql: &str,
        body: impl FnOnce(&mut CachedStatement<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut statement = self.transaction.prepare_cached(sql)?;
        let bind =
            |statement: &mut CachedStatement<'_>, at: usize, value: &dyn ToSql| -> Result<()> {
                if statement.parameter_count() >= at && sql.contains(&format!("?{at}")) {
                    statement.raw_bind_parameter(at, value)?;
                }
                Ok(())
            };
        if let Some(e) = known.e {
            bind(&mut statement, 1, &e)?;
        }
        if let Some(a) = known.a {
            bind(&mut statement, 2, &a)?;
        }
        if let Some(v) = known.v {
            bind(&mut statement, 3, &encode(v))?;
        }
        if let View::AsOf(t) | View::Since(t) = self.view {
            bind(&mut statement, 4, &t)?;
        }
        body(&mut statement)
    }

    /// Calls `each` with every fact that is seen and has what is known, until it says false.
    pub(crate) fn scan(
        &self,
        known: Known<'_>,
        each: &mut dyn FnMut(Datom) -> Result<bool>,
    ) -> Result<()> {
        match (known, known.v) {
            (
                Known {
                    e: None,
                    t: Some(t),
                    ..
                },
                _,
            ) if known.a.is_none() || known.v.is_none() => {
                return self.scan_turn(t, known, each);
            }
            (
                Known {
                    e: Some(_),
                    a: None,
                    ..
                },
                Some(wanted),
            ) => {
                let known = Known { v: None, ..known };
                return self.scan(known, &mut |datom| {
                    if same_value(&datom.v, wanted) {
                        each(datom)
                    } else {
                        Ok(true)
                    }
                });
            }
            (
                Known {
                    e: None, a: None, ..
                },
                Some(_),
            ) => {
                let mut go_on = true;
                for attribute in self.schema.attributes() {
                    if go_on {
                        let known = Known {
                            a: Some(attribute.id),
                            ..known
                        };
                        self.scan(known, &mut |datom| {
                            go_on = each(datom)?;
                            Ok(go_on)
                        })?;
                    }
                }
                return Ok(());
            }
            _ => {}
        }
        let attribute = match known.a.map(|a| self.schema.by_id(a)) {
            Some(None) => return Ok(()),
            Some(Some(attribute)) => Some(attribute),
            None => None,
        };
        let fitted = match (attribute, known.v) {
            (Some(attribute), Some(v)) => match fit(attribute.value_type, v) {
                Some(v) => Some(v),
                None => return Ok(()),
            },
            _ => None,
        };
        let known = Known {
            v: fitted.as_deref(),
            ..known
        };
        self.run(&known, &scan_sql(&known, self.view), |statement| {
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                for datom in self.datoms_of(row, attribute)?.into_iter().flatten() {
                    if known.t.is_none_or(|t| t == datom.t) && !each(datom)? {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })
    }

    /// The facts that transaction `t` asserted or retracted.
    fn scan_turn(
        &self,
        t: i64,
        known: Known<'_>,
        each: &mut dyn FnMut(Datom) -> Result<bool>,
    ) -> Result<()> {
        let touched: Option<Vec<u8>> = self
            .transaction
            .prepare_cached("SELECT touched FROM turn WHERE t = ?1")?
            .query_row([t], |row| row.get(0))
            .optional()?;
        let mut go_on = true;
        for (e, a) in read_touched(&touched.unwrap_or_default())? {
            if !go_on {
                break;
            }
            if known.a.is_some_and(|wanted| wanted != a) {
                continue;
            }
            self.scan(
                Known {
                    e: Some(e),
                    a: Some(a),
                    v: known.v,
                    t: Some(t),
                },
                &mut |datom| {
                    go_on = each(datom)?;
                    Ok(go_on)
                },
            )?;
        }
        Ok(())
    }

    /// A row is an assertion, and in the history its retraction too.
    fn datoms_of(
        &self,
        row: &Row<'_>,
        attribute: Option<&Arc<Attribute>>,
    ) -> Result<[Option<Datom>; 2]> {
        let (e, a, t): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(3)?);
        let attribute = attribute
            .or_else(|| self.schema.by_id(a))
            .ok_or_else(|| damaged("a fact has no attribute"))?;
        let v = decode(attribute.value_type, row.get_ref(2)?)?;
        let retraction = match self.view {
            View::History => row.get::<_, Option<i64>>(4)?.map(|gone| Datom {
                e,
                a,
                v: v.clone(),
                t: gone,
                added: false,
            }),
            _ => None,
        };
        Ok([
            Some(Datom {
                e,
                a,
                v,
                t,
                added: true,
            }),
            retraction,
        ])
    }

    /// All facts that have what is known.
    pub(crate) fn find(&self, known: Known<'_>) -> Result<Vec<Datom>> {
        let mut found = Vec::new();
        self.scan(known, &mut |datom| {
            found.push(datom);
            Ok(true)
        })?;
        Ok(found)
    }

    /// How many facts have what is known, counted no further than `limit`.
    pub(crate) fn count_up_to(&self, known: Known<'_>, limit: usize) -> Result<usize> {
        if self.view == View::Current && known.v.is_none() && known.t.is_none() {
            // The planner of queries asks this often, and the values need not be read.
            let sql = scan_sql(&known, self.view).replace("e, a, v, t, gone", "1");
            let sql = format!("SELECT count(*) FROM ({sql} LIMIT ?4)");
            return self.run(&known, &sql, |statement| {
                statement.raw_bind_parameter(4, limit as i64)?;
                let mut rows = statement.raw_query();
                let count = rows.next()?.map_or(Ok(0), |row| row.get::<_, i64>(0))?;
                Ok(count as usize)
            });
        }
        let mut count = 0;
        self.scan(known, &mut |_| {
            count += 1;
            Ok(count < limit)
        })?;
        Ok(count)
    }

    /// The values of one attribute of one entity.
    pub fn values(&self, e: i64, attribute: &Attribute) -> Result<Vec<Edn>> {
        let known = Known {
            e: Some(e),
            a: Some(attribute.id),
            ..Known::default()
        };
        Ok(self.find(known)?.into_iter().map(|datom| datom.v).collect())
    }

    /// The entity that has a value of an attribute; of a unique one there is at most one.
    pub fn lookup(&self, attribute: &Attribute, value: &Edn) -> Result<Option<i64>> {
        let mut found = None;
        self.scan(
            Known {
                a: Some(attribute.id),
                v: Some(value),
                ..Known::default()
            },
            &mut |datom| {
                found = Some(datom.e);
                Ok(false)
            },
        )?;
        Ok(found)
    }

    /// Whether any fact was ever recorded about an entity.
    pub(crate) fn was_known(&self, e: i64) -> Result<bool> {
        let mut statement = self
            .transaction
            .prepare_cached("SELECT 1 FROM datom NOT INDEXED WHERE e = ?1 LIMIT 1")?;
        Ok(statement.exists([e])?)
    }

    /// The highest entity id in use below the transactions.
    pub(crate) fn last_id(&self) -> Result<i64> {
        let mut statement = self
            .transaction
            .prepare_cached("SELECT max(e) FROM datom WHERE e < ?1")?;
        Ok(statement
            .query_row([TX_BASE], |row| row.get::<_, Option<i64>>(0))?
            .unwrap_or(0))
    }

    /// How many datoms a transaction has, provenance included. None when there is no such one.
    pub fn size_of(&self, t: i64) -> Result<Option<i64>> {
        let mut statement = self
            .transaction
            .prepare_cached("SELECT datoms FROM turn WHERE t = ?1")?;
        Ok(statement.query_row([t], |row| row.get(0)).optional()?)
    }

    /// The transactions of a session before `t`, newest first, at most `limit`.
    pub(crate) fn transactions_of(
        &self,
        session: i64,
        before: i64,
        limit: usize,
    ) -> Result<Vec<i64>> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT e FROM datom INDEXED BY datom_avet WHERE a = ?1 AND v = ?2 AND e < ?3 ORDER BY e DESC LIMIT ?4",
        )?;
        let rows = statement.query_map(
            (schema::SESSION, session, TX_BASE + before, limit as i64),
            |row| row.get::<_, i64>(0),
        )?;
        rows.map(|e| Ok(e? - TX_BASE)).collect()
    }

    /// How many transactions a session has.
    pub(crate) fn count_transactions_of(&self, session: i64) -> Result<i64> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT count(*) FROM datom INDEXED BY datom_avet WHERE a = ?1 AND v = ?2",
        )?;
        Ok(statement.query_row((schema::SESSION, session), |row| row.get(0))?)
    }

    /// The facts that match a text, the best first: every word must occur, "words in quotes" as a
    /// phrase, a last `*` any ending. `attribute` narrows it.
    pub(crate) fn search(
        &self,
        text: &str,
        attribute: Option<i64>,
        each: &mut dyn FnMut(Datom, f64) -> Result<bool>,
    ) -> Result<()> {
        let expression = search_expression(text)?;
        let mut statement = self.transaction.prepare_cached(
            "SELECT e, a, v, t, rank FROM fulltext WHERE v MATCH ?1 ORDER BY rank, rowid",
        )?;
        let mut rows = statement.query([expression])?;
        while let Some(row) = rows.next()? {
            let (e, a, t, rank): (i64, i64, i64, f64) =
                (row.get(0)?, row.get(1)?, row.get(3)?, row.get(4)?);
            let searched = self
                .schema
                .by_id(a)
                .is_some_and(|attribute| attribute.fulltext);
            if !searched || attribute.is_some_and(|wanted| wanted != a) {
                continue;
            }
            let v = decode(ValueType::String, row.get_ref(2)?)?;
            // The index holds what was ever said; the view decides what is seen.
            for datom in self.find(Known {
                e: Some(e),
                a: Some(a),
                v: Some(&v),
                t: Some(t),
            })? {
                if datom.added && !each(datom, -rank)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Equal as a stored value: a long is worth a bigint.
fn same_value(stored: &Edn, wanted: &Edn) -> bool {
    stored == wanted
        || matches!((stored, wanted), (Edn::BigInt(a), Edn::Int(b)) if **a == num_bigint::BigInt::from(*b))
        || matches!((stored, wanted), (Edn::Double(a), Edn::Double(b)) if a == b)
}

/// FTS5 has a language of its own; what an agent writes is words, so each is quoted.
fn search_expression(text: &str) -> Result<String> {
    let mut terms = Vec::new();
    for (i, part) in text.split('"').enumerate() {
        let part = part.replace('\0', " ");
        if i % 2 == 1 {
            terms.push((part.trim().to_owned(), false));
        } else {
            terms.extend(
                part.split_whitespace()
                    .map(|word| match word.strip_suffix('*') {
                        Some(start) => (start.to_owned(), true),
                        None => (word.to_owned(), false),
                    }),
            );
        }
    }
    terms.retain(|(term, _)| term.chars().any(char::is_alphanumeric));
    if terms.is_empty() {
        return Err(Error::new(
            Kind::BadArgument,
            "the text to search for holds no word",
        ));
    }
    let quoted: Vec<String> = terms
        .iter()
        .map(|(term, open)| format!("\"{term}\"{}", if *open { "*" } else { "" }))
        .collect();
    Ok(quoted.join(" "))
}

// --------------------------------------------------------------------------------- the writer

/// Writes the datoms of one transaction, inside one of SQLite's.
pub(crate) struct Writer<'c> {
    connection: &'c Connection,
    t: i64,
    datoms: i64,
    touched: Vec<u8>,
    last: (i64, i64),
}

impl<'c> Writer<'c> {
    pub(crate) fn new(connection: &'c Connection, t: i64) -> Writer<'c> {
        Writer {
            connection,
            t,
            datoms: 0,
            touched: Vec::new(),
            last: (-1, -1),
        }
    }

    pub(crate) fn assert(&mut self, e: i64, a: i64, v: &Edn, fulltext: bool) -> Result<()> {
        let value = encode(v);
        self.connection
            .prepare_cached("INSERT INTO datom (e, a, v, t) VALUES (?1, ?2, ?3, ?4)")?
            .execute((e, a, &value, self.t))?;
        if fulltext {
            self.connection
                .prepare_cached("INSERT INTO fulltext (v, e, a, t) VALUES (?1, ?2, ?3, ?4)")?
                .execute((&value, e, a, self.t))?;
        }
        self.touch(e, a);
        Ok(())
    }

    pub(crate) fn retract(&mut self, e: i64, a: i64, v: &Edn) -> Result<()> {
        let changed = self
            .connection
            .prepare_cached(
                "UPDATE datom SET gone = ?4 WHERE e = ?1 AND a = ?2 AND v = ?3 AND gone IS NULL",
            )?
            .execute((e, a, encode(v), self.t))?;
        if changed != 1 {
            return Err(damaged("a fact to be retracted is not there"));
        }
        self.touch(e, a);
        Ok(())
    }

    fn touch(&mut self, e: i64, a: i64) {
        self.datoms += 1;
        // A changed value is a retraction and an assertion of the same pair, one after the other.
        if self.last != (e, a) {
            self.last = (e, a);
            push_varint(&mut self.touched, e.unsigned_abs());
            push_varint(&mut self.touched, a.unsigned_abs());
        }
    }

    pub(crate) fn schema_changed(&self) -> Result<()> {
        self.connection
            .prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'schema'")?
            .execute([self.t])?;
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<()> {
        self.connection
            .prepare_cached("INSERT INTO turn (t, datoms, touched) VALUES (?1, ?2, ?3)")?
            .execute((self.t, self.datoms, self.touched))?;
        Ok(())
    }
}

/// The schema as it is inside a transaction that has changed it.
pub(crate) fn schema_after(connection: &Connection) -> Result<Schema> {
    load_schema(connection)
}

fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The pairs of entity and attribute that [`Writer`] noted, each once.
fn read_touched(bytes: &[u8]) -> Result<Vec<(i64, i64)>> {
    let mut numbers = Vec::new();
    let (mut number, mut shift) = (0u64, 0);
    for byte in bytes {
        if shift > 56 {
            return Err(damaged("the list of what a turn touched is not readable"));
        }
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            numbers.push(number as i64);
            (number, shift) = (0, 0);
        }
    }
    let mut pairs: Vec<(i64, i64)> = numbers
        .chunks_exact(2)
        .map(|pair| (pair[0], pair[1]))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    Ok(pairs)
}
