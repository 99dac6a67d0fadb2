//! A group as the buffer keeps it and the trainer gets it.

use echo_protocol::work::trajectory::TrajectoryGroup;
use serde::{Deserialize, Serialize};

/// A group as the trainer gets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredGroup {
    /// Its place in the order of arrival.
    pub arrival: u64,
    /// The group. Rewards and Ω are the learner's own.
    pub group: TrajectoryGroup,
    /// Whether the task counts each trajectory as right.
    pub correct: Vec<bool>,
}
