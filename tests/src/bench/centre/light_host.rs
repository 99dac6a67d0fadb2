//! Hosts that say that they are there and ask for orders, and do nothing else.

use anyhow::Context as _;
use echo_protocol::control::heartbeat::{HEARTBEAT_EVERY_MS, Heartbeat};
use echo_protocol::control::requests::{ControlRequest, ControlResponse};
use echo_protocol::net::{Host, HostConfig, HostEvents, Multiaddr, PeerId};
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::lease::{HeldOrder, Lease};
use futures::StreamExt as _;
use futures::stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Hosts that connect at once.
const AT_ONCE: usize = 16;
/// The longest wait for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A host asks for orders with one heartbeat in so many: as one whose orders take ten seconds.
const BEATS_A_LEASE: u64 = 10;

/// Answers so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerCounts {
    /// Heartbeats.
    pub(super) answered: u64,
    /// Questions that were not answered as hoped.
    pub(super) failed: u64,
}

#[derive(Debug, Default)]
struct Counters {
    answered: AtomicU64,
    failed: AtomicU64,
}

/// All light hosts of a bench. Dropped, they stop.
pub(super) struct LightHosts {
    learner: PeerId,
    addresses: Vec<Multiaddr>,
    count: u32,
    counters: Arc<Counters>,
    tasks: JoinSet<()>,
}

impl LightHosts {
    /// Of nobody yet, for a learner at these addresses.
    pub(super) fn new(learner: PeerId, addresses: Vec<Multiaddr>) -> Self {
        Self { learner, addresses, count: 0, counters: Arc::default(), tasks: JoinSet::new() }
    }

    /// Connects further hosts until there are so many.
    pub(super) async fn grow_to(&mut self, count: u32) -> anyhow::Result<()> {
        let (learner, addresses) = (self.learner, self.addresses.clone());
        let connect = |number| connect(number, learner, addresses.clone());
        let mut connecting = stream::iter(self.count..count).map(connect).buffer_unordered(AT_ONCE);
        while let Some(connected) = connecting.next().await {
            let (number, host, events) = connected?;
            self.tasks.spawn(ignore(events));
            self.tasks.spawn(live(number, host, learner, self.counters.clone()));
        }
        self.count = self.count.max(count);
        Ok(())
    }

    /// Answers so far, of all hosts.
    pub(super) fn counts(&self) -> AnswerCounts {
        AnswerCounts {
            answered: self.counters.answered.load(Ordering::Relaxed),
            failed: self.counters.failed.load(Ordering::Relaxed),
        }
    }
}

async fn connect(
    number: u32,
    learner: PeerId,
    addresses: Vec<Multiaddr>,
) -> anyhow::Result<(u32, Host, HostEvents)> {
    let mut secret = [7; 32];
    secret[..4].copy_from_slice(&number.to_le_bytes());
    let (host, events) = Host::start(HostConfig::client(secret, "echo-lab light host")).await?;
    host.dial(learner, addresses)
        .await
        .with_context(|| format!("host {number} does not reach the learner"))?;
    Ok((number, host, events))
}

/// Reads a host's events so that none wait.
async fn ignore(mut events: HostEvents) {
    while events.recv().await.is_some() {}
}

/// What a host knows of the learner.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    epoch: Epoch,
    newest: Option<PolicyVersion>,
    neighbourhood: u64,
    last: Option<HeldOrder>,
}

/// A heartbeat every second, and a question for orders now and then.
async fn live(number: u32, host: Host, learner: PeerId, counters: Arc<Counters>) {
    // As nodes do that were not started together.
    let phase = u64::from(number).wrapping_mul(617) % HEARTBEAT_EVERY_MS;
    tokio::time::sleep(Duration::from_millis(phase)).await;
    let mut every = tokio::time::interval(Duration::from_millis(HEARTBEAT_EVERY_MS));
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut known = Known::default();
    for beat in u64::from(number).. {
        every.tick().await;
        let mut is_answered = heartbeat(&host, learner, &mut known).await.is_ok();
        counters.answered.fetch_add(u64::from(is_answered), Ordering::Relaxed);
        if beat.is_multiple_of(BEATS_A_LEASE) && known.newest.is_some() {
            is_answered &= lease(&host, learner, &mut known).await.is_ok();
        }
        counters.failed.fetch_add(u64::from(!is_answered), Ordering::Relaxed);
    }
}

async fn heartbeat(host: &Host, learner: PeerId, known: &mut Known) -> anyhow::Result<()> {
    let heartbeat = Heartbeat {
        epoch: known.epoch,
        installed: known.newest,
        rollouts_per_s: 0.4,
        relays: true,
        neighbourhood: known.neighbourhood,
        ..Heartbeat::default()
    };
    match ask(host, learner, &ControlRequest::Heartbeat(heartbeat)).await? {
        ControlResponse::News { epoch, newest, neighbourhood, .. } => {
            (known.epoch, known.newest) = (epoch, newest);
            if let Some(neighbourhood) = neighbourhood {
                known.neighbourhood = neighbourhood.digest();
            }
            Ok(())
        }
        other => anyhow::bail!("the learner answered {other:?}"),
    }
}

async fn lease(host: &Host, learner: PeerId, known: &mut Known) -> anyhow::Result<()> {
    match ask(host, learner, &ControlRequest::Lease { orders: 1, last: known.last }).await? {
        ControlResponse::Leases { leases, .. } => {
            if let Some(newest) = leases.last() {
                let lease: Lease = newest.open()?;
                let counter = lease.orders().last().context("a lease of no orders")?;
                known.last = Some(HeldOrder { lease: lease.id, counter });
            }
            Ok(())
        }
        other => anyhow::bail!("the learner answered {other:?}"),
    }
}

async fn ask(host: &Host, learner: PeerId, request: &ControlRequest) -> anyhow::Result<ControlResponse> {
    let answer = host.request(learner, request.to_bytes()?, ANSWER_WITHIN).await?;
    Ok(ControlResponse::from_bytes(&answer)?)
}
