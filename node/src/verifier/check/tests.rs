use std::sync::Arc;

use super::*;
use crate::testing;
use echo_policy::audit::{Tolerance, VersionWeights};
use echo_policy::generation::{Generation, SampleRequest};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;
use echo_policy::sampling;
use echo_policy::sampling::SamplingParams;
use echo_protocol::run::charter::{Charter, DrawRule, Takeover};
use echo_protocol::run::precision::PrecisionName;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::store::ChunkStore;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory::{Trajectory, spans};
use echo_sandbox::task::Response;
use echo_sandbox::task::episode::EpisodeStep;

fn key() -> NodeKey {
    NodeKey::from_secret([5; 32])
}

/// What a verifier has been given.
struct Given {
    /// Versions 1 and 2.
    versions: [Arc<VersionWeights>; 2],
    tokenizer: Arc<Tokenizer>,
}

fn given() -> Given {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let [first, second] = [1, 2].map(|version| testing::installed(&store, version, &testing::workload()));
    Given { versions: [first.weights, second.weights], tokenizer: second.tokenizer }
}

/// The same with weights by which logits are far from each other, as a trained model's are.
fn spread_out(workload: &NodeWorkload) -> Given {
    let spread = ModelConfig { initializer_range: 0.3, ..workload.model.clone() };
    let version = |version| {
        let weights = Weights::random(&spread, version);
        Arc::new(VersionWeights::new(version, &workload.model, weights).unwrap())
    };
    Given { versions: [version(1), version(2)], ..given() }
}

/// A cache with the first so many of its versions, and so much memory.
fn cache_of(given: &Given, versions: usize, max_copy_bytes: usize) -> VersionCache {
    let mut cache = VersionCache::new(max_copy_bytes);
    let versions = given.versions[..versions].iter();
    versions.for_each(|version| cache.put(version.clone(), given.tokenizer.clone()));
    cache
}

/// A group as an honest node makes it; the first token of each response under version 1, the
/// rest under version 2.
fn honest(workload: &NodeWorkload, given: &Given, counter: u64) -> TrajectoryGroup {
    computed_in(Precision::F32, workload, given, counter)
}

/// The same by a node that computes in this precision, and declares it.
fn computed_in(
    precision: Precision,
    workload: &NodeWorkload,
    given: &Given,
    counter: u64,
) -> TrajectoryGroup {
    let request = workload.request(OrderCounter(counter), &given.tokenizer).unwrap();
    drawn(request, precision, workload, given, counter)
}

/// The same by a node that has this drawn for the order.
fn drawn(
    request: SampleRequest,
    precision: Precision,
    workload: &NodeWorkload,
    given: &Given,
    counter: u64,
) -> TrajectoryGroup {
    let policies = given.versions.each_ref().map(|version| Arc::new(version.policy(precision).unwrap()));
    let (counter, tokenizer) = (OrderCounter(counter), &given.tokenizer);
    let mut generation = Generation::start(policies[0].clone(), vec![request]).unwrap();
    generation.step().unwrap();
    generation.install(policies[1].clone()).unwrap();
    while !generation.step().unwrap() {}
    let trajectories = generation.into_completions().remove(0).into_iter().map(|completion| {
        let said = &completion.tokens[..completion.tokens.len() - usize::from(completion.stopped)];
        let text = tokenizer.decode(said, false).unwrap();
        let response = Response { text: &text, finished: completion.stopped };
        let step = workload.play(counter).unwrap().turn(&response, 0).unwrap();
        let EpisodeStep::Over { verdict, finished } = step else { panic!("{step:?}") };
        Trajectory {
            response: completion.tokens,
            turns: Vec::new(),
            logprobs: completion.logprobs,
            versions: spans(completion.versions.into_iter().map(PolicyVersion)),
            reward: verdict.reward,
            stopped: finished,
            omega: verdict.metadata,
            raw_logprobs: Vec::new(),
        }
    });
    let trajectories = trajectories.collect();
    TrajectoryGroup {
        run: workload.run,
        lease: LeaseId(1),
        counter,
        node: key().public(),
        trajectories,
        precision: named(precision.name()),
        caches: Default::default(),
        recomputed: Vec::new(),
    }
}

