//! The toolchain tools: compile and run source trees, and read the toolchain's skills, through a
//! compiler that runs as a child process.
//!
//! `config` settings · `find` which compiler · `tree` the sources on disk · `run` one child ·
//! `cache` and `once` work that is skipped · `rustc` and `skills` the toolchain that needs no
//! set-up · `orphan` its end when the server was killed · `tools` the five tools.

mod cache;
pub mod config;
mod find;
mod once;
pub mod orphan;
mod run;
pub mod rustc;
mod skills;
mod tools;
mod tree;

pub use tools::Toolchain;
