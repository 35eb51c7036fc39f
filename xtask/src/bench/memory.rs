//! The memory tools next to the public memory server and to DataScript, on the same facts.
//!
//! The reference server and the public one answer over a pipe; DataScript is asked inside its own
//! process, which spares it that.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use super::piped::Piped;
use super::table::{self, Row};
use super::{Options, installed, repeated, timed};
use crate::interop::{self, Server};
use crate::timing::Samples;
use crate::workspace::{SERVER, program, root};

/// The smaller memory, in facts.
const FEW: u32 = 10_000;
/// Facts about one person: name, age, city, friend.
const FACTS_EACH: u32 = 4;
/// People who live in one city.
const NEIGHBOURS: u32 = 50;
/// People in one turn while the memory is filled.
const CHUNK: u32 = 5_000;
/// How often DataScript is asked each question in a round.
const ASKED: u32 = 20;

const PUBLIC: &str = "ts-memory";
const SUBJECTS: [&str; 3] = [SERVER, "server-memory", "datascript"];
const OURS: usize = 0;
const THEIRS: usize = 1;
const DATASCRIPT: usize = 2;

const VOCABULARY: &str = "[\
    {:db/ident :p/name :db/valueType :db.type/string :db/cardinality :db.cardinality/one :db/unique :db.unique/identity} \
    {:db/ident :p/age :db/valueType :db.type/long :db/cardinality :db.cardinality/one} \
    {:db/ident :p/city :db/valueType :db.type/string :db/cardinality :db.cardinality/one} \
    {:db/ident :p/friend :db/valueType :db.type/ref :db/cardinality :db.cardinality/many} \
    {:db/ident :n/text :db/valueType :db.type/string :db/cardinality :db.cardinality/one}]";
const INDEXED: &str = "[:find ?a . :in $ ?n :where [?e :p/name ?n] [?e :p/age ?a]]";
const JOIN: &str = "[:find ?n ?m :in $ ?c :where [?e :p/city ?c] [?e :p/friend ?f] [?f :p/name ?m] [?e :p/name ?n]]";

/// One size of memory, filled for each subject.
struct Filled {
    people: u32,
    ours: PathBuf,
    theirs: Option<(Server, PathBuf)>,
    /// The folder with DataScript's `node_modules`.
    datascript: Option<PathBuf>,
    rows: Rows,
}

/// What is measured.
struct Rows {
    start: Row,
    one: Row,
    ten: Row,
    indexed: Row,
    join: Row,
    history: Row,
}

impl Rows {
    fn new() -> Rows {
        let row = |what: &str| Row::new(what, "ms", SUBJECTS.len());
        Rows {
            start: row("start of the process to the first answer from memory"),
            one: row("a turn of one fact, on disk"),
            ten: row("a turn of ten facts, on disk"),
            indexed: row("recall by an indexed value"),
            join: row("three-way join from a city of fifty"),
            history: row("history of one attribute"),
        }
    }

    fn in_order(self) -> Vec<Row> {
        vec![
            self.start,
            self.one,
            self.ten,
            self.indexed,
            self.join,
            self.history,
        ]
    }
}

/// Fills the memories, measures, prints a table for each size.
pub(super) fn run(options: &Options, folder: &Path) -> Result<(), String> {
    let place = folder.join("memory");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place)
        .map_err(|error| format!("cannot make {}: {error}", place.display()))?;
    let public = installed(PUBLIC)?;
    let datascript = datascript(folder)?;
    let mut sizes = vec![FEW, options.facts];
    sizes.dedup();
    let mut filled = Vec::new();
    for facts in sizes {
        eprintln!("memory: filling {facts} facts");
        filled.push(fill(
            facts / FACTS_EACH,
            &place,
            public.as_ref(),
            datascript.clone(),
        )?);
    }
    for round in 1..=options.rounds {
        eprintln!("memory: round {round} of {}", options.rounds);
        for memory in &mut filled {
            memory.measure_ours()?;
            memory.measure_theirs()?;
            memory.measure_datascript()?;
        }
    }
    for memory in filled {
        let title = format!("memory of {} facts", memory.people * FACTS_EACH);
        table::print(&title, &SUBJECTS, &memory.rows.in_order());
    }
    let _ = fs::remove_dir_all(&place);
    Ok(())
}

