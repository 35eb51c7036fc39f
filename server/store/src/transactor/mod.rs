//! A memory for several machines: one transactor holds the store, clients ask over TCP.
//!
//! The wire is a line of EDN each way. The first line of a client is `{:token "…" :session "id"}`,
//! and nothing else is read before the token was compared. Then `{:id 1 :op :recall :arguments {…}}`
//! is answered by `{:id 1 :ok form :note …}` or `{:id 1 :error {…}}`, in order. The connection is not
//! encrypted: it belongs on a network that is trusted, or in a tunnel.

mod client;
mod server;

use crate::edn::{Edn, read};
use crate::error::{Error, Kind, Result};
use crate::memory::{only_keys, storage_of, text_of};
use crate::storage::Storage;
use std::fmt;
use std::io::{BufRead, Read, Write};
use std::net::TcpStream;

pub use client::Client;
pub use server::{MAX_CONNECTIONS, Server, Stopper};

/// The longest line either side reads, in bytes.
pub const MAX_MESSAGE: usize = 16 << 20;

/// The longest first line of a client.
const MAX_HELLO: usize = 8 << 10;

/// What a client proves that it may connect. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token; it is not empty.
    pub fn new(text: &str) -> Option<Token> {
        (!text.is_empty() && text.len() <= 4096).then(|| Token(text.to_owned()))
    }

    /// Compares in a time that depends only on the lengths.
    fn is(&self, other: &str) -> bool {
        use subtle::ConstantTimeEq as _;
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A transactor, seen from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What it asks for.
    pub token: Token,
}

impl Remote {
    /// Reads `{:host "…" :port n :token "…"}`.
    pub(crate) fn from_edn(form: &Edn) -> Result<Remote> {
        let port = form
            .get("port")
            .and_then(Edn::as_int)
            .and_then(|n| u16::try_from(n).ok())
            .filter(|n| *n > 0);
        match (text_of(form, "host")?, port) {
            (Some(host), Some(port)) if !host.is_empty() => Ok(Remote {
                host,
                port,
                token: token_of(form)?,
            }),
            _ => Err(Error::new(
                Kind::BadArgument,
                "a transactor needs a :host, a string, and a :port from 1 to 65535",
            )),
        }
    }
}

fn token_of(form: &Edn) -> Result<Token> {
    let message = "a :token is required: a string that the transactor and its clients share";
    text_of(form, "token")?
        .as_deref()
        .and_then(Token::new)
        .ok_or_else(|| Error::new(Kind::BadArgument, message))
}

/// What a transactor is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// The address to listen on; 127.0.0.1 when none is given.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Where the facts are.
    pub storage: Storage,
    /// What clients must know.
    pub token: Token,
}

impl ServerSettings {
    /// Reads `{:host "127.0.0.1" :port 4334 :storage :file :path "…" :token "…"}`.
    ///
    /// # Errors
    /// `BadEdn` or `BadArgument`, for the person who wrote the file; never with the token.
    pub fn parse(text: &str) -> Result<ServerSettings> {
        let form = read(text)?;
        let Edn::Map(_) = &form else {
            return Err(Error::new(
                Kind::BadArgument,
                "the configuration of a transactor is a map",
            ));
        };
        only_keys(&form, &["host", "port", "storage", "path", "token"])?;
        let port = match form.get("port") {
            Some(Edn::Int(port)) => u16::try_from(*port).ok(),
            _ => None,
        };
        Ok(ServerSettings {
            host: text_of(&form, "host")?.unwrap_or_else(|| "127.0.0.1".to_owned()),
            port: port.ok_or_else(|| {
                Error::new(
                    Kind::BadArgument,
                    "a transactor needs a :port from 0 to 65535; 0 takes a free one",
                )
            })?,
            storage: storage_of(&form)?,
            token: token_of(&form)?,
        })
    }
}

/// Reads one line, without its end; None at the end of the stream.
fn read_line(reader: &mut impl BufRead, limit: usize) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    reader
        .by_ref()
        .take(limit as u64 + 1)
        .read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => String::from_utf8(line).map(Some).map_err(|_| {
            std::io::Error::new(std::io::ErrorKind::InvalidData, "a message is not UTF-8")
        }),
        Some(_) if line.len() >= limit => Err(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            format!("a message is longer than {limit} bytes"),
        )),
        // The other side went away in the middle of a line.
        Some(_) => Ok(None),
    }
}

fn write_line(stream: &mut TcpStream, form: &Edn) -> std::io::Result<()> {
    let mut line = form.to_string();
    line.push('\n');
    stream.write_all(line.as_bytes())
}
