use super::*;
use crate::common::testing::key;
use crate::intake::leases::{LeaseBook, LeaseConfig, LeaseJournal, LeaseJournalError};
use crate::storage::{MemoryStore, Store, Tree};
use echo_policy::audit::Tolerance;
use echo_policy::model::precision::Precision;
use echo_protocol::run::charter::RunId;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::codec;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::receipt::{Receipt, SEQUENCE_STRETCH};
use proptest::prelude::*;
use std::sync::Arc;

const MINUTE: u64 = 60_000;

fn at(millis: u64) -> UnixMillis {
    UnixMillis(millis)
}

fn network(third: u8) -> NetworkPrefix {
    NetworkPrefix::of(std::net::Ipv4Addr::new(203, 0, third, 9).into())
}

fn run() -> RunId {
    codec::decode(&codec::encode(&key(1), 64).unwrap(), 64).unwrap()
}

fn lie(record: &mut Record, now: u64, peer: PublicKey) -> bool {
    record.refused(at(now), peer, RefuseReason::Reward, Fault::Lie)
}

fn accept(record: &mut Record, groups: u64, peer: PublicKey) {
    (0..groups).for_each(|_| {
        record.accepted(at(0), peer);
    });
}

/// Lies until the peer is not heard.
fn lie_till_struck(record: &mut Record, now: u64, peer: PublicKey) {
    let lies = (1..).find(|_| lie(record, now, peer));
    assert_eq!(lies, Some(RecordConfig::default().suspend_after));
}

fn until(record: &Record, now: u64, peer: &PublicKey) -> Option<Option<u64>> {
    record.hear(at(now), peer).err().map(|silence| silence.until.map(|until| until.0))
}

/// What the draws of a group come to: `second` of them only just lost their race.
fn near_misses(first: usize, second: usize) -> NearMisses {
    let limits = Tolerance::of("bf16", Precision::Bf16, 1.0).unwrap().race;
    let gap = 2.0 * limits.spread;
    let leads: Vec<f64> = std::iter::repeat_n(gap, first).chain(std::iter::repeat_n(-gap, second)).collect();
    NearMisses::of(&leads, &limits)
}

#[test]
fn near_misses_add_up_over_groups_and_are_as_they_were_after_a_restart() {
    let store = Arc::new(MemoryStore::default());
    let journal = RecordJournal::new(store.clone());
    let mut record = Record::new(RecordConfig::default());
    // Each group by itself passes.
    assert!(!near_misses(8, 2).is_alarm());
    let honest = (0..500).any(|_| record.near_misses(at(0), key(2), near_misses(10, 0)).is_some());
    assert!(!honest);
    let mut groups = 0;
    while record.near_misses(at(0), key(1), near_misses(2, 3)).is_none() {
        groups += 1;
        assert!(groups < 64);
        journal.save(&mut record, &[]).unwrap();
        record = journal.load(RecordConfig::default()).unwrap();
    }
    assert!(groups > 2, "{groups}");
    // Whoever stops gets out of it, and so does whom the operator pardons.
    assert_eq!(record.near_misses(at(0), key(1), near_misses(60, 0)), None);
    while record.near_misses(at(0), key(1), near_misses(2, 3)).is_none() {}
    record.decide(at(0), Subject::Peer(key(1)), &Decision::Pardon, 1);
    assert_eq!(record.near_misses(at(0), key(1), near_misses(2, 3)), None);
    // Without races nobody is remembered for it.
    assert_eq!(record.near_misses(at(0), key(9), NearMisses::default()), None);
    assert!(!record.peers().contains_key(&key(9)));
}

