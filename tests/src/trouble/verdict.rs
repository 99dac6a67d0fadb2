//! Whether a network came through.

use super::scenario::STALENESS_BUDGET;
use crate::harness::network::TestNetwork;
use crate::harness::observation;
use anyhow::{Context as _, bail, ensure};
use echo_learner::storage::run_dir::RunDir;
use echo_learner::telemetry::summary::RunSummary;
use std::fs;
use std::time::Duration;
use toml::{Table, Value};

/// A learner that was stopped has ended within this time.
const STOP_LIMIT: Duration = Duration::from_secs(15);
/// The last updates are made within this time.
const END_LIMIT: Duration = Duration::from_secs(90);
/// Updates that are made after the last resume, so that what waits is trained on or dropped.
const LAST_UPDATES: u64 = 4;
/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What became of a scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct ScenarioVerdict {
    /// Why it failed, with causes; `None` when it passed.
    pub(super) failure: Option<String>,
    /// Seconds from the last step until training was under way again.
    pub(super) back_after_s: Option<f64>,
    /// Updates that the run made in all.
    pub(super) updates: u64,
    /// The largest lag of what was trained on.
    pub(super) max_staleness: u64,
}

/// Ends the run a few updates on, and looks at its account.
/// Fails when it does not end, something is lost or too old, or somebody honest is suspended.
pub(super) async fn close(network: &mut TestNetwork, verdict: &mut ScenarioVerdict) -> anyhow::Result<()> {
    let stopped = network.stop_process("learner", STOP_LIMIT).await?;
    ensure!(stopped.success(), "the learner was stopped and ended with {stopped}");
    nobody_is_accused(network)?;
    let last = observation::updates(network.layout()) + LAST_UPDATES;
    end_at(network, last)?;
    network.resume_learner()?;
    let begun = std::time::Instant::now();
    while network.learner_ended()?.is_none() {
        network.check()?;
        if begun.elapsed() > END_LIMIT {
            bail!("the run did not end within {} s of its last resume", END_LIMIT.as_secs());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    nobody_is_accused(network)?;
    let path = RunDir::new(&network.layout().run_dir()).summary();
    let summary = fs::read(&path).with_context(|| path.display().to_string())?;
    let summary: RunSummary = serde_json::from_slice(&summary)?;
    (verdict.updates, verdict.max_staleness) = (summary.updates, summary.max_staleness);
    let accounted = summary.trained + summary.dropped.values().sum::<u64>();
    ensure!(summary.updates == last, "{} updates of {last}", summary.updates);
    ensure!(
        summary.acknowledged == accounted,
        "{} acknowledged, {accounted} accounted for: {:?}",
        summary.acknowledged,
        summary.dropped
    );
    ensure!(!summary.dropped.contains_key("damaged"), "acknowledged and then lost: {:?}", summary.dropped);
    ensure!(summary.max_staleness <= STALENESS_BUDGET, "a lag of {} updates", summary.max_staleness);
    Ok(())
}

fn nobody_is_accused(network: &TestNetwork) -> anyhow::Result<()> {
    let accused = observation::accused(network.layout())?;
    ensure!(accused.is_empty(), "somebody honest counts as a liar: {}", accused.join(", "));
    Ok(())
}

/// Changes the run file so that the run ends with this update.
fn end_at(network: &TestNetwork, last: u64) -> anyhow::Result<()> {
    let path = RunDir::new(&network.layout().run_dir()).config();
    let mut table: Table = fs::read_to_string(&path)?.parse()?;
    let run = table.get_mut("run").and_then(Value::as_table_mut).context("[run] of the run file")?;
    run.insert("updates".into(), Value::Integer(i64::try_from(last)?));
    fs::write(&path, toml::to_string(&table)?).with_context(|| path.display().to_string())
}
