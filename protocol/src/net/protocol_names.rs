//! The names under which peers of Echo find each other's protocols.
//!
//! A name carries the version of what is spoken under it. A change that an older peer would misread
//! gets a new number.

/// Requests and responses of at most a few megabytes: leases, news, manifests, neighbourhoods, heartbeats.
pub const CONTROL: &str = "/echo/control/5";

/// The same as older nodes speak it. What they ask is not read: they are told which version is spoken here.
pub const CONTROL_4: &str = "/echo/control/4";

/// Streams that carry the chunks of snapshots.
pub const CHUNKS: &str = "/echo/chunks/3";

/// Streams that carry signed trajectories.
pub const TRAJECTORIES: &str = "/echo/trajectories/2";

/// The same with the answers of version 1, which older nodes read: see
/// [`Answer::in_version_1`](crate::work::submission::Answer::in_version_1).
pub const TRAJECTORIES_1: &str = "/echo/trajectories/1";

/// Streams on which verifiers get the groups of others, and say what they think of them.
pub const CHECKS: &str = "/echo/checks/4";

/// Kademlia, apart from every other network's DHT.
pub const KAD: &str = "/echo/kad/1";

/// Gossipsub 1.1, apart from every other network's mesh.
pub const GOSSIP: &str = "/echo/gossip/1";

/// What a peer of Echo says of itself in the `protocol_version` field of identify.
///
/// Identify itself is negotiated under libp2p's fixed name `/ipfs/id/1.0.0`. A peer that says
/// anything else in this field is of another network: its addresses are neither kept nor passed on.
pub const IDENTIFY: &str = "/echo/id/1";

/// The gossip topic on which a run's signed manifests are announced. `run_hex` is the
/// run's id in hexadecimal.
#[must_use]
pub fn manifest_topic(run_hex: &str) -> String {
    format!("/echo/{run_hex}/manifest/1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_a_version() {
        for name in [
            CONTROL,
            CONTROL_4,
            CHUNKS,
            TRAJECTORIES,
            TRAJECTORIES_1,
            CHECKS,
            KAD,
            GOSSIP,
            IDENTIFY,
            &manifest_topic("00ff"),
        ] {
            assert!(
                name.starts_with("/echo/") && name.ends_with(|last: char| last.is_ascii_digit()),
                "{name}"
            );
        }
    }
}
