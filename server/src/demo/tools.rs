//! The tools that need no state.

use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::resources;
use crate::protocol::{Call, Level, Outcome, Tool};

/// How often a waiting tool looks up.
const STEP: Duration = Duration::from_millis(20);

const READ_ONLY: &str = r#"{"readOnlyHint": true, "destructiveHint": false,
    "idempotentHint": true, "openWorldHint": false}"#;
const CHANGES: &str = r#"{"readOnlyHint": false, "destructiveHint": false,
    "idempotentHint": false, "openWorldHint": false}"#;
const ASKS: &str = r#"{"readOnlyHint": true, "destructiveHint": false,
    "idempotentHint": false, "openWorldHint": true}"#;

/// Name, title, description, `properties`, `required`, hints.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
);

const MILLISECONDS: &str = r#"{"ms": {"type": "integer", "minimum": 0, "maximum": 60000,
    "default": 1000, "description": "How long it takes, in milliseconds"}}"#;

#[rustfmt::skip]
const TABLE: [Row; 14] = [
    ("add", "Add", "Adds two numbers: structured output.",
     r#"{"a": {"type": "number", "description": "One number"},
         "b": {"type": "number", "description": "The other"}}"#, &["a", "b"], READ_ONLY),
    ("content", "Content", "Gives content blocks of one kind, or of each.",
     r#"{"kind": {"type": "string", "default": "all", "description": "Which kind",
         "enum": ["text", "image", "audio", "resource", "resource_link", "all"]}}"#, &[], READ_ONLY),
    ("progress", "Progress", "Reports progress step by step.",
     r#"{"steps": {"type": "integer", "minimum": 1, "maximum": 50, "default": 3,
         "description": "How many reports"},
         "ms": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 0,
         "description": "Milliseconds between them"}}"#, &[], READ_ONLY),
    ("log", "Log", "Sends a log message, at one level or at each of the eight.",
     r#"{"level": {"type": "string", "description": "One level; all without it",
         "enum": ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]},
         "message": {"type": "string", "description": "What it says"}}"#, &[], READ_ONLY),
    ("slow", "Slow", "Takes its time, reports progress, and stops when it is cancelled. The \
      resource demo://steps counts what it has done.", MILLISECONDS, &[], CHANGES),
    ("task_optional", "Task, optional", "Takes its time, as a task or as a plain call.",
     MILLISECONDS, &[], READ_ONLY),
    ("task_required", "Task, required", "Takes its time, only as a task.",
     MILLISECONDS, &[], READ_ONLY),
    ("fail", "Fail", "Fails: as a tool does, or as a broken server does.",
     r#"{"how": {"type": "string", "enum": ["tool", "internal"], "default": "tool",
         "description": "tool: a result with isError; internal: error -32603"}}"#, &[], READ_ONLY),
    ("change", "Change", "Changes something that clients can watch: adds or removes the extra \
      tool, prompt or resource, or counts demo://counter up.",
     r#"{"what": {"type": "string", "enum": ["tools", "prompts", "resources", "resource"],
         "description": "What changes"}}"#, &["what"], CHANGES),
    ("ask_form", "Ask by form", "Asks the person for a name (elicitation, form).",
     "{}", &[], ASKS),
    ("ask_twice", "Ask twice", "Asks the person two questions, one after the other.",
     "{}", &[], ASKS),
    ("ask_url", "Ask by URL", "Sends the person to a page (elicitation, URL).", "{}", &[], ASKS),
    ("ask_model", "Ask the model", "Asks the client's model (sampling).",
     r#"{"question": {"type": "string", "description": "What to ask"}}"#, &[], ASKS),
    ("ask_model_tools", "Ask the model, with a tool", "Asks the client's model and gives it a tool \
      to add with (sampling with tools).", "{}", &[], ASKS),
];

const ROOTS: Row = (
    "ask_roots",
    "Ask for roots",
    "Asks the client for its roots.",
    "{}",
    &[],
    ASKS,
);

const EXTRA: Row = (
    "extra",
    "Extra",
    "Comes and goes with change.",
    "{}",
    &[],
    READ_ONLY,
);

/// The tools on offer.
pub(super) fn all(with_extra: bool) -> Vec<Tool> {
    let extra = with_extra.then_some(&EXTRA);
    TABLE
        .iter()
        .chain([&ROOTS])
        .chain(extra)
        .map(tool)
        .collect()
}

fn tool(row: &Row) -> Tool {
    let (name, title, description, properties, required, hints) = *row;
    let output = json!({
        "type": "object",
        "properties": {"sum": {"type": "number", "description": "a + b"}},
        "required": ["sum"],
        "additionalProperties": false,
    });
    Tool {
        name,
        title,
        description: description.to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": parsed(properties),
            "required": required,
            "additionalProperties": false,
        }),
        output_schema: (name == "add").then_some(output),
        annotations: parsed(hints),
    }
}

/// JSON of the table above; a test reads every row.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

pub(super) fn add(arguments: &Map<String, Value>) -> Outcome {
    // A number too large for a float, like 1e400, counts as infinite.
    let number = |name: &str| arguments.get(name).and_then(Value::as_f64);
    let sum = number("a").unwrap_or(f64::INFINITY) + number("b").unwrap_or(f64::INFINITY);
    let whole = sum.fract() == 0.0 && sum.abs() < 9e15;
    let sum = match whole {
        true => Value::from(sum as i64),
        false => Value::from(sum),
    };
    if sum.is_null() {
        return Outcome::failure("The sum is too large to be written as a number.");
    }
    let structured = json!({ "sum": sum });
    Outcome::Done {
        content: vec![json!({"type": "text", "text": structured.to_string()})],
        structured: Some(structured),
        is_error: false,
    }
}

