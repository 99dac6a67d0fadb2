//! The demo's run file.

use toml::Table;

/// S of the demo.
pub const STALENESS_BUDGET: u64 = 3;

/// G of the demo.
pub(super) const GROUP_SIZE: u64 = 16;

/// The settings of a run of `updates` updates: Qwen3 form, 0.6 M parameters, 16 prompts × 16
/// samples an update, GEPO with its clip.
pub(crate) fn settings(updates: u64) -> anyhow::Result<Table> {
    let mut table: Table = FILE.parse()?;
    if let Some(run) = table.get_mut("run").and_then(toml::Value::as_table_mut) {
        run.insert("updates".into(), toml::Value::Integer(i64::try_from(updates)?));
    }
    Ok(table)
}

const FILE: &str = r#"
[run]
name = "addition"
seed = 1

[model.tiny]
hidden = 128
layers = 3
heads = 4
kv_heads = 2
head_dim = 32
intermediate = 384
positions = 32

[[task]]
name = "chain_sum"
params = { digits = 2, terms = 2 }

[sampling]
group_size = 16
temperature = 1.0

[staleness]
budget = 3
period = 2

[train]
objective = { name = "gepo" }
groups_per_update = 16
micro_batch_tokens = 1280
schedule = { peak = 3e-4, warmup = 10, decay = { shape = "cosine", updates = 600, floor = 0.1 } }

# How fast a start is learned varies with the run's own prompts; what is learned by reinforcement should not.
[warmup]
updates = 1000
batch = 64
learning_rate = 2e-3
until_accuracy = 0.3

[evaluation]
orders = 512
every = 100

[snapshot]
dtype = "bf16"
chunk_bytes = 131072

[fleet]
activation = "all"
node_uplink = 12500000
lease_s = 20
orders_per_node = 16
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use echo_learner::config::RunConfig;

    #[test]
    fn the_run_file_is_one_that_the_learner_takes() {
        let mut table = settings(7).unwrap();
        table["run"].as_table_mut().unwrap().insert("dir".into(), "x".into());
        let config: RunConfig = toml::from_str(&toml::to_string(&table).unwrap()).unwrap();
        config.validate().unwrap();
        let staleness = config.staleness().unwrap();
        assert_eq!(u64::from(config.sampling.group_size), GROUP_SIZE);
        assert_eq!((config.run.updates, staleness.budget(), staleness.period()), (7, STALENESS_BUDGET, 2));
    }
}
