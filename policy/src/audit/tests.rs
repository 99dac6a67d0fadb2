use std::sync::Arc;

use super::*;
use crate::generation::{Completion, Generation, GenerationLimits, PolicyTakeover, SampleRequest, Ticket};
use crate::model::config::ModelConfig;
use crate::model::precision::Precision;
use crate::model::weights::Weights;
use crate::sampling::DrawRule;
use crate::training::decoder::tests::families;

const SEED: [u8; 32] = [7; 32];
const PROMPT: [u32; 3] = [1, 2, 4];
const TOKENS: u32 = 24;

fn params(temperature: f32) -> SamplingParams {
    SamplingParams { temperature, ..SamplingParams::unbiased(TOKENS) }
}

fn load(config: &ModelConfig, weights: &Weights) -> Arc<Policy> {
    Arc::new(Policy::load(1, config, weights).unwrap())
}

fn generate(policy: &Arc<Policy>, params: SamplingParams) -> Vec<Completion> {
    let (prompt, stop_ids) = (PROMPT.to_vec(), vec![]);
    let request = SampleRequest {
        prompt,
        seed: SEED,
        samples: 4,
        stop_ids,
        stop_strings: None,
        limits: vec![],
        max_heard: 0,
        params,
    };
    Generation::start(policy.clone(), vec![request]).unwrap().run().unwrap().remove(0)
}

/// What the audit says of `tokens` as sample `sample` of the order, drawn at temperature 0.8.
fn look(policy: &Policy, sample: u32, tokens: &[u32], logprobs: &[f32]) -> Evidence {
    let draw = |(at, logprob): (usize, &f32)| Draw { at, position: at as u32, logprob: *logprob };
    let draws: Vec<Draw> = logprobs.iter().enumerate().map(draw).collect();
    Audit::new(policy, &PROMPT, &SEED, &params(0.8)).unwrap().look(sample, tokens, &draws).unwrap()
}

fn fault(policy: &Policy, sample: u32, tokens: &[u32], logprobs: &[f32]) -> Option<AuditFault> {
    look(policy, sample, tokens, logprobs).fault(&Tolerance::f32(0.8))
}

#[test]
fn honest_samples_pass_and_to_the_bit() {
    for (config, weights) in families() {
        let policy = load(&config, &weights);
        let mut all = Evidence::default();
        for (sample, completion) in (0..).zip(generate(&policy, params(0.8))) {
            all.add(look(&policy, sample, &completion.tokens, &completion.logprobs));
        }
        assert_eq!(all.tokens(), 4 * TOKENS as usize);
        assert_eq!((all.share_off(1e-9), all.mean(), all.quantile(1.0)), (0.0, 0.0, 0.0));
        assert_eq!(all.fault(&Tolerance::f32(0.8)), None);
    }
}

#[test]
fn samples_of_another_precision_are_audited_by_a_policy_in_that_precision() {
    for (config, weights) in families() {
        let exact = load(&config, &weights);
        for precision in [Precision::Bf16, Precision::Int8, Precision::Int4] {
            let policy = Arc::new(Policy::load_as(1, &config, &weights, precision).unwrap());
            let (mut same, mut other) = (Evidence::default(), Evidence::default());
            for (sample, completion) in (0..).zip(generate(&policy, params(0.8))) {
                same.add(look(&policy, sample, &completion.tokens, &completion.logprobs));
                other.add(look(&exact, sample, &completion.tokens, &completion.logprobs));
            }
            assert_eq!((same.share_off(1e-9), same.quantile(1.0)), (0.0, 0.0), "{precision}");
            assert!(other.mean() > 1e-5, "{precision} is told from f32: {}", other.mean());
        }
    }
}

