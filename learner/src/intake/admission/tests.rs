use std::collections::BTreeSet;

use echo_protocol::run::charter::{Sampling, TaskSpec, TokenizerSpec};
use echo_protocol::snapshot::manifest::TensorType;
use echo_protocol::wire::codec;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::Signable;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::{Purpose, WorkOrder};
use echo_protocol::work::submission::{MAX_ANSWER_BYTES, Outcome};
use echo_protocol::work::trajectory::{MetaValue, Omega, Trajectory, VersionSpan, spans};
use echo_sandbox::task::TaskSeed;
use echo_sandbox::task::files::TaskFiles;
use serde::{Deserialize, Serialize};

use super::*;
use crate::intake::buffer::BufferLimits;
use crate::intake::leases::LeaseConfig;
use crate::storage::MemoryStore;

const G: usize = 4;
const LONGEST: usize = 5;
const END: u32 = 10;

/// Digits are their own ids; 11 is a token that is no text.
struct Digits;

impl TextDecoder for Digits {
    fn decode(&self, ids: &[u32]) -> Result<String, String> {
        let digit = |id: &u32| char::from_digit(*id, 10).ok_or_else(|| format!("id {id} has no text"));
        ids.iter().map(digit).collect()
    }
    fn is_end(&self, id: u32) -> bool {
        id == END
    }
    fn vocabulary(&self) -> u32 {
        12
    }
}

/// A learner at version 4 that has published 0, 2 and 4, and one node with a lease on orders 0 to 7.
struct World {
    learner: NodeKey,
    node: NodeKey,
    run: RunId,
    admission: Admission,
    progress: Progress,
    book: LeaseBook,
    store: Arc<MemoryStore>,
    buffer: ReplayBuffer,
    tally: AdmissionTally,
}

/// A learner at a version that it has published.
fn at(version: u64) -> Progress {
    let version = PolicyVersion(version);
    Progress { current: version, newest_published: Some(version), between_periods: None }
}

fn mix_of(task: TaskSpec) -> Arc<TaskMix> {
    Arc::new(TaskMix::new(&[task], &TaskFiles::none()).unwrap())
}

fn charter(learner: &NodeKey, created: u64) -> Charter {
    Charter {
        name: "addition".into(),
        learner: learner.public(),
        created: UnixMillis(created),
        model: "{}".into(),
        tokenizer: TokenizerSpec::Characters { alphabet: String::new() },
        tasks: vec![TaskSpec::new("chain_sum")],
        group_size: G as u32,
        sampling: Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_new_tokens: LONGEST as u32,
            draw: Default::default(),
        },
        staleness: Staleness::new(3, None).unwrap(),
        snapshot_type: TensorType::F32,
        chunk_bytes: 16 << 10,
        precisions: vec![Default::default()],
        takeover: Default::default(),
        prompt: Default::default(),
    }
}

/// The versions of so many tokens: the first under version 2, the others under 4.
fn schedule(tokens: usize) -> Vec<VersionSpan> {
    spans([2, 4, 4, 4, 4][..tokens].iter().copied().map(PolicyVersion))
}

fn run_of(learner: &NodeKey, created: u64) -> RunId {
    RunId::of(&Signed::sign(&charter(learner, created), learner).unwrap())
}

impl World {
    fn new() -> Self {
        let learner = NodeKey::from_secret([1; 32]);
        let node = NodeKey::from_secret([2; 32]);
        let run = run_of(&learner, 1);
        let mut book = LeaseBook::new(LeaseConfig { run, lifetime_ms: 1_000, max_open_per_node: 100 });
        assert_eq!(book.grant(UnixMillis(0), node.public(), 8, 100)[0].id, LeaseId(0));
        let store = Arc::new(MemoryStore::default());
        Self {
            admission: Admission::new(
                run,
                &charter(&learner, 1),
                mix_of(TaskSpec::new("chain_sum")),
                Arc::new(Digits),
            ),
            progress: at(4),
            buffer: ReplayBuffer::open(store.clone(), BufferLimits::default()).unwrap(),
            tally: AdmissionTally::default(),
            learner,
            node,
            run,
            book,
            store,
        }
    }

