//! A learner and its nodes in virtual time, around the real machine: the model of a run.
//!
//! An update takes one second and B groups. Each node makes one order at a time and holds another one that
//! waits, as a node with `max_orders = 2`. An order takes a log-normal time. A publication is installed
//! everywhere a tenth of a second later.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use echo_protocol::run::charter::RunId;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::rng::Draws;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::{Lease, LeaseId};
use echo_protocol::work::order::OrderCounter;

use super::{LearnerPosition, LeasedAgain, WorkAhead, WorkAheadConfig};

/// T_train.
const UPDATE_MS: u64 = 1_000;
/// T_bcast.
const BROADCAST_MS: u64 = 100;
/// When a node that has room asks again.
const ASK_MS: u64 = 100;
/// What a node holds at most: one at work, one that waits.
const STOCK: usize = 2;
/// Spread of the order times, as the standard deviation of their logarithms.
const SIGMA: f64 = 0.5;

/// What is simulated.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) budget: u64,
    pub(super) period: u64,
    pub(super) batch: u64,
    /// Mean order time of each node, in milliseconds.
    pub(super) nodes: Vec<f64>,
    /// η instead of the machine under test.
    pub(super) admission: Option<u64>,
    pub(super) updates: u64,
}

/// What it came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Course {
    /// Share of the time that the learner waited.
    pub(super) bubble: f64,
    /// Groups too old, as a share of those trained on.
    pub(super) dropped: f64,
    pub(super) lag: f64,
    pub(super) updates_per_s: f64,
    pub(super) again: LeasedAgain,
    pub(super) granted: u64,
    /// Orders that may run ahead in the end.
    pub(super) depth: u64,
    /// Nodes that were told why they get no orders.
    pub(super) refused: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Installed(u64),
    Trained,
    Done { node: usize, order: u64, version: u64 },
    Ask(usize),
}

struct Fleet {
    scene: Scene,
    work_ahead: WorkAhead,
    events: BTreeSet<(u64, u64, Event)>,
    scheduled: u64,
    draws: Draws,
    now: u64,
    current: u64,
    unformed: u64,
    installed: u64,
    is_training: bool,
    since: u64,
    ready: BTreeSet<(u64, u64)>,
    /// Orders that count as out, with their nodes.
    out: BTreeMap<u64, usize>,
    idle: VecDeque<u64>,
    settled: BTreeSet<u64>,
    next: u64,
    at_work: Vec<Option<u64>>,
    waiting: Vec<VecDeque<u64>>,
    refused: BTreeSet<usize>,
    waited: u64,
    dropped: u64,
    lags: u64,
    granted: u64,
}

/// Lets a scene pass.
pub(super) fn course(scene: Scene, seed: u8) -> Course {
    let Scene { budget, period, batch, .. } = scene;
    let config = WorkAheadConfig { budget, period, batch, lifetime_ms: 600_000 };
    let nodes = scene.nodes.len();
    let mut fleet = Fleet {
        work_ahead: WorkAhead::new(config, UnixMillis(0), PolicyVersion(0)),
        events: BTreeSet::new(),
        scheduled: 0,
        draws: Draws::new([seed; 32]),
        now: 0,
        current: 0,
        unformed: 0,
        installed: 0,
        is_training: false,
        since: 0,
        ready: BTreeSet::new(),
        out: BTreeMap::new(),
        idle: VecDeque::new(),
        settled: BTreeSet::new(),
        next: 0,
        at_work: vec![None; nodes],
        waiting: vec![VecDeque::new(); nodes],
        refused: BTreeSet::new(),
        waited: 0,
        dropped: 0,
        lags: 0,
        granted: 0,
        scene,
    };
    (0..nodes).for_each(|node| fleet.after(node as u64 % ASK_MS, Event::Ask(node)));
    fleet.run();
    let trained = (fleet.scene.updates * fleet.scene.batch) as f64;
    Course {
        bubble: fleet.waited as f64 / fleet.now as f64,
        dropped: fleet.dropped as f64 / trained,
        lag: fleet.lags as f64 / trained,
        updates_per_s: fleet.scene.updates as f64 * 1e3 / fleet.now as f64,
        again: fleet.work_ahead.leased_again(),
        granted: fleet.granted,
        depth: fleet.work_ahead.depth(),
        refused: fleet.refused.len(),
    }
}

fn key(node: usize) -> PublicKey {
    let mut bytes = [1; 32];
    bytes[..8].copy_from_slice(&(node as u64).to_le_bytes());
    PublicKey::from_bytes(bytes)
}

impl Fleet {
    fn after(&mut self, millis: u64, event: Event) {
        self.scheduled += 1;
        self.events.insert((self.now + millis, self.scheduled, event));
    }

