//! Between a folder of `.sakura` files and a snapshot. Links are not followed.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use touchstone_language::snapshot::{MAX_FILE_BYTES, MAX_FILES, Snapshot, check_path};

/// How deep folders are looked into.
const MAX_DEPTH: usize = 32;

/// The snapshot of all `.sakura` files under `root`; hidden folders are left out.
///
/// # Errors
/// A file that cannot be read or be in a snapshot, and why.
pub fn load(root: &Path) -> Result<Snapshot, String> {
    let mut files = Vec::new();
    let mut todo = vec![(root.to_path_buf(), 0)];
    while let Some((folder, depth)) = todo.pop() {
        let entries =
            fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("{}: {error}", folder.display()))?;
            let kind = entry
                .file_type()
                .map_err(|error| format!("{}: {error}", entry.path().display()))?;
            let path = entry.path();
            if kind.is_dir() {
                if depth < MAX_DEPTH && !entry.file_name().to_string_lossy().starts_with('.') {
                    todo.push((path, depth + 1));
                }
            } else if kind.is_file() && path.extension().is_some_and(|e| e == "sakura") {
                if files.len() >= MAX_FILES {
                    return Err(format!(
                        "{} holds more than {MAX_FILES} .sakura files",
                        root.display()
                    ));
                }
                files.push((relative(root, &path)?, read(&path)?));
            }
        }
    }
    Snapshot::new(files)
}

/// A file's text.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let size = fs::metadata(path)
        .map_err(|error| format!("{}: {error}", path.display()))?
        .len();
    if size > MAX_FILE_BYTES as u64 {
        return Err(format!(
            "{} has {size} bytes; a file may have {MAX_FILE_BYTES}",
            path.display()
        ));
    }
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display()))
}

/// The path of a file within `root`, with `/` between its parts.
pub(super) fn relative(root: &Path, path: &Path) -> Result<String, String> {
    let inside = path.strip_prefix(root).unwrap_or(path);
    let parts: Option<Vec<&str>> = inside.iter().map(|part| part.to_str()).collect();
    let parts = parts.ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
    Ok(parts
        .into_iter()
        .filter(|part| *part != ".")
        .collect::<Vec<_>>()
        .join("/"))
}

/// Makes the folder hold what `new` holds, given that it holds `old`. Each file is replaced whole.
///
/// # Errors
/// What could not be written, and why; files written before stay.
pub(super) fn write(root: &Path, old: &Snapshot, new: &Snapshot) -> Result<(), String> {
    for (path, text) in new.files() {
        if old.text(path) != Some(text) {
            let target = inside(root, path)?;
            replace(&target, text).map_err(|error| format!("{}: {error}", target.display()))?;
        }
    }
    for path in old.files().keys().filter(|path| new.text(path).is_none()) {
        let target = inside(root, path)?;
        fs::remove_file(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    }
    Ok(())
}

/// Where a file of a snapshot lies; refused when a folder on the way is a link.
fn inside(root: &Path, path: &str) -> Result<PathBuf, String> {
    check_path(path)?;
    let mut target = root.to_path_buf();
    for part in path.split('/') {
        target.push(part);
        if fs::symlink_metadata(&target).is_ok_and(|found| found.is_symlink()) {
            return Err(format!("{} is a link", target.display()));
        }
    }
    Ok(target)
}

fn replace(target: &Path, text: &str) -> std::io::Result<()> {
    let folder = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(target).map_err(|error| error.error)?;
    Ok(())
}