    /// An honest group: right, wrong, cut, and right.
    fn group(&self, counter: u64) -> TrajectoryGroup {
        let right = self.solution(counter);
        let trajectory = |digits: &[u32], stopped: bool, reward: f32| {
            let mut response = digits.to_vec();
            response.extend(stopped.then_some(END));
            Trajectory {
                turns: Vec::new(),
                logprobs: vec![-0.5; response.len()],
                versions: schedule(response.len()),
                reward,
                stopped,
                omega: Omega::new(),
                response,
                raw_logprobs: Vec::new(),
            }
        };
        TrajectoryGroup {
            run: self.run,
            lease: LeaseId(0),
            counter: OrderCounter(counter),
            node: self.node.public(),
            trajectories: vec![
                trajectory(&right, true, 1.0),
                trajectory(&[1], true, 0.0),
                trajectory(&[1; LONGEST], false, 0.0),
                trajectory(&right, true, 1.0),
            ],
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        }
    }

    fn solution(&self, counter: u64) -> Vec<u32> {
        let order = WorkOrder::derive(&self.run, Purpose::Train, OrderCounter(counter));
        let task = self.admission.tasks.get(0, Purpose::Train).unwrap();
        task.solution(TaskSeed(order.prompt_seed())).chars().map(|c| c.to_digit(10).unwrap()).collect()
    }

    /// The whole way of one frame from the node.
    fn submit(&mut self, frame: &[u8]) -> Outcome {
        let answer = match self.admission.precheck(frame, &self.node.public()) {
            Err(refusal) => refusal.answer(),
            Ok(checked) => {
                let counter = checked.group().counter;
                self.decide(checked).unwrap_or_else(|rejection| rejection.answer(counter)).clone()
            }
        };
        let bytes = codec::encode(&answer, MAX_ANSWER_BYTES).unwrap();
        assert!(!bytes.is_empty());
        self.tally.record(&answer.outcome);
        answer.outcome
    }

    fn decide(&mut self, checked: Checked) -> Result<echo_protocol::work::submission::Answer, Rejection> {
        self.admission.screen(checked.group(), self.progress, &self.book, &self.buffer)?;
        let admitted = self.admission.judge(checked)?;
        let counter = self.admission.admit(admitted, self.progress, &self.book, &mut self.buffer)?;
        self.buffer.flush().map_err(|error| Rejection::retry(&error))?;
        self.book.delivered(counter);
        Ok(echo_protocol::work::submission::Answer::new(Some(counter), Outcome::Accepted))
    }

    fn send(&mut self, group: &TrajectoryGroup) -> Outcome {
        let frame = Signed::sign(group, &self.node).unwrap().to_bytes();
        self.submit(&frame)
    }

    /// An honest group after `lie`.
    fn lie(&mut self, lie: impl FnOnce(&mut TrajectoryGroup)) -> Outcome {
        let mut group = self.group(0);
        lie(&mut group);
        self.send(&group)
    }
}

