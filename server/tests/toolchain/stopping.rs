//! The end of children: limits, cancellation, crashes, and what they leave.

use std::thread;
use std::time::Duration;

use serde_json::json;
use touchstone_server::protocol::family::{Family, Outcome};

use crate::bench::{Bench, ENTRY, Signal, await_that, is_held, script_tree};

/// A script that starts a grandchild which holds a lock, then goes on.
fn with_grandchild(bench: &Bench, rest: &str) -> String {
    format!(
        "print begun\ngrandchild 600000 {}\n{rest}",
        bench.path("grandchild").display()
    )
}

#[test]
fn past_its_time_a_program_is_killed_with_all_it_started() {
    let bench = Bench::with(|settings| settings.limits.timeout = Duration::from_secs(2));
    let result = bench.run_script(&with_grandchild(&bench, "hang"));
    assert_eq!(result["exitStatus"], 137);
    assert_eq!(result["stdout"], "begun\n");
    assert_eq!(
        result["notes"],
        json!(["Killed after 2 s, the time limit (--exec-timeout)."])
    );
    await_that("the grandchild is gone", || {
        !is_held(&bench.path("grandchild"))
    });
    assert!(bench.path("grandchild").exists());
}

#[test]
fn a_compilation_past_its_time_is_killed_too() {
    let bench = Bench::with(|settings| settings.limits.timeout = Duration::from_secs(1));
    let files = json!({"demo/Main.scripted": "on compile\neprint begun\nhang\non run run"});
    let result = bench.compile(files, ENTRY);
    assert_eq!(result["exitStatus"], 137);
    assert_eq!(result["diagnostics"], json!(["begun"]));
    assert_eq!(result.get("artifact"), None);
}

#[test]
fn what_a_program_leaves_running_is_killed_when_it_ends() {
    let bench = Bench::new();
    let result = bench.run_script(&with_grandchild(&bench, "exit 7"));
    assert_eq!(result["exitStatus"], 7);
    assert_eq!(result.get("notes"), None);
    await_that("the grandchild is gone", || {
        !is_held(&bench.path("grandchild"))
    });
}

#[test]
fn a_process_that_left_the_group_and_keeps_the_pipes_holds_nothing_up() {
    let bench = Bench::new();
    let lock = bench.path("lock");
    let result = bench.run_script(&format!("print a\nescape 8000 {}\nexit 7", lock.display()));
    assert_eq!(result["exitStatus"], 7);
    assert_eq!(result["stdout"], "a\n");
    assert!(is_held(&lock), "the call did not wait for it");
}

#[test]
fn on_cancellation_the_whole_group_is_killed() {
    let bench = Bench::new();
    let script = with_grandchild(
        &bench,
        &format!("lock {}\nhang", bench.path("lock").display()),
    );
    let arguments = json!({"files": script_tree(&script), "entry": ENTRY});
    let signal = Signal::new();
    thread::scope(|scope| {
        let caller = scope.spawn(|| {
            bench
                .toolchain
                .call("jit_execute", arguments.as_object().unwrap(), &signal.call)
        });
        await_that("the program runs", || is_held(&bench.path("lock")));
        signal.cancel();
        let outcome = caller.join().unwrap();
        assert!(matches!(&outcome, Outcome::Internal(why) if why.contains("cancelled")));
    });
    await_that("all are gone", || {
        !is_held(&bench.path("lock")) && !is_held(&bench.path("grandchild"))
    });
    assert!(bench.left_behind().is_empty());
    assert!(bench.entries().is_empty());
}

#[test]
fn a_skill_command_can_be_cancelled() {
    let bench = Bench::new();
    let arguments = json!({"name": format!("!lock {}; hang", bench.path("lock").display())});
    let signal = Signal::new();
    thread::scope(|scope| {
        let caller = scope.spawn(|| {
            bench
                .toolchain
                .call("searchSkills", arguments.as_object().unwrap(), &signal.call)
        });
        await_that("the command runs", || is_held(&bench.path("lock")));
        signal.cancel();
        assert!(matches!(caller.join().unwrap(), Outcome::Internal(_)));
    });
    await_that("it is gone", || !is_held(&bench.path("lock")));
}

#[test]
fn when_the_server_stops_all_groups_are_killed_and_no_other_starts() {
    let bench = Bench::new();
    let lock = |number: u8| bench.path(&format!("lock-{number}"));
    thread::scope(|scope| {
        let callers: Vec<_> = (0..2)
            .map(|number| {
                let script = format!("lock {}\nhang", lock(number).display());
                let arguments = json!({"files": script_tree(&script), "entry": ENTRY});
                let bench = &bench;
                scope.spawn(move || {
                    let call = Signal::new().call;
                    bench
                        .toolchain
                        .call("jit_execute", arguments.as_object().unwrap(), &call)
                })
            })
            .collect();
        await_that("both run", || is_held(&lock(0)) && is_held(&lock(1)));
        while !bench.toolchain.stop() {}
        assert!(
            bench.left_behind().is_empty(),
            "after stop nothing is left to do"
        );
        assert!(!is_held(&lock(0)) && !is_held(&lock(1)));
        for caller in callers {
            assert!(matches!(caller.join().unwrap(), Outcome::Internal(_)));
        }
    });
    let outcome = bench.outcome("listSkills", json!({}));
    assert!(matches!(outcome, Outcome::Internal(_)), "{outcome:?}");
}

#[test]
fn an_end_by_a_signal_is_a_result_that_says_so() {
    let bench = Bench::new();
    for (name, number) in [("ABRT", 6), ("SEGV", 11), ("KILL", 9), ("TERM", 15)] {
        let result = bench.run_script(&format!("print before\ncrash {name}"));
        assert_eq!(result["exitStatus"], 128 + number, "{name}");
        assert_eq!(result["returnValue"], 128 + number);
        assert_eq!(result["stdout"], "before\n");
        assert_eq!(
            result["notes"],
            json!([format!("Died by signal {number}.")])
        );
    }
}

#[test]
fn a_rust_program_is_killed_with_the_compiler_driver() {
    let bench = Bench::rust();
    let lock = bench.path("lock");
    let source = format!(
        "pub fn run() -> i32 {{
             let file = std::fs::File::create({lock:?}).unwrap();
             file.lock().unwrap();
             loop {{ std::thread::park(); }}
         }}"
    );
    let files = json!({"demo/main.rs": source});
    let arguments = json!({"files": files, "entry": "demo.main.run"});
    let signal = Signal::new();
    thread::scope(|scope| {
        let caller = scope.spawn(|| {
            bench
                .toolchain
                .call("jit_execute", arguments.as_object().unwrap(), &signal.call)
        });
        await_that("the program runs", || is_held(&lock));
        signal.cancel();
        assert!(matches!(caller.join().unwrap(), Outcome::Internal(_)));
    });
    await_that("it is gone", || !is_held(&lock));
    assert!(bench.left_behind().is_empty());
}

#[test]
fn a_rust_program_that_dies_by_a_signal_is_told_as_such() {
    let bench = Bench::rust();
    let source = "pub fn run() -> i32 { std::process::abort() }";
    let result = bench.run(json!({"demo/main.rs": source}), "demo.main.run");
    assert_eq!(result["exitStatus"], 134);
    assert_eq!(result["notes"], json!(["Died by signal 6."]));
    assert!(bench.entries().is_empty());
}
