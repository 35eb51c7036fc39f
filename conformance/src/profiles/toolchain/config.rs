//! Where settings come from, as `initialize` echoes them.

use serde_json::{Value, json};

use super::server::Server;
use super::{Profile, temporary};
use crate::spec::Era;

const RULES: [&str; 5] = [
    "toolchain.config.echo",
    "toolchain.config.default",
    "toolchain.config.file",
    "toolchain.config.environment",
    "toolchain.config.flag",
];

/// Five settings: what `cacheConfig` says of each.
fn echoed(server: &Server) -> Option<[Value; 5]> {
    let config = server.hello.get("cacheConfig")?;
    let member = |name: &str| config.get(name).cloned().unwrap_or(Value::Null);
    Some(["enabled", "dir", "ttl", "maxBytes", "maxEntries"].map(member))
}

/// Four starts: nothing set, the file, the file and variables, all three. Each source sets
/// everything to something else, so the echo tells which one won for each setting.
pub(super) fn precedence(profile: &mut Profile<'_>) -> Result<(), String> {
    if profile.revision.era() != Era::Handshake {
        for rule in RULES {
            profile
                .judge
                .not_applicable(rule, "The server does not speak the handshake era.");
        }
        return Ok(());
    }
    let folder = temporary()?;
    let dir = |name: &str| folder.path().join(name).display().to_string();
    let file = folder.path().join("config.json");
    let block = json!({"cache": {"enabled": false, "dir": dir("file"), "ttl": 11, "maxBytes": 1_100, "maxEntries": 12}});
    std::fs::write(&file, block.to_string()).map_err(|error| error.to_string())?;
    let config = format!("--config={}", file.display());
    let env_dir = dir("environment");
    let variables = [
        ("CAJETA_MCP_CACHE_ENABLED", "on"),
        ("CAJETA_MCP_CACHE_DIR", env_dir.as_str()),
        ("CAJETA_MCP_CACHE_TTL", "21"),
        ("CAJETA_MCP_CACHE_MAX_BYTES", "2100"),
        ("CAJETA_MCP_CACHE_MAX_ENTRIES", "22"),
    ];
    let flags = vec![
        config.clone(),
        "--cache=off".to_owned(),
        format!("--cache-dir={}", dir("flag")),
        "--cache-ttl=31".to_owned(),
        "--cache-max-bytes=3100".to_owned(),
        "--cache-max-entries=32".to_owned(),
    ];
    let defaults = [
        json!(true),
        json!("/tmp/cajeta-mcp-cache"),
        json!(3600),
        json!(104_857_600),
        json!(256),
    ];
    let cases = [
        ("config.default", Vec::new(), Vec::new(), defaults),
        (
            "config.file",
            vec![config.clone()],
            Vec::new(),
            [
                json!(false),
                json!(dir("file")),
                json!(11),
                json!(1_100),
                json!(12),
            ],
        ),
        (
            "config.environment",
            vec![config],
            variables.to_vec(),
            [
                json!(true),
                json!(env_dir),
                json!(21),
                json!(2_100),
                json!(22),
            ],
        ),
        (
            "config.flag",
            flags,
            variables.to_vec(),
            [
                json!(false),
                json!(dir("flag")),
                json!(31),
                json!(3_100),
                json!(32),
            ],
        ),
    ];
    for (rule, flags, variables, wanted) in cases {
        let server = Server::start(
            profile.options,
            profile.revision,
            &flags,
            &variables,
            profile.processes,
        )?;
        let Some(echo) = echoed(&server) else {
            profile.rule("config.echo", false, &server, || {
                "The initialize result has no `cacheConfig`.".to_owned()
            });
            for rule in &RULES[1..] {
                profile.judge.blocked(rule, RULES[0]);
            }
            server.stop(profile.options);
            return Ok(());
        };
        profile.rule("config.echo", true, &server, String::new);
        profile.rule(rule, echo == wanted, &server, || {
            format!(
                "`cacheConfig` says {}; {} is due.",
                json!(echo),
                json!(wanted)
            )
        });
        server.stop(profile.options);
    }
    Ok(())
}
