//! Looking into results whose members the contract leaves open: it says what a result tells, not
//! always under which name.

use serde_json::Value;

/// Calls `see` with every text in the value; names of members are given only if what they hold is
/// neither false, null nor empty.
fn each_text<'a>(value: &'a Value, see: &mut dyn FnMut(&'a str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, see)),
        Value::Object(members) => {
            for (name, member) in members {
                if says_something(member) {
                    see(name);
                    each_text(member, see);
                }
            }
        }
        _ => {}
    }
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    }
}

/// Every text and every name of a member.
pub(super) fn texts(value: &Value) -> Vec<&str> {
    let mut texts = Vec::new();
    each_text(value, &mut |text| texts.push(text));
    texts
}

/// Whether some text holds this, or a number is it.
pub(super) fn mentions(value: &Value, wanted: &str) -> bool {
    texts(value).iter().any(|text| text.contains(wanted))
        || numbers(value).iter().any(|n| n.to_string() == wanted)
}

/// The first of these that the value does not mention.
pub(super) fn unmentioned<'a>(value: &Value, wanted: &'a [String]) -> Option<&'a str> {
    let missing = wanted.iter().find(|text| !mentions(value, text));
    missing.map(String::as_str)
}

/// Letters and digits in lower case: `effect_row`, `effectRow` and `effect row` are one word.
fn word(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Whether one of the texts is, as a word, one of these.
pub(super) fn says(value: &Value, words: &[&str]) -> bool {
    texts(value).iter().any(|text| {
        let text = word(text);
        words.iter().any(|wanted| word(wanted) == text)
    })
}

/// Whether the value is about a symbol or test of that name: some text is the name, or ends with
/// it after something that no name has.
pub(super) fn is_about(value: &Value, name: &str) -> bool {
    let own = |text: &str| {
        let text = text.trim_end_matches(['"', '`', '\'', ')', ']']);
        text.strip_suffix(name).is_some_and(|front| {
            !front.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ' ')
        })
    };
    match value {
        Value::String(text) => own(text),
        Value::Object(members) => members.values().any(|v| v.as_str().is_some_and(own)),
        _ => false,
    }
}

/// Every integer, written as a number or as a text.
pub(super) fn numbers(value: &Value) -> Vec<i64> {
    match value {
        Value::Number(number) => number.as_i64().into_iter().collect(),
        Value::String(text) => text.trim().parse().into_iter().collect(),
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        Value::Object(members) => members.values().flat_map(numbers).collect(),
        _ => Vec::new(),
    }
}

/// The objects of the first array whose elements all have that member.
pub(super) fn list_with<'a>(value: &'a Value, member: &str) -> Option<&'a Vec<Value>> {
    match value {
        Value::Array(items) => {
            let all = items.iter().all(|item| item.get(member).is_some());
            (all && !items.is_empty()).then_some(items)
        }
        Value::Object(members) => members.values().find_map(|v| list_with(v, member)),
        _ => None,
    }
}

/// The member of that name.
pub(super) fn array<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    let list = value.get(member).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// The diagnostics that are errors.
pub(super) fn errors(result: &Value) -> Vec<&Value> {
    let is_error = |d: &&Value| {
        let severity = d.get("severity").and_then(Value::as_str);
        severity.is_some_and(|word| word.eq_ignore_ascii_case("error"))
    };
    array(result, "diagnostics")
        .iter()
        .filter(is_error)
        .collect()
}

/// The codes of all diagnostics in the value, wherever they stand.
pub(super) fn codes(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().flat_map(codes).collect(),
        Value::Object(members) => {
            let own = members.get("code").and_then(Value::as_str);
            let inner = members.values().flat_map(codes);
            own.into_iter().chain(inner).collect()
        }
        _ => Vec::new(),
    }
}

