//! What a finished run leaves behind: the exported policy, and what the run came to.

use crate::common::workload::dtype;
use crate::founding::{PrepareError, export_policy, sweep_exports};
use crate::publishing::checkpoint::Checkpoint;
use crate::server::SharedState;
use crate::storage::atomic_file::write_whole;
use crate::storage::run_dir::RunDir;
use crate::telemetry::summary::RunSummary;
use crate::training::trainer::weights_of;
use anyhow::Context;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The weights in an exported policy.
const WEIGHTS: &str = "model.safetensors";

/// Exports the policy of the last checkpoint and sums the run up.
///
/// # Errors
/// When the run directory cannot be written.
pub fn conclude(shared: &SharedState, dir: &RunDir, last: &Checkpoint) -> anyhow::Result<()> {
    let published = dtype(shared.workload.charter.snapshot_type);
    let weights = weights_of(&shared.workload.model, &last.weights, published)?;
    let tokenizer = shared.workload.charter.tokenizer.travels().then(|| dir.start());
    replace_policy(&dir.policy(), |draft| {
        export_policy(draft, &shared.workload, &weights, tokenizer.as_deref())
    })?;
    let coordinator = shared.coordinator();
    let refused: BTreeMap<String, u64> =
        coordinator.tally().refused.iter().map(|(reason, n)| (reason.name().to_owned(), *n)).collect();
    let summary =
        RunSummary::of(&dir.metrics(), coordinator.totals(), &refused, shared.workload.charter.group_size)?;
    write_whole(&dir.summary(), &serde_json::to_vec_pretty(&summary)?)?;
    tracing::info!(
        "finished · held-out accuracy {} → {} · policy in {}",
        share(summary.accuracy_before),
        share(summary.accuracy_after),
        dir.policy().display()
    );
    Ok(())
}

/// A share for people; a dash where it is not known.
fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

/// Puts what `export` makes in the place of `policy`, unless that has the same weights: people may
/// have added to it.
fn replace_policy(
    policy: &Path,
    export: impl FnOnce(&Path) -> Result<(), PrepareError>,
) -> anyhow::Result<()> {
    let draft = policy.with_extension("draft");
    remove(&draft)?;
    sweep_exports(&draft).with_context(|| draft.display().to_string())?;
    export(&draft)?;
    // An earlier end of the run, before it was told to go on, left another policy.
    let same =
        hash(&policy.join(WEIGHTS)).is_ok_and(|old| hash(&draft.join(WEIGHTS)).is_ok_and(|new| new == old));
    if same {
        return remove(&draft);
    }
    remove(policy)?;
    fs::rename(&draft, policy).with_context(|| policy.display().to_string())
}

fn hash(file: &Path) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    Ok(hasher.update_reader(File::open(file)?)?.finalize())
}

fn remove(dir: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| dir.display().to_string())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_policy_takes_the_place_of_an_older_one_and_the_same_leaves_it_alone() {
        let home = tempfile::tempdir().unwrap();
        let policy = home.path().join("policy");
        let export = |weights: &'static str| {
            replace_policy(&policy, |draft| {
                fs::create_dir(draft).unwrap();
                fs::write(draft.join(WEIGHTS), weights).unwrap();
                Ok(())
            })
            .unwrap();
        };
        let read = |name: &str| fs::read_to_string(policy.join(name)).ok();
        // A crash left half of a draft, and others half of what was to become one.
        fs::create_dir(policy.with_extension("draft")).unwrap();
        let left =
            [".policy.draft.partial-23458-1", ".policy.draft.scratch-ab"].map(|name| home.path().join(name));
        for dir in &left {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join(WEIGHTS), "half").unwrap();
        }
        let other = home.path().join(".policy.of.ours");
        fs::create_dir(&other).unwrap();
        export("v3");
        fs::write(policy.join("README.md"), "ours").unwrap();
        export("v3");
        assert_eq!((read(WEIGHTS).as_deref(), read("README.md").as_deref()), (Some("v3"), Some("ours")));
        export("v8");
        assert_eq!((read(WEIGHTS).as_deref(), read("README.md")), (Some("v8"), None));
        assert!(!policy.with_extension("draft").exists());
        assert!(left.iter().all(|dir| !dir.exists()) && other.exists());
    }
}
