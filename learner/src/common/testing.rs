//! A tiny workload for the tests of this crate, and peers.

use crate::common::workload::Workload;
use crate::config::{ModelSection, RunConfig, RunSection, TaskEntry, TinySection};
use crate::fleet::{Fleet, FleetConfig, UNKNOWN_UPLINK};
use crate::intake::admission::{Admission, AdmissionTally};
use crate::intake::buffer::BufferLimits;
use crate::intake::coordinator::{Coordinator, CoordinatorConfig};
use crate::intake::filter::Filter;
use crate::intake::leases::LeaseConfig;
use crate::reputation::network::NetworkPrefix;
use crate::reputation::{Owners, RecordConfig};
use crate::server::SharedState;
use crate::storage::{MemoryStore, Store};
use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::weights::{DType, Weights};
use echo_policy::text::tokenizer::CharTokenizer;
use echo_protocol::control::requests::Peer;
use echo_protocol::dissemination::DisseminationMode;
use echo_protocol::run::charter::{Charter, DrawRule, RunId, Sampling, TaskSpec, TokenizerSpec};
use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::TensorType;
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_sandbox::task::files::TaskFiles;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A peer; greater numbers make greater keys.
pub(crate) fn key(number: u64) -> PublicKey {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    PublicKey::from_bytes(bytes)
}

/// A network, as the record of a peer in it keeps it.
pub(crate) fn network(number: u8) -> Option<NetworkPrefix> {
    Some(NetworkPrefix::of(Ipv4Addr::new(203, 0, number, 9).into()))
}

/// What the tasks of a learner of `workload` share, with a store in memory and without an audit.
/// Leases never run out.
pub(crate) fn shared(workload: Arc<Workload>, groups_per_update: usize) -> SharedState {
    shared_over(Arc::new(MemoryStore::default()), workload, groups_per_update)
}

/// The same over another store.
pub(crate) fn shared_over(
    store: Arc<dyn Store>,
    workload: Arc<Workload>,
    groups_per_update: usize,
) -> SharedState {
    let (run, key) = (workload.run, NodeKey::from_secret([1; 32]));
    let charter = Signed::sign(&workload.charter, &key).unwrap();
    let admission = Admission::new(run, &workload.charter, workload.mix.clone(), workload.clone());
    let coordinator = CoordinatorConfig {
        leases: LeaseConfig { run, lifetime_ms: 1 << 40, max_open_per_node: 1000 },
        limits: BufferLimits::default(),
        filter: Filter::default(),
        staleness: workload.charter.staleness,
        groups_per_update,
        record: RecordConfig::default(),
        by_lag: false,
    };
    let coordinator = Coordinator::open(
        store,
        coordinator,
        UnixMillis(0),
        PolicyVersion(0),
        AdmissionTally::default(),
        None,
    )
    .unwrap();
    let fleet = FleetConfig {
        mode: DisseminationMode::Echo,
        uplink: UNKNOWN_UPLINK,
        node_uplink: None,
        owners: Owners::Network,
        seed: [0; 32],
    };
    let fleet = Fleet::new(Peer { key: key.public(), addresses: Vec::new() }, fleet);
    SharedState::new(workload, charter, key, admission, coordinator, fleet, 3)
}

/// A one-layer model on one-digit sums, with random weights.
pub(crate) fn workload() -> (Workload, Weights) {
    workload_of(TaskSpec::new("chain_sum").with("digits", 1), 32, 4)
}

/// The same with responses of up to 32 tokens.
pub(crate) fn longer() -> (Workload, Weights) {
    workload_of(TaskSpec::new("chain_sum").with("digits", 1), 64, 32)
}

/// [`longer`], with tokens that race.
pub(crate) fn racing() -> (Workload, Weights) {
    let (workload, weights) = longer();
    let sampling = Sampling { draw: DrawRule::Race, ..workload.charter.sampling };
    let charter = Charter { sampling, ..workload.charter.clone() };
    let run = RunId::of(&Signed::sign(&charter, &NodeKey::from_secret([1; 32])).unwrap());
    (Workload::open(run, charter, Path::new(""), &TaskFiles::none()).unwrap(), weights)
}

/// The same model on a game of two turns.
pub(crate) fn two_turns() -> (Workload, Weights) {
    workload_of(two_turns_of(), 32, 4)
}

fn two_turns_of() -> TaskSpec {
    TaskSpec::new("guess_number").with("numbers", 3).with("turns", 2).with("largest", 20)
}

