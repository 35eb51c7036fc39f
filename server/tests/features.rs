//! Each feature of the protocol, shown by the demo family.
#![allow(clippy::unwrap_used)] // A test may.

mod common;

use std::collections::BTreeSet;

use common::Running;
use serde_json::{Value, json};

const DEMO: [&str; 2] = ["--tools", "demo"];

/// A demo session of the latest revision, by a client that can be asked everything.
fn able() -> Running {
    let capabilities = json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}});
    Running::session_of("2025-11-25", capabilities, &DEMO)
}

/// Sends a request and gives its result; nothing else may come before it.
fn result(running: &mut Running, method: &str, params: Value) -> Value {
    running.request(99, method, params);
    let answer = running.message();
    assert_eq!(answer["id"], 99, "{answer}");
    assert!(answer["result"].is_object(), "{method}: {answer}");
    answer["result"].clone()
}

fn code(running: &mut Running, method: &str, params: Value) -> i64 {
    running.request(98, method, params);
    let answer = running.message();
    assert_eq!(answer["id"], 98, "{answer}");
    answer["error"]["code"]
        .as_i64()
        .unwrap_or_else(|| panic!("no error: {answer}"))
}

/// Params of 2026-07-28 for a client with these capabilities.
fn modern_with(capabilities: Value, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    params
}

fn modern(params: Value) -> Value {
    modern_with(json!({}), params)
}

fn tool(name: &str) -> Value {
    json!({"name": name, "arguments": {}})
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text: {result}"))
}

#[test]
fn capabilities_name_what_the_demo_offers() {
    for (version, names) in [
        ("2024-11-05", "logging prompts resources tools"),
        ("2025-03-26", "completions logging prompts resources tools"),
        (
            "2025-11-25",
            "completions logging prompts resources tasks tools",
        ),
    ] {
        let mut running = Running::start(&DEMO);
        let params = json!({"protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"}});
        let result = result(&mut running, "initialize", params);
        let capabilities = result["capabilities"].as_object().unwrap();
        let found = capabilities
            .keys()
            .map(String::as_str)
            .collect::<BTreeSet<_>>();
        assert_eq!(found.into_iter().collect::<Vec<_>>().join(" "), names);
    }
    let mut running = Running::start(&DEMO);
    let result = result(&mut running, "server/discover", modern(json!({})));
    assert_eq!(
        result["capabilities"]["resources"],
        json!({"subscribe": true, "listChanged": true})
    );
    assert!(result["capabilities"].get("tasks").is_none());
}

#[test]
fn every_list_in_pages_is_the_whole_list() {
    let lists = [
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ];
    let mut whole = Running::session(&DEMO);
    let mut paged = Running::session(&["--tools", "demo", "--page-size", "1"]);
    for (method, member) in lists {
        let all = result(&mut whole, method, json!({}));
        assert!(all.get("nextCursor").is_none());
        let mut params = json!({});
        let mut seen = Vec::new();
        loop {
            let page = result(&mut paged, method, params);
            assert_eq!(page[member].as_array().unwrap().len(), 1);
            seen.extend(page[member].as_array().unwrap().clone());
            match page.get("nextCursor") {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => break,
            }
        }
        assert_eq!(Value::from(seen), all[member], "{method}");
        assert_eq!(code(&mut paged, method, json!({"cursor": "bogus"})), -32602);
    }
}

#[test]
fn every_listed_resource_can_be_read() {
    let mut running = Running::session(&DEMO);
    let list = result(&mut running, "resources/list", json!({}));
    for resource in list["resources"].as_array().unwrap() {
        let read = result(
            &mut running,
            "resources/read",
            json!({"uri": resource["uri"]}),
        );
        let contents = &read["contents"][0];
        assert_eq!(contents["uri"], resource["uri"]);
        assert_eq!(contents["mimeType"], resource["mimeType"]);
        assert!(contents["text"].is_string() ^ contents["blob"].is_string());
    }
    let read = result(
        &mut running,
        "resources/read",
        json!({"uri": "demo://number/12"}),
    );
    assert_eq!(read["contents"][0]["text"], "12 squared is 144\n");
}

