//! What several tests need.
#![allow(dead_code)]

use touchstone_store::edn::{Edn, read};
use touchstone_store::query::{Limits, Query};
use touchstone_store::{Error, Provenance, Report, Result, Storage, Store, View};

pub(crate) fn edn(text: &str) -> Edn {
    read(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

pub(crate) fn memory() -> Store {
    Store::open(&Storage::Memory).unwrap()
}

/// A store with people, notes and orders.
pub(crate) fn people() -> Store {
    let mut store = memory();
    record(
        &mut store,
        "[{:db/ident :person/name :db/valueType :db.type/string :db/cardinality :db.cardinality/one
           :db/unique :db.unique/identity}
          {:db/ident :person/age :db/valueType :db.type/long :db/cardinality :db.cardinality/one}
          {:db/ident :person/email :db/valueType :db.type/string :db/cardinality :db.cardinality/one
           :db/unique :db.unique/value}
          {:db/ident :person/friend :db/valueType :db.type/ref :db/cardinality :db.cardinality/many}
          {:db/ident :person/colour :db/valueType :db.type/ref :db/cardinality :db.cardinality/one}
          {:db/ident :person/alias :db/valueType :db.type/string :db/cardinality :db.cardinality/many}
          {:db/ident :order/line :db/valueType :db.type/ref :db/cardinality :db.cardinality/many :db/isComponent true}
          {:db/ident :line/product :db/valueType :db.type/string :db/cardinality :db.cardinality/one}
          {:db/ident :note/text :db/valueType :db.type/string :db/cardinality :db.cardinality/one :db/fulltext true}
          {:db/ident :colour/red}]",
    );
    store
}

pub(crate) fn try_record(store: &mut Store, tx: &str) -> Result<Report> {
    store
        .transact(&edn(tx), Provenance::default())
        .map_err(|e| e.in_text("tx", tx))
}

pub(crate) fn record(store: &mut Store, tx: &str) -> Report {
    try_record(store, tx).unwrap_or_else(|e| panic!("{tx}: {e}"))
}

pub(crate) fn ask_view(store: &mut Store, view: View, query: &str, args: &str) -> Result<String> {
    let query_form = Query::parse(&edn(query)).map_err(|e| e.in_text("query", query))?;
    let Edn::Vector(values) = edn(args) else {
        panic!("arguments are a vector")
    };
    let answer = query_form.run(&store.db(view)?, &values, &Limits::default(), None);
    Ok(answer
        .map_err(|e| e.in_text("query", query).in_text("args", args))?
        .result
        .to_string())
}

pub(crate) fn try_ask(store: &mut Store, query: &str, args: &str) -> Result<String> {
    ask_view(store, View::Current, query, args)
}

pub(crate) fn ask(store: &mut Store, query: &str) -> String {
    try_ask(store, query, "[]").unwrap_or_else(|e| panic!("{query}: {e}"))
}

/// Kind, line and column of an error.
pub(crate) fn place(error: &Error) -> (String, usize, usize) {
    let at = error.position().expect("an error with a place");
    (error.kind().keyword().to_owned(), at.line, at.column)
}
