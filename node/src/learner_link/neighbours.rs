//! The neighbours that the learner named: handed to the snapshot service, dialled where only this
//! side can, kept before strangers, remembered for heartbeats.

use std::sync::Arc;

use echo_protocol::control::requests::{Neighbourhood, Peer};
use echo_protocol::net::peer_id::{addresses_of, peer_of_key};
use echo_protocol::net::snapshots::{Snapshots, Stopped};
use echo_protocol::net::{Host, PeerId};
use parking_lot::Mutex;

use crate::status::node_state::NodeState;

/// The current neighbourhood. Clones share it.
#[derive(Clone)]
pub struct CurrentNeighbours {
    host: Host,
    learner: PeerId,
    snapshots: Snapshots,
    node_state: Arc<NodeState>,
    /// The digest of what the learner named last; 0 for nothing.
    digest: Arc<Mutex<u64>>,
}

impl CurrentNeighbours {
    /// No neighbours yet: the learner has named none.
    pub fn new(host: Host, learner: PeerId, snapshots: Snapshots, node_state: Arc<NodeState>) -> Self {
        Self { host, learner, snapshots, node_state, digest: Arc::default() }
    }

    /// What heartbeats say, so that the learner sends only what has changed.
    pub fn digest(&self) -> u64 {
        *self.digest.lock()
    }

    /// Takes over what the learner named.
    ///
    /// # Errors
    /// [`Stopped`] when the snapshot service was taken down.
    pub async fn take(&self, neighbourhood: Neighbourhood) -> Result<(), Stopped> {
        *self.digest.lock() = neighbourhood.digest();
        self.node_state.set(|facts| {
            facts.parent = neighbourhood.parent().map(|peer| peer.key.short());
            facts.neighbours = neighbourhood.neighbours.len();
        });
        // The host only stops with the process.
        let _ = self.host.keep(self.partners(&neighbourhood)).await;
        let Neighbourhood { mode, neighbours, dial, consumers } = neighbourhood;
        self.snapshots.mode(mode).await?;
        self.snapshots.neighbours(neighbours.into_iter().map(|n| (n.peer, n.role)).collect()).await?;
        self.snapshots.friends(consumers).await?;
        for peer in dial {
            tokio::spawn(self.clone().reach(peer));
        }
        Ok(())
    }

    /// With whom this node works: neither their connections nor its uplink are left to strangers.
    fn partners(&self, neighbourhood: &Neighbourhood) -> Vec<PeerId> {
        let Neighbourhood { neighbours, dial, consumers, .. } = neighbourhood;
        let keys = neighbours.iter().map(|neighbour| &neighbour.peer.key);
        let keys = keys.chain(dial.iter().map(|peer| &peer.key)).chain(consumers);
        keys.filter_map(peer_of_key).chain([self.learner]).collect()
    }

    /// Connects to a peer that will pull from here and cannot connect to us. Who is connected
    /// already answers at once.
    async fn reach(self, peer: Peer) {
        let Some(id) = peer_of_key(&peer.key) else { return };
        for address in addresses_of(&peer) {
            // A host that has stopped dials nobody either.
            let _ = self.host.hear_address(id, address).await;
        }
        if let Err(error) = self.host.dial(id, Vec::new()).await {
            tracing::debug!(peer = %peer.key.short(), %error, "a peer behind this node was not reached");
        }
    }
}
