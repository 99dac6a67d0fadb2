use super::simulated_fleet::{Course, Scene, course};
use super::*;
use echo_protocol::run::charter::RunId;

const BATCH: u64 = 16;

fn scene(budget: u64, order_ms: f64, nodes: usize) -> Scene {
    let period = budget.saturating_sub(1).max(1);
    let nodes = vec![order_ms; nodes];
    Scene { budget, period, batch: BATCH, nodes, admission: None, updates: 200 }
}

/// The same under AReaL's rule with η = S-κ.
fn fixed(scene: Scene) -> Course {
    course(Scene { admission: Some(scene.budget - scene.period), ..scene }, 1)
}

fn by_lag(scene: Scene) -> Course {
    course(scene, 1)
}

#[test]
fn the_learner_hardly_waits_where_an_order_takes_as_long_as_an_update() {
    // 24 nodes of an order a second are 1.5 × μ_min.
    let (before, now) = (fixed(scene(4, 1e3, 24)), by_lag(scene(4, 1e3, 24)));
    assert!(before.bubble > 0.2, "{before:?}");
    assert!(now.bubble <= 0.05 && now.dropped <= 0.05, "{now:?}");
    // And where it takes half as long, or a quarter.
    for (order_ms, nodes) in [(500.0, 12), (250.0, 6)] {
        let course = by_lag(scene(4, order_ms, nodes));
        assert!(course.bubble <= 0.05 && course.dropped <= 0.05, "{course:?}");
    }
}

#[test]
fn a_larger_budget_lowers_the_bubble_of_the_same_nodes() {
    // A tenth more than they need, with orders of an update's time.
    let bubble = |budget| by_lag(scene(budget, 1e3, 18)).bubble;
    assert!(bubble(6) + 0.02 < bubble(3), "{} {}", bubble(3), bubble(6));
    // With orders of two updates' time no number of nodes helps, and the budget does.
    let long = |budget| by_lag(scene(budget, 2e3, 48)).bubble;
    assert!(long(6) + 0.05 < long(3), "{} {}", long(3), long(6));
}

#[test]
fn slow_volunteers_cost_next_to_nothing() {
    let of = |slow: usize, admission| {
        let nodes = [vec![500.0; 6], vec![10_000.0; slow]].concat();
        course(Scene { batch: 8, nodes, admission, ..scene(4, 0.0, 0) }, 2)
    };
    let (alone, with_slow) = (of(0, None), of(4, None));
    assert!(with_slow.updates_per_s >= 0.95 * alone.updates_per_s, "{alone:?} {with_slow:?}");
    assert_eq!((alone.refused, with_slow.refused), (0, 4), "their owners are told why");
    // η alone does not do it: slow nodes take a fifth of what the same six reach under it.
    let (eta_alone, by_eta) = (of(0, Some(1)), of(4, Some(1)));
    assert!(by_eta.updates_per_s < 0.9 * eta_alone.updates_per_s, "{eta_alone:?} {by_eta:?}");
    assert!(by_eta.updates_per_s < 0.8 * with_slow.updates_per_s, "{with_slow:?} {by_eta:?}");
}

#[test]
fn as_little_runs_ahead_as_keeps_the_learner_busy() {
    // Far more nodes than are needed: S would let six batches run ahead.
    let course = by_lag(scene(6, 250.0, 40));
    assert!(course.bubble <= 0.02 && course.depth <= 3 * BATCH, "{course:?}");
    // Fewer than are needed: whatever S allows.
    let course = by_lag(scene(6, 1e3, 12));
    assert!(course.bubble > 0.1 && course.depth == 6 * BATCH && course.lag <= 6.0, "{course:?}");
}

#[test]
fn backups_are_one_order_in_twenty_at_most() {
    for order_ms in [1e3, 2e3, 4e3] {
        let course = by_lag(scene(3, order_ms, 40));
        assert!(course.again.backups * 20 <= course.granted + 20, "{course:?}");
    }
}

#[test]
fn where_all_nodes_are_slow_all_get_orders_and_the_run_goes_on() {
    let course = by_lag(Scene { updates: 10, ..scene(3, 20_000.0, 20) });
    assert!(course.updates_per_s > 0.01, "{course:?}");
}

#[test]
fn a_seed_replays() {
    let of = |seed| course(scene(3, 700.0, 16), seed);
    assert_eq!(of(5), of(5));
    assert_ne!(of(5), of(6));
}

// Of the machine alone.

fn node(number: u8) -> PublicKey {
    PublicKey::from_bytes([number; 32])
}

fn at(millis: u64) -> UnixMillis {
    UnixMillis(millis)
}

fn machine() -> WorkAhead {
    let config = WorkAheadConfig { budget: 3, period: 1, batch: 4, lifetime_ms: 600_000 };
    WorkAhead::new(config, at(0), PolicyVersion(0))
}

