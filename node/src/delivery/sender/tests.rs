use super::*;
use crate::testing;
use echo_protocol::net::{HostEvents, IncomingStreams};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::time::UnixMillis;
use std::collections::BTreeMap;

struct Fixture {
    _dir: tempfile::TempDir,
    _events: (HostEvents, HostEvents),
    node: Host,
    learner: Host,
    incoming: IncomingStreams,
    outbox: Outbox,
    node_state: Arc<NodeState>,
    delivery: tokio::task::JoinHandle<Result<Infallible, OutboxError>>,
}

/// A delivery with `groups` groups to deliver, and a learner that accepts its streams.
async fn fixture(secret: u8, groups: u64) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let (learner, learner_events) = testing::host(secret, Vec::new()).await;
    let (node, node_events) = testing::host(secret + 1, Vec::new()).await;
    node.dial(learner.peer_id(), learner.listen_addrs()).await.unwrap();
    let incoming = learner.accept(protocol_names::TRAJECTORIES).unwrap();
    let outbox = outbox(dir.path(), secret + 1);
    let work: Vec<_> = (0..groups).map(|n| (OrderCounter(n), n.to_be_bytes().to_vec())).collect();
    outbox.push(&work).unwrap();
    let node_state = Arc::new(NodeState::default());
    let delivery = Delivery {
        host: node.clone(),
        learner: learner.peer_id(),
        outbox: outbox.clone(),
        node_state: node_state.clone(),
        ledger: Mutex::new(ledger(dir.path(), secret + 1)),
        complaints: complaints(),
    };
    let delivery = tokio::spawn(delivery.run());
    Fixture {
        _dir: dir,
        _events: (learner_events, node_events),
        node,
        learner,
        incoming,
        outbox,
        node_state,
        delivery,
    }
}

fn outbox(dir: &std::path::Path, secret: u8) -> Outbox {
    let me = NodeKey::from_secret([secret; 32]).public();
    Outbox::open(&dir.join("outbox"), &testing::run_id(), &me).unwrap()
}

fn ledger(dir: &std::path::Path, secret: u8) -> Ledger {
    let me = NodeKey::from_secret([secret; 32]).public();
    Ledger::open(&dir.join("receipts"), &testing::charter(), me).unwrap()
}

impl Fixture {
    async fn stream(&mut self) -> Stream {
        self.incoming.next().await.unwrap().1
    }

    async fn until_empty(&self) {
        let mut changes = self.outbox.changes();
        while !self.outbox.is_empty() {
            changes.changed().await.unwrap();
        }
    }

    async fn end(self) {
        self.delivery.abort();
        self.node.shutdown().await;
        self.learner.shutdown().await;
    }
}

async fn receive(stream: &mut Stream) -> OrderCounter {
    let frame = read_frame(stream, MAX_ENTRY_BYTES).await.unwrap().unwrap();
    OrderCounter(u64::from_be_bytes(frame.try_into().unwrap()))
}

async fn answer(stream: &mut Stream, counter: Option<OrderCounter>, outcome: Outcome) {
    say(stream, Answer::new(counter, outcome)).await;
}

async fn say(stream: &mut Stream, answer: Answer) {
    let bytes = codec::encode(&answer, MAX_ANSWER_BYTES).unwrap();
    write_frame(stream, &bytes, MAX_ANSWER_BYTES).await.unwrap();
}

fn refused(reason: RefuseReason) -> Outcome {
    Outcome::Refused { reason, detail: "so it is".into() }
}

#[tokio::test]
async fn answers_that_were_lost_make_the_groups_come_again_and_duplicates_settle_them() {
    let logged = testing::logged();
    let mut fixture = fixture(10, 40).await;
    // The learner takes everything that comes, answers a few and dies.
    let mut stream = fixture.stream().await;
    let mut seen: BTreeMap<u64, u32> = BTreeMap::new();
    for n in 0..WINDOW {
        let counter = receive(&mut stream).await;
        *seen.entry(counter.0).or_default() += 1;
        if n < 5 {
            answer(&mut stream, Some(counter), Outcome::Accepted).await;
        }
    }
    while fixture.outbox.len() > 35 {
        tokio::task::yield_now().await;
    }
    drop(stream);

    let mut stream = fixture.stream().await;
    for _ in 0..35 {
        let counter = receive(&mut stream).await;
        let times = seen.entry(counter.0).or_default();
        *times += 1;
        let outcome = if *times > 1 { refused(RefuseReason::Duplicate) } else { Outcome::Accepted };
        answer(&mut stream, Some(counter), outcome).await;
    }
    fixture.until_empty().await;
    assert!(seen.keys().copied().eq(0..40), "{seen:?}");
    let facts = fixture.node_state.facts(UnixMillis(0));
    assert_eq!(facts.accepted + facts.refused["duplicate"], 40);
    assert!(facts.refused["duplicate"] >= 11, "{facts:?}");
    assert!(logged.lines("the learner refused a group").is_empty(), "that is as it should be");
    assert_eq!(logged.lines("the learner has a group already").len(), 1, "one line stands for all");
    fixture.end().await;
}

