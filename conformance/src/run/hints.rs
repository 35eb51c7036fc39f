//! What the user tells about a server in `touchstone.toml`: "this tool, with these arguments, does
//! that". Some rules can be seen only with such help; `docs/hints.md` is the manual.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toml::Spanned;

use crate::checks::Facts;

/// Something that a call, a read or a prompt brings about. The words are those of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Does {
    /// Reports progress.
    Progress,
    /// Takes its time.
    Slow,
    /// Sends log messages.
    Logs,
    /// Fails while it runs.
    Fails,
    /// Asks the client's model.
    AsksSampling,
    /// Asks the client's model, and gives it tools.
    AsksSamplingWithTools,
    /// Asks the person by a form.
    AsksElicitation,
    /// Sends the person to a URL.
    AsksUrlElicitation,
    /// Asks for the client's roots.
    AsksRoots,
    /// Its arguments lie outside every root of the client, so it must refuse.
    LeavesRoots,
    /// Changes the list of tools.
    ChangesTools,
    /// Changes the list of prompts.
    ChangesPrompts,
    /// Changes the list of resources.
    ChangesResources,
    /// Changes what a resource holds.
    ChangesResource,
    /// Runs as a task.
    Task,
    /// Uses an extension of the protocol, if the client has it.
    UsesExtension,
}

/// The word in the file, and what it means in a sentence that begins "nothing is known to".
const WORDS: [(Does, &str, &str); 16] = [
    (Does::Progress, "progress", "report progress"),
    (Does::Slow, "slow", "take its time"),
    (Does::Logs, "logs", "send log messages"),
    (Does::Fails, "fails", "fail while it runs"),
    (
        Does::AsksSampling,
        "asks-sampling",
        "ask the client's model",
    ),
    (
        Does::AsksSamplingWithTools,
        "asks-sampling-with-tools",
        "give tools to the client's model",
    ),
    (
        Does::AsksElicitation,
        "asks-elicitation",
        "ask the person by a form",
    ),
    (
        Does::AsksUrlElicitation,
        "asks-url-elicitation",
        "send the person to a URL",
    ),
    (Does::AsksRoots, "asks-roots", "ask for roots"),
    (
        Does::LeavesRoots,
        "leaves-roots",
        "be pointed outside the roots",
    ),
    (
        Does::ChangesTools,
        "changes-tools",
        "change the list of tools",
    ),
    (
        Does::ChangesPrompts,
        "changes-prompts",
        "change the list of prompts",
    ),
    (
        Does::ChangesResources,
        "changes-resources",
        "change the list of resources",
    ),
    (
        Does::ChangesResource,
        "changes-resource",
        "change a resource",
    ),
    (Does::Task, "task", "run as a task"),
    (
        Does::UsesExtension,
        "uses-extension",
        "use an extension of the protocol",
    ),
];

impl Does {
    /// All that ask the client something.
    pub const ASKS: &'static [Does] = &[
        Does::AsksElicitation,
        Does::AsksSampling,
        Does::AsksRoots,
        Does::AsksUrlElicitation,
        Does::AsksSamplingWithTools,
    ];

    /// The word in the file.
    pub fn word(self) -> &'static str {
        WORDS
            .iter()
            .find(|(does, ..)| *does == self)
            .map_or("", |(_, word, _)| word)
    }

    fn meaning(self) -> &'static str {
        WORDS
            .iter()
            .find(|(does, ..)| *does == self)
            .map_or("", |(_, _, meaning)| meaning)
    }
}

impl TryFrom<String> for Does {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        WORDS
            .iter()
            .find(|(_, known, _)| *known == word)
            .map(|(does, ..)| *does)
            .ok_or_else(|| {
                let known: Vec<&str> = WORDS.iter().map(|(_, word, _)| *word).collect();
                format!("`{word}` is not known; known are {}", known.join(", "))
            })
    }
}

/// What would have to be said for rules that need something that does one of these.
pub fn wanted(any: &[Does]) -> String {
    let meaning = match any {
        [one] => one.meaning(),
        _ => "ask the client anything",
    };
    let words: Vec<String> = any
        .iter()
        .map(|does| format!("`{}`", does.word()))
        .collect();
    format!(
        "Nothing is known to {meaning}; a hint would help: {} in touchstone.toml.",
        words.join(" or ")
    )
}

