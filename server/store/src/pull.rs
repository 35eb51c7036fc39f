//! Pull: one entity as a map, by a pattern that says what to take.

use crate::edn::Edn;
use crate::error::{Error, Kind, Result};
use crate::schema::{Attribute, ValueType};
use crate::storage::{Db, Known};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

/// How deep `...` follows references; a number in the pattern may not be larger.
const MAX_RECURSION: usize = 100;

/// The most values one pull gives.
const MAX_VALUES: usize = 100_000;

/// A pattern, read and checked but for its attributes.
#[derive(Clone, Debug)]
pub struct Pattern {
    star: bool,
    id: bool,
    attributes: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    path: Vec<usize>,
    /// As written, so perhaps reversed.
    name: Arc<str>,
    key: Option<Edn>,
    limit: Option<usize>,
    default: Option<Edn>,
    nested: Nested,
}

#[derive(Clone, Debug)]
enum Nested {
    No,
    Pattern(Box<Pattern>),
    /// The pattern that this part stands in, so many times.
    Again(usize),
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(Kind::BadPattern, message)
}

impl Pattern {
    /// `[*]`
    pub fn everything() -> Pattern {
        Pattern {
            star: true,
            id: true,
            attributes: Vec::new(),
        }
    }

    /// Reads a pattern.
    ///
    /// # Errors
    /// `BadPattern`, with the way to the part that is wrong.
    pub fn parse(form: &Edn) -> Result<Pattern> {
        let Edn::Vector(items) = form else {
            return Err(bad(format!(
                "a pattern is a vector, [:person/name {{:person/friend [*]}}], not {}",
                form.kind()
            )));
        };
        if items.is_empty() {
            return Err(bad("an empty pattern takes nothing; [*] takes everything"));
        }
        let mut pattern = Pattern {
            star: false,
            id: false,
            attributes: Vec::new(),
        };
        for (i, item) in items.iter().enumerate() {
            let before = pattern.attributes.len();
            pattern.item(item).map_err(|e| e.within(i))?;
            pattern.attributes[before..]
                .iter_mut()
                .for_each(|part| part.place(i));
        }
        Ok(pattern)
    }

    /// Puts a step before the way to each part; errors that only show in use need the whole way.
    pub(crate) fn place(&mut self, step: usize) {
        self.attributes.iter_mut().for_each(|part| part.place(step));
    }

    fn item(&mut self, item: &Edn) -> Result<()> {
        match item {
            Edn::Symbol(star) if &**star == "*" => (self.star, self.id) = (true, true),
            Edn::Keyword(name) if &**name == "*" => (self.star, self.id) = (true, true),
            Edn::Keyword(name) if &**name == "db/id" => self.id = true,
            Edn::Str(star) if &**star == "*" => (self.star, self.id) = (true, true),
            Edn::Map(members) => {
                for (i, (key, value)) in members.iter().enumerate() {
                    let mut part = Part::parse(key).map_err(|e| e.within(2 * i))?;
                    part.nested = match value {
                        Edn::Vector(_) => {
                            let mut inner =
                                Pattern::parse(value).map_err(|e| e.within(2 * i + 1))?;
                            inner.place(2 * i + 1);
                            Nested::Pattern(Box::new(inner))
                        }
                        Edn::Symbol(dots) if &**dots == "..." => Nested::Again(MAX_RECURSION),
                        Edn::Int(depth) if (1..=MAX_RECURSION as i64).contains(depth) => {
                            Nested::Again(*depth as usize)
                        }
                        _ => {
                            let message = format!(
                                "after an attribute stands a pattern, `...` or a depth from 1 to {MAX_RECURSION}"
                            );
                            return Err(bad(message).within(2 * i + 1));
                        }
                    };
                    part.path = vec![2 * i];
                    self.attributes.push(part);
                }
            }
            _ => self.attributes.push(Part::parse(item)?),
        }
        Ok(())
    }
}

impl Part {
    fn place(&mut self, step: usize) {
        self.path.insert(0, step);
        if let Nested::Pattern(inner) = &mut self.nested {
            inner.place(step);
        }
    }

