//! Inputs and outputs, written short: inputs in the past tense, outputs as orders.

use super::*;

pub(super) fn key(peer: u8) -> PublicKey {
    PublicKey::from_bytes([peer; 32])
}

fn news(blocks: &[(u32, u64)]) -> Vec<(PieceIndex, BlockMask)> {
    blocks.iter().map(|(piece, blocks)| (PieceIndex(*piece), BlockMask(*blocks))).collect()
}

fn pieces(pieces: &[u32]) -> PieceSet {
    pieces.iter().copied().map(PieceIndex).collect()
}

pub(super) fn announced(manifest: &Arc<Manifest>, have: &[(u32, u64)], wanted: &[u32]) -> Input {
    let have = news(have).into_iter().collect();
    Input::Announced { manifest: manifest.clone(), have, wanted: pieces(wanted) }
}

pub(super) fn wanted(version: PolicyVersion, wanted: &[u32]) -> Input {
    Input::Wanted { version, pieces: pieces(wanted) }
}

pub(super) fn published(manifest: &Arc<Manifest>) -> Input {
    Input::Published(manifest.clone())
}

pub(super) fn gained(version: PolicyVersion, piece: u32) -> Input {
    Input::Gained { version, piece: PieceIndex(piece) }
}

pub(super) fn damaged(version: PolicyVersion, piece: u32) -> Input {
    Input::Damaged { version, piece: PieceIndex(piece) }
}

pub(super) fn named(list: &[(u8, NeighbourRole)]) -> Input {
    Input::Neighbours(list.iter().map(|(peer, role)| (key(*peer), *role)).collect())
}

pub(super) fn opened(peer: u8) -> Input {
    Input::Opened(key(peer))
}

pub(super) fn has(peer: u8, version: PolicyVersion, blocks: &[(u32, u64)]) -> Input {
    Input::Has { peer: key(peer), version, news: news(blocks) }
}

pub(super) fn stored(peer: u8, version: PolicyVersion, piece: u32, block: u32) -> Input {
    Input::Stored { peer: key(peer), version, piece: PieceIndex(piece), block }
}

pub(super) fn rotten(peer: u8) -> Input {
    Input::Rotten(key(peer))
}

pub(super) fn refused(peer: u8, version: PolicyVersion) -> Input {
    Input::Refused { peer: key(peer), version }
}

pub(super) fn lost(peer: u8) -> Input {
    Input::Lost(key(peer))
}

pub(super) fn joined(peer: u8, version: PolicyVersion) -> Input {
    Input::Joined { peer: key(peer), version, manifest: ContentId::of(b"") }
}

pub(super) fn asked(peer: u8, version: PolicyVersion, piece: u32, blocks: u64) -> Input {
    Input::Asked { peer: key(peer), version, piece: PieceIndex(piece), blocks: BlockMask(blocks) }
}

pub(super) fn cancelled(peer: u8, piece: u32, blocks: u64) -> Input {
    Input::Cancelled { peer: key(peer), piece: PieceIndex(piece), blocks: BlockMask(blocks) }
}

pub(super) fn sent(peer: u8, piece: u32, block: u32) -> Input {
    Input::Sent { peer: key(peer), piece: PieceIndex(piece), block }
}

pub(super) fn left(peer: u8) -> Input {
    Input::Left(key(peer))
}

pub(super) fn open(peer: u8, version: PolicyVersion) -> Output {
    Output::Open { peer: key(peer), version }
}

pub(super) fn close(peer: u8) -> Output {
    Output::Close(key(peer))
}

pub(super) fn request(peer: u8, version: PolicyVersion, piece: u32, blocks: u64) -> Output {
    Output::Request { peer: key(peer), version, piece: PieceIndex(piece), blocks: BlockMask(blocks) }
}

pub(super) fn cancel(peer: u8, version: PolicyVersion, piece: u32, blocks: u64) -> Output {
    Output::Cancel { peer: key(peer), version, piece: PieceIndex(piece), blocks: BlockMask(blocks) }
}

pub(super) fn tell(peer: u8, version: PolicyVersion, blocks: &[(u32, u64)]) -> Output {
    Output::Tell { peer: key(peer), version, news: news(blocks) }
}

pub(super) fn serve(peer: u8, version: PolicyVersion, piece: u32, block: u32) -> Output {
    Output::Serve { peer: key(peer), version, piece: PieceIndex(piece), block }
}

pub(super) fn refuse(peer: u8, version: PolicyVersion) -> Output {
    Output::Refuse { peer: key(peer), version }
}

pub(super) fn complete(version: PolicyVersion) -> Output {
    Output::Complete(version)
}

pub(super) fn discard(version: PolicyVersion) -> Output {
    Output::Discard(version)
}

pub(super) fn cut_off(peer: u8) -> Output {
    Output::CutOff(key(peer))
}

pub(super) fn ask_neighbours(lost: &[u8]) -> Output {
    Output::AskNeighbours { lost: lost.iter().copied().map(key).collect() }
}

/// What was said besides questions to the learner.
pub(super) fn deeds(said: Vec<Output>) -> Vec<Output> {
    said.into_iter().filter(|output| !matches!(output, Output::AskNeighbours { .. })).collect()
}

/// The blocks of the one request that was said.
pub(super) fn blocks_of(said: &[Output]) -> u64 {
    match said {
        [Output::Request { blocks, .. }] => blocks.0,
        _ => panic!("not one request: {said:?}"),
    }
}
