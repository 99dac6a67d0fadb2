//! The policies that are trained: SmolLM2 on sums of two numbers, or a tiny one on sums of digits.

use crate::models::in_process_training::{Practice, PracticeSetting};
use crate::output::console::Console;
use anyhow::Context as _;
use echo_learner::config::RunConfig;
use echo_learner::founding::found;
use echo_policy::model::config::TinySizes;
use echo_policy::model::weights::Weights;
use echo_policy::text::tokenizer::CHARACTER_VOCABULARY;
use echo_protocol::run::charter::TaskSpec;
use serde_json::json;
use std::fs;
use std::path::Path;

/// G.
const GROUP_SIZE: u32 = 8;
/// Largest number of a sum.
const LARGEST: u32 = 30;
/// Supervised updates of the tiny policy, after which it answers, and sometimes rightly; examples of
/// each, and the rate.
const WARM_UP: u64 = 150;
const EXAMPLES: u64 = 32;
const WARM_UP_RATE: f64 = 3e-4;

/// The policy in the directory of SmolLM2, or a tiny one. `home` is for files that the course needs.
pub(super) fn policy(
    model: Option<&Path>,
    home: &Path,
    console: &Console,
) -> anyhow::Result<(Practice, Weights)> {
    match model {
        Some(dir) => {
            let practice = published(dir, home)?;
            let weights = practice.start().clone();
            Ok((practice, weights))
        }
        None => {
            console.say(format!("a tiny policy; {WARM_UP} supervised updates"));
            let practice = tiny()?;
            let weights = practice.imitate(WARM_UP, EXAMPLES, WARM_UP_RATE, |_, _, _| Ok(true))?;
            Ok((practice, weights))
        }
    }
}

/// A run of a Hugging Face directory on sums, which is founded in `home`.
fn published(dir: &Path, home: &Path) -> anyhow::Result<Practice> {
    let rows = home.join("sums.jsonl");
    fs::write(&rows, sums()).with_context(|| format!("cannot write {}", rows.display()))?;
    let dir = std::path::absolute(dir)?;
    let mut config: RunConfig = toml::from_str(FILE)?;
    config.run.dir = home.join("run");
    config.model.path = Some(dir);
    config.data.insert("math".to_owned(), rows);
    config.validate()?;
    Practice::of_run(found(&config, |_, _| ())?)
}

/// As in `examples/arithmetic-smollm2.toml`, with sums alone.
const FILE: &str = r#"
task = "math"

[run]
name = "precision"
dir = "run"
updates = 1

[model]

[sampling]
group_size = 8
temperature = 0.7
max_new_tokens = 32
"#;

/// Every sum of two numbers once, a row a line.
fn sums() -> String {
    let pairs = (1..=LARGEST).flat_map(|one| (one..=LARGEST).map(move |other| (one, other)));
    let row = |(one, other): (u32, u32)| {
        let (question, sum) = (format!("What is {one} + {other}?"), one + other);
        let answer = format!("{one} + {other} = {sum}\n#### {sum}");
        format!("{}\n", json!({"question": question, "answer": answer}))
    };
    pairs.map(row).collect()
}

/// A policy of a million parameters with random weights.
pub(super) fn tiny() -> anyhow::Result<Practice> {
    let sizes = TinySizes {
        vocab: CHARACTER_VOCABULARY,
        hidden: 128,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 32,
        intermediate: 384,
        positions: 64,
    };
    let task = TaskSpec::new("chain_sum").with("digits", 1).with("terms", 2);
    Practice::new(PracticeSetting {
        name: "publication precision",
        sizes,
        task,
        group_size: GROUP_SIZE,
        max_new_tokens: 4,
        seed: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sum_is_there_once() {
        let text = sums();
        let rows: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), 465);
        assert_eq!(rows[1], json!({"question": "What is 1 + 2?", "answer": "1 + 2 = 3\n#### 3"}));
    }

    #[test]
    fn the_run_file_is_one_that_the_learner_takes() {
        let mut config: RunConfig = toml::from_str(FILE).unwrap();
        config.model.path = Some("model".into());
        config.data.insert("math".to_owned(), "sums.jsonl".into());
        config.validate().unwrap();
        assert_eq!(config.sampling.group_size, GROUP_SIZE);
    }
}
