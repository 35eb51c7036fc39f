//! The revisions of the protocol that the server speaks.

use std::fmt;

/// A revision, oldest first, so that `>=` reads as "since".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26: batches, audio, tool annotations.
    V2025_03_26,
    /// 2025-06-18: structured results, resource links, elicitation, titles.
    V2025_06_18,
    /// 2025-11-25: tasks, icons, URL elicitation.
    V2025_11_25,
    /// 2026-07-28: no handshake, each request says what it needs.
    V2026_07_28,
}

impl Revision {
    /// All of them, oldest first.
    pub const ALL: [Revision; 5] = [
        Revision::V2024_11_05,
        Revision::V2025_03_26,
        Revision::V2025_06_18,
        Revision::V2025_11_25,
        Revision::V2026_07_28,
    ];

    /// What `initialize` offers to a client that asks for a version it cannot have.
    pub const LATEST_WITH_HANDSHAKE: Revision = Revision::V2025_11_25;

    /// The revision with exactly this date, if the server speaks it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|revision| revision.as_str() == text)
    }

    /// The date, as it stands in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Revision::V2024_11_05 => "2024-11-05",
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    /// Whether requests stand alone instead of following a handshake.
    pub fn is_stateless(self) -> bool {
        self >= Revision::V2026_07_28
    }

    /// The versions that a request may name for itself.
    pub fn stateless() -> Vec<&'static str> {
        Self::ALL
            .into_iter()
            .filter(|revision| revision.is_stateless())
            .map(Revision::as_str)
            .collect()
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
