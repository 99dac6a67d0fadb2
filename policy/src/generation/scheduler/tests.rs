//! Schedules of all kinds, over a backend whose answers tell what it was fed, and by which version.

mod fake;
mod schedule;
mod takeover;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::generation::backend::Logits;
use crate::sampling;
use crate::sampling::SamplingParams;
use fake::{Device, Fake};

/// What every environment here answers with.
const HEARD: [u32; 2] = [7, 1];
/// Id that ends a turn.
const STOP: u32 = 3;
/// Tokens that no test comes to.
const AMPLE: usize = 1 << 20;

fn request(seed: u8, prompt: usize, samples: u32, max_new_tokens: u32) -> SampleRequest {
    SampleRequest {
        prompt: (0..prompt).map(|i| (i * 5 + usize::from(seed)) as u32 % fake::VOCAB as u32).collect(),
        seed: [seed; 32],
        samples,
        stop_ids: vec![STOP],
        stop_strings: None,
        limits: vec![],
        max_heard: 0,
        params: SamplingParams::unbiased(max_new_tokens),
    }
}

/// One that does not stop by itself.
fn endless(seed: u8, prompt: usize, samples: u32, tokens: u32) -> SampleRequest {
    SampleRequest { stop_ids: vec![], ..request(seed, prompt, samples, tokens) }
}

fn generation(device: &Arc<Device>, limits: GenerationLimits, takeover: PolicyTakeover) -> Generation<Fake> {
    Generation::new(device.policy(1), limits, takeover)
}

/// Draws a response once more, alone, from what it says of its versions and of what was
/// computed anew, and compares.
fn check_alone(request: &SampleRequest, sample: usize, completion: &Completion) {
    let Completion { tokens, turns, versions, .. } = completion;
    let mut said = request.prompt.clone();
    let (mut entries, mut position) = (Vec::new(), 0);
    for (turn, length) in turns.iter().enumerate() {
        if turn > 0 {
            said.extend(HEARD);
        }
        for _ in 0..*length {
            let version = versions[position];
            if completion.recomputed.contains(&(position as u32)) {
                entries.clear();
            }
            while entries.len() < said.len() {
                let before = entries.last().copied().unwrap_or(0);
                entries.push(fake::entry(version, said[entries.len()], before));
            }
            let row = Logits::new(fake::VOCAB, fake::logits(version, *entries.last().unwrap()));
            let u = sampling::uniform(&request.seed, sample as u32, position as u32);
            let drawn = sampling::sample(row.rows().next().unwrap(), &request.params, u).unwrap();
            assert_eq!(drawn.token, tokens[position], "position {position} of {completion:?}");
            assert_eq!(drawn.logprob, completion.logprobs[position]);
            assert_eq!(drawn.raw_logprob, completion.raw_logprobs[position]);
            said.push(drawn.token);
            position += 1;
        }
    }
    assert_eq!(position, tokens.len());
    let ended = tokens.last().is_some_and(|last| request.stop_ids.contains(last));
    assert_eq!(completion.stopped, ended && turns.last() != Some(&0));
}

/// The responses of a group change versions at the same places.
fn check_lockstep(completions: &[Completion]) {
    let longest = completions.iter().map(|c| &c.versions).max_by_key(|versions| versions.len()).unwrap();
    for completion in completions {
        assert_eq!(completion.versions, longest[..completion.versions.len()]);
    }
}

/// Places at which the version changes.
fn changes(completion: &Completion) -> Vec<u32> {
    let pairs = completion.versions.windows(2).enumerate();
    pairs.filter(|(_, pair)| pair[0] != pair[1]).map(|(at, _)| at as u32 + 1).collect()
}

#[test]
fn a_prompt_is_computed_beside_the_draws_of_others() {
    let device = Device::new(AMPLE);
    let limits = GenerationLimits { prefill_tokens: 10, ..GenerationLimits::default() };
    let mut generation = generation(&device, limits, PolicyTakeover::Recompute);
    generation.submit(Ticket(1), endless(1, 1, 2, 40)).unwrap();
    generation.step().unwrap();
    generation.submit(Ticket(2), endless(2, 101, 3, 4)).unwrap();
    for step in 2..12 {
        let before = generation.tally();
        generation.step().unwrap();
        let now = generation.tally();
        assert_eq!(now.prefilled - before.prefilled, 10);
        // The prompt is whole with the tenth step, and draws within it.
        assert_eq!(now.drawn - before.drawn, if step < 11 { 2 } else { 5 });
    }
    assert_eq!(device.most_filled.load(Relaxed), 10);
    generation.run().unwrap();
}

