//! Sources for the checks, and what is true of them. The format is described in
//! `fixtures/packs/README.md`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

const FILE: &str = "workspace.toml";
const EMBEDDED: &str = include_str!("../../../../fixtures/packs/sakura/workspace.toml");

/// The whole pack.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pack {
    /// Version of the format.
    #[allow(dead_code)]
    schema: u32,
    /// The language's name.
    #[allow(dead_code)]
    language: String,
    /// The folder that most checks work on: path to text.
    pub files: BTreeMap<String, String>,
    /// A function of each file.
    pub functions: BTreeMap<String, String>,
    #[serde(rename = "change")]
    pub changes: Vec<Change>,
    #[serde(rename = "mistake")]
    pub mistakes: Vec<Mistake>,
    pub described: Described,
    pub layout: Layout,
    pub tests: Tests,
    pub endless: Single,
    pub greedy: Single,
    pub network: Single,
    pub export: Exported,
}

/// A change of one file of the folder.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    pub name: String,
    pub path: String,
    /// The symbol, or the name of the test, that changes.
    pub symbol: String,
    /// What is replaced, and by what; each occurs once.
    replace: Vec<(String, String)>,
}

/// A text that does not check.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mistake {
    pub name: String,
    /// What its code begins with.
    pub code: String,
    /// What stands on the line of the mistake.
    pub line: String,
    pub text: String,
}

/// A symbol, a hole and an obligation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Described {
    pub path: String,
    pub text: String,
    pub symbol: String,
    pub mentions: Vec<String>,
    pub doc: String,
    pub hole: String,
    pub hole_mentions: Vec<String>,
}

/// One program in two layouts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layout {
    pub path: String,
    pub text: String,
    pub again: String,
    pub comments: Vec<String>,
}

/// Tests of every kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tests {
    pub path: String,
    pub text: String,
    pub passing: Vec<String>,
    pub failing: Vec<String>,
    pub assertion: String,
    pub assertion_mentions: Vec<String>,
    pub property: String,
    /// The least and the most that the shrunk number may be.
    pub counterexample: (i64, i64),
}

/// One test that does not pass, and others that do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Single {
    pub path: String,
    pub text: String,
    pub test: String,
    pub others: Vec<String>,
}

/// Functions to export.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exported {
    pub path: String,
    pub text: String,
    pub tools: Vec<String>,
    pub not_exported: String,
    pub tool: String,
    pub accepted: Vec<Value>,
    pub rejected: Vec<Value>,
    pub call: Value,
    pub result: Value,
    pub failing_call: Value,
    pub failure_mentions: Vec<String>,
    pub network_tool: String,
    pub network_call: Value,
}

/// What a source says instead of the port at which the suite listens.
const PORT: &str = "%PORT%";

/// The text with the port put in.
pub(super) fn with_port(text: &str, port: u16) -> String {
    text.replace(PORT, &port.to_string())
}

impl Pack {
    /// The pack of that folder, or the one that is built in. The error names the file.
    pub(super) fn load(folder: Option<&Path>) -> Result<Pack, String> {
        // The folder may hold a pack of another profile.
        let own = folder
            .map(|folder| folder.join(FILE))
            .filter(|file| file.is_file());
        let (name, text) = match &own {
            None => (FILE.to_owned(), EMBEDDED.to_owned()),
            Some(file) => {
                let name = file.display().to_string();
                let text =
                    std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
                (name, text)
            }
        };
        let pack: Pack = toml::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
        for change in &pack.changes {
            pack.changed(change)
                .map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(pack)
    }

    /// The change of that name.
    pub(super) fn change(&self, name: &str) -> Result<&Change, String> {
        let found = self.changes.iter().find(|change| change.name == name);
        found.ok_or_else(|| format!("the pack has no change `{name}`"))
    }

    /// The text of the file after the change.
    fn changed(&self, change: &Change) -> Result<String, String> {
        let mut text = self.text(&change.path)?.to_owned();
        for (from, to) in &change.replace {
            if text.matches(from.as_str()).count() != 1 {
                return Err(format!(
                    "change `{}`: {from:?} does not occur once in {}",
                    change.name, change.path
                ));
            }
            text = text.replace(from.as_str(), to);
        }
        Ok(text)
    }

    /// The change as edits: the whole file anew.
    pub(super) fn edits(&self, change: &Change) -> Result<Value, String> {
        Ok(json!([{"path": change.path, "text": self.changed(change)?}]))
    }

    /// A file of the folder.
    pub(super) fn text(&self, path: &str) -> Result<&str, String> {
        let text = self.files.get(path);
        text.map(String::as_str)
            .ok_or_else(|| format!("the pack has no file `{path}`"))
    }

    /// The folder after the change.
    pub(super) fn files_after(&self, change: &Change) -> Result<BTreeMap<String, String>, String> {
        let mut files = self.files.clone();
        files.insert(change.path.clone(), self.changed(change)?);
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_pack_is_read_and_every_change_fits() {
        let pack = Pack::load(None).expect("the embedded pack");
        for change in &pack.changes {
            assert!(pack.edits(change).is_ok(), "{}", change.name);
        }
        for path in pack.functions.keys() {
            assert!(pack.text(path).is_ok(), "{path}");
        }
    }

    #[test]
    fn comments_of_the_pack_stand_in_both_layouts_in_their_order() {
        let layout = Pack::load(None).expect("the embedded pack").layout;
        for text in [&layout.text, &layout.again] {
            let mut from = 0;
            for comment in &layout.comments {
                let at = text[from..].find(comment.as_str());
                from += at.unwrap_or_else(|| panic!("{comment}")) + comment.len();
            }
        }
    }
}
