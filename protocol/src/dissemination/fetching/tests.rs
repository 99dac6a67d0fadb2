use super::*;
use crate::dissemination::simulation::manifest;
use crate::dissemination::{DisseminationConfig, Input};
use crate::wire::content_id::ContentId;
use std::sync::Arc;

const VERSION: PolicyVersion = PolicyVersion(1);

fn key(n: u8) -> PublicKey {
    PublicKey::from_bytes(*ContentId::of(&[n]).as_bytes())
}

/// A node that pulls from one neighbour.
fn node(peer: PublicKey) -> Dissemination {
    let config = DisseminationConfig {
        me: key(0),
        source: false,
        serves: false,
        keep_versions: 3,
        mode: DisseminationMode::Echo,
        seed: [1; 32],
    };
    let mut machine = Dissemination::new(config);
    let manifest = Arc::new(manifest(1, 1 << 20, 1 << 20, false));
    let wanted = [PieceIndex(0)].into_iter().collect();
    machine.handle(UnixMillis(0), Input::Announced { manifest, have: Default::default(), wanted });
    machine.handle(UnixMillis(0), Input::Neighbours(vec![(peer, NeighbourRole::Parent)]));
    machine
}

/// Lets every stream end so, `times` times, and says whom the learner is told to be lost.
fn end_all(machine: &mut Dissemination, times: u64, peer: PublicKey, end: &Input) -> BTreeSet<PublicKey> {
    let mut reported = BTreeSet::new();
    for now in (0..times).map(|n| UnixMillis(n * 60_000)) {
        machine.handle_timeout(now);
        machine.handle(now, Input::Opened(peer));
        machine.handle(now, end.clone());
        while let Some(output) = machine.poll_output() {
            if let Output::AskNeighbours { lost } = output {
                reported.extend(lost);
            }
        }
    }
    reported
}

fn failed(machine: &Dissemination) -> u64 {
    machine.stats().upstreams.iter().map(|upstream| upstream.failed).sum()
}

#[test]
fn only_a_neighbours_own_faults_are_told_to_the_learner() {
    let peer = key(1);
    let mut machine = node(peer);
    assert_eq!(end_all(&mut machine, 10, peer, &Input::GaveUp(peer)), BTreeSet::new());
    assert_eq!(failed(&machine), 0);
    let mut machine = node(peer);
    assert_eq!(end_all(&mut machine, 2, peer, &Input::Lost(peer)), BTreeSet::from([peer]));
    assert!(failed(&machine) > 0);
}

#[test]
fn a_neighbour_that_refuses_now_and_then_is_not_lost_and_one_that_only_refuses_is() {
    let peer = key(1);
    let refusal = Input::Refused { peer, version: VERSION };
    let mut machine = node(peer);
    assert_eq!(end_all(&mut machine, 2, peer, &refusal), BTreeSet::new());
    assert_eq!(failed(&machine), 0);
    let mut machine = node(peer);
    assert_eq!(end_all(&mut machine, 4, peer, &refusal), BTreeSet::from([peer]));
}
