use super::*;
use crate::install;
use crate::orders::{OrderStock, order_queue};
use crate::testing;
use echo_protocol::lease::LeaseId;
use echo_protocol::order::OrderCounter;
use echo_protocol::signed::Signed;
use echo_protocol::store::ChunkStore;
use echo_protocol::time::UnixMillis;
use echo_protocol::trajectory::{Form, TrajectoryGroup};

struct Bench {
    _dir: tempfile::TempDir,
    store: ChunkStore,
    outbox: Outbox,
    stock: OrderStock,
    policy: watch::Sender<Option<Arc<Installed>>>,
    board: Arc<Board>,
    stop: CancellationToken,
    thread: thread::JoinHandle<Result<(), OutboxError>>,
}

fn key() -> NodeKey {
    NodeKey::from_secret([7; 32])
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let outbox = Outbox::open(&dir.path().join("outbox"), &testing::run_id()).unwrap();
    let (stock, orders) = order_queue(64);
    let (policy, installed) = watch::channel(None);
    let (board, stop) = (Arc::new(Board::default()), CancellationToken::new());
    let worker = Worker {
        workload: testing::workload(),
        key: Arc::new(key()),
        orders,
        batch: 4,
        policy: installed,
        outbox: outbox.clone(),
        board: board.clone(),
        stop: stop.clone(),
    };
    Bench { thread: worker.spawn().unwrap(), _dir: dir, store, outbox, stock, policy, board, stop }
}

impl Bench {
    fn install(&self, version: u64) {
        let manifest = testing::snapshot(&self.store, version);
        let installed = install::load(&self.store, &manifest, &testing::workload()).unwrap();
        self.policy.send_replace(Some(Arc::new(installed)));
    }

    fn order(&self, counter: u64, deadline: UnixMillis) {
        assert!(self.stock.add(LeasedOrder { lease: LeaseId(5), counter: OrderCounter(counter), deadline }));
    }

    /// Waits until the worker has finished this many groups.
    async fn wait_for(&self, groups: u64) {
        while self.board.facts(clock::now()).rollouts < groups * u64::from(testing::GROUP) {
            tokio::task::yield_now().await;
        }
    }

    fn end(self) {
        self.stop.cancel();
        self.thread.join().unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_become_signed_groups_that_the_learner_can_check() {
    let bench = bench();
    // Work that came before the policy waits for it.
    (10..16).for_each(|counter| bench.order(counter, UnixMillis(u64::MAX)));
    bench.install(3);
    bench.wait_for(6).await;

    let workload = testing::workload();
    let tokenizer = workload.tokenizer(&[]).unwrap();
    let form = Form { group_size: testing::GROUP, max_new_tokens: testing::RESPONSE, vocabulary: 64 };
    let mut responses = std::collections::BTreeSet::new();
    for counter in (10..16).map(OrderCounter) {
        let (_, bytes) = bench.outbox.first(|c| c != counter).unwrap().unwrap();
        let group: TrajectoryGroup = Signed::from_bytes(&bytes).unwrap().open_from(&key().public()).unwrap();
        group.check_form(&form).unwrap();
        assert_eq!((group.run, group.lease, group.counter), (testing::run_id(), LeaseId(5), counter));
        assert_eq!(group.oldest_version(), Some(echo_protocol::version::PolicyVersion(3)));
        for t in &group.trajectories {
            let worth = workload.judge(counter, &tokenizer, &t.response, t.stopped).unwrap();
            assert_eq!((worth.reward, &worth.omega), (t.reward, &t.omega));
            assert_eq!(t.stopped, t.response.last() == tokenizer.eos_id().as_ref());
            responses.insert(t.response.clone());
        }
    }
    assert!(responses.len() > 6, "the samples of a group differ");
    bench.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_whose_lease_is_over_or_whose_group_waits_are_not_begun() {
    let bench = bench();
    bench.outbox.push(&[(OrderCounter(2), vec![0])]).unwrap();
    bench.order(1, UnixMillis(1));
    bench.order(2, UnixMillis(u64::MAX));
    bench.order(3, UnixMillis(u64::MAX));
    bench.install(1);
    bench.wait_for(1).await;
    assert!(!bench.outbox.contains(OrderCounter(1)).unwrap());
    assert!(bench.outbox.contains(OrderCounter(3)).unwrap());
    assert_eq!(
        bench.outbox.first(|_| false).unwrap().unwrap().1,
        [0],
        "the waiting group is still the old one"
    );
    assert_eq!(bench.board.facts(clock::now()).rollouts, u64::from(testing::GROUP));
    bench.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_generated_while_the_outbox_is_full() {
    let bench = bench();
    let filling: Vec<_> =
        (1000..1000 + crate::outbox::MAX_OUTBOX_GROUPS).map(|n| (OrderCounter(n), vec![0])).collect();
    bench.outbox.push(&filling).unwrap();
    bench.order(1, UnixMillis(u64::MAX));
    bench.install(1);
    while bench.board.facts(clock::now()).state != State::OutboxFull {
        tokio::task::yield_now().await;
    }
    assert!(!bench.outbox.contains(OrderCounter(1)).unwrap());
    for counter in 1000..1004 {
        bench.outbox.settle(OrderCounter(counter)).unwrap();
    }
    let mut changes = bench.outbox.changes();
    while !bench.outbox.contains(OrderCounter(1)).unwrap() {
        changes.changed().await.unwrap();
    }
    bench.end();
}

#[test]
fn a_policy_that_arrives_in_the_midst_takes_over_and_the_spans_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let load = |version| {
        let manifest = testing::snapshot(&store, version);
        Arc::new(install::load(&store, &manifest, &testing::workload()).unwrap())
    };
    let (first, second) = (load(1), load(2));
    let workload = testing::workload();
    let mut batch = Batch::default();
    for counter in 0..8 {
        let order =
            LeasedOrder { lease: LeaseId(1), counter: OrderCounter(counter), deadline: UnixMillis(u64::MAX) };
        batch.add(order, &workload, &first.tokenizer).unwrap();
    }
    let mut generation = Generation::start(first.policy.clone(), batch.requests()).unwrap();
    assert!(!generation.step().unwrap() && !generation.step().unwrap());
    generation.swap(second.policy.clone()).unwrap();
    while !generation.step().unwrap() {}
    let groups = batch.groups(&workload, &key(), &second.tokenizer, generation.into_completions());
    let form = Form { group_size: testing::GROUP, max_new_tokens: testing::RESPONSE, vocabulary: 64 };
    let mut mixed = 0;
    for (_, bytes) in &groups {
        let group: TrajectoryGroup = Signed::from_bytes(bytes).unwrap().open().unwrap();
        group.check_form(&form).unwrap();
        for t in group.trajectories.iter().filter(|t| t.response.len() > 2) {
            let spans: Vec<_> = t.versions.iter().map(|span| (span.version.0, span.tokens)).collect();
            assert_eq!(spans, [(1, 2), (2, t.response.len() as u32 - 2)]);
            mixed += 1;
        }
    }
    assert!(mixed > 0);
}
