//! A learner and its nodes in virtual time, around the learner's own machines.
//!
//! A node makes one order at a time, and one waits beside it. It generates under what it has installed when
//! it begins, delivers at once, and asks when it has room. Who leaves says nothing: the learner finds out.

mod roles;

use super::account::Account;
use super::agenda::{Agenda, Event};
use super::chance::Chance;
use super::intake::Intake;
use super::node::{key, number};
use super::roster::{RoleTally, Roster};
use super::rule::Rule;
use super::scene::{Change, ChangeKind, End, HOUR_MS, Scene, Spread, bound_ms};
use super::topology::Topology;
use anyhow::{Context as _, bail, ensure};
use echo_learner::common::workload::Workload;
use echo_learner::intake::coordinator::LeaseRequest;
use echo_protocol::control::heartbeat::{ACTIVE_FOR_MS, LOST_AFTER_MS};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::HeldOrder;
use echo_protocol::work::submission::{Outcome, RefuseReason};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a node holds at most: one order at work, one that waits.
const STOCK: usize = 2;
/// What a node forwards at once, in bytes, and a hop's latency in milliseconds.
const HOP: (f64, f64) = (65_536.0, 20.0);

/// What a simulation came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Course {
    /// Of each update: how long the learner waited for its batch, and how long it all took, in milliseconds.
    pub(crate) periods: Vec<(u64, u64)>,
    pub(crate) millis: u64,
    /// Groups trained on, and the sum of their lags.
    pub(crate) trained: u64,
    pub(crate) lags: u64,
    /// Groups that were too old when they came.
    pub(crate) stale: u64,
    /// Orders that were leased a second time.
    pub(crate) again: u64,
    /// Answers that told a node it is too slow.
    pub(crate) too_slow: u64,
    pub(crate) departures: u64,
    pub(crate) crashes: u64,
    /// What the hours of all nodes would cost.
    pub(crate) dollars: f64,
    /// What came of choosing who works.
    pub(crate) roles: RoleTally,
    pub(crate) events: u64,
    /// Of all events: two courses with the same one are the same.
    pub(crate) digest: u64,
    /// Orders a millisecond of the nodes that are of use, from each moment on: those whose policy S admits.
    /// Kept where the scene has changes.
    pub(crate) rates: Vec<(u64, f64)>,
}

impl Course {
    /// The share of the time that the learner waited, without the first `skipped` updates.
    pub(crate) fn bubble(&self, skipped: usize) -> f64 {
        let counted = self.periods.get(skipped..).unwrap_or_default();
        let (waited, all) = counted.iter().fold((0, 0), |(w, p), (waited, period)| (w + waited, p + period));
        waited as f64 / all.max(1) as f64
    }
}

#[derive(Clone, Debug, Default)]
struct Host {
    is_present: bool,
    /// Counts how often it came or went: what was due before is void.
    visit: u32,
    since: u64,
    installed: Option<u64>,
    /// The version that it receives, and when it has it.
    receiving: Option<(u64, u64)>,
    at_work: Option<(HeldOrder, u64)>,
    waiting: VecDeque<HeldOrder>,
    /// The last order that reached it.
    last: Option<HeldOrder>,
    /// When it asks next it is by itself.
    will_ask: bool,
    pause_ms: u64,
    /// Counts the times at which it is to ask: earlier ones are void.
    turn: u32,
    /// It was told to rest until then.
    sleeps_until: u64,
    /// Whether it was told last that it is too slow.
    is_too_slow: bool,
    slower: f64,
}

struct World {
    scene: Scene,
    agenda: Agenda,
    chance: Chance,
    intake: Intake,
    account: Account,
    topology: Topology,
    /// `None` where all nodes work.
    roster: Option<Roster>,
    hosts: Vec<Host>,
    present: usize,
    current: u64,
    published: u64,
    /// Where the learner starts again.
    checkpoint: u64,
    /// Processes of the learner before this one.
    life: u32,
    is_training: bool,
    /// When the learner came to its version, and when the batch was there.
    reached: u64,
    formed: u64,
    /// The last look at the fleet, when the next is due, and its number.
    looked: u64,
    look_due: u64,
    look_turn: u32,
    course: Course,
}

