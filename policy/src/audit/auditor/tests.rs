use std::sync::Barrier;

use super::*;
use crate::generation::{Completion, Generation, GenerationLimits, PolicyTakeover, SampleRequest, Ticket};
use crate::model::config::ModelConfig;
use crate::model::precision::Precision;
use crate::model::weights::Weights;
use crate::training::decoder::tests::families;

const SEED: [u8; 32] = [7; 32];
const PROMPT: [u32; 3] = [1, 2, 4];
const TOKENS: u32 = 24;

fn params() -> SamplingParams {
    SamplingParams::unbiased(TOKENS)
}

/// Versions 1, 2 and 3 of a model.
fn versions(config: &ModelConfig) -> Vec<Arc<VersionWeights>> {
    let version = |number| VersionWeights::new(number, config, Weights::random(config, number)).unwrap();
    (1..4).map(|number| Arc::new(version(number))).collect()
}

/// What a node that computes in `precision` makes of an order while these versions take over,
/// one every few tokens.
fn drawn(
    versions: &[Arc<VersionWeights>],
    precision: Precision,
    takeover: PolicyTakeover,
) -> Vec<ClaimedSample> {
    let request = SampleRequest {
        prompt: PROMPT.to_vec(),
        seed: SEED,
        samples: 4,
        stop_ids: vec![],
        stop_strings: None,
        limits: vec![],
        max_heard: 0,
        params: params(),
    };
    let mut policies = versions.iter().map(|version| Arc::new(version.policy(precision).unwrap()));
    let mut generation = Generation::new(policies.next().unwrap(), GenerationLimits::default(), takeover);
    generation.submit(Ticket(0), request).unwrap();
    let mut steps = 0u32;
    while !generation.step().unwrap() {
        steps += 1;
        if steps.is_multiple_of(7)
            && let Some(newer) = policies.next()
        {
            generation.install(newer).unwrap();
        }
    }
    let completions = generation.into_completions().remove(0);
    let recomputed = completions[0].recomputed.clone();
    let sample = |(index, completion): (u32, Completion)| {
        let tokens = completion.tokens.iter().map(|token| (*token, true));
        let sample = ClaimedSample::new(index, tokens, &completion.logprobs, completion.versions);
        match takeover {
            PolicyTakeover::Keep => sample.with_kept_caches(recomputed.clone()),
            _ => sample,
        }
    };
    (0..).zip(completions).map(sample).collect()
}

fn examine(
    auditor: &Auditor,
    versions: &[Arc<VersionWeights>],
    declared: Precision,
    samples: &[ClaimedSample],
) -> Result<SampleFinding, AuditError> {
    let standard = Standard::of(declared.name(), 1.0).unwrap();
    auditor.examine(versions, &standard, &PROMPT, &SEED, &params(), samples.to_vec())
}

/// What is held, that which was not used for longest first; it keeps the limit.
fn held(auditor: &Auditor) -> Vec<(u64, Precision)> {
    let copies = auditor.copies.lock();
    copies.check();
    copies.held().collect()
}

#[test]
fn samples_are_audited_in_what_they_declare() {
    for (config, _) in families() {
        let (auditor, versions) = (Auditor::new(usize::MAX), versions(&config));
        for computed in Precision::ALL {
            for takeover in [PolicyTakeover::Recompute, PolicyTakeover::Keep] {
                let samples = drawn(&versions, computed, takeover);
                for declared in Precision::ALL {
                    let found = examine(&auditor, &versions, declared, &samples).unwrap();
                    let honest = declared == computed;
                    assert_eq!(found.fault.is_none(), honest, "{computed} as {declared}: {found:?}");
                    assert!(!honest || !found.is_close);
                }
            }
        }
    }
}

#[test]
fn what_has_no_room_together_is_asked_in_turn_and_found_to_be_the_same() {
    for (config, _) in families() {
        let versions = versions(&config);
        for precision in [Precision::Bf16, Precision::Int8, Precision::Int4] {
            let copy = versions[0].copied_bytes(precision);
            let (roomy, narrow) = (Auditor::new(3 * copy), Auditor::new(copy));
            let honest = drawn(&versions, precision, PolicyTakeover::Recompute);
            let swapped = [honest[1].clone(), honest[0].clone()];
            let other = drawn(&versions, Precision::F32, PolicyTakeover::Recompute);
            let unknown = &versions[1..];
            for (samples, versions) in [
                (&honest[..], &versions[..]),
                (&honest[2..], &versions[..]),
                (&honest[..], unknown),
                (&swapped[..], &versions[..]),
                (&other[..], &versions[..]),
                (&honest[..0], &versions[..]),
            ] {
                let newest_first: Vec<_> = versions.iter().rev().cloned().collect();
                let expected = examine(&roomy, versions, precision, samples).unwrap();
                assert_eq!(examine(&narrow, versions, precision, samples).unwrap(), expected);
                assert_eq!(examine(&narrow, &newest_first, precision, samples).unwrap(), expected);
                assert_eq!(held(&narrow), [(3, precision)]);
            }
            assert_eq!(held(&roomy).len(), 3);
        }
    }
}

