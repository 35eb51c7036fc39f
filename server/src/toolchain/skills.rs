//! The skills of the `rustc` toolchain: short documents that teach its use.

use serde_json::{Value, json};

struct Skill {
    uri: &'static str,
    name: &'static str,
    description: &'static str,
    content: &'static str,
}

const SKILLS: [Skill; 3] = [
    Skill {
        uri: "cja-skill://rust/run-a-program",
        name: "run-a-program",
        description: "Compile and run Rust with jit_execute: files, entry, output, return value.",
        content: include_str!("skills/run-a-program.md"),
    },
    Skill {
        uri: "cja-skill://rust/lay-out-files",
        name: "lay-out-files",
        description: "How a tree of .rs files becomes one crate: modules, folders, several files.",
        content: include_str!("skills/lay-out-files.md"),
    },
    Skill {
        uri: "cja-skill://rust/use-an-artifact",
        name: "use-an-artifact",
        description: "What compile returns: diagnostics, and the library archive in base64.",
        content: include_str!("skills/use-an-artifact.md"),
    },
];

impl Skill {
    fn summary(&self) -> Value {
        json!({"uri": self.uri, "name": self.name, "description": self.description})
    }

    fn whole(&self) -> Value {
        let mut whole = self.summary();
        whole["content"] = json!(self.content);
        whole
    }

    fn mentions(&self, word: &str) -> bool {
        [self.uri, self.name, self.description, self.content]
            .iter()
            .any(|text| text.to_lowercase().contains(word))
    }
}

/// The skills that mention every word of `words`; case does not matter.
pub(super) fn search(words: &str) -> Value {
    let words = words.to_lowercase();
    let found = |skill: &&Skill| words.split_whitespace().all(|word| skill.mentions(word));
    SKILLS.iter().filter(found).map(Skill::summary).collect()
}

/// All skills, without their text.
pub(super) fn list() -> Value {
    SKILLS.iter().map(Skill::summary).collect()
}

/// The skills with these URIs, comma-separated, with their text; unknown ones are left out.
pub(super) fn get(uris: &str) -> Value {
    uris.split(',')
        .filter_map(|uri| SKILLS.iter().find(|skill| skill.uri == uri.trim()))
        .map(Skill::whole)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_skill_is_listed_found_by_name_and_read_by_uri() {
        assert_eq!(list().as_array().unwrap().len(), SKILLS.len());
        for skill in &SKILLS {
            assert!(
                search(skill.name)
                    .as_array()
                    .unwrap()
                    .contains(&skill.summary())
            );
            assert_eq!(get(skill.uri), json!([skill.whole()]));
            assert!(skill.content.len() > 200, "{}", skill.name);
        }
    }

    #[test]
    fn search_wants_every_word() {
        assert_eq!(search("BASE64 archive"), json!([SKILLS[2].summary()]));
        assert_eq!(search("archive no-such-word"), json!([]));
    }

    #[test]
    fn unknown_uris_are_left_out() {
        assert_eq!(get("cja-skill://none"), json!([]));
        let two = format!("{}, cja-skill://none,{}", SKILLS[1].uri, SKILLS[0].uri);
        assert_eq!(get(&two).as_array().unwrap().len(), 2);
    }
}
