//! Arguments, results and errors of the five tools.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use touchstone_server::protocol::family::{Family, Outcome};

use crate::bench::{Bench, ENTRY, Signal, script_tree};

#[test]
fn every_tool_describes_itself_in_full() {
    let bench = Bench::new();
    let tools = bench.toolchain.tools();
    let names: Vec<_> = tools.iter().map(|tool| tool.name).collect();
    assert_eq!(
        names,
        [
            "searchSkills",
            "listSkills",
            "getSkills",
            "compile",
            "jit_execute"
        ]
    );
    for tool in &tools {
        assert!(
            !tool.title.is_empty() && tool.description.len() > 60,
            "{}",
            tool.name
        );
        for schema in [&tool.input_schema, tool.output_schema.as_ref().unwrap()] {
            assert!(jsonschema::meta::is_valid(schema));
            assert_eq!(schema["type"], "object");
            for (name, property) in schema["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{} {name}", tool.name);
            }
        }
        let reads = tool.name.ends_with("Skills");
        assert_eq!(tool.annotations["readOnlyHint"], json!(reads));
        assert_eq!(tool.annotations.as_object().unwrap().len(), 4);
    }
}

#[test]
fn initialize_echoes_the_cache_settings() {
    let bench = Bench::with(|settings| settings.cache.ttl = 7);
    let echo = &bench.toolchain.initialize_members()["cacheConfig"];
    assert_eq!(
        *echo,
        json!({"enabled": true, "dir": bench.path("cache"), "ttl": 7, "maxBytes": 104857600,
               "maxEntries": 256})
    );
}

#[test]
fn compile_gives_the_artifact_exactly_on_success() {
    let bench = Bench::new();
    let good = bench.compile(script_tree("exit 7"), ENTRY);
    assert_eq!(good["exitStatus"], 0);
    assert_eq!(good["diagnostics"], json!([]));
    assert_eq!(good["cacheHit"], false);
    let artifact = BASE64.decode(good["artifact"].as_str().unwrap()).unwrap();
    let text = String::from_utf8(artifact).unwrap();
    assert_eq!(
        text,
        "scripted archive of demo.Main.run\ndemo/Main.scripted 18\non run run\nexit 7\n"
    );
    let bad = bench.compile(script_tree("frobnicate"), ENTRY);
    assert_eq!(bad["exitStatus"], 1);
    assert_eq!(bad.get("artifact"), None);
}

#[test]
fn diagnostics_are_the_lines_of_stderr_that_are_not_empty() {
    let bench = Bench::new();
    let script = "on compile\neprint a warning\neprint\neprint   é, another\non run run";
    let files = json!({"demo/Main.scripted": script});
    let result = bench.compile(files, ENTRY);
    assert_eq!(result["diagnostics"], json!(["a warning", "é, another"]));
    assert_eq!(result["exitStatus"], 0);
    assert!(result["artifact"].is_string());
}

#[test]
fn jit_execute_gives_what_the_program_did() {
    let bench = Bench::new();
    let result = bench.run_script("print hello\nprint-hex ff00e9\neprint oops\nexit 7");
    assert_eq!(
        result,
        json!({
            "returnValue": 7,
            "exitStatus": 7,
            "stdout": "hello\n\u{fffd}\0\u{fffd}",
            "stderr": format!("[jit-run] running {ENTRY}\noops\n"),
            "cacheHit": false,
        })
    );
    for code in [0, 1, 101, 255] {
        let result = bench.run_script(&format!("exit {code}"));
        assert_eq!(result["returnValue"], code);
        assert_eq!(result["exitStatus"], code);
    }
}

#[test]
fn an_entry_that_does_not_exist_is_a_result() {
    let bench = Bench::new();
    for entry in [
        "demo.Main.nothing",
        "nothing",
        "",
        "a.b.c.d",
        "../x",
        "--help",
        "é ü",
    ] {
        for tool in ["compile", "jit_execute"] {
            let arguments = json!({"files": script_tree(""), "entry": entry});
            let result = bench.result(tool, arguments);
            assert_ne!(result["exitStatus"], 0, "{tool} {entry}");
        }
    }
}

