//! Tests: their results, the seed, budgets, and the network that they do not have.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};

use serde_json::{Map, Value, json};

use super::look;
use super::pack::{Single, with_port};
use super::server::{Host, Said, Server};
use super::{Done, Profile};

/// A port of this machine that tells whether anyone called.
pub(super) struct Ear {
    listener: TcpListener,
    pub(super) port: u16,
}

impl Ear {
    pub(super) fn open() -> Result<Ear, String> {
        let open = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            let port = listener.local_addr()?.port();
            Ok(Ear { listener, port })
        };
        open().map_err(|error: std::io::Error| format!("no port to listen at: {error}"))
    }

    /// Whether somebody connected since the last time.
    pub(super) fn heard(&self) -> bool {
        match self.listener.accept() {
            Ok(_) => true,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// The tests of a result.
fn results(run: &Value) -> Result<&Vec<Value>, String> {
    look::list_with(run, "status")
        .ok_or_else(|| "`test` gives no list of results with `status`".into())
}

/// The result of that test.
fn result_of<'a>(run: &'a Value, name: &str) -> Result<&'a Value, String> {
    let found = results(run)?.iter().find(|r| look::is_about(r, name));
    found.ok_or_else(|| format!("`test` gives no result for `{name}`"))
}

fn status<'a>(run: &'a Value, name: &str) -> Result<&'a Value, String> {
    Ok(result_of(run, name)?.get("status").unwrap_or(&Value::Null))
}

/// What became of each test, in order.
pub(super) fn statuses(run: &Value) -> Result<Vec<Value>, String> {
    let status = |r: &Value| r.get("status").cloned().unwrap_or_default();
    Ok(results(run)?.iter().map(status).collect())
}

/// The snapshot with the tests of the pack, in a process of its own.
fn prepared(profile: &Profile<'_>, path: &str, text: &str) -> Result<(Server, String), String> {
    let mut server = profile.start(Host::default())?;
    let base = server.head()?;
    let snapshot = server.with_file(&base, path, text)?;
    Ok((server, snapshot))
}

pub(super) fn run(profile: &mut Profile<'_>) -> Done {
    let tests = profile.pack.tests.clone();
    let (mut server, snapshot) = prepared(profile, &tests.path, &tests.text)?;
    let seeded = json!({"snapshot": snapshot, "seed": 7});
    let run = server.good("test", &seeded)?;
    let again = server.good("test", &seeded)?;
    let (mut other, _) = prepared(profile, &tests.path, &tests.text)?;
    let elsewhere = other.good("test", &seeded)?;
    other.stop(profile.options);
    let same = [&again, &elsewhere]
        .iter()
        .all(|other| look::timeless(other) == look::timeless(&run));
    profile.rule("test.repeatable", same, &server, || {
        "The same snapshot and seed gave other results, in the same process or in another."
            .to_owned()
    });
    contents(profile, &server, &run)?;
    seed(profile, &mut server, &snapshot, &run)?;
    selectors(profile, &mut server, &snapshot)?;
    server.stop(profile.options);
    Ok(())
}

/// What each result tells.
fn contents(profile: &mut Profile<'_>, server: &Server, run: &Value) -> Done {
    let tests = profile.pack.tests.clone();
    let of = |names: &[String]| -> Result<Vec<Value>, String> {
        names
            .iter()
            .map(|name| status(run, name).cloned())
            .collect()
    };
    let (good, bad) = (of(&tests.passing)?, of(&tests.failing)?);
    let told = good.windows(2).all(|w| w[0] == w[1]) && bad.iter().all(|s| !good.contains(s));
    profile.rule("test.status", told, server, || {
        format!("Tests that hold have the status {good:?}, others {bad:?}.")
    });
    let steps = results(run)?.iter().all(has_steps);
    profile.rule("test.steps", steps, server, || {
        "A result does not tell how many steps were used.".to_owned()
    });
    let failed = result_of(run, &tests.assertion)?;
    let mut report = failed.clone();
    if let Some(members) = report.as_object_mut() {
        members.retain(|name, _| !["name", "id"].contains(&name.as_str()));
    }
    let shown = look::unmentioned(&report, &tests.assertion_mentions).is_none()
        || lines(&report).contains(&line_of(&tests.text, &tests.assertion_mentions));
    profile.rule("test.assertion", shown, server, || {
        format!(
            "The result of `{}` does not show the assertion that fails.",
            tests.assertion
        )
    });
    let failed = result_of(run, &tests.property)?;
    let (least, most) = tests.counterexample;
    let example = failed.get("counterexample").unwrap_or(&Value::Null);
    let small = look::numbers(example)
        .iter()
        .any(|n| (least..=most).contains(n));
    profile.rule("test.counterexample", small, server, || {
        format!(
            "The counterexample of `{}` is {example}; a shrunk one is between {least} and {most}.",
            tests.property
        )
    });
    Ok(())
}

fn has_steps(result: &Value) -> bool {
    let members: Option<&Map<String, Value>> = result.as_object();
    members.is_some_and(|members| {
        members
            .iter()
            .any(|(name, value)| name.to_lowercase().contains("step") && value.is_u64())
    })
}

