//! How much memory and disk a run takes, from its sizes alone, and how much there is.
//!
//! The estimates are of what is surely allocated: parameters, gradients, moments, copies, and what a
//! pass keeps. Allocators and libraries take more.

use crate::common::workload::dtype;
use crate::config::RunConfig;
use crate::verification::sampling_audit::MAX_POLICIES;
use echo_policy::generation::cuda;
use echo_policy::model::config::ModelConfig;
use echo_policy::model::weights::DType;
use echo_policy::training::decoder::Activations;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// Bytes of a parameter in f32.
const F32: u64 = 4;
/// Bytes of AdamW's two moments of a parameter.
const MOMENTS: u64 = 8;

/// How long sequences are, in tokens, and how many there are in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// The longest sequence: prompt, what is heard, and response.
    pub longest: usize,
    /// Responses to one prompt.
    pub group: usize,
    /// Responses of an update.
    pub responses: usize,
}

/// Bytes of memory that a learner takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryNeed {
    /// Weights, those before rounding where snapshots are rounded, gradients and moments.
    pub state: u64,
    /// The copy of weights and moments that is written as a checkpoint while training goes on.
    pub checkpoint_copy: u64,
    /// The run's first policy, where it scores batches.
    pub reference: u64,
    /// What a pass of the largest size keeps for the way back.
    pub activations: u64,
}

impl MemoryNeed {
    /// Of a run of `config` on the CPU.
    #[must_use]
    pub fn of(config: &RunConfig, model: &ModelConfig, batch: BatchSize) -> Self {
        let parameters = model.parameter_count();
        let is_rounded = dtype(config.snapshot.dtype) != DType::F32;
        let masters = if is_rounded { F32 } else { 0 };
        let objective = &config.train.objective.objective;
        let has_reference = objective.needs_reference() || config.watch.reference;
        Self {
            state: parameters * (F32 + masters + F32 + MOMENTS),
            checkpoint_copy: parameters * (F32 + MOMENTS),
            reference: if has_reference { parameters * F32 } else { 0 },
            activations: activations(config, model, batch),
        }
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        let Self { state, checkpoint_copy, reference, activations } = *self;
        state + checkpoint_copy + reference + activations
    }
}

/// What one pass keeps: of every layer and token the numbers of the decoder's trace.
fn activations(config: &RunConfig, model: &ModelConfig, batch: BatchSize) -> u64 {
    let train = &config.train;
    let whole = if train.objective.objective.needs_whole_groups() { batch.group } else { 1 };
    let unit = batch.longest.saturating_mul(whole);
    let all = batch.longest.saturating_mul(batch.responses);
    let tokens = unit.max(train.micro_batch_tokens.min(all)) as u64;
    let layer = 2 * model.q_dim()
        + 2 * model.kv_dim()
        + model.num_attention_heads
        + model.hidden_size
        + 2 * model.intermediate_size;
    let (layer, residual, layers) = (layer as u64, model.hidden_size as u64, model.num_hidden_layers as u64);
    let numbers = match train.activations {
        Activations::Keep => layers * (layer + residual),
        Activations::Recompute => layers * residual + layer,
    };
    tokens.saturating_mul(numbers).saturating_mul(F32)
}

/// Bytes on the disk of the run directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiskNeed {
    /// Checkpoints that are kept, and the one that is being written.
    pub checkpoints: u64,
    /// Versions that nodes can fetch, and the newest one's deltas at their largest.
    pub snapshots: u64,
    /// The starting policy as it was read, or in f32 after a warm-up, and the trained one as published.
    pub policies: u64,
    /// Policies that the audit holds.
    pub audit: u64,
}

impl DiskNeed {
    /// Of a run of `config`, whose starting policy has elements of type `start`.
    #[must_use]
    pub fn of(config: &RunConfig, model: &ModelConfig, start: DType) -> Self {
        let parameters = model.parameter_count();
        let published = parameters * dtype(config.snapshot.dtype).size() as u64;
        let fresh = config.staleness().map_or(0, |staleness| staleness.budget() / staleness.period());
        let held = fresh.saturating_add(2).min(MAX_POLICIES as u64);
        Self {
            checkpoints: (config.checkpoints.keep as u64 + 1) * parameters * (F32 + MOMENTS),
            snapshots: (config.snapshot.keep_versions as u64 + 1) * published,
            policies: parameters * start.size() as u64 + published,
            audit: if config.admission.audit { held * published } else { 0 },
        }
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        let Self { checkpoints, snapshots, policies, audit } = *self;
        checkpoints + snapshots + policies + audit
    }
}