fn reason(outcome: Outcome) -> RefuseReason {
    match outcome {
        Outcome::Refused { reason, .. } => reason,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn an_honest_group_is_accepted_and_its_metadata_are_the_learners() {
    let mut world = World::new();
    let mut group = world.group(3);
    group.trajectories[0].omega.insert("correct".into(), MetaValue::Text("very".into()));
    assert_eq!(world.send(&group), Outcome::Accepted);
    let batch =
        world.buffer.form_batch(PolicyVersion(4), &Staleness::new(3, None).unwrap(), 1).unwrap().unwrap();
    let stored = &batch[0];
    assert_eq!(stored.correct, [true, false, false, true]);
    assert_eq!(stored.group.trajectories[0].omega, Omega::new());
    let miss = |i: usize| stored.group.trajectories[i].omega["miss"].clone();
    assert_eq!(miss(1), MetaValue::Text("wrong_answer".into()));
    assert_eq!(miss(2), MetaValue::Text("cut".into()));
    let responses = |group: &TrajectoryGroup| -> Vec<Vec<u32>> {
        group.trajectories.iter().map(|t| t.response.clone()).collect()
    };
    assert_eq!(responses(&stored.group), responses(&group));
}

#[test]
fn a_frame_of_a_gigabyte_is_refused_before_it_is_read() {
    let mut world = World::new();
    let refused = world.admission.check_frame(1 << 30).unwrap_err();
    assert_eq!((refused.reason, refused.counter), (RefuseReason::FrameTooLarge, None));
    let longest = world.admission.longest_frame() as u64;
    assert!(longest < MAX_FRAME_BYTES as u64, "short responses need short frames");
    assert!(
        world.admission.check_frame(longest).is_ok() && world.admission.check_frame(longest + 1).is_err()
    );
    assert_eq!(reason(world.submit(&vec![0; MAX_FRAME_BYTES + 1])), RefuseReason::FrameTooLarge);
}

/// Nested arrays, as the body of a rightly signed message.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Nested(Vec<Nested>);

impl Signable for Nested {
    const CONTEXT: &'static str = TrajectoryGroup::CONTEXT;
    const MAX_BYTES: usize = TrajectoryGroup::MAX_BYTES;
}

#[test]
fn bytes_that_are_no_group_are_malformed() {
    let mut world = World::new();
    let mut deep = vec![0x81; 10_000];
    deep.push(0);
    let nested = (0..10_000).fold(Nested(Vec::new()), |inner, _| Nested(vec![inner]));
    let signed = Signed::sign(&nested, &world.node).unwrap().to_bytes();
    // Dropped layer by layer: dropping 10,000 at once would exhaust the test's own stack.
    let mut rest = nested;
    while let Some(inner) = rest.0.pop() {
        rest = inner;
    }
    for frame in [&deep[..], &signed, &[], &[0xff; 100], b"GET / HTTP/1.1\r\n"] {
        assert_eq!(reason(world.submit(frame)), RefuseReason::Malformed);
    }
    let honest = Signed::sign(&world.group(0), &world.node).unwrap().to_bytes();
    assert_eq!(reason(world.submit(&honest[..honest.len() - 1])), RefuseReason::Malformed);
}

#[test]
fn an_altered_response_or_a_forged_signature_is_noticed() {
    let mut world = World::new();
    let group = world.group(0);
    let frame = Signed::sign(&group, &world.node).unwrap().to_bytes();
    let body = codec::encode(&group, MAX_GROUP_BYTES).unwrap();
    let at = frame.windows(body.len()).position(|window| window == body).unwrap();
    // A token of the first response, one digit off.
    let name = b"hresponse";
    let token = at + body.windows(name.len()).position(|window| window == name).unwrap() + name.len() + 1;
    let mut altered = frame.clone();
    altered[token] ^= 1;
    assert!(codec::decode::<TrajectoryGroup>(&altered[at..at + body.len()], MAX_GROUP_BYTES).is_ok());
    assert_eq!(reason(world.submit(&altered)), RefuseReason::Signature);

    // Signed by somebody else, posing as the node.
    let thief = NodeKey::from_secret([9; 32]);
    let forged = Signed::sign(&group, &thief).unwrap().to_bytes();
    let replace = |bytes: &[u8], from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).rposition(|window| window == from).unwrap();
        [&bytes[..at], to, &bytes[at + from.len()..]].concat()
    };
    let forged = replace(&forged, thief.public().as_bytes(), world.node.public().as_bytes());
    assert_eq!(reason(world.submit(&forged)), RefuseReason::Signature);
}

#[test]
fn nobody_delivers_with_somebody_elses_key_or_name() {
    let mut world = World::new();
    let other = NodeKey::from_secret([3; 32]);
    // Somebody else's work, stolen and sent as it is.
    let mut theirs = world.group(0);
    theirs.node = other.public();
    let stolen = Signed::sign(&theirs, &other).unwrap().to_bytes();
    assert_eq!(reason(world.submit(&stolen)), RefuseReason::Identity);
    // One's own signature under another's name.
    assert_eq!(reason(world.send(&theirs)), RefuseReason::Identity);
}

#[test]
fn groups_of_another_run_are_refused() {
    let mut world = World::new();
    let other = run_of(&world.learner, 2);
    assert_eq!(reason(world.lie(|group| group.run = other)), RefuseReason::Run);
}

