//! The canonical layout: one program, one text.
//!
//! The layout follows from the tokens alone, save for blank lines (at most one is kept) and
//! comments. A comment on a line of its own, or at the end of a statement, an arm or a
//! declaration, stays there; one in the middle of something moves to the line before it. Lines
//! aim at 100 columns.

use crate::names::Module;
use crate::syntax::{Kind, SyntaxElement, SyntaxNode, lex};

const WIDTH: usize = 100;
const INDENT: usize = 2;

/// The canonical text of a module; None when it does not parse, so that nothing is known about
/// what its author meant.
pub fn format(module: &Module) -> Option<String> {
    let text = layout(module)?;
    // Layout must never cost anyone a word. Should it, the text stays as it is.
    Some(if same_words(&module.text, &text) {
        text
    } else {
        module.text.to_string()
    })
}

/// The canonical text, before [`format`] makes sure that nothing was lost: for tests.
pub fn layout(module: &Module) -> Option<String> {
    if module
        .chunks
        .iter()
        .any(|chunk| !chunk.parsed.errors.is_empty())
    {
        return None;
    }
    let mut elements = Vec::new();
    for chunk in &module.chunks {
        elements.extend(SyntaxNode::new_root(chunk.parsed.green.clone()).children_with_tokens());
    }
    Some(print(&items(&elements)))
}

/// Whether two texts differ in white space and commas only.
pub fn same_words(a: &str, b: &str) -> bool {
    let words = |text: &str| -> (Vec<String>, Vec<String>) {
        let mut words = Vec::new();
        let mut comments = Vec::new();
        for token in lex(text) {
            let word = &text[token.start as usize..token.end as usize];
            match token.kind {
                Kind::Comment | Kind::Doc => comments.push(word.trim_end().to_owned()),
                Kind::Space | Kind::Newline | Kind::Comma => {}
                _ => words.push(word.to_owned()),
            }
        }
        comments.sort();
        (words, comments)
    };
    words(a) == words(b)
}

// ---- documents (Wadler, "A prettier printer") ----

#[derive(Debug, Clone)]
enum Doc {
    Text(String),
    /// A blank, or a new line where the group is broken.
    Line,
    /// Nothing, or a new line where the group is broken.
    Soft,
    Hard,
    /// An empty line, then a new one.
    Blank,
    Concat(Vec<Doc>),
    Nest(Box<Doc>),
    /// On one line if it fits. The flag: it never does.
    Group(Box<Doc>, bool),
}

fn text(text: impl Into<String>) -> Doc {
    Doc::Text(text.into())
}

fn concat(parts: impl IntoIterator<Item = Doc>) -> Doc {
    Doc::Concat(parts.into_iter().collect())
}

fn nest(doc: Doc) -> Doc {
    Doc::Nest(Box::new(doc))
}

fn group(doc: Doc) -> Doc {
    let hard = is_hard(&doc);
    Doc::Group(Box::new(doc), hard)
}

fn is_hard(doc: &Doc) -> bool {
    match doc {
        Doc::Hard | Doc::Blank => true,
        Doc::Concat(parts) => parts.iter().any(is_hard),
        Doc::Nest(inner) => is_hard(inner),
        Doc::Group(_, hard) => *hard,
        _ => false,
    }
}

fn join(docs: Vec<Doc>, separator: impl Fn() -> Doc) -> Doc {
    let mut out = Vec::new();
    for (index, doc) in docs.into_iter().enumerate() {
        if index > 0 {
            out.push(separator());
        }
        out.push(doc);
    }
    Doc::Concat(out)
}

fn comma() -> Doc {
    concat([text(","), Doc::Line])
}

