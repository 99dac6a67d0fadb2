//! How far log-probabilities lie apart that are to be the same (RLAX §5.1 and figure 5).

use super::claims;
use crate::training::objective::Known;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// |Δ log π| over the tokens of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// Mean over the tokens, in nats.
    pub mean: f64,
    /// 95th percentile: the smallest value that no more than a twentieth of the tokens exceed.
    pub p95: f64,
}

/// The gaps of an update. The policy's own log-probabilities are those of the forward pass that an
/// optimizer step is made from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogpGaps {
    /// To what nodes reported, as far as they are believed
    /// ([`CLAIMED_WITHIN`](super::CLAIMED_WITHIN)): how stale the tokens are, and by how much
    /// engine and trainer differ. None where nothing was scored.
    pub reported: Option<Gap>,
    /// The mean of the same by the precision that groups declare. Where one is off by more than
    /// another of the same staleness, the rest is its rounding.
    pub by_precision: BTreeMap<String, f64>,
    /// The mean of the same by version, over groups that one version alone generated, in f32. At the
    /// version that is trained nothing but kernels may differ.
    pub by_version: BTreeMap<u64, f64>,
    /// To what the trainer recomputed at the start of the update, where it did: how far the
    /// update's earlier steps have moved the policy.
    pub recomputed: Option<Gap>,
}

/// Differences token by token: at most one number a token of the batch and kind.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// By group of the batch.
    reported: BTreeMap<usize, Vec<f32>>,
    recomputed: Vec<f32>,
    /// Group of the batch → its tokens whose claims were moved.
    bounded: BTreeMap<usize, u64>,
}

impl Differences {
    /// Bounds what is claimed of one response by what the policy says of it: at the start of the
    /// step where that is known, and now (`logp`) where it is not.
    pub(super) fn bound(&mut self, known: &mut Known, logp: &[f64]) {
        let moved = claims::bound(&mut known.behaviour, known.proximal.as_deref().unwrap_or(logp));
        if moved > 0 {
            *self.bounded.entry(known.group).or_default() += moved;
        }
    }

    /// The tokens of one response.
    pub(super) fn add(&mut self, known: &Known, logp: &[f64]) {
        let apart = |others: &[f64], into: &mut Vec<f32>| {
            into.extend(others.iter().zip(logp).map(|(other, logp)| (other - logp).abs() as f32));
        };
        apart(&known.behaviour, self.reported.entry(known.group).or_default());
        if let Some(proximal) = &known.proximal {
            apart(proximal, &mut self.recomputed);
        }
    }

    /// The tokens of more responses.
    pub(super) fn append(&mut self, mut more: Self) {
        for (group, mut tokens) in more.reported {
            self.reported.entry(group).or_default().append(&mut tokens);
        }
        self.recomputed.append(&mut more.recomputed);
        more.bounded.into_iter().for_each(|(group, moved)| *self.bounded.entry(group).or_default() += moved);
    }

    /// Group of the batch → its tokens whose claims were moved.
    pub(super) fn bounded(&self) -> impl Iterator<Item = (usize, u64)> {
        self.bounded.iter().map(|(group, moved)| (*group, *moved))
    }

    /// What they come to; `precision` is what a group of the batch declares, and `version` the one
    /// whose weights, as they were published, all of its tokens are of.
    pub(super) fn gaps(
        mut self,
        precision: impl Fn(usize) -> String,
        version: impl Fn(usize) -> Option<u64>,
    ) -> LogpGaps {
        let by_precision = self.means(|group| Some(precision(group)));
        let by_version = self.means(version);
        let mut reported: Vec<f32> = self.reported.into_values().flatten().collect();
        let (reported, recomputed) = (gap(&mut reported), gap(&mut self.recomputed));
        LogpGaps { reported, by_precision, by_version, recomputed }
    }

    /// Mean over the tokens of all groups with one name; groups without a name are left out.
    fn means<K: Ord>(&self, name: impl Fn(usize) -> Option<K>) -> BTreeMap<K, f64> {
        let mut sums: BTreeMap<K, (f64, usize)> = BTreeMap::new();
        for (group, tokens) in &self.reported {
            let Some(name) = name(*group) else { continue };
            let (sum, count) = sums.entry(name).or_default();
            *sum += tokens.iter().map(|d| f64::from(*d)).sum::<f64>();
            *count += tokens.len();
        }
        let means = sums.into_iter().filter(|(_, (_, count))| *count > 0);
        means.map(|(name, (sum, count))| (name, sum / count as f64)).collect()
    }
}

fn gap(differences: &mut [f32]) -> Option<Gap> {
    if differences.is_empty() {
        return None;
    }
    let mean = differences.iter().map(|d| f64::from(*d)).sum::<f64>() / differences.len() as f64;
    let rank = (differences.len() * 19).div_ceil(20) - 1;
    let (_, p95, _) = differences.select_nth_unstable_by(rank, f32::total_cmp);
    Some(Gap { mean, p95: f64::from(*p95) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_is_by_rank() {
        let mut hundred: Vec<f32> = (1..=100).rev().map(|n| n as f32).collect();
        assert_eq!(gap(&mut hundred), Some(Gap { mean: 50.5, p95: 95.0 }));
        assert_eq!(gap(&mut [3.0]), Some(Gap { mean: 3.0, p95: 3.0 }));
        assert_eq!(gap(&mut []), None);
    }

    #[test]
    fn what_was_not_recomputed_has_no_gap() {
        let mut differences = Differences::default();
        let known = Known { behaviour: vec![-1.0, -2.0], ..Known::default() };
        differences.add(&known, &[-1.5, -2.0]);
        let reported = Some(Gap { mean: 0.25, p95: 0.5 });
        let by_precision = [("f32".to_owned(), 0.25)].into();
        let plain = |_| "f32".to_owned();
        let expected = LogpGaps { reported, by_precision, ..LogpGaps::default() };
        assert_eq!(differences.gaps(plain, |_| None), expected);
        assert_eq!(Differences::default().gaps(plain, |_| Some(4)), LogpGaps::default());
    }

    #[test]
    fn precisions_and_versions_are_told_apart() {
        let of = |group, off: &[f64]| {
            let mut differences = Differences::default();
            let behaviour = vec![-1.0; off.len()];
            let logp: Vec<f64> = off.iter().map(|off| off - 1.0).collect();
            differences.add(&Known { group, behaviour, ..Known::default() }, &logp);
            differences
        };
        let mut all = of(0, &[0.5, 0.25]);
        all.append(of(1, &[1.0]));
        all.append(of(2, &[0.0, 0.0]));
        all.append(of(1, &[2.0]));
        let versions = [Some(7), None, Some(8)];
        let gaps = all.gaps(|group| ["f32", "int8", "f32"][group].to_owned(), |group| versions[group]);
        assert_eq!(gaps.by_precision, [("f32".to_owned(), 0.1875), ("int8".to_owned(), 1.5)].into());
        assert_eq!(gaps.by_version, [(7, 0.375), (8, 0.0)].into());
        assert_eq!(gaps.reported.map(|gap| gap.mean), Some(0.625));
    }
}
