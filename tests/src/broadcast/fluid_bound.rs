//! The [fluid bound](echo_protocol::dissemination::fluid_bound) of a race, in which nodes are away and
//! links change.

use echo_protocol::dissemination::fluid_bound::FluidBroadcast;
use echo_protocol::wire::rate::BytesPerSec;

/// A broadcast as the bound sees it: bytes without headers, links without delay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FluidBound {
    /// F: the snapshot's size in bytes.
    pub(crate) bytes: u64,
    /// B0: what the source may send.
    pub(crate) source_up: BytesPerSec,
    /// Those that are to end complete.
    pub(crate) nodes: Vec<BoundNode>,
    /// From this moment on (seconds), all uplinks together, the source's included, are this
    /// many bytes per second.
    pub(crate) capacity_change: Option<(f64, f64)>,
}

/// The links of one node, and its absence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BoundNode {
    /// What it may send.
    pub(crate) up: BytesPerSec,
    /// What it may receive.
    pub(crate) down: BytesPerSec,
    /// Seconds for which it was away: it receives nothing meanwhile.
    pub(crate) away_s: f64,
}

impl FluidBound {
    /// T*: the bound for the last node, in seconds after publication.
    ///
    /// With a change of capacity on the way, the third term is the moment at which N·F bytes
    /// can have been sent. A node that was away cannot be complete before its downtime and F/d.
    /// Nodes that are killed for good are not counted, neither what they should have received
    /// nor what they could have sent: with them as senders the bound would be lower by what
    /// they sent while they lived.
    pub(crate) fn seconds(&self) -> f64 {
        let fluid = FluidBroadcast {
            bytes: self.bytes as f64,
            nodes: self.nodes.len() as f64,
            source_up: self.source_up.0 as f64,
            node_ups: self.nodes.iter().map(|node| node.up.0 as f64).sum(),
        };
        let (work, capacity) = (fluid.work(), fluid.capacity());
        let all = match self.capacity_change {
            Some((at, later)) if work > capacity * at => at + (work - capacity * at) / later,
            _ => fluid.uplinks_s(),
        };
        let slowest = self.nodes.iter().map(|node| node.away_s + fluid.downlink_s(node.down.0 as f64));
        slowest.fold(fluid.source_s().max(all), f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(source: u64, ups: &[u64], down: u64) -> FluidBound {
        let node = |up: &u64| BoundNode { up: BytesPerSec(*up), down: BytesPerSec(down), away_s: 0.0 };
        FluidBound {
            bytes: 1000,
            source_up: BytesPerSec(source),
            nodes: ups.iter().map(node).collect(),
            capacity_change: None,
        }
    }

    #[test]
    fn each_of_the_three_terms_can_be_the_largest() {
        assert_eq!(bound(10, &[100], 100).seconds(), 100.0, "the source");
        assert_eq!(bound(300, &[100; 8], 100).seconds(), 10.0, "a downlink");
        assert_eq!(bound(250, &[40; 10], 100).seconds(), 10_000.0 / 650.0, "all uplinks");
    }

    #[test]
    fn downtime_and_a_slower_uplink_count() {
        let mut away = bound(300, &[100; 8], 100);
        away.nodes[3].away_s = 1.5;
        assert_eq!(away.seconds(), 11.5);
        let mut slower = bound(100, &[50, 50], 200);
        assert_eq!(slower.seconds(), 10.0);
        slower.capacity_change = Some((4.0, 150.0));
        assert_eq!(slower.seconds(), 4.0 + 1200.0 / 150.0);
        slower.capacity_change = Some((20.0, 1.0));
        assert_eq!(slower.seconds(), 10.0, "too late to matter");
    }
}
