//! The solver: clauses to rows.
//!
//! A relation, a table of rows over variables, starts with the inputs and meets one clause after
//! the other. At each step the clause that promises the fewest rows is taken, judged by counting a
//! few look-ups in the index, so the order in which a query was written does not matter.
//!
//! Rules are solved by tabling. A table holds the answers to one rule for one set of arguments
//! given; a call adds its arguments to the table and leaves behind what is to be done with each
//! answer (a [`Consumer`]). New arguments and new answers go through a queue until nothing is new,
//! so recursion ends, every answer meets every consumer once, and the stack stays flat.

use super::functions::Function;
use super::parse::{Binding, Clause, Rule, Rules, Term, Var, What, unbound};
use super::{Limits, Work};
use crate::edn::Edn;
use crate::error::{Error, Kind, Result};
use crate::schema::{Attribute, TX_BASE, ValueType};
use crate::storage::{Datom, Db, Known};
use crate::value::fit;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

pub(crate) type Row = Box<[Edn]>;

#[derive(Clone, Debug)]
pub(crate) struct Relation {
    pub(crate) vars: Vec<Var>,
    pub(crate) rows: Vec<Row>,
}

impl Relation {
    fn column(&self, var: Var) -> Option<usize> {
        self.vars.iter().position(|v| *v == var)
    }

    /// The rows over some of the variables, each once.
    fn project(&self, vars: &[Var]) -> Relation {
        let columns: Vec<usize> = vars.iter().filter_map(|v| self.column(*v)).collect();
        let mut seen = HashSet::new();
        for row in &self.rows {
            let projected: Row = columns.iter().map(|c| row[*c].clone()).collect();
            seen.insert(projected);
        }
        Relation {
            vars: columns.iter().map(|c| self.vars[*c]).collect(),
            rows: seen.into_iter().collect(),
        }
    }
}

/// Where finished rows go: to the caller, or to the answers of a table.
#[derive(Clone, Copy)]
struct Sink<'q> {
    table: Option<usize>,
    out: &'q [Var],
    names: &'q [Arc<str>],
}

struct Table<'q> {
    rule: &'q Rule,
    /// Which arguments are given.
    given: u64,
    inputs: HashSet<Row>,
    answers: HashSet<Row>,
    by_input: HashMap<Row, Vec<Row>>,
    consumers: Vec<Consumer<'q>>,
}

/// A call of a rule that waits for answers.
struct Consumer<'q> {
    call: &'q [Term],
    rest: Vec<&'q Clause>,
    vars: Vec<Var>,
    rows: HashMap<Row, Vec<Row>>,
    sink: Sink<'q>,
}

enum News {
    Inputs(usize, Vec<Row>),
    Answers(usize, Vec<Row>),
}

pub(crate) struct Solver<'q, 'd, 's> {
    db: &'d Db<'s>,
    rules: &'q Rules,
    /// The index of the rules among the arguments, for errors.
    rules_at: usize,
    work: &'d Work<'d>,
    tables: Vec<Table<'q>>,
    table_of: HashMap<(Arc<str>, u64), usize>,
    news: VecDeque<News>,
    pending: HashMap<usize, Vec<Row>>,
    results: HashSet<Row>,
}

/// The rows over `out` that satisfy the clauses, started from `inputs`.
pub(crate) fn solve<'q>(
    db: &Db<'_>,
    (rules, rules_at): (&'q Rules, usize),
    work: &Work<'_>,
    inputs: Relation,
    clauses: &'q [Clause],
    (out, names): (&'q [Var], &'q [Arc<str>]),
) -> Result<HashSet<Row>> {
    let mut solver = Solver {
        db,
        rules,
        rules_at,
        work,
        tables: Vec::new(),
        table_of: HashMap::new(),
        news: VecDeque::new(),
        pending: HashMap::new(),
        results: HashSet::new(),
    };
    solver.run(
        inputs,
        clauses.iter().collect(),
        Sink {
            table: None,
            out,
            names,
        },
    )?;
    solver.settle()?;
    Ok(solver.results)
}

impl<'q> Solver<'q, '_, '_> {
    fn error(&self, clause: &Clause, error: Error) -> Error {
        clause.error(error, self.rules_at)
    }

