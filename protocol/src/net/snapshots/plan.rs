//! What to fetch for a version, and what to build from it.
//!
//! [`Plan::draw`] looks at the disk; [`Builder`] says which deltas can be applied as pieces come in. The machine knows nothing of
//! deltas: to it they are pieces, and a chunk that was built is a piece gained.

use crate::content::{ChunkIndex, ContentId};
use crate::manifest::{Manifest, Piece, PieceIndex};
use crate::piece_set::{Holdings, PieceSet};
use crate::recipe::{Recipe, Step};
use crate::store::ChunkStore;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What one version's manifest asks to be fetched.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    pub(super) manifest: Arc<Manifest>,
    /// Groups of it on disk.
    pub(super) have: Holdings,
    pub(super) wanted: PieceSet,
}

impl Fetch {
    /// Whether deltas are among what is wanted.
    pub(super) fn wants_deltas(&self) -> bool {
        self.wanted.iter().any(|piece| piece.0 as usize >= self.manifest.chunks.len())
    }
}

/// The way to a version.
#[derive(Debug)]
pub(super) struct Plan {
    /// Older versions of which deltas are needed first, oldest first, and the version itself.
    pub(super) fetches: Vec<Fetch>,
    /// Chunks to build, each after the one that it is built from.
    pub(super) steps: Vec<Step>,
    /// What steps start from and is on disk already.
    pub(super) have: BTreeSet<ContentId>,
}

impl Plan {
    /// The cheapest way to the newest of `manifests` (newest first). Looks every piece up on disk: blocks.
    pub(super) fn draw(store: &ChunkStore, manifests: &[Arc<Manifest>]) -> Self {
        let disk = Disk::new(store, manifests);
        let mut recipe = Recipe::of(manifests, |id| disk.holds(id));
        let newest = manifests.first().map(|newest| newest.version);
        let fetches = manifests.iter().rev().filter_map(|manifest| {
            let wanted = recipe.wanted.remove(&manifest.version);
            let wanted = match wanted {
                None if Some(manifest.version) != newest => return None,
                wanted => wanted.unwrap_or_default().into_iter().collect(),
            };
            Some(Fetch { manifest: manifest.clone(), have: holdings(store, manifest), wanted })
        });
        let fetches = fetches.collect();
        let inputs = recipe.steps.iter().flat_map(|step| [step.base, step.delta.id]);
        let have = inputs.filter(|id| disk.holds(id)).collect();
        Self { fetches, steps: recipe.steps, have }
    }
}

/// Which groups of a snapshot's pieces are on disk.
fn holdings(store: &ChunkStore, manifest: &Manifest) -> Holdings {
    let pieces = (0..manifest.pieces()).map(PieceIndex);
    pieces.filter_map(|index| Some((index, store.held(&manifest.piece(index)?)))).collect()
}

/// Whole pieces on disk, looked up once each.
struct Disk<'a> {
    store: &'a ChunkStore,
    known: BTreeMap<ContentId, Piece>,
    seen: RefCell<BTreeMap<ContentId, bool>>,
}

impl<'a> Disk<'a> {
    fn new(store: &'a ChunkStore, manifests: &[Arc<Manifest>]) -> Self {
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
        Self { store, known, seen: RefCell::default() }
    }

    fn holds(&self, id: &ContentId) -> bool {
        let look = || self.known.get(id).is_some_and(|p| self.store.held(p).len() == p.groups());
        *self.seen.borrow_mut().entry(*id).or_insert_with(look)
    }
}

/// Chunks that are still to be built, and what they wait for.
#[derive(Debug, Default)]
pub(super) struct Builder {
    /// By their place in the plan, where each comes after its base, with how many of the two inputs are missing.
    waiting: BTreeMap<usize, (Step, usize)>,
    /// Steps that wait for a piece.
    needed_by: BTreeMap<ContentId, Vec<usize>>,
    /// Waiting steps that miss nothing.
    ready: BTreeSet<usize>,
    /// Being applied, by the chunk that they make.
    running: BTreeSet<ContentId>,
}

impl Builder {
    /// Follows a new plan. What is being applied goes on.
    pub(super) fn follow(&mut self, plan: &Plan) {
        self.clear();
        for (at, step) in plan.steps.iter().enumerate() {
            if self.running.contains(&step.target.id) {
                continue;
            }
            let missing: Vec<_> =
                [step.base, step.delta.id].into_iter().filter(|id| !plan.have.contains(id)).collect();
            if missing.is_empty() {
                self.ready.insert(at);
            }
            self.waiting.insert(at, (*step, missing.len()));
            missing.into_iter().for_each(|id| self.needed_by.entry(id).or_default().push(at));
        }
    }

    /// A piece is whole on disk.
    pub(super) fn whole(&mut self, id: &ContentId) {
        for at in self.needed_by.remove(id).unwrap_or_default() {
            if let Some((_, missing)) = self.waiting.get_mut(&at) {
                *missing -= 1;
                if *missing == 0 {
                    self.ready.insert(at);
                }
            }
        }
    }

    /// The next step whose inputs are there, if fewer than `limit` run. It counts as running from now on.
    pub(super) fn start(&mut self, limit: usize) -> Option<Step> {
        if self.running.len() >= limit {
            return None;
        }
        let at = self.ready.pop_first()?;
        let (step, _) = self.waiting.remove(&at)?;
        self.running.insert(step.target.id);
        Some(step)
    }

    /// A step has been carried out: its chunk is there.
    pub(super) fn built(&mut self, step: &Step) {
        self.running.remove(&step.target.id);
        self.whole(&step.target.id);
    }

    /// A step failed: nothing at its place of the snapshot is built any more.
    pub(super) fn failed(&mut self, step: &Step) {
        self.running.remove(&step.target.id);
        self.forget(step.chunk);
    }

    /// Nothing at this place of the snapshot is to be built any more.
    pub(super) fn forget(&mut self, chunk: ChunkIndex) {
        self.waiting.retain(|_, (waiting, _)| waiting.chunk != chunk);
        self.ready.retain(|at| self.waiting.contains_key(at));
    }

    /// Whether nothing is left to build.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.needed_by.clear();
        self.ready.clear();
    }
}
