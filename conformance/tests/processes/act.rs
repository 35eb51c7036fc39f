//! The programs that the tests start: each misbehaves in its own way.

use std::io::{BufRead, Read, Write, stderr, stdin, stdout};
use std::process::{Command, Stdio, exit};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use touchstone::wire::{Child, Launch};

/// How to start an act.
pub(crate) fn launch(name: &str) -> Launch {
    Launch {
        program: std::env::current_exe().expect("our own path").into(),
        args: vec!["--act".into(), name.into()],
        env: vec![],
        cwd: None,
        inherit_home: false,
    }
}

const FOREVER: Duration = Duration::from_secs(1000);

// Leaving a child behind is what some of them are for.
#[allow(clippy::zombie_processes)]
pub(crate) fn act(name: &str) {
    match name {
        "exits-at-once" => exit(3),
        "never-answers" => read_to_end(),
        "closes-stdout" => {
            rustix::stdio::dup2_stdout(std::fs::File::open("/dev/null").unwrap()).unwrap();
            read_to_end();
        }
        "floods-stderr" => {
            let line = [b'e'; 1023];
            for _ in 0..10 * 1024 {
                stderr().write_all(&line).unwrap();
                stderr().write_all(b"\n").unwrap();
            }
            echo();
        }
        "floods-stdout" => loop {
            if stdout().write_all(&b"y\n".repeat(4096)).is_err() {
                return;
            }
        },
        "speaks-on-stderr-at-its-end" => {
            say("ready\n");
            read_to_end();
            eprintln!("the reason");
            exit(1);
        }
        "kills-all" => {
            let mut child = Child::spawn(&launch("ignores-everything")).unwrap();
            child.receive(std::time::Instant::now() + FOREVER);
            touchstone::wire::kill_all();
            let status = child.wait(std::time::Instant::now() + FOREVER);
            let folder = child.folder();
            let again = Child::spawn(&launch("echo")).unwrap_err().message;
            say(&format!(
                "{}\n",
                json!([status.unwrap().to_string(), folder, again])
            ));
            // As an interrupted suite does: nothing is dropped.
            exit(0);
        }
        "ignores-everything" => {
            ignore_term();
            say("ready\n");
            sleep(FOREVER);
        }
        "spins" => {
            say("ready\n");
            loop {
                std::hint::spin_loop();
            }
        }
        "ends-on-term" => {
            say("ready\n");
            sleep(FOREVER);
        }
        "forks" | "forks-away" => {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--act", "ignores-everything-quietly"]);
            command.stdin(Stdio::inherit());
            if name == "forks-away" {
                use std::os::unix::process::CommandExt;
                command.process_group(0);
            }
            let child = command.spawn().unwrap();
            say(&format!("{}\n", child.id()));
            read_to_end();
        }
        "ignores-everything-quietly" => {
            ignore_term();
            // Long enough to be in the way, short enough to leave nothing behind.
            sleep(Duration::from_secs(30));
        }
        "half-a-line" => {
            say(r#"{"jsonrpc":"2.0","#);
            read_to_end();
        }
        "long-line" => {
            say(&format!("\"{}\"\n", "x".repeat(50 << 20)));
            echo();
        }
        "too-long-line" => {
            for _ in 0..70 {
                say(&"x".repeat(1 << 20));
            }
            say("\nnext\n");
            read_to_end();
        }
        "not-utf8" => {
            stdout().write_all(b"{\"a\":\"\xff\xfe\"}\n").unwrap();
            echo();
        }
        "starts-slowly" => {
            sleep(Duration::from_millis(1500));
            mcp(|_, answer| answer);
        }
        "does-not-read" => sleep(FOREVER),
        "echo" => echo(),
        "mcp" => mcp(|_, answer| answer),
        "ping-with-wrong-id" => mcp(|request, mut answer| {
            if request["method"] == "ping" {
                answer["id"] = answer["id"].to_string().into();
            }
            answer
        }),
        "deaf-to-ping" => mcp(|request, answer| match request["method"] == "ping" {
            true => Value::Null,
            false => answer,
        }),
        "asks" => asks(),
        "wayward" => crate::wayward::run(),
        "environment" => {
            let of = |name: &str| std::env::var(name).ok();
            let cwd = std::env::current_dir().unwrap();
            let args: Vec<String> = std::env::args().skip(3).collect();
            let seen = json!({
                "cwd": cwd, "home": of("HOME"), "set": of("SET"), "unset": of("UNSET"),
                "xdg": of("XDG_CONFIG_HOME"), "args": args,
                "src": std::fs::read_to_string("src/main.rs").ok(),
            });
            say(&format!("{seen}\n"));
        }
        other => match other.strip_prefix("generated-") {
            Some(fault) => crate::generated::serve(fault),
            None => panic!("no act is called {other}"),
        },
    }
}

fn say(text: &str) {
    stdout().write_all(text.as_bytes()).unwrap();
    stdout().flush().unwrap();
}

fn read_to_end() {
    let _ = stdin().read_to_end(&mut Vec::new());
}

/// A shell that ignores TERM would be simpler, but not every machine has one.
fn ignore_term() {
    use signal_hook::consts::{SIGHUP, SIGTERM};
    let flag = std::sync::Arc::default();
    signal_hook::flag::register(SIGTERM, std::sync::Arc::clone(&flag)).unwrap();
    signal_hook::flag::register(SIGHUP, flag).unwrap();
}

fn echo() {
    for line in stdin().lock().split(b'\n') {
        let mut line = line.unwrap();
        line.push(b'\n');
        stdout().write_all(&line).unwrap();
        stdout().flush().unwrap();
    }
}

/// A small server, healthy but for what `spoil` does to its answers.
fn mcp(spoil: fn(&Value, Value) -> Value) {
    for line in stdin().lock().split(b'\n') {
        let Ok(request) = serde_json::from_slice::<Value>(&line.unwrap()) else {
            continue;
        };
        let answer = answer(&request).map(|answer| spoil(&request, answer));
        if let Some(answer) = answer.filter(Value::is_object) {
            say(&format!("{answer}\n"));
        }
    }
}

fn answer(request: &Value) -> Option<Value> {
    let id = request.get("id")?;
    let params = &request["params"];
    let result = match request["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "act", "version": "1.0"},
        }),
        "server/discover" => json!({"resultType": "complete", "seen": params}),
        "ping" => json!({}),
        "echo" => json!({"seen": params}),
        "process" => {
            let args: Vec<String> = std::env::args().skip(3).collect();
            json!({"pid": std::process::id(), "args": args})
        }
        // Said before the answer, as many servers do.
        "noisy" => {
            say(
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n",
            );
            json!({"noisy": true})
        }
        "silent" => return None,
        method => {
            let error = json!({"code": -32601, "message": format!("no {method}")});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Holds back the answer to each request until its own request was answered.
fn asks() {
    let mut held = None;
    for line in stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match message.get("method").and_then(Value::as_str) {
            Some(method) if message.get("id").is_some() => {
                held = Some(message["id"].clone());
                say(&format!(
                    "{}\n",
                    json!({"jsonrpc": "2.0", "id": 1, "method": method})
                ));
            }
            Some(_) => {}
            None => {
                let answer = json!({"jsonrpc": "2.0", "id": held.take(), "result": message});
                say(&format!("{answer}\n"));
            }
        }
    }
}
