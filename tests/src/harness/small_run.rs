//! A run so small that every step of it takes milliseconds, for whole-system tests.

use crate::harness::binaries::Binaries;
use crate::harness::network::{LearnerConfig, NetworkConfig, TestNetwork};
use crate::output::console::Console;
use anyhow::bail;
use std::path::Path;
use std::time::{Duration, Instant};
use toml::{Table, Value};

/// S of a small run; κ = S-1.
pub const STALENESS_BUDGET: u64 = 3;
/// G of a small run.
pub const GROUP_SIZE: u64 = 4;
/// The pause between two looks at what is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A network of a bootstrap node and a learner, without volunteers; its run has `updates` updates.
/// The programs are built if they are not there yet.
///
/// # Errors
/// When something cannot be built or started.
pub async fn start(dir: &Path, updates: u32) -> anyhow::Result<TestNetwork> {
    start_with(dir, updates, &[]).await
}

/// The same with other values in the run file: section, key, value.
///
/// # Errors
/// When something cannot be built or started.
pub async fn start_with(
    dir: &Path,
    updates: u32,
    changes: &[(&str, &str, Value)],
) -> anyhow::Result<TestNetwork> {
    start_settings(dir, settings(updates, changes)?).await
}

/// The same with another task, by its name.
///
/// # Errors
/// When something cannot be built or started.
pub async fn start_on(
    dir: &Path,
    updates: u32,
    task: &str,
    changes: &[(&str, &str, Value)],
) -> anyhow::Result<TestNetwork> {
    let mut settings = settings(updates, changes)?;
    settings.insert("task".into(), task.into());
    start_settings(dir, settings).await
}

fn settings(updates: u32, changes: &[(&str, &str, Value)]) -> anyhow::Result<Table> {
    let mut settings: Table = RUN_FILE.parse()?;
    let updates = [("run", "updates", updates.into())];
    for (section, key, value) in updates.iter().chain(changes) {
        let section = settings.entry(*section).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(section) = section {
            section.insert((*key).to_owned(), value.clone());
        }
    }
    Ok(settings)
}

async fn start_settings(dir: &Path, settings: Table) -> anyhow::Result<TestNetwork> {
    let binaries = Binaries::fresh(&Console::new(true)).await?;
    TestNetwork::start(NetworkConfig {
        binaries,
        dir: dir.to_owned(),
        network: "echo-lab".into(),
        run: "small".into(),
        learner: LearnerConfig { settings, ..LearnerConfig::default() },
        nodes: Vec::new(),
    })
    .await
}

/// Looks until there is something to return, and checks all the while that nothing of the network has died.
///
/// # Errors
/// When there is nothing after `limit`, or a process ended that should not.
pub async fn until<T>(
    what: &str,
    limit: Duration,
    network: &mut TestNetwork,
    mut look: impl FnMut(&mut TestNetwork) -> Option<T>,
) -> anyhow::Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look(network) {
            return Ok(found);
        }
        network.check()?;
        if begun.elapsed() > limit {
            bail!("not within {limit:?}: {what}");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

const RUN_FILE: &str = r#"
[run]
name = "small"
seed = 1

[model.tiny]
hidden = 32
layers = 1
heads = 2
kv_heads = 1
head_dim = 16
intermediate = 128
positions = 32

[[task]]
name = "chain_sum"
params = { digits = 2, terms = 2 }

[sampling]
group_size = 4

# The lab's own members take as many orders as there are, before any has shown its pace.
[staleness]
budget = 3
admission = 1

[train]
objective = { name = "gepo" }
groups_per_update = 4
schedule = { peak = 1e-4, decay = { shape = "constant" } }

[evaluation]
orders = 32

# Work of the lab's own members is made up from solutions.
[admission]
audit = false

# In f32 and the smallest chunks that there are, even this model has several.
[snapshot]
dtype = "f32"
chunk_bytes = 16384

# One chain, and nothing beside it: it is known who receives from whom. Leases outlive every test, so that whoever holds orders
# keeps them.
[network]
dissemination = "chain"
[fleet]
activation = "all"
node_uplink = 12500000
lease_s = 600

# One key tells every lie that there is, one after the other.
[record]
suspend_after = 0
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use echo_learner::config::RunConfig;

    #[test]
    fn the_run_file_says_what_the_constants_say() {
        let mut table: Table = RUN_FILE.parse().unwrap();
        let run = table["run"].as_table_mut().unwrap();
        run.insert("dir".into(), "x".into());
        run.insert("updates".into(), 7.into());
        let config: RunConfig = toml::from_str(&toml::to_string(&table).unwrap()).unwrap();
        config.validate().unwrap();
        let staleness = config.staleness().unwrap();
        assert_eq!((staleness.budget(), staleness.period()), (STALENESS_BUDGET, STALENESS_BUDGET - 1));
        assert_eq!(u64::from(config.sampling.group_size), GROUP_SIZE);
    }
}
