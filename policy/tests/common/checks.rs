//! What every backend is asked, whatever its device.

use std::ops::Range;
use std::path::{Path, PathBuf};

use echo_policy::generation::{Backend, CpuBackend, Feed, SampleRequest, TokenClaim, Want};
use echo_policy::sampling::SamplingParams;

use crate::models::{Model, tokens};

/// Log-probs of what follows in ragged sequences, which are fed together.
pub(crate) fn logprobs<B: Backend>(backend: &B, sequences: &[Vec<u32>]) -> Vec<f32> {
    let params = SamplingParams::unbiased(1);
    let mut caches: Vec<_> = sequences.iter().map(|_| backend.new_cache()).collect();
    let mut feeds: Vec<_> = sequences
        .iter()
        .zip(&mut caches)
        .map(|(tokens, cache)| Feed { tokens: &tokens[..tokens.len() - 1], cache })
        .collect();
    let claims: Vec<_> = sequences
        .iter()
        .flat_map(|tokens| &tokens[1..])
        .map(|token| TokenClaim { params: &params, token: *token, u: 0.0 })
        .collect();
    backend.place(&mut feeds, &claims).unwrap().iter().map(|interval| interval.raw_logprob).collect()
}

/// Mean and largest difference of log-probs to those of the CPU, on ragged sequences.
pub(crate) fn differences<B: Backend>(backend: &B, model: &Model) -> (f64, f64) {
    let cpu = CpuBackend::load(&model.config, &model.weights).unwrap();
    let lengths = [2, 90, 33, 5, 64, 120, 7];
    let sequences: Vec<_> =
        (1..).zip(lengths).map(|(salt, count)| tokens(salt, count, &model.config)).collect();
    let (expected, found) = (logprobs(&cpu, &sequences), logprobs(backend, &sequences));
    let differences = expected.iter().zip(&found).map(|(a, b)| f64::from((a - b).abs()));
    (differences.clone().sum::<f64>() / expected.len() as f64, differences.fold(0.0, f64::max))
}

/// Checks that log-probs and logits are those of the CPU but for rounding in f32.
pub(crate) fn numbers_are_those_of_the_cpu<B: Backend>(backend: &B, model: &Model) {
    let (mean, worst) = differences(backend, model);
    assert!(mean < 1e-5 && worst < 2e-4, "{}: mean {mean:.1e}, worst {worst:.1e}", model.name);
    let cpu = CpuBackend::load(&model.config, &model.weights).unwrap();
    let (mut mine, mut theirs) = (backend.new_cache(), cpu.new_cache());
    let fed = tokens(2, 90, &model.config);
    let found = backend.forward(&mut [Feed { tokens: &fed, cache: &mut mine }], Want::Last).unwrap();
    let expected = cpu.forward(&mut [Feed { tokens: &fed, cache: &mut theirs }], Want::Last).unwrap();
    assert_eq!(found.rows().len(), 1);
    for (a, b) in expected.rows().flatten().zip(found.rows().flatten()) {
        assert!((a - b).abs() < 2e-4, "{}: {a} {b}", model.name);
    }
}

/// All logits after the tokens of a sequence that is fed in calls of these lengths, the last of
/// which takes the rest.
pub(crate) fn fed_in<B: Backend>(backend: &B, tokens: &[u32], calls: &[usize]) -> Vec<Vec<f32>> {
    let (mut cache, mut rest, mut rows) = (backend.new_cache(), tokens, Vec::new());
    for count in calls.iter().copied().chain([usize::MAX]) {
        let (now, later) = rest.split_at(count.min(rest.len()));
        rest = later;
        if !now.is_empty() {
            let logits = backend.forward(&mut [Feed { tokens: now, cache: &mut cache }], Want::All).unwrap();
            rows.extend(logits.rows().map(<[f32]>::to_vec));
        }
    }
    rows
}

/// Checks that a batch changes no numbers. Of `sequence` the first `common` tokens are fed; then it
/// and another one that begins like it go on beside a stranger, by `parts` of each in two calls.
pub(crate) fn batches_change_nothing<B: Backend>(
    backend: &B,
    model: &Model,
    sequence: &[u32],
    common: usize,
    parts: [[Range<usize>; 3]; 2],
) {
    let behind = (parts[1][1].end - common) as u32;
    let other = [&sequence[..common], &tokens(9, behind, &model.config)].concat();
    let stranger = tokens(5, 33, &model.config);
    let mut prompt = backend.new_cache();
    backend.forward(&mut [Feed { tokens: &sequence[..common], cache: &mut prompt }], Want::Nothing).unwrap();
    let mut caches = [prompt.clone(), prompt, backend.new_cache()];
    for parts in parts {
        let all = [sequence, &other, &stranger];
        let mut feeds: Vec<_> = (all.iter().zip(parts).zip(&mut caches))
            .map(|((tokens, part), cache)| Feed { tokens: &tokens[part], cache })
            .collect();
        let logits = backend.forward(&mut feeds, Want::Last).unwrap();
        let ends: Vec<usize> = feeds.iter().map(|feed| backend.cached_tokens(feed.cache) - 1).collect();
        for ((tokens, end), row) in all.iter().zip(ends).zip(logits.rows()) {
            assert!(fed_in(backend, tokens, &[])[end] == row, "{}: in a batch", model.name);
        }
    }
}

/// A request that ends at token 3 or at its limit, sampled as the model says.
pub(crate) fn request(prompt: &[u32], samples: u32, max_new_tokens: u32) -> SampleRequest {
    SampleRequest {
        prompt: prompt.to_vec(),
        seed: [prompt.len() as u8; 32],
        samples,
        stop_ids: vec![3],
        stop_strings: None,
        limits: vec![],
        max_heard: 0,
        params: SamplingParams::unbiased(max_new_tokens),
    }
}

/// The directory of model vectors, as the tests of the lab find it.
pub(crate) fn vectors() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let dir = std::env::var_os("ECHO_VECTORS").map_or(beside, PathBuf::from).join("models");
    dir.is_dir().then_some(dir)
}
