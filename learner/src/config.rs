//! The run file: everything that an operator decides about a run.

mod buffer;
mod filter;
mod staleness;
mod watch;

use crate::batch::MAX_SEQUENCES;
use crate::buffer::MAX_BATCH_GROUPS;
use crate::checkpoint::{DEFAULT_KEEP, MAX_KEEP};
use crate::device::DeviceChoice;
use crate::filter::Filter;
use crate::objective::{Choice, ObjectiveError, Preset};
use crate::optimizer::{Guard, OptimizerError};
use crate::publisher::MAX_KEEP_VERSIONS;
use crate::schedule::{Schedule, ScheduleError};
use echo_policy::config::TinySizes;
use echo_policy::decoder::{Activations, Compute};
use echo_protocol::charter::{Sampling, TaskSpec};
use echo_protocol::manifest::TensorType;
use echo_protocol::rate::BytesPerSec;
use echo_protocol::relay::Mode;
use echo_protocol::staleness::{Staleness, StalenessError};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub use buffer::BufferSection;
pub use filter::FilterSection;
pub use staleness::{DEFAULT_BUDGET, StalenessSection};
pub use watch::WatchSection;

/// Longest run file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A run file, as read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// Name, place and length of the run.
    pub run: RunSection,
    /// Where the model comes from.
    pub model: ModelSection,
    /// The task mix.
    #[serde(rename = "task")]
    pub tasks: Vec<TaskSpec>,
    /// How rollouts are sampled.
    #[serde(default)]
    pub sampling: SamplingSection,
    /// S, κ and η.
    #[serde(default)]
    pub staleness: StalenessSection,
    /// How much may wait to be trained on.
    #[serde(default)]
    pub buffer: BufferSection,
    /// How the policy is trained.
    #[serde(default)]
    pub train: TrainSection,
    /// The supervised start, if there is one.
    pub warmup: Option<WarmupSection>,
    /// How progress is measured.
    #[serde(default)]
    pub evaluation: EvaluationSection,
    /// How snapshots are published.
    #[serde(default)]
    pub snapshot: SnapshotSection,
    /// Where checkpoints are.
    #[serde(default)]
    pub checkpoints: CheckpointsSection,
    /// How work is handed out.
    #[serde(default)]
    pub fleet: FleetSection,
    /// Where the learner listens and whom it asks.
    #[serde(default)]
    pub network: NetworkSection,
    /// Where its metrics can be seen.
    #[serde(default)]
    pub watch: WatchSection,
}

/// `[run]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSection {
    /// A name for people.
    pub name: String,
    /// The run directory; relative paths are relative to the run file.
    pub dir: PathBuf,
    /// Updates in all.
    pub updates: u64,
    /// Seed of the random starting weights.
    #[serde(default)]
    pub seed: u64,
}

/// `[model]`: exactly one of the two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    /// A Hugging Face directory with weights and tokenizer.
    pub path: Option<PathBuf>,
    /// A small model of the Qwen3 form with random weights and the character tokenizer.
    pub tiny: Option<TinySection>,
}

/// `[model.tiny]`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TinySection {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Width of the MLP.
    pub intermediate: usize,
    /// Longest sequence, in tokens.
    pub positions: usize,
}

/// `[sampling]`
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingSection {
    /// G: responses to each prompt.
    pub group_size: u32,
    /// Softmax temperature.
    pub temperature: f32,
    /// Nucleus mass; 1 is off.
    pub top_p: f32,
    /// Most likely tokens kept; 0 is off.
    pub top_k: u32,
    /// Longest response in tokens; left out, what the tasks' longest answer needs.
    pub max_new_tokens: Option<u32>,
}

