//! Asking the learner for the charter of its run.

use echo_protocol::net::{Host, HostConfig, NetError};
use echo_protocol::program::log_on_change::LastMessage;
use echo_protocol::run::charter::Charter;
use echo_protocol::wire::signed::Signed;

use crate::learner_link::backoff::Backoff;
use crate::learner_link::client::LearnerClient;
use crate::learner_link::discovery::{Discovery, FIRST_PAUSE, LONGEST_PAUSE};
use crate::preflight::Ready;
use crate::state::charter_file::opens;

/// Asks the learner for its charter, however long it takes.
///
/// A host names its gossip topics when it starts, and a run's topic is known only with its
/// charter; so this first question is asked by a host of its own, which listens nowhere and is
/// gone when the charter is there.
///
/// # Errors
/// [`NetError`] when no host can be started here.
pub async fn fetch_charter(ready: &Ready, agent: &str) -> Result<Signed<Charter>, NetError> {
    let (host, _events) = Host::start(HostConfig::client(ready.identity.secret(), agent)).await?;
    let learner = LearnerClient::new(host.clone(), ready.learner);
    let mut discovery =
        Discovery::new(host.clone(), ready.learner, &ready.bootstraps, ready.data.known_peers());
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut refused = LastMessage::default();
    let charter = loop {
        discovery.reach().await;
        match learner.charter().await {
            Ok(signed) if opens(&signed, &ready.target.learner) => break signed,
            Ok(_) => tracing::error!("the learner's charter makes no sense; its operator has to mend it"),
            Err(error) if refused.is_new(&error.to_string()) => {
                tracing::warn!("the learner did not show its charter ({error}); trying again");
            }
            Err(_) => {}
        }
        tokio::time::sleep(backoff.pause()).await;
    };
    host.shutdown().await;
    Ok(charter)
}
