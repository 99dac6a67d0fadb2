use super::*;
use crate::dissemination::simulation::manifest;
use crate::dissemination::{
    DisseminationConfig, DisseminationMode, IDLE_MS, Input, MAX_CONSUMERS, MAX_SOURCE_CONSUMERS,
    NeighbourRole, REJOIN_MS, UNKNOWN_IDLE_MS,
};
use crate::wire::content_id::ContentId;
use std::sync::Arc;

const PIECE: PieceIndex = PieceIndex(0);
const FIRST: PolicyVersion = PolicyVersion(1);

fn key(n: usize) -> PublicKey {
    PublicKey::from_bytes(*ContentId::of(&n.to_le_bytes()).as_bytes())
}

/// A source of one version: pieces of four blocks.
fn source() -> Dissemination {
    let mut machine = Dissemination::new(DisseminationConfig {
        me: key(usize::MAX),
        source: true,
        serves: true,
        keep_versions: 3,
        mode: DisseminationMode::Echo,
        seed: [1; 32],
    });
    machine.handle(UnixMillis(0), Input::Published(Arc::new(manifest(1, 1 << 20, 256 << 10, false))));
    machine
}

/// A node that knows of one version and holds nothing of it.
fn node() -> Dissemination {
    let mut machine = Dissemination::new(DisseminationConfig {
        me: key(usize::MAX),
        source: false,
        serves: true,
        keep_versions: 3,
        mode: DisseminationMode::Echo,
        seed: [1; 32],
    });
    let manifest = Arc::new(manifest(1, 1 << 20, 256 << 10, false));
    let wanted = (0..4).map(PieceIndex).collect();
    machine.handle(UnixMillis(0), Input::Announced { manifest, have: Default::default(), wanted });
    machine
}

fn outputs(machine: &mut Dissemination) -> Vec<Output> {
    std::iter::from_fn(|| machine.poll_output()).collect()
}

/// One who goes by the manifest that is known here, if any is.
fn joined(machine: &Dissemination, peer: PublicKey, version: PolicyVersion) -> Input {
    let manifest = machine.manifest_id(version).unwrap_or(ContentId::of(b"none"));
    Input::Joined { peer, version, manifest }
}

/// Lets a consumer join; false when it is refused.
fn join(machine: &mut Dissemination, now: u64, peer: PublicKey, version: PolicyVersion) -> bool {
    let joined = joined(machine, peer, version);
    machine.handle(UnixMillis(now), joined);
    !outputs(machine).contains(&Output::Refuse { peer, version })
}

fn ask(machine: &mut Dissemination, now: u64, peer: PublicKey, blocks: BlockMask) -> Vec<Output> {
    machine.handle(UnixMillis(now), Input::Asked { peer, version: FIRST, piece: PIECE, blocks });
    outputs(machine)
}

#[test]
fn those_whom_the_learner_sends_have_a_place_however_many_strangers_came_first() {
    for (mut machine, places) in [(source(), MAX_SOURCE_CONSUMERS), (node(), MAX_CONSUMERS)] {
        assert!((0..places).all(|n| join(&mut machine, 0, key(n), FIRST)));
        let head = key(places);
        assert!(!join(&mut machine, 1, head, FIRST), "a stranger like the others");
        machine.handle(UnixMillis(1), Input::Friends(vec![head]));
        assert!(join(&mut machine, 1 + REJOIN_MS, head, FIRST));
        assert!(!join(&mut machine, 2 + REJOIN_MS, key(places + 1), FIRST));
        assert_eq!(machine.stats().consumers, places);
    }
    let (mut machine, mesh) = (node(), key(MAX_CONSUMERS));
    assert!((0..MAX_CONSUMERS).all(|n| join(&mut machine, 0, key(n), FIRST)));
    machine.handle(UnixMillis(1), Input::Neighbours(vec![(mesh, NeighbourRole::Mesh)]));
    assert!(join(&mut machine, 1, mesh, FIRST), "a neighbour is a friend");
}

