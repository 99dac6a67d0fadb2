//! A run and a node's directories in miniature: where snapshots are published and installed.

use echo_node::devices::fallback::DeviceFallback;
use echo_node::snapshots::install;
use echo_node::snapshots::install::{Images, Installed};
use echo_node::workload::NodeWorkload;
use echo_policy::model::config::ModelConfig;
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::{DType, Weights};
use echo_protocol::run::charter::{Charter, RunId, Sampling, TaskSpec, TokenizerSpec};
use echo_protocol::run::precision::PrecisionName;
use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::{Manifest, TensorType};
use echo_protocol::store::{ChunkStore, SnapshotItem, write_snapshot};
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a chunk, as runs have them.
const CHUNK_BYTES: u32 = 4 << 20;

/// A run's key, and what a node keeps of the run.
pub(super) struct Home {
    key: NodeKey,
    store: ChunkStore,
    images: Images,
    /// Where policies are loaded.
    pub(super) fallback: Arc<DeviceFallback>,
    /// What the run asks for.
    pub(super) workload: Arc<NodeWorkload>,
}

impl Home {
    /// Charters a run of `model` in `precision` whose orders ask for `group_size` responses of
    /// `max_new_tokens`, and makes room for a node in `dir`.
    pub(super) fn found(
        dir: &Path,
        model: &ModelConfig,
        precision: Precision,
        group_size: u32,
        max_new_tokens: u32,
    ) -> anyhow::Result<Self> {
        let key = NodeKey::from_secret([1; 32]);
        let charter = Charter {
            name: "install".into(),
            learner: key.public(),
            created: UnixMillis(0),
            model: model.to_json(DType::BF16),
            tokenizer: TokenizerSpec::Characters { alphabet: String::new() },
            tasks: vec![TaskSpec::new("chain_sum")],
            group_size,
            sampling: Sampling {
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                max_new_tokens,
                draw: Default::default(),
            },
            staleness: Staleness::new(3, None)?,
            snapshot_type: TensorType::Bf16,
            chunk_bytes: CHUNK_BYTES,
            precisions: precisions(precision)?,
            takeover: Default::default(),
            prompt: Default::default(),
        };
        let (run, charter) = Charter::open(&Signed::sign(&charter, &key)?)?;
        Ok(Self {
            store: ChunkStore::open(&dir.join("chunks"))?,
            images: Images::open(&dir.join("images"))?,
            fallback: Arc::new(DeviceFallback::cpu()),
            workload: Arc::new(NodeWorkload::new(run, &charter)?.computed_in(Some(precision))?),
            key,
        })
    }

    /// The id of the run, from its signed charter.
    pub(super) fn run(&self) -> RunId {
        self.workload.run
    }

    /// Publishes weights in bf16.
    pub(super) fn publish(&self, version: u64, weights: &Weights) -> anyhow::Result<Signed<Manifest>> {
        let items = weights.iter().map(|tensor| SnapshotItem::Tensor {
            name: tensor.name().to_owned(),
            dtype: TensorType::Bf16,
            shape: tensor.shape().iter().map(|&side| side as u64).collect(),
            bytes: tensor.bytes().to_vec(),
        });
        let manifest = write_snapshot(&self.store, self.run(), PolicyVersion(version), CHUNK_BYTES, items)?;
        Ok(Signed::sign(&manifest, &self.key)?)
    }

    /// The same snapshot as another version.
    pub(super) fn publish_again(
        &self,
        signed: &Signed<Manifest>,
        version: u64,
    ) -> anyhow::Result<Signed<Manifest>> {
        let manifest = Manifest { version: PolicyVersion(version), ..signed.open()? };
        Ok(Signed::sign(&manifest, &self.key)?)
    }

    /// Installs a snapshot as a node does once all of its chunks are there.
    pub(super) fn install(&self, signed: &Signed<Manifest>) -> anyhow::Result<Installed> {
        let manifest = signed.open_from(&self.key.public())?;
        manifest.validate()?;
        Ok(install::load(&self.store, &self.images, &manifest, &self.workload, &self.fallback)?)
    }
}

/// What a charter lists for a run in `precision`: f32 is always among them.
fn precisions(precision: Precision) -> anyhow::Result<Vec<PrecisionName>> {
    let name = PrecisionName::try_from(precision.name().to_owned())?;
    let others = (!name.is_default()).then_some(name);
    Ok([PrecisionName::default()].into_iter().chain(others).collect())
}
