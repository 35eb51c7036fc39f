//! The contract of the toolchain tools, rule by rule.

#![allow(clippy::unwrap_used)]

mod bench;
mod caching;
mod contract;
mod finding;
mod packs;
mod serving;
mod stopping;
