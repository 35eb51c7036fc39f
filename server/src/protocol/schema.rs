//! JSON Schema: do these arguments fit?

use std::sync::OnceLock;

use jsonschema::{Draft, Validator};
use serde_json::Value;

use super::refusal::clip;

/// A schema, compiled when it is first needed: most runs of the server use few of its tools.
pub(super) struct Schema {
    text: Value,
    compiled: OnceLock<Option<Validator>>,
}

impl Schema {
    pub(super) fn new(text: Value) -> Self {
        Self {
            text,
            compiled: OnceLock::new(),
        }
    }

    /// Whether `value` fits.
    ///
    /// # Errors
    /// The first thing that does not, with its place.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        match self.compiled.get_or_init(|| compile(&self.text)) {
            Some(validator) => first_error(validator, value),
            // A family's own schema is broken: its tests show that. A call must still work.
            None => Ok(()),
        }
    }
}

/// [`Schema::check`] with a schema that is used once.
pub(super) fn check_once(schema: &Value, value: &Value) -> Result<(), String> {
    match compile(schema) {
        Some(validator) => first_error(&validator, value),
        None => Ok(()),
    }
}

/// Schemas without `$schema` are of 2020-12, and nothing is fetched to resolve a reference.
fn compile(schema: &Value) -> Option<Validator> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .build(schema)
        .ok()
}

fn first_error(validator: &Validator, value: &Value) -> Result<(), String> {
    let Some(error) = validator.iter_errors(value).next() else {
        return Ok(());
    };
    let place = error.instance_path().to_string();
    let problem = clip(&error.masked().to_string(), 160);
    Err(match place.as_str() {
        "" => problem,
        place => format!("at {}: {problem}", clip(place, 80)),
    })
}
