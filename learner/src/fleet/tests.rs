use super::mesh::{SMALL_FLEET, SOURCE_PLACES};
use super::*;
use crate::common::testing::network;
use echo_protocol::control::heartbeat::Reach;
use echo_protocol::control::requests::MAX_NEIGHBOURS;
use echo_protocol::dissemination::NeighbourRole;
use echo_protocol::wire::content_id::ContentId;

fn key(n: u32) -> PublicKey {
    PublicKey::from_bytes(*ContentId::of(&n.to_le_bytes()).as_bytes())
}

const SOURCE: u32 = u32::MAX;

fn fleet(mode: DisseminationMode) -> Fleet {
    let config = FleetConfig {
        mode,
        uplink: BytesPerSec(25_000_000),
        node_uplink: Some(BytesPerSec(12_500_000)),
        owners: Owners::Network,
        seed: [7; 32],
    };
    Fleet::new(Peer { key: key(SOURCE), addresses: vec!["/learner".into()] }, config)
}

fn beat() -> Heartbeat {
    Heartbeat { relays: true, addresses: vec!["/node".into()], ..Heartbeat::default() }
}

fn installed(version: u64) -> Heartbeat {
    Heartbeat { installed: Some(PolicyVersion(version)), ..beat() }
}

/// A fleet of `n` nodes that has been ranked and waits for version 1.
fn of(mode: DisseminationMode, n: u32) -> Fleet {
    let mut fleet = fleet(mode);
    (1..=n).for_each(|node| fleet.heartbeat(UnixMillis(0), key(node), beat()).unwrap());
    fleet.rank(UnixMillis(0));
    fleet.published(UnixMillis(0), PolicyVersion(1));
    fleet
}

fn roles(fleet: &Fleet, now: u64, node: &PublicKey) -> Vec<(PublicKey, NeighbourRole)> {
    let neighbourhood = fleet.neighbourhood(UnixMillis(now), node).unwrap();
    neighbourhood.neighbours.iter().map(|n| (n.peer.key, n.role)).collect()
}

fn parent(fleet: &Fleet, now: u64, node: &PublicKey) -> PublicKey {
    roles(fleet, now, node)[0].0
}

fn report(peer: PublicKey, bytes: u64, failed: u32, rotten: bool) -> UplinkReport {
    UplinkReport { peer, bytes, bytes_per_s: 0, failed, rotten }
}

#[test]
fn chains_give_a_parent_and_a_standby_and_the_star_only_the_source() {
    let fleet = of(DisseminationMode::Chain, 6);
    let chain = fleet.chains().chain(0);
    assert_eq!((fleet.chains().count(), chain.len()), (2, 3));
    let me = key(SOURCE);
    assert_eq!(roles(&fleet, 0, &chain[0]), [(me, NeighbourRole::Parent)]);
    assert_eq!(
        roles(&fleet, 0, &chain[1]),
        [(chain[0], NeighbourRole::Parent), (me, NeighbourRole::Standby)]
    );
    assert_eq!(
        roles(&fleet, 0, &chain[2]),
        [(chain[1], NeighbourRole::Parent), (chain[0], NeighbourRole::Standby)]
    );
    assert_eq!(fleet.neighbourhood(UnixMillis(0), &key(99)), None);
    assert_eq!(roles(&of(DisseminationMode::Star, 3), 0, &key(2)), [(me, NeighbourRole::Parent)]);
}

#[test]
fn in_a_small_fleet_everybody_is_everybodys_neighbour() {
    let fleet = of(DisseminationMode::Echo, SMALL_FLEET as u32);
    for node in fleet.members().keys() {
        let named = roles(&fleet, 0, node);
        assert_eq!(named.len(), SMALL_FLEET, "all others and the source: {named:?}");
        assert_eq!(named.iter().filter(|(_, role)| *role == NeighbourRole::Parent).count(), 1);
        assert!(named.iter().all(|(key, _)| key != node));
    }
}

