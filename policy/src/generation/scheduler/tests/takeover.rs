//! What becomes of responses in flight when a policy is installed.

use super::*;

#[test]
fn a_lost_device_costs_no_token() {
    for takeover in [PolicyTakeover::Recompute, PolicyTakeover::Keep, PolicyTakeover::Wait] {
        let requests = || vec![endless(1, 9, 3, 12), endless(2, 30, 2, 5)];
        let calm = Generation::start(Device::new(AMPLE).policy(1), requests()).unwrap().run().unwrap();
        let lost = || EngineError::DeviceLost { device: "fake".to_owned(), why: "a test".to_owned() };
        let device = Device::troubled(AMPLE, move |call| (call >= 6).then(lost));
        let mut generation = generation(&device, GenerationLimits::default(), takeover);
        for (ticket, request) in (0..).zip(requests()) {
            generation.submit(Ticket(ticket), request).unwrap();
        }
        let error = loop {
            if let Err(error) = generation.step() {
                break error;
            }
        };
        assert!(matches!(error, EngineError::DeviceLost { .. }));
        // The same version elsewhere: at once, whatever the takeover.
        generation.install(Device::new(AMPLE).policy(1)).unwrap();
        assert_eq!(device.held(), 0);
        assert_eq!(generation.run().unwrap(), calm);
    }
}

#[test]
fn another_policy_takes_over_as_it_is_told() {
    let run = |takeover, device: &Arc<Device>, newer: &Arc<Device>| {
        let mut generation = generation(device, GenerationLimits::default(), takeover);
        generation.submit(Ticket(0), endless(1, 9, 3, 12)).unwrap();
        for _ in 0..5 {
            generation.step().unwrap();
        }
        generation.install(newer.policy(2)).unwrap();
        generation.submit(Ticket(1), endless(2, 9, 3, 4)).unwrap();
        while !generation.step().unwrap() {}
        let tally = generation.tally();
        let mut results = generation.into_completions();
        for (request, completions) in [endless(1, 9, 3, 12), endless(2, 9, 3, 4)].iter().zip(&results) {
            check_lockstep(completions);
            completions.iter().enumerate().for_each(|(sample, c)| check_alone(request, sample, c));
        }
        assert!(results.remove(1).iter().all(|c| c.versions == [2; 4] && c.recomputed.is_empty()));
        (results.remove(0).remove(0), tally)
    };
    let (device, other) = (Device::new(AMPLE), Device::new(AMPLE));
    let (dropped, tally) = run(PolicyTakeover::Recompute, &device, &device);
    assert_eq!((changes(&dropped), dropped.recomputed), (vec![5], vec![5]));
    // 8 of the prompt once, and the 5 that each of the three has said and heard before its last.
    assert_eq!((tally.recomputed, tally.interrupts), (8 + 3 * 5, 1));

    let (kept, tally) = run(PolicyTakeover::Keep, &device, &device);
    assert_eq!((changes(&kept), kept.recomputed), (vec![5], vec![]));
    assert_eq!((tally.recomputed, tally.interrupts), (0, 1));
    assert_ne!(kept.tokens, dropped.tokens);

    let (foreign, _) = run(PolicyTakeover::Keep, &device, &other);
    assert_eq!((foreign.tokens, foreign.recomputed), (dropped.tokens, vec![5]));

    let (waited, tally) = run(PolicyTakeover::Wait, &device, &device);
    assert_eq!((changes(&waited), tally.recomputed, tally.interrupts), (vec![], 0, 0));
    assert_eq!((device.held(), other.held()), (0, 0));
}

#[test]
fn caches_are_not_kept_in_the_midst_of_catching_up() {
    let device = Device::new(AMPLE);
    let limits = GenerationLimits { prefill_tokens: 1, ..GenerationLimits::default() };
    let mut generation = generation(&device, limits, PolicyTakeover::Keep);
    let asked = SampleRequest { max_heard: 6, ..request(9, 4, 3, 30) };
    generation.submit(Ticket(0), asked.clone()).unwrap();
    let (mut version, mut heard) = (1, 0);
    loop {
        let before = generation.tally();
        if generation.step().unwrap() {
            break;
        }
        let now = generation.tally();
        // What is computed for the first time, and not all of it yet.
        if now.prefilled > before.prefilled && now.drawn == before.drawn {
            version += 1;
            generation.install(device.policy(version)).unwrap();
        }
        let answer = |turn: EndedTurn<'_>| {
            let goes_on = turn.stopped && turn.left > 0 && heard < 3;
            heard += u32::from(goes_on);
            Ok::<_, EngineError>(goes_on.then(|| HEARD.to_vec()))
        };
        generation.converse(answer).unwrap();
    }
    let results = generation.into_completions().remove(0);
    check_lockstep(&results);
    for (sample, completion) in results.iter().enumerate() {
        check_alone(&asked, sample, completion);
        assert_eq!(completion.recomputed, changes(completion));
    }
    assert!(heard > 0 && results.iter().any(|c| !c.recomputed.is_empty()), "{heard} {version}");
}

/// One request of nine tokens for three samples, with ten tokens each under the first version.
fn on_its_way(device: &Arc<Device>, limits: GenerationLimits) -> Generation<Fake> {
    let mut generation = generation(device, limits, PolicyTakeover::Recompute);
    generation.submit(Ticket(0), endless(1, 9, 3, 40)).unwrap();
    while generation.tally().drawn < 30 {
        generation.step().unwrap();
    }
    generation
}