    /// Meets one clause after the other until rows reach the sink or wait for a rule.
    fn run(
        &mut self,
        mut relation: Relation,
        mut clauses: Vec<&'q Clause>,
        sink: Sink<'q>,
    ) -> Result<()> {
        loop {
            if relation.rows.is_empty() {
                return Ok(());
            }
            self.work.rows(relation.rows.len())?;
            if clauses.is_empty() {
                return self.emit(&relation, sink);
            }
            relation = drop_unneeded(relation, &clauses, sink);
            let clause = clauses.remove(self.choose(&relation, &clauses, sink)?);
            relation = match &clause.what {
                What::Pattern(terms) => self
                    .join(&relation, terms)
                    .map_err(|e| self.error(clause, e))?,
                What::Call {
                    function,
                    args,
                    binding,
                } => self
                    .call(relation, *function, args, binding.as_ref())
                    .map_err(|e| self.error(clause, e))?,
                What::Not {
                    clauses: denied,
                    join,
                } => self.deny(relation, denied, join, sink.names)?,
                What::Or { branches, .. } => {
                    for branch in branches {
                        let both = branch.iter().chain(clauses.iter().copied()).collect();
                        self.run(relation.clone(), both, sink)?;
                    }
                    return Ok(());
                }
                What::Rule { name, args } => {
                    let joined = self.ask(clause, name, args, relation, &clauses, sink)?;
                    // The rest goes on with the answers that are there; others come through the queue.
                    return match joined {
                        Some(joined) => self.run(joined, clauses, sink),
                        None => Ok(()),
                    };
                }
            };
        }
    }

