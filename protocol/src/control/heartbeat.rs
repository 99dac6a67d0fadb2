//! What a node tells the learner about itself, every second and at every installation.

use crate::dissemination::MAX_NEIGHBOURS;
use crate::run::epoch::Epoch;
use crate::run::version::PolicyVersion;
use crate::wire::identity::PublicKey;
use crate::wire::rate::BytesPerSec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Milliseconds between two heartbeats of a node.
pub const HEARTBEAT_EVERY_MS: u64 = 1_000;
/// Milliseconds of silence after which nobody receives from a node any more.
pub const LOST_AFTER_MS: u64 = 3_000;
/// Milliseconds of silence after which a node no longer counts as active: its work is given to others.
pub const ACTIVE_FOR_MS: u64 = 5_000;
/// Most addresses in a heartbeat.
pub const MAX_ADDRESSES: usize = 16;
/// Longest address in a heartbeat, in bytes.
pub const MAX_ADDRESS_BYTES: usize = 256;
/// Longest label or class of an offer, in bytes.
pub const MAX_OFFER_BYTES: usize = 64;
/// The highest price of an offer: a million dollars an hour, as in [`Price`](crate::wire::price::Price).
pub const MAX_MICRO_USD_PER_HOUR: u64 = 1_000_000_000_000;
/// All of a snapshot, in the unit of [`Heartbeat::progress`].
pub const WHOLE_PERMILLE: u16 = 1_000;

/// A node's state. Authenticated by the connection that it arrives on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The epoch of the versions that it names.
    pub epoch: Epoch,
    /// The version that it generates under; `None` before the first installation.
    pub installed: Option<PolicyVersion>,
    /// The version that it receives, and how much of it is here, in thousandths.
    pub progress: Option<(PolicyVersion, u16)>,
    /// μ: rollouts (trajectories) per second, lately; what the node expects of its device
    /// before its first ones.
    pub rollouts_per_s: f32,
    /// Groups that wait in its outbox.
    pub outbox: u32,
    /// Where other nodes reach it: multiaddresses.
    pub addresses: Vec<String>,
    /// Whether others can connect to it.
    pub reach: Reach,
    /// Whether it forwards snapshots to others.
    pub relays: bool,
    /// Upload cap that its owner set; `None` is no cap.
    pub max_upload: Option<BytesPerSec>,
    /// What its neighbours gave it, at most [`MAX_NEIGHBOURS`].
    pub uplinks: Vec<UplinkReport>,
    /// The digest of the neighbourhood that it has; 0 for none.
    pub neighbourhood: u64,
    /// What the node is and asks for, as its owner says. Absent if its owner says nothing, as in old nodes.
    #[serde(default, skip_serializing_if = "Offer::is_empty")]
    pub offer: Offer,
}

/// What an owner says of a node. Nobody has to believe it: the operator's own prices go before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// A name that the operator gave it, such as that of a group of rented machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What it generates on, such as `cpu` or `cuda`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What it costs, in millionths of a dollar an hour; nothing where nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_usd_per_hour: Option<u64>,
}

impl Offer {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Without names that are too long or hold control characters, as they go into metrics and log lines, and
    /// without a price that no owner can set.
    fn checked(self) -> Self {
        let fits = |name: &String| name.len() <= MAX_OFFER_BYTES && !name.chars().any(char::is_control);
        let micro_usd_per_hour = self.micro_usd_per_hour.filter(|micro| *micro <= MAX_MICRO_USD_PER_HOUR);
        Self { label: self.label.filter(fits), class: self.class.filter(fits), micro_usd_per_hour }
    }
}

/// Whether a node accepts connections from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// Others can connect to it.
    Public,
    /// It lies behind a NAT: it can only connect to others.
    Private,
    /// Not known yet. Counts as reachable: a neighbour that fails is replaced.
    #[default]
    Unknown,
}

/// What one neighbour gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UplinkReport {
    /// The neighbour that these figures are about.
    pub peer: PublicKey,
    /// Useful bytes that it delivered since it was first named.
    pub bytes: u64,
    /// Its smoothed rate; 0 before the first measurement.
    pub bytes_per_s: u64,
    /// Streams to it that ended or fell silent since it was first named.
    pub failed: u32,
    /// Whether it was cut off because it served bytes that do not match their names.
    pub rotten: bool,
}

