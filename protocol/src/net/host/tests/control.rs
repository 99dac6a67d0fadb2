use futures::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::net::behaviour::control_codec::MAX_CONTROL_RESPONSE;
use crate::net::{protocol_names, write_frame};

#[tokio::test(flavor = "multi_thread")]
async fn requests_go_both_ways_over_quic_and_tcp() {
    for listen in [QUIC, TCP] {
        let (a, b) = (start_echo(&[listen]).await, start_echo(&[listen]).await);
        connect(&a, &b).await;
        assert_eq!(a.request(b.peer_id(), vec![1, 2, 3], PATIENCE).await.unwrap(), [3, 2, 1]);
        assert_eq!(b.request(a.peer_id(), vec![4, 5], PATIENCE).await.unwrap(), [5, 4]);
        assert_eq!(b.request(a.peer_id(), vec![], PATIENCE).await.unwrap(), Vec::<u8>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_pass_at_their_caps_and_not_beyond() {
    let a = start_echo(&[QUIC]).await;
    let (b, mut requests) = start(&[QUIC]).await;
    connect(&a, &b).await;
    tokio::spawn(async move {
        for len in [MAX_CONTROL_RESPONSE, MAX_CONTROL_RESPONSE + 1] {
            let reply = next_of(&mut requests, |event| match event {
                HostEvent::Request { body, reply, .. } => {
                    assert_eq!(body.len(), MAX_CONTROL_REQUEST);
                    Some(reply)
                }
                _ => None,
            })
            .await;
            assert_eq!(reply.send(vec![7; len]).is_ok(), len == MAX_CONTROL_RESPONSE);
        }
    });
    let ask = |len| a.request(b.peer_id(), vec![0; len], PATIENCE);
    assert!(matches!(ask(MAX_CONTROL_REQUEST + 1).await, Err(NetError::RequestTooLarge { .. })));
    assert_eq!(ask(MAX_CONTROL_REQUEST).await.unwrap().len(), MAX_CONTROL_RESPONSE);
    assert!(matches!(ask(MAX_CONTROL_REQUEST).await, Err(NetError::NoAnswer { .. })));
}

/// Writes `wire` as a request and expects the stream to end without an answer.
async fn is_refused(victim: &Host, wire: &[u8]) {
    let mut stream = liar::open_raw(victim, protocol_names::CONTROL).await;
    stream.write_all(wire).await.unwrap();
    stream.flush().await.unwrap();
    // The stream stays open for writing: the victim must not wait for the rest.
    let mut answer = Vec::new();
    let end = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the stream ends");
    assert!(end.is_err() || answer.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_frames_of_a_liar_are_refused_and_others_are_served() {
    for listen in [QUIC, TCP] {
        let (victim, mut events) = start(&[listen]).await;
        is_refused(&victim, &0x4000_0000u32.to_be_bytes()).await;
        is_refused(&victim, &(MAX_CONTROL_REQUEST as u32 + 1).to_be_bytes()).await;

        let honest = start_echo(&[listen]).await;
        connect(&honest, &victim).await;
        let served = tokio::spawn(async move {
            // The first request that the victim hears of is the honest one.
            let (body, reply) = next_of(&mut events, |event| match event {
                HostEvent::Request { body, reply, .. } => Some((body, reply)),
                _ => None,
            })
            .await;
            reply.send(body).unwrap();
        });
        assert_eq!(honest.request(victim.peer_id(), b"honest".to_vec(), PATIENCE).await.unwrap(), b"honest");
        served.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_response_is_refused_by_the_requester() {
    let a = start_echo(&[TCP]).await;
    let mut liar = libp2p::SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(Default::default(), libp2p::tls::Config::new, libp2p::yamux::Config::default)
        .unwrap()
        .with_behaviour(|_| libp2p_stream::Behaviour::new())
        .unwrap()
        .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(PATIENCE))
        .build();
    let mut incoming =
        liar.behaviour().new_control().accept(libp2p::StreamProtocol::new(protocol_names::CONTROL)).unwrap();
    let peer = *liar.local_peer_id();
    liar.dial(a.listen_addrs()[0].clone()).unwrap();
    tokio::spawn(async move {
        use futures::StreamExt as _;
        let mut kept = Vec::new();
        loop {
            tokio::select! {
                _ = liar.select_next_some() => {}
                Some((_, mut stream)) = incoming.next() => {
                    stream.write_all(&0x4000_0000u32.to_be_bytes()).await.unwrap();
                    stream.flush().await.unwrap();
                    kept.push(stream);
                }
            }
        }
    });
    eventually("the liar connects", || async { a.connected_peers().await.contains(&peer).then_some(()) })
        .await;
    let error = a.request(peer, vec![1], PATIENCE).await.unwrap_err();
    assert!(matches!(error, NetError::BadAnswer { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_reply_is_a_failure_and_a_late_one_a_timeout() {
    let a = start_echo(&[QUIC]).await;
    let (b, mut events) = start(&[QUIC]).await;
    connect(&a, &b).await;
    let held = tokio::spawn(async move {
        let mut held = Vec::new();
        for turn in 0..2 {
            let reply = next_of(&mut events, |event| match event {
                HostEvent::Request { reply, .. } => Some(reply),
                _ => None,
            })
            .await;
            if turn == 1 {
                held.push(reply);
            }
        }
        held
    });
    let error = a.request(b.peer_id(), vec![1], PATIENCE).await.unwrap_err();
    assert!(matches!(error, NetError::NoAnswer { .. }), "{error}");
    let error = a.request(b.peer_id(), vec![1], Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(error, NetError::RequestTimeout { .. }), "{error}");
    assert_eq!(held.await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_finds_its_way_with_a_known_address_and_says_so_without() {
    let (a, b) = (start_echo(&[QUIC]).await, start_echo(&[QUIC]).await);
    let error = a.request(b.peer_id(), vec![1], PATIENCE).await.unwrap_err();
    assert!(matches!(error, NetError::NotConnected { .. }), "{error}");
    assert!(a.add_address(b.peer_id(), b.listen_addrs()[0].clone()).await.unwrap());
    assert_eq!(a.request(b.peer_id(), vec![1, 2], PATIENCE).await.unwrap(), [2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_whose_events_nobody_reads_drops_requests_and_lives_on() {
    // Over TCP: dials of QUIC wait a second each, and the first requests would run out of time.
    let (victim, mut events) = start(&[TCP]).await;
    let mut asking = Vec::new();
    let mut hosts = Vec::new();
    let each = MAX_PENDING_REPLIES / 20 + 5;
    for _ in 0..20 {
        let host = start_echo(&[]).await;
        connect(&host, &victim).await;
        for _ in 0..each {
            let (host, peer) = (host.clone(), victim.peer_id());
            asking.push(tokio::spawn(async move { host.request(peer, vec![9; 100], PATIENCE).await }));
        }
        hosts.push(host);
    }
    // More were asked than may wait. Those beyond fail while nobody reads; the others
    // are still served afterwards.
    let excess = asking.len() - MAX_PENDING_REPLIES;
    eventually("the excess is dropped", || async {
        (asking.iter().filter(|task| task.is_finished()).count() >= excess).then_some(())
    })
    .await;
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            if let HostEvent::Request { body, reply, .. } = event {
                reply.send(body).unwrap();
            }
        }
    });
    let mut served = 0;
    for task in asking {
        match task.await.unwrap() {
            Ok(_) => served += 1,
            Err(error) => assert!(matches!(error, NetError::NoAnswer { .. }), "{error}"),
        }
    }
    assert!(served > 900, "{served}");
    assert_eq!(hosts[0].request(victim.peer_id(), vec![1], PATIENCE).await.unwrap(), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_after_the_frame_are_not_read() {
    let (victim, mut events) = start(&[QUIC]).await;
    let mut stream = liar::open_raw(&victim, protocol_names::CONTROL).await;
    write_frame(&mut stream, b"one", 16).await.unwrap();
    write_frame(&mut stream, b"two", 16).await.unwrap();
    let (body, reply) = next_of(&mut events, |event| match event {
        HostEvent::Request { body, reply, .. } => Some((body, reply)),
        _ => None,
    })
    .await;
    assert_eq!(body, b"one");
    reply.send(b"answer".to_vec()).unwrap();
    let answer = crate::net::read_frame(&mut stream, 16).await.unwrap();
    assert_eq!(answer.unwrap(), b"answer");
}

/// A node of the version before asks for the charter, in its own bytes.
#[tokio::test(flavor = "multi_thread")]
async fn who_speaks_the_version_before_is_told_which_one_is_spoken_here() {
    let (victim, mut events) = start(&[QUIC]).await;
    let mut stream = liar::open_raw(&victim, "/echo/control/4").await;
    write_frame(&mut stream, b"\x67Charter", 16).await.unwrap();
    let (body, reply) = next_of(&mut events, |event| match event {
        HostEvent::Request { body, reply, .. } => Some((body, reply)),
        _ => None,
    })
    .await;
    assert_eq!(body, b"", "what it asks is not acted upon");
    reply.send(b"nothing that it could read".to_vec()).unwrap();
    let answer = crate::net::read_frame(&mut stream, 1024).await.unwrap().unwrap();
    // A map of one entry, as that version reads it too.
    assert_eq!(answer[..9], *b"\xa1\x67Refused");
    let text = String::from_utf8_lossy(&answer[9..]).into_owned();
    assert!(text.contains("/echo/control/5") && text.contains("/echo/control/4"), "{text}");
}
