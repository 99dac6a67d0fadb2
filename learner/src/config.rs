//! The run file: everything that an operator decides about a run.
//!
//! Options stand beside what they configure (`options.rs` in each folder). This folder composes
//! them, adds what founding alone reads (run, model, tasks, sampling, staleness, warm-up), and
//! checks what concerns several of them. It imports the folders whose options it composes. Only
//! `founding`, `run` and `commands` import it.
//!
//! ```text
//! run.toml ─> RunConfig::load
//!     ├─ overrides   `--set`, and serde: unknown fields are refused
//!     ├─ resolve     relative paths, from the run file's directory
//!     └─ problems    each part's own checks, then what several options have to agree on
//! ```

mod error;
mod model;
mod overrides;
mod problems;
mod prompt;
mod run;
mod sampling;
mod staleness;
mod tasks;
mod warmup;

use crate::common::option_error::OptionError;
use crate::storage::hub::{Pin, is_hub_name};
use echo_protocol::run::staleness::Staleness;
use echo_sandbox::tasks::wasm;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub use crate::fleet::options::FleetSection;
pub use crate::intake::admission::options::AdmissionSection;
pub use crate::intake::buffer::options::BufferSection;
pub use crate::intake::filter::options::FilterSection;
pub use crate::publishing::checkpoint::options::CheckpointsSection;
pub use crate::publishing::options::SnapshotSection;
pub use crate::reputation::options::RecordSection;
pub use crate::server::options::NetworkSection;
pub use crate::telemetry::options::WatchSection;
pub use crate::training::evaluation::options::{EvaluationSection, EvaluationSet, Place};
pub use crate::training::options::TrainSection;
pub use crate::training::precision_weights::PrecisionWeights;
pub use crate::verification::panel::options::VerifySection;
pub use error::RunFileError;
pub use model::{ModelSection, TinySection};
pub use overrides::Setting;
pub use prompt::PromptSection;
pub use run::RunSection;
pub use sampling::SamplingSection;
pub use staleness::{DEFAULT_BUDGET, StalenessSection};
pub use tasks::TaskEntry;
pub use warmup::WarmupSection;

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
    /// The task mix: a name, names with weights, or tables.
    #[serde(rename = "task", deserialize_with = "tasks::read")]
    pub tasks: Vec<TaskEntry>,
    /// The files that tasks are made of, by the tasks' names.
    #[serde(default)]
    pub data: BTreeMap<String, PathBuf>,
    /// How prompts are put.
    #[serde(default)]
    pub prompt: PromptSection,
    /// How rollouts are sampled.
    #[serde(default)]
    pub sampling: SamplingSection,
    /// S, κ and η.
    #[serde(default)]
    pub staleness: StalenessSection,
    /// How closely groups are looked at.
    #[serde(default)]
    pub admission: AdmissionSection,
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
    /// Where checkpoints are kept, and how many.
    #[serde(default)]
    pub checkpoints: CheckpointsSection,
    /// How work is handed out.
    #[serde(default)]
    pub fleet: FleetSection,
    /// How strict it is with peers that lie.
    #[serde(default)]
    pub record: RecordSection,
    /// How volunteers look at the groups of others.
    #[serde(default)]
    pub verify: VerifySection,
    /// Where the learner listens and whom it asks.
    #[serde(default)]
    pub network: NetworkSection,
    /// Where its metrics can be seen.
    #[serde(default)]
    pub watch: WatchSection,
    /// What its names of the Hub came to, once they have been got.
    #[serde(skip)]
    pub pins: Vec<Pin>,
}

impl RunConfig {
    /// Reads and checks a run file; its relative paths become relative to the file.
    ///
    /// # Errors
    /// When it cannot be read, or settings are outside their domains: all of them together.
    pub fn load(path: &Path) -> Result<Self, RunFileError> {
        Self::load_with(path, &[])
    }

    /// The same with settings from the command line, which replace those of the file.
    ///
    /// # Errors
    /// As [`RunConfig::load`], and when there is no such setting.
    pub fn load_with(path: &Path, settings: &[Setting]) -> Result<Self, RunFileError> {
        let config = Self::read(path, settings)?;
        RunFileError::all(path, config.problems())?;
        Ok(config)
    }

