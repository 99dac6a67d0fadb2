//! Studies: what the papers claim, tried with a tiny policy and the real algorithms.
//!
//! A study trains one policy for each seed by imitation. Then it goes on from there with every
//! *arm*: an objective, and a delay between sampling and training, in updates. Rollouts come
//! from the engine that nodes use, updates from the learner's trainer. There is no network, so
//! delays are exact and a seed gives the same course every time. Every claim is reported,
//! whether it holds or not.
//!
//! [`kill`] and [`audit`] are studies of another kind: real processes that are killed, and how
//! well the sampling audit tells honest nodes from cheats. [`work_ahead`] measures how long a learner waits for
//! nodes whose pace the lab sets. `deltas` measures a policy's deltas while it is trained, and `precision`
//! compares forms in which a policy can be published.
//!
//! [`fleet`] simulates learner and nodes in virtual time. [`simulated_capacity`], [`simulated_faults`] and
//! [`simulated_ablation`] stand on it, and take the constants of ECHO-2; [`broadcast_scale`] needs no more than
//! the rates of links, and [`cost`] no more than prices and hours.
//!
//! May import `broadcast` (the fluid bound), `conformance`, `harness`, `models` and `output`.
//!
//! ```text
//! plans ──► arms × seeds ──► worker_pool ──► course (rollouts, filter, update, accuracy)
//!                                               │
//!                                               ├──► chart ──► PNG
//!                                               └──► statistics ──► report (claims)
//! ```

mod arm;
pub mod audit;
pub mod broadcast_scale;
mod chart;
pub mod cost;
mod course;
mod delay;
pub mod deltas;
pub mod fleet;
pub mod kill;
mod paced;
mod plans;
pub mod precision;
mod report;
pub mod simulated;
pub mod simulated_ablation;
pub mod simulated_capacity;
mod simulated_chart;
pub mod simulated_faults;
pub(crate) mod statistics;
mod variance;
pub mod work_ahead;
mod worker_pool;

pub use delay::{Delay, DelayModel};
pub use plans::Name;

use crate::models::in_process_training::Practice;
use crate::output::console::{CommandReport, Console};
use anyhow::Context;
use arm::Arm;
use course::SeedCourse;
use echo_policy::model::weights::Weights;
use plans::StudyPlan;
use std::path::PathBuf;
use std::time::Instant;

/// Which study is made, and what of its plan is set otherwise.
#[derive(Clone, Debug)]
pub struct Study {
    /// Which of the studies it is.
    pub name: Name,
    /// Seeds: weights, prompts and samples of the courses.
    pub seeds: u64,
    /// Updates of each course; left out, the study's own number.
    pub updates: Option<u64>,
    /// Learning rate of reinforcement; left out, the study's own.
    pub rate: Option<f64>,
    /// Prompts of an update, and responses to each; left out, the study's own.
    pub groups: Option<u64>,
    /// Responses to a prompt.
    pub group_size: Option<u32>,
    /// Where the delays of delayed arms come from.
    pub delay_model: DelayModel,
    /// Where the pictures go.
    pub out: PathBuf,
}

/// Runs every course of the study, and says what became of its claims. Passes when every claim holds.
///
/// # Errors
/// When training fails, or a picture cannot be written.
pub fn run(study: &Study, console: &Console) -> anyhow::Result<CommandReport> {
    std::fs::create_dir_all(&study.out).with_context(|| format!("cannot make {}", study.out.display()))?;
    if study.name == Name::Variance {
        return variance::run(study, console);
    }
    let since = Instant::now();
    let plan = plans::plan(study);
    console.say(format!(
        "study {}: {} arms × {} seeds, {} updates each; {}",
        study.name,
        plan.arms.len(),
        study.seeds,
        plan.updates,
        plan.description()
    ));
    let seeds: Vec<u64> = (0..study.seeds).collect();
    let starts = worker_pool::share(&seeds, |&seed| start(&plan, seed))?;
    for (seed, (_, _, accuracy)) in starts.iter().enumerate() {
        console.say(format!("  seed {seed} starts at {accuracy:.3}"));
    }
    let jobs: Vec<(usize, usize)> =
        (0..plan.arms.len()).flat_map(|arm| (0..starts.len()).map(move |seed| (arm, seed))).collect();
    let courses = worker_pool::share(&jobs, |&(arm, seed)| {
        let (practice, weights, _) = &starts[seed];
        let course = course::course(practice, weights, &plan.arms[arm], &plan, seed as u64)?;
        let Arm { algo, delay, .. } = &plan.arms[arm];
        console.say(format!(
            "  {algo}, {delay}, seed {seed}: last {:.3}, best {:.3}",
            course.last(),
            course.best()
        ));
        Ok(course)
    })?;
    let courses: Vec<&[SeedCourse]> = courses.chunks(starts.len()).collect();
    chart::draw(&plan, &courses, study)?;
    report::report(&plan, &courses, study, since.elapsed(), console)
}

/// The policy that all arms of a seed begin with, and its accuracy.
fn start(plan: &StudyPlan, seed: u64) -> anyhow::Result<(Practice, Weights, f64)> {
    let practice = Practice::new(plan.setting(seed))?;
    let mut accuracy = 0.0;
    let weights = practice.imitate(
        plan.imitation.updates,
        plan.imitation.examples,
        plan.imitation.rate,
        |update, _, trainer| {
            if !update.is_multiple_of(plan.imitation.look_every) {
                return Ok(true);
            }
            accuracy = practice.accuracy(
                &trainer.decoder().to_weights(echo_policy::model::weights::DType::F32)?,
                plan.orders,
            )?;
            Ok(accuracy < plan.imitation.until_accuracy)
        },
    )?;
    Ok((practice, weights, accuracy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(name: Name, out: &std::path::Path) -> Study {
        Study {
            name,
            seeds: 2,
            updates: Some(2),
            rate: None,
            groups: Some(2),
            group_size: Some(4),
            delay_model: DelayModel::Weibull,
            out: out.to_owned(),
        }
    }

    #[test]
    fn a_study_has_its_keys_and_pictures_and_is_the_same_every_time() {
        let dir = tempfile::tempdir().unwrap();
        let found = || run(&study(Name::EchoClip, dir.path()), &Console::new(true)).unwrap().json;
        let json = found();
        let results = json["results"].as_array().unwrap();
        assert_eq!(results.len(), 4);
        for key in ["algo", "delay", "seeds", "best_mean", "best_ci95", "last_mean", "last_ci95"] {
            assert!(!results[0][key].is_null(), "{key}");
        }
        assert!(json["claims"][0]["holds"].is_boolean());
        assert!(dir.path().join("echoclip-delay-0.png").exists());
        assert_eq!(found()["results"], json["results"]);
    }
}
