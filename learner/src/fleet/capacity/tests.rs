mod shortage;

use super::selection::PERIOD_MS;
use super::*;
use echo_protocol::wire::rng::Draws;

/// What an update takes, and R: with T_bcast = 1 s and κ = 2, μ_min is 2·32 / (2·10 - 1).
const TRAIN_S: f64 = 10.0;
const BATCH: u64 = 32;
const REQUIRED: f64 = 64.0 / 19.0;

/// A fleet in virtual time: each node accepts what its rate says, once a second.
struct Town {
    capacity: Capacity,
    now: u64,
    nodes: BTreeMap<PublicKey, (f64, Offer)>,
    owed: BTreeMap<PublicKey, f64>,
    silent: Vec<PublicKey>,
    /// Those that get no orders because they are too slow.
    slow: Vec<PublicKey>,
    /// Those that their owners have paused.
    paused: Vec<PublicKey>,
    /// Whether nodes that are told to rest ask again after ten minutes only.
    with_sleep: bool,
    asleep_until: BTreeMap<PublicKey, u64>,
    /// Whether the learner waits for its batch all the time.
    starves: bool,
    /// Keys without a record that only say that they are fast.
    strangers: Vec<PublicKey>,
    /// What these ask for themselves.
    offer_of_strangers: Offer,
    changes: BTreeMap<PublicKey, Vec<u64>>,
    roles: BTreeMap<PublicKey, NodeRole>,
}

fn key(n: u8) -> PublicKey {
    PublicKey::from_bytes([n; 32])
}

fn offer(dollars: f64) -> Offer {
    Offer { micro_usd_per_hour: (dollars > 0.0).then_some((dollars * 1e6) as u64), ..Offer::default() }
}

fn config(activation: Activation) -> CapacityConfig {
    CapacityConfig {
        activation,
        gamma: 1.1,
        batch: BATCH,
        period: Some(2),
        prices: Prices::default(),
        learner_price: 1.0,
    }
}

impl Town {
    fn new(activation: Activation, nodes: impl IntoIterator<Item = (u8, f64, f64)>) -> Self {
        let nodes = nodes.into_iter().map(|(n, rate, price)| (key(n), (rate, offer(price)))).collect();
        let mut town = Self {
            capacity: Capacity::new(config(activation), UnixMillis(0)),
            now: 0,
            nodes,
            owed: BTreeMap::new(),
            silent: Vec::new(),
            slow: Vec::new(),
            paused: Vec::new(),
            with_sleep: false,
            asleep_until: BTreeMap::new(),
            starves: false,
            strangers: Vec::new(),
            offer_of_strangers: Offer::default(),
            changes: BTreeMap::new(),
            roles: BTreeMap::new(),
        };
        town.beat(None);
        town.capacity.published(UnixMillis(0), PolicyVersion(0));
        town.now = 1_000;
        town.beat(Some(PolicyVersion(0)));
        town
    }

    fn beat(&mut self, installed: Option<PolicyVersion>) {
        let now = UnixMillis(self.now);
        for stranger in &self.strangers {
            let versions = [installed, None];
            for installed in versions {
                let offer = self.offer_of_strangers.clone();
                let beat = Beat { installed, declared: 50.0, offer, ..Beat::default() };
                self.capacity.heard(now, *stranger, beat);
            }
        }
        for (node, (rate, offer)) in self.nodes.iter().filter(|(node, _)| !self.silent.contains(node)) {
            let is_awake = !self.with_sleep || self.asleep_until.get(node).is_none_or(|at| *at <= self.now);
            let too_slow = self.slow.contains(node);
            let generates = is_awake && !too_slow && !self.paused.contains(node);
            let has_work = self.capacity.role(node) == NodeRole::Active && generates;
            let offer = offer.clone();
            let beat = Beat { installed, declared: *rate, has_work, too_slow, is_known: true, offer };
            self.capacity.heard(now, *node, beat);
            let asks = is_awake && !self.paused.contains(node);
            if asks && self.capacity.asks(now, node) == NodeRole::Resting && self.with_sleep {
                self.asleep_until.insert(*node, self.now + 600_000);
            }
            if has_work {
                let owed = self.owed.entry(*node).or_default();
                *owed += rate;
                let whole = *owed as u64;
                *owed -= whole as f64;
                if whole > 0 {
                    self.capacity.accepted(node, whole);
                }
            }
        }
    }

