//! What keys without a record may hold, and who has one.

use super::*;

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
fn what_strangers_hold_counts_for_strangers_alone() {
    let mut book = LeaseBook::new(config());
    book.grant(at(0), node(1), 5, 1_000);
    let counts = |book: &LeaseBook| [1, 2].map(|key| book.outstanding_for(&node(key)));
    assert_eq!(counts(&book), [5, 5], "nobody has a record");
    (0..2).for_each(|_| book.is_known_now(&node(1)));
    book.grant(at(0), node(2), 8, 1_000);
    assert_eq!(counts(&book), [5, 13]);
    [0, 5].map(OrderCounter).into_iter().for_each(|counter| book.delivered(counter));
    assert_eq!(counts(&book), [4, 11]);
    // Records come and go while orders are out.
    book.is_known_now(&node(2));
    assert_eq!(counts(&book), [11, 11]);
    (0..2).for_each(|_| book.is_unknown_now(&node(1)));
    assert_eq!(counts(&book), [11, 7]);
    book.node_gone(&node(2));
    assert_eq!(counts(&book), [4, 0]);
}
