//! Who has which link. Hosts are numbered: 0 is the source, 1 to N the nodes, then the liars, and
//! the bootstrap node last.

use crate::broadcast::options::{Broadcast, Span};
use crate::harness::netns::HostLink;
use echo_protocol::wire::rate::BytesPerSec;
use echo_protocol::wire::rng::Draws;

/// The number of the host on which the source runs.
pub(crate) const SOURCE: usize = 0;

/// The links of all hosts.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    /// The link of each host, by its number.
    pub(crate) hosts: Vec<HostLink>,
    nodes: usize,
    liars: usize,
}

impl Links {
    /// The links of a broadcast: the same for the same seed.
    pub(crate) fn of(broadcast: &Broadcast) -> Self {
        let mut draws = Draws::new(seed_of(broadcast.seed, "links"));
        let (nodes, liars) = (broadcast.nodes, broadcast.rotten);
        let unlimited = broadcast.own_caps;
        let mut hosts = vec![HostLink { up: Some(broadcast.uplink), unlimited, ..HostLink::default() }];
        for index in 0..nodes + liars {
            let up = broadcast.uneven.map_or(broadcast.node_up, |span| draw(span, &mut draws));
            let nat = index < nodes && index + broadcast.nat >= nodes;
            hosts.push(HostLink { up: Some(up), down: Some(broadcast.node_down), unlimited, nat });
        }
        hosts.push(HostLink { unlimited, ..HostLink::default() });
        Self { hosts, nodes, liars }
    }

    /// The hosts of the honest nodes.
    pub(crate) fn nodes(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.nodes
    }

    /// The hosts of the liars.
    pub(crate) fn liars(&self) -> std::ops::Range<usize> {
        self.nodes + 1..self.nodes + 1 + self.liars
    }

    /// The host of the bootstrap node.
    pub(crate) fn bootstrap(&self) -> usize {
        self.hosts.len() - 1
    }
}

/// A rate of the span, each magnitude equally likely: between 10 and 100 as often below 32 as above.
fn draw(span: Span, draws: &mut Draws) -> BytesPerSec {
    let position = draws.below(1 << 32) as f64 / (1u64 << 32) as f64;
    let (low, high) = (span.low.0 as f64, span.high.0 as f64);
    BytesPerSec((low * (high / low).powf(position)).round() as u64)
}

/// The seed of one kind of draws.
pub(crate) fn seed_of(seed: u64, what: &str) -> [u8; 32] {
    let bytes = [what.as_bytes(), &[0], &seed.to_le_bytes()].concat();
    *echo_protocol::wire::content_id::ContentId::of(&bytes).as_bytes()
}