#[test]
fn a_resource_that_fails_inside_gives_an_internal_error() {
    let mut running = Running::session(&DEMO);
    let params = json!({"uri": "demo://broken"});
    for params in [params.clone(), modern(params)] {
        assert_eq!(code(&mut running, "resources/read", params), -32603);
    }
}

#[test]
fn a_resource_that_is_not_there_has_the_code_of_the_revision() {
    let mut running = Running::session(&DEMO);
    for uri in [
        "demo://nothing",
        "demo://number/151",
        "demo://number/01",
        "demo://extra",
        "x:y",
    ] {
        let params = json!({ "uri": uri });
        assert_eq!(
            code(&mut running, "resources/read", params.clone()),
            -32002,
            "{uri}"
        );
        assert_eq!(
            code(&mut running, "resources/read", modern(params)),
            -32602,
            "{uri}"
        );
    }
    for uri in [json!(""), json!("not a uri"), json!(5), json!(null)] {
        let params = json!({ "uri": uri });
        assert_eq!(
            code(&mut running, "resources/read", params),
            -32602,
            "{uri}"
        );
    }
    assert_eq!(code(&mut running, "resources/read", json!({})), -32602);
}

#[test]
fn prompts_take_arguments_and_show_a_resource_and_an_image() {
    let mut running = Running::session(&DEMO);
    let greet = json!({"name": "greet", "arguments": {"name": "Ada", "style": "formal"}});
    let greeting = result(&mut running, "prompts/get", greet);
    assert_eq!(greeting["messages"][1]["content"]["text"], "Good day, Ada.");
    let show = result(&mut running, "prompts/get", json!({"name": "show"}));
    assert_eq!(show["messages"][0]["content"]["type"], "resource");
    assert_eq!(
        show["messages"][0]["content"]["resource"]["mimeType"],
        "text/plain"
    );
    assert_eq!(show["messages"][1]["content"]["type"], "image");
    for params in [
        json!({"name": "no-such-prompt"}),
        json!({"name": 5}),
        json!({"name": "greet"}),
        json!({"name": "greet", "arguments": {"name": 5}}),
        json!({"name": "greet", "arguments": {"name": "Ada", "style": "rude"}}),
        json!({}),
    ] {
        assert_eq!(
            code(&mut running, "prompts/get", params.clone()),
            -32602,
            "{params}"
        );
    }
}

#[test]
fn completion_gives_what_fits_and_at_most_a_hundred_values() {
    let mut running = Running::session(&DEMO);
    let prompt = |name: &str, value: &str| {
        json!({"ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": name, "value": value}})
    };
    let done = result(&mut running, "completion/complete", prompt("name", "a"));
    assert_eq!(
        done["completion"],
        json!({"values": ["Ada", "Alan"], "total": 2, "hasMore": false})
    );
    let mut with_context = prompt("style", "");
    with_context["context"] = json!({"arguments": {"name": "Grace"}});
    let done = result(&mut running, "completion/complete", with_context);
    assert_eq!(done["completion"]["values"], json!(["formal", "casual"]));

    let number = json!({"ref": {"type": "ref/resource", "uri": "demo://number/{n}"},
        "argument": {"name": "n", "value": ""}});
    let done = result(&mut running, "completion/complete", number);
    assert_eq!(done["completion"]["values"].as_array().unwrap().len(), 100);
    assert_eq!(done["completion"]["total"], 150);
    assert_eq!(done["completion"]["hasMore"], true);

    let argument = json!({"name": "n", "value": ""});
    for params in [
        json!({}),
        json!({"ref": {"type": "ref/prompt", "name": "greet"}}),
        json!({ "argument": argument }),
        json!({"ref": {"type": "ref/prompt", "name": "no-such"}, "argument": argument}),
        json!({"ref": {"type": "ref/resource", "uri": "no:such"}, "argument": argument}),
        json!({"ref": {"type": "ref/nothing", "name": "greet"}, "argument": argument}),
        json!({"ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": "name", "value": 5}}),
    ] {
        assert_eq!(
            code(&mut running, "completion/complete", params.clone()),
            -32602,
            "{params}"
        );
    }
}

