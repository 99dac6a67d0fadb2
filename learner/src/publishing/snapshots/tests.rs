use super::*;
use crate::common::testing::workload;
use echo_policy::model::weights::DType;
use echo_protocol::snapshot::fetch_plan::FetchPlan;
use echo_protocol::snapshot::manifest::PieceIndex;
use echo_protocol::wire::content_id::ChunkIndex;
use tempfile::TempDir;

/// f32 elements: twelve chunks of 16 KiB and a short one.
const ELEMENTS: usize = 50_000;
const CHUNK: usize = 16 << 10;

struct Learner {
    dir: TempDir,
    store: Arc<ChunkStore>,
    publisher: Publisher,
    workload: Workload,
    key: NodeKey,
}

impl Learner {
    fn new(keep_versions: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(ChunkStore::open(dir.path()).unwrap());
        let config = SnapshotSection { keep_versions, ..Default::default() };
        let publisher = Publisher::new(store.clone(), Vec::new(), config);
        Self { dir, store, publisher, workload: workload().0, key: NodeKey::from_secret([1; 32]) }
    }

    fn publish(&mut self, version: u64, policy: &[u8]) -> Publication {
        let half = policy.len() / 8 * 4;
        let tensor = |name: &str, bytes: &[u8]| {
            let (name, shape) = (name.to_owned(), vec![bytes.len() / 4]);
            Ok(RawTensor { name, dtype: DType::F32, shape, bytes: bytes.to_vec() })
        };
        let tensors = [tensor("a", &policy[..half]), tensor("b", &policy[half..])];
        let version = PolicyVersion(version);
        self.publisher.publish(&self.workload, &self.key, Epoch(1), version, tensors).unwrap()
    }
}

fn policy() -> Vec<u8> {
    (0..ELEMENTS).flat_map(|i| ((i as f32 * 0.37).sin() * 0.02).to_le_bytes()).collect()
}

/// The policy after an update that moves one element in a hundred of the chunks from `first` on.
fn updated(policy: &[u8], first: usize) -> Vec<u8> {
    let mut updated = policy.to_vec();
    (first * CHUNK..updated.len()).step_by(400).for_each(|at| updated[at] ^= 1);
    updated
}

fn policy_of(store: &ChunkStore, manifest: &Manifest) -> Vec<u8> {
    manifest.chunks.iter().flat_map(|id| store.read(id).unwrap()).collect()
}

#[test]
fn a_node_one_version_behind_follows_by_deltas_bit_for_bit() {
    let mut learner = Learner::new(3);
    let old = policy();
    let new = updated(&old, 5);
    let first = learner.publish(2, &old);
    let second = learner.publish(4, &new);
    let (base, manifest) = (first.manifest, second.manifest);
    assert_eq!((base.base, manifest.base), (None, Some(PolicyVersion(2))));
    let opened = second.signed.open_from(&learner.key.public()).unwrap();
    assert_eq!((opened.validate(), &opened), (Ok(()), &*manifest));

    let row = second.row;
    assert_eq!((row.published, row.full_bytes), (4, new.len() as u64));
    assert_eq!(row.unchanged, 5);
    assert_eq!((row.sparse + row.xor + row.full + row.unchanged) as usize, manifest.chunks.len());
    assert_eq!(row.full, 0);
    assert!(row.delta_bytes * 5 < row.full_bytes, "{} of {} bytes", row.delta_bytes, row.full_bytes);
    assert_eq!((first.row.full, first.row.delta_bytes), (13, old.len() as u64));

    // The node has the old version, and fetches what the recipe says.
    let dir = tempfile::tempdir().unwrap();
    let node = ChunkStore::open(dir.path()).unwrap();
    for chunk in old.chunks(CHUNK) {
        node.put(chunk).unwrap();
    }
    let recipe = FetchPlan::of(&[manifest.clone(), base], |id| node.read(id).is_ok());
    assert_eq!(recipe.bytes, row.delta_bytes);
    for piece in recipe.wanted.values().flatten().map(|index| manifest.piece(*index).unwrap()) {
        node.write(&piece.id, &learner.store.read(&piece.id).unwrap()).unwrap();
    }
    for step in &recipe.steps {
        node.apply(&step.delta, &step.base, &step.target.id, step.target.length).unwrap();
    }
    assert_eq!(policy_of(&node, &manifest), new);
}

