//! Datalog: [`Query::parse`] reads a query, [`Query::run`] answers it.

mod aggregate;
mod functions;
mod parse;
mod solve;

use crate::edn::Edn;
use crate::error::{Error, Kind, Result};
use crate::pull::pull;
use crate::storage::Db;
use parse::{Element, Input, Rules, Shape, Var, parse_rules};
use solve::{Relation, Row, check_constants, solve, take_apart};
use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use parse::Query;
pub(crate) use solve::Row as ResultRow;

/// What a query may cost before it is stopped.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most rows at any point.
    pub rows: usize,
    /// The most facts read and rows joined.
    pub steps: u64,
    /// Set from elsewhere to stop the query.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            rows: 1_000_000,
            steps: 10_000_000,
            cancel: None,
        }
    }
}

/// What a query has cost so far.
pub(crate) struct Work<'l> {
    limits: &'l Limits,
    steps: Cell<u64>,
}

/// The answer to a query.
#[derive(Clone, Debug)]
pub struct Answer {
    /// In the shape that `:find` asks for; rows are sorted, each once.
    pub result: Edn,
    /// How many rows there are in all.
    pub total: usize,
    /// Whether `limit` cut rows off.
    pub cut: bool,
}

impl Query {
    /// Answers the query. `args` stand for what `:in` names, without the database; `limit` is the
    /// most rows (or members of a collection) to give.
    ///
    /// # Errors
    /// `BadQuery`, `UnknownAttribute` or `WrongType` with the way to the clause; `QueryLimit`.
    pub fn run(
        &self,
        db: &Db<'_>,
        args: &[Edn],
        limits: &Limits,
        limit: Option<usize>,
    ) -> Result<Answer> {
        let work = Work {
            limits,
            steps: Cell::new(0),
        };
        let (inputs, rules, rules_at) = self.bind_inputs(args, &work)?;
        check_constants(db, &self.clauses, rules_at)?;
        for branch in rules.0.values().flat_map(|rule| &rule.branches) {
            check_constants(db, &branch.clauses, rules_at)?;
        }
        let mut out: Vec<Var> = Vec::new();
        for var in self
            .find
            .iter()
            .map(Element::var)
            .chain(self.with.iter().copied())
        {
            if !out.contains(&var) {
                out.push(var);
            }
        }
        let rows = solve(
            db,
            (&rules, rules_at),
            &work,
            inputs,
            &self.clauses,
            (&out, &self.names),
        )?;
        let rows = self.find_rows(&out, rows)?;
        self.shape_answer(db, rows, limit)
    }

    fn bind_inputs(&self, args: &[Edn], work: &Work<'_>) -> Result<(Relation, Rules, usize)> {
        let expected = self
            .inputs
            .iter()
            .filter(|input| !matches!(input, Input::Database))
            .count();
        if expected != args.len() {
            let message = format!(
                "the query takes {expected} arguments (what :in names, without $), and {} were given",
                args.len()
            );
            return Err(Error::new(Kind::BadQuery, message).of_argument("args"));
        }
        let mut relation = Relation {
            vars: Vec::new(),
            rows: vec![Box::new([])],
        };
        let (mut rules, mut rules_at) = (Rules::default(), 0);
        let inputs = self
            .inputs
            .iter()
            .filter(|input| !matches!(input, Input::Database));
        for (i, (input, arg)) in inputs.zip(args).enumerate() {
            match input {
                Input::Database => {}
                Input::Rules => (rules, rules_at) = (parse_rules(arg, i)?, i),
                Input::Value(binding) => {
                    let mut vars = BTreeSet::new();
                    binding.vars(&mut vars);
                    let new = vars
                        .into_iter()
                        .filter(|v| !relation.vars.contains(v))
                        .collect::<Vec<_>>();
                    let all: Vec<Var> = relation.vars.iter().chain(&new).copied().collect();
                    let mut rows = HashSet::new();
                    for row in relation.rows {
                        let start = row
                            .iter()
                            .cloned()
                            .map(Some)
                            .chain(new.iter().map(|_| None))
                            .collect();
                        take_apart(binding, arg, &all, start, &mut |row| {
                            rows.insert(row);
                            work.rows(rows.len())
                        })
                        .map_err(|e| e.within(i).of_argument("args"))?;
                    }
                    relation = Relation {
                        vars: all,
                        rows: rows.into_iter().collect(),
                    };
                }
            }
        }
        if !args.is_empty() && self.takes_rules() && rules.0.is_empty() {
            return Err(Error::new(Kind::BadQuery, "the rules are empty")
                .within(rules_at)
                .of_argument("args"));
        }
        Ok((relation, rules, rules_at))
    }

    /// Rows over the find elements: projected and aggregated, sorted, each once.
    fn find_rows(&self, out: &[Var], rows: HashSet<Row>) -> Result<Vec<Row>> {
        let column = |var: Var| out.iter().position(|v| *v == var).unwrap_or(0);
        let mut found: Vec<Row> = if self
            .find
            .iter()
            .any(|e| matches!(e, Element::Aggregate { .. }))
        {
            aggregate::aggregate(&self.find, &column, rows)?
        } else {
            rows.into_iter()
                .map(|row| {
                    self.find
                        .iter()
                        .map(|e| row[column(e.var())].clone())
                        .collect()
                })
                .collect()
        };
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn shape_answer(
        &self,
        db: &Db<'_>,
        mut rows: Vec<Row>,
        limit: Option<usize>,
    ) -> Result<Answer> {
        let total = rows.len();
        let one = matches!(self.shape, Shape::Tuple | Shape::Scalar);
        let kept = if one { 1 } else { limit.unwrap_or(usize::MAX) };
        rows.truncate(kept);
        let cut = !one && total > rows.len();
        for row in &mut rows {
            for (value, element) in row.iter_mut().zip(&self.find) {
                if let Element::Pull { pattern, .. } = element {
                    // What names no entity is pulled as nil.
                    let entity = match &*value {
                        Edn::Int(id) => Some(*id),
                        other => db.entity(other).unwrap_or(None),
                    };
                    *value = entity.map_or(Ok(Edn::Nil), |id| pull(db, pattern, id))?;
                }
            }
        }
        let first = |row: Row| row.into_vec().into_iter().next().unwrap_or(Edn::Nil);
        let result = match self.shape {
            Shape::Relation => Edn::Vector(
                rows.into_iter()
                    .map(|row| Edn::Vector(row.into_vec()))
                    .collect(),
            ),
            Shape::Collection => Edn::Vector(rows.into_iter().map(first).collect()),
            Shape::Tuple => rows
                .into_iter()
                .next()
                .map_or(Edn::Nil, |row| Edn::Vector(row.into_vec())),
            Shape::Scalar => rows.into_iter().next().map_or(Edn::Nil, first),
        };
        Ok(Answer { result, total, cut })
    }
}
