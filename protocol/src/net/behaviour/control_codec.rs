//! How control messages lie on their stream: one frame for the request, one for the response.

use std::io;

use futures::{AsyncRead, AsyncWrite};
use libp2p::StreamProtocol;
use libp2p::request_response;

use crate::net::streams::frame::{FrameError, read_frame, write_frame};

/// The longest control request, in bytes. Larger things (snapshots, trajectories in bulk) have streams.
pub const MAX_CONTROL_REQUEST: usize = 64 * 1024;

/// The longest control response, in bytes: one with the manifest of a large snapshot.
pub const MAX_CONTROL_RESPONSE: usize = crate::control::requests::MAX_RESPONSE_BYTES;

/// Control messages as raw bytes, each under its cap.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::net) struct ControlCodec;

impl request_response::Codec for ControlCodec {
    type Protocol = StreamProtocol;
    type Request = Vec<u8>;
    type Response = Vec<u8>;

    async fn read_request<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Vec<u8>>
    where
        T: AsyncRead + Unpin + Send,
    {
        read_message(io, MAX_CONTROL_REQUEST).await
    }

    async fn read_response<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Vec<u8>>
    where
        T: AsyncRead + Unpin + Send,
    {
        read_message(io, MAX_CONTROL_RESPONSE).await
    }

    async fn write_request<T>(&mut self, _: &StreamProtocol, io: &mut T, body: Vec<u8>) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        write_frame(io, &body, MAX_CONTROL_REQUEST).await.map_err(into_io)
    }

    async fn write_response<T>(&mut self, _: &StreamProtocol, io: &mut T, body: Vec<u8>) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        write_frame(io, &body, MAX_CONTROL_RESPONSE).await.map_err(into_io)
    }
}

async fn read_message<T>(io: &mut T, cap: usize) -> io::Result<Vec<u8>>
where
    T: AsyncRead + Unpin + Send,
{
    match read_frame(io, cap).await.map_err(into_io)? {
        Some(body) => Ok(body),
        None => {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed the stream without a message"))
        }
    }
}

fn into_io(error: FrameError) -> io::Error {
    match error {
        FrameError::Io(error) => error,
        error @ FrameError::Slow { .. } => io::Error::new(io::ErrorKind::TimedOut, error),
        error @ FrameError::TooLarge { .. } => io::Error::new(io::ErrorKind::InvalidData, error),
        error @ FrameError::Truncated { .. } => io::Error::new(io::ErrorKind::UnexpectedEof, error),
    }
}
