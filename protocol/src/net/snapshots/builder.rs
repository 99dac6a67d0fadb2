//! Which deltas can be applied as pieces come in.

use super::plan::DownloadPlan;
use crate::snapshot::fetch_plan::BuildStep;
use crate::wire::content_id::{ChunkIndex, ContentId};
use std::collections::{BTreeMap, BTreeSet};

/// Chunks that are still to be built, and what they wait for.
#[derive(Debug, Default)]
pub(super) struct Builder {
    /// By their place in the plan, where each comes after its base, with how many of the
    /// two inputs are missing.
    waiting: BTreeMap<usize, (BuildStep, usize)>,
    /// Steps that wait for a piece.
    needed_by: BTreeMap<ContentId, Vec<usize>>,
    /// Steps by the place in the snapshot at which they build.
    building_at: BTreeMap<ChunkIndex, Vec<usize>>,
    /// Waiting steps that miss nothing.
    ready: BTreeSet<usize>,
    /// Being applied, by the chunk that they make.
    running: BTreeSet<ContentId>,
}

impl Builder {
    /// Follows a new plan; the pieces in `since` became whole after it looked at the disk. What is
    /// being applied goes on.
    pub(super) fn follow(&mut self, plan: &DownloadPlan, since: &BTreeSet<ContentId>) {
        self.clear();
        let here = |id: &ContentId| plan.have.contains(id) || since.contains(id);
        for (at, step) in plan.steps.iter().enumerate() {
            if since.contains(&step.target.id) || self.running.contains(&step.target.id) {
                continue;
            }
            let missing: Vec<_> = [step.base, step.delta.id].into_iter().filter(|id| !here(id)).collect();
            if missing.is_empty() {
                self.ready.insert(at);
            }
            self.waiting.insert(at, (*step, missing.len()));
            self.building_at.entry(step.chunk).or_default().push(at);
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
    pub(super) fn start(&mut self, limit: usize) -> Option<BuildStep> {
        if self.running.len() >= limit {
            return None;
        }
        let at = self.ready.pop_first()?;
        let (step, _) = self.waiting.remove(&at)?;
        self.running.insert(step.target.id);
        Some(step)
    }

    /// A step has been carried out, or has failed.
    pub(super) fn ended(&mut self, step: &BuildStep) {
        self.running.remove(&step.target.id);
    }

    /// Nothing at this place of the snapshot is to be built any more.
    pub(super) fn forget(&mut self, chunk: ChunkIndex) {
        for at in self.building_at.remove(&chunk).unwrap_or_default() {
            self.waiting.remove(&at);
            self.ready.remove(&at);
        }
    }

    /// Whether nothing is left to build.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Nothing is to be built any more. What is being applied goes on.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.needed_by.clear();
        self.building_at.clear();
        self.ready.clear();
    }
}
