//! The wire against programs that misbehave: nothing hangs, leaks or grows past a bound, and
//! the log says what happened.

use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};
use touchstone::wire::{Body, Child, EndedBy, Entry, Event, Launch, Line, MAX_LINES, Received};

use crate::act::launch;

pub(crate) fn all() -> Vec<libtest_mimic::Trial> {
    crate::trials![
        a_program_that_exits_at_once_is_seen_to,
        a_program_that_never_answers_costs_one_limit,
        a_closed_output_is_told_from_an_exit,
        ten_megabytes_of_stderr_do_not_stop_the_server_and_the_end_is_kept,
        a_flood_of_output_is_bounded,
        a_program_that_ignores_end_of_input_and_term_is_killed,
        a_program_that_ignores_end_of_input_ends_on_term,
        a_program_that_spins_at_the_end_of_input_is_told_from_one_that_waits,
        a_child_that_keeps_the_pipe_does_not_delay_the_end_and_is_killed,
        a_child_outside_the_group_does_not_delay_the_end,
        half_a_line_is_told_at_the_end,
        a_line_of_fifty_megabytes_is_read,
        a_line_over_the_bound_is_told_with_its_length,
        invalid_utf8_is_told_with_its_place,
        a_program_that_does_not_read_never_blocks_us,
        bytes_go_out_as_they_are_and_the_log_has_them,
        input_is_closed_after_what_is_queued,
        a_dropped_child_is_gone,
        home_and_folder_are_temporary_and_variables_are_set,
        home_and_folder_are_the_users_on_demand,
        a_program_that_does_not_exist_is_an_error,
        the_last_words_on_stderr_are_kept,
        an_interrupt_leaves_nothing_behind,
    ]
}

const PATIENCE: Duration = Duration::from_millis(300);
/// Longer than anything here takes, even on a slow machine.
const LONG: Duration = Duration::from_secs(60);

fn spawn(name: &str) -> Child {
    Child::spawn(&launch(name)).unwrap()
}

fn soon() -> Instant {
    Instant::now() + LONG
}

fn line(log: &[Entry], at: usize) -> &Line {
    match &log[at].event {
        Event::Received(line) => line,
        other => panic!("no line but {other:?}"),
    }
}

/// The text of the next line.
fn next(child: &mut Child) -> String {
    match child.receive(soon()) {
        Received::Line(at) => String::from_utf8(line(child.log(), at).bytes.clone()).unwrap(),
        other => panic!("no line but {other:?}"),
    }
}

fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    match stat {
        // A zombie is dead; in a container nobody may reap it.
        Ok(stat) => !stat.contains(") Z "),
        Err(_) => test_kill_process(Pid::from_raw(pid as i32).unwrap()).is_ok(),
    }
}

fn a_program_that_exits_at_once_is_seen_to() {
    let mut child = spawn("exits-at-once");
    assert_eq!(child.wait(soon()).unwrap().code(), Some(3));
    assert_eq!(child.receive(soon()), Received::End);
    let ended = child.stop(PATIENCE);
    assert_eq!(ended.by, EndedBy::Itself);
    assert_eq!(ended.status.unwrap().code(), Some(3));
    let exits = |e: &&Entry| matches!(e.event, Event::Exited(s) if s.code() == Some(3));
    assert_eq!(ended.log.iter().filter(exits).count(), 1);
}

fn a_program_that_never_answers_costs_one_limit() {
    let mut child = spawn("never-answers");
    child.send(b"{}\n");
    let limit = Duration::from_millis(200);
    let before = Instant::now();
    assert_eq!(child.receive(before + limit), Received::Timeout);
    assert!(before.elapsed() >= limit);
    let ended = child.stop(LONG);
    assert_eq!(ended.by, EndedBy::EndOfInput);
    assert!(!ended.left_behind);
}

fn a_closed_output_is_told_from_an_exit() {
    let mut child = spawn("closes-stdout");
    assert_eq!(child.receive(soon()), Received::End);
    assert!(child.exited().is_none());
    let closed = |e: &Entry| matches!(e.event, Event::OutputClosed);
    assert!(child.log().iter().any(closed));
    assert_eq!(child.stop(LONG).by, EndedBy::EndOfInput);
}

fn ten_megabytes_of_stderr_do_not_stop_the_server_and_the_end_is_kept() {
    let mut child = spawn("floods-stderr");
    child.send(b"hello\n");
    assert_eq!(next(&mut child), "hello");
    let stderr = child.stop(LONG).stderr;
    assert_eq!(stderr.len(), 64 << 10);
    assert!(stderr.ends_with("e\n"));
}

