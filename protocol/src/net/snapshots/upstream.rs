//! Receiving from the parent: verify, store, report.

use super::Reporter;
use super::driver::Report;
use super::wire::{ChunkMessage, MAX_CHUNK_MESSAGE_BYTES, MAX_SUBSCRIPTION_BYTES, Subscription};
use crate::chunk_set::ChunkSet;
use crate::codec;
use crate::content::ChunkIndex;
use crate::manifest::Manifest;
use crate::net::host::Host;
use crate::net::{names, read_frame, write_frame};
use crate::store::{ChunkStore, StoreError};
use libp2p::PeerId;
use std::sync::Arc;

/// Subscribes to `manifest`'s version at `parent` and receives until the snapshot is complete or the stream ends.
pub(super) async fn receive(
    host: Host,
    store: Arc<ChunkStore>,
    parent: PeerId,
    manifest: Arc<Manifest>,
    mut have: ChunkSet,
    reporter: Reporter,
) {
    let mut stream = match open(&host, parent, &manifest, &have).await {
        Ok(stream) => stream,
        Err(reason) => return reporter.report(Report::Lost { reason }).await,
    };
    while have.len() < manifest.chunks.len() as u32 {
        let frame = match read_frame(&mut stream, MAX_CHUNK_MESSAGE_BYTES).await {
            Ok(Some(frame)) => frame,
            Ok(None) => return reporter.report(Report::Lost { reason: "it closed the stream".into() }).await,
            Err(crate::net::FrameError::TooLarge { len, .. }) => {
                return reporter.report(Report::Rotten { reason: format!("a frame of {len} bytes") }).await;
            }
            Err(error) => return reporter.report(Report::Lost { reason: error.to_string() }).await,
        };
        match codec::decode(&frame, MAX_CHUNK_MESSAGE_BYTES) {
            Ok(ChunkMessage::Chunk { index, bytes }) => {
                if let Err(report) = keep(&store, &manifest, index, bytes).await {
                    return reporter.report(report).await;
                }
                have.insert(index);
                reporter.report(Report::Stored { version: manifest.version, index }).await;
            }
            Ok(ChunkMessage::Declined) => {
                return reporter.report(Report::Declined { version: manifest.version }).await;
            }
            Err(error) => return reporter.report(Report::Rotten { reason: error.to_string() }).await,
        }
    }
}

async fn open(
    host: &Host,
    parent: PeerId,
    manifest: &Manifest,
    have: &ChunkSet,
) -> Result<crate::net::Stream, String> {
    host.dial(parent, Vec::new()).await.map_err(|e| e.to_string())?;
    let mut stream = host.open_stream(parent, names::CHUNKS).await.map_err(|e| e.to_string())?;
    let subscription = Subscription { version: manifest.version, have: have.clone() };
    let bytes = codec::encode(&subscription, MAX_SUBSCRIPTION_BYTES).map_err(|e| e.to_string())?;
    write_frame(&mut stream, &bytes, MAX_SUBSCRIPTION_BYTES).await.map_err(|e| e.to_string())?;
    Ok(stream)
}

/// Verifies and stores a chunk; nothing that fails here is reported as stored.
async fn keep(
    store: &Arc<ChunkStore>,
    manifest: &Arc<Manifest>,
    index: ChunkIndex,
    bytes: Vec<u8>,
) -> Result<(), Report> {
    let rotten = |reason: String| Err(Report::Rotten { reason });
    let range = manifest.chunk_range(index);
    let Some(id) = manifest.chunk_id(index) else {
        return rotten(format!("chunk {} does not exist", index.0));
    };
    if bytes.len() as u64 != range.end - range.start {
        return rotten(format!("chunk {} has {} bytes", index.0, bytes.len()));
    }
    let store = store.clone();
    match tokio::task::spawn_blocking(move || store.write(&id, &bytes)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(StoreError::Mismatch { .. })) => rotten(format!("chunk {} does not match its name", index.0)),
        // Our disk, not the parent's fault: give up this stream, and try again later.
        Ok(Err(error)) => Err(Report::Lost { reason: error.to_string() }),
        Err(error) => Err(Report::Lost { reason: error.to_string() }),
    }
}
