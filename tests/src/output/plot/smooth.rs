//! Smoothing, for the eye.

/// Points that a smoothed one stands for: a twentieth of the curve, odd, so that it has a middle.
pub(super) fn window_for(points: usize) -> usize {
    (points / 20) | 1
}

/// The mean over a window centred on each point, cut at the ends: it does not lag behind the curve.
pub(super) fn moving_mean(values: &[f64], window: usize) -> Vec<f64> {
    let half = window / 2;
    let mean = |at: usize| {
        let part = &values[at.saturating_sub(half)..values.len().min(at + half + 1)];
        part.iter().sum::<f64>() / part.len() as f64
    };
    (0..values.len()).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_centred_and_cut_at_the_ends() {
        assert_eq!(moving_mean(&[0.0, 3.0, 6.0, 0.0], 3), [1.5, 3.0, 3.0, 3.0]);
        assert_eq!(moving_mean(&[5.0], 1), [5.0]);
        assert_eq!([window_for(0), window_for(1), window_for(40), window_for(500)], [1, 1, 3, 25]);
    }
}
