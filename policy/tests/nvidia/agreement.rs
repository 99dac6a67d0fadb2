//! The same numbers as on the CPU, and the same bits however a sequence is fed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use echo_policy::conformance::vectors::models::{VALUE_TOLERANCE, check_backend};
use echo_policy::generation::cuda::{CudaBackend, CudaDevice};
use echo_policy::generation::{Backend, CpuBackend, Feed, TokenClaim, Want};
use echo_policy::model::precision::Precision;
use echo_policy::sampling::SamplingParams;

use crate::emulator::Program;
use crate::models::{self, Model, tokens};
use crate::{Emulator, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("f32 agrees with the cpu", f32_agrees_with_the_cpu),
    ("bf16 agrees with the cpu but for rounding", bf16_agrees_with_the_cpu),
    ("f32 does not depend on how tokens are fed", f32_does_not_depend_on_feeding),
    ("bf16 does not depend on how tokens are fed", bf16_does_not_depend_on_feeding),
    ("attention does not depend on who has its partitions", attention_does_not_depend_on_splits),
    ("the order of threads changes nothing", the_order_of_threads_changes_nothing),
];

/// Log-probs of what follows in ragged sequences, which are fed together.
fn logprobs<B: Backend>(backend: &B, sequences: &[Vec<u32>]) -> Vec<f32> {
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
        .map(|token| TokenClaim { params: &params, token: *token })
        .collect();
    backend.place(&mut feeds, &claims).unwrap().iter().map(|interval| interval.raw_logprob).collect()
}

fn load(device: &Arc<CudaDevice>, model: &Model, precision: Precision) -> CudaBackend {
    CudaBackend::load(device, &model.config, &model.weights, precision).unwrap()
}

/// Mean and largest difference of log-probs on ragged sequences.
fn differences(device: &Arc<CudaDevice>, model: &Model, precision: Precision) -> (f64, f64) {
    let cpu = CpuBackend::load(&model.config, &model.weights).unwrap();
    let backend = load(device, model, precision);
    assert_eq!(backend.precision(), precision);
    let lengths = [2, 90, 33, 5, 64, 120, 7];
    let sequences: Vec<_> =
        (1..).zip(lengths).map(|(salt, count)| tokens(salt, count, &model.config)).collect();
    let (expected, found) = (logprobs(&cpu, &sequences), logprobs(&backend, &sequences));
    let differences = expected.iter().zip(&found).map(|(a, b)| f64::from((a - b).abs()));
    (differences.clone().sum::<f64>() / expected.len() as f64, differences.fold(0.0, f64::max))
}

fn f32_agrees_with_the_cpu(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    for model in models::all() {
        let (mean, worst) = differences(&device, &model, Precision::F32);
        assert!(mean < 1e-5 && worst < 2e-4, "{}: mean {mean:.1e}, worst {worst:.1e}", model.name);
        let cpu = CpuBackend::load(&model.config, &model.weights).unwrap();
        let backend = load(&device, &model, Precision::F32);
        let (mut mine, mut theirs) = (backend.new_cache(), cpu.new_cache());
        let fed = tokens(3, 70, &model.config);
        let found = backend.forward(&mut [Feed { tokens: &fed, cache: &mut mine }], Want::Last).unwrap();
        let expected = cpu.forward(&mut [Feed { tokens: &fed, cache: &mut theirs }], Want::Last).unwrap();
        assert_eq!(found.rows().len(), 1);
        for (a, b) in expected.rows().flatten().zip(found.rows().flatten()) {
            assert!((a - b).abs() < 2e-4, "{}: {a} {b}", model.name);
        }
    }
}

fn bf16_agrees_with_the_cpu(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    for model in models::all() {
        let (mean, worst) = differences(&device, &model, Precision::Bf16);
        // Rounded to 8 bits, and these models' logits are as far apart as those of trained ones.
        assert!(mean < 0.05 && worst < 0.5, "{}: mean {mean:.1e}, worst {worst:.1e}", model.name);
        assert!(mean > 1e-4, "{}: {mean:.1e} is less than bf16 rounds", model.name);
    }
}

