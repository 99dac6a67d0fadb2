//! Tokens that are drawn and placed on the device, against the sampler on the same logits.

use echo_policy::generation::wgpu::WgpuBackend;
use echo_policy::generation::{Backend, EngineError, Feed, Pick, TokenClaim, Want};
use echo_policy::model::weights::Weights;
use echo_policy::sampling;
use echo_policy::sampling::{DrawRule, SamplingError, SamplingParams};

use crate::models::{self, Model, tokens};
use crate::{Opener, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("draws follow the rule", draws_follow_the_rule),
    ("places are those of the rule", places_are_those_of_the_rule),
    ("broken logits are errors", broken_logits_are_errors),
];

/// How far a share of probability may be off in f32.
const SHARE: f64 = 1e-6;

fn params() -> Vec<SamplingParams> {
    let with = |temperature, top_p, top_k| SamplingParams {
        temperature,
        top_p,
        top_k,
        ..SamplingParams::unbiased(1)
    };
    vec![
        with(1.0, 1.0, 0),
        with(0.7, 1.0, 0),
        with(2.5, 1.0, 0),
        with(0.05, 1.0, 0),
        with(0.0, 1.0, 0),
        with(1e-30, 1.0, 0),
        with(1.0, 0.9, 0),
        with(0.8, 1.0, 30),
        with(1.3, 0.8, 500),
        with(1.0, 1.0, 5_000),
    ]
}

fn draws_follow_the_rule(opener: &Opener) {
    let gpu = opener.open();
    let Model { config, weights, .. } = models::one();
    let backend = WgpuBackend::load(&gpu, &config, &weights).unwrap();
    let params = params();
    let prompt = tokens(4, 20, &config);
    let (mut drawn, mut different) = (0, Vec::new());
    for round in 0..8 {
        // Ninety sequences: more than the logits of one block.
        let prompts: Vec<_> = (0..90).map(|i| [&prompt[..], &[(i * 13 + round) % 1201]].concat()).collect();
        let numbers: Vec<_> = (0..90).map(|i| sampling::uniform(&[round as u8; 32], i, 0)).collect();
        let mut common = backend.new_cache();
        backend.forward(&mut [Feed { tokens: &prompt, cache: &mut common }], Want::Nothing).unwrap();
        let feeds = |caches: &mut Vec<_>, draw: bool| {
            let mut feeds: Vec<_> = prompts
                .iter()
                .zip(caches)
                .map(|(tokens, cache)| Feed { tokens: &tokens[20..], cache })
                .collect();
            let picks: Vec<_> = (numbers.iter().enumerate())
                .map(|(i, u)| Pick { params: &params[i % params.len()], u: *u })
                .collect();
            if draw {
                (Some(backend.draw(&mut feeds, &picks).unwrap()), None)
            } else {
                (None, Some(backend.forward(&mut feeds, Want::Last).unwrap()))
            }
        };
        let sampled = feeds(&mut vec![common.clone(); 90], true).0.unwrap();
        let logits = feeds(&mut vec![common; 90], false).1.unwrap();
        for (i, (row, found)) in logits.rows().zip(&sampled).enumerate() {
            let (params, u) = (&params[i % params.len()], numbers[i]);
            let expected = sampling::sample(row, params, u).unwrap();
            drawn += 1;
            if found.token != expected.token {
                let place = sampling::interval(row, params, found.token).unwrap();
                different.push((place.distance(u), *params));
                continue;
            }
            assert!((found.logprob - expected.logprob).abs() < 2e-6, "{found:?} {expected:?} {params:?}");
            assert!((found.raw_logprob - expected.raw_logprob).abs() < 2e-6, "{found:?} {expected:?}");
        }
    }
    assert!(drawn == 720 && different.len() < 3, "{different:?}");
    assert!(different.iter().all(|(distance, _)| *distance < SHARE), "{different:?}");
}

fn places_are_those_of_the_rule(opener: &Opener) {
    let gpu = opener.open();
    let Model { config, weights, .. } = models::one();
    let backend = WgpuBackend::load(&gpu, &config, &weights).unwrap();
    let params = params();
    let sequence = tokens(6, 200, &config);
    let claims: Vec<_> = (0..200)
        .map(|i| TokenClaim { params: &params[i % params.len()], token: sequence[(i + 1) % 200], u: 0.0 })
        .collect();
    let mut caches = [backend.new_cache(), backend.new_cache()];
    let [a, b] = &mut caches;
    let placed = backend.place(&mut [Feed { tokens: &sequence, cache: a }], &claims).unwrap();
    let logits = backend.forward(&mut [Feed { tokens: &sequence, cache: b }], Want::All).unwrap();
    for ((row, claim), found) in logits.rows().zip(&claims).zip(&placed) {
        let expected = sampling::interval(row, claim.params, claim.token).unwrap();
        let near = |a: f64, b: f64| a == b || (a - b).abs() < SHARE;
        assert!(near(found.low, expected.low) && near(found.high, expected.high), "{found:?} {expected:?}");
        assert_eq!(found.cut, expected.cut);
        let difference = (found.logprob - expected.logprob).abs();
        assert!(found.logprob == expected.logprob || difference < 1e-5, "{found:?} {expected:?}");
        assert!((found.raw_logprob - expected.raw_logprob).abs() < 2e-6, "{found:?} {expected:?}");
    }
    // What is placed has the raw log-prob with which it was drawn.
    let unbiased = SamplingParams::unbiased(1);
    let cut = SamplingParams { top_k: 3, ..unbiased };
    // Races are run on the host, on the device's logits.
    let race = SamplingParams { rule: DrawRule::Race, ..unbiased };
    for params in [&unbiased, &cut, &race] {
        let (mut a, mut b) = (backend.new_cache(), backend.new_cache());
        let pick = Pick { params, u: 0.4 };
        let drawn = backend.draw(&mut [Feed { tokens: &sequence, cache: &mut a }], &[pick]).unwrap()[0];
        let claims = vec![TokenClaim { params: &unbiased, token: drawn.token, u: 0.4 }; 200];
        let placed = backend.place(&mut [Feed { tokens: &sequence, cache: &mut b }], &claims).unwrap();
        assert_eq!(placed[199].raw_logprob, drawn.raw_logprob);
        let claims = vec![TokenClaim { params, token: drawn.token, u: 0.4 }; 200];
        let mut c = backend.new_cache();
        let placed = backend.place(&mut [Feed { tokens: &sequence, cache: &mut c }], &claims).unwrap();
        assert_eq!(placed[199].lead.is_some(), params.is_race());
        assert!(placed[199].distance(0.4) <= SHARE, "{:?}", placed[199]);
    }
}

fn broken_logits_are_errors(opener: &Opener) {
    let gpu = opener.open();
    let Model { config, .. } = models::one();
    let mut broken = config.clone();
    broken.initializer_range = 1e38;
    let backend = WgpuBackend::load(&gpu, &config, &Weights::random(&broken, 1)).unwrap();
    let (params, mut cache) = (SamplingParams::unbiased(1), backend.new_cache());
    let pick = Pick { params: &params, u: 0.5 };
    let drawn = backend.draw(&mut [Feed { tokens: &[1, 2], cache: &mut cache }], &[pick]);
    assert!(matches!(drawn, Err(EngineError::Sampling(SamplingError::Logits { .. }))), "{drawn:?}");
    assert_eq!(backend.cached_tokens(&cache), 2);
}
