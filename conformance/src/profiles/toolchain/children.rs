//! How the compiler is started, and what is left of it: no shell reads the arguments, and the time
//! limit ends all that a program has started.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use super::{Profile, Program, temporary};

type Done = Result<(), String>;

/// Texts that have a shell run `{}` when they are pasted into its line: bare, between double quotes
/// or between single ones. A `#` takes away what follows in the line.
const FORMS: [&str; 7] = [
    "$({})`{}`",
    "; {} #",
    " | {} #",
    " && {} #",
    "\n{}\n",
    "\"; {} #",
    "'; {} #",
];

/// An argument that takes any text. What a source holds is code anyway.
struct Place {
    tool: &'static str,
    argument: &'static str,
    /// The arguments with this text in it.
    arguments: fn(&Program, &str) -> Value,
}

const PLACES: [Place; 5] = [
    Place {
        tool: "searchSkills",
        argument: "name",
        arguments: |_, text| json!({"name": format!("a{text}")}),
    },
    Place {
        tool: "getSkills",
        argument: "uris",
        arguments: |_, text| json!({"uris": [format!("a{text}")]}),
    },
    Place {
        tool: "compile",
        argument: "entry",
        arguments: with_entry,
    },
    Place {
        tool: "jit_execute",
        argument: "entry",
        arguments: with_entry,
    },
    Place {
        tool: "compile",
        argument: "files",
        arguments: |program, text| {
            let mut files = program.files.clone();
            files.insert(format!("a{text}"), String::new());
            json!({"files": files, "entry": program.entry})
        },
    },
];

fn with_entry(program: &Program, text: &str) -> Value {
    json!({"files": program.files, "entry": format!("{}{text}", program.entry)})
}

/// A command in an argument must not run. What is answered does not matter.
pub(super) fn no_shell(profile: &mut Profile<'_>) -> Done {
    const RULE: &str = "no-shell";
    let folder = temporary()?;
    let program = profile.program("ok")?;
    let mut server = profile.start(&folder, &[])?;
    for Place {
        tool,
        argument,
        arguments,
    } in PLACES
    {
        let marks = temporary()?;
        let mark = marks.path().join("mark");
        for form in FORMS {
            let text = form.replace("{}", &touch(&mark));
            let answered = server.answers(tool, &arguments(&program, &text));
            profile.rule(RULE, answered, &server, || {
                format!("`{tool}` with {text:?} in `{argument}` was not answered.")
            });
            profile.rule(RULE, !mark.exists(), &server, || {
                format!("`{tool}` with {text:?} in `{argument}` ran the command in it.")
            });
            if !answered {
                return Ok(());
            }
            if mark.exists() {
                break;
            }
        }
    }
    server.stop(profile.options);
    Ok(())
}

/// A command that makes this file. It has no slash, so that it can be part of a file's name: base64
/// of ASCII has none.
fn touch(mark: &Path) -> String {
    let path = mark.as_os_str().as_encoded_bytes();
    let path = base64::engine::general_purpose::STANDARD.encode(path);
    format!("touch $(echo {path} | base64 -d)")
}

/// How long after the answer what is to be killed may take to be gone.
const GRACE: Duration = Duration::from_secs(5);

/// A program starts another, which goes on, and never ends itself: the time limit ends both.
pub(super) fn tree(profile: &mut Profile<'_>) -> Done {
    const RULE: &str = "run.tree-ended";
    const NAME: &str = "beyond-leaves-child";
    // A compiler may take most of the shorter limit.
    for limit in [1, 5] {
        let (folder, outside) = (temporary()?, temporary()?);
        let held = outside.path().join("held");
        let Ok(mut program) = profile.fresh(NAME) else {
            let why = "The pack has no program `beyond-leaves-child`, one that starts another and never ends.";
            profile
                .judge
                .not_applicable(&format!("toolchain.{RULE}"), why);
            return Ok(());
        };
        for text in program.files.values_mut() {
            *text = text.replace("%FILE%", &held.display().to_string());
        }
        let mut server = profile.start(&folder, &[&format!("--exec-timeout={limit}")])?;
        let answered = server.answers("jit_execute", &program.arguments());
        if held.exists() {
            let ended = is_free(&held, GRACE);
            profile.rule(RULE, ended, &server, || {
                format!(
                    "{} s after `--exec-timeout={limit}` has ended a run, a process that the program started is still there.",
                    GRACE.as_secs()
                )
            });
            server.stop(profile.options);
            return Ok(());
        }
        server.stop(profile.options);
        if !answered {
            return Err(format!("`jit_execute` of `{NAME}` was not answered"));
        }
    }
    let why = "The program that starts another did not come to write its file: it does not compile, or may not write there.";
    profile
        .judge
        .not_applicable(&format!("toolchain.{RULE}"), why);
    Ok(())
}

/// Whether nobody holds a lock on the file any more, in that time.
fn is_free(file: &Path, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        // Where a file cannot be locked nothing is known of who holds it.
        match File::open(file).map(|file| file.try_lock()) {
            Ok(Err(std::fs::TryLockError::WouldBlock)) => {}
            _ => return true,
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Each form runs its command in at least one way of pasting it, and together in all of them.
    #[test]
    fn a_shell_runs_the_command_wherever_the_text_is_pasted() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let mut ran = [0; 3];
        for form in FORMS {
            let text = form.replace("{}", &touch(&mark));
            assert!(!text.contains('/'), "{text}");
            let lines = [
                format!("true a{text} --json"),
                format!("true \"a{text}\" --json"),
                format!("true 'a{text}' --json"),
            ];
            for (count, line) in ran.iter_mut().zip(lines) {
                let shell = Command::new("sh").args(["-c", &line]).output();
                assert!(shell.is_ok());
                *count += usize::from(std::fs::remove_file(&mark).is_ok());
            }
        }
        assert_eq!(ran, [5, 2, 1]);
    }

    #[test]
    fn a_lock_is_seen_until_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("held");
        let held = File::create(&path).unwrap();
        held.lock().unwrap();
        assert!(!is_free(&path, Duration::from_millis(50)));
        drop(held);
        assert!(is_free(&path, Duration::ZERO));
    }
}
