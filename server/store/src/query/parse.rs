//! Datalog as data: a query and its rules, from EDN forms.

use super::functions::Function;
use crate::edn::Edn;
use crate::error::{Error, Kind, Result};
use crate::pull::Pattern;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// A variable: its index in the scope it belongs to (the query, or one rule).
pub(crate) type Var = usize;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Term {
    Var(Var),
    Const(Edn),
    Blank,
}

impl Term {
    pub(crate) fn var(&self) -> Option<Var> {
        match self {
            Term::Var(var) => Some(*var),
            _ => None,
        }
    }
}

/// How a value is taken apart: `?x`, `[?x ?y]`, `[?x ...]`, `[[?x ?y]]`.
#[derive(Clone, Debug)]
pub(crate) enum Binding {
    Blank,
    Var(Var),
    Tuple(Vec<Binding>),
    Collection(Box<Binding>),
}

impl Binding {
    pub(crate) fn vars(&self, into: &mut BTreeSet<Var>) {
        match self {
            Binding::Blank => {}
            Binding::Var(var) => {
                into.insert(*var);
            }
            Binding::Tuple(parts) => parts.iter().for_each(|part| part.vars(into)),
            Binding::Collection(each) => each.vars(into),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Clause {
    /// The way to it in the query's form.
    pub(crate) path: Vec<usize>,
    /// Whether the path leads through the rules, which are an argument, and not the query.
    pub(crate) in_rules: bool,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Entity, attribute, value, transaction, added.
    Pattern([Term; 5]),
    Call {
        function: Function,
        args: Vec<Term>,
        binding: Option<Binding>,
    },
    Not {
        clauses: Vec<Clause>,
        join: Vec<Var>,
    },
    Or {
        branches: Vec<Vec<Clause>>,
        required: Vec<Var>,
    },
    Rule {
        name: Arc<str>,
        args: Vec<Term>,
    },
}

impl Clause {
    /// The variables by which the clause meets others.
    pub(crate) fn vars(&self, into: &mut BTreeSet<Var>) {
        match &self.what {
            What::Pattern(terms) => into.extend(terms.iter().filter_map(Term::var)),
            What::Call { args, binding, .. } => {
                into.extend(args.iter().filter_map(Term::var));
                if let Some(binding) = binding {
                    binding.vars(into);
                }
            }
            What::Not { join, .. } => into.extend(join),
            What::Or { branches, required } => {
                into.extend(required);
                branches
                    .iter()
                    .flatten()
                    .for_each(|clause| clause.vars(into));
            }
            What::Rule { args, .. } => into.extend(args.iter().filter_map(Term::var)),
        }
    }

    /// The variables that the clause can give a value.
    fn binds(&self, into: &mut BTreeSet<Var>) {
        match &self.what {
            What::Pattern(_) | What::Rule { .. } => self.vars(into),
            What::Call {
                binding: Some(binding),
                ..
            } => binding.vars(into),
            What::Call { .. } | What::Not { .. } => {}
            What::Or { branches, .. } => branches
                .iter()
                .flatten()
                .for_each(|clause| clause.binds(into)),
        }
    }

    /// The variables that must have a value before the clause can be tried.
    pub(crate) fn needs(&self) -> Vec<Var> {
        match &self.what {
            What::Pattern(_) | What::Rule { .. } => Vec::new(),
            What::Call { args, .. } => args.iter().filter_map(Term::var).collect(),
            What::Not { join, .. } => join.clone(),
            What::Or { required, .. } => required.clone(),
        }
    }

    /// The error with its place; `rules_at` is the index of the rules among the arguments.
    pub(crate) fn error(&self, error: Error, rules_at: usize) -> Error {
        let error = error.at(&self.path);
        if self.in_rules {
            error.within(rules_at).of_argument("args")
        } else {
            error
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Element {
    Var(Var),
    Aggregate {
        name: AggregateName,
        count: Option<usize>,
        var: Var,
    },
    Pull {
        var: Var,
        pattern: Pattern,
    },
}

impl Element {
    pub(crate) fn var(&self) -> Var {
        match self {
            Element::Var(var) | Element::Aggregate { var, .. } | Element::Pull { var, .. } => *var,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AggregateName {
    Count,
    CountDistinct,
    Distinct,
    Sum,
    Min,
    Max,
    Avg,
    Sample,
}

const AGGREGATES: &[(&str, AggregateName)] = &[
    ("count", AggregateName::Count),
    ("count-distinct", AggregateName::CountDistinct),
    ("distinct", AggregateName::Distinct),
    ("sum", AggregateName::Sum),
    ("min", AggregateName::Min),
    ("max", AggregateName::Max),
    ("avg", AggregateName::Avg),
    ("sample", AggregateName::Sample),
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    Relation,
    Collection,
    Tuple,
    Scalar,
}

#[derive(Clone, Debug)]
pub(crate) enum Input {
    Database,
    Rules,
    Value(Binding),
}

/// A query, read and checked; it can be run on any database.
#[derive(Clone, Debug)]
pub struct Query {
    pub(crate) find: Vec<Element>,
    pub(crate) shape: Shape,
    pub(crate) with: Vec<Var>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) clauses: Vec<Clause>,
    pub(crate) names: Vec<Arc<str>>,
}

#[derive(Clone, Debug)]
pub(crate) struct RuleBranch {
    pub(crate) params: Vec<Var>,
    pub(crate) clauses: Vec<Clause>,
    pub(crate) names: Vec<Arc<str>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    pub(crate) arity: usize,
    /// How many of the first parameters must have a value when the rule is called.
    pub(crate) required: usize,
    pub(crate) branches: Vec<RuleBranch>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(pub(crate) HashMap<Arc<str>, Rule>);

fn bad(message: impl Into<String>) -> Error {
    Error::new(Kind::BadQuery, message)
}

/// Form and the way to it.
type Placed<'f> = (Vec<usize>, &'f Edn);

/// The parts of a query: `:find` and what follows it, and so on.
type Sections<'f> = Vec<(Arc<str>, Vec<Placed<'f>>)>;

impl Query {
    /// Reads a query, in its vector or its map form.
    ///
    /// # Errors
    /// `BadQuery`, with the way to the clause that is wrong.
    pub fn parse(form: &Edn) -> Result<Query> {
        let sections = sections(form)?;
        let part = |name: &str| {
            sections
                .iter()
                .find(|(n, _)| &**n == name)
                .map(|(_, forms)| &forms[..])
        };
        let mut parser = Parser::new(false);
        let Some(find) = part("find").filter(|find| !find.is_empty()) else {
            return Err(bad(
                "a query needs :find and what to find: [:find ?e :where [?e :person/name \"Ada\"]]",
            ));
        };
        let (elements, shape) = parser.find(find)?;
        let with = part("with")
            .unwrap_or_default()
            .iter()
            .map(|placed| parser.placed(placed, Parser::variable));
        let with = with.collect::<Result<Vec<_>>>()?;
        let inputs = part("in")
            .unwrap_or_default()
            .iter()
            .map(|placed| parser.placed(placed, Parser::input));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let mut clauses = Vec::new();
        for (path, form) in part("where").unwrap_or_default() {
            parser.path.clone_from(path);
            parser.clause_into(form, &mut clauses)?;
        }
        let mut bound = BTreeSet::new();
        for input in &inputs {
            if let Input::Value(binding) = input {
                binding.vars(&mut bound);
            }
        }
        join_nots(&mut clauses, &bound);
        check_bound(&clauses, &mut bound, &parser.names)?;
        for var in elements
            .iter()
            .map(Element::var)
            .chain(with.iter().copied())
        {
            if !bound.contains(&var) {
                return Err(bad(format!(
                    "{} is to be found, but no clause and no input gives it a value",
                    parser.names[var]
                )));
            }
        }
        Ok(Query {
            find: elements,
            shape,
            with,
            inputs,
            clauses,
            names: parser.names,
        })
    }

    /// Whether the query takes rules (`%`).
    pub(crate) fn takes_rules(&self) -> bool {
        self.inputs
            .iter()
            .any(|input| matches!(input, Input::Rules))
    }
}

fn sections(form: &Edn) -> Result<Sections<'_>> {
    let known = |name: &Arc<str>, path: usize| match &**name {
        "find" | "with" | "in" | "where" => Ok(()),
        _ => Err(bad(format!(
            "`:{name}` is no part of a query; known are :find :with :in :where"
        ))
        .within(path)),
    };
    let mut sections: Sections<'_> = Vec::new();
    match form {
        Edn::Vector(items) | Edn::List(items) => {
            for (i, item) in items.iter().enumerate() {
                match (item, sections.last_mut()) {
                    (Edn::Keyword(name), _) => {
                        known(name, i)?;
                        if sections.iter().any(|(n, _)| n == name) {
                            return Err(
                                bad(format!("`:{name}` stands in the query twice")).within(i)
                            );
                        }
                        sections.push((name.clone(), Vec::new()));
                    }
                    (_, Some((_, forms))) => forms.push((vec![i], item)),
                    (_, None) => return Err(bad("a query starts with :find").within(i)),
                }
            }
        }
        Edn::Map(members) => {
            for (i, (key, value)) in members.iter().enumerate() {
                let (Edn::Keyword(name), Some(forms)) = (key, value.as_sequence()) else {
                    return Err(bad(
                        "a query as a map has keywords for keys and vectors for values",
                    )
                    .within(2 * i));
                };
                known(name, 2 * i)?;
                sections.push((
                    name.clone(),
                    forms
                        .iter()
                        .enumerate()
                        .map(|(j, f)| (vec![2 * i + 1, j], f))
                        .collect(),
                ));
            }
        }
        _ => {
            return Err(bad(format!(
                "a query is a vector, [:find ?e :where …], or a map, not {}",
                form.kind()
            )));
        }
    }
    Ok(sections)
}

/// Reads `[[(ancestor ?a ?b) [?a :parent ?b]] …]`, which is the argument with the index `argument`.
pub(crate) fn parse_rules(form: &Edn, argument: usize) -> Result<Rules> {
    let rules = parse_rules_form(form).map_err(|e| e.within(argument).of_argument("args"))?;
    rules.check_negation(argument)?;
    Ok(rules)
}

fn parse_rules_form(form: &Edn) -> Result<Rules> {
    let Some(forms) = form.as_sequence() else {
        return Err(bad(format!(
            "rules are a vector of vectors, not {}",
            form.kind()
        )));
    };
    let mut rules = Rules::default();
    for (i, form) in forms.iter().enumerate() {
        let (name, required, branch) = parse_rule(form, i).map_err(|e| e.within(i))?;
        let rule = rules.0.entry(name.clone()).or_default();
        if !rule.branches.is_empty() && rule.arity != branch.params.len() {
            return Err(bad(format!(
                "the rule `{name}` has heads with different numbers of arguments"
            ))
            .within(i));
        }
        rule.arity = branch.params.len();
        rule.required = rule.required.max(required);
        rule.branches.push(branch);
    }
    Ok(rules)
}

fn parse_rule(form: &Edn, index: usize) -> Result<(Arc<str>, usize, RuleBranch)> {
    let shape =
        || bad("a rule is a vector of its head and clauses: [(ancestor ?a ?b) [?a :parent ?b]]");
    let [Edn::List(head) | Edn::Vector(head), body @ ..] = form.as_sequence().ok_or_else(shape)?
    else {
        return Err(shape());
    };
    let Some((Edn::Symbol(name), params)) = head.split_first() else {
        return Err(shape());
    };
    let mut parser = Parser::new(true);
    let (required, rest) = match params.split_first() {
        Some((Edn::Vector(required), rest)) => (&required[..], rest),
        _ => (&[][..], params),
    };
    let vars = required
        .iter()
        .chain(rest)
        .map(|p| parser.variable(p).map_err(|e| e.within(0)))
        .collect::<Result<Vec<_>>>()?;
    if vars.iter().collect::<HashSet<_>>().len() != vars.len() || vars.is_empty() || vars.len() > 60
    {
        return Err(bad("the head of a rule has 1 to 60 different variables").within(0));
    }
    if body.is_empty() {
        return Err(bad(format!("the rule `{name}` has no clause")));
    }
    let mut clauses = Vec::new();
    for (j, form) in body.iter().enumerate() {
        // Errors while parsing get the rule's own index from the caller; clauses keep the whole way.
        parser.path = vec![j + 1];
        parser.clause_into(form, &mut clauses)?;
    }
    prefix_paths(&mut clauses, index);
    let params = vars.iter().copied().collect();
    join_nots(&mut clauses, &params);
    Ok((
        name.clone(),
        required.len(),
        RuleBranch {
            params: vars,
            clauses,
            names: parser.names,
        },
    ))
}

fn prefix_paths(clauses: &mut [Clause], index: usize) {
    for clause in clauses {
        clause.path.insert(0, index);
        match &mut clause.what {
            What::Not { clauses, .. } => prefix_paths(clauses, index),
            What::Or { branches, .. } => branches
                .iter_mut()
                .for_each(|branch| prefix_paths(branch, index)),
            _ => {}
        }
    }
}

impl Rules {
    /// A rule that depends on its own absence means nothing.
    fn check_negation(&self, argument: usize) -> Result<()> {
        let mut rules: Vec<_> = self.0.iter().collect();
        rules.sort_by(|a, b| a.0.cmp(b.0));
        for (name, rule) in rules {
            for clause in rule.branches.iter().flat_map(|branch| &branch.clauses) {
                let mut denied = HashSet::new();
                called(std::slice::from_ref(clause), false, &mut denied);
                let mut reached: HashSet<Arc<str>> = HashSet::new();
                let mut waiting: Vec<Arc<str>> = denied.into_iter().collect();
                while let Some(next) = waiting.pop() {
                    if next == *name {
                        let message = format!(
                            "the rule `{name}` depends on its own `not`, so it has no meaning"
                        );
                        return Err(bad(message)
                            .at(&clause.path)
                            .within(argument)
                            .of_argument("args"));
                    }
                    if reached.insert(next.clone()) {
                        for clause in self
                            .0
                            .get(&next)
                            .iter()
                            .flat_map(|r| &r.branches)
                            .flat_map(|b| &b.clauses)
                        {
                            let mut calls = HashSet::new();
                            called(std::slice::from_ref(clause), true, &mut calls);
                            waiting.extend(calls);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// The rules that are called: all of them, or only those under a `not`.
fn called(clauses: &[Clause], all: bool, into: &mut HashSet<Arc<str>>) {
    for clause in clauses {
        match &clause.what {
            What::Rule { name, .. } if all => {
                into.insert(name.clone());
            }
            What::Not { clauses, .. } => called(clauses, true, into),
            What::Or { branches, .. } => {
                branches.iter().for_each(|branch| called(branch, all, into))
            }
            _ => {}
        }
    }
}

/// Finds by which variables each `not` meets the clauses around it.
fn join_nots(clauses: &mut [Clause], outer: &BTreeSet<Var>) {
    let mut around = outer.clone();
    clauses.iter().for_each(|clause| clause.binds(&mut around));
    for clause in clauses {
        match &mut clause.what {
            What::Not { clauses, join } => {
                if join.is_empty() {
                    let mut inside = BTreeSet::new();
                    all_vars(clauses, &mut inside);
                    *join = inside.intersection(&around).copied().collect();
                }
                let join = join.iter().copied().collect();
                join_nots(clauses, &join);
            }
            What::Or { branches, .. } => branches
                .iter_mut()
                .for_each(|branch| join_nots(branch, &around)),
            _ => {}
        }
    }
}

/// Every variable, those inside a `not` included.
fn all_vars(clauses: &[Clause], into: &mut BTreeSet<Var>) {
    for clause in clauses {
        match &clause.what {
            What::Not { clauses, join } => {
                into.extend(join);
                all_vars(clauses, into);
            }
            What::Or { branches, .. } => {
                clause.vars(into);
                branches.iter().for_each(|branch| all_vars(branch, into));
            }
            _ => clause.vars(into),
        }
    }
}

/// Checks that some order of the clauses gives every variable a value before it is needed.
fn check_bound(clauses: &[Clause], bound: &mut BTreeSet<Var>, names: &[Arc<str>]) -> Result<()> {
    let mut waiting: Vec<&Clause> = clauses.iter().collect();
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut stuck = Vec::new();
        for clause in waiting {
            if clause.needs().iter().all(|var| bound.contains(var)) {
                clause.binds(bound);
            } else {
                stuck.push(clause);
            }
        }
        waiting = stuck;
        if waiting.len() == before {
            return Err(unbound(waiting[0], |var| bound.contains(&var), names));
        }
    }
    for clause in clauses {
        match &clause.what {
            What::Not { clauses, join } => {
                check_bound(clauses, &mut join.iter().copied().collect(), names)?
            }
            What::Or { branches, .. } => {
                for branch in branches {
                    check_bound(branch, &mut bound.clone(), names)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn unbound(clause: &Clause, bound: impl Fn(Var) -> bool, names: &[Arc<str>]) -> Error {
    let missing = clause.needs().into_iter().find(|var| !bound(*var));
    let name = missing
        .and_then(|var| names.get(var))
        .map_or("?", |name| name);
    bad(format!(
        "{name} has no value where it is needed: no pattern, function or input gives it one"
    ))
    .at(&clause.path)
}

struct Parser {
    names: Vec<Arc<str>>,
    env: HashMap<Arc<str>, Var>,
    path: Vec<usize>,
    in_rules: bool,
}

impl Parser {
    fn new(in_rules: bool) -> Parser {
        Parser {
            names: Vec::new(),
            env: HashMap::new(),
            path: Vec::new(),
            in_rules,
        }
    }

    fn placed<T>(
        &mut self,
        (path, form): &Placed<'_>,
        parse: fn(&mut Parser, &Edn) -> Result<T>,
    ) -> Result<T> {
        self.path.clone_from(path);
        parse(self, form).map_err(|e| e.at(path))
    }

    fn name(&mut self, name: &Arc<str>) -> Var {
        let next = self.names.len();
        let var = *self.env.entry(name.clone()).or_insert(next);
        if var == next {
            self.names.push(name.clone());
        }
        var
    }

    fn variable(&mut self, form: &Edn) -> Result<Var> {
        match form {
            Edn::Symbol(name) if name.starts_with('?') && name.len() > 1 => Ok(self.name(name)),
            _ => Err(bad(format!(
                "a variable such as ?e is expected, not {}",
                form.brief(60)
            ))),
        }
    }

    fn term(&mut self, form: &Edn) -> Result<Term> {
        match form {
            Edn::Symbol(name) if &**name == "_" => Ok(Term::Blank),
            Edn::Symbol(name) if name.starts_with('?') => Ok(Term::Var(self.variable(form)?)),
            Edn::Symbol(name) => Err(bad(format!(
                "`{name}` is neither a variable (they start with `?`) nor a value; a text stands in quotes"
            ))),
            _ => Ok(Term::Const(form.clone())),
        }
    }

    // -------------------------------------------------------------------------- find and in

    fn find(&mut self, forms: &[Placed<'_>]) -> Result<(Vec<Element>, Shape)> {
        let is = |form: &Edn, name: &str| form.as_symbol() == Some(name);
        if let [one, (_, dot)] = forms
            && is(dot, ".")
        {
            return Ok((vec![self.placed(one, Parser::element)?], Shape::Scalar));
        }
        if let [(path, Edn::Vector(items))] = forms {
            let at = |i: usize| path.iter().copied().chain([i]).collect::<Vec<_>>();
            if let [one, dots] = &items[..]
                && is(dots, "...")
            {
                return Ok((
                    vec![self.placed(&(at(0), one), Parser::element)?],
                    Shape::Collection,
                ));
            }
            if items.is_empty() {
                return Err(bad("there is nothing to find").at(path));
            }
            let elements = items
                .iter()
                .enumerate()
                .map(|(i, f)| self.placed(&(at(i), f), Parser::element));
            return Ok((elements.collect::<Result<_>>()?, Shape::Tuple));
        }
        let elements = forms
            .iter()
            .map(|placed| self.placed(placed, Parser::element))
            .collect::<Result<_>>()?;
        Ok((elements, Shape::Relation))
    }

    fn element(&mut self, form: &Edn) -> Result<Element> {
        let Edn::List(items) = form else {
            return Ok(Element::Var(self.variable(form)?));
        };
        match &items[..] {
            [Edn::Symbol(name), entity, pattern] if &**name == "pull" => {
                let var = self.variable(entity).map_err(|e| e.within(1))?;
                let mut pattern = Pattern::parse(pattern).map_err(|e| e.within(2))?;
                pattern.place(2);
                self.path.iter().rev().for_each(|step| pattern.place(*step));
                Ok(Element::Pull { var, pattern })
            }
            [Edn::Symbol(name), rest @ .., last] if rest.len() <= 1 => {
                let Some((_, aggregate)) = AGGREGATES.iter().find(|(n, _)| *n == &**name) else {
                    let known: Vec<&str> = AGGREGATES.iter().map(|(n, _)| *n).collect();
                    return Err(bad(format!(
                        "`{name}` is no aggregate; known are {} and pull",
                        known.join(" ")
                    )));
                };
                let var = self.variable(last).map_err(|e| e.within(items.len() - 1))?;
                let count = match rest {
                    [] => None,
                    [Edn::Int(n)] if (1..=1_000_000).contains(n) => Some(*n as usize),
                    _ => {
                        return Err(bad(format!(
                            "`({name} n ?x)`: n is a number from 1 to 1000000"
                        ))
                        .within(1));
                    }
                };
                match (aggregate, count) {
                    (AggregateName::Sample, None) => {
                        Err(bad("`sample` needs a number: (sample 3 ?x)"))
                    }
                    (AggregateName::Sample | AggregateName::Min | AggregateName::Max, _)
                    | (_, None) => Ok(Element::Aggregate {
                        name: *aggregate,
                        count,
                        var,
                    }),
                    _ => Err(bad(format!("`{name}` takes a variable alone"))),
                }
            }
            _ => Err(bad(
                "a variable, an aggregate (count ?x) or (pull ?e [*]) is expected",
            )),
        }
    }

    fn input(&mut self, form: &Edn) -> Result<Input> {
        match form.as_symbol() {
            Some("$") => Ok(Input::Database),
            Some("%") => Ok(Input::Rules),
            Some(name) if name.starts_with('$') => {
                Err(bad(format!("`{name}`: there is one database, `$`")))
            }
            _ => Ok(Input::Value(self.binding(form)?)),
        }
    }

    fn binding(&mut self, form: &Edn) -> Result<Binding> {
        match form {
            Edn::Symbol(name) if &**name == "_" => Ok(Binding::Blank),
            Edn::Symbol(_) => Ok(Binding::Var(self.variable(form)?)),
            Edn::Vector(items) => match &items[..] {
                [each, dots] if dots.as_symbol() == Some("...") => {
                    Ok(Binding::Collection(Box::new(self.binding(each)?)))
                }
                [Edn::Vector(row)] => Ok(Binding::Collection(Box::new(self.tuple(row)?))),
                [] => Err(bad("an empty binding takes nothing apart")),
                _ => self.tuple(items),
            },
            _ => Err(bad(format!(
                "a binding is ?x, [?x ?y], [?x ...] or [[?x ?y]], not {}",
                form.brief(60)
            ))),
        }
    }

    fn tuple(&mut self, items: &[Edn]) -> Result<Binding> {
        Ok(Binding::Tuple(
            items
                .iter()
                .map(|item| self.binding(item))
                .collect::<Result<_>>()?,
        ))
    }

    // -------------------------------------------------------------------------- clauses

    fn clause_into(&mut self, form: &Edn, into: &mut Vec<Clause>) -> Result<()> {
        let path = self.path.clone();
        if let Edn::List(items) = form
            && items.first().and_then(Edn::as_symbol) == Some("and")
        {
            return self.clauses(&items[1..], 1, into);
        }
        match form {
            Edn::Vector(items) | Edn::List(items) if items.is_empty() => {
                Err(bad("an empty clause").at(&path))
            }
            Edn::Vector(items) => {
                let what = match &items[0] {
                    Edn::List(call) => self.call(call, &items[1..]),
                    _ => self.pattern(items),
                };
                into.push(self.made(path.clone(), what.map_err(|e| e.at(&path))?));
                Ok(())
            }
            Edn::List(items) => {
                // Nested clauses place their errors themselves.
                let what = self.group(items)?;
                into.push(self.made(path, what));
                Ok(())
            }
            _ => Err(bad(format!(
                "a clause is a vector or a list, not {}",
                form.brief(60)
            ))
            .at(&path)),
        }
    }

    fn made(&self, path: Vec<usize>, what: What) -> Clause {
        Clause {
            path,
            in_rules: self.in_rules,
            what,
        }
    }

    /// The clauses of a list form, the first of which stands at `offset`.
    fn clauses(&mut self, forms: &[Edn], offset: usize, into: &mut Vec<Clause>) -> Result<()> {
        for (i, form) in forms.iter().enumerate() {
            self.path.push(offset + i);
            self.clause_into(form, into)?;
            self.path.pop();
        }
        Ok(())
    }

    fn pattern(&mut self, items: &[Edn]) -> Result<What> {
        let skip = usize::from(items[0].as_symbol() == Some("$"));
        let items = &items[skip..];
        if items.is_empty() || items.len() > 5 {
            return Err(bad(
                "a pattern is [entity attribute value tx added], with one to five parts",
            ));
        }
        let mut terms = [
            Term::Blank,
            Term::Blank,
            Term::Blank,
            Term::Blank,
            Term::Blank,
        ];
        for (i, item) in items.iter().enumerate() {
            terms[i] = self.term(item).map_err(|e| e.within(skip + i))?;
        }
        match &terms[1] {
            Term::Const(Edn::Keyword(name)) => {
                if let Some(forward) = crate::transact::reverse(name) {
                    terms[1] = Term::Const(Edn::keyword(&forward));
                    terms.swap(0, 2);
                }
            }
            Term::Const(Edn::Int(_)) | Term::Var(_) | Term::Blank => {}
            Term::Const(other) => {
                return Err(bad(format!(
                    "an attribute is a keyword such as :person/name, not {}",
                    other.brief(60)
                ))
                .within(skip + 1));
            }
        }
        Ok(What::Pattern(terms))
    }

    fn call(&mut self, call: &[Edn], rest: &[Edn]) -> Result<What> {
        let Some((Edn::Symbol(name), args)) = call.split_first() else {
            return Err(bad(
                "a call is a list that starts with the name of a function: [(< ?a 10)]",
            )
            .within(0));
        };
        let function = Function::named(name).map_err(|e| e.within(0))?;
        let skip = usize::from(
            function.reads_database() && args.first().and_then(Edn::as_symbol) == Some("$"),
        );
        let terms = args[skip..]
            .iter()
            .enumerate()
            .map(|(i, arg)| match self.term(arg) {
                Ok(Term::Blank) => Err(bad("`_` is no argument").within(i + 1 + skip).within(0)),
                term => term.map_err(|e| e.within(i + 1 + skip).within(0)),
            });
        let terms = terms.collect::<Result<Vec<_>>>()?;
        function.check(&terms).map_err(|e| e.within(0))?;
        let binding = match rest {
            [] => None,
            [binding] => Some(self.binding(binding).map_err(|e| e.within(1))?),
            _ => {
                return Err(bad(
                    "after a call stands one binding at most: [(inc ?a) ?b]",
                ));
            }
        };
        if binding.is_none() && !function.is_predicate() {
            return Err(bad(format!(
                "the result of `{name}` needs a variable to go to: [({name} …) ?x]"
            )));
        }
        Ok(What::Call {
            function,
            args: terms,
            binding,
        })
    }

    fn group(&mut self, items: &[Edn]) -> Result<What> {
        let path = self.path.clone();
        let here = |message: String| Err(bad(message).at(&path));
        let skip = usize::from(items[0].as_symbol() == Some("$"));
        let items = &items[skip..];
        let Some((Edn::Symbol(name), rest)) = items.split_first() else {
            return here("a list starts with `not`, `not-join`, `or`, `or-join` or the name of a rule; a pattern is a vector".into());
        };
        match &**name {
            "not" => {
                let mut clauses = Vec::new();
                self.clauses(rest, skip + 1, &mut clauses)?;
                if clauses.is_empty() {
                    return here("`not` needs a clause".into());
                }
                Ok(What::Not {
                    clauses,
                    join: Vec::new(),
                })
            }
            "not-join" => {
                let Some((Edn::Vector(vars), rest)) = rest.split_first() else {
                    return here(
                        "`not-join` names the variables it shares: (not-join [?e] …)".into(),
                    );
                };
                let join = vars
                    .iter()
                    .map(|v| self.variable(v))
                    .collect::<Result<Vec<_>>>()
                    .map_err(|e| e.at(&path))?;
                if join.is_empty() || rest.is_empty() {
                    return here("`not-join` needs a variable and a clause".into());
                }
                let outer = self.enter(&join);
                let mut clauses = Vec::new();
                self.clauses(rest, skip + 2, &mut clauses)?;
                self.env = outer;
                Ok(What::Not { clauses, join })
            }
            "or" => {
                let branches = self.branches(rest, skip + 1, None)?;
                let vars = branches.iter().map(|branch| {
                    let mut vars = BTreeSet::new();
                    branch.iter().for_each(|clause| clause.vars(&mut vars));
                    vars
                });
                let vars: Vec<_> = vars.collect();
                if vars.windows(2).any(|pair| pair[0] != pair[1]) {
                    return here("every branch of `or` must use the same variables; or-join names those that matter".into());
                }
                if branches.is_empty() {
                    return here("`or` needs a branch".into());
                }
                Ok(What::Or {
                    branches,
                    required: Vec::new(),
                })
            }
            "or-join" => {
                let Some((Edn::Vector(vars), rest)) = rest.split_first() else {
                    return here(
                        "`or-join` names the variables it shares: (or-join [?e] …)".into(),
                    );
                };
                let (required, free) = match vars.split_first() {
                    Some((Edn::Vector(required), free)) => (&required[..], free),
                    _ => (&[][..], &vars[..]),
                };
                let mut named = |forms: &[Edn]| {
                    forms
                        .iter()
                        .map(|v| self.variable(v))
                        .collect::<Result<Vec<_>>>()
                        .map_err(|e| e.at(&path))
                };
                let (required, free) = (named(required)?, named(free)?);
                let shared: Vec<Var> = required.iter().chain(&free).copied().collect();
                if shared.is_empty() || rest.is_empty() {
                    return here("`or-join` needs a variable and a branch".into());
                }
                let branches = self.branches(rest, skip + 2, Some(&shared))?;
                for branch in &branches {
                    let mut bound = required.iter().copied().collect::<BTreeSet<_>>();
                    all_vars(branch, &mut bound);
                    if let Some(var) = free.iter().find(|var| !bound.contains(var)) {
                        return here(format!(
                            "a branch of `or-join` does not speak of {}",
                            self.names[*var]
                        ));
                    }
                }
                Ok(What::Or { branches, required })
            }
            "and" => here("`and` stands alone".into()),
            _ if rest.is_empty() => here(format!("the rule `{name}` needs arguments")),
            _ => {
                let args = rest
                    .iter()
                    .enumerate()
                    .map(|(i, arg)| self.term(arg).map_err(|e| e.within(skip + 1 + i).at(&path)));
                Ok(What::Rule {
                    name: name.clone(),
                    args: args.collect::<Result<_>>()?,
                })
            }
        }
    }

    fn branches(
        &mut self,
        forms: &[Edn],
        offset: usize,
        shared: Option<&[Var]>,
    ) -> Result<Vec<Vec<Clause>>> {
        let mut branches = Vec::new();
        for (i, form) in forms.iter().enumerate() {
            let outer = shared.map(|shared| self.enter(shared));
            let mut branch = Vec::new();
            self.clauses(std::slice::from_ref(form), offset + i, &mut branch)?;
            if let Some(outer) = outer {
                self.env = outer;
            }
            branches.push(branch);
        }
        Ok(branches)
    }

    /// Hides all names but those of `shared`; gives what to restore.
    fn enter(&mut self, shared: &[Var]) -> HashMap<Arc<str>, Var> {
        let inner = shared
            .iter()
            .map(|var| (self.names[*var].clone(), *var))
            .collect();
        std::mem::replace(&mut self.env, inner)
    }
}
