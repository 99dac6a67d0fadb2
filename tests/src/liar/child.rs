//! Receiving chunks as a child does, and believing nothing.

use super::PATIENCE;
use echo_protocol::chunk_set::ChunkSet;
use echo_protocol::codec;
use echo_protocol::content::ChunkIndex;
use echo_protocol::manifest::Manifest;
use echo_protocol::net::snapshots::wire::{
    ChunkMessage, MAX_CHUNK_MESSAGE_BYTES, MAX_SUBSCRIPTION_BYTES, Subscription,
};
use echo_protocol::net::{Host, PeerId, names, read_frame, write_frame};
use std::collections::BTreeMap;
use tokio::time::timeout;

/// Subscribes to a snapshot at `parent` and returns the chunks that came, unverified: all of them, or fewer when the parent ended the
/// stream or declined.
///
/// # Errors
/// When there is no stream, or the parent is silent for [`PATIENCE`] or talks nonsense.
pub async fn receive(
    host: &Host,
    parent: PeerId,
    manifest: &Manifest,
) -> anyhow::Result<BTreeMap<ChunkIndex, Vec<u8>>> {
    let mut stream = host.open_stream(parent, names::CHUNKS).await?;
    let subscription = Subscription { version: manifest.version, have: ChunkSet::default() };
    let bytes = codec::encode(&subscription, MAX_SUBSCRIPTION_BYTES)?;
    write_frame(&mut stream, &bytes, MAX_SUBSCRIPTION_BYTES).await?;
    let mut chunks = BTreeMap::new();
    while chunks.len() < manifest.chunks.len() {
        let read = timeout(PATIENCE, read_frame(&mut stream, MAX_CHUNK_MESSAGE_BYTES)).await?;
        // A parent that drops the stream resets it: that is an end like any other.
        let Ok(Some(frame)) = read else { break };
        match codec::decode(&frame, MAX_CHUNK_MESSAGE_BYTES)? {
            ChunkMessage::Chunk { index, bytes } => drop(chunks.insert(index, bytes)),
            ChunkMessage::Declined => break,
        }
    }
    Ok(chunks)
}