/// Every `line` in the value.
fn lines(value: &Value) -> Vec<u64> {
    match value {
        Value::Array(items) => items.iter().flat_map(lines).collect(),
        Value::Object(members) => {
            let own = members.get("line").and_then(Value::as_u64);
            own.into_iter()
                .chain(members.values().flat_map(lines))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The line of the text that holds the last of these, from 1.
fn line_of(text: &str, mentions: &[String]) -> u64 {
    let wanted = mentions.last().map_or("", String::as_str);
    let at = text.lines().position(|line| line.contains(wanted));
    at.map_or(0, |at| at as u64 + 1)
}

/// The seed is told; one that the server chose can be given back.
fn seed(profile: &mut Profile<'_>, server: &mut Server, snapshot: &str, run: &Value) -> Done {
    let told = run.get("seed");
    profile.rule("test.seed", told == Some(&json!(7)), server, || {
        format!("With the seed 7 the result says {told:?}.")
    });
    let free = server.good("test", &json!({"snapshot": snapshot}))?;
    let chosen = free.get("seed").cloned().unwrap_or_default();
    let arguments = json!({"snapshot": snapshot, "seed": chosen});
    let said = server.call("test", &arguments);
    let same =
        matches!(&said, Said::Result(again) if look::timeless(again) == look::timeless(&free));
    profile.rule("test.seed", same, server, || {
        format!("The seed {chosen} that a run without one told does not repeat it.")
    });
    Ok(())
}

/// The names of two tests select these two. What else a selector may be is the server's own.
fn selectors(profile: &mut Profile<'_>, server: &mut Server, snapshot: &str) -> Done {
    let wanted: Vec<String> = profile.pack.tests.passing.clone();
    let said = server.call(
        "test",
        &json!({"snapshot": snapshot, "selectors": wanted, "seed": 1}),
    );
    let Said::Result(run) = &said else {
        profile.judge.note(
            "workspace.test.selectors",
            format!("A test's name is no selector here: {}.", said.describe()),
        );
        return Ok(());
    };
    let found = results(run)?;
    let right = found.len() == wanted.len()
        && found
            .iter()
            .all(|r| wanted.iter().any(|name| look::is_about(r, name)));
    profile.rule("test.selectors", right, server, || {
        format!(
            "{} tests were selected by name; {} were run.",
            wanted.len(),
            found.len()
        )
    });
    Ok(())
}

/// Programs without an end, and one that wants much memory.
pub(super) fn budgets(profile: &mut Profile<'_>) -> Done {
    let pack = profile.pack.clone();
    for (rule, program) in [
        ("test.budget-steps", &pack.endless),
        ("test.budget-memory", &pack.greedy),
    ] {
        let (mut server, snapshot) = prepared(profile, &program.path, &program.text)?;
        let said = server.call("test", &json!({"snapshot": snapshot, "seed": 1}));
        let ended = match &said {
            Said::Result(run) => is_told(run, program)?,
            _ => false,
        };
        profile.rule(rule, ended, &server, || {
            format!(
                "`{}` did not end with its budget while the others pass: {}.",
                program.test,
                said.describe()
            )
        });
        server.stop(profile.options);
    }
    Ok(())
}

/// Whether the test is told not to pass, and the others to pass.
fn is_told(run: &Value, program: &Single) -> Result<bool, String> {
    let bad = status(run, &program.test)?;
    for name in &program.others {
        if status(run, name)? == bad {
            return Ok(false);
        }
    }
    // A run that passes says so in a word that begins so in any server's English.
    let word = bad.as_str().unwrap_or_default().to_lowercase();
    Ok(!["pass", "ok", "success"]
        .iter()
        .any(|good| word.starts_with(good)))
}

/// Arguments that no contract has, each a way to ask for authority.
pub(super) fn demands() -> [(&'static str, Value); 5] {
    [
        ("permissions", json!({"http": true, "Http": true})),
        ("grants", json!(["Http", "http"])),
        ("effects", json!(["Http"])),
        ("allow_network", json!(true)),
        ("handlers", json!({"http": "real"})),
    ]
}

/// The network is denied, whatever a call asks for.
pub(super) fn network(profile: &mut Profile<'_>) -> Done {
    let program = profile.pack.network.clone();
    let ear = Ear::open()?;
    let text = with_port(&program.text, ear.port);
    let (mut server, snapshot) = prepared(profile, &program.path, &text)?;
    let mut calls: Vec<(&str, BTreeMap<&str, Value>)> = vec![("test.network", BTreeMap::new())];
    for (name, value) in demands() {
        calls.push(("authority", BTreeMap::from([(name, value.clone())])));
        let inside = Value::Object(Map::from_iter([(name.to_owned(), value)]));
        calls.push(("authority", BTreeMap::from([("budget", inside)])));
    }
    for (rule, more) in calls {
        let mut arguments = json!({"snapshot": snapshot, "seed": 1});
        for (name, value) in &more {
            arguments[*name] = value.clone();
        }
        let said = server.call("test", &arguments);
        let denied = match &said {
            Said::Result(run) => is_told(run, &program)?,
            Said::ToolError(_) | Said::Refused(_) => !more.is_empty(),
            Said::Nothing(_) => false,
        };
        let called = ear.heard();
        profile.rule(rule, denied && !called, &server, || {
            let did = if called {
                "reached the network"
            } else {
                "was not denied the network"
            };
            format!(
                "A test {did}, called with {arguments}: {}.",
                said.describe()
            )
        });
    }
    server.stop(profile.options);
    Ok(())
}
