//! A key without any work.

use crate::attack::strangers::scene::Scene;
use crate::harness::liar::ignore;
use echo_protocol::control::heartbeat::{Heartbeat, Reach};
use echo_protocol::control::requests::{ControlRequest, ControlResponse};
use echo_protocol::net::{Host, HostConfig, PeerId};
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::NodeKey;
use std::time::Duration;
use tokio::task::JoinSet;

/// The longest wait for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A member by its heartbeats alone.
pub(super) struct Stranger {
    pub(super) host: Host,
    learner: PeerId,
    /// What the learner last said.
    known: (Epoch, Option<PolicyVersion>),
    _events: JoinSet<()>,
}

impl Stranger {
    /// Connects to the learner. `topics` are those of gossip that it takes part in.
    pub(super) async fn join(scene: &Scene, secret: [u8; 32], topics: &[String]) -> anyhow::Result<Self> {
        let config =
            HostConfig { topics: topics.to_vec(), ..HostConfig::client(secret, "echo-lab stranger") };
        let (host, events) = Host::start(config).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(ignore(events));
        host.dial(scene.way.learner, vec![scene.way.address.clone()]).await?;
        scene.tally.key(NodeKey::from_secret(secret).public());
        Ok(Self { host, learner: scene.way.learner, known: Default::default(), _events: tasks })
    }

    /// A heartbeat that promises all that a relay can, at these addresses.
    pub(super) async fn beat(&mut self, addresses: &[String]) -> anyhow::Result<()> {
        let (epoch, installed) = self.known;
        let heartbeat = Heartbeat {
            epoch,
            installed,
            rollouts_per_s: 1e4,
            addresses: addresses.to_vec(),
            reach: Reach::Public,
            relays: true,
            ..Heartbeat::default()
        };
        let request = ControlRequest::Heartbeat(heartbeat).to_bytes()?;
        let answer = self.host.request(self.learner, request, ANSWER_WITHIN).await?;
        if let ControlResponse::News { epoch, newest, .. } = ControlResponse::from_bytes(&answer)? {
            self.known = (epoch, newest);
        }
        Ok(())
    }

    /// Whether the learner still keeps the connection.
    pub(super) async fn is_connected(&self) -> bool {
        self.host.connected_peers().await.contains(&self.learner)
    }
}
