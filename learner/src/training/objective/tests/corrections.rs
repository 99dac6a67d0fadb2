//! Corrections and their bounds in a loss, on two responses, in plain arithmetic.
//!
//! π_prox / π_behaviour of the tokens is 1.125, 0.8, 7/6 and 1.2, 2.5 ([`two`](super::two)).

use super::two::{assert_agrees, evaluate, normalised};
use super::*;

/// Asserts -(1/5) Σ c min(ρ A, clip(ρ, 0.8, 1.2) A) (AReaL eq. 5), ρ = π / π_prox: 10/9, 0.75, 9/7
/// and 1/3, 2.4, of which the third and fourth are cut.
fn assert_weighs(level: Level, bound: WeightBound, c: [f64; 5]) {
    let correction = Some(Correction { level, bound });
    let found = evaluate(&Objective { correction, ..Preset::DecoupledPpo.objective() }, [0, 0]);
    let a = normalised();
    let terms = [10.0 / 9.0 * a, 0.75 * a, 1.2 * a, -0.8 * a, -2.4 * a];
    let loss: f64 = c.iter().zip(terms).map(|(weight, term)| -weight * term / 5.0).sum();
    let d_logp = [-c[0] * terms[0] / 5.0, -c[1] * terms[1] / 5.0, 0.0, 0.0, -c[4] * terms[4] / 5.0];
    assert_agrees(&format!("{level:?} {bound:?}"), &found, loss, d_logp);
}

#[test]
fn a_sequence_weighs_by_its_product_and_a_sequence_mean_by_its_geometric_mean() {
    let (right, wrong) = (1.125 * 0.8 * 7.0 / 6.0, 1.2 * 2.5);
    assert_weighs(Level::Sequence, WeightBound::Unbounded {}, [right, right, right, wrong, wrong]);
    let (right, wrong) = (f64::cbrt(right), f64::sqrt(wrong));
    assert_weighs(Level::SequenceMean, WeightBound::Unbounded {}, [right, right, right, wrong, wrong]);
}

#[test]
fn a_token_weighs_by_its_own_ratio() {
    assert_weighs(Level::Token, WeightBound::Unbounded {}, [1.125, 0.8, 7.0 / 6.0, 1.2, 2.5]);
    assert_weighs(Level::Token, WeightBound::Truncate { cap: 1.15 }, [1.125, 0.8, 1.15, 1.15, 1.15]);
}

#[test]
fn a_clamp_bounds_a_weight_on_both_sides() {
    let bound = WeightBound::Clamp { low: 0.9, high: 2.0 };
    assert_weighs(Level::Token, bound, [1.125, 0.9, 7.0 / 6.0, 1.2, 2.0]);
    // The bound is on the weight of the whole: 1.05 stays, 3 does not.
    let right = 1.125 * 0.8 * 7.0 / 6.0;
    assert_weighs(Level::Sequence, bound, [right, right, right, 2.0, 2.0]);
}

#[test]
fn what_is_masked_adds_nothing_and_still_counts() {
    let bound = WeightBound::Mask { low: 0.9, high: 2.0 };
    assert_weighs(Level::Token, bound, [1.125, 0.0, 7.0 / 6.0, 1.2, 0.0]);
    assert_weighs(Level::Mask, bound, [1.0, 0.0, 1.0, 1.0, 0.0]);
    let right = 1.125 * 0.8 * 7.0 / 6.0;
    assert_weighs(Level::Sequence, bound, [right, right, right, 0.0, 0.0]);
}

#[test]
fn m2po_masks_the_tokens_that_the_second_moment_is_made_of() {
    // M2PO: the mean of (log π_prox / π_behaviour)² over the tokens that stay is at most τ.
    // Squares: .0139, .0498, .0238 and .0332, .8396. Without the last their mean is .0302, without
    // the second as well .0236.
    let squares = [1.125, 0.8, 7.0 / 6.0, 1.2].map(|weight: f64| weight.ln().powi(2));
    let four = (squares[0] + squares[1] + squares[2] + squares[3]) / 4.0;
    let three = (squares[0] + squares[2] + squares[3]) / 3.0;
    assert!(three < 0.025 && (0.025..0.04).contains(&four));
    let bound = |threshold| WeightBound::SecondMoment { threshold };
    assert_weighs(Level::Mask, bound(0.04), [1.0, 1.0, 1.0, 1.0, 0.0]);
    assert_weighs(Level::Mask, bound(0.025), [1.0, 0.0, 1.0, 1.0, 0.0]);
    assert_weighs(Level::Token, bound(0.025), [1.125, 0.0, 7.0 / 6.0, 1.2, 0.0]);
    assert_weighs(Level::Mask, bound(1.0), [1.0; 5]);
}

#[test]
fn one_ratio_a_response_is_weighed_by_all_of_its_tokens() {
    // GSPO's s = (Π π / π_prox)^(1/|y|), times the mean of its tokens' weights: a masked
    // token takes its share.
    let objective = Objective {
        ratio: Ratio::Sequence { against: Against::Proximal },
        surrogate: Surrogate::Ratio {},
        correction: Some(Correction {
            level: Level::Token,
            bound: WeightBound::Mask { low: 0.9, high: 2.0 },
        }),
        ..Preset::Grpo.objective()
    };
    let a = normalised();
    let right = (1.125 + 7.0 / 6.0) / 3.0 * f64::cbrt(10.0 / 9.0 * 0.75 * 9.0 / 7.0) * a;
    let wrong = 1.2 / 2.0 * f64::sqrt(2.4 / 3.0) * a;
    let d_logp = [-right / 6.0, -right / 6.0, -right / 6.0, wrong / 4.0, wrong / 4.0];
    assert_agrees("sequence", &evaluate(&objective, [0, 0]), -(right - wrong) / 2.0, d_logp);
}
