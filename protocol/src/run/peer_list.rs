//! Signed peer lists: the only thing a volunteer needs to be given.
//!
//! A list is a small text file that its keeper can read and put under version control: one line
//! of signature, then TOML.
//!
//! ```text
//! echo-peer-list 1 <key, 64 hex digits> <signature, 128 hex digits>
//! network = "echo"
//! version = 7
//! ...
//! ```
//!
//! The signature covers `"echo peer list 1" ‖ 0x00 ‖ BLAKE3(everything after the first
//! line break)`, as received.

use crate::wire::identity::{NodeKey, PublicKey, Signature};
use crate::wire::time::UnixMillis;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Longest list, in bytes.
pub const MAX_LIST_BYTES: usize = 256 << 10;
/// Most peers and most runs of a list.
pub const MAX_ENTRIES: usize = 1024;

const MAGIC: &str = "echo-peer-list 1";
const CONTEXT: &[u8] = b"echo peer list 1\0";

/// What a list says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerList {
    /// The network's name: lists of other networks are refused.
    pub network: String,
    /// Grows with every issue; an older list never replaces a newer one.
    pub version: u64,
    /// Seconds since the Unix epoch after which the list is refused.
    pub expires: u64,
    /// Multiaddresses of bootstrap peers, each ending in `/p2p/<peer id>`.
    pub peers: Vec<String>,
    /// Runs that this keeper vouches for.
    #[serde(default)]
    pub runs: Vec<ListedRun>,
}

/// A run that volunteers may join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedRun {
    /// A name for people.
    pub name: String,
    /// The learner's public key, in hexadecimal.
    pub learner: String,
}

/// Why a list is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerListError {
    /// Not a list, or one that this program cannot read.
    #[error("not a peer list: {0}")]
    Malformed(String),
    /// The text was changed after signing, or the signature belongs to something else.
    #[error("the peer list's signature by {0} does not match its text: fetch the list again from its keeper")]
    Signature(PublicKey),
    /// Signed by somebody other than the keeper that is trusted here.
    #[error(
        "the peer list is signed by {found}, but this node trusts {trusted}: do not use it, unless the keeper says on another way that this key is theirs; then pass --list-key {found}"
    )]
    WrongKeeper {
        /// The key that signed the list.
        found: PublicKey,
        /// The key that this node was given.
        trusted: PublicKey,
    },
    /// Its time is over.
    #[error(
        "the peer list expired {ago_s} seconds ago: fetch a newer one from its keeper (and check this machine's clock)"
    )]
    Expired {
        /// Seconds since it expired.
        ago_s: u64,
    },
    /// A newer one has been seen here.
    #[error(
        "the peer list is version {found}, but version {seen} has been seen here: an old list may name peers that were since removed; fetch the newest"
    )]
    Older {
        /// Version of this list.
        found: u64,
        /// The newest version that was accepted here.
        seen: u64,
    },
    /// Belongs to another network.
    #[error("the peer list is for network {found:?}, this node is on {expected:?}")]
    OtherNetwork {
        /// The network that the list names.
        found: String,
        /// The network that this node belongs to.
        expected: String,
    },
}

/// What a node remembers about lists, and compares a new one with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    /// The keeper's key in hexadecimal; `None` trusts the first keeper seen.
    pub keeper: Option<String>,
    /// Newest version seen of that keeper's lists.
    pub seen: u64,
    /// The network that this node is on; `None` takes the first list's.
    pub network: Option<String>,
}