#[test]
fn in_a_large_fleet_lists_stay_short_and_the_source_has_few_places() {
    let fleet = of(DisseminationMode::Echo, 400);
    let lists: Vec<_> = fleet.members().keys().map(|node| roles(&fleet, 0, node)).collect();
    assert!(lists.iter().all(|list| (4..=MAX_NEIGHBOURS).contains(&list.len())));
    let served = lists.iter().filter(|list| list.iter().any(|(key, _)| *key == self::key(SOURCE))).count();
    assert!((SOURCE_PLACES..=SOURCE_PLACES + 4).contains(&served), "{served}");
}

#[test]
fn a_silent_node_is_nobodys_neighbour_and_its_child_goes_to_its_parent() {
    let mut fleet = of(DisseminationMode::Chain, 6);
    let chain = fleet.chains().chain(0);
    let late = LOST_AFTER_MS + 1;
    let others: Vec<_> = fleet.members().keys().filter(|node| **node != chain[1]).copied().collect();
    others.iter().for_each(|node| fleet.heartbeat(UnixMillis(late), *node, beat()).unwrap());
    assert_eq!(fleet.expire(UnixMillis(late)), [], "still a member");
    assert_eq!(parent(&fleet, late, &chain[2]), chain[0]);
    // It comes back, at a tail.
    fleet.heartbeat(UnixMillis(late + 1), chain[1], beat()).unwrap();
    assert_eq!(fleet.chains().behind(&chain[1]).next(), None);
    assert_eq!(fleet.expire(UnixMillis(late + ACTIVE_FOR_MS + 2)).len(), 6);
    assert!(fleet.members().is_empty() && fleet.chains().is_empty());
}

#[test]
fn a_closed_connection_counts_after_a_short_grace() {
    let mut fleet = of(DisseminationMode::Chain, 4);
    let chain = fleet.chains().chain(0);
    fleet.disconnected(UnixMillis(100), &chain[0]);
    fleet.expire(UnixMillis(100 + DISCONNECT_GRACE_MS));
    assert_eq!(parent(&fleet, 100, &chain[1]), chain[0]);
    fleet.expire(UnixMillis(101 + DISCONNECT_GRACE_MS));
    assert_eq!(parent(&fleet, 700, &chain[1]), key(SOURCE));
    // One that is back in time keeps its place.
    let other = fleet.chains().chain(1);
    fleet.disconnected(UnixMillis(800), &other[0]);
    fleet.heartbeat(UnixMillis(900), other[0], beat()).unwrap();
    fleet.expire(UnixMillis(2_000));
    assert_eq!(parent(&fleet, 2_000, &other[1]), other[0]);
}

#[test]
fn a_lost_parent_is_replaced_at_once_for_its_child_and_for_nobody_else() {
    let mut fleet = of(DisseminationMode::Echo, 10);
    let chain = fleet.chains().chain(0);
    fleet.lost(UnixMillis(50), &chain[2], &[chain[1]]);
    let named = roles(&fleet, 50, &chain[2]);
    assert_eq!(named[0], (chain[0], NeighbourRole::Parent));
    assert!(named.iter().all(|(key, _)| *key != chain[1]));
    assert_eq!(parent(&fleet, 50, &chain[3]), chain[2]);
    assert!(fleet.chains().contains(&chain[1]));
    // Later it may have it back.
    assert_eq!(parent(&fleet, 51 + AVOID_MS, &chain[2]), chain[1]);
}

#[test]
fn one_stranger_evicts_nobody_and_several_do() {
    let mut fleet = of(DisseminationMode::Echo, 10);
    let victim = fleet.chains().chain(0)[0];
    let liars: Vec<_> = fleet.members().keys().filter(|node| **node != victim).copied().collect();
    for at in 0..1_000 {
        fleet.lost(UnixMillis(at), &liars[0], &[victim]);
    }
    assert_eq!(fleet.members()[&victim].standing, ForwardingStanding::Forwards);
    fleet.lost(UnixMillis(1_000), &liars[1], &[victim]);
    fleet.lost(UnixMillis(1_000), &liars[2], &[victim]);
    assert_eq!(fleet.members()[&victim].standing, ForwardingStanding::Tail);
    assert_eq!(fleet.chains().behind(&victim).next(), None, "nobody waits for it");
    // A node that is not among one's upstreams cannot be accused: in a chain, the one after it.
    let mut fleet = of(DisseminationMode::Chain, 4);
    let chain = fleet.chains().chain(0);
    fleet.lost(UnixMillis(0), &chain[0], &[chain[1]]);
    assert_eq!(fleet.members()[&chain[1]].record, score::ForwardingRecord::default());
}

