//! How fast a device generates: one response, groups after a prompt that they share, the prompt
//! itself; `transformers` on the same prompts.

use super::card::{CardCeilings, ceilings, learner_device};
use super::{GpuStepOutcome, StepOptions};
use crate::bench::rollout::{RaceRates, RaceTask, Size, TORCH, report_of, reports_of};
use crate::models::random_weights::{make, places};
use anyhow::Context as _;
use echo_policy::generation::device::DeviceChoice;
use echo_policy::model::precision::Precision;
use echo_policy::training::flops::ScoringWork;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tokens of the prompt, new tokens of a response, and responses of the groups.
const FULL: ([usize; 2], &[usize]) = ([512, 128], &[16, 64, 256]);
const SMALL: ([usize; 2], &[usize]) = ([24, 8], &[2, 4]);

pub(super) fn run(options: &StepOptions, outcome: &mut GpuStepOutcome) -> anyhow::Result<()> {
    let choice = options.cuda()?.choice();
    let groups = Groups::new(&options.dir, options.rehearse, Precision::Bf16, choice)?;
    groups.ours(outcome);
    let torch = if options.rehearse { "cpu" } else { "cuda" };
    groups.torch(torch, outcome);
    // Last, as what it takes of the card's memory stays taken.
    let found = learner_device(options.rehearse).and_then(|device| Ok(ceilings(&device)?));
    match found {
        Ok(found) => groups.shares(&found, outcome),
        Err(error) => outcome.part("copies and products", Err(error)),
    }
    Ok(())
}

/// Groups after one prompt on a device.
pub(super) struct Groups {
    size: Size,
    prompt: usize,
    new: usize,
    /// A file for each.
    tasks: Vec<(usize, PathBuf)>,
}

impl Groups {
    /// Writes model and tasks.
    pub(super) fn new(
        dir: &Path,
        small: bool,
        precision: Precision,
        device: DeviceChoice,
    ) -> anyhow::Result<Self> {
        let (size, ([prompt, new], samples)) = if small { (Size::Tiny, SMALL) } else { (Size::B06, FULL) };
        let places = places(size, dir);
        make(size, &places.0)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let task = |samples: usize| {
            let numbers = [prompt, new, samples, threads];
            let task = RaceTask::new(size, places.clone(), numbers, precision, device.clone())?;
            let path = dir.join(format!("group-of-{samples}.json"));
            std::fs::write(&path, serde_json::to_vec(&task)?).with_context(|| path.display().to_string())?;
            Ok((samples, path))
        };
        let tasks = samples.iter().map(|samples| task(*samples)).collect::<anyhow::Result<_>>()?;
        Ok(Self { size, prompt, new, tasks })
    }

    /// Only the smallest of them.
    pub(super) fn first(mut self) -> Self {
        self.tasks.truncate(1);
        self
    }

    /// Ours, each in a process of its own.
    pub(super) fn ours(&self, outcome: &mut GpuStepOutcome) {
        for (samples, path) in &self.tasks {
            let run = || {
                let mut command = Command::new(std::env::current_exe()?);
                report_of(command.arg("rollout-run").arg(path), rayon::current_num_threads())
            };
            self.take(&format!("ours_{samples}"), run(), outcome);
        }
    }

    /// The same with `transformers`, where Python has it.
    fn torch(&self, device: &str, outcome: &mut GpuStepOutcome) {
        if !super::train::has_torch() {
            outcome.figure("torch", "python3 cannot import torch and transformers: not measured");
            return;
        }
        let mut command = super::train::python();
        command.args(["-c", TORCH, "bf16", device]).args(self.tasks.iter().map(|(_, path)| path));
        match reports_of(&mut command, rayon::current_num_threads()) {
            Ok(rates) => {
                for ((samples, _), rates) in self.tasks.iter().zip(rates) {
                    outcome.figure(&format!("torch_{samples}"), &rates);
                }
            }
            // A peer that cannot be measured is nothing that ours did wrong.
            Err(error) => outcome.figure("torch", format!("{error:#}")),
        }
    }

    fn take(&self, name: &str, rates: anyhow::Result<RaceRates>, outcome: &mut GpuStepOutcome) {
        match rates {
            Ok(rates) => outcome.figure(name, &rates),
            Err(error) => outcome.part(name, Err(error)),
        }
    }

    /// What ours uses of what the card can do: bytes that one response has to read, and operations
    /// that the prompt takes.
    fn shares(&self, found: &CardCeilings, outcome: &mut GpuStepOutcome) {
        let Some(ours) = self
            .tasks
            .first()
            .and_then(|(samples, _)| outcome.figures.get(&format!("ours_{samples}")))
            .cloned()
        else {
            return;
        };
        let Ok(config) = self.size.config() else { return };
        let figure = |name: &str| ours[name].as_f64().unwrap_or_default();
        let cached = ours["about"]["cache_bytes_per_token"].as_f64().unwrap_or_default();
        let bytes = config.parameter_count() as f64 * 2.0 + (self.prompt + self.new / 2) as f64 * cached;
        let prompt = self.prompt as u64;
        let work = ScoringWork { tokens: prompt, targets: 1, pairs: prompt * (prompt + 1) / 2 };
        let flops = config.forward_flops(&work) / prompt as f64;
        outcome.figure("ceilings", found);
        // A copy reads and writes; a response only reads.
        outcome.figure(
            "shares",
            json!({
                "one_response_of_copy": bytes * figure("single_tok_s") / (found.copy_gb_s * 1e9),
                "prefill_of_products": flops * figure("prefill_tok_s") / (found.product_tflop_s * 1e12),
            }),
        );
        for (samples, _) in &self.tasks {
            let of =
                |whom: &str, name: &str| outcome.figures.get(&format!("{whom}_{samples}"))?[name].as_f64();
            let ratio = |name: &str| Some(of("ours", name)? / of("torch", name)?);
            if let (Some(group), Some(prefill), Some(single)) =
                (ratio("group_tok_s"), ratio("prefill_tok_s"), ratio("single_tok_s"))
            {
                outcome.figure(
                    &format!("over_torch_{samples}"),
                    json!({"group": group, "prefill": prefill, "single": single}),
                );
            }
        }
    }
}
