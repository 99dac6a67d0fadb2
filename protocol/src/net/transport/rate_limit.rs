//! Caps on what a process sends and receives.
//!
//! Token buckets, one for each direction, stand under every stream of every connection, TCP and QUIC:
//! control, gossip, the DHT, chunks and trajectories alike. They count bytes as they appear on the wire,
//! by an estimate of what the layers below add (`wire_overhead`). Streams take turns of about six
//! milliseconds' worth of bytes, so that a request is not stuck after bulk data. Without a cap, a stream
//! costs one more atomic addition.
//!
//! Strangers do not take a cap from those that matter: peers that a process [keeps](crate::net::Host::keep),
//! and consumers with a place at it, draw before all others. What a stranger asks for costs it nothing, but
//! each connection costs us some kilobytes of identify and DHT, and a thousand of them would fill a home's
//! uplink for good. So strangers [queue](strangers) for most of what the others leave, and for a tenth of the
//! cap where these leave nothing. Who keeps nobody has no strangers.
//!
//! A cap on what is received works through back-pressure: what is not read stays in the windows of the
//! connections, and the sender stops. So a sender that was idle may first fill a window at the speed of
//! the link (256 KiB with yamux, and what the swarm grants with QUIC), and a node has many senders. But
//! bulk comes when it is requested, and a request waits until there is room for it (`request_turns`).

mod muxer;
mod receive_budget;
mod request_turns;
mod strangers;
mod stream;
mod token_bucket;
mod wire_overhead;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libp2p::PeerId;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

pub(in crate::net) use muxer::PacedMuxer;
use request_turns::Asking;
pub(in crate::net) use request_turns::{OutstandingBytes, RequestPermit};
use strangers::Strangers;
use token_bucket::Bucket;
use wire_overhead::{ACK_SHARE, Framing};

/// The caps of a host, and what has passed. Clones are handles to the same caps.
#[derive(Clone, Debug)]
pub struct Pacing {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    upload: Lane,
    download: Lane,
    /// At the cap on what is received.
    asking: Asking,
    partners: RwLock<Partners>,
    start: Instant,
}

/// Peers whose streams draw before those of others.
#[derive(Debug, Default)]
struct Partners {
    /// Nobody where all peers are alike.
    kept: BTreeSet<PeerId>,
    /// Consumers that are served, with the number of their streams.
    served: BTreeMap<PeerId, usize>,
}

/// A consumer that is served comes before strangers, until this is dropped.
#[derive(Debug)]
pub(in crate::net) struct ServedPeer {
    pacing: Pacing,
    peer: PeerId,
}

impl Drop for ServedPeer {
    fn drop(&mut self) {
        let mut partners = self.pacing.shared.partners.write();
        if let Entry::Occupied(mut streams) = partners.served.entry(self.peer) {
            *streams.get_mut() -= 1;
            if *streams.get() == 0 {
                streams.remove();
            }
        }
    }
}

/// The cap and the count of one direction.
#[derive(Debug)]
struct Lane {
    /// Bytes a second; 0 is no cap. Read before every use of the bucket, to leave that alone where
    /// there is no cap.
    cap: AtomicU64,
    /// Bytes that have passed.
    passed: AtomicU64,
    bucket: Mutex<Bucket>,
    /// Where streams to strangers wait before they draw from the bucket.
    strangers: Mutex<Strangers>,
}

