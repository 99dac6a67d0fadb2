//! When a list expires, for people.

use std::time::{Duration, UNIX_EPOCH};

/// The last second of the year 9999, after which dates are no longer written with four digits.
pub(super) const LAST_SECOND: u64 = 253_402_300_799;

/// `2030-01-31T12:00:00Z` for seconds since the Unix epoch.
pub(super) fn date(seconds: u64) -> String {
    if seconds > LAST_SECOND {
        return format!("{seconds} s since 1970, after the year 9999");
    }
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

/// `29 days 3h`: the two largest units of a duration, exact enough for a person.
pub(super) fn rough(seconds: u64) -> String {
    let text = humantime::format_duration(Duration::from_secs(seconds)).to_string();
    text.split(' ').take(2).map(spaced).collect::<Vec<_>>().join(" ")
}

/// A number and its unit, with a space before a unit that is a word.
fn spaced(part: &str) -> String {
    let unit = part.find(|c: char| c.is_alphabetic()).unwrap_or(part.len());
    match part.split_at(unit) {
        (number, unit) if unit.len() > 1 => format!("{number} {unit}"),
        _ => part.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_durations_of_any_size_can_be_written() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(LAST_SECOND), "9999-12-31T23:59:59Z");
        assert!(date(u64::MAX).contains("after the year 9999"));
        assert_eq!(rough(2 * 86_400 + 3 * 3600 + 5), "2 days 3h");
        assert_eq!(rough(0), "0s");
        assert!(!rough(u64::MAX).is_empty());
    }
}
