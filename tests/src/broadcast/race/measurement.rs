//! From what was seen of a race to what is reported of it.

use super::node_states::Fates;
use super::{LinkCheck, Race, RaceMode, RaceRow, SOURCE, Samples, Site, SystemAccount};
use crate::broadcast::fluid_bound::{BoundNode, FluidBound};
use crate::broadcast::recovery::{DownloadCourse, Recovery, recovery};
use crate::broadcast::report::{Busiest, NodeRow};
use crate::broadcast::scratch_dir::medium;
use crate::harness::netns::{Counters, HostLink};
use crate::harness::process_usage::ProcessUsage;
use echo_protocol::wire::rate::BytesPerSec;
use echo_protocol::wire::time::UnixMillis;

/// What a node without a cap could send or receive: more than any machine can.
const UNLIMITED: BytesPerSec = BytesPerSec(1 << 40);
/// CPU time is reported for this many bytes.
const GB: f64 = 1e9;
/// Bytes of a mebibyte, in which memory is reported.
const MIB: f64 = (1 << 20) as f64;

/// What was seen of a race.
pub(super) struct Measured<'a> {
    pub(super) mode: &'a RaceMode,
    pub(super) check: Option<LinkCheck>,
    pub(super) site: &'a Site,
    pub(super) published: UnixMillis,
    pub(super) fates: Fates,
    pub(super) samples: Samples,
    pub(super) differing: u64,
    pub(super) account: SystemAccount,
}

