//! A store of immutable facts: a datom is `[entity attribute value transaction added]`, nothing is
//! overwritten, any past state can be asked for.
//!
//! [`Store`] keeps facts in one SQLite file or in memory, [`Store::transact`] records them,
//! [`query::Query`] asks by Datalog, [`pull`] reads one entity, [`memory`] joins these to the six
//! operations of an agent's memory, and [`transactor`] serves them to other machines.

pub mod edn;
mod error;
pub mod memory;
pub mod pull;
pub mod query;
mod schema;
mod storage;
mod transact;
pub mod transactor;

mod value;

pub use error::{Error, Kind, Result};
pub use schema::{Attribute, FIRST_ID, Schema, TX_BASE, Unique, ValueType};
pub use storage::{Datom, Db, Storage, Store, View, fresh_id};
pub use transact::{Provenance, Report, Tempids};
