use std::collections::BTreeSet;
use std::sync::Arc;

use echo_protocol::run::charter::RunId;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::codec;
use echo_protocol::wire::identity::PublicKey;
use proptest::prelude::*;

use super::*;
use crate::reputation::{Fault, NetworkPrefix};
use crate::storage::{MemoryStore, Store, Tree};

fn run(byte: u8) -> RunId {
    let name = codec::encode(&PublicKey::from_bytes([byte; 32]), 64).unwrap();
    codec::decode(&name, 64).unwrap()
}

fn config() -> LeaseConfig {
    LeaseConfig { run: run(1), lifetime_ms: 1_000, max_open_per_node: 100 }
}

fn node(byte: u8) -> PublicKey {
    PublicKey::from_bytes([byte; 32])
}

fn at(millis: u64) -> UnixMillis {
    UnixMillis(millis)
}

fn ranges(leases: &[Lease]) -> Vec<(u64, u32)> {
    leases.iter().map(|lease| (lease.first.0, lease.count)).collect()
}

#[test]
fn fresh_orders_follow_each_other_within_every_limit() {
    let mut book = LeaseBook::new(LeaseConfig { max_open_per_node: 10_000, ..config() });
    let leases = book.grant(at(0), node(1), 2_500, u64::MAX);
    assert_eq!(ranges(&leases), [(0, 1024), (1024, 1024), (2048, 452)]);
    assert_eq!((leases[0].lifetime_ms, book.next_deadline()), (1_000, Some(at(1_000))));
    assert_eq!(ranges(&book.grant(at(0), node(2), 5, 3)), [(2500, 3)]);
    assert_eq!(book.grant(at(0), node(2), 5, 0), []);
    assert_eq!(
        book.grant(at(0), node(1), u32::MAX, u64::MAX).iter().map(|lease| lease.count).sum::<u32>(),
        7_500
    );
    assert_eq!((book.outstanding(), book.out_with(&node(1))), (10_003, 10_000));
    assert_eq!(book.grant(at(0), node(1), 1, 1), []);
}

#[test]
fn one_answer_holds_at_most_max_leases() {
    let mut book = LeaseBook::new(LeaseConfig { max_open_per_node: u64::MAX, ..config() });
    book.grant(at(0), node(1), 1_000, u64::MAX);
    // Every second order is delivered: what is left is a range of its own each.
    (0..1_000).step_by(2).for_each(|n| book.delivered(OrderCounter(n)));
    book.node_gone(&node(1));
    let leases = book.grant(at(0), node(2), 1_000, u64::MAX);
    assert_eq!(leases.len(), MAX_LEASES);
    assert!(leases.iter().all(|lease| lease.count == 1));
    let mut full = LeaseBook::new(LeaseConfig { max_open_per_node: u64::MAX, ..config() });
    while !full.grant(at(0), node(1), u32::MAX, u64::MAX).is_empty() {}
    assert_eq!(full.outstanding(), MAX_OPEN_ORDERS as u64);
}

#[test]
fn expired_orders_are_leased_again_before_fresh_ones() {
    let mut book = LeaseBook::new(config());
    book.grant(at(0), node(1), 4, 10);
    book.delivered(OrderCounter(1));
    assert_eq!(book.next_deadline(), Some(at(1_000)));
    assert_eq!(book.expire(at(999)), []);
    assert_eq!((book.outstanding(), book.idle()), (3, 0));
    let leases = book.grant(at(1_000), node(2), 4, 10);
    assert_eq!(ranges(&leases), [(0, 1), (2, 2), (4, 1)]);
    assert_eq!((book.outstanding(), book.idle(), book.out_with(&node(1))), (4, 0, 0));
}

#[test]
fn an_order_that_nobody_can_do_is_given_up_without_waiting_for_a_lease_to_end() {
    let mut book = LeaseBook::new(config());
    for round in 0..MAX_LEASES_OF_ORDER {
        // Two nodes in turn: nobody else is there.
        let me = node(1 + (round % 2) as u8);
        let lease = book.grant(at(0), me, 1, 10).remove(0);
        assert_eq!((lease.first, book.take_given_up()), (OrderCounter(0), vec![]), "round {round}");
        let held = HeldOrder { lease: lease.id, counter: OrderCounter(0) };
        assert!(!book.take_back(&node(9), held, ReturnReason::Undoable), "it is not theirs");
        assert!(book.take_back(&me, held, ReturnReason::Undoable));
        assert!(!book.take_back(&me, held, ReturnReason::Undoable), "it is not out any more");
    }
    assert_eq!((book.take_given_up(), book.outstanding(), book.idle()), (vec![OrderCounter(0)], 0, 0));
    assert_eq!(ranges(&book.grant(at(0), node(1), 1, 10)), [(1, 1)]);
}

