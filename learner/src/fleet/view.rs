//! The fleet as a checkpoint keeps it, and what a later process makes of it.
//!
//! Nodes tell of themselves again within a second, so of all this only what others said of a
//! node is taken up, when it comes back: it gets the rank that it has earned, and one that
//! was banned stays banned.

use super::score::ForwardingRecord;
use super::{Fleet, ForwardingStanding, MAX_NODES};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::rate::BytesPerSec;
use echo_protocol::wire::time::UnixMillis;
use serde::{Deserialize, Serialize};

/// What is known of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberView {
    /// The node's key, which is also its name.
    pub node: PublicKey,
    /// When it was last heard.
    pub seen: UnixMillis,
    /// Where others reach it.
    pub addresses: Vec<String>,
    /// The version that it generates under.
    pub installed: Option<PolicyVersion>,
    /// Rollouts per second, by its last heartbeat: μ.
    pub rollouts_per_s: f32,
    /// Whether it forwards snapshots.
    pub relays: bool,
    /// The cap that its owner set.
    pub max_upload: Option<BytesPerSec>,
    /// The chain that it stands in.
    pub chain: Option<usize>,
    /// Whether others wait for it.
    pub standing: ForwardingStanding,
    /// How it forwards, by what others say.
    pub record: ForwardingRecord,
}

impl Fleet {
    /// What is known of every node.
    pub fn view(&self) -> Vec<MemberView> {
        let view = |(node, member): (&PublicKey, &super::Member)| MemberView {
            node: *node,
            seen: member.seen,
            addresses: member.heartbeat.addresses.clone(),
            installed: member.heartbeat.installed,
            rollouts_per_s: member.heartbeat.rollouts_per_s,
            relays: member.heartbeat.relays,
            max_upload: member.heartbeat.max_upload,
            chain: self.chains.chain_of(node),
            standing: member.standing,
            record: member.record.clone(),
        };
        // Whom an earlier process knew, and who has not come back yet, is still to be known by the next one.
        let away = self.restored.values().filter(|away| !self.members.contains_key(&away.node)).cloned();
        self.members.iter().map(view).chain(away).take(MAX_NODES).collect()
    }

    /// Remembers what an earlier process knew.
    pub fn restore(&mut self, view: Vec<MemberView>) {
        for member in view.into_iter().take(MAX_NODES) {
            if member.standing == ForwardingStanding::Banned {
                self.rotten.met(member.node);
            }
            self.restored.insert(member.node, member);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fleet::{Fleet, FleetConfig, ForwardingStanding};
    use crate::reputation::Owners;
    use echo_protocol::control::heartbeat::Heartbeat;
    use echo_protocol::control::requests::Peer;
    use echo_protocol::dissemination::DisseminationMode;
    use echo_protocol::wire::identity::PublicKey;
    use echo_protocol::wire::rate::BytesPerSec;
    use echo_protocol::wire::time::UnixMillis;

    #[test]
    fn a_later_process_knows_who_served_well_and_who_is_banned() {
        let [me, good, bad, new] = [0, 1, 2, 3].map(|n| PublicKey::from_bytes([n; 32]));
        let fleet = || {
            let config = FleetConfig {
                mode: DisseminationMode::Echo,
                uplink: BytesPerSec(1_000_000),
                node_uplink: None,
                owners: Owners::Network,
                seed: [7; 32],
            };
            Fleet::new(Peer { key: me, addresses: Vec::new() }, config)
        };
        let beat = || Heartbeat { relays: true, ..Heartbeat::default() };
        let mut first = fleet();
        for node in [good, bad] {
            first.heartbeat(UnixMillis(1), node, beat()).unwrap();
        }
        for second in 0..5 {
            first.members.get_mut(&good).unwrap().record.delivered(UnixMillis(second * 1_000), 1 << 20, 0);
        }
        first.cut_off(&bad);

        let text = serde_json::to_string(&first.view()).unwrap();
        let mut second = fleet();
        second.restore(serde_json::from_str(&text).unwrap());
        assert!(second.members().is_empty(), "who is here is what heartbeats say");
        let known = |fleet: &Fleet| fleet.view().into_iter().map(|member| member.node).collect::<Vec<_>>();
        assert_eq!(known(&second), [good, bad], "a third process knows them though they did not come back");
        for node in [good, bad, new] {
            second.heartbeat(UnixMillis(9_000), node, beat()).unwrap();
        }
        let standing = |node| second.members()[&node].standing;
        assert_eq!(
            [good, bad, new].map(standing),
            [ForwardingStanding::Forwards, ForwardingStanding::Banned, ForwardingStanding::Forwards]
        );
        assert_eq!(second.members()[&good].record, first.members()[&good].record);
        assert_eq!(second.members()[&new].record, Default::default());
        assert_eq!(second.chains().chain_of(&bad), None);
    }
}
