use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use futures::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::net::streams::ACCEPT_QUEUE;
use crate::net::{protocol_names, read_frame, write_frame};

const PIECE: usize = 64 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn megabytes_arrive_in_order_and_a_reader_that_waits_stops_the_writer() {
    for listen in [QUIC, TCP] {
        let (a, _a_events) = start(&[listen]).await;
        let (b, _b_events) = start(&[listen]).await;
        let mut incoming = b.accept(protocol_names::CHUNKS).unwrap();
        connect(&a, &b).await;

        let pieces = 1024;
        let written = Arc::new(AtomicUsize::new(0));
        let writer = tokio::spawn({
            let (written, peer) = (written.clone(), b.peer_id());
            async move {
                let mut stream = a.open_stream(peer, protocol_names::CHUNKS).await.unwrap();
                for n in 0..pieces {
                    write_frame(&mut stream, &[n as u8; PIECE], PIECE).await.unwrap();
                    written.fetch_add(1, Ordering::SeqCst);
                }
                stream.close().await.unwrap();
                // Keeps the host until the reader has everything.
                let mut end = [0];
                assert_eq!(stream.read(&mut end).await.unwrap(), 0);
            }
        });
        let (_, mut stream) = incoming.next().await.unwrap();
        // The writer stands still, long before it is done: the windows are full.
        let mut before = 0;
        let stuck = loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = written.load(Ordering::SeqCst);
            if now == before && now > 0 {
                break now;
            }
            before = now;
        };
        assert!(stuck * PIECE < 40 * 1024 * 1024, "{listen}: {stuck} pieces without a reader");
        for n in 0..pieces {
            let piece = read_frame(&mut stream, PIECE).await.unwrap().unwrap();
            assert!(piece == [n as u8; PIECE], "piece {n}");
        }
        assert!(read_frame(&mut stream, PIECE).await.unwrap().is_none());
        stream.close().await.unwrap();
        writer.await.unwrap();
    }
}

/// Opens `count` streams at once; each sends its number and expects it back. Returns how many were served.
async fn open_many(from: &Host, to: &Host, count: u32) -> Vec<Result<Stream, NetError>> {
    let opening: Vec<_> = (0..count)
        .map(|_| {
            let (host, peer) = (from.clone(), to.peer_id());
            tokio::spawn(async move { host.open_stream(peer, protocol_names::TRAJECTORIES).await })
        })
        .collect();
    let mut opened = Vec::new();
    for task in opening {
        opened.push(task.await.unwrap());
    }
    opened
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_streams_at_once_are_served_by_a_slow_acceptor() {
    for listen in [QUIC, TCP] {
        let (a, _a_events) = start(&[listen]).await;
        let (b, _b_events) = start(&[listen]).await;
        let mut incoming = b.accept(protocol_names::TRAJECTORIES).unwrap();
        connect(&a, &b).await;
        tokio::spawn(async move {
            while let Some((_, mut stream)) = incoming.next().await {
                tokio::time::sleep(Duration::from_millis(3)).await;
                let body = read_frame(&mut stream, 16).await.unwrap().unwrap();
                write_frame(&mut stream, &body, 16).await.unwrap();
                stream.close().await.unwrap();
            }
        });
        let work = open_many(&a, &b, 200).await.into_iter().enumerate().map(|(n, opened)| async move {
            let mut stream = opened.unwrap();
            let body = n.to_be_bytes();
            write_frame(&mut stream, &body, 16).await.unwrap();
            assert_eq!(read_frame(&mut stream, 16).await.unwrap().unwrap(), body);
        });
        timeout(PATIENCE, futures::future::join_all(work)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_the_queue_is_refused_and_told_so() {
    let (a, _a_events) = start(&[QUIC]).await;
    let (b, _b_events) = start(&[QUIC]).await;
    let mut incoming = b.accept(protocol_names::TRAJECTORIES).unwrap();
    connect(&a, &b).await;
    let opened = open_many(&a, &b, 400).await;
    let accepted = opened.iter().filter(|stream| stream.is_ok()).count();
    let refused =
        opened.iter().filter(|stream| matches!(stream, Err(NetError::StreamRefused { .. }))).count();
    assert_eq!((accepted, refused), (ACCEPT_QUEUE, 400 - ACCEPT_QUEUE));
    for _ in 0..accepted {
        incoming.next().await.unwrap();
    }
    // There is room again.
    a.open_stream(b.peer_id(), protocol_names::TRAJECTORIES).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protocol_has_one_acceptor_at_a_time() {
    let (a, _a_events) = start(&[QUIC]).await;
    let (b, _b_events) = start(&[QUIC]).await;
    connect(&a, &b).await;
    let error = a.open_stream(b.peer_id(), protocol_names::CHUNKS).await.unwrap_err();
    assert!(matches!(error, NetError::StreamUnsupported { .. }), "{error}");
    assert!(matches!(b.accept("chunks"), Err(NetError::BadProtocolName { .. })));

    let first = b.accept(protocol_names::CHUNKS).unwrap();
    assert!(matches!(b.accept(protocol_names::CHUNKS), Err(NetError::AcceptTaken { .. })));
    drop(first);
    let mut second =
        eventually("the place is free", || async { b.accept(protocol_names::CHUNKS).ok() }).await;
    let opened = a.open_stream(b.peer_id(), protocol_names::CHUNKS).await.unwrap();
    assert_eq!(second.next().await.unwrap().0, a.peer_id());
    drop(opened);
}
