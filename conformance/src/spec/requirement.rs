//! The catalogue of requirements: every rule that binds a server, as data.

use super::Span;

/// The keyword of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// MUST
    Must,
    /// MUST NOT
    MustNot,
    /// SHOULD
    Should,
    /// SHOULD NOT
    ShouldNot,
    /// MAY
    May,
}

/// What a breach of the rule counts as, after weighing how firm the text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// A stated MUST, or the schema: the verdict is `fail`.
    Fail,
    /// A SHOULD, a derived or a contested rule: the verdict is `warn`.
    Warn,
    /// Worth telling, no verdict: a note on a pass.
    Note,
}

/// One rule that binds a server.
#[derive(Debug, Clone)]
pub struct Requirement {
    /// Stable name, `area.topic.detail`.
    pub id: String,
    /// The area: `tools`, `lifecycle`, …
    pub area: String,
    /// The keyword in the text.
    pub level: Level,
    /// What a breach counts as.
    pub breach: Breach,
    /// The revisions it holds in.
    pub span: Span,
    /// `any`, `stdio` or `http`.
    pub transport: String,
    /// When it applies.
    pub condition: String,
    /// The rule, in our words.
    pub statement: String,
    /// Where it stands: revision, page and anchor.
    pub source: String,
    /// Whether the rule is derived from others rather than stated.
    pub derived: bool,
    /// `black-box`, `needs-fixture`, `needs-cooperating-client` or `not-testable`.
    pub testable: String,
    /// How it is tested.
    pub how: String,
    /// How to mend a server that breaks it.
    pub mend: String,
}

/// All requirements, in the order of the catalogue.
pub fn catalogue() -> &'static [Requirement] {
    unimplemented!()
}

/// The requirement of that id.
pub fn get(id: &str) -> Option<&'static Requirement> {
    catalogue().iter().find(|r| r.id == id)
}
