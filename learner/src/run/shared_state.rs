//! The state that all tasks of a learner share, made from a founded run.

use crate::config::RunConfig;
use crate::fleet::capacity::{Capacity, CapacityConfig};
use crate::fleet::{Fleet, FleetConfig, UNKNOWN_UPLINK};
use crate::founding::Founded;
use crate::intake::admission::{Admission, AdmissionTally};
use crate::intake::coordinator::{Coordinator, CoordinatorConfig};
use crate::intake::leases::LeaseConfig;
use crate::publishing::checkpoint::CheckpointState;
use crate::server::SharedState;
use crate::storage::Store;
use crate::verification::sampling_audit::SamplingAudit;
use echo_protocol::control::requests::Peer;
use echo_protocol::net::{Host, Multiaddr};
use echo_protocol::program::clock;
use echo_protocol::run::charter::Charter;
use echo_protocol::run::staleness::StalenessMode;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::content_id::ContentId;
use std::sync::Arc;

/// What the run's key signs for the seed of the fleet's draws.
const FLEET_SEED: &[u8] = b"echo fleet draws 1";

/// The state of a run around what `store` keeps.
pub(crate) fn shared(
    founded: Founded,
    store: Arc<dyn Store>,
    version: PolicyVersion,
    tally: AdmissionTally,
    checkpoint: Option<&CheckpointState>,
    host: &Host,
) -> anyhow::Result<SharedState> {
    let Founded { dir, config, key, charter, workload, lock: _ } = founded;
    let workload = Arc::new(workload);
    let leases = LeaseConfig {
        run: workload.run,
        lifetime_ms: config.fleet.lease_s.saturating_mul(1000),
        max_open_per_node: u64::from(config.fleet.orders_per_node),
    };
    let coordinator = CoordinatorConfig {
        leases,
        limits: config.buffer.limits(),
        filter: config.train.filter(),
        staleness: workload.charter.staleness,
        groups_per_update: config.train.groups_per_update,
        record: config.record.config(),
        by_lag: workload.charter.staleness.is_by_lag(),
    };
    let coordinator = Coordinator::open(
        store,
        coordinator,
        clock::now(),
        version,
        tally,
        checkpoint.map(|state| &state.coordinator),
    )?;
    let admission = Admission::new(workload.run, &workload.charter, workload.mix.clone(), workload.clone())
        .taking(&config.admission.precisions);
    let mut addresses: Vec<String> = host.listen_addrs().iter().map(Multiaddr::to_string).collect();
    addresses.extend(config.network.external.iter().cloned());
    let fleet = FleetConfig {
        mode: config.network.dissemination,
        uplink: config.network.max_upload.unwrap_or(UNKNOWN_UPLINK),
        node_uplink: config.fleet.node_uplink,
        owners: config.verify.owners,
        // Nobody outside knows it, so nobody can choose a key for its place in the mesh.
        seed: *ContentId::of(&key.sign(FLEET_SEED).to_bytes()).as_bytes(),
    };
    let fleet = Fleet::new(Peer { key: key.public(), addresses }, fleet);
    tracing::info!(run = %workload.run, name = workload.charter.name, "at {version}");
    let keep_versions = config.snapshot.keep_versions;
    let max_copy_bytes = usize::try_from(config.admission.max_copy_bytes).unwrap_or(usize::MAX);
    let audit = config.admission.audit;
    let audit = audit.then(|| SamplingAudit::new(workload.clone(), dir.path(), max_copy_bytes));
    let panel = config.verify.config();
    let capacity = Capacity::new(capacity(&config, &workload.charter), clock::now());
    let shared = SharedState::new(workload, charter, key, admission, coordinator, fleet, keep_versions);
    let shared = shared.choosing(capacity);
    Ok(match audit {
        Some(audit) => shared.audited(audit, panel),
        None => shared,
    })
}

/// Who is to work, for a run with this charter.
fn capacity(config: &RunConfig, charter: &Charter) -> CapacityConfig {
    let (fleet, staleness) = (&config.fleet, &charter.staleness);
    CapacityConfig {
        activation: fleet.activation,
        gamma: fleet.gamma,
        batch: config.train.groups_per_update as u64 * u64::from(charter.group_size),
        // On-policy, nodes and learner wait for each other at any rate.
        period: (staleness.mode() != StalenessMode::OnPolicy).then(|| staleness.period()),
        prices: fleet.prices.clone(),
        learner_price: fleet.learner_price,
    }
}
