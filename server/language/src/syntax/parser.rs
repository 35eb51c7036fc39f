//! Tokens to a lossless tree and, in the same pass, to the program.
//!
//! Every mistake is reported where it is and parsing goes on behind it. The height of the tree is
//! bounded ([`MAX_HEIGHT`]), so nobody who walks it can overflow the stack.

use std::sync::Arc;

use rowan::{Checkpoint, GreenNode, GreenNodeBuilder};

use super::kind::Kind;
use super::lexer::{Token, lex, unescape};
use crate::ast::*;
use crate::diagnostic::{Draft, Fix};

/// How deep expressions, types and patterns may nest, chains of operators included.
pub const MAX_HEIGHT: u16 = 100;

/// What parsing one chunk gives.
#[derive(Debug)]
pub struct Parsed {
    /// The tree; its text is the chunk's, byte for byte.
    pub green: GreenNode,
    /// The declarations.
    pub items: Vec<Item>,
    /// What was wrong.
    pub errors: Vec<Draft>,
}

/// Parses one chunk.
pub fn parse_chunk(text: &str) -> Parsed {
    let tokens = lex(text);
    let mut parser = Parser::new(text, &tokens);
    parser.b.start_node(rowan::SyntaxKind(Kind::Chunk as u16));
    let items = parser.items();
    parser.rest();
    parser.b.finish_node();
    Parsed {
        green: parser.b.finish(),
        items,
        errors: parser.errors,
    }
}

