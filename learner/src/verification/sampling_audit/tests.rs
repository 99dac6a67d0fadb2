use super::*;
use crate::common::testing;
use crate::training::local_rollouts::{LocalAnswer, answers};
use echo_policy::generation::{
    Completion, CpuBackend, Generation, GenerationLimits, Policy, PolicyTakeover, SampleRequest, Ticket,
};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;
use echo_policy::sampling::{DrawRule, SamplingParams};
use echo_protocol::run::precision::PrecisionName;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory::{Omega, Trajectory, spans};

/// An audit that holds versions 0 and 2, and what generates under them.
fn court() -> (SamplingAudit, [Arc<Policy>; 2]) {
    court_of(testing::workload())
}

/// The same of another workload.
fn court_of((workload, weights): (Workload, Weights)) -> (SamplingAudit, [Arc<Policy>; 2]) {
    let model = workload.model.clone();
    let audit = SamplingAudit::new(Arc::new(workload), &std::env::temp_dir(), usize::MAX);
    let load = |version, weights: &Weights| Arc::new(Policy::load(version, &model, weights).unwrap());
    let newer = Weights::random(&model, 8);
    let policies = [load(0, &weights), load(2, &newer)];
    publish(&audit, 0, weights);
    publish(&audit, 2, newer);
    (audit, policies)
}

fn publish(audit: &SamplingAudit, version: u64, weights: Weights) {
    audit.publish(VersionWeights::new(version, &audit.workload.model, weights).unwrap());
}

/// A group as an honest node makes it; the first token of each response under the first policy, the
/// rest under the second.
fn group(audit: &SamplingAudit, counter: u64, policies: &[Arc<Policy>; 2]) -> TrajectoryGroup {
    group_by(PolicyTakeover::Recompute, audit, counter, policies)
}

/// The same from a node that keeps its caches, or computes them anew.
fn group_by(
    takeover: PolicyTakeover,
    audit: &SamplingAudit,
    counter: u64,
    policies: &[Arc<Policy>; 2],
) -> TrajectoryGroup {
    let request = request(audit, counter);
    group_of(request, takeover, audit, counter, policies)
}

/// What the order asks for.
fn request(audit: &SamplingAudit, counter: u64) -> SampleRequest {
    let workload = &audit.workload;
    let order = workload.order(Purpose::Train, counter);
    workload.request(&order, workload.charter.group_size).unwrap()
}

/// The same from a node that has something else drawn.
fn group_of(
    request: SampleRequest,
    takeover: PolicyTakeover,
    audit: &SamplingAudit,
    counter: u64,
    policies: &[Arc<Policy>; 2],
) -> TrajectoryGroup {
    let workload = &audit.workload;
    let mut generation = Generation::new(policies[0].clone(), GenerationLimits::default(), takeover);
    generation.submit(Ticket(0), request).unwrap();
    generation.step().unwrap();
    generation.install(policies[1].clone()).unwrap();
    while !generation.step().unwrap() {}
    let trajectory = |completion: Completion| Trajectory {
        response: completion.tokens,
        turns: Vec::new(),
        logprobs: completion.logprobs,
        versions: spans(completion.versions.into_iter().map(PolicyVersion)),
        reward: 0.0,
        stopped: completion.stopped,
        omega: Omega::new(),
        raw_logprobs: Vec::new(),
    };
    TrajectoryGroup {
        run: workload.run,
        lease: LeaseId(0),
        counter: OrderCounter(counter),
        node: PublicKey::from_bytes([7; 32]),
        trajectories: generation.into_completions().remove(0).into_iter().map(trajectory).collect(),
        precision: Default::default(),
        caches: if takeover == PolicyTakeover::Keep { Caches::Kept } else { Caches::Recomputed },
        recomputed: Vec::new(),
    }
}

fn refused(audit: &SamplingAudit, group: &TrajectoryGroup) -> bool {
    match audit.check(group) {
        Ok(()) => false,
        Err(Rejection::Refused(refusal)) => refusal.reason == RefuseReason::Sampling,
        Err(retry) => panic!("{retry}"),
    }
}

#[test]
fn honest_groups_pass_whatever_versions_they_mix() {
    let (audit, policies) = court();
    for counter in 0..8 {
        audit.check(&group(&audit, counter, &policies)).unwrap();
    }
}

