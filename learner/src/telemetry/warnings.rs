//! What is wrong with a run that goes on all the same, and its mend. Sans-IO.
//!
//! Each fault is reported once. It is reported again when it has been gone for [`CALM`] updates and is back.

use crate::telemetry::metrics::UpdateRow;
use std::collections::BTreeMap;

/// Updates in a row without a fault, after which it counts as gone: figures of one batch jump.
const CALM: u32 = 5;
/// Share of cut responses from which there is hardly one that could be right.
const CUT: f64 = 0.95;
/// Updates in a row without a signal that are worth a warning. A single batch may be unlucky.
const BARREN: u32 = 5;
/// Share of responses without an answer from which it is the form that is not known, and not the answer.
const NOT_UNDERSTOOD: f64 = 0.8;
/// Entropy in nats a token below which responses to a prompt are the same: the likeliest of two tokens
/// has a probability of 0.999 there.
const COLLAPSED: f64 = 0.01;
/// Mean reward from which a policy that is sure of itself has learned what there was.
const LEARNED: f64 = 0.95;
/// Mean gap in nats that kernels do not explain. Those of f32 differ by less than a thousandth. A gap
/// of 0.02 changes an importance weight of one token by 2 %, and that of 50 tokens by a factor of e.
const GAP: f64 = 0.02;
/// Updates in a row in which the gap has to be that large.
const GAP_UPDATES: u32 = 3;
/// Updates from which a lag's first gap is taken: the mean of as many is steadier than one.
const FIRST_GAPS: u32 = 5;
/// Growth of the gap at one lag, for the same learning rate, beyond what changes of the policy's entropy
/// do to it. Where weights were rounded away from the trained ones, it grew a hundred thousand times.
const GROWTH: f64 = 8.0;
/// What to do where a published policy is not the trained one.
const FINER: &str = "Found a run with [snapshot] dtype = \"f16\", whose steps are an eighth of those of bf16, or \"f32\", or \
                     one with a larger learning rate ([train.schedule] peak), whose steps are larger than the rounding";
/// Lags that are followed. A lag is at most `[staleness] budget`; larger ones are not followed.
const MAX_LAGS: usize = 64;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Cut,
    NoSignal,
    NotUnderstood,
    Collapsed,
    ZeroGradient,
    GapAtOnce,
    GapGrows,
}

/// Whether a fault was reported, and for how many updates it has been gone.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    reported: bool,
    calm: u32,
}

impl Reported {
    /// Whether it has to be reported now.
    fn is_due(&mut self, holds: bool) -> bool {
        self.calm = if holds { 0 } else { self.calm.saturating_add(1) };
        if self.calm >= CALM {
            self.reported = false;
        }
        holds && !std::mem::replace(&mut self.reported, true)
    }
}

/// The gap at one lag.
#[derive(Clone, Copy, Debug, Default)]
struct LagGap {
    /// Sum of the first gaps, each by its learning rate, and how many they are.
    first: (f64, u32),
    /// Updates in a row in which it had grown.
    grown: u32,
}

/// What was seen of the updates so far.
#[derive(Debug)]
pub struct Warnings {
    max_new_tokens: u32,
    reported: BTreeMap<Fault, Reported>,
    barren: u32,
    gap_at_once: u32,
    lags: BTreeMap<u64, LagGap>,
    /// The largest learning rate so far.
    rate: f64,
}

impl Warnings {
    /// Nothing was seen. Responses are cut at `max_new_tokens`.
    #[must_use]
    pub fn new(max_new_tokens: u32) -> Self {
        let (reported, lags) = (BTreeMap::new(), BTreeMap::new());
        Self { max_new_tokens, reported, barren: 0, gap_at_once: 0, lags, rate: 0.0 }
    }

    /// Looks at an update, and returns what has to be reported. `barren` says that all rewards that are
    /// compared with each other were the same.
    pub fn look(&mut self, row: &UpdateRow, barren: bool) -> Vec<String> {
        if row.response_tokens == 0.0 {
            // Damage took the batch: there is nothing to say of the policy.
            return Vec::new();
        }
        self.barren = if barren { self.barren.saturating_add(1) } else { 0 };
        let found = [
            (Fault::Cut, self.cut(row)),
            (Fault::NoSignal, self.no_signal(row)),
            (Fault::NotUnderstood, not_understood(row)),
            (Fault::Collapsed, collapsed(row)),
            (Fault::ZeroGradient, zero_gradient(row, barren)),
            (Fault::GapAtOnce, self.gap_at_once(row)),
            (Fault::GapGrows, self.gap_grows(row)),
        ];
        let due = found.into_iter().filter_map(|(fault, text)| {
            self.reported.entry(fault).or_default().is_due(text.is_some()).then_some(text).flatten()
        });
        due.map(|text| format!("update {}: {text}", row.update)).collect()
    }

