//! The memory tools: facts, sessions and turns that survive, over the store of
//! `touchstone-store`.
//!
//! `config` settings and where they come from · `tools` what the six tools say of themselves ·
//! `family` calls and resources · `transactor` the server for memories on other machines.

pub mod config;
mod family;
mod tools;
pub mod transactor;

pub use family::Family;
