//! The five published revisions of the protocol, and spans of them.

use std::fmt;

/// A published revision of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25
    V2025_11_25,
    /// 2026-07-28
    V2026_07_28,
}

/// How a conversation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// `initialize`, then `notifications/initialized` (2024-11-05 to 2025-11-25).
    Handshake,
    /// Every request carries its own `_meta` (2026-07-28).
    Stateless,
}

impl Revision {
    /// All revisions, oldest first.
    pub const ALL: [Revision; 5] = [
        Revision::V2024_11_05,
        Revision::V2025_03_26,
        Revision::V2025_06_18,
        Revision::V2025_11_25,
        Revision::V2026_07_28,
    ];

    /// The date that names the revision on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Revision::V2024_11_05 => "2024-11-05",
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision of that name.
    pub fn parse(name: &str) -> Option<Revision> {
        Revision::ALL.into_iter().find(|r| r.as_str() == name)
    }

    /// How a conversation begins in this revision.
    pub fn era(self) -> Era {
        if self >= Revision::V2026_07_28 {
            Era::Stateless
        } else {
            Era::Handshake
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A closed span of revisions, written `2024-11-05..2025-11-25`, or open at the end: `2025-06-18..`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first revision in it.
    pub first: Revision,
    /// The last revision in it.
    pub last: Revision,
}

impl Span {
    /// Every revision.
    pub const ALL: Span = Span {
        first: Revision::V2024_11_05,
        last: Revision::V2026_07_28,
    };

    /// Whether the revision lies in the span.
    pub fn contains(self, revision: Revision) -> bool {
        self.first <= revision && revision <= self.last
    }

    /// Reads `A..B`, `A..`, `..B` or a single `A`. The error names the part that is no revision.
    pub fn parse(text: &str) -> Result<Span, String> {
        let read = |name: &str, open: Revision| {
            if name.is_empty() {
                return Ok(open);
            }
            Revision::parse(name).ok_or_else(|| format!("`{name}` is not a published revision"))
        };
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let span = Span {
            first: read(first, Span::ALL.first)?,
            last: read(last, Span::ALL.last)?,
        };
        if span.first > span.last {
            return Err(format!("`{text}` ends before it begins"));
        }
        Ok(span)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first == self.last, self.last == Span::ALL.last) {
            (true, _) => write!(f, "{}", self.first),
            (false, true) => write!(f, "{}..", self.first),
            (false, false) => write!(f, "{}..{}", self.first, self.last),
        }
    }
}
