//! Well-known objectives by name.

use serde::{Deserialize, Serialize};

use super::{
    Advantage, Against, Aggregation, Baseline, Correction, Degenerate, Level, Objective, Ratio, Scale,
    Surrogate, WeightBound,
};

/// The name of an objective in run files and studies, in snake case. [`Preset::objective`] gives
/// its parts; a run file may override any of them.
///
/// Where a peer's implementation and the paper differ in their default numbers, the paper's stand here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Group-normalised advantages, token ratio, PPO clip, mean over responses (DeepSeekMath eq.
    /// 3). Its KL term is left out; `kl = { estimator = "k3", beta = 0.04, anchor = "reference",
    /// cap = 10.0 }` puts it back.
    Grpo,
    /// GRPO without the deviation and without a bias by length (Dr. GRPO).
    DrGrpo,
    /// GRPO with a higher upper clip and a mean over tokens (DAPO). Its dynamic sampling is
    /// `[train.filter] dynamic`, which is on with this preset unless the run file says otherwise.
    Dapo,
    /// One ratio a response, with a narrow clip (GSPO).
    Gspo,
    /// One denominator a group (GEPO eq. 2 and 3), with PPO's clip, without which long delays end
    /// in collapse, and without the CPPO-KL term (`kl = { estimator = "k3", beta = 0.005, anchor =
    /// "behaviour", cap = false }`).
    #[default]
    Gepo,
    /// GEPO with the defensive denominator (eq. 37) and without a clip.
    GepoDefensive,
    /// Clipped weights that keep their gradient, mean over tokens (MiniMax-M1 eq. 4).
    Cispo,
    /// log π with token weights from the sampling policy and the group's mean as baseline (RLAX
    /// appendix A). The weights are π_prox / π_behaviour, of the policy at the start of the
    /// step, where RLAX has sg\[r(θ)\] of the current one: they are the same until the policy
    /// moves within the update.
    Reinforce,
    /// REINFORCE with the mean of the other responses as baseline (RLOO), weighted as
    /// [`Preset::Reinforce`] is. RLAX scales the same difference by (G - 1) / G, which makes it the
    /// distance from the group's mean.
    Rloo,
    /// PPO's clip on advantages normalised over the batch (REINFORCE++). The K2 term that RLAX §4
    /// gives it is left out; `kl = { estimator = "k2", beta = 0.01, anchor = "reference", cap =
    /// false }` puts it back. (RLAX names no β for it.)
    ReinforcePp,
    /// GRPO with a mean over the tokens of the batch: what GEPO's authors compare with under this name.
    Bnpo,
    /// Clipped token ratios, geometric mean over the response (GMPO).
    Gmpo,
    /// A soft gate in the place of the clip (SAPO).
    Sapo,
    /// log π times the centred reward, mean over tokens (GPG). Its factor α for degenerate groups
    /// is left out; `advantage = { degenerate = "rescale" }` puts it back.
    Gpg,
    /// PPO around the policy at the start of the step, weighted by that policy over the sampling
    /// one (AReaL eq. 5).
    DecoupledPpo,
    /// The same by ECHO-2's eq. 24 and 25: weights truncated at C, mean over responses. The -β
    /// KL(π_θ ‖ π_ref) of eq. 25 is left out; `kl = { estimator = "k3", beta = 0.001, anchor =
    /// "reference", cap = false }` puts it back. (ECHO-2 names neither β nor the estimator.)
    PpoTruncatedIs,
}

impl Preset {
    /// All presets, in the order in which `echo-learner objectives` lists them.
    pub const ALL: [Self; 16] = [
        Self::Grpo,
        Self::DrGrpo,
        Self::Dapo,
        Self::Gspo,
        Self::Gepo,
        Self::GepoDefensive,
        Self::Cispo,
        Self::Reinforce,
        Self::Rloo,
        Self::ReinforcePp,
        Self::Bnpo,
        Self::Gmpo,
        Self::Sapo,
        Self::Gpg,
        Self::DecoupledPpo,
        Self::PpoTruncatedIs,
    ];

