//! From a draft to a list that volunteers can be given.

use super::draft::ListDraft;
use super::{ListError, expiry, read_text};
use crate::publish;
use echo_protocol::program::keyfile;
use echo_protocol::run::peer_list;
use echo_protocol::run::peer_list::PeerList;
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use echo_protocol::wire::time::UnixMillis;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A list as it was signed, and what was written of it.
#[derive(Clone, Debug, Serialize)]
pub struct SignedList {
    /// The key that signed.
    pub keeper: PublicKeyText,
    /// Whether the key was made by this very call.
    pub key_created: bool,
    /// Where the list was written; `None` when it was not.
    pub output: Option<PathBuf>,
    /// Whether the output held this very list already, so that nothing was written.
    pub unchanged: bool,
    /// What was signed, with the expiry as computed.
    pub list: PeerList,
    /// The list as it is given to volunteers.
    pub text: String,
}

/// A public key that is serialized as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKeyText(pub PublicKey);

impl Serialize for PublicKeyText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Signs the draft at `input` with the key at `key`, which is created if there is none, and writes
/// the list to `output` if that is given.
///
/// # Errors
/// [`ListError`]. When it is returned, `output` is as it was; a key that was created stays.
pub fn sign_file(
    input: &Path,
    key: &Path,
    output: Option<&Path>,
    now: UnixMillis,
) -> Result<SignedList, ListError> {
    let list = ListDraft::from_file(input)?.into_list(now)?;
    let key_created = !key.exists();
    let key = keyfile::load_or_create(key)?;
    let text = peer_list::sign(&list, &key)?;
    // What a node would refuse must not be handed out.
    peer_list::read(&text)?;
    let unchanged = match output {
        Some(path) if path.exists() => may_replace(path, &list, &key)?,
        _ => false,
    };
    if let Some(path) = output.filter(|_| !unchanged) {
        publish::replace(path, &text).map_err(|source| ListError::Write { path: path.to_owned(), source })?;
    }
    let output = output.map(Path::to_owned);
    Ok(SignedList { keeper: PublicKeyText(key.public()), key_created, output, unchanged, list, text })
}

/// Whether `path` holds `list` already. An error when it holds anything that `list` must not replace.
fn may_replace(path: &Path, list: &PeerList, key: &NodeKey) -> Result<bool, ListError> {
    let (held, keeper) = peer_list::read(&read_text(path)?)
        .map_err(|source| ListError::NotAList { path: path.to_owned(), source })?;
    if keeper != key.public() {
        return Err(ListError::OtherKeeper { path: path.to_owned(), held: keeper, signing: key.public() });
    }
    if held != *list && list.version <= held.version {
        let (held, drafted) = (held.version, list.version);
        return Err(ListError::Version { path: path.to_owned(), held, drafted });
    }
    Ok(held == *list)
}

impl SignedList {
    /// What happened, in a few lines for the keeper.
    pub fn summary(&self, key: &Path, now: UnixMillis) -> String {
        let mut lines = Vec::new();
        if self.key_created {
            let text = "a new signing key was created: keep a copy of it in a safe place. \
                        Nodes trust the first keeper they meet, so a lost key means a new list for everybody.";
            lines.push(format!("{}: {text}", key.display()));
        }
        let PeerList { network, version, expires, peers, runs } = &self.list;
        lines.push(format!(
            "network {network:?}, version {version}; addresses of peers: {}, runs: {}",
            peers.len(),
            runs.len()
        ));
        let left = expires.saturating_sub(now.0 / 1000);
        lines.push(format!("expires {} (in {})", expiry::date(*expires), expiry::rough(left)));
        lines.push(format!("signed by {}", self.keeper.0));
        if let Some(path) = &self.output {
            let what = if self.unchanged { "already holds this very list" } else { "written" };
            lines.push(format!("{}: {what}", path.display()));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const NOW: UnixMillis = UnixMillis(1_000_000_000);
    const PEER: &str = "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN";

    struct ListFolder(tempfile::TempDir);

    impl ListFolder {
        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn sign(&self, version: u64, expiry: &str) -> Result<SignedList, ListError> {
            let draft = format!("network = \"echo\"\nversion = {version}\n{expiry}\npeers = [{PEER:?}]\n");
            fs::write(self.path("list.toml"), draft).unwrap();
            sign_file(&self.path("list.toml"), &self.path("key"), Some(&self.path("list")), NOW)
        }
    }

    #[test]
    fn the_first_list_makes_the_key_and_later_ones_must_be_newer() {
        let folder = ListFolder(tempfile::tempdir().unwrap());
        let first = folder.sign(3, "expires = 2000000").unwrap();
        assert!(first.key_created && !first.unchanged);
        let said = first.summary(&folder.path("key"), NOW);
        assert!(
            said.contains("new signing key") && said.contains("; addresses of peers: 1, runs: 0"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(folder.path("list")).unwrap(), first.text);

        let again = folder.sign(3, "expires = 2000000").unwrap();
        assert!(!again.key_created && again.unchanged);
        for (version, expiry) in [(3, "expires = 2000001"), (2, "expires = 2000000")] {
            let refused = folder.sign(version, expiry);
            assert!(matches!(refused, Err(ListError::Version { held: 3, .. })), "version {version}");
        }
        assert_eq!(fs::read_to_string(folder.path("list")).unwrap(), first.text, "a refusal changes nothing");
        assert_eq!(folder.sign(4, "expires_in = \"2h\"").unwrap().list.expires, 1_007_200);
    }

    #[test]
    fn nothing_but_a_list_of_the_same_keeper_is_replaced() {
        let folder = ListFolder(tempfile::tempdir().unwrap());
        fs::write(folder.path("list"), "my thesis").unwrap();
        assert!(matches!(folder.sign(1, "expires_in = \"1d\""), Err(ListError::NotAList { .. })));
        fs::remove_file(folder.path("list")).unwrap();
        folder.sign(1, "expires_in = \"1d\"").unwrap();
        fs::remove_file(folder.path("key")).unwrap();
        assert!(matches!(folder.sign(2, "expires_in = \"1d\""), Err(ListError::OtherKeeper { .. })));
    }
}