#[test]
fn fresh_keys_of_one_network_have_their_near_misses_counted_together() {
    let mut record = Record::new(RecordConfig::default());
    // As many as one key has until it is found.
    let alone = (1u64..).find(|_| record.near_misses(at(0), key(1), near_misses(2, 3)).is_some()).unwrap();
    let fresh = |record: &mut Record, number, from| {
        record.connected(key(number), from);
        record.near_misses(at(0), key(number), near_misses(2, 3))
    };
    let found = (1u64..).find(|n| fresh(&mut record, 100 + *n, Some(network(1))) == Some(Alarm::Network));
    assert_eq!(found, Some(alone), "each group under a key of its own");
    // Where no network is known, nothing is counted together, and elsewhere it begins anew.
    assert!((200..300).all(|number| fresh(&mut record, number, None).is_none()));
    assert_eq!(fresh(&mut record, 300, Some(network(2))), None);
    // Who has a record is none of the newcomers, and an honest newcomer beside them is heard.
    record.connected(key(2), Some(network(1)));
    accept(&mut record, PROBATION, key(2));
    assert_eq!(record.near_misses(at(0), key(2), near_misses(2, 3)), None);
    record.connected(key(3), Some(network(1)));
    assert_eq!(record.near_misses(at(0), key(3), near_misses(60, 0)), None);
    // The operator's pardon is one of all.
    while fresh(&mut record, 400, Some(network(1))).is_none() {}
    record.decide(at(0), Subject::Network(network(1)), &Decision::Pardon, 1);
    assert_eq!(fresh(&mut record, 401, Some(network(1))), None);
}

#[test]
fn honest_newcomers_of_one_network_raise_no_alarm() {
    let mut record = Record::new(RecordConfig::default());
    // Of races that are so close, one in fifteen: the largest share of honest nodes, under 200 keys.
    for number in 0..2_000 {
        let peer = key(100 + number % 200);
        record.connected(peer, Some(network(1)));
        assert_eq!(record.near_misses(at(0), peer, near_misses(14, 1)), None, "{number}");
    }
}

#[test]
fn lies_add_up_to_suspensions_that_double_and_end_in_a_ban() {
    let mut record = Record::new(RecordConfig::default());
    let mut now = 0;
    for minutes in [10, 20, 40] {
        assert_eq!(until(&record, now, &key(1)), None);
        lie_till_struck(&mut record, now, key(1));
        assert_eq!(until(&record, now, &key(1)), Some(Some(now + minutes * MINUTE)));
        let silence = record.hear(at(now), &key(1)).unwrap_err();
        assert!(silence.to_string().contains("the last for reward"), "{silence}");
        now += minutes * MINUTE;
    }
    lie_till_struck(&mut record, now, key(1));
    assert_eq!(until(&record, u64::MAX, &key(1)), Some(None), "a ban has no end");
    assert_eq!(record.peers()[&key(1)].lies, 20);
    assert_eq!(until(&record, now, &key(2)), None, "it is nobody else's");
}

#[test]
fn a_lie_a_day_is_forgiven_and_old_suspensions_too() {
    let mut record = Record::new(RecordConfig::default());
    for day in 0..1_000 {
        assert!(!lie(&mut record, day * DAY_MS, key(1)), "day {day}");
    }
    for month in 0..20 {
        let now = (1_000 + month * 31) * DAY_MS;
        while !lie(&mut record, now, key(1)) {}
        assert_eq!(record.peers()[&key(1)].strikes, 1, "month {month}");
    }
}

#[test]
fn the_operator_bans_and_pardons_whatever_the_record_says() {
    let mut record = Record::new(RecordConfig::default());
    accept(&mut record, 100, key(1));
    record.decide(at(1), Subject::Peer(key(1)), &Decision::Ban("ü".repeat(200)), 70);
    let silence = record.hear(at(u64::MAX), &key(1)).unwrap_err();
    assert_eq!((silence.reason, silence.cause.len()), (RefuseReason::Banned, MAX_REASON_BYTES));
    lie_till_struck(&mut record, 2, key(1));
    assert_eq!(until(&record, u64::MAX, &key(1)), Some(None), "a lie shortens no ban");
    record.decide(at(3), Subject::Peer(key(1)), &Decision::Pardon, 140);
    assert_eq!((until(&record, 3, &key(1)), record.decided()), (None, 140));
    assert_eq!(record.recheck_share(at(3), &key(1)), 1.0, "it begins as a newcomer");
    lie_till_struck(&mut record, 4, key(1));
    assert_eq!(until(&record, 4, &key(1)), Some(Some(4 + 10 * MINUTE)));
    // Somebody of whom nothing is known yet.
    record.decide(at(5), Subject::Peer(key(9)), &Decision::Ban("known from elsewhere".into()), 200);
    assert!(until(&record, 6, &key(9)).is_some());
}