fn a_flood_of_output_is_bounded() {
    let mut child = spawn("floods-stdout");
    let mut lines = 0;
    let end = loop {
        match child.receive(soon()) {
            Received::Line(_) => lines += 1,
            other => break other,
        }
    };
    assert_eq!((lines, end), (MAX_LINES, Received::End));
    // It stays so, and costs no time.
    assert_eq!(child.receive(soon()), Received::End);
    let flooded = |e: &Entry| matches!(e.event, Event::Flooded);
    assert!(child.log().iter().any(flooded));
    let ended = child.stop(PATIENCE);
    assert_eq!(ended.log.iter().filter(|e| flooded(e)).count(), 1);
}

fn a_program_that_ignores_end_of_input_and_term_is_killed() {
    let mut child = spawn("ignores-everything");
    assert_eq!(next(&mut child), "ready");
    let ended = child.stop(PATIENCE);
    assert_eq!(ended.by, EndedBy::Kill);
    assert!(ended.took >= 2 * PATIENCE);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(ended.status.unwrap().signal(), Some(9));
}

fn a_program_that_ignores_end_of_input_ends_on_term() {
    let mut child = spawn("ends-on-term");
    assert_eq!(next(&mut child), "ready");
    let ended = child.stop(PATIENCE);
    assert_eq!(ended.by, EndedBy::Term);
    assert_eq!(ended.busy, Duration::ZERO);
}

fn a_program_that_spins_at_the_end_of_input_is_told_from_one_that_waits() {
    if !cfg!(target_os = "linux") {
        return;
    }
    // On a busy machine it gets its share of a processor only now and then.
    let is_busy = |_| {
        let mut child = spawn("spins");
        assert_eq!(next(&mut child), "ready");
        child.stop(4 * PATIENCE).busy >= Duration::from_millis(30)
    };
    assert!((0..20).any(is_busy));
}

fn a_child_that_keeps_the_pipe_does_not_delay_the_end_and_is_killed() {
    let mut child = spawn("forks");
    let grandchild: u32 = next(&mut child).parse().unwrap();
    let before = Instant::now();
    let ended = child.stop(Duration::from_secs(20));
    assert!(before.elapsed() < Duration::from_secs(15));
    assert_eq!(ended.by, EndedBy::EndOfInput);
    assert!(ended.left_behind);
    assert!(!alive(grandchild));
}

