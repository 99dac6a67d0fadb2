//! Why somebody is not heard.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::submission::RefuseReason;

/// The last moment that can be written as a date: the end of the year 9999, in milliseconds.
const END_OF_TIME_MS: u64 = 253_402_300_799_000;

/// Why somebody is not heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// [`RefuseReason::Suspended`] or [`RefuseReason::Banned`]: what the node is answered.
    pub reason: RefuseReason,
    /// Until when; `None` until the operator pardons.
    pub until: Option<UnixMillis>,
    /// The reason in words, for the node's owner.
    pub cause: String,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.until {
            Some(until) => write!(f, "{} until {}: {}", self.reason, date(until), self.cause),
            None => write!(f, "{}: {}", self.reason, self.cause),
        }
    }
}

/// A moment as people write it, in UTC.
pub fn date(at: UnixMillis) -> impl fmt::Display {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(at.0.min(END_OF_TIME_MS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_until_when_and_why() {
        let until = Some(UnixMillis(1_767_225_600_000));
        let silence = Silence { reason: RefuseReason::Suspended, until, cause: "lies".into() };
        assert_eq!(silence.to_string(), "suspended until 2026-01-01T00:00:00Z: lies");
        let silence = Silence { reason: RefuseReason::Banned, until: None, ..silence };
        assert_eq!(silence.to_string(), "banned: lies");
        assert_eq!(date(UnixMillis(u64::MAX)).to_string(), "9999-12-31T23:59:59Z");
    }
}
