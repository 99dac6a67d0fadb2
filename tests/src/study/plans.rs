//! What each study runs, and what it claims.

use super::Study;
use super::arm::Arm;
use super::delay::{Delay, DelayModel};
use crate::models::in_process_training::PracticeSetting;
use echo_learner::training::objective::{
    Anchor, EchoClip, Estimator, Kl, Objective, ObjectiveChoice, Preset, Surrogate,
};
use echo_policy::model::config::TinySizes;
use echo_policy::text::tokenizer::CHARACTER_VOCABULARY;
use echo_protocol::run::charter::TaskSpec;
use std::fmt;

/// The studies that share this machinery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// GRPO and its relatives without delay and with delays of up to 64 updates (GEPO, table 1),
    /// all of which stay near to the policy that sampled where there is a delay (appendix B.1). All
    /// make one step an update but decoupled PPO, which makes four at a quarter of the rate, as
    /// AReaL does: with one, its policy is the recent one, and its clip never acts.
    Staleness,
    /// PPO around the sampling policy and around the recent one, by staleness (AReaL, figure 5).
    Decoupled,
    /// GRPO and DAPO with and without EchoClip on a task that saturates (EchoRL, table 1). DAPO is
    /// with its dynamic sampling.
    EchoClip,
    /// The variance of token, sequence and group weights against KL (GEPO, figure 2 and theorem 1).
    Variance,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Staleness => "staleness",
            Self::Decoupled => "decoupled",
            Self::EchoClip => "echoclip",
            Self::Variance => "variance",
        })
    }
}

/// The supervised start: how long it goes on, and at what accuracy it stops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Imitation {
    pub(super) updates: u64,
    pub(super) examples: u64,
    pub(super) rate: f64,
    pub(super) look_every: u64,
    pub(super) until_accuracy: f64,
}

/// A study in numbers.
#[derive(Clone, Debug)]
pub(super) struct StudyPlan {
    pub(super) name: Name,
    pub(super) arms: Vec<Arm>,
    /// Updates of a course, groups of an update, responses of a group.
    pub(super) updates: u64,
    pub(super) groups: u64,
    pub(super) group_size: u32,
    /// Optimizer steps of an update; an arm may split each.
    pub(super) minibatches: usize,
    /// Learning rate, after so many optimizer steps of warm-up.
    pub(super) rate: f64,
    pub(super) warmup: u64,
    /// Held-out orders of an evaluation, and updates between two.
    pub(super) orders: u64,
    pub(super) evaluate_every: u64,
    /// Digits and terms of the sums, and whether they are worked out in steps.
    pub(super) digits: u64,
    pub(super) terms: u64,
    pub(super) steps: bool,
    /// Longest response, its end included.
    pub(super) max_new_tokens: u32,
    pub(super) imitation: Imitation,
}

/// The longest delay of the staleness study.
const LONGEST: u64 = 64;
/// Updates of its courses: many of the longest delay, in which nothing but the
/// first policy's rollouts arrives.
const LONG_COURSE: u64 = 1000;
/// What every objective under a delay has beside its own parts (GEPO appendix B.1).
const CPPO_KL: Kl = Kl { estimator: Estimator::K3, beta: 0.005, anchor: Anchor::Behaviour, cap: None };
/// Steps of an update around its first policy (AReaL's PPO minibatches).
const MINIBATCHES: usize = 4;

/// The plan of a study, with what the caller sets instead.
pub(super) fn plan(study: &Study) -> StudyPlan {
    let own = own_plan(study.name, study.delay_model);
    StudyPlan {
        updates: study.updates.unwrap_or(own.updates),
        rate: study.rate.unwrap_or(own.rate),
        groups: study.groups.unwrap_or(own.groups),
        group_size: study.group_size.unwrap_or(own.group_size),
        ..own
    }
}

