//! A toolchain on a bench: its own folders, calls that fail loudly.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use touchstone_server::protocol::family::{Call, Family, Outcome};
use touchstone_server::toolchain::Toolchain;
use touchstone_server::toolchain::config::{CacheSettings, Limits, Settings};

/// What nothing here should ever take; only a hang does.
pub(crate) const FOREVER: Duration = Duration::from_secs(60);

/// The scripted toolchain, built once.
pub(crate) fn scripted() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let server = Path::new(env!("CARGO_BIN_EXE_touchstone-server"));
            let target = server.parent().unwrap().parent().unwrap();
            let done = Command::new(env!("CARGO"))
                .args([
                    "build",
                    "--quiet",
                    "--package",
                    "scripted-toolchain",
                    "--target-dir",
                ])
                .arg(target)
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status()
                .unwrap();
            assert!(done.success());
            target.join("debug/scripted-toolchain")
        })
        .clone()
}

pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) settings: Settings,
    pub(crate) toolchain: Toolchain,
}

impl Bench {
    /// Around the scripted toolchain.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let temp = dir.path().join("temp");
        fs::create_dir(&temp).unwrap();
        let mut settings = Settings {
            compiler: Some(scripted()),
            search_path: std::env::var_os("PATH").unwrap(),
            temp,
            adapter: env!("CARGO_BIN_EXE_touchstone-server").into(),
            cache: CacheSettings {
                dir: dir.path().join("cache"),
                ..CacheSettings::default()
            },
            limits: Limits::default(),
        };
        change(&mut settings);
        Self {
            toolchain: Toolchain::new(settings.clone()),
            settings,
            dir,
        }
    }

    /// Around `rustc`, as on a machine without `cajeta`.
    pub(crate) fn rust() -> Self {
        Self::with(|settings| settings.compiler = None)
    }

    /// A path in the bench's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A server that is started anew with the same settings.
    pub(crate) fn restart(&mut self) {
        self.toolchain = Toolchain::new(self.settings.clone());
    }

    pub(crate) fn outcome(&self, tool: &str, arguments: Value) -> Outcome {
        let begun = Instant::now();
        let outcome =
            self.toolchain
                .call(tool, arguments.as_object().unwrap(), &Signal::new().call);
        assert!(begun.elapsed() < FOREVER, "{tool} hung");
        assert_eq!(self.left_behind(), Vec::<PathBuf>::new());
        outcome
    }

    /// The structured result, which fits the tool's output schema and is its text too.
    pub(crate) fn result(&self, tool: &str, arguments: Value) -> Value {
        let outcome = self.outcome(tool, arguments);
        self.structured(tool, outcome)
    }

    pub(crate) fn structured(&self, tool: &str, outcome: Outcome) -> Value {
        let Outcome::Done {
            content,
            structured: Some(structured),
            is_error: false,
        } = outcome
        else {
            panic!("{tool} gave {outcome:?}");
        };
        assert_eq!(content.len(), 1);
        assert_eq!(content[0]["type"], "text");
        let text: Value = serde_json::from_str(content[0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, structured);
        let tools = self.toolchain.tools();
        let tool = tools.iter().find(|known| known.name == tool).unwrap();
        let schema = tool.output_schema.as_ref().unwrap();
        jsonschema::validate(schema, &structured).unwrap();
        structured
    }

    pub(crate) fn compile(&self, files: Value, entry: &str) -> Value {
        self.result("compile", json!({"files": files, "entry": entry}))
    }

    pub(crate) fn run(&self, files: Value, entry: &str) -> Value {
        self.result("jit_execute", json!({"files": files, "entry": entry}))
    }

    /// Runs the method of one scripted class.
    pub(crate) fn run_script(&self, script: &str) -> Value {
        self.run(script_tree(script), ENTRY)
    }

    /// What calls have left in the temporary folder.
    pub(crate) fn left_behind(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.settings.temp).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The names in the cache folder with their contents.
    pub(crate) fn entries(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(&self.settings.cache.dir).into_iter().flatten();
        entries
            .map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read(entry.path()).unwrap())
            })
            .collect()
    }
}

pub(crate) const ENTRY: &str = "demo.Main.run";

/// A tree of one scripted class with the method `run`.
pub(crate) fn script_tree(directives: &str) -> Value {
    json!({"demo/Main.scripted": format!("on run run\n{directives}\n")})
}

/// A call that can be cancelled and whose progress can be read.
#[derive(Clone)]
pub(crate) struct Signal {
    pub(crate) call: Call,
    cancelled: Arc<AtomicBool>,
    progress: Arc<Mutex<Vec<f64>>>,
}

impl Signal {
    pub(crate) fn new() -> Self {
        let cancelled = Arc::new(AtomicBool::new(false));
        let progress = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&progress);
        let call = Call::new(
            Arc::clone(&cancelled),
            Arc::new(move |value, _, _| told.lock().unwrap().push(value)),
        );
        Self {
            call,
            cancelled,
            progress,
        }
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }

    pub(crate) fn progress(&self) -> Vec<f64> {
        self.progress.lock().unwrap().clone()
    }
}

/// Waits until a condition holds; a program that never gets there fails the test.
pub(crate) fn await_that(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < FOREVER, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether some process holds the lock on a file that a scripted program took.
pub(crate) fn is_held(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => file.try_lock().is_err(),
        Err(_) => false,
    }
}

pub(crate) fn without_hit(mut result: Value) -> (Map<String, Value>, bool) {
    let members = result.as_object_mut().unwrap();
    let hit = members.remove("cacheHit").unwrap().as_bool().unwrap();
    (members.clone(), hit)
}