#[test]
fn a_node_that_is_silent_and_reported_is_gone_at_once() {
    let mut fleet = of(DisseminationMode::Chain, 6);
    let chain = fleet.chains().chain(0);
    let now = DOUBTFUL_AFTER_MS + 1;
    fleet.heartbeat(UnixMillis(now), chain[2], beat()).unwrap();
    fleet.lost(UnixMillis(now), &chain[2], &[chain[1]]);
    assert!(!fleet.chains().contains(&chain[1]));
}

#[test]
fn one_nodes_word_silences_nobody_whose_heartbeat_is_only_late_and_that_of_two_does() {
    let mut fleet = of(DisseminationMode::Echo, 10);
    let [victim, first, second] = fleet.chains().chain(0)[..3] else { panic!("a chain of five") };
    let now = UnixMillis(DOUBTFUL_AFTER_MS);
    fleet.lost(now, &first, &[victim]);
    assert!(fleet.chains().contains(&victim));
    fleet.lost(now, &second, &[victim]);
    assert!(!fleet.chains().contains(&victim));
}

#[test]
fn one_nodes_word_demotes_nobody_and_that_of_several_does() {
    let mut fleet = of(DisseminationMode::Echo, 10);
    let victim = fleet.chains().chain(0)[0];
    let liars: Vec<_> = fleet.members().keys().filter(|node| **node != victim).copied().collect();
    let says = |fleet: &mut Fleet, at: u64, liar, failed| {
        let heartbeat = Heartbeat { uplinks: vec![report(victim, 0, failed, false)], ..beat() };
        fleet.heartbeat(UnixMillis(at), liar, heartbeat).unwrap();
    };
    for n in 1..=20 {
        says(&mut fleet, u64::from(n) * 1_000, liars[0], n);
    }
    fleet.rank(UnixMillis(20_000));
    assert_eq!(fleet.members()[&victim].standing, ForwardingStanding::Forwards);
    liars[1..4].iter().for_each(|liar| says(&mut fleet, 21_000, *liar, 1));
    fleet.rank(UnixMillis(21_000));
    assert_eq!(fleet.members()[&victim].standing, ForwardingStanding::Tail);
}

#[test]
fn what_the_learner_met_itself_outlives_a_membership() {
    let mut fleet = of(DisseminationMode::Echo, 3);
    fleet.cut_off(&key(1));
    fleet.expire(UnixMillis(ACTIVE_FOR_MS + 1));
    assert!(fleet.members().is_empty());
    (1..=3).for_each(|n| fleet.heartbeat(UnixMillis(10_000), key(n), beat()).unwrap());
    assert_eq!(fleet.members()[&key(1)].standing, ForwardingStanding::Banned);
    assert!(roles(&fleet, 10_000, &key(2)).iter().all(|(other, _)| *other != key(1)));
}

#[test]
fn who_flaps_moves_others_every_ten_seconds_at_most() {
    let mut fleet = of(DisseminationMode::Echo, 20);
    let (mut moves, mut before) = (0, fleet.members()[&key(1)].heartbeat.clone());
    for n in 1..=100 {
        let flapped = Heartbeat {
            reach: if n % 2 == 0 { Reach::Public } else { Reach::Private },
            relays: n % 3 == 0,
            ..beat()
        };
        fleet.heartbeat(UnixMillis(n * HASTY_MS), key(1), flapped).unwrap();
        let now = fleet.members()[&key(1)].heartbeat.clone();
        moves += u64::from((now.reach, now.relays) != (before.reach, before.relays));
        before = now;
    }
    assert!((1..=100 * HASTY_MS / member::SETTLED_MS + 1).contains(&moves), "{moves}");
}

