//! Medians, percentiles and geometric means.

/// The middle value, or the mean of the two middle ones; nothing for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[upper]),
        _ => Some(f64::midpoint(sorted[upper - 1], sorted[upper])),
    }
}

/// The smallest value that at least `percent` of all values do not exceed; nothing for no values.
pub fn percentile(values: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The n-th root of the product, the mean that fits ratios; nothing for no values.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    Some((logarithms / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_no_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn percentile_is_one_of_the_values() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 95), Some(95.0));
        assert_eq!(percentile(&hundred, 100), Some(100.0));
        assert_eq!(percentile(&[2.0, 1.0, 3.0], 95), Some(3.0));
        assert_eq!(percentile(&[], 95), None);
    }

    #[test]
    fn geometric_mean_multiplies() {
        let mean = geometric_mean(&[1.0, 4.0, 16.0]).expect("values");
        assert!((mean - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn geometric_mean_of_ratios_and_their_inverses_is_one() {
        let mean = geometric_mean(&[0.5, 2.0, 3.0, 1.0 / 3.0]).expect("values");
        assert!((mean - 1.0).abs() < 1e-12);
    }
}