impl Race<'_> {
    /// The bound for the nodes that live, with the links that they had at first, and from `change`
    /// (seconds) on with those that they have on that site.
    pub(super) fn bound(&self, fates: &Fates, change: Option<(f64, &Site)>) -> FluidBound {
        let node = |link: HostLink, away_s| BoundNode {
            up: link.up.unwrap_or(UNLIMITED),
            down: link.down.unwrap_or(UNLIMITED),
            away_s,
        };
        let nodes = fates.living().map(|(host, fate)| node(self.links.hosts[host], fate.away_s)).collect();
        let up = |site: &Site, host| site.link(host).up.unwrap_or(UNLIMITED).0 as f64;
        let later =
            |site: &Site| up(site, SOURCE) + fates.living().map(|(host, _)| up(site, host)).sum::<f64>();
        FluidBound {
            bytes: self.policies.bytes,
            source_up: self.broadcast.uplink,
            nodes,
            capacity_change: change.map(|(at, site)| (at, later(site))),
        }
    }

    /// What is reported of a race.
    pub(super) fn row(&self, seen: Measured<'_>) -> RaceRow {
        let Measured { mode, check, site, published, ref fates, ref samples, differing, ref account } = seen;
        let slowed = fates.fault_s.filter(|_| self.broadcast.faults.slow.is_some());
        let t_star_s = self.bound(fates, slowed.map(|at| (at, site))).seconds();
        let mut times: Vec<f64> = fates.complete_nodes().filter_map(|(_, fate)| fate.complete_s).collect();
        times.sort_by(f64::total_cmp);
        let (complete, living) = fates.count();
        let passed = |host: usize| passed(samples, published, host);
        let wire: Option<u64> = fates.all().map(|(host, _)| passed(host).map(|c| c.received)).sum();
        let nodes: Vec<NodeRow> = fates.all().map(|(host, _)| self.node(host, &seen)).collect();
        let largest = |of: fn(&NodeRow) -> Option<f64>| nodes.iter().filter_map(of).reduce(f64::max);
        let cpu: Vec<f64> =
            nodes.iter().filter(|node| !node.killed).filter_map(|node| node.cpu_s_per_gb).collect();
        let t_bcast_s = times.last().copied().filter(|_| complete == living && living > 0);
        RaceRow {
            mode: mode.to_string(),
            nodes: self.broadcast.nodes,
            bytes: self.policies.bytes,
            t_bcast_s,
            t_bcast_90_s: times.get((living * 9).div_ceil(10).max(1) - 1).copied(),
            t_star_s,
            ratio: t_bcast_s.map(|t| t / t_star_s),
            source_bytes: passed(SOURCE).map(|c| c.sent).or(account.source_bytes),
            wire_bytes: wire,
            duplicate_share: account.duplicate_share,
            repairs: account.repairs,
            complete_nodes: complete,
            living_nodes: living,
            rotten_installed: differing,
            rss_mb_max: largest(|node| node.rss_mb),
            rss_above_idle_mb_max: largest(|node| node.rss_above_idle_mb),
            cpu_s_per_gb: (!cpu.is_empty()).then(|| cpu.iter().sum::<f64>() / cpu.len() as f64),
            source_cpu_s: used(samples, published, SOURCE).map(|(idle, last)| last.cpu_s - idle.cpu_s),
            caps: site.caps(),
            congestion: site.congestion(),
            stores: medium(self.dir()),
            busiest_second: self.broadcast.own_caps.then(|| self.busiest(samples, published)),
            tcp_copy: check,
            cut_off: account.cut_off.clone(),
            recovery: fates.fault_s.map(|at| self.recovery(at, &seen)),
            per_node: nodes,
        }
    }

    fn node(&self, host: usize, seen: &Measured<'_>) -> NodeRow {
        let Measured { ref fates, ref samples, published, .. } = *seen;
        let fate = fates.all().find(|(other, _)| *other == host).map(|(_, fate)| *fate).unwrap_or_default();
        let (used, passed) = (used(samples, published, host), passed(samples, published, host));
        let link = self.links.hosts[host];
        NodeRow {
            node: host,
            up: link.up,
            nat: link.nat,
            complete_s: fate.complete_s,
            killed: fate.killed,
            living: fate.down_since.is_none(),
            sent: passed.map(|c| c.sent),
            received: passed.map(|c| c.received),
            rss_mb: used.map(|(_, last)| last.rss_peak as f64 / MIB),
            rss_above_idle_mb: used.map(|(idle, last)| last.rss_peak.saturating_sub(idle.rss) as f64 / MIB),
            cpu_s_per_gb: used
                .map(|(idle, last)| (last.cpu_s - idle.cpu_s) * GB / self.policies.bytes as f64),
        }
    }

    fn busiest(&self, samples: &Samples, published: UnixMillis) -> Busiest {
        let hosts = || self.links.hosts.iter().enumerate().take(self.links.nodes().end() + 1);
        let largest = |cap: fn(&HostLink) -> Option<BytesPerSec>, passed| {
            let share = |(host, link): (usize, &HostLink)| {
                Some(samples.busiest_second(host, published, passed)? / cap(link)?.0 as f64)
            };
            hosts().filter_map(share).reduce(f64::max)
        };
        Busiest { up: largest(|link| link.up, |c| c.sent), down: largest(|link| link.down, |c| c.received) }
    }

    fn recovery(&self, fault_s: f64, seen: &Measured<'_>) -> Recovery {
        let course = |(host, fate): (usize, &super::node_states::Fate)| DownloadCourse {
            points: seen.samples.received(host, seen.published),
            complete_s: fate.complete_s,
        };
        let courses: Vec<DownloadCourse> = seen.fates.living().map(course).collect();
        // What every node could go on to receive if the rest of its time were spent with the
        // links that are left.
        let left = FluidBound { capacity_change: None, ..self.bound(&seen.fates, Some((0.0, seen.site))) };
        let capacity =
            self.bound(&seen.fates, Some((0.0, seen.site))).capacity_change.map(|(_, later)| later);
        let shared = capacity.unwrap_or(f64::MAX) / left.nodes.len().max(1) as f64;
        let downs = left.nodes.iter().map(|node| node.down.0 as f64);
        let sustainable = downs.fold(shared.min(left.source_up.0 as f64), f64::min);
        recovery(&courses, fault_s, sustainable)
    }
}

/// What has passed a host since publication.
fn passed(samples: &Samples, published: UnixMillis, host: usize) -> Option<Counters> {
    let (first, last) = (samples.at(published)?, samples.last()?);
    Some(last.counters[host]?.since(first.counters[host]?))
}

/// What a host's process used at publication, and when it was last seen.
fn used(samples: &Samples, published: UnixMillis, host: usize) -> Option<(ProcessUsage, ProcessUsage)> {
    let last = samples.all().iter().rev().find_map(|sample| sample.usage[host])?;
    let idle = samples.at(published)?.usage[host].unwrap_or_default();
    // A process that was started in between, or twice, counts from its own start.
    Some((if idle.cpu_s > last.cpu_s { ProcessUsage::default() } else { idle }, last))
}
