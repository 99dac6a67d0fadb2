//! One version on its way in, or here.

use crate::snapshot::blocks::{BlockMask, block_count, block_range};
use crate::snapshot::manifest::{Manifest, PieceIndex};
use crate::snapshot::piece_set::{Holdings, PieceSet};
use crate::wire::content_id::ContentId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A manifest, which blocks of it are verified and on disk, and which are still to be asked for.
/// All counters follow every change, so that nothing ever has to look at all blocks.
pub(super) struct Transfer {
    pub(super) manifest: Arc<Manifest>,
    /// The id of the manifest, which consumers name when they join.
    pub(super) id: ContentId,
    /// Bytes of each piece; 0 where there is none.
    lengths: Vec<u32>,
    have: Holdings,
    wanted: PieceSet,
    /// Wanted blocks that are neither stored nor asked for.
    open: Holdings,
    open_blocks: u64,
    missing_blocks: u64,
    missing_bytes: u64,
    wanted_bytes: u64,
    /// What consumers have not been told yet.
    news: BTreeMap<PieceIndex, BlockMask>,
    /// Blocks that were served at least once, and those served more often.
    served: [Holdings; 2],
}

impl Transfer {
    /// A transfer that starts with `have`; pieces and blocks that the manifest does not have are dropped.
    pub(super) fn new(manifest: Arc<Manifest>, have: &Holdings, wanted: PieceSet) -> Self {
        let length = |i| manifest.piece(PieceIndex(i)).map_or(0, |p| u32::try_from(p.length).unwrap_or(0));
        let lengths: Vec<u32> = (0..manifest.pieces()).map(length).collect();
        let mut transfer = Self {
            id: manifest.id(),
            manifest,
            lengths,
            have: Holdings::default(),
            wanted: PieceSet::default(),
            open: Holdings::default(),
            open_blocks: 0,
            missing_blocks: 0,
            missing_bytes: 0,
            wanted_bytes: 0,
            news: BTreeMap::new(),
            served: Default::default(),
        };
        for (piece, blocks) in have.iter() {
            let blocks = blocks.intersect(transfer.all(piece));
            transfer.have.insert(piece, blocks);
        }
        transfer.wish(wanted);
        transfer
    }

    /// A transfer of which every piece is here.
    pub(super) fn whole(manifest: Arc<Manifest>) -> Self {
        let every = (0..manifest.pieces()).map(|i| (PieceIndex(i), BlockMask(u64::MAX))).collect();
        Self::new(manifest, &every, PieceSet::default())
    }

    /// Replaces the wish. Whatever was asked for is open again: who asked must say so anew.
    pub(super) fn wish(&mut self, wanted: PieceSet) {
        self.open = Holdings::default();
        (self.open_blocks, self.missing_blocks, self.missing_bytes, self.wanted_bytes) = (0, 0, 0, 0);
        self.wanted = wanted.iter().filter(|p| !self.all(*p).is_empty()).collect();
        let pieces: Vec<PieceIndex> = self.wanted.iter().collect();
        for piece in pieces {
            self.wanted_bytes += u64::from(self.lengths[piece.0 as usize]);
            let missing = self.all(piece).minus(self.have.get(piece));
            self.miss(piece, missing);
        }
    }

    /// Wishes for one piece more. What was asked for stays asked for.
    pub(super) fn wish_for(&mut self, piece: PieceIndex) {
        let all = self.all(piece);
        if !all.is_empty() && self.wanted.insert(piece) {
            self.wanted_bytes += u64::from(self.lengths[piece.0 as usize]);
            self.miss(piece, all.minus(self.have.get(piece)));
        }
    }

    /// Notes that nothing is asked for any more.
    pub(super) fn reopen(&mut self) {
        let wanted = std::mem::take(&mut self.wanted);
        self.wish(wanted);
    }

    /// All blocks of a piece; none for a piece that does not exist.
    pub(super) fn all(&self, piece: PieceIndex) -> BlockMask {
        match self.lengths.get(piece.0 as usize).copied().unwrap_or(0) {
            0 => BlockMask::EMPTY,
            length => BlockMask::all(block_count(u64::from(length))),
        }
    }

