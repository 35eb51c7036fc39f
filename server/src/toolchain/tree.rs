//! The source tree of a call: which paths are taken, and the folder on disk that holds the tree
//! while a compiler works on it.
//!
//! The folder is new, private and removed with everything in it, so no path in it can lead
//! through a symlink that somebody else made.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde_json::{Map, Value};

/// The longest path that is taken, in bytes.
const MAX_PATH: usize = 1024;
/// The longest part of a path, in bytes: what every file system takes.
const MAX_PART: usize = 255;
/// The largest artifact that is sent to a client, in bytes.
const MAX_ARTIFACT: u64 = 64 * 1024 * 1024;

/// Source files by their normalised relative path (`a/b.rs`), in order of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sources(BTreeMap<String, String>);

impl Sources {
    /// Reads the `files` argument.
    ///
    /// # Errors
    /// One line for the caller, when a path or a content cannot be taken. Nothing was written.
    pub(super) fn from_argument(files: &Map<String, Value>) -> Result<Self, String> {
        let mut sources = BTreeMap::new();
        for (path, content) in files {
            let quoted = format!("`files`: path `{}`", path.escape_debug());
            let normal = normalise(path).map_err(|problem| format!("{quoted} {problem}"))?;
            let Value::String(content) = content else {
                return Err(format!("{quoted} has a content that is not a string"));
            };
            if sources.insert(normal.clone(), content.clone()).is_some() {
                return Err(format!("{quoted} names `{normal}` a second time"));
            }
        }
        for path in sources.keys() {
            for (end, _) in path.match_indices('/') {
                if sources.contains_key(&path[..end]) {
                    let folder = &path[..end];
                    return Err(format!("`files`: `{folder}` is both a file and a folder"));
                }
            }
        }
        Ok(Self(sources))
    }

    /// Each path with its content.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(path, content)| (path.as_str(), content.as_str()))
    }
}

/// A relative path without empty parts and `.`; an error continues "path `…` ".
fn normalise(path: &str) -> Result<String, String> {
    let bytes = path.as_bytes();
    let refuse = |problem: &str| Err(problem.to_owned());
    match path {
        "" => return refuse("is empty"),
        _ if path.contains('\0') => return refuse("contains a NUL"),
        _ if path.contains('\\') => return refuse("contains a backslash; use `/`"),
        _ if path.starts_with('/') => return refuse("is absolute; give one below the source root"),
        _ if bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' => {
            return refuse("names a drive; give a path below the source root");
        }
        _ if path.len() > MAX_PATH => return refuse("is longer than 1024 bytes"),
        _ => {}
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => return refuse("contains `..`"),
            "" | "." => {}
            _ if part.len() > MAX_PART => return refuse("has a part longer than 255 bytes"),
            _ => parts.push(part),
        }
    }
    if parts.is_empty() || path.ends_with('/') || path.ends_with("/.") {
        return refuse("names a folder, not a file");
    }
    Ok(parts.join("/"))
}

/// The folders of one call; all are removed when this is dropped.
#[derive(Debug)]
pub(super) struct Workshop {
    root: PathBuf,
}

impl Workshop {
    /// Makes the folders: `src`, `out`, `tmp` (the child's `TMPDIR`) and `run` (where it runs).
    ///
    /// # Errors
    /// When `temp`, where they are made, cannot be written.
    pub(super) fn new(temp: &Path) -> io::Result<Self> {
        let root = tempfile::Builder::new()
            .prefix("touchstone-call-")
            .tempdir_in(std::path::absolute(temp)?)?
            .keep();
        let workshop = Self { root };
        for folder in [
            workshop.src(),
            workshop.out(),
            workshop.tmp(),
            workshop.run(),
        ] {
            fs::create_dir(folder)?;
        }
        Ok(workshop)
    }

    /// Where the sources are.
    pub(super) fn src(&self) -> PathBuf {
        self.root.join("src")
    }

    /// Where the compiler writes.
    pub(super) fn out(&self) -> PathBuf {
        self.root.join("out")
    }

    /// The temporary folder of the child.
    pub(super) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// The working folder of the child, empty.
    pub(super) fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Writes the sources, making folders as needed.
    ///
    /// # Errors
    /// When a folder or file cannot be written; on a file system that takes two names of the
    /// tree for one, the second is such a file.
    pub(super) fn write(&self, sources: &Sources) -> io::Result<()> {
        let src = self.src();
        for (path, content) in sources.iter() {
            let path = src.join(path);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::File::create_new(path)?.write_all(content.as_bytes())?;
        }
        Ok(())
    }

