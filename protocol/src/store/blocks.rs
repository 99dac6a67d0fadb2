//! Pieces that arrive and leave block by block.

use super::index::FoundPiece;
use super::positioned_io::{is_lost, read_cached_at, read_exact_at, write_all_at};
use super::{ChunkStore, ChunkStoreError, io_error};
use crate::snapshot::blocks::{BlockMask, BlockTree, block_range};
use crate::snapshot::manifest::{Manifest, Piece};
use crate::store::buffer_pool::PooledBuffer;
use crate::wire::content_id::ChunkIndex;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;

/// What became of a block that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Its piece lacks others.
    Partial,
    /// Its piece is whole.
    Whole,
}

impl ChunkStore {
    /// Which blocks of a piece are here. Whole pieces are not read for it; a partial one of an
    /// earlier process is verified. What the disk refuses to show is not here.
    pub fn held(&self, piece: &Piece) -> BlockMask {
        let whole = || BlockMask::all(piece.blocks());
        if std::fs::metadata(self.path(&piece.id)).is_ok_and(|about| about.len() == piece.length) {
            return whole();
        }
        match self.index.lock().find(piece) {
            Ok(FoundPiece::Whole { .. }) => whole(),
            Ok(FoundPiece::Partial { have, .. }) => have,
            Ok(FoundPiece::Nothing) | Err(_) => BlockMask::EMPTY,
        }
    }

    /// Which chunks of a snapshot are whole here; as [`ChunkStore::held`] sees it.
    pub fn present(&self, manifest: &Manifest) -> BTreeSet<ChunkIndex> {
        let is_whole = |index: &ChunkIndex| {
            let piece = manifest.piece(manifest.chunk_piece(*index));
            piece.is_some_and(|piece| self.held(&piece) == BlockMask::all(piece.blocks()))
        };
        (0..manifest.chunks.len() as u32).map(ChunkIndex).filter(is_whole).collect()
    }

    /// Whether [`ChunkStore::write_block`] needs the piece's tree first.
    pub fn needs_tree(&self, piece: &Piece) -> bool {
        piece.blocks() > 1 && matches!(self.index.lock().find(piece), Ok(FoundPiece::Nothing) | Err(_))
    }

    /// Takes the tree of a piece whose blocks are about to come. Does nothing when one is
    /// known, or none needed.
    ///
    /// # Errors
    /// [`ChunkStoreError::Mismatch`] when it is the tree of another piece;
    /// [`ChunkStoreError::Crowded`]; [`ChunkStoreError::Io`].
    pub fn begin(&self, piece: &Piece, tree: BlockTree) -> Result<(), ChunkStoreError> {
        if piece.blocks() == 1 { Ok(()) } else { self.index.lock().begin(piece, tree) }
    }

    /// The tree of a piece, for those who fetch it from here.
    ///
    /// # Errors
    /// [`ChunkStoreError::Missing`] when nothing of the piece is here;
    /// [`ChunkStoreError::Damaged`]; [`ChunkStoreError::Io`].
    pub fn tree(&self, piece: &Piece) -> Result<Arc<BlockTree>, ChunkStoreError> {
        let found = self.index.lock().find(piece)?;
        match found {
            FoundPiece::Partial { tree, .. } | FoundPiece::Whole { tree: Some(tree), .. } => Ok(tree),
            FoundPiece::Whole { file, tree: None } => self.rebuild_tree(piece, &file),
            FoundPiece::Nothing => Err(ChunkStoreError::Missing { id: piece.id }),
        }
    }

    /// Verifies and keeps a block.
    ///
    /// # Errors
    /// [`ChunkStoreError::Mismatch`] when the bytes are not that block: whoever sent them is
    /// rotten. [`ChunkStoreError::NoTree`]; [`ChunkStoreError::Io`] when the disk fails or is full.
    pub fn write_block(&self, piece: &Piece, block: u32, bytes: Bytes) -> Result<Written, ChunkStoreError> {
        if piece.blocks() == 1 {
            return self.write_only_block(piece, block, bytes);
        }
        let found = self.index.lock().find(piece)?;
        let (file, tree, have) = match found {
            FoundPiece::Partial { file, tree, have } => (file, tree, have),
            FoundPiece::Whole { .. } => return Ok(Written::Whole),
            FoundPiece::Nothing => return Err(ChunkStoreError::NoTree { id: piece.id }),
        };
        if !tree.verifies(block, &bytes) {
            return Err(ChunkStoreError::Mismatch { id: piece.id });
        }
        if !have.contains(block) {
            let range = block_range(piece.length, block);
            write_all_at(&file, &bytes, range.start)
                .map_err(|error| io_error(&self.path(&piece.id))(error))?;
            self.remember(piece, block, bytes);
        }
        // Also for one that is here: a disk may have refused to give the whole piece its name.
        let whole = self.index.lock().note(piece, block, &file, &tree)?;
        Ok(if whole { Written::Whole } else { Written::Partial })
    }

