//! Two short responses for losses worked by hand, and what an objective makes of them.

use super::*;

/// Probabilities of the tokens under the policy in training: of a response that was right, and of
/// one that was wrong.
const CURRENT: [&[f64]; 2] = [&[0.5, 0.3, 0.9], &[0.1, 0.6]];
/// The same under the policy that sampled. Current over this: 1.25, 0.6, 1.5 and 0.4, 6.
const BEHAVIOUR: [&[f64]; 2] = [&[0.4, 0.5, 0.6], &[0.25, 0.1]];
/// The same under the policy at the start of the step. Current over this: 10/9, 0.75, 9/7 and 1/3,
/// 2.4; this over that of the sampler: 1.125, 0.8, 7/6 and 1.2, 2.5.
const PROXIMAL: [&[f64]; 2] = [&[0.45, 0.4, 0.7], &[0.3, 0.25]];
/// Entropies of the tokens, in nats.
const ENTROPY: [&[f64]; 2] = [&[0.5, 1.0, 0.25], &[2.0, 0.75]];
/// Rewards of the responses.
const REWARDS: [f64; 2] = [1.0, 0.0];

/// The advantage of the first response where rewards are centred and divided by their unbiased
/// deviation: mean 1/2, variance 1/2. The second has its negative.
pub(super) fn normalised() -> f64 {
    0.5 / (0.5f64.sqrt() + 1e-6)
}

/// Both responses under an objective, with its advantages.
pub(super) fn evaluate(objective: &Objective, groups: [usize; 2]) -> Evaluation {
    let outcome = |row: usize| RewardedResponse {
        reward: REWARDS[row],
        length: CURRENT[row].len(),
        group: groups[row],
    };
    let advantages = objective.advantage.of(&[outcome(0), outcome(1)]).unwrap();
    let known = |row: usize| Known {
        group: groups[row],
        behaviour: logs(BEHAVIOUR[row]),
        proximal: Some(logs(PROXIMAL[row])),
        advantage: vec![advantages[row]],
        ..Known::default()
    };
    let case = Case {
        known: vec![known(0), known(1)],
        logp: vec![logs(CURRENT[0]), logs(CURRENT[1])],
        entropy: vec![ENTROPY[0].to_vec(), ENTROPY[1].to_vec()],
    };
    case.run(objective)
}

/// Asserts a loss and its derivatives by the log-probabilities of the five tokens.
pub(super) fn assert_agrees(name: &str, found: &Evaluation, loss: f64, d_logp: [f64; 5]) {
    assert!((found.loss - loss).abs() < 1e-12, "{name}: loss {}, by hand {loss}", found.loss);
    let derivatives = found.d_logp.concat();
    assert_eq!(derivatives.len(), d_logp.len(), "{name}");
    for (t, (found, expected)) in derivatives.iter().zip(d_logp).enumerate() {
        assert!((found - expected).abs() < 1e-12, "{name}: derivative {t} is {found}, by hand {expected}");
    }
}

fn logs(probabilities: &[f64]) -> Vec<f64> {
    probabilities.iter().map(|p| p.ln()).collect()
}
