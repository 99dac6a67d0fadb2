//! What honest members get done within some time.

use super::network::node;
use crate::harness::network::{NetworkLayout, TestNetwork};
use crate::harness::{observation, process_usage};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The pause between two looks: nodes renew their status twice a second.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The figures of one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Phase {
    /// How long was measured.
    pub(super) seconds: f64,
    /// Updates of the learner.
    pub(super) updates_per_s: f64,
    /// Groups of the honest nodes that were accepted.
    pub(super) honest_groups_per_s: f64,
    /// Versions by which each honest node's installed policy moved on.
    pub(super) versions_per_s: Vec<f64>,
    /// From a newcomer's start until it has a policy; `None` where it had none at the end.
    pub(super) join_s: Option<f64>,
    /// The learner's most resident memory since its start, in 10⁶ bytes.
    pub(super) learner_peak_mb: f64,
    /// Growth of the log that grew most.
    pub(super) log_kb_per_minute: f64,
    /// Processor time of the lab, which is that of its attackers.
    pub(super) lab_processor_s: f64,
    /// Why a process ended, where one did.
    pub(super) failure: Option<String>,
}

/// What only grows.
struct Counters {
    at: Instant,
    updates: u64,
    accepted: u64,
    versions: Vec<u64>,
    logs: BTreeMap<String, u64>,
    processor_s: f64,
}

/// A node that joins while others work.
struct Newcomer<'a> {
    name: &'a str,
    joining: Option<(usize, Instant)>,
    join_s: Option<f64>,
}

/// Measures for so long. A newcomer of this name joins in the middle, and is killed when it has a
/// policy. Ends early when a process does.
pub(super) async fn phase(
    network: &mut TestNetwork,
    nodes: &[String],
    lasts: Duration,
    newcomer: &str,
) -> anyhow::Result<Phase> {
    let before = Counters::of(network.layout(), nodes);
    let mut newcomer = Newcomer { name: newcomer, joining: None, join_s: None };
    let (mut failure, mut peak) = (None, 0);
    while before.at.elapsed() < lasts && failure.is_none() {
        sleep(LOOK_EVERY).await;
        let used = network.learner_pid().and_then(process_usage::of);
        peak = used.map_or(peak, |used| used.rss_peak.max(peak));
        failure = network.check().err().map(|error| format!("{error:#}"));
        if failure.is_none() && before.at.elapsed() >= lasts / 2 {
            newcomer.look(network).await?;
        }
    }
    let after = Counters::of(network.layout(), nodes);
    if failure.is_none() {
        newcomer.leave(network).await?;
    }
    let mut phase = after.since(&before);
    (phase.join_s, phase.failure) = (newcomer.join_s, failure);
    phase.learner_peak_mb = peak as f64 / 1e6;
    Ok(phase)
}

impl Counters {
    fn of(layout: &NetworkLayout, nodes: &[String]) -> Self {
        let number = |node: &String, key: &str| layout.node_status(node)?.get(key)?.as_u64();
        let all = |key: &str| -> Vec<u64> {
            nodes.iter().map(|node| number(node, key).unwrap_or_default()).collect()
        };
        let everybody = ["learner".to_owned(), "bootstrap".to_owned()];
        let logs = everybody.iter().chain(nodes);
        Self {
            at: Instant::now(),
            updates: observation::updates(layout),
            accepted: all("accepted").iter().sum(),
            versions: all("version"),
            logs: logs.map(|who| (who.clone(), observation::log_bytes(layout, who))).collect(),
            processor_s: process_usage::of(std::process::id()).map_or(0.0, |used| used.cpu_s),
        }
    }

    fn since(&self, before: &Self) -> Phase {
        let seconds = (self.at - before.at).as_secs_f64();
        let rate = |after: u64, before: u64| after.saturating_sub(before) as f64 / seconds;
        let versions = self.versions.iter().zip(&before.versions);
        let logs =
            self.logs.iter().map(|(who, bytes)| rate(*bytes, before.logs.get(who).copied().unwrap_or(0)));
        Phase {
            seconds,
            updates_per_s: rate(self.updates, before.updates),
            honest_groups_per_s: rate(self.accepted, before.accepted),
            versions_per_s: versions.map(|(after, before)| rate(*after, *before)).collect(),
            log_kb_per_minute: logs.fold(0.0, f64::max) * 60.0 / 1e3,
            lab_processor_s: self.processor_s - before.processor_s,
            ..Phase::default()
        }
    }
}

impl Newcomer<'_> {
    /// Starts it, or looks whether it has a policy by now.
    async fn look(&mut self, network: &mut TestNetwork) -> anyhow::Result<()> {
        let Some((index, since)) = self.joining else {
            self.joining = Some((network.add_node(node(self.name))?, Instant::now()));
            return Ok(());
        };
        let has_policy = network.node_status(index).is_some_and(|status| status["version"].is_u64());
        if self.join_s.is_none() && has_policy {
            self.join_s = Some(since.elapsed().as_secs_f64());
            network.kill_node(index).await?;
        }
        Ok(())
    }

    /// Kills it where it has not joined.
    async fn leave(&self, network: &mut TestNetwork) -> anyhow::Result<()> {
        match self.joining {
            Some((index, _)) if network.node_is_up(index) => network.kill_node(index).await,
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let begun = Instant::now();
        let counters = |after_s, updates, versions: [u64; 2], log| Counters {
            at: begun + Duration::from_secs(after_s),
            updates,
            accepted: updates * 8,
            versions: versions.into(),
            logs: [("learner".to_owned(), log), ("node-1".to_owned(), 0)].into(),
            processor_s: after_s as f64,
        };
        let phase = counters(10, 60, [56, 7], 3000).since(&counters(0, 20, [16, 7], 1000));
        assert_eq!((phase.seconds, phase.updates_per_s, phase.honest_groups_per_s), (10.0, 4.0, 32.0));
        assert_eq!((phase.versions_per_s, phase.log_kb_per_minute), (vec![4.0, 0.0], 12.0));
        assert_eq!((phase.lab_processor_s, phase.join_s), (10.0, None));
    }
}
