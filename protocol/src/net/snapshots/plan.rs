//! What to fetch for a version, and what to build from it, by what is on disk.

use crate::snapshot::blocks::BlockMask;
use crate::snapshot::fetch_plan::{BuildStep, FetchPlan};
use crate::snapshot::manifest::{Manifest, Piece, PieceIndex};
use crate::snapshot::piece_set::{Holdings, PieceSet};
use crate::wire::content_id::ContentId;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What one version's manifest asks to be fetched.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    pub(super) manifest: Arc<Manifest>,
    /// Blocks of it on disk.
    pub(super) have: Holdings,
    pub(super) wanted: PieceSet,
}

impl Fetch {
    /// Whether deltas are among what is wanted.
    pub(super) fn wants_deltas(&self) -> bool {
        self.wanted.iter().any(|piece| self.manifest.is_delta(piece))
    }

    /// Notes pieces that are whole on disk since.
    pub(super) fn gained(&mut self, since: &BTreeSet<ContentId>) {
        if since.is_empty() {
            return;
        }
        for index in (0..self.manifest.pieces()).map(PieceIndex) {
            if let Some(piece) = self.manifest.piece(index).filter(|piece| since.contains(&piece.id)) {
                self.have.insert(index, BlockMask::all(piece.blocks()));
            }
        }
    }
}

/// The way to a version.
#[derive(Debug)]
pub(super) struct DownloadPlan {
    /// Older versions of which deltas are needed first, oldest first, and the version itself.
    pub(super) fetches: Vec<Fetch>,
    /// Chunks to build, each after the one that it is built from.
    pub(super) steps: Vec<BuildStep>,
    /// What steps start from and is on disk already.
    pub(super) have: BTreeSet<ContentId>,
}

impl DownloadPlan {
    /// The cheapest way to the newest of `manifests` (newest first), where `held` says which blocks
    /// of a piece are on disk.
    pub(super) fn draw(manifests: &[Arc<Manifest>], held: impl Fn(&Piece) -> BlockMask) -> Self {
        let disk = Disk::new(held, manifests);
        let mut recipe = FetchPlan::of(manifests, |id| disk.holds(id));
        let newest = manifests.first().map(|newest| newest.version);
        let fetches = manifests.iter().rev().filter_map(|manifest| {
            let wanted = recipe.wanted.remove(&manifest.version);
            let wanted = match wanted {
                None if Some(manifest.version) != newest => return None,
                wanted => wanted.unwrap_or_default().into_iter().collect(),
            };
            Some(Fetch { manifest: manifest.clone(), have: disk.holdings(manifest), wanted })
        });
        let fetches = fetches.collect();
        let inputs = recipe.steps.iter().flat_map(|step| [step.base, step.delta.id]);
        let have = inputs.filter(|id| disk.holds(id)).collect();
        Self { fetches, steps: recipe.steps, have }
    }
}

/// What is on disk; whole pieces are looked up once each.
struct Disk<F> {
    held: F,
    known: BTreeMap<ContentId, Piece>,
    seen: RefCell<BTreeMap<ContentId, bool>>,
}

impl<F: Fn(&Piece) -> BlockMask> Disk<F> {
    fn new(held: F, manifests: &[Arc<Manifest>]) -> Self {
        let mut known = BTreeMap::new();
        for manifest in manifests {
            for index in (0..manifest.pieces()).map(PieceIndex) {
                let Some(piece) = manifest.piece(index) else { continue };
                known.insert(piece.id, piece);
                // A base has the length of the chunk in its place, and its own manifest may be forgotten.
                let chunk = manifest.chunk_of(index);
                if let (Some(delta), Some(whole)) =
                    (manifest.delta(chunk), manifest.piece(manifest.chunk_piece(chunk)))
                {
                    known.entry(delta.base).or_insert(Piece { id: delta.base, length: whole.length });
                }
            }
        }
        Self { held, known, seen: RefCell::default() }
    }

    fn holds(&self, id: &ContentId) -> bool {
        let look = || self.known.get(id).is_some_and(|p| (self.held)(p).len() == p.blocks());
        *self.seen.borrow_mut().entry(*id).or_insert_with(look)
    }

    /// Which blocks of a snapshot's pieces are here.
    fn holdings(&self, manifest: &Manifest) -> Holdings {
        let pieces = (0..manifest.pieces()).map(PieceIndex);
        pieces.filter_map(|index| Some((index, (self.held)(&manifest.piece(index)?)))).collect()
    }
}
