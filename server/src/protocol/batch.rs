//! Several messages on one line, as 2025-03-26 has them: answered together, when all are done.

use serde_json::value::RawValue;

use super::message::{self, Incoming};
use super::refusal::Refusal;
use super::revision::Revision;
use super::{Output, Server};

/// Longer batches are refused, since each element may cost an answer larger than itself.
const MAX_ELEMENTS: usize = 10_000;

pub(super) struct Batch {
    /// Answers still to come.
    left: usize,
    answers: Vec<String>,
}

impl Server {
    pub(super) fn handle_batch(&mut self, elements: &[&RawValue], out: &mut Vec<Output>) {
        let revision = self.session.as_ref().map(|session| session.revision);
        let problem = if revision != Some(Revision::V2025_03_26) {
            Some("Invalid request: a message is one JSON object; batches belong to 2025-03-26")
        } else if elements.is_empty() {
            Some("Invalid request: the batch is empty")
        } else if elements.len() > MAX_ELEMENTS {
            Some("Invalid request: the batch has more than 10000 elements")
        } else {
            None
        };
        if let Some(problem) = problem {
            let refusal = Refusal::invalid_request(problem);
            out.push(Output::Message(message::error_line(None, &refusal)));
            return;
        }
        let messages = elements.iter().map(|e| message::read_message(e.get()));
        let messages = messages.collect::<Vec<_>>();
        let wants_answer =
            |m: &&Incoming<'_>| matches!(m, Incoming::Request { .. } | Incoming::Invalid { .. });
        let left = messages.iter().filter(wants_answer).count();
        let batch = self.number();
        if left > 0 {
            let answers = Vec::with_capacity(left);
            self.batches.insert(batch, Batch { left, answers });
        }
        for message in messages {
            self.handle_message(message, Some(batch), out);
        }
    }

    pub(super) fn batch_answer(&mut self, batch: u64, answer: String, out: &mut Vec<Output>) {
        if let Some(open) = self.batches.get_mut(&batch) {
            open.answers.push(answer);
        }
        self.batch_shrinks(batch, out);
    }

    /// One answer fewer is awaited; after the last one they are written.
    pub(super) fn batch_shrinks(&mut self, batch: u64, out: &mut Vec<Output>) {
        let Some(open) = self.batches.get_mut(&batch) else {
            return;
        };
        open.left -= 1;
        if open.left > 0 {
            return;
        }
        let answers = std::mem::take(&mut open.answers);
        self.batches.remove(&batch);
        if !answers.is_empty() {
            out.push(Output::Message(format!("[{}]", answers.join(","))));
        }
    }
}
