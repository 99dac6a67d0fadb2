//! One arm of a study: an objective under a delay.

use super::delay::Delay;
use echo_learner::training::objective::ObjectiveChoice;

/// One of the things that a study compares.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    /// Its name in results and pictures.
    pub(super) algo: String,
    /// The objective. Its preset decides, as in a run file, whether groups are filtered.
    pub(super) objective: ObjectiveChoice,
    /// How stale its rollouts are.
    pub(super) delay: Delay,
    /// Optimizer steps that it makes of each of the plan's, at as much smaller a rate.
    pub(super) split: usize,
}