#[test]
fn a_network_falls_when_several_of_its_keys_lied_and_only_for_newcomers() {
    let mut record = Record::new(RecordConfig::default());
    let (here, there) = (network(1), network(2));
    (1..=20).for_each(|n| record.connected(key(n), Some(here)));
    record.connected(key(30), Some(there));
    accept(&mut record, PROBATION, key(20));
    // Many lies of two keys are two liars.
    for now in [0, DAY_MS] {
        (1..=2).for_each(|n| lie_till_struck(&mut record, now, key(n)));
    }
    let now = DAY_MS;
    assert_eq!(until(&record, now, &key(10)), None);
    lie_till_struck(&mut record, now, key(3));
    assert_eq!(until(&record, now, &key(10)), Some(Some(now + 10 * MINUTE)), "a newcomer from there");
    assert_eq!(until(&record, now, &key(20)), None, "who has a record is heard");
    assert_eq!((until(&record, now, &key(30)), until(&record, now, &key(31))), (None, None));
    // Three more; it is not heard for twice as long, and never banned by itself.
    for round in 1..40u64 {
        let now = now + round * DAY_MS;
        (4..=6).for_each(|n| lie_till_struck(&mut record, now, key(100 * round + n)));
        (4..=6).for_each(|n| record.connected(key(100 * round + n), Some(here)));
    }
    assert_ne!(record.networks()[&here].standing, Standing::Banned);
    // The operator may ban it as a whole.
    record.decide(at(now), Subject::Network(here), &Decision::Ban("a farm".into()), 0);
    assert_eq!(until(&record, now, &key(20)), Some(None));
    record.decide(at(now), Subject::Network(here), &Decision::Pardon, 0);
    assert_eq!((until(&record, now, &key(20)), until(&record, now, &key(10))), (None, None));
}

#[test]
fn liars_of_different_networks_make_none_fall() {
    let mut record = Record::new(RecordConfig::default());
    for n in 0..20u8 {
        record.connected(key(n.into()), Some(network(n)));
        lie_till_struck(&mut record, 0, key(n.into()));
        record.connected(key(1_000 + u64::from(n)), Some(network(n)));
        assert_eq!(until(&record, 0, &key(1_000 + u64::from(n))), None);
    }
}

#[test]
fn what_is_looked_at_again_falls_to_the_floor_and_a_lie_brings_it_back() {
    let mut record = Record::new(RecordConfig::default());
    let share = |record: &Record, now| record.recheck_share(at(now), &key(1));
    assert_eq!(share(&record, 0), 1.0);
    let mut before = 1.0;
    for group in 1..=2_000u64 {
        record.accepted(at(0), key(1));
        let now = share(&record, 0);
        assert!(now <= before && now >= 0.05);
        assert_eq!(now == 1.0, group <= PROBATION);
        before = now;
    }
    assert_eq!(before, 0.05);
    assert!(share(&record, 60 * DAY_MS) > 0.9, "who was away is looked at anew");
    lie(&mut record, 0, key(1));
    assert_eq!(share(&record, 0), 1.0);
}

#[test]
fn the_draw_has_the_share_and_depends_on_the_secret() {
    let mut record = Record::new(RecordConfig::default());
    accept(&mut record, PROBATION * 4, key(1));
    let drawn = |secret: u8| -> Vec<bool> {
        let group = |n: u64| *ContentId::of(&n.to_le_bytes()).as_bytes();
        (0..4_000).map(|n| record.rechecks(at(0), &key(1), &[secret; 32], &group(n))).collect()
    };
    let chosen = drawn(1);
    let count = chosen.iter().filter(|chosen| **chosen).count();
    assert!((880..1_120).contains(&count), "{count} of 4000 at a share of 1/4");
    assert_eq!(chosen, drawn(1));
    assert_ne!(chosen, drawn(2));
}

