//! A connection whose streams are paced.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use libp2p::PeerId;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};

use super::Pacing;
use super::stream::PacedStream;
use super::wire_overhead::Framing;

/// Wraps a connection of TCP or QUIC. Connections through a relay are not wrapped: they are streams
/// of one that is.
pub(in crate::net) struct PacedMuxer<M> {
    inner: M,
    peer: PeerId,
    pacing: Pacing,
    framing: Framing,
}

impl<M> PacedMuxer<M> {
    pub(in crate::net) fn tcp(peer: PeerId, inner: M, pacing: Pacing) -> Self {
        Self { inner, peer, pacing, framing: Framing::TCP }
    }

    pub(in crate::net) fn quic(peer: PeerId, inner: M, pacing: Pacing) -> Self {
        Self { inner, peer, pacing, framing: Framing::QUIC }
    }

    fn paced<S>(&self, stream: S) -> PacedStream<S> {
        PacedStream::new(stream, self.peer, self.pacing.clone(), self.framing)
    }
}

impl<M> StreamMuxer for PacedMuxer<M>
where
    M: StreamMuxer + Unpin,
    M::Substream: Unpin,
{
    type Substream = PacedStream<M::Substream>;
    type Error = M::Error;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.inner).poll_inbound(cx))?;
        Poll::Ready(Ok(self.paced(stream)))
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.inner).poll_outbound(cx))?;
        Poll::Ready(Ok(self.paced(stream)))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<StreamMuxerEvent, Self::Error>> {
        Pin::new(&mut self.inner).poll(cx)
    }
}
