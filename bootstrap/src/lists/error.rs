//! What can go wrong with a peer list in its keeper's hands.

use echo_protocol::program::keyfile::KeyfileError;
use echo_protocol::run::peer_list::{MAX_LIST_BYTES, PeerListError};
use echo_protocol::wire::identity::PublicKey;
use std::io;
use std::path::PathBuf;

/// Why a list was not signed, or cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The draft or the list that was to be read.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Where the signed list was to be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No node would read a list of this length.
    #[error(
        "{path} is longer than {MAX_LIST_BYTES} bytes, the most that a peer list may have: remove peers or runs"
    )]
    TooLong {
        /// The draft or list that exceeds the limit.
        path: PathBuf,
    },
    /// The draft is no TOML of the right form.
    #[error("{path} is not a draft of a peer list: {reason}")]
    Draft {
        /// The file that was to be read as a draft.
        path: PathBuf,
        /// What is wrong, with the line.
        reason: String,
    },
    /// Neither or both of the two ways to say when the list expires.
    #[error(
        "say when the list expires: either `expires_in = \"30d\"` or `expires = <seconds since 1970>`, one of them"
    )]
    NoExpiry,
    /// `expires_in` is no duration.
    #[error("expires_in = {text:?} is no duration ({reason}): write for example \"30d\" or \"12h\"")]
    Duration {
        /// The value of `expires_in` as written in the draft.
        text: String,
        /// Why it cannot be read as a duration.
        reason: String,
    },
    /// The list would be refused from its first moment, or practically never.
    #[error(
        "the list would expire at {expires} s since 1970: choose a time after now ({now}) and before the year 9999"
    )]
    ExpiryRange {
        /// The expiry asked for, in seconds since the Unix epoch.
        expires: u64,
        /// The present, in the same unit.
        now: u64,
    },
    /// Some of the peers cannot be dialled. Every one of them is named.
    #[error("{}", unusable(.0))]
    Peers(Vec<(String, &'static str)>),
    /// The new list would be ignored by everybody who knows the one in place.
    #[error(
        "{path} holds version {held}, the draft says version {drafted}: nodes refuse older lists and would not tell two lists of one version apart; raise the draft's version above {held}"
    )]
    Version {
        /// The list in place.
        path: PathBuf,
        /// The version of the list in place.
        held: u64,
        /// The version in the draft, not above `held`.
        drafted: u64,
    },
    /// The list in place was signed by another key.
    #[error(
        "{path} is signed by {held}, but this key is {signing}: nodes that trust the former refuse the latter; if the keeper changes on purpose, move the old list away first"
    )]
    OtherKeeper {
        /// The list in place.
        path: PathBuf,
        /// The key that signed the list in place.
        held: PublicKey,
        /// The key at hand.
        signing: PublicKey,
    },
    /// What stands at the output's place is no intact list.
    #[error("will not replace {path}: {source}; move it away if it is not needed")]
    NotAList {
        /// The output, which holds something else than a list.
        path: PathBuf,
        /// Why it is no list.
        source: PeerListError,
    },
    /// The content cannot be signed as a list.
    #[error(transparent)]
    List(#[from] PeerListError),
    /// No key to sign with.
    #[error(transparent)]
    Key(#[from] KeyfileError),
}

fn unusable(peers: &[(String, &'static str)]) -> String {
    let mut text = format!("{} of the draft's peers cannot be used:", peers.len());
    for (peer, reason) in peers {
        text.push_str(&format!("\n  {peer}: {reason}"));
    }
    text
}
