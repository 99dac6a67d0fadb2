//! The policies that are published: random ones of a given size, small updates of them, or given ones.

use super::options::{Broadcast, RaceSnapshots};
use super::site::links::seed_of;
use crate::models::character_policy;
use crate::output::console::Console;
use anyhow::{Context as _, ensure};
use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::weights::{DType, RawTensor, Weights, expected_tensors};
use echo_policy::text::tokenizer::{CHARACTER_VOCABULARY, CharTokenizer};
use echo_protocol::wire::rng::Draws;
use std::path::{Path, PathBuf};

/// The most versions that are published before the one that is timed.
const MAX_VERSIONS: u64 = 64;
/// Bytes of one parameter in bf16.
const PARAMETER: u64 = 2;
/// An update moves one parameter in so many, by one step of bf16: about what AdamW at 1e-6
/// does in two updates.
const UNCHANGED: u64 = 100;

/// The policies of a broadcast, oldest first; the last is the one that is timed.
#[derive(Clone, Debug)]
pub(super) struct Policies {
    /// A Hugging Face directory for each policy, in the same order.
    pub(super) dirs: Vec<PathBuf>,
    /// F: bytes of the weights that the last one holds.
    pub(super) bytes: u64,
}

impl Policies {
    /// The one that is timed.
    pub(super) fn newest(&self) -> &Path {
        self.dirs.last().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Its file of weights, which outside systems send.
    pub(super) fn file(&self) -> PathBuf {
        self.newest().join("model.safetensors")
    }
}

/// Finds or makes the policies, below `dir`.
/// Fails when a given one cannot be read, or the disk is full.
pub(super) fn prepare(broadcast: &Broadcast, dir: &Path, console: &Console) -> anyhow::Result<Policies> {
    let dirs = match &broadcast.snapshots {
        RaceSnapshots::Given { old, new } => vec![std::path::absolute(old)?, std::path::absolute(new)?],
        RaceSnapshots::Random { bytes, delta_from } => {
            console.say(format!("making random policies of {} MiB", bytes >> 20));
            let updates = delta_from.map_or(0, |version| version + 1);
            ensure!(updates < MAX_VERSIONS, "--delta-from: less than {}", MAX_VERSIONS - 1);
            random(*bytes, updates, broadcast.seed, dir)?
        }
    };
    let newest = dirs.last().context("there is a policy")?;
    let model = ModelConfig::from_file(&newest.join("config.json"))?;
    let weights = Weights::load_dir(newest, &model)?;
    let bytes = weights.iter().map(|tensor| tensor.elements() as u64 * PARAMETER).sum();
    Ok(Policies { dirs, bytes })
}

fn random(bytes: u64, updates: u64, seed: u64, dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let model = model_of(bytes / PARAMETER)?;
    let mut draws = Draws::new(seed_of(seed, "weights"));
    let mut tensors: Vec<RawTensor> = expected_tensors(&model)
        .into_iter()
        .map(|spec| RawTensor {
            bytes: noise(spec.elements(), &mut draws),
            name: spec.name,
            dtype: DType::BF16,
            shape: spec.shape,
        })
        .collect();
    let mut dirs = Vec::new();
    for version in 0..=updates {
        if version > 0 {
            tensors.iter_mut().for_each(|tensor| update(&mut tensor.bytes, &mut draws));
        }
        let target = dir.join(format!("v{version}"));
        character_policy::save(&target, &model, &Weights::from_raw(&model, tensors.clone())?)?;
        dirs.push(target);
    }
    Ok(dirs)
}

/// A model of the Qwen3 form with about this many parameters.
fn model_of(parameters: u64) -> anyhow::Result<ModelConfig> {
    // A layer has about 4 h² parameters beside its MLP of 3·h·i; with i near 4 h, 16 h² in all.
    let hidden = [1024usize, 256, 64, 16].into_iter().find(|h| parameters >= 32 * (h * h) as u64);
    let hidden = hidden.context("--size: at least 16 KiB")?;
    let square = (hidden * hidden) as u64;
    let layers = (parameters / (16 * square)).clamp(1, 128);
    let embedding = (CHARACTER_VOCABULARY * hidden) as u64;
    let inner = ((parameters - embedding) / layers).saturating_sub(4 * square) / (3 * hidden as u64);
    let heads = (hidden / 64).max(1);
    let mut model = ModelConfig::tiny_qwen3(TinySizes {
        vocab: CHARACTER_VOCABULARY,
        hidden,
        layers: usize::try_from(layers)?,
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        intermediate: usize::try_from(inner)?.max(1),
        positions: 64,
    })?;
    model.eos_token_ids = vec![CharTokenizer::EOS];
    model.pad_token_id = Some(CharTokenizer::PAD);
    Ok(model)
}

/// Finite bf16 numbers: 15 random bits of 16, so that nothing can compress them by much.
fn noise(count: usize, draws: &mut Draws) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count * 2 + 8);
    while bytes.len() < count * 2 {
        // Without the highest bit of its exponent, a number is below 2.
        bytes.extend((draws.next_u64() & 0xbfff_bfff_bfff_bfff).to_le_bytes());
    }
    bytes.truncate(count * 2);
    bytes
}

/// Moves one number in [`UNCHANGED`], on average, to its neighbour.
fn update(bytes: &mut [u8], draws: &mut Draws) {
    let count = bytes.len() as u64 / 2;
    let mut at = draws.below(2 * UNCHANGED);
    while at < count {
        // The lowest bit of the mantissa: finite stays finite.
        bytes[at as usize * 2] ^= 1;
        at += 1 + draws.below(2 * UNCHANGED - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_met_within_a_few_per_cent() {
        for bytes in [64u64 << 10, 1 << 20, 32 << 20, 256 << 20, 1 << 30] {
            let parameters = model_of(bytes / 2).unwrap().parameter_count();
            let ratio = parameters as f64 * 2.0 / bytes as f64;
            assert!((0.95..1.05).contains(&ratio), "{bytes}: {ratio}");
        }
        assert!(model_of(100).is_err());
    }

    #[test]
    fn an_update_is_small() {
        let mut draws = Draws::new([1; 32]);
        let before = noise(100_000, &mut draws);
        let mut after = before.clone();
        update(&mut after, &mut draws);
        let changed = before.chunks(2).zip(after.chunks(2)).filter(|(a, b)| a != b).count();
        assert!((900..1100).contains(&changed), "{changed}");
    }
}
