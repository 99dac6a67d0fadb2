//! What an hour of a machine costs, as people write it: `0.35`, `$3.06`, `2.90/h`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Millionths of a dollar in a dollar.
const MICRO: f64 = 1e6;
/// The highest price: no machine costs more than a million dollars an hour.
const HIGHEST: f64 = 1e6;

/// Dollars an hour, kept in millionths: whole numbers are the same everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Price(pub u64);

/// A text that is no price.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no price: write dollars an hour, such as \"0.35\" (at most 1000000)")]
pub struct NoPrice(String);

impl Price {
    /// The price in dollars an hour.
    #[must_use]
    pub fn usd_per_hour(self) -> f64 {
        self.0 as f64 / MICRO
    }
}

impl FromStr for Price {
    type Err = NoPrice;

    fn from_str(text: &str) -> Result<Self, NoPrice> {
        let trimmed = text.trim().trim_start_matches('$');
        let number = trimmed.strip_suffix("/h").unwrap_or(trimmed).trim();
        let dollars = number.parse::<f64>().ok().filter(|dollars| (0.0..=HIGHEST).contains(dollars));
        let fail = || NoPrice(text.chars().take(40).collect());
        dollars.map(|dollars| Self((dollars * MICRO).round() as u64)).ok_or_else(fail)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.usd_per_hour())
    }
}

impl TryFrom<String> for Price {
    type Error = NoPrice;

    fn try_from(text: String) -> Result<Self, NoPrice> {
        text.parse()
    }
}

impl From<Price> for String {
    fn from(price: Price) -> Self {
        price.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_as_people_write_them() {
        for text in ["0.35", "$0.35", " 0.35/h ", "0.350"] {
            assert_eq!(text.parse(), Ok(Price(350_000)), "{text}");
        }
        assert_eq!(Price(350_000).to_string(), "0.35");
        assert_eq!("0".parse(), Ok(Price(0)));
        for wrong in ["", "-1", "NaN", "inf", "1e9", "0,35", "cheap"] {
            assert!(wrong.parse::<Price>().is_err(), "{wrong}");
        }
    }
}
