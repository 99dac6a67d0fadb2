//! Long-lived streams: how they are opened, and how they are handed to whoever accepts them.
//!
//! libp2p hands an inbound stream over a channel without room and drops it silently when nobody waits at that very
//! moment. So a task of its own always waits there, and greets the opener with one byte: [`ACCEPTED`] when the stream
//! has a place in the bounded queue of the acceptor, [`REFUSED`] when the queue is full. An opener that gets neither
//! knows that the stream was lost on the way, and opens another.

use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{AsyncReadExt as _, AsyncWriteExt as _, StreamExt as _};
use libp2p::{PeerId, Stream, StreamProtocol};
use libp2p_stream::{Control, OpenStreamError};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::host::NetError;

/// The acceptor's first byte: the stream has its place in the queue.
pub const ACCEPTED: u8 = 1;
/// The acceptor's first byte: the queue is full, come back later.
pub const REFUSED: u8 = 0;

/// Streams of one protocol that may wait for their acceptor.
pub const ACCEPT_QUEUE: usize = 256;
/// Greetings of one protocol that may be under way. A stream that comes beyond is dropped.
const MAX_GREETINGS: usize = 2 * ACCEPT_QUEUE;
/// A peer that does not take the greeting's one byte for this long is let go.
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
    loop {
        tokio::select! {
            () = queue.closed() => return,
            Some(()) = greetings.next(), if !greetings.is_empty() => {}
            next = inbound.next() => match next {
                None => return,
                Some(_) if greetings.len() >= MAX_GREETINGS => {}
                Some((peer, stream)) => {
                    greetings.push(greet(peer, stream, queue.clone().try_reserve_owned().ok()));
                }
            },
        }
    }
}

async fn greet(peer: PeerId, mut stream: Stream, place: Option<mpsc::OwnedPermit<(PeerId, Stream)>>) {
    let greeting = [if place.is_some() { ACCEPTED } else { REFUSED }];
    let sent = timeout(GREETING_TIMEOUT, async {
        stream.write_all(&greeting).await?;
        match place {
            Some(_) => stream.flush().await,
            None => stream.close().await,
        }
    });
    match sent.await {
        Ok(Ok(())) => {
            if let Some(place) = place {
                place.send((peer, stream));
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
