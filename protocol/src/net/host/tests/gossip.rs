use super::*;

const TOPIC: &str = "/echo/00/manifest/1";

async fn publish(host: &Host, data: &[u8]) {
    eventually("somebody subscribes", || async {
        match host.publish(TOPIC, data.to_vec()).await {
            Ok(()) => Some(()),
            Err(NetError::NoSubscribers { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await;
}

async fn next_gossip(events: &mut HostEvents) -> (PeerId, Vec<u8>, GossipVerdict) {
    next_of(events, |event| match event {
        HostEvent::Gossip { source, topic, data, verdict } => {
            assert_eq!(topic, TOPIC);
            Some((source, data, verdict))
        }
        _ => None,
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn along_a_line_only_what_was_accepted_goes_on() {
    let mut first = Vec::new();
    let (a, mut a_events) = start(&[QUIC]).await;
    let (b, mut b_events) = start(&[QUIC]).await;
    let (c, mut c_events) = start(&[QUIC]).await;
    connect(&a, &b).await;
    connect(&c, &b).await;

    // B hears a message after its author's subscription, so once B has both it can forward both.
    publish(&a, b"from a").await;
    publish(&c, b"from c").await;
    for _ in 0..2 {
        let (source, data, verdict) = next_gossip(&mut b_events).await;
        let author = if source == a.peer_id() { &b"from a"[..] } else { b"from c" };
        assert_eq!(data, author);
        first.push(verdict);
    }
    first.into_iter().for_each(GossipVerdict::accept);
    let (source, data, verdict) = next_gossip(&mut c_events).await;
    assert_eq!((source, data.as_slice()), (b.peer_id(), &b"from a"[..]));
    verdict.accept();
    let (source, data, verdict) = next_gossip(&mut a_events).await;
    assert_eq!((source, data.as_slice()), (b.peer_id(), &b"from c"[..]));
    verdict.accept();

    publish(&a, b"bad").await;
    publish(&a, b"useless").await;
    publish(&a, b"unjudged").await;
    publish(&a, b"good").await;
    // A's messages may arrive in any order; each is judged by its content.
    for _ in 0..4 {
        let (_, data, verdict) = next_gossip(&mut b_events).await;
        match data.as_slice() {
            b"bad" => verdict.reject(),
            b"useless" => verdict.ignore(),
            b"unjudged" => drop(verdict),
            b"good" => verdict.accept(),
            other => panic!("{other:?}"),
        }
    }
    publish(&a, b"last").await;
    next_gossip(&mut b_events).await.2.accept();
    let mut heard = Vec::new();
    while heard.len() < 2 {
        let (_, data, verdict) = next_gossip(&mut c_events).await;
        verdict.accept();
        heard.push(data);
    }
    heard.sort();
    assert_eq!(heard, [b"good".to_vec(), b"last".to_vec()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hands_on_rubbish_is_cut_off() {
    let (a, _a_events) = start(&[QUIC]).await;
    let (b, mut b_events) = start(&[QUIC]).await;
    connect(&a, &b).await;
    publish(&a, b"first").await;
    tokio::spawn(async move {
        while let Some(event) = b_events.recv().await {
            if let HostEvent::Gossip { verdict, .. } = event {
                verdict.reject();
            }
        }
    });
    for n in 0..20_000u32 {
        if let Err(NetError::NoSubscribers { .. }) = a.publish(TOPIC, n.to_le_bytes().to_vec()).await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    eventually("it is cut off", || async { b.connected_peers().await.is_empty().then_some(()) }).await;
    assert!(matches!(b.dial(a.peer_id(), a.listen_addrs()).await, Err(NetError::Blocked { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_says_what_is_wrong() {
    let (a, _a_events) = start(&[QUIC]).await;
    let (b, _b_events) = start(&[QUIC]).await;
    assert!(matches!(a.publish(TOPIC, vec![1]).await, Err(NetError::NoSubscribers { .. })));
    assert!(matches!(a.publish("/echo/11/manifest/1", vec![1]).await, Err(NetError::UnknownTopic { .. })));
    let large = vec![0; MAX_GOSSIP_MESSAGE + 1];
    assert!(matches!(a.publish(TOPIC, large).await, Err(NetError::GossipTooLarge { .. })));
    connect(&a, &b).await;
    publish(&a, b"once").await;
    assert!(matches!(a.publish(TOPIC, b"once".to_vec()).await, Err(NetError::AlreadyPublished { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_the_full_size_arrives() {
    let (a, _a_events) = start(&[TCP]).await;
    let (b, mut b_events) = start(&[TCP]).await;
    connect(&b, &a).await;
    let full = vec![5; MAX_GOSSIP_MESSAGE];
    publish(&a, &full).await;
    let (_, data, verdict) = next_gossip(&mut b_events).await;
    assert!(data == full);
    verdict.accept();
}

#[tokio::test]
async fn too_many_topics_are_refused() {
    let mut config = config(&[]);
    config.topics = (0..=MAX_TOPICS).map(|n| format!("/echo/{n}/manifest/1")).collect();
    assert!(matches!(Host::start(config).await, Err(NetError::TooManyTopics { .. })));
}
