//! The shape of every message that a server may send, in every revision.
//!
//! The shapes are JSON Schema files of ours under `fixtures/shapes`; a subschema names the
//! requirement that it stands for in `x-requirement`, the nearest one outwards counts.

use serde_json::Value;

use super::Revision;

/// What is being judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    /// The `result` member of the response to a request of this method.
    Result {
        /// The method of the request.
        method: &'a str,
    },
    /// The `error` member of a response.
    Error,
    /// A whole notification from the server.
    Notification {
        /// Its method.
        method: &'a str,
    },
    /// A whole request from the server.
    Request {
        /// Its method.
        method: &'a str,
    },
}

/// One place where a message does not have its shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The requirement that is broken.
    pub requirement: String,
    /// JSON Pointer into the judged value.
    pub pointer: String,
    /// What stands there, shortened.
    pub found: String,
    /// What should stand there, in words.
    pub expected: String,
}

/// Every place where the value breaks the shape that the revision gives its subject. A method
/// that the revision does not know has no shape: nothing is reported.
pub fn faults(revision: Revision, subject: Subject<'_>, value: &Value) -> Vec<Fault> {
    let _ = (revision, subject, value);
    unimplemented!()
}

/// The requirements that shapes of this revision can report, for the list of what is covered.
pub fn covered(revision: Revision) -> Vec<String> {
    let _ = revision;
    unimplemented!()
}
