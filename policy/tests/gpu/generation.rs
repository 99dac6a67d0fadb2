//! Whole generations on the device.

use std::sync::Arc;

use echo_policy::generation::wgpu::{Gpu, WgpuBackend};
use echo_policy::generation::{
    Backend, Completion, CpuBackend, Feed, Generation, GenerationLimits, Policy, PolicyTakeover,
    SampleRequest, Ticket, Want, score,
};
use echo_policy::model::weights::Weights;

use crate::checks::request;
use crate::models::{self, Model};
use crate::{Opener, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("scoring gives the generated numbers bit for bit", scoring_gives_the_generated_numbers),
    ("responses do not depend on batching", responses_do_not_depend_on_batching),
    ("responses are those of the cpu", responses_are_those_of_the_cpu),
    ("a swap continues under the new version", a_swap_continues_under_the_new_version),
    ("an aborted generation gives what it has", an_aborted_generation_gives_what_it_has),
    (
        "a generation goes on with the pages that there are",
        a_generation_goes_on_with_the_pages_that_there_are,
    ),
];

fn requests() -> Vec<SampleRequest> {
    vec![
        request(&[1, 2, 4], 5, 40),
        request(&[9], 3, 20),
        request(&(0..45).map(|i| i * 7 % 40).collect::<Vec<_>>(), 4, 30),
    ]
}

fn policy(gpu: &Arc<Gpu>, version: u64, seed: Option<u64>) -> Arc<Policy<WgpuBackend>> {
    let Model { config, weights, .. } = models::tiny();
    let weights = seed.map_or(weights, |seed| Weights::random(&config, seed));
    Arc::new(Policy::new(version, WgpuBackend::load(gpu, &config, &weights).unwrap()))
}

fn each(results: &[Vec<Completion>], mut look: impl FnMut(&SampleRequest, &Completion)) {
    for (request, completions) in requests().iter().zip(results) {
        assert_eq!(completions.len(), request.samples as usize);
        completions.iter().for_each(|completion| look(request, completion));
    }
}

fn scoring_gives_the_generated_numbers(opener: &Opener) {
    let policy = policy(&opener.open(), 1, None);
    let results = Generation::start(Arc::clone(&policy), requests()).unwrap().run().unwrap();
    each(&results, |request, completion| {
        let sequence = [request.prompt.as_slice(), &completion.tokens].concat();
        let scores = score(&policy, &[sequence]).unwrap().remove(0);
        assert_eq!(scores[request.prompt.len() - 1..], completion.raw_logprobs);
    });
}

fn responses_do_not_depend_on_batching(opener: &Opener) {
    let policy = policy(&opener.open(), 1, None);
    let together = Generation::start(Arc::clone(&policy), requests()).unwrap().run().unwrap();
    let in_turn = Generation::start(Arc::clone(&policy), requests()).unwrap().with_cache_budget(0).run();
    assert_eq!(together, in_turn.unwrap());
    for (index, request) in requests().into_iter().enumerate() {
        let alone = Generation::start(Arc::clone(&policy), vec![request]).unwrap().run().unwrap();
        assert_eq!(alone[0], together[index]);
    }
}

fn responses_are_those_of_the_cpu(opener: &Opener) {
    let Model { config, weights, .. } = models::tiny();
    let cpu = Arc::new(Policy::new(1, CpuBackend::load(&config, &weights).unwrap()));
    let expected = Generation::start(cpu, requests()).unwrap().run().unwrap();
    let found = Generation::start(policy(&opener.open(), 1, None), requests()).unwrap().run().unwrap();
    let all = || expected.iter().flatten().zip(found.iter().flatten());
    // The numbers that decide are the same on every machine: those of these requests are not near a border.
    for (a, b) in all() {
        assert_eq!(a.tokens, b.tokens);
        for (a, b) in a.logprobs.iter().zip(&b.logprobs) {
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
    }
    assert!(all().map(|(a, _)| a.tokens.len()).sum::<usize>() > 100);
}

fn a_swap_continues_under_the_new_version(opener: &Opener) {
    let gpu = opener.open();
    let (old, new) = (policy(&gpu, 4, None), policy(&gpu, 5, Some(77)));
    let mut generation = Generation::start(Arc::clone(&old), requests()).unwrap();
    for _ in 0..3 {
        assert!(!generation.step().unwrap());
    }
    generation.install(Arc::clone(&new)).unwrap();
    let results = generation.run().unwrap();
    let mut continued = 0;
    each(&results, |request, completion| {
        let sequence = [request.prompt.as_slice(), &completion.tokens].concat();
        let under = |policy| score(policy, std::slice::from_ref(&sequence)).unwrap().remove(0);
        let scores = [under(&*old), under(&*new)];
        for (t, (version, logprob)) in completion.versions.iter().zip(&completion.raw_logprobs).enumerate() {
            let is_new = usize::from(t >= 3);
            assert_eq!(*version, 4 + is_new as u64);
            assert_eq!(*logprob, scores[is_new][request.prompt.len() - 1 + t]);
            continued += is_new;
        }
    });
    assert!(continued > 10);

    // With the same weights, caches that are kept say what caches that were computed anew do.
    let plain = Generation::start(policy(&gpu, 1, None), requests()).unwrap().run().unwrap();
    for takeover in [PolicyTakeover::Keep, PolicyTakeover::Recompute] {
        let mut swapped = Generation::new(policy(&gpu, 1, None), GenerationLimits::default(), takeover);
        for (ticket, request) in (0..).map(Ticket).zip(requests()) {
            swapped.submit(ticket, request).unwrap();
        }
        let mut version = 2;
        while !swapped.step().unwrap() {
            swapped.install(policy(&gpu, version, None)).unwrap();
            version += 1;
        }
        for (a, b) in plain.iter().flatten().zip(swapped.into_completions().iter().flatten()) {
            assert_eq!((&a.tokens, &a.raw_logprobs), (&b.tokens, &b.raw_logprobs));
        }
    }
}

fn an_aborted_generation_gives_what_it_has(opener: &Opener) {
    let mut generation = Generation::start(policy(&opener.open(), 1, None), requests()).unwrap();
    generation.step().unwrap();
    each(&generation.into_completions(), |_, completion| {
        assert_eq!((completion.tokens.len(), completion.versions.len()), (1, 1));
    });
}

fn a_generation_goes_on_with_the_pages_that_there_are(opener: &Opener) {
    let expected = Generation::start(policy(&opener.open(), 1, None), requests()).unwrap().run().unwrap();
    // Of 32 tokens, with keys and values of two layers and two heads.
    let page = 32 * 2 * 2 * 2 * 8 * 4;
    let gpu = opener.open_with(|options| options.cache_bytes = Some(18 * page));
    let policy = policy(&gpu, 1, None);
    // Another run's caches take pages that this one counts on.
    let mut held = policy.backend().new_cache();
    policy.backend().forward(&mut [Feed { tokens: &[1; 100], cache: &mut held }], Want::Nothing).unwrap();
    let found = Generation::start(policy, requests()).unwrap().run().unwrap();
    assert_eq!(found, expected);
    drop(held);
}
