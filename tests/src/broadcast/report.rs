//! What is said of a race, to people and to scripts.

use super::link_check::LinkCheck;
use super::options::{Broadcast, RaceMode};
use super::recovery::Recovery;
use crate::output::console::CommandReport;
use echo_protocol::wire::rate::BytesPerSec;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// One race. `null` is what could not be measured: bytes of interfaces on loopback, or what an
/// outside system does not tell.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RaceRow {
    /// The system that raced, as the command line names it.
    pub(super) mode: String,
    /// Honest nodes at the start.
    pub(super) nodes: usize,
    /// F: bytes of the snapshot that is timed.
    pub(super) bytes: u64,
    /// From publication until every living node was complete, in seconds; `null` if one was not.
    pub(super) t_bcast_s: Option<f64>,
    /// The same for 90 % of the living nodes.
    pub(super) t_bcast_90_s: Option<f64>,
    /// T*: the fluid bound, in seconds.
    pub(super) t_star_s: f64,
    /// T_bcast / T*; `null` if a living node was not complete.
    pub(super) ratio: Option<f64>,
    /// What the source sent, by its interface.
    pub(super) source_bytes: Option<u64>,
    /// What all nodes received, by their interfaces.
    pub(super) wire_bytes: Option<u64>,
    /// What nodes received twice, as a share of what they needed.
    pub(super) duplicate_share: Option<f64>,
    /// Blocks that were taken from another neighbour than the one asked first.
    pub(super) repairs: Option<u64>,
    /// Living nodes that were complete at the end.
    pub(super) complete_nodes: usize,
    /// Nodes that lived at the end.
    pub(super) living_nodes: usize,
    /// Chunks on complete nodes that are not what the source published.
    pub(super) rotten_installed: u64,
    /// Largest peak of a node's resident memory, in MiB.
    pub(super) rss_mb_max: Option<f64>,
    /// The same above what it was at publication.
    pub(super) rss_above_idle_mb_max: Option<f64>,
    /// Mean of the nodes' processor seconds, for each 10⁹ bytes of the snapshot.
    pub(super) cpu_s_per_gb: Option<f64>,
    /// The source's processor seconds.
    pub(super) source_cpu_s: Option<f64>,
    /// What keeps the caps: `netns` (the links) or `process` (the programs).
    pub(super) caps: &'static str,
    /// The congestion control of TCP.
    pub(super) congestion: Option<String>,
    /// What all hosts wrote to: `memory` or `disk`.
    pub(super) stores: &'static str,
    /// Where programs keep their caps alone: what passed in the busiest second of a cap, over the
    /// cap; the largest of all hosts.
    pub(super) busiest_second: Option<Busiest>,
    /// What plain TCP carried over the same links just before.
    pub(super) tcp_copy: Option<LinkCheck>,
    /// Peers that were cut off for rotten bytes.
    pub(super) cut_off: Vec<String>,
    /// What `--slow` or `--gone` came to.
    #[serde(flatten, serialize_with = "flat")]
    pub(super) recovery: Option<Recovery>,
    /// A row for each node, left out unless `--verbose` asks for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) per_node: Vec<NodeRow>,
}

/// What passed in the busiest second, over the cap.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Busiest {
    /// Of what was sent, by the source or a node.
    pub(super) up: Option<f64>,
    /// Of what a node received.
    pub(super) down: Option<f64>,
}

/// One node in a race.
#[derive(Clone, Debug, Serialize)]
pub(super) struct NodeRow {
    pub(super) node: usize,
    pub(super) up: Option<BytesPerSec>,
    pub(super) nat: bool,
    pub(super) complete_s: Option<f64>,
    pub(super) killed: bool,
    pub(super) living: bool,
    pub(super) sent: Option<u64>,
    pub(super) received: Option<u64>,
    pub(super) rss_mb: Option<f64>,
    pub(super) rss_above_idle_mb: Option<f64>,
    pub(super) cpu_s_per_gb: Option<f64>,
}

fn flat<S: Serializer>(recovery: &Option<Recovery>, serializer: S) -> Result<S::Ok, S::Error> {
    let fields = match recovery {
        None => json!({}),
        Some(Recovery { fault_s, affected, recovery_s }) => {
            json!({"fault_s": fault_s, "affected_nodes": affected, "recovery_s": recovery_s})
        }
    };
    fields.serialize(serializer)
}

impl RaceRow {
    /// Whether every living node ended complete, with nothing but what the source published.
    pub(super) fn passed(&self) -> bool {
        self.complete_nodes == self.living_nodes && self.living_nodes > 0 && self.rotten_installed == 0
    }