#[test]
fn every_cheat_is_found() {
    for (config, weights) in families() {
        let policy = load(&config, &weights);
        let honest = generate(&policy, params(0.8)).remove(0);
        let (tokens, logprobs) = (honest.tokens, honest.logprobs);

        let other = load(&config, &Weights::random(&config, 99));
        assert!(fault(&other, 0, &tokens, &logprobs).is_some(), "another version");

        let hot = generate(&policy, params(1.3)).remove(0);
        assert!(fault(&policy, 0, &hot.tokens, &hot.logprobs).is_some(), "another temperature");

        let best = generate(&policy, params(0.8)).remove(3);
        let found = fault(&policy, 0, &best.tokens, &best.logprobs);
        assert!(matches!(found, Some(AuditFault::Tokens { .. })), "the best of several samples: {found:?}");

        let mut edited = tokens.clone();
        let vocabulary = config.vocab_size as u32;
        edited[5] = (edited[5] + vocabulary / 2) % vocabulary;
        assert!(fault(&policy, 0, &edited, &logprobs).is_some(), "one token edited");

        let made_up: Vec<f32> = logprobs.iter().map(|logp| logp * 0.9).collect();
        let found = fault(&policy, 0, &tokens, &made_up);
        assert!(matches!(found, Some(AuditFault::Logprobs { .. })), "made-up log-probs: {found:?}");
        let mut one = logprobs.clone();
        one[3] = f32::NAN;
        assert!(fault(&policy, 0, &tokens, &one).is_some(), "a log-prob that is no number");
    }
}

#[test]
fn races_are_audited_to_the_bit_and_a_token_that_lost_is_found() {
    for (config, weights) in families() {
        let policy = load(&config, &weights);
        let params = SamplingParams { rule: DrawRule::Race, ..params(0.8) };
        let look = |tokens: &[u32], logprobs: &[f32]| {
            let draw = |(at, logprob): (usize, &f32)| Draw { at, position: at as u32, logprob: *logprob };
            let draws: Vec<Draw> = logprobs.iter().enumerate().map(draw).collect();
            Audit::new(&policy, &PROMPT, &SEED, &params).unwrap().look(0, tokens, &draws).unwrap()
        };
        let honest = generate(&policy, params).remove(0);
        let seen = look(&honest.tokens, &honest.logprobs);
        assert_eq!(seen.leads().len(), TOKENS as usize);
        assert!(seen.leads().iter().all(|lead| *lead > 0.0), "{:?}", seen.leads());
        assert_eq!((seen.fault(&Tolerance::f32(0.8)), seen.quantile(1.0)), (None, 0.0));
        let mut edited = honest.tokens.clone();
        edited[5] = (edited[5] + config.vocab_size as u32 / 2) % config.vocab_size as u32;
        let found = look(&edited, &honest.logprobs).fault(&Tolerance::f32(0.8));
        assert!(matches!(found, Some(AuditFault::Tokens { .. })), "{found:?}");
        // Who draws by the other rule is found as well.
        let other = generate(&policy, self::params(0.8)).remove(0);
        let found = look(&other.tokens, &other.logprobs).fault(&Tolerance::f32(0.8));
        assert!(matches!(found, Some(AuditFault::Tokens { .. })), "{found:?}");
    }
}

/// What is found of the four samples when their log-probabilities are off by what `off` says
/// of sample and position.
fn examine_off(off: impl Fn(u32, usize) -> f32) -> SampleFinding {
    let (config, weights) = families().remove(0);
    let policies = [load(&config, &weights)];
    let honest = generate(&policies[0], params(0.8));
    let samples = (0..).zip(&honest).map(|(index, completion)| {
        let logprobs = completion.logprobs.iter().enumerate().map(|(at, logprob)| logprob - off(index, at));
        let tokens = completion.tokens.iter().map(|token| (*token, true));
        let logprobs: Vec<f32> = logprobs.collect();
        ClaimedSample::new(index, tokens, &logprobs, completion.versions.iter().copied())
    });
    examine(&policies, &PROMPT, &SEED, &params(0.8), samples, &Tolerance::f32(0.8)).unwrap()
}

