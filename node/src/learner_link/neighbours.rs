//! The neighbours that the learner named: handed to the snapshot service, dialled where only this
//! side can, remembered for heartbeats.

use std::sync::Arc;

use echo_protocol::control::requests::{Neighbourhood, Peer};
use echo_protocol::net::Host;
use echo_protocol::net::peer_id::{addresses_of, peer_of_key};
use echo_protocol::net::snapshots::{Snapshots, Stopped};
use parking_lot::Mutex;

use crate::status::node_state::NodeState;

/// The current neighbourhood. Clones share it.
#[derive(Clone)]
pub struct CurrentNeighbours {
    host: Host,
    snapshots: Snapshots,
    node_state: Arc<NodeState>,
    /// The digest of what the learner named last; 0 for nothing.
    digest: Arc<Mutex<u64>>,
}

impl CurrentNeighbours {
    /// No neighbours yet: the learner has named none.
    pub fn new(host: Host, snapshots: Snapshots, node_state: Arc<NodeState>) -> Self {
        Self { host, snapshots, node_state, digest: Arc::default() }
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
        let Neighbourhood { mode, neighbours, dial, consumers } = neighbourhood;
        self.snapshots.mode(mode).await?;
        self.snapshots.neighbours(neighbours.into_iter().map(|n| (n.peer, n.role)).collect()).await?;
        self.snapshots.friends(consumers).await?;
        for peer in dial {
            tokio::spawn(self.clone().reach(peer));
        }
        Ok(())
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
