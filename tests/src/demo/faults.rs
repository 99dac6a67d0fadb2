//! Who is killed in a demo, and when.

use crate::harness::network::TestNetwork;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Pause before what was killed comes back.
const BACK_AFTER: Duration = Duration::from_secs(2);

/// How many are killed, each with SIGKILL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DemoFaults {
    /// Volunteers. Every second one comes back, the others are gone for good.
    pub nodes: usize,
    /// Whether the learner is killed, once.
    pub learner: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    KillNode { index: usize, comes_back: bool },
    KillLearner,
    StartNode(usize),
    ResumeLearner,
}

/// Faults that are still to come.
#[derive(Debug)]
pub(super) struct DemoSchedule {
    /// Kills that are to come, by the update at which they are due.
    kills: VecDeque<(u64, Fault)>,
    /// Returns that are to come, by the moment at which they are due.
    returns: VecDeque<(Instant, Fault)>,
    learner_is_up: bool,
}

impl DemoFaults {
    /// Spreads the faults over the run: volunteers from a fifth of it on, the learner in the middle.
    pub(super) fn schedule(&self, updates: u64) -> DemoSchedule {
        let node = |n: usize| {
            let fault = Fault::KillNode { index: n, comes_back: n % 2 == 1 };
            (updates / 5 + n as u64 * updates / 10, fault)
        };
        let mut kills: Vec<_> = (0..self.nodes).map(node).collect();
        if self.learner {
            kills.push((updates / 2 + 1, Fault::KillLearner));
        }
        kills.sort_by_key(|(update, _)| *update);
        DemoSchedule { kills: kills.into(), returns: VecDeque::new(), learner_is_up: true }
    }
}

impl DemoSchedule {
    /// Whether the learner is meant to run.
    pub(super) fn learner_is_up(&self) -> bool {
        self.learner_is_up
    }

    /// Carries out what is due at `update`, and says what that was.
    pub(super) async fn due(
        &mut self,
        update: u64,
        network: &mut TestNetwork,
    ) -> anyhow::Result<Vec<String>> {
        let mut notes = Vec::new();
        while let Some((_, fault)) = self.kills.pop_front_if(|(at, _)| update >= *at) {
            notes.push(self.carry_out(fault, network).await?);
        }
        while let Some((_, fault)) = self.returns.pop_front_if(|(at, _)| Instant::now() >= *at) {
            notes.push(self.carry_out(fault, network).await?);
        }
        Ok(notes)
    }

    async fn carry_out(&mut self, fault: Fault, network: &mut TestNetwork) -> anyhow::Result<String> {
        let back = Instant::now() + BACK_AFTER;
        match fault {
            Fault::KillNode { index, comes_back } => {
                network.kill_node(index).await?;
                if comes_back {
                    self.returns.push_back((back, Fault::StartNode(index)));
                }
                Ok(format!(
                    "killed {}{}",
                    network.node_name(index),
                    if comes_back { "" } else { " for good" }
                ))
            }
            Fault::KillLearner => {
                network.kill_learner().await?;
                self.learner_is_up = false;
                self.returns.push_back((back, Fault::ResumeLearner));
                Ok("killed the learner".into())
            }
            Fault::StartNode(index) => {
                network.start_node(index)?;
                Ok(format!("started {} again", network.node_name(index)))
            }
            Fault::ResumeLearner => {
                network.resume_learner()?;
                self.learner_is_up = true;
                Ok("resumed the learner".into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_spread_over_the_run_and_every_second_volunteer_returns() {
        let schedule = DemoFaults { nodes: 2, learner: true }.schedule(500);
        let kill = |index, comes_back| Fault::KillNode { index, comes_back };
        let expected = [(100, kill(0, false)), (150, kill(1, true)), (251, Fault::KillLearner)];
        assert_eq!(schedule.kills, expected);
        assert!(DemoFaults::default().schedule(500).kills.is_empty());
    }
}
