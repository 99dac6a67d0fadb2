//! By which algorithm TCP decides how much it sends: every namespace has a setting of its own.

use std::fs;
use std::io;

const SETTING: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The algorithm in the namespace of this thread; `None` where the system does not say.
#[must_use]
pub fn congestion() -> Option<String> {
    fs::read_to_string(SETTING).ok().map(|name| name.trim().to_owned())
}

/// Sets it in the namespace of this thread, for connections that are made from then on. The kernel
/// loads what it has as a module.
pub(super) fn set(name: &str) -> io::Result<()> {
    fs::write(SETTING, name)
}

/// Those that are loaded, as the kernel lists them.
pub(super) fn available() -> String {
    fs::read_to_string(AVAILABLE).map_or_else(|_| "unknown".to_owned(), |names| names.trim().to_owned())
}
