//! What a list says, and whether a node would believe it now.

use super::sign::PublicKeyText;
use super::{ListError, expiry, read_text};
use echo_protocol::run::peer_list;
use echo_protocol::run::peer_list::{PeerList, PeerListError};
use echo_protocol::wire::time::UnixMillis;
use serde::Serialize;
use std::path::Path;

/// A list as found in a file.
#[derive(Clone, Debug, Serialize)]
pub struct ShownList {
    /// Whether a node that trusts this keeper would take the list now.
    pub valid: bool,
    /// Whether the signature belongs to the text.
    pub signature_right: bool,
    /// Who signed, or claims to have signed.
    pub keeper: PublicKeyText,
    /// Seconds until the list expires, 0 once it has; `None` when the signature is wrong.
    pub expires_in_s: Option<u64>,
    /// The content; `None` when the signature is wrong: what it then says is nobody's word.
    pub list: Option<PeerList>,
}

/// Reads the list at `path` and judges it at `now`.
///
/// # Errors
/// [`ListError`] when the file cannot be read or is no list. A wrong signature or an expired
/// list is no error.
pub fn show_file(path: &Path, now: UnixMillis) -> Result<ShownList, ListError> {
    match peer_list::read(&read_text(path)?) {
        Ok((list, keeper)) => {
            let left = list.expires.saturating_sub(now.0 / 1000);
            Ok(ShownList {
                valid: left > 0,
                signature_right: true,
                keeper: PublicKeyText(keeper),
                expires_in_s: Some(left),
                list: Some(list),
            })
        }
        Err(PeerListError::Signature(keeper)) => Ok(ShownList {
            valid: false,
            signature_right: false,
            keeper: PublicKeyText(keeper),
            expires_in_s: None,
            list: None,
        }),
        Err(other) => Err(other.into()),
    }
}

impl ShownList {
    /// The list for people.
    pub fn summary(&self, now: UnixMillis) -> String {
        let Some(list) = &self.list else {
            let keeper = self.keeper.0;
            return format!(
                "signature  WRONG: not made by {keeper} over this text\n\
                 The list was damaged or altered; its content is not shown. Fetch it again from its keeper."
            );
        };
        let now = now.0 / 1000;
        let when = if self.valid {
            format!("in {}", expiry::rough(list.expires - now))
        } else {
            format!("EXPIRED {} ago: nodes refuse it", expiry::rough(now.saturating_sub(list.expires)))
        };
        let mut lines = vec![
            format!("network    {}", list.network),
            format!("version    {}", list.version),
            format!("expires    {} ({when})", expiry::date(list.expires)),
            format!("keeper     {}", self.keeper.0),
            "signature  right".to_owned(),
            format!("addresses  {}", list.peers.len()),
        ];
        lines.extend(list.peers.iter().map(|peer| format!("  {peer}")));
        lines.push(format!("runs       {}", list.runs.len()));
        lines.extend(list.runs.iter().map(|run| format!("  {} by learner {}", run.name, run.learner)));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::wire::identity::NodeKey;

    #[test]
    fn tells_right_from_expired_from_altered_from_garbage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        let list = PeerList {
            network: "echo".into(),
            version: 2,
            expires: 5000,
            peers: vec!["/ip4/127.0.0.1/tcp/4160/p2p/x".into()],
            runs: vec![],
        };
        let text = peer_list::sign(&list, &NodeKey::from_secret([1; 32])).unwrap();
        std::fs::write(&path, &text).unwrap();

        let now = UnixMillis(1_400_000);
        let right = show_file(&path, now).unwrap();
        assert!(right.valid && right.signature_right);
        assert_eq!(right.expires_in_s, Some(3600));
        assert!(right.summary(now).contains("in 1h"), "{}", right.summary(now));
        let addresses = "\naddresses  1\n  /ip4/127.0.0.1/tcp/4160/p2p/x\n";
        assert!(right.summary(now).contains(addresses), "{}", right.summary(now));

        let later = UnixMillis(5_000_000);
        let expired = show_file(&path, later).unwrap();
        assert!(!expired.valid && expired.signature_right);
        assert!(expired.summary(UnixMillis(5_060_000)).contains("EXPIRED 1m ago"));

        std::fs::write(&path, text.replace("4160", "4161")).unwrap();
        let altered = show_file(&path, now).unwrap();
        assert!(!altered.valid && !altered.signature_right && altered.list.is_none());
        assert!(altered.summary(now).contains("WRONG"));

        std::fs::write(&path, "hello").unwrap();
        assert!(matches!(show_file(&path, now), Err(ListError::List(_))));
    }
}
