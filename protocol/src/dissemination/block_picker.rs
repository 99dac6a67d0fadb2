//! Which blocks to ask of a neighbour next.

use super::neighbours::NeighbourState;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::PieceIndex;
use crate::snapshot::piece_set::Holdings;
use crate::wire::rng::Draws;

/// Pieces that are compared for one request: enough to find a rare block, few enough to cost microseconds.
const COMPARED: usize = 16;

/// The open blocks of one piece that this edge holds and the fewest `others` hold, at most `most`;
/// among equals by chance.
pub(super) fn rarest(
    edge: &NeighbourState,
    others: &[&Holdings],
    open: &Holdings,
    pieces: u32,
    most: u32,
    draws: &mut Draws,
) -> Option<(PieceIndex, BlockMask)> {
    let start = PieceIndex(draws.below(u64::from(pieces)) as u32);
    let mut best: Option<(u32, PieceIndex, BlockMask)> = None;
    let mut at = start;
    let mut wrapped = false;
    for _ in 0..COMPARED {
        let Some(piece) = edge.ready.next_from(at).filter(|p| !wrapped || *p < start).or_else(|| {
            let again = !std::mem::replace(&mut wrapped, true);
            edge.ready.next_from(PieceIndex(0)).filter(|p| again && *p < start)
        }) else {
            break;
        };
        let (holders, blocks) = least_held(edge.holds.get(piece).intersect(open.get(piece)), piece, others);
        if best.is_none_or(|(fewest, _, _)| holders < fewest) {
            best = Some((holders, piece, blocks));
            if holders == 0 {
                break;
            }
        }
        at = PieceIndex(piece.0 + 1);
    }
    best.map(|(_, piece, blocks)| (piece, some(blocks, most, draws.below(64) as u32)))
}

/// The lowest open blocks that this edge holds, of one piece, at most `most`.
pub(super) fn lowest(edge: &NeighbourState, open: &Holdings, most: u32) -> Option<(PieceIndex, BlockMask)> {
    let piece = edge.ready.next_from(PieceIndex(0))?;
    Some((piece, some(edge.holds.get(piece).intersect(open.get(piece)), most, 0)))
}

/// Of `blocks`, those that the fewest others hold, and how many do.
fn least_held(mut blocks: BlockMask, piece: PieceIndex, others: &[&Holdings]) -> (u32, BlockMask) {
    // Bit i of the number of holders of each block, for all blocks of the piece at once.
    let mut planes = [0u64; 6];
    for holds in others {
        let mut carry = holds.get(piece).0;
        for plane in &mut planes {
            (*plane, carry) = (*plane ^ carry, *plane & carry);
        }
    }
    let mut holders = 0;
    for (bit, plane) in planes.iter().enumerate().rev() {
        let without = blocks.minus(BlockMask(*plane));
        if without.is_empty() {
            holders += 1 << bit;
        } else {
            blocks = without;
        }
    }
    (holders, blocks)
}

/// At most `most` of `blocks`, in a row from the bit `from`.
fn some(blocks: BlockMask, most: u32, from: u32) -> BlockMask {
    let mut left = blocks.0.rotate_right(from);
    let mut taken = 0u64;
    for _ in 0..most.min(blocks.len()) {
        let lowest = left & left.wrapping_neg();
        taken |= lowest;
        left &= !lowest;
    }
    BlockMask(taken.rotate_left(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_held_blocks_are_found_for_a_whole_piece_at_once() {
        let piece = PieceIndex(2);
        let hold = |mask: u64| [(piece, BlockMask(mask))].into_iter().collect::<Holdings>();
        let others = [hold(0b1110), hold(0b0110), hold(0b0100)];
        let others: Vec<&Holdings> = others.iter().collect();
        assert_eq!(least_held(BlockMask(0b1111), piece, &others), (0, BlockMask(0b0001)));
        assert_eq!(least_held(BlockMask(0b1110), piece, &others), (1, BlockMask(0b1000)));
        assert_eq!(least_held(BlockMask(0b0100), piece, &others), (3, BlockMask(0b0100)));
    }

    #[test]
    fn runs_start_anywhere_and_are_limited() {
        assert_eq!(some(BlockMask(0b1011), 2, 0), BlockMask(0b0011));
        assert_eq!(some(BlockMask(0b1011), 2, 2), BlockMask(0b1001));
        assert_eq!(some(BlockMask(0b1011), 9, 63), BlockMask(0b1011));
    }
}