    /// The race on one line.
    pub(super) fn line(&self) -> String {
        let seconds = |value: Option<f64>| value.map_or("-".to_owned(), |s| format!("{s:.2} s"));
        let mib = |value: Option<u64>| value.map_or("-".to_owned(), |b| format!("{} MiB", b >> 20));
        let mut line = format!(
            "{:<18} T_bcast {} (90 %: {}), bound {:.2} s, ratio {}, {} of {} complete, source sent {}",
            self.mode,
            seconds(self.t_bcast_s),
            seconds(self.t_bcast_90_s),
            self.t_star_s,
            self.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
            self.complete_nodes,
            self.living_nodes,
            mib(self.source_bytes),
        );
        if let Some(recovery) = &self.recovery {
            let (affected, time) = (recovery.affected, seconds(recovery.recovery_s));
            let _infallible = write!(line, ", {affected} nodes felt the fault, recovered after {time}");
        }
        if let Some(Busiest { up, down }) = self.busiest_second {
            let share = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{share:.3}"));
            let _infallible =
                write!(line, ", busiest second {} of the cap up, {} down", share(up), share(down));
        }
        if self.rotten_installed > 0 {
            let _infallible = write!(line, ", {} ROTTEN chunks installed", self.rotten_installed);
        }
        line
    }

    /// Every node on a line.
    pub(super) fn table(&self) -> String {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |n| format!("{n:.2}"));
        let mib = |value: Option<u64>| value.map_or("-".to_owned(), |b| (b >> 20).to_string());
        let mut text = format!(
            "{:>4} {:>12} {:>11} {:>9} {:>9} {:>8} {:>9}  state",
            "node", "uplink", "complete s", "sent MiB", "recv MiB", "RSS MiB", "CPU s/GB"
        );
        for node in &self.per_node {
            let up = node.up.map_or("-".to_owned(), |rate| rate.to_string());
            let mut state = if node.living { "living" } else { "dead" }.to_owned();
            state.push_str(if node.living && node.killed { ", was killed" } else { "" });
            state.push_str(if node.nat { ", behind NAT" } else { "" });
            let _infallible = write!(
                text,
                "\n{:>4} {up:>12} {:>11} {:>9} {:>9} {:>8} {:>9}  {state}",
                node.node,
                number(node.complete_s),
                mib(node.sent),
                mib(node.received),
                number(node.rss_mb),
                number(node.cpu_s_per_gb),
            );
        }
        text
    }
}

/// Whether nodes behind a faulty forwarder recovered within one broadcast, in every race of Echo; `None`
/// without such a fault. One broadcast is T*, the least that it takes: by the end of a race itself everybody
/// has recovered who is complete.
fn recovered(rows: &[RaceRow]) -> Option<(bool, Value)> {
    let echo = RaceMode::Echo.to_string();
    let faults: Vec<(f64, &Recovery)> = rows
        .iter()
        .filter(|row| row.mode == echo)
        .filter_map(|row| Some((row.t_star_s, row.recovery.as_ref()?)))
        .collect();
    let holds = faults.iter().all(|(t_star_s, recovery)| recovery.is_within(*t_star_s));
    let figures: Vec<Value> = faults
        .iter()
        .map(|(t_star_s, recovery)| json!({"recovery_s": recovery.recovery_s, "t_star_s": t_star_s}))
        .collect();
    let claim = json!({
        "claim": "whoever feels a forwarder's fault recovers within one broadcast", "holds": holds,
        "figures": figures,
    });
    (!faults.is_empty()).then_some((holds, claim))
}

/// One race as it is; of several, the one with the median T_bcast of each mode, the first mode's on
/// top, and all of them in `races`.
pub(super) fn sum_up(broadcast: &Broadcast, rows: &[RaceRow]) -> CommandReport {
    let mut passed = !rows.is_empty() && rows.iter().all(RaceRow::passed);
    let shown = |row: &RaceRow| {
        let mut row = row.clone();
        if !broadcast.verbose {
            row.per_node.clear();
        }
        json!(row)
    };
    let medians: Vec<&RaceRow> =
        broadcast.modes.iter().filter_map(|mode| median(rows, &mode.to_string())).collect();
    let mut json = medians.first().map_or(Value::Null, |row| shown(row));
    if rows.len() > 1 {
        json["medians"] = medians.iter().map(|row| shown(row)).collect();
        json["races"] = rows.iter().map(shown).collect();
    }
    json["seed"] = json!(broadcast.seed);
    if let Some((holds, claim)) = recovered(rows) {
        passed &= holds;
        json["claims"] = json!([claim]);
    }
    CommandReport { passed, json }
}

/// The race of a mode with the median time; races that nobody finished are the slowest.
fn median<'a>(rows: &'a [RaceRow], mode: &str) -> Option<&'a RaceRow> {
    let mut rows: Vec<&RaceRow> = rows.iter().filter(|row| row.mode == mode).collect();
    let time = |row: &RaceRow| row.t_bcast_s.unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| time(a).total_cmp(&time(b)));
    rows.get(rows.len().saturating_sub(1) / 2).copied()
}
