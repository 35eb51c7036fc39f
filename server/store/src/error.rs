//! Errors as values: what went wrong, where in the EDN text, and what to do.

use crate::edn::{Edn, Position, ReadError, locate};
use std::fmt;

/// The result of everything in this library that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The kinds of error. Their keywords are part of the contract of the memory tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The text is not EDN.
    BadEdn,
    /// The form is EDN, but no transaction.
    BadTx,
    /// The form is EDN, but no query.
    BadQuery,
    /// The form is EDN, but no pull pattern.
    BadPattern,
    /// An argument is missing or is not what it should be.
    BadArgument,
    /// The attribute is not registered.
    UnknownAttribute,
    /// The value is not of the attribute's type.
    WrongType,
    /// No such entity, ident or lookup ref.
    NoSuchEntity,
    /// Another entity has this value of a unique attribute.
    UniqueConflict,
    /// The transaction contradicts itself, or one name stands for two entities.
    Conflict,
    /// A change of the vocabulary that stored facts do not allow.
    BadSchema,
    /// The attribute or the entity is written by the store alone.
    Reserved,
    /// No such session.
    NoSuchSession,
    /// The query read or made more than its bound.
    QueryLimit,
    /// The query was stopped by its caller.
    Cancelled,
    /// A message or a value is larger than its bound.
    TooLarge,
    /// The file is no memory of ours, is damaged, or is newer than this program.
    BadFile,
    /// The disk or the file system failed.
    Storage,
    /// Another process holds the file for too long.
    Busy,
    /// The transactor refused the token.
    Unauthorised,
    /// The transactor cannot be reached, or the connection was lost.
    Disconnected,
}

const KEYWORDS: &[(Kind, &str)] = &[
    (Kind::BadEdn, "memory/bad-edn"),
    (Kind::BadTx, "memory/bad-tx"),
    (Kind::BadQuery, "memory/bad-query"),
    (Kind::BadPattern, "memory/bad-pattern"),
    (Kind::BadArgument, "memory/bad-argument"),
    (Kind::UnknownAttribute, "memory/unknown-attribute"),
    (Kind::WrongType, "memory/wrong-type"),
    (Kind::NoSuchEntity, "memory/no-such-entity"),
    (Kind::UniqueConflict, "memory/unique-conflict"),
    (Kind::Conflict, "memory/conflict"),
    (Kind::BadSchema, "memory/bad-schema"),
    (Kind::Reserved, "memory/reserved"),
    (Kind::NoSuchSession, "memory/no-such-session"),
    (Kind::QueryLimit, "memory/query-limit"),
    (Kind::Cancelled, "memory/cancelled"),
    (Kind::TooLarge, "memory/too-large"),
    (Kind::BadFile, "memory/bad-file"),
    (Kind::Storage, "memory/storage"),
    (Kind::Busy, "memory/busy"),
    (Kind::Unauthorised, "memory/unauthorised"),
    (Kind::Disconnected, "memory/disconnected"),
];

impl Kind {
    /// The keyword's text, without the colon.
    pub fn keyword(self) -> &'static str {
        KEYWORDS
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("memory/storage", |(_, keyword)| keyword)
    }

    fn from_keyword(text: &str) -> Kind {
        KEYWORDS
            .iter()
            .find(|(_, keyword)| *keyword == text)
            .map_or(Kind::Storage, |(kind, _)| *kind)
    }
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Error(Box<Details>);

#[derive(Clone, Debug, PartialEq)]
struct Details {
    kind: Kind,
    message: String,
    /// Which argument the position is in: `tx`, `query`.
    argument: Option<String>,
    /// The way from the whole form to the part that is wrong, innermost step last.
    path: Vec<usize>,
    position: Option<Position>,
    attribute: Option<String>,
    nearest: Option<String>,
    value: Option<Edn>,
}

impl Error {
    /// An error of a kind with a message for the person or agent who reads it.
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error(Box::new(Details {
            kind,
            message: message.into(),
            argument: None,
            path: Vec::new(),
            position: None,
            attribute: None,
            nearest: None,
            value: None,
        }))
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where in the EDN text, when that is known.
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// Names the attribute concerned, without the colon.
    pub(crate) fn attribute(mut self, name: &str) -> Error {
        self.0.attribute = Some(name.to_owned());
        self
    }

    pub(crate) fn nearest(mut self, name: Option<&str>) -> Error {
        self.0.nearest = name.map(str::to_owned);
        self
    }

    pub(crate) fn value(mut self, value: &Edn) -> Error {
        if self.0.value.is_none() {
            self.0.value = Some(value.clone());
        }
        self
    }

    /// Says that the error lies in the child `index` of the form at hand (see [`locate`]).
    pub(crate) fn within(mut self, index: usize) -> Error {
        self.0.path.insert(0, index);
        self
    }

    pub(crate) fn at(mut self, path: &[usize]) -> Error {
        self.0.path.splice(0..0, path.iter().copied());
        self
    }

    /// Says which argument the path leads through, when it is not the one at hand.
    pub(crate) fn of_argument(mut self, argument: &str) -> Error {
        self.0.argument.get_or_insert_with(|| argument.to_owned());
        self
    }

