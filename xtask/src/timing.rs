//! Times of several runs, and what to say of them.

use std::fmt;

/// Measured values of one thing, in the order they were taken.
#[derive(Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The middle value; of an even number the mean of the two in the middle; `None` without any.
    pub(crate) fn median(&self) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            n if n % 2 == 1 => Some(sorted[middle]),
            _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        }
    }

    fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn most(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

/// `median (min to max)` with a unit, or `-` when nothing was measured.
pub(crate) struct Shown<'a> {
    pub(crate) samples: &'a Samples,
    pub(crate) unit: &'a str,
    /// Digits after the point.
    pub(crate) digits: usize,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(median) = self.samples.median() else {
            return out.write_str("-");
        };
        let (least, most) = (self.samples.least(), self.samples.most());
        let digits = self.digits;
        write!(
            out,
            "{median:.digits$} {} ({least:.digits$} to {most:.digits$})",
            self.unit
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        Samples(values.to_vec())
    }

    #[test]
    fn the_median_does_not_depend_on_the_order() {
        assert_eq!(samples(&[3.0, 1.0, 2.0]).median(), Some(2.0));
        assert_eq!(samples(&[4.0, 1.0, 3.0, 2.0]).median(), Some(2.5));
        assert_eq!(samples(&[]).median(), None);
    }

    #[test]
    fn a_measurement_shows_its_spread() {
        let samples = samples(&[1.26, 1.0, 1.5]);
        let shown = Shown {
            samples: &samples,
            unit: "s",
            digits: 1,
        };
        assert_eq!(shown.to_string(), "1.3 s (1.0 to 1.5)");
    }
}
