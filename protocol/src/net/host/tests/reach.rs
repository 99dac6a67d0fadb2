//! Hosts that find out whether others reach them, and the relays of those whom nobody does.

use super::*;
use crate::control::heartbeat::Reach;
use crate::net::addresses::is_relayed;
use crate::net::protocol_names;

fn volunteer(listen: &[&str]) -> HostConfig {
    HostConfig { mode: DhtMode::Auto, ..config(listen) }
}

async fn becomes(host: &Host, reach: Reach) {
    eventually(&format!("{reach:?}"), || async { (host.reach() == reach).then_some(()) }).await;
}

/// The address of `host` through a relay, once it has one.
async fn circuit_of(host: &Host) -> Multiaddr {
    eventually("a place at a relay", || async { host.own_addrs().into_iter().find(is_relayed) }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_can_be_dialled_back_is_public_whatever_transport_it_dialled_with() {
    // With one transport of two the dial often leaves over the one on which the volunteer does not listen.
    for listen in [TCP, QUIC] {
        let (hub, _hub_events) = start(&[QUIC, TCP]).await;
        let (host, _events) = Host::start(volunteer(&[listen])).await.unwrap();
        assert_eq!(host.reach(), Reach::Unknown);
        connect(&host, &hub).await;
        becomes(&host, Reach::Public).await;
        assert_eq!(host.own_addrs(), host.listen_addrs());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lets_nobody_in_is_private_and_takes_a_place_at_a_relay() {
    let (hub, _hub_events) = start(&[TCP]).await;
    let mut closed = volunteer(&[TCP]);
    closed.limits.pending_incoming = 0;
    let (host, _events) = Host::start(closed).await.unwrap();
    connect(&host, &hub).await;
    becomes(&host, Reach::Private).await;
    let circuit = circuit_of(&host).await;
    assert!(circuit.to_string().contains(&hub.peer_id().to_string()), "{circuit}");
    assert!(!host.listen_addrs().contains(&circuit));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_go_through_a_relay_and_streams_do_not() {
    let (hub, _hub_events) = start(&[TCP]).await;
    let host = echo(volunteer(&[])).await;
    assert_eq!(host.reach(), Reach::Private);
    let _incoming = host.accept(protocol_names::CHUNKS).unwrap();
    connect(&host, &hub).await;
    let circuit = circuit_of(&host).await;

    let asker = Host::start(HostConfig { mode: DhtMode::Client, ..config(&[]) }).await.unwrap().0;
    assert!(asker.add_address(host.peer_id(), circuit).await.unwrap());
    assert_eq!(asker.request(host.peer_id(), vec![1, 2], PATIENCE).await.unwrap(), [2, 1]);
    let refused = asker.open_stream(host.peer_id(), protocol_names::CHUNKS).await.unwrap_err();
    assert!(matches!(refused, NetError::OnlyRelayed { .. }), "{refused}");
    assert!(refused.to_string().contains("only a relay"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hub_tells_others_where_a_private_host_is_reached() {
    let (hub, _hub_events) = start(&[TCP]).await;
    let (host, _events) = Host::start(volunteer(&[])).await.unwrap();
    connect(&host, &hub).await;
    let circuit = circuit_of(&host).await;
    let known = || async { hub.known_addresses(host.peer_id()).await.contains(&circuit).then_some(()) };
    eventually("identify tells the hub", known).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_host_that_connects_to_its_consumer_serves_it() {
    let (host, _events) = Host::start(volunteer(&[])).await.unwrap();
    let mut incoming = host.accept(protocol_names::CHUNKS).unwrap();
    let (consumer, _consumer_events) = start(&[TCP]).await;
    connect(&host, &consumer).await;
    let connected = || async { (!consumer.connected_peers().await.is_empty()).then_some(()) };
    eventually("the consumer sees the connection", connected).await;
    let (opened, taken) =
        tokio::join!(consumer.open_stream(host.peer_id(), protocol_names::CHUNKS), incoming.next());
    opened.unwrap();
    assert_eq!(taken.unwrap().0, consumer.peer_id());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keepers_word_counts_at_once() {
    let (hub, _events) = start(&[TCP]).await;
    assert_eq!(hub.reach(), Reach::Public);
    let forwarded: Multiaddr = "/ip4/203.0.113.5/tcp/4160".parse().unwrap();
    let mut behind_a_router = volunteer(&[TCP]);
    behind_a_router.external = vec![forwarded.clone()];
    let (host, _events) = Host::start(behind_a_router).await.unwrap();
    assert_eq!((host.reach(), host.own_addrs().first()), (Reach::Public, Some(&forwarded)));
}
