//! Which version a simulated peer receives: what is half here is finished first, unless nobody
//! serves it any more.

use super::{SimulationEvent, World};
use crate::dissemination::{Dissemination, Input};
use crate::snapshot::manifest::PieceIndex;
use crate::snapshot::piece_set::PieceSet;

impl World {
    /// A peer hears of a version.
    pub(super) fn announced(&mut self, node: usize, version: usize) -> Result<(), String> {
        let here = &mut self.nodes[node];
        if here.machine.as_ref().and_then(Dissemination::progress).is_none() {
            return self.receive(node, version);
        }
        here.waiting = here.waiting.max(Some(version));
        Ok(())
    }

    /// What was received is here, or not to be had: the version heard of since is next.
    pub(super) fn go_on(&mut self, node: usize) {
        let epoch = self.nodes[node].epoch;
        if let Some(version) = self.nodes[node].waiting.take() {
            self.at(self.now, SimulationEvent::Receive { node, epoch, version });
        }
    }

    /// Lets a machine receive a version, if it is news. It wants chunks or, where it holds
    /// the version before, deltas.
    pub(super) fn receive(&mut self, node: usize, version: usize) -> Result<(), String> {
        let manifest = self.manifests[version - 1].clone();
        let here = &self.nodes[node];
        let newest = here.machine.as_ref().and_then(|machine| machine.kept().map(|m| m.version).max());
        if newest >= Some(manifest.version) {
            return Ok(());
        }
        let chunks = manifest.chunks.len() as u32;
        let have = here.disk.get(&manifest.version).cloned().unwrap_or_default();
        let before = manifest.base.is_some_and(|base| here.disk.contains_key(&base));
        let by_delta = before && !here.unapplied.contains(&manifest.version);
        let wish = |i: u32| {
            let delta = PieceIndex(i + chunks);
            let chunk = PieceIndex(i);
            if by_delta && have.get(chunk).is_empty() && manifest.piece(delta).is_some() {
                delta
            } else {
                chunk
            }
        };
        let wanted: PieceSet = (0..chunks).map(wish).collect();
        self.handle(node, Input::Announced { manifest, have, wanted })
    }
}
