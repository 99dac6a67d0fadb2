//! Whole generations on the emulated device.

use std::sync::Arc;

use echo_policy::generation::EngineError;
use echo_policy::generation::cuda::{CudaBackend, CudaDevice};
use echo_policy::generation::{
    Completion, CpuBackend, Generation, GenerationLimits, Policy, PolicyTakeover, SampleRequest, Ticket,
    score,
};
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;

use crate::checks::request;
use crate::emulator::Program;
use crate::models::{self, Model};
use crate::{Emulator, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("scoring gives the generated numbers bit for bit", scoring_gives_the_generated_numbers),
    ("responses do not depend on batching", responses_do_not_depend_on_batching),
    ("responses are those of the cpu", responses_are_those_of_the_cpu),
    ("a swap goes on with the caches there are", a_swap_goes_on_with_the_caches_there_are),
    ("a swap continues under the new version", a_swap_continues_under_the_new_version),
    ("all memory comes back", all_memory_comes_back),
    ("a device that is short of memory generates the same", a_device_short_of_memory_generates_the_same),
];

type Cuda = Policy<CudaBackend>;

fn policy(device: &Arc<CudaDevice>, model: &Model, version: u64, precision: Precision) -> Arc<Cuda> {
    let backend = CudaBackend::load(device, &model.config, &model.weights, precision).unwrap();
    Arc::new(Policy::new(version, backend))
}

fn requests() -> Vec<SampleRequest> {
    vec![request(&[1, 2, 4], 4, 12), request(&[9], 3, 20), request(&[0, 5, 6, 7, 8, 9, 10], 2, 40)]
}

fn run(policy: &Arc<Cuda>) -> Vec<Vec<Completion>> {
    Generation::start(Arc::clone(policy), requests()).unwrap().run().unwrap()
}

fn scoring_gives_the_generated_numbers(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    for precision in [Precision::F32, Precision::Bf16] {
        let policy = policy(&device, &models::tiny(), 1, precision);
        for (request, completions) in requests().iter().zip(run(&policy)) {
            for completion in completions {
                let sequence = [request.prompt.as_slice(), &completion.tokens].concat();
                let scores = score(&policy, &[sequence]).unwrap().remove(0);
                assert_eq!(scores[request.prompt.len() - 1..], completion.raw_logprobs);
            }
        }
    }
}

fn responses_do_not_depend_on_batching(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    for precision in [Precision::F32, Precision::Bf16] {
        let policy = policy(&device, &models::tiny(), 1, precision);
        let together = run(&policy);
        let in_turn = Generation::start(Arc::clone(&policy), requests()).unwrap().with_cache_budget(0).run();
        assert_eq!(together, in_turn.unwrap());
    }
}

fn responses_are_those_of_the_cpu(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    let model = models::tiny();
    let cpu = CpuBackend::load(&model.config, &model.weights).unwrap();
    let expected = Generation::start(Arc::new(Policy::new(1, cpu)), requests()).unwrap().run().unwrap();
    let found = run(&policy(&device, &model, 1, Precision::F32));
    for (a, b) in expected.iter().flatten().zip(found.iter().flatten()) {
        // A draw at a border is not among these.
        assert_eq!((&a.tokens, a.stopped), (&b.tokens, b.stopped));
        assert!(a.raw_logprobs.iter().zip(&b.raw_logprobs).all(|(a, b)| (a - b).abs() < 1e-5));
    }
}

fn a_swap_goes_on_with_the_caches_there_are(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    let model = models::tiny();
    let plain = run(&policy(&device, &model, 1, Precision::F32));
    let first = policy(&device, &model, 1, Precision::F32);
    let mut generation = Generation::new(first, GenerationLimits::default(), PolicyTakeover::Keep);
    for (ticket, request) in (0..).map(Ticket).zip(requests()) {
        generation.submit(ticket, request).unwrap();
    }
    for version in 2..60 {
        if generation.step().unwrap() {
            break;
        }
        generation.install(policy(&device, &model, version, Precision::F32)).unwrap();
    }
    let swapped = generation.into_completions();
    for (a, b) in plain.iter().flatten().zip(swapped.iter().flatten()) {
        assert_eq!((&a.tokens, &a.raw_logprobs), (&b.tokens, &b.raw_logprobs));
    }
}

fn a_swap_continues_under_the_new_version(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    let model = models::tiny();
    let old = policy(&device, &model, 4, Precision::F32);
    let other = Model { weights: Weights::random(&model.config, 77), ..models::tiny() };
    let new = policy(&device, &other, 5, Precision::F32);
    let mut generation = Generation::start(Arc::clone(&old), requests()).unwrap();
    for _ in 0..3 {
        assert!(!generation.step().unwrap());
    }
    generation.install(Arc::clone(&new)).unwrap();
    let mut continued = 0;
    for (request, completions) in requests().iter().zip(generation.run().unwrap()) {
        for completion in completions {
            let sequence = [request.prompt.as_slice(), &completion.tokens].concat();
            let [old, new] =
                [&old, &new].map(|policy| score(policy, std::slice::from_ref(&sequence)).unwrap().remove(0));
            for (t, logprob) in completion.raw_logprobs.iter().enumerate() {
                let expected = if t < 3 { &old } else { &new };
                assert_eq!(*logprob, expected[request.prompt.len() - 1 + t]);
                continued += usize::from(t >= 3);
            }
        }
    }
    assert!(continued > 10);
}

fn all_memory_comes_back(program: &Arc<Program>) {
    let (device, emulator) = Emulator::new(program).shared_device();
    let policy = policy(&device, &models::tiny(), 1, Precision::F32);
    let mut generation = Generation::start(Arc::clone(&policy), requests()).unwrap();
    generation.step().unwrap();
    let held = device.used_bytes();
    assert_eq!(held, emulator.taken());
    generation.run().unwrap();
    drop(policy);
    assert!(device.used_bytes() < held + (1 << 20));
    drop(device);
    assert_eq!(emulator.taken(), 0);
}

fn a_device_short_of_memory_generates_the_same(program: &Arc<Program>) {
    let model = models::tiny();
    let (roomy, emulator) = Emulator::new(program).shared_device();
    let policy_there = policy(&roomy, &model, 1, Precision::F32);
    let loaded = emulator.taken();
    let expected = run(&policy_there);
    let all = emulator.taken() - loaded;
    // Less and less, until not even the memory of a single call is there.
    let (mut refused, mut done) = (0, 0);
    for part in (1..16).rev() {
        let (tight, emulator) =
            Emulator::new(program).with(|emulator| emulator.total = loaded + all * part / 16).shared_device();
        let policy = policy(&tight, &model, 1, Precision::F32);
        let mut generation = Generation::start(policy, requests()).unwrap();
        let ended = loop {
            match generation.step() {
                Ok(false) => {}
                ended => break ended,
            }
        };
        assert!(emulator.taken() <= emulator.total);
        match ended {
            Ok(_) => {
                refused += generation.tally().out_of_memory;
                assert_eq!(generation.into_completions(), expected, "{part} parts");
                done += 1;
            }
            Err(error) => {
                assert!(matches!(error, EngineError::Memory { .. }), "{error}");
                break;
            }
        }
    }
    assert!(refused > 0 && done > 1, "short {refused} times in {done} generations");
}
