//! Checks of both forwards against what `transformers` computed for the same weights.
//!
//! A directory holds one sub-directory per model, with `config.json`, `model.safetensors` and
//! `expected.json`: `cases` (token ids, logits after the last token, log-prob of each token given
//! those before it, entropy at each position) and `nll` (token ids, mean next-token loss, and the
//! norm of the loss's gradient by parameter).

mod expected;

use std::path::Path;

use candle_core::Device;

use super::{VectorError, VectorReport};
use crate::conformance::larger;
use crate::generation::backend::MAX_CALL_TOKENS;
use crate::generation::{Backend, CpuBackend, EngineError, Feed, Want};
use crate::model::config::ModelConfig;
use crate::model::weights::Weights;
use crate::sampling::logprob;
use crate::training::decoder::{Activations, Decoder, Gradients, Scores};
use crate::training::packed::{Packed, Target};
use expected::{ExpectedModel, ModelCase, Nll};

/// Largest |Δ| of a logit, log-prob or entropy.
pub const VALUE_TOLERANCE: f64 = 2e-4;
/// Largest relative difference of a gradient norm.
pub const GRADIENT_TOLERANCE: f64 = 1e-3;
/// A gradient norm that is expected to be this small is compared absolutely instead, against this number.
const GRADIENT_FLOOR: f64 = 1e-6;
/// Most sub-directories that are read.
pub const MAX_MODELS: usize = 256;

type Failure = Box<dyn std::error::Error>;

/// Checks every model directory in `dir` on the CPU, in order of name. A sub-directory that lacks a
/// file, or holds one that cannot be used, counts as one failed case; the others go on.
///
/// # Errors
/// When `dir` itself cannot be listed.
pub fn check_dir(dir: &Path) -> Result<VectorReport, VectorError> {
    check_dir_on(dir, &Device::Cpu)
}

/// [`check_dir`] with the training forward on `device`; the generation engine stays on the CPU.
///
/// # Errors
/// When `dir` itself cannot be listed.
pub fn check_dir_on(dir: &Path, device: &Device) -> Result<VectorReport, VectorError> {
    each_model(dir, |model, name, report| check_model(model, name, device, report))
}

/// Checks a backend of the generation engine with every model directory in `dir`, as
/// [`check_dir`] does. `load` puts a model on it; values may differ by `tolerance`, which
/// is [`VALUE_TOLERANCE`] in f32.
///
/// # Errors
/// When `dir` itself cannot be listed.
pub fn check_backend<B: Backend>(
    dir: &Path,
    tolerance: f64,
    load: impl Fn(&ModelConfig, &Weights) -> Result<B, EngineError>,
) -> Result<VectorReport, VectorError> {
    each_model(dir, |model, name, report| {
        let config = ModelConfig::from_file(&model.join("config.json"))?;
        let engine = load(&config, &Weights::load_dir(model, &config)?)?;
        for (index, case) in ExpectedModel::load(&model.join("expected.json"))?.cases.iter().enumerate() {
            check_generation(&engine, &format!("{name}, case {index}"), case, tolerance, report);
        }
        Ok(())
    })
}

/// Checks every model directory in `dir` in order of name.
fn each_model(
    dir: &Path,
    check: impl Fn(&Path, &str, &mut VectorReport) -> Result<(), Failure>,
) -> Result<VectorReport, VectorError> {
    let read = |source| VectorError::Read { path: dir.to_owned(), source };
    let mut models = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.is_dir() {
            models.push(path);
        }
    }
    if models.is_empty() || models.len() > MAX_MODELS {
        let reason = format!("holds {} model directories, 1 to {MAX_MODELS} are allowed", models.len());
        return Err(VectorError::Malformed { path: dir.to_owned(), reason });
    }
    models.sort();
    let mut report = VectorReport::default();
    for model in models {
        let mut part = VectorReport::default();
        let name = model.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Err(failure) = check(&model, &name, &mut part) {
            part.fail(format!("{name}: {failure}"));
        }
        report.merge(part);
    }
    Ok(report)
}

fn check_model(dir: &Path, name: &str, device: &Device, report: &mut VectorReport) -> Result<(), Failure> {
    let config = ModelConfig::from_file(&dir.join("config.json"))?;
    let weights = Weights::load_dir(dir, &config)?;
    let expected = ExpectedModel::load(&dir.join("expected.json"))?;
    let decoder = Decoder::trainable(&config, &weights, device)?;
    let engine = CpuBackend::load(&config, &weights)?;
    for (index, case) in expected.cases.iter().enumerate() {
        let label = format!("{name}, case {index}, training forward");
        match training_outputs(&decoder, &case.ids) {
            Ok(found) => compare(report, &label, case, &found, VALUE_TOLERANCE),
            Err(failure) => report.fail(format!("{label}: {failure}")),
        }
        check_generation(&engine, &format!("{name}, case {index}"), case, VALUE_TOLERANCE, report);
    }
    check_gradients(&decoder, &expected.nll, name, report)
}

