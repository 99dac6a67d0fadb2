//! Delivering many groups as a node does, a window of them under way.

use super::{Liar, PATIENCE};
use anyhow::{Context as _, ensure};
use echo_learner::intake::admission::MAX_FRAME_BYTES;
use echo_protocol::net::{read_frame, write_frame};
use echo_protocol::wire::codec;
use echo_protocol::work::submission::{Answer, MAX_ANSWER_BYTES, Outcome};
use futures::AsyncReadExt as _;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};

/// Groups under way at once: as many as a node has (`node/src/delivery/sender.rs`).
const WINDOW: usize = 16;

impl Liar {
    /// Sends all `frames` over one stream, one every `pace` or as fast as they are answered. Every
    /// one has to be accepted.
    ///
    /// # Errors
    /// When one is not, or there is no answer within [`PATIENCE`].
    pub async fn deliver(&mut self, frames: &[Vec<u8>], pace: Option<Duration>) -> anyhow::Result<()> {
        self.stream().await?;
        let stream = self.stream.take().context("the stream was just opened")?;
        let (mut reader, mut writer) = stream.split();
        let (begun, window) = (Instant::now(), Semaphore::new(WINDOW));
        let send = async {
            for (frame, number) in frames.iter().zip(0u32..) {
                if let Some(pace) = pace {
                    sleep_until(begun + pace * number).await;
                }
                window.acquire().await?.forget();
                write_frame(&mut writer, frame, MAX_FRAME_BYTES).await?;
            }
            anyhow::Ok(())
        };
        let receive = async {
            for _ in frames {
                let answer = timeout(PATIENCE, read_frame(&mut reader, MAX_ANSWER_BYTES)).await;
                let answer = answer.context("no answer")??.context("the learner closed the stream")?;
                let answer: Answer = codec::decode(&answer, MAX_ANSWER_BYTES)?;
                ensure!(answer.outcome == Outcome::Accepted, "the learner answers {answer:?}");
                window.add_permits(1);
            }
            anyhow::Ok(())
        };
        futures::future::try_join(send, receive).await?;
        self.stream = reader.reunite(writer).ok();
        Ok(())
    }
}
