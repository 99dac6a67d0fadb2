//! Tokens are drawn, and found again, by the rule of the sampler.

use std::sync::Arc;

use echo_policy::generation::cuda::{CudaBackend, CudaDevice};
use echo_policy::generation::{Backend, EngineError, Feed, Pick, TokenClaim, Want};
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::{RawTensor, Weights};
use echo_policy::sampling;
use echo_policy::sampling::{DrawRule, SamplingError, SamplingParams};

use crate::emulator::Program;
use crate::models::{self, Model, tokens};
use crate::{Emulator, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("draws are those of the sampler", draws_are_those_of_the_sampler),
    ("claims lie where the sampler says", claims_lie_where_the_sampler_says),
    ("a draw lies in the interval of its token", a_draw_lies_in_its_interval),
    ("ties are broken by the lowest id", ties_are_broken_by_the_lowest_id),
    ("broken weights are errors", broken_weights_are_errors),
];

fn params(temperature: f32, top_p: f32, top_k: u32) -> SamplingParams {
    SamplingParams { temperature, top_p, top_k, ..SamplingParams::unbiased(1) }
}

/// Distributions with and without each kind of cut.
fn all_params() -> Vec<SamplingParams> {
    vec![
        params(1.0, 1.0, 0),
        params(0.7, 1.0, 0),
        params(1.9, 1.0, 30),
        params(1.0, 1.0, 1),
        params(1.0, 0.9, 0),
        params(0.8, 0.95, 50),
        params(1.3, 0.3, 5000),
        params(0.05, 0.999, 0),
        params(1e-30, 1.0, 0),
        params(0.0, 1.0, 0),
        params(0.0, 0.5, 3),
    ]
}

/// Numbers in [0, 1) and the smallest and the largest of them.
fn shares() -> Vec<f64> {
    let some = (0..5).map(|i| sampling::uniform(&[4; 32], 0, i));
    some.chain([0.0, 1.0 - f64::EPSILON / 2.0]).collect()
}

/// A row of logits that the backend computes, and a cache to compute it again from.
fn row(backend: &CudaBackend, prompt: &[u32]) -> (Vec<f32>, <CudaBackend as Backend>::Cache) {
    let (before, last) = prompt.split_at(prompt.len() - 1);
    let mut cache = backend.new_cache();
    backend.forward(&mut [Feed { tokens: before, cache: &mut cache }], Want::Nothing).unwrap();
    let kept = cache.clone();
    let logits = backend.forward(&mut [Feed { tokens: last, cache: &mut cache }], Want::Last).unwrap();
    (logits.rows().next().unwrap().to_vec(), kept)
}

fn load(device: &Arc<CudaDevice>, model: &Model) -> CudaBackend {
    CudaBackend::load(device, &model.config, &model.weights, Precision::F32).unwrap()
}

fn near(found: f32, expected: f32) -> bool {
    found == expected || (found - expected).abs() < 2e-6 * (1.0 + expected.abs())
}

fn draws_are_those_of_the_sampler(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    let model = models::one();
    let backend = load(&device, &model);
    let prompt = tokens(2, 9, &model.config);
    let (logits, cache) = row(&backend, &prompt);
    let picks: Vec<_> =
        all_params().into_iter().flat_map(|params| shares().into_iter().map(move |u| (params, u))).collect();
    // All in one call, more of them than logits exist at a time.
    assert!(picks.len() > 64);
    let mut caches = vec![cache; picks.len()];
    let mut feeds: Vec<_> =
        caches.iter_mut().map(|cache| Feed { tokens: &prompt[prompt.len() - 1..], cache }).collect();
    let asked: Vec<_> = picks.iter().map(|(params, u)| Pick { params, u: *u }).collect();
    let drawn = backend.draw(&mut feeds, &asked).unwrap();
    let mut other = 0;
    for ((params, u), drawn) in picks.iter().zip(drawn) {
        let expected = sampling::sample(&logits, params, *u).unwrap();
        if drawn.token != expected.token {
            // Only where u is at a border.
            let interval = sampling::interval(&logits, params, drawn.token).unwrap();
            assert!(interval.distance(*u) < 1e-6, "{params:?} {u}: {drawn:?} {expected:?}");
            other += 1;
            continue;
        }
        assert!(near(drawn.logprob, expected.logprob), "{params:?}: {drawn:?} {expected:?}");
        assert!(near(drawn.raw_logprob, expected.raw_logprob), "{params:?}: {drawn:?} {expected:?}");
    }
    assert!(other <= 2, "{other} of {} were at borders", picks.len());
}

