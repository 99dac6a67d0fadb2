use super::*;
use crate::draw::Draws;
use crate::identity::NodeKey;
use crate::manifest::tests::manifest;

fn key(seed: u8) -> PublicKey {
    NodeKey::from_secret([seed; 32]).public()
}

fn outputs(relay: &mut Relay) -> Vec<Output> {
    std::iter::from_fn(|| relay.poll_output()).collect()
}

fn at(ms: u64) -> UnixMillis {
    UnixMillis(ms)
}

fn announced(relay: &mut Relay, now: u64, version: u64, chunks: u8) {
    relay.handle(at(now), Input::Announced(Arc::new(manifest(version, chunks)), ChunkSet::default()));
}

fn stored(relay: &mut Relay, now: u64, from: PublicKey, version: u64, index: u32) {
    relay.handle(at(now), Input::Stored { from, version: PolicyVersion(version), index: ChunkIndex(index) });
}

#[test]
fn asks_subscribes_forwards_at_once_and_installs() {
    let (me, parent, child) = (key(1), key(2), key(3));
    let mut relay = Relay::new(me);
    let v = PolicyVersion(4);
    relay.handle(at(0), Input::Subscribed { child, version: v, have: ChunkSet::default() });
    announced(&mut relay, 0, 4, 2);
    assert_eq!(outputs(&mut relay), [Output::AskParent { lost: None }]);
    relay.handle(at(1), Input::Parent(Some(parent)));
    let subscribe = Output::Subscribe { parent, version: v, have: ChunkSet::default() };
    assert_eq!(outputs(&mut relay), [subscribe]);
    stored(&mut relay, 2, parent, 4, 1);
    assert_eq!(outputs(&mut relay), [Output::Forward { child, version: v, index: ChunkIndex(1) }]);
    assert_eq!(relay.progress(), Some((v, 1, 2)));
    stored(&mut relay, 3, parent, 4, 0);
    let forward = Output::Forward { child, version: v, index: ChunkIndex(0) };
    assert_eq!(outputs(&mut relay), [Output::Install(v), forward]);
    assert_eq!((relay.poll_timeout(), relay.newest_complete()), (None, Some(v)));
}

#[test]
fn a_lost_parent_is_replaced_and_nothing_is_fetched_twice() {
    let (parent, second) = (key(2), key(4));
    let mut relay = Relay::new(key(1));
    relay.handle(at(0), Input::Parent(Some(parent)));
    announced(&mut relay, 0, 1, 3);
    stored(&mut relay, 5, parent, 1, 0);
    outputs(&mut relay);
    relay.handle(at(6), Input::Lost(parent));
    assert_eq!(outputs(&mut relay), [Output::AskParent { lost: Some(parent) }]);
    relay.handle(at(7), Input::Parent(Some(second)));
    let have = ChunkSet::all(1);
    assert_eq!(outputs(&mut relay), [Output::Subscribe { parent: second, version: PolicyVersion(1), have }]);
}

#[test]
fn a_silent_parent_counts_as_lost_and_asking_is_repeated() {
    let parent = key(2);
    let mut relay = Relay::new(key(1));
    relay.handle(at(0), Input::Parent(Some(parent)));
    announced(&mut relay, 0, 1, 2);
    outputs(&mut relay);
    stored(&mut relay, 1000, parent, 1, 0);
    assert_eq!(relay.poll_timeout(), Some(at(1000 + STALL_MS)));
    relay.handle_timeout(at(999 + STALL_MS));
    assert_eq!(outputs(&mut relay), []);
    relay.handle_timeout(at(1000 + STALL_MS));
    assert_eq!(outputs(&mut relay), [Output::Unsubscribe(parent), Output::AskParent { lost: Some(parent) }]);
    relay.handle(at(4100), Input::Parent(None));
    relay.handle_timeout(at(1000 + STALL_MS + ASK_EVERY_MS));
    assert_eq!(outputs(&mut relay), [Output::AskParent { lost: None }]);
}

#[test]
fn parents_that_fail_at_once_do_not_make_a_storm_of_questions() {
    let parent = key(2);
    let mut relay = Relay::new(key(1));
    announced(&mut relay, 0, 1, 2);
    assert_eq!(outputs(&mut relay), [Output::AskParent { lost: None }]);
    let mut questions = 0;
    for now in 1..=10 * ASK_EVERY_MS {
        // The learner names the parent whenever it is asked; the parent refuses within a millisecond.
        relay.handle(at(now), Input::Parent(Some(parent)));
        relay.handle(at(now), Input::Lost(parent));
        relay.handle_timeout(at(now));
        questions +=
            outputs(&mut relay).iter().filter(|o| matches!(o, Output::AskParent { lost: Some(_) })).count();
    }
    assert!((9..=10).contains(&questions), "{questions}");
}

