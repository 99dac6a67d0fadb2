//! Too little without a fault, and keys without a record that ask for money.

use super::*;

#[test]
fn what_is_missing_is_activated_together_and_who_asks_comes_first() {
    let mut town = Town::new(Activation::Cheapest, (0..40).map(|n| (n, 0.5, 0.0)));
    town.with_sleep = true;
    town.pass(1_200);
    let before = town.of_role(NodeRole::Active).len();
    let awake: Vec<u8> = town
        .of_role(NodeRole::Standby)
        .into_iter()
        .filter(|n| !town.capacity.workers[&key(*n)].sleeps)
        .collect();
    assert!(!awake.is_empty());
    // A filter drops half of what comes in, so twice as much is needed.
    let target = town.capacity.target().unwrap();
    town.capacity.goes_on(0, 8);
    town.capacity.goes_on(40, 8);
    assert!((town.capacity.target().unwrap() - 2.0 * target).abs() < 1e-9);
    town.pass(12);
    let active = town.of_role(NodeRole::Active);
    assert!(active.len() >= before + 5, "{before} and {active:?}");
    assert!(awake.iter().all(|n| active.contains(n)), "{awake:?} and {active:?}");
    // One sleeper after the other hears of it, within ten minutes. Who comes to be on standby meanwhile works
    // until then.
    for seconds in [240, 380] {
        town.pass(seconds);
        let report = town.capacity.report();
        assert!(report.pool >= 0.95 * report.target.unwrap(), "{report:?}");
    }
}

#[test]
fn dearer_nodes_that_ask_bridge_the_time_until_cheap_ones_come() {
    let mut capacity = Capacity::new(config(Activation::Cheapest), UnixMillis(0));
    let state =
        CapacityState { updates: vec![TRAIN_S; 5], broadcasts: vec![1.0], ..CapacityState::default() };
    capacity.restore(state);
    // Four work, four cheap ones sleep, and two dear ones stand by.
    let nodes: Vec<u8> = (0..4).chain(10..14).chain(20..22).collect();
    let beat = |n: u8| {
        let (declared, dollars) = match n {
            0..10 => (0.5, 1.0),
            10..20 => (0.5, 0.1),
            _ => (1.0, 4.0),
        };
        Beat { declared, offer: offer(dollars), ..Beat::default() }
    };
    for n in &nodes {
        capacity.heard(UnixMillis(0), key(*n), beat(*n));
        let worker = capacity.workers.get_mut(&key(*n)).unwrap();
        (worker.role, worker.sleeps) = match n {
            0..10 => (NodeRole::Active, false),
            10..20 => (NodeRole::Resting, true),
            _ => (NodeRole::Standby, false),
        };
    }
    let pass = |capacity: &mut Capacity, seconds: std::ops::RangeInclusive<u64>, all_ask: bool| {
        for second in seconds {
            let now = UnixMillis(1_000 * second);
            for n in &nodes {
                capacity.heard(now, key(*n), beat(*n));
                if all_ask || !(10..20).contains(n) {
                    capacity.asks(now, &key(*n));
                }
            }
            capacity.tick(now);
        }
    };
    let working = |capacity: &Capacity, of: std::ops::Range<u8>| {
        of.filter(|n| nodes.contains(n) && capacity.role(&key(*n)) == NodeRole::Active).count()
    };
    pass(&mut capacity, 1..=9, false);
    assert!(capacity.pool() < 2.1, "too little has not lasted: {}", capacity.pool());
    // The cheap ones hear of it in minutes.
    for until in [12, 60, 299] {
        pass(&mut capacity, until - 2..=until, false);
        assert_eq!(working(&capacity, 10..20), 4);
        assert!(capacity.pool() >= capacity.target().unwrap(), "{} at {until} s", capacity.pool());
    }
    pass(&mut capacity, 300..=600, true);
    assert!(capacity.pool() >= capacity.target().unwrap(), "{}", capacity.pool());
    assert_eq!(working(&capacity, 0..20), 8);
    assert!(working(&capacity, 20..30) <= 1, "the prefix and one node");
}

#[test]
fn free_keys_that_ask_for_much_cost_nothing_and_make_no_fleet_large() {
    // Two of these four would be enough, but a small fleet of volunteers works as a whole.
    let mut town = Town::new(Activation::Cheapest, (0..4).map(|n| (n, 2.0, 0.0)));
    town.strangers = (100..130).map(key).collect();
    town.offer_of_strangers = offer(1e6);
    town.pass(600);
    assert_eq!(town.of_role(NodeRole::Active), [0, 1, 2, 3]);
    let report = town.capacity.report();
    assert_eq!(report.usd_per_hour, 0.0);
    // The learner costs a dollar an hour.
    assert!(report.usd < 0.2 && report.node_hours < 0.7, "{report:?}");
    // Where nobody has a record, they are the fleet.
    let mut alone = Capacity::new(config(Activation::Cheapest), UnixMillis(0));
    alone.heard(UnixMillis(0), key(1), Beat { offer: offer(0.5), ..Beat::default() });
    assert_eq!(alone.report().usd_per_hour, 0.5);
    alone.heard(UnixMillis(0), key(2), Beat { is_known: true, ..Beat::default() });
    assert_eq!(alone.report().usd_per_hour, 0.0);
}
