//! The formatter: canonical, idempotent, and true to comments and meaning.

use serde_json::{Value, json};

use super::look;
use super::server::{Host, Said, Server, snapshot_of};
use super::{Done, Profile, patches, tests};

/// A file, formatted.
struct Formatted {
    /// The snapshot that was formatted.
    snapshot: String,
    /// What `format` said.
    said: Value,
    /// The text that its edits lead to.
    text: String,
}

fn run(server: &mut Server, base: &str, path: &str, text: &str) -> Result<Formatted, String> {
    let snapshot = server.with_file(base, path, text)?;
    let said = server.good("format", &json!({"snapshot": snapshot}))?;
    let text = look::edited(text, path, look::array(&said, "edits"))?;
    Ok(Formatted {
        snapshot,
        said,
        text,
    })
}

pub(super) fn format(profile: &mut Profile<'_>) -> Done {
    let layout = profile.pack.layout.clone();
    let mut server = profile.start(Host::default())?;
    let base = server.head()?;
    let first = run(&mut server, &base, &layout.path, &layout.text)?;
    let lost = lost_comment(&first.text, &layout.comments);
    profile.rule("format.comments", lost.is_none(), &server, || {
        format!(
            "The formatted text does not have the comment `{}` once and in its place.",
            lost.unwrap_or_default()
        )
    });

    // The patch of `format` does what its edits say.
    let said = server.apply_patch(&first.snapshot, &first.said);
    let applied = match &said {
        Said::Result(value) => snapshot_of(value, "apply_patch"),
        other => Err(other.describe()),
    };
    let by_text = server.with_file(&base, &layout.path, &first.text)?;
    let holds = applied.as_deref() == Ok(&*by_text);
    profile.rule("format.patch", holds, &server, || {
        format!("The patch of `format` leads to {applied:?}; its edits lead to {by_text}.")
    });

    let again = server.good("format", &json!({"snapshot": by_text}))?;
    let edits = look::array(&again, "edits");
    profile.rule("format.idempotent", edits.is_empty(), &server, || {
        format!(
            "Formatted text is formatted again, with {} edits.",
            edits.len()
        )
    });
    let other = run(&mut server, &base, &layout.path, &layout.again)?;
    profile.rule(
        "format.canonical",
        other.text == first.text,
        &server,
        || "The same program in another layout is formatted otherwise.".to_owned(),
    );
    meaning(profile, &mut server, &first, &by_text, &layout.path)?;
    server.stop(profile.options);
    Ok(())
}

/// The first comment that is not found once, after those before it.
fn lost_comment<'a>(text: &str, comments: &'a [String]) -> Option<&'a str> {
    let mut from = 0;
    comments.iter().map(String::as_str).find(|comment| {
        let found = text.get(from..).and_then(|rest| rest.find(comment));
        from += found.map_or(0, |at| at + comment.len());
        found.is_none() || text.matches(comment).count() != 1
    })
}

/// Diagnostics, tests and interfaces are the same before and after.
fn meaning(
    profile: &mut Profile<'_>,
    server: &mut Server,
    first: &Formatted,
    formatted: &str,
    path: &str,
) -> Done {
    let mut outcome = |snapshot: &str| -> Result<Value, String> {
        let checked = server.good("check", &json!({"snapshot": snapshot}))?;
        let run = server.good("test", &json!({"snapshot": snapshot, "seed": 4}))?;
        let statuses = tests::statuses(&run)?;
        Ok(json!({"codes": look::codes(&checked), "tests": statuses}))
    };
    let (before, after) = (outcome(&first.snapshot)?, outcome(formatted)?);
    profile.rule("format.meaning", before == after, server, || {
        format!("Before formatting: {before}; after it: {after}.")
    });
    let edits = json!([{"path": path, "text": first.text}]);
    let tried = server.try_patch(&first.snapshot, &edits)?;
    let changed = ["sum", "area"]
        .iter()
        .find(|symbol| patches::about(&tried, symbol).is_some());
    profile.rule("format.meaning", changed.is_none(), server, || {
        format!(
            "Formatting changes the interface of `{}`.",
            changed.unwrap_or(&"")
        )
    });
    Ok(())
}

#[cfg(test)]
mod unit {
    use super::lost_comment;

    #[test]
    fn a_comment_that_is_lost_doubled_or_moved_is_told() {
        let comments = ["// a".to_owned(), "// b".to_owned()];
        assert_eq!(lost_comment("// a\nx // b\n", &comments), None);
        assert_eq!(lost_comment("x // b\n", &comments), Some("// a"));
        assert_eq!(lost_comment("// b\n// a\n", &comments), Some("// b"));
        assert_eq!(lost_comment("// a\n// b\n// b\n", &comments), Some("// b"));
    }
}
