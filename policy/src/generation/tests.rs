use std::sync::Arc;

use candle_core::Device;

use super::EngineError;
use super::*;
use crate::model::precision::Precision;
use crate::model::weights::Weights;
use crate::sampling::{SamplingError, SamplingParams};
use crate::training::decoder::Decoder;
use crate::training::decoder::tests::families;
use crate::training::packed::Packed;

/// In every precision, the finest first.
fn policies(version: u64) -> Vec<Arc<Policy>> {
    let load = |precision| {
        let load = move |(config, weights)| Policy::load_as(version, &config, &weights, precision);
        families().into_iter().map(move |family| Arc::new(load(family).unwrap()))
    };
    Precision::ALL.into_iter().flat_map(load).collect()
}

fn request(prompt: &[u32], samples: u32, max_new_tokens: u32) -> SampleRequest {
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

fn requests() -> Vec<SampleRequest> {
    vec![request(&[1, 2, 4], 5, 12), request(&[9], 3, 20), request(&[0, 5, 6, 7, 8, 9, 10], 2, 6)]
}

#[test]
fn generated_logprobs_are_those_of_the_training_forward() {
    for (config, weights) in families() {
        let decoder = Decoder::trainable(&config, &weights, &Device::Cpu).unwrap();
        let policy = Arc::new(Policy::load(1, &config, &weights).unwrap());
        let results = Generation::start(policy, requests()).unwrap().run().unwrap();
        for (request, completions) in requests().iter().zip(&results) {
            assert_eq!(completions.len(), request.samples as usize);
            for completion in completions {
                let ids = [request.prompt.as_slice(), &completion.tokens].concat();
                let packed = Packed::of(&[ids]).unwrap();
                let logprobs = decoder.score(&packed, &packed.next_tokens()).unwrap().logp;
                for (mine, theirs) in completion.logprobs.iter().zip(&logprobs[request.prompt.len() - 1..]) {
                    assert!((mine - theirs).abs() < 1e-4, "{:?}: {mine} {theirs}", config.family);
                }
                assert_eq!(completion.logprobs, completion.raw_logprobs);
            }
        }
    }
}

#[test]
fn scoring_gives_the_generated_numbers_bit_for_bit() {
    for policy in policies(1) {
        let results = Generation::start(Arc::clone(&policy), requests()).unwrap().run().unwrap();
        for (request, completions) in requests().iter().zip(&results) {
            for completion in completions {
                let sequence = [request.prompt.as_slice(), &completion.tokens].concat();
                let scores = score(&policy, &[sequence]).unwrap().remove(0);
                assert_eq!(scores[request.prompt.len() - 1..], completion.raw_logprobs);
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_batching() {
    for policy in policies(1) {
        let together = Generation::start(Arc::clone(&policy), requests()).unwrap().run().unwrap();
        let in_turn = Generation::start(Arc::clone(&policy), requests()).unwrap().with_cache_budget(0).run();
        assert_eq!(together, in_turn.unwrap());
        for (index, request) in requests().into_iter().enumerate() {
            let alone = Generation::start(Arc::clone(&policy), vec![request]).unwrap().run().unwrap();
            assert_eq!(alone[0], together[index]);
        }
    }
}

#[test]
fn responses_end_at_stop_ids_or_at_their_length() {
    let policy = policies(7).remove(0);
    let results = Generation::start(policy, vec![request(&[1, 2], 64, 10)]).unwrap().run().unwrap();
    let (stopped, full): (Vec<_>, Vec<_>) = results[0].iter().partition(|c| c.stopped);
    assert!(!stopped.is_empty() && !full.is_empty());
    for completion in &stopped {
        assert_eq!(completion.tokens.iter().position(|t| *t == 3), Some(completion.tokens.len() - 1));
    }
    for completion in &full {
        assert!(completion.tokens.len() == 10 && !completion.tokens.contains(&3));
    }
    for completion in &results[0] {
        assert_eq!(completion.versions, vec![7; completion.tokens.len()]);
        assert_eq!(completion.logprobs.len(), completion.tokens.len());
    }
    assert!(results[0].iter().any(|c| c.tokens != results[0][0].tokens));
}

#[test]
fn a_swap_in_mid_flight_continues_under_the_new_version() {
    for (config, weights) in families() {
        let old = Arc::new(Policy::load(4, &config, &weights).unwrap());
        let new = Arc::new(Policy::load(5, &config, &Weights::random(&config, 77)).unwrap());
        let mut generation = Generation::start(Arc::clone(&old), requests()).unwrap();
        for _ in 0..3 {
            assert!(!generation.step().unwrap());
        }
        generation.install(Arc::clone(&new)).unwrap();
        let results = generation.run().unwrap();
        let mut continued = 0;
        for (request, completions) in requests().iter().zip(&results) {
            for completion in completions {
                let sequence = [request.prompt.as_slice(), &completion.tokens].concat();
                let under =
                    |policy: &Policy| score(policy, std::slice::from_ref(&sequence)).unwrap().remove(0);
                let (old, new) = (under(&old), under(&new));
                for (t, (version, logprob)) in
                    completion.versions.iter().zip(&completion.raw_logprobs).enumerate()
                {
                    assert_eq!(*version, if t < 3 { 4 } else { 5 });
                    let expected = if t < 3 { &old } else { &new };
                    assert_eq!(*logprob, expected[request.prompt.len() - 1 + t]);
                    continued += usize::from(t >= 3);
                }
            }
        }
        assert!(continued > 10);
    }
}

#[test]
fn a_swap_to_the_same_weights_changes_nothing_but_the_version() {
    let (config, weights) = families().remove(1);
    let policy = |version| Arc::new(Policy::load(version, &config, &weights).unwrap());
    let plain = Generation::start(policy(1), requests()).unwrap().run().unwrap();
    let mut swapped = Generation::start(policy(1), requests()).unwrap();
    let mut version = 2;
    while !swapped.step().unwrap() {
        swapped.install(policy(version)).unwrap();
        version += 1;
    }
    for (a, b) in plain.iter().flatten().zip(swapped.into_completions().iter().flatten()) {
        assert_eq!((&a.tokens, &a.raw_logprobs), (&b.tokens, &b.raw_logprobs));
    }
}

/// What ends turns in conversations.
const STOPS: [u32; 3] = [3, 4, 5];

/// Requests whose responses hear up to 15 tokens.
fn conversations() -> Vec<SampleRequest> {
    let conversation = |request| SampleRequest { max_heard: 15, stop_ids: STOPS.to_vec(), ..request };
    requests().into_iter().map(conversation).collect()
}

/// Answers every turn that ended by itself with these tokens, up to five times; `step` hears of every step.
fn conversed(
    policy: &Arc<Policy>,
    heard: &[u32],
    mut step: impl FnMut(&mut Generation),
) -> Vec<Vec<Completion>> {
    let mut generation = Generation::start(Arc::clone(policy), conversations()).unwrap();
    let mut answered = std::collections::BTreeMap::new();
    loop {
        generation.step().unwrap();
        let answer = |turn: EndedTurn<'_>| {
            assert_eq!(turn.stopped, turn.tokens.last().is_some_and(|last| STOPS.contains(last)));
            assert!(turn.stopped || turn.left == 0);
            let turns = answered.entry((turn.ticket, turn.sample)).or_insert(0);
            *turns += 1;
            let goes_on = turn.stopped && turn.left > 0 && *turns <= 5;
            Ok::<_, EngineError>(goes_on.then(|| heard.to_vec()))
        };
        generation.converse(answer).unwrap();
        if generation.is_finished() {
            return generation.into_completions();
        }
        step(&mut generation);
    }
}

#[test]
fn turns_go_on_from_what_was_heard() {
    let heard = [7, 3, 8];
    for policy in policies(1) {
        let results = conversed(&policy, &heard, |_| ());
        let mut several = 0;
        for (request, completions) in conversations().iter().zip(&results) {
            for completion in completions {
                // The conversation as one sequence, and where its own tokens lie.
                let (mut sequence, mut own, mut rest) =
                    (request.prompt.clone(), vec![], &completion.tokens[..]);
                for (at, &length) in completion.turns.iter().enumerate() {
                    if at > 0 {
                        sequence.extend(heard);
                    }
                    let (turn, later) = rest.split_at(length as usize);
                    own.extend(sequence.len()..sequence.len() + turn.len());
                    sequence.extend(turn);
                    rest = later;
                }
                assert!(rest.is_empty() && !completion.turns.contains(&0), "{completion:?}");
                let scores = score(&policy, &[sequence]).unwrap().remove(0);
                let scores: Vec<f32> = own.iter().map(|&position| scores[position - 1]).collect();
                assert_eq!(scores, completion.raw_logprobs);
                assert_eq!(completion.versions.len(), completion.tokens.len());
                several += usize::from(completion.turns.len() > 1);
            }
        }
        assert!(several > 1, "{several} conversations of several turns");
    }
}

#[test]
fn draws_go_on_from_turn_to_turn() {
    for policy in policies(1) {
        let unstopped = requests().into_iter().map(|request| SampleRequest { stop_ids: vec![], ..request });
        let whole = Generation::start(Arc::clone(&policy), unstopped.collect()).unwrap().run().unwrap();
        // With nothing to hear, turns are one response that happens to have stop tokens in it.
        for (whole, turns) in whole.iter().flatten().zip(conversed(&policy, &[], |_| ()).iter().flatten()) {
            let own = turns.tokens.len();
            assert_eq!(turns.tokens, whole.tokens[..own]);
            assert_eq!(turns.logprobs, whole.logprobs[..own]);
        }
    }
}

#[test]
fn a_swap_between_turns_changes_nothing_but_the_version() {
    let (config, weights) = families().remove(1);
    let policy = |version| Arc::new(Policy::load(version, &config, &weights).unwrap());
    let plain = conversed(&policy(1), &[7, 8], |_| ());
    let mut version = 2;
    let swapped = conversed(&policy(1), &[7, 8], |generation| {
        generation.install(policy(version)).unwrap();
        version += 1;
    });
    for (a, b) in plain.iter().flatten().zip(swapped.iter().flatten()) {
        assert_eq!((&a.tokens, &a.turns, &a.raw_logprobs), (&b.tokens, &b.turns, &b.raw_logprobs));
    }
}

#[test]
fn an_environment_keeps_its_bounds() {
    let policy = policies(1).remove(0);
    let answered = |heard: Vec<u32>, request: SampleRequest| {
        let mut generation = Generation::start(Arc::clone(&policy), vec![request]).unwrap();
        while !generation.step().unwrap() {}
        generation.converse(|_| Ok::<_, EngineError>(Some(heard.clone())))
    };
    // Every token ends a turn.
    let one = SampleRequest { stop_ids: (0..13).collect(), max_heard: 2, ..request(&[1, 2], 1, 4) };
    answered(vec![5, 6], one.clone()).unwrap();
    assert!(matches!(answered(vec![5, 6, 7], one.clone()), Err(EngineError::Limit { .. })));
    assert!(matches!(answered(vec![13], one.clone()), Err(EngineError::Token { .. })));
    let full = SampleRequest { params: SamplingParams::unbiased(1), ..one };
    assert!(matches!(answered(vec![5], full), Err(EngineError::Limit { .. })));
}

#[test]
fn long_prompts_are_prefilled_in_pieces() {
    let (mut config, _) = families().remove(0);
    config.max_position_embeddings = 2048;
    let policy = Arc::new(Policy::load(1, &config, &Weights::random(&config, 1)).unwrap());
    let prompt: Vec<u32> = (0..1300).map(|i| i * 5 % 13).collect();
    let both = vec![request(&prompt, 2, 4), request(&prompt[..700], 1, 4)];
    let results = Generation::start(Arc::clone(&policy), both).unwrap().run().unwrap();
    let sequence = [prompt.as_slice(), &results[0][1].tokens].concat();
    let scores = score(&policy, &[sequence]).unwrap().remove(0);
    assert_eq!(scores[prompt.len() - 1..], results[0][1].raw_logprobs);
}

#[test]
fn an_aborted_generation_gives_what_it_has() {
    let policy = policies(1).remove(0);
    let mut generation = Generation::start(policy, vec![request(&[1], 2, 9)]).unwrap();
    generation.step().unwrap();
    assert!(generation.into_completions()[0].iter().all(|c| c.tokens.len() == 1 && c.versions.len() == 1));
}

#[test]
fn bad_requests_and_broken_weights_are_errors() {
    let policy = policies(1).remove(0);
    let refused = |change: &dyn Fn(&mut SampleRequest)| {
        let mut bad = request(&[1, 2], 2, 4);
        change(&mut bad);
        Generation::start(Arc::clone(&policy), vec![bad]).err().expect("refused")
    };
    assert!(matches!(refused(&|r| r.prompt.clear()), EngineError::EmptyPrompt { .. }));
    assert!(matches!(refused(&|r| r.prompt[0] = 13), EngineError::Token { .. }));
    assert!(matches!(refused(&|r| r.params.max_new_tokens = u32::MAX), EngineError::TooLong { .. }));
    assert!(matches!(refused(&|r| r.max_heard = u32::MAX), EngineError::TooLong { .. }));
    assert!(matches!(refused(&|r| r.samples = 1 << 20), EngineError::Limit { .. }));
    assert!(matches!(
        refused(&|r| r.params.top_p = 0.0),
        EngineError::Sampling(SamplingError::Parameter { .. })
    ));
    assert!(score(&policy, &[vec![]]).is_err());
    assert!(score(&policy, &[vec![1, 99]]).is_err());

    let (config, _) = families().remove(0);
    let mut broken = config.clone();
    broken.initializer_range = 1e38;
    let broken = Policy::load(2, &config, &Weights::random(&broken, 1)).unwrap();
    let mut generation = Generation::start(Arc::clone(&policy), requests()).unwrap();
    generation.install(Arc::new(broken)).unwrap();
    assert!(matches!(generation.step(), Err(EngineError::Sampling(SamplingError::Logits { .. }))));

    let (other, weights) = families().remove(2);
    let other = Arc::new(Policy::load(3, &other, &weights).unwrap());
    assert!(matches!(generation.install(other), Err(EngineError::OtherConfig { version: 3 })));
    generation.install(policy).unwrap();
    generation.run().unwrap();
}

#[test]
fn a_forward_that_is_refused_changes_nothing() {
    let policy = policies(1).remove(0);
    let backend = policy.backend();
    let mut cache = backend.new_cache();
    for tokens in [&[][..], &[1, 13], &[1; 65], &[1; 600]] {
        assert!(backend.forward(&mut [Feed { tokens, cache: &mut cache }], Want::Last).is_err());
        assert_eq!(backend.cached_tokens(&cache), 0);
    }
}
