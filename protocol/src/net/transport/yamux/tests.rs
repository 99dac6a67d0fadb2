use super::*;
use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::io::DuplexStream;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};

type Muxer = YamuxMuxer<Compat<DuplexStream>>;

/// Two ends of one connection.
async fn pair() -> (Muxer, Muxer) {
    let (here, there) = tokio::io::duplex(4 << 10);
    let yamux = Yamux::new(16);
    let client = yamux.clone().upgrade_outbound(here.compat(), "/yamux/1.0.0").await.unwrap();
    (client, yamux.upgrade_inbound(there.compat(), "/yamux/1.0.0").await.unwrap())
}

async fn open(muxer: &mut Muxer) -> Stream {
    poll_fn(|cx| Pin::new(&mut *muxer).poll_outbound(cx)).await.unwrap()
}

async fn accept(muxer: &mut Muxer) -> io::Result<Stream> {
    poll_fn(|cx| Pin::new(&mut *muxer).poll_inbound(cx)).await
}

async fn end(muxer: &mut Muxer) -> io::Error {
    poll_fn(|cx| Pin::new(&mut *muxer).poll(cx)).await.map(|_| "an event").unwrap_err()
}

/// More than fits any window, while nobody looks at the connection itself.
#[tokio::test]
async fn streams_move_though_libp2p_looks_at_nothing() {
    let (mut client, mut server) = pair().await;
    let mut sending = open(&mut client).await;
    sending.write_all(b"first").await.unwrap();
    let mut receiving = accept(&mut server).await.unwrap();
    // A second stream, opened when the task has long been asleep.
    let mut second = open(&mut client).await;
    second.write_all(b"second").await.unwrap();
    let mut answered = accept(&mut server).await.unwrap();
    let sent = vec![7; 3 << 20];
    let copy = async {
        sending.write_all(&sent).await.unwrap();
        sending.close().await.unwrap();
    };
    let mut received = Vec::new();
    let (_, length) = tokio::join!(copy, receiving.read_to_end(&mut received));
    assert_eq!(length.unwrap(), 5 + sent.len());
    assert_eq!(received[..5], *b"first");
    assert!(received[5..] == sent);
    let mut word = [0; 6];
    answered.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"second");
}

#[tokio::test]
async fn a_connection_that_is_dropped_ends_for_both() {
    let (mut client, mut server) = pair().await;
    let mut stream = open(&mut client).await;
    stream.write_all(b"x").await.unwrap();
    drop(accept(&mut server).await.unwrap());
    drop(client);
    let ended = end(&mut server).await;
    assert!(ended.to_string().contains("closed"), "{ended}");
    assert!(accept(&mut server).await.is_err());
    assert!(stream.write_all(&[0; 64]).await.is_err());
}

#[tokio::test]
async fn a_connection_that_is_closed_ends_for_the_other() {
    let (mut client, mut server) = pair().await;
    open(&mut client).await.write_all(b"x").await.unwrap();
    accept(&mut server).await.unwrap();
    let (closed, _) = tokio::join!(poll_fn(|cx| Pin::new(&mut client).poll_close(cx)), end(&mut server));
    closed.unwrap();
}