/// The methods and levels of what comes before the answer to request 1.
fn logged(running: &Running) -> Vec<String> {
    let mut levels = Vec::new();
    loop {
        let message = running.message();
        if message["id"] == 1 {
            return levels;
        }
        assert_eq!(message["method"], "notifications/message");
        assert!(message["params"]["data"].is_object());
        levels.push(message["params"]["level"].as_str().unwrap().to_owned());
    }
}

const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

#[test]
fn only_messages_of_the_level_and_above_are_logged_in_a_session() {
    let mut running = Running::session(&DEMO);
    for (place, level) in LEVELS.into_iter().enumerate() {
        let set = result(&mut running, "logging/setLevel", json!({ "level": level }));
        assert_eq!(set, json!({}));
        running.request(1, "tools/call", tool("log"));
        assert_eq!(logged(&running), LEVELS[place..]);
    }
    for level in [json!("loud"), json!(5), json!(null)] {
        assert_eq!(
            code(&mut running, "logging/setLevel", json!({ "level": level })),
            -32602
        );
    }
}

#[test]
fn a_stateless_request_is_logged_only_when_it_asks_for_it() {
    let mut running = Running::start(&DEMO);
    running.request(1, "tools/call", modern(tool("log")));
    assert_eq!(logged(&running), Vec::<String>::new());
    let mut params = modern(tool("log"));
    params["_meta"]["io.modelcontextprotocol/logLevel"] = "error".into();
    running.request(1, "tools/call", params);
    assert_eq!(logged(&running), LEVELS[4..]);
}

#[test]
fn a_change_is_told_to_the_session_but_only_a_subscriber_hears_of_a_resource() {
    let mut running = Running::session(&DEMO);
    let change = |what: &str| json!({"name": "change", "arguments": {"what": what}});
    for what in ["tools", "prompts", "resources"] {
        running.request(1, "tools/call", change(what));
        let told = running.message();
        assert_eq!(told["method"], format!("notifications/{what}/list_changed"));
        assert!(told.get("params").is_none());
        assert_eq!(running.message()["id"], 1);
    }
    let tools = result(&mut running, "tools/list", json!({}));
    assert!(
        tools["tools"]
            .as_array()
            .unwrap()
            .iter()
            .any(|tool| tool["name"] == "extra")
    );
    assert!(text(&result(&mut running, "tools/call", tool("extra"))).contains("This tool"));
    result(
        &mut running,
        "resources/read",
        json!({"uri": "demo://extra"}),
    );
    result(&mut running, "prompts/get", json!({"name": "extra"}));

    let counter = json!({"uri": "demo://counter"});
    result(&mut running, "tools/call", change("resource"));
    assert_eq!(
        result(&mut running, "resources/subscribe", counter.clone()),
        json!({})
    );
    running.request(1, "tools/call", change("resource"));
    let told = running.message();
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"], counter);
    assert_eq!(running.message()["id"], 1);
    assert_eq!(
        result(&mut running, "resources/unsubscribe", counter),
        json!({})
    );
    result(&mut running, "tools/call", change("resource"));
}