#[test]
fn who_finds_out_that_it_is_public_moves_nobody_and_is_private_at_once_afterwards() {
    let mut fleet = of(DisseminationMode::Echo, 20);
    let at = |n: u64| UnixMillis(n * HASTY_MS);
    let links = |fleet: &Fleet| (1..=20).map(|n| roles(fleet, 0, &key(n))).collect::<Vec<_>>();
    let before = links(&fleet);
    fleet.heartbeat(at(1), key(1), Heartbeat { reach: Reach::Public, ..beat() }).unwrap();
    assert_eq!(links(&fleet), before);
    fleet.heartbeat(at(2), key(1), Heartbeat { reach: Reach::Private, ..beat() }).unwrap();
    assert_eq!(fleet.members()[&key(1)].heartbeat.reach, Reach::Private);
}

#[test]
fn heartbeats_that_follow_too_soon_count_only_for_what_they_install() {
    let mut fleet = of(DisseminationMode::Echo, 3);
    fleet.heartbeat(UnixMillis(HASTY_MS - 1), key(1), Heartbeat { outbox: 7, ..beat() }).unwrap();
    assert_eq!(fleet.members()[&key(1)].heartbeat.outbox, 0);
    fleet.heartbeat(UnixMillis(HASTY_MS - 1), key(1), installed(1)).unwrap();
    assert_eq!(fleet.members()[&key(1)].heartbeat.installed, Some(PolicyVersion(1)));
}

#[test]
fn neither_ones_own_word_nor_an_accomplices_makes_an_uplink() {
    let mut fleet = of(DisseminationMode::Echo, 10);
    let (cap, liar, accomplice) = (BytesPerSec(12_500_000), key(1), key(2));
    let boast = Heartbeat { max_upload: Some(BytesPerSec(u64::MAX)), ..beat() };
    fleet.heartbeat(UnixMillis(1_000), liar, boast).unwrap();
    let uplink = |fleet: &Fleet| fleet.members()[&liar].uplink(cap).unwrap();
    assert_eq!(uplink(&fleet), cap, "as if it had said nothing");
    for second in 1..=10 {
        let heartbeat = Heartbeat { uplinks: vec![report(liar, second * 1_250_000_000, 0, false)], ..beat() };
        fleet.heartbeat(UnixMillis(second * 1_000), accomplice, heartbeat).unwrap();
    }
    assert!(uplink(&fleet) <= BytesPerSec(BELIEVED * cap.0), "{:?}", uplink(&fleet));
}

#[test]
fn the_source_knows_whom_it_serves_first() {
    let fleet = of(DisseminationMode::Echo, 400);
    let consumers = fleet.source_consumers();
    assert!((0..2).all(|chain| consumers.contains(&fleet.chains().chain(chain)[0])));
    let served = |node: &PublicKey| roles(&fleet, 0, node).iter().any(|(other, _)| *other == key(SOURCE));
    assert!(fleet.members().keys().filter(|node| served(node)).all(|node| consumers.contains(node)));
    assert_eq!(
        of(DisseminationMode::Star, 400).source_consumers().len(),
        echo_protocol::dissemination::MAX_SOURCE_CONSUMERS
    );
    // And a node knows who comes after it.
    let chain = of(DisseminationMode::Chain, 6);
    let [first, second, third] = chain.chains().chain(0)[..] else { panic!("two chains of three") };
    assert_eq!(chain.neighbourhood(UnixMillis(0), &first).unwrap().consumers, [second, third]);
}

/// A node says that `peers` served rotten bytes.
fn accuse(fleet: &mut Fleet, at: u64, node: PublicKey, peers: &[PublicKey]) {
    let uplinks = peers.iter().map(|peer| report(*peer, 0, 0, true)).collect();
    fleet.heartbeat(UnixMillis(at), node, Heartbeat { uplinks, ..beat() }).unwrap();
}

/// The nodes have a good record, each in a network of its own.
fn make_known(fleet: &mut Fleet, nodes: &[PublicKey]) {
    for (third, node) in (0..).zip(nodes) {
        fleet.weigh(node, true, network(third));
    }
}