impl Pacing {
    /// Caps in bytes per second on the wire; `None` is no cap.
    pub(in crate::net) fn new(max_upload: Option<u64>, max_download: Option<u64>) -> Self {
        let shared = Shared {
            upload: Lane::new(max_upload),
            download: Lane::new(max_download),
            asking: Asking::new(max_download),
            partners: RwLock::default(),
            start: Instant::now(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Caps what is sent from now on, in bytes per second on the wire (0 counts as 1); `None` lifts the cap.
    pub fn set_max_upload(&self, cap: Option<u64>) {
        self.shared.upload.set_cap(cap);
    }

    /// Caps what is received from now on, in bytes per second on the wire (0 counts as 1);
    /// `None` lifts the cap.
    pub fn set_max_download(&self, cap: Option<u64>) {
        self.shared.asking.restart(cap);
        self.shared.download.set_cap(cap);
    }

    /// Lets streams to these peers draw before all others, and of no other peers.
    pub(in crate::net) fn keep(&self, peers: impl IntoIterator<Item = PeerId>) {
        self.shared.partners.write().kept = peers.into_iter().collect();
    }

    /// Whether a peer's streams wait for those of others.
    #[cfg(test)]
    pub(in crate::net) fn is_stranger(&self, peer: &PeerId) -> bool {
        self.shared.is_stranger(peer)
    }

    /// Lets streams to a consumer draw before those to strangers while it is served.
    pub(in crate::net) fn serve(&self, peer: PeerId) -> ServedPeer {
        *self.shared.partners.write().served.entry(peer).or_default() += 1;
        ServedPeer { pacing: self.clone(), peer }
    }

    /// Waits until bulk may be asked for: not at all where what is received has no cap. Turns come
    /// in the order in which they are waited for, and while somebody has one, or does not poll the
    /// wait for one that has come, nobody else gets any.
    pub(in crate::net) async fn turn_to_ask(&self) -> RequestPermit<'_> {
        self.shared.asking.turn(&self.shared).await
    }

    /// What one neighbour is asked for: nothing yet.
    pub(in crate::net) fn due(&self) -> OutstandingBytes {
        OutstandingBytes::new(self.clone())
    }

    /// Counts bytes of bulk streams that came without having been asked for, which leave less
    /// room for what is.
    pub(in crate::net) fn came_unasked(&self, bytes: usize) {
        self.shared.take_room(Framing::TCP.received(bytes));
    }

    /// The cap on what is sent, in bytes per second.
    #[must_use]
    pub fn max_upload(&self) -> Option<u64> {
        self.shared.upload.cap()
    }

    /// The cap on what is received, in bytes per second.
    #[must_use]
    pub fn max_download(&self) -> Option<u64> {
        self.shared.download.cap()
    }

    /// Bytes sent since the start, as on the wire: an estimate where the layers below
    /// the streams are concerned.
    #[must_use]
    pub fn uploaded(&self) -> u64 {
        self.shared.upload.passed.load(Ordering::Relaxed)
    }

    /// Bytes received since the start, counted in the same way.
    #[must_use]
    pub fn downloaded(&self) -> u64 {
        self.shared.download.passed.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Whether a peer's streams wait for those of others.
    fn is_stranger(&self, peer: &PeerId) -> bool {
        let Partners { kept, served } = &*self.partners.read();
        !kept.is_empty() && !kept.contains(peer) && !served.contains_key(peer)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Counts what was sent, and the acknowledgements that it brings, which nobody holds back.
    fn count_sent(&self, wire_bytes: u64) {
        let acks = self.count(&self.upload, &self.download, wire_bytes);
        self.take_room(acks);
    }

    /// Takes room for what comes beside what is asked for.
    fn take_room(&self, wire_bytes: u64) {
        if self.download.cap().is_some() {
            self.asking.count(self.now(), wire_bytes);
        }
    }

    /// Counts what was received, and the acknowledgements that it costs.
    fn count_received(&self, wire_bytes: u64) {
        self.count(&self.download, &self.upload, wire_bytes);
    }

    /// Counts what passed in `lane`, and its acknowledgements, which it gives back, in the `other`.
    fn count(&self, lane: &Lane, other: &Lane, wire_bytes: u64) -> u64 {
        lane.passed.fetch_add(wire_bytes, Ordering::Relaxed);
        let acks = wire_bytes / ACK_SHARE;
        other.passed.fetch_add(acks, Ordering::Relaxed);
        if other.cap().is_some() {
            other.bucket.lock().count(self.now(), acks);
        }
        acks
    }
}

impl Lane {
    fn new(cap: Option<u64>) -> Self {
        let cap = cap.map_or(0, |cap| cap.max(1));
        Self {
            cap: AtomicU64::new(cap),
            passed: AtomicU64::new(0),
            bucket: Mutex::new(Bucket::new(cap)),
            strangers: Mutex::new(Strangers::new(cap)),
        }
    }

    fn cap(&self) -> Option<u64> {
        Some(self.cap.load(Ordering::Relaxed)).filter(|cap| *cap != 0)
    }

    fn set_cap(&self, cap: Option<u64>) {
        let cap = cap.map_or(0, |cap| cap.max(1));
        *self.bucket.lock() = Bucket::new(cap);
        *self.strangers.lock() = Strangers::new(cap);
        self.cap.store(cap, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
