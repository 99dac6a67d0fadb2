//! What a [`Host`](super::Host) asks of its driver.

use libp2p::{Multiaddr, PeerId};
use tokio::sync::oneshot;

use crate::net::error::NetError;

type Answer<T> = oneshot::Sender<T>;
pub(super) type ReplySender<T> = oneshot::Sender<Result<T, NetError>>;

/// One call of a method of [`Host`](super::Host), with the place where its answer goes.
pub(super) enum HostCommand {
    Dial { peer: PeerId, addrs: Vec<Multiaddr>, reply: ReplySender<()> },
    AddAddress { peer: PeerId, addr: Multiaddr, reply: Answer<bool> },
    HearAddress { peer: PeerId, addr: Multiaddr, reply: Answer<bool> },
    KnownAddresses { peer: PeerId, reply: Answer<Vec<Multiaddr>> },
    ConnectedPeers { reply: Answer<Vec<PeerId>> },
    IsDirect { peer: PeerId, reply: Answer<bool> },
    Disconnect { peer: PeerId, reply: Answer<()> },
    Block { peer: PeerId, reply: Answer<()> },
    Keep { peers: Vec<PeerId>, reply: Answer<()> },
    Unblock { peer: PeerId, reply: Answer<()> },
    Request { peer: PeerId, body: Vec<u8>, reply: ReplySender<Vec<u8>> },
    Publish { topic: String, data: Vec<u8>, reply: ReplySender<()> },
    FindPeer { peer: PeerId, reply: ReplySender<Vec<Multiaddr>> },
    FoundSoFar { peer: PeerId, reply: Answer<Vec<Multiaddr>> },
    Provide { key: Vec<u8>, reply: ReplySender<()> },
    Providers { key: Vec<u8>, reply: ReplySender<Vec<PeerId>> },
    BootstrapDht { reply: ReplySender<()> },
    Shutdown { reply: Answer<()> },
}