/// The same model, with more positions, on hold'em.
pub(crate) fn holdem() -> (Workload, Weights) {
    workload_of(TaskSpec::new("holdem").with("turns", 3), 256, 40)
}

/// The same model on `math` over these rows, with the default alphabet whatever they hold.
pub(crate) fn problems(rows: &str) -> (Workload, Weights) {
    workload_over("math", rows)
}

/// The same on `code`: the machine has to be able to run programs.
#[cfg(target_os = "linux")]
pub(crate) fn programs(rows: &str) -> (Workload, Weights) {
    workload_over("code", rows)
}

fn workload_over(task: &str, rows: &str) -> (Workload, Weights) {
    let mut files = TaskFiles::none();
    let data = Some(files.add(rows.as_bytes()));
    let task = TaskSpec { data, ..TaskSpec::new(task) };
    workload_with(task, &files, default_tokenizer(), Path::new(""), 32, 4)
}

/// The game of two turns for a policy that chats; its tokenizer is written to `home`.
pub(crate) fn chat(home: &Path) -> (Workload, Weights) {
    CharTokenizer::default().save_huggingface(home).unwrap();
    std::fs::write(home.join("chat_template.jinja"), CHAT_TEMPLATE).unwrap();
    workload_with(two_turns_of(), &TaskFiles::none(), TokenizerSpec::Chat, home, 32, 4)
}

/// A conversation of users' `<bos>words`, assistants' `words<eos>`, and `>` where the assistant is to speak.
pub(crate) const CHAT_TEMPLATE: &str = "{% for m in messages %}{% if m.role == 'user' %}<bos>{{ m.content }}{% else %}{{ m.content }}<eos>{% endif %}\
                                        {% endfor %}{% if add_generation_prompt %}>{% endif %}";

fn default_tokenizer() -> TokenizerSpec {
    TokenizerSpec::Characters { alphabet: String::new() }
}

fn workload_of(task: TaskSpec, positions: usize, max_new_tokens: u32) -> (Workload, Weights) {
    workload_with(task, &TaskFiles::none(), default_tokenizer(), Path::new(""), positions, max_new_tokens)
}

fn workload_with(
    task: TaskSpec,
    files: &TaskFiles,
    tokenizer: TokenizerSpec,
    home: &Path,
    positions: usize,
    max_new_tokens: u32,
) -> (Workload, Weights) {
    let sizes = TinySizes {
        vocab: 64,
        hidden: 16,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: 8,
        intermediate: 24,
        positions,
    };
    let model = ModelConfig::tiny_qwen3(sizes).unwrap();
    let learner = NodeKey::from_secret([1; 32]);
    let charter = Charter {
        name: "test".into(),
        learner: learner.public(),
        created: UnixMillis(1),
        model: model.to_json(DType::F32),
        tokenizer,
        tasks: vec![task],
        group_size: 4,
        sampling: Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_new_tokens,
            draw: Default::default(),
        },
        staleness: Staleness::new(3, None).unwrap(),
        snapshot_type: TensorType::F32,
        chunk_bytes: 16 << 10,
        precisions: vec![Default::default()],
        takeover: Default::default(),
        prompt: Default::default(),
    };
    let run = RunId::of(&Signed::sign(&charter, &learner).unwrap());
    let weights = Weights::random(&model, 7);
    (Workload::open(run, charter, home, files).unwrap(), weights)
}

/// The run file of a run in `dir`, of a one-layer model on sums, with random weights.
pub(crate) fn run_config(dir: PathBuf) -> RunConfig {
    let tiny = TinySection {
        hidden: 16,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: 8,
        intermediate: 24,
        positions: 32,
    };
    RunConfig {
        run: RunSection { name: "test".into(), dir, updates: 3, seed: 0 },
        model: ModelSection { path: None, tiny: Some(tiny), chat: None },
        tasks: vec![TaskEntry::new("chain_sum")],
        data: Default::default(),
        prompt: Default::default(),
        sampling: Default::default(),
        staleness: Default::default(),
        admission: Default::default(),
        buffer: Default::default(),
        train: Default::default(),
        warmup: None,
        evaluation: Default::default(),
        snapshot: Default::default(),
        checkpoints: Default::default(),
        fleet: Default::default(),
        record: Default::default(),
        verify: Default::default(),
        network: Default::default(),
        watch: Default::default(),
        pins: Default::default(),
    }
}
