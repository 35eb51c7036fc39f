//! The workspace tools, rule by rule, called as the protocol calls them.

// A test says what it expects by failing.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use touchstone_language::delta::Frozen;
use touchstone_server::protocol::{Call, Completed, Family as _, Found, Outcome};
use touchstone_server::workspace::Family;
use touchstone_server::workspace::config::{Export, Permissions, Settings};

const MAIN: &str = "/// Doubles.\nfn twice(n: Int where value >= 0) -> Int\n  ensures result >= n\n{\n  n * 2\n}\n\ntest \"twice\" { assert twice(2) == 4 }\n\nproperty \"grows\" (n: Int where value >= 0 && value < 1000) { assert twice(n) >= n }\n";

fn call(family: &Family, tool: &str, arguments: Value) -> (Value, bool) {
    let call = Call::new(Arc::default(), Arc::new(|_, _, _| {}));
    match family.call(tool, arguments.as_object().unwrap(), &call) {
        Outcome::Done {
            structured,
            is_error,
            ..
        } => (structured.unwrap(), is_error),
        other => panic!("{other:?}"),
    }
}

fn good(family: &Family, tool: &str, arguments: Value) -> Value {
    let (value, is_error) = call(family, tool, arguments);
    assert!(!is_error, "{tool}: {value}");
    value
}

fn kind(family: &Family, tool: &str, arguments: Value) -> String {
    let (value, is_error) = call(family, tool, arguments);
    assert!(is_error, "{tool}: {value}");
    value["error"]["kind"].as_str().unwrap().to_owned()
}

fn head(family: &Family) -> String {
    good(family, "compiler_info", json!({}))["snapshot"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn workspace(text: &str) -> (tempfile::TempDir, Settings) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("main.sakura"), text).unwrap();
    let settings = Settings {
        root: Some(folder.path().to_path_buf()),
        ..Settings::default()
    };
    (folder, settings)
}

fn patch(family: &Family, snapshot: &str, text: &str) -> Value {
    good(
        family,
        "check_patch",
        json!({"snapshot": snapshot, "edits": [{"path": "main.sakura", "text": text}]}),
    )
}

#[test]
fn the_ten_tools_are_there_with_schemas() {
    let family = Family::open(Settings::default()).unwrap();
    let names: Vec<&str> = family.tools().iter().map(|tool| tool.name).collect();
    assert_eq!(
        names,
        [
            "compiler_info",
            "check",
            "symbol_query",
            "hole_context",
            "docs_query",
            "explain_diagnostic",
            "format",
            "check_patch",
            "apply_patch",
            "test"
        ]
    );
    for tool in family.tools() {
        assert_eq!(tool.input_schema["type"], "object");
        assert!(jsonschema::validator_for(&tool.input_schema).is_ok());
    }
}

#[test]
fn the_head_is_the_folder_and_moves_when_it_changes() {
    let (folder, settings) = workspace(MAIN);
    let family = Family::open(settings.clone()).unwrap();
    let first = head(&family);
    assert_eq!(
        head(&Family::open(settings).unwrap()),
        first,
        "equal content, equal id"
    );
    fs::write(folder.path().join("other.sakura"), "fn f() -> Int { 1 }\n").unwrap();
    let second = head(&family);
    assert_ne!(second, first);
    // The old snapshot is still what it was.
    let checked = good(&family, "check", json!({"snapshot": first}));
    assert_eq!(
        (&checked["diagnostics"], &checked["complete"]),
        (&json!([]), &json!(true))
    );
}

#[test]
fn a_patch_is_tried_applied_and_conflicts_when_it_is_stale() {
    let (folder, settings) = workspace(MAIN);
    let family = Family::open(settings).unwrap();
    let base = head(&family);
    let text = MAIN
        .replace("-> Int\n", "-> Int ! {Print}\n")
        .replace("n * 2", "print(\"x\")\n  n * 2");
    let tried = patch(&family, &base, &text);
    assert_eq!(head(&family), base, "trying changes nothing");
    let delta = &tried["interface_delta"][0];
    assert_eq!(
        (&delta["symbol"], &delta["change"], &delta["changed"]),
        (
            &json!("main::twice"),
            &json!("changed"),
            &json!(["effect_row"])
        )
    );
    let applied = good(
        &family,
        "apply_patch",
        json!({"snapshot": base, "patch_id": tried["patch_id"]}),
    );
    let next = applied["snapshot"].as_str().unwrap();
    assert_ne!(next, base);
    let (conflict, is_error) = call(
        &family,
        "apply_patch",
        json!({"snapshot": next, "patch_id": tried["patch_id"]}),
    );
    assert!(is_error);
    assert_eq!(
        (&conflict["applied"], &conflict["conflict"]["paths"]),
        (&json!(false), &json!(["main.sakura"]))
    );
    assert_eq!(
        fs::read_to_string(folder.path().join("main.sakura")).unwrap(),
        MAIN,
        "nothing is written"
    );
}

