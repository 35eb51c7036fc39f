//! Touchstone: tells the author of an MCP server what the server gets wrong, with evidence.
//!
//! Dependencies point one way: `cli` → `run` → `checks`, `profiles` → `transcript`, `property`
//! → `client` → `wire`, `spec`. `wire` knows no MCP; `spec` knows no processes.

pub mod checks;
pub mod cli;
pub mod client;
pub mod profiles;
pub mod property;
pub mod report;
pub mod run;
pub mod spec;
pub mod transcript;
pub mod verdict;
pub mod wire;