#[test]
fn a_node_that_gives_everything_back_has_no_order_left_out() {
    let mut book = LeaseBook::new(config());
    for _ in 0..3 * MAX_LEASES_OF_ORDER {
        for lease in book.grant(at(0), node(1), 1, 1) {
            let held = HeldOrder { lease: lease.id, counter: lease.first };
            book.take_back(&node(1), held, ReturnReason::Dropped);
        }
    }
    assert_eq!((book.take_given_up(), book.idle()), (vec![], 1));
}

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

fn last(lease: LeaseId, counter: u64) -> Option<HeldOrder> {
    Some(HeldOrder { lease, counter: OrderCounter(counter) })
}

#[test]
fn what_has_not_reached_a_node_is_leased_to_it_again_for_the_time_that_is_left() {
    let mut book = LeaseBook::new(config());
    let first = book.grant(at(0), node(1), 3, 100);
    book.grant(at(0), node(2), 3, 100);
    let second = book.grant(at(5), node(1), 4, 100);
    let lost = |reached, orders| book.lost(at(9), &node(1), reached, orders);
    let left = |lease: &Lease, lifetime_ms| Lease { lifetime_ms, ..lease.clone() };
    let second = vec![left(&second[0], 996)];
    assert_eq!(lost(None, 100), [left(&first[0], 991), second[0].clone()], "it has begun anew");
    assert_eq!(lost(last(first[0].id, 2), 100), second);
    assert_eq!(ranges(&lost(last(first[0].id, 0), 4)), [(1, 2), (6, 2)], "no more than it asks for");
    assert_eq!(lost(last(second[0].id, 9), 100), []);
    // Only what is still out: neither what was delivered, nor what others may be given.
    book.delivered(OrderCounter(7));
    assert_eq!(ranges(&book.lost(at(9), &node(1), last(first[0].id, 2), 100)), [(6, 1), (8, 2)]);
    assert_eq!(ranges(&book.lost(at(1_000), &node(1), None, 100)), [(6, 1), (8, 2)]);
    book.node_gone(&node(1));
    assert_eq!(book.lost(at(1_000), &node(1), None, 100), []);
    assert_eq!(book.lost(at(2_000), &node(2), None, 100), []);
}

#[test]
fn what_is_leased_again_fits_into_one_answer() {
    let mut book = LeaseBook::new(LeaseConfig { max_open_per_node: u64::MAX, ..config() });
    let id = book.grant(at(0), node(1), 1_000, u64::MAX)[0].id;
    (0..1_000).step_by(2).for_each(|n| book.delivered(OrderCounter(n)));
    let (mut reached, mut counters) = (None, Vec::new());
    loop {
        let lost = book.lost(at(0), &node(1), reached, 1_000);
        assert!(lost.len() <= MAX_LEASES && lost.iter().all(|lease| lease.id == id));
        let Some(counter) = lost.iter().flat_map(Lease::orders).last() else { break };
        counters.extend(lost.iter().flat_map(Lease::orders).map(|counter| counter.0));
        reached = last(id, counter.0);
    }
    assert_eq!(counters, (1..1_000).step_by(2).collect::<Vec<_>>());
}

#[test]
fn a_lapsed_order_may_be_delivered_until_it_is_leased_again() {
    let mut book = LeaseBook::new(config());
    let lease = book.grant(at(0), node(1), 2, 10)[0].id;
    book.expire(at(5_000));
    assert_eq!(book.check(&node(1), lease, OrderCounter(0)), Ok(()));
    assert_eq!(ranges(&book.grant(at(5_000), node(2), 1, 10)), [(0, 1)]);
    assert_eq!(book.check(&node(1), lease, OrderCounter(0)), Err(LeaseRefusal::Expired(OrderCounter(0))));
    assert_eq!(book.check(&node(1), lease, OrderCounter(1)), Ok(()));
    // The same node, the only one now, is leased its own order again: what it made under the
    // first lease still counts.
    book.node_gone(&node(2));
    assert_eq!(ranges(&book.grant(at(5_000), node(1), 2, 10)), [(0, 2)]);
    assert_eq!(book.check(&node(1), lease, OrderCounter(1)), Ok(()));
}

