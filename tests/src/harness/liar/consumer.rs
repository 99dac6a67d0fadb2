//! Receiving chunks as a consumer does, and believing nothing.

use super::{PATIENCE, say};
use echo_protocol::net::snapshots::frames;
use echo_protocol::net::snapshots::frames::{PullMessage, ServeMessage};
use echo_protocol::net::{Host, PeerId, protocol_names};
use echo_protocol::snapshot::blocks::{BlockMask, block_count, block_range};
use echo_protocol::snapshot::manifest::{Manifest, PieceIndex};
use echo_protocol::wire::content_id::ChunkIndex;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;

/// One that says nothing for this long has nothing more to give.
const SILENCE: Duration = Duration::from_secs(5);

/// Asks `parent` for every chunk of a snapshot and returns those that came whole, unverified: all
/// of them, or fewer when the parent ended the stream, declined, or fell silent.
///
/// # Errors
/// When there is no stream, or the parent talks nonsense.
pub async fn receive(
    host: &Host,
    parent: PeerId,
    manifest: &Manifest,
) -> anyhow::Result<BTreeMap<ChunkIndex, Vec<u8>>> {
    let mut stream = timeout(PATIENCE, host.open_stream(parent, protocol_names::CHUNKS)).await??;
    let hello = PullMessage::Hello { version: manifest.version, manifest: manifest.id() };
    say(&mut stream, &hello, &[]).await?;
    let mut parts: BTreeMap<u32, (BlockMask, Vec<u8>)> = BTreeMap::new();
    for index in 0..manifest.chunks.len() as u32 {
        let length = length(manifest, index);
        let blocks = BlockMask::all(block_count(length));
        let request = PullMessage::Request { piece: PieceIndex(index), blocks, tree: false };
        say(&mut stream, &request, &[]).await?;
        parts.insert(index, (blocks, vec![0; length as usize]));
    }
    while parts.values().any(|(missing, _)| !missing.is_empty()) {
        // A parent that drops the stream resets it: that is an end like any other.
        let Ok(Ok(Some((answer, payload)))) =
            timeout(SILENCE, frames::read::<ServeMessage>(&mut stream)).await
        else {
            break;
        };
        match answer {
            ServeMessage::Have { .. } => {}
            ServeMessage::Block { piece, block, .. } => {
                let Some((missing, bytes)) = parts.get_mut(&piece.0) else { break };
                let range = block_range(length(manifest, piece.0), block);
                let place = bytes.get_mut(range.start as usize..range.end as usize);
                match place.filter(|place| place.len() == payload.len()) {
                    Some(place) => place.copy_from_slice(&payload),
                    None => break,
                }
                missing.remove(block);
            }
            ServeMessage::Refused => break,
        }
    }
    let whole = parts.into_iter().filter(|(_, (missing, _))| missing.is_empty());
    Ok(whole.map(|(index, (_, bytes))| (ChunkIndex(index), bytes)).collect())
}

fn length(manifest: &Manifest, index: u32) -> u64 {
    let range = manifest.chunk_range(ChunkIndex(index));
    range.end - range.start
}
