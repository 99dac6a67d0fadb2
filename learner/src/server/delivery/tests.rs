use super::*;
use crate::common::testing;
use crate::common::workload::Workload;
use crate::reputation::{Decision, Owners, Subject};
use crate::server::verifiers::{Seat, hear};
use crate::training::local_rollouts::{LocalAnswer as Sampled, answers};
use crate::verification::panel::PanelConfig;
use crate::verification::republished::Republished;
use crate::verification::sampling_audit::SamplingAudit;
use echo_policy::audit::Tolerance;
use echo_policy::generation::Policy;
use echo_policy::model::weights::Weights;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::Signed;
use echo_protocol::work::lease::{Lease, LeaseId};
use echo_protocol::work::order::Purpose;
use echo_protocol::work::submission::{Outcome, RefuseReason};
use echo_protocol::work::trajectory::{Trajectory, VersionSpan};
use echo_protocol::work::verification::{Offer, Opinion, Report};

/// A verifier, and what is sent to it.
struct Verifier {
    key: NodeKey,
    seat: Seat,
    frames: mpsc::Receiver<Arc<Vec<u8>>>,
}

/// A learner that has published version 0, and a node.
struct World {
    shared: Arc<SharedState>,
    policy: Arc<Policy>,
    node: NodeKey,
    /// By how much a log-probability of a lie is off.
    off: f32,
}

impl World {
    fn new() -> Self {
        Self::of(testing::workload())
    }

    fn of((workload, weights): (Workload, Weights)) -> Self {
        let policy = Arc::new(Policy::load(0, &workload.model, &weights).unwrap());
        let published = VersionWeights::new(0, &workload.model, weights).unwrap();
        let workload = Arc::new(workload);
        let audit = SamplingAudit::new(workload.clone(), &std::env::temp_dir(), usize::MAX);
        audit.publish(published);
        let panel = PanelConfig { owners: Owners::Key, ..PanelConfig::default() };
        let shared = testing::shared(workload, 1000).audited(audit, panel);
        Self { shared: Arc::new(shared), policy, node: NodeKey::from_secret([2; 32]), off: 1.0 }
    }

    /// The honest group of an order.
    fn group(&self, lease: LeaseId, counter: OrderCounter) -> TrajectoryGroup {
        let workload = &self.shared.workload;
        let orders = [workload.order(Purpose::Train, counter.0)];
        let answers = answers(workload, self.policy.clone(), &orders, workload.charter.group_size).unwrap();
        let trajectories = answers.into_iter().flatten().map(Sampled::trajectory).collect();
        TrajectoryGroup {
            run: workload.run,
            lease,
            counter,
            node: self.node.public(),
            trajectories,
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        }
    }

    /// The frame of a group of order 0, and the group as it is when its tokens are looked at; if it
    /// is to be a lie, then one that a glance does not see.
    fn judged(&self, lie: bool) -> (Arc<Vec<u8>>, Admitted) {
        let honest = self.group(LeaseId(0), OrderCounter(0));
        let sizes = (0..).map(|n| self.off * (1.0 + n as f32 / 100.0));
        let mut lies = sizes.map(|size| {
            let mut group = honest.clone();
            group.trajectories[0].logprobs[0] -= size;
            group
        });
        let unseen = |group: &TrajectoryGroup| {
            let id = Signed::sign(group, &self.node).unwrap().body_id();
            let draw = reputation::glance(&self.shared.secret, id.as_bytes());
            !draw.is_multiple_of(group.trajectories.len() as u64)
        };
        let lie = lie.then(|| lies.find(unseen).unwrap());
        let group = lie.unwrap_or_else(|| honest.clone());
        let signed = Signed::sign(&group, &self.node).unwrap();
        let correct = vec![false; group.trajectories.len()];
        (Arc::new(signed.to_bytes()), Admitted { id: signed.body_id(), group, correct })
    }