#[test]
fn rotten_peers_are_named_and_put_out_by_a_quorum_while_its_words_last() {
    let mut fleet = of(DisseminationMode::Echo, 6);
    let rotten = fleet.chains().chain(0)[0];
    let others: Vec<_> = fleet.members().keys().filter(|node| **node != rotten).copied().collect();
    make_known(&mut fleet, &others);
    for (n, node) in others.iter().take(3).enumerate() {
        accuse(&mut fleet, 1_000, *node, &[rotten]);
        assert_eq!(fleet.rotten_peers().collect::<Vec<_>>(), [(rotten, n + 1)]);
        assert!(
            roles(&fleet, 1_000, node).iter().all(|(key, _)| *key != rotten),
            "it is not asked to meet it again"
        );
        assert_eq!(matches!(fleet.members()[&rotten].standing, ForwardingStanding::Out(_)), n == 2);
    }
    // Now nobody waits for it, and neither its heartbeats nor rankings bring it back.
    let nobody_waits = |fleet: &Fleet, at| {
        !fleet.chains().contains(&rotten) && others.iter().all(|node| parent(fleet, at, node) != rotten)
    };
    fleet.heartbeat(UnixMillis(2_000), rotten, beat()).unwrap();
    assert!(nobody_waits(&fleet, 2_000));
    fleet.rank(UnixMillis(3_600_000));
    assert!(nobody_waits(&fleet, 3_600_000));
    // Nor does it help to go away until it is forgotten.
    let later = 3_600_001 + ACTIVE_FOR_MS;
    others.iter().for_each(|node| fleet.heartbeat(UnixMillis(later), *node, beat()).unwrap());
    assert_eq!(fleet.expire(UnixMillis(later)), [rotten]);
    fleet.heartbeat(UnixMillis(later + 1), rotten, beat()).unwrap();
    assert!(nobody_waits(&fleet, later + 1));
    // A day later it gets another chance, but not from those that met it.
    let faded = later + corrupt_peers::FADES_MS;
    (0..2).for_each(|n| fleet.rank(UnixMillis(faded + n)));
    assert_eq!(fleet.members()[&rotten].standing, ForwardingStanding::Forwards);
    assert!(fleet.chains().contains(&rotten));
    assert!(others[..3].iter().all(|node| roles(&fleet, faded, node).iter().all(|(key, _)| *key != rotten)));
}

#[test]
fn words_of_strangers_of_one_owner_or_about_many_harm_nobody() {
    let stands = |fleet: &Fleet, nodes: &[PublicKey]| {
        nodes.iter().all(|node| fleet.members()[node].standing == ForwardingStanding::Forwards)
    };
    let mut fleet = of(DisseminationMode::Echo, 10);
    let nodes: Vec<_> = fleet.members().keys().copied().collect();
    let (liars, honest) = nodes.split_at(4);
    // Of whom nothing is known.
    liars.iter().for_each(|liar| accuse(&mut fleet, 1_000, *liar, honest));
    assert!(stands(&fleet, honest));
    for liar in liars {
        assert!(roles(&fleet, 1_000, liar).iter().all(|(key, _)| !honest.contains(key)), "its own loss");
    }
    // Known, but of one network, or of none that is known.
    for network in [network(113), None] {
        let mut fleet = of(DisseminationMode::Echo, 10);
        for liar in liars {
            fleet.weigh(liar, true, network);
            accuse(&mut fleet, 1_000, *liar, &honest[..1]);
        }
        assert!(stands(&fleet, honest));
    }
    // Of several owners, about everybody.
    let mut fleet = of(DisseminationMode::Echo, 10);
    make_known(&mut fleet, liars);
    liars.iter().for_each(|liar| accuse(&mut fleet, 1_000, *liar, honest));
    fleet.rank(UnixMillis(2_000));
    assert!(stands(&fleet, honest));
    // And who has lied since is a stranger again.
    let mut fleet = of(DisseminationMode::Echo, 10);
    make_known(&mut fleet, liars);
    for liar in &liars[1..] {
        fleet.weigh(liar, false, None);
    }
    liars.iter().for_each(|liar| accuse(&mut fleet, 1_000, *liar, &honest[..1]));
    assert!(stands(&fleet, honest));
}