/// One request that is known to bring something about.
#[derive(Debug, Clone, PartialEq)]
pub struct Occasion {
    /// `tools/call`, `resources/read` or `prompts/get`.
    pub method: &'static str,
    /// Its params.
    pub params: Value,
    /// What it brings about.
    pub does: Vec<Does>,
    /// The URI of a resource that it changes, or that shows how far it is.
    pub resource: Option<String>,
    /// How long it takes when it is left alone.
    pub takes: Option<Duration>,
    /// After which time it gives up a question that the client does not answer.
    pub gives_up: Option<Duration>,
}

impl Occasion {
    /// A call of a tool that was seen to do this.
    pub fn seen(tool: &str, arguments: Map<String, Value>, does: Does) -> Self {
        Self {
            method: "tools/call",
            params: json!({"name": tool, "arguments": arguments}),
            does: vec![does],
            resource: None,
            takes: None,
            gives_up: None,
        }
    }

    /// Whether it does one of these.
    pub fn does_any(&self, any: &[Does]) -> bool {
        self.does.iter().any(|does| any.contains(does))
    }

    /// What is called, read or got.
    pub fn target(&self) -> &str {
        let member = |name| self.params.get(name).and_then(Value::as_str);
        member("name").or(member("uri")).unwrap_or_default()
    }

    /// The params with a further member.
    pub fn with(&self, name: &str, value: Value) -> Value {
        let mut params = self.params.clone();
        if let Some(members) = params.as_object_mut() {
            members.insert(name.to_owned(), value);
        }
        params
    }

    /// The params with a progress token.
    pub fn with_token(&self, token: &Value) -> Value {
        self.with("_meta", json!({"progressToken": token}))
    }
}

impl fmt::Display for Occasion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of `{}`", self.method, self.target())
    }
}

