use super::*;
use crate::dissemination::neighbours::RequestedBlock;
use crate::dissemination::simulation::manifest;
use crate::dissemination::{DisseminationConfig, DisseminationMode, Input, NeighbourRole};
use crate::snapshot::blocks::BLOCK_BYTES;
use crate::wire::content_id::ContentId;
use std::sync::Arc;

const VERSION: PolicyVersion = PolicyVersion(1);
const PIECE: PieceIndex = PieceIndex(0);
/// What the slow takes for a block.
const SLOW_MS: u64 = 900;

fn key(n: u8) -> PublicKey {
    PublicKey::from_bytes(*ContentId::of(&[n]).as_bytes())
}

/// A node that asked a slow neighbour for all blocks of the only piece, and has a helper that is a hundred
/// times as fast.
fn node(now: UnixMillis) -> (Dissemination, PublicKey, PublicKey) {
    let (slow, helper) = (key(1), key(2));
    let config = DisseminationConfig {
        me: key(0),
        source: false,
        serves: false,
        keep_versions: 3,
        mode: DisseminationMode::Echo,
        seed: [1; 32],
    };
    let mut machine = Dissemination::new(config);
    let bytes = 4 << 20;
    let manifest = Arc::new(manifest(1, bytes, bytes as u32, false));
    let wanted = [PIECE].into_iter().collect();
    machine.handle(now, Input::Announced { manifest, have: Default::default(), wanted });
    machine
        .handle(now, Input::Neighbours(vec![(slow, NeighbourRole::Parent), (helper, NeighbourRole::Mesh)]));
    let all = BlockMask(u64::MAX);
    let transfer = machine.versions.get_mut(&VERSION).unwrap();
    transfer.ask(PIECE, all);
    for (peer, block_ms) in [(slow, SLOW_MS), (helper, SLOW_MS / 100)] {
        machine.handle(now, Input::Opened(peer));
        machine.handle(now, Input::Has { peer, version: VERSION, news: vec![(PIECE, all)] });
        let edge = machine.neighbours.edges.get_mut(&peer).unwrap();
        edge.pace.arrived(now, BLOCK_BYTES as u64, UnixMillis(now.0 - block_ms), 0);
        edge.heard = now;
    }
    let edge = machine.neighbours.edges.get_mut(&slow).unwrap();
    edge.asked = all.iter().map(|block| RequestedBlock { piece: PIECE, block, at: now, before: 0 }).collect();
    (machine, slow, helper)
}

#[test]
fn duplicates_do_not_protect_one_who_is_far_too_late() {
    let now = UnixMillis(10_000);
    let (mut machine, slow, helper) = node(now);
    (machine.neighbours.all.blocks, machine.neighbours.all.duplicates) = (100, 50);
    assert!(machine.repair(now, helper), "it would take a minute");
    let edge = machine.neighbours.edges.get_mut(&slow).unwrap();
    edge.asked.truncate(2);
    assert!(!machine.repair(now, helper), "it is slow, but not so slow that a duplicate would be worth it");
    machine.neighbours.all.duplicates = 0;
    assert!(machine.repair(now, helper));
}

#[test]
fn what_is_sent_after_a_cancel_does_not_count_as_waste() {
    let now = UnixMillis(10_000);
    let (mut machine, slow, helper) = node(now);
    for _ in 0..2 {
        assert!(machine.repair(now, helper));
    }
    let mut twice = |block, at: u64| {
        for peer in [helper, slow] {
            machine.handle(now.plus(at), Input::Stored { peer, version: VERSION, piece: PIECE, block });
        }
        (machine.neighbours.all.duplicates, machine.neighbours.all.belated)
    };
    assert_eq!(twice(63, SLOW_MS), (1, 0), "it may have been on its way");
    assert_eq!(twice(62, 6 * SLOW_MS), (2, 1), "it was sent in spite of the cancel");
}
