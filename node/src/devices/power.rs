//! Whether this machine runs on its battery.

use std::fs;
use std::path::Path;

/// Where Linux lists batteries and plugs. Other systems have no such directory, and count as plugged in.
const SUPPLIES: &str = "/sys/class/power_supply";

/// Whether a battery is being emptied and nothing is plugged in.
pub fn on_battery() -> bool {
    is_discharging(Path::new(SUPPLIES))
}

fn is_discharging(supplies: &Path) -> bool {
    let mut discharging = false;
    for supply in fs::read_dir(supplies).into_iter().flatten().flatten() {
        let says = |name: &str, value: &str| {
            fs::read_to_string(supply.path().join(name)).is_ok_and(|text| text.trim() == value)
        };
        // The battery of a mouse says nothing of the machine.
        let is_own = !says("scope", "Device");
        if says("online", "1") && !says("type", "Battery") {
            return false;
        }
        discharging |= is_own && says("type", "Battery") && says("status", "Discharging");
    }
    discharging
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_battery_counts_only_while_it_is_emptied_and_nothing_is_plugged_in() {
        let dir = tempfile::tempdir().unwrap();
        let say = |supply: &str, name: &str, value: &str| {
            fs::create_dir_all(dir.path().join(supply)).unwrap();
            fs::write(dir.path().join(supply).join(name), format!("{value}\n")).unwrap();
        };
        assert!(!is_discharging(dir.path()), "a desktop computer");
        say("hidpp_battery_0", "type", "Battery");
        say("hidpp_battery_0", "scope", "Device");
        say("hidpp_battery_0", "status", "Discharging");
        assert!(!is_discharging(dir.path()), "a mouse");
        say("BAT0", "type", "Battery");
        say("BAT0", "status", "Discharging");
        say("AC", "type", "Mains");
        say("AC", "online", "0");
        assert!(is_discharging(dir.path()));
        say("AC", "online", "1");
        assert!(!is_discharging(dir.path()));
        say("AC", "online", "0");
        say("BAT0", "status", "Full");
        assert!(!is_discharging(dir.path()));
        assert!(!is_discharging(&dir.path().join("nowhere")));
    }
}
