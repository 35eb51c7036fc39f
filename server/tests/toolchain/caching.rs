//! The execution cache, as callers see it.

use std::fs;
use std::process::Command;
use std::sync::Barrier;
use std::thread;

use proptest::prelude::*;
use serde_json::{Value, json};
use touchstone_server::protocol::family::{Family, Outcome};

use crate::bench::{Bench, ENTRY, Signal, await_that, is_held, script_tree, scripted, without_hit};

/// How many lines programs have appended to a file of the bench.
fn count(bench: &Bench) -> usize {
    fs::read_to_string(bench.path("count"))
        .unwrap_or_default()
        .lines()
        .count()
}

/// A directive that makes a run leave a mark.
fn mark(bench: &Bench) -> String {
    format!("append {} x\n", bench.path("count").display())
}

#[test]
fn an_equal_request_is_answered_without_work_also_after_a_restart() {
    let mut bench = Bench::new();
    let files = script_tree(&format!("{}print hello\nexit 7", mark(&bench)));
    let (first, hit) = without_hit(bench.run(files.clone(), ENTRY));
    assert!(!hit);
    let (second, hit) = without_hit(bench.run(files.clone(), ENTRY));
    assert!(hit);
    assert_eq!(first, second);
    bench.restart();
    let (third, hit) = without_hit(bench.run(files, ENTRY));
    assert!(hit);
    assert_eq!(first, third);
    assert_eq!(count(&bench), 1);
    let good = script_tree("exit 1");
    let (one, _) = without_hit(bench.compile(good.clone(), ENTRY));
    let (two, hit) = without_hit(bench.compile(good, ENTRY));
    assert!(hit);
    assert_eq!(one, two);
}

#[test]
fn an_entry_is_the_result_without_cache_hit_in_a_file_named_by_its_key() {
    let bench = Bench::new();
    let (result, _) = without_hit(bench.run_script("exit 7"));
    let entries: Vec<_> = bench.entries().into_iter().collect();
    let [(name, content)] = entries.as_slice() else {
        panic!("{entries:?}")
    };
    assert_eq!(name.len(), 64);
    assert!(name.bytes().all(|byte| b"0123456789abcdef".contains(&byte)));
    let kept: Value = serde_json::from_slice(content).unwrap();
    assert_eq!(kept, Value::Object(result));
}

#[test]
fn a_change_of_anything_is_a_miss() {
    let bench = Bench::new();
    let main = "on run run\nexit 1\non run other\nexit 2\n";
    let miss = |tool: &str, files: Value, entry: &str| {
        let request = json!({"files": files, "entry": entry});
        assert_eq!(
            bench.result(tool, request.clone())["cacheHit"],
            false,
            "{request}"
        );
        assert_eq!(bench.result(tool, request)["cacheHit"], true);
    };
    miss("jit_execute", json!({"demo/Main.scripted": main}), ENTRY);
    miss("compile", json!({"demo/Main.scripted": main}), ENTRY);
    miss(
        "jit_execute",
        json!({"demo/Main.scripted": main}),
        "demo.Main.other",
    );
    miss(
        "jit_execute",
        json!({"demo/Main.scripted": format!("{main}#")}),
        ENTRY,
    );
    miss(
        "jit_execute",
        json!({"demo/Main.scripted": main, "a.txt": ""}),
        ENTRY,
    );
    miss(
        "jit_execute",
        json!({"demo/Main.scripted": main, "b.txt": ""}),
        ENTRY,
    );
    miss(
        "jit_execute",
        json!({"demo/Main.scripted": main, "b.txt": "x"}),
        ENTRY,
    );
}

#[test]
fn another_toolchain_or_another_content_of_it_is_a_miss() {
    let mut bench = Bench::new();
    let copy = bench.path("copy");
    fs::copy(scripted(), &copy).unwrap();
    let hit = |bench: &Bench| bench.run_script("exit 7")["cacheHit"] == true;
    assert!(!hit(&bench));
    bench.settings.compiler = Some(copy.clone());
    bench.restart();
    assert!(!hit(&bench), "another path");
    assert!(hit(&bench));
    let mut content = fs::read(&copy).unwrap();
    content.push(b'\n');
    // Not in place: it may be running.
    fs::write(bench.path("new"), content).unwrap();
    fs::set_permissions(
        bench.path("new"),
        fs::metadata(&copy).unwrap().permissions(),
    )
    .unwrap();
    fs::rename(bench.path("new"), &copy).unwrap();
    assert!(!hit(&bench), "another content, seen while the server runs");
    assert!(hit(&bench));
    bench.restart();
    assert!(hit(&bench));
}

#[test]
fn a_failure_is_kept_as_well() {
    let bench = Bench::new();
    for script in ["frobnicate", "exit 3"] {
        let (first, _) = without_hit(bench.run_script(script));
        let (second, hit) = without_hit(bench.run_script(script));
        assert!(hit, "{script}");
        assert_eq!(first, second);
    }
}

