//! Verifiers that collude with liars.

use crate::attack::shared_state::{SharedState, secret};
use crate::harness::liar::LearnerConnection;
use anyhow::Context as _;
use echo_learner::intake::admission::MAX_FRAME_BYTES;
use echo_protocol::control::heartbeat::HEARTBEAT_EVERY_MS;
use echo_protocol::net::{Stream, protocol_names, read_frame, write_frame};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::Signed;
use echo_protocol::work::submission::RefuseReason;
use echo_protocol::work::trajectory::TrajectoryGroup;
use echo_protocol::work::verification::{
    MAX_CAPACITY, MAX_HELD, MAX_WORD_BYTES, Offer, Opinion, Report, VerifierMessage,
};
use futures::future::{Either, select};
use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::sleep;

/// In the secrets of colluders.
const PART: u8 = 0xa5;
/// The pause before one comes back under another key.
const PAUSE: Duration = Duration::from_secs(1);

/// Vouches for the groups of all liars, at once and whatever they hold. Every second one denounces
/// those of everybody else; the others vouch for these too, and are not so easily found.
pub(crate) struct Colluder {
    pub(crate) shared: Arc<SharedState>,
    /// Counted from 0. Odd ones denounce the groups of others.
    pub(crate) number: usize,
}

impl Colluder {
    /// Colludes for as long as it lives, under a new key whenever the learner has closed its stream.
    pub(crate) async fn live(self) {
        for identity in 0.. {
            if let Err(error) = self.collude(secret(PART, self.number, identity)).await {
                tracing::debug!(colluder = self.number, %error, "a colluder begins anew");
            }
            sleep(PAUSE).await;
        }
    }

    async fn collude(&self, secret: [u8; 32]) -> anyhow::Result<()> {
        let member = self.shared.join(secret).await?;
        let stream = member.host().open_stream(member.learner().peer(), protocol_names::CHECKS).await?;
        self.shared.account().collusion.keys += 1;
        let ended = self.converse(member.learner(), member.key(), stream).await;
        member.host().shutdown().await;
        ended
    }

    async fn converse(
        &self,
        learner: &LearnerConnection,
        key: &NodeKey,
        stream: Stream,
    ) -> anyhow::Result<()> {
        let (reader, writer) = stream.split();
        let writer = Mutex::new(writer);
        let offering = pin!(offer(learner, &writer));
        let reporting = pin!(self.report(key, reader, &writer));
        match select(offering, reporting).await {
            Either::Left((ended, _)) | Either::Right((ended, _)) => ended,
        }
    }

    async fn report(
        &self,
        key: &NodeKey,
        mut reader: impl AsyncRead + Unpin,
        writer: &Mutex<impl AsyncWrite + Unpin>,
    ) -> anyhow::Result<()> {
        loop {
            let frame = read_frame(&mut reader, MAX_FRAME_BYTES).await?;
            let signed =
                Signed::<TrajectoryGroup>::from_bytes(&frame.context("the learner closed the stream")?)?;
            let group = signed.open()?;
            let friend = self.shared.is_friend(&group.node);
            let denounced = !friend && self.number % 2 == 1;
            let opinion = match denounced {
                true => Opinion::lie(RefuseReason::Sampling, "drawn otherwise"),
                false => Opinion::Sound,
            };
            let report = Report { run: group.run, group: signed.body_id(), opinion };
            send(writer, VerifierMessage::Report(Signed::sign(&report, key)?)).await?;
            self.shared.account().collusion.say(friend, denounced);
        }
    }
}

/// Claims to hold every version that a group may name.
async fn offer(learner: &LearnerConnection, writer: &Mutex<impl AsyncWrite + Unpin>) -> anyhow::Result<()> {
    let mut offered = None;
    loop {
        let newest = learner.beat().await?.newest;
        if let Some(version) = newest
            && newest != offered
        {
            let oldest = (version.0 + 1).saturating_sub(MAX_HELD as u64);
            let held = (oldest..=version.0).map(PolicyVersion).collect();
            send(writer, VerifierMessage::Offer(Offer { capacity: MAX_CAPACITY, held })).await?;
            offered = newest;
        }
        sleep(Duration::from_millis(HEARTBEAT_EVERY_MS)).await;
    }
}

async fn send(writer: &Mutex<impl AsyncWrite + Unpin>, word: VerifierMessage) -> anyhow::Result<()> {
    let word = word.to_bytes()?;
    Ok(write_frame(&mut *writer.lock().await, &word, MAX_WORD_BYTES).await?)
}
