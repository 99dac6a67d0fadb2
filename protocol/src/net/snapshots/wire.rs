//! Messages on `/echo/chunks/1`. Each is one frame: a length of four bytes, big-endian, then CBOR.

use crate::chunk_set::ChunkSet;
use crate::content::ChunkIndex;
use crate::version::PolicyVersion;
use serde::{Deserialize, Serialize};

/// Longest subscription, in bytes: one bit for every chunk of the largest snapshot.
pub const MAX_SUBSCRIPTION_BYTES: usize = 4 << 10;
/// Longest chunk message, in bytes: the largest chunk and its header.
pub const MAX_CHUNK_MESSAGE_BYTES: usize = (4 << 20) + 64;

/// The child's first and only frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// The version wanted.
    pub version: PolicyVersion,
    /// Chunks that need not be sent.
    pub have: ChunkSet,
}

/// The parent's frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChunkMessage {
    /// A chunk of the version subscribed to.
    Chunk {
        /// Its position.
        index: ChunkIndex,
        /// Its bytes.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// The version is not available here, or every place is taken. The stream ends.
    Declined,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;

    #[test]
    fn the_largest_messages_fit_their_limits() {
        let subscription = Subscription {
            version: PolicyVersion(u64::MAX),
            have: ChunkSet::all(crate::manifest::MAX_CHUNKS as u32),
        };
        codec::encode(&subscription, MAX_SUBSCRIPTION_BYTES).unwrap();
        let chunk = ChunkMessage::Chunk { index: ChunkIndex(u32::MAX), bytes: vec![0; 4 << 20] };
        codec::encode(&chunk, MAX_CHUNK_MESSAGE_BYTES).unwrap();
    }
}
