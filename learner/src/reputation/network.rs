//! What is known of a network.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::submission::RefuseReason;
use serde::{Deserialize, Serialize};

use super::standing::{Standing, doubled, short};
use super::{DAY_MS, Decision, STRIKES_LAST_MS, Silence};

/// Keys of one network that have to be suspended within [`LIARS_WITHIN_MS`] until its
/// newcomers are not heard.
pub const NETWORK_LIARS: usize = 3;
/// See [`NETWORK_LIARS`]: a week, in milliseconds.
pub const LIARS_WITHIN_MS: u64 = 7 * DAY_MS;

/// A group of addresses that mostly have one owner: an IPv4 /24 or an IPv6
/// /48. Written `203.0.113.0/24`, `2001:db8:7::/48`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NetworkPrefix(IpAddr);

/// A text that is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network: write an IPv4 /24 or an IPv6 /48, as in 203.0.113.0/24 or 2001:db8:7::/48")]
pub struct NetworkError(String);

impl NetworkPrefix {
    /// The network of an address.
    pub fn of(ip: IpAddr) -> Self {
        Self(match ip.to_canonical() {
            IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() & !0xff).into(),
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 80 << 80).into(),
        })
    }

    fn prefix(self) -> u8 {
        if self.0.is_ipv4() { 24 } else { 48 }
    }

    /// The key of a network in the store: 16 bytes.
    pub(super) fn key(self) -> [u8; 16] {
        match self.0 {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        }
    }
}

impl fmt::Display for NetworkPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0, self.prefix())
    }
}

impl FromStr for NetworkPrefix {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let fail = || NetworkError(text.chars().take(60).collect());
        let (ip, prefix) = text.split_once('/').ok_or_else(fail)?;
        let network = Self(ip.parse().map_err(|_| fail())?);
        let whole = Self::of(network.0) == network && prefix == network.prefix().to_string();
        if whole { Ok(network) } else { Err(fail()) }
    }
}

impl TryFrom<String> for NetworkPrefix {
    type Error = NetworkError;

    fn try_from(text: String) -> Result<Self, NetworkError> {
        text.parse()
    }
}

impl From<NetworkPrefix> for String {
    fn from(network: NetworkPrefix) -> Self {
        network.to_string()
    }
}

/// The record of one network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRecord {
    /// Whether its newcomers are heard; once banned, nobody from there is.
    pub standing: Standing,
    /// How often they were not.
    pub strikes: u32,
    /// Why the operator banned it.
    pub operator: Option<String>,
    struck: UnixMillis,
    /// Keys that were suspended lately, fewer than [`NETWORK_LIARS`], and when.
    liars: BTreeMap<PublicKey, UnixMillis>,
}

impl NetworkRecord {
    /// Notes that a key of this network was suspended or banned.
    pub(super) fn liar(&mut self, now: UnixMillis, peer: PublicKey, suspension_ms: u64) {
        if self.standing == Standing::Banned {
            return;
        }
        self.liars.retain(|_, at| now.since(*at) <= LIARS_WITHIN_MS);
        self.liars.insert(peer, now);
        if self.liars.len() < NETWORK_LIARS {
            return;
        }
        self.liars.clear();
        if now.since(self.struck) > STRIKES_LAST_MS {
            self.strikes = 0;
        }
        (self.strikes, self.struck) = (self.strikes.saturating_add(1), now);
        let until = now.plus(doubled(suspension_ms, self.strikes));
        self.standing = match self.standing {
            Standing::Suspended(before) => Standing::Suspended(until.max(before)),
            _ => Standing::Suspended(until),
        };
    }

    /// Why newcomers from here are not heard now; without an end, why nobody is.
    pub(super) fn silence(&self, now: UnixMillis, network: NetworkPrefix) -> Option<Silence> {
        match self.standing {
            Standing::Suspended(until) if now < until => Some(Silence {
                reason: RefuseReason::Suspended,
                until: Some(until),
                cause: format!("several keys of {network} lied, and this one is new here"),
            }),
            Standing::Banned => {
                let why = self.operator.as_deref().unwrap_or("by the operator");
                let cause = format!("{network}: {why}");
                Some(Silence { reason: RefuseReason::Banned, until: None, cause })
            }
            Standing::Good | Standing::Suspended(_) => None,
        }
    }

    pub(super) fn decide(&mut self, decision: &Decision) {
        *self = match decision {
            Decision::Ban(reason) => Self {
                standing: Standing::Banned,
                operator: Some(short(reason)),
                liars: BTreeMap::new(),
                ..*self
            },
            Decision::Pardon => Self::default(),
        };
    }

    /// What it would cost to forget it.
    pub(super) fn worth(&self) -> (bool, UnixMillis, usize) {
        let until = if let Standing::Suspended(until) = self.standing { until } else { UnixMillis(0) };
        (self.standing == Standing::Banned, until, self.liars.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_written_as_they_are_read() {
        for (ip, network) in [
            ("203.0.113.77", "203.0.113.0/24"),
            ("::ffff:203.0.113.77", "203.0.113.0/24"),
            ("2001:db8:7:1::9", "2001:db8:7::/48"),
        ] {
            let found = NetworkPrefix::of(ip.parse().unwrap());
            assert_eq!(found.to_string(), network);
            assert_eq!(network.parse(), Ok(found));
        }
        for none in ["", "203.0.113.0", "203.0.113.1/24", "203.0.113.0/16", "2001:db8:7:1::/48", "x/24"] {
            assert!(none.parse::<NetworkPrefix>().is_err(), "{none}");
        }
    }
}