    /// Lets seconds pass, with an update every ten of them.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += 1_000;
            self.beat(Some(PolicyVersion(0)));
            if self.now.is_multiple_of(10_000) {
                self.capacity.updated(UnixMillis(self.now), TRAIN_S);
            }
            if self.starves {
                self.capacity.waits(UnixMillis(self.now));
            }
            self.capacity.tick(UnixMillis(self.now));
            for node in self.nodes.keys() {
                let role = self.capacity.role(node);
                if self.roles.insert(*node, role).is_some_and(|before| before != role) {
                    self.changes.entry(*node).or_default().push(self.now);
                }
            }
        }
    }

    fn of_role(&self, role: NodeRole) -> Vec<u8> {
        let of_role = self.nodes.keys().filter(|node| self.capacity.role(node) == role);
        of_role.map(|node| node.as_bytes()[0]).collect()
    }
}

#[test]
fn nothing_is_asked_before_five_updates_and_small_fleets_of_volunteers_all_work() {
    let mut town = Town::new(Activation::Cheapest, (0..40).map(|n| (n, 0.5, 0.0)));
    town.pass(48);
    assert_eq!((town.capacity.target(), town.of_role(NodeRole::Active).len()), (None, 40));
    let mut small = Town::new(Activation::Cheapest, (0..15).map(|n| (n, 5.0, 0.0)));
    small.pass(600);
    assert_eq!(small.of_role(NodeRole::Active).len(), 15);
    let mut all = Town::new(Activation::All, (0..40).map(|n| (n, 0.5, 0.1)));
    all.pass(600);
    assert_eq!(all.of_role(NodeRole::Active).len(), 40);
}

#[test]
fn the_equations_give_what_the_learner_needs() {
    let mut town = Town::new(Activation::All, (0..4).map(|n| (n, 1.0, 0.0)));
    town.pass(100);
    let report = town.capacity.report();
    assert_eq!((report.train_s, report.broadcast_s), (Some(TRAIN_S), Some(1.0)));
    assert!((report.required.unwrap() - REQUIRED).abs() < 1e-9);
    assert!((report.target.unwrap() - 1.1 * REQUIRED).abs() < 1e-9);
    assert!((report.pool - 4.0).abs() < 0.3, "{}", report.pool);
    // On-policy, nothing overlaps, and nothing is asked.
    let on_policy = CapacityConfig { period: None, ..config(Activation::Cheapest) };
    let mut capacity = Capacity::new(on_policy, UnixMillis(0));
    capacity.restore(town.capacity.state());
    assert_eq!(capacity.target(), None);
}

#[test]
fn the_surplus_rests_and_nobody_changes_twice_within_a_period() {
    let mut town = Town::new(Activation::Cheapest, (0..40).map(|n| (n, 0.5, 0.0)));
    town.pass(1_200);
    let active = town.of_role(NodeRole::Active).len() as f64;
    // 3.7 rollouts a second with a margin of a tenth are eight or nine nodes of 0.5.
    assert!((8.0..=11.0).contains(&active), "{active}");
    let standby = town.of_role(NodeRole::Standby).len();
    assert!((1..=4).contains(&standby), "{standby}");
    let notice = town.capacity.rest();
    assert_eq!((notice.working, notice.present), (active as u32, 40));
    for times in town.changes.values() {
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= PERIOD_MS), "{times:?}");
    }
    // Once it has settled, it stays.
    town.changes.clear();
    town.pass(1_200);
    let changed: usize = town.changes.values().map(Vec::len).sum();
    assert!(changed <= 4, "{changed} changes in twenty minutes: {:?}", town.changes);
}

#[test]
fn the_cheapest_work_and_cost_no_more_than_the_prefix_and_one_node() {
    // Ten dear nodes work; then cheap ones and volunteers come.
    let mut town = Town::new(Activation::Cheapest, (0..10).map(|n| (n, 0.5, 3.0)));
    town.pass(120);
    assert!(town.of_role(NodeRole::Active).len() >= 8);
    let offers =
        (10..20).map(|n| (key(n), (0.5, offer(0.35)))).chain((20..22).map(|n| (key(n), (0.5, offer(0.0)))));
    town.nodes.extend(offers);
    town.pass(1_800);
    let active = town.of_role(NodeRole::Active);
    assert!(active.contains(&20) && active.contains(&21), "{active:?}");
    let report = town.capacity.report();
    assert!(report.pool >= report.target.unwrap(), "{report:?}");
    // Two volunteers and six or seven cheap ones are enough.
    let price = |n: &u8| match n {
        0..10 => 3.0,
        10..20 => 0.35,
        _ => 0.0,
    };
    let cost: f64 = active.iter().map(price).sum();
    assert!(cost <= 7.0 * 0.35 + 3.0 + 1e-9, "{cost} for {active:?}");
    assert!(active.iter().filter(|n| **n < 10).count() <= 1, "{active:?}");
}

