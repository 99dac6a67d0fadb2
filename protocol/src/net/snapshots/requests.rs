//! What one neighbour is asked for: blocks that wait for their turn, and blocks that are to come.

use super::frames::PullMessage;
use crate::net::transport::rate_limit::{OutstandingBytes, Pacing, RequestPermit};
use crate::snapshot::blocks::{BlockMask, block_range};
use crate::snapshot::manifest::{Piece, PieceIndex};
use crate::snapshot::piece_set::{Holdings, PieceSet};
use std::collections::VecDeque;

/// The requests to one neighbour, for one version.
#[derive(Debug)]
pub(super) struct Requests {
    /// In the order in which they were wished for.
    waiting: VecDeque<Waiting>,
    /// Asked for and not yet here.
    asked: Holdings,
    /// The same, as the cap on what is received sees it.
    due: OutstandingBytes,
    /// Asked for and cancelled, so that they may come or not.
    cancelled: Holdings,
    /// Pieces whose tree has been asked for and is not yet here.
    trees: PieceSet,
}

/// Blocks of one piece.
#[derive(Debug)]
struct Waiting {
    index: PieceIndex,
    piece: Piece,
    blocks: BlockMask,
}

impl Requests {
    pub(super) fn new(pacing: &Pacing) -> Self {
        let (waiting, asked, cancelled, trees) = Default::default();
        Self { waiting, asked, due: pacing.due(), cancelled, trees }
    }

    /// Adds blocks that are to be asked for.
    pub(super) fn add(&mut self, index: PieceIndex, piece: Piece, blocks: BlockMask) {
        if !blocks.is_empty() {
            self.waiting.push_back(Waiting { index, piece, blocks });
        }
    }

    /// Whether any block waits.
    pub(super) fn any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes blocks back. Gives the message to the neighbour, if some of them did not wait any more.
    pub(super) fn cancel(
        &mut self,
        index: PieceIndex,
        piece: &Piece,
        blocks: BlockMask,
    ) -> Option<PullMessage> {
        let blocks = blocks.minus(self.take_back(index, blocks));
        let asked = self.asked.remove(index, blocks);
        self.cancelled.insert(index, asked);
        asked.iter().for_each(|block| self.due.came(block_length(piece, block)));
        (!blocks.is_empty()).then_some(PullMessage::Cancel { piece: index, blocks })
    }

    /// What to ask for now.
    pub(super) fn ask(
        &mut self,
        allowance: &mut RequestPermit<'_>,
        needs_tree: impl Fn(&Piece) -> bool,
    ) -> Vec<PullMessage> {
        let mut asks = Vec::new();
        while let Some(Waiting { index, piece, blocks: left }) = self.waiting.front_mut() {
            let fits = |block: &u32| allowance.draw(&mut self.due, block_length(piece, *block));
            let blocks = BlockMask::of(left.iter().take_while(fits));
            if blocks.is_empty() {
                break;
            }
            self.asked.insert(*index, blocks);
            let tree = !self.trees.contains(*index) && needs_tree(piece);
            if tree {
                self.trees.insert(*index);
            }
            asks.push(PullMessage::Request { piece: *index, blocks, tree });
            *left = left.minus(blocks);
            if left.is_empty() {
                self.waiting.pop_front();
            }
        }
        asks
    }

    /// Notes that a block has come. One that was cancelled and is wished for again may come before
    /// that is asked for; then it needs not be.
    pub(super) fn arrived(
        &mut self,
        index: PieceIndex,
        piece: &Piece,
        block: u32,
        with_tree: bool,
    ) -> Arrived {
        if with_tree {
            self.trees.remove(index);
        }
        let blocks = BlockMask::of([block]);
        let arrived = if !self.asked.remove(index, blocks).is_empty() {
            self.due.came(block_length(piece, block));
            Arrived::Asked
        } else if !self.cancelled.remove(index, blocks).is_empty() {
            Arrived::Cancelled
        } else {
            return Arrived::Unasked;
        };
        self.take_back(index, blocks);
        arrived
    }

    /// Those of the blocks that waited.
    fn take_back(&mut self, index: PieceIndex, blocks: BlockMask) -> BlockMask {
        let mut taken = BlockMask::default();
        self.waiting.retain_mut(|waiting| {
            if waiting.index == index {
                taken = taken.union(waiting.blocks.intersect(blocks));
                waiting.blocks = waiting.blocks.minus(blocks);
            }
            !waiting.blocks.is_empty()
        });
        taken
    }
}

/// Whether a block that has come was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    Asked,
    /// It was, and then cancelled.
    Cancelled,
    Unasked,
}