/// All logits after the tokens of a sequence that is fed in calls of these lengths, the last of
/// which takes the rest.
fn fed_in(backend: &CudaBackend, tokens: &[u32], calls: &[usize]) -> Vec<Vec<f32>> {
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

fn does_not_depend_on_feeding(program: &Arc<Program>, precision: Precision) {
    let (device, emulator) = Emulator::new(program).shared_device();
    for model in models::all() {
        let Model { name, config, .. } = &model;
        let backend = load(&device, &model, precision);
        let sequence = tokens(3, 96, config);
        let whole = fed_in(&backend, &sequence, &[]);
        assert!(whole.iter().flatten().all(|logit| logit.is_finite()), "{name}");
        // Every kernel for products has its turn.
        for calls in [&[1; 12][..], &[2, 3, 4, 2, 3], &[20, 1, 60], &[66], &[16, 31, 1, 9, 1, 1]] {
            assert!(fed_in(&backend, &sequence, calls) == whole, "{name}: fed by {calls:?}");
        }
        // A common beginning, fed once; then each of two goes on beside strangers.
        let other = [&sequence[..50], &tokens(9, 31, config)].concat();
        let stranger = tokens(5, 33, config);
        let mut prompt = backend.new_cache();
        backend.forward(&mut [Feed { tokens: &sequence[..50], cache: &mut prompt }], Want::Nothing).unwrap();
        let mut caches = [prompt.clone(), prompt, backend.new_cache()];
        for parts in [[50..89, 50..80, 0..32], [89..90, 80..81, 32..33]] {
            let all = [&sequence, &other, &stranger];
            let mut feeds: Vec<_> = (all.iter().zip(parts).zip(&mut caches))
                .map(|((tokens, part), cache)| Feed { tokens: &tokens[part], cache })
                .collect();
            let logits = backend.forward(&mut feeds, Want::Last).unwrap();
            let ends: Vec<usize> = feeds.iter().map(|feed| backend.cached_tokens(feed.cache) - 1).collect();
            for ((tokens, end), row) in all.iter().zip(ends).zip(logits.rows()) {
                assert!(fed_in(&backend, tokens, &[])[end] == row, "{name}: in a batch");
            }
        }
    }
    let launched = emulator.launched.lock();
    let expected: &[&str] = match precision {
        Precision::Bf16 => &["mma_few_1", "mma_few_2", "mma_few_4", "mma_many"],
        _ => &["linear_bf16_1x1", "linear_f32_2x2", "linear_f16_2x4", "linear_bf16_4x8", "linear_bf16_8x8"],
    };
    assert!(expected.iter().all(|kernel| launched.contains(*kernel)), "{launched:?}");
}

fn f32_does_not_depend_on_feeding(program: &Arc<Program>) {
    does_not_depend_on_feeding(program, Precision::F32);
}

fn bf16_does_not_depend_on_feeding(program: &Arc<Program>) {
    does_not_depend_on_feeding(program, Precision::Bf16);
}

fn attention_does_not_depend_on_splits(program: &Arc<Program>) {
    for precision in [Precision::F32, Precision::Bf16] {
        let (small, few) = Emulator::new(program).with(|emulator| emulator.processors = 1).shared_device();
        let (large, many) =
            Emulator::new(program).with(|emulator| emulator.processors = 10_000).shared_device();
        let model = models::one();
        let sequence = tokens(7, 620, &model.config);
        let rows = [small, large].map(|device| {
            let backend = load(&device, &model, precision);
            let mut cache = backend.new_cache();
            let mut feed = |tokens: &[u32], want| {
                backend.forward(&mut [Feed { tokens, cache: &mut cache }], want).unwrap()
            };
            feed(&sequence[..500], Want::Nothing);
            let rows = [feed(&sequence[500..505], Want::All), feed(&sequence[505..], Want::Last)];
            rows.iter()
                .flat_map(|rows| rows.rows().flatten().copied().collect::<Vec<_>>())
                .collect::<Vec<_>>()
        });
        assert!(rows[0] == rows[1] && rows[0].iter().all(|logit| logit.is_finite()), "{precision}");
        let merged =
            |emulator: &Emulator| emulator.launched.lock().iter().any(|kernel| kernel.starts_with("merge"));
        assert!(!merged(&few) && merged(&many));
    }
}

fn the_order_of_threads_changes_nothing(program: &Arc<Program>) {
    for precision in [Precision::F32, Precision::Bf16] {
        for model in models::all().into_iter().take(3) {
            let [forwards, backwards] = [false, true].map(|backwards| {
                let device = Emulator::new(program).with(|emulator| emulator.backwards = backwards).device();
                let backend = load(&device, &model, precision);
                let sequences = [tokens(1, 300, &model.config), tokens(2, 3, &model.config)];
                logprobs(&backend, &sequences)
            });
            assert!(forwards == backwards, "{}", model.name);
        }
    }
}

/// The directory of model vectors, as the tests of the lab find it.
pub(crate) fn vectors() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let dir = std::env::var_os("ECHO_VECTORS").map_or(beside, PathBuf::from).join("models");
    dir.is_dir().then_some(dir)
}

pub(crate) fn the_model_vectors_hold(program: &Arc<Program>) {
    let dir = vectors().expect("a directory of model vectors");
    let device = Emulator::new(program).device();
    let load = |config: &_, weights: &_| CudaBackend::load(&device, config, weights, Precision::F32);
    let report = check_backend(&dir, VALUE_TOLERANCE, load).unwrap();
    assert_eq!(report.failures, Vec::<String>::new());
    assert!(report.passed > 0);
}
