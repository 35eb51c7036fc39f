//! Immutable sets of files, named by their content, and edits that lead from one to another.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::diagnostic::{Lines, Position};

/// How large a file may be, in bytes.
pub const MAX_FILE_BYTES: usize = 8 * 1024 * 1024;
/// How many files a snapshot may hold.
pub const MAX_FILES: usize = 20_000;

/// A set of files. Equal content has an equal id, whatever the order it came in.
#[derive(Debug, Clone)]
pub struct Snapshot {
    id: Arc<str>,
    files: Arc<BTreeMap<Arc<str>, Arc<str>>>,
}

impl Snapshot {
    /// A snapshot of files given by path. Errors: a path or a text that cannot be in one.
    pub fn new(files: impl IntoIterator<Item = (String, String)>) -> Result<Self, String> {
        let mut map = BTreeMap::new();
        for (path, text) in files {
            check_path(&path)?;
            check_size(&path, &text)?;
            map.insert(Arc::from(path), Arc::from(text));
        }
        Self::of(map)
    }

    fn of(files: BTreeMap<Arc<str>, Arc<str>>) -> Result<Self, String> {
        if files.len() > MAX_FILES {
            return Err(format!(
                "a snapshot holds at most {MAX_FILES} files, these are {}",
                files.len()
            ));
        }
        let mut hash = Sha256::new();
        for (path, text) in &files {
            // Lengths keep apart what only their concatenation has in common.
            hash.update((path.len() as u64).to_le_bytes());
            hash.update(path.as_bytes());
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        let mut id = String::from("s_");
        for byte in hash.finalize() {
            let _ = write!(id, "{byte:02x}");
        }
        Ok(Self {
            id: Arc::from(id),
            files: Arc::new(files),
        })
    }

    /// The snapshot without files.
    pub fn empty() -> Self {
        // No files are not too many.
        Self::of(BTreeMap::new()).unwrap_or_else(|_| Self {
            id: Arc::from("s_"),
            files: Arc::default(),
        })
    }

    /// `s_` and the SHA-256 of the content in hex.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// The files in the order of their paths.
    pub fn files(&self) -> &BTreeMap<Arc<str>, Arc<str>> {
        &self.files
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> Option<&Arc<str>> {
        self.files.get(path)
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> usize {
        self.files.iter().map(|(p, t)| p.len() + t.len()).sum()
    }

    /// The snapshot that the edits lead to. Ranges of all edits count in this snapshot. Errors say
    /// which edit (from 0) does not fit and why.
    pub fn edited(&self, edits: &[Edit]) -> Result<Snapshot, String> {
        let mut files = (*self.files).clone();
        let mut by_path: BTreeMap<&str, Vec<(usize, &Edit)>> = BTreeMap::new();
        for (index, edit) in edits.iter().enumerate() {
            check_path(&edit.path).map_err(|why| format!("edit {index}: {why}"))?;
            by_path.entry(&edit.path).or_default().push((index, edit));
        }
        for (path, edits) in by_path {
            match self.apply(path, &edits)? {
                Some(text) => {
                    check_size(path, &text)?;
                    files.insert(Arc::from(path), Arc::from(text));
                }
                None => drop(files.remove(path)),
            }
        }
        Self::of(files)
    }

    fn apply(&self, path: &str, edits: &[(usize, &Edit)]) -> Result<Option<String>, String> {
        let old = self.files.get(path);
        if let [
            (
                index,
                Edit {
                    range: None, text, ..
                },
            ),
        ] = edits
        {
            if text.is_none() && old.is_none() {
                return Err(format!("edit {index}: there is no file `{path}` to delete"));
            }
            return Ok(text.clone());
        }
        if let Some((index, _)) = edits.iter().find(|(_, e)| e.range.is_none()) {
            return Err(format!(
                "edit {index} replaces all of `{path}`, and other edits change the same file"
            ));
        }
        let Some(old) = old else {
            return Err(format!(
                "edit {}: there is no file `{path}`; without `range` the edit makes it",
                edits[0].0
            ));
        };
        let lines = Lines::new(old.clone());
        let mut places = Vec::new();
        for (index, edit) in edits {
            let Some(range) = edit.range else { continue };
            let (start, end) = range
                .bytes(&lines, old)
                .map_err(|why| format!("edit {index}: {why} in `{path}`"))?;
            let Some(text) = &edit.text else {
                return Err(format!(
                    "edit {index}: `text: null` deletes a file; to delete a range give an empty text"
                ));
            };
            places.push((start, end, *index, text));
        }
        // Two insertions at one place keep their order.
        places.sort_by_key(|(start, end, index, _)| (*start, *end, *index));
        let mut out = String::with_capacity(old.len());
        let mut at = 0;
        for (start, end, index, text) in places {
            if start < at {
                return Err(format!("edit {index} overlaps another edit of `{path}`"));
            }
            out.push_str(&old[at..start]);
            out.push_str(text);
            at = end;
        }
        out.push_str(&old[at..]);
        Ok(Some(out))
    }
}

/// A change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The file.
    pub path: String,
    /// What is replaced; None: the whole file.
    pub range: Option<EditRange>,
    /// The new text; None deletes the file.
    pub text: Option<String>,
}

/// A range given as positions or as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum EditRange {
    Positions(Position, Position),
    Bytes(u32, u32),
}

impl EditRange {
    fn bytes(&self, lines: &Lines, text: &str) -> Result<(usize, usize), String> {
        let (start, end) = match *self {
            EditRange::Bytes(start, end) => (start as usize, end as usize),
            EditRange::Positions(start, end) => {
                let byte = |p: Position| {
                    let found = lines.byte(p).map(|b| b as usize);
                    found.ok_or_else(|| format!("there is no line {}, column {}", p.line, p.column))
                };
                (byte(start)?, byte(end)?)
            }
        };
        if start > end {
            return Err("the range ends before it starts".to_owned());
        }
        if !text.is_char_boundary(start) || !text.is_char_boundary(end) {
            return Err(format!("bytes {start} to {end} are no range"));
        }
        Ok((start, end))
    }
}

fn check_size(path: &str, text: &str) -> Result<(), String> {
    if text.len() > MAX_FILE_BYTES {
        return Err(format!(
            "`{path}` has {} bytes; a file may have {MAX_FILE_BYTES}",
            text.len()
        ));
    }
    Ok(())
}

/// Whether a path can name a file of a snapshot: relative, `/` between its parts, ending in
/// `.sakura`, and not in `std/`, which is the standard library's.
pub fn check_path(path: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("the path `{}` {why}", path.escape_debug()));
    if path.len() > 1_000 {
        return Err("a path is longer than 1000 bytes".to_owned());
    }
    if !path.ends_with(".sakura") {
        return wrong("does not end in `.sakura`");
    }
    if path.contains(['\\', '\0', ':']) || path.chars().any(char::is_control) {
        return wrong("holds a character that is not allowed in one");
    }
    if path.starts_with('/')
        || path
            .split('/')
            .any(|part| part.is_empty() || part == "." || part == "..")
    {
        return wrong("is not a plain relative path");
    }
    if path.starts_with("std/") {
        return wrong("lies in `std/`, which belongs to the standard library");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(files: &[(&str, &str)]) -> Snapshot {
        Snapshot::new(
            files
                .iter()
                .map(|(p, t)| ((*p).to_owned(), (*t).to_owned())),
        )
        .unwrap()
    }

    fn edit(path: &str, range: Option<(u32, u32)>, text: Option<&str>) -> Edit {
        let range = range.map(|(a, b)| EditRange::Bytes(a, b));
        Edit {
            path: path.to_owned(),
            range,
            text: text.map(str::to_owned),
        }
    }

    #[test]
    fn the_id_follows_from_the_content_and_not_from_the_order() {
        let a = snapshot(&[("a.sakura", "1"), ("b.sakura", "2")]);
        let b = snapshot(&[("b.sakura", "2"), ("a.sakura", "1")]);
        assert_eq!(a.id(), b.id());
        assert_ne!(
            a.id(),
            snapshot(&[("a.sakura", "12"), ("b.sakura", "")]).id()
        );
        assert!(a.id().starts_with("s_") && a.id().len() == 66);
    }

    #[test]
    fn edits_count_in_the_snapshot_they_are_made_against() {
        let a = snapshot(&[("a.sakura", "abcdef")]);
        let b = a
            .edited(&[
                edit("a.sakura", Some((4, 6)), Some("Z")),
                edit("a.sakura", Some((0, 1)), Some("XY")),
            ])
            .unwrap();
        assert_eq!(&**b.text("a.sakura").unwrap(), "XYbcdZ");
        assert_eq!(&**a.text("a.sakura").unwrap(), "abcdef");
        assert!(
            a.edited(&[
                edit("a.sakura", Some((0, 3)), Some("")),
                edit("a.sakura", Some((2, 4)), Some(""))
            ])
            .is_err()
        );
        assert!(
            a.edited(&[edit("a.sakura", Some((0, 99)), Some(""))])
                .is_err()
        );
        assert_eq!(
            a.edited(&[edit("a.sakura", None, None)]).unwrap().id(),
            Snapshot::empty().id()
        );
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for path in [
            "/a.sakura",
            "../a.sakura",
            "a/../b.sakura",
            "a\\b.sakura",
            "a.txt",
            "std/core.sakura",
            "C:a.sakura",
        ] {
            assert!(check_path(path).is_err(), "{path}");
        }
        assert!(check_path("a/b-c_d.sakura").is_ok());
    }
}