#[test]
fn verdicts_are_looked_at_again_by_the_least_known_of_those_who_gave_them() {
    let mut record = Record::new(RecordConfig::default());
    accept(&mut record, PROBATION * 4, key(1));
    let share = |record: &Record, keys: &[u64]| {
        let keys: Vec<_> = keys.iter().map(|n| key(*n)).collect();
        record.spot_check_share(at(0), &keys)
    };
    assert_eq!((share(&record, &[]), share(&record, &[1])), (1.0, 1.0), "groups say nothing about verdicts");
    for _ in 0..PROBATION * 4 {
        assert!(!record.note_verdict(at(0), key(1), true));
        assert!(!record.note_verdict(at(0), key(2), true));
    }
    assert_eq!((share(&record, &[1, 2]), share(&record, &[1, 2, 3])), (0.25, 1.0));
    assert_eq!(record.recheck_share(at(0), &key(2)), 1.0, "nor verdicts about groups");
    let group = |n: u64| *ContentId::of(&n.to_le_bytes()).as_bytes();
    let drawn = (0..4_000).filter(|n| record.spot_checks(at(0), &[key(1), key(2)], &[1; 32], &group(*n)));
    let drawn = drawn.count();
    assert!((880..1_120).contains(&drawn), "{drawn} of 4000 at a share of 1/4");
    // One false verdict is a lie, and undoes both.
    assert!(!record.note_verdict(at(0), key(1), false));
    assert_eq!((share(&record, &[1, 2]), record.recheck_share(at(0), &key(1))), (1.0, 1.0));
    let lies = (0..4).map(|_| record.note_verdict(at(0), key(1), false)).collect::<Vec<_>>();
    assert_eq!(lies, [false, false, false, true], "five lies suspend");
    assert_eq!(record.peers()[&key(1)].refused[&RefuseReason::FalseVerdict], 5);
}

#[test]
fn a_right_verdict_counts_for_a_week_and_a_false_one_undoes_it() {
    let mut record = Record::new(RecordConfig::default());
    accept(&mut record, PROBATION, key(1));
    assert!(!record.has_judged(at(0), &key(1)), "groups say nothing about verdicts");
    record.note_verdict(at(0), key(1), true);
    let counts = [0, 6, 8].map(|days| record.has_judged(at(days * DAY_MS), &key(1)));
    assert_eq!(counts, [true, true, false]);
    record.note_verdict(at(0), key(1), false);
    assert!(!record.has_judged(at(0), &key(1)));
}

#[test]
fn strangers_are_forgotten_first_and_liars_last() {
    let mut record = Record::new(RecordConfig::default());
    record.decide(at(0), Subject::Peer(key(1)), &Decision::Ban("liar".into()), 0);
    lie_till_struck(&mut record, 0, key(2));
    record.accepted(at(0), key(3));
    lie(&mut record, 0, key(3));
    accept(&mut record, PROBATION, key(4));
    record.accepted(at(0), key(5));
    record.note_verdict(at(0), key(6), true);
    // A flood of liars who deliver nothing displaces only its own.
    for n in 0..MAX_PEERS as u64 + 10 {
        lie(&mut record, 1 << 20, key(1_000_000 + n));
    }
    assert_eq!(record.peers().len(), MAX_PEERS);
    assert!((1..=6).all(|n| record.peers().contains_key(&key(n))));
    // One of newcomers displaces newcomers.
    for n in 0..MAX_PEERS as u64 + 10 {
        record.accepted(at(1 + n), key(1_000 + n));
    }
    assert_eq!(record.peers().len(), MAX_PEERS);
    let known = (1..=5).map(|n| record.peers().contains_key(&key(n)));
    assert_eq!(known.collect::<Vec<_>>(), [true, true, true, true, false]);
    // And one of liars who deliver displaces neither who was suspended nor who is banned.
    for n in 0..MAX_PEERS as u64 + 10 {
        lie(&mut record, 1 << 20, key(1_000 + n));
        record.accepted(at(1 << 20), key(1_000 + n));
    }
    assert!([1, 2].iter().all(|n| record.peers().contains_key(&key(*n))));
    assert_eq!(record.worth.len(), MAX_PEERS);
}

#[test]
fn who_was_forgotten_gets_numbers_that_nobody_has() {
    let mut record = Record::new(RecordConfig::default());
    let now = at(1_800_000_000_000);
    let first = record.accepted(now, key(1));
    assert_eq!(record.accepted(now, key(1)), first + 1);
    for n in 0..MAX_PEERS as u64 {
        record.accepted(now.plus(1 + n), key(1_000 + n));
    }
    assert!(!record.peers().contains_key(&key(1)));
    let again = record.accepted(now.plus(100_000), key(1));
    assert!(
        again > first + 1 && again.is_multiple_of(SEQUENCE_STRETCH),
        "the account of a node takes that for no gap"
    );
    assert_eq!(PeerRecord::new(at(u64::MAX)).receipts / SEQUENCE_STRETCH, u64::from(u32::MAX));
}

fn receipt(node: PublicKey, counter: u64, sequence: u64) -> Receipt {
    Receipt {
        run: run(),
        node,
        sequence,
        counter: OrderCounter(counter),
        group: ContentId::of(b""),
        oldest: PolicyVersion(0),
        newest: PolicyVersion(0),
        trajectories: 1,
        rewards: 0.5,
        at: at(0),
    }
}

