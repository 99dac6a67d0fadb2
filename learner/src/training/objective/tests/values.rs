//! Whole presets on two responses, against their published formulas in plain arithmetic.
//!
//! The ratios are those that [`two`](super::two) lists, and A is ± the advantage of its two rewards.

use super::two::{assert_agrees, evaluate, normalised};
use super::*;

#[test]
fn bnpo_is_the_clipped_surrogate_as_a_mean_over_tokens() {
    // HeteroRL's learner, loss type "bnpo": -Σ_i Σ_t min(r A, clip(r, 0.8, 1.2) A) / Σ_i |y_i|, r
    // = π / π_behaviour.
    let a = normalised();
    let loss = -(1.2 * a + 0.6 * a + 1.2 * a - 0.8 * a - 6.0 * a) / 5.0;
    let d_logp = [0.0, -0.6 * a / 5.0, 0.0, 0.0, 6.0 * a / 5.0];
    assert_agrees("bnpo", &evaluate(&Preset::Bnpo.objective(), [0, 0]), loss, d_logp);
}

#[test]
fn reinforce_plus_plus_compares_over_the_batch() {
    // REINFORCE++ (RLAX §4): A = (R - mean of the batch) / deviation of the batch in the clipped
    // surrogate of RLAX's GRPO, (1/N) Σ_i (1/|y_i|) Σ_t. Each response is alone in its group, where
    // a group's baseline would leave nothing.
    let a = normalised();
    let loss = -((1.2 * a + 0.6 * a + 1.2 * a) / 3.0 - (0.8 * a + 6.0 * a) / 2.0) / 2.0;
    let d_logp = [0.0, -0.6 * a / 6.0, 0.0, 0.0, 6.0 * a / 4.0];
    assert_agrees("reinforce_pp", &evaluate(&Preset::ReinforcePp.objective(), [0, 1]), loss, d_logp);
}

#[test]
fn gmpo_is_the_geometric_mean_of_ratios_clipped_on_the_side_of_the_advantage() {
    // GMPO: (1/N) Σ_i A (Π_t ρ_t)^(1/|y|), ρ = min(r, e^0.4) where A > 0 and max(r, e^-0.4) where
    // A < 0. ln 1.5 > 0.4 and ln 0.4 < -0.4 are cut; ln 0.6 < -0.4 and ln 6 > 0.4 are not, as
    // they lower the objective.
    let a = normalised();
    let right = (1.25 * 0.6 * 0.4f64.exp()).cbrt();
    let wrong = ((-0.4f64).exp() * 6.0).sqrt();
    let loss = -(right * a - wrong * a) / 2.0;
    let d_logp = [-right * a / 6.0, -right * a / 6.0, 0.0, 0.0, wrong * a / 4.0];
    assert_agrees("gmpo", &evaluate(&Preset::Gmpo.objective(), [0, 0]), loss, d_logp);
}

#[test]
fn sapo_gates_each_ratio_by_a_sigmoid() {
    // SAPO: (1/N) Σ_i (1/|y_i|) Σ_t (4/τ) σ(τ (r - 1)) A, τ = 1 where A > 0 and 1.05 where A < 0;
    // its derivative by log π is 4 σ (1 - σ) r A.
    let a = normalised();
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let gate = |r: f64, tau: f64| 4.0 / tau * sigmoid(tau * (r - 1.0));
    let slope = |r: f64, tau: f64| 4.0 * sigmoid(tau * (r - 1.0)) * sigmoid(-tau * (r - 1.0)) * r;
    let right = (gate(1.25, 1.0) + gate(0.6, 1.0) + gate(1.5, 1.0)) / 3.0;
    let wrong = (gate(0.4, 1.05) + gate(6.0, 1.05)) / 2.0;
    let loss = -(right * a - wrong * a) / 2.0;
    let d_logp = [
        -slope(1.25, 1.0) * a / 6.0,
        -slope(0.6, 1.0) * a / 6.0,
        -slope(1.5, 1.0) * a / 6.0,
        slope(0.4, 1.05) * a / 4.0,
        slope(6.0, 1.05) * a / 4.0,
    ];
    assert_agrees("sapo", &evaluate(&Preset::Sapo.objective(), [0, 0]), loss, d_logp);
}

