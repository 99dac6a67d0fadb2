//! `[record]`

use crate::common::option_error::{OptionError, above_zero, refused, setting};
use crate::reputation::RecordConfig;
use serde::{Deserialize, Serialize};

const HOUR_MS: u64 = 3_600_000;

/// `[record]`: how strict the learner is with peers that lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordSection {
    /// Hours in which a lie comes to count half.
    pub half_life_h: u64,
    /// Lies that suspend a key; 0: lies are only counted.
    pub suspend_after: u32,
    /// Seconds of the first suspension; each further one is twice as long as the one before.
    pub suspension_s: u64,
    /// Suspensions of which the last is a ban; 0: only the operator bans.
    pub ban_after: u32,
    /// Smallest share of a peer's groups that is looked at again.
    pub recheck_floor: f64,
}

impl Default for RecordSection {
    fn default() -> Self {
        let RecordConfig { half_life_ms, suspend_after, suspension_ms, ban_after, recheck_floor } =
            RecordConfig::default();
        let (half_life_h, suspension_s) = (half_life_ms / HOUR_MS, suspension_ms / 1_000);
        Self { half_life_h, suspend_after, suspension_s, ban_after, recheck_floor }
    }
}

impl RecordSection {
    /// Times of 0, and a floor that is not above 0 and at most 1.
    pub(crate) fn problems(&self) -> Vec<OptionError> {
        let floor = self.recheck_floor;
        let rule = "it has to be above 0 and at most 1: whoever is never looked at again may lie";
        refused([
            above_zero("record.half_life_h", self.half_life_h),
            above_zero("record.suspension_s", self.suspension_s),
            setting("record.recheck_floor", floor, floor > 0.0 && floor <= 1.0, rule),
        ])
    }

    /// The same for the record.
    pub fn config(&self) -> RecordConfig {
        RecordConfig {
            half_life_ms: self.half_life_h.saturating_mul(HOUR_MS),
            suspend_after: self.suspend_after,
            suspension_ms: self.suspension_s.saturating_mul(1_000),
            ban_after: self.ban_after,
            recheck_floor: self.recheck_floor,
        }
    }
}