/// Reads the text of a list, or of a draft of one, of which nobody may want more than [`MAX_LIST_BYTES`].
///
/// # Errors
/// What the system says; [`io::ErrorKind::FileTooLarge`] for a longer one,
/// [`io::ErrorKind::InvalidData`] for what is no text.
pub fn read_file(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_LIST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_LIST_BYTES {
        let what = format!("longer than {MAX_LIST_BYTES} bytes, the most that a peer list may have");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Signs `list`; the result is the file's text.
pub fn sign(list: &PeerList, key: &NodeKey) -> Result<String, PeerListError> {
    list.check()?;
    let body = toml::to_string(list).map_err(|e| PeerListError::Malformed(e.to_string()))?;
    let signature = key.sign(&signed_message(&body));
    Ok(format!("{MAGIC} {} {}\n{body}", key.public(), hex::encode(signature.to_bytes())))
}

/// Opens a list: signature, keeper, network, expiry and version, in this order.
///
/// On success `trust` holds what has to be remembered for the next list.
pub fn open(text: &str, now: UnixMillis, trust: &mut Trust) -> Result<PeerList, PeerListError> {
    let (list, keeper) = read(text)?;
    if let Some(trusted) = trust.keeper.as_deref().and_then(PublicKey::from_hex)
        && trusted != keeper
    {
        return Err(PeerListError::WrongKeeper { found: keeper, trusted });
    }
    if let Some(expected) = trust.network.clone()
        && expected != list.network
    {
        return Err(PeerListError::OtherNetwork { found: list.network, expected });
    }
    if now.0 / 1000 >= list.expires {
        return Err(PeerListError::Expired { ago_s: now.0 / 1000 - list.expires });
    }
    if list.version < trust.seen {
        return Err(PeerListError::Older { found: list.version, seen: trust.seen });
    }
    *trust =
        Trust { keeper: Some(keeper.to_string()), seen: list.version, network: Some(list.network.clone()) };
    Ok(list)
}

/// Verifies a list's signature and form, and says who signed it; whether that keeper is
/// trusted is [`open`]'s question.
pub fn read(text: &str) -> Result<(PeerList, PublicKey), PeerListError> {
    let malformed = |what: &str| PeerListError::Malformed(what.to_owned());
    if text.len() > MAX_LIST_BYTES {
        return Err(malformed("longer than 256 KiB"));
    }
    let (header, body) = text.split_once('\n').ok_or_else(|| malformed("it has one line only"))?;
    let fields = header
        .trim_end()
        .strip_prefix(MAGIC)
        .ok_or_else(|| malformed("it does not begin with echo-peer-list 1"))?;
    let (key, signature) =
        fields.trim().split_once(' ').ok_or_else(|| malformed("its first line lacks key or signature"))?;
    let key = PublicKey::from_hex(key).ok_or_else(|| malformed("the key is not 64 hexadecimal digits"))?;
    let mut bytes = [0; 64];
    hex::decode_to_slice(signature, &mut bytes)
        .map_err(|_| malformed("the signature is not 128 hexadecimal digits"))?;
    if !key.verifies(&signed_message(body), &Signature::from_bytes(bytes)) {
        return Err(PeerListError::Signature(key));
    }
    let list: PeerList = toml::from_str(body).map_err(|e| PeerListError::Malformed(e.to_string()))?;
    list.check()?;
    Ok((list, key))
}

impl PeerList {
    /// The learner keys of the listed runs, with their names.
    pub fn learners(&self) -> impl Iterator<Item = (&str, PublicKey)> {
        self.runs.iter().filter_map(|run| Some((run.name.as_str(), PublicKey::from_hex(&run.learner)?)))
    }

    /// Whether a run of this learner is listed.
    pub fn lists(&self, learner: &PublicKey) -> bool {
        self.learners().any(|(_, listed)| listed == *learner)
    }

    fn check(&self) -> Result<(), PeerListError> {
        if self.peers.is_empty() || self.peers.len() > MAX_ENTRIES || self.runs.len() > MAX_ENTRIES {
            let what = format!(
                "{} peers and {} runs; 1 to {MAX_ENTRIES} peers are allowed",
                self.peers.len(),
                self.runs.len()
            );
            return Err(PeerListError::Malformed(what));
        }
        match self.runs.iter().find(|run| PublicKey::from_hex(&run.learner).is_none()) {
            Some(run) => Err(PeerListError::Malformed(format!(
                "run {:?}: its learner key is not 64 hexadecimal digits",
                run.name
            ))),
            None => Ok(()),
        }
    }
}

fn signed_message(body: &str) -> Vec<u8> {
    [CONTEXT, blake3::hash(body.as_bytes()).as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_000_000);

    fn keeper() -> NodeKey {
        NodeKey::from_secret([3; 32])
    }

    fn list(version: u64) -> PeerList {
        let learner = NodeKey::from_secret([4; 32]).public().to_string();
        PeerList {
            network: "echo".into(),
            version,
            expires: 2000,
            peers: vec!["/ip4/127.0.0.1/udp/1/quic-v1/p2p/x".into()],
            runs: vec![ListedRun { name: "addition".into(), learner }],
        }
    }

    #[test]
    fn opens_and_pins_the_first_keeper() {
        let mut trust = Trust::default();
        let text = sign(&list(7), &keeper()).unwrap();
        assert_eq!(open(&text, NOW, &mut trust).unwrap(), list(7));
        assert_eq!((trust.keeper.clone(), trust.seen), (Some(keeper().public().to_string()), 7));
        let has = |seed| list(7).lists(&NodeKey::from_secret([seed; 32]).public());
        assert!(has(4) && !has(5));
        let stranger = sign(&list(8), &NodeKey::from_secret([5; 32])).unwrap();
        assert!(matches!(open(&stranger, NOW, &mut trust), Err(PeerListError::WrongKeeper { .. })));
        assert_eq!(open(&text, NOW, &mut trust).unwrap().version, 7, "the same list again is fine");
    }

    #[test]
    fn refuses_altered_expired_older_and_foreign_lists() {
        let mut trust = Trust { seen: 7, network: Some("echo".into()), keeper: None };
        let text = sign(&list(7), &keeper()).unwrap();
        let altered = text.replace("127.0.0.1", "127.0.0.2");
        assert!(matches!(open(&altered, NOW, &mut trust), Err(PeerListError::Signature(_))));
        assert_eq!(open(&text, UnixMillis(2_005_000), &mut trust), Err(PeerListError::Expired { ago_s: 5 }));
        let older = sign(&list(6), &keeper()).unwrap();
        assert_eq!(open(&older, NOW, &mut trust), Err(PeerListError::Older { found: 6, seen: 7 }));
        let foreign = sign(&PeerList { network: "other".into(), ..list(9) }, &keeper()).unwrap();
        assert!(matches!(open(&foreign, NOW, &mut trust), Err(PeerListError::OtherNetwork { .. })));
        assert_eq!(trust.seen, 7, "a refused list leaves no trace");
    }

    #[test]
    fn no_more_of_a_file_is_read_than_a_list_may_have() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("peers.toml");
        let kind = |path: &Path| read_file(path).unwrap_err().kind();
        assert_eq!(kind(&path), io::ErrorKind::NotFound);
        std::fs::write(&path, "x".repeat(MAX_LIST_BYTES)).unwrap();
        assert_eq!(read_file(&path).unwrap().len(), MAX_LIST_BYTES);
        std::fs::write(&path, "\u{e9}".repeat(MAX_LIST_BYTES)).unwrap();
        assert_eq!(kind(&path), io::ErrorKind::FileTooLarge);
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(kind(&path), io::ErrorKind::InvalidData);
        // It has no end.
        #[cfg(target_os = "linux")]
        assert_eq!(kind(Path::new("/dev/zero")), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn garbage_is_named() {
        for text in
            ["", "hello\nworld", "echo-peer-list 1\n", "echo-peer-list 1 00 00\nx", "echo-peer-list 2 a b\nc"]
        {
            assert!(matches!(read(text), Err(PeerListError::Malformed(_))), "{text:?}");
        }
        assert!(sign(&PeerList { peers: vec![], ..list(1) }, &keeper()).is_err());
    }
}
