//! What a bench ran on.

use serde_json::{Value, json};

/// Processor, cores and system of this machine.
pub(super) fn describe() -> Value {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpu.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map_or("unknown", |(_, value)| value.trim()).to_owned()
    };
    let flags = field("flags");
    let has = |flag: &str| flags.split(' ').any(|found| found == flag);
    json!({
        "cpu": field("model name"),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "avx2": has("avx2"),
        "avx512f": has("avx512f"),
        "system": std::env::consts::OS,
    })
}
