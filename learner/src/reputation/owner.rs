//! Who counts as one party: keys cost nothing, addresses do.

use echo_protocol::wire::identity::PublicKey;
use serde::{Deserialize, Serialize};

use super::network::NetworkPrefix;

/// One owner, as [`Owners`] counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// This key alone ([`Owners::Key`]).
    Key(PublicKey),
    /// All keys of this network.
    Network(Option<NetworkPrefix>),
}

/// What counts as one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owners {
    /// All keys of one network, and all of which no network is known.
    #[default]
    Network,
    /// Each key: on one machine, and where everybody is known.
    Key,
}

impl Owners {
    /// Whose a key is that is connected from `network`.
    pub fn owner(self, key: PublicKey, network: Option<NetworkPrefix>) -> Owner {
        match self {
            Self::Key => Owner::Key(key),
            Self::Network => Owner::Network(network),
        }
    }
}