    fn run(&mut self) {
        while self.current < self.scene.updates {
            let (now, _, event) = self.events.pop_first().expect("nodes always ask again");
            self.now = now;
            match event {
                Event::Installed(version) => self.installed = self.installed.max(version),
                Event::Trained => {
                    (self.is_training, self.since) = (false, now);
                    self.current += 1;
                    self.work_ahead.at(UnixMillis(now), PolicyVersion(self.current));
                    if self.current.is_multiple_of(self.scene.period) {
                        self.after(BROADCAST_MS, Event::Installed(self.current));
                    }
                    self.form();
                }
                Event::Done { node, order, version } => self.done(node, order, version),
                Event::Ask(node) => {
                    self.ask(node);
                    self.after(ASK_MS, Event::Ask(node));
                }
            }
        }
    }

    fn position(&self) -> LearnerPosition {
        LearnerPosition {
            current: PolicyVersion(self.current),
            unformed: PolicyVersion(self.unformed),
            ahead: (self.ready.len() + self.out.len()) as u64,
        }
    }

    fn form(&mut self) {
        if self.is_training {
            return;
        }
        let (oldest, batch) = (self.current.saturating_sub(self.scene.budget), self.scene.batch as usize);
        let before = self.ready.len();
        self.ready.retain(|(version, _)| *version >= oldest);
        self.dropped += (before - self.ready.len()) as u64;
        let now = UnixMillis(self.now);
        if self.ready.len() < batch {
            self.work_ahead.waits(now);
            return;
        }
        for _ in 0..batch {
            let (version, _) = self.ready.pop_first().expect("there are enough");
            assert!(self.current - version <= self.scene.budget, "S is broken");
            self.lags += self.current - version;
        }
        self.waited += self.now - self.since;
        (self.is_training, self.unformed) = (true, self.current + 1);
        self.work_ahead.formed(now, self.ready.len() as u64);
        self.after(UPDATE_MS, Event::Trained);
        if self.scene.admission.is_some() {
            // Under η, what is late stays out until it is back.
            return;
        }
        let position = self.position();
        for (_, order) in self.work_ahead.late(now, &position) {
            if self.out.remove(&order.0).is_some() {
                self.idle.push_back(order.0);
            }
        }
    }

    fn done(&mut self, node: usize, order: u64, version: u64) {
        self.at_work[node] = None;
        self.begin(node);
        let now = UnixMillis(self.now);
        self.work_ahead.came_back(now, &key(node), OrderCounter(order));
        if self.settled.contains(&order) {
            return;
        }
        if version + self.scene.budget < self.current {
            self.dropped += 1;
            if self.out.get(&order) == Some(&node) {
                self.out.remove(&order);
                self.idle.push_back(order);
            }
            return;
        }
        self.settled.insert(order);
        self.out.remove(&order);
        self.idle.retain(|idle| *idle != order);
        self.ready.insert((version, order));
        self.form();
    }

    fn begin(&mut self, node: usize) {
        if self.at_work[node].is_some() {
            return;
        }
        let Some(order) = self.waiting[node].pop_front() else { return };
        self.at_work[node] = Some(order);
        let mean = self.scene.nodes[node];
        let [first, second] = [(); 2].map(|()| (self.draws.next_u64() >> 11) as f64 / (1_u64 << 53) as f64);
        // Box and Muller; 1 less the draw is never 0.
        let normal = (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos();
        let millis = mean * (SIGMA * normal - SIGMA * SIGMA / 2.0).exp();
        self.after(millis as u64, Event::Done { node, order, version: self.installed });
    }

    fn ask(&mut self, node: usize) {
        let held = self.waiting[node].len() + usize::from(self.at_work[node].is_some());
        let wanted = (STOCK - held.min(STOCK)) as u64;
        if wanted == 0 {
            return;
        }
        let (now, position, installed) =
            (UnixMillis(self.now), self.position(), PolicyVersion(self.installed));
        let room = match self.scene.admission {
            Some(admission) => {
                let limit = (self.current + admission + 1) * self.scene.batch;
                let fresh = self.current + 1 - self.installed <= self.scene.budget;
                let issued = self.unformed * self.scene.batch + position.ahead;
                if fresh { limit.saturating_sub(issued) } else { 0 }
            }
            None => self.work_ahead.room(now, &key(node), installed, &position).unwrap_or_else(|why| {
                assert!(why.contains("S = "), "{why}");
                self.refused.insert(node);
                0
            }),
        };
        for _ in 0..room.min(wanted) {
            let fresh = self.next;
            let order = self.idle.pop_front().unwrap_or(fresh);
            self.next += u64::from(order == fresh);
            self.lease(node, order);
        }
        if room == 0
            && self.scene.admission.is_none()
            && let Some((_, order)) = self.work_ahead.straggler(now, &key(node), installed, &position)
        {
            self.lease(node, order.0);
        }
        self.begin(node);
    }

    fn lease(&mut self, node: usize, order: u64) {
        let run: RunId = serde_json::from_str(&format!("{:?}", "07".repeat(32))).expect("a run's name");
        let lease = Lease {
            run,
            id: LeaseId(self.granted),
            node: key(node),
            first: OrderCounter(order),
            count: 1,
            lifetime_ms: 600_000,
        };
        self.granted += 1;
        self.out.insert(order, node);
        self.waiting[node].push_back(order);
        self.work_ahead.granted(UnixMillis(self.now), key(node), PolicyVersion(self.installed), &[lease]);
    }
}
