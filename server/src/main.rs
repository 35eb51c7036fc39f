//! `touchstone-server`: puts the parts together.

use std::io::{self, Read};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use touchstone_server::cli::{self, Arguments, Problem};
use touchstone_server::demo::Demo;
use touchstone_server::memory::{self, transactor};
use touchstone_server::protocol::{Family, Options, Server};
use touchstone_server::skills::Skills;
use touchstone_server::stdio::{End, Limits, Loop, Stopper};
use touchstone_server::toolchain::config::Settings;
use touchstone_server::toolchain::{Toolchain, orphan, rustc};
use touchstone_server::workspace;

/// With what the loop adds to stop the rest, the process is gone a second after its input.
const GRACE: Duration = Duration::from_millis(600);

/// A loop that stands still for so long after the end hangs in a write that nobody reads.
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    // As the first word: the toolchains that the server runs itself as, the language's tools, and
    // the transactor of a shared memory.
    match words.next() {
        Some(word) if word == rustc::SUBCOMMAND => {
            orphan::end_with_parent();
            return rustc::main(words);
        }
        Some(word) if word == transactor::SUBCOMMAND => return transactor::main(words),
        Some(word) if word == workspace::toolchain::SUBCOMMAND => {
            orphan::end_with_parent();
            return workspace::toolchain::main(words);
        }
        Some(word) if word == workspace::cli::SUBCOMMAND => return workspace::cli::main(words),
        _ => {}
    }
    let arguments = match cli::parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(Problem::Text(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(Problem::Usage(line)) => return usage(&line),
    };
    let families = match families(&arguments) {
        Ok(families) => families,
        Err(line) => return usage(&line),
    };
    let mut secret = [0; 32];
    if let Err(error) = getrandom::fill(&mut secret) {
        eprintln!("touchstone-server: the system gives no random bytes: {error}");
        return ExitCode::FAILURE;
    }
    let options = Options {
        name: "touchstone-server",
        title: "Touchstone reference server",
        version: env!("CARGO_PKG_VERSION"),
        page_size: arguments.page_size.map(|size| size as usize),
        secret,
    };
    let limits = Limits {
        max_line: arguments.max_line,
        client_timeout: arguments.client_timeout,
        grace: GRACE,
    };
    let serving = Loop::new(Server::new(options, families), limits);
    stop_on_signals(serving.stopper());
    let input = Watched {
        input: io::stdin(),
        stopper: serving.stopper(),
    };
    match serving.run(input, io::stdout().lock()) {
        End::Input | End::Output => ExitCode::SUCCESS,
        End::Signal(signal) => ExitCode::from(exit_code(signal)),
    }
}

fn usage(line: &str) -> ExitCode {
    eprintln!("touchstone-server: {line} (see --help)");
    ExitCode::from(2)
}

/// The families of tools that there are.
const FAMILIES: [&str; 4] = ["toolchain", "memory", "workspace", "demo"];
/// Those that are offered when none is named.
const USUAL: [&str; 3] = ["toolchain", "memory", "workspace"];

/// The families among the names of `--tools`, and the rest: functions to export.
fn split(names: Option<&[String]>) -> (Vec<&str>, Vec<&str>) {
    let names = names.unwrap_or_default().iter().map(String::as_str);
    let (families, exported): (Vec<&str>, Vec<&str>) =
        names.partition(|name| FAMILIES.contains(name));
    match families.is_empty() {
        true => (USUAL.to_vec(), exported),
        false => (families, exported),
    }
}

/// The families that were asked for, in the order of this table.
fn families(arguments: &Arguments) -> Result<Vec<Arc<dyn Family>>, String> {
    let (wanted, exported) = split(arguments.tools.as_deref());
    if let (Some(name), None) = (exported.first(), &arguments.workspace.workspace) {
        let known = FAMILIES.join(", ");
        return Err(format!(
            "--tools: there is no family \"{name}\", only {known}; to export a function of that name give its folder with --workspace"
        ));
    }
    let mut families: Vec<Arc<dyn Family>> = Vec::new();
    if wanted.contains(&"toolchain") {
        let settings = Settings::from_process(&arguments.toolchain);
        let settings = settings.map_err(|error| error.to_string())?;
        let toolchain: Arc<dyn Family> = Arc::new(Toolchain::new(settings));
        families.push(toolchain.clone());
        families.push(Arc::new(Skills::new(toolchain)));
    }
    if wanted.contains(&"memory") {
        let settings = memory::config::from_process(&arguments.memory)?;
        families.push(Arc::new(memory::Family::open(&settings)?));
    }
    if wanted.contains(&"workspace") || !exported.is_empty() {
        let settings = workspace::config::Settings::new(&arguments.workspace, &exported)?;
        families.push(Arc::new(workspace::Family::open(settings)?));
    }
    if wanted.contains(&"demo") {
        families.push(Arc::new(Demo::default()));
    }
    Ok(families)
}

/// The shell's convention for a process that a signal ended.
fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}

/// On TERM or INT children are killed before the process ends.
fn stop_on_signals(stopper: Stopper) {
    let Ok(mut signals) = Signals::new([SIGTERM, SIGINT]) else {
        return; // The signals then end the process at once, as they do by default.
    };
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            stopper.stop(signal);
            end_after_patience(&stopper, i32::from(exit_code(signal)));
        }
    });
}

/// Stdin, with an eye on what happens after its end.
struct Watched {
    input: io::Stdin,
    stopper: Stopper,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        if length == 0 {
            let stopper = self.stopper.clone();
            thread::spawn(move || end_after_patience(&stopper, 0));
        }
        Ok(length)
    }
}

fn end_after_patience(stopper: &Stopper, code: i32) {
    loop {
        let before = stopper.beats();
        thread::sleep(PATIENCE);
        if stopper.beats() == before {
            break;
        }
    }
    stopper.cancel_all();
    thread::sleep(Duration::from_millis(200));
    process::exit(code);
}
