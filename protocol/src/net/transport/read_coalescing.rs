//! A connection that is read in larger steps while bulk data trickle in.
//!
//! Every time that bytes arrive, a connection's task looks at all of its streams and protocols.
//! Behind a link that is shared by many, bytes come a few packets at a time, and this looking
//! costs more than the bytes. So after a read of bulk that emptied the socket the next one
//! waits a little, as network cards do with their interrupts. All connections of a process wait
//! for the same instants, so that it wakes once for all of them. Small messages on a quiet
//! connection are never delayed.

use futures::{AsyncRead, AsyncWrite};
use std::io;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long arriving bytes are gathered at most. Two blocks take 10 ms at 100 Mbit/s.
const GATHER: Duration = Duration::from_millis(10);
/// Fewer bytes since the last pause are no bulk; and more are worth the looking without a pause.
const BULK: std::ops::Range<usize> = 2 << 10..64 << 10;

/// Wraps a TCP connection.
pub(in crate::net) struct Moderated<S> {
    inner: S,
    /// Bytes read since the socket was last empty.
    read: usize,
    /// Until when nothing is read.
    pause: Option<Pin<Box<Sleep>>>,
    pausing: bool,
}

impl<S> Moderated<S> {
    pub(in crate::net) fn new(inner: S) -> Self {
        Self { inner, read: 0, pause: None, pausing: false }
    }

    /// Begins a pause, until the next instant at which all connections read.
    fn rest(&mut self) {
        let until = next_reading(Instant::now());
        match &mut self.pause {
            Some(pause) => pause.as_mut().reset(until),
            none => *none = Some(Box::pin(sleep_until(until))),
        }
        self.pausing = true;
    }
}

/// The next instant at which connections that rest are read.
fn next_reading(now: Instant) -> Instant {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let since = now.duration_since(*FIRST.get_or_init(|| now)).as_nanos();
    now + GATHER - Duration::from_nanos((since % GATHER.as_nanos()) as u64)
}

impl<S: AsyncRead + Unpin> AsyncRead for Moderated<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let pausing = self.pausing;
        if let Some(pause) = self.pause.as_mut().filter(|_| pausing) {
            ready!(pause.as_mut().poll(cx));
            self.pausing = false;
        }
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        self.read += read;
        // A short read has emptied the socket.
        if read < buf.len() && BULK.contains(&std::mem::take(&mut self.read)) && read > 0 {
            self.rest();
        }
        Poll::Ready(Ok(read))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Moderated<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::AsyncReadExt as _;
    use std::collections::VecDeque;

    /// A socket on which these bytes lie, one piece after the other: each read takes from one piece only.
    struct Socket(VecDeque<Vec<u8>>);

    impl AsyncRead for Socket {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            let Some(mut piece) = self.0.pop_front() else { return Poll::Ready(Ok(0)) };
            let read = piece.len().min(buf.len());
            buf[..read].copy_from_slice(&piece[..read]);
            let rest = piece.split_off(read);
            if !rest.is_empty() {
                self.0.push_front(rest);
            }
            Poll::Ready(Ok(read))
        }
    }

    /// Whether each read of two pieces of this length came after a pause.
    async fn pauses(length: usize, buffer: usize) -> Vec<bool> {
        let mut stream = Moderated::new(Socket([vec![7; length], vec![7; length]].into()));
        let (mut buffer, mut pauses) = (vec![0; buffer], Vec::new());
        loop {
            let begun = Instant::now();
            if stream.read(&mut buffer).await.unwrap() == 0 {
                return pauses;
            }
            assert!(begun.elapsed() <= GATHER + Duration::from_millis(1));
            pauses.push(!begun.elapsed().is_zero());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_read_of_bulk_that_empties_the_socket_is_followed_by_a_pause() {
        assert_eq!(pauses(100, 8 << 10).await, [false, false], "small messages");
        assert_eq!(pauses(4 << 10, 8 << 10).await, [false, true], "bulk");
        let rest = "the rest of a piece is there already";
        assert_eq!(pauses(4 << 10, 3 << 10).await, [false, false, true, false], "{rest}");
        assert_eq!(pauses(100 << 10, 128 << 10).await, [false, false], "enough for one look");
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_rest_are_read_at_the_same_instants() {
        let next = next_reading(Instant::now());
        for before in [1, 3, 10] {
            assert_eq!(next_reading(next - Duration::from_millis(before)), next);
        }
        assert_eq!(next_reading(next), next + GATHER);
    }
}