/// `[train]`
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainSection {
    /// The objective and its settings.
    pub objective: Choice,
    /// Work orders (prompts) in a batch: R = this × G trajectories.
    pub groups_per_update: usize,
    /// Optimizer steps of an update, each on its own share of the batch's groups (AReaL's PPO minibatches).
    pub minibatches: usize,
    /// The learning rate, by optimizer step.
    pub schedule: Schedule,
    /// AdamW's decoupled weight decay.
    pub weight_decay: f64,
    /// Largest global gradient norm.
    pub max_grad_norm: f64,
    /// Tokens in one forward pass, at most; a batch is split to stay below. Memory grows with this, and with the longest
    /// sequence (with EchoClip, the longest group) where that is longer.
    pub micro_batch_tokens: usize,
    /// What is held in memory between forward and backward: `keep`, or `recompute` for less memory and a third more computing.
    pub activations: Activations,
    /// Where the policy is trained: `auto`, `cpu`, `cuda` or `cuda:N`.
    pub device: DeviceChoice,
    /// Precision of matrix products: `f32`, or `bf16` on a GPU.
    pub compute: Compute,
    /// Updates in a row without a step, after which the run stops.
    pub max_skipped: u32,
    /// Which gradients are not stepped on.
    pub guard: Guard,
    /// Which groups are not trained on.
    pub filter: FilterSection,
}

/// `[warmup]`: supervised updates on the tasks' own solutions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmupSection {
    /// Updates.
    pub updates: u64,
    /// Examples in a batch.
    pub batch: usize,
    /// Learning rate.
    pub learning_rate: f64,
    /// Ends the warm-up early, once this share of fresh orders is answered right; left out, all updates are made.
    pub until_accuracy: Option<f64>,
}

/// `[evaluation]`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationSection {
    /// Held-out orders, one response each at the run's sampling settings.
    pub orders: u64,
    /// Updates between evaluations; 0: at the start and at the end.
    pub every: u64,
}

/// `[snapshot]`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotSection {
    /// Element type of published tensors: `f32`, `bf16` or `f16`.
    pub dtype: TensorType,
    /// Size of a chunk in bytes.
    pub chunk_bytes: u32,
    /// K: published versions that are kept, so that nodes which hold any of them need only deltas.
    pub keep_versions: usize,
}

/// `[checkpoints]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointsSection {
    /// A directory (relative paths are relative to the run file), or `s3://BUCKET/PREFIX`; left out, `checkpoints` in the run directory.
    pub store: Option<String>,
    /// How many are kept.
    pub keep: usize,
}

/// `[fleet]`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetSection {
    /// B̂w: a node's uplink; left out, the median of those that nodes declare or others measure. ⌊B0/B̂w⌋ chains are built.
    pub node_uplink: Option<BytesPerSec>,
    /// Seconds until an order that was leased and not delivered is leased again.
    pub lease_s: u64,
    /// Most orders that one node holds at once.
    pub orders_per_node: u32,
}

/// `[network]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSection {
    /// Multiaddresses to listen on.
    pub listen: Vec<String>,
    /// Multiaddresses at which others reach the learner, where they differ (a forwarded port).
    pub external: Vec<String>,
    /// How snapshots are spread: `echo` (chains and a mesh), `chain` (ECHO-2's chains alone) or `star` (everyone from the learner).
    pub dissemination: Mode,
    /// B0: most bytes a second that the learner sends, over everything; left out, there is no cap, and chains are counted as if it were
    /// 100 Mbit/s.
    pub max_upload: Option<BytesPerSec>,
    /// Most bytes a second that the learner receives.
    pub max_download: Option<BytesPerSec>,
    /// A signed peer list.
    pub peers: Option<PathBuf>,
    /// The key that must have signed it, in hexadecimal; left out, the list's own signer is trusted.
    pub list_key: Option<String>,
}

impl Default for SamplingSection {
    fn default() -> Self {
        Self { group_size: 16, temperature: 1.0, top_p: 1.0, top_k: 0, max_new_tokens: None }
    }
}

impl Default for TrainSection {
    fn default() -> Self {
        Self {
            objective: Choice::default(),
            groups_per_update: 16,
            minibatches: 1,
            schedule: Schedule::constant(1e-6, 10),
            weight_decay: 0.0,
            max_grad_norm: 1.0,
            micro_batch_tokens: 16 << 10,
            activations: Activations::Keep,
            device: DeviceChoice::default(),
            compute: Compute::default(),
            max_skipped: 20,
            guard: Guard::default(),
            filter: FilterSection::default(),
        }
    }
}

