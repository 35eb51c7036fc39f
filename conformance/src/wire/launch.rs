//! Finds the program and makes the command: folders, environment, clear errors.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};

use super::{Launch, SpawnError};

/// Caches and homes of launchers and toolchains, which a temporary `HOME` would hide: the
/// variable that names each, and where it lies below the home folder when the variable is unset.
/// Without them `npx`, `uvx` or a version manager would not start, or would need the network.
const KEPT: &[(&str, &[&str])] = &[
    ("ASDF_DATA_DIR", &[".asdf"]),
    ("BUN_INSTALL_CACHE_DIR", &[".bun/install/cache"]),
    ("CARGO_HOME", &[".cargo"]),
    ("COREPACK_HOME", &[".cache/node/corepack"]),
    ("DENO_DIR", &[".cache/deno", "Library/Caches/deno"]),
    ("DOCKER_CONFIG", &[".docker"]),
    (
        "FNM_DIR",
        &[".local/share/fnm", "Library/Application Support/fnm"],
    ),
    ("GOCACHE", &[".cache/go-build", "Library/Caches/go-build"]),
    ("GOMODCACHE", &["go/pkg/mod"]),
    ("GOPATH", &["go"]),
    ("MISE_DATA_DIR", &[".local/share/mise"]),
    ("NUGET_PACKAGES", &[".nuget/packages"]),
    ("NVM_DIR", &[".nvm"]),
    ("PIPX_HOME", &[".local/share/pipx", ".local/pipx"]),
    ("PIP_CACHE_DIR", &[".cache/pip", "Library/Caches/pip"]),
    (
        "PIP_CONFIG_FILE",
        &[".config/pip/pip.conf", ".pip/pip.conf"],
    ),
    (
        "PLAYWRIGHT_BROWSERS_PATH",
        &[".cache/ms-playwright", "Library/Caches/ms-playwright"],
    ),
    ("PUPPETEER_CACHE_DIR", &[".cache/puppeteer"]),
    ("PYENV_ROOT", &[".pyenv"]),
    ("PYTHONUSERBASE", &[".local"]),
    ("RBENV_ROOT", &[".rbenv"]),
    ("RUSTUP_HOME", &[".rustup"]),
    ("UV_CACHE_DIR", &[".cache/uv", "Library/Caches/uv"]),
    ("UV_CONFIG_FILE", &[".config/uv/uv.toml"]),
    ("UV_PYTHON_INSTALL_DIR", &[".local/share/uv/python"]),
    ("UV_TOOL_DIR", &[".local/share/uv/tools"]),
    ("VOLTA_HOME", &[".volta"]),
    ("npm_config_cache", &[".npm"]),
    ("npm_config_userconfig", &[".npmrc"]),
];

/// Variables that lead away from `HOME` to the user's own files.
const MOVED: &[&str] = &[
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// Launchers whose bare words are names of packages or scripts, even when a folder of that name
/// stands in the current folder.
const RUNNERS: &[&str] = &[
    "bun", "bunx", "cargo", "deno", "docker", "go", "npm", "npx", "pipx", "pnpm", "pnpx", "podman",
    "uv", "uvx", "yarn",
];

impl Launch {
    /// The same launch from any working folder: the program is found and named by its absolute
    /// path, and so is every argument that names something in the user's current folder. The
    /// error says what is wrong with the program and what to do.
    pub fn absolute(&self) -> Result<Launch, SpawnError> {
        let here = env::current_dir().map_err(|error| SpawnError {
            message: format!("the current folder cannot be found: {error}"),
        })?;
        let program = find(&self.program, &here, self.variable("PATH").as_deref())?;
        let runner = program
            .file_name()
            .and_then(OsStr::to_str)
            .is_some_and(|name| RUNNERS.contains(&name));
        let args = self.args.iter().map(|arg| argument(arg, &here, runner));
        Ok(Launch {
            program: program.into_os_string(),
            args: args.collect(),
            ..self.clone()
        })
    }

    /// The value that the process will see for a variable of the environment.
    fn variable(&self, name: &str) -> Option<OsString> {
        let own = self.env.iter().rev().find(|(key, _)| key == name);
        own.map_or_else(|| env::var_os(name), |(_, value)| value.clone())
    }

    /// The command; `folder` is a temporary one of the process's own.
    pub(super) fn command(&self, folder: &Path) -> Result<Command, SpawnError> {
        let launch = self.absolute()?;
        let mut command = Command::new(&launch.program);
        let cwd = match &self.cwd {
            // Arguments stay as they are: they may be meant for that folder.
            Some(cwd) => command.args(&self.args).current_dir(cwd),
            None => command.args(&launch.args).current_dir(folder.join("work")),
        };
        cwd.stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if !self.inherit_home {
            temporary_home(&mut command, &folder.join("home"));
        }
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Ok(command)
    }

    /// What the system's refusal to start the program means.
    pub(super) fn refusal(&self, error: &std::io::Error) -> SpawnError {
        use std::io::ErrorKind;
        let program = self.program.to_string_lossy();
        let cwd = self.cwd.as_deref().filter(|cwd| !cwd.is_dir());
        let message = if let Some(cwd) = cwd {
            format!("the working folder `{}` is not a folder", cwd.display())
        } else if error.kind() == ErrorKind::NotFound {
            format!(
                "`{program}` could not be started: the interpreter that its first line names, \
                 or a library that it needs, does not exist"
            )
        } else if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) {
            format!(
                "`{program}` is not a program that this machine can run: if it is a script, \
                 start it with its interpreter or give it a `#!` line"
            )
        } else {
            format!("`{program}` could not be started: {error}")
        };
        SpawnError { message }
    }
}

