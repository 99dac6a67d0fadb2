//! Slow lorises: peers that hold streams open and trickle bytes into them.

use crate::attack::shared_state::{SharedState, secret};
use echo_protocol::net::{Host, PeerId, Stream, protocol_names};
use futures::future::join_all;
use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// In the secrets of lorises.
const PART: u8 = 0xa4;
/// What each holds open: a new stream of groups takes the place of an older one, so there is
/// no use in several.
const STREAMS: [&str; 4] =
    [protocol_names::TRAJECTORIES, protocol_names::CHUNKS, protocol_names::CHUNKS, protocol_names::CHUNKS];
/// Bytes of the frames that they announce, and the pause between two of these bytes.
const ANNOUNCED: u32 = 1000;
const PACE: Duration = Duration::from_secs(1);
/// The pause before a stream that was closed is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// Trickles for as long as it lives.
pub(crate) async fn live(shared: Arc<SharedState>, number: usize) {
    for identity in 0.. {
        match shared.join(secret(PART, number, identity)).await {
            Ok(liar) => {
                let (host, learner) = (liar.host().clone(), liar.learner().peer());
                join_all(STREAMS.map(|protocol| hold(&shared, &host, learner, protocol))).await;
            }
            Err(error) => tracing::debug!(%error, "a loris joins again"),
        }
        sleep(PAUSE).await;
    }
}

/// Holds one stream after the other open, until none can be opened any more.
async fn hold(shared: &SharedState, host: &Host, learner: PeerId, protocol: &'static str) {
    while let Ok(stream) = host.open_stream(learner, protocol).await {
        shared.account().held.streams += 1;
        if let Err(error) = trickle(shared, stream).await {
            tracing::debug!(%error, "a loris was shaken off");
        }
        shared.account().held.closed += 1;
        sleep(PAUSE).await;
    }
}

/// Ends when the learner closes the stream.
async fn trickle(shared: &SharedState, stream: Stream) -> io::Result<()> {
    let begun = Instant::now();
    let (mut reader, mut writer) = stream.split();
    let send = async {
        writer.write_all(&ANNOUNCED.to_be_bytes()).await?;
        for _ in 0..ANNOUNCED {
            writer.write_all(&[0]).await?;
            writer.flush().await?;
            shared.account().held.lasts(begun.elapsed());
            sleep(PACE).await;
        }
        io::Result::Ok(())
    };
    let receive = async {
        let mut answer = [0; 256];
        while reader.read(&mut answer).await? > 0 {}
        io::Result::Ok(())
    };
    tokio::select! {
        ended = send => ended,
        ended = receive => ended,
    }
}