    fn parse(form: &Edn) -> Result<Part> {
        let new = |name: &Arc<str>| Part {
            path: Vec::new(),
            name: name.clone(),
            key: None,
            limit: None,
            default: None,
            nested: Nested::No,
        };
        match form {
            Edn::Keyword(name) => Ok(new(name)),
            Edn::List(items) | Edn::Vector(items) => match &items[..] {
                // The older way to write it.
                [Edn::Symbol(word), inner, value] if matches!(&**word, "limit" | "default") => {
                    let mut part = Part::parse(inner).map_err(|e| e.within(1))?;
                    part.option(word, value).map_err(|e| e.within(2))?;
                    Ok(part)
                }
                [Edn::Keyword(name), options @ ..] if options.len() % 2 == 0 => {
                    let mut part = new(name);
                    for (i, pair) in options.chunks_exact(2).enumerate() {
                        let at = 1 + 2 * i;
                        let Edn::Keyword(option) = &pair[0] else {
                            return Err(bad("an option is a keyword").within(at));
                        };
                        part.option(option, &pair[1]).map_err(|e| e.within(at))?;
                    }
                    Ok(part)
                }
                _ => Err(bad(
                    "an attribute with options is written (:person/friend :limit 10 :as :friends)",
                )),
            },
            _ => Err(bad(format!(
                "an attribute, `*` or a map is expected, not {}",
                form.brief(60)
            ))),
        }
    }

    fn option(&mut self, name: &str, value: &Edn) -> Result<()> {
        match (name, value) {
            ("limit", Edn::Int(limit)) if *limit > 0 => self.limit = Some(*limit as usize),
            ("limit", Edn::Nil) => self.limit = None,
            ("limit", _) => return Err(bad(":limit takes a positive number, or nil for no limit")),
            ("default", _) => self.default = Some(value.clone()),
            ("as", _) => self.key = Some(value.clone()),
            _ => {
                return Err(bad(format!(
                    ":{name} is no option; known are :limit :default :as"
                )));
            }
        }
        Ok(())
    }
}

/// Reads one entity.
///
/// # Errors
/// `UnknownAttribute` with the way to it in the pattern; `TooLarge`.
pub fn pull(db: &Db<'_>, pattern: &Pattern, entity: i64) -> Result<Edn> {
    let puller = Puller {
        db,
        values: Cell::new(0),
    };
    Ok(puller
        .entity(pattern, entity, &mut Vec::new(), &mut Vec::new())?
        .unwrap_or_else(|| Edn::Map(Vec::new())))
}

struct Puller<'d, 's> {
    db: &'d Db<'s>,
    values: Cell<usize>,
}

/// How often each part with a depth has been entered, outermost first.
type Depths = Vec<(*const Part, usize)>;

impl Puller<'_, '_> {
    /// None when the pattern finds nothing. `above` are the entities being pulled, against circles.
    fn entity(
        &self,
        pattern: &Pattern,
        e: i64,
        above: &mut Vec<i64>,
        depths: &mut Depths,
    ) -> Result<Option<Edn>> {
        if above.len() > 4 * MAX_RECURSION {
            return Err(Error::new(Kind::TooLarge, "the pull goes too deep"));
        }
        above.push(e);
        let mut members = Vec::new();
        if pattern.id {
            members.push((Edn::keyword("db/id"), Edn::Int(e)));
        }
        if pattern.star {
            self.everything(pattern, e, above, &mut members)?;
        }
        for part in &pattern.attributes {
            if let Some(member) = self.part(pattern, part, e, above, depths)? {
                members.retain(|(key, _)| *key != member.0);
                members.push(member);
            }
        }
        above.pop();
        Ok((!members.is_empty()).then_some(Edn::Map(members)))
    }

    fn count(&self, more: usize) -> Result<()> {
        self.values.set(self.values.get() + more);
        if self.values.get() > MAX_VALUES {
            let message = format!(
                "the pull gives more than {MAX_VALUES} values; ask for fewer attributes, or set :limit"
            );
            return Err(Error::new(Kind::TooLarge, message));
        }
        Ok(())
    }

    /// All attributes that an entity has, by name; parts whole, other references as ids.
    fn everything(
        &self,
        pattern: &Pattern,
        e: i64,
        above: &mut Vec<i64>,
        members: &mut Vec<(Edn, Edn)>,
    ) -> Result<()> {
        let mut ids = HashSet::new();
        self.db.scan(
            Known {
                e: Some(e),
                ..Known::default()
            },
            &mut |datom| {
                ids.insert(datom.a);
                Ok(true)
            },
        )?;
        let mut attributes: Vec<_> = ids
            .iter()
            .filter_map(|id| self.db.schema.by_id(*id))
            .collect();
        attributes.sort_by(|a, b| a.ident.cmp(&b.ident));
        for attribute in attributes {
            if pattern
                .attributes
                .iter()
                .any(|part| part.name == attribute.ident && part.key.is_none())
            {
                continue;
            }
            let values = self.values(attribute, e, None, |target| {
                self.reference(attribute, target, above)
            })?;
            if let Some(value) = values {
                members.push((Edn::Keyword(attribute.ident.clone()), value));
            }
        }
        Ok(())
    }

