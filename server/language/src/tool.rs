//! Functions marked `@tool`: their JSON Schema, arguments from JSON, results to JSON.
//!
//! How types look as JSON: Int and Float are numbers, String and Url strings, Unit null, List an
//! array, Map<String, _> an object, Option its value or null, a record an object, a union of bare
//! names a string, any other union `{"tag": "Circle", "values": [1.0]}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map as JsonMap, Number, Value as Json, json};

use crate::ast::FnDecl;
use crate::compile::{Entry, Program, compile};
use crate::env::{Env, Shape, con_of};
use crate::host::{Host, Stop};
use crate::machine::{Budget, Machine};
use crate::names::Module;
use crate::reflect::{Bounds, Conditions, Form, Opened, bounds, layout};
use crate::types::{Sym, Ty, TyKind, short};
use crate::value::{Map, Value};

/// Why values of a type cannot be given or taken as JSON, if they cannot.
pub fn not_exportable(env: &Env, ty: &Ty) -> Option<&'static str> {
    let mut todo = vec![ty.clone()];
    let mut seen: Vec<Sym> = Vec::new();
    while let Some(ty) = todo.pop() {
        match &*ty {
            TyKind::Fn { .. } => return Some("functions have no JSON form"),
            TyKind::Param(_) => return Some("a type parameter has no JSON form"),
            TyKind::TooDeep => return Some("it nests too deeply"),
            _ => {}
        }
        let Some((sym, args)) = con_of(&ty) else {
            continue;
        };
        match (&**sym, args) {
            ("std/core::Map", [key, _]) if *key != env.core.string => {
                return Some("the keys of a JSON object are Strings");
            }
            ("std/core::Option", [inner]) if nullable(env, inner) => {
                return Some("`null` would mean two things");
            }
            _ => {}
        }
        todo.extend(args.iter().cloned());
        if seen.contains(sym) || sym.starts_with("std/core::") && &**sym != "std/core::Entry" {
            continue;
        }
        seen.push(sym.clone());
        let Some(info) = env.info(sym) else { continue };
        let parts: Vec<Ty> = match &info.shape {
            Shape::Record(fields) => fields.iter().map(|(_, ty)| ty.clone()).collect(),
            Shape::Union(variants) => variants
                .iter()
                .flat_map(|(_, payload)| payload.iter().cloned())
                .collect(),
            _ => continue,
        };
        // The parameters of a generic type are looked at as its arguments.
        let concrete = |ty: &Ty| !matches!(&**ty, TyKind::Param(_));
        for part in parts {
            if let Some((inner, _)) = con_of(&part)
                && !info.generics.is_empty()
                && inner == sym
            {
                return Some("a generic type that holds itself has no schema");
            }
            if concrete(&part) && !mentions_param(&part) {
                todo.push(part);
            }
        }
    }
    None
}

fn mentions_param(ty: &Ty) -> bool {
    match &**ty {
        TyKind::Param(_) => true,
        TyKind::Con { args, .. } => args.iter().any(mentions_param),
        _ => false,
    }
}

fn nullable(env: &Env, ty: &Ty) -> bool {
    *ty == env.core.unit
        || con_of(ty).is_some_and(|(sym, _)| *sym == env.core.option)
        || matches!(&**ty, TyKind::Param(_))
}

/// A function that can be called with JSON.
pub struct Tool<'e> {
    env: &'e Env,
    sym: Sym,
    decl: &'e FnDecl,
    params: Vec<(Arc<str>, Form<'e>)>,
    ret: Form<'e>,
}

/// What calling a tool gave.
#[derive(Debug)]
pub enum Called {
    /// The result.
    Value(Json),
    /// The arguments do not fit; for the caller.
    Invalid(String),
    /// The function failed: the error's tag and its fields.
    Failure {
        /// The error's name.
        tag: String,
        /// Its fields.
        payload: Json,
    },
    /// The function could not go on.
    Stopped(Stop),
    /// The tool cannot be run as it is.
    Broken(String),
}

