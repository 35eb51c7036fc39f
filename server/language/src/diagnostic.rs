//! What the language says about a program, and how that looks as JSON.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::ast::Span;
use crate::codes;

/// A diagnostic before its chunk has a place in a file.
#[derive(Debug, Clone)]
pub struct Draft {
    /// `V` and four digits.
    pub code: &'static str,
    /// What was wrong and what to do.
    pub message: String,
    /// The cause.
    pub span: Span,
    /// Other places that explain it.
    pub related: Vec<(Place, String)>,
    /// Edits that would mend it.
    pub fixes: Vec<Fix>,
}

/// A place that a draft points to besides its own.
#[derive(Debug, Clone)]
pub enum Place {
    /// In the same chunk.
    Here(Span),
    /// Where a symbol is declared (its name), wherever that is now.
    Symbol(Arc<str>),
}

/// A named edit in the chunk.
#[derive(Debug, Clone)]
pub struct Fix {
    /// What the edit does.
    pub title: String,
    /// What it replaces.
    pub span: Span,
    /// The new text.
    pub text: String,
}

impl Fix {
    /// A fix that puts `text` in the place of `span`.
    pub fn replace(title: &str, span: Span, text: String) -> Self {
        Self {
            title: title.to_owned(),
            span,
            text,
        }
    }
}

impl Draft {
    /// A diagnostic of `code` at `span`.
    pub fn new(code: &'static str, span: Span, message: String) -> Self {
        Self {
            code,
            message,
            span,
            related: Vec::new(),
            fixes: Vec::new(),
        }
    }

    /// Adds a place in the same chunk.
    pub fn related(mut self, span: Span, message: &str) -> Self {
        self.related.push((Place::Here(span), message.to_owned()));
        self
    }

    /// Adds the declaration of a symbol.
    pub fn declared(mut self, symbol: &Arc<str>, message: &str) -> Self {
        self.related
            .push((Place::Symbol(symbol.clone()), message.to_owned()));
        self
    }

    /// Adds an edit that mends it.
    pub fn fix(mut self, fix: Fix) -> Self {
        self.fixes.push(fix);
        self
    }

    /// Adds "did you mean" and its edit, when a name in scope is near.
    pub fn suggest(mut self, wanted: &str, span: Span, near: Option<String>) -> Self {
        if let Some(near) = near {
            self.message.push_str(&format!("; did you mean `{near}`?"));
            self.fixes.push(Fix::replace(
                &format!("replace `{wanted}` by `{near}`"),
                span,
                near,
            ));
        }
        self
    }
}

/// How much a diagnostic matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The program is not run.
    Error,
    /// Worth a look.
    Warning,
}

impl Severity {
    /// As the JSON shows it.
    pub fn text(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// A position in a file: both numbers from 1, columns in Unicode scalar values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// A range in a file, as positions and as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Range {
    pub start: Position,
    pub end: Position,
    pub start_byte: u32,
    pub end_byte: u32,
}

impl Range {
    /// The JSON of the contract.
    pub fn to_json(&self) -> Value {
        json!({
            "start": {"line": self.start.line, "column": self.start.column},
            "end": {"line": self.end.line, "column": self.end.column},
            "start_byte": self.start_byte,
            "end_byte": self.end_byte,
        })
    }
}

/// A place in a file with a word about it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Related {
    pub path: String,
    pub range: Range,
    pub message: String,
}

/// An edit that mends a diagnostic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct FixEdit {
    pub title: String,
    pub path: String,
    pub range: Range,
    pub text: String,
}

/// A diagnostic in its file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Diagnostic {
    pub path: String,
    pub range: Range,
    pub code: String,
    pub severity: Severity,
    pub message: String,
    pub related: Vec<Related>,
    pub fixes: Vec<FixEdit>,
}

impl Diagnostic {
    /// The JSON of the contract.
    pub fn to_json(&self) -> Value {
        let related: Vec<Value> = self
            .related
            .iter()
            .map(|r| json!({"path": r.path, "range": r.range.to_json(), "message": r.message}))
            .collect();
        let fixes: Vec<Value> = self
            .fixes
            .iter()
            .map(|f| {
                json!({"title": f.title, "edits": [
                    {"path": f.path, "range": f.range.to_json(), "text": f.text}
                ]})
            })
            .collect();
        json!({
            "code": self.code,
            "severity": self.severity.text(),
            "message": self.message,
            "path": self.path,
            "range": self.range.to_json(),
            "related": related,
            "fixes": fixes,
        })
    }
}

