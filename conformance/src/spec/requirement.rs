//! The catalogue of requirements: every rule that binds a server, as data.
//!
//! The data is `fixtures/requirements/requirements.tsv`: a heading, then one rule a line, twelve
//! fields parted by tabs. It is embedded, so the binary needs no file.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

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

impl Level {
    /// The keyword as the text has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Must => "MUST",
            Level::MustNot => "MUST NOT",
            Level::Should => "SHOULD",
            Level::ShouldNot => "SHOULD NOT",
            Level::May => "MAY",
        }
    }

    fn parse(text: &str) -> Option<Level> {
        use Level::*;
        [Must, MustNot, Should, ShouldNot, May]
            .into_iter()
            .find(|level| level.as_str() == text)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
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

impl Breach {
    /// The word in the catalogue: `fail`, `warn` or `note`.
    pub fn as_str(self) -> &'static str {
        match self {
            Breach::Fail => "fail",
            Breach::Warn => "warn",
            Breach::Note => "note",
        }
    }

    fn parse(text: &str) -> Option<Breach> {
        use Breach::*;
        [Fail, Warn, Note]
            .into_iter()
            .find(|breach| breach.as_str() == text)
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
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
    /// Where it stands: revision, page and anchor, several parted by ` | `.
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

impl Requirement {
    /// Whether it stems from the contract of a tool family, not from the protocol.
    pub fn is_of_profile(&self) -> bool {
        self.source.starts_with("contract:")
    }
}

const DATA: &str = include_str!("../../../fixtures/requirements/requirements.tsv");

/// The contracts of tool families; their areas are named after the profiles.
const PROFILES: [&str; 3] = [
    include_str!("../../../fixtures/requirements/toolchain.tsv"),
    include_str!("../../../fixtures/requirements/memory.tsv"),
    include_str!("../../../fixtures/requirements/workspace.tsv"),
];

const HEADING: &str = "id\tarea\tlevel\tbreach\trevisions\ttransport\tcondition\tstatement\tsource\ttestable\thow\tmend";

/// Reads a catalogue. The error names the line and what is wrong with it.
fn parse(data: &str) -> Result<Vec<Requirement>, String> {
    let mut lines = data.lines();
    if lines.next() != Some(HEADING) {
        return Err(format!("line 1 is not the heading `{HEADING}`"));
    }
    let mut requirements: Vec<Requirement> = Vec::new();
    for (index, line) in lines.enumerate() {
        let at = |problem: String| format!("line {}: {problem}", index + 2);
        requirements.push(parse_line(line).map_err(at)?);
    }
    Ok(requirements)
}

fn parse_line(line: &str) -> Result<Requirement, String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let Ok(
        [
            id,
            area,
            level,
            breach,
            revisions,
            transport,
            condition,
            statement,
            source,
            testable,
            how,
            mend,
        ],
    ) = <[&str; 12]>::try_from(fields.as_slice())
    else {
        return Err(format!("{} fields instead of 12", fields.len()));
    };
    Ok(Requirement {
        id: id.to_owned(),
        area: area.to_owned(),
        level: Level::parse(level).ok_or_else(|| format!("`{level}` is no level"))?,
        breach: Breach::parse(breach).ok_or_else(|| format!("`{breach}` is no breach"))?,
        span: Span::parse(revisions)?,
        transport: transport.to_owned(),
        condition: condition.to_owned(),
        statement: statement.to_owned(),
        source: source.to_owned(),
        derived: source.starts_with("derived:"),
        testable: testable.to_owned(),
        how: how.to_owned(),
        mend: mend.to_owned(),
    })
}

struct Catalogue {
    rows: Vec<Requirement>,
    by_id: HashMap<String, usize>,
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    // The embedded data is read without a fault: the test below proves it.
    let rows: Vec<Requirement> = std::iter::once(DATA)
        .chain(PROFILES)
        .flat_map(|data| parse(data).unwrap_or_default())
        .collect();
    let by_id = rows
        .iter()
        .enumerate()
        .map(|(index, row)| (row.id.clone(), index))
        .collect();
    Catalogue { rows, by_id }
});

/// All requirements, in the order of the catalogue.
pub fn catalogue() -> &'static [Requirement] {
    &CATALOGUE.rows
}

/// The requirement of that id.
pub fn get(id: &str) -> Option<&'static Requirement> {
    let index = *CATALOGUE.by_id.get(id)?;
    CATALOGUE.rows.get(index)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::spec::Revision;

    #[test]
    fn the_embedded_catalogue_is_read_whole() {
        let mut rows = 0;
        for data in std::iter::once(DATA).chain(PROFILES) {
            let read = parse(data).expect("the embedded catalogue").len();
            assert_eq!(read, data.lines().count() - 1);
            rows += read;
        }
        assert_eq!(catalogue().len(), rows);
    }

    #[test]
    fn every_id_is_unique_and_found() {
        let ids: HashSet<&str> = catalogue().iter().map(|r| r.id.as_str()).collect();
        assert_eq!(ids.len(), catalogue().len());
        for row in catalogue() {
            assert_eq!(get(&row.id).map(|r| &r.id), Some(&row.id));
        }
        assert!(get("tools.no-such-rule").is_none());
    }

    #[test]
    fn every_field_says_something() {
        for r in catalogue() {
            for field in [
                &r.area,
                &r.condition,
                &r.statement,
                &r.source,
                &r.how,
                &r.mend,
            ] {
                assert!(!field.trim().is_empty(), "{}", r.id);
                assert_eq!(field.trim(), field, "{}", r.id);
            }
            assert!(["any", "stdio", "http"].contains(&r.transport.as_str()));
            assert!(
                r.statement.ends_with('.') && r.mend.ends_with('.'),
                "{}",
                r.id
            );
            let testable = [
                "black-box",
                "needs-fixture",
                "needs-cooperating-client",
                "not-testable",
            ];
            assert!(testable.contains(&r.testable.as_str()), "{}", r.id);
        }
    }

    #[test]
    fn a_breach_of_a_should_or_a_may_never_fails() {
        for r in catalogue() {
            if matches!(r.level, Level::Should | Level::ShouldNot | Level::May) {
                assert_ne!(r.breach, Breach::Fail, "{}", r.id);
            }
        }
    }

    #[test]
    fn only_the_firm_ones_among_the_derived_rules_fail() {
        let failing: Vec<&str> = catalogue()
            .iter()
            .filter(|r| r.derived && r.breach == Breach::Fail)
            .map(|r| r.id.as_str())
            .collect();
        assert_eq!(
            failing,
            [
                "jsonrpc.response.exactly-one",
                "jsonrpc.response.id-type",
                "jsonrpc.method-not-found",
                "jsonrpc.notification.idless-request",
                "stdio.newline-terminated",
                "stdio.survives-valid-traffic",
                "versioning.initialize-rejected",
            ]
        );
    }

    #[test]
    fn a_span_is_read() {
        let removed = get("batch.removed").expect("a rule");
        assert!(!removed.span.contains(Revision::V2025_03_26));
        assert!(removed.span.contains(Revision::V2026_07_28));
    }

    #[test]
    fn bad_data_is_refused_with_its_line() {
        assert!(parse("nonsense").unwrap_err().contains("line 1"));
        let short = format!("{HEADING}\na\tb");
        assert_eq!(parse(&short).unwrap_err(), "line 2: 2 fields instead of 12");
        let row = "a\ta\tOUGHT\tfail\t..\tany\tc\ts\ts\tt\th\tm";
        let level = format!("{HEADING}\n{row}");
        assert_eq!(parse(&level).unwrap_err(), "line 2: `OUGHT` is no level");
    }
}
