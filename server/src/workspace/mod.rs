//! The workspace tools: a compiler for agents, over immutable snapshots.
//!
//! The language is a library ([`touchstone_language`]); this is a thin adapter: [`config`] says
//! what the host allows, [`folder`] turns files into snapshots, `state` remembers snapshots and
//! patches, [`Family`] offers the tools and `pages` what can be read, [`cli`] and [`toolchain`] are the same on a command line.

pub mod cli;
pub mod config;
mod exported;
pub mod folder;
mod pages;
mod state;
pub mod toolchain;
mod tools;

pub use tools::Family;