#[test]
fn a_subscription_hears_what_it_asked_for_and_nothing_else() {
    let mut running = Running::start(&DEMO);
    let listen = |running: &mut Running, id: Value, filter: Value| {
        let params = modern(json!({ "notifications": filter }));
        let line = json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen",
            "params": params});
        running.send(&line.to_string());
        let acknowledged = running.message();
        assert_eq!(
            acknowledged["method"],
            "notifications/subscriptions/acknowledged"
        );
        let tag = &acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(tag, &id);
        acknowledged["params"]["notifications"].clone()
    };
    let tools = json!({"toolsListChanged": true});
    let resource =
        json!({"resourceSubscriptions": ["demo://counter"], "promptsListChanged": false});
    assert_eq!(listen(&mut running, json!(0), tools.clone()), tools);
    assert_eq!(
        listen(&mut running, json!("0"), resource),
        json!({"resourceSubscriptions": ["demo://counter"]})
    );
    let change = |running: &mut Running, what: &str| {
        let call = json!({"name": "change", "arguments": {"what": what}});
        running.request(1, "tools/call", modern(call));
        let mut told = Vec::new();
        loop {
            let message = running.message();
            if message["id"] == 1 {
                return told;
            }
            let tag = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
            told.push((message["method"].as_str().unwrap().to_owned(), tag.clone()));
        }
    };
    let of_tools = ("notifications/tools/list_changed".to_owned(), json!(0));
    let of_resource = ("notifications/resources/updated".to_owned(), json!("0"));
    assert_eq!(change(&mut running, "tools"), [of_tools]);
    assert_eq!(change(&mut running, "resource"), [of_resource]);
    assert_eq!(change(&mut running, "prompts"), []);

    running
        .send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#);
    assert_eq!(change(&mut running, "tools"), []);

    let (rest, ..) = running.end();
    let ids = rest
        .iter()
        .map(|message| message["id"].clone())
        .collect::<Vec<_>>();
    assert_eq!(ids, [json!("0")], "the open one is ended with a result");
    assert_eq!(rest[0]["result"]["resultType"], "complete");
}

#[test]
fn a_tool_asks_the_client_of_a_session() {
    let mut running = able();
    for (name, method, answer, said) in [
        (
            "ask_form",
            "elicitation/create",
            json!({"action": "accept", "content": {"name": "Ada"}}),
            "Hello Ada.",
        ),
        (
            "ask_form",
            "elicitation/create",
            json!({"action": "decline"}),
            "did not say",
        ),
        (
            "ask_form",
            "elicitation/create",
            json!({"action": "cancel"}),
            "did not say",
        ),
        (
            "ask_url",
            "elicitation/create",
            json!({"action": "accept"}),
            "chose: accept",
        ),
        (
            "ask_model",
            "sampling/createMessage",
            json!({"role": "assistant", "model": "m",
            "content": {"type": "text", "text": "blue"}}),
            "said: blue",
        ),
        (
            "ask_roots",
            "roots/list",
            json!({"roots": [{"uri": "file:///w"}]}),
            "1 roots: file:///w",
        ),
    ] {
        running.request(1, "tools/call", tool(name));
        let question = running.message();
        assert_eq!(question["method"], method, "{question}");
        let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer});
        running.send(&reply.to_string());
        let answer = running.message();
        assert_eq!(answer["id"], 1);
        assert!(text(&answer["result"]).contains(said), "{name}: {answer}");
    }
}

#[test]
fn an_error_or_a_wrong_answer_of_the_client_is_told_to_the_model() {
    let mut running = able();
    for reply in [
        json!({"error": {"code": -1, "message": "no"}}),
        json!({"result": {"action": "accept", "content": {"name": 5}}}),
        json!({"result": {"action": "accept"}}),
        json!({"result": {}}),
        json!({"result": 5}),
    ] {
        running.request(1, "tools/call", tool("ask_form"));
        let mut message = json!({"jsonrpc": "2.0", "id": running.message()["id"]});
        message
            .as_object_mut()
            .unwrap()
            .extend(reply.as_object().unwrap().clone());
        running.send(&message.to_string());
        let answer = running.message();
        assert_eq!(answer["result"]["isError"], true, "{reply}: {answer}");
    }
}

