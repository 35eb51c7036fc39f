//! Tables of what was measured.

use crate::timing::{Samples, Shown};

/// One thing that was measured, by each subject; `None` where a subject has no such thing.
pub(super) struct Row {
    pub(super) what: String,
    pub(super) unit: &'static str,
    pub(super) by: Vec<Option<Samples>>,
}

impl Row {
    /// A row for so many subjects.
    pub(super) fn new(what: impl Into<String>, unit: &'static str, subjects: usize) -> Row {
        Row {
            what: what.into(),
            unit,
            by: (0..subjects).map(|_| None).collect(),
        }
    }

    /// Takes note of a value.
    pub(super) fn push(&mut self, subject: usize, value: f64) {
        if let Some(samples) = self.by.get_mut(subject) {
            samples.get_or_insert_default().push(value);
        }
    }
}

/// Prints a table: the first subject with its spread, the others with their ratio to it.
pub(super) fn print(title: &str, subjects: &[&str], rows: &[Row]) {
    println!("\n{title}");
    for row in rows {
        println!("  {}", row.what);
        let base = row.by.first().and_then(|s| s.as_ref()?.median());
        for (name, samples) in subjects.iter().zip(&row.by) {
            let Some(samples) = samples else { continue };
            let ratio = match (samples.median(), base) {
                (Some(value), Some(base)) if base > 0.0 => format!("{:.1} x", value / base),
                _ => "-".to_owned(),
            };
            println!(
                "    {name:<20} {:<34} {ratio:>10}",
                show(samples, row.unit, digits(samples))
            );
        }
    }
}

/// Three figures that mean something.
fn digits(samples: &Samples) -> usize {
    match samples.median() {
        Some(value) if value < 1.0 => 3,
        Some(value) if value < 10.0 => 2,
        Some(value) if value < 100.0 => 1,
        _ => 0,
    }
}

/// `median unit (least to most)`.
pub(super) fn show(samples: &Samples, unit: &str, digits: usize) -> String {
    Shown {
        samples,
        unit,
        digits,
    }
    .to_string()
}
