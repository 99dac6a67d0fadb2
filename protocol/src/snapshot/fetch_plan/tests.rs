use super::*;
use crate::snapshot::manifest::tests::{manifest, with_deltas};
use proptest::prelude::*;
use std::collections::BTreeSet as Set;

const CHUNK: u64 = 16 << 10;

/// Versions 1 (a key frame) to `newest`, newest first; every chunk changes every time, by a
/// delta of `delta` bytes.
fn lineage(newest: u64, chunks: u8, delta: u32) -> Vec<Arc<Manifest>> {
    let later = (2..=newest).rev().map(|version| Arc::new(with_deltas(version, chunks, delta)));
    later.chain([Arc::new(manifest(1, chunks))]).collect()
}

fn held(ids: &Set<ContentId>) -> impl Fn(&ContentId) -> bool {
    |id| ids.contains(id)
}

#[test]
fn a_newcomer_fetches_whole_chunks() {
    let manifests = lineage(3, 4, 100);
    let recipe = FetchPlan::of(&manifests, |_| false);
    assert_eq!(recipe.steps, []);
    let all = [0, 1, 2, 3].map(PieceIndex).into_iter().collect();
    assert_eq!(recipe.wanted, [(PolicyVersion(3), all)].into());
    assert_eq!(recipe.bytes, manifests[0].total_bytes);
    assert_eq!(FetchPlan::of(&[], |_| true), FetchPlan::default());
}

#[test]
fn who_holds_the_version_before_fetches_deltas() {
    let manifests = lineage(3, 4, 100);
    let mut ids: Set<_> = manifests[1].chunks.iter().copied().collect();
    // One chunk is here already, another one's base is not, and one delta has come already.
    ids.insert(manifests[0].chunks[0]);
    ids.remove(&manifests[1].chunks[1]);
    ids.insert(manifests[0].deltas[2].unwrap().id);
    let recipe = FetchPlan::of(&manifests, held(&ids));
    let wanted = [PieceIndex(1), PieceIndex(4 + 3)].into_iter().collect();
    assert_eq!(recipe.wanted, [(PolicyVersion(3), wanted)].into());
    assert_eq!(recipe.bytes, CHUNK + 100);
    let built: Vec<_> = recipe.steps.iter().map(|step| (step.chunk, step.base, step.target.id)).collect();
    let step = |at: usize| (ChunkIndex(at as u32), manifests[1].chunks[at], manifests[0].chunks[at]);
    assert_eq!(built, [step(2), step(3)]);
}

#[test]
fn who_is_several_versions_behind_applies_their_deltas_in_order() {
    let manifests = lineage(4, 1, 100);
    let base = manifests[3].chunks[0];
    let recipe = FetchPlan::of(&manifests, |id| *id == base);
    let versions: Vec<_> = recipe.steps.iter().map(|step| step.version.0).collect();
    assert_eq!((versions, recipe.bytes), (vec![2, 3, 4], 300));
    assert!(recipe.wanted.values().all(|pieces| *pieces == [PieceIndex(1)].into_iter().collect()));
    assert!(recipe.steps.windows(2).all(|pair| pair[0].target.id == pair[1].base));
    // Without the manifest in the middle there is no such way.
    let gap = [manifests[0].clone(), manifests[2].clone(), manifests[3].clone()];
    let recipe = FetchPlan::of(&gap, |id| *id == base);
    assert_eq!((recipe.steps.len(), recipe.bytes), (0, manifests[0].total_bytes));
}

#[test]
fn deltas_that_add_up_to_more_than_the_chunk_are_passed_over() {
    let manifests = lineage(4, 1, 6_000);
    let (oldest, older) = (manifests[3].chunks[0], manifests[2].chunks[0]);
    assert_eq!(FetchPlan::of(&manifests, |id| *id == oldest).steps, [], "three deltas of 6000 bytes");
    assert_eq!(FetchPlan::of(&manifests, |id| *id == older).bytes, 12_000);
}

#[test]
fn a_chunk_that_rested_is_reached_through_the_version_that_changed_it() {
    // Version 3 shares its chunk with version 2, and version 4 changes it again.
    let mut three = with_deltas(3, 1, 100);
    let two = with_deltas(2, 1, 100);
    (three.chunks[0], three.deltas[0]) = (two.chunks[0], None);
    let mut four = with_deltas(4, 1, 100);
    four.deltas[0].as_mut().unwrap().base = two.chunks[0];
    let one = manifest(1, 1);
    let manifests = [four, three, two, one].map(Arc::new);
    let base = manifests[3].chunks[0];
    let versions: Vec<_> =
        FetchPlan::of(&manifests, |id| *id == base).steps.iter().map(|step| step.version.0).collect();
    assert_eq!(versions, [2, 4]);
}

proptest! {
    /// Following a recipe gives every chunk of the newest version, from nothing but what is held
    /// and what is fetched, never for more bytes than fetching whole chunks.
    #[test]
    fn a_recipe_can_be_followed(
        versions in 1u64..6,
        delta in 1u32..16_379,
        seed in proptest::collection::vec(any::<bool>(), 60),
        absent in proptest::collection::vec(any::<bool>(), 15),
    ) {
        let mut manifests = lineage(versions, 3, delta);
        for (at, absent) in absent.iter().enumerate() {
            let manifest = Arc::make_mut(&mut manifests[at % versions as usize]);
            if *absent && let Some(entry) = manifest.deltas.get_mut(at % 3) { *entry = None; }
        }
        let ids = manifests.iter().flat_map(|m| m.ids().collect::<Vec<_>>());
        let mut here: Set<ContentId> = ids.zip(&seed).filter(|(_, held)| **held).map(|(id, _)| id).collect();
        let missing: u64 = (0..3).map(PieceIndex).filter_map(|at| manifests[0].piece(at)).filter(|p| !here.contains(&p.id)).map(|p| p.length).sum();
        let recipe = FetchPlan::of(&manifests, held(&here));
        prop_assert!(recipe.bytes <= missing);
        let mut bytes = 0;
        for (version, pieces) in &recipe.wanted {
            let manifest = manifests.iter().find(|m| m.version == *version).unwrap();
            for piece in pieces.iter() {
                let piece = manifest.piece(*piece).unwrap();
                prop_assert!(here.insert(piece.id), "nothing is fetched that is here");
                bytes += piece.length;
            }
        }
        prop_assert_eq!(bytes, recipe.bytes);
        for step in &recipe.steps {
            prop_assert!(here.contains(&step.base) && here.contains(&step.delta.id));
            here.insert(step.target.id);
        }
        prop_assert!(manifests[0].chunks.iter().all(|id| here.contains(id)));
    }
}
