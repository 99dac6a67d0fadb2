//! What the sampling audit knows again after a restart: the policies of the checkpoints that nodes
//! may still work under.
//!
//! A checkpoint is written before its version is announced, so the versions on the disk and those
//! of `metrics.jsonl` are all that an earlier process can have published. Where they go beyond the
//! checkpoint that this process goes on from (its successors are damaged, or somebody deleted
//! them), it makes and publishes these versions again, and so may the next one ([`Republished`]).

use crate::common::workload::{Workload, dtype};
use crate::publishing::checkpoint::{CheckpointError, Checkpoints};
use crate::publishing::snapshots::PublicationRow;
use crate::training::trainer::{TrainError, decoder_of};
use crate::verification::republished::{Republished, RepublishedError};
use crate::verification::sampling_audit::{MAX_POLICIES, SamplingAudit};
use candle_core::Device;
use echo_policy::audit::VersionWeights;
use echo_policy::generation::EngineError;
use echo_policy::training::decoder::DecoderError;
use echo_protocol::run::version::PolicyVersion;
use std::path::Path;

/// Most bytes of policies that are read at a start, the resumed one included, as they were
/// published. What is left out passes unaudited.
pub const MAX_RESTORED_BYTES: usize = 8 << 30;

/// Why a policy is not known again.
#[derive(Debug, thiserror::Error)]
enum RestoreError {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The versions that a learner which goes on from the checkpoint of `at` publishes again, or that
/// an earlier one has. `announced` is what earlier processes wrote of their publications, and at
/// `path` stands what they published again. It stands there anew when this returns: call it before
/// anything of `announced` is taken back.
///
/// # Errors
/// When the file at `path` cannot be read or written.
pub async fn republished(
    path: &Path,
    workload: &Workload,
    checkpoints: &Checkpoints,
    at: PolicyVersion,
    announced: &[PublicationRow],
) -> Result<Republished, RepublishedError> {
    let announced = announced.iter().map(|row| PolicyVersion(row.published));
    let published = announced.chain(versions(checkpoints).await).max().unwrap_or(at);
    if published > at {
        tracing::warn!(
            "versions up to {published} were published before and are made again from {at}: nodes may hold them with other weights, so the \
             audit lets pass what names them"
        );
    }
    let before = Republished::load(path)?;
    let again = before.clone().resumed(&workload.charter.staleness, at, published);
    if again != before {
        again.save(path)?;
    }
    Ok(again)
}

/// Tells `audit` that the learner goes on from the checkpoint of `at` and what is published
/// `again`, and reads it the policies up to this one that groups may name: the newest of them, as
/// many as are kept and as memory allows. A checkpoint that cannot be read is passed over with a
/// warning: what names its version passes unaudited.
pub async fn restore_policies(
    audit: &SamplingAudit,
    workload: &Workload,
    checkpoints: &Checkpoints,
    at: PolicyVersion,
    again: Republished,
) {
    let staleness = &workload.charter.staleness;
    let in_use = |version: &PolicyVersion| {
        *version <= at && staleness.publishes(*version) && staleness.admits(*version, at)
    };
    let bytes = workload.model.parameter_count() as usize * dtype(workload.charter.snapshot_type).size();
    let most = MAX_POLICIES.min(MAX_RESTORED_BYTES / bytes.max(1));
    let mut policies = Vec::new();
    for version in versions(checkpoints).await.into_iter().rev().filter(in_use).take(most) {
        match policy(audit, workload, checkpoints, version).await {
            Ok(policy) => policies.push(policy),
            Err(error) => tracing::warn!(%error, "what was made under {version} will not be audited"),
        }
    }
    audit.resume(at, again, policies);
}

/// The versions that have a checkpoint, in order.
async fn versions(checkpoints: &Checkpoints) -> Vec<PolicyVersion> {
    checkpoints.versions().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the audit begins without the policies of earlier versions");
        Vec::new()
    })
}

