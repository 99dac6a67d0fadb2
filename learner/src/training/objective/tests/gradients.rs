//! Gradients against finite differences.

use super::*;

/// Half the distance between the two points of a difference.
const STEP: f64 = 1e-6;

#[test]
fn gradients_agree_with_finite_differences() {
    for (name, objective) in objectives() {
        let case = Case::ragged();
        let plan = case.plan(&objective);
        let all: Vec<usize> = (0..7).collect();
        let evaluation = case.part(&plan, &all);
        let loss =
            |moved: &Case| detached(&objective, &case, moved).unwrap_or_else(|| moved.part(&plan, &all).loss);
        assert!((loss(&case) - evaluation.loss).abs() < 1e-12, "{name}");
        for row in 0..7 {
            for (t, analytic) in evaluation.d_logp[row].iter().enumerate() {
                let shifted = |delta: f64| {
                    let mut moved = case.clone();
                    moved.logp[row][t] += delta;
                    loss(&moved)
                };
                let numeric = (shifted(STEP) - shifted(-STEP)) / (2.0 * STEP);
                assert!((analytic - numeric).abs() < 1e-8, "{name} {row} {t}: {analytic} {numeric}");
            }
            for (t, analytic) in evaluation.d_entropy[row].iter().enumerate() {
                let shifted = |delta: f64| {
                    let mut moved = case.clone();
                    moved.entropy[row][t] += delta;
                    loss(&moved)
                };
                let numeric = (shifted(STEP) - shifted(-STEP)) / (2.0 * STEP);
                assert!((analytic - numeric).abs() < 1e-8, "{name} entropy {row} {t}: {analytic} {numeric}");
            }
        }
        assert!(evaluation.d_logp.iter().flatten().any(|g| g.abs() > 1e-3), "{name} has no gradient");
    }
}

/// The loss of `moved` where a weight depends on the policy without a gradient: that weight stays
/// as it is in `case`. Written out from the definitions. `None`: the objective has no such weight.
fn detached(objective: &Objective, case: &Case, moved: &Case) -> Option<f64> {
    if let Surrogate::Cispo { low, high } = objective.surrogate {
        // MiniMax-M1 eq. 4, a mean over tokens: -Σ sg(clip(r)) A log π / Σ |y|.
        let mut sum = 0.0;
        for (row, known) in case.known.iter().enumerate() {
            for (t, behaviour) in known.behaviour.iter().enumerate() {
                let weight = (case.logp[row][t] - behaviour).exp().clamp(1.0 - low, 1.0 + high);
                sum += weight * known.advantage[0] * moved.logp[row][t];
            }
        }
        return Some(-sum / case.logp.concat().len() as f64);
    }
    let Ratio::GroupDefensive { scale } = objective.ratio else { return None };
    // GEPO eq. 37, a mean over responses: -Σ A p / (ε sg(p) + (1 - ε) E) / N.
    let mut sum = 0.0;
    for (row, known) in case.known.iter().enumerate().filter(|(_, known)| !known.behaviour.is_empty()) {
        let peers = case.known.iter().filter(|peer| peer.group == known.group && !peer.behaviour.is_empty());
        let q: Vec<f64> = peers.map(|peer| average(&peer.behaviour).exp()).collect();
        let expectation = q.iter().map(|q| q * q).sum::<f64>() / q.iter().sum::<f64>();
        let centre = average(&q);
        let variance = q.iter().map(|q| (q - centre).powi(2)).sum::<f64>() / q.len() as f64;
        let epsilon = (scale * variance).min(1.0);
        let denominator = epsilon * average(&case.logp[row]).exp() + (1.0 - epsilon) * expectation;
        sum += known.advantage[0] * average(&moved.logp[row]).exp() / denominator;
    }
    Some(-sum / case.known.len() as f64)
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