/// Free bytes on the disk where `path` is, or will be.
pub(super) fn free_disk(path: &Path) -> Option<u64> {
    let path = std::path::absolute(path).ok()?;
    let there = path.ancestors().find(|path| path.exists())?;
    fs4::available_space(there).ok()
}

/// Memory of this machine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// What the system and the limit of this control group let programs have.
    pub total: u64,
    /// What programs could have now.
    pub available: u64,
}

/// The machine's memory; `None` where the system does not say.
pub(super) fn memory() -> Option<Memory> {
    let found = of_meminfo(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
    Some(Memory { total: found.total.min(limit), available: found.available.min(limit) })
}

fn of_meminfo(text: &str) -> Option<Memory> {
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()
    };
    Some(Memory { total: kib("MemTotal:")? << 10, available: kib("MemAvailable:")? << 10 })
}

/// Bytes of memory of the NVIDIA card of this number; `None` where no driver lists it.
pub(super) fn card_memory(number: usize) -> Option<u64> {
    let found = cuda::devices().ok()?;
    found.into_iter().find(|card| card.index == number).map(|card| card.total_memory as u64)
}

/// Says when a card cannot even hold weights, gradients and moments. It is given by number and bytes.
pub(super) fn card_shortage(need: &MemoryNeed, (number, there): (usize, u64)) -> Option<String> {
    (need.state > there).then(|| {
        format!(
            "memory: weights, gradients and moments take {}, and cuda:{number} has {}: take a smaller model, or a card with more",
            bytes(need.state),
            bytes(there)
        )
    })
}

/// What keeps a run of so much memory and disk from working here, and what may.
pub(super) fn shortages(
    config: &RunConfig,
    memory: (&MemoryNeed, Option<Memory>),
    disk: (&DiskNeed, Option<u64>),
) -> (Vec<String>, Vec<String>) {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    let (need, there) = memory;
    if let Some(there) = there {
        let mends = "set [train] activations = \"recompute\" or fewer micro_batch_tokens, take a smaller model, or a machine with more";
        if need.state > there.total {
            problems.push(format!(
                "memory: weights, gradients and moments take {}, and this machine has {}: take a smaller model, or a machine with more",
                bytes(need.state),
                bytes(there.total)
            ));
        } else if need.total() > there.available {
            warnings.push(format!(
                "memory: training takes about {} ({} of it for what a pass keeps), and {} of {} are free: {mends}",
                bytes(need.total()),
                bytes(need.activations),
                bytes(there.available),
                bytes(there.total)
            ));
        }
    }
    let (need, free) = disk;
    let buffer = config.buffer.max_bytes;
    match free {
        Some(free) if free < need.total() => problems.push(format!(
            "disk: checkpoints ({}), snapshots ({}), policies ({}) and the audit ({}) take {} in {}, and {} are free: free some, choose another \
             [run] dir, or lower [checkpoints] keep or [snapshot] keep_versions",
            bytes(need.checkpoints),
            bytes(need.snapshots),
            bytes(need.policies),
            bytes(need.audit),
            bytes(need.total()),
            config.run.dir.display(),
            bytes(free)
        )),
        Some(free) if free - need.total() < buffer => warnings.push(format!(
            "disk: {} are free, and {} remain beside checkpoints and snapshots for groups that wait: [buffer] max_bytes allows {}, so lower it",
            bytes(free),
            bytes(free - need.total()),
            bytes(buffer)
        )),
        _ => {}
    }
    (problems, warnings)
}

