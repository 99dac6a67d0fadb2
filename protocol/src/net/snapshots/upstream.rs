//! Pulling from one neighbour: ask, hear what it holds, verify and store what comes, report.

use super::block_writer::{Arrival, BlockWriter, KeepFailure, KeptBlocks};
use super::frames;
use super::frames::{PullMessage, ServeMessage, WireError};
use super::messages::{Reporter, StreamReport};
use super::requests::{Arrived, Requests};
use crate::net::error::NetError;
use crate::net::host::Host;
use crate::net::protocol_names;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::{Manifest, PieceIndex};
use crate::snapshot::piece_set::Holdings;
use crate::store::ChunkStore;
use crate::wire::content_id::ContentId;
use futures::future::OptionFuture;
use futures::io::BufReader;
use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use libp2p::PeerId;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Blocks that have arrived and wait to be verified. With [`BATCH`] being verified and one
/// arriving, a neighbour takes at most 1.1 MiB of memory; what it sends beyond stays in the
/// windows of the transport.
const ARRIVED: usize = 8;
/// Blocks verified and stored in one go.
const BATCH: usize = 8;
/// Requests and cancellations that may wait for one neighbour. The machine's window keeps them far below.
pub(super) const ASKS: usize = 1024;
/// Blocks that nobody asked for, and news without anything new, that a neighbour may send before its
/// stream is given up. A few are innocent: a block that was cancelled and asked for again may come
/// twice.
const MAX_USELESS: u32 = 64;
/// What a frame of news takes beside its entries, in bytes: mostly what the multiplexer and the
/// encryption put around it.
const AROUND_NEWS: usize = 80;
/// So much is read ahead of a block's bytes, which then bypass the buffer.
const READ_BUFFER: usize = 1 << 10;

/// What the driver wants of the neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) enum UpstreamCommand {
    Request { piece: PieceIndex, blocks: BlockMask },
    Cancel { piece: PieceIndex, blocks: BlockMask },
}

/// Why the stream to a neighbour ended.
enum End {
    /// The driver let it go.
    Closed,
    Lost(String),
    /// It does not speak this version of the chunk protocol.
    Foreign(String),
    /// A block could not be kept, or is too large to be one.
    Failed(KeepFailure),
    Refused,
}

/// The pulling end of one neighbour's stream.
pub(super) struct NeighbourStream {
    pub(super) host: Host,
    pub(super) store: Arc<ChunkStore>,
    pub(super) block_writer: BlockWriter,
    pub(super) neighbour: PeerId,
    pub(super) manifest: Arc<Manifest>,
    /// The manifest's id, which `Hello` names.
    pub(super) id: ContentId,
    pub(super) reporter: Reporter,
    pub(super) requests: Mutex<Requests>,
}

impl NeighbourStream {
    /// Opens the stream and pulls until either side ends it.
    pub(super) async fn pull(self, mut wishes: mpsc::Receiver<UpstreamCommand>) {
        let opened = tokio::select! {
            stream = self.open() => stream,
            // The machine asks for nothing before the stream is open, so this can only be the
            // end of the channel.
            None = wishes.recv() => Err(End::Closed),
        };
        let end = match opened {
            Ok(stream) => self.run(stream, wishes).await,
            Err(end) => end,
        };
        let version = self.manifest.version;
        self.reporter
            .report(match end {
                End::Closed => return,
                End::Lost(reason) => StreamReport::Lost { reason },
                End::Foreign(reason) => StreamReport::Foreign { reason },
                End::Failed(KeepFailure::Ours(reason)) => StreamReport::GaveUp { reason },
                End::Failed(KeepFailure::Rotten(reason)) => StreamReport::Rotten { reason },
                End::Refused => StreamReport::Refused { version },
            })
            .await;
    }
}

impl NeighbourStream {
    async fn open(&self) -> Result<crate::net::Stream, End> {
        let opened = self.host.open_stream(self.neighbour, protocol_names::CHUNKS).await;
        let mut stream = opened.map_err(|error| match error {
            NetError::StreamUnsupported { .. } => End::Foreign(error.to_string()),
            _ => End::Lost(error.to_string()),
        })?;
        let lost = |error: std::io::Error| End::Lost(error.to_string());
        let mut hello = Vec::new();
        let first = PullMessage::Hello { version: self.manifest.version, manifest: self.id };
        frames::put_head(&mut hello, &first, 0).map_err(|error| End::Lost(error.to_string()))?;
        stream.write_all(&hello).await.map_err(lost)?;
        stream.flush().await.map_err(lost)?;
        self.reporter.report(StreamReport::Opened).await;
        Ok(stream)
    }

    async fn run(&self, stream: crate::net::Stream, mut wishes: mpsc::Receiver<UpstreamCommand>) -> End {
        let (reading, mut writing) = stream.split();
        let mut reading = BufReader::with_capacity(READ_BUFFER, reading);
        let (arrivals, arrived) = mpsc::channel(ARRIVED);
        let talk = async {
            tokio::select! {
                end = self.ask(&mut writing, &mut wishes) => end,
                end = self.listen(&mut reading, arrivals) => end,
            }
        };
        // What has arrived is kept although the stream has ended; what is wrong with it says more
        // than how the stream ended.
        let (end, kept) = tokio::join!(talk, self.keep(arrived));
        kept.err().map_or(end, End::Failed)
    }

