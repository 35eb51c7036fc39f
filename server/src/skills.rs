//! The skills of a toolchain, short guides that the compiler itself gives, as resources under
//! their own URIs; and a prompt that hands one to the model.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::protocol::{Call, Completed, Family, Found, Offers, Outcome, Tool, is_uri};

/// How long the list is good for: asking the compiler starts a process.
const FRESH: Duration = Duration::from_secs(10);

const PROMPT: &str = "write_program";

/// A family without tools of its own. It asks another one that has `listSkills` and `getSkills`.
pub struct Skills {
    toolchain: Arc<dyn Family>,
    listed: Mutex<Option<(Instant, Vec<Value>)>>,
}

impl Skills {
    /// The skills of this toolchain.
    pub fn new(toolchain: Arc<dyn Family>) -> Self {
        Self {
            toolchain,
            listed: Mutex::new(None),
        }
    }

    /// The resources, as the compiler gave them at most [`FRESH`] ago.
    fn list(&self, call: &Call) -> Result<Vec<Value>, String> {
        // Held while the compiler runs: who else asks waits for the same answer.
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, resources)) = &*listed
            && at.elapsed() < FRESH
        {
            return Ok(resources.clone());
        }
        let skills = self.ask("listSkills", json!({}), call)?;
        let mut resources: Vec<Value> = Vec::new();
        for resource in skills.iter().filter_map(resource) {
            if !resources
                .iter()
                .any(|other| other["uri"] == resource["uri"])
            {
                resources.push(resource);
            }
        }
        *listed = Some((Instant::now(), resources.clone()));
        Ok(resources)
    }

    /// The array of skills that a tool of the toolchain gives.
    fn ask(&self, tool: &str, arguments: Value, call: &Call) -> Result<Vec<Value>, String> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        match self.toolchain.call(tool, &arguments, call) {
            Outcome::Done {
                structured: Some(result),
                is_error: false,
                ..
            } => Ok(result["skills"].as_array().cloned().unwrap_or_default()),
            Outcome::Internal(problem) | Outcome::InvalidParams(problem) => Err(problem),
            Outcome::Done { .. } | Outcome::Stopped(_) => {
                Err("the compiler gives no skills".to_owned())
            }
        }
    }

    /// The contents of one skill.
    fn contents(&self, uri: &str, call: &Call) -> Result<Option<Value>, String> {
        if uri.contains(',') {
            return Ok(None); // The compiler would take it for two.
        }
        let skills = self.ask("getSkills", json!({ "uris": [uri] }), call)?;
        let skill = skills.iter().find(|skill| skill["uri"] == uri);
        Ok(skill.map(|skill| {
            let text = ["content", "text", "body"]
                .iter()
                .find_map(|member| skill[*member].as_str());
            match text {
                Some(text) => json!({"uri": uri, "mimeType": "text/markdown", "text": text}),
                None => json!({"uri": uri, "mimeType": "application/json",
                    "text": skill.to_string()}),
            }
        }))
    }

    fn messages(&self, arguments: &Map<String, Value>, call: &Call) -> Result<Found, String> {
        let given = |name: &str| arguments.get(name).and_then(Value::as_str);
        let task = given("task").unwrap_or("");
        let text = format!(
            "Write a program: {task}\n\nRun it with the tool jit_execute until it does what is \
             asked, then show the source and the output."
        );
        let user = |content: Value| json!({"role": "user", "content": content});
        let mut messages = vec![user(json!({"type": "text", "text": text}))];
        if let Some(guide) = given("guide") {
            let Some(contents) = self.contents(guide, call)? else {
                let problem = format!("The argument \"guide\" names no skill: {guide}");
                return Ok(Found::InvalidParams(problem));
            };
            messages.insert(0, user(json!({"type": "resource", "resource": contents})));
        }
        Ok(Found::Items(messages))
    }
}

/// A skill as a resource; nothing if it has no URI that a client could ask for.
fn resource(skill: &Value) -> Option<Value> {
    let uri = skill["uri"].as_str().filter(|uri| is_uri(uri))?;
    let name = skill["name"].as_str().unwrap_or(uri);
    let mut resource = json!({"uri": uri, "name": name, "mimeType": "text/markdown"});
    if let Some(description) = skill["description"].as_str() {
        resource["description"] = description.into();
    }
    Some(resource)
}