fn block_length(piece: &Piece, block: u32) -> u64 {
    let range = block_range(piece.length, block);
    range.end - range.start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::content_id::ContentId;
    use std::time::Duration;

    /// Blocks of 64 KiB, of which four fit into a turn.
    const CAP: u64 = 12_500_000;

    fn piece(n: u32) -> (PieceIndex, Piece) {
        (PieceIndex(n), Piece { id: ContentId::of(&n.to_be_bytes()), length: 64 * (64 << 10) })
    }

    fn blocks(blocks: impl IntoIterator<Item = u32>) -> BlockMask {
        BlockMask::of(blocks)
    }

    fn request(n: u32, of: impl IntoIterator<Item = u32>, tree: bool) -> PullMessage {
        PullMessage::Request { piece: PieceIndex(n), blocks: blocks(of), tree }
    }

    /// Asks for what there is room for.
    async fn next(requests: &mut Requests, pacing: &Pacing) -> Vec<PullMessage> {
        requests.ask(&mut pacing.turn_to_ask().await, |_| true)
    }

    fn wishes(pacing: &Pacing, wishes: &[(u32, BlockMask)]) -> Requests {
        let mut requests = Requests::new(pacing);
        for (n, blocks) in wishes {
            let (index, piece) = piece(*n);
            requests.add(index, piece, *blocks);
        }
        requests
    }

    /// A block comes, with the tree of its piece.
    fn arrive(requests: &mut Requests, n: u32, block: u32) -> Arrived {
        requests.arrived(piece(n).0, &piece(n).1, block, true)
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_cap_every_wish_is_asked_for_at_once_and_each_tree_once() {
        let pacing = Pacing::new(None, None);
        let mut requests = wishes(&pacing, &[(3, blocks(0..64)), (4, blocks([0])), (3, blocks([1]))]);
        let asks = next(&mut requests, &pacing).await;
        assert_eq!(asks, [request(3, 0..64, true), request(4, [0], true), request(3, [1], false)]);
        assert!(!requests.any_waiting());
        assert_eq!(arrive(&mut requests, 3, 7), Arrived::Asked);
        assert_eq!(arrive(&mut requests, 3, 7), Arrived::Unasked);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wish_that_is_larger_than_a_turn_is_asked_for_in_parts() {
        let pacing = Pacing::new(None, Some(CAP));
        let mut requests = wishes(&pacing, &[(0, blocks(0..6)), (1, blocks(0..2))]);
        assert_eq!(next(&mut requests, &pacing).await, [request(0, 0..4, true)]);
        assert_eq!(next(&mut requests, &pacing).await, [request(0, 4..6, false), request(1, 0..2, true)]);
        assert!(!requests.any_waiting());
    }

    #[tokio::test(start_paused = true)]
    async fn a_tree_that_has_come_is_asked_for_again_where_it_is_needed_again() {
        let pacing = Pacing::new(None, None);
        let mut requests = wishes(&pacing, &[(0, blocks([0]))]);
        assert_eq!(next(&mut requests, &pacing).await, [request(0, [0], true)]);
        arrive(&mut requests, 0, 0);
        requests.add(piece(0).0, piece(0).1, blocks([1]));
        assert_eq!(next(&mut requests, &pacing).await, [request(0, [1], true)]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_is_taken_back_and_what_was_asked_for_is_cancelled() {
        let pacing = Pacing::new(None, Some(CAP));
        let mut requests = wishes(&pacing, &[(0, blocks(0..10))]);
        next(&mut requests, &pacing).await;
        let (index, other) = (PieceIndex(0), PieceIndex(1));
        assert_eq!(
            requests.cancel(index, &piece(0).1, blocks(0..10)),
            Some(PullMessage::Cancel { piece: index, blocks: blocks(0..4) })
        );
        assert!(!requests.any_waiting());
        assert_eq!(
            requests.cancel(other, &piece(1).1, blocks([2])),
            Some(PullMessage::Cancel { piece: other, blocks: blocks([2]) })
        );
        requests.add(index, piece(0).1, blocks([5]));
        assert_eq!(requests.cancel(index, &piece(0).1, blocks([5])), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_block_that_comes_while_it_waits_anew_is_not_asked_for_again() {
        let pacing = Pacing::new(None, Some(CAP));
        let mut requests = wishes(&pacing, &[(0, blocks(0..4))]);
        next(&mut requests, &pacing).await;
        requests.cancel(PieceIndex(0), &piece(0).1, blocks([2]));
        requests.add(piece(0).0, piece(0).1, blocks([2, 9]));
        assert_eq!(requests.arrived(PieceIndex(0), &piece(0).1, 2, false), Arrived::Cancelled);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(next(&mut requests, &pacing).await, [request(0, [9], false)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_block_that_nobody_asked_for_takes_no_wish_away() {
        let mut requests = wishes(&Pacing::new(None, None), &[(0, blocks([1]))]);
        assert_eq!(arrive(&mut requests, 0, 1), Arrived::Unasked);
        assert!(requests.any_waiting());
    }

    #[tokio::test(start_paused = true)]
    async fn short_blocks_cost_what_they_hold() {
        let pacing = Pacing::new(None, Some(CAP));
        let mut requests = Requests::new(&pacing);
        for n in 0..100 {
            let (index, piece) = piece(n);
            requests.add(index, Piece { length: 1000, ..piece }, blocks([0]));
        }
        assert_eq!(next(&mut requests, &pacing).await.len(), 100);
    }
}
