use super::*;
use crate::common::testing;
use crate::storage::{MemoryStore, ObjectStoreError, Store, Tree, WriteBatch};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::lease::{HeldOrder, Lease};
use std::collections::BTreeSet;

/// A store in memory with a disk that works only while nobody holds it.
#[derive(Default)]
struct Slow {
    memory: MemoryStore,
    disk: Mutex<()>,
}

impl Store for Slow {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Vec<u8>>, ObjectStoreError> {
        self.memory.get(tree, key)
    }

    fn visit_from(
        &self,
        tree: Tree,
        from: &[u8],
        each: &mut dyn FnMut(&[u8], Vec<u8>) -> bool,
    ) -> Result<(), ObjectStoreError> {
        self.memory.visit_from(tree, from, each)
    }

    fn apply(&self, batch: &WriteBatch) -> Result<(), ObjectStoreError> {
        self.memory.apply(batch)
    }

    fn flush(&self) -> Result<(), ObjectStoreError> {
        let _disk = self.disk.lock();
        self.memory.flush()
    }
}

fn node(number: u8) -> PublicKey {
    PublicKey::from_bytes([number; 32])
}

fn learner(store: Arc<Slow>) -> Arc<SharedState> {
    Arc::new(testing::shared_over(store, Arc::new(testing::workload().0), 1000))
}

fn wish(number: u8, installed: Option<PolicyVersion>, orders: u32) -> LeaseRequest {
    LeaseRequest { node: node(number), installed, orders, last: None }
}

/// The question of a node for `orders` orders, and where its answer comes.
fn question(number: u8, orders: u32) -> (Question, oneshot::Receiver<Granted>) {
    let (reply, answer) = oneshot::channel();
    (Question { wish: wish(number, Some(PolicyVersion(0)), orders), reply }, answer)
}

#[test]
fn all_that_wait_share_one_flush_and_what_a_failed_one_left_is_written_again() {
    let store = Arc::new(Slow::default());
    let shared = learner(store.clone());
    let ask = |numbers: std::ops::Range<u8>| -> (Vec<Question>, Vec<oneshot::Receiver<Granted>>) {
        numbers.map(|number| question(number, 3)).unzip()
    };
    // Written, and then the disk fails: nobody is told of a lease.
    store.memory.fail_after(Some(1));
    let (questions, answers) = ask(0..4);
    assert!(grant(&shared, questions).is_err());
    assert!(answers.into_iter().all(|mut answer| answer.try_recv().is_err()));
    // One write and one flush.
    store.memory.fail_after(Some(2));
    let (questions, answers) = ask(4..12);
    grant(&shared, questions).unwrap();
    let granted: Vec<Lease> =
        answers.into_iter().flat_map(|mut answer| answer.try_recv().unwrap().leases).collect();
    let orders: BTreeSet<_> = granted.iter().flat_map(Lease::orders).collect();
    assert_eq!((granted.len(), orders.len()), (8, 24), "no order twice");
    // All of it survives a crash, what the first flush was to write too.
    store.memory.crash(0);
    let again = learner(store);
    let leases = again.coordinator().state(PolicyVersion(0)).leases;
    assert_eq!((leases.leases.len(), leases.cursor.0), (12, 36));
    assert!(granted.iter().all(|lease| leases.leases.iter().any(|open| open.lease == *lease)));
}

#[test]
fn while_the_disk_works_the_coordinator_is_free_and_nobody_is_answered() {
    let store = Arc::new(Slow::default());
    let shared = learner(store.clone());
    let (sender, queue) = mpsc::channel(WRITER_QUEUE);
    let disk = store.disk.lock();
    let (asked, mut answer) = question(1, 5);
    assert!(sender.try_send(asked).is_ok());
    let writing = shared.clone();
    let writer = std::thread::spawn(move || write(&writing, queue));
    let is_granted = || {
        std::thread::sleep(Duration::from_millis(1));
        let coordinator = shared.coordinator.try_lock();
        coordinator.is_some_and(|coordinator| coordinator.state(PolicyVersion(0)).leases.cursor.0 == 5)
    };
    assert!((0..20_000).any(|_| is_granted()), "the coordinator is held while the disk works");
    assert!(answer.try_recv().is_err());
    drop(disk);
    drop(sender);
    writer.join().unwrap();
    assert_eq!(answer.try_recv().unwrap().leases.len(), 1);
}

#[test]
fn a_node_gets_its_leases_or_is_told_that_there_are_none() {
    let store = Arc::new(Slow::default());
    let granting = Granting::start(learner(store.clone()));
    let ask = |orders| granting.ask(wish(1, Some(PolicyVersion(0)), orders));
    assert_eq!(ask(7).unwrap().leases.iter().map(|lease| lease.count).sum::<u32>(), 7);
    assert_eq!(granting.ask(wish(2, None, 7)), Some(Granted::default()), "without a policy there is no work");
    store.memory.fail_after(Some(0));
    assert_eq!(granting.ask(wish(3, Some(PolicyVersion(0)), 7)), None);
    store.memory.fail_after(None);
    assert!(ask(7).is_some());
}

#[test]
fn what_was_answered_to_nobody_is_answered_again() {
    let shared = learner(Arc::default());
    let (asked, answer) = question(1, 3);
    drop(answer);
    grant(&shared, vec![asked]).unwrap();
    let (asked, mut answer) = question(1, 8);
    grant(&shared, vec![asked]).unwrap();
    let lost = answer.try_recv().unwrap().leases.remove(0);
    assert_eq!((lost.first.0, lost.count), (0, 3));
    // It has reached the node now.
    let last = lost.orders().last().map(|counter| HeldOrder { lease: lost.id, counter });
    let (reply, mut answer) = oneshot::channel();
    let wish = LeaseRequest { last, ..wish(1, Some(PolicyVersion(0)), 8) };
    grant(&shared, vec![Question { wish, reply }]).unwrap();
    let fresh = answer.try_recv().unwrap().leases.remove(0);
    assert_eq!((fresh.first.0, fresh.count), (3, 8));
}

#[test]
fn a_disk_that_takes_no_lease_ends_the_learner() {
    let store = Arc::new(Slow::default());
    let shared = learner(store.clone());
    assert!(
        shared.coordinator().batch(clock::now(), PolicyVersion(0)).unwrap().is_none(),
        "it waits for groups"
    );
    let (sender, queue) = mpsc::channel(WRITER_QUEUE);
    let (asked, answer) = question(1, 5);
    assert!(sender.try_send(asked).is_ok());
    drop(sender);
    store.memory.fail_after(Some(0));
    write(&shared, queue);
    assert!(answer.blocking_recv().is_err());
    store.memory.fail_after(None);
    assert!(
        shared.coordinator().batch(clock::now(), PolicyVersion(0)).is_err(),
        "groups come with leases alone"
    );
}
