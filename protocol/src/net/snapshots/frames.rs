//! Frames on `/echo/chunks/3`.
//!
//! A frame is a length of four bytes, big-endian, of everything after it; a length of two bytes,
//! big-endian, of the header; the header in CBOR; and the payload, which only
//! [`ServeMessage::Block`] has. So the bytes of a block never pass through a CBOR codec, and a
//! reader knows before it allocates that a frame is not too long.
//!
//! The names on the wire say group for a block.
//!
//! The one who pulls opens the stream and sends [`PullMessage`]s, the first of which is
//! [`PullMessage::Hello`]; the one who serves sends [`ServeMessage`]s. Both directions
//! end with the stream.

use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::{BLOCK_BYTES, BlockMask, MAX_BLOCKS};
use crate::snapshot::manifest::PieceIndex;
use crate::store::buffer_pool::PooledBuffer;
use crate::wire::codec;
use crate::wire::codec::CodecError;
use crate::wire::content_id::ContentId;
use bytes::Bytes;
use futures::{AsyncRead, AsyncReadExt as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;

/// Longest entry of [`ServeMessage::Have`], in bytes.
pub(super) const NEWS_ENTRY_BYTES: usize = 15;
/// Longest header, in bytes: [`MAX_NEWS`] entries of at most 15 bytes and the words around them.
pub const MAX_HEADER_BYTES: usize = 10 << 10;
/// Most entries of one [`ServeMessage::Have`]; what is held beyond is told in further frames.
pub const MAX_NEWS: usize = 512;
/// Bytes of one leaf of a block tree.
pub const LEAF_BYTES: usize = 32;
/// Longest payload, in bytes: the leaves of a piece, and one block.
pub const MAX_PAYLOAD_BYTES: usize = MAX_BLOCKS * LEAF_BYTES + BLOCK_BYTES;
/// Longest frame after its first four bytes.
pub const MAX_FRAME_BYTES: usize = HEADER_LENGTH + MAX_HEADER_BYTES + MAX_PAYLOAD_BYTES;
/// A frame whose first byte is here is here within this time, or its sender has failed. The longest
/// frame needs 20 kbit/s.
pub const FRAME_WITHIN: Duration = Duration::from_secs(30);

/// Bytes of the header's length.
const HEADER_LENGTH: usize = 2;

/// What the one who pulls says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PullMessage {
    /// The first frame, and only the first: the version that this stream is about.
    Hello {
        /// The version that the stream is about, to its end.
        version: PolicyVersion,
        /// The name of its manifest ([`Manifest::id`](crate::snapshot::manifest::Manifest::id)):
        /// who goes by another one refuses.
        manifest: ContentId,
    },
    /// Send these blocks. Each block asked for is the right to send it once.
    Request {
        /// The piece that the blocks belong to.
        piece: PieceIndex,
        /// The blocks that are requested, at least one.
        #[serde(rename = "groups")]
        blocks: BlockMask,
        /// Whether the piece's tree is needed too. It comes with the first block of the piece sent
        /// on this stream after that.
        tree: bool,
    },
    /// These blocks are no longer wanted; they may be on their way already.
    Cancel {
        /// The piece that the blocks belong to.
        piece: PieceIndex,
        /// The blocks that need not be sent.
        #[serde(rename = "groups")]
        blocks: BlockMask,
    },
}

/// What the one who serves says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServeMessage {
    /// Blocks that are verified and stored here and were not told before; at most [`MAX_NEWS`] pieces.
    Have {
        /// Pieces, and which of their blocks.
        news: Vec<(PieceIndex, BlockMask)>,
    },
    /// One block. The payload is the leaves of the tree, if any are sent, and then the block's bytes.
    #[serde(rename = "Group")]
    Block {
        /// The piece that the block belongs to.
        piece: PieceIndex,
        /// The block's number within its piece, from 0.
        #[serde(rename = "group")]
        block: u32,
        /// Leaves in front of the block's bytes, each of [`LEAF_BYTES`]; 0 when the tree is not sent.
        leaves: u32,
    },
    /// The version is not kept here any more, or has another manifest here; or every
    /// place is taken, or is given to another; or what was asked for is not here, or too
    /// much. The stream ends.
    Refused,
}

/// Why a frame could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A frame longer than any that this protocol has. Nothing was allocated.
    #[error("a frame of {len} bytes, where {MAX_FRAME_BYTES} are the most")]
    TooLarge {
        /// The length that the frame says.
        len: u32,
    },
    /// The header is not one of this protocol.
    #[error("a frame that makes no sense: {0}")]
    Malformed(String),
    /// The frame began and did not end.
    #[error("a frame did not arrive within {} s", FRAME_WITHIN.as_secs())]
    Slow,
    /// The stream ended within a frame, or failed.
    #[error("the stream failed: {0}")]
    Io(#[from] io::Error),
}

impl From<CodecError> for WireError {
    fn from(error: CodecError) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// Everything of a frame in front of its payload of `payload` bytes, appended to `out`.
///
/// # Errors
/// [`CodecError`] for a header longer than [`MAX_HEADER_BYTES`].
pub fn put_head<H: Serialize>(out: &mut Vec<u8>, header: &H, payload: usize) -> Result<(), CodecError> {
    let header = codec::encode(header, MAX_HEADER_BYTES)?;
    let len = HEADER_LENGTH + header.len() + payload;
    out.extend_from_slice(&(len as u32).to_be_bytes());
    out.extend_from_slice(&(header.len() as u16).to_be_bytes());
    out.extend_from_slice(&header);
    Ok(())
}

/// Reads one frame, and gives its header and its payload; `None` when the stream ended between two
/// frames. Waits for ever for the first byte, and [`FRAME_WITHIN`] for the others.
///
/// # Errors
/// [`WireError`]; the stream is of no use after any of them.
pub async fn read<H: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<(H, Bytes)>, WireError> {
    let mut prefix = [0; 4];
    if stream.read(&mut prefix[..1]).await? == 0 {
        return Ok(None);
    }
    let body = async {
        stream.read_exact(&mut prefix[1..]).await?;
        let len = u32::from_be_bytes(prefix);
        if len as usize > MAX_FRAME_BYTES {
            return Err(WireError::TooLarge { len });
        }
        // At once and not step by step: the longest frame is hardly longer than a step of `net::frame`.
        let mut frame = PooledBuffer::of(len as usize);
        stream.read_exact(frame.as_mut()).await?;
        Ok(frame.share())
    };
    let frame = tokio::time::timeout(FRAME_WITHIN, body).await.map_err(|_| WireError::Slow)??;
    split(frame).map(Some)
}

/// Takes a frame after its first four bytes apart.
fn split<H: DeserializeOwned>(frame: Bytes) -> Result<(H, Bytes), WireError> {
    let short = || WireError::Malformed(format!("{} bytes", frame.len()));
    let (length, rest) = frame.split_first_chunk::<HEADER_LENGTH>().ok_or_else(short)?;
    let length = usize::from(u16::from_be_bytes(*length));
    let header = codec::decode(rest.get(..length).ok_or_else(short)?, MAX_HEADER_BYTES)?;
    Ok((header, frame.slice(HEADER_LENGTH + length..)))
}

#[cfg(test)]
mod tests;