    fn verifier(&self, number: u8) -> Verifier {
        let key = NodeKey::from_secret([number; 32]);
        let (sender, frames) = mpsc::channel(16);
        let seat = Seat::take(&self.shared, key.public(), None, sender).unwrap();
        seat.offer(&Offer { capacity: 4, held: vec![PolicyVersion(0)] });
        Verifier { key, seat, frames }
    }

    /// Asks three verifiers about a group, of which these vouch for it, and returns what becomes of it.
    async fn asked(&self, lie: bool, vouch: [bool; 3]) -> Result<Admitted, Answer> {
        self.asked_while(lie, vouch, || ()).await
    }

    /// The same where something happens before they answer.
    async fn asked_while(
        &self,
        lie: bool,
        vouch: [bool; 3],
        happens: impl FnOnce(),
    ) -> Result<Admitted, Answer> {
        let (frame, admitted) = self.judged(lie);
        let mut verifiers = [10, 11, 12].map(|number| self.verifier(number));
        let looked = look(&self.shared, admitted, &frame);
        let Ok(Looked::Asked(admitted, policies, glanced, ruling)) = looked else {
            panic!("nobody was asked")
        };
        happens();
        for (verifier, vouches) in verifiers.iter_mut().zip(vouch) {
            assert_eq!(verifier.frames.try_recv().unwrap(), frame);
            let opinion = if vouches { Opinion::Sound } else { Opinion::lie(RefuseReason::Sampling, "no") };
            let report = Report { run: self.shared.workload.run, group: admitted.id, opinion };
            let signed = Signed::sign(&report, &verifier.key).unwrap();
            hear(&self.shared, verifier.key.public(), &signed).unwrap();
        }
        let limit = RateLimit::new(4).of(self.node.public()).unwrap();
        let (shared, node) = (self.shared.clone(), self.node.public());
        let asked = PendingRuling { shared, node, limit, admitted, policies, glanced, ruling };
        let (writer, mut written) = mpsc::channel(1);
        let (reply, answer) = oneshot::channel();
        asked.decide(&writer, reply).await;
        match written.try_recv() {
            Ok((admitted, _)) => Ok(admitted),
            Err(_) => Err(answer.await.unwrap()),
        }
    }

    /// False verdicts that are held against each of the three.
    fn charged(&self) -> [u64; 3] {
        let coordinator = self.shared.coordinator();
        [10, 11, 12].map(|number| {
            let key = NodeKey::from_secret([number; 32]).public();
            let record = coordinator.record().peers().get(&key);
            record.map_or(0, |record| record.refused.get(&RefuseReason::FalseVerdict).copied().unwrap_or(0))
        })
    }
}

#[test]
fn newcomers_are_audited_in_full_and_the_known_as_their_record_says() {
    let world = World::new();
    let (shared, node) = (&world.shared, world.node.public());
    let leases = shared.coordinator().lease(clock::now(), node, Some(PolicyVersion(0)), 150).unwrap();
    let orders: Vec<_> =
        leases.iter().flat_map(|lease| lease.orders().map(|counter| (lease.id, counter))).collect();
    assert_eq!(orders.len(), 150);
    for (before, (lease, counter)) in (0..).zip(orders) {
        let frame = Signed::sign(&world.group(lease, counter), &world.node).unwrap().to_bytes();
        let looked = check(shared, &node, &Arc::new(frame));
        let Ok((Looked::Admitted(admitted), _)) = looked else { panic!("an honest group") };
        let looks = shared.coordinator().tally().looks;
        assert!(before >= 32 || (looks.audited, looks.skipped) == (before + 1, 0), "{looks:?}");
        let (replies, written) = shared.coordinator().admit(clock::now(), &shared.admission, vec![admitted]);
        let flushed = written.and_then(Unflushed::flush);
        let replies = shared.coordinator().acknowledge(replies, flushed);
        assert_eq!(replies[0].answer.outcome, Outcome::Accepted);
    }
    let looks = shared.coordinator().tally().looks;
    // In the mean 69 of the last 118.
    assert!((40..100).contains(&looks.skipped), "{looks:?}");
    assert_eq!(looks.audited + looks.skipped, 150);
}

