//! Caps on real connections.

use std::time::Duration;

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use libp2p::PeerId;
use tokio::time::{Instant, timeout};

use super::Pacing;
use crate::net::{Host, HostConfig, HostEvents, IncomingStreams, protocol_names};

const TCP: &str = "/ip4/127.0.0.1/tcp/0";
const QUIC: &str = "/ip4/127.0.0.1/udp/0/quic-v1";
const PATIENCE: Duration = Duration::from_secs(120);
const CAP: u64 = 1_000_000;

async fn host(
    secret: u8,
    listen: &str,
    max_upload: Option<u64>,
    max_download: Option<u64>,
) -> (Host, HostEvents) {
    let listen = vec![listen.parse().unwrap()];
    let client = HostConfig::client([secret; 32], "echo-test");
    Host::start(HostConfig { listen, max_upload, max_download, ..client }).await.unwrap()
}

/// Opens streams, each of which is then written to and read from without an end. All are opened
/// before: two streams that are not read as fast as they are written to fill the window that all
/// streams of a QUIC connection share, and whoever comes later may wait for longer than an
/// opening is waited for.
async fn flood(source: &Host, sink: &Host, accepted: &mut IncomingStreams, streams: usize) {
    let mut opened = Vec::new();
    for _ in 0..streams {
        let sent = source.open_stream(sink.peer_id(), protocol_names::CHUNKS).await.unwrap();
        opened.push((sent, accepted.next().await.unwrap().1));
    }
    for (mut sent, mut received) in opened {
        tokio::spawn(async move {
            let bytes = vec![7; 64 * 1024];
            while sent.write_all(&bytes).await.is_ok() {}
        });
        tokio::spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            while received.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
        });
    }
}

