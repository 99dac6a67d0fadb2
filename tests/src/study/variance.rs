//! The variance of importance weights against the distance between two policies (GEPO figure
//! 2 and theorem 1).
//!
//! Twice: for distributions that can be worked out (Bernoulli, Gaussian), and for a policy in
//! training, whose first version sampled and whose later ones are weighed against it.

use super::chart::{PlotLine, lines};
use super::plans;
use super::statistics::Mean;
use super::{Study, worker_pool};
use crate::models::in_process_training::Practice;
use crate::output::console::{CommandReport, Console};
use anyhow::ensure;
use echo_learner::config::TrainSection;
use echo_learner::intake::buffer::StoredGroup;
use echo_learner::training::lr_schedule::Schedule;
use echo_learner::training::objective::{Known, Objective, ObjectiveChoice, Preset, ScoredResponse};
use echo_policy::generation::score;
use echo_policy::model::weights::{DType, Weights};
use echo_protocol::work::order::Purpose;
use serde_json::{Value, json};
use std::time::Instant;

/// Updates after which the samples of the first policy are weighed.
const AGES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Prompts that the first policy answers.
const GROUPS: u64 = 32;
/// Whose weights are compared: by token, by response, by group.
const WEIGHTS: [(&str, Preset); 3] =
    [("token", Preset::Grpo), ("sequence", Preset::Gspo), ("group", Preset::Gepo)];
/// Probabilities of the Bernoulli grid: from this to one minus this.
const STEP: f64 = 0.01;

/// Measures, draws and judges.
pub(super) fn run(study: &Study, console: &Console) -> anyhow::Result<CommandReport> {
    let since = Instant::now();
    ensure!(study.updates.is_none(), "the ages of this study are fixed: leave --updates out");
    let plan = plans::plan(study);
    let seeds: Vec<u64> = (0..study.seeds).collect();
    let measured = worker_pool::share(&seeds, |&seed| {
        let (practice, weights, _) = super::start(&plan, seed)?;
        aged(&practice, &weights, &plan)
    })?;
    let mut rows = Vec::new();
    for (at, age) in AGES.iter().enumerate() {
        let over = |figure: &dyn Fn(&Aged) -> f64| {
            Mean::of(&measured.iter().map(|ages| figure(&ages[at])).collect::<Vec<_>>())
        };
        let kl = over(&|aged| aged.kl);
        let variances = [0, 1, 2].map(|level| over(&|aged| aged.variances[level]));
        console.say(format!(
            "  age {age:>2}: KL {:.4}, variance by token {:.4}, by response {:.4}, by group {:.4}",
            kl.mean, variances[0].mean, variances[1].mean, variances[2].mean
        ));
        rows.push((*age, kl, variances));
    }
    let series = WEIGHTS.iter().enumerate().map(|(level, (name, _))| PlotLine {
        name: (*name).to_owned(),
        points: rows.iter().map(|(_, kl, variances)| (kl.mean, variances[level])).collect(),
    });
    let picture = study.out.join("variance-policy.png");
    lines(
        &picture,
        "variance of importance weights",
        "KL in nats a token",
        "variance",
        &series.collect::<Vec<_>>(),
    )?;

    let bernoulli = bernoulli();
    let gaussian = gaussian();
    let claims = claims(&rows, &bernoulli, &gaussian);
    for claim in &claims {
        let word = if claim["holds"] == true { "holds:" } else { "does not hold:" };
        console.say(format!("{word} {}", claim["claim"].as_str().unwrap_or_default()));
    }
    let passed = claims.iter().all(|claim| claim["holds"] == true);
    let results = rows.iter().flat_map(|(age, kl, variances)| {
        WEIGHTS.iter().zip(variances).map(move |((name, _), variance)| {
            json!({
                "algo": name, "delay": age, "seeds": study.seeds,
                // Nothing is evaluated here; the keys are those of every study.
                "best_mean": null, "best_ci95": null, "last_mean": null, "last_ci95": null,
                "kl_mean": kl.mean, "kl_ci95": kl.ci95,
                "variance_mean": variance.mean, "variance_ci95": variance.ci95,
            })
        })
    });
    let json = json!({
        "study": "variance",
        "setting": plan.description(),
        "seconds": since.elapsed().as_secs_f64(),
        "results": results.collect::<Vec<_>>(),
        "claims": claims,
    });
    Ok(CommandReport { passed, json })
}

