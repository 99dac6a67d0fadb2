use std::net::{IpAddr, TcpStream, UdpSocket};
use std::time::Instant;

use libp2p::multiaddr::Protocol;

use super::*;
use crate::net::protocol_names;

/// The address that the system would send from, if it has another than loopback. Nothing is sent.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|addr| addr.ip()).filter(|ip| !ip.is_loopback())
}

#[tokio::test]
async fn a_host_on_all_interfaces_knows_their_addresses_from_the_start() {
    let Some(IpAddr::V4(outer)) = outer_address() else {
        println!("skipped: this machine has no address beside loopback");
        return;
    };
    for _ in 0..8 {
        let (host, _events) = start(&["/ip4/0.0.0.0/udp/0/quic-v1", "/ip4/0.0.0.0/tcp/0"]).await;
        let of_outer = |addr: &&Multiaddr| addr.to_string().starts_with(&format!("/ip4/{outer}/"));
        let listen = host.listen_addrs();
        assert_eq!(listen.iter().filter(of_outer).count(), 2, "{listen:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dial_to_nobody_says_what_was_tried() {
    let (a, _events) = start(&[TCP, QUIC]).await;
    let (peer, nobody) = (PeerId::random(), port_free_address());
    let error = a.dial(peer, vec![nobody.clone()]).await.unwrap_err().to_string();
    assert!(error.contains(&nobody.to_string()) && error.contains("refused"), "{error}");

    let error = a.dial(PeerId::random(), vec![]).await.unwrap_err().to_string();
    assert!(error.contains("no address"), "{error}");
    let error = a.dial(PeerId::random(), vec!["/ip4/0.0.0.0/tcp/0".parse().unwrap()]).await.unwrap_err();
    assert!(error.to_string().contains("no address"), "{error}");

    let (b, _events) = start(&[TCP]).await;
    let error = a.dial(PeerId::random(), b.listen_addrs()).await.unwrap_err().to_string();
    assert!(error.contains(&b.peer_id().to_string()), "{error}");
    let error = a.dial(a.peer_id(), a.listen_addrs()).await.unwrap_err().to_string();
    assert!(error.contains("our own identity"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_is_called_so() {
    for listen in [QUIC, TCP] {
        let (host, _events) = start(&[listen]).await;
        let addr = host.listen_addrs().pop().unwrap();
        let mut second = config(&[]);
        second.listen = vec![addr.clone()];
        match Host::start(second).await {
            Err(NetError::AddressInUse { addr: named }) => assert_eq!(named, addr),
            other => panic!("{:?}", other.map(|_| ())),
        }
    }
    let mut wrong = config(&[]);
    wrong.listen = vec!["/dns4/localhost/tcp/0".parse().unwrap()];
    assert!(matches!(Host::start(wrong).await, Err(NetError::Listen { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn dials_join_and_the_peer_says_where_it_lives() {
    let (a, mut a_events) = start(&[QUIC, TCP]).await;
    let b = start_echo(&[QUIC, TCP]).await;
    let dials = (0..10).map(|_| a.dial(b.peer_id(), b.listen_addrs()));
    for outcome in futures::future::join_all(dials).await {
        outcome.unwrap();
    }
    assert_eq!(a.connected_peers().await, [b.peer_id()]);
    let peer = next_of(&mut a_events, |event| match event {
        HostEvent::Connected { peer, .. } => Some(peer),
        _ => None,
    })
    .await;
    assert_eq!(peer, b.peer_id());
    // B never dialled, and learns A's addresses from A.
    eventually("identify tells", || async {
        let known = b.known_addresses(a.peer_id()).await;
        a.listen_addrs().iter().all(|addr| known.contains(addr)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_dial_each_other_at_once_stay_connected() {
    for listen in [QUIC, TCP] {
        let (a, b) = (start_echo(&[listen]).await, start_echo(&[listen]).await);
        let mut incoming = b.accept(protocol_names::CHUNKS).unwrap();
        let (there, back) =
            tokio::join!(a.dial(b.peer_id(), b.listen_addrs()), b.dial(a.peer_id(), a.listen_addrs()),);
        there.unwrap();
        back.unwrap();
        for n in 0..20u8 {
            assert_eq!(a.request(b.peer_id(), vec![n, 0], PATIENCE).await.unwrap(), [0, n]);
            assert_eq!(b.request(a.peer_id(), vec![n, 0], PATIENCE).await.unwrap(), [0, n]);
            a.open_stream(b.peer_id(), protocol_names::CHUNKS).await.unwrap();
            incoming.next().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_peer_with_its_old_identity_reconnects() {
    for listen in [QUIC, TCP] {
        let (a, mut a_events) = start(&[listen]).await;
        let mut same = config(&[listen]);
        let (b, _b_events) = Host::start(same.clone()).await.unwrap();
        let old = b.peer_id();
        // It comes back at its old address, as a volunteer with a forwarded port does.
        same.listen = b.listen_addrs();
        connect(&a, &b).await;
        b.shutdown().await;
        assert!(matches!(b.dial(a.peer_id(), a.listen_addrs()).await, Err(NetError::Stopped)));
        next_of(&mut a_events, |event| match event {
            HostEvent::Disconnected { peer } => (peer == old).then_some(()),
            _ => None,
        })
        .await;

        let (b, mut b_events) =
            eventually("the port is free", || async { Host::start(same.clone()).await.ok() }).await;
        assert_eq!(b.peer_id(), old);
        tokio::spawn(async move {
            while let Some(event) = b_events.recv().await {
                if let HostEvent::Request { body, reply, .. } = event {
                    reply.send(body).unwrap();
                }
            }
        });
        // A remembers where it lived.
        a.dial(old, vec![]).await.unwrap();
        assert_eq!(a.request(old, vec![8], PATIENCE).await.unwrap(), [8]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_peer_is_out_until_it_is_let_in() {
    let (a, mut a_events) = start(&[QUIC]).await;
    let b = start_echo(&[QUIC]).await;
    connect(&a, &b).await;
    a.block(b.peer_id()).await.unwrap();
    next_of(&mut a_events, |event| match event {
        HostEvent::Disconnected { peer } => (peer == b.peer_id()).then_some(()),
        _ => None,
    })
    .await;
    assert!(matches!(a.dial(b.peer_id(), b.listen_addrs()).await, Err(NetError::Blocked { .. })));
    let refused = a.request(b.peer_id(), vec![1], PATIENCE).await;
    assert!(matches!(refused, Err(NetError::Blocked { .. })));
    // B's handshake may succeed before A refuses, but nothing works over it.
    eventually("B knows that the first connection is gone", || async {
        b.connected_peers().await.is_empty().then_some(())
    })
    .await;
    let asked = match b.dial(a.peer_id(), a.listen_addrs()).await {
        Ok(()) => b.request(a.peer_id(), vec![1], PATIENCE).await.map(|_| ()),
        refused => refused,
    };
    asked.unwrap_err();
    assert!(a.connected_peers().await.is_empty());

    a.unblock(b.peer_id()).await.unwrap();
    connect(&a, &b).await;
    assert_eq!(a.request(b.peer_id(), vec![1, 2], PATIENCE).await.unwrap(), [2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_limit_strangers_make_room_and_who_is_kept_stays() {
    let mut small = config(&[QUIC]);
    small.limits.incoming = 2;
    let a = echo(small).await;
    let (stranger, second, third) = (start_echo(&[]).await, start_echo(&[]).await, start_echo(&[]).await);
    connect(&stranger, &a).await;
    connect(&second, &a).await;
    let mut kept = vec![second.peer_id(), third.peer_id()];
    kept.sort_unstable();
    a.keep(kept.clone()).await.unwrap();
    // It is in, though there are two places.
    connect(&third, &a).await;
    assert_eq!(third.request(a.peer_id(), vec![1, 2], PATIENCE).await.unwrap(), [2, 1]);
    eventually("the stranger has gone", || async { (a.connected_peers().await == kept).then_some(()) }).await;
    let late = start_echo(&[]).await;
    let asked = match late.dial(a.peer_id(), a.listen_addrs()).await {
        Ok(()) => late.request(a.peer_id(), vec![1], PATIENCE).await.map(|_| ()),
        refused => refused,
    };
    asked.unwrap_err();
    assert_eq!(a.connected_peers().await, kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_makes_room_for_who_is_blocked() {
    let mut small = config(&[QUIC]);
    small.limits.incoming = 1;
    let a = echo(small).await;
    let (blocked, stranger) = (start_echo(&[]).await, start_echo(&[]).await);
    a.block(blocked.peer_id()).await.unwrap();
    connect(&stranger, &a).await;
    for _ in 0..3 {
        let asked = match blocked.dial(a.peer_id(), a.listen_addrs()).await {
            Ok(()) => blocked.request(a.peer_id(), vec![1], PATIENCE).await.map(|_| ()),
            refused => refused,
        };
        asked.unwrap_err();
    }
    assert_eq!(a.connected_peers().await, [stranger.peer_id()]);
    assert_eq!(stranger.request(a.peer_id(), vec![1, 2], PATIENCE).await.unwrap(), [2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_sockets_lock_nobody_out() {
    let mut small = config(&[TCP]);
    small.limits.pending_incoming = 8;
    let a = echo(small).await;
    let port = a.listen_addrs()[0].iter().find_map(|part| match part {
        Protocol::Tcp(port) => Some(port),
        _ => None,
    });
    let silent: Vec<TcpStream> =
        (0..64).map(|_| TcpStream::connect(("127.0.0.1", port.unwrap())).unwrap()).collect();
    let begun = Instant::now();
    let newcomer = start_echo(&[]).await;
    connect(&newcomer, &a).await;
    assert_eq!(newcomer.request(a.peer_id(), vec![1, 2], PATIENCE).await.unwrap(), [2, 1]);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_nonsense_is_not_kept() {
    let (a, _events) = start(&[]).await;
    let peer = PeerId::random();
    assert!(!a.add_address(peer, "/ip4/0.0.0.0/tcp/1".parse().unwrap()).await.unwrap());
    assert!(a.known_addresses(peer).await.is_empty());
    let good: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
    assert!(a.add_address(peer, good.clone().with_p2p(peer).unwrap()).await.unwrap());
    assert_eq!(a.known_addresses(peer).await, [good]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_say_of_a_peer_points_at_no_name_and_not_at_our_own_machine() {
    let (a, _events) = start(&[]).await;
    let peer = PeerId::random();
    for address in ["/dns4/localhost/tcp/22", "/ip4/127.0.0.1/tcp/22", "/ip6/::1/tcp/22"] {
        assert!(!a.hear_address(peer, address.parse().unwrap()).await.unwrap(), "{address}");
    }
    assert!(a.known_addresses(peer).await.is_empty());
    let elsewhere: Multiaddr = "/ip4/203.0.113.7/tcp/4160".parse().unwrap();
    assert!(a.hear_address(peer, elsewhere.clone()).await.unwrap());
    assert_eq!(a.known_addresses(peer).await, [elsewhere]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_handle_stops_the_host() {
    let (a, mut events) = start(&[QUIC]).await;
    let clone = a.clone();
    drop(a);
    assert!(clone.connected_peers().await.is_empty());
    drop(clone);
    assert!(timeout(PATIENCE, events.recv()).await.unwrap().is_none());
}
