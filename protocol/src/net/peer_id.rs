//! An ed25519 key is a peer's name in Echo's messages and, as a peer id, on the network.

use crate::control::requests::Peer;
use crate::wire::identity::PublicKey;
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId};
use std::ops::RangeInclusive;

/// The peer id of a key; `None` for bytes that are no point on the curve.
pub fn peer_of_key(key: &PublicKey) -> Option<PeerId> {
    let key = libp2p::identity::ed25519::PublicKey::try_from_bytes(key.as_bytes()).ok()?;
    Some(libp2p::identity::PublicKey::from(key).to_peer_id())
}

/// The key of a peer id; `None` for identities of other kinds than ed25519, which Echo does not use.
pub fn key_of_peer(peer: &PeerId) -> Option<PublicKey> {
    // An ed25519 peer id is the encoded key itself, after the header of an identity multihash.
    let multihash = peer.as_ref();
    let key = libp2p::identity::PublicKey::try_decode_protobuf(multihash.digest()).ok()?;
    Some(PublicKey::from_bytes(key.try_into_ed25519().ok()?.to_bytes()))
}

/// The addresses of a peer that can be parsed.
pub fn addresses_of(peer: &Peer) -> Vec<Multiaddr> {
    peer.addresses.iter().filter_map(|text| text.parse().ok()).collect()
}

/// All connections of a peer, in a table in which they stand one after the other.
pub(super) fn connections_of(peer: PeerId) -> RangeInclusive<(PeerId, ConnectionId)> {
    let [first, last] = [0, usize::MAX].map(ConnectionId::new_unchecked);
    (peer, first)..=(peer, last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::identity::NodeKey;

    #[test]
    fn key_and_peer_id_name_each_other() {
        let key = NodeKey::from_secret([8; 32]);
        let peer = peer_of_key(&key.public()).unwrap();
        assert_eq!(peer, crate::net::peer_id_of(key.secret()));
        assert_eq!(key_of_peer(&peer), Some(key.public()));
        assert_eq!(key_of_peer(&PeerId::random()), None);
    }
}
