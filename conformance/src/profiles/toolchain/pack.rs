//! Source trees for the checks, in the language that the server under test takes. The format is
//! described in `fixtures/packs/README.md`.

use std::collections::BTreeMap;
use std::path::Path;

use include_dir::{Dir, include_dir};
use serde::Deserialize;
use serde_json::{Value, json};

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../fixtures/packs");

/// A language.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pack {
    /// Version of the format.
    #[allow(dead_code)]
    schema: u32,
    /// The language's name.
    pub language: String,
    /// The extension of its files.
    #[allow(dead_code)]
    extension: String,
    /// The program that tells whether a server takes this language.
    pub probe: String,
    /// What begins a comment.
    pub comment: String,
    /// The programs.
    #[serde(rename = "program")]
    programs: Vec<Program>,
}

/// One source tree, and what is to be said of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    pub name: String,
    #[allow(dead_code)]
    summary: String,
    pub entry: String,
    pub files: BTreeMap<String, String>,
    #[serde(default)]
    pub compile: Compile,
    #[serde(default)]
    pub run: Run,
}

/// What `compile` says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Compile {
    #[serde(default)]
    pub success: bool,
    #[serde(default)]
    pub diagnostics: Vec<String>,
}

/// What `jit_execute` says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    pub exit_status: Option<i64>,
    pub stdout: Option<String>,
    #[serde(default)]
    pub stdout_contains: Vec<String>,
    #[serde(default)]
    pub stderr_contains: Vec<String>,
}

impl Pack {
    /// The program of that name.
    pub(super) fn program(&self, name: &str) -> Option<&Program> {
        self.programs.iter().find(|program| program.name == name)
    }

    /// A program that no cache has seen: a comment with this text stands at the end of a file.
    pub(super) fn fresh(&self, name: &str, mark: &str) -> Option<Program> {
        let mut program = self.program(name)?.clone();
        let text = program.files.values_mut().next()?;
        text.push_str(&format!("\n{} {mark}\n", self.comment));
        Some(program)
    }
}

impl Program {
    /// The arguments of `compile` and `jit_execute`.
    pub(super) fn arguments(&self) -> Value {
        json!({"files": self.files, "entry": self.entry})
    }
}

/// The packs of a folder, or those that are built in, by name. The error names the file.
pub(super) fn all(folder: Option<&Path>) -> Result<Vec<Pack>, String> {
    let mut texts: Vec<(String, String)> = Vec::new();
    match folder {
        None => {
            for dir in EMBEDDED.dirs() {
                // A folder without one is a pack of another profile.
                let file = dir.path().join("pack.toml");
                let text = EMBEDDED
                    .get_file(&file)
                    .and_then(|file| file.contents_utf8());
                texts.extend(text.map(|text| (file.display().to_string(), text.to_owned())));
            }
        }
        Some(folder) => {
            let own = folder.join("pack.toml");
            let mut files: Vec<_> = if own.is_file() {
                vec![own]
            } else {
                std::fs::read_dir(folder)
                    .map_err(|error| format!("{}: {error}", folder.display()))?
                    .filter_map(|entry| Some(entry.ok()?.path().join("pack.toml")))
                    .filter(|file| file.is_file())
                    .collect()
            };
            files.sort();
            for file in files {
                let text = std::fs::read_to_string(&file)
                    .map_err(|error| format!("{}: {error}", file.display()))?;
                texts.push((file.display().to_string(), text));
            }
        }
    }
    let packs: Result<Vec<Pack>, String> = texts
        .iter()
        .map(|(name, text)| toml::from_str(text).map_err(|error| format!("{name}: {error}")))
        .collect();
    let packs = packs?;
    if packs.is_empty() {
        return Err("There is no pack: a pack is a folder with a `pack.toml`.".to_owned());
    }
    Ok(packs)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_built_in_packs_are_read_and_have_their_probe() {
        for pack in super::all(None).expect("the embedded packs") {
            assert!(pack.program(&pack.probe).is_some(), "{}", pack.language);
        }
    }
}