#[test]
fn frozen_specifications_hold() {
    let (_folder, settings) = workspace(MAIN);
    let family = Family::open(Settings {
        frozen: Frozen::parse("twice"),
        ..settings
    })
    .unwrap();
    let base = head(&family);
    let weaker = patch(&family, &base, &MAIN.replace("result >= n", "true"));
    assert!(
        weaker["diagnostics"]
            .as_array()
            .unwrap()
            .iter()
            .any(|d| d["code"] == "V8020")
    );
    let (refused, is_error) = call(
        &family,
        "apply_patch",
        json!({"snapshot": base, "patch_id": weaker["patch_id"]}),
    );
    assert!(is_error && refused["diagnostics"][0]["code"] == "V8020");
    assert!(
        refused["diagnostics"][0]["message"]
            .as_str()
            .unwrap()
            .contains("ensures")
    );
    let body = patch(&family, &base, &MAIN.replace("n * 2", "n + n"));
    good(
        &family,
        "apply_patch",
        json!({"snapshot": base, "patch_id": body["patch_id"]}),
    );
    let no_test = patch(&family, &base, &MAIN.replace("== 4", "== twice(2)"));
    assert!(
        call(
            &family,
            "apply_patch",
            json!({"snapshot": base, "patch_id": no_test["patch_id"]})
        )
        .1
    );
}

#[test]
fn write_back_writes_the_head_and_nothing_else() {
    let (folder, settings) = workspace(MAIN);
    let family = Family::open(Settings {
        write_back: true,
        ..settings
    })
    .unwrap();
    let base = head(&family);
    let edits = json!([{"path": "main.sakura", "text": null}, {"path": "new/deep.sakura", "text": "fn f() -> Int { 1 }\n"}]);
    let tried = good(
        &family,
        "check_patch",
        json!({"snapshot": base, "edits": edits}),
    );
    let applied = good(
        &family,
        "apply_patch",
        json!({"snapshot": base, "patch_id": tried["patch_id"]}),
    );
    assert!(!folder.path().join("main.sakura").exists());
    assert!(folder.path().join("new/deep.sakura").is_file());
    assert_eq!(json!(head(&family)), applied["snapshot"]);
    let again = good(
        &family,
        "check_patch",
        json!({"snapshot": applied["snapshot"], "edits": [{"path": "x.sakura", "text": "// x\n"}]}),
    );
    fs::write(folder.path().join("new/deep.sakura"), "// someone else\n").unwrap();
    assert_eq!(
        kind(
            &family,
            "apply_patch",
            json!({"snapshot": applied["snapshot"], "patch_id": again["patch_id"]})
        ),
        "write_back"
    );
    assert!(!folder.path().join("x.sakura").exists());
}

