//! Aggregates: rows with the same plain elements become one.

use super::ResultRow;
use super::functions::{Function, compare, to_double};
use super::parse::{AggregateName, Element, Var};
use crate::edn::Edn;
use crate::error::{Error, Kind, Result};
use std::collections::{HashMap, HashSet};

/// One row a group; `column` finds a variable in the rows.
pub(super) fn aggregate(
    find: &[Element],
    column: &dyn Fn(Var) -> usize,
    rows: HashSet<ResultRow>,
) -> Result<Vec<ResultRow>> {
    let mut groups: HashMap<ResultRow, Vec<ResultRow>> = HashMap::new();
    for row in rows {
        let plain = find
            .iter()
            .filter(|e| !matches!(e, Element::Aggregate { .. }));
        let key = plain.map(|e| row[column(e.var())].clone()).collect();
        groups.entry(key).or_default().push(row);
    }
    let one = |rows: &Vec<ResultRow>| {
        find.iter()
            .map(|element| match element {
                Element::Aggregate { name, count, var } => {
                    let mut values: Vec<Edn> =
                        rows.iter().map(|row| row[column(*var)].clone()).collect();
                    // In a fixed order, so that sums of doubles and samples are the same each time.
                    values.sort_unstable_by(|a, b| compare(a, b).then_with(|| a.cmp(b)));
                    reduce(*name, *count, values)
                }
                plain => Ok(rows[0][column(plain.var())].clone()),
            })
            .collect::<Result<ResultRow>>()
    };
    groups.values().map(one).collect()
}

/// `values` are sorted.
fn reduce(name: AggregateName, count: Option<usize>, mut values: Vec<Edn>) -> Result<Edn> {
    let sum = |values: &[Edn]| {
        values
            .iter()
            .try_fold(Edn::Int(0), |sum, v| Function::Add.arithmetic(&sum, v))
    };
    Ok(match (name, count) {
        (AggregateName::Count, _) => Edn::Int(values.len() as i64),
        (AggregateName::CountDistinct, _) => {
            values.dedup();
            Edn::Int(values.len() as i64)
        }
        (AggregateName::Distinct, _) => Edn::set(values),
        (AggregateName::Sum, _) => sum(&values).map_err(|e| numbers("sum", &e))?,
        (AggregateName::Avg, _) => {
            let total = sum(&values).map_err(|e| numbers("avg", &e))?;
            Edn::Double(to_double(&total) / values.len() as f64)
        }
        (AggregateName::Min, None) => values.swap_remove(0),
        (AggregateName::Max, None) => values.pop().unwrap_or(Edn::Nil),
        (AggregateName::Min, Some(n)) => {
            values.dedup();
            values.truncate(n);
            Edn::Vector(values)
        }
        (AggregateName::Max, Some(n)) => {
            values.dedup();
            values.reverse();
            values.truncate(n);
            Edn::Vector(values)
        }
        // Evenly spread over the values, so that the same facts give the same sample.
        (AggregateName::Sample, n) => {
            values.dedup();
            let n = n.unwrap_or(1).min(values.len());
            let length = values.len();
            Edn::Vector((0..n).map(|i| values[i * length / n].clone()).collect())
        }
    })
}

fn numbers(name: &str, error: &Error) -> Error {
    Error::new(Kind::BadQuery, format!("`{name}`: {}", error.message()))
}
