//! Every lie that a node can tell is refused by its name, costs nobody else anything, and the run
//! goes on to its end.
//!
//! One network of real processes serves all lies. While they are told, no volunteer is there: the
//! run moves only when the liar does honest work, so the test decides which version is the newest
//! and which is too old. Then a volunteer comes and finishes the run.
#![cfg(test)]

use echo_lab::harness::liar::{Envelope, Liar};
use echo_lab::harness::network::TestNodeConfig;
use echo_lab::harness::small_run;
use echo_lab::harness::small_run::{GROUP_SIZE, STALENESS_BUDGET, until};
use echo_learner::storage::run_dir::RunDir;
use echo_learner::telemetry::metrics;
use echo_learner::telemetry::summary::RunSummary;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::submission::{Outcome, RefuseReason};
use echo_protocol::work::trajectory::{TrajectoryGroup, spans};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const UPDATES: u32 = 30;
const RUN_LIMIT: Duration = Duration::from_secs(180);
const GRACE: Duration = Duration::from_secs(20);
const GIGABYTE: u32 = 1 << 30;

/// A liar, and somebody whose name, work and leases it takes.
struct Court {
    liar: Liar,
    victim: Liar,
    refused: BTreeMap<RefuseReason, u64>,
    accepted: u64,
}

impl Court {
    async fn assemble(list: &Path) -> Self {
        let liar = Liar::join(list, [1; 32], false).await.unwrap();
        let victim = Liar::join(list, [2; 32], false).await.unwrap();
        Self { liar, victim, refused: BTreeMap::new(), accepted: 0 }
    }

    /// The liar sends `frame`, and is told `reason`.
    async fn refuse(&mut self, what: &str, frame: &[u8], reason: RefuseReason) {
        let answer = self.liar.send(frame).await.unwrap();
        self.expect(what, answer.outcome, reason);
    }

    fn expect(&mut self, what: &str, outcome: Outcome, expected: RefuseReason) {
        let found = match &outcome {
            Outcome::Refused { reason, .. } => Some(*reason),
            Outcome::Accepted | Outcome::Retry => None,
        };
        assert_eq!(found, Some(expected), "{what}: {outcome:?}");
        *self.refused.entry(expected).or_default() += 1;
    }

    /// The liar sends `frame`, and for once it is true.
    async fn accept(&mut self, what: &str, frame: &[u8]) {
        let answer = self.liar.send(frame).await.unwrap();
        assert_eq!(answer.outcome, Outcome::Accepted, "{what}");
        self.accepted += 1;
    }

    async fn victim_is_accepted(&mut self, what: &str, frame: &[u8]) {
        let answer = self.victim.send(frame).await.unwrap();
        assert_eq!(answer.outcome, Outcome::Accepted, "{what}");
        self.accepted += 1;
    }

    /// A group that the learner would accept, changed, then signed by the liar.
    async fn lie(&self, change: impl FnOnce(&mut TrajectoryGroup)) -> Vec<u8> {
        let order = self.liar.order().await.unwrap();
        let newest = self.liar.learner().newest().await.unwrap();
        let mut group = self.liar.group(order, newest).unwrap();
        change(&mut group);
        self.liar.sign(&group).unwrap()
    }

