//! Tools, resources and prompts that exist only to exercise the protocol: each shows one feature,
//! so that a client or a test suite can watch it. Off unless `--tools demo` asks for it.

mod ask;
mod prompts;
mod resources;
mod tools;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Map, Value};

use crate::protocol::{Call, Change, Completed, Family, Found, Offers, Outcome, TaskSupport, Tool};

/// The family; its state is what the tool `change` changes.
#[derive(Default)]
pub struct Demo {
    extra_tool: AtomicBool,
    extra_prompt: AtomicBool,
    extra_resource: AtomicBool,
    /// The content of `demo://counter`.
    counter: AtomicU64,
    /// The steps that the tool `slow` has done, over all calls.
    steps: AtomicU64,
}

impl Family for Demo {
    fn name(&self) -> &'static str {
        "demo"
    }

    fn instructions(&self) -> Option<String> {
        Some("The demo tools exist to exercise the protocol; they do nothing useful.".to_owned())
    }

    fn tools(&self) -> Vec<Tool> {
        tools::all(self.extra_tool.load(Ordering::SeqCst))
    }

    fn call(&self, name: &str, arguments: &Map<String, Value>, call: &Call) -> Outcome {
        match name {
            "add" => tools::add(arguments),
            "content" => tools::content(arguments),
            "progress" => tools::progress(arguments, call),
            "log" => tools::log(arguments, call),
            "slow" => self.slow(arguments, call),
            "task_optional" | "task_required" => tools::wait(arguments, call),
            "fail" => tools::fail(arguments),
            "change" => self.change(arguments, call),
            "ask_form" => ask::form(call),
            "ask_twice" => ask::twice(call),
            "ask_url" => ask::url(call),
            "ask_model" => ask::model(arguments, call),
            "ask_model_tools" => ask::model_with_tools(call),
            "ask_roots" => ask::roots(call),
            "extra" => Outcome::text("This tool is there until change is called again."),
            other => Outcome::Internal(format!("the demo has no tool {other}")),
        }
    }

    fn argument_error(&self, _tool: &str, message: &str) -> Option<Outcome> {
        Some(Outcome::failure(message))
    }

    fn task_support(&self, tool: &str) -> TaskSupport {
        match tool {
            "task_optional" => TaskSupport::Optional,
            "task_required" => TaskSupport::Required,
            _ => TaskSupport::Forbidden,
        }
    }

    fn offers(&self) -> Offers {
        Offers {
            tools_change: true,
            resources: true,
            resources_change: true,
            resource_updates: true,
            prompts: true,
            prompts_change: true,
            completions: true,
            logging: true,
        }
    }

    fn resources(&self, _call: &Call) -> Result<Vec<Value>, String> {
        Ok(resources::list(self.extra_resource.load(Ordering::SeqCst)))
    }

    fn resource_templates(&self) -> Vec<Value> {
        resources::templates()
    }

    fn read(&self, uri: &str, call: &Call) -> Found {
        match uri {
            resources::COUNTER => resources::number(uri, &self.counter),
            resources::STEPS => resources::number(uri, &self.steps),
            resources::EXTRA if !self.extra_resource.load(Ordering::SeqCst) => Found::Unknown,
            _ => resources::read(uri, call),
        }
    }

    fn prompts(&self) -> Vec<Value> {
        prompts::list(self.extra_prompt.load(Ordering::SeqCst))
    }

    fn prompt(&self, name: &str, arguments: &Map<String, Value>, call: &Call) -> Found {
        prompts::get(name, arguments, call)
    }

    fn complete(
        &self,
        what: Completed<'_>,
        argument: &str,
        typed: &str,
        context: &Map<String, Value>,
        _call: &Call,
    ) -> Option<Vec<String>> {
        let all = match what {
            Completed::Prompt(prompt) => prompts::values(prompt, argument, context),
            Completed::Template(uri) => resources::values(uri, argument),
        }?;
        let typed = typed.to_lowercase();
        let fits = |value: &String| value.to_lowercase().starts_with(&typed);
        Some(all.into_iter().filter(fits).collect())
    }
}

impl Demo {
    /// Counts a step each 20 ms, for whom `demo://steps` shows that a cancelled call stands still.
    fn slow(&self, arguments: &Map<String, Value>, call: &Call) -> Outcome {
        tools::wait_counting(arguments, call, || {
            self.steps.fetch_add(1, Ordering::SeqCst);
        })
    }

    fn change(&self, arguments: &Map<String, Value>, call: &Call) -> Outcome {
        let what = arguments.get("what").and_then(Value::as_str);
        let (text, change) = match what {
            Some("tools") => (toggle(&self.extra_tool, "tool"), Change::Tools),
            Some("prompts") => (toggle(&self.extra_prompt, "prompt"), Change::Prompts),
            Some("resources") => (toggle(&self.extra_resource, "resource"), Change::Resources),
            _ => {
                let count = self.counter.fetch_add(1, Ordering::SeqCst) + 1;
                let change = Change::Resource(resources::COUNTER.to_owned());
                (format!("{} is now {count}", resources::COUNTER), change)
            }
        };
        call.changed(change);
        Outcome::text(text)
    }
}

fn toggle(extra: &AtomicBool, kind: &str) -> String {
    match extra.fetch_xor(true, Ordering::SeqCst) {
        false => format!("The extra {kind} is there now."),
        true => format!("The extra {kind} is gone now."),
    }
}
