//! The store against a plain model: a list of datoms and nested loops. Random vocabularies,
//! transactions and queries must give the same answers, whichever way a query is written.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use touchstone_store::edn::{Edn, read};
use touchstone_store::query::{Limits, Query};
use touchstone_store::{Datom, Kind, Provenance, Storage, Store, TX_BASE, View};

/// `PROPTEST_CASES` asks for more than the usual number of cases.
fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(asked.unwrap_or(usual))
    }
}

// ------------------------------------------------------------------------------- the model

#[derive(Clone, Debug)]
struct Attr {
    id: i64,
    name: String,
    kind: &'static str,
    many: bool,
    unique: Option<&'static str>,
    component: bool,
}

#[derive(Default)]
struct Model {
    attrs: Vec<Attr>,
    log: Vec<Datom>,
}

type Fact = (i64, i64, Edn);

impl Model {
    fn attr(&self, id: i64) -> Option<&Attr> {
        self.attrs.iter().find(|a| a.id == id)
    }

    /// What holds after transaction `t`.
    fn facts_at(&self, t: i64) -> BTreeMap<Fact, i64> {
        let mut facts = BTreeMap::new();
        for d in self.log.iter().filter(|d| d.t <= t) {
            if d.added {
                facts.insert((d.e, d.a, d.v.clone()), d.t);
            } else {
                facts.remove(&(d.e, d.a, d.v.clone()));
            }
        }
        facts
    }

    fn seen(&self, view: View) -> Vec<Datom> {
        let hold = |t| {
            let facts = self.facts_at(t).into_iter();
            facts
                .map(|((e, a, v), t)| Datom {
                    e,
                    a,
                    v,
                    t,
                    added: true,
                })
                .collect::<Vec<_>>()
        };
        match view {
            View::Current => hold(i64::MAX),
            View::AsOf(t) => hold(t),
            View::Since(t) => hold(i64::MAX).into_iter().filter(|d| d.t > t).collect(),
            View::History => self.log.clone(),
        }
    }

    fn holder(facts: &BTreeMap<Fact, i64>, a: i64, v: &Edn) -> Option<i64> {
        facts
            .keys()
            .find(|(_, fa, fv)| *fa == a && fv == v)
            .map(|(e, _, _)| *e)
    }
}

// ------------------------------------------------------------------------------- transactions

/// An entity of a random transaction: a tempid, or one known before, by its place in a list.
#[derive(Clone, Debug)]
enum Who {
    Temp(u8),
    Known(u8),
}

#[derive(Clone, Debug)]
enum What {
    Add(Who, u8, u8, Who),
    Retract(Who, u8, u8, Who),
    RetractAll(Who, u8),
    RetractEntity(Who),
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        (0u8..3).prop_map(Who::Temp),
        any::<u8>().prop_map(Who::Known)
    ]
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        8 => (who(), any::<u8>(), 0u8..4, who()).prop_map(|(e, a, v, r)| What::Add(e, a, v, r)),
        2 => (who(), any::<u8>(), 0u8..4, who()).prop_map(|(e, a, v, r)| What::Retract(e, a, v, r)),
        1 => (who(), any::<u8>()).prop_map(|(e, a)| What::RetractAll(e, a)),
        1 => who().prop_map(What::RetractEntity),
    ]
}

fn vocabulary() -> impl Strategy<Value = Vec<Attr>> {
    let kinds = [
        "string", "long", "double", "boolean", "instant", "keyword", "uuid", "ref", "bigint",
        "bytes",
    ];
    let one = (0usize..14, any::<bool>(), 0u8..6, any::<bool>());
    proptest::collection::vec(one, 2..6).prop_map(move |specs| {
        let attr = |(i, (kind, many, unique, component)): (usize, (usize, bool, u8, bool))| {
            // Refs often, since joins and components live on them.
            let kind = kinds.get(kind).copied().unwrap_or("ref");
            let unique = match unique {
                0 => Some("identity"),
                1 => Some("value"),
                _ => None,
            };
            let (unique, many) = (unique, many && unique.is_none());
            Attr {
                id: 0,
                name: format!("x/a{i}"),
                kind,
                many,
                unique,
                component: component && kind == "ref",
            }
        };
        specs.into_iter().enumerate().map(attr).collect()
    })
}

