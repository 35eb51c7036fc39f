//! The rules of the protocol at the seam: lines in, lines out.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// A family with one tool of each kind that the rules need.
struct Probe;

impl Family for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn tools(&self) -> Vec<Tool> {
        let tool = |name, properties: Value, required: Value, output_schema| Tool {
            name,
            title: "A tool",
            description: "For tests".to_owned(),
            input_schema: json!({"type": "object", "properties": properties, "required": required}),
            output_schema,
            annotations: json!({"readOnlyHint": true}),
        };
        let text = json!({"text": {"type": "string"}});
        let output = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        vec![
            tool("echo", text.clone(), json!(["text"]), Some(output)),
            tool("strict", text, json!(["text"]), None),
            tool("kinds", json!({}), json!([]), None),
            tool("panics", json!({}), json!([]), None),
        ]
    }

    fn call(&self, name: &str, arguments: &Map<String, Value>, call: &Call) -> Outcome {
        call.progress(1.0, Some(2.0), "half");
        match name {
            "echo" => Outcome::Done {
                content: vec![json!({"type": "text", "text": arguments["text"]})],
                structured: Some(json!({"text": arguments["text"]})),
                is_error: false,
            },
            "kinds" => Outcome::Done {
                content: vec![
                    json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}),
                    json!({"type": "resource_link", "uri": "x:y", "name": "y"}),
                ],
                structured: None,
                is_error: false,
            },
            "panics" => panic!("a family's own mistake"),
            _ => Outcome::text("fine"),
        }
    }

    fn initialize_members(&self) -> Map<String, Value> {
        json!({"cacheConfig": {"enabled": true}})
            .as_object()
            .cloned()
            .unwrap()
    }

    fn argument_error(&self, tool: &str, message: &str) -> Option<Outcome> {
        (tool != "strict").then(|| Outcome::failure(message))
    }
}

/// What jobs send while they run in a test: nothing.
struct Deaf;

impl Upstream for Deaf {
    fn progress(&self, _: f64, _: Option<f64>, _: &str) {}
}

fn server() -> Server {
    Server::new(
        Options {
            name: "probe",
            title: "Probe",
            version: "1.0",
            page_size: None,
            secret: [1; 32],
        },
        vec![Arc::new(Probe)],
    )
}

/// Serves a line and runs what it starts; gives the lines as text.
fn lines(server: &mut Server, line: impl AsRef<[u8]>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut outputs = std::collections::VecDeque::from(server.handle_line(line.as_ref()));
    while let Some(output) = outputs.pop_front() {
        match output {
            Output::Message(line) => lines.push(line),
            Output::Run(job) => {
                let id = job.id();
                let finished = job.run(Arc::new(Deaf));
                outputs.extend(server.finished(id, finished));
            }
        }
    }
    lines
}

/// The one answer to a line.
fn answer(server: &mut Server, line: impl AsRef<[u8]>) -> Value {
    let lines = lines(server, line.as_ref());
    let shown = String::from_utf8_lossy(line.as_ref()).into_owned();
    assert_eq!(lines.len(), 1, "one answer to {shown}, not {lines:?}");
    serde_json::from_str(&lines[0]).unwrap()
}

fn code(answer: &Value) -> i64 {
    answer["error"]["code"]
        .as_i64()
        .unwrap_or_else(|| panic!("no error in {answer}"))
}

fn initialize(version: &str) -> String {
    json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"}}})
    .to_string()
}

/// A server after the handshake.
fn session(version: &str) -> Server {
    let mut server = server();
    let result = answer(&mut server, initialize(version));
    assert_eq!(result["result"]["protocolVersion"], version);
    let initialized = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert!(server.handle_line(initialized).is_empty());
    server
}

