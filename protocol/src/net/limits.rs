//! What a host keeps, takes and waits for at most: connections, messages, queues.

use std::time::Duration;

use libp2p::connection_limits;

/// Commands that may wait for the driver. A caller beyond waits for its turn.
pub const COMMAND_QUEUE: usize = 256;
/// Events that may wait for their reader.
pub const EVENT_QUEUE: usize = 1024;
/// Gossip topics of a host.
pub const MAX_TOPICS: usize = 64;
/// The longest gossip message, in bytes: a signed manifest.
pub const MAX_GOSSIP_MESSAGE: usize =
    crate::snapshot::manifest::MAX_MANIFEST_BYTES + crate::wire::signed::ENVELOPE_BYTES;
/// Gossip messages that may wait for their verdict. What comes beyond is ignored.
pub const MAX_PENDING_VERDICTS: usize = 64;
/// A gossip message without a verdict for this long is ignored.
pub const VERDICT_TIMEOUT: Duration = Duration::from_secs(10);
/// Rejected gossip messages of one peer, within [`BAD_GOSSIP_WITHIN`], after which it is blocked. Honest
/// peers judge what they hand on. A learner that comes back may hear a second of its own past.
pub const MAX_BAD_GOSSIP: u32 = 256;
/// The time in which they count together.
pub const BAD_GOSSIP_WITHIN: Duration = Duration::from_secs(60);
/// The longest that a request may take. A longer timeout given to
/// [`Host::request`](super::Host::request) counts as this one.
pub const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Own requests that may wait for their response.
pub const MAX_PENDING_REQUESTS: usize = 4096;
/// Requests of others that may wait for our reply. What comes beyond is dropped.
pub const MAX_PENDING_REPLIES: usize = 1024;
/// Callers that may wait for a dial.
pub const MAX_PENDING_DIALS: usize = 1024;
/// Addresses that one call of [`Host::dial`](super::Host::dial) may bring. The rest is ignored.
pub const MAX_DIAL_ADDRESSES: usize = 8;
/// Queries to the DHT that may run at once.
pub const MAX_PENDING_QUERIES: usize = 256;
/// A provider query ends when it has found this many.
pub const MAX_PROVIDERS_FOUND: usize = 256;
/// The longest key in the DHT, in bytes: room for a 64-byte hash.
pub const MAX_DHT_KEY: usize = 64;
/// Peers that may be blocked. The one blocked longest ago is let in again to make room.
pub const MAX_BLOCKED: usize = 4096;
/// DHT calls wait this long for the first peer in the routing table: a peer that was just dialled
/// gets there when it has identified itself.
pub const DHT_READY_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections that one peer may have with us at once.
///
/// One is enough, but two peers that dial each other at the same moment make two. Were the second
/// refused on both sides, both could die; so there is room for both, and for a new one beside an
/// old one that is not yet known dead. The other two are for the moments in which a peer tries
/// whether we can be reached, over TCP and over QUIC.
pub const MAX_CONNECTIONS_PER_PEER: u32 = 5;

/// Incoming connections of a volunteer.
pub const VOLUNTEER_INCOMING: u32 = 256;
/// Outgoing connections of a volunteer.
pub const VOLUNTEER_OUTGOING: u32 = 128;
/// Unfinished handshakes of a volunteer, in each direction.
pub const VOLUNTEER_PENDING: u32 = 64;

/// Incoming connections of a hub: a fleet of 10,000 nodes and room for those that reconnect.
pub const HUB_INCOMING: u32 = 12_288;
/// Outgoing connections of a hub.
pub const HUB_OUTGOING: u32 = 512;
/// Unfinished handshakes of a hub, in each direction: a fleet that reconnects after a restart comes in waves.
pub const HUB_PENDING: u32 = 512;

/// Descriptors that connections leave to all else: chunks, a checkpoint, the database, listeners, pipes.
pub const RESERVED_DESCRIPTORS: u64 = 192;
/// Connections are never derived to be fewer than so many, however few descriptors there are.
const FEWEST_CONNECTIONS: u64 = 64;

