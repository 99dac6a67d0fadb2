//! What a run needs on this machine before any part of it works: its workload, devices and files.

use std::sync::Arc;

use echo_protocol::run::charter::Charter;
use echo_protocol::store::ChunkStore;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::Signed;

use super::error::NodeError;
use crate::delivery::outbox::Outbox;
use crate::devices::fallback::DeviceFallback;
use crate::devices::hardware;
use crate::preflight::Ready;
use crate::settings::Settings;
use crate::snapshots::install::Images;
use crate::status::node_state::NodeState;
use crate::workload::NodeWorkload;

/// Everything of a run that is there without the network.
pub(super) struct Resources {
    pub(super) node_state: Arc<NodeState>,
    pub(super) workload: Arc<NodeWorkload>,
    pub(super) fallback: Arc<DeviceFallback>,
    pub(super) outbox: Outbox,
    pub(super) store: Arc<ChunkStore>,
    pub(super) images: Images,
    pub(super) key: Arc<NodeKey>,
}

impl Resources {
    /// Reads the charter, chooses devices, and opens what lies on disk. Blocks.
    pub(super) fn open(
        ready: &Ready,
        settings: &Settings,
        node_state: &Arc<NodeState>,
        charter: &Signed<Charter>,
    ) -> Result<Self, NodeError> {
        let (workload, fallback) = compute(settings, node_state, charter)?;
        let expected = fallback.first().filter(|_| settings.generates()).and_then(|device| {
            let (parameters, response) = (workload.model.parameter_count(), workload.form().max_new_tokens);
            hardware::expected(settings, &device, workload.precision(), parameters, response)
        });
        node_state.set(|facts| facts.expected_rollouts_per_s = expected);
        // Blocks, and nothing else of the run has begun.
        let outbox = Outbox::open(&ready.data.outbox(), &workload.run, &ready.identity.public())?;
        node_state.set(|facts| {
            facts.outbox = outbox.len();
            // What an earlier run left here says nothing about this one.
            (facts.version, facts.epoch, facts.installed_at) = (None, None, None);
            (facts.download, facts.parent) = (None, None);
        });
        Ok(Self {
            node_state: node_state.clone(),
            workload: Arc::new(workload),
            fallback: Arc::new(fallback),
            outbox,
            store: Arc::new(ChunkStore::open(&ready.data.chunks())?),
            images: Images::open(&ready.data.images())?,
            key: Arc::new(NodeKey::from_secret(ready.identity.secret())),
        })
    }
}

/// What the run asks for in this node's precision, and the devices that compute it.
fn compute(
    settings: &Settings,
    node_state: &Arc<NodeState>,
    charter: &Signed<Charter>,
) -> Result<(NodeWorkload, DeviceFallback), NodeError> {
    let (run, charter) = Charter::open(charter)?;
    let workload = NodeWorkload::new(run, &charter)?;
    if !settings.generates() {
        // A node that only checks others computes on the processor, and in f32, by which they are judged.
        return Ok((workload, DeviceFallback::cpu()));
    }
    workload.check_machine()?;
    let workload = workload.computed_in(settings.precision)?;
    let fallback = DeviceFallback::new(&settings.device, workload.precision(), node_state.clone())?;
    Ok((workload, fallback))
}