#[test]
fn a_fault_brings_in_standby_nodes_at_once() {
    let mut town = Town::new(Activation::Cheapest, (0..20).map(|n| (n, 1.0, 0.0)));
    town.pass(900);
    let (active, standby) = (town.of_role(NodeRole::Active), town.of_role(NodeRole::Standby));
    assert!(active.len() < 8 && !standby.is_empty(), "{active:?} {standby:?}");
    // Two fall silent: more than the margin. Three seconds later they count as lost.
    town.silent = active[..2].iter().map(|n| key(*n)).collect();
    town.pass(6);
    let report = town.capacity.report();
    assert!(report.pool >= report.target.unwrap(), "{report:?}");
    assert!(standby.iter().any(|n| town.capacity.role(&key(*n)) == NodeRole::Active));
    // Those that are gone are replaced at the next look as well.
    let gone: Vec<u8> =
        town.of_role(NodeRole::Active).into_iter().filter(|n| !town.silent.contains(&key(*n))).collect();
    for n in &gone[..2] {
        town.capacity.gone(&key(*n));
        town.nodes.remove(&key(*n));
    }
    town.pass(2);
    let report = town.capacity.report();
    assert!(report.pool >= report.target.unwrap(), "{report:?}");
}

#[test]
fn a_later_process_goes_on_with_rates_and_costs() {
    let mut town = Town::new(Activation::Cheapest, (0..20).map(|n| (n, 1.0, 0.5)));
    town.pass(600);
    let state = town.capacity.state();
    let text = serde_json::to_string(&state).unwrap();
    let mut later = Capacity::new(config(Activation::Cheapest), UnixMillis(0));
    later.restore(serde_json::from_str(&text).unwrap());
    assert_eq!(later.required(), town.capacity.required());
    assert_eq!(later.report().usd, town.capacity.report().usd);
    assert!(later.report().usd > 0.1, "ten minutes of a learner of a dollar an hour, and nodes");
    later.heard(UnixMillis(1), key(3), Beat::default());
    assert!((later.pool() - 1.0).abs() < 0.2, "{}", later.pool());
}

#[test]
fn what_is_missing_is_wanted_of_the_cheapest_class() {
    let prices = Prices::new([("a100".to_owned(), 3.06), ("rtx5090".to_owned(), 0.35)]);
    let mut capacity =
        Capacity::new(CapacityConfig { prices, ..config(Activation::Cheapest) }, UnixMillis(0));
    // Nothing is measured, and nobody is there: one of the cheapest.
    let first = capacity.provision().unwrap();
    assert_eq!((first.target, first.nodes["rtx5090"].wanted, first.nodes["a100"].wanted), (None, 1, 0));
    let state =
        CapacityState { updates: vec![TRAIN_S; 5], broadcasts: vec![1.0], ..CapacityState::default() };
    capacity.restore(state);
    let of_class = |class: &str| Offer { class: Some(class.into()), ..Offer::default() };
    let beat = |class, declared| Beat { declared, offer: of_class(class), ..Beat::default() };
    capacity.heard(UnixMillis(1), key(1), beat("a100", 0.8));
    capacity.heard(UnixMillis(1), key(2), beat("rtx5090", 0.5));
    capacity.tick(UnixMillis(2_000));
    let request = capacity.provision().unwrap();
    // 3.7 - 1.3 rollouts a second are five more of 0.5.
    assert_eq!(request.nodes["rtx5090"], ClassCount { present: 1, wanted: 6 });
    assert_eq!(request.nodes["a100"], ClassCount { present: 1, wanted: 1 });
    assert!(!request.is_met() && request.spare.is_empty());
    assert_eq!(capacity.all_released().nodes["rtx5090"], ClassCount { present: 1, wanted: 0 });
}

