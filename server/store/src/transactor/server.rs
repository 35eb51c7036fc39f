//! The transactor: a thread for each client, a connection of its own to the file for each thread.

use super::{MAX_HELLO, MAX_MESSAGE, ServerSettings, Token, read_line, write_line};
use crate::edn::{Edn, read};
use crate::error::{Error, Kind, Result};
use crate::memory::Session;
use crate::query::Limits;
use crate::storage::{Storage, Store};
use std::collections::HashMap;
use std::io::BufReader;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most clients at a time.
pub const MAX_CONNECTIONS: usize = 64;

/// How long a client may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may take to read its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A transactor that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    token: Token,
    storage: Storage,
    /// A store in memory has one connection, which all clients share. It also keeps a file's log
    /// from being folded in and removed each time the last client leaves.
    store: Arc<Mutex<Store>>,
    clients: Mutex<HashMap<u64, TcpStream>>,
    stopping: AtomicBool,
}

/// Stops a running transactor from elsewhere.
#[derive(Clone, Debug)]
pub struct Stopper {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Stopper {
    /// Closes all connections; [`Server::run`] returns. What was answered is on disk.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for stream in self.shared.clients().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the thread that waits for clients.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

impl Shared {
    fn clients(&self) -> std::sync::MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Opens the store and listens.
    ///
    /// # Errors
    /// When the file is refused or the address cannot be listened on.
    pub fn bind(settings: &ServerSettings) -> Result<Server> {
        let store = Store::open(&settings.storage)?;
        let cannot = |e: std::io::Error| {
            Error::new(
                Kind::Storage,
                format!("cannot listen on {}:{}: {e}", settings.host, settings.port),
            )
        };
        let listener =
            TcpListener::bind((settings.host.as_str(), settings.port)).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let shared = Shared {
            token: settings.token.clone(),
            storage: settings.storage.clone(),
            store: Arc::new(Mutex::new(store)),
            clients: Mutex::new(HashMap::new()),
            stopping: AtomicBool::new(false),
        };
        Ok(Server {
            listener,
            address,
            shared: Arc::new(shared),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A handle to stop it.
    pub fn stopper(&self) -> Stopper {
        Stopper {
            address: self.address,
            shared: self.shared.clone(),
        }
    }

    /// Serves until it is stopped.
    pub fn run(self) {
        let mut threads = Vec::new();
        for (id, stream) in (0u64..).zip(self.listener.incoming()) {
            if self.shared.stopping.load(Ordering::SeqCst) {
                break;
            }
            let Ok(mut stream) = stream else { continue };
            let Ok(handle) = stream.try_clone() else {
                continue;
            };
            {
                let mut clients = self.shared.clients();
                if clients.len() >= MAX_CONNECTIONS {
                    drop(clients);
                    let message = format!(
                        "the transactor has {MAX_CONNECTIONS} clients, which is its bound; try again later"
                    );
                    let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
                    let _ =
                        write_line(&mut stream, &failed(None, &Error::new(Kind::Busy, message)));
                    continue;
                }
                clients.insert(id, handle);
            }
            let shared = self.shared.clone();
            threads.retain(|thread: &std::thread::JoinHandle<()>| !thread.is_finished());
            threads.push(std::thread::spawn(move || {
                // An I/O error means that the client is gone; there is no one to tell.
                let _ = serve(&shared, stream);
                if let Some(stream) = shared.clients().remove(&id) {
                    let _ = stream.shutdown(Shutdown::Both);
                }
            }));
        }
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn failed(id: Option<i64>, error: &Error) -> Edn {
    let mut members = Vec::new();
    members.extend(id.map(|id| (Edn::keyword("id"), Edn::Int(id))));
    members.push((Edn::keyword("error"), error.to_edn()));
    Edn::Map(members)
}

/// One client, from its first line to its last.
fn serve(shared: &Shared, mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    stream.set_read_timeout(Some(HELLO_TIMEOUT))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let Some(hello) = read_line(&mut reader, MAX_HELLO)? else {
        return Ok(());
    };
    let mut session = match greet(shared, &hello) {
        Ok(session) => session,
        Err(error) => {
            // Guessing is slow.
            std::thread::sleep(Duration::from_millis(200));
            return write_line(&mut stream, &failed(None, &error));
        }
    };
    write_line(&mut stream, &Edn::map([("ok", Edn::Bool(true))]))?;
    stream.set_read_timeout(None)?;
    loop {
        let line = match read_line(&mut reader, MAX_MESSAGE) {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                // Where the next message starts is not known any more.
                return write_line(
                    &mut stream,
                    &failed(None, &Error::new(Kind::TooLarge, error.to_string())),
                );
            }
            Err(error) => return Err(error),
        };
        let answer = answer(&mut session, &line);
        write_line(&mut stream, &answer)?;
    }
}

fn greet(shared: &Shared, hello: &str) -> Result<Session> {
    // What was sent is not repeated in an error: it may be a token with a slip in it.
    let form = read(hello).map_err(|_| {
        Error::new(
            Kind::Unauthorised,
            "the first line is {:token \"…\" :session \"…\"}",
        )
    })?;
    let token = form.get("token").and_then(Edn::as_str).unwrap_or("");
    if !shared.token.is(token) {
        return Err(Error::new(
            Kind::Unauthorised,
            "the transactor does not accept this token",
        ));
    }
    let id = form.get("session").and_then(Edn::as_str);
    let id =
        id.ok_or_else(|| Error::new(Kind::BadArgument, "the first line names the :session"))?;
    let store = match &shared.storage {
        Storage::Memory => shared.store.clone(),
        file => Arc::new(Mutex::new(Store::open(file)?)),
    };
    Session::open(store, id)
}

fn answer(session: &mut Session, line: &str) -> Edn {
    let request = match read(line) {
        Ok(request) => request,
        Err(error) => return failed(None, &error.into()),
    };
    let id = request.get("id").and_then(Edn::as_int);
    let operation = request.get("op").and_then(Edn::as_keyword).unwrap_or("");
    let nothing = Edn::Map(Vec::new());
    let arguments = request.get("arguments").unwrap_or(&nothing);
    match session.answer(operation, arguments, &Limits::default()) {
        Ok(answer) => {
            let mut members = vec![
                (Edn::keyword("id"), id.map_or(Edn::Nil, Edn::Int)),
                (Edn::keyword("ok"), answer.form),
            ];
            members.extend(answer.note.map(|note| (Edn::keyword("note"), note)));
            Edn::Map(members)
        }
        Err(error) => failed(id, &error),
    }
}
