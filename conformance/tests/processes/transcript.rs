//! Transcripts against the acts.

use std::time::Duration;

use touchstone::client::Client;
use touchstone::spec::Revision;
use touchstone::transcript::{Header, Outcome, Player, parse, play, record, update};
use touchstone::wire::{Launch, Limits};

use crate::act::launch;

pub(crate) fn all() -> Vec<libtest_mimic::Trial> {
    crate::trials![
        the_example_passes,
        a_wrong_answer_fails_at_its_line,
        no_answer_fails_with_the_time,
        answers_come_in_any_order,
        an_answer_that_no_line_expects_fails,
        notifications_are_allowed_unless_nothing_is,
        a_forbidden_message_fails,
        text_on_stdout_fails_unless_allowed,
        values_are_taken_and_used,
        alternatives_are_either,
        stateless_requests_get_their_meta,
        bytes_pieces_and_lines_without_newline_are_sent,
        the_end_of_input_and_the_exit_are_seen,
        an_end_that_nobody_asked_for_fails,
        arguments_environment_and_files_reach_the_server,
        a_restart_is_a_new_process,
        a_shared_client_goes_on,
        what_the_server_lacks_makes_it_not_applicable,
        requests_from_the_server_are_answered_as_told,
        silence_is_broken_by_an_answer,
        update_writes_what_was_said,
        a_record_plays_again,
    ]
}

const LIMITS: Limits = Limits {
    startup: Duration::from_secs(30),
    request: Duration::from_secs(30),
    quiet: Duration::from_millis(100),
    stop: Duration::from_secs(10),
};

/// Short limits, for what is to time out.
const SHORT: Limits = Limits {
    startup: Duration::from_millis(600),
    request: Duration::from_millis(300),
    ..LIMITS
};

fn run_with(act: &str, limits: Limits, revision: Revision, text: &str) -> Outcome {
    let launch = launch(act);
    let mut player = Player::new(&launch, limits, revision);
    let transcript = parse("test", text).unwrap_or_else(|error| panic!("{error}"));
    play(&transcript, &mut player)
}

fn run(act: &str, text: &str) -> Outcome {
    run_with(act, LIMITS, Revision::V2025_06_18, text)
}

/// The line and the message of the failure.
fn failure(outcome: Outcome) -> (usize, String) {
    match outcome {
        Outcome::Failed { line, message, .. } => (line, message),
        other => panic!("no failure but {other:?}"),
    }
}

const EXAMPLE: &str = r#"
--> {"jsonrpc":"2.0","id":"$a","method":"touchstone/no-such-method"}
<-- {"jsonrpc":"2.0","id":"$a","error":{"code":-32601,"message":"<string>"}}
--> {"jsonrpc":"2.0","id":"$b","method":"ping"}
<-- {"jsonrpc":"2.0","id":"$b","result":{}}
"#;

fn the_example_passes() {
    assert_eq!(run("mcp", EXAMPLE), Outcome::Passed);
}

fn a_wrong_answer_fails_at_its_line() {
    let launch = launch("mcp");
    let mut player = Player::new(&launch, LIMITS, Revision::V2025_06_18);
    let text = EXAMPLE.replace("-32601", "-32602");
    let outcome = play(&parse("test", &text).unwrap(), &mut player);
    let Outcome::Failed {
        line, message, log, ..
    } = outcome
    else {
        panic!("{outcome:?}");
    };
    assert_eq!(line, 3);
    assert_eq!(message, "/error/code is -32601, not -32602");
    // The request and its answer.
    let shown = &player.ended[0].log[log];
    assert_eq!(shown.len(), 2);
}

fn no_answer_fails_with_the_time() {
    let text =
        "--> {\"jsonrpc\":\"2.0\",\"id\":\"$a\",\"method\":\"silent\"}\n<-- {\"id\":\"$a\"}\n";
    let outcome = run_with("mcp", SHORT, Revision::V2025_06_18, text);
    let (line, message) = failure(outcome);
    assert_eq!(line, 2);
    assert!(
        message.starts_with("no message that fits this line came within 0."),
        "{message}"
    );
    let timeout = format!("@timeout 100ms\n{text}");
    assert!(failure(run("mcp", &timeout)).1.contains("within 0.1"));
}

fn answers_come_in_any_order() {
    let text = r#"
--> {"jsonrpc":"2.0","id":"$a","method":"ping"}
--> {"jsonrpc":"2.0","id":"$b","method":"echo","params":{"x":1}}
<-- {"id":"$b","result":{"seen":{"x":1}}}
--> {"jsonrpc":"2.0","id":"$c","method":"ping"}
<-- {"id":"$c","result":{}}
<-- {"id":"$a","result":{}}
"#;
    assert_eq!(run("mcp", text), Outcome::Passed);
}