#[test]
fn contradictions_with_the_charter_are_refused() {
    let mut world = World::new();
    let lies: [fn(&mut TrajectoryGroup); 8] = [
        |group| group.trajectories[0].logprobs[0] = f32::NAN,
        |group| group.trajectories[0].logprobs[0] = 0.5,
        |group| drop(group.trajectories.pop()),
        |group| group.trajectories.push(group.trajectories[0].clone()),
        |group| group.trajectories[2].response.push(1),
        |group| group.trajectories[0].response[0] = 12,
        |group| group.trajectories[0].reward = f32::INFINITY,
        // The one response that it is better to have drawn under the older version alone.
        |group| group.trajectories[1].versions = spans([PolicyVersion(2); 2]),
    ];
    for (case, lie) in lies.into_iter().enumerate() {
        assert_eq!(reason(world.lie(lie)), RefuseReason::Schema, "case {case}");
    }
}

#[test]
fn what_is_not_taken_any_more_is_refused_without_blame_and_what_never_was_is_a_lie() {
    let world = World::new();
    let [bf16, int8] = ["bf16", "int8"].map(|name| PrecisionName::try_from(name.to_owned()).unwrap());
    let precisions = vec![PrecisionName::default(), bf16.clone(), int8.clone()];
    let charter = Charter { precisions, ..charter(&world.learner, 1) };
    let admission =
        || Admission::new(world.run, &charter, mix_of(TaskSpec::new("chain_sum")), Arc::new(Digits));
    let (all, fewer) = (admission(), admission().taking(&[PrecisionName::default(), bf16.clone()]));
    let refused = |admission: &Admission, precision: &PrecisionName| {
        let group = TrajectoryGroup { precision: precision.clone(), ..world.group(0) };
        let frame = Signed::sign(&group, &world.node).unwrap().to_bytes();
        admission.precheck(&frame, &world.node.public()).err()
    };
    assert_eq!((refused(&all, &bf16), refused(&all, &int8), refused(&fewer, &bf16)), (None, None, None));
    let honest = refused(&fewer, &int8).unwrap();
    assert_eq!((honest.reason, honest.fault), (RefuseReason::Schema, Fault::Innocent));
    assert!(honest.detail.contains("int8") && honest.counter == Some(OrderCounter(0)), "{honest}");
    let lie = refused(&world.admission, &int8).unwrap();
    assert_eq!((lie.reason, lie.fault), (RefuseReason::Schema, Fault::Lie));
    assert!(lie.detail.contains("int8") && lie.detail.contains("f32"), "{lie}");
}

#[test]
fn a_lease_that_the_node_does_not_hold_is_refused() {
    let mut world = World::new();
    let other = NodeKey::from_secret([3; 32]).public();
    let theirs = world.book.grant(UnixMillis(0), other, 2, 100)[0].clone();
    let own = world.group(theirs.first.0);
    assert_eq!(reason(world.send(&own)), RefuseReason::Lease, "an order outside its range");
    let posed = TrajectoryGroup { lease: theirs.id, ..own.clone() };
    assert_eq!(reason(world.send(&posed)), RefuseReason::Lease, "another node's lease");
    let invented = TrajectoryGroup { lease: LeaseId(77), counter: OrderCounter(0), ..own };
    assert_eq!(reason(world.send(&invented)), RefuseReason::Lease, "an invented lease");
}

#[test]
fn a_replay_is_a_duplicate_whatever_became_of_the_first() {
    let mut world = World::new();
    let group = world.group(0);
    assert_eq!(world.send(&group), Outcome::Accepted);
    assert_eq!(reason(world.send(&group)), RefuseReason::Duplicate);
    world.buffer.form_batch(PolicyVersion(4), &Staleness::new(3, None).unwrap(), 1).unwrap().unwrap();
    world.buffer.settle(PolicyVersion(5)).unwrap();
    assert_eq!(reason(world.send(&group)), RefuseReason::Duplicate, "after it was trained on");
    // The book alone recognises it too.
    world.buffer = ReplayBuffer::open(Arc::new(MemoryStore::default()), BufferLimits::default()).unwrap();
    assert_eq!(reason(world.send(&group)), RefuseReason::Duplicate);
}