fn a_child_outside_the_group_does_not_delay_the_end() {
    let mut child = spawn("forks-away");
    let grandchild: i32 = next(&mut child).parse().unwrap();
    let before = Instant::now();
    let ended = child.stop(Duration::from_secs(20));
    assert!(before.elapsed() < Duration::from_secs(15));
    assert_eq!(ended.by, EndedBy::EndOfInput);
    rustix::process::kill_process(
        Pid::from_raw(grandchild).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
}

fn half_a_line_is_told_at_the_end() {
    let mut child = spawn("half-a-line");
    assert_eq!(child.receive(Instant::now() + PATIENCE), Received::Timeout);
    let ended = child.stop(LONG);
    let lines: Vec<&Line> = ended
        .log
        .iter()
        .filter_map(|e| match &e.event {
            Event::Received(line) => Some(line),
            _ => None,
        })
        .collect();
    assert_eq!(lines.len(), 1);
    assert!(!lines[0].terminated);
    assert_eq!(lines[0].bytes, br#"{"jsonrpc":"2.0","#);
    assert!(matches!(lines[0].body, Body::NotJson(_)));
}

fn a_line_of_fifty_megabytes_is_read() {
    let mut child = spawn("long-line");
    child.send(b"after\n");
    let Received::Line(at) = child.receive(soon()) else {
        panic!("no line");
    };
    let long = line(child.log(), at);
    assert_eq!(long.bytes.len(), (50 << 20) + 2);
    assert!(matches!(long.body, Body::Json(_)));
    assert_eq!(next(&mut child), "after");
    child.stop(LONG);
}

fn a_line_over_the_bound_is_told_with_its_length() {
    let mut child = spawn("too-long-line");
    let Received::Line(at) = child.receive(soon()) else {
        panic!("no line");
    };
    let long = line(child.log(), at);
    assert!(matches!(long.body, Body::TooLong(length) if length == 70 << 20));
    assert!(long.bytes.len() < 10_000);
    assert_eq!(next(&mut child), "next");
    child.stop(LONG);
}

fn invalid_utf8_is_told_with_its_place() {
    let mut child = spawn("not-utf8");
    let Received::Line(at) = child.receive(soon()) else {
        panic!("no line");
    };
    assert!(matches!(line(child.log(), at).body, Body::NotUtf8(6)));
    child.stop(LONG);
}

fn a_program_that_does_not_read_never_blocks_us() {
    let mut child = spawn("does-not-read");
    let block = vec![b'x'; 8 << 20];
    for _ in 0..40 {
        child.send(&block);
    }
    assert!(child.input_stuck());
    assert!(!child.flush(Instant::now() + PATIENCE));
    assert_eq!(child.stop(PATIENCE).by, EndedBy::Term);
}

fn bytes_go_out_as_they_are_and_the_log_has_them() {
    let mut child = spawn("echo");
    child.send(b"one\n  two \r\n");
    child.send(b"thr");
    assert!(child.flush(soon()));
    child.send(b"ee\n");
    assert_eq!(next(&mut child), "one");
    assert_eq!(next(&mut child), "  two \r");
    assert_eq!(next(&mut child), "three");
    let ended = child.stop(LONG);
    let sent: Vec<u8> = ended
        .log
        .iter()
        .filter_map(|e| match &e.event {
            Event::Sent(bytes) => Some(bytes.clone()),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(sent, b"one\n  two \r\nthree\n");
    let times: Vec<Duration> = ended.log.iter().map(|e| e.at).collect();
    assert!(times[0] <= times[times.len() - 1]);
}

fn input_is_closed_after_what_is_queued() {
    let mut child = spawn("echo");
    let long = "x".repeat(1 << 20);
    child.send(format!("{long}\n").as_bytes());
    child.close_input();
    assert_eq!(next(&mut child), long);
    assert_eq!(child.receive(soon()), Received::End);
    assert_eq!(child.wait(soon()).unwrap().code(), Some(0));
    let ended = child.stop(PATIENCE);
    assert_eq!(ended.by, EndedBy::EndOfInput);
    let closed = |e: &&Entry| matches!(e.event, Event::InputClosed);
    assert_eq!(ended.log.iter().filter(closed).count(), 1);
}

fn a_dropped_child_is_gone() {
    let mut child = spawn("forks");
    let grandchild: u32 = next(&mut child).parse().unwrap();
    let folder = child.folder();
    assert!(folder.exists());
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _child = child;
        std::panic::resume_unwind(Box::new("stop"));
    }));
    assert!(caught.is_err());
    assert!(!alive(grandchild));
    assert!(!folder.exists());
}

fn environment(launch: &Launch) -> serde_json::Value {
    let mut child = Child::spawn(launch).unwrap();
    let seen = next(&mut child);
    child.stop(LONG);
    serde_json::from_str(&seen).unwrap()
}

fn home_and_folder_are_temporary_and_variables_are_set() {
    let mut launch = launch("environment");
    launch.args.push("Cargo.toml".into());
    launch.args.push("no-such-file".into());
    launch.env = vec![("SET".into(), Some("1".into())), ("UNSET".into(), None)];
    let seen = environment(&launch);
    let here = std::env::current_dir().unwrap();
    assert_eq!(seen["set"], "1");
    assert!(seen["unset"].is_null());
    assert!(seen["xdg"].is_null());
    for folder in ["cwd", "home"] {
        let folder = seen[folder].as_str().unwrap();
        assert!(folder.contains("touchstone-"), "{folder}");
        assert!(!std::path::Path::new(folder).exists(), "{folder} is left");
    }
    assert_eq!(seen["args"][0].as_str(), here.join("Cargo.toml").to_str());
    assert_eq!(seen["args"][1], "no-such-file");
}

fn home_and_folder_are_the_users_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let mut launch = launch("environment");
    launch.cwd = Some(folder.path().to_owned());
    launch.inherit_home = true;
    let seen = environment(&launch);
    let real = folder.path().canonicalize().unwrap();
    assert_eq!(seen["cwd"].as_str(), real.to_str());
    assert_eq!(
        seen["home"].as_str().map(Into::into),
        std::env::var_os("HOME")
    );
}

fn a_program_that_does_not_exist_is_an_error() {
    let mut launch = launch("echo");
    launch.program = "/no/such/file".into();
    let error = Child::spawn(&launch).unwrap_err();
    assert!(error.message.contains("`/no/such/file` does not exist"));
}

fn the_last_words_on_stderr_are_kept() {
    for _ in 0..20 {
        let mut child = spawn("speaks-on-stderr-at-its-end");
        assert_eq!(next(&mut child), "ready");
        assert_eq!(child.stop(LONG).stderr, "the reason\n");
    }
}

fn an_interrupt_leaves_nothing_behind() {
    let mut child = spawn("kills-all");
    let seen: [String; 3] = serde_json::from_str(&next(&mut child)).unwrap();
    assert!(seen[0].contains("signal: 9"), "{}", seen[0]);
    assert!(!std::path::Path::new(&seen[1]).exists());
    assert_eq!(seen[2], "the run was interrupted");
    child.stop(LONG);
}
