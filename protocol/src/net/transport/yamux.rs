//! The multiplexer of TCP connections: many streams on one connection.
//!
//! The protocol is libp2p's own (`/yamux/1.0.0`); two things about how it is driven are not.
//! Frames are longer, so that a block travels in one. And the connection is moved by a task
//! of its own: when libp2p moves it, every few packets of bulk make it look at all protocols
//! of that peer, which costs more than the bytes do. Now it looks when a stream was opened,
//! or the connection has ended.

use futures::{AsyncRead, AsyncWrite};
use libp2p::core::UpgradeInfo;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use libp2p::core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::{Ready, poll_fn, ready};
use std::io;
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::task::AbortHandle;
use yamux::{Config, Connection, ConnectionError, Mode, Stream};

/// The longest frame that is sent: a block and the words around it, with room to spare.
const FRAME_BYTES: usize = 128 << 10;
/// Streams that the peer opened and nobody has taken yet; the next one is reset. yamux itself opens
/// no more than this without an answer, so honest peers never get here.
const MAX_UNTAKEN_STREAMS: usize = 256;

/// The upgrade that negotiates `/yamux/1.0.0` on a connection.
#[derive(Clone)]
pub(in crate::net) struct Yamux(Config);

impl Yamux {
    /// With at most this many streams on one connection.
    pub(in crate::net) fn new(max_streams: usize) -> Self {
        let mut config = Config::default();
        config.set_max_num_streams(max_streams).set_split_send_size(FRAME_BYTES);
        Self(config)
    }

    /// The same where thousands of strangers connect: streams may leave what each begins with unread,
    /// 256 KiB, and all of a connection together `more` bytes. Otherwise windows grow with what a peer
    /// says of its round trips, to a GiB.
    pub(in crate::net) fn hub(max_streams: usize, more: usize) -> Self {
        let Self(mut config) = Self::new(max_streams);
        config.set_max_connection_receive_window(Some(unread(max_streams, more)));
        Self(config)
    }
}

/// Bytes that a peer may leave unread on one connection with a hub.
pub(in crate::net) const fn unread(max_streams: usize, more: usize) -> usize {
    max_streams * yamux::DEFAULT_CREDIT as usize + more
}

impl UpgradeInfo for Yamux {
    type Info = &'static str;
    type InfoIter = iter::Once<Self::Info>;

    fn protocol_info(&self) -> Self::InfoIter {
        iter::once("/yamux/1.0.0")
    }
}

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> InboundConnectionUpgrade<C> for Yamux {
    type Output = YamuxMuxer<C>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Output>>;

    fn upgrade_inbound(self, socket: C, _: Self::Info) -> Self::Future {
        ready(Ok(YamuxMuxer::new(Connection::new(socket, self.0, Mode::Server))))
    }
}

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> OutboundConnectionUpgrade<C> for Yamux {
    type Output = YamuxMuxer<C>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Output>>;

    fn upgrade_outbound(self, socket: C, _: Self::Info) -> Self::Future {
        ready(Ok(YamuxMuxer::new(Connection::new(socket, self.0, Mode::Client))))
    }
}

/// A connection that carries many streams. Its task ends with it.
pub(in crate::net) struct YamuxMuxer<C> {
    line: Arc<Mutex<Line<C>>>,
    task: AbortHandle,
}

/// What libp2p and the task share. If the task panicked, the connection is of no use, which it will
/// say itself.
struct Line<C> {
    connection: Connection<C>,
    untaken: VecDeque<Stream>,
    /// Why the connection ended.
    end: Option<ConnectionError>,
    /// Who waits for a stream or for the end.
    libp2p: Option<Waker>,
    /// Who moves the connection.
    mover: Option<Waker>,
}

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> YamuxMuxer<C> {
    /// Within a tokio runtime.
    fn new(connection: Connection<C>) -> Self {
        let line = Line { connection, untaken: VecDeque::new(), end: None, libp2p: None, mover: None };
        let line = Arc::new(Mutex::new(line));
        let moved = line.clone();
        let task = tokio::spawn(poll_fn(move |cx| moved.lock().poll_move(cx))).abort_handle();
        Self { line, task }
    }
}

impl<C> Drop for YamuxMuxer<C> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> Line<C> {
    /// Sends and receives until the connection ends.
    fn poll_move(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Poll::Ready(next) = self.connection.poll_next_inbound(cx) {
            match next.unwrap_or(Err(ConnectionError::Closed)) {
                Ok(stream) if self.untaken.len() < MAX_UNTAKEN_STREAMS => self.untaken.push_back(stream),
                Ok(stream) => drop(stream),
                Err(end) => self.end = Some(end),
            }
            if let Some(libp2p) = self.libp2p.take() {
                libp2p.wake();
            }
            if self.end.is_some() {
                return Poll::Ready(());
            }
        }
        self.mover = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits for the end; [`ConnectionError::Closed`] when it has been reported already.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        match &mut self.end {
            Some(end) => Poll::Ready(to_io(std::mem::replace(end, ConnectionError::Closed))),
            None => {
                self.libp2p = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> StreamMuxer for YamuxMuxer<C> {
    type Substream = Stream;
    type Error = io::Error;

    fn poll_inbound(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let mut line = self.line.lock();
        match line.untaken.pop_front() {
            Some(stream) => Poll::Ready(Ok(stream)),
            None => line.poll_end(cx).map(Err),
        }
    }

    fn poll_outbound(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let mut line = self.line.lock();
        let opened = line.connection.poll_new_outbound(cx);
        // yamux hears of what is written to a stream only after it has been moved once more.
        if let (Poll::Ready(Ok(_)), Some(mover)) = (&opened, line.mover.take()) {
            mover.wake();
        }
        opened.map_err(to_io)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.task.abort();
        self.line.lock().connection.poll_close(cx).map_err(to_io)
    }

    /// Nothing is moved here, so all there is to say is the end.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<StreamMuxerEvent>> {
        self.line.lock().poll_end(cx).map(Err)
    }
}

fn to_io(error: ConnectionError) -> io::Error {
    match error {
        ConnectionError::Io(error) => error,
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests;
