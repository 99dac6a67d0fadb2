//! Learners that are there and of another version: they take connections, and leave some protocol unanswered.

use super::*;
use crate::state::charter_file;

async fn learner_host() -> (Host, echo_protocol::net::HostEvents) {
    let key = testing::learner_key();
    let config = HostConfig {
        listen: loopback(),
        mode: DhtMode::Server,
        limits: ConnectionLimits::hub(),
        ..HostConfig::client(key.secret(), "fake learner")
    };
    super::super::network::start_host(config).await.unwrap()
}

/// Answers nothing, and closes the connection over which it was asked.
async fn silent_learner(questions: Arc<Mutex<u32>>) -> Host {
    let (host, mut events) = learner_host().await;
    let learner = host.clone();
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            if let HostEvent::Request { peer, .. } = event {
                *questions.lock() += 1;
                learner.disconnect(peer).await.unwrap();
            }
        }
    });
    host
}

#[tokio::test]
async fn a_learner_that_answers_nothing_is_tried_with_pauses_and_named_once() {
    let logged = testing::logged();
    let dir = tempfile::tempdir().unwrap();
    let questions = Arc::new(Mutex::new(0));
    let learner = silent_learner(questions.clone()).await;
    let settings = relaying(dir.path(), &learner);
    std::fs::create_dir_all(&settings.data_dir).unwrap();
    charter_file::keep_charter(&settings.data(), &testing::charter()).unwrap();
    let (stop, running) = start(&settings);
    while *questions.lock() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    // With pauses of 0.5, 1, 2 and 4 s there are four attempts at most, of three questions each.
    let asked = *questions.lock();
    assert!(asked <= 12, "{asked} questions");
    let named = logged.lines("connected to the learner, but it does not answer");
    assert_eq!(named.len(), 1, "{named:?}");
    assert!(logged.lines("the learner is reached").is_empty());
    stop.cancel();
    running.await.unwrap();
    learner.shutdown().await;
}

#[tokio::test]
async fn a_learner_that_serves_no_snapshots_is_named_once_with_the_likely_cause() {
    let logged = testing::logged();
    let dir = tempfile::tempdir().unwrap();
    let (learner, mut events) = learner_host().await;
    let manifest = testing::snapshot(&ChunkStore::open(&dir.path().join("learner")).unwrap(), 1);
    let signed = Signed::sign(&manifest, &testing::learner_key()).unwrap();
    let books = Mutex::new(Books { kept: [(manifest.version, signed)].into(), ..Books::default() });
    let addresses = learner.listen_addrs().iter().map(ToString::to_string).collect();
    let me = Peer { key: testing::learner_key().public(), addresses };
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            if let HostEvent::Request { peer, body, reply } = event {
                let response = answer(&books, &me, peer, ControlRequest::from_bytes(&body).unwrap());
                let _gone = reply.send(response.to_bytes().unwrap());
            }
        }
    });
    let (stop, running) = start(&relaying(dir.path(), &learner));
    let named = || logged.lines("snapshots cannot come from a neighbour");
    let wait = async {
        while named().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("it is named");
    // It is tried again meanwhile.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(named().len(), 1, "{:?}", named());
    assert!(named()[0].contains("WARN") && named()[0].contains("version"), "{:?}", named());
    stop.cancel();
    running.await.unwrap();
    learner.shutdown().await;
}
