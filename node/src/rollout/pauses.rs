//! When the owner wants this machine for other things.

use chrono::{DateTime, Local, Timelike as _, Utc};
use echo_protocol::wire::time::UnixMillis;

use crate::devices::power;
use crate::settings::{Hours, OnBattery, Settings};

/// The times in which this node takes no work.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    hours: Option<Hours>,
    on_battery: OnBattery,
}

impl Pauses {
    /// As the owner's settings say.
    pub fn of(settings: &Settings) -> Self {
        Self { hours: settings.hours, on_battery: settings.on_battery }
    }

    /// Why there is a pause at `now`; `None` where there is none.
    pub fn reason(&self, now: UnixMillis) -> Option<String> {
        self.reason_at(minute_of_day(now), power::on_battery)
    }

    fn reason_at(&self, minute: u16, on_battery: impl FnOnce() -> bool) -> Option<String> {
        match self.hours {
            Some(hours) if !hours.contain(minute) => Some(format!("until the hours of {hours}")),
            _ if self.on_battery == OnBattery::Pause && on_battery() => Some("on battery".to_owned()),
            _ => None,
        }
    }
}

/// Minutes since midnight, in local time.
fn minute_of_day(now: UnixMillis) -> u16 {
    let moment =
        i64::try_from(now.0).ok().and_then(DateTime::<Utc>::from_timestamp_millis).unwrap_or_default();
    let local = moment.with_timezone(&Local);
    // Less than 1,440.
    (local.hour() * 60 + local.minute()) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_outside_of_the_hours_or_on_battery() {
        let pauses = |hours: Option<&str>, on_battery| Pauses {
            hours: hours.map(|hours| hours.parse().unwrap()),
            on_battery,
        };
        let night = pauses(Some("22:00-07:00"), OnBattery::Work);
        assert_eq!(night.reason_at(12 * 60, || true).as_deref(), Some("until the hours of 22:00-07:00"));
        assert_eq!(night.reason_at(23 * 60, || true), None);
        let plugged = pauses(None, OnBattery::Pause);
        assert_eq!(plugged.reason_at(0, || true).as_deref(), Some("on battery"));
        assert_eq!(plugged.reason_at(0, || false), None);
    }

    #[test]
    fn the_minute_of_the_day_goes_on_by_minutes() {
        let at = |minutes: u64| i64::from(minute_of_day(UnixMillis(1_800_000_000_000 + minutes * 60_000)));
        // Zones differ by whole minutes, and a day is a day.
        assert_eq!((at(17) - at(0)).rem_euclid(24 * 60), 17);
        assert!((0..24 * 60).contains(&at(0)));
    }
}