fn own_plan(name: Name, model: DelayModel) -> StudyPlan {
    let delayed = |updates| Delay { model, updates };
    let arm =
        |algo: &str, objective, delay| Arm { algo: algo.into(), objective, delay: delayed(delay), split: 1 };
    let base = StudyPlan {
        name,
        arms: Vec::new(),
        updates: 500,
        groups: 16,
        group_size: 8,
        minibatches: 1,
        rate: 7e-4,
        warmup: 10,
        orders: 256,
        evaluate_every: 25,
        digits: 1,
        terms: 2,
        steps: false,
        max_new_tokens: 4,
        imitation: Imitation { updates: 600, examples: 32, rate: 2e-3, look_every: 10, until_accuracy: 0.3 },
    };
    match name {
        Name::Staleness => {
            let algorithms: [(&str, ObjectiveChoice); 6] = [
                ("grpo", Preset::Grpo.into()),
                ("gspo", wide_gspo()),
                ("gepo", Preset::Gepo.into()),
                ("decoupled_ppo", Preset::DecoupledPpo.into()),
                ("dr_grpo", Preset::DrGrpo.into()),
                ("bnpo", Preset::Bnpo.into()),
            ];
            let arms = [0, LONGEST]
                .iter()
                .flat_map(|delay| {
                    algorithms.map(|(algo, choice)| match delay {
                        0 => arm(algo, choice, 0),
                        _ => arm(algo, kept_near(choice), *delay),
                    })
                })
                .map(|arm| match arm.objective.preset {
                    // A quarter of the rate at four times the steps moves as far.
                    Preset::DecoupledPpo => Arm { split: MINIBATCHES, ..arm },
                    _ => arm,
                })
                .collect();
            // The rate at which GRPO without delay ended highest in a pilot over other seeds;
            // warm-up over 3 % (GEPO appendix B.1); one evaluation is to be worth ± 2 %.
            let (rate, warmup) = (3.5e-4, LONG_COURSE * 3 / 100);
            StudyPlan { arms, updates: LONG_COURSE, rate, warmup, orders: 1024, ..base }
        }
        Name::Decoupled => {
            let naive = changed(Preset::Bnpo, |bnpo| Objective { correction: None, ..bnpo });
            let arms = [0, 1, 4, 8, 16]
                .iter()
                .flat_map(|eta| {
                    [arm("naive_ppo", naive, *eta), arm("decoupled_ppo", Preset::DecoupledPpo.into(), *eta)]
                })
                .collect();
            // Four steps an update: a quarter of the rate moves as far.
            let rate = base.rate / MINIBATCHES as f64;
            StudyPlan { arms, minibatches: MINIBATCHES, rate, updates: 250, ..base }
        }
        Name::EchoClip => {
            let echo =
                |preset| changed(preset, |parts| Objective { echo_clip: Some(EchoClip::default()), ..parts });
            let arms = vec![
                arm("grpo", Preset::Grpo.into(), 0),
                arm("grpo_echo", echo(Preset::Grpo), 0),
                arm("dapo", Preset::Dapo.into(), 0),
                arm("dapo_echo", echo(Preset::Dapo), 0),
            ];
            // From a start that answers most orders right, as groups stop to teach when a task is
            // nearly solved. A clip is a step of a response, so that these have several: `1+2+3=`
            // is answered in the lines `3` and `6`.
            let imitation = Imitation { updates: 4000, until_accuracy: 0.7, ..base.imitation };
            StudyPlan { arms, updates: 400, terms: 3, steps: true, max_new_tokens: 6, imitation, ..base }
        }
        Name::Variance => base,
    }
}

/// GSPO with the clip that GEPO's authors give to every method they compare; its own
/// is a thousand times narrower.
fn wide_gspo() -> ObjectiveChoice {
    let surrogate = Surrogate::PpoClip { low: 0.2, high: 0.2, dual: None };
    changed(Preset::Gspo, |gspo| Objective { surrogate, ..gspo })
}

/// An objective with CPPO-KL.
fn kept_near(ObjectiveChoice { preset, objective }: ObjectiveChoice) -> ObjectiveChoice {
    ObjectiveChoice { preset, objective: Objective { kl: Some(CPPO_KL), ..objective } }
}

/// A preset with other parts.
fn changed(preset: Preset, change: impl FnOnce(Objective) -> Objective) -> ObjectiveChoice {
    ObjectiveChoice { preset, objective: change(preset.objective()) }
}

impl StudyPlan {
    /// What a seed practises.
    pub(super) fn setting(&self, seed: u64) -> PracticeSetting {
        let sizes = TinySizes {
            vocab: CHARACTER_VOCABULARY,
            hidden: 64,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 16,
            intermediate: 192,
            positions: 32,
        };
        let task = TaskSpec::new("chain_sum").with("digits", self.digits as i64);
        let task = task.with("terms", self.terms as i64).with("steps", self.steps.into());
        let (name, group_size) = ("study", self.group_size);
        PracticeSetting { name, sizes, task, group_size, max_new_tokens: self.max_new_tokens, seed: seed + 1 }
    }

    /// The numbers, in a sentence.
    pub(super) fn description(&self) -> String {
        let Imitation { updates, until_accuracy, .. } = self.imitation;
        let split = self.arms.iter().find(|arm| arm.split > 1).map_or_else(String::new, |arm| {
            let (steps, rate) = (self.minibatches * arm.split, self.rate / arm.split as f64);
            format!(" ({} in {steps} steps at {rate:e})", arm.algo)
        });
        let near = self
            .arms
            .iter()
            .find_map(|arm| arm.objective.objective.kl)
            .map_or_else(String::new, |kl| format!("; under a delay CPPO-KL with β = {}", kl.beta));
        format!(
            "Qwen3 form, 2 layers of 64; sums of {} numbers of {} digits{} (accuracy is measured on orders of their own, but there are few such sums); imitation of at most {updates} updates or to an accuracy of \
             {until_accuracy}; then {} updates of {} groups of {} in {} steps, AdamW at {:e} after {} steps of warm-up{split}{near}",
            self.terms,
            self.digits,
            if self.steps { ", worked out in steps" } else { "" },
            self.updates,
            self.groups,
            self.group_size,
            self.minibatches,
            self.rate,
            self.warmup
        )
    }
}
