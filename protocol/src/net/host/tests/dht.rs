use super::*;
use libp2p::multiaddr::Protocol;

/// Who provides `key`, once somebody does.
async fn first_providers(host: &Host, key: &[u8]) -> Vec<PeerId> {
    eventually("a provider is found", || async {
        let found = host.providers(key.to_vec()).await.unwrap();
        (!found.is_empty()).then_some(found)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_find_each_other_through_the_bootstrap_node() {
    let (boot, _boot_events) = start(&[QUIC, TCP]).await;
    let (a, b) = (start_echo(&[QUIC, TCP]).await, start_echo(&[QUIC, TCP]).await);
    connect(&a, &boot).await;
    connect(&b, &boot).await;
    assert!(a.known_addresses(b.peer_id()).await.is_empty());

    // By identity.
    let addrs = eventually("B is found", || async {
        let found = a.find_peer(b.peer_id()).await.unwrap();
        (!found.is_empty()).then_some(found)
    })
    .await;
    assert!(b.listen_addrs().iter().any(|addr| addrs.contains(addr)), "{addrs:?}");
    a.dial(b.peer_id(), addrs).await.unwrap();
    assert_eq!(a.request(b.peer_id(), vec![1, 2], PATIENCE).await.unwrap(), [2, 1]);

    // By key.
    b.provide(b"a run".to_vec()).await.unwrap();
    assert_eq!(first_providers(&a, b"a run").await, [b.peer_id()]);
    assert!(a.providers(b"another run".to_vec()).await.unwrap().is_empty());
    b.bootstrap_dht().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_found_by_the_key_that_it_provides() {
    let (boot, _boot_events) = start(&[QUIC]).await;
    let mut private = config(&[QUIC]);
    private.mode = DhtMode::Client;
    let (client, _client_events) = Host::start(private).await.unwrap();
    connect(&client, &boot).await;
    client.provide(b"relay".to_vec()).await.unwrap();
    // A comes later, so it can know of the client only through the bootstrap node.
    let (a, _a_events) = start(&[QUIC]).await;
    connect(&a, &boot).await;
    assert_eq!(first_providers(&a, b"relay").await, [client.peer_id()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_dht_does_not_take_is_refused_with_its_reason() {
    let (alone, _events) = start(&[QUIC]).await;
    let long = vec![0; MAX_DHT_KEY + 1];
    assert!(matches!(alone.provide(long.clone()).await, Err(NetError::DhtKeyTooLong { .. })));
    assert!(matches!(alone.providers(long).await, Err(NetError::DhtKeyTooLong { .. })));
    assert!(matches!(alone.find_peer(PeerId::random()).await, Err(NetError::NoDhtPeers)));
}

fn socket(address: &Multiaddr) -> std::net::SocketAddr {
    match address.iter().collect::<Vec<_>>()[..] {
        [Protocol::Ip4(ip), Protocol::Tcp(port), ..] => (ip, port).into(),
        _ => panic!("{address} is no TCP address"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_has_moved_is_found_where_others_say_that_it_is() {
    let (boot, _boot_events) = start(&[TCP]).await;
    let (asker, before) = (start_echo(&[TCP]).await, config(&[TCP]));
    let secret = before.secret;
    let mover = echo(before).await;
    connect(&asker, &boot).await;
    connect(&asker, &mover).await;
    let old = mover.listen_addrs();
    eventually("the mover is listed", || async {
        let known = asker.known_addresses(mover.peer_id()).await;
        old.iter().all(|address| known.contains(address)).then_some(())
    })
    .await;
    mover.shutdown().await;
    // Nobody answers there any more, and nobody refuses.
    let _silent = std::net::TcpListener::bind(socket(&old[0])).unwrap();
    let moved = echo(HostConfig { secret, ..config(&[TCP]) }).await;
    connect(&moved, &boot).await;
    let new = moved.listen_addrs();
    eventually("the boot node knows the new address", || async {
        let known = boot.known_addresses(moved.peer_id()).await;
        new.iter().all(|address| known.contains(address)).then_some(())
    })
    .await;
    let (early, _) = asker.find_peer_early(moved.peer_id()).await.unwrap();
    assert!(new.iter().any(|address| early.contains(address)), "what was known is no news: {early:?}");
    let found = asker.find_peer(moved.peer_id()).await.unwrap();
    assert!(new.iter().all(|address| found.contains(address)), "{found:?}");
    asker.dial(moved.peer_id(), new).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_is_found_before_those_are_given_up_that_have_vanished() {
    let (boot, _boot_events) = start(&[TCP, QUIC]).await;
    let wanted = start_echo(&[TCP]).await;
    connect(&wanted, &boot).await;
    // They end without a word, and nothing says that nobody listens there any more.
    for _ in 0..4 {
        let (vanished, _events) = start(&[QUIC]).await;
        connect(&vanished, &boot).await;
        eventually("the boot node lists it", || async {
            let listed = boot.known_addresses(vanished.peer_id()).await;
            (!listed.is_empty()).then_some(())
        })
        .await;
        vanished.shutdown().await;
    }
    let (newcomer, _events) = start(&[TCP, QUIC]).await;
    connect(&newcomer, &boot).await;
    let (found, everybody_was_asked) = newcomer.find_peer_early(wanted.peer_id()).await.unwrap();
    assert!(wanted.listen_addrs().iter().any(|address| found.contains(address)), "{found:?}");
    assert!(!everybody_was_asked, "a lookup waits for seconds for those that have vanished");
    newcomer.dial(wanted.peer_id(), found).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volunteer_with_a_narrow_uplink_only_asks_the_dht() {
    for (max_upload, answers) in [(None, true), (Some(DHT_UPLOAD), true), (Some(DHT_UPLOAD - 1), false)] {
        let (boot, _boot_events) = start(&[TCP]).await;
        let (volunteer, _events) =
            Host::start(HostConfig { mode: DhtMode::Auto, max_upload, ..config(&[TCP]) }).await.unwrap();
        let (asker, _asker_events) = start(&[TCP]).await;
        connect(&volunteer, &boot).await;
        connect(&asker, &volunteer).await;
        assert!(volunteer.find_peer(boot.peer_id()).await.is_ok(), "it asks whatever its uplink");
        // The asker knows nobody else.
        assert_eq!(asker.find_peer(PeerId::random()).await.is_ok(), answers, "{max_upload:?}");
    }
}