fn request(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

/// A request of 2026-07-28.
fn modern(method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(method, params)
}

const HANDSHAKES: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[test]
fn an_id_comes_back_as_it_was_written() {
    let mut server = session("2025-11-25");
    for id in [
        "0",
        "7",
        "\"7\"",
        "-1",
        "\"é-✓-𝄞\"",
        "\"\\u00e9\"",
        "9007199254740993",
        "123456789012345678901234567890",
        "\"\"",
        "\"\\ud800\"",
    ] {
        for method in ["ping", "tools/list", "no/such"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
            let lines = lines(&mut server, &line);
            assert_eq!(lines.len(), 1);
            let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
            assert!(lines[0].starts_with(&start), "{id}: {}", lines[0]);
        }
    }
}

#[test]
fn what_is_no_request_is_refused_with_the_code_and_id_that_fit() {
    let mut server = session("2025-11-25");
    let deep = "[".repeat(100_000);
    let deep_object = r#"{"a":"#.repeat(100_000);
    let deep_params = format!(
        r#"{{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{{"a":{}1{}}}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let cases: [(&[u8], i64, Value); 27] = [
        (b"{", -32700, Value::Null),
        (br#"{"jsonrpc":"2.0","id":5,"#, -32700, Value::Null),
        (b"nonsense", -32700, Value::Null),
        (b"\xff\xfe", -32700, Value::Null),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xffing\"}",
            -32700,
            Value::Null,
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1\0}", -32700, Value::Null),
        (b"\0", -32700, Value::Null),
        (b"{} {}", -32700, Value::Null),
        (deep.as_bytes(), -32700, Value::Null),
        (deep_object.as_bytes(), -32700, Value::Null),
        (deep_params.as_bytes(), -32602, json!(4)),
        (b"1", -32600, Value::Null),
        (b"\"text\"", -32600, Value::Null),
        (b"null", -32600, Value::Null),
        (b"{}", -32600, Value::Null),
        (b"[]", -32600, Value::Null),
        (
            br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            -32600,
            Value::Null,
        ),
        (br#"{"jsonrpc":"2.0","id":1}"#, -32600, json!(1)),
        (br#"{"id":2,"method":"tools/list"}"#, -32600, json!(2)),
        (
            br#"{"jsonrpc":"1.0","id":2,"method":"tools/list"}"#,
            -32600,
            json!(2),
        ),
        (
            br#"{"jsonrpc":2.0,"id":2,"method":"tools/list"}"#,
            -32600,
            json!(2),
        ),
        (br#"{"jsonrpc":"2.0","id":3,"method":7}"#, -32600, json!(3)),
        (
            br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            -32600,
            Value::Null,
        ),
        (
            br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            -32600,
            Value::Null,
        ),
        (
            br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            -32600,
            Value::Null,
        ),
        (
            br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
            -32600,
            Value::Null,
        ),
        (
            br#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"x"}"#,
            -32600,
            json!(1),
        ),
    ];
    for (line, expected, id) in cases {
        let answer = answer(&mut server, line);
        let shown = String::from_utf8_lossy(&line[..line.len().min(80)]);
        assert_eq!(code(&answer), expected, "{shown}");
        assert_eq!(answer["id"], id, "{shown}");
        assert!(answer.as_object().unwrap().contains_key("id"), "{shown}");
    }
    let ping = answer(&mut server, br#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#);
    assert_eq!(ping["result"], json!({}));
}

#[test]
fn wrong_params_are_refused_with_32602() {
    let mut server = session("2025-06-18");
    for (method, params) in [
        ("ping", json!(null)),
        ("ping", json!([])),
        ("tools/list", json!("x")),
        ("tools/list", json!({"cursor": 5})),
        ("tools/list", json!({"cursor": "bogus"})),
        ("tools/list", json!({"_meta": 5})),
        ("tools/list", json!({"_meta": {"progressToken": {}}})),
        ("tools/list", json!({"_meta": {"progressToken": 1.5}})),
        ("tools/call", json!({})),
        ("tools/call", json!({"name": 5})),
        ("tools/call", json!({"name": "no-such-tool"})),
        (
            "tools/call",
            json!({"name": "ECHO", "arguments": {"text": "x"}}),
        ),
        ("tools/call", json!({"name": "echo", "arguments": "x"})),
        ("tools/call", json!({"name": "echo", "arguments": []})),
    ] {
        let answer = answer(&mut server, request(method, params.clone()));
        assert_eq!(code(&answer), -32602, "{method} {params}");
        assert_eq!(answer["id"], 1);
    }
}

#[test]
fn notifications_responses_and_blank_lines_are_not_answered() {
    let mut server = session("2025-03-26");
    for line in [
        "",
        "   \t\r",
        "\u{feff}",
        r#"{"jsonrpc":"2.0","method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","method":"no/such"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":5}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"never"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
        r#"{"jsonrpc":"2.0","id":"unknown","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"unknown","error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":"unknown","result":{},"error":null}"#,
        r#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]"#,
    ] {
        assert_eq!(lines(&mut server, line), Vec::<String>::new(), "{line}");
    }
    for line in [
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
        " {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} \r",
    ] {
        assert_eq!(answer(&mut server, line)["result"], json!({}));
    }
}

#[test]
fn the_version_asked_for_is_given_and_another_is_countered_with_the_latest() {
    for version in HANDSHAKES {
        session(version);
    }
    for version in ["1999-01-01", "2099-01-01", "2026-07-28", "", "2025-11-25 "] {
        let answer = answer(&mut server(), initialize(version));
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-11-25",
            "{version}"
        );
    }
}

#[test]
fn initialize_tells_who_answers_and_what_the_families_add() {
    let result = &answer(&mut server(), initialize("2024-11-05"))["result"];
    assert_eq!(
        result["serverInfo"],
        json!({"name": "probe", "version": "1.0"})
    );
    assert_eq!(result["capabilities"], json!({"tools": {}}));
    assert_eq!(result["cacheConfig"], json!({"enabled": true}));
    let newer = answer(&mut server(), initialize("2025-06-18"));
    assert_eq!(newer["result"]["serverInfo"]["title"], "Probe");
}

#[test]
fn initialize_needs_its_three_members_and_happens_once() {
    for missing in ["protocolVersion", "capabilities", "clientInfo"] {
        let mut line: Value = serde_json::from_str(&initialize("2025-11-25")).unwrap();
        line["params"].as_object_mut().unwrap().remove(missing);
        assert_eq!(
            code(&answer(&mut server(), line.to_string())),
            -32602,
            "{missing}"
        );
    }
    let mut server = session("2025-03-26");
    assert_eq!(code(&answer(&mut server, initialize("2025-03-26"))), -32600);
    let tools = answer(&mut server, request("tools/list", json!({})));
    assert!(tools["result"]["tools"].is_array(), "the session goes on");
}

#[test]
fn before_initialize_only_ping_is_served() {
    let mut server = server();
    assert_eq!(
        answer(&mut server, request("ping", json!({})))["result"],
        json!({})
    );
    assert_eq!(
        code(&answer(&mut server, request("tools/list", json!({})))),
        -32602
    );
}

#[test]
fn an_unknown_method_and_one_of_an_undeclared_capability_are_not_found() {
    for version in HANDSHAKES {
        let mut server = session(version);
        for method in [
            "no/such",
            "",
            "resources/list",
            "prompts/get",
            "logging/setLevel",
            "tasks/list",
            "completion/complete",
            "server/discover",
            "notifications/initialized",
            "rpc.discover",
        ] {
            let answer = answer(&mut server, request(method, json!({})));
            assert_eq!(code(&answer), -32601, "{method}");
        }
    }
}

#[test]
fn tools_are_trimmed_to_the_revision() {
    let members = |version: &str| {
        let mut server = session(version);
        let answer = answer(&mut server, request("tools/list", json!({})));
        let tool = answer["result"]["tools"][0].as_object().unwrap().clone();
        tool.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(members("2024-11-05"), "name description inputSchema");
    assert_eq!(
        members("2025-03-26"),
        "name description inputSchema annotations"
    );
    let newer = "name title description inputSchema outputSchema annotations";
    assert_eq!(members("2025-06-18"), newer);
    assert_eq!(members("2025-11-25"), newer);
}

#[test]
fn results_of_calls_are_trimmed_to_the_revision() {
    let call = |version: &str, params: Value| {
        let mut server = session(version);
        answer(&mut server, request("tools/call", params))["result"].clone()
    };
    let echo = json!({"name": "echo", "arguments": {"text": "hé"}});
    let old = call("2025-03-26", echo.clone());
    assert_eq!(
        old,
        json!({"content": [{"type": "text", "text": "hé"}], "isError": false})
    );
    let new = call("2025-06-18", echo);
    assert_eq!(new["structuredContent"], json!({"text": "hé"}));

    let types = |version: &str| {
        let result = call(version, json!({"name": "kinds"}));
        let blocks = result["content"].as_array().unwrap().clone();
        blocks
            .iter()
            .map(|b| b["type"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(types("2024-11-05"), ["text", "text"]);
    assert_eq!(types("2025-03-26"), ["audio", "text"]);
    assert_eq!(types("2025-06-18"), ["audio", "resource_link"]);
}

#[test]
fn arguments_that_do_not_fit_are_told_where_the_revision_wants_it() {
    let broken = |tool: &str| json!({"name": tool, "arguments": {"text": 5}});
    for (version, tool, as_error) in [
        ("2024-11-05", "echo", true),
        ("2025-03-26", "echo", true),
        ("2025-06-18", "echo", true),
        ("2025-11-25", "echo", false),
        ("2025-06-18", "strict", true),
        ("2025-11-25", "strict", true),
    ] {
        let mut server = session(version);
        let answer = answer(&mut server, request("tools/call", broken(tool)));
        match as_error {
            true => assert_eq!(code(&answer), -32602, "{version} {tool}"),
            false => assert_eq!(answer["result"]["isError"], true, "{version} {tool}"),
        }
    }
    let mut server = server();
    let told = answer(&mut server, modern("tools/call", broken("echo")));
    assert_eq!(told["result"]["isError"], true);
    let told = answer(&mut server, modern("tools/call", broken("strict")));
    assert_eq!(code(&told), -32602);
}

#[test]
fn a_family_that_panics_costs_one_internal_error() {
    let mut server = session("2025-11-25");
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let failed = answer(
        &mut server,
        request("tools/call", json!({"name": "panics"})),
    );
    std::panic::set_hook(hook);
    assert_eq!(code(&failed), -32603);
    assert_eq!(
        answer(&mut server, request("ping", json!({})))["result"],
        json!({})
    );
}

#[test]
fn a_batch_of_2025_03_26_is_answered_with_one_array() {
    let mut server = session("2025-03-26");
    let batch = r#"[
        1,
        {"jsonrpc":"2.0","id":"a","method":"ping"},
        {"jsonrpc":"2.0","method":"notifications/initialized"},
        {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"kinds"}},
        {"jsonrpc":"2.0","id":3,"method":"initialize","params":{}},
        [],
        {"jsonrpc":"2.0","id":4,"method":"tools/list"}
    ]"#
    .replace('\n', " ");
    let answers = answer(&mut server, batch);
    let answers = answers.as_array().unwrap();
    let ids = answers
        .iter()
        .map(|a| (a["id"].clone(), a["error"]["code"].as_i64()));
    let mut ids = ids.collect::<Vec<_>>();
    ids.sort_by_key(|(id, _)| id.to_string());
    assert_eq!(
        ids,
        [
            (json!("a"), None),
            (json!(2), None),
            (json!(3), Some(-32600)),
            (json!(4), None),
            (json!(null), Some(-32600)),
            (json!(null), Some(-32600)),
        ]
    );
    let empty = answer(&mut server, "[]");
    assert!(empty.is_object() && code(&empty) == -32600);
}

#[test]
fn batches_belong_to_2025_03_26_alone() {
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let answer = answer(&mut session(version), batch);
        assert_eq!(
            (code(&answer), &answer["id"]),
            (-32600, &Value::Null),
            "{version}"
        );
    }
    assert_eq!(code(&answer(&mut server(), batch)), -32600);
}

/// Starts a call and gives the job instead of running it.
fn start(server: &mut Server, line: &str) -> Job {
    match server.handle_line(line.as_bytes()).pop() {
        Some(Output::Run(job)) => *job,
        _ => panic!("{line} starts no job"),
    }
}

#[test]
fn a_cancelled_call_is_stopped_and_never_answered() {
    for line in [
        request("tools/call", json!({"name": "kinds"})),
        modern("tools/call", json!({"name": "kinds"})),
    ] {
        let mut server = session("2025-11-25");
        let job = start(&mut server, &line);
        let cancellation = job.cancellation();
        let stopped = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let call = Call::with(cancellation, Arc::new(Deaf), Arc::default());
        let hook = stopped.clone();
        call.on_cancel(move || hook.store(true, std::sync::atomic::Ordering::SeqCst));
        assert!(!call.cancelled());

        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert!(server.handle_line(cancel.as_bytes()).is_empty());
        assert!(call.cancelled());
        assert!(stopped.load(std::sync::atomic::Ordering::SeqCst));
        let id = job.id();
        let report = Report::Progress {
            progress: 1.0,
            total: None,
            message: String::new(),
        };
        assert!(server.report(id, report).is_empty());
        assert!(server.finished(id, job.run(Arc::new(Deaf))).is_empty());
    }
}

#[test]
fn a_cancelled_member_leaves_the_rest_of_its_batch() {
    let mut server = session("2025-03-26");
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"kinds"}},
                    {"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
    let job = start(&mut server, batch);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let rest = answer(&mut server, cancel);
    assert_eq!(rest, json!([{"jsonrpc": "2.0", "id": 2, "result": {}}]));
    let id = job.id();
    assert!(server.finished(id, job.run(Arc::new(Deaf))).is_empty());
}

#[test]
fn progress_rises_and_only_goes_to_a_token_of_an_open_request() {
    let mut server = session("2025-03-26");
    let tell = |server: &mut Server, job, progress| {
        let report = Report::Progress {
            progress,
            total: Some(2.0),
            message: "on".to_owned(),
        };
        let outputs = server.report(job, report);
        let lines = outputs.into_iter().map(|output| match output {
            Output::Message(line) => serde_json::from_str::<Value>(&line).unwrap(),
            Output::Run(_) => panic!("no job"),
        });
        lines.collect::<Vec<_>>()
    };
    for token in [json!("7"), json!(7), json!(0)] {
        let params = json!({"name": "kinds", "_meta": {"progressToken": token}});
        let job = start(&mut server, &request("tools/call", params));
        let id = job.id();
        let told = tell(&mut server, id, 1.0);
        assert_eq!(
            told,
            [
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
                {"progressToken": token, "progress": 1, "total": 2, "message": "on"}})
            ]
        );
        assert!(tell(&mut server, id, 1.0).is_empty(), "not risen");
        assert!(tell(&mut server, id, f64::NAN).is_empty());
        assert_eq!(
            tell(&mut server, id, 1.5)[0]["params"]["progress"],
            json!(1.5)
        );
        server.finished(id, job.run(Arc::new(Deaf)));
        assert!(tell(&mut server, id, 2.0).is_empty(), "after the answer");
    }
    let silent = start(
        &mut server,
        &request("tools/call", json!({"name": "kinds"})),
    );
    assert!(tell(&mut server, silent.id(), 1.0).is_empty(), "no token");
}

#[test]
fn an_id_in_use_is_refused_until_its_request_is_answered() {
    let mut server = session("2025-11-25");
    let line = request("tools/call", json!({"name": "kinds"}));
    let job = start(&mut server, &line);
    assert_eq!(code(&answer(&mut server, &line)), -32600);
    let id = job.id();
    assert_eq!(server.finished(id, job.run(Arc::new(Deaf))).len(), 1);
    assert!(answer(&mut server, &line)["result"].is_object());
}

#[test]
fn discover_is_the_first_word_and_tells_all() {
    let answer = answer(&mut server(), modern("server/discover", json!({})));
    assert_eq!(
        answer["result"],
        json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "cacheConfig": {"enabled": true},
            "ttlMs": 300_000,
            "cacheScope": "public",
            "_meta": {"io.modelcontextprotocol/serverInfo":
                {"name": "probe", "title": "Probe", "version": "1.0"}},
        })
    );
}

