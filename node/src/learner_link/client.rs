//! Questions to the learner, with typed answers.

use std::time::Duration;

use echo_protocol::control::heartbeat::Heartbeat;
use echo_protocol::control::requests::{
    ControlRequest, ControlResponse, MAX_LEASES, MAX_NEIGHBOURS, Neighbourhood,
};
use echo_protocol::net::{Host, NetError, PeerId};
use echo_protocol::run::charter::Charter;
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::wire::codec::CodecError;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::{HeldOrder, Lease, Returned};

/// The longest wait for an answer. A learner that needs longer is as good as gone.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(4);

/// A question without a usable answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It did not get through, or nobody answered.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The question or the answer cannot be encoded or decoded.
    #[error("the learner and this node don't understand each other ({0}): is one of them outdated?")]
    Codec(#[from] CodecError),
    /// The learner does not want to answer.
    #[error("the learner refused to answer a {asked} request: {reason}")]
    Refused {
        /// What was asked for.
        asked: &'static str,
        /// The learner's words, without control characters, at most 200 characters.
        reason: String,
    },
    /// The answer belongs to another question.
    #[error("the learner answered something else to a {asked} request: is one of us outdated?")]
    OffTopic {
        /// What was asked for.
        asked: &'static str,
    },
}

/// What is new at the learner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnerNews {
    /// The learner's epoch, one higher with each of its starts.
    pub epoch: Epoch,
    /// The learner's wall clock.
    pub wall: UnixMillis,
    /// The newest published version.
    pub newest: Option<PolicyVersion>,
    /// Where to receive snapshots from, if that has changed.
    pub neighbourhood: Option<Neighbourhood>,
    /// Whether the run has ended.
    pub ended: bool,
}

/// What the learner says is newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// The learner's epoch, in which the version counts.
    pub epoch: Epoch,
    /// The newest version of that epoch; `None` before the first is published.
    pub version: Option<PolicyVersion>,
}

/// The learner, as far as one can ask it.
#[derive(Clone)]
pub struct LearnerClient {
    host: Host,
    peer: PeerId,
}

impl LearnerClient {
    /// The learner with this peer id.
    pub fn new(host: Host, peer: PeerId) -> Self {
        Self { host, peer }
    }

    /// The learner's libp2p peer id.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// The run's charter, unopened.
    ///
    /// # Errors
    /// [`AskError`], like all questions here.
    pub async fn charter(&self) -> Result<Signed<Charter>, AskError> {
        match self.ask(&ControlRequest::Charter, "charter").await? {
            ControlResponse::Charter(charter) => Ok(charter),
            _ => Err(AskError::OffTopic { asked: "charter" }),
        }
    }

    /// Says that this node is here, and asks what is new.
    ///
    /// # Errors
    /// [`AskError`]; a refusal means that this node is banned, or that the fleet is full.
    pub async fn heartbeat(&self, heartbeat: Heartbeat) -> Result<LearnerNews, AskError> {
        match self.ask(&ControlRequest::Heartbeat(heartbeat), "heartbeat").await? {
            ControlResponse::News { epoch, wall, newest, neighbourhood, ended } => {
                let neighbourhood = neighbourhood.map(Neighbourhood::bounded);
                Ok(LearnerNews { epoch, wall, newest, neighbourhood, ended })
            }
            _ => Err(AskError::OffTopic { asked: "heartbeat" }),
        }
    }

    /// The manifest of the newest snapshot, unopened.
    ///
    /// # Errors
    /// [`AskError`]; `None` within `Ok` when nothing is published yet.
    pub async fn newest_manifest(&self) -> Result<Option<Signed<Manifest>>, AskError> {
        match self.ask(&ControlRequest::Manifest(None), "manifest").await? {
            ControlResponse::Manifest(manifest) => Ok(manifest),
            _ => Err(AskError::OffTopic { asked: "manifest" }),
        }
    }

    /// The manifest of this version, unopened; `None` when the learner keeps it no more.
    ///
    /// # Errors
    /// [`AskError`]; a version that is gone is no error.
    pub async fn manifest_of(&self, version: PolicyVersion) -> Result<Option<Signed<Manifest>>, AskError> {
        match self.ask(&ControlRequest::Manifest(Some(version)), "manifest").await? {
            ControlResponse::Manifest(manifest) => Ok(manifest),
            _ => Err(AskError::OffTopic { asked: "manifest" }),
        }
    }

    /// At most [`MAX_LEASES`] leases, unopened, for at most `orders` orders after `last`, the last that
    /// came; and the milliseconds to wait before asking for more.
    ///
    /// # Errors
    /// [`AskError`]: a refusal means that this node gets no leases now.
    pub async fn leases(
        &self,
        orders: u32,
        last: Option<HeldOrder>,
    ) -> Result<(Vec<Signed<Lease>>, u32), AskError> {
        match self.ask(&ControlRequest::Lease { orders, last }, "lease").await? {
            ControlResponse::Leases { mut leases, retry_after_ms } => {
                leases.truncate(MAX_LEASES);
                Ok((leases, retry_after_ms))
            }
            _ => Err(AskError::OffTopic { asked: "lease" }),
        }
    }

    /// Gives orders back, so that others get them at once.
    ///
    /// # Errors
    /// [`AskError::Net`] is worth another try, the others are not.
    pub async fn give_back(&self, returned: Returned) -> Result<(), AskError> {
        match self.ask(&ControlRequest::Return(returned), "return").await? {
            ControlResponse::Returned => Ok(()),
            _ => Err(AskError::OffTopic { asked: "return" }),
        }
    }

    /// Whom to receive snapshots from, now that the neighbours `lost` are gone.
    ///
    /// # Errors
    /// [`AskError`]; `None` within `Ok` for a node that sent no heartbeat yet.
    pub async fn neighbours(&self, mut lost: Vec<PublicKey>) -> Result<Option<Neighbourhood>, AskError> {
        lost.truncate(MAX_NEIGHBOURS);
        match self.ask(&ControlRequest::Neighbours { lost }, "neighbours").await? {
            ControlResponse::Neighbours(neighbourhood) => Ok(neighbourhood.map(Neighbourhood::bounded)),
            _ => Err(AskError::OffTopic { asked: "neighbours" }),
        }
    }

    async fn ask(&self, request: &ControlRequest, asked: &'static str) -> Result<ControlResponse, AskError> {
        let answer = self.host.request(self.peer, request.to_bytes()?, ANSWER_WITHIN).await?;
        match ControlResponse::from_bytes(&answer)? {
            ControlResponse::Refused(reason) => {
                // The text comes from the network and goes into a log line.
                let reason = reason.chars().filter(|c| !c.is_control()).take(200).collect();
                Err(AskError::Refused { asked, reason })
            }
            response => Ok(response),
        }
    }
}