/// The weights of the first policy's samples under a later one.
struct Aged {
    /// k3 estimate of KL(first, later), nats a token.
    kl: f64,
    /// By token, response, group.
    variances: [f64; 3],
}

/// Trains on policy, and weighs the first policy's samples at every age.
fn aged(practice: &Practice, start: &Weights, plan: &plans::StudyPlan) -> anyhow::Result<Vec<Aged>> {
    let first = practice.rollouts(&practice.policy(0, start)?, 0, GROUPS)?;
    let objective = ObjectiveChoice::from(Preset::Gepo);
    let schedule = Schedule::constant(plan.rate, plan.warmup);
    let mut trainer =
        practice.trainer(start, &TrainSection { objective, schedule, ..TrainSection::default() })?;
    let mut weights = start.clone();
    let mut ages = Vec::new();
    for update in 0..*AGES.last().unwrap_or(&0) {
        let counter = GROUPS + update * plan.groups;
        let groups = practice.rollouts(&practice.policy(update, &weights)?, counter, plan.groups)?;
        trainer.update(practice.workload(), &groups)?;
        weights = trainer.decoder().to_weights(DType::F32)?;
        if AGES.contains(&(update + 1)) {
            ages.push(weigh(practice, &first, &weights)?);
        }
    }
    Ok(ages)
}

fn weigh(practice: &Practice, groups: &[StoredGroup], weights: &Weights) -> anyhow::Result<Aged> {
    let policy = practice.policy(0, weights)?;
    let workload = practice.workload();
    let (mut sequences, mut known) = (Vec::new(), Vec::new());
    for (group, stored) in groups.iter().enumerate() {
        let prompt = workload.prompt(&workload.order(Purpose::Train, stored.group.counter.0))?;
        for trajectory in &stored.group.trajectories {
            sequences.push([prompt.clone(), trajectory.response.clone()].concat());
            let behaviour = trajectory.logprobs.iter().map(|logp| f64::from(*logp)).collect();
            known.push(Known { group, behaviour, advantage: vec![1.0], ..Known::default() });
        }
    }
    let scores = score(&policy, &sequences)?;
    let logp: Vec<Vec<f64>> = scores
        .iter()
        .zip(&known)
        .map(|(scores, known)| {
            scores[scores.len() - known.behaviour.len()..].iter().map(|logp| f64::from(*logp)).collect()
        })
        .collect();
    let scored: Vec<ScoredResponse<'_>> = logp
        .iter()
        .enumerate()
        .map(|(response, logp)| ScoredResponse { response, logp, entropy: &[] })
        .collect();
    let mut aged = Aged { kl: 0.0, variances: [0.0; 3] };
    for (variance, (_, preset)) in aged.variances.iter_mut().zip(WEIGHTS) {
        let objective: Objective = preset.objective();
        let stats = objective.plan(known.clone(), 0)?.evaluate(&scored)?.stats;
        *variance = stats.weight_variance();
        aged.kl = stats.kl_k3();
    }
    Ok(aged)
}

/// One pair of distributions.
struct Pair {
    /// KL(p ‖ q) in nats.
    kl: f64,
    /// Var_q of p/q and of p/E, E = Σ q² / Σ q = Σ q².
    plain: f64,
    group: f64,
}

/// Bernoulli(a) against Bernoulli(b) over a grid.
fn bernoulli() -> Vec<Pair> {
    let grid = || (1..(1.0 / STEP).round() as u32).map(|i| f64::from(i) * STEP);
    grid().flat_map(|a| grid().map(move |b| discrete(&[a, 1.0 - a], &[b, 1.0 - b]))).collect()
}

fn discrete(p: &[f64], q: &[f64]) -> Pair {
    let expectation: f64 = q.iter().map(|q| q * q).sum();
    let variance = |weight: &dyn Fn(f64, f64) -> f64| {
        let mean: f64 = p.iter().zip(q).map(|(&p, &q)| q * weight(p, q)).sum();
        p.iter().zip(q).map(|(&p, &q)| q * (weight(p, q) - mean).powi(2)).sum::<f64>()
    };
    Pair {
        kl: p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum(),
        plain: variance(&|p, q| p / q),
        group: variance(&|p, _| p / expectation),
    }
}