impl TrainSection {
    /// The filter that the settings come to.
    #[must_use]
    pub fn filter(&self) -> Filter {
        let dynamic = self.filter.dynamic.unwrap_or(self.objective.preset == Preset::Dapo);
        let echo_clip = self.objective.objective.echo_clip.is_some();
        Filter { no_signal: dynamic, echo_clip, pass_rate: self.filter.pass_rate }
    }
}

impl Default for EvaluationSection {
    fn default() -> Self {
        Self { orders: 512, every: 0 }
    }
}

impl Default for SnapshotSection {
    fn default() -> Self {
        Self { dtype: TensorType::Bf16, chunk_bytes: 4 << 20, keep_versions: 3 }
    }
}

impl Default for CheckpointsSection {
    fn default() -> Self {
        Self { store: None, keep: DEFAULT_KEEP }
    }
}

impl Default for FleetSection {
    fn default() -> Self {
        Self { node_uplink: None, lease_s: 600, orders_per_node: 64 }
    }
}

impl Default for NetworkSection {
    fn default() -> Self {
        let listen = ["/ip4/0.0.0.0/udp/4001/quic-v1", "/ip4/0.0.0.0/tcp/4001"].map(str::to_owned).to_vec();
        Self {
            listen,
            external: Vec::new(),
            dissemination: Mode::Echo,
            max_upload: None,
            max_download: None,
            peers: None,
            list_key: None,
        }
    }
}