#[test]
fn nothing_is_asked_of_a_client_that_did_not_declare_it() {
    let mut running = Running::session(&DEMO);
    for name in [
        "ask_form",
        "ask_twice",
        "ask_url",
        "ask_model",
        "ask_model_tools",
        "ask_roots",
    ] {
        let told = result(&mut running, "tools/call", tool(name));
        assert_eq!(told["isError"], true, "{told}");
    }
    // An empty `elicitation` means forms only.
    let mut running = Running::session_of("2025-11-25", json!({"elicitation": {}}), &DEMO);
    assert_eq!(
        result(&mut running, "tools/call", tool("ask_url"))["isError"],
        true
    );
    running.request(1, "tools/call", tool("ask_form"));
    assert_eq!(running.message()["method"], "elicitation/create");
    // A model that may be asked need not take tools.
    let mut running = Running::session_of("2025-11-25", json!({"sampling": {}}), &DEMO);
    let told = result(&mut running, "tools/call", tool("ask_model_tools"));
    assert!(text(&told).contains("sampling.tools"), "{told}");
}

#[test]
fn each_tool_call_of_the_model_gets_its_result_and_not_for_ever() {
    let capabilities = json!({"sampling": {"tools": {}}});
    let mut running = Running::session_of("2025-11-25", capabilities, &DEMO);
    running.request(1, "tools/call", tool("ask_model_tools"));
    let mut rounds = 0;
    let told = loop {
        let message = running.message();
        if message["id"] == 1 && message["method"].is_null() {
            break message["result"].clone();
        }
        let messages = message["params"]["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 1 + 2 * rounds, "{message}");
        if rounds > 0 {
            let results = messages.last().unwrap()["content"].as_array().unwrap();
            assert_eq!(results[0]["content"][0]["text"], "5");
            assert_eq!(results[0]["toolUseId"], "a");
            assert_eq!(results[1]["isError"], true);
        }
        rounds += 1;
        let call = |id: &str, input: Value| json!({"type": "tool_use", "id": id, "name": "sum", "input": input});
        let content = [call("a", json!({"a": 2, "b": 3})), call("b", json!({}))];
        let answer = json!({"role": "assistant", "model": "m", "content": content});
        let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": answer});
        running.send(&reply.to_string());
    };
    assert_eq!((rounds, &told["isError"]), (3, &json!(true)));
}

#[test]
fn a_client_that_does_not_answer_is_told_and_the_call_goes_on() {
    let capabilities = json!({"sampling": {}});
    let flags = ["--tools", "demo", "--client-timeout", "0.2"];
    let mut running = Running::session_of("2025-06-18", capabilities, &flags);
    running.request(1, "tools/call", tool("ask_model"));
    let question = running.message();
    let cancelled = running.message();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], question["id"]);
    let answer = running.message();
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!(1), &json!(true))
    );
    // Too late: ignored.
    running.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {}}).to_string());
    assert_eq!(result(&mut running, "ping", json!({})), json!({}));
}

#[test]
fn cancelling_a_call_takes_its_question_back() {
    let mut running = able();
    running.request(1, "tools/call", tool("ask_form"));
    let question = running.message();
    running
        .send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    let cancelled = running.message();
    assert_eq!(cancelled["params"]["requestId"], question["id"]);
    assert_eq!(result(&mut running, "ping", json!({})), json!({}));
}