#[test]
fn unknown_ids_and_bad_arguments_are_told() {
    let family = Family::open(Settings::default()).unwrap();
    let base = head(&family);
    for (tool, arguments, wanted) in [
        ("check", json!({"snapshot": "s_0"}), "unknown_snapshot"),
        ("check", json!({}), "bad_argument"),
        (
            "check",
            json!({"snapshot": base, "paths": ["no.sakura"]}),
            "unknown_path",
        ),
        (
            "hole_context",
            json!({"snapshot": base, "hole_id": "x"}),
            "unknown_hole",
        ),
        (
            "symbol_query",
            json!({"id": "main::nothing"}),
            "unknown_symbol",
        ),
        (
            "symbol_query",
            json!({"name": "a", "id": "b"}),
            "bad_argument",
        ),
        (
            "explain_diagnostic",
            json!({"code": "V0000"}),
            "unknown_code",
        ),
        (
            "docs_query",
            json!({"topic": "no such topic anywhere"}),
            "unknown_topic",
        ),
        (
            "apply_patch",
            json!({"snapshot": base, "patch_id": "p_0"}),
            "unknown_patch",
        ),
        (
            "check_patch",
            json!({"snapshot": base, "edits": [{"path": "../x.sakura", "text": ""}]}),
            "bad_edit",
        ),
        (
            "check_patch",
            json!({"snapshot": base, "edits": [{"path": "x.sakura", "range": {"start_byte": 0, "end_byte": 1}, "text": ""}]}),
            "bad_edit",
        ),
        (
            "test",
            json!({"snapshot": base, "selectors": ["x"]}),
            "unknown_test",
        ),
    ] {
        assert_eq!(kind(&family, tool, arguments), wanted, "{tool}");
    }
}

#[test]
fn tests_are_repeatable_and_format_settles() {
    let (_folder, settings) = workspace(&MAIN.replace("n * 2", "n  *  2"));
    let family = Family::open(settings).unwrap();
    let base = head(&family);
    let run = || {
        good(
            &family,
            "test",
            json!({"snapshot": base, "seed": 7, "budget": {"cases": 20}}),
        )
    };
    assert_eq!(run(), run());
    assert_eq!((&run()["passed"], &run()["seed"]), (&json!(2), &json!(7)));
    let formatted = good(&family, "format", json!({"snapshot": base}));
    assert_eq!(formatted["edits"].as_array().unwrap().len(), 1);
    let next = good(
        &family,
        "apply_patch",
        json!({"snapshot": base, "patch_id": formatted["patch_id"]}),
    );
    assert_eq!(
        good(&family, "format", json!({"snapshot": next["snapshot"]}))["edits"],
        json!([])
    );
    let stopped = good(
        &family,
        "check",
        json!({"snapshot": next["snapshot"], "budget_ms": 0}),
    );
    assert_eq!(stopped["complete"], json!(false));
}

#[test]
fn a_hole_is_found_filled_and_documented() {
    let (_folder, settings) = workspace("fn area(w: Float, h: Float) -> Float {\n  ?formula\n}\n");
    let family = Family::open(settings).unwrap();
    let base = head(&family);
    let holes = good(&family, "check", json!({"snapshot": base}))["holes"].clone();
    let hole = good(
        &family,
        "hole_context",
        json!({"snapshot": base, "hole_id": holes[0]["id"]}),
    );
    assert_eq!(hole["hole"]["expected"], "Float");
    let edits = json!([{"path": "main.sakura", "range": holes[0]["range"], "text": "w * h"}]);
    let tried = good(
        &family,
        "check_patch",
        json!({"snapshot": base, "edits": edits}),
    );
    assert_eq!(
        (&tried["diagnostics"], &tried["holes"]),
        (&json!([]), &json!([]))
    );
    let found = good(&family, "symbol_query", json!({"name": "area"}));
    assert_eq!(
        found["symbols"][0]["signature"],
        "fn area(w: Float, h: Float) -> Float"
    );
    assert!(
        good(&family, "docs_query", json!({"symbol": "List.map"}))["text"]
            .as_str()
            .unwrap()
            .contains("List.map")
    );
    assert_eq!(
        good(&family, "explain_diagnostic", json!({"code": "V3001"}))["name"],
        "type_mismatch"
    );
}

const TOOL: &str = "import std/clock.{Clock}\n\nerror Closed { until: Int }\n\n@tool(\"Opens\")\nfn open_at(hour: Int where value >= 0 && value < 24) -> String ! Fail<Closed> {\n  if hour < 8 { fail Closed { until: 8 } }\n  \"open\"\n}\n\n@tool(\"Tells the time\")\nfn now() -> Int ! {Clock} { Clock.now() }\n";