pub(super) fn content(arguments: &Map<String, Value>) -> Outcome {
    let kind = arguments.get("kind").and_then(Value::as_str);
    let wanted = kind.unwrap_or("all");
    let annotations = json!({"audience": ["user"], "priority": 0.5,
        "lastModified": "2026-01-02T03:04:05Z"});
    let all = [
        json!({"type": "text", "text": "Some text, with é and 𝄞.", "annotations": annotations}),
        json!({"type": "image", "data": resources::PNG, "mimeType": "image/png"}),
        json!({"type": "audio", "data": BASE64.encode(wav()), "mimeType": "audio/wav"}),
        json!({"type": "resource", "resource": {"uri": resources::TEXT,
            "mimeType": "text/plain", "text": resources::TEXT_CONTENT}}),
        json!({"type": "resource_link", "uri": resources::TEXT, "name": "text",
            "title": "A text", "mimeType": "text/plain"}),
    ];
    let fits = |block: &Value| wanted == "all" || block["type"] == wanted;
    Outcome::Done {
        content: all.into_iter().filter(fits).collect(),
        structured: None,
        is_error: false,
    }
}

/// Eight samples of silence: the shortest sound that players take.
fn wav() -> Vec<u8> {
    let samples = [128u8; 8];
    let mut wav = Vec::new();
    wav.extend(b"RIFF");
    wav.extend((36 + samples.len() as u32).to_le_bytes());
    wav.extend(b"WAVEfmt ");
    wav.extend(16u32.to_le_bytes());
    wav.extend(1u16.to_le_bytes()); // PCM
    wav.extend(1u16.to_le_bytes()); // one channel
    wav.extend(8000u32.to_le_bytes()); // samples a second
    wav.extend(8000u32.to_le_bytes()); // bytes a second
    wav.extend(1u16.to_le_bytes()); // bytes a sample
    wav.extend(8u16.to_le_bytes()); // bits a sample
    wav.extend(b"data");
    wav.extend((samples.len() as u32).to_le_bytes());
    wav.extend(samples);
    wav
}

pub(super) fn progress(arguments: &Map<String, Value>, call: &Call) -> Outcome {
    let steps = integer(arguments, "steps", 3);
    let pause = Duration::from_millis(integer(arguments, "ms", 0));
    for step in 1..=steps {
        thread::sleep(pause);
        if call.cancelled() {
            break;
        }
        let message = format!("step {step} of {steps}");
        call.progress(step as f64, Some(steps as f64), &message);
    }
    Outcome::text(format!("{steps} steps done."))
}

pub(super) fn log(arguments: &Map<String, Value>, call: &Call) -> Outcome {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let message = text("message").unwrap_or("a message of the demo");
    let levels = match text("level").and_then(Level::parse) {
        Some(level) => vec![level],
        None => Level::ALL.to_vec(),
    };
    for level in &levels {
        call.log(*level, "demo", json!({"message": message}));
    }
    Outcome::text(format!("{} messages sent to the log.", levels.len()))
}

/// Waits without a trace.
pub(super) fn wait(arguments: &Map<String, Value>, call: &Call) -> Outcome {
    wait_counting(arguments, call, || {})
}

/// Waits for `ms`, in steps, and stops early when the call is cancelled.
pub(super) fn wait_counting(
    arguments: &Map<String, Value>,
    call: &Call,
    count: impl Fn(),
) -> Outcome {
    let total = integer(arguments, "ms", 1000);
    let start = Instant::now();
    loop {
        let elapsed = start.elapsed();
        let left = Duration::from_millis(total).saturating_sub(elapsed);
        if left.is_zero() {
            return Outcome::text(format!("Done after {total} ms."));
        }
        if call.cancelled() {
            return Outcome::failure("Cancelled.");
        }
        call.progress(elapsed.as_millis() as f64, Some(total as f64), "waiting");
        thread::sleep(left.min(STEP));
        count();
    }
}

pub(super) fn fail(arguments: &Map<String, Value>) -> Outcome {
    match arguments.get("how").and_then(Value::as_str) {
        Some("internal") => Outcome::Internal("The demo failed inside, as it was asked to".into()),
        _ => Outcome::failure("The tool failed, as it was asked to."),
    }
}

fn integer(arguments: &Map<String, Value>, name: &str, default: u64) -> u64 {
    let given = arguments.get(name).and_then(Value::as_f64);
    given.map_or(default, |given| given as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_valid_and_every_argument_described() {
        for tool in all(true) {
            let schema = &tool.input_schema;
            jsonschema::draft202012::meta::validate(schema).unwrap();
            let properties = schema["properties"].as_object();
            let properties = properties.unwrap_or_else(|| panic!("{}", tool.name));
            for (name, property) in properties {
                assert!(property["description"].is_string(), "{}: {name}", tool.name);
            }
            assert_eq!(
                tool.annotations.as_object().map(Map::len),
                Some(4),
                "{}",
                tool.name
            );
        }
    }

    #[test]
    fn content_gives_each_kind_alone_or_all() {
        let kinds = |wanted: &str| {
            let arguments = json!({ "kind": wanted });
            let Outcome::Done { content, .. } = content(arguments.as_object().unwrap()) else {
                panic!("content fails");
            };
            content.len()
        };
        for kind in ["text", "image", "audio", "resource", "resource_link"] {
            assert_eq!(kinds(kind), 1, "{kind}");
        }
        assert_eq!(kinds("all"), 5);
    }
}
