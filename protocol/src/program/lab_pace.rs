//! The pace that the lab sets for a program, so that a study of times does not depend on the machine.
//!
//! A variable of the environment names the least time that a piece of work takes. Without it, which is how
//! everybody but the lab starts programs, work takes what it takes.

use std::time::Duration;

use crate::wire::content_id::ContentId;
use crate::wire::rng::Draws;

/// Least time that a node takes for an order, in milliseconds: the mean of a log-normal distribution.
pub const ORDER_MS: &str = "ECHO_LAB_ORDER_MS";
/// Least time that a learner takes for an update, in milliseconds.
pub const UPDATE_MS: &str = "ECHO_LAB_UPDATE_MS";

/// Spread of order times, as the standard deviation of their logarithms: one in twenty takes twice the mean.
const SIGMA: f64 = 0.5;
/// Longest mean, in milliseconds: an hour.
const MAX_MS: u64 = 3_600_000;

/// The least time of the order of this number, if the lab sets one. A number always has the same.
pub fn order(counter: u64) -> Option<Duration> {
    let mean_ms = millis(std::env::var(ORDER_MS).ok().as_deref())?;
    Some(order_time(mean_ms, counter))
}

/// The least time of an update, if the lab sets one.
pub fn update() -> Option<Duration> {
    millis(std::env::var(UPDATE_MS).ok().as_deref()).map(Duration::from_millis)
}

/// What a variable says; nothing where it is no number of milliseconds.
fn millis(text: Option<&str>) -> Option<u64> {
    text?.parse().ok().filter(|millis| (1..=MAX_MS).contains(millis))
}

fn order_time(mean_ms: u64, counter: u64) -> Duration {
    let mut draws = Draws::new(*ContentId::of(&counter.to_le_bytes()).as_bytes());
    let mut unit = || (draws.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    // Box and Muller; 1 less the draw is never 0.
    let (first, second) = (unit(), unit());
    let normal = (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos();
    let seconds = mean_ms as f64 / 1e3 * (SIGMA * normal - SIGMA * SIGMA / 2.0).exp();
    Duration::from_secs_f64(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_of_milliseconds_sets_a_pace() {
        assert_eq!(millis(Some("250")), Some(250));
        for none in [None, Some(""), Some("0"), Some("fast"), Some("-1"), Some("3600001")] {
            assert_eq!(millis(none), None, "{none:?}");
        }
    }

    #[test]
    fn order_times_have_their_mean_and_a_number_has_one() {
        let times: Vec<f64> = (0..4_000).map(|order| order_time(200, order).as_secs_f64()).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert!((mean - 0.2).abs() < 0.01, "{mean}");
        let long = times.iter().filter(|time| **time > 0.4).count();
        assert!((100..400).contains(&long), "{long} of 4,000 take twice the mean");
        assert_eq!(order_time(200, 7), order_time(200, 7));
    }
}