/// Bytes as people read them, in powers of 1000.
#[must_use]
pub fn bytes(count: u64) -> String {
    let units = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    let fitting = units.into_iter().find(|(unit, _)| count >= *unit);
    fitting.map_or_else(
        || format!("{count} B"),
        |(unit, name)| format!("{:.1} {name}", count as f64 / unit as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use crate::training::objective::Preset;
    use echo_policy::bench_models::Size;
    use echo_protocol::snapshot::manifest::TensorType;

    const BATCH: BatchSize = BatchSize { longest: 100, group: 4, responses: 16 };

    #[test]
    fn memory_grows_with_parameters_precision_reference_and_pass() {
        let mut config = testing::run_config("run".into());
        config.snapshot.dtype = TensorType::F32;
        let model = Size::M17.config().unwrap();
        let parameters = model.parameter_count();
        let plain = MemoryNeed::of(&config, &model, BATCH);
        assert_eq!((plain.state, plain.reference), (16 * parameters, 0));
        assert_eq!(plain.total(), 28 * parameters + plain.activations);

        config.snapshot.dtype = TensorType::Bf16;
        config.watch.reference = true;
        let rounded = MemoryNeed::of(&config, &model, BATCH);
        assert_eq!((rounded.state, rounded.reference), (20 * parameters, 4 * parameters));

        // Of one token: q and attended, k and v, normalisers, the stream before and between, gate and up.
        let (h, i) = (model.hidden_size, model.intermediate_size);
        let token = 2 * model.q_dim() + 2 * model.kv_dim() + model.num_attention_heads + 2 * h + 2 * i;
        assert_eq!(plain.activations, (1600 * model.num_hidden_layers * token * 4) as u64, "the whole batch");
        config.train.micro_batch_tokens = 200;
        let split = MemoryNeed::of(&config, &model, BATCH).activations;
        assert_eq!(split, plain.activations / 8);
        config.train.micro_batch_tokens = 1;
        assert_eq!(MemoryNeed::of(&config, &model, BATCH).activations, split / 2, "the longest goes alone");
        config.train.activations = Activations::Recompute;
        assert!(MemoryNeed::of(&config, &model, BATCH).activations < split / 8);
        config.train.objective = Preset::Grpo.into();
        config.train.objective.objective.echo_clip =
            Some(crate::training::objective::EchoClip { lambda: 0.1 });
        let grouped = MemoryNeed::of(&config, &model, BATCH).activations;
        config.train.objective.objective.echo_clip = None;
        assert_eq!(grouped, 4 * MemoryNeed::of(&config, &model, BATCH).activations);
    }

    #[test]
    fn what_is_missing_is_named_with_its_mend() {
        let config = testing::run_config("run".into());
        let model = Size::M17.config().unwrap();
        let (need, disk) =
            (MemoryNeed::of(&config, &model, BATCH), DiskNeed::of(&config, &model, DType::F32));
        let found = |total: u64, available: u64, free: u64| {
            shortages(&config, (&need, Some(Memory { total, available })), (&disk, Some(free)))
        };
        let (much, all) = (need.total(), disk.total() + config.buffer.max_bytes);
        assert_eq!(found(much, much, all), (vec![], vec![]));
        let (problems, warnings) = found(much, much - 1, all - 1);
        assert!(problems.is_empty() && warnings.len() == 2, "{warnings:?}");
        assert!(
            warnings[0].contains("recompute") && warnings[1].contains("[buffer] max_bytes"),
            "{warnings:?}"
        );
        let (problems, _) = found(need.state - 1, 1, disk.total() - 1);
        assert!(
            problems[0].contains("weights, gradients") && problems[1].contains("[checkpoints] keep"),
            "{problems:?}"
        );
        assert_eq!(shortages(&config, (&need, None), (&disk, None)), (vec![], vec![]), "nobody knows");
        assert_eq!(card_shortage(&need, (1, need.state)), None);
        let short = card_shortage(&need, (1, need.state - 1)).unwrap();
        assert!(short.contains("and cuda:1 has") && short.contains("a card with more"), "{short}");
    }

    #[test]
    fn policies_take_what_their_types_do() {
        let config = testing::run_config("run".into());
        let model = Size::M17.config().unwrap();
        let parameters = model.parameter_count();
        let published = parameters * dtype(config.snapshot.dtype).size() as u64;
        let policies = |start: DType| DiskNeed::of(&config, &model, start).policies;
        assert_eq!(policies(DType::BF16), 2 * parameters + published);
        assert_eq!(policies(DType::F32), 4 * parameters + published);
    }

    #[test]
    fn the_machine_says_what_it_has() {
        let text = "MemTotal:       2000 kB\nMemFree: 1 kB\nMemAvailable:    1500 kB\n";
        assert_eq!(of_meminfo(text), Some(Memory { total: 2000 << 10, available: 1500 << 10 }));
        assert_eq!(of_meminfo("MemTotal: 1 kB"), None);
        let home = tempfile::tempdir().unwrap();
        assert!(free_disk(&home.path().join("not/there/yet")).is_some_and(|free| free > 0));
        assert_eq!([bytes(12), bytes(1_234), bytes(5_400_000_000)], ["12 B", "1.2 kB", "5.4 GB"]);
    }
}
