//! What the hosts of a race have sent, received and used, ten times a second or more.

use super::site::Site;
use crate::harness::netns::Counters;
use crate::harness::process_usage;
use crate::harness::process_usage::ProcessUsage;
use echo_protocol::program::clock;
use echo_protocol::wire::time::UnixMillis;

/// The time between two samples, in milliseconds.
pub(super) const EVERY_MS: u64 = 100;
/// The same where single seconds are looked at.
const DENSE_MS: u64 = 20;
/// Most samples kept: an hour of them, or 12 minutes of dense ones.
const MAX_SAMPLES: usize = 36_000;

/// All hosts at one moment.
#[derive(Clone, Debug)]
pub(super) struct HostSample {
    /// When it was taken, by the one clock of the race.
    pub(super) at: UnixMillis,
    /// By host; `None` where hosts have no interface of their own.
    pub(super) counters: Vec<Option<Counters>>,
    /// By host; `None` while there is no process.
    pub(super) usage: Vec<Option<ProcessUsage>>,
}

/// The samples of a race, in order of time.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    all: Vec<HostSample>,
    every_ms: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self { all: Vec::new(), every_ms: EVERY_MS }
    }
}

impl Samples {
    /// With which single seconds can be looked at.
    pub(super) fn dense() -> Self {
        Self { every_ms: DENSE_MS, ..Self::default() }
    }

    /// Takes a sample of hosts 0 to `pids.len()`, if one is due.
    /// Fails when a host's counters cannot be read.
    pub(super) fn look(&mut self, site: &Site, pids: &[Option<u32>]) -> anyhow::Result<()> {
        let due = self.all.last().is_none_or(|last| clock::now().since(last.at) >= self.every_ms);
        if due && self.all.len() < MAX_SAMPLES {
            self.take(site, pids)?;
        }
        Ok(())
    }

    /// Takes a sample now, whether or not one is due.
    /// Fails when a host's counters cannot be read.
    pub(super) fn take(&mut self, site: &Site, pids: &[Option<u32>]) -> anyhow::Result<()> {
        let at = clock::now();
        let counters = (0..pids.len()).map(|host| site.counters(host)).collect::<Result<Vec<_>, _>>()?;
        let usage = pids.iter().map(|pid| pid.and_then(process_usage::of)).collect();
        self.all.push(HostSample { at, counters, usage });
        Ok(())
    }

    /// All samples so far, oldest first.
    pub(super) fn all(&self) -> &[HostSample] {
        &self.all
    }

    /// The newest sample; `None` before the first.
    pub(super) fn last(&self) -> Option<&HostSample> {
        self.all.last()
    }

    /// The last one not after `time`, or the first.
    pub(super) fn at(&self, time: UnixMillis) -> Option<&HostSample> {
        let after = self.all.partition_point(|sample| sample.at <= time);
        self.all.get(after.saturating_sub(1))
    }

    /// What passed in the busiest second since `origin`, in bytes a second, by what counts as passing.
    pub(super) fn busiest_second(
        &self,
        host: usize,
        origin: UnixMillis,
        passed: fn(Counters) -> u64,
    ) -> Option<f64> {
        let point = |sample: &HostSample| Some((sample.at.0, passed(sample.counters[host]?)));
        let points: Vec<_> = self.all.iter().filter(|sample| sample.at >= origin).filter_map(point).collect();
        let rate = |(until, last): &(u64, u64)| {
            // The shortest stretch of a second or more that ends here.
            let before = points.partition_point(|(at, _)| at + 1000 <= *until);
            let (from, first) = points.get(before.checked_sub(1)?)?;
            Some(last.saturating_sub(*first) as f64 * 1000.0 / (until - from) as f64)
        };
        points.iter().filter_map(rate).reduce(f64::max)
    }

    /// What a host has received, in bytes, with the time in seconds after `origin`.
    pub(super) fn received(&self, host: usize, origin: UnixMillis) -> Vec<(f64, u64)> {
        let point = |sample: &HostSample| {
            let at = (sample.at.0 as f64 - origin.0 as f64) / 1000.0;
            sample.counters[host].map(|counters| (at, counters.received))
        };
        self.all.iter().filter_map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, received: u64) -> HostSample {
        HostSample {
            at: UnixMillis(at),
            counters: vec![Some(Counters { sent: 0, received })],
            usage: Vec::new(),
        }
    }

    #[test]
    fn the_busiest_second_begins_anywhere() {
        // 100 bytes every 100 ms, and 500 more at 2.55 s; before the origin more than ever after.
        let received = |at: u64| 10_000 * u64::from(at >= 500) + at + 500 * u64::from(at >= 2550);
        let all = (0..=50).map(|n| sample(n * 100, received(n * 100))).collect();
        let samples = Samples { all, every_ms: EVERY_MS };
        let busiest = |origin| samples.busiest_second(0, UnixMillis(origin), |counters| counters.received);
        assert_eq!(busiest(600), Some(1500.0));
        assert_eq!(busiest(0), Some(11_000.0));
        assert_eq!(busiest(4500), None, "no second is left");
    }
}