#[test]
fn nothing_more_is_asked_while_nodes_are_measured_and_who_rests_may_be_stopped() {
    let prices = Prices::new([("rented".to_owned(), 0.5)]);
    let config = CapacityConfig { prices, ..config(Activation::Cheapest) };
    let mut capacity = Capacity::new(config, UnixMillis(0));
    let offer = Offer { label: Some("rented".into()), ..Offer::default() };
    let beat = Beat { declared: 1.0, offer, ..Beat::default() };
    capacity.heard(UnixMillis(1), key(1), beat.clone());
    assert_eq!(capacity.provision(), None);
    let state =
        CapacityState { updates: vec![TRAIN_S; 5], broadcasts: vec![1.0], ..CapacityState::default() };
    capacity.restore(state);
    // Twelve of them bring three times what is needed: one after the other is released.
    for second in 1..900 {
        let now = UnixMillis(1_000 * second);
        for node in 1..=12 {
            capacity.heard(now, key(node), beat.clone());
            capacity.asks(now, &key(node));
        }
        capacity.tick(now);
    }
    let request = capacity.provision().unwrap();
    let report = capacity.report();
    assert!(report.resting > 0, "{report:?}");
    let rented = request.nodes["rented"];
    assert_eq!((rented.present, rented.wanted), (12, 12 - report.resting));
    assert_eq!(request.spare.len() as u64, report.resting);
}

/// One class of nodes has a price, and what a run needs is known.
fn renting() -> Capacity {
    let prices = Prices::new([("rented".to_owned(), 0.5)]);
    let mut capacity =
        Capacity::new(CapacityConfig { prices, ..config(Activation::Cheapest) }, UnixMillis(0));
    let state =
        CapacityState { updates: vec![TRAIN_S; 5], broadcasts: vec![1.0], ..CapacityState::default() };
    capacity.restore(state);
    capacity
}

#[test]
fn rented_nodes_without_a_record_are_counted_on_and_other_strangers_are_not() {
    let mut capacity = renting();
    let rented = Offer { label: Some("rented".into()), ..Offer::default() };
    let beat = |declared, is_known, offer: &Offer| Beat {
        declared,
        is_known,
        offer: offer.clone(),
        ..Beat::default()
    };
    capacity.heard(UnixMillis(1), key(1), beat(1.0, true, &rented));
    capacity.heard(UnixMillis(1), key(2), beat(50.0, false, &Offer::default()));
    // 3.7 - 1.0 rollouts a second are three more of 1.0, whatever the stranger says.
    assert_eq!(capacity.provision().unwrap().nodes["rented"], ClassCount { present: 1, wanted: 4 });
    (3..=5).for_each(|node| capacity.heard(UnixMillis(2), key(node), beat(1.0, false, &rented)));
    let request = capacity.provision().unwrap();
    assert_eq!(request.nodes["rented"], ClassCount { present: 4, wanted: 4 });
    assert_eq!(capacity.pool(), 1.0, "they put nobody to rest");
}

#[test]
fn free_keys_that_name_a_class_have_no_machines_rented_for_them() {
    let mut capacity = renting();
    let offer = Offer { label: Some("rented".into()), ..Offer::default() };
    let beat = |declared, is_known| Beat { declared, is_known, offer: offer.clone(), ..Beat::default() };
    capacity.heard(UnixMillis(1), key(1), beat(1.0, true));
    let rented = |capacity: &Capacity| capacity.provision().unwrap().nodes["rented"];
    assert_eq!(rented(&capacity), ClassCount { present: 1, wanted: 4 });
    // A program that has one machine, and reads that 166 are to be there, would start 165.
    (100..=200).for_each(|n| capacity.heard(UnixMillis(2), key(n), beat(0.0, false)));
    assert_eq!((capacity.provision(), capacity.doubted_class()), (None, Some(("rented".to_owned(), 101))));
    // As many as have a record are believed beside those.
    (100..=160).for_each(|n| capacity.heard(UnixMillis(3), key(n), beat(0.0, true)));
    assert_eq!(capacity.doubted_class(), None);
    assert!(rented(&capacity).wanted > 102);
}

#[test]
fn slow_volunteers_do_not_take_the_place_of_those_who_bring_something() {
    // Forty volunteers who would be enough by their rates, and whose orders would all come too late.
    let fast = (0..12).map(|n| (n, 0.5, 0.35));
    let mut town = Town::new(Activation::Cheapest, fast.chain((100..140).map(|n| (n, 0.2, 0.0))));
    town.slow = (100..140).map(key).collect();
    town.pass(1_800);
    let active = town.of_role(NodeRole::Active).into_iter().filter(|n| *n < 100).count();
    assert!(active >= 8, "{active} of eight that are needed");
    let standby = town.of_role(NodeRole::Standby);
    assert!(standby.iter().all(|n| *n < 100), "{standby:?}");
    let report = town.capacity.report();
    assert!(report.pool >= report.target.unwrap() && report.pool <= 6.0, "{report:?}");
}

