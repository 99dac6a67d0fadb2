use std::collections::BTreeSet;

use echo_protocol::run::charter::{Sampling, TaskSpec, TokenizerSpec};
use echo_protocol::snapshot::manifest::TensorType;
use echo_protocol::wire::codec;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::{Purpose, WorkOrder};
use echo_protocol::work::submission::{MAX_ANSWER_BYTES, Outcome};
use echo_protocol::work::trajectory::{MetaValue, Omega, Trajectory, VersionSpan, spans};
use echo_sandbox::task::TaskSeed;
use echo_sandbox::task::files::TaskFiles;

use super::*;
use crate::intake::buffer::BufferLimits;
use crate::intake::leases::LeaseConfig;
use crate::storage::MemoryStore;

mod frames;
mod leases_and_versions;
mod task_rules;

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
fn a_group_of_an_order_that_was_given_up_is_no_duplicate() {
    let mut world = World::new();
    let group = world.group(0);
    // To the book, what was given up is settled like what was delivered.
    world.book.delivered(group.counter);
    assert_eq!(reason(world.send(&group)), RefuseReason::Lease);
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