#[test]
fn everything_that_matters_survives_a_restart_and_what_was_not_flushed_does_not_come_back_half() {
    let store = Arc::new(MemoryStore::default());
    let journal = RecordJournal::new(store.clone());
    let mut record = Record::new(RecordConfig::default());
    for n in 1..=3 {
        record.connected(key(n), Some(network(1)));
        lie_till_struck(&mut record, 5, key(n));
    }
    let sequence = record.accepted(at(6), key(4));
    record.decide(at(7), Subject::Peer(key(9)), &Decision::Ban("x".into()), 33);
    assert!(record.is_urgent());
    journal.save(&mut record, &[receipt(key(4), 77, sequence)]).unwrap();
    journal.flush().unwrap();
    assert!(!record.is_urgent());
    // Not durable yet.
    record.accepted(at(8), key(4));
    journal.save(&mut record, &[receipt(key(4), 78, 1)]).unwrap();
    store.crash(0);

    let journal = RecordJournal::new(store.clone());
    let mut again = journal.load(RecordConfig::default()).unwrap();
    assert_eq!((again.peers().len(), again.decided()), (5, 33));
    assert_eq!(until(&again, 8, &key(1)), Some(Some(5 + 10 * MINUTE)));
    assert_eq!(until(&again, 8, &key(9)), Some(None));
    again.connected(key(50), Some(network(1)));
    assert!(until(&again, 8, &key(50)).is_some(), "the network has fallen");
    assert_eq!(journal.receipt(&key(4), OrderCounter(77)).unwrap(), Some(receipt(key(4), 77, 0)));
    for (node, counter) in [(4, 78), (4, 77 + RECEIPTS_KEPT), (5, 77)] {
        assert_eq!(journal.receipt(&key(node), OrderCounter(counter)).unwrap(), None);
    }
    assert_eq!(again.accepted(at(9), key(4)), 1, "numbers go on without a gap");
    // One damaged record is one stranger.
    assert!(store.damage(Tree::Peers, key(1).as_bytes(), |bytes| bytes[20] ^= 1));
    let damaged = journal.load(RecordConfig::default()).unwrap();
    assert_eq!((damaged.peers().len(), until(&damaged, 8, &key(1))), (4, None));
}

#[test]
fn who_is_forgotten_leaves_nothing_on_the_disk() {
    let store = Arc::new(MemoryStore::default());
    let journal = RecordJournal::new(store.clone());
    let mut record = Record::new(RecordConfig::default());
    let sequence = record.accepted(at(0), key(1));
    journal.save(&mut record, &[receipt(key(1), 70, sequence)]).unwrap();
    for n in 0..MAX_PEERS as u64 {
        record.accepted(at(1 + n), key(1_000 + n));
    }
    assert!(!record.peers().contains_key(&key(1)));
    journal.save(&mut record, &[]).unwrap();
    assert_eq!(store.get(Tree::Peers, key(1).as_bytes()).unwrap(), None);
    assert_eq!(journal.receipt(&key(1), OrderCounter(70)).unwrap(), None);
}

#[test]
fn after_a_loss_bans_stand_and_receipts_get_numbers_that_nobody_has() {
    let mut record = Record::new(RecordConfig::default());
    accept(&mut record, 7, key(1));
    (0..4).for_each(|_| lie_till_struck(&mut record, 0, key(2)));
    let text = serde_json::to_string(&record.snapshot()).unwrap();
    let snapshot: RecordSnapshot = serde_json::from_str(&text).unwrap();
    assert_eq!(snapshot, record.snapshot());
    let mut after = Record::after_loss(RecordConfig::default(), &snapshot);
    assert_eq!(until(&after, 0, &key(2)), Some(None));
    assert_eq!(after.accepted(at(1), key(1)), SEQUENCE_STRETCH);
    after.forgot();
    for reason in [RefuseReason::Lease, RefuseReason::UnknownVersion] {
        (0..100).for_each(|_| assert!(!after.refused(at(1), key(1), reason, Fault::Lie)));
    }
    assert_eq!(until(&after, 1, &key(1)), None);
}