impl Family for Skills {
    fn name(&self) -> &'static str {
        "skills"
    }

    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    fn call(&self, name: &str, _arguments: &Map<String, Value>, _call: &Call) -> Outcome {
        Outcome::Internal(format!("skills have no tool {name}"))
    }

    fn offers(&self) -> Offers {
        Offers {
            resources: true,
            prompts: true,
            completions: true,
            ..Offers::default()
        }
    }

    fn resources(&self, call: &Call) -> Result<Vec<Value>, String> {
        self.list(call)
    }

    fn read(&self, uri: &str, call: &Call) -> Found {
        match self.list(call) {
            Ok(listed) if !listed.iter().any(|resource| resource["uri"] == uri) => {
                return Found::Unknown;
            }
            Ok(_) => {}
            Err(problem) => return Found::Internal(problem),
        }
        match self.contents(uri, call) {
            Ok(Some(contents)) => Found::Items(vec![contents]),
            Ok(None) => Found::Unknown,
            Err(problem) => Found::Internal(problem),
        }
    }

    fn prompts(&self) -> Vec<Value> {
        vec![json!({
            "name": PROMPT,
            "title": "Write a program",
            "description": "Has the model write a program and run it with the toolchain.",
            "arguments": [
                {"name": "task", "title": "Task", "description": "What the program should do",
                    "required": true},
                {"name": "guide", "title": "Guide",
                    "description": "URI of a skill to read first", "required": false},
            ],
        })]
    }

    fn prompt(&self, _name: &str, arguments: &Map<String, Value>, call: &Call) -> Found {
        match self.messages(arguments, call) {
            Ok(found) => found,
            Err(problem) => Found::Internal(problem),
        }
    }

    fn complete(
        &self,
        what: Completed<'_>,
        argument: &str,
        typed: &str,
        _context: &Map<String, Value>,
        call: &Call,
    ) -> Option<Vec<String>> {
        if what != Completed::Prompt(PROMPT) {
            return None;
        }
        let listed = match argument {
            "guide" => self.list(call).unwrap_or_default(),
            _ => Vec::new(),
        };
        let uris = listed
            .iter()
            .filter_map(|resource| resource["uri"].as_str());
        // The start of a URI is the same for all: any part of it will do.
        let fitting = uris.filter(|uri| uri.contains(typed));
        Some(fitting.map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A toolchain whose skills have all sorts of shapes.
    struct Compiler;

    impl Family for Compiler {
        fn name(&self) -> &'static str {
            "toolchain"
        }

        fn tools(&self) -> Vec<Tool> {
            Vec::new()
        }

        fn call(&self, name: &str, arguments: &Map<String, Value>, _call: &Call) -> Outcome {
            let skills = match name {
                "listSkills" => json!([
                    {"uri": "cja-skill://a", "name": "a", "description": "one"},
                    {"uri": "cja-skill://b"},
                    {"uri": "cja-skill://a", "name": "again"},
                    {"uri": "not a uri"},
                    {"name": "no uri"},
                    5,
                ]),
                _ => match arguments["uris"][0].as_str() {
                    Some("cja-skill://a") => json!([{"uri": "cja-skill://a", "content": "# A"}]),
                    Some("cja-skill://b") => json!([{"uri": "cja-skill://b", "steps": [1]}]),
                    _ => json!([]),
                },
            };
            Outcome::Done {
                content: Vec::new(),
                structured: Some(json!({ "skills": skills })),
                is_error: false,
            }
        }
    }

    fn call() -> Call {
        Call::new(Arc::default(), Arc::new(|_, _, _| {}))
    }

    #[test]
    fn each_skill_with_a_uri_is_listed_once() {
        let listed = Skills::new(Arc::new(Compiler)).resources(&call()).unwrap();
        assert_eq!(
            listed,
            [
                json!({"uri": "cja-skill://a", "name": "a", "mimeType": "text/markdown",
                    "description": "one"}),
                json!({"uri": "cja-skill://b", "name": "cja-skill://b",
                    "mimeType": "text/markdown"}),
            ]
        );
    }

    #[test]
    fn a_skill_is_read_as_its_text_or_as_json() {
        let skills = Skills::new(Arc::new(Compiler));
        let read = |uri: &str| match skills.read(uri, &call()) {
            Found::Items(contents) => Some(contents[0]["text"].as_str().unwrap().to_owned()),
            Found::Unknown => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(read("cja-skill://a").as_deref(), Some("# A"));
        let json = read("cja-skill://b");
        assert_eq!(
            json.as_deref(),
            Some(r#"{"uri":"cja-skill://b","steps":[1]}"#)
        );
        assert_eq!(read("cja-skill://none"), None);
        assert_eq!(read("cja-skill://a,cja-skill://b"), None);
    }

    #[test]
    fn the_prompt_embeds_the_guide_that_is_named() {
        let skills = Skills::new(Arc::new(Compiler));
        let get = |arguments: Value| skills.prompt(PROMPT, arguments.as_object().unwrap(), &call());
        let Found::Items(messages) = get(json!({"task": "add", "guide": "cja-skill://a"})) else {
            panic!("no messages");
        };
        assert_eq!(messages[0]["content"]["resource"]["text"], "# A");
        assert!(
            messages[1]["content"]["text"]
                .as_str()
                .unwrap()
                .contains("add")
        );
        let wrong = get(json!({"task": "add", "guide": "cja-skill://none"}));
        assert!(matches!(wrong, Found::InvalidParams(_)));
    }

    #[test]
    fn guides_are_completed_by_any_part_of_their_uri() {
        let skills = Skills::new(Arc::new(Compiler));
        let complete = |typed: &str| {
            let what = Completed::Prompt(PROMPT);
            skills
                .complete(what, "guide", typed, &Map::new(), &call())
                .unwrap()
        };
        assert_eq!(complete(""), ["cja-skill://a", "cja-skill://b"]);
        assert_eq!(complete("/b"), ["cja-skill://b"]);
    }
}
