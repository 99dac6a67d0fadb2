//! Floods: more frames than anybody needs to send, now and then.

use crate::attack::account::FrameOutcome;
use crate::attack::shared_state::{SharedState, secret};
use crate::harness::liar::LiarOrder;
use echo_learner::intake::admission::MAX_FRAME_BYTES;
use echo_protocol::net::{Host, PeerId, protocol_names, read_frame, write_frame};
use echo_protocol::wire::codec;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::submission::{Answer, MAX_ANSWER_BYTES};
use futures::AsyncReadExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, interval, sleep, sleep_until};

/// In the secrets of flooders.
const PART: u8 = 0xa3;
/// The pause between two frames: 400 a second, or as many as the learner takes.
const PACE: Duration = Duration::from_micros(2500);
/// How long a flood lasts, and how long it is quiet between two.
const BURST: Duration = Duration::from_secs(10);
/// The pause before a stream that the learner closed is opened again.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a frame of noise.
const NOISE: usize = 2000;

/// Floods and rests by turns for as long as it lives, under another key each time.
pub(crate) async fn live(shared: Arc<SharedState>) {
    for identity in 0.. {
        sleep(BURST).await;
        if let Err(error) = burst(&shared, secret(PART, 0, identity)).await {
            tracing::debug!(%error, "a flood did not come about");
        }
        shared.flood(false);
    }
}

async fn burst(shared: &SharedState, secret: [u8; 32]) -> anyhow::Result<()> {
    let liar = shared.join(secret).await?;
    let nothing = liar.empty_group(LiarOrder { lease: LeaseId(0), counter: OrderCounter(0) });
    let mut frames = vec![vec![0xf7; NOISE], liar.sign(&nothing)?];
    frames.extend(shared.overheard());
    let (host, learner) = (liar.host().clone(), liar.learner().peer());
    shared.flood(true);
    let end = Instant::now() + BURST;
    while Instant::now() < end {
        if let Err(error) = pour(shared, &host, learner, &frames, end).await {
            tracing::debug!(%error, "a flood was dammed");
        }
        sleep(PAUSE).await;
    }
    host.shutdown().await;
    Ok(())
}

/// Pours frames into one stream until `end`, or until the learner closes it.
async fn pour(
    shared: &SharedState,
    host: &Host,
    learner: PeerId,
    frames: &[Vec<u8>],
    end: Instant,
) -> anyhow::Result<()> {
    let stream = host.open_stream(learner, protocol_names::TRAJECTORIES).await?;
    let (mut reader, mut writer) = stream.split();
    let send = async {
        let mut pace = interval(PACE);
        for frame in frames.iter().cycle() {
            pace.tick().await;
            write_frame(&mut writer, frame, MAX_FRAME_BYTES).await?;
            shared.account().flooded += 1;
        }
        anyhow::Ok(())
    };
    let receive = async {
        while let Some(answer) = read_frame(&mut reader, MAX_ANSWER_BYTES).await? {
            let answer: Answer = codec::decode(&answer, MAX_ANSWER_BYTES)?;
            *shared.account().flood.entry(FrameOutcome::of(&answer.outcome)).or_default() += 1;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        ended = send => ended,
        ended = receive => ended,
        () = sleep_until(end) => Ok(()),
    }
}
