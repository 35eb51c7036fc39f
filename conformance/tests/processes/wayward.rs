//! A server that asks the client, takes tasks, changes and fails, in both eras. Called with the name
//! of a fault it does one thing wrong.

use std::collections::HashMap;
use std::io::{BufRead, Write, stdin, stdout};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

/// How long the tool `slow` takes.
pub(crate) const SLOW: Duration = Duration::from_millis(1500);
/// After which time a question is given up.
pub(crate) const PATIENCE: Duration = Duration::from_millis(700);
const TASK: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(10);
const CAPABILITIES: &str = "/_meta/io.modelcontextprotocol~1clientCapabilities";

pub(crate) fn run() {
    let fault = std::env::args().nth(3).unwrap_or_default();
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut server = Server {
        fault,
        ..Server::default()
    };
    loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => {
                if let Ok(message) = serde_json::from_str(&line) {
                    server.hear(&message);
                } else if server.is("dies-of-garbage") {
                    return;
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
        server.tick();
    }
}

#[derive(Default)]
struct Server {
    fault: String,
    client: Value,
    next: u64,
    /// Questions that are out, by id.
    asked: HashMap<String, Asked>,
    withdrawn: Vec<Value>,
    slow: Vec<Slow>,
    steps: u64,
    tasks: Vec<Task>,
    subscribed: bool,
    listens: Vec<(Value, Value)>,
    waits: bool,
}

#[derive(Clone)]
struct Asked {
    id: Value,
    /// The request that waits for the answer.
    of: Value,
    params: Value,
    when: Instant,
    history: Vec<Value>,
    task: Option<Value>,
}

struct Slow {
    id: Value,
    token: Value,
    began: Instant,
    cancelled: bool,
}

struct Task {
    id: String,
    token: Value,
    began: Instant,
    status: &'static str,
    waiting: Vec<Value>,
    looked: u32,
}

fn say(message: &Value) {
    let text = format!("{message}\n");
    let _ = stdout().write_all(text.as_bytes());
    let _ = stdout().flush();
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

impl Server {
    fn is(&self, fault: &str) -> bool {
        self.fault == fault
    }

    fn result(&self, id: &Value, mut result: Value) {
        if self.client.is_null() && result.get("resultType").is_none() {
            result["resultType"] = "complete".into();
        }
        say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn error(&self, id: &Value, code: i64, data: Value) {
        let mut error = json!({"code": code, "message": "no"});
        if !data.is_null() {
            error["data"] = data;
        }
        say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    fn notify(&self, method: &str, params: Value) {
        say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn is_modern(&self) -> bool {
        self.client.is_null()
    }

    fn hear(&mut self, message: &Value) {
        let params = message.get("params").cloned().unwrap_or(json!({}));
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => self.request(method, id, params),
            (Some("notifications/cancelled"), None) => self.cancelled(&params["requestId"]),
            (None, Some(id)) => self.answered(id, message),
            _ => {}
        }
    }

    fn request(&mut self, method: &str, id: &Value, params: Value) {
        if self.waits && self.is("waits") {
            return;
        }
        match method {
            "initialize" => {
                self.client = params["capabilities"].clone();
                self.result(
                    id,
                    json!({
                        "protocolVersion": params["protocolVersion"],
                        "capabilities": self.capabilities(),
                        "serverInfo": {"name": "wayward", "version": "1"},
                    }),
                );
            }
            "server/discover" => self.result(
                id,
                json!({
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": self.capabilities(),
                    "ttlMs": 0, "cacheScope": "private",
                }),
            ),
            "ping" | "logging/setLevel" | "resources/unsubscribe" => self.result(id, json!({})),
            "resources/subscribe" => {
                self.subscribed = true;
                self.result(id, json!({}));
            }
            "subscriptions/listen" => {
                let tag = json!({"io.modelcontextprotocol/subscriptionId": id});
                let filter = params["notifications"].clone();
                self.notify(
                    "notifications/subscriptions/acknowledged",
                    json!({"_meta": tag, "notifications": filter}),
                );
                self.listens.push((id.clone(), filter));
            }
            "tools/list" => self.result(id, self.tools()),
            "resources/list" => self.result(
                id,
                json!({"resources": [], "ttlMs": 0, "cacheScope": "private"}),
            ),
            "resources/templates/list" => {
                self.result(
                    id,
                    json!({"resourceTemplates": [], "ttlMs": 0, "cacheScope": "private"}),
                );
            }
            "prompts/list" => self.result(
                id,
                json!({
                "prompts": [{"name": "asked"}], "ttlMs": 0, "cacheScope": "private"}),
            ),
            "resources/read" if params["uri"] == "w:steps" => self.result(
                id,
                json!({
                "contents": [{"uri": "w:steps", "text": self.steps.to_string()}],
                "ttlMs": 0, "cacheScope": "private"}),
            ),
            "resources/read" if self.is("odd-internal-code") => self.error(id, -32000, Value::Null),
            "resources/read" => self.error(id, -32603, Value::Null),
            "prompts/get" if self.is("dies-of-get") => std::process::exit(1),
            "prompts/get" | "tools/call" => {
                let name = params["name"].as_str().unwrap_or_default().to_owned();
                self.call(&name, id, &params);
            }
            _ if method.starts_with("tasks/") => self.task_request(method, id, &params),
            _ if self.is("deaf-to-unknown") => {}
            _ => self.error(id, -32601, Value::Null),
        }
    }

    fn capabilities(&self) -> Value {
        let changes = json!({"listChanged": true});
        let mut all = json!({
            "tools": changes, "prompts": changes, "logging": {},
            "resources": {"listChanged": true, "subscribe": true},
        });
        if self.is_modern() {
            all["extensions"] = json!({"com.example/x": {}});
        } else if !self.is("task-undeclared") {
            all["tasks"] = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
        }
        all
    }

    fn tools(&self) -> Value {
        let names = [
            "form", "url", "model", "loop", "roots", "outside", "slow", "fail", "change", "later",
            "extended",
        ];
        let mut tools: Vec<Value> = names
            .iter()
            .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
            .collect();
        tools.push(json!({"name": "plain", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true}}));
        if !self.is_modern() {
            tools[9]["execution"] = json!({"taskSupport": "optional"});
        }
        json!({"tools": tools, "ttlMs": 0, "cacheScope": "private"})
    }

    fn call(&mut self, name: &str, id: &Value, params: &Value) {
        let token = params.pointer("/_meta/progressToken").cloned();
        let token = token.unwrap_or(Value::Null);
        match name {
            "slow" => {
                if self.is("blocks") {
                    std::thread::sleep(SLOW);
                    return self.result(id, text("done"));
                }
                self.slow.push(Slow {
                    id: id.clone(),
                    token,
                    began: Instant::now(),
                    cancelled: false,
                });
            }
            "fail" if self.is("protocol-error") => self.error(id, -32603, Value::Null),
            "fail" | "outside" if !self.is("leaves-roots") => {
                let mut result = text("failed");
                result["isError"] = true.into();
                self.result(id, result);
            }
            "outside" | "fail" => self.result(id, text("root:x:0:0")),
            "change" => self.change(id, &params["arguments"]),
            "plain" if params.get("task").is_some() => match self.fault.as_str() {
                "task-undeclared" => self.create_task(id, token),
                "task-anyway" => self.result(id, text("plain")),
                _ => self.error(id, -32601, Value::Null),
            },
            "PLAIN" if !self.is("any-case") => self.error(id, -32602, Value::Null),
            "plain" | "PLAIN" => self.result(id, text("plain")),
            "extended" => {
                let mut result = text("core");
                if self.is("extension-result") {
                    result["resultType"] = "x".into();
                }
                self.result(id, result);
            }
            "later" if params.get("task").is_some() => self.create_task(id, token),
            "later" => self.result(id, text("later")),
            _ if self.is_modern() => self.ask_by_result(name, id, params),
            _ => self.ask_by_request(name, id, &self.client.clone(), Vec::new()),
        }
    }

    fn change(&mut self, id: &Value, arguments: &Value) {
        let what = arguments["what"].as_str().unwrap_or_default();
        let (method, filter) = match what {
            "tools" => ("tools/list_changed", "toolsListChanged"),
            "prompts" => ("prompts/list_changed", "promptsListChanged"),
            "resources" => ("resources/list_changed", "resourcesListChanged"),
            _ => ("resources/updated", "resourceSubscriptions"),
        };
        let method = format!("notifications/{method}");
        let uri = |mut params: Value| {
            if what == "resource" {
                params["uri"] = "w:steps".into();
            }
            params
        };
        if !self.is("silent-changes") {
            if !self.is_modern() && (what != "resource" || self.subscribed) {
                self.notify(&method, uri(json!({})));
            }
            for (listen, wanted) in &self.listens {
                if wanted.get(filter).is_some() {
                    let tag = json!({"io.modelcontextprotocol/subscriptionId": listen});
                    self.notify(&method, uri(json!({ "_meta": tag })));
                }
            }
        }
        self.result(id, text("changed"));
    }

    /// The question of a tool: method, params and the capability that it needs. `None`: the client
    /// cannot be asked.
    fn question(&self, name: &str, client: &Value, history: &[Value]) -> Result<Value, Value> {
        let has = |pointer: &str| client.pointer(pointer).is_some();
        let form = has("/elicitation/form") || client["elicitation"] == json!({});
        match name {
            "form" | "asked" if form || (self.is("asks-undeclared") && !has("/elicitation")) => {
                let property = if self.is("secret-form") {
                    "password"
                } else {
                    "name"
                };
                let schema = json!({"type": "object",
                    "properties": {property: {"type": "string"}}, "required": [property]});
                Ok(json!({"method": "elicitation/create",
                    "params": {"message": "who?", "requestedSchema": schema}}))
            }
            "form" | "asked" => Err(json!({"elicitation": {"form": {}}})),
            "url" if has("/elicitation/url") || (self.is("undeclared-mode") && form) => {
                let url = if self.is("http-url") { "http" } else { "https" };
                let mut params = json!({"mode": "url", "message": "go",
                    "url": format!("{url}://example.com/")});
                if !self.is_modern() {
                    params["elicitationId"] = format!("e-{}", self.next).into();
                }
                Ok(json!({"method": "elicitation/create", "params": params}))
            }
            "url" => Err(json!({"elicitation": {"url": {}}})),
            "model" | "loop" if has("/sampling") => {
                let ask = json!({"role": "user", "content": {"type": "text", "text": "?"}});
                let mut messages = vec![ask];
                messages.extend_from_slice(history);
                let mut params = json!({"messages": messages, "maxTokens": 9});
                if name == "loop" && (has("/sampling/tools") || self.is("undeclared-tools")) {
                    params["tools"] = json!([{"name": "t", "inputSchema": {"type": "object"}}]);
                }
                if self.is("undeclared-context") {
                    params["includeContext"] = "allServers".into();
                }
                if self.is("notifies-of-task") && has("/tasks") {
                    params["task"] = json!({"ttl": 1000});
                }
                Ok(json!({"method": "sampling/createMessage", "params": params}))
            }
            "model" | "loop" => Err(json!({"sampling": {}})),
            _ if has("/roots") => Ok(json!({"method": "roots/list"})),
            _ => Err(json!({"roots": {}})),
        }
    }

    /// What a sample leads to: further messages, if the model called tools.
    fn go_on(&self, history: &[Value], answer: &Value) -> Option<Vec<Value>> {
        let calls: Vec<&Value> = answer["content"]
            .as_array()?
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .collect();
        let rounds = history.len() / 2;
        if calls.is_empty() || (rounds >= 3 && !self.is("endless-loop")) {
            return None;
        }
        let mut results: Vec<Value> = calls
            .iter()
            .map(|call| json!({"type": "tool_result", "toolUseId": call["id"], "content": []}))
            .collect();
        if self.is("drops-result") {
            results.pop();
        }
        let mut history = history.to_vec();
        history.push(json!({"role": "assistant", "content": answer["content"]}));
        history.push(json!({"role": "user", "content": results}));
        Some(history)
    }

    fn finish(&self, name: &str, id: &Value, answer: &Value) {
        let value = answer["content"].to_string();
        if name == "form" && answer["content"]["name"].is_number() && !self.is("takes-bad-content")
        {
            let mut result = text("the form is not filled in well");
            result["isError"] = true.into();
            return self.result(id, result);
        }
        let mut result = text(&value);
        if name == "asked" {
            result = json!({"messages": []});
        }
        self.result(id, result);
    }

    // The handshake era: questions are requests.

    fn ask_by_request(&mut self, name: &str, id: &Value, client: &Value, history: Vec<Value>) {
        let question = match self.question(name, client, &history) {
            Ok(question) => question,
            Err(_) => {
                let mut result = text("the client cannot be asked");
                result["isError"] = true.into();
                return self.result(id, result);
            }
        };
        self.next += 1;
        let own = json!(format!("q{}", self.next));
        let mut message = json!({"jsonrpc": "2.0", "id": own});
        message["method"] = question["method"].clone();
        if let Some(params) = question.get("params") {
            message["params"] = params.clone();
        }
        say(&message);
        let asked = Asked {
            id: own.clone(),
            of: id.clone(),
            params: json!({"name": name, "task": question["params"].get("task")}),
            when: Instant::now(),
            history,
            task: None,
        };
        self.asked.insert(own.to_string(), asked);
    }

    fn answered(&mut self, own: &Value, message: &Value) {
        if self.withdrawn.contains(own) && self.is("dies-of-late-answers") {
            std::process::exit(1);
        }
        let Some(mut asked) = self.asked.remove(&own.to_string()) else {
            return;
        };
        let name = asked.params["name"].as_str().unwrap_or_default().to_owned();
        let Some(answer) = message.get("result") else {
            if !self.is("dies-of-errors") {
                self.result(&asked.of, text("the client would not say"));
            }
            return;
        };
        if let Some(task) = answer.get("task") {
            // Looks at once; the client's tasks are done by then, unless the call is cancelled.
            asked.task = Some(task["taskId"].clone());
            asked.when = Instant::now();
            let key = own.to_string();
            self.asked.insert(key, asked);
            return;
        }
        if answer["action"] == "decline" && self.is("hangs-on-decline") {
            return;
        }
        match self.go_on(&asked.history, answer) {
            Some(history) => self.ask_by_request(&name, &asked.of, &self.client.clone(), history),
            None => self.finish(&name, &asked.of, answer),
        }
    }

    fn withdraw(&mut self, asked: &Asked) {
        match (&asked.task, self.is("notifies-of-task")) {
            (Some(task), false) => say(&json!({"jsonrpc": "2.0", "id": format!("c{}", self.next),
                "method": "tasks/cancel", "params": {"taskId": task}})),
            _ if self.is("gives-up-silently") => {}
            _ => self.notify("notifications/cancelled", json!({"requestId": asked.id})),
        }
        self.withdrawn.push(asked.id.clone());
    }

    fn cancelled(&mut self, id: &Value) {
        match self.fault.as_str() {
            "dies-of-cancel" => std::process::exit(1),
            "answers-twice" => self.result(id, json!({})),
            _ => {}
        }
        self.listens.retain(|(listen, _)| listen != id);
        let asked: Vec<Asked> = self
            .asked
            .values()
            .filter(|a| a.of == *id)
            .cloned()
            .collect();
        for asked in asked {
            self.asked.remove(&asked.id.to_string());
            self.withdraw(&asked);
        }
        if self.is("ignores-cancel") {
            return;
        }
        if self.is("answers-cancel") && self.slow.iter().any(|slow| slow.id == *id) {
            self.error(id, -32800, Value::Null);
        }
        self.slow.retain(|slow| slow.id != *id);
    }

    // The stateless era: the result asks.

    fn ask_by_result(&mut self, name: &str, id: &Value, params: &Value) {
        let client = params.pointer(CAPABILITIES).cloned().unwrap_or_default();
        let mut history = Vec::new();
        if let Some(responses) = params.get("inputResponses") {
            match self.read_responses(name, id, params, responses) {
                Some(state) => history = state,
                None => return,
            }
        }
        match self.question(name, &client, &history) {
            Ok(question) => {
                self.waits = true;
                let state = json!({"name": name, "history": history}).to_string();
                let seal: u64 = state.bytes().map(u64::from).sum();
                let state = format!("{seal}.{state}");
                let mut result = json!({"resultType": "input_required",
                    "inputRequests": {"k": question}, "requestState": state});
                if self.is("duplicate-keys") {
                    let line = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
                    let twice = format!("\"inputRequests\":{{\"k\":{question},");
                    let line = line.replace("\"inputRequests\":{", &twice);
                    let _ = stdout().write_all(format!("{line}\n").as_bytes());
                    let _ = stdout().flush();
                    return;
                }
                if name == "asked" && self.is("no-state") {
                    result["requestState"].take();
                }
                self.result(id, result);
            }
            Err(_) if self.is("odd-capability-code") => self.error(id, -32603, Value::Null),
            Err(_) if self.is("no-required") => self.error(id, -32021, json!({})),
            Err(needed) => self.error(id, -32021, json!({ "requiredCapabilities": needed })),
        }
    }

    /// Answers by itself, or gives the history to ask on with.
    fn read_responses(
        &mut self,
        name: &str,
        id: &Value,
        params: &Value,
        responses: &Value,
    ) -> Option<Vec<Value>> {
        let state = params["requestState"].as_str().unwrap_or_default();
        let (seal, state) = state.split_once('.').unwrap_or_default();
        let sealed = state.bytes().map(u64::from).sum::<u64>().to_string() == seal;
        let read: Value = serde_json::from_str(state).unwrap_or_default();
        let bound = read["name"] == name;
        if !(sealed || self.is("unsealed-state")) || !(bound || !sealed || self.is("unbound-state"))
        {
            self.error(id, -32602, Value::Null);
            return None;
        }
        let history = read["history"].as_array().cloned().unwrap_or_default();
        let extra = responses
            .as_object()
            .is_some_and(|r| r.keys().any(|key| key != "k"));
        if extra && self.is("refuses-extra") {
            self.error(id, -32602, Value::Null);
            return None;
        }
        let answer = responses.get("k").cloned().unwrap_or_default();
        if self.is("never-done")
            || (answer["action"] == "decline" && self.is("asks-on-after-decline"))
        {
            return Some(history);
        }
        if self.is("takes-anything") && !answer.is_object() {
            let whole = responses.as_object().is_some_and(Map::is_empty);
            if !whole {
                self.result(id, text("taken"));
                return None;
            }
        }
        if answer.is_null() && responses.is_object() {
            if self.is("refuses-missing") {
                self.error(id, -32602, Value::Null);
                return None;
            }
            return Some(history);
        }
        if !answer.is_object() {
            self.error(id, -32602, Value::Null);
            return None;
        }
        match self.go_on(&history, &answer) {
            Some(history) => Some(history),
            None => {
                self.waits = false;
                self.finish(name, id, &answer);
                None
            }
        }
    }

    // Time goes by.

    fn tick(&mut self) {
        for slow in &self.slow {
            self.steps += 1;
            if !slow.token.is_null() {
                let done = slow.began.elapsed().as_micros() as u64;
                self.notify(
                    "notifications/progress",
                    json!({"progressToken": slow.token, "progress": done}),
                );
            }
            if slow.began.elapsed() >= SLOW && !slow.cancelled {
                self.result(&slow.id, text("done"));
            }
        }
        self.slow.retain(|slow| slow.began.elapsed() < SLOW);
        let (patience, never) = (PATIENCE, self.is("never-gives-up"));
        let late: Vec<Asked> = self
            .asked
            .values()
            .filter(|asked| asked.when.elapsed() >= patience && !never)
            .cloned()
            .collect();
        for asked in late {
            self.asked.remove(&asked.id.to_string());
            self.withdraw(&asked);
            self.result(&asked.of, text("nobody answered"));
        }
        self.tick_tasks();
    }

    // Tasks.

    fn task_value(&self, task: &Task) -> Value {
        let mut value = json!({"taskId": task.id, "status": task.status,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "ttl": 60_000});
        if self.is("task-without-ttl")
            && let Some(members) = value.as_object_mut()
        {
            members.remove("ttl");
        }
        value
    }

    fn create_task(&mut self, id: &Value, token: Value) {
        self.next += 1;
        let random = self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let name = match self.is("counted-tasks") {
            true => format!("task-000{}", self.next),
            false => format!("{random:016x}x"),
        };
        let task = Task {
            id: name,
            token,
            began: Instant::now(),
            status: if self.is("task-begins-done") {
                "completed"
            } else {
                "working"
            },
            waiting: vec![],
            looked: 0,
        };
        self.result(id, json!({"task": self.task_value(&task)}));
        self.tasks.push(task);
    }

    fn task_result(&self, task: &Task) -> Value {
        let mut result = text(if self.is("other-task-result") {
            "else"
        } else {
            "later"
        });
        if !self.is("unrelated-result") {
            result["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": task.id}});
        }
        result
    }

    fn task_request(&mut self, method: &str, id: &Value, params: &Value) {
        const RELATED: &str = "/_meta/io.modelcontextprotocol~1related-task/taskId";
        let mut wanted = params["taskId"].clone();
        if self.is("metadata-win") {
            wanted = params.pointer(RELATED).cloned().unwrap_or(wanted);
        }
        let Some(at) = self.tasks.iter().position(|task| wanted == task.id) else {
            return self.error(id, -32602, Value::Null);
        };
        let early = self.is("early-result");
        let (revives, uncancels) = (self.is("task-revives"), self.is("task-uncancels"));
        let task = &mut self.tasks[at];
        match method {
            "tasks/get" => {
                task.looked += 1;
                if (revives && task.status == "completed"
                    || uncancels && task.status == "cancelled")
                    && task.looked > 1
                {
                    task.status = "working";
                    task.began = Instant::now();
                }
                let task = &self.tasks[at];
                self.result(id, self.task_value(task));
            }
            "tasks/cancel" if task.status != "working" => {
                if self.is("cancels-twice") {
                    self.result(id, self.task_value(&self.tasks[at]));
                } else {
                    self.error(id, -32602, Value::Null);
                }
            }
            "tasks/cancel" => {
                task.status = "cancelled";
                self.result(id, self.task_value(&self.tasks[at]));
            }
            _ if task.status == "working" && !early => task.waiting.push(id.clone()),
            _ => self.result(id, self.task_result(&self.tasks[at])),
        }
    }

    fn tick_tasks(&mut self) {
        let late = self.is("late-task-progress");
        let mut done = Vec::new();
        for (at, task) in self.tasks.iter_mut().enumerate() {
            let age = task.began.elapsed();
            if !task.token.is_null() && (task.status == "working" || (late && age < TASK * 20)) {
                say(
                    &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
                    {"progressToken": task.token, "progress": age.as_micros() as u64}}),
                );
            }
            if task.status == "working" && age >= TASK {
                task.status = "completed";
                done.push(at);
            }
        }
        for at in done {
            let waiting = std::mem::take(&mut self.tasks[at].waiting);
            for id in waiting {
                self.result(&id, self.task_result(&self.tasks[at]));
            }
        }
    }
}
