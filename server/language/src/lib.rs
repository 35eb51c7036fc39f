//! The Sakura language: parse, check, run, format.

pub mod analysis;
pub mod ast;
pub mod check;
mod codes;
pub mod compile;
mod constant;
pub mod diagnostic;
pub mod env;
pub mod host;
pub mod machine;
pub mod names;
mod natives;
mod patterns;
mod reflect;
pub mod snapshot;
pub mod syntax;
pub mod testing;
pub mod tool;
pub mod types;
pub mod value;
