//! The rules that a machine must keep, checked at everything that it says.

use crate::dissemination::{MAX_SERVED, MAX_WINDOW, RelayOutput};
use crate::snapshot::blocks::GroupMask;
use crate::snapshot::manifest::PieceIndex;
use crate::snapshot::piece_set::Holdings;
use crate::wire::identity::PublicKey;
use std::collections::{BTreeMap, BTreeSet};

/// Groups by piece and position.
type Groups = BTreeSet<(PieceIndex, u32)>;

/// What one machine has done so far that limits what it may do.
#[derive(Debug, Default)]
pub(super) struct PeerHistory {
    /// Streams to neighbours: what each told, and what is asked of it.
    pulls: BTreeMap<PublicKey, (Holdings, Groups)>,
    /// Streams of consumers: what each has asked and not been served, and what is on its way to it.
    serves: BTreeMap<PublicKey, (Groups, Groups)>,
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

    pub(super) fn told(&mut self, peer: &PublicKey, news: &[(PieceIndex, GroupMask)]) {
        if let Some((holds, _)) = self.pulls.get_mut(peer) {
            news.iter().for_each(|(piece, groups)| {
                holds.insert(*piece, *groups);
            });
        }
    }

    /// A group came, from whomever.
    pub(super) fn delivered(&mut self, peer: &PublicKey, piece: PieceIndex, group: u32) {
        if let Some((_, asked)) = self.pulls.get_mut(peer) {
            asked.remove(&(piece, group));
        }
    }

    pub(super) fn joined(&mut self, peer: PublicKey) {
        self.serves.insert(peer, Default::default());
    }

    pub(super) fn left(&mut self, peer: &PublicKey) {
        self.serves.remove(peer);
    }

    pub(super) fn asked(&mut self, peer: &PublicKey, piece: PieceIndex, groups: GroupMask) {
        if let Some((asks, _)) = self.serves.get_mut(peer) {
            asks.extend(groups.iter().map(|group| (piece, group)));
        }
    }

    pub(super) fn sent(&mut self, peer: &PublicKey, piece: PieceIndex, group: u32) {
        if let Some((_, under_way)) = self.serves.get_mut(peer) {
            under_way.remove(&(piece, group));
        }
    }

    /// Checks one output against what is on `disk` of the version that it speaks of.
    pub(super) fn check(&mut self, output: &RelayOutput, disk: &Holdings) -> Result<(), String> {
        match output {
            RelayOutput::Open { peer, .. } if self.cut_off.contains(peer) => {
                Err("opens to one cut off".into())
            }
            RelayOutput::CutOff(peer) => {
                self.cut_off.insert(*peer);
                self.pulls.remove(peer);
                self.serves.remove(peer);
                Ok(())
            }
            RelayOutput::Close(peer) => {
                self.pulls.remove(peer);
                Ok(())
            }
            RelayOutput::Refuse { peer, .. } => {
                self.serves.remove(peer);
                Ok(())
            }
            RelayOutput::Request { peer, piece, groups, .. } => {
                self.check_request(peer, *piece, *groups, disk)
            }
            RelayOutput::Cancel { peer, piece, groups, .. } => {
                groups.iter().for_each(|group| self.delivered(peer, *piece, group));
                Ok(())
            }
            RelayOutput::Tell { news, .. } => {
                match news.iter().find(|(p, g)| !g.minus(disk.get(*p)).is_empty()) {
                    Some((piece, _)) => Err(format!("tells of {piece:?}, which is not stored")),
                    None => Ok(()),
                }
            }
            RelayOutput::Serve { peer, piece, group, .. } => self.check_serve(peer, *piece, *group, disk),
            RelayOutput::Open { .. }
            | RelayOutput::Complete(_)
            | RelayOutput::Refused(_)
            | RelayOutput::Discard(_)
            | RelayOutput::AskNeighbours { .. } => Ok(()),
        }
    }

    fn check_request(
        &mut self,
        peer: &PublicKey,
        piece: PieceIndex,
        groups: GroupMask,
        disk: &Holdings,
    ) -> Result<(), String> {
        let elsewhere = |group: u32| self.pulls.values().any(|(_, asked)| asked.contains(&(piece, group)));
        if let Some(group) = groups.iter().find(|group| elsewhere(*group)) {
            return Err(format!("asks two neighbours for group {group} of {piece:?}"));
        }
        if !groups.intersect(disk.get(piece)).is_empty() {
            return Err(format!("asks for groups of {piece:?} that are stored"));
        }
        let Some((holds, asked)) = self.pulls.get_mut(peer) else {
            return Err("asks where no stream is open".into());
        };
        if !groups.minus(holds.get(piece)).is_empty() {
            return Err(format!("asks for groups of {piece:?} that the neighbour did not tell of"));
        }
        asked.extend(groups.iter().map(|group| (piece, group)));
        if asked.len() > MAX_WINDOW as usize {
            return Err(format!("asks for {} groups at once", asked.len()));
        }
        Ok(())
    }

    fn check_serve(
        &mut self,
        peer: &PublicKey,
        piece: PieceIndex,
        group: u32,
        disk: &Holdings,
    ) -> Result<(), String> {
        if !disk.get(piece).contains(group) {
            return Err(format!("serves group {group} of {piece:?}, which is not stored"));
        }
        let Some((asks, under_way)) = self.serves.get_mut(peer) else {
            return Err("serves one who is no consumer".into());
        };
        if !asks.remove(&(piece, group)) {
            return Err(format!("serves group {group} of {piece:?} that was not asked, or twice"));
        }
        under_way.insert((piece, group));
        if under_way.len() > MAX_SERVED {
            return Err("has too many groups under way to one consumer".into());
        }
        Ok(())
    }
}
