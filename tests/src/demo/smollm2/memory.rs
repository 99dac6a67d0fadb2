//! The most memory that each process of a network took.

use crate::harness::network::TestNetwork;
use crate::harness::process_usage;
use std::collections::BTreeMap;

/// Peaks of resident memory in bytes, by the names of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PeakMemory(BTreeMap<String, u64>);

impl PeakMemory {
    /// Takes in what the processes have taken so far.
    pub(super) fn look(&mut self, network: &TestNetwork) {
        for (name, pid) in network.pids() {
            if let Some(usage) = process_usage::of(pid) {
                self.take(name, usage.rss_peak);
            }
        }
    }

    // A process that was killed and came back counts with the larger of its peaks.
    fn take(&mut self, name: String, peak: u64) {
        let known = self.0.entry(name).or_default();
        *known = peak.max(*known);
    }

    /// In megabytes (10⁶ bytes). Empty where the system does not say.
    pub(super) fn megabytes(&self) -> BTreeMap<String, u64> {
        self.0.iter().map(|(name, bytes)| (name.clone(), bytes / 1_000_000)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_peak_of_a_name_stays() {
        let mut memory = PeakMemory::default();
        for peak in [3_000_000, 5_000_000, 4_000_000] {
            memory.take("learner".into(), peak);
        }
        memory.take("node-1".into(), 2_900_000);
        let expected = [("learner".to_owned(), 5), ("node-1".to_owned(), 2)];
        assert_eq!(memory.megabytes(), expected.into());
    }
}