#[test]
fn every_stateless_result_has_a_type_and_says_who_answers() {
    let mut server = server();
    for (line, cacheable) in [
        (modern("tools/list", json!({})), true),
        (modern("tools/call", json!({"name": "kinds"})), false),
    ] {
        let answer = answer(&mut server, line);
        let result = &answer["result"];
        assert_eq!(result["resultType"], "complete");
        assert_eq!(
            result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
            "probe"
        );
        assert_eq!(result["ttlMs"].is_u64(), cacheable);
        assert_eq!(result["cacheScope"].is_string(), cacheable);
        assert!(result["tools"][0].get("execution").is_none());
    }
}

#[test]
fn a_stateless_request_states_its_version_and_capabilities_every_time() {
    let mut server = server();
    assert!(answer(&mut server, modern("tools/list", json!({})))["result"].is_object());
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    for meta in [
        json!({}),
        json!({ version: "2026-07-28" }),
        json!({ capabilities: {} }),
        json!({ version: 5, capabilities: {} }),
        json!({ version: "2026-07-28", capabilities: [] }),
        json!({ version: "2026-07-28", capabilities: null }),
        json!({ version: "2026-07-28", capabilities: {}, "io.modelcontextprotocol/logLevel": "loud" }),
        json!({ version: "2026-07-28", capabilities: {}, "io.modelcontextprotocol/clientInfo": 5 }),
    ] {
        for method in ["server/discover", "tools/list"] {
            let answer = answer(&mut server, request(method, json!({"_meta": meta})));
            assert_eq!(code(&answer), -32602, "{method} {meta}");
        }
    }
    let bare = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#;
    assert_eq!(code(&answer(&mut server, bare)), -32602);
}