fn position(current: u64, unformed: u64, ahead: u64) -> LearnerPosition {
    LearnerPosition { current: PolicyVersion(current), unformed: PolicyVersion(unformed), ahead }
}

fn lease(number: u8, id: u64, first: u64, count: u32) -> Lease {
    let run: RunId = serde_json::from_str(&format!("{:?}", "07".repeat(32))).unwrap();
    let (id, first) = (LeaseId(id), OrderCounter(first));
    Lease { run, id, node: node(number), first, count, lifetime_ms: 600_000 }
}

/// Gives a node orders that come back after `order_ms`, one at a time.
fn measured(machine: &mut WorkAhead, number: u8, order_ms: u64) {
    machine.granted(at(0), node(number), PolicyVersion(0), &[lease(number, 0, 1_000, 1)]);
    machine.came_back(at(order_ms), &node(number), OrderCounter(1_000));
}

#[test]
fn turns_are_within_s_of_what_the_node_has() {
    let mut machine = machine();
    measured(&mut machine, 1, 10);
    let room = |machine: &mut WorkAhead, installed, position| {
        machine.room(at(10), &node(1), PolicyVersion(installed), &position).unwrap()
    };
    // Updates 0 to 3 may take orders of version 0: 16 orders.
    assert_eq!(room(&mut machine, 0, position(0, 0, 0)), 16);
    assert_eq!(room(&mut machine, 0, position(0, 0, 15)), 1);
    assert_eq!(room(&mut machine, 0, position(0, 0, 16)), 0);
    // Update 1 is at hand, its batch is formed: updates 2 and 3 are left.
    assert_eq!(room(&mut machine, 0, position(1, 2, 0)), 8);
    assert_eq!(room(&mut machine, 1, position(1, 2, 0)), 12);
    assert_eq!(room(&mut machine, 0, position(3, 4, 0)), 0);
    assert_eq!(room(&mut machine, 9, position(1, 2, 0)), 12, "a version that nobody has");
}

#[test]
fn a_node_begins_with_few_orders_and_gets_as_many_as_come_back_in_time() {
    let mut machine = machine();
    assert_eq!(machine.room(at(0), &node(1), PolicyVersion(0), &position(0, 0, 0)), Ok(2));
    machine.granted(at(0), node(1), PolicyVersion(0), &[lease(1, 0, 0, 2)]);
    assert_eq!(machine.room(at(5), &node(1), PolicyVersion(0), &position(0, 0, 2)), Ok(0));
    machine.came_back(at(400), &node(1), OrderCounter(0));
    machine.came_back(at(400), &node(1), OrderCounter(1));
    // An update takes a second, three are left: half of that for some 1.75 orders every 400 ms.
    machine.at(at(1_000), PolicyVersion(1));
    assert_eq!(machine.room(at(1_000), &node(1), PolicyVersion(1), &position(1, 2, 0)), Ok(6));
    // At the end of the last update nothing comes back in time.
    machine.at(at(4_000), PolicyVersion(4));
    assert_eq!(machine.room(at(4_900), &node(1), PolicyVersion(2), &position(4, 5, 0)), Ok(0));
}

#[test]
fn an_order_that_can_only_come_back_too_old_is_named_once() {
    let mut machine = machine();
    machine.granted(at(0), node(1), PolicyVersion(0), &[lease(1, 7, 0, 2)]);
    assert!(machine.late(at(10), &position(3, 3, 2)).is_empty());
    machine.came_back(at(20), &node(1), OrderCounter(0));
    assert_eq!(machine.late(at(30), &position(3, 4, 1)), [(LeaseId(7), OrderCounter(1))]);
    assert!(machine.late(at(30), &position(3, 4, 1)).is_empty());
    assert_eq!(machine.leased_again(), LeasedAgain { late: 1, backups: 0 });
}

#[test]
fn the_owner_of_a_slow_node_is_told_why_and_it_may_try_again() {
    let mut machine = machine();
    measured(&mut machine, 1, 50_000);
    machine.at(at(60_000), PolicyVersion(6));
    let ask =
        |machine: &mut WorkAhead, now| machine.room(at(now), &node(1), PolicyVersion(6), &position(6, 7, 0));
    // Updates of ten seconds: three are thirty.
    let why = ask(&mut machine, 60_001).unwrap_err();
    assert!(["50.0 s", "10.0 s", "S = 3", "30.0 s"].iter().all(|part| why.contains(part)), "{why}");
    assert!(why.chars().count() <= 200, "a node cuts what is longer");
    machine.at(at(69_000), PolicyVersion(7));
    assert_eq!(ask(&mut machine, 69_001), Err(why), "the same words, so that they are logged once");
    // It tries one order after four of its order times.
    for version in 8..26 {
        machine.at(at(version * 10_000), PolicyVersion(version));
    }
    assert_eq!(ask(&mut machine, 250_001), Ok(1));
    assert!(ask(&mut machine, 250_002).is_err());
    // Where no update comes, it is not too slow: the learner waits for such nodes then.
    assert!(ask(&mut machine, 290_000).is_ok());
}