fn print(doc: &Doc) -> String {
    let mut out = String::new();
    let mut column = 0;
    let mut todo: Vec<(usize, bool, &Doc)> = vec![(0, true, doc)];
    while let Some((indent, broken, doc)) = todo.pop() {
        match doc {
            Doc::Text(words) => {
                out.push_str(words);
                column += words.chars().count();
            }
            Doc::Line if !broken => {
                out.push(' ');
                column += 1;
            }
            Doc::Soft if !broken => {}
            Doc::Line | Doc::Soft | Doc::Hard | Doc::Blank => {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                if matches!(doc, Doc::Blank) {
                    out.push('\n');
                }
                out.extend(std::iter::repeat_n(' ', indent));
                column = indent;
            }
            Doc::Concat(parts) => {
                todo.extend(parts.iter().rev().map(|part| (indent, broken, part)))
            }
            Doc::Nest(inner) => todo.push((indent + INDENT, broken, inner)),
            Doc::Group(inner, hard) => {
                let flat = !hard && fits(inner, WIDTH.saturating_sub(column), &todo);
                todo.push((indent, !flat, inner));
            }
        }
    }
    out
}

/// Whether `doc`, on one line, and what follows it up to the next possible line end fit.
fn fits(doc: &Doc, mut left: usize, rest: &[(usize, bool, &Doc)]) -> bool {
    let mut todo: Vec<(bool, &Doc)> = vec![(false, doc)];
    let mut after = rest.iter().rev();
    loop {
        let Some((broken, doc)) = todo.pop() else {
            match after.next() {
                Some((_, broken, doc)) => {
                    todo.push((*broken, doc));
                    continue;
                }
                None => return true,
            }
        };
        match doc {
            Doc::Text(words) => match left.checked_sub(words.chars().count()) {
                Some(now) => left = now,
                None => return false,
            },
            Doc::Line | Doc::Soft if broken => return true,
            Doc::Line => match left.checked_sub(1) {
                Some(now) => left = now,
                None => return false,
            },
            Doc::Soft => {}
            Doc::Hard | Doc::Blank => return true,
            Doc::Concat(parts) => todo.extend(parts.iter().rev().map(|part| (broken, part))),
            Doc::Nest(inner) => todo.push((broken, inner)),
            // What follows may break on its own.
            Doc::Group(inner, _) => todo.push((broken, inner)),
        }
    }
}

// ---- sequences with comments ----

/// Lays out a sequence of units (declarations, statements, arms) with the comments between them.
/// `force_blank` says whether an empty line must part two units.
fn sequence(
    elements: &[SyntaxElement],
    unit: impl Fn(&SyntaxNode) -> Doc,
    force_blank: impl Fn(&SyntaxNode) -> bool,
) -> Vec<Doc> {
    struct Row {
        doc: Doc,
        blank_before: bool,
        forced: bool,
        comment: bool,
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut newlines = 0;
    // Whether a comment found now stands on the line of the unit before it.
    let mut same_line = false;
    for element in elements {
        let Some(node) = element.as_node() else {
            let Some(token) = element.as_token() else {
                continue;
            };
            match token.kind() {
                Kind::Newline => {
                    newlines += 1;
                    same_line = false;
                }
                Kind::Comment | Kind::Doc => {
                    let words = token.text().trim_end();
                    match rows.last_mut() {
                        Some(row) if same_line => {
                            let before = std::mem::replace(&mut row.doc, text(""));
                            row.doc = concat([before, text(format!(" {words}"))]);
                        }
                        _ => rows.push(Row {
                            doc: text(words),
                            blank_before: newlines > 1,
                            forced: false,
                            comment: true,
                        }),
                    }
                    newlines = 0;
                    same_line = false;
                }
                _ => {}
            }
            continue;
        };
        let forced = force_blank(node);
        let mut first = true;
        for comment in hoisted(node) {
            rows.push(Row {
                doc: text(comment),
                blank_before: first && newlines > 1,
                forced: false,
                comment: true,
            });
            first = false;
        }
        rows.push(Row {
            doc: unit(node),
            blank_before: first && newlines > 1,
            forced,
            comment: false,
        });
        newlines = 0;
        same_line = true;
    }
    let mut out: Vec<Doc> = Vec::new();
    for index in 0..rows.len() {
        if index > 0 {
            // A forced blank goes before the comments that lead up to the unit.
            let lead = rows[index..]
                .iter()
                .position(|row| !row.comment || row.blank_before);
            let leads_to_forced = !rows[index - 1].comment
                && lead.is_some_and(|n| {
                    rows[index + n].forced && (n == 0 || !rows[index + n].blank_before)
                });
            let after_forced = rows[index - 1].forced;
            let blank = rows[index].blank_before || leads_to_forced || after_forced;
            out.push(if blank { Doc::Blank } else { Doc::Hard });
        }
        out.push(std::mem::replace(&mut rows[index].doc, text("")));
    }
    out
}

/// The comments inside a unit that no sequence inside it keeps in place.
fn hoisted(node: &SyntaxNode) -> Vec<String> {
    let mut out = Vec::new();
    let mut todo: Vec<(SyntaxElement, bool)> =
        node.children_with_tokens().map(|e| (e, true)).collect();
    todo.reverse();
    let mut lead = true;
    while let Some((element, top)) = todo.pop() {
        match element {
            SyntaxElement::Node(inner) => {
                lead = false;
                if matches!(inner.kind(), Kind::Block | Kind::Arms) {
                    continue;
                }
                let mut children: Vec<_> =
                    inner.children_with_tokens().map(|e| (e, false)).collect();
                children.reverse();
                todo.extend(children);
            }
            SyntaxElement::Token(token) => match token.kind() {
                // Docs and comments above a declaration's first word are printed with it.
                Kind::Comment | Kind::Doc if top && lead => {}
                Kind::Comment | Kind::Doc => out.push(token.text().trim_end().to_owned()),
                Kind::Space | Kind::Newline => {}
                _ => lead = false,
            },
        }
    }
    out
}

fn items(elements: &[SyntaxElement]) -> Doc {
    let mut docs = sequence(elements, item, |node| matches!(node.kind(), Kind::Fn));
    if docs.is_empty() {
        return text("");
    }
    docs.push(Doc::Hard);
    Doc::Concat(docs)
}

// ---- tokens and children ----

fn significant(node: &SyntaxNode) -> impl Iterator<Item = SyntaxElement> + '_ {
    node.children_with_tokens()
        .filter(|e| !e.kind().is_trivia())
}

