//! Measures the store: `cargo run --release --example measure -p touchstone-store [FACTS]`.
//! Times are medians of a run on this machine; the file is in the working folder and removed.

use std::time::{Duration, Instant};
use touchstone_store::edn::{Edn, read};
use touchstone_store::memory::{Memory, Place, Settings};
use touchstone_store::query::{Limits, Query};
use touchstone_store::{Provenance, Result, Storage, Store, View};

fn edn(text: &str) -> Edn {
    read(text).unwrap_or(Edn::Nil)
}

fn median(count: usize, mut work: impl FnMut(usize) -> Result<()>) -> Result<Duration> {
    let mut times = Vec::new();
    for i in 0..count {
        let start = Instant::now();
        work(i)?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2])
}

fn main() -> Result<()> {
    let facts: usize = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(1_000_000);
    let folder = std::env::current_dir()
        .unwrap_or_default()
        .join(format!("measure-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| {
        touchstone_store::Error::new(touchstone_store::Kind::Storage, e.to_string())
    })?;
    let path = folder.join("m.db");
    let result = measure(facts, &Storage::File(path.clone()));
    println!(
        "file: {} MB",
        std::fs::metadata(&path).map_or(0, |m| m.len()) >> 20
    );
    let _ = std::fs::remove_dir_all(&folder);
    result
}

fn measure(facts: usize, storage: &Storage) -> Result<()> {
    let mut store = Store::open(storage)?;
    store.transact(
        &edn("[{:db/ident :p/name :db/valueType :db.type/string :db/cardinality :db.cardinality/one :db/unique :db.unique/identity}
               {:db/ident :p/age :db/valueType :db.type/long :db/cardinality :db.cardinality/one}
               {:db/ident :p/city :db/valueType :db.type/string :db/cardinality :db.cardinality/one}
               {:db/ident :p/friend :db/valueType :db.type/ref :db/cardinality :db.cardinality/many}
               {:db/ident :n/text :db/valueType :db.type/string :db/cardinality :db.cardinality/one}]"),
        Provenance::default(),
    )?;
    let people = facts / 4;
    let start = Instant::now();
    for chunk in (0..people).collect::<Vec<_>>().chunks(5000) {
        let forms = chunk.iter().map(|i| {
            let friend = chunk[0] + (i * 7919) % chunk.len();
            edn(&format!(
                "{{:db/id \"{i}\" :p/name \"person {i}\" :p/age {} :p/city \"city {}\" :p/friend \"{friend}\"}}",
                i % 90,
                i % 5000
            ))
        });
        store.transact(&Edn::Vector(forms.collect()), Provenance::default())?;
    }
    println!("import of {facts} facts: {:?}", start.elapsed());

    let one = median(500, |i| {
        store
            .transact(
                &edn(&format!("[{{:n/text \"note {i}\"}}]")),
                Provenance::default(),
            )
            .map(|_| ())
    })?;
    println!("record, one fact, durable: {one:?}");
    let ten = median(200, |i| {
        let forms: String = (0..10)
            .map(|j| format!("{{:n/text \"note {i} {j}\"}}"))
            .collect();
        store
            .transact(&edn(&format!("[{forms}]")), Provenance::default())
            .map(|_| ())
    })?;
    println!("record, ten facts, durable: {ten:?}");
    drop(store);

    let open = median(10, |_| Store::open(storage).map(|_| ()))?;
    println!("open: {open:?}");
    let fresh = median(50, |_| Memory::open(&Settings::default()).map(|_| ()))?;
    println!("open in memory, with a session: {fresh:?}");

    let mut store = Store::open(storage)?;
    let mut ask =
        |what: &str, count: usize, query: &str, args: &dyn Fn(usize) -> String| -> Result<()> {
            let mut rows = 0;
            let time = median(count, |i| {
                let query = Query::parse(&edn(query))?;
                let Edn::Vector(args) = edn(&args(i)) else {
                    return Ok(());
                };
                rows = query
                    .run(&store.db(View::Current)?, &args, &Limits::default(), None)?
                    .total;
                Ok(())
            })?;
            println!("{what}: {time:?} ({rows} rows)");
            Ok(())
        };
    let name = |i: usize| format!("[\"person {}\"]", (i * 7919) % people);
    ask(
        "recall by an indexed value",
        500,
        "[:find ?a . :in ?n :where [?e :p/name ?n] [?e :p/age ?a]]",
        &name,
    )?;
    ask(
        "the same, written the other way round",
        500,
        "[:find ?a . :in ?n :where [?e :p/age ?a] [?e :p/name ?n]]",
        &name,
    )?;
    ask(
        "recall by a value that many have",
        100,
        "[:find ?n :in ?c :where [?e :p/city ?c] [?e :p/name ?n]]",
        &|i| format!("[\"city {}\"]", i % 5000),
    )?;
    let join = "[:find ?n ?m :where [?e :p/city \"city 7\"] [?e :p/friend ?f] [?f :p/name ?m] [?e :p/name ?n] [?f :p/age ?a] [(> ?a 30)]]";
    ask("three-way join from a city", 50, join, &|_| "[]".into())?;
    let wide = "[:find (count ?e) . :where [?e :p/age 33] [?e :p/friend ?f] [?f :p/city ?c] [?f :p/age ?a] [(> ?a 80)]]";
    ask("three-way join over an age", 10, wide, &|_| "[]".into())?;

    let settings = Settings {
        place: Place::Here(storage.clone()),
        session: Some("measure".into()),
    };
    let mut memory = Memory::open(&settings)?;
    memory.answer(
        "record",
        &edn(r#"{:tx "[{:p/name \"me\" :p/age 1}]"}"#),
        &Limits::default(),
    )?;
    for (what, operation, arguments) in [
        ("context", "context", "{}"),
        ("read", "read", r#"{:entity "[:p/name \"person 77\"]"}"#),
        ("history", "history", r#"{:entity "[:p/name \"me\"]"}"#),
        ("turns", "turns", "{}"),
    ] {
        let time = median(200, |_| {
            memory
                .answer(operation, &edn(arguments), &Limits::default())
                .map(|_| ())
        })?;
        println!("{what}: {time:?}");
    }
    Ok(())
}
