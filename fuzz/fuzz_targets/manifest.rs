//! Manifests from strangers: decoding and checking must not panic, and what is sound has sound
//! ranges, pieces and fetch plans.
#![no_main]

use std::collections::BTreeSet;
use std::sync::Arc;

use echo_fuzz::reread;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::blocks::MAX_PIECE_BYTES;
use echo_protocol::snapshot::fetch_plan::FetchPlan;
use echo_protocol::snapshot::manifest::{DeltaEntry, MAX_MANIFEST_BYTES, Manifest, PieceIndex};
use echo_protocol::wire::content_id::{ChunkIndex, ContentId};
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::Signed;
use libfuzzer_sys::fuzz_target;

/// Most versions through which a fetch plan goes.
const MAX_VERSIONS: usize = 3;

fuzz_target!(|bytes: &[u8]| {
    let _ = Signed::<Manifest>::from_bytes(bytes);
    let Some(manifest) = reread::<Manifest>(bytes, MAX_MANIFEST_BYTES) else { return };
    check_signed(&manifest, bytes);
    if manifest.validate().is_err() {
        return;
    }
    check_ranges(&manifest);
    check_pieces(&manifest);
    let before = |manifest: &Arc<Manifest>| before(manifest).map(Arc::new);
    let versions: Vec<_> =
        std::iter::successors(Some(Arc::new(manifest)), before).take(MAX_VERSIONS).collect();
    for held in 0..4 {
        check_recipe(&versions, |id| id.as_bytes()[0] & 3 < held);
    }
});

/// What was signed is opened as it was, and after a flipped bit not at all, or as it was.
fn check_signed(manifest: &Manifest, bytes: &[u8]) {
    let key = NodeKey::from_secret([7; 32]);
    let Ok(signed) = Signed::sign(manifest, &key) else { return };
    assert_eq!(signed.open_from(&key.public()).as_ref().ok(), Some(manifest));
    let mut flipped = signed.to_bytes();
    // Anywhere, and the same for the same input.
    let at = u64::from_le_bytes(*ContentId::of(bytes).as_bytes().first_chunk().expect("a name has 32 bytes"));
    let place = (at >> 3) as usize % flipped.len();
    flipped[place] ^= 1 << (at & 7);
    let opened =
        Signed::<Manifest>::from_bytes(&flipped).ok().and_then(|signed| signed.open_from(&key.public()).ok());
    assert!(opened.is_none_or(|opened| opened == *manifest));
}

/// Chunks tile the snapshot, and so do files and tensors.
fn check_ranges(manifest: &Manifest) {
    let mut at = 0;
    for index in 0..manifest.chunks.len() as u32 {
        let range = manifest.chunk_range(ChunkIndex(index));
        assert!(range.start == at && !range.is_empty());
        at = range.end;
    }
    assert_eq!(at, manifest.total_bytes);
    let files = manifest.files.iter().map(|file| (file.offset, file.length));
    let tensors =
        manifest.tensors.iter().map(|tensor| (tensor.offset, tensor.length().expect("it was checked")));
    let mut entries: Vec<_> = files.chain(tensors).collect();
    entries.sort_unstable();
    let end = entries.into_iter().fold(0, |at, (offset, length)| {
        assert_eq!(at, offset);
        at + length
    });
    assert_eq!(end, manifest.total_bytes);
}

fn check_pieces(manifest: &Manifest) {
    let chunks = manifest.chunks.len();
    for index in (0..manifest.pieces() + 1).map(PieceIndex) {
        let at = index.0 as usize;
        let delta =
            at.checked_sub(chunks).and_then(|at| manifest.deltas.get(at)).is_some_and(Option::is_some);
        let piece = manifest.piece(index);
        assert_eq!(piece.is_some(), at < chunks || delta);
        assert!(piece.is_none_or(|piece| (1..=MAX_PIECE_BYTES).contains(&piece.length)));
        assert_eq!(manifest.is_delta(index), at >= chunks);
    }
    assert!(manifest.piece(PieceIndex(u32::MAX)).is_none());
}

/// The version that the deltas start from, with deltas at the same places that start from one more.
fn before(manifest: &Manifest) -> Option<Manifest> {
    let version = manifest.base?;
    let base = version.0.checked_sub(1).map(PolicyVersion);
    let old = |(delta, chunk): (&Option<DeltaEntry>, &ContentId)| delta.map_or(*chunk, |delta| delta.base);
    let chunks: Vec<ContentId> = manifest.deltas.iter().zip(&manifest.chunks).map(old).collect();
    let deltas = manifest.deltas.iter().zip(&chunks).map(|(delta, chunk)| {
        let base = ContentId::of(chunk.as_bytes());
        delta.map(|delta| DeltaEntry { base, id: ContentId::of(delta.id.as_bytes()), length: delta.length })
    });
    let deltas = if base.is_some() { deltas.collect() } else { Vec::new() };
    let before = Manifest { version, base, chunks, deltas, ..manifest.clone() };
    assert_eq!(before.validate(), Ok(()));
    Some(before)
}

/// Whoever follows a fetch plan has every chunk of the newest version in the end, and fetches
/// what the plan says.
fn check_recipe(versions: &[Arc<Manifest>], held: impl Fn(&ContentId) -> bool) {
    let recipe = FetchPlan::of(versions, &held);
    let (mut here, mut bytes) = (BTreeSet::new(), 0);
    for (version, pieces) in &recipe.wanted {
        let manifest =
            versions.iter().find(|manifest| manifest.version == *version).expect("it is one of these");
        for index in pieces {
            let piece = manifest.piece(*index).expect("what is wanted exists");
            assert!(!held(&piece.id));
            here.insert(piece.id);
            bytes += piece.length;
        }
    }
    assert_eq!(bytes, recipe.bytes);
    for step in &recipe.steps {
        let ready = |id| held(id) || here.contains(id);
        assert!(ready(&step.base) && ready(&step.delta.id));
        here.insert(step.target.id);
    }
    assert!(versions[0].chunks.iter().all(|id| held(id) || here.contains(id)));
    let whole: u64 = versions[0]
        .chunks
        .iter()
        .zip(0..)
        .filter(|(id, _)| !held(id))
        .map(|(_, index)| {
            let range = versions[0].chunk_range(ChunkIndex(index));
            range.end - range.start
        })
        .sum();
    assert!(recipe.bytes <= whole);
}