    fn emit(&mut self, relation: &Relation, sink: Sink<'q>) -> Result<()> {
        let columns = sink.out.iter().map(|var| {
            relation.column(*var).ok_or_else(|| {
                let name = sink.names.get(*var).map_or("?", |n| n);
                Error::new(
                    Kind::BadQuery,
                    format!("{name} stands in the head of a rule, but the rule gives it no value"),
                )
                .of_argument("args")
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        for row in &relation.rows {
            let row: Row = columns.iter().map(|c| row[*c].clone()).collect();
            match sink.table {
                None => {
                    self.results.insert(row);
                    self.work.rows(self.results.len())?;
                }
                Some(table) => {
                    if self.tables[table].answers.insert(row.clone()) {
                        self.work.step(1)?;
                        self.pending.entry(table).or_default().push(row);
                    }
                }
            }
        }
        Ok(())
    }

    /// Works off what is new until nothing is.
    fn settle(&mut self) -> Result<()> {
        loop {
            let ready: Vec<(usize, Vec<Row>)> = self.pending.drain().collect();
            self.news.extend(
                ready
                    .into_iter()
                    .map(|(table, rows)| News::Answers(table, rows)),
            );
            match self.news.pop_front() {
                None => return Ok(()),
                Some(News::Inputs(table, rows)) => self.start(table, &rows)?,
                Some(News::Answers(table, rows)) => self.deliver(table, rows)?,
            }
        }
    }

    /// Solves a rule's branches for new arguments.
    fn start(&mut self, table: usize, inputs: &[Row]) -> Result<()> {
        let (rule, given) = (self.tables[table].rule, self.tables[table].given);
        for branch in &rule.branches {
            let vars = (0..rule.arity)
                .filter(|i| given >> i & 1 == 1)
                .map(|i| branch.params[i])
                .collect();
            let relation = Relation {
                vars,
                rows: inputs.to_vec(),
            };
            let sink = Sink {
                table: Some(table),
                out: &branch.params,
                names: &branch.names,
            };
            self.run(relation, branch.clauses.iter().collect(), sink)?;
        }
        Ok(())
    }

    /// Hands new answers to everyone who called.
    fn deliver(&mut self, table: usize, answers: Vec<Row>) -> Result<()> {
        let given = self.tables[table].given;
        for answer in &answers {
            let key = given_part(answer, given);
            self.tables[table]
                .by_input
                .entry(key)
                .or_default()
                .push(answer.clone());
        }
        // Consumers that are added while answers are delivered see them in `by_input`.
        for i in 0..self.tables[table].consumers.len() {
            let consumer = &self.tables[table].consumers[i];
            let mut join = AnswerJoin::new(&consumer.vars, consumer.call);
            for answer in &answers {
                for row in consumer
                    .rows
                    .get(&given_part(answer, given))
                    .into_iter()
                    .flatten()
                {
                    self.work.step(1)?;
                    join.add(row, answer);
                }
            }
            let (rest, sink) = (consumer.rest.clone(), consumer.sink);
            self.run(join.relation, rest, sink)?;
        }
        Ok(())
    }

    /// Calls a rule: registers the arguments and the rest of the work, and joins what is known.
    fn ask(
        &mut self,
        clause: &'q Clause,
        name: &Arc<str>,
        call: &'q [Term],
        relation: Relation,
        rest: &[&'q Clause],
        sink: Sink<'q>,
    ) -> Result<Option<Relation>> {
        let rules: &'q Rules = self.rules;
        let Some(rule) = rules.0.get(name) else {
            let message =
                format!("there is no rule `{name}`; rules come as an argument, with `%` in :in");
            return Err(self.error(clause, Error::new(Kind::BadQuery, message)));
        };
        if rule.arity != call.len() {
            let message = format!(
                "the rule `{name}` takes {} arguments and got {}",
                rule.arity,
                call.len()
            );
            return Err(self.error(clause, Error::new(Kind::BadQuery, message)));
        }
        let is_given = |term: &Term| match term {
            Term::Var(var) => relation.column(*var).is_some(),
            Term::Const(_) => true,
            Term::Blank => false,
        };
        let given = call
            .iter()
            .enumerate()
            .filter(|(_, term)| is_given(term))
            .fold(0u64, |mask, (i, _)| mask | 1 << i);
        let table = *self
            .table_of
            .entry((name.clone(), given))
            .or_insert(self.tables.len());
        if table == self.tables.len() {
            self.tables.push(Table {
                rule,
                given,
                inputs: HashSet::new(),
                answers: HashSet::new(),
                by_input: HashMap::new(),
                consumers: Vec::new(),
            });
        }
        let key_of = |row: &Row| -> Row {
            let given = call.iter().filter(|term| is_given(term));
            given
                .map(|term| match term {
                    Term::Var(var) => relation.column(*var).map_or(Edn::Nil, |c| row[c].clone()),
                    Term::Const(value) => value.clone(),
                    Term::Blank => Edn::Nil,
                })
                .collect()
        };
        let table = &mut self.tables[table];
        let at = table
            .consumers
            .iter()
            .position(|c| c.is_for(call, rest, &relation.vars, sink))
            .unwrap_or(table.consumers.len());
        if at == table.consumers.len() {
            let (rest, vars) = (rest.to_vec(), relation.vars.clone());
            table.consumers.push(Consumer {
                call,
                rest,
                vars,
                rows: HashMap::new(),
                sink,
            });
        }
        let mut fresh = Vec::new();
        let mut join = AnswerJoin::new(&relation.vars, call);
        for row in &relation.rows {
            let key = key_of(row);
            if table.inputs.insert(key.clone()) {
                fresh.push(key.clone());
            }
            for answer in table.by_input.get(&key).into_iter().flatten() {
                self.work.step(1)?;
                join.add(row, answer);
            }
            table.consumers[at]
                .rows
                .entry(key)
                .or_default()
                .push(row.clone());
        }
        let table = self.table_of[&(name.clone(), given)];
        if !fresh.is_empty() {
            self.news.push_back(News::Inputs(table, fresh));
        }
        Ok((!join.relation.rows.is_empty()).then_some(join.relation))
    }

    // -------------------------------------------------------------------------- the choice

    /// The clause that promises the fewest rows; of equals the one written first.
    fn choose(&self, relation: &Relation, clauses: &[&Clause], sink: Sink<'_>) -> Result<usize> {
        let ready: Vec<usize> = (0..clauses.len())
            .filter(|i| is_ready(relation, clauses[*i], self.rules))
            .collect();
        match ready[..] {
            [] => {
                let error = unbound(clauses[0], |var| relation.column(var).is_some(), sink.names);
                Err(if clauses[0].in_rules {
                    error.within(self.rules_at).of_argument("args")
                } else {
                    error
                })
            }
            [only] => Ok(only),
            _ => {
                let mut best = (f64::INFINITY, ready[0]);
                for i in ready {
                    let promise = self
                        .promise(relation, clauses[i])
                        .map_err(|e| self.error(clauses[i], e))?;
                    if promise < best.0 {
                        best = (promise, i);
                    }
                    if promise < 0.0 {
                        break;
                    }
                }
                Ok(best.1)
            }
        }
    }

    /// About how many rows there will be after the clause; below 0 for what is free.
    fn promise(&self, relation: &Relation, clause: &Clause) -> Result<f64> {
        let rows = relation.rows.len() as f64;
        Ok(match &clause.what {
            What::Call {
                function: Function::Fulltext,
                ..
            } => rows * 20.0,
            What::Call { .. } => -1.0,
            What::Not { .. } => rows * 0.9,
            What::Pattern(terms) => rows * self.fan_out(relation, terms)?,
            What::Or { branches, .. } => {
                let mut sum = 0.0;
                for branch in branches {
                    let mut least = f64::MAX;
                    for clause in branch.iter().filter(|c| is_ready(relation, c, self.rules)) {
                        least = least.min(self.promise(relation, clause)?.max(rows));
                    }
                    sum += least;
                }
                sum
            }
            What::Rule { args, .. } => {
                let is_given = |t: &Term| {
                    t.var()
                        .map_or(*t != Term::Blank, |v| relation.column(v).is_some())
                };
                match args.iter().filter(|t| is_given(t)).count() {
                    0 => 1e12,
                    n if n == args.len() => rows * 2.0,
                    _ => rows * 50.0,
                }
            }
        })
    }

    /// How many facts meet one row, on average over a few rows.
    fn fan_out(&self, relation: &Relation, terms: &[Term; 5]) -> Result<f64> {
        let last = relation.rows.len() - 1;
        let samples: BTreeSet<usize> = [0, last / 2, last].into();
        let limit = if last == 0 { 2000 } else { 200 };
        let mut met = 0;
        for i in &samples {
            self.work.step(1)?;
            if let Some(lookup) = Lookup::new(self.db, terms, |var| {
                relation.column(var).map(|c| &relation.rows[*i][c])
            })? {
                met += self.db.count_up_to(lookup.known(), limit)?;
            }
        }
        Ok(met as f64 / samples.len() as f64)
    }

    // -------------------------------------------------------------------------- patterns

    fn join(&self, relation: &Relation, terms: &[Term; 5]) -> Result<Relation> {
        let bound: Vec<usize> = terms
            .iter()
            .filter_map(|t| relation.column(t.var()?))
            .collect();
        let mut new_vars: Vec<Var> = Vec::new();
        for var in terms.iter().filter_map(Term::var) {
            if relation.column(var).is_none() && !new_vars.contains(&var) {
                new_vars.push(var);
            }
        }
        let mut joined = Relation {
            vars: relation.vars.iter().chain(&new_vars).copied().collect(),
            rows: Vec::new(),
        };
        // Rows that differ only in other columns meet the same facts.
        let mut known: HashMap<Row, Rc<Vec<Row>>> = HashMap::new();
        let repeats = bound.len() < relation.vars.len() && relation.rows.len() > 1;
        for row in &relation.rows {
            let key: Row = if repeats {
                bound.iter().map(|c| row[*c].clone()).collect()
            } else {
                Box::new([])
            };
            let met = match known.get(&key).filter(|_| repeats) {
                Some(met) => met.clone(),
                None => {
                    let met = Rc::new(self.meet(relation, row, terms, &new_vars)?);
                    if repeats {
                        known.insert(key, met.clone());
                    }
                    met
                }
            };
            for new in met.iter() {
                joined
                    .rows
                    .push(row.iter().chain(new.iter()).cloned().collect());
            }
            self.work.rows(joined.rows.len())?;
            self.work.step(met.len() as u64)?;
        }
        Ok(joined)
    }

    /// The values that facts give the new variables, for one row.
    fn meet(
        &self,
        relation: &Relation,
        row: &Row,
        terms: &[Term; 5],
        new_vars: &[Var],
    ) -> Result<Vec<Row>> {
        let value = |var: Var| relation.column(var).map(|c| &row[c]);
        self.work.step(1)?;
        let Some(lookup) = Lookup::new(self.db, terms, value)? else {
            return Ok(Vec::new());
        };
        let mut met = Vec::new();
        self.db.scan(lookup.known(), &mut |datom| {
            self.work.step(1)?;
            if lookup.added.is_none_or(|added| added == datom.added)
                && let Some(new) = bind(terms, datom, new_vars)
            {
                met.push(new);
            }
            Ok(true)
        })?;
        // One fact may be met twice when some part of it is not asked for.
        if terms.contains(&Term::Blank) {
            let mut seen = HashSet::new();
            met.retain(|row: &Row| seen.insert(row.clone()));
        }
        Ok(met)
    }

    // -------------------------------------------------------------------------- functions, not

    fn call(
        &self,
        relation: Relation,
        function: Function,
        args: &[Term],
        binding: Option<&Binding>,
    ) -> Result<Relation> {
        let columns: Vec<Option<usize>> = args
            .iter()
            .map(|t| t.var().and_then(|v| relation.column(v)))
            .collect();
        let mut new_vars = Vec::new();
        if let Some(binding) = binding {
            let mut vars = BTreeSet::new();
            binding.vars(&mut vars);
            new_vars.extend(vars.into_iter().filter(|v| relation.column(*v).is_none()));
        }
        let vars: Vec<Var> = relation.vars.iter().chain(&new_vars).copied().collect();
        let mut result = Relation {
            vars: vars.clone(),
            rows: Vec::new(),
        };
        for row in relation.rows {
            let values: Vec<&Edn> = args
                .iter()
                .zip(&columns)
                .map(|(term, column)| match (term, column) {
                    (_, Some(column)) => &row[*column],
                    (Term::Const(value), _) => value,
                    _ => &Edn::Nil,
                })
                .collect();
            self.work.step(1)?;
            let value = if function.reads_database() {
                self.read(function, &values)?
            } else {
                function.apply(&values)?
            };
            match binding {
                None => {
                    if !matches!(value, Edn::Bool(false) | Edn::Nil) {
                        result.rows.push(row);
                    }
                }
                Some(binding) => {
                    let start: Vec<Option<Edn>> = row
                        .iter()
                        .cloned()
                        .map(Some)
                        .chain(new_vars.iter().map(|_| None))
                        .collect();
                    take_apart(binding, &value, &vars, start, &mut |full| {
                        result.rows.push(full);
                        self.work.rows(result.rows.len())
                    })?;
                }
            }
        }
        Ok(result)
    }

    fn read(&self, function: Function, values: &[&Edn]) -> Result<Edn> {
        let name = |at: usize| values[at].as_keyword().unwrap_or("");
        if function == Function::Fulltext {
            let attribute = self
                .db
                .schema
                .attribute(name(0))
                .map_err(|e| e.within(1).within(0))?;
            if !attribute.fulltext {
                let message = format!(
                    ":{} has no :db/fulltext, so its texts cannot be searched",
                    attribute.ident
                );
                return Err(Error::new(Kind::BadQuery, message).attribute(&attribute.ident));
            }
            let text = values[1]
                .as_str()
                .ok_or_else(|| Error::new(Kind::BadQuery, "`fulltext` searches for a string"))?;
            let mut found = Vec::new();
            self.db
                .search(text, Some(attribute.id), &mut |datom, score| {
                    self.work.step(1)?;
                    let tx = Edn::Int(TX_BASE + datom.t);
                    found.push(Edn::Vector(vec![
                        Edn::Int(datom.e),
                        datom.v,
                        tx,
                        Edn::Double(score),
                    ]));
                    Ok(true)
                })?;
            return Ok(Edn::Vector(found));
        }
        let attribute = self
            .db
            .schema
            .attribute(name(1))
            .map_err(|e| e.within(2).within(0))?;
        let entity = entity_id(self.db, values[0])?;
        let value = match entity {
            Some(e) => self.db.values(e, attribute)?.into_iter().next(),
            None => None,
        };
        match function {
            Function::Missing => Ok(Edn::Bool(value.is_none())),
            _ if attribute.many => {
                let message = format!(
                    "`get-else` takes an attribute with one value, and :{} has many",
                    attribute.ident
                );
                Err(Error::new(Kind::BadQuery, message).attribute(&attribute.ident))
            }
            _ => Ok(value.unwrap_or_else(|| values[2].clone())),
        }
    }

    /// The rows for which the clauses have no solution.
    fn deny(
        &self,
        relation: Relation,
        clauses: &'q [Clause],
        join: &'q [Var],
        names: &'q [Arc<str>],
    ) -> Result<Relation> {
        let inputs = relation.project(join);
        let columns: Vec<usize> = join.iter().filter_map(|v| relation.column(*v)).collect();
        let found = solve(
            self.db,
            (self.rules, self.rules_at),
            self.work,
            inputs,
            clauses,
            (join, names),
        )?;
        let Relation { vars, mut rows } = relation;
        rows.retain(|row| {
            let key: Row = columns.iter().map(|c| row[*c].clone()).collect();
            !found.contains(&key)
        });
        Ok(Relation { vars, rows })
    }
}

/// Joins rows with the answers to a call, a column for each variable that the call adds.
struct AnswerJoin<'c> {
    call: &'c [Term],
    old: usize,
    relation: Relation,
}

impl<'c> AnswerJoin<'c> {
    fn new(vars: &[Var], call: &'c [Term]) -> AnswerJoin<'c> {
        let mut all = vars.to_vec();
        for var in call.iter().filter_map(Term::var) {
            if !all.contains(&var) {
                all.push(var);
            }
        }
        AnswerJoin {
            call,
            old: vars.len(),
            relation: Relation {
                vars: all,
                rows: Vec::new(),
            },
        }
    }

    fn add(&mut self, row: &Row, answer: &Row) {
        let mut new: Vec<Edn> = row.to_vec();
        for (at, var) in self.relation.vars.iter().enumerate().skip(self.old) {
            let mut places = self
                .call
                .iter()
                .zip(answer.iter())
                .filter(|(term, _)| term.var() == Some(*var))
                .map(|(_, v)| v);
            let Some(value) = places.next() else { return };
            if places.any(|other| other != value) {
                return;
            }
            debug_assert_eq!(at, new.len());
            new.push(value.clone());
        }
        self.relation.rows.push(new.into());
    }
}

impl Consumer<'_> {
    /// The same call, with the same work left to do.
    fn is_for(&self, call: &[Term], rest: &[&Clause], vars: &[Var], sink: Sink<'_>) -> bool {
        std::ptr::eq(self.call, call)
            && self.sink.table == sink.table
            && std::ptr::eq(self.sink.out, sink.out)
            && self.vars == vars
            && self.rest.len() == rest.len()
            && self
                .rest
                .iter()
                .zip(rest)
                .all(|(a, b)| std::ptr::eq(*a, *b))
    }
}

fn given_part(answer: &Row, given: u64) -> Row {
    answer
        .iter()
        .enumerate()
        .filter(|(i, _)| given >> i & 1 == 1)
        .map(|(_, v)| v.clone())
        .collect()
}

fn is_ready(relation: &Relation, clause: &Clause, rules: &Rules) -> bool {
    if let What::Rule { name, args } = &clause.what {
        let required = rules.0.get(name).map_or(0, |rule| rule.required);
        return args.iter().take(required).all(|t| {
            t.var()
                .map_or(*t != Term::Blank, |v| relation.column(v).is_some())
        });
    }
    clause
        .needs()
        .iter()
        .all(|var| relation.column(*var).is_some())
}

/// Columns that nothing ahead looks at go, and with them the rows they told apart.
fn drop_unneeded(relation: Relation, clauses: &[&Clause], sink: Sink<'_>) -> Relation {
    let mut needed: BTreeSet<Var> = sink.out.iter().copied().collect();
    clauses.iter().for_each(|clause| clause.vars(&mut needed));
    if relation.vars.iter().all(|var| needed.contains(var)) {
        return relation;
    }
    let kept: Vec<Var> = relation
        .vars
        .iter()
        .copied()
        .filter(|var| needed.contains(var))
        .collect();
    relation.project(&kept)
}

/// Binds the parts of a value; calls `each` with every whole row.
pub(crate) fn take_apart(
    binding: &Binding,
    value: &Edn,
    vars: &[Var],
    row: Vec<Option<Edn>>,
    each: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    for row in take_apart_rows(binding, value, vars, row)? {
        // Every variable of the binding has a value now; a row that does not is left out.
        if let Some(row) = row.into_iter().collect::<Option<Vec<Edn>>>() {
            each(row.into())?;
        }
    }
    Ok(())
}

type Partial = Vec<Option<Edn>>;

fn take_apart_rows(
    binding: &Binding,
    value: &Edn,
    vars: &[Var],
    mut row: Partial,
) -> Result<Vec<Partial>> {
    let items = |value: &Edn| match value {
        Edn::List(items) | Edn::Vector(items) | Edn::Set(items) => Some(items.clone()),
        _ => None,
    };
    let not_a = |what: &str| {
        Error::new(
            Kind::BadQuery,
            format!(
                "{} is {}, and {what} is to be taken apart",
                value.brief(60),
                value.kind()
            ),
        )
    };
    match binding {
        Binding::Blank => Ok(vec![row]),
        Binding::Var(var) => {
            let Some(at) = vars.iter().position(|v| v == var) else {
                return Ok(vec![row]);
            };
            match &row[at] {
                Some(bound) if bound != value => Ok(Vec::new()),
                _ => {
                    row[at] = Some(value.clone());
                    Ok(vec![row])
                }
            }
        }
        Binding::Tuple(parts) => {
            let items = items(value).ok_or_else(|| not_a("a tuple"))?;
            if items.len() < parts.len() {
                return Err(Error::new(
                    Kind::BadQuery,
                    format!(
                        "{} has {} parts, and {} are to be bound",
                        value.brief(60),
                        items.len(),
                        parts.len()
                    ),
                ));
            }
            let mut rows = vec![row];
            for (part, item) in parts.iter().zip(&items) {
                let mut next = Vec::new();
                for row in rows {
                    next.extend(take_apart_rows(part, item, vars, row)?);
                }
                rows = next;
            }
            Ok(rows)
        }
        Binding::Collection(each) => {
            let items = items(value).ok_or_else(|| not_a("a collection"))?;
            let mut rows = Vec::new();
            for item in &items {
                rows.extend(take_apart_rows(each, item, vars, row.clone())?);
            }
            Ok(rows)
        }
    }
}

/// A pattern with the values of one row put in.
struct Lookup {
    e: Option<i64>,
    a: Option<i64>,
    v: Option<Edn>,
    t: Option<i64>,
    added: Option<bool>,
}

impl Lookup {
    /// None when no fact can match.
    fn new<'v>(
        db: &Db<'_>,
        terms: &'v [Term; 5],
        value: impl Fn(Var) -> Option<&'v Edn>,
    ) -> Result<Option<Lookup>> {
        let given = |at: usize| match &terms[at] {
            Term::Var(var) => value(*var),
            Term::Const(value) => Some(value),
            Term::Blank => None,
        };
        let mut lookup = Lookup {
            e: None,
            a: None,
            v: None,
            t: None,
            added: None,
        };
        if let Some(form) = given(0) {
            match entity_id(db, form)? {
                Some(e) => lookup.e = Some(e),
                None => return Ok(None),
            }
        }
        let mut attribute: Option<&Attribute> = None;
        if let Some(form) = given(1) {
            let found = match form {
                Edn::Keyword(name) => db.schema.attribute(name).ok(),
                Edn::Int(id) => db.schema.by_id(*id),
                _ => None,
            };
            match found {
                Some(found) => attribute = Some(found),
                None => return Ok(None),
            }
            lookup.a = attribute.map(|a| a.id);
        }
        if let Some(form) = given(2) {
            match stored_value(db, attribute, form)? {
                Some(v) => lookup.v = Some(v),
                None => return Ok(None),
            }
        }
        match given(3) {
            None => {}
            Some(Edn::Int(t)) => lookup.t = Some(if *t >= TX_BASE { t - TX_BASE } else { *t }),
            Some(_) => return Ok(None),
        }
        match given(4) {
            None => {}
            Some(Edn::Bool(added)) => lookup.added = Some(*added),
            Some(_) => return Ok(None),
        }
        Ok(Some(lookup))
    }

    fn known(&self) -> Known<'_> {
        Known {
            e: self.e,
            a: self.a,
            v: self.v.as_ref(),
            t: self.t,
        }
    }
}

/// An entity by id, ident or lookup ref; what is none of these matches nothing.
fn entity_id(db: &Db<'_>, form: &Edn) -> Result<Option<i64>> {
    match form {
        Edn::Int(id) => Ok(Some(*id)),
        Edn::Keyword(name) => Ok(db.schema.ident(name)),
        Edn::Vector(_) => match db.entity(form) {
            Err(e) if matches!(e.kind(), Kind::Storage | Kind::BadFile | Kind::Busy) => Err(e),
            found => Ok(found.ok().flatten()),
        },
        _ => Ok(None),
    }
}

fn stored_value(db: &Db<'_>, attribute: Option<&Attribute>, form: &Edn) -> Result<Option<Edn>> {
    match attribute {
        Some(attribute) if attribute.value_type == ValueType::Ref => {
            Ok(entity_id(db, form)?.map(Edn::Int))
        }
        Some(attribute) => Ok(fit(attribute.value_type, form).map(|v| v.into_owned())),
        None => Ok(Some(form.clone())),
    }
}

/// The values that a fact gives the new variables; None when one variable would get two.
fn bind(terms: &[Term; 5], datom: Datom, new_vars: &[Var]) -> Option<Row> {
    let Datom { e, a, v, t, added } = datom;
    let values = [
        Edn::Int(e),
        Edn::Int(a),
        v,
        Edn::Int(TX_BASE + t),
        Edn::Bool(added),
    ];
    let mut row = Vec::with_capacity(new_vars.len());
    for var in new_vars {
        let mut places = terms
            .iter()
            .zip(&values)
            .filter(|(term, _)| term.var() == Some(*var))
            .map(|(_, value)| value);
        let value = places.next()?;
        if places.any(|other| other != value) {
            return None;
        }
        row.push(value.clone());
    }
    Some(row.into())
}

/// Checks the constants of all patterns once, so that a slip is an error and not an empty answer.
pub(crate) fn check_constants(db: &Db<'_>, clauses: &[Clause], rules_at: usize) -> Result<()> {
    for clause in clauses {
        match &clause.what {
            What::Pattern(terms) => {
                check_pattern(db, terms).map_err(|e| clause.error(e, rules_at))?
            }
            What::Call { function, args, .. } if function.reads_database() => {
                for (i, arg) in args.iter().enumerate() {
                    let is_attribute = i == usize::from(*function != Function::Fulltext);
                    if let (true, Term::Const(Edn::Keyword(name))) = (is_attribute, arg) {
                        db.schema
                            .attribute(name)
                            .map_err(|e| clause.error(e, rules_at))?;
                    }
                }
            }
            What::Not { clauses, .. } => check_constants(db, clauses, rules_at)?,
            What::Or { branches, .. } => branches
                .iter()
                .try_for_each(|branch| check_constants(db, branch, rules_at))?,
            _ => {}
        }
    }
    Ok(())
}

fn check_pattern(db: &Db<'_>, terms: &[Term; 5]) -> Result<()> {
    if let Term::Const(form @ Edn::Vector(_)) = &terms[0] {
        db.entity(form).map_err(|e| e.within(0))?;
    }
    let Term::Const(Edn::Keyword(name)) = &terms[1] else {
        return Ok(());
    };
    let attribute = db.schema.attribute(name).map_err(|e| e.within(1))?;
    let Term::Const(value) = &terms[2] else {
        return Ok(());
    };
    let takes = match attribute.value_type {
        ValueType::Ref => matches!(value, Edn::Int(_) | Edn::Keyword(_) | Edn::Vector(_)),
        value_type => fit(value_type, value).is_some(),
    };
    if takes {
        return Ok(());
    }
    let message = format!(
        ":{name} takes {}, and {} is {}",
        attribute.value_type.example(),
        value.brief(80),
        value.kind()
    );
    Err(Error::new(Kind::WrongType, message)
        .attribute(name)
        .value(value)
        .within(2))
}

impl Work<'_> {
    pub(crate) fn step(&self, count: u64) -> Result<()> {
        let steps = self.steps.get() + count;
        self.steps.set(steps);
        if steps > self.limits.steps {
            let message = format!(
                "the query took more than {} steps and was stopped; narrow it with a pattern that few facts match, or ask in parts",
                self.limits.steps
            );
            return Err(Error::new(Kind::QueryLimit, message));
        }
        if steps % 1024 < count && self.limits.cancelled() {
            return Err(Error::new(Kind::Cancelled, "the query was stopped"));
        }
        Ok(())
    }

    pub(crate) fn rows(&self, count: usize) -> Result<()> {
        if count > self.limits.rows {
            let message = format!(
                "the query made more than {} rows and was stopped; join its patterns by a common variable, or ask for an aggregate",
                self.limits.rows
            );
            return Err(Error::new(Kind::QueryLimit, message));
        }
        Ok(())
    }
}

impl Limits {
    fn cancelled(&self) -> bool {
        self.cancel
            .as_ref()
            .is_some_and(|flag| flag.load(std::sync::atomic::Ordering::Relaxed))
    }
}
