//! A client of a transactor.

use super::{MAX_MESSAGE, Remote, read_line, write_line};
use crate::edn::{Edn, read};
use crate::error::{Error, Kind, Result};
use crate::memory::Answer;
use std::io::BufReader;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an answer may take. A query is bounded in steps, which take less.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection that is made again when it was lost.
#[derive(Debug)]
pub struct Client {
    remote: Remote,
    session: String,
    connection: Option<Connection>,
    last_id: i64,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    /// Connects and opens the session.
    ///
    /// # Errors
    /// `Disconnected` when the transactor cannot be reached, `Unauthorised` when it refuses the token.
    pub fn connect(remote: Remote, session: &str) -> Result<Client> {
        let mut client = Client {
            remote,
            session: session.to_owned(),
            connection: None,
            last_id: 0,
        };
        client.connection = Some(client.open()?);
        Ok(client)
    }

    /// The id of the session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Asks the transactor for one of the operations. A lost connection is made again for the next
    /// request, and at once for one that only reads.
    ///
    /// # Errors
    /// What the transactor says; `Disconnected` when it cannot be asked. After that a `record` may
    /// or may not have happened, and the message says so.
    pub fn answer(&mut self, operation: &str, arguments: &Edn) -> Result<Answer> {
        let fresh = self.connection.is_none();
        match self.ask(operation, arguments) {
            Err(error) if error.kind() == Kind::Disconnected && operation != "record" && !fresh => {
                self.ask(operation, arguments)
            }
            answer => answer,
        }
    }

    fn ask(&mut self, operation: &str, arguments: &Edn) -> Result<Answer> {
        self.last_id += 1;
        let id = self.last_id;
        let request = Edn::map([
            ("id", Edn::Int(id)),
            ("op", Edn::keyword(operation)),
            ("arguments", arguments.clone()),
        ]);
        if request.to_string().len() > MAX_MESSAGE {
            return Err(Error::new(
                Kind::TooLarge,
                format!("the request is longer than {MAX_MESSAGE} bytes; split it"),
            ));
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.open()?,
        };
        let reply = write_line(&mut connection.stream, &request)
            .and_then(|()| read_line(&mut connection.reader, MAX_MESSAGE))
            .map_err(|e| self.lost(operation, &e.to_string()))?
            .ok_or_else(|| self.lost(operation, "it closed the connection"))?;
        let reply = read(&reply)
            .map_err(|e| self.lost(operation, &format!("its answer is not EDN: {e}")))?;
        if let Some(error) = reply.get("error") {
            // An answer without the id ends the connection.
            if reply.get("id").is_some() {
                self.connection = Some(connection);
            }
            return Err(Error::from_edn(error));
        }
        match (reply.get("id"), reply.get("ok")) {
            (Some(Edn::Int(answered)), Some(form)) if *answered == id => {
                self.connection = Some(connection);
                Ok(Answer {
                    form: form.clone(),
                    note: reply.get("note").cloned(),
                })
            }
            _ => Err(self.lost(operation, "it answered another request")),
        }
    }

    fn open(&self) -> Result<Connection> {
        let Remote { host, port, token } = &self.remote;
        let cannot = |e: &dyn std::fmt::Display| {
            Error::new(
                Kind::Disconnected,
                format!("the transactor at {host}:{port} cannot be reached: {e}"),
            )
        };
        let addresses = (host.as_str(), *port)
            .to_socket_addrs()
            .map_err(|e| cannot(&e))?;
        let mut stream = Err(cannot(&"the name has no address"));
        for address in addresses {
            stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map_err(|e| cannot(&e));
            if stream.is_ok() {
                break;
            }
        }
        let mut stream = stream?;
        let set_up = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(ANSWER_TIMEOUT)));
        let cloned = set_up
            .and_then(|()| stream.set_write_timeout(Some(ANSWER_TIMEOUT)))
            .and_then(|()| stream.try_clone());
        let mut reader = BufReader::new(cloned.map_err(|e| cannot(&e))?);
        let hello = Edn::map([
            ("token", Edn::str(&token.0)),
            ("session", Edn::str(&self.session)),
        ]);
        write_line(&mut stream, &hello).map_err(|e| cannot(&e))?;
        let reply = read_line(&mut reader, MAX_MESSAGE)
            .map_err(|e| cannot(&e))?
            .ok_or_else(|| cannot(&"it hung up"))?;
        let reply = read(&reply).map_err(|_| cannot(&"what answers there is no transactor"))?;
        match (reply.get("ok"), reply.get("error")) {
            (Some(_), _) => Ok(Connection { stream, reader }),
            (_, Some(error)) => Err(Error::from_edn(error)),
            _ => Err(cannot(&"what answers there is no transactor")),
        }
    }

    fn lost(&self, operation: &str, why: &str) -> Error {
        let Remote { host, port, .. } = &self.remote;
        let then = match operation {
            "record" => {
                "the turn is not acknowledged and may or may not be recorded; look with `turns` before you record it again"
            }
            _ => "ask again",
        };
        Error::new(
            Kind::Disconnected,
            format!("the connection to the transactor at {host}:{port} was lost ({why}); {then}"),
        )
    }
}