/// The severity that goes with a code.
pub fn severity_of(code: &str) -> Severity {
    codes::find(code).map_or(Severity::Error, |page| page.severity)
}

/// Where the lines of a text begin.
#[derive(Debug)]
pub struct Lines {
    starts: Vec<u32>,
    /// How many characters begin before byte 0, `STRIDE`, 2 `STRIDE`, …: a line may be long.
    counted: Vec<u32>,
    text: Arc<str>,
}

const STRIDE: usize = 256;

/// How many characters begin in these bytes.
fn characters(bytes: &[u8]) -> u32 {
    bytes.iter().filter(|b| (**b as i8) >= -0x40).count() as u32
}

impl Lines {
    /// The lines of `text`.
    pub fn new(text: Arc<str>) -> Self {
        let mut starts = vec![0];
        starts.extend(
            text.bytes()
                .enumerate()
                .filter(|(_, b)| *b == b'\n')
                .map(|(i, _)| i as u32 + 1),
        );
        let mut counted = vec![0];
        let mut sum = 0;
        for block in text.as_bytes().chunks(STRIDE) {
            sum += characters(block);
            counted.push(sum);
        }
        Self {
            starts,
            counted,
            text,
        }
    }

    fn count_before(&self, byte: u32) -> u32 {
        let block = byte as usize / STRIDE;
        self.counted[block] + characters(&self.text.as_bytes()[block * STRIDE..byte as usize])
    }

    /// The position of a byte; one inside a character counts as that character's.
    pub fn position(&self, byte: u32) -> Position {
        let byte = byte.min(self.text.len() as u32);
        let line = self.starts.partition_point(|start| *start <= byte) - 1;
        let column = self.count_before(byte) - self.count_before(self.starts[line]);
        Position {
            line: line as u32 + 1,
            column: column + 1,
        }
    }

    /// The byte of a position; None where the text has no such place.
    pub fn byte(&self, position: Position) -> Option<u32> {
        let line = position.line.checked_sub(1)? as usize;
        let start = *self.starts.get(line)? as usize;
        let end = self
            .starts
            .get(line + 1)
            .map_or(self.text.len(), |next| *next as usize - 1);
        let column = position.column.checked_sub(1)? as usize;
        let text = &self.text[start..end];
        let inside = text
            .char_indices()
            .map(|(i, _)| i)
            .chain([text.len()])
            .nth(column)?;
        Some((start + inside) as u32)
    }

    /// The range of bytes `start..end`.
    pub fn range(&self, start: u32, end: u32) -> Range {
        Range {
            start: self.position(start),
            end: self.position(end),
            start_byte: start,
            end_byte: end,
        }
    }
}

/// The name nearest to `wanted`, if one is near enough to be meant.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let limit = (wanted.chars().count() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    for name in names {
        if name.len().abs_diff(wanted.len()) > 3 * limit || name == wanted {
            continue;
        }
        let far = distance(wanted, name, limit);
        if far <= limit && best.is_none_or(|(d, n)| (far, name) < (d, n)) {
            best = Some((far, name));
        }
    }
    best.map(|(_, name)| name.to_owned())
}

/// Edits between two words, neighbours swapped counting as one; anything above `limit` may be
/// given as `limit + 1`.
fn distance(a: &str, b: &str, limit: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > limit {
        return limit + 1;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i];
        for j in 1..=b.len() {
            let cost = usize::from(!a[i - 1].eq_ignore_ascii_case(&b[j - 1]));
            let mut best = (row[j] + 1).min(next[j - 1] + 1).min(row[j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_bytes_come_back() {
        let lines = Lines::new(Arc::from("ab\nä€x\n"));
        assert_eq!(lines.position(8), Position { line: 2, column: 3 });
        assert_eq!(lines.byte(Position { line: 2, column: 3 }), Some(8));
        assert_eq!(lines.byte(Position { line: 2, column: 4 }), Some(9));
        assert_eq!(lines.byte(Position { line: 2, column: 5 }), None);
        assert_eq!(lines.byte(Position { line: 4, column: 1 }), None);
    }

    #[test]
    fn a_near_name_is_found_and_a_far_one_is_not() {
        let names = ["length", "reverse", "take"];
        assert_eq!(
            nearest("lenght", names.into_iter()).as_deref(),
            Some("length")
        );
        assert_eq!(
            nearest("Length", names.into_iter()).as_deref(),
            Some("length")
        );
        assert_eq!(nearest("filter", names.into_iter()), None);
    }
}