    /// The name in run files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpo => "grpo",
            Self::DrGrpo => "dr_grpo",
            Self::Dapo => "dapo",
            Self::Gspo => "gspo",
            Self::Gepo => "gepo",
            Self::GepoDefensive => "gepo_defensive",
            Self::Cispo => "cispo",
            Self::Reinforce => "reinforce",
            Self::Rloo => "rloo",
            Self::ReinforcePp => "reinforce_pp",
            Self::Bnpo => "bnpo",
            Self::Gmpo => "gmpo",
            Self::Sapo => "sapo",
            Self::Gpg => "gpg",
            Self::DecoupledPpo => "decoupled_ppo",
            Self::PpoTruncatedIs => "ppo_truncated_is",
        }
    }

    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// The parts that this preset is made of.
    #[must_use]
    pub fn objective(self) -> Objective {
        let centred = advantage(Baseline::GroupMean, Scale::None);
        let truncated = Correction { level: Level::Token, bound: WeightBound::Truncate { cap: 5.0 } };
        let weighted = Correction { level: Level::Token, bound: WeightBound::Unbounded {} };
        let grpo = Objective {
            aggregation: Aggregation::PerResponse {},
            advantage: advantage(Baseline::GroupMean, Scale::GroupStd),
            ratio: Ratio::Token { against: Against::Behaviour },
            surrogate: clip(0.2, 0.2),
            correction: None,
            kl: None,
            entropy_bonus: 0.0,
            echo_clip: None,
        };
        match self {
            Self::Grpo => grpo,
            Self::DrGrpo => {
                Objective { advantage: centred, aggregation: Aggregation::MaxLength { length: 0 }, ..grpo }
            }
            Self::Dapo => {
                Objective { surrogate: clip(0.2, 0.28), aggregation: Aggregation::PerToken {}, ..grpo }
            }
            Self::Gspo => Objective {
                ratio: Ratio::Sequence { against: Against::Behaviour },
                surrogate: clip(3e-4, 4e-4),
                ..grpo
            },
            Self::Gepo => Objective { advantage: centred, ratio: Ratio::Group {}, ..grpo },
            Self::GepoDefensive => Objective {
                advantage: centred,
                ratio: Ratio::GroupDefensive { scale: 4.0 },
                surrogate: Surrogate::Ratio {},
                ..grpo
            },
            Self::Cispo => Objective {
                surrogate: Surrogate::Cispo { low: 1.0, high: 0.28 },
                aggregation: Aggregation::PerToken {},
                ..grpo
            },
            Self::Reinforce => Objective {
                advantage: centred,
                surrogate: Surrogate::LogProb {},
                correction: Some(weighted),
                aggregation: Aggregation::MaxLength { length: 0 },
                ..grpo
            },
            Self::Rloo => Objective {
                advantage: advantage(Baseline::LeaveOneOut, Scale::None),
                surrogate: Surrogate::LogProb {},
                correction: Some(weighted),
                aggregation: Aggregation::TokenSum {},
                ..grpo
            },
            Self::ReinforcePp => {
                Objective { advantage: advantage(Baseline::BatchMean, Scale::BatchStd), ..grpo }
            }
            Self::Bnpo => Objective { aggregation: Aggregation::PerToken {}, ..grpo },
            Self::Gmpo => Objective {
                ratio: Ratio::Geometric { against: Against::Behaviour, low: 0.4, high: 0.4 },
                surrogate: Surrogate::Ratio {},
                ..grpo
            },
            Self::Sapo => {
                Objective { surrogate: Surrogate::Sapo { tau_positive: 1.0, tau_negative: 1.05 }, ..grpo }
            }
            Self::Gpg => Objective {
                advantage: centred,
                surrogate: Surrogate::LogProb {},
                aggregation: Aggregation::PerToken {},
                ..grpo
            },
            Self::DecoupledPpo => Objective {
                ratio: Ratio::Token { against: Against::Proximal },
                correction: Some(truncated),
                aggregation: Aggregation::PerToken {},
                ..grpo
            },
            Self::PpoTruncatedIs => Objective {
                ratio: Ratio::Token { against: Against::Proximal },
                correction: Some(Correction { bound: WeightBound::Truncate { cap: 2.0 }, ..truncated }),
                ..grpo
            },
        }
    }
}

fn advantage(baseline: Baseline, scale: Scale) -> Advantage {
    Advantage { baseline, scale, overlong: None, degenerate: Degenerate::Zero }
}

fn clip(low: f64, high: f64) -> Surrogate {
    Surrogate::PpoClip { low, high, dual: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_run_files_and_in_code_are_the_same() {
        for preset in Preset::ALL {
            assert_eq!(serde_json::to_value(preset).unwrap(), preset.name());
            assert_eq!(Preset::named(preset.name()), Some(preset));
            preset.objective().validate().unwrap();
        }
        assert_eq!(Preset::named("sft"), None);
    }
}
