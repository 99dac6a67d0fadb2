//! A real learner in a process of its own, and clients with groups for it that were
//! made and signed beforehand.

use crate::harness::binaries::Binaries;
use crate::harness::liar::{Liar, PATIENCE};
use crate::harness::network::{LearnerConfig, NetworkConfig, TestNetwork};
use crate::harness::small_run::until;
use anyhow::Context as _;
use echo_learner::telemetry::metrics;
use echo_protocol::run::version::PolicyVersion;
use futures::future::try_join_all;
use std::path::Path;
use std::time::Duration;

/// The version that all groups are made under: runs of benches admit it for ever.
const VERSION: PolicyVersion = PolicyVersion(0);

/// A learner, and clients that each have a connection, a key and a stack of groups.
pub(super) struct BenchClients {
    /// The learner, and a boot node that does nothing once everybody is connected.
    pub(super) network: TestNetwork,
    members: Vec<Member>,
}

struct Member {
    liar: Liar,
    /// What is still to be delivered, next one last.
    frames: Vec<Vec<u8>>,
}

impl BenchClients {
    /// Starts a learner with a run file in `dir`, connects `clients`, and has each make its share
    /// of `groups` groups with `wrong` as the wrong answer. The learner is idle when this returns.
    /// Fails when something cannot be started, or does not come in time.
    pub(super) async fn assemble(
        dir: &Path,
        run_file: &str,
        clients: usize,
        groups: usize,
        wrong: &str,
    ) -> anyhow::Result<Self> {
        let mut network = TestNetwork::start(NetworkConfig {
            binaries: Binaries::locate()?,
            dir: dir.to_owned(),
            network: "echo-lab".into(),
            run: "bench".into(),
            learner: LearnerConfig { settings: run_file.parse()?, ..LearnerConfig::default() },
            nodes: Vec::new(),
        })
        .await?;
        let path = network.layout().metrics();
        let idle = |_: &mut TestNetwork| metrics::evaluations(&path).ok().filter(|rows| !rows.is_empty());
        until("the first evaluation", PATIENCE, &mut network, idle).await?;
        let list = network.layout().list();
        let members = try_join_all((0..clients).map(|number| Member::join(&list, number))).await?;
        let mut clients = Self { network, members };
        clients.prepare(groups, wrong).await?;
        Ok(clients)
    }

    /// Has each client make its share of `groups` more groups, with `wrong` as the wrong answer.
    /// Where they are delivered in parts, the clients' shares of these have to add up to the same.
    /// Fails when the learner leases too few orders.
    pub(super) async fn prepare(&mut self, groups: usize, wrong: &str) -> anyhow::Result<()> {
        let clients = self.members.len();
        let make = self.members.iter_mut().enumerate();
        let make = make.map(|(number, member)| member.prepare(share(groups, clients, number), wrong));
        try_join_all(make).await.map(drop)
    }

    /// All frames that are still to be delivered.
    pub(super) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.members.iter().flat_map(|member| &member.frames).map(Vec::as_slice)
    }

    /// Delivers `groups` groups, each client its share: at `rate` groups a second in all, or as
    /// fast as they are acknowledged. Fails when one is not accepted.
    pub(super) async fn deliver(&mut self, groups: usize, rate: Option<f64>) -> anyhow::Result<()> {
        let clients = self.members.len();
        let pace = rate.map(|rate| Duration::from_secs_f64(clients as f64 / rate));
        let send = self.members.iter_mut().enumerate().map(|(number, member)| async move {
            // Clients that take turns offer evenly.
            if let Some(pace) = pace {
                tokio::time::sleep(pace.mul_f64(number as f64 / clients as f64)).await;
            }
            member.deliver(share(groups, clients, number), pace).await
        });
        try_join_all(send).await.map(drop)
    }
}

impl Member {
    async fn join(list: &Path, number: usize) -> anyhow::Result<Self> {
        let secret = [u8::try_from(number + 1).context("at most 255 clients")?; 32];
        Ok(Self { liar: Liar::join(list, secret, false).await?, frames: Vec::new() })
    }

    async fn prepare(&mut self, groups: usize, wrong: &str) -> anyhow::Result<()> {
        if groups == 0 {
            return Ok(());
        }
        let orders = self.liar.orders(groups).await?;
        let frame = |order| self.liar.sign(&self.liar.group_with(order, VERSION, wrong)?);
        let mut frames = orders.into_iter().rev().map(frame).collect::<anyhow::Result<Vec<_>>>()?;
        frames.append(&mut self.frames);
        self.frames = frames;
        Ok(())
    }

    async fn deliver(&mut self, groups: usize, pace: Option<Duration>) -> anyhow::Result<()> {
        let rest = self.frames.len().checked_sub(groups).context("a client has no groups left")?;
        let next: Vec<Vec<u8>> = self.frames.drain(rest..).rev().collect();
        self.liar.deliver(&next, pace).await
    }
}

/// How many of `all` are the part of this one of `parts`.
fn share(all: usize, parts: usize, number: usize) -> usize {
    all * (number + 1) / parts - all * number / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (all, parts) in [(4000, 8), (7, 3), (2, 5)] {
            assert_eq!((0..parts).map(|number| share(all, parts, number)).sum::<usize>(), all);
        }
    }
}
