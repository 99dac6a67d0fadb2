//! `echo-learner warmup`: the supervised starting policy alone.

use crate::commands::preflight;
use crate::config::RunConfig;
use crate::founding::{export_policy, found, scratch_beside};
use anyhow::bail;
use echo_policy::model::weights::Weights;
use std::path::Path;

/// Makes the starting policy of `config` and writes it to `output`; nothing else of the run is kept.
///
/// # Errors
/// When the run file has no `[warmup]`, or the policy cannot be made or written.
pub fn warm_up_only(config: &RunConfig, output: &Path, progress: impl FnMut(u64, f64)) -> anyhow::Result<()> {
    if config.warmup.is_none() {
        bail!("the run file has no [warmup] table: say how long to warm up");
    }
    preflight::output(output)?;
    // Shows now whether anything can be written there.
    let scratch = scratch_beside(output)?;
    let mut config = config.clone();
    config.run.dir = scratch.path().join("run");
    let founded = found(&config, progress)?;
    let weights = Weights::load_dir(&founded.dir.start(), &founded.workload.model)?;
    let tokenizer = founded.workload.charter.tokenizer.travels().then(|| founded.dir.start());
    export_policy(output, &founded.workload, &weights, tokenizer.as_deref())?;
    tracing::info!("wrote the starting policy to {}", output.display());
    Ok(())
}