/// Lets a scene pass, and checks every rule at every step.
///
/// # Errors
/// The first rule that was broken.
pub(crate) fn course(scene: Scene, workload: &Arc<Workload>) -> anyhow::Result<Course> {
    let limit = scene.limit_ms();
    let mut world = World::new(scene, workload)?;
    world.begin()?;
    while !world.is_over()
        && let Some(event) = world.agenda.next(limit)
    {
        world.happen(event)?;
    }
    world.finish()
}

impl World {
    fn new(scene: Scene, workload: &Arc<Workload>) -> anyhow::Result<Self> {
        let host = Host { pause_ms: scene.ask_again_ms.0, slower: 1.0, ..Host::default() };
        Ok(Self {
            agenda: Agenda::new(),
            chance: Chance::new(scene.seed, b"world"),
            intake: Intake::open(workload, &scene)?,
            account: Account::default(),
            topology: Topology::new(scene.seed, scene.chains),
            roster: scene.market.as_ref().map(Roster::new),
            hosts: vec![host; scene.nodes.len()],
            present: 0,
            current: 0,
            published: 0,
            checkpoint: 0,
            life: 0,
            is_training: false,
            reached: 0,
            formed: 0,
            looked: 0,
            look_due: u64::MAX,
            look_turn: 0,
            course: Course::default(),
            scene,
        })
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        for node in 0..self.hosts.len() {
            if self.scene.nodes[node].is_present {
                self.join(node)?;
            }
        }
        self.spread();
        for (place, change) in self.scene.changes.iter().enumerate() {
            self.agenda.after(change.at_ms, Event::Change(place));
        }
        self.schedule_departure();
        self.begin_looking();
        Ok(())
    }

    fn is_over(&self) -> bool {
        matches!(self.scene.end, End::Updates(updates) if self.current >= updates)
    }