/// What the cheapest nodes cost that bring `target`, and what those cost that work, in dollars an hour;
/// with the dearest of these.
fn costs(town: &Town, target: f64) -> (f64, f64, f64) {
    let price = |offer: &Offer| offer.micro_usd_per_hour.map_or(0.0, |micro| micro as f64 / 1e6);
    let mut all: Vec<(f64, f64)> = town.nodes.values().map(|(rate, offer)| (price(offer), *rate)).collect();
    all.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    let (mut prefix, mut brought) = (0.0, 0.0);
    for (price, rate) in all {
        if brought >= target {
            break;
        }
        (prefix, brought) = (prefix + price, brought + rate);
    }
    let active = town.of_role(NodeRole::Active);
    let prices: Vec<f64> = active.iter().map(|n| price(&town.nodes[&key(*n)].1)).collect();
    (prefix, prices.iter().sum(), prices.iter().copied().fold(0.0, f64::max))
}

#[test]
fn drawn_fleets_settle_at_the_cheapest_nodes_and_do_not_flap() {
    for seed in 0..8 {
        let mut draws = Draws::new([seed; 32]);
        let mut below = |count: u64| draws.next_u64() % count;
        let nodes: Vec<(u8, f64, f64)> = (0..(20 + below(20)) as u8)
            .map(|n| {
                let price = [0.0, 0.2, 0.35, 3.06][below(4) as usize];
                (n, (1 + below(8)) as f64 / 4.0, price)
            })
            .collect();
        let mut town = Town::new(Activation::Cheapest, nodes);
        town.pass(2_400);
        town.changes.clear();
        town.pass(600);
        let report = town.capacity.report();
        assert!(report.pool >= 0.95 * report.target.unwrap(), "seed {seed}: {report:?}");
        // What is measured of a node wavers by some percent.
        let (prefix, cost, dearest) = costs(&town, 1.1 * report.target.unwrap());
        assert!(cost <= prefix + dearest + 1e-9, "seed {seed}: {cost} for {prefix} and {dearest}");
        for times in town.changes.values() {
            assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= PERIOD_MS), "seed {seed}: {times:?}");
        }
        let changed: usize = town.changes.values().map(Vec::len).sum();
        assert!(changed <= town.nodes.len() / 4, "seed {seed}: {changed} changes in ten minutes");
    }
}

#[test]
fn who_was_told_to_rest_counts_when_it_asks_again_and_standby_nodes_are_awake() {
    let mut town = Town::new(Activation::Cheapest, (0..40).map(|n| (n, 0.5, 0.0)));
    town.with_sleep = true;
    town.pass(1_200);
    let awake = |town: &Town, n: u8| town.asleep_until.get(&key(n)).is_none_or(|at| *at <= town.now);
    let standby = town.of_role(NodeRole::Standby);
    assert!(standby.iter().any(|n| awake(&town, *n)), "{standby:?} at {}", town.now);
    // All that work vanish at once: who sleeps is chosen, and counts as soon as it asks.
    for n in town.of_role(NodeRole::Active) {
        town.capacity.gone(&key(n));
        town.nodes.remove(&key(n));
    }
    town.pass(2);
    let working = town.of_role(NodeRole::Active).into_iter().filter(|n| awake(&town, *n)).count();
    assert!(working >= 1 && town.capacity.pool() <= 0.5 * working as f64 + 0.3, "{}", town.capacity.pool());
    let chosen = town.of_role(NodeRole::Active).len();
    assert!((8..=12).contains(&chosen), "{chosen}");
    town.pass(60);
    assert!(town.of_role(NodeRole::Active).len() <= chosen + 2, "who is on its way is counted on");
    town.pass(600);
    let report = town.capacity.report();
    assert!(report.pool >= report.target.unwrap(), "{report:?}");
}

#[test]
fn a_learner_that_waits_although_the_pool_seems_enough_has_more_nodes_work() {
    let mut town = Town::new(Activation::Cheapest, (0..40).map(|n| (n, 0.5, 0.0)));
    town.pass(1_200);
    let (before, target) = (town.of_role(NodeRole::Active).len(), town.capacity.target().unwrap());
    town.starves = true;
    town.pass(180);
    let during = town.of_role(NodeRole::Active).len();
    assert!(during >= before + 2, "{before} and {during}");
    // Batches come again: what was added is let go again, a few at once.
    town.starves = false;
    town.capacity.goes_on(0, 8);
    town.pass(3_600);
    assert!(town.capacity.target().unwrap() < 1.02 * target);
    assert!(town.of_role(NodeRole::Active).len() <= before + 1);
}