#[test]
fn rotten_bytes_cut_the_peer_off_for_good() {
    let parent = key(2);
    let mut relay = Relay::new(key(1));
    relay.handle(at(0), Input::Parent(Some(parent)));
    announced(&mut relay, 0, 1, 2);
    outputs(&mut relay);
    relay.handle(at(1), Input::Rotten(parent));
    assert_eq!(outputs(&mut relay), [Output::CutOff(parent), Output::AskParent { lost: Some(parent) }]);
    relay.handle(at(2), Input::Parent(Some(parent)));
    assert_eq!(outputs(&mut relay), []);
    // The learner has forgotten: it is told again whom not to name.
    relay.handle_timeout(at(1 + ASK_EVERY_MS));
    assert_eq!(outputs(&mut relay), [Output::AskParent { lost: Some(parent) }]);
}

#[test]
fn a_damaged_version_that_nobody_will_install_again_is_forgotten() {
    let parent = key(2);
    let mut relay = Relay::new(key(1));
    relay.handle(at(0), Input::Parent(Some(parent)));
    for version in [1, 2] {
        announced(&mut relay, 0, version, 1);
        stored(&mut relay, 1, parent, version, 0);
    }
    outputs(&mut relay);
    relay.handle(at(2), Input::Damaged { version: PolicyVersion(1), index: ChunkIndex(0) });
    assert_eq!(outputs(&mut relay), [Output::Discard(PolicyVersion(1))]);
    assert_eq!(relay.poll_timeout(), None);
}

#[test]
fn finishes_the_current_version_then_jumps_to_the_newest() {
    let parent = key(2);
    let mut relay = Relay::new(key(1));
    relay.handle(at(0), Input::Parent(Some(parent)));
    announced(&mut relay, 0, 2, 2);
    stored(&mut relay, 1, parent, 2, 0);
    announced(&mut relay, 2, 4, 1);
    announced(&mut relay, 3, 6, 1);
    announced(&mut relay, 4, 5, 1);
    outputs(&mut relay);
    stored(&mut relay, 5, parent, 2, 1);
    let have = ChunkSet::default();
    let next = Output::Subscribe { parent, version: PolicyVersion(6), have };
    assert_eq!(outputs(&mut relay), [Output::Install(PolicyVersion(2)), next]);
}

#[test]
fn a_declined_version_is_left_for_the_next_one() {
    let parent = key(2);
    let mut relay = Relay::new(key(1));
    relay.handle(at(0), Input::Parent(Some(parent)));
    announced(&mut relay, 0, 2, 2);
    announced(&mut relay, 2, 4, 1);
    outputs(&mut relay);
    relay.handle(at(3), Input::Declined { from: parent, version: PolicyVersion(2) });
    let next = Output::Subscribe { parent, version: PolicyVersion(4), have: ChunkSet::default() };
    assert_eq!(outputs(&mut relay), [Output::Discard(PolicyVersion(2)), next]);
}

#[test]
fn a_damaged_chunk_is_fetched_again_and_not_forwarded_meanwhile() {
    let (parent, child) = (key(2), key(3));
    let mut relay = Relay::new(key(1));
    relay.handle(at(0), Input::Parent(Some(parent)));
    announced(&mut relay, 0, 1, 2);
    stored(&mut relay, 1, parent, 1, 0);
    stored(&mut relay, 1, parent, 1, 1);
    outputs(&mut relay);
    relay.handle(at(2), Input::Damaged { version: PolicyVersion(1), index: ChunkIndex(0) });
    relay.handle(at(2), Input::Subscribed { child, version: PolicyVersion(1), have: ChunkSet::default() });
    let said = outputs(&mut relay);
    assert!(matches!(&said[0], Output::Subscribe { have, .. } if have.len() == 1), "{said:?}");
    assert_eq!(said[1..], [Output::Forward { child, version: PolicyVersion(1), index: ChunkIndex(1) }]);
}