    /// Bytes of a block; 0 when there is no such block.
    pub(super) fn block_bytes(&self, piece: PieceIndex, block: u32) -> u64 {
        let range = block_range(u64::from(self.lengths.get(piece.0 as usize).copied().unwrap_or(0)), block);
        range.end - range.start
    }

    /// How many piece indices there are.
    pub(super) fn pieces(&self) -> u32 {
        self.lengths.len() as u32
    }

    pub(super) fn is_complete(&self) -> bool {
        self.missing_blocks == 0
    }

    pub(super) fn have(&self) -> &Holdings {
        &self.have
    }

    /// Wanted blocks that are neither stored nor asked for.
    pub(super) fn open(&self) -> &Holdings {
        &self.open
    }

    pub(super) fn open_blocks(&self) -> u64 {
        self.open_blocks
    }

    pub(super) fn missing_bytes(&self) -> u64 {
        self.missing_bytes
    }

    pub(super) fn wanted_bytes(&self) -> u64 {
        self.wanted_bytes
    }

    /// Notes stored blocks and says which of them are new.
    pub(super) fn store(&mut self, piece: PieceIndex, blocks: BlockMask) -> BlockMask {
        let new = self.have.insert(piece, blocks.intersect(self.all(piece)));
        if !new.is_empty() {
            let told = self.news.entry(piece).or_default();
            *told = told.union(new);
        }
        if self.wanted.contains(piece) {
            self.missing_blocks -= u64::from(new.len());
            self.missing_bytes -= self.bytes(piece, new);
            self.open_blocks -= u64::from(self.open.remove(piece, new).len());
        }
        new
    }

    /// Notes that every block of a piece is gone. From now on it is wanted, even where it was only
    /// built from a delta.
    pub(super) fn damage(&mut self, piece: PieceIndex) {
        let gone = self.have.remove(piece, BlockMask(u64::MAX));
        self.news.remove(&piece);
        if self.wanted.contains(piece) {
            self.miss(piece, gone);
        } else if !gone.is_empty() {
            self.wanted.insert(piece);
            self.wanted_bytes += u64::from(self.lengths[piece.0 as usize]);
            self.miss(piece, self.all(piece));
        }
    }

    /// Notes that these open blocks are asked for.
    pub(super) fn ask(&mut self, piece: PieceIndex, blocks: BlockMask) {
        self.open_blocks -= u64::from(self.open.remove(piece, blocks).len());
    }

    /// Notes that these blocks are no longer asked for; they are open again where they are still needed.
    pub(super) fn release(&mut self, piece: PieceIndex, blocks: BlockMask) {
        if self.wanted.contains(piece) {
            let needed = blocks.intersect(self.all(piece)).minus(self.have.get(piece));
            self.open_blocks += u64::from(self.open.insert(piece, needed).len());
        }
    }

    /// What is stored and was not told before. The caller tells it to everybody who was told the rest.
    pub(super) fn take_news(&mut self) -> Vec<(PieceIndex, BlockMask)> {
        std::mem::take(&mut self.news).into_iter().collect()
    }

    /// How often a block was served: never, once, more often.
    pub(super) fn times_served(&self, piece: PieceIndex, block: u32) -> u32 {
        self.served.iter().map(|served| u32::from(served.get(piece).contains(block))).sum()
    }

    /// Notes that a block is served.
    pub(super) fn serve(&mut self, piece: PieceIndex, block: u32) {
        let one = BlockMask::of([block]);
        let [once, often] = &mut self.served;
        if once.insert(piece, one).is_empty() {
            often.insert(piece, one);
        }
    }

    fn miss(&mut self, piece: PieceIndex, blocks: BlockMask) {
        self.open_blocks += u64::from(self.open.insert(piece, blocks).len());
        self.missing_blocks += u64::from(blocks.len());
        self.missing_bytes += self.bytes(piece, blocks);
    }

    fn bytes(&self, piece: PieceIndex, blocks: BlockMask) -> u64 {
        blocks.iter().map(|block| self.block_bytes(piece, block)).sum()
    }
}