/// The responses of [`on_its_way`] at their ends, each compared with itself drawn alone.
fn ended(mut generation: Generation<Fake>) -> Vec<Completion> {
    while !generation.step().unwrap() {}
    let completions = generation.into_completions().remove(0);
    check_lockstep(&completions);
    for (sample, completion) in completions.iter().enumerate() {
        check_alone(&endless(1, 9, 3, 40), sample, completion);
    }
    completions
}

#[test]
fn nobody_waits_for_what_is_computed_anew() {
    let device = Device::new(AMPLE);
    // Of which a quarter is computed anew in a step: at least twice what three samples say there.
    let limits = GenerationLimits { prefill_tokens: 8, ..GenerationLimits::default() };
    let mut generation = on_its_way(&device, limits);
    let older = Arc::downgrade(generation.policy());
    generation.install(device.policy(2)).unwrap();
    let mut steps = 0;
    while generation.lingering() > 0 {
        assert!(older.upgrade().is_some());
        let before = generation.tally();
        generation.step().unwrap();
        let now = generation.tally();
        assert_eq!(now.drawn - before.drawn, 3, "each step draws a token for each");
        assert!(now.recomputed - before.recomputed <= 6);
        steps += 1;
    }
    // 8 of the prompt, and 3 × 10 after it, by 6 less the 3 that come every step.
    assert!((8..16).contains(&steps), "{steps}");
    assert!(older.upgrade().is_none(), "who is not needed is let go");
    assert_eq!(
        device.beside.load(Relaxed) as u64,
        generation.tally().recomputed,
        "nobody drew from it before"
    );
    for completion in &ended(generation) {
        assert_eq!((completion.versions.first(), completion.versions.last()), (Some(&1), Some(&2)));
        assert_eq!((changes(completion).len(), &completion.recomputed), (1, &changes(completion)));
    }
    assert_eq!(device.held(), 0);
}

#[test]
fn without_room_for_two_caches_they_are_given_up_first() {
    let device = Device::new(AMPLE);
    // Room for what is there, which may double before it has caught up, and not for that.
    let limits = GenerationLimits { prefill_tokens: 8, cache_bytes: 100, ..GenerationLimits::default() };
    let mut generation = on_its_way(&device, limits);
    generation.install(device.policy(2)).unwrap();
    generation.step().unwrap();
    assert_eq!((generation.lingering(), generation.tally().preempted), (0, 0));
    assert!(generation.is_catching_up());
    // The first step found nothing to draw from.
    assert_eq!(generation.tally().drawn, 30);
    while !generation.step().unwrap() {
        // The fake's caches share nothing: 3 × (8 + 40).
        assert!(device.held() <= 144);
    }
    for completion in &generation.into_completions()[0] {
        assert_eq!((changes(completion), &completion.recomputed), (vec![10], &vec![10]));
    }
}

#[test]
fn at_most_two_versions_draw() {
    let device = Device::new(AMPLE);
    let limits = GenerationLimits { prefill_tokens: 8, ..GenerationLimits::default() };
    let mut generation = on_its_way(&device, limits);
    let first = Arc::downgrade(generation.policy());
    generation.install(device.policy(2)).unwrap();
    let second = Arc::downgrade(generation.policy());
    generation.step().unwrap();
    assert_eq!(generation.lingering(), 1);
    generation.install(device.policy(3)).unwrap();
    assert!(first.upgrade().is_none() && second.upgrade().is_none());
    assert_eq!(generation.lingering(), 0);
    for completion in &ended(generation) {
        assert_eq!(changes(completion), [11]);
        assert_eq!(completion.versions[11], 3);
    }
}

#[test]
fn between_devices_nobody_lingers() {
    let (device, other) = (Device::new(AMPLE), Device::new(AMPLE));
    let mut generation = on_its_way(&device, GenerationLimits::default());
    generation.install(other.policy(2)).unwrap();
    assert_eq!((generation.lingering(), device.held()), (0, 0));
    for completion in &ended(generation) {
        assert_eq!(completion.recomputed, [10]);
    }
}

#[test]
fn however_many_are_in_flight_all_come_to_the_newer_policy() {
    let device = Device::new(AMPLE);
    let limits = GenerationLimits { prefill_tokens: 8, ..GenerationLimits::default() };
    let mut generation = generation(&device, limits, PolicyTakeover::Recompute);
    for ticket in 0..8 {
        generation.submit(Ticket(ticket), endless(ticket as u8, 9, 8, 200)).unwrap();
    }
    while generation.tally().drawn < 8 * 8 * 20 {
        generation.step().unwrap();
    }
    let before = generation.tally();
    generation.install(device.policy(2)).unwrap();
    let mut steps = 0;
    while generation.lingering() > 0 {
        assert!(!generation.is_catching_up());
        generation.step().unwrap();
        steps += 1;
    }
    let now = generation.tally();
    assert_eq!((now.succeeded, now.finished, now.drawn - before.drawn), (8, 0, 64 * steps));
    assert!(!generation.is_catching_up());
    // Once the first draws from the newer policy, its weights are in use.
    let (beside, each) = (device.beside.load(Relaxed) as u64, now.recomputed / 8);
    assert!((each / 2..2 * each).contains(&beside), "{beside} of {each} each");
    // Some 20 to 30 tokens each to be caught up with, two for each that is drawn.
    assert!(steps < 40, "{steps}");
}