/// The words of a node with nothing between them.
fn tight(node: &SyntaxNode) -> Doc {
    let mut out = String::new();
    for element in node.descendants_with_tokens() {
        if let Some(token) = element.as_token()
            && !token.kind().is_trivia()
        {
            out.push_str(token.text());
        }
    }
    text(out)
}

/// Children in their order, each made a document; tokens as they are, set apart as `spaced` says.
fn spaced(node: &SyntaxNode) -> Doc {
    let mut out: Vec<Doc> = Vec::new();
    let mut before: Option<Kind> = None;
    for element in significant(node) {
        let kind = element.kind();
        let after_opening = matches!(
            before,
            None | Some(Kind::LParen | Kind::Lt | Kind::Dot | Kind::DotDot)
        );
        let closes = matches!(
            kind,
            Kind::Comma | Kind::Colon | Kind::RParen | Kind::Gt | Kind::Dot
        );
        let belongs = matches!(kind, Kind::Generics | Kind::TyArgs | Kind::Args);
        let glued = after_opening || closes || belongs;
        if !glued {
            out.push(text(" "));
        }
        out.push(match element {
            SyntaxElement::Node(inner) => expr(&inner),
            SyntaxElement::Token(token) => text(token.text()),
        });
        before = Some(kind);
    }
    Doc::Concat(out)
}

// ---- declarations ----

fn item(node: &SyntaxNode) -> Doc {
    let mut lead = Vec::new();
    for element in node.children_with_tokens() {
        match element.kind() {
            Kind::Doc | Kind::Comment => {
                if let Some(token) = element.as_token() {
                    lead.push(text(token.text().trim_end()));
                    lead.push(Doc::Hard);
                }
            }
            Kind::Space | Kind::Newline => {}
            _ => break,
        }
    }
    lead.push(match node.kind() {
        Kind::Import => import(node),
        Kind::Fn => function(node),
        Kind::Test | Kind::Property => test(node),
        Kind::TypeDecl | Kind::ErrorDecl => declaration(node),
        _ => spaced(node),
    });
    Doc::Concat(lead)
}