/// N(a, 1) against N(0, 1): Var(p/q) = e^{a²} - 1; with E = ∫ q² = 1/(2√π), E_q[p] = e^{-a²/4} / (2√π) and
/// E_q[p²] = e^{-a²/3} / (2π√3).
fn gaussian() -> Vec<Pair> {
    use std::f64::consts::PI;
    let at = |a: f64| {
        let square = a * a;
        let expectation = 1.0 / (2.0 * PI.sqrt());
        let mean = (-square / 4.0).exp() / (2.0 * PI.sqrt());
        let second = (-square / 3.0).exp() / (2.0 * PI * 3f64.sqrt());
        Pair {
            kl: square / 2.0,
            plain: square.exp() - 1.0,
            group: (second - mean * mean) / (expectation * expectation),
        }
    };
    (0..=60).map(|i| at(f64::from(i) * 0.05)).collect()
}

fn claims(rows: &[(u64, Mean, [Mean; 3])], bernoulli: &[Pair], gaussian: &[Pair]) -> Vec<Value> {
    let claim =
        |text: &str, holds: bool, figures: Value| json!({"claim": text, "holds": holds, "figures": figures});
    // Theorem 1 says that a constant exists; its proof gives n² + 1 for distributions over n values.
    let smallest_gap = |pairs: &[Pair]| {
        pairs.iter().map(|pair| pair.plain - pair.group - pair.kl.exp()).fold(f64::INFINITY, f64::min)
    };
    let far = |pair: &&Pair| pair.kl > 1.0;
    let lower = |pairs: &[Pair]| pairs.iter().filter(far).all(|pair| pair.group < pair.plain);
    let gap = smallest_gap(bernoulli);
    let mut claims = vec![
        claim(
            "Bernoulli: Var(p/q) - Var(p/E) ≥ exp(KL) - (n² + 1) everywhere (theorem 1)",
            gap >= -5.0,
            json!({"smallest_difference": gap, "constant": 5}),
        ),
        claim(
            "Bernoulli and Gaussian: wherever KL > 1 nat the group weight has less variance (figure 2)",
            lower(bernoulli) && lower(gaussian),
            json!({
                "bernoulli_pairs": bernoulli.iter().filter(far).count(),
                "gaussian_at_3": gaussian.last().map(|pair| [pair.plain, pair.group]),
            }),
        ),
    ];
    let farthest = rows.iter().max_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
    if let Some((age, kl, [token, sequence, group])) = farthest {
        let figures = |a: &Mean, b: &Mean| json!({"age": age, "kl": kl.mean, "figures": [[a.mean, a.ci95], [b.mean, b.ci95]]});
        claims.push(claim(
            "policy in training: where KL is greatest the group weight varies less than the token weight, with intervals apart",
            token.is_clearly_above(group),
            figures(group, token),
        ));
        claims.push(claim(
            "policy in training: where KL is greatest the group weight varies less than the sequence weight, with intervals apart",
            sequence.is_clearly_above(group),
            figures(group, sequence),
        ));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_distributions_have_no_distance_and_plain_weights_of_one() {
        let pair = discrete(&[0.3, 0.7], &[0.3, 0.7]);
        assert_eq!((pair.kl, pair.plain), (0.0, 0.0));
        assert!(pair.group > 0.0, "the group's expectation is not each value's own probability");
    }

    #[test]
    fn a_pair_by_hand() {
        // p = (.9, .1), q = (.5, .5): weights 1.8 and .2; E = .5, so the group's are the same.
        let pair = discrete(&[0.9, 0.1], &[0.5, 0.5]);
        assert!((pair.plain - 0.64).abs() < 1e-12 && (pair.group - 0.64).abs() < 1e-12);
        assert!((pair.kl - (0.9 * 1.8f64.ln() + 0.1 * 0.2f64.ln())).abs() < 1e-12);
    }

    #[test]
    fn the_gaussian_moments_agree_with_sums() {
        let pair = gaussian().remove(20);
        let density = |x: f64, mean: f64| (-(x - mean).powi(2) / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let (mut mean, mut square, mut expectation) = (0.0, 0.0, 0.0);
        for i in -1000..1000 {
            let x = f64::from(i) * 0.01;
            let (p, q) = (density(x, 1.0), density(x, 0.0));
            mean += 0.01 * q * p;
            square += 0.01 * q * p * p;
            expectation += 0.01 * q * q;
        }
        let variance = (square - mean * mean) / (expectation * expectation);
        assert!((pair.group - variance).abs() < 1e-6, "{} {variance}", pair.group);
    }
}
