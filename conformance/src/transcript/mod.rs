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
