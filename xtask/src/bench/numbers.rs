//! What a part returns: measured values in series, and goals with what was reached.

use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) title: String,
    /// What a reader must know to judge the numbers.
    pub(super) note: String,
    pub(super) unit: Unit,
    pub(super) series: Vec<Series>,
    pub(super) goals: Vec<Goal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Unit {
    Milliseconds,
    /// Per read or write.
    Microseconds,
    Kilobytes,
}

/// One thing, measured many times in one way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Series {
    pub(super) what: String,
    pub(super) way: String,
    /// In the order of measuring.
    pub(super) values: Vec<f64>,
}

pub(super) const NATIVE: &str = "native";
pub(super) const NATIVE_AGAIN: &str = "native again";
pub(super) const FILTERED: &str = "filtered";
pub(super) const SHOREFAST: &str = "shorefast";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Goal {
    pub(super) what: String,
    pub(super) reached: f64,
    pub(super) limit: Limit,
    /// "×" for ratios, "" for counts.
    pub(super) unit: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum Limit {
    AtMost(f64),
    AtLeast(f64),
    /// 1.00, as far as these measurements can tell; and they must be able to tell 1.05.
    OneWithinNoise(Interval),
    /// There is no limit: it is shown for comparison, with the noise where that is known.
    None(Option<Interval>),
}

/// What was reached lies in it in 95 of 100 cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) high: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Met,
    NotMet,
    /// The machine was too busy to tell.
    Unknown,
    NoGoal,
}

impl Goal {
    pub(super) fn verdict(&self) -> Verdict {
        let is = |met: bool| if met { Verdict::Met } else { Verdict::NotMet };
        match self.limit {
            Limit::AtMost(limit) => is(self.reached <= limit),
            Limit::AtLeast(limit) => is(self.reached >= limit),
            // Less than 1.005 is printed as 1.00.
            Limit::OneWithinNoise(Interval { low, .. }) if low >= 1.005 => Verdict::NotMet,
            Limit::OneWithinNoise(Interval { high, .. }) if high >= 1.05 => Verdict::Unknown,
            Limit::OneWithinNoise(_) => Verdict::Met,
            Limit::None(_) => Verdict::NoGoal,
        }
    }
}

impl Series {
    pub(super) fn new(what: &str, way: &str) -> Self {
        Self { what: what.to_owned(), way: way.to_owned(), values: Vec::new() }
    }

    pub(super) fn p50(&self) -> f64 {
        self.percentile(50)
    }

    /// The smallest value that at least `percent` of all values do not exceed.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        let sorted = sorted(&self.values);
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn min(&self) -> f64 {
        self.percentile(0)
    }
}

/// How many times slower the median of `way` is than that of `base`, in the measurements of `what`.
pub(super) fn ratio(series: &[Series], what: &str, way: &str, base: &str) -> f64 {
    let p50 = |way| find(series, what, way).map_or(f64::NAN, Series::p50);
    p50(way) / p50(base)
}

pub(super) fn find<'a>(series: &'a [Series], what: &str, way: &str) -> Option<&'a Series> {
    series.iter().find(|series| series.what == what && series.way == way)
}

/// Two series measured round by round: the median of the rounds' ratios, and the interval for the true one. It takes no view of how
/// the noise is distributed (order statistics, as in the sign test).
pub(super) fn paired_ratio(slower: &Series, base: &Series) -> (f64, Interval) {
    let ratios: Vec<_> = slower.values.iter().zip(&base.values).map(|(slower, base)| slower / base).collect();
    let ratios = sorted(&ratios);
    let (count, half_width) = (ratios.len() as f64, 0.98 * (ratios.len() as f64).sqrt());
    let at = |rank: f64| ratios.get((rank.max(0.0) as usize).min(ratios.len().saturating_sub(1))).copied().unwrap_or(f64::NAN);
    let middle = (count - 1.0) / 2.0;
    (at(middle), Interval { low: at((middle - half_width).floor()), high: at((middle + half_width).ceil()) })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(way: &str, values: impl IntoIterator<Item = f64>) -> Series {
        Series { what: "x".to_owned(), way: way.to_owned(), values: values.into_iter().collect() }
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let hundred = series("a", (1..=100).rev().map(f64::from));
        assert_eq!((hundred.min(), hundred.p50(), hundred.percentile(99)), (1.0, 50.0, 99.0));
        let one = series("a", [7.0]);
        assert_eq!((one.min(), one.p50(), one.percentile(99)), (7.0, 7.0, 7.0));
        assert!(series("a", []).p50().is_nan());
    }

    #[test]
    fn ratios_are_of_the_same_thing_only() {
        let mut other = series(NATIVE, [100.0]);
        other.what = "y".to_owned();
        let all = [other, series(NATIVE, [2.0]), series(SHOREFAST, [3.0])];
        assert_eq!(ratio(&all, "x", SHOREFAST, NATIVE), 1.5);
        assert!(ratio(&all, "y", SHOREFAST, NATIVE).is_nan());
    }

    #[test]
    fn noise_is_told_from_a_difference() {
        let base = series(NATIVE, (0..50).map(|round| 10.0 + f64::from(round % 5)));
        let verdict = |factor: f64, noise: f64| {
            let noise = |round: usize| 1.0 + noise * ((round * 7 % 11) as f64 / 5.0 - 1.0);
            let noisy = base.values.iter().enumerate().map(|(round, value)| value * factor * noise(round));
            let (reached, interval) = paired_ratio(&series(SHOREFAST, noisy), &base);
            Goal { what: String::new(), reached, limit: Limit::OneWithinNoise(interval), unit: String::new() }.verdict()
        };
        assert_eq!(verdict(1.0, 0.03), Verdict::Met);
        assert_eq!(verdict(0.9, 0.03), Verdict::Met);
        assert_eq!(verdict(1.02, 0.03), Verdict::NotMet);
        assert_eq!(verdict(1.0, 0.5), Verdict::Unknown);
    }
}
