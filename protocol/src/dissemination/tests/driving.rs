//! What the driver tells the machine, and what it asks of it.

use super::*;
use crate::snapshot::manifest::tests::manifest;

const NOW: UnixMillis = UnixMillis(1_000_000);

fn key(seed: u8) -> PublicKey {
    crate::wire::identity::NodeKey::from_secret([seed; 32]).public()
}

fn machine(keep_versions: usize) -> Dissemination {
    let config = DisseminationConfig {
        me: key(1),
        source: false,
        serves: true,
        keep_versions,
        mode: DisseminationMode::Echo,
        seed: [0; 32],
    };
    Dissemination::new(config)
}

/// Has `machine` receive a version of two chunks, of which `have` are there.
fn receive(machine: &mut Dissemination, version: u64, have: u32) -> Vec<Output> {
    let have = (0..have).map(|i| (PieceIndex(i), BlockMask(1))).collect();
    let wanted = [0, 1].map(PieceIndex).into_iter().collect();
    let manifest = Arc::new(manifest(version, 2));
    tell(machine, Input::Announced { manifest, have, wanted })
}

fn tell(machine: &mut Dissemination, input: Input) -> Vec<Output> {
    machine.handle(NOW, input);
    std::iter::from_fn(|| machine.poll_output()).collect()
}

/// Names neighbours and opens their streams.
fn connect(machine: &mut Dissemination, peers: &[u8]) {
    tell(machine, Input::Neighbours(peers.iter().map(|seed| (key(*seed), NeighbourRole::Mesh)).collect()));
    peers.iter().for_each(|seed| drop(tell(machine, Input::Opened(key(*seed)))));
}

#[test]
fn what_is_announced_is_received_at_once_and_what_is_older_is_forgotten() {
    let mut machine = machine(3);
    receive(&mut machine, 2, 1);
    let said = receive(&mut machine, 3, 0);
    assert!(said.contains(&Output::Discard(PolicyVersion(2))));
    // A stepping stone: what is newer waits, and goes on where it was.
    let said = receive(&mut machine, 1, 2);
    assert!(
        said.contains(&Output::Complete(PolicyVersion(1))) && machine.manifest(PolicyVersion(3)).is_some()
    );
    assert_eq!(machine.progress(), None);
    receive(&mut machine, 3, 1);
    assert_eq!(machine.progress().map(|(version, have, _)| (version.0, have)), Some((3, 16 << 10)));
}

#[test]
fn as_many_versions_are_kept_as_one_wants() {
    let mut machine = machine(2);
    (1..=4).for_each(|version| drop(receive(&mut machine, version, 2)));
    assert_eq!(machine.kept().map(|m| m.version.0).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn a_version_counts_as_refused_when_nobody_is_left_to_ask() {
    let mut machine = machine(3);
    connect(&mut machine, &[2, 3]);
    let opened = receive(&mut machine, 2, 0);
    assert_eq!(opened.iter().filter(|said| matches!(said, Output::Open { .. })).count(), 2);
    tell(&mut machine, Input::Opened(key(2)));
    let version = PolicyVersion(2);
    let refused = Output::Refused(version);
    // The other one may still open.
    assert!(!tell(&mut machine, Input::Refused { peer: key(2), version }).contains(&refused));
    assert!(tell(&mut machine, Input::Refused { peer: key(3), version }).contains(&refused));
}

#[test]
fn supply_is_what_open_neighbours_hold_between_them() {
    let mut machine = machine(3);
    let version = PolicyVersion(2);
    connect(&mut machine, &[2]);
    receive(&mut machine, 2, 1);
    tell(&mut machine, Input::Opened(key(2)));
    let supply = |machine: &Dissemination| [0, 1].map(|piece| machine.supply(version, PieceIndex(piece)));
    assert_eq!(supply(&machine), [Supply::Here, Supply::Nowhere]);
    tell(&mut machine, Input::Has { peer: key(2), version, news: vec![(PieceIndex(1), BlockMask(1))] });
    assert_eq!(supply(&machine), [Supply::Here, Supply::Offered]);
    tell(&mut machine, Input::Lost(key(2)));
    assert_eq!(supply(&machine), [Supply::Here, Supply::Nowhere]);
}

#[test]
fn one_who_means_another_manifest_is_refused_now_or_when_the_version_comes() {
    let mut machine = machine(3);
    let version = PolicyVersion(2);
    let (mine, other) = (manifest(2, 2).id(), manifest(2, 3).id());
    let join = |peer: u8, manifest| Input::Joined { peer: key(peer), version, manifest };
    let refusal = |peer: u8| Output::Refuse { peer: key(peer), version };
    assert_eq!([tell(&mut machine, join(2, mine)), tell(&mut machine, join(3, other))], [vec![], vec![]]);
    let said = receive(&mut machine, 2, 1);
    assert!(said.contains(&refusal(3)) && !said.contains(&refusal(2)));
    assert_eq!(tell(&mut machine, join(4, other)), [refusal(4)]);
}

#[test]
fn one_piece_more_leaves_what_was_asked_for_alone() {
    let mut machine = machine(3);
    connect(&mut machine, &[2]);
    let version = PolicyVersion(2);
    let manifest = Arc::new(manifest(2, 2));
    let wanted = [PieceIndex(0)].into_iter().collect();
    tell(&mut machine, Input::Announced { manifest, have: Holdings::default(), wanted });
    tell(&mut machine, Input::Opened(key(2)));
    let news = [0, 1].map(|piece| (PieceIndex(piece), BlockMask(1))).to_vec();
    let asked = |said: Vec<Output>| -> Vec<u32> {
        let request = |output| match output {
            Output::Request { piece, .. } => Some(piece.0),
            _ => None,
        };
        said.into_iter().filter_map(request).collect()
    };
    assert_eq!(asked(tell(&mut machine, Input::Has { peer: key(2), version, news })), [0]);
    assert_eq!(asked(tell(&mut machine, Input::WantedToo { version, piece: PieceIndex(1) })), [1]);
    assert!(!machine.is_complete(version));
}