#[test]
fn a_fleet_whose_size_is_that_of_a_small_one_does_not_flap() {
    let mut town = Town::new(Activation::Cheapest, (0..16).map(|n| (n, 1.0, 0.0)));
    town.pass(900);
    let active = town.of_role(NodeRole::Active).len();
    assert!(active < 8, "{active}");
    // One that rests comes and goes: the fleet has fifteen nodes, and sixteen again.
    let last = *town.of_role(NodeRole::Resting).last().unwrap();
    let offered = town.nodes[&key(last)].clone();
    for _ in 0..10 {
        town.capacity.gone(&key(last));
        town.nodes.remove(&key(last));
        town.pass(30);
        assert!(town.of_role(NodeRole::Active).len() <= active + 1);
        town.nodes.insert(key(last), offered.clone());
        town.pass(30);
    }
}

#[test]
fn who_asks_for_nothing_brings_nothing_and_is_missed() {
    let mut town = Town::new(Activation::Cheapest, (0..30).map(|n| (n, 0.5, 0.0)));
    town.pass(1_200);
    // The owners of all that work pause them; their heartbeats go on.
    town.paused = town.of_role(NodeRole::Active).into_iter().map(key).collect();
    town.pass(120);
    let report = town.capacity.report();
    assert!(report.pool >= report.target.unwrap(), "{report:?}");
    let working =
        town.of_role(NodeRole::Active).into_iter().filter(|n| !town.paused.contains(&key(*n))).count();
    assert!(working >= 7, "{working} of eight");
    // Who comes back is taken again as any other.
    town.paused.clear();
    town.pass(600);
    let report = town.capacity.report();
    assert!(report.pool >= report.target.unwrap() && report.active <= 12, "{report:?}");
}

#[test]
fn free_keys_that_promise_much_put_nobody_to_rest() {
    for strangers in [12, 60] {
        let mut town = Town::new(Activation::Cheapest, (0..4).map(|n| (n, 1.0, 0.0)));
        // Before anything is measured, all are to work.
        town.strangers = (100..100 + strangers).map(key).collect();
        town.pass(1_200);
        let report = town.capacity.report();
        assert!((3.5..4.5).contains(&report.pool), "the pool is what is brought: {report:?}");
        assert_eq!(town.of_role(NodeRole::Active), [0, 1, 2, 3]);
        // Nor do they say how long a broadcast takes.
        for version in (1..=5).map(PolicyVersion) {
            town.capacity.published(UnixMillis(town.now), version);
            for stranger in &town.strangers {
                let beat = Beat { installed: Some(version), ..Beat::default() };
                town.capacity.heard(UnixMillis(town.now), *stranger, beat);
            }
        }
        assert_eq!(town.capacity.report().broadcast_s, Some(1.0));
    }
    // Where nothing but strangers is there, they are all that there is.
    let mut alone = Capacity::new(config(Activation::Cheapest), UnixMillis(0));
    alone.heard(UnixMillis(0), key(1), Beat { declared: 2.0, ..Beat::default() });
    assert_eq!(alone.pool(), 2.0);
    // One that has gone leaves the others as they were.
    alone.heard(UnixMillis(0), key(2), Beat { declared: 3.0, is_known: true, ..Beat::default() });
    assert_eq!(alone.pool(), 3.0);
    alone.gone(&key(2));
    assert_eq!(alone.pool(), 2.0);
}

#[test]
fn who_has_a_record_and_asks_for_nothing_is_replaced() {
    let mut town = Town::new(Activation::Cheapest, (0..20).map(|n| (n, 1.0, 0.0)));
    town.pass(900);
    town.paused = town.of_role(NodeRole::Active).into_iter().map(key).collect();
    assert!(!town.paused.is_empty());
    town.pass(120);
    let active = town.of_role(NodeRole::Active);
    let working = active.iter().filter(|n| !town.paused.contains(&key(**n))).count() as f64;
    assert!(working >= town.capacity.target().unwrap(), "{active:?}");
    // Asking is enough, where there is nothing to be had.
    let asking = town.paused[0];
    for _ in 0..60 {
        town.capacity.asks(UnixMillis(town.now), &asking);
        town.pass(1);
    }
    let worker = &town.capacity.workers[&asking];
    assert!(worker.role != NodeRole::Active || town.capacity.rate(worker) > 0.0);
}