    /// Turns the path to the wrong part into a position in the text that was read.
    pub fn in_text(mut self, argument: &str, text: &str) -> Error {
        if self
            .0
            .argument
            .as_deref()
            .is_some_and(|other| other != argument)
        {
            return self;
        }
        if self.0.position.is_none() {
            self.0.position = Some(locate(text, &self.0.path));
        }
        self.0.argument.get_or_insert_with(|| argument.to_owned());
        self
    }

    /// The error as the memory tools show it.
    pub fn to_edn(&self) -> Edn {
        let details = &self.0;
        let mut members = vec![
            ("kala/error", Edn::keyword(details.kind.keyword())),
            ("message", Edn::str(&details.message)),
        ];
        if let Some(argument) = &details.argument {
            members.push(("argument", Edn::str(argument)));
        }
        if let Some(at) = details.position {
            members.push(("line", Edn::Int(at.line as i64)));
            members.push(("column", Edn::Int(at.column as i64)));
            members.push(("offset", Edn::Int(at.offset as i64)));
        }
        if let Some(attribute) = &details.attribute {
            members.push(("attribute", Edn::keyword(attribute)));
        }
        if let Some(nearest) = &details.nearest {
            members.push(("nearest", Edn::keyword(nearest)));
        }
        if let Some(value) = &details.value {
            members.push(("value", short_value(value)));
        }
        Edn::Map(
            members
                .into_iter()
                .map(|(key, value)| (Edn::keyword(key), value))
                .collect(),
        )
    }

    /// Reads back what [`Error::to_edn`] made, for a client of a transactor.
    pub(crate) fn from_edn(form: &Edn) -> Error {
        let text = |key| form.get(key).and_then(Edn::as_str).map(str::to_owned);
        let name = |key| form.get(key).and_then(Edn::as_keyword).map(str::to_owned);
        let number = |key| {
            form.get(key)
                .and_then(Edn::as_int)
                .and_then(|n| usize::try_from(n).ok())
        };
        let kind = Kind::from_keyword(&name("kala/error").unwrap_or_default());
        let mut error = Error::new(
            kind,
            text("message").unwrap_or_else(|| "the transactor gave no reason".to_owned()),
        );
        error.0.argument = text("argument");
        error.0.attribute = name("attribute");
        error.0.nearest = name("nearest");
        error.0.value = form.get("value").cloned();
        if let (Some(line), Some(column), Some(offset)) =
            (number("line"), number("column"), number("offset"))
        {
            error.0.position = Some(Position {
                offset,
                line,
                column,
            });
        }
        error
    }
}

/// A value that is long to print is shown as the start of its text.
fn short_value(value: &Edn) -> Edn {
    let brief = value.brief(200);
    if brief.ends_with('…') {
        Edn::str(&brief)
    } else {
        value.clone()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = &self.0;
        f.write_str(&details.message)?;
        if let Some(at) = details.position {
            let argument = details.argument.as_deref().unwrap_or("text");
            write!(f, " ({argument}, line {}, column {})", at.line, at.column)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Error {
        let mut new = Error::new(Kind::BadEdn, error.message);
        new.0.position = Some(error.position);
        new
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        use rusqlite::ErrorCode;
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::new(
                Kind::Busy,
                "another process holds the memory file for too long; try again",
            ),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::new(
                Kind::BadFile,
                format!("the memory file is damaged ({error}); restore it from a copy"),
            ),
            Some(ErrorCode::DiskFull) => {
                Error::new(Kind::Storage, "the disk is full; nothing was recorded")
            }
            Some(ErrorCode::OperationInterrupted) => {
                Error::new(Kind::Cancelled, "the operation was stopped")
            }
            _ => Error::new(
                Kind::Storage,
                format!("the memory file cannot be used: {error}"),
            ),
        }
    }
}

/// The name nearest to `wanted` by edits, if it is near enough to be a slip.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if wanted.len() > 200 {
        return None;
    }
    let allowed = (wanted.chars().count() / 3).max(2);
    names
        .map(|name| {
            // A right name in the wrong namespace is the slip most often made.
            let same_name = name.rsplit('/').next() == wanted.rsplit('/').next();
            (
                if same_name {
                    1
                } else {
                    strsim::levenshtein(wanted, name)
                },
                name,
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_a_slip_away() {
        let names = ["person/name", "person/age", "note/text"];
        assert_eq!(
            nearest("person/nmae", names.into_iter()),
            Some("person/name")
        );
        assert_eq!(nearest("human/age", names.into_iter()), Some("person/age"));
        assert_eq!(nearest("city/population", names.into_iter()), None);
    }

    #[test]
    fn an_error_survives_the_way_through_edn() {
        let error = Error::new(Kind::WrongType, "no")
            .attribute("a/b")
            .nearest(Some("a/c"))
            .value(&Edn::Int(1));
        let error = error.within(1).in_text("tx", "[1\n {2 3}]");
        assert_eq!(error.position().map(|p| (p.line, p.column)), Some((2, 2)));
        assert_eq!(Error::from_edn(&error.to_edn()).to_edn(), error.to_edn());
    }
}