fn claims_lie_where_the_sampler_says(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    let model = models::one();
    let backend = load(&device, &model);
    let prompt = tokens(4, 5, &model.config);
    let (logits, cache) = row(&backend, &prompt);
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
    for params in all_params() {
        for token in [0, 1023, 1024, 1200, order[0], order[1], order[4], order[29], order[60], order[1200]] {
            let claims = [TokenClaim { params: &params, token, u: 0.0 }];
            let mut cache = cache.clone();
            let mut feeds = [Feed { tokens: &prompt[prompt.len() - 1..], cache: &mut cache }];
            let found = backend.place(&mut feeds, &claims).unwrap().remove(0);
            let expected = sampling::interval(&logits, &params, token).unwrap();
            let text = || format!("{params:?} {token}: {found:?} {expected:?}");
            for (a, b) in [(found.low, expected.low), (found.high, expected.high)] {
                assert!(a == b || (a - b).abs() < 1e-6, "{}", text());
            }
            assert!(near(found.logprob, expected.logprob), "{}", text());
            assert!(near(found.raw_logprob, expected.raw_logprob), "{}", text());
            let cuts = (found.cut, expected.cut);
            assert!(near(cuts.0, cuts.1) || (cuts.0 - cuts.1).abs() < 1e-5, "{}", text());
        }
    }
    let params = params(1.0, 1.0, 0);
    let mut cache = cache.clone();
    let mut feeds = [Feed { tokens: &prompt[..1], cache: &mut cache }];
    let outside = backend.place(&mut feeds, &[TokenClaim { params: &params, token: 1201, u: 0.0 }]);
    assert!(matches!(outside, Err(EngineError::Token { token: 1201, vocab: 1201 })));
}

fn a_draw_lies_in_its_interval(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    let model = models::one();
    let backend = load(&device, &model);
    let prompt = tokens(6, 3, &model.config);
    // Races are run on the host, on the device's logits.
    let races = [params(1.0, 1.0, 0), params(0.7, 1.0, 0), params(1.0, 0.9, 30)];
    let races = races.map(|params| SamplingParams { rule: DrawRule::Race, ..params });
    for (at, params) in all_params().into_iter().chain(races).enumerate() {
        let u = sampling::uniform(&[5; 32], 1, at as u32);
        let (mut one, mut other) = (backend.new_cache(), backend.new_cache());
        let drawn = backend
            .draw(&mut [Feed { tokens: &prompt, cache: &mut one }], &[Pick { params: &params, u }])
            .unwrap()
            .remove(0);
        let claims = vec![TokenClaim { params: &params, token: drawn.token, u }; 3];
        let placed = backend.place(&mut [Feed { tokens: &prompt, cache: &mut other }], &claims).unwrap()[2];
        assert_eq!(placed.distance(u), 0.0, "{params:?}: {drawn:?} {placed:?}");
        assert_eq!((placed.logprob, placed.raw_logprob), (drawn.logprob, drawn.raw_logprob), "{params:?}");
        assert!(placed.cut >= 0.0);
    }
}

/// The model with other numbers in one of its tensors.
fn changed(model: &Model, name: &str, change: impl Fn(&mut [f32])) -> Weights {
    let raw: Vec<_> = model
        .weights
        .iter()
        .map(|tensor| {
            let mut values = tensor.to_f32();
            if tensor.name() == name {
                change(&mut values);
            }
            RawTensor::from_f32(tensor.name(), tensor.shape(), &values, tensor.dtype())
        })
        .collect();
    Weights::from_raw(&model.config, raw).unwrap()
}

fn ties_are_broken_by_the_lowest_id(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    let model = models::one();
    // All logits are 0.
    let weights = changed(&model, "model.norm.weight", |values| values.fill(0.0));
    let backend = CudaBackend::load(&device, &model.config, &weights, Precision::F32).unwrap();
    for (params, first, last) in [
        (params(0.0, 1.0, 0), 0, 0),
        (params(1.0, 1.0, 1100), 0, 1099),
        (params(1.0, 0.5, 0), 0, 600),
        (params(1.0, 1.0, 0), 0, 1200),
        (params(1.0, 1.0, 5000), 0, 1200),
    ] {
        for (u, expected) in [(0.0, first), (1.0 - f64::EPSILON / 2.0, last)] {
            let mut cache = backend.new_cache();
            let mut feeds = [Feed { tokens: &[5], cache: &mut cache }];
            let drawn = backend.draw(&mut feeds, &[Pick { params: &params, u }]).unwrap().remove(0);
            assert_eq!(drawn.token, expected, "{params:?} {u}");
        }
    }
}

fn broken_weights_are_errors(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    let model = models::one();
    let params = params(1.0, 0.9, 0);
    for bad in [f32::NAN, f32::INFINITY] {
        let weights = changed(&model, "model.norm.weight", |values| values[7] = bad);
        let backend = CudaBackend::load(&device, &model.config, &weights, Precision::F32).unwrap();
        let mut cache = backend.new_cache();
        let mut feeds = [Feed { tokens: &[5, 6], cache: &mut cache }];
        let drawn = backend.draw(&mut feeds, &[Pick { params: &params, u: 0.5 }]);
        assert!(matches!(drawn, Err(EngineError::Sampling(SamplingError::Logits { .. }))), "{drawn:?}");
        // The tokens are in the caches then.
        assert_eq!(backend.cached_tokens(&cache), 2);
    }
}