    fn happen(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Installed { node, version } => self.installed(node, version),
            Event::Trained { life } if life == self.life => self.trained(),
            Event::Done { node, visit } if visit == self.hosts[node].visit => self.done(node),
            Event::Asks { node, visit, turn }
                if (visit, turn) == (self.hosts[node].visit, self.hosts[node].turn) =>
            {
                self.hosts[node].will_ask = false;
                self.ask(node)
            }
            Event::Departure => {
                let node = self.chance.below(self.hosts.len() as u64) as usize;
                self.schedule_departure();
                self.depart(node)
            }
            Event::Gone { node, visit } if visit == self.hosts[node].visit => {
                self.intake.gone(key(node));
                self.is_gone(node);
                Ok(())
            }
            Event::Back { node, visit } if visit == self.hosts[node].visit => self.come(node, false),
            Event::Look { turn } if turn == self.look_turn => self.look(),
            Event::Change(place) => self.change(self.scene.changes[place]),
            _ => Ok(()),
        }
    }

    fn now(&self) -> UnixMillis {
        UnixMillis(self.agenda.now)
    }

    // Nodes that come and go.

    fn join(&mut self, node: usize) -> anyhow::Result<()> {
        let now = self.agenda.now;
        let host = &mut self.hosts[node];
        (host.is_present, host.since) = (true, now);
        host.visit += 1;
        self.present += 1;
        if let Some(roster) = &mut self.roster {
            roster.joins(UnixMillis(now), node);
        }
        self.topology.join(node).context(Rule::Places)
    }

    fn come(&mut self, node: usize, with_policy: bool) -> anyhow::Result<()> {
        if self.hosts[node].is_present {
            return Ok(());
        }
        self.join(node)?;
        if with_policy {
            self.hosts[node].installed = Some(self.published);
            self.note_rate();
            return self.ask(node);
        }
        let millis = match self.scene.spread {
            Spread::Even(millis) => millis,
            Spread::Links { bytes, overhead, .. } => self.link_ms(node, bytes, overhead) as u64,
        };
        self.receive(node, self.published, millis);
        Ok(())
    }

    fn leave(&mut self, node: usize) -> anyhow::Result<()> {
        let now = self.agenda.now;
        let host = &mut self.hosts[node];
        if !host.is_present {
            return Ok(());
        }
        let (visit, since) = (host.visit + 1, host.since);
        *host = Host { visit, pause_ms: self.scene.ask_again_ms.0, slower: host.slower, ..Host::default() };
        self.present -= 1;
        self.course.dollars += self.cost(node, since, now);
        self.agenda.after(ACTIVE_FOR_MS, Event::Gone { node, visit });
        // Those behind it receive from somebody else once it is missed.
        for behind in self.topology.leave(node).context(Rule::Places)? {
            self.stall(behind, LOST_AFTER_MS);
        }
        self.will_be_missed();
        self.note_rate();
        Ok(())
    }

    fn depart(&mut self, node: usize) -> anyhow::Result<()> {
        if !self.hosts[node].is_present {
            return Ok(());
        }
        self.leave(node)?;
        self.course.departures += 1;
        let visit = self.hosts[node].visit;
        let away = self.chance.exponential(self.scene.away_ms) as u64;
        self.agenda.after(2 * ACTIVE_FOR_MS + away, Event::Back { node, visit });
        Ok(())
    }

    fn schedule_departure(&mut self) {
        let an_hour = self.scene.departures_per_hour * self.hosts.len() as f64;
        if an_hour > 0.0 {
            let pause = self.chance.exponential(HOUR_MS as f64 / an_hour);
            self.agenda.after(pause as u64, Event::Departure);
        }
    }

    fn change(&mut self, change: Change) -> anyhow::Result<()> {
        let node = change.node;
        match change.kind {
            ChangeKind::Leaves => self.leave(node)?,
            ChangeKind::Comes => self.come(node, true)?,
            ChangeKind::Slows(factor) => self.hosts[node].slower = factor,
            ChangeKind::Stalls(millis) => {
                self.stall(node, millis);
                for behind in self.topology.behind(node) {
                    self.stall(behind, millis);
                }
            }
        }
        self.note_rate();
        Ok(())
    }

    fn cost(&self, node: usize, since: u64, until: u64) -> f64 {
        self.scene.nodes[node].dollars_per_hour * (until - since) as f64 / HOUR_MS as f64
    }

    // Versions on their way.

    /// The newest version goes out.
    fn spread(&mut self) {
        if let Some(roster) = &mut self.roster {
            roster.published(UnixMillis(self.agenda.now), self.published);
        }
        match self.scene.spread {
            Spread::Even(millis) => {
                for (node, _) in self.topology.depths() {
                    self.receive(node, self.published, millis);
                }
            }
            Spread::Links { bytes, source_up, overhead } => {
                let depths = self.topology.depths();
                let ups = depths.iter().map(|(node, _)| self.scene.nodes[*node].up);
                let base = bound_ms(bytes, source_up, ups) * overhead;
                for (node, depth) in depths {
                    let hop = HOP.0 / self.scene.nodes[node].up.0.max(1) as f64 * 1e3 + HOP.1;
                    let millis = base.max(self.link_ms(node, bytes, overhead)) + depth as f64 * hop;
                    self.receive(node, self.published, millis as u64);
                }
            }
        }
    }

    fn link_ms(&self, node: usize, bytes: u64, overhead: f64) -> f64 {
        bytes as f64 / self.scene.nodes[node].down.0.max(1) as f64 * 1e3 * overhead
    }

    fn receive(&mut self, node: usize, version: u64, millis: u64) {
        self.hosts[node].receiving = Some((version, self.agenda.now + millis));
        self.agenda.after(millis, Event::Installed { node, version });
    }

    /// What a node receives comes later.
    fn stall(&mut self, node: usize, millis: u64) {
        if let Some((_, at)) = &mut self.hosts[node].receiving {
            *at += millis;
        }
    }

    fn installed(&mut self, node: usize, version: u64) -> anyhow::Result<()> {
        let now = self.agenda.now;
        let Some((_, at)) = self.hosts[node].receiving.filter(|(newest, _)| *newest == version) else {
            return Ok(());
        };
        if at > now {
            self.agenda.after(at - now, Event::Installed { node, version });
            return Ok(());
        }
        let host = &mut self.hosts[node];
        host.receiving = None;
        ensure!(host.installed < Some(version), "node {node} installs {version} after {:?}", host.installed);
        host.installed = Some(version);
        host.pause_ms = self.scene.ask_again_ms.0;
        if let Some(roster) = &mut self.roster {
            roster.heard(UnixMillis(now), node, Some(version), host.held() > 0);
        }
        self.note_rate();
        self.work(node);
        self.ask(node)
    }

    /// Notes what the nodes bring that are of use, where the scene changes that.
    fn note_rate(&mut self) {
        if self.scene.changes.is_empty() {
            return;
        }
        let (current, budget) = (self.current, self.scene.budget);
        let is_of_use = |host: &Host| host.installed.is_some_and(|version| version + budget >= current);
        let hosts = self.hosts.iter().zip(&self.scene.nodes).filter(|pair| is_of_use(pair.0));
        let rate: f64 = hosts.map(|(host, node)| 1.0 / (node.order_ms * host.slower)).sum();
        self.course.rates.push((self.agenda.now, rate));
    }

    // Orders.

    fn ask(&mut self, node: usize) -> anyhow::Result<()> {
        let now = self.now();
        let host = &self.hosts[node];
        let (Some(installed), wanted) = (host.installed, STOCK.saturating_sub(host.held())) else {
            return Ok(());
        };
        if wanted == 0 || !host.is_present || host.sleeps_until > now.0 || !self.is_wanted(node) {
            return Ok(());
        }
        let host = &self.hosts[node];
        let wish = LeaseRequest {
            node: key(node),
            installed: Some(PolicyVersion(installed)),
            orders: u32::try_from(wanted)?,
            last: host.last,
        };
        let granted = self.intake.grant(now, &wish)?;
        self.course.too_slow += u64::from(granted.refused.is_some());
        self.hosts[node].is_too_slow = granted.refused.is_some();
        let mut got = 0;
        for lease in granted.leases {
            ensure!(lease.node == key(node), "node {node} got a lease of another one");
            for counter in lease.orders() {
                let held = HeldOrder { lease: lease.id, counter };
                self.account.leased(counter).context(Rule::Acknowledged)?;
                self.hosts[node].waiting.push_back(held);
                self.hosts[node].last = Some(held);
                self.agenda.note(counter.0);
                got += 1;
            }
        }
        check_got(node, got, wanted).context(Rule::Leases)?;
        self.work(node);
        if got < wanted {
            self.ask_later(node);
        } else {
            self.hosts[node].pause_ms = self.scene.ask_again_ms.0;
        }
        Ok(())
    }

    fn ask_later(&mut self, node: usize) {
        let host = &mut self.hosts[node];
        if host.will_ask {
            return;
        }
        let pause = host.pause_ms.max(1);
        host.pause_ms = (2 * pause).min(self.scene.ask_again_ms.1);
        self.ask_in(node, pause);
    }

    /// Begins the next order, if the node has one and does nothing.
    fn work(&mut self, node: usize) {
        let host = &mut self.hosts[node];
        let (None, Some(version)) = (&host.at_work, host.installed) else { return };
        if self.scene.waits_for_policy && host.receiving.is_some() {
            return;
        }
        let Some(held) = host.waiting.pop_front() else { return };
        host.at_work = Some((held, version));
        let (visit, mean) = (host.visit, self.scene.nodes[node].order_ms * host.slower);
        let millis = self.chance.log_normal(mean, self.scene.sigma.0).max(1.0);
        self.agenda.after(millis as u64, Event::Done { node, visit });
    }

    fn done(&mut self, node: usize) -> anyhow::Result<()> {
        let Some((held, version)) = self.hosts[node].at_work.take() else { bail!("node {node} did nothing") };
        self.work(node);
        let group = self.intake.group(node, held, version);
        let dies = self.scene.crash_at == Some(self.current) && self.course.crashes == 0;
        if dies {
            let survivors = self.chance.below(3) as usize;
            let checkpoint = PolicyVersion(self.checkpoint);
            self.intake.crash(self.now(), &group, survivors, checkpoint)?;
            self.course.crashes += 1;
            self.life += 1;
            (self.current, self.is_training, self.reached) = (self.checkpoint, false, self.agenda.now);
            self.heard_again();
        }
        match self.intake.deliver(self.now(), &group)? {
            Outcome::Accepted => {
                self.account.accepted(held.counter).context(Rule::Acknowledged)?;
                if let Some(roster) = &mut self.roster {
                    roster.accepted(node);
                }
            }
            Outcome::Refused { reason: RefuseReason::Duplicate, .. } => {
                self.account.duplicate(held.counter, dies).context(Rule::Acknowledged)?;
            }
            Outcome::Refused { reason: RefuseReason::Stale, .. } => self.course.stale += 1,
            // It was leased anew since.
            Outcome::Refused { reason: RefuseReason::Lease, .. } => {}
            other => bail!("the group of order {} got {other:?}", held.counter),
        }
        self.form()?;
        self.ask(node)
    }

    // The learner.

    fn form(&mut self) -> anyhow::Result<()> {
        if self.is_training || self.is_over() {
            return Ok(());
        }
        let now = self.now();
        let batch = self.intake.batch(now, PolicyVersion(self.current))?;
        if let Some(roster) = &mut self.roster {
            match &batch {
                Some(batch) => roster.goes_on(self.intake.filtered(), batch.len()),
                None => roster.waits(now),
            }
        }
        let Some(batch) = batch else { return Ok(()) };
        ensure!(batch.len() == self.scene.batch, "a batch of {} groups", batch.len());
        self.account.batch(self.current, self.scene.budget, &batch).context(Rule::Batches)?;
        (self.is_training, self.formed) = (true, self.agenda.now);
        let millis = self.chance.log_normal(self.scene.update_ms, self.scene.sigma.1).max(1.0);
        self.agenda.after(millis as u64, Event::Trained { life: self.life });
        Ok(())
    }

    fn trained(&mut self) -> anyhow::Result<()> {
        let now = self.agenda.now;
        self.course.periods.push((self.formed - self.reached, now - self.reached));
        if let Some(roster) = &mut self.roster {
            roster.updated(UnixMillis(now), now - self.formed);
        }
        (self.is_training, self.reached) = (false, now);
        self.current += 1;
        if self.intake.at(self.now(), PolicyVersion(self.current))? {
            (self.checkpoint, self.published) = (self.current, self.current);
            self.account.checkpoint(self.current);
            if let Some(roster) = &mut self.roster {
                roster.saves();
            }
            self.spread();
        }
        self.note_rate();
        self.form()
    }

    fn finish(mut self) -> anyhow::Result<Course> {
        let now = self.agenda.now;
        for node in 0..self.hosts.len() {
            if self.hosts[node].is_present {
                self.course.dollars += self.cost(node, self.hosts[node].since, now);
            }
        }
        let version = PolicyVersion(self.current);
        self.account.check(&self.intake.state(version), self.intake.totals()).context(Rule::Orders)?;
        self.topology.check_all(self.present).context(Rule::Places)?;
        self.check_holders(version).context(Rule::Leases)?;
        let roles = self.roster.as_ref().map(Roster::tally).unwrap_or_default();
        let report = self.intake.work_ahead();
        Ok(Course {
            millis: now,
            trained: self.account.trained,
            lags: self.account.lags,
            again: report.map_or(0, |report| report.again.late + report.again.backups),
            events: self.agenda.events,
            digest: self.agenda.digest(),
            roles,
            ..self.course
        })
    }

    /// Whether no more orders are out with a node than it may have, and than it has.
    fn check_holders(&self, version: PolicyVersion) -> anyhow::Result<()> {
        for (holder, orders) in self.intake.holders(version) {
            let host = &self.hosts[number(&holder)];
            let held = host.held() as u64;
            ensure!(orders <= self.intake.lease_size(), "{orders} orders are out with one node");
            // Of who has just left the learner does not know yet, and what was given back is written with the
            // next lease: a restarted one may wait for an order until its lease is over.
            let may_differ = !host.is_present || self.course.crashes > 0;
            ensure!(orders <= held || may_differ, "{orders} orders are out with a node that has {held}");
        }
        Ok(())
    }
}

fn check_got(node: usize, got: usize, wanted: usize) -> anyhow::Result<()> {
    ensure!(got <= wanted, "node {node} wanted {wanted} orders and got {got}");
    Ok(())
}
