//! A parent that serves rotten chunks.

use super::{Liar, PATIENCE};
use anyhow::Context as _;
use echo_protocol::codec;
use echo_protocol::content::ChunkIndex;
use echo_protocol::identity::PublicKey;
use echo_protocol::net::peer::key_of_peer;
use echo_protocol::net::snapshots::wire::{
    ChunkMessage, MAX_CHUNK_MESSAGE_BYTES, MAX_SUBSCRIPTION_BYTES, Subscription,
};
use echo_protocol::net::{IncomingStreams, names, read_frame, write_frame};
use std::collections::BTreeMap;
use tokio::time::timeout;

/// The chunk in which one bit is wrong; those before it are served as they are.
pub const ROTTEN: ChunkIndex = ChunkIndex(1);

/// Waits for children, to feed them chunks of which one is rotten.
pub struct RottenParent {
    incoming: IncomingStreams,
    chunks: BTreeMap<ChunkIndex, Vec<u8>>,
}

impl Liar {
    /// Takes children from now on. `chunks` are the true ones.
    ///
    /// # Errors
    /// When children are taken already.
    pub fn poison(&self, chunks: BTreeMap<ChunkIndex, Vec<u8>>) -> anyhow::Result<RottenParent> {
        Ok(RottenParent { incoming: self.host.accept(names::CHUNKS)?, chunks })
    }
}

impl RottenParent {
    /// Serves the next child until it hangs up, and returns who it was.
    ///
    /// # Errors
    /// When no child comes within [`PATIENCE`], or it does not hang up within that time.
    pub async fn serve(&mut self) -> anyhow::Result<PublicKey> {
        let next = timeout(PATIENCE, self.incoming.next()).await.context("no child came")?;
        let (child, mut stream) = next.context("the host has stopped")?;
        let frame = timeout(PATIENCE, read_frame(&mut stream, MAX_SUBSCRIPTION_BYTES)).await??;
        let frame = frame.context("the child left without a word")?;
        let _: Subscription = codec::decode(&frame, MAX_SUBSCRIPTION_BYTES)?;
        for (&index, bytes) in &self.chunks {
            let mut bytes = bytes.clone();
            if index == ROTTEN
                && let Some(byte) = bytes.last_mut()
            {
                *byte ^= 1;
            }
            let message = codec::encode(&ChunkMessage::Chunk { index, bytes }, MAX_CHUNK_MESSAGE_BYTES)?;
            if write_frame(&mut stream, &message, MAX_CHUNK_MESSAGE_BYTES).await.is_err() {
                break;
            }
        }
        // The stream stays open: it is the child that has to end this.
        let end = timeout(PATIENCE, read_frame(&mut stream, MAX_SUBSCRIPTION_BYTES)).await;
        let _ = end.context("the child goes on listening to a liar")?;
        key_of_peer(&child).context("the child has no key")
    }
}
