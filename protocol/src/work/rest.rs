//! That a node is not needed now. It travels as the words of a refusal, so that older nodes show it to their
//! owners as it is; newer ones read from it when to ask again.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::Duration;

/// What the words begin with.
const BEGINNING: &str = "not needed now: ";
/// The longest rest that a node believes, in minutes: a day.
const LONGEST_MIN: u32 = 24 * 60;

/// Why a node gets no work although nothing is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestNotice {
    /// Nodes that work.
    pub working: u32,
    /// Nodes that are there.
    pub present: u32,
    /// When to ask again, in minutes, at least 1.
    pub again_min: u32,
}

/// The words are no notice of rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no notice of rest")]
pub struct NoRestNotice;

impl RestNotice {
    /// How long the node does not ask.
    #[must_use]
    pub fn pause(&self) -> Duration {
        Duration::from_secs(60 * u64::from(self.again_min.clamp(1, LONGEST_MIN)))
    }
}

impl Display for RestNotice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { working, present, again_min } = self;
        let minutes = if *again_min == 1 { "minute" } else { "minutes" };
        write!(f, "{BEGINNING}{working} of {present} work; ask again in {again_min} {minutes}")
    }
}

impl FromStr for RestNotice {
    type Err = NoRestNotice;

    fn from_str(text: &str) -> Result<Self, NoRestNotice> {
        let read = || {
            let (working, rest) = text.strip_prefix(BEGINNING)?.split_once(" of ")?;
            let (present, rest) = rest.split_once(" work; ask again in ")?;
            let (minutes, _) = rest.split_once(" minute")?;
            let number = |text: &str| text.parse().ok();
            Some(Self { working: number(working)?, present: number(present)?, again_min: number(minutes)? })
        };
        read().ok_or(NoRestNotice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_rest_are_read_back() {
        for again_min in [1, 10] {
            let notice = RestNotice { working: 12, present: 40, again_min };
            assert_eq!(notice.to_string().parse(), Ok(notice));
        }
        let notice = RestNotice { working: 12, present: 40, again_min: 10 };
        assert_eq!(notice.to_string(), "not needed now: 12 of 40 work; ask again in 10 minutes");
        assert_eq!(notice.pause(), Duration::from_secs(600));
    }

    #[test]
    fn other_words_are_none_and_no_rest_is_longer_than_a_day() {
        for words in ["", "not needed now", "not needed now: 1 of x work; ask again in 1 minute", "banned"] {
            assert_eq!(words.parse::<RestNotice>(), Err(NoRestNotice), "{words}");
        }
        let forever = RestNotice { working: 0, present: 0, again_min: u32::MAX };
        assert_eq!(forever.pause(), Duration::from_secs(24 * 3_600));
        assert_eq!(RestNotice { again_min: 0, ..forever }.pause(), Duration::from_secs(60));
    }
}
