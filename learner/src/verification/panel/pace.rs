//! How fast updates follow each other, and how long a group may wait for its own.

use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::time::UnixMillis;

/// The newest version, since when, and how long the one before it lasted.
#[derive(Debug, Default)]
pub(super) struct VersionPace {
    newest: Option<(PolicyVersion, UnixMillis)>,
    update_ms: Option<u64>,
}

impl VersionPace {
    /// The policy is at `version` from now on.
    pub(super) fn at(&mut self, now: UnixMillis, version: PolicyVersion) {
        match self.newest {
            Some((before, _)) if version <= before => return,
            Some((before, since)) => self.update_ms = Some(now.since(since) / version.lag_behind(before)),
            None => {}
        }
        self.newest = Some((version, now));
    }

    /// How long a group may wait for others that may be trained on until the policy is beyond
    /// `last`: three quarters of the time that is left. `None` where no update was seen yet.
    pub(super) fn patience_ms(&self, now: UnixMillis, last: PolicyVersion) -> Option<u64> {
        let ((newest, since), update_ms) = (self.newest?, self.update_ms?);
        let updates = if last < newest { 0 } else { last.lag_behind(newest).saturating_add(1) };
        let left = since.plus(update_ms.saturating_mul(updates)).since(now);
        Some(left - left.div_ceil(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_of_the_time_until_it_is_too_old_by_the_pace_of_the_last_update() {
        let (at, v) = (UnixMillis, PolicyVersion);
        let mut pace = VersionPace::default();
        assert_eq!(pace.patience_ms(at(0), v(4)), None);
        pace.at(at(1_000), v(4));
        assert_eq!(pace.patience_ms(at(1_000), v(4)), None, "no update was seen");
        // Two updates in two seconds; what is told again says nothing.
        pace.at(at(3_000), v(6));
        pace.at(at(3_500), v(6));
        // From 3,000 on: version 6 lasts until 4,000, and version 8 until 6,000.
        assert_eq!(pace.patience_ms(at(3_000), v(6)), Some(750));
        assert_eq!(pace.patience_ms(at(3_600), v(6)), Some(300));
        assert_eq!(pace.patience_ms(at(4_000), v(8)), Some(1_500));
        assert_eq!(pace.patience_ms(at(4_000), v(6)), Some(0));
        assert_eq!(pace.patience_ms(at(3_000), v(5)), Some(0));
        assert_eq!(pace.patience_ms(at(3_000), v(u64::MAX)).map(|ms| ms > 1 << 60), Some(true));
    }
}