/// Sends `bytes` from one host to another over four streams, and checks that they took as long as
/// the cap says. How well a cap is used depends on what else the machine does, so that is asked of
/// the [token bucket](super::token_bucket) alone.
async fn keeps_to_the_cap(listen: &str, caps: (Option<u64>, Option<u64>)) {
    const BYTES: u64 = 2 * CAP;
    let (source, _source_events) = host(1, listen, caps.0, None).await;
    let (sink, _sink_events) = host(2, listen, None, caps.1).await;
    let mut accepted = sink.accept(protocol_names::CHUNKS).unwrap();
    source.dial(sink.peer_id(), sink.listen_addrs()).await.unwrap();
    flood(&source, &sink, &mut accepted, 4).await;
    let (start, before) = (Instant::now(), sink.pacing().downloaded());
    let moved = loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let moved = sink.pacing().downloaded() - before;
        if moved >= BYTES {
            break moved;
        }
    };
    let lasted = start.elapsed().as_millis() as u64;
    assert!(
        moved * 1000 <= CAP * lasted * 105 / 100 + 2 * CAP / 10,
        "{listen}: {moved} bytes in {lasted} ms"
    );
    source.shutdown().await;
    sink.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_keep_to_the_cap() {
    for listen in [TCP, QUIC] {
        timeout(PATIENCE, keeps_to_the_cap(listen, (Some(CAP), None))).await.expect("bytes go on to arrive");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloads_keep_to_the_cap() {
    for listen in [TCP, QUIC] {
        timeout(PATIENCE, keeps_to_the_cap(listen, (None, Some(CAP)))).await.expect("bytes go on to arrive");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_gets_through_while_bulk_data_fill_the_cap() {
    let (source, _source_events) = host(3, TCP, Some(CAP), None).await;
    let (sink, mut sink_events) = host(4, TCP, None, None).await;
    tokio::spawn(async move {
        while let Some(event) = sink_events.recv().await {
            if let crate::net::HostEvent::Request { body, reply, .. } = event {
                reply.send(body).unwrap();
            }
        }
    });
    let mut accepted = sink.accept(protocol_names::CHUNKS).unwrap();
    source.dial(sink.peer_id(), sink.listen_addrs()).await.unwrap();
    flood(&source, &sink, &mut accepted, 8).await;
    for _ in 0..3 {
        let answer = source.request(sink.peer_id(), b"still there?".to_vec(), PATIENCE).await.unwrap();
        assert_eq!(answer, b"still there?");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_can_be_lifted_while_it_holds_streams_back() {
    let (source, _source_events) = host(5, TCP, Some(100_000), None).await;
    let (sink, _sink_events) = host(6, TCP, None, None).await;
    let mut accepted = sink.accept(protocol_names::CHUNKS).unwrap();
    source.dial(sink.peer_id(), sink.listen_addrs()).await.unwrap();
    let mut sent = source.open_stream(sink.peer_id(), protocol_names::CHUNKS).await.unwrap();
    let (_, mut received) = accepted.next().await.unwrap();
    const LENGTH: usize = 8 << 20;
    tokio::spawn(async move {
        sent.write_all(&vec![7; LENGTH]).await.unwrap();
        sent.close().await.unwrap();
    });
    assert_eq!(source.pacing().max_upload(), Some(100_000));
    source.pacing().set_max_upload(None);
    let mut bytes = Vec::new();
    timeout(PATIENCE, received.read_to_end(&mut bytes)).await.expect("80 s under the cap").unwrap();
    assert_eq!(bytes.len(), LENGTH);
    assert!(source.pacing().uploaded() > LENGTH as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_kept_comes_before_strangers_and_these_take_what_is_free() {
    let (source, _source_events) = host(7, TCP, Some(CAP), None).await;
    let (known, _known_events) = host(8, TCP, None, None).await;
    let (stranger, _stranger_events) = host(9, TCP, None, None).await;
    source.keep(vec![known.peer_id()]).await.unwrap();
    for sink in [&known, &stranger] {
        source.dial(sink.peer_id(), sink.listen_addrs()).await.unwrap();
    }
    let rate = async |sink: &Host| {
        let before = sink.pacing().downloaded();
        tokio::time::sleep(Duration::from_secs(2)).await;
        (sink.pacing().downloaded() - before) / 2
    };
    let mut accepted = stranger.accept(protocol_names::CHUNKS).unwrap();
    flood(&source, &stranger, &mut accepted, 16).await;
    // How well a cap is used depends on what else the machine does, so half of it is asked for.
    let alone = rate(&stranger).await;
    assert!(alone > CAP / 2, "{alone} bytes a second");
    let mut accepted = known.accept(protocol_names::CHUNKS).unwrap();
    flood(&source, &known, &mut accepted, 8).await;
    // Strangers give it back within some seconds.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (of_known, of_stranger) = tokio::join!(rate(&known), rate(&stranger));
    assert!(of_stranger > 0 && of_known > 3 * of_stranger, "{of_known} and {of_stranger} bytes a second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_becomes_known_need_not_wait_among_the_others() {
    // Of 20,000 bytes a second, strangers have 2,000 while somebody known takes all.
    let (source, _source_events) = host(10, TCP, Some(20_000), None).await;
    let (known, _known_events) = host(11, TCP, None, None).await;
    let (crowd, _crowd_events) = host(12, TCP, None, None).await;
    let (newcomer, _newcomer_events) = host(13, TCP, None, None).await;
    for sink in [&known, &crowd, &newcomer] {
        source.dial(sink.peer_id(), sink.listen_addrs()).await.unwrap();
    }
    let mut of_newcomer = newcomer.accept(protocol_names::CHUNKS).unwrap();
    let mut sent = source.open_stream(newcomer.peer_id(), protocol_names::CHUNKS).await.unwrap();
    let (_, mut received) = of_newcomer.next().await.unwrap();
    let (mut of_known, mut of_crowd) =
        (known.accept(protocol_names::CHUNKS).unwrap(), crowd.accept(protocol_names::CHUNKS).unwrap());
    flood(&source, &crowd, &mut of_crowd, 40).await;
    flood(&source, &known, &mut of_known, 4).await;
    source.keep(vec![known.peer_id()]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    // The crowd's forty places come first: half a minute.
    tokio::spawn(async move {
        sent.write_all(&[7; 1000]).await.unwrap();
        sent.flush().await.unwrap();
        std::future::pending::<()>().await;
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    source.keep(vec![known.peer_id(), newcomer.peer_id()]).await.unwrap();
    let mut bytes = [0; 1000];
    timeout(Duration::from_secs(5), received.read_exact(&mut bytes)).await.expect("it is known").unwrap();
}

#[test]
fn a_consumer_is_no_stranger_while_one_of_its_streams_is_served() {
    let (kept, consumer) = (PeerId::random(), PeerId::random());
    let pacing = Pacing::new(Some(CAP), None);
    assert!(!pacing.shared.is_stranger(&consumer), "who keeps nobody has no strangers");
    pacing.keep([kept]);
    assert!(pacing.shared.is_stranger(&consumer) && !pacing.shared.is_stranger(&kept));
    let (old, new) = (pacing.serve(consumer), pacing.serve(consumer));
    drop(old);
    assert!(!pacing.shared.is_stranger(&consumer));
    drop(new);
    assert!(pacing.shared.is_stranger(&consumer));
}