    fn cut(&self, row: &UpdateRow) -> Option<String> {
        (row.cut_off >= CUT).then(|| {
            format!(
                "{:.0} % of the responses were cut at {} tokens, before they came to an answer (mean reward {:.3}). Found a \
                 run with a larger [sampling] max_new_tokens, or ask for shorter answers",
                row.cut_off * 100.0,
                self.max_new_tokens,
                row.reward
            )
        })
    }

    fn no_signal(&self, row: &UpdateRow) -> Option<String> {
        (self.barren >= BARREN).then(|| {
            format!(
                "in the last {} updates all rewards that are compared were the same (here {:.3}), so nothing was learned from \
                 them. `echo-learner samples` shows what the policy writes. If it answers nearly nothing right, lengthen [warmup], \
                 take an easier task or a better model; if nearly everything, take a harder task",
                self.barren, row.reward
            )
        })
    }

    fn gap_at_once(&mut self, row: &UpdateRow) -> Option<String> {
        // Where an update has several steps, all but the first are made by another policy than it began with.
        let gap = row.logp_gap_by_lag.get(&0).copied().filter(|gap| row.steps == 1 && *gap >= GAP);
        self.gap_at_once = gap.map_or(0, |_| self.gap_at_once.saturating_add(1));
        let gap = gap.filter(|_| self.gap_at_once >= GAP_UPDATES)?;
        Some(format!(
            "at lag 0, log-probabilities of nodes are {gap:.3} nats from the learner's (more than {GAP}): the published policy is \
             not the one that is trained. {FINER}; with [train] compute = \"bf16\", try \"f32\""
        ))
    }

    fn gap_grows(&mut self, row: &UpdateRow) -> Option<String> {
        self.rate = self.rate.max(row.learning_rate);
        if row.steps != 1 || self.rate <= 0.0 {
            return None;
        }
        let mut grown = None;
        for (lag, gap) in row.logp_gap_by_lag.iter().filter(|(lag, _)| **lag > 0) {
            if self.lags.len() >= MAX_LAGS && !self.lags.contains_key(lag) {
                continue;
            }
            let seen = self.lags.entry(*lag).or_default();
            // A policy moves in proportion to its learning rate.
            let by_rate = gap / self.rate;
            if seen.first.1 < FIRST_GAPS {
                seen.first = (seen.first.0 + by_rate, seen.first.1 + 1);
                continue;
            }
            let first = seen.first.0 / f64::from(FIRST_GAPS);
            let has_grown = *gap >= GAP && by_rate >= GROWTH * first;
            seen.grown = if has_grown { seen.grown.saturating_add(1) } else { 0 };
            if seen.grown >= GAP_UPDATES {
                grown = Some((*lag, *gap, by_rate / first));
            }
        }
        let (lag, gap, times) = grown?;
        Some(format!(
            "at a lag of {lag}, log-probabilities of nodes are {gap:.3} nats from the learner's, for the same learning rate {times:.0} times as \
             much as at first: the published policy drifts away from the one that is trained. {FINER}"
        ))
    }
}

fn not_understood(row: &UpdateRow) -> Option<String> {
    (row.not_understood >= NOT_UNDERSTOOD).then(|| {
        format!(
            "in {:.0} % of the responses the task found no answer. `echo-learner samples` shows them. Ask for the form of an \
             answer in the prompt, lengthen [warmup], or take a model that follows instructions",
            row.not_understood * 100.0
        )
    })
}

fn collapsed(row: &UpdateRow) -> Option<String> {
    let entropy = row.entropy.filter(|entropy| *entropy < COLLAPSED && row.reward < LEARNED)?;
    Some(format!(
        "the policy's entropy has collapsed to {entropy:.4} nats a token (below {COLLAPSED}): it gives one response to a prompt, \
         and finds no better one. Go on from an earlier checkpoint with a lower [train.schedule] peak or with an entropy_bonus in \
         [train] objective, or found a run with a higher [sampling] temperature"
    ))
}

