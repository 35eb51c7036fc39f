//! What the workspace tools are told at the start.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use touchstone_language::delta::Frozen;

/// The flags of the workspace tools.
#[derive(Debug, Clone, Default, Args)]
pub struct WorkspaceArgs {
    /// The folder whose .sakura files are the first snapshot.
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,

    /// Write applied patches into the folder.
    #[arg(long, requires = "workspace")]
    pub write_back: bool,

    /// Refuse patches that change the specification of these symbols (or `all`), separated by
    /// commas.
    #[arg(long, value_name = "SYMBOLS")]
    pub frozen_specs: Option<String>,

    /// Offer these functions marked `@tool` (or `all`) as tools, separated by commas: as --tools,
    /// also for functions that are called like a family.
    #[arg(long, value_name = "FUNCTIONS", requires = "workspace")]
    pub export_tools: Option<String>,

    /// A TOML file whose [permissions] table says which effects exported tools may have.
    #[arg(long, value_name = "FILE")]
    pub permissions: Option<PathBuf>,
}

/// Which functions are exported as tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Export {
    /// None.
    Nothing,
    /// These, as `name` or `module::name`.
    Names(BTreeSet<String>),
    /// All that are marked.
    All,
}

/// The effects that exported tools may have. Everything else is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Permissions {
    /// `Print`: lines come back with the result.
    pub print: bool,
    /// `Clock`: the time of this machine.
    pub clock: bool,
    /// `Random`: random numbers of this machine.
    pub random: bool,
    /// `Http`: always denied, this server has no client for it.
    pub http: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    permissions: Permissions,
}

/// The settings, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The folder of the first snapshot.
    pub root: Option<PathBuf>,
    /// Whether applied patches are written there.
    pub write_back: bool,
    /// The symbols that may not change.
    pub frozen: Frozen,
    /// The functions offered as tools.
    pub export: Export,
    /// What those may do.
    pub permissions: Permissions,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            root: None,
            write_back: false,
            frozen: Frozen::Nothing,
            export: Export::Nothing,
            permissions: Permissions::default(),
        }
    }
}

impl Settings {
    /// The settings that the flags ask for; `exported` are the functions that `--tools` names.
    ///
    /// # Errors
    /// One line: which flag, what is wrong with it.
    pub fn new(args: &WorkspaceArgs, exported: &[&str]) -> Result<Self, String> {
        if let Some(root) = &args.workspace
            && !root.is_dir()
        {
            return Err(format!("--workspace: {} is no folder", root.display()));
        }
        let permissions = match &args.permissions {
            Some(path) => read_permissions(path)
                .map_err(|why| format!("--permissions: {}: {why}", path.display()))?,
            None => Permissions::default(),
        };
        let named = args.export_tools.as_deref().unwrap_or_default();
        let names: BTreeSet<String> = named
            .split(',')
            .chain(exported.iter().copied())
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        let export = if names.contains("all") {
            Export::All
        } else if names.is_empty() {
            Export::Nothing
        } else {
            Export::Names(names)
        };
        Ok(Self {
            root: args.workspace.clone(),
            write_back: args.write_back,
            frozen: args
                .frozen_specs
                .as_deref()
                .map_or(Frozen::Nothing, Frozen::parse),
            export,
            permissions,
        })
    }
}

fn read_permissions(path: &Path) -> Result<Permissions, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let file: File = toml::from_str(&text).map_err(|error| error.message().to_owned())?;
    if file.permissions.http {
        return Err(
            "`http = true` cannot be granted: this server has no network client".to_owned(),
        );
    }
    Ok(file.permissions)
}