#[test]
fn rloo_weighs_log_probabilities_by_what_another_policy_sampled() {
    // RLOO: (1/N) Σ_i A_i Σ_t w log π, A_i = R_i - mean of the others = ±1, with the weights of
    // RLAX's token REINFORCE (appendix A), here w = π_prox / π_behaviour.
    let right = 1.125 * 0.5f64.ln() + 0.8 * 0.3f64.ln() + 7.0 / 6.0 * 0.9f64.ln();
    let wrong = 1.2 * 0.1f64.ln() + 2.5 * 0.6f64.ln();
    let d_logp = [-1.125 / 2.0, -0.8 / 2.0, -7.0 / 12.0, 1.2 / 2.0, 2.5 / 2.0];
    let found = evaluate(&Preset::Rloo.objective(), [0, 0]);
    assert_agrees("rloo", &found, -(right - wrong) / 2.0, d_logp);
}

#[test]
fn truncated_importance_sampling_caps_what_weighs_the_clipped_surrogate() {
    // ECHO-2 eq. 24 and 25 without KL: (1/N) Σ_i (1/|y_i|) Σ_t min(π_prox / π_behaviour, 2) min(ρ
    // A, clip(ρ, 0.8, 1.2) A), ρ = π / π_prox. The last weight is 2.5, and cut.
    let a = normalised();
    let right = 1.125 * (10.0 / 9.0) * a + 0.8 * 0.75 * a + 7.0 / 6.0 * 1.2 * a;
    let wrong = 1.2 * 0.8 * a + 2.0 * 2.4 * a;
    let loss = -(right / 3.0 - wrong / 2.0) / 2.0;
    let d_logp = [-1.125 * (10.0 / 9.0) * a / 6.0, -0.8 * 0.75 * a / 6.0, 0.0, 0.0, 2.0 * 2.4 * a / 4.0];
    let found = evaluate(&Preset::PpoTruncatedIs.objective(), [0, 0]);
    assert_agrees("ppo_truncated_is", &found, loss, d_logp);
}

#[test]
fn gpg_multiplies_log_probabilities_by_centred_rewards() {
    // GPG: Σ_i Σ_t A log π / Σ_i |y_i|, A = R - mean = ±1/2.
    let right = 0.5f64.ln() + 0.3f64.ln() + 0.9f64.ln();
    let wrong = 0.1f64.ln() + 0.6f64.ln();
    let found = evaluate(&Preset::Gpg.objective(), [0, 0]);
    assert_agrees("gpg", &found, -0.5 * (right - wrong) / 5.0, [-0.1, -0.1, -0.1, 0.1, 0.1]);
}

#[test]
fn gpg_may_make_up_for_degenerate_groups() {
    let gpg = Preset::Gpg.objective();
    let advantage = Advantage { degenerate: Degenerate::Rescale, ..gpg.advantage };
    // Beside a group of two that are equally right, α = N / (N - M) = 4 / 2, so that A = ±1.
    let outcome = |reward, group| RewardedResponse { reward, length: 1, group };
    let outcomes = [outcome(1.0, 0), outcome(0.0, 0), outcome(1.0, 1), outcome(1.0, 1)];
    assert_eq!(advantage.of(&outcomes).unwrap(), [1.0, -1.0, 0.0, 0.0]);
    // Groups of one are all degenerate: there is nothing to make up for.
    let alone = evaluate(&Objective { advantage, ..gpg }, [0, 1]);
    assert_agrees("gpg of groups of one", &alone, 0.0, [0.0; 5]);
}

#[test]
fn entropy_lowers_the_loss() {
    // η H beside J in RLAX eq. 3: the loss is less by η times the mean entropy. Groups of one have
    // no advantage, so that this is all of it.
    let bonus = Objective { entropy_bonus: 0.1, ..Preset::Dapo.objective() };
    let found = evaluate(&bonus, [0, 1]);
    assert_agrees("entropy", &found, -0.1 * (0.5 + 1.0 + 0.25 + 2.0 + 0.75) / 5.0, [0.0; 5]);
    assert_eq!(found.d_entropy.concat().len(), 5);
    assert!(found.d_entropy.concat().iter().all(|d| (d + 0.1 / 5.0).abs() < 1e-12));
    // Weighted like any other term of its token, here by π_prox / π_behaviour up to 5.
    let weighted = Objective { entropy_bonus: 0.1, ..Preset::DecoupledPpo.objective() };
    let entropy = 1.125 * 0.5 + 0.8 + 7.0 / 6.0 * 0.25 + 1.2 * 2.0 + 2.5 * 0.75;
    assert_agrees("weighted entropy", &evaluate(&weighted, [0, 1]), -0.1 * entropy / 5.0, [0.0; 5]);
}