#[test]
fn who_is_pardoned_forwards_again() {
    let mut fleet = of(DisseminationMode::Echo, 6);
    let nodes: Vec<_> = fleet.members().keys().copied().collect();
    let (accused, met, others) = (nodes[0], nodes[1], &nodes[2..]);
    make_known(&mut fleet, others);
    others.iter().for_each(|node| accuse(&mut fleet, 1_000, *node, &[accused]));
    fleet.cut_off(&met);
    assert!(matches!(fleet.members()[&accused].standing, ForwardingStanding::Out(_)));
    assert_eq!(fleet.members()[&met].standing, ForwardingStanding::Banned);
    for node in [accused, met] {
        fleet.pardon(&node);
        assert!(fleet.chains().contains(&node));
    }
    // Nodes say with every heartbeat what they met.
    others.iter().for_each(|node| accuse(&mut fleet, 2_000, *node, &[accused]));
    assert_eq!(fleet.members()[&accused].standing, ForwardingStanding::Forwards);
    // What an earlier process knew is forgiven, too.
    let mut later = self::fleet(DisseminationMode::Echo);
    fleet.cut_off(&met);
    later.restore(fleet.view());
    later.pardon(&met);
    later.heartbeat(UnixMillis(0), met, beat()).unwrap();
    assert_eq!(later.members()[&met].standing, ForwardingStanding::Forwards);
}

#[test]
fn private_nodes_are_never_neighbours_of_each_other_and_dial_those_behind_them() {
    let mut fleet = fleet(DisseminationMode::Chain);
    for n in 1..=6 {
        let reach = if n % 2 == 0 { Reach::Private } else { Reach::Public };
        fleet.heartbeat(UnixMillis(0), key(n), Heartbeat { reach, ..beat() }).unwrap();
    }
    fleet.rank(UnixMillis(0));
    let private = |node: &PublicKey| fleet.members()[node].heartbeat.reach == Reach::Private;
    for node in fleet.members().keys() {
        let neighbourhood = fleet.neighbourhood(UnixMillis(0), node).unwrap();
        let others = neighbourhood.neighbours.iter().map(|n| &n.peer).chain(&neighbourhood.dial);
        for other in others.filter(|peer| peer.key != key(SOURCE)) {
            assert!(!private(node) || !private(&other.key));
        }
        let child = fleet.chains().behind(node).next().filter(|child| private(node) && !private(child));
        if let Some(child) = child {
            assert!(neighbourhood.dial.iter().any(|peer| peer.key == child));
        }
    }
}

#[test]
fn the_measured_and_fast_become_heads_and_the_slow_move_back_between_broadcasts() {
    let mut fleet = of(DisseminationMode::Chain, 6);
    // Everybody reports about its parent: the head of the second chain delivers a tenth of
    // what the others do.
    let chains = [fleet.chains().chain(0), fleet.chains().chain(1)];
    for second in 0..12 {
        for (chain, rates) in chains.iter().zip([[10_000_000, 9_000_000], [1_000_000, 8_000_000]]) {
            for (pair, rate) in chain.windows(2).zip(rates) {
                let heartbeat =
                    Heartbeat { uplinks: vec![report(pair[0], rate * second, 0, false)], ..beat() };
                fleet.heartbeat(UnixMillis(second * 1_000), pair[1], heartbeat).unwrap();
            }
        }
    }
    let now = UnixMillis(12_000);
    for head in [chains[0][0], chains[1][0]] {
        fleet.heartbeat(now, head, beat()).unwrap();
    }
    let standing = |fleet: &Fleet, node: &PublicKey| fleet.members()[node].standing;
    fleet.rank(now);
    let heads = [fleet.chains().chain(0)[0], fleet.chains().chain(1)[0]];
    assert!(
        heads.contains(&chains[0][0]) && heads.contains(&chains[0][1]),
        "the two that were seen to be fast"
    );
    assert_eq!(standing(&fleet, &chains[1][0]), ForwardingStanding::Tail);
    fleet.rank(now.plus(1));
    assert!(matches!(standing(&fleet, &chains[1][0]), ForwardingStanding::Out(_)));
    assert!(!fleet.chains().contains(&chains[1][0]));
    assert_eq!(roles(&fleet, 12_001, &chains[1][0])[0].1, NeighbourRole::Parent, "it still receives");
}

