//! What the node knows about itself: written by every part, read by the status line and the heartbeat.

use std::collections::BTreeMap;

use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::submission::RefuseReason;
use parking_lot::Mutex;
use serde::Serialize;

use crate::status::throughput::Meter;

/// What the node is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeActivity {
    /// Looking for the learner; nothing is installed.
    #[default]
    Joining,
    /// Waiting for a first snapshot, or receiving it.
    WaitingForSnapshot,
    /// The learner has no work right now.
    WaitingForWork,
    /// Keeping the newest snapshots and passing them on: this node does not generate.
    Relaying,
    /// Checking what others have generated: this node does not generate.
    Verifying,
    /// Drawing tokens for at least one order.
    Generating,
    /// The outbox is full: nothing is generated until the learner takes something.
    OutboxFull,
    /// The installed policy cannot be sampled from; the next one may be better.
    PolicyUnusable,
    /// The run has ended: what is finished is being delivered.
    Delivering,
    /// The run has ended.
    Ended,
}

/// A snapshot on its way here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Download {
    /// The version that is being received.
    pub version: PolicyVersion,
    /// Bytes that are here.
    pub have: u64,
    /// Bytes that are fetched for it in all, where deltas save some.
    pub total: u64,
}

/// A device that is not taken any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostDevice {
    /// Its name, as devices are listed.
    pub name: String,
    /// What became of it.
    pub why: String,
}

/// Bytes and blocks of snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SnapshotTraffic {
    /// Bytes received, useful or not.
    pub received_bytes: u64,
    /// Bytes sent to consumers of snapshots.
    pub sent_bytes: u64,
    /// Blocks received that were not here before.
    #[serde(rename = "groups")]
    pub blocks: u64,
    /// Blocks received that were here already.
    pub duplicates: u64,
    /// Blocks taken over from a slower or lost neighbour.
    pub repairs: u64,
    /// Peers that were cut off because they served rotten bytes or broke the protocol: the first
    /// digits of their keys.
    pub cut_off: Vec<String>,
}

/// The node at one moment: what `status.json` holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// What it is doing.
    pub state: NodeActivity,
    /// Whether the learner answers.
    pub learner: bool,
    /// Why it does not answer, where it says so: this node is banned, for instance.
    pub silence: Option<String>,
    /// Why no work is taken, where the owner's settings say so.
    pub paused: Option<String>,
    /// The installed version; `None` before the first of the run.
    pub version: Option<PolicyVersion>,
    /// The learner's epoch in which it was published.
    pub epoch: Option<Epoch>,
    /// When it was installed, in milliseconds since the Unix epoch.
    pub installed_at: Option<UnixMillis>,
    /// What the installed version was loaded on.
    pub device: Option<String>,
    /// Devices that are not taken any more since the start, and why.
    pub lost_devices: Vec<LostDevice>,
    /// Trajectories per second, over the last ten seconds.
    pub rollouts_per_s: f32,
    /// Trajectories per second that may be expected before there are any: see
    /// [`crate::devices::hardware::expected`].
    pub expected_rollouts_per_s: Option<f32>,
    /// Trajectories generated since the start.
    pub rollouts: u64,
    /// Groups that the learner accepted since the start.
    pub accepted: u64,
    /// The time from when each accepted group was first sent until it was accepted, over all
    /// of them, in seconds.
    pub waited_s: f64,
    /// Groups that the learner refused since the start, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Groups of others that were checked since the start.
    pub checked: u64,
    /// Of these, groups that were called lies.
    pub denounced: u64,
    /// Groups that wait for the learner.
    pub outbox: u64,
    /// Peers that are connected now, of any kind.
    pub peers: usize,
    /// Where snapshots come from: the first digits of a key.
    pub parent: Option<String>,
    /// Peers that snapshots may come from.
    pub neighbours: usize,
    /// Snapshots as they went through here since the start.
    pub traffic: SnapshotTraffic,
    /// The snapshot that is being received.
    pub download: Option<Download>,
    /// Milliseconds that this machine's clock is ahead of the learner's.
    pub clock_ahead_ms: Option<i64>,
}

impl Facts {
    /// What the learner is told of its throughput: what was measured of real groups, and what may
    /// be expected before there are any.
    pub fn reported_rollouts_per_s(&self) -> f32 {
        self.expected_rollouts_per_s.filter(|_| self.rollouts == 0).unwrap_or(self.rollouts_per_s)
    }
}

/// The one place where [`Facts`] are kept.
#[derive(Debug, Default)]
pub struct NodeState(Mutex<(Facts, Meter)>);

impl NodeState {
    /// Changes facts under the lock, so `change` must not wait for anything.
    pub fn set(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.0.lock().0);
    }

    /// Counts finished trajectories, and takes them into the rate.
    pub fn generated(&self, now: UnixMillis, trajectories: u64) {
        let (facts, meter) = &mut *self.0.lock();
        facts.rollouts += trajectories;
        meter.add(now, trajectories);
    }

    /// Keeps why no work is taken, and returns what was kept before.
    pub fn paused(&self, why: Option<String>) -> Option<String> {
        std::mem::replace(&mut self.0.lock().0.paused, why)
    }

    /// Counts a refused group.
    pub fn refused(&self, reason: RefuseReason) {
        *self.0.lock().0.refused.entry(reason.name()).or_default() += 1;
    }

    /// A copy of all facts, with the rate as it is at `now`.
    pub fn facts(&self, now: UnixMillis) -> Facts {
        let (facts, meter) = &mut *self.0.lock();
        Facts { rollouts_per_s: meter.per_second(now), ..facts.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_learner_is_told_what_is_expected_until_there_are_groups() {
        let node_state = NodeState::default();
        let reported = |now| node_state.facts(UnixMillis(now)).reported_rollouts_per_s();
        assert_eq!(reported(0), 0.0);
        node_state.set(|facts| facts.expected_rollouts_per_s = Some(2.5));
        assert_eq!(reported(0), 2.5);
        node_state.generated(UnixMillis(1_000), 8);
        assert_eq!(reported(3_000), 4.0);
        assert_eq!(reported(60_000), 0.0, "what was measured counts, whatever it is");
    }
}
