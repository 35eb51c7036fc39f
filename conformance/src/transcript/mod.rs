//! The transcript language: parse, send, match, rewrite. The page for users is
//! `docs/transcripts.md`.

/// One scripted exchange.
#[derive(Debug, Clone)]
pub struct Transcript {
    /// The file it came from, for messages.
    pub name: String,
    /// The requirements that it checks (`@check a b`).
    pub checks: Vec<String>,
    /// The revisions that it is for (`@revision`); default all.
    pub span: crate::spec::Span,
    /// The leading comment: what it shows.
    pub about: String,
    // The rest is the transcript's own business.
}

/// What stands at the head of a recorded transcript.
#[derive(Debug, Clone)]
pub struct Header {
    /// The requirements that it shows a breach of.
    pub checks: Vec<String>,
    /// The revision in which it was recorded.
    pub revision: crate::spec::Revision,
    /// What it shows.
    pub about: String,
}

/// Writes a log, or a part of one, as a transcript that fails in the same way.
pub fn record(log: &[crate::wire::Entry], header: &Header) -> String {
    let _ = (log, header);
    String::new()
}