#[test]
fn a_stateless_call_asks_through_its_result_and_completes_on_the_retry() {
    let mut running = Running::start(&DEMO);
    let able = json!({"elicitation": {"form": {}}});
    let asked = result(
        &mut running,
        "tools/call",
        modern_with(able.clone(), tool("ask_twice")),
    );
    assert_eq!(asked["resultType"], "input_required");
    assert!(asked.get("ttlMs").is_none());
    let question = &asked["inputRequests"]["name"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["mode"], "form");
    assert!(question.get("id").is_none() && question.get("jsonrpc").is_none());

    let retry = |state: &Value, responses: Value| {
        let mut params = tool("ask_twice");
        params["requestState"] = state.clone();
        params["inputResponses"] = responses;
        modern_with(able.clone(), params)
    };
    let name = json!({"name": {"action": "accept", "content": {"name": "Ada"}}, "unknown": {}});
    let second = result(
        &mut running,
        "tools/call",
        retry(&asked["requestState"], name.clone()),
    );
    assert_eq!(second["resultType"], "input_required");
    assert_eq!(
        second["inputRequests"]["colour"]["method"],
        "elicitation/create"
    );

    let colour = json!({"colour": {"action": "accept", "content": {"colour": "red"}}});
    let state = &second["requestState"];
    let done = result(&mut running, "tools/call", retry(state, colour.clone()));
    assert_eq!(done["resultType"], "complete");
    assert_eq!(text(&done), "Ada likes red.");

    let again = result(
        &mut running,
        "tools/call",
        retry(&asked["requestState"], json!({})),
    );
    assert_eq!(
        again["resultType"], "input_required",
        "a missing answer is asked for again"
    );
    let declined = json!({"colour": {"action": "decline"}});
    let done = result(&mut running, "tools/call", retry(state, declined));
    assert_eq!(text(&done), "Ada likes no colour.");

    let altered = Value::from(format!("{}x", state.as_str().unwrap()));
    let mut elsewhere = retry(state, colour.clone());
    elsewhere["name"] = "ask_form".into();
    for params in [
        retry(&altered, colour.clone()),
        retry(&json!(5), colour.clone()),
        retry(state, json!("x")),
        retry(
            state,
            json!({"colour": {"action": "accept", "content": {"colour": "mud"}}}),
        ),
        elsewhere,
    ] {
        assert_eq!(
            code(&mut running, "tools/call", params.clone()),
            -32602,
            "{params}"
        );
    }
}

#[test]
fn resources_and_prompts_ask_too() {
    let mut running = Running::start(&DEMO);
    for (method, params) in [
        ("resources/read", json!({"uri": "demo://asked/work"})),
        ("prompts/get", json!({"name": "asked"})),
    ] {
        let able = json!({"elicitation": {}});
        let asked = result(
            &mut running,
            method,
            modern_with(able.clone(), params.clone()),
        );
        assert_eq!(asked["resultType"], "input_required");
        assert!(asked.get("ttlMs").is_none() && asked.get("cacheScope").is_none());
        let mut retry = params.clone();
        retry["requestState"] = asked["requestState"].clone();
        retry["inputResponses"] = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
        let done = result(&mut running, method, modern_with(able, retry));
        assert_eq!(done["resultType"], "complete");
        assert!(done.to_string().contains("Ada ask"), "{done}");
    }
}

#[test]
fn a_prompt_that_would_ask_is_given_to_a_client_that_cannot_be_asked() {
    let mut running = Running::session(&DEMO);
    for params in [json!({"name": "asked"}), modern(json!({"name": "asked"}))] {
        let prompt = result(&mut running, "prompts/get", params);
        assert_eq!(
            prompt["messages"][0]["content"]["text"],
            "Somebody asks for nothing."
        );
    }
}

#[test]
fn a_stateless_call_that_needs_more_than_was_declared_says_what() {
    let mut running = Running::start(&DEMO);
    for (name, required) in [
        ("ask_form", json!({"elicitation": {"form": {}}})),
        ("ask_url", json!({"elicitation": {"url": {}}})),
        ("ask_model", json!({"sampling": {}})),
        ("ask_model_tools", json!({"sampling": {"tools": {}}})),
        ("ask_roots", json!({"roots": {}})),
    ] {
        running.request(1, "tools/call", modern(tool(name)));
        let error = running.message()["error"].clone();
        assert_eq!(error["code"], -32021, "{name}");
        assert_eq!(error["data"], json!({ "requiredCapabilities": required }));
    }
    let forms_only = modern_with(json!({"elicitation": {}}), tool("ask_url"));
    assert_eq!(code(&mut running, "tools/call", forms_only), -32021);
}