#[derive(Clone, Copy, Default)]
struct Limits {
    /// `Name {` is not a record here: the brace begins a body.
    no_brace: bool,
    /// `x ->` is not a lambda here: the arrow ends a guard.
    no_lambda: bool,
    /// `<` and `>` close type arguments here.
    in_angle: bool,
}

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token],
    /// Indices of the tokens that mean something.
    sig: Vec<u32>,
    /// For each of them, whether a newline stands before it.
    newline: Vec<bool>,
    /// For each opening bracket (index in `sig`), the index of its closing one.
    closing: Vec<u32>,
    at: usize,
    raw: usize,
    b: GreenNodeBuilder<'static>,
    errors: Vec<Draft>,
    last_error_at: usize,
    depth: u16,
    gave_up: bool,
    limits: Limits,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, tokens: &'a [Token]) -> Self {
        let mut sig = Vec::new();
        let mut newline = Vec::new();
        let mut closing: Vec<u32> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut seen_newline = true;
        for (index, token) in tokens.iter().enumerate() {
            seen_newline |= token.kind == Kind::Newline;
            if token.kind.is_trivia() {
                continue;
            }
            let here = sig.len();
            closing.push(u32::MAX);
            match token.kind {
                Kind::LParen => open.push(here),
                Kind::RParen => {
                    if let Some(opener) = open.pop() {
                        closing[opener] = here as u32;
                    }
                }
                _ => {}
            }
            sig.push(index as u32);
            newline.push(std::mem::replace(&mut seen_newline, false));
        }
        Self {
            text,
            tokens,
            sig,
            newline,
            closing,
            at: 0,
            raw: 0,
            b: GreenNodeBuilder::new(),
            errors: Vec::new(),
            last_error_at: usize::MAX,
            depth: 0,
            gave_up: false,
            limits: Limits::default(),
        }
    }

    // ---- tokens ----

    fn nth(&self, n: usize) -> Kind {
        if self.gave_up {
            return Kind::Eof;
        }
        match self.sig.get(self.at + n) {
            Some(&raw) => self.tokens[raw as usize].kind,
            None => Kind::Eof,
        }
    }

    fn cur(&self) -> Kind {
        self.nth(0)
    }

    fn at(&self, kind: Kind) -> bool {
        self.cur() == kind
    }

    /// Whether a newline stands before the current token.
    fn fresh_line(&self) -> bool {
        self.newline.get(self.at).copied().unwrap_or(true)
    }

    fn span(&self) -> Span {
        match self.sig.get(self.at) {
            Some(&raw) if !self.gave_up => {
                let token = self.tokens[raw as usize];
                Span::new(token.start, token.end)
            }
            _ => {
                let end = self.last_end();
                Span::new(end, end)
            }
        }
    }

    /// Where the last consumed token ends.
    fn last_end(&self) -> u32 {
        match self.at.checked_sub(1).and_then(|at| self.sig.get(at)) {
            Some(&raw) => self.tokens[raw as usize].end,
            None => 0,
        }
    }

    fn since(&self, start: Span) -> Span {
        Span::new(start.start, self.last_end().max(start.start))
    }

    fn token_text(&self) -> &'a str {
        let span = self.span();
        &self.text[span.start as usize..span.end as usize]
    }

    fn trivia(&mut self) {
        let next = self
            .sig
            .get(self.at)
            .map_or(self.tokens.len(), |&raw| raw as usize);
        while self.raw < next {
            self.raw_token();
        }
    }

    fn raw_token(&mut self) {
        let token = self.tokens[self.raw];
        let text = &self.text[token.start as usize..token.end as usize];
        self.b.token(rowan::SyntaxKind(token.kind as u16), text);
        self.raw += 1;
    }

    fn bump(&mut self) {
        if self.cur() == Kind::Eof {
            return;
        }
        self.trivia();
        self.raw_token();
        self.at += 1;
    }

    fn eat(&mut self, kind: Kind) -> bool {
        let found = self.at(kind);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, kind: Kind) -> bool {
        let found = self.eat(kind);
        if !found {
            self.error_expected(kind.words());
        }
        found
    }

    fn start(&mut self, kind: Kind) {
        self.trivia();
        self.b.start_node(rowan::SyntaxKind(kind as u16));
    }

    fn finish(&mut self) {
        self.b.finish_node();
    }

    fn mark(&mut self) -> Checkpoint {
        self.trivia();
        self.b.checkpoint()
    }

    fn wrap(&mut self, mark: Checkpoint, kind: Kind) {
        self.b.start_node_at(mark, rowan::SyntaxKind(kind as u16));
        self.b.finish_node();
    }

    fn rest(&mut self) {
        self.trivia();
        if self.raw < self.tokens.len() {
            self.b.start_node(rowan::SyntaxKind(Kind::Error as u16));
            while self.raw < self.tokens.len() {
                self.raw_token();
            }
            self.b.finish_node();
        }
    }

    // ---- errors ----

    fn error_at(&mut self, code: &'static str, span: Span, message: String) {
        if !self.gave_up {
            self.errors.push(Draft::new(code, span, message));
        }
    }

    /// One complaint per place: what follows from the first says nothing new.
    fn error_expected(&mut self, what: &str) {
        if self.last_error_at == self.at || self.gave_up {
            return;
        }
        self.last_error_at = self.at;
        let found = match self.cur() {
            Kind::Eof => "the end of the declaration".to_owned(),
            Kind::Unknown => format!("`{}`, which means nothing here", self.token_text()),
            Kind::Lower | Kind::Upper | Kind::Int | Kind::Float | Kind::HoleName => {
                format!("`{}`", self.token_text())
            }
            kind => kind.words().to_owned(),
        };
        // A token that is missing at a line's end is missing there, not on the next line.
        let span = if self.fresh_line() && self.at > 0 {
            Span::new(self.last_end().saturating_sub(1), self.last_end())
        } else {
            self.span()
        };
        let code = if self.at(Kind::Unknown) {
            "V1003"
        } else {
            "V1001"
        };
        self.error_at(code, span, format!("expected {what}, found {found}"));
    }

    /// Skips tokens, in an error node, until `stop` says so. Takes at least none.
    fn skip_until(&mut self, stop: impl Fn(&Self) -> bool) {
        if self.cur() == Kind::Eof || stop(self) {
            return;
        }
        self.start(Kind::Error);
        while self.cur() != Kind::Eof && !stop(self) {
            self.bump();
        }
        self.finish();
    }

    fn too_deep(&mut self) {
        let span = self.span();
        self.error_at(
            "V1004",
            span,
            format!("this nests deeper than {MAX_HEIGHT} levels; name a part of it with `let`"),
        );
        self.gave_up = true;
    }

    fn descend(&mut self) -> bool {
        if self.depth >= MAX_HEIGHT {
            self.too_deep();
            return false;
        }
        self.depth += 1;
        true
    }

    fn with_limits<T>(&mut self, limits: Limits, run: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.limits, limits);
        let value = run(self);
        self.limits = before;
        value
    }

    fn free<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        self.with_limits(Limits::default(), run)
    }

    // ---- names ----

    fn name_here(&mut self) -> Name {
        let name = Name {
            text: Arc::from(self.token_text()),
            span: self.span(),
        };
        self.bump();
        name
    }

    fn missing(&self) -> Name {
        let span = self.span();
        Name {
            text: Arc::from(""),
            span: Span::new(span.start, span.start),
        }
    }

    fn lower(&mut self, what: &str) -> Name {
        match self.cur() {
            Kind::Lower => self.name_here(),
            Kind::Upper => self.miscased(what, "a small letter"),
            _ => {
                self.error_expected(what);
                self.missing()
            }
        }
    }

    fn upper(&mut self, what: &str) -> Name {
        match self.cur() {
            Kind::Upper => self.name_here(),
            Kind::Lower => self.miscased(what, "a capital letter"),
            _ => {
                self.error_expected(what);
                self.missing()
            }
        }
    }

    fn miscased(&mut self, what: &str, wanted: &str) -> Name {
        let name = self.name_here();
        self.error_at(
            "V1006",
            name.span,
            format!("{what} begins with {wanted}: `{}`", name.text),
        );
        name
    }

    // ---- declarations ----

    fn items(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        while self.cur() != Kind::Eof {
            if self.cur().begins_item() {
                items.extend(self.item());
            } else {
                self.error_expected("a declaration (`fn`, `type`, `error`, `import`, `test`)");
                self.bump_error();
                self.skip_until(|p| p.cur().begins_item() && p.fresh_line());
            }
        }
        items
    }

    fn bump_error(&mut self) {
        self.start(Kind::Error);
        self.bump();
        self.finish();
    }

    /// Emits the trivia before an item, save for the doc comments right above it, and gives
    /// their text.
    fn docs(&mut self) -> String {
        let next = self
            .sig
            .get(self.at)
            .map_or(self.tokens.len(), |&raw| raw as usize);
        let run = &self.tokens[self.raw..next];
        let first = run
            .iter()
            .position(|token| token.kind == Kind::Doc)
            .unwrap_or(run.len());
        let mut lines = Vec::new();
        for token in &run[first..] {
            if token.kind == Kind::Doc {
                let line = &self.text[token.start as usize + 3..token.end as usize];
                lines.push(line.strip_prefix(' ').unwrap_or(line).trim_end());
            }
        }
        let stop = self.raw + first;
        while self.raw < stop {
            self.raw_token();
        }
        lines.join("\n")
    }

    fn item(&mut self) -> Option<Item> {
        let doc = self.docs();
        let mark = self.b.checkpoint();
        let start = self.span();
        let mut tool = None;
        let mut attributed = false;
        while self.at(Kind::At) {
            attributed = true;
            tool = self.attribute().or(tool);
        }
        let kind = self.cur();
        if attributed && kind != Kind::FnKw {
            self.error_expected("`fn` after the attribute");
            self.wrap(mark, Kind::Error);
            return None;
        }
        let (node, item) = match kind {
            Kind::ImportKw => (Kind::Import, Item::Import(self.import(start))),
            Kind::TypeKw => (Kind::TypeDecl, Item::Type(self.type_decl(doc, start))),
            Kind::ErrorKw => (Kind::ErrorDecl, Item::Error(self.error_decl(doc, start))),
            Kind::FnKw => (Kind::Fn, Item::Fn(self.function(doc, tool, start))),
            Kind::TestKw => (Kind::Test, Item::Test(self.test(start))),
            _ => (Kind::Property, Item::Test(self.test(start))),
        };
        self.wrap(mark, node);
        if !(self.cur() == Kind::Eof || self.cur().begins_item() && self.fresh_line()) {
            self.error_expected("the next declaration on a line of its own");
            self.skip_until(|p| p.cur().begins_item() && p.fresh_line());
        }
        Some(item)
    }

    /// `@tool("description")`
    fn attribute(&mut self) -> Option<Name> {
        self.start(Kind::Attr);
        self.bump();
        let name = self.lower("the attribute's name");
        if !name.text.is_empty() && &*name.text != "tool" {
            self.error_at(
                "V1007",
                name.span,
                format!(
                    "no attribute is called `{}`; there is `@tool(\"…\")`",
                    name.text
                ),
            );
        }
        let mut text = None;
        if self.expect(Kind::LParen) {
            text = self.plain_string("the tool's description");
            self.expect(Kind::RParen);
        }
        self.finish();
        text
    }

    /// A string without interpolation, as a name.
    fn plain_string(&mut self, what: &str) -> Option<Name> {
        if !self.at(Kind::Quote) {
            self.error_expected(what);
            return None;
        }
        let start = self.span();
        let parts = self.string_parts();
        let span = self.since(start);
        match plain(&parts) {
            Some(text) => Some(Name {
                text: Arc::from(text),
                span,
            }),
            None => {
                self.error_at(
                    "V1008",
                    span,
                    format!("{what} is plain text, without `{{…}}`"),
                );
                None
            }
        }
    }

    fn import(&mut self, start: Span) -> Import {
        self.bump();
        let begin = self.span();
        let mut text = String::new();
        loop {
            match self.cur() {
                Kind::Lower | Kind::Upper => {
                    text.push_str(self.token_text());
                    self.bump();
                }
                // A folder may be called like a keyword.
                kind if (kind as u16) >= Kind::ImportKw as u16
                    && (kind as u16) <= Kind::FalseKw as u16
                    && !self.fresh_line() =>
                {
                    text.push_str(self.token_text());
                    self.bump();
                }
                _ => {
                    self.error_expected("the path of a module, like `std/http`");
                    break;
                }
            }
            if !self.at(Kind::Slash) {
                break;
            }
            text.push('/');
            self.bump();
        }
        let module = Name {
            text: Arc::from(text),
            span: self.since(begin),
        };
        let mut names = Vec::new();
        self.expect(Kind::Dot);
        self.start(Kind::ImportList);
        if self.expect(Kind::LBrace) {
            while matches!(self.cur(), Kind::Lower | Kind::Upper) && !self.item_ahead() {
                names.push(self.name_here());
                if !self.eat(Kind::Comma) {
                    break;
                }
            }
            self.expect(Kind::RBrace);
        }
        self.finish();
        Import {
            module,
            names,
            span: self.since(start),
        }
    }

    fn item_ahead(&self) -> bool {
        self.cur().begins_item() && self.fresh_line()
    }

    fn generics(&mut self) -> Vec<Name> {
        let mut names = Vec::new();
        if !self.at(Kind::Lt) {
            return names;
        }
        self.start(Kind::Generics);
        self.bump();
        while matches!(self.cur(), Kind::Upper | Kind::Lower) {
            names.push(self.name_here());
            if !self.eat(Kind::Comma) {
                break;
            }
        }
        self.expect(Kind::Gt);
        self.finish();
        names
    }

    fn type_decl(&mut self, doc: String, start: Span) -> TypeDecl {
        self.bump();
        let name = self.upper("a type's name");
        let generics = self.generics();
        if !self.at(Kind::Eq) && (self.cur() == Kind::Eof || self.item_ahead()) {
            return TypeDecl {
                doc,
                name,
                generics,
                body: TypeBody::Builtin,
                span: self.since(start),
            };
        }
        self.expect(Kind::Eq);
        let body = match self.cur() {
            Kind::LBrace => TypeBody::Record(self.fields()),
            Kind::Bar => TypeBody::Union(self.variants()),
            Kind::Upper if matches!(self.nth(1), Kind::Bar | Kind::LParen) => {
                TypeBody::Union(self.variants())
            }
            _ => TypeBody::Alias(self.ty()),
        };
        TypeDecl {
            doc,
            name,
            generics,
            body,
            span: self.since(start),
        }
    }

    fn fields(&mut self) -> Vec<Field> {
        self.start(Kind::Fields);
        self.expect(Kind::LBrace);
        let mut fields = Vec::new();
        while !matches!(self.cur(), Kind::RBrace | Kind::Eof) && !self.item_ahead() {
            if !matches!(self.cur(), Kind::Lower | Kind::Upper) {
                self.error_expected("a field like `name: Type`");
                self.skip_until(|p| {
                    matches!(p.cur(), Kind::Comma | Kind::RBrace)
                        || p.item_ahead()
                        || (p.at(Kind::Lower) && p.fresh_line())
                });
                self.eat(Kind::Comma);
                continue;
            }
            self.start(Kind::FieldDecl);
            let name = self.lower("a field's name");
            self.expect(Kind::Colon);
            let ty = self.free(Self::ty);
            self.finish();
            fields.push(Field { name, ty });
            if !self.eat(Kind::Comma) && !self.at(Kind::RBrace) {
                self.error_expected("`,` or `}`");
                if !(self.at(Kind::Lower) && self.fresh_line()) {
                    self.skip_until(|p| {
                        matches!(p.cur(), Kind::Comma | Kind::RBrace)
                            || p.item_ahead()
                            || (p.at(Kind::Lower) && p.fresh_line())
                    });
                    self.eat(Kind::Comma);
                }
            }
        }
        self.expect(Kind::RBrace);
        self.finish();
        fields
    }

    fn variants(&mut self) -> Vec<Variant> {
        self.start(Kind::Variants);
        self.eat(Kind::Bar);
        let mut variants = Vec::new();
        loop {
            self.start(Kind::Variant);
            let name = self.upper("a variant like `Circle(Float)`");
            let mut payload = Vec::new();
            if self.at(Kind::LParen) {
                self.bump();
                while !matches!(self.cur(), Kind::RParen | Kind::Eof) && !self.item_ahead() {
                    let before = self.at;
                    payload.push(self.free(Self::ty));
                    if !self.eat(Kind::Comma) || self.at == before {
                        break;
                    }
                }
                self.expect(Kind::RParen);
            }
            self.finish();
            variants.push(Variant { name, payload });
            if !self.eat(Kind::Bar) {
                break;
            }
        }
        self.finish();
        variants
    }

    fn error_decl(&mut self, doc: String, start: Span) -> ErrorDecl {
        self.bump();
        let name = self.upper("an error's name");
        let fields = if self.at(Kind::LBrace) {
            self.fields()
        } else {
            Vec::new()
        };
        ErrorDecl {
            doc,
            name,
            fields,
            span: self.since(start),
        }
    }

    fn function(&mut self, doc: String, tool: Option<Name>, start: Span) -> FnDecl {
        self.bump();
        let head = self.span();
        let mut name = match self.cur() {
            Kind::Upper => self.name_here(),
            _ => self.lower("a function's name"),
        };
        if self.at(Kind::Dot) {
            self.bump();
            let last = self.lower("a function's name");
            let span = name.span.to(last.span);
            name = Name {
                text: Arc::from(format!("{}.{}", name.text, last.text)),
                span,
            };
        } else if name.text.starts_with(|c: char| c.is_ascii_uppercase()) {
            self.error_at(
                "V1006",
                name.span,
                format!(
                    "a function's name begins with a small letter: `{}`",
                    name.text
                ),
            );
        }
        let generics = self.generics();
        let params = self.params();
        let ret = if self.at(Kind::Arrow) {
            self.bump();
            self.with_limits(
                Limits {
                    no_brace: true,
                    ..Limits::default()
                },
                Self::ty,
            )
        } else {
            if !matches!(self.cur(), Kind::LBrace | Kind::Bang) {
                self.error_expected("`->` and the type of the result");
            }
            let span = self.since(self.span());
            TypeExpr {
                span,
                kind: TypeKind::Name(
                    Name {
                        text: Arc::from("Unit"),
                        span,
                    },
                    Vec::new(),
                ),
            }
        };
        let row = self.row();
        let mut requires = Vec::new();
        let mut ensures = Vec::new();
        loop {
            let clause = self.cur();
            let (node, list) = match clause {
                Kind::RequiresKw => (Kind::Requires, &mut requires),
                Kind::EnsuresKw => (Kind::Ensures, &mut ensures),
                _ => break,
            };
            self.start(node);
            self.bump();
            let limits = Limits {
                no_brace: true,
                ..Limits::default()
            };
            let condition = self.with_limits(limits, |p| p.expr());
            list.push(condition);
            self.finish();
        }
        let head = self.since(head);
        let body = if self.at(Kind::LBrace) {
            Some(self.free(Self::block))
        } else {
            if !(self.cur() == Kind::Eof || self.item_ahead()) {
                self.error_expected("the function's body");
                self.skip_until(|p| p.at(Kind::LBrace) || p.item_ahead());
            }
            self.at(Kind::LBrace).then(|| self.free(Self::block))
        };
        FnDecl {
            doc,
            tool,
            name,
            generics,
            params,
            ret,
            row,
            requires,
            ensures,
            body,
            span: self.since(start),
            head,
        }
    }

    fn params(&mut self) -> Vec<Param> {
        self.start(Kind::Params);
        let mut params = Vec::new();
        if self.expect(Kind::LParen) {
            while !matches!(self.cur(), Kind::RParen | Kind::Eof | Kind::LBrace)
                && !self.item_ahead()
            {
                if !matches!(self.cur(), Kind::Lower | Kind::Upper) {
                    self.error_expected("a parameter like `name: Type`");
                    self.skip_until(|p| {
                        matches!(p.cur(), Kind::Comma | Kind::RParen | Kind::LBrace)
                            || p.item_ahead()
                    });
                    self.eat(Kind::Comma);
                    continue;
                }
                self.start(Kind::Param);
                let name = self.lower("a parameter's name");
                let ty = if self.expect(Kind::Colon) {
                    self.free(Self::ty)
                } else {
                    self.missing_type()
                };
                self.finish();
                params.push(Param { name, ty });
                if !self.eat(Kind::Comma) && !self.at(Kind::RParen) {
                    self.error_expected("`,` or `)`");
                    self.skip_until(|p| {
                        matches!(p.cur(), Kind::Comma | Kind::RParen | Kind::LBrace)
                            || p.item_ahead()
                    });
                    self.eat(Kind::Comma);
                }
            }
            self.expect(Kind::RParen);
        }
        self.finish();
        params
    }

    fn test(&mut self, start: Span) -> TestDecl {
        let property = self.at(Kind::PropertyKw);
        self.bump();
        let name = self
            .plain_string("the name in quotes")
            .unwrap_or_else(|| self.missing());
        let params = if property { self.params() } else { Vec::new() };
        let body = if self.at(Kind::LBrace) {
            self.free(Self::block)
        } else {
            self.error_expected("the body");
            self.nothing()
        };
        TestDecl {
            property,
            name,
            params,
            body,
            span: self.since(start),
        }
    }

    // ---- types ----

    fn missing_type(&self) -> TypeExpr {
        TypeExpr {
            span: self.missing().span,
            kind: TypeKind::Error,
        }
    }

    fn ty(&mut self) -> TypeExpr {
        if !self.descend() {
            return self.missing_type();
        }
        let mark = self.mark();
        let mut ty = self.ty_atom();
        while self.at(Kind::WhereKw) {
            if self.limits.in_angle {
                let span = self.span();
                self.error_at("V1009", span, "a refinement between `<` and `>` stands in parentheses: `List<(Int where value > 0)>`".to_owned());
            }
            self.bump();
            let limits = Limits {
                no_lambda: true,
                in_angle: false,
                ..self.limits
            };
            let first = self.at;
            let condition = self.with_limits(limits, |p| p.expr());
            let span = ty.span.to(condition.span);
            let text = self.words(first);
            ty = TypeExpr {
                span,
                kind: TypeKind::Where(Box::new(ty), Box::new(condition), Arc::from(text)),
            };
            self.wrap(mark, Kind::TyWhere);
        }
        self.depth -= 1;
        ty
    }

    /// The tokens from number `first` to here, with one blank where there was any white space.
    fn words(&self, first: usize) -> String {
        let mut out = String::new();
        let mut before = None;
        for raw in self.sig.get(first..self.at).unwrap_or_default() {
            let token = self.tokens[*raw as usize];
            if before.is_some_and(|end| end != token.start) {
                out.push(' ');
            }
            out.push_str(&self.text[token.start as usize..token.end as usize]);
            before = Some(token.end);
        }
        out
    }

    fn ty_atom(&mut self) -> TypeExpr {
        let start = self.span();
        match self.cur() {
            Kind::Upper => {
                self.start(Kind::TyName);
                let name = self.name_here();
                let mut args = Vec::new();
                if self.at(Kind::Lt) {
                    self.start(Kind::TyArgs);
                    self.bump();
                    let limits = Limits {
                        in_angle: true,
                        ..self.limits
                    };
                    while !matches!(self.cur(), Kind::Gt | Kind::Eof) {
                        let before = self.at;
                        args.push(self.with_limits(limits, Self::ty));
                        if !self.eat(Kind::Comma) || self.at == before {
                            break;
                        }
                    }
                    self.expect(Kind::Gt);
                    self.finish();
                }
                self.finish();
                TypeExpr {
                    span: self.since(start),
                    kind: TypeKind::Name(name, args),
                }
            }
            Kind::LParen => self.ty_paren(start),
            Kind::Lower => {
                self.start(Kind::TyName);
                let name = self.miscased("a type", "a capital letter");
                self.finish();
                TypeExpr {
                    span: name.span,
                    kind: TypeKind::Error,
                }
            }
            _ => {
                self.error_expected("a type");
                self.missing_type()
            }
        }
    }

    fn ty_paren(&mut self, start: Span) -> TypeExpr {
        let mark = self.mark();
        self.bump();
        let mut inner = Vec::new();
        while !matches!(self.cur(), Kind::RParen | Kind::Eof) {
            let before = self.at;
            inner.push(self.free(Self::ty));
            if !self.eat(Kind::Comma) || self.at == before {
                break;
            }
        }
        self.expect(Kind::RParen);
        if self.at(Kind::Arrow) {
            self.bump();
            let ret = self.ty();
            let row = self.row();
            self.wrap(mark, Kind::TyFn);
            return TypeExpr {
                span: self.since(start),
                kind: TypeKind::Fn(inner, Box::new(ret), row),
            };
        }
        self.wrap(mark, Kind::TyParen);
        let span = self.since(start);
        match inner.len() {
            0 => TypeExpr {
                span,
                kind: TypeKind::Name(
                    Name {
                        text: Arc::from("Unit"),
                        span,
                    },
                    Vec::new(),
                ),
            },
            1 => inner.remove(0),
            _ => {
                self.error_at(
                    "V1010",
                    span,
                    "there are no tuples; declare a record type and name its fields".to_owned(),
                );
                TypeExpr {
                    span,
                    kind: TypeKind::Error,
                }
            }
        }
    }

    fn row(&mut self) -> Option<RowExpr> {
        if !self.at(Kind::Bang) {
            return None;
        }
        let start = self.span();
        self.start(Kind::Row);
        self.bump();
        let mut labels = Vec::new();
        if self.at(Kind::LBrace) {
            self.start(Kind::RowList);
            self.bump();
            while !matches!(self.cur(), Kind::RBrace | Kind::Eof) {
                let before = self.at;
                labels.extend(self.label());
                if !self.eat(Kind::Comma) || self.at == before {
                    break;
                }
            }
            self.expect(Kind::RBrace);
            self.finish();
        } else {
            labels.extend(self.label());
        }
        self.finish();
        Some(RowExpr {
            labels,
            span: self.since(start),
        })
    }

    fn label(&mut self) -> Option<RowLabel> {
        match self.cur() {
            Kind::Lower => Some(RowLabel::Var(self.name_here())),
            Kind::Upper if self.token_text() == "Fail" => {
                self.bump();
                let mut names = Vec::new();
                self.expect(Kind::Lt);
                loop {
                    let name = self.upper("an error's name");
                    if name.text.is_empty() {
                        break;
                    }
                    names.push(name);
                    if !self.eat(Kind::Bar) {
                        break;
                    }
                }
                self.expect(Kind::Gt);
                Some(RowLabel::Fail(names))
            }
            Kind::Upper => Some(RowLabel::Effect(self.name_here())),
            _ => {
                self.error_expected("an effect, `Fail<…>` or an effect parameter");
                None
            }
        }
    }

    // ---- expressions ----

    fn node(&self, start: Span, height: u16, kind: ExprKind) -> Expr {
        Expr {
            span: self.since(start),
            height,
            kind,
        }
    }

    fn nothing(&self) -> Expr {
        Expr {
            span: self.missing().span,
            height: 0,
            kind: ExprKind::Error,
        }
    }

    fn expr(&mut self) -> Expr {
        self.binary(0)
    }

    /// Whether an expression of this height, here, is still allowed.
    fn fits(&mut self, height: u16) -> bool {
        if height + self.depth > MAX_HEIGHT {
            self.too_deep();
            return false;
        }
        true
    }

    fn binary(&mut self, min: u8) -> Expr {
        if !self.descend() {
            return self.nothing();
        }
        let start = self.span();
        let mark = self.mark();
        let mut left = self.unary();
        // Parentheses leave no trace in the program, so what this chain made is noted here.
        let mut chained = false;
        loop {
            let op = self.cur();
            let Some(power) = power(op) else { break };
            // A line that begins with `-` is a statement of its own.
            let stops = power < min
                || (op == Kind::Minus && self.fresh_line())
                || (self.limits.in_angle && matches!(op, Kind::Gt | Kind::GtEq));
            if stops {
                break;
            }
            let op_span = self.span();
            self.bump();
            let right = self.binary(power + 1);
            let height = left.height.max(right.height) + 1;
            if !self.fits(height) {
                break;
            }
            left = if op == Kind::PipeGt {
                self.pipe(start, left, right, height)
            } else {
                if power == 4 && std::mem::replace(&mut chained, true) {
                    self.error_at(
                        "V1011",
                        op_span,
                        "comparisons do not chain; join two with `&&`".to_owned(),
                    );
                }
                let kind = ExprKind::Binary(bin_op(op), Box::new(left), Box::new(right));
                self.node(start, height, kind)
            };
            self.wrap(mark, Kind::Binary);
        }
        self.depth -= 1;
        left
    }

    /// `x |> f(a)` is `f(x, a)`; `x |> f` is `f(x)`.
    fn pipe(&mut self, start: Span, left: Expr, right: Expr, height: u16) -> Expr {
        let kind = match right.kind {
            ExprKind::Call(callee, mut args) => {
                args.insert(0, left);
                ExprKind::Call(callee, args)
            }
            ExprKind::Name(_) | ExprKind::Ctor(_) | ExprKind::Field(..) => {
                ExprKind::Call(Box::new(right), vec![left])
            }
            ExprKind::Error => ExprKind::Error,
            _ => {
                self.error_at(
                    "V1012",
                    right.span,
                    "`|>` passes a value to a function: write `x |> f` or `x |> f(y)`".to_owned(),
                );
                ExprKind::Error
            }
        };
        self.node(start, height, kind)
    }

    fn unary(&mut self) -> Expr {
        let op = self.cur();
        if !matches!(op, Kind::Minus | Kind::Bang) {
            return self.postfix();
        }
        if !self.descend() {
            return self.nothing();
        }
        let start = self.span();
        self.start(Kind::Unary);
        self.bump();
        // The least Int has no positive twin, so the sign belongs to the number.
        let expr = if op == Kind::Minus && self.at(Kind::Int) {
            let value = self.int(true);
            self.start(Kind::Literal);
            self.bump();
            self.finish();
            self.node(start, 1, ExprKind::Int(value))
        } else {
            let inner = self.unary();
            let height = inner.height + 1;
            let inner = Box::new(inner);
            let kind = if op == Kind::Minus {
                ExprKind::Neg(inner)
            } else {
                ExprKind::Not(inner)
            };
            self.node(start, height, kind)
        };
        self.finish();
        self.depth -= 1;
        expr
    }

    fn postfix(&mut self) -> Expr {
        let start = self.span();
        let mark = self.mark();
        let mut expr = self.primary();
        loop {
            match self.cur() {
                Kind::LParen if !self.fresh_line() => {
                    let args = self.args();
                    let height = args
                        .iter()
                        .map(|a| a.height)
                        .max()
                        .unwrap_or(0)
                        .max(expr.height)
                        + 1;
                    if !self.fits(height) {
                        return expr;
                    }
                    self.wrap(mark, Kind::Call);
                    expr = self.node(start, height, ExprKind::Call(Box::new(expr), args));
                }
                Kind::Dot => {
                    self.bump();
                    let field = self.lower("a field's name");
                    let height = expr.height + 1;
                    if !self.fits(height) {
                        return expr;
                    }
                    self.wrap(mark, Kind::FieldGet);
                    expr = self.node(start, height, ExprKind::Field(Box::new(expr), field));
                }
                _ => return expr,
            }
        }
    }

    fn args(&mut self) -> Vec<Expr> {
        self.start(Kind::Args);
        self.bump();
        let args = self.free(|p| p.comma_list(Kind::RParen));
        self.expect(Kind::RParen);
        self.finish();
        args
    }

    fn comma_list(&mut self, close: Kind) -> Vec<Expr> {
        let mut list = Vec::new();
        while self.cur() != close && !self.list_ends() {
            let before = self.at;
            list.push(self.expr());
            if self.eat(Kind::Comma) {
                continue;
            }
            if self.cur() != close {
                self.error_expected(if close == Kind::RParen {
                    "`,` or `)`"
                } else {
                    "`,` or `]`"
                });
                self.skip_until(|p| {
                    p.at(Kind::Comma) || p.cur() == close || p.list_ends() || p.fresh_line()
                });
                if !self.eat(Kind::Comma) || self.at == before {
                    break;
                }
            }
        }
        list
    }

    fn list_ends(&self) -> bool {
        matches!(
            self.cur(),
            Kind::Eof | Kind::RBrace | Kind::InterpClose | Kind::StrEnd | Kind::LetKw
        ) || self.item_ahead()
    }

    fn int(&mut self, negative: bool) -> i64 {
        let digits: String = self.token_text().chars().filter(|c| *c != '_').collect();
        let signed = if negative {
            format!("-{digits}")
        } else {
            digits
        };
        signed.parse().unwrap_or_else(|_| {
            let span = self.span();
            self.error_at(
                "V1005",
                span,
                format!("`{signed}` does not fit into Int (64 bit)"),
            );
            0
        })
    }

    fn literal(&mut self, kind: ExprKind) -> Expr {
        let start = self.span();
        self.start(Kind::Literal);
        self.bump();
        self.finish();
        self.node(start, 1, kind)
    }

    fn primary(&mut self) -> Expr {
        let start = self.span();
        match self.cur() {
            Kind::Int => {
                let value = self.int(false);
                self.literal(ExprKind::Int(value))
            }
            Kind::Float => {
                let value = float(self.token_text());
                self.literal(ExprKind::Float(value))
            }
            Kind::TrueKw => self.literal(ExprKind::Bool(true)),
            Kind::FalseKw => self.literal(ExprKind::Bool(false)),
            Kind::Quote => {
                let parts = self.string_parts();
                let height = parts_height(&parts);
                self.node(start, height, ExprKind::Str(parts))
            }
            Kind::TagQuote => {
                let text = self.token_text();
                let tag = Name {
                    text: Arc::from(&text[..text.len() - 1]),
                    span: Span::new(start.start, start.end - 1),
                };
                let parts = self.string_parts();
                let height = parts_height(&parts);
                self.node(start, height, ExprKind::Tagged(tag, parts))
            }
            Kind::HoleName => {
                let text = self.token_text();
                let name = Name {
                    text: Arc::from(&text[1..]),
                    span: start,
                };
                self.start(Kind::Hole);
                self.bump();
                self.finish();
                self.node(start, 1, ExprKind::Hole(name))
            }
            Kind::Lower if self.nth(1) == Kind::Arrow && !self.limits.no_lambda => {
                self.lambda(start)
            }
            Kind::Lower => {
                self.start(Kind::Path);
                let name = self.name_here();
                self.finish();
                self.node(start, 1, ExprKind::Name(name))
            }
            Kind::Upper => self.upper_expr(start),
            Kind::LParen => {
                let close = self.closing[self.at];
                let arrow = close != u32::MAX
                    && self
                        .sig
                        .get(close as usize + 1)
                        .is_some_and(|&raw| self.tokens[raw as usize].kind == Kind::Arrow);
                if arrow && !self.limits.no_lambda {
                    self.lambda(start)
                } else {
                    self.paren(start)
                }
            }
            Kind::LBracket => {
                self.start(Kind::List);
                self.bump();
                let items = self.free(|p| p.comma_list(Kind::RBracket));
                self.expect(Kind::RBracket);
                self.finish();
                let height = items.iter().map(|e| e.height).max().unwrap_or(0) + 1;
                self.node(start, height, ExprKind::List(items))
            }
            Kind::LBrace => self.free(Self::block),
            Kind::IfKw => self.if_expr(start),
            Kind::MatchKw => self.arms_expr(start, Kind::Match),
            Kind::RecoverKw => self.arms_expr(start, Kind::Recover),
            Kind::FailKw => self.fail_expr(start),
            Kind::AssertKw => {
                self.start(Kind::Assert);
                self.bump();
                let inner = self.expr();
                self.finish();
                let height = inner.height + 1;
                self.node(start, height, ExprKind::Assert(Box::new(inner)))
            }
            _ => {
                self.error_expected("an expression");
                self.nothing()
            }
        }
    }

    fn paren(&mut self, start: Span) -> Expr {
        self.start(Kind::Paren);
        self.bump();
        if self.at(Kind::RParen) {
            self.bump();
            self.finish();
            return self.node(start, 1, ExprKind::Unit);
        }
        let inner = self.free(|p| p.expr());
        if self.at(Kind::Comma) {
            let span = self.span();
            self.error_at(
                "V1010",
                span,
                "there are no tuples; make a record or a list".to_owned(),
            );
            self.skip_until(|p| p.at(Kind::RParen) || p.list_ends() || p.fresh_line());
        }
        self.expect(Kind::RParen);
        self.finish();
        let height = inner.height + 1;
        self.node(start, height, inner.kind)
    }

    /// `List.map`, `Circle`, or `Page { … }`
    fn upper_expr(&mut self, start: Span) -> Expr {
        let mark = self.mark();
        let name = self.name_here();
        if self.at(Kind::Dot) && self.nth(1) == Kind::Lower {
            self.bump();
            let last = self.name_here();
            self.wrap(mark, Kind::Path);
            let name = Name {
                text: Arc::from(format!("{}.{}", name.text, last.text)),
                span: name.span.to(last.span),
            };
            return self.node(start, 1, ExprKind::Name(name));
        }
        if self.at(Kind::LBrace) && !self.fresh_line() && !self.limits.no_brace {
            let (spread, fields) = self.free(Self::record_fields);
            self.wrap(mark, Kind::Record);
            let height = fields
                .iter()
                .map(|f| f.value.height)
                .chain(spread.as_ref().map(|e| e.height))
                .max()
                .unwrap_or(0)
                + 1;
            return self.node(
                start,
                height,
                ExprKind::Record {
                    name,
                    spread: spread.map(Box::new),
                    fields,
                },
            );
        }
        self.wrap(mark, Kind::Path);
        self.node(start, 1, ExprKind::Ctor(name))
    }

    fn record_fields(&mut self) -> (Option<Expr>, Vec<FieldInit>) {
        self.start(Kind::RecordFields);
        self.bump();
        let mut spread = None;
        let mut fields = Vec::new();
        loop {
            match self.cur() {
                Kind::DotDot => {
                    self.start(Kind::Spread);
                    self.bump();
                    let value = self.expr();
                    self.finish();
                    if spread.is_some() || !fields.is_empty() {
                        self.error_at("V1013", value.span, "`..` comes first, and once".to_owned());
                    }
                    spread = Some(value);
                }
                Kind::Lower => {
                    self.start(Kind::FieldInit);
                    let name = self.name_here();
                    let value = if self.eat(Kind::Colon) {
                        self.expr()
                    } else {
                        Expr {
                            span: name.span,
                            height: 1,
                            kind: ExprKind::Name(name.clone()),
                        }
                    };
                    self.finish();
                    fields.push(FieldInit { name, value });
                }
                _ => break,
            }
            if !self.eat(Kind::Comma) {
                break;
            }
        }
        if !self.at(Kind::RBrace) {
            self.error_expected("a field like `name: value`, or `}`");
            self.skip_until(|p| p.at(Kind::RBrace) || p.list_ends() || p.fresh_line());
        }
        self.expect(Kind::RBrace);
        self.finish();
        (spread, fields)
    }

    fn lambda(&mut self, start: Span) -> Expr {
        self.start(Kind::Lambda);
        let mut params = Vec::new();
        self.start(Kind::LambdaParams);
        if self.at(Kind::LParen) {
            self.bump();
            while !matches!(self.cur(), Kind::RParen | Kind::Eof) {
                let before = self.at;
                self.start(Kind::LambdaParam);
                let name = self.lower("a parameter's name");
                let ty = self.eat(Kind::Colon).then(|| self.free(Self::ty));
                self.finish();
                params.push(LambdaParam { name, ty });
                if !self.eat(Kind::Comma) || self.at == before {
                    break;
                }
            }
            if !self.at(Kind::RParen) {
                self.error_expected("`,` or `)`");
                self.skip_until(|p| p.at(Kind::Arrow) || p.at(Kind::RParen) || p.list_ends());
            }
            self.expect(Kind::RParen);
        } else {
            params.push(LambdaParam {
                name: self.name_here(),
                ty: None,
            });
        }
        self.finish();
        self.expect(Kind::Arrow);
        let body = self.expr();
        self.finish();
        let height = body.height + 1;
        self.node(start, height, ExprKind::Lambda(params, Box::new(body)))
    }

    fn head(&mut self) -> Expr {
        let limits = Limits {
            no_brace: true,
            ..Limits::default()
        };
        self.with_limits(limits, |p| p.expr())
    }

    fn if_expr(&mut self, start: Span) -> Expr {
        if !self.descend() {
            return self.nothing();
        }
        self.start(Kind::If);
        self.bump();
        let condition = self.head();
        let then = self.needed_block();
        let mut height = condition.height.max(then.height);
        let mut otherwise = None;
        if self.at(Kind::ElseKw) {
            self.bump();
            let expr = if self.at(Kind::IfKw) {
                let start = self.span();
                self.if_expr(start)
            } else {
                self.needed_block()
            };
            height = height.max(expr.height);
            otherwise = Some(Box::new(expr));
        }
        self.finish();
        self.depth -= 1;
        self.node(
            start,
            height + 1,
            ExprKind::If(Box::new(condition), Box::new(then), otherwise),
        )
    }

    fn needed_block(&mut self) -> Expr {
        if self.at(Kind::LBrace) {
            return self.free(Self::block);
        }
        self.error_expected("`{`");
        self.nothing()
    }

    fn arms_expr(&mut self, start: Span, node: Kind) -> Expr {
        self.start(node);
        self.bump();
        let head = self.head();
        let arms = self.free(Self::arms);
        self.finish();
        let height = arms
            .iter()
            .map(|arm| {
                arm.body
                    .height
                    .max(arm.guard.as_ref().map_or(0, |g| g.height))
            })
            .max()
            .unwrap_or(0)
            .max(head.height)
            + 1;
        let head = Box::new(head);
        let kind = if node == Kind::Match {
            ExprKind::Match(head, arms)
        } else {
            ExprKind::Recover(head, arms)
        };
        self.node(start, height, kind)
    }

    fn arms(&mut self) -> Vec<Arm> {
        let mut arms = Vec::new();
        self.start(Kind::Arms);
        if self.expect(Kind::LBrace) {
            while !matches!(self.cur(), Kind::RBrace | Kind::Eof | Kind::InterpClose)
                && !self.item_ahead()
            {
                let before = self.at;
                self.start(Kind::Arm);
                let pattern = self.pattern();
                let guard = self.eat(Kind::IfKw).then(|| {
                    let limits = Limits {
                        no_lambda: true,
                        ..Limits::default()
                    };
                    self.with_limits(limits, |p| p.expr())
                });
                let body = if self.expect(Kind::Arrow) {
                    self.expr()
                } else {
                    self.nothing()
                };
                self.finish();
                arms.push(Arm {
                    pattern,
                    guard,
                    body,
                });
                self.eat(Kind::Comma);
                if self.at == before
                    || !(self.fresh_line() || self.at(Kind::RBrace) || self.tokens_before_comma())
                {
                    self.error_expected("the next arm on a line of its own, or `}`");
                    self.skip_until(|p| p.at(Kind::RBrace) || p.fresh_line() || p.item_ahead());
                    if self.at == before && !self.at(Kind::RBrace) {
                        self.bump_error();
                    }
                }
            }
            self.expect(Kind::RBrace);
        }
        self.finish();
        arms
    }

    fn tokens_before_comma(&self) -> bool {
        match self.at.checked_sub(1).and_then(|at| self.sig.get(at)) {
            Some(&raw) => self.tokens[raw as usize].kind == Kind::Comma,
            None => false,
        }
    }

    fn fail_expr(&mut self, start: Span) -> Expr {
        self.start(Kind::Fail);
        self.bump();
        let name = self.upper("an error's name");
        let mut fields = Vec::new();
        if self.at(Kind::LBrace) && !self.fresh_line() && !self.limits.no_brace {
            let (spread, found) = self.free(Self::record_fields);
            if let Some(spread) = spread {
                self.error_at(
                    "V1013",
                    spread.span,
                    "an error is made from its fields, without `..`".to_owned(),
                );
            }
            fields = found;
        }
        self.finish();
        let height = fields.iter().map(|f| f.value.height).max().unwrap_or(0) + 1;
        self.node(start, height, ExprKind::Fail(name, fields))
    }

    // ---- blocks ----

    fn block(&mut self) -> Expr {
        let start = self.span();
        if !self.descend() {
            return self.nothing();
        }
        self.start(Kind::Block);
        self.bump();
        let mut stmts = Vec::new();
        let mut height = 0;
        while !matches!(
            self.cur(),
            Kind::RBrace | Kind::Eof | Kind::InterpClose | Kind::StrEnd
        ) && !self.item_ahead()
        {
            let before = self.at;
            let stmt = self.stmt();
            height = height.max(match &stmt {
                Stmt::Let { value, .. } => value.height,
                Stmt::Expr(expr) => expr.height,
            });
            stmts.push(stmt);
            if self.at(Kind::RBrace) {
                break;
            }
            if self.at == before || !self.fresh_line() {
                self.error_expected("a new line");
                if self.at == before {
                    self.bump_error();
                }
                self.skip_until(|p| p.at(Kind::RBrace) || p.fresh_line() || p.item_ahead());
            }
        }
        if !self.eat(Kind::RBrace) && !self.gave_up {
            self.missing_brace(start);
        }
        self.finish();
        self.depth -= 1;
        self.node(start, height + 1, ExprKind::Block(stmts))
    }

    fn missing_brace(&mut self, open: Span) {
        if self.last_error_at == self.at {
            return;
        }
        self.last_error_at = self.at;
        let end = self.last_end();
        let draft = Draft::new(
            "V1001",
            Span::new(end.saturating_sub(1), end),
            "expected `}` to close this block".to_owned(),
        )
        .related(open, "the block begins here");
        self.errors.push(draft);
    }

    fn stmt(&mut self) -> Stmt {
        if !self.at(Kind::LetKw) {
            self.start(Kind::ExprStmt);
            let expr = self.expr();
            if self.at(Kind::Eq) {
                let span = self.span();
                self.error_at(
                    "V1014",
                    span,
                    "nothing is assigned to; bind a new name with `let`".to_owned(),
                );
                self.skip_until(|p| p.at(Kind::RBrace) || p.fresh_line());
            }
            self.finish();
            return Stmt::Expr(expr);
        }
        let start = self.span();
        self.start(Kind::Let);
        self.bump();
        let pattern = self.pattern();
        let ty = self.eat(Kind::Colon).then(|| self.ty());
        let value = if self.expect(Kind::Eq) {
            self.expr()
        } else {
            self.nothing()
        };
        self.finish();
        Stmt::Let {
            pattern,
            ty,
            value,
            span: self.since(start),
        }
    }

    // ---- strings ----

    fn string_parts(&mut self) -> Vec<Part> {
        let start = self.span();
        self.start(Kind::Str);
        self.bump();
        let mut parts = Vec::new();
        let mut text = String::new();
        loop {
            match self.cur() {
                Kind::StrText => {
                    text.push_str(self.token_text());
                    self.bump();
                }
                Kind::Escape => {
                    match unescape(self.token_text()) {
                        Some(c) => text.push(c),
                        None => {
                            let span = self.span();
                            let fix = Fix::replace(
                                "write a backslash",
                                span,
                                format!("\\{}", self.token_text()),
                            );
                            let message = format!(
                                "`{}` is no escape; there are `\\n \\t \\r \\\\ \\\" \\{{ \\}} \\u{{…}}`",
                                self.token_text()
                            );
                            self.errors
                                .push(Draft::new("V1008", span, message).fix(fix));
                        }
                    }
                    self.bump();
                }
                Kind::InterpOpen => {
                    if !text.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut text)));
                    }
                    self.start(Kind::Interp);
                    self.bump();
                    let expr = self.free(|p| p.expr());
                    if !self.at(Kind::InterpClose) {
                        self.error_expected("`}` after the expression in the string");
                        self.skip_until(|p| p.at(Kind::InterpClose) || p.fresh_line());
                    }
                    self.eat(Kind::InterpClose);
                    self.finish();
                    parts.push(Part::Expr(expr));
                }
                Kind::StrEnd => {
                    self.bump();
                    break;
                }
                _ => {
                    if !self.gave_up {
                        let end = self.last_end();
                        self.last_error_at = self.at;
                        let fix =
                            Fix::replace("close the string", Span::new(end, end), "\"".to_owned());
                        self.errors.push(
                            Draft::new(
                                "V1002",
                                Span::new(start.start, end),
                                "this string has no closing `\"` on its line".to_owned(),
                            )
                            .fix(fix),
                        );
                    }
                    break;
                }
            }
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        self.finish();
        parts
    }

    // ---- patterns ----

    fn pattern(&mut self) -> Pattern {
        let start = self.span();
        if !self.descend() {
            return Pattern {
                span: start,
                kind: PatternKind::Error,
            };
        }
        let kind = self.pattern_kind(start);
        self.depth -= 1;
        Pattern {
            span: self.since(start),
            kind,
        }
    }

    fn pattern_kind(&mut self, start: Span) -> PatternKind {
        match self.cur() {
            Kind::Lower if self.token_text() == "_" => {
                self.start(Kind::PatWild);
                self.bump();
                self.finish();
                PatternKind::Wild
            }
            Kind::Lower => {
                self.start(Kind::PatName);
                let name = self.name_here();
                self.finish();
                PatternKind::Bind(name)
            }
            Kind::Int | Kind::Float | Kind::Minus | Kind::TrueKw | Kind::FalseKw => {
                self.pattern_literal()
            }
            Kind::Quote => {
                self.start(Kind::PatLit);
                let text = self.plain_string("a pattern");
                self.finish();
                text.map_or(PatternKind::Error, |name| {
                    PatternKind::Str(name.text.to_string())
                })
            }
            Kind::Upper => self.pattern_upper(),
            Kind::LBracket => self.pattern_list(),
            Kind::LParen => {
                self.start(Kind::PatParen);
                self.bump();
                let kind = if self.at(Kind::RParen) {
                    PatternKind::Unit
                } else {
                    self.pattern().kind
                };
                self.expect(Kind::RParen);
                self.finish();
                kind
            }
            _ => {
                let _ = start;
                self.error_expected("a pattern");
                PatternKind::Error
            }
        }
    }

    fn pattern_literal(&mut self) -> PatternKind {
        self.start(Kind::PatLit);
        let negative = self.eat(Kind::Minus);
        let kind = match self.cur() {
            Kind::Int => PatternKind::Int(self.int(negative)),
            Kind::Float => {
                let value = float(self.token_text());
                PatternKind::Float(if negative { -value } else { value })
            }
            Kind::TrueKw if !negative => PatternKind::Bool(true),
            Kind::FalseKw if !negative => PatternKind::Bool(false),
            _ => {
                self.error_expected("a number");
                self.finish();
                return PatternKind::Error;
            }
        };
        self.bump();
        self.finish();
        kind
    }

    fn pattern_upper(&mut self) -> PatternKind {
        let mark = self.mark();
        let name = self.name_here();
        match self.cur() {
            Kind::LParen if !self.fresh_line() => {
                self.bump();
                let mut inner = Vec::new();
                while !matches!(self.cur(), Kind::RParen | Kind::Eof) {
                    let before = self.at;
                    inner.push(self.pattern());
                    if !self.eat(Kind::Comma) || self.at == before {
                        break;
                    }
                }
                self.expect(Kind::RParen);
                self.wrap(mark, Kind::PatCtor);
                PatternKind::Ctor(name, inner)
            }
            Kind::LBrace => {
                self.bump();
                let mut fields = Vec::new();
                while self.at(Kind::Lower) {
                    self.start(Kind::PatField);
                    let field = self.name_here();
                    let pattern = self.eat(Kind::Colon).then(|| self.pattern());
                    self.finish();
                    fields.push((field, pattern));
                    if !self.eat(Kind::Comma) {
                        break;
                    }
                }
                self.expect(Kind::RBrace);
                self.wrap(mark, Kind::PatRecord);
                PatternKind::Record(name, fields)
            }
            _ => {
                self.wrap(mark, Kind::PatCtor);
                PatternKind::Ctor(name, Vec::new())
            }
        }
    }

    fn pattern_list(&mut self) -> PatternKind {
        self.start(Kind::PatList);
        self.bump();
        let mut inner = Vec::new();
        let mut rest = None;
        while !matches!(self.cur(), Kind::RBracket | Kind::Eof) {
            let before = self.at;
            if self.at(Kind::DotDot) {
                self.start(Kind::PatRest);
                self.bump();
                let name = self.at(Kind::Lower).then(|| self.name_here());
                self.finish();
                rest = Some(name.filter(|name| &*name.text != "_"));
                break;
            }
            inner.push(self.pattern());
            if !self.eat(Kind::Comma) || self.at == before {
                break;
            }
        }
        self.expect(Kind::RBracket);
        self.finish();
        PatternKind::List(inner, rest)
    }
}