fn import(node: &SyntaxNode) -> Doc {
    let mut out = vec![text("import ")];
    for element in significant(node).skip(1) {
        match element {
            SyntaxElement::Token(token) => out.push(text(token.text())),
            SyntaxElement::Node(list) => out.push(braced("{", words(&list), "}", Doc::Soft)),
        }
    }
    Doc::Concat(out)
}

/// The names in a list, brackets and commas left out.
fn words(node: &SyntaxNode) -> Vec<Doc> {
    let tokens = node.children_with_tokens().filter_map(|e| e.into_token());
    tokens
        .filter(|t| matches!(t.kind(), Kind::Lower | Kind::Upper))
        .map(|t| text(t.text()))
        .collect()
}

/// `open`, the parts, `close`: on one line if they fit, else a line each.
fn braced(open: &str, parts: Vec<Doc>, close: &str, edge: Doc) -> Doc {
    if parts.is_empty() {
        return text(format!("{open}{close}"));
    }
    group(concat([
        text(open),
        nest(concat([edge.clone(), join(parts, comma)])),
        edge,
        text(close),
    ]))
}

fn declaration(node: &SyntaxNode) -> Doc {
    let mut out: Vec<Doc> = Vec::new();
    for element in significant(node) {
        match element {
            SyntaxElement::Token(token) => {
                if token.kind() == Kind::Eq {
                    out.push(text(" ="));
                } else {
                    if !out.is_empty() {
                        out.push(text(" "));
                    }
                    out.push(text(token.text()));
                }
            }
            SyntaxElement::Node(inner) => match inner.kind() {
                Kind::Generics => out.push(generics(&inner)),
                Kind::Fields => {
                    out.push(text(" "));
                    out.push(braced(
                        "{",
                        inner.children().map(|f| spaced(&f)).collect(),
                        "}",
                        Doc::Line,
                    ));
                }
                Kind::Variants => out.push(variants(&inner)),
                _ => {
                    out.push(text(" "));
                    out.push(expr(&inner));
                }
            },
        }
    }
    Doc::Concat(out)
}

fn generics(node: &SyntaxNode) -> Doc {
    concat([text("<"), join(words(node), || text(", ")), text(">")])
}

fn variants(node: &SyntaxNode) -> Doc {
    let all: Vec<Doc> = node.children().map(|v| variant(&v)).collect();
    let leading = significant(node)
        .next()
        .is_some_and(|e| e.kind() == Kind::Bar);
    if leading {
        let lines = all.into_iter().flat_map(|v| [Doc::Hard, text("| "), v]);
        return nest(concat(lines));
    }
    let mut parts = Vec::new();
    for (index, v) in all.into_iter().enumerate() {
        parts.push(Doc::Line);
        if index > 0 {
            parts.push(text("| "));
        }
        parts.push(v);
    }
    group(nest(Doc::Concat(parts)))
}

fn variant(node: &SyntaxNode) -> Doc {
    let mut out = Vec::new();
    for element in significant(node) {
        match element {
            SyntaxElement::Token(token) if token.kind() == Kind::Comma => out.push(text(", ")),
            SyntaxElement::Token(token) => out.push(text(token.text())),
            SyntaxElement::Node(inner) => out.push(expr(&inner)),
        }
    }
    Doc::Concat(out)
}

fn params(node: &SyntaxNode) -> Doc {
    braced(
        "(",
        node.children().map(|p| spaced(&p)).collect(),
        ")",
        Doc::Soft,
    )
}

fn function(node: &SyntaxNode) -> Doc {
    let mut out: Vec<Doc> = Vec::new();
    let mut clauses: Vec<Doc> = Vec::new();
    let mut body = None;
    for element in significant(node) {
        match element {
            SyntaxElement::Token(token) => match token.kind() {
                Kind::FnKw => out.push(text("fn ")),
                Kind::Arrow => out.push(text(" -> ")),
                _ => out.push(text(token.text())),
            },
            SyntaxElement::Node(inner) => match inner.kind() {
                Kind::Attr => {
                    out.push(attribute(&inner));
                    out.push(Doc::Hard);
                }
                Kind::Generics => out.push(generics(&inner)),
                Kind::Params => out.push(params(&inner)),
                Kind::Row => {
                    out.push(text(" "));
                    out.push(row(&inner));
                }
                Kind::Requires | Kind::Ensures => clauses.push(group(spaced(&inner))),
                Kind::Block => body = Some(inner),
                _ => out.push(expr(&inner)),
            },
        }
    }
    let separate = !clauses.is_empty();
    for clause in clauses {
        out.push(nest(concat([Doc::Hard, clause])));
    }
    if let Some(body) = body {
        out.push(if separate { Doc::Hard } else { text(" ") });
        out.push(block(&body, true));
    }
    Doc::Concat(out)
}