#[test]
fn versions_that_do_not_exist_are_refused() {
    for version in [1, 3, 5, 6, u64::MAX] {
        let mut world = World::new();
        // Beside one that does.
        let of_two = [version.min(4), version.max(4)].map(PolicyVersion);
        let lie = |group: &mut TrajectoryGroup| {
            for t in &mut group.trajectories {
                t.versions = spans((0..t.response.len()).map(|at| of_two[at.min(1)]));
            }
        };
        assert_eq!(reason(world.lie(lie)), RefuseReason::UnknownVersion, "v{version}");
    }
    let mut world = World::new();
    world.progress.newest_published = None;
    assert_eq!(reason(world.lie(|_| {})), RefuseReason::UnknownVersion);
}

#[test]
fn what_a_run_that_had_ended_goes_on_from_is_published_too() {
    let mut world = World::new();
    let odd = |group: &mut TrajectoryGroup| {
        for t in &mut group.trajectories {
            t.versions = spans((0..t.response.len()).map(|_| PolicyVersion(3)));
        }
    };
    world.progress = at(5);
    assert_eq!(reason(world.lie(odd)), RefuseReason::UnknownVersion);
    world.progress.between_periods = Some(PolicyVersion(3));
    assert_eq!(world.lie(odd), Outcome::Accepted);
}

#[test]
fn one_token_that_is_too_old_makes_the_group_stale() {
    let mut world = World::new();
    world.progress = Progress { current: PolicyVersion(5), ..at(4) };
    assert_eq!(world.lie(|_| {}), Outcome::Accepted, "v2 at v5 is just fresh enough");
    world.progress.current = PolicyVersion(6);
    let group = world.group(1);
    assert_eq!(reason(world.send(&group)), RefuseReason::Stale);
}

#[test]
fn staleness_on_purpose_is_a_lie_and_being_slow_is_none() {
    let mut world = World::new();
    world.book.at(PolicyVersion(9));
    world.progress = at(9);
    let fresh = world.book.grant(UnixMillis(0), world.node.public(), 1, 100)[0].first.0;
    let verdict = |world: &World, counter| {
        let group = world.group(counter);
        let screened = world.admission.screen(&group, world.progress, &world.book, &world.buffer);
        match screened {
            Err(Rejection::Refused(refusal)) => (refusal.reason, refusal.fault),
            other => panic!("{other:?}"),
        }
    };
    // Versions 2 and 4 were too old when this order was leased, whatever lease the group names.
    assert_eq!(verdict(&world, fresh), (RefuseReason::Stale, Fault::Lie));
    // The others were leased when the learner was at 0, or nobody knows where: their node was slow.
    assert_eq!(verdict(&world, 1), (RefuseReason::Stale, Fault::Innocent));
}

#[test]
fn who_is_heard_is_decided_from_the_head_of_a_frame() {
    let world = World::new();
    let (me, group) = (world.node.public(), world.group(0));
    let frame = Signed::sign(&group, &world.node).unwrap().to_bytes();
    let head = world.admission.read_head(&frame, &me).unwrap();
    assert_eq!(head, group.head());
    let look_up = |head: &echo_protocol::work::trajectory::GroupHead| {
        world.admission.check_lease(&head.node, head.lease, head.counter, &world.book, &world.buffer)
    };
    assert_eq!(look_up(&head), Ok(()));
    // An order that nobody leased, and somebody else's group: nothing behind the head is looked at.
    let unleased = Signed::sign(&world.group(99), &world.node).unwrap().to_bytes();
    let head = world.admission.read_head(&unleased, &me).unwrap();
    let refused = look_up(&head);
    assert!(
        matches!(&refused, Err(Rejection::Refused(refusal)) if refusal.reason == RefuseReason::Lease),
        "{refused:?}"
    );
    let other = NodeKey::from_secret([9; 32]);
    let foreign = world.admission.read_head(&frame, &other.public()).unwrap_err();
    assert_eq!(foreign.reason, RefuseReason::Identity);
    // A frame whose body is no group at all.
    let nonsense = world.admission.read_head(&frame[..40], &me).unwrap_err();
    assert_eq!(nonsense.reason, RefuseReason::Malformed);
}

