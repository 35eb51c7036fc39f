//! `server/utilities/pagination`, and the reading of every list to its end.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Answer, Check, Context, LISTS, Listing, Run, Session};
use crate::spec::Span;
use crate::spec::requirement::Breach;

/// A list that goes on longer than this is not followed to its end.
const MOST_PAGES: usize = 200;

/// Reads every list; runs first, since the other checks need what it finds.
pub(crate) const GATHER: Check = Check {
    name: "lists",
    requirements: &[
        "tools.list.responds",
        "resources.list.responds",
        "resources.templates.responds",
        "prompts.list.responds",
        "pagination.continues",
        "caching.scope-per-list",
    ],
    span: Span::ALL,
    session: Session::Shared,
    run: Run::Code(gather),
};

pub(super) const CHECKS: &[Check] = &[Check {
    name: "pagination.cursors",
    requirements: &["pagination.stable-cursors", "pagination.invalid-cursor"],
    span: Span::ALL,
    session: Session::Shared,
    run: Run::Code(cursors),
}];

/// The rule that a list is given at all.
pub(super) fn responds_rule(method: &str) -> &'static str {
    match method {
        "tools/list" => "tools.list.responds",
        "resources/list" => "resources.list.responds",
        "resources/templates/list" => "resources.templates.responds",
        _ => "prompts.list.responds",
    }
}

impl Context<'_> {
    /// Whether the list was given. If not, the requirements are not applicable, or blocked by
    /// the list's own failure.
    pub(super) fn needs_list(&mut self, method: &str, requirements: &[&str]) -> bool {
        if self.facts.lists.contains_key(method) {
            return true;
        }
        let capability = LISTS
            .iter()
            .find(|(name, _, _)| *name == method)
            .map_or("", |(_, _, capability)| capability);
        if self.needs(capability, requirements) {
            for id in requirements {
                self.judge.blocked(id, responds_rule(method));
            }
        }
        false
    }
}

fn gather(ctx: &mut Context<'_>) {
    for (method, items, capability) in LISTS {
        let rule = responds_rule(method);
        if !ctx.needs(capability, &[rule]) {
            continue;
        }
        let from = ctx.client.log().len();
        match ctx.ask(&[rule], method, None) {
            Answer::Result(page) => {
                ctx.judge.holds(rule);
                let listing = follow(ctx, method, items, page);
                ctx.facts.lists.insert(method, listing);
            }
            Answer::Error { code, error } => {
                let evidence = ctx.evidence_from(from);
                let message =
                    format!("`{capability}` is declared, but `{method}` gives an error: {error}");
                // Nobody says that a server without templates must know their method.
                let breach = if method == "resources/templates/list" {
                    if code == Some(-32601) {
                        Breach::Warn
                    } else {
                        Breach::Fail
                    }
                } else {
                    Breach::Fail
                };
                ctx.judge.broken_as(rule, breach, message, evidence);
            }
            Answer::None => {}
        }
    }
}

/// Follows `nextCursor` to the end.
fn follow(ctx: &mut Context<'_>, method: &str, items: &str, first: Value) -> Listing {
    const RULE: &str = "pagination.continues";
    let mut listing = Listing::default();
    let mut page = first;
    let mut seen = HashSet::new();
    loop {
        if let Some(list) = page.get(items).and_then(Value::as_array) {
            listing.items.extend(list.iter().cloned());
        }
        let next = page.get("nextCursor").filter(|c| c.is_string()).cloned();
        listing.pages.push(page);
        let Some(cursor) = next else {
            break;
        };
        let from = ctx.client.log().len();
        if !seen.insert(cursor.clone()) {
            let evidence = ctx.evidence();
            let message =
                format!("`{method}` gives the cursor {cursor} again: the list never ends.");
            ctx.judge.broken(RULE, message, evidence);
            break;
        }
        if listing.pages.len() >= MOST_PAGES {
            ctx.judge.note(
                RULE,
                format!("`{method}` was not followed past {MOST_PAGES} pages."),
            );
            break;
        }
        match ctx.ask(&[RULE], method, Some(json!({"cursor": cursor}))) {
            Answer::Result(next) => {
                ctx.judge.holds(RULE);
                listing.cursors.push(cursor);
                page = next;
            }
            Answer::Error { error, .. } => {
                let evidence = ctx.evidence_from(from);
                let message =
                    format!("`{method}` refuses the cursor {cursor} that it gave itself: {error}");
                ctx.judge.broken(RULE, message, evidence);
                break;
            }
            Answer::None => break,
        }
    }
    if listing.pages.len() > 1 {
        repeated(ctx, method, &listing);
        scopes(ctx, method, &listing);
    } else {
        ctx.judge.not_applicable(RULE, "Every list is one page.");
        ctx.judge
            .not_applicable("caching.scope-per-list", "Every list is one page.");
    }
    listing
}