fn value(kind: &str, seed: u8) -> Edn {
    let text = match kind {
        "string" => format!("\"s{seed}\""),
        "long" => format!("{}", i64::from(seed) - 1),
        "double" => format!("{}.5", i64::from(seed) - 1),
        "boolean" => format!("{}", seed.is_multiple_of(2)),
        "instant" => format!("#inst \"202{seed}\""),
        "keyword" => format!(":k/k{seed}"),
        "uuid" => format!("#uuid \"f81d4fae-7dec-11d0-a765-00a0c91e6bf{seed}\""),
        "bigint" => format!("{}00000000000000000000N", i64::from(seed) - 1),
        _ => format!("#base64 \"AA{seed}=\""),
    };
    // `-1` and `000…` as big integers read as they should; base64 must be canonical.
    match kind {
        "bytes" => Edn::Bytes(vec![seed].into()),
        "bigint" => Edn::big(num_bigint::BigInt::from(i64::from(seed) - 1) << 70),
        _ => read(&text).unwrap(),
    }
}

/// One operation, with the entities and the attribute looked up.
struct Op {
    e: Edn,
    action: Action,
}

enum Action {
    Add(Attr, Edn),
    Retract(Attr, Option<Edn>),
    RetractEntity,
}

fn known(model: &Model, seed: u8) -> Option<i64> {
    let ids: BTreeSet<i64> = model
        .log
        .iter()
        .map(|d| d.e)
        .filter(|e| *e >= 1000 && model.attr(*e).is_none())
        .collect();
    let ids: Vec<i64> = ids.into_iter().filter(|e| *e < TX_BASE).collect();
    (!ids.is_empty()).then(|| ids[seed as usize % ids.len()])
}

fn entity(model: &Model, who: &Who) -> Edn {
    match who {
        Who::Temp(n) => Edn::str(&format!("t{n}")),
        Who::Known(seed) => known(model, *seed).map_or(Edn::str("t0"), Edn::Int),
    }
}

fn op(model: &Model, what: &What) -> Op {
    let attr = |seed: &u8| model.attrs[*seed as usize % model.attrs.len()].clone();
    let object = |attr: &Attr, seed: &u8, who: &Who| match attr.kind {
        "ref" => entity(model, who),
        kind => value(kind, *seed),
    };
    match what {
        What::Add(e, a, v, r) => {
            let attr = attr(a);
            Op {
                e: entity(model, e),
                action: Action::Add(attr.clone(), object(&attr, v, r)),
            }
        }
        What::Retract(e, a, v, r) => {
            let attr = attr(a);
            Op {
                e: entity(model, e),
                action: Action::Retract(attr.clone(), Some(object(&attr, v, r))),
            }
        }
        What::RetractAll(e, a) => Op {
            e: entity(model, e),
            action: Action::Retract(attr(a), None),
        },
        What::RetractEntity(e) => Op {
            e: entity(model, e),
            action: Action::RetractEntity,
        },
    }
}

/// The operations as a transaction; additions now and then as maps.
fn to_edn(ops: &[Op], maps: bool) -> Edn {
    let forms = ops.iter().map(|op| {
        let head = |name: &str| vec![Edn::keyword(name), op.e.clone()];
        match &op.action {
            Action::Add(attr, v) if maps => Edn::Map(vec![
                (Edn::keyword("db/id"), op.e.clone()),
                (Edn::keyword(&attr.name), v.clone()),
            ]),
            Action::Add(attr, v) => {
                Edn::Vector([head("db/add"), vec![Edn::keyword(&attr.name), v.clone()]].concat())
            }
            Action::Retract(attr, Some(v)) => Edn::Vector(
                [
                    head("db/retract"),
                    vec![Edn::keyword(&attr.name), v.clone()],
                ]
                .concat(),
            ),
            Action::Retract(attr, None) => {
                Edn::List([head("db/retract"), vec![Edn::keyword(&attr.name)]].concat())
            }
            Action::RetractEntity => Edn::Vector(head("db/retractEntity")),
        }
    });
    Edn::Vector(forms.collect())
}