#[test]
fn every_lie_about_a_lease_is_told_apart() {
    let mut book = LeaseBook::new(config());
    let mine = book.grant(at(0), node(1), 2, 10)[0].id;
    let yours = book.grant(at(0), node(2), 2, 10)[0].id;
    let check = |book: &LeaseBook, id, n| book.check(&node(1), id, OrderCounter(n));
    assert_eq!(check(&book, mine, 1), Ok(()));
    assert_eq!(check(&book, LeaseId(9), 2), Err(LeaseRefusal::NotFound(LeaseId(9))));
    assert_eq!(check(&book, LeaseId(9), 0), Err(LeaseRefusal::NotFound(LeaseId(9))), "a lease of the future");
    assert_eq!(check(&book, yours, 2), Err(LeaseRefusal::OtherNode(yours)));
    let outside = |n| Err(LeaseRefusal::OutsideRange { lease: mine, counter: OrderCounter(n) });
    assert_eq!(check(&book, mine, 2), outside(2));
    assert_eq!(check(&book, mine, u64::MAX), outside(u64::MAX));
    book.delivered(OrderCounter(1));
    assert_eq!(check(&book, mine, 1), Err(LeaseRefusal::Delivered(OrderCounter(1))));
}

#[test]
fn a_refused_order_is_given_back_by_its_holder_alone() {
    let mut book = LeaseBook::new(config());
    let lease = book.grant(at(0), node(1), 2, 10)[0].id;
    assert!(!book.give_back(&node(2), OrderCounter(0)));
    assert!(book.give_back(&node(1), OrderCounter(0)));
    assert_eq!((book.outstanding(), book.idle()), (1, 1));
    assert_eq!(book.check(&node(1), lease, OrderCounter(0)), Err(LeaseRefusal::Expired(OrderCounter(0))));
    assert_eq!(ranges(&book.grant(at(0), node(2), 1, 10)), [(0, 1)]);
    assert!(!book.give_back(&node(1), OrderCounter(0)), "it is somebody else's now");
}

#[test]
fn the_orders_of_a_gone_node_are_free_at_once() {
    let mut book = LeaseBook::new(config());
    book.grant(at(0), node(1), 3, 10);
    assert_eq!(book.node_gone(&node(1)), [0, 1, 2].map(OrderCounter));
    assert_eq!((book.outstanding(), book.next_deadline()), (0, None));
    assert_eq!(ranges(&book.grant(at(0), node(2), 5, 10)), [(0, 3), (3, 2)]);
}