/// What is wrong with a run file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("run file {path}: {cause}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// It is not what a run file looks like.
    #[error("run file {path}: {cause}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, field and what is allowed.
        cause: String,
    },
    /// Neither or both sources of a model.
    #[error(
        "[model] needs exactly one of `path = \"DIR\"` (a Hugging Face directory) and a table [model.tiny]"
    )]
    Model,
    /// A number outside its domain.
    #[error("{field} = {found}: {rule}")]
    Number {
        /// Which field.
        field: &'static str,
        /// What it is.
        found: u64,
        /// What it has to be.
        rule: &'static str,
    },
    /// A setting outside its domain.
    #[error("{field} = {found}: {rule}")]
    Setting {
        /// Which field.
        field: &'static str,
        /// What it is.
        found: String,
        /// What it has to be.
        rule: &'static str,
    },
    /// [train.guard]
    #[error("[train]: {0}")]
    Guard(#[from] OptimizerError),
    /// [staleness]
    #[error("[staleness]: {0}")]
    Staleness(#[from] StalenessError),
    /// Numbers beside a mode that decides them.
    #[error("[staleness] mode = \"{mode}\" decides {setting} itself: leave one of the two out")]
    StalenessMode {
        /// The mode.
        mode: &'static str,
        /// What it decides.
        setting: &'static str,
    },
    /// [train.objective]
    #[error("[train.objective]: {0}")]
    Objective(#[from] ObjectiveError),
    /// [train.schedule]
    #[error("[train.schedule]: {0}")]
    Schedule(#[from] ScheduleError),
}

impl RunConfig {
    /// Reads and checks a run file; its relative paths become relative to the file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let read = |e: std::io::Error| ConfigError::Read { path: path.to_owned(), cause: e.to_string() };
        if std::fs::metadata(path).map_err(read)?.len() > MAX_FILE_BYTES {
            return Err(ConfigError::Read { path: path.to_owned(), cause: "longer than 1 MiB".into() });
        }
        let text = std::fs::read_to_string(path).map_err(read)?;
        let mut config = Self::parse(&text)
            .map_err(|e| ConfigError::Parse { path: path.to_owned(), cause: e.to_string() })?;
        let base = path.parent().unwrap_or(Path::new(""));
        config.run.dir = base.join(&config.run.dir);
        config.model.path = config.model.path.map(|p| base.join(p));
        config.network.peers = config.network.peers.map(|p| base.join(p));
        config.checkpoints.resolve(|path| Ok::<_, ConfigError>(base.join(path)))?;
        config.validate()?;
        Ok(config)
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Checks everything that can be checked without opening the model.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.model.path.is_some() == self.model.tiny.is_some() {
            return Err(ConfigError::Model);
        }
        self.staleness()?;
        self.train.objective.objective.validate()?;
        self.train.schedule.validate()?;
        self.train.guard.validate()?;
        self.train.filter.validate()?;
        self.watch.validate()?;
        let above_zero = |field, found: u64| {
            let rule = "it has to be at least 1";
            if found > 0 { Ok(()) } else { Err(ConfigError::Number { field, found, rule }) }
        };
        above_zero("run.updates", self.run.updates)?;
        above_zero("train.groups_per_update", self.train.groups_per_update as u64)?;
        above_zero("train.minibatches", self.train.minibatches as u64)?;
        above_zero("train.micro_batch_tokens", self.train.micro_batch_tokens as u64)?;
        above_zero("train.max_skipped", u64::from(self.train.max_skipped))?;
        above_zero("evaluation.orders", self.evaluation.orders)?;
        let (groups, responses) = (self.train.groups_per_update, self.sampling.group_size as usize);
        if groups > MAX_BATCH_GROUPS || groups.saturating_mul(responses) > MAX_SEQUENCES {
            let (field, found) = ("train.groups_per_update", groups as u64);
            let rule = "at most 16384, and at most 65536 responses in a batch";
            return Err(ConfigError::Number { field, found, rule });
        }
        self.buffer.validate(groups)?;
        if !(1..=MAX_KEEP_VERSIONS).contains(&self.snapshot.keep_versions) {
            let (field, found) = ("snapshot.keep_versions", self.snapshot.keep_versions as u64);
            return Err(ConfigError::Number { field, found, rule: "it has to be 1 to 16" });
        }
        if !(1..=MAX_KEEP).contains(&self.checkpoints.keep) {
            let (field, found) = ("checkpoints.keep", self.checkpoints.keep as u64);
            return Err(ConfigError::Number { field, found, rule: "it has to be 1 to 1000" });
        }
        above_zero("fleet.lease_s", self.fleet.lease_s)?;
        above_zero("fleet.orders_per_node", u64::from(self.fleet.orders_per_node))?;
        match &self.warmup {
            Some(warmup) => above_zero("warmup.batch", warmup.batch as u64),
            None => Ok(()),
        }
    }

    /// The staleness policy.
    pub fn staleness(&self) -> Result<Staleness, ConfigError> {
        self.staleness.policy()
    }
}

impl CheckpointsSection {
    /// Replaces a directory by what `change` makes of it; URLs stay.
    pub(crate) fn resolve<E>(&mut self, change: impl FnOnce(&Path) -> Result<PathBuf, E>) -> Result<(), E> {
        if let Some(store) = self.store.as_mut().filter(|store| !store.contains("://")) {
            *store = change(Path::new(store))?.to_string_lossy().into_owned();
        }
        Ok(())
    }
}

impl SamplingSection {
    /// The charter's form, with `longest` tokens where the file leaves the length out.
    pub fn charter(&self, longest: u32) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            max_new_tokens: self.max_new_tokens.unwrap_or(longest),
        }
    }
}