fn temporary_home(command: &mut Command, home: &Path) {
    command.env("HOME", home);
    for name in MOVED {
        command.env_remove(name);
    }
    let Some(real) = env::home_dir() else { return };
    for (name, places) in KEPT {
        if env::var_os(name).is_some() {
            continue;
        }
        if let Some(place) = places.iter().map(|p| real.join(p)).find(|p| p.exists()) {
            command.env(name, place);
        }
    }
}

/// The absolute path of the program.
fn find(program: &OsStr, here: &Path, path: Option<&OsStr>) -> Result<PathBuf, SpawnError> {
    let shown = program.to_string_lossy();
    let fail = |message: String| Err(SpawnError { message });
    if program.is_empty() {
        return fail("no command was given: name the server's program after `--`".into());
    }
    let local = here.join(program);
    if program.as_bytes().contains(&b'/') {
        return match fault(&local) {
            None => Ok(local),
            Some(fault) => fail(format!("`{shown}` {fault}")),
        };
    }
    let folders = path.map(env::split_paths).into_iter().flatten();
    let on_path: Vec<PathBuf> = folders
        .map(|folder| here.join(folder).join(program))
        .collect();
    if let Some(found) = on_path.iter().find(|place| fault(place).is_none()) {
        return Ok(found.clone());
    }
    match fault(&local) {
        None => return Ok(local),
        Some(fault) if local.exists() => return fail(format!("`{shown}` {fault}")),
        Some(_) => {}
    }
    match on_path.iter().find(|place| place.is_file()) {
        Some(place) => fail(format!(
            "`{}` is not executable: chmod +x it, or start it with its interpreter",
            place.display()
        )),
        None => fail(format!(
            "`{shown}` does not exist: it is neither on PATH nor in the current folder {}",
            here.display()
        )),
    }
}

/// Why this file cannot be started, if so.
fn fault(path: &Path) -> Option<&'static str> {
    match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Some("cannot be reached: permission denied")
        }
        Err(_) => Some("does not exist: check the path of the server's program"),
        Ok(meta) if meta.is_dir() => Some("is a folder: name the program in it"),
        Ok(_) if access(path, Access::EXEC_OK).is_err() => {
            Some("is not executable: chmod +x it, or start it with its interpreter")
        }
        Ok(_) => None,
    }
}

/// The argument, or its absolute form if it names something in the user's folder, also as the
/// value in `--flag=value`.
fn argument(arg: &OsStr, here: &Path, runner: bool) -> OsString {
    let bytes = arg.as_bytes();
    let (flag, value) = match bytes.iter().position(|&b| b == b'=') {
        Some(at) if bytes.starts_with(b"-") => bytes.split_at(at + 1),
        _ => (&[][..], bytes),
    };
    let path = Path::new(OsStr::from_bytes(value));
    let bare = !value.contains(&b'/') && !value.contains(&b'.');
    let dashed = flag.is_empty() && value.starts_with(b"-");
    if value.is_empty() || dashed || path.is_absolute() || (runner && bare) {
        return arg.to_owned();
    }
    let absolute = here.join(path);
    if !absolute.exists() {
        return arg.to_owned();
    }
    let mut whole = flag.to_vec();
    whole.extend_from_slice(absolute.as_os_str().as_bytes());
    OsString::from_vec(whole)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn message(program: &str, here: &Path) -> String {
        let path = OsString::from("/bin:/usr/bin");
        find(OsStr::new(program), here, Some(&path))
            .unwrap_err()
            .message
    }

    #[test]
    fn a_program_that_cannot_start_is_told_why() {
        let here = tempfile::tempdir().unwrap();
        fs::create_dir(here.path().join("folder")).unwrap();
        fs::write(here.path().join("plain.js"), "").unwrap();
        let at = here.path();
        assert!(message("/no/such/file", at).contains("does not exist"));
        assert!(message("./folder", at).contains("is a folder"));
        assert!(message("folder", at).contains("is a folder"));
        assert!(message("./plain.js", at).contains("not executable"));
        assert!(message("touchstone-no-such", at).contains("neither on PATH"));
        assert!(message("", at).contains("no command"));
    }

    #[test]
    fn a_program_is_found_on_the_path_or_in_the_folder() {
        let here = tempfile::tempdir().unwrap();
        let own = here.path().join("own");
        fs::write(&own, "").unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        let path = OsString::from("/bin:/usr/bin");
        let found = |name: &str| find(OsStr::new(name), here.path(), Some(&path)).unwrap();
        assert!(found("sh").ends_with("bin/sh"));
        assert_eq!(found("own"), own);
        assert_eq!(found("./own"), here.path().join("./own"));
    }

    #[test]
    fn arguments_that_name_files_become_absolute() {
        let here = tempfile::tempdir().unwrap();
        fs::create_dir_all(here.path().join("dist")).unwrap();
        fs::write(here.path().join("dist/index.js"), "").unwrap();
        let at = |arg: &str, runner| {
            let arg = argument(OsStr::new(arg), here.path(), runner);
            arg.into_string().unwrap()
        };
        let absolute = |p: &str| here.path().join(p).into_os_string().into_string().unwrap();
        assert_eq!(at("dist/index.js", false), absolute("dist/index.js"));
        assert_eq!(at("dist", false), absolute("dist"));
        assert_eq!(
            at("--config=dist/index.js", false),
            format!("--config={}", absolute("dist/index.js"))
        );
        assert_eq!(at("dist", true), "dist");
        assert_eq!(at("./dist", true), absolute("./dist"));
        for same in ["", "-", "--stdio", "--x=", "dist/none.js", "/etc"] {
            assert_eq!(at(same, false), same);
        }
    }
}
