//! The rules that a machine must keep, checked at everything that it says.

use crate::dissemination::{MAX_SERVED, MAX_WINDOW, Output};
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::PieceIndex;
use crate::snapshot::piece_set::Holdings;
use crate::wire::identity::PublicKey;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks by piece and position.
type Blocks = BTreeSet<(PieceIndex, u32)>;

/// What one machine has done so far that limits what it may do.
#[derive(Debug, Default)]
pub(super) struct PeerHistory {
    /// Streams to neighbours: what each told, and what is asked of it.
    pulls: BTreeMap<PublicKey, (Holdings, Blocks)>,
    /// Streams of consumers: what each has asked and not been served, and what is on its way to it.
    serves: BTreeMap<PublicKey, (Blocks, Blocks)>,
    cut_off: BTreeSet<PublicKey>,
}

impl PeerHistory {
    /// A stream to a neighbour is open.
    pub(super) fn opened(&mut self, peer: PublicKey) {
        self.pulls.insert(peer, Default::default());
    }

    pub(super) fn lost(&mut self, peer: &PublicKey) {
        self.pulls.remove(peer);
    }

    pub(super) fn told(&mut self, peer: &PublicKey, news: &[(PieceIndex, BlockMask)]) {
        if let Some((holds, _)) = self.pulls.get_mut(peer) {
            news.iter().for_each(|(piece, blocks)| {
                holds.insert(*piece, *blocks);
            });
        }
    }

    /// A block came, from whomever.
    pub(super) fn delivered(&mut self, peer: &PublicKey, piece: PieceIndex, block: u32) {
        if let Some((_, asked)) = self.pulls.get_mut(peer) {
            asked.remove(&(piece, block));
        }
    }

    pub(super) fn joined(&mut self, peer: PublicKey) {
        self.serves.insert(peer, Default::default());
    }

    pub(super) fn left(&mut self, peer: &PublicKey) {
        self.serves.remove(peer);
    }

    pub(super) fn asked(&mut self, peer: &PublicKey, piece: PieceIndex, blocks: BlockMask) {
        if let Some((asks, _)) = self.serves.get_mut(peer) {
            asks.extend(blocks.iter().map(|block| (piece, block)));
        }
    }

    pub(super) fn sent(&mut self, peer: &PublicKey, piece: PieceIndex, block: u32) {
        if let Some((_, under_way)) = self.serves.get_mut(peer) {
            under_way.remove(&(piece, block));
        }
    }

    /// Checks one output against what is on `disk` of the version that it speaks of.
    pub(super) fn check(&mut self, output: &Output, disk: &Holdings) -> Result<(), String> {
        match output {
            Output::Open { peer, .. } if self.cut_off.contains(peer) => Err("opens to one cut off".into()),
            Output::CutOff(peer) => {
                self.cut_off.insert(*peer);
                self.pulls.remove(peer);
                self.serves.remove(peer);
                Ok(())
            }
            Output::Close(peer) => {
                self.pulls.remove(peer);
                Ok(())
            }
            Output::Refuse { peer, .. } => {
                self.serves.remove(peer);
                Ok(())
            }
            Output::Request { peer, piece, blocks, .. } => self.check_request(peer, *piece, *blocks, disk),
            Output::Cancel { peer, piece, blocks, .. } => {
                blocks.iter().for_each(|block| self.delivered(peer, *piece, block));
                Ok(())
            }
            Output::Tell { news, .. } => match news.iter().find(|(p, g)| !g.minus(disk.get(*p)).is_empty()) {
                Some((piece, _)) => Err(format!("tells of {piece:?}, which is not stored")),
                None => Ok(()),
            },
            Output::Serve { peer, piece, block, .. } => self.check_serve(peer, *piece, *block, disk),
            Output::Open { .. }
            | Output::Complete(_)
            | Output::Refused(_)
            | Output::Discard(_)
            | Output::AskNeighbours { .. } => Ok(()),
        }
    }

    fn check_request(
        &mut self,
        peer: &PublicKey,
        piece: PieceIndex,
        blocks: BlockMask,
        disk: &Holdings,
    ) -> Result<(), String> {
        let elsewhere = |block: u32| self.pulls.values().any(|(_, asked)| asked.contains(&(piece, block)));
        if let Some(block) = blocks.iter().find(|block| elsewhere(*block)) {
            return Err(format!("asks two neighbours for block {block} of {piece:?}"));
        }
        if !blocks.intersect(disk.get(piece)).is_empty() {
            return Err(format!("asks for blocks of {piece:?} that are stored"));
        }
        let Some((holds, asked)) = self.pulls.get_mut(peer) else {
            return Err("asks where no stream is open".into());
        };
        if !blocks.minus(holds.get(piece)).is_empty() {
            return Err(format!("asks for blocks of {piece:?} that the neighbour did not tell of"));
        }
        asked.extend(blocks.iter().map(|block| (piece, block)));
        if asked.len() > MAX_WINDOW as usize {
            return Err(format!("asks for {} blocks at once", asked.len()));
        }
        Ok(())
    }

    fn check_serve(
        &mut self,
        peer: &PublicKey,
        piece: PieceIndex,
        block: u32,
        disk: &Holdings,
    ) -> Result<(), String> {
        if !disk.get(piece).contains(block) {
            return Err(format!("serves block {block} of {piece:?}, which is not stored"));
        }
        let Some((asks, under_way)) = self.serves.get_mut(peer) else {
            return Err("serves one who is no consumer".into());
        };
        if !asks.remove(&(piece, block)) {
            return Err(format!("serves block {block} of {piece:?} that was not asked, or twice"));
        }
        under_way.insert((piece, block));
        if under_way.len() > MAX_SERVED {
            return Err("has too many blocks under way to one consumer".into());
        }
        Ok(())
    }
}
