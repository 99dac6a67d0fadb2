//! The same numbers as on the CPU, and the same bits however a sequence is fed.

use echo_policy::conformance::vectors::models::{VALUE_TOLERANCE, check_backend};
use echo_policy::generation::wgpu::WgpuBackend;

use crate::checks::{batches_change_nothing, fed_in, numbers_are_those_of_the_cpu, vectors};
use crate::models::{self, Model, tokens};
use crate::{Opener, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("logits are those of the cpu", logits_are_those_of_the_cpu),
    ("numbers do not depend on how tokens are fed", numbers_do_not_depend_on_how_tokens_are_fed),
    ("shards change nothing", shards_change_nothing),
];

fn logits_are_those_of_the_cpu(opener: &Opener) {
    let gpu = opener.open();
    for model in models::all() {
        let backend = WgpuBackend::load(&gpu, &model.config, &model.weights).unwrap();
        numbers_are_those_of_the_cpu(&backend, &model);
    }
}

fn numbers_do_not_depend_on_how_tokens_are_fed(opener: &Opener) {
    let gpu = opener.open();
    for model in models::all() {
        let backend = WgpuBackend::load(&gpu, &model.config, &model.weights).unwrap();
        let sequence = tokens(3, 150, &model.config);
        let whole = fed_in(&backend, &sequence, &[]);
        // Every kernel for products has its turn: 1, up to 4, up to 32 columns, and more.
        for calls in [&[1; 150][..], &[3; 50], &[20, 1, 60], &[64, 64], &[31, 1, 1, 1]] {
            assert!(fed_in(&backend, &sequence, calls) == whole, "{}: fed by {calls:?}", model.name);
        }
        let parts = [[70..109, 70..110, 0..32], [109..110, 110..111, 32..33]];
        batches_change_nothing(&backend, &model, &sequence, 70, parts);
    }
}

fn shards_change_nothing(opener: &Opener) {
    let whole = opener.open();
    let small = opener.open_with(|options| options.shard_bytes = Some(20_000));
    for Model { name, config, weights } in models::all() {
        let sequence = tokens(2, 60, &config);
        let [a, b] = [&whole, &small].map(|gpu| WgpuBackend::load(gpu, &config, &weights).unwrap());
        for calls in [&[][..], &[20, 3, 1]] {
            assert!(fed_in(&a, &sequence, calls) == fed_in(&b, &sequence, calls), "{name}");
        }
    }
}

pub(crate) fn the_model_vectors_hold(opener: &Opener) {
    let gpu = opener.open();
    let dir = vectors().expect("a directory of model vectors");
    let report =
        check_backend(&dir, VALUE_TOLERANCE, |config, weights| WgpuBackend::load(&gpu, config, weights))
            .unwrap();
    assert_eq!(report.failures, Vec::<String>::new());
    assert!(report.passed > 0);
}