#[test]
fn only_who_gets_blocks_keeps_its_place() {
    let mut machine = source();
    assert!((0..MAX_SOURCE_CONSUMERS).all(|n| join(&mut machine, 0, key(n), FIRST)));
    for n in 0..MAX_SOURCE_CONSUMERS {
        let blocks = if n == 7 { BlockMask::EMPTY } else { BlockMask::of([1]) };
        let said = ask(&mut machine, IDLE_MS - 1, key(n), blocks);
        let served = said.iter().filter(|output| matches!(output, Output::Serve { .. }));
        assert_eq!(served.count(), usize::from(n != 7));
    }
    assert!(join(&mut machine, IDLE_MS, key(1_000), FIRST), "the idle one gave way");
    assert!(!join(&mut machine, IDLE_MS, key(1_001), FIRST));
    assert_eq!(ask(&mut machine, IDLE_MS, key(7), BlockMask::of([1])), []);
}

#[test]
fn waiting_for_what_nobody_knows_keeps_a_place_for_a_short_time() {
    let mut machine = source();
    let never = PolicyVersion(u64::MAX);
    assert!((0..MAX_SOURCE_CONSUMERS).all(|n| join(&mut machine, 0, key(n), never)));
    let asked = Input::Asked { peer: key(0), version: never, piece: PIECE, blocks: BlockMask::EMPTY };
    machine.handle(UnixMillis(UNKNOWN_IDLE_MS - 1), asked);
    assert!(!join(&mut machine, UNKNOWN_IDLE_MS - 1, key(1_000), FIRST));
    assert!((1_001..1_100).all(|n| join(&mut machine, UNKNOWN_IDLE_MS, key(n), FIRST)));
}

#[test]
fn nobody_is_told_everything_again_and_again() {
    let mut machine = source();
    let told = |machine: &mut Dissemination, now| {
        machine.handle(UnixMillis(now), Input::Left(key(1)));
        let joined = joined(machine, key(1), FIRST);
        machine.handle(UnixMillis(now), joined);
        outputs(machine).iter().any(|output| matches!(output, Output::Tell { .. }))
    };
    assert_eq!((0..1_000).filter(|now| told(&mut machine, *now)).count() as u64, 1_000 / REJOIN_MS);
    // The next version may come at once.
    machine.handle(UnixMillis(1_000), Input::Published(Arc::new(manifest(2, 1 << 20, 256 << 10, false))));
    assert!(join(&mut machine, 1_000, key(1), PolicyVersion(2)));
}

#[test]
fn blocks_are_served_once_in_the_order_asked_and_cancelled_ones_never() {
    let mut machine = source();
    assert!(join(&mut machine, 0, key(1), FIRST));
    let blocks = |outputs: Vec<Output>| -> Vec<u32> {
        let served = outputs.into_iter().filter_map(|output| match output {
            Output::Serve { block, .. } => Some(block),
            _ => None,
        });
        served.collect()
    };
    assert_eq!(blocks(ask(&mut machine, 0, key(1), BlockMask::of([1, 2]))), [1, 2]);
    assert_eq!(
        blocks(ask(&mut machine, 0, key(1), BlockMask::of([0, 1, 2, 3]))),
        [0, 3],
        "two are on their way"
    );
    // All four ways are taken: what is asked of the next piece waits, and a part of it is taken back.
    let next = PieceIndex(1);
    let all = BlockMask::of([0, 1, 2, 3]);
    let asked = Input::Asked { peer: key(1), version: FIRST, piece: next, blocks: all };
    (0..3).for_each(|_| machine.handle(UnixMillis(0), asked.clone()));
    machine
        .handle(UnixMillis(0), Input::Cancelled { peer: key(1), piece: next, blocks: BlockMask::of([0, 2]) });
    assert_eq!(outputs(&mut machine), []);
    for block in 0..4 {
        machine.handle(UnixMillis(1), Input::Sent { peer: key(1), piece: PIECE, block });
    }
    assert_eq!(blocks(outputs(&mut machine)), [1, 3]);
}