#[test]
fn a_copy_of_what_is_judged_already_comes_again() {
    let world = World::new();
    let (shared, node) = (&world.shared, world.node.public());
    let leases = shared.coordinator().lease(clock::now(), node, Some(PolicyVersion(0)), 2).unwrap();
    let orders = leases.iter().flat_map(|lease| lease.orders().map(|counter| (lease.id, counter)));
    let frames: Vec<_> = orders
        .map(|(lease, counter)| Signed::sign(&world.group(lease, counter), &world.node).unwrap().to_bytes())
        .map(Arc::new)
        .collect();
    let Ok((_, judged)) = check(shared, &node, &frames[0]) else { panic!("an honest group") };
    let copy = check(shared, &node, &frames[0]).err().map(|answer| answer.outcome);
    assert_eq!(copy, Some(Outcome::Retry));
    assert_eq!(shared.coordinator().tally().looks.audited, 1, "nobody looked at the copy");
    assert!(check(shared, &node, &frames[1]).is_ok());
    drop(judged);
    assert!(check(shared, &node, &frames[0]).is_ok());
}

#[test]
fn who_is_heard_is_decided_from_the_beginning_of_a_frame() {
    let world = World::new();
    let (shared, node) = (&world.shared, world.node.public());
    // What follows the beginning is no group, and nobody sees that.
    let screened = |lease, counter| {
        let mut frame = Signed::sign(&world.group(lease, counter), &world.node).unwrap().to_bytes();
        frame.truncate(HEAD_BYTES);
        match screen(shared, &node, &frame).map_err(|answer| answer.outcome) {
            Err(Outcome::Refused { reason, .. }) => Some(reason),
            _ => None,
        }
    };
    assert_eq!(screened(LeaseId(0), OrderCounter(9)), Some(RefuseReason::Lease));
    let leases = shared.coordinator().lease(clock::now(), node, Some(PolicyVersion(0)), 1).unwrap();
    let held = leases.iter().flat_map(|lease| lease.orders().map(|counter| (lease.id, counter)));
    let (lease, counter) = held.last().unwrap();
    assert_eq!(screened(lease, counter), None);
    let ban = Decision::Ban("it lied".into());
    shared.coordinator().decide(clock::now(), Subject::Peer(node), &ban, 1);
    assert_eq!(screened(lease, counter), Some(RefuseReason::Banned));
}

/// What a node hears whose answers are made up: two tokens each, in such `turns`.
fn made_up(world: &World, (lease, counter): (LeaseId, OrderCounter), turns: &[u32]) -> Option<Outcome> {
    let (node, workload) = (world.node.public(), &world.shared.workload);
    let trajectory = Trajectory {
        response: vec![4, workload.end()],
        turns: turns.to_vec(),
        logprobs: vec![-1.0; 2],
        versions: vec![VersionSpan { version: PolicyVersion(0), tokens: 2 }],
        reward: 0.0,
        stopped: true,
        omega: Default::default(),
        raw_logprobs: Vec::new(),
    };
    let trajectories = vec![trajectory; workload.charter.group_size as usize];
    let group = TrajectoryGroup {
        run: workload.run,
        lease,
        counter,
        node,
        trajectories,
        precision: Default::default(),
        caches: Default::default(),
        recomputed: Vec::new(),
    };
    let frame = Signed::sign(&group, &world.node).unwrap().to_bytes();
    check(&world.shared, &node, &Arc::new(frame)).err().map(|answer| answer.outcome)
}

