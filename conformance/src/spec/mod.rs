//! The specification as data: revisions, requirements, and the shape of every message.

mod exercise;
pub mod explain;
pub mod requirement;
pub mod revision;
pub mod shape;

pub use requirement::{Level, Requirement};
pub use revision::{Era, Revision, Span};