impl<'e> Tool<'e> {
    /// The tool of a function marked `@tool`; None for others.
    pub fn new(env: &'e Env, sym: &Sym) -> Option<Self> {
        let (module, _, decl) = env.modules.function(sym)?;
        decl.tool.as_ref()?;
        let scope = env.scope(&module.name);
        let params = decl
            .params
            .iter()
            .map(|p| (p.name.text.clone(), Form::new(&p.ty, scope.clone())))
            .collect();
        Some(Self {
            env,
            sym: sym.clone(),
            decl,
            params,
            ret: Form::new(&decl.ret, scope),
        })
    }

    /// Its description: what `@tool` says and what the doc comment adds.
    pub fn description(&self) -> String {
        let text = self.decl.tool.as_ref().map_or("", |t| &t.text);
        if self.decl.doc.is_empty() {
            text.to_owned()
        } else {
            format!("{text}\n\n{}", self.decl.doc)
        }
    }

    /// The JSON Schema of its arguments.
    pub fn input_schema(&self) -> Json {
        let mut schemas = Schemas {
            env: self.env,
            definitions: BTreeMap::new(),
        };
        let mut properties = JsonMap::new();
        let mut required = Vec::new();
        for (name, form) in &self.params {
            properties.insert(name.to_string(), schemas.of(form, 0));
            if !matches!(base(form, self.env), Opened::Option(_)) {
                required.push(Json::from(&**name));
            }
        }
        schemas.finish(json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }))
    }

    /// The JSON Schema of its result: an object that holds it as `result`.
    pub fn output_schema(&self) -> Json {
        let mut schemas = Schemas {
            env: self.env,
            definitions: BTreeMap::new(),
        };
        let result = schemas.of(&self.ret, 0);
        schemas.finish(json!({
            "type": "object",
            "properties": {"result": result},
            "required": ["result"],
        }))
    }

    /// Checks the arguments and calls the function. What it may do is up to `host`.
    pub fn call(
        &self,
        arguments: &JsonMap<String, Json>,
        host: &mut dyn Host,
        budget: Budget,
    ) -> Called {
        let mut conditions = Conditions::default();
        for (name, form) in &self.params {
            conditions.collect(self.env, form, &format!("`{name}`"));
        }
        let mut entries = vec![Entry::Function(self.sym.clone())];
        entries.append(&mut conditions.entries);
        let program = match compile(self.env, &entries) {
            Ok(program) => program,
            Err(message) => return Called::Broken(message),
        };
        let mut machine = Machine::new(&program, host, budget);
        if let Some(name) = arguments
            .keys()
            .find(|name| !self.params.iter().any(|(p, _)| **p == ***name))
        {
            let known: Vec<String> = self.params.iter().map(|(p, _)| format!("`{p}`")).collect();
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            return Called::Invalid(format!("there is no argument `{name}`; there are: {known}"));
        }
        let mut values = Vec::new();
        for (name, form) in &self.params {
            let given = arguments.get(&**name);
            let given = match (given, base(form, self.env)) {
                (Some(given), _) => given,
                (None, Opened::Option(_)) => &Json::Null,
                (None, _) => return Called::Invalid(format!("the argument `{name}` is missing")),
            };
            let mut reader = Reader {
                env: self.env,
                program: &program,
                conditions: &conditions,
                machine: &mut machine,
            };
            match reader.read(form, given, name, 0) {
                Ok(value) => values.push(value),
                Err(message) => return Called::Invalid(message),
            }
        }
        // `requires` that the arguments break are the caller's mistake, too: the fault says which.
        match machine.call(0, values) {
            Ok(value) => Called::Value(write(self.env, &value, 0)),
            Err(Stop::Failure(value, _)) => {
                let (tag, payload) = failure(self.env, &value);
                Called::Failure { tag, payload }
            }
            Err(stop) => Called::Stopped(stop),
        }
    }
}

