//! The run file of a published model.

use crate::harness::network::section;
use anyhow::Context as _;
use std::path::Path;
use toml::{Table, Value};

/// S.
pub(super) const STALENESS_BUDGET: u64 = 2;
/// G.
pub(super) const GROUP_SIZE: u64 = 8;
/// Longest response. A sum with a sentence around it takes half of it.
pub(super) const MAX_NEW_TOKENS: u32 = 32;
/// In training and evaluation alike. Of 48 sums the published model answered 2 right at 1, and 5 here
/// (llama.cpp, 16 tokens), so that more groups have a signal.
pub(super) const TEMPERATURE: f64 = 0.7;

/// How much of everything there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunSize {
    /// Groups of an update.
    pub(super) groups: u32,
    /// Rows of each set that is evaluated before and after, at most.
    pub(super) evaluation_rows: usize,
    /// Held-out orders of an evaluation during the run.
    pub(super) orders: u32,
    /// Whether what is learned is judged.
    pub(super) judged: bool,
}

impl RunSize {
    /// Of a run with so many updates. Short runs are smoke tests, and all of them is small.
    pub(super) fn of(updates: u64) -> Self {
        if updates >= super::JUDGED_FROM {
            Self { groups: 24, evaluation_rows: usize::MAX, orders: 128, judged: true }
        } else {
            Self { groups: 2, evaluation_rows: 8, orders: 8, judged: false }
        }
    }
}

/// The settings of a run of `updates` updates of the model in `model` on the rows of `train`.
pub(super) fn settings(updates: u64, size: RunSize, model: &Path, train: &Path) -> anyhow::Result<Table> {
    let mut settings: Table = FILE.parse()?;
    let path = |path: &Path| -> anyhow::Result<Value> {
        let path = std::path::absolute(path)?;
        let text = path.to_str().with_context(|| format!("{} is not Unicode", path.display()))?;
        Ok(Value::from(text))
    };
    for (name, key, value) in [
        ("run", "updates", Value::Integer(i64::try_from(updates)?)),
        ("model", "path", path(model)?),
        ("data", "math", path(train)?),
        ("train", "groups_per_update", Value::from(size.groups)),
        ("evaluation", "orders", Value::from(size.orders)),
    ] {
        section(&mut settings, name)?.insert(key.to_owned(), value);
    }
    Ok(settings)
}

const FILE: &str = r#"
task = "math"

[run]
name = "smollm2"

[sampling]
group_size = 8
temperature = 0.7
max_new_tokens = 32

# With a publication after every update, batches are mostly one update old.
[staleness]
budget = 2
period = 1

# A batch has some 15000 tokens: so many at once keep the learner's memory down.
[train]
objective = { name = "gepo" }
micro_batch_tokens = 2048
schedule = { peak = 2e-5, warmup = 3, decay = { shape = "constant" } }

[evaluation]
every = 20

# A checkpoint has 1.6 GB, and there are two while one is written.
[checkpoints]
keep = 1

[fleet]
orders_per_node = 24
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::cargo::workspace_root;
    use echo_learner::config::RunConfig;

    #[test]
    fn the_run_file_is_one_that_the_learner_takes() {
        for updates in [5, super::super::UPDATES] {
            let size = RunSize::of(updates);
            let mut table = settings(updates, size, Path::new("model"), Path::new("train.jsonl")).unwrap();
            section(&mut table, "run").unwrap().insert("dir".into(), "x".into());
            let config: RunConfig = toml::from_str(&toml::to_string(&table).unwrap()).unwrap();
            config.validate().unwrap();
            let staleness = config.staleness().unwrap();
            assert_eq!((config.run.updates, staleness.budget()), (updates, STALENESS_BUDGET));
            assert_eq!(u64::from(config.sampling.group_size), GROUP_SIZE);
            let sampling = (config.sampling.max_new_tokens, config.sampling.temperature);
            assert_eq!(sampling, (Some(MAX_NEW_TOKENS), TEMPERATURE as f32));
            assert_eq!(size.judged, updates > 5);
        }
    }

    #[test]
    fn the_example_is_the_same_run() {
        let example = workspace_root().join("examples/arithmetic-smollm2.toml");
        let example = RunConfig::load(&example).unwrap();
        let (updates, home) = (super::super::UPDATES, example.run.dir.parent().unwrap().to_owned());
        let train = home.join("data/train.jsonl");
        let mut table = settings(updates, RunSize::of(updates), &home.join("model"), &train).unwrap();
        section(&mut table, "run").unwrap().insert("dir".into(), "x".into());
        let mut ours: RunConfig = toml::from_str(&toml::to_string(&table).unwrap()).unwrap();
        // Paths are those of the example, and what it has of them.
        (ours.run, ours.network) = (example.run.clone(), example.network.clone());
        ours.checkpoints = example.checkpoints.clone();
        (ours.model, ours.data) = (example.model.clone(), example.data.clone());
        ours.run.updates = updates;
        assert_eq!(ours, example);
    }
}
