//! Serving a consumer: hear what it asks for, tell it what is here, send blocks.

use super::frames;
use super::frames::{MAX_NEWS, PullMessage, ServeMessage};
use super::mailbox::{BlockToSend, Mail, Mailbox};
use super::messages::{Reporter, StreamReport};
use crate::dissemination::MAX_SERVED;
use crate::net::Stream;
use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::{BLOCK_BYTES, BlockTree};
use crate::snapshot::manifest::PieceIndex;
use crate::snapshot::piece_set::PieceSet;
use crate::store::{ChunkStore, ChunkStoreError};
use bytes::Bytes;
use futures::future::{Either, ready};
use futures::io::BufReader;
use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, spawn_blocking};

/// A consumer that has not said what it wants by then is let go.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// A consumer that takes no frame for this long is let go.
const SEND_WITHIN: Duration = Duration::from_secs(30);
/// Blocks read from disk in one go, so that as many are read as are written. Both together are what
/// the machine hands out.
const BATCH: usize = MAX_SERVED.div_ceil(2);
/// Where the payload begins in the buffer from which a frame is written, which is after the head
/// of every block. A block that was received lies some 30 bytes after the start of a page, and
/// many processors copy at a twentieth of their speed to an address that lies, within its page, 1
/// to 31 bytes after that of the source.
const PAYLOAD_AT: usize = 128;
/// Frames of a consumer are short: one read brings many.
const READ_BUFFER: usize = 4 << 10;

/// Serves one consumer's stream until either side is done with it.
pub(super) async fn serve(stream: Stream, store: Arc<ChunkStore>, mailbox: Arc<Mailbox>, reporter: Reporter) {
    if let Err(reason) = serve_until_end(stream, store, &mailbox, &reporter).await {
        tracing::debug!(consumer = %reporter.peer.short(), reason, "stopped serving");
    }
    reporter.report(StreamReport::Left).await;
}

async fn serve_until_end(
    stream: Stream,
    store: Arc<ChunkStore>,
    mailbox: &Mailbox,
    reporter: &Reporter,
) -> Result<(), String> {
    let (reading, mut writing) = stream.split();
    let mut reading = BufReader::with_capacity(READ_BUFFER, reading);
    let hello = tokio::time::timeout(HELLO_WITHIN, frames::read::<PullMessage>(&mut reading)).await;
    let hello = hello.map_err(|_| "it said no hello")?.map_err(|error| error.to_string())?;
    let Some((PullMessage::Hello { version, manifest }, _)) = hello else {
        return Err("it began without a hello".into());
    };
    reporter.report(StreamReport::Joined { version, manifest }).await;
    let trees = Trees::default();
    tokio::select! {
        heard = listen(&mut reading, version, &trees, reporter) => heard,
        said = speak(&mut writing, version, store, mailbox, &trees, reporter) => said,
    }
}

/// Pieces of which the consumer wants the tree, and of which it has got it on this stream.
#[derive(Default)]
struct Trees {
    wanted: Mutex<PieceSet>,
}

impl Trees {
    fn want(&self, piece: PieceIndex) {
        self.wanted.lock().insert(piece);
    }

    /// Whether the piece's tree is to be sent now.
    fn take(&self, piece: PieceIndex) -> bool {
        self.wanted.lock().remove(piece)
    }
}

async fn listen(
    reading: &mut (impl AsyncRead + Unpin),
    version: PolicyVersion,
    trees: &Trees,
    reporter: &Reporter,
) -> Result<(), String> {
    while let Some((ask, payload)) =
        frames::read::<PullMessage>(reading).await.map_err(|error| error.to_string())?
    {
        if !payload.is_empty() {
            return Err("it sent bytes with what it asks for".into());
        }
        let report = match ask {
            PullMessage::Hello { .. } => return Err("it said hello twice".into()),
            PullMessage::Request { piece, blocks, tree } => {
                if tree {
                    trees.want(piece);
                }
                StreamReport::Asked { version, piece, blocks }
            }
            PullMessage::Cancel { piece, blocks } => StreamReport::Cancelled { piece, blocks },
        };
        reporter.report(report).await;
    }
    Ok(())
}

