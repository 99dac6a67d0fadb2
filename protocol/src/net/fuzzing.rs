//! What the fuzz targets reach and nobody else does: which addresses are believed, and what becomes
//! of a neighbour's blocks.

use std::net::IpAddr;

use bytes::Bytes;
use libp2p::Multiaddr;

use super::addresses;
use super::snapshots::block_writer::{Arrival, KeepFailure, keep};
use crate::snapshot::manifest::{Piece, PieceIndex};
use crate::store::{ChunkStore, Written};

/// Whether to believe an address that came through a connection at `via`.
pub fn believable(address: &Multiaddr, via: &Multiaddr) -> bool {
    addresses::believable(address, via)
}

/// Whether an address means something only within one computer or one network.
pub fn is_local(address: &Multiaddr) -> bool {
    addresses::is_local(address)
}

/// The network of which an address is a part.
pub fn network_of(address: &Multiaddr) -> Option<IpAddr> {
    addresses::network_of(address)
}

/// Where `listening` is reached from outside, when others see us at `seen`.
pub fn seen_from_outside(seen: &Multiaddr, listening: &Multiaddr) -> Option<Multiaddr> {
    addresses::seen_from_outside(seen, listening)
}

/// The address without the peer at its end.
pub fn without_peer(address: Multiaddr) -> Multiaddr {
    addresses::without_peer(address)
}

/// Why a block was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// It is not what its piece's name says.
    Neighbour,
    /// Something failed here, or the tree of its piece is not known.
    Nobody,
}

/// Verifies and stores what a neighbour sends as `block` of `piece`: so many leaves of the piece's
/// tree, and the block's bytes.
///
/// # Errors
/// Whose fault it is.
pub fn keep_block(
    store: &ChunkStore,
    piece: Piece,
    block: u32,
    leaves: usize,
    payload: Bytes,
) -> Result<Written, Blame> {
    let arrival = Arrival { index: PieceIndex(0), piece, block, leaves, payload };
    keep(store, &arrival).map_err(|failure| match failure {
        KeepFailure::Rotten(_) => Blame::Neighbour,
        KeepFailure::Ours(_) => Blame::Nobody,
    })
}