#[test]
fn arguments_that_do_not_fit_are_invalid_params() {
    let bench = Bench::new();
    let files = script_tree("");
    let tree = [
        json!({"entry": ENTRY}),
        json!({"files": {}, "entry": ENTRY}),
        json!({"files": null, "entry": ENTRY}),
        json!({"files": [], "entry": ENTRY}),
        json!({"files": ["a"], "entry": ENTRY}),
        json!({"files": "a", "entry": ENTRY}),
        json!({"files": {"a": 1}, "entry": ENTRY}),
        json!({"files": {"a": null}, "entry": ENTRY}),
        json!({"files": files}),
        json!({"files": files, "entry": null}),
        json!({"files": files, "entry": 7}),
        json!({"files": files, "entry": ["a"]}),
        json!({"files": files, "entry": "a\u{0}b"}),
        json!({"files": {"/a": ""}, "entry": ENTRY}),
        json!({"files": {"../a": ""}, "entry": ENTRY}),
        json!({"files": {"a/../../b": ""}, "entry": ENTRY}),
        json!({"files": {"a\\b": ""}, "entry": ENTRY}),
        json!({"files": {"C:/a": ""}, "entry": ENTRY}),
        json!({"files": {"a\u{0}": ""}, "entry": ENTRY}),
        json!({"files": {"a": "", "./a": ""}, "entry": ENTRY}),
        json!({"files": {"a": "", "a/b": ""}, "entry": ENTRY}),
    ];
    for arguments in &tree {
        refused(&bench, "compile", arguments);
        refused(&bench, "jit_execute", arguments);
    }
    for arguments in [
        json!({}),
        json!({"name": 7}),
        json!({"name": null}),
        json!({"name": []}),
    ] {
        refused(&bench, "searchSkills", &arguments);
    }
    let uris = [
        json!(null),
        json!("a"),
        json!({}),
        json!(1),
        json!(["a", 1]),
    ];
    refused(&bench, "getSkills", &json!({}));
    for uris in uris {
        refused(&bench, "getSkills", &json!({"uris": uris}));
    }
    assert!(bench.entries().is_empty());
}

fn refused(bench: &Bench, tool: &str, arguments: &Value) {
    let outcome = bench.outcome(tool, arguments.clone());
    let Outcome::InvalidParams(message) = outcome else {
        panic!("{tool} {arguments} gave {outcome:?}");
    };
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(
        ["`name`", "`uris`", "`files`", "`entry`"]
            .iter()
            .any(|name| message.contains(name))
    );
}

