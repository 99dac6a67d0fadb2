//! The thread that verifies and stores what arrives.
//!
//! One for all neighbours: while it is at work, what others bring waits for it, and is done without
//! waking anybody. A thread for each neighbour's blocks was woken for nearly every block.

use super::frames::LEAF_BYTES;
use crate::net::error::NetError;
use crate::program::threads;
use crate::snapshot::blocks::BlockTree;
use crate::snapshot::manifest::{Piece, PieceIndex};
use crate::store::{ChunkStore, ChunkStoreError, Written};
use bytes::Bytes;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use tokio::sync::{mpsc, oneshot};

/// Jobs that may wait. Each neighbour has one at most, so this is their number on a crowded node;
/// those beyond wait for a place.
const WAITING: usize = 64;

/// A block that arrived and is not verified yet.
pub(in crate::net) struct Arrival {
    pub(in crate::net) index: PieceIndex,
    pub(in crate::net) piece: Piece,
    pub(in crate::net) block: u32,
    /// Leaves of the piece's tree in front of the block's bytes.
    pub(in crate::net) leaves: usize,
    pub(in crate::net) payload: Bytes,
}

/// A block that was verified and stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) piece: PieceIndex,
    pub(super) block: u32,
    /// Whether its piece is whole.
    pub(super) whole: bool,
}

/// What became of blocks from one neighbour.
#[derive(Debug, Default)]
pub(super) struct KeptBlocks {
    /// Those before the first that could not be kept.
    pub(super) stored: Vec<Stored>,
    pub(super) failure: Option<KeepFailure>,
}

/// Why a block could not be kept.
#[derive(Debug)]
pub(in crate::net) enum KeepFailure {
    /// It is not what its piece's name says.
    Rotten(String),
    /// The disk or the store failed here; the neighbour is innocent.
    Ours(String),
}

/// Hands blocks to the thread, which ends when all handles are gone.
#[derive(Clone)]
pub(super) struct BlockWriter {
    jobs: mpsc::Sender<Job>,
}

struct Job {
    arrivals: Vec<Arrival>,
    done: oneshot::Sender<KeptBlocks>,
}

impl BlockWriter {
    /// # Errors
    /// [`NetError::Thread`] when the system allows no more threads.
    pub(super) fn start(store: Arc<ChunkStore>) -> Result<Self, NetError> {
        let (jobs, mut waiting) = mpsc::channel::<Job>(WAITING);
        let work = move || {
            while let Some(Job { arrivals, done }) = waiting.blocking_recv() {
                // A panic costs the neighbour whose blocks these were, and nobody else. The
                // store's locks survive it.
                let kept = catch_unwind(AssertUnwindSafe(|| keep_all(&store, &arrivals)));
                // The neighbour may have been let go meanwhile.
                let _ = kept.map(|kept| done.send(kept));
            }
        };
        // One of tokio's would wait for ever where the system refuses it, as long as any other
        // thread of tokio's is there.
        let thread = thread::Builder::new().name("block writer".into());
        let started = thread.spawn(work).map_err(threads::explained);
        started.map_err(|source| NetError::Thread { what: "to store chunks", source })?;
        Ok(Self { jobs })
    }

    /// Verifies and stores blocks of one neighbour, in this order, up to the first that cannot be kept.
    pub(super) async fn keep(&self, arrivals: Vec<Arrival>) -> KeptBlocks {
        let (done, kept) = oneshot::channel();
        let _ = self.jobs.send(Job { arrivals, done }).await;
        kept.await.unwrap_or_else(|_| KeptBlocks {
            stored: Vec::new(),
            failure: Some(KeepFailure::Ours("the thread that stores blocks has failed".into())),
        })
    }
}

fn keep_all(store: &ChunkStore, arrivals: &[Arrival]) -> KeptBlocks {
    let mut kept = KeptBlocks::default();
    for arrival in arrivals {
        match keep(store, arrival) {
            Ok(written) => kept.stored.push(Stored {
                piece: arrival.index,
                block: arrival.block,
                whole: written == Written::Whole,
            }),
            Err(failure) => return KeptBlocks { failure: Some(failure), ..kept },
        }
    }
    kept
}

/// Verifies and stores a block.
pub(in crate::net) fn keep(store: &ChunkStore, arrival: &Arrival) -> Result<Written, KeepFailure> {
    let Arrival { index, piece, block, leaves, payload } = arrival;
    let rotten = |what: String| KeepFailure::Rotten(format!("block {block} of piece {}: {what}", index.0));
    let Some((tree, _)) = payload.split_at_checked(leaves * LEAF_BYTES) else {
        return Err(rotten(format!("{leaves} leaves in {} bytes", payload.len())));
    };
    let bytes = payload.slice(tree.len()..);
    if *leaves > 0 {
        let (leaves, _) = tree.as_chunks::<LEAF_BYTES>();
        let tree = BlockTree::checked(piece.id, piece.length, leaves.to_vec());
        // Not the neighbour's fault, but our disk's, from here on, but for a mismatch.
        store.begin(piece, tree.map_err(|error| rotten(error.to_string()))?).map_err(ours)?;
    }
    store.write_block(piece, *block, bytes).map_err(|error| match error {
        ChunkStoreError::Mismatch { .. } => rotten("the bytes do not match the piece's name".into()),
        error => ours(error),
    })
}

/// A failure that says nothing against the neighbour: its stream is given up, and tried again later.
fn ours(error: ChunkStoreError) -> KeepFailure {
    KeepFailure::Ours(error.to_string())
}
