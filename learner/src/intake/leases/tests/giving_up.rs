//! Which orders are given up, and who decides it.

use echo_protocol::work::lease::ReturnReason;

use super::*;

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