impl TinySection {
    /// The model's sizes with a vocabulary of `vocab` tokens.
    pub fn sizes(&self, vocab: usize) -> TinySizes {
        let Self { hidden, layers, heads, kv_heads, head_dim, intermediate, positions } = *self;
        TinySizes { vocab, hidden, layers, heads, kv_heads, head_dim, intermediate, positions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [run]
        name = "addition"
        dir = "out"
        updates = 500
        [model.tiny]
        hidden = 128
        layers = 3
        heads = 4
        kv_heads = 2
        head_dim = 32
        intermediate = 384
        positions = 64
        [[task]]
        name = "chain_sum"
        [train]
        objective = { name = "gepo" }
        schedule = { peak = 1e-4, warmup = 10, decay = { shape = "constant" } }
        [warmup]
        updates = 300
        batch = 64
        learning_rate = 1e-3
    "#;

    #[test]
    fn a_short_file_is_enough_and_paths_are_relative_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.toml");
        std::fs::write(&path, FILE).unwrap();
        let config = RunConfig::load(&path).unwrap();
        assert_eq!(config.run.dir, dir.path().join("out"));
        assert_eq!(config.staleness().unwrap(), Staleness::new(3, Some(2)).unwrap());
        assert_eq!(config.train.groups_per_update, 16);
        assert_eq!(config.checkpoints, CheckpointsSection { store: None, keep: 3 });
        let stored = |store: &str| {
            std::fs::write(&path, format!("{FILE}\n[checkpoints]\nstore = \"{store}\"")).unwrap();
            RunConfig::load(&path).unwrap().checkpoints.store.unwrap()
        };
        assert_eq!(PathBuf::from(stored("kept")), dir.path().join("kept"));
        assert_eq!(stored("s3://bucket/run"), "s3://bucket/run");
        assert_eq!(RunConfig::parse(&toml::to_string(&config).unwrap()).unwrap(), config);
    }

    #[test]
    fn mistakes_are_named() {
        let refused = |from: &str, to: &str| {
            let changed = FILE.replace(from, to);
            assert_ne!(changed, FILE);
            let parsed = RunConfig::parse(&changed).map_err(|e| e.to_string());
            parsed.and_then(|config| config.validate().map_err(|e| e.to_string())).unwrap_err()
        };
        assert!(refused("updates = 500", "updates = 0").contains("run.updates"));
        let snapshot = |option: &str| refused("[warmup]", &format!("[snapshot]\n{option}\n[warmup]"));
        assert!(snapshot("keep_versions = 0").contains("snapshot.keep_versions"));
        assert!(snapshot("keep_versions = 17").contains("1 to 16"));
        let buffer = |option: &str| refused("[warmup]", &format!("[buffer]\n{option}\n[warmup]"));
        assert!(buffer("max_groups = 15").contains("buffer.max_groups"));
        assert!(buffer("max_bytes = 1000000").contains("buffer.max_bytes"));
        assert!(refused("[warmup]", "[checkpoints]\nkeep = 0\n[warmup]").contains("checkpoints.keep"));
        assert!(refused("name = \"gepo\"", "name = \"gpo\"").contains("gpo"));
        assert!(refused("batch = 64", "batch = 64\nlerning_rate = 1").contains("lerning_rate"));
        assert!(refused("[model.tiny]", "[model]\npath = \"x\"\n[model.tiny]").contains("exactly one"));
        assert!(refused("peak = 1e-4", "peak = -1.0").contains("schedule"));
        let train = |option: &str| refused("[train]", &format!("[train]\n{option}"));
        assert!(train("max_skipped = 0").contains("train.max_skipped"));
        assert!(train("guard = { max_norm_ratio = 0.5 }").contains("guard.max_norm_ratio"));
        assert!(train("filter = { pass_rate = [0.9, 0.1] }").contains("train.filter.pass_rate"));
        assert!(train("device = \"gpu\"").contains("cuda:N"));
        assert!(train("compute = \"f16\"").contains("bf16"));
        let watch = |option: &str| refused("[warmup]", &format!("[watch]\n{option}\n[warmup]"));
        assert!(watch("peak_flops = -1.0").contains("watch.peak_flops"));
        assert!(watch("listen = \"everywhere\"").contains("socket address"));
    }

    #[test]
    fn dynamic_sampling_belongs_to_dapo() {
        let filter = |train: &str| toml::from_str::<TrainSection>(train).unwrap().filter();
        assert_eq!(filter(""), Filter::default());
        assert!(filter("objective = { name = 'dapo' }").no_signal);
        assert!(!filter("objective = { name = 'dapo' }\nfilter = { dynamic = false }").no_signal);
        let echo =
            "objective = { name = 'grpo', echo_clip = { lambda = 0.001 } }\nfilter = { dynamic = true }";
        assert_eq!(filter(echo), Filter { no_signal: true, echo_clip: true, pass_rate: None });
    }
}
