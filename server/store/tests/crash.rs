//! `kill -9` at any moment loses no acknowledged turn and leaves no half turn.
//!
//! Two writer processes record on one file; each is killed at odd moments and started again.
//! `TOUCHSTONE_KILLS=1000` asks for more than the usual number of kills.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use touchstone_store::edn::Edn;
use touchstone_store::{Provenance, Storage, Store, View};

const FILE: &str = "TOUCHSTONE_CRASH_FILE";
const NAME: &str = "TOUCHSTONE_CRASH_WRITER";
/// On a machine that is busy with other things even the start of a process takes long.
const PATIENCE: Duration = Duration::from_secs(600);
const FIRST: &str = "TOUCHSTONE_CRASH_FIRST";

/// The body of a writer process, started by the test below.
#[test]
#[ignore = "runs as a process of its own, started by the crash test"]
fn writer() {
    let (Ok(file), Ok(name), Ok(first)) = (
        std::env::var(FILE),
        std::env::var(NAME),
        std::env::var(FIRST),
    ) else {
        return;
    };
    let mut store = Store::open(&Storage::File(file.into())).unwrap();
    let session = store.open_session(&name).unwrap();
    let mut out = std::io::stdout();
    for n in first.parse::<i64>().unwrap().. {
        // Two facts about two entities and a counter that is changed: a half turn would show.
        let tx = format!(
            "[{{:w/id \"{name}-{n}-a\" :w/n {n}}} {{:w/id \"{name}-{n}-b\" :w/n {n}}} {{:w/id \"{name}\" :w/n {n}}}]"
        );
        store
            .transact(
                &edn(&tx),
                Provenance {
                    session: Some(session),
                    source: None,
                },
            )
            .unwrap();
        writeln!(out, "acknowledged {n}").unwrap();
        out.flush().unwrap();
    }
}

struct Writer {
    child: Child,
    acknowledged: Receiver<i64>,
}

fn start(path: &Path, name: &str, first: i64) -> Writer {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "writer",
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .envs([
            (FILE, path.to_str().unwrap()),
            (NAME, name),
            (FIRST, &first.to_string()),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (send, acknowledged) = channel();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if let Some(n) = line
                .rsplit("acknowledged ")
                .next()
                .and_then(|n| n.parse().ok())
            {
                let _ = send.send(n);
            }
        }
    });
    Writer {
        child,
        acknowledged,
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_no_turn_is_half() {
    let kills: usize = std::env::var("TOUCHSTONE_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.db");
    let mut store = Store::open(&Storage::File(path.clone())).unwrap();
    record(
        &mut store,
        "[{:db/ident :w/id :db/valueType :db.type/string :db/cardinality :db.cardinality/one :db/unique :db.unique/identity}
          {:db/ident :w/n :db/valueType :db.type/long :db/cardinality :db.cardinality/one}]",
    );
    drop(store);
    let names = ["one", "two"];
    let mut last = [0i64; 2];
    let mut writers = names.map(|name| start(&path, name, 1));
    let mut random = 0x2545_f491_4f6c_dd1du64;
    for kill in 1..=kills {
        if kill % 100 == 0 {
            eprintln!(
                "{kill} of {kills} kills, {} turns acknowledged",
                last[0] + last[1]
            );
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let which = (random >> 20) as usize % 2;
        let writer = &mut writers[which];
        // Now and then before it has recorded anything; mostly somewhere in the middle of its work.
        if !random.is_multiple_of(8) {
            match writer.acknowledged.recv_timeout(PATIENCE) {
                Ok(n) => last[which] = last[which].max(n),
                Err(_) => panic!("the writer does not record: {:?}", writer.child.try_wait()),
            }
        }
        let pause = Instant::now() + Duration::from_micros(random % 20_000);
        while let Some(left) = pause.checked_duration_since(Instant::now()) {
            if let Ok(n) = writer.acknowledged.recv_timeout(left) {
                last[which] = last[which].max(n);
            }
        }
        let pid = rustix::process::Pid::from_child(&writer.child);
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        writer.child.wait().unwrap();
        // What was said before the kill counts.
        while let Ok(n) = writer.acknowledged.recv_timeout(PATIENCE) {
            last[which] = last[which].max(n);
        }
        // A turn may be on disk and not acknowledged; the next writer goes on after it.
        let mut store = Store::open(&Storage::File(path.clone())).unwrap();
        let next = recorded(&mut store, names[which]) + 1;
        assert!(
            next > last[which],
            "{} acknowledged {} and the file has {}",
            names[which],
            last[which],
            next - 1
        );
        writers[which] = start(&path, names[which], next);
    }
    for (which, writer) in writers.iter_mut().enumerate() {
        writer.child.kill().unwrap();
        writer.child.wait().unwrap();
        while let Ok(n) = writer.acknowledged.recv_timeout(PATIENCE) {
            last[which] = last[which].max(n);
        }
    }
    let mut store = Store::open(&Storage::File(path)).unwrap();
    let t = store.db(View::Current).unwrap().t;
    let mut turns = 0;
    for (which, name) in names.into_iter().enumerate() {
        let count = recorded(&mut store, name);
        assert!(
            count >= last[which],
            "{name} acknowledged {} and the file has {count}",
            last[which]
        );
        // Each turn is there with both of its entities, whole and in order.
        for suffix in ["a", "b"] {
            let query = "[:find (count ?n) (max ?n) :in ?s ?id :where [?sid :memory.session/id ?s] [?tx :memory/session ?sid]
                          [?e :w/n ?n ?tx] [?e :w/id ?i] [(clojure.string/starts-with? ?i ?id)] [(str ?id ?n \"-\" \"SUFFIX\") ?i]]";
            let query = query.replace("SUFFIX", suffix);
            let found = try_ask(&mut store, &query, &format!("[\"{name}\" \"{name}-\"]")).unwrap();
            assert_eq!(
                edn(&found),
                edn(&format!("[[{count} {count}]]")),
                "{name} {suffix}"
            );
        }
        turns += count;
    }
    let Edn::Int(all) = edn(&ask(
        &mut store,
        "[:find (count ?tx) . :where [?tx :memory/session]]",
    )) else {
        panic!()
    };
    assert_eq!(all, turns + 2, "two sessions were opened");
    assert_eq!(t, all + 1, "no transaction is missing");
    eprintln!(
        "{kills} kills, {turns} turns recorded, {} acknowledged",
        last[0] + last[1]
    );
}

/// The last turn of a writer in the file, by its counter.
fn recorded(store: &mut Store, name: &str) -> i64 {
    let found = try_ask(
        store,
        "[:find ?n . :in ?name :where [?e :w/id ?name] [?e :w/n ?n]]",
        &format!("[\"{name}\"]"),
    );
    edn(&found.unwrap()).as_int().unwrap_or(0)
}
