//! Modules, the names they declare, and what a name means inside one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::ast::*;
use crate::syntax::{Parsed, chunk_starts, parse_chunk};
use crate::types::Sym;

/// The effects that a host can handle.
pub const EFFECTS: [&str; 4] = ["Clock", "Http", "Print", "Random"];

/// The module whose names are in scope everywhere.
pub const CORE: &str = "std/core";

/// One top-level declaration (with what surrounds it), parsed. Shared by all snapshots that hold
/// the same text.
#[derive(Debug)]
pub struct Chunk {
    /// The text.
    pub text: Arc<str>,
    /// Tree, declarations, syntax errors.
    pub parsed: Parsed,
    /// SHA-256 of the text.
    pub hash: [u8; 32],
    /// SHA-256 of what other chunks can see of it: everything but bodies.
    pub interface: [u8; 32],
}

impl Chunk {
    /// Parses `text`.
    pub fn new(text: Arc<str>) -> Self {
        let parsed = parse_chunk(&text);
        let hash = Sha256::digest(text.as_bytes()).into();
        let mut seen = Sha256::new();
        for item in &parsed.items {
            let (start, end) = match item {
                Item::Fn(f) => {
                    // Whether there is a body matters to callers, what it is does not.
                    seen.update([1, u8::from(f.body.is_some()), u8::from(f.tool.is_some())]);
                    (f.head.start, f.head.end)
                }
                Item::Type(t) => (t.span.start, t.span.end),
                Item::Error(e) => (e.span.start, e.span.end),
                Item::Import(i) => (i.span.start, i.span.end),
                Item::Test(t) => {
                    seen.update([2]);
                    (t.name.span.start, t.name.span.end)
                }
            };
            let text = text.get(start as usize..end as usize).unwrap_or("");
            seen.update((text.len() as u64).to_le_bytes());
            seen.update(text.as_bytes());
        }
        Self {
            text,
            parsed,
            hash,
            interface: seen.finalize().into(),
        }
    }
}

/// Chunks by their text, so that each text is parsed once.
#[derive(Debug, Default)]
pub struct ChunkCache {
    chunks: HashMap<Arc<str>, Arc<Chunk>>,
}

impl ChunkCache {
    /// More than this many chunks are not kept.
    const LIMIT: usize = 200_000;

    /// The chunk of `text`, from the cache if it is there.
    pub fn get(&mut self, text: &str) -> Arc<Chunk> {
        if let Some(chunk) = self.chunks.get(text) {
            return chunk.clone();
        }
        if self.chunks.len() >= Self::LIMIT {
            self.chunks.clear();
        }
        let text: Arc<str> = Arc::from(text);
        let chunk = Arc::new(Chunk::new(text.clone()));
        self.chunks.insert(text, chunk.clone());
        chunk
    }
}

/// Where a declaration is: its chunk and its place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DeclRef {
    pub chunk: usize,
    pub item: usize,
}

/// A file, parsed, with the names it declares.
#[derive(Debug)]
pub struct Module {
    /// `std/http`
    pub name: Arc<str>,
    /// The file's path.
    pub path: Arc<str>,
    /// The file's text.
    pub text: Arc<str>,
    /// Its chunks in order.
    pub chunks: Vec<Arc<Chunk>>,
    /// Where each begins in the file, in bytes.
    pub offsets: Vec<u32>,
    /// Types by name.
    pub types: BTreeMap<Arc<str>, DeclRef>,
    /// Errors by name.
    pub errors: BTreeMap<Arc<str>, DeclRef>,
    /// Functions by name.
    pub functions: BTreeMap<Arc<str>, DeclRef>,
    /// Constructors by name: the type's name and the variant's number.
    pub constructors: BTreeMap<Arc<str>, (Arc<str>, usize)>,
    /// Declared twice: the name, where it is declared again, and the first one's symbol.
    pub duplicates: Vec<(DeclRef, Name, &'static str)>,
    /// SHA-256 over the interfaces of the chunks.
    pub interface: [u8; 32],
    /// The modules it imports.
    pub imports: Vec<Arc<str>>,
}

/// The module's name for a path: the path without its ending.
pub fn module_name(path: &str) -> &str {
    path.strip_suffix(".sakura").unwrap_or(path)
}

impl Module {
    /// Cuts, parses and indexes a file.
    pub fn new(path: &str, text: Arc<str>, cache: &mut ChunkCache) -> Self {
        let offsets = chunk_starts(&text);
        let ends = offsets.iter().skip(1).copied().chain([text.len() as u32]);
        let chunks: Vec<Arc<Chunk>> = offsets
            .iter()
            .zip(ends)
            .map(|(start, end)| cache.get(&text[*start as usize..end as usize]))
            .collect();
        let mut module = Self {
            name: Arc::from(module_name(path)),
            path: Arc::from(path),
            text,
            chunks,
            offsets,
            types: BTreeMap::new(),
            errors: BTreeMap::new(),
            functions: BTreeMap::new(),
            constructors: BTreeMap::new(),
            duplicates: Vec::new(),
            interface: [0; 32],
            imports: Vec::new(),
        };
        module.index();
        module
    }