/// The policy of a checkpoint as nodes have it.
async fn policy(
    audit: &SamplingAudit,
    workload: &Workload,
    checkpoints: &Checkpoints,
    version: PolicyVersion,
) -> Result<VersionWeights, RestoreError> {
    let tensors = checkpoints.weights(version, &workload.run).await?;
    let decoder = decoder_of(&workload.model, &tensors, &Device::Cpu)?;
    let weights = audit.as_nodes_have_it(&decoder)?;
    Ok(VersionWeights::new(version.0, &workload.model, weights)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use crate::config::TrainSection;
    use crate::intake::admission::Rejection;
    use crate::publishing::checkpoint::state_at;
    use crate::training::local_rollouts::{LocalAnswer, answers};
    use crate::training::trainer::Trainer;
    use echo_policy::generation::Policy;
    use echo_policy::model::weights::Weights;
    use echo_protocol::wire::identity::PublicKey;
    use echo_protocol::work::lease::LeaseId;
    use echo_protocol::work::order::{OrderCounter, Purpose};
    use echo_protocol::work::submission::RefuseReason;
    use echo_protocol::work::trajectory::TrajectoryGroup;
    use std::path::PathBuf;
    use std::sync::Arc;

    /// A run whose versions 2, 4 and 6 have checkpoints of weights of their own.
    struct Fixture {
        workload: Arc<Workload>,
        dir: tempfile::TempDir,
        /// Where the run directory would be.
        run_dir: tempfile::TempDir,
        checkpoints: Checkpoints,
    }

    impl Fixture {
        async fn new() -> Self {
            let workload = Arc::new(testing::workload().0);
            let dir = tempfile::tempdir().unwrap();
            let checkpoints = Checkpoints::in_directory(dir.path(), 3).unwrap();
            for version in [2, 4, 6] {
                let weights = weights(&workload, version);
                let trainer = Trainer::new(&workload.model, &weights, &TrainSection::default()).unwrap();
                let optimizer = trainer.optimizer().state().unwrap();
                let state = state_at(workload.run, version);
                checkpoints.write(state, trainer.decoder(), &optimizer).await.unwrap();
            }
            Self { workload, dir, run_dir: tempfile::tempdir().unwrap(), checkpoints }
        }

        fn damage(&self, version: u64) {
            let path = self.dir.path().join(format!("{version:012}/model.safetensors"));
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[200] ^= 1;
            std::fs::write(path, bytes).unwrap();
        }

        async fn resumed(&self, at: u64, announced: &[u64]) -> SamplingAudit {
            let audit = SamplingAudit::new(self.workload.clone(), self.run_dir.path(), usize::MAX);
            let row = |published: &u64| PublicationRow { published: *published, ..Default::default() };
            let announced: Vec<_> = announced.iter().map(row).collect();
            let (at, path) = (PolicyVersion(at), self.republished());
            let again = republished(&path, &self.workload, &self.checkpoints, at, &announced).await.unwrap();
            restore_policies(&audit, &self.workload, &self.checkpoints, at, again).await;
            audit
        }

        fn republished(&self) -> PathBuf {
            self.run_dir.path().join("republished.json")
        }

        /// What an honest node makes under `version`, whose weights are those of `seed`.
        fn group(&self, version: u64, seed: u64) -> TrajectoryGroup {
            let weights = weights(&self.workload, seed);
            let policy = Arc::new(Policy::load(version, &self.workload.model, &weights).unwrap());
            let order = self.workload.order(Purpose::Train, 0);
            let size = self.workload.charter.group_size;
            let answers = answers(&self.workload, policy, &[order], size).unwrap().remove(0);
            TrajectoryGroup {
                run: self.workload.run,
                lease: LeaseId(0),
                counter: OrderCounter(0),
                node: PublicKey::from_bytes([7; 32]),
                trajectories: answers.into_iter().map(LocalAnswer::trajectory).collect(),
                precision: Default::default(),
                caches: Default::default(),
                recomputed: Vec::new(),
            }
        }

        fn publish(&self, audit: &SamplingAudit, version: u64, seed: u64) {
            let weights = weights(&self.workload, seed);
            audit.publish(VersionWeights::new(version, &self.workload.model, weights).unwrap());
        }
    }

    fn weights(workload: &Workload, seed: u64) -> Weights {
        Weights::random(&workload.model, seed)
    }

    fn reason(audit: &SamplingAudit, group: &TrajectoryGroup) -> Option<RefuseReason> {
        match audit.check(group) {
            Ok(()) => None,
            Err(Rejection::Refused(refusal)) => Some(refusal.reason),
            Err(retry) => panic!("{retry}"),
        }
    }

    #[tokio::test]
    async fn policies_of_checkpoints_are_audited_from_the_start() {
        let fixture = Fixture::new().await;
        let audit = fixture.resumed(6, &[2, 4]).await;
        // S = 3: version 4 may still be worked under, 2 may not.
        for version in [4, 6] {
            assert_eq!(reason(&audit, &fixture.group(version, version)), None);
            assert_eq!(reason(&audit, &fixture.group(version, 99)), Some(RefuseReason::Sampling));
        }
        assert_eq!(audit.unaudited(), 0);
        assert_eq!(reason(&audit, &fixture.group(2, 99)), None, "admission refuses it as stale");
        assert_eq!(audit.unaudited(), 1);
        // What was loaded again is let go like any other policy.
        fixture.publish(&audit, 6, 6);
        fixture.publish(&audit, 8, 8);
        assert_eq!(reason(&audit, &fixture.group(6, 99)), Some(RefuseReason::Sampling));
        assert_eq!(reason(&audit, &fixture.group(4, 4)), Some(RefuseReason::Stale));
    }

    #[tokio::test]
    async fn a_damaged_checkpoint_is_passed_over_and_its_version_passes() {
        let fixture = Fixture::new().await;
        fixture.damage(4);
        let audit = fixture.resumed(6, &[]).await;
        assert_eq!(reason(&audit, &fixture.group(4, 4)), None);
        assert_eq!(audit.unaudited(), 1);
        assert_eq!(reason(&audit, &fixture.group(6, 99)), Some(RefuseReason::Sampling));
    }

    #[tokio::test]
    async fn what_is_published_again_is_believed_whatever_its_weights_were() {
        let fixture = Fixture::new().await;
        fixture.damage(6);
        for audit in [fixture.resumed(4, &[]).await, {
            // Deleted; the metrics still tell of it.
            std::fs::remove_dir_all(fixture.dir.path().join("000000000006")).unwrap();
            fixture.resumed(4, &[2, 4, 6]).await
        }] {
            let before = fixture.group(6, 6);
            assert!(matches!(audit.check(&before), Err(Rejection::Retry(_))), "not there again yet");
            fixture.publish(&audit, 4, 4);
            fixture.publish(&audit, 6, 60);
            assert_eq!(reason(&audit, &before), None);
            assert_eq!(reason(&audit, &fixture.group(6, 60)), None);
            assert_eq!(audit.unaudited(), 2);
            // From the next version on there is one history again.
            fixture.publish(&audit, 8, 8);
            assert_eq!(reason(&audit, &fixture.group(8, 99)), Some(RefuseReason::Sampling));
        }
    }

    #[tokio::test]
    async fn what_was_published_twice_is_believed_after_further_restarts_too() {
        let fixture = Fixture::new().await;
        std::fs::remove_dir_all(fixture.dir.path().join("000000000006")).unwrap();
        let before = fixture.group(6, 6);
        drop(fixture.resumed(4, &[2, 4, 6]).await);
        // The next process comes before 6 was made again, and one after it; neither finds a
        // trace of it elsewhere.
        for (at, announced) in [(4, &[2][..]), (6, &[2, 4, 6][..])] {
            let audit = fixture.resumed(at, announced).await;
            fixture.publish(&audit, 4, 4);
            fixture.publish(&audit, 6, 60);
            assert_eq!(reason(&audit, &before), None, "{at}");
            assert_eq!(audit.unaudited(), 1);
            fixture.publish(&audit, 8, 8);
            assert_eq!(reason(&audit, &fixture.group(8, 99)), Some(RefuseReason::Sampling));
        }
        drop(fixture.resumed(10, &[2, 4, 6, 8]).await);
        let kept = Republished::load(&fixture.republished()).unwrap();
        assert_eq!(kept, Republished::default(), "nothing is admitted under 6 any more");
    }
}