fn attribute(node: &SyntaxNode) -> Doc {
    let mut out = Vec::new();
    for element in significant(node) {
        out.push(match element {
            SyntaxElement::Token(token) => text(token.text()),
            SyntaxElement::Node(inner) => expr(&inner),
        });
    }
    Doc::Concat(out)
}

fn test(node: &SyntaxNode) -> Doc {
    let mut out = Vec::new();
    for element in significant(node) {
        if !out.is_empty() {
            out.push(text(" "));
        }
        out.push(match element {
            SyntaxElement::Token(token) => text(token.text()),
            SyntaxElement::Node(inner) => match inner.kind() {
                Kind::Params => params(&inner),
                Kind::Block => group(block(&inner, false)),
                _ => expr(&inner),
            },
        });
    }
    Doc::Concat(out)
}

// ---- types ----

fn row(node: &SyntaxNode) -> Doc {
    let mut out = vec![text("! ")];
    for element in significant(node).skip(1) {
        match element {
            SyntaxElement::Node(list) => out.push(labels(&list)),
            SyntaxElement::Token(token) => label_token(token.kind(), token.text(), &mut out),
        }
    }
    Doc::Concat(out)
}

fn labels(list: &SyntaxNode) -> Doc {
    let mut out = Vec::new();
    let tokens: Vec<_> = significant(list).filter_map(|e| e.into_token()).collect();
    for (index, token) in tokens.iter().enumerate() {
        // A comma before the brace says nothing.
        let last = tokens
            .get(index + 1)
            .is_some_and(|t| t.kind() == Kind::RBrace);
        match token.kind() {
            Kind::Comma if last => {}
            Kind::Comma => out.push(text(", ")),
            kind => label_token(kind, token.text(), &mut out),
        }
    }
    Doc::Concat(out)
}

fn label_token(kind: Kind, words: &str, out: &mut Vec<Doc>) {
    out.push(if kind == Kind::Bar {
        text(" | ")
    } else {
        text(words)
    });
}

// ---- expressions ----

fn expr(node: &SyntaxNode) -> Doc {
    match node.kind() {
        Kind::Literal
        | Kind::Path
        | Kind::Hole
        | Kind::PatName
        | Kind::PatWild
        | Kind::PatLit
        | Kind::PatRest => tight_or_string(node),
        // A string's inside stays as it is written: it cannot be laid out over lines.
        Kind::Str => text(node.text().to_string()),
        Kind::TyName | Kind::TyParen | Kind::PatCtor | Kind::PatParen => listed(node),
        Kind::TyArgs | Kind::PatList => listed(node),
        Kind::TyFn => type_function(node),
        Kind::Row => row(node),
        Kind::Paren => wrapped(node),
        Kind::Call => parts(node),
        Kind::Args => args(node),
        Kind::FieldGet => parts(node),
        Kind::Record | Kind::Fail => record(node),
        Kind::RecordFields => record_fields(node),
        Kind::PatRecord => pattern_record(node),
        Kind::List => braced(
            "[",
            node.children().map(|e| expr(&e)).collect(),
            "]",
            Doc::Soft,
        ),
        Kind::Unary => parts(node),
        Kind::Spread => parts(node),
        Kind::Binary => binary(node),
        Kind::If => group(if_expr(node)),
        Kind::Match | Kind::Recover => arms_expr(node),
        Kind::Block => group(block(node, false)),
        Kind::Lambda => lambda(node),
        Kind::LambdaParams => listed(node),
        _ => spaced(node),
    }
}

fn tight_or_string(node: &SyntaxNode) -> Doc {
    match node.children().next() {
        Some(inner) if inner.kind() == Kind::Str => concat([expr(&inner)]),
        _ => tight(node),
    }
}

