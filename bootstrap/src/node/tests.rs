use super::*;
use echo_protocol::net::PeerId;
use tokio::sync::{mpsc, oneshot};

const PATIENCE: Duration = Duration::from_secs(60);

fn config(dir: &Path) -> BootNodeConfig {
    BootNodeConfig {
        data_dir: dir.join("data"),
        listen: vec![
            "/ip4/127.0.0.1/udp/0/quic-v1".parse().unwrap(),
            "/ip4/127.0.0.1/tcp/0".parse().unwrap(),
        ],
        external: vec!["/ip4/203.0.113.5/tcp/4160".parse().unwrap()],
        write_address: Some(dir.join("addresses")),
        status_every: Duration::from_millis(20),
    }
}

async fn volunteer(secret: u8) -> Host {
    let config = HostConfig {
        listen: vec!["/ip4/127.0.0.1/tcp/0".parse().unwrap()],
        mode: DhtMode::Server,
        ..HostConfig::client([secret; 32], "test")
    };
    Host::start(config).await.unwrap().0
}

fn split(address: &str) -> (PeerId, Multiaddr) {
    let address: Multiaddr = address.parse().unwrap();
    match address.iter().last() {
        Some(AddrProtocol::P2p(peer)) => (peer, address),
        _ => panic!("{address} does not end in a peer id"),
    }
}

#[tokio::test]
async fn strangers_find_each_other_through_it_and_it_stops_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let (lines, mut said) = mpsc::unbounded_channel::<String>();
    let config = config(dir.path());
    let file = config.write_address.clone().unwrap();
    let node = tokio::spawn(run(
        config,
        async {
            stopped.await.unwrap();
        },
        move |line| lines.send(line.to_owned()).unwrap(),
    ));
    tokio::time::timeout(PATIENCE, async {
        let mut next = async || said.recv().await.unwrap();
        while !next().await.contains("0 peers connected") {}
        let text = std::fs::read_to_string(&file).unwrap();
        let addresses: Vec<&str> = text.lines().collect();
        assert_eq!(addresses.len(), 3, "{text}");
        assert!(addresses[0].starts_with("/ip4/203.0.113.5/"), "the external address comes first: {text}");

        let (a, b) = (volunteer(1).await, volunteer(2).await);
        for (host, address) in [(&a, addresses[1]), (&b, addresses[2])] {
            let (peer, address) = split(address);
            host.dial(peer, vec![address]).await.unwrap();
            host.bootstrap_dht().await.unwrap();
        }
        let found = a.find_peer(b.peer_id()).await.unwrap();
        assert!(!found.is_empty(), "a does not find b");
        let (peer, _) = split(addresses[1]);
        assert!(a.request(peer, b"work?".to_vec(), PATIENCE).await.is_err(), "it takes no requests");
        while !next().await.contains("2 peers connected (2 came, 0 left), 1 requests refused") {}

        stop.send(()).unwrap();
        while !next().await.starts_with("stopping") {}
    })
    .await
    .expect("in time");
    tokio::time::timeout(PATIENCE, node).await.expect("in time").unwrap().unwrap();
}

#[tokio::test]
async fn an_occupied_address_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let listen = vec![format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap()];
    let result = run(BootNodeConfig { listen, ..config(dir.path()) }, std::future::pending(), |_| {}).await;
    assert!(result.unwrap_err().to_string().contains(&port.to_string()));
}

#[tokio::test]
async fn a_second_boot_node_is_kept_out_of_the_directory_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let _first = DirectoryLock::take(&dir.path().join("data")).unwrap();
    let second = run(config(dir.path()), std::future::ready(()), |_| {}).await;
    assert!(matches!(second, Err(BootNodeError::InUse { .. })), "{second:?}");
}