#[test]
fn later_turns_are_drawn_behind_what_was_heard() {
    let (workload, weights) = testing::two_turns();
    let policy = Policy::load(0, &workload.model, &weights).unwrap();
    let audit = SamplingAudit::new(Arc::new(workload), &std::env::temp_dir(), usize::MAX);
    publish(&audit, 0, weights);
    let workload = &audit.workload;
    let orders: Vec<_> = (0..1000).map(|counter| workload.order(Purpose::Train, counter)).collect();
    let all = answers(workload, Arc::new(policy), &orders, workload.charter.group_size).unwrap();
    let mut several = 0;
    for (counter, answers) in (0..).map(OrderCounter).zip(all) {
        let trajectories: Vec<_> = answers.into_iter().map(LocalAnswer::trajectory).collect();
        let Some(talker) = trajectories.iter().position(|t| !t.turns.is_empty()) else { continue };
        several += 1;
        let (run, node) = (workload.run, PublicKey::from_bytes([7; 32]));
        let honest = TrajectoryGroup {
            run,
            lease: LeaseId(0),
            counter,
            node,
            trajectories,
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        };
        audit.check(&honest).unwrap();
        let mut lie = honest.clone();
        *lie.trajectories[talker].logprobs.last_mut().unwrap() -= 0.5;
        assert!(refused(&audit, &lie), "a made-up number in the last turn");
    }
    // A random policy says a number, and nothing else, in about one of 400 turns.
    assert!(several > 0);
}

#[test]
fn what_was_not_drawn_as_the_order_says_is_refused() {
    let (audit, policies) = court();
    let honest = group(&audit, 0, &policies);
    let changed = |change: fn(&mut TrajectoryGroup)| {
        let mut group = honest.clone();
        change(&mut group);
        group
    };
    assert!(refused(&audit, &changed(|group| group.trajectories.rotate_left(1))), "samples in another order");
    assert!(refused(&audit, &changed(|group| group.counter = OrderCounter(1))), "another order's work");
    assert!(refused(&audit, &changed(|group| group.trajectories[2].logprobs[0] -= 0.5)), "a made-up number");
    assert!(
        refused(
            &audit,
            &changed(|group| {
                let first = &mut group.trajectories[1].response[0];
                *first = (*first + 20) % 64;
            })
        ),
        "an edited token"
    );
    let older_alone = [policies[0].clone(), policies[0].clone()];
    let mut older = group(&audit, 0, &older_alone);
    for trajectory in &mut older.trajectories {
        trajectory.versions = spans(trajectory.response.iter().map(|_| PolicyVersion(2)));
    }
    assert!(refused(&audit, &older), "an older policy passed off as the newer one");
}

#[test]
fn where_tokens_race_who_draws_by_intervals_is_refused() {
    let (audit, policies) = court_of(testing::racing());
    let by_intervals = |counter| {
        let asked = request(&audit, counter);
        let params = SamplingParams { rule: DrawRule::Intervals, ..asked.params };
        let asked = SampleRequest { params, ..asked };
        group_of(asked, PolicyTakeover::Recompute, &audit, counter, &policies)
    };
    for counter in 0..4 {
        assert_eq!(audit.check(&group(&audit, counter, &policies)), Ok(()), "{counter}");
        assert!(refused(&audit, &by_intervals(counter)), "{counter}");
    }
    // And the reverse, in a run of intervals.
    let (audit, policies) = court_of(testing::longer());
    let asked = request(&audit, 0);
    let params = SamplingParams { rule: DrawRule::Race, ..asked.params };
    let asked = SampleRequest { params, ..asked };
    assert!(refused(&audit, &group_of(asked, PolicyTakeover::Recompute, &audit, 0, &policies)));
}

fn named(precision: &str) -> PrecisionName {
    PrecisionName::try_from(precision.to_owned()).unwrap()
}

/// An audit that holds versions 0 and 2 and allows so many copies of one in int8, and
/// what generates under them in each precision. Their logits are far from each other, as
/// a trained model's are.
fn coarse_court(copies: usize) -> (SamplingAudit, impl Fn(Precision) -> [Arc<Policy>; 2]) {
    let (workload, _) = testing::longer();
    let model = workload.model.clone();
    let spread = ModelConfig { initializer_range: 0.3, ..model.clone() };
    let weights = [7, 8].map(|seed| Weights::random(&spread, seed));
    let copy = CpuBackend::copied_bytes(&model, weights[0].main_dtype(), Precision::Int8);
    let audit = SamplingAudit::new(Arc::new(workload), &std::env::temp_dir(), copies * copy);
    publish(&audit, 0, weights[0].clone());
    publish(&audit, 2, weights[1].clone());
    let load = move |precision| {
        [(0, 0), (2, 1)].map(|(version, at): (u64, usize)| {
            Arc::new(Policy::load_as(version, &model, &weights[at], precision).unwrap())
        })
    };
    (audit, load)
}

#[test]
fn groups_are_audited_in_what_they_declare() {
    let (audit, load) = coarse_court(4);
    for computed in Precision::ALL {
        for takeover in [PolicyTakeover::Recompute, PolicyTakeover::Keep] {
            let group = group_by(takeover, &audit, 0, &load(computed));
            for declared in Precision::ALL {
                let group = TrajectoryGroup { precision: named(declared.name()), ..group.clone() };
                if declared == computed {
                    assert_eq!(
                        (audit.check(&group), audit.glance(&group, 1)),
                        (Ok(()), Ok(())),
                        "{computed}"
                    );
                    continue;
                }
                if (computed, declared) == (Precision::F32, Precision::Bf16) {
                    // Finer than it says: as near to bf16 as another order of its sums, which is
                    // allowed for, may come.
                    continue;
                }
                let Err(refused) = audit.check(&group) else { panic!("{computed} as {declared}") };
                let Rejection::Refused(refusal) = refused else { panic!("{refused}") };
                assert_eq!(refusal.reason, RefuseReason::Sampling, "{computed} as {declared}");
                assert_ne!(refusal.fault, Fault::Innocent, "{computed} as {declared}");
            }
        }
    }
}

