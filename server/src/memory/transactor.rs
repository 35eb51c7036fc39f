//! `touchstone-server transactor CONFIG.edn`: one store for clients on other machines.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use touchstone_store::transactor::{Server, ServerSettings};

use super::config::read;

/// The first word of the command line that starts a transactor.
pub const SUBCOMMAND: &str = "transactor";

const USAGE: &str = "usage: touchstone-server transactor CONFIG.edn\n\n\
    Keeps one memory for servers on other machines. The file holds\n\
    {:host \"127.0.0.1\" :port 4334 :storage :file :path \"…\" :token \"…\"};\n\
    a server that uses it is started with --memory and a file that holds\n\
    {:conn {:host \"…\" :port 4334 :token \"…\"}}. The connection is not encrypted.\n";

/// Runs a transactor until TERM or INT; `words` is what follows the subcommand. Exit code 2 for a
/// command line or a configuration that cannot be used, 1 when the file or the address cannot.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.collect();
    let file = match &words[..] {
        [word] if word == "--help" || word == "-h" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [file] => PathBuf::from(file),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let settings = match read(&file, ServerSettings::parse) {
        Ok(settings) => settings,
        Err(line) => {
            eprintln!("touchstone-server: {line}");
            return ExitCode::from(2);
        }
    };
    match serve(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => {
            eprintln!("touchstone-server: {line}");
            ExitCode::FAILURE
        }
    }
}

fn serve(settings: &ServerSettings) -> Result<(), String> {
    let server = Server::bind(settings).map_err(|error| format!("transactor: {error}"))?;
    let stopper = server.stopper();
    let mut signals =
        Signals::new([SIGTERM, SIGINT]).map_err(|error| format!("transactor: {error}"))?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    eprintln!(
        "touchstone-server: the transactor listens on {}",
        server.address()
    );
    server.run();
    Ok(())
}
