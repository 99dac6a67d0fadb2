//! `echo-lab broadcast`

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use echo_lab::broadcast::{self, Broadcast, RaceMode, RaceSnapshots, Slow, Span};
use echo_protocol::wire::rate::BytesPerSec;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct BroadcastOptions {
    /// Nodes that receive and pass on.
    #[arg(long, default_value_t = 8)]
    nodes: usize,
    /// What the source may send (B0), such as 300mbit or 5MB/s.
    #[arg(long, value_name = "RATE", default_value = "300mbit")]
    uplink: BytesPerSec,
    /// What a node may send.
    #[arg(long, value_name = "RATE", default_value = "100mbit")]
    node_up: BytesPerSec,
    /// What a node may receive.
    #[arg(long, value_name = "RATE", default_value = "100mbit")]
    node_down: BytesPerSec,
    /// Draw the nodes' uplinks between two rates instead, such as 10mbit-100mbit.
    #[arg(long, value_name = "LOW-HIGH")]
    uneven: Option<Span>,
    /// Size of the policy, such as 256MiB or a number of bytes; its weights are random.
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = bytes)]
    size: u64,
    /// The nodes have version V, and the next one, a small update of it, is timed: deltas travel.
    #[arg(long, value_name = "V")]
    delta_from: Option<u64>,
    /// Two Hugging Face directories instead of random weights: the nodes have OLD, and NEW is timed.
    #[arg(long, value_name = "OLD,NEW", value_parser = pair, conflicts_with_all = ["size", "delta_from"])]
    policies: Option<RaceSnapshots>,
    /// Who races: echo, chain, star, peer:libtorrent (also +utp, +super), peer:http.
    #[arg(long, default_value = "echo")]
    mode: RaceMode,
    /// Several modes instead, one after the other in every round.
    #[arg(long, value_name = "MODES", value_delimiter = ',', conflicts_with = "mode")]
    compare: Option<Vec<RaceMode>>,
    /// Rounds; the medians are reported.
    #[arg(long, value_name = "R", default_value_t = 1)]
    repeat: u32,
    /// Kill (SIGKILL) this share of the nodes at random moments; half of them come back after 0.5 to 2 s.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    churn: f64,
    /// Slow the uplink of a forwarder down on the way: 1:0.5 halves that of the node which has sent most.
    #[arg(long, value_name = "I:FACTOR")]
    slow: Option<Slow>,
    /// Kill a forwarder on the way: 1 is the node which has sent most.
    #[arg(long, value_name = "I")]
    gone: Option<usize>,
    /// Add nodes that serve rotten blocks.
    #[arg(long, value_name = "K", default_value_t = 0)]
    rotten: usize,
    /// Put nodes behind masquerading routers.
    #[arg(long, value_name = "K", default_value_t = 0)]
    nat: usize,
    /// The congestion control that TCP uses on all hosts, such as cubic or bbr; by default
    /// that of this system.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    congestion: Option<String>,
    /// Leave the links unlimited: only the programs keep to the rates (--max-upload,
    /// --max-download), and the report says what passed in the busiest second.
    #[arg(long)]
    own_caps: bool,
    /// Of everything that is drawn: weights, uneven links, faults.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Keep everything (policies, stores, logs) in this directory. By default it is temporary:
    /// where TMPDIR says, else in memory if there is room.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Use the programs as they are, without building them first.
    #[arg(long)]
    no_build: bool,
    /// Show every node, not only sums.
    #[arg(long)]
    verbose: bool,
}

impl BroadcastOptions {
    pub(super) fn broadcast(self) -> Broadcast {
        let random = RaceSnapshots::Random { bytes: self.size, delta_from: self.delta_from };
        Broadcast {
            nodes: self.nodes,
            uplink: self.uplink,
            node_up: self.node_up,
            node_down: self.node_down,
            uneven: self.uneven,
            snapshots: self.policies.unwrap_or(random),
            modes: self.compare.unwrap_or_else(|| vec![self.mode]),
            repeat: self.repeat,
            faults: broadcast::RaceFaults { churn: self.churn, slow: self.slow, gone: self.gone },
            rotten: self.rotten,
            nat: self.nat,
            congestion: self.congestion,
            own_caps: self.own_caps,
            seed: self.seed,
            dir: self.dir,
            build: !self.no_build,
            verbose: self.verbose,
        }
    }
}

/// A number of bytes in the units of rates: 256MiB, 1GB, 100000.
fn bytes(text: &str) -> Result<u64, String> {
    let of_a_rate = text.contains('/') || text.to_ascii_lowercase().contains("bit");
    let read = text.parse::<BytesPerSec>().ok().filter(|_| !of_a_rate).map(|rate| rate.0);
    read.ok_or_else(|| {
        format!("{text:?} is no number of bytes, such as 256MiB, 1GB (with a capital B) or 100000")
    })
}

/// Two directories of policies, written as OLD,NEW.
fn pair(text: &str) -> Result<RaceSnapshots, String> {
    let (old, new) = text.split_once(',').ok_or_else(|| format!("{text:?} is not OLD,NEW"))?;
    Ok(RaceSnapshots::Given { old: old.into(), new: new.into() })
}