    /// Reads a run file without looking at the domains of its settings: [`RunConfig::problems`] does.
    ///
    /// # Errors
    /// When it cannot be read, or is not what a run file looks like.
    pub fn read(path: &Path, settings: &[Setting]) -> Result<Self, RunFileError> {
        let read = |e: std::io::Error| RunFileError::Read { path: path.to_owned(), cause: e.to_string() };
        if std::fs::metadata(path).map_err(read)?.len() > MAX_FILE_BYTES {
            return Err(RunFileError::Read { path: path.to_owned(), cause: "longer than 1 MiB".into() });
        }
        let text = std::fs::read_to_string(path).map_err(read)?;
        let mut config = overrides::parse(path, &text, settings)?;
        let base = path.parent().unwrap_or(Path::new(""));
        config.run.dir = base.join(&config.run.dir);
        // A name of the Hub means the same everywhere.
        let located = |path: &Path| if is_hub_name(path) { path.to_owned() } else { base.join(path) };
        config.task_files().for_each(|path| *path = located(path));
        config.model.path = config.model.path.map(|p| located(&p));
        config.network.peers = config.network.peers.map(|p| base.join(p));
        config.fleet.resolve(base);
        config.checkpoints.resolve(|path| Ok::<_, OptionError>(base.join(path)))?;
        Ok(config)
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Whether the policy is to chat: `[prompt] chat`, or `[model] chat`.
    pub(crate) fn chat(&self) -> Option<bool> {
        self.prompt.chat.or(self.model.chat)
    }

    /// The file that a task is made of, if the run file names one.
    pub fn task_file<'a>(&'a self, task: &'a TaskEntry) -> Option<&'a Path> {
        let named = task.data.as_ref().or_else(|| self.data.get(&task.name));
        // A module may have its address in the task's name and not under [data].
        let module = || wasm::asks_for_module(&task.name).then(|| self.data.get(wasm::NAME)).flatten();
        named.or_else(module).map(PathBuf::as_path)
    }

    /// All paths of files that tasks are made of, those of evaluations too.
    pub(crate) fn task_files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let of_tasks = self.tasks.iter_mut().filter_map(|task| task.data.as_mut());
        of_tasks.chain(self.data.values_mut()).chain(self.evaluation.files())
    }

    /// The same run without the tasks and evaluations that are made of files which are `absent`.
    pub(crate) fn without(&self, absent: &BTreeSet<PathBuf>) -> Self {
        let is_there = |path: Option<&Path>| path.is_none_or(|path| !absent.contains(path));
        let mut present = self.clone();
        present.tasks.retain(|task| is_there(self.task_file(task)));
        present.evaluation.sets.retain(|set| is_there(set.data.as_deref()));
        present
    }

    /// The staleness policy that `[staleness]` comes to: S, κ, η and the order of batches.
    pub fn staleness(&self) -> Result<Staleness, RunFileError> {
        self.staleness.policy()
    }
}