/// The tag and the fields of a failure.
pub fn failure(env: &Env, value: &Value) -> (String, Json) {
    let Value::Data(data) = value else {
        return (String::new(), Json::Null);
    };
    (
        data.layout.name.to_string(),
        fields(env, &data.layout.fields, &data.fields, 0),
    )
}

/// The tools of a module, by function name.
pub fn tools(module: &Module) -> Vec<Arc<str>> {
    let is_tool = |name: &&Arc<str>| matches!(module.item(module.functions[*name]), crate::ast::Item::Fn(decl) if decl.tool.is_some());
    module.functions.keys().filter(is_tool).cloned().collect()
}

/// What a form is under its refinements.
fn base<'e>(form: &Form<'e>, env: &'e Env) -> Opened<'e> {
    let mut opened = form.open(env);
    while let Opened::Where { base, .. } = opened {
        opened = base.open(env);
    }
    opened
}

// ---- schemas ----

struct Schemas<'e> {
    env: &'e Env,
    definitions: BTreeMap<String, Json>,
}

/// How deep generic types are written out; not_exportable rules out endless ones.
const SCHEMA_DEPTH: u32 = 40;

impl<'e> Schemas<'e> {
    fn finish(self, mut schema: Json) -> Json {
        if let (Json::Object(members), false) = (&mut schema, self.definitions.is_empty()) {
            members.insert(
                "$defs".to_owned(),
                Json::Object(self.definitions.into_iter().collect()),
            );
        }
        schema
    }

    fn of(&mut self, form: &Form<'e>, depth: u32) -> Json {
        if depth > SCHEMA_DEPTH {
            return json!({});
        }
        match form.open(self.env) {
            Opened::Where { base, condition, text, scope } => {
                let mut schema = self.of(&base, depth + 1);
                let (value, length, whole) = bounds(condition, &scope);
                refine(&mut schema, value, length);
                if !whole && let Json::Object(members) = &mut schema {
                    let old = members.get("description").and_then(Json::as_str).map(|d| format!("{d}; ")).unwrap_or_default();
                    members.insert("description".to_owned(), Json::from(format!("{old}must satisfy `{text}`")));
                }
                schema
            }
            Opened::Int => json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX}),
            Opened::Float => json!({"type": "number"}),
            Opened::Bool => json!({"type": "boolean"}),
            Opened::String => json!({"type": "string"}),
            Opened::Url => json!({"type": "string", "format": "uri"}),
            Opened::Unit => json!({"type": "null"}),
            Opened::List(item) => json!({"type": "array", "items": self.of(&item, depth + 1)}),
            Opened::Map(_, item) => json!({"type": "object", "additionalProperties": self.of(&item, depth + 1)}),
            Opened::Option(item) => json!({"anyOf": [self.of(&item, depth + 1), {"type": "null"}]}),
            Opened::Record { sym, fields } => self.named(form, &sym, |schemas| {
                let mut properties = JsonMap::new();
                let mut required = Vec::new();
                for (name, field) in &fields {
                    properties.insert(name.to_string(), schemas.of(field, depth + 1));
                    if !matches!(base(field, schemas.env), Opened::Option(_)) {
                        required.push(Json::from(&**name));
                    }
                }
                json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
            }),
            Opened::Union { sym, variants } => self.named(form, &sym, |schemas| {
                if variants.iter().all(|(_, payload)| payload.is_empty()) {
                    let names: Vec<&str> = variants.iter().map(|(name, _)| &**name).collect();
                    return json!({"type": "string", "enum": names});
                }
                let one = |(name, payload): &(Arc<str>, Vec<Form<'e>>)| {
                    let items: Vec<Json> = payload.iter().map(|f| schemas.of(f, depth + 1)).collect();
                    let size = items.len();
                    let mut properties = json!({"tag": {"const": &**name}});
                    let mut required = vec!["tag"];
                    if size > 0 {
                        required.push("values");
                        properties["values"] = json!({"type": "array", "prefixItems": items, "minItems": size, "maxItems": size});
                    }
                    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
                };
                json!({"anyOf": variants.iter().map(one).collect::<Vec<_>>()})
            }),
            Opened::Other => json!({}),
        }
    }

    /// A plain named type goes to `$defs`, so that it may hold itself.
    fn named(&mut self, form: &Form<'e>, sym: &Sym, make: impl FnOnce(&mut Self) -> Json) -> Json {
        if !form.is_plain() {
            return make(self);
        }
        let name = short(sym);
        // Two modules may each have a type of that name.
        let clash = self
            .env
            .modules
            .by_name
            .values()
            .filter(|m| m.types.contains_key(name))
            .count()
            > 1;
        let key = if clash {
            sym.replace("::", ".").replace('/', ".")
        } else {
            name.to_owned()
        };
        if !self.definitions.contains_key(&key) {
            self.definitions.insert(key.clone(), Json::Null);
            let schema = make(self);
            self.definitions.insert(key.clone(), schema);
        }
        json!({"$ref": format!("#/$defs/{key}")})
    }
}

