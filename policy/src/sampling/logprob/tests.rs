use super::*;

fn logits(scale: f64) -> Vec<f32> {
    (0..300).map(|i| ((f64::from(i) * 1.37).sin() * scale) as f32).collect()
}

/// Both scores in f64.
fn exact(logits: &[f32], target: usize) -> (f64, f64) {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let log_total = logits.iter().map(|x| f64::from(x - top).exp()).sum::<f64>().ln();
    let logprob = |x: &f32| f64::from(*x) - f64::from(top) - log_total;
    let entropy = -logits.iter().map(|x| logprob(x).exp() * logprob(x)).sum::<f64>();
    (logprob(&logits[target]), entropy)
}

#[test]
fn scores_are_the_exact_ones() {
    for scale in [0.1, 1.0, 20.0] {
        let logits = logits(scale);
        for target in [0, 7, 299] {
            let (logp, entropy) = of_token(&logits, target).unwrap();
            let (exact_logp, exact_entropy) = exact(&logits, target as usize);
            assert!((f64::from(logp) - exact_logp).abs() < 5e-6, "{logp} {exact_logp}");
            assert!((f64::from(entropy) - exact_entropy).abs() < 5e-6, "{entropy} {exact_entropy}");
        }
    }
    assert_eq!(of_token(&logits(1.0), 300), None);
}

#[test]
fn pieces_of_the_vocabulary_give_the_same_distribution() {
    let logits = logits(20.0);
    let of = |size: usize| {
        let mut distribution = Distribution::default();
        logits.chunks(size).for_each(|piece| distribution.absorb(piece));
        (distribution.normaliser(), distribution.entropy())
    };
    let (normaliser, entropy) = of(300);
    for size in [1, 7, 256] {
        let (a, b) = of(size);
        assert!((a - normaliser).abs() < 1e-5 && (b - entropy).abs() < 1e-5, "{size}: {a} {b}");
    }
}

#[test]
fn slopes_agree_with_finite_differences() {
    let values: Vec<f32> = logits(2.0)[..24].to_vec();
    let (target, d_logp, d_entropy) = (5usize, 0.7, -0.4);
    let loss = |values: &[f32]| {
        let (logp, entropy) = exact(values, target);
        f64::from(d_logp) * logp + f64::from(d_entropy) * entropy
    };
    let mut distribution = Distribution::default();
    distribution.absorb(&values);
    let (normaliser, entropy) = (distribution.normaliser(), distribution.entropy());
    let mut slopes = values.clone();
    Slope { normaliser, entropy, d_logp, d_entropy }.apply(&mut slopes);
    slopes[target] += d_logp;
    for (i, slope) in slopes.iter().enumerate() {
        let at = |step: f32| {
            let mut moved = values.clone();
            moved[i] += step;
            loss(&moved)
        };
        let measured = (at(1e-2) - at(-1e-2)) / 2e-2;
        assert!((measured - f64::from(*slope)).abs() < 1e-4, "{i}: {measured} {slope}");
    }
}

#[test]
fn extreme_logits_stay_finite() {
    let ln2 = 2f32.ln();
    for (row, target, expected) in
        [([3e38f32, -3e38, 0.0], 0, (0.0, 0.0)), ([f32::NEG_INFINITY, 0.0, 0.0], 1, (-ln2, ln2))]
    {
        let (logp, entropy) = of_token(&row, target).unwrap();
        assert!((logp - expected.0).abs() < 1e-6 && (entropy - expected.1).abs() < 1e-6, "{logp} {entropy}");
        let mut slopes = row;
        let normaliser = row[target as usize] - logp;
        Slope { normaliser, entropy, d_logp: 1.0, d_entropy: 1.0 }.apply(&mut slopes);
        assert!(slopes.iter().all(|slope| slope.is_finite()), "{slopes:?}");
    }
}

#[test]
fn a_nan_is_not_hidden() {
    let (logp, entropy) = of_token(&[0.0, f32::NAN, 1.0], 0).unwrap();
    assert!(logp.is_nan() && entropy.is_nan());
}
