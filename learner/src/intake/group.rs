//! A group on its way through admission, and where the learner is meanwhile.

use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::work::trajectory::TrajectoryGroup;

/// Where the learner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Updates made so far: the version of the next batch.
    pub current: PolicyVersion,
    /// The newest version that was ever published in this run, also before a restart;
    /// `None` before the first.
    pub newest_published: Option<PolicyVersion>,
    /// The version that this process published between two periods: the one that a run which had
    /// ended goes on from.
    pub between_periods: Option<PolicyVersion>,
}

/// A group whose bytes, signer and form are right. Nothing about its claims is checked yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    pub(crate) id: ContentId,
    pub(crate) group: TrajectoryGroup,
}

/// A group that may be trained on.
#[derive(Clone, Debug, PartialEq)]
pub struct Admitted {
    /// BLAKE3 of the body that its node signed.
    pub id: ContentId,
    /// The group. Rewards and Ω are the learner's own.
    pub group: TrajectoryGroup,
    /// Whether the task counts each trajectory as right.
    pub correct: Vec<bool>,
}

impl Checked {
    /// BLAKE3 of the body that its node signed.
    pub fn id(&self) -> ContentId {
        self.id
    }

    /// The group as its node sent it; its rewards and Ω are claims.
    pub fn group(&self) -> &TrajectoryGroup {
        &self.group
    }
}