#[test]
fn what_would_take_too_much_memory_is_not_audited_and_says_how_much() {
    let (config, _) = families().remove(0);
    let versions = versions(&config);
    let copy = versions[0].copied_bytes(Precision::Int8);
    let kept = drawn(&versions, Precision::Int8, PolicyTakeover::Keep);
    let anew = drawn(&versions, Precision::Int8, PolicyTakeover::Recompute);
    for (limit, samples, together) in [(3 * copy - 1, &kept, 3), (copy - 1, &anew, 1)] {
        let auditor = Auditor::new(limit);
        let refused = examine(&auditor, &versions, Precision::Int8, samples).unwrap_err();
        let AuditError::Cannot(cannot) = refused else { panic!("{refused}") };
        let (precision, needed) = (Precision::Int8, together * copy);
        assert_eq!(cannot, CannotAudit::NoRoom { precision, versions: together, needed, limit });
        assert!(cannot.to_string().contains("declared in int8, they are audited in int8"), "{cannot}");
        // What is published in f32 takes none.
        let exact = drawn(&versions, Precision::F32, PolicyTakeover::Keep);
        assert_eq!(examine(&auditor, &versions, Precision::F32, &exact).unwrap(), SampleFinding::default());
    }
    assert_eq!(
        examine(&Auditor::new(3 * copy), &versions, Precision::Int8, &kept).unwrap(),
        SampleFinding::default()
    );
}

#[test]
fn what_was_not_used_for_longest_makes_room_and_what_nobody_holds_goes() {
    use Precision::{F32, Int4, Int8};
    let (config, _) = families().remove(1);
    let mut versions = versions(&config);
    let bytes = |precision| versions[0].copied_bytes(precision);
    assert!(bytes(Int8) > bytes(Int4) && bytes(Int4) > bytes(F32));
    // Of each version of int8, and of one of int4 beside two of these.
    let auditor = Auditor::new(3 * bytes(Int8));
    let ask = |version: usize, precision| {
        let version = &versions[version..=version];
        examine(&auditor, version, precision, &drawn(version, precision, PolicyTakeover::Recompute)).unwrap();
        held(&auditor)
    };
    ask(0, Int8);
    ask(1, Int8);
    assert_eq!(ask(2, Int8), [(1, Int8), (2, Int8), (3, Int8)]);
    assert_eq!(ask(0, Int8), [(2, Int8), (3, Int8), (1, Int8)]);
    assert_eq!(ask(0, F32), [(2, Int8), (3, Int8), (1, Int8), (1, F32)]);
    assert_eq!(ask(2, Int4), [(3, Int8), (1, Int8), (1, F32), (3, Int4)]);
    assert_eq!(ask(1, Int8), [(1, Int8), (1, F32), (3, Int4), (2, Int8)]);
    // Both are wanted, and the one that is there is not let go for the other.
    let both = &versions[1..];
    examine(&auditor, both, Int8, &drawn(both, Int8, PolicyTakeover::Recompute)).unwrap();
    assert_eq!(held(&auditor), [(1, F32), (3, Int4), (2, Int8), (3, Int8)]);
    versions.remove(1);
    examine(&auditor, &versions[..1], F32, &drawn(&versions[..1], F32, PolicyTakeover::Recompute)).unwrap();
    assert_eq!(held(&auditor), [(3, Int4), (3, Int8), (1, F32)]);
}

#[test]
fn audits_at_the_same_time_make_a_policy_once() {
    let (config, _) = families().remove(2);
    let (auditor, versions) = (Auditor::new(usize::MAX), versions(&config));
    let samples = drawn(&versions[..1], Precision::Int8, PolicyTakeover::Recompute);
    let barrier = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                barrier.wait();
                let found = examine(&auditor, &versions[..1], Precision::Int8, &samples).unwrap();
                assert_eq!(found, SampleFinding::default());
            });
        }
    });
    assert_eq!(held(&auditor), [(1, Precision::Int8)]);
}

#[test]
fn weights_of_another_model_are_refused() {
    let [(config, _), (other, weights), ..] = &families()[..] else { panic!("four families") };
    assert!(VersionWeights::new(1, other, weights.clone()).is_ok());
    assert!(VersionWeights::new(1, config, weights.clone()).is_err());
}