#[test]
fn an_order_that_nobody_delivers_is_given_up_in_the_end() {
    let mut book = LeaseBook::new(config());
    for lease in 1..=MAX_LEASES_OF_ORDER {
        let now = at(2_000 * u64::from(lease));
        // The first is never delivered, the second at last.
        assert_eq!(ranges(&book.grant(now, node((lease % 2) as u8), 2, 10)), [(0, 2)], "lease {lease}");
        assert_eq!((book.take_given_up(), book.outstanding()), (vec![], 2));
    }
    book.delivered(OrderCounter(1));
    assert_eq!(book.expire(at(1 << 20)), [OrderCounter(0)]);
    assert_eq!(book.take_given_up(), [OrderCounter(0)]);
    assert_eq!((book.outstanding(), book.idle(), book.next_deadline()), (0, 0, None));
    assert_eq!(book.snapshot().leases, []);
    let late = book.check(&node(0), LeaseId(7), OrderCounter(0));
    assert_eq!(late, Err(LeaseRefusal::Delivered(OrderCounter(0))));
    assert_eq!(ranges(&book.grant(at(1 << 20), node(1), 1, 10)), [(2, 1)]);

    // Those that go, and those whose groups are refused, count alike.
    for holder in 1..=MAX_LEASES_OF_ORDER as u8 {
        assert_eq!(book.take_given_up(), []);
        if holder > 1 {
            assert_eq!(ranges(&book.grant(at(1 << 20), node(holder), 1, 10)), [(2, 1)]);
        }
        match holder % 2 {
            0 => assert!(book.give_back(&node(holder), OrderCounter(2))),
            _ => assert_eq!(book.node_gone(&node(holder)), [OrderCounter(2)]),
        }
    }
    assert_eq!(book.take_given_up(), [OrderCounter(2)]);
    assert_eq!((book.outstanding(), book.idle(), book.cursor()), (0, 0, OrderCounter(3)));
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
fn no_node_alone_has_an_order_left_out_at_once() {
    let mut book = LeaseBook::new(config());
    assert_eq!(ranges(&book.grant(at(0), node(2), 1, 10)), [(0, 1)]);
    assert_eq!(ranges(&book.grant(at(0), node(1), 1, 10)), [(1, 1)]);
    // What it had refused goes to the other node.
    assert!(book.give_back(&node(1), OrderCounter(1)));
    assert_eq!(ranges(&book.grant(at(0), node(1), 1, 10)), [(2, 1)]);
    assert_eq!(ranges(&book.grant(at(0), node(2), 1, 10)), [(1, 1)]);
    // Where there is no other, it comes again as often as it is refused or abandoned.
    book.delivered(OrderCounter(0));
    book.delivered(OrderCounter(2));
    book.node_gone(&node(2));
    for _ in 0..MAX_LEASES_OF_ORDER {
        assert_eq!(ranges(&book.grant(at(0), node(1), 1, 10)), [(1, 1)]);
        assert!(book.give_back(&node(1), OrderCounter(1)));
        assert_eq!(ranges(&book.grant(at(0), node(1), 1, 10)), [(1, 1)]);
        assert_eq!(book.node_gone(&node(1)), [OrderCounter(1)]);
    }
    assert_eq!((book.take_given_up(), book.idle()), (vec![], 1));
    // An order that cannot be done runs out, and is given up by a single node too: two holders
    // count, and six more leases.
    assert_eq!(ranges(&book.grant(at(0), node(1), 1, 10)), [(1, 1)]);
    let lapses = (1..=20u64).find(|lapse| {
        book.grant(at(2_000 * *lapse), node(1), 1, 10);
        !book.take_given_up().is_empty()
    });
    assert_eq!(lapses, Some(u64::from(MAX_LEASES_OF_ORDER) - 2));
}

fn network(last: u8) -> Option<NetworkPrefix> {
    Some(NetworkPrefix::of(std::net::Ipv4Addr::new(203, 0, last, 1).into()))
}

#[test]
fn keys_of_one_network_are_one_owner() {
    let mut book = LeaseBook::new(config());
    for key in 1..=40 {
        book.connected(node(key), network(1));
    }
    book.connected(node(50), network(2));
    book.grant(at(0), node(50), 0, 10);
    // One of forty keys has the order, and gives it back: it is for none of the others.
    assert_eq!(ranges(&book.grant(at(0), node(1), 1, 10)), [(0, 1)]);
    assert!(book.give_back(&node(1), OrderCounter(0)));
    for key in 2..=40 {
        assert_eq!(ranges(&book.grant(at(0), node(key), 1, 10)), [(u64::from(key) - 1, 1)], "a fresh one");
    }
    assert_eq!(ranges(&book.grant(at(0), node(50), 1, 10)), [(0, 1)]);
    assert_eq!(book.take_given_up(), []);
}

#[test]
fn strangers_alone_have_no_order_given_up_where_others_have_a_record() {
    let mut book = LeaseBook::new(config());
    let honest = [200, 201, 202];
    for key in honest {
        book.is_known_now(&node(key));
        book.grant(at(0), node(key), 0, 10);
    }
    for key in 1..=100 {
        let held: Vec<(u64, u32)> = ranges(&book.grant(at(0), node(key), 1, 10));
        assert_eq!(held, [(0, 1)], "key {key}");
        assert!(book.give_back(&node(key), OrderCounter(0)));
    }
    assert_eq!((book.take_given_up(), book.idle()), (vec![], 1));
    // One that can do it has it next, or those with a record agree that nobody can.
    for key in honest {
        assert_eq!(ranges(&book.grant(at(0), node(key), 1, 10)), [(0, 1)]);
        assert!(book.give_back(&node(key), OrderCounter(0)));
    }
    assert_eq!(book.take_given_up(), [OrderCounter(0)]);
}

#[test]
fn strangers_hold_few_orders_where_others_have_a_record() {
    let mut book = LeaseBook::new(config());
    assert_eq!(ranges(&book.grant(at(0), node(1), 64, 1_000)), [(0, 64)], "nobody has one yet");
    book.is_known_now(&node(1));
    assert_eq!(ranges(&book.grant(at(0), node(2), 64, 1_000)), [(64, 8)]);
    assert_eq!(book.grant(at(0), node(2), 64, 1_000), []);
    assert_eq!(ranges(&book.grant(at(0), node(1), 64, 1_000)), [(72, 36)]);
}

#[test]
fn all_strangers_of_a_network_hold_no_more_than_one_node() {
    let mut book = LeaseBook::new(config());
    book.is_known_now(&node(1));
    (10..60).for_each(|key| book.connected(node(key), network(1)));
    let orders = |leases: &[Lease]| leases.iter().map(|lease| u64::from(lease.count)).sum::<u64>();
    let held: u64 = (10..60).map(|key| orders(&book.grant(at(0), node(key), 64, 10_000))).sum();
    assert_eq!(held, 100, "as much as one node may hold");
    // The record of one of them is its own.
    book.is_known_now(&node(10));
    assert_eq!(book.grant(at(0), node(59), 64, 10_000), []);
    assert_eq!(orders(&book.grant(at(0), node(10), 64, 10_000)), 64);
    // What comes back makes room for the others of the network.
    assert!(book.give_back(&node(11), OrderCounter(8)));
    assert_eq!(orders(&book.grant(at(0), node(59), 64, 10_000)), 1);
    assert_eq!(book.grant(at(0), node(58), 64, 10_000), []);
}

#[test]
fn who_loses_its_record_is_a_stranger_again() {
    let mut book = LeaseBook::new(config());
    (1..=2).for_each(|key| book.is_known_now(&node(key)));
    book.is_unknown_now(&node(2));
    assert_eq!(ranges(&book.grant(at(0), node(2), 64, 1_000)), [(0, 8)]);
    book.is_unknown_now(&node(1));
    assert_eq!(ranges(&book.grant(at(0), node(3), 64, 1_000)), [(8, 64)], "nobody has one any more");
}

#[test]
fn who_comes_back_through_a_relay_is_the_owner_that_it_was() {
    let mut book = LeaseBook::new(config());
    book.connected(node(1), network(1));
    book.connected(node(2), network(1));
    book.connected(node(3), network(2));
    book.grant(at(0), node(3), 0, 10);
    assert_eq!(ranges(&book.grant(at(0), node(1), 1, 10)), [(0, 1)]);
    assert!(book.give_back(&node(1), OrderCounter(0)));
    book.connected(node(2), None);
    assert_eq!(ranges(&book.grant(at(0), node(2), 1, 10)), [(1, 1)], "not the one of its neighbour");
}

#[test]
fn a_lease_knows_where_the_learner_was_whatever_lease_is_named() {
    let mut book = LeaseBook::new(config());
    book.at(PolicyVersion(5));
    let lease = book.grant(at(0), node(1), 1, 10).remove(0);
    let order = OrderCounter(0);
    assert_eq!(book.granted_at(&node(1), lease.id, order), Some(PolicyVersion(5)));
    book.at(PolicyVersion(9));
    assert_eq!(book.expire(at(1_000)), [order]);
    let again = book.grant(at(1_000), node(1), 1, 10).remove(0);
    assert_eq!(book.granted_at(&node(1), lease.id, order), None, "its work may be of then");
    assert_eq!(book.granted_at(&node(1), again.id, order), Some(PolicyVersion(9)));
    let fresh = book.grant(at(1_000), node(2), 1, 10).remove(0);
    assert_eq!(book.granted_at(&node(2), lease.id, fresh.first), Some(PolicyVersion(9)));
}

#[test]
fn an_order_that_alone_cannot_be_judged_is_given_up() {
    let mut book = LeaseBook::new(config());
    let mut accepted = 0;
    for lease in 0..u64::from(MAX_LEASES_OF_ORDER) {
        assert_eq!(book.take_given_up(), []);
        assert_eq!(ranges(&book.grant(at(0), node(1), 1, 10)), [(0, 1)], "lease {lease}");
        // As long as nothing is accepted, it may be the learner that cannot judge.
        (0..3).for_each(|_| assert!(!book.unjudged(&node(1), OrderCounter(0), accepted)));
        accepted += 1;
        assert!(!book.unjudged(&node(2), OrderCounter(0), accepted), "it is somebody else's");
        assert!(book.unjudged(&node(1), OrderCounter(0), accepted));
        assert!(book.check(&node(1), LeaseId(lease), OrderCounter(0)).is_err());
        assert_eq!(book.outstanding(), 0);
    }
    assert_eq!((book.take_given_up(), book.idle()), (vec![OrderCounter(0)], 0));
    assert!(!book.unjudged(&node(1), OrderCounter(0), 100));
}

#[test]
fn an_order_that_all_have_held_comes_again_to_any_of_them() {
    let mut book = LeaseBook::new(config());
    for n in 1..=3 {
        assert_eq!(ranges(&book.grant(at(0), node(n), 1, 10)), [(0, 1)]);
        assert!(book.give_back(&node(n), OrderCounter(0)));
    }
    assert_eq!(ranges(&book.grant(at(0), node(2), 1, 10)), [(0, 1)]);
    assert!(book.give_back(&node(2), OrderCounter(0)));
    // Whoever else asks has it first, until it asks no more.
    assert_eq!(book.grant(at(0), node(4), 0, 10), []);
    assert_eq!(ranges(&book.grant(at(0), node(2), 1, 10)), [(1, 1)]);
    assert_eq!(ranges(&book.grant(at(1_500), node(2), 1, 10)), [(0, 1)]);
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

fn load(
    store: &Arc<MemoryStore>,
    delivered: &BTreeSet<u64>,
) -> Result<Option<LeaseSnapshot>, LeaseJournalError> {
    LeaseJournal::new(store.clone()).load(run(1), |counter| Ok(delivered.contains(&counter.0)))
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

#[derive(Clone, Debug)]
enum Op {
    Grant { node: u8, orders: u32, room: u64 },
    Deliver { which: usize },
    Wait { millis: u64 },
    Gone { node: u8 },
    GiveBack { which: usize },
    Crash { survivors: usize },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..3u8, 0..20u32, 0..20u64).prop_map(|(node, orders, room)| Op::Grant { node, orders, room }),
        6 => any::<usize>().prop_map(|which| Op::Deliver { which }),
        1 => (0..1_500u64).prop_map(|millis| Op::Wait { millis }),
        1 => (0..3u8).prop_map(|node| Op::Gone { node }),
        1 => any::<usize>().prop_map(|which| Op::GiveBack { which }),
        1 => (0..3usize).prop_map(|survivors| Op::Crash { survivors }),
    ]
}

#[test]
fn an_order_that_is_late_is_made_twice_and_whoever_delivers_first_is_taken() {
    let mut book = LeaseBook::new(config());
    let first = book.grant(at(0), node(1), 2, u64::MAX).remove(0);
    let counter = first.first;
    assert!(!book.late(LeaseId(9), counter), "not out under that lease");
    assert!(book.late(first.id, counter) && !book.late(first.id, counter));
    assert_eq!((book.outstanding(), book.idle()), (1, 1));
    assert_eq!(book.grant_idle(at(0), node(1), counter), None, "it held it before");
    let second = book.grant_idle(at(0), node(2), counter).unwrap();
    assert_eq!((second.first, second.count, book.idle()), (counter, 1, 0));
    assert_eq!(book.grant_idle(at(0), node(3), counter), None, "it is out");
    // Both may deliver it, and nobody else.
    assert_eq!(book.check(&node(1), first.id, counter), Ok(()));
    assert_eq!(book.check(&node(2), second.id, counter), Ok(()));
    assert!(book.check(&node(3), second.id, counter).is_err());
    book.delivered(counter);
    for (loser, lease) in [(1, first.id), (2, second.id)] {
        let refusal = book.check(&node(loser), lease, counter).unwrap_err();
        assert_eq!((refusal, refusal.fault(&book)), (LeaseRefusal::Delivered(counter), Fault::Innocent));
    }
    assert_eq!((book.outstanding(), book.out_with(&node(2))), (1, 0));
}

proptest! {
    #[test]
    fn no_order_is_fresh_twice_nor_leased_after_delivery_through_any_crash(
        ops in proptest::collection::vec(op(), 1..60)
    ) {
        let store = Arc::new(MemoryStore::default());
        let journal = LeaseJournal::new(store.clone());
        let mut book = LeaseBook::new(config());
        let mut now = 0;
        // What left the learner: every lease, in order; and what the buffer has.
        let mut sent: Vec<Lease> = Vec::new();
        let mut delivered = BTreeSet::new();
        let mut given_up = BTreeSet::new();
        for op in ops {
            match op {
                Op::Grant { node: n, orders, room } => {
                    let leases = book.grant(at(now), node(n), orders, room);
                    let granted: u64 = leases.iter().map(|lease| u64::from(lease.count)).sum();
                    prop_assert!(granted <= room.min(u64::from(orders)) && book.out_with(&node(n)) <= 100);
                    journal.save(&mut book).unwrap();
                    for lease in leases {
                        let settled = |counter: OrderCounter| {
                            delivered.contains(&counter.0) || given_up.contains(&counter)
                        };
                        prop_assert!(!lease.orders().any(settled));
                        for old in sent.iter().filter(|old| old.node != lease.node) {
                            // Leased to two nodes at once only when the first gave it back or was gone.
                            let both = lease.orders().find(|counter| {
                                old.covers(*counter) && book.check(&old.node, old.id, *counter).is_ok()
                            });
                            prop_assert_eq!(both, None);
                        }
                        prop_assert!(sent.iter().all(|old| old.id != lease.id));
                        sent.push(lease);
                    }
                }
                Op::Deliver { which } | Op::GiveBack { which } => {
                    let orders: Vec<(PublicKey, LeaseId, OrderCounter)> = sent
                        .iter()
                        .flat_map(|lease| lease.orders().map(|counter| (lease.node, lease.id, counter)))
                        .collect();
                    if orders.is_empty() {
                        continue;
                    }
                    let (holder, lease, counter) = orders[which % orders.len()];
                    if let Op::GiveBack { .. } = op {
                        book.give_back(&holder, counter);
                        continue;
                    }
                    let allowed = book.check(&holder, lease, counter);
                    if delivered.contains(&counter.0) {
                        prop_assert_eq!(allowed, Err(LeaseRefusal::Delivered(counter)));
                    } else if allowed.is_ok() {
                        delivered.insert(counter.0);
                        book.delivered(counter);
                    }
                }
                Op::Wait { millis } => now += millis,
                Op::Gone { node: n } => {
                    book.node_gone(&node(n));
                    prop_assert_eq!(book.out_with(&node(n)), 0);
                }
                Op::Crash { survivors } => {
                    store.crash(survivors);
                    book = match load(&store, &delivered).unwrap() {
                        Some(snapshot) => LeaseBook::restore(config(), snapshot, at(now)).unwrap(),
                        None => LeaseBook::new(config()),
                    };
                    // What the disk does not know to be given up is leased again.
                    let left: BTreeSet<_> = book.snapshot().leases.into_iter().flat_map(|open| open.left).collect();
                    given_up.retain(|counter| !left.contains(counter));
                    book.expire(at(now));
                }
            }
            given_up.extend(book.take_given_up());
            // Every order that ever left is delivered, given up, out or idle; and the cursor is
            // after all of them.
            let ever: BTreeSet<u64> = sent.iter().flat_map(Lease::orders).map(|counter| counter.0).collect();
            prop_assert_eq!(ever.len() as u64, book.cursor().0);
            let settled = (delivered.len() + given_up.len()) as u64;
            prop_assert_eq!(ever.len() as u64, book.outstanding() + book.idle() + settled);
            let by_node: u64 = (0..3).map(|n| book.out_with(&node(n))).sum();
            prop_assert_eq!(by_node, book.outstanding());
            let mut records = 0;
            store.visit(Tree::Leases, &mut |_, _| records += 1).unwrap();
            prop_assert!(records <= sent.len());
        }
    }
}
