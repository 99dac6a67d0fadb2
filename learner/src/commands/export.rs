//! `echo-learner export`: a policy of a run as a Hugging Face directory, also while a learner
//! works on the run.

use crate::commands::preflight;
use crate::common::workload::dtype;
use crate::founding;
use crate::founding::export_policy;
use crate::publishing::checkpoint::Checkpoints;
use crate::training::trainer::weights_of;
use anyhow::bail;
use clap::Args;
use echo_protocol::run::version::PolicyVersion;
use std::path::{Path, PathBuf};

/// What is exported, and where to.
#[derive(Args, Clone, Debug)]
pub struct ExportPlan {
    /// The run directory.
    pub dir: PathBuf,
    /// The version to export, which needs a checkpoint [default: the newest].
    #[arg(long, value_name = "N", value_parser = version)]
    pub version: Option<PolicyVersion>,
    /// Where to write the policy. Must not exist.
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
}

/// `12`, or `v12` as logs have it.
pub(super) fn version(text: &str) -> Result<PolicyVersion, std::num::ParseIntError> {
    text.strip_prefix('v').unwrap_or(text).parse().map(PolicyVersion)
}

/// Exports the policy of a checkpoint and returns its version. Nothing in the run directory
/// is written or locked.
///
/// # Errors
/// When there is no such checkpoint, none that is whole, or something at the output.
pub async fn export(plan: &ExportPlan) -> anyhow::Result<PolicyVersion> {
    preflight::output(&plan.output)?;
    let run = founding::read(&plan.dir)?;
    let checkpoints = Checkpoints::look(&run.dir, &run.config.checkpoints)?;
    let found = checkpoints.newest_weights(plan.version, &run.workload.run).await?;
    let Some((version, tensors)) = found else {
        return missing(&checkpoints, plan.version, &plan.dir).await;
    };
    let published = dtype(run.workload.charter.snapshot_type);
    let weights = weights_of(&run.workload.model, &tensors, published)?;
    let tokenizer = run.workload.charter.tokenizer.travels().then(|| run.dir.start());
    export_policy(&plan.output, &run.workload, &weights, tokenizer.as_deref())?;
    Ok(version)
}

/// Says that there is no checkpoint, and which there are.
async fn missing(
    checkpoints: &Checkpoints,
    wanted: Option<PolicyVersion>,
    dir: &Path,
) -> anyhow::Result<PolicyVersion> {
    let (there, _) = checkpoints.listed().await;
    let there: Vec<String> = there.iter().map(PolicyVersion::to_string).collect();
    match wanted {
        Some(wanted) if !there.is_empty() => {
            bail!("{} has no checkpoint of {wanted}; it has {}", dir.display(), there.join(", "))
        }
        _ => {
            bail!("{} has no checkpoint yet: the learner writes the first one when it starts", dir.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use crate::config::TrainSection;
    use crate::publishing::checkpoint::{Checkpoint, state_at};
    use crate::training::trainer::{Trainer, weights_of};
    use candle_core::Device;
    use echo_policy::model::config::ModelConfig;
    use echo_policy::model::export::ExportError;
    use echo_policy::model::weights::{DType, Weights};
    use std::fs;

    fn plan(home: &Path, version: Option<u64>, output: &str) -> ExportPlan {
        ExportPlan { dir: home.join("run"), version: version.map(PolicyVersion), output: home.join(output) }
    }

    #[tokio::test]
    async fn a_checkpoint_is_exported_beside_a_learner_that_works_there() {
        let home = tempfile::tempdir().unwrap();
        let config = testing::run_config(home.path().join("run"));
        // It holds the directory's lock until the end.
        let founded = founding::found(&config, |_, _| ()).unwrap();
        let early = export(&plan(home.path(), None, "early")).await.unwrap_err().to_string();
        assert!(early.contains("no checkpoint yet"), "{early}");

        let start = Weights::load_dir(&founded.dir.start(), &founded.workload.model).unwrap();
        let checkpoints = Checkpoints::open(&founded.dir, &config.checkpoints).unwrap();
        let run = founded.workload.run;
        for version in [2, 4] {
            let trainer = Trainer::new(&founded.workload.model, &start, &TrainSection::default()).unwrap();
            for (_, var) in trainer.decoder().vars() {
                var.set(&var.affine(1.0, version as f64).unwrap()).unwrap();
            }
            let optimizer = trainer.optimizer().state().unwrap();
            checkpoints.write(state_at(run, version), trainer.decoder(), &optimizer).await.unwrap();
        }
        let (newest, _) = checkpoints.newest(&run, &Device::Cpu).await.unwrap();
        let newest: Checkpoint = newest.unwrap();

        assert_eq!(export(&plan(home.path(), None, "newest")).await.unwrap(), PolicyVersion(4));
        assert_eq!(export(&plan(home.path(), Some(2), "older")).await.unwrap(), PolicyVersion(2));
        let load = |name: &str| {
            let dir = home.path().join(name);
            let model = ModelConfig::from_file(&dir.join("config.json")).unwrap();
            assert!(dir.join("tokenizer.json").exists());
            Weights::load_dir(&dir, &model).unwrap()
        };
        let bytes =
            |weights: &Weights| weights.iter().map(|tensor| tensor.bytes().to_vec()).collect::<Vec<_>>();
        let expected = weights_of(&founded.workload.model, &newest.weights, DType::BF16).unwrap();
        assert_eq!(bytes(&load("newest")), bytes(&expected));
        assert_ne!(bytes(&load("older")), bytes(&expected));

        let none = export(&plan(home.path(), Some(3), "none")).await.unwrap_err().to_string();
        assert!(none.contains("no checkpoint of v3") && none.contains("v4, v2"), "{none}");
        let taken = export(&plan(home.path(), None, "newest")).await.unwrap_err();
        assert!(taken.downcast_ref::<ExportError>().is_some(), "{taken}");
        fs::remove_file(founded.dir.identity()).unwrap();
        export(&plan(home.path(), None, "without the key")).await.unwrap();
    }

    #[test]
    fn a_version_is_written_as_in_logs_or_as_a_number() {
        assert_eq!((version("12"), version("v12")), (Ok(PolicyVersion(12)), Ok(PolicyVersion(12))));
        assert!(version("newest").is_err());
    }
}
