//! Rates of data as people write them: `40mbit`, `5MB/s`, `1.5 GiB/s`, `12500000`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// Units, with the bytes per second that one of them is. Bits come in powers of 1000, as links are sold.
const UNITS: [(&str, f64); 12] = [
    ("", 1.0),
    ("b", 1.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("bit", 0.125),
    ("kbit", 125.0),
    ("mbit", 125e3),
    ("gbit", 125e6),
];
/// The largest rate that can be written: 1 TB/s is no link that anybody has, and stays
/// exact in floating point.
const MAX: f64 = 1e12;

/// The lowest cap of an upload or download: most who set less meant a larger unit.
pub const MIN_RATE: BytesPerSec = BytesPerSec(1_000);

/// A cap below [`MIN_RATE`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{setting} is {found}, and below {MIN_RATE} nothing gets through; write a unit, such as 40mbit or 5MB/s"
)]
pub struct LowRate {
    /// The setting's name, such as `max_upload`.
    pub setting: &'static str,
    /// Its value.
    pub found: BytesPerSec,
}

/// A rate of data in bytes per second.
///
/// Written with a unit of bits (`40mbit`, `40mbit/s`) or bytes (`5MB/s`, `5MiB`); a bare number
/// counts bytes. Bits are spelled out, bytes have a capital B, and other capitals do not matter: a
/// small `b` alone is refused, since who writes `40mb` for a link of 40 Mbit/s would get a cap
/// eight times as wide. Messages between peers carry the bare number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BytesPerSec(pub u64);

/// A text that is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Not a number with a unit, or out of range.
    #[error(
        "{0:?} is no rate: write a number above 0 with a unit, such as 40mbit, 5MB/s, 1.5MiB/s or 1gbit (at most 1000 GB/s)"
    )]
    Form(String),
    /// A small `b` that may mean bits or bytes.
    #[error("{0:?} may mean bits or bytes (write bits as 40mbit, bytes as 5MB)")]
    Ambiguous(String),
}

impl BytesPerSec {
    /// The rate in bits per second.
    pub fn bits(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// Whether `setting` may cap what goes over a link to this rate.
    ///
    /// # Errors
    /// [`LowRate`] where nothing would get through.
    pub fn check_cap(self, setting: &'static str) -> Result<(), LowRate> {
        if self < MIN_RATE { Err(LowRate { setting, found: self }) } else { Ok(()) }
    }
}

impl FromStr for BytesPerSec {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let excerpt = || text.chars().take(40).collect();
        let fail = || RateError::Form(excerpt());
        let lower = text.trim().to_ascii_lowercase();
        let rate = lower.strip_suffix("/s").unwrap_or(&lower);
        let digits = rate.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rate.len());
        let (number, unit) = rate.split_at(digits);
        let unit = unit.trim();
        let number: f64 = number.parse().map_err(|_| fail())?;
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(fail)?;
        let bytes = (number * scale).round();
        if !(1.0..=MAX).contains(&bytes) {
            return Err(fail());
        }
        let small_b = unit.ends_with('b') && text.contains('b');
        if small_b { Err(RateError::Ambiguous(excerpt())) } else { Ok(Self(bytes as u64)) }
    }
}

impl fmt::Display for BytesPerSec {
    /// In the largest unit of bits that shows the rate exactly, as it can be read back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = [("gbit", 125_000_000), ("mbit", 125_000), ("kbit", 125)];
        match unit.into_iter().find(|(_, bytes)| self.0 > 0 && self.0.is_multiple_of(*bytes)) {
            Some((unit, bytes)) => write!(f, "{}{unit}", self.0 / bytes),
            None => write!(f, "{}B/s", self.0),
        }
    }
}

impl Serialize for BytesPerSec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for BytesPerSec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = BytesPerSec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rate such as \"40mbit\" or \"5MB/s\", or a number of bytes per second")
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<BytesPerSec, E> {
                Ok(BytesPerSec(bytes))
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<BytesPerSec, E> {
                u64::try_from(bytes)
                    .map(BytesPerSec)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<BytesPerSec, E> {
                text.parse().map_err(E::custom)
            }
        }
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(Visitor)
        } else {
            deserializer.deserialize_u64(Visitor)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::codec;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("40mbit", 5_000_000),
            ("40 Mbit/s", 5_000_000),
            ("5MB/s", 5_000_000),
            ("1.5MiB", 1_572_864),
            ("1gbit", 125_000_000),
            ("12500000", 12_500_000),
            ("800bit/s", 100),
        ] {
            assert_eq!(text.parse(), Ok(BytesPerSec(bytes)), "{text}");
        }
        for text in
            ["", "fast", "40", "-1mbit", "40mbps", "0mbit", "1e3mbit", "nan", "9999999gbit", "1.2.3mb"]
        {
            assert_eq!(text.parse::<BytesPerSec>().is_ok(), text == "40", "{text}");
        }
        for text in ["40mb", "40Mb/s", "5 kib", "1.5gb", "100b"] {
            assert_eq!(text.parse::<BytesPerSec>(), Err(RateError::Ambiguous(text.to_owned())));
        }
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for (bytes, shown) in
            [(5_000_000, "40mbit"), (125_000_000, "1gbit"), (1_001, "1001B/s"), (250, "2kbit")]
        {
            assert_eq!(BytesPerSec(bytes).to_string(), shown);
            assert_eq!(shown.parse(), Ok(BytesPerSec(bytes)));
        }
    }

    #[test]
    fn a_cap_at_which_nothing_gets_through_is_refused_with_its_setting() {
        assert_eq!(MIN_RATE.check_cap("max_upload"), Ok(()));
        let refused = BytesPerSec(999).check_cap("max_upload").unwrap_err().to_string();
        assert!(
            refused.starts_with("max_upload is 999B/s, and below 8kbit nothing gets through"),
            "{refused}"
        );
    }

    #[test]
    fn files_hold_text_or_number_and_messages_the_number() {
        let rate = BytesPerSec(5_000_000);
        assert_eq!(serde_json::to_string(&rate).unwrap(), "\"40mbit\"");
        assert_eq!(serde_json::from_str::<BytesPerSec>("5000000").unwrap(), rate);
        assert!(serde_json::from_str::<BytesPerSec>("-5").is_err());
        assert_eq!(codec::encode(&rate, 16).unwrap(), codec::encode(&5_000_000u64, 16).unwrap());
        assert_eq!(codec::decode::<BytesPerSec>(&codec::encode(&rate, 16).unwrap(), 16).unwrap(), rate);
    }
}
