//! Calls of the memory tools, and turns as resources.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use touchstone_store::edn::Edn;
use touchstone_store::memory::{Answer, Memory, Place, Settings};
use touchstone_store::query::Limits;
use touchstone_store::{Error, Kind, Storage};

use super::tools::{self, INSTRUCTIONS};
use crate::protocol::family::{self, Call, Found, Offers, Outcome, Tool};

const TURN: &str = "memory://turn/";
const EDN: &str = "application/edn";

/// How many turns the list of resources shows; older ones are read by the template.
const LISTED: i64 = 20;

/// The memory tools over one memory.
#[derive(Debug)]
pub struct Family {
    settings: Settings,
    /// `None` until the first call, when the memory is in RAM: many clients never make one, and
    /// all of them wait for the start.
    memory: Mutex<Option<Memory>>,
}

impl Family {
    /// Opens the memory and its session; one in RAM with its first use.
    ///
    /// # Errors
    /// One line for the person who starts the server: the file is refused, or the transactor
    /// cannot be reached.
    pub fn open(settings: &Settings) -> Result<Family, String> {
        let memory = match settings.place {
            Place::Here(Storage::Memory) => None,
            _ => Some(Memory::open(settings).map_err(|error| format!("memory: {error}"))?),
        };
        Ok(Family {
            settings: settings.clone(),
            memory: Mutex::new(memory),
        })
    }

    fn answer(&self, operation: &str, arguments: &Edn, call: &Call) -> Result<Answer, Error> {
        let cancel = Arc::new(AtomicBool::new(false));
        let flag = cancel.clone();
        call.on_cancel(move || flag.store(true, Ordering::Relaxed));
        let limits = Limits {
            cancel: Some(cancel),
            ..Limits::default()
        };
        // A call that panicked left no half turn behind: the store rolls back.
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if call.cancelled() {
            return Err(Error::new(
                Kind::Cancelled,
                "the call was cancelled; nothing was done",
            ));
        }
        let memory = match &mut *memory {
            Some(memory) => memory,
            none => none.insert(Memory::open(&self.settings)?),
        };
        memory.answer(operation, arguments, &limits)
    }
}

/// Arguments as the store takes them. What is neither text nor a whole number does not fit the
/// schemas, and the store says so.
fn to_edn(arguments: &Map<String, Value>) -> Edn {
    let members = arguments.iter().map(|(name, value)| {
        let value = match value {
            Value::String(text) => Edn::str(text),
            Value::Null => Edn::Nil,
            Value::Number(number) => whole(number).map_or(Edn::symbol("number"), Edn::Int),
            _ => Edn::symbol("json"),
        };
        (Edn::keyword(name), value)
    });
    Edn::Map(members.collect())
}

/// JSON has one kind of number: `5.0` and `5e0` are whole too.
fn whole(number: &serde_json::Number) -> Option<i64> {
    let double = || {
        number
            .as_f64()
            .filter(|d| d.fract() == 0.0 && d.abs() < 9e15)
    };
    number.as_i64().or_else(|| double().map(|d| d as i64))
}

fn failure(error: &Error) -> Outcome {
    Outcome::failure(error.to_edn().to_string())
}

impl family::Family for Family {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn tools(&self) -> Vec<Tool> {
        tools::all()
    }

    fn call(&self, name: &str, arguments: &Map<String, Value>, call: &Call) -> Outcome {
        let answer = match self.answer(name, &to_edn(arguments), call) {
            Ok(answer) => answer,
            Err(error) => return failure(&error),
        };
        let mut content = vec![json!({"type": "text", "text": answer.form.to_string()})];
        if let Some(note) = answer.note {
            content.push(json!({"type": "text", "text": note.to_string()}));
        }
        Outcome::Done {
            content,
            structured: None,
            is_error: false,
        }
    }

    fn instructions(&self) -> Option<String> {
        Some(INSTRUCTIONS.to_owned())
    }

    fn argument_error(&self, _tool: &str, message: &str) -> Option<Outcome> {
        Some(failure(&Error::new(Kind::BadArgument, message)))
    }

    fn offers(&self) -> Offers {
        Offers {
            resources: true,
            ..Offers::default()
        }
    }

    fn resources(&self, call: &Call) -> Result<Vec<Value>, String> {
        let arguments = Edn::map([("limit", Edn::Int(LISTED))]);
        let turns = self
            .answer("turns", &arguments, call)
            .map_err(|error| error.to_string())?;
        let turns = turns
            .form
            .as_sequence()
            .unwrap_or_default()
            .iter()
            .filter_map(|turn| {
                let t = turn.get("t")?.as_int()?;
                let Some(Edn::Inst(recorded)) = turn.get("inst") else {
                    return None;
                };
                Some(json!({
                    "uri": format!("{TURN}{t}"),
                    "name": format!("turn {t}"),
                    "title": format!("Turn {t} of this session"),
                    "description": format!("The facts recorded at {recorded}."),
                    "mimeType": EDN,
                    "annotations": {"lastModified": recorded.to_string()},
                }))
            });
        Ok(turns.collect())
    }

    fn resource_templates(&self) -> Vec<Value> {
        vec![json!({
            "uriTemplate": format!("{TURN}{{t}}"),
            "name": "turn",
            "title": "A turn",
            "description": "What one turn asserted and retracted, with its time and session.",
            "mimeType": EDN,
        })]
    }

    fn read(&self, uri: &str, call: &Call) -> Found {
        // Only as the list writes it: neither "+1" nor "01".
        let t = uri.strip_prefix(TURN).and_then(|text| {
            let t = text.parse::<i64>().ok()?;
            (t > 0 && t.to_string() == text).then_some(t)
        });
        let Some(t) = t else { return Found::Unknown };
        match self.answer("turn", &Edn::map([("t", Edn::Int(t))]), call) {
            Ok(answer) => {
                let text = answer.form.to_string();
                Found::Items(vec![json!({"uri": uri, "mimeType": EDN, "text": text})])
            }
            Err(error) if error.kind() == Kind::NoSuchEntity => Found::Unknown,
            Err(error) => Found::Internal(error.to_string()),
        }
    }
}
