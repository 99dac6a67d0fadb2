//! What an installed policy takes of memory, as the system counts it in a process that does nothing else.

use std::env;
use std::process::Command;

use super::*;
use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::weights::{DType, expected_tensors};
use echo_protocol::run::charter::Charter;
use echo_protocol::snapshot::manifest::TensorType;
use echo_protocol::store::{SnapshotItem, write_snapshot};

/// Where the process that installs finds everything; not set in an ordinary run of the tests.
const HOME: &str = "ECHO_INSTALL_HOME";
/// The name of the test, by which it starts itself again.
const NAME: &str = concat!(
    "snapshots::install::tests::memory::",
    "a_policy_takes_the_memory_of_its_weights_and_hardly_any_of_it_is_its_own"
);

#[test]
fn a_policy_takes_the_memory_of_its_weights_and_hardly_any_of_it_is_its_own() {
    if let Some(home) = env::var_os(HOME) {
        return install(Path::new(&home));
    }
    let (dir, store, _) = home();
    let manifest = Signed::sign(&snapshot(&store), &testing::learner_key()).unwrap();
    fs::write(dir.path().join("manifest"), manifest.to_bytes()).unwrap();
    let mut apart = Command::new(env::current_exe().unwrap());
    apart.args(["--exact", NAME, "--nocapture", "--test-threads=1"]).env(HOME, dir.path());
    let done = apart.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}{done:?}");
}

/// Installs the snapshot and generates with it.
fn install(home: &Path) {
    let store = ChunkStore::open(&home.join("chunks")).unwrap();
    let images = Images::open(&home.join("images")).unwrap();
    let signed: Signed<Manifest> = Signed::from_bytes(&fs::read(home.join("manifest")).unwrap()).unwrap();
    let (manifest, workload) = (signed.open().unwrap(), workload());
    let size = manifest.total_bytes;
    assert!(size > 100 << 20, "{size}");

    let before = Memory::now();
    let installed = load(&store, &images, &manifest, &workload, &DeviceFallback::cpu()).unwrap();
    let loaded = Memory::now();
    let request = workload.request(OrderCounter(3), &installed.tokenizer).unwrap();
    let completions = Generation::start(installed.policy, vec![request]).unwrap().run().unwrap();
    assert!(completions[0].iter().all(|completion| !completion.tokens.is_empty()));
    let used = Memory::now();

    assert!(loaded.own < before.own + size / 8, "{before:?}, then {loaded:?}");
    assert!(used.own < before.own + size / 4, "{before:?}, then {used:?}");
    assert!(used.resident * 10 <= before.resident * 10 + size * 13, "{before:?}, then {used:?}");
}

fn model() -> ModelConfig {
    let sizes = TinySizes {
        vocab: 8192,
        hidden: 1024,
        layers: 4,
        heads: 16,
        kv_heads: 8,
        head_dim: 64,
        intermediate: 3072,
        positions: 64,
    };
    ModelConfig::tiny_qwen3(sizes).unwrap()
}

/// What the run would ask for with a larger model.
fn workload() -> NodeWorkload {
    let (run, mut charter) = Charter::open(&testing::charter()).unwrap();
    charter.model = model().to_json(DType::BF16);
    (charter.snapshot_type, charter.chunk_bytes) = (TensorType::Bf16, 1 << 20);
    NodeWorkload::new(run, &charter).unwrap()
}

fn snapshot(store: &ChunkStore) -> Manifest {
    let mut state = 1u64;
    let items = expected_tensors(&model()).into_iter().map(|spec| {
        let mut value = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Any sign and fraction, between 1/64 and 1/32.
            ((state >> 48) as u16 & 0x807f | 0x3c80).to_le_bytes()
        };
        SnapshotItem::Tensor {
            bytes: (0..spec.elements()).flat_map(|_| value()).collect(),
            name: spec.name,
            dtype: TensorType::Bf16,
            shape: spec.shape.into_iter().map(|side| side as u64).collect(),
        }
    });
    write_snapshot(store, testing::run_id(), PolicyVersion(1), 1 << 20, items).unwrap()
}

/// Bytes of memory that a process has.
#[derive(Debug)]
struct Memory {
    /// All that is in memory now.
    resident: u64,
    /// The part of it that no file holds as well.
    own: u64,
}

impl Memory {
    fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| {
            let rest = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            rest.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
        };
        Self { resident: field("VmRSS:"), own: field("RssAnon:") }
    }
}