fn check_generation<B: Backend>(
    engine: &B,
    case: &str,
    expected: &ModelCase,
    tolerance: f64,
    report: &mut VectorReport,
) {
    let label = format!("{case}, generation engine");
    match generation_outputs(engine, &expected.ids) {
        Ok(found) => compare(report, &label, expected, &found, tolerance),
        Err(failure) => report.fail(format!("{label}: {failure}")),
    }
}

struct Outputs {
    last_logits: Vec<f32>,
    logprobs: Vec<f32>,
    entropies: Vec<f32>,
}

/// Every next token of `ids`, and any token after the last one for the entropy there.
fn targets(packed: &Packed) -> Vec<Target> {
    let mut targets = packed.next_tokens();
    targets.push(Target { row: packed.ids().len() - 1, token: 0 });
    targets
}

fn training_outputs(decoder: &Decoder, ids: &[u32]) -> Result<Outputs, Failure> {
    let packed = Packed::of(&[ids])?;
    let Scores { mut logp, entropy } = decoder.score(&packed, &targets(&packed))?;
    // The last position has no successor.
    logp.pop();
    let last_logits = decoder.logits(&packed, &[ids.len() - 1])?;
    Ok(Outputs { last_logits, logprobs: logp, entropies: entropy })
}

/// The first half in one call and the rest token by token, so that prefill, decoding and the
/// cache all take part.
fn generation_outputs<B: Backend>(engine: &B, ids: &[u32]) -> Result<Outputs, Failure> {
    let mut cache = engine.new_cache();
    let (prompt, rest) = ids.split_at(ids.len().div_ceil(2));
    let targets = targets(&Packed::of(&[ids])?);
    let (mut logprobs, mut entropies, mut last_logits) = (Vec::new(), Vec::new(), Vec::new());
    let mut targets = targets.iter();
    for tokens in prompt.chunks(MAX_CALL_TOKENS).chain(rest.chunks(1)) {
        let logits = engine.forward(&mut [Feed { tokens, cache: &mut cache }], Want::All)?;
        for (row, target) in logits.rows().zip(&mut targets) {
            let (logp, entropy) =
                logprob::of_token(row, target.token).ok_or("a token outside of the vocabulary")?;
            logprobs.push(logp);
            entropies.push(entropy);
            last_logits = row.to_vec();
        }
    }
    logprobs.pop();
    Ok(Outputs { last_logits, logprobs, entropies })
}

fn compare(report: &mut VectorReport, label: &str, case: &ModelCase, found: &Outputs, tolerance: f64) {
    for (what, expected, found) in [
        ("last_logits", &case.last_logits, &found.last_logits),
        ("token_logprobs", &case.token_logprobs, &found.logprobs),
        ("entropies", &case.entropies, &found.entropies),
    ] {
        if expected.len() != found.len() {
            report.fail(format!("{label}, {what}: {} values, {} expected", found.len(), expected.len()));
            continue;
        }
        let worst = expected.iter().zip(found).map(|(e, f)| (e - f64::from(*f)).abs()).fold(0.0, larger);
        report.measure(worst, tolerance, || format!("{label}, {what}"));
    }
}

fn check_gradients(
    decoder: &Decoder,
    nll: &Nll,
    name: &str,
    report: &mut VectorReport,
) -> Result<(), Failure> {
    if nll.ids.len() < 2 {
        return Err("nll: fewer than two ids".into());
    }
    let packed = Packed::of(&[&nll.ids])?;
    let targets = packed.next_tokens();
    let scored = decoder.score_for_training(&packed, &targets, Activations::Recompute)?;
    let count = targets.len() as f64;
    let loss = -scored.scores().logp.iter().map(|logp| f64::from(*logp)).sum::<f64>() / count;
    report.measure((loss - nll.loss).abs(), VALUE_TOLERANCE, || format!("{name}, nll loss"));
    let mut gradients = Gradients::zeros(decoder)?;
    scored.backward(&vec![(-1.0 / count) as f32; targets.len()], None, &mut gradients)?;
    for ((parameter, _), gradient) in decoder.vars().iter().zip(gradients.buffers()) {
        let Some(expected) = nll.grad_norms.get(parameter) else {
            report.fail(format!("{name}, gradient of {parameter}: expected.json has no norm for it"));
            continue;
        };
        let relative = (gradient.square_sum()?.sqrt() - expected).abs() / expected.abs().max(GRADIENT_FLOOR);
        report.measure(relative, GRADIENT_TOLERANCE, || format!("{name}, gradient norm of {parameter}"));
    }
    for parameter in nll.grad_norms.keys() {
        if !decoder.vars().iter().any(|(name, _)| name == parameter) {
            report.fail(format!("{name}, gradient of {parameter}: the model has no such parameter"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
