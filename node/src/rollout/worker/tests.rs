mod devices;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::rollout::orders::{OrderStock, order_queue};
use crate::rollout::returns::{Returning, returns};
use crate::testing;
use crate::testing::card::{Call, card};
use crate::workload::NodeWorkloadError;
use echo_policy::generation::Device;
use echo_policy::model::precision::Precision;
use echo_protocol::run::charter::{Charter, Sampling, Takeover, TaskSpec, task_file_name};
use echo_protocol::run::precision::{Caches, PrecisionName};
use echo_protocol::store::ChunkStore;
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory::TrajectoryGroup;
use echo_sandbox::task::episode::EpisodeStep;
use echo_sandbox::task::files::TaskFiles;
use echo_sandbox::task::{Response, Verdict};
use parking_lot::Mutex;

/// All orders at once, so that they are in step.
const ALL: GenerationLimits =
    GenerationLimits { cache_bytes: usize::MAX, sequences: usize::MAX, prefill_tokens: usize::MAX };

struct Fixture {
    _dir: tempfile::TempDir,
    store: ChunkStore,
    outbox: Outbox,
    stock: OrderStock,
    policy: watch::Sender<Option<Arc<Installed>>>,
    fallback: Arc<DeviceFallback>,
    node_state: Arc<NodeState>,
    returning: Returning,
    stop: CancellationToken,
    ended: oneshot::Receiver<Result<(), OutboxError>>,
}

/// Generates until nothing is in flight, from token `at` on under another policy.
fn fly(flight: &mut OrdersInFlight<'_>, at: usize, second: &Arc<Installed>) -> Vec<(OrderCounter, Vec<u8>)> {
    let mut groups = Vec::new();
    for step in 0.. {
        if step == at {
            flight.install(second.clone()).unwrap();
        }
        flight.step(&second.tokenizer, || false).unwrap();
        groups.extend(flight.landed(&key()).into_iter().map(|(held, group)| (held.counter, group.unwrap())));
        if flight.is_empty() {
            assert!(step > at, "nothing was left for the second policy");
            break;
        }
    }
    groups
}

fn order(counter: u64) -> LeasedOrder {
    LeasedOrder { lease: LeaseId(1), counter: OrderCounter(counter), deadline: UnixMillis(u64::MAX) }
}

fn key() -> NodeKey {
    NodeKey::from_secret([7; 32])
}

fn fixture() -> Fixture {
    fixture_of(testing::workload())
}

fn fixture_of(workload: Arc<NodeWorkload>) -> Fixture {
    fixture_on(vec![Device::cpu()], workload)
}

fn fixture_on(devices: Vec<Device>, workload: Arc<NodeWorkload>) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let outbox = Outbox::open(&dir.path().join("outbox"), &testing::run_id(), &key().public()).unwrap();
    let (stock, orders) = order_queue(64);
    let (returns, returning) = returns();
    let (policy, installed) = watch::channel(None);
    let (node_state, stop) = (Arc::new(NodeState::default()), CancellationToken::new());
    let fallback = Arc::new(DeviceFallback::of(devices, node_state.clone()));
    let worker = RolloutWorker {
        workload,
        key: Arc::new(key()),
        orders,
        in_flight: 4,
        policy: installed,
        fallback: fallback.clone(),
        outbox: outbox.clone(),
        node_state: node_state.clone(),
        returns,
        stop: stop.clone(),
    };
    let ended = worker.spawn().unwrap();
    Fixture { _dir: dir, store, outbox, stock, policy, fallback, node_state, returning, stop, ended }
}

impl Fixture {
    fn install(&self, version: u64) {
        let installed = testing::installed_on(&self.fallback, &self.store, version, &testing::workload());
        self.policy.send_replace(Some(Arc::new(installed)));
    }

    fn order(&mut self, counter: u64, deadline: UnixMillis) {
        assert!(self.stock.add(LeasedOrder { lease: LeaseId(5), counter: OrderCounter(counter), deadline }));
    }

    /// Waits until the worker has finished this many groups.
    async fn wait_for(&self, groups: u64) {
        while self.node_state.facts(clock::now()).rollouts < groups * u64::from(testing::GROUP) {
            tokio::task::yield_now().await;
        }
    }

    /// The orders that were given back since the last call, and why.
    fn returned(&mut self) -> BTreeMap<u64, ReturnReason> {
        let returned = self.returning.taken().into_iter();
        returned
            .flat_map(|one| one.orders.into_iter().map(move |held| (held.counter.0, one.reason)))
            .collect()
    }

