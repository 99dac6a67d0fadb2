use super::*;
use crate::testing;

fn full(host: &Host) -> Vec<Multiaddr> {
    host.listen_addrs().into_iter().map(|address| address.with_p2p(host.peer_id()).unwrap()).collect()
}

#[tokio::test]
async fn the_learner_is_found_through_the_bootstrap_and_found_again_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("peers.json");
    let (bootstrap, _b) = testing::host(60, Vec::new()).await;
    let (learner, _l) = testing::host(61, Vec::new()).await;
    learner.dial(bootstrap.peer_id(), bootstrap.listen_addrs()).await.unwrap();
    let list = full(&bootstrap);

    let (node, _n) = testing::host(62, Vec::new()).await;
    let mut discovery = Discovery::new(node.clone(), learner.peer_id(), &list, path.clone());
    discovery.reach().await;
    assert!(node.connected_peers().await.contains(&learner.peer_id()));
    node.shutdown().await;
    bootstrap.shutdown().await;

    let (node, _n) = testing::host(62, Vec::new()).await;
    let discovery = Discovery::new(node.clone(), learner.peer_id(), &list, path);
    discovery.attempt().await.unwrap();
    assert!(node.connected_peers().await.contains(&learner.peer_id()));
    node.shutdown().await;
    learner.shutdown().await;
}

#[tokio::test]
async fn a_failed_attempt_says_what_was_tried() {
    let dir = tempfile::tempdir().unwrap();
    let (node, _n) = testing::host(63, Vec::new()).await;
    let nobody = echo_protocol::net::peer_id_of([64; 32]);
    let gone: Multiaddr =
        format!("/ip4/127.0.0.1/tcp/1/p2p/{}", echo_protocol::net::peer_id_of([65; 32])).parse().unwrap();
    let discovery = Discovery::new(node.clone(), nobody, &[gone], dir.path().join("peers.json"));
    let text = discovery.attempt().await.unwrap_err().to_string();
    assert!(
        text.contains("no peer of the list or of last time answers") && text.contains("the DHT"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
    node.shutdown().await;
}

#[tokio::test]
async fn what_is_in_the_way_is_warned_of_once() {
    let logged = testing::logged();
    let dir = tempfile::tempdir().unwrap();
    let (node, _n) = testing::host(66, Vec::new()).await;
    let nobody = echo_protocol::net::peer_id_of([64; 32]);
    let gone: Multiaddr =
        format!("/ip4/127.0.0.1/tcp/1/p2p/{}", echo_protocol::net::peer_id_of([65; 32])).parse().unwrap();
    let mut discovery = Discovery::new(node.clone(), nobody, &[gone], dir.path().join("peers.json"));
    // Longer than the first pause, so that there are several attempts.
    let reached = tokio::time::timeout(3 * FIRST_PAUSE, discovery.reach()).await;
    assert!(reached.is_err(), "there is nobody");
    let warnings = logged.lines("WARN");
    let told: Vec<_> = warnings.iter().filter(|line| line.contains("keeps trying")).collect();
    assert_eq!(told.len(), 1, "{warnings:?}");
    assert!(told[0].contains("no peer of the list answers") && told[0].contains("firewall"), "{told:?}");
    node.shutdown().await;
}

#[test]
fn every_obstacle_has_its_advice_on_a_short_line() {
    let learner = echo_protocol::net::peer_id_of([64; 32]);
    for obstacle in [Obstacle::Nobody, Obstacle::Unknown, Obstacle::Silent] {
        let error = NotReached { learner, obstacle, tried: "the DHT".into() };
        assert!(error.advice().len() < 100, "{}", error.advice());
    }
}