fn an_answer_that_no_line_expects_fails() {
    let twice = r#"
--> {"jsonrpc":"2.0","id":"x","method":"ping"}
--> {"jsonrpc":"2.0","id":"x","method":"ping"}
<-- {"id":"x","result":{}}
"#;
    let (line, message) = failure(run("mcp", twice));
    assert_eq!(line, 4);
    assert!(message.contains("no line expects"), "{message}");
    let other = "--> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n<-- {\"id\":\"1\"}\n";
    let (line, message) = failure(run("mcp", other));
    assert_eq!(line, 2);
    assert!(message.contains("/id is 1, not \"1\""), "{message}");
    let allowed = format!("@allow {{\"id\":\"x\"}}\n{twice}");
    assert_eq!(run("mcp", &allowed), Outcome::Passed);
}

const NOISY: &str = r#"
--> {"jsonrpc":"2.0","id":"$a","method":"noisy"}
<-- {"id":"$a","result":{"noisy":true}}
"#;

fn notifications_are_allowed_unless_nothing_is() {
    assert_eq!(run("mcp", NOISY), Outcome::Passed);
    let strict = format!("@allow nothing\n{NOISY}");
    assert_eq!(failure(run("mcp", &strict)).0, 4);
    let named = format!("@allow nothing\n@allow notifications/message\n{NOISY}");
    assert_eq!(run("mcp", &named), Outcome::Passed);
    let expected = format!("@allow nothing\n{NOISY}<-- {{\"method\":\"notifications/message\"}}\n");
    assert_eq!(run("mcp", &expected), Outcome::Passed);
}

fn a_forbidden_message_fails() {
    let text = format!("@forbid {{\"method\":\"notifications/message\"}}\n{NOISY}");
    let (line, message) = failure(run("mcp", &text));
    assert_eq!(line, 1);
    assert!(message.contains("forbidden"), "{message}");
}

fn text_on_stdout_fails_unless_allowed() {
    let text = "@handshake none\n--> hello\n<-- {\"id\":1}\n";
    let (line, message) = failure(run("echo", text));
    assert_eq!(line, 3);
    assert!(
        message.contains("not JSON") && message.contains("hello"),
        "{message}"
    );
    let text = "@handshake none\n@allow text\n--> hello\n--> {\"id\":1}\n<-- {\"id\":1}\n";
    assert_eq!(run("echo", text), Outcome::Passed);
}

fn values_are_taken_and_used() {
    let text = r#"
--> {"jsonrpc":"2.0","id":"$a","method":"echo","params":{"n":1.50,"s":"a\"b"}}
<-- {"id":"$a","result":{"seen":{"n":"<number as $n>","s":"<string as $s>"}}}
--> {"jsonrpc":"2.0","id":"$b","method":"echo","params":{"n":"$n","t":"<$s>","$schema":"$REVISION"}}
<-- {"id":"$b","result":{"seen":{"n":"$n","t":"<re:^<a\"b>$>","$schema":"2025-06-18"}}}
"#;
    assert_eq!(run("mcp", text), Outcome::Passed);
}

fn alternatives_are_either() {
    let text = r#"
--> {"jsonrpc":"2.0","id":"$a","method":"nope"}
<-- {"id":"$a","result":{"isError":true}}
<or {"id":"$a","error":{"code":-32601}}
"#;
    assert_eq!(run("mcp", text), Outcome::Passed);
    let (line, message) = failure(run("mcp", &text.replace("-32601", "1")));
    assert_eq!(line, 3);
    assert!(message.contains("fits no alternative"), "{message}");
}

fn stateless_requests_get_their_meta() {
    let text = r#"
--> {"jsonrpc":"2.0","id":"$a","method":"echo"}
<-- {"id":"$a","result":{"seen":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}}
"#;
    let modern = |text: &str| run_with("mcp", LIMITS, Revision::V2026_07_28, text);
    assert_eq!(modern(text), Outcome::Passed);
    failure(modern(&format!("@handshake none\n{text}")));
    let own = "@handshake none\n--> {\"id\":1,\"method\":\"echo\",\"params\":{\"_meta\":\"$META\"}}\n\
               <-- {\"id\":1,\"result\":{\"seen\":{\"_meta\":\"$META\"}}}\n";
    assert_eq!(modern(own), Outcome::Passed);
}

fn bytes_pieces_and_lines_without_newline_are_sent() {
    let text = "@handshake none\n@chunks 2\n--> {\"id\":\n       1}\n@no-newline\n--> {\"id\"\n\
                -->hex 3a 32 7d 0a\n<-- {\"id\":1}\n<-- {\"id\":2}\n";
    assert_eq!(run("echo", text), Outcome::Passed);
}