fn refine(schema: &mut Json, value: Bounds, length: Bounds) {
    let kind = schema
        .get("type")
        .and_then(Json::as_str)
        .unwrap_or("")
        .to_owned();
    let Json::Object(members) = schema else {
        return;
    };
    let whole = kind == "integer";
    let number = |x: f64| -> Json {
        if whole && x.fract() == 0.0 && x.abs() < 9e15 {
            Json::from(x as i64)
        } else {
            json!(x)
        }
    };
    if kind == "integer" || kind == "number" {
        if let Some(low) = value.low {
            let (name, low) = if value.low_open && !whole {
                ("exclusiveMinimum", low)
            } else if value.low_open {
                ("minimum", low.floor() + 1.0)
            } else {
                ("minimum", low)
            };
            members.insert(name.to_owned(), number(low));
        }
        if let Some(high) = value.high {
            let (name, high) = if value.high_open && !whole {
                ("exclusiveMaximum", high)
            } else if value.high_open {
                ("maximum", high.ceil() - 1.0)
            } else {
                ("maximum", high)
            };
            members.insert(name.to_owned(), number(high));
        }
    }
    let (least, most) = match kind.as_str() {
        "string" => ("minLength", "maxLength"),
        "array" => ("minItems", "maxItems"),
        _ => return,
    };
    if let Some(low) = length.low {
        let low = if length.low_open {
            low.floor() + 1.0
        } else {
            low.ceil()
        };
        members.insert(least.to_owned(), Json::from(low.max(0.0) as u64));
    }
    if let Some(high) = length.high {
        let high = if length.high_open {
            high.ceil() - 1.0
        } else {
            high.floor()
        };
        members.insert(most.to_owned(), Json::from(high.max(0.0) as u64));
    }
}

// ---- values from JSON ----

struct Reader<'r, 'e, 'p, 'h> {
    env: &'e Env,
    program: &'p Program,
    conditions: &'r Conditions,
    machine: &'r mut Machine<'p, 'h>,
}

const READ_DEPTH: u32 = 120;

