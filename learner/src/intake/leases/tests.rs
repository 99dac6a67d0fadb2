use std::collections::BTreeSet;
use std::sync::Arc;

use echo_protocol::run::charter::RunId;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::codec;
use echo_protocol::wire::identity::PublicKey;

use super::*;
use crate::reputation::Fault;
use crate::storage::MemoryStore;

mod any_crash;
mod giving_up;
mod restarts;
mod strangers;

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

fn network(last: u8) -> Option<NetworkPrefix> {
    Some(NetworkPrefix::of(std::net::Ipv4Addr::new(203, 0, last, 1).into()))
}

fn ranges(leases: &[Lease]) -> Vec<(u64, u32)> {
    leases.iter().map(|lease| (lease.first.0, lease.count)).collect()
}

/// What the journal has, where the buffer has `delivered`.
fn load(
    store: &Arc<MemoryStore>,
    delivered: &BTreeSet<u64>,
) -> Result<Option<LeaseSnapshot>, LeaseJournalError> {
    LeaseJournal::new(store.clone()).load(run(1), |counter| Ok(delivered.contains(&counter.0)))
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
fn an_order_that_is_late_is_made_twice_and_whoever_delivers_first_is_taken() {
    let mut book = LeaseBook::new(config());
    let first = book.grant(at(0), node(1), 2, u64::MAX).remove(0);
    let counter = first.first;
    assert!(!book.late(LeaseId(9), counter), "not out under that lease");
    let excused = |book: &LeaseBook| [1, 2].map(|n| book.is_excused(&node(n), counter));
    assert_eq!(excused(&book), [false, false]);
    assert!(book.late(first.id, counter) && !book.late(first.id, counter));
    assert_eq!((book.outstanding(), book.idle()), (1, 1));
    assert_eq!(excused(&book), [true, false], "it may be leased anew at any time");
    assert_eq!(book.grant_idle(at(0), node(1), counter), None, "it held it before");
    let second = book.grant_idle(at(0), node(2), counter).unwrap();
    assert_eq!((second.first, second.count, book.idle()), (counter, 1, 0));
    assert_eq!(book.grant_idle(at(0), node(3), counter), None, "it is out");
    assert_eq!(excused(&book), [true, false], "who gets it after that has time for it");
    // Both may deliver it, and nobody else.
    assert_eq!(book.check(&node(1), first.id, counter), Ok(()));
    assert_eq!(book.check(&node(2), second.id, counter), Ok(()));
    assert!(book.check(&node(3), second.id, counter).is_err());
    book.delivered(counter);
    assert_eq!(excused(&book), [true, true]);
    for (loser, lease) in [(1, first.id), (2, second.id)] {
        let refusal = book.check(&node(loser), lease, counter).unwrap_err();
        assert_eq!((refusal, refusal.fault(&book)), (LeaseRefusal::Delivered(counter), Fault::Innocent));
    }
    assert_eq!((book.outstanding(), book.out_with(&node(2))), (1, 0));
}