#[test]
fn exported_functions_are_tools_with_the_hosts_authority_only() {
    let (_folder, settings) = workspace(TOOL);
    let settings = Settings {
        export: Export::All,
        ..settings
    };
    let family = Family::open(settings.clone()).unwrap();
    let tool = family
        .tools()
        .into_iter()
        .find(|t| t.name == "open_at")
        .unwrap();
    assert_eq!(
        tool.input_schema["properties"]["hour"],
        json!({"type": "integer", "minimum": 0, "maximum": 23})
    );
    assert_eq!(
        good(&family, "open_at", json!({"hour": 9})),
        json!({"result": "open"})
    );
    let (failed, is_error) = call(&family, "open_at", json!({"hour": 7}));
    assert!(is_error);
    assert_eq!(
        (&failed["error"]["tag"], &failed["error"]["payload"]),
        (&json!("Closed"), &json!({"until": 8}))
    );
    assert_eq!(
        kind(&family, "open_at", json!({"hour": 24})),
        "invalid_arguments"
    );
    assert_eq!(kind(&family, "now", json!({})), "denied");
    assert_eq!(
        kind(&family, "now", json!({"permissions": {"clock": true}})),
        "invalid_arguments"
    );
    let permissions = Permissions {
        clock: true,
        ..Permissions::default()
    };
    let family = Family::open(Settings {
        permissions,
        ..settings.clone()
    })
    .unwrap();
    assert!(good(&family, "now", json!({}))["result"].as_i64().unwrap() > 0);
    let wrong = Settings {
        export: Export::Names(["nothing".to_owned()].into()),
        ..settings
    };
    assert!(Family::open(wrong).is_err_and(|why| why.contains("nothing")));
}

#[test]
fn two_calls_at_once_do_not_disturb_each_other() {
    let (_folder, settings) = workspace(MAIN);
    let family = Family::open(settings).unwrap();
    let base = head(&family);
    let alone = good(&family, "test", json!({"snapshot": base, "seed": 3}));
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| good(&family, "test", json!({"snapshot": base, "seed": 3}))))
            .collect();
        for run in runs {
            assert_eq!(run.join().unwrap(), alone);
        }
    });
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let (folder, settings) = workspace(MAIN);
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("out")).unwrap();
    fs::write(outside.path().join("secret.sakura"), "// secret\n").unwrap();
    let family = Family::open(Settings {
        write_back: true,
        ..settings
    })
    .unwrap();
    let base = head(&family);
    assert_eq!(
        kind(
            &family,
            "check",
            json!({"snapshot": base, "paths": ["out/secret.sakura"]})
        ),
        "unknown_path"
    );
    let tried = good(
        &family,
        "check_patch",
        json!({"snapshot": base, "edits": [{"path": "out/new.sakura", "text": "// x\n"}]}),
    );
    assert_eq!(
        kind(
            &family,
            "apply_patch",
            json!({"snapshot": base, "patch_id": tried["patch_id"]})
        ),
        "write_back"
    );
    assert!(!Path::new(&outside.path().join("new.sakura")).exists());
}

#[test]
fn the_language_the_library_and_the_codes_can_be_read() {
    let family = Family::open(Settings::default()).unwrap();
    let call = Call::new(Arc::default(), Arc::new(|_, _, _| {}));
    let text = |uri: &str| match family.read(uri, &call) {
        Found::Items(items) => Some(items[0]["text"].as_str().unwrap().to_owned()),
        _ => None,
    };
    let listed = family.resources(&call).unwrap();
    let uris: Vec<&str> = listed.iter().map(|r| r["uri"].as_str().unwrap()).collect();
    assert!(uris.contains(&"sakura://language") && uris.contains(&"sakura://std/http"));
    for uri in uris {
        assert!(text(uri).is_some_and(|text| text.len() > 100), "{uri}");
    }
    assert!(text("sakura://language").unwrap().contains("## Holes"));
    assert!(text("sakura://std/core").unwrap().contains("List.take"));
    assert!(text("sakura://diagnostic/V3001").unwrap().contains("Wrong"));
    for unknown in [
        "sakura://diagnostic/v3001",
        "sakura://diagnostic/V0000",
        "sakura://std/nosuch",
        "sakura://main",
        "other://language",
    ] {
        assert_eq!(text(unknown), None, "{unknown}");
    }
    let template = family.resource_templates()[0]["uriTemplate"].clone();
    let what = Completed::Template(template.as_str().unwrap());
    let codes = family.complete(what, "code", "v30", &serde_json::Map::new(), &call);
    assert!(codes.unwrap().contains(&"V3001".to_owned()));
}
