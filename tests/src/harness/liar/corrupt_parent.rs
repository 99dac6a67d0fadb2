//! A neighbour that serves rotten chunks.

use super::{Liar, PATIENCE};
use anyhow::Context as _;
use echo_protocol::net::peer_id::key_of_peer;
use echo_protocol::net::snapshots::frames;
use echo_protocol::net::snapshots::frames::{MAX_NEWS, PullMessage, ServeMessage};
use echo_protocol::net::{IncomingStreams, Stream, protocol_names};
use echo_protocol::snapshot::blocks::{BLOCK_BYTES, BlockMask, BlockTree, block_count, block_range};
use echo_protocol::snapshot::manifest::PieceIndex;
use echo_protocol::wire::content_id::ChunkIndex;
use echo_protocol::wire::identity::PublicKey;
use futures::{AsyncWrite, AsyncWriteExt as _};
use serde::Serialize;
use std::collections::BTreeMap;
use tokio::time::timeout;

/// The chunk in which one bit is wrong; the others are served as they are.
pub const ROTTEN: ChunkIndex = ChunkIndex(1);

/// Waits for consumers, to feed them chunks of which one is rotten.
pub struct RottenParent {
    incoming: IncomingStreams,
    chunks: BTreeMap<ChunkIndex, Vec<u8>>,
}

impl Liar {
    /// Takes consumers from now on. `chunks` are the true ones.
    ///
    /// # Errors
    /// When consumers are taken already.
    pub fn poison(&self, chunks: BTreeMap<ChunkIndex, Vec<u8>>) -> anyhow::Result<RottenParent> {
        Ok(RottenParent { incoming: self.host.accept(protocol_names::CHUNKS)?, chunks })
    }
}

impl RottenParent {
    /// Serves the next consumer until it hangs up, and returns who it was.
    ///
    /// # Errors
    /// When no consumer comes within [`PATIENCE`], or it does not hang up within that time.
    pub async fn serve(&mut self) -> anyhow::Result<PublicKey> {
        let next = timeout(PATIENCE, self.incoming.next()).await.context("no consumer came")?;
        let (consumer, mut stream) = next.context("the host has stopped")?;
        let all = |bytes: &Vec<u8>| BlockMask::all(block_count(bytes.len() as u64));
        let news: Vec<_> = self.chunks.iter().map(|(i, bytes)| (PieceIndex(i.0), all(bytes))).collect();
        for news in news.chunks(MAX_NEWS) {
            say(&mut stream, &ServeMessage::Have { news: news.to_vec() }, &[]).await?;
        }
        let fed = async {
            // Hanging up resets the stream: that is an end like any other.
            while let Ok(Some((ask, _))) = frames::read::<PullMessage>(&mut stream).await {
                if let PullMessage::Request { piece, blocks, tree } = ask
                    && self.feed(&mut stream, piece, blocks, tree).await.is_err()
                {
                    return;
                }
            }
        };
        // It is the consumer that has to end this.
        timeout(PATIENCE, fed).await.context("the consumer goes on listening to a liar")?;
        key_of_peer(&consumer).context("the consumer has no key")
    }

    async fn feed(
        &self,
        stream: &mut Stream,
        piece: PieceIndex,
        blocks: BlockMask,
        mut tree: bool,
    ) -> anyhow::Result<()> {
        let Some(bytes) = self.chunks.get(&ChunkIndex(piece.0)) else { return Ok(()) };
        let (_, leaves) = BlockTree::of(bytes);
        for block in blocks.iter() {
            let range = block_range(bytes.len() as u64, block);
            let mut part = bytes[range.start as usize..range.end as usize].to_vec();
            if piece.0 == ROTTEN.0
                && let Some(byte) = part.last_mut()
            {
                *byte ^= 1;
            }
            let first = std::mem::take(&mut tree) && bytes.len() > BLOCK_BYTES;
            let leaves = if first { leaves.leaves() } else { &[] };
            let answer = ServeMessage::Block { piece, block, leaves: leaves.len() as u32 };
            say(stream, &answer, &[leaves.as_flattened(), &part].concat()).await?;
        }
        Ok(())
    }
}

/// Sends a frame of the protocol for chunks.
pub(crate) async fn say(
    to: &mut (impl AsyncWrite + Unpin),
    header: &impl Serialize,
    payload: &[u8],
) -> anyhow::Result<()> {
    let mut frame = Vec::new();
    frames::put_head(&mut frame, header, payload.len())?;
    frame.extend_from_slice(payload);
    to.write_all(&frame).await?;
    Ok(to.flush().await?)
}
