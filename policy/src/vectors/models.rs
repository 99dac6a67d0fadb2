//! Checks of both forwards against what `transformers` computed for the same weights.
//!
//! A directory holds one sub-directory per model, with `config.json`, `model.safetensors` and `expected.json`:
//! `cases` (token ids, logits after the last token, log-prob of each token given those before it, entropy at each
//! position) and `nll` (token ids, mean next-token loss, and the norm of the loss's gradient by parameter).

mod expected;

use std::path::Path;

use candle_core::{Device, Tensor};

use super::VectorReport;
use crate::config::ModelConfig;
use crate::decoder::Decoder;
use crate::engine::backend::MAX_CALL_TOKENS;
use crate::engine::{Backend, CpuBackend, Feed, Want};
use crate::error::VectorError;
use crate::logprob;
use crate::weights::Weights;
use expected::{Case, Expected, Nll};

/// Largest |Δ| of a logit, log-prob or entropy.
pub const VALUE_TOLERANCE: f64 = 2e-4;
/// Largest relative difference of a gradient norm.
pub const GRADIENT_TOLERANCE: f64 = 1e-3;
/// A gradient norm that is expected to be this small is compared absolutely instead, against this number.
const GRADIENT_FLOOR: f64 = 1e-6;
/// Most sub-directories that are read.
pub const MAX_MODELS: usize = 256;

type Failure = Box<dyn std::error::Error>;

/// Checks every model directory in `dir`, in order of name. A sub-directory that lacks a file, or holds one that cannot be
/// used, counts as one failed case; the others go on.
///
/// # Errors
/// When `dir` itself cannot be listed.
pub fn check_dir(dir: &Path) -> Result<VectorReport, VectorError> {
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
        if let Err(failure) = check_model(&model, &name, &mut part) {
            part.fail(format!("{name}: {failure}"));
        }
        report.merge(part);
    }
    Ok(report)
}

fn check_model(dir: &Path, name: &str, report: &mut VectorReport) -> Result<(), Failure> {
    let config = ModelConfig::from_file(&dir.join("config.json"))?;
    let weights = Weights::load_dir(dir, &config)?;
    let expected = Expected::load(&dir.join("expected.json"))?;
    let decoder = Decoder::trainable(&config, &weights, &Device::Cpu)?;
    let engine = CpuBackend::load(&config, &weights)?;
    for (index, case) in expected.cases.iter().enumerate() {
        let label = |forward: &str| format!("{name}, case {index}, {forward}");
        match training_outputs(&decoder, &case.ids) {
            Ok(found) => compare(report, &label("training forward"), case, &found),
            Err(failure) => report.fail(format!("{}: {failure}", label("training forward"))),
        }
        match generation_outputs(&decoder, &engine, &case.ids) {
            Ok(found) => compare(report, &label("generation engine"), case, &found),
            Err(failure) => report.fail(format!("{}: {failure}", label("generation engine"))),
        }
    }
    check_gradients(&decoder, &expected.nll, name, report)
}

struct Outputs {
    last_logits: Vec<f32>,
    logprobs: Vec<f32>,
    entropies: Vec<f32>,
}

/// Log-probs and entropies of logits `[1, T, V]`.
fn outputs(ids: &[u32], logits: &Tensor) -> Result<Outputs, Failure> {
    let ids = Tensor::new(ids, logits.device())?.unsqueeze(0)?;
    let length = ids.dims2()?.1;
    let mut logprobs =
        logprob::token_logprobs(logits, &logprob::next_tokens(&ids)?)?.squeeze(0)?.to_vec1()?;
    // The last position has no successor.
    logprobs.pop();
    let entropies = logprob::entropy(logits)?.squeeze(0)?.to_vec1()?;
    let last_logits = logits.squeeze(0)?.get(length - 1)?.to_vec1()?;
    Ok(Outputs { last_logits, logprobs, entropies })
}

fn training_outputs(decoder: &Decoder, ids: &[u32]) -> Result<Outputs, Failure> {
    let input = Tensor::new(ids, decoder.device())?.unsqueeze(0)?;
    outputs(ids, &decoder.logits(&decoder.forward(&input)?)?)
}

/// The first half in one call and the rest token by token, so that prefill, decoding and the cache all take part.
fn generation_outputs(decoder: &Decoder, engine: &CpuBackend, ids: &[u32]) -> Result<Outputs, Failure> {
    let mut cache = engine.new_cache();
    let (prompt, rest) = ids.split_at(ids.len().div_ceil(2));
    let mut values: Vec<f32> = Vec::new();
    for tokens in prompt.chunks(MAX_CALL_TOKENS).chain(rest.chunks(1)) {
        let logits = engine.forward(&mut [Feed { tokens, cache: &mut cache }], Want::All)?;
        values.extend(logits.rows().flatten());
    }
    let shape = (1, ids.len(), decoder.config().vocab_size);
    outputs(ids, &Tensor::from_vec(values, shape, decoder.device())?)
}

fn compare(report: &mut VectorReport, label: &str, case: &Case, found: &Outputs) {
    for (what, expected, found) in [
        ("last_logits", &case.last_logits, &found.last_logits),
        ("token_logprobs", &case.token_logprobs, &found.logprobs),
        ("entropies", &case.entropies, &found.entropies),
    ] {
        if expected.len() != found.len() {
            report.fail(format!("{label}, {what}: {} values, {} expected", found.len(), expected.len()));
            continue;
        }
        let worst = expected.iter().zip(found).map(|(e, f)| (e - f64::from(*f)).abs()).fold(0.0, nan_max);
        report.measure(worst, VALUE_TOLERANCE, || format!("{label}, {what}"));
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
    let ids = Tensor::new(nll.ids.as_slice(), decoder.device())?.unsqueeze(0)?;
    let logits = decoder.logits(&decoder.forward(&ids)?)?;
    let logprobs = logprob::token_logprobs(&logits, &logprob::next_tokens(&ids)?)?;
    let loss = logprobs.narrow(1, 0, nll.ids.len() - 1)?.mean_all()?.neg()?;
    let difference = (f64::from(loss.to_scalar::<f32>()?) - nll.loss).abs();
    report.measure(difference, VALUE_TOLERANCE, || format!("{name}, nll loss"));
    let gradients = loss.backward()?;
    for (parameter, var) in decoder.vars() {
        let Some(expected) = nll.grad_norms.get(parameter) else {
            report.fail(format!("{name}, gradient of {parameter}: expected.json has no norm for it"));
            continue;
        };
        let Some(gradient) = gradients.get(var) else {
            report.fail(format!("{name}, gradient of {parameter}: there is none"));
            continue;
        };
        let values = gradient.flatten_all()?.to_vec1::<f32>()?;
        let norm = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
        let relative = (norm - expected).abs() / expected.abs().max(GRADIENT_FLOOR);
        report.measure(relative, GRADIENT_TOLERANCE, || format!("{name}, gradient norm of {parameter}"));
    }
    for parameter in nll.grad_norms.keys() {
        if !decoder.vars().iter().any(|(name, _)| name == parameter) {
            report.fail(format!("{name}, gradient of {parameter}: the model has no such parameter"));
        }
    }
    Ok(())
}

/// The larger of two differences, where NaN is larger than everything.
fn nan_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[cfg(test)]
mod tests;