#[test]
fn nothing_is_reshuffled_while_a_broadcast_is_under_way() {
    let mut fleet = of(DisseminationMode::Chain, 6);
    let slow = |version| Heartbeat { max_upload: Some(BytesPerSec(1_000_000)), ..installed(version) };
    (1..=6).for_each(|n| fleet.heartbeat(UnixMillis(4_000), key(n), slow(1)).unwrap());
    fleet.published(UnixMillis(4_000), PolicyVersion(2));
    let before = fleet.chains().clone();
    for at in [5_000, 6_000, 7_000] {
        (1..=6).for_each(|n| fleet.heartbeat(UnixMillis(at), key(n), slow(1)).unwrap());
        fleet.heartbeat(UnixMillis(at), key(7), installed(1)).unwrap();
        fleet.expire(UnixMillis(at));
    }
    assert_eq!(fleet.chains().len(), 7);
    let stayed = fleet.members().keys().filter(|node| **node != key(7));
    assert!(stayed.clone().all(|node| fleet.chains().before(node).next() == before.before(node).next()));
    // All have it: now the newcomer's uplink counts, as all have a record.
    (1..=7).for_each(|n| fleet.has_worked(&key(n), true));
    (1..=6).for_each(|n| fleet.heartbeat(UnixMillis(8_000), key(n), slow(2)).unwrap());
    fleet.heartbeat(UnixMillis(8_000), key(7), installed(2)).unwrap();
    fleet.expire(UnixMillis(8_000));
    assert!([fleet.chains().chain(0)[0], fleet.chains().chain(1)[0]].contains(&key(7)));
}

#[test]
fn times_the_broadcast_once_for_each_node_and_version() {
    let mut fleet = fleet(DisseminationMode::Echo);
    assert_eq!(fleet.broadcast_ms(0.5), None);
    fleet.published(UnixMillis(100), PolicyVersion(2));
    for (node, at) in [(1, 150), (2, 400), (1, 900)] {
        fleet.heartbeat(UnixMillis(at), key(node), installed(2)).unwrap();
    }
    assert_eq!((fleet.broadcast_ms(0.0), fleet.broadcast_ms(1.0)), (Some(50), Some(300)));
}

#[test]
fn strangers_do_not_say_how_long_a_broadcast_takes() {
    let mut fleet = besieged();
    (1..=4).for_each(|node| fleet.has_worked(&key(node), true));
    fleet.published(UnixMillis(0), PolicyVersion(2));
    fleet.heartbeat(UnixMillis(1_000), key(1), installed(2)).unwrap();
    (5..=64).for_each(|node| fleet.heartbeat(UnixMillis(600_000), key(node), installed(2)).unwrap());
    assert_eq!((fleet.broadcast_ms(0.0), fleet.broadcast_ms(1.0)), (Some(1_000), Some(1_000)));
}

#[test]
fn a_node_that_does_not_relay_is_nobodys_neighbour() {
    let mut fleet = of(DisseminationMode::Echo, 3);
    fleet.heartbeat(UnixMillis(0), key(9), Heartbeat { relays: false, ..beat() }).unwrap();
    assert!((1..=3).all(|n| roles(&fleet, 0, &key(n)).iter().all(|(other, _)| *other != key(9))));
    assert_eq!(roles(&fleet, 0, &key(9)).len(), 4);
    assert_eq!(fleet.leaves_among(&fleet.source_consumers()), [key(9)]);
}

/// A fleet of four with a record, and of sixty keys that claim to be fast, and never pass anything on.
fn besieged() -> Fleet {
    let mut fleet = fleet(DisseminationMode::Echo);
    let boast = Heartbeat { max_upload: Some(BytesPerSec(u64::MAX)), ..beat() };
    (1..=4).for_each(|node| fleet.heartbeat(UnixMillis(0), key(node), installed(1)).unwrap());
    (5..=64).for_each(|node| fleet.heartbeat(UnixMillis(0), key(node), boast.clone()).unwrap());
    fleet
}