#[test]
fn what_nobody_can_audit_is_refused_without_blame() {
    // There is memory for one version's policy at a time.
    let (audit, load) = coarse_court(1);
    let in_int8 = |takeover| {
        let precision = named("int8");
        TrajectoryGroup { precision, ..group_by(takeover, &audit, 0, &load(Precision::Int8)) }
    };
    let anew = in_int8(PolicyTakeover::Recompute);
    audit.check(&anew).unwrap();
    let unknown = TrajectoryGroup { precision: named("fp8"), ..anew };
    let kept = in_int8(PolicyTakeover::Keep);
    for (group, why) in [(unknown, "fp8"), (kept, "in int8")] {
        let taken = audit.all_policies_of(&group).unwrap();
        let all = [audit.check(&group), audit.glance(&group, 1), audit.find(&group, &taken).map(drop)];
        for refused in all.map(Result::unwrap_err) {
            let Rejection::Refused(refusal) = refused else { panic!("{refused}") };
            assert_eq!((refusal.reason, refusal.fault), (RefuseReason::Sampling, Fault::Innocent));
            assert!(refusal.detail.contains("cannot be audited here"), "{refusal}");
            assert!(refusal.detail.contains(why), "{refusal}");
        }
    }
}

#[test]
fn caches_that_were_kept_are_kept_in_the_audit_too() {
    let (audit, policies) = court();
    let kept = group_by(PolicyTakeover::Keep, &audit, 0, &policies);
    assert_eq!(audit.check(&kept), Ok(()));
    let computed_anew = TrajectoryGroup { caches: Caches::Recomputed, ..kept.clone() };
    assert!(refused(&audit, &computed_anew), "kept caches passed off as computed anew");
    let honest = group(&audit, 0, &policies);
    assert!(refused(&audit, &TrajectoryGroup { caches: Caches::Kept, ..honest }), "and the reverse");
}

#[test]
fn a_glance_sees_one_trajectory_and_what_is_wrong_with_all() {
    let (audit, policies) = court();
    let honest = group(&audit, 0, &policies);
    let mut one = honest.clone();
    one.trajectories[2].logprobs[0] -= 0.5;
    let seen: Vec<bool> = (0..8).map(|draw| audit.glance(&one, draw).is_err()).collect();
    assert_eq!(seen, [false, false, true, false, false, false, true, false]);
    let mut all = honest.clone();
    all.trajectories.rotate_left(1);
    assert!((0..4).all(|draw| audit.glance(&honest, draw).is_ok() && audit.glance(&all, draw).is_err()));
}

#[test]
fn policies_that_nothing_is_admitted_under_are_let_go() {
    let (audit, policies) = court();
    let honest = group(&audit, 0, &policies);
    let mut lie = honest.clone();
    lie.trajectories[2].logprobs[0] -= 0.5;
    let taken = audit.all_policies_of(&honest).unwrap();
    let model = audit.workload.model.clone();
    let weights = Weights::random(&model, 9);
    for version in [4, 6, 8] {
        publish(&audit, version, weights.clone());
    }
    let held: Vec<u64> = audit.policies.lock().by_version.keys().map(|version| version.0).collect();
    assert_eq!(held, [6, 8], "S = 3");
    let refused = audit.check(&honest).unwrap_err();
    assert!(
        matches!(&refused, Rejection::Refused(refusal) if refusal.reason == RefuseReason::Stale),
        "{refused}"
    );
    assert!(audit.all_policies_of(&honest).is_none());
    // Whoever has taken them before can still tell.
    let fault = |group| audit.find(group, &taken).unwrap().fault;
    assert!(fault(&honest).is_none() && fault(&lie).is_some());
}

#[test]
fn a_version_is_believed_only_when_it_is_older_than_the_learner() {
    let (audit, policies) = court();
    let honest = group(&audit, 0, &policies);
    let resumed = SamplingAudit::new(audit.workload.clone(), &std::env::temp_dir(), usize::MAX);
    assert!(matches!(resumed.check(&honest), Err(Rejection::Retry(_))), "nothing is published yet");
    let model = resumed.workload.model.clone();
    publish(&resumed, 4, Weights::random(&model, 9));
    resumed.check(&honest).unwrap();
    assert!(resumed.all_policies_of(&honest).is_none(), "what passes unseen is not known");
    let mut ahead = honest;
    for trajectory in &mut ahead.trajectories {
        trajectory.versions = spans(trajectory.response.iter().map(|_| PolicyVersion(6)));
    }
    assert!(matches!(resumed.check(&ahead), Err(Rejection::Retry(_))), "it comes with the next publication");
}
