//! Lists in pages.
//!
//! A cursor names the last item that the client has seen, so it is good in any process of this
//! server, stays good while that item is there, and never skips or repeats another.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Map, Value};

use super::refusal::Refusal;

/// A list of the protocol.
pub(super) struct List {
    /// The member of the result that holds it.
    pub(super) member: &'static str,
    /// The member of an item that tells it from the others.
    key: &'static str,
}

pub(super) const TOOLS: List = List {
    member: "tools",
    key: "name",
};
pub(super) const RESOURCES: List = List {
    member: "resources",
    key: "uri",
};
pub(super) const TEMPLATES: List = List {
    member: "resourceTemplates",
    key: "uriTemplate",
};
pub(super) const PROMPTS: List = List {
    member: "prompts",
    key: "name",
};
pub(super) const TASKS: List = List {
    member: "tasks",
    key: "taskId",
};

impl List {
    /// The result that holds the page after `cursor`, at most `size` items long.
    ///
    /// # Errors
    /// The cursor is not one of this list.
    pub(super) fn page(
        &self,
        items: &[Value],
        cursor: Option<&str>,
        size: Option<usize>,
    ) -> Result<Map<String, Value>, Refusal> {
        let start = match cursor {
            None => 0,
            Some(cursor) => self
                .position_after(items, cursor)
                .ok_or_else(|| Refusal::invalid_params("Invalid cursor: it is not of this list"))?,
        };
        let rest = &items[start..];
        let page = &rest[..rest.len().min(size.unwrap_or(usize::MAX))];
        let mut result = Map::new();
        result.insert(self.member.into(), page.to_vec().into());
        if let Some(last) = page.last().filter(|_| page.len() < rest.len()) {
            result.insert("nextCursor".into(), self.cursor(last).into());
        }
        Ok(result)
    }

    fn cursor(&self, last: &Value) -> String {
        BASE64.encode(format!("{}:{}", self.member, self.key_of(last)))
    }

    fn position_after(&self, items: &[Value], cursor: &str) -> Option<usize> {
        let cursor = String::from_utf8(BASE64.decode(cursor).ok()?).ok()?;
        let key = cursor.strip_prefix(self.member)?.strip_prefix(':')?;
        let last = items.iter().position(|item| self.key_of(item) == key)?;
        Some(last + 1)
    }

    fn key_of<'a>(&self, item: &'a Value) -> &'a str {
        item.get(self.key).and_then(Value::as_str).unwrap_or("")
    }
}

/// `cursor` of the parameters.
pub(super) fn cursor(params: &Map<String, Value>) -> Result<Option<&str>, Refusal> {
    match params.get("cursor") {
        None => Ok(None),
        Some(Value::String(cursor)) => Ok(Some(cursor)),
        Some(_) => Err(Refusal::invalid_params("\"cursor\" must be a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn items(names: &[&str]) -> Vec<Value> {
        names.iter().map(|name| json!({"name": name})).collect()
    }

    #[test]
    fn following_the_cursors_gives_each_item_once() {
        let items = items(&["a", "b", "c", "d", "e"]);
        for size in 1..7 {
            let mut seen = Vec::new();
            let mut cursor: Option<String> = None;
            loop {
                let page = TOOLS.page(&items, cursor.as_deref(), Some(size)).unwrap();
                seen.extend(page["tools"].as_array().unwrap().clone());
                match page.get("nextCursor") {
                    Some(next) => cursor = Some(next.as_str().unwrap().to_owned()),
                    None => break,
                }
            }
            assert_eq!(seen, items, "page size {size}");
        }
    }

    #[test]
    fn a_cursor_survives_a_change_of_the_list_before_it() {
        let page = TOOLS.page(&items(&["a", "b", "c"]), None, Some(2)).unwrap();
        let cursor = page["nextCursor"].as_str().unwrap();
        let changed = items(&["0", "b", "c", "d"]);
        let next = TOOLS.page(&changed, Some(cursor), None).unwrap();
        assert_eq!(next["tools"], json!([{"name": "c"}, {"name": "d"}]));
    }

    #[test]
    fn a_cursor_of_another_list_or_none_is_refused() {
        let items = items(&["a", "b"]);
        let page = PROMPTS.page(&items, None, Some(1)).unwrap();
        let foreign = page["nextCursor"].as_str().unwrap();
        for cursor in [foreign, "", "bogus", "AAAA", "%00"] {
            let refusal = TOOLS.page(&items, Some(cursor), None).unwrap_err();
            assert_eq!(refusal.code, -32602, "{cursor:?}");
        }
    }
}
