//! The streams of the driver: one to each neighbour that is pulled from, one from each consumer.

use crate::control::requests::Peer;
use crate::net::Stream;
use crate::net::host::Host;
use crate::net::peer_id::{addresses_of, peer_of_key};
use crate::net::snapshots::block_writer::BlockWriter;
use crate::net::snapshots::downstream;
use crate::net::snapshots::mailbox::{BlockToSend, Mailbox};
use crate::net::snapshots::messages::{DriverCommand, Reporter, StreamReport};
use crate::net::snapshots::requests::Requests;
use crate::net::snapshots::stats::StreamTraffic;
use crate::net::snapshots::upstream::{ASKS, NeighbourStream, UpstreamCommand};
use crate::net::transport::rate_limit::ServedPeer;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::{Manifest, Piece, PieceIndex};
use crate::store::ChunkStore;
use crate::wire::content_id::ContentId;
use crate::wire::identity::PublicKey;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// A neighbour's task. It ends by itself when this is dropped, after it has kept what had arrived.
struct Upstream {
    serial: u64,
    wishes: mpsc::Sender<UpstreamCommand>,
}

/// The task that serves one consumer; it is aborted when dropped.
struct Consumer {
    serial: u64,
    mailbox: Arc<Mailbox>,
    task: AbortHandle,
    /// Its blocks do not wait for what strangers ask for. `None` at the source, which keeps all that have a
    /// place at it: to open a stream there costs a stranger nothing.
    _served: Option<ServedPeer>,
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) struct Edges {
    host: Host,
    /// Whether snapshots come from here.
    source: bool,
    store: Arc<ChunkStore>,
    block_writer: BlockWriter,
    inbox: mpsc::WeakSender<DriverCommand>,
    traffic: Arc<StreamTraffic>,
    /// Bounded by the machine's neighbours.
    upstreams: BTreeMap<PublicKey, Upstream>,
    /// Bounded by the machine, which refuses consumers beyond its limit, and by the
    /// host's connections before that.
    consumers: BTreeMap<PublicKey, Consumer>,
    next_serial: u64,
}

impl Edges {
    pub(super) fn new(
        host: Host,
        source: bool,
        store: Arc<ChunkStore>,
        block_writer: BlockWriter,
        inbox: mpsc::WeakSender<DriverCommand>,
    ) -> Self {
        let traffic = Arc::default();
        Self {
            host,
            source,
            block_writer,
            store,
            inbox,
            traffic,
            upstreams: BTreeMap::new(),
            consumers: BTreeMap::new(),
            next_serial: 0,
        }
    }

    /// The number of the newest stream.
    pub(super) fn last_serial(&self) -> u64 {
        self.next_serial
    }

    /// Bytes that went through all streams.
    pub(super) fn traffic(&self) -> &StreamTraffic {
        &self.traffic
    }

    /// Whether the stream `serial` is the one over which `peer` is pulled from.
    pub(super) fn pulls(&self, peer: &PublicKey, serial: u64) -> bool {
        self.upstreams.get(peer).is_some_and(|upstream| upstream.serial == serial)
    }

    /// Whether the stream `serial` is the one over which `peer` is served.
    pub(super) fn serves(&self, peer: &PublicKey, serial: u64) -> bool {
        self.consumers.get(peer).is_some_and(|consumer| consumer.serial == serial)
    }

    /// Tells the host where a peer can be dialled; `told` by another peer, or known to our own process.
    pub(super) async fn remember(&self, peer: &Peer, told: bool) {
        let Some(id) = peer_of_key(&peer.key) else { return };
        for address in addresses_of(peer) {
            let kept = match told {
                true => self.host.hear_address(id, address).await,
                false => self.host.add_address(id, address).await,
            };
            if let Err(error) = kept {
                tracing::debug!(%error, neighbour = %peer.key.short(), "an address is of no use");
            }
        }
    }

    /// Starts to pull from a neighbour, over a new stream if there was one.
    pub(super) fn open(&mut self, peer: PublicKey, manifest: Arc<Manifest>, id: ContentId) {
        let reporter = self.reporter(peer);
        let serial = reporter.serial;
        let Some(neighbour) = peer_of_key(&peer) else {
            tokio::spawn(async move {
                reporter.report(StreamReport::Lost { reason: "no such key".into() }).await
            });
            return;
        };
        let (wishes, waiting) = mpsc::channel(ASKS);
        self.upstreams.insert(peer, Upstream { serial, wishes });
        let (host, store, block_writer) = (self.host.clone(), self.store.clone(), self.block_writer.clone());
        let requests = Mutex::new(Requests::new(host.pacing()));
        let edge = NeighbourStream { host, store, block_writer, neighbour, manifest, id, reporter, requests };
        tokio::spawn(edge.pull(waiting));
    }

    /// Lets a neighbour go.
    pub(super) fn close(&mut self, peer: &PublicKey) {
        self.upstreams.remove(peer);
    }

    /// Passes a wish on. A neighbour that does not even take wishes falls silent, which the machine notices.
    pub(super) fn wish(&self, peer: &PublicKey, wish: UpstreamCommand) {
        if let Some(upstream) = self.upstreams.get(peer)
            && upstream.wishes.try_send(wish).is_err()
        {
            tracing::debug!(neighbour = %peer.short(), "a request was not taken");
        }
    }

    /// Serves whoever opened `stream`. True when it replaces an earlier stream of the same peer.
    pub(super) fn consumer(&mut self, peer: PublicKey, stream: Stream) -> bool {
        let reporter = self.reporter(peer);
        let serial = reporter.serial;
        let mailbox = Arc::new(Mailbox::default());
        let task = downstream::serve(stream, self.store.clone(), mailbox.clone(), reporter);
        let task = tokio::spawn(task).abort_handle();
        let served = peer_of_key(&peer).filter(|_| !self.source).map(|peer| self.host.pacing().serve(peer));
        self.consumers.insert(peer, Consumer { serial, mailbox, task, _served: served }).is_some()
    }

    /// Ends a consumer's stream.
    pub(super) fn forget_consumer(&mut self, peer: &PublicKey) {
        self.consumers.remove(peer);
    }

    /// Tells a consumer what is here.
    pub(super) fn tell(&self, peer: &PublicKey, news: Vec<(PieceIndex, BlockMask)>) {
        if let Some(consumer) = self.consumers.get(peer) {
            consumer.mailbox.tell(news);
        }
    }

    /// Sends a block to a consumer; false when it cannot take more.
    pub(super) fn serve(&self, peer: &PublicKey, index: PieceIndex, piece: Piece, block: u32) -> bool {
        self.consumers
            .get(peer)
            .is_none_or(|consumer| consumer.mailbox.order(BlockToSend { index, piece, block }))
    }

    /// Tells a consumer that it is not served; its task ends by itself.
    pub(super) fn refuse(&self, peer: &PublicKey) {
        if let Some(consumer) = self.consumers.get(peer) {
            consumer.mailbox.refuse();
        }
    }

    fn reporter(&mut self, peer: PublicKey) -> Reporter {
        self.next_serial += 1;
        let (serial, inbox, traffic) = (self.next_serial, self.inbox.clone(), self.traffic.clone());
        Reporter { peer, serial, inbox, traffic }
    }
}