fn the_end_of_input_and_the_exit_are_seen() {
    let text = format!("{EXAMPLE}@close-stdin\n@exit 0 within 20s\n");
    assert_eq!(run("mcp", &text), Outcome::Passed);
    let (line, message) = failure(run("mcp", &text.replace("@exit 0", "@exit 3")));
    assert_eq!(line, 7);
    assert!(message.contains("not with 3"), "{message}");
    let still = "@handshake none\n@allow text\n@close-stdin\n@exit any within 300ms\n";
    let outcome = run_with("ends-on-term", SHORT, Revision::V2025_06_18, still);
    assert!(failure(outcome).1.contains("still runs"));
}

fn an_end_that_nobody_asked_for_fails() {
    let text = "@handshake none\n--> {\"id\":1}\n<-- {\"id\":1}\n";
    let (line, message) = failure(run("exits-at-once", text));
    assert_eq!(line, 3);
    assert!(message.contains("exit status: 3"), "{message}");
    match run("exits-at-once", "--> {\"id\":1}\n<-- {\"id\":1}\n") {
        Outcome::Error(why) => assert!(why.contains("handshake"), "{why}"),
        other => panic!("{other:?}"),
    }
    let mut missing: Launch = launch("mcp");
    missing.program = "/no/such/file".into();
    let mut player = Player::new(&missing, LIMITS, Revision::V2025_06_18);
    let outcome = play(&parse("test", EXAMPLE).unwrap(), &mut player);
    assert!(matches!(outcome, Outcome::Error(why) if why.contains("does not exist")));
}

fn arguments_environment_and_files_reach_the_server() {
    let text = r#"
@handshake none
@args one "two three" $TMP/x
@env SET=$REVISION!
@unset HOME
@file src/main.rs
| fn main() {
|
| }
@file touchstone-marker
@allow nothing
<-- {"set":"2025-06-18!","home":null,"cwd":"<re:touchstone-.*>","args":["one","two three","$TMP/x"],
     "src":"fn main() {\n\n}\n"}
@exit 0 within 20s
"#;
    assert_eq!(run("environment", text), Outcome::Passed);
}

fn a_restart_is_a_new_process() {
    let text = r#"
@args first
--> {"jsonrpc":"2.0","id":"$a","method":"process"}
<-- {"id":"$a","result":{"pid":"<integer as $one>","args":["first"]}}
@args second
@restart kill
--> {"jsonrpc":"2.0","id":"$b","method":"process"}
<-- {"id":"$b","result":{"pid":"<integer as $two>","args":["second"]}}
@restart
--> {"jsonrpc":"2.0","id":"$c","method":"process"}
<-- {"id":"$c","result":{"pid":"$one"}}
"#;
    let (line, message) = failure(run("mcp", text));
    assert_eq!(line, 11);
    assert!(message.starts_with("/result/pid is"), "{message}");
}

