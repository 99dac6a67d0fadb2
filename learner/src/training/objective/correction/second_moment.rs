//! M2PO's mask: the second moment of the log-ratios that stay is bounded over the whole batch.

/// For each value, whether it stays when the largest squares are taken out until the mean square of
/// the rest is at most `threshold`. Equal squares leave in the order of their index, so that the
/// result is the same everywhere.
pub(in super::super) fn keep_below(threshold: f64, logs: &[f64]) -> Vec<bool> {
    let mut keep = vec![true; logs.len()];
    let mut by_size: Vec<usize> = (0..logs.len()).collect();
    by_size.sort_by(|&a, &b| logs[b].abs().total_cmp(&logs[a].abs()).then(a.cmp(&b)));
    // Summed from the smallest up: what remains after each removal then carries no cancellation.
    let mut sums: Vec<f64> = Vec::with_capacity(logs.len());
    for &index in by_size.iter().rev() {
        sums.push(sums.last().copied().unwrap_or(0.0) + logs[index] * logs[index]);
    }
    for index in by_size {
        match sums.pop() {
            Some(sum) if sum > threshold * (sums.len() + 1) as f64 => keep[index] = false,
            _ => break,
        }
    }
    keep
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_outliers_leave() {
        // Squares .01, .04, 4, .01: the mean of all is 1.015; without the outlier it is .02.
        assert_eq!(keep_below(0.04, &[0.1, -0.2, 2.0, -0.1]), [true, true, false, true]);
        assert_eq!(keep_below(0.015, &[0.1, -0.2, 2.0, -0.1]), [true, false, false, true]);
    }

    #[test]
    fn a_batch_within_its_bound_stays_whole_and_one_far_out_leaves_whole() {
        assert_eq!(keep_below(0.04, &[0.1; 5]), [true; 5]);
        assert_eq!(keep_below(0.04, &[3.0; 5]), [false; 5]);
        assert!(keep_below(0.04, &[]).is_empty());
    }
}
