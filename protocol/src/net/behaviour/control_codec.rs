//! How control messages lie on their stream: one frame for the request, one for the response.
//!
//! Under the name of the version before, requests have other fields. Nothing of them is handed on, and
//! the answer is a refusal that names both versions: it has the same form in both, so the node shows it
//! to its owner.

use std::io;

use futures::{AsyncRead, AsyncWrite};
use libp2p::StreamProtocol;
use libp2p::request_response;

use crate::control::requests::ControlResponse;
use crate::net::protocol_names;
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

    async fn read_request<T>(&mut self, protocol: &StreamProtocol, io: &mut T) -> io::Result<Vec<u8>>
    where
        T: AsyncRead + Unpin + Send,
    {
        let body = read_message(io, MAX_CONTROL_REQUEST).await?;
        // No request is empty: whoever reads this one acts on nothing.
        Ok(if is_older(protocol) { Vec::new() } else { body })
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

    async fn write_response<T>(
        &mut self,
        protocol: &StreamProtocol,
        io: &mut T,
        body: Vec<u8>,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        let body = if is_older(protocol) { refusal()? } else { body };
        write_frame(io, &body, MAX_CONTROL_RESPONSE).await.map_err(into_io)
    }
}

fn is_older(protocol: &StreamProtocol) -> bool {
    protocol.as_ref() == protocol_names::CONTROL_4
}

/// What a node of the version before is told.
fn refusal() -> io::Result<Vec<u8>> {
    let (here, there) = (protocol_names::CONTROL, protocol_names::CONTROL_4);
    let text = format!("{here} is spoken here, and this node speaks {there}: install a newer echo-node");
    ControlResponse::Refused(text).to_bytes().map_err(io::Error::other)
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