/// How many connections a host keeps.
///
/// Every TCP connection costs one file descriptor, a QUIC connection none. Where there is no place left, an
/// unfinished handshake goes for a newer one, and the connection of a stranger for another one: the oldest of
/// the network that has most. Who is [kept](super::Host::keep) stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Established connections that others opened.
    pub incoming: u32,
    /// Established connections that we opened.
    pub outgoing: u32,
    /// Established connections with one peer, whoever opened them.
    pub per_peer: u32,
    /// Incoming connections whose handshake is not finished.
    pub pending_incoming: u32,
    /// Outgoing connections whose handshake is not finished.
    pub pending_outgoing: u32,
}

impl ConnectionLimits {
    /// For a computer at home.
    #[must_use]
    pub fn volunteer() -> Self {
        Self {
            incoming: VOLUNTEER_INCOMING,
            outgoing: VOLUNTEER_OUTGOING,
            per_peer: MAX_CONNECTIONS_PER_PEER,
            pending_incoming: VOLUNTEER_PENDING,
            pending_outgoing: VOLUNTEER_PENDING,
        }
    }

    /// For a learner or a bootstrap node, to which the whole fleet connects.
    #[must_use]
    pub fn hub() -> Self {
        Self {
            incoming: HUB_INCOMING,
            outgoing: HUB_OUTGOING,
            per_peer: MAX_CONNECTIONS_PER_PEER,
            pending_incoming: HUB_PENDING,
            pending_outgoing: HUB_PENDING,
        }
    }

    /// The same within what a process may open: `descriptors` files, some of which are left to other things.
    #[must_use]
    pub fn within(self, descriptors: u64) -> Self {
        let free = descriptors.saturating_sub(RESERVED_DESCRIPTORS).max(FEWEST_CONNECTIONS);
        let free = u32::try_from(free).unwrap_or(u32::MAX);
        let eighth = free / 8;
        let (pending_incoming, pending_outgoing) =
            (self.pending_incoming.min(eighth), self.pending_outgoing.min(eighth));
        let outgoing = self.outgoing.min(free / 6);
        let left = free - pending_incoming - pending_outgoing - outgoing;
        // Closing connections hold their descriptors for a moment more.
        let incoming = self.incoming.min(left - left / 8 - 1);
        Self { incoming, outgoing, pending_incoming, pending_outgoing, ..self }
    }

    /// Most incoming connections from one address: a household, an office or a campus behind one.
    pub(super) fn per_address(self) -> usize {
        (self.incoming as usize / 16).max(8)
    }

    /// Most incoming connections from one network: /24 of IPv4, /48 of IPv6.
    pub(super) fn per_network(self) -> usize {
        (self.incoming as usize / 4).max(16)
    }

    pub(super) fn to_libp2p(self) -> connection_limits::ConnectionLimits {
        connection_limits::ConnectionLimits::default()
            // Connections that make room for others count until they are closed.
            .with_max_established_incoming(Some(self.incoming + self.incoming / 8 + 1))
            .with_max_established_outgoing(Some(self.outgoing))
            .with_max_established_per_peer(Some(self.per_peer))
            // Beyond it the oldest goes, which is not for this part to see to.
            .with_max_pending_incoming((self.pending_incoming == 0).then_some(0))
            .with_max_pending_outgoing(Some(self.pending_outgoing))
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::volunteer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_to_everything_else() {
        for descriptors in [0, 256, 1024, 4096, 20_000] {
            let limits = ConnectionLimits::hub().within(descriptors);
            let closing = limits.incoming / 8 + 1;
            let taken = limits.incoming
                + closing
                + limits.outgoing
                + limits.pending_incoming
                + limits.pending_outgoing;
            let free = descriptors.saturating_sub(RESERVED_DESCRIPTORS).max(FEWEST_CONNECTIONS);
            assert!(u64::from(taken) <= free, "{limits:?} of {free}");
            assert!(limits.incoming > 0 && limits.pending_incoming > 0);
        }
        assert_eq!(ConnectionLimits::hub().within(1 << 20), ConnectionLimits::hub());
        assert!(ConnectionLimits::hub().within(1024).incoming > 400);
    }
}
