//! The same numbers as on the CPU, and the same bits however a sequence is fed.

use std::sync::Arc;

use echo_policy::conformance::vectors::models::{VALUE_TOLERANCE, check_backend};
use echo_policy::generation::cuda::{CudaBackend, CudaDevice};
use echo_policy::generation::{Backend, Feed, Want};
use echo_policy::model::precision::Precision;

use crate::checks::{
    batches_change_nothing, differences, fed_in, logprobs, numbers_are_those_of_the_cpu, vectors,
};
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

fn load(device: &Arc<CudaDevice>, model: &Model, precision: Precision) -> CudaBackend {
    let backend = CudaBackend::load(device, &model.config, &model.weights, precision).unwrap();
    assert_eq!(backend.precision(), precision);
    backend
}

fn f32_agrees_with_the_cpu(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    for model in models::all() {
        numbers_are_those_of_the_cpu(&load(&device, &model, Precision::F32), &model);
    }
}

fn bf16_agrees_with_the_cpu(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    for model in models::all() {
        let (mean, worst) = differences(&load(&device, &model, Precision::Bf16), &model);
        // Rounded to 8 bits, and these models' logits are as far apart as those of trained ones.
        assert!(mean < 0.05 && worst < 0.5, "{}: mean {mean:.1e}, worst {worst:.1e}", model.name);
        assert!(mean > 1e-4, "{}: {mean:.1e} is less than bf16 rounds", model.name);
    }
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
        let parts = [[50..89, 50..80, 0..32], [89..90, 80..81, 32..33]];
        batches_change_nothing(&backend, &model, &sequence, 50, parts);
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

pub(crate) fn the_model_vectors_hold(program: &Arc<Program>) {
    let dir = vectors().expect("a directory of model vectors");
    let device = Emulator::new(program).device();
    let load = |config: &_, weights: &_| CudaBackend::load(&device, config, weights, Precision::F32);
    let report = check_backend(&dir, VALUE_TOLERANCE, load).unwrap();
    assert_eq!(report.failures, Vec::<String>::new());
    assert!(report.passed > 0);
}