#[test]
fn chunks_that_deltas_do_not_help_are_published_whole() {
    let mut learner = Learner::new(3);
    let old = policy();
    learner.publish(0, &old);
    // Noise in place of the third chunk; the fifth one's old bytes are gone, the sixth one's are damaged.
    let mut new = updated(&old, 2);
    let mut noise = [0; CHUNK];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    new[2 * CHUNK..3 * CHUNK].copy_from_slice(&noise);
    let file = |at: usize| {
        let name =
            echo_protocol::wire::content_id::ContentId::of(&old[at * CHUNK..(at + 1) * CHUNK]).to_string();
        learner.dir.path().join(&name[..2]).join(name)
    };
    std::fs::remove_file(file(4)).unwrap();
    std::fs::write(file(5), b"damaged").unwrap();
    let publication = learner.publish(1, &new);
    assert_eq!((publication.row.full, publication.row.unchanged), (3, 2));
    let manifest = publication.manifest;
    let has_delta = |at| manifest.delta(ChunkIndex(at)).is_some();
    assert_eq!([2, 3, 4, 5, 6].map(has_delta), [false, true, false, false, true]);
    assert_eq!(policy_of(&learner.store, &manifest), new);
}

#[test]
fn every_version_but_the_first_has_deltas_and_old_versions_go() {
    let mut learner = Learner::new(2);
    let mut policy = policy();
    let mut published = Vec::new();
    for version in 0..7 {
        published.push(learner.publish(version, &policy).manifest);
        policy = updated(&policy, 0);
        policy[version as usize] ^= 2;
    }
    let bases: Vec<_> = published.iter().map(|manifest| manifest.base.map(|base| base.0)).collect();
    assert_eq!(bases, [None, Some(0), Some(1), Some(2), Some(3), Some(4), Some(5)]);
    let held = |manifest: &Arc<Manifest>| {
        let pieces = (0..manifest.pieces()).filter_map(|index| manifest.piece(PieceIndex(index)));
        pieces.filter(|piece| !learner.store.held(piece).is_empty()).count()
    };
    // The seventh shares all chunks but the first with the fifth, and so on: only what nothing
    // else names is gone.
    assert_eq!((held(&published[6]), held(&published[5])), (26, 26));
    assert!(held(&published[4]) < 26 && held(&published[1]) < 26);
}

#[test]
fn a_resumed_learner_begins_with_a_key_frame_and_sweeps_what_it_did_not_write() {
    let mut learner = Learner::new(3);
    let (old, new) = (policy(), updated(&policy(), 0));
    let gone = learner.publish(2, &old).manifest;
    learner.publish(4, &new);
    let store = Arc::new(ChunkStore::open(learner.dir.path()).unwrap());
    learner.publisher = Publisher::new(store.clone(), Vec::new(), learner.publisher.config);
    let again = learner.publish(4, &new);
    assert_eq!(again.manifest.base, None);
    assert_eq!(policy_of(&store, &again.manifest), new);
    assert!(gone.chunks.iter().all(|id| store.read(id).is_err()));
    // The same version once more has no older one to start from.
    assert_eq!(learner.publish(4, &new).manifest.base, None);
}

#[test]
fn one_thread_and_several_make_the_same_manifest() {
    let manifest = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut learner = Learner::new(3);
            learner.publish(0, &policy());
            learner.publish(1, &updated(&policy(), 1)).manifest
        })
    };
    assert_eq!(manifest(1), manifest(5));
}