/// All hints of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hints {
    /// In the order of the file: tools, resources, prompts.
    pub occasions: Vec<Occasion>,
    /// The arguments that give the server its memory configuration, `{config}` in them; none for
    /// the file alone.
    pub memory: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    memory: Option<Spanned<MemoryHint>>,
    #[serde(default)]
    tool: Vec<ToolHint>,
    #[serde(default)]
    resource: Vec<ResourceHint>,
    #[serde(default)]
    prompt: Vec<PromptHint>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryHint {
    arguments: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ToolHint {
    name: Spanned<String>,
    #[serde(default)]
    arguments: toml::Table,
    #[serde(default)]
    does: Vec<Does>,
    resource: Option<String>,
    takes_ms: Option<u32>,
    gives_up_ms: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ResourceHint {
    uri: String,
    #[serde(default)]
    does: Vec<Does>,
    gives_up_ms: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PromptHint {
    name: String,
    #[serde(default)]
    arguments: toml::Table,
    #[serde(default)]
    does: Vec<Does>,
    gives_up_ms: Option<u32>,
}

impl Hints {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong, with the file and the line.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read the hints in `{}`: {error}", path.display()))?;
        Self::parse(&text)
            .map_err(|(line, problem)| format!("{}:{line}: {problem}", path.display()))
    }

    /// Reads the text of a file. The error is a line and what is wrong there.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let line = |at: usize| {
            1 + text
                .get(..at)
                .map_or(0, |before| before.matches('\n').count())
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            (line(at), error.message().to_owned())
        })?;
        let milliseconds = |ms: u32| Duration::from_millis(ms.into());
        let mut occasions = Vec::new();
        for hint in file.tool {
            if hint.does.contains(&Does::ChangesResource) && hint.resource.is_none() {
                let problem = format!(
                    "the tool `{}` changes a resource: say which one, `resource = \"URI\"`",
                    hint.name.as_ref()
                );
                return Err((line(hint.name.span().start), problem));
            }
            occasions.push(Occasion {
                method: "tools/call",
                params: json!({"name": hint.name.as_ref(), "arguments": json_of(hint.arguments)}),
                does: hint.does,
                resource: hint.resource,
                takes: hint.takes_ms.map(milliseconds),
                gives_up: hint.gives_up_ms.map(milliseconds),
            });
        }
        occasions.extend(file.resource.into_iter().map(|hint| Occasion {
            method: "resources/read",
            params: json!({"uri": hint.uri}),
            does: hint.does,
            resource: None,
            takes: None,
            gives_up: hint.gives_up_ms.map(milliseconds),
        }));
        occasions.extend(file.prompt.into_iter().map(|hint| Occasion {
            method: "prompts/get",
            params: json!({"name": hint.name, "arguments": json_of(hint.arguments)}),
            does: hint.does,
            resource: None,
            takes: None,
            gives_up: hint.gives_up_ms.map(milliseconds),
        }));
        let memory = file.memory.map_or(Ok(Vec::new()), |hint| {
            let at = line(hint.span().start);
            let arguments = hint.into_inner().arguments;
            match arguments.iter().any(|text| text.contains("{config}")) {
                true => Ok(arguments),
                false => Err((
                    at,
                    "`arguments` of [memory] say where the configuration file stands: \
                     arguments = [\"--config\", \"{config}\"]"
                        .to_owned(),
                )),
            }
        })?;
        Ok(Self { occasions, memory })
    }

    /// The hinted tools and prompts that the server lists in no revision.
    pub(super) fn unlisted(&self, all: &[Facts]) -> Vec<String> {
        let mut names = Vec::new();
        for occasion in &self.occasions {
            let name = occasion.target().to_owned();
            let listed = all.iter().any(|facts| facts.lists_target(occasion));
            if !listed && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Whether the file names this tool.
    pub(super) fn name_tool(&self, name: &str) -> bool {
        self.occasions
            .iter()
            .any(|occasion| occasion.method == "tools/call" && occasion.target() == name)
    }
}

/// The same in JSON; a date is its text.
fn json_of(table: toml::Table) -> Value {
    fn value(from: toml::Value) -> Value {
        match from {
            toml::Value::String(text) => text.into(),
            toml::Value::Integer(number) => number.into(),
            toml::Value::Float(number) => number.into(),
            toml::Value::Boolean(truth) => truth.into(),
            toml::Value::Datetime(date) => date.to_string().into(),
            toml::Value::Array(items) => items.into_iter().map(value).collect(),
            toml::Value::Table(table) => json_of(table),
        }
    }
    let members = table
        .into_iter()
        .map(|(name, member)| (name, value(member)));
    Value::Object(members.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_requests_and_what_they_do() {
        let hints = Hints::parse(
            "[[tool]]\nname = \"ask\"\narguments = { question = \"why\", n = 2, list = [1.5] }\n\
             does = [\"asks-sampling\", \"slow\"]\ntakes-ms = 300\n\
             [[resource]]\nuri = \"a:b\"\ndoes = [\"fails\"]\n\
             [[prompt]]\nname = \"p\"\n",
        )
        .unwrap();
        let [tool, resource, prompt] = hints.occasions.as_slice() else {
            panic!("{hints:?}");
        };
        let arguments = json!({"question": "why", "n": 2, "list": [1.5]});
        assert_eq!(tool.params, json!({"name": "ask", "arguments": arguments}));
        assert!(tool.does_any(&[Does::Slow]) && !tool.does_any(&[Does::Task]));
        assert_eq!(tool.takes, Some(Duration::from_millis(300)));
        assert_eq!(resource.to_string(), "`resources/read` of `a:b`");
        assert_eq!(prompt.method, "prompts/get");
        assert!(prompt.does.is_empty());
    }

    #[test]
    fn the_place_of_a_memory_configuration_is_told() {
        let of = |text: &str| Hints::parse(text).map(|hints| hints.memory);
        let arguments = of("[memory]\narguments = [\"--config={config}\", \"-q\"]\n");
        assert_eq!(arguments.unwrap(), ["--config={config}", "-q"]);
        assert!(of("").unwrap().is_empty());
    }

    #[test]
    fn a_fault_is_told_with_its_line() {
        for (text, line, part) in [
            (
                "\n[memory]\narguments = [\"--config\"]\n",
                2,
                "where the configuration file stands",
            ),
            (
                "[[tool]]\nname = \"a\"\ndoes = [\"sings\"]\n",
                3,
                "`sings` is not known",
            ),
            (
                "[[tool]]\nname = \"a\"\nargs = {}\n",
                3,
                "unknown field `args`",
            ),
            ("\n[[tool]]\ndoes = []\n", 2, "missing field `name`"),
            ("[[tool]]\nname = \"a\"\n= 1\n", 3, ""),
            (
                "[[tool]]\ndoes = [\"changes-resource\"]\nname = \"a\"\n",
                3,
                "say which one",
            ),
            ("[[tools]]\nname = \"a\"\n", 1, "unknown field `tools`"),
        ] {
            let (at, problem) = Hints::parse(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
            assert_eq!(at, line, "{text}: {problem}");
        }
    }

    #[test]
    fn every_word_is_read_as_what_it_says() {
        for (does, word, meaning) in WORDS {
            assert_eq!(Does::try_from(word.to_owned()), Ok(does));
            assert_eq!(does.word(), word);
            assert!(wanted(&[does]).contains(meaning));
        }
    }
}
