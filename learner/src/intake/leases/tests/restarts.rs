//! What a restart finds: the journal, snapshots and epochs.

use echo_protocol::work::lease::ReturnReason;

use super::*;
use crate::storage::{Store, Tree};

#[test]
fn orders_that_are_idle_or_given_up_stay_so_after_a_restart() {
    let store = Arc::new(MemoryStore::default());
    let journal = LeaseJournal::new(store.clone());
    let (mut book, mut delivered) = (LeaseBook::new(config()), BTreeSet::new());
    // Of four orders the first is given up by and by, beside one that is out.
    let lease = book.grant(at(0), node(1), 4, 10).remove(0);
    let held = |counter| HeldOrder { lease: lease.id, counter: OrderCounter(counter) };
    assert!(book.take_back(&node(1), held(1), ReturnReason::Dropped));
    assert!(book.take_back(&node(1), held(0), ReturnReason::Undoable));
    for _ in 1..MAX_LEASES_OF_ORDER {
        let again = book.grant(at(0), node(2), 1, 10).remove(0);
        let held = HeldOrder { lease: again.id, counter: again.first };
        assert!(book.take_back(&node(2), held, ReturnReason::Undoable));
    }
    assert_eq!(book.take_given_up(), [OrderCounter(0)]);
    delivered.insert(3);
    book.delivered(OrderCounter(3));
    journal.save(&mut book).unwrap();
    for snapshot in [load(&store, &delivered).unwrap().unwrap(), book.snapshot()] {
        let restored = LeaseBook::restore(config(), snapshot, at(0)).unwrap();
        assert_eq!((restored.outstanding(), restored.idle(), restored.out_with(&node(1))), (1, 1, 1));
        let given_back = restored.check(&node(1), lease.id, OrderCounter(1));
        assert_eq!(given_back, Err(LeaseRefusal::Expired(OrderCounter(1))));
        assert_eq!(restored.check(&node(1), lease.id, OrderCounter(2)), Ok(()));
    }
    // Leased again, it is out, and delivered, nothing is left of it on disk.
    assert_eq!(ranges(&book.grant(at(0), node(2), 1, 10)), [(1, 1)]);
    journal.save(&mut book).unwrap();
    let snapshot = load(&store, &delivered).unwrap().unwrap();
    assert_eq!(LeaseBook::restore(config(), snapshot, at(0)).unwrap().outstanding(), 2);
    delivered.extend([1, 2]);
    (1..3).for_each(|counter| book.delivered(OrderCounter(counter)));
    journal.save(&mut book).unwrap();
    load(&store, &delivered).unwrap();
    let mut records = 0;
    store.visit(Tree::Resting, &mut |_, _| records += 1).unwrap();
    store.visit(Tree::Leases, &mut |_, _| records += 1).unwrap();
    assert_eq!(records, 0);
}

#[test]
fn leases_run_once_more_after_a_restart_whatever_its_clock_says() {
    let mut book = LeaseBook::new(config());
    let lease = book.grant(at(1_000_000), node(1), 2, 10).remove(0);
    let mut restored = LeaseBook::restore(config(), book.snapshot(), at(5)).unwrap();
    assert_eq!(restored.next_deadline(), Some(at(1_005)));
    assert_eq!(restored.lost(at(305), &node(1), None, 10), [Lease { lifetime_ms: 700, ..lease }]);
    assert_eq!(restored.expire(at(1_005)).len(), 2);
}

#[test]
fn leases_of_other_epochs_may_have_been_granted() {
    let mut book = LeaseBook::new(config());
    book.begin(Epoch(5));
    let lease = book.grant(at(0), node(1), 1, 10).remove(0);
    assert_eq!((lease.id, book.epoch()), (LeaseId::first_of(Epoch(5)), Epoch(5)));
    let never = LeaseId(lease.id.0 + 1);
    assert!(book.may_have_granted(lease.id) && !book.may_have_granted(never));
    // A directory that was restored from a backup does not know what it granted later, nor in which epochs.
    assert!(
        book.may_have_granted(LeaseId::first_of(Epoch(4)))
            && book.may_have_granted(LeaseId::first_of(Epoch(6)))
    );
    // Work under them is worth nothing, even where its order is out with the same node again.
    let lost = LeaseId::first_of(Epoch(4));
    assert_eq!(book.check(&node(1), lost, lease.first), Err(LeaseRefusal::NotFound(lost)));
    assert_eq!(book.check(&node(1), lease.id, lease.first), Ok(()));
}

