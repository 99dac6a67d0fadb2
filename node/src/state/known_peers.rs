//! Peers that worked last, for the next start: with them a node comes back even when the
//! list's peers are gone.

use std::path::Path;

use echo_protocol::net::{Host, Multiaddr, PeerId};
use serde::{Deserialize, Serialize};

use crate::state::state_file;
use crate::state::state_file::StateError;

/// Most peers that are kept.
pub const MAX_KNOWN_PEERS: usize = 64;
/// Most addresses that are kept of a peer.
pub const MAX_KNOWN_ADDRESSES: usize = 8;

/// A peer and where it was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPeer {
    /// Its libp2p peer id, as text.
    pub peer: String,
    /// Its multiaddresses, as text; those that don't parse are skipped.
    pub addresses: Vec<String>,
}

/// The peers that worked last, the learner among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPeers {
    peers: Vec<KnownPeer>,
}

impl KnownPeers {
    /// Reads them. A damaged file is as good as none: these peers are a convenience.
    pub fn read(path: &Path) -> Self {
        match state_file::read::<Self>(path) {
            Ok(known) => known.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "starting without the peers of last time");
                Self::default()
            }
        }
    }

    /// Whom `host` is connected to now; `first` keeps its place whatever happens. When nobody is
    /// connected, what was known stays.
    pub async fn refresh(&mut self, host: &Host, first: PeerId) {
        let connected = host.connected_peers().await;
        let mut known = Vec::new();
        for peer in std::iter::once(first).chain(connected.into_iter().filter(|peer| *peer != first)) {
            let addresses = host.known_addresses(peer).await;
            if !addresses.is_empty() && known.len() < MAX_KNOWN_PEERS {
                let addresses = addresses.iter().take(MAX_KNOWN_ADDRESSES).map(Multiaddr::to_string);
                known.push(KnownPeer { peer: peer.to_string(), addresses: addresses.collect() });
            }
        }
        if !known.is_empty() {
            self.peers = known;
        }
    }

    /// Replaces the file, without waiting for the disk.
    ///
    /// # Errors
    /// [`StateError::Io`]; the old file is then still there.
    pub fn write(&self, path: &Path) -> Result<(), StateError> {
        state_file::write(path, self, false)
    }

    /// Those that can be parsed, at most [`MAX_KNOWN_PEERS`].
    pub fn iter(&self) -> impl Iterator<Item = (PeerId, Vec<Multiaddr>)> {
        self.peers.iter().take(MAX_KNOWN_PEERS).filter_map(|known| {
            let addresses = known.addresses.iter().take(MAX_KNOWN_ADDRESSES);
            Some((known.peer.parse().ok()?, addresses.filter_map(|text| text.parse().ok()).collect()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_damage_costs_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("peers.json");
        assert_eq!(KnownPeers::read(&path).iter().count(), 0);
        let peer = PeerId::random();
        let good = KnownPeer {
            peer: peer.to_string(),
            addresses: vec!["/ip4/1.2.3.4/tcp/5".into(), "nonsense".into()],
        };
        let bad = KnownPeer { peer: "nobody".into(), addresses: Vec::new() };
        KnownPeers { peers: vec![bad, good] }.write(&path).unwrap();
        let read: Vec<_> = KnownPeers::read(&path).iter().collect();
        assert_eq!(read, [(peer, vec!["/ip4/1.2.3.4/tcp/5".parse().unwrap()])]);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(KnownPeers::read(&path), KnownPeers::default());
    }

    #[test]
    fn a_long_file_is_not_believed_entirely() {
        let peer = |_| KnownPeer {
            peer: PeerId::random().to_string(),
            addresses: vec!["/ip4/1.2.3.4/tcp/5".into(); 99],
        };
        let known = KnownPeers { peers: (0..500).map(peer).collect() };
        assert_eq!(known.iter().count(), MAX_KNOWN_PEERS);
        assert!(known.iter().all(|(_, addresses)| addresses.len() == MAX_KNOWN_ADDRESSES));
    }
}
