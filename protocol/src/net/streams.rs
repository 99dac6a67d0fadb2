//! Long-lived streams: how they are opened, and how they are handed to their acceptor.
//!
//! libp2p hands an inbound stream over a channel without room, and drops it silently when nobody waits
//! at that very moment. So a task of its own always waits there. It greets the opener with one byte:
//! [`ACCEPTED`] when the stream is to wait in the bounded queue of the acceptor, [`REFUSED`] when that
//! is full. An opener that gets neither knows that the stream was lost on the way, and opens another. A
//! stream takes its place only when its greeting has left: what a peer does not read keeps no place.
//!
//! ```text
//! opener:   open ── direct_connections: the oldest one ──> /echo/…/N
//! acceptor: greeting task ── 1 byte ──> opener;  stream ──> queue ──> IncomingStreams::next
//! both:     frame: a length of four bytes, and a body of that many
//! ```

mod direct_connections;
pub mod frame;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{AsyncReadExt as _, AsyncWriteExt as _, StreamExt as _};
use libp2p::{PeerId, Stream, StreamProtocol};
use libp2p_stream::{Control, OpenStreamError};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::error::NetError;
pub(super) use direct_connections::Lines;

/// The acceptor's first byte: the stream waits for the acceptor.
pub const ACCEPTED: u8 = 1;
/// The acceptor's first byte: the queue is full, come back later.
pub const REFUSED: u8 = 0;

/// Streams of one protocol that may wait for their acceptor.
pub const ACCEPT_QUEUE: usize = 256;
/// Greetings of one protocol that may be under way. A stream that comes beyond is dropped.
const MAX_GREETINGS: usize = 2 * ACCEPT_QUEUE;
/// The same of one peer.
const MAX_GREETINGS_PER_PEER: usize = 4;
/// A peer that does not take the greeting's one byte for this long is let go, and so is one that
/// finds no place for this long afterwards.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest that opening a stream takes, all attempts together.
pub const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before the second attempt; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The streams that peers open towards us under one protocol. Dropping it stops accepting.
#[derive(Debug)]
pub struct IncomingStreams {
    queue: mpsc::Receiver<(PeerId, Stream)>,
}

impl IncomingStreams {
    /// The next stream and who opened it, or `None` when the host has stopped.
    ///
    /// Up to [`ACCEPT_QUEUE`] streams wait here; what comes beyond is refused.
    pub async fn next(&mut self) -> Option<(PeerId, Stream)> {
        self.queue.recv().await
    }
}

/// The queue of a protocol and the task that fills it.
pub(super) fn accept_into_queue(
    inbound: libp2p_stream::IncomingStreams,
) -> (IncomingStreams, impl Future<Output = ()> + Send + 'static) {
    let (sender, queue) = mpsc::channel(ACCEPT_QUEUE);
    (IncomingStreams { queue }, greet_all(inbound, sender))
}

async fn greet_all(mut inbound: libp2p_stream::IncomingStreams, queue: mpsc::Sender<(PeerId, Stream)>) {
    let mut greetings = FuturesUnordered::new();
    let mut under_way = UnderWay::default();
    loop {
        tokio::select! {
            // Greetings that can end do so before another begins: only those that hang
            // count against their peer.
            biased;
            () = queue.closed() => return,
            Some(peer) = greetings.next(), if !greetings.is_empty() => under_way.ended(peer),
            next = inbound.next() => match next {
                None => return,
                Some((peer, stream)) => if under_way.begin(peer) {
                    let (queue, full) = (queue.clone(), queue.capacity() == 0);
                    greetings.push(async move {
                        greet(peer, stream, queue, full).await;
                        peer
                    });
                },
            },
        }
    }
}

/// Greetings under way, and whose they are.
#[derive(Debug, Default)]
struct UnderWay {
    by_peer: BTreeMap<PeerId, usize>,
    total: usize,
}

