//! Which requirements the user means: ids, areas, and globs.

use regex::Regex;

use super::Problem;
use crate::spec;

/// Ids of everything that can be judged: the catalogue.
pub(super) fn known_ids() -> Vec<String> {
    let catalogue = spec::requirement::catalogue();
    catalogue.iter().map(|rule| rule.id.clone()).collect()
}

/// The ids that any of the patterns means, in the order of the catalogue. A pattern is an id, an
/// area (`tools`), or a glob with `*` and `?`. The error names a pattern that means nothing, and
/// what is near it.
pub(super) fn select(patterns: &[String], known: &[String]) -> Result<Vec<String>, Problem> {
    let mut chosen = vec![false; known.len()];
    for pattern in patterns {
        let means = matcher(pattern)?;
        let mut any = false;
        for (id, chosen) in known.iter().zip(&mut chosen) {
            if means(id) {
                (*chosen, any) = (true, true);
            }
        }
        if !any {
            return Err(Problem(no_such(pattern, known)));
        }
    }
    let ids = known.iter().zip(chosen);
    Ok(ids.filter(|(_, c)| *c).map(|(id, _)| id.clone()).collect())
}

fn matcher(pattern: &str) -> Result<impl Fn(&str) -> bool, Problem> {
    let body = regex::escape(pattern)
        .replace(r"\*", ".*")
        .replace(r"\?", ".");
    let end = if pattern.contains('.') || pattern.contains(['*', '?']) {
        "$"
    } else {
        // An area means everything in it.
        r"(\..*)?$"
    };
    let regex = Regex::new(&format!("^{body}{end}"))
        .map_err(|_| Problem(format!("`{pattern}` is too long for a pattern")))?;
    Ok(move |id: &str| regex.is_match(id))
}

fn no_such(pattern: &str, known: &[String]) -> String {
    let mut text = format!("`{pattern}` matches no requirement");
    let inside = format!("{pattern}.");
    if known.iter().any(|id| id.starts_with(&inside)) {
        return text + &format!("; `{pattern}.*` matches all that begin so");
    }
    let near = near(pattern, known);
    if near.is_empty() {
        text += "; `touchstone list` shows all";
    } else {
        text += "; there is:";
        for id in near {
            text += &format!("\n  {id}");
        }
    }
    text
}

/// At most five ids, or areas, that look like the pattern, the nearest first.
fn near<'a>(pattern: &str, known: &'a [String]) -> Vec<&'a str> {
    let pattern = pattern.to_lowercase();
    let mut names: Vec<&str> = known.iter().map(String::as_str).collect();
    let mut areas: Vec<&str> = names.iter().filter_map(|id| id.split('.').next()).collect();
    areas.dedup();
    names.extend(areas);
    names.sort_unstable();
    names.dedup();
    let score = |name: &str| {
        let alike = strsim::normalized_damerau_levenshtein(&pattern, name);
        let part = pattern.len() >= 3 && name.contains(&pattern);
        if part { alike.max(0.8) } else { alike }
    };
    let mut scored: Vec<(f64, &str)> = names
        .into_iter()
        .map(|name| (score(name), name))
        .filter(|(score, _)| *score >= 0.65)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(5).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(patterns: &[&str]) -> Result<Vec<String>, String> {
        let known = [
            "tools.list.name",
            "tools.call.unknown-tool",
            "toolsmith.a",
            "ping.result",
        ];
        let patterns: Vec<String> = patterns.iter().map(|p| p.to_string()).collect();
        select(&patterns, &known.map(String::from)).map_err(|p| p.0)
    }

    #[test]
    fn ids_areas_and_globs() {
        assert_eq!(chosen(&["ping.result"]).unwrap(), ["ping.result"]);
        assert_eq!(
            chosen(&["tools"]).unwrap(),
            ["tools.list.name", "tools.call.unknown-tool"]
        );
        assert_eq!(chosen(&["tools.*"]).unwrap().len(), 2);
        assert_eq!(
            chosen(&["*.result", "tools.l?st.name"]).unwrap(),
            ["tools.list.name", "ping.result"]
        );
        assert_eq!(chosen(&["*"]).unwrap().len(), 4);
        assert!(chosen(&[]).unwrap().is_empty());
    }

    #[test]
    fn what_matches_nothing_is_named_with_what_is_near() {
        let error = chosen(&["tools.call.unknwon-tool"]).unwrap_err();
        assert!(error.contains("\n  tools.call.unknown-tool"), "{error}");
        assert!(chosen(&["pign"]).unwrap_err().contains("\n  ping"));
        assert!(
            chosen(&["unknown-tool"])
                .unwrap_err()
                .contains("tools.call.unknown-tool")
        );
        assert!(
            chosen(&["tools.list"])
                .unwrap_err()
                .contains("`tools.list.*`")
        );
        assert!(chosen(&["zzz.*"]).unwrap_err().contains("touchstone list"));
        assert!(chosen(&["tools.list.name", ""]).is_err());
        assert!(chosen(&["tools(.list"]).is_err());
    }
}
