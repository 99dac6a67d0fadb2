//! A stream that waits for its turn.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{AsyncRead, AsyncWrite};
use libp2p::PeerId;
use tokio::time::{Sleep, sleep_until};

use super::token_bucket::BURST;
use super::wire_overhead::Framing;
use super::{Pacing, Shared};

/// Whoever waits among strangers knows within this time that it is kept now, or that its turn comes earlier.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The next instant at which those look that wait among strangers: the same for all polls until then, so that
/// these leave the timer alone.
fn next_look(now: Duration) -> Duration {
    let looks = now.as_millis() / LOOK_EVERY.as_millis() + 1;
    LOOK_EVERY.saturating_mul(u32::try_from(looks).unwrap_or(u32::MAX))
}

/// A stream whose bytes are drawn from the two buckets of a host.
///
/// What is written is drawn before, what is read afterwards, for nobody knows how much there is to
/// read. So every stream may be one draw ahead when it reads.
pub(in crate::net) struct PacedStream<S> {
    inner: S,
    peer: PeerId,
    pacing: Pacing,
    framing: Framing,
    write: Turn,
    read: Turn,
}

/// What a stream has drawn.
#[derive(Default)]
struct Turn {
    /// Bytes of the stream that may pass; those are drawn already.
    granted: usize,
    /// When they may pass, after the start of the pacing.
    from: Duration,
    /// The place among strangers, for what is not drawn yet.
    place: Option<f64>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Turn {
    /// Waits for the instant from which the granted bytes may pass.
    fn poll_begin(&mut self, shared: &Shared, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_until(self.from, shared, cx)
    }

    fn poll_until(&mut self, instant: Duration, shared: &Shared, cx: &mut Context<'_>) -> Poll<()> {
        if instant <= shared.now() {
            return Poll::Ready(());
        }
        let instant = shared.start + instant;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(instant)));
        if timer.deadline() != instant {
            timer.as_mut().reset(instant);
        }
        timer.as_mut().poll(cx)
    }
}

impl<S> PacedStream<S> {
    pub(super) fn new(inner: S, peer: PeerId, pacing: Pacing, framing: Framing) -> Self {
        Self { inner, peer, pacing, framing, write: Turn::default(), read: Turn::default() }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PacedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Self { inner, peer, pacing, framing, write: turn, .. } = self.get_mut();
        let (shared, lane) = (&*pacing.shared, &pacing.shared.upload);
        if lane.cap().is_none() {
            let written = ready!(Pin::new(inner).poll_write(cx, buf))?;
            shared.count_sent(framing.sent(written));
            return Poll::Ready(Ok(written));
        }
        // A grant that the connection could not take in time is gone, or many of them could
        // pass at once later.
        if turn.granted == 0 || (turn.place.is_none() && turn.from + BURST < shared.now()) {
            let (now, mut bucket) = (shared.now(), lane.bucket.lock());
            turn.granted = buf.len().min(bucket.largest_draw());
            let wire = framing.sent(turn.granted);
            let mut strangers = lane.strangers.lock();
            if shared.is_stranger(peer) {
                turn.place = Some(strangers.place(now, wire));
            } else {
                strangers.kept_sends(now, wire);
                turn.from = bucket.draw(now, wire);
            }
        }
        while let Some(place) = turn.place {
            let now = shared.now();
            let due = lane.strangers.lock().turn(now, place);
            if due <= now || !shared.is_stranger(peer) {
                turn.from = lane.bucket.lock().draw(now, framing.sent(turn.granted));
                turn.place = None;
            } else {
                ready!(turn.poll_until(due.min(next_look(now)), shared, cx));
            }
        }
        ready!(turn.poll_begin(shared, cx));
        let granted = turn.granted.min(buf.len());
        let written = ready!(Pin::new(inner).poll_write(cx, &buf[..granted]))?;
        turn.granted -= written;
        shared.count_sent(framing.sent(written));
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PacedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let Self { inner, pacing, framing, read: turn, .. } = self.get_mut();
        let (shared, lane) = (&*pacing.shared, &pacing.shared.download);
        if lane.cap().is_none() {
            let read = ready!(Pin::new(inner).poll_read(cx, buf))?;
            shared.count_received(framing.received(read));
            return Poll::Ready(Ok(read));
        }
        ready!(turn.poll_begin(shared, cx));
        let most = buf.len().min(lane.bucket.lock().largest_draw());
        let read = ready!(Pin::new(inner).poll_read(cx, &mut buf[..most]))?;
        let wire = framing.received(read);
        turn.from = lane.bucket.lock().draw(shared.now(), wire);
        shared.count_received(wire);
        Poll::Ready(Ok(read))
    }
}