impl UnderWay {
    /// Notes one more; false when there are too many.
    fn begin(&mut self, peer: PeerId) -> bool {
        let here = self.by_peer.get(&peer).copied().unwrap_or(0);
        let room = here < MAX_GREETINGS_PER_PEER && self.total < MAX_GREETINGS;
        if room {
            self.by_peer.insert(peer, here + 1);
            self.total += 1;
        }
        room
    }

    /// Counts one stream of this peer less.
    fn ended(&mut self, peer: PeerId) {
        self.total = self.total.saturating_sub(1);
        match self.by_peer.get_mut(&peer) {
            Some(here) if *here > 1 => *here -= 1,
            _ => drop(self.by_peer.remove(&peer)),
        }
    }
}

async fn greet(peer: PeerId, mut stream: Stream, queue: mpsc::Sender<(PeerId, Stream)>, full: bool) {
    let greeted = timeout(GREETING_TIMEOUT, async {
        stream.write_all(&[if full { REFUSED } else { ACCEPTED }]).await?;
        if full { stream.close().await } else { stream.flush().await }
    });
    match greeted.await {
        Ok(Ok(())) if full => {}
        Ok(Ok(())) => {
            // Others may have taken the last places meanwhile; the acceptor will make room.
            if queue.send_timeout((peer, stream), GREETING_TIMEOUT).await.is_err() {
                tracing::debug!(%peer, "a stream was given up: its acceptor takes none");
            }
        }
        _ => tracing::debug!(%peer, "a stream was not greeted: its opener went away"),
    }
}

/// Opens a stream on an existing connection and waits for the greeting. `protocol` begins with a slash.
pub(super) async fn open(
    control: &Control,
    peer: PeerId,
    protocol: &'static str,
) -> Result<Stream, NetError> {
    timeout(OPEN_TIMEOUT, open_until_greeted(control, peer, protocol))
        .await
        .unwrap_or_else(|_| Err(NetError::StreamTimeout { peer, protocol, after: OPEN_TIMEOUT }))
}

async fn open_until_greeted(
    control: &Control,
    peer: PeerId,
    protocol: &'static str,
) -> Result<Stream, NetError> {
    let mut pause = FIRST_PAUSE;
    loop {
        let opened = control.clone().open_stream(peer, StreamProtocol::new(protocol)).await;
        let mut stream = opened.map_err(|error| match error {
            OpenStreamError::UnsupportedProtocol(_) => NetError::StreamUnsupported { peer, protocol },
            error => NetError::StreamFailed { peer, protocol, cause: error.to_string() },
        })?;
        let mut greeting = [0xff];
        match stream.read(&mut greeting).await {
            Ok(1) if greeting == [ACCEPTED] => return Ok(stream),
            Ok(1) if greeting == [REFUSED] => {
                return Err(NetError::StreamRefused { peer, protocol });
            }
            Ok(1) => {
                let cause = format!("the greeting was {}, which means nothing", greeting[0]);
                return Err(NetError::StreamFailed { peer, protocol, cause });
            }
            // Lost between libp2p and the acceptor: no harm done, try again.
            Ok(_) | Err(_) => sleep(pause).await,
        }
        pause *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_peer_blocks_few_greetings_and_nobody_elses() {
        let (blocker, other) = (PeerId::random(), PeerId::random());
        let mut under_way = UnderWay::default();
        let begun = (0..MAX_GREETINGS).filter(|_| under_way.begin(blocker)).count();
        assert_eq!(begun, MAX_GREETINGS_PER_PEER);
        assert!(under_way.begin(other));
        under_way.ended(blocker);
        assert!(under_way.begin(blocker) && !under_way.begin(blocker));
        let peers = (0..MAX_GREETINGS).filter(|_| under_way.begin(PeerId::random())).count();
        assert_eq!(peers, MAX_GREETINGS - MAX_GREETINGS_PER_PEER - 1);
        under_way.ended(other);
        assert!(!under_way.by_peer.contains_key(&other));
    }
}
