//! The run of the kill study.

use echo_learner::config::RunConfig;
use std::path::Path;

/// B: groups of an update.
pub(super) const GROUPS: usize = 4;

/// A run of `updates` updates in `dir`, with the lab's smallest policy that has something to learn.
pub(super) fn config(dir: &Path, updates: u64) -> anyhow::Result<RunConfig> {
    let mut config: RunConfig = toml::from_str(FILE)?;
    (config.run.dir, config.run.updates) = (dir.to_owned(), updates);
    config.train.groups_per_update = GROUPS;
    config.validate()?;
    Ok(config)
}

const FILE: &str = r#"
[run]
name = "kills"
dir = ""
updates = 1
seed = 1

[model.tiny]
hidden = 32
layers = 2
heads = 2
kv_heads = 1
head_dim = 16
intermediate = 64
positions = 32

[[task]]
name = "chain_sum"
params = { digits = 1, terms = 2 }

[sampling]
group_size = 8

[staleness]
budget = 3

[train]
objective = { name = "gepo" }
schedule = { peak = 1e-3, decay = { shape = "constant" } }

# Rewards that differ within a group are what there is to learn from.
[warmup]
updates = 1000
batch = 64
learning_rate = 4e-3
until_accuracy = 0.3

[evaluation]
orders = 128

# What nodes install is what the checkpoint holds.
[snapshot]
dtype = "f32"

# Nothing depends on the clock: no lease runs out.
[fleet]
activation = "all"
lease_s = 86400

# Everybody hears of a killed process's connection at once.
[network]
listen = ["/ip4/127.0.0.1/tcp/0"]
"#;
