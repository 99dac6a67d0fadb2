//! The run's charter, kept from start to start.

use echo_protocol::run::charter::{Charter, MAX_CHARTER_BYTES, RunId};
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::signed::{ENVELOPE_BYTES, Signed};

use crate::state::data_dir::DataDir;
use crate::state::state_file;
use crate::state::state_file::StateError;

/// Longest encoded charter with its signature, in bytes.
const MAX_SIGNED_BYTES: u64 = (MAX_CHARTER_BYTES + ENVELOPE_BYTES) as u64;

/// The charter kept in the data directory, if there is one of this learner.
pub fn kept_charter(data: &DataDir, learner: &PublicKey) -> Option<Signed<Charter>> {
    last_charter(data).filter(|signed| opens(signed, learner))
}

/// The charter kept in the data directory, whoever's it is.
pub fn last_charter(data: &DataDir) -> Option<Signed<Charter>> {
    let bytes = match state_file::read_bytes(&data.charter(), MAX_SIGNED_BYTES) {
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
/// [`StateError::Io`]; the charter before it is then still there.
pub fn keep_charter(data: &DataDir, charter: &Signed<Charter>) -> Result<RunId, StateError> {
    state_file::write_bytes(&data.charter(), &charter.to_bytes(), true)?;
    Ok(RunId::of(charter))
}

/// Whether this is a sound charter, signed by `learner` for itself. One that does not open is logged.
pub(crate) fn opens(signed: &Signed<Charter>, learner: &PublicKey) -> bool {
    match Charter::open(signed) {
        Ok((_, charter)) => charter.learner == *learner,
        Err(error) => {
            tracing::warn!(%error, "a charter was refused");
            false
        }
    }
}