    /// Reads a file that the compiler wrote into `out`; `None` when there is no such regular
    /// file. A symlink is not followed.
    ///
    /// # Errors
    /// When it cannot be read or is larger than 64 MiB.
    pub(super) fn artifact(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        if name.contains(['/', '\0']) {
            return Ok(None);
        }
        let opened = open_plain(&self.out().join(name));
        let Ok((mut file, size)) = opened else {
            return Ok(None);
        };
        if size > MAX_ARTIFACT {
            return Err(io::Error::other(format!(
                "it has {size} bytes, more than 64 MiB"
            )));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.root).is_err() {
            // The program may have taken away its own right to some folder.
            unlock(&self.root);
            if let Err(error) = fs::remove_dir_all(&self.root) {
                eprintln!(
                    "touchstone-server: warning: cannot remove {}: {error}",
                    self.root.display()
                );
            }
        }
    }
}

/// Gives the owner all rights on every folder below `folder`.
fn unlock(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            unlock(&entry.path());
        }
    }
}

/// Opens a regular file for reading, and says its size. Follows no symlink and does not wait for
/// the other end of a pipe.
pub(super) fn open_plain(path: &Path) -> io::Result<(fs::File, u64)> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    Ok((file, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(files: Value) -> Result<Sources, String> {
        Sources::from_argument(files.as_object().unwrap())
    }

    #[test]
    fn paths_that_leave_the_tree_or_name_no_file_are_refused() {
        for path in [
            "",
            "/",
            "/a",
            "//a",
            "..",
            "../a",
            "a/..",
            "a/../b",
            "a/../../b",
            "C:/a",
            "c:a",
            "a\\b",
            "..\\a",
            "a\0b",
            ".",
            "./",
            "a/",
            "a/.",
            "a//",
            "./..",
        ] {
            let error = read(json!({path: ""})).unwrap_err();
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        assert!(read(json!({"a".repeat(256): ""})).is_err());
        assert!(read(json!({"a/".repeat(600) + "b": ""})).is_err());
        assert!(read(json!({"a": 7})).is_err());
    }

    #[test]
    fn paths_that_meet_after_normalising_are_refused() {
        for (one, two) in [
            ("a", "./a"),
            ("a/b", "a//b"),
            ("a/b", "a/./b"),
            ("a", "a/b"),
        ] {
            assert!(read(json!({one: "", two: ""})).is_err(), "{one} {two}");
            assert!(read(json!({two: "", one: ""})).is_err(), "{two} {one}");
        }
        assert!(read(json!({"a": "", "a.b/c": "", "ab/c": ""})).is_ok());
    }

    #[test]
    fn a_tree_is_written_as_it_was_given_and_leaves_nothing() {
        let sources = read(json!({
            "a/b/c.rs": "one", "./a//d": "", "ü/é .rs": "zwei\r\n", "...": "dots", "ab:c": "x",
        }))
        .unwrap();
        let workshop = Workshop::new(&std::env::temp_dir()).unwrap();
        workshop.write(&sources).unwrap();
        let content = |path: &str| fs::read_to_string(workshop.src().join(path)).unwrap();
        assert_eq!(content("a/b/c.rs"), "one");
        assert_eq!(content("a/d"), "");
        assert_eq!(content("ü/é .rs"), "zwei\r\n");
        assert_eq!(content("..."), "dots");
        let locked = workshop.run().join("locked");
        fs::create_dir_all(locked.join("in")).unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
        let root = workshop.root.clone();
        drop(workshop);
        assert!(!root.exists());
    }

    #[test]
    fn an_artifact_is_a_regular_file_in_the_output_folder() {
        let workshop = Workshop::new(&std::env::temp_dir()).unwrap();
        fs::write(workshop.out().join("Main.cja"), b"\0\xff").unwrap();
        fs::create_dir(workshop.out().join("Dir.cja")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", workshop.out().join("Link.cja")).unwrap();
        fs::write(workshop.run().join("x.cja"), b"x").unwrap();
        assert_eq!(workshop.artifact("Main.cja").unwrap().unwrap(), b"\0\xff");
        for name in [
            "None.cja",
            "Dir.cja",
            "Link.cja",
            "../run/x.cja",
            "/etc/passwd",
        ] {
            assert_eq!(workshop.artifact(name).unwrap(), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_taken_stays_below_the_root(path in "[a.:/\\\\\0 ü]{0,12}") {
            if let Ok(normal) = normalise(&path) {
                prop_assert_eq!(normalise(&normal), Ok(normal.clone()));
                let inside = Path::new(&normal)
                    .components()
                    .all(|part| matches!(part, std::path::Component::Normal(_)));
                prop_assert!(inside);
            }
        }
    }
}
