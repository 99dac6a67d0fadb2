//! A connection that is read in larger steps while bulk data trickle in.
//!
//! Every time that bytes arrive, a connection's task looks at all of its streams and protocols. Behind a link that is shared by many, bytes
//! come a few packets at a time, and this looking costs more than the bytes. So after a read of bulk that emptied the socket the next one
//! waits a little, as network cards do with their interrupts. Small messages on a quiet connection are never delayed.

use futures::{AsyncRead, AsyncWrite};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long arriving bytes are gathered. A group takes 5 ms at 100 Mbit/s.
const GATHER: Duration = Duration::from_millis(5);
/// Fewer bytes since the last pause are no bulk; and more are worth the looking without a pause.
const BULK: std::ops::Range<usize> = 2 << 10..64 << 10;

/// Wraps a TCP connection.
pub(super) struct Moderated<S> {
    inner: S,
    /// Bytes read since the socket was last empty.
    read: usize,
    /// Until when nothing is read.
    pause: Option<Pin<Box<Sleep>>>,
    pausing: bool,
}

impl<S> Moderated<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, read: 0, pause: None, pausing: false }
    }

    /// Begins a pause.
    fn rest(&mut self) {
        let until = Instant::now() + GATHER;
        match &mut self.pause {
            Some(pause) => pause.as_mut().reset(until),
            none => *none = Some(Box::pin(sleep_until(until))),
        }
        self.pausing = true;
    }
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

    /// The milliseconds before each read of two pieces of this length.
    async fn waits(length: usize, buffer: usize) -> Vec<u64> {
        let mut stream = Moderated::new(Socket([vec![7; length], vec![7; length]].into()));
        let (mut buffer, mut waits) = (vec![0; buffer], Vec::new());
        loop {
            let begun = Instant::now();
            if stream.read(&mut buffer).await.unwrap() == 0 {
                return waits;
            }
            waits.push(begun.elapsed().as_millis() as u64);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_read_of_bulk_that_empties_the_socket_is_followed_by_a_pause() {
        assert_eq!(waits(100, 8 << 10).await, [0, 0], "small messages");
        assert_eq!(waits(4 << 10, 8 << 10).await, [0, 5], "bulk");
        assert_eq!(waits(4 << 10, 3 << 10).await, [0, 0, 5, 0], "the rest of a piece is there already");
        assert_eq!(waits(100 << 10, 128 << 10).await, [0, 0], "enough for one look");
    }
}
