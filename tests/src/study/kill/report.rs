//! What the kill study found.

use super::account::RunAccount;
use super::{KillStudy, Outcome};
use crate::output::console::{CommandReport, Console};
use anyhow::Context as _;
use echo_learner::config::RunConfig;
use echo_learner::storage::run_dir::RunDir;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A study of so many kills leaves room for a damaged checkpoint, and has to have had one.
const KILLS_WITH_DAMAGE: u32 = 10;

/// Judges the study, and says so.
pub(super) fn report(
    study: KillStudy,
    config: &RunConfig,
    outcome: &Outcome,
    account: &RunAccount,
    [calm, killed]: [&RunDir; 2],
    console: &Console,
) -> anyhow::Result<CommandReport> {
    let weights = |dir: &RunDir| read(&dir.policy().join("model.safetensors"));
    let learned = weights(calm)? != read(&calm.start().join("model.safetensors"))?;
    let [ours, theirs] = [parts(killed, study.updates)?, parts(calm, study.updates)?];
    let same = weights(calm)? == weights(killed)? && ours == theirs;
    let budget = config.staleness()?.budget();
    let kills: u32 = outcome.phases.values().sum();
    let phases: BTreeMap<String, u32> =
        outcome.phases.iter().map(|(phase, kills)| (phase.to_string(), *kills)).collect();
    let trained_once =
        account.uneven.is_empty() && account.trained == study.updates * super::run_file::GROUPS as u64;

    let fell_back = outcome.damaged.is_some() || kills < KILLS_WITH_DAMAGE;

    let claims = [
        (
            "final weights and optimizer state are bit-identical to the undisturbed run",
            same && learned && fell_back && kills == study.kills,
            json!({"kills": kills, "weights_changed_since_start": learned, "damaged_checkpoint": outcome.damaged,
                "checkpoint": ours}),
        ),
        (
            "every acknowledged group is trained on or dropped with a reason on record",
            account.lost.is_empty() && account.adds_up,
            json!({"acknowledged": account.acknowledged, "trained": account.trained, "dropped": account.dropped,
                "lost": account.lost.iter().map(|counter| counter.0).collect::<Vec<_>>()}),
        ),
        (
            "no group is trained on twice",
            trained_once,
            json!({"updates_without_exactly_b_groups": account.uneven}),
        ),
        (
            "no update trains on what is older than S",
            account.outside_s.is_empty() && account.largest_lag <= budget && account.rows == study.updates,
            json!({"outside_s": account.outside_s.iter().map(|counter| counter.0).collect::<Vec<_>>(),
                "largest_lag": account.largest_lag, "s": budget, "updates_on_record": account.rows}),
        ),
    ];
    let passed = claims.iter().all(|(_, holds, _)| *holds);
    let [undisturbed_s, killed_s] = outcome.seconds;
    console.say(format!(
        "{kills} kills in {killed_s:.0} s: {} updates made again, {} groups sent again, accuracy {:.3} → {:.3}",
        outcome.repeated, outcome.redelivered, account.accuracy[0], account.accuracy[1]
    ));
    for (claim, holds, figures) in &claims {
        console.say(format!("{} {claim} {figures}", if *holds { "holds " } else { "FAILED" }));
    }
    let claims: Vec<Value> = claims
        .into_iter()
        .map(|(claim, holds, figures)| json!({"claim": claim, "holds": holds, "figures": figures}))
        .collect();
    let last = account.accuracy[1];
    let results = json!([{
        "algo": "gepo", "delay": 0, "seeds": 1,
        "best_mean": account.accuracy[0].max(last), "best_ci95": null, "last_mean": last, "last_ci95": null,
        "start_mean": account.accuracy[0],
        "updates": study.updates, "kills": kills, "seed": study.seed, "kills_by_phase": phases,
        "updates_made_again": outcome.repeated, "groups_sent_again": outcome.redelivered,
        "checkpoints_damaged": u32::from(outcome.damaged.is_some()),
        "undisturbed_s": undisturbed_s, "killed_s": killed_s,
    }]);
    Ok(CommandReport { passed, json: json!({"results": results, "claims": claims}) })
}

/// Lengths and hashes of the tensors in a run's last checkpoint.
fn parts(dir: &RunDir, updates: u64) -> anyhow::Result<Value> {
    let path = dir.checkpoints().join(format!("{updates:012}")).join("state.json");
    let state: Value = serde_json::from_slice(&read(&path)?)?;
    Ok(state["parts"].clone())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}