    async fn newest(&self) -> PolicyVersion {
        self.liar.learner().newest().await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lie_is_refused_by_its_name_and_the_run_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut network = small_run::start(dir.path(), UPDATES).await.unwrap();
    let run = RunDir::new(&network.layout().run_dir());
    let mut court = Court::assemble(&network.layout().list()).await;

    let first = signatures(&mut court).await;
    somebody_elses_key(&mut court).await;
    rewards(&mut court).await;
    versions_that_do_not_exist(&mut court).await;
    leases(&mut court).await;
    bytes(&mut court).await;
    too_stale(&mut court).await;
    court.refuse("a replay of what has been trained on", &first, RefuseReason::Duplicate).await;
    let Court { refused, accepted, .. } = court;

    let node = network.add_node(TestNodeConfig::several(1).remove(0)).unwrap();
    let ended = until("the run's end", RUN_LIMIT, &mut network, |n| n.learner_ended().transpose()).await;
    assert!(ended.unwrap().unwrap().success());
    let status = network.node_status(node).unwrap();
    assert!(status["accepted"].as_u64().unwrap() > 0, "{status}");
    network.stop(GRACE).await.unwrap();

    let rows = metrics::updates(&run.metrics()).unwrap();
    let last = rows.last().unwrap();
    let summary: RunSummary = serde_json::from_slice(&std::fs::read(run.summary()).unwrap()).unwrap();
    assert_eq!((last.update, summary.updates), (u64::from(UPDATES), u64::from(UPDATES)));
    for (reason, count) in refused {
        let (row, sum) = (last.refused.get(reason.name()), summary.trajectories_rejected.get(reason.name()));
        // An honest node may be too slow, and it may send again what was accepted; nothing
        // else happens to it.
        let also_honest = matches!(reason, RefuseReason::Stale | RefuseReason::Duplicate);
        let holds = |found: Option<&u64>, sent: u64| {
            found.is_some_and(|found| if also_honest { *found >= sent } else { *found == sent })
        };
        assert!(holds(row, count), "{reason}: {count} told, {row:?} in the metrics");
        assert!(holds(sum, count * GROUP_SIZE), "{reason}: {count} told, {sum:?} in the summary");
    }
    assert!(summary.max_staleness <= STALENESS_BUDGET, "{summary:?}");
    assert!(summary.acknowledged > accepted * GROUP_SIZE, "{summary:?}");
    assert_eq!(summary.acknowledged, summary.trained + summary.dropped.values().sum::<u64>(), "{summary:?}");
}

/// Returns the group that was accepted in the end.
async fn signatures(court: &mut Court) -> Vec<u8> {
    let order = court.liar.order().await.unwrap();
    let honest = court.liar.work(order).await.unwrap();

    let mut forged = Envelope::open(&honest).unwrap();
    forged.signature = court.victim.key().sign(&forged.body);
    let forged = forged.to_bytes().unwrap();
    court.refuse("a forged signature", &forged, RefuseReason::Signature).await;

    let mut altered = Envelope::open(&honest).unwrap();
    altered.alter(|group| group.trajectories[0].response[0] += 1).unwrap();
    let altered = altered.to_bytes().unwrap();
    court.refuse("a response altered after signing", &altered, RefuseReason::Signature).await;

    // Who signed is unknown, so neither has taken the order away.
    court.accept("the control group", &honest).await;
    court.refuse("a replay", &honest, RefuseReason::Duplicate).await;
    honest
}

async fn somebody_elses_key(court: &mut Court) {
    let order = court.victim.order().await.unwrap();
    let stolen = court.victim.work(order).await.unwrap();
    court.refuse("a stolen group", &stolen, RefuseReason::Identity).await;
    court.victim_is_accepted("the same from who made it", &stolen).await;

    let victim = court.victim.key().public();
    let named = court.lie(|group| group.node = victim).await;
    court.refuse("somebody else named as the node", &named, RefuseReason::Identity).await;
    let mut posed = Envelope::open(&court.lie(|_| ()).await).unwrap();
    posed.key = victim;
    let posed = posed.to_bytes().unwrap();
    court.refuse("somebody else's key over our signature", &posed, RefuseReason::Identity).await;
}

async fn rewards(court: &mut Court) {
    let altered = |group: &mut TrajectoryGroup| {
        let right = &mut group.trajectories[0];
        assert_eq!(right.reward, 1.0);
        // Another digit: still a number, no longer the sum.
        right.response[0] = if right.response[0] == 4 { 5 } else { 4 };
    };
    let altered = court.lie(altered).await;
    court.refuse("a response altered before signing", &altered, RefuseReason::Reward).await;

    let inflated = |group: &mut TrajectoryGroup| {
        let wrong = group.trajectories.last_mut().unwrap();
        assert_eq!(wrong.reward, 0.0);
        wrong.reward = 1.0;
    };
    let inflated = court.lie(inflated).await;
    court.refuse("an inflated reward", &inflated, RefuseReason::Reward).await;
}

async fn versions_that_do_not_exist(court: &mut Court) {
    let newest = court.newest().await;
    let under = |version| {
        move |group: &mut TrajectoryGroup| {
            for trajectory in &mut group.trajectories {
                trajectory.versions = spans(trajectory.response.iter().map(|_| version));
            }
        }
    };
    let future = court.lie(under(PolicyVersion(newest.0 + 2000))).await;
    court.refuse("a version of the future", &future, RefuseReason::UnknownVersion).await;
    // κ = 2: odd versions exist within the learner only.
    let unpublished = court.lie(under(newest.next())).await;
    court.refuse("a version that was not published", &unpublished, RefuseReason::UnknownVersion).await;
    let mixed = |group: &mut TrajectoryGroup| {
        // Of each of the longest: a newer version takes over in all of them at once.
        let last = group.trajectories.iter().map(|t| t.response.len()).max().unwrap() - 1;
        for trajectory in &mut group.trajectories {
            let version = |at| if at < last { newest } else { PolicyVersion(u64::MAX) };
            trajectory.versions = spans((0..trajectory.response.len()).map(version));
        }
    };
    let mixed = court.lie(mixed).await;
    court.refuse("one token of a version of the future", &mixed, RefuseReason::UnknownVersion).await;
}

async fn leases(court: &mut Court) {
    let newest = court.newest().await;
    let order = court.liar.order().await.unwrap();
    let true_group = court.liar.group(order, newest).unwrap();
    let under = |lease, counter| TrajectoryGroup { lease, counter, ..true_group.clone() };
    let never = LeaseId(u64::MAX);
    for (what, group) in [
        ("a lease that was never granted", under(never, order.counter)),
        ("an order that nobody has", under(never, OrderCounter(u64::MAX))),
        ("an order outside of the lease", under(order.lease, OrderCounter(order.counter.0 + 1000))),
    ] {
        let signed = court.liar.sign(&group).unwrap();
        court.refuse(what, &signed, RefuseReason::Lease).await;
    }
    let theirs = court.victim.order().await.unwrap();
    let poached = court.liar.sign(&court.liar.group(theirs, newest).unwrap()).unwrap();
    court.refuse("somebody else's lease", &poached, RefuseReason::Lease).await;

    let done = court.victim.work(theirs).await.unwrap();
    court.victim_is_accepted("the same order from who holds it", &done).await;
    let done = court.liar.sign(&true_group).unwrap();
    court.accept("our own order under its own lease", &done).await;
}

async fn bytes(court: &mut Court) {
    let answer = court.liar.announce(GIGABYTE).await.unwrap();
    court.expect("a frame of 1 GB", answer.outcome, RefuseReason::FrameTooLarge);

    let mut nested = vec![0x81; 10_000];
    nested.push(0x00);
    court.refuse("CBOR nested 10,000 deep", &nested, RefuseReason::Malformed).await;
    court.refuse("noise", b"not a group at all", RefuseReason::Malformed).await;
}

async fn too_stale(court: &mut Court) {
    let old = court.newest().await;
    // When this version is out, the learner has made every update before it but perhaps not
    // begun the next one.
    let enough = PolicyVersion(old.0 + STALENESS_BUDGET + 2);
    while court.newest().await < enough {
        let order = court.liar.order().await.unwrap();
        let honest = court.liar.work(order).await.unwrap();
        court.accept("honest work", &honest).await;
    }
    let stale = |group: &mut TrajectoryGroup| {
        for trajectory in &mut group.trajectories {
            trajectory.versions = spans(trajectory.response.iter().map(|_| old));
        }
    };
    let stale = court.lie(stale).await;
    court.refuse("a version that is too old", &stale, RefuseReason::Stale).await;
}
