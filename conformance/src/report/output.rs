//! Where reports go: a file, written whole or not at all, or standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A format that `--report` knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The versioned document of `docs/report.md`.
    Json,
    /// JUnit XML.
    Junit,
}

/// `FORMAT=PATH`, as the user gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The format.
    pub format: Format,
    /// The file; `None` is standard output.
    pub path: Option<PathBuf>,
}

impl Request {
    /// Reads `FORMAT=PATH`. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Request, String> {
        let (format, path) = text
            .split_once('=')
            .ok_or("write it as FORMAT=PATH, such as json=report.json or junit=-")?;
        let format = match format {
            "json" => Format::Json,
            "junit" => Format::Junit,
            other => return Err(format!("`{other}` is no format; there are json and junit")),
        };
        let path = match path {
            "" => return Err("the path is empty; `-` means standard output".into()),
            "-" => None,
            path => Some(PathBuf::from(path)),
        };
        Ok(Request { format, path })
    }
}

/// A place that was found writable before the run, so that no result is lost after it.
#[derive(Debug)]
pub struct Sink {
    /// What to write.
    pub format: Format,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Stdout,
    /// A file beside the one wanted, to be renamed over it.
    File {
        temporary: NamedTempFile,
        path: PathBuf,
    },
    /// A pipe or a device, which cannot be replaced.
    Stream {
        file: File,
        path: PathBuf,
    },
}

impl Sink {
    /// Prepares the place. The error names the path and what is wrong with it.
    pub fn open(request: &Request) -> Result<Sink, String> {
        let place = match &request.path {
            None => Place::Stdout,
            Some(path) => open(path)
                .map_err(|e| format!("cannot write the report `{}`: {e}", path.display()))?,
        };
        Ok(Sink {
            format: request.format,
            place,
        })
    }

    /// Whether it goes to standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.place, Place::Stdout)
    }

    /// Writes the document there. The error names the path.
    pub fn write(self, document: &str, stdout: &mut dyn Write) -> Result<(), String> {
        let (result, name) = match self.place {
            Place::Stdout => (write_all(stdout, document), "standard output".to_owned()),
            Place::Stream { mut file, path } => {
                (write_all(&mut file, document), path.display().to_string())
            }
            Place::File {
                mut temporary,
                path,
            } => {
                let written = write_all(&mut temporary, document)
                    .and_then(|()| Ok(temporary.persist(&path).map(drop)?));
                (written, path.display().to_string())
            }
        };
        result.map_err(|e| format!("cannot write the report to {name}: {e}"))
    }
}

fn open(path: &Path) -> io::Result<Place> {
    // Through a link the file is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(metadata) = fs::metadata(&path) {
        if metadata.is_dir() {
            return Err(io::Error::other("it is a folder"));
        }
        let file = OpenOptions::new().write(true).open(&path)?;
        if !metadata.is_file() {
            return Ok(Place::Stream { file, path });
        }
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".touchstone-report-");
    #[cfg(unix)]
    {
        // A temporary file is the user's alone; a report has the usual rights.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let temporary = builder.tempfile_in(folder)?;
    Ok(Place::File { temporary, path })
}

/// Writes and flushes. Whoever closed the pipe has read enough: that is no error.
pub(crate) fn write_all(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(path: &Path) -> Request {
        Request {
            format: Format::Json,
            path: Some(path.to_owned()),
        }
    }

    #[test]
    fn reads_format_and_path() {
        assert_eq!(Request::parse("json=a=b").unwrap(), to(Path::new("a=b")));
        assert_eq!(Request::parse("junit=-").unwrap().path, None);
        for wrong in ["json", "xml=a", "json="] {
            assert!(Request::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        fs::write(&path, "old").unwrap();
        let sink = Sink::open(&to(&path)).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "old",
            "touched before the end"
        );
        sink.write("new", &mut io::sink()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_left_when_the_run_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        drop(Sink::open(&to(&folder.path().join("report.json"))).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_path_that_cannot_be_written_is_found_at_once() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            folder.path().to_owned(),
            folder.path().join("no/such/report.json"),
        ] {
            let error = Sink::open(&to(&path)).unwrap_err();
            assert!(error.contains(&path.display().to_string()), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link_and_a_device_a_device() {
        let folder = tempfile::tempdir().unwrap();
        let (link, real) = (folder.path().join("link"), folder.path().join("real"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let sink = Sink::open(&to(&link)).unwrap();
        sink.write("new", &mut io::sink()).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        let null = Sink::open(&to(Path::new("/dev/null"))).unwrap();
        null.write("gone", &mut io::sink()).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(write_all(&mut Closed, "text").is_ok());
    }
}
