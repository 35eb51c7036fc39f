//! Functions that are exported as tools.

use serde_json::{Value, json};

use super::look;
use super::pack::with_port;
use super::server::{Host, Said, Server};
use super::tests::{Ear, demands};
use super::{Done, Profile, folder_of};

pub(super) fn export(profile: &mut Profile<'_>) -> Done {
    let export = profile.pack.export.clone();
    let ear = Ear::open()?;
    let text = with_port(&export.text, ear.port);
    let folder = folder_of([(&*export.path, &*text)])?;
    let names = export.tools.join(",");
    let mut server = profile.start(Host {
        folder: Some(folder.path()),
        tools: Some(&names),
        ..Host::default()
    })?;
    let listed = server.tools();
    let missing = export.tools.iter().find(|name| !listed.contains_key(*name));
    let extra = listed.contains_key(&export.not_exported);
    profile.rule(
        "export.listed",
        missing.is_none() && !extra,
        &server,
        || {
            format!(
                "With `--tools {names}` the tool `{}` is not listed, or `{}` is.",
                missing.map_or("", String::as_str),
                export.not_exported
            )
        },
    );
    if !listed.contains_key(&export.tool) {
        for rule in ["schema", "validated", "result", "failure", "network"] {
            let id = format!("workspace.export.{rule}");
            profile.judge.blocked(&id, "workspace.export.listed");
        }
        server.stop(profile.options);
        return Ok(());
    }
    schema(profile, &server, listed.get(&export.tool));
    for arguments in &export.rejected {
        let said = server.call(&export.tool, arguments);
        let refused = matches!(said, Said::ToolError(_) | Said::Refused(_));
        profile.rule("export.validated", refused, &server, || {
            format!(
                "`{}` with {arguments}, which breaks a type or refinement, gave {}.",
                export.tool,
                said.describe()
            )
        });
    }
    let said = server.call(&export.tool, &export.call);
    let number = export.result.to_string();
    let right = matches!(&said, Said::Result(value) if look::mentions(value, &number));
    profile.rule("export.result", right, &server, || {
        format!(
            "`{}` with {} gave {}, not {number}.",
            export.tool,
            export.call,
            said.describe()
        )
    });
    let said = server.call(&export.tool, &export.failing_call);
    let told = match &said {
        Said::ToolError(value) => look::unmentioned(value, &export.failure_mentions).is_none(),
        _ => false,
    };
    profile.rule("export.failure", told, &server, || {
        format!(
            "A failure of `{}` gave {}; `isError` with its tag and payload is required.",
            export.tool,
            said.describe()
        )
    });
    denied(profile, &mut server, &ear);
    server.stop(profile.options);
    Ok(())
}

/// The schema says what the parameter types and refinements say.
fn schema(profile: &mut Profile<'_>, server: &Server, tool: Option<&Value>) {
    let export = profile.pack.export.clone();
    let schema = tool.and_then(|tool| tool.get("inputSchema"));
    let validator = schema.and_then(|schema| jsonschema::validator_for(schema).ok());
    let accepts = |value: &Value| validator.as_ref().is_some_and(|v| v.is_valid(value));
    let kept_out = export.accepted.iter().find(|value| !accepts(value));
    let let_in = export.rejected.iter().find(|value| accepts(value));
    let holds = kept_out.is_none() && let_in.is_none();
    profile.rule("export.schema", holds, server, || {
        let (word, value) = match kept_out {
            Some(value) => ("does not take", value),
            None => ("takes", let_in.unwrap_or(&Value::Null)),
        };
        format!(
            "The schema of `{}` {word} {value}; the types and refinements say otherwise.",
            export.tool
        )
    });
}

/// The network is denied to exported functions, whatever the arguments are.
fn denied(profile: &mut Profile<'_>, server: &mut Server, ear: &Ear) {
    let export = profile.pack.export.clone();
    let mut calls = vec![export.network_call.clone()];
    for (name, value) in demands() {
        let mut call = export.network_call.clone();
        call[name] = json!(value);
        calls.push(call);
    }
    for arguments in calls {
        let said = server.call(&export.network_tool, &arguments);
        let refused = matches!(said, Said::ToolError(_) | Said::Refused(_));
        let called = ear.heard();
        profile.rule("export.network", refused && !called, server, || {
            let did = if called {
                "reached the network"
            } else {
                "was not denied the network"
            };
            format!(
                "`{}` {did}, called with {arguments}: {}.",
                export.network_tool,
                said.describe()
            )
        });
    }
}
