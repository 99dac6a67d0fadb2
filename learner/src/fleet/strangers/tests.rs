//! What sixty keys that cost nothing say in a fleet that works.

use super::*;
use crate::fleet::{FleetConfig, ForwardingStanding, UNKNOWN_UPLINK};
use crate::reputation::Owners;
use echo_protocol::control::heartbeat::{Heartbeat, UplinkReport};
use echo_protocol::control::requests::Peer;
use echo_protocol::dissemination::DisseminationMode;

/// Nodes with a record.
const HONEST: u32 = 24;
/// Keys without one.
const FREE: u32 = 60;

fn key(n: u32) -> PublicKey {
    PublicKey::from_bytes(*ContentId::of(&n.to_le_bytes()).as_bytes())
}

fn beat() -> Heartbeat {
    Heartbeat { relays: true, addresses: vec!["/node".into()], ..Heartbeat::default() }
}

fn at(second: u64) -> UnixMillis {
    UnixMillis(second * 1_000)
}

/// A fleet in which those that work say nothing of their uplinks, and free keys say this.
fn besieged(claim: Option<BytesPerSec>) -> Fleet {
    let config = FleetConfig {
        mode: DisseminationMode::Echo,
        uplink: BytesPerSec(25_000_000),
        node_uplink: None,
        owners: Owners::Network,
        seed: [7; 32],
    };
    let mut fleet = Fleet::new(Peer { key: key(u32::MAX), addresses: vec!["/learner".into()] }, config);
    for node in 1..=HONEST {
        fleet.heartbeat(at(0), key(node), beat()).unwrap();
        fleet.has_worked(&key(node), true);
    }
    for node in HONEST + 1..=HONEST + FREE {
        fleet.heartbeat(at(0), key(node), Heartbeat { max_upload: claim, ..beat() }).unwrap();
    }
    fleet.rank(at(0));
    fleet
}

#[test]
fn what_free_keys_claim_of_their_uplinks_makes_no_chains() {
    let mut fleet = besieged(Some(BytesPerSec(1)));
    // 25 MB/s feed two nodes of 100 Mbit/s.
    assert_eq!((fleet.node_uplink(), fleet.chains().count()), (UNKNOWN_UPLINK, 2));
    // Those that work are believed.
    let slow = Heartbeat { max_upload: Some(BytesPerSec(5_000_000)), ..beat() };
    (1..=HONEST).for_each(|node| fleet.heartbeat(at(1), key(node), slow.clone()).unwrap());
    fleet.rank(at(1));
    assert_eq!(fleet.chains().count(), 5);
    // So is everybody where nobody has a record.
    (1..=HONEST).for_each(|node| fleet.has_worked(&key(node), false));
    assert_eq!(fleet.node_uplink(), BytesPerSec(1));
}

#[test]
fn words_of_free_keys_move_nobody_who_is_heard_where_others_have_worked() {
    let mut fleet = besieged(None);
    let honest: Vec<PublicKey> = (1..=HONEST).map(key).collect();
    for second in 1..=150 {
        let now = at(second);
        honest.iter().for_each(|node| fleet.heartbeat(now, *node, beat()).unwrap());
        let slander = |peer: &PublicKey| UplinkReport {
            peer: *peer,
            bytes: 0,
            bytes_per_s: 0,
            failed: second as u32,
            rotten: false,
        };
        let uplinks: Vec<UplinkReport> = honest.iter().take(16).map(slander).collect();
        for free in (HONEST + 1..=HONEST + FREE).map(key) {
            fleet.heartbeat(now, free, Heartbeat { uplinks: uplinks.clone(), ..beat() }).unwrap();
            fleet.lost(now, &free, &honest);
        }
        if second % 5 == 0 {
            fleet.rank(now);
        }
    }
    let in_place = |node: &PublicKey| {
        fleet.chains().contains(node) && fleet.members()[node].standing == ForwardingStanding::Forwards
    };
    assert!(honest.iter().all(in_place));
    // Those that work route around one of them at once.
    let lost = fleet.chains().chain(0)[0];
    honest.iter().for_each(|node| fleet.lost(at(151), node, &[lost]));
    assert_eq!(fleet.members()[&lost].standing, ForwardingStanding::Tail);
}