/// What happens to an honest node and its learner.
#[derive(Clone, Debug)]
enum Op {
    /// A node asks for work.
    Lease { node: u8, orders: u32 },
    /// It delivers one of the orders that it was ever given, perhaps for the second time.
    Deliver { node: u8, which: usize },
    /// The clock moves on, and lies fade.
    Wait { millis: u64 },
    /// It is not heard of for a while.
    Gone { node: u8 },
    /// Its group came too late, or could not be decided on.
    Refuse { node: u8, which: usize },
    /// The learner is killed; so many of its last writes have reached the disk.
    Crash { survivors: usize },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1..4u8, 1..20u32).prop_map(|(node, orders)| Op::Lease { node, orders }),
        8 => (1..4u8, any::<usize>()).prop_map(|(node, which)| Op::Deliver { node, which }),
        2 => (0..3_000u64).prop_map(|millis| Op::Wait { millis }),
        1 => (1..4u8).prop_map(|node| Op::Gone { node }),
        2 => (1..4u8, any::<usize>()).prop_map(|(node, which)| Op::Refuse { node, which }),
        1 => (0..6usize).prop_map(|survivors| Op::Crash { survivors }),
    ]
}

/// Which orders a real buffer would know: they survive a crash.
type Delivered = BTreeSet<OrderCounter>;

fn reload(store: &Arc<MemoryStore>, config: LeaseConfig, delivered: &Delivered) -> LeaseBook {
    let known = |counter: OrderCounter| Ok::<_, LeaseJournalError>(delivered.contains(&counter));
    match LeaseJournal::new(store.clone()).load(config.run, known).unwrap() {
        Some(snapshot) => LeaseBook::restore(config, snapshot, at(0)).unwrap(),
        None => LeaseBook::new(config),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// However often leases run out, nodes go and come, answers are lost and the learner is killed:
    /// what an honest node delivers is never held against it.
    #[test]
    fn an_honest_node_is_always_heard(ops in proptest::collection::vec(op(), 1..200)) {
        let config = LeaseConfig { run: run(), lifetime_ms: 1_000, max_open_per_node: 50 };
        let store = Arc::new(MemoryStore::default());
        let (leases, journal) = (LeaseJournal::new(store.clone()), RecordJournal::new(store.clone()));
        let mut book = LeaseBook::new(config);
        let mut record = Record::new(RecordConfig::default());
        let mut delivered = Delivered::new();
        let mut held: BTreeMap<u8, Vec<(echo_protocol::work::lease::LeaseId, OrderCounter)>> = BTreeMap::new();
        let mut now = at(1);
        for op in ops {
            match op {
                Op::Lease { node, orders } => {
                    let granted = book.grant(now, key(node.into()), orders, 1_000);
                    leases.save(&mut book).unwrap();
                    let orders = granted.iter().flat_map(|l| l.orders().map(|counter| (l.id, counter)));
                    held.entry(node).or_default().extend(orders);
                }
                Op::Deliver { node, which } => {
                    let Some(orders) = held.get(&node).filter(|orders| !orders.is_empty()) else { continue };
                    let (lease, counter) = orders[which % orders.len()];
                    let peer = key(node.into());
                    match book.check(&peer, lease, counter) {
                        Ok(()) => {
                            record.accepted(now, peer);
                            delivered.insert(counter);
                            book.delivered(counter);
                            journal.save(&mut record, &[]).unwrap();
                            journal.flush().unwrap();
                        }
                        Err(refusal) => {
                            let fault = refusal.fault(&book);
                            prop_assert_eq!(fault, Fault::Innocent, "{:?}", refusal);
                            record.refused(now, peer, RefuseReason::Lease, fault);
                        }
                    }
                }
                Op::Wait { millis } => now = now.plus(millis),
                Op::Gone { node } => drop(book.node_gone(&key(node.into()))),
                Op::Refuse { node, which } => {
                    let peer = key(node.into());
                    let innocent = [RefuseReason::Stale, RefuseReason::Duplicate, RefuseReason::Run];
                    let reason = innocent[which % innocent.len()];
                    record.refused(now, peer, reason, Fault::of(reason));
                    if let Some((_, counter)) = held.get(&node).and_then(|orders| orders.first()) {
                        book.give_back(&peer, *counter);
                    }
                }
                Op::Crash { survivors } => {
                    store.crash(survivors);
                    book = reload(&store, config, &delivered);
                    record = journal.load(RecordConfig::default()).unwrap();
                }
            }
            for node in 1..4 {
                prop_assert!(record.hear(now, &key(node)).is_ok());
            }
        }
    }
}
