//! When a node works, and how much disk it may take.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Minutes of a day.
const DAY: u16 = 24 * 60;

/// Hours of the day in local time, such as `22:00-07:00`. The end does not belong to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hours {
    /// Minutes after midnight.
    from: u16,
    /// The same; 24:00 is the end of the day.
    to: u16,
}

/// A text that names no hours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no span of hours: write the first and the last in local time, as in 22:00-07:00")]
pub struct NoHours(String);

impl Hours {
    /// Whether they contain this minute of the day, counted from midnight.
    pub fn contain(self, minute: u16) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }
}

/// Minutes after midnight of a time such as `7:30`.
fn clock(text: &str) -> Option<u16> {
    let (hour, minute) = text.trim().split_once(':')?;
    let (hour, minute) = (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?);
    hour.checked_mul(60)?.checked_add(minute).filter(|at| minute < 60 && *at <= DAY)
}

impl FromStr for Hours {
    type Err = NoHours;

    fn from_str(text: &str) -> Result<Self, NoHours> {
        let span = text.split_once('-').and_then(|(from, to)| Some((clock(from)?, clock(to)?)));
        match span {
            Some((from, to)) if from != to && from < DAY => Ok(Self { from, to }),
            _ => Err(NoHours(text.chars().take(40).collect())),
        }
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

impl TryFrom<String> for Hours {
    type Error = NoHours;

    fn try_from(text: String) -> Result<Self, NoHours> {
        text.parse()
    }
}

impl From<Hours> for String {
    fn from(hours: Hours) -> Self {
        hours.to_string()
    }
}

/// Bytes as people write them: `20GB`, `512MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(pub u64);

/// A text that is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no size: write a whole number with kB, MB, GB, TB, KiB, MiB, GiB or TiB, as in 20GB")]
pub struct NoSize(String);

const UNITS: [(&str, u64); 8] = [
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

impl FromStr for Size {
    type Err = NoSize;

    fn from_str(text: &str) -> Result<Self, NoSize> {
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let scale = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()));
        let bytes =
            number.parse::<u64>().ok().zip(scale).and_then(|(number, (_, scale))| number.checked_mul(*scale));
        let fail = || NoSize(text.chars().take(40).collect());
        bytes.filter(|bytes| *bytes > 0).map(Self).ok_or_else(fail)
    }
}

impl fmt::Display for Size {
    /// In the largest unit that shows it exactly, or with one digit behind the point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = UNITS.iter().filter(|(_, scale)| self.0 > 0 && self.0.is_multiple_of(*scale));
        match exact.max_by_key(|(_, scale)| *scale) {
            Some((unit, scale)) => write!(f, "{}{unit}", self.0 / scale),
            None => write!(f, "{:.1} GB", self.0 as f64 / 1e9),
        }
    }
}

impl TryFrom<String> for Size {
    type Error = NoSize;

    fn try_from(text: String) -> Result<Self, NoSize> {
        text.parse()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.to_string()
    }
}

/// What a node does while a portable computer runs on its battery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum OnBattery {
    /// Takes no work until there is mains power again
    #[default]
    Pause,
    /// Works as always
    Work,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_may_pass_midnight_and_are_written_as_they_are_read() {
        let night: Hours = "22:00-7:30".parse().unwrap();
        assert_eq!(night.to_string(), "22:00-07:30");
        let at = |hour: u16, minute: u16| night.contain(hour * 60 + minute);
        assert!(at(22, 0) && at(23, 59) && at(0, 0) && at(7, 29));
        assert!(!at(7, 30) && !at(21, 59) && !at(12, 0));
        let evening: Hours = " 18:00 - 24:00 ".parse().unwrap();
        assert!(evening.contain(1439) && !evening.contain(0));
        assert_eq!(evening.to_string().parse::<Hours>().unwrap(), evening);
        for wrong in
            ["", "22-7", "22:00", "22:00-22:00", "25:00-07:00", "22:60-07:00", "24:00-07:00", "a:b-c:d"]
        {
            let error = wrong.parse::<Hours>().unwrap_err().to_string();
            assert!(error.contains("22:00-07:00"), "{wrong}: {error}");
        }
    }

    #[test]
    fn sizes_need_a_unit() {
        for (text, bytes, shown) in [
            ("20GB", 20_000_000_000, "20GB"),
            (" 512 MiB ", 512 << 20, "512MiB"),
            ("1tb", 1_000_000_000_000, "1TB"),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, shown));
            assert_eq!(size.to_string().parse::<Size>().unwrap(), size);
        }
        assert_eq!(Size(1_234_567_891).to_string(), "1.2 GB");
        for wrong in ["", "20", "0GB", "-1GB", "1.5GB", "99999999999999999999GB", "99999999999TiB", "many"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }
}
