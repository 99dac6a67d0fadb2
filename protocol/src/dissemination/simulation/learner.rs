//! The learner's part: naming neighbours.

use crate::dissemination::NeighbourRole;
use crate::wire::rng::Draws;

/// Neighbours of `node` among peers 0 (the source) to `alive.len()`: its parent and grandparent in
/// one of `chains` chains, and `mesh` others by chance, of whom the source is one. Dead peers and
/// those that this node lost are passed over.
pub(super) fn neighbours(
    node: usize,
    alive: &[bool],
    lost: &[usize],
    chains: usize,
    mesh: usize,
    draws: &mut Draws,
) -> Vec<(usize, NeighbourRole)> {
    let usable = |peer: usize| peer != node && alive[peer] && !lost.contains(&peer);
    let mut ancestors: Vec<usize> = Vec::new();
    let mut at = node;
    while at > 0 {
        at = at.saturating_sub(chains);
        if usable(at) || at == 0 {
            ancestors.push(at);
        }
    }
    let mut list: Vec<(usize, NeighbourRole)> = Vec::new();
    list.extend(ancestors.first().map(|peer| (*peer, NeighbourRole::Parent)));
    list.extend(ancestors.get(1).map(|peer| (*peer, NeighbourRole::Standby)));
    let mut others: Vec<usize> = (1..alive.len()).filter(|peer| usable(*peer)).collect();
    draws.shuffle(&mut others);
    others.insert(0, 0);
    others.retain(|peer| list.iter().all(|(named, _)| named != peer));
    list.extend(others.into_iter().take(mesh).map(|peer| (peer, NeighbourRole::Mesh)));
    list
}