fn a_shared_client_goes_on() {
    let launch = launch("mcp");
    let mut client = Client::start(&launch, LIMITS, Revision::V2025_06_18).unwrap();
    client.hello();
    client.initialized();
    let mut player = Player::new(&launch, LIMITS, Revision::V2025_06_18);
    player.shared = Some(&mut client);
    let transcript = parse("test", EXAMPLE).unwrap();
    for _ in 0..3 {
        assert_eq!(play(&transcript, &mut player), Outcome::Passed);
    }
    // A late answer counts against the transcript that asked.
    let late = "--> {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"ping\"}\n";
    let outcome = play(&parse("test", late).unwrap(), &mut player);
    let Outcome::Failed { line, log, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(line, 1);
    assert_eq!(play(&transcript, &mut player), Outcome::Passed);
    assert!(player.ended.is_empty());
    assert!(log.end <= client.log().len());
    assert!(client.barrier());
}

fn what_the_server_lacks_makes_it_not_applicable() {
    let lacks = |text: &str| match run("exits-at-once", text) {
        Outcome::NotApplicable(why) => why,
        other => panic!("{other:?}"),
    };
    assert!(lacks("@requires tool compile\n--> {}\n").contains("no tool `compile`"));
    assert!(lacks("@requires capability tools\n--> {}\n").contains("no capability `tools`"));
    assert!(lacks("@revision 2026-07-28\n--> {}\n").contains("2025-06-18 is spoken"));
}

fn requests_from_the_server_are_answered_as_told() {
    let ask = "--> {\"jsonrpc\":\"2.0\",\"id\":\"$a\",\"method\":\"roots/list\"}\n";
    let told = format!(
        "@handshake none\n@declare {{\"roots\":{{}}}}\n@answer roots/list {{\"roots\":[7]}}\n{ask}\
         <-- {{\"id\":\"$a\",\"result\":{{\"result\":{{\"roots\":[7]}}}}}}\n"
    );
    assert_eq!(run("asks", &told), Outcome::Passed);
    let by_hand = format!(
        "@handshake none\n@answer none\n{ask}<-- {{\"method\":\"roots/list\",\"id\":\"<any as $r>\"}}\n\
         --> {{\"jsonrpc\":\"2.0\",\"id\":\"$r\",\"result\":{{\"mine\":1}}}}\n\
         <-- {{\"id\":\"$a\",\"result\":{{\"result\":{{\"mine\":1}}}}}}\n"
    );
    assert_eq!(run("asks", &by_hand), Outcome::Passed);
    // Nothing was declared: the server has no business to ask.
    let undeclared = format!("@handshake none\n{ask}<-- {{\"id\":\"$a\"}}\n");
    assert!(
        failure(run("asks", &undeclared))
            .1
            .contains("no line expects")
    );
}

fn silence_is_broken_by_an_answer() {
    let text = "--> {\"jsonrpc\":\"2.0\",\"method\":\"ping\"}\n@silence 100ms\n";
    assert_eq!(run("mcp", text), Outcome::Passed);
    let text = "--> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n@silence 20s\n";
    // The answer is told at the end of the time.
    let text = text.replace("20s", "1500ms");
    assert_eq!(failure(run("mcp", &text)).0, 2);
}

fn update_writes_what_was_said() {
    let launch = launch("mcp");
    let text = r#"# Kept.
--> {"jsonrpc":"2.0","id":"$a","method":"nope"}
<-- {"id":"$a","error":{"code":1,"message":"<string>","data":5}}
--> {"jsonrpc":"2.0","id":"$b","method":"ping"}
<--
--> {"jsonrpc":"2.0","id":"$c","method":"echo","params":{"x":"<$$>"}}
# Also kept.
<-- {"id":"$c","result":{"seen":
      "<object>"}}
<-- {"id":"never"}
--> {"jsonrpc":"2.0","id":"$d","method":"ping"}
"#;
    let updated = r#"# Kept.
--> {"jsonrpc":"2.0","id":"$a","method":"nope"}
<-- {"id":"$a","error":{"code":-32601,"message":"<string>"}}
--> {"jsonrpc":"2.0","id":"$b","method":"ping"}
<-- {"jsonrpc":"2.0","id":"$b","result":{}}
--> {"jsonrpc":"2.0","id":"$c","method":"echo","params":{"x":"<$$>"}}
# Also kept.
<-- {"id":"$c","result":{"seen":
      "<object>"}}
--> {"jsonrpc":"2.0","id":"$d","method":"ping"}
<-- {"jsonrpc":"2.0","id":"$d","result":{}}
"#;
    let mut player = Player::new(&launch, LIMITS, Revision::V2025_06_18);
    player.limits.request = Duration::from_secs(3);
    let transcript = parse("test", text).unwrap();
    let first = update(&transcript, &mut player).unwrap();
    assert_eq!(first, updated);
    // It passes now, and stays as it is.
    let transcript = parse("test", &first).unwrap();
    assert_eq!(play(&transcript, &mut player), Outcome::Passed);
    assert_eq!(update(&transcript, &mut player).unwrap(), updated);
}

fn a_record_plays_again() {
    for revision in [Revision::V2025_06_18, Revision::V2026_07_28] {
        let mut client = Client::start(&launch("mcp"), LIMITS, revision).unwrap();
        client.hello();
        client.initialized();
        let start = client.log().len();
        client.request("echo", Some(serde_json::json!({"a": "$b", "c": "<d>"})));
        client.request("noisy", None);
        client.send(b"\xff\n");
        client.request("ping", None);
        let header = Header {
            checks: vec!["a.b".into()],
            revision,
            about: "What was seen.".into(),
        };
        for part in [client.log(), &client.log()[start..]] {
            let text = record(part, &header);
            let transcript = parse("record", &text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(transcript.checks, ["a.b"]);
            assert!(transcript.rejudge);
            let launch = launch("mcp");
            let mut player = Player::new(&launch, LIMITS, revision);
            assert_eq!(play(&transcript, &mut player), Outcome::Passed, "{text}");
            // The same was sent and said, apart from the handshake.
            let sent = |log: &[touchstone::wire::Entry]| {
                let text = record(log, &header);
                let from = text.rfind("\"echo\"").unwrap();
                text[from..].to_owned()
            };
            let without_end = |text: String| text.replace("@close-stdin\n", "");
            let played = without_end(sent(&player.ended[0].log));
            let played = played.split("# The server ended").next().unwrap();
            assert_eq!(played, sent(part));
        }
    }
}