    fn index(&mut self) {
        let mut seen = Sha256::new();
        seen.update(self.name.as_bytes());
        let mut tests: BTreeMap<Arc<str>, ()> = BTreeMap::new();
        for (chunk, parsed) in self.chunks.iter().enumerate() {
            seen.update(parsed.interface);
            for (item, decl) in parsed.parsed.items.iter().enumerate() {
                let here = DeclRef { chunk, item };
                let duplicate = match decl {
                    Item::Import(import) => {
                        self.imports.push(import.module.text.clone());
                        None
                    }
                    Item::Type(decl) => {
                        if let TypeBody::Union(variants) = &decl.body {
                            for (number, variant) in variants.iter().enumerate() {
                                let entry = (decl.name.text.clone(), number);
                                if variant.name.text.is_empty() {
                                    continue;
                                }
                                if self.constructors.contains_key(&variant.name.text) {
                                    self.duplicates.push((
                                        here,
                                        variant.name.clone(),
                                        "constructor",
                                    ));
                                } else {
                                    self.constructors.insert(variant.name.text.clone(), entry);
                                }
                            }
                        }
                        declare(&mut self.types, &decl.name, here, "type")
                    }
                    Item::Error(decl) => declare(&mut self.errors, &decl.name, here, "error"),
                    Item::Fn(decl) => declare(&mut self.functions, &decl.name, here, "function"),
                    Item::Test(decl) => {
                        let again = tests.insert(decl.name.text.clone(), ()).is_some();
                        again.then(|| (here, decl.name.clone(), "test"))
                    }
                };
                self.duplicates.extend(duplicate);
            }
        }
        self.interface = seen.finalize().into();
    }

    /// The declaration at `at`.
    pub fn item(&self, at: DeclRef) -> &Item {
        &self.chunks[at.chunk].parsed.items[at.item]
    }

    /// Where the declaration of `name` stands in the file: the chunk's number and the name.
    pub fn declaration(&self, name: &str) -> Option<(DeclRef, &Name)> {
        let at = *self
            .functions
            .get(name)
            .or_else(|| self.types.get(name))
            .or_else(|| self.errors.get(name))
            .or_else(|| self.types.get(&self.constructors.get(name)?.0))?;
        let found = match self.item(at) {
            Item::Fn(f) => &f.name,
            Item::Type(t) => match &t.body {
                TypeBody::Union(variants) if &*t.name.text != name => variants
                    .iter()
                    .map(|v| &v.name)
                    .find(|n| &*n.text == name)
                    .unwrap_or(&t.name),
                _ => &t.name,
            },
            Item::Error(e) => &e.name,
            Item::Test(t) => &t.name,
            Item::Import(i) => &i.module,
        };
        Some((at, found))
    }
}

fn declare(
    names: &mut BTreeMap<Arc<str>, DeclRef>,
    name: &Name,
    here: DeclRef,
    kind: &'static str,
) -> Option<(DeclRef, Name, &'static str)> {
    if name.text.is_empty() {
        return None;
    }
    if names.contains_key(&name.text) {
        return Some((here, name.clone(), kind));
    }
    names.insert(name.text.clone(), here);
    None
}

/// All modules of a snapshot, the standard library included.
#[derive(Debug, Clone, Default)]
pub struct Modules {
    /// By name.
    pub by_name: BTreeMap<Arc<str>, Arc<Module>>,
}

impl Modules {
    /// The module that declares `sym`, and the name in it.
    pub fn split<'a, 's>(&'a self, sym: &'s str) -> Option<(&'a Arc<Module>, &'s str)> {
        let (module, name) = crate::types::split(sym);
        Some((self.by_name.get(module)?, name))
    }

