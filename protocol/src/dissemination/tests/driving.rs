//! What the driver tells the machine, and what it asks of it.

use super::*;
use crate::snapshot::manifest::tests::manifest;

const NOW: UnixMillis = UnixMillis(1_000_000);

fn key(seed: u8) -> PublicKey {
    crate::wire::identity::NodeKey::from_secret([seed; 32]).public()
}

fn relay(keep_versions: usize) -> Relay {
    let config = RelayConfig {
        me: key(1),
        source: false,
        serves: true,
        keep_versions,
        mode: DisseminationMode::Echo,
        seed: [0; 32],
    };
    Relay::new(config)
}

/// Has `relay` receive a version of two chunks, of which `have` are there.
fn receive(relay: &mut Relay, version: u64, have: u32) -> Vec<RelayOutput> {
    let have = (0..have).map(|i| (PieceIndex(i), BlockMask(1))).collect();
    let wanted = [0, 1].map(PieceIndex).into_iter().collect();
    let manifest = Arc::new(manifest(version, 2));
    tell(relay, Input::Announced { manifest, have, wanted })
}

fn tell(relay: &mut Relay, input: Input) -> Vec<RelayOutput> {
    relay.handle(NOW, input);
    std::iter::from_fn(|| relay.poll_output()).collect()
}

/// Names neighbours and opens their streams.
fn connect(relay: &mut Relay, peers: &[u8]) {
    tell(relay, Input::Neighbours(peers.iter().map(|seed| (key(*seed), NeighbourRole::Mesh)).collect()));
    peers.iter().for_each(|seed| drop(tell(relay, Input::Opened(key(*seed)))));
}

#[test]
fn what_is_announced_is_received_at_once_and_what_is_older_is_forgotten() {
    let mut relay = relay(3);
    receive(&mut relay, 2, 1);
    let said = receive(&mut relay, 3, 0);
    assert!(said.contains(&RelayOutput::Discard(PolicyVersion(2))));
    // A stepping stone: what is newer waits, and goes on where it was.
    let said = receive(&mut relay, 1, 2);
    assert!(
        said.contains(&RelayOutput::Complete(PolicyVersion(1))) && relay.manifest(PolicyVersion(3)).is_some()
    );
    assert_eq!(relay.progress(), None);
    receive(&mut relay, 3, 1);
    assert_eq!(relay.progress().map(|(version, have, _)| (version.0, have)), Some((3, 16 << 10)));
}

#[test]
fn as_many_versions_are_kept_as_one_wants() {
    let mut relay = relay(2);
    (1..=4).for_each(|version| drop(receive(&mut relay, version, 2)));
    assert_eq!(relay.kept().map(|m| m.version.0).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn a_version_counts_as_refused_when_nobody_is_left_to_ask() {
    let mut relay = relay(3);
    connect(&mut relay, &[2, 3]);
    let opened = receive(&mut relay, 2, 0);
    assert_eq!(opened.iter().filter(|said| matches!(said, RelayOutput::Open { .. })).count(), 2);
    tell(&mut relay, Input::Opened(key(2)));
    let version = PolicyVersion(2);
    let refused = RelayOutput::Refused(version);
    // The other one may still open.
    assert!(!tell(&mut relay, Input::Refused { peer: key(2), version }).contains(&refused));
    assert!(tell(&mut relay, Input::Refused { peer: key(3), version }).contains(&refused));
}

#[test]
fn supply_is_what_open_neighbours_hold_between_them() {
    let mut relay = relay(3);
    let version = PolicyVersion(2);
    connect(&mut relay, &[2]);
    receive(&mut relay, 2, 1);
    tell(&mut relay, Input::Opened(key(2)));
    let supply = |relay: &Relay| [0, 1].map(|piece| relay.supply(version, PieceIndex(piece)));
    assert_eq!(supply(&relay), [Supply::Here, Supply::Nowhere]);
    tell(&mut relay, Input::Has { peer: key(2), version, news: vec![(PieceIndex(1), BlockMask(1))] });
    assert_eq!(supply(&relay), [Supply::Here, Supply::Offered]);
    tell(&mut relay, Input::Lost(key(2)));
    assert_eq!(supply(&relay), [Supply::Here, Supply::Nowhere]);
}

#[test]
fn one_who_means_another_manifest_is_refused_now_or_when_the_version_comes() {
    let mut relay = relay(3);
    let version = PolicyVersion(2);
    let (mine, other) = (manifest(2, 2).id(), manifest(2, 3).id());
    let join = |peer: u8, manifest| Input::Joined { peer: key(peer), version, manifest };
    let refusal = |peer: u8| RelayOutput::Refuse { peer: key(peer), version };
    assert_eq!([tell(&mut relay, join(2, mine)), tell(&mut relay, join(3, other))], [vec![], vec![]]);
    let said = receive(&mut relay, 2, 1);
    assert!(said.contains(&refusal(3)) && !said.contains(&refusal(2)));
    assert_eq!(tell(&mut relay, join(4, other)), [refusal(4)]);
}

#[test]
fn one_piece_more_leaves_what_was_asked_for_alone() {
    let mut relay = relay(3);
    connect(&mut relay, &[2]);
    let version = PolicyVersion(2);
    let manifest = Arc::new(manifest(2, 2));
    let wanted = [PieceIndex(0)].into_iter().collect();
    tell(&mut relay, Input::Announced { manifest, have: Holdings::default(), wanted });
    tell(&mut relay, Input::Opened(key(2)));
    let news = [0, 1].map(|piece| (PieceIndex(piece), BlockMask(1))).to_vec();
    let asked = |said: Vec<RelayOutput>| -> Vec<u32> {
        let request = |output| match output {
            RelayOutput::Request { piece, .. } => Some(piece.0),
            _ => None,
        };
        said.into_iter().filter_map(request).collect()
    };
    assert_eq!(asked(tell(&mut relay, Input::Has { peer: key(2), version, news })), [0]);
    assert_eq!(asked(tell(&mut relay, Input::WantedToo { version, piece: PieceIndex(1) })), [1]);
    assert!(!relay.is_complete(version));
}
