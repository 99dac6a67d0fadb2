//! What the hosts of a race have sent, received and used, ten times a second.

use super::site::Site;
use super::usage::{self, Usage};
use crate::netns::Counters;
use echo_protocol::time::UnixMillis;

/// The time between two samples, in milliseconds.
pub(super) const EVERY_MS: u64 = 100;
/// Most samples kept: an hour of them.
const MAX_SAMPLES: usize = 36_000;

/// All hosts at one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// When.
    pub(super) at: UnixMillis,
    /// By host; `None` where hosts have no interface of their own.
    pub(super) counters: Vec<Option<Counters>>,
    /// By host; `None` while there is no process.
    pub(super) usage: Vec<Option<Usage>>,
}

/// The samples of a race, in order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(Vec<Sample>);

impl Samples {
    /// Takes a sample of hosts 0 to `pids.len()`, if one is due.
    ///
    /// # Errors
    /// When a host's counters cannot be read.
    pub(super) fn look(&mut self, now: UnixMillis, site: &Site, pids: &[Option<u32>]) -> anyhow::Result<()> {
        let due = self.0.last().is_none_or(|last| now.since(last.at) >= EVERY_MS);
        if due && self.0.len() < MAX_SAMPLES {
            self.take(now, site, pids)?;
        }
        Ok(())
    }

    /// Takes a sample.
    ///
    /// # Errors
    /// When a host's counters cannot be read.
    pub(super) fn take(&mut self, now: UnixMillis, site: &Site, pids: &[Option<u32>]) -> anyhow::Result<()> {
        let counters = (0..pids.len()).map(|host| site.counters(host)).collect::<Result<Vec<_>, _>>()?;
        let usage = pids.iter().map(|pid| pid.and_then(usage::of)).collect();
        self.0.push(Sample { at: now, counters, usage });
        Ok(())
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Sample] {
        &self.0
    }

    /// The newest.
    pub(super) fn last(&self) -> Option<&Sample> {
        self.0.last()
    }

    /// The last one not after `time`, or the first.
    pub(super) fn at(&self, time: UnixMillis) -> Option<&Sample> {
        let after = self.0.partition_point(|sample| sample.at <= time);
        self.0.get(after.saturating_sub(1))
    }

    /// What a host has received, in bytes, with the time in seconds after `origin`.
    pub(super) fn received(&self, host: usize, origin: UnixMillis) -> Vec<(f64, u64)> {
        let point = |sample: &Sample| {
            let at = (sample.at.0 as f64 - origin.0 as f64) / 1000.0;
            sample.counters[host].map(|counters| (at, counters.received))
        };
        self.0.iter().filter_map(point).collect()
    }
}
