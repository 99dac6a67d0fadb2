//! The one place that reads clocks. Drivers call it and hand the result to the machines.
//!
//! Two machines seldom agree what time it is, and an owner may set a clock at any moment. So leases, timers
//! and ages go by [`now`], which nobody can set; [`wall`] is for what people and lists write down.

use crate::wire::time::UnixMillis;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The time of this process: that of the wall clock when it was first asked for, and what has passed since.
///
/// It never steps, and counts while the machine sleeps where the system can (Linux). Only its order and its
/// differences mean anything to others.
pub fn now() -> UnixMillis {
    static BEGAN: OnceLock<(UnixMillis, u64)> = OnceLock::new();
    let (began, before) = *BEGAN.get_or_init(|| (wall(), awake()));
    began.plus(awake().saturating_sub(before))
}

/// The wall clock; the epoch itself when the system's clock is set before 1970.
#[allow(clippy::disallowed_methods)] // The ban exists so that this stays the only reader.
pub fn wall() -> UnixMillis {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    seam::shifted(UnixMillis(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)))
}

/// Milliseconds of a clock that nobody sets.
#[cfg(target_os = "linux")]
fn awake() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    // Never fails: Linux has this clock since 2.6.39.
    let since = clock_gettime(ClockId::Boottime);
    (since.tv_sec as u64).saturating_mul(1_000).saturating_add(since.tv_nsec as u64 / 1_000_000)
}

#[cfg(not(target_os = "linux"))]
fn awake() -> u64 {
    static BEGAN: OnceLock<std::time::Instant> = OnceLock::new();
    let began = BEGAN.get_or_init(std::time::Instant::now);
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// How tests set the wall clock of one process: a file with the milliseconds to add, which is
/// read anew each time.
#[cfg(debug_assertions)]
mod seam {
    use super::UnixMillis;

    pub(super) fn shifted(wall: UnixMillis) -> UnixMillis {
        let shift = std::env::var_os("ECHO_TEST_CLOCK").and_then(|path| std::fs::read_to_string(path).ok());
        let shift = shift.and_then(|text| text.trim().parse::<i64>().ok()).unwrap_or(0);
        UnixMillis(wall.0.saturating_add_signed(shift))
    }
}

#[cfg(not(debug_assertions))]
mod seam {
    pub(super) use std::convert::identity as shifted;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_process_begins_at_the_wall_clock_and_goes_on() {
        let (before, wall) = (now(), wall());
        assert!(wall.0.abs_diff(before.0) < 60_000, "{before:?} {wall:?}");
        std::thread::sleep(std::time::Duration::from_millis(3));
        assert!(now().since(before) >= 3);
    }
}
