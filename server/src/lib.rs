//! An MCP server over stdio, in five revisions of the protocol.
//!
//! [`protocol`] is the pure part: a line in, lines and jobs out. [`stdio`] is the only loop that
//! reads stdin and writes stdout. Each family of tools has a folder of its own and knows only
//! [`protocol::Family`].

pub mod cli;
pub mod demo;
pub mod memory;
pub mod protocol;
pub mod skills;
pub mod stdio;
pub mod toolchain;
pub mod workspace;
