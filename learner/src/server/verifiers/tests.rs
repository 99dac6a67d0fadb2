use super::*;
use crate::common::testing::{key, network};
use crate::reputation::Owners;
use echo_protocol::run::version::PolicyVersion;

fn empty(owners: Owners) -> State {
    let panel = Panel::new(PanelConfig { owners, ..PanelConfig::default() }, [7; 32]);
    State { panel, lines: BTreeMap::new(), streams: 0, waiting: BTreeMap::new() }
}

/// Whether a verifier gets a place.
fn sits_down(state: &mut State, number: u64, network: Option<NetworkPrefix>, offers: bool) -> bool {
    let (frames, _) = mpsc::channel(1);
    let seated = state.seat(key(number), network, frames).is_some();
    if let Some(line) = state.lines.get_mut(&key(number)) {
        line.offered = offers;
    }
    seated
}

fn sits(state: &State, number: u64) -> bool {
    state.lines.contains_key(&key(number))
}

#[test]
fn keys_that_offer_nothing_keep_nobody_out() {
    for owners in [Owners::Network, Owners::Key] {
        let mut state = empty(owners);
        for number in 0..MAX_VERIFIERS as u64 {
            assert!(sits_down(&mut state, number, network(1), number == 0));
        }
        assert!(sits_down(&mut state, 5_000, network(1), true));
        assert_eq!([0, 1, 2].map(|number| sits(&state, number)), [true, false, true]);
        assert_eq!(state.lines.len(), MAX_VERIFIERS);
    }
}

#[test]
fn many_keys_of_few_owners_keep_nobody_out() {
    let mut state = empty(Owners::Network);
    for number in 0..MAX_VERIFIERS as u64 {
        assert!(sits_down(&mut state, number, network((number % 2) as u8), true));
    }
    assert!(!sits_down(&mut state, 5_000, network(1), true), "they have half of the places already");
    // A third owner has its third, and no more: it would only be the next to go.
    let came = (6_000..6_400).filter(|number| sits_down(&mut state, *number, network(2), true)).count();
    assert_eq!((came, state.lines.len()), (MAX_VERIFIERS / 3, MAX_VERIFIERS));
    assert!(sits(&state, 0) && sits(&state, 1), "who was there first stays");
    assert!(!sits(&state, MAX_VERIFIERS as u64 - 1));
}

#[test]
fn where_each_key_is_an_owner_nobody_who_offered_goes() {
    let mut state = empty(Owners::Key);
    for number in 0..MAX_VERIFIERS as u64 {
        assert!(sits_down(&mut state, number, network(1), true));
    }
    assert!(!sits_down(&mut state, 5_000, network(2), true));
    // Whoever opens another stream takes its own place.
    assert!(sits_down(&mut state, 7, network(1), true));
    assert_eq!(state.lines.len(), MAX_VERIFIERS);
}

#[test]
fn where_a_verifier_is_may_become_known_behind_its_place() {
    let mut state = empty(Owners::Network);
    let offer = Offer { capacity: 1, held: vec![PolicyVersion(4)] };
    for number in [1, 2] {
        assert!(sits_down(&mut state, number, None, true));
        // As its offer does, and then its connection is noted.
        state.panel.offer(key(number), None, &offer);
        state.moved(&key(number), network(number as u8));
        assert_eq!(state.lines[&key(number)].network, network(number as u8));
    }
    state.moved(&key(3), network(3));
    assert!(!sits(&state, 3), "only who has a place is told of");
    let versions = [PolicyVersion(4)].into();
    let group = ContentId::of(b"");
    let (producer, network) = (key(9), network(9));
    let question = Question { group, producer, network, versions, fresh_until: None, bytes: 1 };
    assert_eq!(state.panel.ask(UnixMillis(0), &question).map(|chosen| chosen.len()), Some(2));
}
