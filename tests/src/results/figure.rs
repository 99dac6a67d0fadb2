//! What was measured of a goal: a number, or whether something holds.

use serde::Deserialize;

/// A figure that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a figure is a number, true or false")]
pub enum Figure {
    /// Whether what the goal says holds.
    Holds(bool),
    /// A number, in the unit of its goal.
    Number(f64),
}

impl From<bool> for Figure {
    fn from(holds: bool) -> Self {
        Self::Holds(holds)
    }
}

impl From<f64> for Figure {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}