    /// Writes requests when their turn has come, and cancellations at once.
    async fn ask(
        &self,
        writing: &mut (impl AsyncWrite + Unpin),
        wishes: &mut mpsc::Receiver<UpstreamCommand>,
    ) -> End {
        let pacing = self.host.pacing();
        let (mut wished, mut frames) = (Vec::new(), Vec::new());
        // A place among all who ask. It holds up those behind it, so it is given up when there is
        // nothing to ask for, and while writing.
        let mut place = None;
        loop {
            if self.requests.lock().any_waiting() {
                place.get_or_insert_with(|| Box::pin(pacing.turn_to_ask()));
            } else {
                place = None;
            }
            let asks: Vec<PullMessage> = tokio::select! {
                taken = wishes.recv_many(&mut wished, ASKS) => match taken {
                    0 => return End::Closed,
                    _ => wished.drain(..).filter_map(|wish| self.hear(wish)).collect(),
                },
                Some(mut allowance) = OptionFuture::from(place.as_mut()) => {
                    place = None;
                    self.requests.lock().ask(&mut allowance, |piece| self.store.needs_tree(piece))
                }
            };
            if asks.is_empty() {
                continue;
            }
            place = None;
            frames.clear();
            if let Err(error) = asks.iter().try_for_each(|ask| frames::put_head(&mut frames, ask, 0)) {
                return End::Lost(error.to_string());
            }
            let written = async {
                writing.write_all(&frames).await?;
                writing.flush().await
            };
            match tokio::time::timeout(frames::FRAME_WITHIN, written).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return End::Lost(error.to_string()),
                Err(_) => return End::Lost("it takes no bytes".into()),
            }
        }
    }

    /// Lets a request wait for its turn. Gives back a cancellation that the neighbour is to hear of.
    fn hear(&self, wish: UpstreamCommand) -> Option<PullMessage> {
        match wish {
            UpstreamCommand::Request { piece: index, blocks } => {
                if let Some(piece) = self.manifest.piece(index) {
                    self.requests.lock().add(index, piece, blocks);
                }
                None
            }
            UpstreamCommand::Cancel { piece: index, blocks } => {
                let piece = self.manifest.piece(index)?;
                self.requests.lock().cancel(index, &piece, blocks)
            }
        }
    }

    /// Reads frames; the blocks among them go to `arrivals`, and reading stops while there is no room.
    async fn listen(&self, reading: &mut (impl AsyncRead + Unpin), arrivals: mpsc::Sender<Arrival>) -> End {
        let (mut useless, mut held) = (0, Holdings::default());
        loop {
            if useless > MAX_USELESS {
                return End::Lost("it sends what nobody asked it for".into());
            }
            let (answer, payload) = match frames::read::<ServeMessage>(reading).await {
                Ok(Some(frame)) => frame,
                Ok(None) => return End::Lost("it closed the stream".into()),
                Err(error @ WireError::TooLarge { .. }) => {
                    return End::Failed(KeepFailure::Rotten(error.to_string()));
                }
                Err(error) => return End::Lost(error.to_string()),
            };
            let (index, block, leaves) = match answer {
                ServeMessage::Refused => return End::Refused,
                ServeMessage::Have { .. } if !payload.is_empty() => {
                    return End::Lost("it sends bytes with its news".into());
                }
                ServeMessage::Have { news } if news.len() > frames::MAX_NEWS => {
                    return End::Lost(format!("it tells of {} pieces in one frame", news.len()));
                }
                ServeMessage::Have { news } => {
                    self.host.pacing().came_unasked(AROUND_NEWS + news.len() * frames::NEWS_ENTRY_BYTES);
                    let new = news.iter().filter(|(piece, blocks)| !held.insert(*piece, *blocks).is_empty());
                    useless += u32::from(new.count() == 0);
                    self.reporter.report(StreamReport::Has { version: self.manifest.version, news }).await;
                    continue;
                }
                ServeMessage::Block { piece, block, leaves } => (piece, block, leaves as usize),
            };
            self.reporter.traffic.received(payload.len());
            let asked_for = self.manifest.piece(index).map(|piece| {
                let arrived = self.requests.lock().arrived(index, &piece, block, leaves > 0);
                (piece, arrived)
            });
            // The number of leaves is only what the neighbour says.
            let tree_bytes = leaves.saturating_mul(frames::LEAF_BYTES).min(payload.len());
            let unasked =
                if matches!(asked_for, Some((_, Arrived::Asked))) { tree_bytes } else { payload.len() };
            self.host.pacing().came_unasked(unasked);
            match asked_for {
                Some((piece, Arrived::Asked | Arrived::Cancelled)) => {
                    if arrivals.send(Arrival { index, piece, block, leaves, payload }).await.is_err() {
                        return End::Closed;
                    }
                }
                _ => useless += 1,
            }
        }
    }

    /// Verifies and stores what has arrived, and reports it.
    async fn keep(&self, mut arrived: mpsc::Receiver<Arrival>) -> Result<(), KeepFailure> {
        let mut batch = Vec::new();
        while arrived.recv_many(&mut batch, BATCH).await > 0 {
            let KeptBlocks { stored, failure } = self.block_writer.keep(std::mem::take(&mut batch)).await;
            if !stored.is_empty() {
                self.reporter.report(StreamReport::Stored { version: self.manifest.version, stored }).await;
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        Ok(())
    }
}
