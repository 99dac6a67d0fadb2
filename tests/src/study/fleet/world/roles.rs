//! Who works: looks at the fleet, and what nodes do that get no orders.
//!
//! Heartbeats come with the looks: all that a node says in between is the same. A look comes every few
//! seconds, and as soon as a node is missed.

use super::{Host, STOCK, World};
use crate::study::fleet::agenda::Event;
use crate::study::fleet::roster::HostWord;
use echo_learner::fleet::capacity::{Beats, NodeRole};
use echo_protocol::control::heartbeat::LOST_AFTER_MS;
use echo_protocol::wire::time::UnixMillis;

/// Looks of an update. Nodes are released and exchanged once in an update at most.
const LOOKS_AN_UPDATE: f64 = 32.0;
/// From one look to the next, in milliseconds, at least and at most.
const REGULARLY_MS: (f64, f64) = (5e3, 20e3);
/// Looks are at least so far apart, in milliseconds, as the learner's own are.
const APART_MS: u64 = 1_000;
/// In large fleets looks are further apart, by a millisecond for so many nodes: twice as far as the learner's
/// own, so that an hour of 100,000 nodes takes 180 of them.
const NODES_A_MS: u64 = 5;
/// A node that stands by asks so often, in milliseconds.
const STANDBY_MS: u64 = 2_000;

impl Host {
    pub(super) fn held(&self) -> usize {
        self.waiting.len() + usize::from(self.at_work.is_some())
    }

    /// What it says at a look; nothing where it is gone.
    fn word(&self, now: u64) -> Option<HostWord> {
        let held = self.held();
        let asks = self.installed.is_some() && self.sleeps_until <= now;
        let beats = Beats { has_work: held > 0, asks, too_slow: self.is_too_slow };
        self.is_present.then_some(HostWord { beats, held })
    }
}

impl World {
    /// The first look is due.
    pub(super) fn begin_looking(&mut self) {
        if self.roster.is_some() {
            self.look_by(self.agenda.now + self.regularly_ms());
        }
    }

    fn regularly_ms(&self) -> u64 {
        (self.scene.update_ms / LOOKS_AN_UPDATE).clamp(REGULARLY_MS.0, REGULARLY_MS.1) as u64
    }

    /// Looks at this time at the latest, as far as looks may follow each other.
    fn look_by(&mut self, at: u64) {
        let at = at.max(self.looked + APART_MS.max(self.hosts.len() as u64 / NODES_A_MS));
        if self.roster.is_none() || at >= self.look_due {
            return;
        }
        self.look_due = at;
        self.look_turn += 1;
        self.agenda.after(at.saturating_sub(self.agenda.now), Event::Look { turn: self.look_turn });
    }

    pub(super) fn look(&mut self) -> anyhow::Result<()> {
        let (now, hosts) = (self.agenda.now, &self.hosts);
        let Some(roster) = &mut self.roster else { return Ok(()) };
        let of = |node: usize| hosts.get(node).and_then(|host| host.word(now));
        let changed = roster.look(UnixMillis(now), self.present, of)?;
        for (node, role) in changed {
            self.agenda.note(node as u64);
            self.agenda.note(role as u64);
            self.call(node);
        }
        (self.looked, self.look_due) = (now, u64::MAX);
        self.look_by(now + self.regularly_ms());
        Ok(())
    }

    /// A node's role has changed: it asks within seconds, unless it rests or has no room.
    fn call(&mut self, node: usize) {
        let host = &mut self.hosts[node];
        let is_free = host.installed.is_some() && host.held() < STOCK;
        if !host.is_present || !is_free || host.sleeps_until > self.agenda.now {
            return;
        }
        host.pause_ms = self.scene.ask_again_ms.0;
        let within_ms = 1 + self.chance.below(STANDBY_MS);
        self.ask_in(node, within_ms);
    }

    /// Has a node ask then, and not at the time that it had in mind.
    pub(super) fn ask_in(&mut self, node: usize, millis: u64) {
        let host = &mut self.hosts[node];
        host.turn += 1;
        host.will_ask = true;
        let (visit, turn) = (host.visit, host.turn);
        self.agenda.after(millis, Event::Asks { node, visit, turn });
    }

    /// Whether a node that asks is to get orders. Who rests does not ask again for long; who stands by asks
    /// all the time, which matters at the next change of its role only.
    pub(super) fn is_wanted(&mut self, node: usize) -> bool {
        let now = self.now();
        let Some(roster) = &mut self.roster else { return true };
        let (role, rest_ms) = roster.asks(now, node);
        match role {
            NodeRole::Active => true,
            NodeRole::Standby => {
                let host = &mut self.hosts[node];
                host.turn += 1;
                host.will_ask = false;
                false
            }
            NodeRole::Resting => {
                self.hosts[node].sleeps_until = now.0 + rest_ms;
                self.ask_in(node, rest_ms);
                false
            }
        }
    }

    /// A node has left: it is missed when its heartbeats have not come for a while.
    pub(super) fn will_be_missed(&mut self) {
        self.look_by(self.agenda.now + LOST_AFTER_MS + 1);
    }

    /// The learner has given up a node: a look mends what is missing.
    pub(super) fn is_gone(&mut self, node: usize) {
        let now = self.now();
        if let Some(roster) = &mut self.roster {
            roster.gone(now, node);
            self.look_by(self.agenda.now);
        }
    }

    /// The learner was started again, and hears everybody.
    pub(super) fn heard_again(&mut self) {
        let now = self.now();
        let Some(roster) = &mut self.roster else { return };
        roster.crash(now);
        for (node, host) in self.hosts.iter().enumerate().filter(|(_, host)| host.is_present) {
            roster.found(now, node, host.installed, host.held());
        }
        // All of them work until it has looked.
        (0..self.hosts.len()).for_each(|node| self.call(node));
    }
}