#[test]
fn a_version_that_is_not_spoken_is_refused_for_every_method() {
    for version in ["1900-01-01", "2025-11-25", "2099-01-01", ""] {
        for method in ["server/discover", "tools/list", "initialize", "no/such"] {
            let params = json!({"_meta": {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": {}}});
            let answer = answer(&mut server(), request(method, params));
            assert_eq!(code(&answer), -32022, "{method} {version}");
            assert_eq!(
                answer["error"]["data"],
                json!({"supported": ["2026-07-28"], "requested": version})
            );
        }
    }
}

#[test]
fn methods_of_the_handshake_do_not_exist_for_stateless_requests() {
    let mut server = session("2025-11-25");
    for method in [
        "ping",
        "initialize",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/list",
        "tasks/result",
        "subscriptions/listen",
    ] {
        let answer = answer(&mut server, modern(method, json!({})));
        assert_eq!(code(&answer), -32601, "{method}");
    }
}

#[test]
fn both_eras_are_served_side_by_side_each_in_its_own_shape() {
    let mut server = session("2024-11-05");
    let old = answer(&mut server, request("tools/list", json!({})));
    let new = answer(&mut server, modern("tools/list", json!({})));
    assert!(old["result"].get("resultType").is_none());
    assert_eq!(new["result"]["resultType"], "complete");
    let old_again = answer(&mut server, request("tools/list", json!({})));
    assert_eq!(old, old_again);
}

#[test]
fn extra_meta_keys_and_members_do_no_harm() {
    let mut server = session("2025-11-25");
    let params = json!({"_meta": {"com.example/x": {"a": 1}, "traceparent": "x"}, "more": [1]});
    assert!(answer(&mut server, request("tools/list", params))["result"].is_object());
    let line = r#"{"extra":1,"jsonrpc":"2.0","method":"ping","params":{},"id":1}"#;
    assert_eq!(answer(&mut server, line)["result"], json!({}));
}

/// Lines that are nearly messages: a member wrong, missing, twice, or nested.
fn nearly_a_message() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("-0".to_owned()),
        Just("1e400".to_owned()),
        Just("123456789012345678901234567890".to_owned()),
        Just("\"2.0\"".to_owned()),
        Just("\"\\ud800\"".to_owned()),
        "[a-z/]{0,8}".prop_map(|text| format!("\"{text}\"")),
        Just("\"ping\"".to_owned()),
        Just("\"tools/call\"".to_owned()),
        Just("\"initialize\"".to_owned()),
        Just("\"echo\"".to_owned()),
    ];
    let value = scalar.prop_recursive(3, 12, 4, |inner| {
        let name = prop_oneof![
            Just("name"),
            Just("arguments"),
            Just("_meta"),
            Just("requestId"),
            Just("text"),
            Just("progressToken"),
            Just("io.modelcontextprotocol/protocolVersion"),
            Just("cursor"),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((name, inner), 0..4).prop_map(|members| {
                let members = members
                    .iter()
                    .map(|(name, value)| format!("\"{name}\":{value}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    });
    let name = prop_oneof![
        Just("jsonrpc"),
        Just("id"),
        Just("method"),
        Just("params"),
        Just("result"),
        Just("error"),
        Just("other"),
    ];
    let member = (name, value).prop_map(|(name, value)| format!("\"{name}\":{value}"));
    let object = prop::collection::vec(member, 0..5)
        .prop_map(|members| format!("{{\"jsonrpc\":\"2.0\",{}}}", members.join(",")));
    prop_oneof![
        object.clone(),
        prop::collection::vec(object, 0..4).prop_map(|all| format!("[{}]", all.join(","))),
    ]
}

/// Every line that comes out is one message, or in 2025-03-26 an array of them.
fn check_output(line: &str) {
    assert!(!line.contains('\n'), "{line}");
    let parsed: Value = serde_json::from_str(line).unwrap_or_else(|error| {
        // An echoed id may hold a lone surrogate, which is JSON, but no text.
        assert!(line.contains("\\ud"), "{error}: {line}");
        json!({"jsonrpc": "2.0", "id": 1, "result": {}})
    });
    let messages = match parsed {
        Value::Array(messages) => messages,
        message => vec![message],
    };
    for message in messages {
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        let has = |name: &str| message.get(name).is_some();
        assert!(has("method") ^ (has("result") ^ has("error")), "{line}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(lines_in in prop::collection::vec(any::<Vec<u8>>(), 1..8)) {
        let mut server = session("2025-03-26");
        for line in lines_in {
            for line in lines(&mut server, line) {
                check_output(&line);
            }
        }
        let ping = answer(&mut server, request("ping", json!({})));
        prop_assert_eq!(&ping["result"], &json!({}));
    }

    #[test]
    fn near_messages_are_survived(
        lines_in in prop::collection::vec(nearly_a_message(), 1..12),
        version in prop::sample::select(HANDSHAKES.to_vec()),
    ) {
        let mut server = session(version);
        for line in lines_in {
            for line in lines(&mut server, line) {
                check_output(&line);
            }
        }
        let ping = answer(&mut server, request("ping", json!({})));
        prop_assert_eq!(&ping["result"], &json!({}));
    }

    #[test]
    fn each_readable_request_has_exactly_one_answer_with_its_id(
        ids in prop::collection::hash_set("[a-z0-9]{1,6}", 1..20),
        method in prop::sample::select(vec!["ping", "tools/list", "tools/call", "x", "initialize"]),
    ) {
        let mut server = session("2025-11-25");
        for id in ids {
            let line = json!({"jsonrpc": "2.0", "id": id, "method": method}).to_string();
            prop_assert_eq!(&answer(&mut server, line)["id"], &json!(id));
        }
    }
}
