//! The moment that a chat template may print. This crate reads no clock: the caller says what time it is.

use minijinja::{Error, ErrorKind};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const SECONDS_PER_DAY: i64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01 in the proleptic Gregorian calendar.
const EPOCH_SHIFT_DAYS: i64 = 719_468;
/// Days in the 400 years after which the Gregorian calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;

/// A moment in UTC for the `strftime_now` function of chat templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatTime {
    year: i64,
    /// Month of the year, 1 to 12.
    month: u8,
    /// Day of the month, 1 to 31.
    day: u8,
    /// Seconds since midnight, below 86,400.
    second_of_day: u32,
    /// Day of the week; 0 is Monday.
    weekday: u8,
}

impl ChatTime {
    /// The moment `seconds` after 1970-01-01T00:00:00Z.
    pub fn from_unix_seconds(seconds: i64) -> Self {
        let days = seconds.div_euclid(SECONDS_PER_DAY);
        // Years counted from March put the leap day at the end, so that a month's first day
        // is a linear formula.
        let shifted = days.saturating_add(EPOCH_SHIFT_DAYS);
        let era = shifted.div_euclid(DAYS_PER_ERA);
        let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        Self {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month: month as u8,
            day: day as u8,
            second_of_day: seconds.rem_euclid(SECONDS_PER_DAY) as u32,
            // 1970-01-01 was a Thursday.
            weekday: (days + 3).rem_euclid(7) as u8,
        }
    }

    /// Prints the moment as C's `strftime` does in the C locale.
    pub(crate) fn format(&self, format: &str) -> Result<String, Error> {
        let month_name = MONTHS[usize::from(self.month) - 1];
        let weekday_name = WEEKDAYS[usize::from(self.weekday)];
        let (hour, minute, second) =
            (self.second_of_day / 3600, self.second_of_day / 60 % 60, self.second_of_day % 60);
        let hour12 = (hour + 11) % 12 + 1;
        let mut out = String::with_capacity(format.len() + 16);
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let directive = match chars.next() {
                // Glibc's `-` flag: no padding.
                Some('-') => match chars.next() {
                    Some('d') => self.day.to_string(),
                    Some('m') => self.month.to_string(),
                    Some('H') => hour.to_string(),
                    Some('I') => hour12.to_string(),
                    Some('M') => minute.to_string(),
                    Some('S') => second.to_string(),
                    other => return Err(unknown(other)),
                },
                Some('Y') => self.year.to_string(),
                Some('y') => format!("{:02}", self.year.rem_euclid(100)),
                Some('m') => format!("{:02}", self.month),
                Some('d') => format!("{:02}", self.day),
                Some('e') => format!("{:2}", self.day),
                Some('B') => month_name.into(),
                Some('b' | 'h') => month_name[..3].into(),
                Some('A') => weekday_name.into(),
                Some('a') => weekday_name[..3].into(),
                Some('u') => (self.weekday + 1).to_string(),
                Some('H') => format!("{hour:02}"),
                Some('I') => format!("{hour12:02}"),
                Some('M') => format!("{minute:02}"),
                Some('S') => format!("{second:02}"),
                Some('p') => if hour < 12 { "AM" } else { "PM" }.into(),
                Some('F') => format!("{}-{:02}-{:02}", self.year, self.month, self.day),
                Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
                Some('Z') => "UTC".into(),
                Some('z') => "+0000".into(),
                Some('%') => "%".into(),
                other => return Err(unknown(other)),
            };
            out.push_str(&directive);
        }
        Ok(out)
    }
}

fn unknown(directive: Option<char>) -> Error {
    let name = directive.map(String::from).unwrap_or_default();
    Error::new(ErrorKind::InvalidOperation, format!("strftime_now: directive `%{name}` is not supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        for (seconds, want) in [
            (0, "Thursday 01 Jan 1970 00:00:00 AM"),
            (951_782_400, "Tuesday 29 Feb 2000 00:00:00 AM"),
            (1_721_952_000 + 47_105, "Friday 26 Jul 2024 13:05:05 PM"),
            (-1, "Wednesday 31 Dec 1969 23:59:59 PM"),
        ] {
            assert_eq!(ChatTime::from_unix_seconds(seconds).format("%A %d %b %Y %T %p").unwrap(), want);
        }
        assert!(ChatTime::from_unix_seconds(0).format("%Q").is_err());
        // The extremes must not overflow.
        ChatTime::from_unix_seconds(i64::MAX).format("%F").unwrap();
        ChatTime::from_unix_seconds(i64::MIN).format("%F").unwrap();
    }
}