/// Children one after the other with nothing between them.
fn parts(node: &SyntaxNode) -> Doc {
    concat(significant(node).map(|element| match element {
        SyntaxElement::Node(inner) => expr(&inner),
        SyntaxElement::Token(token) => text(token.text()),
    }))
}

/// Like `parts`, with a blank after each comma and none left at the end.
fn listed(node: &SyntaxNode) -> Doc {
    let mut out = Vec::new();
    let elements: Vec<SyntaxElement> = significant(node).collect();
    for (index, element) in elements.iter().enumerate() {
        match element {
            SyntaxElement::Node(inner) => out.push(expr(inner)),
            SyntaxElement::Token(token) if token.kind() == Kind::Comma => {
                let closes = |e: &SyntaxElement| {
                    matches!(
                        e.kind(),
                        Kind::RParen | Kind::RBracket | Kind::Gt | Kind::RBrace
                    )
                };
                if !elements.get(index + 1).is_some_and(closes) {
                    out.push(text(", "));
                }
            }
            SyntaxElement::Token(token) => out.push(text(token.text())),
        }
    }
    Doc::Concat(out)
}

fn type_function(node: &SyntaxNode) -> Doc {
    let mut out = Vec::new();
    let elements: Vec<SyntaxElement> = significant(node).collect();
    for (index, element) in elements.iter().enumerate() {
        match element {
            SyntaxElement::Node(inner) if inner.kind() == Kind::Row => {
                out.push(text(" "));
                out.push(row(inner));
            }
            SyntaxElement::Node(inner) => out.push(expr(inner)),
            SyntaxElement::Token(token) => match token.kind() {
                Kind::Comma
                    if elements
                        .get(index + 1)
                        .is_some_and(|e| e.kind() == Kind::RParen) => {}
                Kind::Comma => out.push(text(", ")),
                Kind::Arrow => out.push(text(" -> ")),
                _ => out.push(text(token.text())),
            },
        }
    }
    Doc::Concat(out)
}

fn wrapped(node: &SyntaxNode) -> Doc {
    match node.children().next() {
        Some(inner) => concat([text("("), expr(&inner), text(")")]),
        None => text("()"),
    }
}

fn args(node: &SyntaxNode) -> Doc {
    let all: Vec<Doc> = node.children().map(|e| expr(&e)).collect();
    let hard = all.iter().filter(|d| is_hard(d)).count();
    // A lambda with a body at the end opens on the line of the call.
    if hard == 1 && all.last().is_some_and(is_hard) {
        return concat([text("("), join(all, || text(", ")), text(")")]);
    }
    braced("(", all, ")", Doc::Soft)
}

fn record(node: &SyntaxNode) -> Doc {
    let mut out = Vec::new();
    for element in significant(node) {
        if !out.is_empty() {
            out.push(text(" "));
        }
        out.push(match element {
            SyntaxElement::Node(inner) => expr(&inner),
            SyntaxElement::Token(token) => text(token.text()),
        });
    }
    Doc::Concat(out)
}

fn record_fields(node: &SyntaxNode) -> Doc {
    braced(
        "{",
        node.children()
            .map(|f| {
                if f.kind() == Kind::Spread {
                    parts(&f)
                } else {
                    spaced(&f)
                }
            })
            .collect(),
        "}",
        Doc::Line,
    )
}

fn pattern_record(node: &SyntaxNode) -> Doc {
    let fields: Vec<Doc> = node.children().map(|f| spaced(&f)).collect();
    let name = significant(node)
        .next()
        .and_then(|e| e.into_token())
        .map(|t| t.text().to_owned())
        .unwrap_or_default();
    if fields.is_empty() {
        return text(format!("{name} {{}}"));
    }
    concat([
        text(name),
        text(" { "),
        join(fields, || text(", ")),
        text(" }"),
    ])
}