#[test]
fn slots_are_taken_by_the_next_as_responses_end() {
    let device = Device::new(AMPLE);
    let limits = GenerationLimits { sequences: 3, ..GenerationLimits::default() };
    let mut generation = generation(&device, limits, PolicyTakeover::Recompute);
    let short_and_long = SampleRequest { limits: vec![1, 2, 9], ..endless(1, 4, 3, 9) };
    generation.submit(Ticket(1), short_and_long).unwrap();
    generation.submit(Ticket(2), endless(2, 4, 1, 2)).unwrap();
    generation.submit(Ticket(3), endless(3, 4, 1, 2)).unwrap();
    let mut drawn = Vec::new();
    let mut handed = Vec::new();
    while !generation.step().unwrap() {
        drawn.push(generation.tally().drawn);
        handed.extend(generation.finished().into_iter().map(|(ticket, _)| ticket));
    }
    // Three, then one of the first group ended and the second takes its place, then the third.
    assert_eq!(drawn[..4], [3, 6, 9, 11]);
    handed.extend(generation.finished().into_iter().map(|(ticket, _)| ticket));
    assert_eq!(handed, [Ticket(2), Ticket(3), Ticket(1)]);
}

#[test]
fn nobody_overtakes_and_nobody_starves() {
    let device = Device::new(AMPLE);
    let limits = GenerationLimits { sequences: 4, ..GenerationLimits::default() };
    let mut generation = generation(&device, limits, PolicyTakeover::Recompute);
    let mut handed = Vec::new();
    for ticket in 0..40 {
        let wide = if ticket == 5 { 4 } else { 1 };
        generation.submit(Ticket(ticket), endless(ticket as u8, 3, wide, 3)).unwrap();
        generation.step().unwrap();
        handed.extend(generation.finished().into_iter().map(|(ticket, _)| ticket.0));
    }
    while !generation.step().unwrap() {}
    handed.extend(generation.finished().into_iter().map(|(ticket, _)| ticket.0));
    assert_eq!(handed, (0..40).collect::<Vec<_>>());
}

#[test]
fn caches_are_admitted_by_what_they_may_come_to() {
    // 4 tokens of prompt, and 2 responses of 6 tokens that may hear 2: 20 tokens of a byte each.
    let conversation = |seed| SampleRequest { max_heard: 2, ..endless(seed, 4, 2, 6) };
    for (budget, together) in [(0, 1), (39, 1), (40, 2), (59, 2), (60, 3), (usize::MAX, 5)] {
        let limits = GenerationLimits { cache_bytes: budget, ..GenerationLimits::default() };
        let mut generation = generation(&Device::new(AMPLE), limits, PolicyTakeover::Recompute);
        for ticket in 0..5 {
            assert_eq!(
                generation.has_room(),
                ticket <= together && (budget > 20 * ticket as usize || ticket == 0)
            );
            generation.submit(Ticket(ticket), conversation(ticket as u8)).unwrap();
        }
        generation.step().unwrap();
        assert_eq!(generation.tally().drawn, 2 * together, "{budget}");
    }
}

#[test]
fn out_of_memory_puts_the_youngest_back_and_loses_nothing() {
    let requests = || (0..6).map(|seed| endless(seed, 5, 4, 20));
    let calm = Generation::start(Device::new(AMPLE).policy(1), requests().collect()).unwrap().run().unwrap();
    // One group comes to 4 × (5 + 20) tokens.
    let device = Device::new(250);
    let mut generation = generation(&device, GenerationLimits::default(), PolicyTakeover::Recompute);
    for (ticket, request) in (0..).zip(requests()) {
        generation.submit(Ticket(ticket), request).unwrap();
    }
    let mut handed = BTreeMap::new();
    while !generation.step().unwrap() {
        handed.extend(generation.finished());
    }
    handed.extend(generation.finished());
    assert_eq!(handed.into_values().collect::<Vec<_>>(), calm);
    let tally = generation.tally();
    assert!(tally.preempted > 0 && tally.recomputed > 0 && tally.out_of_memory > 0, "{tally:?}");
    assert_eq!((tally.drawn, tally.finished), (6 * 4 * 20, 6));
}

#[test]
fn a_request_beyond_the_device_is_named_and_the_others_go_on() {
    let device = Device::new(150);
    let mut generation = generation(&device, GenerationLimits::default(), PolicyTakeover::Recompute);
    generation.submit(Ticket(1), endless(1, 5, 4, 200)).unwrap();
    generation.submit(Ticket(2), endless(2, 5, 4, 20)).unwrap();
    let error = loop {
        if let Err(error) = generation.step() {
            break error;
        }
    };
    assert!(matches!(error, EngineError::Memory { .. }), "{error}");
    assert_eq!(generation.oldest(), Some(Ticket(1)));
    let partial = generation.abandon(Ticket(1)).unwrap();
    assert!(partial.iter().all(|c| c.tokens.len() > 20 && !c.stopped));
    for (sample, completion) in partial.iter().enumerate() {
        check_alone(&endless(1, 5, 4, 200), sample, completion);
    }
    assert_eq!(generation.abandon(Ticket(1)), None);
    while !generation.step().unwrap() {}
    assert_eq!(generation.finished()[0].0, Ticket(2));
    assert_eq!((generation.tally().finished, generation.tally().abandoned), (1, 1));
}