#[tokio::test]
async fn a_learner_that_takes_no_groups_is_named_once() {
    let logged = testing::logged();
    let dir = tempfile::tempdir().unwrap();
    let (node, _n) = testing::host(71, Vec::new()).await;
    let outbox = outbox(dir.path(), 71);
    outbox.push(&[(OrderCounter(0), vec![0])]).unwrap();
    let delivery = Delivery {
        host: node.clone(),
        // Nobody has this key.
        learner: echo_protocol::net::peer_id_of([70; 32]),
        outbox,
        node_state: Arc::default(),
        ledger: Mutex::new(ledger(dir.path(), 71)),
        complaints: complaints(),
    };
    let delivered = tokio::time::timeout(Duration::from_secs(3), delivery.run()).await;
    assert!(delivered.is_err(), "it tries on");
    let paused = logged.lines("delivery is paused");
    assert_eq!(paused.len(), 1, "{paused:?}");
    node.shutdown().await;
}

#[tokio::test]
async fn never_more_than_the_window_is_under_way() {
    let mut fixture = fixture(20, 40).await;
    let mut stream = fixture.stream().await;
    let mut held = Vec::new();
    for _ in 0..WINDOW {
        held.push(receive(&mut stream).await);
    }
    let more = tokio::time::timeout(Duration::from_millis(200), receive(&mut stream)).await;
    assert!(more.is_err(), "a group beyond the window came: {more:?}");
    fixture.end().await;
}

#[tokio::test]
async fn a_refused_group_leaves_and_an_undecided_one_comes_again() {
    let mut fixture = fixture(30, 2).await;
    let mut stream = fixture.stream().await;
    let (first, second) = (receive(&mut stream).await, receive(&mut stream).await);
    answer(&mut stream, Some(first), Outcome::Retry).await;
    answer(&mut stream, Some(second), refused(RefuseReason::Stale)).await;
    assert_eq!(receive(&mut stream).await, first);
    answer(&mut stream, Some(first), Outcome::Accepted).await;
    // Nobody asked about this one.
    answer(&mut stream, Some(OrderCounter(77)), Outcome::Accepted).await;
    fixture.until_empty().await;
    let facts = fixture.node_state.facts(UnixMillis(0));
    assert_eq!((facts.accepted, facts.refused["stale"]), (1, 1));
    let waited = Duration::from_secs_f64(facts.waited_s);
    assert!(
        (RETRY_PAUSE..Duration::from_secs(60)).contains(&waited),
        "from its first sending on: {waited:?}"
    );
    fixture.end().await;
}

#[tokio::test]
async fn a_group_that_the_learner_cannot_even_name_is_found_by_sending_one_by_one() {
    let mut fixture = fixture(40, 3).await;
    let mut stream = fixture.stream().await;
    for _ in 0..3 {
        receive(&mut stream).await;
    }
    answer(&mut stream, None, refused(RefuseReason::Malformed)).await;
    let mut stream = fixture.stream().await;
    assert_eq!(receive(&mut stream).await, OrderCounter(0));
    answer(&mut stream, None, refused(RefuseReason::Malformed)).await;
    for expected in [1, 2] {
        let counter = receive(&mut stream).await;
        assert_eq!(counter, OrderCounter(expected));
        answer(&mut stream, Some(counter), Outcome::Accepted).await;
    }
    fixture.until_empty().await;
    let facts = fixture.node_state.facts(UnixMillis(0));
    assert_eq!((facts.accepted, facts.refused["malformed"]), (2, 1));
    fixture.end().await;
}

#[tokio::test]
async fn an_answer_longer_than_any_answer_ends_the_stream_and_loses_nothing() {
    let mut fixture = fixture(50, 1).await;
    let mut stream = fixture.stream().await;
    receive(&mut stream).await;
    write_frame(&mut stream, &[0; MAX_ANSWER_BYTES + 1], 1 << 20).await.unwrap();
    let mut stream = fixture.stream().await;
    let counter = receive(&mut stream).await;
    answer(&mut stream, Some(counter), Outcome::Accepted).await;
    fixture.until_empty().await;
    fixture.end().await;
}

#[tokio::test]
async fn receipts_are_kept_with_the_answer_and_with_the_answer_to_a_copy() {
    let mut fixture = fixture(60, 3).await;
    let mut stream = fixture.stream().await;
    let me = NodeKey::from_secret([61; 32]).public();
    for sequence in 0..3 {
        let counter = receive(&mut stream).await;
        let receipt = Receipt {
            run: testing::run_id(),
            node: me,
            sequence,
            counter,
            group: ContentId::of(b"the groups of this lab are none"),
            oldest: PolicyVersion(0),
            newest: PolicyVersion(0),
            trajectories: 4,
            rewards: 1.0,
            at: UnixMillis(1),
        };
        let receipt = Some(Box::new(Signed::sign(&receipt, &testing::learner_key()).unwrap()));
        let outcome = if sequence == 1 { refused(RefuseReason::Duplicate) } else { Outcome::Accepted };
        say(&mut stream, Answer { receipt, ..Answer::new(Some(counter), outcome) }).await;
    }
    fixture.until_empty().await;
    let shown = crate::delivery::receipts::show::all(&fixture._dir.path().join("receipts"), me).unwrap();
    assert_eq!((shown[0].proof.account.groups(), shown[0].proof.account.wrong), (3, 0));
    assert_eq!(shown[0].refused["duplicate"].groups, 1);
    fixture.end().await;
}