    fn write_only_block(&self, piece: &Piece, block: u32, bytes: Bytes) -> Result<Written, ChunkStoreError> {
        if block != 0 || bytes.len() as u64 != piece.length {
            return Err(ChunkStoreError::Mismatch { id: piece.id });
        }
        self.write(&piece.id, &bytes)?;
        self.remember(piece, block, bytes);
        Ok(Written::Whole)
    }

    /// A block that can be had without waiting for the disk: it was written a moment ago, or the
    /// system holds its part of the file in memory, and it is verified now. `None` for all others.
    pub fn at_hand(&self, piece: &Piece, block: u32) -> Option<Bytes> {
        if let Some(bytes) = self.remembered(piece, block) {
            return Some(bytes);
        }
        // Whoever holds the lock may be waiting for the disk.
        let (file, tree) = self.index.try_lock()?.opened(piece, block)?;
        let range = block_range(piece.length, block);
        let mut bytes = PooledBuffer::of((range.end - range.start) as usize);
        let read = read_cached_at(&file, bytes.as_mut(), range.start);
        (read && tree.verifies(block, bytes.as_ref())).then(|| bytes.share())
    }

    fn remembered(&self, piece: &Piece, block: u32) -> Option<Bytes> {
        self.recent.lock().get(&(piece.id, block))
    }

    /// A block's bytes: from memory, where they have been verified, or from disk, and then verified now.
    ///
    /// # Errors
    /// [`ChunkStoreError::Missing`]; [`ChunkStoreError::Damaged`] when the disk has altered it: the
    /// whole piece has been deleted; [`ChunkStoreError::Io`] when the file cannot be read.
    pub fn read_block(&self, piece: &Piece, block: u32) -> Result<Bytes, ChunkStoreError> {
        if let Some(bytes) = self.remembered(piece, block) {
            return Ok(bytes);
        }
        let found = self.index.lock().find(piece)?;
        let (file, tree) = match found {
            FoundPiece::Partial { file, tree, have } if have.contains(block) => (file, tree),
            FoundPiece::Whole { file, tree: Some(tree) } => (file, tree),
            FoundPiece::Whole { file, tree: None } => {
                let tree = self.rebuild_tree(piece, &file)?;
                (file, tree)
            }
            FoundPiece::Partial { .. } | FoundPiece::Nothing => {
                return Err(ChunkStoreError::Missing { id: piece.id });
            }
        };
        let range = block_range(piece.length, block);
        let mut bytes = PooledBuffer::of((range.end - range.start) as usize);
        self.read_at(piece, &file, bytes.as_mut(), range.start)?;
        if tree.verifies(block, bytes.as_ref()) {
            return Ok(bytes.share());
        }
        if block >= piece.blocks() {
            return Err(ChunkStoreError::Missing { id: piece.id });
        }
        Err(self.damaged(&piece.id))
    }

    /// The tree of a whole piece that this process has not written: its bytes are read and verified
    /// against its name. Whoever comes while somebody is at it waits and takes that tree.
    fn rebuild_tree(&self, piece: &Piece, file: &Arc<File>) -> Result<Arc<BlockTree>, ChunkStoreError> {
        if piece.length > crate::snapshot::blocks::MAX_PIECE_BYTES {
            return Err(ChunkStoreError::Missing { id: piece.id });
        }
        let turn = self.rebuilding.lock().entry(piece.id).or_default().clone();
        let _one_at_a_time = turn.lock();
        let found = self.index.lock().find(piece);
        let tree = match found {
            Ok(FoundPiece::Whole { tree: Some(tree), .. }) => Ok(tree),
            _ => self.hash_tree(piece, file),
        };
        self.rebuilding.lock().remove(&piece.id);
        tree
    }

    fn hash_tree(&self, piece: &Piece, file: &Arc<File>) -> Result<Arc<BlockTree>, ChunkStoreError> {
        let mut bytes = vec![0; piece.length as usize];
        self.read_at(piece, file, &mut bytes, 0)?;
        let (id, tree) = BlockTree::of(&bytes);
        if id != piece.id {
            return Err(self.damaged(&piece.id));
        }
        let tree = Arc::new(tree);
        self.index.lock().remember_tree(tree.clone());
        Ok(tree)
    }

    fn read_at(
        &self,
        piece: &Piece,
        file: &Arc<File>,
        bytes: &mut [u8],
        offset: u64,
    ) -> Result<(), ChunkStoreError> {
        match read_exact_at(file, bytes, offset) {
            Ok(()) => Ok(()),
            Err(error) if is_lost(&error) => Err(self.damaged(&piece.id)),
            Err(error) => Err(io_error(&self.path(&piece.id))(error)),
        }
    }

    fn remember(&self, piece: &Piece, block: u32, bytes: Bytes) {
        let length = bytes.len();
        self.recent.lock().insert((piece.id, block), bytes, length);
    }
}

#[cfg(test)]
mod tests;
