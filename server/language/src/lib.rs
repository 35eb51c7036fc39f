//! The Sakura language: parse, check, run, format.
//!
//! Values in, values out: nothing here touches files, clocks or the network. `LANGUAGE.md` says
//! what the language is. The way through: [`snapshot`] holds texts, [`syntax`] parses them,
//! [`analysis`] checks them by way of [`check`], [`compile`] and [`machine`] run them, and
//! [`query`], [`delta`], [`format`], [`testing`] and [`tool`] answer what is asked about them.

pub mod analysis;
pub mod ast;
pub mod check;
pub mod codes;
pub mod compile;
mod constant;
pub mod delta;
pub mod diagnostic;
pub mod env;
pub mod format;
pub mod host;
pub mod machine;
pub mod names;
mod natives;
mod patterns;
pub mod query;
mod reflect;
pub mod snapshot;
pub mod syntax;
pub mod testing;
pub mod tool;
pub mod types;
pub mod value;

/// The symbols of the functions that the machine itself provides.
pub fn natives_symbols() -> impl Iterator<Item = &'static str> {
    natives::symbols()
}