    /// The function behind a symbol.
    pub fn function(&self, sym: &str) -> Option<(&Arc<Module>, DeclRef, &FnDecl)> {
        let (module, name) = self.split(sym)?;
        let at = *module.functions.get(name)?;
        match module.item(at) {
            Item::Fn(decl) => Some((module, at, decl)),
            _ => None,
        }
    }

    /// The type behind a symbol.
    pub fn type_decl(&self, sym: &str) -> Option<(&Arc<Module>, &TypeDecl)> {
        let (module, name) = self.split(sym)?;
        match module.item(*module.types.get(name)?) {
            Item::Type(decl) => Some((module, decl)),
            _ => None,
        }
    }

    /// The error behind a symbol.
    pub fn error_decl(&self, sym: &str) -> Option<(&Arc<Module>, &ErrorDecl)> {
        let (module, name) = self.split(sym)?;
        match module.item(*module.errors.get(name)?) {
            Item::Error(decl) => Some((module, decl)),
            _ => None,
        }
    }

    /// The names of the modules that `module` can reach by imports, its own included.
    pub fn reachable(&self, module: &Module) -> BTreeSet<Arc<str>> {
        let mut reached = BTreeSet::from([module.name.clone()]);
        let mut todo: Vec<&Module> = vec![module];
        while let Some(next) = todo.pop() {
            for import in &next.imports {
                if reached.insert(import.clone()) {
                    todo.extend(self.by_name.get(import).map(|m| &**m));
                }
            }
        }
        reached
    }

    /// SHA-256 over the interfaces of `module` and of all that it can reach by imports.
    pub fn reach(&self, module: &Module) -> [u8; 32] {
        let mut reached: BTreeMap<&str, Option<[u8; 32]>> = BTreeMap::new();
        let mut todo: Vec<&Module> = vec![module];
        reached.insert(&module.name, Some(module.interface));
        while let Some(next) = todo.pop() {
            for import in &next.imports {
                if reached.contains_key(&**import) {
                    continue;
                }
                let found = self.by_name.get(import);
                reached.insert(import, found.map(|m| m.interface));
                todo.extend(found.map(|m| &**m));
            }
        }
        let mut hash = Sha256::new();
        // "No module is called so" suggests a name from all there are.
        let missing = reached.values().any(Option::is_none);
        if missing {
            for name in self.by_name.keys() {
                hash.update(name.as_bytes());
                hash.update([0]);
            }
        }
        hash.update(module.name.as_bytes());
        for (name, interface) in reached {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
            hash.update(interface.unwrap_or_default());
        }
        hash.finalize().into()
    }
}

/// What the names of one kind mean.
pub type Table<T> = HashMap<Arc<str>, T>;

/// What names mean inside a module: its own, what it imports; the prelude is asked last.
#[derive(Debug, Default)]
pub struct Scope {
    /// The module.
    pub module: Arc<str>,
    /// Types.
    pub types: Table<Sym>,
    /// Errors.
    pub errors: Table<Sym>,
    /// Functions.
    pub functions: Table<Sym>,
    /// Constructors: the type's symbol and the variant's number.
    pub constructors: Table<(Sym, usize)>,
    /// The scope of the prelude.
    pub prelude: Option<Arc<Scope>>,
    /// Import items that name nothing, or clash: said where the import stands.
    pub clashes: Vec<(DeclRef, Name)>,
}

impl Scope {
    /// The scope of `module`.
    pub fn new(module: &Module, modules: &Modules, prelude: Option<Arc<Scope>>) -> Self {
        let mut scope = Self {
            module: module.name.clone(),
            prelude,
            ..Self::default()
        };
        for name in module.types.keys() {
            scope.types.insert(name.clone(), full(&module.name, name));
        }
        for name in module.errors.keys() {
            scope.errors.insert(name.clone(), full(&module.name, name));
        }
        for name in module.functions.keys() {
            scope
                .functions
                .insert(name.clone(), full(&module.name, name));
        }
        for (name, (ty, number)) in &module.constructors {
            scope
                .constructors
                .insert(name.clone(), (full(&module.name, ty), *number));
        }
        for (chunk, parsed) in module.chunks.iter().enumerate() {
            for (item, decl) in parsed.parsed.items.iter().enumerate() {
                let Item::Import(import) = decl else { continue };
                let Some(from) = modules.by_name.get(&import.module.text) else {
                    continue;
                };
                for name in &import.names {
                    if !scope.import(from, &name.text) {
                        scope.clashes.push((DeclRef { chunk, item }, name.clone()));
                    }
                }
            }
        }
        scope
    }