impl Reach {
    /// Whether one of two peers can connect to the other.
    pub fn links(self, other: Self) -> bool {
        self != Self::Private || other != Self::Private
    }
}

impl Heartbeat {
    /// The same with every value within its limits: whatever a stranger sends, nothing after
    /// this meets a surprise.
    #[must_use]
    pub fn checked(mut self) -> Self {
        if !self.rollouts_per_s.is_finite() || self.rollouts_per_s < 0.0 {
            self.rollouts_per_s = 0.0;
        }
        self.progress = self.progress.map(|(version, permille)| (version, permille.min(WHOLE_PERMILLE)));
        self.addresses.retain(|address| address.len() <= MAX_ADDRESS_BYTES);
        self.addresses.truncate(MAX_ADDRESSES);
        let mut named = BTreeSet::new();
        self.uplinks.retain(|report| named.insert(report.peer));
        self.uplinks.truncate(MAX_NEIGHBOURS);
        self.offer = self.offer.checked();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::requests::ControlRequest;
    use crate::wire::identity::NodeKey;
    use crate::wire::price::Price;

    fn report(seed: u8) -> UplinkReport {
        let peer = NodeKey::from_secret([seed; 32]).public();
        UplinkReport { peer, bytes: u64::MAX, bytes_per_s: u64::MAX, failed: u32::MAX, rotten: true }
    }

    #[test]
    fn hostile_values_are_brought_within_limits() {
        let hostile = Heartbeat {
            rollouts_per_s: f32::NAN,
            progress: Some((PolicyVersion(1), u16::MAX)),
            addresses: [vec!["x".repeat(300)], vec!["/ip4/1.1.1.1".into(); 40]].concat(),
            uplinks: (0..60).map(|n| report(n / 2)).collect(),
            offer: Offer {
                label: Some("x".repeat(65)),
                class: Some("cpu\n".into()),
                micro_usd_per_hour: Some(u64::MAX),
            },
            ..Heartbeat::default()
        };
        let checked = hostile.checked();
        assert_eq!(checked.rollouts_per_s, 0.0);
        assert_eq!(checked.progress, Some((PolicyVersion(1), WHOLE_PERMILLE)));
        assert_eq!(checked.addresses, vec!["/ip4/1.1.1.1"; MAX_ADDRESSES]);
        assert_eq!(checked.uplinks.len(), MAX_NEIGHBOURS);
        assert!(checked.offer.is_empty());
        assert_eq!(checked.clone().checked(), checked);
        // The highest price that an owner can set stays.
        let highest: Price = "1000000".parse().unwrap();
        assert_eq!(highest.0, MAX_MICRO_USD_PER_HOUR);
        let of = |micro| Heartbeat {
            offer: Offer { micro_usd_per_hour: Some(micro), ..Offer::default() },
            ..Heartbeat::default()
        };
        assert_eq!(of(highest.0).checked(), of(highest.0));
        assert_eq!(of(highest.0 + 1).checked(), Heartbeat::default());
    }

    #[test]
    fn the_longest_heartbeat_fits_a_request() {
        let heartbeat = Heartbeat {
            addresses: vec!["x".repeat(MAX_ADDRESS_BYTES); MAX_ADDRESSES],
            uplinks: vec![report(1); MAX_NEIGHBOURS],
            offer: Offer {
                label: Some("x".repeat(MAX_OFFER_BYTES)),
                class: Some("x".repeat(MAX_OFFER_BYTES)),
                micro_usd_per_hour: Some(u64::MAX),
            },
            ..Heartbeat::default()
        };
        assert!(ControlRequest::Heartbeat(heartbeat).to_bytes().is_ok());
    }

    #[test]
    fn who_offers_nothing_says_what_older_nodes_say() {
        let text = serde_json::to_value(Heartbeat::default()).unwrap();
        assert!(text.get("offer").is_none(), "{text}");
        let of_older: Heartbeat = serde_json::from_value(text).unwrap();
        assert_eq!(of_older, Heartbeat::default());
    }

    #[test]
    fn two_nodes_behind_nats_cannot_connect() {
        assert!(!Reach::Private.links(Reach::Private));
        assert!(Reach::Private.links(Reach::Public) && Reach::Unknown.links(Reach::Private));
    }
}
