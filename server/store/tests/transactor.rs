//! The transactor: who may connect, what is kept, what happens when the connection is lost.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;
use touchstone_store::edn::Edn;
use touchstone_store::memory::{Memory, Place, Settings};
use touchstone_store::query::Limits;
use touchstone_store::transactor::{
    Client, MAX_CONNECTIONS, Remote, Server, ServerSettings, Stopper, Token,
};
use touchstone_store::{Kind, Result};

const TOKEN: &str = "correct horse battery staple";

struct Running {
    address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

fn start(storage: &str, port: u16) -> Running {
    let settings =
        ServerSettings::parse(&format!("{{:port {port} {storage} :token \"{TOKEN}\"}}")).unwrap();
    // A port that was just left may still be taken for a moment.
    let server = (0..200).find_map(|_| match Server::bind(&settings) {
        Ok(server) => Some(server),
        Err(_) => {
            std::thread::sleep(Duration::from_millis(25));
            None
        }
    });
    let server = server.expect("a port to listen on");
    let (address, stopper) = (server.address(), server.stopper());
    Running {
        address,
        stopper,
        thread: Some(std::thread::spawn(move || server.run())),
    }
}

fn remote(address: SocketAddr, token: &str) -> Remote {
    Remote {
        host: address.ip().to_string(),
        port: address.port(),
        token: Token::new(token).unwrap(),
    }
}

fn file(path: &Path) -> String {
    format!(":storage :file :path {}", Edn::str(path.to_str().unwrap()))
}

fn call(client: &mut Client, operation: &str, arguments: &str) -> Result<String> {
    client
        .answer(operation, &edn(arguments))
        .map(|answer| answer.form.to_string())
}

const REGISTER: &str = r#"{:tx "[{:db/ident :x/n :db/valueType :db.type/long :db/cardinality :db.cardinality/many}]"}"#;
const NUMBERS: &str = r#"{:query "[:find [?n ...] :where [_ :x/n ?n]]"}"#;

#[test]
fn clients_share_one_memory() {
    for storage in [
        ":storage :memory".to_owned(),
        file(&tempfile::tempdir().unwrap().keep().join("m.db")),
    ] {
        let server = start(&storage, 0);
        let mut one = Client::connect(remote(server.address, TOKEN), "one").unwrap();
        let mut two = Client::connect(remote(server.address, TOKEN), "two").unwrap();
        call(&mut one, "record", REGISTER).unwrap();
        call(&mut two, "record", r#"{:tx "[{:x/n 1}]"}"#).unwrap();
        call(&mut one, "record", r#"{:tx "[{:x/n 2}]"}"#).unwrap();
        assert_eq!(call(&mut two, "recall", NUMBERS).unwrap(), "[1 2]");
        let turns = edn(&call(&mut two, "turns", "{:session \"one\"}").unwrap());
        assert_eq!(
            turns.as_sequence().map(<[Edn]>::len),
            Some(2),
            "provenance is the client's own session"
        );
    }
}

#[test]
fn an_error_comes_through_whole() {
    let server = start("", 0);
    let mut client = Client::connect(remote(server.address, TOKEN), "s").unwrap();
    let error = call(&mut client, "record", r#"{:tx "[{:x/m 1}]"}"#).unwrap_err();
    assert_eq!(error.kind(), Kind::UnknownAttribute);
    assert_eq!(place(&error), ("memory/unknown-attribute".into(), 1, 3));
    assert_eq!(
        call(&mut client, "frobnicate", "{}").unwrap_err().kind(),
        Kind::BadArgument
    );
    assert!(
        call(&mut client, "context", "{}").is_ok(),
        "the connection goes on"
    );
}

#[test]
fn the_wrong_token_is_refused_and_never_repeated() {
    let server = start("", 0);
    for wrong in [
        "wrong",
        "correct horse battery stapl",
        "correct horse battery staple ",
    ] {
        let error = Client::connect(remote(server.address, wrong), "s").unwrap_err();
        assert_eq!(error.kind(), Kind::Unauthorised);
        assert!(
            !error.to_string().contains(wrong) && !error.to_string().contains(TOKEN),
            "{error}"
        );
    }
    assert!(!format!("{:?}", remote(server.address, TOKEN)).contains(TOKEN));
    let bad =
        ServerSettings::parse(&format!("{{:port 1 :token \"{TOKEN}\" :tokn 1}}")).unwrap_err();
    assert!(!bad.to_string().contains(TOKEN), "{bad}");
    assert!(
        ServerSettings::parse("{:port 1}")
            .unwrap_err()
            .message()
            .contains(":token is required")
    );
    assert!(ServerSettings::parse("{:port 1 :token \"\"}").is_err());
    assert!(
        Settings::parse("{:conn {:host \"h\" :port 1}}")
            .unwrap_err()
            .message()
            .contains(":token is required")
    );
}

fn raw(address: SocketAddr, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    // The transactor may hang up before all is sent.
    let _ = stream.write_all(sent);
    let mut line = String::new();
    let _ = BufReader::new(stream).read_line(&mut line);
    line
}

#[test]
fn nothing_is_answered_before_the_token() {
    let server = start("", 0);
    for sent in [
        "{:id 1 :op :context :arguments {}}\n",
        "GET / HTTP/1.1\r\n",
        "(((\n",
        "\n",
        "{:token 5 :session \"s\"}\n",
    ] {
        let line = raw(server.address, sent.as_bytes());
        assert!(line.contains(":memory/unauthorised"), "{sent}: {line}");
    }
    let long = vec![b'a'; 20_000];
    assert_eq!(
        raw(server.address, &long),
        "",
        "a first line without end is not collected"
    );
}

#[test]
fn a_message_that_is_too_long_ends_its_connection_alone() {
    let server = start("", 0);
    let mut other = Client::connect(remote(server.address, TOKEN), "other").unwrap();
    let mut sent = format!("{{:token \"{TOKEN}\" :session \"s\"}}\n").into_bytes();
    sent.resize(sent.len() + (17 << 20), b' ');
    let stream = TcpStream::connect(server.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let _ = writer.write_all(&sent);
    });
    let lines: Vec<String> = BufReader::new(stream)
        .lines()
        .map_while(std::io::Result::ok)
        .collect();
    sender.join().unwrap();
    // The system may drop the last line with the bytes that were not read; the connection is over.
    assert!(lines.len() <= 2 && lines[0].contains(":ok"), "{lines:?}");
    assert!(
        lines
            .get(1)
            .is_none_or(|line| line.contains(":memory/too-large")),
        "{lines:?}"
    );
    assert!(call(&mut other, "context", "{}").is_ok());
}

#[test]
fn the_number_of_clients_is_bounded() {
    let server = start("", 0);
    let mut clients: Vec<Client> = (0..MAX_CONNECTIONS)
        .map(|i| Client::connect(remote(server.address, TOKEN), &format!("s{i}")).unwrap())
        .collect();
    let refused = Client::connect(remote(server.address, TOKEN), "one too many").unwrap_err();
    assert!(
        matches!(refused.kind(), Kind::Busy | Kind::Disconnected),
        "{refused}"
    );
    assert!(call(&mut clients[0], "context", "{}").is_ok());
    drop(clients);
    // The places become free as the transactor notices that the clients are gone.
    let again = (0..400).any(|_| {
        std::thread::sleep(Duration::from_millis(25));
        Client::connect(remote(server.address, TOKEN), "later").is_ok()
    });
    assert!(again);
}

#[test]
fn a_lost_connection_is_said_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let storage = file(&folder.path().join("m.db"));
    let server = start(&storage, 0);
    let address = server.address;
    let mut client = Client::connect(remote(address, TOKEN), "s").unwrap();
    call(&mut client, "record", REGISTER).unwrap();
    call(&mut client, "record", r#"{:tx "[{:x/n 1}]"}"#).unwrap();
    drop(server);
    let lost = call(&mut client, "record", r#"{:tx "[{:x/n 2}]"}"#).unwrap_err();
    assert_eq!(lost.kind(), Kind::Disconnected);
    assert!(lost.message().contains("not acknowledged"), "{lost}");
    let gone = call(&mut client, "recall", NUMBERS).unwrap_err();
    assert!(gone.message().contains("cannot be reached"), "{gone}");
    let server = start(&storage, address.port());
    assert_eq!(
        call(&mut client, "recall", NUMBERS).unwrap(),
        "[1]",
        "what was acknowledged is there"
    );
    drop(server);
    let _server = start(&storage, address.port());
    assert_eq!(
        call(&mut client, "recall", NUMBERS).unwrap(),
        "[1]",
        "a reading request connects again at once"
    );
    call(&mut client, "record", r#"{:tx "[{:x/n 3}]"}"#).unwrap();
    assert_eq!(call(&mut client, "recall", NUMBERS).unwrap(), "[1 3]");
    let turns = edn(&call(&mut client, "turns", "{}").unwrap());
    assert_eq!(
        turns.as_sequence().map(<[Edn]>::len),
        Some(3),
        "the session is the same"
    );
}

#[test]
fn the_client_mode_of_a_memory_is_the_same_memory() {
    let server = start("", 0);
    let text = format!(
        "{{:conn {{:host \"{}\" :port {} :token \"{TOKEN}\"}} :session \"mine\"}}",
        server.address.ip(),
        server.address.port()
    );
    let settings = Settings::parse(&text).unwrap();
    assert!(matches!(settings.place, Place::Remote(_)));
    let mut memory = Memory::open(&settings).unwrap();
    assert_eq!(memory.session(), "mine");
    let context = memory
        .answer("context", &edn("{}"), &Limits::default())
        .unwrap();
    assert_eq!(
        context
            .form
            .get("session")
            .and_then(|s| s.get("memory.session/id")),
        Some(&Edn::str("mine"))
    );
}

#[test]
fn a_foreign_file_stops_the_transactor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.db");
    std::fs::write(&path, "not ours").unwrap();
    let settings =
        ServerSettings::parse(&format!("{{:port 0 {} :token \"t\"}}", file(&path))).unwrap();
    assert_eq!(Server::bind(&settings).unwrap_err().kind(), Kind::BadFile);
    assert_eq!(std::fs::read(&path).unwrap(), b"not ours");
}