/// A problem whose author is wrong: whoever runs a program for it finds that it cannot be judged.
#[cfg(target_os = "linux")]
const BROKEN: &str = r#"{"task_id": "broken", "prompt": "def f():\n", "entry_point": "f", "canonical_solution": "    return 1\n", "test": "def check(candidate):\n    assert candidate() == 2\n"}"#;

#[cfg(target_os = "linux")]
#[test]
fn programs_are_run_only_when_the_policy_wrote_them() {
    let mut world = World::of(testing::programs(BROKEN));
    let node = world.node.public();
    let leases = world.shared.coordinator().lease(clock::now(), node, Some(PolicyVersion(0)), 2).unwrap();
    let orders: Vec<_> =
        leases.iter().flat_map(|lease| lease.orders().map(|counter| (lease.id, counter))).collect();
    // Where nobody looks, they are run.
    let audit = Arc::get_mut(&mut world.shared).unwrap().audit.take();
    assert_eq!(made_up(&world, orders[0], &[]), Some(Outcome::Retry));
    Arc::get_mut(&mut world.shared).unwrap().audit = audit;
    let refused = made_up(&world, orders[0], &[]);
    assert!(matches!(&refused, Some(Outcome::Refused { reason: RefuseReason::Sampling, .. })), "{refused:?}");
    // Nor are they run to find out what was heard in between.
    let turns = made_up(&world, orders[1], &[1, 1]);
    assert!(matches!(&turns, Some(Outcome::Refused { reason: RefuseReason::TaskRules, .. })), "{turns:?}");
}

#[test]
fn what_answers_to_a_prompt_without_tokens_is_refused_and_held_against_nobody() {
    let row = |n: u64| {
        let question = if n.is_multiple_of(2) { "É" } else { "1+" };
        format!("{{\"question\": \"{question}{n}\", \"answer\": \"{n}\"}}\n")
    };
    let rows: String = (0..16).map(row).collect();
    let mut world = World::of(testing::problems(&rows));
    let (node, workload) = (world.node.public(), world.shared.workload.clone());
    let leases = world.shared.coordinator().lease(clock::now(), node, Some(PolicyVersion(0)), 40).unwrap();
    let orders = leases.iter().flat_map(|lease| lease.orders().map(|counter| (lease.id, counter)));
    let (good, bad): (Vec<_>, Vec<_>) =
        orders.partition(|(_, counter)| workload.prompt(&workload.order(Purpose::Train, counter.0)).is_ok());
    let is_refused_for_its_order = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::Refused { reason: RefuseReason::TaskRules, detail }) if detail.contains("tokenizer"));
    let audited = made_up(&world, bad[0], &[]);
    assert!(is_refused_for_its_order(&audited), "{audited:?}");
    // Where nobody looks at tokens, it would kill the trainer.
    Arc::get_mut(&mut world.shared).unwrap().audit.take();
    let unaudited = made_up(&world, bad[1], &[]);
    assert!(is_refused_for_its_order(&unaudited), "{unaudited:?}");
    {
        let mut coordinator = world.shared.coordinator();
        assert_eq!(coordinator.record().peers().get(&node).map_or(0, |record| record.lies), 0);
        // They are given back, for others to give up.
        let other = NodeKey::from_secret([9; 32]).public();
        let again = coordinator.lease(clock::now(), other, Some(PolicyVersion(0)), 2).unwrap();
        let again: Vec<_> = again.iter().flat_map(Lease::orders).collect();
        assert_eq!(again, [bad[0].1, bad[1].1]);
    }
    let sound = made_up(&world, good[0], &[]);
    assert!(!is_refused_for_its_order(&sound), "{sound:?}");
}

