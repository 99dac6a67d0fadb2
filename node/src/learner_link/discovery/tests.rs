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
    // The first attempt ends when the DHT has given up, which takes seconds on a busy machine.
    let warned = async {
        while logged.lines("keeps trying").is_empty() {
            tokio::time::sleep(FIRST_PAUSE / 10).await;
        }
        // Longer than the first pause, so that there are several attempts.
        tokio::time::sleep(3 * FIRST_PAUSE).await;
    };
    tokio::select! {
        () = discovery.reach() => panic!("there is nobody"),
        waited = tokio::time::timeout(Duration::from_secs(30), warned) => waited.expect("no warning in 30 s"),
    }
    let warnings = logged.lines("keeps trying");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let warning = &warnings[0];
    assert!(warning.contains("no peer of the list answers") && warning.contains("firewall"), "{warning}");
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
