//! Two processes of one identity: somebody has copied a directory and runs both.
//!
//! A process that was started again is no duplicate. Its predecessor's connection may still be open,
//! and answers no ping any more. Duplicates show by two connections that both answer after both were
//! there.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use libp2p::PeerId;
use libp2p::swarm::ConnectionId;
use tokio::time::Instant;

use crate::net::behaviour::instance::Instance;

/// The same peer is spoken of once in this time.
const SAY_EVERY: Duration = Duration::from_secs(60 * 60);
/// Peers that are spoken of in that time: strangers may have as many identities as they like, and
/// must not fill the log.
const MAX_SAID: usize = 32;

/// The instances behind every open connection.
#[derive(Debug, Default)]
pub(super) struct Twins {
    lines: BTreeMap<PeerId, Vec<Line>>,
    said: VecDeque<(PeerId, Instant)>,
}

#[derive(Debug)]
struct Line {
    connection: ConnectionId,
    instance: Instance,
    since: Instant,
    answered: Option<Instant>,
}

impl Twins {
    /// A peer has said over a connection which instance it is.
    pub(super) fn identified(&mut self, now: Instant, peer: PeerId, connection: ConnectionId, is: Instance) {
        let lines = self.lines.entry(peer).or_default();
        if lines.iter().all(|line| line.connection != connection) {
            lines.push(Line { connection, instance: is, since: now, answered: None });
        }
    }

    pub(super) fn closed(&mut self, peer: &PeerId, connection: ConnectionId) {
        if let Some(lines) = self.lines.get_mut(peer) {
            lines.retain(|line| line.connection != connection);
            if lines.is_empty() {
                self.lines.remove(peer);
            }
        }
    }

    /// A peer answers over a connection. Returns the connection of another instance of it, if one is at work,
    /// and it has not been spoken of.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        peer: PeerId,
        connection: ConnectionId,
    ) -> Option<ConnectionId> {
        let lines = self.lines.get_mut(&peer)?;
        let at = lines.iter().position(|line| line.connection == connection)?;
        lines[at].answered = Some(now);
        let line = &lines[at];
        let twin = lines.iter().find(|other| {
            let both = other.since.max(line.since);
            other.instance != line.instance && other.answered.is_some_and(|answered| answered > both)
        });
        let twin = twin?.connection;
        self.may_say(now, peer).then_some(twin)
    }

    fn may_say(&mut self, now: Instant, peer: PeerId) -> bool {
        while self.said.front().is_some_and(|(_, at)| now.duration_since(*at) > SAY_EVERY) {
            self.said.pop_front();
        }
        let says = self.said.len() < MAX_SAID && self.said.iter().all(|(said, _)| *said != peer);
        if says {
            self.said.push_back((peer, now));
        }
        says
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_secs(15);

    fn line(number: usize) -> ConnectionId {
        ConnectionId::new_unchecked(number)
    }

    /// A peer that is there twice, as two instances.
    fn twice(twins: &mut Twins, start: Instant) -> PeerId {
        let peer = PeerId::random();
        twins.identified(start, peer, line(1), Instance::numbered(1));
        assert_eq!(twins.answered(start, peer, line(1)), None);
        twins.identified(start + STEP, peer, line(2), Instance::numbered(2));
        peer
    }

    #[test]
    fn two_instances_that_both_answer_are_named_once() {
        let (mut twins, start) = (Twins::default(), Instant::now());
        let peer = twice(&mut twins, start);
        assert_eq!(twins.answered(start + STEP, peer, line(2)), None, "the other may be dead");
        assert_eq!(twins.answered(start + 2 * STEP, peer, line(1)), None, "this one may have died since");
        assert_eq!(twins.answered(start + 3 * STEP, peer, line(2)), Some(line(1)));
        assert_eq!(twins.answered(start + 4 * STEP, peer, line(1)), None, "it was said");
        assert_eq!(twins.answered(start + 4 * STEP + SAY_EVERY, peer, line(2)), Some(line(1)));
    }

    #[test]
    fn a_process_that_was_started_again_is_no_twin() {
        let (mut twins, start) = (Twins::default(), Instant::now());
        let peer = twice(&mut twins, start);
        for step in 2..9 {
            assert_eq!(twins.answered(start + step * STEP, peer, line(2)), None, "only the new one answers");
        }
        twins.closed(&peer, line(1));
        // A second connection of the same process, as over another transport.
        twins.identified(start + 9 * STEP, peer, line(3), Instance::numbered(2));
        for step in 10..13 {
            assert_eq!(twins.answered(start + step * STEP, peer, line(2)), None);
            assert_eq!(twins.answered(start + step * STEP, peer, line(3)), None);
        }
        twins.closed(&peer, line(2));
        twins.closed(&peer, line(3));
        assert!(twins.lines.is_empty());
    }

    #[test]
    fn many_twins_do_not_fill_the_log() {
        let (mut twins, start) = (Twins::default(), Instant::now());
        let mut said = 0;
        for _ in 0..2 * MAX_SAID {
            let peer = twice(&mut twins, start);
            twins.answered(start + 2 * STEP, peer, line(1));
            said += usize::from(twins.answered(start + 3 * STEP, peer, line(2)).is_some());
        }
        assert_eq!(said, MAX_SAID);
    }
}