#[test]
fn an_entry_past_its_time_is_a_miss() {
    let bench = Bench::with(|settings| settings.cache.ttl = 100);
    bench.run_script("exit 7");
    for (age, hit) in [(95, true), (105, false), (95, true)] {
        let name = bench.entries().into_keys().next().unwrap();
        let file = fs::File::open(bench.settings.cache.dir.join(name)).unwrap();
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        file.set_modified(old).unwrap();
        assert_eq!(bench.run_script("exit 7")["cacheHit"], hit, "{age}");
    }
}

#[test]
fn the_least_recently_used_request_is_forgotten_first() {
    let bench = Bench::with(|settings| settings.cache.max_entries = 2);
    let hit = |code: u8| bench.run_script(&format!("exit {code}"))["cacheHit"] == true;
    assert!(!hit(1) && !hit(2) && hit(1) && !hit(3));
    assert_eq!(bench.entries().len(), 2);
    assert!(hit(1) && hit(3) && !hit(2));
    assert_eq!(bench.entries().len(), 2);
}

#[test]
fn the_results_together_keep_to_max_bytes() {
    let bench = Bench::with(|settings| settings.cache.max_bytes = 2000);
    for code in 0..20 {
        bench.run_script(&format!("flood stdout 300\nexit {code}"));
        let bytes: usize = bench.entries().values().map(Vec::len).sum();
        assert!(bytes <= 2000);
    }
    assert!(bench.entries().len() >= 3);
    bench.run_script("flood stdout 3000");
    assert_eq!(
        bench.run_script("flood stdout 3000")["cacheHit"],
        false,
        "too large to keep"
    );
}

#[test]
fn without_a_cache_everything_is_done_anew() {
    let bench = Bench::with(|settings| settings.cache.enabled = false);
    let files = script_tree(&mark(&bench));
    for _ in 0..2 {
        assert_eq!(bench.run(files.clone(), ENTRY)["cacheHit"], false);
    }
    assert_eq!(count(&bench), 2);
    assert!(!bench.settings.cache.dir.exists());
}

#[test]
fn a_folder_that_cannot_be_written_leaves_the_tools_working() {
    let bench = Bench::with(|settings| {
        let file = settings.temp.with_file_name("file");
        fs::write(&file, "").unwrap();
        settings.cache.dir = file.join("cache");
    });
    for _ in 0..3 {
        let result = bench.run_script("exit 7");
        assert_eq!(
            (&result["exitStatus"], &result["cacheHit"]),
            (&json!(7), &json!(false))
        );
    }
}

#[test]
fn what_was_killed_cut_or_crashed_is_not_kept() {
    let bench = Bench::with(|settings| {
        settings.limits.max_output = 1000;
        settings.limits.timeout = std::time::Duration::from_millis(1500);
    });
    for script in [
        "flood stdout 1001",
        "flood stderr 1001",
        "crash ABRT",
        "crash SEGV",
        "hang",
    ] {
        let result = bench.run_script(script);
        assert!(result["notes"].is_array(), "{script}");
        assert!(bench.entries().is_empty(), "{script}");
    }
}

#[test]
fn equal_requests_at_once_are_worked_on_once() {
    let bench = Bench::new();
    let lock = bench.path("lock");
    let gate = bench.path("gate");
    fs::write(&gate, "").unwrap();
    let held = fs::File::open(&gate).unwrap();
    held.lock().unwrap();
    // The program waits at the gate until all have asked.
    let script = format!(
        "{}lock {}\nlock {}",
        mark(&bench),
        lock.display(),
        gate.display()
    );
    let arguments = json!({"files": script_tree(&script), "entry": ENTRY});
    let asked = Barrier::new(4);
    let hits = thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    asked.wait();
                    let call = Signal::new().call;
                    let arguments = arguments.as_object().unwrap();
                    let outcome = bench.toolchain.call("jit_execute", arguments, &call);
                    without_hit(bench.structured("jit_execute", outcome)).1
                })
            })
            .collect();
        await_that("the program runs", || is_held(&lock));
        drop(held);
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .filter(|hit| *hit)
            .count()
    });
    assert_eq!(hits, 3);
    assert_eq!(count(&bench), 1);
}

