//! Medians, quantiles and ratios of measured values (pure).

/// Several measurements of one thing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// The one in the middle.
    pub(crate) median: f64,
    /// The smallest.
    pub(crate) low: f64,
    /// The largest.
    pub(crate) high: f64,
}

impl Spread {
    /// Of these values; zeros for none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let sorted = sorted(values.into_iter().collect());
        Self {
            median: quantile(&sorted, 0.5),
            low: sorted.first().copied().unwrap_or_default(),
            high: sorted.last().copied().unwrap_or_default(),
        }
    }

    /// Of one value.
    pub(crate) fn only(value: f64) -> Self {
        Self { median: value, low: value, high: value }
    }

    /// Of what each item gives divided by what its neighbour gives.
    pub(crate) fn ratios<A, B>(
        pairs: &[(A, B)],
        above: impl Fn(&A) -> f64,
        below: impl Fn(&B) -> f64,
    ) -> Self {
        Self::of(pairs.iter().map(|(a, b)| ratio(above(a), below(b))))
    }
}

/// `a / b`, and 0 where nothing was measured.
pub(crate) fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// In ascending order.
pub(crate) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// The value below which the share `q` of the ascending `values` lies, interpolated; 0 for none.
pub(crate) fn quantile(values: &[f64], q: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (values[at.floor() as usize], values[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::{Spread, quantile, ratio, sorted};

    #[test]
    fn the_median_is_the_middle_or_between_the_two_of_it() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of([]), Spread { median: 0.0, low: 0.0, high: 0.0 });
        assert_eq!(Spread::only(7.0).high, 7.0);
    }

    #[test]
    fn quantiles_are_interpolated_and_bounded() {
        let values = sorted((0..=100).rev().map(f64::from).collect());
        assert_eq!([0.0, 0.5, 0.99, 1.0, 2.0].map(|q| quantile(&values, q)), [0.0, 50.0, 99.0, 100.0, 100.0]);
        assert_eq!(quantile(&[1.0, 2.0], 0.25), 1.25);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn ratios_are_of_neighbours_not_of_medians() {
        let pairs = [(2.0, 1.0), (30.0, 10.0), (8.0, 2.0)];
        assert_eq!(Spread::ratios(&pairs, |a| *a, |b| *b), Spread { median: 3.0, low: 2.0, high: 4.0 });
        assert_eq!(ratio(1.0, 0.0), 0.0);
    }
}