#[test]
fn children_are_limited_by_places_credit_and_kept_versions() {
    let mut source = Relay::source(key(1));
    for v in 1..=4 {
        source.handle(at(0), Input::Published(Arc::new(manifest(v, 6))));
    }
    assert_eq!(outputs(&mut source), [Output::Discard(PolicyVersion(1))]);
    let child = key(2);
    source.handle(at(0), Input::Subscribed { child, version: PolicyVersion(1), have: ChunkSet::default() });
    assert_eq!(outputs(&mut source), [Output::Decline { child, version: PolicyVersion(1) }]);
    source.handle(at(0), Input::Subscribed { child, version: PolicyVersion(4), have: ChunkSet::default() });
    assert_eq!(outputs(&mut source).len() as u32, CREDIT);
    source.handle(at(1), Input::Sent(child));
    assert_eq!(outputs(&mut source).len(), 1);

    let mut node = Relay::new(key(9));
    for n in 0..MAX_CHILDREN as u8 + 1 {
        node.handle(
            at(0),
            Input::Subscribed { child: key(20 + n), version: PolicyVersion(9), have: ChunkSet::default() },
        );
    }
    assert!(
        matches!(outputs(&mut node)[..], [Output::Decline { child, .. }] if child == key(20 + MAX_CHILDREN as u8))
    );
}

#[test]
fn a_leaf_receives_and_serves_nobody() {
    let (parent, child) = (key(2), key(3));
    let mut leaf = Relay::leaf(key(1));
    leaf.handle(at(0), Input::Parent(Some(parent)));
    announced(&mut leaf, 0, 1, 1);
    stored(&mut leaf, 1, parent, 1, 0);
    outputs(&mut leaf);
    leaf.handle(at(2), Input::Subscribed { child, version: PolicyVersion(1), have: ChunkSet::default() });
    assert_eq!(outputs(&mut leaf), [Output::Decline { child, version: PolicyVersion(1) }]);
}

/// A small network of these machines with random delivery order, losses and rot: every living node ends complete.
#[test]
fn random_networks_complete_and_stay_sound() {
    for seed in 0..300u32 {
        network(seed);
    }
}

fn network(seed: u32) {
    let mut word = [0; 32];
    word[..4].copy_from_slice(&seed.to_le_bytes());
    let mut draws = Draws::new(word);
    let nodes = draws.between(2, 6) as usize;
    let chunks = draws.between(1, 9) as u8;
    let keys: Vec<PublicKey> = (0..=nodes as u8).map(key).collect();
    let index_of = |k: &PublicKey| keys.iter().position(|x| x == k).unwrap();
    let mut relays: Vec<Relay> = keys.iter().map(|k| Relay::new(*k)).collect();
    relays[0] = Relay::source(keys[0]);
    let mut have = vec![ChunkSet::default(); nodes + 1];
    let mut wire: Vec<(usize, Input)> = Vec::new();
    let mut installed = vec![false; nodes + 1];
    let mut now = 0;
    let snapshot = Arc::new(manifest(1, chunks));
    relays[0].handle(at(0), Input::Published(snapshot.clone()));
    have[0] = ChunkSet::all(u32::from(chunks));
    for relay in &mut relays[1..] {
        relay.handle(at(0), Input::Announced(snapshot.clone(), ChunkSet::default()));
    }
    for step in 0..20_000 {
        now += 1;
        for me in 0..=nodes {
            relays[me].handle_timeout(at(now));
            while let Some(output) = relays[me].poll_output() {
                match output {
                    Output::Subscribe { parent, version, have } => {
                        wire.push((index_of(&parent), Input::Subscribed { child: keys[me], version, have }));
                    }
                    Output::Forward { child, version, index } => {
                        assert!(have[me].contains(index), "seed {seed}: forwarded what it does not have");
                        let to = index_of(&child);
                        // Faults stop after a while, so that liveness can be judged.
                        match draws.below(12) {
                            0 if step < 500 => wire.push((to, Input::Lost(keys[me]))),
                            _ => wire.push((to, Input::Stored { from: keys[me], version, index })),
                        }
                        wire.push((me, Input::Sent(child)));
                    }
                    // The learner's part: any peer with a lower number, so that there is no cycle.
                    Output::AskParent { .. } => {
                        let parent = keys[draws.below(me as u64) as usize];
                        wire.push((me, Input::Parent(Some(parent))));
                    }
                    Output::Install(_) => {
                        assert_eq!(
                            have[me].len(),
                            u32::from(chunks),
                            "seed {seed}: installed an incomplete version"
                        );
                        installed[me] = true;
                    }
                    Output::Unsubscribe(parent) => wire.push((index_of(&parent), Input::Left(keys[me]))),
                    Output::Decline { child, version } => {
                        wire.push((index_of(&child), Input::Declined { from: keys[me], version }));
                    }
                    Output::Discard(_) | Output::CutOff(_) => {}
                }
            }
        }
        if !wire.is_empty() {
            let (to, input) = wire.swap_remove(draws.below(wire.len() as u64) as usize);
            if let Input::Stored { index, .. } = input {
                have[to].insert(index);
            }
            relays[to].handle(at(now), input);
        }
        if installed[1..].iter().all(|done| *done) {
            return;
        }
    }
    panic!("seed {seed}: not every node completed");
}
