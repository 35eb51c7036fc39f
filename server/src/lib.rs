//! The reference MCP server as a library.

/// The seam between the protocol and the tools.
pub mod protocol {
    pub mod family;
}
pub mod toolchain;
