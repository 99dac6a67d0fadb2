//! Computes GEPO's loss and its derivatives for four responses, with numbers that fit on paper.
//!
//! ```sh
//! cargo run -p echo-learner --example objective_on_paper
//! ```
//!
//! By hand, for responses of one token each. q is the probability of a response under the policy
//! that sampled it, and p under the one that is trained.
//!
//! - The advantage A is the reward minus the group's mean: 1/2 or -1/2.
//! - The group's expectation is E = Σq² / Σq = 0.48 / 1.2 = 0.4, and a ratio is r = p / E.
//! - What counts is min(rA, clip(r, 0.8, 1.2) A). Where the clip decides, there is no derivative.
//! - The loss is minus the mean of that: -(0.6 - 0.4 + 0.5 - 0.55) / 4 = -0.0375.
//!
//! | response | q | p | r | A | counts | derivative by log p |
//! |---|---|---|---|---|---|---|
//! | 0 | 0.6 | 0.5 | 1.25 | 1/2 | 1.2 A = 0.6 | 0 |
//! | 1 | 0.2 | 0.3 | 0.75 | -1/2 | 0.8 A = -0.4 | 0 |
//! | 2 | 0.2 | 0.4 | 1 | 1/2 | r A = 0.5 | -0.5 / 4 = -0.125 |
//! | 3 | 0.2 | 0.44 | 1.1 | -1/2 | r A = -0.55 | 0.55 / 4 = 0.1375 |

use echo_learner::training::objective::{Known, Preset, RewardedResponse, ScoredResponse};

/// Reward, q and p of each response.
const GROUP: [(f64, f64, f64); 4] = [(1.0, 0.6, 0.5), (0.0, 0.2, 0.3), (1.0, 0.2, 0.4), (0.0, 0.2, 0.44)];

fn main() -> anyhow::Result<()> {
    // Try `Preset::Grpo` or another one: it has the same parts, and other numbers come out.
    let preset = Preset::Gepo;
    let objective = preset.objective();

    // Rewards become advantages.
    let outcomes = GROUP.map(|(reward, _, _)| RewardedResponse { reward, length: 1, group: 0 });
    let advantages = objective.advantage.of(&outcomes)?;

    // The plan has all that does not depend on the policy in training, such as E.
    let known = GROUP.iter().zip(&advantages).map(|((_, q, _), advantage)| Known {
        behaviour: vec![q.ln()],
        advantage: vec![*advantage],
        ..Known::default()
    });
    let plan = objective.plan(known.collect(), 1)?;

    // Each response adds its part of the loss. The trainer evaluates a micro-batch at a time.
    println!("{}: {} responses of one prompt", preset.name(), GROUP.len());
    println!("response  reward  advantage  ratio  clipped     loss  d loss / d log p");
    let mut sum = 0.0;
    for (response, ((reward, _, p), advantage)) in GROUP.iter().zip(&advantages).enumerate() {
        let part = plan.evaluate(&[ScoredResponse { response, logp: &[p.ln()], entropy: &[] }])?;
        let slope = part.d_logp.concat().iter().sum::<f64>();
        let (ratio, clipped) = (part.stats.weight_mean(), part.stats.clip_share() > 0.0);
        println!(
            "{response:>8}  {reward:>6}  {advantage:>9.2}  {ratio:>5.2}  {clipped:>7}  {:>7.4}  {slope:>16.4}",
            part.loss
        );
        sum += part.loss;
    }
    println!("loss {sum:.4}");

    // All at once it is the same, and the figures for the metrics are of the whole batch.
    let logp = GROUP.map(|(_, _, p)| [p.ln()]);
    let scored: Vec<ScoredResponse<'_>> = logp
        .iter()
        .enumerate()
        .map(|(response, logp)| ScoredResponse { response, logp, entropy: &[] })
        .collect();
    let whole = plan.evaluate(&scored)?;
    println!("loss {:.4} all at once", whole.loss);
    println!("mean ratio {:.3}, clipped {}", whole.stats.weight_mean(), whole.stats.clip_share());
    // A step against these derivatives makes response 2 likelier, and response 3 less likely.
    Ok(())
}