#[test]
fn a_learner_that_fell_back_asks_for_patience() {
    let mut world = World::new();
    world.progress.current = PolicyVersion(3);
    assert_eq!(world.lie(|_| {}), Outcome::Retry);
    world.progress.current = PolicyVersion(4);
    assert_eq!(world.lie(|_| {}), Outcome::Accepted);
}

#[test]
fn wrong_termination_breaks_the_rules() {
    let mut world = World::new();
    let lies: [fn(&mut Trajectory); 6] = [
        |t| t.stopped = false,
        |t| *t.response.last_mut().unwrap() = 1,
        |t| t.response[0] = END,
        |t| t.response[0] = 11,
        |t| {
            // Cut before the longest length: an answer that its node did not like.
            t.response = vec![1];
            t.logprobs = vec![-0.5];
            t.versions = schedule(1);
            t.stopped = false;
            t.reward = 0.0;
        },
        |t| {
            // The end token at the very end of a response that claims to be cut.
            t.response = vec![1, 1, 1, 1, END];
            t.logprobs = vec![-0.5; LONGEST];
            t.versions = schedule(LONGEST);
            t.stopped = false;
            t.reward = 0.0;
        },
    ];
    for (case, lie) in lies.into_iter().enumerate() {
        let outcome = world.lie(|group| lie(&mut group.trajectories[0]));
        assert_eq!(reason(outcome), RefuseReason::TaskRules, "case {case}");
    }
}

#[test]
fn episodes_of_several_turns_are_played_again() {
    let mut world = World::new();
    let game = TaskSpec::new("guess_number").with("numbers", 3).with("turns", 2).with("largest", 9);
    world.admission = Admission::new(world.run, &charter(&world.learner, 1), mix_of(game), Arc::new(Digits));
    // Halving finds the number in two guesses, or in one.
    let order = WorkOrder::derive(&world.run, Purpose::Train, OrderCounter(0));
    let tasks = world.admission.tasks.clone();
    let assignment = echo_sandbox::rollout::assignment::Assignment::of(&tasks, &order);
    let mut play = assignment.play();
    let (mut response, mut turns) = (Vec::new(), Vec::new());
    loop {
        let text = play.suggestion();
        response.extend(text.chars().map(|c| c.to_digit(10).unwrap()).chain([END]));
        turns.push(2);
        let said = echo_sandbox::task::Response { text: &text, finished: true };
        if let echo_sandbox::task::episode::EpisodeStep::Over { .. } = play.turn(&said, 1).unwrap() {
            break;
        }
    }
    let trajectory = |response: &[u32], turns: Vec<u32>, stopped, reward| Trajectory {
        turns: echo_protocol::work::trajectory::turns(turns),
        logprobs: vec![-0.5; response.len()],
        versions: spans(response.iter().map(|_| PolicyVersion(4))),
        reward,
        stopped,
        omega: Omega::new(),
        response: response.to_vec(),
        raw_logprobs: Vec::new(),
    };
    let honest = TrajectoryGroup {
        trajectories: vec![
            trajectory(&response, turns, true, 1.0),
            trajectory(&[0, END, 0, END], vec![2, 2], true, 0.0),
            trajectory(&[0, END, 1, 1, 1], vec![2, 3], false, 0.0),
            // The last token that there is ends a turn, and another would follow.
            trajectory(&[0, 0, 0, 0, END], vec![5], true, 0.0),
        ],
        ..world.group(0)
    };
    assert_eq!(world.send(&honest), Outcome::Accepted, "0000 is no number, so it ends its episode");
    type Lie = fn(&mut Trajectory);
    let lies: [(Lie, RefuseReason); 6] = [
        (|t| t.turns = vec![], RefuseReason::TaskRules),
        (|t| t.turns = vec![1, 3], RefuseReason::TaskRules),
        (|t| t.turns = vec![4], RefuseReason::Schema),
        (|t| t.turns = vec![2, 3], RefuseReason::Schema),
        (|t| t.stopped = false, RefuseReason::TaskRules),
        (|t| t.reward = 1.0, RefuseReason::Reward),
    ];
    for (case, (lie, expected)) in lies.into_iter().enumerate() {
        let mut group = TrajectoryGroup { counter: OrderCounter(1), ..honest.clone() };
        group.trajectories = vec![honest.trajectories[1].clone(); G];
        lie(&mut group.trajectories[0]);
        assert_eq!(reason(world.send(&group)), expected, "case {case}");
    }
}