fn zero_gradient(row: &UpdateRow, barren: bool) -> Option<String> {
    (row.grad_norm == Some(0.0) && !row.skipped && !barren).then(|| {
        let clipped = row.clip_share.unwrap_or(0.0) * 100.0;
        format!(
            "the gradient is zero, though rewards differ: no weight moves. The clip cut {clipped:.0} % of the batch; look at \
             [train] objective and precision_weight"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An update with nothing wrong.
    fn good(update: u64) -> UpdateRow {
        UpdateRow {
            update,
            reward: 0.4,
            response_tokens: 20.0,
            entropy: Some(0.5),
            grad_norm: Some(0.3),
            learning_rate: 1e-5,
            steps: 1,
            logp_gap_by_lag: [(0, 1e-5), (1, 1e-3)].into(),
            ..UpdateRow::default()
        }
    }

    /// What is reported of updates that `change` is made to.
    fn reported(updates: u64, change: impl Fn(u64, &mut UpdateRow)) -> Vec<String> {
        let mut warnings = Warnings::new(32);
        (1..=updates)
            .flat_map(|update| {
                let mut row = good(update);
                change(update, &mut row);
                let barren = row.degenerate_groups == 1.0;
                warnings.look(&row, barren)
            })
            .collect()
    }

    #[test]
    fn a_run_that_learns_is_warned_of_nothing() {
        assert_eq!(reported(100, |_, _| ()), [""; 0]);
    }

    #[test]
    fn a_fault_is_reported_once_and_again_when_it_is_back() {
        let texts = reported(40, |update, row| {
            let single = update == 3;
            row.cut_off = if (10..20).contains(&update) || update >= 30 { 0.97 } else { 0.5 };
            // One better batch is no end of it.
            row.cut_off = if update == 12 || single { 0.94 } else { row.cut_off };
        });
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].starts_with("update 10: 97 % ") && texts[1].starts_with("update 30: "), "{texts:?}");
        assert!(texts[0].contains("at 32 tokens") && texts[0].contains("max_new_tokens"), "{texts:?}");
    }

    #[test]
    fn five_updates_without_a_signal_are_reported_and_four_are_not() {
        let four = reported(20, |update, row| {
            row.degenerate_groups = f64::from(u8::from(!update.is_multiple_of(5)))
        });
        assert_eq!(four, [""; 0]);
        let texts = reported(20, |_, row| {
            (row.degenerate_groups, row.grad_norm) = (1.0, Some(0.0));
        });
        assert!(texts.len() == 1 && texts[0].starts_with("update 5: in the last 5 updates"), "{texts:?}");
    }

    #[test]
    fn answers_that_are_not_understood_and_an_entropy_that_collapsed_are_reported() {
        let texts = reported(4, |update, row| row.not_understood = if update == 2 { 0.85 } else { 0.7 });
        assert!(texts.len() == 1 && texts[0].starts_with("update 2: in 85 %"), "{texts:?}");
        let texts = reported(4, |_, row| row.entropy = Some(0.004));
        assert!(texts.len() == 1 && texts[0].contains("0.0040 nats"), "{texts:?}");
        let learned = reported(4, |_, row| (row.entropy, row.reward) = (Some(0.004), 0.97));
        assert_eq!(learned, [""; 0]);
    }

    #[test]
    fn a_gradient_of_zero_is_reported_where_rewards_differ_and_a_step_was_made() {
        let texts = reported(3, |_, row| row.grad_norm = Some(0.0));
        assert!(texts.len() == 1 && texts[0].contains("gradient is zero"), "{texts:?}");
        assert_eq!(reported(3, |_, row| (row.grad_norm, row.skipped) = (Some(0.0), true)), [""; 0]);
    }

    #[test]
    fn a_published_policy_that_is_not_the_trained_one_is_reported() {
        let large = |from: u64, to: u64| {
            reported(10, move |update, row| {
                let gap = if (from..to).contains(&update) { 0.03 } else { 1e-4 };
                row.logp_gap_by_lag = [(0, gap)].into();
            })
        };
        assert_eq!(large(4, 6), [""; 0], "two updates may be chance");
        let texts = large(4, 8);
        assert!(texts.len() == 1 && texts[0].starts_with("update 6: at lag 0"), "{texts:?}");
        for part in ["[snapshot] dtype = \"f16\"", "or \"f32\"", "larger learning rate"] {
            assert!(texts[0].contains(part), "{part}: {texts:?}");
        }
        let several = reported(10, |_, row| {
            (row.steps, row.logp_gap_by_lag) = (4, [(0, 0.5), (2, 0.5)].into());
        });
        assert_eq!(several, [""; 0], "an update of several steps leaves its first policy");
    }

    #[test]
    fn a_gap_that_grows_at_constant_lag_is_reported() {
        // As it was at bf16 while the forward pass used f32: 3e-6 to 0.4 in 58 updates.
        let grows = |update: u64, row: &mut UpdateRow| {
            row.logp_gap_by_lag = [(1, 3e-6 * (0.4_f64 / 3e-6).powf(update as f64 / 58.0))].into();
        };
        let texts = reported(58, grows);
        assert!(texts.len() == 1 && texts[0].contains("at a lag of 1"), "{texts:?}");
        assert!(texts[0].contains("[snapshot] dtype = \"f16\""), "{texts:?}");
        // A warm-up of the learning rate moves the policy more and more.
        let warms = reported(58, |update, row| {
            row.learning_rate = 1e-4 * (update.min(40) as f64 / 40.0);
            row.logp_gap_by_lag = [(1, 2e3 * row.learning_rate)].into();
        });
        assert_eq!(warms, [""; 0]);
    }

    #[test]
    fn no_more_lags_are_followed_than_there_is_room_for() {
        let mut warnings = Warnings::new(32);
        let row = UpdateRow { logp_gap_by_lag: (1..1000).map(|lag| (lag, 0.1)).collect(), ..good(1) };
        assert!(warnings.look(&row, false).is_empty());
        assert_eq!(warnings.lags.len(), MAX_LAGS);
    }
}
