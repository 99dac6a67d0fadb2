//! Serving a child: read back, verify, send.

use super::Reporter;
use super::driver::Report;
use super::wire::{ChunkMessage, MAX_CHUNK_MESSAGE_BYTES, MAX_SUBSCRIPTION_BYTES, Subscription};
use crate::codec;
use crate::content::{ChunkIndex, ContentId};
use crate::net::{Stream, read_frame, write_frame};
use crate::store::{ChunkStore, StoreError};
use crate::version::PolicyVersion;
use futures::{AsyncReadExt, AsyncWriteExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// A child that has not said what it wants by then is let go.
const SUBSCRIBE_WITHIN: Duration = Duration::from_secs(10);
/// A child that takes no byte for this long is let go.
const SEND_WITHIN: Duration = Duration::from_secs(30);

/// What the machine wants sent to this child.
#[derive(Debug)]
pub(super) enum Feed {
    Chunk { version: PolicyVersion, index: ChunkIndex, id: ContentId },
    Decline,
}

/// Serves one child's stream until either side is done with it.
pub(super) async fn serve(
    stream: Stream,
    store: Arc<ChunkStore>,
    feeding: mpsc::Receiver<Feed>,
    reporter: Reporter,
) {
    if let Err(reason) = serve_until_end(stream, store, feeding, &reporter).await {
        tracing::debug!(child = %reporter.peer.short(), reason, "stopped serving a child");
    }
    reporter.report(Report::Left).await;
}

async fn serve_until_end(
    mut stream: Stream,
    store: Arc<ChunkStore>,
    mut feeding: mpsc::Receiver<Feed>,
    reporter: &Reporter,
) -> Result<(), String> {
    let first = tokio::time::timeout(SUBSCRIBE_WITHIN, read_frame(&mut stream, MAX_SUBSCRIPTION_BYTES)).await;
    let frame =
        first.map_err(|_| "it did not subscribe")?.map_err(|e| e.to_string())?.ok_or("it left at once")?;
    let subscription: Subscription =
        codec::decode(&frame, MAX_SUBSCRIPTION_BYTES).map_err(|e| e.to_string())?;
    let Subscription { version, have } = subscription;
    reporter.report(Report::Subscribed { version, have }).await;

    let (mut reading, mut writing) = stream.split();
    let mut byte = [0];
    loop {
        // The child says nothing more, so anything readable is its end.
        let feed = tokio::select! {
            feed = feeding.recv() => feed.ok_or("the driver let it go")?,
            _ = reading.read(&mut byte) => return Ok(()),
        };
        match feed {
            Feed::Chunk { version, index, id } => {
                let held = store.clone();
                let read =
                    tokio::task::spawn_blocking(move || held.read(&id)).await.map_err(|e| e.to_string())?;
                match read {
                    Ok(bytes) => send(&mut writing, &ChunkMessage::Chunk { index, bytes }).await?,
                    Err(error @ (StoreError::Damaged { .. } | StoreError::Missing { .. })) => {
                        reporter.report(Report::Damaged { version, index }).await;
                        // The child comes back with what it has; by then the chunk may be whole again.
                        return Err(error.to_string());
                    }
                    Err(error) => return Err(error.to_string()),
                }
                reporter.report(Report::Sent).await;
            }
            Feed::Decline => {
                send(&mut writing, &ChunkMessage::Declined).await?;
                return writing.close().await.map_err(|e| e.to_string());
            }
        }
    }
}

async fn send(stream: &mut (impl futures::AsyncWrite + Unpin), message: &ChunkMessage) -> Result<(), String> {
    let bytes = codec::encode(message, MAX_CHUNK_MESSAGE_BYTES).map_err(|e| e.to_string())?;
    let sent = tokio::time::timeout(SEND_WITHIN, write_frame(stream, &bytes, MAX_CHUNK_MESSAGE_BYTES)).await;
    sent.map_err(|_| "it takes no bytes")?.map_err(|e| e.to_string())
}