/// What names an item of each list.
pub(super) fn key_of(item: &Value) -> Option<&str> {
    ["uri", "uriTemplate", "name"]
        .iter()
        .find_map(|name| item.get(name).and_then(Value::as_str))
}

fn repeated(ctx: &mut Context<'_>, method: &str, listing: &Listing) {
    let mut keys = HashSet::new();
    let twice = listing
        .items
        .iter()
        .filter_map(key_of)
        .find(|key| !keys.insert(*key));
    if let Some(key) = twice {
        let evidence = ctx.evidence();
        let message = format!("`{method}` lists `{key}` on more than one page.");
        ctx.judge.broken("pagination.continues", message, evidence);
    }
}

fn scopes(ctx: &mut Context<'_>, method: &str, listing: &Listing) {
    const RULE: &str = "caching.scope-per-list";
    let scopes: Vec<Option<&Value>> = listing
        .pages
        .iter()
        .map(|page| page.get("cacheScope"))
        .collect();
    if scopes.windows(2).all(|pair| pair[0] == pair[1]) {
        ctx.judge.holds(RULE);
    } else {
        let evidence = ctx.evidence();
        ctx.judge.broken(
            RULE,
            format!("The pages of `{method}` have different `cacheScope`s."),
            evidence,
        );
    }
}

/// Only a server that pages has cursors to be judged.
fn cursors(ctx: &mut Context<'_>) {
    const STABLE: &str = "pagination.stable-cursors";
    const INVALID: &str = "pagination.invalid-cursor";
    let paged: Vec<(&str, &str, Value, Value)> = LISTS
        .iter()
        .filter_map(|(method, items, _)| {
            let listing = ctx.facts.lists.get(method)?;
            let cursor = listing.cursors.first()?;
            Some((
                *method,
                *items,
                cursor.clone(),
                listing.pages.get(1)?.clone(),
            ))
        })
        .collect();
    if paged.is_empty() {
        ctx.not_applicable(&[STABLE, INVALID], "Every list is one page.");
    }
    for (method, items, cursor, page) in paged {
        let from = ctx.client.log().len();
        if let Answer::Result(again) = ctx.ask(&[STABLE], method, Some(json!({"cursor": cursor}))) {
            if again.get(items) == page.get(items) {
                ctx.judge.holds(STABLE);
            } else {
                let evidence = ctx.evidence_from(from);
                let message = format!("`{method}` gives another page for the same cursor.");
                ctx.judge.broken(STABLE, message, evidence);
            }
        }
        let from = ctx.client.log().len();
        let bogus = json!({"cursor": "touchstone-bogus-%00-cursor"});
        match ctx.ask(&[INVALID], method, Some(bogus)) {
            Answer::Error {
                code: Some(-32602), ..
            } => ctx.judge.holds(INVALID),
            Answer::Error { error, .. } => {
                let evidence = ctx.evidence_from(from);
                let message = format!(
                    "An invalid cursor of `{method}` gives another error than -32602: {error}"
                );
                ctx.judge.broken(INVALID, message, evidence);
            }
            Answer::Result(_) => {
                let evidence = ctx.evidence_from(from);
                let message = format!("`{method}` serves an invalid cursor; -32602 is expected.");
                ctx.judge.broken(INVALID, message, evidence);
            }
            Answer::None => return,
        }
    }
}
