//! How many connections a host keeps.

use libp2p::connection_limits;

/// Connections that one peer may have with us at once.
///
/// One is enough, but two peers that dial each other at the same moment make two. Were the second refused on both
/// sides, both could die; so there is room for both, and for a new one beside an old one that is not yet known dead. The other
/// two are for the moments in which a peer tries whether we can be reached, over TCP and over QUIC.
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

/// How many connections a host keeps. What goes beyond is refused; existing connections are left alone.
///
/// Every TCP connection costs one file descriptor, a QUIC connection none.
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

    pub(super) fn to_libp2p(self) -> connection_limits::ConnectionLimits {
        connection_limits::ConnectionLimits::default()
            .with_max_established_incoming(Some(self.incoming))
            .with_max_established_outgoing(Some(self.outgoing))
            .with_max_established_per_peer(Some(self.per_peer))
            .with_max_pending_incoming(Some(self.pending_incoming))
            .with_max_pending_outgoing(Some(self.pending_outgoing))
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::volunteer()
    }
}
