//! A file that is not a memory, is damaged or is newer is refused and left as it was.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use std::path::Path;
use touchstone_store::{Kind, Provenance, Storage, Store, View};

fn open(path: &Path) -> touchstone_store::Result<Store> {
    Store::open(&Storage::File(path.to_owned()))
}

fn made(path: &Path) -> Vec<u8> {
    let mut store = open(path).unwrap();
    record(
        &mut store,
        "[{:db/ident :x/text :db/valueType :db.type/string :db/cardinality :db.cardinality/one :db/fulltext true}]",
    );
    for i in 0..200 {
        record(
            &mut store,
            &format!(
                "[{{:x/text \"a text with the number {i}, long enough to fill some pages of the file\"}}]"
            ),
        );
    }
    drop(store);
    std::fs::read(path).unwrap()
}

/// The file is refused with a message that names it, and is the same after.
fn refused(path: &Path, content: &[u8], message: &str) {
    std::fs::write(path, content).unwrap();
    let error = open(path).expect_err(message);
    assert_eq!(error.kind(), Kind::BadFile, "{error}");
    assert!(error.message().contains(message), "{error}");
    assert!(
        error.message().contains(&path.display().to_string()),
        "{error}"
    );
    assert!(
        std::fs::read(path).unwrap() == content,
        "{message}: the file was changed"
    );
}

#[test]
fn a_new_file_is_made_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    made(&path);
    let mut store = open(&path).unwrap();
    assert_eq!(
        ask(&mut store, "[:find (count ?e) . :where [?e :x/text]]"),
        "200"
    );
    drop(store);
    let names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["new.db"], "nothing is left beside it");
}

#[test]
fn an_empty_file_becomes_a_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.db");
    std::fs::write(&path, "").unwrap();
    assert!(open(&path).is_ok());
}

#[test]
fn foreign_damaged_and_newer_files_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let sound = made(&folder.path().join("sound.db"));
    let path = folder.path().join("m.db");
    refused(&path, b"hello", "not a memory file");
    refused(
        &path,
        "{\"a\": \"json\"}\n".repeat(100).as_bytes(),
        "not a memory file",
    );
    refused(&path, &[0; 8192], "not a memory file");

    let foreign = folder.path().join("foreign.db");
    let other = rusqlite::Connection::open(&foreign).unwrap();
    other
        .execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1);")
        .unwrap();
    drop(other);
    refused(
        &path,
        &std::fs::read(&foreign).unwrap(),
        "but not a memory file",
    );

    let changed = |at: usize, bytes: &[u8]| {
        let mut content = sound.clone();
        content[at..at + bytes.len()].copy_from_slice(bytes);
        content
    };
    refused(&path, &changed(0, b"X"), "not a memory file");
    refused(
        &path,
        &changed(60, &99i32.to_be_bytes()),
        "use a newer program",
    );
    refused(&path, &sound[..sound.len() / 2], "is damaged");
    refused(&path, &sound[..sound.len() - 1], "is damaged");
    refused(&path, &sound[..4096], "is damaged");
    for page in 1..sound.len() / 4096 {
        refused(&path, &changed(page * 4096, &[0xa5; 64]), "damaged");
    }
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(open(folder.path()).unwrap_err().kind(), Kind::BadFile);
    let nowhere = folder.path().join("no/such/folder/m.db");
    assert_eq!(open(&nowhere).unwrap_err().kind(), Kind::Storage);
}

#[test]
fn two_that_start_at_once_on_a_new_path_share_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.db");
    std::thread::scope(|scope| {
        for i in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let mut store = open(path).unwrap();
                let session = store.open_session(&format!("s{i}")).unwrap();
                let provenance = Provenance {
                    session: Some(session),
                    source: None,
                };
                store
                    .transact(
                        &edn("[{:db/id \"datomic.tx\" :db/doc \"hello\"}]"),
                        provenance,
                    )
                    .unwrap();
            });
        }
    });
    let mut store = open(&path).unwrap();
    assert_eq!(
        ask(
            &mut store,
            "[:find (count ?s) . :where [?tx :db/doc \"hello\"] [?tx :memory/session ?s]]"
        ),
        "8"
    );
    assert_eq!(
        store.db(View::Current).unwrap().t,
        16,
        "each opened a session and recorded a turn"
    );
}