#[test]
fn a_group_of_several_calls_stays_in_step_when_one_of_them_fails() {
    let requests = || vec![endless(1, 9, 300, 6), endless(2, 9, 300, 6)];
    let calm = Generation::start(Device::new(AMPLE).policy(1), requests()).unwrap().run().unwrap();
    let memory = || EngineError::Memory { wanted: 1, free: 0 };
    let lost = || EngineError::DeviceLost { device: "fake".to_owned(), why: "a test".to_owned() };
    for every in [3, 4, 5] {
        for of_memory in [true, false] {
            let trouble = move |call: usize| {
                call.is_multiple_of(every).then(|| if of_memory { memory() } else { lost() })
            };
            let device = Device::troubled(AMPLE, move |call| if call < 40 { trouble(call) } else { None });
            let limits = GenerationLimits { sequences: 1000, ..GenerationLimits::default() };
            let mut generation = generation(&device, limits, PolicyTakeover::Recompute);
            for (ticket, request) in (0..).zip(requests()) {
                generation.submit(Ticket(ticket), request).unwrap();
            }
            let mut failed = 0;
            let mut version = 1;
            loop {
                match generation.step() {
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(_) => {
                        failed += 1;
                        // Another version in the midst of a group's draws: none of them counts.
                        version += 1;
                        generation.install(device.policy(version)).unwrap();
                    }
                }
            }
            let results = generation.into_completions();
            for (request, completions) in requests().iter().zip(&results) {
                check_lockstep(completions);
                for (sample, completion) in completions.iter().enumerate() {
                    check_alone(request, sample, completion);
                }
            }
            assert_eq!(failed == 0, results == calm, "{every} {of_memory}");
            assert!(of_memory || failed > 1);
        }
    }
}

#[test]
fn strings_end_turns_wherever_they_end() {
    let text = |tokens: &[u32]| -> String {
        tokens.iter().map(|token| ["a", "b", "ab", "", "ba", "é", "xay", "c"][*token as usize]).collect()
    };
    let strings: Vec<String> = ["bb", "éx", "cab"].map(str::to_owned).to_vec();
    let holds = |tokens: &[u32]| strings.iter().any(|string| text(tokens).contains(string.as_str()));
    let stops = StopStrings::new(strings.clone(), text).unwrap();
    let asked = SampleRequest { stop_strings: Some(stops), ..endless(4, 3, 64, 12) };
    let results = Generation::start(Device::new(AMPLE).policy(1), vec![asked]).unwrap().run().unwrap();
    let mut within = 0;
    for completion in &results[0] {
        let (last, before) = completion.tokens.split_last().unwrap();
        assert!(!holds(before), "{completion:?}");
        assert_eq!(completion.stopped, holds(&completion.tokens));
        assert!(completion.stopped || completion.tokens.len() == 12);
        within += u32::from(completion.stopped && *last == 6);
    }
    assert!(within > 0 && results[0].iter().any(|c| !c.stopped), "{within}");
    assert!(StopStrings::new(vec![String::new()], text).is_err());
    assert!(StopStrings::new(vec!["a".repeat(MAX_STOP_BYTES + 1)], text).is_err());
    assert!(StopStrings::new(vec!["a".to_owned(); MAX_STOP_STRINGS + 1], text).is_err());
}

#[test]
fn bad_limits_and_a_ticket_given_twice_are_refused() {
    let device = Device::new(AMPLE);
    let mut generation = generation(&device, GenerationLimits::default(), PolicyTakeover::Recompute);
    for limits in [vec![0], vec![5], vec![1, 2, 3]] {
        let refused = generation.submit(Ticket(1), SampleRequest { limits, ..endless(1, 2, 2, 4) });
        assert!(refused.is_err());
    }
    generation.submit(Ticket(1), endless(1, 2, 2, 4)).unwrap();
    assert!(matches!(generation.submit(Ticket(1), endless(1, 2, 2, 4)), Err(EngineError::Limit { .. })));
    assert_eq!(generation.requests(), 1);
}

#[test]
fn thousands_of_requests_leave_nothing_behind() {
    let device = Device::new(AMPLE);
    let limits = GenerationLimits { sequences: 16, ..GenerationLimits::default() };
    let mut generation = generation(&device, limits, PolicyTakeover::Recompute);
    let (mut ticket, mut handed) = (0, 0);
    while handed < 5000 {
        while generation.has_room() && ticket < 5000 {
            generation.submit(Ticket(ticket), request(ticket as u8, 3, 1 + ticket as u32 % 3, 5)).unwrap();
            ticket += 1;
        }
        if ticket.is_multiple_of(7) && generation.abandon(Ticket(ticket - 1)).is_some() {
            handed += 1;
        }
        generation.step().unwrap();
        handed += generation.finished().len();
    }
    assert_eq!((generation.requests(), device.held()), (0, 0));
    let Generation { waiting, active, done, tally, .. } = &generation;
    assert!(waiting.capacity() + active.capacity() + done.capacity() < 200);
    assert_eq!(tally.finished + tally.abandoned, 5000);
}
