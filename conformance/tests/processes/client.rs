//! The client in both eras.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use touchstone::client::{Client, Reply};
use touchstone::spec::Revision;
use touchstone::wire::Limits;

use crate::act::launch;

pub(crate) fn all() -> Vec<libtest_mimic::Trial> {
    crate::trials![
        the_handshake_names_the_revision_and_the_client,
        stateless_requests_carry_their_meta_and_the_caller_wins,
        replies_are_found_by_their_id_as_written,
        silence_and_the_end_are_told_apart,
        a_slow_start_has_the_startup_limit,
        requests_from_the_server_are_answered,
        a_notification_is_found_in_the_log,
        a_server_that_answers_ping_badly_is_alive,
    ]
}

const LIMITS: Limits = Limits {
    startup: Duration::from_secs(30),
    request: Duration::from_secs(30),
    quiet: Duration::from_millis(100),
    stop: Duration::from_secs(10),
};

fn client(name: &str, revision: Revision) -> Client {
    Client::start(&launch(name), LIMITS, revision).unwrap()
}

fn result(reply: Reply) -> Value {
    match reply {
        Reply::Result { result, .. } => result,
        other => panic!("no result but {other:?}"),
    }
}

fn the_handshake_names_the_revision_and_the_client() {
    for revision in &Revision::ALL[..4] {
        let mut client = client("mcp", *revision);
        let hello = result(client.hello());
        assert_eq!(hello["protocolVersion"], revision.as_str());
        client.initialized();
        assert!(client.barrier());
        assert_eq!(client.request("nope", None).code(), Some(-32601));
    }
}

fn stateless_requests_carry_their_meta_and_the_caller_wins() {
    let mut client = client("mcp", Revision::V2026_07_28);
    client.declare(json!({"roots": {}}).as_object().unwrap().clone());
    let seen = result(client.hello())["seen"]["_meta"].clone();
    assert_eq!(
        seen["io.modelcontextprotocol/protocolVersion"],
        "2026-07-28"
    );
    assert_eq!(
        seen["io.modelcontextprotocol/clientCapabilities"],
        json!({"roots": {}})
    );
    let params =
        json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "1999-01-01", "x": 1}});
    let seen = result(client.request("echo", Some(params)))["seen"]["_meta"].clone();
    assert_eq!(
        seen["io.modelcontextprotocol/protocolVersion"],
        "1999-01-01"
    );
    assert_eq!(seen["x"], json!(1));
    assert!(seen.get("io.modelcontextprotocol/clientInfo").is_some());
    let line = client.line(None, "notifications/cancelled", None);
    assert!(!line.contains("_meta"));
}

fn replies_are_found_by_their_id_as_written() {
    let mut client = client("mcp", Revision::V2025_06_18);
    let until = Instant::now() + LIMITS.request;
    client.post(json!("7"), "ping", None);
    client.post(json!(7), "echo", None);
    client.post(serde_json::from_str("7.0").unwrap(), "noisy", None);
    assert!(result(client.reply(&serde_json::from_str("7.0").unwrap(), until))["noisy"] == true);
    assert!(result(client.reply(&json!(7), until)).get("seen").is_some());
    assert_eq!(result(client.reply(&json!("7"), until)), json!({}));
    // Each reply is given once.
    let short = Instant::now() + Duration::from_millis(50);
    assert_eq!(client.reply(&json!(7), short), Reply::Silence);
}

fn silence_and_the_end_are_told_apart() {
    let limits = Limits {
        request: Duration::from_millis(200),
        ..LIMITS
    };
    let mut client = Client::start(&launch("mcp"), limits, Revision::V2025_06_18).unwrap();
    result(client.hello());
    let before = Instant::now();
    assert_eq!(client.request("silent", None), Reply::Silence);
    assert!(before.elapsed() < limits.startup);
    client.child().close_input();
    assert_eq!(client.request("ping", None), Reply::Gone);
}

fn a_slow_start_has_the_startup_limit() {
    let limits = Limits {
        request: Duration::from_millis(100),
        ..LIMITS
    };
    let mut client =
        Client::start(&launch("starts-slowly"), limits, Revision::V2025_06_18).unwrap();
    result(client.hello());
}

fn requests_from_the_server_are_answered() {
    let mut client = client("asks", Revision::V2025_11_25);
    assert_eq!(result(client.request("ping", None))["result"], json!({}));
    let refused = result(client.request("roots/list", None));
    assert_eq!(refused["error"]["code"], json!(-32601));
    client.declare(json!({"roots": {}}).as_object().unwrap().clone());
    let roots = result(client.request("roots/list", None));
    assert!(
        roots["result"]["roots"][0]["uri"]
            .as_str()
            .unwrap()
            .starts_with("file:///")
    );
    client.answer("roots/list", json!({"roots": []}));
    let roots = result(client.request("roots/list", None));
    assert_eq!(roots["result"], json!({"roots": []}));
}

fn a_notification_is_found_in_the_log() {
    let mut client = client("mcp", Revision::V2025_06_18);
    let from = client.log().len();
    client.post(json!(1), "noisy", None);
    let until = Instant::now() + LIMITS.request;
    let mut fits = |message: &Value| message["method"] == "notifications/message";
    let found = client.find(from, until, &mut fits).unwrap();
    assert_eq!(client.find(from, until, &mut fits), Some(found));
    let short = Instant::now() + Duration::from_millis(50);
    assert_eq!(client.find(found + 1, short, &mut fits), None);
}

fn a_server_that_answers_ping_badly_is_alive() {
    let limits = Limits {
        request: Duration::from_millis(300),
        ..LIMITS
    };
    let mut wrong =
        Client::start(&launch("ping-with-wrong-id"), LIMITS, Revision::V2025_06_18).unwrap();
    wrong.hello();
    assert!(wrong.barrier());
    let mut deaf = Client::start(&launch("deaf-to-ping"), limits, Revision::V2025_06_18).unwrap();
    deaf.hello();
    assert!(deaf.barrier());
    // The second time it costs no limit.
    deaf.post(json!("x"), "ping", None);
    assert!(deaf.barrier());
    let sent = |e: &&touchstone::wire::Entry| matches!(e.event, touchstone::wire::Event::Sent(_));
    // initialize, ping, tools/list, our own ping, tools/list.
    assert_eq!(deaf.log().iter().filter(sent).count(), 5);
    let mut dead = Client::start(&launch("never-answers"), limits, Revision::V2025_06_18).unwrap();
    dead.child().close_input();
    assert!(!dead.barrier());
}