#[test]
fn other_arguments_are_passed_over() {
    let bench = Bench::new();
    let result = bench.result(
        "jit_execute",
        json!({"files": script_tree("exit 3"), "entry": ENTRY, "more": [1]}),
    );
    assert_eq!(result["exitStatus"], 3);
    assert_eq!(
        bench.result("listSkills", json!({"x": 1}))["skills"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn skills_are_what_the_compiler_printed() {
    let bench = Bench::new();
    let found = bench.result("searchSkills", json!({"name": "fir"}));
    assert_eq!(
        found,
        json!({"results": [{"uri": "cja-skill://scripted/first", "name": "first"}]})
    );
    let all = bench.result("listSkills", json!({}));
    assert_eq!(all["skills"].as_array().unwrap().len(), 2);
    let uris = ["cja-skill://scripted/second", "cja-skill://scripted/first"];
    let read = bench.result("getSkills", json!({"uris": uris}));
    assert_eq!(read["skills"].as_array().unwrap().len(), 2);
    assert_eq!(read["skills"][0]["content"], "The first skill, in full: é.");
    let one = bench.result("getSkills", json!({"uris": [uris[0]]}));
    assert_eq!(one["skills"][0]["name"], "second");
    assert_eq!(
        bench.result("getSkills", json!({"uris": []})),
        json!({"skills": []})
    );
}

#[test]
fn a_skill_command_that_prints_nothing_found_nothing() {
    let bench = Bench::new();
    assert_eq!(
        bench.result("searchSkills", json!({"name": "no such skill"})),
        json!({"results": []})
    );
    let failed = bench.result("searchSkills", json!({"name": "!eprint no index; exit 3"}));
    assert_eq!(failed["results"], json!([]));
    assert_eq!(
        failed["notes"],
        json!(["The toolchain exited with 3: no index"])
    );
}

#[test]
fn a_skill_command_that_prints_no_array_is_a_failure_of_the_tool() {
    let bench = Bench::with(|settings| settings.limits.max_output = 1000);
    for script in [
        "!print sorry",
        "!print {}",
        "!print [1",
        "!flood stdout 2000",
        "!crash KILL",
    ] {
        let outcome = bench.outcome("searchSkills", json!({"name": script}));
        let Outcome::Done {
            is_error: true,
            structured: None,
            content,
        } = outcome
        else {
            panic!("{script} gave {outcome:?}");
        };
        assert!(
            content[0]["text"]
                .as_str()
                .unwrap()
                .contains("search-skill")
        );
    }
}

#[test]
fn skill_calls_are_never_cached() {
    let bench = Bench::new();
    let count = bench.path("count");
    let name = format!("!append {} x; print []", count.display());
    for _ in 0..2 {
        bench.result("searchSkills", json!({"name": name}));
    }
    assert_eq!(std::fs::read_to_string(count).unwrap(), "x\nx\n");
    assert!(bench.entries().is_empty());
}

#[test]
fn each_run_is_a_new_process_in_a_new_empty_folder_without_input() {
    let bench = Bench::with(|settings| settings.cache.enabled = false);
    let script = "pid\ncwd\nlist-cwd\nstdin\nwrite left x\nlist-cwd";
    let run = || {
        let result = bench.run_script(script);
        let stdout = result["stdout"].as_str().unwrap().to_owned();
        stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (one, two) = (run(), run());
    assert_ne!(one[0], two[0], "process");
    assert_ne!(one[1], two[1], "folder");
    assert_eq!(one[2..], ["", "0", "left"]);
    assert_eq!(two[2..], ["", "0", "left"]);
}

#[test]
fn a_child_sees_a_scrubbed_environment() {
    // Cargo sets many variables for this process.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let bench = Bench::new();
    let result = bench.run_script("env-names\nenv TMPDIR");
    let stdout = result["stdout"].as_str().unwrap();
    let (names, tmp) = stdout.trim_end().split_once('\n').unwrap();
    let allowed = ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];
    for name in names.split(' ') {
        assert!(allowed.contains(&name), "{name}");
    }
    assert!(std::path::Path::new(tmp).starts_with(&bench.settings.temp));
}

#[test]
fn output_beyond_the_limit_is_dropped_and_the_result_says_so() {
    let bench = Bench::with(|settings| settings.limits.max_output = 1000);
    let result = bench.run_script("flood stdout 5000000\nflood stderr 3000000\nexit 5");
    assert_eq!(result["exitStatus"], 5);
    assert_eq!(result["stdout"].as_str().unwrap().len(), 1000);
    assert_eq!(result["stderr"].as_str().unwrap().len(), 1000);
    let notes = result["notes"].as_array().unwrap();
    assert_eq!(notes.len(), 2);
    assert_eq!(
        notes[0],
        "stdout was cut after 1000 bytes (--max-output); 4999000 more were dropped."
    );
    let files = json!({"demo/Main.scripted": "on compile\nflood stderr 2000\non run run"});
    let result = bench.compile(files, ENTRY);
    assert!(
        result["notes"][0]
            .as_str()
            .unwrap()
            .contains("stderr was cut")
    );
    assert!(bench.entries().is_empty(), "a cut result is not kept");
    let fits = bench.run_script("flood stdout 1000");
    assert_eq!(fits.get("notes"), None);
}

#[test]
fn a_success_without_an_artifact_is_an_internal_error() {
    let bench = Bench::new();
    let files = json!({"demo/Main.scripted": "on emit\nno-artifact\non run run"});
    let outcome = bench.outcome("compile", json!({"files": files, "entry": ENTRY}));
    let Outcome::Internal(message) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(message.contains("Main.cja"), "{message}");
    assert!(bench.entries().is_empty());
}

#[test]
fn a_tree_that_cannot_be_made_is_an_internal_error() {
    let bench = Bench::with(|settings| {
        std::fs::write(settings.temp.join("file"), "").unwrap();
        settings.temp = settings.temp.join("file/below");
    });
    for (tool, arguments) in [
        ("compile", json!({"files": script_tree(""), "entry": ENTRY})),
        (
            "jit_execute",
            json!({"files": script_tree(""), "entry": ENTRY}),
        ),
        ("listSkills", json!({})),
    ] {
        let outcome = bench.outcome(tool, arguments);
        assert!(
            matches!(outcome, Outcome::Internal(_)),
            "{tool} {outcome:?}"
        );
    }
}

#[test]
fn progress_is_told_when_work_begins_and_rises() {
    let bench = Bench::new();
    let arguments = json!({"files": script_tree("sleep 2100"), "entry": ENTRY});
    let signal = Signal::new();
    bench
        .toolchain
        .call("jit_execute", arguments.as_object().unwrap(), &signal.call);
    let progress = signal.progress();
    assert_eq!(progress[0], 0.0);
    assert!(progress.len() >= 2);
    assert!(progress.is_sorted_by(|one, two| one < two), "{progress:?}");
}