#[cfg(test)]
mod examples;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::run::charter::Takeover;
    use echo_protocol::run::precision::PrecisionName;

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
    fn all_precisions_are_taken_and_kept_caches_with_and_without_an_audit() {
        for takeover in [Takeover::Recompute, Takeover::Wait, Takeover::Keep] {
            for audit in [true, false] {
                let mut config = RunConfig::parse(FILE).unwrap();
                assert!(config.admission.audit);
                (config.admission.audit, config.sampling.takeover) = (audit, takeover);
                let names = ["int8", "f32", "int4", "bf16"];
                let names = names.map(|name| PrecisionName::try_from(name.to_owned()).unwrap());
                config.admission.precisions = names.to_vec();
                config.validate().unwrap();
                assert_eq!(RunConfig::parse(&toml::to_string(&config).unwrap()).unwrap(), config);
            }
        }
        let open = "[admission]\naudit = false\nmax_copy_bytes = 5\nprecisions = ['int8', 'f32']\n[warmup]";
        let AdmissionSection { audit, max_copy_bytes, precisions } =
            RunConfig::parse(&FILE.replace("[warmup]", open)).unwrap().admission;
        let names: Vec<&str> = precisions.iter().map(PrecisionName::as_str).collect();
        assert_eq!((audit, max_copy_bytes, names), (false, 5, vec!["int8", "f32"]));
    }

    #[test]
    fn files_of_tasks_are_relative_to_the_run_file_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.toml");
        let one_line =
            FILE.replace("[[task]]\n        name = \"chain_sum\"", "[data]\n        math = \"rows.jsonl\"");
        std::fs::write(&path, format!("task = \"math\"\n{one_line}")).unwrap();
        let config = RunConfig::load(&path).unwrap();
        assert_eq!(config.task_file(&config.tasks[0]).unwrap(), dir.path().join("rows.jsonl"));
        assert_eq!(config.task_file(&TaskEntry::new("chain_sum")), None);
        assert_eq!(RunConfig::parse(&toml::to_string(&config).unwrap()).unwrap(), config);
    }

    #[test]
    fn names_of_the_hub_are_no_paths() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.toml");
        let model = FILE.find("[model.tiny]").unwrap()..FILE.find("[[task]]").unwrap();
        let mut text = FILE.to_owned();
        text.replace_range(model, "[model]\npath = \"hf:o/m@main\"\n[data]\nmath = \"hf:o/d:train\"\n");
        std::fs::write(&path, text).unwrap();
        let config = RunConfig::load(&path).unwrap();
        assert_eq!(config.model.path.as_deref(), Some(Path::new("hf:o/m@main")));
        assert_eq!(config.data["math"], PathBuf::from("hf:o/d:train"));
    }

    #[test]
    fn a_task_in_or_behind_a_table_is_told_where_to_stand() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.toml");
        let line = "task = \"chain_sum\"";
        let tables = "[[task]]\n        name = \"chain_sum\"";
        for misplaced in [line, &format!("[data]\n{line}"), ""] {
            std::fs::write(&path, FILE.replace(tables, misplaced)).unwrap();
            let refused = RunConfig::load(&path).unwrap_err().to_string();
            assert!(refused.contains("above the first [table]"), "{refused}");
        }
        std::fs::write(&path, FILE.replace("[run]", "[rn]")).unwrap();
        assert!(!RunConfig::load(&path).unwrap_err().to_string().contains("above the first"));
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
        let greedy = refused("[warmup]", "[sampling]\ntemperature = 0.0\n[warmup]");
        assert!(greedy.contains("sampling.temperature = 0"), "{greedy}");
        let hot = refused("[warmup]", "[sampling]\ntemperature = 11.0\n[warmup]");
        assert!(hot.contains("0.01 to 10"), "{hot}");
        let cut = refused("[warmup]", "[sampling]\ntop_p = 0.9\n[warmup]");
        assert!(cut.contains("admission.audit"), "{cut}");
        let admission = |option: &str| refused("[warmup]", &format!("[admission]\n{option}\n[warmup]"));
        assert!(admission("precisions = []").contains("f32 among them"));
        assert!(admission("precisions = ['bf16']\naudit = false").contains("f32 among them"));
        assert!(admission("precisions = ['f32', 'f32']").contains("each once"));
        assert!(admission("precisions = ['f32', 'fp8']\naudit = false").contains("int4"));
        assert!(admission("precisions = ['f32', 'a-b']").contains("lower-case letters"));
        let network = |option: &str| refused("[warmup]", &format!("[network]\n{option}\n[warmup]"));
        assert!(
            network("listen = ['foo']").contains("network.listen = \"foo\": it has to be a multiaddress")
        );
        assert!(network("external = ['/ip4/1.2.3.4/tcp/1', 'bar']").contains("network.external = \"bar\""));
        assert!(network("list_key = 'abcd'").contains("`peers`, which is not set"));
        let snapshot = |option: &str| refused("[warmup]", &format!("[snapshot]\n{option}\n[warmup]"));
        assert!(snapshot("keep_versions = 0").contains("snapshot.keep_versions"));
        assert!(snapshot("keep_versions = 17").contains("1 to 16"));
        let buffer = |option: &str| refused("[warmup]", &format!("[buffer]\n{option}\n[warmup]"));
        assert!(buffer("max_groups = 15").contains("buffer.max_groups"));
        assert!(buffer("max_bytes = 1000000").contains("buffer.max_bytes"));
        assert!(refused("[warmup]", "[checkpoints]\nkeep = 0\n[warmup]").contains("checkpoints.keep"));
        let kept = "[staleness]\nbudget = 6\n[checkpoints]\nkeep = 1000\n[warmup]";
        assert!(refused("[warmup]", kept).contains("4096 updates"), "5 updates a checkpoint");
        assert!(refused("[train]", "[train]\nmax_grad_norm = -1.0").contains("train.max_grad_norm"));
        assert!(refused("[train]", "[train]\nweight_decay = nan").contains("train.weight_decay"));
        assert!(refused("name = \"gepo\"", "name = \"gpo\"").contains("gpo"));
        assert!(refused("batch = 64", "batch = 64\nlerning_rate = 1").contains("lerning_rate"));
        assert!(refused("[model.tiny]", "[model]\npath = \"x\"\n[model.tiny]").contains("exactly one"));
        assert!(refused("peak = 1e-4", "peak = -1.0").contains("schedule"));
        let train = |option: &str| refused("[train]", &format!("[train]\n{option}"));
        assert!(train("max_skipped = 0").contains("train.max_skipped"));
        assert!(train("guard = { max_norm_ratio = 0.5 }").contains("guard.max_norm_ratio"));
        assert!(train("filter = { pass_rate = [0.9, 0.1] }").contains("train.filter.pass_rate"));
        assert!(train("precision_weight = { int8 = 2.0 }").contains("train.precision_weight.int8"));
        assert!(train("device = \"gpu\"").contains("cuda:N"));
        assert!(train("compute = \"f16\"").contains("bf16"));
        let record = |option: &str| refused("[warmup]", &format!("[record]\n{option}\n[warmup]"));
        assert!(record("recheck_floor = 0.0").contains("record.recheck_floor"));
        assert!(record("half_life_h = 0").contains("record.half_life_h"));
        let verify = |option: &str| refused("[warmup]", &format!("[verify]\n{option}\n[warmup]"));
        assert!(verify("n = 17").contains("verify.n"));
        assert!(verify("k = 4").contains("verify.k") && verify("k = 0").contains("verify.k"));
        assert!(verify("within_s = 20").contains("verify.within_s"));
        assert!(verify("owners = \"country\"").contains("network"));
        for (option, field) in [
            ("updates = 0", "warmup.updates"),
            ("learning_rate = 0.0", "warmup.learning_rate"),
            ("learning_rate = inf", "warmup.learning_rate"),
            ("until_accuracy = 30.0", "warmup.until_accuracy"),
            ("until_accuracy = 0.0", "warmup.until_accuracy"),
        ] {
            let key = option.split(' ').next().unwrap();
            let old = ["updates = 300", "learning_rate = 1e-3"].into_iter().find(|old| old.starts_with(key));
            let warmup = match old {
                Some(old) => refused(old, option),
                None => refused("batch = 64", &format!("batch = 64\n{option}")),
            };
            assert!(warmup.contains(field), "{option}: {warmup}");
        }
        let data = refused("[warmup]", "[data]\nmaths = 'no-such-file'\n[warmup]");
        assert!(data.contains("[data] maths") && data.contains("code, math"), "{data}");
        assert!(refused("[warmup]", "[data]\nchain_sum = 'a'\n[warmup]").contains("chain_sum"));
        assert!(refused("[model.tiny]", "[model]\nchat = true\n[model.tiny]").contains("model.chat"));
        assert!(refused("[train]", "[prompt]\nchat = true\n[train]").contains("prompt.chat"));
        assert!(refused("[train]", "[prompt]\nsystem = 'be brief'\n[train]").contains("prompt.system"));
        let watch = |option: &str| refused("[warmup]", &format!("[watch]\n{option}\n[warmup]"));
        assert!(watch("peak_flops = -1.0").contains("watch.peak_flops"));
        assert!(watch("samples = 65").contains("watch.samples"));
        assert!(watch("listen = \"everywhere\"").contains("socket address"));
    }
}