impl<'e> Reader<'_, 'e, '_, '_> {
    fn read(
        &mut self,
        form: &Form<'e>,
        json: &Json,
        at: &str,
        depth: u32,
    ) -> Result<Value, String> {
        if depth > READ_DEPTH {
            return Err(format!("`{at}` nests too deeply"));
        }
        let wrong = |what: &str| Err(format!("`{at}` must be {what}, found {}", kind(json)));
        match (form.open(self.env), json) {
            (
                Opened::Where {
                    base, condition, ..
                },
                _,
            ) => {
                let value = self.read(&base, json, at, depth + 1)?;
                if let Some(entry) = self.conditions.of(condition)
                    && let Err(stop) = self.machine.call(entry + 1, vec![value.clone()])
                {
                    return Err(format!("`{at}`: {}", stop.message()));
                }
                Ok(value)
            }
            (Opened::Int, Json::Number(n)) => match whole(n) {
                Some(n) => Ok(Value::Int(n)),
                None => Err(format!(
                    "`{at}` must be a whole number of 64 bits, found {n}"
                )),
            },
            (Opened::Int, _) => wrong("a whole number"),
            (Opened::Float, Json::Number(n)) => match n.as_f64().filter(|x| x.is_finite()) {
                Some(x) => Ok(Value::Float(x)),
                None => Err(format!("`{at}` must be a number of 64 bits, found {n}")),
            },
            (Opened::Float, _) => wrong("a number"),
            (Opened::Bool, Json::Bool(b)) => Ok(Value::Bool(*b)),
            (Opened::Bool, _) => wrong("true or false"),
            (Opened::String | Opened::Url, Json::String(s)) => Ok(Value::text(s)),
            (Opened::String | Opened::Url, _) => wrong("a string"),
            (Opened::Unit, Json::Null) => Ok(Value::Unit),
            (Opened::Unit, _) => wrong("null"),
            (Opened::List(item), Json::Array(items)) => {
                let mut out = Vec::new();
                for (index, json) in items.iter().enumerate() {
                    out.push(self.read(&item, json, &format!("{at}[{index}]"), depth + 1)?);
                }
                Ok(Value::list(out))
            }
            (Opened::List(_), _) => wrong("an array"),
            (Opened::Map(_, item), Json::Object(members)) => {
                let mut map = Map::default();
                for (name, json) in members {
                    map.0.insert(
                        Value::text(name),
                        self.read(&item, json, &format!("{at}.{name}"), depth + 1)?,
                    );
                }
                Ok(Value::Map(Arc::new(map)))
            }
            (Opened::Map(..), _) => wrong("an object"),
            (Opened::Option(_), Json::Null) => Ok(self.program.known.option(None)),
            (Opened::Option(item), _) => {
                let value = self.read(&item, json, at, depth + 1)?;
                Ok(self.program.known.option(Some(value)))
            }
            (Opened::Record { sym, fields }, Json::Object(members)) => {
                self.record(&sym, &fields, members, at, depth)
            }
            (Opened::Record { .. }, _) => wrong("an object"),
            (Opened::Union { sym, variants }, _) => self.union(&sym, &variants, json, at, depth),
            (Opened::Other, _) => Err(format!("`{at}` has a type without a JSON form")),
        }
    }

    fn record(
        &mut self,
        sym: &Sym,
        fields: &[(Arc<str>, Form<'e>)],
        members: &JsonMap<String, Json>,
        at: &str,
        depth: u32,
    ) -> Result<Value, String> {
        if let Some(name) = members
            .keys()
            .find(|name| !fields.iter().any(|(f, _)| **f == ***name))
        {
            return Err(format!("`{at}` has no member `{name}`"));
        }
        let mut values = Vec::new();
        for (name, form) in fields {
            let json = match (members.get(&**name), base(form, self.env)) {
                (Some(json), _) => json,
                (None, Opened::Option(_)) => &Json::Null,
                (None, _) => return Err(format!("`{at}` lacks its member `{name}`")),
            };
            values.push(self.read(form, json, &format!("{at}.{name}"), depth + 1)?);
        }
        let names = fields.iter().map(|(n, _)| n.clone()).collect();
        Ok(Value::data(&layout(sym, None, names), values))
    }

    fn union(
        &mut self,
        sym: &Sym,
        variants: &[(Arc<str>, Vec<Form<'e>>)],
        json: &Json,
        at: &str,
        depth: u32,
    ) -> Result<Value, String> {
        let bare = variants.iter().all(|(_, payload)| payload.is_empty());
        let none = Vec::new();
        let (tag, values) = match json {
            Json::String(tag) if bare => (tag.as_str(), &none),
            Json::Object(members) if !bare => {
                let tag = members
                    .get("tag")
                    .and_then(Json::as_str)
                    .ok_or_else(|| format!("`{at}` lacks its `tag`"))?;
                if let Some(name) = members
                    .keys()
                    .find(|n| !["tag", "values"].contains(&n.as_str()))
                {
                    return Err(format!("`{at}` has no member `{name}`"));
                }
                let values = match members.get("values") {
                    None => &none,
                    Some(Json::Array(values)) => values,
                    Some(other) => {
                        return Err(format!(
                            "`{at}.values` must be an array, found {}",
                            kind(other)
                        ));
                    }
                };
                (tag, values)
            }
            _ => {
                let what = if bare {
                    "one of the names"
                } else {
                    "an object with `tag` and `values`"
                };
                return Err(format!("`{at}` must be {what}, found {}", kind(json)));
            }
        };
        let Some(number) = variants.iter().position(|(name, _)| **name == *tag) else {
            let names: Vec<&str> = variants.iter().map(|(name, _)| &**name).collect();
            return Err(format!(
                "`{at}` must be one of {}, found `{tag}`",
                names.join(", ")
            ));
        };
        let (name, payload) = &variants[number];
        if payload.len() != values.len() {
            return Err(format!(
                "`{at}`: `{tag}` holds {} values, found {}",
                payload.len(),
                values.len()
            ));
        }
        let mut parts = Vec::new();
        for (index, (form, json)) in payload.iter().zip(values).enumerate() {
            parts.push(self.read(form, json, &format!("{at}.values[{index}]"), depth + 1)?);
        }
        Ok(Value::data(
            &layout(sym, Some((number, name)), Vec::new()),
            parts,
        ))
    }
}

fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

/// An Int, also when it is written like `2.0`.
fn whole(number: &Number) -> Option<i64> {
    if let Some(n) = number.as_i64() {
        return Some(n);
    }
    let x = number.as_f64()?;
    (x.fract() == 0.0 && x.abs() < 9_007_199_254_740_992.0).then_some(x as i64)
}

// ---- values to JSON ----

/// The JSON of a value; what nests deeper than JSON readers go is cut to null.
pub fn write(env: &Env, value: &Value, depth: u32) -> Json {
    if depth > READ_DEPTH {
        return Json::Null;
    }
    match value {
        Value::Unit | Value::Closure(_) => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(n) => Json::from(*n),
        Value::Float(x) => Number::from_f64(*x).map_or(Json::Null, Json::Number),
        Value::Str(s) => Json::from(&**s),
        Value::List(list) => list.0.iter().map(|v| write(env, v, depth + 1)).collect(),
        Value::Map(map) => {
            let name = |key: &Value| match key {
                Value::Str(s) => s.to_string(),
                other => crate::value::show(other),
            };
            Json::Object(
                map.0
                    .iter()
                    .map(|(k, v)| (name(k), write(env, v, depth + 1)))
                    .collect(),
            )
        }
        Value::Data(data) => match (&*data.layout.sym, data.fields.as_slice()) {
            ("std/core::Option", []) => Json::Null,
            ("std/core::Option", [inner]) => write(env, inner, depth + 1),
            (sym, []) if data.layout.fields.is_empty() && is_bare(env, sym) => {
                Json::from(&*data.layout.name)
            }
            (_, values) if data.layout.fields.is_empty() => {
                let mut out = json!({"tag": &*data.layout.name});
                if !values.is_empty() {
                    out["values"] = values.iter().map(|v| write(env, v, depth + 1)).collect();
                }
                out
            }
            (_, values) => fields(env, &data.layout.fields, values, depth),
        },
    }
}

/// Whether a type is a union of bare names (or no union).
fn is_bare(env: &Env, sym: &str) -> bool {
    match env.info(&Arc::from(sym)).as_deref().map(|i| &i.shape) {
        Some(Shape::Union(variants)) => variants.iter().all(|(_, payload)| payload.is_empty()),
        _ => false,
    }
}

fn fields(env: &Env, names: &[Arc<str>], values: &[Value], depth: u32) -> Json {
    Json::Object(
        names
            .iter()
            .zip(values)
            .map(|(n, v)| (n.to_string(), write(env, v, depth + 1)))
            .collect(),
    )
}