/// What the model says: every kind of error there is, or the changes, given the ids of new entities.
fn predict(
    model: &Model,
    ops: &[Op],
    new_ids: &BTreeMap<String, i64>,
) -> Result<BTreeSet<(Fact, bool)>, BTreeSet<&'static str>> {
    let before = model.facts_at(i64::MAX);
    let mut errors = BTreeSet::new();
    // Names that must be the same entity, by going over all pairs until nothing changes.
    let mut ids: BTreeMap<String, i64> = BTreeMap::new();
    let temps: BTreeSet<String> = ops
        .iter()
        .flat_map(|op| {
            let object = match &op.action {
                Action::Add(attr, v) if attr.kind == "ref" => v.as_str(),
                Action::Retract(attr, Some(v)) if attr.kind == "ref" => v.as_str(),
                _ => None,
            };
            op.e.as_str().into_iter().chain(object)
        })
        .map(str::to_owned)
        .collect();
    let mut class: BTreeMap<String, String> =
        temps.iter().map(|t| (t.clone(), t.clone())).collect();
    loop {
        let before_round = (ids.clone(), class.clone());
        let keyed: Vec<(String, i64, Edn)> = ops
            .iter()
            .filter_map(|op| match (&op.action, op.e.as_str()) {
                (Action::Add(attr, v), Some(temp)) if attr.unique == Some("identity") => {
                    let v = match (attr.kind, v.as_str()) {
                        ("ref", Some(other)) => Edn::Int(*ids.get(&class[other])?),
                        _ => v.clone(),
                    };
                    Some((class[temp].clone(), attr.id, v))
                }
                _ => None,
            })
            .collect();
        for (temp, a, v) in &keyed {
            if let Some(holder) = Model::holder(&before, *a, v)
                && *ids.entry(temp.clone()).or_insert(holder) != holder
            {
                errors.insert("memory/conflict");
            }
            for (other, b, w) in &keyed {
                if (a, v) == (b, w) && class[temp] != class[other] {
                    let (keep, drop) = (class[temp].clone(), class[other].clone());
                    match (ids.get(&keep).copied(), ids.get(&drop).copied()) {
                        (Some(x), Some(y)) if x != y => {
                            errors.insert("memory/conflict");
                        }
                        (None, Some(y)) => {
                            ids.insert(keep.clone(), y);
                        }
                        _ => {}
                    }
                    class
                        .values_mut()
                        .filter(|c| **c == drop)
                        .for_each(|c| c.clone_from(&keep));
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        if (ids.clone(), class.clone()) == before_round {
            break;
        }
    }
    for temp in &temps {
        let root = &class[temp];
        let subject = |op: &Op| {
            matches!(op.action, Action::Add(..)) && op.e.as_str().is_some_and(|t| class[t] == *root)
        };
        if !ids.contains_key(root) {
            if !ops.iter().any(subject) {
                errors.insert("memory/bad-tx");
            }
            // A refused transaction gives no ids; any that are different will do.
            let stand_in = -1 - ids.len() as i64;
            ids.insert(root.clone(), new_ids.get(temp).copied().unwrap_or(stand_in));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let id = |form: &Edn| match form {
        Edn::Int(id) => *id,
        other => ids
            .get(&class[other.as_str().unwrap()])
            .copied()
            .unwrap_or(-1),
    };
    let object = |attr: &Attr, v: &Edn| {
        if attr.kind == "ref" {
            Edn::Int(id(v))
        } else {
            v.clone()
        }
    };
    let (mut added, mut retracted) = (BTreeSet::new(), BTreeSet::new());
    for op in ops {
        let e = id(&op.e);
        match &op.action {
            Action::Add(attr, v) => {
                added.insert((e, attr.id, object(attr, v)));
            }
            Action::Retract(attr, v) => {
                let wanted = v.as_ref().map(|v| object(attr, v));
                retracted.extend(
                    before
                        .keys()
                        .filter(|f| {
                            f.0 == e && f.1 == attr.id && wanted.as_ref().is_none_or(|w| f.2 == *w)
                        })
                        .cloned(),
                );
            }
            Action::RetractEntity => {
                let mut gone = BTreeSet::from([e]);
                loop {
                    let parts: BTreeSet<i64> = before
                        .keys()
                        .filter(|f| {
                            gone.contains(&f.0) && model.attr(f.1).is_some_and(|a| a.component)
                        })
                        .filter_map(|f| f.2.as_int())
                        .collect();
                    let size = gone.len();
                    gone.extend(parts);
                    if gone.len() == size {
                        break;
                    }
                }
                let is_ref = |f: &&Fact| {
                    model.attr(f.1).is_some_and(|a| a.kind == "ref")
                        && f.2.as_int().is_some_and(|v| gone.contains(&v))
                };
                retracted.extend(
                    before
                        .keys()
                        .filter(|f| gone.contains(&f.0) || is_ref(f))
                        .cloned(),
                );
            }
        }
    }
    if added.iter().any(|f| retracted.contains(f)) {
        errors.insert("memory/conflict");
    }
    for (e, a, v) in &added {
        let attr = model.attr(*a).unwrap();
        if !attr.many && added.iter().any(|f| f.0 == *e && f.1 == *a && f.2 != *v) {
            errors.insert("memory/conflict");
        }
    }
    let fresh: BTreeSet<Fact> = added
        .iter()
        .filter(|f| !before.contains_key(f))
        .cloned()
        .collect();
    for (e, a, _) in &fresh {
        if !model.attr(*a).unwrap().many {
            retracted.extend(before.keys().filter(|f| f.0 == *e && f.1 == *a).cloned());
        }
    }
    for (e, a, v) in &fresh {
        if model.attr(*a).unwrap().unique.is_some() {
            let others = before
                .keys()
                .filter(|f| !retracted.contains(*f))
                .chain(&fresh);
            if others
                .into_iter()
                .any(|f| f.1 == *a && f.2 == *v && f.0 != *e)
            {
                errors.insert("memory/unique-conflict");
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(fresh
        .into_iter()
        .map(|f| (f, true))
        .chain(retracted.into_iter().map(|f| (f, false)))
        .collect())
}

fn open(vocabulary: Vec<Attr>) -> (Store, Model) {
    let mut store = Store::open(&Storage::Memory).unwrap();
    let forms = vocabulary.iter().map(|attr| {
        let unique = attr.unique.map_or(String::new(), |u| format!(":db/unique :db.unique/{u}"));
        let many = if attr.many { "many" } else { "one" };
        let text = format!(
            "{{:db/ident :{} :db/valueType :db.type/{} :db/cardinality :db.cardinality/{many} {unique} :db/isComponent {}}}",
            attr.name, attr.kind, attr.component
        );
        read(&text.replace(":db/isComponent false", "")).unwrap()
    });
    store
        .transact(&Edn::Vector(forms.collect()), Provenance::default())
        .unwrap();
    let db = store.db(View::Current).unwrap();
    let attrs = vocabulary
        .into_iter()
        .map(|a| Attr {
            id: db.schema().ident(&a.name).unwrap(),
            ..a
        })
        .collect();
    drop(db);
    (
        store,
        Model {
            attrs,
            log: Vec::new(),
        },
    )
}

/// Records a transaction in both and compares what they say.
fn record(
    store: &mut Store,
    model: &mut Model,
    whats: &[What],
    maps: bool,
) -> Result<(), TestCaseError> {
    let ops: Vec<Op> = whats.iter().map(|w| op(model, w)).collect();
    let tx = to_edn(&ops, maps);
    match store.transact(&tx, Provenance::default()) {
        Err(error) => {
            let predicted = predict(model, &ops, &BTreeMap::new());
            let kind = error
                .to_edn()
                .get("kala/error")
                .unwrap()
                .as_keyword()
                .unwrap()
                .to_owned();
            prop_assert!(
                matches!(&predicted, Err(kinds) if kinds.contains(kind.as_str())),
                "{tx}: the store says {error}, the model {predicted:?}"
            );
        }
        Ok(report) => {
            let new_ids = report
                .tempids
                .iter()
                .map(|(name, id)| (name.to_string(), *id))
                .collect();
            let predicted = predict(model, &ops, &new_ids);
            let own: BTreeSet<(Fact, bool)> = report
                .datoms
                .iter()
                .filter(|d| d.e != report.tx)
                .map(|d| ((d.e, d.a, d.v.clone()), d.added))
                .collect();
            prop_assert_eq!(predicted.as_ref(), Ok(&own), "{}", tx);
            model
                .log
                .extend(report.datoms.into_iter().filter(|d| d.e != report.tx));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn transactions_do_what_the_model_does(
        vocabulary in vocabulary(),
        turns in proptest::collection::vec((proptest::collection::vec(what(), 1..6), any::<bool>()), 1..12),
    ) {
        let (mut store, mut model) = open(vocabulary);
        for (whats, maps) in &turns {
            record(&mut store, &mut model, whats, *maps)?;
        }
        let last = store.db(View::Current).unwrap().t;
        let ours: Vec<i64> = model.attrs.iter().map(|a| a.id).collect();
        for view in (0..=last).flat_map(|t| [View::AsOf(t), View::Since(t)]).chain([View::Current, View::History]) {
            let db = store.db(view).unwrap();
            let query = Query::parse(&read("[:find ?e ?a ?v ?tx ?added :in [?a ...] :where [?e ?a ?v ?tx ?added]]").unwrap()).unwrap();
            let args = [Edn::Vector(ours.iter().copied().map(Edn::Int).collect())];
            let answer = query.run(&db, &args, &Limits::default(), None).unwrap();
            let expected: BTreeSet<Edn> = model.seen(view).into_iter().map(|d| Edn::Vector(vec![
                Edn::Int(d.e), Edn::Int(d.a), d.v, Edn::Int(TX_BASE + d.t), Edn::Bool(d.added),
            ])).collect();
            let Edn::Vector(rows) = answer.result else { panic!("rows") };
            prop_assert_eq!(rows.into_iter().collect::<BTreeSet<_>>(), expected, "{:?}", view);
        }
    }
}

// ------------------------------------------------------------------------------- queries

/// A part of a pattern.
#[derive(Clone, Debug)]
enum Slot {
    Var(u8),
    Seed(u8),
    Blank,
}

#[derive(Clone, Debug)]
enum Cl {
    Pattern(Slot, u8, Slot),
    TxPattern(Slot, u8, Slot, u8),
    AnyAttr(u8, u8, Slot),
    Compare(&'static str, u8, u8),
    Not(Vec<Cl>),
    NotJoin(u8, Vec<Cl>),
    Or(Box<Cl>, Box<Cl>),
    Reach(u8, u8),
    GetElse(u8, u8, u8),
    Missing(u8, u8),
}

fn slot() -> impl Strategy<Value = Slot> {
    prop_oneof![6 => (0u8..4).prop_map(Slot::Var), 2 => any::<u8>().prop_map(Slot::Seed), 1 => Just(Slot::Blank)]
}

fn pattern() -> impl Strategy<Value = Cl> {
    (slot(), any::<u8>(), slot()).prop_map(|(e, a, v)| Cl::Pattern(e, a, v))
}

fn clause() -> impl Strategy<Value = Cl> {
    prop_oneof![
        8 => pattern(),
        1 => (slot(), any::<u8>(), slot(), 0u8..4).prop_map(|(e, a, v, t)| Cl::TxPattern(e, a, v, t)),
        1 => (0u8..4, 0u8..4, slot()).prop_map(|(e, a, v)| Cl::AnyAttr(e, a, v)),
        2 => (prop_oneof![Just("<"), Just("<="), Just(">"), Just(">="), Just("="), Just("not=")], 0u8..4, 0u8..4)
            .prop_map(|(op, a, b)| Cl::Compare(op, a, b)),
        2 => proptest::collection::vec(pattern(), 1..3).prop_map(Cl::Not),
        1 => (0u8..4, proptest::collection::vec(pattern(), 1..3)).prop_map(|(v, c)| Cl::NotJoin(v, c)),
        2 => (pattern(), pattern()).prop_map(|(a, b)| Cl::Or(Box::new(a), Box::new(b))),
        2 => (0u8..4, 0u8..4).prop_map(|(a, b)| Cl::Reach(a, b)),
        1 => (0u8..4, any::<u8>(), 0u8..4).prop_map(|(e, a, v)| Cl::GetElse(e, a, v)),
        1 => (0u8..4, any::<u8>()).prop_map(|(e, a)| Cl::Missing(e, a)),
    ]
}

type Env = BTreeMap<u8, Edn>;

/// Everything the naive evaluation needs.
struct World<'m> {
    model: &'m Model,
    seen: Vec<Datom>,
    reach: BTreeSet<(Edn, Edn)>,
}

impl World<'_> {
    fn attr(&self, seed: u8) -> &Attr {
        &self.model.attrs[seed as usize % self.model.attrs.len()]
    }

    fn constant(&self, attr: Option<&Attr>, seed: u8, entity: bool) -> Edn {
        match attr.map(|a| a.kind) {
            _ if entity => known(self.model, seed).map_or(Edn::Int(1), Edn::Int),
            Some("ref") | None => known(self.model, seed).map_or(Edn::Int(1), Edn::Int),
            Some(kind) => value(kind, seed % 4),
        }
    }

    fn text(&self, cl: &Cl) -> String {
        let slot = |s: &Slot, attr: Option<&Attr>, entity: bool| match s {
            Slot::Var(n) => format!("?v{n}"),
            Slot::Seed(seed) => self.constant(attr, *seed, entity).to_string(),
            Slot::Blank => "_".to_owned(),
        };
        let all = |cls: &[Cl]| {
            cls.iter()
                .map(|c| self.text(c))
                .collect::<Vec<_>>()
                .join(" ")
        };
        match cl {
            Cl::Pattern(e, a, v) => {
                let attr = self.attr(*a);
                format!(
                    "[{} :{} {}]",
                    slot(e, None, true),
                    attr.name,
                    slot(v, Some(attr), false)
                )
            }
            Cl::TxPattern(e, a, v, t) => {
                let attr = self.attr(*a);
                format!(
                    "[{} :{} {} ?v{t} true]",
                    slot(e, None, true),
                    attr.name,
                    slot(v, Some(attr), false)
                )
            }
            Cl::AnyAttr(e, a, v) => {
                // The vocabulary's own facts are no part of the model.
                format!(
                    "(or-join [?v{a}] {})",
                    self.model
                        .attrs
                        .iter()
                        .map(|x| format!("[(ground {}) ?v{a}]", x.id))
                        .collect::<Vec<_>>()
                        .join(" ")
                ) + &format!(" [?v{e} ?v{a} {}]", slot(v, None, false))
            }
            Cl::Compare(op, a, b) => format!("[({op} ?v{a} ?v{b})]"),
            Cl::Not(cls) => format!("(not {})", all(cls)),
            Cl::NotJoin(v, cls) => format!("(not-join [?v{v}] {})", all(cls)),
            Cl::Or(a, b) => format!(
                "(or-join [{}] {} {})",
                shared(a, b)
                    .iter()
                    .map(|v| format!("?v{v}"))
                    .collect::<Vec<_>>()
                    .join(" "),
                self.text(a),
                self.text(b)
            ),
            Cl::Reach(a, b) => format!("(reach ?v{a} ?v{b})"),
            Cl::GetElse(e, a, v) => {
                format!("[(get-else $ ?v{e} :{} :none) ?v{v}]", self.attr(*a).name)
            }
            Cl::Missing(e, a) => format!("[(missing? $ ?v{e} :{})]", self.attr(*a).name),
        }
    }

    fn extend(&self, cl: &Cl, env: &Env) -> Vec<Env> {
        let meets =
            |env: &mut Env, s: &Slot, attr: Option<&Attr>, entity: bool, value: &Edn| match s {
                Slot::Blank => true,
                Slot::Seed(seed) => self.constant(attr, *seed, entity) == *value,
                Slot::Var(n) => *env.entry(*n).or_insert_with(|| value.clone()) == *value,
            };
        let facts = |each: &dyn Fn(&Datom, &mut Env) -> bool| {
            let met = self.seen.iter().filter_map(|d| {
                let mut env = env.clone();
                each(d, &mut env).then_some(env)
            });
            met.collect::<Vec<_>>()
        };
        match cl {
            Cl::Pattern(e, a, v) => {
                let attr = self.attr(*a);
                facts(&|d, env| {
                    d.a == attr.id
                        && meets(env, e, None, true, &Edn::Int(d.e))
                        && meets(env, v, Some(attr), false, &d.v)
                })
            }
            Cl::TxPattern(e, a, v, t) => {
                let attr = self.attr(*a);
                facts(&|d, env| {
                    d.a == attr.id
                        && d.added
                        && meets(env, e, None, true, &Edn::Int(d.e))
                        && meets(env, v, Some(attr), false, &d.v)
                        && meets(env, &Slot::Var(*t), None, false, &Edn::Int(TX_BASE + d.t))
                })
            }
            Cl::AnyAttr(e, a, v) => facts(&|d, env| {
                meets(env, &Slot::Var(*e), None, true, &Edn::Int(d.e))
                    && meets(env, &Slot::Var(*a), None, false, &Edn::Int(d.a))
                    && meets(env, v, None, false, &d.v)
            }),
            Cl::Or(a, b) => {
                let keep = shared(a, b);
                let inner: Env = env
                    .iter()
                    .filter(|(k, _)| keep.contains(k))
                    .map(|(k, v)| (*k, v.clone()))
                    .collect();
                let mut out = Vec::new();
                for branch in [a, b] {
                    for found in self.extend(branch, &inner) {
                        let mut env = env.clone();
                        env.extend(found.into_iter().filter(|(k, _)| keep.contains(k)));
                        out.push(env);
                    }
                }
                out
            }
            Cl::Reach(a, b) => self
                .reach
                .iter()
                .filter_map(|(x, y)| {
                    let mut env = env.clone();
                    (meets(&mut env, &Slot::Var(*a), None, true, x)
                        && meets(&mut env, &Slot::Var(*b), None, true, y))
                    .then_some(env)
                })
                .collect(),
            Cl::GetElse(e, a, v) => {
                let attr = self.attr(*a);
                let found = self
                    .seen
                    .iter()
                    .find(|d| Edn::Int(d.e) == env[e] && d.a == attr.id);
                let value = found.map_or(Edn::keyword("none"), |d| d.v.clone());
                let mut env = env.clone();
                if meets(&mut env, &Slot::Var(*v), None, false, &value) {
                    vec![env]
                } else {
                    Vec::new()
                }
            }
            Cl::Missing(e, a) => {
                let attr = self.attr(*a);
                let found = self
                    .seen
                    .iter()
                    .any(|d| Edn::Int(d.e) == env[e] && d.a == attr.id);
                if found { Vec::new() } else { vec![env.clone()] }
            }
            Cl::Compare(op, a, b) => {
                let (x, y) = (&env[a], &env[b]);
                let order =
                    touchstone_store::edn::compare_numbers(x, y).unwrap_or_else(|| x.cmp(y));
                let doubles = |v: &Edn| matches!(v, Edn::Double(_));
                let equal = order.is_eq() && doubles(x) == doubles(y);
                let holds = match *op {
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    ">=" => order.is_ge(),
                    "=" => equal,
                    _ => !equal,
                };
                if holds { vec![env.clone()] } else { Vec::new() }
            }
            Cl::Not(cls) => self.deny(cls, env.clone(), env),
            Cl::NotJoin(v, cls) => self.deny(cls, BTreeMap::from([(*v, env[v].clone())]), env),
        }
    }

    fn deny(&self, cls: &[Cl], start: Env, env: &Env) -> Vec<Env> {
        let found = cls.iter().fold(vec![start], |envs, cl| {
            envs.iter().flat_map(|e| self.extend(cl, e)).collect()
        });
        if found.is_empty() {
            vec![env.clone()]
        } else {
            Vec::new()
        }
    }
}

fn vars(cl: &Cl) -> BTreeSet<u8> {
    let slot = |s: &Slot| match s {
        Slot::Var(n) => Some(*n),
        _ => None,
    };
    match cl {
        Cl::Pattern(e, _, v) => slot(e).into_iter().chain(slot(v)).collect(),
        Cl::TxPattern(e, _, v, t) => slot(e).into_iter().chain(slot(v)).chain([*t]).collect(),
        Cl::AnyAttr(e, a, v) => [*e, *a].into_iter().chain(slot(v)).collect(),
        Cl::Compare(_, a, b) | Cl::Reach(a, b) => [*a, *b].into(),
        Cl::Not(cls) => cls.iter().flat_map(vars).collect(),
        Cl::NotJoin(v, _) => [*v].into(),
        Cl::Or(a, b) => shared(a, b),
        Cl::GetElse(e, _, v) => [*e, *v].into(),
        Cl::Missing(e, _) => [*e].into(),
    }
}

fn shared(a: &Cl, b: &Cl) -> BTreeSet<u8> {
    vars(a).intersection(&vars(b)).copied().collect()
}

/// Binds first, then functions, then what only tests; what could not be tried is left out.
fn runnable(cls: Vec<Cl>) -> (Vec<Cl>, BTreeSet<u8>) {
    let rank = |c: &Cl| match c {
        Cl::GetElse(..) => 1,
        Cl::Compare(..) | Cl::Missing(..) => 2,
        Cl::Not(_) | Cl::NotJoin(..) => 3,
        _ => 0,
    };
    let mut cls = cls;
    cls.sort_by_key(rank);
    let mut bound = BTreeSet::new();
    let mut kept = Vec::new();
    for cl in cls {
        let ok = match &cl {
            Cl::Or(a, b) => !shared(a, b).is_empty(),
            Cl::GetElse(e, ..) | Cl::Missing(e, _) => bound.contains(e),
            Cl::Compare(_, a, b) => bound.contains(a) && bound.contains(b),
            Cl::NotJoin(v, cls) => bound.contains(v) && cls.iter().any(|c| vars(c).contains(v)),
            _ => true,
        };
        if ok {
            if rank(&cl) < 2 {
                bound.extend(vars(&cl));
            }
            kept.push(cl);
        }
    }
    (kept, bound)
}

/// The pairs that a recursive rule over all references reaches.
fn reach(seen: &[Datom], refs: &[i64]) -> BTreeSet<(Edn, Edn)> {
    let edges: BTreeSet<(Edn, Edn)> = seen
        .iter()
        .filter(|d| refs.contains(&d.a))
        .map(|d| (Edn::Int(d.e), d.v.clone()))
        .collect();
    let mut pairs = edges.clone();
    loop {
        let more: BTreeSet<_> = pairs
            .iter()
            .flat_map(|(a, b)| {
                edges
                    .iter()
                    .filter(move |(c, _)| c == b)
                    .map(move |(_, d)| (a.clone(), d.clone()))
            })
            .filter(|pair| !pairs.contains(pair))
            .collect();
        if more.is_empty() {
            return pairs;
        }
        pairs.extend(more);
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn queries_answer_what_nested_loops_answer(
        vocabulary in vocabulary(),
        turns in proptest::collection::vec((proptest::collection::vec(what(), 1..8), any::<bool>()), 1..10),
        queries in proptest::collection::vec(
            (proptest::collection::vec(clause(), 1..5), any::<u8>(), any::<prop::sample::Index>(), any::<bool>()), 1..8),
    ) {
        let (mut store, mut model) = open(vocabulary);
        for (whats, maps) in &turns {
            record(&mut store, &mut model, whats, *maps)?;
        }
        let last = store.db(View::Current).unwrap().t;
        for (cls, view, rotation, left) in queries {
            let view = match view % 6 {
                0..=2 => View::Current,
                3 => View::AsOf(i64::from(view) % (last + 2)),
                4 => View::Since(i64::from(view) % (last + 2)),
                _ => View::History,
            };
            let (cls, bound) = runnable(cls);
            // In the history an attribute with one value may have several.
            let cls: Vec<Cl> = cls.into_iter().filter(|c| !matches!(c, Cl::GetElse(_, a, _) if view == View::History
                || model.attrs[*a as usize % model.attrs.len()].many)).collect();
            let bound: BTreeSet<u8> = bound.intersection(&cls.iter().flat_map(vars).collect()).copied().collect();
            let (cls, bound) = { let (c, b) = runnable(cls); (c, bound.intersection(&b).copied().collect::<BTreeSet<_>>()) };
            if bound.is_empty() {
                continue;
            }
            let seen = model.seen(view);
            let refs: Vec<i64> = model.attrs.iter().filter(|a| a.kind == "ref").map(|a| a.id).collect();
            let reach = reach(&seen, &refs);
            let world = World { model: &model, seen, reach };
            let envs = cls.iter().fold(vec![Env::new()], |envs, cl| envs.iter().flat_map(|e| world.extend(cl, e)).collect());
            let row = |env: &Env| Edn::Vector(bound.iter().map(|v| env[v].clone()).collect());
            let expected: BTreeSet<Edn> = envs.iter().map(row).collect();

            // The same question, with its clauses turned round.
            let mut texts: Vec<String> = cls.iter().map(|c| world.text(c)).collect();
            let turn = rotation.index(texts.len());
            texts.rotate_left(turn);
            let find: Vec<String> = bound.iter().map(|v| format!("?v{v}")).collect();
            let step = if left { "(reach ?a ?c) (edge ?c ?b)" } else { "(edge ?a ?c) (reach ?c ?b)" };
            let mut rules = format!("[[(reach ?a ?b) (edge ?a ?b)] [(reach ?a ?b) {step}] [(edge ?a ?b) [?a 1 ?b] [(ground false) true]]");
            for a in model.attrs.iter().filter(|a| a.kind == "ref") {
                rules += &format!(" [(edge ?a ?b) [?a :{} ?b]]", a.name);
            }
            rules += "]";
            let rules = rules.replace("[(ground false) true]", "[(= 1 2)]");
            let text = format!("[:find {} :in $ % :where {}]", find.join(" "), texts.join(" "));
            let query = Query::parse(&read(&text).unwrap()).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
            let db = store.db(view).unwrap();
            let answer = query.run(&db, &[read(&rules).unwrap()], &Limits::default(), None)
                .map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
            let Edn::Vector(rows) = answer.result else { panic!("rows") };
            prop_assert_eq!(rows.into_iter().collect::<BTreeSet<_>>(), expected, "{} {:?}", text, view);
        }
    }
}

#[test]
fn the_kinds_the_model_names_exist() {
    for kind in [Kind::Conflict, Kind::UniqueConflict, Kind::BadTx] {
        assert!(kind.keyword().starts_with("memory/"));
    }
}
