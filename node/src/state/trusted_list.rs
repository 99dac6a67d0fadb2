//! Which peer list this node believes, remembered from start to start.

use std::path::{Path, PathBuf};

use echo_protocol::run::peer_list;
use echo_protocol::run::peer_list::{MAX_LIST_BYTES, PeerList, PeerListError, Trust};
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;

use crate::state::data_dir::DataDir;
use crate::state::shown_path::located;
use crate::state::state_file;
use crate::state::state_file::StateError;

/// Why there is no peer list to go by.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// No list was named.
    #[error(
        "no peer list: get one from the run's keeper and pass it once with --peers FILE; the node keeps a copy"
    )]
    NoList,
    /// The list does not exist.
    #[error("there is no peer list at {}; `echo-node config` says where `peers` is set", located(.0))]
    Missing(PathBuf),
    /// The file is longer than any list.
    #[error(
        "{0} is not a peer list: it is longer than the {MAX_LIST_BYTES} bytes that lists have; `echo-node config` says where `peers` is set"
    )]
    TooLong(PathBuf),
    /// A file could not be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// The list is not text.
    #[error("{0} is not a peer list: it is not text")]
    NotText(PathBuf),
    /// The list is refused.
    #[error("{path}: {source}")]
    Refused {
        /// The list, by the path that the owner named.
        path: PathBuf,
        /// What is wrong: signature, age, version or keeper.
        source: PeerListError,
    },
    /// `list_key` is no key.
    #[error("list_key {0:?} is not a key: it has 64 hexadecimal digits")]
    BadKey(String),
}

/// A list that this node believes.
#[derive(Clone, Debug)]
pub struct OpenedList {
    /// What it says.
    pub list: PeerList,
    /// What to remember of its keeper.
    pub trust: Trust,
    /// The signed text, to be kept for later starts.
    pub text: String,
}

/// Opens the list at `path`, or the one that was used last where none is named, under what this node
/// remembers; with what it has to remember from now on.
///
/// The keeper is pinned: the first one seen unless `list_key` names another. Naming a keeper who is
/// not the remembered one starts the count of versions anew, since another keeper counts for
/// himself. Nothing is written; see [`remember`].
///
/// # Errors
/// [`TrustError`]: no such list, a malformed key, or a list that is refused.
pub fn open_list(
    data: &DataDir,
    path: Option<&Path>,
    list_key: Option<&str>,
    now: UnixMillis,
) -> Result<OpenedList, TrustError> {
    let kept = data.list();
    let path = match path {
        Some(path) => path,
        None if kept.exists() => kept.as_path(),
        None => return Err(TrustError::NoList),
    };
    let mut trust: Trust = state_file::read(&data.trust())?.unwrap_or_default();
    if let Some(text) = list_key {
        let key = PublicKey::from_hex(text).ok_or_else(|| TrustError::BadKey(text.to_owned()))?;
        if trust.keeper.as_deref() != Some(&key.to_string()) {
            trust = Trust { keeper: Some(key.to_string()), seen: 0, network: trust.network };
        }
    }
    let bytes = match state_file::read_bytes(path, MAX_LIST_BYTES as u64) {
        // It is not this node's to delete.
        Err(StateError::Damaged { path, .. }) => return Err(TrustError::TooLong(path)),
        read => read?.ok_or_else(|| TrustError::Missing(path.to_owned()))?,
    };
    let text = String::from_utf8(bytes).map_err(|_| TrustError::NotText(path.to_owned()))?;
    let list = peer_list::open(&text, now, &mut trust)
        .map_err(|source| TrustError::Refused { path: path.to_owned(), source })?;
    Ok(OpenedList { list, trust, text })
}

/// Remembers the keeper, the newest version and the list itself for the next start.
///
/// # Errors
/// [`StateError::Io`]; what was remembered before is then still there.
pub fn remember(data: &DataDir, trust: &Trust, text: &str) -> Result<(), StateError> {
    state_file::write(&data.trust(), trust, true)?;
    state_file::write_bytes(&data.list(), text.as_bytes(), true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::wire::identity::NodeKey;
    use std::fs;

    fn list(version: u64) -> PeerList {
        let peers = vec!["/ip4/127.0.0.1/tcp/1".to_owned()];
        PeerList { network: "echo".into(), version, expires: 100, peers, runs: Vec::new() }
    }

    #[test]
    fn an_older_list_and_another_keeper_are_refused_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (data, path) = (DataDir::new(dir.path()), dir.path().join("echo.peers"));
        let (keeper, other) = (NodeKey::from_secret([1; 32]), NodeKey::from_secret([2; 32]));
        let give = |version, key| fs::write(&path, peer_list::sign(&list(version), key).unwrap()).unwrap();
        let open = |list_key: Option<&str>| open_list(&data, Some(&path), list_key, UnixMillis(1_000));

        give(7, &keeper);
        let opened = open(None).unwrap();
        remember(&data, &opened.trust, &opened.text).unwrap();
        let again = open_list(&data, None, None, UnixMillis(1_000)).unwrap();
        assert_eq!((again.list, again.text), (opened.list, opened.text), "no list has to be named again");
        let refusal = |result: Result<_, TrustError>| match result {
            Err(TrustError::Refused { source, .. }) => source,
            other => panic!("expected a refusal, got {other:?}"),
        };
        give(6, &keeper);
        assert_eq!(refusal(open(None)), PeerListError::Older { found: 6, seen: 7 });
        give(8, &other);
        assert!(matches!(refusal(open(None)), PeerListError::WrongKeeper { .. }));

        // The owner may turn to another keeper, whose versions count anew.
        give(1, &other);
        let trust = open(Some(&other.public().to_string())).unwrap().trust;
        assert_eq!(trust.seen, 1);
        assert!(matches!(open(Some("12")), Err(TrustError::BadKey(_))));
    }

    #[test]
    fn what_is_not_a_list_is_said_plainly() {
        let dir = tempfile::tempdir().unwrap();
        let (data, path) = (DataDir::new(dir.path()), dir.path().join("echo.peers"));
        assert!(matches!(open_list(&data, None, None, UnixMillis(0)), Err(TrustError::NoList)));
        assert!(matches!(open_list(&data, Some(&path), None, UnixMillis(0)), Err(TrustError::Missing(_))));
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(matches!(open_list(&data, Some(&path), None, UnixMillis(0)), Err(TrustError::NotText(_))));
        fs::write(&path, vec![b'a'; MAX_LIST_BYTES + 1]).unwrap();
        let long = open_list(&data, Some(&path), None, UnixMillis(0)).unwrap_err().to_string();
        assert!(long.contains("is not a peer list") && !long.contains("delete"), "{long}");
    }

    #[test]
    fn a_relative_path_is_named_with_the_directory_that_it_starts_from() {
        let dir = tempfile::tempdir().unwrap();
        let missing = Path::new("no/such/list");
        let text = open_list(&DataDir::new(dir.path()), Some(missing), None, UnixMillis(0)).unwrap_err();
        let (text, here) = (text.to_string(), std::env::current_dir().unwrap());
        assert!(text.contains(&format!("no/such/list (in {}", here.display())), "{text}");
    }
}