/// The operands and operators of a chain that reads from left to right.
fn chain(node: &SyntaxNode, same: impl Fn(Kind) -> bool) -> (Vec<SyntaxNode>, Vec<String>) {
    let mut operands = Vec::new();
    let mut operators = Vec::new();
    let mut left = node.clone();
    loop {
        let op = significant(&left).filter_map(|e| e.into_token()).next();
        let sides: Vec<SyntaxNode> = left.children().collect();
        let (Some(op), [first, second]) = (op, sides.as_slice()) else {
            break;
        };
        if left.kind() != Kind::Binary || !same(op.kind()) {
            break;
        }
        operands.push(second.clone());
        operators.push(op.text().to_owned());
        left = first.clone();
    }
    operands.push(left);
    operands.reverse();
    operators.reverse();
    (operands, operators)
}

fn binary(node: &SyntaxNode) -> Doc {
    let op = significant(node).filter_map(|e| e.into_token()).next();
    let op = op.map_or(Kind::Plus, |t| t.kind());
    let level = |kind: Kind| match kind {
        Kind::Plus | Kind::Minus => 1,
        Kind::Star | Kind::Slash | Kind::Percent => 2,
        other => 10 + other as u16,
    };
    let (operands, operators) = chain(node, |kind| level(kind) == level(op));
    if operators.is_empty() {
        return spaced(node);
    }
    let mut operands = operands.into_iter();
    let first = operands.next().map_or_else(|| text(""), |n| expr(&n));
    let mut rest = Vec::new();
    for (operand, operator) in operands.zip(operators) {
        if op == Kind::PipeGt {
            rest.extend([Doc::Line, text("|> "), expr(&operand)]);
        } else {
            // The operator ends its line: one that began it could be taken for a sign.
            rest.extend([text(format!(" {operator}")), Doc::Line, expr(&operand)]);
        }
    }
    group(concat([first, nest(Doc::Concat(rest))]))
}

fn if_expr(node: &SyntaxNode) -> Doc {
    let mut out = Vec::new();
    for element in significant(node) {
        if !out.is_empty() {
            out.push(text(" "));
        }
        out.push(match element {
            SyntaxElement::Token(token) => text(token.text()),
            SyntaxElement::Node(inner) => match inner.kind() {
                Kind::Block => block(&inner, false),
                Kind::If => if_expr(&inner),
                _ => expr(&inner),
            },
        });
    }
    // The condition may be a block of its own; only the blocks after it break together.
    Doc::Concat(out)
}

fn arms_expr(node: &SyntaxNode) -> Doc {
    let mut out = Vec::new();
    for element in significant(node) {
        if !out.is_empty() {
            out.push(text(" "));
        }
        out.push(match element {
            SyntaxElement::Token(token) => text(token.text()),
            SyntaxElement::Node(inner) if inner.kind() == Kind::Arms => arms(&inner),
            SyntaxElement::Node(inner) => expr(&inner),
        });
    }
    Doc::Concat(out)
}

fn arms(node: &SyntaxNode) -> Doc {
    let elements: Vec<SyntaxElement> = node.children_with_tokens().collect();
    let rows = sequence(&elements, arm, |_| false);
    if rows.is_empty() {
        return text("{}");
    }
    concat([
        text("{"),
        nest(concat([Doc::Hard].into_iter().chain(rows))),
        Doc::Hard,
        text("}"),
    ])
}

fn arm(node: &SyntaxNode) -> Doc {
    spaced(node)
}

fn lambda(node: &SyntaxNode) -> Doc {
    spaced(node)
}

/// A block; `open`: over several lines even if one would do.
fn block(node: &SyntaxNode, open: bool) -> Doc {
    let elements: Vec<SyntaxElement> = node.children_with_tokens().collect();
    let mut rows = sequence(&elements, statement, |_| false);
    let comments = elements
        .iter()
        .any(|e| matches!(e.kind(), Kind::Comment | Kind::Doc));
    match rows.len() {
        0 => text("{}"),
        1 if !open && !comments => {
            let only = rows.remove(0);
            concat([
                text("{"),
                nest(concat([Doc::Line, only])),
                Doc::Line,
                text("}"),
            ])
        }
        _ => concat([
            text("{"),
            nest(concat([Doc::Hard].into_iter().chain(rows))),
            Doc::Hard,
            text("}"),
        ]),
    }
}

fn statement(node: &SyntaxNode) -> Doc {
    spaced(node)
}