/// Installs DataScript below `folder`, or says why not.
fn datascript(folder: &Path) -> Result<Option<PathBuf>, String> {
    let pins = root().join("fixtures/bench");
    match interop::install(&pins, "npm", folder)? {
        None => Ok(Some(folder.join("npm"))),
        Some(why) => {
            println!("datascript: skipped, {why}");
            Ok(None)
        }
    }
}

fn city(person: u32, people: u32) -> u32 {
    person % (people / NEIGHBOURS).max(1)
}

/// A friend from the same turn, so that a name within it will do.
fn friend(person: u32, people: u32) -> u32 {
    let first = person / CHUNK * CHUNK;
    let size = CHUNK.min(people - first);
    first + (person - first) * 7919 % size
}

fn fill(
    people: u32,
    place: &Path,
    public: Option<&Server>,
    datascript: Option<PathBuf>,
) -> Result<Filled, String> {
    let filled = Filled {
        people,
        ours: place.join(format!("{people}.db")),
        theirs: public.map(|server| (server.clone(), place.join(format!("{people}.json")))),
        datascript,
        rows: Rows::new(),
    };
    let mut server = filled.server()?;
    server.call("record", &json!({"tx": VOCABULARY}))?;
    let mut from = 0;
    while from < people {
        let to = people.min(from + CHUNK);
        server.call("record", &json!({"tx": turn(from..to, people)}))?;
        from = to;
    }
    let me = r#"[{:p/name "me" :p/age 1}]"#;
    server.call("record", &json!({"tx": me}))?;
    server.call("record", &json!({"tx": me.replace('1', "2")}))?;
    server.stop()?;
    if let Some((_, file)) = &filled.theirs {
        fs::write(file, graph(people))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(filled)
}

/// The facts about these people, as EDN.
fn turn(range: std::ops::Range<u32>, people: u32) -> String {
    let maps = range.map(|i| {
        format!(
            r#"{{:db/id "{i}" :p/name "person {i}" :p/age {} :p/city "city {}" :p/friend "{}"}}"#,
            i % 90,
            city(i, people),
            friend(i, people)
        )
    });
    format!("[{}]", maps.collect::<String>())
}

/// The same facts as the public server keeps them, one JSON object a line.
fn graph(people: u32) -> Vec<u8> {
    let mut text = Vec::new();
    let person = |i: u32| format!("person {i}");
    for i in 0..people {
        let about = json!({
            "type": "entity", "name": person(i), "entityType": "person",
            "observations": [format!("age {}", i % 90), format!("city {}", city(i, people))],
        });
        let knows = json!({
            "type": "relation", "from": person(i), "to": person(friend(i, people)),
            "relationType": "friend",
        });
        // Writing into memory cannot fail.
        let _ = writeln!(text, "{about}\n{knows}");
    }
    let me = json!({"type": "entity", "name": "me", "entityType": "person", "observations": []});
    let _ = write!(text, "{me}");
    text
}

/// What DataScript's script prints, in milliseconds.
#[derive(Deserialize)]
struct Asked {
    open: f64,
    indexed: Vec<f64>,
    join: Vec<f64>,
}

impl Filled {
    fn server(&self) -> Result<Piped, String> {
        let arguments = ["--tools", "memory", "--memory-path"].map(str::to_owned);
        let mut arguments = arguments.to_vec();
        arguments.push(self.ours.display().to_string());
        Piped::greeted(&program(SERVER), &arguments, &BTreeMap::new())
    }

    fn somebody(&self, at: usize) -> String {
        let at = u64::try_from(at).unwrap_or_default();
        format!("person {}", at * 7919 % u64::from(self.people))
    }

    fn measure_ours(&mut self) -> Result<(), String> {
        let indexed = |name: String| json!({"query": INDEXED, "args": format!("[\"{name}\"]")});
        let (start, mut server) = timed(|| {
            let mut started = self.server()?;
            started.call("recall", &indexed(self.somebody(1)))?;
            Ok(started)
        })?;
        self.rows.start.push(OURS, start);
        let note = |i: usize| format!("{{:n/text \"note {i}\"}}");
        let one = repeated(|i| server.timed("record", &json!({"tx": format!("[{}]", note(i))})))?;
        self.rows.one.push(OURS, one);
        let ten = |i: usize| (0..10).map(|j| note(i * 10 + j)).collect::<String>();
        let ten = repeated(|i| server.timed("record", &json!({"tx": format!("[{}]", ten(i))})))?;
        self.rows.ten.push(OURS, ten);
        let recall = repeated(|i| server.timed("recall", &indexed(self.somebody(i))))?;
        self.rows.indexed.push(OURS, recall);
        let join = repeated(|i| {
            let args = format!("[\"city {i}\"]");
            server.timed("recall", &json!({"query": JOIN, "args": args}))
        })?;
        self.rows.join.push(OURS, join);
        let me = json!({"entity": "[:p/name \"me\"]", "attribute": ":p/age"});
        let history = repeated(|_| server.timed("history", &me))?;
        self.rows.history.push(OURS, history);
        server.stop()
    }

    /// The public server keeps no history and has no joins.
    fn measure_theirs(&mut self) -> Result<(), String> {
        let Some((public, file)) = &self.theirs else {
            return Ok(());
        };
        let (program, arguments) = public.command.split_first().ok_or("no command")?;
        let env = BTreeMap::from([("MEMORY_FILE_PATH".to_owned(), file.display().to_string())]);
        let open = |name: String| json!({"names": [name]});
        let (start, mut server) = timed(|| {
            let mut started = Piped::greeted(Path::new(program), arguments, &env)?;
            started.call("open_nodes", &open(self.somebody(1)))?;
            Ok(started)
        })?;
        self.rows.start.push(THEIRS, start);
        let notes = |from: usize, count: usize| -> Value {
            let notes: Vec<String> = (from..from + count).map(|i| format!("note {i}")).collect();
            json!({"observations": [{"entityName": "me", "contents": notes}]})
        };
        let one = repeated(|i| server.timed("add_observations", &notes(i, 1)))?;
        self.rows.one.push(THEIRS, one);
        let ten = repeated(|i| server.timed("add_observations", &notes(1_000 + i * 10, 10)))?;
        self.rows.ten.push(THEIRS, ten);
        let recall = repeated(|i| server.timed("open_nodes", &open(self.somebody(i))))?;
        self.rows.indexed.push(THEIRS, recall);
        server.stop()
    }

    /// DataScript writes nothing to disk; its start is reading what it had written before.
    fn measure_datascript(&mut self) -> Result<(), String> {
        let Some(modules) = &self.datascript else {
            return Ok(());
        };
        let output = Command::new("node")
            .arg(root().join("fixtures/bench/datascript.cjs"))
            .arg(modules)
            .args([self.people, NEIGHBOURS, ASKED].map(|number| number.to_string()))
            .output()
            .map_err(|error| format!("cannot start node: {error}"))?;
        let asked: Asked = serde_json::from_slice(&output.stdout).map_err(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            format!("DataScript printed no times: {error} {}", said.trim())
        })?;
        self.rows.start.push(DATASCRIPT, asked.open);
        for (row, times) in [
            (&mut self.rows.indexed, asked.indexed),
            (&mut self.rows.join, asked.join),
        ] {
            let mut samples = Samples::default();
            times.into_iter().for_each(|time| samples.push(time));
            if let Some(median) = samples.median() {
                row.push(DATASCRIPT, median);
            }
        }
        Ok(())
    }
}
