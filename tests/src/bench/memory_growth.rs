//! What memory a step takes grows with: the longest sequence, and neither the batch nor the vocabulary.
//!
//! Working memory is what a process holds at most beyond weights, gradients and moments.

use super::step::{self, Split, StepFigures, StepSetting};
use crate::harness::machine;
use crate::output::console::{CommandReport, Console};
use echo_policy::training::decoder::Activations;
use serde_json::{Map, json};

/// Tokens of a micro-batch, where no sequence is longer.
const BUDGET: usize = 1024;
const LENGTH: usize = 256;
const VOCABULARY: usize = 8192;
/// Sixteenfold batch or vocabulary: working memory over that of the smallest, at most.
const MAX_GROWTH: f64 = 1.1;
/// Steps of each process: what is allocated late is seen in the second.
const STEPS: usize = 2;

/// One thing that grows, its sizes, and the setting of each.
struct Sweep {
    name: &'static str,
    sizes: [usize; 3],
    setting: fn(usize) -> StepSetting,
    /// Whether memory may not grow with it. Where it may, it has to: or what was measured is not
    /// what a step takes.
    bounded: bool,
}

impl Sweep {
    /// How memory grew from the smallest size to the largest, and whether it should have. What
    /// holds nothing grows by no factor.
    fn judge(&self, working_mb: &[f64; 3]) -> (f64, bool) {
        let [first, _, last] = *working_mb;
        let growth = last / first;
        (growth, first > 0.0 && if self.bounded { growth <= MAX_GROWTH } else { growth > 1.0 })
    }
}

const SWEEPS: [Sweep; 3] = [
    Sweep {
        name: "batch_tokens",
        sizes: [1024, 4096, 16_384],
        setting: |tokens| setting(vec![LENGTH; tokens / LENGTH], VOCABULARY),
        bounded: true,
    },
    Sweep {
        name: "vocabulary",
        sizes: [8192, 32_768, 131_072],
        setting: |vocabulary| setting(vec![LENGTH; BUDGET / LENGTH], vocabulary),
        bounded: true,
    },
    Sweep {
        name: "longest_sequence",
        sizes: [1024, 2048, 4096],
        setting: |longest| setting(vec![longest], VOCABULARY),
        bounded: false,
    },
];

fn setting(lengths: Vec<usize>, vocabulary: usize) -> StepSetting {
    StepSetting {
        lengths,
        split: Split::Tokens(BUDGET),
        vocabulary,
        activations: Activations::Keep,
        steps: STEPS,
    }
}

/// Measures every size of every sweep in a process of its own.
///
/// # Errors
/// When a process fails.
pub fn run(console: &Console) -> anyhow::Result<CommandReport> {
    let (mut ours, mut ratios, mut runs) = (Map::new(), Map::new(), Map::new());
    let mut passed = true;
    for sweep in &SWEEPS {
        let mut working = [0.0; 3];
        for (size, working) in sweep.sizes.into_iter().zip(&mut working) {
            let step: StepFigures = step::measure(&(sweep.setting)(size))?;
            console.say(format!("{} {size}: {:.0} MB", sweep.name, step.working_mb()));
            *working = step.working_mb();
        }
        let (growth, holds) = sweep.judge(&working);
        passed &= holds;
        let limit = if sweep.bounded { json!({"at_most": MAX_GROWTH}) } else { json!({"above": 1.0}) };
        ours.insert(sweep.name.to_owned(), json!({"limit": limit, "holds": holds}));
        ratios.insert(sweep.name.to_owned(), json!({"memory": growth}));
        runs.insert(sweep.name.to_owned(), json!({"sizes": sweep.sizes, "working_mb": working}));
    }
    let json = json!({
        "ours": ours, "peers": {}, "ratios": ratios, "machine": machine::describe(), "runs": runs,
        "setting": {"steps": STEPS, "budget": BUDGET},
    });
    Ok(CommandReport { passed, json })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_passes_nothing() {
        let [batch, _, longest] = &SWEEPS;
        let holds = |sweep: &Sweep, working: [f64; 3]| sweep.judge(&working).1;
        assert!(holds(batch, [50.0, 52.0, 55.0]) && !holds(batch, [50.0, 52.0, 56.0]));
        assert!(holds(longest, [50.0, 90.0, 170.0]) && !holds(longest, [50.0, 50.0, 50.0]));
        for sweep in &SWEEPS {
            assert!(!holds(sweep, [0.0, 1.0, 1.0]) && !holds(sweep, [-5.0, 1.0, -6.0]), "{}", sweep.name);
        }
    }
}
