//! Which toolchain does the work, and what it is: the identity that results are kept under.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::config::{COMPILER_VARIABLE, Settings};
use super::run::{Groups, Watch, run};
use super::rustc;
use crate::workspace::toolchain as sakura;

/// A program that obeys the compiler's command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Toolchain {
    /// The program.
    pub(super) program: PathBuf,
    /// What stands before the command of the contract.
    pub(super) prefix: Vec<OsString>,
    /// The files that decide what the toolchain does.
    parts: Vec<PathBuf>,
    /// What decides it and is not in these files.
    version: String,
}

/// What a call needs a toolchain for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To compile and run sources.
    Build,
    /// To compile and run Sakura sources, which the server itself can.
    Sakura,
    /// To read skills, which the adapter can without a compiler.
    Skills,
}

/// Finds toolchains and remembers what they are.
#[derive(Debug)]
pub(super) struct Finder {
    compiler: Option<PathBuf>,
    search_path: OsString,
    adapter: PathBuf,
    rustc: Mutex<Option<Rustc>>,
    contents: Mutex<HashMap<PathBuf, (Stamp, [u8; 32])>>,
}

/// The compiler proper behind the `rustc` on `PATH`, which may be a proxy of rustup.
#[derive(Debug, Clone)]
struct Rustc {
    path: PathBuf,
    version: String,
}

/// When these are the same, so is the content of a file. The change time cannot be set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp([i64; 5], u64, u64);

impl Finder {
    /// A finder for these settings.
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            compiler: settings.compiler.clone(),
            search_path: settings.search_path.clone(),
            adapter: settings.adapter.clone(),
            rustc: Mutex::default(),
            contents: Mutex::default(),
        }
    }

    /// The toolchain: the one that was asked for, else `cajeta` on `PATH`, else the
    /// server itself for Sakura, else `rustc`.
    ///
    /// # Errors
    /// A message that says what is missing and how to help it.
    pub(super) fn find(
        &self,
        purpose: Purpose,
        settings: &Settings,
        groups: &Groups,
        watch: Watch<'_>,
    ) -> Result<Toolchain, String> {
        if let Some(asked) = &self.compiler {
            let bare = asked.components().count() == 1 && asked.is_relative();
            let program = if bare {
                self.on_path(asked)
            } else {
                Some(asked.clone())
            };
            let program = program
                .filter(|program| is_program(program))
                .ok_or_else(|| {
                    format!(
                        "cannot start the compiler: `{}`, from --cajeta or {COMPILER_VARIABLE}, is \
                     not a program",
                        asked.display()
                    )
                })?;
            return Ok(Toolchain::wrapped(program));
        }
        if let Some(program) = self.on_path(Path::new("cajeta")) {
            return Ok(Toolchain::wrapped(program));
        }
        let rustc = match purpose {
            Purpose::Sakura => return Ok(self.sakura()),
            Purpose::Skills => None,
            Purpose::Build => Some(self.rustc(settings, groups, watch)?),
        };
        Ok(self.adapted(rustc))
    }

    /// SHA-256 over the paths, the contents and the version of a toolchain. Costs a look at the
    /// files' status unless one has changed.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(super) fn identity(&self, toolchain: &Toolchain) -> io::Result<[u8; 32]> {
        let mut hash = Sha256::new();
        let mut feed = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        feed(toolchain.version.as_bytes());
        for part in &toolchain.parts {
            feed(part.as_os_str().as_encoded_bytes());
            feed(&self.content(part)?);
        }
        Ok(hash.finalize().into())
    }

    fn content(&self, path: &Path) -> io::Result<[u8; 32]> {
        let stamp = Stamp::of(&fs::metadata(path)?);
        let known = |contents: &HashMap<_, (Stamp, [u8; 32])>| contents.get(path).copied();
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((old, content)) = known(&contents)
            && old == stamp
        {
            return Ok(content);
        }
        drop(contents);
        let content = hash_file(path)?;
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        contents.insert(path.to_owned(), (stamp, content));
        Ok(content)
    }

    fn on_path(&self, name: &Path) -> Option<PathBuf> {
        std::env::split_paths(&self.search_path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|path| is_program(path))
    }

    /// Asks `rustc` once where the compiler proper is; that one is then used as long as it is
    /// there, so that what is run is what was identified.
    fn rustc(
        &self,
        settings: &Settings,
        groups: &Groups,
        watch: Watch<'_>,
    ) -> Result<Rustc, String> {
        let mut known = self.rustc.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rustc) = known.as_ref().filter(|rustc| is_program(&rustc.path)) {
            return Ok(rustc.clone());
        }
        let proxy = self.on_path(Path::new("rustc")).ok_or(
            "no compiler: give one with --cajeta=PATH or CAJETA_BIN, or put `cajeta` or `rustc` \
             on PATH",
        )?;
        let ask = |question: &[&str]| {
            let mut command = Command::new(&proxy);
            command.args(question).current_dir("/");
            let failed = |why: &str| format!("cannot start `{}`: {why}", proxy.display());
            match run(&mut command, &settings.limits, groups, watch) {
                Err(error) => Err(failed(&error.to_string())),
                Ok(None) => Err(failed("the server is stopping")),
                Ok(Some(end)) if end.exit_status() != 0 => {
                    Err(failed(String::from_utf8_lossy(&end.stderr.bytes).trim()))
                }
                Ok(Some(end)) => Ok(String::from_utf8_lossy(&end.stdout.bytes).trim().to_owned()),
            }
        };
        let inner = PathBuf::from(ask(&["--print", "sysroot"])?).join("bin/rustc");
        let version = ask(&["--version", "--verbose"])?;
        let path = if is_program(&inner) {
            inner
        } else {
            proxy.clone()
        };
        let rustc = Rustc { path, version };
        *known = Some(rustc.clone());
        Ok(rustc)
    }

    /// The server's own toolchain. The server is a part of it: another build, another toolchain.
    fn sakura(&self) -> Toolchain {
        Toolchain {
            program: self.adapter.clone(),
            prefix: vec![OsString::from(sakura::SUBCOMMAND)],
            parts: vec![self.adapter.clone()],
            version: sakura::REVISION.to_owned(),
        }
    }

    fn adapted(&self, rustc: Option<Rustc>) -> Toolchain {
        let mut prefix = vec![OsString::from(rustc::SUBCOMMAND)];
        let mut parts = Vec::new();
        let mut version = rustc::REVISION.to_owned();
        if let Some(rustc) = rustc {
            let mut option = OsString::from("--rustc=");
            option.push(&rustc.path);
            prefix.push(option);
            parts.push(rustc.path);
            version = format!("{version}\n{}", rustc.version);
        }
        Toolchain {
            program: self.adapter.clone(),
            prefix,
            parts,
            version,
        }
    }
}

impl Toolchain {
    fn wrapped(program: PathBuf) -> Self {
        Self {
            parts: vec![program.clone()],
            program,
            prefix: Vec::new(),
            version: String::new(),
        }
    }
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime()];
        Self(
            [
                times[0],
                times[1],
                times[2],
                metadata.ctime_nsec(),
                metadata.size() as i64,
            ],
            metadata.dev(),
            metadata.ino(),
        )
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn hash_file(path: &Path) -> io::Result<[u8; 32]> {
    let mut file = fs::File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hash.finalize().into()),
            Ok(size) => hash.update(&buffer[..size]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