#[test]
fn a_task_is_answered_at_once_and_whoever_wants_its_result_waits() {
    let mut running = Running::session(&DEMO);
    let call =
        json!({"name": "task_required", "arguments": {"ms": 60_000}, "task": {"ttl": 60_000}});
    let task = result(&mut running, "tools/call", call)["task"].clone();
    assert_eq!(task["status"], "working");
    assert_eq!(task["ttl"], 60_000);
    let id = json!({"taskId": task["taskId"]});
    let got = result(&mut running, "tasks/get", id.clone());
    assert_eq!(got["status"], "working");
    let listed = result(&mut running, "tasks/list", json!({}));
    assert_eq!(listed["tasks"][0]["taskId"], task["taskId"]);
    running.request(1, "tasks/result", id);
    assert_eq!(
        result(&mut running, "ping", json!({})),
        json!({}),
        "the result waits"
    );
}

#[test]
fn the_result_of_a_task_is_that_of_the_plain_call_and_names_the_task() {
    let mut running = Running::session(&DEMO);
    let plain = json!({"name": "task_optional", "arguments": {"ms": 50}});
    let expected = result(&mut running, "tools/call", plain.clone());
    let mut call = plain;
    call["task"] = json!({});
    let task = result(&mut running, "tools/call", call)["task"].clone();
    let id = json!({"taskId": task["taskId"]});
    for _ in 0..2 {
        let mut got = result(&mut running, "tasks/result", id.clone());
        let meta = got.as_object_mut().unwrap().remove("_meta").unwrap();
        let related = &meta["io.modelcontextprotocol/related-task"];
        assert_eq!(related["taskId"], task["taskId"]);
        assert_eq!(got, expected);
    }
    assert_eq!(
        result(&mut running, "tasks/get", id.clone())["status"],
        "completed"
    );
    assert_eq!(code(&mut running, "tasks/cancel", id), -32602, "it is done");
}

#[test]
fn a_cancelled_task_stays_cancelled() {
    let mut running = Running::session(&DEMO);
    let call = json!({"name": "task_optional", "arguments": {"ms": 60_000}, "task": {}});
    let task = result(&mut running, "tools/call", call)["task"].clone();
    let id = json!({"taskId": task["taskId"]});
    running.request(1, "tasks/result", id.clone());
    running.request(2, "tasks/cancel", id.clone());
    let answers = [running.message(), running.message()];
    let of = |id: u32| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert!(of(1)["error"]["code"].is_i64());
    assert_eq!(of(2)["result"]["status"], "cancelled");
    assert_eq!(
        result(&mut running, "tasks/get", id.clone())["status"],
        "cancelled"
    );
    assert_eq!(code(&mut running, "tasks/cancel", id), -32602);
}

#[test]
fn tasks_are_refused_where_they_do_not_belong() {
    let mut running = Running::session(&DEMO);
    let as_task = |name: &str| json!({"name": name, "arguments": {}, "task": {}});
    assert_eq!(
        code(&mut running, "tools/call", tool("task_required")),
        -32601
    );
    assert_eq!(code(&mut running, "tools/call", as_task("fail")), -32601);
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(
            code(&mut running, method, json!({"taskId": "none"})),
            -32602
        );
        assert_eq!(code(&mut running, method, json!({})), -32602);
    }
    assert_eq!(
        code(&mut running, "tasks/list", json!({"cursor": "bogus"})),
        -32602
    );

    // Before 2025-11-25 and after it there are no tasks: the member means nothing.
    let mut older = Running::session_of("2025-06-18", json!({}), &DEMO);
    assert_eq!(
        result(&mut older, "tools/call", as_task("fail"))["isError"],
        true
    );
    assert_eq!(
        result(&mut older, "tools/call", modern(as_task("fail")))["isError"],
        true
    );
}