fn named(precision: &str) -> PrecisionName {
    PrecisionName::try_from(precision.to_owned()).unwrap()
}

fn opinion(workload: &NodeWorkload, given: &Given, group: &TrajectoryGroup) -> Opinion {
    opinion_of(&cache_of(given, 2, usize::MAX), workload, group)
}

fn opinion_of(cache: &VersionCache, workload: &NodeWorkload, group: &TrajectoryGroup) -> Opinion {
    let signed = Signed::sign(group, &key()).unwrap();
    let report = check(workload, cache, &signed.to_bytes()).unwrap();
    assert_eq!((report.run, report.group), (workload.run, signed.body_id()));
    report.opinion
}

/// What makes a lie of an honest group.
type Change = fn(&mut TrajectoryGroup);

#[test]
fn honest_groups_are_sound_and_lies_are_named() {
    let (workload, given) = (testing::workload(), given());
    for counter in 0..4 {
        let group = honest(&workload, &given, counter);
        assert_eq!(opinion(&workload, &given, &group), Opinion::Sound);
    }
    let group = honest(&workload, &given, 0);
    let lies: [(Change, RefuseReason); 6] = [
        (|group| drop(group.trajectories.pop()), RefuseReason::Schema),
        (
            |group| {
                // One of them under version 2 from its first token on.
                let alone = &mut group.trajectories[0];
                alone.versions = spans(alone.response.iter().map(|_| PolicyVersion(2)));
            },
            RefuseReason::Schema,
        ),
        (|group| group.trajectories[0].reward = 1.0 - group.trajectories[0].reward, RefuseReason::Reward),
        (|group| group.trajectories[0].stopped = !group.trajectories[0].stopped, RefuseReason::TaskRules),
        (|group| group.trajectories[1].logprobs[0] -= 0.5, RefuseReason::Sampling),
        (
            |group| {
                // The same tokens are not those of another version.
                for trajectory in &mut group.trajectories {
                    trajectory.versions = spans(trajectory.response.iter().map(|_| PolicyVersion(1)));
                }
                group.trajectories[0].logprobs[0] -= 0.1;
            },
            RefuseReason::Sampling,
        ),
    ];
    for (case, (lie, expected)) in lies.into_iter().enumerate() {
        let mut group = group.clone();
        lie(&mut group);
        let found = opinion(&workload, &given, &group);
        assert!(matches!(&found, Opinion::Lie { reason, .. } if *reason == expected), "{case}: {found:?}");
    }
}

/// The workload of a run that takes these beside f32, and kept caches.
fn open_to(precisions: &[&str]) -> NodeWorkload {
    let (run, mut charter) = Charter::open(&testing::charter()).unwrap();
    charter.precisions.extend(precisions.iter().map(|name| named(name)));
    charter.takeover = Takeover::Keep;
    NodeWorkload::new(run, &charter).unwrap()
}

#[test]
fn what_nobody_can_audit_is_no_lie_where_the_charter_allows_it() {
    let given = given();
    let (strict, open) = (testing::workload(), open_to(&["fp8", "int8"]));
    let group = honest(&open, &given, 0);
    assert_eq!(opinion(&open, &given, &group), Opinion::Sound);
    let unknown = TrajectoryGroup { precision: named("fp8"), ..group.clone() };
    let kept = TrajectoryGroup { caches: Caches::Kept, ..group };
    let coarse = computed_in(Precision::Int8, &open, &given, 0);
    let narrow = cache_of(&given, 2, 100);
    for (declared, why) in [(&unknown, "fp8"), (&coarse, "in int8")] {
        let found = opinion_of(&narrow, &open, declared);
        assert!(matches!(&found, Opinion::Unable { why: said } if said.contains(why)), "{found:?}");
    }
    // They were computed anew, which is another thing.
    let found = opinion(&open, &given, &kept);
    assert!(matches!(found, Opinion::Lie { reason: RefuseReason::Sampling, .. }), "{found:?}");
    for declared in [unknown, kept] {
        let found = opinion(&strict, &given, &declared);
        assert!(matches!(found, Opinion::Lie { reason: RefuseReason::Schema, .. }), "{found:?}");
    }
}

