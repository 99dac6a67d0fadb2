//! `[network]`

use crate::common::option_error::OptionError;
use echo_protocol::dissemination::DisseminationMode;
use echo_protocol::net::Multiaddr;
use echo_protocol::wire::rate::BytesPerSec;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[network]`: where the learner listens, and how it is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSection {
    /// Multiaddresses to listen on.
    pub listen: Vec<String>,
    /// Multiaddresses at which others reach the learner, where they differ (a forwarded port).
    pub external: Vec<String>,
    /// How snapshots are spread: `echo` (chains and a mesh), `chain` (ECHO-2's chains alone) or
    /// `star` (everyone from the learner).
    pub dissemination: DisseminationMode,
    /// B0: most bytes a second that the learner sends, over everything; left out, there is no cap,
    /// and chains are counted as if it were 100 Mbit/s.
    pub max_upload: Option<BytesPerSec>,
    /// Most bytes a second that the learner receives.
    pub max_download: Option<BytesPerSec>,
    /// A signed peer list.
    pub peers: Option<PathBuf>,
    /// The key that must have signed it, in hexadecimal; left out, the list's own signer is trusted.
    pub list_key: Option<String>,
}

impl NetworkSection {
    /// Addresses that are none, caps at which nothing gets through, and a key for a list that is not named.
    pub(crate) fn problems(&self) -> Vec<OptionError> {
        let mut problems = Vec::new();
        for (field, addresses) in [("network.listen", &self.listen), ("network.external", &self.external)] {
            for wrong in addresses.iter().filter(|text| text.parse::<Multiaddr>().is_err()) {
                let rule = "it has to be a multiaddress, such as /ip4/0.0.0.0/tcp/4001";
                problems.push(OptionError::Setting { field, found: format!("{wrong:?}"), rule });
            }
        }
        let caps = [("network.max_upload", self.max_upload), ("network.max_download", self.max_download)];
        let low = caps.into_iter().filter_map(|(setting, rate)| rate?.check_cap(setting).err());
        problems.extend(low.map(OptionError::Rate));
        if let Some(key) = self.list_key.as_ref().filter(|_| self.peers.is_none()) {
            let (field, found) = ("network.list_key", format!("{key:?}"));
            let rule = "it says who signed `peers`, which is not set";
            problems.push(OptionError::Setting { field, found, rule });
        }
        problems
    }
}

impl Default for NetworkSection {
    fn default() -> Self {
        let listen = ["/ip4/0.0.0.0/udp/4001/quic-v1", "/ip4/0.0.0.0/tcp/4001"].map(str::to_owned).to_vec();
        Self {
            listen,
            external: Vec::new(),
            dissemination: DisseminationMode::Echo,
            max_upload: None,
            max_download: None,
            peers: None,
            list_key: None,
        }
    }
}
