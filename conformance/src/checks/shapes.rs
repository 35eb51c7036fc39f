//! The schema of each revision: every message of every conversation has the shape that its
//! revision gives it.

use serde_json::Value;

use super::Observer;
use super::exchange::{Exchange, Kind, Received};
use super::messages::answers_modern;
use crate::run::Judge;
use crate::spec::shape::{self, Subject};
use crate::spec::{Era, requirement::Breach};

pub(super) const OBSERVERS: &[Observer] = &[Observer {
    name: "shapes",
    // Which requirements these are stands in the shapes themselves.
    requirements: &[],
    read,
}];

fn read(exchange: &Exchange<'_>, judge: &mut Judge) {
    for message in &exchange.received {
        match message.kind {
            Kind::Response { .. } => response(exchange, message, judge),
            Kind::Notification(method) => {
                judge_subject(
                    exchange,
                    message,
                    Subject::Notification { method },
                    message.value,
                    judge,
                );
            }
            Kind::Request(method) => {
                judge_subject(
                    exchange,
                    message,
                    Subject::Request { method },
                    message.value,
                    judge,
                );
            }
            Kind::Unknown => {}
        }
    }
}

fn response(exchange: &Exchange<'_>, message: &Received<'_>, judge: &mut Judge) {
    if let Some(error) = message.value.get("error").filter(|error| !error.is_null()) {
        judge_subject(exchange, message, Subject::Error, error, judge);
        return;
    }
    let (Some(method), Some(result)) = (exchange.method_of(message), message.value.get("result"))
    else {
        return;
    };
    // A reply is judged by the revision of its own request.
    if exchange.revision.era() == Era::Stateless && !answers_modern(exchange, message) {
        return;
    }
    if result.is_object() {
        judge_subject(exchange, message, Subject::Result { method }, result, judge);
    }
}

fn judge_subject(
    exchange: &Exchange<'_>,
    message: &Received<'_>,
    subject: Subject<'_>,
    value: &Value,
    judge: &mut Judge,
) {
    for id in shape::exercised(exchange.revision, subject, value) {
        judge.holds(id);
    }
    for fault in shape::faults(exchange.revision, subject, value) {
        let at = if fault.pointer.is_empty() {
            "The value"
        } else {
            fault.pointer.as_str()
        };
        let text = format!("{at}: expected {}, found {}.", fault.expected, fault.found);
        let mut evidence = exchange.evidence(message);
        evidence.pointer = Some(fault.pointer.clone());
        evidence.expected = Some(fault.expected.clone());
        evidence.found = Some(fault.found.clone());
        // Boolean subschemas are valid JSON Schema; the older revisions just do not allow them.
        if fault.requirement == "tools.list.input-schema-members"
            && matches!(fault.found.as_str(), "true" | "false")
        {
            judge.broken_as(&fault.requirement, Breach::Warn, text, evidence);
        } else {
            judge.broken(&fault.requirement, text, evidence);
        }
    }
}
