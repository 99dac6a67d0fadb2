//! What the neighbours gave, for metrics and heartbeats.

use super::Dissemination;
use super::neighbours::NeighbourState;
use crate::wire::identity::PublicKey;

/// What one neighbour gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamStats {
    /// The neighbour's key, as the learner named it.
    pub peer: PublicKey,
    /// Bytes of blocks that it delivered and that were not here before.
    pub bytes: u64,
    /// Smoothed rate while it had something to deliver; 0 before the first measurement.
    pub bytes_per_s: u64,
    /// Streams that ended, failed to open or fell silent.
    pub failed: u64,
    /// Blocks that it delivered and that were here already.
    pub duplicates: u64,
    /// Blocks that it took over from slower neighbours.
    pub repairs: u64,
    /// Whether its stream is open.
    pub open: bool,
}

/// What all neighbours gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Those that are named now or still deliver.
    pub upstreams: Vec<UpstreamStats>,
    /// Blocks received that were not here before, since the start.
    pub blocks: u64,
    /// Blocks received that were here already, since the start.
    pub duplicates: u64,
    /// Blocks taken over from slower neighbours, since the start.
    pub repairs: u64,
    /// Blocks that are requested and not yet here.
    pub under_way: u64,
    /// Consumers that are served.
    pub consumers: usize,
}

impl Dissemination {
    /// What the neighbours gave so far.
    pub fn stats(&self) -> Stats {
        let all = self.neighbours.totals();
        Stats {
            upstreams: self.neighbours.edges.iter().map(|(peer, edge)| upstream(*peer, edge)).collect(),
            blocks: all.blocks,
            duplicates: all.duplicates,
            repairs: all.repairs,
            under_way: self.neighbours.under_way(),
            consumers: self.consumers.len(),
        }
    }
}

fn upstream(peer: PublicKey, edge: &NeighbourState) -> UpstreamStats {
    UpstreamStats {
        peer,
        bytes: edge.totals.bytes,
        bytes_per_s: edge.pace.rate().unwrap_or(0),
        failed: edge.totals.failures,
        duplicates: edge.totals.duplicates,
        repairs: edge.totals.repairs,
        open: edge.is_open(),
    }
}
