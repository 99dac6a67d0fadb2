//! What a keeper writes by hand: the content of a list, not yet signed.
//!
//! ```toml
//! network = "echo"
//! version = 7                # larger than that of the list it replaces
//! expires_in = "30d"         # from now on; or `expires = 1893456000`, seconds since 1970
//! peers = ["/ip4/203.0.113.5/udp/4160/quic-v1/p2p/12D3KooW..."]
//!
//! [[runs]]
//! name = "addition"
//! learner = "64 hexadecimal digits"
//! ```

use super::expiry::LAST_SECOND;
use super::{ListError, read_text};
use echo_protocol::net::{AddrProtocol, Multiaddr, dialable};
use echo_protocol::run::peer_list::{ListedRun, PeerList};
use echo_protocol::wire::time::UnixMillis;
use serde::Deserialize;
use std::path::Path;

/// The content of a list, with its expiry as the keeper said it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListDraft {
    /// The network's name, the same in all versions of its list.
    pub network: String,
    /// The list's version: nodes ignore a list that is not newer than theirs.
    pub version: u64,
    /// Expiry in seconds since the Unix epoch.
    pub expires: Option<u64>,
    /// Expiry as a duration from the moment of signing, such as `30d`.
    pub expires_in: Option<String>,
    /// Multiaddresses of bootstrap peers, each ending in `/p2p/<peer id>`.
    pub peers: Vec<String>,
    /// Runs that this keeper vouches for.
    #[serde(default)]
    pub runs: Vec<ListedRun>,
}

impl ListDraft {
    /// Reads a draft from a TOML file; unknown keys are refused.
    ///
    /// # Errors
    /// [`ListError::Read`], [`ListError::TooLong`] or [`ListError::Draft`].
    pub fn from_file(path: &Path) -> Result<Self, ListError> {
        let text = read_text(path)?;
        toml::from_str(&text).map_err(|e| ListError::Draft { path: path.to_owned(), reason: e.to_string() })
    }

    /// The list that this draft stands for when it is signed at `now`.
    ///
    /// # Errors
    /// An expiry that is missing, malformed or out of range; or [`ListError::Peers`], which
    /// names every unusable peer.
    pub fn into_list(self, now: UnixMillis) -> Result<PeerList, ListError> {
        let now = now.0 / 1000;
        let expires = match (self.expires, self.expires_in) {
            (Some(at), None) => at,
            (None, Some(text)) => match humantime::parse_duration(&text) {
                Ok(duration) => now.saturating_add(duration.as_secs()),
                Err(e) => return Err(ListError::Duration { text, reason: e.to_string() }),
            },
            (None, None) | (Some(_), Some(_)) => return Err(ListError::NoExpiry),
        };
        if expires <= now || expires > LAST_SECOND {
            return Err(ListError::ExpiryRange { expires, now });
        }
        let faults: Vec<_> =
            self.peers.iter().filter_map(|peer| Some((peer.clone(), fault(peer)?))).collect();
        if !faults.is_empty() {
            return Err(ListError::Peers(faults));
        }
        let Self { network, version, peers, runs, .. } = self;
        Ok(PeerList { network, version, expires, peers, runs })
    }
}

/// Why a volunteer could not dial this peer.
fn fault(peer: &str) -> Option<&'static str> {
    let Ok(address) = peer.parse::<Multiaddr>() else {
        return Some(
            "not a multiaddress; write for example /ip4/203.0.113.5/udp/4160/quic-v1/p2p/12D3KooW...",
        );
    };
    if !matches!(address.iter().last(), Some(AddrProtocol::P2p(_))) {
        return Some("it does not end in /p2p/<peer id>; `echo-bootstrap identity` prints the id");
    }
    (!dialable(&address))
        .then_some("nobody can dial it; it needs a host and a port, as /udp/PORT/quic-v1 or /tcp/PORT")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_000_000_000);
    const PEER: &str = "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN";

    fn draft(rest: &str) -> Result<PeerList, ListError> {
        let text = format!("network = \"echo\"\nversion = 1\n{rest}");
        toml::from_str::<ListDraft>(&text).expect("a draft").into_list(NOW)
    }

    #[test]
    fn the_expiry_is_said_in_one_of_two_ways() {
        let peers = format!("peers = [{PEER:?}]");
        assert_eq!(draft(&format!("expires = 2000000\n{peers}")).unwrap().expires, 2_000_000);
        assert_eq!(draft(&format!("expires_in = \"1day 1s\"\n{peers}")).unwrap().expires, 1_000_000 + 86_401);
        assert!(matches!(draft(&peers), Err(ListError::NoExpiry)));
        let both = format!("expires = 2000000\nexpires_in = \"1d\"\n{peers}");
        assert!(matches!(draft(&both), Err(ListError::NoExpiry)));
        let soon = format!("expires_in = \"soon\"\n{peers}");
        assert!(matches!(draft(&soon), Err(ListError::Duration { .. })));
        for wrong in [1_000_000_u64, 7, u64::MAX >> 1] {
            let result = draft(&format!("expires = {wrong}\n{peers}"));
            assert!(matches!(result, Err(ListError::ExpiryRange { now: 1_000_000, .. })), "{wrong}");
        }
    }

    #[test]
    fn every_unusable_peer_is_named() {
        let bad = ["hello", "/ip4/127.0.0.1/tcp/1", &PEER.replace("tcp/1", "tcp/0")];
        let peers = [bad.as_slice(), &[PEER]].concat();
        let Err(ListError::Peers(faults)) = draft(&format!("expires_in = \"1d\"\npeers = {peers:?}")) else {
            panic!("the peers were taken");
        };
        assert_eq!(faults.iter().map(|(peer, _)| peer.as_str()).collect::<Vec<_>>(), bad);
    }

    #[test]
    fn unknown_keys_and_missing_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.toml");
        assert!(matches!(ListDraft::from_file(&path), Err(ListError::Read { .. })));
        std::fs::write(&path, "network = \"echo\"\nversoin = 1").unwrap();
        assert!(ListDraft::from_file(&path).unwrap_err().to_string().contains("versoin"));
        std::fs::write(&path, "x".repeat(300 << 10)).unwrap();
        assert!(matches!(ListDraft::from_file(&path), Err(ListError::TooLong { .. })));
    }
}