/// A group as the policy draws it, which nobody has judged yet.
#[cfg(target_os = "linux")]
fn drawn(world: &World, lease: LeaseId, counter: OrderCounter) -> TrajectoryGroup {
    use crate::training::local_rollouts::AnswerError;
    use echo_policy::generation::Generation;
    use echo_sandbox::task::Verdict;

    let workload = &world.shared.workload;
    let order = workload.order(Purpose::Train, counter.0);
    let request = workload.request(&order, workload.charter.group_size).unwrap();
    let mut generation = Generation::start(world.policy.clone(), vec![request]).unwrap();
    while !generation.is_finished() {
        generation.step().unwrap();
        generation.converse(|_| Ok::<_, AnswerError>(None)).unwrap();
    }
    let completions = generation.into_completions().into_iter().flatten();
    let answers = completions.map(|completion| {
        let finished = completion.stopped;
        Sampled { completion, verdict: Verdict::right(), finished }
    });
    let trajectories = answers.map(Sampled::trajectory).collect();
    TrajectoryGroup {
        run: workload.run,
        lease,
        counter,
        node: world.node.public(),
        trajectories,
        precision: Default::default(),
        caches: Default::default(),
        recomputed: Vec::new(),
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_alone_cannot_be_judged_is_refused_without_blame() {
    let world = World::of(testing::programs(BROKEN));
    let (shared, node) = (&world.shared, world.node.public());
    let leases = shared.coordinator().lease(clock::now(), node, Some(PolicyVersion(0)), 400).unwrap();
    let orders = leases.iter().flat_map(|lease| lease.orders().map(|counter| (lease.id, counter)));
    let groups = orders.map(|(lease, counter)| drawn(&world, lease, counter));
    // A program that is cut is not run.
    let (programs, cut): (Vec<_>, Vec<_>) =
        groups.partition(|group| group.trajectories.iter().any(|trajectory| trajectory.stopped));
    let frame = |group: &TrajectoryGroup| Signed::sign(group, &world.node).unwrap().to_bytes();
    let sent = |group: &TrajectoryGroup| {
        let looked = check(shared, &node, &Arc::new(frame(group)));
        looked.map_err(|answer| answer.outcome)
    };
    let retried = |group| matches!(sent(group), Err(Outcome::Retry));
    // It may be the learner that cannot judge.
    assert!((0..3).all(|_| retried(&programs[0])));
    let Ok((Looked::Admitted(admitted), _)) = sent(&cut[0]) else { panic!("what is not run is judged") };
    let (replies, written) = shared.coordinator().admit(clock::now(), &shared.admission, vec![admitted]);
    let replies = shared.coordinator().acknowledge(replies, written.and_then(Unflushed::flush));
    assert_eq!(replies[0].answer.outcome, Outcome::Accepted);
    assert!(retried(&programs[1]), "this one for the first time");
    let refused = |group| match sent(group) {
        Err(Outcome::Refused { reason, .. }) => Some(reason),
        _ => None,
    };
    assert_eq!(refused(&programs[0]), Some(RefuseReason::TaskRules));
    assert_eq!(refused(&programs[0]), Some(RefuseReason::Lease), "it was given back");
    let lies = || shared.coordinator().record().peers()[&node].lies;
    assert_eq!(lies(), 0);

    // What the policy did not write is found out first, also where only a glance was due.
    let mut made_up = programs[1].clone();
    made_up.trajectories.iter_mut().for_each(|trajectory| trajectory.logprobs[0] -= 1.0);
    let bytes = frame(&made_up);
    let checked = shared.admission.precheck(&bytes, &node).unwrap();
    let found = reward(shared, checked, &bytes, false);
    let is_sampling = |refusal: &Refusal| refusal.reason == RefuseReason::Sampling;
    assert!(matches!(&found, Err(Rejection::Refused(refusal)) if is_sampling(refusal)), "{found:?}");
}

#[tokio::test]
async fn the_word_of_newcomers_is_looked_at_again() {
    let world = World::new();
    assert!(world.asked(false, [true; 3]).await.is_ok());
    let looks = world.shared.coordinator().tally().looks;
    assert_eq!((looks.settled, looks.overturned, looks.vouched), (1, 0, 0));
    assert_eq!(world.charged(), [0; 3]);
    // All of them collude.
    let refused = world.asked(true, [true; 3]).await.unwrap_err();
    assert!(
        matches!(&refused.outcome, Outcome::Refused { reason: RefuseReason::Sampling, .. }),
        "{refused:?}"
    );
    assert_eq!(world.charged(), [1; 3]);
    assert_eq!(world.shared.coordinator().tally().looks.overturned, 1);
}

#[tokio::test]
async fn disagreement_is_settled_by_the_learner_and_costs_the_liar() {
    let world = World::new();
    assert!(world.asked(false, [true, false, true]).await.is_ok());
    assert_eq!(world.charged(), [0, 1, 0]);
    assert!(world.asked(true, [true, true, false]).await.is_err());
    assert_eq!(world.charged(), [1, 2, 0]);
}

#[tokio::test]
async fn a_lie_is_one_though_its_version_is_let_go_before_verifiers_answer() {
    for lie in [true, false] {
        let world = World::new();
        let audit = world.shared.audit.as_ref().unwrap();
        let let_go = || {
            let model = &world.shared.workload.model;
            for version in [2, 4] {
                let weights = Weights::random(model, 9);
                audit.publish(VersionWeights::new(version, model, weights).unwrap());
            }
            let stale = audit.check(&world.group(LeaseId(0), OrderCounter(0))).unwrap_err();
            assert!(
                matches!(&stale, Rejection::Refused(refusal) if refusal.reason == RefuseReason::Stale),
                "{stale}"
            );
        };
        let decided = world.asked_while(lie, [true, true, false], let_go).await;
        // That the true one is too old is found where it is written.
        assert_eq!(decided.is_err(), lie);
        if let Err(answer) = decided {
            let reason = RefuseReason::Sampling;
            assert!(
                matches!(&answer.outcome, Outcome::Refused { reason: found, .. } if *found == reason),
                "{answer:?}"
            );
        }
        assert_eq!(world.charged(), if lie { [1, 1, 0] } else { [0, 0, 1] });
    }
}

#[tokio::test]
async fn what_is_too_close_to_tell_is_held_against_no_verifier() {
    let mut world = World::new();
    // Half as much again as an honest node may be off in one token.
    world.off = 1.5 * Tolerance::f32(1.0).max;
    let refused = world.asked(true, [true, false, true]).await.unwrap_err();
    assert!(
        matches!(&refused.outcome, Outcome::Refused { reason: RefuseReason::Sampling, .. }),
        "{refused:?}"
    );
    assert_eq!(world.charged(), [0; 3]);
    assert_eq!(world.shared.coordinator().tally().looks.settled, 0);
}

#[tokio::test]
async fn the_word_of_the_known_is_taken_but_for_spot_checks() {
    let world = World::new();
    for number in [10, 11, 12] {
        let key = NodeKey::from_secret([number; 32]).public();
        for _ in 0..3_200 {
            world.shared.coordinator().note_verdict(clock::now(), key, true);
        }
    }
    // The same group each time, so that the draw is the same: skipped or looked at, it gets in.
    assert!(world.asked(false, [true; 3]).await.is_ok());
    let looks = world.shared.coordinator().tally().looks;
    assert_eq!(looks.vouched + looks.settled, 1, "{looks:?}");
    // Who denounces is always looked at.
    assert!(world.asked(false, [true, true, false]).await.is_ok());
    assert_eq!(world.charged(), [0, 0, 1]);
}

#[test]
fn near_misses_of_a_group_count_once_however_often_it_comes() {
    let world = World::new();
    let (_, Admitted { id, group, .. }) = world.judged(false);
    let limits = Tolerance::f32(1.0).race;
    // A token that only just lost its race: no alarm by itself, and five of them are one.
    let seen = NearMisses::of(&[-0.9 * limits.most], &limits);
    for _ in 0..100 {
        assert!(remember(&world.shared, &group, &id, seen).is_ok());
    }
    let others = (0..8u8).map(|number| ContentId::of(&[number]));
    let is_refused = |id: &ContentId| remember(&world.shared, &group, id, seen).is_err();
    let refused: Vec<ContentId> = others.filter(is_refused).collect();
    assert!(!refused.is_empty(), "those of other groups add up");
    assert!(refused.iter().all(is_refused), "what was refused is so again");
    assert!(!is_refused(&id), "and what passed before the alarm passes again");
}

#[test]
fn newcomers_of_a_network_are_refused_together_and_without_blame() {
    let world = World::new();
    let (_, Admitted { group, .. }) = world.judged(false);
    let limits = Tolerance::f32(1.0).race;
    let seen = NearMisses::of(&[-0.9 * limits.most], &limits);
    let refused = (0..8u8).find_map(|number| {
        let node = testing::key(number.into());
        world.shared.coordinator().connected(node, testing::network(1));
        let group = TrajectoryGroup { node, ..group.clone() };
        remember(&world.shared, &group, &ContentId::of(&[number]), seen).err()
    });
    let Some(Rejection::Refused(refusal)) = refused else { panic!("{refused:?}") };
    assert_eq!((refusal.reason, refusal.fault), (RefuseReason::Sampling, Fault::Innocent));
}

#[test]
fn strangers_name_no_policy_that_is_gone() {
    let world = World::new();
    let (shared, node) = (&world.shared, world.node.public());
    let (audit, model) = (shared.audit.as_ref().unwrap(), &shared.workload.model);
    // The learner was started anew at version 2, and version 1 has no checkpoint.
    let resumed = VersionWeights::new(2, model, Weights::random(model, 9)).unwrap();
    audit.resume(PolicyVersion(2), Republished::default(), [resumed]);
    let mut group = world.group(LeaseId(0), OrderCounter(0));
    assert!(can_be_looked_at(shared, &group).is_ok(), "version 0 is here");
    let spans = group.trajectories.iter_mut().flat_map(|trajectory| &mut trajectory.versions);
    spans.for_each(|span| span.version = PolicyVersion(1));
    assert!(audit.check(&group).is_ok(), "nobody can look at it");
    let refused = can_be_looked_at(shared, &group).unwrap_err();
    assert_eq!((refused.reason, refused.fault), (RefuseReason::Stale, Fault::Innocent));
    shared.coordinator().decide(clock::now(), Subject::Peer(node), &Decision::Pardon, 1);
    assert!(can_be_looked_at(shared, &group).is_ok(), "who has a record is believed");
}

#[test]
fn without_verifiers_the_learner_looks_itself() {
    let world = World::new();
    let (frame, admitted) = world.judged(false);
    assert!(matches!(look(&world.shared, admitted, &frame), Ok(Looked::Admitted(_))));
    let (frame, lie) = world.judged(true);
    assert!(look(&world.shared, lie, &frame).is_err());
    assert_eq!(world.shared.coordinator().tally().looks.audited, 2);
    // Who has gone is not asked, and one that is there alone cannot vouch.
    let (one, other) = (world.verifier(10), world.verifier(11));
    drop(other.seat);
    let (frame, admitted) = world.judged(false);
    assert!(matches!(look(&world.shared, admitted, &frame), Ok(Looked::Admitted(_))));
    drop(one);
}

#[test]
fn who_only_offers_to_look_is_not_kept_for_it() {
    let world = World::new();
    let [idle, busy] = [11, 12].map(|number| world.verifier(number));
    assert_eq!(world.shared.verifiers.that_offered().len(), 2);
    assert_eq!(world.shared.verifiers_of_use(clock::now()), []);
    world.shared.note_verdicts(vec![(busy.key.public(), true)]);
    assert_eq!(world.shared.verifiers_of_use(clock::now()), [busy.key.public()]);
    drop(idle);
}