fn plain(parts: &[Part]) -> Option<String> {
    match parts {
        [] => Some(String::new()),
        [Part::Text(text)] => Some(text.clone()),
        _ => None,
    }
}

fn parts_height(parts: &[Part]) -> u16 {
    let height = |part: &Part| match part {
        Part::Text(_) => 0,
        Part::Expr(expr) => expr.height,
    };
    parts.iter().map(height).max().unwrap_or(0) + 1
}

fn float(text: &str) -> f64 {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    // The lexer's pattern is a subset of what `f64` reads.
    digits.parse().unwrap_or(0.0)
}

fn power(kind: Kind) -> Option<u8> {
    Some(match kind {
        Kind::PipeGt => 1,
        Kind::OrOr => 2,
        Kind::AndAnd => 3,
        Kind::EqEq | Kind::NotEq | Kind::Lt | Kind::LtEq | Kind::Gt | Kind::GtEq => 4,
        Kind::PlusPlus => 5,
        Kind::Plus | Kind::Minus => 6,
        Kind::Star | Kind::Slash | Kind::Percent => 7,
        _ => return None,
    })
}

fn bin_op(kind: Kind) -> BinOp {
    match kind {
        Kind::OrOr => BinOp::Or,
        Kind::AndAnd => BinOp::And,
        Kind::EqEq => BinOp::Eq,
        Kind::NotEq => BinOp::Ne,
        Kind::Lt => BinOp::Lt,
        Kind::LtEq => BinOp::Le,
        Kind::Gt => BinOp::Gt,
        Kind::GtEq => BinOp::Ge,
        Kind::PlusPlus => BinOp::Concat,
        Kind::Plus => BinOp::Add,
        Kind::Minus => BinOp::Sub,
        Kind::Star => BinOp::Mul,
        Kind::Slash => BinOp::Div,
        _ => BinOp::Rem,
    }
}