#[test]
fn a_straggler_is_made_twice_only_while_a_batch_waits() {
    let mut machine = machine();
    measured(&mut machine, 2, 100);
    machine.granted(at(100), node(1), PolicyVersion(0), &[lease(1, 3, 0, 4)]);
    let ask = |machine: &mut WorkAhead, number, now| {
        machine.straggler(at(now), &node(number), PolicyVersion(0), &position(0, 0, 4))
    };
    assert_eq!(ask(&mut machine, 2, 1_000), None, "nobody waits");
    machine.waits(at(900));
    assert_eq!(ask(&mut machine, 2, 250), None, "not out for long");
    assert_eq!(ask(&mut machine, 1, 1_000), None, "its own, and its pace is unknown");
    assert_eq!(ask(&mut machine, 2, 1_000), Some((LeaseId(3), OrderCounter(0))));
    assert_eq!(ask(&mut machine, 2, 1_000), None, "one in twenty, and there were five");
    machine.granted(at(1_000), node(2), PolicyVersion(0), &[lease(2, 4, 0, 1)]);
    // Both come back, and neither counts any more.
    machine.came_back(at(1_100), &node(2), OrderCounter(0));
    machine.came_back(at(1_200), &node(1), OrderCounter(0));
    assert_eq!(machine.leased_again(), LeasedAgain { late: 0, backups: 1 });
}

#[test]
fn who_is_gone_holds_nothing_and_keeps_its_pace() {
    let mut machine = machine();
    measured(&mut machine, 1, 10);
    machine.granted(at(20), node(1), PolicyVersion(0), &[lease(1, 1, 0, 4)]);
    machine.granted(at(20), node(2), PolicyVersion(0), &[lease(2, 2, 4, 2)]);
    machine.gone(&node(1));
    machine.gone(&node(2));
    assert!(machine.late(at(30), &position(5, 6, 0)).is_empty());
    assert_eq!(machine.room(at(30), &node(1), PolicyVersion(0), &position(0, 0, 0)), Ok(16));
    assert_eq!(machine.room(at(30), &node(2), PolicyVersion(0), &position(0, 0, 0)), Ok(2));
}

#[test]
fn a_lease_looks_at_two_nodes_on_average_however_many_hold_orders() {
    let mut machine = machine();
    let (template, count) = (lease(1, 0, 0, 1), 4 * MAX_NODES as u64);
    let many = |number: u64| {
        let mut bytes = [9; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        PublicKey::from_bytes(bytes)
    };
    let mut looked_at = 0;
    for number in 0..count {
        let before = machine.forget_at;
        let (id, first) = (LeaseId(number), OrderCounter(number));
        let lease = Lease { id, first, node: many(number), ..template.clone() };
        machine.granted(at(0), many(number), PolicyVersion(0), &[lease]);
        if machine.forget_at != before {
            looked_at += machine.nodes.len() as u64;
        }
    }
    assert_eq!(machine.nodes.len() as u64, count, "all hold orders");
    assert!((1..=2 * count).contains(&looked_at), "{looked_at}");
    // Those whose orders are back are forgotten when it is looked for them again.
    (1..count).for_each(|number| machine.came_back(at(5), &many(number), OrderCounter(number)));
    let lease = Lease { id: LeaseId(count), first: OrderCounter(count), node: many(count), ..template };
    machine.granted(at(6), many(count), PolicyVersion(0), &[lease]);
    assert_eq!(machine.nodes.len(), 2);
}

#[test]
fn a_node_that_has_become_fast_is_back_after_few_tries() {
    let mut machine = machine();
    measured(&mut machine, 1, 100_000);
    let mut granted = Vec::new();
    for second in 101..=700 {
        let (now, version) = (at(second * 1_000), PolicyVersion(second - 100));
        machine.at(now, version);
        // The first updates seem long, as the node was waited for.
        let room = (second >= 120)
            .then(|| machine.room(now, &node(1), version, &position(version.0, version.0 + 1, 0)));
        if let Some(Err(_)) = room {
            assert!(machine.refuses(&node(1)));
        }
        if let Some(Ok(1..)) = room {
            machine.granted(now, node(1), version, &[lease(1, second, 2_000 + second, 1)]);
            machine.came_back(at(second * 1_000 + 900), &node(1), OrderCounter(2_000 + second));
            granted.push(second);
        }
    }
    // Orders of a second now: 100 s, 26 s and 7 s are waited for four times over, and then it is trusted.
    assert_eq!(granted[0], 500);
    assert!(granted.iter().filter(|second| **second > 650).count() > 40, "{granted:?}");
    assert!(!machine.refuses(&node(1)) && !machine.refuses(&node(2)));
}
