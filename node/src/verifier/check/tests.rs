use super::*;
use crate::testing;
use echo_policy::engine::Generation;
use echo_protocol::charter::{Charter, Takeover};
use echo_protocol::identity::NodeKey;
use echo_protocol::lease::LeaseId;
use echo_protocol::order::OrderCounter;
use echo_protocol::precision::PrecisionName;
use echo_protocol::store::ChunkStore;
use echo_protocol::trajectory::{Trajectory, spans};
use echo_protocol::version::PolicyVersion;
use echo_sandbox::episode::Step;
use echo_sandbox::task::Response;

fn key() -> NodeKey {
    NodeKey::from_secret([5; 32])
}

/// Versions 1 and 2.
fn installed() -> Vec<Arc<Installed>> {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let load = |version| Arc::new(testing::installed(&store, version, &testing::workload()));
    vec![load(1), load(2)]
}

/// A group as an honest node makes it; the first token of each response under version 1, the rest under version 2.
fn honest(workload: &Workload, installed: &[Arc<Installed>], counter: u64) -> TrajectoryGroup {
    let (counter, tokenizer) = (OrderCounter(counter), &installed[0].tokenizer);
    let request = workload.request(counter, tokenizer).unwrap();
    let mut generation = Generation::start(installed[0].policy.clone(), vec![request]).unwrap();
    generation.step().unwrap();
    generation.install(installed[1].policy.clone()).unwrap();
    while !generation.step().unwrap() {}
    let trajectories = generation.into_completions().remove(0).into_iter().map(|completion| {
        let said = &completion.tokens[..completion.tokens.len() - usize::from(completion.stopped)];
        let text = tokenizer.decode(said, false).unwrap();
        let response = Response { text: &text, finished: completion.stopped };
        let step = workload.play(counter).unwrap().turn(&response, 0).unwrap();
        let Step::Over { verdict, finished } = step else { panic!("{step:?}") };
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
        precision: Default::default(),
        caches: Default::default(),
        recomputed: Vec::new(),
    }
}

fn opinion(workload: &Workload, installed: &[Arc<Installed>], group: &TrajectoryGroup) -> Opinion {
    let signed = Signed::sign(group, &key()).unwrap();
    let report = check(workload, installed, &signed.to_bytes()).unwrap();
    assert_eq!((report.run, report.group), (workload.run, signed.body_id()));
    report.opinion
}

/// What makes a lie of an honest group.
type Change = fn(&mut TrajectoryGroup);

#[test]
fn honest_groups_are_sound_and_lies_are_named() {
    let (workload, installed) = (testing::workload(), installed());
    for counter in 0..4 {
        let group = honest(&workload, &installed, counter);
        assert_eq!(opinion(&workload, &installed, &group), Opinion::Sound);
    }
    let group = honest(&workload, &installed, 0);
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
        let found = opinion(&workload, &installed, &group);
        assert!(matches!(&found, Opinion::Lie { reason, .. } if *reason == expected), "{case}: {found:?}");
    }
}

#[test]
fn what_nobody_can_audit_is_no_lie_where_the_charter_allows_it() {
    let installed = installed();
    let bf16 = PrecisionName::try_from("bf16".to_owned()).unwrap();
    let (run, mut charter) = Charter::open(&testing::charter()).unwrap();
    charter.precisions.push(bf16.clone());
    charter.takeover = Takeover::Keep;
    let (strict, open) = (testing::workload(), Workload::new(run, &charter).unwrap());
    let group = honest(&open, &installed, 0);
    assert_eq!(opinion(&open, &installed, &group), Opinion::Sound);
    let rounded = TrajectoryGroup { precision: bf16, ..group.clone() };
    let kept = TrajectoryGroup { caches: Caches::Kept, ..group };
    assert!(matches!(opinion(&open, &installed, &rounded), Opinion::Unable { .. }));
    // They were computed anew, which is another thing.
    let found = opinion(&open, &installed, &kept);
    assert!(matches!(found, Opinion::Lie { reason: RefuseReason::Sampling, .. }), "{found:?}");
    for declared in [rounded, kept] {
        let found = opinion(&strict, &installed, &declared);
        assert!(matches!(found, Opinion::Lie { reason: RefuseReason::Schema, .. }), "{found:?}");
    }
}

#[test]
fn what_cannot_be_checked_here_is_not_called_a_lie() {
    let (workload, installed) = (testing::workload(), installed());
    let group = honest(&workload, &installed, 0);
    // By so many times what an honest node may be off, in one token of all.
    let (tolerance, last) = (Tolerance::f32(workload.sampling().temperature), group.trajectories.len() - 1);
    for (off, certain) in [(0.4f32, true), (0.8, false), (1.5, false), (4.0, true)] {
        let mut group = group.clone();
        group.trajectories[last].logprobs[0] -= off * tolerance.max;
        let found = opinion(&workload, &installed, &group);
        assert_eq!(!matches!(found, Opinion::Unable { .. }), certain, "{off}: {found:?}");
    }
    // What is too close to tell in one trajectory hides no lie in another.
    let mut hidden = group.clone();
    hidden.trajectories[0].logprobs[0] -= 1.5 * tolerance.max;
    assert!(matches!(opinion(&workload, &installed, &hidden), Opinion::Unable { .. }));
    hidden.trajectories[last].logprobs[0] -= 0.5;
    let found = opinion(&workload, &installed, &hidden);
    assert!(matches!(found, Opinion::Lie { reason: RefuseReason::Sampling, .. }), "{found:?}");
    for held in [&installed[..1], &installed[..0]] {
        let found = opinion(&workload, held, &group);
        assert!(matches!(found, Opinion::Unable { .. }), "{found:?}");
    }
    assert!(check(&workload, &installed, b"no group").is_err());
}
