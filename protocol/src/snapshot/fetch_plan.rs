//! Which pieces to fetch for a version, given what is on disk.
//!
//! A chunk can be had in three ways: it is here already; it is fetched whole; or it is made from an
//! older chunk at the same place and a delta, where the older chunk can itself be made so, through
//! as many versions as there are manifests. The cheapest way is taken, in bytes to be fetched.
//! Pure: the caller looks at the disk.

use crate::run::version::PolicyVersion;
use crate::snapshot::manifest::{Manifest, Piece, PieceIndex};
use crate::wire::content_id::{ChunkIndex, ContentId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What to fetch, and what to build of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchPlan {
    /// The pieces wanted of each version; versions of which nothing is wanted are left out.
    pub wanted: BTreeMap<PolicyVersion, BTreeSet<PieceIndex>>,
    /// Chunks to build, each after the one that it is built from.
    pub steps: Vec<BuildStep>,
    /// Length of everything wanted, in bytes.
    pub bytes: u64,
}

/// A chunk to build from an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildStep {
    /// The version whose manifest has the delta.
    pub version: PolicyVersion,
    /// The place of the chunk in that version, and in the one that it is built from.
    pub chunk: ChunkIndex,
    /// The chunk to build: name and length.
    pub target: Piece,
    /// The chunk that the delta applies to.
    pub base: ContentId,
    /// The delta to apply: name and length.
    pub delta: Piece,
}

impl FetchPlan {
    /// The cheapest way to the newest of `manifests` (validated; newest first), when `held` says
    /// which chunks and deltas are on disk. Without manifests there is nothing to do.
    pub fn of(manifests: &[Arc<Manifest>], mut held: impl FnMut(&ContentId) -> bool) -> Self {
        let mut recipe = Self::default();
        let Some(newest) = manifests.first() else { return recipe };
        for index in (0..newest.chunks.len() as u32).map(ChunkIndex) {
            let Some(target) = newest.piece(newest.chunk_piece(index)) else { continue };
            if held(&target.id) {
                continue;
            }
            match path(manifests, index, target.id, &mut held) {
                Some(path) if path.bytes < target.length => recipe.take(path, &mut held),
                _ => recipe.want(newest.version, newest.chunk_piece(index), target.length),
            }
        }
        recipe
    }

    fn take(&mut self, path: Path, held: &mut impl FnMut(&ContentId) -> bool) {
        for (piece, step) in path.steps {
            if !held(&step.delta.id) {
                self.want(step.version, piece, step.delta.length);
            }
            self.steps.push(step);
        }
    }

    fn want(&mut self, version: PolicyVersion, piece: PieceIndex, length: u64) {
        self.wanted.entry(version).or_default().insert(piece);
        self.bytes += length;
    }
}

/// A chain of deltas from a chunk on disk, oldest first.
struct Path {
    steps: Vec<(PieceIndex, BuildStep)>,
    bytes: u64,
}

/// The chain of deltas that ends in the chunk `id` at `index`. `manifests` is searched from its
/// newest on; each link goes to an older version, so chains end.
fn path(
    manifests: &[Arc<Manifest>],
    index: ChunkIndex,
    id: ContentId,
    held: &mut impl FnMut(&ContentId) -> bool,
) -> Option<Path> {
    if held(&id) {
        return Some(Path { steps: Vec::new(), bytes: 0 });
    }
    // The first manifest that has this chunk with a delta. Later ones, which share the chunk, name
    // no delta for it.
    let at = manifests.iter().position(|m| m.chunk_id(index) == Some(id) && m.delta(index).is_some())?;
    let manifest = &manifests[at];
    let entry = manifest.delta(index)?;
    let mut path = path(&manifests[at + 1..], index, entry.base, held)?;
    let delta = entry.piece();
    path.bytes += if held(&delta.id) { 0 } else { delta.length };
    let target = manifest.piece(manifest.chunk_piece(index))?;
    let step = BuildStep { version: manifest.version, chunk: index, target, base: entry.base, delta };
    path.steps.push((manifest.delta_piece(index), step));
    Some(path)
}

#[cfg(test)]
mod tests;