#[test]
fn what_lies_near_the_limits_is_close_on_either_side() {
    let limit = Tolerance::f32(0.8).max;
    // The first log-probability of the second sample is off by so much, and of the third by so much.
    for (second, third, fault, is_close) in [
        (0.0f32, 0.0f32, false, false),
        (0.4, 0.4, false, false),
        (0.7, 0.0, false, true),
        (1.4, 0.0, true, true),
        (3.0, 0.0, true, false),
        // One that is certain is so whatever came before.
        (1.4, 3.0, true, false),
        (0.7, 3.0, true, false),
        (3.0, 1.4, true, false),
    ] {
        let found = examine_off(|sample, at| match (sample, at) {
            (1, 0) => second * limit,
            (2, 0) => third * limit,
            _ => 0.0,
        });
        assert_eq!(
            (found.fault.is_some(), found.is_close),
            (fault, is_close),
            "{second}, {third}: {found:?}"
        );
    }
}

#[test]
fn what_is_too_close_to_tell_adds_up_to_no_certainty() {
    let mean = Tolerance::f32(0.8).mean_of(2 * TOKENS as usize) as f32;
    // Every log-probability of a sample is off by so many times what the mean of two may
    // be. The second and the third lie each with the first within twice of it; all three
    // together would be beyond.
    let found = examine_off(|sample, _| [0.0, 3.0, 3.5, 0.0][sample as usize] * mean);
    assert!(found.fault.is_some() && found.is_close, "{found:?}");
    let found = examine_off(|sample, _| [0.0, 3.0, 4.5, 0.0][sample as usize] * mean);
    assert!(found.fault.is_some() && !found.is_close, "{found:?}");
}

#[test]
fn what_is_made_up_is_read_no_further_than_its_first_tokens() {
    const LONG: u32 = 56;
    let (config, weights) = families().remove(0);
    let policies = [load(&config, &weights)];
    let find = |response: &[u32]| {
        let tokens = response.iter().map(|token| (*token, true));
        let (logprobs, versions) = (vec![-1.0; response.len()], vec![1; response.len()]);
        let sample = ClaimedSample::new(0, tokens, &logprobs, versions);
        examine(&policies, &PROMPT, &SEED, &params(0.8), [sample], &Tolerance::f32(0.8)).unwrap().fault
    };
    let made_up: Vec<u32> = (0..LONG).map(|at| at % 5).collect();
    let found = find(&made_up);
    assert!(matches!(found, Some(AuditFault::Tokens { tokens: FIRST_ROWS, .. })), "{found:?}");
    // A short one is looked at whole.
    let found = find(&made_up[..8]);
    assert!(matches!(found, Some(AuditFault::Tokens { tokens: 8, .. })), "{found:?}");
}

#[test]
fn draws_of_others_are_passed_over() {
    let (config, weights) = families().remove(0);
    let policy = load(&config, &weights);
    let completion = generate(&policy, params(0.8)).remove(0);
    let params = params(0.8);
    let audit = Audit::new(&policy, &PROMPT, &SEED, &params).unwrap();
    for first in [0, 1] {
        let draw = |at: usize| Draw { at, position: at as u32, logprob: completion.logprobs[at] };
        let draws: Vec<Draw> = (first..TOKENS as usize).step_by(2).map(draw).collect();
        let evidence = audit.look(0, &completion.tokens, &draws).unwrap();
        assert_eq!((evidence.tokens(), evidence.fault(&Tolerance::f32(0.8))), (12, None));
    }
}

#[test]
fn draws_outside_of_the_sequence_are_errors_and_no_draws_are_no_evidence() {
    let (config, weights) = families().remove(0);
    let policy = load(&config, &weights);
    let params = params(1.0);
    let audit = Audit::new(&policy, &PROMPT, &SEED, &params).unwrap();
    assert!(audit.look(0, &[1], &[Draw { at: 1, position: 0, logprob: 0.0 }]).is_err());
    assert_eq!(audit.look(0, &[1], &[]).unwrap(), Evidence::default());
    assert_eq!(Evidence::default().fault(&Tolerance::f32(1.0)), None);
    assert!(Audit::new(&policy, &[], &SEED, &params).is_err());
}