    async fn end(self) {
        self.stop.cancel();
        self.ended.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_become_signed_groups_that_the_learner_can_check() {
    let mut fixture = fixture();
    // Work that came before the policy waits for it.
    (10..16).for_each(|counter| fixture.order(counter, UnixMillis(u64::MAX)));
    fixture.install(3);
    fixture.wait_for(6).await;

    let workload = testing::workload();
    let tokenizer = workload.tokenizer(&[]).unwrap();
    let form = workload.form();
    let mut responses = std::collections::BTreeSet::new();
    for counter in (10..16).map(OrderCounter) {
        let (_, bytes) = fixture.outbox.first(|c| c != counter).unwrap().unwrap();
        let group: TrajectoryGroup = Signed::from_bytes(&bytes).unwrap().open_from(&key().public()).unwrap();
        group.check_form(form).unwrap();
        assert_eq!((group.run, group.lease, group.counter), (testing::run_id(), LeaseId(5), counter));
        assert_eq!(group.oldest_version(), Some(echo_protocol::run::version::PolicyVersion(3)));
        for t in &group.trajectories {
            let text =
                tokenizer.decode(&t.response[..t.response.len() - usize::from(t.stopped)], false).unwrap();
            let response = Response { text: &text, finished: t.stopped };
            let verdict = Verdict { reward: t.reward, correct: t.reward == 1.0, metadata: t.omega.clone() };
            let over = EpisodeStep::Over { verdict, finished: t.stopped };
            assert_eq!(workload.play(counter).unwrap().turn(&response, 0).unwrap(), over);
            assert!(t.turns.is_empty() && t.raw_logprobs.is_empty());
            assert_eq!(t.stopped, t.response.last() == tokenizer.eos_id().as_ref());
            responses.insert(t.response.clone());
        }
    }
    assert!(responses.len() > 6, "the samples of a group differ");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_whose_lease_is_over_or_whose_group_waits_are_not_begun() {
    let mut fixture = fixture();
    fixture.outbox.push(&[(OrderCounter(2), vec![0])]).unwrap();
    fixture.order(1, UnixMillis(1));
    fixture.order(2, UnixMillis(u64::MAX));
    fixture.order(3, UnixMillis(u64::MAX));
    fixture.install(1);
    fixture.wait_for(1).await;
    assert!(!fixture.outbox.contains(OrderCounter(1)).unwrap());
    assert!(fixture.outbox.contains(OrderCounter(3)).unwrap());
    assert_eq!(
        fixture.outbox.first(|_| false).unwrap().unwrap().1,
        [0],
        "the waiting group is still the old one"
    );
    assert_eq!(fixture.node_state.facts(clock::now()).rollouts, u64::from(testing::GROUP));
    assert_eq!(fixture.returned(), [(1, ReturnReason::Late)].into());
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_without_tokens_costs_its_own_order_alone() {
    let rows =
        "{\"question\": \"1+1?\", \"answer\": \"2\"}\n{\"question\": \"É?\", \"answer\": \"2\"}".as_bytes();
    let id = TaskFiles::none().add(rows);
    let workload = testing::workload_of(TaskSpec { data: Some(id), ..TaskSpec::new("math") });
    workload.build_tasks(&[(task_file_name(&id), rows.to_vec())]).unwrap();
    let tokenizer = workload.tokenizer(&[]).unwrap();
    let (good, poison): (Vec<u64>, Vec<u64>) =
        (0..16).partition(|counter| workload.request(OrderCounter(*counter), &tokenizer).is_ok());
    assert!(good.len() > 2 && poison.len() > 2, "{good:?}");
    let mut fixture = fixture_of(Arc::new(workload));
    // Some of these batches hold nothing else.
    poison.iter().copied().chain(0..16).for_each(|counter| fixture.order(counter, UnixMillis(u64::MAX)));
    fixture.install(1);
    fixture.wait_for(good.len() as u64).await;
    for counter in 0..16 {
        assert_eq!(fixture.outbox.contains(OrderCounter(counter)).unwrap(), good.contains(&counter));
    }
    assert_ne!(fixture.node_state.facts(clock::now()).state, NodeActivity::PolicyUnusable);
    assert_eq!(fixture.returned(), poison.iter().map(|counter| (*counter, ReturnReason::Undoable)).collect());
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_generated_while_the_outbox_is_full() {
    let mut fixture = fixture();
    let filling: Vec<_> = (1000..1000 + crate::delivery::outbox::MAX_OUTBOX_GROUPS)
        .map(|n| (OrderCounter(n), vec![0]))
        .collect();
    fixture.outbox.push(&filling).unwrap();
    fixture.order(1, UnixMillis(u64::MAX));
    fixture.install(1);
    while fixture.node_state.facts(clock::now()).state != NodeActivity::OutboxFull {
        tokio::task::yield_now().await;
    }
    assert!(!fixture.outbox.contains(OrderCounter(1)).unwrap());
    for counter in 1000..1004 {
        fixture.outbox.settle(OrderCounter(counter)).unwrap();
    }
    let mut changes = fixture.outbox.changes();
    while !fixture.outbox.contains(OrderCounter(1)).unwrap() {
        changes.changed().await.unwrap();
    }
    fixture.end().await;
}

/// A card that stops at its `nth` call, says so, and goes on when it is let.
fn held_at(nth: usize) -> (Device, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let ((reached, reaches), (lets, let_on)) = (mpsc::channel(), mpsc::channel());
    let (calls, let_on) = (AtomicUsize::new(0), Mutex::new(let_on));
    let device = card("Card", move |call| {
        if matches!(call, Call::Feed(_)) && calls.fetch_add(1, Relaxed) + 1 == nth {
            reached.send(()).unwrap();
            let_on.lock().recv().unwrap();
        }
        None
    });
    (device, reaches, lets)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_under_a_policy_that_was_withdrawn_goes_back() {
    let (device, reaches, lets) = held_at(1);
    let mut fixture = fixture_on(vec![device], testing::workload());
    (0..12).for_each(|counter| fixture.order(counter, UnixMillis(u64::MAX)));
    fixture.install(9);
    reaches.recv().unwrap();
    fixture.install(3);
    lets.send(()).unwrap();
    let mut returned = BTreeMap::new();
    let delivered =
        |fixture: &Fixture| (0..12).filter(|n| fixture.outbox.contains(OrderCounter(*n)).unwrap()).count();
    while returned.len() + delivered(&fixture) < 12 {
        returned.extend(fixture.returned());
        tokio::task::yield_now().await;
    }
    assert!(!returned.is_empty() && returned.values().all(|reason| *reason == ReturnReason::Dropped));
    for counter in (0..12).filter(|counter| !returned.contains_key(counter)) {
        assert_eq!(version_of(&fixture, counter), 3);
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_after_a_policy_was_withdrawn_is_begun_under_the_one_before() {
    let mut fixture = fixture();
    fixture.install(9);
    fixture.order(0, UnixMillis(u64::MAX));
    fixture.wait_for(1).await;
    while fixture.node_state.facts(clock::now()).state != NodeActivity::WaitingForWork {
        tokio::task::yield_now().await;
    }
    // The worker learns of it when there is work.
    fixture.install(3);
    fixture.order(1, UnixMillis(u64::MAX));
    fixture.wait_for(2).await;
    assert_eq!((version_of(&fixture, 0), version_of(&fixture, 1)), (9, 3));
    assert_eq!(fixture.returned(), BTreeMap::new());
    fixture.end().await;
}

#[test]
fn a_policy_that_arrives_in_the_midst_takes_over_and_the_spans_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let load = |version| Arc::new(testing::installed(&store, version, &testing::workload()));
    let (first, second) = (load(1), load(2));
    let workload = testing::workload();
    let mut flight = OrdersInFlight::new(&workload, first.clone(), ALL);
    (0..8).for_each(|counter| flight.begin(order(counter), &first.tokenizer).unwrap());
    let groups = fly(&mut flight, 2, &second);
    let form = workload.form();
    let mut mixed = 0;
    for (_, bytes) in &groups {
        let group: TrajectoryGroup = Signed::from_bytes(bytes).unwrap().open().unwrap();
        group.check_form(form).unwrap();
        for t in group.trajectories.iter().filter(|t| t.response.len() > 2) {
            let spans: Vec<_> = t.versions.iter().map(|span| (span.version.0, span.tokens)).collect();
            assert_eq!(spans, [(1, 2), (2, t.response.len() as u32 - 2)]);
            mixed += 1;
        }
    }
    assert!(mixed > 0);
}

/// What the run would ask for with another charter.
fn workload_with(change: impl FnOnce(&mut Charter)) -> NodeWorkload {
    let (run, mut charter) = Charter::open(&testing::charter()).unwrap();
    change(&mut charter);
    NodeWorkload::new(run, &charter).unwrap()
}

#[test]
fn both_log_probabilities_travel_where_they_differ() {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let workload = workload_with(|charter| {
        charter.sampling = Sampling { temperature: 0.5, ..charter.sampling };
    });
    let installed = Arc::new(testing::installed(&store, 1, &workload));
    let mut flight = OrdersInFlight::new(&workload, installed.clone(), ALL);
    flight.begin(order(1), &installed.tokenizer).unwrap();
    let groups = fly(&mut flight, 0, &installed);
    let group: TrajectoryGroup = Signed::from_bytes(&groups[0].1).unwrap().open().unwrap();
    group.check_form(workload.form()).unwrap();
    assert!(group.precision.is_default() && group.caches.is_default() && group.recomputed.is_empty());
    for t in &group.trajectories {
        assert_eq!(t.raw_logprobs.len(), t.response.len());
        assert_ne!(t.raw_logprobs, t.logprobs);
    }
}

#[test]
fn a_group_says_in_which_of_the_charters_precisions_it_was_computed() {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let names = ["int8", "bf16", "f32"];
    let workload = |wanted| {
        let list = names.map(|name| PrecisionName::try_from(name.to_owned()).unwrap());
        workload_with(|charter| charter.precisions = list.into()).computed_in(wanted)
    };
    for (wanted, name) in [(None, "int8"), (Some(Precision::Bf16), "bf16"), (Some(Precision::F32), "f32")] {
        let workload = workload(wanted).unwrap();
        let installed = Arc::new(testing::installed(&store, 1, &workload));
        let mut flight = OrdersInFlight::new(&workload, installed.clone(), ALL);
        flight.begin(order(1), &installed.tokenizer).unwrap();
        let group: TrajectoryGroup =
            Signed::from_bytes(&fly(&mut flight, 0, &installed)[0].1).unwrap().open().unwrap();
        group.check_form(workload.form()).unwrap();
        assert_eq!(group.precision.as_str(), name);
    }
    assert!(matches!(workload(Some(Precision::Int4)), Err(NodeWorkloadError::Precision(_))));
}

#[test]
fn a_newer_policy_takes_over_as_the_charter_wants_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    for takeover in [Takeover::Recompute, Takeover::Keep, Takeover::Wait] {
        let workload = workload_with(|charter| charter.takeover = takeover);
        let load = |version| Arc::new(testing::installed(&store, version, &workload));
        let (first, second) = (load(1), load(2));
        let mut flight = OrdersInFlight::new(&workload, first.clone(), ALL);
        (0..8).for_each(|counter| flight.begin(order(counter), &first.tokenizer).unwrap());
        let mut of_both = 0;
        for (_, bytes) in fly(&mut flight, 2, &second) {
            let group: TrajectoryGroup = Signed::from_bytes(&bytes).unwrap().open().unwrap();
            group.check_form(workload.form()).unwrap();
            let is_of_both = group.trajectories.iter().any(|t| t.versions.len() > 1);
            assert_eq!(group.caches == Caches::Kept, is_of_both && takeover == Takeover::Keep);
            of_both += usize::from(is_of_both);
        }
        assert_eq!(of_both > 0, takeover != Takeover::Wait, "{takeover:?}");
        // What begins when all are done begins under the second in any case.
        flight.begin(order(8), &second.tokenizer).unwrap();
        flight.step(&second.tokenizer, || false).unwrap();
        while !flight.is_empty() {
            for (_, group) in flight.landed(&key()) {
                let group: TrajectoryGroup = Signed::from_bytes(&group.unwrap()).unwrap().open().unwrap();
                assert_eq!(group.oldest_version().map(|version| version.0), Some(2));
            }
            flight.step(&second.tokenizer, || false).unwrap();
        }
    }
}

/// The groups of these orders by their counters.
fn groups(fixture: &Fixture, counters: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    let group = |counter: OrderCounter| fixture.outbox.first(|c| c != counter).unwrap().unwrap().1;
    counters.map(OrderCounter).map(group).collect()
}

/// The newest policy of this order's group.
fn version_of(fixture: &Fixture, counter: u64) -> u64 {
    let group: TrajectoryGroup =
        Signed::from_bytes(&groups(fixture, counter..counter + 1)[0]).unwrap().open().unwrap();
    group.newest_version().unwrap().0
}

#[test]
fn another_policy_waits_for_who_still_draws_from_the_one_before_and_not_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let workload = testing::workload();
    let load = |version| Arc::new(testing::installed(&store, version, &workload));
    let (first, second) = (load(1), load(2));
    // So little is computed anew in a step that several are needed.
    let mut flight =
        OrdersInFlight::new(&workload, first.clone(), GenerationLimits { prefill_tokens: 4, ..ALL });
    flight.begin(order(0), &first.tokenizer).unwrap();
    while flight.drawn() < 2 * u64::from(testing::GROUP) {
        flight.step(&first.tokenizer, || false).unwrap();
    }
    assert!(flight.is_settled(Duration::ZERO));
    flight.install(second.clone()).unwrap();
    let mut steps = 0;
    while !flight.is_settled(Duration::ZERO) {
        assert!(flight.is_settled(Duration::from_secs(10)));
        flight.step(&second.tokenizer, || false).unwrap();
        steps += 1;
    }
    assert!(steps > 1 && flight.landed(&key()).is_empty(), "{steps}");
}

#[test]
fn what_was_judged_before_the_node_stops_is_kept_and_nothing_else_is_judged() {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let workload = testing::workload();
    let installed = Arc::new(testing::installed(&store, 1, &workload));
    let mut flight = OrdersInFlight::new(&workload, installed.clone(), ALL);
    (0..2).for_each(|counter| flight.begin(order(counter), &installed.tokenizer).unwrap());
    let (mut asked, mut landed) = (0, Vec::new());
    while !flight.is_empty() {
        let stopped = || {
            asked += 1;
            // The last sample of one of the two groups is not judged.
            asked == 2 * testing::GROUP
        };
        flight.step(&installed.tokenizer, stopped).unwrap();
        landed.extend(flight.landed(&key()));
    }
    assert_eq!(asked, 2 * testing::GROUP, "it is asked before every judging");
    let whole: Vec<bool> = landed.iter().map(|(_, group)| group.is_ok()).collect();
    assert!(whole.len() == 2 && whole.contains(&true) && whole.contains(&false), "{whole:?}");
}

#[test]
fn orders_that_join_others_in_flight_come_to_the_same_groups() {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let workload = testing::workload();
    let installed = Arc::new(testing::installed(&store, 1, &workload));
    let mut together = OrdersInFlight::new(&workload, installed.clone(), ALL);
    (0..12).for_each(|counter| together.begin(order(counter), &installed.tokenizer).unwrap());
    let together: BTreeMap<_, _> = fly(&mut together, 0, &installed).into_iter().collect();

    let (mut joining, mut waiting) = (OrdersInFlight::new(&workload, installed.clone(), ALL), 0..12);
    let mut groups = BTreeMap::new();
    loop {
        // Four at most, one more with each token.
        if let Some(counter) = (joining.len() < 4).then(|| waiting.next()).flatten() {
            joining.begin(order(counter), &installed.tokenizer).unwrap();
        } else if joining.is_empty() {
            break;
        }
        joining.step(&installed.tokenizer, || false).unwrap();
        let landed = joining.landed(&key());
        groups.extend(landed.into_iter().map(|(held, group)| (held.counter, group.unwrap())));
    }
    assert_eq!(groups, together);
}

#[test]
fn episodes_of_several_turns_are_played_to_their_ends_under_two_policies() {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let load = |version| Arc::new(testing::installed(&store, version, &testing::workload()));
    let (first, second) = (load(1), load(2));
    let workload = testing::workload_of(TaskSpec::new("guess_number").with("largest", 20));
    let tokenizer = &first.tokenizer;
    let eos = tokenizer.eos_id().unwrap();
    let mut flight = OrdersInFlight::new(&workload, first.clone(), ALL);
    // A random policy says a number, and nothing else, in about one of 400 turns.
    (0..1000).for_each(|counter| flight.begin(order(counter), tokenizer).unwrap());
    let groups = fly(&mut flight, 3, &second);
    let form = workload.form();
    assert_eq!(groups.len(), 1000);
    let mut several = 0;
    for (counter, bytes) in &groups {
        let group: TrajectoryGroup = Signed::from_bytes(bytes).unwrap().open().unwrap();
        group.check_form(form).unwrap();
        for t in &group.trajectories {
            let of_first = t.token_versions().filter(|version| version.0 == 1).count();
            assert_eq!(of_first, t.response.len().min(3), "own tokens alone are counted");
            several += usize::from(!t.turns.is_empty());
            // Played again with the policy's words alone, it comes to the same end.
            let (mut play, mut end) = (workload.play(*counter).unwrap(), None);
            for turn in t.turn_ranges() {
                assert_eq!(end, None, "goes on behind its end");
                let left = testing::RESPONSE as usize - turn.end;
                let tokens = &t.response[turn];
                let finished = tokens.last() == Some(&eos);
                let text = tokenizer.decode(&tokens[..tokens.len() - usize::from(finished)], false).unwrap();
                if let EpisodeStep::Over { verdict, finished } =
                    play.turn(&Response { text: &text, finished }, left).unwrap()
                {
                    end = Some((verdict.reward, verdict.metadata, finished));
                }
            }
            assert_eq!(end, Some((t.reward, t.omega.clone(), t.stopped)));
        }
    }
    assert!(several > 0);
}
