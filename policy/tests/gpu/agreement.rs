//! The same numbers as on the CPU, and the same bits however a sequence is fed.

use std::path::{Path, PathBuf};

use echo_policy::conformance::vectors::models::{VALUE_TOLERANCE, check_backend};
use echo_policy::generation::wgpu::WgpuBackend;
use echo_policy::generation::{Backend, CpuBackend, Feed, TokenClaim, Want};
use echo_policy::sampling::SamplingParams;

use crate::models::{self, Model, tokens};
use crate::{Opener, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("logits are those of the cpu", logits_are_those_of_the_cpu),
    ("numbers do not depend on how tokens are fed", numbers_do_not_depend_on_how_tokens_are_fed),
    ("shards change nothing", shards_change_nothing),
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

fn logits_are_those_of_the_cpu(opener: &Opener) {
    let gpu = opener.open();
    for Model { name, config, weights } in models::all() {
        let cpu = CpuBackend::load(&config, &weights).unwrap();
        let device = WgpuBackend::load(&gpu, &config, &weights).unwrap();
        let lengths = [2, 90, 33, 5, 64, 120, 7];
        let sequences: Vec<_> =
            (1..).zip(lengths).map(|(salt, count)| tokens(salt, count, &config)).collect();
        let (expected, found) = (logprobs(&cpu, &sequences), logprobs(&device, &sequences));
        let differences = expected.iter().zip(&found).map(|(a, b)| f64::from((a - b).abs()));
        let mean = differences.clone().sum::<f64>() / expected.len() as f64;
        let worst = differences.fold(0.0, f64::max);
        assert!(mean < 1e-5 && worst < 2e-4, "{name}: mean {mean:.1e}, worst {worst:.1e}");
        let mut caches = (cpu.new_cache(), device.new_cache());
        let fed = &sequences[1];
        let expected = cpu.forward(&mut [Feed { tokens: fed, cache: &mut caches.0 }], Want::Last).unwrap();
        let found = device.forward(&mut [Feed { tokens: fed, cache: &mut caches.1 }], Want::Last).unwrap();
        for (a, b) in expected.rows().flatten().zip(found.rows().flatten()) {
            assert!((a - b).abs() < 2e-4, "{name}: {a} {b}");
        }
    }
}

/// All logits after the tokens of a sequence that is fed in calls of these lengths, the last of
/// which takes the rest.
fn fed_in(backend: &WgpuBackend, tokens: &[u32], calls: &[usize]) -> Vec<Vec<f32>> {
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

fn numbers_do_not_depend_on_how_tokens_are_fed(opener: &Opener) {
    let gpu = opener.open();
    for Model { name, config, weights } in models::all() {
        let backend = WgpuBackend::load(&gpu, &config, &weights).unwrap();
        let sequence = tokens(3, 150, &config);
        let whole = fed_in(&backend, &sequence, &[]);
        // Every kernel for products has its turn: 1, up to 4, up to 32 columns, and more.
        for calls in [&[1; 150][..], &[3; 50], &[20, 1, 60], &[64, 64], &[31, 1, 1, 1]] {
            assert!(fed_in(&backend, &sequence, calls) == whole, "{name}: fed by {calls:?}");
        }
        // A common beginning, fed once; then each of two goes on beside strangers.
        let other = [&sequence[..70], &tokens(9, 41, &config)].concat();
        let stranger = tokens(5, 33, &config);
        let mut prompt = backend.new_cache();
        backend.forward(&mut [Feed { tokens: &sequence[..70], cache: &mut prompt }], Want::Nothing).unwrap();
        let mut caches = [prompt.clone(), prompt, backend.new_cache()];
        for parts in [[70..109, 70..110, 0..32], [109..110, 110..111, 32..33]] {
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

/// The directory of model vectors, as the tests of the lab find it.
pub(crate) fn vectors() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let dir = std::env::var_os("ECHO_VECTORS").map_or(beside, PathBuf::from).join("models");
    dir.is_dir().then_some(dir)
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