#[test]
fn strangers_are_nobodys_upstream_where_others_have_worked() {
    let mut fleet = besieged();
    (1..=4).for_each(|node| fleet.has_worked(&key(node), true));
    fleet.rank(UnixMillis(0));
    fleet.published(UnixMillis(0), PolicyVersion(2));
    let trusted: Vec<PublicKey> = [1, 2, 3, 4, SOURCE].map(key).into();
    for node in fleet.members().keys() {
        let upstreams = roles(&fleet, 0, node);
        assert!(!upstreams.is_empty() && upstreams.iter().all(|(key, _)| trusted.contains(key)));
    }
    assert!(
        (1..=4).all(|node| roles(&fleet, 0, &key(node)).iter().any(|(key, _)| *key == self::key(SOURCE)))
    );
    // A stranger that works is an upstream, and who loses its record is none.
    fleet.has_worked(&key(5), true);
    assert!(fleet.chains().contains(&key(5)));
    fleet.has_worked(&key(5), false);
    assert!(!fleet.chains().contains(&key(5)));
    // When nobody has one any more, all are alike again.
    (1..=4).for_each(|node| fleet.has_worked(&key(node), false));
    assert_eq!(fleet.chains().len(), 64);
}

#[test]
fn who_falls_behind_gets_the_learner_and_keeps_who_brought_something() {
    let mut fleet = besieged();
    fleet.rank(UnixMillis(0));
    fleet.published(UnixMillis(0), PolicyVersion(2));
    let behind = (5..=64).map(key).find(|node| {
        let list = roles(&fleet, 0, node);
        list.len() > 2 && list.iter().all(|(other, _)| *other != key(SOURCE))
    });
    let (behind, at) = (behind.unwrap(), 10_001);
    let giver = roles(&fleet, 0, &behind)[2].0;
    for (now, n) in [1_000, at].into_iter().flat_map(|now| (1..=64).map(move |n| (now, n))) {
        let uplinks = if key(n) == behind { vec![report(giver, 1_000, 0, false)] } else { Vec::new() };
        let version = if key(n) == behind { 1 } else { 2 };
        fleet.heartbeat(UnixMillis(now), key(n), Heartbeat { uplinks, ..installed(version) }).unwrap();
    }
    fleet.expire(UnixMillis(at));
    assert_eq!(fleet.laggards().iter().copied().collect::<Vec<_>>(), [behind]);
    assert!(roles(&fleet, at, &behind).iter().any(|(other, _)| *other == key(SOURCE)));
    assert!(fleet.source_consumers().contains(&behind));
    for n in 65..=90 {
        fleet.heartbeat(UnixMillis(at), key(n), installed(2)).unwrap();
    }
    fleet.rank(UnixMillis(at));
    assert!(roles(&fleet, at, &behind).iter().any(|(other, _)| *other == giver), "it has delivered");
    // It has caught up.
    fleet.heartbeat(UnixMillis(at + 300), behind, installed(2)).unwrap();
    fleet.expire(UnixMillis(at + 300));
    assert!(fleet.laggards().is_empty());
}

#[test]
fn a_newcomer_without_a_policy_gets_the_learner_sooner_once_others_have_one() {
    let (newcomer, second) = (key(70), |n: u64| UnixMillis(n * 1_000));
    for others_have_one in [true, false] {
        let mut fleet = besieged();
        fleet.published(second(0), PolicyVersion(2));
        for now in [1, 4, 5] {
            for n in (1..=64).filter(|_| others_have_one) {
                fleet.heartbeat(second(now), key(n), installed(2)).unwrap();
            }
            fleet.heartbeat(second(now), newcomer, beat()).unwrap();
            fleet.expire(second(now));
        }
        assert_eq!(fleet.laggards().contains(&newcomer), others_have_one);
    }
}

#[test]
fn no_crowd_of_strangers_takes_the_places_of_those_that_are_behind_and_have_worked() {
    let mut fleet = besieged();
    (1..=4).for_each(|node| fleet.has_worked(&key(node), true));
    fleet.published(UnixMillis(0), PolicyVersion(2));
    for n in 1..=64 {
        fleet.heartbeat(UnixMillis(20_000), key(n), installed(1)).unwrap();
    }
    fleet.expire(UnixMillis(20_000));
    assert_eq!(fleet.laggards().len(), LAGGARDS);
    assert!((1..=4).all(|node| fleet.laggards().contains(&key(node))));
}