#[test]
fn a_task_reports_progress_and_asks_in_its_own_name() {
    let mut running = Running::session(&DEMO);
    let call = json!({"name": "task_optional", "arguments": {"ms": 500}, "task": {},
        "_meta": {"progressToken": 7}});
    running.request(1, "tools/call", call);
    let task = running.message()["result"]["task"]["taskId"].clone();
    running.request(2, "tasks/result", json!({ "taskId": task }));
    let mut reports = 0;
    loop {
        let message = running.message();
        if message["id"] == 2 {
            break;
        }
        assert_eq!(message["params"]["progressToken"], 7);
        let related = &message["params"]["_meta"]["io.modelcontextprotocol/related-task"];
        assert_eq!(related["taskId"], task);
        reports += 1;
    }
    assert!(reports > 0);
}

#[test]
fn broken_arguments_and_failures_are_told_as_the_revision_wants_it() {
    let mut running = Running::session(&DEMO);
    for params in [
        json!({"name": "add", "arguments": {"a": 1}}),
        json!({"name": "add", "arguments": {"a": 1, "b": "2"}}),
        json!({"name": "add", "arguments": {"a": 1, "b": 2, "c": 3}}),
        json!({"name": "fail"}),
    ] {
        let told = result(&mut running, "tools/call", params.clone());
        assert_eq!(told["isError"], true, "{params}");
        assert!(!text(&told).is_empty());
    }
    let internal = json!({"name": "fail", "arguments": {"how": "internal"}});
    assert_eq!(code(&mut running, "tools/call", internal), -32603);
    let sum = result(
        &mut running,
        "tools/call",
        json!({"name": "add", "arguments": {"a": 0.5, "b": 2}}),
    );
    assert_eq!(sum["structuredContent"], json!({"sum": 2.5}));
    assert_eq!(text(&sum), r#"{"sum":2.5}"#);
    running.send(
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"add","arguments":{"a":1e400,"b":1}}}"#,
    );
    assert_eq!(running.message()["result"]["isError"], true, "too large");

    let mut older = Running::session_of("2025-06-18", json!({}), &DEMO);
    let broken = json!({"name": "add", "arguments": {"a": 1}});
    assert_eq!(code(&mut older, "tools/call", broken), -32602);
}

#[test]
fn the_skills_of_the_toolchain_are_resources_and_serve_a_prompt() {
    let mut running = Running::session(&["--tools", "toolchain", "--no-cache"]);
    let list = result(&mut running, "resources/list", json!({}));
    let resources = list["resources"].as_array().unwrap();
    assert!(!resources.is_empty());
    for resource in resources {
        assert!(
            resource["uri"]
                .as_str()
                .unwrap()
                .starts_with("cja-skill://")
        );
        let read = result(
            &mut running,
            "resources/read",
            json!({"uri": resource["uri"]}),
        );
        assert!(read["contents"][0]["text"].as_str().unwrap().len() > 100);
    }
    let reference = json!({"ref": {"type": "ref/prompt", "name": "write_program"},
        "argument": {"name": "guide", "value": "run-a-program"}});
    let completed = result(&mut running, "completion/complete", reference);
    let guide = &completed["completion"]["values"][0];
    let arguments = json!({"task": "Say hello.", "guide": guide});
    let params = json!({"name": "write_program", "arguments": arguments});
    let prompt = result(&mut running, "prompts/get", params);
    assert_eq!(&prompt["messages"][0]["content"]["resource"]["uri"], guide);
    let unknown = json!({"uri": "cja-skill://rust/no-such-skill"});
    assert_eq!(code(&mut running, "resources/read", unknown), -32002);
}