#[test]
fn orders_below_every_lease_on_disk_are_settled() {
    let store = Arc::new(MemoryStore::default());
    let journal = LeaseJournal::new(store.clone());
    let mut book = LeaseBook::new(config());
    book.grant(at(0), node(1), 3, 10);
    book.grant(at(0), node(2), 2, 10);
    journal.save(&mut book).unwrap();
    (0..3).for_each(|counter| book.delivered(OrderCounter(counter)));
    assert_eq!(book.settled_below(), OrderCounter(0), "the disk has the first lease yet");
    journal.save(&mut book).unwrap();
    assert_eq!(book.settled_below(), OrderCounter(3));
    // An idle order is to be leased again.
    book.node_gone(&node(2));
    book.delivered(OrderCounter(4));
    journal.save(&mut book).unwrap();
    assert_eq!(book.settled_below(), OrderCounter(3));
    book.delivered(OrderCounter(3));
    journal.save(&mut book).unwrap();
    assert_eq!(book.settled_below(), book.cursor());
}

#[test]
fn snapshots_of_another_run_or_with_contradictions_are_refused() {
    let mut book = LeaseBook::new(config());
    book.grant(at(0), node(1), 3, 10);
    book.grant(at(0), node(2), 3, 10);
    let good = book.snapshot();
    let restored = LeaseBook::restore(config(), good.clone(), at(0)).unwrap();
    assert_eq!((restored.snapshot(), restored.outstanding()), (good.clone(), 6));

    let other = LeaseConfig { run: run(2), ..config() };
    assert!(matches!(LeaseBook::restore(other, good.clone(), at(0)), Err(SnapshotError::WrongRun { .. })));
    let breaks: [fn(&mut LeaseSnapshot); 5] = [
        |s| s.cursor = OrderCounter(5),
        |s| s.next_lease = LeaseId(1),
        |s| s.leases[1].left.push(OrderCounter(2)),
        |s| s.leases[1] = s.leases[0].clone(),
        |s| s.leases[0].left.clear(),
    ];
    for (case, breaking) in breaks.into_iter().enumerate() {
        let mut bad = good.clone();
        breaking(&mut bad);
        let restored = LeaseBook::restore(config(), bad, at(0));
        assert!(matches!(restored, Err(SnapshotError::Contradiction(_))), "case {case}");
    }
}

#[test]
fn damaged_records_cost_their_orders_and_damaged_counters_are_an_error() {
    let store = Arc::new(MemoryStore::default());
    let journal = LeaseJournal::new(store.clone());
    let mut book = LeaseBook::new(config());
    let first = book.grant(at(0), node(1), 3, 10)[0].id;
    book.grant(at(0), node(2), 2, 10);
    journal.save(&mut book).unwrap();
    assert!(store.damage(Tree::Leases, &first.0.to_be_bytes(), |bytes| bytes.truncate(9)));
    let snapshot = load(&store, &BTreeSet::new()).unwrap().unwrap();
    let book = LeaseBook::restore(config(), snapshot, at(0)).unwrap();
    assert_eq!((book.outstanding(), book.cursor()), (2, OrderCounter(5)));

    let wrong = LeaseJournal::new(store.clone()).load::<LeaseJournalError>(run(2), |_| Ok(false));
    assert!(matches!(wrong, Err(LeaseJournalError::WrongRun { .. })));
    assert!(store.damage(Tree::LeaseHead, b"head", |bytes| bytes[0] ^= 1));
    assert!(matches!(load(&store, &BTreeSet::new()), Err(LeaseJournalError::Damaged)));
}

#[test]
fn what_is_written_is_durable_with_its_flush_and_written_again_without_one() {
    let store = Arc::new(MemoryStore::default());
    let journal = LeaseJournal::new(store.clone());
    let mut book = LeaseBook::new(config());
    let on_disk = |store: &Arc<MemoryStore>| {
        let snapshot = load(store, &BTreeSet::new()).unwrap();
        snapshot.map(|s| s.leases.iter().map(|open| open.lease.id.0).collect::<Vec<_>>()).unwrap_or_default()
    };
    book.grant(at(0), node(1), 2, 10);
    let unflushed = journal.write(&book).unwrap();
    // While the disk works, another is granted and the first one's orders come in.
    book.grant(at(0), node(2), 2, 10);
    book.delivered(OrderCounter(0));
    book.delivered(OrderCounter(1));
    let flushed = unflushed.flush().unwrap();
    book.flushed(flushed);
    journal.save(&mut book).unwrap();
    store.crash(0);
    assert_eq!(on_disk(&store), [1]);

    // A flush that fails leaves all to be written again, were it written or not.
    book.grant(at(0), node(3), 2, 10);
    let unflushed = journal.write(&book).unwrap();
    store.fail_after(Some(0));
    assert!(unflushed.flush().is_err());
    store.crash(0);
    assert_eq!(on_disk(&store), [1]);
    journal.save(&mut book).unwrap();
    store.crash(0);
    assert_eq!(on_disk(&store), [1, 2]);
    // Nothing new needs no disk.
    store.fail_after(Some(0));
    journal.save(&mut book).unwrap();
}