/// The value without what may differ from run to run: how long things took.
pub(super) fn timeless(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(timeless).collect(),
        Value::Object(members) => {
            let is_time = |name: &str| {
                let name = word(name);
                ["duration", "elapsed", "millis", "time"]
                    .iter()
                    .any(|t| name.contains(t))
                    || name.ends_with("ms")
            };
            let kept = members.iter().filter(|(name, _)| !is_time(name));
            Value::Object(
                kept.map(|(name, member)| (name.clone(), timeless(member)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

/// The place of a line and column (both from 1, columns in Unicode scalar values) in bytes.
pub(super) fn byte_of(text: &str, line: u64, column: u64) -> Option<usize> {
    let (line, column) = (
        usize::try_from(line).ok()?.checked_sub(1)?,
        usize::try_from(column).ok()?.checked_sub(1)?,
    );
    let start = match line {
        0 => 0,
        _ => text.match_indices('\n').nth(line - 1)?.0 + 1,
    };
    let rest = text.get(start..)?;
    let own = rest.split('\n').next().unwrap_or_default();
    let ends = own.char_indices().map(|(at, _)| at).chain([own.len()]);
    ends.skip(column).map(|at| start + at).next()
}

/// Start and end of a range in bytes, from its lines and columns.
pub(super) fn span(text: &str, range: &Value) -> Option<(usize, usize)> {
    let place = |end: &str| {
        let at = range.get(end)?;
        byte_of(text, at.get("line")?.as_u64()?, at.get("column")?.as_u64()?)
    };
    Some((place("start")?, place("end")?))
}

/// The byte offset that a range carries for one end, in the range or in the position.
pub(super) fn offset(range: &Value, end: &str) -> Option<u64> {
    let is_offset = |name: &str| {
        let name = word(name);
        name.contains("byte") || name.contains("offset")
    };
    let in_range = range.as_object()?.iter();
    let in_place = range.get(end)?.as_object()?.iter();
    in_range
        .filter(|(name, _)| word(name).contains(end))
        .chain(in_place)
        .find(|(name, value)| is_offset(name) && value.is_u64())
        .and_then(|(_, value)| value.as_u64())
}

/// The text of a file after the edits that a result gives; unchanged without any.
pub(super) fn edited(text: &str, path: &str, edits: &[Value]) -> Result<String, String> {
    let own = edits
        .iter()
        .filter(|edit| edit.get("path").and_then(Value::as_str) == Some(path));
    let mut parts: Vec<(usize, usize, &str)> = Vec::new();
    for edit in own {
        let new = edit.get("text").and_then(Value::as_str);
        let new = new.ok_or_else(|| format!("an edit of {path} has no text"))?;
        let place = match edit.get("range").filter(|range| !range.is_null()) {
            None => (0, text.len()),
            Some(range) => span(text, range).ok_or_else(|| format!("no such range: {range}"))?,
        };
        parts.push((place.0, place.1, new));
    }
    parts.sort_unstable();
    let mut out = String::new();
    let mut at = 0;
    for (start, end, new) in parts {
        let between = text
            .get(at..start)
            .ok_or_else(|| format!("edits of {path} overlap"))?;
        out.push_str(between);
        out.push_str(new);
        at = end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_members_count_when_they_hold_something() {
        let value = json!({"effectRow": true, "signature": false, "contracts": []});
        assert!(says(&value, &["effect_row"]));
        assert!(!says(&value, &["signature", "contracts"]));
    }

    #[test]
    fn a_symbol_is_found_by_the_end_of_its_id() {
        assert!(is_about(&json!({"symbol": "orders::quote"}), "quote"));
        assert!(is_about(
            &json!({"symbol": "a::test \"doubles\""}),
            "doubles"
        ));
        assert!(is_about(&json!({"id": "a.sakura#adds"}), "adds"));
        assert!(!is_about(&json!({"symbol": "orders::misquote"}), "quote"));
        assert!(!is_about(&json!({"doc": "what to quote"}), "quote"));
    }

    #[test]
    fn columns_are_scalar_values() {
        let text = "a\nüß🙂x\n";
        assert_eq!(byte_of(text, 2, 4), Some(2 + 2 + 2 + 4));
        assert_eq!(byte_of(text, 2, 5), Some(text.len() - 1));
        assert_eq!(byte_of(text, 2, 6), None);
        assert_eq!(byte_of(text, 9, 1), None);
    }

    #[test]
    fn offsets_are_found_under_either_name() {
        let flat =
            json!({"start": {"line": 1}, "end": {"line": 1}, "start_byte": 3, "end_byte": 5});
        assert_eq!(
            (offset(&flat, "start"), offset(&flat, "end")),
            (Some(3), Some(5))
        );
        let deep = json!({"start": {"line": 1, "byte": 3}, "end": {"line": 1, "byte": 5}});
        assert_eq!(
            (offset(&deep, "start"), offset(&deep, "end")),
            (Some(3), Some(5))
        );
        assert_eq!(
            offset(&json!({"start": {"line": 1}, "end": {}}), "start"),
            None
        );
    }

    #[test]
    fn edits_are_applied_from_their_ranges() {
        let range = |a: u64, b: u64| json!({"start": {"line": 1, "column": a}, "end": {"line": 1, "column": b}});
        let edits = [
            json!({"path": "p", "range": range(3, 4), "text": "C"}),
            json!({"path": "p", "range": range(1, 1), "text": "_"}),
            json!({"path": "q", "text": ""}),
        ];
        assert_eq!(edited("abc", "p", &edits).as_deref(), Ok("_abC"));
        assert_eq!(edited("abc", "p", &[]).as_deref(), Ok("abc"));
    }

    #[test]
    fn what_took_how_long_is_left_out() {
        let value = json!({"steps": 3, "took_ms": 4, "results": [{"duration": 1, "status": "x"}]});
        assert_eq!(
            timeless(&value),
            json!({"steps": 3, "results": [{"status": "x"}]})
        );
    }
}