#[test]
fn when_the_one_that_works_is_cancelled_another_takes_over() {
    let bench = Bench::new();
    let lock = bench.path("lock");
    let gate = bench.path("gate");
    fs::write(&gate, "").unwrap();
    let held = fs::File::open(&gate).unwrap();
    held.lock().unwrap();
    let script = format!(
        "{}lock {}\nlock {}\nexit 7",
        mark(&bench),
        lock.display(),
        gate.display()
    );
    let arguments = json!({"files": script_tree(&script), "entry": ENTRY});
    let arguments = arguments.as_object().unwrap();
    let (leader, follower) = (Signal::new(), Signal::new());
    thread::scope(|scope| {
        let first = scope.spawn(|| bench.toolchain.call("jit_execute", arguments, &leader.call));
        await_that("the first runs", || is_held(&lock));
        let second = scope.spawn(|| {
            bench
                .toolchain
                .call("jit_execute", arguments, &follower.call)
        });
        leader.cancel();
        assert!(matches!(first.join().unwrap(), Outcome::Internal(_)));
        drop(held);
        let result = bench.structured("jit_execute", second.join().unwrap());
        assert_eq!(
            (&result["exitStatus"], &result["cacheHit"]),
            (&json!(7), &json!(false))
        );
    });
    assert_eq!(count(&bench), 2);
}

#[test]
fn one_that_waits_for_an_equal_request_can_be_cancelled() {
    let bench = Bench::new();
    let lock = bench.path("lock");
    let arguments =
        json!({"files": script_tree(&format!("lock {}\nhang", lock.display())), "entry": ENTRY});
    let arguments = arguments.as_object().unwrap();
    let (leader, follower) = (Signal::new(), Signal::new());
    thread::scope(|scope| {
        let first = scope.spawn(|| bench.toolchain.call("jit_execute", arguments, &leader.call));
        await_that("the first runs", || is_held(&lock));
        let second = scope.spawn(|| {
            bench
                .toolchain
                .call("jit_execute", arguments, &follower.call)
        });
        follower.cancel();
        assert!(matches!(second.join().unwrap(), Outcome::Internal(_)));
        assert!(is_held(&lock), "the first goes on");
        leader.cancel();
        assert!(matches!(first.join().unwrap(), Outcome::Internal(_)));
    });
}

/// What a process of [`two_servers_share_a_folder`] does; not a test of its own.
#[test]
#[ignore = "run by two_servers_share_a_folder"]
fn worker() {
    let dir = std::env::var_os("TOUCHSTONE_TEST_CACHE").unwrap();
    let bench = Bench::with(|settings| {
        settings.cache.dir = dir.into();
        settings.cache.max_entries = 5;
    });
    for round in 0..30 {
        let code = round % 10;
        assert_eq!(
            bench.run_script(&format!("exit {code}"))["exitStatus"],
            code
        );
    }
}

#[test]
fn two_servers_share_a_folder() {
    let bench = Bench::new();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "caching::worker"])
                .env("TOUCHSTONE_TEST_CACHE", &bench.settings.cache.dir)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut worker in workers {
        assert!(worker.wait().unwrap().success());
    }
    let entries = bench.entries();
    assert_eq!(entries.len(), 5, "{:?}", entries.keys());
    for content in entries.values() {
        serde_json::from_slice::<Value>(content).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_damaged_entry_is_a_miss_and_is_mended(
        cut in any::<prop::sample::Index>(),
        noise in proptest::collection::vec(any::<u8>(), 0..8),
    ) {
        let bench = Bench::new();
        let (result, _) = without_hit(bench.run_script("print hello\nexit 7"));
        let (name, content) = bench.entries().into_iter().next().unwrap();
        let mut damaged = content.clone();
        damaged.truncate(cut.index(content.len()));
        damaged.extend(noise);
        fs::write(bench.settings.cache.dir.join(&name), damaged).unwrap();
        let (again, hit) = without_hit(bench.run_script("print hello\nexit 7"));
        prop_assert!(!hit);
        prop_assert_eq!(again, result);
        prop_assert_eq!(bench.entries(), [(name, content)].into());
    }
}

#[test]
fn an_entry_that_is_json_of_another_shape_is_a_miss() {
    let bench = Bench::new();
    let compile = || bench.compile(script_tree(""), ENTRY)["cacheHit"] == true;
    compile();
    let name = bench.entries().into_keys().next().unwrap();
    for damaged in [
        json!({}),
        json!([]),
        json!({"exitStatus": 0, "diagnostics": []}),
        json!({"exitStatus": 1, "diagnostics": [], "artifact": "eA=="}),
        json!({"exitStatus": 0, "diagnostics": [], "artifact": "*"}),
        json!({"exitStatus": 0, "diagnostics": [1], "artifact": "eA=="}),
        json!({"exitStatus": "0", "diagnostics": [], "artifact": "eA=="}),
        json!({"exitStatus": 0, "diagnostics": [], "artifact": "eA==", "cacheHit": true}),
        json!({"returnValue": 0, "exitStatus": 0, "stdout": "", "stderr": ""}),
    ] {
        fs::write(bench.settings.cache.dir.join(&name), damaged.to_string()).unwrap();
        assert!(!compile(), "{damaged}");
        assert!(compile());
    }
}