#[test]
fn where_tokens_race_who_draws_by_intervals_lies() {
    let (given, (run, mut charter)) = (given(), Charter::open(&testing::charter()).unwrap());
    charter.sampling.draw = DrawRule::Race;
    let workload = NodeWorkload::new(run, &charter).unwrap();
    for counter in 0..4 {
        let group = honest(&workload, &given, counter);
        assert_eq!(opinion(&workload, &given, &group), Opinion::Sound, "{counter}");
        let asked = workload.request(OrderCounter(counter), &given.tokenizer).unwrap();
        let params = SamplingParams { rule: sampling::DrawRule::Intervals, ..asked.params };
        let lie = drawn(SampleRequest { params, ..asked }, Precision::F32, &workload, &given, counter);
        let found = opinion(&workload, &given, &lie);
        assert!(matches!(found, Opinion::Lie { reason: RefuseReason::Sampling, .. }), "{found:?}");
    }
}

#[test]
fn groups_are_checked_in_what_they_declare() {
    let workload = open_to(&["bf16", "int8", "int4"]);
    let given = spread_out(&workload);
    for computed in Precision::ALL {
        let group = computed_in(computed, &workload, &given, 0);
        for declared in Precision::ALL {
            let precision = named(declared.name());
            let found = opinion(&workload, &given, &TrajectoryGroup { precision, ..group.clone() });
            if declared == computed {
                assert_eq!(found, Opinion::Sound, "{computed}");
            } else {
                // Few tokens: what is near is too close to tell, and f32 is as near to bf16 as
                // another order of its sums may come.
                let lies = matches!(found, Opinion::Lie { reason: RefuseReason::Sampling, .. });
                let is_far = computed == Precision::Int4 && declared < Precision::Int8;
                let is_within = (computed, declared) == (Precision::F32, Precision::Bf16);
                let is_seen = found != Opinion::Sound || is_within;
                assert!(lies || !is_far && is_seen, "{computed} as {declared}: {found:?}");
            }
        }
    }
}

#[test]
fn what_cannot_be_checked_here_is_not_called_a_lie() {
    let (workload, given) = (testing::workload(), given());
    let group = honest(&workload, &given, 0);
    // By so many times what an honest node may be off, in one token of all.
    let (tolerance, last) = (Tolerance::f32(workload.sampling().temperature), group.trajectories.len() - 1);
    for (off, certain) in [(0.4f32, true), (0.8, false), (1.5, false), (4.0, true)] {
        let mut group = group.clone();
        group.trajectories[last].logprobs[0] -= off * tolerance.max;
        let found = opinion(&workload, &given, &group);
        assert_eq!(!matches!(found, Opinion::Unable { .. }), certain, "{off}: {found:?}");
    }
    // What is too close to tell in one trajectory hides no lie in another.
    let mut hidden = group.clone();
    hidden.trajectories[0].logprobs[0] -= 1.5 * tolerance.max;
    assert!(matches!(opinion(&workload, &given, &hidden), Opinion::Unable { .. }));
    hidden.trajectories[last].logprobs[0] -= 0.5;
    let found = opinion(&workload, &given, &hidden);
    assert!(matches!(found, Opinion::Lie { reason: RefuseReason::Sampling, .. }), "{found:?}");
    for versions in [1, 0] {
        let found = opinion_of(&cache_of(&given, versions, usize::MAX), &workload, &group);
        assert!(matches!(found, Opinion::Unable { .. }), "{found:?}");
    }
    assert!(check(&workload, &cache_of(&given, 2, 0), b"no group").is_err());
}
