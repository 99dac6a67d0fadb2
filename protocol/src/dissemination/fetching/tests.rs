use super::*;
use crate::dissemination::simulation::manifest;
use crate::dissemination::{Input, RelayConfig};
use crate::wire::content_id::ContentId;
use std::sync::Arc;

const VERSION: PolicyVersion = PolicyVersion(1);

fn key(n: u8) -> PublicKey {
    PublicKey::from_bytes(*ContentId::of(&[n]).as_bytes())
}

/// A node that pulls from one neighbour.
fn node(peer: PublicKey) -> Relay {
    let config = RelayConfig {
        me: key(0),
        source: false,
        serves: false,
        keep_versions: 3,
        mode: DisseminationMode::Echo,
        seed: [1; 32],
    };
    let mut relay = Relay::new(config);
    let manifest = Arc::new(manifest(1, 1 << 20, 1 << 20, false));
    let wanted = [PieceIndex(0)].into_iter().collect();
    relay.handle(UnixMillis(0), Input::Announced { manifest, have: Default::default(), wanted });
    relay.handle(UnixMillis(0), Input::Neighbours(vec![(peer, NeighbourRole::Parent)]));
    relay
}

/// Lets every stream end so, `times` times, and says whom the learner is told to be lost.
fn end_all(relay: &mut Relay, times: u64, peer: PublicKey, end: &Input) -> BTreeSet<PublicKey> {
    let mut told = BTreeSet::new();
    for now in (0..times).map(|n| UnixMillis(n * 60_000)) {
        relay.handle_timeout(now);
        relay.handle(now, Input::Opened(peer));
        relay.handle(now, end.clone());
        while let Some(output) = relay.poll_output() {
            if let RelayOutput::AskNeighbours { lost } = output {
                told.extend(lost);
            }
        }
    }
    told
}

fn failed(relay: &Relay) -> u64 {
    relay.stats().upstreams.iter().map(|upstream| upstream.failed).sum()
}

#[test]
fn only_a_neighbours_own_faults_are_told_to_the_learner() {
    let peer = key(1);
    let mut relay = node(peer);
    assert_eq!(end_all(&mut relay, 10, peer, &Input::GaveUp(peer)), BTreeSet::new());
    assert_eq!(failed(&relay), 0);
    let mut relay = node(peer);
    assert_eq!(end_all(&mut relay, 2, peer, &Input::Lost(peer)), BTreeSet::from([peer]));
    assert!(failed(&relay) > 0);
}

#[test]
fn a_neighbour_that_refuses_now_and_then_is_not_lost_and_one_that_only_refuses_is() {
    let peer = key(1);
    let refusal = Input::Refused { peer, version: VERSION };
    let mut relay = node(peer);
    assert_eq!(end_all(&mut relay, 2, peer, &refusal), BTreeSet::new());
    assert_eq!(failed(&relay), 0);
    let mut relay = node(peer);
    assert_eq!(end_all(&mut relay, 4, peer, &refusal), BTreeSet::from([peer]));
}