async fn speak(
    writing: &mut (impl AsyncWrite + Unpin),
    version: PolicyVersion,
    store: Arc<ChunkStore>,
    mailbox: &Mailbox,
    trees: &Trees,
    reporter: &Reporter,
) -> Result<(), String> {
    let mut writing = Frames { writing, frame: Vec::with_capacity(PAYLOAD_AT + BLOCK_BYTES) };
    let mut reading = None;
    loop {
        // The next batch is read from disk while this one is written.
        let mail = match &reading {
            Some(_) => mailbox.try_take(BATCH).unwrap_or_default(),
            None => mailbox.take(BATCH).await,
        };
        let Mail { news, orders, refused } = mail;
        let orders: Vec<_> = orders.into_iter().map(|order| (order, trees.take(order.index))).collect();
        let next = (!orders.is_empty()).then(|| load_all(store.clone(), orders));
        let news: Vec<_> = news.into_iter().collect();
        for news in news.chunks(MAX_NEWS) {
            writing.send(&ServeMessage::Have { news: news.to_vec() }, &[], &[]).await?;
        }
        if let Some(loaded) = std::mem::replace(&mut reading, next) {
            send_batch(&mut writing, version, loaded.await.map_err(|error| error.to_string())?, reporter)
                .await?;
        } else {
            writing.flush().await?;
        }
        if refused && reading.is_none() {
            writing.send(&ServeMessage::Refused, &[], &[]).await?;
            return writing.writing.close().await.map_err(|error| error.to_string());
        }
    }
}

/// A block on its way out.
struct Loaded {
    order: BlockToSend,
    read: Result<(Option<Arc<BlockTree>>, Bytes), ChunkStoreError>,
}

/// Reads blocks, and for each that is marked the tree of its piece. What is in memory needs no
/// other thread: to wake one costs more than to read and to verify a block.
fn load_all(
    store: Arc<ChunkStore>,
    orders: Vec<(BlockToSend, bool)>,
) -> impl Future<Output = Result<Vec<Loaded>, JoinError>> {
    let at_hand = |(order, tree): &(BlockToSend, bool)| {
        let bytes = (!tree).then(|| store.at_hand(&order.piece, order.block))??;
        Some(Loaded { order: *order, read: Ok((None, bytes)) })
    };
    match orders.iter().map(at_hand).collect() {
        Some(loaded) => Either::Left(ready(Ok(loaded))),
        None => Either::Right(spawn_blocking(move || orders.into_iter().map(|o| load(&store, o)).collect())),
    }
}

fn load(store: &ChunkStore, (order, tree): (BlockToSend, bool)) -> Loaded {
    let tree = if tree { store.tree(&order.piece).map(Some) } else { Ok(None) };
    let read = tree.and_then(|tree| Ok((tree, store.read_block(&order.piece, order.block)?)));
    Loaded { order, read }
}

async fn send_batch(
    writing: &mut Frames<impl AsyncWrite + Unpin>,
    version: PolicyVersion,
    batch: Vec<Loaded>,
    reporter: &Reporter,
) -> Result<(), String> {
    for Loaded { order, read } in batch {
        let (tree, bytes) = match read {
            Ok(read) => read,
            Err(error) => {
                if matches!(error, ChunkStoreError::Damaged { .. } | ChunkStoreError::Missing { .. }) {
                    reporter.report(StreamReport::Damaged { version, piece: order.index }).await;
                }
                // The consumer comes back with what it has; by then the piece may be whole again.
                return Err(error.to_string());
            }
        };
        let leaves = tree.as_ref().map_or(&[][..], |tree| tree.leaves());
        let answer =
            ServeMessage::Block { piece: order.index, block: order.block, leaves: leaves.len() as u32 };
        writing.send(&answer, leaves.as_flattened(), &bytes).await?;
        reporter.traffic.sent(bytes.len());
        // At once, so that the next is on its way from the machine while this one leaves.
        reporter.report(StreamReport::Sent { piece: order.index, block: order.block }).await;
    }
    writing.flush().await
}

/// The stream to a consumer, on which whole frames are written.
struct Frames<W> {
    writing: W,
    /// The frame that is being written. One write costs far less than two, down to the
    /// packets: the copy pays.
    frame: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> Frames<W> {
    async fn send(&mut self, answer: &ServeMessage, leaves: &[u8], bytes: &[u8]) -> Result<(), String> {
        let mut head = Vec::with_capacity(PAYLOAD_AT);
        frames::put_head(&mut head, answer, leaves.len() + bytes.len()).map_err(|error| error.to_string())?;
        let begin = PAYLOAD_AT.saturating_sub(head.len());
        self.frame.clear();
        self.frame.resize(begin, 0);
        self.frame.extend_from_slice(&head);
        self.frame.extend_from_slice(leaves);
        self.frame.extend_from_slice(bytes);
        in_time(self.writing.write_all(&self.frame[begin..])).await
    }

    async fn flush(&mut self) -> Result<(), String> {
        in_time(self.writing.flush()).await
    }
}

async fn in_time(writing: impl Future<Output = std::io::Result<()>>) -> Result<(), String> {
    let written = tokio::time::timeout(SEND_WITHIN, writing).await;
    written.map_err(|_| "it takes no bytes")?.map_err(|error| error.to_string())
}