    /// Brings in everything of `from` that is called `name` or begins with `name.`. False when
    /// something else is already called so.
    fn import(&mut self, from: &Module, name: &str) -> bool {
        let mut free = true;
        if let Some((key, _)) = from.types.get_key_value(name) {
            let sym = full(&from.name, key);
            free &= put(&mut self.types, key, sym.clone());
            if let Item::Type(TypeDecl {
                body: TypeBody::Union(variants),
                ..
            }) = from.item(from.types[key])
            {
                for (number, variant) in variants.iter().enumerate() {
                    free &= put(
                        &mut self.constructors,
                        &variant.name.text,
                        (sym.clone(), number),
                    );
                }
            }
        }
        if let Some((key, _)) = from.errors.get_key_value(name) {
            free &= put(&mut self.errors, key, full(&from.name, key));
        }
        for key in members(from, name) {
            free &= put(&mut self.functions, &key, full(&from.name, &key));
        }
        free
    }

    fn find<T: Clone>(&self, table: impl Fn(&Scope) -> &Table<T>, name: &str) -> Option<T> {
        let found = table(self).get(name).cloned();
        found.or_else(|| {
            self.prelude
                .as_ref()
                .and_then(|p| table(p).get(name).cloned())
        })
    }

    /// The type called `name`.
    pub fn ty(&self, name: &str) -> Option<Sym> {
        self.find(|s| &s.types, name)
    }

    /// The error called `name`.
    pub fn error(&self, name: &str) -> Option<Sym> {
        self.find(|s| &s.errors, name)
    }

    /// The function called `name`.
    pub fn function(&self, name: &str) -> Option<Sym> {
        self.find(|s| &s.functions, name)
    }

    /// The constructor called `name`.
    pub fn constructor(&self, name: &str) -> Option<(Sym, usize)> {
        self.find(|s| &s.constructors, name)
    }

    /// All names in a table and in the prelude's.
    pub fn names<'a, T: 'a>(&'a self, table: impl Fn(&'a Scope) -> &'a Table<T>) -> Vec<&'a str> {
        let own = table(self).keys();
        let core = self.prelude.as_ref().map(|p| table(p).keys());
        own.chain(core.into_iter().flatten())
            .map(|name| &**name)
            .collect()
    }
}

fn put<T: PartialEq>(table: &mut Table<T>, name: &Arc<str>, value: T) -> bool {
    match table.get(name) {
        Some(old) => *old == value,
        None => {
            table.insert(name.clone(), value);
            true
        }
    }
}

/// The functions that importing `name` brings in.
pub fn members(module: &Module, name: &str) -> Vec<Arc<str>> {
    let begins = |key: &Arc<str>| {
        &**key == name
            || key
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('.'))
    };
    module
        .functions
        .keys()
        .filter(|key| begins(key))
        .cloned()
        .collect()
}

/// The symbol of a name in a module.
pub fn full(module: &str, name: &str) -> Sym {
    Arc::from(format!("{module}::{name}"))
}
