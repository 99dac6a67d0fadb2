//! Which run this node works for: the learner's charter, kept from start to start.

use echo_protocol::charter::{Charter, MAX_CHARTER_BYTES, RunId};
use echo_protocol::identity::PublicKey;
use echo_protocol::net::{Host, HostConfig, NetError};
use echo_protocol::program::last_message::LastMessage;
use echo_protocol::signed::{ENVELOPE_BYTES, Signed};

use crate::backoff::Backoff;
use crate::data_dir::DataDir;
use crate::discovery::{Discovery, FIRST_PAUSE, LONGEST_PAUSE};
use crate::json_file::{self, StateError};
use crate::learner::Learner;
use crate::preflight::Ready;

/// Longest encoded charter with its signature, in bytes.
const MAX_SIGNED_BYTES: u64 = (MAX_CHARTER_BYTES + ENVELOPE_BYTES) as u64;

/// The charter kept in the data directory, if there is one of this learner.
pub fn kept_charter(data: &DataDir, learner: &PublicKey) -> Option<Signed<Charter>> {
    last_charter(data).filter(|signed| opens(signed, learner))
}

/// The charter kept in the data directory, whoever's it is.
pub fn last_charter(data: &DataDir) -> Option<Signed<Charter>> {
    let bytes = match json_file::read_bytes(&data.charter(), MAX_SIGNED_BYTES) {
        Ok(bytes) => bytes?,
        Err(error) => {
            tracing::warn!(%error, "the charter has to be asked for again");
            return None;
        }
    };
    Signed::from_bytes(&bytes).ok()
}

/// Keeps a charter for the next start.
///
/// # Errors
/// [`StateError::Io`]
pub fn keep_charter(data: &DataDir, charter: &Signed<Charter>) -> Result<RunId, StateError> {
    json_file::write_bytes(&data.charter(), &charter.to_bytes(), true)?;
    Ok(RunId::of(charter))
}

/// Asks the learner for its charter, however long it takes.
///
/// A host names its gossip topics when it starts, and a run's topic is known only with its charter; so this first question is asked
/// by a host of its own, which listens nowhere and is gone when the charter is there.
///
/// # Errors
/// [`NetError`] when no host can be started here.
pub async fn fetch_charter(ready: &Ready, agent: &str) -> Result<Signed<Charter>, NetError> {
    let (host, _events) = Host::start(HostConfig::client(ready.identity.secret(), agent)).await?;
    let learner = Learner::new(host.clone(), ready.learner);
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

fn opens(signed: &Signed<Charter>, learner: &PublicKey) -> bool {
    match Charter::open(signed) {
        Ok((_, charter)) => charter.learner == *learner,
        Err(error) => {
            tracing::warn!(%error, "a charter was refused");
            false
        }
    }
}
