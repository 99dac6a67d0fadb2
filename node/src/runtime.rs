//! The node as a whole: starts its parts for a run, waits, and takes them down in order.
//!
//! May import every folder of this crate; only `main` imports this one.
//!
//! ```text
//! run ── charter (kept, or asked for) ── supervisor, once for each run of the learner
//!                                            │
//!         resources  workload, devices, outbox, chunk store
//!         network    host, snapshot service, learner
//!         parts      rollout, gossip, downloads, manifests, verifier, leasing, delivery, status, session
//!                                            │
//! ends:   worker ── delivery of the rest ── orders given back ── session ── services ── host
//! ```

pub mod error;
mod network;
mod parts;
mod resources;
mod supervisor;

use std::sync::Arc;
use std::time::{Duration, Instant};

use echo_policy::generation::set_threads;
use echo_protocol::program::clock;
use echo_protocol::program::log_on_change::LastMessage;
use echo_protocol::run::charter::Charter;
use echo_protocol::wire::signed::Signed;
use tokio_util::sync::CancellationToken;

use crate::learner_link::backoff::Backoff;
use crate::learner_link::charter;
use crate::learner_link::session::Ending;
use crate::preflight::Ready;
use crate::preflight::needs::RunNeeds;
use crate::settings::Settings;
use crate::state::charter_file;
use crate::state::state_file;
use crate::state::trusted_list;
use crate::status::node_state::{Facts, NodeActivity, NodeState};
use crate::status::screen::Screen;
use error::NodeError;
use supervisor::Supervisor;

/// What this program calls itself among peers.
pub const AGENT: &str = concat!("echo-node/", env!("CARGO_PKG_VERSION"));
/// How long a node goes on delivering after its run has ended.
pub const DELIVER_FOR: Duration = Duration::from_secs(30);
/// Delivering ends when the learner took nothing for this long: a learner whose run has ended
/// may take no more.
pub const IDLE_FOR: Duration = Duration::from_secs(2);

/// The pause before the node looks again whether a full disk has room, at first and at most.
const NO_ROOM: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How a node ended, and what it did.
#[derive(Clone, Debug)]
pub struct NodeSummary {
    /// Whether the run has ended; otherwise the node was stopped.
    pub run_ended: bool,
    /// The node's last facts.
    pub facts: Facts,
}

/// Runs a node until its run ends or `stop` is cancelled.
///
/// # Errors
/// [`NodeError`]; whatever was finished is in the outbox.
pub async fn run(
    ready: Ready,
    settings: &Settings,
    screen: Screen,
    stop: CancellationToken,
) -> Result<NodeSummary, NodeError> {
    set_threads(settings.threads)?;
    trusted_list::remember(&ready.data, &ready.trust, &ready.list)?;
    let node_state = Arc::new(NodeState::default());
    let run_ended = work(&ready, settings, &screen, &node_state, &stop).await?;
    if run_ended {
        node_state.set(|facts| facts.state = NodeActivity::Ended);
    }
    screen.clear();
    let facts = node_state.facts(clock::now());
    state_file::write(&ready.data.status(), &facts, false)?;
    Ok(NodeSummary { run_ended, facts })
}

/// Works for one run after the other; true when the last one has ended, false when stopped.
async fn work(
    ready: &Ready,
    settings: &Settings,
    screen: &Screen,
    node_state: &Arc<NodeState>,
    stop: &CancellationToken,
) -> Result<bool, NodeError> {
    screen.line(&format!("joining run {}, learner {}", ready.target.name, ready.learner));
    let mut charter = match charter_file::kept_charter(&ready.data, &ready.target.learner) {
        Some(charter) => charter,
        None => {
            screen.status("no policy yet | looking for the learner");
            match stop.run_until_cancelled(charter::fetch_charter(ready, AGENT)).await {
                Some(charter) => charter?,
                None => return Ok(false),
            }
        }
    };
    loop {
        let run = charter_file::keep_charter(&ready.data, &charter)?;
        check_cap(settings, &charter)?;
        screen.line(&format!(
            "run {} ({}), node {}",
            ready.target.name,
            run.short(),
            ready.identity.public().short()
        ));
        match serve(ready, settings, screen, node_state, &charter, stop).await? {
            Some(Ending::RunEnded) => return Ok(true),
            Some(Ending::Rechartered(new)) => charter = *new,
            None => return Ok(false),
        }
    }
}

/// Whether the run fits into what the owner gives it of the disk.
fn check_cap(settings: &Settings, charter: &Signed<Charter>) -> Result<(), NodeError> {
    let (_, charter) = Charter::open(charter)?;
    match RunNeeds::of(&charter, settings) {
        Some(needs) => Ok(needs.check(settings)?),
        // The workload says what is wrong with the model.
        None => Ok(()),
    }
}

/// Works for the run of `charter` until it has ended, or begins anew; `None` when stopped. A full disk ends
/// no node: what its database was to keep is lost to it, so it begins again as from its start,
/// as soon as there is room.
async fn serve(
    ready: &Ready,
    settings: &Settings,
    screen: &Screen,
    node_state: &Arc<NodeState>,
    charter: &Signed<Charter>,
    stop: &CancellationToken,
) -> Result<Option<Ending>, NodeError> {
    let (mut backoff, mut said) = (Backoff::new(NO_ROOM.0, NO_ROOM.1), LastMessage::default());
    loop {
        let began = Instant::now();
        let starting = Supervisor::start(ready, settings, screen, node_state, charter);
        let ended = match starting.await {
            Ok(supervisor) => supervisor.run(stop).await,
            Err(error) => Err(error),
        };
        let error = match ended {
            Err(error) if error.is_full_disk() => error,
            ended => return ended,
        };
        if began.elapsed() > NO_ROOM.1 {
            said.clear();
            backoff.reset();
        }
        if said.is_new(&error.to_string()) {
            tracing::error!("{error}; the node goes on as soon as there is room");
        }
        if stop.run_until_cancelled(tokio::time::sleep(backoff.pause())).await.is_none() {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests;
