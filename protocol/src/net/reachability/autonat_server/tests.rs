//! Whom a server dials, and for how long.

use super::*;
use std::task::Waker;

fn address(text: &str) -> Multiaddr {
    text.parse().unwrap()
}

fn id(n: usize) -> ConnectionId {
    ConnectionId::new_unchecked(n)
}

/// The connection that is to be closed.
fn closed(polled: Poll<ToSwarm<server::Event, THandlerInEvent<DialBack>>>) -> Option<ConnectionId> {
    match polled {
        Poll::Ready(ToSwarm::CloseConnection { connection: CloseConnection::One(id), .. }) => Some(id),
        _ => None,
    }
}

/// A server of which somebody at this address asks.
fn asked_from(via: &str) -> (DialBack, PeerId) {
    let (mut dial_back, peer) = (DialBack::new(2), PeerId::random());
    dial_back.askers.insert((peer, id(0)), address(via));
    (dial_back, peer)
}

#[test]
fn nobody_but_the_asker_is_dialled() {
    let (far, far_peer) = asked_from("/ip4/203.0.113.7/tcp/50123");
    let (near, near_peer) = asked_from("/ip4/192.168.1.9/tcp/50123");
    let (v6, v6_peer) = asked_from("/ip6/2001:db8::1/tcp/50123");
    for (named, by_far, by_near, by_v6) in [
        ("/ip4/203.0.113.7/tcp/4160", true, false, true),
        ("/ip4/203.0.113.8/udp/4160/quic-v1", false, false, true),
        ("/ip4/192.168.1.9/tcp/80", false, true, false),
        ("/ip4/192.168.1.1/tcp/80", false, false, false),
        ("/ip4/127.0.0.1/tcp/80", false, false, false),
        ("/ip6/2001:db8::2/tcp/4160", true, true, true),
        ("/ip6/2001:db8:0:1::1/tcp/4160", true, true, false),
        ("/dns4/example.org/tcp/4160", false, false, false),
    ] {
        let named = address(named);
        assert_eq!(far.may_name(far_peer, &named).is_some(), by_far, "{named}");
        assert_eq!(near.may_name(near_peer, &named).is_some(), by_near, "{named}");
        assert_eq!(v6.may_name(v6_peer, &named).is_some(), by_v6, "{named}");
        assert_eq!(far.may_name(near_peer, &named), None, "somebody who is not connected");
    }
}

#[test]
fn trials_are_few_at_once() {
    let (mut dial_back, peer) = asked_from("/ip4/203.0.113.7/tcp/50123");
    let named = [address("/ip4/203.0.113.7/tcp/4160")];
    assert!(dial_back.begin(id(1), peer, &named).is_ok() && dial_back.begin(id(2), peer, &named).is_ok());
    assert!(dial_back.begin(id(3), peer, &named).is_err());
    let error = DialError::Aborted;
    let failure = DialFailure { peer_id: Some(peer), error: &error, connection_id: id(1) };
    dial_back.on_swarm_event(FromSwarm::DialFailure(failure));
    assert!(dial_back.begin(id(3), peer, &named).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_trial_ends_in_time_and_its_connection_with_it() {
    let (mut dial_back, peer) = asked_from("/ip4/203.0.113.7/tcp/50123");
    let named = [address("/ip4/203.0.113.7/tcp/4160")];
    dial_back.begin(id(1), peer, &named).unwrap();
    dial_back.begin(id(2), peer, &named).unwrap();
    dial_back.trials.get_mut(&id(2)).unwrap().connected = true;
    let mut cx = Context::from_waker(Waker::noop());
    assert!(dial_back.poll(&mut cx).is_pending());
    tokio::time::advance(TRIAL_TIMEOUT).await;
    assert_eq!(closed(dial_back.poll(&mut cx)), Some(id(2)));
    assert!(dial_back.poll(&mut cx).is_pending());
    // One that succeeds later is of no use.
    dial_back.trials.get_mut(&id(1)).unwrap().connected = true;
    assert_eq!(closed(dial_back.poll(&mut cx)), Some(id(1)));
    assert!(dial_back.trials.is_empty());
}
