//! Checking the groups of others, for the learner: the role `verifier`.
//!
//! There is one stream to the learner at a time. An offer goes up with the policies that are here, and
//! another one after each installation. Groups come down, and a signed report goes up on each. They are
//! checked one by one on a thread that may block, with the node's threads. What was not reported when
//! the stream ends is forgotten: the learner checks it itself then. May import `learner_link` for its
//! pauses, `snapshots`, `status` and `workload`.
//!
//! ```text
//! installed policies ── policy_cache (the newest 3) ── offer ── learner
//!                            │                                     │
//! learner ◄── report ◄── check (form, rules, rewards, tokens) ◄── group
//! ```

mod check;
mod policy_cache;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use echo_protocol::net::{
    FrameError, Host, NetError, PeerId, Stream, protocol_names, read_frame, write_frame,
};
use echo_protocol::program::clock;
use echo_protocol::program::log_on_change::LastMessage;
use echo_protocol::wire::codec::CodecError;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::{ENVELOPE_BYTES, Signed, SignedError};
use echo_protocol::work::trajectory::MAX_GROUP_BYTES;
use echo_protocol::work::verification::{MAX_WORD_BYTES, Offer, Opinion, Report, VerifierMessage};
use futures::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::{mpsc, watch};

use crate::learner_link::backoff::Backoff;
use crate::snapshots::install::Installed;
use crate::status::node_state::NodeState;
use crate::workload::NodeWorkload;
use policy_cache::{MAX_COPY_BYTES, VersionCache};

/// Groups that are here at once: one is being checked, one waits.
const CAPACITY: u32 = 2;
/// The pause before the stream is opened again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause before that, after many failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
enum VerifierError {
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("what the learner sent is no group: {0}")]
    Group(#[from] SignedError),
    #[error("a report cannot be encoded: {0}")]
    Codec(#[from] CodecError),
    #[error("the learner closed the stream")]
    Closed,
    #[error("no policy will be installed any more")]
    NoPolicy,
    #[error("checking a group has failed; this is a defect of echo-node, the log says more")]
    Died,
}

/// Checks groups until the node ends.
pub struct Verifier {
    /// Opens the streams, one at a time.
    pub host: Host,
    /// The learner, by its libp2p peer id.
    pub learner: PeerId,
    /// What the run asks for.
    pub workload: Arc<NodeWorkload>,
    /// Signs the reports: this node's identity.
    pub key: Arc<NodeKey>,
    /// The installed policy, replaced as newer ones are installed.
    pub policy: watch::Receiver<Option<Arc<Installed>>>,
    /// Where the owner sees what happens.
    pub node_state: Arc<NodeState>,
}

impl Verifier {
    /// Works until no policy will be installed any more.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut cache = VersionCache::new(MAX_COPY_BYTES);
        let mut paused = LastMessage::default();
        loop {
            if self.policy.wait_for(Option::is_some).await.is_err() {
                return;
            }
            let before = self.checked();
            let error = match self.host.open_stream(self.learner, protocol_names::CHECKS).await {
                Ok(stream) => self.converse(stream, &mut cache).await,
                Err(error) => error.into(),
            };
            if matches!(error, VerifierError::NoPolicy) {
                return;
            }
            if self.checked() > before {
                backoff.reset();
                paused.clear();
            }
            if paused.is_new(&error.to_string()) {
                tracing::info!("checking is paused: {error}; trying again");
            }
            tokio::time::sleep(backoff.pause()).await;
        }
    }

    /// Receives and reports until either fails.
    async fn converse(&mut self, stream: Stream, cache: &mut VersionCache) -> VerifierError {
        let (reader, writer) = stream.split();
        let (groups, queue) = mpsc::channel(CAPACITY as usize);
        let ended = tokio::select! {
            ended = receive(reader, groups) => ended,
            ended = self.report(writer, queue, cache) => ended,
        };
        match ended {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn report(
        &mut self,
        mut writer: impl AsyncWrite + Unpin,
        mut groups: mpsc::Receiver<Vec<u8>>,
        cache: &mut VersionCache,
    ) -> Result<Infallible, VerifierError> {
        self.policy.mark_changed();
        loop {
            let word = tokio::select! {
                // An offer first: what it names is here.
                biased;
                changed = self.policy.changed() => {
                    changed.map_err(|_| VerifierError::NoPolicy)?;
                    let newest = self.policy.borrow_and_update().clone();
                    if let Some(newest) = newest {
                        cache.put(newest.weights.clone(), newest.tokenizer.clone());
                    }
                    VerifierMessage::Offer(Offer { capacity: CAPACITY, held: cache.held() })
                }
                group = groups.recv() => {
                    let report = self.check(group.ok_or(VerifierError::Closed)?, cache).await?;
                    VerifierMessage::Report(Signed::sign(&report, &self.key)?)
                }
            };
            write_frame(&mut writer, &word.to_bytes()?, MAX_WORD_BYTES).await?;
        }
    }

    async fn check(&self, group: Vec<u8>, cache: &VersionCache) -> Result<Report, VerifierError> {
        let (workload, cache) = (self.workload.clone(), cache.clone());
        let checked = tokio::task::spawn_blocking(move || check::check(&workload, &cache, &group));
        let report = checked.await.map_err(|_| VerifierError::Died)??;
        if let Opinion::Lie { reason, detail } = &report.opinion {
            tracing::info!(group = ?report.group, %reason, detail, "somebody's group is a lie");
        }
        self.node_state.set(|facts| {
            facts.checked += 1;
            facts.denounced += u64::from(matches!(report.opinion, Opinion::Lie { .. }));
        });
        Ok(report)
    }

    fn checked(&self) -> u64 {
        self.node_state.facts(clock::now()).checked
    }
}

/// Takes groups in; more than are asked for at once wait on the way.
async fn receive(
    mut reader: impl AsyncRead + Unpin,
    groups: mpsc::Sender<Vec<u8>>,
) -> Result<Infallible, VerifierError> {
    loop {
        let group = read_frame(&mut reader, MAX_GROUP_BYTES + ENVELOPE_BYTES).await?;
        let group = group.ok_or(VerifierError::Closed)?;
        groups.send(group).await.map_err(|_| VerifierError::Closed)?;
    }
}