    /// The values of one attribute: a vector when it has many.
    fn values(
        &self,
        attribute: &Attribute,
        e: i64,
        limit: Option<usize>,
        mut follow: impl FnMut(i64) -> Result<Option<Edn>>,
    ) -> Result<Option<Edn>> {
        let mut values = self.db.values(e, attribute)?;
        values.sort_unstable();
        values.dedup();
        values.truncate(limit.unwrap_or(usize::MAX));
        self.count(values.len())?;
        let mut shown = Vec::with_capacity(values.len());
        for value in values {
            match (attribute.value_type, &value) {
                (ValueType::Ref, Edn::Int(target)) => shown.extend(follow(*target)?),
                _ => shown.push(value),
            }
        }
        if shown.is_empty() {
            return Ok(None);
        }
        Ok(Some(if attribute.many {
            Edn::Vector(shown)
        } else {
            shown.swap_remove(0)
        }))
    }

    /// A reference that no pattern follows: the id, with the ident if there is one; a part whole.
    fn reference(
        &self,
        attribute: &Attribute,
        target: i64,
        above: &mut Vec<i64>,
    ) -> Result<Option<Edn>> {
        if attribute.component && !above.contains(&target) {
            return self.entity(&Pattern::everything(), target, above, &mut Vec::new());
        }
        Ok(Some(self.id_of(target)))
    }

    fn id_of(&self, target: i64) -> Edn {
        let mut members = vec![(Edn::keyword("db/id"), Edn::Int(target))];
        if let Some(name) = self.db.schema.name(target) {
            members.push((Edn::keyword("db/ident"), Edn::Keyword(name.clone())));
        }
        Edn::Map(members)
    }

    fn part(
        &self,
        pattern: &Pattern,
        part: &Part,
        e: i64,
        above: &mut Vec<i64>,
        depths: &mut Depths,
    ) -> Result<Option<(Edn, Edn)>> {
        let forward = crate::transact::reverse(&part.name);
        let attribute = self
            .db
            .schema
            .attribute(forward.as_deref().unwrap_or(&part.name))
            .map_err(|e| e.at(&part.path))?;
        if attribute.value_type != ValueType::Ref
            && (forward.is_some() || !matches!(part.nested, Nested::No))
        {
            let message = format!(
                ":{} is no reference, so there is nothing to follow",
                attribute.ident
            );
            return Err(bad(message).attribute(&attribute.ident).at(&part.path));
        }
        let follow = |target: i64| match &part.nested {
            Nested::No => match forward {
                Some(_) => Ok(Some(self.id_of(target))),
                None => self.reference(attribute, target, above),
            },
            Nested::Pattern(inner) => self.entity(inner, target, above, depths),
            Nested::Again(depth) => self.again(pattern, part, *depth, target, above, depths),
        };
        let value = match &forward {
            Some(_) => self.reversed(attribute, e, part.limit, follow)?,
            None => self.values(attribute, e, part.limit, follow)?,
        };
        let key = part
            .key
            .clone()
            .unwrap_or_else(|| Edn::Keyword(part.name.clone()));
        Ok(value
            .or_else(|| part.default.clone())
            .map(|value| (key, value)))
    }

    fn again(
        &self,
        pattern: &Pattern,
        part: &Part,
        depth: usize,
        target: i64,
        above: &mut Vec<i64>,
        depths: &mut Depths,
    ) -> Result<Option<Edn>> {
        let this = std::ptr::from_ref(part);
        let entered = depths
            .iter()
            .find(|(p, _)| *p == this)
            .map_or(0, |(_, n)| *n);
        // A circle ends where it closes, and a depth where it is used up.
        if entered >= depth {
            return Ok(None);
        }
        if above.contains(&target) {
            return Ok(Some(self.id_of(target)));
        }
        depths.retain(|(p, _)| *p != this);
        depths.push((this, entered + 1));
        let pulled = self.entity(pattern, target, above, depths);
        depths.retain(|(p, _)| *p != this);
        depths.push((this, entered));
        pulled
    }

    /// The entities that refer to this one.
    fn reversed(
        &self,
        attribute: &Attribute,
        e: i64,
        limit: Option<usize>,
        mut follow: impl FnMut(i64) -> Result<Option<Edn>>,
    ) -> Result<Option<Edn>> {
        let known = Known {
            a: Some(attribute.id),
            v: Some(&Edn::Int(e)),
            ..Known::default()
        };
        let mut sources: Vec<i64> = self
            .db
            .find(known)?
            .into_iter()
            .map(|datom| datom.e)
            .collect();
        sources.sort_unstable();
        sources.dedup();
        sources.truncate(limit.unwrap_or(usize::MAX));
        self.count(sources.len())?;
        let mut shown = Vec::new();
        for source in sources {
            shown.extend(follow(source)?);
        }
        // Whole and part have one owner, so the reverse of a component is one entity.
        if attribute.component && !shown.is_empty() {
            return Ok(Some(shown.swap_remove(0)));
        }
        Ok((!shown.is_empty()).then_some(Edn::Vector(shown)))
    }
}