/// Three groups under a policy and two newer ones, with so little room for caches that groups are
/// put back and computed anew in between.
fn kept_in_little_room(policies: &[Arc<Policy>; 3]) -> Vec<(SampleRequest, Vec<Completion>)> {
    let requests: Vec<_> = [3u8, 5, 8]
        .map(|salt| SampleRequest {
            prompt: (0..salt).map(|at| u32::from(at * 7 + salt) % 13).collect(),
            seed: [salt; 32],
            samples: 3,
            stop_ids: vec![],
            stop_strings: None,
            limits: vec![TOKENS, TOKENS - 5, TOKENS - 11],
            max_heard: 0,
            params: params(0.8),
        })
        .into();
    let mut generation = Generation::new(
        policies[0].clone(),
        GenerationLimits { sequences: 5, ..GenerationLimits::default() },
        PolicyTakeover::Keep,
    );
    for (ticket, request) in (0..).map(Ticket).zip(&requests) {
        generation.submit(ticket, request.clone()).unwrap();
    }
    let mut steps = 0;
    while !generation.step().unwrap() {
        steps += 1;
        if let Some(newer) = [9, 17].iter().position(|at| *at == steps) {
            generation.install(policies[newer + 1].clone()).unwrap();
        }
        if steps == 13 {
            // As where a device is lost: everything is computed anew.
            let same = generation.policy().clone();
            generation.install(same).unwrap();
        }
    }
    requests.into_iter().zip(generation.into_completions()).collect()
}

#[test]
fn kept_caches_are_audited_to_the_bit() {
    for (config, weights) in families() {
        let version = |version, weights: &Weights| Arc::new(Policy::load(version, &config, weights).unwrap());
        let other = |seed| Weights::random(&config, seed);
        let policies = [version(1, &weights), version(2, &other(5)), version(3, &other(6))];
        let (mut kept, mut anew, mut wrong) = (0, 0, 0);
        for (request, completions) in kept_in_little_room(&policies) {
            let longest = &completions[0];
            kept += usize::from(longest.has_kept_caches());
            anew += longest.recomputed.len();
            let sample = |index: usize| {
                let completion = &completions[index];
                let tokens = completion.tokens.iter().map(|token| (*token, true));
                let versions = completion.versions.iter().copied();
                ClaimedSample::new(index as u32, tokens, &completion.logprobs, versions)
            };
            let examine = |policies: &[Arc<Policy>], samples: Vec<ClaimedSample>| {
                let race = RaceLimits { most: 0.0, spread: 0.0 };
                let exact = Tolerance { border: 0.0, off: 0.0, mean: 0.0, max: 0.0, race };
                examine(policies, &request.prompt, &request.seed, &request.params, samples, &exact)
                    .unwrap()
                    .fault
            };
            let claimed = |index| sample(index).with_kept_caches(longest.recomputed.clone());
            assert_eq!(examine(&policies, (0..3).map(claimed).collect()), None, "{:?}", config.family);
            // Without the oldest policy, what follows its caches is left out; without the
            // newest, its own tokens.
            assert_eq!(examine(&policies[1..], (0..3).map(claimed).collect()), None);
            assert_eq!(examine(&policies[..2], (0..3).map(claimed).collect()), None);
            if longest.has_kept_caches() {
                wrong += usize::from(examine(&policies, (0..3).map(sample).collect()).is_some());
            }
            if longest.versions[0] == 1 {
                let forged = [version(1, &other(5)), policies[1].clone(), policies[2].clone()];
                assert!(examine(&forged, vec![claimed(0)]).is_some(), "another oldest version");
            }
        }
        assert!(kept > 1 && anew > 0 && wrong == kept, "{kept} {anew} {wrong}");
    }
}