#[test]
fn a_reward_that_was_not_earned_is_refused_and_so_is_one_withheld() {
    let mut world = World::new();
    let lies: [(usize, f32); 4] = [(1, 1.0), (2, 1.0), (0, 0.0), (1, 1e-5)];
    for (position, claimed) in lies {
        let outcome = world.lie(|group| group.trajectories[position].reward = claimed);
        assert_eq!(reason(outcome), RefuseReason::Reward, "{position} claims {claimed}");
    }
    assert_eq!(world.lie(|group| group.trajectories[1].reward = 1e-7), Outcome::Accepted);
    let batch =
        world.buffer.form_batch(PolicyVersion(4), &Staleness::new(3, None).unwrap(), 1).unwrap().unwrap();
    assert_eq!(batch[0].group.trajectories[1].reward, 0.0, "what is trained on is the learner's own figure");
}

#[test]
fn a_full_disk_means_retry_and_the_same_group_is_accepted_later() {
    let mut world = World::new();
    world.store.fail_after(Some(0));
    assert_eq!(world.lie(|_| {}), Outcome::Retry);
    assert_eq!(world.lie(|_| {}), Outcome::Retry, "staged, and not durable");
    world.store.fail_after(None);
    world.buffer.flush().unwrap();
    assert_eq!(reason(world.lie(|_| {})), RefuseReason::Duplicate, "it got in when the disk was mended");
    assert_eq!((world.tally.accepted, world.tally.retried), (0, 2));
    assert_eq!(world.tally.refused_in_all(), 1);
}

#[test]
fn every_reason_is_counted_under_its_name() {
    let mut world = World::new();
    let mut seen = BTreeSet::new();
    for reason in RefuseReason::ALL {
        let outcome = Refusal::new(reason, "ü".repeat(MAX_DETAIL_BYTES)).of(OrderCounter(u64::MAX)).answer();
        // A detail of any length and any letters fits the answer's limit.
        assert!(codec::encode(&outcome, MAX_ANSWER_BYTES).is_ok());
        world.tally.record(&outcome.outcome);
        seen.insert(reason.name());
    }
    let json = serde_json::to_value(&world.tally).unwrap();
    assert!(seen.iter().all(|name| json["refused"][name] == 1), "{json}");
    assert_eq!(serde_json::from_value::<AdmissionTally>(json).unwrap(), world.tally);
}

#[test]
fn lies_about_leases_and_versions_are_told_from_being_late() {
    let mut world = World::new();
    let other = PublicKey::from_bytes([9; 32]);
    world.book.expire(UnixMillis(2_000));
    let theirs = world.book.grant(UnixMillis(2_000), other, 1, 100).remove(0);
    assert_eq!(theirs.first, OrderCounter(0));
    let fault = |change: &dyn Fn(&mut TrajectoryGroup)| {
        let mut group = world.group(0);
        change(&mut group);
        match world.admission.screen(&group, world.progress, &world.book, &world.buffer) {
            Err(Rejection::Refused(refusal)) => refusal.fault,
            other => panic!("{other:?}"),
        }
    };
    let under = |group: &mut TrajectoryGroup, version: u64| {
        group.counter = OrderCounter(1);
        group.trajectories[0].versions = spans(vec![PolicyVersion(version); 1]);
    };
    assert_eq!(fault(&|_| ()), Fault::Innocent, "it ran out, and somebody else has the order");
    assert_eq!(fault(&|group| under(group, 0)), Fault::Innocent, "too old");
    let lies: [&dyn Fn(&mut TrajectoryGroup); 5] = [
        &|group| group.lease = theirs.id,
        &|group| group.lease = LeaseId(7),
        &|group| group.counter = OrderCounter(100),
        &|group| under(group, 3),
        &|group| under(group, 6),
    ];
    assert_eq!(lies.map(fault), [Fault::Lie; 5]);
}
