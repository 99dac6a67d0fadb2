//! Any schedule of submissions, steps, abandonments, policies and lacks of memory gives what
//! each request alone would.

use std::cell::Cell;

use super::*;

/// A small generator of choices.
struct Dice(Cell<u64>);

impl Dice {
    fn below(&self, n: u64) -> u64 {
        self.0.set(fake::mix(self.0.get(), 77));
        self.0.get() % n
    }
}

/// What one schedule came to.
#[derive(Default)]
struct Seen {
    tally: GenerationStats,
    partial: usize,
    kept: usize,
    conversed: usize,
    /// Steps after which a request still drew from an older policy.
    lingered: u64,
}

fn random_request(dice: &Dice) -> SampleRequest {
    let (samples, most) = (1 + dice.below(5) as u32, 1 + dice.below(24) as u32);
    let limited = dice.below(3) == 0;
    let limits = (0..if limited { samples } else { 0 }).map(|_| 1 + dice.below(most.into()) as u32);
    SampleRequest {
        limits: limits.collect(),
        max_heard: 2 * dice.below(4) as u32,
        ..request(dice.below(256) as u8, 1 + dice.below(40) as usize, samples, most)
    }
}

fn check(request: &SampleRequest, completions: &[Completion], whole: bool, takeover: PolicyTakeover) {
    assert_eq!(completions.len(), request.samples as usize);
    check_lockstep(completions);
    for (sample, completion) in completions.iter().enumerate() {
        check_alone(request, sample, completion);
        let full = completion.tokens.len() == request.limit(sample as u32);
        assert!(!whole || completion.stopped || full, "{completion:?}");
        match takeover {
            PolicyTakeover::Recompute => assert_eq!(completion.recomputed, changes(completion)),
            PolicyTakeover::Keep => assert!(completion.recomputed.iter().all(|at| *at > 0)),
            PolicyTakeover::Wait => {
                assert!(changes(completion).is_empty() && completion.recomputed.is_empty())
            }
        }
    }
}

/// Plays one schedule to its end.
fn play(seed: u64, takeover: PolicyTakeover) -> Seen {
    let dice = Dice(Cell::new(seed));
    let trouble = Dice(Cell::new(seed + 1));
    let memory = || EngineError::Memory { wanted: 1, free: 0 };
    // Any request fits alone: five samples of 40 + 24 + 6 tokens, and the prompt once more.
    let device = Device::troubled(500, move |_| (trouble.below(50) == 0).then(memory));
    let limits = GenerationLimits {
        cache_bytes: 100 + dice.below(900) as usize,
        sequences: 1 + dice.below(12) as usize,
        prefill_tokens: 1 + dice.below(64) as usize,
    };
    let mut generation = generation(&device, limits, takeover);
    let mut requests = BTreeMap::new();
    let (mut version, mut handed, mut drawn) = (1, 0, 0);
    let (mut answered, mut seen) = (BTreeMap::new(), Seen::default());
    for round in 0.. {
        let winding_up = round > 300;
        if winding_up && generation.is_finished() && generation.finished().is_empty() {
            break;
        }
        match dice.below(12) {
            0..4 if !winding_up => {
                let (ticket, request) = (Ticket(round), random_request(&dice));
                generation.submit(ticket, request.clone()).unwrap();
                requests.insert(ticket, request);
            }
            4 if !winding_up => {
                version += 1;
                generation.install(device.policy(version)).unwrap();
            }
            5 if !winding_up => {
                // One that is on its way, or one of the youngest.
                let young = Ticket(round.saturating_sub(dice.below(16)));
                let ticket = generation.oldest().filter(|_| dice.below(2) == 0).unwrap_or(young);
                if let Some(completions) = generation.abandon(ticket) {
                    check(&requests[&ticket], &completions, false, takeover);
                    seen.partial += usize::from(completions.iter().any(|c| !c.tokens.is_empty()));
                    drawn += completions.iter().map(|c| c.tokens.len()).sum::<usize>();
                    handed += 1;
                }
            }
            _ => match generation.step() {
                Ok(_) => seen.lingered += u64::from(generation.lingering() > 0),
                Err(error) => assert!(matches!(error, EngineError::Memory { .. }), "{error}"),
            },
        }
        let answer = |turn: EndedTurn<'_>| {
            let most = requests[&turn.ticket].max_heard / HEARD.len() as u32;
            let turns: &mut u32 = answered.entry((turn.ticket, turn.sample)).or_default();
            let goes_on = turn.stopped && turn.left > 0 && *turns < most;
            *turns += u32::from(goes_on);
            Ok::<_, EngineError>(goes_on.then(|| HEARD.to_vec()))
        };
        generation.converse(answer).unwrap();
        if dice.below(3) == 0 || winding_up {
            for (ticket, completions) in generation.finished() {
                check(&requests[&ticket], &completions, true, takeover);
                for completion in &completions {
                    seen.kept += changes(completion).len().saturating_sub(completion.recomputed.len());
                    seen.conversed += usize::from(completion.turns.len() > 1);
                }
                drawn += completions.iter().map(|c| c.tokens.len()).sum::<usize>();
                handed += 1;
            }
        }
    }
    assert_eq!((generation.requests(), handed), (0, requests.len()));
    assert_eq!(device.held(), 0);
    seen.tally = generation.tally();
    assert_eq!(seen.tally.finished + seen.tally.abandoned, requests.len() as u64);
    assert_eq!(seen.tally.drawn, drawn as u64);
    let filled = device.filled.load(Relaxed) as u64;
    assert_eq!(seen.tally.prefilled.checked_add(seen.tally.recomputed), Some(filled));
    seen
}

#[test]
fn any_schedule_gives_what_each_request_alone_gives() {
    for takeover in [PolicyTakeover::Recompute, PolicyTakeover::Keep, PolicyTakeover::Wait] {
        let seen: Vec<Seen> = (0..30).map(|seed| play(1000 * seed, takeover)).collect();
        let sum = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>();
        // What the schedules are for did happen.
        assert!(sum(|s| s.tally.finished) > 500 && sum(|s| s.tally.abandoned) > 50);
        assert!(sum(|s| s.tally.preempted) > 20 && sum(|s| s.partial as u64) > 20);
        assert!(sum(|s| s.conversed as u64) > 100);
        assert_eq!(sum(|s| s.tally.interrupts) > 0, takeover != PolicyTakeover::Wait);
        assert_eq!(sum(|s| s.kept as u64) > 20, takeover == PolicyTakeover::Keep);
        assert_eq!(sum(|s| s.lingered) > 50, takeover == PolicyTakeover::Recompute);
    }
}

#[test]
fn an_undisturbed_schedule_computes_every_token_once() {
    let device = Device::new(AMPLE);
    let mut generation = generation(&device, GenerationLimits::default(), PolicyTakeover::Recompute);
    let dice = Dice(Cell::new(5));
    let (mut inputs, mut tokens) = (0, 0);
    for ticket in 0..40 {
        let request = random_request(&dice);
        inputs += request.prompt.len() - 1;
        generation.submit(Ticket(ticket), request).unwrap();
        generation.step().unwrap();
    }
    while !generation.step().unwrap() {}
    for (_, completions) in generation.finished() {
        tokens += completions.iter().map(|c| c.tokens.len()).sum::<usize>();
    }
    let GenerationStats { drawn, prefilled, recomputed, preempted, out_of_memory, .. } = generation.tally();
    assert_eq!((drawn, prefilled), (tokens as u64, inputs as u64));
    assert_eq!((recomputed, preempted, out_of_memory), (0, 0, 0));
    assert_eq!(device.decoded.load(Relaxed), tokens);
}
